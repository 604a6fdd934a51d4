"""An agent that starts from nothing: it explores, learns, plans, acts, and goes on learning from what it does."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlatch.arrays import Floats, own_errstate
from unlatch.bridges.environment import to_gymnasium
from unlatch.bridges.record import opened
from unlatch.bridges.symbols import Observe, Recorder, actions_of, checked_observe, joined, symbol
from unlatch.core.alphabet import checked_names
from unlatch.core.arguments import real_number, whole_number
from unlatch.core.checks import frozen
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.progress import report
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.reward import Reward
from unlatch.core.symbols import plain_observations
from unlatch.core.trajectory import Trajectory
from unlatch.errors import BeliefCollapseWarning, DataError, NotLearnableError, NumericalError, UsageError
from unlatch.files import strict_json
from unlatch.files.atomic import read_regular_file, write_atomically
from unlatch.files.logs.read import read_log
from unlatch.files.logs.write import write_log
from unlatch.files.models.doors import save_model
from unlatch.learn.likelihood.forward_backward import expectation
from unlatch.learn.likelihood.parameters import ExpectedCounts
from unlatch.learn.pipeline import LearnResult, learn_pomdp
from unlatch.learn.resume import joined_logs
from unlatch.planning.policy import Policy
from unlatch.planning.solver import PointBasedSolver
from unlatch.planning.tour import Tour, expected_uses

__all__ = ["Agent", "AgentRound", "information_gain"]

_BLIND = 0.2
"""Share of the actions that are drawn uniformly where the goal is pursued: a plan made with a wrong model may do the
same for ever, and what comes of the other actions is what shows that the model is wrong. One of five leaves a plan of
five steps whole in every third try."""

_BLIND_TOUR = 0.1
"""The same on a tour, which does not stay anywhere: enough for every action to come up everywhere."""

_AGAIN = 0.5
"""Of the episodes for the goal, those that do again what was paid best so far instead of what the model says: neither
is known to be the better one, and the model may not know yet what it was paid for."""

_LEAST_BLIND = 0.05
"""Share of uniform actions where something is done again, if it takes more than twenty steps; else one of its steps."""

_HALF = 1 / 200
"""Expected nats a step at which every second stretch is for information if the way to the goal tells nothing more. A
step tells half a nat over the uses of a number, so that this is where numbers were used a hundred times on average and
are known to about .05."""

_STRETCH = 50
"""Steps for one purpose where episodes do not end; an episode is a stretch as well."""

_BACKUPS = 1000
"""Of every plan. A number of them and no seconds: the same seed acts alike on every machine."""

_CLOSE = 1e-3
"""Gap of a plan, as a share of the largest reward, from which more backups are not worth their time."""

_SAVED_EVERY = 10.0
"""Seconds after which the steps taken are written down, also within a round."""

_REPORTED = 100
"""Steps between two reports of progress."""


@dataclass(frozen=True)
class AgentRound:
    """What the agent knew when it had learned once more.

    Attributes
    ----------
    steps : int
        Of the log that was learned from.
    states : int or None
        Of the model; None where nothing could be learned yet.
    gain : float or None
        Nats that a step as those of the log is expected to tell about the model's numbers.
    share : float
        Of the stretches that follow, those that are for information; at first, for it grows as the plan is tried.
    lower, upper : float or None
        What the plan for the goal gathers at least, and what none can exceed, if the model is true; None where the
        model does not know the goal.

    Examples
    --------
    >>> import unlatch
    >>> agent = unlatch.Agent(unlatch.domains.tiger(), seed=0, first=300, emission="departure")
    >>> agent.run(300)
    >>> agent.rounds[-1].steps, agent.rounds[-1].states
    (300, 2)
    """

    steps: int
    states: int | None
    gain: float | None
    share: float
    lower: float | None
    upper: float | None


class Agent:
    """Acts in a system that it knows nothing of, to learn it and to reach a goal in it.

    It begins at random. At ``first`` steps, and whenever there are half as many more, it learns a POMDP from all of its
    log and plans for the goal in it. An episode, or fifty steps where episodes do not end, is for the goal or for
    information. For information it makes a `Tour`: to the state that was left alone for longest, there the action that
    is expected to tell most about the model's numbers (`information_gain`), and on. That has the probability
    g / (g + p + 1/200): g is what a step as those of the log is expected to tell, in nats, and p what a step of the
    plan for the goal is. So a plan is tried while its way is little known, which is what shows that it is wrong; one
    that does the same over and over soon tells nothing more; and the goal comes to be pursued alone as the model gets
    certain. Where episodes end, every second one for the goal does again what was paid best so far, until chance has it
    do something else: the model may not know yet what that was paid for. Two actions of ten are drawn uniformly where
    the plan is followed, one of ten on a tour, about one in all where something is done again. Every action is logged
    with its probability.

    Parameters
    ----------
    env : str, gymnasium.Env, Problem or POMDP
        The name of an environment of Gymnasium or an environment, discrete as for `record`; or a system that is
        simulated.
    goal : Reward, optional
        On observations (`Reward.on_observations`); by default the rewards that the environment pays.
    discount : float
        What a reward a step later counts for, below 1.
    folder : path, optional
        Where the log, the model and the agent's state are kept (``log.npz``, ``model.json``, ``agent.json``). An agent
        that finds them there goes on from them. Steps are written every ten seconds and after every round, each file
        whole or not at all.
    seed : int, optional
        Of everything that is drawn, by the environment too. The same calls with the same seed take the same steps, also
        if the process ended between rounds.
    first : int
        Steps before the first model.
    growth : float
        Factor between the lengths of the log at which it learns again.
    episode_steps : int, optional
        Steps after which an episode is cut and the environment reset, if it goes on that long.
    observe, action_names
        As in `record`.
    learning
        Options of `learn_pomdp`, such as ``emission``, ``max_states`` or ``time_limit`` (with which results depend on
        the machine).

    Attributes
    ----------
    log : Trajectory or None
        All steps so far, with the probabilities of their actions.
    result : LearnResult or None
        The last that was learned.
    policy : Policy or None
        The plan for the goal, a planner as every other, without chance; None where the model does not know the goal.
    rounds : tuple of AgentRound

    Examples
    --------
    >>> import unlatch
    >>> agent = unlatch.Agent(unlatch.domains.tiger(), seed=0, first=300, emission="departure")
    >>> agent.run(400)
    >>> len(agent.log), agent.log.probabilities is not None
    (400, True)
    >>> agent.result.pomdp.n_states, len(agent.rounds)
    (2, 2)
    """

    def __init__(
        self,
        env: Any,
        *,
        goal: Reward | None = None,
        discount: float = 0.95,
        folder: str | Path | None = None,
        seed: int | None = None,
        first: int = 200,
        growth: float = 1.5,
        episode_steps: int | None = None,
        observe: Observe | None = None,
        action_names: Sequence[str] | None = None,
        **learning: Any,
    ) -> None:
        self._goal = _checked_goal(goal)
        self._discount = real_number("discount", discount, 0.0, 1.0)
        if self._discount == 1:
            raise UsageError("an agent plans for ever, which needs a discount below 1")
        self._first = whole_number("first", first, least=1)
        self._growth = real_number("growth", growth, 1.01, 100.0)
        self._cut = None if episode_steps is None else whole_number("episode_steps", episode_steps, least=1)
        self._learning = learning
        self.log: Trajectory | None = None
        self.result: LearnResult | None = None
        self.policy: Policy | None = None
        self.rounds: tuple[AgentRound, ...] = ()
        self._tour: Tour | None = None
        self._tracker: Policy | None = None
        self._uses: Floats | None = None
        self._paid: tuple[int, ...] = ()
        self._ended = False
        self._folder = None if folder is None else Path(folder)
        self.seed = _checked_seed(seed)
        self._world = _World(env, observe, action_names)
        if self._folder is not None:
            self._begin_folder(seed)

    def __repr__(self) -> str:
        states = "no model yet" if self.result is None else f"{self.result.states} states"
        return f"Agent({self._world.where}, {len(self)} steps, {states})"

    def __len__(self) -> int:
        """Steps taken so far."""
        return 0 if self.log is None else len(self.log)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the environment if it was made here."""
        self._world.close()

    @own_errstate
    def run(self, steps: int) -> None:
        """Take so many more steps, learning whenever the log has grown enough, and in the end from all of it.

        Ctrl-C ends it with an exception; the steps taken are in ``log``, and in the folder.
        """
        until = len(self) + whole_number("steps", steps, least=1)
        if self.log is not None and self.result is None:
            self._learn()  # what an earlier process left
        while len(self) < until:
            if len(self) >= self._due:
                self._learn()
            self._act(min(until, max(self._due, len(self) + 1)))
        self._learn()

    def run_until(self, reached: Callable[[Agent], bool], *, most: int) -> bool:
        """Go from one learning to the next until ``reached(agent)`` holds, or for ``most`` steps in all; whether it
        holds."""
        whole_number("most", most, least=1)
        while len(self) < most:
            self.run(min(most, self._due) - len(self))
            if reached(self):
                return True
        return False

    # --- acting ---------------------------------------------------------------------------------------------------

    @property
    def _due(self) -> int:
        """Steps at which to learn next."""
        return max(self._first, int(np.ceil(self._growth * self.rounds[-1].steps)) if self.rounds else 0)

    def _act(self, until: int) -> None:
        """One walk, from a reset on, until the log has so many steps."""
        recorder = Recorder(self._world.where)
        before = self.log
        try:
            with warnings.catch_warnings():
                # a model of few steps is often surprised
                warnings.simplefilter("ignore", BeliefCollapseWarning)
                self._walk(recorder, until, before)
        finally:
            if len(recorder):
                self._keep(before, recorder)

    def _walk(self, recorder: Recorder, until: int, before: Trajectory | None) -> None:
        known = 0 if before is None else len(before)
        rng = self._generator(known)
        saved = time.monotonic()
        tracker = self._tracker
        over, stretch, length, plan = True, 0, 0, None
        shown = ""
        while known + len(recorder) < until:
            if over:
                seed = int(rng.integers(2**31)) if len(recorder) == 0 else None
                shown = self._world.begin(seed)
                recorder.begin(shown)
                _begin(tracker, shown)
                over, length, stretch = False, 0, 0
            if stretch == 0:
                plan = self._purpose(rng, length == 0)
                stretch = _STRETCH if length or not self._ended else -1
            chances = self._chances(plan)
            code = int(rng.choice(len(chances), p=chances))
            name = self._world.names[code]
            self._note(name)
            plan = self._gone_on(plan, code)
            shown, reward, ended, cut = self._world.step(code)
            recorder.add(name, shown, reward, ended, float(chances[code]))
            self._ended |= ended
            length, stretch = length + 1, stretch - 1
            over = ended or cut or length == self._cut
            if not over:
                _tell(tracker, name, shown, reward)
            if len(recorder) % _REPORTED == 0:
                report("acting", known + len(recorder), until)
            if time.monotonic() - saved > _SAVED_EVERY:
                self._keep(before, recorder)
                saved = time.monotonic()

    def _purpose(self, rng: np.random.Generator, begins: bool) -> Policy | Tour | _Again | None:
        """What the next stretch is for, and whether an episode begins with it."""
        for_information = rng.random() < self._share(self.rounds[-1].gain if self.rounds else None)
        if for_information or self.policy is None:
            return self._tour
        again = begins and len(self._paid) > 0 and rng.random() < _AGAIN
        return _Again(self._paid) if again else self.policy

    def _gone_on(self, plan: Policy | Tour | _Again | None, code: int) -> Policy | Tour | _Again | None:
        """What is followed after an action: who does something again goes on with the plan once it is over, or another
        action was drawn."""
        if not isinstance(plan, _Again):
            return plan
        return plan.rest if code == plan.codes[0] and len(plan.codes) > 1 else self.policy

    def _chances(self, plan: Policy | Tour | _Again | None) -> Floats:
        """The probability of every action."""
        count = len(self._world.names)
        if plan is None or self._tracker is None:
            return np.full(count, 1 / count)
        belief = self._tracker.belief
        if self._tour is not None:
            self._tour.visit(belief)
        if isinstance(plan, _Again):
            blind, code = plan.blind, plan.codes[0]
        else:
            blind = _BLIND_TOUR if isinstance(plan, Tour) else _BLIND
            code = self._world.names.index(self._tracker.model.action_names[plan.action(belief)])
        chances = np.full(count, blind / count)
        chances[code] += 1 - blind
        return chances

    def _note(self, action: str) -> None:
        """The tour wants to know what was done, also where it did not lead."""
        if self._tour is not None and self._tracker is not None:
            names = self._tracker.model.action_names
            if action in names:
                self._tour.took(self._tracker.belief, names.index(action))

    def _generator(self, steps: int) -> np.random.Generator:
        """What is drawn from here on depends on the seed and on how many steps were taken, so that an agent that goes
        on from files acts as the one that wrote them would have."""
        return np.random.default_rng([self.seed, steps])

    # --- learning and planning ------------------------------------------------------------------------------------

    def _learn(self) -> None:
        assert self.log is not None
        if self.rounds and self.rounds[-1].steps == len(self) and self.result is not None:
            return
        again = bool(self.rounds) and self.rounds[-1].steps == len(self)  # after a restart
        try:
            result = learn_pomdp(self.log, rng=self.seed, **self._learning)
            _end_if("interrupted" in result.diagnostics)
            self.result = result
        except (NotLearnableError, NumericalError):  # too little was seen, or always the same
            self.result = None
        found = self._planned()
        self.rounds = (*self.rounds[: len(self.rounds) - again], found)
        self._save()

    def _planned(self) -> AgentRound:
        self.policy = self._tour = self._tracker = self._uses = None
        self._paid = ()
        if self.result is None:
            return AgentRound(len(self), None, None, 1.0, None, None)
        assert self.log is not None
        model = self.result.pomdp
        counts = expectation(model, self.log)
        gains = information_gain(model, counts)
        visits = counts.transitions.sum(axis=2)
        gain = float((gains * visits).sum() / max(visits.sum(), 1.0))
        self._tour = Tour(model, gains, visits)
        problem = self._problem(model)
        if problem is None:
            self._tracker = _follower(model)
            return AgentRound(len(self), model.n_states, gain, 1.0, None, None)
        self.policy = self._tracker = _plan(problem)
        self._uses = expected_uses(model, _actions(self.policy), _STRETCH)
        self._paid = self._best_episode() if self._ended else ()
        share = self._share(gain)
        return AgentRound(len(self), model.n_states, gain, share, self.policy.lower, self.policy.upper)

    def _share(self, gain: float | None) -> float:
        """Of the stretches from now on, those that are for information, if a step as those of the log tells ``gain``.
        What the plan for the goal tells on its way counts for it, and less the more often it went there."""
        if gain is None or self._tour is None or self._uses is None:
            return 1.0
        return gain / (gain + _HALF + float((self._tour.told * self._uses).sum()))

    def _best_episode(self) -> tuple[int, ...]:
        """The actions of the episode that gathered most, up to the last that was paid; none if nothing was gathered."""
        assert self.log is not None
        paid = _paid(self.log, self._goal)
        most, best = 0.0, slice(0)
        for start, end in zip(self.log.episode_starts, self.log.episode_ends, strict=True):
            gathered = float(paid[start:end] @ self._discount ** np.arange(end - start))
            if gathered > most:
                most, best = gathered, slice(start, start + 1 + int(np.flatnonzero(paid[start:end])[-1]))
        return tuple(self._world.names.index(self.log.action_names[code]) for code in self.log.actions[best])

    def _problem(self, model: POMDP) -> Problem | None:
        """What is pursued in the model, if it knows anything of it."""
        try:
            goal = Reward.learned(model) if self._goal is None else self._goal
            problem = Problem(model, goal, discount=self._discount)
        except UsageError:  # the goal names what has not been seen yet
            return None
        rewards = problem.rewards[:, model.going_on > 0]
        return None if np.ptp(rewards) == 0 else problem

    # --- files ----------------------------------------------------------------------------------------------------

    def _keep(self, before: Trajectory | None, recorder: Recorder) -> None:
        new = joined([recorder])
        self.log = new if before is None else joined_logs(before, new)
        if self._folder is not None:
            write_log(self._folder / "log.npz", self.log)

    def _save(self) -> None:
        if self._folder is None:
            return
        if self.result is not None:
            save_model(self._folder / "model.json", self.result)
        state = {"seed": self.seed, "rounds": [asdict(found) for found in self.rounds]}
        write_atomically(self._folder / "agent.json", (strict_json.pretty(state) + "\n").encode())

    def _begin_folder(self, seed: int | None) -> None:
        """Go on from what is in the folder, or make it."""
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        state = self._folder / "agent.json"
        if state.exists():
            kept = strict_json.parse(read_regular_file(state), str(state))
            self.seed, self.rounds = _checked_state(kept, seed, state)
        elif (self._folder / "log.npz").exists() or (self._folder / "model.json").exists():
            raise UsageError(
                f"{self._folder}: has a log or a model but no agent.json; give a folder of its own"
            )
        else:
            self._save()
        if (self._folder / "log.npz").exists():
            self.log = read_log(self._folder / "log.npz")
            self._ended = self.log.terminated is not None and bool(self.log.terminated.any())


