"""A walk over ice that ends in a hole or at a goal: endings are learned, and planned with."""

import unlatch

truth = unlatch.domains.frozen_lake(lake=["SFF", "HFG"], slippery=False, observe="column")
log = unlatch.simulate(truth, 50, total=5_000, rng=1)  # `terminated` says where an episode ended for good
print(log)

result = unlatch.learn_pomdp(log, emission="arrival", rng=1)  # known here: what is seen is the cell reached
model = result.pomdp
print(f"{result.states} states, of which {len(model.terminal)} are ends")

planner = unlatch.ExactPlanner(model, horizon=8)
played = unlatch.run_episodes(truth, planner, episodes=50, steps=8, rng=1)
print(f"at the goal in {played.mean:.0%} of the episodes, after {played.lengths.mean():.1f} steps")
