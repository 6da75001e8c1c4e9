"""A process that runs one program in one framework, and calls it on request.

It answers each line with a line of JSON. `measure` starts it; each framework has separate
processes, so the memory of a process is that of one framework.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import gnomon
from gnomon.tools.bench.frameworks import Framework, load_frameworks, use_platform
from gnomon.tools.bench.programs import PROGRAMS
from gnomon.tools.bench.programs.pytorch import load_port, numpy_arguments


def resident_memory(key: str = "VmRSS") -> int | None:
    """Bytes that this process holds (``VmRSS``) or held at most (``VmHWM``); None without /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(key)), None)


def _load(name: str) -> Framework:
    found, missing = load_frameworks([name])
    if missing:
        raise SystemExit(missing[name])
    if name == "jax" and "JAX_COMPILATION_CACHE_DIR" in os.environ:
        # By default JAX stores only programs that took a second to compile; here it stores all, as
        # gnomon does.
        config = found[0].module.config
        config.update("jax_persistent_cache_min_compile_time_secs", 0)
        config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return found[0]


def _seconds(framework: Framework, call: Any, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        framework.wait(call())
    return (time.perf_counter() - start) / times


def _answer(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def main(arguments: list[str], base: int | None) -> None:
    """Run the program of ``[program, framework, platform, file]`` until stdin ends.

    A line of stdin is a duration, the seconds that a turn should take, or ``memory``, which asks
    for the peak memory of the process, which on other platforms than the CPU says nothing and is
    None. The first answer has the time of the first call; the results go to
    ``file``, if it is given.

    Args:
      base: the memory that does not belong to the framework, in bytes.
    """
    name, framework_name, platform, *files = arguments
    program = next(p for p in PROGRAMS if p.name == name)
    arrays: Any = ()
    if framework_name == "torch":
        # gnomon makes the arguments, and starts on no other device for this.
        use_platform("cpu")
        arrays = numpy_arguments(program, _load("gnomon"))
    use_platform(platform)
    if framework_name != "gnomon":
        # The tools use gnomon, which must not count as memory of another framework.
        base = resident_memory()
    framework = _load(framework_name)
    if framework_name == "torch":
        function, given = load_port(program), gnomon.tree.map(framework.from_numpy, arrays)
    else:
        function, given = program.build(framework)
        function = framework.module.jit(function)
    framework.wait(given)

    def call() -> Any:
        return function(*given)

    start = time.perf_counter()
    result = framework.wait(call())
    first = time.perf_counter() - start
    for file in files:
        save_results(file, framework.arrays(result))
    del result
    _answer(first=first)
    for line in sys.stdin:
        if line.strip() == "memory":
            peak = resident_memory("VmHWM") if platform == "cpu" else None
            _answer(memory=None if peak is None or base is None else peak - base)
            continue
        once = _seconds(framework, call, 1)
        times = max(1, min(1000, round(float(line) / max(once, 1e-7))))
        _answer(seconds=statistics.median(_seconds(framework, call, times) for _ in range(2)))


def save_results(file: str, arrays: Sequence[np.ndarray]) -> None:
    """Write arrays to a file; NumPy's format lacks the dtypes of `ml_dtypes`, so they are named."""
    names = np.array([a.dtype.name for a in arrays])
    plain = [a.astype(np.float32) if a.dtype.kind == "V" else a for a in arrays]
    np.savez(file, names, *plain)


def load_results(file: str) -> list[np.ndarray]:
    """The arrays that `save_results` wrote."""
    with np.load(file) as loaded:
        names, *plain = loaded.values()
    return [a.astype(_dtype(str(name))) for name, a in zip(names, plain, strict=True)]


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


__all__ = ["load_results", "main", "resident_memory", "save_results"]
