"""Passes over a log that is too long for the memory: block by block, each by itself.

What a pass needs of the log before a block is a belief, and of the log after it how likely that is from every state.
Both come from the steps around the cut alone: a process forgets. So the blocks can be passed over in any order and by
anybody; their sums are added in a fixed order, as a tree, and do not depend on who made them to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Floats, Ints
from unlatch.core.alphabet import sorted_names
from unlatch.core.checks import frozen
from unlatch.core.chunks import LogChunk, own_copy
from unlatch.core.numbering import SymbolNumbers
from unlatch.core.pomdp import Emission
from unlatch.core.reading import Endings
from unlatch.core.trajectory import Trajectory, format_reward
from unlatch.errors import BeliefCollapseError, DataError
from unlatch.learn.likelihood.forward_backward import expected_counts, log_likelihood, symbol_matrices
from unlatch.learn.likelihood.parameters import EncodedLog, ExpectedCounts, Parameters

__all__ = [
    "BlockScan",
    "BlockedLog",
    "Encoding",
    "Seam",
    "SeamMessages",
    "block_counts",
    "block_log_likelihood",
    "blocked_log",
    "scan_block",
    "seam_messages",
    "tree_sum",
]

REACH = 1_024
"""Steps on either side of a cut that tell the belief there. What lies before is taken to be forgotten."""

FORGOTTEN = 1e-6
"""Largest difference of two beliefs, one from all these steps and one from half of them, that counts as none."""


@dataclass(frozen=True, eq=False)
class BlockScan:
    """What must be known of a block before any pass: its symbols, how often each occurs, and its edges.

    Attributes
    ----------
    kinds : tuple of (action, observation, reward, ending)
        Names, the reward (None where there are none), and one of `Endings`.
    counts : array of int, shape (kinds,)
    firsts : mapping
        How often every first observation was shown.
    steps, episodes : int
        Of the block; an episode counts where it begins.
    head, tail : LogChunk
        The first and the last steps.
    """

    kinds: tuple[tuple[str, str, float | None, int], ...]
    counts: Ints
    firsts: Mapping[str, int]
    steps: int
    episodes: int
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    first_names: tuple[str, ...] | None
    head: LogChunk
    tail: LogChunk


def scan_block(chunk: LogChunk) -> BlockScan:
    """Look at one block of a log."""
    numbers = SymbolNumbers()
    symbols = numbers.number(chunk)
    endings = _endings(chunk)
    codes = symbols.astype(np.int64) * len(Endings) + endings
    counts = np.bincount(codes, minlength=len(numbers) * len(Endings))
    used = np.flatnonzero(counts)
    kinds = tuple((*numbers.kinds[code // len(Endings)], int(code % len(Endings))) for code in used.tolist())
    firsts: dict[str, int] = {}
    if chunk.first_observations is not None:
        times = np.bincount(chunk.first_observations, minlength=len(chunk.first_observation_names))
        firsts = {n: int(t) for n, t in zip(chunk.first_observation_names, times, strict=True) if t}
    return BlockScan(
        kinds=kinds,
        counts=counts[used],
        firsts=firsts,
        steps=len(chunk),
        episodes=len(chunk.episode_starts),
        action_names=chunk.action_names,
        observation_names=chunk.observation_names,
        first_names=None if chunk.first_observations is None else chunk.first_observation_names,
        head=own_copy(chunk.part(0, min(REACH, len(chunk)))),
        tail=own_copy(chunk.part(max(len(chunk) - REACH, 0), len(chunk))),
    )


def _endings(chunk: LogChunk) -> Any:
    return int(Endings.UNTOLD) if chunk.terminated is None else chunk.terminated.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Encoding:
    """The symbols of a whole log, and how any part of it is written with them. Small, and the same for every block.

    Attributes
    ----------
    plain_names : tuple of str
        Of the observations as they are logged.
    rewards : tuple of (values, table), or None
        Where observations do not settle their rewards: the rewards in order, and for every observation and reward the
        symbol that the pair is.
    symbol_rewards : array or None
    table : array of int, shape (actions, observations, endings)
        The symbol of every event that occurs, else -1.
    like : EncodedLog
        A log with these symbols and no events.
    """

    plain_names: tuple[str, ...]
    rewards: tuple[Floats, Ints] | None
    symbol_rewards: Floats | None
    table: Ints
    like: EncodedLog

    def events(self, chunk: LogChunk) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
        """The symbol of every event of a chunk, and where episodes begin."""
        log = self.like
        symbols = self._symbols(chunk)
        starts = np.asarray(chunk.episode_starts)
        if chunk.first_observations is not None:
            first = _places(chunk.first_observation_names, log.first_names)[chunk.first_observations]
            offset = len(log.pair_counts) - len(log.first_names)
            symbols = np.insert(symbols, starts, offset + first)
            starts = starts + np.arange(len(starts))
        begins = np.zeros(len(symbols), dtype=bool)
        begins[starts] = True
        return symbols, begins

    def _symbols(self, chunk: LogChunk) -> NDArray[np.uint32]:
        """The symbol of every step of a chunk."""
        from unlatch.kernels.symbols import number_events

        actions = _places(chunk.action_names, self.like.action_names)
        if chunk.terminated is not None or (self.rewards is not None and chunk.rewards is not None):
            several: Ints = self.table[actions[chunk.actions], self._shown(chunk), _endings(chunk)]
            return several.astype(np.uint32)
        shown = _places(chunk.observation_names, self.plain_names)
        pairs = self.table[actions[:, None], shown, int(Endings.UNTOLD)].astype(np.uint32)
        symbols = np.empty(len(chunk), dtype=np.uint32)
        number_events(chunk.actions, chunk.observations, pairs, symbols)
        return symbols

    def _shown(self, chunk: LogChunk) -> Ints:
        """The observation of every step, with its reward where that is part of the symbol."""
        shown: Ints = _places(chunk.observation_names, self.plain_names)[chunk.observations]
        if self.rewards is None or chunk.rewards is None:
            return shown
        values, pairs = self.rewards
        both: Ints = pairs[shown, np.searchsorted(values, chunk.rewards)]
        return both

    def log(self, chunk: LogChunk) -> EncodedLog:
        """A chunk as a log of its own, with these symbols."""
        from unlatch.kernels.symbols import count_symbols

        symbols, begins = self.events(chunk)
        counts = np.zeros(len(self.like.pair_counts), dtype=np.int64)
        count_symbols(symbols, counts)
        return replace(self.like, symbols=symbols, begins=begins, pair_counts=counts, steps=len(chunk))

    def trajectory(self, chunk: LogChunk) -> Trajectory:
        """A chunk as a log in the alphabets of the whole, whose symbols settle their rewards."""
        log, first = self.like, None
        if chunk.first_observations is not None:
            first = _places(chunk.first_observation_names, log.first_names)[chunk.first_observations]
        return Trajectory(
            actions=_places(chunk.action_names, log.action_names)[chunk.actions],
            observations=self._shown(chunk),
            action_names=log.action_names,
            observation_names=log.observation_names,
            rewards=chunk.rewards,
            episode_starts=np.union1d(0, chunk.episode_starts),
            probabilities=chunk.probabilities,
            terminated=chunk.terminated,
            first_observations=first,
            first_observation_names=None if first is None else log.first_names,  # type: ignore[arg-type]
        )


def _places(names: tuple[str, ...], among: tuple[str, ...]) -> Ints:
    if names == among:
        return np.arange(len(names))
    index = {name: i for i, name in enumerate(among)}
    return np.array([index.get(name, -1) for name in names], dtype=np.int64)


class Seam(NamedTuple):
    """The events before and after a cut inside an episode: symbols and where episodes begin."""

    before: tuple[NDArray[np.uint32], NDArray[np.bool_]]
    after: tuple[NDArray[np.uint32], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class BlockedLog(EncodedLog):
    """A log in blocks, none of which is here: its symbols, and what lies on either side of every cut.

    ``seams[k]`` is before block k; None where an episode begins with it. ``symbols`` and ``begins`` are empty.
    """

    encoding: Encoding = None  # type: ignore[assignment]
    seams: tuple[Seam | None, ...] = ()
    episodes: int = 0

    def __len__(self) -> int:
        return int(self.pair_counts.sum())


def blocked_log(scans: Sequence[BlockScan]) -> BlockedLog:
    """A log of which all blocks have been looked at, in their order."""
    encoding, kinds = _encoding(scans)
    counts = np.zeros(len(encoding.like.pair_counts), dtype=np.int64)
    firsts = {name: i for i, name in enumerate(encoding.like.first_names)}
    offset = len(counts) - len(firsts)
    for scan in scans:
        np.add.at(counts, [kinds[kind] for kind in scan.kinds], scan.counts)
        for name, times in scan.firsts.items():
            counts[offset + firsts[name]] += times
    seams: list[Seam | None] = []
    for number, scan in enumerate(scans):
        begins = len(scan.head.episode_starts) > 0 and scan.head.episode_starts[0] == 0
        seams.append(
            None
            if begins or number == 0
            else Seam(encoding.events(scans[number - 1].tail), encoding.events(scan.head))
        )
    like = encoding.like
    return BlockedLog(
        symbols=like.symbols,
        begins=like.begins,
        pair_actions=like.pair_actions,
        pair_observations=like.pair_observations,
        pair_rewards=like.pair_rewards,
        pair_endings=like.pair_endings,
        pair_counts=frozen(counts),
        steps=sum(scan.steps for scan in scans),
        action_names=like.action_names,
        observation_names=like.observation_names,
        first_names=like.first_names,
        reward_values=like.reward_values,
        encoding=encoding,
        seams=tuple(seams),
        episodes=sum(scan.episodes for scan in scans),
    )


def _encoding(scans: Sequence[BlockScan]) -> tuple[Encoding, dict[Any, int]]:
    """The encoding of all blocks, and the symbol of every kind of event."""
    actions = tuple(sorted_names({name for scan in scans for name in scan.action_names}))
    plain = tuple(sorted_names({name for scan in scans for name in scan.observation_names}))
    action_place = {name: i for i, name in enumerate(actions)}
    plain_place = {name: i for i, name in enumerate(plain)}
    kinds = {kind for scan in scans for kind in scan.kinds}
    shown, names, rewards, symbol_rewards = _shown(kinds, plain, plain_place)
    coded = {kind: (action_place[kind[0]], shown[kind[1], kind[2]], kind[3]) for kind in kinds}
    order = sorted(coded, key=lambda kind: coded[kind])
    table = np.full((len(actions), len(names), len(Endings)), -1, dtype=np.int64)
    columns = np.array([coded[kind] for kind in order], dtype=np.int64).reshape(-1, 3)
    table[tuple(columns.T)] = np.arange(len(order))
    told = [scan.first_names for scan in scans]
    if any(name is None for name in told) != all(name is None for name in told):
        raise DataError("only some parts of the log have first observations; give all episodes one, or none")
    first_names = tuple(sorted_names({name for scan in scans for name in scan.first_names or ()}))
    before = np.full((3, len(first_names)), -1)
    before[1] = np.arange(len(first_names))
    columns = np.concatenate([columns.T, before], axis=1)
    like = EncodedLog(
        symbols=np.zeros(0, dtype=np.uint32),
        begins=np.zeros(0, dtype=bool),
        pair_actions=frozen(columns[0]),
        pair_observations=frozen(columns[1]),
        pair_rewards=frozen(np.full(columns.shape[1], -1)),
        pair_endings=frozen(columns[2]),
        pair_counts=np.zeros(columns.shape[1], dtype=np.int64),
        steps=0,
        action_names=actions,
        observation_names=names,
        first_names=first_names,
        reward_values=np.zeros(0),
    )
    return Encoding(plain, rewards, symbol_rewards, table, like), {kind: i for i, kind in enumerate(order)}


def _shown(kinds: Iterable[Any], plain: tuple[str, ...], place: Mapping[str, int]) -> tuple[Any, ...]:
    """The symbol of every (observation, reward), the names of these, how pairs are told, and their rewards."""
    pairs = sorted({(place[kind[1]], kind[2]) for kind in kinds}, key=lambda pair: (pair[0], pair[1] or 0.0))
    if all(reward is None for _, reward in pairs):
        return {(plain[o], None): o for o, _ in pairs}, plain, None, None
    if any(reward is None for _, reward in pairs):
        raise DataError("only some parts of the log have rewards; give all steps one, or leave them out")
    if len({o for o, _ in pairs}) == len(pairs):  # the observation settles the reward
        table = np.zeros(len(plain))
        for o, reward in pairs:
            table[o] = reward
        return {(plain[o], reward): o for o, reward in pairs}, plain, None, frozen(table)
    values = np.unique([reward for _, reward in pairs])
    numbers = np.full((len(plain), len(values)), -1, dtype=np.int64)
    for number, (o, reward) in enumerate(pairs):
        numbers[o, np.searchsorted(values, reward)] = number
    names = tuple(f"{plain[o]}|{format_reward(reward)}" for o, reward in pairs)
    shown = {(plain[o], reward): number for number, (o, reward) in enumerate(pairs)}
    return shown, names, (values, numbers), frozen(np.array([reward for _, reward in pairs]))


# --- passes ---------------------------------------------------------------------------------------------


class SeamMessages(NamedTuple):
    """Before every block the belief, and how likely the block and what follows are from every state; None where an
    episode begins. ``unforgotten`` is the largest difference that steps further away made."""

    beliefs: tuple[Floats | None, ...]
    chances: tuple[Floats | None, ...]
    unforgotten: float

    def around(self, block: int) -> tuple[Floats | None, Floats | None]:
        """The belief before a block, and the chances of what comes after it."""
        after = self.chances[block + 1] if block + 1 < len(self.chances) else None
        return self.beliefs[block], after

    @property
    def counted_twice(self) -> float:
        """The log-probability of what comes after, which every block has included."""
        pairs = zip(self.beliefs, self.chances, strict=True)
        return float(sum(np.log(a @ b) for a, b in pairs if a is not None and b is not None))


def seam_messages(parameters: Parameters, log: BlockedLog, emission: Emission) -> SeamMessages:
    """The belief at every cut by the events before it, and the chances by those after it."""
    from unlatch.kernels.seams import believed, foreseen

    if all(seam is None for seam in log.seams):
        nothing = (None,) * len(log.seams)
        return SeamMessages(nothing, nothing, 0.0)
    updates = symbol_matrices(parameters, log, emission)
    beliefs: list[Floats | None] = []
    chances: list[Floats | None] = []
    unforgotten = 0.0
    for number, seam in enumerate(log.seams):
        if seam is None:
            beliefs.append(None)
            chances.append(None)
            continue
        belief, nearer, chance, shorter = np.empty((4, parameters.n_states))
        (before, begun), (after, begins) = seam
        believed(updates, parameters.initial, before, begun, 0, belief)
        believed(updates, parameters.initial, before, begun, len(before) // 2, nearer)
        foreseen(updates, after, begins, len(after), chance)
        foreseen(updates, after, begins, len(after) // 2, shorter)
        if not belief @ chance > 0:
            raise BeliefCollapseError(f"around block {number}: impossible under the model")
        unforgotten = max(
            unforgotten, float(np.abs(belief - nearer).sum()), float(np.abs(chance - shorter).max())
        )
        beliefs.append(belief)
        chances.append(chance)
    return SeamMessages(tuple(beliefs), tuple(chances), unforgotten)


def block_counts(
    parameters: Parameters,
    encoding: Encoding,
    chunk: LogChunk,
    emission: Emission,
    before: Floats | None,
    after: Floats | None,
    *,
    threads: int | None = None,
) -> ExpectedCounts:
    """The expected counts of one block; its likelihood includes that of what comes after."""
    return expected_counts(
        parameters, encoding.log(chunk), emission=emission, before=before, after=after, threads=threads
    )


def block_log_likelihood(
    parameters: Parameters,
    encoding: Encoding,
    chunk: LogChunk,
    emission: Emission,
    before: Floats | None,
    after: Floats | None,
) -> float:
    """The likelihood that `block_counts` tells, alone."""
    return log_likelihood(parameters, encoding.log(chunk), emission=emission, before=before, after=after)


def tree_sum(parts: Iterable[ExpectedCounts]) -> ExpectedCounts:
    """The sum of expected counts, in an order that only their number decides; few are held at a time."""
    waiting: list[tuple[int, ExpectedCounts]] = []
    for part in parts:
        size = 1
        while waiting and waiting[-1][0] == size:
            part, size = _added(waiting.pop()[1], part), 2 * size
        waiting.append((size, part))
    total = waiting.pop()[1]
    while waiting:
        total = _added(waiting.pop()[1], total)
    return total


def _added(one: ExpectedCounts, other: ExpectedCounts) -> ExpectedCounts:
    return replace(
        one,
        initial=one.initial + other.initial,
        transitions=one.transitions + other.transitions,
        observations=one.observations + other.observations,
        log_likelihood=one.log_likelihood + other.log_likelihood,
        first=None if one.first is None or other.first is None else one.first + other.first,
        rewards=None if one.rewards is None or other.rewards is None else one.rewards + other.rewards,
        work=one.work + other.work,
    )
