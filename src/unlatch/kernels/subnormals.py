"""Numbers below 2.2e-308, which have fewer digits than others and on x86 processors take many times as long.

Messages of a climb that drives probabilities to zero are full of them: four fifths of such passes went into numbers
that are added to others which are larger by two hundred orders of magnitude. They may as well be zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config, types
from numba.extending import intrinsic

from unlatch.kernels._jit import kernel

__all__ = ["CAN_BE_ZERO", "subnormals_as_zero"]

_X86 = binding.get_default_triple().startswith(("x86_64", "i386", "i686"))

CAN_BE_ZERO: bool = _X86 and not config.DISABLE_JIT  # type: ignore[attr-defined]
"""Whether this processor can be told to. Others, which are not slowed down by such numbers, are left alone."""

_AS_ZERO = 0x8040
"""The bits of the control register of floating-point numbers (MXCSR) that make subnormal results and operands zero."""

_WORD = ir.IntType(32)
_PLACE = ir.IntType(8).as_pointer()


def _register(builder: Any, name: str, word: Any) -> None:
    procedure = ir.FunctionType(ir.VoidType(), [_PLACE])
    builder.call(builder.module.declare_intrinsic(name, (), procedure), [builder.bitcast(word, _PLACE)])


def _reading(typing: Any) -> Any:
    del typing

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        del context, signature, given
        word = builder.alloca(_WORD)
        _register(builder, "llvm.x86.sse.stmxcsr", word)
        return builder.load(word, typ=_WORD)

    return types.uint32(), code


def _writing(typing: Any, bits: Any) -> Any:
    del typing, bits

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        del signature
        word = builder.alloca(_WORD)
        builder.store(given[0], word)
        _register(builder, "llvm.x86.sse.ldmxcsr", word)
        return context.get_dummy_value()

    return types.void(types.uint32), code


_read: Any = intrinsic(_reading)
_write: Any = intrinsic(_writing)


@kernel
def _switched(bits, mask):  # type: ignore[no-untyped-def]
    """Set the bits of the control register that ``mask`` has to those of ``bits``; returns what it was before."""
    before = _read()
    _write(np.uint32((before & ~np.uint32(mask)) | (np.uint32(bits) & np.uint32(mask))))
    return before


@contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Within it this thread takes subnormal numbers for zero; afterwards it does what it did before."""
    if not CAN_BE_ZERO:
        yield
        return
    before: Any = _switched(_AS_ZERO, _AS_ZERO)
    try:
        yield
    finally:
        _switched(before, _AS_ZERO)
