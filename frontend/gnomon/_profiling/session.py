"""Recordings of timelines: `ProfileSession`, and the files that they are written to."""

from __future__ import annotations

import gzip
import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnomon._diagnostics.errors import warn_user
from gnomon._profiling.timeline import trace_events
from gnomon._profiling.xplane import ProfileData, xspace
from gnomon.backends import profiling

__all__ = ["ProfileOptions", "ProfileSession", "current_session", "export_profile_data"]

PathLike = os.PathLike[str] | str


@dataclass
class ProfileOptions:
    """Options of a recording, which are ignored except for ``session_id``.

    Attributes:
      session_id: the name of the folder of the profile; by default the current time.
    """

    advanced_configuration: dict[str, Any] = field(default_factory=dict)
    duration_ms: int = 0
    enable_hlo_proto: bool = True
    host_tracer_level: int = 2
    include_dataset_ops: bool = True
    python_tracer_level: int = 1
    raise_error_on_start_failure: bool = False
    repository_path: str = ""
    session_id: str = ""
    start_timestamp_ns: int = 0


class ProfileSession:
    """A recording of a timeline, from `start` to `stop` or as a context manager.

    Args:
      log_dir: the folder that `stop` writes the profile to; see `export_profile_data`. By default
        the profile is only kept in memory.
      create_perfetto_link, create_perfetto_trace: see `export_profile_data`.
      profiler_options: see `ProfileOptions`.

    Attributes:
      is_running: whether the recording is in progress.
      profile_data: the recorded `ProfileData`; None before the recording has ended.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> with gn.profiler.ProfileSession() as session:
      ...     with gn.profiler.TraceAnnotation("my part"):
      ...         y = gnp.sin(gnp.ones(3))
      >>> host = session.profile_data.find_plane_with_name("/host:CPU")
      >>> [event.name for line in host.lines for event in line.events]
      ['my part']
    """

    def __init__(
        self,
        log_dir: PathLike | None = None,
        create_perfetto_link: bool = False,
        create_perfetto_trace: bool = False,
        profiler_options: ProfileOptions | None = None,
    ) -> None:
        _warn_of_link(create_perfetto_link)
        self.log_dir = None if log_dir is None else str(log_dir)
        self.create_perfetto_link = create_perfetto_link
        self.create_perfetto_trace = create_perfetto_trace or create_perfetto_link
        self.profiler_options = profiler_options
        self.profile_data: ProfileData | None = None
        self._started = ""

    @property
    def is_running(self) -> bool:
        """Whether the recording is in progress."""
        return _State.session is self

    def start(self) -> ProfileSession:
        """Begin the recording.

        Raises:
          RuntimeError: a timeline is being recorded already.
        """
        profiling.start()
        self.profile_data = None
        self._started = time.strftime("%Y_%m_%d_%H_%M_%S")
        _State.session = self
        return self

    def stop(self) -> ProfileData:
        """End the recording: wait for running programs, and write the files if there is a folder.

        Raises:
          RuntimeError: the recording is not in progress.
        """
        if not self.is_running:
            raise RuntimeError("No profile started")
        _State.session = None
        recorder = profiling.stop()
        self.profile_data = ProfileData(xspace(recorder), trace_events(recorder))
        if self.log_dir is not None:
            self.export_profile_data(self.log_dir, create_perfetto_trace=self.create_perfetto_trace)
        return self.profile_data

    def export_profile_data(
        self,
        log_dir: PathLike,
        create_perfetto_link: bool = False,
        create_perfetto_trace: bool = False,
        session_id: str | None = None,
    ) -> None:
        """Write the recorded profile to files; see the function `export_profile_data`."""
        export_profile_data(self, log_dir, create_perfetto_link, create_perfetto_trace, session_id)

    def __enter__(self) -> ProfileSession:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        if self.is_running:  # the block may have stopped it
            self.stop()


class _State:
    """The recording that is in progress."""

    session: ProfileSession | None = None


def _warn_of_link(requested: bool) -> None:
    if requested:
        warn_user(
            "create_perfetto_link: gnomon does not serve files; open the trace.json.gz of the "
            "profile at https://ui.perfetto.dev"
        )


def current_session() -> ProfileSession | None:
    """The recording that is in progress, except for those of servers."""
    return _State.session


def export_profile_data(
    profile_data: ProfileData | ProfileSession,
    log_dir: PathLike,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    session_id: str | None = None,
) -> None:
    """Write a profile to files.

    Args:
      profile_data: a session that has ended, or its data, or data that was read from a file.
      log_dir: the folder for profiles. Each becomes a folder ``plugins/profile/TIME`` in it, with
        ``HOST.xplane.pb`` for TensorBoard and ``HOST.trace.json.gz`` for Perfetto. The latter is
        left out for data that was read from a file.
      create_perfetto_link: warns that gnomon serves no files, and writes the same file as
        ``create_perfetto_trace``.
      create_perfetto_trace: also write the file under JAX's name, ``perfetto_trace.json.gz``.
      session_id: the name of the folder in place of the time.
    Raises:
      TypeError: the profile has another type.
      RuntimeError: the session has not ended, or has not begun.
      ValueError: a file for Perfetto of data that was read from a file.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import profiler
      >>> import os, tempfile
      >>> with profiler.trace() as session:
      ...     _ = gnp.ones(3) + 1
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     profiler.export_profile_data(session, folder, session_id="first")
      ...     print(os.listdir(os.path.join(folder, "plugins", "profile")))
      ['first']
    """
    _warn_of_link(create_perfetto_link)
    name = session_id
    data: Any = profile_data
    if isinstance(profile_data, ProfileSession):
        if profile_data.is_running:
            raise RuntimeError("Cannot export a ProfileSession while it is running: call stop()")
        data = profile_data.profile_data
        if data is None:
            raise RuntimeError("No profile data to export: the ProfileSession has not run")
        options = profile_data.profiler_options or ProfileOptions()
        name = name or options.session_id or profile_data._started
    if not isinstance(data, ProfileData):
        raise TypeError(f"Expected ProfileData or ProfileSession, got {type(data).__name__}")
    perfetto = create_perfetto_trace or create_perfetto_link
    if data.timeline is None and perfetto:
        raise ValueError("a profile that was read from a file has no timeline for Perfetto")
    folder = Path(log_dir) / "plugins" / "profile" / (name or time.strftime("%Y_%m_%d_%H_%M_%S"))
    folder.mkdir(parents=True, exist_ok=True)
    host = socket.gethostname() or "localhost"
    (folder / f"{host}.xplane.pb").write_bytes(data.serialized)
    if data.timeline is None:
        return
    events = gzip.compress(data.timeline.encode())
    (folder / f"{host}.trace.json.gz").write_bytes(events)
    if perfetto:
        (folder / "perfetto_trace.json.gz").write_bytes(events)
