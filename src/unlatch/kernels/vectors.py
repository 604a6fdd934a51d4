"""Products of rows and matrices, four numbers at a time, and ends of lines, 32 bytes at a time.

The compiler makes vector instructions of a loop as well, but of one whose length it does not know only for sixteen
numbers at a time, and the rest goes one by one: with 9 to 40 states the rest is much of it. Here the instructions are
written down. Arrays of numbers are contiguous, and rows have a multiple of four.
Where kernels are plain Python, so are these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

__all__ = [
    "QUEUED",
    "add_outer_products",
    "bytes_before_line_end",
    "inner_product",
    "plain_add_outer_products",
    "plain_bytes_before_line_end",
    "plain_inner_product",
    "plain_scaled_copy",
    "plain_times_matrix",
    "scaled_copy",
    "times_matrix",
]

_LANES = 4
_COLUMNS = 4
"""Vectors of columns that are summed up at once: with `_ROWS` sums each, and what is added, they fill the registers."""

_ROWS = 2
"""Sums of every column, of the even and of the odd rows: an addition need not wait for the one before."""

QUEUED = 4
"""Rows of either side of an outer product: sums that do not fit into the fast cache are read and written once for
several steps."""

_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, _LANES)
_INDEX = ir.IntType(64)
_LANE = ir.IntType(32)

_BYTE = ir.IntType(8)
_SEEN_BYTES = 32
"""Bytes that are compared by one instruction."""

_BYTES = ir.VectorType(_BYTE, _SEEN_BYTES)
_LINE_END = 10


# --- as numba sees them ----------------------------------------------------------------------------------


def _times_matrix(typing: Any, vectors: Any, source: Any, target: Any, matrices: Any, k: Any) -> Any:
    """``vectors[target] = vectors[source] @ matrices[k]``; returns the sum."""
    del typing, source, target, k

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        rows = _Array(context, builder, signature.args[0], given[0])
        left, right, n = rows.row(given[1]), rows.row(given[2]), rows.shape[-1]
        matrix = _Array(context, builder, signature.args[3], given[3]).row(given[4])
        total = _Sum(builder)

        def columns(first: Any, vectors: int) -> None:
            sums = [[_Sum(builder) for _ in range(_ROWS)] for _ in range(vectors)]
            with cgutils.for_range(builder, builder.udiv(n, _INDEX(_ROWS))) as loop:
                for row in range(_ROWS):
                    i = builder.add(builder.mul(loop.index, _INDEX(_ROWS)), _INDEX(row))
                    weight = left.everywhere(i)
                    entries = matrix.behind(builder.add(builder.mul(i, n), first))
                    for vector in range(vectors):
                        entry = entries.vector(_INDEX(_LANES * vector))
                        sums[vector][row].add(builder.fmul(weight, entry))
            for vector, (even, odd) in enumerate(sums):
                both = builder.fadd(even.value, odd.value)
                right.store(builder.add(first, _INDEX(_LANES * vector)), both)
                total.add(both)

        with _for_columns(builder, n, _COLUMNS) as first:
            columns(first, _COLUMNS)
        with _for_columns(builder, n, 1, after=_COLUMNS) as first:
            columns(first, 1)
        return total.total

    return types.float64(vectors, types.intp, types.intp, matrices, types.uint64), code


def _inner_product(typing: Any, left: Any, r: Any, right: Any, q: Any) -> Any:
    """``left[r] @ right[q]``."""
    del typing, r, q

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        first = _Array(context, builder, signature.args[0], given[0])
        ours = first.row(given[1])
        theirs = _Array(context, builder, signature.args[2], given[2]).row(given[3])
        total = _Sum(builder)
        with _for_columns(builder, first.shape[-1], 1) as i:
            total.add(builder.fmul(ours.vector(i), theirs.vector(i)))
        return total.total

    return types.float64(left, types.intp, right, types.intp), code


def _scaled_copy(typing: Any, target: Any, k: Any, w: Any, source: Any, r: Any, weight: Any) -> Any:
    """``target[k, w] = weight * source[r]``."""
    del typing, k, w, r, weight

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        into = _Array(context, builder, signature.args[0], given[0])
        ours = into.row(given[1], given[2])
        theirs = _Array(context, builder, signature.args[3], given[3]).row(given[4])
        weight = _everywhere(builder, given[5])
        with _for_columns(builder, into.shape[-1], 1) as i:
            ours.store(i, builder.fmul(weight, theirs.vector(i)))
        return context.get_dummy_value()

    return types.none(target, types.uint64, types.intp, source, types.intp, types.float64), code


def _add_outer_products(typing: Any, sums: Any, k: Any, ahead: Any, behind: Any) -> Any:
    """``sums[k] += ahead[k].T @ behind[k]``, of four rows each."""
    del typing, k

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        into = _Array(context, builder, signature.args[0], given[0])
        n, joint = into.shape[-1], into.row(given[1])
        left = _Array(context, builder, signature.args[2], given[2]).row(given[1])
        right = _Array(context, builder, signature.args[3], given[3]).row(given[1])
        with cgutils.for_range(builder, n) as loop:
            weights = [
                left.everywhere(builder.add(builder.mul(_INDEX(w), n), loop.index)) for w in range(QUEUED)
            ]
            row = joint.behind(builder.mul(loop.index, n))
            with _for_columns(builder, n, 1) as j:
                a, b, c, d = (
                    builder.fmul(weight, right.vector(builder.add(builder.mul(_INDEX(w), n), j)))
                    for w, weight in enumerate(weights)
                )
                added = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
                row.store(j, builder.fadd(row.vector(j), added))
        return context.get_dummy_value()

    return types.none(sums, types.uint64, ahead, behind), code


def _bytes_before_line_end(typing: Any, words: Any, at: Any) -> Any:
    """How many of the 32 bytes from ``at`` on come before the end of a line: 32 if none is there. ``words[i]`` are
    the eight bytes from ``i`` on."""
    del typing, at

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        data = builder.bitcast(
            make_array(signature.args[0])(context, builder, given[0]).data, _BYTE.as_pointer()
        )
        place = builder.bitcast(builder.gep(data, [given[1]], source_etype=_BYTE), _BYTES.as_pointer())
        seen = builder.load(place, typ=_BYTES, align=1)
        ends = builder.icmp_unsigned("==", seen, ir.Constant(_BYTES, [_LINE_END] * _SEEN_BYTES))
        first = builder.cttz(builder.bitcast(ends, ir.IntType(_SEEN_BYTES)), ir.IntType(1)(0))
        return builder.zext(first, _INDEX)

    return types.uint64(words, types.uint64), code


# --- where kernels are plain Python ----------------------------------------------------------------------


def plain_times_matrix(vectors: Any, source: Any, target: Any, matrices: Any, k: Any) -> Any:
    vectors[target] = vectors[source] @ matrices[k]
    return vectors[target].sum()


def plain_inner_product(left: Any, r: Any, right: Any, q: Any) -> Any:
    return left[r] @ right[q]


def plain_scaled_copy(target: Any, k: Any, w: Any, source: Any, r: Any, weight: Any) -> None:
    target[k, w] = weight * source[r]


def plain_add_outer_products(sums: Any, k: Any, ahead: Any, behind: Any) -> None:
    sums[k] += ahead[k].T @ behind[k]


def plain_bytes_before_line_end(words: Any, at: Any) -> Any:
    seen = words[int(at) : int(at) + _SEEN_BYTES : 8].tobytes()
    found = seen.find(_LINE_END)
    return np.uint64(_SEEN_BYTES if found < 0 else found)


_COMPILED = not config.DISABLE_JIT  # type: ignore[attr-defined]
times_matrix: Any = intrinsic(_times_matrix) if _COMPILED else plain_times_matrix
inner_product: Any = intrinsic(_inner_product) if _COMPILED else plain_inner_product
scaled_copy: Any = intrinsic(_scaled_copy) if _COMPILED else plain_scaled_copy
add_outer_products: Any = intrinsic(_add_outer_products) if _COMPILED else plain_add_outer_products
bytes_before_line_end: Any = intrinsic(_bytes_before_line_end) if _COMPILED else plain_bytes_before_line_end


# --- instructions ----------------------------------------------------------------------------------------


class _Array:
    """An array as machine code sees it."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        parts = make_array(kind)(context, builder, value)
        self.shape = cgutils.unpack_tuple(builder, parts.shape)
        self._builder, self._data = builder, parts.data

    def row(self, *indices: Any) -> _Numbers:
        """Its numbers from these indices of the first dimensions on."""
        place = _INDEX(0)
        for axis, size in enumerate(self.shape):
            place = self._builder.mul(place, size)
            if axis < len(indices):
                place = self._builder.add(place, indices[axis])
        return _Numbers(self._builder, self._data).behind(place)


