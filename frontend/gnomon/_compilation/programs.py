"""The compiled programs of functions, by signature."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.concrete import ConcreteArray, PlacedArray
from gnomon._arrays.sharded import ShardedArray
from gnomon._compilation.arguments import ArgumentRoles, flatten_argument
from gnomon._compilation.identity_map import IdentityMap
from gnomon._compilation.log import forget_signatures
from gnomon._compilation.shardings import RequestedShardings
from gnomon._compilation.tiered import TieredEntry
from gnomon._native import UNCACHED, SignatureCache
from gnomon._sharding.device import Device
from gnomon._tracing import evaluation, on_device, on_mesh, partitioned
from gnomon._tracing.bind import operand_of
from gnomon._tracing.cache import TraceCache
from gnomon._tracing.trace import Tracer

__all__ = ["Programs", "abstractify", "clear_caches", "programs_of"]


class Programs:
    """The compiled programs of a function by signature, and its tiered entries."""

    __slots__ = ("__weakref__", "cache", "tiered")

    everywhere: ClassVar[weakref.WeakSet[Programs]] = weakref.WeakSet()

    def __init__(self, cache: SignatureCache) -> None:
        self.cache = cache
        self.tiered: weakref.WeakSet[TieredEntry] = weakref.WeakSet()
        self.everywhere.add(self)


_programs: IdentityMap[dict[Any, Programs]] = IdentityMap()


def programs_of(
    fun: Callable[..., Any],
    roles: ArgumentRoles,
    place: Device | str | None,
    requested: RequestedShardings,
    tiered: bool | None,
) -> Programs:
    """The compiled programs of a function, shared by all jits of it with the same options."""
    of_function = _programs.setdefault(fun, dict)
    key = (roles, place, requested, tiered)
    if key not in of_function:
        cache = SignatureCache(abstractify, flatten_argument, ConcreteArray, *roles.static)
        of_function[key] = Programs(cache)
    return of_function[key]


def clear_caches() -> None:
    """Forget the compiled programs of all jitted functions; the cache on disk is kept.

    Example:
      >>> import gnomon as gn
      >>> f = gn.jit(lambda x: x + 1)
      >>> _ = f(1)
      >>> gn.clear_caches()
    """
    for programs in list(Programs.everywhere):
        programs.cache.clear()
    for traces in list(TraceCache.everywhere):
        traces.clear()
    forget_signatures()
    evaluation.clear_caches()
    on_device.clear_caches()
    on_mesh.clear_caches()
    partitioned.clear_caches()


def abstractify(x: Any) -> Any:
    """The interned type of an argument, part of a signature; `UNCACHED` for a tracer."""
    if type(x) is Tracer:
        return UNCACHED
    array = operand_of(x)  # Does not move the array.
    if isinstance(array, PlacedArray) and array._committed:
        place = array._sharding if type(array) is ShardedArray else array._device
        return _place_token(array.aval, place)
    # The place of an uncommitted array is not part of the signature: such arrays do not
    # determine the device of the program.
    return array.aval


class _PlaceToken(NamedTuple):
    """The type and the place of an array committed to a device or a sharding; interned."""

    aval: ShapedArray
    place: Any


@functools.lru_cache(4096)
def _place_token(aval: ShapedArray, place: Any) -> _PlaceToken:
    return _PlaceToken(aval, place)
