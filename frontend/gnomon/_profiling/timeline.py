"""Timelines in the trace event format, which Perfetto and ``chrome://tracing`` open."""

from __future__ import annotations

import json
import os
from typing import Any

from gnomon.backends.profiling import COMPILER, DEVICE, HOST, TRANSFERS, Recorder, Span

__all__ = ["TRACKS", "trace_events"]

# Each track is a process of the timeline; its threads or devices are the rows.
TRACKS = {HOST: 1, COMPILER: 2, TRANSFERS: 3, DEVICE: 4}


def trace_events(recorder: Recorder) -> str:
    """The recorded events as JSON.

    The format is described in Google's document "Trace Event Format". Times are microseconds from
    the start of the recording.
    """
    rows = sorted({(span.track, span.thread) for span in recorder.spans})
    numbers = {row: number for number, row in enumerate(rows, 1)}
    events: list[dict[str, Any]] = [
        _metadata("process_name", TRACKS[track], 0, name=track) for track in TRACKS
    ]
    for (track, thread), number in numbers.items():
        name = f"device {thread}" if track == DEVICE else f"thread {thread}"
        events.append(_metadata("thread_name", TRACKS[track], number, name=name))
    events += [
        {
            "ph": "X",
            "name": span.name,
            "cat": span.track,
            "pid": TRACKS[span.track],
            "tid": numbers[span.track, span.thread],
            "ts": (span.start_ns - recorder.start_ns) / 1e3,
            "dur": (span.end_ns - span.start_ns) / 1e3,
            "args": shown_details(span),
        }
        for span in sorted(recorder.spans, key=lambda span: (span.start_ns, -span.end_ns))
    ]
    metadata = {"pid": os.getpid(), "start_ns": recorder.start_ns, "end_ns": recorder.end_ns}
    return json.dumps({"displayTimeUnit": "ns", "metadata": metadata, "traceEvents": events})


def shown_details(span: Span) -> dict[str, Any]:
    """The details of a span as numbers and strings."""
    return {
        key: value if isinstance(value, (int, float)) else str(value)
        for key, value in span.details.items()
    }


def _metadata(what: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}
