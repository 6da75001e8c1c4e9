"""Log messages of `jit` about new signatures, under `log_compiles` and similar options."""

from __future__ import annotations

import inspect
import logging
import time
import weakref
from collections.abc import Callable
from typing import Any

from gnomon import tree_util
from gnomon._compilation.stages import aval_of
from gnomon._config.current import config
from gnomon._diagnostics.source_location import user_frame
from gnomon._tracing.function import name_of

_log = logging.getLogger("gnomon.jit")

# Structure, types and static values of the calls for which each function was traced.
_Signature = tuple[Any, tuple[str, ...], str]
_seen: weakref.WeakKeyDictionary[Callable[..., Any], list[_Signature]] = weakref.WeakKeyDictionary()


def log_cache_miss(fun: Callable[..., Any], call: Any) -> float:
    """Log that a function is about to be traced for a new signature.

    Returns:
      The time, for `log_compiled`.
    Raises:
      RuntimeError: under `no_tracing`.
    """
    name = name_of(fun)
    if config.no_tracing:
        raise RuntimeError(
            f"re-tracing function {name} for `jit`, but 'no_tracing' is set: it was not called "
            f"before with arguments of these types, {_types(call)}"
        )
    if config.explain_cache_misses:
        _log.warning(_explanation(fun, call))
    if config.log_compiles:
        _log.warning("Tracing and compiling %s for arguments of types %s.", name, _types(call))
    return time.perf_counter()


def log_compiled(fun: Callable[..., Any], call: Any, start: float) -> None:
    """Log the time since ``start``, which `log_cache_miss` returned."""
    if config.log_compiles:
        seconds = time.perf_counter() - start
        _log.warning("Finished compiling %s in %.3f sec.", name_of(fun), seconds)


def _types(call: Any) -> str:
    return f"[{', '.join(str(aval_of(leaf)) for leaf in call.leaves)}]"


def _explanation(fun: Callable[..., Any], call: Any) -> str:
    """Why the signature of a call is new: what differs from the closest one before."""
    static = {**call.static_args, **call.static_kwargs}
    signature = call.tree, tuple(str(aval_of(leaf)) for leaf in call.leaves), repr(static)
    filename, line = user_frame()
    lines = [f"TRACING CACHE MISS at {filename}:{line}:"]
    try:
        before = _seen.setdefault(fun, [])
    except TypeError:  # neither hashed nor referred to weakly
        before = []
    if not before:
        code = getattr(inspect.unwrap(fun), "__code__", None)
        where = f" defined at {code.co_filename}:{code.co_firstlineno}" if code else ""
        lines.append(f"  never seen function:\n    {name_of(fun)} id={id(fun)}{where}")
    else:
        lines.append(f"  never seen input type signature of {name_of(fun)}")
        closest = max(before, key=lambda other: _likeness(signature, other))
        lines += [f"    {text}" for text in _differences(call, signature, closest)]
    before.append(signature)
    return "\n".join(lines)


def _likeness(a: _Signature, b: _Signature) -> int:
    equal = [x == y for x, y in zip(a[1], b[1], strict=False)]
    return sum(equal) + len(equal) * ((a[0] == b[0]) + (a[2] == b[2]))


def _differences(call: Any, new: _Signature, old: _Signature) -> list[str]:
    if new[0] != old[0]:
        return [f"the structure of the arguments is {new[0]}, the closest seen is {old[0]}"]
    names = tree_util.tree_flatten_with_path(tree_util.tree_unflatten(call.tree, call.leaves))[0]
    found = [
        f"at {tree_util.keystr(path)}, seen {theirs}, but now given {ours}"
        for (path, _), ours, theirs in zip(names, new[1], old[1], strict=True)
        if ours != theirs
    ]
    if new[2] != old[2]:
        found.append(f"static arguments: seen {old[2]}, but now given {new[2]}")
    return found or ["the configuration, or the devices of the arguments, differ"]


__all__ = ["log_cache_miss", "log_compiled"]
