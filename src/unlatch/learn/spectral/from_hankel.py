"""Stages 4 to 6 in one call, and the whole answer of the spectral stages."""

from __future__ import annotations

from dataclasses import dataclass, field

from unlatch.arrays import Floats, own_errstate
from unlatch.core import html
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.partition import Partition
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP, Emission
from unlatch.core.psr import PSR
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.errors import UnlatchError
from unlatch.learn.spectral.counting import SequenceCounts
from unlatch.learn.spectral.factorize import RankFactorization, factorize
from unlatch.learn.spectral.fit_psr import fit_psr
from unlatch.learn.spectral.hankel import HankelMatrix
from unlatch.learn.spectral.recover import read_off
from unlatch.learn.spectral.similarity import CellBasis, SimilarityTransform, find_similarity

__all__ = ["SpectralResult", "learn_from_hankel"]


@dataclass(frozen=True, eq=False)
class SpectralResult:
    """What the spectral stages found, with every value on the way.

    Attributes
    ----------
    hankel : HankelMatrix
    factorization : RankFactorization
    psr : PSR
        The linear PSR, which always exists.
    similarity : SimilarityTransform or None
        The change of basis to states; None if it was refused.
    pomdp : POMDP or None
        Rows on the simplex, as they were read off; None if refused. Inside a cell of ``partition`` with several states
        its numbers are one choice among many that explain the log equally well.
    partition_model : PartitionModel or None
        The same up to ``partition`` and before any row was projected: sums over cells, which the log determines.
    counts : SequenceCounts or None
        None if it began with a Hankel matrix.
    refusal : UnlatchError or None
        Why there is no POMDP; its ``singular_values`` are those that were too small.
    diagnostics : Diagnostics

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> spectral = unlatch.learn_pomdp(log, refine=None, rng=0).spectral
    >>> spectral.factorization.rank, spectral.psr, spectral.refusal
    (2, PSR(rank 2, 3 actions, 6 observations), None)
    """

    hankel: HankelMatrix
    factorization: RankFactorization
    psr: PSR
    similarity: SimilarityTransform | None = None
    pomdp: POMDP | None = None
    partition_model: PartitionModel | None = None
    counts: SequenceCounts | None = None
    refusal: UnlatchError | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def rank(self) -> int:
        """Of the Hankel matrix."""
        return self.factorization.rank

    @property
    def singular_values(self) -> Floats:
        """The leading singular values of the Hankel matrix."""
        return self.factorization.singular_values

    @property
    def partition(self) -> Partition | None:
        return None if self.similarity is None else self.similarity.partition

    @property
    def full_rank_actions(self) -> tuple[int, ...]:
        return () if self.similarity is None else self.similarity.full_rank_actions

    def __repr__(self) -> str:
        found = f"refused: {self.refusal}" if self.pomdp is None else f"{self.pomdp}, {self.partition}"
        return f"SpectralResult(rank {self.rank}, {found})"

    def _repr_html_(self) -> str:
        """For notebooks: the singular values, the model or why there is none, what was noticed."""
        values = html.table([("singular values", *(f"{value:.3g}" for value in self.singular_values))])
        model = html.heading(f"refused: {self.refusal}") if self.pomdp is None else self.pomdp._repr_html_()
        title = f"spectral model: Hankel matrix of rank {self.rank}"
        return html.page(title, values, model, self.diagnostics._repr_html_())


@own_errstate
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
) -> SpectralResult:
    """The stages after counting: from a Hankel matrix, exact or estimated, to a POMDP.

    The options are those of `find_similarity`; a factorization is made with those of `factorize` unless given.

    Examples
    --------
    >>> from unlatch import domains, exact_hankel, learn_from_hankel
    >>> learn_from_hankel(exact_hankel(domains.tiger(), history_length=2, test_length=1), rng=0).rank
    2
    """
    generator, _ = resolve_rng(rng)
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
    return SpectralResult(
        hankel=hankel,
        factorization=factorization,
        psr=psr,
        similarity=similarity,
        pomdp=pomdp,
        partition_model=PartitionModel(psr.transformed(similarity.matrix), similarity.partition),
        diagnostics=hankel.diagnostics + factorization.diagnostics + similarity.diagnostics + repairs,
    )
