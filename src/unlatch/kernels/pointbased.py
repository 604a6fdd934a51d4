"""Bounds on the value of a POMDP, tightened where good plans lead (Kurniawati, Hsu, Lee 2008; Smith, Simmons 2005).

From below a set of vectors, each the value of a plan in every state; from above a value for every certainty, for
beliefs come by, and between these by the sawtooth: along the line from the certainties through one belief. Work is a
chain of small steps. Down: from a belief by the action that looks best from above to the event after which the bounds
are farthest apart. Up: both bounds are computed anew at every belief of that path. `work` does so many of these steps
as it is told and can be called again; where arrays are full it says so and waits for longer ones.

Weights need not sum to one: both bounds are homogeneous, so that what a step leads to is valued without dividing by
how likely it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.kernels._jit import bare, inner

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int32]

NODES, ENTRIES, VECTORS, LENGTH, UPWARD, TRIALS, BACKUPS, ACTIVE, POINTS, REVIEWED, THINNED, ROOT = range(12)
"""Places in ``Bounds.counts``: how many beliefs, weights of beliefs and vectors there are, how long the path is and
whether it is on its way up, how many paths and computations there were, how many vectors and beliefs the bounds are
made of, how many there were when they were last thinned out, and the root at work."""

CLOSED, BUSY, FULL = range(3)
"""Why `work` returned: the bounds are as near as wanted, its share is done, an array is full."""

NOBODY, OUTSIDE = -1, -2
"""The end of a chain; what is in no chain."""

_SAME = 1e-12
"""Difference of two weights that is rounding: such beliefs are one."""

_TINY = 1e-10
"""Share of a belief below which a state is valued by its certainty alone. Beliefs come ever nearer to a certainty
without reaching it, and the sawtooth would take each for a stranger."""

_STAY = 2
"""Reviews that a vector survives after a backup went on with it: there are more beliefs than those come by."""

_KEYS = float(1 << 30)
"""Cells of the line that beliefs are projected onto to find one again."""


class Model(NamedTuple):
    """What every step can bring, without what leads to the end, and what it pays, scaled to at most one."""

    starts: Ints  # (actions * states + 1,): where the rows begin
    events: Indices  # what a step shows
    following: Indices  # the state that it leads to
    chances: Floats
    rewards: Floats  # (actions, states)
    discount: float
    endless: bool  # whether every step is like the first; otherwise stages count down to the end


class Bounds(NamedTuple):
    """Both bounds and how they came about. A belief is a node; the arrays have room for more than there are."""

    counts: Ints
    first: Ints  # (nodes + 1,): where a belief's weights begin
    states: Indices  # of the weights
    weights: Floats
    inverse: Floats  # one over the weights
    stage: Indices  # (nodes,): steps taken before, 0 where all are alike
    upper: Floats  # (nodes,)
    lower: Floats  # (nodes,)
    best: Indices  # (nodes,): the vector of the lower bound
    checked: Indices  # (nodes,): how many vectors were compared for that
    deficit: Floats  # (nodes,): the upper bound minus that of the certainties alone
    point: Indices  # (nodes,): the next belief that the upper bound is made of
    optimism: Floats  # (nodes, actions): upper bounds of acting
    table: Indices  # finds a belief again; a power of two long
    marks: Floats  # (states,): the line that beliefs are projected onto
    heads: Indices  # (stages, states): the first of those beliefs whose likeliest state it is
    corners: Floats  # (stages, states): upper bound of every certainty
    informed: Floats  # (stages, actions, states): upper bounds of acting, linear in the belief
    vectors: Floats  # (vectors, states)
    action: Indices  # (vectors,)
    level: Indices  # (vectors,): the stage that a vector is for
    successors: Indices  # (vectors, events): the vector to go on with
    link: Indices  # (vectors,): the next vector of the lower bound
    used: Indices  # (vectors,): for how many reviews it may stay, whether a belief needs it or not
    tops: Indices  # (stages,): the first vector of the lower bound
    fallback: Indices  # (stages,): the vector to go on with after what a belief holds impossible
    path: Indices
    roots: Indices
    importance: Floats  # (roots,)


class Scratch(NamedTuple):
    """Where one step computes."""

    joint: Floats  # (events, states)
    seen: Indices  # (events, states): states that an event may lead to
    sizes: Ints  # (events,): how many
    masses: Floats  # (events,)
    main: Ints  # (events,): how many of these states matter; they come first
    bulk: Floats  # (events,): the mass of these
    present: Indices  # (events,): events that may come
    above: Floats  # (events,): upper bound times probability
    below: Floats  # (events,)
    choices: Indices  # (actions, events)
    pessimism: Floats  # (actions,): lower bounds of acting
    fresh: Flags  # (actions,): computed with the bounds as they are


class Aim(NamedTuple):
    """When to stop: the gap that is wanted, and the share of the present one at which a path turns."""

    gap: float
    share: float
    least: float  # improvement of a bound that is worth a vector, as a share of the gap


# --- what a step leads to ---------------------------------------------------------------------------------------------


@inner
def spread(model, first, states, weights, node, action, scratch):  # type: ignore[no-untyped-def]
    """Fill the joint weights of events and next states after ``action``; returns how many events may come."""
    joint, seen, sizes, masses, present = (
        scratch.joint,
        scratch.seen,
        scratch.sizes,
        scratch.masses,
        scratch.present,
    )
    starts, events, following, chances = model.starts, model.events, model.following, model.chances
    n_states = joint.shape[1]
    found = 0
    for k in range(first[node], first[node + 1]):
        row = action * n_states + states[k]
        for j in range(starts[row], starts[row + 1]):
            weight = weights[k] * chances[j]
            if weight > 0.0:
                e, t = events[j], following[j]
                if sizes[e] == 0:
                    present[found] = e
                    found += 1
                if joint[e, t] == 0.0:
                    seen[e, sizes[e]] = t
                    sizes[e] += 1
                joint[e, t] += weight
                masses[e] += weight
    for i in range(found):
        e = present[i]
        main = 0
        bulk = 0.0
        for j in range(sizes[e]):
            s = seen[e, j]
            if joint[e, s] >= _TINY * masses[e]:
                seen[e, j] = seen[e, main]
                seen[e, main] = s
                main += 1
                bulk += joint[e, s]
        scratch.main[e], scratch.bulk[e] = main, bulk
    return found


@inner
def clear(scratch, found):  # type: ignore[no-untyped-def]
    """Undo `spread`."""
    for i in range(found):
        e = scratch.present[i]
        for j in range(scratch.sizes[e]):
            scratch.joint[e, scratch.seen[e, j]] = 0.0
        scratch.sizes[e] = 0
        scratch.masses[e] = 0.0


@inner
def best_vector(vectors, link, top, joint, seen, e, size):  # type: ignore[no-untyped-def]
    """The largest product of the weights ``joint[e]``, at the states ``seen[e]``, with a vector of the chain from
    ``top``, and which it is."""
    highest = -np.inf
    best = top
    v = top
    while v >= 0:
        total = 0.0
        for i in range(size):
            s = seen[e, i]
            total += joint[e, s] * vectors[v, s]
        if total > highest:
            highest = total
            best = v
        v = link[v]
    return highest, best


@inner
def sawtooth(first, states, inverse, deficit, point, heads, stage, joint, seen, e, size, mass, skipped):  # type: ignore[no-untyped-def]
    """How far beliefs come by lower the upper bound below that of the certainties; ``skipped`` does not count.

    The share of a belief that is contained in the weights ``joint[e]`` is their smallest quotient; as soon as it is too
    small to matter, the next belief is looked at. Only beliefs whose likeliest state is possible are looked at at all.
    """
    lowest = 0.0
    for j in range(size):
        i = heads[stage, seen[e, j]]
        while i >= 0:
            if mass * deficit[i] < lowest and i != skipped:
                enough = lowest / deficit[i]
                share = mass
                for k in range(first[i], first[i + 1]):
                    quotient = joint[e, states[k]] * inverse[k]
                    if quotient < share:
                        share = quotient
                        if share <= enough:
                            break
                if share * deficit[i] < lowest:
                    lowest = share * deficit[i]
            i = point[i]
    return lowest


@inner
def linear_upper(corners, informed, stage, joint, seen, e, size):  # type: ignore[no-untyped-def]
    """Upper bounds that are at hand everywhere: by the certainties, and by the informed bound of the best action."""
    certain = 0.0
    for i in range(size):
        certain += joint[e, seen[e, i]] * corners[stage, seen[e, i]]
    best = -np.inf
    for a in range(informed.shape[1]):
        total = 0.0
        for i in range(size):
            total += joint[e, seen[e, i]] * informed[stage, a, seen[e, i]]
        best = max(best, total)
    return certain, best


@inner
def evaluate(model, bounds, scratch, node, action, with_upper, with_lower):  # type: ignore[no-untyped-def]
    """Bounds of taking ``action`` at a belief: (upper, lower, work done). `spread` is left filled, ``present`` first.

    Bounds of what every event leads to are in ``above`` and ``below``, the vectors in ``choices``. Returns also how
    many events may come.
    """
    found = spread(model, bounds.first, bounds.states, bounds.weights, node, action, scratch)
    reward = 0.0
    for k in range(bounds.first[node], bounds.first[node + 1]):
        reward += bounds.weights[k] * model.rewards[action, bounds.states[k]]
    after = 0 if model.endless else bounds.stage[node] + 1
    last = after == bounds.tops.shape[0]
    upper = lower = 0.0
    effort = 0
    for e in range(scratch.choices.shape[1]):
        scratch.choices[action, e] = NOBODY if last else bounds.fallback[after]
    for i in range(found):
        e = scratch.present[i]
        scratch.above[e] = scratch.below[e] = 0.0
        if last:
            continue
        joint, seen, size = scratch.joint, scratch.seen, scratch.sizes[e]
        if with_lower:
            value, chosen = best_vector(bounds.vectors, bounds.link, bounds.tops[after], joint, seen, e, size)
            scratch.below[e] = value
            scratch.choices[action, e] = chosen
            bounds.used[chosen] = _STAY
            lower += value
            effort += size * bounds.counts[ACTIVE]
        if with_upper:
            certain, informed = linear_upper(bounds.corners, bounds.informed, after, joint, seen, e, size)
            certain += sawtooth(
                bounds.first,
                bounds.states,
                bounds.inverse,
                bounds.deficit,
                bounds.point,
                bounds.heads,
                after,
                joint,
                seen,
                e,
                scratch.main[e],
                scratch.bulk[e],
                NOBODY,
            )
            scratch.above[e] = min(certain, informed)
            upper += scratch.above[e]
            effort += 2 * bounds.counts[POINTS] + size * bounds.informed.shape[1]
    return reward + model.discount * upper, reward + model.discount * lower, effort, found


# --- beliefs ----------------------------------------------------------------------------------------------------------


@inner
def place_of(marks, joint, seen, e, size, mass, stage, places):  # type: ignore[no-untyped-def]
    """Where to look for a belief in a table of so many places."""
    total = 0.0
    for i in range(size):
        total += joint[e, seen[e, i]] / mass * marks[seen[e, i]]
    return (int(total * _KEYS) + 7919 * stage) % places


@inner
def same_belief(bounds, node, joint, e, size, mass, stage):  # type: ignore[no-untyped-def]
    """Whether a node has these weights, but for rounding."""
    begin, end = bounds.first[node], bounds.first[node + 1]
    if end - begin != size or bounds.stage[node] != stage:
        return False
    for k in range(begin, end):
        if abs(joint[e, bounds.states[k]] / mass - bounds.weights[k]) > _SAME:
            return False
    return True


@inner
def find_node(bounds, joint, seen, e, size, mass, stage):  # type: ignore[no-untyped-def]
    """The node of a belief and its place in the table; NOBODY and a free place if there is none."""
    places = bounds.table.shape[0]
    place = place_of(bounds.marks, joint, seen, e, size, mass, stage, places)
    while bounds.table[place] >= 0:
        if same_belief(bounds, bounds.table[place], joint, e, size, mass, stage):
            return bounds.table[place], place
        place = (place + 1) % places
    return NOBODY, place


@inner
def add_node(bounds, joint, seen, e, size, mass, stage, place):  # type: ignore[no-untyped-def]
    """Append a belief, its likeliest state first, with the bounds that are at hand everywhere; returns its node."""
    counts = bounds.counts
    node, entry = counts[NODES], counts[ENTRIES]
    counts[NODES] = node + 1
    counts[ENTRIES] = entry + size
    likeliest = 0
    for i in range(size):
        if joint[e, seen[e, i]] > joint[e, seen[e, likeliest]]:
            likeliest = i
    for i in range(size):
        place_in = 0 if i == likeliest else likeliest if i == 0 else i
        bounds.states[entry + place_in] = seen[e, i]
        bounds.weights[entry + place_in] = joint[e, seen[e, i]] / mass
        bounds.inverse[entry + place_in] = mass / joint[e, seen[e, i]]
    bounds.first[node + 1] = entry + size
    bounds.stage[node] = stage
    bounds.point[node] = OUTSIDE
    bounds.deficit[node] = 0.0
    bounds.table[place] = node
    certain, _ = linear_upper(bounds.corners, bounds.informed, stage, joint, seen, e, size)
    highest = -np.inf
    for a in range(bounds.optimism.shape[1]):
        total = 0.0
        for i in range(size):
            total += joint[e, seen[e, i]] / mass * bounds.informed[stage, a, seen[e, i]]
        bounds.optimism[node, a] = total
        highest = max(highest, total)
    bounds.upper[node] = min(certain / mass, highest)
    value, best = best_vector(bounds.vectors, bounds.link, bounds.tops[stage], joint, seen, e, size)
    bounds.lower[node], bounds.best[node], bounds.checked[node] = value / mass, best, counts[VECTORS]
    return node


@bare
def rebuild_table(bounds):  # type: ignore[no-untyped-def]
    """Enter every belief into an empty table."""
    places = bounds.table.shape[0]
    for node in range(bounds.counts[NODES]):
        total = 0.0
        for k in range(bounds.first[node], bounds.first[node + 1]):
            total += bounds.weights[k] * bounds.marks[bounds.states[k]]
        place = (int(total * _KEYS) + 7919 * bounds.stage[node]) % places
        while bounds.table[place] >= 0:
            place = (place + 1) % places
        bounds.table[place] = node


# --- the upper bound --------------------------------------------------------------------------------------------------


@inner
def certain_upper(bounds, node):  # type: ignore[no-untyped-def]
    """The upper bound of a node by the certainties alone."""
    total = 0.0
    stage = bounds.stage[node]
    for k in range(bounds.first[node], bounds.first[node + 1]):
        total += bounds.weights[k] * bounds.corners[stage, bounds.states[k]]
    return total


@inner
def interpolated(bounds, scratch, node, skipped):  # type: ignore[no-untyped-def]
    """The upper bound of a node by all beliefs but ``skipped``. The first row of ``scratch`` must be clear."""
    joint, seen = scratch.joint, scratch.seen
    begin, size = bounds.first[node], bounds.first[node + 1] - bounds.first[node]
    mass = 0.0
    for i in range(size):
        s = bounds.states[begin + i]
        seen[0, i] = s
        joint[0, s] = bounds.weights[begin + i]
        mass += bounds.weights[begin + i]
    lowered = sawtooth(
        bounds.first,
        bounds.states,
        bounds.inverse,
        bounds.deficit,
        bounds.point,
        bounds.heads,
        bounds.stage[node],
        joint,
        seen,
        0,
        size,
        mass,
        skipped,
    )
    for i in range(size):
        joint[0, seen[0, i]] = 0.0
    return certain_upper(bounds, node) + lowered


@inner
def lower_corner(bounds, stage, state, value):  # type: ignore[no-untyped-def]
    """A certainty is worth less than was thought: what beliefs add to it shrinks."""
    bounds.corners[stage, state] = value
    for s in range(bounds.heads.shape[1]):
        i = bounds.heads[stage, s]
        while i >= 0:
            bounds.deficit[i] = min(bounds.upper[i] - certain_upper(bounds, i), 0.0)
            i = bounds.point[i]


@inner
def note_upper(bounds, scratch, node, least):  # type: ignore[no-untyped-def]
    """Make a node's upper bound known to others, if it tells them more than they know."""
    stage = bounds.stage[node]
    begin, end = bounds.first[node], bounds.first[node + 1]
    if end - begin == 1:
        if bounds.upper[node] < bounds.corners[stage, bounds.states[begin]]:
            lower_corner(bounds, stage, bounds.states[begin], bounds.upper[node])
        return
    if bounds.point[node] == OUTSIDE:
        if bounds.upper[node] >= interpolated(bounds, scratch, node, NOBODY) - least:
            return
        bounds.point[node] = bounds.heads[stage, bounds.states[begin]]
        bounds.heads[stage, bounds.states[begin]] = node
        bounds.counts[POINTS] += 1
    bounds.deficit[node] = min(bounds.upper[node] - certain_upper(bounds, node), 0.0)


