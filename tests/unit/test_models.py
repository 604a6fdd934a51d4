"""Model files: every bit comes back, and whatever is wrong with a file is said."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import pickle
import platform
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unlatch
from unlatch import (
    POMDP,
    Diagnostics,
    Identification,
    Partition,
    SavedModel,
    domains,
    identify,
    learn_pomdp,
    load_model,
    save_model,
    simulate,
    uncertainty,
)
from unlatch.core.evidence import Evidence
from unlatch.core.intervals import Entry, Intervals
from unlatch.core.partition_model import PartitionModel
from unlatch.errors import (
    DataError,
    ModelFileError,
    ResourceLimitError,
    StorageError,
    UnlatchError,
    UsageError,
)
from unlatch.files import strict_json
from unlatch.files.models import native

SMALL = POMDP(
    transitions=[[[0.9, 0.1], [0.3, 0.7]]],
    observations=[[[1.0, 0.0], [1 / 3, 2 / 3]]],
    initial=[0.25, 0.75],
    action_names=("gø",),
    symbol_rewards=[0.0, -1.5],
)

EPISODIC = POMDP(
    transitions=[[[0.5, 0.25, 0.25, 0.0], [0.0, 0.9, 0.0, 0.1], [0, 0, 1, 0], [0, 0, 0, 1]]],
    observations=[[[1.0, 0.0], [1 / 3, 2 / 3], [0, 1], [1, 0]]],
    initial=[0.25, 0.75, 0, 0],
    emission="arrival",
    terminal=(2, 3),
    first_observations=[[0.5, 0.3, 0.2], [0.0, 0.1, 0.9], [1, 0, 0], [1, 0, 0]],
    first_observation_names=("dark", "dim", "light"),
    reward_values=[-1.5, 0.0, 1e-300],
    reward_probabilities=[[[0.1, 0.2, 0.7], [1, 0, 0], [0, 1, 0], [0, 1, 0]]],
)
"""A model with every field that a model can have, but for rewards of symbols."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.json"


def refusal(path: Path, content: bytes | str) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def edited(path: Path, change: Callable[[dict[str, Any]], object], model: POMDP = SMALL) -> Path:
    """A file of a model, the small one by default, after a change, its checksum made right again."""
    save_model(path, model)
    content = json.loads(path.read_text())
    del content["sha256"]
    change(content)
    content["sha256"] = hashlib.sha256(strict_json.canonical(content)).hexdigest()
    path.write_text(json.dumps(content))
    return path


GOLDEN = Path(__file__).parent.parent / "golden"

EVIDENCE = Evidence(
    states=2, scores={1: -812.5, 2: 0.0, 3: -7.25}, runner_up=3, gap=7.25, steps=2000, steps_to_settle=0
)


@dataclasses.dataclass(frozen=True)
class Options:
    states: int | None = None
    time_limit: float | None = 60.0
    lengths: tuple[int, ...] = (3, 2)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Hankel:
    history_length: int = 3
    test_length: int = 2


@dataclasses.dataclass(frozen=True)
class Spectral:
    rank: int = 2
    singular_values: Any = dataclasses.field(default_factory=lambda: np.array([0.5, 0.25, 1e-3]))
    hankel: Hankel = dataclasses.field(default_factory=Hankel)
    partition_model: PartitionModel | None = None


@dataclasses.dataclass(frozen=True)
class Result:
    """What learning gives, as far as a file needs it."""

    pomdp: POMDP = dataclasses.field(default_factory=lambda: SMALL)
    partition: Partition = dataclasses.field(default_factory=lambda: Partition([0, 1]))
    full_rank_actions: tuple[int, ...] = (0,)
    evidence: Evidence | None = dataclasses.field(default_factory=lambda: EVIDENCE)
    log_likelihood: float = -1234.5
    spectral: Spectral | None = dataclasses.field(default_factory=Spectral)
    options: Options = dataclasses.field(default_factory=Options)
    steps: int = 2000
    episodes: int = 3
    seed: int | None = 17
    diagnostics: Diagnostics = dataclasses.field(default_factory=lambda: Diagnostics().noting("few", "steps"))
    identified: Identification | None = dataclasses.field(default_factory=lambda: identify(SMALL))


# ---------------------------------------------------------------- round trips


@pytest.mark.parametrize("model", [domains.tiger(), domains.tmaze(2, fail=0.1), domains.noisy_hallway()])
def test_domains_come_back_bit_for_bit(path: Path, model: POMDP) -> None:
    save_model(path, model)
    saved = load_model(path)
    assert saved.pomdp == model
    assert saved.model is saved.pomdp
    assert saved.psr is None
    assert saved.partition is None
    assert len(saved.diagnostics) == 0
    assert saved.extra == {}


def test_endings_first_observations_and_rewards_beside_come_back_bit_for_bit(path: Path) -> None:
    save_model(path, EPISODIC)
    saved = load_model(path)
    assert saved.pomdp == EPISODIC
    assert len(saved.diagnostics) == 0
    written = json.loads(path.read_text())["pomdp"]
    assert written["terminal"] == [2, 3]
    assert written["first_observation_names"] == ["dark", "dim", "light"]
    assert written["reward_values"] == [-1.5, 0.0, 1e-300]
    save_model(path, SMALL)
    absent = {
        "terminal",
        "first_observations",
        "first_observation_names",
        "reward_values",
        "reward_probabilities",
    }
    assert absent.isdisjoint(json.loads(path.read_text())["pomdp"])


