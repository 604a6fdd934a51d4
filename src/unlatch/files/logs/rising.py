"""Numbers of episodes that rise, as most do: what each is called, in memory that consecutive ones do not need."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from unlatch.arrays import Ints

__all__ = ["RisingNumbers"]


class RisingNumbers(Sequence[str]):
    """Whole numbers in the order in which they came, each higher than all before it; as texts when asked for.

    Kept are the first number and the first code of every run of consecutive ones.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._codes: list[int] = []
        self._count = 0
        self._last = -1

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, code):  # type: ignore[no-untyped-def]
        run = bisect_right(self._codes, code) - 1
        return str(self._firsts[run] + code - self._codes[run])

    def __iter__(self) -> Iterator[str]:
        ends = [*self._codes[1:], self._count]
        for first, code, end in zip(self._firsts, self._codes, ends, strict=True):
            yield from map(str, range(first, first + end - code))

    def codes(self, numbers: Ints) -> Ints | None:
        """Codes of numbers that go on rising, the first of which may be the last of before; None, and nothing done, if
        they do not."""
        rise = np.diff(numbers, prepend=self._last)
        known = int(self._count > 0 and len(rise) > 0 and rise[0] == 0)
        if len(rise) and (rise[known:] <= 0).any():
            return None
        begins = np.flatnonzero(rise[known:] != 1) + known
        if self._count == 0 and len(rise) and (len(begins) == 0 or begins[0] != 0):
            begins = np.append(0, begins)
        first_code = self._count - known
        self._firsts += numbers[begins].tolist()
        self._codes += (begins + first_code).tolist()
        if len(numbers):
            self._count = first_code + len(numbers)
            self._last = int(numbers[-1])
        return np.arange(first_code, self._count)
