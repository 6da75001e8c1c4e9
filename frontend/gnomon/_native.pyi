"""Types of the native module; backends/native holds its source."""

from collections.abc import Callable, Sequence
from typing import Any, Final, final

class NonHashableStaticArgumentError(TypeError, ValueError):
    """A value given for a static argument cannot be hashed."""

@final
class Uncached:
    """The type of UNCACHED."""

UNCACHED: Final[Uncached]
"""The result of `abstractify` for a leaf whose call must not be looked up."""

@final
class Key:
    """The signature of a call. Keys of calls that run the same program are equal."""

    @property
    def avals(self) -> tuple[Any, ...]:
        """The tokens of the leaves, in the order of the leaves."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class SignatureCache:
    """Maps the signature of a call to the entry to run for it."""

    def __init__(
        self,
        abstractify: Callable[[Any], object],
        flatten_custom: Callable[[Any], tuple[Sequence[Any], object] | None],
        array_type: type,
        static_argnums: tuple[int, ...] = (),
        static_argnames: tuple[str, ...] = (),
    ) -> None: ...
    def lookup(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], context: object
    ) -> tuple[Any | None, list[Any], Key | None]:
        """Looks up a call: (entry or None, leaves, key or None if a leaf is UNCACHED)."""
    def insert(self, key: Key, entry: object) -> None:
        """Sets the entry, which must not be None, for calls with this key."""
    def clear(self) -> None:
        """Removes all entries and cached tokens of leaves, and resets the counters."""
    def size(self) -> int:
        """The number of entries."""
    @property
    def hits(self) -> int:
        """The number of lookups that found an entry."""
    @property
    def misses(self) -> int:
        """The number of lookups of cacheable calls that found no entry."""
