"""Open a lockbox from nothing: an agent that learns as it goes, beside the same learning from random poking."""

import unlatch

truth = unlatch.domains.lockbox()
SEED, FIRST, EPISODE, MOST = 404, 225, 100, 2_000
# One seed is a story; docs/planning.md has the medians of many.


def opened(policy: unlatch.Policy | None) -> float:
    """Share of the boxes that a plan has open within ten steps; the best plan there is: .96."""
    if policy is None:
        return 0.0
    return unlatch.run_episodes(truth, policy, episodes=300, steps=10, rng=0).mean


agent = unlatch.Agent(truth, seed=SEED, first=FIRST, episode_steps=EPISODE, emission="arrival")
agent.run_until(lambda it: opened(it.policy) >= 0.85, most=MOST)
for found in agent.rounds:
    print(f"{found.steps} steps: {found.states} states, {found.gain:.3f} nats expected from a step")
print(
    f"the agent: {opened(agent.policy):.0%} of the boxes open within 10 steps, learned from {len(agent)} steps"
)

steps = FIRST
while steps < MOST:
    log = unlatch.simulate(truth, EPISODE, total=steps, rng=SEED)
    model = unlatch.learn_pomdp(log, emission="arrival", rng=SEED).pomdp
    if opened(unlatch.solve(unlatch.Problem(model), time_limit=5)) >= 0.85:
        print(f"random poking: as much from {steps} steps")
        break
    steps = -(-steps * 3 // 2)
else:
    print(f"random poking: not as much from {MOST} steps")
