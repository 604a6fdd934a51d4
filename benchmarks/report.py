"""How long a report takes and how large it is, after learning, for five systems.

    python benchmarks/report.py [--out DIR] [--time-limit 300]

Every system is learned from a simulated log, unless DIR already has its model and log from an earlier run. Then the
page is made without and with the truth, twice each; the second time is the one that counts, as the first loads
libraries. Where there is a Chromium, also the smallest label of the graphs at a width of 1280 pixels.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import unlatch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from browser import browser, chromium

SYSTEMS = {
    "tiger": ("tiger", 50_000),
    "tmaze14": ("tmaze:rooms=6,fail=0.1", 60_000),
    "sfr4": ("sense-float-reset:states=4", 50_000),
    "room48": ("room:rows=6,columns=8,slip=0.1", 60_000),
    "lockbox": ("lockbox", 20_000),
}
SMALLEST = (
    "Math.min(...[...document.querySelectorAll('figure:not([hidden]) svg')].flatMap((svg) => {"
    " const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;"
    " return [...svg.querySelectorAll('text')].map((t) => scale * parseFloat(getComputedStyle(t).fontSize)); }))"
)


def learned(
    name: str, folder: Path, limit: float
) -> tuple[unlatch.SavedModel, unlatch.Trajectory, unlatch.POMDP]:
    """A model, its log and the truth; from the folder if they are there."""
    domain, steps = SYSTEMS[name]
    truth = unlatch.domains.by_name(domain)
    model, log = folder / f"{name}.json", folder / f"{name}.csv"
    if not model.exists():
        made = unlatch.simulate(
            truth, 50 if truth.terminal else steps, total=steps if truth.terminal else None, rng=1
        )
        unlatch.write_log(log, made)
        unlatch.save_model(model, unlatch.learn_pomdp(made, time_limit=limit, rng=1))
    return unlatch.load_model(model), unlatch.read_log(log), truth


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/reports"))
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds for learning one system")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    print("| system | states | seconds of processor time | kB | with truth: s | kB |")
    print("|---|---|---|---|---|---|")
    for name in SYSTEMS:
        saved, log, truth = learned(name, arguments.out, arguments.time_limit)
        row = [name, str(saved.model.n_states)]
        for title, true in (("", None), ("-truth", truth)):
            path = arguments.out / f"{name}{title}.html"
            for _ in range(2):
                begun = time.process_time()
                unlatch.write_report(path, saved, log=log, truth=true)
                spent = time.process_time() - begun
            row += [f"{spent:.2f}", f"{path.stat().st_size / 1000:.0f}"]
        print(f"| {' | '.join(row)} |", flush=True)
    if chromium() is not None:
        with browser() as page:
            for name in SYSTEMS:
                page.open(arguments.out / f"{name}.html")
                print(
                    f"{name}: smallest label {page.evaluate(SMALLEST):.1f} px; complaints {page.complaints()}"
                )


if __name__ == "__main__":
    main()
