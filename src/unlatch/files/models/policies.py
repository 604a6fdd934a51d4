"""Value functions that solvers write: ``.alpha`` (pomdp-solve), ``.policy`` and ``.policyx`` (APPL, SARSOP)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.alpha_vectors import AlphaVectors
from unlatch.errors import ModelFileError, ResourceLimitError, UnlatchError, UsageError
from unlatch.files.atomic import PathLike, checked_path, read_regular_file, write_atomically
from unlatch.files.models.export import plain_number
from unlatch.files.models.xml_tree import Element, parse_xml

__all__ = ["load_policy", "save_policy"]

_MOST_BYTES = 1 << 28
_SIGNS = re.compile(r"[0-9.eE+-]*+")
_LONGEST_NUMBER = 1200
_MOST_DIGITS = 9
"""Of an action or a state."""


def load_policy(path: PathLike) -> AlphaVectors:
    """Read a value function: ``.alpha``, or ``.policy`` and ``.policyx`` (XML).

    Actions and states are numbers, in the order of the model file that was solved. Raises `ModelFileError` for a file
    that is damaged or says something else, also for policies of models with fully observed variables.

    Examples
    --------
    >>> import os, tempfile, unlatch
    >>> plans = unlatch.AlphaVectors([[0.0, 10.0], [6.0, 6.0]], [1, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     unlatch.save_policy(os.path.join(folder, "plan.alpha"), plans)
    ...     unlatch.load_policy(os.path.join(folder, "plan.alpha")) == plans
    True
    """
    where = checked_path(path)
    is_text = _is_text(where)
    data = read_regular_file(path, largest=_MOST_BYTES)
    try:
        vectors, actions = _read_alpha(data, where) if is_text else _read_xml(data, where)
        return AlphaVectors(np.array(vectors), np.array(actions, dtype=np.int64))
    except (ModelFileError, ResourceLimitError):
        raise
    except UnlatchError as error:
        raise ModelFileError(f"{where}: {error}") from None


def save_policy(path: PathLike, vectors: AlphaVectors) -> None:
    """Write a value function, whole or not at all: ``.alpha``, or ``.policy`` and ``.policyx`` (XML).

    Examples
    --------
    >>> import unlatch
    >>> vectors = unlatch.AlphaVectors([[1.0, 0.0], [0.0, 1.0]], actions=[0, 1])
    >>> unlatch.save_policy("policy.alpha", vectors)
    >>> unlatch.load_policy("policy.alpha")
    AlphaVectors(2 vectors, 2 states)
    """
    where = checked_path(path)
    if not isinstance(vectors, AlphaVectors):
        raise UsageError(f"expected AlphaVectors, got {type(vectors).__name__}")
    lines = _alpha_lines(vectors) if _is_text(where) else _xml_lines(vectors)
    write_atomically(path, "".join(lines).encode("ascii"))


def _is_text(where: str) -> bool:
    ending = os.path.splitext(where)[1].lower()
    if ending not in (".alpha", ".policy", ".policyx"):
        raise UsageError(f"{where}: a policy is a file whose name ends in .alpha, .policy or .policyx")
    return ending == ".alpha"


def _numbers(values: Floats) -> str:
    return " ".join(map(plain_number, values.tolist()))


def _alpha_lines(vectors: AlphaVectors) -> Iterator[str]:
    for action, vector in zip(vectors.actions.tolist(), vectors.vectors, strict=True):
        yield f"{action}\n{_numbers(vector)}\n\n"


def _xml_lines(vectors: AlphaVectors) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="ISO-8859-1"?>\n<Policy version="0.1" type="value" model="unknown">\n'
    yield f'<AlphaVector vectorLength="{vectors.n_states}" numObsValue="1" numVectors="{len(vectors)}">\n'
    for action, vector in zip(vectors.actions.tolist(), vectors.vectors, strict=True):
        yield f'<Vector action="{action}" obsValue="0">{_numbers(vector)}</Vector>\n'
    yield "</AlphaVector>\n</Policy>\n"


def _read_alpha(data: bytes, where: str) -> tuple[list[list[float]], list[int]]:
    """Lines in turn: the number of an action, then its vector; blank lines between."""
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{where}: byte {error.start} is no ASCII", line=1) from None
    filled = [(number, line.split()) for number, line in enumerate(lines, 1) if line.strip()]
    if not filled or len(filled) % 2:
        _refuse(where, len(lines), "expected pairs of lines: an action, and a number for every state")
    vectors, actions = [], []
    for (line, action), (following, vector) in zip(filled[::2], filled[1::2], strict=True):
        if len(action) != 1:
            _refuse(where, line, f"expected the number of an action, got {len(action)} numbers")
        actions.append(_index(action[0], where, line))
        vectors.append([_number(word, where, following) for word in vector])
        if len(vectors[-1]) != len(vectors[0]):
            _refuse(
                where, following, f"{len(vectors[-1])} numbers, where the first vector has {len(vectors[0])}"
            )
    return vectors, actions


def _read_xml(data: bytes, where: str) -> tuple[list[list[float]], list[int]]:
    root, _ = parse_xml(data, where)
    holder = root.first("AlphaVector") if root.tag == "Policy" else None
    if holder is None:
        _refuse(where, root.line, "expected <Policy> with <AlphaVector> inside")
    if holder.attributes.get("numObsValue", "1") != "1":
        _refuse(
            where,
            holder.line,
            "a policy for a model with fully observed variables, whose vectors speak of a part of the states each; "
            "solve the model as a .POMDP file, which has no such variables",
        )
    length = _index(holder.attributes.get("vectorLength", ""), where, holder.line)
    found = [child for child in holder.children if child.tag in ("Vector", "SparseVector")]
    if 8 * length * max(1, len(found)) > _MOST_BYTES:
        raise ResourceLimitError(f"{where}: {len(found)} vectors of {length} numbers are too many")
    vectors = [
        _sparse(child, length, where) if child.tag == "SparseVector" else _dense(child, where)
        for child in found
    ]
    actions = [_index(child.attributes.get("action", ""), where, child.line) for child in found]
    for child, vector in zip(found, vectors, strict=True):
        if len(vector) != length:
            _refuse(where, child.line, f"{len(vector)} numbers, where {length} were promised")
    if not found:
        _refuse(where, holder.line, "no <Vector>")
    return vectors, actions


def _dense(element: Element, where: str) -> list[float]:
    return [_number(word, where, element.line) for word in element.words()]


def _sparse(element: Element, length: int, where: str) -> list[float]:
    """Pairs of a state and a number, in elements of their own; zero elsewhere."""
    vector = [0.0] * length
    for entry in element.all("Entry"):
        words = entry.words()
        place = _index(words[0], where, entry.line) if len(words) == 2 else length
        if place >= length:
            _refuse(
                where, entry.line, f"expected a state below {length} and a number, got {entry.text[:40]!r}"
            )
        vector[place] = _number(words[1], where, entry.line)
    return vector


def _index(word: str, where: str, line: int) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS):
        _refuse(where, line, f"expected a whole number from 0, got {word[:40]!r}")
    return int(word)


def _number(word: str, where: str, line: int) -> float:
    try:
        if len(word) <= _LONGEST_NUMBER and _SIGNS.fullmatch(word):
            value = float(word)
            if np.isfinite(value):
                return value
    except ValueError:
        pass
    return _refuse(where, line, f"expected a number such as 0.25, got {word[:40]!r}")


def _refuse(where: str, line: int, reason: str) -> NoReturn:
    raise ModelFileError(f"{where}: line {line}: {reason}", line=line)
