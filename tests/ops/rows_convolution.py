"""Rows of the op table: convolutions of every form, compared with a loop over the result."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.dialects.types import is_complex, is_integer
from tests.ops.row import Operand, Row

Dims = tuple[int, ...]


def _wide(dtype: np.dtype) -> np.dtype:
    if is_integer(dtype):
        return np.dtype(np.int64)
    return np.dtype(np.complex128 if is_complex(dtype) else np.float64)


def _spread(x: np.ndarray, padding: Any, dilation: Dims) -> np.ndarray:
    """``[batch, feature, *space]`` with holes and padding, one dimension after the other."""
    for d, ((low, high), step) in enumerate(zip(padding, dilation, strict=True), start=2):
        size = x.shape[d]
        holes = np.zeros((*x.shape[:d], max(0, (size - 1) * step + 1), *x.shape[d + 1 :]), x.dtype)
        holes[(slice(None),) * d + (slice(None, None, step),)] = x
        pads = [(0, 0)] * x.ndim
        pads[d] = (max(low, 0), max(high, 0))
        padded = np.pad(holes, pads)
        cut = slice(max(-low, 0), padded.shape[d] - max(-high, 0))
        x = padded[(slice(None),) * d + (cut,)]
    return x


def _by_loops(lhs: np.ndarray, rhs: np.ndarray, p: dict[str, Any]) -> np.ndarray:
    x, w = lhs.transpose(p["lhs_spec"]), rhs.transpose(p["rhs_spec"])
    x = _spread(x, p["padding"], p["lhs_dilation"])
    kernel = w.shape[2:]
    spans = [(k - 1) * step + 1 for k, step in zip(kernel, p["rhs_dilation"], strict=True)]
    sizes = [
        max(0, (n - span) // stride + 1)
        for n, span, stride in zip(x.shape[2:], spans, p["window_strides"], strict=True)
    ]
    features, groups = p["feature_group_count"], p["batch_group_count"]
    batch, outs = x.shape[0] // groups, w.shape[0]
    out = np.zeros((batch, outs, *sizes), np.result_type(x, w))
    each = outs // (features * groups)
    for o, place in itertools.product(range(outs), itertools.product(*map(range, sizes))):
        group = o // each
        depth = w.shape[1]
        images = slice(group * batch, (group + 1) * batch) if groups > 1 else slice(None)
        channels = slice(group * depth, (group + 1) * depth) if features > 1 else slice(None)
        window = tuple(
            slice(at * stride, at * stride + span, step)
            for at, stride, span, step in zip(
                place, p["window_strides"], spans, p["rhs_dilation"], strict=True
            )
        )
        terms = x[(images, channels, *window)] * w[o]
        out[(slice(None), o, *place)] = terms.sum(axis=tuple(range(1, terms.ndim)))
    return out.transpose(np.argsort(p["out_spec"]))


def _row(
    label: str,
    lhs: Dims,
    rhs: Dims,
    *,
    specs: tuple[Dims, Dims, Dims] | None = None,
    strides: Dims | None = None,
    padding: Any = None,
    lhs_dilation: Dims | None = None,
    rhs_dilation: Dims | None = None,
    feature_groups: int = 1,
    batch_groups: int = 1,
    dtypes: str = "f32 f64",
    result: Any = None,
) -> Row:
    rank = len(lhs) - 2
    order = tuple(range(rank + 2))
    lhs_spec, rhs_spec, out_spec = specs or (order, order, order)
    fixed = {
        "lhs_spec": lhs_spec,
        "rhs_spec": rhs_spec,
        "out_spec": out_spec,
        "window_strides": strides or (1,) * rank,
        "padding": padding or ((0, 0),) * rank,
        "lhs_dilation": lhs_dilation or (1,) * rank,
        "rhs_dilation": rhs_dilation or (1,) * rank,
        "feature_group_count": feature_groups,
        "batch_group_count": batch_groups,
        "precision": "default",
    }

    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        wide = _wide(x.dtype)
        return _by_loops(x.astype(wide), w.astype(wide), fixed).astype(result or x.dtype)

    return Row(
        "conv_general_dilated",
        (Operand(lhs), Operand(rhs)),
        reference,
        lambda dtype: {**fixed, "dtype": np.dtype(result or dtype)},
        dtypes=dtypes,
        differentiable=() if result else (0, 1),
        ulps=16.0,
        label=label,
    )


NHWC = ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))

ROWS = [
    _row("no-space", (2, 3), (4, 3), dtypes="f32 f64 i32"),
    _row("1d", (2, 3, 5), (4, 3, 2), dtypes="f32 f64 c64 c128"),
    _row(
        "2d",
        (2, 3, 5, 4),
        (4, 3, 3, 2),
        padding=((1, 1), (0, 2)),
        dtypes="f16 bf16 f32 f64 c64 i4 i8 u8 i32 u32 i64 f8_e4m3fn f8_e5m2",
    ),
    _row("3d", (1, 2, 3, 3, 4), (2, 2, 2, 1, 2)),
    _row("features-last", (2, 5, 4, 3), (3, 2, 3, 4), specs=NHWC, strides=(2, 1)),
    _row("mixed-specs", (5, 3, 2), (2, 4, 3), specs=((2, 1, 0), (1, 2, 0), (1, 2, 0))),
    _row(
        "vectors",
        (2, 1, 9),
        (1, 1, 4),
        strides=(2,),
        padding=((3, 1),),
        dtypes="f16 bf16 f32 f64 c128 i8 u32",
    ),
    _row("strides-leave-rest", (1, 2, 8), (2, 2, 3), strides=(2,), padding=((0, 0),)),
    _row("rest-after-one-window", (1, 2, 4), (2, 2, 3), strides=(2,), dtypes="f32"),
    _row(
        "dilated",
        (2, 2, 4, 3),
        (3, 2, 2, 2),
        lhs_dilation=(2, 3),
        rhs_dilation=(2, 1),
        strides=(1, 2),
        padding=((1, 2), (0, 1)),
        dtypes="f32 f64 c128",
    ),
    _row("negative", (2, 2, 6), (3, 2, 2), padding=((-2, -1),)),
    _row("negative-dilated", (2, 2, 4), (3, 2, 2), padding=((-2, 3),), lhs_dilation=(3,)),
    _row("feature-groups", (2, 6, 4), (4, 3, 2), feature_groups=2, padding=((1, 0),)),
    _row("depthwise", (1, 4, 4, 4), (2, 2, 1, 4), specs=NHWC, feature_groups=4, dtypes="f32 f64"),
    _row("batch-groups", (4, 3, 4), (6, 3, 2), batch_groups=2, strides=(2,)),
    _row("window-larger", (2, 2, 2), (3, 2, 4)),
    _row("empty-batch", (0, 2, 4), (3, 2, 2)),
    _row("empty-features", (2, 0, 4), (3, 0, 2)),
    _row("empty-space", (2, 2, 0), (3, 2, 2), padding=((2, 1),)),
    _row("to-f32", (2, 3, 5), (4, 3, 2), dtypes="bf16 i8 i4 f8_e4m3fn", result=np.float32),
    _row("vectors-to-bf16", (1, 1, 5), (1, 1, 2), dtypes="i16 f16", result=ml_dtypes.bfloat16),
    _row("to-i32", (2, 3, 5), (4, 3, 2), dtypes="i8", result=np.int32),
    # Large enough to be rewritten for IREE.
    _row("many", (2, 9, 8, 16), (3, 3, 16, 16), specs=NHWC, padding=((1, 1), (1, 1)), dtypes="f32"),
]
