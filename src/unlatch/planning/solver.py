"""A plan with a proven gap: bounds on the value from both sides, tightened where good plans lead.

The method is that of point-based solvers (SARSOP, HSVI): the fast informed bound and the sawtooth from above, blind
plans and backed-up vectors from below, along paths that follow the best action as seen from above to where the bounds
are farthest apart. See `unlatch.kernels.pointbased`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unlatch.arrays import Floats, Ints, own_errstate
from unlatch.core.arguments import real_number, whole_number
from unlatch.core.budget import Budget, ending
from unlatch.core.checks import frozen
from unlatch.core.memory import require_memory
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.progress import report
from unlatch.core.reward import Reward, Symbol
from unlatch.errors import ResourceLimitError, UsageError
from unlatch.planning.belief import OnCollapse
from unlatch.planning.policy import Policy, UpperBound
from unlatch.planning.problem import Untried
from unlatch.planning.steps import StateProblem, state_problem

if TYPE_CHECKING:
    from unlatch.kernels.pointbased import Bounds, Model, Scratch

__all__ = ["PointBasedSolver", "solve"]

_SHARE = 0.5
"""Share of the gap at the root at which a path turns: less is left to later paths, which know better where to go."""

_LEAST = 1e-3
"""Improvement of a bound that is worth remembering, as a share of the gap at which a path turns."""

_USUAL = 0.05
"""One minus the discount down to which that share is fitting."""

_SECONDS_PER_CALL = 0.05
"""Aim for the duration of a kernel call, so that limits are kept and Ctrl-C is answered soon."""

_FIRST_EFFORT = 200_000
"""Products of numbers in the first kernel call, a fraction of a millisecond to a few."""

_LONGEST_PATH = 4096

_SWEEPS = 50_000
"""Most sweeps of the bounds to begin with. They are bounds from the first sweep on."""

_SWEPT = 2_000_000_000
"""Most rows' entries that all of these sweeps may look at."""

_SETTLED = 1e-9
"""Change by a sweep, in units of the largest reward, from which more of them are not worth their time."""

_ROUNDING = 1e-13
"""Error of one computed value, as a share of the largest possible one; it adds up over the steps that count."""


@own_errstate
def solve(
    problem: Problem,
    *,
    gap: float = 1e-3,
    time_limit: float | None = None,
    horizon: int | None = None,
    actions: Iterable[Symbol] | None = None,
    untried: Untried = "exclude",
    on_collapse: OnCollapse = "mix",
) -> Policy:
    """A policy for ``problem`` whose value is proven to be within ``gap`` of the best.

    What is returned holds true whenever the work ends: at the gap, at the time limit, by Ctrl-C, or where memory does
    not suffice; ``policy.stopped`` says which. There is no chance in it: the same problem gets the same bounds after
    the same work.

    Parameters
    ----------
    problem : Problem
        With a POMDP. Its discount must be below 1 unless there is a horizon.
    gap : float
        Largest distance of the bounds at the start of an episode, in units of the reward.
    time_limit : float, optional
        Seconds, beside those that compiling takes.
    horizon : int, optional
        Steps to plan for; endless by default.
    actions : collection of names or indices, optional
        The legal actions; all by default.
    untried : "exclude" or "allow"
        Whether actions that the model's log never tried are left out; see `POMDP.untried_actions`.
    on_collapse : "mix", "reset" or "raise"
        What the policy does after an observation that is impossible under its belief; see `POUCT`.

    Examples
    --------
    >>> from unlatch import Problem, domains, solve
    >>> policy = solve(Problem(domains.tiger(), discount=0.95))
    >>> policy.gap <= 1e-3, round(policy.lower, 2)
    (True, 19.37)
    >>> names = domains.tiger().action_names
    >>> [names[policy.action(belief)] for belief in ([0.5, 0.5], [0.99, 0.01])]
    ['listen', 'open-right']
    """
    solver = PointBasedSolver(
        problem, horizon=horizon, actions=actions, untried=untried, on_collapse=on_collapse
    )
    solver.run(gap=gap, time_limit=time_limit)
    return solver.policy()


