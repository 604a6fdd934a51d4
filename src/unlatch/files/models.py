"""Model files: versioned JSON with a checksum, written so that every number reads back to the last bit.

A file is data and nothing else: nothing in it is ever executed. Whatever is damaged, foreign or inconsistent
is refused with a `ModelFileError`; fields that a newer version added are kept when the model is saved again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np

from unlatch import __version__
from unlatch.core.diagnostics import Diagnostic, Diagnostics
from unlatch.core.partition import Partition
from unlatch.core.pomdp import POMDP
from unlatch.core.psr import PSR
from unlatch.errors import DataError, ModelFileError, RepairWarning, UnlatchError, UsageError
from unlatch.files import strict_json
from unlatch.files.atomic import PathLike, read_regular_file, write_atomically

__all__ = ["SavedModel", "load_model", "save_model"]

M = TypeVar("M", POMDP, PSR)

FORMAT = "unlatch-model"
MAJOR, MINOR = 1, 0
MAX_BYTES = 1 << 30

_SECTIONS = ("format", "version", "pomdp", "psr", "partition", "diagnostics", "provenance", "sha256")
_POMDP_FIELDS = tuple(f.name for f in fields(POMDP))
_PSR_FIELDS = tuple(f.name for f in fields(PSR) if f.name != "replicates")
_REQUIRED = {"pomdp": ("transitions", "observations", "initial"), "psr": ("initial", "updates", "final")}
_NAMES = ("action_names", "observation_names", "state_names")
_ABOUT_THE_FILE = ("newer_version", "no_checksum", "unknown_fields")
"""Findings about a file that was read; they say nothing of the file that is written next."""

_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")

_FOREIGN = (
    (b"PK\x03\x04", "a zip archive (as .npz, .pt and .keras files are)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x1f\x8b", "compressed by gzip"),
    (b"\x89HDF", "an HDF5 file"),
    (b"x\x9c", "compressed by zlib, as joblib pickles are"),
)


@dataclass(frozen=True)
class SavedModel:
    """What a model file holds: a POMDP or a PSR or both, and what is known about them.

    Parameters
    ----------
    pomdp : POMDP, optional
    psr : PSR, optional
        Its replicates are not stored.
    partition : Partition, optional
        Which states of the POMDP could not be told apart.
    provenance : mapping
        How the model came about: versions, time, seed, options; plain JSON values.
    diagnostics : Diagnostics
    extra : mapping
        Fields that this version of the format does not know, kept as they were read.
    """

    pomdp: POMDP | None = None
    psr: PSR | None = None
    partition: Partition | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pomdp is None and self.psr is None:
            raise DataError("a saved model needs a pomdp or a psr; both are missing")
        states = self.pomdp.n_states if self.pomdp is not None else None
        if self.partition is not None and states not in (None, self.partition.n_states):
            raise DataError(f"partition: {self.partition.n_states} labels for {states} states of the pomdp")

    @property
    def model(self) -> POMDP | PSR:
        """The POMDP if there is one, else the PSR."""
        return self.pomdp if self.pomdp is not None else self.psr  # type: ignore[return-value]


def save_model(
    path: PathLike,
    model: POMDP | PSR | SavedModel,
    *,
    partition: Partition | None = None,
    psr: PSR | None = None,
    provenance: Mapping[str, Any] | None = None,
    diagnostics: Diagnostics | None = None,
) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    path : path of the file, replaced if it exists
    model : POMDP, PSR or SavedModel
    partition, psr : optional
        Stored beside the model; they replace those of a `SavedModel`.
    provenance : mapping, optional
        Added to that of a `SavedModel`. The versions of unlatch, Python and NumPy and the time (UTC) are
        filled in unless given.
    diagnostics : Diagnostics, optional
        Added to those of a `SavedModel`.
    """
    saved = _as_saved(model, partition, psr)
    completed = replace(
        saved,
        provenance=_completed({**saved.provenance, **(provenance or {})}),
        diagnostics=saved.diagnostics + (diagnostics or Diagnostics()),
    )
    content = _content(completed)
    content["sha256"] = _checksum(content)
    write_atomically(path, (strict_json.pretty(content) + "\n").encode())


