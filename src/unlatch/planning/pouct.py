"""PO-UCT (Silver and Veness 2010): Monte Carlo tree search over histories, from an exact belief."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unlatch.arrays import Flags, Floats, Ints, own_errstate
from unlatch.core.arguments import real_number, whole_number
from unlatch.core.checks import frozen
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP
from unlatch.core.progress import report
from unlatch.core.psr import PSR
from unlatch.core.random import RandomSource, resolve_rng
from unlatch.core.reward import Model, Reward, Symbol
from unlatch.errors import DataError, UsageError
from unlatch.planning.belief import BeliefTracker, OnCollapse
from unlatch.planning.leaves import automatic_depth, leaf_vectors, warn_if_short_sighted
from unlatch.planning.problem import PlanningProblem, Untried, planning_problem

if TYPE_CHECKING:
    from unlatch.kernels.treesearch import Problem, Settings, Tree, World
    from unlatch.planning.policy import Policy

__all__ = ["POUCT", "SearchResult"]

Bonus = Literal["polynomial", "ucb1"]
Sampling = Literal["state", "belief"]
Leaf = Literal["rollout", "mdp", "solver"]

_PATIENCE = 8
"""Without a discount and with valued leaves, how many windows ahead a reward still counts for most of itself."""

_VALUED = 0.4
"""Exploration where leaves are valued, as a share of that with random actions. A value in place of random actions
spreads less, how much less depends on the system. Of shares from a two-hundredth to four fifths this one loses least
over Tiger, mazes, a lockbox, FrozenLake and classic files (``benchmarks/solving.py --only exploration``)."""

_NEGLIGIBLE = 1e-6
"""Weight of a reward below which the steps that earn it are not simulated."""

_WIDTHS = {"polynomial": 0.35, "ucb1": 0.7}
"""Automatic exploration, in units of the spread of returns."""

_MOST_VISITS = 2**31 - 1
"""What the 32 bits of a tree's numbers hold."""

_STEPS_PER_CALL = 1 << 20
"""Simulated steps per kernel call: a tenth of a second or two, so that Ctrl-C is answered soon."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What one search found at its root.

    ``values`` (actions,) holds the mean return of every action as the search weighs it (an action never tried: its
    expected immediate reward; an illegal one: minus infinity), ``visits`` (actions,) how often each was tried, kept
    simulations included. ``depth`` is the most steps that a simulation took inside the tree.

    Examples
    --------
    >>> import unlatch
    >>> found = unlatch.POUCT(unlatch.domains.tiger(), rng=0).search()
    >>> found.action, int(found.visits.sum()), found.values.round(0)
    (0, 1000, array([  -5.,  -83., -119.]))
    """

    action: int
    values: Floats
    visits: Ints
    simulations: int
    nodes: int
    depth: int
    full: bool


