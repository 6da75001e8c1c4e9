"""Rows of the op table: elementwise arithmetic, comparisons, choices, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.exact import (
    COMPLEX,
    EDGES,
    FLOATS,
    INTEGERS,
    integer_edges,
    nonzero_edges,
    whole,
    wide,
)
from tests.ops.row import Operand, Row

ROWS: list[Row] = []


def _row(
    op: str,
    arity: int,
    reference: Callable[..., Any],
    dtypes: str,
    *,
    label: str = "",
    shape: tuple[int, ...] = (11,),
    low: float = -2.0,
    high: float = 2.0,
    **facets: Any,
) -> None:
    differentiable = facets.pop("differentiable", ())
    operand = Operand(shape, low, high, values=EDGES)
    ROWS.append(
        Row(
            op,
            (operand,) * arity,
            reference,
            dtypes=dtypes,
            label=label,
            differentiable=differentiable,
            **facets,
        )
    )


def _integer_row(
    op: str, arity: int, reference: Callable[..., Any], dtypes: str = INTEGERS, **facets: Any
) -> None:
    operand = Operand((40,), draw=integer_edges)
    facets.setdefault("label", "integers")
    ROWS.append(Row(op, (operand,) * arity, reference, dtypes=dtypes, **facets))


# -------------------------------------------------------------------------------------- arithmetic

_BOTH = (0, 1)
_ARITHMETIC: tuple[tuple[str, int, Callable[..., Any], Callable[..., int]], ...] = (
    ("add", 2, lambda x, y: x + y, lambda x, y: x + y),
    ("sub", 2, lambda x, y: x - y, lambda x, y: x - y),
    ("mul", 2, lambda x, y: x * y, lambda x, y: x * y),
    ("neg", 1, lambda x: -x, lambda x: -x),
    ("square", 1, lambda x: x * x, lambda x: x * x),
)
for _op, _arity, _float, _integer in _ARITHMETIC:
    _operands = tuple(range(_arity))
    _row(_op, _arity, wide(_float), f"{FLOATS} {COMPLEX}", differentiable=_operands)
    _integer_row(_op, _arity, whole(_integer))
    for _label, _shape in (("rank 0", ()), ("matrix", (2, 3)), ("no elements", (2, 0))):
        _row(
            _op,
            _arity,
            wide(_float),
            "f32 f64 c128",
            label=_label,
            shape=_shape,
            differentiable=_operands,
        )
for _op, _logical in (("add", np.logical_or), ("mul", np.logical_and)):
    _row(_op, 2, _logical, "bool", label="bool")


def _quotient(x: int, y: int) -> int:
    if y == 0:
        return -1
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(x: int, y: int) -> int:
    return x if y == 0 else x - y * _quotient(x, y)


for _op, _exact in (("div", _quotient), ("rem", _remainder)):
    _integer_row(_op, 2, whole(_exact), label="integers, any divisor")
    ROWS.append(
        Row(
            _op,
            (Operand((40,), draw=integer_edges), Operand((40,), draw=nonzero_edges)),
            whole(_exact),
            dtypes=INTEGERS,
            label="integers",
        )
    )
_row("div", 2, wide(lambda x, y: x / y), FLOATS, low=0.5, differentiable=_BOTH)
_row("rem", 2, wide(np.fmod), FLOATS, low=0.5, differentiable=_BOTH)
for _label, _shape in (("complex", (7,)), ("rank 0", ()), ("no elements", (0,))):
    _operand = Operand(_shape, 0.5, 2.0)
    ROWS.append(
        Row(
            "div",
            (_operand, _operand),
            wide(lambda x, y: x / y),
            dtypes="c64 c128 f64",
            label=_label,
            differentiable=_BOTH,
        )
    )
ROWS.append(
    Row(
        "rem",
        (Operand((4,), -9.0, -5.0), Operand((4,), 1.0, 3.0)),
        wide(np.fmod),
        dtypes="f32 f64",
        label="negative",
        differentiable=_BOTH,
    )
)

# ------------------------------------------------------------------------------------------- signs

_row("abs", 1, wide(np.abs), FLOATS, differentiable=(0,))
_row("abs", 1, wide(lambda z: np.hypot(z.real, z.imag)), COMPLEX, label="complex",
     differentiable=(0,))  # fmt: skip
_integer_row("abs", 1, whole(abs), "i4 i8 i16 i32 i64")


def _sign(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, 1, np.where(x < 0, -1, x)).astype(x.dtype)


_row("sign", 1, wide(_sign), FLOATS)
_row("sign", 1, wide(lambda z: z / np.abs(z)), COMPLEX, label="complex")
_integer_row("sign", 1, whole(lambda x: (x > 0) - (x < 0)))

# ---------------------------------------------------------------------------------------- rounding

_HALVES = (0.5, -0.5, 1.5, -1.5, 2.5, 0.49999997, -0.3, np.nan, np.inf, 2049.0, -0.0)
_nearest = np.vectorize(
    lambda x: x if not math.isfinite(x) else math.copysign(round(float(x)), x), otypes=[np.float64]
)
_away = np.vectorize(
    lambda x: (
        x
        if not math.isfinite(x)
        else math.copysign(math.floor(abs(float(x)) + 0.5) - (abs(x) == 0.49999999999999994), x)
    ),
    otypes=[np.float64],
)


def _plain(function: Callable[..., Any]) -> Callable[[np.ndarray], np.ndarray]:
    """A function in f64, which holds the narrower formats exactly."""
    return lambda x: np.asarray(function(x.astype(np.float64))).astype(x.dtype)


_whole_floats = np.vectorize(
    lambda x, f: x if not math.isfinite(x) else math.copysign(abs(f(float(x))), x),
    otypes=[np.float64],
)
_ROUNDING: tuple[tuple[str, str, Any], ...] = (
    ("floor", "", lambda x: _whole_floats(x, math.floor)),
    ("ceil", "", lambda x: _whole_floats(x, math.ceil)),
    ("round", "TO_NEAREST_EVEN", _nearest),
    ("round", "AWAY_FROM_ZERO", _away),
)
for _op, _method, _function in _ROUNDING:
    for _shape in ((17,), (), (0, 2)):
        ROWS.append(
            Row(
                _op,
                (Operand(_shape, -9.0, 9.0, values=_HALVES),),
                _plain(_function),
                {"rounding_method": _method} if _method else {},
                dtypes=FLOATS if len(_shape) == 1 else "f32",
                label=f"{_method.lower()} rank {len(_shape)}".strip(),
                ulps=0.5,
            )
        )

# ------------------------------------------------------------------------------------- comparisons

_COMPARISONS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("eq", lambda x, y: x == y),
    ("ne", lambda x, y: x != y),
    ("lt", lambda x, y: x < y),
    ("le", lambda x, y: x <= y),
    ("gt", lambda x, y: x > y),
    ("ge", lambda x, y: x >= y),
)


def _few(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Draw from a few numbers, so that some pairs are equal; with nan and zeros of both signs."""
    values = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, 2.0])
    chosen = values[rng.integers(0, len(values), (2, *shape))]
    if np.issubdtype(dtype, np.complexfloating):
        chosen = np.where(np.isfinite(chosen), chosen, 0.0)
        return (chosen[0] + 1j * chosen[1]).astype(dtype)
    return chosen[0].astype(dtype)


