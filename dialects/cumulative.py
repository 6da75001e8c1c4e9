"""Cumulative reductions along one axis: element i of the result combines elements 0 to i."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from gnomon.dialects import extrema, pairwise, sharding_rules, work_rules
from gnomon.dialects.attributes import BOOL as BOOL_KIND
from gnomon.dialects.attributes import INT, INTS
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
    padded,
    require,
    require_dtype,
    smaller,
    stablehlo,
    stablehlo_constant,
    stablehlo_region,
)
from gnomon.dialects.contract import NOT_LINEAR, Facet, Instance, MappedAxis, Op, Rule
from gnomon.dialects.elementwise.expansion import emitted, evaluated
from gnomon.dialects.emit import full_like, ops, reshape, slice_along, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.sized_forms import compare, current_sizes
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.dialects.traits import Form, linear
from gnomon.dialects.types import INEXACT, NUMERIC, TensorType, is_complex, mlir_type, type_of
from gnomon.dialects.work_rules import WorkRule

# Combines the accumulated arrays with the next ones; each side is a list of arrays of one shape.
Combine: TypeAlias = "Callable[[Values, Values], list[ir.Value]]"


# ----------------------------------------------------------------------------------- parallel scan


def _interleave(even: ir.Value, odd: ir.Value, axis: int) -> ir.Value:
    """Interleave two values along an axis: ``even[0], odd[0], even[1], ...``."""
    shape = type_of(even).shape
    pairs, total = shape[axis], shape[axis] + type_of(odd).shape[axis]
    if total < 2 * pairs:
        edge = tuple(int(d == axis) for d in range(len(shape)))
        none = (0,) * len(shape)
        zero = zeros(type_of(odd).with_shape(()))
        odd = ops.pad(odd, zero, low=none, high=edge, interior=none)
    column = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    both = ops.concatenate(reshape(even, column), reshape(odd, column), dimension=axis + 1)
    joined = reshape(both, (*shape[:axis], 2 * pairs, *shape[axis + 1 :]))
    return joined if total == 2 * pairs else slice_along(joined, axis, 0, total)


def prefix_scan(combine: Combine, parts: Values, axis: int) -> list[ir.Value]:
    """Cumulative results of an associative combination, in work linear in the size of the axis.

    After G. E. Blelloch, Prefix Sums and Their Applications (1990): combine neighbours in pairs,
    scan the pairs recursively, which gives the results at odd positions, and combine each of these
    with the next element to get the result at the even position after it.
    """
    n = type_of(parts[0]).shape[axis]
    if n < 2:
        return list(parts)

    def take(values: Values, start: int, limit: int, stride: int = 1) -> list[ir.Value]:
        return [slice_along(v, axis, start, limit, stride) for v in values]

    odd = prefix_scan(combine, combine(take(parts, 0, n - 1, 2), take(parts, 1, n, 2)), axis)
    even = take(parts, 0, 1)
    if n > 2:
        later = combine(take(odd, 0, (n - 1) // 2), take(parts, 2, n, 2))
        even = [ops.concatenate(a, b, dimension=axis) for a, b in zip(even, later, strict=True)]
    return [_interleave(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _jvp_scan(combine: Combine) -> Rule:
    """A jvp rule that scans over pairs (value, tangent) with ``combine``."""

    def rule(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
        axis, reverse = inst.params["axis"], inst.params["reverse"]
        pair = [inst.operand, tangents[0]]
        if reverse:
            pair = [ops.rev(v, dims=(axis,)) for v in pair]
        tangent = prefix_scan(combine, pair, axis)[1]
        return [ops.rev(tangent, dims=(axis,)) if reverse else tangent]

    return rule


# --------------------------------------------------------------------------------------- the family


def _reversed(x: np.ndarray, axis: int) -> np.ndarray:
    return x[tuple(slice(None, None, -1 if d == axis else 1) for d in range(x.ndim))]


def _reduce_window(
    x: ir.Value, axis: int, reverse: bool, identity: np.ndarray, combine: Rule
) -> ir.Value:
    """Lower to a window that ends at each element, which compilers recognize as cumulative."""
    type_ = type_of(x)
    n = type_.shape[axis]
    edges = np.zeros((type_.rank, 2), np.int64)
    edges[axis, int(reverse)] = n - 1
    created = ir.Operation.create(
        "stablehlo.reduce_window",
        results=[mlir_type(type_)],
        operands=[x, stablehlo_constant(identity)],
        attributes={
            "window_dimensions": INTS.encode([n if d == axis else 1 for d in range(type_.rank)]),
            "padding": ir.DenseElementsAttr.get(edges),
        },
        regions=1,
    )
    scalar = type_.with_shape(())
    stablehlo_region(created.regions[0], [scalar, scalar], lambda a, b: [combine(a, b)])
    return created.results[0]


def _by_doubling(
    x: ir.Value, axis: int, reverse: bool, identity: np.ndarray, combine: Rule
) -> ir.Value:
    """Lower to a loop of log2(n) steps, for a symbolic axis: no window has a symbolic size.

    After each step, an element combines the ``distance`` elements that end at it (after W. D.
    Hillis and G. L. Steele, Data Parallel Algorithms, 1986). The step combines it with the element
    ``distance`` before it; before the first element is the identity.
    """
    type_, size = type_of(x), current_sizes()
    n = type_.shape[axis]
    count = type_of(size.scalar(1))
    none = (0,) * type_.rank
    edge = tuple(n if d == axis else 0 for d in range(type_.rank))

    def not_done(distance: ir.Value, _: ir.Value) -> list[ir.Value]:
        return [compare("LT", distance, size.scalar(n))]

    def step(distance: ir.Value, found: ir.Value) -> list[ir.Value]:
        low, high = (none, edge) if reverse else (edge, none)
        outside = stablehlo_constant(identity)
        wide = padded(found, outside, low, high, (1,) * type_.rank)
        start = distance
        if not reverse:
            (start,) = stablehlo("subtract", [size.scalar(n), distance], [count])
        starts = [start if d == axis else size.scalar(0) for d in range(type_.rank)]
        (shifted,) = stablehlo(
            "dynamic_slice", [wide, *starts], [type_], slice_sizes=INTS.encode(type_.shape)
        )
        # XLA's analysis of loops aborts the process on the sum of a carry with itself.
        (doubled,) = stablehlo("multiply", [distance, size.scalar(2)], [count])
        return [doubled, combine(shifted, found)]

    created = ir.Operation.create(
        "stablehlo.while",
        results=[mlir_type(count), mlir_type(type_)],
        operands=[size.scalar(1), x],
        regions=2,
    )
    stablehlo_region(created.regions[0], [count, type_], not_done)
    stablehlo_region(created.regions[1], [count, type_], step)
    return created.results[1]


def _cumulative(
    name: str,
    *,
    doc: str,
    dtypes: Collection[np.dtype],
    accumulate: Callable[[np.ndarray, int, np.dtype | None], np.ndarray],
    identity: Callable[[np.dtype], np.ndarray],
    jvp: Facet,
    transpose: Facet = NOT_LINEAR,
    combine: Rule,
    accumulates: bool = False,
    work: WorkRule = work_rules.elementwise,
) -> Op:
    """Declare a cumulative op; see `reduction` for the meaning of other arguments.

    Args:
      accumulate: ``accumulate(x, axis, dtype)`` returns the results for a NumPy array.
    """

    def infer(x: TensorType, *, axis: int, reverse: bool) -> TensorType:
        require_dtype(name, x, dtypes)
        require(0 <= axis < x.rank, name, f"axis {axis} is not a dimension of {x}")
        return x

    def evaluate(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        dtype = x.dtype
        wide = accumulator(dtype) if accumulates else None
        if reverse:
            result = _reversed(accumulate(_reversed(x, axis), axis, wide), axis)
        else:
            result = accumulate(x, axis, wide)
        return result.astype(dtype, copy=False)

    def batch(
        inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
    ) -> tuple[list[ir.Value], list[int]]:
        (x,), (at,) = operands, dims
        assert at is not None
        along = inst.params["axis"]
        return inst.op.build([x], {**inst.params, "axis": along + (along >= at)}), [at]

    def lower(inst: Instance) -> list[ir.Value]:
        (type_,), params = inst.operand_types, inst.params
        if type_.size == 0:
            return list(inst.operands)
        wide = accumulator(type_.dtype) if accumulates else type_.dtype
        x = inst.operand
        if wide != type_.dtype:
            (x,) = stablehlo("convert", [x], [type_.with_dtype(wide)])
        is_symbolic = is_symbolic_dim(type_.shape[params["axis"]])
        lower_one = _by_doubling if is_symbolic else _reduce_window
        result = lower_one(x, params["axis"], params["reverse"], identity(wide), combine)
        if wide == type_.dtype:
            return [result]
        return stablehlo("convert", [result], inst.result_types)

    return Op(
        name=name,
        doc=doc,
        example=f'%r = "gnomon.{name}"(%x) {{axis = 0 : i64, reverse = false}} '
        ": (tensor<4xf32>) -> tensor<4xf32>",
        attributes={"axis": INT, "reverse": BOOL_KIND},
        operands=("x",),
        form=Form.SCAN,
        work=work,
        infer=infer,
        evaluate=evaluate,
        jvp=jvp,
        linear=linear() if callable(transpose) else None,
        transpose=transpose,
        batch=batch,
        sharding=sharding_rules.along_axis("axis"),
        lower=lower,
    )


# ------------------------------------------------------------------------------- sums and products


def _transpose_sum(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    params = {**inst.params, "reverse": not inst.params["reverse"]}
    return inst.op.build([cotangents[0]], params)


cumsum = _cumulative(
    "cumsum",
    doc="cumulative sums along an axis, starting at the end if reverse",
    dtypes=NUMERIC,
    accumulate=partial(pairwise.accumulate, np.add),
    identity=lambda dtype: np.zeros((), dtype),
    jvp=jvp_linear,
    transpose=_transpose_sum,
    combine=combiner("add"),
    accumulates=True,
)


def _product_rule(before: Values, after: Values) -> list[ir.Value]:
    (x, t), (y, u) = before, after
    return [ops.mul(x, y), ops.add(ops.mul(t, y), ops.mul(u, x))]


cumprod = _cumulative(
    "cumprod",
    doc="cumulative products along an axis, starting at the end if reverse",
    dtypes=NUMERIC,
    accumulate=np.multiply.accumulate,
    identity=lambda dtype: np.ones((), dtype),
    jvp=_jvp_scan(_product_rule),
    combine=combiner("mul"),
    accumulates=True,
)

# ------------------------------------------------------------------------------------- max and min


def _extremum_rule(name: str) -> Combine:
    """The tangent of the side that is chosen; at a tie the mean of both, and for a nan 0."""

    def combine(before: Values, after: Values) -> list[ir.Value]:
        (x, t), (y, u) = before, after
        out = getattr(ops, name)(x, y)
        mean = ops.mul(ops.add(t, u), full_like(t, 0.5))
        second = ops.select(ops.eq(y, out), u, full_like(u, 0))
        chosen = ops.select(ops.eq(x, out), ops.select(ops.eq(y, out), mean, t), second)
        return [out, chosen]

    return combine


cummax = _cumulative(
    "cummax",
    doc="cumulative maxima along an axis, starting at the end if reverse; nan from the first nan",
    dtypes=NUMERIC,
    accumulate=extrema.accumulate_maximum,
    identity=lowest,
    jvp=_jvp_scan(_extremum_rule("max")),
    combine=larger,
)
cummin = _cumulative(
    "cummin",
    doc="cumulative minima along an axis, starting at the end if reverse; nan from the first nan",
    dtypes=NUMERIC,
    accumulate=extrema.accumulate_minimum,
    identity=highest,
    jvp=_jvp_scan(_extremum_rule("min")),
    combine=smaller,
)

# --------------------------------------------------------------------------------------- logsumexp


def logaddexp(build: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    """log(exp(x) + exp(y)) without overflow; ``build`` is `emitted`, or `lowered` for StableHLO.

    The difference of equal infinities is nan, so their sum, the same infinity, is used instead.
    """
    if is_complex(type_of(x).dtype):
        return complex_logaddexp(build, x, y)
    # Choices by a comparison have the derivatives of the function at equal arguments too, to every
    # order; max and abs have none there.
    is_ordered = build.gt(x, y)
    high, low = build.select(is_ordered, x, y), build.select(is_ordered, y, x)
    difference = build.sub(low, high)
    result = build.add(high, build.log1p(build.exp(difference)))
    return build.select(build.ne(difference, difference), build.add(x, y), result)


def complex_logaddexp(build: Any, x: Any, y: Any) -> Any:
    """`logaddexp` of complex numbers; the imaginary part of the result is in [-pi, pi].

    ``build`` is any namespace of ops. If exp of one operand is zero, the result is the other.
    """
    high = build.max(x, y)
    difference = build.sub(build.add(x, y), build.mul(high, build.full_like(high, 2)))
    result = build.add(high, build.log1p(build.exp(difference)))
    angle = build.imag(result)
    turn = build.full_like(angle, 2 * np.pi)
    turns = build.round(build.div(angle, turn), rounding_method="TO_NEAREST_EVEN")
    result = build.complex(build.real(result), build.sub(angle, build.mul(turn, turns)))
    for one, other in ((x, y), (y, x)):
        part = build.real(one)
        result = build.select(build.eq(part, build.full_like(part, -np.inf)), other, result)
    return result


def _accumulate_logaddexp(x: np.ndarray, axis: int, dtype: np.dtype | None) -> np.ndarray:
    if not is_complex(x.dtype):
        return pairwise.accumulate(np.logaddexp, x, axis, dtype)
    return np.moveaxis(_scan_complex(np.moveaxis(x, axis, 0)), 0, axis)


def _scan_complex(x: np.ndarray) -> np.ndarray:
    """Scan the first dimension by recursive halving: NumPy's logaddexp is real."""
    if len(x) < 2:
        return x
    result = x.copy()
    result[1::2] = _scan_complex(complex_logaddexp(evaluated, x[:-1:2], x[1::2]))
    result[2::2] = complex_logaddexp(evaluated, result[1:-1:2], x[2::2])
    return result


