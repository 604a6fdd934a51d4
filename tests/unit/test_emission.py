"""Which state shows the observation, and which pays: what the log says of it, and what is said where it does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import naive
import unlatch
from sizes import sized
from unlatch import POMDP, LearnResult, Trajectory, domains, learn_pomdp, match_states, simulate
from unlatch.core.evidence import Evidence
from unlatch.learn.likelihood.objective import Hypothesis

pytestmark = pytest.mark.compiled

TIGER = simulate(domains.tiger(), sized(3_000), rng=0)
ARRIVAL = naive.random_pomdp(np.random.default_rng(1), states=3, emission="arrival", concentration=0.3)


@pytest.fixture(scope="module")
def tiger() -> LearnResult:
    return learn_pomdp(TIGER, rng=0)


@pytest.fixture(scope="module")
def arrival() -> LearnResult:
    return learn_pomdp(simulate(ARRIVAL, sized(5_000), rng=0), rng=0)


# --- found ----------------------------------------------------------------------------------------------


def test_departure_is_found(tiger: LearnResult) -> None:
    assert (tiger.pomdp.emission, tiger.states) == ("departure", 2)
    evidence = tiger.evidence
    assert evidence is not None
    assert evidence.emission == "departure"
    assert evidence.emission_scores["departure"] == 0
    assert evidence.emissions_compared == 2
    assert evidence.emission_gap > 5
    assert "emission_uncertain" not in tiger.diagnostics


def test_departure_is_found_in_a_maze() -> None:
    result = learn_pomdp(simulate(domains.tmaze(), sized(5_000), rng=0), rng=0)
    assert (result.pomdp.emission, result.states) == ("departure", 4)
    assert "neither_emission_fits" not in result.diagnostics


def test_arrival_is_found(arrival: LearnResult) -> None:
    assert (arrival.pomdp.emission, arrival.states) == ("arrival", 3)
    assert match_states(arrival.pomdp, ARRIVAL).shape == (3,)  # of one emission
    assert arrival.evidence is not None
    assert arrival.evidence.emission_gap > 5
    held_out = simulate(ARRIVAL, sized(5_000), rng=1)
    behind = ARRIVAL.log_likelihood(held_out) - arrival.pomdp.log_likelihood(held_out)
    assert behind < 0.005 * len(held_out)


def test_arrival_is_found_in_a_room_seen_through_noise() -> None:
    truth = domains.room(["rg", "bw"], wrong=0.1)
    result = learn_pomdp(simulate(truth, sized(2_000), rng=0), rng=0)
    assert (result.pomdp.emission, result.states) == ("arrival", 4)
    rows = result.pomdp.observations
    assert (rows == rows[:1]).all()  # what a cell shows does not depend on how it was reached: learned once
    np.testing.assert_allclose(
        result.pomdp.reordered(match_states(result.pomdp, truth)).observations, truth.observations, atol=0.06
    )


# --- said -----------------------------------------------------------------------------------------------


def test_the_evidence_says_which_and_how_sure(tiger: LearnResult, arrival: LearnResult) -> None:
    for result, emission in ((tiger, "departure"), (arrival, "arrival")):
        evidence = result.evidence
        assert evidence is not None
        assert f"; emission: {emission}" in str(evidence)
        if evidence.emissions_given_up:
            assert "given up: clearly behind" in str(evidence)
        if np.isfinite(evidence.emission_gap):
            assert f"emission: {emission}, by {evidence.emission_gap:.1f} nats" in str(evidence)
        assert Evidence.from_dict(evidence.as_dict()) == evidence


def test_the_gap_is_to_the_next_best_that_was_compared_to_the_end() -> None:
    known = {
        "states": 2,
        "scores": {2: 0.0},
        "runner_up": None,
        "gap": np.inf,
        "steps": 9,
        "steps_to_settle": None,
    }
    three = Evidence(  # type: ignore[arg-type]
        **known, emission="arrival", emission_scores={"arrival": 0.0, "departure": -7.0, "other": -3.0}
    )
    assert three.emission_gap == 3
    alone = Evidence(  # type: ignore[arg-type]
        **known, emission="arrival", emission_scores={"arrival": 0.0}, emissions_given_up=("departure",)
    )
    assert (alone.emission_gap, alone.emissions_compared) == (np.inf, 2)
    assert str(alone).endswith("; emission: arrival (departure given up: clearly behind)")
    untold = Evidence(**known)  # type: ignore[arg-type]
    assert (untold.emission_gap, untold.emissions_compared) == (np.inf, 0)
    assert "emission" not in str(untold)
    for evidence in (three, alone, untold):
        assert Evidence.from_dict(evidence.as_dict()) == evidence
    old = untold.as_dict()
    for name in ("emission", "emission_scores", "emissions_given_up"):
        del old[name]  # as a file of an earlier version has it
    assert Evidence.from_dict(old) == untold


@pytest.mark.parametrize("emission", ["departure", "arrival"])
def test_an_emission_that_is_asked_for_is_taken(emission: str) -> None:
    result = learn_pomdp(TIGER.head(1_000), emission=emission, rng=0)  # type: ignore[arg-type]
    assert result.pomdp.emission == emission
    assert result.evidence is not None
    assert result.evidence.emission.startswith(emission)
    assert "emission_uncertain" not in result.diagnostics or emission == "arrival"
    spectral = learn_pomdp(TIGER.head(1_000), emission=emission, refine=None, rank=1, rng=0)  # type: ignore[arg-type]
    assert spectral.pomdp.emission == emission


def test_hypotheses_have_names() -> None:
    assert str(Hypothesis(TIGER, "departure")) == "departure"
    assert str(Hypothesis(TIGER, "arrival", rewards_apart=True)) == "arrival with rewards by the state left"


# --- where the log does not decide ----------------------------------------------------------------------


def test_a_log_that_both_explain_is_taken_for_arrival_and_said_to_be_uncertain() -> None:
    """Listening moves nothing, and after a reset nothing is known: the state left and the state reached show alike."""
    rows = [[[0.85, 0.15], [0.15, 0.85]], [[0.5, 0.5], [0.5, 0.5]]]
    moves = [np.eye(2), np.full((2, 2), 0.5)]
    models = [POMDP(moves, rows, [0.5, 0.5], e, ("listen", "reset")) for e in ("departure", "arrival")]
    logs = [simulate(model, sized(3_000), rng=0) for model in models]
    for log in logs:
        heights = [model.log_likelihood(log) for model in models]
        assert heights[0] == pytest.approx(heights[1])
        result = learn_pomdp(log, rng=0)
        assert (result.pomdp.emission, result.states) == ("arrival", 2)
        assert result.evidence is not None
        assert result.evidence.emission_gap < 5
        note = next(note for note in result.diagnostics if note.name == "emission_uncertain")
        assert note.details["gap"] == result.evidence.emission_gap
        assert "departure" in note.message
        assert learn_pomdp(log, emission="departure", rng=0).pomdp.emission == "departure"


def test_where_the_log_does_not_decide_fewer_states_are_taken() -> None:
    """Of this log of Tiger arrival takes three states and is about as probable as departure with two."""
    result = learn_pomdp(simulate(domains.tiger(), 500, rng=1016), rng=16)
    assert (result.pomdp.emission, result.states) == ("departure", 2)
    assert "emission_uncertain" in result.diagnostics


def test_more_states_that_make_no_difference_are_not_taken() -> None:
    """Of this log of Tiger three states have a tenth of a nat more evidence than two."""
    result = learn_pomdp(simulate(domains.tiger(), 500, rng=1014), rng=14)
    assert result.states == 2
    assert result.evidence is not None
    assert abs(result.evidence.scores[3]) < 0.5
    assert result.evidence.gap < 0.5
    assert "states_uncertain" in result.diagnostics


def test_of_a_single_state_no_emission_is_doubted() -> None:
    """It is left and reached at once."""
    rng = np.random.default_rng(0)
    log = Trajectory(rng.integers(2, size=1_000), rng.integers(3, size=1_000))
    result = learn_pomdp(log, rng=0)
    assert (result.states, result.pomdp.emission) == (1, "arrival")
    assert "emission_uncertain" not in result.diagnostics


# --- where neither does it ------------------------------------------------------------------------------


def changes_of_a_bit(steps: int, seed: int) -> tuple[Trajectory, float]:
    """A hidden bit of which only its changes are seen, with errors, and the probability of what was seen.

    The observation belongs to the move, neither to the state left nor to the state reached."""
    stays, wrong = np.array([[0.9, 0.3], [0.5, 0.6]]), 0.05
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=steps)
    bit, shown = 0, []
    for action in actions:
        changes = rng.random() >= stays[action, bit]
        bit ^= int(changes)
        shown.append(int(changes) ^ int(rng.random() < wrong))
    keep, flip = np.eye(2), np.eye(2)[::-1]
    belief, height = np.array([1.0, 0.0]), 0.0
    for action, observation in zip(actions, shown, strict=True):
        move = np.where(keep > 0, stays[action][:, None], 1 - stays[action][:, None])
        seen = np.where(flip > 0, 1 - wrong, wrong) if observation else np.where(keep > 0, 1 - wrong, wrong)
        belief = belief @ (move * seen)
        height += float(np.log(belief.sum()))
        belief = belief / belief.sum()
    return Trajectory(actions, shown), height


@pytest.mark.slow
def test_what_belongs_to_the_move_takes_more_states() -> None:
    """Pairs of bits, old and new, show it on arrival: four states for a process of dimension two."""
    log, _ = changes_of_a_bit(3_000, seed=0)
    result = learn_pomdp(log, rng=0)
    assert result.states == 4
    note = next(note for note in result.diagnostics if note.name == "spectral_disagrees")
    assert (note.details["spectral"], note.details["likelihood"]) == (2, 4)
    held_out, height = changes_of_a_bit(3_000, seed=1)
    assert height - result.pomdp.log_likelihood(held_out) < 0.005 * len(held_out)
    assert "poor_fit" not in result.diagnostics


def echo(steps: int) -> Trajectory:
    """Every second time what was seen three steps ago, of eight: hundreds of states, far more than a log can pay."""
    rng = np.random.default_rng(0)
    shown = rng.integers(8, size=steps)
    for t in range(3, steps):
        if rng.random() < 0.5:
            shown[t] = shown[t - 3]
    return Trajectory(rng.integers(2, size=steps), shown)


@pytest.mark.slow
def test_a_log_that_no_emission_explains_is_said_so() -> None:
    result = learn_pomdp(echo(1_500), rng=0)
    assert "poor_fit" in result.diagnostics
    assert "neither_emission_fits" in result.diagnostics
    note = result.diagnostics["searched_on"]
    assert f"up to {note.details['states']} states and 2 emissions" in note.message
    assert note.details["states"] > result.states


@pytest.mark.parametrize("options", [{"states": 2}, {"max_states": 2}, {"emission": "arrival"}])
def test_no_emission_is_blamed_for_what_the_caller_ruled_out(options: dict[str, object]) -> None:
    result = learn_pomdp(echo(1_500), rng=0, **options)  # type: ignore[arg-type]
    assert "poor_fit" in result.diagnostics
    assert "neither_emission_fits" not in result.diagnostics
    assert ("searched_on" in result.diagnostics) == (
        "states" not in options
    )  # a fixed number leaves nothing to search
    if "max_states" in options:
        assert result.diagnostics["searched_on"].details["states"] == 2


# --- rewards by the state left, observations by the state reached -----------------------------------------


def tiger_as_written(steps: int) -> Trajectory:
    """Tiger as files of POMDPs have it: a door pays by where the tiger is, and what is heard then tells nothing."""
    rng = np.random.default_rng(1)
    actions = rng.integers(3, size=steps)
    tiger, heard, paid = 0, [], []
    for action in actions:
        if action == 0:
            heard.append(tiger ^ int(rng.random() < 0.15))
            paid.append(-1.0)
        else:
            paid.append(-100.0 if action == tiger + 1 else 10.0)
            tiger = int(rng.integers(2))
            heard.append(int(rng.integers(2)))
    names = ("listen", "open-left", "open-right"), ("hear-left", "hear-right")
    return Trajectory(actions, heard, *names, rewards=paid)


@pytest.fixture(scope="module")
def written() -> LearnResult:
    return learn_pomdp(tiger_as_written(sized(6_000)), rng=0)


def test_rewards_are_learned_beside_the_observations(written: LearnResult) -> None:
    pomdp = written.pomdp
    assert (pomdp.n_states, pomdp.emission) == (2, "arrival")
    assert written.evidence is not None
    assert written.evidence.emission == "arrival with rewards by the state left"
    assert pomdp.observation_names == ("hear-left", "hear-right")
    assert pomdp.symbol_rewards is None
    assert pomdp.reward_values is not None
    assert pomdp.reward_values.tolist() == [-100, -1, 10]
    assert pomdp.rewards is not None
    left = int(np.argmax(pomdp.observations[0, :, 0]))  # where the tiger is heard on the left
    truth = np.array([[-1.0, -1.0], [-100.0, 10.0], [10.0, -100.0]])[:, [left, 1 - left]]
    np.testing.assert_allclose(pomdp.rewards, truth, atol=1.0)
    np.testing.assert_allclose(pomdp.observations[0, left], [0.85, 0.15], atol=0.05)
    assert written.log_likelihood == pytest.approx(pomdp.log_likelihood(tiger_as_written(sized(6_000))))


def test_a_planner_is_told_observation_and_reward(written: LearnResult) -> None:
    pomdp = written.pomdp
    planner = unlatch.POUCT(pomdp, discount=0.95, depth=3, simulations=2_000, rng=0)
    assert pomdp.action_names[planner.action()] == "listen"
    for _ in range(3):
        planner.observe("listen", "hear-left", reward=-1)
    assert planner.belief.max() > 0.97
    assert pomdp.action_names[planner.action()] == "open-right"
    planner.observe("open-right", "hear-left", reward=10)
    assert planner.belief.max() < 0.6


def test_a_reward_by_the_state_left_tells_of_it(written: LearnResult) -> None:
    """Opening is settled by what it pays, whatever is heard."""
    log = tiger_as_written(200)
    pomdp = written.pomdp
    left = pomdp.state_probabilities(log)
    opened = log.actions > 0
    assert left[opened].max(axis=1).min() > 0.99
    silent = pomdp.state_probabilities(replace(log, rewards=None))
    assert silent[opened].max(axis=1).mean() < 0.95