class _Again(NamedTuple):
    """What was done once and paid: actions, of which the first is next."""

    codes: tuple[int, ...]
    done: int = 0

    @property
    def blind(self) -> float:
        """Share of the actions that are drawn uniformly: about one on the whole way."""
        return max(1 / (self.done + len(self.codes)), _LEAST_BLIND)

    @property
    def rest(self) -> _Again:
        return _Again(self.codes[1:], self.done + 1)


def _paid(log: Trajectory, goal: Reward | None) -> Floats:
    """What every step was paid, by the environment or for the goal."""
    if goal is None:
        return np.zeros(len(log)) if log.rewards is None else log.rewards
    table = np.zeros((len(log.action_names), len(log.observation_names)))
    for key, value in goal.entries:
        action, shown = key if isinstance(key, tuple) else (None, key)
        rows = [action is None or action in (code, name) for code, name in enumerate(log.action_names)]
        columns = [shown in (code, name) for code, name in enumerate(log.observation_names)]
        table[np.ix_(rows, columns)] = value
    paid: Floats = table[log.actions, log.observations]
    return paid


def _checked_goal(goal: Reward | None) -> Reward | None:
    if goal is not None and not isinstance(goal, Reward):
        raise UsageError(f"goal must be a Reward, got {type(goal).__name__}")
    if goal is not None and goal.kind != "observations":
        raise UsageError(
            f"an agent's goal must be on observations (Reward.on_observations), got one on {goal.kind}: the states of "
            "its model change whenever it learns"
        )
    return goal


