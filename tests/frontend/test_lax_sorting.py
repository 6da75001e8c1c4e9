"""`lax.sort`, `top_k` and related functions: arguments and errors; values are in the op table."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp


def test_sort_of_one_and_of_several_arrays() -> None:
    x = np.array([3, 1, 2], np.int32)
    assert lax.sort(x).tolist() == [1, 2, 3]
    keys, values = lax.sort([x, x * 10])
    assert keys.tolist() == [1, 2, 3] and values.tolist() == [10, 20, 30]
    keys, values = lax.sort_key_val(gnp.ones(3), gnp.asarray(x))
    assert values.tolist() == [3, 1, 2]


def test_top_k_along_any_axis_and_its_gradient() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    for axis in (0, 1, -1):
        for ours, theirs in zip(
            lax.top_k(x, 2, axis=axis), jax.lax.top_k(x, 2, axis=axis), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    values, places = lax.approx_min_k(x, 3, recall_target=0.9)
    np.testing.assert_array_equal(values, np.sort(x)[..., :3])
    np.testing.assert_array_equal(places, np.argsort(x)[..., :3])
    gradient = gn.grad(lambda x: (lax.top_k(x, 2)[0] ** 2).sum())(x)
    kept = x >= np.sort(x)[..., -2:-1]
    np.testing.assert_array_equal(gradient, np.where(kept, 2 * x, 0))


@pytest.mark.parametrize("n", [40, 1000])
def test_long_sorts_compile(n: int) -> None:
    rng = np.random.default_rng(n)
    keys = rng.integers(0, n // 4, (2, n)).astype(np.int32)
    places = np.broadcast_to(np.arange(n, dtype=np.int32), keys.shape)
    ordered, order = gn.jit(lambda k, p: lax.sort((k, p)))(keys, places)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(ordered, np.sort(keys))


def test_errors() -> None:
    x = gnp.ones((2, 3))
    with pytest.raises(TypeError, match="at least one operand"):
        lax.sort([])
    with pytest.raises(ValueError, match="num_keys"):
        lax.sort(x, num_keys=2)
    with pytest.raises(ValueError, match="one shape"):
        lax.sort([x, x[0]])
    with pytest.raises(ValueError, match="complex"):
        lax.top_k(gnp.ones(3, complex), 1)
    with pytest.raises(ValueError, match="no larger than"):
        lax.top_k(x, 4)
    with pytest.raises(NotImplementedError, match="aggregate_to_topk"):
        lax.approx_max_k(x, 1, aggregate_to_topk=False)
