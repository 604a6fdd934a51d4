"""What unlatch finds where it runs: versions, cores, memory, the cache of compiled kernels, and what is missing."""

from __future__ import annotations

import os
import platform
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from unlatch import __version__
from unlatch.core.memory import available_memory

__all__ = ["EXTRAS", "Installation", "doctor"]

EXTRAS: Mapping[str, str] = {
    "test": "the tests (make test)",
    "docs": "the documentation as web pages (make docs)",
    "tables": "logs in Parquet and Feather, and data frames",
    "gymnasium": "record and to_gymnasium",
    "cluster": "logs passed over by a cluster of Dask",
    "rivals": "to_pomdp_py, and a comparison in benchmarks/planning.py",
}
"""What the optional libraries of every extra are for."""


@dataclass(frozen=True)
class Installation:
    """What `doctor` found.

    Attributes
    ----------
    versions : dict
        Name to version of unlatch, Python and every library that unlatch needs; None if that is not installed.
    missing : dict
        Names of optional libraries that are not installed, and what each is for.
    cores : int
        Cores that this process may use.
    memory : int or None
        Bytes that it may still take; None if nobody can be asked.
    cache : Path or None
        Folder of the compiled kernels; None if they are compiled anew in every process.
    cached_files : int
        How many files are in it.
    problems : tuple of str
        What should be mended, a sentence each with the remedy; empty if all is well.

    Examples
    --------
    >>> import unlatch
    >>> sorted(unlatch.doctor().versions)[:2]
    ['Python', 'click']
    """

    versions: Mapping[str, str | None]
    missing: Mapping[str, str]
    cores: int
    memory: int | None
    cache: Path | None
    cached_files: int
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield ", ".join(f"{name} {version or 'MISSING'}" for name, version in self.versions.items())
        memory = "memory unknown" if self.memory is None else f"{self.memory / 1e9:.1f} GB of memory free"
        yield f"{self.cores} core{'s' * (self.cores != 1)}, {memory}"
        yield f"compiled kernels: {self.cached_files} files in {self.cache}" if self.cache else _NO_CACHE
        for purpose in dict.fromkeys(self.missing.values()):
            names = ", ".join(name for name, why in self.missing.items() if why == purpose)
            yield f"not installed, and needed only for {purpose}: {names}"
        yield from (f"problem: {problem}" for problem in self.problems)
        if not self.problems:
            yield "no problems found"


_NO_CACHE = "compiled kernels: kept nowhere, compiled anew in every process"


def doctor() -> Installation:
    """Look at the installation and the machine: versions, cores, memory, cache, what is missing.

    Behind ``unlatch doctor``. Nothing is changed, but for a file that is written to the cache and removed again, to
    find out whether that can be done.

    Examples
    --------
    >>> import unlatch
    >>> found = unlatch.doctor()
    >>> found.versions["unlatch"] == unlatch.__version__
    True
    >>> found.cores >= 1, found.problems
    (True, ())
    """
    needed, optional = _requirements()
    versions = {
        "unlatch": __version__,
        "Python": platform.python_version(),
        **{name: _version(name) for name in needed},
    }
    cache, problem = _cache()
    absent = [name for name, version in versions.items() if version is None]
    problems = [f"{name} is not installed: pip install {name}" for name in absent]
    return Installation(
        versions=versions,
        missing={name: purpose for name, purpose in optional.items() if _version(name) is None},
        cores=_cores(),
        memory=available_memory(),
        cache=cache,
        cached_files=0 if cache is None else sum(1 for _ in cache.glob("*.nb[ic]")),
        problems=(*problems, *([] if problem is None else [problem])),
    )


def _requirements() -> tuple[list[str], dict[str, str]]:
    """Names of libraries that unlatch needs, and optional ones with what they are for; none if it is not installed."""
    try:
        lines = metadata.requires("unlatch") or []
    except metadata.PackageNotFoundError:  # run from a folder of sources
        lines = []
    needed: list[str] = []
    optional: dict[str, str] = {}
    for line in lines:
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if extra is None:
            needed.append(name)
        elif name != "unlatch":
            optional.setdefault(name, EXTRAS.get(extra[1], f"the extra {extra[1]}"))
    return needed, optional


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cache() -> tuple[Path | None, str | None]:
    """The folder of compiled kernels, and what is wrong with it."""
    from unlatch.errors import MissingDependencyError

    try:
        from unlatch.kernels.symbols import settled_rewards as any_kernel
    except MissingDependencyError as error:
        return None, str(error)
    path = getattr(getattr(any_kernel, "stats", None), "cache_path", None)
    if path is None:
        return None, None
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return folder, (
            f"compiled kernels cannot be kept in {folder} ({error.strerror or error}), so that every process compiles "
            "them anew; set NUMBA_CACHE_DIR to a folder that can be written to"
        )
    return folder, None
