"""CHLO's ops with implicit broadcasting: operands are broadcast, then the plain op follows."""

from __future__ import annotations

from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.elementwise import total_order_key
from gnomon.dialects.raising.source import Source, raises
from gnomon.dialects.raising.structural import broadcast
from gnomon.dialects.types import type_of

_BINARY = {
    "add": "add",
    "and": "and",
    "atan2": "atan2",
    "complex": "complex",
    "divide": "div",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "next_after": "nextafter",
    "or": "or",
    "polygamma": "polygamma",
    "power": "pow",
    "remainder": "rem",
    "shift_left": "shift_left",
    "shift_right_arithmetic": "shift_right_arithmetic",
    "shift_right_logical": "shift_right_logical",
    "subtract": "sub",
    "xor": "xor",
    "zeta": "zeta",
}


def _aligned(source: Source) -> list[ir.Value]:
    """The operands, broadcast to the result's shape."""
    shape = source.type.shape
    given = source.ints("broadcast_dimensions")
    aligned = []
    for x in source.operands:
        rank = type_of(x).rank
        named = given if given and rank < len(shape) else range(len(shape) - rank, len(shape))
        aligned.append(broadcast(x, shape, tuple(named)))
    return aligned


def _raise_binary(name: str) -> None:
    @raises(f"chlo.broadcast_{name}")
    def rule(source: Source) -> list[ir.Value]:
        results: list[ir.Value] = getattr(ops, _BINARY[name]).build(_aligned(source), {})
        return results


for _name in _BINARY:
    _raise_binary(_name)


@raises("chlo.broadcast_compare")
def _compare(source: Source) -> ir.Value:
    operands = _aligned(source)
    if source.word("compare_type") == "TOTALORDER":
        operands = [total_order_key(x) for x in operands]
    compared: ir.Value = getattr(ops, source.word("comparison_direction").lower())(*operands)
    return compared


@raises("chlo.broadcast_select")
def _select(source: Source) -> ir.Value:
    selected: ir.Value = ops.select(*_aligned(source))
    return selected
