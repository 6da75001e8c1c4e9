"""Partition specs: which axes of a mesh split which dimension of an array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["PartitionSpec", "Unconstrained"]


class Unconstrained:
    """The entry of a spec that leaves a dimension open; a singleton."""

    _only: Unconstrained | None = None

    def __new__(cls) -> Unconstrained:
        """Return the singleton."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __reduce__(self) -> Any:
        return Unconstrained, ()

    def __repr__(self) -> str:
        return "UNCONSTRAINED"


def _entry(entry: Any) -> Any:
    """The normal form of an entry."""
    if isinstance(entry, (tuple, list)):
        entry = tuple(entry)
        return (entry[0] if len(entry) == 1 else entry) if entry else None
    return entry


def _axis_set(axes: Any, name: str) -> frozenset[Any]:
    if not isinstance(axes, (set, frozenset)):
        raise TypeError(f"PartitionSpec: {name} takes a set of names of axes, got {axes!r}")
    if None in axes:
        raise ValueError(
            f"PartitionSpec: {name} must hold names of mesh axes, not None; got {axes}"
        )
    return frozenset(axes)


class PartitionSpec:
    """The axes of a mesh that split each dimension of an array.

    Args:
      partitions: for each dimension the name of an axis, a tuple of names (the first one is split
        most coarsely), None for a dimension that is not split, or `PartitionSpec.UNCONSTRAINED`.
        Dimensions at the end that are left out are not split.
      unreduced: axes over which each device holds one term of a sum.
      reduced: axes over which the cotangents of a value are `unreduced`.

    Example:
      >>> from gnomon.sharding import PartitionSpec as P
      >>> P("x", None, ("y", "z"))
      P('x', None, ('y', 'z'))
    """

    __slots__ = ("_partitions", "_reduced", "_unreduced")

    UNCONSTRAINED = Unconstrained()

    def __init__(
        self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> None:
        self._partitions = tuple(_entry(entry) for entry in partitions)
        self._unreduced = _axis_set(unreduced, "unreduced")
        self._reduced = _axis_set(reduced, "reduced")
        if self._unreduced or self._reduced:
            self._check_sets()

    def _check_sets(self) -> None:
        if both := self._unreduced & self._reduced:
            raise ValueError(f"PartitionSpec: {sorted(both)} cannot be both unreduced and reduced")
        used = {axis for entry in self._partitions for axis in axes_of(entry)}
        for name in ("unreduced", "reduced"):
            if both := used & getattr(self, name):
                raise ValueError(
                    f"PartitionSpec: the partitions {self._partitions} cannot use the axes "
                    f"{sorted(both)}, which are {name}"
                )

    @property
    def partitions(self) -> tuple[Any, ...]:
        """The entry of each dimension."""
        return self._partitions

    @property
    def unreduced(self) -> frozenset[Any]:
        """The axes over which each device holds one term of a sum."""
        return self._unreduced

    @property
    def reduced(self) -> frozenset[Any]:
        """The axes over which the cotangents of a value are unreduced."""
        return self._reduced

    def update(self, **changes: Any) -> PartitionSpec:
        """The spec with other ``partitions``, ``unreduced`` or ``reduced``."""
        partitions = changes.pop("partitions", self._partitions)
        sets = {"unreduced": self._unreduced, "reduced": self._reduced, **changes}
        return PartitionSpec(*partitions, **sets)

    def index(self, value: Any) -> int:
        """The first dimension with this entry."""
        return self._partitions.index(_entry(value))

    def count(self, value: Any) -> int:
        """The number of dimensions with this entry."""
        return self._partitions.count(_entry(value))

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, i: Any) -> Any:
        return self._partitions[i]

    def __iter__(self) -> Iterator[Any]:
        if self._unreduced or self._reduced:
            raise ValueError(
                "PartitionSpec: *spec would drop the unreduced and reduced axes; use "
                "*spec.partitions"
            )
        return iter(self._partitions)

    def __add__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, (tuple, PartitionSpec)):
            return NotImplemented
        return PartitionSpec(
            *self._partitions,
            *(other._partitions if isinstance(other, PartitionSpec) else other),
            unreduced=self._unreduced | getattr(other, "unreduced", frozenset()),
            reduced=self._reduced | getattr(other, "reduced", frozenset()),
        )

    def __radd__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, tuple):
            return NotImplemented
        return self.update(partitions=(*other, *self._partitions))

    def __reduce__(self) -> Any:
        return _restored, (self._partitions, self._unreduced, self._reduced)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PartitionSpec)
            and self._partitions == other._partitions
            and self._unreduced == other._unreduced
            and self._reduced == other._reduced
        )

    def __hash__(self) -> int:
        return hash((self._partitions, self._unreduced, self._reduced))

    def __repr__(self) -> str:
        parts = [repr(entry) for entry in self._partitions]
        for name in ("unreduced", "reduced"):
            if axes := getattr(self, name):
                parts.append(f"{name}={{{', '.join(sorted(map(repr, axes)))}}}")
        only = len(parts) == 1 and bool(self._partitions)
        return f"P({', '.join(parts)}{',' if only else ''})"


def _restored(
    partitions: tuple[Any, ...], unreduced: frozenset[Any], reduced: frozenset[Any]
) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def axes_of(entry: Any) -> tuple[Any, ...]:
    """The axes that an entry of a spec names."""
    if entry is None or isinstance(entry, Unconstrained):
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def spec_of(axes: Iterable[tuple[Any, ...]]) -> PartitionSpec:
    """The spec with the given axes in each dimension."""
    return PartitionSpec(*axes)
