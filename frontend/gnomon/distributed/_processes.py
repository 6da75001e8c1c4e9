"""Connecting this process to the other processes of its program."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from gnomon._config.current import follow_host_engine
from gnomon.backends import platforms
from gnomon.backends.errors import DistributedError
from gnomon.distributed._clusters import find_place

__all__ = ["connection", "initialize", "is_initialized", "shutdown"]

# Imported only by programs of several processes: they load jaxlib.
_BACKEND = "gnomon.backends.distributed.backend"
_CONNECTION = "gnomon.backends.distributed.connection"

# The current connection of this process, if any, and whether it ever had one.
_current: list[Any] = [None]
_used = [False]


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Connect this process to the others that run the same program.

    Each process calls it once, at its start, before any computation. Afterwards, `gnomon.devices`
    are the CPU devices of all processes, run by XLA's CPU client, and `gnomon.local_devices` are
    those of this process. Under Slurm, Open MPI, Cloud TPU and
    ``python -m gnomon.distributed.launch`` no argument is needed; in an indexed job of Kubernetes,
    only ``num_processes``. Otherwise the first three are arguments, or the environment variables
    GNOMON_COORDINATOR_ADDRESS, GNOMON_NUM_PROCESSES and GNOMON_PROCESS_ID (or JAX's names of
    these).

    This function needs jaxlib: ``pip install 'gnomon[distributed]'``.

    Args:
      coordinator_address: the host and port of process 0, ``"10.0.0.1:1234"``, the same in each
        process. Process 0 listens on that port. Anyone who can reach the port can join, so it must
        not be open to other networks.
      num_processes: the number of processes.
      process_id: the number of this process, from 0.
      local_device_ids: the numbers of the devices of this process; only their count matters. By
        default, the count is the option ``gnomon_num_cpu_devices`` (GNOMON_NUM_CPU_DEVICES).
      cluster_detection_method: ``"slurm"``, ``"ompi"``, ``"mpi4py"`` (only used if
        named), ``"k8s"``, ``"tpu"``, or ``"deactivate"``; by default the first that is detected.
      initialization_timeout: the time in seconds within which all processes must make this call,
        and later the time that a process waits for the others to compile the same program.
      heartbeat_timeout_seconds: the time after which a silent process counts as gone. The death of
        a process is detected at once.
      shutdown_timeout_seconds: the time for which `shutdown` waits for the other processes.
      coordinator_bind_address: the address on which process 0 listens; by default the port of
        ``coordinator_address`` on all interfaces.
      slice_index, partition_index: must be None: several TPU slices are not supported.
    Raises:
      RuntimeError: the function was called before, or devices have been used already.
      ValueError: an argument is missing or wrong.
      gnomon.errors.DistributedError: a process did not connect in time.
      gnomon.errors.BackendUnavailable: jaxlib is not installed.

    Example:
      >>> import gnomon as gn
      >>> address = "127.0.0.1:1234"
      >>> gn.distributed.initialize(address, num_processes=1, process_id=0)  # doctest: +SKIP
    """
    if _used[0]:
        raise RuntimeError("gnomon.distributed.initialize should only be called once")
    if slice_index is not None or partition_index is not None:
        raise NotImplementedError(
            "gnomon.distributed.initialize: slice_index and partition_index are for several slices "
            "of TPUs, which are not supported"
        )
    address = coordinator_address or _variable("COORDINATOR_ADDRESS")
    count = _integer(num_processes, "NUM_PROCESSES", "num_processes")
    process = _integer(process_id, "PROCESS_ID", "process_id")
    if None in (address, count, process):
        found = find_place(cluster_detection_method)
        address = address or found.address
        count = found.processes if count is None else count
        process = found.process if process is None else process
    for value, name in (
        (address, "coordinator_address"),
        (count, "num_processes"),
        (process, "process_id"),
    ):
        if value is None:
            raise ValueError(
                f"gnomon.distributed.initialize: {name} should be defined: pass it, or set "
                f"GNOMON_{name.upper()}, or start the processes by python -m "
                "gnomon.distributed.launch, srun or mpirun"
            )
    assert address is not None and count is not None and process is not None
    if not 0 <= process < count:
        raise ValueError(
            "gnomon.distributed.initialize: process_id must be at least 0 and less than "
            f"num_processes={count}, got {process}"
        )
    _check_positive("initialization_timeout", initialization_timeout)
    _check_positive("heartbeat_timeout_seconds", heartbeat_timeout_seconds)
    _check_positive("shutdown_timeout_seconds", shutdown_timeout_seconds)
    devices = _device_count(local_device_ids)
    platforms.check_host_is_unused()
    connected = importlib.import_module(_CONNECTION).Connection(
        address,
        count,
        process,
        bind=coordinator_bind_address or _variable("COORDINATOR_BIND_ADDRESS"),
        initialization_timeout=initialization_timeout,
        heartbeat_timeout=heartbeat_timeout_seconds,
        shutdown_timeout=shutdown_timeout_seconds,
    )
    backend = importlib.import_module(_BACKEND).XlaCpuBackend(
        platforms.HOST_PLATFORM, devices, connected
    )
    platforms.set_host_engine(backend)
    follow_host_engine()
    _current[0], _used[0] = connected, True
    atexit.register(_end)


def is_initialized() -> bool:
    """Whether this process is connected to others: after `initialize`, before `shutdown`.

    Example:
      >>> import gnomon as gn
      >>> gn.distributed.is_initialized()
      False
    """
    return _current[0] is not None


def shutdown() -> None:
    """Wait until all processes call this function, then end the connection.

    It is called automatically at the end of a program. Without a connection, it does nothing.

    Raises:
      gnomon.errors.DistributedError: the others did not end in time.

    Example:
      >>> import gnomon as gn
      >>> gn.distributed.shutdown()
    """
    connected, _current[0] = _current[0], None
    if connected is not None:
        connected.close()


def connection() -> Any:
    """The connection to the other processes, or None."""
    return _current[0]


def _end() -> None:
    """End the connection at exit, and report an uncaught exception to the other processes."""
    connected, _current[0] = _current[0], None
    if connected is None:
        return
    raised = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    if raised is not None:
        connected.close(f"{type(raised).__name__}: {raised}")
        return
    with contextlib.suppress(DistributedError):  # the program has ended
        connected.close()


# ---------------------------------------------------------------------------------------- arguments


def _variable(name: str) -> str | None:
    for prefix in ("GNOMON_", "JAX_"):
        text = os.environ.get(prefix + name)
        if text:
            return text
    return None


def _integer(given: Any, variable: str, name: str) -> int | None:
    text = _variable(variable) if given is None else given
    if text is None:
        return None
    try:
        return int(text)
    except (TypeError, ValueError):
        raise ValueError(
            f"gnomon.distributed.initialize: {name} must be an integer, got {text!r}"
        ) from None


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(
            f"gnomon.distributed.initialize: {name} must be a positive number of seconds, got "
            f"{value}"
        )


def _device_count(ids: int | Sequence[int] | None) -> int | None:
    """The number of devices of this process from ``local_device_ids``, or None."""
    if ids is None:
        text = _variable("LOCAL_DEVICE_IDS")
        if text is None:
            return None
        numbers = [int(part) for part in text.split(",")]
    else:
        numbers = [ids] if isinstance(ids, int) else list(ids)
    if not numbers or len(set(numbers)) != len(numbers):
        raise ValueError(
            f"gnomon.distributed.initialize: local_device_ids must be distinct numbers, got {ids!r}"
        )
    return len(numbers)
