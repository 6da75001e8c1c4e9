"""Profiles: the recorded events, the files, and the state after a recording."""

from __future__ import annotations

import functools
import gzip
import json
import threading
import tracemalloc
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.backends import profiling
from gnomon.backends.iree.executable import Executable
from gnomon.backends.pjrt.protobuf import fields

pytestmark = pytest.mark.iree

profiler = gn.profiler


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    run = Executable.run
    yield
    assert profiling.current() is None
    assert Executable.run is run


def recorded(folder: Path) -> tuple[dict[str, Any], Any, Any]:
    """The timeline, and the planes as our reader and as XLA's reader see them."""
    (session,) = (folder / "plugins" / "profile").iterdir()
    (events,) = session.glob("*.trace.json.gz")
    (planes,) = session.glob("*.xplane.pb")
    ours = profiler.ProfileData.from_file(str(planes))
    theirs = jax.profiler.ProfileData.from_serialized_xspace(planes.read_bytes())
    return json.loads(gzip.decompress(events.read_bytes())), ours, theirs


def names(timeline: dict[str, Any], category: str) -> list[str]:
    return [e["name"] for e in timeline["traceEvents"] if e.get("cat") == category]


def test_a_timeline_shows_compilation_calls_and_annotations(tmp_path: Path) -> None:
    f = gn.jit(lambda x: gnp.sin(x) * 2.5)
    x = gnp.ones(7)
    with profiler.trace(tmp_path), profiler.StepTraceAnnotation("train", step_num=4):
        f(x).block_until_ready()
        f(x)
    timeline, ours, theirs = recorded(tmp_path)
    assert names(timeline, "python").count("call jit_lambda") == 2
    assert names(timeline, "python")[-1] != "train", "sorted by their beginning"
    assert names(timeline, "device") == ["jit_lambda", "jit_lambda"]
    compiler = names(timeline, "compiler")
    assert {"lower", "compile", "load", "expand-transformations"} <= set(compiler)
    assert any(name.startswith("trace jit of") for name in compiler)
    (step,) = [e for e in timeline["traceEvents"] if e["name"] == "train"]
    assert step["args"]["step_num"] == 4
    inside = [e for e in timeline["traceEvents"] if e.get("cat") == "compiler"]
    for event in inside:
        assert step["ts"] <= event["ts"]
        assert event["ts"] + event["dur"] <= step["ts"] + step["dur"]
    for mine, other in zip(ours.planes, theirs.planes, strict=True):
        assert mine.name == other.name
        for line, other_line in zip(mine.lines, other.lines, strict=True):
            assert line.name == other_line.name
            events = list(other_line.events)
            assert [e.name for e in line.events] == [e.name for e in events]
            assert [dict(e.stats) for e in line.events] == [dict(e.stats) for e in events]
            np.testing.assert_allclose(
                [e.duration_ns for e in line.events], [e.duration_ns for e in events]
            )
            np.testing.assert_allclose(
                [e.start_ns for e in line.events], [e.start_ns for e in events]
            )
    assert ours.find_plane_with_name("/device").lines[0].name == "device 0"
    assert ours.find_plane_with_name("no such") is None


def test_asynchronous_programs_are_recorded_to_their_end(tmp_path: Path) -> None:
    f = gn.jit(lambda x: x @ x * 0.01)
    x = gnp.ones((400, 400))
    f(x).block_until_ready()
    with profiler.trace(tmp_path):
        y = x
        for _ in range(3):
            y = f(y)
    timeline, _, _ = recorded(tmp_path)
    programs = [e for e in timeline["traceEvents"] if e.get("cat") == "device"]
    assert len(programs) == 3
    for before, after in pairwise(programs):
        assert after["ts"] >= before["ts"] + before["dur"] - 1e-3, "they depend on each other"


def test_annotations_of_threads_and_functions(tmp_path: Path) -> None:
    @functools.partial(profiler.annotate_function, name="twice", unit=3)
    def double(x: int) -> int:
        return 2 * x

    assert double(4) == 8, "without a recording, too"
    assert not profiler.TraceAnnotation.is_enabled()
    with profiler.trace(tmp_path, profiler_options=profiler.ProfileOptions(session_id="mine")):
        assert profiler.TraceAnnotation.is_enabled()
        thread = threading.Thread(target=double, args=(1,))
        thread.start()
        thread.join()
        double(1)
        with profiler.TraceAnnotation("late") as annotation:
            annotation.set_metadata(found=1.5)
    timeline, ours, _ = recorded(tmp_path)
    twice = [e for e in timeline["traceEvents"] if e["name"] == "twice"]
    assert len({e["tid"] for e in twice}) == 2
    assert all(e["args"] == {"unit": 3} for e in twice)
    (late,) = [e for e in timeline["traceEvents"] if e["name"] == "late"]
    assert late["args"] == {"found": 1.5}
    assert (tmp_path / "plugins" / "profile" / "mine").is_dir()
    assert len(ours.find_plane_with_name("/host:CPU").lines) == 2


