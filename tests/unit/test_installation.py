"""What `doctor` finds, and what it says where something is missing."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import unlatch
from unlatch import installation

ROOT = Path(__file__).resolve().parents[2]


def test_a_sound_installation_has_no_problems():
    found = unlatch.doctor()
    assert found.problems == ()
    assert found.versions["unlatch"] == unlatch.__version__
    assert found.versions["numpy"] == metadata.version("numpy")
    assert found.cores >= 1
    assert str(found).endswith("no problems found")


def test_every_extra_has_a_purpose():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(installation.EXTRAS)


def test_a_missing_library_is_a_problem_with_a_remedy(monkeypatch):
    def version(name):
        if name in ("rich", "pomdp-py"):
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    found = unlatch.doctor()
    assert found.versions["rich"] is None
    assert found.problems == ("rich is not installed: pip install rich",)
    assert list(found.missing) == ["pomdp-py"]
    assert "rich MISSING" in str(found)
    assert "problem: rich" in str(found)


def test_a_folder_of_sources_without_metadata(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert list(unlatch.doctor().versions) == ["unlatch", "Python"]


def doctor_with(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "unlatch", "doctor"],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.compiled
def test_the_cache_is_told(tmp_path: Path) -> None:
    assert "kept nowhere" in doctor_with(UNLATCH_NO_CACHE="1")
    said = doctor_with(NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert f"0 files in {tmp_path / 'cache'}" in said
    assert "no problems found" in said


def test_a_cache_that_cannot_be_written_is_a_problem(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    found = unlatch.doctor()
    if found.cache is not None:  # with the JIT
        (problem,) = found.problems
        assert "Permission denied" in problem
        assert "NUMBA_CACHE_DIR" in problem


def test_what_is_missing_is_told_by_what_it_is_for():
    found = unlatch.doctor()
    missing = {"one": "the tests", "two": "pictures", "three": "the tests"}
    said = str(dataclasses.replace(found, missing=missing)).splitlines()
    assert "not installed, and needed only for the tests: one, three" in said
    assert "not installed, and needed only for pictures: two" in said
