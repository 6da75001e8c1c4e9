"""The format of TensorBoard's profiler, ``XSpace``: protocol buffers of planes, lines and events.

The field numbers are those of ``xplane.proto`` in OpenXLA's repository. A plane is a track, and a
line is a thread or a device of it. Each plane stores the names of its events and statistics once.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gnomon._profiling.timeline import TRACKS, shown_details
from gnomon.backends.pjrt.protobuf import field, fields
from gnomon.backends.profiling import DEVICE, Recorder, Span

__all__ = ["ProfileData", "ProfileEvent", "ProfileLine", "ProfilePlane", "xspace"]

_PLANES = 1
_PLANE_ID, _PLANE_NAME, _PLANE_LINES, _EVENT_NAMES, _STAT_NAMES, _PLANE_STATS = 1, 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_START_NS, _LINE_EVENTS = 1, 2, 3, 4
_EVENT_NAME, _EVENT_OFFSET_PS, _EVENT_DURATION_PS, _EVENT_STATS = 1, 2, 3, 4
_STAT_NAME, _STAT_DOUBLE, _STAT_UINT, _STAT_INT, _STAT_TEXT, _STAT_BYTES, _STAT_REF = range(1, 8)
_KEY, _VALUE = 1, 2
_METADATA_ID, _METADATA_NAME = 1, 2


def xspace(recorder: Recorder) -> bytes:
    """The recorded events as a serialized ``XSpace``."""
    planes = b""
    for track, number in TRACKS.items():
        spans = [span for span in recorder.spans if span.track == track]
        name = "/host:CPU" if track == "python" else f"/{track}"
        planes += field(_PLANES, _plane(number, name, spans, recorder.start_ns))
    return planes


class _Names:
    """Numbers for names, in order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers) + 1)

    def table(self, number: int) -> bytes:
        """A map field from numbers to the metadata that holds the names."""
        out = b""
        for name, key in self._numbers.items():
            metadata = field(_METADATA_ID, key) + field(_METADATA_NAME, name)
            out += field(number, field(_KEY, key) + field(_VALUE, metadata))
        return out


def _plane(number: int, name: str, spans: list[Span], start_ns: int) -> bytes:
    events, stats = _Names(), _Names()
    lines = b""
    for row, thread in enumerate(sorted({span.thread for span in spans}), 1):
        what = "device" if spans[0].track == DEVICE else "thread"
        line = field(_LINE_ID, row) + field(_LINE_NAME, f"{what} {thread}")
        line += field(_LINE_START_NS, start_ns)
        for span in spans:
            if span.thread == thread:
                line += field(_LINE_EVENTS, _event(span, start_ns, events, stats))
        lines += field(_PLANE_LINES, line)
    head = field(_PLANE_ID, number) + field(_PLANE_NAME, name)
    return head + lines + events.table(_EVENT_NAMES) + stats.table(_STAT_NAMES)


def _event(span: Span, start_ns: int, events: _Names, stats: _Names) -> bytes:
    event = field(_EVENT_NAME, events[span.name])
    event += field(_EVENT_OFFSET_PS, (span.start_ns - start_ns) * 1000)
    event += field(_EVENT_DURATION_PS, (span.end_ns - span.start_ns) * 1000)
    for name, value in shown_details(span).items():
        if isinstance(value, float):
            # A double has eight bytes without a length: the wire type is 1.
            given = bytes([_STAT_DOUBLE << 3 | 1]) + struct.pack("<d", value)
        elif isinstance(value, int):
            given = field(_STAT_INT, int(value))
        else:
            given = field(_STAT_TEXT, value)
        event += field(_EVENT_STATS, field(_STAT_NAME, stats[name]) + given)
    return event


# --------------------------------------------------------------------------------------- reading


