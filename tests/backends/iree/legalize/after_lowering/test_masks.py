"""Products with bools: infinities and nan times 0 are nan, as they are without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
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


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_products_with_bools(name: str, dtype: Any) -> None:
    f, x = PROGRAMS[name], X.astype(dtype)
    with np.errstate(all="ignore"):
        expected = f(gnp.asarray(x), gnp.asarray(MASK))
    assert_near(gn.jit(f)(x, MASK), expected, units=1.0)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("of", [gnp.max, gnp.min])
def test_derivatives_of_extrema_of_nan(of: Callable[..., Any], axis: int | None) -> None:
    gradient = gn.grad(lambda x: gnp.sum(of(x, axis=axis)))
    with np.errstate(all="ignore"):
        expected = gradient(HOLES)
    assert np.isnan(np.asarray(expected)).any()
    assert_near(gn.jit(gradient)(HOLES), expected, units=1.0)