class PointBasedSolver:
    """Bounds on the value of a problem that get tighter the longer one runs it.

    Parameters
    ----------
    problem, horizon, actions, untried, on_collapse
        As in `solve`.

    Examples
    --------
    >>> from unlatch import PointBasedSolver, Problem, domains
    >>> solver = PointBasedSolver(Problem(domains.tiger(), discount=0.95))
    >>> solver.run(gap=1.0)
    'gap'
    >>> solver.lower <= 19.37 <= solver.upper
    True
    """

    @own_errstate
    def __init__(
        self,
        problem: Problem,
        *,
        horizon: int | None = None,
        actions: Iterable[Symbol] | None = None,
        untried: Untried = "exclude",
        on_collapse: OnCollapse = "mix",
    ) -> None:
        if not isinstance(problem, Problem):
            raise UsageError(
                f"expected a Problem, got {type(problem).__name__}; make one: Problem(model, reward)"
            )
        self.horizon = None if horizon is None else whole_number("horizon", horizon, least=1)
        if horizon is None and problem.discount == 1:
            raise UsageError(
                "with a discount of 1 the sum of rewards may have no bound; give a horizon, or a discount below 1"
            )
        self.problem = problem
        self.stopped = "not begun"
        self._on_collapse = on_collapse
        self.steps = state_problem(problem, actions, untried)
        self._model = _model_of(self.steps, self.horizon is None)
        self._scratch = _scratch_of(self.steps)
        self._bounds: Bounds | None = None
        self._speed = 0.0

    @property
    def lower(self) -> float:
        """What a policy is known to reach from the start of an episode."""
        return float(self.steps.unscaled(np.array([self._at_roots("lower") - self._slack]))[0])

    @property
    def upper(self) -> float:
        """What no policy can exceed from the start of an episode."""
        return float(self.steps.unscaled(np.array([self._at_roots("upper") + self._slack]))[0])

    @property
    def gap(self) -> float:
        """The distance of the two."""
        return self.upper - self.lower

    @own_errstate
    def run(
        self, *, gap: float = 1e-3, time_limit: float | None = None, max_backups: int | None = None
    ) -> str:
        """Tighten the bounds until they are ``gap`` apart, the time is up or so many more backups were made; returns
        why it stopped: "gap", "time", "backups", "interrupt" or "memory"."""
        wanted = real_number("gap", gap, 0.0, math.inf)
        seconds = None if time_limit is None else real_number("time_limit", time_limit, 0.0, math.inf)
        most = None if max_backups is None else whole_number("max_backups", max_backups, least=0)
        _compile()
        budget = Budget(seconds)
        outcome = []
        with budget.active():
            self._prepare()
        with budget.ending():
            outcome.append(self._tighten(wanted, budget, most))
        self.stopped = outcome[0] if outcome else ("interrupt" if budget.interrupted else "time")
        return self.stopped

    @own_errstate
    def improve(
        self,
        belief: ArrayLike,
        steps_taken: int = 0,
        *,
        gap: float = 1e-3,
        time_limit: float | None = None,
        max_backups: int | None = None,
    ) -> str:
        """`run` from another belief, which an episode came to after ``steps_taken`` steps. The bounds of the start get
        no worse by it."""
        from unlatch.kernels.pointbased import LENGTH

        weights = self.steps.checked_belief(belief)
        if time_limit is None and max_backups is None and gap == 0:
            raise UsageError("nothing would end this: give a gap, a time limit or a number of backups")
        self._prepare()
        assert self._bounds is not None
        at_start, before = (self._bounds.roots, self._bounds.importance), self.stopped
        try:
            self._set_roots(weights[None], np.ones(1), self._stage(steps_taken))
            return self.run(gap=gap, time_limit=time_limit, max_backups=max_backups)
        finally:
            self._bounds.counts[LENGTH] = 0  # whatever path was left began elsewhere
            self._bounds = self._bounds._replace(roots=at_start[0], importance=at_start[1])
            self.stopped = before

    def best_action(self, belief: Floats, steps_taken: int = 0) -> int:
        """The index of the action that the best plan for a belief begins with."""
        assert self._bounds is not None
        plans, worth = self._plans(belief, steps_taken)
        return int(self.steps.legal[self._bounds.action[plans[np.argmax(worth)]]])

    def lower_at(self, belief: Floats, steps_taken: int = 0) -> float:
        """What the best plan for a belief is worth, in units of the reward."""
        _, worth = self._plans(belief, steps_taken)
        return float(self.steps.unscaled(np.array([worth.max() - self._slack]))[0])

    def _plans(self, belief: Floats, steps_taken: int) -> tuple[Ints, Floats]:
        """All plans for a stage, and what each is worth at a belief."""
        from unlatch.kernels.pointbased import VECTORS

        self._prepare()
        assert self._bounds is not None
        known = int(self._bounds.counts[VECTORS])
        plans = np.flatnonzero(self._bounds.level[:known] == self._stage(steps_taken))
        return plans, self._bounds.vectors[plans] @ belief

    def _stage(self, steps_taken: int) -> int:
        return 0 if self.horizon is None else steps_taken % self.horizon

    @own_errstate
    def policy(self) -> Policy:
        """The policy that the lower bound is proven for, with both bounds as they are."""
        self._prepare()
        bounds = self._bounds
        assert bounds is not None
        kept, successors, leading = _closed_set(bounds)
        unscaled, legal = self.steps.unscaled, self.steps.legal
        return Policy(
            problem=self.problem,
            vectors=unscaled(bounds.vectors[kept]),
            actions=legal[bounds.action[kept]],
            successors=successors,
            stages=bounds.level[kept].astype(np.int64),
            leading=leading,
            upper_bound=_upper_bound(bounds, unscaled, self._slack),
            lower=self.lower,
            upper=self.upper,
            horizon=self.horizon,
            legal=tuple(legal.tolist()),
            stopped=self.stopped,
            on_collapse=self._on_collapse,
        )

    @property
    def tables(self) -> tuple[Any, Any, Any]:
        """What the kernels compute with: the model, the bounds as they are, and where a step computes."""
        self._prepare()
        return self._model, self._bounds, self._scratch

    def active_vectors(self) -> Floats:
        """The vectors that make up the lower bound at present, in units of the largest reward."""
        from unlatch.kernels.pointbased import OUTSIDE, VECTORS

        self._prepare()
        assert self._bounds is not None
        known = int(self._bounds.counts[VECTORS])
        return frozen(self._bounds.vectors[:known][self._bounds.link[:known] != OUTSIDE])

    @own_errstate
    def certain_values(self) -> Floats:
        """What every state would be worth at most if it were seen, in units of the largest reward."""
        from unlatch.kernels.pointbased import certain_step

        if self.horizon is not None:
            raise UsageError("values of states for ever: solve without a horizon")
        return frozen(_certain(self._model, self.steps.rank, certain_step))

    @property
    def statistics(self) -> dict[str, int]:
        """How much work was done: paths, backups, beliefs come by, vectors, and how many make up either bound."""
        from unlatch.kernels import pointbased as kernels

        counts = np.zeros(12, dtype=np.int64) if self._bounds is None else self._bounds.counts
        places = ("paths", kernels.TRIALS), ("backups", kernels.BACKUPS), ("beliefs", kernels.NODES)
        more = ("vectors", kernels.VECTORS), ("active_vectors", kernels.ACTIVE), ("points", kernels.POINTS)
        return {name: int(counts[place]) for name, place in (*places, *more)}

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _slack(self) -> float:
        """What rounding may have done to a bound, scaled."""
        steps = 1 / (1 - self.problem.discount) if self.horizon is None else self.horizon
        return _ROUNDING * steps * max(1.0, min(steps, 1e6))

    @property
    def _step_share(self) -> float:
        """What one step can do about a gap, as a share of what it can with the discounts that `_LEAST` is for: where
        later rewards count almost the same, it takes many steps that each do little."""
        return min(1.0, (1 - self.problem.discount) / _USUAL) if self.horizon is None else 1.0

    @property
    def _scaled_gap(self) -> float:
        """The distance of the bounds in units of the largest reward, which never overflows."""
        return self._at_roots("upper") - self._at_roots("lower") + 2 * self._slack

    def _at_roots(self, kind: str) -> float:
        self._prepare()
        assert self._bounds is not None
        return float(self._bounds.importance @ getattr(self._bounds, kind)[self._bounds.roots])

    def _prepare(self) -> None:
        """Bounds to begin with."""
        if self._bounds is None:
            self._bounds = _first_bounds(self.steps, self._model, self.horizon)
            self._set_roots(*self.steps.beginnings(), 0)

    def _set_roots(self, beliefs: Floats, importance: Floats, stage: int) -> None:
        from unlatch.kernels.pointbased import LENGTH, add_root

        assert self._bounds is not None
        self._bounds.counts[LENGTH] = 0
        roots = []
        for belief in beliefs:
            self._make_room()
            roots.append(add_root(self._bounds, self._scratch, belief, stage))
        self._bounds = self._bounds._replace(
            roots=np.array(roots, dtype=np.int32), importance=np.asarray(importance, dtype=np.float64).copy()
        )

    def _make_room(self) -> None:
        from unlatch.kernels.pointbased import has_room

        assert self._bounds is not None
        while not has_room(self._bounds):
            self._bounds = _roomier(self._bounds)

    def _tighten(self, gap: float, budget: Budget, most: int | None = None) -> str:
        from unlatch.kernels.pointbased import BACKUPS, CLOSED, FULL, Aim, work

        scaled = max(gap / self.steps.scale - 2 * self._slack, 0.0)
        aim = Aim(scaled, _SHARE, _LEAST * self._step_share)
        effort = _FIRST_EFFORT
        first = max(self._scaled_gap, 1e-300)
        assert self._bounds is not None
        last = None if most is None else int(self._bounds.counts[BACKUPS]) + most
        while True:
            if last is not None and self._bounds.counts[BACKUPS] >= last:
                return "backups"
            begun = time.perf_counter()
            status = work(self._model, self._bounds, self._scratch, aim, effort)
            elapsed = max(time.perf_counter() - begun, 1e-6)
            if status == CLOSED:
                return "gap"
            if status == FULL:
                try:
                    self._make_room()
                except (ResourceLimitError, MemoryError):
                    return "memory"
            elif last is None:  # otherwise in equal parts: where it ends must not depend on the clock
                pace = min(_SECONDS_PER_CALL, max(budget.seconds_left / 2, 0.002)) / elapsed
                effort = max(1000, int(effort * min(4.0, pace)))
            closed = math.log(first / max(self._scaled_gap, 1e-300))
            wanted = math.log(first / max(scaled, 1e-12 * first))
            done = min(max(closed / wanted, 0.0), 1.0) if wanted > 0 else 0.0
            report(f"solving, value {self.lower:.5g} to {self.upper:.5g}", round(100 * done), 100)