@given(seed=st.integers(0, 2**32), arrival=st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_models_come_back_bit_for_bit(path: Path, seed: int, arrival: bool) -> None:
    rng = np.random.default_rng(seed)
    model = POMDP(
        transitions=rng.dirichlet(np.full(3, 0.1), (2, 3)),
        observations=rng.dirichlet(np.full(4, 0.01), (2, 3)),
        initial=rng.dirichlet(np.ones(3)),
        emission="arrival" if arrival else "departure",
        symbol_rewards=rng.standard_normal(4) * 10.0 ** rng.integers(-300, 300, 4),
    )
    save_model(path, model, psr=model.to_psr())
    assert load_model(path).pomdp == model
    assert load_model(path).psr == model.to_psr()


def test_psr_alone(path: Path) -> None:
    psr = SMALL.to_psr().transformed([[1.0, 0.5], [0.0, 2.0]])
    save_model(path, dataclasses.replace(psr, replicates=(psr,)))
    saved = load_model(path)
    assert saved.model == psr
    assert saved.pomdp is None
    assert saved.psr is not None
    assert saved.psr.replicates == ()


def test_everything_comes_back(path: Path) -> None:
    saved = SavedModel(
        pomdp=SMALL,
        psr=SMALL.to_psr(),
        partition=Partition([0, 0]),
        provenance={"seed": 2**62, "options": {"rank": 2, "note": "ß"}, "none": None},
        diagnostics=Diagnostics().noting("clipped", "a bit", by=1e-3, where=[0, 1]),
    )
    save_model(path, saved)
    loaded = load_model(path)
    assert loaded.pomdp == saved.pomdp
    assert loaded.psr == saved.psr
    assert loaded.partition == saved.partition
    assert loaded.diagnostics == saved.diagnostics
    assert dict(saved.provenance).items() <= dict(loaded.provenance).items()
    first = path.read_bytes()
    save_model(path, loaded)
    assert path.read_bytes() == first


def test_parts_given_apart_replace_those_of_a_saved_model(path: Path) -> None:
    save_model(
        path,
        SavedModel(pomdp=SMALL, provenance={"a": 1, "b": 1}),
        partition=Partition([0, 1]),
        provenance={"b": 2},
        diagnostics=Diagnostics().noting("rank", "no gap"),
    )
    loaded = load_model(path)
    assert loaded.partition == Partition([0, 1])
    assert "rank" in loaded.diagnostics
    assert (loaded.provenance["a"], loaded.provenance["b"]) == (1, 2)


# ---------------------------------------------------------------- results of learning


def test_result_comes_back_with_all_that_is_known(path: Path) -> None:
    result = Result()
    save_model(path, result)
    loaded = load_model(path)
    assert loaded.pomdp == result.pomdp
    assert loaded.partition == result.partition
    assert loaded.evidence == result.evidence
    assert loaded.log_likelihood == result.log_likelihood
    assert loaded.options == {"states": None, "time_limit": 60.0, "lengths": [3, 2]}
    assert loaded.diagnostics == result.diagnostics
    assert loaded.psr is None
    software = loaded.provenance["software"]
    assert set(software) == {"unlatch", "python", "numpy", "scipy", "numba"}
    assert {key: value for key, value in loaded.provenance.items() if key != "software"} == {
        "log": {"steps": 2000, "episodes": 3},
        "seed": 17,
        "full_rank_actions": ["gø"],
        "spectral": {
            "rank": 2,
            "singular_values": [0.5, 0.25, 1e-3],
            "history_length": 3,
            "test_length": 2,
        },
    }
    first = path.read_bytes()
    save_model(path, loaded)
    assert path.read_bytes() == first


@pytest.mark.parametrize("refine", ["auto", None])
def test_what_learn_pomdp_returns_comes_back(path: Path, refine: Any) -> None:
    result = learn_pomdp(simulate(domains.tiger(), 2_000, rng=0), refine=refine, rng=5)
    save_model(path, result)
    first, loaded = path.read_bytes(), load_model(path)
    assert loaded.pomdp == result.pomdp
    assert loaded.partition == result.partition
    assert loaded.evidence == result.evidence
    assert loaded.log_likelihood == result.log_likelihood
    assert loaded.options == result.options.as_dict()
    assert [note.name for note in loaded.diagnostics] == [note.name for note in result.diagnostics]
    assert loaded.provenance["seed"] == 5
    assert loaded.provenance["log"] == {"steps": 2000, "episodes": 1}
    assert result.spectral is not None
    assert loaded.provenance["spectral"]["rank"] == result.spectral.rank
    assert (loaded.psr is None) == (refine == "auto")
    save_model(path, result)
    assert path.read_bytes() == first
    save_model(path, loaded)
    assert path.read_bytes() == first


def test_result_whose_evidence_is_without_limit(path: Path) -> None:
    alone = Evidence(2, {2: 0.0, 3: -np.inf}, None, np.inf, 10, None, complete=False, fixed=True)
    save_model(path, Result(evidence=alone))
    assert load_model(path).evidence == alone


def test_psr_is_stored_with_the_plain_spectral_model_only(path: Path) -> None:
    partition_model = PartitionModel(SMALL.to_psr(), Partition([0, 1]))
    spectral = Spectral(partition_model=partition_model)
    save_model(path, Result(spectral=spectral))
    assert load_model(path).psr is None
    save_model(path, Result(spectral=spectral, evidence=None))
    assert load_model(path).psr == SMALL.to_psr()
    assert load_model(path).evidence is None


def test_result_without_a_spectral_answer(path: Path) -> None:
    save_model(path, Result(spectral=None, seed=None))
    assert load_model(path).provenance["spectral"] is None
    assert load_model(path).provenance["seed"] is None


def test_two_saves_of_one_result_give_the_same_bytes(path: Path) -> None:
    """One run, the same bytes: the time is noted only if asked for."""
    save_model(path, Result())
    first = path.read_bytes()
    save_model(path, Result())
    assert path.read_bytes() == first
    assert b"created" not in first
    save_model(path, Result(), timestamp=True)
    loaded = load_model(path)
    assert str(loaded.provenance["created"]).endswith("+00:00")
    save_model(path, loaded)
    assert load_model(path).provenance["created"] == loaded.provenance["created"]


def test_what_lacks_a_part_of_a_result_is_no_result(path: Path) -> None:
    class Half:
        pomdp = SMALL

    with pytest.raises(UsageError, match=r"got Half \(a result would have partition, evidence, "):
        save_model(path, Half())  # type: ignore[arg-type]
    assert not path.exists()


def test_log_that_a_spectral_model_rules_out(path: Path) -> None:
    save_model(path, Result(log_likelihood=-np.inf))
    assert load_model(path).log_likelihood == -np.inf


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_likelihood_that_is_none_is_not_saved(path: Path, value: float) -> None:
    with pytest.raises(DataError, match="log_likelihood must be a number below infinity"):
        save_model(path, Result(log_likelihood=value))
    assert not path.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evidence": 3}, "evidence: expected an object"),
        ({"evidence": {}}, "evidence: KeyError"),
        ({"evidence": {**EVIDENCE.as_dict(), "gap": -1.0}}, "cannot be negative"),
        ({"evidence": {**EVIDENCE.as_dict(), "gap": 10**400}}, "evidence: "),
        ({"evidence": {**EVIDENCE.as_dict(), "gap": "nan"}}, "cannot be negative"),
        ({"evidence": {**EVIDENCE.as_dict(), "states": True}}, "whole number"),
        ({"evidence": {**EVIDENCE.as_dict(), "scores": [1]}}, "evidence: "),
        ({"evidence": {**EVIDENCE.as_dict(), "scores": {"²": 1}}}, "evidence: "),
        ({"evidence": {**EVIDENCE.as_dict(), "runner_up": 9}}, "the runner-up 9 has no score"),
        ({"options": [1]}, "options: expected an object"),
        ({"log_likelihood": "x"}, "log_likelihood: expected a number"),
        ({"log_likelihood": True}, "log_likelihood: expected a number"),
        ({"log_likelihood": 10**400}, "log_likelihood: a number is too large"),
    ],
)
def test_sections_of_a_result_that_do_not_fit(path: Path, change: dict[str, Any], message: str) -> None:
    edited(path, lambda c: c.update(change))
    assert message in refusal(path, path.read_bytes())


