"""Rows of the op table: fused multiplication and addition."""

from __future__ import annotations

import numpy as np

from tests.ops.row import Operand, Row

_x = Operand((11,), values=(0.0, -0.0, np.inf, -np.inf, np.nan, 1e4, 1.0))
_y = Operand((11,), values=(1.0, -1.0, 2.0, 0.5))
_z = Operand((11,), values=(0.0, -1.0, 1e-3))


def _exact(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (x.astype(np.longdouble) * y + z).astype(x.dtype)


def _small(*shape: int) -> tuple[Operand, Operand, Operand]:
    return Operand(shape), Operand(shape), Operand(shape)


ROWS = [
    Row(
        "fma",
        (_x, _y, _z),
        _exact,
        dtypes="f32 f64 f16 bf16 f8_e4m3fn f8_e5m2",
        differentiable=(0, 1, 2),
    ),
    Row("fma", _small(), _exact, dtypes="f32 f64", label="scalar", differentiable=(0, 1, 2)),
    Row("fma", _small(2, 0), _exact, dtypes="f32", label="empty"),
]
