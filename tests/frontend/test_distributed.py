"""Arguments of `gnomon.distributed.initialize`, clusters, and the launcher."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gnomon as gn
from gnomon.distributed._clusters import Place, find_place


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the environment variables that describe other processes."""
    for name in ("COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID", "LOCAL_DEVICE_IDS"):
        for prefix in ("GNOMON_", "JAX_"):
            monkeypatch.delenv(prefix + name, raising=False)
    for name in ("SLURM_JOB_ID", "OMPI_COMM_WORLD_SIZE", "JOB_COMPLETION_INDEX", "TPU_WORKER_ID"):
        monkeypatch.delenv(name, raising=False)


def test_missing_arguments_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="coordinator_address should be defined"):
        gn.distributed.initialize()
    with pytest.raises(ValueError, match="num_processes should be defined"):
        gn.distributed.initialize("127.0.0.1:1234")
    monkeypatch.setenv("GNOMON_NUM_PROCESSES", "2")
    with pytest.raises(ValueError, match="process_id should be defined"):
        gn.distributed.initialize("127.0.0.1:1234")
    assert not gn.distributed.is_initialized()
    gn.distributed.shutdown()  # without a connection, this is not an error


def test_arguments_are_checked() -> None:
    def initialize(**arguments: object) -> None:
        gn.distributed.initialize(
            "127.0.0.1:1234", **{"num_processes": 2, "process_id": 0, **arguments}
        )  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"at least 0 and less than num_processes=2, got 2"):
        initialize(process_id=2)
    with pytest.raises(ValueError, match="num_processes must be an integer, got 'two'"):
        initialize(num_processes="two")
    with pytest.raises(ValueError, match="must be a positive number of seconds"):
        initialize(initialization_timeout=0)
    with pytest.raises(ValueError, match="local_device_ids must be distinct numbers"):
        initialize(local_device_ids=[1, 1])
    with pytest.raises(NotImplementedError, match="slice_index"):
        initialize(slice_index=0)
    with pytest.raises(ValueError, match="cluster_detection_method must be one of 'slurm'"):
        gn.distributed.initialize(cluster_detection_method="cloud")
    with pytest.raises(RuntimeError, match="did not start this process"):
        gn.distributed.initialize(cluster_detection_method="slurm")


def test_after_the_devices_were_used_it_is_too_late() -> None:
    gn.devices("cpu")
    with pytest.raises(
        RuntimeError, match=r"call gnomon\.distributed\.initialize\(\) at the start"
    ):
        gn.distributed.initialize("127.0.0.1:1234", 1, 0)


_CLUSTERS = {
    "slurm": (
        {
            "SLURM_JOB_ID": "4097",
            "SLURM_STEP_NODELIST": "node[07-09,12],login",
            "SLURM_NTASKS": "5",
            "SLURM_PROCID": "3",
        },
        Place("node07:61441", 5, 3),
    ),
    "slurm, one host": (
        {
            "SLURM_JOB_ID": "1",
            "SLURM_STEP_NODELIST": "localhost",
            "SLURM_NTASKS": "2",
            "SLURM_PROCID": "0",
        },
        Place("localhost:61441", 2, 0),
    ),
    "ompi": (
        {
            "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
            "OMPI_COMM_WORLD_SIZE": "4",
            "OMPI_COMM_WORLD_RANK": "2",
        },
        Place("10.96.0.1:64330", 4, 2),
    ),
    "ompi, IPv6": (
        {
            "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp6://[fe80::b9b,2620::8c1]:43370",
            "OMPI_COMM_WORLD_SIZE": "4",
            "OMPI_COMM_WORLD_RANK": "1",
        },
        Place("[fe80::b9b]:64330", 4, 1),
    ),
    "tpu": (
        {"TPU_WORKER_HOSTNAMES": "t-0.svc,t-1.svc", "TPU_WORKER_ID": "1"},
        Place("t-0.svc:8476", 2, 1),
    ),
}


@pytest.mark.parametrize("cluster", _CLUSTERS)
def test_clusters_give_the_place_of_a_process(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables, place = _CLUSTERS[cluster]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_place(None) == place
    assert find_place("deactivate") == Place(None, None, None)


def test_kubernetes_names_the_first_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "3")
    monkeypatch.setattr("socket.getfqdn", lambda: "train-3.train-svc.default.svc")
    assert find_place(None) == Place("train-0.train-svc.default.svc:8476", None, 3)


def _launch(tmp_path: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(program)
    command = [sys.executable, "-m", "gnomon.distributed.launch", "-n", "3", "-d", "2", str(script)]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, timeout=100
    )


def test_the_launcher_starts_processes(tmp_path: Path) -> None:
    program = """
import os, sys
names = ("NUM_PROCESSES", "PROCESS_ID", "NUM_CPU_DEVICES")
print(*(os.environ["GNOMON_" + name] for name in names), *sys.argv[1:])
"""
    run = _launch(tmp_path, program, "-n", "7")
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == [f"[{i}] 3 {i} 2 -n 7" for i in range(3)]


@pytest.mark.slow
def test_the_launcher_ends_all_when_one_fails(tmp_path: Path) -> None:
    program = """
import os, sys, time
if os.environ["GNOMON_PROCESS_ID"] == "1":
    sys.exit("no more")
time.sleep(60)
"""
    run = _launch(tmp_path, program)
    assert run.returncode == 1
    assert "[1] no more" in run.stderr
    assert "process 1 of 3 failed with exit code 1; ending the others" in run.stderr