def test_empty_names_are_not_written_and_lists_of_names_are_read_as_tuples(path: Path) -> None:
    save_model(path, SMALL)
    content = json.loads(path.read_text())["pomdp"]
    assert [name for name, value in content.items() if value in (None, [], ())] == []
    loaded = load_model(path).pomdp
    assert loaded is not None
    for field in dataclasses.fields(loaded):
        assert not isinstance(getattr(loaded, field.name), list)


# ---------------------------------------------------------------- provenance


def test_versions_are_those_of_the_software_that_writes(path: Path) -> None:
    save_model(path, SMALL)
    software = load_model(path).provenance["software"]
    assert software["unlatch"] == unlatch.__version__
    assert software["python"] == platform.python_version()
    assert software["numpy"] == np.__version__


@pytest.mark.parametrize("name", ["software", "software_before", "created"])
def test_f10_a_caller_cannot_override_the_versions(path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"provenance: {name} is filled in by save_model"):
        save_model(path, SMALL, provenance={name: {"numpy": "another"}})
    assert not path.exists()


def test_versions_that_a_model_came_with_are_kept_beside_ours(path: Path) -> None:
    save_model(path, SMALL)
    ours = load_model(path).provenance["software"]
    theirs = {"unlatch": "0.0.1", "numpy": "1.0"}
    save_model(path, SavedModel(pomdp=SMALL, provenance={"software": theirs}))
    for _ in range(2):
        loaded = load_model(path)
        assert loaded.provenance["software"] == ours
        assert loaded.provenance["software_before"] == [theirs]
        save_model(path, loaded)


def test_provenance_of_any_kind_becomes_plain(path: Path) -> None:
    given = {
        "array": np.arange(2),
        "number": np.float64(0.5),
        "infinite": float("inf"),
        "path": Path("x") / "y",
        "odd name": "a\udcff",
        "tuple": (1, True),
        3: {4: None},
    }
    save_model(path, SMALL, provenance=given)  # type: ignore[arg-type]
    provenance = load_model(path).provenance
    assert provenance["array"] == [0, 1]
    assert provenance["number"] == 0.5
    assert provenance["infinite"] == "inf"
    assert provenance["path"] == os.path.join("x", "y")
    assert provenance["odd name"] == "a\\udcff"
    assert provenance["tuple"] == [1, True]
    assert provenance["3"] == {"4": None}


