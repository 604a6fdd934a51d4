"""One page about a model: complete as it is, and with scripts on a little more. Nothing of it comes from elsewhere."""

from __future__ import annotations

import platform
from typing import Any

from unlatch import __version__
from unlatch.arrays import own_errstate
from unlatch.core.pomdp import POMDP
from unlatch.core.trajectory import Trajectory
from unlatch.files.atomic import PathLike, check_target, write_atomically
from unlatch.show.report import model as model_parts
from unlatch.show.report import use, words
from unlatch.show.report.data import Intervals, Verdicts, report_data
from unlatch.show.report.markup import data_block, page

__all__ = ["report_html", "write_report"]


@own_errstate
def report_html(
    model: Any,
    *,
    log: Trajectory | None = None,
    truth: POMDP | None = None,
    intervals: Intervals | None = None,
    level: float | None = None,
    verdicts: Verdicts | None = None,
    title: str | None = None,
) -> str:
    """A page of HTML about a model: what was found, how sure it is, what cannot be known.

    It loads nothing and sends nothing, is complete with scripts off, and lets one switch actions, step through a log
    and choose goals with scripts on. What each part shows: docs/report.md.

    Parameters
    ----------
    model : LearnResult, SavedModel or POMDP
    log : Trajectory, optional
        For the check of predictions and for the belief that one steps through. Best one that the model was not
        learned from. Without it there is no check, and a simulated log to step through.
    truth : POMDP, optional
        The true system, to stand beside what was learned.
    intervals : object with ``transitions``, ``observations`` and ``initial``, optional
        Lower and upper end of every number, shapes as in the model with a last axis of two.
    level : float, optional
        The level of these intervals, as .95.
    verdicts : object with ``transitions``, ``observations``, ``initial`` and ``meaning``, optional
        A word for every number, and what the words mean. By default what `identify`, or else the partition, says.
    title : str, optional

    Returns
    -------
    str

    Examples
    --------
    >>> import unlatch
    >>> page = unlatch.report_html(unlatch.domains.tiger())
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    data = report_data(
        model, log=log, truth=truth, intervals=intervals, level=level, verdicts=verdicts, title=title
    )
    sections = [
        ("summary", "Summary", words.summary_section(data)),
        ("graphs", "Graphs", model_parts.graph_section(data)),
        ("numbers", "Numbers", model_parts.number_section(data)),
        ("predictions", "Predictions", use.prediction_section(data)),
        ("tracker", "Tracker", use.tracker_section(data)),
        ("goals", "Goals", use.goal_section(data)),
        ("provenance", "Provenance", words.provenance_section(data, _software())),
    ]
    if data.truth is not None:
        sections.insert(3, ("truth", "Truth", model_parts.truth_section(data)))
    header = words.header(data, [(identity, name) for identity, name, _ in sections])
    block = data_block("model", use.page_data(data))
    return page(data.title, header, *(made for _, _, made in sections), data=block)


def write_report(
    path: PathLike,
    model: Any,
    *,
    log: Trajectory | None = None,
    truth: POMDP | None = None,
    intervals: Intervals | None = None,
    level: float | None = None,
    verdicts: Verdicts | None = None,
    title: str | None = None,
) -> None:
    """Write the page of `report_html` to a file, whole or not at all.

    Parameters
    ----------
    path : path of the page
        Replaced if it exists; a symbolic link is replaced, not followed.
    model, log, truth, intervals, level, verdicts, title
        See `report_html`.

    Examples
    --------
    >>> import tempfile, unlatch
    >>> unlatch.write_report(f"{tempfile.mkdtemp()}/tiger.html", unlatch.domains.tiger())
    """
    check_target(path)
    made = report_html(
        model, log=log, truth=truth, intervals=intervals, level=level, verdicts=verdicts, title=title
    )
    write_atomically(path, made.encode())


def _software() -> dict[str, str]:
    return {"unlatch": __version__, "Python": platform.python_version()}
