"""Passes over a log in blocks, in two lanes, in calls short enough to be interrupted.

The counting pass runs in two lanes, one for each half of the log, whose sums are added in a fixed order. The lower lane
needs the backward message in the middle of the log. With one thread the upper lane arrives with it. With two, the
second thread goes over the upper half beside the forward pass; should the upper lane arrive first after all, its
message is taken. The digits are the same either way, so the number of threads does not change a bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unlatch.arrays import Floats
from unlatch.core.budget import checkpoint
from unlatch.errors import BeliefCollapseError

__all__ = ["FullPasses", "ListedPasses", "Passes", "in_two_lanes", "one_after_the_other"]

WORK_PER_CALL = 1 << 27
"""Multiplications per kernel call: about a tenth of a second, so that Ctrl-C is answered soon."""

KEPT_NUMBERS = 1 << 22
"""Numbers in the forward messages of a log up to which all are kept (32 megabytes) and none computed twice."""

_BLOCK_NUMBERS = 1 << 13
"""Numbers in the forward messages of one block of a longer log: few enough for the fast cache."""

_LEAST_BLOCK = 64
"""Steps of a block at least: a message that is noted has to be worth it."""

_ROOM_PER_STEP = 4
"""States that a sparse message has room for at first; more is made when it is needed."""

_MARGIN = 1.25
"""Room is made for so much more than what the steps so far suggest."""

_PROBED_STEPS = 256
_PROBED_SHARE = 1 / 16
"""Steps of a log, and the share of it, that are looked at to learn how many states are possible at a time."""

_PATIENCE = 0.05
"""Seconds between two looks at whether the work may go on, while the other lane is waited for."""


class Passes(Protocol):
    """Forward, backward and counting pass over one log."""

    def empty_sums(self) -> Any:
        """What the counting pass adds to."""

    def message(self) -> Any:
        """A backward message, at the end of the log."""

    def forward(self) -> float:
        """The log-likelihood; afterwards the counting pass can be made."""

    def backward(self, message: Any) -> Iterator[bool]:
        """Take a message from the end of the log to the middle, in several calls; False is the end of an attempt that
        leads nowhere."""

    def upper(self, message: Any, sums: Any) -> Iterator[int]:
        """The counting pass from the end to the middle; yields how many steps every call has lost to underflow."""

    def lower(self, message: Any, sums: Any) -> Iterator[int]:
        """The counting pass from the middle to the beginning."""


def one_after_the_other(passes: Passes, lower: Any, upper: Any) -> tuple[float, int]:
    """Make the sums of both halves, and return the log-likelihood and how many steps were lost to underflow."""
    from unlatch.kernels.subnormals import subnormals_as_zero

    with subnormals_as_zero():
        log_likelihood = passes.forward()
        message = passes.message()
        lost = sum(passes.upper(message, upper))
        return log_likelihood, lost + sum(passes.lower(message, lower))


def in_two_lanes(passes: Passes, lower: Any, upper: Any) -> tuple[float, int]:
    """The same with two threads."""
    from unlatch.kernels.subnormals import subnormals_as_zero

    meeting = _Meeting(Event(), Event(), Event(), passes.message())
    with ThreadPoolExecutor(max_workers=1) as pool, subnormals_as_zero():
        try:
            other = pool.submit(_lower_lane, passes, meeting, lower)
            log_likelihood = passes.forward()
            meeting.forward_done.set()
            lost = sum(passes.upper(meeting.message, upper))
            meeting.upper_done.set()
            return log_likelihood, lost + _awaited(other)
        finally:
            meeting.stop()


@dataclass(frozen=True)
class _Meeting:
    """What the lanes tell each other. ``message`` is the upper lane's, once it has arrived."""

    forward_done: Event
    upper_done: Event
    stopped: Event
    message: Any

    def stop(self) -> None:
        """Whoever waits shall wait no longer, and find that there is nothing more to do."""
        self.stopped.set()
        self.forward_done.set()
        self.upper_done.set()


