"""Rows of the op table: switch, while and scan; random programs are in tests/dialects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects.body import Body
from gnomon.dialects.emit import constant, ops
from gnomon.dialects.types import TensorType
from tests.ops.row import Operand, Row

I32 = np.dtype(np.int32)
Bodies = Callable[[np.dtype], tuple[Body, ...]]

# In every iteration a product and a sum are rounded.
LOOP_ULPS = 16.0
SMOOTH = "f32 f64 bf16 f16 c64 c128 f8_e4m3fn"


def _type(dtype: np.dtype, *shape: int) -> TensorType:
    return TensorType(shape, dtype)


def _emits(types: Sequence[tuple[Any, ...]], emit: Callable[..., list[Any]]) -> Bodies:
    """One body; a type is ``(dtype or None for the one under test, *shape)``."""
    return lambda dtype: (
        Body.build([_type(np.dtype(t[0] or dtype), *t[1:]) for t in types], emit),
    )


# ---------------------------------------------------------------------------------------- switch


def _branches(dtype: np.dtype) -> tuple[Body, ...]:
    types = [_type(dtype, 3), _type(dtype, 3)]
    return (
        Body.build(types, lambda x, y: [ops.mul(x, y), y]),
        Body.build(types, lambda x, y: [ops.add(x, x), x]),
        Body.build(types, lambda x, y: [y, ops.neg(y)]),
    )


def _switch(index: np.ndarray, x: np.ndarray, y: np.ndarray) -> Any:
    return [(x * y, y), (x + x, x), (y, -y)][min(max(int(index), 0), 2)]


def _index(low: int, high: int) -> Operand:
    return Operand((), low, high, dtype=I32)


_SWITCHES = [
    Row(
        "switch",
        (_index(low, high), Operand((3,)), Operand((3,))),
        _switch,
        dtypes=f"{SMOOTH} i8 i32 u8" if label == "any" else "f32 f64",
        differentiable=(1, 2),
        label=label,
        bodies=_branches,
    )
    for label, low, high in (("any", 0, 2), ("below", -5, -1), ("above", 3, 9))
]

_SWITCHES.append(
    Row(
        "switch",
        (_index(-1, 1), Operand((2, 0))),
        lambda index, x: (x,),
        differentiable=(1,),
        dtypes="f32 f64 bool",
        label="one-branch-size-0",
        bodies=_emits([(None, 2, 0)], lambda x: [x]),
    )
)


# ----------------------------------------------------------------------------------------- while


def _count_down(dtype: np.dtype) -> tuple[Body, ...]:
    counter, x = _type(I32), _type(dtype, 2)
    return (
        Body.build([counter, counter, x], lambda stop, n, state: [ops.gt(n, stop)]),
        Body.build(
            [x, counter, x],
            lambda factor, n, state: [
                ops.sub(n, constant(np.int32(1))),
                ops.add(ops.mul(state, factor), state),
            ],
        ),
    )


def _counted(stop: np.ndarray, factor: np.ndarray, n: np.ndarray, x: np.ndarray) -> Any:
    n = n.copy()
    while n > stop:
        x, n = (x * factor + x).astype(x.dtype), n - np.int32(1)
    return n, x


_WHILES = [
    Row(
        "while",
        (
            Operand((), 0, 1, dtype=I32),
            Operand((2,), 0.2, 1),
            Operand((), *((4, 6) if label == "runs" else (-3, 0)), dtype=I32),
            Operand((2,), 0.5, 1),
        ),
        _counted,
        {"cond_consts": 1, "body_consts": 1},
        dtypes="f32 f64 bf16 c64 c128 f8_e5m2" if label == "runs" else "f32 f64",
        differentiable=(1, 3),
        ulps=LOOP_ULPS,
        label=label,
        bodies=_count_down,
    )
    for label in ("runs", "never-runs")
]


# ------------------------------------------------------------------------------------------ scan


def _recurrence(w: Any, h: Any, n: Any, x: Any) -> list[Any]:
    new = ops.add(ops.mul(w, h), x)
    return [new, ops.add(n, constant(np.int32(1))), ops.mul(new, h), n]


_RECURRENCE = _emits([(None, 2), (None, 2), (I32,), (None, 2)], _recurrence)


def _recurrence_reference(length: int, reverse: bool) -> Callable[..., Any]:
    def reference(w: np.ndarray, h: np.ndarray, n: np.ndarray, xs: np.ndarray) -> Any:
        ys, counts = np.empty((length, 2), h.dtype), np.empty(length, np.int32)
        for i in reversed(range(length)) if reverse else range(length):
            new = (w * h + xs[i]).astype(h.dtype)
            ys[i], counts[i] = new * h, n
            h, n = new, np.asarray(n + 1, np.int32)
        return h, n, ys, counts

    return reference


_SCANS = [
    Row(
        "scan",
        (
            Operand((2,), 0.2, 1),
            Operand((2,), 0.5, 1),
            Operand((), -5, 5, dtype=I32),
            Operand((length, 2), 0.5, 1),
        ),
        _recurrence_reference(length, reverse),
        {"consts": 1, "carry": 2, "length": length, "reverse": reverse, "unroll": unroll},
        dtypes=SMOOTH if length == 4 else "f32 f64",
        differentiable=(0, 1, 3),
        ulps=LOOP_ULPS,
        label=label,
        bodies=_RECURRENCE,
    )
    for label, length, reverse, unroll in (
        ("forward", 4, False, 1),
        ("reverse", 3, True, 2),
        ("one", 1, False, 1),
        ("none", 0, False, 1),
        ("unrolled", 5, False, 2),
    )
]

_SCANS += [
    Row(
        "scan",
        (Operand((4,)),),
        lambda xs: (np.negative(xs),),
        {"consts": 0, "carry": 0, "length": 4, "reverse": False, "unroll": 1},
        dtypes="f32 f64 i32 c128",
        differentiable=(0,),
        label="map",
        bodies=_emits([(None,)], lambda x: [ops.neg(x)]),
    ),
    Row(
        "scan",
        (Operand(()), Operand((2, 0))),
        lambda a, b: (a, b),
        {"consts": 0, "carry": 2, "length": 3, "reverse": False, "unroll": 1},
        dtypes="f32 f64 bool u8",
        differentiable=(0, 1),
        label="only-carries",
        bodies=_emits([(None,), (None, 2, 0)], lambda a, b: [a, b]),
    ),
]

ROWS = [*_SWITCHES, *_WHILES, *_SCANS]
