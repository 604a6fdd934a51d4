"""Memory is asked for before it is taken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unlatch.core.memory import available_memory, memory_errors, require_memory
from unlatch.errors import ResourceLimitError


def test_something_is_available():
    amount = available_memory()
    assert amount is None or amount > 10**7


def test_what_fits_is_let_through_and_what_does_not_is_named():
    require_memory(1000, "a trifle", "")
    with pytest.raises(
        ResourceLimitError, match=r"everything would take 1000000.0 TB of memory, .* ask for less"
    ):
        require_memory(10**18, "everything", "ask for less")


def test_a_memory_error_becomes_a_declared_one():
    with (
        pytest.raises(ResourceLimitError, match=r"a table: out of memory .* make it smaller"),
        memory_errors("a table", "make it smaller"),
    ):
        raise MemoryError


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the process are read from /proc")
def test_a_limit_of_the_process_is_known():
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31));"
        "import unlatch; from unlatch.core.memory import available_memory; print(available_memory())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert 0 < int(done.stdout) < 2**31
