"""Pads: sums of padded pieces, and pads of pads.

The cotangent of a value that is sliced into pieces (the gates of a recurrent cell, for example) is
a sum of pieces, each padded with zeros to the full size. IREE computes a padded array for each
piece, and then their sum. Pieces that neither overlap nor leave a gap are concatenated instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, always
from gnomon.dialects.barrier import optimization_barrier
from gnomon.dialects.body import operands_of, results_of
from gnomon.dialects.contract import Instance, params_of
from gnomon.dialects.emit import constant_value, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS"]


class _Piece(NamedTuple):
    start: int
    value: ir.Value
    axis: int


def _sum_of_pieces(inst: Instance) -> Sequence[ir.Value] | None:
    found = _pieces(inst.operands)
    if not found or len({p.axis for p in found}) > 1:
        return None
    found.sort(key=lambda p: p.start)
    axis, end = found[0].axis, 0
    for piece in found:
        if piece.start != end:
            return None
        end += type_of(piece.value).shape[axis]
    if end != inst.type.shape[axis]:
        return None
    return [ops.concatenate(*(p.value for p in found), dimension=axis)]


def _pieces(values: Sequence[ir.Value]) -> list[_Piece] | None:
    """The padded pieces that the values are sums of; None if one value is not such a sum.

    The search stops at the first term that is not a piece and goes through sums from their ends, so
    that in a sum of n arrays each addition examines one or two terms.
    """
    found: list[_Piece] = []
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        if owner.name == "gnomon.add" and _is_used_once(value):
            waiting += owner.operands
            continue
        piece = _piece(value)
        if piece is None:
            return None
        found.append(piece)
    return found


def _is_used_once(value: ir.Value) -> bool:
    uses = iter(value.uses)
    next(uses, None)
    return next(uses, None) is None


def _piece(value: ir.Value) -> _Piece | None:
    """The piece, if a value pads one with zeros along one axis; None otherwise."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "gnomon.pad":
        return None
    piece, padding = operands_of(owner.operation)
    params = params_of(owner.operation)
    axes = [d for d, (n, m) in enumerate(zip(params["low"], params["high"], strict=True)) if n or m]
    if len(axes) != 1 or any(params["interior"]) or not _is_zero(padding):
        return None
    (axis,) = axes
    if params["low"][axis] < 0 or params["high"][axis] < 0:
        return None
    return _Piece(params["low"][axis], piece, axis)


def _is_zero(value: ir.Value) -> bool:
    array = constant_value(value)
    return array is not None and not array.any()


def _pad_of_pad(inst: Instance) -> Sequence[ir.Value] | None:
    """Merge two pads with the same value into one, if at least one of them has interior padding."""
    x, padding = inst.operands
    owner = _before_barriers(x).owner
    if isinstance(owner, ir.Block) or owner.name != "gnomon.pad":
        return None
    inner_x, inner_padding = operands_of(owner.operation)
    outer, inner = inst.params, params_of(owner.operation)
    if not any((*outer["interior"], *inner["interior"])):
        return None
    if not _are_equal(padding, inner_padding) or 0 in type_of(inner_x).shape:
        return None
    # One pad would restore elements that negative padding cuts off.
    if min((*inner["low"], *inner["high"])) < 0:
        return None
    steps = [n + 1 for n in outer["interior"]]

    def edge(name: str) -> tuple[int, ...]:
        edges = zip(outer[name], inner[name], steps, strict=True)
        return tuple(n + m * step for n, m, step in edges)

    gaps = zip(inner["interior"], steps, strict=True)
    interior = tuple((n + 1) * step - 1 for n, step in gaps)
    return [ops.pad(inner_x, inner_padding, low=edge("low"), high=edge("high"), interior=interior)]


def _before_barriers(value: ir.Value) -> ir.Value:
    """The value before any barriers: IREE folds pads through them."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name != optimization_barrier.full_name:
            break
        value = operands_of(op)[list(results_of(op)).index(value)]
    return value


def _are_equal(a: ir.Value, b: ir.Value) -> bool:
    """Whether two scalars are one value, or constants of the same bits."""
    if a == b:
        return True
    x, y = constant_value(a), constant_value(b)
    return x is not None and y is not None and x.tobytes() == y.tobytes()


LEGALIZATIONS = (
    Legalization(
        name="pads-of-pads",
        stage=Stage.DECOMPOSE,
        kind=Kind.MISCOMPILED,
        doc="merge two pads into one, if one of them has interior padding",
        upstream="IREE 3.13 merges the two, but does not multiply the inner offset by the stride, "
        "or drops the stride of the inner pad",
        texts=("pads_of_pads",),
        reproducer="a pad with gaps of a pad by one row has its elements in the wrong places",
        rules=always({"gnomon.pad": _pad_of_pad}),
    ),
    Legalization(
        name="sums-of-pads",
        stage=Stage.DECOMPOSE,
        kind=Kind.SLOW,
        doc="concatenate padded pieces that are added up and do not overlap",
        upstream="IREE 3.13 computes a padded array for each piece, and then their sum",
        reproducer="the sum of two padded arrays takes a kernel, not copies",
        rules=always({"gnomon.add": _sum_of_pieces}),
    ),
)
