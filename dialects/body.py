"""Closed bodies: the single block of a region or function, which uses only its block arguments.

Every region of the dialect is isolated from above. Each transformation is therefore one function
from body to body, whether the body belongs to a function or to a region of an op.

IRDL lets a variadic operand group hold values of one type only. An op with a variadic number of
operands of different types therefore takes one value of a builtin tuple type, packed by
``builtin.unrealized_conversion_cast``; results are unpacked in the same way. `operands_of`,
`results_of` and `create` hide the packing: passes and rules see flat lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gnomon.dialects.mlir import ensure_context, ir
from gnomon.dialects.types import TensorType, mlir_type, tensor_type

TERMINATORS = frozenset({"gnomon.yield", "func.return"})
PACK = "builtin.unrealized_conversion_cast"

# The names of ops without regions whose numbers of operands and results are fixed. Their operands
# and results are never packed. Declaring such an `Op` adds its name.
PLAIN: set[str] = {"func.call"}


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
        """Build a detached body; ``emit`` maps the block arguments to the values to yield."""
        body = Body.open(argument_types, location)
        with ir.InsertionPoint(body.block):
            body.close(emit(*body.arguments))
        return body

    @staticmethod
    def open(argument_types: Sequence[TensorType], location: ir.Location | None = None) -> Body:
        """Create a detached body without operations; `close` adds the terminator."""
        ensure_context()
        location = location or ir.Location.unknown()
        holder = ir.Operation.create("gnomon.branch", regions=1, loc=location, ip=False)
        types = [mlir_type(t) for t in argument_types]
        block = holder.regions[0].blocks.append(*types, arg_locs=[location] * len(types))
        return Body(block, holder)

    def close(self, results: Sequence[ir.Value], location: ir.Location | None = None) -> None:
        """Append the terminator that yields ``results``."""
        with ir.InsertionPoint(self.block), location or ir.Location.unknown():
            create("gnomon.yield", [], results)

    def add_argument(self, type_: TensorType, location: ir.Location | None = None) -> ir.Value:
        """Append a block argument."""
        return self.block.add_argument(mlir_type(type_), location or ir.Location.unknown())

    def erase_arguments(self, count: int) -> None:
        """Erase all block arguments after the first ``count``; they must have no uses."""
        for i in reversed(range(count, len(self.block.arguments))):
            self.block.erase_argument(i)

    def rearrange_arguments(self, order: Sequence[int], types: Sequence[TensorType]) -> None:
        """Replace the arguments by new ones of ``types``; argument ``i`` becomes ``order[i]``."""
        replaced = self.arguments
        arguments = [self.add_argument(type_) for type_ in types]
        for argument, position in zip(replaced, order, strict=True):
            argument.replace_all_uses_with(arguments[position])
        for _ in replaced:
            self.block.erase_argument(0)

    def replace_results(self, results: Sequence[ir.Value]) -> None:
        """Yield ``results`` instead of the current results."""
        location = self.terminator.location
        erase(self.terminator)
        self.close(results, location)

    def move_to(self, region: ir.Region) -> Body:
        """Attach the block to an empty region and return the body there."""
        self.block.append_to(region)
        return Body(region.blocks[0])

    @property
    def text(self) -> str:
        """The text of a detached body, without locations; equal for bodies that do the same."""
        assert self._holder is not None
        return self._holder.get_asm(enable_debug_info=False, assume_verified=True)

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
        return operands_of(self.terminator)

    @property
    def operations(self) -> Iterator[ir.Operation]:
        """The operations before the terminator, in order; a snapshot, so the block may change.

        The casts that pack and unpack tuples are omitted, and so are ops whose packed results are
        never unpacked, which makes these ops dead.
        """
        return iter(
            [op.operation for op in self.block.operations if op.name in PLAIN or _is_shown(op)]
        )

    @property
    def region_operations(self) -> list[ir.Operation]:
        """Those of `operations` that have regions; twice as fast to list, as most have none."""
        return [
            op.operation
            for op in self.block.operations
            if op.name not in PLAIN and len(op.regions) and _is_shown(op)
        ]

    @property
    def argument_types(self) -> list[TensorType]:
        """The types of the arguments."""
        return [tensor_type(a.type) for a in self.block.arguments]

    @property
    def result_types(self) -> list[TensorType]:
        """The types of the yielded values."""
        return [tensor_type(r.type) for r in self.results]

    def inline(self, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Clone the operations at the current insertion point, with ``operands`` as arguments."""
        env = dict(zip(self.block.arguments, operands, strict=True))
        for op in self.operations:
            clone_into(op, env)
        return [env[r] for r in self.results]

    def splice(self, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Like `inline`, but moves the operations; the body must not be used again."""
        *moved, terminator = (op.operation for op in self.block.operations)
        given = dict(zip(self.block.arguments, operands, strict=True))
        results = [given.get(r, r) for r in operands_of(terminator)]
        for argument, operand in given.items():
            argument.replace_all_uses_with(operand)
        place = ir.InsertionPoint.current
        for op in moved:
            if place.ref_operation is None:
                place.block.append(op)
            else:
                op.move_before(place.ref_operation)
        erase(terminator)
        return results

    def clone(self) -> Body:
        """A detached copy."""
        return Body.build(self.argument_types, lambda *arguments: self.inline(arguments))


def create(
    name: str,
    types: Sequence[ir.Type],
    operands: Sequence[ir.Value],
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> tuple[ir.Operation, list[ir.Value]]:
    """Create an op at the current insertion point; return the op and its unpacked results."""
    mixed = len(set(types)) > 1
    op = ir.Operation.create(
        name,
        results=[ir.TupleType.get_tuple(types)] if mixed else types,
        operands=_pack(operands),
        attributes=attributes,
        regions=regions,
    )
    if not mixed:
        return op, list(op.results)
    unpack = ir.Operation.create(PACK, results=types, operands=[op.results[0]])
    return op, list(unpack.results)


def _pack(values: Sequence[ir.Value]) -> list[ir.Value]:
    types = [v.type for v in values]
    if len(set(types)) <= 1:
        return list(values)
    tuple_type = ir.TupleType.get_tuple(types)
    return [ir.Operation.create(PACK, results=[tuple_type], operands=list(values)).results[0]]


def _is_packed(values: Sequence[ir.Value]) -> bool:
    return len(values) == 1 and isinstance(values[0].type, ir.TupleType)


def is_unpacking(op: ir.Operation) -> bool:
    """Whether an operation unpacks the tuple of a packed result."""
    return op.name == PACK and _is_packed(op.operands)


def _is_shown(op: ir.OpView) -> bool:
    name = op.name
    return not (name == PACK or name in TERMINATORS or _is_dead(op.operation))


def _is_dead(op: ir.Operation) -> bool:
    results = op.results
    return _is_packed(results) and next(iter(results[0].uses), None) is None


def operands_of(op: ir.Operation) -> list[ir.Value]:
    """The operands of an operation, unpacked."""
    operands = list(op.operands)
    if len(operands) == 1 and op.name not in PLAIN and _is_packed(operands):
        pack = operands[0].owner
        if not isinstance(pack, ir.Block) and pack.name == PACK:
            return list(pack.operands)
    return operands


def results_of(op: ir.Operation) -> list[ir.Value]:
    """The results of an operation, unpacked."""
    results = list(op.results)
    if len(results) == 1 and op.name not in PLAIN and _is_packed(results):
        return list(next(iter(results[0].uses)).owner.results)
    return results


def clone_into(op: ir.Operation, env: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clone ``op`` at the current insertion point; map operands by ``env`` and add the results."""
    if op.name in PLAIN:
        clone = op.clone()
        operands = clone.operands
        for i, operand in enumerate(operands):
            operands[i] = env[operand]
        results = list(clone.results)
        env.update(zip(op.results, results, strict=True))
        return results
    given = [env[operand] for operand in operands_of(op)]
    if _is_packed(list(op.operands)):
        given = _pack(given)
    clone = op.clone()
    operands = clone.operands
    for i, value in enumerate(given):
        operands[i] = value
    results = list(clone.results)
    if _is_packed(results):
        types = [r.type for r in results_of(op)]
        unpack = ir.Operation.create(PACK, results=types, operands=results)
        results = list(unpack.results)
    env.update(zip(results_of(op), results, strict=True))
    return results


def erase(op: ir.Operation) -> None:
    """Erase an unused operation and the casts that pack its operands and unpack its results."""
    if _is_packed(op.results):
        for use in list(op.results[0].uses):
            use.owner.erase()
    operands = list(op.operands)
    op.erase()
    if _is_packed(operands) and next(iter(operands[0].uses), None) is None:
        operands[0].owner.erase()


def has_packing(module: ir.Module) -> bool:
    """Whether a module contains a cast that packs or unpacks a tuple."""
    return _has_packing(module.body)


def _has_packing(block: ir.Block) -> bool:
    for op in block.operations:
        name = op.name
        if name == PACK:
            return True
        if name not in PLAIN and any(_has_packing(b) for region in op.regions for b in region):
            return True
    return False


def restore_packing(module: ir.Operation) -> None:
    """Restore the packing casts that upstream's canonicalization has folded away.

    It folds an unpacking followed by a packing of the same values, so that one op takes another's
    tuple directly. It also drops an unpacking cast without uses, even when the op that produces the
    tuple stays for its effects.
    """
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name != PACK and _is_packed(op.results):
            owners = [use.owner.operation for use in op.results[0].uses]
            if len(owners) != 1 or any(owner.name != PACK for owner in owners):
                found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    for op in found:
        packed = op.results[0]
        users = [(use.owner.operation, use.operand_number) for use in packed.uses]
        tuple_type = packed.type
        types = [tuple_type.get_type(i) for i in range(tuple_type.num_types)]
        with ir.InsertionPoint.after(op), op.location:
            unpack = ir.Operation.create(PACK, results=types, operands=[packed])
        for user, number in users:
            if user.name == PACK:
                for old, new in zip(user.results, unpack.results, strict=True):
                    old.replace_all_uses_with(new)
                user.erase()
            else:
                with ir.InsertionPoint(user), user.location:
                    pack = ir.Operation.create(
                        PACK, results=[tuple_type], operands=list(unpack.results)
                    )
                user.operands[number] = pack.results[0]
