"""Print how much slower programs run without the legalizations that make them fast.

python -m tests.tools.slow_programs

The programs are the reproducers of `tests/backends/iree/legalize/reproducers.py` that measure the
time of a call. Each is called with and without its legalization, in turns; the best times count.
Where the ratio falls below the declared factor, the compiler may no longer need the legalization.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.legalize.legalization import without
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.backends.iree.legalize.reproducers import REPRODUCERS, Measure, Reproducer

CALLS = 50


def _callee(one: Reproducer, backend: IreeBackend) -> Callable[[], None]:
    ensure_context()
    text, arguments = one.lowered()
    executable = backend.compile(backend.lower(Program(ir.Module.parse(text))))
    given = [np.asarray(x) for x in arguments]

    def call() -> None:
        for result in executable(given):
            result.to_numpy()

    return call


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compared(name: str) -> tuple[float, float]:
    """The shortest times of a call of a reproducer, with its legalization and without."""
    one = REPRODUCERS[name]
    with_it = _callee(one, IreeBackend(one.target, without(LEGALIZATIONS, *one.beside)))
    without_it = _callee(one, IreeBackend(one.target, without(LEGALIZATIONS, name, *one.beside)))
    times = [(_seconds(with_it), _seconds(without_it)) for _ in range(CALLS)]
    return min(a for a, _ in times), min(b for _, b in times)


def main() -> None:
    print(f"{'legalization':<20} {'with':>10} {'without':>10}  ratio  expected")
    for name, one in REPRODUCERS.items():
        if one.measure is Measure.SECONDS:
            fast, slow = compared(name)
            print(
                f"{name:<20} {fast * 1e3:>7.2f} ms {slow * 1e3:>7.2f} ms"
                f"  {slow / fast:>5.1f}  {one.factor:g}"
            )


if __name__ == "__main__":
    main()
