"""Builds the wheel and the source distribution, installs each into an empty environment, and learns a model there.

``make dist-check``. Minutes, not part of ``make test``; what was built is left in ``out/dist``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "out" / "dist"
LEARN = """
import unlatch
log = unlatch.simulate(unlatch.domains.tiger(), 2_000, rng=1)
unlatch.save_model("tiger.json", unlatch.learn_pomdp(log, rng=1))
assert unlatch.load_model("tiger.json").pomdp.n_states == 2
unlatch.write_report("tiger.html", unlatch.domains.tiger())
assert unlatch.doctor().problems == (), unlatch.doctor()
print("learned Tiger with", unlatch.__file__)
"""


def run(*command: str | Path, folder: Path = ROOT) -> None:
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], cwd=folder, check=True)


def empty_environment(folder: Path) -> Path:
    """The Python of a new environment that has nothing but pip."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def build(folder: Path) -> list[Path]:
    """The wheel, and the source distribution."""
    python = empty_environment(folder / "build")
    run(python, "-m", "pip", "install", "--quiet", "hatchling")
    shutil.rmtree(BUILT, ignore_errors=True)
    run(python, "-m", "hatchling", "build", "-d", BUILT)
    return sorted(BUILT.iterdir())


def check(package: Path, folder: Path) -> None:
    """Install one of them where there is nothing else, and use it from a folder that is not the clone."""
    python = empty_environment(folder / package.suffix.strip("."))
    elsewhere = Path(tempfile.mkdtemp(dir=folder))
    run(python, "-m", "pip", "install", "--quiet", package, folder=elsewhere)
    run(python, "-W", "error", "-c", LEARN, folder=elsewhere)
    run(python.parent / "unlatch", "doctor", folder=elsewhere)
    run(python.parent / "unlatch", "show", "tiger.json", "--action", "listen", folder=elsewhere)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        packages = build(Path(folder))
        assert [package.suffix for package in packages] == [".whl", ".gz"], packages
        for package in reversed(packages):
            check(package, Path(folder))
    print("both install and learn:", *(package.name for package in packages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
