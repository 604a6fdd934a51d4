from __future__ import annotations

import dataclasses

import pytest

from unlatch import Diagnostic, Diagnostics

CLIPPED = Diagnostics().noting("clipped", "rows were moved", largest=0.5)


def test_findings_are_looked_up_by_name():
    assert "clipped" in CLIPPED
    assert "other" not in CLIPPED
    assert CLIPPED["clipped"].details == {"largest": 0.5}
    assert str(CLIPPED["clipped"]) == "clipped: rows were moved"
    with pytest.raises(KeyError, match="other"):
        CLIPPED["other"]


def test_noting_leaves_the_original_alone():
    assert len(CLIPPED) == 1
    longer = CLIPPED.noting("second", "more")
    assert [entry.name for entry in longer] == ["clipped", "second"]
    assert len(CLIPPED) == 1


def test_sums_keep_order_and_drop_repetitions():
    second = Diagnostics((Diagnostic("second", "more"),))
    assert [entry.name for entry in CLIPPED + second + CLIPPED] == ["clipped", "second"]
    other = Diagnostics().noting("clipped", "rows were moved", largest=0.7)
    assert len(CLIPPED + other) == 2


def test_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CLIPPED.entries = ()