@pytest.mark.parametrize("model", [None, "model", 3])
def test_only_models_are_saved(path: Path, model: Any) -> None:
    with pytest.raises(UsageError, match="a POMDP, a PSR or a SavedModel"):
        save_model(path, model)
    assert not path.exists()


@pytest.mark.parametrize(
    "part", [{"partition": [0, 1]}, {"psr": SMALL}, {"provenance": [1]}, {"diagnostics": ["x"]}]
)
def test_parts_of_another_type_are_a_usage_error(path: Path, part: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be of type"):
        save_model(path, SMALL, **part)


@pytest.mark.parametrize("use", [load_model, lambda path: save_model(path, SMALL)])
@pytest.mark.parametrize(("wrong", "error"), [(None, UsageError), (3, UsageError), ("", StorageError)])
def test_what_is_no_path_is_a_declared_error(use: Any, wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="path"):
        use(wrong)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "provenance",
    [
        {"deep": nested(600)},
        {"deep": nested(100_000)},
        {"digits": 10**5000},
        {1: "one", "1": "uno"},
        {"many": [[]] * (1 << 20)},
    ],
    ids=["600 levels", "100000 levels", "digits", "keys", "lists"],
)
@pytest.mark.compiled
def test_what_could_not_be_loaded_is_not_saved(path: Path, provenance: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        save_model(path, SMALL, provenance=provenance)
    assert not path.exists()


def test_provenance_that_holds_itself_is_not_saved(path: Path) -> None:
    circle: dict[str, Any] = {}
    circle["circle"] = circle
    with pytest.raises(DataError, match="nested too deep, or holds itself"):
        save_model(path, SMALL, provenance=circle)


def test_unknown_fields_of_no_form_are_not_saved(path: Path) -> None:
    with pytest.raises(DataError, match="extra: pomdp: expected an object"):
        save_model(path, SavedModel(pomdp=SMALL, extra={"pomdp": [1]}))


def test_model_too_large_for_a_file_is_not_saved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MAX_BYTES", 100)
    with pytest.raises(ResourceLimitError, match="a model file has at most 100"):
        save_model(path, SMALL)
    assert not path.exists()


def test_sets_are_written_in_one_order(path: Path) -> None:
    names = [f"name {i}" for i in range(50)]
    save_model(path, SMALL, provenance={"names": frozenset(names)})
    assert load_model(path).provenance["names"] == sorted(names)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(SavedModel)])
@pytest.mark.parametrize("value", ["x", [1], b"y", object(), np.zeros(2)])
def test_saved_model_takes_no_value_of_another_type(name: str, value: Any) -> None:
    with pytest.raises(DataError, match=f"{name}: no value of type"):
        SavedModel(**{"pomdp": SMALL, name: value})


def test_saved_model_needs_a_model_that_fits() -> None:
    with pytest.raises(DataError, match="needs a pomdp or a psr"):
        SavedModel()
    with pytest.raises(DataError, match="3 labels for 2 states"):
        SavedModel(pomdp=SMALL, partition=Partition([0, 1, 2]))


def test_file_is_plain_text(path: Path) -> None:
    """C20: UTF-8, LF and decimal points on every system; rows of matrices on lines of their own."""
    save_model(path, SMALL)
    content = path.read_bytes()
    assert b"\r" not in content
    assert content.endswith(b'"\n}\n')
    assert "gø".encode() in content
    assert b"    [0.3333333333333333, 0.6666666666666666]" in content
    assert list(json.loads(content)) == ["format", "version", "pomdp", "diagnostics", "provenance", "sha256"]


# ---------------------------------------------------------------- foreign and damaged files


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../x.npy", bytes(1 << 20))
    return buffer.getvalue()


def saved_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.eye(2))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({"a": 1}), "a pickle"),
        (pickle.dumps({"a": 1}, protocol=2), "a pickle"),
        (pickle.dumps({"a": 1}, protocol=0), "line 1, column 1"),
        (zipped(), "a zip archive"),
        (saved_array(), "a NumPy array"),
        (b"\x1f\x8b\x08", "compressed by gzip"),
        (b"", "the file is empty"),
        (b"\x89HDF\r\n", "HDF5"),
        (b"discount: 0.95\n", "line 1, column 1"),
        (b"\0\0\0", "line 1, column 1"),
    ],
)
def test_c1_to_c4_foreign_files(path: Path, content: bytes, message: str) -> None:
    assert message in refusal(path, content)


def test_c5_truncated_anywhere(path: Path) -> None:
    save_model(path, SMALL)
    content = path.read_bytes()
    for length in range(0, len(content) - 2, 7):
        refusal(path, content[:length])


def test_c5_every_bit_flip_is_noticed_or_harmless(path: Path) -> None:
    """Also in the name of the checksum: to damage it was once to strip it."""
    save_model(path, SMALL, partition=Partition([0, 1]))
    good, expected = path.read_bytes(), load_model(path)
    for position in range(8 * len(good)):
        damaged = bytearray(good)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            loaded = load_model(path)
        except ModelFileError:
            continue
        assert loaded == expected


