"""Elementwise operations: tables of their C expressions, and the rules that use the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.standalone_c.types import CType, c_type, of_type, part_of
from gnomon.backends.standalone_c.values import Flat, Index, Lazy, Stored, Value
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.types import is_complex, is_floating, is_integer, real_dtype

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["ELEMENTWISE", "apply", "converted"]

# {s} is the suffix of the type's math functions, {t} the computed type, {u} the unsigned type in
# which integers wrap, {n} the stored type's name, {b} the number of bits, {p} the type of the parts
# of a complex number.
_FLOAT = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "divide": "({0} / {1})",
    "remainder": "fmod{s}({0}, {1})",
    "maximum": "gnomon_max_{t}({0}, {1})",
    "minimum": "gnomon_min_{t}({0}, {1})",
    "power": "pow{s}({0}, {1})",
    "atan2": "atan2{s}({0}, {1})",
    "negate": "(-{0})",
    "abs": "fabs{s}({0})",
    "sign": "gnomon_sign_{t}({0})",
    "floor": "floor{s}({0})",
    "ceil": "ceil{s}({0})",
    "round_nearest_even": "rint{s}({0})",
    "round_nearest_afz": "round{s}({0})",
    "exponential": "exp{s}({0})",
    "exponential_minus_one": "expm1{s}({0})",
    "log": "log{s}({0})",
    "log_plus_one": "log1p{s}({0})",
    "logistic": "(1 / (1 + exp{s}(-{0})))",
    "tanh": "tanh{s}({0})",
    "sine": "sin{s}({0})",
    "cosine": "cos{s}({0})",
    "tan": "tan{s}({0})",
    "sqrt": "sqrt{s}({0})",
    "rsqrt": "(1 / sqrt{s}({0}))",
    "cbrt": "cbrt{s}({0})",
    "is_finite": "(isfinite({0}) != 0)",
    "clamp": "gnomon_min_{t}(gnomon_max_{t}({0}, {1}), {2})",
    "complex": "gnomon_complex_of_{t}({0}, {1})",
    "real": "{0}",
    "imag": "0",
}
# `CBackend.lower` has rewritten other functions of complex numbers as functions of their parts.
# Products and quotients are here for programs that are given as StableHLO.
_COMPLEX = {
    "add": "gnomon_complex_add_{p}({0}, {1})",
    "subtract": "gnomon_complex_subtract_{p}({0}, {1})",
    "multiply": "gnomon_complex_multiply_{p}({0}, {1})",
    "divide": "gnomon_complex_divide_{p}({0}, {1})",
    "negate": "gnomon_complex_of_{p}(-{0}.re, -{0}.im)",
    "real": "{0}.re",
    "imag": "{0}.im",
}
_INTEGER = {
    "add": "({t})(({u}){0} + ({u}){1})",
    "subtract": "({t})(({u}){0} - ({u}){1})",
    "multiply": "({t})(({u}){0} * ({u}){1})",
    "divide": "gnomon_divide_{n}({0}, {1})",
    "remainder": "gnomon_remainder_{n}({0}, {1})",
    "maximum": "({0} > {1} ? {0} : {1})",
    "minimum": "({0} < {1} ? {0} : {1})",
    "power": "gnomon_power_{n}({0}, {1})",
    "negate": "({t})(0 - ({u}){0})",
    "abs": "({t})({0} < 0 ? 0 - ({u}){0} : ({u}){0})",
    "sign": "({t})(({0} > 0) - ({0} < 0))",
    "and": "({t})({0} & {1})",
    "or": "({t})({0} | {1})",
    "xor": "({t})({0} ^ {1})",
    "not": "({t})~({u}){0}",
    "shift_left": "gnomon_shift_left_{n}({0}, {1})",
    "shift_right_logical": "gnomon_shift_right_logical_{n}({0}, {1})",
    "shift_right_arithmetic": "gnomon_shift_right_arithmetic_{n}({0}, {1})",
    "popcnt": "({t})gnomon_count_ones((uint64_t)(u{n}){0})",
    "count_leading_zeros": "({t})gnomon_leading_zeros((uint64_t)(u{n}){0}, {b})",
    "clamp": "({2} < {0} || {2} < {1} ? {2} : {1} < {0} ? {0} : {1})",
}
# Compilers warn of comparisons of unsigned numbers with zero.
_UNSIGNED = {"abs": "{0}", "sign": "({t})({0} != 0)"}
_BOOL = {
    "add": "({0} || {1})",
    "or": "({0} || {1})",
    "maximum": "({0} || {1})",
    "multiply": "({0} && {1})",
    "and": "({0} && {1})",
    "minimum": "({0} && {1})",
    "xor": "({0} != {1})",
    "not": "(!{0})",
    "clamp": "(({0} || {1}) && {2})",
}
_COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def _template(name: str, dtype: np.dtype) -> str:
    table = _BOOL if dtype == np.bool_ else _INTEGER if is_integer(dtype) else _FLOAT
    if is_complex(dtype):
        table = _COMPLEX
    if name not in table:
        raise UnsupportedOnTarget(f"there is no C code for it in {dtype}")
    return table[name]


def _format(emitter: Emitter, name: str, operands: Sequence[str], dtype: np.dtype) -> str:
    kind = c_type(dtype)
    if len(operands) > 1 or name in ("abs", "sign") or is_complex(dtype):
        operands = [_repeatable(emitter, x, kind) for x in operands]
    template = _template(name, dtype)
    if dtype.kind == "u" and name in _UNSIGNED:
        template = _UNSIGNED[name]
    text = template.format(
        *operands,
        s=kind.suffix,
        t=kind.computed,
        u=kind.unsigned,
        n=kind.stored.lstrip("u") if name in ("popcnt", "count_leading_zeros") else kind.stored,
        b=8 * dtype.itemsize,
        p=part_of(dtype) if is_complex(dtype) else "",
    )
    return kind.rounded(text) if name != "is_finite" else text


def _repeatable(emitter: Emitter, expression: str, kind: CType) -> str:
    """The expression, if it is a name or a literal; otherwise a new variable with its value."""
    if expression.replace("_", "").replace(".", "").isalnum():
        return expression
    return emitter.local(kind.computed, expression)


def apply(
    emitter: Emitter, name: str, operands: Sequence[str], dtype: np.dtype, result: np.dtype
) -> str:
    """The result of an operation of StableHLO on scalars, in a variable."""
    return emitter.local(c_type(result).computed, _format(emitter, name, operands, dtype))


def _lazy(
    operation: Operation, evaluate: Callable[[Emitter, list[str]], str], *, cheap: bool = False
) -> list[Value]:
    operands = operation.operands
    rank = operation.type.rank

    def element(emitter: Emitter, index: Index | Flat) -> str:
        # Scalars may be combined with arrays, as in select and clamp.
        return evaluate(
            emitter, [x.element(emitter, index if x.type.rank == rank else ()) for x in operands]
        )

    reads = frozenset().union(*(x.reads for x in operands))
    flat = all(x.is_flat for x in operands)
    of_type(operation.type)  # raises an error now, not when an element is needed
    return [Lazy(operation.type, element, reads, flat, cheap)]


def _elementwise(emitter: Emitter, operation: Operation) -> list[Value]:
    name = operation.op.name.removeprefix("stablehlo.")
    dtype = operation.operands[-1].type.dtype
    _template(name, dtype)  # raises an error now, not when an element is needed
    result = operation.type.dtype
    # A part of a number in memory is read where it is needed.
    cheap = name in ("real", "imag") and operation.operands[0].is_cheap
    return _lazy(operation, lambda e, values: apply(e, name, values, dtype, result), cheap=cheap)


def _compare(emitter: Emitter, operation: Operation) -> list[Value]:
    direction = stablehlo.ComparisonDirectionAttr(operation.attribute("comparison_direction")).value
    kind = operation.attribute("compare_type")
    total = kind is not None and "TOTALORDER" in str(kind)
    sign = _COMPARISONS[direction]
    dtype = operation.operands[0].type.dtype
    computed = c_type(dtype).computed
    if is_complex(dtype) and direction not in ("EQ", "NE"):
        raise UnsupportedOnTarget(f"there is no C code for the order of {dtype}")

    def evaluate(emitter: Emitter, values: list[str]) -> str:
        if is_complex(dtype):
            x, y = (_repeatable(emitter, v, c_type(dtype)) for v in values)
            same = f"{x}.re == {y}.re && {x}.im == {y}.im"
            return emitter.local("bool", same if direction == "EQ" else f"!({same})")
        if total:
            values = [f"gnomon_order_{computed}({x})" for x in values]
        return emitter.local("bool", f"({values[0]} {sign} {values[1]})")

    return _lazy(operation, evaluate)


def _select(emitter: Emitter, operation: Operation) -> list[Value]:
    kind = of_type(operation.type).computed
    return _lazy(operation, lambda e, v: e.local(kind, f"{v[0]} ? {v[1]} : {v[2]}"))


def converted(emitter: Emitter, value: str, source: np.dtype, target: np.dtype) -> str:
    """A scalar converted to another dtype; floats saturate to integers, and nan becomes 0."""
    if source == target:
        return value
    kind = c_type(target)
    if is_complex(source):
        value = _repeatable(emitter, value, c_type(source))
        if target == np.bool_:
            return emitter.local("bool", f"{value}.re != 0 || {value}.im != 0")
        if not is_complex(target):
            return converted(emitter, f"{value}.re", real_dtype(source), target)
        parts = [f"({part_of(target)}){value}.{p}" for p in ("re", "im")]
        return emitter.local(kind.computed, f"{{{', '.join(parts)}}}")
    if is_complex(target):
        real = converted(emitter, value, source, real_dtype(target))
        return emitter.local(kind.computed, f"{{{real}, 0}}")
    if target == np.bool_:
        return emitter.local("bool", f"{value} != 0")
    if is_floating(target):
        return emitter.local(kind.computed, kind.rounded(f"({kind.computed}){value}"))
    if is_floating(source):
        return emitter.local(kind.computed, f"gnomon_to_{kind.stored}({value})")
    return emitter.local(kind.computed, f"({kind.computed}){value}")


def _convert(emitter: Emitter, operation: Operation) -> list[Value]:
    source, target = operation.operands[0].type.dtype, operation.type.dtype
    c_type(source)
    return _lazy(operation, lambda e, v: converted(e, v[0], source, target))


def _bitcast(emitter: Emitter, operation: Operation) -> list[Value]:
    (x,), type_ = operation.operands, operation.type
    source, target = of_type(x.type), of_type(type_)
    if (x.type.dtype == np.bool_) != (type_.dtype == np.bool_):
        return [_bits_of_bools(emitter, operation)]
    if is_integer(x.type.dtype) and is_integer(type_.dtype) and x.type.shape == type_.shape:
        return _lazy(operation, lambda e, v: e.local(target.computed, f"({target.computed}){v[0]}"))
    has_name = not any(k.half or k.stored.startswith("gnomon_") for k in (source, target))
    if x.type.shape == type_.shape and has_name:
        name = f"gnomon_bits_{source.stored}_{target.stored}"
        emitter.helpers.add(name)
        return _lazy(operation, lambda e, v: e.local(target.computed, f"{name}({v[0]})"))
    into = emitter.result(operation)
    with emitter.in_memory(x) as stored:
        size = type_.nbytes
        emitter.line(f"memcpy({into.pointer}, {stored.buffer.pointer}, {size});")
    return [Stored(into, type_)]


def _bits_of_bools(emitter: Emitter, operation: Operation) -> Value:
    """A bit cast from or to bools, which are bytes in memory and single bits of other numbers."""
    (x,), type_ = operation.operands, operation.type
    into = emitter.result(operation)
    with emitter.in_memory(x) as stored:
        source = f"((const uint8_t *){stored.buffer.pointer})"
        target = f"((uint8_t *){into.pointer})"
        if type_.dtype == np.bool_:
            with emitter.loops([type_.size]) as (i,):
                emitter.line(f"{target}[{i}] = {source}[{i} / 8] >> ({i} % 8) & 1;")
        else:
            with emitter.loops([type_.nbytes]) as (i,):
                bits = " | ".join(f"{source}[8 * {i} + {k}] << {k}" for k in range(8))
                emitter.line(f"{target}[{i}] = (uint8_t)({bits});")
    return Stored(into, type_)


def _reduce_precision(emitter: Emitter, operation: Operation) -> list[Value]:
    exponent, mantissa = (
        ir.IntegerAttr(operation.attribute(f"{name}_bits")).value
        for name in ("exponent", "mantissa")
    )
    kind = of_type(operation.type)
    function = f"gnomon_reduce_precision_{kind.half or kind.computed}"

    def evaluate(emitter: Emitter, values: list[str]) -> str:
        return emitter.local(kind.computed, f"{function}({values[0]}, {exponent}, {mantissa})")

    return _lazy(operation, evaluate)


ELEMENTWISE: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {
    **{f"stablehlo.{name}": _elementwise for name in {*_FLOAT, *_INTEGER, *_BOOL, *_COMPLEX}},
    "stablehlo.compare": _compare,
    "stablehlo.select": _select,
    "stablehlo.convert": _convert,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.reduce_precision": _reduce_precision,
}
