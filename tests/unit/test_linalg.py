"""The door to LAPACK: finite input only, canonical signs, exact stationary distributions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import naive
from unlatch import linalg
from unlatch.errors import NumericalError


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "routine",
    [
        linalg.inverse,
        linalg.singular_values,
        linalg.condition,
        linalg.svd,
        linalg.eigen,
        linalg.orthonormal,
        linalg.project_to_simplex,
        lambda m: linalg.null_basis(m, 1),
        lambda m: linalg.truncated_svd(m, 1, np.random.default_rng(0)),
        lambda m: linalg.spectral_norm(m, np.random.default_rng(0)),
        lambda m: linalg.stationary_distribution(m, np.ones(3) / 3),
        lambda m: linalg.fixed_point(m, np.ones(3)),
    ],
)
def test_nothing_infinite_reaches_lapack(routine, value):
    matrix = np.eye(3)
    matrix[1, 2] = value
    with pytest.raises(NumericalError, match="infinite or undefined"):
        routine(matrix)


def test_inverse(rng):
    matrix = rng.standard_normal((4, 4))
    np.testing.assert_allclose(linalg.inverse(matrix) @ matrix, np.eye(4), atol=1e-12)


def test_log_determinant(rng):
    rotation = linalg.haar_rotation(5, rng)
    values = np.array([1.0, 1.5, 20.0, 3e4, 7.0])
    matrix = rotation @ np.diag(values) @ rotation.T
    assert linalg.log_determinant(matrix, least=1.0) == pytest.approx(np.log(values).sum())
    noisy = (
        rotation @ np.diag([-2.0, *values[1:]]) @ rotation.T
    )  # what noise has brought below counts as the least
    assert linalg.log_determinant(noisy, least=1.0) == pytest.approx(np.log(values).sum())
    with pytest.raises(NumericalError, match="infinite"):
        linalg.log_determinant(np.full((2, 2), np.nan), least=1.0)


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.ones((3, 3)), [[1.0, 1.0], [1.0, 1.0 + 2e-16]]])
def test_singular_matrices_have_no_inverse(matrix):
    with pytest.raises(NumericalError, match="singular"):
        linalg.inverse(np.array(matrix))


def test_condition():
    assert linalg.condition(np.diag([4.0, 0.5])) == 8.0
    assert linalg.condition(np.diag([4.0, 0.0])) == np.inf


# --- decompositions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (1, 3)])
def test_svd_reproduces_the_matrix_with_canonical_signs(rng, shape):
    matrix = rng.standard_normal(shape)
    u, s, v = linalg.svd(matrix)
    np.testing.assert_allclose(u * s @ v.T, matrix, atol=1e-13)
    assert (np.diff(s) <= 0).all()
    assert (u[np.abs(u).argmax(axis=0), np.arange(len(s))] > 0).all()
    negated = linalg.svd(-matrix)
    np.testing.assert_allclose(negated[0], u, atol=1e-13)
    np.testing.assert_allclose(negated[2], -v, atol=1e-13)


@pytest.mark.parametrize("size", [60, 450], ids=["dense", "Lanczos"])
def test_truncated_svd_agrees_with_the_full_one(rng, size):
    spectrum = 0.5 ** np.arange(size)
    left, right = linalg.orthonormal(rng.standard_normal((size + 20, size))), linalg.haar_rotation(size, rng)
    matrix = left * spectrum @ right.T
    u, s, v = linalg.truncated_svd(scipy.sparse.csr_array(matrix), 4, rng)
    assert (u.shape, v.shape) == ((size + 20, 4), (size, 4))
    np.testing.assert_allclose(s, spectrum[:4], rtol=1e-10)
    np.testing.assert_allclose(u * s @ v.T, left[:, :4] * spectrum[:4] @ right[:, :4].T, atol=1e-9)
    assert (u[np.abs(u).argmax(axis=0), np.arange(4)] > 0).all()


@pytest.mark.parametrize("size", [50, 300], ids=["dense", "power"])
def test_spectral_norm(rng, size):
    matrix = rng.standard_normal((size, size)) + 0.3
    largest = linalg.singular_values(matrix)[0]
    norm = linalg.spectral_norm(scipy.sparse.csr_array(matrix), rng)
    assert 0.99 * largest < norm < largest * (1 + 1e-12)
    assert linalg.spectral_norm(scipy.sparse.csr_array((size, size)), rng) == 0.0


def test_eigen_reproduces_complex_pairs():
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    values, vectors = linalg.eigen(turn)
    np.testing.assert_allclose(turn @ vectors, vectors * values, atol=1e-15)
    assert sorted(values.imag.tolist()) == pytest.approx([-1.0, 1.0])


def test_null_basis_and_orthonormal(rng):
    columns = rng.standard_normal((5, 2))
    basis = linalg.orthonormal(columns)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-14)
    np.testing.assert_allclose(basis @ basis.T @ columns, columns, atol=1e-13)
    across = linalg.null_basis(columns.T, 3)
    assert across.shape == (5, 3)
    np.testing.assert_allclose(columns.T @ across, 0, atol=1e-13)
    np.testing.assert_allclose(across.T @ across, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("dimension", [1, 2, 3, 6])
def test_rotations_are_rotations(rng, dimension):
    for _ in range(20):
        rotation = linalg.haar_rotation(dimension, rng)
        np.testing.assert_allclose(rotation.T @ rotation, np.eye(dimension), atol=1e-13)
        assert np.prod(linalg.eigen(rotation)[0]).real == pytest.approx(1.0)


def test_rotations_are_uniform(rng):
    """The mean of every entry and of its square, over the group: 0 and 1/n."""
    drawn = np.array([linalg.haar_rotation(3, rng) for _ in range(4000)])
    assert np.abs(drawn.mean(axis=0)).max() < 5 / np.sqrt(3 * 4000)
    assert np.abs((drawn**2).mean(axis=0) - 1 / 3).max() < 5 * 0.3 / np.sqrt(4000)


# --- long-run distributions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chain", "start", "expected"),
    [
        ([[0.9, 0.1], [0.2, 0.8]], [1, 0], [2 / 3, 1 / 3]),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], [1, 0, 0], [1 / 3, 1 / 3, 1 / 3]),  # periodic
        ([[1, 0], [0, 1]], [0.3, 0.7], [0.3, 0.7]),  # two closed classes
        ([[0, 1, 0], [0, 1, 0], [0, 0, 1]], [1, 0, 0], [0, 1, 0]),  # transient, then absorbed
        ([[0.5, 0.25, 0.25], [0, 1, 0], [0, 0, 1]], [1, 0, 0], [0, 0.5, 0.5]),
        ([[0, 1, 0], [0, 0, 1], [0, 1, 0]], [1, 0, 0], [0, 0.5, 0.5]),  # transient, then periodic
        ([[1]], [1], [1]),
    ],
)
def test_stationary_distribution(chain, start, expected):
    found = linalg.stationary_distribution(np.array(chain, dtype=float), np.array(start, dtype=float))
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_fixed_point_of_a_triple_in_any_coordinates(rng):
    model = naive.random_pomdp(rng)
    mean = model.transitions.mean(axis=0)
    np.testing.assert_allclose(linalg.fixed_point(mean, np.ones(3)), model.stationary(), atol=1e-12)
    basis = rng.standard_normal((3, 3))
    inverse = linalg.inverse(basis)
    found = linalg.fixed_point(inverse @ mean @ basis, inverse @ np.ones(3))
    np.testing.assert_allclose(found @ inverse, model.stationary(), atol=1e-10)


# --- the simplex ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "projected"),
    [
        ([0.2, 0.8], [0.2, 0.8]),
        ([0.0, 0.0, 0.0, 0.0], [0.25] * 4),
        ([2.0, 0.0], [1.0, 0.0]),
        ([1.0, 1.0, -5.0], [0.5, 0.5, 0.0]),
        ([-1e6, -1e6 + 0.5], [0.25, 0.75]),
        ([7.0], [1.0]),
    ],
)
def test_projection_onto_the_simplex(row, projected):
    np.testing.assert_allclose(linalg.project_to_simplex(np.array(row)), projected, atol=1e-9)


def test_every_row_of_an_array_is_projected(rng):
    rows = rng.standard_normal((2, 3, 5))
    projected = linalg.project_to_simplex(rows)
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(projected[place], naive.project_to_simplex(rows[place]), atol=1e-12)


def test_states_that_are_hardly_ever_left():
    """One minus the chance of staying is zero, so that a linear solve sees a singular matrix."""
    tiny = 1e-200
    chain = np.array(
        [[1.0, 3 * tiny, tiny, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.0, 0.5]]
    )
    found = linalg.stationary_distribution(chain, np.array([0.5, 0.0, 0.0, 0.5]))
    assert np.allclose(found, [0.0, 0.75, 0.25, 0.0])


def test_a_state_left_too_rarely_for_floating_point_is_a_declared_error():
    with pytest.raises(NumericalError, match="left with a probability too small"):
        linalg.stationary_distribution(np.array([[0.5, 0.5], [1e-320, 1.0]]), np.array([0.5, 0.5]))


def blas_threads() -> list[int]:
    from threadpoolctl import threadpool_info

    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_is_held_to_one_thread_meanwhile() -> None:
    from threadpoolctl import threadpool_limits

    @linalg.on_one_thread
    def inside(first: int, *, fails: bool) -> tuple[int, list[int]]:
        """What it says."""
        if fails:
            raise NumericalError("on the way")
        return first, blas_threads()

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert before
        assert inside(7, fails=False) == (7, [1] * len(before))
        assert blas_threads() == before
        with pytest.raises(NumericalError):
            inside(7, fails=True)
        assert blas_threads() == before
    assert (inside.__name__, inside.__doc__) == ("inside", "What it says.")
