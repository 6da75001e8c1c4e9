"""The ops of complex numbers as ops on their parts.

For complex operands and results of an op, the operands in a rule's `Instance`, and the values that
the rule returns, are `Parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from gnomon.backends.complex_numbers.functions import LogOfSize, add_exponentials, functions
from gnomon.backends.complex_numbers.parts import (
    Parts,
    Value,
    divide,
    equal,
    full_parts,
    is_infinite_part,
    larger,
    magnitude,
    multiply,
    on_each_part,
    smaller,
)
from gnomon.dialects.combinators import highest, lowest
from gnomon.dialects.contract import REGISTRY, Instance, Op
from gnomon.dialects.cumulative import prefix_scan
from gnomon.dialects.elementwise.arithmetic import square_of_parts
from gnomon.dialects.emit import constant, convert, full, full_like, ops, slice_along, transpose
from gnomon.dialects.emit import reshape as reshaped
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import BOOL, is_complex, real_dtype

__all__ = ["rules"]

_Rule: TypeAlias = "Callable[[Instance], Sequence[Value]]"
_Combine: TypeAlias = "Callable[[Parts, Parts], Parts]"

# ----------------------------------------------------------------------------------- part by part


def _each_part(inst: Instance) -> list[Value]:
    """Apply an op to the real parts, then to the imaginary parts."""
    return _on_parts(inst, (inst.params, inst.params))


def _on_parts(inst: Instance, params: Sequence[dict[str, Any]]) -> list[Value]:
    real, imag = (
        inst.op.build([x[k] if isinstance(x, Parts) else x for x in inst.operands], params[k])
        for k in range(2)
    )
    return [Parts(a, b) for a, b in zip(real, imag, strict=True)]


def _gather(inst: Instance) -> list[Value]:
    fill = np.asarray(inst.params["fill_value"])
    return _on_parts(inst, [{**inst.params, "fill_value": f} for f in (fill.real, fill.imag)])


def _barrier(inst: Instance) -> list[Value]:
    flat = [p for x in inst.operands for p in (x if isinstance(x, Parts) else (x,))]
    rest = iter(inst.op.build(flat, inst.params))
    return [
        Parts(next(rest), next(rest)) if isinstance(x, Parts) else next(rest) for x in inst.operands
    ]


_EACH_PART_FORMS = (
    *(Form.VIEW, Form.JOIN, Form.INDEXING, Form.SCATTER, Form.IDENTITY),
    *(Form.ELEMENTWISE, Form.REDUCTION, Form.SCAN, Form.WINDOW),
)


def _acts_on_each_part(op: Op) -> bool:
    """Whether a result's part depends on that part of the operands only, as a linear function."""
    is_linear = op.linear is not None and not op.linear.has_factors
    return (is_linear and op.form in _EACH_PART_FORMS) or op.name == "stop_gradient"


# ------------------------------------------------------------------------------ parts and literals


def _constant(inst: Instance) -> list[Value]:
    pairs: np.ndarray = inst.params["value"]
    return [Parts(*(constant(_splat(np.asarray(pairs[..., k]))) for k in range(2)))]


def _splat(array: np.ndarray) -> np.ndarray:
    """An array of equal numbers as a view of one of them, which is stored once."""
    if array.size < 2:
        return array
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    first = (0,) * array.ndim
    return np.broadcast_to(array[first], array.shape) if (bits == bits[first]).all() else array


def _iota(inst: Instance) -> list[Value]:
    dtype = real_dtype(inst.type.dtype)
    real = ops.iota(**{**inst.params, "dtype": dtype})
    return [Parts(real, full_like(real, 0))]


def _convert(inst: Instance) -> list[Value]:
    (x,), dtype = inst.operands, inst.params["dtype"]
    if dtype == BOOL:
        return [ops.or_(*(ops.convert(p, dtype=dtype) for p in x))]
    if not is_complex(dtype):
        return [convert(x.real, dtype)]
    part = real_dtype(dtype)
    if isinstance(x, Parts):
        return [on_each_part(lambda p: convert(p, part), x)]
    real = convert(x, part)
    return [Parts(real, full_like(real, 0))]


# -------------------------------------------------------------------------------------- arithmetic


def _of(emit: Callable[..., Value]) -> _Rule:
    """A rule from a function of the operands."""
    return lambda inst: [emit(*inst.operands)]


def _square(x: Parts) -> Parts:
    return Parts(*square_of_parts(ops, *x, full_like(x.real, 0)))


def _sign(x: Parts) -> Parts:
    # The absolute value of large numbers overflows.
    one = full_like(x.real, 1)
    is_large = ops.gt(ops.max(ops.abs(x.real), ops.abs(x.imag)), one)
    scale = ops.select(is_large, full_like(one, 0.25), one)
    x = on_each_part(lambda part: ops.mul(part, scale), x)
    size = magnitude(x)
    zero = full_like(size, 0)
    is_zero = ops.eq(size, zero)
    infinite = [is_infinite_part(p) for p in x]
    # As in NumPy, the direction is that of an infinite part, if the other one is not infinite.
    has_direction = ops.ne(*infinite)

    def sign(p: Value, is_infinite: Value) -> Value:
        part = ops.select(is_zero, zero, ops.div(p, size))
        return ops.select(has_direction, ops.select(is_infinite, ops.sign(p), zero), part)

    return Parts(*map(sign, x, infinite))