def _lower_lane(passes: Passes, meeting: _Meeting, sums: Any) -> int:
    from unlatch.kernels.subnormals import subnormals_as_zero

    lost = 0
    with subnormals_as_zero():
        message = passes.message()
        if not _arrived(passes.backward(message), meeting):
            meeting.upper_done.wait()
            message = meeting.message
        meeting.forward_done.wait()
        if not meeting.stopped.is_set():
            for lost_here in passes.lower(message, sums):
                lost += lost_here
                if meeting.stopped.is_set():
                    break
    return lost


def _arrived(calls: Iterator[bool], meeting: _Meeting) -> bool:
    """Whether the message came to the middle before the upper lane did."""
    return all(fine and not meeting.upper_done.is_set() for fine in calls)


def _awaited(other: Future[int]) -> int:
    while True:
        try:
            return other.result(timeout=_PATIENCE)
        except NotYet:
            checkpoint()


def _refuse_impossible(step: int) -> None:
    raise BeliefCollapseError(f"step {step}: impossible under the model and the steps before it")


def _ranges(first: int, last: int, work: float) -> list[tuple[int, int]]:
    """Ranges that are small enough for one kernel call, if each of their members takes so much work."""
    size = max(1, int(WORK_PER_CALL / work))
    return [(begin, min(begin + size, last)) for begin in range(first, last, size)]


