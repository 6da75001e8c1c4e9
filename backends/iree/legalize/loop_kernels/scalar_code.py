"""StableHLO's elementwise ops on scalars, as ops of the dialects ``arith`` and ``math``.

Integers are signless here, so the type in StableHLO tells whether one is unsigned. A bool is an
``i1``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gnomon.dialects.mlir import ir

__all__ = [
    "ELEMENTWISE",
    "UnsupportedError",
    "binary",
    "clamped_index",
    "element_of",
    "index",
    "kind_of",
    "like",
    "number",
    "scalar",
    "signless",
]

Emit = Callable[[ir.Operation, list[ir.Value]], ir.Value]


class UnsupportedError(Exception):
    """Raised for an op or a type that has no scalar code."""


_WIDTHS = {f"{prefix}{n}": n for prefix in ("i", "ui") for n in (8, 16, 32, 64)} | {"i1": 1}
_FLOATS = {"f32": 32, "f64": 64}
_INTEGER_PREDICATES = {"EQ": 0, "NE": 1, "LT": 2, "LE": 3, "GT": 4, "GE": 5}
_UNSIGNED_OFFSET = 4  # ult, ule, ugt, uge follow four after slt, sle, sgt, sge in arith's numbering
# A nan fails ordered comparisons. Only NE is unordered, since nan != x is true.
_FLOAT_PREDICATES = {"EQ": 1, "GT": 2, "GE": 3, "LT": 4, "LE": 5, "NE": 13}


def kind_of(element: ir.Type) -> str:
    """``f`` for a floating-point type; ``s``, ``u``, ``b`` for signed, unsigned, and bool.

    Raises:
      UnsupportedError: the type has no scalar code.
    """
    name = str(element)
    if name in _FLOATS:
        return "f"
    if name not in _WIDTHS:
        raise UnsupportedError(f"numbers of type {name}")
    return "b" if name == "i1" else "u" if name.startswith("u") else "s"


def _width(element: ir.Type) -> int:
    return _FLOATS.get(str(element)) or _WIDTHS[str(element)]


def signless(element: ir.Type) -> ir.Type:
    """The type in `arith` of a StableHLO element type."""
    if kind_of(element) == "u":
        return ir.IntegerType.get_signless(_width(element))
    return element


def like(type_: ir.Type, element: ir.Type) -> ir.Type:
    """A vector type with other elements; for the type of a number, the element type itself."""
    if isinstance(type_, ir.VectorType):
        return ir.VectorType.get(type_.shape, element)
    return element


def element_of(type_: ir.Type) -> ir.Type:
    """The element type of a vector; for the type of a number, the type itself."""
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


def scalar(name: str, operands: Sequence[ir.Value], type_: ir.Type, **attributes: int) -> ir.Value:
    """An op with one result at the current insertion point."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.Operation.create(
        name,
        results=[type_],
        operands=list(operands),
        attributes={k: ir.IntegerAttr.get(i64, v) for k, v in attributes.items()},
    ).results[0]


def number(type_: ir.Type, value: Any) -> ir.Value:
    """A literal of a signless type; a vector repeats it."""
    element = element_of(type_)
    if str(element) in _FLOATS:
        attribute = ir.FloatAttr.get(element, float(value))
    elif str(element) == "index":
        attribute = ir.IntegerAttr.get(element, int(value))
    else:
        width = _WIDTHS[str(element)]
        wrapped = int(value) & ((1 << width) - 1)
        # Attributes are signed, even those of one bit.
        attribute = ir.IntegerAttr.get(element, wrapped - (wrapped >> (width - 1) << width))
    if element != type_:
        attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
    return ir.Operation.create(
        "arith.constant", results=[type_], attributes={"value": attribute}
    ).results[0]


def index() -> ir.Type:
    """The type of indices into an array."""
    return ir.IndexType.get()


def clamped_index(value: ir.Value, kind: str, largest: int) -> ir.Value:
    """An integer of a kind as an index, clamped to the range from 0 to the largest one."""
    limit = number(index(), largest)
    if kind == "u":
        return scalar(
            "arith.minui", [scalar("arith.index_castui", [value], index()), limit], index()
        )
    at = scalar("arith.index_cast", [value], index())
    at = scalar("arith.maxsi", [at, number(index(), 0)], index())
    return scalar("arith.minsi", [at, limit], index())


