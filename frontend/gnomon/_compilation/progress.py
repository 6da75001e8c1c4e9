"""How far a slow compilation is, under ``gnomon_explain_compiles``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gnomon.backends.progress import listening

__all__ = ["explained"]


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Write to standard error which kernel is being compiled, and for how long, in the block.

    A terminal shows one line that changes; elsewhere each step is a line.

    Args:
      name: the function's.
    """
    start, terminal = time.perf_counter(), sys.stderr.isatty()

    def write(text: str, end: str) -> None:
        # The rest of the line is cleared: the one before may have been longer.
        line = f"\r\x1b[K{text}" if terminal else f"{text}\n"
        print(line, end=end if terminal else "", file=sys.stderr, flush=True)

    def tell(done: int, total: int) -> None:
        seconds = time.perf_counter() - start
        write(f"compiling {name}: {done} of {total} kernels after {seconds:.1f} s", "")

    write(f"compiling {name}", "")
    outcome = "gave up compiling"
    try:
        with listening(tell):
            yield
        outcome = "compiled"
    finally:
        write(f"{outcome} {name} after {time.perf_counter() - start:.1f} s", "\n")
