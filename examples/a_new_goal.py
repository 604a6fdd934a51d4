"""A model is learned once, and serves goals that nobody had in mind while the log was made."""

import unlatch

truth = unlatch.domains.sense_float_reset(3)
result = unlatch.learn_pomdp(unlatch.simulate(truth, 3_000, rng=1), rng=1)
model = result.pomdp
print(result.evidence)


def gathered(goal: unlatch.Reward) -> str:
    planner = unlatch.POUCT(model, goal, depth=4, rng=1)
    played = unlatch.run_episodes(truth, planner, episodes=200, steps=10, reward=goal, rng=1)
    return f"{played.mean:.1f} ± {played.standard_error:.1f} in ten steps"


print(f"what was paid in the log: {gathered(unlatch.Reward.learned(model))}")
for observation in model.observation_names:
    goal = unlatch.Reward.on_observations({("float", observation): 1.0})
    print(f"to float and see {observation}: {gathered(goal)}")
