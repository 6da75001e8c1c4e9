"""Values of a StableHLO function that the compiler cannot fold to a constant.

A value *varies* if it is read from memory, or computed from such a value by operations that no
folding rule of the compiler makes constant. The rules in question are those of MLIR's dialects and
of IREE's analysis of integer ranges, which run before kernels are vectorized: arithmetic of floats
is folded only if all operands are literals, but integers have algebra (``x - x``, ``x & 0``) and
ranges (a value converted from ``ui8`` is never negative).

The analysis is conservative: a value that it does not know to vary may vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gnomon.dialects.attributes import DENSE
from gnomon.dialects.functions import callee
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, form_of
from gnomon.dialects.types import (
    BOOL,
    TensorType,
    is_complex,
    is_floating,
    is_inexact,
    is_integer,
    type_of,
)

__all__ = ["LITERAL", "UNKNOWN", "Known", "of_argument", "of_op", "of_reduction"]


class Known(NamedTuple):
    """The facts about a value.

    Attributes:
      varies: it cannot become a constant.
      free: it may be any number of its type, as far as the compiler knows.
      literal: it is computed from literals and iotas alone.
      number: the number that all elements of a literal are; None if they differ or are unknown.
      below: for an iota of exact integers, the number that all its elements are less than.
      root: the value whose elements it has, or a one-to-one function of them.
    """

    varies: bool = False
    free: bool = False
    literal: bool = False
    number: np.generic | None = None
    below: int | None = None
    root: ir.Value | None = None


UNKNOWN = Known()
LITERAL = Known(literal=True)


def of_argument(value: ir.Value) -> Known:
    """The facts about a value that is read from memory."""
    return Known(varies=True, free=True, root=value)


def _names(*names: str) -> frozenset[str]:
    return frozenset(f"stablehlo.{name}" for name in names)


_IN_MEMORY = _names("optimization_barrier", "custom_call")
# Ops of floats that vary with any operand. Ops that choose a value (clamp, sign, extrema) are
# missing, and so is the power, since ``x ** 0`` is 1.
_ARITHMETIC = _names(
    *("add", "subtract", "multiply", "divide", "negate", "abs", "reduce_precision"),
    *("exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh"),
    *("sine", "cosine", "tan", "sqrt", "rsqrt", "cbrt", "floor", "ceil"),
    *("round_nearest_even", "round_nearest_afz", "dot_general", "convolution", "fft"),
    *("real", "imag"),
)
_ONE_TO_ONE = _names("add", "subtract", "xor", "negate", "not")
_OF_TWO = _names("add", "subtract", "multiply", "and", "or", "xor")
# The compiler merges no two comparisons of floats.
_EITHER = _names("and", "or")
_EXTREMA = _names("maximum", "minimum", "clamp")
# Ops of these forms move elements; `_moved` says of which operands.
_MOVES = (Form.VIEW, Form.JOIN, Form.REINTERPRETATION, Form.INDEXING, Form.SORT)
_SPREADS = _names("broadcast_in_dim", "reshape")


def _moved(name: str) -> int | None:
    """The number of leading operands whose elements an op moves; ``None`` if it moves all."""
    if form_of(name) is not Form.INDEXING:
        return None
    return 2 if name == "stablehlo.dynamic_update_slice" else 1


def of_op(op: ir.Operation, known: Sequence[Known], with_bodies: frozenset[str]) -> Known:
    """The facts about each result of an op without regions of control flow.

    Args:
      op: the op.
      known: the facts about its operands.
      with_bodies: names of the functions that the compiler may inline.
    """
    name = op.name
    if name in _IN_MEMORY or (name == "func.call" and callee(op) not in with_bodies):
        return of_argument(op.results[0])
    if name == "stablehlo.constant":
        return _of_literal(op)
    if name == "stablehlo.iota":
        return _of_iota(op)
    if not name.startswith("stablehlo.") or not known:
        return UNKNOWN
    if all(k.literal for k in known) and not len(op.regions):
        return known[0] if name in _SPREADS else LITERAL
    types = [type_of(v) for v in op.operands]
    # An empty array, padded, is the same number everywhere.
    if not all(t.size for t in types):
        return UNKNOWN
    if form_of(name) in _MOVES or name == "stablehlo.complex":
        return _all(known[: _moved(name)])
    if name == "stablehlo.select":
        return _of_choice(type_of(op.results[0]), *known)
    if name == "stablehlo.compare":
        return _of_comparison(op, types[0], *known)
    if name == "stablehlo.convert":
        return _of_conversion(types[0].dtype, type_of(op.results[0]).dtype, known[0])
    if name == "stablehlo.is_finite":
        return Known(varies=known[0].free)
    if name in _EXTREMA:
        return Known(varies=is_floating(types[0].dtype) and _is_extremum_of_varying(known))
    if is_inexact(types[0].dtype):
        is_computed = name in _ARITHMETIC and any(k.varies for k in known)
        return Known(varies=is_computed, free=is_computed and any(k.free for k in known))
    if name in _EITHER and all(k.varies for k in known) and all(map(_compares_floats, op.operands)):
        return Known(varies=True)
    return _of_integers(name, known)


def of_reduction(op: ir.Operation, known: Sequence[Known]) -> list[Known]:
    """The facts about the results of a ``reduce`` or ``reduce_window``."""
    operand, result = type_of(op.operands[0]), type_of(op.results[0])
    if op.name == "stablehlo.reduce" and operand.size > result.size:
        varies = any(k.varies for k in known)
        return [of_argument(r) if varies else UNKNOWN for r in op.results]
    # A reduction of one element each copies the operand; a window may also give its initial value.
    varies = len(known) == 1 and known[0].varies and operand.size > 0
    return [Known(varies=varies and op.name == "stablehlo.reduce")] * len(op.results)


def _of_literal(op: ir.Operation) -> Known:
    value = op.attributes["value"]
    if not ir.DenseElementsAttr(value).is_splat:
        return LITERAL
    return LITERAL._replace(number=DENSE.decode(value).flat[0])


def _all(known: Sequence[Known]) -> Known:
    if len(known) == 1:
        return known[0] if known[0].varies else UNKNOWN
    varies = all(k.varies for k in known)
    return Known(varies=varies, free=varies and all(k.free for k in known))


def _are_independent(a: Known, b: Known) -> bool:
    """Whether two values vary independently: their roots differ, and one is an argument."""
    if not (a.varies and b.varies) or a.root is None or b.root is None or a.root == b.root:
        return False
    return isinstance(a.root.owner, ir.Block) or isinstance(b.root.owner, ir.Block)


def _is_finite(number: np.generic | None) -> bool:
    return number is not None and bool(np.isfinite(np.asarray(number, np.complex128)))


def _differ_everywhere(a: Known, b: Known) -> bool:
    """Whether every element of a literal is known to differ from that of another in its place."""
    if a.number is not None and b.number is not None:
        return bool(a.number != b.number)
    iota, splat = (a, b) if b.number is not None else (b, a)
    if iota.below is None or splat.number is None:
        return False
    return not 0 <= int(splat.number) < iota.below


def _of_iota(op: ir.Operation) -> Known:
    type_ = type_of(op.results[0])
    length = type_.shape[ir.IntegerAttr(op.attributes["iota_dimension"]).value]
    # Other iotas may round or wrap around.
    exact = type_.dtype.kind in "iu" and length - 1 <= np.iinfo(type_.dtype).max
    return LITERAL._replace(below=length if exact else None)


def _compares_floats(value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    return op.name == "stablehlo.compare" and is_floating(type_of(op.operands[0]).dtype)


def _of_choice(type_: TensorType, predicate: Known, a: Known, b: Known) -> Known:
    if a.varies and b.varies:
        return Known(varies=True)
    if not predicate.varies:
        return UNKNOWN
    if a.literal and b.literal:
        return Known(varies=_differ_everywhere(a, b))
    chosen = a if a.varies else b
    # For integers, ``x == 2 ? x : 2`` is folded to 2.
    varies = chosen.varies and (is_inexact(type_.dtype) or _are_independent(predicate, chosen))
    return Known(varies=varies)


def _of_comparison(op: ir.Operation, type_: TensorType, a: Known, b: Known) -> Known:
    if a.free and b.free:
        # ``x == x`` of floats is false for nan, so it is not folded.
        return Known(varies=is_floating(type_.dtype) or _are_independent(a, b))
    number = a.number if b.free else b.number
    if not (a.free or b.free) or number is None:
        return UNKNOWN
    if not is_integer(type_.dtype):
        return Known(varies=is_floating(type_.dtype) and _is_finite(number))
    ends = np.iinfo(type_.dtype) if type_.dtype.kind in "iu" else None
    # A free value may equal any number, but it cannot be less than the least of its type.
    is_order = not any(f" {word}>" in str(op.attributes["comparison_direction"]) for word in _EQ)
    inside = ends is not None and ends.min < int(number) < ends.max
    return Known(varies=inside or not is_order)


_EQ = ("EQ", "NE")


def _of_conversion(before: np.dtype, after: np.dtype, x: Known) -> Known:
    if not x.varies or (is_complex(after) and not is_complex(before)):
        return UNKNOWN
    if after == BOOL:
        return Known(varies=x.free or before == BOOL)
    if is_inexact(before):
        return x if is_inexact(after) else Known(varies=x.free)
    if is_inexact(after) or after.itemsize > before.itemsize or before == BOOL:
        return x._replace(free=False)
    # The conversion to a narrower integer may drop all the bits that vary.
    return x if x.free else UNKNOWN


def _is_extremum_of_varying(known: Sequence[Known]) -> bool:
    if len(known) == 3:
        least, x, most = known
        bounds = _is_finite(least.number) and _is_finite(most.number)
        return x.varies and bounds and bool(least.number < most.number)  # type: ignore[operator]
    return any(k.varies for k in known) and all(k.varies or _is_finite(k.number) for k in known)


def _of_integers(name: str, known: Sequence[Known]) -> Known:
    varying = [k for k in known if k.varies]
    if name in _ONE_TO_ONE and len(varying) == 1 and all(k.varies or k.literal for k in known):
        return varying[0]
    if name in _OF_TWO and _are_independent(*known):
        return Known(varies=True)
    return UNKNOWN
