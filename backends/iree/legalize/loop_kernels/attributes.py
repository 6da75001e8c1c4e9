"""The attributes of StableHLO's ops, as kernels read them."""

from __future__ import annotations

from gnomon.dialects.mlir import ir

__all__ = ["integer", "integers", "padding_of"]


def integers(op: ir.Operation, name: str) -> list[int]:
    """A list of integers among the attributes of an op."""
    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


def integer(op: ir.Operation, name: str) -> int:
    """An integer among the attributes of an op."""
    return ir.IntegerAttr(op.attributes[name]).value


def padding_of(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    """The padding of a ``stablehlo.pad``: low, high, and between elements, by dimension."""
    return (
        integers(op, "edge_padding_low"),
        integers(op, "edge_padding_high"),
        integers(op, "interior_padding"),
    )
