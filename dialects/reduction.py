"""Reductions: many elements into one, along whole dimensions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from gnomon.dialects.attributes import INTS
from gnomon.dialects.combinators import (
    Values,
    jvp_linear,
    normalized,
    require_dtype,
    stablehlo,
    stablehlo_constant,
    stablehlo_reduce,
)
from gnomon.dialects.contract import Facet, Instance, MappedAxis, Op
from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import NUMERIC, TensorType, is_floating

Dims = Sequence[int | None]
Batched = tuple[list[ir.Value], list[int | None]]

_F32 = np.dtype(np.float32)


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums and products are formed; they are rounded once, at the end."""
    return _F32 if is_floating(dtype) and dtype.itemsize < 4 else dtype


def _remaining(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def _spread(inst: Instance, y: ir.Value) -> ir.Value:
    """A value of the reduced shape, repeated along the reduced axes."""
    (x,), axes = inst.operand_types, inst.params["axes"]
    kept = tuple(d for d in range(x.rank) if d not in axes)
    return ops.broadcast_in_dim(y, shape=x.shape, dims=kept)


def _batch_reduction(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    (x,), (at,) = operands, dims
    assert at is not None
    axes = tuple(d + (d >= at) for d in inst.params["axes"])
    to = at - sum(d < at for d in axes)
    results = inst.op.build([x], {**inst.params, "axes": axes})
    return results, [to] * len(results)


def lower_reduction(combiner: str, identity: Callable[[np.dtype], Any]) -> Callable[..., Any]:
    """The lowering to ``stablehlo.reduce``, through the accumulator where that is wider."""

    def rule(inst: Instance) -> list[ir.Value]:
        x, (type_,), (result,) = inst.operand, inst.operand_types, inst.result_types
        wide = accumulator(type_.dtype) if combiner in ("add", "multiply") else type_.dtype
        if wide != type_.dtype:
            (x,) = stablehlo("convert", [x], [type_.with_dtype(wide)])
        scalar = TensorType((), wide)
        initial = stablehlo_constant(np.asarray(identity(wide), wide))
        reduced = stablehlo_reduce(
            [x],
            [initial],
            inst.params["axes"],
            lambda a, b: stablehlo(combiner, [a, b], [scalar]),
        )
        return reduced if wide == type_.dtype else stablehlo("convert", reduced, [result])

    return rule


def _reducer(
    name: str,
    *,
    doc: str,
    dtypes: Collection[np.dtype],
    evaluate: Callable[..., np.ndarray],
    jvp: Facet,
    transpose: Facet,
    combiner: str,
    identity: Callable[[np.dtype], Any],
) -> Op:
    """Declare a reduction over ``axes`` that keeps the dtype."""

    def infer(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        require_dtype(name, x, dtypes)
        return x.with_shape(_remaining(x.shape, normalized(axes, x.rank, name)))

    element = "i1" if np.float32 not in dtypes else "f32"
    return Op(
        name=name,
        doc=doc,
        example=f'%r = "gnomon.{name}"(%x) {{axes = array<i64: 0>}} '
        f": (tensor<2x3x{element}>) -> tensor<3x{element}>",
        attributes={"axes": INTS},
        operands=("x",),
        infer=infer,
        evaluate=evaluate,
        jvp=jvp,
        transpose=transpose,
        batch=_batch_reduction,
        lower=lower_reduction(combiner, identity),
    )


# ------------------------------------------------------------------------------------------- sums


def _evaluate_sum(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    dtype = x.dtype
    wide = accumulator(dtype)
    return np.asarray(np.add.reduce(x, axis=axes, dtype=wide)).astype(dtype, copy=False)


reduce_sum = _reducer(
    "reduce_sum",
    doc="the sum over axes; integers wrap, small floating point types are summed in f32",
    dtypes=NUMERIC,
    evaluate=_evaluate_sum,
    jvp=jvp_linear,
    transpose=lambda inst, cts, linear: [_spread(inst, cts[0])],
    combiner="add",
    identity=lambda dtype: 0,
)
