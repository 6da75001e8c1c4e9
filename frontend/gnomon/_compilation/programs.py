"""The compiled programs of functions, by signature."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.concrete import ConcreteArray, PlacedArray
from gnomon._arrays.sharded import ShardedArray
from gnomon._compilation.arguments import ArgumentRoles, flatten_argument
from gnomon._compilation.log import forget_signatures
from gnomon._compilation.shardings import RequestedShardings
from gnomon._compilation.tiered import TieredEntry
from gnomon._native import UNCACHED, SignatureCache
from gnomon._sharding.device import Device
from gnomon._tracing import evaluation, on_device, on_mesh, partitioned
from gnomon._tracing.bind import operand_of
from gnomon._tracing.cache import TraceCache
from gnomon._tracing.trace import Tracer

__all__ = ["abstractify", "clear_caches", "programs_of"]


class _Programs(NamedTuple):
    """The compiled programs of a function by signature, and its tiered entries."""

    cache: SignatureCache
    tiered: weakref.WeakSet[TieredEntry]


_caches: weakref.WeakKeyDictionary[Callable[..., Any], dict[Any, _Programs]]
_caches = weakref.WeakKeyDictionary()


def programs_of(
    fun: Callable[..., Any],
    roles: ArgumentRoles,
    place: Device | str | None,
    requested: RequestedShardings,
    tiered: bool | None,
) -> _Programs:
    """The compiled programs of a function, shared by all jits of it with the same options."""

    def make() -> _Programs:
        cache = SignatureCache(abstractify, flatten_argument, ConcreteArray, *roles.static)
        return _Programs(cache, weakref.WeakSet())

    try:
        of_function = _caches.setdefault(fun, {})
    except TypeError:  # not hashable or not weakly referenceable
        return make()
    key = (roles, place, requested, tiered)
    if key not in of_function:
        of_function[key] = make()
    return of_function[key]


def clear_caches() -> None:
    """Forget the compiled programs of all jitted functions; the cache on disk is kept."""
    for of_function in list(_caches.values()):
        for programs in of_function.values():
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
