"""Writing the operations of a program as loops over scalars, and planning their memory.

Memory is planned while the code is written. A buffer has a place in the workspace from the
operation that computes it to the last one that reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.kernels.code import Code, Element, Pair, Place, Variable
from gnomon.backends.kernels.types import of_type
from gnomon.backends.kernels.values import Buffer, Flat, Index, Lazy, Stored, Value, flattened
from gnomon.backends.kernels.workspace import Workspace
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_complex, type_of

__all__ = ["WORKSPACE_SIZE", "Builder", "Operation", "Rule", "memref_of"]

# Arrays of one element are variables, which compilers keep in registers.
_LOCAL_ELEMENTS = 1
# The most values that one loop evaluates: compilers take longer for each the more there are.
_MOST_FUSED = 400

# A placeholder for the size of the workspace, which is known when the program has been written.
WORKSPACE_SIZE = "@workspace@"


def _length(type_: TensorType) -> int:
    """How many elements of a memref hold an array."""
    return max(type_.size, 1) * (2 if is_complex(type_.dtype) else 1)


def memref_of(type_: TensorType) -> str:
    """The type of the memory that holds an array."""
    return f"memref<{_length(type_)}x{of_type(type_).stored}>"


@dataclass
class Operation:
    """An operation and the values of its operands."""

    op: ir.Operation
    operands: list[Value]
    types: list[TensorType]

    @property
    def type(self) -> TensorType:
        """The type of the only result."""
        (type_,) = self.types
        return type_

    def attribute(self, name: str) -> Any:
        """An attribute, or None."""
        attributes = self.op.attributes
        return attributes[name] if name in attributes else None  # noqa: SIM401 - no dictionary

    def integers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """An attribute that is a list of integers."""
        values = self.attribute(name)
        return tuple(default) if values is None else tuple(int(x) for x in values)


Rule = Callable[["Builder", Operation], Sequence[Value]]


@dataclass
class _Scope:
    """The state of a block while its operations are written.

    Attributes:
      number: identifies the scope.
      remaining: for each value, the number of the block's unwritten operations that use it.
      values: the values that were bound in the block and are live.
      hints: the buffers in which values must be computed.
    """

    number: int
    remaining: Counter[ir.Value] = field(default_factory=Counter)
    values: dict[ir.Value, Value] = field(default_factory=dict)
    hints: dict[ir.Value, Buffer] = field(default_factory=dict)


class Builder:
    """Writes the operations of a program as loops over scalars.

    Args:
      rules: how each operation of StableHLO is written, by its name.
      reads_once: whether an operation reads each element of an operand at most once; only then is
        an operand computed in the operation's own loop.
      elementwise: whether an operation reads its operands where its own element is.
      functions: the program's functions, by name.

    Attributes:
      code: the text.
      globals: the definitions of constant arrays.
      declarations: those of functions that the program calls outside of itself, by name.
      calls_outside: whether there are such functions.
      workspace: the plan of the memory for intermediate values.
    """

    def __init__(
        self,
        rules: Mapping[str, Rule],
        reads_once: Callable[[str], bool],
        elementwise: Callable[[str], bool],
        functions: Mapping[str, ir.Operation],
    ) -> None:
        self.code = Code()
        self.rules = rules
        self.functions = functions
        self.globals: list[str] = []
        self.declarations: dict[str, str] = {}
        self.calls_outside = any(not op.regions[0].blocks for op in functions.values())
        self.workspace = Workspace()
        self._reads_once = reads_once
        self._elementwise = elementwise
        self._scopes: list[_Scope] = []
        self._env: dict[ir.Value, Value] = {}

    # -------------------------------------------------------------------------------------- memory

    def allocate(self, type_: TensorType) -> Buffer:
        """A new buffer in the workspace, or a variable for one element."""
        scope = self._scopes[-1].number if self._scopes else -1
        memref = memref_of(type_)
        if type_.size <= _LOCAL_ELEMENTS:
            name = self.code.at_head(("local", self.code.number()), f"memref.alloca() : {memref}")
            return Buffer(name, type_, True, scope)
        offset = self.workspace.place(type_.nbytes)
        start = self.code.at(offset)
        name = self.code.at_head(
            ("view", offset, memref),
            f"memref.view %workspace[{start}][] : memref<{WORKSPACE_SIZE}xi8> to {memref}",
        )
        return Buffer(name, type_, True, scope, offset)

    def release(self, buffer: Buffer) -> None:
        """Make a buffer's range of the workspace free for later buffers."""
        if buffer.offset is not None:
            self.workspace.free(buffer.offset, buffer.type.nbytes)
            buffer.offset = None

    def failed(self) -> Variable:
        """Whether a function outside of the program has failed, after which loops end."""
        return self.code.flag("failed")

    @contextmanager
    def scratch(self, type_: TensorType) -> Iterator[Buffer]:
        """A buffer that is used within the block only."""
        buffer = self.allocate(type_)
        yield buffer
        self.release(buffer)

    def load(self, buffer: Buffer, position: Place) -> Element:
        """Read an element."""
        kind, size, code = of_type(buffer.type), _length(buffer.type), self.code
        if is_complex(buffer.type.dtype):
            place = code.times(position, 2)
            re, im = (
                code.read(buffer.memory, kind.stored, size, code.plus(place, k)) for k in (0, 1)
            )
            return Pair(re, im)
        element = code.read(buffer.memory, kind.stored, size, position)
        if kind.stored == "i8" and kind.computed == "i1":
            return code.compare("ne", element, code.constant(0, "i8"))
        return code.cast("arith.extf", element, kind.computed)

    def store(self, buffer: Buffer, position: Place, element: Element) -> None:
        """Write an element."""
        kind, size, code = of_type(buffer.type), _length(buffer.type), self.code
        if isinstance(element, Pair):
            place = code.times(position, 2)
            for k, part in enumerate((element.re, element.im)):
                code.write(buffer.memory, size, code.plus(place, k), part)
            return
        if kind.computed == "i1":
            element = code.cast("arith.extui", element, "i8")
        code.write(buffer.memory, size, position, code.cast("arith.truncf", element, kind.stored))

    def compute(
        self, value: Value, into: Buffer, at: Callable[[Index], Place] | None = None
    ) -> None:
        """Evaluate all elements of a value into a buffer.

        Args:
          value: the value.
          into: the buffer.
          at: maps an index to a position in the buffer; by default the row-major position.
        """
        shape = value.type.shape
        if value.type.size == 0:
            return
        if at is None and value.is_flat and len(shape) > 1:
            with self.code.loops([value.type.size]) as (position,):
                self.store(into, position, value.element(self, Flat(position)))
            return
        with self.code.loops(shape) as index:
            position = at(index) if at else flattened(self.code, index, shape)
            self.store(into, position, value.element(self, index))

    def stored(self, value: Value) -> Stored:
        """A value in memory, in row-major order."""
        if isinstance(value, Stored):
            return value
        buffer = self.allocate(value.type)
        self.compute(value, buffer)
        return Stored(buffer, value.type)

    def held(self, value: Value) -> Value:
        """The only element of a value, evaluated now; it is known in the current block."""
        element = value.element(self, (0,) * value.type.rank)
        return Lazy(value.type, lambda _, __: element, frozenset(), True, True)

    @contextmanager
    def in_memory(self, value: Value) -> Iterator[Stored]:
        """Like `stored`, but memory that was allocated for the value is freed after the block."""
        stored = self.stored(value)
        yield stored
        if stored is not value:
            self.release(stored.buffer)

    def result(self, operation: Operation, number: int = 0) -> Buffer:
        """The buffer for a result that is computed now."""
        hint = self._scopes[-1].hints.pop(operation.op.results[number], None)
        return self.allocate(operation.types[number]) if hint is None else hint

    # -------------------------------------------------------------------------------------- blocks

    def bind(self, name: ir.Value, value: Value) -> None:
        """Give an SSA value its value."""
        self._env[name] = value
        if self._scopes:
            self._scopes[-1].values[name] = value
        for buffer in value.reads:
            buffer.holders += 1

    def drop(self, name: ir.Value) -> None:
        """Forget an SSA value; free the buffers that nothing reads any more."""
        value = self._env.pop(name)
        self._scopes[-1].values.pop(name, None)
        for buffer in value.reads:
            buffer.holders -= 1
            if buffer.holders == 0 and buffer.owned:
                self.release(buffer)

    def overwritable(self, operation: Operation, number: int) -> Buffer | None:
        """The buffer of an operand, if the operation that is written now may overwrite it.

        Lazy values that read the buffer are computed first, and ``operation.operands`` is updated.
        """
        name, scope = operation.op.operands[number], self._scopes[-1]
        value = self._env[name]
        # A buffer of an outer block may be read after this block, or in the next iteration.
        if name not in scope.values or scope.remaining[name] != 1 or not isinstance(value, Stored):
            return None
        buffer = value.buffer
        if not buffer.owned or buffer.scope != scope.number:
            return None
        if list(operation.op.operands).count(name) > 1 or name in _captured(operation.op):
            return None
        self._settle(buffer, name)
        operation.operands[:] = [self._env[x] for x in operation.op.operands]
        others = (v for n, v in scope.values.items() if n != name)
        return None if any(buffer in v.reads for v in others) else buffer

    def _settle(self, buffer: Buffer, except_for: ir.Value) -> None:
        """Compute the lazy values that read a buffer, if they are no larger than a copy of it."""
        pending = [
            (name, value)
            for name, value in self._scopes[-1].values.items()
            if name != except_for and buffer in value.reads
        ]
        if any(isinstance(value, Stored) for _, value in pending):
            return
        if sum(value.type.size for _, value in pending) > buffer.type.size:
            return
        for name, value in pending:
            self._replace(name, self.stored(value))

    def _replace(self, name: ir.Value, value: Value) -> None:
        for buffer in value.reads:
            buffer.holders += 1
        old, self._env[name] = self._env[name], value
        self._scopes[-1].values[name] = value
        for buffer in old.reads:
            buffer.holders -= 1
            if buffer.holders == 0 and buffer.owned:
                self.release(buffer)

    @contextmanager
    def scope(
        self,
        block: ir.Block,
        arguments: Sequence[Value],
        hints: Mapping[ir.Value, Buffer] | None = None,
        *,
        number: int | None = None,
    ) -> Iterator[list[Value]]:
        """Write the operations of a block; yield its results, which live until the context ends.

        Args:
          block: the block.
          arguments: the values of its arguments.
          hints: buffers for values that are computed in it.
          number: the number of the scope, if buffers of the arguments have it as their owner.
        """
        scope = _Scope(self.code.number() if number is None else number, hints=dict(hints or {}))
        operations = [op.operation for op in block.operations]
        users = [_used(op) for op in operations]
        for names in users:
            scope.remaining.update(names)
        captured = {name for op in operations for name in _captured(op)}
        self._scopes.append(scope)
        for name, value in zip(block.arguments, arguments, strict=True):
            self.bind(name, value)
        fused = self._fused(operations, captured | scope.hints.keys())
        for op, names in zip(operations[:-1], users[:-1], strict=True):
            self._write(op)
            for result in op.results:
                value = self._env[result]
                is_lazy = value.is_cheap or result in fused or isinstance(value, Stored)
                if result in scope.hints or not is_lazy:
                    self._materialize(result, value)
            self._after(op, names)
        yield [self._env[name] for name in operations[-1].operands]
        for name in list(scope.values):
            self.drop(name)
        self._scopes.pop()

    def _fused(
        self, operations: Sequence[ir.Operation], kept: Container[ir.Value]
    ) -> set[ir.Value]:
        """The values of a block that are evaluated in the loop of one operation, and nowhere else.

        A value with several users is one of them if all are elementwise and are evaluated in the
        same loop in turn: it is evaluated once for each element.
        """
        uses: dict[ir.Value, list[tuple[ir.Operation, int]]] = {}
        for op in operations:
            for number, operand in enumerate(op.operands):
                uses.setdefault(operand, []).append((op, number))
        # The operation whose loop evaluates a value, and the operand as which it asks for elements.
        loops: dict[ir.Value, tuple[ir.Operation, int]] = {}
        counts: Counter[tuple[ir.Operation, int]] = Counter()
        for op in reversed(operations[:-1]):
            for result in op.results:
                found = {self._loop_of_use(result, *use, loops) for use in uses.get(result, ())}
                loop = found.pop() if len(found) == 1 else None
                if loop is None or result in kept or counts[loop] >= _MOST_FUSED:
                    continue
                loops[result] = loop
                counts[loop] += 1
        return set(loops)

    def _loop_of_use(
        self,
        value: ir.Value,
        user: ir.Operation,
        number: int,
        loops: Mapping[ir.Value, tuple[ir.Operation, int]],
    ) -> tuple[ir.Operation, int] | None:
        """The loop in which an operation asks for the elements of an operand, once for each."""
        if not self._reads_once(user.name):
            return None
        is_elementwise = self._elementwise(user.name)
        if not is_elementwise or type_of(value).shape != type_of(user.results[0]).shape:
            return user, number
        return loops.get(user.results[0], (user, 0))

    def _materialize(self, name: ir.Value, value: Value) -> None:
        scope = self._scopes[-1]
        if scope.remaining[name] == 0:
            return
        hint = scope.hints.pop(name, None)
        if hint is not None:
            self.compute(value, hint)
            self._replace(name, Stored(hint, value.type))
        elif value.type.size == 1:
            self._replace(name, self.held(value))
        else:
            self._replace(name, self.stored(value))

    def _after(self, op: ir.Operation, names: set[ir.Value]) -> None:
        scope = self._scopes[-1]
        scope.remaining.subtract(names)
        for name in [*names, *op.results]:
            if scope.remaining[name] <= 0 and name in scope.values:
                self.drop(name)

    def _write(self, op: ir.Operation) -> None:
        rule = self.rules.get(op.name)
        if rule is None:
            raise UnsupportedOnTarget(
                f"{op.name} has no kernel: it needs a runtime, another device or Python "
                f"({op.location})"
            )
        operands = [self._env[x] for x in op.operands]
        types = [type_of(x) for x in op.results]
        try:
            values = rule(self, Operation(op, operands, types))
        except UnsupportedOnTarget as error:
            if "(loc(" in str(error):
                raise
            raise UnsupportedOnTarget(f"{op.name}: {error} ({op.location})") from None
        for name, value in zip(op.results, values, strict=True):
            self.bind(name, value)

    def write_block(
        self, block: ir.Block, arguments: Sequence[Value], outputs: Sequence[Buffer]
    ) -> None:
        """Write the operations of a block, and its results into buffers."""
        results = list([op.operation for op in block.operations][-1].operands)
        hints: dict[ir.Value, Buffer] = {}
        for result, output in zip(results, outputs, strict=True):
            hints.setdefault(result, output)
        with self.scope(block, arguments, hints) as values:
            for value, output in zip(values, outputs, strict=True):
                if not (isinstance(value, Stored) and value.buffer is output):
                    self.compute(value, output)

    def inline(self, block: ir.Block, arguments: Sequence[Value]) -> list[Element]:
        """The results of a block of scalar operations, evaluated in the current loop."""
        with self.scope(block, arguments) as results:
            return [value.element(self, ()) for value in results]


def _used(op: ir.Operation) -> set[ir.Value]:
    """The values defined outside of an operation that it and the operations in it use."""
    return set(op.operands) | _captured(op)


def _captured(op: ir.Operation) -> set[ir.Value]:
    """The values defined outside of an operation that the operations in its regions use."""
    used: set[ir.Value] = set()
    defined: set[ir.Value] = set()
    for region in op.regions:
        for block in region.blocks:
            defined.update(block.arguments)
            for inner in block.operations:
                used |= _used(inner.operation)
                defined.update(inner.operation.results)
    return used - defined
