"""Progress of compilations: listeners are called for each kernel that is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["listening", "report"]

Listener = Callable[[int, int], None]

_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a function with the number of kernels that are compiled, and of all, in the block.

    They are called for kernels of other threads' programs, too.

    Args:
      listener: is called in the threads that compile.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def report(done: int, total: int) -> None:
    """Tell the listeners how many of a program's kernels are compiled."""
    for listener in tuple(_listeners):
        listener(done, total)
