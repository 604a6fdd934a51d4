"""POMDPX: tables, decision diagrams, variables that multiply out, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import load_problem
from unlatch.errors import ModelFileError, ResourceLimitError

TIGER = """<?xml version="1.0" encoding="ISO-8859-1"?>
<pomdpx version="0.1" id="x">
<Description>two rooms</Description>
<Discount>0.95</Discount>
<Variable>
<StateVar vnamePrev="tiger_0" vnameCurr="tiger_1"><ValueEnum>left right</ValueEnum></StateVar>
<ObsVar vname="ear"><NumValues>2</NumValues></ObsVar>
<ActionVar vname="act"><ValueEnum>listen open</ValueEnum></ActionVar>
<RewardVar vname="pay"/>
</Variable>
<InitialStateBelief><CondProb><Var>tiger_0</Var><Parent>null</Parent><Parameter type="TBL">
<Entry><Instance>-</Instance><ProbTable>uniform</ProbTable></Entry>
</Parameter></CondProb></InitialStateBelief>
<StateTransitionFunction><CondProb><Var>tiger_1</Var><Parent>act tiger_0</Parent><Parameter type="TBL">
<Entry><Instance>listen - -</Instance><ProbTable>identity</ProbTable></Entry>
<Entry><Instance>open * -</Instance><ProbTable>uniform</ProbTable></Entry>
</Parameter></CondProb></StateTransitionFunction>
<ObsFunction><CondProb><Var>ear</Var><Parent>act tiger_1</Parent><Parameter type="TBL">
<Entry><Instance>listen - -</Instance><ProbTable>0.85 0.15 0.15 0.85</ProbTable></Entry>
<Entry><Instance>open * -</Instance><ProbTable>uniform</ProbTable></Entry>
</Parameter></CondProb></ObsFunction>
<RewardFunction><Func><Var>pay</Var><Parent>act tiger_0</Parent><Parameter type="TBL">
<Entry><Instance>listen *</Instance><ValueTable>-1</ValueTable></Entry>
<Entry><Instance>open -</Instance><ValueTable>-100 10</ValueTable></Entry>
</Parameter></Func></RewardFunction>
</pomdpx>
"""


def read(folder, text):
    path = folder / "model.pomdpx"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("latin-1"))
    return load_problem(path)


def refusal(folder, text, error=ModelFileError):
    with pytest.raises(error) as caught:
        read(folder, text)
    assert "model.pomdpx" in str(caught.value)
    return str(caught.value)


def test_tables(tmp_path):
    problem = read(tmp_path, TIGER)
    model = problem.model
    assert (model.emission, problem.discount) == ("arrival", 0.95)
    assert model.state_names == ("left", "right")
    assert model.observation_names == ("o0", "o1")
    np.testing.assert_array_equal(model.transitions, [np.eye(2), np.full((2, 2), 0.5)])
    np.testing.assert_array_equal(model.observations, [[[0.85, 0.15], [0.15, 0.85]], np.full((2, 2), 0.5)])
    assert problem.rewards.tolist() == [[-1, -1], [-100, 10]]


def condition(variable, parents, *entries, kind="CondProb", numbers="ProbTable"):
    rows = "".join(
        f"<Entry><Instance>{instance}</Instance><{numbers}>{values}</{numbers}></Entry>"
        for instance, values in entries
    )
    return f"<{kind}><Var>{variable}</Var><Parent>{parents}</Parent><Parameter>{rows}</Parameter></{kind}>"


ROVER = f"""<pomdpx><Discount>0.9</Discount><Variable>
<StateVar vnamePrev="x0" vnameCurr="x1" fullyObs="true"><NumValues>3</NumValues></StateVar>
<StateVar vnamePrev="r0" vnameCurr="r1"><ValueEnum>good bad</ValueEnum></StateVar>
<ObsVar vname="o"><ValueEnum>g b</ValueEnum></ObsVar>
<ActionVar vname="a"><ValueEnum>go look</ValueEnum></ActionVar>
<RewardVar vname="w1"/><RewardVar vname="w2"/></Variable>
<InitialStateBelief>
{condition("x0", "null", ("s0", "1"))}{condition("r0", "x0", ("* -", "0.3 0.7"))}
</InitialStateBelief>
<StateTransitionFunction>
{condition("x1", "a x0", ("go s0 s1", "1"), ("go s1 s2", "1"), ("go s2 s2", "1"), ("look - -", "identity"))}
{condition("r1", "r0 x1", ("- * -", "identity"), ("good s2 -", "0.5 0.5"))}
</StateTransitionFunction>
<ObsFunction>
{condition("o", "a r1 x1", ("* * * -", "uniform"), ("look good s1 g", "0.9"), ("look good s1 b", "0.1"))}
</ObsFunction>
<RewardFunction>
{condition("w1", "a x0", ("go s1", "10"), kind="Func", numbers="ValueTable")}
{condition("w2", "r1 o", ("bad b", "-1"), kind="Func", numbers="ValueTable")}
</RewardFunction></pomdpx>"""


def test_variables_multiply_out(tmp_path):
    problem = read(tmp_path, ROVER)
    model = problem.model
    assert model.state_names == ("s0,good", "s0,bad", "s1,good", "s1,bad", "s2,good", "s2,bad")
    assert model.observation_names == ("s0,g", "s0,b", "s1,g", "s1,b", "s2,g", "s2,b")
    np.testing.assert_allclose(model.initial, [0.3, 0.7, 0, 0, 0, 0])
    np.testing.assert_array_equal(
        model.transitions[0, 2], [0, 0, 0, 0, 0.5, 0.5]
    )  # rock depends on the cell reached
    np.testing.assert_array_equal(model.transitions[0, 3], [0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(model.observations[1, 2], [0, 0, 0.9, 0.1, 0, 0])
    np.testing.assert_array_equal(model.observations[0, 5], [0, 0, 0, 0, 0.5, 0.5])
    np.testing.assert_array_equal(model.first_observations[[0, 3]], [[1, 0, 0], [0, 1, 0]])
    table = np.broadcast_to(problem.reward_table, (2, 6, 6, 6))
    assert table[0, 2, 5, 5] == 9  # 10 for leaving s1 by go, -1 for b from a bad rock
    assert table[0, 2, 4, 5] == 10
    assert table[1, 2, 3, 3] == -1
    assert table[1, 2, 3, 2] == 0


def test_decision_diagrams(tmp_path):
    rows = """<Parameter type="DD"><DAG><Node var="act">
    <Edge val="listen"><SubDAG type="persistent" var="tiger_1"/></Edge>
    <Edge val="open"><Node var="tiger_0"><Edge val="left"><SubDAG type="uniform" var="tiger_1"/></Edge>
    <Edge val="right"><SubDAG type="template" idref="stay"/></Edge></Node></Edge></Node></DAG>
    <SubDAGTemplate id="stay"><SubDAG type="deterministic" var="tiger_1" val="left"/></SubDAGTemplate></Parameter>"""
    table = TIGER.index('<Parameter type="TBL">', TIGER.index("<StateTransitionFunction>"))
    end = TIGER.index("</Parameter>", table) + len("</Parameter>")
    model = read(tmp_path, TIGER[:table] + rows + TIGER[end:]).model
    np.testing.assert_array_equal(model.transitions, [np.eye(2), [[0.5, 0.5], [1, 0]]])
    endless = rows.replace(
        '<SubDAG type="deterministic" var="tiger_1" val="left"/>', '<SubDAG type="template" idref="stay"/>'
    )
    assert "holds itself" in refusal(tmp_path, TIGER[:table] + endless + TIGER[end:])
    for wrong in ('idref="gone"', 'type="strange"'):
        broken = rows.replace('type="template" idref="stay"', wrong + ' var="tiger_1"')
        refusal(tmp_path, TIGER[:table] + broken + TIGER[end:])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<Discount>0.95</Discount>", "", "expected one <Discount>"),
        ("0.95</Discount>", "1.5</Discount>", "line 4: a discount"),
        ("0.95</Discount>", "\u00b2</Discount>", "line 4: expected a number"),
        ("left right", "left left", "line 6: StateVar: values"),
        ("left right", "left *", "line 6: StateVar: values"),
        ("<NumValues>2", "<NumValues>0", "line 7: NumValues"),
        ("<NumValues>2", "<NumValues>\u00b2", "line 7: NumValues"),
        ('vnameCurr="tiger_1"', 'vnameCurr="tiger_0"', "line 6"),
        ("<Var>ear</Var>", "<Var>nose</Var>", "'nose' is no variable"),
        ("act tiger_1</Parent>", "act tiger_0</Parent>", "cannot depend on"),
        ("act tiger_1</Parent>", "act tail</Parent>", "no variable 'tail'"),
        ("0.85 0.15 0.15 0.85", "0.85 0.15 0.15", "expected 4 numbers, got 3"),
        ("0.85 0.15 0.15 0.85", "0.85 0.15 0.15 0.84", "state 'right'"),
        ("0.85 0.15 0.15 0.85", "1.85 -0.85 0.15 0.85", "negative"),
        ("0.85 0.15 0.15 0.85", "nan 0.15 0.15 0.85", "expected a number"),
        (
            "listen - -</Instance><ProbTable>0.85",
            "sing - -</Instance><ProbTable>0.85",
            "'sing' is no value of act",
        ),
        ("open * -</Instance>", "open -</Instance>", "expected 3 values"),
        ("-100 10", "-100 1e999", "expected a number"),
        ("<Var>pay</Var>", "<Var>cost</Var>", "no RewardVar"),
        ("<pomdpx", "<other", "no XML"),
        ("</pomdpx>", "", "no XML"),
    ],
)
def test_what_is_refused(tmp_path, old, new, message):
    assert old in TIGER
    assert message in refusal(tmp_path, TIGER.replace(old, new))


def test_what_is_repaired_is_noted(tmp_path):
    notes = read(tmp_path, TIGER.replace("0.85 0.15 0.15 0.85", "0.85 0.15 0.15 0.849999")).diagnostics
    assert "action 'listen', state 'right'" in notes["repaired"].message


BOMB = """<?xml version="1.0"?><!DOCTYPE pomdpx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<pomdpx>&b;</pomdpx>"""
OUTSIDE = (
    """<?xml version="1.0"?><!DOCTYPE pomdpx [<!ENTITY x SYSTEM "file:///etc/passwd">]><pomdpx>&x;</pomdpx>"""
)


@pytest.mark.parametrize(
    "text", [BOMB, OUTSIDE, '<!DOCTYPE pomdpx SYSTEM "http://example.org/x.dtd"><pomdpx/>']
)
def test_document_types_are_refused(tmp_path, text):
    assert "document type is refused" in refusal(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<a>" * 100_000,
        b"\xff\xfe\x00",
        '<?xml version="1.0" encoding="klingon"?><pomdpx/>',
        "<pomdpx/>",
        "x",
    ],
)
def test_what_is_no_pomdpx(tmp_path, text):
    refusal(tmp_path, text)


def test_too_many_states_are_refused_before_anything_is_allocated(tmp_path):
    many = TIGER.replace("<ValueEnum>left right</ValueEnum>", "<NumValues>200000</NumValues>")
    refusal(tmp_path, many, ResourceLimitError)
    variables = "".join(
        f'<StateVar vnamePrev="p{i}" vnameCurr="c{i}"><NumValues>100</NumValues></StateVar>' for i in range(5)
    )
    refusal(tmp_path, TIGER.replace("<ObsVar", variables + "<ObsVar"), ResourceLimitError)
