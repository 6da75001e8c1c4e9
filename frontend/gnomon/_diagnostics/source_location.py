"""Source locations: the user's current line and the named scopes around it."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gnomon.backends
import gnomon.dialects
import gnomon.passes
from gnomon.dialects.mlir import context, ir

__all__ = ["file_and_line", "is_internal", "named_scope", "user_frame", "user_location"]


class _Scope(threading.local):
    """The names of the current scopes of a thread, joined by slashes."""

    name = ""


_scope = _Scope()
# The parts of the package may be installed in separate folders.
_ROOTS = tuple(
    root + os.sep
    for root in (
        str(Path(__file__).parent.parent),
        *gnomon.backends.__path__,
        *gnomon.dialects.__path__,
        *gnomon.passes.__path__,
    )
)
_internal: dict[str, bool] = {}
_FILE_AND_LINE = re.compile(r'"([^"]*)":(\d+):0')
_locations: dict[tuple[str, int, str], ir.Location] = {}


def user_frame() -> tuple[str, int]:
    """The file and line of the innermost frame outside of the package."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_internal(filename):
            return filename, frame.f_lineno
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "<unknown>", 0


def is_internal(filename: str) -> bool:
    """Whether a file of code belongs to the package."""
    internal = _internal.get(filename)
    if internal is None:
        internal = _internal[filename] = filename.startswith((*_ROOTS, "<frozen"))
    return internal


def user_location() -> ir.Location:
    """The MLIR location of the user's current line, named after the scopes around it."""
    filename, line = user_frame()
    key = (filename, line, _scope.name)
    location = _locations.get(key)
    if location is None:
        location = ir.Location.file(filename, line, 0, context())
        if _scope.name:
            location = ir.Location.name(_scope.name, location, context())
        _locations[key] = location
    return location


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A context manager that names the ops traced inside of it.

    The names of nested scopes, joined by slashes, are the ops' locations in dumps
    (``as_text(debug_info=True)``), errors and profiles.

    Args:
      name: the name.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> @gn.jit
      ... def layer(x):
      ...     with gn.named_scope("attention"):
      ...         return gnp.sin(x)
      >>> 'loc("attention"' in layer.lower(1.0).as_text("traced", debug_info=True)
      True
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope: name must be a string, got {name!r}")
    before = _scope.name
    _scope.name = f"{before}/{name}" if before else name
    try:
        yield
    finally:
        _scope.name = before


def file_and_line(location: ir.Location) -> tuple[str, int] | None:
    """The file and line of a location that `user_location` made; None for other locations."""
    found = _FILE_AND_LINE.search(str(location))
    return (found[1], int(found[2])) if found else None
