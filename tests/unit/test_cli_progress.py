"""Progress: one bar on a terminal, plain lines elsewhere, nothing on standard output."""

from __future__ import annotations

import threading

import pytest

from unlatch.cli.progress import progress
from unlatch.core.progress import remark, report


def test_off_a_terminal_a_line_tells_stage_and_time_even_if_the_stage_is_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()
    heard: list[str] = []

    def listen(text: str) -> None:
        heard.append(text)
        if "searching" in text:
            told.set()

    monkeypatch.setattr("unlatch.cli.progress.say", listen)
    with progress(every=0.01):
        report("searching", 3, 40)
        assert told.wait(30)
    assert any(line.startswith("searching, 3 of 40, ") and line.endswith(" s elapsed") for line in heard)
    assert capsys.readouterr().out == ""


def test_while_kernels_are_compiled_it_says_so_and_then_where_the_work_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[str] = []
    said = threading.Condition()

    def listen(text: str) -> None:
        with said:
            heard.append(text.split(",")[0])
            said.notify_all()

    def await_line(beginning: str) -> None:
        with said:
            assert said.wait_for(lambda: heard[-1:] == [beginning], timeout=30)

    monkeypatch.setattr("unlatch.cli.progress.say", listen)
    with progress(every=0.01):
        report("examining", 1, 2)
        remark("compiling")
        await_line("compiling")
        remark(None)
        await_line("examining")


def test_short_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with progress():
        report("counting", 1, 1)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_the_thread_ends_with_the_work() -> None:
    before = threading.active_count()
    with pytest.raises(KeyError), progress():
        raise KeyError
    assert threading.active_count() == before
