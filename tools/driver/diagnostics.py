"""Errors as compilers print them: the user's line, with a caret.

The line is the innermost line of the user's code in the traceback. Errors of passes and of the
compiler name it in their text, as the location of the op.
"""

from __future__ import annotations

import linecache
import os
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import gnomon.tools
import gnomon_runtime
from gnomon._diagnostics.source_location import is_internal
from gnomon.tools.source_lines import quoted

__all__ = ["TOOLS", "Place", "describe_error"]

TOOLS = tuple(root + os.sep for root in (*gnomon.tools.__path__, *gnomon_runtime.__path__))
# The forms of places in messages: `"f.py":3:0` with or without `loc(...)`, and `f.mlir:3:5:`.
_NAMED = re.compile(r'\s*\(?(?:loc\()*(?:"[^"]*"\()*"([^"]+)":(\d+):(\d+)\)*')
_PREFIXED = re.compile(r"^(\S[^:\n]*):(\d+):(\d+): error: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """A place in a file; columns count from 1, and column 0 means the whole line.

    Attributes:
      path: the path of the file.
      line: the line number.
      column, end: the first column, and the column after the last.
    """

    path: str
    line: int
    column: int = 0
    end: int = 0

    def shown_path(self) -> str:
        """The path, relative to the current folder if the file is in it."""
        try:
            relative = os.path.relpath(self.path)
        except ValueError:
            return self.path
        return self.path if relative.startswith(os.pardir) else relative

    def source(self) -> str:
        """The line without its indentation; empty if the file cannot be read."""
        return linecache.getline(self.path, self.line).strip()

    def quoted(self) -> list[str]:
        """The line with a caret under the place; nothing if the file cannot be read."""
        linecache.checkcache(self.path)
        return quoted(linecache.getline(self.path, self.line), self.column, self.end)


def describe_error(error: BaseException, located: str = "") -> str:
    """An error for the terminal.

    Args:
      error: the exception.
      located: the compiler's message about it, with locations.
    """
    message = str(error)
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        end = error.end_offset if error.end_lineno == error.lineno else None
        place = Place(error.filename, error.lineno, error.offset or 0, end or 0)
        return _shown([place], f"SyntaxError: {error.msg}")
    found = _place_in_text(located) or _place_in_text(message)
    if found is not None:
        place, cleaned = found
        if located:
            # The error's own message repeats it, except for the path of the program that was kept.
            cleaned += "".join(message.partition("\nThe program is kept")[1:])
        return _shown([place], f"{type(error).__name__}: {cleaned}")
    places = list(_user_places(error.__traceback__))
    if places:
        return _shown(places[::-1], f"{type(error).__name__}: {message}")
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"gnomon: {error.filename}: {error.strerror}"
    return f"gnomon: {type(error).__name__}: {message}"


def _shown(places: list[Place], message: str) -> str:
    """Lines of text: the innermost place with its line, then where it was called from."""
    place, *callers = places
    column = f":{place.column}" if place.column else ""
    lines = [f"{place.shown_path()}:{place.line}{column}: error: {message}", *place.quoted()]
    if len(message.splitlines()) > 1:
        # The source line follows the first line of a long message, not its last.
        head, *rest = lines[0].splitlines()
        lines = [head, *lines[1:], *rest]
    for caller in callers:
        lines += [f"{caller.shown_path()}:{caller.line}: called from here", *caller.quoted()]
    return "\n".join(lines)


def _place_in_text(text: str) -> tuple[Place, str] | None:
    """The first place in the user's files that a text names, and the text without it."""
    for found in _PREFIXED.finditer(text):
        if _is_users(found[1]):
            place = Place(found[1], int(found[2]), int(found[3]))
            return place, found[4]
    for found in _NAMED.finditer(text):
        if _is_users(found[1]):
            place = Place(found[1], int(found[2]), int(found[3]))
            rest = text[: found.start()] + text[found.end() :].removeprefix(")")
            return place, rest.strip()
    return None


def _is_users(path: str) -> bool:
    return Path(path).is_file() and not is_internal(path) and not path.startswith(TOOLS)


def _user_places(trace: TracebackType | None) -> Iterator[Place]:
    """The places of the user's code in a traceback, the outermost first."""
    for frame in traceback.extract_tb(trace):
        name = frame.filename
        if name.startswith("<") or is_internal(name) or name.startswith(TOOLS):
            continue
        if f"{os.sep}site-packages{os.sep}" in name or not Path(name).is_file():
            continue
        if name.startswith(os.path.dirname(os.__file__) + os.sep):
            continue
        column = getattr(frame, "colno", None)
        end = getattr(frame, "end_colno", None)
        if getattr(frame, "end_lineno", frame.lineno) != frame.lineno:
            end = None
        # Python counts columns in bytes, from 0.
        encoded = linecache.getline(name, frame.lineno or 0).encode()
        start = None if column is None else len(encoded[:column].decode(errors="replace")) + 1
        stop = None if end is None else len(encoded[:end].decode(errors="replace")) + 1
        yield Place(name, frame.lineno or 0, start or 0, stop or 0)
