"""Programs of several processes, for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Ended", "run_all", "run_processes"]

_ROOT = str(Path(__file__).parents[3])
_START = """
import faulthandler, os, signal, sys, time
faulthandler.dump_traceback_later({patience})
import numpy as np
import gnomon as gn, gnomon.numpy as gnp
from gnomon import P, lax
process = int(os.environ["GNOMON_PROCESS_ID"])
count = int(os.environ["GNOMON_NUM_PROCESSES"])
"""
_CONNECT = """
gn.distributed.initialize(
    initialization_timeout={initialization}, heartbeat_timeout_seconds={heartbeat},
    shutdown_timeout_seconds=20,
)
"""


@dataclass(frozen=True)
class Ended:
    """A process that has ended.

    Attributes:
      code: its exit code.
      output: what it printed.
      errors: what it printed to the standard error.
    """

    code: int
    output: str
    errors: str


def run_processes(
    program: str,
    count: int = 2,
    devices: int = 2,
    *,
    connect: bool = True,
    initialization: float = 60,
    heartbeat: float = 20,
    timeout: float = 100,
    kill: Sequence[int] = (),
) -> list[Ended]:
    """Run a program in several processes, which are connected with each other.

    Args:
      program: the code after ``initialize``; it has ``gn``, ``gnp``, ``np``, ``P``, ``lax``,
        ``process`` and ``count``.
      connect: whether ``initialize`` is called before it.
      initialization, heartbeat: timeouts of ``initialize``.
      timeout: the time in seconds within which all processes must end, except those in ``kill``,
        which are killed when the others have ended.

    Raises:
      AssertionError: a process has not ended in time. The message has what all have printed, and
        where each of them waits.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "{}:{}".format(*free.getsockname())
    code = _START.format(patience=timeout - 5)
    if connect:
        code += _CONNECT.format(initialization=initialization, heartbeat=heartbeat)
    code += textwrap.dedent(program)
    started = []
    for number in range(count):
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH")))),
            "GNOMON_COORDINATOR_ADDRESS": address,
            "GNOMON_COORDINATOR_BIND_ADDRESS": address,
            "GNOMON_NUM_PROCESSES": str(count),
            "GNOMON_PROCESS_ID": str(number),
            "GNOMON_NUM_CPU_DEVICES": str(devices),
        }
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    deadline = time.monotonic() + timeout
    ended: list[Ended | None] = [None] * count
    try:
        for number in [*(n for n in range(count) if n not in kill), *kill]:
            process = started[number]
            if number in kill:
                process.kill()
            output, errors = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
            ended[number] = Ended(process.returncode, output, errors)
    except subprocess.TimeoutExpired:
        for number, process in enumerate(started):
            if ended[number] is None:
                process.kill()
                ended[number] = Ended(process.wait(), *process.communicate())
        raise AssertionError(f"a process has not ended within {timeout:g} s: {ended}") from None
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
                process.communicate()  # closes its pipes
    return [each for each in ended if each is not None]


def run_all(programs: Mapping[str, str]) -> list[Ended]:
    """Run several programs, one after another, in the same two processes.

    Each program has its own names, and its name is the file in the tracebacks of its errors.
    """
    code = "".join(
        f"exec(compile({textwrap.dedent(program)!r}, {name!r}, 'exec'), dict(globals()))\n"
        for name, program in programs.items()
    )
    return run_processes(code)
