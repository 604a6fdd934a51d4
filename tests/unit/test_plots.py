from __future__ import annotations

from pathlib import Path

import pytest

from unlatch import domains
from unlatch.errors import StorageError, UsageError
from unlatch.show.plots import draw_models


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_draws_every_format(tmp_path: Path, ending: str) -> None:
    path = draw_models({"true": domains.tmaze()}, tmp_path / f"maze.{ending}")
    assert path.stat().st_size > 5000


def test_names_that_look_like_formulas_are_text(tmp_path: Path) -> None:
    from dataclasses import replace

    model = replace(domains.tiger(), state_names=("$\\frac{", "a_b$"))
    assert draw_models({"$x": model}, tmp_path / "m.png").exists()


def test_refuses_what_it_cannot_draw(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one"):
        draw_models({}, tmp_path / "x.png")
    with pytest.raises(UsageError, match="no-such"):
        draw_models({"a": domains.tiger()}, tmp_path / "x.png", actions=("no-such",))
    with pytest.raises(UsageError, match="cannot draw"):
        draw_models({"a": domains.tiger()}, tmp_path / "x.nonsense")
    with pytest.raises(StorageError, match="none"):
        draw_models({"a": domains.tiger()}, tmp_path / "none" / "x.png")
