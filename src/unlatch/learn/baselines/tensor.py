"""The tensor baseline: hidden states from the third-order tensor of a single action.

After Azizzadenesheli, Lazaric and Anandkumar (2016) and Guo, Doroudi and Brunskill (2016), carried over to
observations that depend on the action. Given that action a is taken now, what came before (h), what it shows (o)
and what comes after (t) are independent given the hidden state:

    T^a[h, o, t] = P(h, o, t | a) = sum_s F[h, s] Z^a[s, o] (T^a B)[s, t].

A decomposition of that tensor into rank-one terms is the list of states. The method needs all three factors to
have full rank: an invertible transition matrix, and linearly independent observation rows of all states, both
under this one action. Where several actions have to be pooled to tell the states apart it cannot apply, and says
so action by action.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats, own_errstate
from unlatch.core import html
from unlatch.core.arguments import checked_log
from unlatch.core.checks import frozen
from unlatch.core.diagnostics import Diagnostics
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP, Emission, checked_emission
from unlatch.core.psr import PSR
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.trajectory import Trajectory
from unlatch.errors import NotLearnableError, NumericalError, UsageError
from unlatch.learn.observability import same_rows
from unlatch.learn.significance import EXACT, FULL_RANK_SIGMAS, LEAK_VARIANCES, ROUNDING, jackknife_variance
from unlatch.learn.spectral.factorize import RankFactorization, factorize
from unlatch.learn.spectral.fit_psr import fit_psr
from unlatch.learn.spectral.hankel import HankelMatrix
from unlatch.learn.spectral.joint_diagonalization import diagonals, newton_refinement, random_basis
from unlatch.learn.spectral.lengths import factorize_log
from unlatch.learn.spectral.recover import read_off
from unlatch.learn.spectral.similarity import SimilarityTransform
from unlatch.learn.state_order import canonical_order

__all__ = ["ActionVerdict", "TensorResult", "leaks", "learn_tensor", "learn_tensor_from_hankel"]


@dataclass(frozen=True)
class ActionVerdict:
    """Whether one action's tensor determines the hidden states, and why (not).

    Attributes
    ----------
    action : str
    applies : bool
    reason : str
    transition_rank, observation_rank : int
        Ranks of the action's transition and observation matrix that stand clear of the noise; both must be
        the number of states.
    smallest_singular_value, threshold : float
        Of the action's tensor summed over observations, and what it must exceed for a full transition rank.
    transition_condition, observation_condition : float
        Condition numbers of the two matrices; infinite where the action does not apply.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> for verdict in unlatch.learn_tensor(log, rng=0).verdicts:
    ...     print(verdict)
    ...
    listen: transition and observation matrix have full rank 2
    open-left: transition matrix has rank 1 of 2 above the noise
    open-right: transition matrix has rank 1 of 2 above the noise
    """

    action: str
    applies: bool
    reason: str
    transition_rank: int
    observation_rank: int
    smallest_singular_value: float
    threshold: float
    transition_condition: float = np.inf
    observation_condition: float = np.inf

    def __str__(self) -> str:
        return f"{self.action}: {self.reason}"

    @property
    def condition(self) -> float:
        """How much the decomposition amplifies noise; the action with the smallest is used."""
        return self.transition_condition * self.observation_condition


@dataclass(frozen=True, eq=False)
class TensorResult:
    """A POMDP learned through the tensor of one action.

    Attributes
    ----------
    pomdp : POMDP
    action : str
        The action whose tensor was decomposed; the matrices of all others follow by linear regression.
    verdicts : tuple of ActionVerdict
        One per action.
    psr : PSR
    rank : int
        The number of hidden states.
    hankel : HankelMatrix
    factorization : RankFactorization
    seed : int or None
        Repeats the result; None if the caller passed a generator.
    diagnostics : Diagnostics

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> result = unlatch.learn_tensor(log, rng=0)
    >>> result.action, result.rank
    ('listen', 2)
    """

    pomdp: POMDP
    action: str
    verdicts: tuple[ActionVerdict, ...]
    psr: PSR
    rank: int
    hankel: HankelMatrix
    factorization: RankFactorization
    seed: int | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def __repr__(self) -> str:
        return f"TensorResult({self.pomdp}, through {self.action!r}, {len(self.diagnostics)} diagnostics)"

    def _repr_html_(self) -> str:
        """For notebooks: the model and what was noticed."""
        return html.page(repr(self), self.pomdp._repr_html_(), self.diagnostics._repr_html_())


@own_errstate
def learn_tensor(
    log: Trajectory,
    *,
    rank: int | None = None,
    history_length: int | None = None,
    test_length: int | None = None,
    action: str | None = None,
    emission: Emission = "departure",
    draws: int = 30,
    rng: RandomSource = None,
) -> TensorResult:
    """Learn a POMDP by decomposing the third-order tensor of one action.

    Parameters
    ----------
    log : Trajectory
        Of blind exploration. Rewards, if any, are learned as part of the observation.
    rank : int, optional
        The number of hidden states; by default as many as stand clear of the noise.
    history_length, test_length : int, optional
        As in `learn_pomdp`. Windows of one pair on either side (2 and 1) show every state wherever the method
        applies; by default they grow while that reveals more states, because a state that shows itself only in
        longer windows is the reason why it does not.
    action : str, optional
        Use this action; by default the applicable one with the best conditioned factors.
    emission : "departure" or "arrival"
        Whether the state left or the state reached shows the observation. A single action's tensor fits
        both, so that a wrong choice is not noticed before the other actions are read off.
    draws : int
        Random combinations of the tensor's slices tried.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    TensorResult

    Raises
    ------
    NotLearnableError
        If no action has a transition matrix of full rank together with linearly independent observation rows
        of all states, with the reason for every action; or if the log shows more states than ``rank``.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)
    >>> unlatch.learn_tensor(log, rng=0).pomdp
    POMDP(2 states, 3 actions, 6 observations, emission='departure')
    """
    generator, seed = resolve_rng(rng)
    log = checked_log(log).with_reward_symbols()
    _check_options(log.action_names, action, emission, draws)
    _, hankel, factorization = factorize_log(
        log,
        rank=rank,
        rank_tolerance=None,
        max_rank=20,
        history_length=history_length,
        test_length=test_length,
        scaling="noise",
        rotate=False,
        rng=generator,
    )
    result = learn_tensor_from_hankel(
        hankel, factorization, action=action, emission=emission, draws=draws, rng=generator
    )
    return replace(result, seed=seed, diagnostics=log.diagnostics + result.diagnostics)


def learn_tensor_from_hankel(
    hankel: HankelMatrix,
    factorization: RankFactorization | None = None,
    *,
    action: str | None = None,
    emission: Emission = "departure",
    draws: int = 30,
    rng: RandomSource = None,
) -> TensorResult:
    """`learn_tensor` after counting: from a Hankel matrix, exact or estimated."""
    generator, seed = resolve_rng(rng)
    _check_options(hankel.action_names, action, emission, draws)
    if factorization is None:
        factorization = factorize(hankel, rng=generator)
    _check_rank(factorization)
    psr = fit_psr(hankel, factorization)
    _check_closed(hankel, factorization, psr)
    setting = _Setting(psr, _core(hankel, factorization), emission, draws)
    judged = [_judged(tensor, setting, generator) for tensor in _action_tensors(hankel, factorization)]
    verdicts = tuple(verdict for verdict, _ in judged)
    decompositions = {a: found for a, (_, found) in enumerate(judged) if found is not None}
    chosen = _chosen(verdicts, factorization.rank, action)
    similarity = _similarity(setting, decompositions[chosen], chosen, verdicts)
    pomdp, repairs = read_off(psr, similarity)
    return TensorResult(
        pomdp=pomdp,
        action=hankel.action_names[chosen],
        verdicts=verdicts,
        psr=psr,
        rank=factorization.rank,
        hankel=hankel,
        factorization=factorization,
        seed=seed,
        diagnostics=hankel.diagnostics + factorization.diagnostics + repairs,
    )


def _check_options(names: tuple[str, ...], action: str | None, emission: str, draws: int) -> None:
    checked_emission(emission)
    if action is not None and action not in names:
        raise UsageError(f"unknown action {action!r}; the log has {', '.join(names)}")
    if draws < 1:
        raise UsageError(f"draws must be at least 1, got {draws}")


# --- are there as many states as the rank says? ---------------------------------------------------------


def _check_rank(factorization: RankFactorization) -> None:
    values, rank = factorization.singular_values, factorization.rank
    found = int((values > EXACT * values[0]).sum())
    if found < rank:
        raise NotLearnableError(
            f"rank {rank} was asked for, but the Hankel matrix has rank {found}; choose a lower rank, or longer "
            "histories and tests"
        )


def _check_closed(hankel: HankelMatrix, factors: RankFactorization, psr: PSR) -> None:
    """Refuse a rank below the number of states."""
    for outside, noise in leaks(hankel, factors, psr):
        if outside > LEAK_VARIANCES * noise + (ROUNDING * factors.singular_values[0]) ** 2:
            times = f" by {np.sqrt(outside / noise):.1f} times the noise" if noise > 0 else ""
            raise NotLearnableError(
                f"there are more than {factors.rank} states: one more pair leads out of the span of the "
                f"{factors.rank} leading singular vectors{times}. Choose longer histories and tests, or a "
                "higher rank",
                singular_values=factors.singular_values,
            )


def leaks(hankel: HankelMatrix, factors: RankFactorization, psr: PSR) -> list[tuple[float, float]]:
    """How much lies outside the leading singular subspaces, of histories and of tests, and how much noise would.

    With all states in these subspaces, one more pair leads nowhere outside them, and both are about the same.
    """
    core = _core(hankel, factors)
    forward = psr.updates.reshape(hankel.n_pairs, factors.rank, factors.rank)
    backward = core @ forward @ linalg.inverse(core)
    found = []
    for leaving, moves in ((_leaving_histories, forward), (_leaving_tests, backward)):
        outside = float((leaving(hankel, factors, moves) ** 2).sum())
        noise = float(jackknife_variance([leaving(r, factors, moves) for r in hankel.replicates]).sum())
        found.append((outside, noise))
    return found


def _core(hankel: HankelMatrix, factors: RankFactorization) -> Floats:
    """``U^T H V``: the singular values, or what a rotation made of them."""
    result: Floats = factors.left.T @ (hankel.matrix @ factors.right)
    return result


def _leaving_histories(hankel: HankelMatrix, factors: RankFactorization, moves: Floats) -> Floats:
    """``(1 - U U^T) D (H_ao V - H V M_ao)``: what extended histories predict beyond the span of histories.

    D scales histories as the factorization did, so that U has orthonormal columns and noise is about even. The second
    term is zero but for replicates, where it accounts for the noise of U.
    """
    scales, v = factors.history_scales[:, None], factors.right
    u = factors.left / scales
    extended = (hankel.extended @ v).reshape(hankel.n_pairs, hankel.shape[0], factors.rank)
    away = scales * (extended - (hankel.matrix @ v) @ moves)
    result: Floats = away - u @ (u.T @ away)
    return result


def _leaving_tests(hankel: HankelMatrix, factors: RankFactorization, moves: Floats) -> Floats:
    """``(U^T H_ao - N_ao U^T H) D (1 - V V^T)``: the same from the side of tests extended to the front."""
    u, scales = factors.left, factors.test_scales
    v = factors.right / scales[:, None]
    rows = hankel.shape[0]
    starts = range(0, hankel.n_pairs * rows, rows)
    extended = np.stack([(hankel.extended[start : start + rows].T @ u).T for start in starts])
    away = (extended - moves @ (hankel.matrix.T @ u).T) * scales
    result: Floats = away - (away @ v) @ v.T
    return result


# --- the tensor of one action ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _ActionTensor:
    """``U^T H_ao V`` for every o, (observations, rank, rank): the action's tensor with histories and tests
    projected on the leading singular subspaces; and the same without each block of the log."""

    action: str
    observation_names: tuple[str, ...]
    slices: Floats
    replicates: tuple[Floats, ...]


@dataclass(frozen=True)
class _Setting:
    """What the judgment of every action shares."""

    psr: PSR
    core: Floats
    emission: Emission
    draws: int


@dataclass(frozen=True)
class _Decomposition:
    """The states as one action's tensor has them.

    ``transform`` takes the PSR to state coordinates; ``rows`` (states, observations) are the observation
    matrix as eigenvalues.
    """

    transform: Floats
    rows: Floats
    row_variances: Floats
    residual: float


def _action_tensors(hankel: HankelMatrix, factors: RankFactorization) -> list[_ActionTensor]:
    whole = _slices(hankel, factors)
    replicates = [_slices(replicate, factors) for replicate in hankel.replicates]
    return [
        _ActionTensor(name, hankel.observation_names, whole[a], tuple(r[a] for r in replicates))
        for a, name in enumerate(hankel.action_names)
    ]


def _slices(hankel: HankelMatrix, factors: RankFactorization) -> Floats:
    k = factors.rank
    projected = (hankel.extended @ factors.right).reshape(hankel.n_pairs, hankel.shape[0], k)
    result: Floats = (factors.left.T @ projected).reshape(len(hankel.action_names), -1, k, k)
    return result


def _family(slices: Floats, emission: Emission) -> Floats:
    """``S_o S^-1`` (departure) or ``S^-1 S_o`` (arrival), S being the sum over o: matrices whose common
    eigenvectors are the states and whose eigenvalues are the observation rows."""
    inverse = linalg.inverse(slices.sum(axis=0))
    result: Floats = slices @ inverse if emission == "departure" else inverse @ slices
    return result


# --- the conditions -------------------------------------------------------------------------------------


def _judged(
    tensor: _ActionTensor, setting: _Setting, rng: np.random.Generator
) -> tuple[ActionVerdict, _Decomposition | None]:
    """Test the ranks of the tensor's unfoldings, decompose it, and test that no two states show the same."""
    verdict = _ranks(tensor)
    states = setting.psr.rank
    if verdict.transition_rank < states:
        return replace(verdict, reason=_short_of_rank(verdict, states, noisy=bool(tensor.replicates))), None
    try:
        family = _family(tensor.slices, setting.emission)
        start = random_basis(family, np.ones(len(family)), setting.draws, rng)
        problem = _indistinct(tensor, start.matrix, verdict.observation_rank, setting.emission)
        if not problem and start.complex_pairs:
            problem = "its slices have complex eigenvalues, so that they share no states"
        if problem:
            return replace(verdict, reason=problem), None
        return _decomposed(tensor, family, start.matrix, verdict, setting)
    except NumericalError as error:
        return replace(verdict, reason=str(error)), None


