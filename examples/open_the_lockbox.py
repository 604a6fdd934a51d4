"""A robot pokes at a box whose joints lock one another; from that log alone the box is understood, and opened.

A smaller box than that of the tutorial (docs/tutorial.md): two joints and a door, five states, a few seconds.
"""

import unlatch

truth = unlatch.domains.lockbox(joints=2)
log = unlatch.simulate(truth, 50, total=5_000, rng=1)  # attempts of at most 50 steps, at random
print(f"{int(log.terminated.sum())} of {log.n_episodes} attempts opened the box by chance")

result = unlatch.learn_pomdp(log, rng=1)
print(result.evidence)

planner = unlatch.POUCT(result.pomdp, depth=5, rng=1)
played = unlatch.run_episodes(truth, planner, episodes=100, steps=20, rng=1)
print(
    f"with a plan: {int(played.ended.sum())} of {len(played)}, after {played.lengths.mean():.1f} steps on average"
)