def _integer_pow(inst: Instance) -> list[Value]:
    (base,), y = inst.operands, inst.params["y"]
    result: Parts | None = None
    exponent = abs(y)
    while exponent:
        if exponent & 1:
            result = base if result is None else multiply(result, base)
        exponent >>= 1
        if exponent:
            base = multiply(base, base)
    one = full_parts(base, 1)
    if result is None:
        return [one]
    return [divide(one, result) if y < 0 else result]


# -------------------------------------------------------------------------------------- reductions


def _reduced(combine: _Combine, identity: Callable[[np.dtype], Any]) -> _Rule:
    """A reduction in halves."""

    def rule(inst: Instance) -> list[Value]:
        (x,), (type_,), axes = inst.operands, inst.operand_types, inst.params["axes"]
        if type_.size == 0:
            number, part = complex(identity(type_.dtype)), real_dtype(type_.dtype)
            return [
                Parts(*(full(inst.type.with_dtype(part), n) for n in (number.real, number.imag)))
            ]
        kept = [d for d in range(type_.rank) if d not in axes]
        rows = type_.size // inst.type.size
        shape = (rows, *(type_.shape[d] for d in kept))
        values = on_each_part(lambda p: reshaped(transpose(p, (*axes, *kept)), shape), x)
        while rows > 1:
            half = rows // 2
            low, high = (_rows(values, k * half, (k + 1) * half) for k in range(2))
            combined = combine(low, high)
            if rows % 2:
                last = _rows(values, rows - 1, rows)
                combined = on_each_part(partial(ops.concatenate, dimension=0), combined, last)
            values, rows = combined, half + rows % 2
        return [on_each_part(lambda p: reshaped(p, inst.type.shape), values)]

    return rule


def _rows(x: Parts, start: int, limit: int) -> Parts:
    return on_each_part(lambda p: slice_along(p, 0, start, limit), x)


def _scanned(combine: _Combine) -> _Rule:
    """A cumulative op as a parallel scan."""

    def rule(inst: Instance) -> list[Value]:
        (x,), axis = inst.operands, inst.params["axis"]
        if inst.type.size == 0:
            return [x]

        def turned(y: Sequence[ir.Value]) -> Parts:
            if not inst.params["reverse"]:
                return Parts(*y)
            return on_each_part(partial(ops.rev, dims=(axis,)), Parts(*y))

        found = prefix_scan(lambda a, b: list(combine(Parts(*a), Parts(*b))), turned(x), axis)
        return [turned(found)]

    return rule


# ---------------------------------------------------------------------------------------- products


def _product(inst: Instance) -> list[Value]:
    """A product of matrices, or a convolution, as four real ones; two if one side is real."""
    part = real_dtype(inst.type.dtype)
    params = {**inst.params, "dtype": part}
    lhs, rhs = (
        [convert(p, part) for p in (x if isinstance(x, Parts) else (x,))] for x in inst.operands
    )
    # The barrier keeps the products out of the kernels that write complex numbers, on which IREE's
    # compiler crashes for ROCm.
    products = ops.optimization_barrier(*(inst.op(x, y, **params) for x in lhs for y in rhs))
    if len(products) == 2:
        return [Parts(*products)]
    first, second, third, fourth = products
    return [Parts(ops.sub(first, fourth), ops.add(second, third))]


_RULES: dict[str, _Rule] = {
    **{name: _each_part for name, op in REGISTRY.items() if _acts_on_each_part(op)},
    "gnomon.gather": _gather,
    "gnomon.optimization_barrier": _barrier,
    "gnomon.constant": _constant,
    "gnomon.iota": _iota,
    "gnomon.convert": _convert,
    "gnomon.real": _of(lambda x: x.real),
    "gnomon.imag": _of(lambda x: x.imag),
    "gnomon.complex": _of(Parts),
    "gnomon.conj": _of(lambda x: Parts(x.real, ops.neg(x.imag))),
    "gnomon.mul": _of(multiply),
    "gnomon.div": _of(divide),
    "gnomon.square": _of(_square),
    "gnomon.abs": _of(magnitude),
    "gnomon.sign": _of(_sign),
    "gnomon.integer_pow": _integer_pow,
    "gnomon.eq": _of(equal),
    "gnomon.ne": _of(lambda x, y: ops.not_(equal(x, y))),
    "gnomon.max": _of(larger),
    "gnomon.min": _of(smaller),
    "gnomon.reduce_prod": _reduced(multiply, lambda dtype: 1),
    "gnomon.reduce_max": _reduced(larger, lowest),
    "gnomon.reduce_min": _reduced(smaller, highest),
    "gnomon.cumprod": _scanned(multiply),
    "gnomon.cummax": _scanned(larger),
    "gnomon.cummin": _scanned(smaller),
    "gnomon.cumlogsumexp": _scanned(add_exponentials),
    "gnomon.dot_general": _product,
    "gnomon.conv_general_dilated": _product,
}


def rules(log_of_size: LogOfSize | None = None) -> dict[str, _Rule]:
    """The rules by full op name; see `functions` for the argument."""
    found = functions(log_of_size)
    return {**_RULES, **{f"gnomon.{name}": _of(function) for name, function in found.items()}}
