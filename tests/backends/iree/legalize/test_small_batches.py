"""Batches of small systems in loops, solved row by row: values, pivots, and which batches are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, tree_util
from tests.tolerance import assert_near

RNG = np.random.default_rng(0)
# The largest condition of the systems, and the error of one solution in units: half a unit for each
# of the roundings of an element, at most one in each of 8 rows, times the condition.
CONDITION = 4.0
UNITS = 0.5 * 8 * CONDITION


def _solved(a: Any, b: Any) -> Any:
    """Two solutions in a loop."""
    return lax.fori_loop(0, 2, lambda _, x: gnp.linalg.solve(a, x), b)


def _systems(batch: tuple[int, ...], n: int, columns: int, dtype: Any = "f4") -> list[np.ndarray]:
    """Random systems whose rows have to be exchanged; their singular values are chosen."""
    left, right = (np.linalg.qr(RNG.normal(size=(*batch, n, n)))[0] for _ in range(2))
    a = left * RNG.uniform(1.0, CONDITION, size=(*batch, 1, n)) @ right
    return [a.astype(dtype), RNG.normal(size=(*batch, n, columns)).astype(dtype)]


def _text(function: Any, *arguments: Any) -> str:
    return str(gn.jit(function).lower(*arguments).as_text("legalized"))


def _check(function: Any, *arguments: Any, solved: int = 2) -> None:
    expected, found = function(*arguments), gn.jit(function)(*arguments)
    pairs = zip(tree_util.tree_leaves(expected), tree_util.tree_leaves(found), strict=True)
    for wanted, got in pairs:
        assert got.dtype == wanted.dtype
        assert_near(got, wanted, UNITS * solved)


def test_values() -> None:
    """Several sizes, batches and dtypes in one program; no host call is left."""
    systems = [
        _systems((60, 1), 5, 2),
        _systems((5, 9), 7, 3),
        _systems((100,), 8, 1),
        _systems((20,), 8, 2, "f8"),
    ]
    # Without pivots, the first would lose all digits, and the second would divide by zero.
    delicate = [[1e-9, 1, 2], [1, 1, 0], [3, 2, 1]], [[0, 1, 0], [2, 0, 0], [0, 0, -3]]
    for i, matrix in enumerate(delicate):
        systems[0][0][i, 0] = np.eye(5)
        systems[0][0][i, 0, 1:4, 1:4] = matrix
    several = lambda *pairs: [_solved(*pair) for pair in pairs]  # noqa: E731
    with gn.enable_x64(True):
        assert "host_call" not in _text(several, *systems)
        _check(several, *systems)


def test_systems_without_a_solution() -> None:
    """Singular systems and one with nan have no finite solution, and do not affect the others."""
    a, b = _systems((100,), 8, 1)
    a[0], a[1, 3], a[2, :, 2] = 0, 0, 0
    a[3, 5, 5] = np.nan
    given = np.isfinite(np.asarray(gnp.linalg.solve(a, b)))
    function = lambda a, b: lax.fori_loop(0, 1, lambda _, x: gnp.linalg.solve(a, x), b)  # noqa: E731
    found = np.asarray(gn.jit(function)(a, b))
    np.testing.assert_array_equal(np.isfinite(found[4:]), given[4:])
    assert not np.isfinite(found[:4]).all(axis=(1, 2)).any()
    assert_near(found[4:], np.asarray(gnp.linalg.solve(a, b))[4:], UNITS)


def test_gradients() -> None:
    """The gradient of a loop solves transposed systems."""
    a, b = _systems((60,), 6, 1)

    def loss(a: Any, b: Any) -> Any:
        step = lambda x, _: (gnp.linalg.solve(a, x), None)  # noqa: E731
        return (lax.scan(step, b, None, length=2)[0] ** 2).mean()

    gradient = gn.grad(loss, (0, 1))
    assert "host_call" not in _text(gradient, a, b)
    _check(gradient, a, b, solved=4)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    ("batch", "n", "called"), [(16, 8, False), (17, 8, False), (128, 8, False), (129, 8, True)]
)
def test_both_sides_of_the_thresholds(batch: int, n: int, called: bool) -> None:
    """Element by element, row by row, and by LAPACK."""
    a, b = _systems((batch,), n, 1)
    assert ("host_call" in _text(_solved, a, b)) == called
    _check(_solved, a, b)


@pytest.mark.parametrize(
    "other", [gnp.sort, lambda x: gnp.linalg.cholesky(x @ x.mT + gnp.eye(5))], ids=["sort", "call"]
)
def test_not_in_loops_that_are_no_kernels(other: Any) -> None:
    a, b = _systems((60,), 5, 5)

    def function(a: Any, b: Any, solve: Any = gnp.linalg.solve) -> Any:
        return lax.fori_loop(0, 2, lambda _, x: solve(a, other(x)), b)

    def loops(function: Any) -> int:
        return _text(function, a, b).count('"gnomon.while"')

    # Elimination row by row is a loop.
    assert loops(_solved) == 2
    assert loops(function) == loops(lambda a, b: function(a, b, solve=gnp.matmul))
    assert loops(gnp.linalg.solve) == 0