@cache
def _compile() -> None:
    """Solve something trivial once, so that compiling does not count against a time limit."""
    sees_nothing = POMDP(np.full((2, 2, 2), 0.5), np.full((2, 2, 2), 0.5), np.full(2, 0.5))
    solver = PointBasedSolver(Problem(sees_nothing, Reward.on_states({0: 1.0})))
    solver._prepare()
    solver._tighten(0.1, Budget())
    assert solver._bounds is not None
    solver._bounds = _roomier(solver._bounds, everything=True)


# --- the arrays of the kernels ----------------------------------------------------------------------------------------


def _model_of(steps: StateProblem, endless: bool) -> Model:
    from unlatch.kernels.pointbased import Model

    return Model(
        starts=steps.starts,
        events=steps.events.astype(np.int32),
        following=steps.following.astype(np.int32),
        chances=steps.chances,
        rewards=np.ascontiguousarray(steps.rewards),
        discount=float(steps.discount),
        endless=endless,
    )


def _scratch_of(steps: StateProblem) -> Scratch:
    from unlatch.kernels.pointbased import Scratch

    events, actions = max(steps.n_events, 1), len(steps.legal)
    require_memory(12 * events * steps.rank, "what a solver computes with", "plan with a smaller model")
    return Scratch(
        joint=np.zeros((events, steps.rank)),
        seen=np.zeros((events, steps.rank), dtype=np.int32),
        sizes=np.zeros(events, dtype=np.int64),
        masses=np.zeros(events),
        main=np.zeros(events, dtype=np.int64),
        bulk=np.zeros(events),
        present=np.zeros(events, dtype=np.int32),
        above=np.zeros(events),
        below=np.zeros(events),
        choices=np.zeros((actions, events), dtype=np.int32),
        pessimism=np.zeros(actions),
        fresh=np.zeros(actions, dtype=bool),
    )


