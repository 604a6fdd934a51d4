from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import Circle

from unlatch import (
    POMDP,
    POUCT,
    Evidence,
    ExactPlanner,
    Partition,
    Problem,
    domains,
    draw_models,
    plot_belief,
    plot_comparison,
    plot_evidence,
    plot_learning_curves,
    plot_matrix,
    plot_policy_graph,
    plot_search_tree,
    plot_spectrum,
    plot_states,
    plot_value,
    save_plot,
    simulate,
    solve,
)
from unlatch.errors import DataError, StorageError, UsageError

FORMULAS = ("$\\frac{", "a_b$")
TIGER = domains.tiger()
CELLS = np.arange(48) % 4
EVIDENCE = Evidence(2, {1: -900.0, 2: 0.0, 3: -14.0, 9: -40.0}, 3, 14.0, steps=1000, steps_to_settle=0)


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


def searched():
    planner = POUCT(TIGER, simulations=300, rng=0)
    planner.search()
    return planner


LOG = simulate(TIGER, 50, rng=0)
ROOM = domains.by_name("room:rows=6,columns=8")


@pytest.mark.parametrize(
    "plot",
    [
        lambda **k: plot_states(TIGER, "listen", **k),
        lambda **k: plot_states(ROOM, 0, partition=Partition(CELLS), **k),
        lambda **k: plot_comparison(TIGER, TIGER, "listen", **k),
        lambda **k: plot_evidence(EVIDENCE, **k),
        lambda **k: plot_belief(TIGER, LOG, **k),
        lambda **k: plot_learning_curves({"a": [(10, 1.0, 0.1), (100, 0.01, 0.0)]}, **k),
        lambda **k: plot_search_tree(searched(), **k),
        lambda **k: plot_value(ExactPlanner(TIGER, horizon=1), **k),
        lambda **k: plot_value(lambda belief: float(belief @ [1, 2, 3]), states=("a", "b", "c"), **k),
        lambda **k: plot_policy_graph(["a", "b"], {(0, "x"): 1, (1, "y"): 0, (1, "x"): 1}, **k),
        lambda **k: plot_policy_graph(solve(Problem(TIGER, discount=0.9)).graph(), **k),
        lambda **k: plot_spectrum([3.0, 1.0, 0.1, 0.0], noise=0.2, rank=2, **k),
        lambda **k: plot_matrix(TIGER.state_probabilities(LOG).T, rows=TIGER.state_names, **k),
    ],
)
def test_plots_make_an_axis_or_take_one(plot) -> None:
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
    drawn(plot_comparison(model, model, 1))
    drawn(plot_belief(model, simulate(model, 5, rng=0)))
    planner = POUCT(model, simulations=50, rng=0)
    planner.search()
    drawn(plot_search_tree(planner))
    drawn(plot_learning_curves({FORMULAS[0]: [(1, 1, 0)], "_hidden": [(1, 2, 0)]}, ylabel=FORMULAS[1]))
    drawn(plot_policy_graph(FORMULAS, {(0, FORMULAS[0]): 1}))
    drawn(plot_value(ExactPlanner(model, horizon=1), states=FORMULAS))
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
        (lambda: plot_matrix(np.eye(2), intervals=np.zeros((2, 3, 2))), "intervals"),
        (lambda: plot_evidence(replace(EVIDENCE, scores={2: -np.inf, 3: -np.inf})), "evidence"),
        (lambda: plot_learning_curves({}), "curves"),
        (lambda: plot_learning_curves({"a": [(1, 2)]}), "curves"),
        (lambda: plot_learning_curves({"a": [(1, 2, -3)]}), "curves"),
        (lambda: plot_policy_graph([], {}), "nodes"),
        (lambda: plot_policy_graph(["a"] * 41, {}), "nodes"),
        (lambda: plot_policy_graph(["a"], {(0, "x"): 1}), "edges"),
        (lambda: plot_belief(TIGER, simulate(TIGER, 5, rng=0).head(0)), "log"),
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


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_states_of_one_cell_are_shaded_alike_and_have_its_letter() -> None:
    model = domains.sense_float_reset(4)
    ax = plot_states(model, 0, partition=Partition.from_cells([[0], [1, 3], [2]]))
    fills = [patch.get_facecolor() for patch in ax.patches if isinstance(patch, Circle)]
    assert fills[1] == fills[3] != fills[0] == fills[2]
    assert texts(ax).count("A") == 2


def test_intervals_are_written_below_their_numbers() -> None:
    ends = np.array([[[0.1, 0.3], [0.7, 0.9]]])
    ax = plot_matrix([[0.2, 0.8]], intervals=ends)
    assert texts(ax) == ["0.20\n0.10–0.30", "0.80\n0.70–0.90"]
    assert texts(plot_matrix([[0.2, 0.0]])) == ["0.20", ""]
    assert texts(plot_matrix(np.eye(20))) == []
    assert len(texts(plot_matrix(np.eye(20), numbers=True))) == 400


def test_the_search_tree_tells_the_visits_and_values_of_its_root() -> None:
    planner = POUCT(TIGER, simulations=300, rng=0)
    found = planner.search()
    ax = plot_search_tree(planner, depth=1)
    for action, name in enumerate(TIGER.action_names):
        assert f"{name}: {found.visits[action]}×, {found.values[action]:.3g}" in texts(ax)
    with pytest.raises(UsageError, match="let it search first"):
        plot_search_tree(POUCT(TIGER, rng=0))


def test_the_value_is_that_of_the_policy() -> None:
    planner = ExactPlanner(TIGER, horizon=3)
    ax = plot_value(planner, states=TIGER.state_names)
    (line,) = ax.get_lines()
    values = line.get_ydata()
    assert values[0] == pytest.approx(planner.value([1.0, 0.0]))
    assert values[len(values) // 2] == pytest.approx(planner.value([0.5, 0.5]))
    assert {text.get_text() for text in ax.get_legend().get_texts()} <= set(TIGER.action_names)
    with pytest.raises(UsageError, match="2 or 3 states"):
        plot_value(planner, states=["a"])
    with pytest.raises(UsageError, match="a function of a belief"):
        plot_value(3)


def test_a_belief_is_drawn_for_every_step() -> None:
    log = simulate(TIGER, 7, rng=0)
    (image,) = plot_belief(TIGER, log).get_images()
    assert image.get_array().shape == (2, 8)
    assert np.allclose(image.get_array()[:, -1], TIGER.belief(log))


def test_models_side_by_side_need_as_many_states() -> None:
    with pytest.raises(UsageError, match="as many states"):
        plot_comparison(TIGER, domains.tmaze(), 0)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_plot_is_saved_the_same_every_time(tmp_path: Path, ending: str) -> None:
    first, second = (save_plot(plot_evidence(EVIDENCE), tmp_path / f"{n}.{ending}") for n in "ab")
    assert first.read_bytes() == second.read_bytes()
    with pytest.raises(UsageError, match="must end in"):
        save_plot(plot_evidence(EVIDENCE), tmp_path / "x.gif")


def test_learned_curves_have_lines_of_their_own() -> None:
    ax = plot_learning_curves({"a": [(10, 1, 0), (100, 0.5, 0.1)], "b": [(10, 2, 0), (100, 1.5, 0)]})
    one, two = ax.get_lines()
    assert (one.get_linestyle(), one.get_marker()) != (two.get_linestyle(), two.get_marker())
