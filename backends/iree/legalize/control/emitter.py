"""Rebuilding the operations of a block, some for the device and some for the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnomon.backends.iree.legalize.control.host_scalars import (
    CONSTANT,
    computes_on_host,
    is_scalar,
    to_device,
    to_host,
)
from gnomon.dialects.mlir import ir

__all__ = ["BARRIER", "Emitter", "masked", "operations", "terminator"]

BARRIER = "stablehlo.optimization_barrier"


def terminator(block: ir.Block) -> ir.Operation:
    """The terminator of a block."""
    return block.operations[len(block.operations) - 1].operation


def operations(block: ir.Block) -> list[ir.Operation]:
    """The operations of a block before its terminator."""
    return [op.operation for op in block.operations][:-1]


def masked(values: Sequence[ir.Value], mask: Sequence[bool]) -> list[ir.Value]:
    """The values where a mask holds."""
    return [v for v, keep in zip(values, mask, strict=True) if keep]


class Emitter:
    """Emits operations at the end of a block.

    A value of the original blocks becomes a tensor on the device, a scalar on the host, or both.

    Attributes:
      here: the block.
      tensors, scalars: the new values on the device and on the host, by the original values.
    """

    def __init__(
        self,
        here: ir.Block,
        tensors: dict[ir.Value, ir.Value],
        scalars: dict[ir.Value, ir.Value],
    ) -> None:
        self.here = here
        self.tensors = tensors
        self.scalars = scalars

    def create_with_regions(
        self, name: str, types: Sequence[ir.Type], operands: Sequence[ir.Value], regions: int
    ) -> ir.Operation:
        """Create an operation with empty regions here."""
        return ir.Operation.create(
            name,
            results=list(types),
            operands=list(operands),
            regions=regions,
            ip=ir.InsertionPoint(self.here),
        )

    def create(
        self,
        name: str,
        types: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        attributes: dict[str, ir.Attribute] | None = None,
        successors: Sequence[ir.Block] = (),
    ) -> list[ir.Value]:
        """Create an operation here, and return its results."""
        op = ir.Operation.create(
            name,
            results=list(types),
            operands=list(operands),
            attributes=attributes,
            successors=list(successors),
            ip=ir.InsertionPoint(self.here),
        )
        return list(op.results)

    def tensor(self, value: ir.Value) -> ir.Value:
        """A value on the device; a scalar of the host is passed to the kernels that use it."""
        if value not in self.tensors:
            scalar = self.scalars[value]
            with ir.InsertionPoint(self.here):
                self.tensors[value] = to_device(scalar)
        return self.tensors[value]

    def scalar(self, value: ir.Value) -> ir.Value:
        """A value on the host; a value of the device is read, which waits for it."""
        if value not in self.scalars:
            with ir.InsertionPoint(self.here):
                self.scalars[value] = to_host(self.tensors[value])
        return self.scalars[value]

    def either(self, values: Sequence[ir.Value], hosted: Sequence[bool]) -> list[ir.Value]:
        """The values, on the host where ``hosted`` holds, and on the device elsewhere."""
        return [
            self.scalar(v) if on_host else self.tensor(v)
            for v, on_host in zip(values, hosted, strict=True)
        ]

    def define(
        self, values: Sequence[ir.Value], made: Sequence[ir.Value], hosted: Sequence[bool]
    ) -> None:
        """Record the new values of original ones."""
        for value, new, on_host in zip(values, made, hosted, strict=True):
            (self.scalars if on_host else self.tensors)[value] = new

    def knows(self, value: ir.Value) -> bool:
        """Whether a value of the original blocks has a new value already."""
        return value in self.tensors or value in self.scalars

    def on_host(
        self, block: ir.Block, arguments: Sequence[ir.Value], reads: bool
    ) -> Callable[[ir.Value], bool]:
        """A predicate: whether the host has a value of a block, given some of its arguments.

        Args:
          block: the block.
          arguments: the arguments that the host has.
          reads: whether the host may read scalars of the device from outside the block.
        """
        found = set(arguments)

        def available(value: ir.Value) -> bool:
            if value in found or value in self.scalars:
                return True
            return reads and self.knows(value) and is_scalar(value)

        for op in operations(block):
            if op.name == BARRIER:
                pairs = zip(op.operands, op.results, strict=True)
                found.update(r for v, r in pairs if available(v))
            elif computes_on_host(op, available):
                found.add(op.results[0])
        return available

    def hosted_carries(
        self, cond: ir.Block, body: ir.Block, initial: Sequence[ir.Value]
    ) -> list[bool]:
        """A mask of the carries of a loop that are on the host.

        These are the carries that the host can compute from values that it has, if they determine
        the condition. Otherwise they include those that it can compute after it has read some
        values once, before the loop.
        """
        leaving = list(terminator(body).operands)
        choices = []
        for reads in (False, True):
            hosted = [is_scalar(v) and (reads or v in self.scalars) for v in initial]
            while True:
                available = self.on_host(body, masked(body.arguments, hosted), reads)
                kept = [h and available(v) for h, v in zip(hosted, leaving, strict=True)]
                if kept == hosted:
                    break
                hosted = kept
            tested = self.on_host(cond, masked(cond.arguments, hosted), reads)
            if tested(terminator(cond).operands[0]):
                return hosted
            choices.append(hosted)
        # The condition needs a read in each iteration, whichever carries are on the host.
        return choices[0]

    def read_before(self, block: ir.Block, arguments: Sequence[ir.Value]) -> None:
        """Read the values from outside that the host's part of a loop needs."""
        available = self.on_host(block, arguments, reads=True)
        for op in operations(block):
            if op.name != CONSTANT and computes_on_host(op, available):
                for value in op.operands:
                    if self.knows(value):
                        self.scalar(value)