def _ranks(tensor: _ActionTensor) -> ActionVerdict:
    """A verdict that is still open, with the ranks.

    The sum over observations has the rank of the transition matrix. The unfolding over observations has
    the rank of the observation matrix, whatever the transition matrix.
    """
    moved, smallest, threshold = _significant_rank(
        tensor.slices.sum(axis=0), [r.sum(axis=0) for r in tensor.replicates]
    )
    unfolded = [r.reshape(len(r), -1) for r in (tensor.slices, *tensor.replicates)]
    shown, _, _ = _significant_rank(unfolded[0], unfolded[1:])
    return ActionVerdict(tensor.action, False, "", moved, shown, smallest, threshold)


def _significant_rank(matrix: Floats, replicates: list[Floats]) -> tuple[int, float, float]:
    """How many singular values stand above the noise; the smallest, and the limit it had to exceed.

    The noise in the i-th is what the sampling error has outside the i leading pairs of singular vectors:
    what it alone would show if the matrix had rank i.
    """
    u, s, v = linalg.svd(matrix)
    limits = np.array(
        [
            FULL_RANK_SIGMAS * _spectral_noise([_outside(r, u[:, :i], v[:, :i]) for r in replicates])
            for i in range(len(s))
        ]
    )
    limits += EXACT * s[0]
    below = np.flatnonzero(s <= limits)
    return int(below[0]) if below.size else len(s), float(s[-1]), float(limits[-1])


