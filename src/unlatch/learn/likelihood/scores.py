"""What every block of a log says about the numbers of a model, in a few passes whatever their number.

The score of the first t steps is the expected complete-data score given them (Fisher's identity). A block [s, e) adds

    E[counts of all steps before e | steps before e] - E[counts of all steps before s | steps before s]

to the expected counts. In the model these increments have mean zero given all that came before, so that they are
uncorrelated, and their outer products sum to the information of the log. Steps long before a block have forgotten it,
so that a forward pass over the log and a short way back from every block are all it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.ahead import ahead
from unlatch.core.budget import checkpoint
from unlatch.core.pomdp import Emission
from unlatch.core.progress import report
from unlatch.errors import BeliefCollapseError
from unlatch.learn.likelihood.forward_backward import SymbolEntries, symbol_entries, use_threads
from unlatch.learn.likelihood.lanes import WORK_PER_CALL
from unlatch.learn.likelihood.parameters import EncodedLog, Parameters

__all__ = ["BATCH_NUMBERS", "Coordinates", "block_scores", "score_products"]

_REACH = 1_000
"""Steps before a block that it may still say something about. Most chains forget within tens of steps and the way back
ends there; one that does not costs as many passes over the log as blocks fit into this, and is cut."""

BATCH_NUMBERS = 1 << 19
"""Numbers in the scores of one batch, four megabytes, and events of one at most."""

_ROOM_PER_STEP = 4
"""States that a belief has room for at first; more is made when it is needed."""

_SPARSE = 0.1
"""Share of nonzero scores below which a sparse product is quicker than a dense one."""

_NARROW = 64
"""Coordinates of each of several parts up to which one loop over all of them is quicker than a product for each:
states that are hundreds have few."""

_STEP_COST = 32
"""What a step costs apart from its multiplications, in these."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Which probabilities of a model the scores are asked for, and in which order.

    Attributes
    ----------
    numbers : tuple of arrays of int
        One for each of `Parameters.blocks`, of its shape: the coordinate of every entry, -1 for none. The coordinates
        of a row follow each other in the order of its entries. Where a row has some of its positive entries only, it is
        read as the distribution over these, given that one of them came.
    rows : array of int
        The first coordinate of every row, and behind them the number of all.
    """

    numbers: tuple[Ints, ...]
    rows: Ints

    def __len__(self) -> int:
        return int(self.rows[-1])

    def roots(self, parameters: Parameters) -> Floats:
        """The square roots of the probabilities; the squares of a row's sum to one."""
        chosen = self.gathered(parameters.blocks)
        sums = np.add.reduceat(chosen, self.rows[:-1]) if len(chosen) else chosen
        roots: Floats = np.sqrt(chosen / np.repeat(sums, np.diff(self.rows)))
        return roots

    def gathered(self, blocks: Sequence[Floats]) -> Floats:
        """The entries of arrays shaped as the model's, in the order of the coordinates."""
        result = np.empty(len(self))
        for values, numbers in zip(blocks, self.numbers, strict=True):
            chosen = numbers >= 0
            result[numbers[chosen]] = values[chosen]
        return result


