"""What every test shares: Hypothesis profiles, strict floating point, and kernels in both their versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


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
