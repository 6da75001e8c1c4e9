"""Loops as functions of their own.

LLVM compiles small functions quickly, and takes more than linear time for large ones. It also
believes an argument that says that its memory overlaps with no other. Of two places in the
workspace it cannot prove that, and then neither vectorizes a loop nor moves reads out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gnomon.dialects.mlir import ir

__all__ = ["outline_loops"]

# Loops inside of others are part of their functions.
_LOOP = "scf.for"
# Functions that LLVM may inline, where there are few.
_FEW = 16


def outline_loops(module: ir.Module) -> None:
    """Move each loop of the functions of a module into a function of its own, in place.

    Loops in the bodies of loops move with them. A loop with results stays where it is. Loops that
    differ only in the values from outside are one function.
    """
    functions = [op.operation for op in module.body if op.operation.name == "func.func"]
    found = [
        loop
        for function in functions
        if function.regions[0].blocks
        for loop in _outermost_loops(function)
    ]
    known: dict[str, str] = {}
    for number, loop in enumerate(found):
        call, function = _outline(module, loop, f"loop_{number}", inline=len(found) <= _FEW)
        name = ir.StringAttr(function.attributes["sym_name"])
        text = function.get_asm(use_local_scope=True, assume_verified=True).replace(
            f"@{name.value}(", "@(", 1
        )
        same = known.setdefault(text, name.value)
        if same != name.value:
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(same, module.context)
            function.erase()


def _outermost_loops(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                operation = inner.operation
                if operation.name == _LOOP and not operation.results:
                    yield operation
                elif operation.regions:
                    yield from _outermost_loops(operation)


def _outline(
    module: ir.Module, loop: ir.Operation, name: str, *, inline: bool
) -> tuple[ir.Operation, ir.Operation]:
    """Move a loop into a function, and return the call and the function."""
    free = _free_values(loop)
    own: list[ir.Value] = []
    shared: list[ir.Value] = []
    for value, users in free.items():
        maker = value.owner
        is_own = not isinstance(maker, ir.Block) and (
            maker.name == "arith.constant"
            or (maker.name == "memref.alloca" and users == len(list(value.uses)))
        )
        (own if is_own else shared).append(value)
    types = [value.type for value in shared]
    function = _declare(module, name, types, _apart(shared), inline=inline)
    block = function.regions[0].blocks[0]
    with loop.location, ir.InsertionPoint(loop):
        call = ir.Operation.create(
            "func.call",
            operands=shared,
            attributes={"callee": ir.FlatSymbolRefAttr.get(name, module.context)},
        )
    replaced = dict(zip(shared, block.arguments, strict=True))
    with loop.location, ir.InsertionPoint(block.operations[0]):
        for value in own:
            replaced[value] = value.owner.clone().results[0]
    loop.move_before(block.operations[len(block.operations) - 1])
    _replace(loop, replaced)
    return call, function


def _free_values(op: ir.Operation) -> dict[ir.Value, int]:
    """The values from outside that an operation and those in it use, and how often they do."""
    used: dict[ir.Value, int] = {}
    defined: set[ir.Value] = set()

    # A function that called itself would be a reference cycle, which keeps the values.
    waiting = [op]
    while waiting:
        inner = waiting.pop()
        for operand in inner.operands:
            used[operand] = used.get(operand, 0) + 1
        defined.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                defined.update(block.arguments)
                waiting += reversed([each.operation for each in block.operations])
    return {value: count for value, count in used.items() if value not in defined}


def _replace(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    for number, operand in enumerate(op.operands):
        if operand in values:
            op.operands[number] = values[operand]
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _replace(inner.operation, values)


class _Place(NamedTuple):
    """The bytes that a value occupies: those from `start` to `end` of `memory`."""

    memory: ir.Value
    start: int
    end: int


def _apart(values: Sequence[ir.Value]) -> list[bool]:
    """Which values are memory that overlaps with none of the others."""
    places = [_place(value) for value in values]
    return [
        place is not None
        and not any(
            other.memory == place.memory and other.start < place.end and place.start < other.end
            for other in (*places[:number], *places[number + 1 :])
            if other is not None
        )
        for number, place in enumerate(places)
    ]


def _place(value: ir.Value) -> _Place | None:
    if not isinstance(value.type, ir.MemRefType):
        return None
    maker = value.owner
    if isinstance(maker, ir.Block) or maker.name != "memref.view":
        return _Place(value, 0, 1)
    memory, start = maker.operands
    first = ir.IntegerAttr(start.owner.attributes["value"]).value
    return _Place(memory, first, first + _nbytes(ir.MemRefType(value.type)))


def _nbytes(type_: ir.MemRefType) -> int:
    count = 1
    for size in type_.shape:
        count *= size
    element = type_.element_type
    width = element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64
    return count * max(1, width // 8)


def _declare(
    module: ir.Module, name: str, types: Sequence[ir.Type], apart: Sequence[bool], *, inline: bool
) -> ir.Operation:
    # As text: the bindings import the modules of dialects whose attributes Python looks at, and
    # that of LLVM takes longer than a small program.
    arguments = ", ".join(
        f"%{k}: {type_}{' {llvm.noalias}' if alone else ''}"
        for k, (type_, alone) in enumerate(zip(types, apart, strict=True))
    )
    attributes = "llvm.linkage = #llvm.linkage<internal>"
    if not inline:
        attributes += ", llvm.no_inline"
    text = f"func.func private @{name}({arguments}) attributes {{{attributes}}} {{ return }}"
    function = ir.Operation.parse(text, context=module.context)
    module.body.append(function)
    return function
