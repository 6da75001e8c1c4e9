"""Rows of the op table: exponentials, logarithms, roots, powers, circular and hyperbolic functions.

The references are C's long double functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.exact import COMPLEX, EDGES, FLOATS, INTEGERS, integer_edges, whole, wide
from tests.ops.row import Operand, Row

ROWS: list[Row] = []

Function = Callable[..., Any]


def _power(x: Any, y: Any) -> Any:
    return np.exp(y * np.log(x)) if np.iscomplexobj(x) else np.power(x, y)


# name, function, the interval that real operands are drawn from, further edge values
_UNARY: tuple[tuple[str, Function, float, float, tuple[float, ...]], ...] = (
    ("exp", np.exp, -2.0, 2.0, (88.0, -88.0)),
    ("exp2", lambda x: np.exp(x * np.log(np.longdouble(2))), -2.0, 2.0, (10.0, -10.0)),
    ("expm1", lambda x: np.exp(x) - 1 if np.iscomplexobj(x) else np.expm1(x), -2.0, 2.0, (1e-3,)),
    ("log", np.log, 0.1, 3.0, (100.0,)),
    ("log1p", lambda x: np.log(1 + x) if np.iscomplexobj(x) else np.log1p(x), -0.5, 2.0, (1e-3,)),
    ("logistic", lambda x: 1 / (1 + np.exp(-x)), -2.0, 2.0, (20.0, -20.0)),
    ("sqrt", np.sqrt, 0.1, 3.0, (100.0,)),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 0.1, 3.0, (100.0,)),
    ("cbrt", np.cbrt, 0.1, 3.0, (-8.0,)),
    ("sin", np.sin, -2.0, 2.0, (3.0, 100.0)),
    ("cos", np.cos, -2.0, 2.0, (3.0, 100.0)),
    ("tan", np.tan, -1.2, 1.2, (3.0,)),
    ("asin", np.arcsin, -0.9, 0.9, (0.999, 2.0)),
    ("acos", np.arccos, -0.9, 0.9, (0.999, 2.0)),
    ("atan", np.arctan, -2.0, 2.0, (100.0, -1e4)),
    ("sinh", np.sinh, -2.0, 2.0, (10.0, -10.0, 1e-3)),
    ("cosh", np.cosh, -2.0, 2.0, (10.0, -10.0)),
    ("tanh", np.tanh, -2.0, 2.0, (10.0, -10.0, 1e-3)),
    ("asinh", np.arcsinh, -2.0, 2.0, (100.0, 1e4, -1e4, 1e-3)),
    ("acosh", np.arccosh, 1.1, 3.0, (100.0, 1e4, 0.5)),
    ("atanh", np.arctanh, -0.9, 0.9, (0.999, 2.0, 1e-3)),
)
for _op, _function, _low, _high, _values in _UNARY:
    for _label, _shape in (("", (13,)), ("rank 0", ()), ("matrix", (2, 3)), ("no elements", (0,))):
        ROWS.append(
            Row(
                _op,
                (Operand(_shape, _low, _high, values=(*_values, *EDGES)),),
                wide(_function),
                dtypes=FLOATS if not _label else "f32 f64",
                differentiable=(0,),
                label=_label,
            )
        )
    if _op != "cbrt":
        for _label, _shape in (("complex", (13,)), ("complex rank 0", ()), ("complex empty", (0,))):
            ROWS.append(
                Row(
                    _op,
                    (Operand(_shape, 0.2, 1.4),),
                    wide(_function),
                    dtypes=COMPLEX if _shape else "c128",
                    differentiable=(0,),
                    ulps=8.0,
                    label=_label,
                )
            )


def _quadrants(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Complex numbers in all four quadrants, away from the axes, small and large ones."""
    angle = rng.uniform(0.1, 1.4, shape) + np.pi / 2 * rng.integers(0, 4, shape)
    size = rng.choice([0.05, 0.5, 2.0, 30.0], shape)
    return (size * np.exp(1j * angle)).astype(dtype)


for _op in ("log", "log1p", "sqrt", "rsqrt", "asin", "acos", "atan", "asinh", "acosh", "atanh"):
    _function = next(f for name, f, *_ in _UNARY if name == _op)
    ROWS.append(
        Row(
            _op,
            (Operand((24,), draw=_quadrants),),
            wide(_function),
            dtypes=COMPLEX,
            differentiable=(0,),
            ulps=12.0,
            label="complex quadrants",
        )
    )

# ------------------------------------------------------------------------------------------- pairs

ROWS.append(
    Row(
        "atan2",
        (Operand((3, 2), -1.0, 1.0), Operand((3, 2), 1.0, 2.0)),
        wide(lambda y, x: -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))),
        dtypes=COMPLEX,
        differentiable=(0, 1),
        ulps=16.0,
        label="complex",
    )
)

_ANGLES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
for _label, _shape in (("", (49,)), ("rank 0", ()), ("matrix", (2, 3)), ("no elements", (0,))):
    ROWS.append(
        Row(
            "atan2",
            (
                Operand(_shape, values=tuple(np.repeat(_ANGLES, 7))),
                Operand(_shape, values=_ANGLES * 7),
            ),
            wide(np.arctan2),
            dtypes=FLOATS if not _label else "f32 f64",
            differentiable=(0, 1),
            label=_label,
        )
    )
    ROWS.append(
        Row(
            "pow",
            (
                Operand(_shape, 0.2, 2.0, values=tuple(np.repeat((*_ANGLES[:6], -2.0), 7))),
                Operand(_shape, -2.0, 2.0, values=(*_ANGLES[:6], 3.0) * 7),
            ),
            wide(np.power),
            dtypes=FLOATS if not _label else "f32 f64",
            differentiable=(0, 1),
            label=_label,
        )
    )
ROWS.append(
    Row(
        "pow",
        (Operand((13,), 0.2, 1.5), Operand((13,), -1.5, 1.5)),
        wide(_power),
        dtypes=COMPLEX,
        differentiable=(0, 1),
        ulps=8.0,
        label="complex",
    )
)
ROWS.append(
    Row(
        "pow",
        (
            Operand((5,), -2.0, -0.5),
            Operand((5,), draw=lambda rng, shape, dtype: rng.integers(-3, 4, shape).astype(dtype)),
        ),
        wide(np.power),
        dtypes="f32 f64",
        differentiable=(0,),
        label="negative base",
    )
)

# --------------------------------------------------------------------------------- integer powers


def _integer_power(y: int) -> Function:
    def power(x: Any) -> Any:
        product = np.ones_like(x)
        for _ in range(abs(y)):
            product = product * x
        return 1 / product if y < 0 else product

    return power


for _y in (0, 1, 2, 3, 7, -1, -2, -5):
    for _label, _shape in ((f"y={_y}", (11,)), (f"y={_y} rank 0", ()), (f"y={_y} empty", (2, 0))):
        ROWS.append(
            Row(
                "integer_pow",
                (Operand(_shape, 0.5, 2.0, values=EDGES),),
                wide(_integer_power(_y)),
                {"y": _y},
                dtypes=f"{FLOATS} {COMPLEX}" if len(_shape) == 1 else "f32 f64",
                differentiable=(0,),
                ulps=8.0,
                label=_label,
            )
        )
    if _y >= 0:
        ROWS.append(
            Row(
                "integer_pow",
                (Operand((40,), draw=integer_edges),),
                whole(lambda x, y=_y: x**y),
                {"y": _y},
                dtypes=INTEGERS,
                label=f"y={_y} integers",
            )
        )
