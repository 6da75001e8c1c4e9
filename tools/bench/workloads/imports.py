"""How long an import takes, each time in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from gnomon.tools.bench.workload import Case, Framework, Workload

_PROGRAM = """
import time
start = time.perf_counter()
import {}
print(time.perf_counter() - start)
"""


def _import(module: str) -> Case:
    command = [sys.executable, "-c", _PROGRAM.format(module)]

    def run() -> float:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout.split()[-1])

    return Case(run, keeps_time=True)


def _setup(framework: Framework) -> Case:
    modules = {"gnomon": "gnomon, gnomon.numpy", "jax": "jax, jax.numpy"}
    return _import(modules.get(framework.name, framework.name))


WORKLOADS = (
    Workload(
        "import/package",
        "the import statement in a new process (NumPy's time is part of the others)",
        dict.fromkeys(("gnomon", "jax", "numpy", "torch"), _setup),
    ),
)