def _first_bounds(steps: StateProblem, model: Model, horizon: int | None) -> Bounds:
    """The informed bound from above, blind plans from below."""
    from unlatch.kernels.pointbased import NOBODY, VECTORS, Bounds, link_blind

    stages, actions, states = horizon or 1, len(steps.legal), steps.rank
    require_memory(
        24 * stages * actions * states,
        f"bounds for {stages} stages",
        "shorten the horizon, or plan with POUCT",
    )
    informed = _informed(model, stages, states)
    blind = _blind(model, stages, states)
    vectors = np.ascontiguousarray(blind.reshape(stages * actions, states))
    nodes, known = 64, len(vectors)
    room = 2 * known + 64
    marks = np.modf(np.arange(1, states + 1) ** 1.5 * 0.6180339887498949)[0]
    bounds = Bounds(
        counts=np.zeros(12, dtype=np.int64),
        first=np.zeros(nodes + 1, dtype=np.int64),
        states=np.zeros(64 * states, dtype=np.int32),
        weights=np.zeros(64 * states),
        inverse=np.zeros(64 * states),
        stage=np.zeros(nodes, dtype=np.int32),
        upper=np.zeros(nodes),
        lower=np.zeros(nodes),
        best=np.zeros(nodes, dtype=np.int32),
        checked=np.zeros(nodes, dtype=np.int32),
        deficit=np.zeros(nodes),
        point=np.zeros(nodes, dtype=np.int32),
        optimism=np.zeros((nodes, actions)),
        table=np.full(4 * nodes, NOBODY, dtype=np.int32),
        marks=marks,
        heads=np.full((stages, states), NOBODY, dtype=np.int32),
        corners=informed.max(axis=1),
        informed=informed,
        vectors=np.concatenate([vectors, np.zeros((room - known, states))]),
        action=np.resize(np.arange(actions, dtype=np.int32), room),
        level=np.zeros(room, dtype=np.int32),
        successors=_blind_successors(stages, actions, max(steps.n_events, 1), room, endless=horizon is None),
        link=np.full(room, NOBODY, dtype=np.int32),
        used=np.zeros(room, dtype=np.int32),
        tops=np.full(stages, NOBODY, dtype=np.int32),
        fallback=np.full(stages, NOBODY, dtype=np.int32),
        path=np.zeros(_LONGEST_PATH, dtype=np.int32),
        roots=np.zeros(1, dtype=np.int32),
        importance=np.ones(1),
    )
    bounds.counts[VECTORS] = known
    link_blind(bounds, known, actions)
    return bounds


