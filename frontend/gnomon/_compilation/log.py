"""Log messages of `jit` about new signatures.

With the option `log_compiles` they are warnings, otherwise messages of the level DEBUG.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from gnomon._arrays.aval import ShapedArray
from gnomon._compilation.identity_map import IdentityMap
from gnomon._compilation.stages import aval_of
from gnomon._config.current import config
from gnomon._diagnostics.source_location import user_frame
from gnomon._tracing.function import name_of

_log = logging.getLogger("gnomon.jit")

# The structure, types and static values of the calls that each function was compiled for.
_Signature = tuple[Any, tuple[ShapedArray, ...], dict[Any, Any]]
_seen: IdentityMap[list[_Signature]] = IdentityMap()


def watches_compilation() -> bool:
    """Whether a message is logged, or an error raised, when a function is traced."""
    return config.watches_tracing or _log.isEnabledFor(logging.DEBUG)


def log_cache_miss(fun: Callable[..., Any], call: Any) -> float:
    """Log that a function is about to be traced for a new signature.

    Returns:
      The current time, which `log_finished` takes.
    Raises:
      RuntimeError: the option `no_tracing` is set.
    """
    name = name_of(fun)
    if config.no_tracing:
        raise RuntimeError(
            f"re-tracing function {name} for `jit`, but 'no_tracing' is set: it has not been "
            f"called with arguments of these types, {_types(call)}"
        )
    if config.explain_cache_misses:
        _log.warning(_explanation(fun, call))
    level = level_of_messages()
    if _log.isEnabledFor(level):
        _log.log(level, "Tracing and compiling %s for arguments of types %s.", name, _types(call))
    return time.perf_counter()


def level_of_messages() -> int:
    """The level of the messages about a compilation that begins now."""
    return logging.WARNING if config.log_compiles else logging.DEBUG


def log_finished(what: str, fun: Callable[..., Any], start: float, level: int) -> None:
    """Log the time since ``start``, which `log_cache_miss` returned.

    Args:
      what: "tracing" or "compiling".
      fun: the function.
      start: when the call began.
      level: what `level_of_messages` was for the call. It is passed because a background thread
        may have compiled the program.
    """
    seconds = time.perf_counter() - start
    _log.log(level, "Finished %s %s in %.3f sec.", what, name_of(fun), seconds)


def _types(call: Any) -> str:
    return f"[{', '.join(str(aval_of(leaf)) for leaf in call.leaves)}]"


def remember_signature(fun: Callable[..., Any], call: Any) -> None:
    """Record the signature that a function was compiled for, for later explanations."""
    _seen.setdefault(fun, list).append(_signature(call))


def forget_signatures() -> None:
    """Forget all recorded signatures; part of `clear_caches`."""
    _seen.clear()


def _signature(call: Any) -> _Signature:
    static = {**call.static_args, **call.static_kwargs}
    return call.tree, tuple(aval_of(leaf) for leaf in call.leaves), static


def _explanation(fun: Callable[..., Any], call: Any) -> str:
    """Explain a cache miss by the differences from the closest signature seen before."""
    filename, line = user_frame()
    lines = [f"TRACING CACHE MISS at {filename}:{line}:"]
    before = _seen.setdefault(fun, list)
    if not before:
        code = getattr(inspect.unwrap(fun), "__code__", None)
        where = f" defined at {code.co_filename}:{code.co_firstlineno}" if code else ""
        lines.append(f"  never seen function:\n    {name_of(fun)} id={id(fun)}{where}")
    else:
        lines.append(f"  never seen input type signature of {name_of(fun)}")
        signature = _signature(call)
        closest = max(before, key=lambda earlier: _similarity(signature, earlier))
        names = call.leaf_names(fun)
        lines += [f"    {text}" for text in _differences(names, signature, closest)]
    return "\n".join(lines)


def _similarity(a: _Signature, b: _Signature) -> int:
    equal = [x == y for x, y in zip(a[1], b[1], strict=False)]
    return sum(equal) + len(equal) * ((a[0] == b[0]) + (repr(a[2]) == repr(b[2])))


def _differences(names: Sequence[str], new: _Signature, old: _Signature) -> list[str]:
    if new[0] != old[0]:
        return [f"the structure of the arguments is {new[0]}, the closest seen is {old[0]}"]
    differences = [
        f"at {name}, seen {_described(theirs)}, but now given {_described(ours)}"
        for name, ours, theirs in zip(names, new[1], old[1], strict=True)
        if ours != theirs
    ]
    if repr(new[2]) != repr(old[2]):
        differences.append(f"static arguments: seen {old[2]}, but now given {new[2]}")
    return differences or ["the configuration, or the devices of the arguments, differ"]


def _described(aval: ShapedArray) -> str:
    return f"{aval}{' of weak type' if aval.weak_type else ''}"


__all__ = [
    "forget_signatures",
    "level_of_messages",
    "log_cache_miss",
    "log_finished",
    "remember_signature",
    "watches_compilation",
]
