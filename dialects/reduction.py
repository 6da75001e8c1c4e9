"""Reductions over whole dimensions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.dialects import extrema, pairwise, sharding_rules, work_rules
from gnomon.dialects.attributes import DTYPE, INT, INTS
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    accumulator,
    combiner,
    highest,
    jvp_linear,
    larger,
    lowered,
    lowest,
    normalized,
    require,
    require_dtype,
    smaller,
    stablehlo,
    stablehlo_constant,
    stablehlo_reduce,
)
from gnomon.dialects.contract import NOT_LINEAR, ZERO_TANGENT, Facet, Instance, MappedAxis, Op
from gnomon.dialects.emit import convert, ops, reshape, slice_along, transpose
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import (
    ANY,
    BOOL,
    FLOATING,
    INTEGER,
    NUMERIC,
    TensorType,
    is_floating,
    is_integer,
    short_name,
    type_of,
)

Dims = Sequence[int | None]
Batched: TypeAlias = "tuple[list[ir.Value], list[int | None]]"

# A scalar combiner in a `stablehlo.reduce`: maps the accumulated and the next value to a new one.
Combine: TypeAlias = "Callable[[ir.Value, ir.Value], ir.Value]"

Identity = Callable[[np.dtype], np.ndarray]


def _remaining(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def _spread(inst: Instance, y: ir.Value) -> ir.Value:
    """Broadcast a value of the reduced shape along the reduced axes."""
    (x,), axes = inst.operand_types, inst.params["axes"]
    kept = tuple(d for d in range(x.rank) if d not in axes)
    return ops.broadcast_in_dim(y, shape=x.shape, dims=kept)


def _batch_reduction(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
    (x,), (at,) = operands, dims
    assert at is not None
    axes = tuple(d + (d >= at) for d in inst.params["axes"])
    to = at - sum(d < at for d in axes)
    return inst.op.build([x], {"axes": axes}), [to]


def _reducer(
    name: str,
    *,
    doc: str,
    dtypes: Collection[np.dtype],
    reduce: Callable[..., np.ndarray],
    identity: Identity,
    jvp: Facet,
    transpose: Facet = NOT_LINEAR,
    combine: Combine,
    accumulates: bool = False,
) -> Op:
    """Declare a reduction over ``axes`` that keeps the dtype.

    Args:
      name, doc, dtypes, jvp, transpose: see `combinators.nary`.
      reduce: ``reduce(x, axes, dtype)`` combines the elements of a NumPy array.
      identity: maps a dtype to the identity of the reduction.
      combine: the StableHLO form of the combination of two scalars.
      accumulates: whether to compute in the `accumulator` of the dtype and round once.
    """

    def infer(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        require_dtype(name, x, dtypes)
        return x.with_shape(_remaining(x.shape, normalized(axes, x.rank, name)))

    def evaluate(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        dtype = x.dtype
        if x.size == 0:
            return np.full(_remaining(x.shape, axes), identity(dtype), dtype)
        wide = reduce(x, axes, accumulator(dtype) if accumulates else None)
        return np.asarray(wide, dtype)

    def lower(inst: Instance) -> list[ir.Value]:
        x, (type_,), (result,) = inst.operand, inst.operand_types, inst.result_types
        wide = accumulator(type_.dtype) if accumulates else type_.dtype
        if wide == type_.dtype:
            return _reduce(x, inst.params["axes"], identity(wide), combine)
        (x,) = stablehlo("convert", [x], [type_.with_dtype(wide)])
        reduced = _reduce(x, inst.params["axes"], identity(wide), combine)
        return stablehlo("convert", reduced, [result])

    element = "f32" if np.float32 in dtypes else "i1"
    return Op(
        name=name,
        doc=doc,
        example=f'%r = "gnomon.{name}"(%x) {{axes = array<i64: 0>}} '
        f": (tensor<2x3x{element}>) -> tensor<3x{element}>",
        attributes={"axes": INTS},
        operands=("x",),
        form=Form.REDUCTION,
        stablehlo=("reduce",),
        work=work_rules.reduction,
        infer=infer,
        evaluate=evaluate,
        jvp=jvp,
        linear=linear() if callable(transpose) else None,
        transpose=transpose,
        batch=_batch_reduction,
        sharding=sharding_rules.reduced,
        lower=lower,
    )


def _reduce(
    x: ir.Value, axes: Sequence[int], identity: np.ndarray, combine: Combine
) -> list[ir.Value]:
    return stablehlo_reduce([x], [stablehlo_constant(identity)], axes, lambda a, b: [combine(a, b)])


# ------------------------------------------------------------------------------- sums and products

reduce_sum = _reducer(
    "reduce_sum",
    doc="the sum over axes; integers wrap, small floating point types are summed in f32",
    dtypes=NUMERIC,
    reduce=pairwise.reduce_sum,
    identity=lambda dtype: np.zeros((), dtype),
    jvp=jvp_linear,
    transpose=lambda inst, cts, linear: [_spread(inst, cts[0])],
    combine=combiner("add"),
    accumulates=True,
)


def _jvp_prod(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """The product rule along a tree of products: no divisions, so no special case for zeros."""
    (x,), (t,), (type_,) = inst.operands, tangents, inst.operand_types
    axes = inst.params["axes"]
    if type_.size == 0:
        return [None]
    kept = [d for d in range(type_.rank) if d not in axes]
    shape = (type_.size // inst.type.size, inst.type.size)
    x, t = (reshape(transpose(v, (*axes, *kept)), shape) for v in (x, t))
    while (n := type_of(x).shape[0]) > 1:
        half = n // 2
        x0, x1 = slice_along(x, 0, 0, half), slice_along(x, 0, half, 2 * half)
        t0, t1 = slice_along(t, 0, 0, half), slice_along(t, 0, half, 2 * half)
        product = ops.mul(x0, x1)
        tangent = ops.add(ops.mul(t0, x1), ops.mul(t1, x0))
        if n % 2:
            product = ops.concatenate(product, slice_along(x, 0, n - 1, n), dimension=0)
            tangent = ops.concatenate(tangent, slice_along(t, 0, n - 1, n), dimension=0)
        x, t = product, tangent
    return [reshape(t, inst.type.shape)]


reduce_prod = _reducer(
    "reduce_prod",
    doc="the product over axes; integers wrap, small floating point types are multiplied in f32",
    dtypes=NUMERIC,
    reduce=np.multiply.reduce,
    identity=lambda dtype: np.ones((), dtype),
    jvp=_jvp_prod,
    combine=combiner("mul"),
    accumulates=True,
)


# ------------------------------------------------------------------------------------- max and min


def _jvp_extremum(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """The mean of the tangents of the extreme elements: ties share equally, as in JAX."""
    (x,), (t,) = inst.operands, tangents
    if type_of(x).size == 0:
        return [None]
    chosen = convert(ops.eq(x, _spread(inst, outs[0])), inst.type.dtype)
    total = ops.reduce_sum(ops.mul(t, chosen), **inst.params)
    # A nan result equals no element: the count is then zero, and the derivative nan.
    return [ops.div(total, ops.reduce_sum(chosen, **inst.params))]


reduce_max = _reducer(
    "reduce_max",
    doc="the largest element over axes; nan if any is; complex numbers compare by real part first",
    dtypes=ANY,
    reduce=extrema.reduce_maximum,
    identity=lowest,
    jvp=_jvp_extremum,
    combine=larger,
)
reduce_min = _reducer(
    "reduce_min",
    doc="the smallest element over axes; nan if any is; complex numbers compare by real part first",
    dtypes=ANY,
    reduce=extrema.reduce_minimum,
    identity=highest,
    jvp=_jvp_extremum,
    combine=smaller,
)

# ----------------------------------------------------------------------------------- bits and bools

reduce_and = _reducer(
    "reduce_and",
    doc="logical and over axes on bool, bitwise and on integers",
    dtypes=(BOOL, *INTEGER),
    reduce=np.bitwise_and.reduce,
    identity=lambda dtype: np.array(True if dtype == BOOL else -1).astype(dtype),
    jvp=ZERO_TANGENT,
    combine=combiner("and_"),
)
reduce_or = _reducer(
    "reduce_or",
    doc="logical or over axes on bool, bitwise or on integers",
    dtypes=(BOOL, *INTEGER),
    reduce=np.bitwise_or.reduce,
    identity=lambda dtype: np.zeros((), dtype),
    jvp=ZERO_TANGENT,
    combine=combiner("or_"),
)
reduce_xor = _reducer(
    "reduce_xor",
    doc="logical exclusive or over axes on bool, bitwise on integers",
    dtypes=(BOOL, *INTEGER),
    reduce=np.bitwise_xor.reduce,
    identity=lambda dtype: np.zeros((), dtype),
    jvp=ZERO_TANGENT,
    combine=combiner("xor"),
)

# --------------------------------------------------------------------------- positions of extrema


def _arg_extremum(name: str, *, doc: str, method: str, direction: str, identity: Identity) -> Op:
    """Declare the index of the largest or smallest element along one axis."""

    def infer(x: TensorType, *, axis: int, index_dtype: np.dtype) -> TensorType:
        require_dtype(name, x, (BOOL, *INTEGER, *FLOATING))
        require(0 <= axis < x.rank, name, f"axis {axis} is not a dimension of {x}")
        size = x.shape[axis]
        require(size > 0, name, f"axis {axis} of {x} is empty: there is no element to choose")
        require(
            is_integer(index_dtype) and size - 1 <= int(highest(index_dtype)),
            name,
            f"index_dtype must be an integer dtype that holds {size - 1}, "
            f"got {short_name(index_dtype)}",
        )
        return TensorType(_remaining(x.shape, (axis,)), index_dtype)

    def evaluate(x: np.ndarray, *, axis: int, index_dtype: np.dtype) -> np.ndarray:
        # NumPy takes the first nan as the extreme element, as XLA does.
        return np.asarray(getattr(x, method)(axis), index_dtype)

    def batch(inst: Instance, operands: Values, dims: Dims, axis: MappedAxis) -> Batched:
        (x,), (at,) = operands, dims
        assert at is not None
        along = inst.params["axis"]
        shifted = along + (along >= at)
        results = inst.op.build([x], {**inst.params, "axis": shifted})
        return results, [at - (shifted < at)]

    def combine(
        a: ir.Value, a_index: ir.Value, b: ir.Value, b_index: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        first = getattr(lowered, direction)(a, b)
        same = lowered.eq(a, b)
        if is_floating(type_of(a).dtype):
            a_nan, b_nan = lowered.ne(a, a), lowered.ne(b, b)
            first = lowered.or_(first, lowered.and_(a_nan, lowered.not_(b_nan)))
            same = lowered.or_(same, lowered.and_(a_nan, b_nan))
        first = lowered.or_(first, lowered.and_(same, lowered.lt(a_index, b_index)))
        return lowered.select(first, a, b), lowered.select(first, a_index, b_index)

    def lower(inst: Instance) -> list[ir.Value]:
        (x_type,), axis = inst.operand_types, inst.params["axis"]
        index_dtype = inst.params["index_dtype"]
        index = lowered.iota(dtype=index_dtype, shape=x_type.shape, dimension=axis)
        # If every element equals the identity, the initial index 0 is correct as well.
        initial = [identity(x_type.dtype), np.zeros((), index_dtype)]
        return stablehlo_reduce(
            [inst.operand, index], [stablehlo_constant(v) for v in initial], (axis,), combine
        )[1:]

    return Op(
        name=name,
        doc=doc,
        example=f'%r = "gnomon.{name}"(%x) {{axis = 0 : i64, index_dtype = i32}} '
        ": (tensor<2x3xf32>) -> tensor<3xi32>",
        attributes={"axis": INT, "index_dtype": DTYPE},
        operands=("x",),
        form=Form.REDUCTION,
        stablehlo=("reduce",),
        work=work_rules.reduction,
        infer=infer,
        evaluate=evaluate,
        jvp=ZERO_TANGENT,
        transpose=NOT_LINEAR,
        batch=batch,
        sharding=sharding_rules.reduced,
        lower=lower,
    )


argmax = _arg_extremum(
    "argmax",
    doc="the index of the first largest element along an axis; of the first nan if there is one",
    method="argmax",
    direction="gt",
    identity=lowest,
)
argmin = _arg_extremum(
    "argmin",
    doc="the index of the first smallest element along an axis; of the first nan if there is one",
    method="argmin",
    direction="lt",
    identity=highest,
)
