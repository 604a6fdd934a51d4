"""What is said to be identified, against a second formulation of the same cone, the process itself, and brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares, linprog

import naive
from unlatch import POMDP, PSR, Identification, domains, exact_hankel, identify, simulate
from unlatch.errors import DataError, UsageError

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
    found = identify(model, ranges=False, rng=0)
    assert found.verdict == "determined"
    assert found.identified
    assert found.dimension == model.n_states
    assert (found.free_directions == 0) == (found.zeros == ())
    assert found.direction is None
    assert found.extremes is None
    assert np.array_equal(found.transitions, np.stack([model.transitions] * 2, axis=-1))
    for zero in found.zeros:
        assert getattr(model, zero.array)[zero.place] == 0
    assert identify(model, ranges=False, rng=1).verdict == "determined"


@pytest.mark.parametrize("name", NOT_DETERMINED)
def test_models_that_are_not(name):
    found = identify(NOT_DETERMINED[name])
    assert found.verdict == "not determined"
    assert not found.identified
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
    direction = identify(model, ranges=False, rng=0).direction
    before = probabilities(model.to_psr())
    large, small = (np.abs(probabilities(moved(model, direction, h)) - before).max() for h in (1e-3, 1e-4))
    assert large < 1e-4
    assert small < max(0.02 * large, 1e-12)
    others = direction._replace(transitions=np.roll(direction.transitions, 1, axis=1))
    assert np.abs(probabilities(moved(model, others, 1e-4)) - before).max() > max(20 * small, 1e-8)


@pytest.mark.parametrize("name", NOT_DETERMINED)
def test_a_direction_leads_to_probabilities(name):
    model = NOT_DETERMINED[name]
    found = identify(model, ranges=False, rng=0)
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
        found = identify(model, ranges=False, rng=seed)
        if found.verdict == "not minimal":
            continue
        change = largest_change(model)
        assert not 1e-6 < change < 1e-3
        assert found.verdict == ("undecided" if change > 1e-3 else "determined"), seed
        verdicts.append((found.verdict, found.free_directions > 0))
    assert verdicts.count(("determined", True)) >= 5  # only by their zeros
    assert verdicts.count(("undecided", True)) >= 5


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
        found, other = (
            identify(model, ranges=False, rng=0),
            identify(replace(model, observations=rows), ranges=False, rng=0),
        )
        assert (found.verdict == "determined") == (other.verdict == "determined")
        verdicts.add(found.verdict)
        if found.direction is not None:
            assert not found.direction.observations[never].any()
    assert {"determined", "undecided"} <= verdicts


# --- what is not looked at, and how it is said ----------------------------------------------------------------


def test_a_copy_of_a_state_is_not_minimal():
    model = domains.noisy_hallway()
    half = np.repeat([1.0, 1.0, 0.5], [1, 1, 2])
    moves = model.transitions[:, [0, 1, 2, 2]][:, :, [0, 1, 2, 2]] * half
    copied = POMDP(moves, model.observations[:, [0, 1, 2, 2]], model.initial[[0, 1, 2, 2]] * half)
    found = identify(copied, ranges=False, rng=0)
    assert (found.verdict, found.dimension) == ("not minimal", 3)
    assert "4 states where 3 numbers predict everything" in str(found)
    assert not found.identified


def test_what_is_never_reached_is_not_minimal():
    model = naive.random_pomdp(np.random.default_rng(0), states=3)
    moves = np.zeros((2, 4, 4))
    moves[:, :3, :3], moves[:, 3, 0] = model.transitions, 1.0
    rows = np.concatenate([model.observations, model.observations[:, :1]], axis=1)
    assert identify(POMDP(moves, rows, [*model.initial, 0.0]), ranges=False, rng=0).dimension == 3
    assert identify(POMDP(moves, rows, [0.25] * 4), ranges=False, rng=0).dimension in (3, 4)


def test_untried_actions_are_left_out():
    """The second action alone tells the two states apart; of a log without it nothing is known of them."""
    model = aliased(np.random.default_rng(0), "departure")
    rows = np.concatenate([model.observations, [[[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.3, 0.5]]]])
    moves = np.concatenate([model.transitions, model.transitions[:1]])
    tried = POMDP(moves, rows, model.initial, action_names=("a", "b", "c"))
    assert identify(tried, ranges=False, rng=0).verdict == "determined"
    assert identify(replace(tried, untried_actions=("c",)), ranges=False).verdict == "undecided"
    assert identify(replace(tried, untried_actions=("a", "b", "c"))).verdict == "not examined"


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
    found = identify(ending(inner, ends, inner.observations[:, :1]), ranges=False, rng=0)
    assert (found.verdict, found.dimension, found.free_directions) == ("determined", 4, 0)
    found = identify(ending(with_twins(inner), ends, inner.observations[:, :1]))
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
    found = identify(ending(inner, ends, shows), ranges=False, rng=0)
    assert (found.verdict, found.dimension, found.free_directions) == ("determined", 5, 0)
    model = ending(with_twins(inner), ends + 0.05, shows)
    found = identify(model)
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
    found = identify(model, ranges=False, rng=0)
    assert found.verdict == "determined"
    assert found.free_directions == 2
    used = [
        zero.place for zero in found.zeros if zero.array == "transitions" and zero.place[2] in model.terminal
    ]
    assert {(state, end) for _, state, end in used} == {(1, 4), (2, 3)}
    for zero in found.zeros:
        assert getattr(model, zero.array)[zero.place] == 0
    assert identify(ending(inner, ends + 0.05, shows), ranges=False).verdict == "undecided"


def test_terminal_states_that_come_in_one_mixture_are_more_than_it_takes():
    inner = naive.random_pomdp(np.random.default_rng(2), states=3, emission="arrival")
    shows = np.tile(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), (2, 1, 1))
    ends = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2]])[:, :, None] * np.array([0.6, 0.4])
    found = identify(ending(inner, ends, shows), ranges=False, rng=0)
    assert (found.verdict, found.dimension) == ("not minimal", 4)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_a_rare_end_is_an_end_whatever_the_noise(emission):
    inner = naive.random_pomdp(np.random.default_rng(2), states=2, emission=emission)
    shows = np.tile([[1.0, 0.0, 0.0]], (2, 1, 1))
    rare = ending(inner, np.full((2, 2, 1), 0.01), shows)
    assert identify(rare, tolerance=0.02, ranges=False, rng=0).dimension == 3
    never = ending(inner, np.zeros((2, 2, 1)), shows)
    assert (identify(never, ranges=False, rng=0).verdict, identify(never, ranges=False, rng=0).dimension) == (
        "not minimal",
        2,
    )


@pytest.mark.parametrize(
    ("emission", "other"), [("departure", [0.0, 0.0, 1.0]), ("arrival", [0.0, 0.5, 0.5])]
)
def test_several_endings_that_nothing_tells_apart_are_declined(emission, other):
    inner = naive.random_pomdp(np.random.default_rng(2), states=3, emission=emission)
    shows = np.tile(np.array([[0.0, 1.0, 0.0], other]), (2, 1, 1))
    found = identify(ending(inner, np.full((2, 3, 2), 0.1), shows))
    assert found.verdict == "not examined"
    assert "several terminal states" in str(found)


def test_large_models_are_declined():
    large = identify(domains.sense_float_reset(61), ranges=False, rng=0)
    assert str(large) == "not examined: 61 states; up to 60 are looked at"


def test_sentences_say_no_more_than_is_proved():
    assert str(identify(domains.tiger())) == (
        "identified: no other model of 2 states shows the same, but for the names of its states"
    )
    by_zeros = identify(domains.sense_float_reset(5))
    assert not by_zeros.everywhere
    assert str(by_zeros).startswith("locally identified: any other model of 5 states near this one")
    assert "models far away are not excluded" in str(by_zeros)
    assert len(by_zeros.zeros) > by_zeros.free_directions  # fewer half-spaces always leave a direction
    assert str(by_zeros).endswith(f"; rests on {len(by_zeros.zeros)} probabilities that are zero")
    text = str(identify(domains.unidentifiable_pair()[0]))
    assert text.startswith("not identified: the rows of 0, 1, 2 can change together without any effect")
    assert "may be wider" in text
    assert "identified" in repr(identify(domains.tiger()))


@pytest.mark.parametrize("name", ["tiger", "sense-float-reset-5"])
def test_a_piece_for_notebooks(name):
    found = identify(DETERMINED[name])
    piece = found._repr_html_()
    assert str(found) in piece
    assert ("zero in" in piece) == bool(found.zeros)
    strange = replace(found, reason="<why>")._repr_html_()
    assert "<why>" not in strange


@pytest.mark.parametrize("tolerance", [-1.0, np.nan, "much"])
def test_a_tolerance_that_makes_no_sense(tolerance):
    with pytest.raises(UsageError, match="tolerance"):
        identify(domains.tiger(), tolerance=tolerance)


@pytest.mark.parametrize("model", [None, "tiger", 3])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(UsageError, match="expected a POMDP"):
        identify(model)


# --- other models, where there are some ------------------------------------------------------------------------


def same_hankel(one: POMDP, other: POMDP) -> float:
    return float(
        np.abs(
            exact_hankel(one, history_length=3, test_length=2).matrix
            - exact_hankel(other, history_length=3, test_length=2).matrix
        ).max()
    )


@pytest.mark.parametrize("name", NOT_DETERMINED)
def test_extremes_are_models_with_the_same_process(name):
    model = NOT_DETERMINED[name]
    found = identify(model)
    one, other = found.extremes
    before = probabilities(model.to_psr(), 4 if model.n_actions == 2 else 3)
    for extreme in found.extremes:
        assert (
            np.abs(probabilities(extreme.to_psr(), 4 if model.n_actions == 2 else 3) - before).max() < 1e-10
        )
        assert (extreme.transitions >= found.transitions[..., 0] - 1e-9).all()
        assert (extreme.transitions <= found.transitions[..., 1] + 1e-9).all()
    assert (
        max(
            np.abs(one.transitions - other.transitions).max(),
            np.abs(one.observations - other.observations).max(),
        )
        > 1e-3
    )
    wrong = replace(one, transitions=np.roll(one.transitions, 1, axis=1))
    assert np.abs(probabilities(wrong.to_psr()) - probabilities(model.to_psr())).max() > 1e-3
    assert "bounded" in found.row_counts()


def mixtures(model: POMDP, i: int, j: int, number: int, rng: np.random.Generator) -> np.ndarray:
    """Transitions of valid models in which two states that show the same are mixed at random."""
    found = []
    for x, y in rng.uniform(-1.5, 1.0, (number, 2)):
        if x + y > 0.99:
            continue
        mixing = np.eye(model.n_states)
        mixing[i, [i, j]], mixing[j, [i, j]] = (1 - x, x), (y, 1 - y)
        back = np.linalg.inv(mixing)
        moves = mixing @ model.transitions @ back
        if moves.min() >= -1e-13 and (model.initial @ back).min() >= -1e-13:
            found.append(moves)
    return np.array(found)


@pytest.mark.parametrize(
    "name", ["pair-first", "aliased-departure-0", "aliased-departure-2", "aliased-arrival-1"]
)
def test_brute_force_finds_nothing_outside_the_ranges(name):
    model = NOT_DETERMINED[name]
    found = identify(model)
    i, j = (1, 2) if name == "pair-first" else (2, 3)
    moves = mixtures(model, i, j, 30_000, np.random.default_rng(0))
    assert len(moves) > 30
    assert (moves >= found.transitions[..., 0] - 1e-9).all()
    assert (moves <= found.transitions[..., 1] + 1e-9).all()
    reached = moves.max(axis=0) - moves.min(axis=0)
    width = found.transitions[..., 1] - found.transitions[..., 0]
    assert (reached <= width + 1e-9).all()
    assert (reached >= 0.7 * width - 1e-9).all()  # and what is claimed to be attained is about what is found
    assert ((width > 0).any(axis=2) == (found.transition_rows == "bounded")).all()


def test_both_members_of_the_pair_are_in_the_ranges_of_each():
    first, second = domains.unidentifiable_pair()
    for one, other in ((first, second), (second, first)):
        found, renamed = identify(one), other.reordered([0, 2, 1])
        assert (renamed.transitions >= found.transitions[..., 0] - 1e-9).all()
        assert (renamed.transitions <= found.transitions[..., 1] + 1e-9).all()
        assert same_hankel(one, renamed) < 1e-12
    assert not (first.reordered([0, 2, 1]).transitions <= identify(first).transitions[..., 1] + 1e-9).all()


def least_miss(model: POMDP, mixing: np.ndarray) -> np.ndarray:
    """The mixing that a search for a model from a random one comes to; misses of the form and negative numbers."""
    off = ~np.eye(model.n_states, dtype=bool)

    def full(point):
        matrix = np.zeros(off.shape)
        matrix[off] = point
        return matrix + np.diag(1 - matrix.sum(axis=1))

    def misses(point):
        matrix = full(point)
        if abs(np.linalg.det(matrix)) < 1e-3:
            return np.full(
                model.updates.size + model.transitions.size + model.observations.size + model.n_states, 9.0
            )
        back = np.linalg.inv(matrix)
        moved = matrix @ model.updates @ back
        moves = moved.sum(axis=1)
        if model.emission == "departure":
            shown = moved.sum(axis=3).transpose(0, 2, 1)
            form = shown.transpose(0, 2, 1)[..., None] * moves[:, None] - moved
        else:
            weight = np.maximum((moves**2).sum(axis=1), 1e-12)
            shown = ((moved * moves[:, None]).sum(axis=2) / weight[:, None]).transpose(0, 2, 1)
            form = moves[:, None] * shown.transpose(0, 2, 1)[:, :, None] - moved
        negative = [np.minimum(part, 0).ravel() for part in (moves, shown, model.initial @ back)]
        return np.concatenate([form.ravel(), *negative])

    found = least_squares(misses, mixing[off], xtol=1e-14, ftol=1e-14, gtol=1e-14, max_nfev=200)
    return full(found.x) if np.abs(misses(found.x)).max() < 1e-9 else None


@pytest.mark.parametrize("emission", EMISSIONS)
def test_searches_near_and_far_find_no_second_model_where_none_is_said_to_be(emission):
    """From random changes of basis: everything found is the model itself, with its states renamed; of models that are
    not identified, others are found."""
    found, others = 0, 0
    for seed in range(18):
        rng = np.random.default_rng([seed, 6])
        model = sparse(rng, emission) if seed % 3 else aliased(rng, emission)
        if model.n_states > 3 and seed % 3:
            continue
        verdict = identify(model, ranges=False)
        if verdict.verdict == "not minimal":
            continue
        names = [
            np.eye(model.n_states)[list(order)] for order in itertools.permutations(range(model.n_states))
        ]
        for _ in range(8):
            mixing = least_miss(
                model, np.eye(model.n_states) + 0.4 * rng.standard_normal((model.n_states,) * 2)
            )
            if mixing is None:
                continue
            away = min(np.abs(mixing - name).max() for name in names)
            if verdict.everywhere:
                assert away < 1e-3, seed
                found += 1
            elif not verdict.identified:
                others += away > 1e-3
    assert found >= 10
    assert others >= 5


def test_a_zero_that_is_opened_takes_the_proof_with_it():
    """The certificate is no habit: the same model without the zeros that it rests on is refused."""
    model = domains.sense_float_reset(4)
    found = identify(model)
    assert found.identified
    moves = model.transitions.copy()
    for zero in found.zeros:
        assert zero.array == "transitions"
        action, state, entry = zero.place
        moves[action, state] *= 0.95
        moves[action, state, entry] += 0.05
    opened = identify(replace(model, transitions=moves, initial=model.stationary()))
    assert opened.verdict == "not determined"
    assert opened.zeros == ()
    assert (
        max(
            np.abs(
                probabilities(e.to_psr(), 3)
                - probabilities(replace(model, transitions=moves, initial=model.stationary()).to_psr(), 3)
            ).max()
            for e in opened.extremes
        )
        < 1e-10
    )


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-6, 1e-11, 1e-14, 0.0])
def test_states_that_are_almost_alike(emission, distance):
    """As far as double precision goes the verdict is that of the exact numbers; below the tolerance it is a refusal,
    never a proof."""
    for seed in range(6):
        rng = np.random.default_rng([seed, 7])
        model = aliased(rng, emission)
        rows = model.observations.copy()
        rows[:, 3] = (1 - distance) * rows[:, 3] + distance * rng.dirichlet(np.ones(3), 2)
        near = replace(model, observations=rows)
        assert identify(near, ranges=False).identified == (distance >= 1e-6)


# --- all that a log may tell -----------------------------------------------------------------------------------


def same_likelihoods(model: POMDP, others, *, steps: int = 30) -> float:
    log = simulate(model, steps, episodes=20, rng=0)
    return max(abs(other.log_likelihood(log) - model.log_likelihood(log)) for other in others)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_rewards_beside_observations_tell_states_apart(emission):
    """Two states that show the same: paid alike they are not identified, paid differently they are."""
    rng = np.random.default_rng(3)
    model = aliased(rng, emission)
    paid = rng.dirichlet(np.ones(2), (2, 4))
    different = replace(model, reward_values=[0.0, 1.0], reward_probabilities=paid)
    assert identify(different, ranges=False).identified
    alike = paid.copy()
    alike[:, 3] = alike[:, 2]
    same = replace(different, reward_probabilities=alike)
    found = identify(same)
    assert found.verdict == "not determined"
    assert same_likelihoods(same, found.extremes) < 1e-8
    assert same_likelihoods(different, found.extremes) > 1e-3


@pytest.mark.parametrize("emission", EMISSIONS)
def test_first_observations_and_endings_go_with_the_extremes(emission):
    inner = with_twins(naive.random_pomdp(np.random.default_rng(2), states=3, emission=emission))
    ends = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2]])[:, :, None]
    first = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [1.0, 0.0, 0.0]])
    model = replace(
        ending(inner, ends, inner.observations[:, :1]),
        first_observations=first,
        first_observation_names=("x", "y", "z"),
    )
    found = identify(model)
    assert found.verdict == "not determined"
    assert same_likelihoods(model, found.extremes) < 1e-8
    assert all(extreme.terminal == model.terminal for extreme in found.extremes)


def test_where_episodes_begin_may_carry_the_proof():
    """Twins that only the start tells apart: with a certain start the cone is smaller, and the zero is named."""
    first = domains.unidentifiable_pair()[0]
    anywhere = replace(first, initial=first.stationary())
    assert not identify(anywhere, ranges=False).identified
    starts = identify(replace(first, initial=[0.0, 1.0, 0.0]), ranges=False)
    named = {zero.name for zero in starts.zeros if zero.array == "initial"}
    assert named <= {"no episode begins in 0", "no episode begins in 2"}
    if starts.identified:
        assert named


def test_one_state():
    model = POMDP([[[1.0]], [[1.0]]], [[[0.3, 0.7]], [[1.0, 0.0]]], [1.0])
    found = identify(model)
    assert found.identified
    assert found.everywhere
    assert found.dimension == 1


def test_rows_in_words():
    """What is never observed is said to be so, whatever else holds: an untried action, what a wall keeps from."""
    found = identify(domains.random_room(2, 3, 2, rng=0))
    never = ~domains.random_room(2, 3, 2, rng=0).transitions.any(axis=1)
    assert ((found.observation_rows == "never observed") == never).all()
    assert (found.observations[never] == [0.0, 1.0]).all()
    untried = identify(replace(domains.tiger(), untried_actions=("open-left",)))
    assert (untried.transition_rows[1] == "never observed").all()
    assert (untried.transition_rows[0] == "identified").all()
    maze = identify(domains.tmaze(2))
    names = domains.tmaze(2).state_names
    alike = [state for state, name in enumerate(names) if name.endswith("rm_2")]
    assert (maze.transition_rows[:, alike] == "identified up to relabeling").all()
    assert (np.delete(maze.transition_rows, alike, axis=1) == "identified").all()


@pytest.mark.parametrize("name", ["tiger", "pair-first", "sense-float-reset-5"])
def test_verdicts_survive_a_file(name):
    model = {**DETERMINED, **NOT_DETERMINED}[name]
    found = identify(model)
    again = Identification.from_dict(found.as_dict(), model)
    assert again == found
    assert str(again) == str(found)
    assert again != replace(found, everywhere=not found.everywhere)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("verdict", "certain"),
        ("identified", 1),
        ("transition_rows", [["fine"]]),
        ("zeros", [["transitions", [0, 0, 9.5], "x", None, None]]),
        ("ranges", {"transitions": [[0, 0, 7, 0.1, 0.2]]}),
        ("ranges", {"transitions": [[0, 0, 0, -1.0, 0.2]]}),
        ("moving_states", [99]),
    ],
)
def test_a_damaged_verdict_is_refused(field, value):
    model = domains.unidentifiable_pair()[0]
    values = {**identify(model).as_dict(), field: value}
    with pytest.raises(DataError, match="identified"):
        Identification.from_dict(values, model)