def _blind_successors(stages: int, actions: int, events: int, room: int, *, endless: bool) -> np.ndarray:
    """A blind plan goes on with itself; with its own of the next stage, where stages count."""
    following = np.full((room, events), -1, dtype=np.int32)
    known = np.arange(stages * actions, dtype=np.int32)
    after = known if endless else np.where(known + actions < len(known), known + actions, -1)
    following[: len(known)] = after[:, None]
    return following


def _informed(model: Model, stages: int, states: int) -> Floats:
    """Upper bounds of every action in every state by stage, shape (stages, actions, states)."""
    from unlatch.kernels.pointbased import certain_step, informed_step

    actions = len(model.rewards)
    result = np.zeros((stages, actions, states))
    if not model.endless:
        later = np.zeros((actions, states))
        for stage in range(stages - 1, -1, -1):
            informed_step(model, later, result[stage], 1, 0.0)
            later = result[stage]
        return result
    certain = _certain(model, states, certain_step)
    informed = np.broadcast_to(certain, (actions, states)).copy()
    _settle(model, lambda sweeps: informed_step(model, informed, informed, sweeps, _SETTLED))
    result[0] = informed
    return result


def _certain(model: Model, states: int, certain_step: Any) -> Floats:
    """What every state is worth at most if it is seen, from above."""
    certain = np.full(states, max(float(model.rewards.max()), 0.0) / (1 - model.discount))
    _settle(model, lambda sweeps: certain_step(model, certain, certain, sweeps, _SETTLED))
    return certain


def _blind(model: Model, stages: int, states: int) -> Floats:
    """The value of always taking the same action by stage, shape (stages, actions, states), from below."""
    from unlatch.kernels.pointbased import blind_step

    actions = len(model.rewards)
    result = np.zeros((stages, actions, states))
    if not model.endless:
        later = np.zeros((actions, states))
        for stage in range(stages - 1, -1, -1):
            blind_step(model, later, result[stage], 1, 0.0)
            later = result[stage]
        return result
    values = np.full((actions, states), min(float(model.rewards.min()), 0.0) / (1 - model.discount))
    _settle(model, lambda sweeps: blind_step(model, values, values, sweeps, _SETTLED))
    result[0] = values
    return result


