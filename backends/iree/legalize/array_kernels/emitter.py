"""Loads, stores, loops and memory in the code of a kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gnomon.backends.iree.legalize.array_kernels.layout import Buffer, Layout, Splat, View, dense
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import (
    UnsupportedError,
    index,
    kind_of,
    like,
    number,
    scalar,
    signless,
)
from gnomon.dialects.mlir import ir

__all__ = ["MOST_OPS", "Emitter", "Place", "pieces_of", "width_of", "widths_of"]

# The bytes of a vector. On processors with shorter vectors, the compiler splits it.
_VECTOR_BYTES = 64
# The most ops in a kernel, and the most memory of its intermediate values. With more, they leave
# the caches, and then several threads get more bandwidth than one.
MOST_OPS = 12000
_MOST_BYTES = 1 << 23
# The largest buffer on the stack, and all of them together; IREE allows 32 KiB.
_ON_STACK, _ALL_ON_STACK = 512, 8192


def stored_type(element: ir.Type) -> ir.Type:
    """The type of an element in memory: bools are bytes."""
    return ir.IntegerType.get_signless(8) if kind_of(element) == "b" else signless(element)


def bytes_of(element: ir.Type) -> int:
    """The size of an element in memory."""
    return int(stored_type(element).width) // 8


def width_of(elements: Sequence[ir.Type]) -> int:
    """The number of elements in a vector, by the widest of the types."""
    return _VECTOR_BYTES // max(map(bytes_of, elements), default=1)


def pieces_of(size: int, width: int) -> tuple[int, list[tuple[int, int]]]:
    """The part of a dimension that a loop over full vectors covers, and the pieces after it.

    Returns:
      The end of the loop, a multiple of the width (0 for none), and start and width of each piece.
    """
    full = size // width
    end = full * width if full > 2 else 0
    pieces = []
    at = end
    while at < size:
        lanes = width
        while lanes > size - at:
            lanes //= 2
        pieces.append((at, lanes))
        at += lanes
    return end, pieces


def widths_of(size: int, width: int) -> list[int]:
    """The width of each vector of a loop body and of the pieces after it, see `pieces_of`."""
    end, remainder = pieces_of(size, width)
    return [*([width] if end else []), *(lanes for _, lanes in remainder)]


class Place:
    """A position in memory: a known number plus one that the program computes."""

    def __init__(self, known: int = 0, computed: ir.Value | None = None) -> None:
        self.known = known
        self.computed = computed

    def plus(self, i: ir.Value | int, stride: int) -> Place:
        """The position ``i`` strides further on."""
        if stride == 0:
            return self
        if isinstance(i, int):
            return Place(self.known + i * stride, self.computed)
        if stride != 1:
            i = scalar("arith.muli", [i, number(index(), stride)], index())
        if self.computed is not None:
            i = scalar("arith.addi", [self.computed, i], index())
        return Place(self.known, i)

    def value(self) -> ir.Value:
        """The position as one number."""
        known = number(index(), self.known)
        if self.computed is None:
            return known
        if not self.known:
            return self.computed
        return scalar("arith.addi", [self.computed, known], index())


class Emitter:
    """Emits memory and loops at the current insertion point.

    Args:
      start: the op before which the kernel allocates memory.
      scratch: a buffer of bytes.

    Attributes:
      trips: how many times the current block runs for each run of the kernel.
      work: an estimate of the instructions that a run of the kernel takes.
      accesses: those of them that load or store a vector, except in products and reductions.
      shared: those that separate kernels with several threads would share in any case, since they
        are in products or reductions.
      loops: how many loop nests run in a run of the kernel; outside of it, each would be a launch.
      depth: how deep regions of the program are nested.
    """

    def __init__(self, start: ir.Operation, scratch: ir.Value) -> None:
        self.start = start
        self.scratch = scratch
        self.scratch_bytes = 0
        self.stack_bytes = 0
        self.ops = 0
        self.trips = 1.0
        self.work = 0.0
        self.accesses = 0.0
        self.shared = 0.0
        self.loops = 0.0
        self.depth = 0

    def spend(self, ops: int) -> None:
        """Count ops.

        Raises:
          UnsupportedError: the kernel is too long.
        """
        self.ops += ops
        self.work += ops * self.trips
        if self.ops > MOST_OPS:
            raise UnsupportedError("too many ops")

    # ------------------------------------------------------------------------------------- memory

    def allocate(self, element: ir.Type, size: int) -> Buffer:
        """A new buffer of the kernel, for the current region.

        Raises:
          UnsupportedError: the buffers are too large.
        """
        stored = stored_type(element)
        nbytes = size * bytes_of(element)
        type_ = ir.MemRefType.get([size], stored)
        with ir.InsertionPoint(self.start):
            if nbytes <= _ON_STACK and self.stack_bytes + nbytes <= _ALL_ON_STACK:
                self.stack_bytes += nbytes
                memory = ir.Operation.create(
                    "memref.alloca",
                    results=[type_],
                    attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])},
                ).results[0]
            else:
                at = number(index(), self.scratch_bytes)
                self.scratch_bytes += -(-nbytes // 64) * 64
                if self.scratch_bytes > _MOST_BYTES:
                    raise UnsupportedError("intermediate values that are too large")
                memory = scalar("memref.view", [self.scratch, at], type_)
        return Buffer(memory, element, self.depth)

    def dense(self, element: ir.Type, shape: Sequence[int]) -> View:
        """A new array in a buffer of its own."""
        buffer = self.allocate(element, math.prod(shape))
        return View(buffer, tuple(shape), dense(shape), element)

    def load(self, view: Layout, at: Place, width: int, stride: int) -> ir.Value:
        """Neighbouring elements, ``stride`` apart in memory, as a vector (a number for one)."""
        if isinstance(view, Splat):
            return self.spread(view.value, width)
        if stride == 0:
            return self.spread(self._load_one(view, at), width)
        if view.buffer is None:
            return self._ramp(view.element, at, width, stride)
        if width == 1:
            return self._load_one(view, at)
        stored = view.buffer.memory.type.element_type
        if stride == 1:
            self.spend(1)
            type_ = ir.VectorType.get([width], stored)
            loaded = scalar("vector.load", [view.buffer.memory, at.value()], type_)
            return self._narrowed(loaded, view.element)
        parts = [self._load_one(view, at.plus(i, stride)) for i in range(width)]
        self.spend(width)
        type_ = ir.VectorType.get([width], signless(view.element))
        return scalar_of("vector.from_elements", parts, type_)

    def _load_one(self, view: View, at: Place) -> ir.Value:
        self.spend(1)
        if view.buffer is None:
            return self._ramp(view.element, at, 1, 0)
        stored = view.buffer.memory.type.element_type
        return self._narrowed(
            scalar("memref.load", [view.buffer.memory, at.value()], stored), view.element
        )

    def _narrowed(self, value: ir.Value, element: ir.Type) -> ir.Value:
        type_ = like(value.type, signless(element))
        return value if type_ == value.type else scalar("arith.trunci", [value], type_)

    def _ramp(self, element: ir.Type, at: Place, width: int, stride: int) -> ir.Value:
        first = at.value()
        self.spend(3)
        kind, type_ = kind_of(element), signless(element)
        i64 = ir.IntegerType.get_signless(64)
        if kind == "b":
            raise UnsupportedError("a ramp of bools")
        wide = scalar("arith.index_cast", [first], i64)
        if width > 1:
            values = [i * stride for i in range(width)]
            vector = ir.VectorType.get([width], i64)
            steps = ir.DenseElementsAttr.get([ir.IntegerAttr.get(i64, v) for v in values], vector)
            ramp = ir.Operation.create(
                "arith.constant", results=[vector], attributes={"value": steps}
            ).results[0]
            wide = scalar("arith.addi", [self.spread(wide, width), ramp], vector)
        result = like(wide.type, type_)
        if kind == "f":
            return scalar("arith.sitofp", [wide], result)
        return wide if type_ == i64 else scalar("arith.trunci", [wide], result)

    def spread(self, value: ir.Value, width: int) -> ir.Value:
        """A number as a vector."""
        if width == 1:
            return value
        self.spend(1)
        return scalar("vector.broadcast", [value], ir.VectorType.get([width], value.type))

    def store(self, value: ir.Value, view: View, at: Place, stride: int) -> None:
        """Store a vector or a number to elements that are ``stride`` apart."""
        assert view.buffer is not None
        memory = view.buffer.memory
        stored = like(value.type, memory.type.element_type)
        if value.type != stored:
            value = scalar("arith.extui", [value], stored)
        if not isinstance(value.type, ir.VectorType):
            self.spend(1)
            ir.Operation.create("memref.store", operands=[value, memory, at.value()])
            return
        (width,) = value.type.shape
        if stride == 1:
            self.spend(1)
            ir.Operation.create("vector.store", operands=[value, memory, at.value()])
            return
        self.spend(2 * width)
        for i in range(width):
            element = self.extract(value, i)
            place = at.plus(i, stride).value()
            ir.Operation.create("memref.store", operands=[element, memory, place])

    def extract(self, vector: ir.Value, i: int) -> ir.Value:
        """An element of a vector."""
        return ir.Operation.create(
            "vector.extract",
            results=[vector.type.element_type],
            operands=[vector],
            attributes={"static_position": ir.DenseI64ArrayAttr.get([i])},
        ).results[0]

    # -------------------------------------------------------------------------------------- loops

    @contextmanager
    def repeated(self, times: float) -> Iterator[None]:
        """Count the instructions emitted inside as run ``times`` times by the current block."""
        before = self.trips
        self.trips *= times
        yield
        self.trips = before

    def count(
        self,
        bounds: tuple[ir.Value, ir.Value, ir.Value],
        times: float,
        initial: Sequence[ir.Value],
        body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """A loop from a start to an end by a step."""
        types = [v.type for v in initial]
        loop = ir.Operation.create(
            "scf.for", results=types, operands=[*bounds, *initial], regions=1
        )
        block = loop.regions[0].blocks.append(index(), *types)
        with ir.InsertionPoint(block), self.repeated(times):
            self.spend(2)
            leaving = body(block.arguments[0], list(block.arguments)[1:])
            ir.Operation.create("scf.yield", operands=list(leaving))
        return list(loop.results)

    def steps(
        self,
        end: int,
        step: int,
        initial: Sequence[ir.Value],
        body: Callable[[ir.Value | int, list[ir.Value]], Sequence[ir.Value]],
        start: int = 0,
    ) -> list[ir.Value]:
        """A loop with known bounds; a single iteration is emitted without a loop."""
        times = -(-(end - start) // step)
        if times <= 0:
            return list(initial)
        if times == 1:
            return list(body(start, list(initial)))
        first, last, by = (number(index(), n) for n in (start, end, step))
        return self.count((first, last, by), times, initial, body)

    def over(
        self,
        sizes: Sequence[int],
        places: Sequence[Place],
        strides: Sequence[Sequence[int]],
        body: Callable[[list[Place]], None],
    ) -> None:
        """Nested loops; ``strides`` gives for each dimension how far each place moves."""

        def iteration(here: list[Place], _: list[ir.Value]) -> list[ir.Value]:
            body(here)
            return []

        self.accumulate_over(sizes, places, strides, [], iteration)

    def accumulate_over(
        self,
        sizes: Sequence[int],
        places: Sequence[Place],
        strides: Sequence[Sequence[int]],
        sums: Sequence[ir.Value],
        add: Callable[[list[Place], list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """Nested loops that carry sums; ``add(places, sums)`` returns the new ones."""
        if not sizes:
            return list(add(list(places), list(sums)))

        def iteration(i: ir.Value | int, inner: list[ir.Value]) -> list[ir.Value]:
            here = [p.plus(i, s) for p, s in zip(places, strides[0], strict=True)]
            return self.accumulate_over(sizes[1:], here, strides[1:], inner, add)

        return self.steps(sizes[0], 1, sums, iteration)

    def pieces(
        self,
        size: int,
        width: int,
        body: Callable[[ir.Value | int, int], None],
        *,
        twice: bool = False,
    ) -> None:
        """Cover a dimension with vectors: ``body(start, width)`` emits each.

        Args:
          size: the size of the dimension.
          width: the most elements of a vector.
          body: emits the code for some elements.
          twice: whether elements may be covered twice. If so, the last vector is as long as the
            others, which takes fewer instructions than several shorter ones.
        """
        end, remainder = pieces_of(size, width)
        if twice and size > width:
            remainder = [(at, n) if n == width else (size - width, width) for at, n in remainder]
            remainder = list(dict.fromkeys(remainder))

        def iteration(i: ir.Value | int, _: list[ir.Value]) -> list[ir.Value]:
            body(i, width)
            return []

        self.steps(end, width, [], iteration)
        for start, lanes in remainder:
            body(start, lanes)

    def accumulate_pieces(
        self,
        size: int,
        width: int,
        sums: Sequence[list[ir.Value]],
        add: Callable[[ir.Value | int, int, list[ir.Value]], list[ir.Value]],
    ) -> list[list[ir.Value]]:
        """Cover a dimension with vectors: ``add(start, width, sums)`` returns new sums.

        Args:
          size: the size of the dimension.
          width: the number of elements in a vector.
          sums: for each of `widths_of`, the sums that vectors of that width are added to.
          add: emits a vector.
        """
        end, remainder = pieces_of(size, width)
        sums = list(sums)
        if end:
            sums[0] = self.steps(end, width, sums[0], lambda i, inner: add(i, width, inner))
        for k, (start, lanes) in enumerate(remainder, start=len(sums) - len(remainder)):
            sums[k] = add(start, lanes, sums[k])
        return sums


def scalar_of(name: str, operands: Sequence[ir.Value], type_: ir.Type) -> ir.Value:
    """An op with one result and any number of operands."""
    return ir.Operation.create(name, results=[type_], operands=list(operands)).results[0]


def first_place(view: Layout) -> Place:
    """The place of the first element."""
    return Place() if isinstance(view, Splat) else Place(view.offset, view.moved)


def flat(parts: Sequence[Sequence[int]]) -> list[int]:
    """All numbers of several lists."""
    return list(itertools.chain.from_iterable(parts))
