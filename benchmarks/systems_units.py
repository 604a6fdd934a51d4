"""The work behind `systems.py`: one function per group, each a function of its parameters and seed alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import unlatch
from unlatch import POMDP, ExactPlanner, Trajectory, domains
from unlatch.compare.bounds import ending_errors
from unlatch.compare.match_states import aligned_rows
from unlatch.errors import ResourceLimitError, UnlatchError
from unlatch.study.efficiency import oracle_gaps
from unlatch.study.held_out import chances_of_what_was_seen, one_state_chances
from unlatch.study.jobs.units import Finding
from unlatch.study.task import Watch

Parameters = Mapping[str, Any]
Row = dict[str, Any]

ACTIONS = ("left", "down", "right", "up")
"""Of Gymnasium's FrozenLake-v1, in the order of its numbers."""

LIMIT = 100
"""Steps after which FrozenLake-v1 with sixteen cells gives an episode up."""

LEAST_VISITED = 0.03
BOUND_STEPS = 1_000_000
"""Random models: how often the rarest state must be visited, and the length of a log that a bound is measured on."""

MOST_ERROR = 50.0
"""Of a transition row, times the square root of the number of steps: random models of which a million steps cannot
tell the rows to a twentieth are drawn anew, since no learner could be judged by them."""

AGREEMENT = 1.2
"""Of two bounds from two logs. Where states can hardly be told apart the measured information is not even definite,
and the bounds are anything."""

AT_ORACLE = 3.0
"""Nats by which a model may be below the one refined from the truth and still count as level with it."""

PLANNING_STEPS = 5
NOTE_SECONDS = 60.0
"""For learning from a log that does not tell its endings: only the note is of interest."""


# --- what all groups share -------------------------------------------------------------------------------


def learned(
    log: Trajectory, parameters: Parameters, rng: np.random.Generator, row: Row, watch: Watch
) -> unlatch.LearnResult | None:
    """What the log gives with default options, or so far within a time limit; or None and the reason in the row."""
    with watch("learn"), watch("learn_cpu", time.process_time):
        try:
            result = unlatch.learn_pomdp(
                log, emission=parameters["emission"], time_limit=parameters.get("time_limit"), rng=rng
            )
        except UnlatchError as error:
            row["outcome"], row["refusal"] = type(error).__name__, str(error)[:300]
            return None
    row["outcome"] = "ok"
    row["states"] = result.pomdp.n_states - len(result.pomdp.terminal)
    row["emission_found"] = result.pomdp.emission
    row["notes"] = " ".join(sorted({note.name for note in result.diagnostics}))
    return result


def finding(rows: list[Row], watch: Watch) -> Finding:
    """Six digits, and nothing where a number is not finite, as JSON wants it."""
    return Finding([{key: _plain(value) for key, value in row.items()} for row in rows], watch.seconds)


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    return value


def matched_errors(estimate: POMDP, truth: POMDP) -> tuple[float, float]:
    """L1 errors of observation and transition rows, states matched first."""
    order = unlatch.match_states(estimate, truth)
    return (
        unlatch.observation_l1_all(estimate, truth, order=order),
        unlatch.transition_l1(estimate, truth, order=order),
    )


def shown_error(estimate: POMDP, truth: POMDP) -> float:
    """The first of `matched_errors` over the rows that a log can show: on arrival no action shows a state that it never
    leads to, and what an estimate has in that row means nothing."""
    order = unlatch.match_states(estimate, truth)
    learned, true = aligned_rows(estimate, truth)
    distances = np.abs(learned.observations[:, order] - true.observations).sum(axis=2)
    shown = truth.transitions.any(axis=1) | (truth.emission == "departure")
    return float(distances[shown].mean())


# --- the frozen lake -------------------------------------------------------------------------------------


class Step(NamedTuple):
    """What the real environment answers."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool


class Lake:
    """Gymnasium's FrozenLake-v1 with sixteen cells, seen whole or only by column."""

    def __init__(self, *, slippery: bool, observe: str, seed: int) -> None:
        import gymnasium

        self._environment = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=slippery)
        self.observe, self.slippery = observe, slippery
        self._seed: int | None = seed
        self.names = tuple(map(str, range(16 if observe == "cell" else 4)))

    def _shown(self, cell: int) -> str:
        return str(cell if self.observe == "cell" else cell % 4)

    def reset(self) -> str:
        """Begin an episode; what is shown first."""
        cell, _ = self._environment.reset(seed=self._seed)
        self._seed = None  # later episodes go on in the same stream
        return self._shown(int(cell))

    def step(self, action: int) -> Step:
        cell, reward, terminated, truncated, _ = self._environment.step(action)
        return Step(self._shown(int(cell)), float(reward), bool(terminated), bool(truncated))