def test_checksum(path: Path) -> None:
    save_model(path, SMALL)
    content = json.loads(path.read_text())
    content["pomdp"]["initial"] = [0.5, 0.5]
    message = refusal(path, json.dumps(content))
    assert "the checksum does not match" in message
    assert 'put "sha256": null' in message
    content["sha256"] = None
    path.write_text(json.dumps(content))
    assert "no_checksum" in load_model(path).diagnostics
    save_model(path, load_model(path))
    assert len(load_model(path).diagnostics) == 0


def test_checksum_cannot_be_stripped(path: Path) -> None:
    save_model(path, SMALL)
    message = refusal(path, path.read_bytes().replace(b'"sha256"', b'"sha25v"'))
    assert '"sha256" is missing' in message
    assert 'put "sha256": null' in message


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_files_of_every_version_are_read(path: Path, version: str) -> None:
    loaded = load_model(GOLDEN / f"model-{version}.json")
    assert loaded.pomdp == SMALL
    assert loaded.partition == Partition([0, 1])
    assert loaded.provenance["seed"] == (1 if version == "1.0" else 17)
    assert loaded.evidence == (None if version == "1.0" else EVIDENCE)
    assert loaded.log_likelihood == (None if version == "1.0" else -1234.5)
    assert loaded.psr == (SMALL.to_psr() if version == "1.0" else None)
    assert "newer_version" not in loaded.diagnostics
    save_model(path, loaded)
    again = load_model(path)
    assert (again.pomdp, again.evidence, again.diagnostics) == (
        loaded.pomdp,
        loaded.evidence,
        loaded.diagnostics,
    )


def test_file_with_every_field_of_a_model_is_read(path: Path) -> None:
    loaded = load_model(GOLDEN / "model-1.2.json")
    assert loaded.pomdp == EPISODIC
    assert len(loaded.diagnostics) == 0
    save_model(path, loaded)
    assert load_model(path).pomdp == EPISODIC


def small_intervals() -> Intervals:
    """Of `SMALL`, as if half of it had been seen."""
    log = simulate(SMALL, 400, rng=0)
    return uncertainty(SMALL, log).intervals(0.8)


def test_intervals_come_back_bit_for_bit(path: Path) -> None:
    given = small_intervals()
    save_model(path, SavedModel(pomdp=SMALL, intervals=given))
    loaded = load_model(path)
    assert loaded.intervals is not None
    assert loaded.intervals.as_dict() == given.as_dict()
    assert len(loaded.diagnostics) == 0
    again = path.read_bytes()
    save_model(path, loaded)
    assert path.read_bytes() == again


def test_intervals_of_a_result_are_saved(path: Path) -> None:
    @dataclasses.dataclass(frozen=True)
    class Sure(Result):
        stated: Intervals | None = None

    save_model(path, Sure(stated=small_intervals()))
    assert load_model(path).intervals.level == 0.8  # type: ignore[union-attr]
    save_model(path, Result())
    assert load_model(path).intervals is None


def test_file_with_intervals_is_read(path: Path) -> None:
    loaded = load_model(GOLDEN / "model-1.3.json")
    assert loaded.pomdp == SMALL
    assert loaded.intervals is not None
    assert loaded.intervals.level == 0.8
    assert len(loaded.diagnostics) == 0
    low, high = loaded.intervals.of(Entry("transitions", 0, 0, 0))
    assert 0 <= low < SMALL.transitions[0, 0, 0] < high <= 1


def test_intervals_of_another_model_are_refused(path: Path) -> None:
    with pytest.raises(DataError, match="intervals"):
        SavedModel(pomdp=domains.tiger(), intervals=small_intervals())
    save_model(path, SavedModel(pomdp=SMALL, intervals=small_intervals()))
    content = json.loads(path.read_text())
    content["sha256"] = None
    content["intervals"]["level"] = "high"
    assert "intervals" in refusal(path, json.dumps(content).encode())


def test_file_of_the_first_version_may_lack_a_checksum(path: Path) -> None:
    content = json.loads((GOLDEN / "model-1.0.json").read_text())
    del content["sha256"]
    path.write_text(json.dumps(content))
    assert "no_checksum" in load_model(path).diagnostics


def test_c5_oversized_and_missing_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="No such file"):
        load_model(path)
    save_model(path, SMALL)
    monkeypatch.setattr(native, "MAX_BYTES", 100)
    with pytest.raises(StorageError, match="at most 100"):
        load_model(path)


