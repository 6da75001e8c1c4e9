"""The time to the first result of a jitted function, with nothing compiled before.

    python -m gnomon.tools.bench.first_result

Each time is measured in a new process with an empty cache, from the first call to its result. It
includes tracing, compilation and the start of the compiler, but not imports and the creation of
arrays. The processes of the frameworks alternate.

    python -m gnomon.tools.bench.first_result --edits

measures the GPT's training step instead, in processes that find its executable, or some of its
kernels, in gnomon's cache: after a change of one layer, with another batch size, and unchanged.
JAX's cache is off, as by default.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from gnomon.tools.bench import programs
from gnomon.tools.bench.frameworks import Framework, load_frameworks
from gnomon.tools.bench.programs.transformers import gpt_step
from gnomon.tools.bench.workloads.training import WIDE, batch, network, step_function

VARIANTS = ("gnomon", "gnomon tiered", "jax")


def _mlp(framework: Framework) -> tuple[Any, tuple[Any, ...]]:
    params = [(framework.from_numpy(w), framework.from_numpy(b)) for w, b in network(WIDE)]
    x, y = map(framework.from_numpy, batch(WIDE))
    return step_function(framework), (params, x, y)


PROGRAMS: dict[str, Callable[[Framework], tuple[Any, tuple[Any, ...]]]] = {
    "MLP training step": _mlp,
    "GPT training step": gpt_step,
    "convolution": next(p.build for p in programs.PROGRAMS if p.name == "image/convolution"),
}
# The GPT's step after a change, when another process has compiled the original.
EDITS: dict[str, Callable[[Framework], tuple[Any, tuple[Any, ...]]]] = {
    "one layer changed": functools.partial(gpt_step, changed_layer=True),
    "another batch size": functools.partial(gpt_step, batch=12),
    "a new process": gpt_step,
}


def measure(program: str, variant: str) -> float:
    """The seconds of the first call, measured in this process."""
    name, _, tiered = variant.partition(" ")
    ((framework,), _) = load_frameworks([name])
    function, arguments = (PROGRAMS | EDITS)[program](framework)
    options = {"tiered": True} if tiered else {}
    jitted = framework.module.jit(function, **options)
    framework.wait(arguments)
    start = time.perf_counter()
    framework.wait(jitted(*arguments))
    return time.perf_counter() - start


def _in_new_process(program: str, variant: str, cached: str | None = None) -> float:
    """The seconds of the first call in a new process.

    Args:
      cached: a folder with the initial contents of gnomon's cache; by default it is empty.
    """
    with tempfile.TemporaryDirectory() as folder:
        if cached is not None:
            shutil.copytree(cached, folder, dirs_exist_ok=True)
        return _in_folder(program, variant, folder)


def _in_folder(program: str, variant: str, folder: str) -> float:
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, "--program", program, "--variant", variant],
        env={**os.environ, "GNOMON_CACHE_DIR": folder},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout.split()[-1])


def _print_edits(rounds: int) -> None:
    print("| GPT training step | gnomon | jax, cold | gnomon / jax |")
    print("|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as cached:
        _in_folder("GPT training step", "gnomon", cached)
        for edit in EDITS:
            pairs = [
                (_in_new_process(edit, "gnomon", cached), _in_new_process(edit, "jax"))
                for _ in range(rounds)
            ]
            ours, theirs = map(statistics.median, zip(*pairs, strict=True))
            print(f"| {edit} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} |", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Print the table or, with ``--program`` and ``--variant``, one time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes per program and variant")
    parser.add_argument("--program", choices=[*PROGRAMS, *EDITS])
    parser.add_argument("--variant", choices=VARIANTS)
    parser.add_argument("--edits", action="store_true", help="time the compilation after a change")
    given = parser.parse_args(arguments)
    if given.program and given.variant:
        print(measure(given.program, given.variant))
        return
    load = os.getloadavg()[0]
    print(f"seconds to the first result, medians of {given.rounds}; load {load:.1f} at the start")
    if given.edits:
        _print_edits(given.rounds)
        return
    print("| program | " + " | ".join(VARIANTS) + " | tiered / jax |")
    print("|---|" + "---:|" * (len(VARIANTS) + 1))
    for program in [given.program] if given.program else PROGRAMS:
        times: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for _ in range(given.rounds):
            for variant in VARIANTS:
                times[variant].append(_in_new_process(program, variant))
        medians = [statistics.median(times[variant]) for variant in VARIANTS]
        cells = [f"{median:.2f}" for median in medians] + [f"{medians[1] / medians[2]:.2f}"]
        print(f"| {program} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
