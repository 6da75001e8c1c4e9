"""Values that are computed of broadcast ones: computed before the broadcast.

A kernel that reduces such values need not compute them in its loop. IREE takes comparisons,
conversions and clamps out of it, and keeps the whole array on the stack of the kernel, which is
limited.
"""

from __future__ import annotations

from typing import NamedTuple

from gnomon.backends.iree.legalize.fusion.wide_fusions import is_splat
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.body import Body, erase, operands_of, results_of
from gnomon.dialects.contract import REGISTRY, Op, bodies_of, lookup, params_of
from gnomon.dialects.emit import broadcast_scalar, constant, ops, reshape
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.traits import Form, form_of
from gnomon.dialects.types import type_of
from gnomon.passes.fold_constants import element_of_splat

__all__ = ["LEGALIZATIONS", "compute_before_broadcasts"]

# The bytes on the stack of a kernel. Smaller values stay in the kernels that read them.
_STACK = 32 << 10

_BROADCAST, _RESHAPE = "gnomon.broadcast_in_dim", "gnomon.reshape"
_TRANSPOSE = "gnomon.transpose"


def compute_before_broadcasts(program: Program, target: Target) -> None:
    """Move elementwise ops with large results before the broadcast of their operands, in place.

    All operands that are not single numbers must be broadcast from one shape along the same
    dimensions, apart from dimensions of size 1.
    """
    for function in program.functions:
        _visit(program.body(symbol_name(function)))


def _visit(body: Body) -> None:
    # In program order: the operands of an op have been moved before it.
    for op in body.operations:
        definition = REGISTRY.get(op.name)
        if definition is None:
            continue
        if definition.is_control_flow:
            for inner in bodies_of(op):
                _visit(inner)
        elif definition.form is Form.ELEMENTWISE:
            _move(op, definition)


def _move(op: ir.Operation, definition: Op) -> None:
    results = results_of(op)
    type_ = type_of(results[0])
    if any_symbolic(type_.shape) or sum(type_of(r).nbytes for r in results) <= _STACK:
        return
    operands = operands_of(op)
    numbers = [_number(x) for x in operands]
    found = [_spread(x) for x, number in zip(operands, numbers, strict=True) if number is None]
    spreads = [spread for spread in found if spread is not None]
    origins = {(spread.shape, spread.dims) for spread in spreads}
    if len(spreads) < len(found) or len(origins) > 1:
        return
    shape, dims = next(iter(origins), ((), ()))
    rest = iter(spreads)
    with ir.InsertionPoint(op), op.location:
        moved = [
            reshape(next(rest).value, shape) if number is None else _repeated(number, shape)
            for number in numbers
        ]
        computed = definition.build(moved, params_of(op, definition))
        for result, value in zip(results, computed, strict=True):
            spread = ops.broadcast_in_dim(value, shape=type_.shape, dims=dims)
            result.replace_all_uses_with(spread)
    erase(op)


class _Spread(NamedTuple):
    """A broadcast, along dimensions, of a value in a shape that may lack some of its ones."""

    value: ir.Value
    shape: tuple[int, ...]
    dims: tuple[int, ...]


def _spread(x: ir.Value) -> _Spread | None:
    """The broadcast that a value is, whose ones may have been moved, dropped or added since."""
    maker = x.owner
    if isinstance(maker, ir.Block):
        return None
    if maker.name == _BROADCAST:
        value = maker.operands[0]
        return _Spread(value, type_of(value).shape, tuple(params_of(maker.operation)["dims"]))
    inner = _spread(maker.operands[0]) if maker.name in (_RESHAPE, _TRANSPOSE) else None
    if inner is None:
        return None
    if maker.name == _TRANSPOSE:
        return _transposed(inner, tuple(params_of(maker.operation)["permutation"]))
    before, after = type_of(maker.operands[0]).shape, type_of(x).shape
    places = [i for i, n in enumerate(after) if n != 1]
    long = [i for i, n in enumerate(before) if n != 1]
    if [before[i] for i in long] != [after[i] for i in places]:
        return None
    place = dict(zip(long, places, strict=True))
    kept = [(n, place[d]) for n, d in zip(inner.shape, inner.dims, strict=True) if d in place]
    return _Spread(inner.value, tuple(n for n, _ in kept), tuple(d for _, d in kept))


def _transposed(spread: _Spread, permutation: tuple[int, ...]) -> _Spread | None:
    dims = tuple(permutation.index(d) for d in spread.dims)
    return spread._replace(dims=dims) if list(dims) == sorted(dims) else None


def _number(x: ir.Value) -> ir.Value | None:
    """The array of size one, or the splat, whose only element all elements of a value are."""
    while type_of(x).size != 1:
        maker = x.owner
        if isinstance(maker, ir.Block):
            return None
        if form_of(maker.name) is not Form.VIEW:
            return x if is_splat(maker.operation) else None
        x = maker.operands[0]
    return x


def _repeated(number: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """An array of a shape all of whose elements are a number."""
    if type_of(number).size == 1:
        return broadcast_scalar(reshape(number, ()), shape)
    literal = number.owner.operation
    return broadcast_scalar(constant(element_of_splat(literal, lookup(literal))), shape)


LEGALIZATIONS = (
    Legalization(
        name="spread-values",
        # Functions are not expanded yet.
        stage=Stage.PREPARE,
        kind=Kind.REFUSED,
        doc="compute large values before the broadcast of their operands",
        upstream="IREE 3.13 keeps bools and integers that are computed of broadcast values, and "
        "are then reduced, in one buffer on the stack, which is limited",
        texts=("reductions_of_broadcast_values",),
        reproducer="a sum of 100,000 comparisons of two broadcast numbers does not compile",
        run=compute_before_broadcasts,
    ),
)
