"""The carries of a loop in a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.iree.legalize.loop_kernels.scalar_code import UnsupportedError
from gnomon.backends.iree.legalize.loop_kernels.values import (
    FEW,
    Array,
    Cell,
    Value,
    array_of,
    size_of,
)
from gnomon.dialects.mlir import ir

if TYPE_CHECKING:
    from gnomon.backends.iree.legalize.loop_kernels.code import Kernel

__all__ = ["Carries"]


class Carries:
    """The carries of an ``scf`` loop: small ones as scalars, arrays in memory as tensors.

    Args:
      kernel: the kernel.
      op: the ``stablehlo.while``.
      stored: the type of each carry if it is in memory.

    Attributes:
      initial: the values that enter the loop.
    """

    def __init__(
        self, kernel: Kernel, op: ir.Operation, stored: Sequence[ir.RankedTensorType]
    ) -> None:
        self.kernel = kernel
        self.types = [v.type for v in op.operands]
        body = op.regions[1].blocks[0]
        self.forms: list[Array | None] = []
        self.initial: list[ir.Value] = []
        for old, argument, type_ in zip(op.operands, body.arguments, stored, strict=True):
            value = kernel.value(old)
            if size_of(old.type) > FEW or (kernel.keeps_arrays and _is_indexed(argument)):
                array = self._owned(value, old.type.element_type, type_)
                self.forms.append(array)
                self.initial.append(array.tensor)
            else:
                self.forms.append(None)
                self.initial.extend(kernel.numbers(old).flat)

    def _owned(self, value: Value, element: ir.Type, stored: ir.RankedTensorType) -> Array:
        kernel = self.kernel
        if isinstance(value, np.ndarray):
            tensor = kernel.as_tensor(value, stored)
            return Array(tensor, value.shape, element, Cell(kernel.depth))
        value.check()
        if value.cell is None or value.cell.depth != kernel.depth:
            return kernel.copied(value, stored)
        # The loop owns the array from here on.
        return kernel.renewed(value, value.tensor)

    def enter(self, carried: Sequence[ir.Value]) -> list[Value]:
        """The carries at the start of an iteration."""
        values: list[Value] = []
        at = 0
        for form, type_ in zip(self.forms, self.types, strict=True):
            if form is not None:
                cell = Cell(self.kernel.depth)
                values.append(Array(carried[at], form.shape, form.element, cell))
                at += 1
                continue
            size = size_of(type_)
            values.append(array_of(carried[at : at + size], tuple(type_.shape)))
            at += size
        self.cells = [v.cell if isinstance(v, Array) else None for v in values]
        return values

    def leave(self, values: Sequence[Value]) -> list[ir.Value]:
        """The values that the end of an iteration yields."""
        out: list[ir.Value] = []
        for value, cell in zip(values, self.cells, strict=True):
            if cell is None:
                if isinstance(value, Array):
                    value = self.kernel.load(value)
                out.extend(value.flat)
                continue
            if not isinstance(value, Array) or value.cell is not cell:
                raise UnsupportedError("an array that leaves the loop in the place of another")
            value.check()
            out.append(value.tensor)
        return out

    def results(self, carried: Sequence[ir.Value]) -> list[Value]:
        """The carries after the loop."""
        values: list[Value] = []
        at = 0
        for form, type_ in zip(self.forms, self.types, strict=True):
            if form is not None:
                values.append(self.kernel.renewed(form, carried[at]))
                at += 1
                continue
            size = size_of(type_)
            values.append(array_of(carried[at : at + size], tuple(type_.shape)))
            at += size
        return values


def _is_indexed(argument: ir.Value) -> bool:
    """Whether a body updates a carry at computed indices."""
    return any(
        use.owner.name == "stablehlo.dynamic_update_slice" and use.operand_number == 0
        for use in argument.uses
    )
