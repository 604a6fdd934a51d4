"""XML as a small tree with line numbers, read without any of what makes XML dangerous.

A document type is refused where it begins, so that there are no entities to expand and nothing outside the file to
fetch; depth and number of elements are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from unlatch.errors import ModelFileError

__all__ = ["Element", "escaped", "parse_xml"]

_DEEPEST = 200
_MOST_ELEMENTS = 1 << 21
_CONTROLS = {code: f"&#{code};" for code in (9, 10, 13)}


@dataclass(eq=False)
class Element:
    """A tag with its attributes, the text directly inside and the elements inside."""

    tag: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[Element]:
        """The elements directly inside that have a tag."""
        return (child for child in self.children if child.tag == tag)

    def first(self, tag: str) -> Element | None:
        return next(self.all(tag), None)

    def words(self) -> list[str]:
        return self.text.split()


class _Refusal(Exception):
    """Raised inside the parser's callbacks, which know the line only through the parser."""


class _Builder:
    """Collects elements as the parser meets them."""

    def __init__(self, parser: expat.XMLParserType) -> None:
        self._parser = parser
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._count = 0
        self.root: Element | None = None
        self.comments: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) >= _DEEPEST or self._count > _MOST_ELEMENTS:
            raise _Refusal("more elements than any model has, or nested too deep")
        element = Element(tag, attributes, self._parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def end(self, _: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def text(self, data: str) -> None:
        if self._texts:
            self._texts[-1].append(data)

    def comment(self, data: str) -> None:
        self.comments.append(data)

    def doctype(self, *_: object) -> None:
        raise _Refusal("a document type is refused: it could hold entities without end, or fetch other files")


def parse_xml(data: bytes, where: str) -> tuple[Element, list[str]]:
    """The root element of a document and its comments, or a `ModelFileError` that names the line."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    builder = _Builder(parser)
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler, parser.CommentHandler = builder.text, builder.comment
    parser.StartDoctypeDeclHandler = builder.doctype
    parser.EntityDeclHandler = builder.doctype
    try:
        parser.Parse(data, True)
    except _Refusal as refusal:
        line = parser.CurrentLineNumber
        raise ModelFileError(f"{where}: line {line}: {refusal}", line=line) from None
    except expat.ExpatError as error:
        raise ModelFileError(f"{where}: line {error.lineno}: no XML: {error}", line=error.lineno) from None
    except (LookupError, ValueError) as error:  # an encoding that nobody knows
        raise ModelFileError(f"{where}: no XML: {error}", line=1) from None
    if builder.root is None:
        raise ModelFileError(f"{where}: no XML: the file has no element", line=1)
    return builder.root, builder.comments


def escaped(text: str) -> str:
    """Text as it may stand between tags and inside attributes."""
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(sign, name)
    return text.translate(_CONTROLS)
