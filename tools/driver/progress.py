"""The progress of long work, shown only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gnomon.backends.progress import listening

__all__ = ["progress"]


@contextmanager
def progress(what: str, done: int = 0, total: int = 1) -> Iterator[None]:
    """Show a description and the elapsed time while the block runs.

    Args:
      what: the description.
      done, total: the number of steps before this one, and of all steps.
    """
    if not sys.stderr.isatty():
        yield
        return
    count = f"[{done + 1}/{total}] " if total > 1 else ""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(f"{count}{what}", total=None)

        def report(kernel: int, kernels: int) -> None:
            shown.update(task, description=f"{count}{what}: kernel {kernel} of {kernels}")

        with listening(report):
            yield
