"""Elementwise operations: what each computes from scalars, by the kind of its dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.kernels import integers
from gnomon.backends.kernels.code import Code, Element, Pair, Scalar
from gnomon.backends.kernels.types import kind_of
from gnomon.dialects.types import is_complex, is_floating, is_integer

__all__ = ["apply", "compared", "constant", "converted", "has_code", "only", "rounded"]

DType: TypeAlias = "np.dtype[Any]"
_Function: TypeAlias = "Callable[..., Element]"


def _same(name: str) -> _Function:
    return lambda code, dtype, *operands: code.same(name, *operands)


def _sign(code: Code, dtype: DType, x: Scalar) -> Scalar:
    """The sign; zeros and nan are their own."""
    zero, one = (code.constant(n, x.type) for n in (0.0, 1.0))
    of_number = code.same("math.copysign", one, x)
    return code.select(code.compare("one", x, zero), of_number, x)


def _inverse(code: Code, x: Scalar) -> Scalar:
    return code.same("arith.divf", code.constant(1.0, x.type), x)


def _logistic(code: Code, dtype: DType, x: Scalar) -> Scalar:
    exponential = code.same("math.exp", code.same("arith.negf", x))
    return _inverse(code, code.same("arith.addf", code.constant(1.0, x.type), exponential))


def _is_finite(code: Code, dtype: DType, x: Scalar) -> Scalar:
    infinity = code.constant(math.inf, x.type)
    return code.compare("olt", code.same("math.absf", x), infinity)


def _clamp(low: str, high: str) -> _Function:
    return lambda code, dtype, least, x, most: code.same(high, code.same(low, x, least), most)


_FLOAT: dict[str, _Function] = {
    "add": _same("arith.addf"),
    "subtract": _same("arith.subf"),
    "multiply": _same("arith.mulf"),
    "divide": _same("arith.divf"),
    "remainder": _same("arith.remf"),
    "maximum": _same("arith.maximumf"),
    "minimum": _same("arith.minimumf"),
    "power": _same("math.powf"),
    "atan2": _same("math.atan2"),
    "negate": _same("arith.negf"),
    "abs": _same("math.absf"),
    "sign": _sign,
    "floor": _same("math.floor"),
    "ceil": _same("math.ceil"),
    "round_nearest_even": _same("math.roundeven"),
    "round_nearest_afz": _same("math.round"),
    "exponential": _same("math.exp"),
    "exponential_minus_one": _same("math.expm1"),
    "log": _same("math.log"),
    "log_plus_one": _same("math.log1p"),
    "logistic": _logistic,
    "tanh": _same("math.tanh"),
    "sine": _same("math.sin"),
    "cosine": _same("math.cos"),
    "tan": _same("math.tan"),
    "sqrt": _same("math.sqrt"),
    "rsqrt": lambda code, dtype, x: _inverse(code, code.same("math.sqrt", x)),
    "cbrt": _same("math.cbrt"),
    "is_finite": _is_finite,
    "clamp": _clamp("arith.maximumf", "arith.minimumf"),
    "complex": lambda code, dtype, re, im: Pair(re, im),
    "real": lambda code, dtype, x: x,
    "imag": lambda code, dtype, x: code.constant(0.0, x.type),
}


def _parts(name: str) -> _Function:
    def function(code: Code, dtype: DType, *operands: Pair) -> Pair:
        parts = ([x.re for x in operands], [x.im for x in operands])
        return Pair(*(code.same(name, *each) for each in parts))

    return function


def _complex_product(code: Code, dtype: DType, x: Pair, y: Pair) -> Pair:
    """NumPy's product."""

    def product(a: Scalar, b: Scalar) -> Scalar:
        return code.same("arith.mulf", a, b)

    re = code.same("arith.subf", product(x.re, y.re), product(x.im, y.im))
    return Pair(re, code.same("arith.addf", product(x.re, y.im), product(x.im, y.re)))


def _complex_quotient(code: Code, dtype: DType, x: Pair, y: Pair) -> Pair:
    """The quotient of R. L. Smith (Algorithm 116, 1962)."""

    def same(name: str, *operands: Scalar) -> Scalar:
        return code.same(f"arith.{name}", *operands)

    def select(condition: Scalar, yes: Sequence[Scalar], no: Sequence[Scalar]) -> list[Scalar]:
        return [code.select(condition, a, b) for a, b in zip(yes, no, strict=True)]

    zero = code.constant(0.0, x.re.type)
    sizes = [code.same("math.absf", part) for part in (y.re, y.im)]
    by_real = code.compare("oge", *sizes)
    large, small = select(by_real, [y.re, y.im], [y.im, y.re])
    # (a + ib) / (c + id) with c the larger part; with d the larger one, a and b change places.
    a, b = select(by_real, [x.re, x.im], [x.im, x.re])
    ratio = same("divf", small, large)
    below = same("addf", large, same("mulf", small, ratio))
    re = same("divf", same("addf", a, same("mulf", b, ratio)), below)
    difference = same("subf", b, same("mulf", a, ratio))
    im = same("divf", difference, below)
    im = code.select(by_real, im, same("divf", same("negf", difference), below))
    is_zero = code.both([code.compare("oeq", part, zero) for part in (y.re, y.im)])
    by_zero = [same("divf", part, sizes[0]) for part in (x.re, x.im)]
    return Pair(*select(is_zero, by_zero, [re, im]))


# Other functions of complex numbers are rewritten as functions of their parts before. Products and
# quotients are here for programs that are given as StableHLO.
_COMPLEX: dict[str, _Function] = {
    "add": _parts("arith.addf"),
    "subtract": _parts("arith.subf"),
    "multiply": _complex_product,
    "divide": _complex_quotient,
    "negate": _parts("arith.negf"),
    "real": lambda code, dtype, x: x.re,
    "imag": lambda code, dtype, x: x.im,
}

