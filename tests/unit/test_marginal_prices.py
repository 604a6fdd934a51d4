"""What a single entry costs is what the evidence gains without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unlatch.learn.likelihood.marginal import complete_evidence, entry_prices
from unlatch.learn.likelihood.parameters import ExpectedCounts


@pytest.mark.parametrize("uses", [2.0, 20.0, 300.0])
def test_the_price_of_an_entry_is_what_closing_it_saves(uses):
    moves = np.array([[[uses, 400.0, 600.0 - uses], [500.0, 250.0, 250.0], [1_000.0, 0.0, 0.0]]])
    shown = np.array([[[1_000.0, 0.0], [0.0, 1_000.0], [500.0, 500.0]]])
    counts = ExpectedCounts(
        initial=np.array([1.0, 0.0, 0.0]), transitions=moves, observations=shown, log_likelihood=0.0
    )
    closed = moves.copy()
    closed[0, 0, 0] = 0.0
    closed[0, 0] *= 1_000.0 / closed[0, 0].sum()
    saved = complete_evidence(replace(counts, transitions=closed)) - complete_evidence(counts)
    assert entry_prices(counts)[1][0, 0, 0] == pytest.approx(saved, abs=0.1)
