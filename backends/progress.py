"""Progress of compilations: listeners are called for each kernel that is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["listening", "report"]

Listener = Callable[[int, int], None]

_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the block, call ``listener(done, total)`` as the kernels of a program are compiled.

    It is called for programs of other threads, too.

    Args:
      listener: takes the number of the program's kernels that are compiled, and the number of all
        its kernels; called in the threads that compile.
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
