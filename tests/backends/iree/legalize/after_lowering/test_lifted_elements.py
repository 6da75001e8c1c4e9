"""Elements of arrays that get dimensions, after ops that IREE drops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp
from tests.backends.iree.joined import Call, all_same, check_joined

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


def same_signs(found: np.ndarray, expected: np.ndarray) -> None:
    all_same(found, expected)
    signs = (np.signbit(x) & ~np.isnan(x) for x in (found, expected))
    np.testing.assert_array_equal(*signs)


def test_elements_after_ops_without_effect() -> None:
    row = np.arange(3, dtype=np.float32)
    arguments = [
        (np.array([value, 2], np.float32), row)
        for value in (-3.5, 1e-3 + 7, -0.0, 0.0, np.nan, np.inf, -np.inf)
    ]
    calls: dict[str, Call] = {
        f"{kind} {name}": (used_twice(op), *arguments)
        for kind, ops in (("dropped", DROPPED), ("kept", KEPT))
        for name, op in ops.items()
    }
    check_joined(calls, same_signs)


def test_elements_that_were_wider() -> None:
    def widened(wide: str, dtype: str) -> Callable[[Any], Any]:
        return lambda x: x.astype(wide).astype(dtype)

    pairs = {"float16": "f4", "bfloat16": "f4", "float32": "float64"}
    pairs |= {"int8": "int32", "uint16": "int32", "bool": "int32"}
    with gn.enable_x64(True):
        calls: dict[str, Call] = {
            dtype: (
                used_twice(widened(wide, dtype)),
                (gnp.asarray([3, 1]).astype(dtype), gnp.ones(3).astype(dtype)),
            )
            for dtype, wide in pairs.items()
        }
        check_joined(calls)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x[:1, :1].T,
    "reversed": lambda x: x[1:2, 2:3][::-1],
    "times one": lambda x: x[1:2][:, 2:3] * 1,
    "found at run time": lambda x: lax.dynamic_slice(x, (1, x[0, 0].astype(int)), (1, 1)) * 1,
    "reshaped": lambda x: x[1:2, 2:3].reshape(1, 1, 1, 1).reshape(1, 1, 1).reshape(1, 1),
}


def test_views_of_elements() -> None:
    def uses(view: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: (view(x)[:, None], view(x)[None, None], view(x)[:, None] + x)

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    calls: dict[str, Call] = {name: (uses(view), (x,)) for name, view in VIEWS.items()}
    check_joined(calls)


def test_reshapes_in_sequence() -> None:
    def function(xs: Any, y: Any) -> Any:
        last, all_ = lax.scan(lambda c, x: (gnp.squeeze(c), x), xs[-1], xs)
        return all_, gnp.kron(y, last)

    x, y = np.ones(2, np.float32), np.ones((1, 2, 1), np.float32)
    for actual, wanted in zip(gn.jit(function)(x, y), function(x, y), strict=True):
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(wanted))
