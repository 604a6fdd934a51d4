"""Policy files of solvers, and graphs of models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unlatch import (
    POMDP,
    AlphaVectors,
    domains,
    load_policy,
    save_policy,
    to_dot,
    to_mermaid,
)
from unlatch.errors import ModelFileError, ResourceLimitError, StorageError, UsageError

PLANS = AlphaVectors([[0.1, -10.0, 1 / 3], [6.0, 6e-30, 1e22]], [1, 0])
ALPHA = "1\n0.5 -2\n\n0\n  3\t4e0 \n"
POLICYX = """<?xml version="1.0" encoding="ISO-8859-1"?>
<Policy version="0.1" type="value" model="x.pomdp"><AlphaVector vectorLength="2" numObsValue="1" numVectors="2">
<Vector action="1" obsValue="0">0.5 -2 </Vector>
<SparseVector action="0" obsValue="0"><Entry>0 3</Entry><Entry>1 4.0</Entry></SparseVector>
</AlphaVector></Policy>"""

NO_ALPHA = (
    "", "1\n", "1 2\n3 4\n", "x\n3 4\n", "-1\n3 4\n", "1\n3 nan\n", "1\n3 4\n\n0\n3\n", "1\n1e999 1\n",
    "\u00b2\n1\n", "1\n1_0 1\n", "9999999999999\n1\n",
)  # fmt: skip
NO_POLICYX = (
    "",
    "<Policy/>",
    POLICYX.replace('numObsValue="1"', 'numObsValue="3"'),
    POLICYX.replace("-2", ""),
    POLICYX.replace("<Entry>0 3", "<Entry>7 3"),
    POLICYX.replace("<Entry>0 3", "<Entry>3"),
    POLICYX.replace('action="1"', 'action="x"'),
    POLICYX.replace('vectorLength="2"', ""),
    '<!DOCTYPE Policy [<!ENTITY a "b">]>' + POLICYX[44:],
    '<Policy><AlphaVector vectorLength="2"></AlphaVector></Policy>',
)


@pytest.mark.parametrize("ending", [".alpha", ".policy", ".policyx"])
def test_policies_come_back(tmp_path, ending):
    save_policy(tmp_path / f"a{ending}", PLANS)
    assert load_policy(tmp_path / f"a{ending}") == PLANS
    assert "e+" not in (tmp_path / f"a{ending}").read_text()


@pytest.mark.parametrize(
    ("name", "text"), [("a.alpha", ALPHA), ("a.policy", POLICYX), ("a.policyx", POLICYX)]
)
def test_what_solvers_write_is_read(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert load_policy(tmp_path / name) == AlphaVectors([[0.5, -2.0], [3.0, 4.0]], [1, 0])


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.alpha", text) for text in NO_ALPHA] + [("a.policy", text) for text in NO_POLICYX],
)
def test_what_is_no_policy(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ModelFileError, match=name):
        load_policy(tmp_path / name)


def test_policies_too_large_and_of_other_names(tmp_path):
    (tmp_path / "a.policy").write_text(POLICYX.replace('vectorLength="2"', 'vectorLength="999999999"'))
    with pytest.raises(ResourceLimitError):
        load_policy(tmp_path / "a.policy")
    with pytest.raises(UsageError, match="ends in"):
        load_policy(tmp_path / "a.txt")
    with pytest.raises(UsageError, match="AlphaVectors"):
        save_policy(tmp_path / "a.alpha", [[1.0]])


# --- graphs ----------------------------------------------------------------------------------------------

NASTY = ('"];evil [label="', "</script><b>|\\n", "new\u2028line`${x}")


def nasty_model() -> POMDP:
    rng = np.random.default_rng(0)
    moves = rng.dirichlet(np.ones(3), size=(3, 3))
    moves[:, 2] = [0, 0, 1]
    return POMDP(
        moves,
        rng.dirichlet(np.ones(3), size=(3, 3)),
        [0.5, 0.5, 0],
        "arrival",
        NASTY,
        NASTY,
        NASTY,
        terminal=2,
    )


def test_dot_has_every_state_and_edge_and_nothing_else():
    lines = to_dot(nasty_model()).splitlines()
    assert lines[0] == "digraph model {"
    assert lines[-1] == "}"
    assert sum("->" in line for line in lines) == 6
    assert sum("peripheries=2" in line for line in lines) == 1
    for line in lines[2:-1]:
        body = line.replace("\\\\", "").replace('\\"', "")
        assert body.count('"') == 2, line
        assert body.startswith("  s")
        assert body.endswith("];")


def test_mermaid_escapes_everything_that_means_something():
    lines = to_mermaid(nasty_model()).splitlines()
    assert lines[0] == "flowchart LR"
    assert sum("-->" in line for line in lines) == 6
    for line in lines[1:]:
        assert line.count('"') == 2
        inside = line.partition('"')[2].rpartition('"')[0].replace("<br/>", "")
        assert not set(inside) & set("<>`$[]{}|\\")
        assert inside.isascii()


def test_unlikely_moves_are_left_out():
    tiger = domains.tiger()
    assert to_dot(tiger).count("->") == 4
    assert "0.50" not in to_mermaid(tiger, least=0.6)
    with pytest.raises(UsageError):
        to_dot(tiger.to_psr())
    with pytest.raises(UsageError):
        to_mermaid(tiger, least=2)
    large = POMDP([np.eye(501)], [np.ones((501, 1))], np.eye(501)[0])
    with pytest.raises(ResourceLimitError):
        to_dot(large)


def test_paths_of_other_kinds():
    with pytest.raises(StorageError):
        load_policy(Path("/nowhere/a.alpha"))
