"""Rows of the op table: functions with custom rules, checkpoints, names."""

from __future__ import annotations

import numpy as np

from gnomon.dialects.body import Body
from gnomon.dialects.emit import ops, scale
from gnomon.dialects.types import TensorType
from tests.ops.row import Operand, Row

SMOOTH = "f32 f64 c64 c128"


def _cube(x: object) -> object:
    return ops.mul(ops.mul(x, x), x)


def _with_rule(dtype: np.dtype) -> tuple[Body, ...]:
    """``c + x³`` of a constant and an argument, and its rule."""
    type_ = TensorType((2, 3), dtype)
    return (
        Body.build([type_, type_], lambda c, x: [ops.add(c, _cube(x))]),
        Body.build(
            [type_, type_, type_],
            lambda c, x, t: [ops.add(c, _cube(x)), ops.mul(t, scale(ops.mul(x, x), 3))],
        ),
    )


def _body(dtype: np.dtype) -> tuple[Body, ...]:
    types = [TensorType((2, 3), dtype), TensorType((), np.dtype(np.int32))]
    return (Body.build(types, lambda x, n: [ops.sin(ops.mul(x, ops.exp(x))), n]),)


def _system(dtype: np.dtype) -> tuple[Body, ...]:
    """The solution of ``a x = b``, elementwise: all four bodies are multiples."""
    types = [TensorType((2, 3), dtype)] * 2
    solve, matvec = (
        lambda: Body.build(types, lambda a, b: [ops.div(b, a)]),
        lambda: Body.build(types, lambda a, x: [ops.mul(a, x)]),
    )
    return (solve(), matvec(), solve(), matvec())


def _quotient(dtype: np.dtype) -> tuple[Body, ...]:
    """``x / r``, and its transpose."""
    types = [TensorType((2, 3), dtype)] * 2
    return tuple(Body.build(types, lambda r, x: [ops.div(x, r)]) for _ in range(2))


ROWS = [
    Row(
        "linear_call",
        (Operand((2, 3), 1.0, 2.0), Operand((2, 3))),
        lambda r, x: x / r,
        params={"consts": 0, "residuals": 1, "name": "divide", "failure": ""},
        dtypes=SMOOTH,
        differentiable=(0, 1),
        bodies=_quotient,
    ),
    Row(
        "custom_linear_solve",
        (Operand((2, 3), 1.0, 2.0), Operand((2, 3))),
        lambda a, b: b / a,
        params={"consts": 1},
        dtypes=SMOOTH,
        differentiable=(0, 1),
        bodies=_system,
    ),
    Row(
        "custom_jvp",
        (Operand((2, 3)), Operand((2, 3))),
        lambda c, x: c + x * x * x,
        params={"consts": 1, "wrt": (0,), "name": "cube", "failure": ""},
        dtypes=SMOOTH,
        differentiable=(1,),
        bodies=_with_rule,
    ),
    *(
        Row(
            "checkpoint",
            (Operand((2, 3), -1.0, 1.0), Operand((), dtype="int32", low=0, high=4)),
            lambda x, n: (np.sin(x * np.exp(x)), n),
            params={"policy": policy, "prevent_cse": True, "differentiated": False},
            dtypes=SMOOTH,
            differentiable=(0,),
            ulps=16.0,
            label=policy,
            bodies=_body,
        )
        for policy in ("nothing_saveable", "everything_saveable")
    ),
    Row(
        "name",
        (Operand((3, 2)),),
        lambda x: x,
        params={"name": "hidden"},
        dtypes="f32 f64 bf16 i32 u8 c64 bool i4 u2 f8_e4m3fn",
        differentiable=(0,),
        ulps=0.0,
    ),
]
