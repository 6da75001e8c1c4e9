"""Profiles of the time and memory of a program, with the functions of `jax.profiler`.

A timeline shows the phases of compilation, calls, programs on devices, waits, transfers, and the
user's own annotations. Perfetto (ui.perfetto.dev) and TensorBoard open it.

Example:
  >>> import tempfile, gnomon as gn, gnomon.numpy as gnp
  >>> with tempfile.TemporaryDirectory() as folder, gn.profiler.trace(folder):
  ...     with gn.profiler.TraceAnnotation("my part"):
  ...         y = gn.jit(gnp.sin)(gnp.ones(3)).block_until_ready()
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from gnomon._api.devices import live_arrays
from gnomon._profiling.memory import memory_profile
from gnomon._profiling.server import ProfilerServer
from gnomon._profiling.session import (
    ProfileOptions,
    ProfileSession,
    current_session,
    export_profile_data,
)
from gnomon._profiling.xplane import ProfileData, ProfileEvent, ProfileLine, ProfilePlane
from gnomon.backends import profiling

__all__ = [
    "ProfileData",
    "ProfileEvent",
    "ProfileLine",
    "ProfileOptions",
    "ProfilePlane",
    "ProfileSession",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "export_profile_data",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]

P = ParamSpec("P")
R = TypeVar("R")


class _State:
    """The server of this process."""

    server: ProfilerServer | None = None


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> ProfileSession:
    """Begin to record a timeline, until `stop_trace`.

    Args:
      log_dir: the folder for profiles; see `export_profile_data`.
      create_perfetto_link, create_perfetto_trace: see `export_profile_data`.
      profiler_options: see `ProfileOptions`.
    Returns:
      The recording in progress.
    Raises:
      RuntimeError: a timeline is being recorded already.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import profiler
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     session = profiler.start_trace(folder)
      ...     _ = gnp.ones(3) + 1
      ...     data = profiler.stop_trace()

    See also:
      `trace`, the same as a context manager
    """
    session = ProfileSession(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    return session.start()


def stop_trace() -> ProfileData:
    """End the recording: wait for running programs, and write the files.

    Returns:
      The recorded profile.
    Raises:
      RuntimeError: nothing is being recorded.

    Example:
      >>> from gnomon import profiler
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = profiler.start_trace(folder)
      ...     _ = profiler.stop_trace()
      ...     print(os.listdir(folder))
      ['plugins']
    """
    session = current_session()
    if session is None:  # also if a server records: that recording is not ended here
        raise RuntimeError("No profile started")
    return session.stop()


@contextlib.contextmanager
def trace(
    log_dir: os.PathLike[str] | str | None = None,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[ProfileSession]:
    """A context manager that records its block, and gives the `ProfileSession`.

    Args:
      log_dir: the folder for profiles; by default the profile is only kept in memory.
      create_perfetto_link, create_perfetto_trace: see `export_profile_data`.
      profiler_options: see `ProfileOptions`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import profiler
      >>> with profiler.trace() as session:
      ...     _ = gnp.ones(3) + 1
      >>> type(session).__name__
      'ProfileSession'

    See also:
      `start_trace`, `stop_trace`
    """
    with ProfileSession(
        log_dir, create_perfetto_link, create_perfetto_trace, profiler_options
    ) as session:
        yield session


class TraceAnnotation:
    """A context manager that names its block in timelines.

    Args:
      name: the name.
      **kwargs: details to show with the name.

    Example:
      >>> import gnomon as gn
      >>> with gn.profiler.TraceAnnotation("load", rows=128):
      ...     pass
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name = name
        self._details = kwargs
        self._start_ns = 0

    @staticmethod
    def is_enabled() -> bool:
        """Whether a timeline is being recorded."""
        return profiling.current() is not None

    def set_metadata(self, **kwargs: Any) -> None:
        """Show further details, which are known only inside of the block."""
        self._details = {**self._details, **kwargs}

    def __enter__(self) -> TraceAnnotation:
        recorder = profiling.current()
        self._start_ns = 0 if recorder is None else recorder.now()
        return self

    def __exit__(self, *exception: object) -> None:
        recorder = profiling.current()
        if recorder is not None and self._start_ns >= recorder.start_ns:
            recorder.add(self._name, profiling.HOST, self._start_ns, self._details)


