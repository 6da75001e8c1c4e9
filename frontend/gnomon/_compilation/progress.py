"""Progress messages of slow compilations, for the option ``gnomon_explain_compiles``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gnomon.backends.progress import listening

__all__ = ["explained"]


@contextmanager
def explained(name: str) -> Iterator[None]:
    """While in the context, write the number of compiled kernels and the time to standard error.

    A terminal shows one line that is rewritten; otherwise each step is a separate line.

    Args:
      name: the name of the function.
    """
    start, terminal = time.perf_counter(), sys.stderr.isatty()

    def write(text: str, end: str) -> None:
        # The line is cleared first: the previous text may have been longer.
        line = f"\r\x1b[K{text}" if terminal else f"{text}\n"
        print(line, end=end if terminal else "", file=sys.stderr, flush=True)

    def report(done: int, total: int) -> None:
        seconds = time.perf_counter() - start
        write(f"compiling {name}: {done} of {total} kernels after {seconds:.1f} s", "")

    write(f"compiling {name}", "")
    outcome = "gave up compiling"
    try:
        with listening(report):
            yield
        outcome = "compiled"
    finally:
        write(f"{outcome} {name} after {time.perf_counter() - start:.1f} s", "\n")