def _is(predicate: str, x: ir.Value, y: ir.Value, kind: str) -> ir.Value:
    i1 = like(x.type, ir.IntegerType.get_signless(1))
    if kind == "f":
        return scalar("arith.cmpf", [x, y], i1, predicate=_FLOAT_PREDICATES[predicate])
    code = _INTEGER_PREDICATES[predicate]
    if kind in "ub" and code >= _INTEGER_PREDICATES["LT"]:
        code += _UNSIGNED_OFFSET
    return scalar("arith.cmpi", [x, y], i1, predicate=code)


def _select(chosen: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    return scalar("arith.select", [chosen, x, y], x.type)


def _kind(op: ir.Operation) -> str:
    return kind_of(op.operands[0].type.element_type)


def binary(name: str, kind: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """A binary op, given by its StableHLO name without prefix, on two numbers of a kind."""
    code = _BY_KIND[name].get(kind)
    if code is None:
        raise UnsupportedError(f"{name} of kind {kind}")
    return scalar(code, [x, y], x.type)


_BY_KIND: dict[str, dict[str, str]] = {
    name: dict(zip("fsub", (f"arith.{code}" if code else "" for code in codes), strict=True))
    for name, codes in {
        "add": ("addf", "addi", "addi", "ori"),
        "subtract": ("subf", "subi", "subi", "xori"),
        "multiply": ("mulf", "muli", "muli", "andi"),
        "maximum": ("maximumf", "maxsi", "maxui", "ori"),
        "minimum": ("minimumf", "minsi", "minui", "andi"),
        "and": ("", "andi", "andi", "andi"),
        "or": ("", "ori", "ori", "ori"),
        "xor": ("", "xori", "xori", "xori"),
    }.items()
}


def _binary(name: str) -> Emit:
    return lambda op, v: binary(name, _kind(op), v[0], v[1])


def _quotient(op: ir.Operation, v: list[ir.Value], of_floats: str, of_ints: str) -> ir.Value:
    """A quotient or remainder, with defined results for division by zero and overflow."""
    x, y = v
    kind, type_ = _kind(op), x.type
    if kind == "f":
        return scalar(f"arith.{of_floats}", [x, y], type_)
    if kind == "b":
        raise UnsupportedError("quotients of bools")
    is_zero = _is("EQ", y, number(type_, 0), kind)
    bad = is_zero
    if kind == "s":
        lowest = _is("EQ", x, number(type_, 1 << (_width(element_of(type_)) - 1)), kind)
        minus_one = _is("EQ", y, number(type_, -1), kind)
        bad = scalar(
            "arith.ori", [is_zero, scalar("arith.andi", [lowest, minus_one], bad.type)], bad.type
        )
    safe = _select(bad, number(type_, 1), y)
    code = f"arith.{of_ints}{'si' if kind == 's' else 'ui'}"
    value = scalar(code, [x, safe], type_)
    # Division by zero gives all bits set, and the dividend as the remainder. The lowest number is
    # divided by one instead of minus one, which gives the wrapped result.
    return _select(is_zero, x if of_ints == "rem" else number(type_, -1), value)


def _shift(op: ir.Operation, v: list[ir.Value], code: str) -> ir.Value:
    x, places = v
    type_, width = x.type, _width(element_of(x.type))
    too_far = _is("GE", places, number(type_, width), "u")
    if code == "shrsi":
        return scalar(
            f"arith.{code}", [x, _select(too_far, number(type_, width - 1), places)], type_
        )
    shifted = scalar(f"arith.{code}", [x, _select(too_far, number(type_, 0), places)], type_)
    return _select(too_far, number(type_, 0), shifted)


def _math(name: str) -> Emit:
    def emit(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
        if _kind(op) != "f":
            raise UnsupportedError(f"{name} of integers")
        return scalar(f"math.{name}", v, v[0].type)

    return emit


def _bits(name: str) -> Emit:
    return lambda op, v: scalar(f"math.{name}", v, v[0].type)


def _not(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    return scalar("arith.xori", [v[0], number(v[0].type, -1)], v[0].type)


def _negate(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    (x,) = v
    if _kind(op) == "f":
        return scalar("arith.negf", [x], x.type)
    return scalar("arith.subi", [number(x.type, 0), x], x.type)


def _abs(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    if _kind(op) == "f":
        return scalar("math.absf", v, v[0].type)
    return _select(_is("LT", v[0], number(v[0].type, 0), "s"), _negate(op, v), v[0])


def _sign(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    (x,) = v
    kind, zero = _kind(op), number(x.type, 0)
    positive = _select(_is("GT", x, zero, kind), number(x.type, 1), x)
    # x itself is returned for zeros, which keep their sign, and for nan.
    return _select(_is("LT", x, zero, kind), number(x.type, -1), positive)


def _logistic(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    (x,) = v
    one = number(x.type, 1)
    power = scalar("math.exp", [scalar("arith.negf", [x], x.type)], x.type)
    return scalar("arith.divf", [one, scalar("arith.addf", [one, power], x.type)], x.type)


def _is_finite(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    (x,) = v
    return _is("LT", scalar("math.absf", [x], x.type), number(x.type, float("inf")), "f")


def _compare(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    if "compare_type" in op.attributes and "TOTAL" in str(op.attributes["compare_type"]):
        raise UnsupportedError("comparisons in total order")
    direction = str(op.attributes["comparison_direction"]).split()[-1].strip(">")
    return _is(direction, v[0], v[1], _kind(op))


def _choose(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    return _select(*v)


def _clamp(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    low, x, high = v
    kind = _kind(op)
    return binary("minimum", kind, binary("maximum", kind, x, low), high)


def _convert(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    (x,) = v
    before, after = (w.type.element_type for w in (op.operands[0], op.results[0]))
    source, target = kind_of(before), kind_of(after)
    type_, narrower = like(x.type, signless(after)), _width(after) < _width(before)
    if before == after:
        return x
    if target == "b":
        return _is("NE", x, number(x.type, 0), source)
    if source == "f" and target == "f":
        return scalar("arith.truncf" if narrower else "arith.extf", [x], type_)
    if source == "f":
        return scalar("arith.fptosi" if target == "s" else "arith.fptoui", [x], type_)
    if target == "f":
        return scalar("arith.sitofp" if source == "s" else "arith.uitofp", [x], type_)
    if type_ == x.type:
        return x
    if narrower:
        return scalar("arith.trunci", [x], type_)
    return scalar("arith.extsi" if source == "s" else "arith.extui", [x], type_)


def _bitcast(op: ir.Operation, v: list[ir.Value]) -> ir.Value:
    type_ = like(v[0].type, signless(op.results[0].type.element_type))
    if op.operands[0].type.shape != op.results[0].type.shape:
        raise UnsupportedError("bits of numbers of another width")
    return v[0] if type_ == v[0].type else scalar("arith.bitcast", [v[0]], type_)


_EMIT: dict[str, Emit] = {
    **{name: _binary(name) for name in _BY_KIND},
    "divide": functools.partial(_quotient, of_floats="divf", of_ints="div"),
    "remainder": functools.partial(_quotient, of_floats="remf", of_ints="rem"),
    "shift_left": functools.partial(_shift, code="shli"),
    "shift_right_logical": functools.partial(_shift, code="shrui"),
    "shift_right_arithmetic": functools.partial(_shift, code="shrsi"),
    "power": _math("powf"),
    "atan2": _math("atan2"),
    "exponential": _math("exp"),
    "exponential_minus_one": _math("expm1"),
    "log": _math("log"),
    "log_plus_one": _math("log1p"),
    "tanh": _math("tanh"),
    "sine": _math("sin"),
    "cosine": _math("cos"),
    "tan": _math("tan"),
    "sqrt": _math("sqrt"),
    "rsqrt": _math("rsqrt"),
    "cbrt": _math("cbrt"),
    "floor": _math("floor"),
    "ceil": _math("ceil"),
    "round_nearest_even": _math("roundeven"),
    "round_nearest_afz": _math("round"),
    "popcnt": _bits("ctpop"),
    "count_leading_zeros": _bits("ctlz"),
    "logistic": _logistic,
    "not": _not,
    "negate": _negate,
    "abs": _abs,
    "sign": _sign,
    "is_finite": _is_finite,
    "compare": _compare,
    "select": _choose,
    "clamp": _clamp,
    "convert": _convert,
    "bitcast_convert": _bitcast,
}

ELEMENTWISE = {f"stablehlo.{name}": emit for name, emit in _EMIT.items()}
