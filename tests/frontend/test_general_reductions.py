"""`lax.reduce` and `lax.reduce_window` by any computation, against XLA and plain Python."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import numpy as np
import pytest

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp
from tests.tolerance import assert_each_near, assert_near

# description -> (computation of gnomon, of JAX, initial value)
COMPUTATIONS: dict[str, tuple[Any, Any, float]] = {
    "add": (lax.add, jax.lax.add, 0.0),
    "add to one": (lax.add, jax.lax.add, 1.0),
    "max": (lax.max, jax.lax.max, -np.inf),
    "max with a floor": (lax.max, jax.lax.max, 0.25),
    "mul": (lax.mul, jax.lax.mul, 1.0),
    "hypot": (gnp.hypot, jax.numpy.hypot, 0.0),
    "last positive": (
        lambda a, b: gnp.where(b > 0, b, a),
        lambda a, b: jax.numpy.where(b > 0, b, a),
        0.0,
    ),
}


def check(result: Any, expected: Any, name: str, x: np.ndarray, count: int) -> None:
    """Compare results of ``count`` steps, each of which rounds by half a unit in both libraries."""
    assert_each_near(result, expected, count, scale=abs(x).max() if "add" in name else 0.0)


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_reduce(name: str) -> None:
    ours, theirs, start = COMPUTATIONS[name]
    x = np.random.default_rng(0).normal(size=(3, 7, 2)).astype(np.float32)
    for axes in ((), (1,), (0, 2), (0, 1, 2)):
        result = lax.reduce(x, np.float32(start), ours, axes)
        expected = jax.lax.reduce(x, np.float32(start), theirs, axes)
        check(result, expected, name, x, math.prod(x.shape[axis] for axis in axes))


# XLA does not keep the order within a window; `test_the_order_within_a_window_is_kept` tests ours.
@pytest.mark.parametrize("name", sorted(COMPUTATIONS.keys() - {"last positive"}))
def test_reduce_window(name: str) -> None:
    ours, theirs, start = COMPUTATIONS[name]
    x = np.random.default_rng(1).normal(size=(4, 9)).astype(np.float32)
    windows: tuple[dict[str, Any], ...] = (
        {"window_dimensions": (1, 3), "padding": "SAME", "window_strides": (1, 2)},
        {"window_dimensions": (2, 2), "padding": ((1, 0), (0, 3)), "window_dilation": (1, 3)},
        {"window_dimensions": (1, 7), "padding": "VALID", "window_strides": (1, 1)},
    )
    for parameters in windows:
        result = lax.reduce_window(x, np.float32(start), ours, **parameters)
        expected = jax.lax.reduce_window(x, np.float32(start), theirs, **parameters)
        check(result, expected, name, x, math.prod(parameters["window_dimensions"]))


def test_the_order_within_a_window_is_kept() -> None:
    x = np.random.default_rng(2).normal(size=(5, 6)).astype(np.float32)
    shape, low = (3, 4), (2, 1)
    result = lax.reduce_window(
        x, np.float32(0), lambda a, b: gnp.where(b > 0, b, a), shape, (2, 1), ((2, 0), (1, 2))
    )
    for index in np.ndindex(*result.shape):
        expected = np.float32(0)
        for k, m in itertools.product(range(shape[0]), range(shape[1])):
            i, j = 2 * index[0] + k - low[0], index[1] + m - low[1]
            if 0 <= i < 5 and 0 <= j < 6 and x[i, j] > 0:
                expected = x[i, j]
        assert result[index] == expected


def test_several_operands_together() -> None:
    x = gnp.arange(12.0).reshape(3, 4)
    total, largest = lax.reduce(
        (x, -x), (0.0, -gnp.inf), lambda a, b: (a[0] + b[0], lax.max(a[1], b[1])), (0,)
    )
    np.testing.assert_array_equal(total, x.sum(0))
    np.testing.assert_array_equal(largest, (-x).max(0))
    found = lax.reduce({"a": x > 2}, {"a": False}, lambda a, b: {"a": a["a"] | b["a"]}, (1,))
    np.testing.assert_array_equal(found["a"], [True, True, True])


def _pooled(lax_: Any, numpy_: Any, x: Any) -> Any:
    largest = lax_.reduce_window(x, -np.inf, lax_.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    mean = lax_.reduce_window(numpy_.sin(x), 0.0, lax_.add, (1, 3, 3, 1)) / 9
    least = lax_.reduce_window(x, np.inf, lax_.min, (1, 3, 2, 1), (1, 2, 1, 1))
    return (largest**3).sum() + (mean**2).sum() + (least**2).sum()


def test_pooling_is_differentiated_twice_compiled_and_mapped() -> None:
    rng = np.random.default_rng(3)
    # Many ties: the first of the largest gets the gradient.
    x = np.round(rng.normal(size=(2, 2, 5, 5, 3))).astype(np.float32)
    x[0] = rng.normal(size=x[0].shape)
    v = rng.normal(size=x.shape).astype(np.float32)

    def both(gradient: Any, f: Any, sum_: Any) -> Any:
        first = gradient(f)
        return lambda x, v: (first(x), gradient(lambda y: sum_(first(y) * v))(x))

    ours = both(gn.grad, lambda x: _pooled(lax, gnp, x), gnp.sum)
    theirs = jax.jit(both(jax.grad, lambda x: _pooled(jax.lax, jax.numpy, x), jax.numpy.sum))
    results = gn.jit(gn.vmap(ours))(x, v)
    for i in range(2):
        for result, expected in zip(results, theirs(x[i], v[i]), strict=True):
            # JAX's second derivative selects another of the equal elements than its first.
            if i == 0 or result is results[0]:
                # Two sums of nine, and some products: half a unit each, in both libraries.
                assert_near(result[i], expected, 24)


def test_a_general_reduction_is_differentiated() -> None:
    x = np.random.default_rng(4).uniform(0.5, 1.5, (3, 5)).astype(np.float32)

    def norm(x: Any) -> Any:
        return lax.reduce(x, 0.0, gnp.hypot, (1,)).sum()

    expected = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert_each_near(gn.jit(gn.grad(norm))(x), expected, 16)  # a chain of five quotients
    product = gn.grad(lambda x: lax.reduce_window(x, 1.0, lax.mul, (1, 3)).sum())(x)
    assert_each_near(product[0, 0], x[0, 1] * x[0, 2], 4)


def test_a_computation_may_return_another_container() -> None:
    x = gnp.arange(6).reshape(2, 3)
    for axes, expected in (((1,), [3, 12]), ((), x)):
        sums = lax.reduce((x, x), (0, 0), lambda a, b: [a[0] + b[0], a[1] + b[1]], axes)
        assert type(sums) is list
        np.testing.assert_array_equal(sums[1], expected)


def test_errors_of_mismatched_operands() -> None:
    x = gnp.ones((2, 3))
    with pytest.raises(ValueError, match="must return the structure of the operands"):
        lax.reduce_window((x, x), (0.0, 0.0), lambda a, b: [a[0], b[1]], (1, 1))
    with pytest.raises(ValueError, match="same tree structure"):
        lax.reduce((x, x), 0.0, lax.add, (0,))
    with pytest.raises(ValueError, match="must be scalars"):
        lax.reduce(x, x, lax.add, (0,))
    with pytest.raises(TypeError, match="must be scalars"):
        lax.reduce_window(x, x, lax.add, (1, 1))
    with pytest.raises(ValueError, match="one shape"):
        lax.reduce((x, x[0]), (0.0, 0.0), lambda a, b: a, (0,))
    with pytest.raises(TypeError, match=r"it returns \(bool\[\]\)"):
        lax.reduce(x, 0.0, lambda a, b: a > b, (0,))
    with pytest.raises(TypeError, match="dtypes must match"):
        lax.reduce(x.astype(int), 0.5, lax.add, (0,))
    with pytest.raises(ValueError, match="out-of-bounds"):
        lax.reduce(x, 0.0, lax.add, (2,))
    with pytest.raises(TypeError, match="one number for each dimension"):
        lax.reduce_window(x, 0.0, lax.add, (2,))
    with pytest.raises(TypeError, match="must be positive"):
        lax.reduce_window(x, 0.0, lax.add, (2, 2), (0, 1))
    with pytest.raises(RuntimeError, match="SAME_LOWER"):
        lax.reduce_window(x, 0.0, lax.add, (2, 2), padding="FULL")
    with pytest.raises(ValueError, match="a pair for each dimension"):
        lax.reduce_window(x, 0.0, lax.add, (2, 2), padding=[(0, 0)])


def test_shapes_and_padding() -> None:
    assert lax.padtype_to_pads((5, 6), (2, 3), (1, 2), "SAME") == [(0, 1), (0, 1)]
    assert lax.padtype_to_pads((5, 6), (2, 3), (1, 2), "SAME_LOWER") == [(1, 0), (1, 0)]
    assert lax.reduce_window_shape_tuple((5, 6), (2, 3), (1, 2), [(0, 0), (1, 1)]) == (4, 3)
    assert lax.reduce_window(gnp.ones((2, 3)), 0.0, lax.add, (3, 1)).shape == (0, 3)
