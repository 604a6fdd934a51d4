"""PO-UCT: a tree of histories as flat arrays, grown by simulation, and whole episodes acted with it.

A node is a history of (action, observation) pairs below the root. Children of one (node, action) form a
linked list, so memory does not depend on the number of observation symbols; a child always has a larger
index than its parent, which is what lets a subtree be kept in one ascending pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlatch.kernels._jit import bare, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int32]
"""Half the memory of a tree in plain integers; two thousand million nodes or visits are enough."""

BY_STATE, BY_CELL, BY_BELIEF = 0, 1, 2
"""What a simulation draws first: a hidden state, a cell of states, or straight the observation."""

RAISE, RESET, MIX = 0, 1, 2
"""What follows an observation that the belief holds impossible."""

_IMPOSSIBLE = 1e-9
"""Share of the absolute mass below which a signed belief's probability is noise."""


_ULP = 2.0**-53
_BELOW_ONE = 1.0 - 2.0**-52


class Problem(NamedTuple):
    """What simulation needs of a model and its reward, rewards scaled to at most one."""

    updates: Floats  # (actions, observations, k, k), of what the model calls events
    final: Floats  # (k,)
    shows: Floats  # (actions, k, observations): updates @ final
    shown: Floats  # shows, cumulative over observations
    following: Floats  # updates, cumulative over the next coordinate
    moves: Floats  # (actions, k, k): updates summed over observations, cumulative over the next coordinate
    labels: Ints  # (k,): cell of every coordinate
    symbol_rewards: Floats  # (actions, observations)
    cell_rewards: Floats  # (actions, cells): paid on leaving a state of the cell by the action
    cells_pay: bool  # whether any of these is not zero
    expected: Floats  # (actions, k): expected reward of an action, linear in the belief
    legal: Ints  # actions to choose from
    sampling: int
    leaves: Floats  # (vectors, k): values to end a simulation with, the largest of them; none: act at random instead


class Settings(NamedTuple):
    """How a search explores."""

    depth: int
    exploration: float
    logarithmic: bool
    discount: float
    max_nodes: int
    stretch: int  # steps at random per kernel call, where `search` itself is not compiled


class Tree(NamedTuple):
    """Node 0 is the root; the arrays have room for more nodes than ``size[0]``."""

    size: Ints  # (1,)
    deepest: Ints  # (1,): most steps that a simulation took inside the tree
    closing: Floats  # (2,): sum and number of the rewards of the window's last step, this search
    parent: Indices  # (nodes,)
    action: Indices  # (nodes,): the action that led here from the parent
    symbol: Indices  # (nodes,): the observation that led here
    sibling: Indices  # (nodes,): the next child of the same (parent, action), or -1
    child: Indices  # (nodes, actions): the first child, or -1
    visits: Indices  # (nodes, actions)
    values: Floats  # (nodes, actions): mean return


@bare
def uniform(random):  # type: ignore[no-untyped-def]
    """The next number in [0, 1) of a xoroshiro128 stream, whose two words are advanced in place.

    The words are added as fractions modulo one, so that nothing overflows, compiled or not. A NumPy
    generator called from a kernel costs several times as much, which is half of a simulation.
    """
    first = random[0]
    second = random[1]
    fraction = (first >> np.uint64(11)) * _ULP + (second >> np.uint64(11)) * _ULP
    second ^= first
    random[0] = ((first << np.uint64(24)) | (first >> np.uint64(40))) ^ second ^ (second << np.uint64(16))
    random[1] = (second << np.uint64(37)) | (second >> np.uint64(27))
    return fraction - 1.0 if fraction >= 1.0 else fraction


@bare
def copy_into(target, source):  # type: ignore[no-untyped-def]
    """``target[:] = source``, which numba takes seconds to compile."""
    for i in range(target.shape[0]):
        target[i] = source[i]


@bare
def draw_cumulative(cumulative, chance):  # type: ignore[no-untyped-def]
    """Index drawn from cumulative weights; never one of zero weight.

    The target stays below the last cumulative weight, whatever the rounding. Counting instead of
    stopping keeps the processor from guessing wrong.
    """
    target = chance * cumulative[cumulative.shape[0] - 1] * _BELOW_ONE
    index = 0
    for i in range(cumulative.shape[0]):
        index += cumulative[i] <= target
    return index


