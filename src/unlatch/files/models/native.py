"""Our own model files: versioned JSON with a checksum, written so that every number reads back to the last bit.

A file is data and nothing else: nothing in it is ever executed. Whatever is damaged, foreign or inconsistent
is refused with a `ModelFileError`; fields that a newer version added are kept when the model is saved again. What is
written has been read back first, so that a file that was saved can be loaded. `native_npz` has the same content with
the arrays as bytes.
"""

from __future__ import annotations

import hashlib
import platform
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib import metadata
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from unlatch import __version__
from unlatch.core.diagnostics import Diagnostic, Diagnostics
from unlatch.core.evidence import Evidence
from unlatch.core.identification import QUICK_STATES, Identification
from unlatch.core.intervals import KINDS, Intervals
from unlatch.core.partition import Partition
from unlatch.core.partition_model import PartitionModel
from unlatch.core.pomdp import POMDP
from unlatch.core.problem import Problem
from unlatch.core.psr import PSR
from unlatch.core.reward import Reward
from unlatch.errors import (
    DataError,
    ModelFileError,
    RepairWarning,
    ResourceLimitError,
    UnlatchError,
    UsageError,
)
from unlatch.files import strict_json
from unlatch.files.models.rewards import plain_reward, read_reward

__all__ = [
    "FILLED_IN",
    "FORMAT",
    "MAX_BYTES",
    "Learned",
    "SavedModel",
    "as_saved",
    "checked_version",
    "completed",
    "content_of",
    "json_bytes",
    "noting_newer",
    "read_json",
    "saved_from",
    "unreachable",
    "with_repairs_noted",
]

M = TypeVar("M", POMDP, PSR)

FORMAT = "unlatch-model"
MAJOR, MINOR = 1, 3
MAX_BYTES = 1 << 30

_SECTIONS = (
    "format",
    "version",
    "pomdp",
    "psr",
    "partition",
    "reward",
    "discount",
    "evidence",
    "identified",
    "log_likelihood",
    "intervals",
    "options",
    "diagnostics",
    "provenance",
    "sha256",
)
_POMDP_FIELDS = tuple(f.name for f in fields(POMDP))
_PSR_FIELDS = tuple(f.name for f in fields(PSR) if f.name != "replicates")
_REQUIRED = {"pomdp": ("transitions", "observations", "initial"), "psr": ("initial", "updates", "final")}
_NAMES = ("action_names", "observation_names", "state_names", "untried_actions", "first_observation_names")
_LIBRARIES = ("numpy", "scipy", "numba")
FILLED_IN = ("software", "software_before", "created")
"""Entries of the provenance that only `save_model` itself writes."""

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


class Learned(Protocol):
    """What a result of learning must have to be saved."""

    @property
    def pomdp(self) -> POMDP: ...
    @property
    def partition(self) -> Partition | None: ...
    @property
    def evidence(self) -> Evidence | None: ...
    @property
    def identified(self) -> Identification: ...
    @property
    def log_likelihood(self) -> float: ...
    @property
    def options(self) -> Any:
        """With a method ``as_dict`` that gives plain values."""

    @property
    def diagnostics(self) -> Diagnostics: ...
    @property
    def seed(self) -> int | None: ...
    @property
    def steps(self) -> int: ...
    @property
    def episodes(self) -> int: ...
    @property
    def full_rank_actions(self) -> tuple[int, ...]: ...
    @property
    def spectral(self) -> Any:
        """None, or with ``rank``, ``singular_values``, ``hankel`` and ``partition_model``."""


_RESULT = tuple(name for name in vars(Learned) if isinstance(vars(Learned)[name], property))


