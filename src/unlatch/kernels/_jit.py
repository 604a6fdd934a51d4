"""How every kernel is compiled: lazily, cached where the disk allows it, without holding the GIL.

Compiled code is kept on the disk by numba, which trusts what it finds there: one flipped bit can crash the process.
Here every file of the cache begins with a checksum of the rest, and one that does not fit is compiled anew.
``docs/cache.md`` tells where the files are and how to be rid of them.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from typing import Any

from unlatch.core.progress import remark
from unlatch.errors import MissingDependencyError

try:
    from numba import config, njit
    from numba.core import event
    from numba.core.caching import IndexDataCacheFile
    from numba.cpython.unsafe.numbers import trailing_zeros as _trailing_zeros
    from numba.cpython.unsafe.tuple import tuple_setitem
except ImportError as error:
    raise MissingDependencyError(
        f"numba, which compiles the inner loops, cannot be imported ({error}); install it: pip install numba",
        package="numba",
    ) from None

NO_CACHE = "UNLATCH_NO_CACHE"
"""Environment variable that keeps compiled code off the disk, if it is set to anything but 0."""

_DIGEST_BYTES = 32


class _CheckedFiles(IndexDataCacheFile):
    """The files of one function's cache, each a checksum and then what numba would have written."""

    def load(self, key: Any) -> Any:
        """What was saved under ``key``, or None.

        The data file names its key once more: two processes that save at the same time may number theirs alike.
        """
        name = self._load_index().get(key)
        data = None if name is None else self._read(self._data_path(name))
        if data is None:
            return None
        saved_key, result = pickle.loads(data)
        return result if saved_key == key else None

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def _load_index(self) -> Any:
        data = self._read(self._index_path)
        if data is None:
            return {}
        stamp, overloads = pickle.loads(data)
        return overloads if stamp == self._source_stamp else {}

    def _save_index(self, overloads: Any) -> None:
        self._write(self._index_path, self._dump((self._source_stamp, overloads)))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), self._dump(data))

    def _read(self, path: str) -> bytes | None:
        """What a file holds behind its checksum; None if it is missing, damaged or another version's."""
        try:
            with open(path, "rb") as handle:
                content = handle.read()
        except OSError:
            return None
        data = content[_DIGEST_BYTES:]
        return data if content[:_DIGEST_BYTES] == self._digest(data) else None

    def _write(self, path: str, data: bytes) -> None:
        with self._open_for_write(path) as handle:
            handle.write(self._digest(data) + data)

    def _digest(self, data: bytes) -> bytes:
        version = f"unlatch 1, numba {self._version}".encode()
        return hashlib.blake2b(data, key=version[:64], digest_size=_DIGEST_BYTES).digest()


class _ForgivingCache:
    """A numba cache whose damaged or unwritable files mean a recompilation, never an exception."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        plain = cache._cache_file
        cache._cache_file = _CheckedFiles(
            cache_path=plain._cache_path,
            filename_base=cache._impl.filename_base,
            source_stamp=plain._source_stamp,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *args: Any) -> Any:
        try:
            return self._cache.load_overload(*args)
        except Exception:
            return None

    def save_overload(self, *args: Any) -> None:
        try:
            self._cache.save_overload(*args)
        except Exception:
            return


class _Teller(event.Listener):
    """Says that kernels are being compiled: the first call of a new installation waits for it half a minute or more."""

    def __init__(self) -> None:
        self._depth = 0  # a kernel is compiled while another that calls it is

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            kept = isinstance(getattr(event.data["dispatcher"], "_cache", None), _ForgivingCache)
            remark("compiling, kept for the next time" if kept else "compiling")

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            remark(None)


event.register("numba:compile", _Teller())


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on first call. A kernel calls only kernels of its own file: the cache does not
    notice edits elsewhere."""
    return _compiled(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A kernel that becomes part of every kernel that calls it: for what is done at every step with many arrays.
    Handing these over, each with its count of references, would cost more than the work itself."""
    return _compiled(function, forceinline=True)


def bare_inlined(function: Callable[..., Any]) -> Any:
    """Both: for what is done at every step in a `bare` kernel. One that counts references would count them there too,
    at every step."""
    return _compiled(function, forceinline=True, _nrt=False)


def bare(function: Callable[..., Any]) -> Any:
    """A kernel that allocates nothing, takes no views and keeps no array: it counts no references, which spares most of
    the time to compile one that is handed many arrays."""
    return _compiled(function, _nrt=False)


def inner(function: Callable[..., Any]) -> Any:
    """A `bare` kernel that only other kernels call, compiled without the way in from Python, which for one that is
    handed many arrays is longer than the kernel. Tests call it as ``py_func``."""
    return _compiled(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    if os.environ.get(NO_CACHE, "0") != "0":
        return njit(nogil=True, **options)(function)
    try:
        compiled = njit(cache=True, nogil=True, **options)(function)
        if hasattr(compiled, "_cache"):  # not so where numba is switched off
            compiled._cache = _ForgivingCache(compiled._cache)
    except (RuntimeError, AttributeError):  # no place to keep a cache, or a numba whose cache we do not know
        return njit(nogil=True, **options)(function)
    return compiled


def _with_item(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    """A tuple with one item replaced: what numba's ``tuple_setitem`` is to compiled code."""
    return (*items[:index], item, *items[index + 1 :])


with_item: Any = _with_item if config.DISABLE_JIT else tuple_setitem  # type: ignore[attr-defined]
"""A tuple with one item replaced, for kernels whose tuples stay in registers."""


def _zeros_at_the_end(word: Any) -> int:
    """The zero bits below the lowest one: what numba's ``trailing_zeros`` is to compiled code."""
    return (int(word) & -int(word)).bit_length() - 1 if word else 64


trailing_zeros: Any = _zeros_at_the_end if config.DISABLE_JIT else _trailing_zeros  # type: ignore[attr-defined]
"""How many zero bits a word of 64 ends in."""
