"""What importing costs, and who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rooms
import unlatch
from rooms import imported

SOURCE = Path(unlatch.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
HEAVY = {"numba", "scipy", "matplotlib", "pandas"}


def dotted(node):
    """``a.b.c`` of an attribute expression."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def uses(tree, *names):
    """Modules and attributes that are, or lie inside, one of ``names``."""
    found = {*imported(tree), *(dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))}
    found |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {f for f in found if any(f == name or f.startswith(f"{name}.") for name in names)}


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def ids(path):
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_numpy_s_own_linear_algebra_is_never_used(path):
    """One NaN can hang it for ever."""
    assert uses(parse(path), "np.linalg", "numpy.linalg") == set()


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_linalg_is_the_only_door_to_lapack(path):
    if path != SOURCE / "linalg.py":
        assert uses(parse(path), "scipy.linalg", "scipy.sparse.linalg") == set()


def test_the_rooms_import_each_other_as_declared():
    """The table of ARCHITECTURE.md and the source agree; ``python tests/rooms.py`` prints the graph."""
    declared = rooms.declared()
    graph = rooms.actual(declared)
    assert rooms.differences(declared, graph) == []
    assert rooms.forbidden(graph) == []


def test_no_table_could_declare_these():
    edges = [
        ("learn.spectral", "learn.likelihood"),
        ("learn.likelihood", "learn.spectral"),
        ("learn.examine", "learn.likelihood"),
        ("learn.pipeline", "learn.baselines"),
        ("cli", "learn.baselines"),
        ("planning", "learn"),
        ("files", "learn.pipeline"),
        ("learn.spectral", "files.plain"),
        ("study.jobs", "core"),
    ]
    found = rooms.forbidden({room: {target: {"file.py"}} for room, target in edges})
    assert found == [f"{room} must not import {target}" for room, target in dict(edges).items()]
    assert (
        rooms.forbidden({"study": {"learn.baselines": {"file.py"}}, "cli": {"learn.pipeline": set()}}) == []
    )


def test_a_room_that_imports_what_it_may_not_is_named(tmp_path):
    """The search itself: an import inside a function, of a module or of a name, is found."""
    (tmp_path / "learn").mkdir()
    (tmp_path / "learn" / "deep.py").write_text(
        "def f():\n    from unlatch.planning import tree\n    import unlatch.linalg"
    )
    (tmp_path / "planning").mkdir()
    (tmp_path / "planning" / "tree.py").write_text("from unlatch import __version__\n")
    (tmp_path / "linalg.py").write_text("")
    table = "| room | places | holds | imports |\n|---|---|---|---|\n" + "".join(
        f"| `{room}` | `{place}` | | {imports} |\n"
        for room, place, imports in (
            ("linalg", "linalg.py", ""),
            ("learn", "learn/", "`linalg`"),
            ("planning", "planning/", "`linalg`"),
        )
    )
    declared = rooms.declared(table)
    assert rooms.differences(declared, rooms.actual(declared, tmp_path)) == [
        "learn imports planning, which the table does not allow: learn/deep.py",
        "planning does not import linalg, which the table says it does",
    ]


def test_every_step_of_the_walk_exists():
    """The walk of one log in ARCHITECTURE.md names files and functions; they are there."""
    walk = rooms.walk()
    assert len(walk) > 20
    missing = [f"{file}: {name}" for file, name in walk if not rooms.defines(SOURCE / file, name)]
    assert missing == []


@pytest.mark.parametrize("path", sorted((SOURCE / "kernels").glob("*.py")), ids=ids)
def test_kernels_import_nothing_of_ours(path):
    ours = {name for name in imported(parse(path)) if name.split(".")[0] == "unlatch"}
    if path.name == "_jit.py":  # says in our words that numba is missing, and that it is at work
        ours -= {"unlatch.errors", "unlatch.errors.MissingDependencyError"}
        ours -= {"unlatch.core.progress", "unlatch.core.progress.remark"}
    of_all = ("unlatch.kernels._jit", "unlatch.kernels.vectors")  # how kernels are compiled, and what into
    assert [name for name in ours if not name.startswith(of_all)] == []


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import numpy as np\nnp.linalg.svd(x)", {"np.linalg", "np.linalg.svd"}),
        ("from numpy import linalg", {"numpy.linalg"}),
        ("from numpy.linalg import svd", {"numpy.linalg", "numpy.linalg.svd"}),
        ("import numpy\nf = numpy.linalg.inv", {"numpy.linalg", "numpy.linalg.inv"}),
        ("import scipy.linalg\nlinalg = 1\nlinalg.real", set()),
    ],
)
def test_the_search_itself_finds_what_it_should(code, names):
    assert uses(ast.parse(code), "np.linalg", "numpy.linalg") == names


# --- what importing costs ---------------------------------------------------------------------------------


def loaded(code):
    """Which heavy packages are loaded after ``code`` ran in a fresh interpreter."""
    script = f"import sys\n{code}\nprint(*(name for name in {sorted(HEAVY)} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("import unlatch") == set()
    assert loaded("import unlatch; unlatch.domains.tmaze(); unlatch.Trajectory([0], [0])") == set()
    assert loaded("from unlatch.kernels import filtering") >= {"numba"}  # the search itself works


def test_reading_a_table_does_not_load_pandas(tmp_path):
    """pyarrow does so by itself where pandas is installed, for most of what it hands to NumPy."""
    pytest.importorskip("pyarrow")
    log = unlatch.simulate(unlatch.domains.frozen_lake(), 100, rng=0)
    for name in ("log.parquet", "log.npz"):
        unlatch.write_log(tmp_path / name, log)
        assert "pandas" not in loaded(f"import unlatch\nunlatch.read_log({str(tmp_path / name)!r})")
    assert "pandas" in loaded("import pandas")


def test_every_public_name_can_be_reached():
    assert set(unlatch.__all__) == set(dir(unlatch))
    for name in unlatch.__all__:
        assert getattr(unlatch, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unlatch.nothing  # noqa: B018


def test_every_error_is_ours_with_its_exit_code():
    codes = {
        "UsageError": 2,
        "DataError": 3,
        "ModelFileError": 4,
        "NotLearnableError": 5,
        "NumericalError": 6,
        "BeliefCollapseError": 6,
        "StorageError": 7,
        "ResourceLimitError": 8,
    }
    for name, code in codes.items():
        error = getattr(unlatch.errors, name)
        assert issubclass(error, unlatch.errors.UnlatchError)
        assert error.exit_code == code
    assert unlatch.errors.UnlatchError.exit_code == 1
    assert str(unlatch.errors.StorageError("disk", "full")) == "disk full"
