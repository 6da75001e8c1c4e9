"""Detection of the other processes under schedulers and launchers, by environment variables."""

from __future__ import annotations

import importlib
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["CLUSTERS", "Place", "find_place"]


class Place(NamedTuple):
    """The place of a process among the others; a field is None if the cluster does not say.

    Attributes:
      address: the coordinator's ``"host:port"``.
      processes: the number of processes.
      process: the number of this process.
    """

    address: str | None
    processes: int | None
    process: int | None


@dataclass(frozen=True)
class _Cluster:
    """A scheduler or launcher.

    Attributes:
      is_present: returns whether the cluster started this process.
      place: returns the place of this process.
      automatic: whether it is detected without being named.
    """

    is_present: Callable[[], bool]
    place: Callable[[], Place]
    automatic: bool = True


# The number of ports, the highest ones, onto which jobs are mapped.
_PORTS = 1 << 12
_LAST_PORT = 65535


def _port(job: int) -> int:
    """A port computed from a job's number: the same in all its processes, rarely in other jobs."""
    return job % _PORTS + _LAST_PORT - _PORTS + 1


def _has(*names: str) -> Callable[[], bool]:
    return lambda: all(name in os.environ for name in names)


def _first_host(hosts: str) -> str:
    """The first host of a list in Slurm's notation.

    Example:
      >>> _first_host("node[07-09,12],login"), _first_host("a-1,a-2")
      ('node07', 'a-1')
    """
    match = re.match(r"([^,\[]+)(?:\[([^\],-]+)[^\]]*\])?([^,\[]*)", hosts)
    if match is None:
        raise ValueError(f"SLURM_STEP_NODELIST is not a list of hosts: {hosts!r}")
    return "".join(part or "" for part in match.groups())


def _slurm() -> Place:
    host = _first_host(os.environ["SLURM_STEP_NODELIST"])
    port = _port(int(os.environ["SLURM_JOB_ID"]))
    count, process = os.environ["SLURM_NTASKS"], os.environ["SLURM_PROCID"]
    return Place(f"{host}:{port}", int(count), int(process))


_URI = "OMPI_MCA_orte_hnp_uri"


def _open_mpi() -> Place:
    # Such as "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911" or "...;tcp6://[fe80::1]:34911".
    job, _, place = os.environ[_URI].partition(".")
    match = re.search(r"tcp6?://\[?([^,\]]+?)(?:[,\]].*)?:\d+", place)
    if match is None:
        raise ValueError(f"{_URI} contains no address: {os.environ[_URI]!r}")
    # The lower 16 bits of the number are the same for all jobs of a machine.
    host = f"[{match[1]}]" if ":" in match[1] else match[1]
    address = f"{host}:{_port(int(job) >> 16)}"
    count, process = os.environ["OMPI_COMM_WORLD_SIZE"], os.environ["OMPI_COMM_WORLD_RANK"]
    return Place(address, int(count), int(process))


def _mpi4py() -> Place:
    world: Any = importlib.import_module("mpi4py.MPI").COMM_WORLD
    address = None
    if world.Get_rank() == 0:
        with socket.create_server(("", 0)) as free:
            address = f"{socket.gethostname()}:{free.getsockname()[1]}"
    return Place(world.bcast(address, root=0), world.Get_size(), world.Get_rank())


_KUBERNETES_PORT = 8476


def _kubernetes() -> Place:
    # An indexed job whose pods get names from a headless service: job-0.service, job-1.service, ...
    process = int(os.environ["JOB_COMPLETION_INDEX"])
    name, dot, domain = socket.getfqdn().partition(".")
    first = f"{name.removesuffix(f'-{process}')}-0{dot}{domain}"
    return Place(f"{first}:{_KUBERNETES_PORT}", None, process)


def _tpu() -> Place:
    hosts = os.environ["TPU_WORKER_HOSTNAMES"].split(",")
    return Place(f"{hosts[0]}:{_KUBERNETES_PORT}", len(hosts), int(os.environ["TPU_WORKER_ID"]))


CLUSTERS: dict[str, _Cluster] = {
    "slurm": _Cluster(
        _has("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID"), _slurm
    ),
    "ompi": _Cluster(_has(_URI, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), _open_mpi),
    "mpi4py": _Cluster(lambda: True, _mpi4py, automatic=False),
    "k8s": _Cluster(_has("KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"), _kubernetes),
    "tpu": _Cluster(_has("TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"), _tpu),
}
"""The known clusters, by the names that ``cluster_detection_method`` takes."""


def find_place(method: str | None) -> Place:
    """The place of this process in the cluster that started it.

    Args:
      method: the name of a cluster; ``"deactivate"`` for none, or None for the first automatic one
        that is detected.
    Raises:
      ValueError: there is no cluster of that name.
      RuntimeError: the named cluster did not start this process.
    """
    if method == "deactivate":
        return Place(None, None, None)
    if method is None:
        for cluster in CLUSTERS.values():
            if cluster.automatic and cluster.is_present():
                return cluster.place()
        return Place(None, None, None)
    if method not in CLUSTERS:
        known = ", ".join(map(repr, [*CLUSTERS, "deactivate"]))
        raise ValueError(f"cluster_detection_method must be one of {known}, got {method!r}")
    if not CLUSTERS[method].is_present():
        raise RuntimeError(
            f"cluster_detection_method={method!r}: it did not start this process, because its "
            "environment variables are not set"
        )
    return CLUSTERS[method].place()
