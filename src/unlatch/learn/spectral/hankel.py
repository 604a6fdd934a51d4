"""Stage 2: the Hankel matrix of histories against tests, estimated from counts or exact from a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse

from unlatch.arrays import Floats, Ints
from unlatch.core.budget import checkpoint
from unlatch.core.checks import frozen
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.progress import report
from unlatch.errors import ResourceLimitError
from unlatch.learn.significance import DOUBTFUL_SIGMAS
from unlatch.learn.spectral.counting import SequenceCounts
from unlatch.learn.spectral.windows import WindowTable

__all__ = ["HankelMatrix", "estimate_hankel"]

MAX_ENTRIES = 200_000_000

LOG_NOTES = ("rarely_tried", "never_observed", "doubtful_probabilities")
"""Names of the notes that are about the log rather than about the matrix."""

_FEW_TRIES = 100
"""Tries of an action below which its estimated rows are little more than noise."""


@dataclass(frozen=True, eq=False)
class HankelMatrix:
    """Probabilities ``P(observations | actions)`` of histories followed by tests, sparse throughout.

    Attributes
    ----------
    matrix : sparse array, shape (histories, tests)
    extended : sparse array, shape (pairs * histories, tests)
        Row ``pair * histories + h``: history ``h`` followed by the pair, then the test.
    empty_history : array, shape (tests,)
        The tests from the start; the paper's row of the empty history.
    empty_test : array, shape (histories,)
        The histories alone; the paper's column of the empty test.
    histories, tests : tuple of arrays, shape (sequences, length) each
        The index sets by length, spelled out as pair codes ``action * observations + observation``.
    history_weights, test_weights : array, shape (histories,), (tests,)
        Below one for sequences whose actions were tried much less than is typical, one for all others: their
        entries are noisier, and the decomposition must not take that noise for states.
    history_scales, test_scales : array, shape (histories,), (tests,)
        The weights over the square root of the sequence's own probability. So scaled, the noise of all entries is about
        alike, and the singular vectors are those of canonical correlations between past and future. One
        where the matrix is exact.
    symbol_rewards : array, shape (observations,), or None
        What every symbol carries.
    replicates : tuple of HankelMatrix
        The same estimate without one block of the log each; empty if the matrix is exact.

    Examples
    --------
    >>> import unlatch
    >>> hankel = unlatch.exact_hankel(unlatch.domains.tiger(), history_length=2, test_length=1)
    >>> hankel.matrix.shape, hankel.extended.shape
    ((10, 10), (180, 10))
    """

    matrix: Any
    extended: Any
    empty_history: Floats
    empty_test: Floats
    histories: tuple[Ints, ...]
    tests: tuple[Ints, ...]
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    history_weights: Floats
    test_weights: Floats
    history_scales: Floats
    test_scales: Floats
    symbol_rewards: Floats | None = None
    replicates: tuple[HankelMatrix, ...] = ()
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def __repr__(self) -> str:
        kind = "estimated" if self.replicates else "exact"
        rows, columns = self.shape
        return f"HankelMatrix({kind}, {rows} histories, {columns} tests, {self.matrix.nnz} entries)"

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    @property
    def history_length(self) -> int:
        """The paper's L1: the longest history including its extension by one pair."""
        return len(self.histories) + 1

    @property
    def test_length(self) -> int:
        return len(self.tests)

    @property
    def n_pairs(self) -> int:
        return len(self.action_names) * len(self.observation_names)

    def toarray(self) -> Floats:
        """The matrix as a dense array, histories by tests."""
        dense: Floats = self.matrix.toarray()
        return dense

    def labels(self, sequences: tuple[Ints, ...]) -> list[tuple[tuple[str, str], ...]]:
        """Histories or tests with names: a tuple of (action, observation) for each row or column."""
        size = len(self.observation_names)
        return [
            tuple((self.action_names[p // size], self.observation_names[p % size]) for p in sequence)
            for block in sequences
            for sequence in block.tolist()
        ]


# --- from counts ----------------------------------------------------------------------------------------


def estimate_hankel(counts: SequenceCounts) -> HankelMatrix:
    """Relative frequencies: count of the window divided by the count of its action sequence.  # Eq. (4)

    Weighted windows do not count one each but their weight, in both: as in a log whose actions were chosen blindly.
    Action sequences that never occur leave their entries at zero and are counted in ``diagnostics``.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> hankel = unlatch.estimate_hankel(unlatch.count_sequences(log, history_length=2, test_length=1))
    >>> hankel.matrix.shape, len(hankel.replicates)
    ((10, 10), 8)
    """
    histories = [counts.table(length) for length in range(1, counts.history_length)]
    tests = [counts.table(length) for length in range(1, counts.test_length + 1)]
    row_offsets = _offsets(histories)
    column_offsets = _offsets(tests)
    n_rows, n_columns = row_offsets[-1], column_offsets[-1]
    if counts.n_actions * counts.n_observations * n_rows > MAX_ENTRIES:
        raise ResourceLimitError(
            f"{counts.n_actions * counts.n_observations} pairs after {n_rows} histories are too many; choose a "
            "shorter history_length or a smaller alphabet"
        )
    plain = _Entries((n_rows, n_columns))
    extended = _Entries((counts.n_actions * counts.n_observations * n_rows, n_columns))
    for i, history in enumerate(histories):
        for j, test in enumerate(tests):
            report("estimating", i * len(tests) + j, len(histories) * len(tests))
            window = counts.table(history.length + test.length)
            rows = history.rows_of(window.part(0, history.length)) + row_offsets[i]
            columns = test.rows_of(window.part(history.length, window.length)) + column_offsets[j]
            plain.add(window, rows, columns)
            window = counts.table(history.length + 1 + test.length)
            rows = history.rows_of(window.part(0, history.length)) + row_offsets[i]
            pair = window.part(history.length, history.length + 1)[0]
            columns = test.rows_of(window.part(history.length + 1, window.length)) + column_offsets[j]
            extended.add(window, pair * n_rows + rows, columns)
    frequencies = _Frequencies(counts)
    history_weights = np.concatenate([frequencies.weights(table) for table in histories])
    test_weights = np.concatenate([frequencies.weights(table) for table in tests])
    history_floors = [_chance_floor(counts, table.length + counts.test_length) for table in histories]
    test_floors = [_chance_floor(counts, counts.history_length - 1 + table.length) for table in tests]
    matrices = plain.build(frequencies)
    checkpoint()
    extensions = extended.build(frequencies)
    checkpoint()
    shared: dict[str, Any] = {
        "histories": tuple(table.symbols() for table in histories),
        "tests": tuple(table.symbols() for table in tests),
        "action_names": counts.action_names,
        "observation_names": counts.observation_names,
        "history_weights": frozen(history_weights),
        "test_weights": frozen(test_weights),
        "history_scales": frozen(history_weights * frequencies.scales(histories, history_floors)),
        "test_scales": frozen(test_weights * frequencies.scales(tests, test_floors)),
        "symbol_rewards": counts.symbol_rewards,
    }
    versions = [
        HankelMatrix(
            matrix=matrices[version],
            extended=extensions[version],
            empty_history=frozen(np.concatenate([frequencies.of(table)[version] for table in tests])),
            empty_test=frozen(np.concatenate([frequencies.of(table)[version] for table in histories])),
            **shared,
        )
        for version in range(len(matrices))
    ]
    notes = _untried_sequences(counts) + _rare_symbols(counts) + _doubtful_probabilities(counts)
    return replace(versions[0], replicates=tuple(versions[1:]), diagnostics=notes)


def _chance_floor(counts: SequenceCounts, length: int) -> float:
    """Added to a sequence's probability before it scales a row.

    A rare history and a rare test that happen to meet once would otherwise outweigh everything; with this floor
    such a chance weighs no more than the noise of a common pair.
    """
    return 1.0 / float(np.sqrt(counts.table(length).typical_tries(counts.n_observations)))


def _offsets(tables: list[WindowTable]) -> list[int]:
    return [0, *np.cumsum([len(table) for table in tables]).tolist()]


class _Frequencies:
    """Relative frequency of every window of a table: whole log first, then without each block."""

    def __init__(self, counts: SequenceCounts) -> None:
        self._n_observations = counts.n_observations
        self._known: dict[int, list[Floats]] = {}

    def of(self, table: WindowTable) -> list[Floats]:
        if table.length not in self._known:
            self._known[table.length] = self._compute(table)
        return self._known[table.length]

    def weights(self, table: WindowTable) -> Floats:
        """One for windows whose actions were tried at least half as often as is typical, else less.

        The variance of a relative frequency goes with one over the tries, hence the square root.
        """
        groups, tried = table.tries(self._n_observations)
        typical = table.typical_tries(self._n_observations)
        result: Floats = np.sqrt(np.minimum(1.0, tried[groups] / (typical / 2)))
        return result

    def scales(self, tables: list[WindowTable], floors: list[float]) -> Floats:
        """One over the square root of every window's probability, none of which counts as less than a floor."""
        parts = [self.of(table)[0] + floor for table, floor in zip(tables, floors, strict=True)]
        result: Floats = 1.0 / np.sqrt(np.concatenate(parts))
        return result

    def _compute(self, table: WindowTable) -> list[Floats]:
        groups, n_groups = table.action_groups(self._n_observations)
        blocks = table.masses.T
        tried = [np.bincount(groups, weights=block, minlength=n_groups) for block in blocks]
        tried_in_all = np.sum(tried, axis=0)
        masses = table.masses.sum(axis=1)
        whole = masses / tried_in_all[groups]
        result = [whole]
        for block, tried_here in zip(blocks, tried, strict=True):
            left = (tried_in_all - tried_here)[groups]
            result.append(np.divide(masses - block, left, out=whole.copy(), where=left > 0))
        return result


class _Entries:
    """Coordinates of a sparse matrix whose values are frequencies of windows, collected table by table."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._parts: list[tuple[WindowTable, Ints, Ints]] = []

    def add(self, table: WindowTable, rows: Ints, columns: Ints) -> None:
        self._parts.append((table, rows, columns))

    def build(self, frequencies: _Frequencies) -> list[Any]:
        """One matrix per version of the frequencies, all sharing their index arrays."""
        rows = np.concatenate([part[1] for part in self._parts])
        columns = np.concatenate([part[2] for part in self._parts])
        order = np.lexsort((columns, rows))
        indices = columns[order]
        indptr = np.searchsorted(rows[order], np.arange(self._shape[0] + 1))
        n_versions = len(frequencies.of(self._parts[0][0]))
        return [
            scipy.sparse.csr_array(
                (
                    np.concatenate([frequencies.of(part[0])[version] for part in self._parts])[order],
                    indices,
                    indptr,
                ),
                shape=self._shape,
            )
            for version in range(n_versions)
        ]


def _rare_symbols(counts: SequenceCounts) -> Diagnostics:
    """Actions tried too rarely to be trusted, and declared observations that never came."""
    table = counts.table(1)
    seen = np.zeros((counts.n_actions, counts.n_observations), dtype=np.int64)
    seen[table.codes[0] // counts.n_observations, table.codes[0] % counts.n_observations] = table.totals
    notes = Diagnostics()
    rare = {
        name: int(tries)
        for name, tries in zip(counts.action_names, seen.sum(axis=1), strict=True)
        if 0 < tries < _FEW_TRIES
    }
    if rare:
        listing = ", ".join(f"{name} ({tries} times)" for name, tries in rare.items())
        notes = notes.noting("rarely_tried", f"actions tried too rarely to be trusted: {listing}", tries=rare)
    absent = [
        name for name, times in zip(counts.observation_names, seen.sum(axis=0), strict=True) if times == 0
    ]
    if absent:
        shown = ", ".join(absent[:10]) + (", ..." if len(absent) > 10 else "")
        notes = notes.noting(
            "never_observed", f"declared observations that never came: {shown}", names=absent
        )
    return notes


def _doubtful_probabilities(counts: SequenceCounts) -> Diagnostics:
    """Actions whose weights do not average to one, as they do if every choice was as probable as the log says and no
    action was ever impossible."""
    table = counts.table(1)
    if table.weights is None or table.squares is None:
        return Diagnostics()
    actions = table.codes[0] // counts.n_observations
    windows = table.totals.sum()
    averages = np.bincount(actions, weights=table.weights.sum(axis=1), minlength=counts.n_actions) / windows
    errors = np.sqrt(np.bincount(actions, weights=table.squares[:, 0], minlength=counts.n_actions)) / windows
    off = np.flatnonzero((averages > 0) & (np.abs(averages - 1) > DOUBTFUL_SIGMAS * errors))
    if off.size == 0:
        return Diagnostics()
    listing = ", ".join(f"{counts.action_names[a]} ({averages[a]:.3g} ± {errors[a]:.1g})" for a in off)
    return Diagnostics().noting(
        "doubtful_probabilities",
        f"weights by the logged probabilities should average to one, but do not for {listing}: either the "
        "probabilities are not those of the choices, or at times these actions were impossible; what is learned may "
        "be biased",
        averages={counts.action_names[a]: float(averages[a]) for a in off},
    )


def _untried_sequences(counts: SequenceCounts) -> Diagnostics:
    longest = counts.tables[-1]
    groups, _ = longest.action_groups(counts.n_observations)
    tried = len(np.unique(groups))
    possible = counts.n_actions**longest.length
    if tried == possible:
        return Diagnostics()
    return Diagnostics().noting(
        "untried_action_sequences",
        f"{possible - tried} of {possible} action sequences of length {longest.length} never occur; "
        "their entries of the Hankel matrix are zero",
        untried=possible - tried,
        possible=possible,
    )


# --- from a model ---------------------------------------------------------------------------------------
