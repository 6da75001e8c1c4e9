"""Scalars that the host computes: bools and integers of rank 0 that only control the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gnomon.dialects.mlir import ir

__all__ = [
    "CONSTANT",
    "I1",
    "ON_HOST",
    "PREDICATES",
    "arith",
    "computes_on_host",
    "is_scalar",
    "literal",
    "narrowed",
    "to_device",
    "to_host",
    "value_of",
    "widened",
]

CONSTANT = "stablehlo.constant"

Emit: TypeAlias = "Callable[..., ir.Value]"

I1 = "i1"
_WIDTHS = {"i1": 1, "i32": 32, "i64": 64}
PREDICATES = {"EQ": 0, "NE": 1, "LT": 2, "LE": 3, "GT": 4, "GE": 5}
_UNSIGNED_OFFSET = 4  # ult, ule, ugt, uge follow four after slt, sle, sgt, sge in arith's numbering


def is_scalar(value: ir.Value) -> bool:
    """Whether a value has a type that the host can compute."""
    type_ = value.type
    return (
        isinstance(type_, ir.RankedTensorType)
        and type_.rank == 0
        and str(type_.element_type) in _WIDTHS
    )


def arith(name: str, operands: Sequence[ir.Value], type_: ir.Type, **attributes: int) -> ir.Value:
    """Create an op of the dialect ``arith`` at the current insertion point."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.Operation.create(
        f"arith.{name}",
        results=[type_],
        operands=list(operands),
        attributes={k: ir.IntegerAttr.get(i64, v) for k, v in attributes.items()},
    ).results[0]


def literal(type_: ir.Type, value: int) -> ir.Value:
    """A constant on the host."""
    return ir.Operation.create(
        "arith.constant", results=[type_], attributes={"value": ir.IntegerAttr.get(type_, value)}
    ).results[0]


def widened(value: ir.Value) -> ir.Value:
    """A host integer in 64 bits, for passing it through a loop or branch; other values unchanged.

    IREE's virtual machine moves the operands of a branch one after the other, without noticing that
    a 32-bit number may share its register with half of a 64-bit one. So one may be overwritten
    before it is moved. Sizes and offsets of arrays, which are among the operands, have 64 bits.
    """
    wide = ir.IntegerType.get_signless(64)
    if not isinstance(value.type, ir.IntegerType) or value.type == wide:
        return value
    return arith("extui" if str(value.type) == I1 else "extsi", [value], wide)


def narrowed(value: ir.Value, type_: ir.Type) -> ir.Value:
    """The inverse of `widened`, for a value of type ``type_``."""
    return value if value.type == type_ else arith("trunci", [value], type_)


def value_of(op: ir.Operation) -> int:
    """The number in a scalar ``stablehlo.constant``."""
    return int(ir.DenseElementsAttr(op.attributes["value"]).get_splat_value().value)


def to_device(scalar: ir.Value) -> ir.Value:
    """A scalar of the host as a tensor of rank 0."""
    if str(scalar.type) != I1:
        type_ = ir.RankedTensorType.get([], scalar.type)
        return ir.Operation.create(
            "tensor.from_elements", results=[type_], operands=[scalar]
        ).results[0]
    # IREE does not accept bools in `tensor.from_elements`.
    i32 = ir.IntegerType.get_signless(32)
    wide = to_device(arith("extui", [scalar], i32))
    zero = to_device(literal(i32, 0))
    return ir.Operation.create(
        "stablehlo.compare",
        results=[ir.RankedTensorType.get([], scalar.type)],
        operands=[wide, zero],
        attributes={
            "comparison_direction": ir.Attribute.parse("#stablehlo<comparison_direction NE>"),
            "compare_type": ir.Attribute.parse("#stablehlo<comparison_type SIGNED>"),
        },
    ).results[0]


def to_host(tensor: ir.Value) -> ir.Value:
    """The number in a tensor of rank 0; the host waits for it."""
    type_ = tensor.type.element_type
    if str(type_) != I1:
        return ir.Operation.create("tensor.extract", results=[type_], operands=[tensor]).results[0]
    # The host does not know the width of a bool in memory.
    i32 = ir.IntegerType.get_signless(32)
    wide = ir.Operation.create(
        "stablehlo.convert", results=[ir.RankedTensorType.get([], i32)], operands=[tensor]
    ).results[0]
    return arith("cmpi", [to_host(wide), literal(i32, 0)], type_, predicate=PREDICATES["NE"])


def _same(name: str, of_bools: str | None = None) -> Callable[..., ir.Value]:
    """An op whose operands and result have one type; ``of_bools`` replaces it for bools."""

    def emit(op: ir.Operation, type_: ir.Type, *operands: ir.Value) -> ir.Value:
        chosen = (of_bools or name) if str(type_) == I1 else name
        return arith(chosen, operands, type_)

    return emit


def _compare(op: ir.Operation, type_: ir.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    direction = str(op.attributes["comparison_direction"]).split()[-1].strip(">")
    predicate = PREDICATES[direction]
    if str(x.type) == I1 and predicate >= PREDICATES["LT"]:
        predicate += _UNSIGNED_OFFSET
    return arith("cmpi", [x, y], type_, predicate=predicate)


def _convert(op: ir.Operation, type_: ir.Type, x: ir.Value) -> ir.Value:
    before, after = _WIDTHS[str(x.type)], _WIDTHS[str(type_)]
    if before == after:
        return x
    if after == 1:
        return arith("cmpi", [x, literal(x.type, 0)], type_, predicate=PREDICATES["NE"])
    if before == 1:
        return arith("extui", [x], type_)
    return arith("extsi" if before < after else "trunci", [x], type_)


def _not(op: ir.Operation, type_: ir.Type, x: ir.Value) -> ir.Value:
    return arith("xori", [x, literal(type_, -1)], type_)


def _negate(op: ir.Operation, type_: ir.Type, x: ir.Value) -> ir.Value:
    return arith("subi", [literal(type_, 0), x], type_)


def _select(
    op: ir.Operation, type_: ir.Type, choice: ir.Value, x: ir.Value, y: ir.Value
) -> ir.Value:
    return arith("select", [choice, x, y], type_)


def _clamp(
    op: ir.Operation, type_: ir.Type, low: ir.Value, x: ir.Value, high: ir.Value
) -> ir.Value:
    if str(type_) == I1:
        # As a signed number of one bit, true is -1: MLIR folds a signed minimum with it.
        return arith("andi", [arith("ori", [x, low], type_), high], type_)
    return arith("minsi", [arith("maxsi", [x, low], type_), high], type_)


ON_HOST: dict[str, Emit] = {
    "stablehlo.add": _same("addi", "ori"),
    "stablehlo.subtract": _same("subi", "xori"),
    "stablehlo.multiply": _same("muli", "andi"),
    "stablehlo.minimum": _same("minsi", "andi"),
    "stablehlo.maximum": _same("maxsi", "ori"),
    "stablehlo.and": _same("andi"),
    "stablehlo.or": _same("ori"),
    "stablehlo.xor": _same("xori"),
    "stablehlo.not": _not,
    "stablehlo.negate": _negate,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.select": _select,
    "stablehlo.clamp": _clamp,
    "stablehlo.reshape": lambda op, type_, x: x,
}


def computes_on_host(op: ir.Operation, available: Callable[[ir.Value], bool]) -> bool:
    """Whether the host can compute an op if it has the operands."""
    if op.name == CONSTANT:
        return is_scalar(op.results[0])
    return (
        op.name in ON_HOST
        and is_scalar(op.results[0])
        and all(is_scalar(v) and available(v) for v in op.operands)
    )