def recorded(lake: Lake, steps: int, rng: np.random.Generator) -> Trajectory:
    """A log of uniform actions."""
    actions = rng.integers(len(ACTIONS), size=steps)
    observations, rewards, terminated, starts, first = [], [], [], [], []
    over = True
    for t, action in enumerate(actions.tolist()):
        if over:
            starts.append(t)
            first.append(lake.names.index(lake.reset()))
        step = lake.step(action)
        observations.append(lake.names.index(step.observation))
        rewards.append(step.reward)
        terminated.append(step.terminated)
        over = step.terminated or step.truncated
    return Trajectory(
        actions,
        observations,
        action_names=ACTIONS,
        observation_names=lake.names,
        rewards=rewards,
        episode_starts=starts,
        terminated=terminated,
        first_observations=first,
    )


class FromStates:
    """Value iteration on a model's states; the action is the best on average over the belief (QMDP)."""

    def __init__(self, model: POMDP, steps: int) -> None:
        assert model.rewards is not None
        self.model = model
        self._live = model.going_on > 0
        self._values = _action_values(model.transitions, model.rewards, steps)
        self.reset("")

    def reset(self, observation: str) -> None:
        """Begin an episode that shows ``observation`` before the first action."""
        self._taken = 0
        belief = self.model.initial
        if self.model.first_observations is not None and observation in self.model.first_observation_names:
            code = self.model.first_observation_names.index(observation)
            belief = belief * self.model.first_observations[:, code]
        self._belief = self._normalized(belief)

    def action(self) -> int:
        return int((self._values[self._taken] @ self._belief).argmax())

    def observe(self, action: int, observation: str, *, reward: float) -> None:
        """Filter, knowing that the episode goes on."""
        model, before = self.model, self._belief
        if model.reward_probabilities is not None and model.reward_values is not None:
            paid = np.flatnonzero(model.reward_values == reward)
            before = before * model.reward_probabilities[action][:, paid].sum(axis=1)
        codes = [
            o for o, name in enumerate(model.observation_names) if self._fits(o, name, observation, reward)
        ]
        after = before @ model.updates[action, codes].sum(axis=0) if codes else np.zeros(model.n_states)
        self._belief = self._normalized(after)
        self._taken += 1

    def _fits(self, code: int, name: str, observation: str, reward: float) -> bool:
        if name == observation:
            return True
        rewards = self.model.symbol_rewards
        return rewards is not None and name.rpartition("|")[0] == observation and rewards[code] == reward

    def _normalized(self, belief: np.ndarray) -> np.ndarray:
        weights = belief * self._live
        return weights / weights.sum() if weights.sum() > 0 else self.model.going_on


def _action_values(transitions: np.ndarray, rewards: np.ndarray, steps: int) -> np.ndarray:
    """The best that can still be had, by step, action and state. Where an episode ends, transitions lead nowhere or
    to states without rewards."""
    values = np.zeros(transitions.shape[1])
    levels = []
    for _ in range(steps):
        levels.append(rewards + transitions @ values)
        values = levels[-1].max(axis=0)
    return np.array(levels[::-1])


class FromCounts:
    """Value iteration on the table of what followed which observation, as if an observation were a state."""

    def __init__(self, log: Trajectory, steps: int) -> None:
        assert log.rewards is not None
        assert log.terminated is not None
        assert log.first_observations is not None
        before = np.empty_like(log.observations)
        before[1:] = log.observations[:-1]
        before[log.episode_starts] = log.first_observations
        size = (len(log.action_names), len(log.observation_names))
        visits, paid = np.zeros(size), np.zeros(size)
        follow = np.zeros((*size, size[1]))
        np.add.at(visits, (log.actions, before), 1)
        np.add.at(paid, (log.actions, before), log.rewards)
        going = ~log.terminated
        np.add.at(follow, (log.actions[going], before[going], log.observations[going]), 1)
        tried = np.maximum(visits, 1)
        self._names = log.observation_names
        self._values = _action_values(follow / tried[:, :, None], paid / tried, steps)
        self.reset(self._names[0])

    def reset(self, observation: str) -> None:
        self._taken, self._at = 0, self._names.index(observation)

    def action(self) -> int:
        return int(self._values[self._taken, :, self._at].argmax())

    def observe(self, action: int, observation: str, *, reward: float) -> None:
        self._taken += 1
        self._at = self._names.index(observation)