# ---------------------------------------------------------------- JSON that the standard parser lets pass


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": [1,\n NaN]}', "line 2, column 2: NaN"),
        ('{"NaN": -Infinity}', "line 1, column 9: -Infinity"),
        ('{"a": 1,\n "b": {"a": 2, "c": [{"a": 1}], "a": 3}}', "line 2, column 33: the key 'a' stands twice"),
        ('{"x": "{", "\\u0061": 1, "a": 2}', "line 1, column 25: the key 'a' stands twice"),
        ('{"a": [0.5, 1e999]}', "line 1, column 13: a number is too large"),
        ('{"a": -1e999}', "line 1, column 7: a number is too large"),
        ('{"a": 1E+400}', "line 1, column 7: a number is too large"),
        ('{"a": 1e0000400}', "line 1, column 7: a number is too large"),
        ('{"a": 1' + "0" * 250 + "e99}", "line 1, column 7: a number is too large"),
        ('{"a": ' + "9" * 310 + ".0}", "line 1, column 7: a number is too large"),
        ('{"a": "\\uDfff"}', "line 1, column 7: a lone surrogate"),
        ('{"a": "\\ud83d\\ude00"}', "no unlatch model"),
        ('{"a": ' + "9" * 5000 + "}", "line 1, column 7: a number is too large"),
        ('{"a": "ok", "b": "\\ud800"}', "line 1, column 18: a lone surrogate"),
        ('{"a": 1} x', "line 1, column 10: Extra data"),
        ('{"a": 1}{}', "line 1, column 9: Extra data"),
        ("\ufeff{}", "byte 0: a byte order mark"),
        ("[" * 100_000, "line 1, column 101: brackets are nested too deep"),
        ('{"a":' * 50_000, "brackets are nested too deep"),
        ('{"a": ' + "[" * 600 + "]" * 600 + "}", "line 1, column 106: brackets are nested too deep"),
        ('{"a": ' + "[" * 100 + "]" * 100 + "}", "line 1, column 106: brackets are nested too deep"),
        ('{"a": ' + "[" * 99 + "]" * 99 + "}", "no unlatch model"),
        ("[" + "[]," * (1 << 20) + "[]]", "1048578 lists in 3145732 bytes"),
        ("[" + "{}," * (1 << 17) + "{}]", "131073 objects in "),
        ("[" + '"",' * (1 << 19) + '""]', "1048578 quotes in "),
        ('{"a": 1,}', "line 1, column "),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": 01}', "line 1, column 8"),
        ('{"a": "\n"}', "line 1, column 8"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "byte 7 is not UTF-8"),
    ],
)
def test_c6_json(path: Path, text: str | bytes, message: str) -> None:
    assert message in refusal(path, text)


def test_file_of_empty_lists_costs_little_memory(path: Path) -> None:
    """32 MiB of them once cost 672 MB."""
    path.write_bytes(b"[" + b"[]," * ((32 << 20) // 3) + b"[]]")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError, match="lists in"):
        load_model(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # kilobytes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON)
@settings(max_examples=150, deadline=None)
def test_json_comes_back(value: Any) -> None:
    try:
        canonical = strict_json.canonical(value)
    except UnicodeEncodeError:
        return
    assert strict_json.parse(canonical, "here") == value
    assert strict_json.canonical(strict_json.parse(strict_json.pretty(value).encode(), "here")) == canonical


# ---------------------------------------------------------------- versions and unknown fields


@pytest.mark.parametrize(
    "content",
    ["[]", "3", "null", "{}", '{"format": "other", "version": "1.0"}', '{"format": ["unlatch-model"]}'],
)
def test_c7_other_formats(path: Path, content: str) -> None:
    assert "no unlatch model" in refusal(path, content)


@pytest.mark.parametrize("version", ["2.0", "0.9", "999999.0"])
def test_c7_other_major_version(path: Path, version: str) -> None:
    edited(path, lambda c: c.update(version=version))
    assert f"format version {version}" in refusal(path, path.read_bytes())


@pytest.mark.parametrize(
    "version", [None, 1, 1.0, "1", "1.0.0", "1.x", "", "１.0", "9" * 5000, ["1.0"], " 1.0"]
)
def test_c7_version_of_no_form(path: Path, version: Any) -> None:
    edited(path, lambda c: c.update(version=version))
    assert '"version" must be text like "1.3"' in refusal(path, path.read_bytes())


def test_c7_newer_minor_version_is_read_and_nothing_is_lost(path: Path) -> None:
    def add(content: dict[str, Any]) -> None:
        content["version"] = "1.7"
        content["future"] = {"a": [1, 2]}
        content["pomdp"]["discount"] = 0.95
        content["diagnostics"] = [{"name": "n", "message": "m", "severity": "low"}]

    loaded = load_model(edited(path, add))
    assert loaded.pomdp == SMALL
    assert loaded.diagnostics["newer_version"].details == {"version": "1.7"}
    assert loaded.diagnostics["unknown_fields"].details == {"fields": ["pomdp.discount", "future"]}
    save_model(path, loaded)
    content = json.loads(path.read_text())
    assert content["future"] == {"a": [1, 2]}
    assert content["pomdp"]["discount"] == 0.95
    assert content["version"] == "1.3"
    assert content["diagnostics"] == [{"name": "n", "message": "m", "details": {"severity": "low"}}]
    again = load_model(path)
    assert again.extra == loaded.extra
    assert again.pomdp == SMALL
    assert "newer_version" not in again.diagnostics


# ---------------------------------------------------------------- models that are not quite right


@pytest.mark.parametrize("row", [[0.1, 0.899999], [0.1, 0.900005], [1.0, -1e-17]])
def test_c8_c9_slight_errors_are_repaired_and_noted(path: Path, row: list[float]) -> None:
    loaded = load_model(edited(path, lambda c: c["pomdp"]["transitions"][0].__setitem__(1, row)))
    assert loaded.pomdp is not None
    assert loaded.pomdp.transitions.sum(axis=-1) == pytest.approx(1, abs=1e-12)
    assert loaded.pomdp.transitions.min() >= 0
    assert loaded.diagnostics["repaired"].message.startswith("pomdp: transitions: ")
    save_model(path, loaded)
    assert load_model(path).pomdp == loaded.pomdp


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.1, 0.8], "pomdp: transitions: row [0, 1] sums to "),
        ([0.1, 0.90002], "pomdp: transitions: row [0, 1] sums to "),
        ([1.1, -0.1], "pomdp: transitions[0, 1, 1] is -0.1"),
        ([1, 2, 3], "pomdp: transitions: expected an array of real numbers"),
        (["a", "b"], "pomdp: transitions: expected an array of real numbers"),
        ([None, 1], "pomdp: transitions: expected an array of real numbers"),
        (10**30, "pomdp: transitions: expected an array of real numbers"),
        ([10**30, 1], "pomdp: transitions: expected an array of real numbers"),
    ],
)
def test_c8_c9_other_rows_are_refused(path: Path, row: Any, message: str) -> None:
    edited(path, lambda c: c["pomdp"]["transitions"][0].__setitem__(1, row))
    assert message in refusal(path, path.read_bytes())