def _spectral_noise(replicates: list[Floats]) -> float:
    """The scale of the largest singular value of a sampling error; of a number, its standard error.

    The larger of the summed row and column covariances (the matrix variance) bounds it up to a small
    factor, whatever the correlations of the entries.
    """
    if not replicates:
        return 0.0
    stacked = np.stack(replicates)
    deviations = (stacked - stacked.mean(axis=0)) * np.sqrt((len(stacked) - 1) / len(stacked))
    return max(
        float(linalg.singular_values(np.concatenate(list(deviations), axis=axis))[0]) for axis in (0, 1)
    )


def _outside(matrix: Floats, left: Floats, right: Floats) -> Floats:
    away = matrix - left @ (left.T @ matrix)
    result: Floats = away - (away @ right) @ right.T
    return result


def _short_of_rank(verdict: ActionVerdict, states: int, *, noisy: bool) -> str:
    if verdict.transition_rank == 0:
        return "never tried often enough to see it above the noise"
    clear = " above the noise" if noisy else ""
    reason = f"transition matrix has rank {verdict.transition_rank} of {states}{clear}"
    if verdict.observation_rank < states:
        reason += f", observation matrix rank {verdict.observation_rank} of {states}"
    return reason


def _indistinct(tensor: _ActionTensor, basis: Floats, shown_rank: int, emission: Emission) -> str:
    """Why the observation rows do not tell the states apart; empty if they do."""
    states = len(basis)
    rows = _rows(tensor.slices, basis, emission)
    cells = _same_rows(rows, [_rows(r, basis, emission) for r in tensor.replicates])
    if shown_rank > states:
        return f"its observations have rank {shown_rank}: there are more than {states} states"
    if shown_rank == states and cells.is_trivial:
        return ""
    parts = [
        f"{_how_many(len(cell), states)} show the same{' within noise' if tensor.replicates else ''} "
        f"({_spelled(rows[list(cell)].mean(axis=0), tensor.observation_names)})"
        for cell in cells.cells
        if len(cell) > 1
    ]
    if cells.is_trivial:
        parts.append("the rows of different states are linearly dependent")
    symbols = int((np.abs(tensor.slices).max(axis=(1, 2)) > 0).sum())
    if symbols < states:
        parts.append(f"{symbols} symbol{'' if symbols == 1 else 's'} for {states} states")
    return f"observation matrix has rank {min(shown_rank, cells.n_cells)} of {states}: " + ", ".join(parts)


