"""Values in a kernel: a few scalars in a NumPy array, or an array in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    UnsupportedError,
    kind_of,
    signless,
)
from gnomon.dialects.mlir import ir

__all__ = [
    "FEW",
    "Array",
    "Cell",
    "Numbers",
    "Value",
    "array_of",
    "elements_of",
    "filled",
    "is_literal",
    "literal_of",
    "map_numbers",
    "scalar_array",
    "size_of",
    "storage",
]

# A value with more elements than this is an array in memory.
FEW = 64

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class Cell:
    """An array in memory that the kernel owns; each update makes a new version the valid one.

    Attributes:
      depth: the nesting depth of the region that owns it.
      version: the number of the valid version.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.version = 0


@dataclass(frozen=True)
class Array:
    """An array in memory, at one version.

    Attributes:
      tensor: the tensor that stores it.
      shape: its shape; ``tensor`` may have another shape with as many elements.
      element: the type of its elements in StableHLO.
      cell: the array of which it is a version; None for an array that is only read.
      version: the number of the version.
      fill: the number that all elements are, if it is known.
    """

    tensor: ir.Value
    shape: tuple[int, ...]
    element: ir.Type
    cell: Cell | None = None
    version: int = 0
    fill: Any = None

    def check(self) -> None:
        """Raise `UnsupportedError` unless this is the last version."""
        if self.cell is not None and self.version != self.cell.version:
            raise UnsupportedError("an array that is read after its update")


Value: TypeAlias = "Numbers | Array"


def size_of(type_: ir.RankedTensorType) -> int:
    """The number of elements of a tensor."""
    return math.prod(type_.shape)


def storage(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of a tensor at the boundary of a kernel: signless, with bools as bytes."""
    element = type_.element_type
    if kind_of(element) == "b":
        return ir.RankedTensorType.get(type_.shape, ir.IntegerType.get_signless(8))
    return ir.RankedTensorType.get(type_.shape, signless(element))


def literal_of(value: ir.Value) -> ir.Operation | None:
    """The ``stablehlo.constant`` that makes a value, or None."""
    owner = value.owner
    is_constant = not isinstance(owner, ir.Block) and owner.name == "stablehlo.constant"
    return owner.operation if is_constant else None


def is_literal(value: ir.Value) -> bool:
    """Whether a value is a literal inside the kernel: one of few elements, or a splat."""
    op = literal_of(value)
    return op is not None and (
        size_of(value.type) <= FEW or ir.DenseElementsAttr(op.attributes["value"]).is_splat
    )


def elements_of(op: ir.Operation) -> list[Any]:
    """The elements of a literal; a single one if all are equal."""
    attribute = ir.DenseElementsAttr(op.attributes["value"])
    if attribute.is_splat:
        return [attribute.get_splat_value().value]
    kind = kind_of(op.results[0].type.element_type)
    dense = ir.DenseFPElementsAttr if kind == "f" else ir.DenseIntElementsAttr
    return list(dense(attribute))


def array_of(values: Sequence[ir.Value], shape: tuple[int, ...]) -> Numbers:
    """An array of a shape, filled row by row with SSA values."""
    flat = np.empty(len(values), object)
    flat[:] = list(values)
    return flat.reshape(shape)


def scalar_array(value: ir.Value) -> Numbers:
    """A scalar as an array of rank 0."""
    return array_of([value], ())


def filled(shape: tuple[int, ...], value: ir.Value) -> Numbers:
    """An array with one value everywhere."""
    out = np.empty(shape, object)
    for at in np.ndindex(*shape):
        out[at] = value
    return out


def map_numbers(function: Callable[[ir.Value], ir.Value], x: Numbers) -> Numbers:
    """Apply a function to each element."""
    return array_of([function(v) for v in x.flat], x.shape)