def put(section: str, **fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda content: content[section].update(fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("pomdp", initial=[0.2, 0.3, 0.5]), "pomdp: shapes do not fit together"),
        (put("pomdp", initial=[]), "pomdp: initial"),
        (put("pomdp", transitions=[[[1.0]]]), "pomdp: shapes do not fit together"),
        (put("pomdp", transitions=[]), "pomdp: transitions"),
        (put("pomdp", initial=None), "pomdp: 'initial' is missing"),
        (put("pomdp", initial={"a": 1}), "pomdp: initial"),
        (put("pomdp", initial="x"), "pomdp: initial"),
        (put("pomdp", initial=[True, False]), "pomdp: initial"),
        (put("pomdp", state_names=["a"]), "pomdp: state_names: 1 names for 2"),
        (put("pomdp", state_names=["a", "a"]), "stands twice"),
        (put("pomdp", state_names=["a", 3]), "pomdp: state_names"),
        (put("pomdp", state_names="ab"), "pomdp: state_names must be a list"),
        (put("pomdp", state_names=7), "pomdp: state_names must be a list"),
        (put("pomdp", action_names=["a\nb"]), "control character"),
        (put("pomdp", symbol_rewards=[1]), "pomdp: symbol_rewards"),
        (put("pomdp", emission="sideways"), "pomdp: emission must be"),
        (put("pomdp", emission=["departure"]), "pomdp: emission must be"),
        (lambda c: c.update(pomdp=[]), "pomdp: expected an object"),
        (lambda c: c.update(pomdp=None), "needs a pomdp or a psr"),
        (lambda c: c.pop("pomdp"), "needs a pomdp or a psr"),
        (lambda c: c.update(psr={"initial": [1], "updates": [[[[1]]]]}), "psr: 'final' is missing"),
        (lambda c: c.update(psr={"initial": [1], "updates": [[[1]]], "final": [1]}), "psr: updates"),
        (lambda c: c.update(partition=[0, 1, 2]), "partition: 3 labels for 2 states"),
        (lambda c: c.update(partition=[]), "labels"),
        (lambda c: c.update(partition=["a", "b"]), "partition: expected a list of whole numbers"),
        (lambda c: c.update(partition=[True, False]), "partition: expected a list of whole numbers"),
        (lambda c: c.update(partition={"a": 0}), "partition: expected a list of whole numbers"),
        (lambda c: c.update(partition=[10**30, 0]), "labels"),
        (lambda c: c.update(provenance=[]), "provenance: expected an object"),
        (lambda c: c.update(diagnostics={}), "diagnostics: expected a list"),
        (lambda c: c.update(diagnostics=["x"]), "diagnostics: expected an object"),
        (lambda c: c.update(diagnostics=[{"name": 1, "message": "m"}]), "diagnostics: every entry needs"),
        (
            lambda c: c.update(diagnostics=[{"name": "n", "message": "m", "details": 1}]),
            "diagnostics: expected",
        ),
    ],
)
def test_c19_inconsistent_models(
    path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    edited(path, change)
    assert message in refusal(path, path.read_bytes())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"terminal": [4]}, "pomdp: terminal: 4 is no state of the model, which has 4"),
        ({"terminal": [-1]}, "pomdp: terminal: -1 is no state"),
        ({"terminal": [10**30]}, "pomdp: terminal"),
        ({"terminal": [0]}, "pomdp: terminal: nothing more happens in state '0'"),
        ({"terminal": [0, 1, 2, 3]}, "pomdp: terminal: every state is"),
        ({"terminal": 2}, "pomdp: terminal must be a list of states"),
        ({"terminal": ["2"]}, "pomdp: terminal must be a list of states"),
        ({"terminal": [True]}, "pomdp: terminal must be a list of states"),
        ({"terminal": [[2]]}, "pomdp: terminal must be a list of states"),
        ({"terminal": {"2": 1}}, "pomdp: terminal must be a list of states"),
        ({"initial": [0.25, 0.25, 0.5, 0]}, "pomdp: terminal: an episode cannot start in state '2'"),
        ({"first_observations": [[1, 0, 0]]}, "pomdp: first_observations: shape (1, 3) for 4 states"),
        ({"first_observations": [[1], [1], [1], [1]]}, "pomdp: first_observations: shape (4, 1)"),
        ({"first_observations": [0.5, 0.5]}, "pomdp: first_observations"),
        ({"first_observations": [[0.5, 0, 0]] * 4}, "pomdp: first_observations: row [0] sums to 0.5"),
        ({"first_observations": "dark"}, "pomdp: first_observations"),
        ({"first_observations": None}, "pomdp: first_observation_names without first_observations"),
        (
            {"first_observation_names": ["a", "b"]},
            "pomdp: first_observations: shape (4, 3) for 4 states and 2 names",
        ),
        ({"first_observation_names": ["a", "a", "b"]}, "stands twice"),
        ({"first_observation_names": "abc"}, "pomdp: first_observation_names must be a list"),
        (
            {"first_observation_names": None},
            "pomdp: first_observations: shape (4, 3) for 4 states and 2 names",
        ),
        ({"reward_values": [0.0, -1.5, 1.0]}, "rewards, which must increase"),
        ({"reward_values": [0.0, 1.0]}, "pomdp: reward_probabilities: shape (1, 4, 3)"),
        ({"reward_values": None}, "pomdp: reward_values and reward_probabilities belong together"),
        ({"reward_values": [["x"]]}, "pomdp: reward_values"),
        ({"reward_probabilities": None}, "pomdp: reward_values and reward_probabilities belong together"),
        ({"reward_probabilities": [[[1, 0, 0]]]}, "pomdp: reward_probabilities: shape (1, 1, 3)"),
        (
            {"reward_probabilities": [[[1, 0.5, 0]] * 4]},
            "pomdp: reward_probabilities: row [0, 0] sums to 1.5",
        ),
        ({"symbol_rewards": [0, 1]}, "not both: leave symbol_rewards out"),
    ],
)
def test_c19_damaged_endings_first_observations_and_rewards(
    path: Path, fields: dict[str, Any], message: str
) -> None:
    edited(path, put("pomdp", **fields), EPISODIC)
    assert message in refusal(path, path.read_bytes())