def block_scores(
    parameters: Parameters,
    log: EncodedLog,
    coordinates: Coordinates,
    *,
    length: int,
    emission: Emission = "departure",
    before: Floats | None = None,
) -> Iterator[Floats]:
    """Half the score of every block of ``length`` events in the square roots of the probabilities, batch by batch.

    Of a row with roots x and increments n of its expected counts it is n / x - x sum(n); the score of the root
    itself is twice as much. The last block may be shorter. ``before`` is the belief that the first event finds where it
    does not begin an episode; what blocks say about steps before it is left out.

    Yields
    ------
    array, shape (blocks of the batch, coordinates)
        `BATCH_NUMBERS` bounds its size, and does not change what is in it.

    Raises
    ------
    BeliefCollapseError
        If an observation is impossible under the model and the steps before it.
    """
    from unlatch.kernels import scores

    states, blocks = parameters.n_states, -(-len(log) // length)
    matrices = symbol_entries(parameters, log, emission)
    moves = _moves(matrices, parameters, log, coordinates, emission)
    steps = scores.ScoredSteps(log.symbols, log.begins)
    roots = coordinates.roots(parameters)
    size = max(1, min(blocks, BATCH_NUMBERS // (len(coordinates) + 1), BATCH_NUMBERS // length))
    entries = float(np.bincount(matrices.symbols, minlength=len(log.pair_counts)) @ log.pair_counts) / max(
        len(log), 1
    )
    per_call = max(1, int(WORK_PER_CALL / ((length + _REACH) * (entries + states + _STEP_COST))))
    message, counts = np.empty((2, states)), np.empty(len(coordinates))
    beliefs = None
    for first in range(0, blocks, size):
        last = min(first + size, blocks)
        start = parameters.initial if before is None else before
        beliefs = _carried(beliefs, first * length, size * length, start)
        result = np.empty((last - first, len(coordinates)))
        for begin in range(first, last, per_call):
            checkpoint()
            end = min(begin + per_call, last)
            until = min(end * length, len(log))
            done, full = begin * length, True
            while full:
                done, full = scores.filter_steps(moves, parameters.initial, steps, beliefs, done, until)
                beliefs = _roomier(beliefs) if full else beliefs
            if done < until:
                raise BeliefCollapseError(f"step {done}: impossible under the model and the steps before it")
            scores.score_blocks(
                moves,
                coordinates.rows,
                roots,
                steps,
                beliefs,
                length,
                _REACH,
                begin,
                end,
                message,
                counts,
                result[begin - first : end - first],
            )
        yield result


def score_products(
    parameters: Parameters,
    log: EncodedLog,
    coordinates: Coordinates,
    parts: Sequence[slice],
    *,
    length: int,
    emission: Emission,
    before: Floats | None = None,
    stage: str | None = None,
) -> list[Floats]:
    """Sums of outer products of the `block_scores` of a log, for each part of the coordinates; parts follow each other
    and leave none out. Another thread makes the scores of the next batch beside the products of one, which does not
    change a bit of them."""
    from unlatch.kernels.scores import add_products

    sizes = np.array([part.stop - part.start for part in parts])
    bounds, squares = (np.append(0, np.cumsum(widths)) for widths in (sizes, sizes**2))
    total = np.zeros(squares[-1])
    sums = [total[a:b].reshape(size, size) for a, b, size in zip(squares, squares[1:], sizes, strict=False)]
    done, work = 0, len(log) / length * len(coordinates) * sizes.max()
    batches = block_scores(parameters, log, coordinates, length=length, emission=emission, before=before)
    for scores in ahead(batches) if use_threads(work) else batches:
        if len(parts) > 1 and sizes.max() <= _NARROW:
            add_products(scores, bounds, squares, total)
        else:
            for part, products in zip(parts, sums, strict=True):
                products += _squared(scores[:, part])
        done += len(scores) * length
        if stage is not None:
            report(stage, min(done, len(log)), len(log))
    return sums


def _squared(scores: Floats) -> Floats:
    """The transpose times the matrix."""
    from scipy.sparse import csr_array

    touched = scores[scores.any(axis=1)]
    if np.count_nonzero(touched) < _SPARSE * touched.size:
        sparse = csr_array(touched)
        product: Floats = (sparse.T @ sparse).toarray()
    else:
        product = touched.T @ touched
    return product


def _carried(previous: Any, begin: int, length: int, start: Floats) -> Any:
    """Room for the beliefs of the next batch, with those before it that its blocks reach back to; at first with the one
    that a log ``start``s with."""
    from unlatch.kernels.scores import Beliefs

    origin, states = max(begin - _REACH, 0), len(start)
    kept = begin - origin
    if previous is None:
        listed = np.flatnonzero(start)
        offsets, masses, probability = np.array([0, len(listed)]), start[listed], start[:0]
    else:
        first = origin - previous.origin
        offsets = previous.offsets[first : first + kept + 2]
        used = slice(offsets[0], offsets[-1])
        listed, masses = previous.states[used], previous.masses[used]
        probability = previous.probability[first : first + kept]
    room = Beliefs(
        origin,
        np.zeros(kept + length + 2, dtype=np.int64),
        np.empty(len(listed) + _ROOM_PER_STEP * length + 2 * states, dtype=np.uint32),
        np.empty(len(listed) + _ROOM_PER_STEP * length + 2 * states),
        np.ones(kept + length),
        np.zeros(states, dtype=np.int64),
    )
    room.offsets[: kept + 2] = offsets - offsets[0]
    room.states[: len(listed)], room.masses[: len(listed)] = listed, masses
    room.probability[:kept] = probability
    return room


def _roomier(beliefs: Any) -> Any:
    """The same beliefs with room for twice as many states."""
    states, masses = (
        np.concatenate([each, np.empty_like(each)]) for each in (beliefs.states, beliefs.masses)
    )
    return beliefs._replace(states=states, masses=masses)


def _moves(
    matrices: SymbolEntries,
    parameters: Parameters,
    log: EncodedLog,
    coordinates: Coordinates,
    emission: Emission,
) -> Any:
    """The nonzero entries of all symbols, each with the coordinates of the probabilities that it is a product of."""
    from unlatch.kernels.scores import Moves

    kinds, states = len(log.pair_counts), parameters.n_states
    symbols, sources, targets = matrices.symbols, matrices.sources, matrices.targets
    starts = np.searchsorted(matrices.leaving, np.arange(kinds * states + 1))
    began, moved, shown, first, paid = _by_name(parameters, coordinates)
    if parameters.shared:
        shown = np.repeat(shown, log.n_actions, axis=0)
    actions, observations = log.pair_actions[symbols], log.pair_observations[symbols]
    step = log.is_step[symbols]
    left = np.full((kinds, states, 2), -1)
    if emission == "departure":
        left[log.is_step, :, 0] = shown[log.pair_actions, :, log.pair_observations][log.is_step]
    if first is not None:
        left[~log.is_step, :, 0] = first.T[log.pair_observations[~log.is_step]]
    if paid is not None and len(log.reward_values):
        left[log.is_step, :, 1] = paid[log.pair_actions, :, log.pair_rewards][log.is_step]
    reached = shown[actions, targets, observations]
    return Moves(
        starts=starts,
        targets=targets,
        values=matrices.values,
        moved=np.where(step, moved[actions, sources, targets], -1),
        shown=np.where(step & (emission == "arrival"), reached, -1),
        left=left.reshape(-1, 2),
        began=began,
    )


def _by_name(parameters: Parameters, coordinates: Coordinates) -> tuple[Any, ...]:
    """The coordinates of initial, transitions, observations, first and rewards; None for those that there are not."""
    rest = list(coordinates.numbers[3:])
    first = rest.pop(0) if parameters.first is not None else None
    paid = rest.pop(0) if parameters.rewards is not None else None
    return (*coordinates.numbers[:3], first, paid)