@bare
def draw_weights(weights, chance):  # type: ignore[no-untyped-def]
    """Index drawn from weights that sum to one; never one of zero weight."""
    last = 0
    total = 0.0
    for i in range(weights.shape[0]):
        if weights[i] > 0.0:
            last = i
            total += weights[i]
            if chance < total:
                return i
    return last


@bare
def project(weights):  # type: ignore[no-untyped-def]
    """Move ``weights`` (in place) to the nearest distribution whose support is where they are positive.

    Returns False if they are positive nowhere. Threshold by repeated removal: what falls below the
    common shift leaves the support, until nothing does.
    """
    n = weights.shape[0]
    total = 0.0
    support = 0
    proper = True
    for i in range(n):
        if weights[i] > 0.0:
            total += weights[i]
            support += 1
        elif weights[i] < 0.0:
            weights[i] = 0.0
            proper = False
    if support == 0:
        return False
    if proper and abs(total - 1.0) < 1e-9:
        return True
    removed = True
    while removed:
        removed = False
        shift = (total - 1.0) / support
        for i in range(n):
            if 0.0 < weights[i] <= shift:
                total -= weights[i]
                support -= 1
                weights[i] = 0.0
                removed = True
    for i in range(n):
        if weights[i] > 0.0:
            weights[i] -= shift
    return True


@bare
def advance(updates, final, belief, action, observation, after):  # type: ignore[no-untyped-def]
    """Write the belief after one step to ``after``; False if the step is impossible under ``belief``.

    A signed (quasi-)belief whose probability is lost in cancellation counts as impossible, too: dividing
    by it would only blow up noise.
    """
    k = belief.shape[0]
    for j in range(k):
        after[j] = 0.0
    for i in range(k):
        weight = belief[i]
        if weight != 0.0:
            for j in range(k):
                after[j] += weight * updates[action, observation, i, j]
    probability = 0.0
    magnitude = 0.0
    for j in range(k):
        mass = after[j] * final[j]
        probability += mass
        magnitude += abs(mass)
    if not probability > _IMPOSSIBLE * magnitude:
        return False
    for j in range(k):
        after[j] /= probability
    return True


@bare
def cell_masses(labels, final, belief, masses):  # type: ignore[no-untyped-def]
    """Probability of every cell under ``belief``, projected; False if no cell has any."""
    for c in range(masses.shape[0]):
        masses[c] = 0.0
    for i in range(belief.shape[0]):
        masses[labels[i]] += belief[i] * final[i]
    return project(masses)


@bare
def restrict(labels, final, belief, cell):  # type: ignore[no-untyped-def]
    """Condition ``belief`` (in place) on a cell; False if its mass is lost in cancellation."""
    mass = 0.0
    magnitude = 0.0
    for i in range(belief.shape[0]):
        if labels[i] == cell:
            mass += belief[i] * final[i]
            magnitude += abs(belief[i] * final[i])
        else:
            belief[i] = 0.0
    if not mass > _IMPOSSIBLE * magnitude:
        return False
    for i in range(belief.shape[0]):
        belief[i] /= mass
    return True


@bare
def draw_row(table, action, state, chance):  # type: ignore[no-untyped-def]
    """`draw_cumulative` of ``table[action, state]``, without the view, which costs more than the drawing."""
    target = chance * table[action, state, table.shape[2] - 1] * _BELOW_ONE
    index = 0
    for i in range(table.shape[2]):
        index += table[action, state, i] <= target
    return index


@bare
def draw_following(following, action, observation, state, chance):  # type: ignore[no-untyped-def]
    """`draw_cumulative` of ``following[action, observation, state]``, without the view."""
    target = chance * following[action, observation, state, following.shape[3] - 1] * _BELOW_ONE
    index = 0
    for i in range(following.shape[3]):
        index += following[action, observation, state, i] <= target
    return index