def _checked_seed(seed: RandomSource) -> int:
    _, used = resolve_rng(seed)
    if used is None:
        raise UsageError("seed must be a whole number: an agent that goes on from files needs to know it")
    return used


def _checked_state(kept: Any, seed: int | None, path: Path) -> tuple[int, tuple[AgentRound, ...]]:
    """The seed and the rounds of a file."""
    try:
        own = kept["seed"]
        rounds = tuple(AgentRound(**found) for found in kept["rounds"])
        sound = isinstance(own, int) and own >= 0 and all(isinstance(found.steps, int) for found in rounds)
    except (TypeError, KeyError):
        sound = False
    if not sound:
        raise DataError(f"{path}: is no state of an agent; expected its seed and its rounds")
    if seed not in (None, own):
        raise UsageError(f"{path}: this agent has the seed {own}, not {seed}; give none, or another folder")
    return own, rounds


# --- plans ------------------------------------------------------------------------------------------------------------


@own_errstate
def information_gain(model: POMDP, counts: ExpectedCounts) -> Floats:
    """Nats that one more step is expected to tell about the model's numbers, for every action and state left.

    A row of k outcomes that was seen n times tells (k - 1) / (2 (n + 1)) nats when it is seen once more: evidence
    for its k - 1 free numbers grows by half the logarithm of n each. Outcomes that the log did not use are not
    counted, but at least two are.

    Parameters
    ----------
    model : POMDP
    counts : ExpectedCounts
        Of the model's log.

    Returns
    -------
    array, shape (actions, states)
    """
    told = _row_gain(counts.observations)
    if model.emission == "arrival":
        told = np.einsum("ast,at->as", model.transitions, told)
    gains = _row_gain(counts.transitions) + told
    gains[:, list(model.terminal)] = 0.0
    return frozen(gains)


