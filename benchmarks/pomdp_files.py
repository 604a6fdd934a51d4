"""A reader of ``.POMDP`` files (Cassandra's format), as far as `systems.py` needs: where states lead, what they show.

Rewards are passed over. The format has the observation shown by the state that an action reaches.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import unlatch

SECTIONS = ("discount", "values", "states", "actions", "observations", "start", "T", "O", "R")

ROUNDING = 1e-3
"""By how much the entries of a row may fail to add up to one: files write thirds as 0.333333."""


def read_pomdp_file(path: Path) -> unlatch.POMDP:
    """The model of a file. What cannot be read is a ``ValueError`` that names the file and the place."""
    try:
        return _model(_sections(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(f"{path}: {error}") from None


def _sections(text: str) -> list[tuple[str, list[str]]]:
    """The file as sections: the name of each and the words after its colon."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    words = " ".join(lines).replace(":", " : ").split()
    sections: list[tuple[str, list[str]]] = []
    place = 0
    while place < len(words):
        word, before = words[place], words[place - 1] if place else ""
        colon = place + 1 if word != "start" or words[place + 1] == ":" else place + 2
        if word in SECTIONS and before != ":" and words[colon : colon + 1] == [":"]:
            kind = " ".join(words[place:colon])
            sections.append((kind, []))
            place = colon + 1
            continue
        if not sections:
            raise ValueError(f"expected a section such as 'states:', got {word!r}")
        sections[-1][1].append(word)
        place += 1
    return sections


def _model(sections: list[tuple[str, list[str]]]) -> unlatch.POMDP:
    preamble = dict(sections)
    names = {kind: _names(preamble[kind]) for kind in ("states", "actions", "observations")}
    states, actions, observations = (len(names[kind]) for kind in ("states", "actions", "observations"))
    tables = {"T": np.zeros((actions, states, states)), "O": np.zeros((actions, states, observations))}
    axes = {"T": ("actions", "states", "states"), "O": ("actions", "states", "observations")}
    for kind, words in sections:
        if kind in tables:
            _fill(tables[kind], words, [names[axis] for axis in axes[kind]])
    return unlatch.POMDP(
        transitions=_rows("T", tables["T"]),
        observations=_rows("O", tables["O"]),
        initial=_start(preamble, names["states"]),
        emission="arrival",
        action_names=names["actions"],
        observation_names=names["observations"],
        state_names=names["states"],
    )


def _names(words: list[str]) -> tuple[str, ...]:
    """As listed, or numbers if only how many there are is given."""
    return tuple(map(str, range(int(words[0])))) if len(words) == 1 and words[0].isdigit() else tuple(words)


def _place(word: str, names: tuple[str, ...]) -> int | slice:
    if word == "*":
        return slice(None)
    if word in names:
        return names.index(word)
    if word.isdigit() and int(word) < len(names):
        return int(word)
    raise ValueError(f"{word!r} is none of {', '.join(names[:12])}")


def _fill(table: np.ndarray, words: list[str], names: list[tuple[str, ...]]) -> None:
    """Set what one entry speaks of: a matrix, a row or a single number, of one action, state, or of all (``*``)."""
    header = 1
    while words[header : header + 1] == [":"]:
        header += 2
    places = tuple(_place(word, own) for word, own in zip(words[:header:2], names, strict=False))
    values = words[header:]
    shape = table.shape[len(places) :]
    table[places] = _values(values, shape)


def _values(words: list[str], shape: tuple[int, ...]) -> np.ndarray | float:
    if words == ["uniform"]:
        return np.full(shape, 1 / shape[-1])
    if words == ["identity"] and len(shape) == 2:
        return np.eye(shape[0])
    if len(words) != int(np.prod(shape)):
        raise ValueError(f"expected {int(np.prod(shape))} numbers, got {len(words)}: {' '.join(words[:8])}")
    return np.array([float(word) for word in words]).reshape(shape)


def _rows(kind: str, table: np.ndarray) -> np.ndarray:
    totals = table.sum(axis=2, keepdims=True)
    if (np.abs(totals - 1) > ROUNDING).any():
        action, state, _ = np.argwhere(np.abs(totals - 1) > ROUNDING)[0]
        raise ValueError(
            f"{kind}: action {action}, state {state}: the row adds up to {totals[action, state, 0]:g}"
        )
    return table / totals


def _start(preamble: dict[str, list[str]], states: tuple[str, ...]) -> np.ndarray:
    chosen = np.ones(len(states))
    if "start include" in preamble or "start exclude" in preamble:
        included = "start include" in preamble
        listed = preamble["start include" if included else "start exclude"]
        chosen[:] = not included
        chosen[[states.index(word) if word in states else int(word) for word in listed]] = included
    elif "start" in preamble:
        words = preamble["start"]
        if words == ["uniform"]:
            pass
        elif len(words) == 1 and len(states) > 1:
            chosen = np.eye(len(states))[states.index(words[0]) if words[0] in states else int(words[0])]
        else:
            chosen = np.array([float(word) for word in words])
    return chosen / chosen.sum()
