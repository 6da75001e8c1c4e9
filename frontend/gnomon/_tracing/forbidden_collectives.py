"""Checks that programs do not communicate over axes: the option ``no_collectives``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gnomon._config.current import config
from gnomon._diagnostics.errors import ForbiddenCollectiveError
from gnomon._sharding.named_sharding import NamedSharding

__all__ = ["check_collective", "check_move", "check_types"]


def check_collective(what: str, names: Iterable[Any]) -> None:
    """Raise if a collective is over a forbidden axis."""
    if config.no_collectives:
        for name in sorted(config.no_collectives.intersection(names)):
            raise ForbiddenCollectiveError(
                f"{what} communicates over the axis {name!r}, which no_collectives forbids"
            )


def check_types(
    what: str, before: Sequence[NamedSharding | None], after: Sequence[NamedSharding | None]
) -> None:
    """Raise if the types of results lose a forbidden axis of the types of operands."""
    if not config.no_collectives:
        return
    split, unreduced = _axes(before)
    split_after, unreduced_after = _axes(after)
    for name in sorted(config.no_collectives):
        if name in unreduced and name not in unreduced_after:
            raise ForbiddenCollectiveError(
                f"{what} sums over the axis {name!r}, which no_collectives forbids: its operand is "
                "unreduced over the axis, and its result is not"
            )
        if name in split and name not in split_after and name not in unreduced_after:
            raise ForbiddenCollectiveError(
                f"{what} loses the axis {name!r}, over which no_collectives forbids to "
                "communicate: its result is neither split nor unreduced over the axis"
            )


def check_move(what: str, before: NamedSharding | None, after: NamedSharding) -> None:
    """Raise if a new sharding of a value loses a forbidden axis, or moves it."""
    if not config.no_collectives or before is None:
        return
    check_types(what, [before], [after])
    for name in sorted(config.no_collectives):
        places = [
            [d for d, axes in enumerate(sharding._axes) if name in axes]
            for sharding in (before, after)
        ]
        if all(places) and places[0] != places[1]:
            raise ForbiddenCollectiveError(
                f"{what} moves the axis {name!r}, over which no_collectives forbids to "
                f"communicate, from dimension {places[0][0]} to dimension {places[1][0]}"
            )


def _axes(shardings: Sequence[NamedSharding | None]) -> tuple[set[str], set[str]]:
    """The axes that split values, and those over which they are unreduced."""
    named = [sharding for sharding in shardings if sharding is not None]
    split = {name for s in named for axes in s._axes for name in axes}
    return split, {name for s in named for name in s.spec.unreduced}