def _row_gain(uses: Floats) -> Floats:
    outcomes = np.maximum((uses > 0.5).sum(axis=-1), 2)
    gains: Floats = (outcomes - 1) / (2 * (uses.sum(axis=-1) + 1))
    return gains


def _plan(problem: Problem) -> Policy:
    solver = PointBasedSolver(problem)
    _end_if(solver.run(gap=_CLOSE * problem.resolved.scale, max_backups=_BACKUPS) == "interrupt")
    return solver.policy()


def _actions(policy: Policy) -> list[int]:
    """What the policy does in every state, if it is sure of it."""
    return [policy.action(belief) for belief in np.eye(policy.model.n_states)]


def _end_if(interrupted: bool) -> None:
    """Who learns or plans answers Ctrl-C with the best so far. An agent that went on with that would not have been
    stopped, and would act otherwise than one that goes on from its files."""
    if interrupted:
        raise KeyboardInterrupt


def _follower(model: POMDP) -> Policy:
    """What follows the belief where there is no goal to plan for."""
    nothing = Reward.on_transitions(np.zeros((model.n_actions, model.n_states)))
    return PointBasedSolver(Problem(model, nothing)).policy()


def _begin(tracker: Policy | None, shown: str) -> None:
    if tracker is None:
        return
    known = shown in tracker.model.first_observation_names
    tracker.reset(shown if known else None)