_KINDS: dict[str, Any] = {
    "pomdp": POMDP | None,
    "psr": PSR | None,
    "partition": Partition | None,
    "provenance": Mapping,
    "diagnostics": Diagnostics,
    "extra": Mapping,
    "evidence": Evidence | None,
    "identified": Identification | None,
    "options": Mapping,
    "log_likelihood": int | float | np.integer | np.floating | None,
    "intervals": Intervals | None,
    "reward": Reward | None,
    "discount": int | float | np.integer | np.floating | None,
}
"""Of the fields of a `SavedModel`."""


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
        How the model came about: versions, seed, the size of the log; plain JSON values.
    diagnostics : Diagnostics
    extra : mapping
        Fields that this version of the format does not know, kept as they were read.
    evidence : Evidence, optional
        How sure the number of states is.
    options : mapping
        The options that the model was learned with; plain JSON values.
    log_likelihood : float, optional
        Of the POMDP on the log that it was learned from, in nats; minus infinity if a spectral model rules it out.
    intervals : Intervals, optional
        How sure every number of the POMDP is.
    reward : Reward, optional
        What is to be pursued, if the file says so.
    discount : float, optional
        What a reward one step later counts for, if the file says so.
    identified : Identification, optional
        What the log determines of the POMDP, without the extreme models.

    Examples
    --------
    >>> import unlatch
    >>> saved = unlatch.SavedModel(pomdp=unlatch.domains.tiger(), provenance={"made": "by hand"})
    >>> unlatch.save_model("tiger.json", saved)
    >>> unlatch.load_model("tiger.json").provenance["made"]
    'by hand'
    """

    pomdp: POMDP | None = None
    psr: PSR | None = None
    partition: Partition | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    extra: Mapping[str, Any] = field(default_factory=dict)
    evidence: Evidence | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    log_likelihood: float | None = None
    intervals: Intervals | None = None
    reward: Reward | None = None
    discount: float | None = None
    identified: Identification | None = None

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            if not isinstance(getattr(self, name), kind):
                raise DataError(f"{name}: no value of type {type(getattr(self, name)).__name__} belongs here")
        if self.pomdp is None and self.psr is None:
            raise DataError("a saved model needs a pomdp or a psr; both are missing")
        states = self.pomdp.n_states if self.pomdp is not None else None
        if self.partition is not None and states not in (None, self.partition.n_states):
            raise DataError(f"partition: {self.partition.n_states} labels for {states} states of the pomdp")
        if self.log_likelihood is not None and not self.log_likelihood < np.inf:
            raise DataError(f"log_likelihood must be a number below infinity, got {self.log_likelihood}")
        if self.intervals is not None:
            _check_fit(self.intervals, self.pomdp)
        if self.reward is not None or self.discount is not None:
            self.problem  # noqa: B018  # refuses a reward or a discount that does not fit

    @property
    def model(self) -> POMDP | PSR:
        """The POMDP if there is one, else the PSR."""
        return self.pomdp if self.pomdp is not None else self.psr  # type: ignore[return-value]

    @cached_property
    def problem(self) -> Problem:
        """The model with its reward and discount; where the file has none, with the rewards that the model knows, and
        the usual discount. `UsageError` if there is no reward at all."""
        model: POMDP | PartitionModel | PSR = self.model
        if isinstance(model, PSR) and self.partition is not None:
            model = PartitionModel(model, self.partition)
        told = {} if self.discount is None else {"discount": float(self.discount)}
        return Problem(model, self.reward, diagnostics=self.diagnostics, **told)  # type: ignore[arg-type]


def _check_fit(intervals: Intervals, pomdp: POMDP | None) -> None:
    """Refuse intervals of another model."""
    for kind, bounds in zip(KINDS, intervals.rows, strict=True):
        rows = None if pomdp is None else getattr(pomdp, kind)
        ours = None if bounds is None else bounds.shape[:-1]
        if ours != (None if rows is None else rows.shape):
            raise DataError(f"intervals: {kind}: they are not of this pomdp")


def as_saved(model: POMDP | PSR | SavedModel | Learned) -> SavedModel:
    """Whatever can be saved, as what a file holds."""
    if isinstance(model, SavedModel):
        return model
    if isinstance(model, POMDP):
        return SavedModel(pomdp=model)
    if isinstance(model, PSR):
        return SavedModel(psr=model)
    missing = [name for name in _RESULT if not hasattr(model, name)]
    if missing:
        raise UsageError(
            "a result of learning, a POMDP, a PSR or a SavedModel can be saved, got "
            f"{type(model).__name__} (a result would have {', '.join(missing)})"
        )
    return _of_result(model)


def _of_result(result: Learned) -> SavedModel:
    """The PSR goes with the plain spectral model only: of another model it would be no description."""
    spectral = result.spectral
    plain = result.evidence is None and spectral is not None and spectral.partition_model is not None
    return SavedModel(
        pomdp=result.pomdp,
        psr=spectral.partition_model.psr if plain else None,
        partition=result.partition,
        evidence=result.evidence,
        identified=result.identified if result.pomdp.n_states <= QUICK_STATES else None,
        log_likelihood=result.log_likelihood,
        intervals=getattr(result, "stated", None),
        options=result.options.as_dict(),
        diagnostics=result.diagnostics,
        provenance={
            "log": {"steps": result.steps, "episodes": result.episodes},
            "seed": result.seed,
            "full_rank_actions": [result.pomdp.action_names[action] for action in result.full_rank_actions],
            "spectral": None if spectral is None else _of_spectral(spectral),
        },
    )


def _of_spectral(spectral: Any) -> dict[str, Any]:
    hankel = spectral.hankel
    return {
        "rank": spectral.rank,
        "singular_values": spectral.singular_values,
        "history_length": None if hankel is None else hankel.history_length,
        "test_length": None if hankel is None else hankel.test_length,
    }


def completed(provenance: Mapping[str, Any], timestamp: bool) -> dict[str, Any]:
    """With our versions first, and those that the model came with, if they were others, in a list of their own."""
    ours = _software()
    rest = {key: value for key, value in provenance.items() if key not in FILLED_IN}
    theirs, before = provenance.get("software", ours), provenance.get("software_before", [])
    if theirs != ours:
        before = [*(before if isinstance(before, list) else [before]), theirs]
    created = datetime.now(UTC).isoformat(timespec="seconds") if timestamp else provenance.get("created")
    made = {"software": ours, "software_before": before or None, "created": created}
    return {**{key: value for key, value in made.items() if value is not None}, **rest}


def _software() -> dict[str, str]:
    versions = {library: _version_of(library) for library in _LIBRARIES}
    found = {"unlatch": __version__, "python": platform.python_version()}
    return found | {library: version for library, version in versions.items() if version is not None}


@cache
def _version_of(library: str) -> str | None:
    """None if it is not installed: numba is not needed by everything. Looked up once, which takes milliseconds."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def json_bytes(saved: SavedModel, where: str) -> bytes:
    """The bytes of the file, which have been read back: what could not be loaded is not written."""
    try:
        content = content_of(saved)
        content["sha256"] = _checksum(content)
        data = (strict_json.pretty(content) + "\n").encode()
        if len(data) > MAX_BYTES:
            raise ResourceLimitError(f"{where}: {len(data)} bytes; a model file has at most {MAX_BYTES}")
        read_json(data, where)
    except ModelFileError as error:
        raise DataError(f"not written, because it could not be loaded again: {error}") from None
    except RecursionError:
        raise DataError(f"{where}: not written: a field is nested too deep, or holds itself") from None
    except ValueError as error:
        if isinstance(error, UnlatchError):
            raise
        raise DataError(f"{where}: not written: {error}") from None  # an integer of thousands of digits
    return data


