""".POMDP files: every form of the grammar, what is refused and where, what is repaired, and the way there and back."""

from __future__ import annotations

import itertools
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

from unlatch import (
    POMDP,
    Diagnostics,
    Problem,
    Reward,
    domains,
    load_model,
    load_problem,
    save_model,
    save_problem,
)
from unlatch.core.emission import with_emission
from unlatch.errors import ModelFileError, ResourceLimitError, UsageError

HEAD = """discount: 0.9
values: reward
states: left right
actions: listen open
observations: 2
"""
TABLES = """T: listen identity
T: open uniform
O: * uniform
"""


def read(folder: Path, text: str | bytes, **options) -> Problem:
    path = folder / "model.POMDP"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_problem(path, **options)


def refusal(folder: Path, text: str | bytes, error=ModelFileError) -> str:
    with pytest.raises(error) as caught:
        read(folder, text)
    assert "model.POMDP" in str(caught.value)
    return str(caught.value)


# --- the grammar -----------------------------------------------------------------------------------------


def test_all_forms_of_tables(tmp_path):
    problem = read(
        tmp_path,
        """# a comment
        discount : .75   # after its colon
        values:reward
        states: a b c
        actions: go stay
        observations: x y
        start: 0.2 0.3 0.5
        T: go
        0 1 0
        0 0 1   # a row
        1 0 0
        T: stay : * reset
        T: 1 : b uniform
        T : stay : 2 : a 0
        T : stay : 2 : 1 0.25
        T : stay : c : c 7.5e-1
        O: * : * : x 1.
        O: go : b .5 +0.5
        O: stay
        uniform
        R: * : * : * : * -1
        R: go : a : b : x 5
        R: go : 1 : 2
        3 4
        R: stay : c
        1 2
        3 4
        5 6
        """,
    )
    model = problem.model
    assert model.emission == "arrival"
    assert model.state_names == ("a", "b", "c")
    assert problem.discount == 0.75
    np.testing.assert_array_equal(model.initial, [0.2, 0.3, 0.5])
    np.testing.assert_array_equal(model.transitions[0], [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    np.testing.assert_allclose(
        model.transitions[1], [[0.2, 0.3, 0.5], [1 / 3] * 3, [0, 0.25, 0.75]], atol=1e-16
    )
    np.testing.assert_array_equal(model.observations[0], [[1, 0], [0.5, 0.5], [1, 0]])
    np.testing.assert_array_equal(model.observations[1], np.full((3, 2), 0.5))
    table = np.full((2, 3, 3, 2), -1.0)
    table[0, 0, 1, 0] = 5
    table[0, 1, 2] = [3, 4]
    table[1, 2] = [[1, 2], [3, 4], [5, 6]]
    np.testing.assert_array_equal(problem.reward.table, table)


def test_rewards_of_a_whole_action_and_the_shapes_of_tables(tmp_path):
    cube = " ".join(map(str, range(8)))
    whole = read(tmp_path, f"{HEAD}{TABLES}R: open {cube}")
    np.testing.assert_array_equal(whole.reward.table[1].ravel(), np.arange(8))
    assert read(tmp_path, HEAD + TABLES).reward.table.shape == (2, 2, 1, 1)
    by_state = read(tmp_path, f"{HEAD}{TABLES}R: open : left : * : * 3")
    assert by_state.reward.table.shape == (2, 2, 1, 1)
    assert read(tmp_path, f"{HEAD}{TABLES}R: open : * : right : * 3").reward.table.shape == (2, 2, 2, 1)
    assert read(tmp_path, f"{HEAD}{TABLES}R: open : * : * : 1 3").reward.table.shape == (2, 2, 1, 2)


def test_later_entries_go_over_earlier_ones(tmp_path):
    rows = "T: open : left : left 1\nT: open : left : right 0\nR: * : * : * : * 1\nR: open : left : * : * 2"
    problem = read(tmp_path, HEAD + TABLES + rows)
    assert problem.model.transitions[1, 0].tolist() == [1, 0]
    assert problem.rewards.tolist() == [[1, 1], [2, 1]]


@pytest.mark.parametrize(
    ("start", "initial"),
    [
        ("", [0.5, 0.5]),
        ("start: uniform\n", [0.5, 0.5]),
        ("start: right\n", [0, 1]),
        ("start: 1\n", [0, 1]),
        ("start: 0.25 0.75\n", [0.25, 0.75]),
        ("start include: right\n", [0, 1]),
        ("start include: left 1\n", [0.5, 0.5]),
        ("start exclude: right\n", [1, 0]),
    ],
)
def test_starts(tmp_path, start, initial):
    assert read(tmp_path, HEAD + start + TABLES).model.initial.tolist() == initial


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.replace("\n", "\r"),
        lambda t: t.replace(" ", "\t"),
        lambda t: t.replace(":", " : "),
        lambda t: "\ufeff" + t,
        lambda t: t.replace("\n", "  # x: y *\n"),
    ],
)
def test_c18_blanks_comments_and_line_ends_make_no_difference(tmp_path, change):
    text = f"{HEAD}start: 0.25 0.75\n{TABLES}R: open : * : * : * - 1\n"
    assert read(tmp_path, change(text)) == read(tmp_path, text)
    assert read(tmp_path, text).rewards.tolist() == [[0, 0], [-1, -1]]


