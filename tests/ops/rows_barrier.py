"""Rows of the op table: the optimization barrier."""

from __future__ import annotations

from tests.ops.row import Operand, Row

ROWS = [
    Row(
        "optimization_barrier",
        (Operand((3, 2)),),
        lambda x: x,
        dtypes="f32 f64 bf16 i32 u8 c64 bool i4 u2 f8_e4m3fn",
        differentiable=(0,),
        ulps=0.0,
    ),
    Row(
        "optimization_barrier",
        (Operand((3,)), Operand((2, 2)), Operand((), dtype="int32", low=-4, high=4)),
        lambda x, y, n: (x, y, n),
        dtypes="f32 f64",
        differentiable=(0, 1),
        ulps=0.0,
        label="several",
    ),
]
