"""Calls on arrays over eight CPU devices: the overhead of a sharded call.

The number of CPU devices is fixed when they are first used, so each framework has a process of its
own here. It measures a number of calls each time it is asked.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np

from gnomon.tools.bench.workload import Case, Framework, Workload, like_jax

DEVICES = 8

_PROGRAM = """
import importlib, json, sys, time
import numpy as np
lib = importlib.import_module(sys.argv[1])
xnp = importlib.import_module(sys.argv[1] + ".numpy")
sharding = importlib.import_module(sys.argv[1] + ".sharding")
P = lib.P
mesh = lib.make_mesh((8,), ("x",), (sharding.AxisType.Auto,))
rows = lib.NamedSharding(mesh, P("x"))
value = np.random.default_rng(0).standard_normal((64, 8), dtype=np.float32)
x = lib.device_put(value, rows)

def mapped(f, out):
    return lib.jit(lib.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=out))

calls = {
    "jit": lib.jit(lambda x: x * 2 + 1),
    "contraction": lib.jit(lambda x: x.T @ x),
    "shard_map": mapped(lambda x: x * 2 + 1, P("x")),
    "all_reduce": mapped(lambda x: lib.lax.psum(x.sum(0), "x"), P()),
    "device_put": lambda x: lib.device_put(value, rows),
}
for line in sys.stdin:
    name, count = line.split()
    f = calls[name]
    result = lib.block_until_ready(f(x))
    if count == "0":
        print(json.dumps(np.asarray(result).tolist()), flush=True)
        continue
    start = time.perf_counter()
    for _ in range(int(count)):
        lib.block_until_ready(f(x))
    print((time.perf_counter() - start) / int(count), flush=True)
"""

# Calls for one measurement, after one that is not counted.
_CALLS = 50


@functools.cache
def _process(module: str) -> subprocess.Popen[str]:
    counts = {f"{name}_NUM_CPU_DEVICES": str(DEVICES) for name in ("GNOMON", "JAX")}
    started = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **counts},
    )
    atexit.register(started.kill)
    return started


def _measured(framework: Framework, name: str, count: int) -> Any:
    process = _process(framework.name)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{name} {count}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"the process of {framework.name} has ended")
    return json.loads(answer)


def _setup(name: str, framework: Framework) -> Case:
    return Case(
        lambda: float(_measured(framework, name, _CALLS)),
        check=lambda: np.array(_measured(framework, name, 0), np.float32),
        keeps_time=True,
    )


_DOCS = {
    "jit": "jit(x * 2 + 1), f32[64, 8] with its rows over eight CPU devices; waits",
    "contraction": "jit(x.T @ x) of the same array, whose split dimension is summed over",
    "shard_map": "jit of a shard_map of x * 2 + 1",
    "all_reduce": "jit of a shard_map of psum(x.sum(0))",
    "device_put": "device_put of a NumPy array of that shape, to the eight devices",
}

WORKLOADS = tuple(
    Workload(f"sharded/{name}", doc, like_jax(functools.partial(_setup, name)))
    for name, doc in _DOCS.items()
)