@bare
def draw_mixture(updates, final, shows, action, belief, chances, after, random):  # type: ignore[no-untyped-def]
    """Draw an observation from the projected mixture under ``belief``, and advance it (in place) by the step.

    Leaves the mixture in ``chances``. The observation is -1 where nothing can follow.
    """
    for o in range(chances.shape[0]):
        chances[o] = 0.0
    for i in range(belief.shape[0]):
        weight = belief[i]
        if weight != 0.0:
            for o in range(chances.shape[0]):
                chances[o] += weight * shows[action, i, o]
    if not project(chances):
        return -1
    observation = draw_weights(chances, uniform(random))
    if not advance(updates, final, belief, action, observation, after):
        return -1
    copy_into(belief, after)
    return observation


@bare
def step_belief(problem, action, belief, masses, chances, after, random):  # type: ignore[no-untyped-def]
    """One step of a whole belief (in place): (observation, reward).

    By cell: a cell is drawn from the projected cell probabilities, the belief is restricted to it, and the
    observation is drawn from the projected mixture of that cell. By belief: the observation is drawn from
    the projected mixture of all, and the reward is its expectation under that mixture.
    """
    final, symbol_rewards = problem.final, problem.symbol_rewards
    by_cell = problem.sampling == BY_CELL
    reward = 0.0
    if by_cell or problem.cells_pay:
        labels, cell_rewards = problem.labels, problem.cell_rewards
        if not cell_masses(labels, final, belief, masses):
            return -1, 0.0
        if by_cell:
            cell = draw_weights(masses, uniform(random))
            reward = cell_rewards[action, cell]
            if not restrict(labels, final, belief, cell):
                return -1, reward
        else:
            for c in range(masses.shape[0]):
                reward += masses[c] * cell_rewards[action, c]
    observation = draw_mixture(problem.updates, final, problem.shows, action, belief, chances, after, random)
    if by_cell and observation >= 0:
        reward += symbol_rewards[action, observation]
    elif not by_cell:
        for o in range(chances.shape[0]):
            reward += chances[o] * symbol_rewards[action, o]
    return observation, reward


@bare
def link_node(tree, parent, action, symbol):  # type: ignore[no-untyped-def]
    """Append a node below (parent, action), at the head of its list; returns its index."""
    node = tree.size[0]
    tree.size[0] = node + 1
    tree.parent[node] = parent
    tree.action[node] = action
    tree.symbol[node] = symbol
    tree.sibling[node] = -1
    if parent >= 0:
        tree.sibling[node] = tree.child[parent, action]
        tree.child[parent, action] = node
    return node


@bare
def new_node(tree, parent, action, symbol):  # type: ignore[no-untyped-def]
    """Append a node that was never visited; returns its index."""
    node = link_node(tree, parent, action, symbol)
    for a in range(tree.child.shape[1]):
        tree.child[node, a] = -1
        tree.visits[node, a] = 0
        tree.values[node, a] = 0.0
    return node


@bare
def find_child(child, sibling, symbol, node, action, observation):  # type: ignore[no-untyped-def]
    """The child of ``node`` by (action, observation), or -1."""
    found = child[node, action]
    while found >= 0 and symbol[found] != observation:
        found = sibling[found]
    return found


@bare
def choose(visits, values, node, legal, exploration, logarithmic, random):  # type: ignore[no-untyped-def]
    """The action to explore: an untried one if any, else the largest value plus bonus; ties by lot."""
    total = 0
    untried = 0
    for i in range(legal.shape[0]):
        n = visits[node, legal[i]]
        total += n
        if n == 0:
            untried += 1
    if untried > 0:
        skip = int(uniform(random) * untried)
        for i in range(legal.shape[0]):
            if visits[node, legal[i]] == 0:
                if skip == 0:
                    return legal[i]
                skip -= 1
    width = exploration * (np.sqrt(np.log(total)) if logarithmic else np.sqrt(np.sqrt(total)))
    best = legal[0]
    highest = -np.inf
    ties = 1
    for i in range(legal.shape[0]):
        action = legal[i]
        score = values[node, action] + width / np.sqrt(visits[node, action])
        if score > highest:
            highest = score
            best = action
            ties = 1
        elif score == highest:
            ties += 1
            if uniform(random) * ties < 1.0:
                best = action
    return best


