"""What every test shares: Hypothesis profiles, strict floating point, and kernels in both their versions."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from sizes import UNCOMPILED

settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("uncompiled", deadline=None, max_examples=5, derandomize=True)

settings.load_profile("uncompiled" if UNCOMPILED else "ci" if os.environ.get("CI") else "local")

SECONDS = {"setup": 150, "call": 5}
"""Without the JIT a test that takes longer is left out. Its lines are counted as far as it came; that they are right is
tested with the JIT."""


@pytest.fixture(autouse=True, scope="session")
def _as_in_a_shell() -> None:
    """Interrupts are ignored in a shell's background job and in the processes of pytest-xdist, which also say how wide
    their terminal is; the processes that tests start would inherit both."""
    os.environ.pop("COLUMNS", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _TooSlow(BaseException):
    """The time of a test without the JIT is up."""


def _ring(signum: int, frame: FrameType | None) -> None:
    """End the test, unless coverage is at work: it holds a lock, and would wait for itself for ever after."""
    if frame is not None and "coverage" in frame.f_code.co_filename:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        raise _TooSlow


def _limited(phase: str) -> Iterator[None]:
    if not UNCOMPILED or not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, _ring)
    signal.alarm(SECONDS[phase])
    try:
        outcome: Any = yield
        if outcome.excinfo is not None and issubclass(outcome.excinfo[0], _TooSlow):
            skipped = pytest.skip.Exception(f"longer than {SECONDS[phase]} s without the JIT")
            outcome.force_exception(skipped)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    yield from _limited("setup")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield from _limited("call")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where the JIT is off, leave out what needs it."""
    for item in items:
        if UNCOMPILED and item.get_closest_marker("compiled") is not None:
            item.add_marker(pytest.mark.skip(reason="the JIT is off"))


@pytest.fixture(autouse=True)
def strict_floating_point() -> Iterator[None]:
    """An undefined number or a division by zero is an error wherever it happens."""
    with np.errstate(invalid="raise", divide="raise"):
        yield


@pytest.fixture(params=["compiled", "python"], scope="session")
def version(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Picks a kernel as numba compiles it, then as the Python function that it was written as."""
    if request.param == "compiled":
        return lambda kernel: kernel
    return lambda kernel: getattr(kernel, "py_func", kernel)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)