# --- what is refused, and where --------------------------------------------------------------------------


@pytest.mark.parametrize("missing", range(5))
def test_c10_missing_preamble_item(tmp_path, missing):
    lines = HEAD.splitlines()
    name = lines[missing].partition(":")[0]
    del lines[missing]
    assert f"{name}: missing" in refusal(tmp_path, "\n".join(lines) + "\n" + TABLES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "discount: 0.5\n" + TABLES, "line 6: discount stands twice"),
        (HEAD + TABLES + "start: uniform\n", "line 9: start belongs before"),
        ("start: uniform\n" + HEAD + TABLES, "line 1: start stands before states"),
        (HEAD.replace("reward", "money") + TABLES, "line 2: expected reward or cost, got 'money'"),
        (HEAD.replace("states:", "states") + TABLES, "line 3: expected a colon"),
        ("what: ever\n" + HEAD, "line 1: expected one of"),
        (
            HEAD + "T: listen identity\nT: open : left 1\n",
            "line 7: T: expected 2 numbers, got 1 before the end",
        ),
        (HEAD + "T: listen\n1 0\nT: open uniform\n", "line 8: T: expected 4 numbers, got 2"),
        (HEAD + "T: listen\n1 0 0 1 0\n", "line 7: expected T, O or R and a colon, got '0'"),
        (HEAD + "T: sing identity\n", "line 6: T: 'sing' is none of the 2 actions: listen, open"),
        (HEAD + "T: listen : 2 : 0 1\n", "line 6: T: '2' is none of the 2 states"),
        (HEAD + "T listen identity\n", "line 6: expected a colon and an action after T"),
        (
            HEAD + TABLES + "R: open : left : left : 1 five\n",
            "line 9: expected a number such as 0.25, got 'five'",
        ),
        (HEAD + TABLES + "R: open uniform\n", "line 9: expected a number"),
        (HEAD + "T: listen identity\n", "'open', state 'left': the row is missing"),
    ],
)
def test_c10_c14_what_does_not_follow_the_grammar(tmp_path, text, message):
    assert message in refusal(tmp_path, text)


@pytest.mark.parametrize(
    "text", ["", " \n", "\0", b"\xff\xfe", b"PK\x03\x04", b"\x80\x04", "# only a comment\n"]
)
def test_what_is_no_pomdp_file(tmp_path, text):
    refusal(tmp_path, text)


@pytest.mark.parametrize(
    "word",
    [
        "1_000",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "\u0663",
        "\u00b2",
        "1e999",
        "1,5",
        "0x1",
        "--1",
        "1e",
        ".",
        "1" * 5000,
    ],
)
def test_c12_number_forms_that_are_none(tmp_path, word):
    assert "line 9: expected a number" in refusal(tmp_path, f"{HEAD}{TABLES}R: open : left : * : * {word}\n")
    assert "line 7" in refusal(tmp_path, f"{HEAD}T: listen : left\n{word} 1\n")


@pytest.mark.parametrize(
    ("word", "value"),
    [(".5", 0.5), ("1.", 1.0), ("1e-5", 1e-5), ("+0.1", 0.1), ("-2E3", -2000.0), ("007", 7.0)],
)
def test_c12_number_forms_that_are(tmp_path, word, value):
    assert read(tmp_path, f"{HEAD}{TABLES}R: open : left : * : * {word}\n").rewards[1, 0] == value


