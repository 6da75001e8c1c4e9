"""Rows of the op table: constraints on shardings."""

from __future__ import annotations

from tests.ops.row import Operand, Row

_MESH = {
    "names": ("x", "y"),
    "sizes": (3, 2),
    "types": ("auto", "explicit"),
    "devices": (),
}

ROWS = [
    Row(
        "sharding_constraint",
        (Operand((3, 2)),),
        lambda x, **params: x,
        params={**_MESH, "spec": ("x", "?")},
        dtypes="f32 f64 bf16 i32 u8 c64 bool i4 u2 f8_e4m3fn",
        differentiable=(0,),
        ulps=0.0,
    ),
    Row(
        "sharding_constraint",
        (Operand((2, 6)),),
        lambda x, **params: x,
        params={**_MESH, "spec": ("", "x,y")},
        dtypes="f32",
        differentiable=(0,),
        ulps=0.0,
        label="two axes",
    ),
]