def test_an_annotation_that_began_before_the_recording_is_left_out(tmp_path: Path) -> None:
    with profiler.TraceAnnotation("early"):
        profiler.start_trace(tmp_path, create_perfetto_trace=True)
    profiler.stop_trace()
    timeline, _, _ = recorded(tmp_path)
    assert names(timeline, "python") == []
    assert list(tmp_path.rglob("perfetto_trace.json.gz"))


def test_failures_are_reported(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()
    profiling.start()  # as a server does
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()
    profiling.stop()
    with profiler.trace(tmp_path), pytest.raises(RuntimeError, match="already been started"):
        profiler.start_trace(tmp_path)
    with pytest.warns(UserWarning, match="perfetto"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)
    profiler.stop_trace()


def test_a_recording_ends_when_the_block_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), profiler.trace(tmp_path):
        raise ZeroDivisionError
    assert list(tmp_path.rglob("*.xplane.pb"))


# --------------------------------------------------------------------------------------- memory


def samples(profile: bytes) -> list[tuple[list[str], tuple[int, int], dict[str, str]]]:
    """Each sample's lines, values (count, bytes), and labels."""
    parsed: dict[int, list[Any]] = {}
    for number, value in fields(gzip.decompress(profile)):
        parsed.setdefault(number, []).append(value)
    strings = [bytes(text).decode() for text in parsed[6]]
    assert strings[0] == ""
    functions = {dict(fields(f))[1]: strings[dict(fields(f))[2]] for f in parsed.get(5, [])}
    found = []
    for sample in parsed.get(2, []):
        lines, values, labels = [], [], {}
        for number, value in fields(sample):
            if number == 1:
                lines.append(functions[value])
            elif number == 2:
                values.append(value)
            else:
                label = dict(fields(value))
                labels[strings[label[1]]] = strings[label[2]]
        found.append((lines, tuple(values), labels))
    return found  # type: ignore[return-value]


def test_memory_is_attributed_to_the_line_that_made_it(tmp_path: Path) -> None:
    f = gn.jit(lambda x: x + 1)
    gnp.full((123, 7), 0) * 2, f(gnp.ones((321, 5)))  # compile before all allocations are traced
    tracemalloc.start(25)
    try:
        kept = [gnp.full((123, 7), i) * 2 for i in range(3)]
        made = f(gnp.ones((321, 5)))
        profiler.save_device_memory_profile(tmp_path / "memory.prof")
    finally:
        tracemalloc.stop()
    found = samples((tmp_path / "memory.prof").read_bytes())
    (mine,) = [s for s in found if s[2]["array"].endswith("[123,7]")]
    assert mine[1] == (3, sum(x.nbytes for x in kept))
    assert mine[0][0].startswith(f"{__file__}:")
    (jitted,) = [s for s in found if s[2]["array"].endswith("[321,5]")]
    assert jitted[1] == (1, made.nbytes)
    assert jitted[0][0].startswith(f"{__file__}:")
    assert jitted[2]["kind"] == "buffer"


def test_without_tracemalloc_lines_are_unknown() -> None:
    kept = gnp.ones((77, 3)) + 1
    (mine,) = [
        s for s in samples(profiler.device_memory_profile()) if s[2]["array"].endswith("[77,3]")
    ]
    assert mine[1][1] == kept.nbytes
    assert "tracemalloc" in mine[0][0]


# -------------------------------------------------------------------------------------- on demand


def test_a_server_gives_profiles() -> None:
    server = profiler.start_server(0)
    try:
        with pytest.raises(ValueError, match="Only one profiler server"):
            profiler.start_server(0)
        url = f"http://localhost:{server.port}"
        with urllib.request.urlopen(f"{url}/trace?duration_ms=10") as answer:
            assert "traceEvents" in json.loads(gzip.decompress(answer.read()))
        with urllib.request.urlopen(f"{url}/memory") as answer:
            assert isinstance(samples(answer.read()), list)
        for path, status in (("/trace?duration_ms=-1", 400), ("/other", 404)):
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(url + path)
            assert error.value.code == status
            error.value.close()
    finally:
        profiler.stop_server()
    with pytest.raises(ValueError, match="No active"):
        profiler.stop_server()
