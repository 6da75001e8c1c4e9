"""Elementwise operations: the rules that evaluate them where an element is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.kernels.arithmetic import (
    NAMES,
    apply,
    compared,
    converted,
    has_code,
    only,
    rounded,
)
from gnomon.backends.kernels.bits import bit_cast, reduced_precision
from gnomon.backends.kernels.code import Code, Element, Pair
from gnomon.backends.kernels.types import of_type
from gnomon.backends.kernels.values import Flat, Index, Lazy, Value
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.types import is_complex

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

__all__ = ["ELEMENTWISE"]


def _lazy(
    operation: Operation,
    evaluate: Callable[[Code, list[Element]], Element],
    *,
    cheap: bool = False,
) -> list[Value]:
    operands = operation.operands
    rank = operation.type.rank

    def element(builder: Builder, index: Index | Flat) -> Element:
        # Scalars may be combined with arrays, as in select and clamp.
        return evaluate(
            builder.code,
            [x.element(builder, index if x.type.rank == rank else ()) for x in operands],
        )

    reads = frozenset().union(*(x.reads for x in operands))
    flat = all(x.is_flat for x in operands)
    of_type(operation.type)  # raises an error now, not when an element is needed
    return [Lazy(operation.type, element, reads, flat, cheap)]


def _elementwise(builder: Builder, operation: Operation) -> list[Value]:
    name = operation.op.name.removeprefix("stablehlo.")
    dtype = operation.operands[-1].type.dtype
    has_code(name, dtype)  # raises an error now, not when an element is needed
    # A part of a number in memory is read where it is needed.
    cheap = name in ("real", "imag") and operation.operands[0].is_cheap
    return _lazy(operation, lambda code, values: apply(code, name, values, dtype), cheap=cheap)


def _compare(builder: Builder, operation: Operation) -> list[Value]:
    direction = stablehlo.ComparisonDirectionAttr(operation.attribute("comparison_direction")).value
    kind = operation.attribute("compare_type")
    total = kind is not None and "TOTALORDER" in str(kind)
    dtype = operation.operands[0].type.dtype
    if is_complex(dtype) and direction not in ("EQ", "NE"):
        raise UnsupportedOnTarget(f"there is no kernel for the order of {dtype}")
    return _lazy(operation, lambda code, v: compared(code, direction, dtype, *v, total=total))


def _chosen(code: Code, values: list[Element]) -> Element:
    condition, yes, no = values
    if isinstance(yes, Pair):
        assert isinstance(no, Pair)
        parts = ((yes.re, no.re), (yes.im, no.im))
        return Pair(*(code.select(only(condition), *each) for each in parts))
    return code.select(only(condition), yes, only(no))


def _select(builder: Builder, operation: Operation) -> list[Value]:
    return _lazy(operation, _chosen)


def _convert(builder: Builder, operation: Operation) -> list[Value]:
    source, target = operation.operands[0].type.dtype, operation.type.dtype
    of_type(operation.operands[0].type)
    return _lazy(operation, lambda code, values: converted(code, values[0], source, target))


def _bitcast(builder: Builder, operation: Operation) -> list[Value]:
    return [bit_cast(operation.operands[0], operation.type)]


def _reduce_precision(builder: Builder, operation: Operation) -> list[Value]:
    exponent, mantissa = (
        ir.IntegerAttr(operation.attribute(f"{name}_bits")).value
        for name in ("exponent", "mantissa")
    )
    dtype: np.dtype[Any] = operation.type.dtype
    return _lazy(
        operation,
        lambda code, v: rounded(
            code, reduced_precision(code, only(v[0]), dtype, exponent, mantissa), dtype
        ),
    )


ELEMENTWISE: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {
    **{f"stablehlo.{name}": _elementwise for name in NAMES},
    "stablehlo.compare": _compare,
    "stablehlo.select": _select,
    "stablehlo.convert": _convert,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.reduce_precision": _reduce_precision,
}
