"""Elements of arrays that get dimensions, after ops that IREE drops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp

DROPPED: dict[str, Callable[[Any], Any]] = {
    "x - 0": lambda x: x - 0,
    "x + -0": lambda x: x + np.float32(-0.0),
    "1 * x": lambda x: 1 * x,
    "x / 1": lambda x: x / 1,
    "-(-x)": lambda x: lax.neg(lax.neg(x)),
    "max(x, x)": lambda x: gnp.maximum(x, x),
    "max(x, -inf)": lambda x: gnp.maximum(x, -np.inf),
    "min(x, inf)": lambda x: gnp.minimum(x, np.inf),
    "clamp": lambda x: lax.clamp(np.float32(-np.inf), x, np.float32(np.inf)),
    "bits": lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, "int32"), "float32"),
    "several": lambda x: (x * 1 - 0)[::-1] / 1,
    "select": lambda x: gnp.where(x > 0, x, x),
}
# Ops that look like those above, and change the element.
KEPT: dict[str, Callable[[Any], Any]] = {
    "x + 0": lambda x: x + np.float32(0.0),
    "x - -0": lambda x: x - np.float32(-0.0),
    "0 - x": lambda x: 0 - x,
    "1 / x": lambda x: 1 / x,
    "x * -1": lambda x: x * -1,
    "max(x, inf)": lambda x: gnp.maximum(x, np.inf),
    "rounded": lambda x: x.astype("bfloat16").astype("float32"),
    "truncated": lambda x: x.astype("int32").astype("float32"),
    "clamp": lambda x: lax.clamp(np.float32(-1), x, np.float32(np.inf)),
}


def used_twice(op: Callable[[Any], Any]) -> Callable[..., Any]:
    def function(x: Any, row: Any) -> Any:
        return op(x[:1])[:, None], op(x[:1])[:, None] + row

    return function


@pytest.mark.parametrize("name", [*DROPPED, *KEPT])
@pytest.mark.parametrize("value", [-3.5, 1e-3 + 7, -0.0, 0.0, np.nan, np.inf, -np.inf])
def test_elements_after_ops_without_effect(name: str, value: float) -> None:
    function = used_twice((DROPPED | KEPT)[name])
    x = np.array([value, 2], np.float32)
    row = np.arange(3, dtype=np.float32)
    with np.errstate(all="ignore"):
        expected = function(gnp.asarray(x), gnp.asarray(row))
    for actual, wanted in zip(gn.jit(function)(x, row), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(wanted))
        np.testing.assert_array_equal(
            np.signbit(actual) & ~np.isnan(actual), np.signbit(wanted) & ~np.isnan(wanted)
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "uint16", "bool"])
def test_elements_that_were_wider(dtype: str) -> None:
    wide = {"float32": "float64", "bool": "int32"}.get(dtype, "int32" if "int" in dtype else "f4")

    def widened(x: Any) -> Any:
        return x.astype(wide).astype(dtype)

    with gn.enable_x64(True):
        x, row = gnp.asarray([3, 1]).astype(dtype), gnp.ones(3).astype(dtype)
        function = used_twice(widened)
        for actual, wanted in zip(gn.jit(function)(x, row), function(x, row), strict=True):
            np.testing.assert_array_equal(np.asarray(actual), np.asarray(wanted))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:1, :1].T,
        lambda x: x[1:2, 2:3][::-1],
        lambda x: x[1:2][:, 2:3] * 1,
        lambda x: lax.dynamic_slice(x, (1, x[0, 0].astype(int)), (1, 1)) * 1,
        lambda x: x[1:2, 2:3].reshape(1, 1, 1, 1).reshape(1, 1, 1).reshape(1, 1),
    ],
)
def test_views_of_elements(view: Callable[[Any], Any]) -> None:
    def function(x: Any) -> Any:
        return view(x)[:, None], view(x)[None, None], view(x)[:, None] + x

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for actual, wanted in zip(gn.jit(function)(x), function(gnp.asarray(x)), strict=True):
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(wanted))


def test_reshapes_in_sequence() -> None:
    def function(xs: Any, y: Any) -> Any:
        last, all_ = lax.scan(lambda c, x: (gnp.squeeze(c), x), xs[-1], xs)
        return all_, gnp.kron(y, last)

    x, y = np.ones(2, np.float32), np.ones((1, 2, 1), np.float32)
    for actual, wanted in zip(gn.jit(function)(x, y), function(x, y), strict=True):
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(wanted))
