"""The certificate against a second formulation of the same cone, and against the process itself."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import naive
from unlatch import POMDP, PSR, Certificate, certify, domains
from unlatch.errors import UsageError

EMISSIONS = ["departure", "arrival"]


def forgetful(rng: np.random.Generator, emission: str) -> POMDP:
    """Four states and only transitions of rank three."""
    moves = rng.dirichlet(np.ones(3), (2, 4)) @ rng.dirichlet(np.ones(4), (2, 3))
    return POMDP(
        moves / moves.sum(axis=2, keepdims=True), rng.dirichlet(np.ones(3), (2, 4)), [0.25] * 4, emission
    )


def aliased(rng: np.random.Generator, emission: str) -> POMDP:
    """No zero anywhere, and two states that always show the same."""
    model = naive.random_pomdp(rng, states=4, emission=emission)
    rows = model.observations.copy()
    rows[:, 3] = rows[:, 2]
    return replace(model, observations=rows)


def sparse(rng: np.random.Generator, emission: str, *, all_reached: bool = True) -> POMDP:
    """Many zeros, often with states that show the same."""
    n_states = int(rng.integers(2, 5))
    moves = rng.dirichlet(np.ones(n_states), (2, n_states)) * (rng.random((2, n_states, n_states)) < 0.6)
    moves += 1e-3 * (np.arange(n_states) == rng.integers(n_states, size=(2, n_states))[..., None])
    if all_reached:
        moves += 0.1 * np.roll(np.eye(n_states), 1, axis=1)
    rows = (
        rng.dirichlet(np.ones(2), (2, n_states)) * (rng.random((2, n_states, 2)) < 0.7) + 1e-3 * np.eye(2)[0]
    )
    rows[:, -1] = rows[:, rng.integers(n_states)]
    return POMDP(
        moves / moves.sum(axis=2, keepdims=True),
        rows / rows.sum(axis=2, keepdims=True),
        rng.dirichlet(np.ones(n_states)),
        emission,
    )


DETERMINED = {
    "tiger": domains.tiger(),
    **{f"tmaze-{2 * k + 2}-{fail}": domains.tmaze(k, fail) for k in (1, 2, 3) for fail in (0.0, 0.1)},
    **{f"sense-float-reset-{n}": domains.sense_float_reset(n) for n in (3, 4, 5)},
    "sense-float-reset-3-plain": domains.sense_float_reset(3, reward=False),
    "directional": domains.directional_hallway(),
    "noisy": domains.noisy_hallway(),
    **{
        f"random-{e}-{s}": naive.random_pomdp(np.random.default_rng(s), states=4, emission=e)
        for e in EMISSIONS
        for s in range(3)
    },
    **{f"forgetful-{e}-{s}": forgetful(np.random.default_rng(s), e) for e in EMISSIONS for s in range(3)},
}
NOT_DETERMINED = {
    "pair-first": domains.unidentifiable_pair()[0],
    "pair-second": domains.unidentifiable_pair()[1],
    **{f"aliased-{e}-{s}": aliased(np.random.default_rng(s), e) for e in EMISSIONS for s in range(3)},
}


@pytest.mark.parametrize("name", DETERMINED)
def test_models_that_are_determined(name):
    model = DETERMINED[name]
    found = certify(model, rng=0)
    assert found.verdict == "determined"
    assert found.dimension == model.n_states
    assert (found.free_directions == 0) == (found.zeros == ())
    assert found.direction is None
    for array, action, state, entry in found.zeros:
        assert getattr(model, array)[action, state, entry] == 0
    assert certify(model, rng=1).verdict == "determined"


@pytest.mark.parametrize("name", NOT_DETERMINED)
def test_models_that_are_not(name):
    found = certify(NOT_DETERMINED[name], rng=0)
    assert found.verdict == "not determined"
    assert found.free_directions == 2  # two states that look alike may be mixed in two ways
    assert len(found.moving_states) > 0
    assert found.zeros == ()


# --- the direction ------------------------------------------------------------------------------------------


def moved(model: POMDP, direction, step: float) -> PSR:
    """The process after a step; a start that leaves the simplex is no matter to a triple."""
    transitions = model.transitions + step * direction.transitions
    shown = (model.observations + step * direction.observations).transpose(0, 2, 1)
    if model.emission == "departure":
        updates = shown[:, :, :, None] * transitions[:, None]
    else:
        updates = transitions[:, None] * shown[:, :, None, :]
    return PSR(model.initial + step * direction.initial, updates, np.ones(model.n_states))


def probabilities(psr: PSR, longest: int = 3) -> np.ndarray:
    pairs = list(itertools.product(range(psr.n_actions), range(psr.n_observations)))
    return np.array(
        [
            psr.probability(*zip(*sequence, strict=True))
            for length in range(1, longest + 1)
            for sequence in itertools.product(pairs, repeat=length)
        ]
    )


@pytest.mark.parametrize("name", NOT_DETERMINED)
def test_a_direction_keeps_the_process_to_second_order(name):
    model = NOT_DETERMINED[name]
    direction = certify(model, rng=0).direction
    before = probabilities(model.to_psr())
    large, small = (np.abs(probabilities(moved(model, direction, h)) - before).max() for h in (1e-3, 1e-4))
    assert large < 1e-4
    assert small < max(0.02 * large, 1e-12)
    others = direction._replace(transitions=np.roll(direction.transitions, 1, axis=1))
    assert np.abs(probabilities(moved(model, others, 1e-4)) - before).max() > max(20 * small, 1e-8)


@pytest.mark.parametrize("name", NOT_DETERMINED)
def test_a_direction_leads_to_probabilities(name):
    model = NOT_DETERMINED[name]
    found = certify(model, rng=0)
    for rows, change in zip((model.transitions, model.observations), found.direction[:2], strict=True):
        np.testing.assert_allclose(change.sum(axis=2), 0, atol=1e-12)
        assert change[rows == 0].min(initial=0.0) > -1e-6
        still = [s for s in range(model.n_states) if s not in found.moving_states]
        assert np.abs(change[:, still]).max(initial=0.0) < 1e-5
    assert max(np.abs(change).max() for change in found.direction[:2]) == pytest.approx(1)


# --- a second formulation -----------------------------------------------------------------------------------


def largest_change(model: POMDP) -> float:
    """The cone with dQ, dT and dZ all unknown, every equation written out; the largest random objective in a box."""
    n_actions, n, n_observations = model.observations.shape
    size_q, size_t, size_z = n * n, n_actions * n * n, n_actions * n * n_observations
    total = size_q + size_t + size_z
    dq = np.eye(total)[:size_q].reshape(n, n, total)
    dt = np.eye(total)[size_q : size_q + size_t].reshape(n_actions, n, n, total)
    dz = np.eye(total)[size_q + size_t :].reshape(n_actions, n, n_observations, total)
    equations = [dq.sum(axis=1), dt.sum(axis=2).reshape(-1, total), dz.sum(axis=2).reshape(-1, total)]
    for a, o in itertools.product(range(n_actions), range(n_observations)):
        g, moves, shown = model.updates[a, o], model.transitions[a], model.observations[a, :, o]
        left = np.einsum("ik,kjx->ijx", g, dq) - np.einsum("ikx,kj->ijx", dq, g)
        if model.emission == "departure":
            right = np.einsum("ix,ij->ijx", dz[a, :, o], moves) + shown[:, None, None] * dt[a]
        else:
            right = np.einsum("jx,ij->ijx", dz[a, :, o], moves) + shown[None, :, None] * dt[a]
        equations.append((left - right).reshape(-1, total))
    system = np.concatenate(equations)
    lower = np.full(total, -1e3)
    lower[:size_q] = -1.0
    lower[size_q : size_q + size_t][model.transitions.ravel() == 0] = 0.0
    lower[size_q + size_t :][model.observations.ravel() == 0] = 0.0
    upper = np.full(total, 1e3)
    upper[:size_q] = 1.0
    objective = np.zeros(total)
    objective[:size_q] = np.random.default_rng(0).standard_normal(size_q)
    return max(
        -linprog(
            sign * objective, A_eq=system, b_eq=np.zeros(len(system)), bounds=np.stack([lower, upper], axis=1)
        ).fun
        for sign in (1.0, -1.0)
    )


@pytest.mark.parametrize("emission", EMISSIONS)
def test_both_formulations_agree_on_models_with_zeros(emission):
    verdicts = []
    for seed in range(60):
        model = sparse(np.random.default_rng([seed, 3]), emission)
        found = certify(model, rng=seed)
        if found.verdict == "not minimal":
            continue
        change = largest_change(model)
        assert not 1e-6 < change < 1e-3
        assert found.verdict == ("not determined" if change > 1e-3 else "determined"), seed
        verdicts.append((found.verdict, found.free_directions > 0))
    assert verdicts.count(("determined", True)) >= 5  # only by their zeros
    assert verdicts.count(("not determined", True)) >= 5


def test_rows_that_are_never_shown_are_no_part_of_the_claim():
    """Whatever stands in them the verdict is the same, and a direction leaves them alone."""
    verdicts = set()
    for seed in range(60):
        model = sparse(np.random.default_rng([seed, 4]), "arrival", all_reached=False)
        never = ~model.transitions.any(axis=1)
        if not never.any():
            continue
        rows = model.observations.copy()
        rows[never] = np.random.default_rng(seed).dirichlet(np.ones(2), int(never.sum()))
        found, other = certify(model, rng=0), certify(replace(model, observations=rows), rng=0)
        assert (found.verdict == "determined") == (other.verdict == "determined")
        verdicts.add(found.verdict)
        if found.direction is not None:
            assert not found.direction.observations[never].any()
    assert {"determined", "not determined"} <= verdicts


# --- what is not looked at, and how it is said ----------------------------------------------------------------


def test_a_copy_of_a_state_is_not_minimal():
    model = domains.noisy_hallway()
    half = np.repeat([1.0, 1.0, 0.5], [1, 1, 2])
    moves = model.transitions[:, [0, 1, 2, 2]][:, :, [0, 1, 2, 2]] * half
    copied = POMDP(moves, model.observations[:, [0, 1, 2, 2]], model.initial[[0, 1, 2, 2]] * half)
    found = certify(copied, rng=0)
    assert (found.verdict, found.dimension) == ("not minimal", 3)
    assert "4 states for a process of dimension 3" in str(found)


def test_what_is_never_reached_is_not_minimal():
    model = naive.random_pomdp(np.random.default_rng(0), states=3)
    moves = np.zeros((2, 4, 4))
    moves[:, :3, :3], moves[:, 3, 0] = model.transitions, 1.0
    rows = np.concatenate([model.observations, model.observations[:, :1]], axis=1)
    assert certify(POMDP(moves, rows, [*model.initial, 0.0]), rng=0).dimension == 3
    assert certify(POMDP(moves, rows, [0.25] * 4), rng=0).dimension in (3, 4)


def test_untried_actions_are_left_out():
    """The second action alone tells the two states apart; of a log without it nothing is known of them."""
    model = aliased(np.random.default_rng(0), "departure")
    rows = np.concatenate([model.observations, [[[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.3, 0.5]]]])
    moves = np.concatenate([model.transitions, model.transitions[:1]])
    tried = POMDP(moves, rows, model.initial, action_names=("a", "b", "c"))
    assert certify(tried, rng=0).verdict == "determined"
    assert certify(replace(tried, untried_actions=("c",)), rng=0).verdict == "not determined"
    assert certify(replace(tried, untried_actions=("a", "b", "c")), rng=0).verdict == "not examined"


def ending(inner: POMDP, ends: np.ndarray, shows: np.ndarray) -> POMDP:
    """The model with terminal states that are reached with ``ends`` (actions, states, terminal states) and show
    ``shows`` (actions, terminal states, observations)."""
    n_actions, states, number = ends.shape
    total = states + number
    moves = np.zeros((n_actions, total, total))
    moves[:, :states, :states] = inner.transitions * (1 - ends.sum(axis=2))[:, :, None]
    moves[:, :states, states:], moves[:, states:, states:] = ends, np.eye(number)
    return POMDP(
        moves,
        np.concatenate([inner.observations, shows], axis=1),
        [*inner.initial, *[0.0] * number],
        inner.emission,
        terminal=tuple(range(states, total)),
    )


def with_twins(inner: POMDP) -> POMDP:
    """The same with two states that show the same."""
    rows = inner.observations.copy()
    rows[:, 2] = rows[:, 1]
    return replace(inner, observations=rows)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_an_ending_is_seen(emission):
    """States that show the same are told apart by how likely they are to end, where that differs with what is shown."""
    inner = naive.random_pomdp(np.random.default_rng(2), states=3, emission=emission)
    ends = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2]])[:, :, None]
    found = certify(ending(inner, ends, inner.observations[:, :1]), rng=0)
    assert (found.verdict, found.dimension, found.free_directions) == ("determined", 4, 0)
    found = certify(ending(with_twins(inner), ends, inner.observations[:, :1]), rng=0)
    assert found.verdict == "not determined"
    assert not found.direction.transitions[:, 3].any()
    np.testing.assert_allclose(found.direction.transitions.sum(axis=2), 0, atol=1e-12)
    assert np.abs(found.direction.transitions[:, :3, 3]).max() > 1e-3


def ending_probabilities(model: POMDP, direction, step: float) -> np.ndarray:
    """Of (a, o, ended) after every sequence of up to two pairs, the model moved by a step."""
    live = [s for s in range(model.n_states) if s not in model.terminal]
    transitions = model.transitions + step * direction.transitions
    shown = (model.observations + step * direction.observations).transpose(0, 2, 1)
    updates = (transitions[:, None] * shown[:, :, None, :]).reshape(-1, model.n_states, model.n_states)
    stay = updates[:, live][:, :, live]
    leave = updates[:, live][:, :, list(model.terminal)].sum(axis=2)
    beliefs = [(model.initial + step * direction.initial)[live]]
    for _ in range(2):
        beliefs += [belief @ update for belief in beliefs for update in stay]
    return np.array([[belief @ leave.T, (belief @ stay).sum(axis=1)] for belief in beliefs])


def test_several_endings_are_told_apart_by_what_is_shown_last():
    """A goal and a trap, each with its own last observation: which of them a state leads to is seen."""
    rng = np.random.default_rng(2)
    inner = naive.random_pomdp(rng, states=3, emission="arrival")
    shows = np.tile(np.array([[0.0, 1.0, 0.0], [0.4, 0.0, 0.6]]), (2, 1, 1))
    ends = np.array([[[0.1, 0.1], [0.2, 0.0], [0.0, 0.3]], [[0.3, 0.1], [0.0, 0.1], [0.2, 0.2]]])
    found = certify(ending(inner, ends, shows), rng=0)
    assert (found.verdict, found.dimension, found.free_directions) == ("determined", 5, 0)
    model = ending(with_twins(inner), ends + 0.05, shows)
    found = certify(model, rng=0)
    assert found.verdict == "not determined"
    assert {1, 2} <= set(found.moving_states)
    assert not found.direction.transitions[:, 3:].any()
    np.testing.assert_allclose(found.direction.transitions.sum(axis=2), 0, atol=1e-12)
    before = ending_probabilities(model, found.direction, 0.0)
    large, small = (
        np.abs(ending_probabilities(model, found.direction, h) - before).max() for h in (1e-3, 1e-4)
    )
    assert large < 1e-4
    assert small < 0.02 * large


def test_an_ending_that_is_impossible_somewhere_may_be_what_determines_a_model():
    """Twins of which one never reaches the trap and the other never the goal cannot be mixed; that a third state leads
    to one of them only, under each action, keeps them from being told apart any further."""
    inner = with_twins(naive.random_pomdp(np.random.default_rng(2), states=3, emission="arrival"))
    moves = inner.transitions.copy()
    moves[0, 0], moves[1, 0] = [0.4, 0.6, 0.0], [0.3, 0.0, 0.7]
    inner = replace(inner, transitions=moves)
    shows = np.tile(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), (2, 1, 1))
    ends = np.tile(np.array([[0.1, 0.1], [0.2, 0.0], [0.0, 0.3]]), (2, 1, 1))
    model = ending(inner, ends, shows)
    found = certify(model, rng=0)
    assert found.verdict == "determined"
    assert found.free_directions == 2
    used = [entry for entry in found.zeros if entry[3] in model.terminal]
    assert {(state, end) for _, _, state, end in used} == {(1, 4), (2, 3)}
    for array, action, state, entry in found.zeros:
        assert getattr(model, array)[action, state, entry] == 0
    assert certify(ending(inner, ends + 0.05, shows), rng=0).verdict == "not determined"


def test_terminal_states_that_come_in_one_mixture_are_more_than_it_takes():
    inner = naive.random_pomdp(np.random.default_rng(2), states=3, emission="arrival")
    shows = np.tile(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), (2, 1, 1))
    ends = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2]])[:, :, None] * np.array([0.6, 0.4])
    found = certify(ending(inner, ends, shows), rng=0)
    assert (found.verdict, found.dimension) == ("not minimal", 4)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_a_rare_end_is_an_end_whatever_the_noise(emission):
    inner = naive.random_pomdp(np.random.default_rng(2), states=2, emission=emission)
    shows = np.tile([[1.0, 0.0, 0.0]], (2, 1, 1))
    rare = ending(inner, np.full((2, 2, 1), 0.01), shows)
    assert certify(rare, tolerance=0.02, rng=0).dimension == 3
    never = ending(inner, np.zeros((2, 2, 1)), shows)
    assert (certify(never, rng=0).verdict, certify(never, rng=0).dimension) == ("not minimal", 2)


@pytest.mark.parametrize(
    ("emission", "other"), [("departure", [0.0, 0.0, 1.0]), ("arrival", [0.0, 0.5, 0.5])]
)
def test_several_endings_that_nothing_tells_apart_are_declined(emission, other):
    inner = naive.random_pomdp(np.random.default_rng(2), states=3, emission=emission)
    shows = np.tile(np.array([[0.0, 1.0, 0.0], other]), (2, 1, 1))
    found = certify(ending(inner, np.full((2, 3, 2), 0.1), shows), rng=0)
    assert found.verdict == "not examined"
    assert "several terminal states" in str(found)


def test_large_models_are_declined():
    large = certify(domains.sense_float_reset(61), rng=0)
    assert str(large) == "not examined: 61 states; up to 60 are looked at"


def test_sentences_say_no_more_than_is_proved():
    assert str(certify(domains.tiger(), rng=0)) == (
        "locally determined: no other model of 2 states and departure emission near this one has the same process"
    )
    by_zeros = certify(domains.sense_float_reset(4), rng=0)
    assert len(by_zeros.zeros) > by_zeros.free_directions  # fewer half-spaces always leave a direction
    assert str(by_zeros).endswith(f"; rests on {len(by_zeros.zeros)} zeros")
    text = str(certify(domains.unidentifiable_pair()[0], rng=0))
    assert text.startswith("not determined: without changing the process to first order")
    assert "determined" in repr(certify(domains.tiger(), rng=0))


@pytest.mark.parametrize("name", ["tiger", "sense-float-reset-5"])
def test_a_piece_for_notebooks(name):
    found = certify(DETERMINED[name], rng=0)
    piece = found._repr_html_()
    assert str(found) in piece
    assert ("zero in" in piece) == bool(found.zeros)
    assert "not examined" in Certificate("not examined", 3, "arrival", reason="<why>")._repr_html_()
    assert "<why>" not in Certificate("not examined", 3, "arrival", reason="<why>")._repr_html_()


@pytest.mark.parametrize("tolerance", [-1.0, np.nan, "much"])
def test_a_tolerance_that_makes_no_sense(tolerance):
    with pytest.raises(UsageError, match="tolerance"):
        certify(domains.tiger(), tolerance=tolerance)