def test_c19_unreachable_states_are_noted(path: Path) -> None:
    def cut(content: dict[str, Any]) -> None:
        content["pomdp"]["transitions"] = [[[1.0, 0.0], [0.5, 0.5]]]
        content["pomdp"]["initial"] = [1.0, 0.0]

    loaded = load_model(edited(path, cut))
    assert loaded.diagnostics["unreachable_states"].details == {"states": ["1"]}
    save_model(path, loaded)
    assert load_model(path).diagnostics == loaded.diagnostics


def test_c20_files_are_the_same_wherever_they_are_written(tmp_path: Path) -> None:
    """Points, UTF-8 and line feeds, whatever the locale; line ends that somebody changed make no other model."""
    program = (
        "import sys, unlatch, numpy as np\n"
        "even = np.full((1, 2, 2), 0.5)\n"
        "model = unlatch.POMDP(even, even, [0.25, 0.75], state_names=['\\u00e9', '\\u00fc'])\n"
        "problem = unlatch.Problem(model, unlatch.Reward.on_transitions(np.full((1, 2, 2, 2), 0.1)))\n"
        "for ending in ('json', 'npz', 'POMDP', 'pomdpx'):\n"
        "    unlatch.save_problem(f'{sys.argv[1]}/m.{ending}', problem)\n"
    )
    written = []
    for number, setting in enumerate(
        ({"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"})
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = [sys.executable, "-c", program, folder]
        subprocess.run(run, env={**os.environ, **setting}, check=True)
        written.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert written[0] == written[1]
    for name in ("m.json", "m.POMDP", "m.pomdpx"):
        assert b"\r" not in written[0][name]
        assert (
            written[0][name].isascii() or name == "m.json"
        )  # other tools get plain names, and a table of ours
        assert "0.25" in written[0][name].decode()
        changed = tmp_path / name
        changed.write_bytes(written[0][name].replace(b"\n", b"\r\n"))
        assert unlatch.load_problem(changed).model == unlatch.load_problem(tmp_path / "0" / name).model
        assert unlatch.load_problem(changed).model.state_names == ("é", "ü")


def test_hand_written_file(path: Path) -> None:
    path.write_text(
        """{"format": "unlatch-model", "version": "1.1", "sha256": null,
            "pomdp": {"transitions": [[[1, 0], [0, 1]]], "observations": [[[1], [1]]], "initial": [0.5, 0.5]}}"""
    )
    loaded = load_model(path)
    assert loaded.pomdp == POMDP(np.eye(2)[None], np.ones((1, 2, 1)), [0.5, 0.5])
    assert [entry.name for entry in loaded.diagnostics] == ["no_checksum"]


@pytest.fixture(scope="module")
def unchecked(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model in one line, with no checksum that would notice every change."""
    path = tmp_path_factory.mktemp("models") / "model.json"
    save_model(path, Result())
    return strict_json.canonical({**json.loads(path.read_text()), "sha256": None})


@given(at=st.integers(0, 1500), cut=st.integers(0, 40), insert=st.binary(max_size=20))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_a_model_or_a_declared_error(
    path: Path, unchecked: bytes, at: int, cut: int, insert: bytes
) -> None:
    path.write_bytes(unchecked[:at] + insert + unchecked[at + cut :])
    message = "a model"
    try:
        save_model(path.with_name("again.json"), load_model(path))
    except UnlatchError as error:
        message = f"{type(error).__name__}: {error}"
    assert message == "a model" or (message.startswith("ModelFileError") and str(path) in message)
