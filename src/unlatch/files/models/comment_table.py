"""What other people's formats have no place for, kept in a comment that only unlatch reads.

The comment is one line of JSON after a mark: the true names of what had to be written under a safe name, which states
are terminal, which actions were never tried, what is shown before the first action. A file that was edited so that the
comment no longer fits it is refused: whoever edits one can remove the comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unlatch.core.pomdp import POMDP
from unlatch.errors import DataError, ModelFileError
from unlatch.files import strict_json

__all__ = ["MARK", "CommentTable", "find_table", "safe_names", "table_of", "table_text"]

MARK = "unlatch-names:"

_LINE = re.compile(r"^# unlatch-names: ([^\n\r]*+)", re.MULTILINE)
_SAFE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_UNSAFE_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
_KINDS = ("states", "actions", "observations")
_KNOWN = (*_KINDS, "terminal", "untried", "symbol_rewards", "first_observations", "first_observation_names")


@dataclass(frozen=True)
class CommentTable:
    """What a comment of ours says; empty if there is none."""

    content: Mapping[str, Any] = field(default_factory=dict)

    def names(self, kind: str, written: Sequence[str]) -> tuple[str, ...]:
        """The true names of what a file calls ``written``."""
        true = _texts(self.content.get(kind, {}), kind)
        unknown = set(true) - set(written)
        if unknown:
            raise DataError(f"the comment '{MARK}' speaks of {min(unknown)!r}, which is none of the {kind}")
        return tuple(true.get(name, name) for name in written)

    def fields(self, states: Sequence[str], actions: Sequence[str]) -> dict[str, Any]:
        """Further fields of the POMDP."""
        rows, rewards = (self.content.get(key) for key in ("first_observations", "symbol_rewards"))
        if not isinstance(rows, list | None) or not isinstance(rewards, list | None):
            raise DataError(f"the comment '{MARK}': first_observations and symbol_rewards must be lists")
        given: dict[str, Any] = {
            "terminal": tuple(self._codes("terminal", states)),
            "untried_actions": tuple(
                self.names("actions", actions)[code] for code in self._codes("untried", actions)
            ),
        }
        if rewards is not None:
            given["symbol_rewards"] = rewards
        if rows is not None:
            given["first_observations"] = rows
            given["first_observation_names"] = self.content.get("first_observation_names")
        return given

    def _codes(self, key: str, written: Sequence[str]) -> list[int]:
        listed = self.content.get(key, [])
        place = {name: code for code, name in enumerate(written)}
        if not isinstance(listed, list) or not all(
            isinstance(name, str) and name in place for name in listed
        ):
            raise DataError(f"the comment '{MARK}': {key} must be a list of names that the file knows")
        return [place[name] for name in listed]


def find_table(text: str, where: str) -> CommentTable:
    """The table of a text; empty if it has none, `ModelFileError` if it is none of ours."""
    found = _LINE.search(text)
    return CommentTable() if found is None else parsed_table(found[1], f"{where}: the comment '{MARK}'")


def parsed_table(line: str, where: str) -> CommentTable:
    """The table that a line of JSON holds."""
    content = strict_json.parse(line.strip().encode(), where)
    if not isinstance(content, dict) or not set(content) <= set(_KNOWN):
        raise ModelFileError(f"{where}: not as unlatch writes it; remove the line to read the file without")
    return CommentTable(content)


def _texts(value: Any, kind: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise DataError(f"the comment '{MARK}': {kind} must give a name for every name")
    return value


def safe_names(names: Sequence[str], letter: str, reserved: Collection[str]) -> tuple[str, ...]:
    """Names that every reader takes: those that are so already, and others with what is not allowed replaced, made
    different by a number where that is needed."""
    taken = {name for name in names if _is_safe(name, reserved)}
    result = []
    for code, name in enumerate(names):
        if _is_safe(name, reserved):
            result.append(name)
            continue
        stem = _UNSAFE_CHARACTER.sub("_", name)[:60]
        safe = (
            stem
            if _is_safe(stem, reserved)
            else f"{letter}{code}"
            if name == str(code)
            else f"{letter}_{stem}"
        )
        while safe in taken or not _is_safe(safe, reserved):
            safe = f"{safe}_{code}"
        taken.add(safe)
        result.append(safe)
    return tuple(result)


def _is_safe(name: str, reserved: Collection[str]) -> bool:
    return _SAFE.fullmatch(name) is not None and name not in reserved


def table_of(pomdp: POMDP, written: Mapping[str, Sequence[str]]) -> CommentTable:
    """What a file has to say about a model beside what its format holds; ``written`` has the names as written."""
    true = {
        "states": pomdp.state_names,
        "actions": pomdp.action_names,
        "observations": pomdp.observation_names,
    }
    content: dict[str, Any] = {
        kind: {own: name for own, name in zip(written[kind], true[kind], strict=True) if own != name}
        for kind in true
    }
    content["terminal"] = [written["states"][state] for state in pomdp.terminal]
    content["untried"] = [
        written["actions"][pomdp.action_names.index(action)] for action in pomdp.untried_actions
    ]
    if pomdp.symbol_rewards is not None:
        content["symbol_rewards"] = pomdp.symbol_rewards.tolist()
    if pomdp.first_observations is not None:
        content["first_observations"] = pomdp.first_observations.tolist()
        content["first_observation_names"] = list(pomdp.first_observation_names)
    return CommentTable({key: value for key, value in content.items() if value})


def table_text(table: CommentTable) -> str:
    """The table as one line of ASCII, or nothing if it is empty."""
    return f"{MARK} {json.dumps(table.content)}" if table.content else ""
