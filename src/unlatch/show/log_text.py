"""What a log holds, for people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from unlatch.learn.examine.inspection import LogSummary, SymbolCount
from unlatch.show.safe import counted
from unlatch.show.screen import Screen

__all__ = ["print_log_summary"]

_LISTED = 12
"""Symbols of an alphabet that are listed."""

_NAMED = 8

_OPEN = 0.01
"""p-value up to which it is not said that nothing speaks against equal frequencies: one such log in a hundred."""


def print_log_summary(output: Screen, summary: LogSummary, words: Sequence[str] = ("LOG",)) -> None:
    """The summary as text: what there is, what is peculiar, what to do next; ``words`` are the log and the options with
    which it was read, as a command takes them."""
    output.print(_size(summary))
    output.print(_endings(summary))
    for title, symbols in (
        ("actions", summary.actions),
        ("observations", summary.observations),
        ("first observations", summary.first_observations),
    ):
        if symbols:
            _print_alphabet(output, title, symbols)
    if summary.reward_range is not None:
        low, high, distinct = summary.reward_range
        output.print(f"rewards: {counted(distinct, 'value')} from {low:g} to {high:g}")
    if summary.rare:
        more = f" and {len(summary.rare) - _NAMED} more" if len(summary.rare) > _NAMED else ""
        output.print(f"rare, fewer than 100 times: {', '.join(summary.rare[:_NAMED])}{more}", indent="  ")
    sentences = (
        *_first_observations(summary),
        *summary.suspicious,
        *_exploration(summary),
        *_where_actions_show(summary),
    )
    for sentence in sentences:
        output.print(sentence, indent="  ")
    for note in summary.diagnostics:
        output.print(f"note: {note}", indent="  ")
    for sentence in _next(summary, words):
        output.print(f"next: {sentence}", indent="  ")


def _size(summary: LogSummary) -> str:
    text = f"{counted(summary.steps, 'step')} in {counted(summary.episodes, 'episode')}"
    if summary.episodes == 1:
        return text
    return f"{text} of {summary.shortest} to {summary.longest} steps (median {summary.median:g})"


def _endings(summary: LogSummary) -> str:
    if summary.endings is None:
        return "endings: not told (no column terminated)"
    cut = summary.episodes - summary.endings
    return f"endings: {summary.endings} of {summary.episodes} episodes ended for good, {cut} were cut"


def _print_alphabet(output: Screen, title: str, symbols: Sequence[SymbolCount]) -> None:
    total = sum(symbol.count for symbol in symbols)
    shown = symbols[:_LISTED]
    rows = [[symbol.name, str(symbol.count), f"{symbol.count / total:.4f}"] for symbol in shown]
    left = len(symbols) - len(shown)
    if left:
        rest = sum(symbol.count for symbol in symbols[_LISTED:])
        rows.append([f"({left} more)", str(rest), f"{rest / total:.4f}"])
    output.table(f"{len(symbols)} {title}:", [title, "times", "share"], rows)


def _first_observations(summary: LogSummary) -> list[str]:
    """Whether episodes begin with what is also seen later: as a rule so where the state that is reached is shown."""
    first = {symbol.name for symbol in summary.first_observations}
    if not first:
        return []
    later = len(first & {symbol.name for symbol in summary.observations})
    return [f"first observations: {later} of {len(first)} are observed later too"]


def _exploration(summary: LogSummary) -> list[str]:
    if summary.has_probabilities:
        return ["exploration: the log says with which probability every action was chosen"]
    if not summary.is_blind:
        return []  # a note says so
    blind = "exploration: nothing speaks against actions chosen blindly"
    if len(summary.actions) < 2:
        return []
    if summary.uniform > _OPEN:
        return [f"{blind} and uniformly (p = {summary.uniform:.2g} by their counts)"]
    if summary.is_uniform:
        return [f"{blind}; whether uniformly too is open (p = {summary.uniform:.1g} by their counts)"]
    return [f"{blind}, but they are not equally frequent (p = {summary.uniform:.1g})"]


def _where_actions_show(summary: LogSummary) -> list[str]:
    if summary.acts_in_the_next_row:
        return [
            f"an observation shows no trace of the action in its own row (p = {summary.same_row:.2g}), but of "
            f"the one in the row "
            f"before (p = {summary.next_row:.1g}): either it is of the state that the action leaves "
            f"(departure), or rows hold "
            "what was observed before their action: then read the log with --order observation-first"
        ]
    return []


def _next(summary: LogSummary, words: Sequence[str]) -> list[str]:
    if len(summary.observations) == 1 or len(summary.actions) == 1:
        return ["a log in which actions and observations differ is needed"]
    return [f"unlatch learn {shlex.join(words)} -o model.json"]
