"""Cholesky factors and triangular systems."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.kernels.arithmetic import apply, constant
from gnomon.backends.kernels.code import Code, Element, Pair, Place
from gnomon.backends.kernels.folds import Total
from gnomon.backends.kernels.movements import copied, filled
from gnomon.backends.kernels.values import Buffer, Stored, Value
from gnomon.dialects.types import TensorType, is_complex, is_floating

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

__all__ = ["TRIANGULAR"]


def _flag(attribute: Any) -> bool:
    return attribute is not None and str(attribute) == "true"


def _check(type_: TensorType) -> None:
    if not (is_complex(type_.dtype) or is_floating(type_.dtype)) or type_.dtype.itemsize < 4:
        raise UnsupportedOnTarget(f"there is no kernel for it in {type_.dtype}")


def _conjugate(code: Code, x: Element) -> Element:
    return Pair(x.re, code.same("arith.negf", x.im)) if isinstance(x, Pair) else x


def _by_real(code: Code, x: Element, divisor: Element) -> Element:
    """A quotient by a number that is known to be real."""
    if isinstance(x, Pair):
        assert isinstance(divisor, Pair)
        return Pair(*(code.same("arith.divf", part, divisor.re) for part in (x.re, x.im)))
    assert not isinstance(divisor, Pair)
    return code.same("arith.divf", x, divisor)


def _cholesky(builder: Builder, operation: Operation) -> list[Value]:
    """The factor is nan if the matrix is not positive definite; the other triangle is 0."""
    (a,), type_ = operation.operands, operation.type
    _check(type_)
    n, code, dtype = type_.shape[-1], builder.code, type_.dtype
    into = builder.result(operation)
    row, column = (n, 1) if _flag(operation.attribute("lower")) else (1, n)
    builder.compute(filled(builder, type_, 0), into)
    batches = math.prod(type_.shape[:-2])
    with builder.in_memory(a) as x, code.loops([batches], independent=False) as (batch,):

        def at(i: Place, j: Place) -> Place:
            place = code.plus(code.times(i, row), code.times(j, column))
            return code.plus(code.times(batch, n * n), place)

        goes_on = code.variable("i1", code.constant(True, "i1"))
        with (
            code.loop(0, n) as i,
            code.loop(0, code.plus(i, 1)) as j,
            code.when(code.value(goes_on)),
        ):
            total = Total(code, builder.load(x.buffer, at(i, j)))
            with code.loop(0, j) as k:
                left, right = (builder.load(into, at(r, k)) for r in (i, j))
                term = apply(code, "multiply", [left, _conjugate(code, right)], dtype)
                total.set(apply(code, "subtract", [total.get(), term], dtype))
            sum_ = total.get()
            real = sum_.re if isinstance(sum_, Pair) else sum_
            zero = code.constant(0.0, real.type)
            is_diagonal = code.compare("eq", i, j)
            with code.when(is_diagonal):
                root = code.same("math.sqrt", real)
                builder.store(into, at(i, i), Pair(root, zero) if is_complex(dtype) else root)
                code.assign(goes_on, code.compare("ogt", real, zero))
            with code.when(code.same("arith.xori", is_diagonal, code.constant(True, "i1"))):
                pivot = builder.load(into, at(j, j))
                builder.store(into, at(i, j), _by_real(code, sum_, pivot))
        failed = code.same("arith.xori", code.value(goes_on), code.constant(True, "i1"))
        nan = complex(math.nan, math.nan) if is_complex(dtype) else math.nan
        with code.when(failed), code.loop(0, n) as i, code.loop(0, code.plus(i, 1)) as j:
            builder.store(into, at(i, j), constant(code, nan, dtype))
    return [Stored(into, type_)]


def _triangular_solve(builder: Builder, operation: Operation) -> list[Value]:
    type_, code = operation.type, builder.code
    _check(type_)
    n = operation.operands[0].type.shape[-1]
    into = copied(builder, operation, 1)
    form = str(operation.attribute("transpose_a"))
    left, lower, unit = (
        _flag(operation.attribute(a)) for a in ("left_side", "lower", "unit_diagonal")
    )
    # x a = b is solved as the system of the transposes, in which the transpose of a is on the left.
    steps = (n, 1)
    if ("NO_TRANSPOSE" not in form) == left:
        lower, steps = not lower, (1, n)
    rows, columns = type_.shape[-2:]
    count, along = (columns, (columns, 1)) if left else (rows, (1, columns))
    with (
        builder.in_memory(operation.operands[0]) as a,
        code.loops([math.prod(type_.shape[:-2])], independent=False) as (batch,),
    ):

        def factor(i: Place, j: Place) -> Element:
            place = code.plus(code.times(i, steps[0]), code.times(j, steps[1]))
            element = builder.load(a.buffer, code.plus(code.times(batch, n * n), place))
            return _conjugate(code, element) if "ADJOINT" in form else element

        def at(i: Place, j: Place) -> Place:
            place = code.plus(code.times(i, along[0]), code.times(j, along[1]))
            return code.plus(code.times(batch, rows * columns), place)

        with code.loop(0, n) as step:
            i = step if lower else code.minus(n - 1, step)
            with code.loop(0 if lower else code.plus(i, 1), i if lower else n) as k:
                x = factor(i, k)
                with code.loop(0, count, independent=True) as j:
                    _subtract(builder, into, at(i, j), x, at(k, j))
            if not unit:
                pivot = factor(i, i)
                with code.loop(0, count, independent=True) as j:
                    old = builder.load(into, at(i, j))
                    builder.store(into, at(i, j), apply(code, "divide", [old, pivot], type_.dtype))
    return [Stored(into, type_)]


def _subtract(builder: Builder, into: Buffer, to: Place, factor: Element, of: Place) -> None:
    """Subtract a multiple of an element from another one."""
    dtype, code = into.type.dtype, builder.code
    term = apply(code, "multiply", [factor, builder.load(into, of)], dtype)
    builder.store(into, to, apply(code, "subtract", [builder.load(into, to), term], dtype))


TRIANGULAR: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {
    "stablehlo.cholesky": _cholesky,
    "stablehlo.triangular_solve": _triangular_solve,
}
