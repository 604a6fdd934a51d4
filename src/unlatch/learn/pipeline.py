"""From a log to a POMDP: one call per arrow of the picture in ARCHITECTURE.md, nothing hidden."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats, own_errstate
from unlatch.core import html
from unlatch.core.arguments import checked_log
from unlatch.core.budget import Budget
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.evidence import Evidence
from unlatch.core.identification import QUICK_STATES, Identification
from unlatch.core.intervals import Intervals
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.psr import PSR
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.engines.engine import engine_of
from unlatch.errors import NotLearnableError, NumericalError, ResourceLimitError, UnlatchError, UsageError
from unlatch.learn.examine.log import examine, refuse_deterministic_policy
from unlatch.learn.examine.model import examine_model
from unlatch.learn.identify.entries import NOTICEABLE, Undetermined, undetermined_entries
from unlatch.learn.identify.learned import identify_learned, support_for_proof
from unlatch.learn.identify.support import ZeroSupport
from unlatch.learn.intervals.covariance import Covariance
from unlatch.learn.intervals.design import Needs
from unlatch.learn.intervals.fit import Fit
from unlatch.learn.intervals.sets import open_sets
from unlatch.learn.intervals.uncertainty import Uncertainty
from unlatch.learn.likelihood.blocks import FORGOTTEN, REACH
from unlatch.learn.likelihood.objective import Hypothesis
from unlatch.learn.likelihood.parameters import ExpectedCounts, parameters_of
from unlatch.learn.likelihood.refine import made_possible
from unlatch.learn.likelihood.search import StateSearch
from unlatch.learn.likelihood.select_states import Selection, select_states
from unlatch.learn.observability import cells_of, full_rank_actions
from unlatch.learn.options import LearnOptions
from unlatch.learn.spectral.counting import SequenceCounts
from unlatch.learn.spectral.factorize import RankFactorization, Scaling
from unlatch.learn.spectral.fit_psr import fit_psr
from unlatch.learn.spectral.from_hankel import SpectralResult, learn_from_hankel
from unlatch.learn.spectral.hankel import LOG_NOTES, HankelMatrix
from unlatch.learn.spectral.lengths import FEWER_WINDOWS, counting, factorize_counted, factorize_log
from unlatch.learn.spectral.windows import BLOCKS
from unlatch.streams.source import LogFiles
from unlatch.streams.streamed import StreamedLikelihood, StreamedLog

__all__ = ["LearnResult", "learn_from_counts", "learn_pomdp", "learn_psr"]

_FOR_SPECTRAL_STAGES = 1 / 3
_LEAST, _SHORT = 4.0, 1.2
"""Their share of the time. Of a limit of less than a few seconds they may take four times as much, up to so many
seconds: a limit is kept to within two seconds, and their answer, the first, is worth one of them."""


_A_TRACE = 1e-6
"""What a spectral model gives to everything if its log is impossible otherwise: far less than any of its errors."""

_FOR_THE_SANDWICH = 150
"""Numbers up to which intervals of a model that does not fit are taken by differences too, two passes for each."""

_FOR_THE_FIT = 0.5
"""Seconds that the examination of the fit may take though time is up: most models take less, and it is worth them."""


@dataclass(frozen=True, eq=False)
class LearnResult:
    """A learned POMDP, why it is this one, and what was found on the way.

    Everything on the first level speaks of the model that is returned.

    Attributes
    ----------
    pomdp : POMDP
    partition : Partition
        Its observability partition: states in one cell show the same, within noise, under every full-rank action. With
        no such action all states are in one cell, but for terminal ones, and it says nothing: see ``identified``.
    full_rank_actions : tuple of int
        Actions whose transition matrix has full rank beyond noise.
    log_likelihood : float
        Of the log under ``pomdp``, in nats; always finite.
    evidence : Evidence or None
        How sure the number of states is; None for the plain spectral model.
    spectral : SpectralResult or None
        The whole spectral answer; None if there was no time, or no memory, for it.
    search : StateSearch or None
        What the search for the number of states tried; None for the plain spectral model.
    options : LearnOptions
    steps, episodes : int
        Of the log.
    complete : bool
        False if a time limit or Ctrl-C cut the work short.
    seed : int or None
        Repeats the result; None if the caller passed a generator.
    diagnostics : Diagnostics
        What was noticed, repaired or left open.
    log : Trajectory or None
        What it was learned from, for `resume`; None if that is in files. It is not saved with the model.
    zero_support : ZeroSupport or None
        What the log says about every probability that is zero; None if there was no time to ask, and for the plain
        spectral model.
    shared : bool
        Whether the states show the same under every action, so that their rows were learned from all at once.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> result = unlatch.learn_pomdp(log, refine=None, rng=0)  # the spectral model alone, which is instant
    >>> result.states, result.partition, result.seed
    (2, Partition({0}, {1}), 0)
    >>> result.pomdp.transitions.shape, result.pomdp.observations.shape
    ((3, 2, 2), (3, 2, 6))
    """

    pomdp: POMDP
    partition: Partition
    full_rank_actions: tuple[int, ...]
    log_likelihood: float
    evidence: Evidence | None
    spectral: SpectralResult | None
    search: StateSearch | None
    options: LearnOptions
    steps: int
    episodes: int
    complete: bool = True
    seed: int | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    zero_support: ZeroSupport | None = None
    shared: bool = False
    log: Trajectory | None = field(default=None, repr=False)

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.pomdp.n_states

    @cached_property
    def undetermined(self) -> Undetermined | None:
        """Which numbers of ``pomdp`` the partition leaves open; None without a full-rank action."""
        if not self.full_rank_actions:
            return None
        return undetermined_entries(self.pomdp, self.partition, tolerance=NOTICEABLE)

    @cached_property
    def identified(self) -> Identification:
        """What the log determines of ``pomdp``: whether another model near would explain it as well.

        Needs no action of full rank. States that noise alone tells apart count as alike. Zeros carry a proof only if
        the log had opportunities enough to show them, and are named with their number.
        """
        return identify_learned(self.pomdp, self.steps, self.zero_support)

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """What the log says about every number of ``pomdp``, and about whatever is computed from them.

        Where the model does not fit its log (the note ``poor_fit``) and has few numbers, by a method that holds all the
        same; ``uncertainty.method`` says which.
        """
        if self.search is None:
            raise UsageError(
                "the spectral model is no maximum of the likelihood, and intervals are about that: learn with "
                "refine='auto'"
            )
        hypothesis = self.search.hypothesis
        fit = Fit.of(self.pomdp, hypothesis.log, shared=self.shared, whole=hypothesis.whole)
        numbers = sum(int(flags.sum()) for flags in fit.free)
        misfit = "poor_fit" in self.diagnostics and numbers <= _FOR_THE_SANDWICH
        found = self.identified if self.states <= QUICK_STATES else None
        sets, examined = open_sets(self.pomdp, found)
        equals = () if found is None or found.extremes is None else tuple(found.extremes)
        return Uncertainty(fit, "sandwich" if misfit else "scores", sets, examined, equals)

    def intervals(self, level: float = 0.9) -> Intervals:
        """An interval and a verdict for every number of ``pomdp``.

        ``.transitions``, ``.observations`` and ``.initial`` have the shape of the model's arrays and a last axis for
        the least and the greatest value. What no log determines has a set; what this one says nothing about, [0, 1].
        Takes about three passes over the log; the log is kept for it, but not saved with a model.

        Examples
        --------
        >>> from unlatch import domains, learn_pomdp, simulate
        >>> result = learn_pomdp(simulate(domains.tiger(), 5_000, rng=0), rng=0)
        >>> result.intervals().transitions.shape
        (3, 2, 2, 2)
        """
        found = self._stated[level] if level in self._stated else self.uncertainty.intervals(level)
        self._stated.pop(level, None)  # the last that was asked for comes last
        self._stated[level] = found
        return found

    @cached_property
    def _stated(self) -> dict[float, Intervals]:
        """Intervals that were asked for, by their level."""
        return {}

    @property
    def stated(self) -> Intervals | None:
        """The intervals that go into a model file: the last that were asked for, else those of 90 %; None where there
        are none, or where the work was cut short and nobody asked."""
        if self._stated:
            return list(self._stated.values())[-1]
        if self.search is None or not self.complete:
            return None
        try:
            return self.intervals()
        except (NumericalError, ResourceLimitError):
            return None

    def covariance(self) -> Covariance:
        """Joint covariance of the numbers of ``pomdp`` that are neither fixed nor at the edge; ``.entries`` says what
        every index stands for."""
        return self.uncertainty.covariance()

    def draws(self, n: int, *, rng: RandomSource = None) -> list[POMDP]:
        """Models as the log leaves them possible; see `Uncertainty.draws`."""
        return self.uncertainty.draws(n, rng=rng)

    def interval_of(
        self, function: Callable[[POMDP], Any], *, level: float = 0.9, rng: RandomSource = 0, **options: Any
    ) -> Floats:
        """The interval of anything that is computed from a model; see `Uncertainty.interval_of`.

        Examples
        --------
        >>> from unlatch import domains, learn_pomdp, simulate
        >>> result = learn_pomdp(simulate(domains.tiger(), 5_000, rng=0), rng=0)
        >>> low, high = result.interval_of(lambda model: model.stationary()[0])
        >>> bool(low < 0.5 < high)
        True
        """
        return self.uncertainty.interval_of(function, level=level, rng=rng, **options)

    def needs(self, width: float, *, level: float = 0.9, rng: RandomSource = 0) -> Needs:
        """How many more steps would bring the widest interval under ``width``, and which actions to take in them; see
        `Uncertainty.needs`."""
        return self.uncertainty.needs(width, level=level, rng=rng)

    def __repr__(self) -> str:
        return f"LearnResult({self.pomdp}, {self.partition}, {len(self.diagnostics)} diagnostics)"

    def _repr_html_(self) -> str:
        """For notebooks: how sure the count is, the model, what was noticed."""
        sure = "the spectral model: nothing was compared" if self.evidence is None else str(self.evidence)
        rows = [
            ("log", f"{self.steps} steps, {self.episodes} episodes"),
            ("evidence", sure),
            ("log-likelihood", f"{self.log_likelihood:.6g} nats"),
            ("full-rank actions", ", ".join(self.pomdp.action_names[a] for a in self.full_rank_actions)),
            ("partition", repr(self.partition)),
            ("complete", self.complete),
        ]
        parts = html.table(rows), self.pomdp._repr_html_(), self.diagnostics._repr_html_()
        return html.page(f"{self.states} hidden states", *parts)


@own_errstate
@linalg.on_one_thread
def learn_pomdp(
    log: Trajectory | Source,
    *,
    engine: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    states: int | None = None,
    max_states: int | None = None,
    time_limit: float | None = None,
    emission: Emission | Literal["auto"] = "auto",
    refine: Literal["auto"] | None = "auto",
    rank: int | None = None,
    rank_tolerance: float | None = None,
    max_rank: int = 20,
    history_length: int | None = None,
    test_length: int | None = None,
    scaling: Scaling = "noise",
    min_singular_value: float | None = None,
    observation_tolerance: float | None = None,
    draws: int = 30,
    newton: bool = True,
    rotation: Literal["cells", "dense"] = "cells",
    rng: RandomSource = None,
) -> LearnResult:
    """Learn an explicit POMDP from a log of blind exploration.

    Every argument left at None is chosen from the data; what was chosen and why is in the result.

    Parameters
    ----------
    log : Trajectory, path, several paths, or LogFiles
        Actions must not depend on what was observed (uniform, or any fixed distribution), unless the log says with
        which probability each was chosen. A log in files that has more steps than a block (`LogFiles`) is not read
        into memory: the search looks at its first block, and all that is then counted and climbed is passed over block
        by block.
    engine : optional
        Who passes over the blocks of a log in files: None for this process, "processes" or a number of them, "dask"
        for a cluster of this machine, or a client of Dask. Does not change the result.
    checkpoint : path, optional
        A folder in which what was found in every block is kept. A call that was killed, repeated with the same ``rng``,
        goes on where it was. For Parquet files, as with an engine; the folder must be one that only you can write to.
    states : int, optional
        Fixes the number of states, of the spectral model and of the search.
    max_states : int, optional
        The most states that the model may have, those included in which nothing more happens; by default only log and
        time bound them.
    time_limit : float, optional
        Seconds for the whole call, kept to within a tenth and two seconds; the best model found by then is returned, at
        worst one of a single state. Ctrl-C does the same at any time.
    emission : "auto", "departure" or "arrival"
        Whether the state left or the state reached shows the observation. By default both are learned as far as it
        takes to tell which explains the log better; ``result.evidence`` says by how much. Where the state reached shows
        the observation, the reward may still be paid by the state left: that is tried too.
    refine : "auto" or None
        "auto" goes on from the spectral model, or from nothing where the spectral stages refuse: a search over the
        number of states by the evidence for each, then maximum likelihood on the whole log. None returns the
        spectral model, the fast first answer.
    rank, rank_tolerance, max_rank, scaling
        The rank of the Hankel matrix, or how to find it, and what the singular vectors are taken of; see
        `factorize`. They shape the spectral model, and the number of states only where that is returned.
    history_length, test_length : int, optional
        The paper's "(L1, L2)". By default they grow while that reveals more states.
    min_singular_value : float, optional
        What the smallest singular value of an action's matrix must exceed for the action to count as full-rank; by
        default three standard errors.
    observation_tolerance : float, optional
        L1 distance of observation rows up to which two states are in one cell; by default five standard errors.
    draws, newton
        See `find_similarity`.
    rotation : "cells" or "dense"
        "dense" is the variant that the paper ran: one random rotation right after the SVD, none inside
        cells.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    LearnResult

    Raises
    ------
    NotLearnableError
        If the log has next to nothing, fewer than eight steps for every action, or if the last observation settles the
        action. With ``refine=None`` also where the spectral stages have no answer.

    Examples
    --------
    >>> from unlatch import domains, learn_pomdp, simulate
    >>> learn_pomdp(simulate(domains.tiger(), 5_000, rng=0), rng=0).states
    2
    """
    options = LearnOptions(
        states=states,
        max_states=max_states,
        time_limit=time_limit,
        emission=emission,
        refine=refine,
        rank=rank,
        rank_tolerance=rank_tolerance,
        max_rank=max_rank,
        history_length=history_length,
        test_length=test_length,
        scaling=scaling,
        min_singular_value=min_singular_value,
        observation_tolerance=observation_tolerance,
        draws=draws,
        newton=newton,
        rotation=rotation,
    )
    budget = Budget(options.time_limit)
    generator, seed = resolve_rng(rng)
    plain, stream = _opened(log, engine, checkpoint)
    log = plain.with_reward_symbols()
    _refuse_a_single_state(log, options)
    refuse_deterministic_policy(log)
    spectral, refusal = _spectral(log, options, budget, generator, stream)
    with budget.active():
        notes = log.diagnostics + examine(log)
    if options.refine is None:
        if budget.interrupted:
            raise KeyboardInterrupt  # there is no other answer than the one that was interrupted
        result = _plain(spectral, refusal, log, options, stream)
    else:
        hypotheses = _hypotheses(plain, log, spectral, options, stream)
        result = budget.insist(lambda: _refined(hypotheses, spectral, refusal, options, budget, generator))
    kept = plain if stream is None else None
    return replace(result, seed=seed, diagnostics=notes + result.diagnostics, log=kept)


Source = str | os.PathLike[str] | Sequence[Any] | LogFiles
"""A log in files."""


def _opened(
    log: Trajectory | Source, engine: Any, checkpoint: str | os.PathLike[str] | None
) -> tuple[Trajectory, StreamedLog | None]:
    """A log in memory; of a long one in files the first block, and the door to the rest."""
    if isinstance(log, Trajectory):
        if engine is not None or checkpoint is not None:
            raise UsageError(
                "an engine passes over a log in files, and a checkpoint keeps what was found in its blocks; this "
                "log is in memory. Give its path, or neither"
            )
        return log, None
    if not isinstance(log, str | os.PathLike | list | tuple | LogFiles):
        return checked_log(log), None
    files = log if isinstance(log, LogFiles) else LogFiles(log)
    stream = StreamedLog(files, engine_of(engine, checkpoint=checkpoint))
    sample = stream.sample
    return sample, None if len(sample) == stream.steps else stream


def _refuse_a_single_state(log: Trajectory, options: LearnOptions) -> None:
    """The end is a state, and needs another that comes before it."""
    ends = log.terminated is not None and bool(log.terminated.any())
    for name, limit in (("states", options.states), ("max_states", options.max_states)):
        if limit == 1 and ends and options.refine is not None:
            raise UsageError(
                f"{name}=1, but the log has episodes that ended, and the end is a state by itself; allow 2 at least, "
                "or leave the endings out: dataclasses.replace(log, terminated=None)"
            )


# --- the spectral stages -------------------------------------------------------------------------------


Spectral = Mapping[Emission, SpectralResult]
"""What the spectral stages found, for every emission that comes into question."""


def _spectral(
    log: Trajectory,
    options: LearnOptions,
    budget: Budget,
    rng: np.random.Generator,
    stream: StreamedLog | None,
) -> tuple[Spectral, UnlatchError | None]:
    """What they found, and why they did not get that far, if they did not.

    Where likelihood goes on by itself it is no error that time or memory do not suffice, or that log or episodes are
    too short for a Hankel matrix; but it is one that the log has next to nothing.
    """
    share = (
        budget if options.refine is None else budget.share(_FOR_SPECTRAL_STAGES, least=_LEAST, most=_SHORT)
    )
    found: dict[Emission, SpectralResult] = {}
    refusal: UnlatchError | None = ResourceLimitError("there was no time left for them; allow more")
    with share.ending():
        try:
            factors = _factorized(log, options, rng, stream)
            for emission in options.emissions:
                found[emission] = _recovered(*factors, options, emission, rng)
            refusal = None
        except ResourceLimitError as error:
            refusal = error
        except NotLearnableError as error:
            if options.refine is None or not _enough_for_likelihood(log):
                raise
            refusal = error
    return found, refusal


def _enough_for_likelihood(log: Trajectory) -> bool:
    """Whether every action was tried a few times: then there is evidence for a single state at least."""
    return len(log) >= BLOCKS * len(log.action_names)


def _factorized(
    log: Trajectory, options: LearnOptions, rng: np.random.Generator, stream: StreamedLog | None
) -> tuple[SequenceCounts, HankelMatrix, RankFactorization]:
    return factorize_counted(
        stream.count if stream is not None else counting(log),
        rank=options.spectral_rank,
        rank_tolerance=options.rank_tolerance,
        max_rank=options.largest_rank,
        history_length=options.history_length,
        test_length=options.test_length,
        scaling=options.scaling,
        rotate=options.dense_rotation,
        rng=rng,
        **({} if stream is None else {"most_windows": FEWER_WINDOWS}),
    )


def _recovered(
    counts: SequenceCounts,
    hankel: HankelMatrix,
    factorization: RankFactorization,
    options: LearnOptions,
    emission: Emission,
    rng: np.random.Generator,
) -> SpectralResult:
    """From the factors to a model, or to the reason why there is none."""
    try:
        found = learn_from_hankel(
            hankel,
            factorization,
            min_singular_value=options.min_singular_value,
            observation_tolerance=options.observation_tolerance,
            emission=emission,
            draws=options.draws,
            newton=options.newton,
            cell_basis="none" if options.dense_rotation else "nonnegative",
            rng=rng,
        )
    except (NotLearnableError, NumericalError) as error:
        found = SpectralResult(
            hankel=hankel,
            factorization=factorization,
            psr=fit_psr(hankel, factorization),
            refusal=error,
            diagnostics=hankel.diagnostics + factorization.diagnostics,
        )
    return replace(found, counts=counts)


def _plain(
    found: Spectral,
    refusal: UnlatchError | None,
    log: Trajectory,
    options: LearnOptions,
    stream: StreamedLog | None,
) -> LearnResult:
    """The spectral model as it is, of the emission under which the log is more likely; without one the refusal is the
    answer."""
    models = {}
    for emission, spectral in found.items():
        if spectral.pomdp is not None:
            models[emission] = _possible(marked(spectral.pomdp, log), log, stream)
        refusal = refusal or spectral.refusal
    if not models:
        assert refusal is not None
        raise refusal
    emission = max(models, key=lambda emission: models[emission][1])
    pomdp, height, notes = models[emission]
    spectral = found[emission]
    assert spectral.partition is not None
    if stream is not None:
        notes += _block_notes(
            stream,
            "the log was examined on the first {sample}; windows and likelihood are those of all of them",
        )
    return LearnResult(
        pomdp=pomdp,
        partition=spectral.partition,
        full_rank_actions=spectral.full_rank_actions,
        log_likelihood=height,
        evidence=None,
        spectral=spectral,
        search=None,
        options=options,
        steps=len(log) if stream is None else stream.steps,
        episodes=log.n_episodes if stream is None else stream.whole.episodes,
        diagnostics=spectral.diagnostics + _untried_notes(log) + _left_out_notes(log) + notes,
    )


def _left_out_notes(log: Trajectory) -> Diagnostics:
    """What a log tells that the spectral stages make nothing of."""
    told = {
        "endings": log.terminated is not None and bool(log.terminated.any()),
        "first observations": log.first_observations is not None,
    }
    if not any(told.values()):
        return Diagnostics()
    listing = " and ".join(name for name, is_told in told.items() if is_told)
    return Diagnostics().noting(
        "left_out",
        f"the spectral stages make nothing of {listing}: the model does not know them. refine='auto' learns them",
    )


def _possible(pomdp: POMDP, log: Trajectory, stream: StreamedLog | None) -> tuple[POMDP, float, Diagnostics]:
    """The model, such that its own log is possible, with the likelihood that it gives to it."""
    whole = None if stream is None else stream.likelihood(pomdp.emission)
    hypothesis = Hypothesis(log, pomdp.emission, whole=whole)
    height = hypothesis.log_likelihood(pomdp)
    if np.isfinite(height):
        return pomdp, height, Diagnostics()
    pomdp = made_possible(pomdp, log, _A_TRACE)
    notes = Diagnostics().noting(
        "opened_zeros",
        f"the log was impossible under the spectral model: every probability was mixed with {_A_TRACE:g} of everything",
        weight=_A_TRACE,
    )
    return pomdp, hypothesis.log_likelihood(pomdp), notes


# --- likelihood ----------------------------------------------------------------------------------------


def _hypotheses(
    plain: Trajectory,
    log: Trajectory,
    spectral: Spectral,
    options: LearnOptions,
    stream: StreamedLog | None,
) -> list[Hypothesis]:
    """How the log may have come about. ``log`` has pairs of observation and reward for symbols, ``plain`` has not."""
    found = []
    for emission in options.emissions:
        known = spectral.get(emission)
        starts = () if known is None or known.pomdp is None else (parameters_of(known.pomdp),)
        whole = None if stream is None else stream.likelihood(emission)
        found.append(Hypothesis(log, emission, starts=starts, whole=whole))
    if log is not plain and "arrival" in options.emissions:
        found.append(Hypothesis(plain, "arrival", rewards_apart=True))
    return found


def _refined(
    hypotheses: list[Hypothesis],
    found_spectral: Spectral,
    refusal: UnlatchError | None,
    options: LearnOptions,
    budget: Budget,
    rng: np.random.Generator,
) -> LearnResult:
    """The result with the model that search and climb lead to."""
    found = select_states(
        hypotheses, states=options.states, max_states=options.max_states, budget=budget, rng=rng
    )
    pomdp, fit = _examined(found, budget)
    if "poor_fit" in fit and options.states is None and found.complete and hypotheses[0].whole is None:
        found, pomdp, fit = _searched_on(found, pomdp, fit, hypotheses, options, budget, rng)
    hypothesis = found.search.hypothesis
    log = hypothesis.log
    spectral = found_spectral.get(found.pomdp.emission)
    actions, partition = budget.insist(lambda: observability(pomdp, found.counts, options))
    return LearnResult(
        pomdp=pomdp,
        partition=partition,
        full_rank_actions=actions,
        log_likelihood=found.log_likelihood,
        evidence=found.evidence,
        spectral=spectral,
        search=found.search,
        options=options,
        steps=hypothesis.steps,
        episodes=hypothesis.episodes,
        complete=found.complete and not budget.interrupted,
        shared=found.counts.shared,
        diagnostics=_spectral_notes(spectral, refusal, found)
        + _untried_notes(log)
        + found.diagnostics
        + _limit_notes(found, budget, options)
        + fit
        + _neither_notes(found, fit)
        + _cut_notes(pomdp, hypothesis),
        zero_support=_supported(pomdp, found, budget),
    )


def _cut_notes(pomdp: POMDP, hypothesis: Hypothesis) -> Diagnostics:
    """What beliefs lose where a log in files is cut into blocks."""
    if not isinstance(hypothesis.whole, StreamedLikelihood):
        return Diagnostics()
    stream = hypothesis.whole.stream
    notes = _block_notes(
        stream,
        "states and zeros were searched for, and log and model examined, on the first {sample}; the numbers, their "
        "likelihood and their intervals are from all of them",
    )
    lost = stream.unforgotten(parameters_of(pomdp), pomdp.emission)
    if lost <= FORGOTTEN:
        return notes
    return notes.noting(
        "unforgotten",
        f"what lies {REACH} steps before a cut between blocks of the log is not forgotten: beliefs there differ by up "
        f"to {lost:.2g}. Likelihood and numbers are those of blocks that know no more of each other",
        difference=lost,
        steps=REACH,
    )


def _block_notes(stream: StreamedLog, what: str) -> Diagnostics:
    """What of a long log in files was looked at for what."""
    sample, blocks = len(stream.sample), len(stream.whole.seams)
    return Diagnostics().noting(
        "in_blocks",
        f"{stream.steps:,} steps were passed over in {blocks} blocks: {what.format(sample=f'{sample:,}')}",
        steps=stream.steps,
        blocks=blocks,
        sample=sample,
    )


def _supported(pomdp: POMDP, found: Selection, budget: Budget) -> ZeroSupport | None:
    """What the log says about the zeros of the model, if there is time to ask."""
    with budget.extended(_FOR_THE_FIT).ending():
        hypothesis = found.search.hypothesis
        return support_for_proof(pomdp, hypothesis.log, hypothesis.likelihood(), found.counts)
    return None


def _examined(found: Selection, budget: Budget) -> tuple[POMDP, Diagnostics]:
    """The model with what the log never tried marked, and what does not fit."""
    log = found.search.hypothesis.log
    pomdp = marked(found.pomdp, log)
    fit = Diagnostics().noting(
        "fit_not_examined", "there was no time to examine the fit; call examine_model(pomdp, log) by itself"
    )
    with budget.extended(_FOR_THE_FIT).ending():
        in_memory = found.search.hypothesis.whole is None
        fit = examine_model(pomdp, log, counts=found.counts if in_memory else None)
    return pomdp, fit


def _searched_on(
    found: Selection,
    pomdp: POMDP,
    fit: Diagnostics,
    hypotheses: list[Hypothesis],
    options: LearnOptions,
    budget: Budget,
    rng: np.random.Generator,
) -> tuple[Selection, POMDP, Diagnostics]:
    """The search goes on from a model that does not fit: with the whole log, more states, and the other emissions anew;
    what it comes to, if there is more evidence for it, and what was tried."""
    mine = found.search.hypothesis
    again = [replace(h, starts=(found.search.best.parameters,) if h is mine else ()) for h in hypotheses]
    more = select_states(again, max_states=options.max_states, thorough=True, budget=budget, rng=rng)
    tried = sorted({*found.search.models, *more.search.models})
    better = more.complete and more.score > found.score
    if better:
        found = more
        pomdp, fit = _examined(found, budget)
    if "poor_fit" in fit:
        emissions = len({h.emission for h in hypotheses})
        fit = fit.noting(
            "searched_on",
            f"the search went on with the whole log, up to {tried[-1]} states and {emissions} "
            f"emission{'s' * (emissions > 1)}, and found {'a better model, but none' if better else 'none'} that fits",
            states=tried[-1],
        )
    return found, pomdp, fit


def _neither_notes(found: Selection, fit: Diagnostics) -> Diagnostics:
    """That no emission fits, where more than one was tried, with as many states as wanted, and the best does not. One
    that was given up lay clearly behind that."""
    evidence = found.evidence
    limited = evidence.fixed or any(note.name == "states_at_limit" for note in found.diagnostics)
    compared = found.complete and len(evidence.emission_scores) + len(evidence.emissions_given_up) > 1
    if limited or not compared or all(note.name != "poor_fit" for note in fit):
        return Diagnostics()
    return Diagnostics().noting(
        "neither_emission_fits",
        "neither the state left nor the state reached explains what is shown: it may belong to the move from one to "
        "the other. Then a model needs more states than the system has; learn_psr predicts without any",
    )


def observability(
    pomdp: POMDP, counts: ExpectedCounts, options: LearnOptions
) -> tuple[tuple[int, ...], Partition]:
    """The actions of full rank, and the cells of states under them."""
    left, shown = counts.transitions.sum(axis=2), counts.observations.sum(axis=2)
    actions = full_rank_actions(pomdp, left, min_singular_value=options.min_singular_value)
    return actions, cells_of(pomdp, actions, shown, tolerance=options.observation_tolerance)


def _spectral_notes(
    spectral: SpectralResult | None, refusal: UnlatchError | None, found: Selection
) -> Diagnostics:
    """What the spectral stages say about the log, and where they do not agree with the likelihood."""
    notes = Diagnostics()
    if spectral is not None:
        notes = Diagnostics(tuple(note for note in spectral.hankel.diagnostics if note.name in LOG_NOTES))
    refusal = refusal if spectral is None else spectral.refusal
    if spectral is None or refusal is not None:
        return notes.noting(
            "spectral_refused", f"the spectral stages gave no model, only the likelihood did: {refusal}"
        )
    states = found.pomdp.n_states - len(found.pomdp.terminal)  # the end has no future to predict
    if spectral.rank == states or found.evidence.fixed:
        return notes
    if not found.search.complete:
        reason = "the search was cut short, so that neither is settled"
    elif spectral.rank < states:
        reason = "no further singular value of the Hankel matrix stands clear of its noise"
    else:
        reason = f"the log does not pay for more than {states}"
    besides = " besides the end" if found.pomdp.terminal else ""
    return notes.noting(
        "spectral_disagrees",
        f"the spectral model has {spectral.rank} states, the likelihood prefers {states}{besides}: {reason}",
        spectral=spectral.rank,
        likelihood=states,
    )


def marked(pomdp: POMDP, log: Trajectory) -> POMDP:
    """The model with the actions marked that the log never tried; nothing is known about them, so rows are uniform."""
    untried = [pomdp.action_names.index(name) for name in log.untried_actions]
    if not untried:
        return pomdp
    transitions, observations = pomdp.transitions.copy(), pomdp.observations.copy()
    transitions[untried], observations[untried] = 1 / pomdp.n_states, 1 / pomdp.n_observations
    for state in pomdp.terminal:
        transitions[:, state] = np.eye(pomdp.n_states)[state]
    rewards = pomdp.reward_probabilities
    if rewards is not None:
        rewards = rewards.copy()
        rewards[untried] = 1 / rewards.shape[2]
    return replace(
        pomdp,
        transitions=transitions,
        observations=observations,
        reward_probabilities=rewards,
        untried_actions=log.untried_actions,
    )


def _untried_notes(log: Trajectory) -> Diagnostics:
    if not log.untried_actions:
        return Diagnostics()
    return Diagnostics().noting(
        "never_tried",
        f"actions never tried in the log: {', '.join(log.untried_actions)}; their rows are uniform and mean nothing, "
        "and planners leave these actions out",
        actions=list(log.untried_actions),
    )


def _limit_notes(found: Selection, budget: Budget, options: LearnOptions) -> Diagnostics:
    if budget.interrupted:
        return Diagnostics().noting("interrupted", "learning was interrupted; this is the best model so far")
    if found.complete:
        return Diagnostics()
    return Diagnostics().noting(
        "time_limit",
        f"the time limit of {options.time_limit:g} seconds ended the work; this is the best model found by then",
        seconds=options.time_limit,
    )


@own_errstate
def learn_psr(
    log: Trajectory,
    *,
    rank: int | None = None,
    rank_tolerance: float | None = None,
    history_length: int | None = None,
    test_length: int | None = None,
    max_rank: int = 20,
    scaling: Scaling = "noise",
    rng: RandomSource = None,
) -> PSR:
    """Learn a linear PSR: predictions without hidden states. It knows nothing of endings and first observations.

    Parameters as in `learn_pomdp`.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> unlatch.learn_psr(log, rng=0)
    PSR(rank 2, 3 actions, 6 observations)
    """
    generator, _ = resolve_rng(rng)
    _, hankel, factorization = factorize_log(
        checked_log(log).with_reward_symbols(),
        rank=rank,
        rank_tolerance=rank_tolerance,
        max_rank=max_rank,
        history_length=history_length,
        test_length=test_length,
        scaling=scaling,
        rotate=False,
        rng=generator,
    )
    return fit_psr(hankel, factorization)


@own_errstate
@linalg.on_one_thread
def learn_from_counts(
    counts: SequenceCounts,
    *,
    emission: Emission | Literal["auto"] = "auto",
    rank: int | None = None,
    rank_tolerance: float | None = None,
    max_rank: int = 20,
    history_length: int | None = None,
    test_length: int | None = None,
    scaling: Scaling = "noise",
    min_singular_value: float | None = None,
    observation_tolerance: float | None = None,
    draws: int = 30,
    newton: bool = True,
    rotation: Literal["cells", "dense"] = "cells",
    rng: RandomSource = None,
) -> SpectralResult:
    """The spectral model of a log of which only the counts are at hand, since it was counted elsewhere, or in parts.

    Parameters as in `learn_pomdp`. Histories and tests grow up to those that were counted. With ``emission="auto"`` the
    model is taken under which the longest windows that were counted are likelier.

    Raises
    ------
    NotLearnableError, NumericalError
        If the spectral stages have no answer; the likelihood, which needs the log, may have one.

    Examples
    --------
    >>> from unlatch import count_sequences, domains, learn_from_counts, simulate
    >>> log = simulate(domains.tiger(), 20_000, rng=0)
    >>> learn_from_counts(count_sequences(log, history_length=3, test_length=2), rng=0).rank
    2
    """
    if not isinstance(counts, SequenceCounts):
        raise UsageError(
            f"expected SequenceCounts, got {type(counts).__name__}; use count_sequences or load_counts"
        )
    options = LearnOptions(
        emission=emission,
        refine=None,
        rank=rank,
        rank_tolerance=rank_tolerance,
        max_rank=max_rank,
        history_length=history_length,
        test_length=test_length,
        scaling=scaling,
        min_singular_value=min_singular_value,
        observation_tolerance=observation_tolerance,
        draws=draws,
        newton=newton,
        rotation=rotation,
    )
    generator, _ = resolve_rng(rng)
    factors = factorize_counted(
        counts.within,
        rank=options.spectral_rank,
        rank_tolerance=options.rank_tolerance,
        max_rank=options.largest_rank,
        history_length=options.history_length,
        test_length=options.test_length,
        scaling=options.scaling,
        rotate=options.dense_rotation,
        most_tests=(len(counts.tables) - 1) // 2,
        rng=generator,
    )
    found = [_recovered(*factors, options, kind, generator) for kind in options.emissions]
    learned = [result for result in found if result.pomdp is not None]
    if not learned:
        assert found[0].refusal is not None
        raise found[0].refusal
    return max(learned, key=lambda result: window_likelihood(result, counts))


def window_likelihood(found: SpectralResult, counts: SequenceCounts) -> float:
    """Mean log-probability of what the longest windows show, given their actions; none counts as less than a trace."""
    assert found.pomdp is not None
    table, pomdp = counts.tables[-1], found.pomdp
    windows = table.symbols()
    beliefs = np.tile(pomdp.initial, (len(windows), 1))
    updates = pomdp.to_psr().updates.reshape(-1, pomdp.n_states, pomdp.n_states)
    for symbols in windows.T:
        for symbol in np.unique(symbols):
            chosen = symbols == symbol
            beliefs[chosen] = beliefs[chosen] @ updates[symbol]
    likelihoods = np.log(np.maximum(beliefs.sum(axis=1), _A_TRACE ** windows.shape[1]))
    return float(likelihoods @ table.totals / table.totals.sum())