def content_of(saved: SavedModel, arrays: dict[str, NDArray[Any]] | None = None) -> dict[str, Any]:
    """Everything but the checksum, as plain JSON values, unknown fields where they were read. The arrays of models and
    rewards go to ``arrays``, if that is given, by names such as ``pomdp.initial``."""
    extra = _plain(saved.extra)
    values = {
        "format": FORMAT,
        "version": f"{MAJOR}.{MINOR}",
        "pomdp": _section("pomdp", saved.pomdp, _POMDP_FIELDS, extra, arrays),
        "psr": _section("psr", saved.psr, _PSR_FIELDS, extra, arrays),
        "partition": None if saved.partition is None else saved.partition.labels.tolist(),
        "reward": None if saved.reward is None else plain_reward(saved.reward, arrays),
        "discount": None if saved.discount is None else float(saved.discount),
        "evidence": None if saved.evidence is None else _plain(saved.evidence.as_dict()),
        "identified": None if saved.identified is None else _plain(saved.identified.as_dict()),
        "log_likelihood": _plain(saved.log_likelihood),
        "intervals": None if saved.intervals is None else saved.intervals.as_dict(),
        "options": _plain(saved.options) or None,
        "diagnostics": [
            {"name": entry.name, "message": entry.message, "details": _plain(entry.details)}
            for entry in saved.diagnostics
            if entry.name not in _ABOUT_THE_FILE
        ],
        "provenance": _plain(saved.provenance),
    }
    content = {key: value for key, value in values.items() if value is not None}
    return {**content, **{key: value for key, value in extra.items() if key not in _SECTIONS}}


