from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import Circle

from unlatch import POMDP, domains, simulate
from unlatch.errors import DataError, StorageError, UsageError
from unlatch.show.plots import draw_models, plot_matrix, plot_spectrum, plot_states

FORMULAS = ("$\\frac{", "a_b$")
TIGER = domains.tiger()


def drawn(ax):
    """The axis as an image, which is where a bad text would fail."""
    ax.figure.canvas.draw()
    return np.asarray(ax.figure.canvas.buffer_rgba())


# --- pictures in files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_draws_every_format(tmp_path: Path, ending: str) -> None:
    path = draw_models({"true": domains.tmaze()}, tmp_path / f"maze.{ending}")
    assert path.stat().st_size > 5000
    before = path.read_bytes()
    if ending != "svg":  # its identifiers are random
        assert draw_models({"true": domains.tmaze()}, path).read_bytes() == before


def test_names_that_look_like_formulas_are_text(tmp_path: Path) -> None:
    model = replace(TIGER, state_names=FORMULAS, action_names=(*FORMULAS, "c"))
    assert draw_models({"$x": model}, tmp_path / "m.png").exists()


def test_refuses_what_it_cannot_draw(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one"):
        draw_models({}, tmp_path / "x.png")
    with pytest.raises(UsageError, match="no-such"):
        draw_models({"a": TIGER}, tmp_path / "x.png", actions=("no-such",))
    with pytest.raises(UsageError, match=r"cannot draw .* must end in .png"):
        draw_models({"a": TIGER}, tmp_path / "x.nonsense")
    with pytest.raises(StorageError, match="none"):
        draw_models({"a": TIGER}, tmp_path / "none" / "x.png")


def test_a_picture_replaces_a_symbolic_link_and_does_not_follow_it(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("kept")
    link = tmp_path / "picture.png"
    link.symlink_to(precious)
    draw_models({"a": TIGER}, link)
    assert precious.read_text() == "kept"
    assert not link.is_symlink()


def test_the_old_picture_survives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = draw_models({"a": TIGER}, tmp_path / "picture.png")
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        draw_models({"b": domains.tmaze()}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["picture.png"]


# --- plots in axes ----------------------------------------------------------------------------------------


def test_plots_make_an_axis_or_take_one() -> None:
    log = simulate(TIGER, 50, rng=0)
    for plot in (
        lambda **k: plot_states(TIGER, "listen", **k),
        lambda **k: plot_spectrum([3.0, 1.0, 0.1, 0.0], noise=0.2, rank=2, **k),
        lambda **k: plot_matrix(TIGER.state_probabilities(log).T, rows=TIGER.state_names, **k),
    ):
        ax = plot()
        assert plot(ax=ax) is ax
        assert drawn(ax).std() > 0


def test_an_action_is_named_or_numbered() -> None:
    assert plot_states(TIGER, 1).get_title() == "open-left"
    with pytest.raises(UsageError, match="unknown action 'run'"):
        plot_states(TIGER, "run")


def test_the_end_has_two_circles_and_no_way_out() -> None:
    moves = np.array([[[0.5, 0.5], [0.0, 1.0]]])
    model = POMDP(moves, [[[1.0, 0.0], [0.0, 1.0]]], [1, 0], observation_names=("dark", "void"), terminal=1)
    endless = replace(model, terminal=())

    def texts(ax):
        return [text.get_text() for text in ax.texts]

    plain, ending = plot_states(endless, 0), plot_states(model, 0)
    drawn(ending)
    assert sum(isinstance(patch, Circle) for patch in ending.patches) == 3
    assert sum(isinstance(patch, Circle) for patch in plain.patches) == 2
    assert texts(ending).count("1.00") == 0
    assert texts(plain).count("1.00") == 1
    assert "the end" in texts(ending)
    assert not any("void" in text for text in texts(ending))
    assert any("void" in text for text in texts(plot_states(replace(model, emission="arrival"), 0)))


def test_formulas_in_axes_are_text() -> None:
    model = replace(TIGER, state_names=FORMULAS, action_names=(*FORMULAS, "c"))
    drawn(plot_states(model, 0))
    drawn(plot_matrix(model.transitions[0], rows=FORMULAS, columns=FORMULAS, title=FORMULAS[0]))


def test_the_spectrum_shows_noise_and_rank() -> None:
    ax = plot_spectrum([3.0, 1.0, 0.1], noise=[0.3, 0.2, 0.2], rank=2)
    assert [line.get_label() for line in ax.get_lines()] == ["singular values", "noise", "rank 2"]
    assert ax.get_yscale() == "log"


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: plot_spectrum([]), "values"),
        (lambda: plot_spectrum([-1.0]), "values"),
        (lambda: plot_spectrum([1.0, 2.0], noise=[1.0]), "noise"),
        (lambda: plot_matrix(np.eye(2), rows=["a"]), "rows"),
        (lambda: plot_matrix(np.eye(2), columns=["a"]), "columns"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(call, field) -> None:
    with pytest.raises(DataError) as caught:
        call()
    assert caught.value.field == field


def test_no_window_and_no_global_state() -> None:
    """A plot must not switch the caller's backend, nor leave a figure behind."""
    import matplotlib.pyplot as plt

    before = plt.get_backend(), plt.get_fignums()
    plot_states(TIGER, 0)
    assert (plt.get_backend(), plt.get_fignums()) == before
