"""A log in files as the learner sees it: a sample in memory, and passes over all of it by whoever does the work."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from unlatch.arrays import Floats
from unlatch.core.ahead import ahead
from unlatch.core.budget import checkpoint
from unlatch.core.pomdp import Emission
from unlatch.core.progress import report
from unlatch.core.trajectory import Trajectory
from unlatch.engines.engine import Engine, Task
from unlatch.errors import NotLearnableError
from unlatch.learn.likelihood.blocks import (
    BlockedLog,
    BlockScan,
    block_counts,
    block_log_likelihood,
    blocked_log,
    scan_block,
    seam_messages,
    tree_sum,
)
from unlatch.learn.likelihood.objective import Likelihood
from unlatch.learn.likelihood.parameters import ExpectedCounts, Parameters
from unlatch.learn.likelihood.scores import Coordinates, score_products
from unlatch.learn.spectral.counting import (
    CountedPart,
    SequenceCounts,
    count_chunks,
    count_part,
    joined_parts,
)
from unlatch.streams.source import (
    Edges,
    FileBlock,
    HeldBlock,
    LogFiles,
    Span,
    file_blocks,
    known_beginnings,
    spans_of,
)

__all__ = ["StreamedLikelihood", "StreamedLog"]


class StreamedLog:
    """A log in files, with an engine to pass over it."""

    def __init__(self, files: LogFiles, engine: Engine) -> None:
        self.files, self.engine = files, engine
        self._blocks: list[FileBlock] = []

    @cached_property
    def whole(self) -> BlockedLog:
        """What one look at every block tells."""
        if self.engine.remote:
            self._blocks = file_blocks(self.files)
        found = list(self._each(_scanned, lambda _: (), "reading"))
        if not found:
            raise NotLearnableError("the log has no steps; there is nothing to learn from")
        scans = [scan for scan, _ in found]
        if self.engine.remote:
            continued = bool(self.files.options.get("continued", False))
            self._blocks = known_beginnings(self._blocks, [edges for _, edges in found], continued=continued)
            scans = [_going_on(s) if b.continues else s for s, b in zip(scans, self._blocks, strict=True)]
        return blocked_log(scans)

    @property
    def steps(self) -> int:
        return self.whole.steps

    @cached_property
    def sample(self) -> Trajectory:
        """The first block, in the alphabets of the whole."""
        return self.whole.encoding.trajectory(next(iter(self.files.chunks())))

    def in_memory(self) -> Trajectory:
        """All of it: a log that has one block."""
        return self.sample

    def count(self, history_length: int, test_length: int) -> SequenceCounts:
        """Every window of the log; the same numbers whoever counts."""
        if not self.engine.remote:
            return count_chunks(
                self._reported(ahead(self.files.chunks())),
                history_length=history_length,
                test_length=test_length,
            )
        self.whole  # noqa: B018 - blocks must know whether they go on with an episode
        spans = spans_of(self._blocks)
        parts = self._by_others(_counted, spans, lambda _: (history_length, test_length), "counting")
        return joined_parts(parts, lambda number: spans[number].blocks[0].continues)

    def _reported(self, chunks: Iterator[Any]) -> Iterator[Any]:
        for chunk in chunks:
            yield chunk
            report("counting", min(chunk.start + len(chunk), self.steps), self.steps)

    def likelihood(self, emission: Emission) -> StreamedLikelihood:
        """Of the whole log, whose passes the engine makes."""
        sample = Likelihood.of(self.sample, emission)
        return StreamedLikelihood(log=self.whole, emission=emission, stream=self, part=sample)

    def expected_counts(self, parameters: Parameters, emission: Emission) -> ExpectedCounts:
        """Expected counts and log-likelihood of all blocks, added in a fixed order."""
        whole = self.whole
        messages = seam_messages(parameters, whole, emission)
        given = (parameters, whole.encoding, emission)
        parts = self._each(_expected, lambda number: (*given, *messages.around(number)), None)
        total = tree_sum(parts)
        return replace(total, log_likelihood=total.log_likelihood - messages.counted_twice)

    def log_likelihood(self, parameters: Parameters, emission: Emission) -> float:
        """Of all blocks."""
        whole = self.whole
        messages = seam_messages(parameters, whole, emission)
        given = (parameters, whole.encoding, emission)
        parts = self._each(_likely, lambda number: (*given, *messages.around(number)), None)
        return math.fsum(parts) - messages.counted_twice

    def score_products(
        self,
        parameters: Parameters,
        emission: Emission,
        coordinates: Coordinates,
        parts: Sequence[slice],
        length: int,
        stage: str,
    ) -> list[Floats]:
        """Sums of outer products of half the scores of all blocks, added in a fixed order."""
        whole = self.whole
        messages = seam_messages(parameters, whole, emission)
        given = (parameters, whole.encoding, emission, coordinates, tuple(parts), length)
        totals = [np.zeros((part.stop - part.start,) * 2) for part in parts]
        for sums in self._each(_scored, lambda number: (*given, messages.beliefs[number]), stage):
            for total, more in zip(totals, sums, strict=True):
                total += more
        return totals

    def unforgotten(self, parameters: Parameters, emission: Emission) -> float:
        """By how much the belief at a cut between blocks differs, at most, if half of the steps that tell it are left
        out: what lies further away is taken to be forgotten."""
        return seam_messages(parameters, self.whole, emission).unforgotten

    def _each(self, task: Task, given: Callable[[int], tuple[Any, ...]], stage: str | None) -> Iterator[Any]:
        """What a task makes of every block, in their order."""
        if self.engine.remote:
            yield from self._by_others(task, self._blocks, given, stage)
            return
        for number, chunk in enumerate(ahead(self.files.chunks())):
            checkpoint()
            yield task(HeldBlock(chunk), *given(number))

    def _by_others(
        self, task: Task, blocks: Sequence[Any], given: Callable[[int], tuple[Any, ...]], stage: str | None
    ) -> Iterator[Any]:
        results = self.engine.each(task, blocks, [given(i) for i in range(len(blocks))])
        for done, result in enumerate(results):
            if stage is not None:
                report(stage, done + 1, len(blocks))
            yield result


def _scanned(block: FileBlock | HeldBlock) -> tuple[BlockScan, Edges | None]:
    if isinstance(block, HeldBlock):
        return scan_block(block.read()), None
    steps, edges = block.read_with_edges()
    return scan_block(steps), edges


def _counted(span: Span, history_length: int, test_length: int) -> CountedPart:
    return count_part(span.read(), history_length, test_length)


def _expected(block: FileBlock | HeldBlock, *given: Any) -> ExpectedCounts:
    parameters, encoding, emission, before, after = given
    return block_counts(parameters, encoding, block.read(), emission, before, after, threads=1)


def _likely(block: FileBlock | HeldBlock, *given: Any) -> float:
    parameters, encoding, emission, before, after = given
    return block_log_likelihood(parameters, encoding, block.read(), emission, before, after)


def _scored(block: FileBlock | HeldBlock, *given: Any) -> list[Floats]:
    parameters, encoding, emission, coordinates, parts, length, before = given
    log = encoding.log(block.read())
    return score_products(
        parameters, log, coordinates, parts, length=length, emission=emission, before=before
    )


def _going_on(scan: BlockScan) -> BlockScan:
    """A block whose first step turned out to go on with the episode before."""
    if scan.head.start != scan.tail.start:
        return replace(scan, head=_without_start(scan.head), episodes=scan.episodes - 1)
    return replace(
        scan,
        head=_without_start(scan.head),
        tail=_without_start(scan.tail),
        episodes=scan.episodes - 1,
    )


def _without_start(piece: Any) -> Any:
    return replace(piece, episode_starts=piece.episode_starts[1:])


@dataclass(frozen=True, eq=False)
class StreamedLikelihood(Likelihood):
    """The likelihood of a log in files; ``part`` is that of a sample of it, for what one part tells as well."""

    stream: StreamedLog = None  # type: ignore[assignment]
    part: Likelihood = None  # type: ignore[assignment]

    @property
    def sample(self) -> Likelihood:
        return self.part

    def counts(self, parameters: Parameters) -> ExpectedCounts:
        return self.stream.expected_counts(parameters, self.emission)

    def log_likelihood(self, parameters: Parameters) -> float:
        return self.stream.log_likelihood(parameters, self.emission)

    def score_products(
        self,
        parameters: Parameters,
        coordinates: Coordinates,
        parts: Sequence[slice],
        length: int,
        stage: str,
    ) -> list[Floats]:
        return self.stream.score_products(parameters, self.emission, coordinates, parts, length, stage)
