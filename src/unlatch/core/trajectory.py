"""The log: what an agent did and what it saw, step by step."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unlatch.arrays import Flags, Floats, Ints
from unlatch.core import html
from unlatch.core.alphabet import checked_names, refuse_continuous, sorted_names, text_items, translate
from unlatch.core.checks import as_array, finite_floats, frozen, same_length
from unlatch.core.diagnostics import Diagnostics
from unlatch.errors import DataError, UsageError

__all__ = ["Trajectory"]

CHANCE_RANGE = (
    "the action was taken, so its probability is above 0 and at most 1 (no percentage, no logarithm)"
)
"""Said of a probability outside its range, be it in an array or in a file."""


class Named(Protocol):
    """What has names for actions and observations."""

    @property
    def action_names(self) -> tuple[str, ...]: ...
    @property
    def observation_names(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Pairs (action, the observation that followed it), as integer codes with names.

    Parameters
    ----------
    actions, observations : array of int, shape (steps,)
        Codes from zero; no entry may be masked. Without names the alphabet is the set of codes that occur; if they
        leave gaps (0, 1, 7) they are renumbered and the old numbers become the names.
    action_names, observation_names : sequence of str, optional
        The declared alphabets; codes index into them. May hold symbols that never occur.
    rewards : array of float, shape (steps,), optional
    episode_starts : array of int, shape (episodes,), optional
        Steps at which an episode begins, increasing, the first being 0. No window of the log and no
        belief crosses the start of an episode.
    probabilities : array of float, shape (steps,), optional
        The probability with which each action was chosen, given all that had been seen, by whatever chose it.
        Needed where exploration depends on observations.
    terminated : array of bool, shape (steps,), optional
        True at a step that ended its episode for good: nothing more could have happened. The last step of an
        episode that merely stops (a time limit, the end of the recording) is False. Without ``episode_starts`` an
        episode starts after every such step. None if the log does not tell.
    first_observations : array of int, shape (episodes,), optional
        What was shown at the start of every episode, before its first action: codes of ``first_observation_names``.
    first_observation_names : sequence of str, optional
        By default the names of the observations.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.Trajectory.from_symbols(
    ...     ["listen", "listen", "open-left"], ["hear-left", "hear-left", "hear-right"], rewards=[-1, -1, 10]
    ... )
    >>> len(log), log.action_names, log.observations.tolist()
    (3, ('listen', 'open-left'), [0, 0, 1])
    >>> log.head(2)
    Trajectory(2 steps, 1 episodes, 2 actions, 2 observations, rewards)
    """

    actions: Ints
    observations: Ints
    action_names: tuple[str, ...] = None  # type: ignore[assignment]  # None: filled in __post_init__
    observation_names: tuple[str, ...] = None  # type: ignore[assignment]
    rewards: Floats | None = None
    episode_starts: Ints = None  # type: ignore[assignment]
    probabilities: Floats | None = None
    terminated: Flags | None = None
    first_observations: Ints | None = None
    first_observation_names: tuple[str, ...] = None  # type: ignore[assignment]
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def __post_init__(self) -> None:
        same_length(
            actions=_sequence("actions", self.actions),
            observations=_sequence("observations", self.observations),
        )
        notes = self.diagnostics
        if not isinstance(notes, Diagnostics):
            raise DataError(f"diagnostics: expected Diagnostics, got {type(notes).__name__}")
        notes = self._set_beginnings(notes)
        for kind in ("action", "observation"):
            codes, names, notes = _coded(
                f"{kind}s", getattr(self, f"{kind}s"), getattr(self, f"{kind}_names"), notes
            )
            object.__setattr__(self, f"{kind}s", codes)
            object.__setattr__(self, f"{kind}_names", names)
        object.__setattr__(self, "diagnostics", notes)
        first_names: object = self.first_observation_names
        if first_names is None:
            object.__setattr__(self, "first_observation_names", self.observation_names)
        if self.rewards is not None:
            rewards = finite_floats("rewards", self.rewards, ndim=1)
            same_length(actions=self.actions, rewards=rewards)
            object.__setattr__(self, "rewards", frozen(rewards))
        steps = len(self.actions)
        if self.terminated is not None:
            object.__setattr__(self, "terminated", _checked_flags(self.terminated, self.actions))
            starts: object = self.episode_starts
            if starts is None:
                object.__setattr__(self, "episode_starts", _starts_after(self.terminated, steps))
        object.__setattr__(self, "episode_starts", _checked_starts(self.episode_starts, steps))
        if self.terminated is not None:
            _refuse_steps_after_the_end(self.terminated, self.episode_starts)
        self._check_beginnings()
        if self.probabilities is not None:
            object.__setattr__(self, "probabilities", _checked_chances(self.probabilities, self.actions))

    def _check_beginnings(self) -> None:
        if self.first_observations is not None and len(self.first_observations) != self.n_episodes:
            raise DataError(
                f"first_observations: {len(self.first_observations)} for {self.n_episodes} episodes; give one for each"
            )

    def _set_beginnings(self, notes: Diagnostics) -> Diagnostics:
        """First observations as codes; without names they count among the observations, which are renumbered alike."""
        if self.first_observations is None:
            return notes
        own: Sequence[str] | None = self.first_observation_names
        given: Sequence[str] | None = self.observation_names if own is None else own
        if given is not None:
            codes, names, notes = _coded("first_observations", self.first_observations, given, notes)
            object.__setattr__(self, "first_observations", codes)
            object.__setattr__(self, "first_observation_names", names)
            return notes
        for field_name in ("observations", "first_observations"):
            _coded(field_name, getattr(self, field_name), None, Diagnostics())  # errors name the field
        steps, first = np.asarray(self.observations), np.asarray(self.first_observations)
        codes, names, notes = _coded("observations", np.concatenate([steps, first]), None, notes)
        object.__setattr__(self, "first_observations", frozen(codes[len(steps) :]))
        object.__setattr__(self, "observations", codes[: len(steps)])
        object.__setattr__(self, "observation_names", names)
        return notes

    @classmethod
    def from_symbols(
        cls,
        actions: Sequence[str],
        observations: Sequence[str],
        *,
        rewards: ArrayLike | None = None,
        episode_starts: ArrayLike | None = None,
        probabilities: ArrayLike | None = None,
        terminated: ArrayLike | None = None,
        first_observations: Sequence[str] | None = None,
    ) -> Trajectory:
        """Build from text symbols; alphabets are what occurs, in sorted order.

        Any flat sequence whose items are all text will do: a list, a NumPy array of strings or objects, a column
        of a table (pandas and others that convert to NumPy). Nothing is converted to text: a number, or a missing
        value among the symbols, is an error.
        """
        coded = [
            _coded_symbols(kind, symbols)
            for kind, symbols in (("actions", actions), ("observations", observations))
        ]
        (a, a_names), (o, o_names) = coded
        first, first_names = None, None
        if first_observations is not None:
            first, first_names = _coded_symbols("first_observations", first_observations)
        return cls(
            a,
            o,
            a_names,
            o_names,
            rewards,  # type: ignore[arg-type]
            episode_starts,  # type: ignore[arg-type]
            probabilities,  # type: ignore[arg-type]
            terminated,  # type: ignore[arg-type]
            first,
            first_names,  # type: ignore[arg-type]
        )

    def __len__(self) -> int:
        return len(self.actions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        return (
            self.action_names == other.action_names
            and self.observation_names == other.observation_names
            and np.array_equal(self.actions, other.actions)
            and np.array_equal(self.observations, other.observations)
            and np.array_equal(self.episode_starts, other.episode_starts)
            and _same_numbers(self.rewards, other.rewards)
            and _same_numbers(self.probabilities, other.probabilities)
            and _same_numbers(self.terminated, other.terminated)
            and _same_numbers(self.first_observations, other.first_observations)
            and (
                self.first_observations is None
                or self.first_observation_names == other.first_observation_names
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        extras = [name for name in ("rewards", "probabilities") if getattr(self, name) is not None]
        if self.terminated is not None:
            extras.append(f"{int(self.terminated.sum())} endings")
        if self.first_observations is not None:
            extras.append("first observations")
        listing = ", ".join([f"{len(self.observation_names)} observations", *extras])
        return (
            f"Trajectory({len(self)} steps, {self.n_episodes} episodes, {len(self.action_names)} actions, "
            f"{listing})"
        )

    def _repr_html_(self) -> str:
        """For notebooks: how often every symbol occurs."""
        counts = [
            html.table(
                zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True), [kind, "times"]
            )
            for kind, codes, names in (
                ("action", self.actions, self.action_names),
                ("observation", self.observations, self.observation_names),
            )
        ]
        return html.page(repr(self), *counts)

    @property
    def n_episodes(self) -> int:
        return len(self.episode_starts)

    @cached_property
    def episode_ends(self) -> Ints:
        """One past the last step of every episode."""
        return frozen(np.append(self.episode_starts[1:], len(self))[: self.n_episodes])

    @cached_property
    def untried_actions(self) -> tuple[str, ...]:
        """Names of declared actions that never occur."""
        used = np.bincount(self.actions, minlength=len(self.action_names)) > 0
        return tuple(name for name, tried in zip(self.action_names, used, strict=True) if not tried)

    def episode(self, index: int) -> Trajectory:
        """One episode as a log of its own."""
        index = _whole_number("index", index)
        if not 0 <= index < self.n_episodes:
            raise UsageError(f"there are {self.n_episodes} episodes, numbered from 0; got {index}")
        return self._slice(int(self.episode_starts[index]), int(self.episode_ends[index]))

    def head(self, steps: int) -> Trajectory:
        """The first ``steps`` steps, episode boundaries kept."""
        steps = _whole_number("steps", steps)
        if steps < 0:
            raise UsageError(f"steps cannot be negative, got {steps}")
        return self._slice(0, min(steps, len(self)))

    def _slice(self, start: int, stop: int) -> Trajectory:
        """Steps from ``start``, the beginning of an episode, up to ``stop``."""
        inside = self.episode_starts[(self.episode_starts > start) & (self.episode_starts < stop)]
        first = self.first_observations
        if first is not None:
            episode = int(np.searchsorted(self.episode_starts, start))
            first = first[episode : episode + len(inside) + 1] if stop > start else first[:0]
        return Trajectory(
            actions=self.actions[start:stop],
            observations=self.observations[start:stop],
            action_names=self.action_names,
            observation_names=self.observation_names,
            rewards=None if self.rewards is None else self.rewards[start:stop],
            episode_starts=np.append(0, inside - start) if stop > start else np.zeros(0, np.int64),
            probabilities=None if self.probabilities is None else self.probabilities[start:stop],
            terminated=None if self.terminated is None else self.terminated[start:stop],
            first_observations=first,
            first_observation_names=self.first_observation_names,
        )

    def known_to(self, model: Named, *, unknown: Literal["refuse", "ignore-step"] = "refuse") -> Trajectory:
        """The log as far as ``model`` has names for what was done and shown.

        Parameters
        ----------
        model : POMDP, PSR or anything with ``action_names`` and ``observation_names``
        unknown : "refuse" or "ignore-step"
            What follows a step with an action or observation that the model does not know: a `DataError` that names
            it, or the step is left out and what comes after it begins a new episode, without a first observation. How
            many were left out is noted as ``unknown_symbols``.

        Examples
        --------
        >>> import unlatch
        >>> log = unlatch.Trajectory.from_symbols(["a", "b", "a", "a"], ["x", "x", "y", "x"])
        >>> model = unlatch.Trajectory.from_symbols(["a", "b"], ["x", "x"])
        >>> log.known_to(model, unknown="ignore-step").episode_starts.tolist()
        [0, 2]
        """
        if unknown not in ("refuse", "ignore-step"):
            raise UsageError(f"unknown must be 'refuse' or 'ignore-step', got {unknown!r:.40}")
        if unknown == "refuse":
            translate("action", self.actions, self.action_names, model.action_names)
            translate("observation", self.observations, self.observation_names, model.observation_names)
            return self
        known = _among(self.actions, self.action_names, model.action_names)
        known &= _among(self.observations, self.observation_names, model.observation_names)
        if known.all():
            return self
        kept = np.flatnonzero(known)
        if not len(kept):
            raise DataError(f"every one of the {len(self)} steps has a symbol that the model does not know")
        return self._without_others(kept)

    def _without_others(self, kept: Ints) -> Trajectory:
        """The steps ``kept``; each that does not follow the one before begins an episode."""
        begins = np.zeros(len(self), dtype=bool)
        begins[self.episode_starts] = True
        fresh = np.diff(kept, prepend=-2) > 1
        whole = bool((begins[kept] >= fresh).all())  # nothing is missing but at the ends of episodes
        shown = self.first_observations if whole else None
        if shown is not None:
            shown = shown[np.searchsorted(self.episode_starts, kept[begins[kept]])]
        lost = len(self) - len(kept)
        return Trajectory(
            actions=self.actions[kept],
            observations=self.observations[kept],
            action_names=self.action_names,
            observation_names=self.observation_names,
            rewards=None if self.rewards is None else self.rewards[kept],
            episode_starts=np.flatnonzero(fresh | begins[kept]),
            probabilities=None if self.probabilities is None else self.probabilities[kept],
            terminated=None if self.terminated is None else self.terminated[kept],
            first_observations=shown,
            first_observation_names=self.first_observation_names if shown is not None else (),
            diagnostics=self.diagnostics.noting(
                "unknown_symbols",
                f"{lost} of {len(self)} steps have symbols that the model does not know; left out",
                steps=lost,
            ),
        )

    @cached_property
    def symbol_rewards(self) -> Floats | None:
        """The reward of every observation symbol, if the symbol settles it; else None.

        Shape (observations,). A symbol that never occurs gets 0.
        """
        if self.rewards is None:
            return None
        from unlatch.kernels.symbols import settled_rewards

        table, settled = settled_rewards(self.observations, self.rewards, len(self.observation_names))
        return frozen(table) if settled else None

    def with_reward_symbols(self, *, always: bool = False) -> Trajectory:
        """A log whose observation symbols settle the reward, as learning needs.

        Where they do already, the log itself. Otherwise every pair (observation, reward) that occurs
        becomes a symbol of its own, named ``observation|reward``; ``always`` forces that naming. First observations
        come without a reward and keep their names.
        """
        if self.rewards is None or (self.symbol_rewards is not None and not always):
            return self
        values, reward_codes = np.unique(self.rewards + 0.0, return_inverse=True)  # -0.0 is 0.0
        refuse_continuous("rewards", len(values), len(self))
        pairs, codes = np.unique(self.observations * len(values) + reward_codes, return_inverse=True)
        names = [
            f"{self.observation_names[pair // len(values)]}|{format_reward(values[pair % len(values)])}"
            for pair in pairs.tolist()
        ]
        return replace(self, observations=codes, observation_names=tuple(names))


def checked_before(**fields: Any) -> Trajectory:
    """A log from fields that a reader has checked already, cell by cell and with the line of each: only where its
    episodes begin is looked at again. Arrays are taken as they are, read-only and nobody else's."""
    log = object.__new__(Trajectory)
    for name, value in fields.items():
        object.__setattr__(log, name, value)
    object.__setattr__(log, "episode_starts", _checked_starts(log.episode_starts, len(log)))
    log._check_beginnings()
    return log


def _among(codes: Ints, names: Sequence[str], known: Sequence[str]) -> Flags:
    result: Flags = np.isin(names, known)[codes]
    return result


def format_reward(value: float) -> str:
    """The shortest text that reads back as the same number, without a trailing ``.0``."""
    return repr(float(value)).removesuffix(".0")


def _same_numbers(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _whole_number(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, got {value!r:.40}") from None


def _sequence(field_name: str, value: object) -> NDArray[Any]:
    array = as_array(field_name, value, "one code per step")
    if array.ndim != 1:
        got = f"an array of shape {array.shape}" if array.ndim else type(value).__name__
        raise DataError(f"{field_name}: expected one code per step, got {got}")
    return array


def _coded_symbols(field_name: str, symbols: object) -> tuple[Ints, tuple[str, ...]]:
    """Codes in the sorted order of the names that occur."""
    items = text_items(field_name, symbols, "symbols")
    distinct = list(dict.fromkeys(items))
    refuse_continuous(field_name, len(distinct), len(items))
    names = sorted_names(distinct)
    rank = {name: i for i, name in enumerate(names)}
    return np.fromiter((rank[item] for item in items), dtype=np.int64, count=len(items)), tuple(names)


def _coded(
    field_name: str,
    value: ArrayLike,
    names: Sequence[str] | None,
    notes: Diagnostics,
) -> tuple[Ints, tuple[str, ...], Diagnostics]:
    array = _without_objects(field_name, _sequence(field_name, value))
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array) | (array != np.floor(array)) | (np.abs(array) > np.float64(2**53))
        if bad.any():
            place = int(np.argmax(bad))
            raise DataError(f"{field_name}[{place}] is {array[place]}; symbols must be whole numbers or text")
        notes = notes.noting("float_symbols", f"{field_name} came as floats and were read as integers")
    elif array.dtype.kind in "UTO":
        raise DataError(f"{field_name}: expected integer codes; for text use Trajectory.from_symbols(...)")
    elif array.dtype.kind not in "iu":
        raise DataError(f"{field_name}: expected integer codes, got dtype {array.dtype}")
    least, most = _extremes(array)
    if most > np.iinfo(np.int64).max:
        raise DataError(f"{field_name}: code {most} does not fit 63 bits")
    if least < 0:
        place = int(np.argmin(array))
        raise DataError(f"{field_name}[{place}] is {least}; codes start at 0 and -1 is no symbol")
    codes = array.astype(np.int64, copy=False)
    if codes is not array:
        codes.setflags(write=False)  # nobody else has it
    top = most + 1
    if names is not None:
        checked = checked_names(f"{field_name[:-1]}_names", names, None)
        if top > len(checked):
            place = int(np.argmax(codes))
            raise DataError(f"{field_name}[{place}] is {top - 1} but only {len(checked)} names are declared")
        return frozen(codes), checked, notes
    distinct = np.unique(codes)
    refuse_continuous(field_name, len(distinct), len(codes))
    if len(distinct) < top:
        codes = np.searchsorted(distinct, codes)
        notes = notes.noting("renumbered", f"{field_name} left gaps; renumbered, old numbers kept as names")
    return frozen(codes), tuple(str(code) for code in distinct.tolist()), notes


def _extremes(array: NDArray[Any]) -> tuple[int, int]:
    """The least and the greatest entry; of codes, none of which is negative, in one pass: as unsigned numbers those
    that are would be the greatest."""
    if not array.size:
        return 0, -1
    if array.dtype == np.int64:
        most = int(array.view(np.uint64).max())
        if most <= np.iinfo(np.int64).max:
            return 0, most
    return int(array.min()), int(array.max())


def _without_objects(field_name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers that came as Python objects, as columns of tables do, in a plain array."""
    if array.dtype.kind != "O" or not all(
        isinstance(item, int | np.integer) and not isinstance(item, bool) for item in array
    ):
        return array
    try:
        return array.astype(np.int64)
    except OverflowError:
        raise DataError(f"{field_name}: expected integer codes; one does not fit 63 bits") from None


def _checked_starts(starts: ArrayLike | None, steps: int) -> Ints:
    if starts is None:
        return frozen(np.zeros(min(steps, 1), dtype=np.int64))
    array = _without_objects("episode_starts", _sequence("episode_starts", starts))
    if array.size == 0 and steps == 0:
        return frozen(np.zeros(0, dtype=np.int64))
    if array.dtype.kind not in "iu" or array.size == 0:
        raise DataError("episode_starts: expected step indices, the first being 0")
    array = array.astype(np.int64)
    if array[0] != 0 or (np.diff(array) <= 0).any() or array[-1] >= max(steps, 1):
        raise DataError(f"episode_starts must begin at 0, increase, and stay below the {steps} steps")
    return frozen(array)


def _checked_flags(value: ArrayLike, actions: Ints) -> Flags:
    """One flag a step: truth values, or the numbers 0 and 1."""
    flags = as_array("terminated", value, "one flag per step")
    if flags.ndim != 1:
        raise DataError(f"terminated: expected one flag per step, got an array of shape {flags.shape}")
    same_length(actions=actions, terminated=flags)
    if flags.dtype.kind == "O" and all(
        isinstance(item, bool | int | np.bool_ | np.integer) for item in flags
    ):
        flags = flags.astype(np.int64)
    if flags.dtype.kind not in "biuf" or (flags.dtype.kind != "b" and not np.isin(flags, (0, 1)).all()):
        raise DataError("terminated: expected True or False (or 1 or 0) for every step")
    return frozen(flags.astype(bool))


def _starts_after(terminated: Flags, steps: int) -> Ints:
    """The steps that follow an ending, and the first."""
    return np.append(0, np.flatnonzero(terminated[:-1]) + 1)[:steps]


def _refuse_steps_after_the_end(terminated: Flags, starts: Ints) -> None:
    goes_on = terminated[:-1].copy()
    goes_on[starts[1:] - 1] = False
    if goes_on.any():
        step = int(np.argmax(goes_on))
        raise DataError(
            f"terminated[{step}] is set, but step {step + 1} belongs to the same episode; an ending is the last step "
            "of its episode: correct episode_starts, or leave it out, and an episode starts after every ending",
            step=step,
        )


def _checked_chances(value: ArrayLike, actions: Ints) -> Floats:
    chances = finite_floats("probabilities", value, ndim=1)
    same_length(actions=actions, probabilities=chances)
    bad = (chances <= 0) | (chances > 1)
    if bad.any():
        place = int(np.argmax(bad))
        raise DataError(
            f"probabilities[{place}] is {float(chances[place])}; {CHANCE_RANGE}. Correct it, or leave the "
            "probabilities out if actions did not depend on observations"
        )
    return frozen(chances)