def success(lake: Lake, planner: Any, episodes: int) -> tuple[float, float]:
    """The share of episodes in the real environment that come to the goal, and its standard error."""
    names = getattr(getattr(planner, "model", None), "action_names", ACTIONS)
    won = np.zeros(episodes)
    for episode in range(episodes):
        planner.reset(lake.reset())
        while True:
            action = planner.action()
            step = lake.step(ACTIONS.index(names[action]))
            if step.terminated or step.truncated:
                won[episode] = step.reward
                break
            planner.observe(action, step.observation, reward=step.reward)
    return float(won.mean()), float(won.std() / np.sqrt(episodes))


def frozen_lake(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Record the environment, learn, plan, and act in the environment; beside that a table of counts and the truth."""
    rng = np.random.default_rng(seed)
    watch = Watch()
    kind = {"slippery": parameters["slippery"], "observe": parameters["observe"]}
    log = recorded(Lake(**kind, seed=_seed(rng)), parameters["steps"], rng)
    base: Row = {**parameters}
    result = learned(log, parameters, rng, base, watch)
    truth = domains.frozen_lake(slippery=kind["slippery"])
    rows = [
        _scored(base, "value iteration on the truth, which is seen", FromStates(truth, LIMIT), Lake(
            slippery=kind["slippery"], observe="cell", seed=_seed(rng)), watch),
        _scored(base, "value iteration on the table of counts", FromCounts(log, LIMIT),
                Lake(**kind, seed=_seed(rng)), watch),
    ]  # fmt: skip
    if result is not None and result.pomdp.rewards is not None:
        planners: dict[str, Callable[[], Any]] = {
            "learned, value iteration on its states": lambda: FromStates(result.pomdp, LIMIT),
            "learned, exact planner": lambda: ExactPlanner(
                result.pomdp, horizon=LIMIT, on_collapse="mix", max_beliefs=20_000
            ),
        }
        for name, make in planners.items():
            rows.append(_scored(base, name, make(), Lake(**kind, seed=_seed(rng)), watch))
    return finding(rows, watch)


def _scored(base: Row, policy: str, planner: Any, lake: Lake, watch: Watch) -> Row:
    row = {**base, "policy": policy}
    with watch(policy):
        try:
            row["success"], row["standard_error"] = success(lake, planner, base["episodes"])
        except ResourceLimitError as error:
            row["refusal"] = str(error)[:300]
    return row


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


# --- classic files ---------------------------------------------------------------------------------------


def file_model(path: Path) -> POMDP:
    """The model of a ``.POMDP`` file, without its rewards."""
    model = unlatch.load_problem(path).model
    assert isinstance(model, POMDP)
    return model


def classic(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Share of the truth's information about a held-out log that the learned model has, and how far it is from the
    best that the log allows: nats above the model that is refined from the truth, of what the learner maximizes."""
    rng = np.random.default_rng(seed)
    truth = file_model(Path(parameters["folder"]) / f"{parameters['file']}.POMDP")
    watch = Watch()
    row: Row = {**parameters, "true_states": truth.n_states}
    log = unlatch.simulate(truth, parameters["steps"], rng=rng)
    held_out = unlatch.simulate(truth, 2 * parameters["steps"], rng=rng)
    result = learned(log, parameters, rng, row, watch)
    if result is not None:
        chances = chances_of_what_was_seen(result.pomdp, held_out)
        plain, true = one_state_chances(log, held_out), chances_of_what_was_seen(truth, held_out)
        scored = (chances > 0) & (plain > 0)
        ours, theirs, least = (np.log(each[scored]).sum() for each in (chances, true, plain))
        row["impossible"] = int((chances == 0).sum())
        row["impossible_with_one_state"] = int((plain == 0).sum())
        row["share"] = (ours - least) / (theirs - least) if theirs > least else None
        row["information"] = (theirs - least) / len(held_out) / np.log(2)
        with watch("oracle"):
            oracle = unlatch.refine(truth, log)
            row["log_likelihood_gap"], row["oracle_gap"] = oracle_gaps(result.pomdp, oracle.pomdp, log)
        if result.pomdp.n_states == truth.n_states and result.pomdp.emission == truth.emission:
            row["observation_l1"], row["transition_l1"] = matched_errors(result.pomdp, truth)
            row["shown_l1"] = shown_error(result.pomdp, truth)
        row["at_oracle"] = row["oracle_gap"] > -AT_ORACLE
        row["complete"] = result.complete
    return finding([row], watch)


# --- transition matrices without full rank ---------------------------------------------------------------


def singular(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """Errors of the learned model, in units of the Cramer-Rao bound."""
    rng = np.random.default_rng(seed)
    truth, ranks, bound = _singular_model(parameters, rng)
    watch = Watch()
    row: Row = {**parameters, "true_states": truth.n_states, "ranks": " ".join(map(str, ranks))}
    log = unlatch.simulate(truth, parameters["steps"], rng=rng)
    result = learned(log, parameters, rng, row, watch)
    least = np.array(bound) / np.sqrt(parameters["steps"])
    row["observation_bound"], row["transition_bound"] = least.tolist()
    if result is not None and result.pomdp.n_states == truth.n_states:
        observed, moved = matched_errors(result.pomdp, truth)
        row["observation_ratio"], row["transition_ratio"] = observed / least[0], moved / least[1]
    return finding([row], watch)


def _singular_model(
    parameters: Parameters, rng: np.random.Generator
) -> tuple[POMDP, list[int], unlatch.ErrorBound]:
    """A random model of which no transition matrix has full rank, but whose states a log can tell apart."""
    while True:
        states, actions = int(rng.integers(3, 7)), 3
        ranks = [int(rng.integers(max(2, states - 2), states)) for _ in range(actions)]
        model = POMDP(
            transitions=np.array(
                [_peaked(rng, states, rank, 0.6) @ _peaked(rng, rank, states, 0.6) for rank in ranks]
            ),
            observations=np.array([_peaked(rng, states, states, 0.8) for _ in range(actions)]),
            initial=np.full(states, 1 / states),
            emission=parameters["true_emission"],
        )
        if model.stationary().min() < LEAST_VISITED:
            continue
        bound = _agreed_bound(model, rng)
        if bound is not None:
            return model, ranks, bound


def _peaked(rng: np.random.Generator, rows: int, columns: int, least: float) -> np.ndarray:
    """Rows that differ in what is likeliest, as far as there are columns, and have no tiny entries: of those the
    information cannot be measured."""
    likeliest = rng.permutation(np.arange(max(rows, columns)) % columns)[:rows]
    weights = rng.uniform(least, 0.9, size=(rows, 1))
    return weights * np.eye(columns)[likeliest] + (1 - weights) * rng.dirichlet(
        np.full(columns, 3.0), size=rows
    )


def _agreed_bound(model: POMDP, rng: np.random.Generator) -> unlatch.ErrorBound | None:
    """The bound, if it is low enough to judge by and two logs agree on it."""
    bounds = []
    for _ in range(2):
        try:
            bounds.append(unlatch.cramer_rao_bound(model, steps=BOUND_STEPS, rng=rng))
        except UnlatchError:
            return None  # a log of states that cannot be told apart has no information on them
        if not max(bounds[-1]) < MOST_ERROR:
            return None
    both = np.array(bounds)
    if (both.max(axis=0) > AGREEMENT * both.min(axis=0)).any():
        return None
    return unlatch.ErrorBound(*both.mean(axis=0).tolist())


# --- episodes that end -----------------------------------------------------------------------------------


def endings(parameters: Parameters, seed: np.random.SeedSequence) -> Finding:
    """The law of endings, what planning with it is worth, and whether a log that hides its endings is told on."""
    rng = np.random.default_rng(seed)
    truth = _episodic_model(parameters["true_emission"], rng)
    cap = int(rng.integers(20, 201))
    watch = Watch()
    row: Row = {**parameters, "true_states": truth.n_states - 1, "cap": cap}
    log = unlatch.simulate(truth, cap, total=parameters["steps"], rng=rng)
    result = learned(log, parameters, rng, row, watch)
    if result is not None:
        _judge_endings(row, result.pomdp, truth, log)
        if result.pomdp.terminal:
            _judge_planning(row, result.pomdp, truth, parameters["episodes"], _seed(rng), watch)
    with watch("without endings"):
        row["told_on"] = _told_on(replace(log, terminated=None), parameters, rng)
    return finding([row], watch)


def _episodic_model(emission: str, rng: np.random.Generator) -> POMDP:
    """3 to 5 states that go on and one that ends, observations that carry rewards."""
    live, actions, observations = (int(rng.integers(low, high)) for low, high in ((3, 6), (2, 4), (3, 6)))
    ends = rng.uniform(0.02, 0.3, size=(actions, live))
    transitions = np.zeros((actions, live + 1, live + 1))
    transitions[:, :live, :live] = (
        rng.dirichlet(np.full(live, 0.4), size=(actions, live)) * (1 - ends)[:, :, None]
    )
    transitions[:, :live, live] = ends
    transitions[:, live, live] = 1
    rewards = np.arange(observations) - observations // 2
    return POMDP(
        transitions=transitions,
        observations=rng.dirichlet(np.full(observations, 0.4), size=(actions, live + 1)),
        initial=np.append(rng.dirichlet(np.ones(live)), 0.0),
        emission=emission,  # type: ignore[arg-type]
        observation_names=tuple(f"o{o}|{reward}" for o, reward in enumerate(rewards.tolist())),
        symbol_rewards=rewards.astype(float),
        terminal=(live,),
    )


def _judge_endings(row: Row, model: POMDP, truth: POMDP, log: Trajectory) -> None:
    """Error of P(end | state, action) against the Cramer-Rao bound of this log at the truth."""
    row["terminal_states"] = len(model.terminal)
    if row["states"] != row["true_states"] or not model.terminal:
        return
    ours, theirs = _live(model), _live(truth)
    order = unlatch.match_states(ours, theirs)
    found, true = _ending_chances(model)[:, order], _ending_chances(truth)
    least = ending_errors(truth, log)[:, truth.going_on > 0]
    row["ending_error"] = float(np.sqrt(np.mean((found - true) ** 2)))
    row["ending_bound"] = float(np.sqrt(np.mean(least**2)))
    row["ending_ratio"] = row["ending_error"] / row["ending_bound"]
    row["observation_l1"], row["transition_l1"] = matched_errors(ours, theirs)


def _ending_chances(model: POMDP) -> np.ndarray:
    """P(end | action, state that goes on)."""
    return model.transitions[:, model.going_on > 0][:, :, list(model.terminal)].sum(axis=2)


def _live(model: POMDP) -> POMDP:
    """The model among its states that go on, as if no episode ever ended."""
    live = np.flatnonzero(model.going_on > 0)
    moves = model.transitions[:, live][:, :, live]
    totals = moves.sum(axis=2, keepdims=True)
    return POMDP(
        transitions=np.where(totals > 0, moves / np.where(totals > 0, totals, 1), 1 / len(live)),
        observations=model.observations[:, live],
        initial=model.initial[live],
        emission=model.emission,
        action_names=model.action_names,
        observation_names=model.observation_names,
    )


def _judge_planning(row: Row, model: POMDP, truth: POMDP, episodes: int, seed: int, watch: Watch) -> None:
    """The returns of one planner with the learned model and with the true one, both in the truth."""
    scores = {}
    with watch("planning"):
        for name, own in (("learned", model), ("true", truth)):
            try:
                planner = ExactPlanner(own, horizon=PLANNING_STEPS, on_collapse="mix")
                scores[name] = unlatch.run_episodes(
                    truth, planner, episodes=episodes, steps=PLANNING_STEPS, rng=seed
                )
            except ResourceLimitError as error:
                row["planning_refusal"] = str(error)[:300]
                return
    for name, score in scores.items():
        row[f"{name}_return"], row[f"{name}_return_error"] = score.mean, score.standard_error
    both = np.hypot(scores["learned"].standard_error, scores["true"].standard_error)
    row["planning_sigmas"] = (scores["learned"].mean - scores["true"].mean) / both if both > 0 else 0.0


def _told_on(log: Trajectory, parameters: Parameters, rng: np.random.Generator) -> bool | None:
    """Whether learning from a log that hides its endings says so; None if it refuses altogether."""
    try:
        result = unlatch.learn_pomdp(log, emission=parameters["emission"], time_limit=NOTE_SECONDS, rng=rng)
    except UnlatchError:
        return None
    return any(note.name == "endings_not_told" for note in result.diagnostics)
