"""Products with vectors that were converted from unsigned integers or bools."""

from __future__ import annotations

from typing import Any

import numpy as np

import gnomon
import gnomon.numpy as gnp

DTYPES = ("uint8", "uint16", "bool", "int8")
V = np.arange(35) * 7


def products(v: Any, dtype: str) -> dict[str, Any]:
    x = v.astype(dtype)
    matrix, other = x.reshape(5, 7), x[::-1]
    return {
        "vectors": gnp.dot(x, other),
        "matrix and vector": matrix @ other[:7],
        "vector and matrix": other[:5] @ matrix,
        "one column": matrix @ other[:7, None],
        "batched": gnp.einsum("bk,bkj->bj", matrix, x[:35].reshape(5, 7, 1)),
        "matrices": matrix @ other.reshape(7, 5),
        "another factor": gnp.dot(x, gnp.arange(35).astype(dtype)),
    }


def test_factors_keep_their_values() -> None:
    def f(vectors: dict[str, Any]) -> dict[str, Any]:
        return {
            f"{name} as {dtype}": products(v, dtype)
            for name, v in vectors.items()
            for dtype in ("float32", "int32")
        }

    vectors = {name: gnp.asarray((V % 256).astype(name)) for name in DTYPES}
    found, expected = gnomon.jit(f)(vectors), f(vectors)
    for name, values in expected.items():
        for product, value in values.items():
            # Sums of whole numbers that f32 holds exactly.
            np.testing.assert_array_equal(found[name][product], value, f"{product}, {name}")


def test_only_products_with_vectors_are_rewritten() -> None:
    x = np.ones((4, 4), np.uint8)
    for function, count in (
        (lambda x: x.astype("float32") @ x.astype("float32"), 0),
        (lambda x: x.astype("float32") @ x[0].astype("float32"), 2),
        (lambda x: x.astype("int8").astype("float32") @ gnp.ones(4), 0),
    ):
        text = gnomon.jit(function).lower(x).as_text("stablehlo")
        assert text.count("optimization_barrier") == count