def _settle(model: Model, sweep: Callable[[int], float]) -> None:
    """Sweeps until they change next to nothing, or time is up: a bound it is after every one."""
    entries = max(len(model.events) * len(model.rewards), 1)
    most = max(100, min(_SWEEPS, _SWEPT // entries))
    at_once = max(1, min(most // 10, _FIRST_EFFORT // entries))
    with ending():
        for done in range(0, most, at_once):
            if sweep(at_once) <= _SETTLED:
                return
            report("solving, first bounds", done, most)


def _roomier(bounds: Bounds, everything: bool = False) -> Bounds:
    """The same bounds in longer arrays, twice as long where they are nearly full."""
    from unlatch.kernels.pointbased import ENTRIES, NOBODY, NODES, VECTORS, rebuild_table

    counts = bounds.counts
    grown: dict[str, Any] = {}
    if everything or counts[NODES] + 1 >= len(bounds.upper) or 2 * (counts[NODES] + 1) >= len(bounds.table):
        of_nodes = ("stage", "upper", "lower", "best", "checked", "deficit", "point", "optimism", "first")
        grown |= {name: _doubled(getattr(bounds, name)) for name in of_nodes}
        grown["table"] = np.full(4 * len(grown["upper"]), NOBODY, dtype=np.int32)
    if counts[ENTRIES] + len(bounds.marks) > len(bounds.weights):
        grown |= {name: _doubled(getattr(bounds, name)) for name in ("states", "weights", "inverse")}
    if counts[VECTORS] >= len(bounds.vectors):
        names = ("vectors", "action", "level", "successors", "link", "used")
        grown |= {name: _doubled(getattr(bounds, name)) for name in names}
    result = bounds._replace(**grown)
    if "table" in grown:
        rebuild_table(result)
    return result


def _doubled(array: Any) -> Any:
    require_memory(3 * array.nbytes, "the bounds of the solver", "stop earlier, or take a larger gap")
    longer = np.zeros((2 * len(array), *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


# --- what is kept ----------------------------------------------------------------------------------------------------


def _closed_set(bounds: Bounds) -> tuple[Ints, Ints, int]:
    """Vectors that make up the lower bound, and all that they go on with: who follows the best of them at every belief
    gets at least what they promise. Also the successors of each among the kept ones, and how many make up the bound."""
    from unlatch.kernels.pointbased import OUTSIDE, VECTORS

    known = int(bounds.counts[VECTORS])
    kept = bounds.link[:known] != OUTSIDE
    kept[bounds.best[bounds.roots]] = True
    frontier = np.flatnonzero(kept)
    while len(frontier):
        reached = np.unique(bounds.successors[frontier])
        fresh = reached[(reached >= 0) & ~kept[np.maximum(reached, 0)]]
        kept[fresh] = True
        frontier = fresh
    leading = bounds.link[:known] != OUTSIDE
    chosen = np.concatenate([np.flatnonzero(leading), np.flatnonzero(kept & ~leading)])
    place = np.full(known + 1, -1)  # the last for what is beyond the horizon
    place[chosen] = np.arange(len(chosen))
    return chosen, place[bounds.successors[chosen]], int(leading.sum())


def _upper_bound(bounds: Bounds, unscaled: Any, slack: float) -> UpperBound:
    """What makes up the upper bound, in units of the reward."""
    from unlatch.kernels.pointbased import NODES, OUTSIDE

    points = np.flatnonzero(bounds.point[: int(bounds.counts[NODES])] != OUTSIDE)
    spans = [slice(bounds.first[i], bounds.first[i + 1]) for i in points]
    return UpperBound(
        corners=unscaled(bounds.corners + slack),
        informed=unscaled(bounds.informed + slack),
        stages=bounds.stage[points].astype(np.int64),
        values=unscaled(bounds.upper[points] + slack),
        starts=np.cumsum([0, *(span.stop - span.start for span in spans)]).astype(np.int64),
        states=np.concatenate([np.empty(0, np.int64), *(bounds.states[span] for span in spans)]).astype(
            np.int64
        ),
        weights=np.concatenate([np.empty(0), *(bounds.weights[span] for span in spans)]),
    )