def _tell(tracker: Policy | None, action: str, shown: str, reward: float) -> None:
    """An action that the model does not know leaves the belief as it is: there is nothing to say about it."""
    if tracker is not None and action in tracker.model.action_names:
        tracker.observe(action, shown, reward)


# --- the system that is acted in --------------------------------------------------------------------------------------


class _World:
    """An environment with symbols for what it shows and names for its actions."""

    def __init__(self, env: Any, observe: Observe | None, action_names: Sequence[str] | None) -> None:
        if isinstance(env, POMDP):
            pays = env.symbol_rewards is not None or env.reward_values is not None
            nothing = Reward.on_transitions(np.zeros((env.n_actions, env.n_states)))
            env = Problem(env) if pays else Problem(env, nothing)
        if isinstance(env, Problem):
            observe, action_names = observe or _namer(env), action_names or env.model.action_names
            env = to_gymnasium(env)
        self._made = isinstance(env, str)
        self._env, self.where = opened(env)
        if hasattr(self._env, "num_envs"):
            raise UsageError(f"{self.where}: an agent acts in one environment, not in several side by side")
        space = self._env.action_space
        sizes = actions_of(space, self.where)
        if len(sizes) != 1 or not hasattr(space, "start"):
            raise UsageError(
                f"{self.where}: an action has {len(sizes)} parts; wrap the environment so that it takes one number"
            )
        self._start = int(space.start)
        numbers = [str(self._start + code) for code in range(sizes[0])]
        self.names = checked_names("action_names", action_names or numbers, sizes[0])
        self._observe = checked_observe(self._env.observation_space, observe, self.where)

    def begin(self, seed: int | None) -> str:
        """A new episode: what it shows first."""
        shown, _ = self._env.reset(seed=seed)
        return symbol(self._observe(shown), self.where)

    def step(self, code: int) -> tuple[str, float, bool, bool]:
        """What an action shows and pays, whether it ended the episode, whether that was cut."""
        shown, reward, ended, cut, _ = self._env.step(np.int64(self._start + code))
        return symbol(self._observe(shown), self.where), float(reward), bool(ended), bool(cut)

    def close(self) -> None:
        if self._made:
            self._env.close()


def _namer(problem: Problem) -> Observe:
    """From the numbers that `to_gymnasium` shows to names, without the rewards that some symbols have in them."""
    from unlatch.bridges.environment import World

    model = problem.model
    assert isinstance(model, POMDP)
    plain = plain_observations(model.observation_names, model.symbol_rewards)
    names = (*plain, *World(problem).names[len(plain) :])
    return lambda code: names[int(code)]