def _as_saved(model: POMDP | PSR | SavedModel, partition: Partition | None, psr: PSR | None) -> SavedModel:
    if isinstance(model, POMDP):
        return SavedModel(pomdp=model, psr=psr, partition=partition)
    if isinstance(model, PSR) and psr is None:
        return SavedModel(psr=model, partition=partition)
    if isinstance(model, SavedModel):
        return replace(model, partition=partition or model.partition, psr=psr or model.psr)
    raise UsageError(f"a POMDP, a PSR or a SavedModel can be saved, got {type(model).__name__}")


def _completed(provenance: Mapping[str, Any]) -> dict[str, Any]:
    made = {
        "unlatch": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    return {**made, **_plain(provenance)}


def _content(saved: SavedModel) -> dict[str, Any]:
    """Everything but the checksum, as plain JSON values, unknown fields where they were read."""
    content: dict[str, Any] = {"format": FORMAT, "version": f"{MAJOR}.{MINOR}"}
    extra = _plain(saved.extra)
    if saved.pomdp is not None:
        content["pomdp"] = extra.get("pomdp", {}) | _section(saved.pomdp, _POMDP_FIELDS)
    if saved.psr is not None:
        content["psr"] = extra.get("psr", {}) | _section(saved.psr, _PSR_FIELDS)
    if saved.partition is not None:
        content["partition"] = saved.partition.labels.tolist()
    content["diagnostics"] = [
        {"name": entry.name, "message": entry.message, "details": _plain(entry.details)}
        for entry in saved.diagnostics
        if entry.name not in _ABOUT_THE_FILE
    ]
    content["provenance"] = dict(saved.provenance)
    return {**content, **{key: value for key, value in extra.items() if key not in _SECTIONS}}


def _section(model: POMDP | PSR, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: _plain(getattr(model, name)) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    """A JSON value that says the same; what JSON has no form for becomes text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {_plain_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, bool | None) or type(value) is int:
        return value
    if isinstance(value, float) and np.isfinite(value):
        return float(value)
    return _plain_text(value)


def _plain_text(value: object) -> str:
    """Text without lone surrogates, which file names may hold and JSON may not."""
    return str(value).encode(errors="backslashreplace").decode()


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(strict_json.canonical(content)).hexdigest()


def load_model(path: PathLike) -> SavedModel:
    """Read a model file.

    Raises `ModelFileError` for a file that is damaged, foreign, of a newer major version, or no valid model.
    What was repaired or passed over is in the ``diagnostics`` of the result.
    """
    where = os.fsdecode(path)
    data = read_regular_file(path, largest=MAX_BYTES)
    _refuse_foreign(data, where)
    content = strict_json.parse(data, where)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFileError(f'{where}: no unlatch model; "format" must be {FORMAT!r} at the top level')
    notes = _checked_version(content, where) + _verified(content, where)
    try:
        return _saved(content, notes)
    except UnlatchError as error:
        raise ModelFileError(f"{where}: {error}") from None


def _refuse_foreign(data: bytes, where: str) -> None:
    if not data:
        raise ModelFileError(f"{where}: the file is empty")
    kind = next((kind for magic, kind in _FOREIGN if data.startswith(magic)), None)
    if data[0] == 0x80:
        kind = "a pickle, which could run any program"
    if kind is not None:
        raise ModelFileError(f"{where}: refused: {kind}; models are read from unlatch's own JSON files only")


def _checked_version(content: Mapping[str, Any], where: str) -> Diagnostics:
    version = content.get("version")
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        raise ModelFileError(f'{where}: "version" must be text like "{MAJOR}.{MINOR}", got {version!r:.40}')
    if int(match[1]) != MAJOR:
        raise ModelFileError(
            f"{where}: format version {version}; this unlatch ({__version__}) reads {MAJOR}.x: "
            "use the unlatch that wrote the file"
        )
    if int(match[2]) <= MINOR:
        return Diagnostics()
    return Diagnostics().noting(
        "newer_version", f"the file has format version {version}, newer than {MAJOR}.{MINOR}", version=version
    )


def _verified(content: dict[str, Any], where: str) -> Diagnostics:
    """Compare the checksum. A file written by hand may lack one, and that is noted."""
    if "sha256" not in content:
        return Diagnostics().noting("no_checksum", "the file has no sha256, so damage would go unnoticed")
    rest = {key: value for key, value in content.items() if key != "sha256"}
    if content["sha256"] != _checksum(rest):
        raise ModelFileError(
            f"{where}: the checksum does not match: the file was damaged or edited since it was saved. "
            "If you edited it on purpose, remove its sha256"
        )
    return Diagnostics()


def _saved(content: dict[str, Any], notes: Diagnostics) -> SavedModel:
    pomdp, pomdp_extra, pomdp_repairs = _model(content, "pomdp", POMDP, _POMDP_FIELDS)
    psr, psr_extra, psr_repairs = _model(content, "psr", PSR, _PSR_FIELDS)
    unknown = {key: value for key, value in content.items() if key not in _SECTIONS}
    extra = {**unknown, **pomdp_extra, **psr_extra}
    return SavedModel(
        pomdp=pomdp,
        psr=psr,
        partition=_partition(content.get("partition")),
        provenance=_object("provenance", content.get("provenance", {})),
        diagnostics=_diagnostics(content.get("diagnostics", []))
        + _noting_unknown(notes, extra)
        + pomdp_repairs
        + psr_repairs
        + _unreachable(pomdp),
        extra=extra,
    )


def _model(
    content: Mapping[str, Any], section: str, kind: Callable[..., M], known: tuple[str, ...]
) -> tuple[M | None, dict[str, Any], Diagnostics]:
    """A model, its unknown fields under the name of its section, and what had to be repaired."""
    if content.get(section) is None:
        return None, {}, Diagnostics()
    values = _object(section, content[section])
    arguments = {name: values[name] for name in known if values.get(name) is not None}
    for name in _REQUIRED[section]:
        if name not in arguments:
            raise DataError(f"{section}: {name!r} is missing")
    for name in _NAMES:
        if not isinstance(arguments.get(name, []), list):
            raise DataError(f"{section}: {name} must be a list of names")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        try:
            model = kind(**arguments)
        except UnlatchError as error:
            raise DataError(f"{section}: {error}") from None
    repairs = Diagnostics()
    for warning in caught:
        repairs = repairs.noting("repaired", f"{section}: {warning.message}")
    unknown = {key: value for key, value in values.items() if key not in known}
    return model, {section: unknown} if unknown else {}, repairs


def _object(section: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{section}: expected an object, got {type(value).__name__}")
    return value


def _partition(labels: Any) -> Partition | None:
    if labels is None:
        return None
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DataError("partition: expected a list of whole numbers, one for every state")
    return Partition(np.array(labels))


def _diagnostics(entries: Any) -> Diagnostics:
    if not isinstance(entries, list):
        raise DataError("diagnostics: expected a list")
    return Diagnostics(tuple(_diagnostic(_object("diagnostics", entry)) for entry in entries))


def _diagnostic(entry: dict[str, Any]) -> Diagnostic:
    """One entry; fields that are not known here are kept among its details."""
    name, message = entry.get("name"), entry.get("message")
    if not isinstance(name, str) or not isinstance(message, str):
        raise DataError('diagnostics: every entry needs a "name" and a "message", both text')
    details = _object("diagnostics", entry.get("details", {}))
    known = ("name", "message", "details")
    return Diagnostic(name, message, {**details, **{k: v for k, v in entry.items() if k not in known}})


def _noting_unknown(notes: Diagnostics, extra: Mapping[str, Any]) -> Diagnostics:
    if not extra:
        return notes
    names = [f"{key}.{inner}" for key in ("pomdp", "psr") for inner in extra.get(key, {})]
    names += [key for key in extra if key not in _SECTIONS]
    return notes.noting("unknown_fields", f"kept but not understood: {', '.join(names)}", fields=names)


def _unreachable(pomdp: POMDP | None) -> Diagnostics:
    """States that no sequence of actions can lead to from the initial distribution."""
    if pomdp is None:
        return Diagnostics()
    leads = np.any(pomdp.transitions > 0, axis=0)
    reached = pomdp.initial > 0
    frontier = reached
    while frontier.any():
        frontier = np.any(leads[frontier], axis=0) & ~reached
        reached = reached | frontier
    if reached.all():
        return Diagnostics()
    names = [pomdp.state_names[s] for s in np.flatnonzero(~reached)]
    listing = ", ".join(map(repr, names[:12]))
    return Diagnostics().noting(
        "unreachable_states", f"{len(names)} states can never be reached: {listing}", states=names
    )
