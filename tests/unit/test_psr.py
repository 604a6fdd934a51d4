"""The triple (initial, updates, final)."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from unlatch import PSR, Trajectory, domains
from unlatch.core import inference
from unlatch.core.progress import listening
from unlatch.errors import DataError, NumericalError

ARRAYS = {"initial": np.array([0.5, 0.5]), "updates": np.full((2, 3, 2, 2), 0.1), "final": np.ones(2)}


def test_built_from_plain_arrays():
    psr = PSR(**ARRAYS)
    assert (psr.rank, psr.n_actions, psr.n_observations) == (2, 2, 3)
    assert psr.action_names == ("0", "1")
    assert psr.to_psr() is psr
    assert repr(psr) == "PSR(rank 2, 2 actions, 3 observations)"
    assert not any(getattr(psr, field).flags.writeable for field in ARRAYS)


@pytest.mark.parametrize("field", ARRAYS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(field, value):
    array = ARRAYS[field].copy()
    array[(1,) * array.ndim] = value
    with pytest.raises(DataError, match=rf"{field}\[1.*\] is {value}"):
        PSR(**{**ARRAYS, field: array})


@pytest.mark.parametrize(
    "fields",
    [
        {"initial": np.ones(3)},
        {"final": np.ones(1)},
        {"updates": np.ones((2, 3, 2, 3))},
        {"updates": np.ones((0, 3, 2, 2))},
    ],
)
def test_shapes_must_fit(fields):
    with pytest.raises(DataError, match="shapes do not fit together"):
        PSR(**{**ARRAYS, **fields})


def test_probability_is_the_product(rng):
    psr = PSR(rng.standard_normal(2), rng.standard_normal((2, 3, 2, 2)), rng.standard_normal(2))
    expected = psr.initial @ psr.updates[1, 2] @ psr.updates[0, 1] @ psr.final
    assert psr.probability([1, 0], [2, 1]) == pytest.approx(expected)
    assert psr.probability([], []) == pytest.approx(psr.initial @ psr.final)
    np.testing.assert_allclose(psr.predict(psr.initial)[1, 2], psr.probability([1], [2]))


def test_transformed_replicates_stay_in_the_same_basis(rng):
    exact = domains.tiger().to_psr()
    replicate = PSR(exact.initial, exact.updates * 1.01, exact.final)
    psr = PSR(exact.initial, exact.updates, exact.final, replicates=(replicate,))
    moved = psr.transformed(rng.standard_normal((2, 2)))
    np.testing.assert_allclose(moved.replicates[0].updates, moved.updates * 1.01, rtol=1e-12)


@pytest.mark.parametrize(
    ("basis", "error"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], DataError),
        ([1.0, 2.0], DataError),
        ([[1.0, 1.0], [1.0, 1.0]], NumericalError),
        ([[1.0, 1.0], [1.0, 1.0 + 2e-16]], NumericalError),
    ],
)
def test_bases_that_are_none(basis, error):
    with pytest.raises(error):
        domains.tiger().to_psr().transformed(basis)


def test_likelihood_does_not_depend_on_how_the_work_is_cut(rng, monkeypatch):
    model = naive.random_pomdp(rng)
    log = Trajectory(
        actions=rng.integers(0, 2, 500), observations=rng.integers(0, 3, 500), episode_starts=[0, 333]
    )
    whole = model.log_likelihood(log), model.belief(log).tolist()
    monkeypatch.setattr(inference, "WORK_PER_CALL", 9 * 7)  # seven steps at a time
    heard = []
    with listening(lambda *report: heard.append(report)):
        assert model.log_likelihood(log) == pytest.approx(whole[0], rel=1e-13)
    assert model.belief(log).tolist() == whole[1]
    assert heard[-1] == ("filtering", 500, 500)
    assert len(heard) == -(-333 // 7) + -(-167 // 7)


def test_equality():
    assert PSR(**ARRAYS) == PSR(**ARRAYS)
    assert PSR(**ARRAYS) != PSR(**{**ARRAYS, "initial": [0.4, 0.6]})
    assert PSR(**ARRAYS) != PSR(**ARRAYS, action_names=["a", "b"])
    assert PSR(**ARRAYS) != PSR(**ARRAYS, symbol_rewards=[0.0, 0.0, 0.0])
    assert PSR(**ARRAYS) != "psr"
