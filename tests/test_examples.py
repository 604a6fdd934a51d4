"""The examples run by themselves, from any folder, and come to what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

PROMISES = {
    "open_the_lockbox.py": r"^5 states; .*\nwith a plan: (9\d|100) of 100, after [34]\.\d steps",
    "learn_from_a_csv.py": r"^4 states; .*\nignored_columns: not read: 'battery'\n(.*\n)*POMDP\(4 states, .*\) 4$",
    "where_episodes_end.py": r"^6 states, of which 2 are ends\nat the goal in 100% of the episodes",
    "an_agent_from_nothing.py": (
        r"^the agent: 9\d% of the boxes open within 10 steps, learned from 1142 steps\nrandom poking: as much from 1142"
    ),
    "a_new_goal.py": r"^3 states; .*\nwhat was paid in the log: [67]\.\d ± ",
    "a_real_environment.py": r"^12 states; .*\n4 of them are ends\nwith a plan: (19|20) of 20$",
}
"""What each prints, among other things."""


def test_every_example_is_tested_and_listed() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == set(PROMISES)
    listed = re.findall(r"^\| \[(\w+\.py)\]\(\1\) \| \S", (EXAMPLES / "README.md").read_text(), flags=re.M)
    assert sorted(listed) == sorted(scripts)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("script", PROMISES)
def test_examples_keep_their_promise(script: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(PROMISES[script], done.stdout, flags=re.M), done.stdout
