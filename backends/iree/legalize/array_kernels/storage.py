"""Which memory of a kernel holds a value.

The fewer bytes a loop touches, the closer to the core they stay. So memory is used again once
nothing reads its value any more, and a value that only becomes part of another, by a pad or an
update, is computed at its place in there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gnomon.backends.iree.legalize.array_kernels.emitter import Emitter
from gnomon.backends.iree.legalize.array_kernels.layout import Buffer, Layout, View, dense
from gnomon.backends.iree.legalize.control.host_scalars import CONSTANT, value_of
from gnomon.backends.iree.legalize.loop_kernels.attributes import integer, padding_of
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import UnsupportedError
from gnomon.dialects.mlir import ir

__all__ = ["Storage", "constant_window", "is_plain_pad", "through_barriers", "window"]

_BARRIER, _PAD = "stablehlo.optimization_barrier", "stablehlo.pad"
_CONCATENATE, _UPDATE = "stablehlo.concatenate", "stablehlo.dynamic_update_slice"


def window(view: View, starts: Sequence[int], shape: Sequence[int]) -> View:
    """The part of an array that begins at a known position."""
    offset = sum(i * s for i, s in zip(starts, view.strides, strict=True))
    return view.with_layout(shape, view.strides, offset)


def is_plain_pad(op: ir.Operation) -> bool:
    """Whether a ``stablehlo.pad`` only adds elements around the array."""
    low, high, interior = padding_of(op)
    return min(*low, *high, 0) == 0 and not any(interior)


def through_barriers(value: ir.Value) -> ir.Value:
    """The value that barriers pass on."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == _BARRIER:
        value = value.owner.operands[value.result_number]
    return value


def constant_window(op: ir.Operation) -> list[int] | None:
    """Where a ``dynamic_update_slice`` writes, if the position is literal; else None."""
    operand, update, *given = op.operands
    starts = []
    for old, n, size in zip(given, operand.type.shape, update.type.shape, strict=True):
        start = through_barriers(old)
        if isinstance(start.owner, ir.Block) or start.owner.name != CONSTANT:
            return None
        starts.append(max(0, min(int(value_of(start.owner)), n - size)))
    return starts


class Storage(Emitter):
    """Chooses the memory of values.

    Args:
      start: the op before which the kernel allocates memory.
      scratch: a buffer of bytes.

    Attributes:
      waits: the elementwise ops' results that are not emitted yet, with their shapes.
      emitting: the ops that are being emitted together.
      places: the memory that was chosen for values which are not emitted yet.
      in_place: the carries that values may overwrite, if nothing else reads these any more.
    """

    def __init__(self, start: ir.Operation, scratch: ir.Value) -> None:
        super().__init__(start, scratch)
        self.waits: dict[ir.Value, tuple[int, ...]] = {}
        self.emitting: set[ir.Operation] = set()
        self.places: dict[ir.Value, View] = {}
        self.in_place: dict[ir.Value, View] = {}
        # The buffers of values of each block.
        self._pool: dict[ir.Block, list[Buffer]] = {}
        # The op that is being emitted, and the position of each op in the current block.
        self.here = 0
        self.positions: dict[ir.Value, int] = {}
        self.current: ir.Block | None = None

    def place(self, old: ir.Value) -> View:
        """Memory for a value that is about to be computed."""
        if not math.prod(old.type.shape):
            raise UnsupportedError("an array without elements")
        return self._chosen(old) or self._new(old)

    def _chosen(self, old: ir.Value) -> View | None:
        """The part of another value's memory in which a value is needed; None if it is in none."""
        if old in self.places:
            return self.places[old]
        uses = list(old.uses)
        if len(uses) != 1 or uses[0].owner.operation.block != self.current:
            return None
        op, number = uses[0].owner.operation, uses[0].operand_number
        if op.name == _BARRIER:
            return self._chosen(op.results[number])
        starts: list[int] | None = None
        if op.name == _PAD and number == 0 and is_plain_pad(op):
            starts = list(padding_of(op)[0])
        elif op.name == _CONCATENATE:
            d = integer(op, "dimension")
            at = sum(x.type.shape[d] for x in list(op.operands)[:number])
            starts = [at if i == d else 0 for i in range(len(old.type.shape))]
        elif op.name == _UPDATE and number == 1 and op.results[0] in self.places:
            starts = constant_window(op)
        if starts is None:
            return None
        (result,) = op.results
        self.places[result] = whole = self.place(result)
        return window(whole, starts, old.type.shape)

    def _new(self, old: ir.Value) -> View:
        element, shape = old.type.element_type, tuple(old.type.shape)
        assert self.current is not None
        pool = self._pool.setdefault(self.current, [])
        size = math.prod(shape)
        for i, buffer in enumerate(pool):
            if (buffer.element, *buffer.memory.type.shape) == (element, size) and not any(
                self._readers_left(buffer)
            ):
                pool[i] = Buffer(buffer.memory, element, self.depth)
                return View(pool[i], shape, dense(shape), element)
        view = self.dense(element, shape)
        assert view.buffer is not None
        pool.append(view.buffer)
        return view

    # ------------------------------------------------------------------------------------ readers

    def _readers_left(self, buffer: Buffer) -> Iterator[bool]:
        """For each reader of a buffer's values, whether it is not emitted yet."""
        if not buffer.viewers:
            # Its value is still being computed.
            yield True
        for viewer in buffer.viewers:
            for use in viewer.uses:
                yield not self._is_emitted(use.owner)

    def _is_emitted(self, op: ir.Operation) -> bool:
        op = op.operation
        if op in self.emitting or (len(op.results) and op.results[0] in self.waits):
            return False
        return self._position(op) < self.here

    def overwritten(self, old: ir.Value, sources: Sequence[Layout]) -> View | None:
        """The carry that elementwise ops may overwrite with a result; None if they may not.

        Args:
          old: the result.
          sources: what they read; they may read the carry at the same positions.
        """
        view = self.in_place.get(old)
        if view is None or view.buffer is None:
            return None
        for viewer in view.buffer.viewers:
            for use in viewer.uses:
                if use.owner.operation not in self.emitting and not self._is_emitted(use.owner):
                    return None
        for source in sources:
            if isinstance(source, View) and source.buffer is view.buffer and source != view:
                return None
        return view

    def may_overwrite(self, old: ir.Value, view: Layout) -> bool:
        """Whether nothing reads a value's memory after the current op, which may then overwrite it.

        The memory must belong to the region of the current op.
        """
        if not isinstance(view, View) or not view.is_dense:
            return False
        buffer = view.buffer
        assert buffer is not None
        if buffer.owner != self.depth:
            return False
        return all(
            self._position(use.owner) <= self.here
            for viewer in (*buffer.viewers, old)
            for use in viewer.uses
        )

    def _position(self, op: ir.Operation) -> float:
        """The position in the current block of an op or the op around it; infinite at the end."""
        # The module has no parent, and no block: MLIR's bindings crash when they are asked for it.
        while (parent := op.operation.parent) is not None:
            if op.operation.block == self.current:
                break
            op = parent
        else:
            return math.inf
        if not len(op.operation.results):
            return math.inf
        return self.positions[op.operation.results[0]]