class POUCT:
    """A planner that searches from the current belief before every action.

    Parameters
    ----------
    model : POMDP, PartitionModel or PSR
    reward : Reward, optional
        By default the reward that the model learned.
    simulations : int
        Simulations per search.
    depth : int or "auto"
        Steps that a simulation looks ahead. With a discount it is cut where rewards weigh less than 1e-6. "auto" takes
        twice the steps to the best-paying state, and values leaves by ``leaf="solver"``.
    leaf : "rollout", "mdp", "solver" or Policy, optional
        What a simulation ends with beyond the tree: actions at random for the rest of the window (the default with a
        number as depth), what the state would be worth if it were seen, what a quick point-based plan is worth at the
        exact belief, or the same of a `Policy` from `solve`. All but the first need a POMDP.
    exploration : "auto" or float
        The constant of the bonus, in units of the reward. "auto" takes it from the spread of returns, and
        with it the defaults of ``patience`` and ``reuse`` that go with a moving window. A number is the
        paper's planner, plain sums and a new tree at every step; its constant is 2.
    bonus : "polynomial" or "ucb1"
        ``c N^(1/4) / n^(1/2)`` or ``c (log N / n)^(1/2)``, for ``n`` of ``N`` visits.
    sampling : "state" or "belief", optional
        Whether a simulation draws a hidden state (or cell) first and the observation from it, or the
        observation from the mixture under the whole belief. Estimates that are no distributions are
        projected before they are drawn from. By default "state", for a PSR "belief".
    discount : float
        Factor per step, from 0 to 1.
    patience : float, optional
        What a reward one step later in the window counts for while searching, from 0 to 1. By default
        ``1 - 1 / (2 depth)`` with automatic exploration, else 1: a window that moves along with the
        agent must prefer the sooner of two equals, or it puts off its reward for ever.
    reuse : bool, optional
        Whether the subtree of what really happened is kept. By default with automatic exploration.
    actions : collection of names or indices, optional
        The legal actions; all by default.
    untried : "exclude" or "allow"
        Whether actions that the model's log never tried are left out; see `POMDP.untried_actions`.
    max_nodes : int
        Nodes that the tree may have; beyond it simulations go on without growing it.
    time_limit : float, optional
        Seconds after which a search stops, whatever its number of simulations.
    on_collapse : "mix", "reset" or "raise"
        What follows an observation that is impossible under the belief: the belief of an agent that knew
        nothing before that step, a start from the initial belief, or `BeliefCollapseError`. Counted
        in ``collapses``; the first time a `BeliefCollapseWarning` says so.
    rng : int or numpy.random.Generator, optional
        Seeds the planner's own stream of random numbers.

    Attributes
    ----------
    tables : Problem
        The model and its reward as the arrays that the kernel computes with.
    settings : Settings
        How the search explores, in the kernel's units: depth as it was cut, rewards of at most one.

    Examples
    --------
    >>> import unlatch
    >>> tiger = unlatch.domains.tiger()
    >>> planner = unlatch.POUCT(tiger, rng=0)
    >>> tiger.action_names[planner.action()]
    'listen'
    >>> planner.observe("listen", "hear-left", reward=-1)
    >>> planner.belief.round(2)
    array([0.85, 0.15])
    """

    @own_errstate
    def __init__(
        self,
        model: Model,
        reward: Reward | None = None,
        *,
        simulations: int = 1000,
        depth: int | Literal["auto"] = 3,
        leaf: Leaf | Policy | None = None,
        exploration: float | Literal["auto"] = "auto",
        bonus: Bonus = "polynomial",
        sampling: Sampling | None = None,
        discount: float = 1.0,
        patience: float | None = None,
        reuse: bool | None = None,
        actions: Iterable[Symbol] | None = None,
        untried: Untried = "exclude",
        max_nodes: int = 1_000_000,
        time_limit: float | None = None,
        on_collapse: OnCollapse = "mix",
        rng: RandomSource = None,
    ) -> None:
        self._problem = planning_problem(model, reward, actions, untried)
        self.model = model
        self.reward = self._problem.reward
        self.simulations = whole_number("simulations", simulations, least=0, most=_MOST_VISITS)
        self.on_collapse = on_collapse
        self.time_limit = None if time_limit is None else real_number("time_limit", time_limit, 0.0, math.inf)
        self._tracker = BeliefTracker(self._problem, on_collapse)
        generator, self.seed = resolve_rng(rng)
        self._random = generator.integers(1, 2**64, size=2, dtype=np.uint64)
        automatic = exploration == "auto"
        self._reuse = automatic if reuse is None else bool(reuse)
        self.tables = _tables(self._problem, _checked_sampling(sampling, model))
        most = whole_number("max_nodes", max_nodes, least=1, most=_MOST_VISITS)
        stretch = _steps_per_call(self.tables)
        beyond = _checked_leaf(leaf, depth == "auto", model)
        if depth == "auto":
            depth = automatic_depth(self._problem)
        if beyond != "rollout" and patience is None:
            patience = 1.0 if discount < 1 else 1 - 1 / (_PATIENCE * whole_number("depth", depth, least=1))
        self.settings = _settings(self._problem, depth, exploration, bonus, discount, patience, most, stretch)
        leaves = leaf_vectors(self._problem, beyond, self.settings.discount)
        if len(leaves) and automatic:
            self.settings = self.settings._replace(exploration=_VALUED * self.settings.exploration)
        self.tables = self.tables._replace(leaves=leaves)
        if not len(leaves):
            warn_if_short_sighted(self._problem, self.settings.depth)
        self._batch = max(1, stretch // self.settings.depth)
        self._tree = self._new_tree()
        if self.time_limit is not None:
            self._compile()

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions that the planner chooses from."""
        return self._problem.actions

    @property
    def belief(self) -> Floats:
        """The exact belief after the steps observed so far."""
        return self._tracker.belief

    @property
    def collapses(self) -> int:
        """How many observations were impossible under the belief."""
        return self._tracker.collapses

    def reset(self, observation: Symbol | None = None) -> None:
        """Begin a new episode: the initial belief, an empty tree. The random stream runs on.

        ``observation`` is what was shown before the first action, by name or index (of the model's
        ``first_observation_names``). A model that emits on arrival, whatever the action, needs no first observations of
        its own to make use of it.
        """
        self._tree = self._new_tree()
        self._tracker.reset(observation)

    def action(self, belief: ArrayLike | None = None) -> int:
        """The index of the action to take: at ``belief``, or at the planner's own."""
        return self.search(belief).action

    @own_errstate
    def search(self, belief: ArrayLike | None = None) -> SearchResult:
        """Simulate from the planner's own belief, growing the tree that it keeps; or from ``belief``, in a
        tree of its own."""
        from unlatch.kernels.treesearch import decide
        from unlatch.planning.tree import roomy_tree

        tree = self._tree if belief is None else self._new_tree()
        root = self._tracker.belief.copy() if belief is None else self._problem.checked_belief(belief)
        room = int(tree.size[0]) + self.simulations + 1
        tree = roomy_tree(tree, min(self.settings.max_nodes, room))
        if belief is None:
            self._tree = tree
        done = self._simulate(tree, root)
        values = np.empty(self.model.n_actions)
        action = decide(tree, self._problem.legal, self._problem.expected, root, values, self._random)
        legal = np.isfinite(values)
        values[legal] = self._problem.unscaled(values[legal])
        return SearchResult(
            action=int(action),
            values=frozen(values),
            visits=frozen(tree.visits[0].astype(np.int64)),
            simulations=done,
            nodes=int(tree.size[0]),
            depth=int(tree.deepest[0]),
            full=int(tree.size[0]) >= self.settings.max_nodes,
        )

    def observe(self, action: Symbol, observation: Symbol, reward: float | None = None) -> None:
        """Tell what was done and seen, by name or index: updates the belief exactly and, with ``reuse``,
        keeps the part of the tree below it.

        Where a model's symbols are pairs such as ``hear-left|-1``, the observation may be told apart from its reward,
        ``observe("listen", "hear-left", -1)``, or without it. A model that knows no rewards takes no notice of it.
        """
        from unlatch.kernels.treesearch import keep_subtree, new_root

        event = self._tracker.observe(action, observation, reward)
        if event >= 0 and self._reuse:
            keep_subtree(self._tree, self.settings, self._problem.action_code(action), event)
        else:
            new_root(self._tree)

    def state(self) -> dict[str, Any]:
        """Everything that changes while planning, as plain numbers and lists that JSON can hold."""
        from unlatch.planning.tree import tree_state

        return {
            **self._tracker.state(),
            "random": self._random.tolist(),
            "tree": tree_state(self._tree),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Return to what `state` recorded, on a planner made with the same model and options: it then acts
        as the recorded one would have."""
        from unlatch.planning.tree import tree_from_state

        if not isinstance(state, dict):
            raise DataError(f"a planner's state is a mapping, got {type(state).__name__}")
        random = _checked_words(state.get("random"))
        tree = tree_from_state(
            state.get("tree") or {}, self.model.n_actions, len(self._problem.events), self.settings.max_nodes
        )
        self._tracker.restore(state)
        self._random, self._tree = random, tree

    def calls_per_episode(self, steps: int) -> float:
        """Kernel calls of the usual length that an episode of ``steps`` steps would fill."""
        return steps * max(self.simulations, 1) * self.settings.depth / self.settings.stretch

    def beginnings(self, observations: Sequence[str]) -> tuple[Floats, Flags]:
        """The beliefs after such first observations, and whether each was possible, as `play` takes them; the initial
        belief where the model knows nothing of them."""
        if self._problem.beginning is None:
            beliefs = np.tile(self._problem.initial, (len(observations), 1))
            return beliefs, np.ones(len(observations), dtype=bool)
        found = [self._tracker.beginning(observation) for observation in observations]
        beliefs = np.array([belief for belief, _ in found]).reshape(len(found), self._problem.rank)
        return beliefs, np.array([possible for _, possible in found], dtype=bool)

    def event_codes(self, observation: str, reward: float | None) -> tuple[Ints, Ints]:
        """The codes of the events that agree with what was seen: those after which the episode goes on, and those that
        end it."""
        return self._problem.event_codes(observation, reward)

    def play(self, world: World, uniforms: Floats) -> tuple[Floats, Ints, Ints, Ints, Flags]:
        """Act out one episode per row of ``uniforms`` inside a kernel: sums of rewards, steps in every true
        state, collapses, lengths, and whether each ended. The same as `run_episodes` does by calls, without the calls;
        a planner that would raise on a collapse is reset instead.
        """
        from unlatch.kernels.treesearch import RAISE, RESET, play
        from unlatch.planning.tree import roomy_tree

        episodes, steps = len(uniforms), uniforms.shape[1] // 2
        room = steps * self.simulations + 1
        self._tree = roomy_tree(self._tree, min(self.settings.max_nodes, room))
        totals = np.zeros(episodes)
        occupancy = np.zeros((episodes, len(world.starting)), dtype=np.int64)
        collapses, lengths = np.zeros((2, episodes), dtype=np.int64)
        ended = np.zeros(episodes, dtype=bool)
        play(
            world,
            uniforms,
            self.tables,
            self.settings,
            self.simulations,
            self._tree,
            self._reuse,
            self._problem.initial,
            self._problem.mixing,
            RESET if self._tracker.policy == RAISE else self._tracker.policy,
            self._random,
            totals,
            occupancy,
            collapses,
            lengths,
            ended,
        )
        self._tracker.collapses += int(collapses.sum())
        self.reset()
        return totals, occupancy, collapses, lengths, ended

    def _new_tree(self) -> Tree:
        from unlatch.planning.tree import empty_tree

        nodes = min(self.settings.max_nodes, self.simulations + 2)  # the root, and what `search` asks for
        return empty_tree(self.model.n_actions, nodes)

    def _simulate(self, tree: Tree, belief: Floats) -> int:
        """Grow ``tree`` in batches until the simulations or the time are spent; returns simulations done."""
        from unlatch.kernels.treesearch import search

        run = search if self.settings.depth <= self.settings.stretch else getattr(search, "py_func", search)
        begun = time.perf_counter()
        done = 0
        batch = self._batch if self.time_limit is None else 1
        while done < self.simulations:
            if self.time_limit is not None:
                elapsed = time.perf_counter() - begun
                if elapsed >= self.time_limit:
                    break
                batch = _timed_batch(done, elapsed, self.time_limit)
            batch = min(batch, self._batch, self.simulations - done)
            run(self.tables, self.settings, tree, belief, batch, self._random)
            done += batch
            if done < self.simulations:
                report("searching", done, self.simulations)
        return done

    def _compile(self) -> None:
        """Run the kernel once beforehand, so that compiling does not count against the time limit."""
        from unlatch.kernels.treesearch import search

        search(self.tables, self.settings, self._new_tree(), self._tracker.belief.copy(), 0, self._random)


def _timed_batch(done: int, elapsed: float, limit: float) -> int:
    """As many simulations as fit 5 ms or half the time left, at the speed so far; at first one."""
    if done == 0 or elapsed <= 0:
        return 1
    return max(1, int(done / elapsed * min(0.005, (limit - elapsed) / 2)))


def _settings(
    problem: PlanningProblem,
    depth: int,
    exploration: float | str,
    bonus: str,
    discount: float,
    patience: float | None,
    max_nodes: int,
    stretch: int,
) -> Settings:
    from unlatch.kernels.treesearch import Settings

    if bonus not in get_args(Bonus):
        raise UsageError(f"bonus must be 'polynomial' or 'ucb1', got {bonus!r}")
    discount = real_number("discount", discount, 0.0, 1.0)
    window = _window(whole_number("depth", depth, least=1), discount)
    automatic = exploration == "auto"
    if patience is None:
        patience = 1 - 1 / (2 * window) if automatic else 1.0
    factor = discount * real_number("patience", patience, 0.0, 1.0)
    window = _window(window, factor)
    if automatic:
        width = _WIDTHS[bonus] * problem.span * _spread(window, factor)
    else:
        width = min(real_number("exploration", exploration, 0.0, math.inf) / problem.scale, 1e150)
    return Settings(
        depth=window,
        exploration=width,
        logarithmic=bonus == "ucb1",
        discount=factor,
        max_nodes=max_nodes,
        stretch=stretch,
    )


def _window(depth: int, factor: float) -> int:
    """``depth``, or fewer steps if the rest would weigh next to nothing."""
    if factor == 1:
        return depth
    if factor == 0:
        return 1
    return min(depth, math.ceil(math.log(_NEGLIGIBLE) / math.log(factor)))


def _spread(depth: int, factor: float) -> float:
    """How far returns spread if every step's reward spreads by one and steps are independent: the root of
    the sum of squared weights."""
    if factor == 1:
        return math.sqrt(depth)
    return math.sqrt((1 - factor ** (2 * depth)) / (1 - factor**2))


def _tables(problem: PlanningProblem, sampling: int) -> Problem:
    from unlatch.kernels.treesearch import Problem

    require_memory(8 * problem.updates.size, "the tables of the search", "plan with a smaller model")
    return Problem(
        updates=problem.updates,
        final=problem.final,
        shows=problem.shows,
        shown=frozen(np.cumsum(problem.shows, axis=2)),
        following=frozen(np.cumsum(problem.updates, axis=3)),
        moves=frozen(np.cumsum(problem.updates.sum(axis=1), axis=2)),
        labels=problem.labels,
        symbol_rewards=problem.symbol_rewards,
        cell_rewards=problem.cell_rewards,
        cells_pay=bool(problem.cell_rewards.any()),
        expected=problem.expected,
        legal=problem.legal,
        sampling=sampling,
        leaves=np.zeros((0, problem.rank)),
    )


def _checked_leaf(leaf: Any, far: bool, model: Model) -> Any:
    """How leaves are valued: as the caller says, else by the depth."""
    if leaf is None:
        return "solver" if far and isinstance(model, POMDP) else "rollout"
    if isinstance(leaf, str):
        if leaf not in get_args(Leaf):
            raise UsageError(f"leaf must be 'rollout', 'mdp', 'solver' or a Policy, got {leaf!r}")
        if leaf != "rollout" and not isinstance(model, POMDP):
            raise UsageError(
                f"leaf={leaf!r} values states, which a {type(model).__name__} does not tell apart; use leaf='rollout'"
            )
    return leaf


def _checked_sampling(sampling: str | None, model: Model) -> int:
    from unlatch.kernels.treesearch import BY_BELIEF, BY_CELL, BY_STATE

    if sampling is not None and sampling not in get_args(Sampling):
        raise UsageError(f"sampling must be 'state' or 'belief', got {sampling!r}")
    if sampling == "state" and isinstance(model, PSR):
        raise UsageError(
            "a PSR has no states to draw: its coordinates are predictions; use sampling='belief' (the default)"
        )
    if sampling == "belief" or isinstance(model, PSR):
        return BY_BELIEF
    return BY_STATE if isinstance(model, POMDP) else BY_CELL


def _steps_per_call(tables: Problem) -> int:
    """Simulated steps per kernel call, fewer where a step takes long."""
    from unlatch.kernels.treesearch import BY_STATE

    _, rank, symbols = tables.shows.shape
    cost = (rank + symbols) // 32 if tables.sampling == BY_STATE else rank * (rank + symbols) // 16
    return max(1, _STEPS_PER_CALL // (1 + int(cost)))


def _checked_words(words: object) -> NDArray[np.uint64]:
    """The two words of the random stream that a planner's state recorded."""
    whole = isinstance(words, list) and len(words) == 2 and all(type(word) is int for word in words)
    if not whole or not all(0 <= word < 2**64 for word in words) or not any(words):  # type: ignore[attr-defined, arg-type]
        raise DataError("a planner's state needs the two words of its random stream")
    return np.array(words, dtype=np.uint64)