_BOOL: dict[str, _Function] = {
    **dict.fromkeys(("add", "or", "maximum"), _same("arith.ori")),
    **dict.fromkeys(("multiply", "and", "minimum"), _same("arith.andi")),
    "xor": _same("arith.xori"),
    "not": lambda code, dtype, x: code.same("arith.xori", x, code.constant(True, "i1")),
    "clamp": _clamp("arith.ori", "arith.andi"),
}


def _function(name: str, dtype: DType) -> _Function:
    table = _BOOL if dtype == np.bool_ else integers.TABLE if is_integer(dtype) else _FLOAT
    if is_complex(dtype):
        table = _COMPLEX
    if name not in table:
        raise UnsupportedOnTarget(f"there is no kernel for it in {dtype}")
    return table[name]


NAMES = frozenset({*_FLOAT, *_COMPLEX, *_BOOL, *integers.TABLE})


def has_code(name: str, dtype: DType) -> None:
    """Raises `UnsupportedOnTarget` if an operation has no code for a dtype."""
    _function(name, dtype)
    kind_of(dtype)


def rounded(code: Code, element: Element, dtype: DType) -> Element:
    """A result in the computed type, rounded to the precision of a 16-bit float."""
    kind = kind_of(dtype)
    if not kind.is_half or not isinstance(element, Scalar) or element.type != kind.computed:
        return element
    return code.cast("arith.extf", code.cast("arith.truncf", element, kind.stored), kind.computed)


def apply(code: Code, name: str, operands: Sequence[Element], dtype: DType) -> Element:
    """The result of an operation of StableHLO on elements of a dtype."""
    return rounded(code, _function(name, dtype)(code, dtype, *operands), dtype)


def only(element: Element) -> Scalar:
    """An element that is known to be a real number, an integer or a bool."""
    assert isinstance(element, Scalar)
    return element


def constant(code: Code, value: Any, dtype: DType) -> Element:
    """A constant of a dtype."""
    kind = kind_of(dtype)
    if is_complex(dtype):
        number = complex(value)
        return Pair(*(code.constant(x, kind.computed) for x in (number.real, number.imag)))
    if is_floating(dtype):
        return code.constant(float(value), kind.computed)
    if dtype == np.bool_:
        return code.constant(bool(value), "i1")
    # Constants of MLIR are signless: they are written as signed numbers.
    return code.constant(integers.signed(int(value), 8 * dtype.itemsize), kind.computed)


_PREDICATES = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def compared(
    code: Code, direction: str, dtype: DType, x: Element, y: Element, *, total: bool = False
) -> Scalar:
    """The result of a comparison of elements of a dtype.

    Args:
      code: the text.
      direction: ``EQ``, ``NE``, ``LT``, ``LE``, ``GT`` or ``GE``.
      dtype: the dtype.
      x, y: the elements.
      total: whether floats have IEEE 754's total order.
    """
    predicate = _PREDICATES[direction]
    if isinstance(x, Pair):
        assert isinstance(y, Pair)
        same = code.both([code.compare("oeq", x.re, y.re), code.compare("oeq", x.im, y.im)])
        return same if direction == "EQ" else only(apply(code, "not", [same], np.dtype(bool)))
    x, y = only(x), only(y)
    if is_floating(dtype):
        if total:
            return code.compare(
                f"s{predicate}" if direction not in ("EQ", "NE") else predicate,
                *(_order(code, operand) for operand in (x, y)),
            )
        return code.compare(f"{'u' if direction == 'NE' else 'o'}{predicate}", x, y)
    if direction not in ("EQ", "NE"):
        predicate = ("s" if dtype.kind == "i" else "u") + predicate
    return code.compare(predicate, x, y)


def _order(code: Code, x: Scalar) -> Scalar:
    """An integer with the place of a float in the total order."""
    width = int(x.type[1:])
    bits = code.cast("arith.bitcast", x, f"i{width}")
    zero, mask = code.constant(0, bits.type), code.constant(2 ** (width - 1) - 1, bits.type)
    return code.select(code.compare("slt", bits, zero), code.same("arith.xori", bits, mask), bits)


def converted(code: Code, x: Element, source: DType, target: DType) -> Element:
    """An element converted to a dtype; floats saturate to integers, and nan becomes 0."""
    if source == target:
        return x
    kind = kind_of(target)
    if isinstance(x, Pair):
        part = kind_of(source).computed
        if target == np.bool_:
            zero = code.constant(0.0, part)
            signs = [code.compare("une", each, zero) for each in (x.re, x.im)]
            return code.same("arith.ori", *signs)
        if is_complex(target):
            return Pair(*(_float(code, each, kind.computed) for each in (x.re, x.im)))
        return converted(code, x.re, np.dtype(f"f{int(part[1:]) // 8}"), target)
    if is_complex(target):
        real = np.dtype(f"f{int(kind.computed[1:]) // 8}")
        return Pair(only(converted(code, x, source, real)), code.constant(0.0, kind.computed))
    if target == np.bool_:
        zero = code.constant(0, x.type)
        return code.compare("une" if is_floating(source) else "ne", x, zero)
    if is_floating(target):
        if is_floating(source):
            return rounded(code, _float(code, x, kind.computed), target)
        return rounded(code, integers.to_float(code, x, source, kind.computed), target)
    if is_floating(source):
        return integers.of_float(code, x, target)
    return integers.resized(code, x, source, kind.computed)


def _float(code: Code, x: Scalar, type_: str) -> Scalar:
    narrower = int(type_[1:]) < int(x.type[1:])
    return code.cast("arith.truncf" if narrower else "arith.extf", x, type_)
