"""Long products with vectors are sums along the rows that memory holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.tolerance import assert_each_near

A = np.random.default_rng(0).uniform(0.5, 1.5, (3, 40, 700))
V = np.random.default_rng(1).uniform(0.5, 1.5, (3, 700))


def programs(np_: Any, a: Any, v: Any) -> list[Any]:
    """Products with vectors: of rows, batches, transposed matrices, several dimensions."""
    return [
        a[0] @ v[0],
        v[0] @ a[0].T,
        v[0] @ a[0].T[:, ::-1],
        np_.einsum("bij,bj->bi", a, v),
        np_.einsum("bj,bij->bi", v, a),
        np_.einsum("ijk,jk->i", a.transpose(1, 0, 2), v),
        np_.einsum("jik,jk->i", a, v),
        np_.einsum("bij,bj->ib", a, v),
        a @ v[0],
        (a[0] @ v[:1].T).T,
        # These have no rows in the order of memory, or no vector.
        a[0].T[:, :3] @ v[:, 0],
        v @ a[0].T,
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values(dtype: str) -> None:
    a, v = gnp.asarray(A, dtype), gnp.asarray(V, dtype)
    found = gn.jit(lambda a, v: programs(gnp, a, v))(a, v)
    exact = programs(np, np.asarray(a, np.float64), np.asarray(v, np.float64))
    for result, expected in zip(found, exact, strict=True):
        assert result.dtype == dtype and result.shape == expected.shape
        assert_each_near(result, expected, 16)


def test_which_products_are_sums() -> None:
    def text(program: Any) -> str:
        shapes = gn.ShapeDtypeStruct((40, 700), np.float32), gn.ShapeDtypeStruct((700,), np.float32)
        return str(gn.jit(program).lower(*shapes).as_text())

    assert "dot_general" not in text(lambda a, v: (a @ v, v @ a.T, gnp.dot(gnp.exp(a), v)))
    assert "dot_general" in text(lambda a, v: a.T @ v[:40])
    assert "dot_general" in text(lambda a, v: a[:, :500] @ v[:500])
