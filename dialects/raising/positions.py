"""Reductions of values with their positions: ``argmax`` and ``argmin``.

The region of such a reduction compares two values and two positions, and selects among them. If it
has no other operations, its result is determined by the order of the values: one is larger, they
are equal, or one or both are nan. So evaluating it once for each of these cases proves what it
computes. The first position is always the smaller one, because reductions keep the order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gnomon.dialects.body import Body, operands_of
from gnomon.dialects.contract import Verdict, lookup, params_of
from gnomon.dialects.emit import constant_value, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.elementwise import is_total_order
from gnomon.dialects.raising.source import Region
from gnomon.dialects.types import is_floating, is_integer, type_of

__all__ = ["extremum_with_position"]

_DECISIONS = frozenset(
    f"stablehlo.{name}" for name in ("and", "compare", "not", "or", "select", "xor")
)


def extremum_with_position(
    operands: Sequence[ir.Value],
    initial: Sequence[ir.Value],
    axes: Sequence[int],
    region: Region,
) -> list[ir.Value] | None:
    """The extreme values and their positions; None if the reduction is another one."""
    if len(operands) != 2 or len(axes) != 1 or region.captured:
        return None
    (axis,), (x, positions) = axes, operands
    type_, index_dtype = type_of(x), type_of(positions).dtype
    if not (is_integer(index_dtype) and _is_ramp(positions, axis)) or not type_.shape[axis]:
        return None
    if not (is_integer(type_.dtype) or is_floating(type_.dtype)):
        return None
    start = constant_value(initial[1])
    if start is None or start != 0:
        return None
    for sign, value, place in ((1, "reduce_max", "argmax"), (-1, "reduce_min", "argmin")):
        if _is_extremum(region, type_.dtype, index_dtype, sign) and _is_limit(initial[0], sign):
            results = getattr(ops, value)(x, axes=(axis,))
            return [results, getattr(ops, place)(x, axis=axis, index_dtype=index_dtype)]
    return None


def _is_ramp(value: ir.Value, axis: int) -> bool:
    """Whether a value is 0, 1, 2, ... along an axis."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    operation = owner.operation
    if operation.name == "gnomon.iota":
        return bool(params_of(operation)["dimension"] == axis)
    if operation.name == "gnomon.broadcast_in_dim":
        dims, (operand,) = params_of(operation)["dims"], operands_of(operation)
        whole = (
            axis in dims and type_of(operand).shape[dims.index(axis)] == type_of(value).shape[axis]
        )
        return whole and _is_ramp(operand, dims.index(axis))
    return False


def _is_limit(initial: ir.Value, sign: int) -> bool:
    """Whether no value lies beyond an initial value, which then never replaces another."""
    stored = constant_value(initial)
    if stored is None:
        return False
    dtype = type_of(initial).dtype
    if is_floating(dtype):
        return bool(np.asarray(stored, np.float64) == -sign * np.inf)
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    return limits is not None and int(stored) == (limits.min if sign > 0 else limits.max)


def _is_extremum(region: Region, dtype: np.dtype, index_dtype: np.dtype, sign: int) -> bool:
    """Whether a region chooses the larger value, then a nan, then the first position."""
    if any(op.name not in _DECISIONS or is_total_order(op) for op in region.operations):
        return False
    body = region.close()
    numbers = (0, 1, np.nan) if is_floating(dtype) else (0, 1)
    values = [np.array(v).astype(dtype) for v in numbers]
    i, j = (np.array(n).astype(index_dtype) for n in (0, 1))
    with np.errstate(invalid="ignore"):
        for a, b in itertools.product(values, repeat=2):
            beyond = bool(b > a if sign > 0 else b < a)
            second = beyond or bool(b != b and a == a)  # a nan is the most extreme
            wanted = (b, j) if second else (a, i)
            found = _evaluate(body, [a, i, b, j])
            pairs = zip(found, wanted, strict=True)
            if not all(np.array_equal(f, w, equal_nan=True) for f, w in pairs):
                return False
    return True


def _evaluate(body: Body, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    env = dict(zip(body.arguments, arguments, strict=True))
    for op in body.operations:
        rule = lookup(op).evaluate
        assert not isinstance(rule, Verdict)
        (result,) = op.results
        env[result] = np.asarray(rule(*(env[v] for v in operands_of(op)), **params_of(op)))
    return [env[r] for r in body.results]