@inner
def thin_points(bounds, scratch, least):  # type: ignore[no-untyped-def]
    """Take beliefs out of the upper bound that the others make up for."""
    for chain in range(bounds.heads.size):
        stage, state = chain // bounds.heads.shape[1], chain % bounds.heads.shape[1]
        before = NOBODY
        i = bounds.heads[stage, state]
        while i >= 0:
            following = bounds.point[i]
            if interpolated(bounds, scratch, i, i) <= bounds.upper[i] + least:
                if before == NOBODY:
                    bounds.heads[stage, state] = following
                else:
                    bounds.point[before] = following
                bounds.point[i] = OUTSIDE
                bounds.counts[POINTS] -= 1
            else:
                before = i
            i = following
    bounds.counts[THINNED] = bounds.counts[POINTS]


# --- the lower bound --------------------------------------------------------------------------------------------------


@inner
def unlink(bounds, stage, before, vector):  # type: ignore[no-untyped-def]
    """Take a vector out of its chain."""
    if before == NOBODY:
        bounds.tops[stage] = bounds.link[vector]
    else:
        bounds.link[before] = bounds.link[vector]
    bounds.link[vector] = OUTSIDE
    bounds.counts[ACTIVE] -= 1


@inner
def dominated(vectors, one, other):  # type: ignore[no-untyped-def]
    """Whether a vector is nowhere above another."""
    for s in range(vectors.shape[1]):
        if vectors[one, s] > vectors[other, s]:
            return False
    return True