@bare
def roll_out_state(moves, expected, legal, steps, discount, state, total, weight, random):  # type: ignore[no-untyped-def]
    """Act at random from a hidden state: (discounted sum of rewards, next weight, last reward, state).

    ``total`` and ``weight`` are what an earlier stretch of the same simulation came to. Nobody looks at what is seen
    on the way, so the reward of a step is its expectation and the next state is drawn from all ways to it at once.
    """
    reward = 0.0
    for _ in range(steps):
        action = legal[int(uniform(random) * legal.shape[0])]
        reward = expected[action, state]
        state = draw_row(moves, action, state, uniform(random))
        total += weight * reward
        weight *= discount
    return total, weight, reward, state


@bare
def roll_out_belief(problem, steps, discount, belief, total, weight, masses, chances, after, random):  # type: ignore[no-untyped-def]
    """Act at random from a whole belief, which is advanced in place: (discounted sum of rewards, next weight, last
    reward, last observation, which is negative where nothing can follow)."""
    reward = 0.0
    observation = 0
    legal = problem.legal
    for _ in range(steps):
        action = legal[int(uniform(random) * legal.shape[0])]
        observation, reward = step_belief(problem, action, belief, masses, chances, after, random)
        total += weight * reward
        weight *= discount
        if observation < 0:
            break
    return total, weight, reward, observation


@bare
def back_up(visits, values, nodes, actions, rewards, length, tail, discount):  # type: ignore[no-untyped-def]
    """Average the return from every node of the path on into its action's value."""
    for i in range(length - 1, -1, -1):
        tail = rewards[i] + discount * tail
        node = nodes[i]
        action = actions[i]
        visits[node, action] += 1
        values[node, action] += (tail - values[node, action]) / visits[node, action]


@bare
def leaf_value(leaves, belief):  # type: ignore[no-untyped-def]
    """The largest product of ``belief`` with a row of ``leaves``."""
    highest = -np.inf
    for i in range(leaves.shape[0]):
        total = 0.0
        for j in range(belief.shape[0]):
            total += leaves[i, j] * belief[j]
        highest = max(highest, total)
    return highest


@kernel
def search(problem, settings, tree, belief, simulations, random):  # type: ignore[no-untyped-def]
    """Grow ``tree`` by ``simulations`` simulations from ``belief``.

    A simulation walks down the tree while it knows the history, adds the first history that it does not
    know, and acts at random for the rest of the window, in stretches: where one window takes longer than Ctrl-C should
    wait, this function is run as Python, and every stretch is a kernel call. With ``leaves`` it ends there instead,
    with the value of where it has come to: of the state, if there is one row of them, else of the exact belief.
    """
    k = belief.shape[0]
    longest = min(settings.depth, tree.size[0] + simulations + 1)
    nodes, actions, rewards = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest)
    particle, after, starting = np.empty(k), np.empty(k), np.empty(k)
    masses, chances = np.empty(problem.cell_rewards.shape[1]), np.empty(problem.shows.shape[2])
    mass = 0.0
    for i in range(k):
        mass += max(belief[i], 0.0)
        starting[i] = mass
    # locals, because reading a field of a tuple costs a reference count
    legal, shown, following = problem.legal, problem.shown, problem.following
    symbol_rewards, cell_rewards = problem.symbol_rewards, problem.cell_rewards
    moves, expected = problem.moves, problem.expected
    size, child, sibling, symbol = tree.size, tree.child, tree.sibling, tree.symbol
    visits, values = tree.visits, tree.values
    horizon, discount = settings.depth, settings.discount
    by_state = problem.sampling == BY_STATE
    leaves, valued = problem.leaves, problem.leaves.shape[0]
    state = 0
    closing = 0.0
    for _ in range(simulations):
        if by_state:
            state = draw_cumulative(starting, uniform(random))
        if not by_state or valued > 1:
            copy_into(particle, belief)
        node = 0
        observation = 0
        length = 0
        while node >= 0 and length < horizon:
            action = choose(visits, values, node, legal, settings.exploration, settings.logarithmic, random)
            if by_state:
                observation = draw_row(shown, action, state, uniform(random))
                reward = symbol_rewards[action, observation] + cell_rewards[action, state]
                state = draw_following(following, action, observation, state, uniform(random))
                if valued > 1 and advance(
                    problem.updates, problem.final, particle, action, observation, after
                ):
                    copy_into(particle, after)
            else:
                observation, reward = step_belief(problem, action, particle, masses, chances, after, random)
            nodes[length], actions[length], rewards[length] = node, action, reward
            length += 1
            below = -1
            if observation >= 0:
                below = find_child(child, sibling, symbol, node, action, observation)
                if below < 0 and length < horizon and size[0] < settings.max_nodes:
                    new_node(tree, node, action, observation)
            node = below
        tail = 0.0
        weight = 1.0
        last = rewards[length - 1]
        left = horizon - length
        if valued > 0:
            left = 0
            last = 0.0  # nothing is missing from what is kept
            if observation >= 0:
                tail = leaves[0, state] if by_state and valued == 1 else leaf_value(leaves, particle)
        while left > 0 and observation >= 0:
            steps = min(left, settings.stretch)
            if by_state:
                tail, weight, last, state = roll_out_state(
                    moves, expected, legal, steps, discount, state, tail, weight, random
                )
            else:
                tail, weight, last, observation = roll_out_belief(
                    problem, steps, discount, particle, tail, weight, masses, chances, after, random
                )
            left -= steps
        back_up(visits, values, nodes, actions, rewards, length, tail, discount)
        closing += last
        tree.deepest[0] = max(tree.deepest[0], length)
    tree.closing[0] += closing
    tree.closing[1] += simulations