for _op, _compare in _COMPARISONS:
    _pair = (Operand((60,), draw=_few),) * 2
    _names = f"{FLOATS} {COMPLEX}" if _op in ("eq", "ne") else FLOATS
    ROWS.append(Row(_op, _pair, wide(_compare), dtypes=_names))
    _integer_row(_op, 2, whole(_compare, to=np.bool_))
    _row(_op, 2, lambda x, y, f=_compare: f(x.astype(int), y.astype(int)), "bool", label="bool")
    _row(_op, 2, wide(_compare), "f32", label="rank 0", shape=())
    _row(_op, 2, wide(_compare), "f32", label="no elements", shape=(0, 3))

# ----------------------------------------------------------------------------------------- choices


def _extreme(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(choose(x, y), x, y))


_EXTREMA: tuple[tuple[str, Callable[[Any, Any], Any], Callable[..., int]], ...] = (
    ("max", lambda x, y: x > y, max),
    ("min", lambda x, y: x < y, min),
)
for _op, _beyond, _integer in _EXTREMA:
    _row(_op, 2, wide(_extreme(_beyond)), FLOATS, differentiable=_BOTH)
    _integer_row(_op, 2, whole(_integer))
    _row(_op, 2, whole(_integer), "bool", label="bool")
    for _label, _shape in (("rank 0", ()), ("matrix", (3, 2)), ("no elements", (0,))):
        _row(_op, 2, wide(_extreme(_beyond)), "f32 f64", label=_label, shape=_shape,
             differentiable=_BOTH)  # fmt: skip

    def _ordered(z: np.ndarray, w: np.ndarray, f: Any = _integer) -> np.ndarray:
        pairs = zip(z.tolist(), w.tolist(), strict=True)
        return np.array([f(p, key=lambda v: (v.real, v.imag)) for p in pairs], z.dtype)

    ROWS.append(
        Row(_op, (Operand((60,), draw=_few),) * 2, _ordered, dtypes=COMPLEX, label="complex")
    )


