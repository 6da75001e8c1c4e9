"""Closed bodies: the single block of a region or function, with all it uses passed as arguments.

Every region of the dialect is isolated from above: a body sees its block arguments and nothing else.
So each transformation is one function from body to body, whatever holds the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, mlir_type, tensor_type

TERMINATORS = frozenset({"gnomon.yield", "func.return"})


class Body:
    """A view of one closed block.

    Attributes:
      block: the MLIR block; its last operation is a ``gnomon.yield`` or a ``func.return``.
    """

    __slots__ = ("_holder", "block")

    def __init__(self, block: ir.Block, holder: ir.Operation | None = None) -> None:
        self.block = block
        self._holder = holder  # owns the block until the body is attached to an op

    @staticmethod
    def build(
        argument_types: Sequence[TensorType],
        emit: Callable[..., Sequence[ir.Value]],
        location: ir.Location | None = None,
    ) -> Body:
        """A detached body; ``emit`` gets the block arguments and returns the values to yield."""
        body = Body.open(argument_types, location)
        with ir.InsertionPoint(body.block):
            body.close(emit(*body.arguments))
        return body

    @staticmethod
    def open(
        argument_types: Sequence[TensorType], location: ir.Location | None = None
    ) -> Body:
        """A detached body without operations; ``close`` ends it."""
        location = location or ir.Location.unknown()
        holder = ir.Operation.create("gnomon.branch", regions=1, loc=location, ip=False)
        types = [mlir_type(t) for t in argument_types]
        block = holder.regions[0].blocks.append(*types, arg_locs=[location] * len(types))
        return Body(block, holder)

    def close(self, results: Sequence[ir.Value], location: ir.Location | None = None) -> None:
        """Append the terminator that yields ``results``."""
        ip = ir.InsertionPoint(self.block)
        ir.Operation.create("gnomon.yield", operands=list(results), ip=ip, loc=location)

    def add_argument(self, type_: TensorType, location: ir.Location | None = None) -> ir.Value:
        """Append a block argument."""
        return self.block.add_argument(mlir_type(type_), location or ir.Location.unknown())

    def move_to(self, region: ir.Region) -> Body:
        """Attach the block to an empty region and return the body there."""
        self.block.append_to(region)
        return Body(region.blocks[0])

    @property
    def arguments(self) -> list[ir.Value]:
        """The block arguments."""
        return list(self.block.arguments)

    @property
    def terminator(self) -> ir.Operation:
        """The operation that ends the block."""
        operations = self.block.operations
        return operations[len(operations) - 1].operation

    @property
    def results(self) -> list[ir.Value]:
        """The values that the body yields."""
        return list(self.terminator.operands)

    @property
    def operations(self) -> Iterator[ir.Operation]:
        """The operations before the terminator, in order; a snapshot, so the block may change."""
        snapshot = [op.operation for op in self.block.operations]
        return iter(op for op in snapshot if op.name not in TERMINATORS)

    @property
    def argument_types(self) -> list[TensorType]:
        """The types of the arguments."""
        return [tensor_type(a.type) for a in self.block.arguments]

    @property
    def result_types(self) -> list[TensorType]:
        """The types of the yielded values."""
        return [tensor_type(r.type) for r in self.terminator.operands]

    def inline(self, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Clone the operations at the current insertion point, with arguments replaced."""
        env = dict(zip(self.block.arguments, operands, strict=True))
        for op in self.operations:
            clone_into(op, env)
        return [env[r] for r in self.results]

    def clone(self) -> Body:
        """A detached copy."""
        return Body.build(self.argument_types, lambda *arguments: self.inline(arguments))


def clone_into(op: ir.Operation, env: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clone ``op`` at the current insertion point with operands mapped by ``env``; extend ``env``."""
    clone = op.clone()
    operands = clone.operands
    for i, operand in enumerate(op.operands):
        operands[i] = env[operand]
    results = list(clone.results)
    env.update(zip(op.results, results, strict=True))
    return results
