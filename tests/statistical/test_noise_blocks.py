"""The running quota of blocks tells noise as well as eight equal parts of the log would."""

from __future__ import annotations

import numpy as np
import pytest

from unlatch import domains, simulate
from unlatch.learn.spectral.windows import BLOCKS, block_cuts, noise_blocks


def equal_parts(steps):
    return np.arange(steps) * BLOCKS // steps


def jackknife(shown, blocks):
    """Standard error of the mean by leaving out one block each."""
    sums = np.bincount(blocks, weights=shown, minlength=BLOCKS)
    sizes = np.bincount(blocks, minlength=BLOCKS)
    left = (sums.sum() - sums) / (sizes.sum() - sizes)
    return np.sqrt((BLOCKS - 1) / BLOCKS * ((left - left.mean()) ** 2).sum())


@pytest.mark.parametrize(
    ("domain", "steps"), [("tmaze:rooms=2", 700), ("tmaze:rooms=4", 5_000), ("noisy-hallway", 3_100)]
)
def test_its_standard_errors_are_as_good(domain, steps):
    """As much of the squared error of a mean is foretold; in a short log of a slow system neither tells all."""
    model = domains.by_name(domain)
    logs = [simulate(model, steps, rng=seed).observations == 0 for seed in range(300)]
    truth = np.mean([simulate(model, 400_000, rng=1000 + seed).observations == 0 for seed in range(5)])
    ratios = {}
    for name, blocks in (("quota", noise_blocks(np.arange(steps))), ("equal", equal_parts(steps))):
        errors = np.array([log.mean() - truth for log in logs])
        stated = np.array([jackknife(log, blocks) for log in logs])
        ratios[name] = float((errors**2).mean() / (stated**2).mean())
    assert 0.75 < ratios["quota"] < 1.45
    assert abs(np.log(ratios["quota"] / ratios["equal"])) < 0.2


def test_no_block_has_much_more_than_twice_as_much_as_another():
    for steps in (200, 1_700, 4_000, 12_345, 999_999):
        sizes = np.bincount(noise_blocks(np.arange(steps)), minlength=BLOCKS)
        if steps > 1_536:
            assert sizes.max() <= 7 / 3 * sizes.min()
            assert sizes.sum() ** 2 / (sizes**2).sum() > 6.9
        changes = np.flatnonzero(np.diff(noise_blocks(np.arange(steps)))) + 1
        assert block_cuts(0, steps).tolist() == changes.tolist()
    large = np.array([10**12, 10**15])
    assert ((noise_blocks(large) >= 0) & (noise_blocks(large) < BLOCKS)).all()