def _section(
    section: str,
    model: POMDP | PSR | None,
    names: tuple[str, ...],
    extra: Mapping[str, Any],
    arrays: dict[str, NDArray[Any]] | None,
) -> dict[str, Any] | None:
    """A model's fields, without those that say nothing."""
    if model is None:
        return None
    own = {name: getattr(model, name) for name in names}
    if arrays is not None:
        apart = {name: value for name, value in own.items() if isinstance(value, np.ndarray)}
        arrays.update({f"{section}.{name}": value for name, value in apart.items()})
        own = {name: value for name, value in own.items() if name not in apart}
    values = {name: _plain(value) for name, value in own.items()}
    unknown = _object(f"extra: {section}", extra.get(section, {}))
    return unknown | {name: value for name, value in values.items() if value is not None and value != []}


def _plain(value: Any) -> Any:
    """A JSON value that says the same; what JSON has no form for becomes text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        result = {_plain_text(key): _plain(item) for key, item in value.items()}
        if len(result) < len(value):
            raise DataError(f"two keys have the same text: {', '.join(map(repr, value))}"[:200])
        return result
    if isinstance(value, set | frozenset):
        return sorted(
            (_plain(item) for item in value), key=strict_json.canonical
        )  # in the same order every time
    if isinstance(value, list | tuple):
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


def read_json(data: bytes, where: str) -> SavedModel:
    """The model of a JSON file, given by its bytes."""
    _refuse_foreign(data, where)
    content = strict_json.parse(data, where)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFileError(f'{where}: no unlatch model; "format" must be {FORMAT!r} at the top level')
    minor = checked_version(content, where)
    notes = noting_newer(content, minor) + _verified(content, minor, where)
    try:
        return saved_from(content, notes)
    except UnlatchError as error:
        raise ModelFileError(f"{where}: {error}") from None


def _refuse_foreign(data: bytes, where: str) -> None:
    if not data:
        raise ModelFileError(f"{where}: the file is empty")
    kind = next((kind for magic, kind in _FOREIGN if data.startswith(magic)), None)
    if data[0] == 0x80:
        kind = "a pickle, which could run any program"
    if kind is not None:
        raise ModelFileError(
            f"{where}: refused: {kind}; models are read from unlatch's own files and from .POMDP and .pomdpx files"
        )


def checked_version(content: Mapping[str, Any], where: str) -> int:
    """The minor version of a file whose major version is ours."""
    version = content.get("version")
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        raise ModelFileError(f'{where}: "version" must be text like "{MAJOR}.{MINOR}", got {version!r:.40}')
    if int(match[1]) != MAJOR:
        raise ModelFileError(
            f"{where}: format version {version}; this unlatch ({__version__}) reads {MAJOR}.x: "
            "use the unlatch that wrote the file"
        )
    return int(match[2])


def noting_newer(content: Mapping[str, Any], minor: int) -> Diagnostics:
    """A note for a file of a later minor version."""
    if minor <= MINOR:
        return Diagnostics()
    version = content["version"]
    return Diagnostics().noting(
        "newer_version", f"the file has format version {version}, newer than {MAJOR}.{MINOR}", version=version
    )


def _verified(content: Mapping[str, Any], minor: int, where: str) -> Diagnostics:
    """Compare the checksum. A file written by hand says that it has none, which is noted.

    Files of version 1.0 could leave it out; since then its absence means that its name was damaged.
    """
    if "sha256" not in content and minor > 0:
        raise ModelFileError(
            f'{where}: "sha256" is missing, so the file was damaged or edited. If you wrote or edited it on purpose, '
            'put "sha256": null'
        )
    if content.get("sha256") is None:
        return Diagnostics().noting("no_checksum", "the file has no sha256, so damage would go unnoticed")
    rest = {key: value for key, value in content.items() if key != "sha256"}
    if content["sha256"] != _checksum(rest):
        raise ModelFileError(
            f"{where}: the checksum does not match: the file was damaged or edited since it was saved. "
            'If you edited it on purpose, put "sha256": null'
        )
    return Diagnostics()


def saved_from(content: dict[str, Any], notes: Diagnostics) -> SavedModel:
    """The model that a content describes; arrays may be arrays or lists."""
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
        + unreachable(pomdp),
        extra=extra,
        evidence=_evidence(content.get("evidence")),
        identified=_identified(content.get("identified"), pomdp),
        options=_object("options", content.get("options", {})),
        log_likelihood=_log_likelihood(content.get("log_likelihood")),
        intervals=_intervals(content.get("intervals")),
        reward=None if content.get("reward") is None else read_reward(content["reward"]),
        discount=_discount(content.get("discount")),
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
        if name in arguments:
            arguments[name] = _names(section, name, arguments[name])
    if "terminal" in arguments:
        arguments["terminal"] = _states(section, arguments["terminal"])
    if "first_observation_names" in arguments and "first_observations" not in arguments:
        raise DataError(
            f"{section}: first_observation_names without first_observations; give both or neither"
        )
    try:
        model, repairs = with_repairs_noted(kind, section, **arguments)
    except UnlatchError as error:
        raise DataError(f"{section}: {error}") from None
    unknown = {key: value for key, value in values.items() if key not in known}
    return model, {section: unknown} if unknown else {}, repairs


def _object(section: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{section}: expected an object, got {type(value).__name__}")
    return value


def _names(section: str, name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DataError(f"{section}: {name} must be a list of names")
    return tuple(value)


def _states(section: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise DataError(f"{section}: terminal must be a list of states, as whole numbers from 0")
    return tuple(value)


def _identified(value: Any, pomdp: POMDP | None) -> Identification | None:
    if value is None:
        return None
    if pomdp is None:
        raise DataError("identified: without a pomdp there is nothing to identify")
    return Identification.from_dict(_object("identified", value), pomdp)


def _evidence(values: Any) -> Evidence | None:
    return None if values is None else Evidence.from_dict(_object("evidence", values))


def _intervals(values: Any) -> Intervals | None:
    return None if values is None else Intervals.from_dict(_object("intervals", values))


def _log_likelihood(value: Any) -> float | None:
    if value is None:
        return None
    if value == "-inf":
        return -np.inf
    if type(value) not in (int, float):
        raise DataError(f"log_likelihood: expected a number, got {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise DataError("log_likelihood: a number is too large") from None


def _discount(value: Any) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise DataError(f"discount: expected a number, got {type(value).__name__}")
    return None if value is None else float(np.clip(value, -1, 2))  # an integer may have any number of digits


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


def with_repairs_noted(kind: Callable[..., M], section: str, **arguments: Any) -> tuple[M, Diagnostics]:
    """A model of these arguments, and what had to be repaired: a file's notes tell it, no warning does."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        model = kind(**arguments)
    repairs = Diagnostics()
    for warning in caught:
        repairs = repairs.noting("repaired", f"{section}: {warning.message}")
    return model, repairs


def unreachable(pomdp: POMDP | None) -> Diagnostics:
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
