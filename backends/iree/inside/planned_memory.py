"""The memory that calls of a program need, counted in the program after its memory was planned.

The counts are stored in the executable, as reflection data of ``main``, so that an executable from
a cache or a file has them too.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["KEY", "PlannedMemory", "measure", "read", "record"]

KEY = "gnomon.memory"

_ALLOCATIONS = frozenset({"stream.resource.alloc", "stream.resource.alloca"})
# Ops whose result is their operand of the same index, or a part of it.
_VIEWS = frozenset(
    {"stream.timepoint.await", "stream.resource.subview", "util.optimization_barrier"}
)
_IMPORT, _EXPORT = "stream.tensor.import", "stream.tensor.export"


class PlannedMemory(NamedTuple):
    """The memory of a program.

    Attributes:
      temporaries: the bytes that a call needs at most besides arguments and results. All branches
        count. The body of a loop counts once, but what it passes to its next run counts twice.
      constants: the bytes that loading the program allocates.
      returned_arguments: the position of an argument for each result that is that argument.
    """

    temporaries: int
    constants: int
    returned_arguments: tuple[int, ...]


class _UnknownSizeError(Exception):
    """A size is known only at the time of a call."""


def record(ir: CompilerIR, module: int) -> None:
    """Store the memory that a program needs in it, unless it depends on the arguments of a call.

    Args:
      ir: access to the program.
      module: the program after its memory was planned.
    """
    planned = measure(ir, module)
    main = _main(ir, module)
    if planned is None or not main:
        return
    text = json.dumps(planned).replace('"', '\\"')
    entry = f'"{KEY}" = "{text}"'
    old = ir.attribute(main, "iree.reflection")
    inner = ir.attribute_text(old)[1:-1] if old else ""
    together = f"{{{inner}, {entry}}}" if inner else f"{{{entry}}}"
    ir.set_attribute(main, "iree.reflection", ir.parse_attribute(together))


def read(text: str) -> PlannedMemory:
    """The counts that `record` stored."""
    temporaries, constants, returned = json.loads(text)
    return PlannedMemory(temporaries, constants, tuple(returned))


def measure(ir: CompilerIR, module: int) -> PlannedMemory | None:
    """Count the memory that a program needs; None if it depends on the arguments of a call.

    Args:
      ir: access to the program.
      module: the program after its memory was planned.
    """
    counter = _Counter(ir)
    allocated = constants = results = 0
    returned: tuple[int, ...] = ()
    try:
        for op in ir.operations(next(ir.blocks(module))):
            name = ir.name(op)
            if name == "util.initializer":
                constants += counter.of_loading(op)
            elif name == "util.func":
                allocated += counter.of_calls(op)
                if ir.symbol(op) == "main":
                    results, returned = counter.of_results(op)
    except _UnknownSizeError:
        return None
    return PlannedMemory(max(allocated - results, 0), constants, returned)


def _main(ir: CompilerIR, module: int) -> int:
    for op in ir.operations(next(ir.blocks(module))):
        if ir.name(op) == "util.func" and ir.symbol(op) == "main":
            return op
    return 0


class _Counter:
    """Counts bytes in the functions of a program."""

    def __init__(self, ir: CompilerIR) -> None:
        self._ir = ir

    def _operations(self, op: int) -> Iterator[int]:
        """The operations nested in an operation, besides those on the device."""
        for block in self._ir.blocks(op):
            for inner in self._ir.operations(block):
                yield inner
                if self._ir.name(inner) != "stream.cmd.execute":
                    yield from self._operations(inner)

    def of_calls(self, function: int) -> int:
        """The bytes that a call of a function allocates, and those that host functions give it."""
        ir = self._ir
        total = 0
        given = set()
        for op in self._operations(function):
            name = ir.name(op)
            if name == _IMPORT:
                (view, *_) = ir.operands(op)
                if view in given or not ir.definition(view):
                    continue
                given.add(view)
            elif name not in _ALLOCATIONS:
                continue
            total += self._size(op) * (2 if self._is_carried(op) else 1)
        return total

    def of_loading(self, initializer: int) -> int:
        """The bytes of constants that an initializer allocates."""
        ir = self._ir
        return sum(
            self._size(op)
            for op in self._operations(initializer)
            if ir.name(op) in _ALLOCATIONS and "<constant>" in ir.type_text(ir.results(op)[0])
        )

    def of_results(self, main: int) -> tuple[int, tuple[int, ...]]:
        """The bytes of results that are not arguments, and the positions of those that are."""
        ir = self._ir
        entry, *_ = ir.blocks(main)
        returned = [op for op in self._operations(main) if ir.name(op) == "util.return"]
        sizes: dict[int, int] = {}
        arguments = []
        for value in ir.operands(returned[-1]) if returned else ():
            exported = ir.definition(value)
            if exported and ir.name(exported) == _EXPORT:
                value = ir.operands(exported)[0]
                # Two results may be one value; parts of one allocation are different values.
                sizes[value] = self._size(exported)
                value = self._origin(value)
            elif exported:
                # The result of a host function, which counts if the program reads it, too.
                imports = [op for op, _ in ir.uses(value) if ir.name(op) == _IMPORT]
                sizes[value] = self._size(imports[0]) if imports else 0
            if not ir.definition(value) and ir.block_of_value(value) == entry:
                arguments.append(ir.number(value))
        return sum(sizes.values()), tuple(arguments)

    def _origin(self, value: int) -> int:
        """The argument, the host function's result or the allocation that a value is a view of."""
        ir = self._ir
        while (op := ir.definition(value)) and ir.name(op) in _VIEWS:
            value = ir.operands(op)[ir.number(value)]
        return ir.operands(op)[0] if op and ir.name(op) == _IMPORT else value

    def _size(self, op: int) -> int:
        """The size of the memory that an op allocates, imports or exports."""
        ir = self._ir
        operands = ir.operands(op)
        size = ir.definition(operands[0 if ir.name(op) in _ALLOCATIONS else -1])
        if not size or ir.name(size) != "arith.constant":
            raise _UnknownSizeError
        return ir.integer(size, "value")

    def _is_carried(self, op: int) -> bool:
        """Whether the memory of an op in a loop is still in use when the iteration ends."""
        ir = self._ir
        freed = any(
            ir.name(user) == "stream.resource.dealloca" for user, _ in ir.uses(ir.results(op)[0])
        )
        return not freed and self._is_repeated(ir.block_of(op))

    def _is_repeated(self, block: int) -> bool:
        """Whether control flow leads from the end of a block back to it."""
        seen: set[int] = set()
        ahead = self._ir.successors(block)
        while ahead:
            following = ahead.pop()
            if following == block:
                return True
            if following not in seen:
                seen.add(following)
                ahead += self._ir.successors(following)
        return False
