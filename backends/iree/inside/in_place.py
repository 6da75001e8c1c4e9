"""Updates in place: each gets a buffer that nothing else needs, if necessary by a copy.

When kernels are formed, a kernel that writes into one of its operands has a result *tied* to it.
IREE 3.13 inserts a copy before the kernel, and removes it if nothing that follows in the program
reads the operand. Then it reorders the kernels by their data dependences alone, so that a reader
before the update may run after it: its result, or the function's, is then computed from the updated
value. IREE also overlooks other owners of the buffer: the caller (of an argument), Python (of the
operands and results of host functions), literals, and values that a loop or branch passes on. Last,
it lets the kernel that makes the rows to write put them into the updated buffer itself, although
that kernel may read the same buffer, as that of a stencil does.

This pass turns the order into data dependences. It runs after kernels are formed and before they
are scheduled. An update keeps its operand's buffer if

- a kernel in the same block made the buffer, or the loop around the block carries it, and
- the update depends on all other readers of the buffer or its views, so that no schedule runs the
  update before them.

Any other update writes into a copy, which a separate kernel makes. Rows whose kernel reads the
updated buffer are copied likewise, and the copy is written. A loop whose body updates a carry
updates the carry's initial value, and the value that leaves the body must also belong to the loop.
At the end, the pass checks that no update needs a copy any more.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["InPlaceError", "copy_updated_buffers"]

_DISPATCH, _UPDATE = "flow.dispatch", "flow.tensor.update"
_FOR, _WHILE = "scf.for", "scf.while"
# Their results are new buffers, except those that are tied to an operand.
_MAKES_BUFFERS = frozenset({_DISPATCH, _UPDATE, "flow.tensor.splat"})
# Each use of uninitialized memory gets its own buffer.
_UNINITIALIZED = "flow.tensor.empty"
# They read buffers and pass none on: their results, if any, are values of the host.
_ONLY_READS = frozenset({"flow.tensor.load", "flow.tensor.trace", "hal.tensor.wait"})

_WAITS = frozenset({"flow.tensor.load", "util.call", "util.optimization_barrier"})


class InPlaceError(ValueError):
    """Raised if an update has no separate buffer after the pass."""


def copy_updated_buffers(ir: CompilerIR, module: int) -> int:
    """Insert copies of the buffers that updates must not overwrite; the module is changed.

    Args:
      ir: access to the program.
      module: the program after its kernels were formed.

    Returns:
      The number of copies.

    Raises:
      InPlaceError: an update would still overwrite a buffer that something else needs.
    """
    copies = _Copies(ir, module)
    for block in _function_bodies(ir, module):
        _Owner(ir, copies).visit(block)
    copies.finish()
    for block in _function_bodies(ir, module):
        _Owner(ir, None).visit(block)
    return copies.count


def _function_bodies(ir: CompilerIR, module: int) -> Iterator[int]:
    for block in ir.blocks(module):
        for op in ir.operations(block):
            if ir.name(op) in ("util.func", "util.initializer"):
                yield from ir.blocks(op)


class _Owner:
    """Gives the updates of a function's blocks separate buffers.

    Args:
      ir: access to the program.
      copies: makes copies; None if every update must have its buffer already.
    """

    def __init__(self, ir: CompilerIR, copies: _Copies | None) -> None:
        self._ir = ir
        self._copies = copies
        # The block arguments that are carries updated within their loop.
        self._updated: set[int] = set()

    def visit(self, block: int) -> None:
        """Give the updates of a block their own buffers, nested blocks first."""
        ir = self._ir
        for op in ir.operations(block):
            for inner in ir.blocks(op):
                self.visit(inner)
            name = ir.name(op)
            if name in (_FOR, _WHILE):
                self._copy_carries(op, name)
            else:
                for index in _tied_operands(ir, op, name).values():
                    self._copy_operand(op, index)
                if name == _UPDATE:
                    self._copy_written(op)

    # --------------------------------------------------------------------------------- loops

    def _copy_carries(self, loop: int, name: str) -> None:
        """Make the values that enter the updated carries of a loop its own.

        Owning a value that leaves the body may mark another carry as updated, so this repeats until
        no carry is added.
        """
        entries = self._entries_of_for(loop) if name == _FOR else self._entries_of_while(loop)
        owned: set[int] = set()
        while due := [a for a in entries if a in self._updated and a not in owned]:
            owned.update(due)
            for argument in due:
                for op, index in entries[argument]:
                    self._copy_operand(op, index)

    def _entries_of_for(self, loop: int) -> dict[int, list[tuple[int, int]]]:
        """The uses, as operations and operand indices, that enter each carry of an ``scf.for``.

        The loop's operands are three bounds and the carries; its block arguments are a counter and
        the carries.
        """
        ir = self._ir
        (body,) = ir.blocks(loop)
        last = ir.terminator(body)
        return {
            ir.argument(body, 1 + i): [(last, i), (loop, 3 + i)]
            for i in range(len(ir.results(loop)))
        }

    def _entries_of_while(self, loop: int) -> dict[int, list[tuple[int, int]]]:
        """The same for an ``scf.while``, whose first block passes on its operands after a bool."""
        ir = self._ir
        before, after = ir.blocks(loop)
        condition, last = ir.terminator(before), ir.terminator(after)
        entries = {
            ir.argument(before, i): [(last, i), (loop, i)] for i in range(len(ir.operands(loop)))
        }
        for i in range(len(ir.results(loop))):
            entries[ir.argument(after, i)] = [(condition, 1 + i)]
        return entries

    # ----------------------------------------------------------------------------- ownership

    def _copy_operand(self, op: int, index: int) -> None:
        """Make an operation update a copy of its operand, unless it may update the operand."""
        if self._may_update(op, index):
            return
        if self._copies is None:
            raise InPlaceError(
                f"{self._ir.name(op)} would overwrite its operand {index}, which something else "
                "needs"
            )
        self._copies.insert(op, index)

    def _copy_written(self, update: int) -> None:
        """Copy the rows that an update writes, if their kernel reads the updated buffer."""
        ir = self._ir
        # The target, its sizes and the position come first.
        index = sum(ir.segment_size(update, group) for group in range(3))
        target, written = ir.operands(update)[0], ir.operands(update)[index]
        if not self._is_made_from(written, self._origin(target)):
            return
        if self._copies is None:
            raise InPlaceError("the kernel of an updated slice would read what it overwrites")
        self._copies.insert(update, index)

    def _is_made_from(self, value: int, root: int) -> bool:
        """Whether a kernel reads a buffer and puts its result into a value."""
        ir = self._ir
        definition = ir.definition(self._origin(value))
        if not definition:
            return False
        read = [x for x in ir.operands(definition) if _is_buffer(ir, x)]
        if ir.name(definition) == _UPDATE:
            return any(self._is_made_from(x, root) for x in read)
        return ir.name(definition) == _DISPATCH and root in map(self._origin, read)

    def _may_update(self, op: int, index: int) -> bool:
        ir = self._ir
        block = ir.block_of(op)
        root = self._origin(ir.operands(op)[index])
        if ir.block_of_value(root) != block:
            return False
        definition = ir.definition(root)
        if definition and ir.name(definition) == _UNINITIALIZED:
            return True
        if not (self._is_fresh(root) if definition else self._is_carried(root, block)):
            return False
        before: set[int] | None = None
        for reader, number in self._readers(root):
            user = self._in_block(reader, block)
            if (reader, number) == (op, index):
                continue
            # A host function, or a caller, may keep what it was given.
            if user in (0, op, ir.terminator(block)) or ir.name(user) == "util.call":
                return False
            if before is None:
                before = self._dependences(op)
                # The next iteration updates the value that leaves this one. It waits only for the
                # kernels that were launched together with the kernel that computes that value.
                if op == ir.terminator(block) and self._has_host_waits(block):
                    return False
            if user not in before:
                return False
        if not definition:
            self._updated.add(root)
        return True

    def _has_host_waits(self, block: int) -> bool:
        """Whether the host waits for kernels in the middle of a block."""
        ir = self._ir
        return any(
            ir.name(op) in _WAITS or any(True for _ in ir.blocks(op)) for op in ir.operations(block)
        )

    def _origin(self, value: int) -> int:
        """The value that a value is a view of, followed through all views."""
        ir = self._ir
        while definition := ir.definition(value):
            name = ir.name(definition)
            if not _is_view(ir, definition, name):
                return value
            operands = [x for x in ir.operands(definition) if _is_buffer(ir, x)]
            # A barrier has a result for each operand.
            value = operands[ir.number(value)] if len(ir.results(definition)) > 1 else operands[0]
        return value

    def _is_fresh(self, value: int) -> bool:
        """Whether a value is in a buffer that its operation made, so that it may be overwritten."""
        ir = self._ir
        definition = ir.definition(value)
        name = ir.name(definition)
        if name == _FOR:
            (body,) = ir.blocks(definition)
            return ir.argument(body, 1 + ir.number(value)) in self._updated
        if name == _WHILE:
            _, after = ir.blocks(definition)
            return ir.argument(after, ir.number(value)) in self._updated
        # A splat literal is written again for each use.
        return name in _MAKES_BUFFERS or (name == "arith.constant" and ir.is_splat(definition))

    def _is_carried(self, argument: int, block: int) -> bool:
        """Whether an argument of a block is a carry of the loop around it."""
        name = self._ir.name(self._ir.parent(block))
        return name == _WHILE or (name == _FOR and self._ir.number(argument) > 0)

    def _readers(self, root: int) -> Iterator[tuple[int, int]]:
        """The uses of a value or of a view of it: operations and operand indices."""
        ir = self._ir
        pending, seen = [root], {root}
        while pending:
            for user, number in ir.uses(pending.pop()):
                if not _is_view(ir, user, ir.name(user)):
                    yield user, number
                    continue
                for result in ir.results(user):
                    if result not in seen:
                        seen.add(result)
                        pending.append(result)

    def _in_block(self, op: int, block: int) -> int:
        """The operation of a block that is or contains another operation; 0 if there is none."""
        ir = self._ir
        while op:
            around = ir.block_of(op)
            if around == block:
                return op
            op = ir.parent(around) if around else 0
        return 0

    def _dependences(self, op: int) -> set[int]:
        """The operations in the same block on whose results an operation depends."""
        ir = self._ir
        block, found, pending = ir.block_of(op), {op}, [op]
        while pending:
            for value in self._used_by(pending.pop()):
                definition = ir.definition(value)
                if definition and definition not in found and ir.block_of(definition) == block:
                    found.add(definition)
                    pending.append(definition)
        found.remove(op)
        return found

    def _used_by(self, op: int) -> Iterator[int]:
        """The operands of an operation and of all operations in its regions."""
        ir = self._ir
        yield from ir.operands(op)
        for block in ir.blocks(op):
            for inner in ir.operations(block):
                yield from self._used_by(inner)


def _tied_operands(ir: CompilerIR, op: int, name: str) -> dict[int, int]:
    """The tied results of an operation, each with the index of its operand."""
    if name == _UPDATE:
        return {0: 0}
    if name != _DISPATCH:
        return {}
    # The indices do not count the operands for the size of the grid, which come first.
    skipped = ir.segment_size(op, 0)
    ties = ir.int_array(op, "tied_operands")
    return {result: skipped + operand for result, operand in enumerate(ties) if operand >= 0}


def _is_buffer(ir: CompilerIR, value: int) -> bool:
    return ir.type_text(value).startswith(("tensor<", "!hal.buffer"))


def _is_view(ir: CompilerIR, op: int, name: str) -> bool:
    """Whether results of an operation may share the buffers of its operands.

    Unknown operations count as views.
    """
    if name in _MAKES_BUFFERS or name in _ONLY_READS or name in (_FOR, _WHILE, "util.call"):
        return False
    return any(_is_buffer(ir, x) for x in ir.results(op)) and any(
        _is_buffer(ir, x) for x in ir.operands(op)
    )


class _Copies:
    """Copies values by kernels, one for each type, which later phases cannot see through.

    Each copy has a number, since equal copies would be merged, and so would their buffers.
    """

    def __init__(self, ir: CompilerIR, module: int) -> None:
        self._ir, self._module = ir, module
        self._templates: dict[str, tuple[int, tuple[int, int]]] = {}
        self.count = 0

    def insert(self, op: int, index: int) -> None:
        """Make an operation use a copy of one of its operands."""
        ir = self._ir
        value = ir.operands(op)[index]
        number, copy = map(ir.clone, self._template(ir.type_text(value)))
        ir.set_int_attribute(number, "value", self.count)
        ir.set_operand(copy, 0, value)
        ir.set_operand(copy, 1, ir.results(number)[0])
        ir.insert_before(op, number)
        ir.insert_before(op, copy)
        ir.set_operand(op, index, ir.results(copy)[0])
        self.count += 1

    def finish(self) -> None:
        """Free the templates of the copies."""
        for holder, _ in self._templates.values():
            self._ir.destroy_module(holder)
        self._templates.clear()

    def _template(self, type_: str) -> tuple[int, int]:
        """Templates of the two operations of a copy: its number, and the call of the kernel."""
        if type_ not in self._templates:
            ir = self._ir
            holder = ir.parse(_copy_text(f"copy_{len(self._templates)}", type_))
            kernel, function = ir.operations(ir.body(holder))
            ir.prepend(next(ir.blocks(self._module)), kernel)
            (body,) = ir.blocks(function)
            number, copy, _ = ir.operations(body)
            self._templates[type_] = holder, (number, copy)
        return self._templates[type_][1]


def _copy_text(name: str, type_: str) -> str:
    sizes = re.findall(r"(\d+)x", re.match(r"tensor<((?:\d+x)*)", type_)[1])  # type: ignore[index]
    whole = f"offsets = {[0] * len(sizes)}, sizes = [{', '.join(sizes)}], strides = " + str(
        [1] * len(sizes)
    )
    tensor = "!iree_tensor_ext.dispatch.tensor"
    return f"""
flow.executable private @{name} {{
  flow.executable.export public @{name} workgroups() -> (index, index, index) {{
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
    flow.return %x, %y, %z : index, index, index
  }}
  builtin.module {{
    func.func @{name}(
        %from: {tensor}<readonly:{type_}>, %number: index, %to: {tensor}<writeonly:{type_}>) {{
      %value = iree_tensor_ext.dispatch.tensor.load %from, {whole}
          : {tensor}<readonly:{type_}> -> {type_}
      iree_tensor_ext.dispatch.tensor.store %value, %to, {whole}
          : {type_} -> {tensor}<writeonly:{type_}>
      return
    }}
  }}
}}
util.func private @make_{name}(%value: {type_}) -> {type_} {{
  %number = arith.constant 0 : index
  %copy = flow.dispatch @{name}::@{name}(%value, %number) : ({type_}, index) -> {type_}
  util.return %copy : {type_}
}}
"""