@bare
def decide(tree, legal, expected, belief, values, random):  # type: ignore[no-untyped-def]
    """The legal action of the largest mean return at the root, ties by lot; fills ``values``.

    An action never tried is worth its expected immediate reward, and is taken only if none was tried.
    """
    tried = 0
    for a in range(values.shape[0]):
        values[a] = -np.inf
    for i in range(legal.shape[0]):
        action = legal[i]
        values[action] = tree.values[0, action]
        if tree.visits[0, action] > 0:
            tried += 1
        else:
            values[action] = 0.0
            for j in range(belief.shape[0]):
                values[action] += belief[j] * expected[action, j]
    best = legal[0]
    highest = -np.inf
    ties = 1
    for i in range(legal.shape[0]):
        action = legal[i]
        if tried > 0 and tree.visits[0, action] == 0:
            continue
        if values[action] > highest:
            highest = values[action]
            best = action
            ties = 1
        elif values[action] == highest:
            ties += 1
            if uniform(random) * ties < 1.0:
                best = action
    return best


@bare
def new_root(tree):  # type: ignore[no-untyped-def]
    """Forget every node and begin with an empty root."""
    tree.size[0] = 0
    tree.deepest[0] = 0
    tree.closing[0] = 0.0
    tree.closing[1] = 0.0
    new_node(tree, -1, -1, -1)


@kernel
def keep_subtree(tree, settings, action, observation):  # type: ignore[no-untyped-def]
    """Make the child by (action, observation) the root, in place; a history never simulated starts anew.

    The kept returns end one step before the window that now begins. The mean reward of the last step so
    far stands in for that step: without it, actions tried before would look better or worse than
    actions tried from now on.
    """
    root = -1
    if observation >= 0:
        root = find_child(tree.child, tree.sibling, tree.symbol, 0, action, observation)
    if root < 0:
        new_root(tree)
        return
    size = tree.size[0]
    mean = tree.closing[0] / tree.closing[1] if tree.closing[1] > 0.0 else 0.0
    place = np.empty(size, np.int64)
    missing = np.empty(size - root)  # value of the step that returns from a kept node lack
    for node in range(root):
        place[node] = -1
    tree.size[0] = 0
    for node in range(root, size):
        parent = -1 if node == root else place[tree.parent[node]]
        place[node] = -1
        if node == root or parent >= 0:
            target = tree.size[0]
            place[node] = target
            if node == root:
                missing[target] = mean * settings.discount ** (settings.depth - 1)
                link_node(tree, -1, -1, -1)
            else:
                missing[target] = missing[parent] / settings.discount
                link_node(tree, parent, tree.action[node], tree.symbol[node])
            for a in range(tree.visits.shape[1]):
                tree.child[target, a] = -1
                tree.visits[target, a] = tree.visits[node, a]
                tree.values[target, a] = tree.values[node, a] + missing[target]
    tree.deepest[0] = max(tree.deepest[0] - 1, 0)
    tree.closing[0] = 0.0
    tree.closing[1] = 0.0


