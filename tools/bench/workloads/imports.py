"""The time of an import, each time in a new process."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile

from gnomon.tools.bench.workload import Case, Framework, Workload

_PROGRAM = """
import time
start = time.perf_counter()
import {}
print(time.perf_counter() - start)
"""


def _import(module: str) -> Case:
    command = [sys.executable, "-c", _PROGRAM.format(module)]
    # Installed packages are compiled to bytecode; a source tree may be in a read-only place.
    compiled = tempfile.mkdtemp(prefix="gnomon-bench-")
    atexit.register(shutil.rmtree, compiled, ignore_errors=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = compiled

    def run() -> float:
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return float(done.stdout.split()[-1])

    run()
    return Case(run, keeps_time=True)


def _setup(framework: Framework) -> Case:
    modules = {"gnomon": "gnomon, gnomon.numpy", "jax": "jax, jax.numpy"}
    return _import(modules.get(framework.name, framework.name))


WORKLOADS = (
    Workload(
        "import/package",
        "the import statement in a new process, with bytecode compiled before (NumPy's included)",
        dict.fromkeys(("gnomon", "jax", "numpy", "torch"), _setup),
    ),
)