@pytest.mark.parametrize(
    "word", ["T", "O", "R", "start", "uniform", "identity", "reset", "reward", "cost", "states", "include"]
)
def test_c11_reserved_words_are_no_names(tmp_path, word):
    message = refusal(tmp_path, HEAD.replace("left right", f"left {word}") + TABLES)
    assert "line 3" in message or "line 4" in message


@pytest.mark.parametrize("names", ["left 2nd", "left left", "left *", "left -x"])
def test_c11_names_that_are_none(tmp_path, names):
    assert "line 3" in refusal(tmp_path, HEAD.replace("left right", names) + TABLES)


@pytest.mark.parametrize("count", ["999999999", "100000", "99999999999999999999"])
def test_c13_too_many_states_are_refused_before_anything_is_allocated(tmp_path, count):
    begun = time.perf_counter()
    refusal(tmp_path, HEAD.replace("left right", count) + "T: * uniform\nO: * uniform\n", ResourceLimitError)
    assert time.perf_counter() - begun < 1


@pytest.mark.parametrize("kind", ["states", "actions", "observations"])
def test_c13_numbers_are_not_made_names_before_they_are_too_many(tmp_path, kind):
    """A file of a thousand bytes that asked for three million states took half a second and 300 MB to be refused."""
    names = {"states": "left right", "actions": "listen", "observations": "one two"} | {kind: "3276946"}
    (tmp_path / "a.POMDP").write_text(
        "discount: 0.95\nvalues: reward\n" + "".join(f"{item}: {value}\n" for item, value in names.items())
    )
    tracemalloc.start()
    with pytest.raises(ResourceLimitError, match=f"{kind}: 3276946 are too many"):
        load_problem(tmp_path / "a.POMDP")
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


def test_c13_rewards_of_too_many_cases(tmp_path):
    head = HEAD.replace("left right", "2000").replace("observations: 2", "observations: 2000")
    refusal(tmp_path, f"{head}T: * uniform\nO: * uniform\nR: * : 0 : 0 : 0 1\n", ResourceLimitError)


@pytest.mark.parametrize("discount", ["0", "0.0", "0.5", ".999"])
def test_c16_discounts(tmp_path, discount):
    problem = read(tmp_path, HEAD.replace("0.9", discount) + TABLES)
    assert problem.discount == float(discount)
    assert len(problem.diagnostics) == 0


@pytest.mark.parametrize("discount", ["-0.1", "1.01", "nan", "x", ""])
def test_c16_discounts_that_are_none(tmp_path, discount):
    refusal(tmp_path, HEAD.replace("0.9", discount) + TABLES)


def test_c16_a_discount_of_one_is_noted(tmp_path):
    assert "undiscounted" in read(tmp_path, HEAD.replace("0.9", "1") + TABLES).diagnostics


@pytest.mark.parametrize(
    "start",
    [
        "start: 0 0",
        "start: 0.5 0.6",
        "start: 1.5 -0.5",
        "start: nowhere",
        "start: 2",
        "start:",
        "start: 0.5 0.5 0",
        "start include:",
        "start exclude: left right",
        "start include: up",
        "start include: *",
        "start maybe: left",
    ],
)
def test_c15_starts_that_are_none(tmp_path, start):
    assert "line 6: " in refusal(tmp_path, f"{HEAD}{start}\n{TABLES}")


# --- what is repaired ------------------------------------------------------------------------------------


def test_c8_rows_that_nearly_add_up_are_renormalized_and_noted_with_line_and_row(tmp_path):
    problem = read(
        tmp_path, HEAD + "start: 0.333333 0.666666\n" + TABLES + "T: open : right 0.499995 0.499996\n"
    )
    notes = [entry for entry in problem.diagnostics if entry.name == "repaired"]
    assert [note.details["line"] for note in notes] == [6, 10]
    assert "action 'open', state 'right'" in notes[1].message
    assert notes[1].details["worst"] == pytest.approx(9e-6)
    assert problem.model.transitions[1, 1].sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("row", ["0.5 0.4", "0.50002 0.5", "1.1 -0.1", "0 0"])
def test_c8_c9_other_rows_are_refused_with_line_and_row(tmp_path, row):
    message = refusal(tmp_path, f"{HEAD}{TABLES}O: open : right {row}\n")
    assert "O: line 9, action 'open', state 'right'" in message


