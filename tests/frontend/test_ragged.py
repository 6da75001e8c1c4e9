"""`lax.ragged_dot` and `lax.optimization_barrier`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)
MATRICES = np.arange(12, dtype=np.float32).reshape(3, 2, 2) + 1


@pytest.mark.parametrize("sizes", [[2, 0, 3], [2, 1, 3], [0, 0, 0], [6, 0, 0]])
def test_ragged_dot(sizes: list[int]) -> None:
    theirs = np.asarray(jax.lax.ragged_dot(ROWS, MATRICES, jnp.array(sizes)))
    np.testing.assert_array_equal(
        np.asarray(lax.ragged_dot(ROWS, MATRICES, gnp.array(sizes))), theirs
    )


def test_ragged_dot_under_transformations() -> None:
    sizes = np.array([2, 1, 2])
    ours = gn.jit(gn.grad(lambda x, y: (lax.ragged_dot(x, y, sizes) ** 2).sum(), (0, 1)))
    theirs = jax.grad(lambda x, y: (jax.lax.ragged_dot(x, y, sizes) ** 2).sum(), (0, 1))
    for a, b in zip(ours(ROWS, MATRICES), theirs(ROWS, MATRICES), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=8 * np.finfo("f4").eps)
    half = lax.ragged_dot(
        ROWS.astype(gnp.bfloat16),
        MATRICES.astype(gnp.bfloat16),
        sizes,
        preferred_element_type=gnp.float32,
    )
    assert half.dtype == gnp.float32


def test_ragged_dot_of_wrong_shapes() -> None:
    with pytest.raises(TypeError, match="one size for each of the 3 groups"):
        lax.ragged_dot(ROWS, MATRICES, np.array([1]))
    with pytest.raises(TypeError, match="must be integers"):
        lax.ragged_dot(ROWS, MATRICES, np.ones(3))
    with pytest.raises(TypeError, match=r"\(g, k, n\)"):
        lax.ragged_dot(ROWS[0], MATRICES, np.ones(3, int))


def test_optimization_barrier() -> None:
    tree = {"a": 1.0, "b": gnp.ones(2), "c": ()}
    found = gn.jit(lax.optimization_barrier)(tree)
    assert found["a"].weak_type
    assert gn.tree.structure(found) == gn.tree.structure(tree)
    assert gn.grad(lambda x: lax.optimization_barrier((x, x * 2))[1])(3.0) == 2.0
    assert "optimization_barrier" in gn.jit(lax.optimization_barrier).lower(1.0).as_text()
    assert lax.optimization_barrier(()) == ()