@inner
def link_vector(bounds, stage, vector):  # type: ignore[no-untyped-def]
    """Put a vector at the top of its chain, in place of those that it dominates."""
    before = NOBODY
    v = bounds.tops[stage]
    while v >= 0:
        following = bounds.link[v]
        if dominated(bounds.vectors, v, vector):
            unlink(bounds, stage, before, v)
        else:
            before = v
        v = following
    bounds.level[vector] = stage
    bounds.used[vector] = _STAY
    bounds.link[vector] = bounds.tops[stage]
    bounds.tops[stage] = vector
    bounds.counts[ACTIVE] += 1
    known = bounds.fallback[stage]
    ahead = 0.0
    for s in range(bounds.vectors.shape[1]):
        ahead += bounds.vectors[vector, s] - (bounds.vectors[known, s] if known >= 0 else 0.0)
    if known < 0 or ahead > 0.0:
        bounds.fallback[stage] = vector


@bare
def link_blind(bounds, known, each):  # type: ignore[no-untyped-def]
    """Put the first ``known`` vectors into their chains, ``each`` of every stage."""
    for vector in range(known):
        link_vector(bounds, vector // each, vector)


@inner
def add_vector(model, bounds, scratch, stage, action):  # type: ignore[no-untyped-def]
    """Append the value of acting and going on with ``choices``; returns its index."""
    vector = bounds.counts[VECTORS]
    bounds.counts[VECTORS] = vector + 1
    vectors, choices = bounds.vectors, scratch.choices
    n_states = vectors.shape[1]
    for s in range(n_states):
        row = action * n_states + s
        total = 0.0
        for j in range(model.starts[row], model.starts[row + 1]):
            chosen = choices[action, model.events[j]]
            if chosen >= 0:
                total += model.chances[j] * vectors[chosen, model.following[j]]
        vectors[vector, s] = model.rewards[action, s] + model.discount * total
    bounds.action[vector] = action
    for e in range(choices.shape[1]):
        bounds.successors[vector, e] = choices[action, e]
    link_vector(bounds, stage, vector)
    return vector


@inner
def best_at_node(bounds, node):  # type: ignore[no-untyped-def]
    """`best_vector` at a belief come by."""
    highest = -np.inf
    best = bounds.tops[bounds.stage[node]]
    v = best
    while v >= 0:
        total = 0.0
        for k in range(bounds.first[node], bounds.first[node + 1]):
            total += bounds.weights[k] * bounds.vectors[v, bounds.states[k]]
        if total > highest:
            highest = total
            best = v
        v = bounds.link[v]
    return highest, best


@inner
def review(bounds):  # type: ignore[no-untyped-def]
    """Take vectors out of the lower bound that are the best at no belief come by, and that no backup of late went on
    with."""
    vectors, used = bounds.vectors, bounds.used
    for node in range(bounds.counts[NODES]):
        stage = bounds.stage[node]
        begin, end = bounds.first[node], bounds.first[node + 1]
        stale = bounds.link[bounds.best[node]] == OUTSIDE
        highest = -np.inf if stale else bounds.lower[node]
        best = bounds.best[node]
        v = bounds.tops[stage]
        while v >= 0 and (stale or v >= bounds.checked[node]):
            total = 0.0
            for k in range(begin, end):
                total += bounds.weights[k] * vectors[v, bounds.states[k]]
            if total >= highest:
                highest = total
                best = v
            v = bounds.link[v]
        bounds.best[node] = best
        bounds.checked[node] = bounds.counts[VECTORS]
        bounds.lower[node] = max(bounds.lower[node], highest)
        used[best] = max(used[best], 1)
    for stage in range(bounds.tops.shape[0]):
        used[bounds.fallback[stage]] = _STAY
        before = NOBODY
        v = bounds.tops[stage]
        while v >= 0:
            following = bounds.link[v]
            if used[v] > 0:
                used[v] -= 1
                before = v
            else:
                unlink(bounds, stage, before, v)
            v = following
    bounds.counts[REVIEWED] = bounds.counts[ACTIVE]


# --- one step of a path -----------------------------------------------------------------------------------------------


@inner
def refresh_top(model, bounds, scratch, node):  # type: ignore[no-untyped-def]
    """Compute the upper bound of the action that looks best, until the one that does is up to date.

    Bounds only ever come down: what is out of date may be too high, never too low. Returns (action, work done, events
    that may come); the events after that action are left in ``scratch``.
    """
    effort = 0
    found = 0
    latest = NOBODY
    optimism = bounds.optimism
    while True:
        top = 0
        for a in range(optimism.shape[1]):
            if optimism[node, a] > optimism[node, top]:
                top = a
        if scratch.fresh[top] and latest == top:
            return top, effort, found
        clear(scratch, found)
        upper, lower, more, found = evaluate(model, bounds, scratch, node, top, True, True)
        optimism[node, top] = min(optimism[node, top], upper)
        scratch.pessimism[top] = lower
        scratch.fresh[top] = True
        latest = top
        effort += more


@inner
def descend(model, bounds, scratch, target):  # type: ignore[no-untyped-def]
    """Go from the end of the path to where the bounds are farthest apart, or turn. Returns the work done."""
    counts, path = bounds.counts, bounds.path
    length = counts[LENGTH]
    node = path[length - 1]
    bounds.upper[node] = min(bounds.upper[node], interpolated(bounds, scratch, node, NOBODY))
    value, best = best_at_node(bounds, node)
    if value > bounds.lower[node]:
        bounds.lower[node], bounds.best[node] = value, best
    allowed = target * model.discount ** -(length - 1.0) if model.discount > 0.0 else np.inf
    if bounds.upper[node] - bounds.lower[node] <= allowed or length == path.shape[0]:
        counts[UPWARD] = 1
        return 1
    for a in range(scratch.fresh.shape[0]):
        scratch.fresh[a] = False
    _, effort, found = refresh_top(model, bounds, scratch, node)
    allowed = allowed / model.discount if model.discount > 0.0 else np.inf
    chosen = NOBODY
    farthest = 0.0
    for i in range(found):
        e = scratch.present[i]
        excess = scratch.above[e] - scratch.below[e]
        if excess > 0.0 and not np.isinf(allowed):
            excess -= scratch.masses[e] * allowed
            if excess > farthest:
                farthest = excess
                chosen = e
    if chosen == NOBODY:
        counts[UPWARD] = 1
    else:
        stage = 0 if model.endless else bounds.stage[node] + 1
        joint, seen, size, mass = scratch.joint, scratch.seen, scratch.main[chosen], scratch.bulk[chosen]
        child, place = find_node(bounds, joint, seen, chosen, size, mass, stage)
        if child == NOBODY:
            child = add_node(bounds, joint, seen, chosen, size, mass, stage, place)
        path[length] = child
        counts[LENGTH] = length + 1
    clear(scratch, found)
    return effort


@inner
def ascend(model, bounds, scratch, least):  # type: ignore[no-untyped-def]
    """Compute both bounds anew at the end of the path, and take it off. Returns the work done."""
    counts = bounds.counts
    node = bounds.path[counts[LENGTH] - 1]
    stage = bounds.stage[node]
    for a in range(scratch.fresh.shape[0]):
        scratch.fresh[a] = False
    top, effort, found = refresh_top(model, bounds, scratch, node)
    clear(scratch, found)
    bounds.upper[node] = min(bounds.upper[node], bounds.optimism[node, top])
    note_upper(bounds, scratch, node, least)
    value, best = best_at_node(bounds, node)
    if value >= bounds.lower[node]:
        bounds.lower[node], bounds.best[node] = value, best
    chosen = NOBODY
    highest = value + least
    for a in range(scratch.fresh.shape[0]):
        if not scratch.fresh[a]:
            if bounds.optimism[node, a] <= max(highest, bounds.lower[node]):
                continue
            _, lower, more, found = evaluate(model, bounds, scratch, node, a, False, True)
            clear(scratch, found)
            scratch.pessimism[a] = lower
            effort += more
        if scratch.pessimism[a] > highest:
            highest = scratch.pessimism[a]
            chosen = a
    if chosen != NOBODY:
        bounds.best[node] = add_vector(model, bounds, scratch, stage, chosen)
        bounds.lower[node] = max(bounds.lower[node], highest)
        effort += model.events.shape[0] // scratch.fresh.shape[0] + bounds.vectors.shape[1]
    counts[LENGTH] -= 1
    counts[BACKUPS] += 1
    return effort


# --- the whole of it --------------------------------------------------------------------------------------------------


@bare
def add_root(bounds, scratch, belief, stage):  # type: ignore[no-untyped-def]
    """The node of a belief, made if it is new. There must be room for one."""
    size = 0
    mass = 0.0
    joint, seen = scratch.joint, scratch.seen
    for s in range(belief.shape[0]):
        if belief[s] > 0.0:
            joint[0, s] = belief[s]
            seen[0, size] = s
            size += 1
            mass += belief[s]
    node, place = find_node(bounds, joint, seen, 0, size, mass, stage)
    if node == NOBODY:
        node = add_node(bounds, joint, seen, 0, size, mass, stage, place)
    for i in range(size):
        joint[0, seen[0, i]] = 0.0
    return node


@inner
def whole_gap(bounds):  # type: ignore[no-untyped-def]
    """The gap between the bounds over all roots, each as much as it counts; and the root that counts most for it."""
    total = 0.0
    worst = 0
    largest = -1.0
    for r in range(bounds.roots.shape[0]):
        node = bounds.roots[r]
        part = bounds.importance[r] * (bounds.upper[node] - bounds.lower[node])
        total += part
        if part > largest:
            largest = part
            worst = r
    return total, worst


@bare
def has_room(bounds):  # type: ignore[no-untyped-def]
    """Whether a step can add a belief and a vector."""
    counts = bounds.counts
    return (
        counts[NODES] + 1 < bounds.upper.shape[0]
        and 2 * (counts[NODES] + 1) < bounds.table.shape[0]
        and counts[ENTRIES] + bounds.marks.shape[0] <= bounds.weights.shape[0]
        and counts[VECTORS] < bounds.vectors.shape[0]
    )


@inner
def tidy(bounds, scratch, least):  # type: ignore[no-untyped-def]
    """Thin out both bounds where they have grown by a part since it was last done. Returns the work done."""
    counts = bounds.counts
    effort = 0
    if counts[ACTIVE] > counts[REVIEWED] + counts[REVIEWED] // 4 + 20:
        effort += counts[NODES] * (counts[ACTIVE] - counts[REVIEWED])
        review(bounds)
    if counts[POINTS] > counts[THINNED] + counts[THINNED] // 4 + 20:
        effort += counts[POINTS] * counts[POINTS]
        thin_points(bounds, scratch, least)
    return effort


@bare
def work(model, bounds, scratch, aim, effort):  # type: ignore[no-untyped-def]
    """Tighten the bounds for about ``effort`` products of numbers; returns why it stopped."""
    counts = bounds.counts
    while effort > 0:
        if counts[LENGTH] == 0:
            gap, worst = whole_gap(bounds)
            if gap <= aim.gap:
                return CLOSED
            counts[ROOT], counts[UPWARD], counts[LENGTH] = worst, 0, 1
            bounds.path[0] = bounds.roots[worst]
            counts[TRIALS] += 1
        if not has_room(bounds):
            return FULL
        root = bounds.roots[counts[ROOT]]
        gap = bounds.upper[root] - bounds.lower[root]
        target = max(aim.share * gap, 0.5 * aim.gap)
        least = aim.least * target
        if counts[UPWARD]:
            effort -= ascend(model, bounds, scratch, least)
        else:
            effort -= descend(model, bounds, scratch, target)
        if counts[LENGTH] == 0:
            effort -= tidy(bounds, scratch, least)
        effort -= 100
    return BUSY


# --- bounds to begin with ---------------------------------------------------------------------------------------------


@bare
def informed_step(model, later, informed, sweeps, settled):  # type: ignore[no-untyped-def]
    """The fast informed bound: write to ``informed`` (actions, states) what acting is worth at most if the next action
    may depend on the state left and on what is seen, and acting after that is worth at most ``later``. So many times,
    or until nothing changes by more than ``settled``: the two may be one array. Returns the largest change at last."""
    n_actions, n_states = informed.shape
    widest = np.inf
    for _ in range(sweeps):
        widest = 0.0
        for row in range(n_actions * n_states):
            a, s = row // n_states, row % n_states
            value = 0.0
            begin = model.starts[row]
            while begin < model.starts[row + 1]:
                end = begin
                while end < model.starts[row + 1] and model.events[end] == model.events[begin]:
                    end += 1
                best = -np.inf
                for b in range(n_actions):
                    total = 0.0
                    for j in range(begin, end):
                        total += model.chances[j] * later[b, model.following[j]]
                    best = max(best, total)
                value += best
                begin = end
            value = model.rewards[a, s] + model.discount * value
            widest = max(widest, abs(value - informed[a, s]))
            informed[a, s] = value
        if widest <= settled:
            break
    return widest


@bare
def certain_step(model, later, values, sweeps, settled):  # type: ignore[no-untyped-def]
    """Value iteration where the state is seen: ``values`` (states,) from ``later``; otherwise as `informed_step`."""
    n_actions, n_states = model.rewards.shape
    widest = np.inf
    for _ in range(sweeps):
        widest = 0.0
        for s in range(n_states):
            best = -np.inf
            for a in range(n_actions):
                row = a * n_states + s
                value = 0.0
                for j in range(model.starts[row], model.starts[row + 1]):
                    value += model.chances[j] * later[model.following[j]]
                best = max(best, model.rewards[a, s] + model.discount * value)
            widest = max(widest, abs(best - values[s]))
            values[s] = best
        if widest <= settled:
            break
    return widest


@bare
def blind_step(model, later, values, sweeps, settled):  # type: ignore[no-untyped-def]
    """Always the same action: ``values`` (actions, states) from ``later``; otherwise as `informed_step`."""
    n_actions, n_states = values.shape
    widest = np.inf
    for _ in range(sweeps):
        widest = 0.0
        for row in range(n_actions * n_states):
            a, s = row // n_states, row % n_states
            value = 0.0
            for j in range(model.starts[row], model.starts[row + 1]):
                value += model.chances[j] * later[a, model.following[j]]
            value = model.rewards[a, s] + model.discount * value
            widest = max(widest, abs(value - values[a, s]))
            values[a, s] = value
        if widest <= settled:
            break
    return widest