def _choose(p: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    result = y.copy()
    for index in np.ndindex(*y.shape):
        if p[index if p.shape else ()]:
            result[index] = x[index]
    return result


_EVERY = f"bool {INTEGERS} {FLOATS} {COMPLEX}"
for _predicate, _shape, _label in (
    ((9,), (9,), ""),
    ((), (9,), "scalar predicate"),
    ((), (), "rank 0"),
    ((2, 3), (2, 3), "matrix"),
    ((0, 3), (0, 3), "no elements"),
):
    ROWS.append(
        Row(
            "select",
            (
                Operand(_predicate, dtype=np.bool_),
                Operand(_shape, values=EDGES),
                Operand(_shape, values=EDGES[::-1]),
            ),
            _choose,
            dtypes=_EVERY if _label in ("", "scalar predicate") else "f32 f64",
            differentiable=(1, 2),
            label=_label,
            ulps=0.0,
        )
    )


def _clamp(low: Any, x: Any, high: Any) -> Any:
    unknown = np.isnan(low) | np.isnan(x) | np.isnan(high)
    return np.where(unknown, np.nan, np.fmin(np.fmax(low, x), high))


def _clamp_integers(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    full = [np.broadcast_to(b, x.shape) for b in (low, high)]
    return whole(lambda a, v, b: min(max(a, v), b))(full[0], x, full[1])


for _bound, _shape, _label in (
    ((13,), (13,), ""),
    ((), (13,), "scalar bounds"),
    ((), (), "rank 0"),
    ((2, 3), (2, 3), "matrix"),
    ((), (0, 2), "no elements"),
):
    ROWS.append(
        Row(
            "clamp",
            (
                Operand(_bound, -1.5, -0.5),
                Operand(_shape, -3.0, 3.0, values=EDGES),
                Operand(_bound, 0.5, 1.5),
            ),
            wide(_clamp),
            dtypes=FLOATS if _label in ("", "scalar bounds") else "f32 f64",
            differentiable=(0, 1, 2),
            label=_label,
        )
    )
    if _label in ("", "scalar bounds"):
        ROWS.append(
            Row(
                "clamp",
                (
                    Operand(_bound, draw=integer_edges),
                    Operand(_shape, draw=integer_edges),
                    Operand(_bound, draw=integer_edges),
                ),
                _clamp_integers,
                dtypes=f"bool {INTEGERS}",
                label=f"integers {_label}".strip(),
            )
        )
