"""A log recorded from a Gymnasium environment, of which only a part is seen; the plan acts in the environment itself.

Needs Gymnasium: ``pip install "unlatch[gymnasium]"``.
"""

import gymnasium

import unlatch

# A lake whose ice has holes (H); the agent sees the column that it is in, and never the row.
LAKE = ["SFFH", "HFFF", "FFHG"]
NAMES = ["left", "down", "right", "up"]


def column(cell: int) -> str:
    return str(int(cell) % 4)


env = gymnasium.make("FrozenLake-v1", desc=LAKE, is_slippery=False)
log = unlatch.record(env, 5_000, seed=1, observe=column, action_names=NAMES)  # acts at random
print(log)
print(f"{int(log.rewards.sum())} of {log.n_episodes} episodes came to the goal by chance")

result = unlatch.learn_pomdp(log, emission="arrival", rng=1)  # known here: what is seen is the cell reached
print(result.evidence)
model = result.pomdp
print(f"{len(model.terminal)} of them are ends")

planner = unlatch.POUCT(model, depth=8, rng=1)
reached = 0
for episode in range(20):
    seen, _ = env.reset(seed=episode)
    planner.reset(column(seen))
    for _ in range(10):
        action = model.action_names[planner.action()]
        seen, reward, ended, cut, _ = env.step(NAMES.index(action))
        if ended or cut:
            break
        planner.observe(action, column(seen), float(reward))
    reached += reward > 0
print(f"with a plan: {reached} of 20")
