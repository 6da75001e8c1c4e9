"""Rebuilding the blocks of a function for `host_control`, with loops and branches on the host."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from gnomon.backends.iree.legalize.aliases import SAME_BUFFER, is_update, name_of
from gnomon.backends.iree.legalize.array_kernels.array_kernel import array_kernel, largest_value
from gnomon.backends.iree.legalize.control.copies import copy_of
from gnomon.backends.iree.legalize.control.counters import Counter, counter_of
from gnomon.backends.iree.legalize.control.emitter import (
    BARRIER,
    Emitter,
    masked,
    operations,
    terminator,
)
from gnomon.backends.iree.legalize.control.host_scalars import (
    CONSTANT,
    I1,
    ON_HOST,
    PREDICATES,
    arith,
    computes_on_host,
    is_scalar,
    literal,
    narrowed,
    to_device,
    value_of,
    widened,
)
from gnomon.backends.iree.legalize.control.origins import updates_its_origin
from gnomon.backends.iree.legalize.loop_kernels.loop_kernel import loop_kernel
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, form_of

__all__ = ["CONTROL_FLOW", "OpenLoopError", "Program", "Rewriter"]

_WHILE, _CASE = "stablehlo.while", "stablehlo.case"
# The loops and branches of StableHLO.
CONTROL_FLOW = frozenset({_WHILE, _CASE})
# With more elements than this, a value is computed by vectors rather than number by number.
_NUMBERS = 16


def _may_alias(use: ir.OpOperand) -> bool:
    """Whether a result of the using op may share the value's buffer, updated or not."""
    op = use.owner.operation
    if op.name in CONTROL_FLOW or len(op.results) == 0:
        return True
    # A scatter's kernel reads its updates, and writes only into the buffer of the first operand.
    is_read = form_of(op.name) is Form.SCATTER and use.operand_number > 0
    return (name_of(op) in SAME_BUFFER or is_update(op)) and not is_read


def _is_in_branch(block: ir.Block) -> bool:
    """Whether a block is in a branch, where IREE 3.13 loses one of several results of a kernel."""
    op = block.owner
    while op is not None and op.name != "func.func":
        if op.name == "scf.if":
            return True
        op = op.operation.parent
    return False


class OpenLoopError(Exception):
    """Raised for a loop that is neither counted nor small enough for a kernel."""


class Program:
    """The state that all rewriters of a program share.

    Attributes:
      kernels, guarded: see `host_control`.
      body: the block of the module.
      copies: a counter that numbers the copies, see `copy_of`.
      numbers: a counter that numbers the kernels of vector code.
    """

    def __init__(self, kernels: bool, guarded: bool, body: ir.Block) -> None:
        self.kernels = kernels
        self.guarded = guarded
        self.body = body
        self.numbers = itertools.count()
        self.copies = itertools.count()


