"""Rows of the op table: special functions, held to exact values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from gnomon.tools.accuracy.exact import EXACT, reference
from tests.ops.exact import FLOATS
from tests.ops.row import Operand, Row

ROWS: list[Row] = []

Interval = tuple[float, float]


def _exact(name: str) -> Callable[..., np.ndarray]:
    """The exact values; SciPy's functions lose up to 15 units in the last place of f64."""

    def values(*arrays: np.ndarray) -> np.ndarray:
        dtype, shape = arrays[0].dtype, arrays[0].shape
        flat = [a.reshape(-1) for a in arrays]
        return reference(EXACT[name], flat, dtype)[0].astype(dtype).reshape(shape)

    return values


def _trigamma(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    # SciPy's own takes positive numbers only.
    found = [float(mpmath.psi(1, mpmath.mpf(float(v)))) for v in x.reshape(-1)]
    return np.array(found, x.dtype).reshape(x.shape)


_UNARY: tuple[tuple[str, Callable[..., Any], tuple[Interval, ...], tuple[float, ...]], ...] = (
    (
        "erf",
        _exact("erf"),
        ((-2.0, 2.0), (-0.1, 0.1), (2.0, 5.0)),
        (0.0, -0.0, np.inf, -np.inf, np.nan, 7.0),
    ),
    (
        "erfc",
        _exact("erfc"),
        ((-2.0, 2.0), (-0.1, 0.1), (2.0, 5.0)),
        (0.0, np.inf, -np.inf, np.nan, 8.0),
    ),
    (
        "erf_inv",
        _exact("erf_inv"),
        ((-0.9, 0.9), (-1e-3, 1e-3), (0.96, 0.98)),
        (0.0, -0.0, 1.0, -1.0, 2.0, np.nan, 0.998),
    ),
    (
        "lgamma",
        _exact("lgamma"),
        ((0.2, 4.0), (4.0, 30.0), (-3.8, -3.2), (0.9, 1.1), (-0.4, -0.1)),
        (0.0, -1.0, -2.0, 1.0, 2.0, np.inf, -np.inf, np.nan, 1000.0),
    ),
    (
        "digamma",
        _exact("digamma"),
        ((0.2, 1.2), (1.8, 4.0), (4.0, 30.0), (-3.8, -3.2), (-0.4, -0.1)),
        (0.0, -0.0, -1.0, -2.0, np.inf, np.nan, 1000.0),
    ),
    (
        "bessel_i0e",
        _exact("bessel_i0e"),
        ((-4.0, 4.0), (7.0, 9.0), (9.0, 40.0)),
        (0.0, -0.0, np.inf, -np.inf, np.nan, -20.0),
    ),
    (
        "bessel_i1e",
        _exact("bessel_i1e"),
        ((-4.0, 4.0), (7.0, 9.0), (9.0, 40.0)),
        (0.0, -0.0, np.inf, -np.inf, np.nan, -20.0),
    ),
)
for _op, _function, _intervals, _values in _UNARY:
    for _low, _high in _intervals:
        ROWS.append(
            Row(
                _op,
                (Operand((17,), _low, _high),),
                _function,
                dtypes="f32 f64",
                differentiable=(0,),
                ulps=8.0,
                label=f"{_low} to {_high}",
            )
        )
    _first = _intervals[0]
    ROWS.append(
        Row(
            _op,
            (Operand((len(_values) + 4,), *_first, values=_values),),
            _function,
            dtypes=FLOATS,
            ulps=8.0,
            label="edges",
        )
    )
    for _label, _shape in (("rank 0", ()), ("matrix", (2, 3)), ("no elements", (0, 2))):
        ROWS.append(
            Row(
                _op,
                (Operand(_shape, *_first),),
                _function,
                dtypes="f32 f64",
                differentiable=(0,),
                ulps=8.0,
                label=_label,
            )
        )


def _whole(low: int, high: int) -> Callable[..., np.ndarray]:
    return lambda rng, shape, dtype: rng.integers(low, high, shape).astype(dtype)


for _op, _function, _lowest in (("zeta", _exact("zeta"), 2), ("polygamma", _exact("polygamma"), 0)):
    for _label, _shape, _interval in (
        ("", (17,), (0.3, 6.0)),
        ("large", (17,), (6.0, 60.0)),
        ("rank 0", (), (0.3, 6.0)),
        ("matrix", (2, 3), (0.3, 6.0)),
        ("no elements", (0,), (0.3, 6.0)),
    ):
        ROWS.append(
            Row(
                _op,
                (Operand(_shape, draw=_whole(_lowest, 6)), Operand(_shape, *_interval)),
                _function,
                dtypes="f32 f64" if _label else "f32 f64 f16 bf16 f8_e4m3fn",
                differentiable=(1,),
                ulps=16.0,
                label=_label,
            )
        )


ROWS.append(
    Row(
        "polygamma",
        (Operand((9,), draw=_whole(1, 2)), Operand((9,), -3.8, -3.2)),
        _trigamma,
        dtypes="f32 f64",
        differentiable=(1,),
        ulps=16.0,
        label="negative",
    )
)
ROWS.append(
    Row(
        "zeta",
        (
            Operand((6,), values=(1.0, 0.5, 2.0, 3.0, 2.0, 2.5)),
            Operand((6,), values=(2.0, 2.0, 0.0, -1.0, np.inf, -0.5)),
        ),
        lambda x, q: np.array([np.inf, np.nan, np.inf, np.nan, 0.0, np.nan], x.dtype),
        dtypes="f32 f64",
        label="edges",
    )
)
