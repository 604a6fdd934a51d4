"""From a log to a POMDP: one call per arrow of the picture in ARCHITECTURE.md, nothing hidden."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from unlatch.arrays import Floats
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.evidence import Evidence
from unlatch.core.partition import Partition
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.psr import PSR
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NotLearnableError, NumericalError, UsageError
from unlatch.learn.examine.log import examine, refuse_deterministic_policy
from unlatch.learn.examine.model import examine_model
from unlatch.learn.likelihood.select_states import Completion, complete
from unlatch.learn.spectral.counting import SequenceCounts
from unlatch.learn.spectral.factorize import RankFactorization, Scaling, factorize
from unlatch.learn.spectral.fit_psr import fit_psr
from unlatch.learn.spectral.hankel import HankelMatrix
from unlatch.learn.spectral.lengths import factorize_log
from unlatch.learn.spectral.recover import REPAIRS, read_off
from unlatch.learn.spectral.similarity import CellBasis, SimilarityTransform, find_similarity

__all__ = ["LearnResult", "learn_from_hankel", "learn_pomdp", "learn_psr"]


@dataclass(frozen=True, eq=False)
class LearnResult:
    """A learned POMDP and everything that was computed on the way to it.

    Attributes
    ----------
    pomdp : POMDP
        Rows on the simplex. Inside a cell of ``partition`` with several states its numbers are one choice
        among many that explain the log equally well.
    partition_model : PartitionModel
        The same up to ``partition``: sums over cells, which the log determines. Of the spectral model, before any row
        was projected.
    psr : PSR
        The linear PSR of the spectral stages.
    partition : Partition
    rank : int
        The number of hidden states.
    full_rank_actions : tuple of int
    singular_values : array
        Of the Hankel matrix, leading values.
    diagnostics : Diagnostics
    counts, hankel, factorization, similarity
        The intermediate values. ``counts`` is None if learning began from a Hankel matrix, ``similarity`` if the
        spectral stages refused and the likelihood alone led to the model.
    seed : int or None
        Repeats the result; None if the caller passed a generator.
    spectral, completion
        If the model was refined: the spectral model that it began from, if any, and the search and climb that led
        from there to ``pomdp``. ``rank``, ``partition``, ``partition_model`` and ``full_rank_actions`` are then those
        of ``pomdp``, the other values those of the spectral stages.
    """

    pomdp: POMDP
    partition_model: PartitionModel
    psr: PSR
    partition: Partition
    rank: int
    full_rank_actions: tuple[int, ...]
    singular_values: Floats
    hankel: HankelMatrix
    factorization: RankFactorization
    similarity: SimilarityTransform | None
    counts: SequenceCounts | None = None
    seed: int | None = None
    spectral: POMDP | None = None
    completion: Completion | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def evidence(self) -> Evidence | None:
        """How sure the number of states is; None for the plain spectral model."""
        return None if self.completion is None else self.completion.evidence

    def __repr__(self) -> str:
        return f"LearnResult({self.pomdp}, {self.partition}, {len(self.diagnostics)} diagnostics)"


def learn_pomdp(
    log: Trajectory,
    *,
    rank: int | None = None,
    rank_tolerance: float | None = None,
    history_length: int | None = None,
    test_length: int | None = None,
    min_singular_value: float | None = None,
    observation_tolerance: float | None = None,
    emission: Emission = "departure",
    max_rank: int = 20,
    scaling: Scaling = "noise",
    draws: int = 30,
    newton: bool = True,
    rotation: str = "cells",
    refine: Literal["auto"] | None = "auto",
    states: int | None = None,
    time_limit: float | None = None,
    rng: RandomSource = None,
) -> LearnResult:
    """Learn an explicit POMDP from a log of blind exploration.

    Every argument left at None is chosen from the data; what was chosen and why is in the result.

    Parameters
    ----------
    log : Trajectory
        Actions must not depend on what was observed (uniform, or any fixed distribution), unless the log says with
        which probability each was chosen.
    rank, rank_tolerance, max_rank, scaling
        The rank of the spectral model, or how to find it, and what the singular vectors are taken of; see
        `factorize`. A rank that is given also fixes the number of states of the refined model.
    history_length, test_length : int, optional
        The paper's "(L1, L2)". By default they grow while that reveals more states.
    min_singular_value, observation_tolerance, draws, newton
        See `find_similarity`.
    emission : "departure" or "arrival"
        Whether the state left or the state reached shows the observation.
    rotation : "cells" or "dense"
        "dense" is the variant that the paper ran: one random rotation right after the SVD, none inside
        cells.
    refine : "auto" or None
        "auto" goes on from the spectral model, or from nothing where the spectral stages refuse: a search over the
        number of states by penalized likelihood, then maximum likelihood on the whole log. None returns the
        spectral model, the fast first answer.
    states : int, optional
        Fixes the number of states, of the spectral model and of the search.
    time_limit : float, optional
        Seconds for search and climb; the best model found by then is returned.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    LearnResult

    Raises
    ------
    NotLearnableError
        If the log is too short, or if the spectral stages and the likelihood agree on a number of states of which
        no action has a transition matrix of full rank: then nothing distinguishes the states. With ``states``
        the most likely model comes back all the same. Also if the last observation settles the action.
    """
    generator, seed = resolve_rng(rng)
    if not isinstance(log, Trajectory):
        raise UsageError(
            f"expected a Trajectory, got {type(log).__name__}; build one from arrays, or use read_log"
        )
    _check_refinement(refine, states, rank, time_limit)
    refuse_deterministic_policy(log)
    counts, hankel, factorization = factorize_log(
        log,
        rank=states if rank is None else rank,
        rank_tolerance=rank_tolerance,
        max_rank=max_rank,
        history_length=history_length,
        test_length=test_length,
        scaling=scaling,
        rotate=_is_dense(rotation),
        rng=generator,
    )
    result: LearnResult | None = None
    refusal: NotLearnableError | NumericalError | None = None
    try:
        result = learn_from_hankel(
            hankel,
            factorization,
            min_singular_value=min_singular_value,
            observation_tolerance=observation_tolerance,
            emission=emission,
            draws=draws,
            newton=newton,
            cell_basis="none" if _is_dense(rotation) else "nonnegative",
            rng=generator,
        )
    except (NotLearnableError, NumericalError) as error:
        if refine is None or rank is not None:  # what was asked for is the spectral model
            raise
        refusal = error
    if refine == "auto":
        found = complete(
            log,
            start=None if result is None else result.pomdp,
            states=states if rank is None else rank,
            emission=emission,
            time_limit=time_limit,
            rng=generator,
        )
        if refusal is not None and states is None:
            _refuse_if_agreed(refusal, factorization, found)
        result = _completed(result, found, hankel, factorization, refusal)
    assert result is not None  # a refusal without refinement was raised
    notes = log.diagnostics + examine(log) + result.diagnostics
    if result.completion is not None:
        notes = notes + examine_model(result.pomdp, log, counts=result.completion.ascent.counts)
    return replace(result, counts=counts, seed=seed, diagnostics=notes)


def _check_refinement(
    refine: str | None, states: int | None, rank: int | None, time_limit: float | None
) -> None:
    if refine not in ("auto", None):
        raise UsageError(f"refine must be 'auto' or None, got {refine!r}")
    if states is not None and (states < 1 or rank not in (None, states)):
        raise UsageError(f"states must be at least 1 and agree with rank, got {states} and {rank}")
    if time_limit is not None and not time_limit > 0:
        raise UsageError(f"time_limit is a positive number of seconds, got {time_limit}")


def _refuse_if_agreed(
    refusal: NotLearnableError | NumericalError, factorization: RankFactorization, found: Completion
) -> None:
    """Where likelihood finds the same number of states, and no full-rank action either, the refusal stands."""
    if found.pomdp.n_states == factorization.rank and not found.full_rank_actions:
        raise NotLearnableError(
            f"{refusal}. The most likely model has {factorization.rank} states and no action of full rank either; "
            f"states={factorization.rank} returns it, with states that nothing distinguishes for certain"
        ) from refusal


def _completed(
    spectral: LearnResult | None,
    found: Completion,
    hankel: HankelMatrix,
    factorization: RankFactorization,
    refusal: NotLearnableError | NumericalError | None,
) -> LearnResult:
    """The result with the model that search and climb led to."""
    notes = hankel.diagnostics + factorization.diagnostics
    if spectral is not None:  # what was repaired in its rows concerns no row of the result
        kept = [note for note in spectral.diagnostics if note.name not in REPAIRS]
        notes = notes + Diagnostics(tuple(kept))
    if refusal is not None:
        notes = notes.noting(
            "spectral_refused", f"the spectral stages gave no model, only the likelihood did: {refusal}"
        )
    return LearnResult(
        pomdp=found.pomdp,
        partition_model=PartitionModel(found.pomdp.to_psr(), found.partition),
        psr=fit_psr(hankel, factorization) if spectral is None else spectral.psr,
        partition=found.partition,
        rank=found.pomdp.n_states,
        full_rank_actions=found.full_rank_actions,
        singular_values=factorization.singular_values,
        hankel=hankel,
        factorization=factorization,
        similarity=None if spectral is None else spectral.similarity,
        spectral=None if spectral is None else spectral.pomdp,
        completion=found,
        diagnostics=notes + found.diagnostics,
    )


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
    """Learn a linear PSR: predictions without hidden states, and without the need for a full-rank action.

    Parameters as in `learn_pomdp`.
    """
    generator, _ = resolve_rng(rng)
    _, hankel, factorization = factorize_log(
        log,
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


def learn_from_hankel(
    hankel: HankelMatrix,
    factorization: RankFactorization | None = None,
    *,
    min_singular_value: float | None = None,
    observation_tolerance: float | None = None,
    emission: Emission = "departure",
    draws: int = 30,
    newton: bool = True,
    cell_basis: CellBasis = "nonnegative",
    rng: RandomSource = None,
) -> LearnResult:
    """The stages after counting: from a Hankel matrix, exact or estimated, to a POMDP."""
    generator, seed = resolve_rng(rng)
    if factorization is None:
        factorization = factorize(hankel, rng=generator)
    psr = fit_psr(hankel, factorization)
    similarity = find_similarity(
        psr,
        emission=emission,
        min_singular_value=min_singular_value,
        observation_tolerance=observation_tolerance,
        draws=draws,
        newton=newton,
        cell_basis=cell_basis,
        rng=generator,
    )
    pomdp, repairs = read_off(psr, similarity)
    return LearnResult(
        pomdp=pomdp,
        partition_model=PartitionModel(psr.transformed(similarity.matrix), similarity.partition),
        psr=psr,
        partition=similarity.partition,
        rank=factorization.rank,
        full_rank_actions=similarity.full_rank_actions,
        singular_values=factorization.singular_values,
        hankel=hankel,
        factorization=factorization,
        similarity=similarity,
        seed=seed,
        diagnostics=hankel.diagnostics + factorization.diagnostics + similarity.diagnostics + repairs,
    )


def _is_dense(rotation: str) -> bool:
    if rotation not in ("cells", "dense"):
        raise UsageError(f"rotation must be 'cells' or 'dense', got {rotation!r}")
    return rotation == "dense"