class Rewriter(Emitter):
    """Rebuilds the blocks of a function, with its loops and branches on the host.

    Attributes:
      program: the state that all rewriters of the program share.
    """

    def __init__(
        self,
        block: ir.Block,
        tensors: dict[ir.Value, ir.Value],
        scalars: dict[ir.Value, ir.Value],
        program: Program,
    ) -> None:
        super().__init__(block, tensors, scalars)
        self.program = program

    def within(self, block: ir.Block) -> Rewriter:
        """A rewriter for a block of a nested region; its values are not visible outside."""
        return Rewriter(block, dict(self.tensors), dict(self.scalars), self.program)

    def block(self, block: ir.Block) -> None:
        """Emit the operations of a block, but not its terminator."""
        for op in operations(block):
            with op.location:
                self._operation(op)

    def _operation(self, op: ir.Operation) -> None:
        if op.name == _WHILE:
            self._while(op)
        elif op.name == _CASE:
            self._case(op)
        elif op.name == BARRIER:
            self._barrier(op)
        elif op.name == CONSTANT:
            self._clone(op)
            result = op.results[0]
            if is_scalar(result):
                with ir.InsertionPoint(self.here):
                    self.scalars[result] = literal(result.type.element_type, value_of(op))
        elif computes_on_host(op, lambda v: v in self.scalars):
            result = op.results[0]
            operands = [self.scalars[v] for v in op.operands]
            with ir.InsertionPoint(self.here):
                emitted = ON_HOST[op.name](op, result.type.element_type, *operands)
            self.scalars[result] = emitted
        elif op.name == "stablehlo.convert" and op.operands[0] in self.scalars:
            self._convert(op)
        else:
            self._clone(op)

    def _convert(self, op: ir.Operation) -> None:
        """Convert a scalar of the host to a float on the device, since the host has no f64.

        IREE moves a conversion back to the host if all its elements are equal, so this converts two
        different numbers, and takes the first.
        """
        scalar, result = self.scalars[op.operands[0]], op.results[0].type
        with ir.InsertionPoint(self.here):
            if str(scalar.type) == I1:
                scalar = arith("extui", [scalar], ir.IntegerType.get_signless(32))
            element = to_device(scalar)
        two = ir.RankedTensorType.get([2], scalar.type)
        dims = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
        (same,) = self.create("stablehlo.broadcast_in_dim", [two], [element], dims)
        first = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
        (ramp,) = self.create("stablehlo.iota", [two], [], {"iota_dimension": first})
        (different,) = self.create("stablehlo.add", [two], [same, ramp])
        wide = [ir.RankedTensorType.get([n], result.element_type) for n in (2, 1)]
        (converted,) = self.create(op.name, wide[:1], [different])
        bounds = {"start_indices": 0, "limit_indices": 1, "strides": 1}
        attributes = {name: ir.DenseI64ArrayAttr.get([n]) for name, n in bounds.items()}
        (one,) = self.create("stablehlo.slice", wide[1:], [converted], attributes)
        (self.tensors[op.results[0]],) = self.create("stablehlo.reshape", [result], [one])

    def _clone(self, op: ir.Operation) -> None:
        operands = [self.tensor(v) for v in op.operands]
        if len(op.regions):
            # Regions of reductions may use values from outside.
            op.walk(self._make_captured)
        clone = op.clone(ip=ir.InsertionPoint(self.here))
        for i, value in enumerate(operands):
            clone.operands[i] = value
        if len(op.regions):
            clone.walk(self._rename_captured)
        self.tensors.update(zip(op.results, clone.results, strict=True))

    def _make_captured(self, op: ir.Operation) -> ir.WalkResult:
        for value in op.operands:
            if value in self.scalars:
                self.tensor(value)
        return ir.WalkResult.ADVANCE

    def _rename_captured(self, op: ir.Operation) -> ir.WalkResult:
        for i, value in enumerate(op.operands):
            if value in self.tensors:
                op.operands[i] = self.tensors[value]
        return ir.WalkResult.ADVANCE

    def _barrier(self, op: ir.Operation) -> None:
        """Keep a barrier, one for each value, unless an op after it may pass on the buffer.

        Those barriers are dropped, since IREE loses track of such buffers in a loop. If the value
        is an update that is computed from the array that it updates, it is copied instead.
        """
        for value, result in zip(op.operands, op.results, strict=True):
            if value in self.scalars:
                self.scalars[result] = self.scalars[value]
                continue
            new = self.tensors[value]
            if updates_its_origin(result):
                new = self._copy(new)
            elif not any(_may_alias(use) for use in result.uses):
                with ir.InsertionPoint(self.here):
                    (new,) = self.create(BARRIER, [new.type], [new])
            self.tensors[result] = new

    # -------------------------------------------------------------------------- loops and branches

    def _while(self, op: ir.Operation) -> None:
        kernel = self._kernel(op) if self.program.kernels else None
        if kernel is not None:
            for result, new, initial in zip(op.results, kernel, op.operands, strict=True):
                self.tensors[result] = self.tensor(initial) if new is None else new
            return
        cond, body = (region.blocks[0] for region in op.regions)
        hosted = self.hosted_carries(cond, body, list(op.operands))
        for block in (cond, body):
            if any(hosted):
                self.read_before(block, masked(block.arguments, hosted))
        counter = counter_of(cond, body)
        if counter is None:
            raise OpenLoopError
        initial = self._guarded(self.either(op.operands, hosted))
        final = self._counted_loop(counter, body, hosted, initial)
        self.define(op.results, final, hosted)

    def _kernel(self, op: ir.Operation) -> list[ir.Value | None] | None:
        """The results of a loop as one kernel, of scalar code if it has a few numbers; or None."""

        def of_numbers() -> list[ir.Value | None] | None:
            return loop_kernel(op, self.here, self.tensor)

        def of_arrays() -> list[ir.Value | None] | None:
            if _is_in_branch(self.here):
                return None
            return array_kernel(op, self.here, self.tensor, self.program.body, self.program.numbers)

        ways = (of_numbers, of_arrays)
        if largest_value(op) > _NUMBERS:
            ways = (of_arrays, of_numbers)
        return next((made for way in ways if (made := way()) is not None), None)

    def _guarded(self, values: list[ir.Value]) -> list[ir.Value]:
        """Values that enter a loop or leave a branch; scalars of the host need no copy."""
        if not self.program.guarded:
            return values
        return [self._copy(v) if isinstance(v.type, ir.RankedTensorType) else v for v in values]

    def _copy(self, value: ir.Value) -> ir.Value:
        with ir.InsertionPoint(self.here):
            return copy_of(value, next(self.program.copies))

    def _counted_loop(
        self,
        counter: Counter,
        body: ir.Block,
        hosted: Sequence[bool],
        initial: Sequence[ir.Value],
    ) -> Sequence[ir.Value]:
        start, bound = initial[counter.index], self.scalar(counter.bound)
        with ir.InsertionPoint(self.here):
            step = literal(start.type, counter.step)

        def iteration(
            inner: Rewriter, number: ir.Value, carried: list[ir.Value]
        ) -> Sequence[ir.Value]:
            carried[counter.index] = number
            return inner._iteration(body, hosted, carried)

        return self._for(start, bound, step, initial, iteration)

    def _for(
        self,
        start: ir.Value,
        bound: ir.Value,
        step: ir.Value,
        initial: Sequence[ir.Value],
        iteration: Callable[[Rewriter, ir.Value, list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """A counted loop; ``iteration`` emits its body from the counter and the carries."""
        types = [v.type for v in initial]
        handed = self._widened(initial)
        wide = [v.type for v in handed]
        bounds = self._widened([start, bound, step])
        loop = self.create_with_regions("scf.for", wide, [*bounds, *handed], 1)
        arguments = loop.regions[0].blocks.append(bounds[0].type, *wide).arguments
        inner = self.within(loop.regions[0].blocks[0])
        number, *carried = inner._converted(list(arguments), [start.type, *types])
        inner.create("scf.yield", [], inner._widened(iteration(inner, number, carried)))
        return self._converted(list(loop.results), types)

    def _widened(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        with ir.InsertionPoint(self.here):
            return [widened(v) for v in values]

    def _converted(self, values: Sequence[ir.Value], types: Sequence[ir.Type]) -> list[ir.Value]:
        with ir.InsertionPoint(self.here):
            return [narrowed(v, t) for v, t in zip(values, types, strict=True)]

    def _iteration(
        self,
        body: ir.Block,
        hosted: Sequence[bool],
        carried: Sequence[ir.Value],
    ) -> Sequence[ir.Value]:
        """The carries after one iteration."""
        self.define(body.arguments, carried, hosted)
        self.block(body)
        return self.either(terminator(body).operands, hosted)

    def _case(self, op: ir.Operation) -> None:
        blocks = [region.blocks[0] for region in op.regions]
        available = [self.on_host(block, [], reads=False) for block in blocks]
        hosted = [
            is_scalar(result)
            and all(
                on_host(terminator(block).operands[i])
                for on_host, block in zip(available, blocks, strict=True)
            )
            for i, result in enumerate(op.results)
        ]
        types = [
            r.type.element_type if on_host else r.type
            for r, on_host in zip(op.results, hosted, strict=True)
        ]
        index = self.scalar(op.operands[0])
        results = self._branches(index, 0, blocks, types, hosted)
        self.define(op.results, results, hosted)

    def _is_branch(self, index: ir.Value, number: int) -> ir.Value:
        i1 = ir.IntegerType.get_signless(1)
        with ir.InsertionPoint(self.here):
            compared = literal(index.type, number)
            return arith("cmpi", [index, compared], i1, predicate=PREDICATES["EQ"])

    def _branches(
        self,
        index: ir.Value,
        number: int,
        blocks: Sequence[ir.Block],
        types: Sequence[ir.Type],
        hosted: Sequence[bool],
    ) -> list[ir.Value]:
        """The results of the branches from ``number`` on; the last one takes all other indices."""
        block = blocks[number]
        if number + 1 == len(blocks):
            self.block(block)
            return self._guarded(self.either(terminator(block).operands, hosted))
        chosen = self._is_branch(index, number)
        i64 = ir.IntegerType.get_signless(64)
        wide = [i64 if on_host else t for t, on_host in zip(types, hosted, strict=True)]
        branch = self.create_with_regions("scf.if", wide, [chosen], 2)
        this, others = (self.within(region.blocks.append()) for region in branch.regions)
        this.block(block)
        values = this._guarded(this.either(terminator(block).operands, hosted))
        this.create("scf.yield", [], this._widened(values))
        rest = others._branches(index, number + 1, blocks, types, hosted)
        others.create("scf.yield", [], others._widened(rest))
        return self._converted(list(branch.results), types)
