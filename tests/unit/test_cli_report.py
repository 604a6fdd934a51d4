"""``unlatch report``: models, studies, and what it refuses."""

from __future__ import annotations

import os

import pytest

from unlatch import domains, save_model, simulate, write_log
from unlatch.cli import run

TIGER = domains.tiger()


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.json"
    save_model(path, TIGER)
    return path


def test_writes_a_page_about_a_model(tmp_path, model, capsys):
    log, page = tmp_path / "log.csv", tmp_path / "report.html"
    write_log(log, simulate(TIGER, 500, rng=0))
    arguments = ["--log", str(log), "--truth", "tiger", "--title", "A <b>tiger</b>", "-o", str(page)]
    assert run(["report", str(model), *arguments]) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    written = page.read_text()
    assert "<h1>A &lt;b&gt;tiger&lt;/b&gt;</h1>" in written
    assert "Beside the truth" in written
    assert "frequencies of windows" in written


def test_writes_a_page_about_a_study(tmp_path):
    study = tmp_path / "study"
    study.mkdir()
    (study / "rows.csv").write_text("domain,method,steps,seed,error\nmaze,em,100,0,1\nmaze,em,1000,0,.1\n")
    page = tmp_path / "study.html"
    assert run(["report", str(study), "-o", str(page)]) == 0
    assert "maze: error" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["{model}"], 2, "Missing option '-o'"),
        (["{model}", "-o", "{model}"], 2, "would be written over"),
        (["{model}", "-o", "{folder}/none/x.html"], 7, "there is no folder"),
        (["{folder}/absent.json", "-o", "{folder}/x.html"], 7, "cannot read"),
        (["{folder}", "-o", "{folder}/x.html"], 7, "no study"),
        (["{folder}", "--title", "x", "-o", "{folder}/x.html"], 2, "are for models"),
        (["{model}", "--truth", "tigger", "-o", "{folder}/x.html"], 2, "unknown domain"),
        (["{model}", "--log", "{model}", "-o", "{folder}/x.html"], 3, ""),
    ],
)
def test_refuses_what_it_cannot_do(tmp_path, model, capsys, arguments, code, said):
    filled = [text.format(model=model, folder=tmp_path) for text in arguments]
    assert run(["report", *filled]) == code
    assert said in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["model.json"]
