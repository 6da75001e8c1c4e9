"""Emitting the operations of a block again, for the device or for the host."""

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

    A value of the old blocks is a tensor, a scalar of the host, or both.

    Attributes:
      here: the block.
      tensors, scalars: the new values for those of the old blocks, on the device and on the host.
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
        """An operation with empty regions here."""
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
        """An operation here; its results."""
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
        """A value on the device; a scalar of the host becomes an operand of what uses it there."""
        if value not in self.tensors:
            scalar = self.scalars[value]
            with ir.InsertionPoint(self.here):
                self.tensors[value] = to_device(scalar)
        return self.tensors[value]

    def scalar(self, value: ir.Value) -> ir.Value:
        """A value on the host; one of the device is read, which waits for it."""
        if value not in self.scalars:
            with ir.InsertionPoint(self.here):
                self.scalars[value] = to_host(self.tensors[value])
        return self.scalars[value]

    def either(self, values: Sequence[ir.Value], hosted: Sequence[bool]) -> list[ir.Value]:
        """Values, on the host where the mask holds."""
        return [
            self.scalar(v) if on_host else self.tensor(v)
            for v, on_host in zip(values, hosted, strict=True)
        ]

    def define(
        self, values: Sequence[ir.Value], made: Sequence[ir.Value], hosted: Sequence[bool]
    ) -> None:
        """Record the new values for those of the old blocks."""
        for value, new, on_host in zip(values, made, hosted, strict=True):
            (self.scalars if on_host else self.tensors)[value] = new

    def knows(self, value: ir.Value) -> bool:
        """Whether a value was made outside the present block."""
        return value in self.tensors or value in self.scalars

    def on_host(
        self, block: ir.Block, arguments: Sequence[ir.Value], reads: bool
    ) -> Callable[[ir.Value], bool]:
        """Which values of a block the host computes if it has some of the block's arguments.

        Args:
          block: what to look at.
          arguments: those that the host has.
          reads: whether it may read scalars from outside of the block that are on the device.
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
        """Which carries of a loop are on the host.

        Those that the host can compute from what it has, where that decides on the next iteration.
        Otherwise also those that it can compute after it has read some values once, before the
        loop: the host waits for the device anyway.
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
        # The condition is read in each iteration, whatever the host has.
        return choices[0]

    def read_before(self, block: ir.Block, arguments: Sequence[ir.Value]) -> None:
        """Read what the host's part of a loop takes from outside."""
        available = self.on_host(block, arguments, reads=True)
        for op in operations(block):
            if op.name != CONSTANT and computes_on_host(op, available):
                for value in op.operands:
                    if self.knows(value):
                        self.scalar(value)
