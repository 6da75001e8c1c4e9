"""Sizes in a dynamic program of StableHLO, as numbers on the host.

A program computes its sizes with ops on rank-0 and rank-1 tensors, which IREE would run on the
device and read back. `Sizes` computes them by ops of ``arith`` on the sizes that ``tensor.dim``
reads from the program's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.backends.errors import NotDynamic
from gnomon.dialects.mlir import context, ir

__all__ = ["Size", "Sizes", "create"]

Size: TypeAlias = "int | ir.Value"
"""A number, or a value of type ``index``."""


def create(
    name: str,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    regions: int = 0,
    **attributes: ir.Attribute,
) -> ir.Operation:
    """Create an op at the current insertion point."""
    return ir.Operation.create(
        name,
        operands=list(operands),
        results=list(results),
        attributes=attributes,
        regions=regions,
    )


def _truncated(x: int, y: int) -> int:
    """The quotient of two integers, rounded to zero."""
    if y == 0:
        raise NotDynamic("a size is divided by zero")
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


_ARITHMETIC: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "stablehlo.add": ("arith.addi", lambda x, y: x + y),
    "stablehlo.subtract": ("arith.subi", lambda x, y: x - y),
    "stablehlo.multiply": ("arith.muli", lambda x, y: x * y),
    "stablehlo.maximum": ("arith.maxsi", max),
    "stablehlo.minimum": ("arith.minsi", min),
    # Truncated, as `stablehlo.divide` and `remainder` are.
    "stablehlo.divide": ("arith.divsi", _truncated),
    "stablehlo.remainder": ("arith.remsi", lambda x, y: x - _truncated(x, y) * y),
}


class Sizes:
    """The sizes in one function; ops are created at the current insertion point."""

    def __init__(self) -> None:
        self._index = ir.IndexType.get(context())

    def value(self, size: Size) -> ir.Value:
        """A size as a value of type ``index``."""
        if not isinstance(size, int):
            return size
        attribute = ir.IntegerAttr.get(self._index, size)
        return create("arith.constant", [], [self._index], value=attribute).results[0]

    def arithmetic(self, name: str, x: Size, y: Size) -> Size:
        """The sum, difference, ... of two sizes; ``name`` is that of an op of StableHLO."""
        op, compute = _ARITHMETIC[name]
        if isinstance(x, int) and isinstance(y, int):
            return compute(x, y)
        operands = [self.value(x), self.value(y)]
        return create(op, operands, [self._index]).results[0]

    def of_dimension(self, x: ir.Value, dimension: int) -> Size:
        """The size of a dimension of a tensor."""
        type_ = ir.RankedTensorType(x.type)
        if not type_.is_dynamic_dim(dimension):
            return int(type_.get_dim_size(dimension))
        return create("tensor.dim", [x, self.value(dimension)], [self._index]).results[0]

    def listed(self, vector: ir.Value) -> list[Size]:
        """The elements of a tensor of sizes.

        Raises:
          NotDynamic: they do not follow from the dimensions of arguments.
        """
        owner = vector.owner
        if isinstance(owner, ir.Block):
            raise NotDynamic("a size is an argument")
        operands = list(owner.operands)
        if owner.name == "stablehlo.constant":
            array = np.asarray(ir.DenseIntElementsAttr(owner.attributes["value"]))
            return [int(n) for n in array.reshape(-1)]
        if owner.name == "stablehlo.get_dimension_size":
            axis = int(ir.IntegerAttr(owner.attributes["dimension"]).value)
            return [self.of_dimension(operands[0], axis)]
        if owner.name in ("stablehlo.convert", "stablehlo.reshape"):
            return self.listed(operands[0])
        if owner.name == "stablehlo.concatenate":
            return [n for part in operands for n in self.listed(part)]
        if owner.name in _ARITHMETIC:
            pairs = zip(*(self.listed(x) for x in operands), strict=True)
            return [self.arithmetic(owner.name, x, y) for x, y in pairs]
        raise NotDynamic(f"a size is computed by {owner.name}")
