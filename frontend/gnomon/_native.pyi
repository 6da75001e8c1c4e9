"""Types of the native module; backends/native holds its source."""

from collections.abc import Callable, Sequence
from typing import Any, Final, final

class NonHashableStaticArgumentError(TypeError, ValueError):
    """A value given for a static argument cannot be hashed."""

@final
class Uncached:
    """The type of UNCACHED."""

UNCACHED: Final[Uncached]
"""What `abstractify` returns for a leaf whose call must not be looked up."""

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
    """From the signature of a call to what is to be run for it."""

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
        """Looks up a call: (entry or None, leaves, key or None where a leaf is UNCACHED)."""
    def insert(self, key: Key, entry: object) -> None:
        """Sets the entry, which must not be None, for calls with this key."""
    def clear(self) -> None:
        """Forgets all entries, and what is remembered of leaves; resets the counters."""
    def size(self) -> int:
        """The number of entries."""
    @property
    def hits(self) -> int:
        """How many look-ups found an entry."""
    @property
    def misses(self) -> int:
        """How many look-ups of cacheable calls found none."""
