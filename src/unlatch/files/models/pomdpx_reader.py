"""Reading POMDPX, the XML format of APPL and SARSOP, whose states, actions and observations may be made of variables.

All variables multiply out to one set of states, one of actions and one of observations. A state variable that is fully
observed is part of what is seen, also before the first action. Functions are tables or decision diagrams.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, NoReturn

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.checks import REPAIRABLE, ROUNDING
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import smallest_table
from unlatch.core.reward import Reward
from unlatch.errors import ModelFileError, ResourceLimitError, UnlatchError
from unlatch.files.models.comment_table import MARK, CommentTable, parsed_table
from unlatch.files.models.native import SavedModel, unreachable, with_repairs_noted
from unlatch.files.models.xml_tree import Element, parse_xml

__all__ = ["read_pomdpx"]

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 1200
_MOST_BYTES, _LEAST_BYTES, _BYTES_A_BYTE = 1 << 30, 1 << 27, 64
"""Memory for the tables: at most the first; of a short file the second, and the third for every byte of it."""

_MOST_VALUES = 1 << 20
_PREFIXES = {"StateVar": "s", "ActionVar": "a", "ObsVar": "o"}
_MOST_VARIABLES = 16
"""Fewer than NumPy has axes, also with state variables twice."""


@dataclass(frozen=True)
class _Variable:
    """A variable: its name (of a state variable the one before the action), its name after the action, its values."""

    name: str
    after: str
    values: tuple[str, ...]
    seen: bool


@dataclass(frozen=True)
class _Factor:
    """A function of some variables, one axis for each."""

    names: tuple[str, ...]
    table: Floats


def read_pomdpx(data: bytes, where: str) -> SavedModel:
    """The model, reward and discount of a POMDPX file, given by its bytes."""
    root, comments = parse_xml(data, where)
    table = next((c.strip()[len(MARK) :] for c in comments if c.strip().startswith(MARK)), None)
    ours = CommentTable() if table is None else parsed_table(table, f"{where}: the comment '{MARK}'")
    reader = _Reader(root, where, len(data))
    try:
        return reader.result(ours)
    except ModelFileError:
        raise
    except ResourceLimitError as error:
        raise ResourceLimitError(f"{where}: {error}") from None
    except UnlatchError as error:
        raise ModelFileError(f"{where}: {error}") from None


class _Reader:
    def __init__(self, root: Element, where: str, size: int) -> None:
        self._where = where
        self._allowed = min(_MOST_BYTES, _LEAST_BYTES + _BYTES_A_BYTE * size)
        if root.tag.lower() != "pomdpx":
            self.refuse(root, f"expected the root <pomdpx>, got <{root.tag[:40]}>")
        self._root = root
        self._notes = Diagnostics()

    # --- structure -------------------------------------------------------------------------------------

    def result(self, ours: CommentTable) -> SavedModel:
        """The whole model."""
        self._variables(self._section("Variable"))
        states, actions, shown = (
            _joined(self._states), _joined(self._actions), _joined((*self._seen, *self._observed))
        )  # fmt: skip
        self._check_sizes(len(states), len(actions), len(shown))
        start = self._checked("InitialStateBelief", self._initial(), ("states",), (states,))
        moves = self._checked(
            "StateTransitionFunction", self._transitions(), ("actions", "states"), (actions, states)
        )
        shows = self._checked("ObsFunction", self._shown(), ("actions", "states"), (actions, states))
        names = {
            "states": ours.names("states", states),
            "actions": ours.names("actions", actions),
            "observations": ours.names("observations", shown),
        }
        fields = {**self._first_observations(), **ours.fields(states, actions)}
        pomdp, repairs = with_repairs_noted(
            POMDP,
            "model",
            transitions=moves,
            observations=shows,
            initial=start,
            emission="arrival",
            action_names=names["actions"],
            observation_names=names["observations"],
            state_names=names["states"],
            **fields,
        )
        return SavedModel(
            pomdp=pomdp,
            reward=Reward.on_transitions(self._rewards()),
            discount=self._discount(),
            diagnostics=self._notes + repairs + unreachable(pomdp),
        )

    def _section(self, tag: str) -> Element:
        found = list(self._root.all(tag))
        if len(found) != 1:
            self.refuse(self._root, f"expected one <{tag}>, got {len(found)}")
        return found[0]

    def _discount(self) -> float:
        element = self._section("Discount")
        value = self.number(element, element.text.strip())
        if not 0 <= value <= 1:
            self.refuse(element, f"a discount is a number from 0 to 1, got {value:g}")
        if value == 1:
            self._notes = self._notes.noting(
                "undiscounted",
                "the discount is 1, which is for plans with a horizon: sums without end have no value",
            )
        return value

    def _variables(self, section: Element) -> None:
        kinds = {tag: tuple(self._variable(element) for element in section.all(tag)) for tag in _PREFIXES}
        self._states, self._actions, self._observed = (kinds[tag] for tag in _PREFIXES)
        self._seen = tuple(variable for variable in self._states if variable.seen)
        self._reward_names = {element.attributes.get("vname") for element in section.all("RewardVar")}
        if not self._states or not self._actions or not (self._observed or self._seen):
            self.refuse(section, "at least one StateVar, one ActionVar and one ObsVar are needed")
        names = [name for own in kinds.values() for v in own for name in {v.name, v.after}]
        if len(set(names)) < len(names):
            self.refuse(section, "two variables have the same name")
        if len(names) > _MOST_VARIABLES:
            raise ResourceLimitError(f"{len(names)} variables; at most {_MOST_VARIABLES} are multiplied out")
        self._domain = {name: v.values for own in kinds.values() for v in own for name in (v.name, v.after)}

    def _variable(self, element: Element) -> _Variable:
        own = element.attributes
        name = own.get("vnamePrev" if element.tag == "StateVar" else "vname", "")
        after = own.get("vnameCurr", "") if element.tag == "StateVar" else name
        if not name or not after or (element.tag == "StateVar" and name == after):
            self.refuse(element, f"{element.tag}: its names are missing or the same")
        return _Variable(name, after, self._values_of(element), own.get("fullyObs", "").lower() == "true")

    def _values_of(self, element: Element) -> tuple[str, ...]:
        count, listed = element.first("NumValues"), element.first("ValueEnum")
        if (count is None) == (listed is None):
            self.refuse(element, f"{element.tag}: give either NumValues or ValueEnum")
        if listed is not None:
            values = tuple(listed.words())
        else:
            assert count is not None
            text = count.text.strip()
            if not (text.isascii() and text.isdigit()) or not 0 < (number := int(text[:20])) <= _MOST_VALUES:
                self.refuse(
                    count, f"NumValues: expected a number from 1 to {_MOST_VALUES}, got {text[:40]!r}"
                )
            values = tuple(f"{_PREFIXES[element.tag]}{i}" for i in range(number))
        if not values or len(set(values)) < len(values) or {"*", "-"} & set(values):
            self.refuse(element, f"{element.tag}: values are missing, stand twice, or are '*' or '-'")
        return values

    def _check_sizes(self, states: int, actions: int, observations: int) -> None:
        needed = 8 * actions * states * (states + observations)
        what = f"the tables of {states} states, {actions} actions and {observations} observations"
        self._require(needed, what)
        require_memory(4 * needed, what, "take fewer states")

    def _require(self, needed: int, what: str) -> None:
        if needed > self._allowed:
            raise ResourceLimitError(
                f"{what} would take {needed} bytes; at most {self._allowed} are allowed for a file of this size"
            )

    # --- functions -------------------------------------------------------------------------------------

    def _initial(self) -> Floats:
        before = [v.name for v in self._states]
        factors = list(self._factors("InitialStateBelief", "CondProb", before, before))
        return self._product(factors, before).reshape(-1)

    def _transitions(self) -> Floats:
        acts, before = [v.name for v in self._actions], [v.name for v in self._states]
        after = [v.after for v in self._states]
        factors = list(self._factors("StateTransitionFunction", "CondProb", after, acts + before + after))
        joint = self._product(factors, acts + before + after)
        return joint.reshape(_size(self._actions), _size(self._states), _size(self._states))

    def _shown(self) -> Floats:
        """What is seen on arrival: fully observed variables as they are, then the observation variables."""
        acts, after = [v.name for v in self._actions], [v.after for v in self._states]
        shown = [v.name for v in self._observed]
        factors = list(self._factors("ObsFunction", "CondProb", shown, acts + after + shown)) if shown else []
        rows = self._product(factors, acts + after + shown)
        rows = rows.reshape(_size(self._actions), _size(self._states), 1, max(1, _size(self._observed)))
        whole = rows * self._seen_part()[None, :, :, None]
        return whole.reshape(rows.shape[0], rows.shape[1], -1)

    def _seen_part(self) -> Floats:
        """Which values of the fully observed variables every state has: (states, joint values), ones and zeros."""
        codes = np.indices([len(v.values) for v in self._states]).reshape(len(self._states), -1)
        seen = [codes[i] for i, v in enumerate(self._states) if v.seen]
        if not seen:
            return np.ones((codes.shape[1], 1))
        joint = np.ravel_multi_index(tuple(seen), tuple(len(v.values) for v in self._seen))
        self._require(8 * codes.shape[1] * _size(self._seen), "what every state shows")
        shown: Floats = np.eye(_size(self._seen))[joint]
        return shown

    def _first_observations(self) -> dict[str, Any]:
        if not self._seen:
            return {}
        return {"first_observations": self._seen_part(), "first_observation_names": _joined(self._seen)}

    def _rewards(self) -> Floats:
        """The sum of all reward functions, shape (actions, states, states, observations)."""
        acts, before = [v.name for v in self._actions], [v.name for v in self._states]
        after, shown = [v.after for v in self._states], [v.name for v in self._observed]
        section = self._root.first("RewardFunction")
        factors = [] if section is None else list(self._reward_factors(section))
        used = {name for factor in factors for name in factor.names}
        kept = {
            "states": after if used & set(after) else [],
            "shown": shown if used & set(shown) else [],
        }
        names = acts + before + kept["states"] + kept["shown"]
        sizes = [len(self._domain[name]) for name in names]
        self._require(8 * prod(sizes), f"the rewards of {prod(sizes)} cases")
        total = np.zeros(sizes)
        for factor in factors:
            total = total + self._spread(factor, names)
        following = _size(self._states) if kept["states"] else 1
        table = total.reshape(_size(self._actions), _size(self._states), following, -1)
        if kept["shown"] and self._seen:  # what is seen of states comes first in every observation
            table = np.tile(table, (1, 1, 1, _size(self._seen)))
        return smallest_table(table + 0.0)

    def _reward_factors(self, section: Element) -> Iterator[_Factor]:
        for function in section.all("Func"):
            (name,) = self._names_in(function, "Var", 1)
            if name not in self._reward_names:
                self.refuse(function, f"no RewardVar {name[:40]!r}")
            parents = self._parents(function, self._domain)
            yield self._factor(function, parents, "ValueTable")

    def _factors(self, tag: str, entry: str, wanted: list[str], allowed: list[str]) -> Iterator[_Factor]:
        section = self._section(tag)
        left = set(wanted)
        for function in section.all(entry):
            (name,) = self._names_in(function, "Var", 1)
            if name not in left:
                self.refuse(
                    function, f"{tag}: {name[:40]!r} is no variable of this function, or stands twice"
                )
            left.discard(name)
            parents = [p for p in self._parents(function, self._domain) if p != name]
            wrong = next((p for p in parents if p not in allowed), None)
            if wrong is not None:
                self.refuse(function, f"{tag}: {name!r} cannot depend on {wrong!r}")
            yield self._factor(function, [*parents, name], "ProbTable")
        if left:
            self.refuse(section, f"{tag}: nothing is said about {', '.join(sorted(left))}")

    def _names_in(self, function: Element, tag: str, count: int) -> list[str]:
        element = function.first(tag)
        words = [] if element is None else element.words()
        if len(words) != count:
            self.refuse(function, f"{function.tag}: expected {count} name in <{tag}>, got {len(words)}")
        return words

    def _parents(self, function: Element, known: Any) -> list[str]:
        element = function.first("Parent")
        words = [] if element is None else [word for word in element.words() if word != "null"]
        wrong = next((word for word in words if word not in known), None)
        if wrong is not None or len(set(words)) < len(words):
            self.refuse(function, f"{function.tag}: no variable {wrong!r}, or one stands twice")
        return words

    def _factor(self, function: Element, names: list[str], numbers: str) -> _Factor:
        shape = tuple(len(self._domain[name]) for name in names)
        self._require(8 * prod(shape), f"a function of {', '.join(names)}")
        parameter = function.first("Parameter")
        if parameter is None:
            self.refuse(function, f"{function.tag}: <Parameter> is missing")
        table = np.zeros(shape)
        if parameter.attributes.get("type", "TBL").upper() == "DD":
            _Diagram(self, parameter, names, self._domain).fill(table)
        else:
            for entry in parameter.all("Entry"):
                self._fill(table, entry, names, numbers)
        return _Factor(tuple(names), table)

    def _fill(self, table: Floats, entry: Element, names: list[str], numbers: str) -> None:
        """One entry: later ones go over earlier ones."""
        instance, values = entry.first("Instance"), entry.first(numbers)
        if instance is None or values is None:
            self.refuse(entry, f"an entry needs <Instance> and <{numbers}>")
        words = instance.words()
        if len(words) != len(names):
            self.refuse(instance, f"expected {len(names)} values, of {', '.join(names)}; got {len(words)}")
        places: list[int | slice] = []
        listed: list[int] = []
        for axis, (name, word) in enumerate(zip(names, words, strict=True)):
            if word == "-":
                listed.append(table.shape[axis])
            places.append(slice(None) if word in "*-" else self.code(instance, name, word))
        given = self._table_values(values, tuple(listed), probabilities=numbers == "ProbTable")
        axes = [i for i, word in enumerate(words) if word in "*-"]
        spread = [table.shape[axis] if words[axis] == "-" else 1 for axis in axes]
        table[tuple(places)] = given.reshape(spread)

    def code(self, element: Element, name: str, word: str) -> int:
        values = self._domain[name]
        if word not in values:
            self.refuse(element, f"{word[:40]!r} is no value of {name}: {', '.join(values[:8])}")
        return values.index(word)

    def _table_values(self, element: Element, shape: tuple[int, ...], *, probabilities: bool) -> Floats:
        words = element.words()
        if probabilities and words == ["uniform"] and shape:
            return np.full(shape, 1 / shape[-1])
        if probabilities and words == ["identity"] and len(shape) == 2 and shape[0] == shape[1]:
            return np.eye(shape[0])
        if len(words) != prod(shape):
            self.refuse(element, f"expected {prod(shape)} numbers, got {len(words)}")
        return np.array([self.number(element, word) for word in words]).reshape(shape)

    def number(self, element: Element, word: str) -> float:
        if len(word) <= _LONGEST_NUMBER and _NUMBER.fullmatch(word):
            value = float(word)
            if np.isfinite(value):
                return value
        return self.refuse(element, f"expected a number such as 0.25, got {word[:40]!r}")

    # --- putting together ------------------------------------------------------------------------------

    def _product(self, factors: Sequence[_Factor], names: Sequence[str]) -> Floats:
        sizes = [len(self._domain[name]) for name in names]
        self._require(8 * prod(sizes), f"a table over {', '.join(names)}")
        result = np.ones(sizes)
        for factor in factors:
            result *= self._spread(factor, names)
        return result

    @staticmethod
    def _spread(factor: _Factor, names: Sequence[str]) -> Floats:
        """A factor with an axis for every name, in that order, of length 1 where it does not depend on it."""
        order = [factor.names.index(name) for name in names if name in factor.names]
        table = factor.table.transpose(order)
        sizes = iter(table.shape)
        return table.reshape([next(sizes) if name in factor.names else 1 for name in names])

    def _checked(
        self, tag: str, table: Floats, kinds: tuple[str, ...], names: tuple[tuple[str, ...], ...]
    ) -> Floats:
        """Rows on the simplex: repaired within rounding of files, and noted; refused beyond."""
        lowest, totals = table.min(axis=-1), table.sum(axis=-1)
        off = np.abs(totals - 1)
        wrong = (lowest < -ROUNDING) | ~(off <= REPAIRABLE)
        if wrong.any():
            row = tuple(np.argwhere(wrong)[0].tolist())
            what = (
                "has a negative probability" if lowest[row] < -ROUNDING else f"sums to {float(totals[row])!r}"
            )
            self.refuse(
                self._section(tag),
                f"{tag}: the row of {_row_text(row, kinds, names)} {what}; it must sum to 1",
            )
        if (lowest < 0).any():
            table = np.maximum(table, 0.0)
        if (off > ROUNDING).any():
            row = tuple(int(code) for code in np.unravel_index(int(off.argmax()), off.shape))
            line, worst = self._section(tag).line, float(off.max())
            rows = int((off > ROUNDING).sum())
            self._notes = self._notes.noting(
                "repaired",
                f"{tag}: {rows} {'row was' if rows == 1 else 'rows were'} renormalized, the worst off by {worst:.1e}: "
                f"line {line}, {_row_text(row, kinds, names)}",
                rows=rows,
                worst=worst,
                line=line,
            )
            table = np.where((off > ROUNDING)[..., None], table / table.sum(axis=-1, keepdims=True), table)
        return table

    def before(self, name: str) -> str | None:
        """The name before the action of a state variable, given by its name after it."""
        return next((v.name for v in self._states if v.after == name), None)

    def refuse(self, element: Element, reason: str) -> NoReturn:
        raise ModelFileError(
            f"{self._where}: line {element.line}: {reason}", line=element.line, field=element.tag
        )


class _Diagram:
    """A decision diagram: nodes ask for the value of a variable, terminals are numbers."""

    def __init__(
        self, reader: _Reader, parameter: Element, names: list[str], domain: dict[str, tuple[str, ...]]
    ) -> None:
        self._reader, self._names, self._domain = reader, names, domain
        self._templates = {
            dag.attributes["id"]: dag for dag in parameter.all("SubDAGTemplate") if "id" in dag.attributes
        }
        self._root = parameter

    def fill(self, table: Floats) -> None:
        dag = self._root.first("DAG")
        if dag is None:
            self._reader.refuse(self._root, "a decision diagram needs a <DAG>")
        self._work = 0
        self._descend(self._only(dag), table, [slice(None)] * table.ndim, ())

    def _only(self, element: Element) -> Element:
        if len(element.children) != 1:
            self._reader.refuse(element, f"<{element.tag}> holds {len(element.children)} elements, not one")
        return element.children[0]

    def _descend(self, node: Element, table: Floats, places: list[Any], inside: tuple[str, ...]) -> None:
        self._work += 1
        if self._work > _MOST_VALUES or len(inside) > len(self._names):
            self._reader.refuse(node, "a decision diagram that has no end, or too many branches")
        if node.tag == "Terminal":
            table[tuple(places)] = self._reader.number(node, node.text.strip())
        elif node.tag == "Node":
            axis = self._axis(node)
            for edge in node.all("Edge"):
                code = self._reader.code(edge, self._names[axis], edge.attributes.get("val", ""))
                self._descend(self._only(edge), table, _set(places, axis, code), inside)
        elif node.tag == "SubDAG":
            self._sub(node, table, places, inside)
        else:
            self._reader.refuse(node, f"<{node.tag[:40]}> is no part of a decision diagram")

    def _axis(self, node: Element) -> int:
        name = node.attributes.get("var", "")
        if name not in self._names:
            self._reader.refuse(
                node, f"the diagram asks for {name[:40]!r}, which its function does not depend on"
            )
        return self._names.index(name)

    def _sub(self, node: Element, table: Floats, places: list[Any], inside: tuple[str, ...]) -> None:
        kind = node.attributes.get("type", "").lower()
        if kind == "template":
            name = node.attributes.get("idref", "")
            if name not in self._templates or name in inside:
                self._reader.refuse(node, f"no template {name[:40]!r}, or one that holds itself")
            self._descend(self._only(self._templates[name]), table, places, (*inside, name))
            return
        axis = self._axis(node)
        size = table.shape[axis]
        fill: dict[str, Callable[[], None]] = {
            "uniform": lambda: self._put(table, _set(places, axis, slice(None)), 1 / size),
            "deterministic": lambda: self._put(
                table,
                _set(
                    places, axis, self._reader.code(node, self._names[axis], node.attributes.get("val", ""))
                ),
                1.0,
            ),
            "persistent": lambda: self._persist(node, table, places, axis),
        }
        if kind not in fill:
            self._reader.refuse(node, f"a SubDAG of the unknown type {kind[:40]!r}")
        fill[kind]()

    @staticmethod
    def _put(table: Floats, places: list[Any], value: float) -> None:
        table[tuple(places)] = value

    def _persist(self, node: Element, table: Floats, places: list[Any], axis: int) -> None:
        """The variable keeps the value that it had before the action."""
        before = self._reader.before(self._names[axis])
        if before is None or before not in self._names:
            self._reader.refuse(node, "a persistent variable must be a state variable that depends on itself")
        other = self._names.index(before)
        for code in range(table.shape[axis]):
            if isinstance(places[other], int) and places[other] != code:
                continue
            self._put(table, _set(_set(places, axis, code), other, code), 1.0)


def _set(places: list[Any], axis: int, value: Any) -> list[Any]:
    return [value if i == axis else place for i, place in enumerate(places)]


def _joined(variables: Sequence[_Variable]) -> tuple[str, ...]:
    """Names of the joint values, in the order of their numbers."""
    if len(variables) == 1:
        return variables[0].values
    count = prod(len(v.values) for v in variables)
    if count > _MOST_VALUES:
        raise ResourceLimitError(f"{count} joint values of {', '.join(v.name for v in variables)}")
    return tuple(",".join(values) for values in product(*(v.values for v in variables)))


def _size(variables: Sequence[_Variable]) -> int:
    return prod(len(v.values) for v in variables)


def _row_text(row: tuple[int, ...], kinds: tuple[str, ...], names: tuple[tuple[str, ...], ...]) -> str:
    if len(row) < len(kinds) or not row:
        return "the start"
    return ", ".join(f"{kind[:-1]} {own[code]!r}" for kind, own, code in zip(kinds, names, row, strict=True))