@bare
def advance_real(updates, final, belief, action, going_on, ended, after):  # type: ignore[no-untyped-def]
    """Write the belief after a real step to ``after``: the code of the event that it took to be, or -1 if neither is
    possible. An episode that may go on does, since somebody tells of it."""
    if going_on >= 0 and advance(updates, final, belief, action, going_on, after):
        return going_on
    if ended >= 0 and advance(updates, final, belief, action, ended, after):
        return ended
    return -1


@kernel
def follow(updates, final, initial, mixing, policy, belief, action, going_on, ended):  # type: ignore[no-untyped-def]
    """Advance ``belief`` (in place) by a real step: the code of its event, or -1 if the step was impossible.

    ``going_on`` and ``ended`` are the events that agree with what was seen; -1 where there is none. What becomes of the
    belief after an impossible step is the policy's: it stays (raise), starts again (reset), or becomes what the step
    alone tells of ``mixing``, which it is itself if the step tells nothing (mix).
    """
    after = np.empty(belief.shape[0])
    event = advance_real(updates, final, belief, action, going_on, ended, after)
    if event >= 0:
        copy_into(belief, after)
    elif policy == MIX:
        told = advance_real(updates, final, mixing, action, going_on, ended, after)
        copy_into(belief, after if told >= 0 else mixing)
    elif policy == RESET:
        copy_into(belief, initial)
    return event


class World(NamedTuple):
    """The true system, its actions in the planner's order, and what the planner makes of what it shows."""

    starting: Floats  # (states,): cumulative
    first: (
        Floats  # (states, first observations): cumulative; empty if nothing is shown before the first action
    )
    beginnings: Floats  # (first observations, k): the planner's belief after each
    possible: Flags  # (first observations,): whether the planner held it possible
    shown: Floats  # (actions, states, events): cumulative
    following: Floats  # (actions, events, states, states): cumulative
    symbol_rewards: Floats  # (actions, events)
    state_rewards: Floats  # (actions, states)
    ends: Flags  # (events,): whether the episode is over
    going_on: Ints  # (events,): the planner's event that agrees and lets the episode go on, or -1
    ended: Ints  # (events,): the planner's event that agrees and ends it, or -1


@kernel
def play(  # type: ignore[no-untyped-def]
    world,
    uniforms,
    problem,
    settings,
    simulations,
    tree,
    reuse,
    initial,
    mixing,
    policy,
    random,
    totals,
    occupancy,
    collapses,
    lengths,
    ended,
):
    """Act out one episode per row of ``uniforms``: start, first observation if there is one, then observation and next
    state of every step.

    Adds to ``totals`` (episodes,), ``occupancy`` (episodes, states), ``collapses``, ``lengths`` and ``ended``
    (episodes,).
    """
    belief = np.empty(initial.shape[0])
    values = np.empty(tree.values.shape[1])
    opens = world.first.shape[1] > 0
    for episode in range(uniforms.shape[0]):
        copy_into(belief, initial)
        new_root(tree)
        state = draw_cumulative(world.starting, uniforms[episode, 0])
        if opens:
            first = draw_cumulative(world.first[state], uniforms[episode, 1])
            copy_into(belief, world.beginnings[first])
            if not world.possible[first]:
                collapses[episode] += 1
        for t in range(2 if opens else 1, uniforms.shape[1], 2):
            search(problem, settings, tree, belief, simulations, random)
            action = decide(tree, problem.legal, problem.expected, belief, values, random)
            event = draw_row(world.shown, action, state, uniforms[episode, t])
            occupancy[episode, state] += 1
            lengths[episode] += 1
            totals[episode] += world.symbol_rewards[action, event] + world.state_rewards[action, state]
            state = draw_following(world.following, action, event, state, uniforms[episode, t + 1])
            seen = follow(
                problem.updates,
                problem.final,
                initial,
                mixing,
                policy,
                belief,
                action,
                world.going_on[event],
                world.ended[event],
            )
            if seen < 0:
                collapses[episode] += 1
            if seen >= 0 and reuse:
                keep_subtree(tree, settings, action, seen)
            else:
                new_root(tree)
            if world.ends[event]:
                ended[episode] = True
                break