def test_c9_negatives_of_rounding_are_set_to_zero(tmp_path):
    problem = read(tmp_path, f"{HEAD}{TABLES}O: open : right 1 -1e-17\n")
    assert "repaired" in problem.diagnostics
    assert problem.model.observations[1, 1].tolist() == [1, 0]


def test_c10_costs_are_negated_and_noted(tmp_path):
    problem = read(tmp_path, HEAD.replace("reward", "cost") + TABLES + "R: open : * : * : * 3\n")
    assert problem.rewards.tolist() == [[0, 0], [-3, -3]]
    assert not np.signbit(problem.reward.table[0]).any()
    assert "costs_negated" in problem.diagnostics


def test_c19_unreachable_states_are_noted(tmp_path):
    text = f"{HEAD}start: left\nT: * identity\nO: * uniform\n"
    assert read(tmp_path, text).diagnostics["unreachable_states"].details == {"states": ["right"]}


# --- size ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["entries", "one line", "comments"])
def test_c18_eight_times_the_text_takes_about_eight_times_as_long(tmp_path, form):
    """Nothing in reading grows with the square of the text."""
    size = 40
    head = f"discount: 0.9\nvalues: reward\nstates: {size}\nactions: 1\nobservations: 1\nO: * uniform\nT: * identity\n"
    if form == "entries":
        piece = "".join(
            f"T: 0 : {s} : {t} {int(s == t)}\n" for s, t in itertools.product(range(size), repeat=2)
        )
    elif form == "one line":
        piece = f"T: 0 : 0 1{' 0' * (size - 1)} "
    else:
        piece = "# : * T O R 0.5 \u00e9\n"

    def fastest(length: int) -> float:
        took = []
        for _ in range(3):
            begun = time.thread_time()
            problem = read(tmp_path, head + piece * (length // len(piece)))
            took.append(time.thread_time() - begun)
        assert np.array_equal(problem.model.transitions[0], np.eye(size))
        return min(took)

    short = fastest(120_000)
    assert fastest(960_000) < 24 * short


# --- there and back --------------------------------------------------------------------------------------


def random_problem(seed: int, emission: str = "arrival") -> Problem:
    rng = np.random.default_rng(seed)
    states, actions, observations = rng.integers(1, 6, size=3).tolist()

    def rows(*shape):
        table = rng.dirichlet(np.full(shape[-1], 0.3), size=shape[:-1])
        table[table < 1e-3] = 0
        return table / table.sum(axis=-1, keepdims=True)

    model = POMDP(rows(actions, states, states), rows(actions, states, observations), rows(states), emission)
    shape = (actions, states, *(size if rng.random() < 0.5 else 1 for size in (states, observations)))
    return Problem(
        model, Reward.on_transitions(rng.normal(size=shape) * (rng.random(shape) < 0.7)), float(rng.random())
    )


@pytest.mark.parametrize("ending", [".POMDP", ".pomdpx", ".json", ".npz"])
@pytest.mark.parametrize("seed", range(12))
def test_arrival_problems_come_back_bit_for_bit(tmp_path, seed, ending):
    problem = random_problem(seed)
    path, again = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    assert len(save_problem(path, problem)) == 0
    back = load_problem(path)
    assert back.model == problem.model
    assert back.discount == problem.discount
    np.testing.assert_array_equal(back.reward_table, problem.reward_table)
    save_problem(again, back)
    assert load_problem(again) == back


@pytest.mark.parametrize("ending", [".POMDP", ".pomdpx"])
@pytest.mark.parametrize("seed", range(4))
def test_departure_problems_are_written_by_the_exact_conversion(tmp_path, seed, ending):
    problem = random_problem(seed + 100, "departure")
    notes = save_problem(tmp_path / f"a{ending}", problem)
    assert "emission_converted" in notes
    back = load_problem(tmp_path / f"a{ending}")
    wanted = with_emission(problem, "arrival")
    assert back.model == wanted.model
    np.testing.assert_array_equal(back.reward_table, wanted.reward_table)


STRANGE = (
    "T",
    "start",
    "left door",
    "1st",
    "a:b",
    "*",
    "#",
    "-",
    "0",
    "\u00e9t\u00e9",
    "<x>&--\"'",
    "a_b",
    "a b",
    "uniform",
)


@pytest.mark.parametrize("ending", [".POMDP", ".pomdpx"])
def test_c11_strange_names_come_back(tmp_path, ending):
    size = len(STRANGE)
    rng = np.random.default_rng(0)
    model = POMDP(
        rng.dirichlet(np.ones(size), size=(size, size)), rng.dirichlet(np.ones(size), size=(size, size)),
        np.full(size, 1 / size), "arrival", STRANGE, STRANGE, STRANGE,
    )  # fmt: skip
    problem = Problem(model, Reward.on_transitions(rng.normal(size=(size, size))))
    save_problem(tmp_path / f"a{ending}", problem)
    assert load_problem(tmp_path / f"a{ending}").model == model
    written = (tmp_path / f"a{ending}").read_bytes()
    assert written.isascii()
    assert b"\r" not in written


def test_c11_a_comment_that_does_not_fit_is_refused(tmp_path):
    for comment in (
        '{"states": {"nobody": "x"}}',
        '{"future": 1}',
        '{"states": 3}',
        "{",
        '{"terminal": ["up"]}',
        '{"terminal": 1}',
        '{"first_observations": [[1.0]]}',
        '{"symbol_rewards": {}}',
    ):
        refusal(tmp_path, f"# unlatch-names: {comment}\n{HEAD}{TABLES}")


@pytest.mark.parametrize("value", [1e-12, 5e-324, 1 / 3, 1e-5])
def test_c17_small_and_long_numbers_are_written_without_exponents(tmp_path, value):
    model = POMDP([[[1 - value, value], [0.0, 1.0]]], [[[1.0], [1.0]]], [1.0, 0.0], "arrival")
    problem = Problem(model, Reward.on_transitions([[1e22, -1e-30]]))
    notes = save_problem(tmp_path / "a.POMDP", problem)
    text = (tmp_path / "a.POMDP").read_text().partition("discount")[2]
    assert "e-" not in text
    assert "e+" not in text
    back = load_problem(tmp_path / "a.POMDP")
    assert back.model == model
    assert back.rewards.tolist() == [[1e22, -1e-30]]
    assert ("tiny_probabilities" in notes) == (value < 1e-10)


EPISODIC = domains.frozen_lake(lake=["SFF", "HFG"], observe="column")


@pytest.mark.parametrize("ending", [".POMDP", ".pomdpx"])
def test_terminal_states_and_first_observations_come_back_to_unlatch(tmp_path, ending):
    notes = save_problem(tmp_path / f"a{ending}", Problem(EPISODIC))
    assert {"terminal_as_absorbing", "first_observations_in_comment"} <= {note.name for note in notes}
    back = load_problem(tmp_path / f"a{ending}")
    assert back.model == EPISODIC
    np.testing.assert_allclose(back.rewards, Problem(EPISODIC).rewards, atol=1e-15)


@pytest.mark.parametrize("ending", [".POMDP", ".pomdpx"])
def test_first_observations_that_are_a_little_off_are_noted(tmp_path, ending):
    save_problem(tmp_path / f"a{ending}", Problem(EPISODIC))
    text = (tmp_path / f"a{ending}").read_text()
    (tmp_path / f"a{ending}").write_text(text.replace("[[1.0, 0.0, 0.0],", "[[1.0, 0.0, 1e-7],", 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saved = load_model(tmp_path / f"a{ending}")
    assert [note.message for note in saved.diagnostics if note.name == "repaired"] == [
        "model: first_observations: 1 rows off by up to 1.0e-07 were renormalized"
    ]
    assert saved.pomdp.first_observations.sum(axis=1) == pytest.approx(1, abs=1e-15)


def test_others_see_absorbing_states_which_can_be_taken_for_terminal(tmp_path):
    save_problem(tmp_path / "a.POMDP", Problem(EPISODIC))
    lines = (tmp_path / "a.POMDP").read_text().splitlines(keepends=True)
    (tmp_path / "a.POMDP").write_text("".join(line for line in lines if not line.startswith("#")))
    plain = load_problem(tmp_path / "a.POMDP")
    assert plain.terminal == ()
    for state in EPISODIC.terminal:
        assert (plain.model.transitions[:, state, state] == 1).all()
        assert (plain.rewards[:, state] == 0).all()
    assert load_problem(tmp_path / "a.POMDP", terminal="detect").terminal == EPISODIC.terminal
    with pytest.raises(UsageError, match="terminal must be"):
        load_problem(tmp_path / "a.POMDP", terminal="maybe")


def test_random_rewards_are_averaged_and_that_is_noted(tmp_path):
    model = POMDP(
        [np.eye(2)], [[[1.0], [1.0]]], [0.5, 0.5], "arrival", reward_values=[0.0, 1.0],
        reward_probabilities=[[[0.5, 0.5], [0.25, 0.75]]],
    )  # fmt: skip
    assert "rewards_averaged" in save_problem(tmp_path / "a.POMDP", Problem(model))
    assert load_problem(tmp_path / "a.POMDP").rewards.tolist() == [[0.5, 0.75]]


def test_what_cannot_be_written(tmp_path):
    tiger = domains.tiger()
    with pytest.raises(UsageError, match="PSR cannot be written"):
        save_problem(tmp_path / "a.POMDP", Problem(tiger.to_psr()))
    with pytest.raises(UsageError, match="ends in"):
        save_problem(tmp_path / "a.txt", Problem(tiger))
    with pytest.raises(UsageError, match="expected a Problem"):
        save_problem(tmp_path / "a.POMDP", tiger)
    with pytest.raises(UsageError, match="save_problem"):
        save_model(tmp_path / "a.POMDP", tiger)
    assert list(tmp_path.iterdir()) == []


def test_load_model_reads_problems_too(tmp_path):
    problem = Problem(with_emission(domains.tiger(), "arrival"))
    save_problem(tmp_path / "a.POMDP", problem)
    saved = load_model(tmp_path / "a.POMDP")
    assert saved.pomdp == problem.model
    assert saved.problem.discount == problem.discount
    assert isinstance(saved.diagnostics, Diagnostics)


# --- a second reader, written apart ----------------------------------------------------------------------


def naive_read(text: str) -> dict[str, np.ndarray]:
    """Tables of a file whose entries are all single numbers or matrices, by splitting at colons."""
    body = "\n".join(line.partition("#")[0] for line in text.splitlines())
    head = {
        line.partition(":")[0].strip(): line.partition(":")[2].split()
        for line in body.splitlines()
        if ":" in line
    }
    names = {}
    for kind in ("states", "actions", "observations"):
        listed = head[kind]
        names[kind] = [str(i) for i in range(int(listed[0]))] if listed[0].isdigit() else listed
    sizes = [len(names[kind]) for kind in ("actions", "states", "states", "observations")]
    tables = {"T": np.zeros(sizes[:3]), "O": np.zeros((sizes[0], sizes[1], sizes[3])), "R": np.zeros(sizes)}
    kinds = {"T": ("actions", "states", "states"), "O": ("actions", "states", "observations"),
             "R": ("actions", "states", "states", "observations")}  # fmt: skip
    lines = iter(body.splitlines())
    for line in lines:
        kind = line.partition(":")[0].strip()
        if kind not in tables:
            continue
        parts = [part.split() for part in line.split(":")[1:]]
        places = [slice(None) if part[0] == "*" else names[axis].index(part[0])
                  for part, axis in zip(parts, kinds[kind], strict=False)]  # fmt: skip
        if len(parts[-1]) > 1:
            tables[kind][tuple(places)] = float(parts[-1][1])
            continue
        rows = []
        shape = tables[kind].shape[len(places) :]
        for following in lines:
            if following.strip() == "identity":
                rows = np.eye(shape[0]).tolist()
                break
            rows.append([float(word) for word in following.split()])
            if len(rows) == (shape[0] if len(shape) == 2 else 1):
                break
        tables[kind][tuple(places)] = np.array(rows).reshape(shape)
    return tables


@pytest.mark.parametrize("seed", range(6))
def test_a_naive_reader_finds_the_same_numbers(tmp_path, seed):
    problem = random_problem(seed + 50)
    save_problem(tmp_path / "a.POMDP", problem)
    tables = naive_read((tmp_path / "a.POMDP").read_text())
    np.testing.assert_array_equal(tables["T"], problem.model.transitions)
    np.testing.assert_array_equal(tables["O"], problem.model.observations)
    np.testing.assert_array_equal(tables["R"], np.broadcast_to(problem.reward_table, tables["R"].shape))