class _Numbers:
    """Numbers in memory, from some place on."""

    def __init__(self, builder: Any, start: Any) -> None:
        self._builder, self._start = builder, start

    def _at(self, offset: Any) -> Any:
        return self._builder.gep(self._start, [offset], source_etype=_DOUBLE)

    def behind(self, offset: Any) -> _Numbers:
        return _Numbers(self._builder, self._at(offset))

    def vector(self, offset: Any) -> Any:
        place = self._builder.bitcast(self._at(offset), _VECTOR.as_pointer())
        return self._builder.load(place, typ=_VECTOR, align=8)

    def everywhere(self, offset: Any) -> Any:
        """One number in all lanes."""
        return _everywhere(self._builder, self._builder.load(self._at(offset), typ=_DOUBLE))

    def store(self, offset: Any, vector: Any) -> None:
        place = self._builder.bitcast(self._at(offset), _VECTOR.as_pointer())
        self._builder.store(vector, place, align=8)


class _Sum:
    """A vector that is added to, which the compiler keeps in a register."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._place = cgutils.alloca_once(builder, _VECTOR)
        builder.store(ir.Constant(_VECTOR, [0.0] * _LANES), self._place)

    def add(self, vector: Any) -> None:
        self._builder.store(self._builder.fadd(self.value, vector), self._place)

    @property
    def value(self) -> Any:
        return self._builder.load(self._place, typ=_VECTOR)

    @property
    def total(self) -> Any:
        builder, vector = self._builder, self.value
        a, b, c, d = (builder.extract_element(vector, _LANE(lane)) for lane in range(_LANES))
        return builder.fadd(builder.fadd(a, b), builder.fadd(c, d))


def _everywhere(builder: Any, number: Any) -> Any:
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    lowest = builder.insert_element(nothing, number, _LANE(0))
    return builder.shuffle_vector(lowest, nothing, ir.Constant(ir.VectorType(_LANE, _LANES), [0] * _LANES))


@contextmanager
def _for_columns(builder: Any, n: Any, vectors: int, after: int = 0) -> Iterator[Any]:
    """The first columns of as many whole groups of vectors as there are; ``after`` those of larger groups."""
    done = _INDEX(0)
    if after:
        larger = _INDEX(_LANES * after)
        done = builder.mul(builder.udiv(n, larger), larger)
    width = _INDEX(_LANES * vectors)
    with cgutils.for_range(builder, builder.udiv(builder.sub(n, done), width)) as loop:
        yield builder.add(done, builder.mul(loop.index, width))