def _how_many(members: int, states: int) -> str:
    return f"all {states} states" if members == states else f"{members} states"


def _spelled(row: Floats, names: tuple[str, ...]) -> str:
    probabilities = linalg.project_to_simplex(row)
    likely = [o for o in np.argsort(-probabilities, kind="stable")[:4] if probabilities[o] >= 0.005]
    return ", ".join(f"{names[o]} {probabilities[o]:.2f}" for o in likely)


def _rows(slices: Floats, basis: Floats, emission: Emission) -> Floats:
    return diagonals(_family(slices, emission), basis).T


def _same_rows(rows: Floats, replicates: list[Floats]) -> Partition:
    """Cells of states whose rows agree within noise, closed under transitivity."""
    if not replicates:
        return same_rows(rows[None])
    deviations = np.sqrt(jackknife_variance([r[:, None] - r[None, :] for r in replicates]))
    return same_rows(rows[None], deviations[None])


# --- decomposition and choice ---------------------------------------------------------------------------


def _decomposed(
    tensor: _ActionTensor, family: Floats, start: Floats, verdict: ActionVerdict, setting: _Setting
) -> tuple[ActionVerdict, _Decomposition]:
    """Refine the shared eigenvectors over all slices, and read the factors."""
    states = len(start)
    nothing_frozen = np.full((states, states), EXACT**2)
    basis, residual = newton_refinement(family, np.ones(len(family)), start, nothing_frozen)
    rows = diagonals(family, basis).T
    variances = jackknife_variance([_rows(r, basis, setting.emission) for r in tensor.replicates])
    transform = _scaled(basis, setting)
    update = linalg.inverse(setting.core) @ tensor.slices.sum(axis=0)  # the action's matrix of the PSR
    accepted = replace(
        verdict,
        applies=True,
        reason=f"transition and observation matrix have full rank {states}",
        transition_condition=linalg.condition(linalg.inverse(transform) @ update @ transform),
        observation_condition=linalg.condition(rows),
    )
    spread = np.broadcast_to(variances, rows.shape)
    return accepted, _Decomposition(transform, rows, spread, float(np.sqrt(residual)))


