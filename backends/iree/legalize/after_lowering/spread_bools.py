"""Bools that are computed of broadcast values: computed before the broadcast.

IREE takes such a comparison out of the loop that reduces its result, and keeps the whole array of
bools on the stack of the kernel, which is limited to 32 KiB.
"""

from __future__ import annotations

import numpy as np

from gnomon.backends.iree.legalize.after_lowering.strided_views import operations_named
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.attributes import INTS
from gnomon.dialects.combinators import lowered, stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, mlir_type, type_of

__all__ = ["LEGALIZATIONS", "compute_before_broadcasts"]

_BROADCAST, _LITERAL = "stablehlo.broadcast_in_dim", "stablehlo.constant"
_VIEWS = frozenset(
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "slice", "transpose", "reverse")
)
_ELEMENTWISE = frozenset(
    f"stablehlo.{name}" for name in ("compare", "is_finite", "and", "or", "xor", "not", "select")
)


def compute_before_broadcasts(module: ir.Module, target: Target) -> bool:
    """Move elementwise ops that give bools before the broadcast of their operands, in place.

    All operands that are not single numbers must be broadcast from one shape along the same
    dimensions.
    """
    changed = False
    for function in module.body.operations:
        # In program order: the operands of an op have been moved before it.
        for op in operations_named(_ELEMENTWISE, function.operation):
            if type_of(op.results[0]).dtype == np.bool_:
                changed |= _move(op)
    return changed


def _move(op: ir.Operation) -> bool:
    numbers = [_number(x) for x in op.operands]
    spreads = [_maker(x) for x, n in zip(op.operands, numbers, strict=True) if n is None]
    origins = {_origin(spread) for spread in spreads}
    if None in origins or len(origins) > 1 or type_of(op.results[0]).size == 1:
        return False
    shape, dims = next(iter(origins), None) or ((), INTS.encode(()))
    rest = iter(spreads)
    with ir.InsertionPoint(op), op.location:
        operands = [
            next(rest).operands[0] if number is None else _repeated(number, shape)  # type: ignore[union-attr]
            for number in numbers
        ]
        type_ = TensorType(shape, np.dtype(bool))
        attributes = {name: op.attributes[name] for name in op.attributes}
        (computed,) = stablehlo(op.name.removeprefix("stablehlo."), operands, [type_], **attributes)
        (spread,) = stablehlo(
            "broadcast_in_dim", [computed], [type_of(op.results[0])], broadcast_dimensions=dims
        )
    op.results[0].replace_all_uses_with(spread)
    op.erase()
    return True


def _maker(x: ir.Value) -> ir.Operation | None:
    """The operation that makes a value; None for an argument."""
    return None if isinstance(x.owner, ir.Block) else x.owner.operation


def _origin(maker: ir.Operation | None) -> tuple[tuple[int, ...], ir.Attribute] | None:
    """The shape that is broadcast, and the dimensions that it gets."""
    if maker is None or maker.name != _BROADCAST:
        return None
    return type_of(maker.operands[0]).shape, maker.attributes["broadcast_dimensions"]


def _number(x: ir.Value) -> ir.Value | None:
    """The array of size one, or the literal, whose only element all elements of a value are."""
    maker = _maker(x)
    while maker is not None and type_of(x).size != 1 and maker.name in _VIEWS:
        x = maker.operands[0]
        maker = _maker(x)
    if maker is not None and maker.name == _LITERAL:
        return x if ir.DenseElementsAttr(maker.attributes["value"]).is_splat else None
    return x if type_of(x).size == 1 else None


def _repeated(number: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """An array of a shape all of whose elements are a number."""
    given = type_of(number)
    type_, maker = TensorType(shape, given.dtype), _maker(number)
    if maker is not None and maker.name == _LITERAL:
        element = ir.DenseElementsAttr(maker.attributes["value"]).get_splat_value()
        value = ir.DenseElementsAttr.get_splat(mlir_type(type_), element)
        return stablehlo("constant", [], [type_], value=value)[0]
    (scalar,) = stablehlo("reshape", [number], [TensorType((), given.dtype)])
    return lowered.broadcast_in_dim(scalar, shape=shape, dims=())


LEGALIZATIONS = (
    Legalization(
        name="spread-bools",
        stage=Stage.LOWERED,
        kind=Kind.REFUSED,
        doc="compute bools before the broadcast of their operands",
        upstream="IREE 3.13 keeps bools that are computed of broadcast values, and are then "
        "reduced, in one buffer on the stack, which is limited",
        texts=("reductions_of_broadcast_bools",),
        reproducer="a sum of 100,000 comparisons of two broadcast numbers does not compile",
        run=compute_before_broadcasts,
        needs=frozenset({_BROADCAST}),
    ),
)