class StepTraceAnnotation(TraceAnnotation):
    """A context manager that names one training step in timelines.

    Args:
      name: the name, which is the same for all steps.
      **kwargs: ``step_num=i``, and other details to show.

    Example:
      >>> import gnomon as gn
      >>> for i in range(2):
      ...     with gn.profiler.StepTraceAnnotation("train", step_num=i):
      ...         pass
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, _r=1, **kwargs)


def annotate_function(
    func: Callable[P, R], name: str | None = None, **decorator_kwargs: Any
) -> Callable[P, R]:
    """A decorator that names the calls of a function in timelines.

    Args:
      func: the function.
      name: the name; by default that of the function.
      **decorator_kwargs: details to show with the name.

    Example:
      >>> import functools, gnomon as gn
      >>> @functools.partial(gn.profiler.annotate_function, name="double")
      ... def f(x):
      ...     return 2 * x
      >>> f(3)
      6
    """
    shown = name or str(getattr(func, "__qualname__", repr(func)))

    @functools.wraps(func)
    def annotated(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(shown, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


# --------------------------------------------------------------------------------------- memory


def device_memory_profile(backend: str | None = None) -> bytes:
    r"""The arrays that are alive, by the line that made them, in pprof's format (compressed).

    Lines are known only for arrays that were made while Python's `tracemalloc` was tracing: call
    ``tracemalloc.start(25)`` first, or run ``python -X tracemalloc=25``.

    Args:
      backend: the name of a platform; by default the default platform.

    Example:
      >>> import gnomon as gn
      >>> gn.profiler.device_memory_profile()[:2]  # gzip
      b'\x1f\x8b'
    """
    return memory_profile(live_arrays(backend))


def save_device_memory_profile(
    filename: os.PathLike[str] | str, backend: str | None = None
) -> None:
    """Write `device_memory_profile` to a file, for ``pprof --web memory.prof``.

    Args:
      filename: the path of the file.
      backend: the platform; None means the default one.

    Example:
      >>> from gnomon import profiler
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     profiler.save_device_memory_profile(os.path.join(folder, "memory.prof"))
      ...     print(os.listdir(folder))
      ['memory.prof']
    """
    Path(filename).write_bytes(device_memory_profile(backend))


# ------------------------------------------------------------------------------------ on demand


def start_server(port: int, requires_backend: bool = True) -> ProfilerServer:
    """Serve profiles of this process over HTTP, to programs on this machine.

    ``GET /trace?duration_ms=1000`` records for that long and returns the timeline as compressed
    JSON; ``GET /memory`` returns `device_memory_profile`. TensorBoard's "capture profile" speaks
    gRPC, which this server does not.

    Args:
      port: the port on this machine; 0 for any free one.
      requires_backend: accepted for compatibility.
    Raises:
      ValueError: a server is running already.

    Example:
      >>> from gnomon import profiler
      >>> server = profiler.start_server(0)
      >>> profiler.stop_server()
    """
    if _State.server is not None:
        raise ValueError("Only one profiler server can be active at a time.")
    _State.server = ProfilerServer(port, device_memory_profile)
    return _State.server


def stop_server() -> None:
    """Stop the server.

    Raises:
      ValueError: no server is running.

    Example:
      >>> from gnomon import profiler
      >>> server = profiler.start_server(0)
      >>> profiler.stop_server()
    """
    if _State.server is None:
        raise ValueError("No active profiler server.")
    server, _State.server = _State.server, None
    server.stop()