def _scaled(basis: Floats, setting: _Setting) -> Floats:
    """The shared eigenvectors in the coordinates of the PSR, scaled so that the final vector is one.

    On departure they are columns of ``U^T F`` (states as histories lead to them), which the PSR has up to
    ``U^T H V``; on arrival columns of ``(B V)^-1``, which the PSR has as they are.
    """
    vectors = linalg.inverse(setting.core) @ basis if setting.emission == "departure" else basis
    scale = linalg.inverse(vectors) @ setting.psr.final
    if np.abs(scale).min() <= 1e-10 * np.abs(scale).max():
        raise NumericalError("a state has no weight in the final vector: the rank is too high for this log")
    result: Floats = vectors * scale
    return result


def _chosen(verdicts: tuple[ActionVerdict, ...], states: int, action: str | None) -> int:
    """The wanted action, or of those that apply the one that amplifies noise least."""
    usable = [i for i, v in enumerate(verdicts) if v.applies and action in (None, v.action)]
    if usable:
        return min(usable, key=lambda i: verdicts[i].condition)
    wanted = f"action {action!r} is not such an action" if action is not None else "there is none"
    raise NotLearnableError(
        "the tensor method needs an action with a transition matrix of full rank under which all "
        f"{states} states show linearly independent rows of observations; {wanted}. "
        f"{'; '.join(map(str, verdicts))}. Use learn_pomdp, which pools the full-rank actions"
    )


def _similarity(
    setting: _Setting, states: _Decomposition, chosen: int, verdicts: tuple[ActionVerdict, ...]
) -> SimilarityTransform:
    """The change of basis by which the matrices of every action are read off, states in canonical order."""
    order = canonical_order(setting.psr.transformed(states.transform))
    return SimilarityTransform(
        matrix=frozen(states.transform[:, order]),
        emission=setting.emission,
        full_rank_actions=(chosen,),
        partition=Partition.singletons(setting.psr.rank),
        diagonals=frozen(states.rows[order][None]),
        diagonal_variances=frozen(states.row_variances[order][None]),
        action_singular_values=frozen(np.array([v.smallest_singular_value for v in verdicts])),
        action_thresholds=frozen(np.array([v.threshold for v in verdicts])),
        residual=states.residual,
    )