def _logsumexp_identity(dtype: np.dtype) -> np.ndarray:
    return np.array(-np.inf, dtype) if is_complex(dtype) else lowest(dtype)


def _logaddexp_rule(before: Values, after: Values) -> list[ir.Value]:
    """Weight each tangent by its share in the sum; equal infinities share equally."""
    (x, t), (y, u) = before, after
    out = logaddexp(emitted, x, y)
    zero, one, half = (full_like(x, value) for value in (0.0, 1.0, 0.5))
    is_x, is_y = ops.eq(x, out), ops.eq(y, out)

    def share(v: ir.Value, is_out: ir.Value, other_is_out: ir.Value) -> ir.Value:
        # Select before exp, so that the branch not taken cannot give a nan derivative.
        weight = ops.exp(ops.select(is_out, zero, ops.sub(v, out)))
        return ops.mul(weight, ops.select(ops.and_(is_out, other_is_out), half, one))

    tangent = ops.add(ops.mul(t, share(x, is_x, is_y)), ops.mul(u, share(y, is_y, is_x)))
    return [out, tangent]


cumlogsumexp = _cumulative(
    "cumlogsumexp",
    doc="cumulative log(sum(exp(x))) along an axis, starting at the end if reverse",
    work=work_rules.transcendental,
    dtypes=INEXACT,
    accumulate=_accumulate_logaddexp,
    identity=_logsumexp_identity,
    jvp=_jvp_scan(_logaddexp_rule),
    combine=lambda x, y: logaddexp(lowered, x, y),
    accumulates=True,
)
