"""Rows of the op table: ``dot_general``; the reference is ``einsum`` in a wider dtype."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from gnomon.dialects.types import is_complex, is_integer
from tests.ops.row import Operand, Row
from tests.ops.rows_structural import _DTYPES, ALL

Dims = tuple[int, ...]


def _einsum(
    lhs: np.ndarray, rhs: np.ndarray, contracting: tuple[Dims, Dims], batch: tuple[Dims, Dims]
) -> np.ndarray:
    letters = iter(string.ascii_letters)
    names = [[next(letters) for _ in range(a.ndim)] for a in (lhs, rhs)]
    for pairs in (contracting, batch):
        for a, b in zip(*pairs, strict=True):
            names[1][b] = names[0][a]
    lhs_used, rhs_used = ({*contracting[side], *batch[side]} for side in (0, 1))
    out = (
        [names[0][d] for d in batch[0]]
        + [n for d, n in enumerate(names[0]) if d not in lhs_used]
        + [n for d, n in enumerate(names[1]) if d not in rhs_used]
    )
    subscripts = f"{''.join(names[0])},{''.join(names[1])}->{''.join(out)}"
    return np.asarray(np.einsum(subscripts, lhs, rhs))


def _any_bits(rng: np.random.Generator, shape: Dims, dtype: np.dtype) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))


def _wide(dtype: np.dtype) -> np.dtype:
    if is_integer(dtype) or dtype == np.bool_:
        return np.dtype(np.int64)
    return np.dtype(np.complex128 if is_complex(dtype) else np.float64)


def _row(
    label: str,
    lhs: Dims,
    rhs: Dims,
    contracting: tuple[Dims, Dims] = ((), ()),
    batch: tuple[Dims, Dims] = ((), ()),
    *,
    dtypes: str = "f32 f64 c128 i32",
    result: str | None = None,
    precision: str = "default",
    wide: bool = False,
) -> Row:
    def result_dtype(dtype: np.dtype) -> np.dtype:
        return np.dtype(_DTYPES[result]) if result else dtype

    def params(dtype: np.dtype) -> dict[str, Any]:
        return {
            "lhs_contracting": contracting[0],
            "rhs_contracting": contracting[1],
            "lhs_batch": batch[0],
            "rhs_batch": batch[1],
            "dtype": result_dtype(dtype),
            "precision": precision,
        }

    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        accumulator = _wide(x.dtype)
        out = _einsum(x.astype(accumulator), y.astype(accumulator), contracting, batch)
        target = result_dtype(x.dtype)
        return out.astype(bool) if target == np.bool_ else out.astype(target)

    # In results of few bits, finite differences of step 1e-5 vanish.
    differences = result in (None, "f32", "f64", "c128")
    return Row(
        "dot_general",
        (Operand(lhs, draw=_any_bits), Operand(rhs, draw=_any_bits))
        if wide
        else (Operand(lhs), Operand(rhs)),
        reference,
        params,
        dtypes=dtypes,
        differentiable=(0, 1) if differences else (),
        ulps=8.0,
        label=label,
    )


ROWS = [
    _row("matrix-matrix", (3, 4), (4, 5), ((1,), (0,)), dtypes=ALL),
    _row("transposed", (4, 3), (5, 4), ((0,), (1,)), precision="highest"),
    _row("matrix-vector", (3, 4), (4,), ((1,), (0,))),
    _row("vector-vector", (4,), (4,), ((0,), (0,)), precision="high,highest"),
    _row("outer", (3,), (2,)),
    _row("scalars", (), ()),
    _row("batch", (2, 3, 4), (2, 4, 5), ((2,), (1,)), ((0,), (0,))),
    _row("batch-only", (2, 3), (3, 2), batch=((0, 1), (1, 0))),
    _row("several", (2, 3, 4, 5), (5, 6, 3, 2), ((3, 1), (0, 2)), ((0,), (3,))),
    _row("permuted-pairs", (3, 4, 2), (2, 5, 4), ((2, 1), (0, 2))),
    _row("free-between", (2, 3, 4), (4, 5, 6), ((2,), (0,))),
    _row("empty-contraction", (3, 0), (0, 2), ((1,), (0,)), dtypes="f32 f64 i8 bool c64"),
    _row("empty-free", (0, 3), (3, 2), ((1,), (0,)), dtypes="f32 f64 i8 bool c64"),
    _row("empty-batch", (0, 2, 3), (0, 3, 2), ((2,), (1,)), ((0,), (0,))),
    _row(
        "to-f32", (3, 4), (4, 5), ((1,), (0,)), dtypes="f16 bf16 f8_e4m3fn i8 u8 bool", result="f32"
    ),
    _row("to-f64", (3, 4), (4, 5), ((1,), (0,)), dtypes="f32 bf16 i32 f64", result="f64"),
    _row("to-bf16", (3, 4), (4, 5), ((1,), (0,)), dtypes="f32 f64", result="bf16"),
    _row("to-i32", (3, 40), (40, 5), ((1,), (0,)), dtypes="i8 u8 i16 i4 bool", result="i32"),
    # Large enough that integers are multiplied in halves of their bits; the values wrap.
    _row(
        "wrapping",
        (33, 40),
        (40, 34),
        ((1,), (0,)),
        dtypes="i8 u8 i16 u16 i32 u32 i64 u64",
        wide=True,
    ),
    _row(
        "wrapping-to-i32",
        (2, 300),
        (300, 3),
        ((1,), (0,)),
        dtypes="i8 i16",
        result="i32",
        wide=True,
    ),
    # Operands that the algorithm does not round, because StableHLO's interpreter ignores
    # algorithms.
    _row("algorithm", (3, 4), (4, 5), ((1,), (0,)), dtypes="f32 f64", precision="f64*f64->f64"),
    _row(
        "small-algorithm",
        (3, 4),
        (4, 5),
        ((1,), (0,)),
        dtypes="bf16",
        result="f32",
        precision="bf16*bf16->f32",
    ),
    _row("to-c128", (3, 4), (4, 5), ((1,), (0,)), dtypes="c64", result="c128"),
]
