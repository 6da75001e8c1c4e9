"""``reduce_window`` and ``select_and_scatter``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gnomon.dialects.emit import broadcast_scalar, full, ops, reshape, slice_along
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.reduction import (
    combine_elements,
    combiner_of,
    is_identity,
)
from gnomon.dialects.raising.scattering import combine_at
from gnomon.dialects.raising.source import RaiseError, Region, Source, raises
from gnomon.dialects.types import is_complex, type_of
from gnomon.dialects.window_folds import fold_windows, window_shape

_WINDOWED = {
    "add": "reduce_window_sum",
    "maximum": "reduce_window_max",
    "minimum": "reduce_window_min",
}


def _window(source: Source) -> dict[str, tuple[int, ...]]:
    sizes = source.ints("window_dimensions")
    ones = (1,) * len(sizes)
    padding = source.padding(len(sizes))
    return {
        "window_dimensions": sizes,
        "window_strides": source.ints("window_strides", ones),
        "padding_low": tuple(low for low, _ in padding),
        "padding_high": tuple(high for _, high in padding),
        "base_dilation": source.ints("base_dilations", ones),
        "window_dilation": source.ints("window_dilations", ones),
    }


def _unpadded(window: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    rank = len(window["window_dimensions"])
    zeros, ones = (0,) * rank, (1,) * rank
    return {**window, "padding_low": zeros, "padding_high": zeros, "base_dilation": ones}


@raises("reduce_window")
def _reduce_window(source: Source) -> list[ir.Value]:
    return reduce_window(source, source.region, _window(source))


def reduce_window(
    source: Source, region: Region, window: dict[str, tuple[int, ...]]
) -> list[ir.Value]:
    """Reduce the windows of the operands, which are padded with the initial values."""
    count = len(source.operation.results)
    operands, initial = source.operands[:count], source.operands[count : 2 * count]
    type_ = type_of(operands[0])
    combiner = combiner_of(region, type_.dtype) if count == 1 else None
    name = _WINDOWED.get(combiner or "")
    if (
        combiner is not None
        and name is not None
        and is_identity(initial[0], combiner)
        and not is_complex(type_.dtype)
    ):
        return [getattr(ops, name)(operands[0], **window)]
    return _fold(operands, initial, region, window)


def _fold(
    operands: Sequence[ir.Value],
    initial: Sequence[ir.Value],
    region: Region,
    window: dict[str, tuple[int, ...]],
) -> list[ir.Value]:
    """Pad with the initial values, then combine windows with the region."""
    shape = window_shape(type_of(operands[0]).shape, **window)
    if 0 in shape:
        return [full(type_of(x).with_shape(shape), 0) for x in operands]
    padded = [
        ops.pad(
            x,
            value,
            low=window["padding_low"],
            high=window["padding_high"],
            interior=tuple(n - 1 for n in window["base_dilation"]),
        )
        for x, value in zip(operands, initial, strict=True)
    ]

    def combine(a: Sequence[ir.Value], b: Sequence[ir.Value]) -> list[ir.Value]:
        return combine_elements(region, [*a, *b])

    folded = fold_windows(padded, type_of(padded[0]).shape, _unpadded(window), slice_along, combine)
    return combine([broadcast_scalar(v, shape) for v in initial], folded)


# ------------------------------------------------------------------------------- select_and_scatter

# Of two equal elements, GE and LE select the first, and GT and LT the last: the first if the
# order within the windows is reversed.
_SELECTIONS = {
    "GE": "window_argmax",
    "GT": "window_argmax",
    "LE": "window_argmin",
    "LT": "window_argmin",
}


def _selection(region: Region) -> str | None:
    operations = region.operations
    if len(operations) != 1 or operations[0].name != "stablehlo.compare":
        return None
    (operation,) = operations
    if list(operation.operands) != list(region.block.arguments):
        return None
    direction = str(operation.attributes["comparison_direction"])
    return next((d for d in _SELECTIONS if f" {d}" in direction), None)


def _last_places(place: Any, x: ir.Value, window: dict[str, tuple[int, ...]]) -> ir.Value:
    """The position of the last of the extreme elements of each window."""
    type_ = type_of(x)
    every = tuple(range(type_.rank))
    shape = window_shape(type_.shape, **window)
    # In the reversed operand, the windows start at the ends of those in the operand.
    high = tuple(
        (count - 1) * stride + size - n - low
        for count, stride, size, n, low in zip(
            shape,
            window["window_strides"],
            window["window_dimensions"],
            type_.shape,
            window["padding_low"],
            strict=True,
        )
    )
    mirrored = {**window, "padding_low": high, "padding_high": window["padding_low"]}
    positions = ops.rev(place(ops.rev(x, dims=every), **mirrored), dims=every)
    return ops.sub(full(type_of(positions), type_.size - 1), positions)


@raises("select_and_scatter")
def _select_and_scatter(source: Source) -> list[ir.Value]:
    x, updates, initial = source.operands
    select, scatter = source.regions
    direction = _selection(select)
    if direction is None:
        raise RaiseError(
            "its selection is not one comparison (GE, GT, LE or LT) of its two arguments"
        )
    window = {
        **_window(source),
        "base_dilation": (1,) * type_of(x).rank,
        "window_dilation": (1,) * type_of(x).rank,
    }
    type_ = type_of(x)
    place: Any = getattr(ops, _SELECTIONS[direction])
    if direction in ("GE", "LE"):
        positions = place(x, **window)
    else:
        positions = _last_places(place, x, window)
    count = math.prod(type_of(updates).shape)
    flat = broadcast_scalar(initial, (type_.size,))
    scattered = combine_at(
        scatter,
        [flat],
        reshape(positions, (count, 1)),
        [reshape(updates, (count,))],
        unique=False,
    )
    return [reshape(s, type_.shape) for s in scattered]


__all__ = ["reduce_window"]