class FullPasses:
    """With messages over all states, in registers if there are few, and operators ``ahead`` and ``back``, either of all
    numbers or of the entries that are not zero; states are padded to a multiple of four. ``start`` is the belief that
    the first step finds if no episode begins there."""

    def __init__(
        self,
        ahead: Any,
        back: Any,
        initial: Floats,
        symbols: NDArray[np.uint32],
        begins: NDArray[np.bool_],
        *,
        start: Floats | None = None,
        last_move_unseen: bool,
        step_cost: float,
        block_length: int | None,
    ) -> None:
        from unlatch.kernels import em, em_small

        n = -(-len(initial) // 4) * 4
        self._symbols = len(ahead.dense)
        small = self._symbols > 0 and n in em_small.WIDTHS
        form = tuple if small else np.asarray
        kept = len(symbols) * n <= KEPT_NUMBERS
        self._kernels: Any = em_small if small else em
        self._n = n
        self._length = block_length or (1 if kept else max(_LEAST_BLOCK, _BLOCK_NUMBERS // n))
        self._blocks = -(-len(symbols) // self._length)
        self._ahead, self._back = (ahead.dense, back.dense) if small else (ahead, back)
        self._shapes = (
            ahead.dense.shape,
            ahead.values.shape,
            (max(len(ahead.dense), len(ahead.starts) - 1), n),
            (1, n),
        )
        self._initial, self._start = (
            form(np.append(belief, np.zeros(n - len(belief))))
            for belief in (initial, initial if start is None else start)
        )
        self._ones = form(np.ones(n))
        self._steps = em.Steps(symbols, begins)
        self._last_move_unseen = last_move_unseen
        self._checkpoints = np.empty((self._blocks, n))
        self._work = self._length * step_cost

    def empty_sums(self) -> Any:
        from unlatch.kernels.em import Sums

        return Sums(*(np.zeros(shape) for shape in self._shapes))

    def message(self) -> Floats:
        return np.ones((2, self._n))

    def forward(self) -> float:
        message = np.zeros((2, self._n))
        message[0] = self._start
        gained = 0.0
        for first, last in _ranges(0, self._blocks, self._work):
            checkpoint()
            gain, done = self._kernels.forward_blocks(
                self._ahead,
                self._initial,
                self._steps,
                self._length,
                first,
                last,
                message,
                self._checkpoints,
            )
            if done < min(last * self._length, len(self._steps.symbols)):
                _refuse_impossible(done)
            gained += gain
        return gained + float(np.log(message[0].sum()))

    def backward(self, message: Floats) -> Iterator[bool]:
        for first, last in reversed(_ranges(self._blocks // 2, self._blocks, self._work)):
            self._kernels.backward_blocks(
                self._back, self._ones, self._steps, self._length, first, last, message
            )
            yield True

    def upper(self, message: Floats, sums: Any) -> Iterator[int]:
        return self._count(message, self._blocks // 2, self._blocks, sums)

    def lower(self, message: Floats, sums: Any) -> Iterator[int]:
        return self._count(message, 0, self._blocks // 2, sums)

    def _count(self, message: Floats, first: int, last: int, sums: Any) -> Iterator[int]:
        from unlatch.kernels.em import empty_workspace

        workspace = empty_workspace(self._length, self._symbols, self._n)
        for begin, end in reversed(_ranges(first, last, self._work)):
            checkpoint()
            yield self._kernels.count_blocks(
                self._ahead,
                self._back,
                self._initial,
                self._ones,
                self._steps,
                self._last_move_unseen,
                self._length,
                begin,
                end,
                self._checkpoints,
                message,
                workspace,
                sums,
            )


class ListedPasses:
    """With the entries that are not zero, and messages that list the states that are possible.

    All forward messages are kept if they turn out to be short enough; if not, those at the beginnings of blocks.
    """

    def __init__(
        self,
        entries: Any,
        initial: Floats,
        symbols: NDArray[np.uint32],
        begins: NDArray[np.bool_],
        *,
        start: Floats | None = None,
        last_move_unseen: bool,
        step_cost: float,
        block_length: int | None,
    ) -> None:
        from unlatch.kernels import em

        n = len(initial)
        self._start = initial if start is None else start
        self._n, self._total = n, len(symbols)
        self._entries = entries
        self._initial = initial
        self._steps = em.Steps(symbols, begins)
        self._last_move_unseen = last_move_unseen
        self._step_cost = step_cost
        self._length = block_length or max(_LEAST_BLOCK, _BLOCK_NUMBERS // n)
        self._blocks = -(-self._total // self._length)
        self._keeps_all = block_length is None and self._total <= KEPT_NUMBERS
        self._kept: Any = None  # all messages, or those at the beginnings of blocks

    @property
    def _middle(self) -> int:
        """The step between the lanes: the same whether all messages are kept or not."""
        return self._blocks // 2 * self._length

    def activity(self) -> float:
        """How many states a forward message lists, on average over a few steps near the beginning. The first of them
        are left out: a log says little about them."""
        from unlatch.kernels.em_sparse import forward_steps

        steps = max(1, min(_PROBED_STEPS, int(_PROBED_SHARE * self._total)))
        messages, place = self._messages(steps, steps * self._n), np.full(self._n, -1)
        _, done, _ = forward_steps(self._entries, self._initial, self._steps, 0, steps, 0, place, messages)
        half = done // 2
        return float(messages.offsets[done + 1] - messages.offsets[half]) / float(done + 1 - half)

    def empty_sums(self) -> Any:
        from unlatch.kernels.em_sparse import ListedSums

        rows = len(self._entries.starts) - 1
        return ListedSums(
            np.zeros(len(self._entries.values)), np.zeros((rows // self._n, self._n)), np.zeros((1, self._n))
        )

    def message(self) -> Any:
        from unlatch.kernels.em_sparse import Backward

        n = self._n
        return Backward(
            np.ones(n), np.zeros((2, n), dtype=np.uint32), np.zeros(1, dtype=np.int64), np.full(n, -1)
        )

    def forward(self) -> float:
        log_likelihood = self._forward_keeping_all() if self._keeps_all else None
        self._keeps_all = log_likelihood is not None
        return self._forward_in_blocks() if log_likelihood is None else log_likelihood

    def _forward_keeping_all(self) -> float | None:
        """The log-likelihood, or None if the messages are too long to be kept."""
        from unlatch.kernels.em_sparse import forward_steps

        self._kept = self._messages(self._total, min(_ROOM_PER_STEP * self._total, KEPT_NUMBERS))
        place = np.full(self._n, -1)
        gained = 0.0
        for begin, end in _ranges(0, self._total, self._step_cost):
            done, full = begin, True
            while full:
                checkpoint()
                gain, done, full = forward_steps(
                    self._entries, self._initial, self._steps, done, end, 0, place, self._kept
                )
                gained += gain
                if full:
                    if len(self._kept.states) >= KEPT_NUMBERS:
                        return None
                    self._kept = _roomier(self._kept, done + 1, self._total, 4 * self._n)
            if done < end:
                _refuse_impossible(done)
        return gained + self._last_gain(self._kept, self._total)

    def _forward_in_blocks(self) -> float:
        from unlatch.kernels.em_sparse import forward_blocks

        self._kept = self._messages(self._blocks, _ROOM_PER_STEP * self._blocks)
        place, workspace = np.full(self._n, -1), self._workspace()
        gained = 0.0
        for first, last in _ranges(0, self._blocks, self._length * self._step_cost):
            done = first
            while done < last:
                checkpoint()
                gain, done, impossible = forward_blocks(
                    self._entries,
                    self._initial,
                    self._steps,
                    self._length,
                    done,
                    last,
                    place,
                    workspace,
                    self._kept,
                )
                gained += gain
                if impossible >= 0:
                    _refuse_impossible(impossible)
                if done < last:
                    self._kept = _roomier(self._kept, done, self._blocks, 4 * self._n)
        return gained + self._last_gain(workspace, 0)

    def _messages(self, number: int, numbers: int) -> Any:
        """Room for so many messages that have so many states together. The first is that of an episode's beginning."""
        from unlatch.kernels.em_sparse import Messages

        room = numbers + 4 * self._n
        messages = Messages(
            np.zeros(number + 2, dtype=np.int64), np.empty(room, dtype=np.uint32), np.empty(room)
        )
        possible = np.flatnonzero(self._start)
        messages.states[: len(possible)] = possible
        messages.masses[: len(possible)] = self._start[possible]
        messages.offsets[1] = len(possible)
        return messages

    def _workspace(self) -> Any:
        return self._messages(self._length, self._length * self._n)

    @staticmethod
    def _last_gain(messages: Any, number: int) -> float:
        begin, end = messages.offsets[number : number + 2]
        return float(np.log(messages.masses[begin:end].sum()))

    def backward(self, message: Any) -> Iterator[bool]:
        from unlatch.kernels.em_sparse import backward_steps

        origins, scratch = self._origins(), np.empty(self._n)
        for begin, end in reversed(_ranges(self._middle, self._total, self._step_cost)):
            yield backward_steps(self._entries, origins, self._steps, begin, end, message, scratch)

    def _origins(self) -> Any:
        """The entries by the state that they lead to."""
        from unlatch.kernels.em_sparse import Origins

        starts, targets, _ = self._entries
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        symbols, sources = np.divmod(rows, self._n)
        arrivals = symbols * self._n + targets
        order = np.argsort(arrivals, kind="stable")
        counts = np.bincount(arrivals, minlength=len(starts) - 1)
        return Origins(np.concatenate([[0], np.cumsum(counts)]), sources[order].astype(np.uint32))

    def upper(self, message: Any, sums: Any) -> Iterator[int]:
        return self._count(message, self._blocks // 2, self._blocks, sums)

    def lower(self, message: Any, sums: Any) -> Iterator[int]:
        return self._count(message, 0, self._blocks // 2, sums)

    def _count(self, message: Any, first: int, last: int, sums: Any) -> Iterator[int]:
        from unlatch.kernels.em_sparse import count_blocks, count_steps

        work = self._length * self._step_cost
        scratch, place = np.empty(self._n), np.full(self._n, -1)
        workspace = None if self._keeps_all else self._workspace()
        for begin, end in reversed(_ranges(first, last, work)):
            checkpoint()
            if self._keeps_all:
                yield count_steps(
                    self._entries,
                    self._steps,
                    self._last_move_unseen,
                    begin * self._length,
                    min(end * self._length, self._total),
                    0,
                    self._kept,
                    message.values,
                    scratch,
                    sums,
                )
            else:
                yield count_blocks(
                    self._entries,
                    self._initial,
                    self._steps,
                    self._last_move_unseen,
                    self._length,
                    begin,
                    end,
                    place,
                    self._kept,
                    workspace,
                    message.values,
                    scratch,
                    sums,
                )


def _roomier(messages: Any, noted: int, number: int, spare: int) -> Any:
    """The messages that are noted with room for so many, if those to come are as long; and some to spare."""
    used = int(messages.offsets[noted])
    room = max(int(_MARGIN * used / noted * number), len(messages.states)) + spare
    states, masses = np.empty(room, dtype=np.uint32), np.empty(room)
    states[:used], masses[:used] = messages.states[:used], messages.masses[:used]
    return messages._replace(states=states, masses=masses)
