"""Products with bools: infinities and nan times 0 are nan, as they are without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from tests.backends.iree.joined import Call, check_joined
from tests.tolerance import assert_near

X = np.float32([np.inf, -np.inf, np.nan, 1.0, -0.0, 3.0, np.inf])
MASK = np.array([False, True, False, False, True, True, True])
HOLES = np.float32([[np.nan, 1, 3, 3], [5, np.nan, np.nan, -np.inf], [2, 2, 1, 0]])

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, m: x * m,
    "converted": lambda x, m: m.astype(x.dtype) * x,
    "spread": lambda x, m: x[:, None] * m.astype(x.dtype),
    "computed": lambda x, m: x * (x == 1) + gnp.ones_like(x) * ~m,
    "computed factor": lambda x, m: (1 / x) * m,
    "square": lambda x, m: (f := m.astype(x.dtype), f * f * x),
    "gradient": lambda x, m: gn.vmap(gn.grad(lambda x, m: x * m), (0, 0))(x, m),
}


def compare(found: np.ndarray, expected: np.ndarray) -> None:
    assert_near(found, expected, units=1.0)


def test_products_with_bools() -> None:
    calls: dict[str, Call] = {
        f"{name}, {np.dtype(dtype).name}": (f, (X.astype(dtype), MASK))
        for name, f in PROGRAMS.items()
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16)
    }
    check_joined(calls, compare)


def test_derivatives_of_extrema_of_nan() -> None:
    def gradient(of: Callable[..., Any], axis: int | None) -> Callable[[Any], Any]:
        return gn.grad(lambda x: gnp.sum(of(x, axis=axis)))

    calls: dict[str, Call] = {
        f"{of.__name__}, axis {axis}": (gradient(of, axis), (HOLES,))
        for of in (gnp.max, gnp.min)
        for axis in (None, 0, 1)
    }
    with np.errstate(all="ignore"):
        for name, (f, given) in calls.items():
            assert np.isnan(np.asarray(f(*given))).any(), name
    check_joined(calls, compare)
