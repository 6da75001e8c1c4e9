"""`ragged_dot`, `ragged_dot_general`, `scaled_dot`, `scatter_apply`, `optimization_barrier`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.frontend.oracle import check, sample

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
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    half = lax.ragged_dot(
        ROWS.astype(gnp.bfloat16),
        MATRICES.astype(gnp.bfloat16),
        sizes,
        preferred_element_type=gnp.float32,
    )
    assert half.dtype == gnp.float32
    np.testing.assert_array_equal(half, lax.ragged_dot(ROWS, MATRICES, sizes))


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


_NUMBERS = {
    "rows in batches": (
        (2, 3, 4),
        (2, 2, 4, 5),
        [[1, 2], [2, 0]],
        (((2,), (2,)), ((0,), (1,))),
        1,
        (0,),
    ),
    "one size for all": ((2, 3, 4), (2, 2, 4, 5), [1, 2], (((2,), (2,)), ((0,), (1,))), 1, (0,)),
    "contracted": ((2, 3, 4), (2, 4, 5), [[1, 2], [2, 2]], (((2,), (1,)), ((0,), (0,))), 2, ()),
    "two contracted": (
        (4, 2, 3),
        (3, 2, 4, 2),
        [[1, 2], [3, 0], [1, 1], [0, 0]],
        (((0, 2), (2, 0)), ((), ())),
        2,
        (),
    ),
    "batch": ((2, 3, 4), (2, 4, 5), [1, 1], (((2,), (1,)), ((0,), (0,))), 0, ()),
    "group dimension too many": (
        (2, 3, 4),
        (2, 4, 5),
        [1, 1],
        (((2,), (1,)), ((0,), (0,))),
        0,
        (1,),
    ),
    "sizes of a wrong shape": ((3, 4), (2, 4, 5), [[1, 1]], (((1,), (1,)), ((), ())), 0, (0,)),
}


@pytest.mark.parametrize("case", list(_NUMBERS))
def test_ragged_dot_general(case: str) -> None:
    lhs, rhs, sizes, numbers, ragged, groups = _NUMBERS[case]

    def on(library: Any) -> Any:
        return lambda x, y, sizes: library.lax.ragged_dot_general(
            x, y, sizes, library.lax.RaggedDotDimensionNumbers(numbers, (ragged,), groups)
        )

    x, y = sample("float32", lhs, 1), sample("float32", rhs, 2)
    check(on(gn), on(jax), x, y, jnp.array(sizes), ulps=8.0, together=True)


_SCALES = {
    "left": ((2, 6), (6, 3), {"lhs_scale": (2, 2)}),
    "both": ((2, 6), (6, 3), {"lhs_scale": (2, 2), "rhs_scale": (3, 3)}),
    "batch": ((2, 2, 6), (2, 6, 3), {"rhs_scale": (2, 3, 3)}),
    "one for each element": ((2, 6), (6, 3), {"lhs_scale": (2, 6)}),
    "no multiple": ((2, 6), (6, 3), {"lhs_scale": (2, 4)}),
    "other rows": ((2, 6), (6, 3), {"lhs_scale": (1, 2)}),
    "vectors": ((6,), (6,), {}),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", list(_SCALES))
def test_scaled_dot(case: str) -> None:
    lhs, rhs, scales = _SCALES[case]

    def whole(shape: tuple[int, ...], seed: int) -> jax.Array:
        return sample("int32", shape, seed).astype("float32")

    arrays = {name: whole(shape, 3) for name, shape in scales.items()}
    x, y = whole(lhs, 1), whole(rhs, 2)
    check(lax.scaled_dot, jax.lax.scaled_dot, x, y, **arrays, ulps=2.0)
    wide = {**arrays, "preferred_element_type": "float32"}
    check(lax.scaled_dot, jax.lax.scaled_dot, x, y, **wide)


def _applied(library: Any, **options: Any) -> Any:
    numbers = library.lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return lambda x, rows: library.lax.scatter_apply(
        x, rows, lambda v: v * v, numbers, update_shape=(*rows.shape[:1], 2), **options
    )


def test_scatter_apply() -> None:
    x = sample("float32", (3, 2), 1)
    for rows, options in (
        ([[0], [2], [2]], {}),
        ([[0], [2], [7]], {"mode": "clip"}),
        ([[0], [2], [7]], {"unique_indices": True}),
        (np.zeros((0, 1), int), {}),
        ([[0.0]], {}),
    ):
        check(_applied(gn, **options), _applied(jax, **options), x, jnp.array(rows), ulps=2.0)
    ours = gn.jit(gn.vmap(_applied(gn), (0, None)))
    theirs = jax.jit(jax.vmap(_applied(jax), (0, None)))
    check(ours, theirs, sample("float32", (2, 3, 2), 2), jnp.array([[0], [0], [1]]), ulps=4.0)
    given, rows = gnp.asarray(x), np.array([[0], [2], [2]])
    with gn.enable_x64(True):
        wide = _applied(gn)(given, gnp.array(rows))
    np.testing.assert_array_equal(wide, _applied(gn)(given, gnp.array(rows)))
    squared = gn.grad(lambda x: _applied(gn, unique_indices=True)(x, gnp.array([[1]])).sum())
    np.testing.assert_array_equal(np.asarray(squared(gnp.full((2, 2), 3.0))), [[1, 1], [6, 6]])
    with pytest.raises(TypeError, match="func must return a scalar"):
        numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        lax.scatter_apply(
            gnp.ones(3), np.array([[0]]), lambda v: (v, v), numbers, update_shape=(1,)
        )
