"""Learn from a CSV file with column names of its own, look at the notes, save the model, load it again."""

import csv

import unlatch

# A file as a robot of yours may have written it: the columns are called "do" and "see", and there is one more.
source = unlatch.simulate(unlatch.domains.tmaze(), 3_000, rng=1)
with open("robot.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["do", "see", "battery"])
    for action, observation in zip(source.actions, source.observations, strict=True):
        writer.writerow([source.action_names[action], source.observation_names[observation], 0.97])

log = unlatch.read_log("robot.csv", action="do", observation="see")
result = unlatch.learn_pomdp(log, rng=1)
print(result.evidence)
for note in result.diagnostics:
    print(note)

unlatch.save_model("robot.json", result)
saved = unlatch.load_model("robot.json")
print(saved.model, saved.evidence.states)
