"""Start a program in several processes on this machine.

    python -m gnomon.distributed.launch -n 4 script.py arguments

Each process gets the environment variables that `gnomon.distributed.initialize` reads. Each line of
its output is printed after its number. When a process fails, the launcher terminates the others
and exits with the exit code of that process.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

__all__ = ["main"]

# The times in seconds that the others get to report a failure, and then to end.
_REPORT_TIMEOUT_S, _END_TIMEOUT_S = 5.0, 5.0
_lock = threading.Lock()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``python -m gnomon.distributed.launch``.

    Args:
      arguments: the arguments, as strings; None means ``sys.argv[1:]``.
    Returns:
      The exit code: 0, or the code of the first process that failed.

    Example:
      >>> from gnomon.distributed import launch
      >>> launch.main(["-n", "2", "script.py"])  # doctest: +SKIP
    """
    parser = argparse.ArgumentParser(
        "python -m gnomon.distributed.launch",
        description="Start a Python program in several processes on this machine.",
    )
    parser.add_argument("-n", "--processes", type=int, required=True, help="how many")
    parser.add_argument(
        "-d", "--devices", type=int, help="the number of CPU devices of each process"
    )
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    parser.add_argument("program", help="a script, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    given = parser.parse_args(arguments)
    if given.processes < 1:
        parser.error(f"-n must be at least 1, got {given.processes}")
    if given.devices is not None and given.devices < 1:
        parser.error(f"-d must be at least 1, got {given.devices}")
    command = [sys.executable, *(["-m"] if given.module else []), given.program, *given.arguments]
    return _run(command, given.processes, given.devices)


def _run(command: list[str], count: int, devices: int | None) -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "{}:{}".format(*free.getsockname())
    processes: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    try:
        for number in range(count):
            environment = {
                **os.environ,
                "GNOMON_COORDINATOR_ADDRESS": address,
                "GNOMON_COORDINATOR_BIND_ADDRESS": address,
                "GNOMON_NUM_PROCESSES": str(count),
                "GNOMON_PROCESS_ID": str(number),
                "PYTHONUNBUFFERED": "1",
            }
            if devices is not None:
                environment["GNOMON_NUM_CPU_DEVICES"] = str(devices)
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
            processes.append(process)
            assert process.stdout is not None and process.stderr is not None
            for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
                reader = threading.Thread(target=_forward, args=(number, source, target))
                reader.start()
                readers.append(reader)
        code = _wait(processes)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    finally:
        _end(processes)
        for reader in readers:
            reader.join()
    return code


def _forward(number: int, source: IO[str], target: IO[str]) -> None:
    for line in source:
        with _lock:
            target.write(f"[{number}] {line}" if line.endswith("\n") else f"[{number}] {line}\n")
            target.flush()


def _wait(processes: list[subprocess.Popen[str]]) -> int:
    """Wait until all processes have ended or one has failed; return the exit code."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [(n, code) for n, code in enumerate(codes) if code]
        if failed:
            number, code = failed[0]
            _log(f"process {number} of {len(processes)} {_describe(code)}; ending the others")
            # The others notice the failure themselves, and report what they were doing.
            deadline = time.monotonic() + _REPORT_TIMEOUT_S
            while time.monotonic() < deadline and any(p.poll() is None for p in processes):
                time.sleep(0.02)
            return code if code > 0 else 128 - code
        if all(code == 0 for code in codes):
            return 0
        time.sleep(0.02)


def _describe(code: int) -> str:
    if code > 0:
        return f"failed with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _log(text: str) -> None:
    with _lock:
        print(f"gnomon.distributed.launch: {text}", file=sys.stderr, flush=True)


def _end(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _END_TIMEOUT_S
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
