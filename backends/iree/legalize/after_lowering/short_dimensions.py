"""Arrays with a short last dimension, such as the coordinates of points: computed with it first.

IREE vectorizes along the last dimension. The differences of all pairs of 125 points in space are an
array of 125 x 125 x 3, whose vectors hold three of the eight or sixteen numbers that the processor
computes at once. The same array as 3 x 125 x 125 has full vectors. 50 steps of molecular dynamics
with such pairs take 1.6 ms instead of 6.2 (AMD Zen 5, 2 cores).

The order of an array's dimensions is free where nothing outside of kernels sees it: a group of
elementwise operations that reads broadcasts, iotas and literals, and that only reductions read.
Then nothing but the operands of broadcasts and the results of reductions is transposed, and these
are smaller than the array. A group that reads or gives other arrays of that size stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

import numpy as np

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations_named
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import ELEMENTWISE
from gnomon.backends.iree.targets import Target
from gnomon.dialects.attributes import DENSE, INTS
from gnomon.dialects.combinators import stablehlo, stablehlo_constant
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, mlir_type, type_of

__all__ = ["LEGALIZATIONS", "LONGEST", "put_short_dimensions_first"]

logger = logging.getLogger(__name__)

# The longest dimension that is put first. The forces between 256 x 256 points in space of 2 to 8
# dimensions take 0.58 to 0.90 of the time on an AMD Zen 5, f32 and f64, and their gradients 0.55 to
# 0.80.
LONGEST = 8
# The least size of the dimension before it, which becomes the last one. The same for 1024 x 16
# points: 1.0 to 1.4; for 64 x 64: 0.7 to 0.9.
SHORTEST_NEXT = 32

_REDUCE, _BROADCAST = "stablehlo.reduce", "stablehlo.broadcast_in_dim"
_IOTA, _LITERAL = "stablehlo.iota", "stablehlo.constant"


def put_short_dimensions_first(module: ir.Module, target: Target) -> bool:
    """Permute the dimensions of groups of arrays with a short last one, in a module, in place."""
    changed = False
    permuted: set[ir.Value] = set()
    kept: set[ir.Value] = set()
    for function in module.body.operations:
        for reduction in operations_named(frozenset({_REDUCE}), function.operation):
            value = reduction.operands[0]
            if value in permuted or value in kept or not _is_short(type_of(value)):
                continue
            group = _Group(type_of(value).shape, kept)
            accepted = group.add(value)
            (permuted if accepted else kept).update(group.values)
            logger.debug(
                "%d arrays of %s: %s",
                len(group.values),
                list(group.shape),
                f"{group.shape[-1]} is put first" if accepted else f"kept, for {group.refusal}",
            )
            if accepted:
                group.permute()
                changed = True
    return changed


def _is_short(type_: TensorType) -> bool:
    shape = type_.shape
    return (
        len(shape) >= 3
        and all(isinstance(n, int) for n in shape)
        and 1 < shape[-1] <= LONGEST
        and shape[-2] >= SHORTEST_NEXT
    )


class _Group:
    """Arrays of one shape whose dimensions can be permuted together.

    Args:
      shape: the shape.
      kept: arrays of groups that cannot be permuted.

    Attributes:
      shape: the shape.
      values: the arrays.
      sources: the broadcasts, iotas and literals that the group reads, which others may read too.
      reductions: the reductions that read the group.
      refusal: why the dimensions cannot be permuted; empty if they can.
    """

    def __init__(self, shape: Sequence[int], kept: Collection[ir.Value]) -> None:
        self.shape = tuple(shape)
        self._kept = kept
        self.values: set[ir.Value] = set()
        self.sources: dict[ir.Value, None] = {}
        self.reductions: dict[ir.Operation, None] = {}
        self.refusal = ""

    def add(self, value: ir.Value) -> bool:
        """Add an array and all that must have its layout; False if that is impossible."""
        waiting = [value]
        while waiting and not self.refusal:
            found = waiting.pop()
            if found in self.values or found in self.sources:
                continue
            if found in self._kept:
                # So no array is visited twice, however many reductions read a group.
                self.refusal = "it belongs to another group that is kept"
                break
            if isinstance(found.owner, ir.Block):
                self.refusal = "it reads an argument"
                break
            op = found.owner.operation
            if _is_source(op):
                self.sources[found] = None
                continue
            if op.name not in ELEMENTWISE or len(op.results) != 1:
                self.refusal = f"it reads a result of {op.name}"
                break
            self.values.add(found)
            # The others are scalars: a predicate or bounds.
            arrays = [x for x in op.operands if type_of(x).rank]
            if any(type_of(x).shape != self.shape for x in arrays):
                self.refusal = f"{op.name} changes the shape"
            waiting += arrays
            waiting += self._results_of_readers(found)
        if not self.refusal and not any(map(self._is_kept_by, self.reductions)):
            # IREE computes a reduction over the last dimension alone in the same time.
            self.refusal = "all reductions are over the last dimension"
        return not self.refusal

    def _is_kept_by(self, reduction: ir.Operation) -> bool:
        """Whether the last dimension is one of the reduction's result."""
        return len(self.shape) - 1 not in _axes(reduction)

    def _results_of_readers(self, value: ir.Value) -> list[ir.Value]:
        results = []
        for use in value.uses:
            op = use.owner
            if op.name in ELEMENTWISE and type_of(op.results[0]).shape == self.shape:
                results += op.results
            elif op.name == _REDUCE and len(op.results) == 1:
                self.reductions[op] = None
            else:
                self.refusal = f"{op.name} reads it"
        return results

    def permute(self) -> None:
        """Give all arrays of the group their last dimension first."""
        for value in self.sources:
            self._permute_source(value)
        for value in self.values:
            value.set_type(self._permuted(value))
        for reduction in self.reductions:
            self._permute_reduction(reduction)

    def _permuted(self, value: ir.Value) -> ir.Type:
        return mlir_type(type_of(value).with_shape(_rotated(self.shape)))

    def _permute_source(self, value: ir.Value) -> None:
        """Give the group a source of its own, since the old one may have other readers."""
        op = value.owner.operation
        type_ = type_of(value).with_shape(_rotated(self.shape))
        with ir.InsertionPoint(op), op.location:
            if op.name == _BROADCAST:
                (made,) = self._broadcast(op, type_)
            elif op.name == _IOTA:
                dimension = ir.IntegerAttr(op.attributes["iota_dimension"]).value
                moved = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self._moved(dimension))
                (made,) = stablehlo("iota", [], [type_], iota_dimension=moved)
            else:
                made = _literal(ir.DenseElementsAttr(op.attributes["value"]), type_)
        for use in list(value.uses):
            if any(result in self.values for result in use.owner.results):
                use.owner.operands[use.operand_number] = made

    def _broadcast(self, op: ir.Operation, type_: TensorType) -> list[ir.Value]:
        (operand,) = op.operands
        dims = [self._moved(d) for d in ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"])]
        order = sorted(range(len(dims)), key=lambda i: dims[i])
        if order != list(range(len(dims))):
            operand = _transposed(operand, order)
        ordered = INTS.encode(sorted(dims))
        return stablehlo("broadcast_in_dim", [operand], [type_], broadcast_dimensions=ordered)

    def _permute_reduction(self, op: ir.Operation) -> None:
        is_kept = self._is_kept_by(op)
        op.attributes["dimensions"] = INTS.encode(sorted(map(self._moved, _axes(op))))
        if not is_kept:
            return
        (result,) = op.results
        type_ = type_of(result)
        result.set_type(mlir_type(type_.with_shape(_rotated(type_.shape))))
        with ir.InsertionPoint.after(op), op.location:
            back = _transposed(result, [*range(1, type_.rank), 0])
        result.replace_all_uses_except(back, back.owner.operation)

    def _moved(self, dimension: int) -> int:
        """The new position of a dimension."""
        return (dimension + 1) % len(self.shape)


def _is_source(op: ir.Operation) -> bool:
    """Whether an op gives an array in any order of its dimensions."""
    return op.name in (_BROADCAST, _IOTA, _LITERAL)


def _literal(value: ir.DenseElementsAttr, type_: TensorType) -> ir.Value:
    """A literal with its last dimension first."""
    if value.is_splat:
        splat = ir.DenseElementsAttr.get_splat(mlir_type(type_), value.get_splat_value())
        return stablehlo("constant", [], [type_], value=splat)[0]
    return stablehlo_constant(np.moveaxis(DENSE.decode(value), -1, 0))


def _axes(reduction: ir.Operation) -> list[int]:
    return list(ir.DenseI64ArrayAttr(reduction.attributes["dimensions"]))


def _rotated(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[-1:], *shape[:-1])


def _transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    type_ = type_of(value)
    shape = tuple(type_.shape[d] for d in order)
    return stablehlo(
        "transpose", [value], [type_.with_shape(shape)], permutation=INTS.encode(order)
    )[0]


LEGALIZATIONS = (
    Legalization(
        name="short-dimensions",
        stage=Stage.LOWERED,
        kind=Kind.SLOW,
        doc="put the last dimension of arrays first if it has 2 to 8 elements and only reductions "
        "see it",
        upstream="IREE 3.13 vectorizes along the last dimension, however short it is",
        reproducer="the forces between 256 points in space take 1.3 times the processor time or "
        "more",
        targets=Targets.where(host_memory=True),
        run=put_short_dimensions_first,
        needs=frozenset({_REDUCE}),
    ),
)
