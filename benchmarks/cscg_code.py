"""CSCG's own code, from a path: trained on our logs, and judged by them.

`chmm_actions.py` of github.com/vicariousinc/naturecomm_cscg is not shipped; whoever compares has it somewhere.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from unlatch import Trajectory

CSCG_FILE = "chmm_actions.py"
PSEUDOCOUNT = 2e-3
EM_ROUNDS, VITERBI_ROUNDS = 1000, 100
"""As in the notebook that comes with CSCG: EM with a small count everywhere, then Viterbi training with none."""

ROUNDS_AT_ONCE = 10
"""Of EM, between two looks at the clock."""


def as_cscg(log: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """Observations, and with each of them the action that follows it; what follows the last is of no account."""
    following = np.append(log.actions[1:], 0)
    return log.observations.astype(np.int64), following.astype(np.int64)


def trained(
    code: ModuleType,
    clones: np.ndarray,
    log: Trajectory,
    seed: int,
    *,
    rounds: int = EM_ROUNDS,
    most_seconds: float = 3600.0,
) -> tuple[Any, int, bool]:
    """A model trained by EM, the rounds of EM that it took, and whether the time for them was up first."""
    seen, actions = as_cscg(log)
    model = code.CHMM(n_clones=clones, x=seen, a=actions, pseudocount=PSEUDOCOUNT, seed=seed)
    begun, done, last, cut = time.process_time(), 0, np.inf, False
    while done < rounds and not cut:
        at_once = min(ROUNDS_AT_ONCE, rounds - done)
        bits = model.learn_em_T(seen, actions, n_iter=at_once)
        done += len(bits)
        if len(bits) < at_once or bits[-1] >= last:
            break
        last, cut = bits[-1], time.process_time() - begun > most_seconds
    return model, done, cut


def hardened(model: Any, log: Trajectory) -> Any:
    """The same model after Viterbi training, as its authors use it in worlds without noise."""
    model.pseudocount = 0.0
    model.learn_viterbi_T(*as_cscg(log), n_iter=VITERBI_ROUNDS)
    return model


def states_used(model: Any, log: Trajectory) -> int:
    """Clones on the likeliest path through a log."""
    return len(np.unique(model.decode(*as_cscg(log))[1]))


def bits(model: Any, log: Trajectory) -> tuple[np.ndarray, bool]:
    """Bits of every step; if one is impossible, with the small count of the training everywhere."""
    try:
        return model.bps(*as_cscg(log)), False
    except AssertionError:
        model.pseudocount = PSEUDOCOUNT
        model.update_T()
        return model.bps(*as_cscg(log)), True


@cache
def loaded(path: Path) -> ModuleType:
    """CSCG's one file, without the progress bar that it imports; once a process, as it compiles."""
    file = path / CSCG_FILE if path.is_dir() else path
    known = sys.modules.get("tqdm")
    sys.modules["tqdm"] = _no_progress_bar()
    try:
        spec = importlib.util.spec_from_file_location("chmm_actions", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        del sys.modules["tqdm"]
        if known is not None:
            sys.modules["tqdm"] = known
    return module


def _no_progress_bar() -> ModuleType:
    class Silent:
        """Counts, and shows nothing."""

        def __init__(self, n: int, **_: Any) -> None:
            self._n = n

        def __iter__(self) -> Iterator[int]:
            return iter(range(self._n))

        def set_postfix(self, **_: Any) -> None:
            pass

    module = ModuleType("tqdm")
    module.trange = Silent  # type: ignore[attr-defined]
    return module