class _Message:
    """The fields of a message by number, each a list in order."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[Any]] = {}
        for number, value in fields(data):
            self._fields.setdefault(number, []).append(value)

    def all(self, number: int) -> list[Any]:
        return self._fields.get(number, [])

    def one(self, number: int, default: Any = 0) -> Any:
        return self._fields.get(number, [default])[-1]

    def text(self, number: int) -> str:
        return bytes(self.one(number, b"")).decode()

    def names(self, number: int) -> dict[int, str]:
        """A map field from numbers to metadata with names."""
        entries = [_Message(entry) for entry in self.all(number)]
        return {e.one(_KEY): _Message(e.one(_VALUE, b"")).text(_METADATA_NAME) for e in entries}


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _stats(messages: list[bytes], names: dict[int, str]) -> Iterator[tuple[str, Any]]:
    for stat in map(_Message, messages):
        value: Any = None
        if stat.all(_STAT_DOUBLE):
            (value,) = struct.unpack("<d", stat.one(_STAT_DOUBLE))
        elif stat.all(_STAT_UINT):
            value = stat.one(_STAT_UINT)
        elif stat.all(_STAT_INT):
            value = _signed(stat.one(_STAT_INT))
        elif stat.all(_STAT_TEXT):
            value = stat.text(_STAT_TEXT)
        elif stat.all(_STAT_BYTES):
            value = bytes(stat.one(_STAT_BYTES))
        elif stat.all(_STAT_REF):
            value = names.get(stat.one(_STAT_REF))
        yield names.get(stat.one(_STAT_NAME), ""), value


class ProfileEvent:
    """An event with a start and a duration.

    Attributes:
      name: the name of the event.
      start_ns, end_ns: the start and the end in nanoseconds since the epoch.
      duration_ns: the duration in nanoseconds.
      stats: further information, as pairs of a name and a value.
    """

    def __init__(self, event: _Message, start_ns: int, names: dict[int, str], stats: Any) -> None:
        self.name = names.get(event.one(_EVENT_NAME), "")
        self.start_ns = start_ns + _signed(event.one(_EVENT_OFFSET_PS)) / 1000
        self.duration_ns = event.one(_EVENT_DURATION_PS) / 1000
        self.end_ns = self.start_ns + self.duration_ns
        self.stats = list(_stats(event.all(_EVENT_STATS), stats))


class ProfileLine:
    """The events of one thread or device.

    Attributes:
      name: the name of the thread or device.
      events: its events, in the order of the file; gnomon writes them in the order of recording.
    """

    def __init__(self, line: _Message, names: dict[int, str], stats: dict[int, str]) -> None:
        self.name = line.text(_LINE_NAME)
        start_ns = _signed(line.one(_LINE_START_NS))
        self.events = [
            ProfileEvent(_Message(event), start_ns, names, stats)
            for event in line.all(_LINE_EVENTS)
        ]


class ProfilePlane:
    """One track of a profile.

    Attributes:
      name: the name of the track.
      lines: its threads or devices.
      stats: pairs of a name and a value.
    """

    def __init__(self, plane: _Message) -> None:
        self.name = plane.text(_PLANE_NAME)
        names, stats = plane.names(_EVENT_NAMES), plane.names(_STAT_NAMES)
        self.lines = [ProfileLine(_Message(x), names, stats) for x in plane.all(_PLANE_LINES)]
        self.stats = list(_stats(plane.all(_PLANE_STATS), stats))


class ProfileData:
    """A profile that was written to a file ``*.xplane.pb``, by gnomon or by XLA.

    Attributes:
      planes: its tracks.
      serialized: the bytes of the file.
      timeline: the same events for Perfetto, as JSON; None for a profile from a file.

    Example:
      >>> import gnomon as gn
      >>> data = gn.profiler.ProfileData.from_serialized_xspace(b"")
      >>> data.planes
      []
    """

    def __init__(self, serialized: bytes, timeline: str | None = None) -> None:
        self.serialized = serialized
        self.timeline = timeline

    @functools.cached_property
    def planes(self) -> list[ProfilePlane]:
        """The tracks."""
        return [ProfilePlane(_Message(x)) for x in _Message(self.serialized).all(_PLANES)]

    @staticmethod
    def from_file(proto_file_path: str) -> ProfileData:
        """Read a file."""
        return ProfileData(Path(proto_file_path).read_bytes())

    @staticmethod
    def from_serialized_xspace(serialized_xspace: bytes) -> ProfileData:
        """Read the bytes of such a file."""
        return ProfileData(serialized_xspace)

    def find_plane_with_name(self, name: str) -> ProfilePlane | None:
        """The track of this name, or None."""
        return next((plane for plane in self.planes if plane.name == name), None)
