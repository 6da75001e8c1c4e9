"""The memory of arrays, by the line that made them, in pprof's format.

The lines are known only for arrays that were made while Python's `tracemalloc` was tracing. The
field numbers are those of ``profile.proto`` in pprof's repository.
"""

from __future__ import annotations

import gzip
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

from gnomon._arrays.array import Array
from gnomon._diagnostics.source_location import is_internal
from gnomon.backends.pjrt.protobuf import field

__all__ = ["memory_profile"]

_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRINGS, _TIME_NS, _DEFAULT_TYPE = (
    1,
    2,
    4,
    5,
    6,
    9,
    14,
)
_TYPE, _UNIT = 1, 2
_SAMPLE_LOCATIONS, _SAMPLE_VALUES, _SAMPLE_LABELS = 1, 2, 3
_LABEL_KEY, _LABEL_TEXT = 1, 2
_LOCATION_ID, _LOCATION_LINE = 1, 4
_LINE_FUNCTION, _LINE_NUMBER = 1, 2
_FUNCTION_ID, _FUNCTION_NAME, _FUNCTION_SYSTEM_NAME, _FUNCTION_FILE = 1, 2, 3, 4
_UNKNOWN = ("unknown: made while tracemalloc did not trace", 0)

_Line = tuple[str, int]


class _Table:
    """Numbers for values, in order of their first use."""

    def __init__(self, first: int, *values: Any) -> None:
        self._first = first
        self.values: dict[Any, int] = {}
        for value in values:
            self[value]

    def __getitem__(self, value: Any) -> int:
        return self.values.setdefault(value, len(self.values) + self._first)


def memory_profile(arrays: Sequence[Array]) -> bytes:
    """The number and bytes of arrays by device, shape and line, as a compressed ``Profile``."""
    groups: dict[tuple[tuple[_Line, ...], str, str], tuple[int, int]] = {}
    for array in arrays:
        key = (_stack(array), str(array.device), str(array.aval))
        count, size = groups.get(key, (0, 0))
        groups[key] = count + 1, size + array.nbytes
    strings, lines = _Table(0, ""), _Table(1)
    out = b""
    for kind, unit in (("allocations", "count"), ("space", "bytes")):
        out += field(_SAMPLE_TYPE, field(_TYPE, strings[kind]) + field(_UNIT, strings[unit]))
    for (stack, device, aval), values in groups.items():
        sample = b"".join(field(_SAMPLE_LOCATIONS, lines[line]) for line in stack)
        sample += b"".join(field(_SAMPLE_VALUES, value) for value in values)
        for label_name, text in (("kind", "buffer"), ("device", device), ("array", aval)):
            label = field(_LABEL_KEY, strings[label_name]) + field(_LABEL_TEXT, strings[text])
            sample += field(_SAMPLE_LABELS, label)
        out += field(_SAMPLE, sample)
    for (filename, number), location in lines.values.items():
        # tracemalloc does not keep the names of functions, so each line is a separate function.
        name = strings[f"{filename}:{number}" if number else filename]
        line = field(_LINE_FUNCTION, location) + field(_LINE_NUMBER, number)
        out += field(_LOCATION, field(_LOCATION_ID, location) + field(_LOCATION_LINE, line))
        function = field(_FUNCTION_ID, location) + field(_FUNCTION_NAME, name)
        function += field(_FUNCTION_SYSTEM_NAME, name)
        out += field(_FUNCTION, function + field(_FUNCTION_FILE, strings[filename]))
    out += field(_TIME_NS, time.time_ns()) + field(_DEFAULT_TYPE, strings["space"])
    out += b"".join(field(_STRINGS, text) for text in strings.values)
    return gzip.compress(out)


def _stack(array: Array) -> tuple[_Line, ...]:
    """The user's lines that made an array, the innermost first."""
    trace = tracemalloc.get_object_traceback(array)
    found = [
        (frame.filename, frame.lineno)
        for frame in reversed(trace or ())
        if not is_internal(frame.filename)
    ]
    return tuple(found) or (_UNKNOWN,)
