"""The commands ``gnomon`` and ``gnomon-opt``, which Ctrl-C ends quietly while gnomon is imported.

This is a package of its own, since the import of any part of gnomon takes most of a second, in
which the commands could not handle an interrupt themselves.
"""

from __future__ import annotations

import importlib
import os
import signal

__all__ = ["gnomon", "gnomon_opt"]

_INTERRUPTED = 130  # the status that shells report for SIGINT


def gnomon() -> int:
    """Run the command ``gnomon``; return its exit status."""
    return _run("gnomon.tools.driver")


def gnomon_opt() -> int:
    """Run the command ``gnomon-opt``; return its exit status."""
    return _run("gnomon.tools.opt")


def _run(module: str) -> int:
    try:
        handler = signal.getsignal(signal.SIGINT)
        if handler is signal.default_int_handler:
            # An exception would not always end an import: some modules catch it, or replace it.
            signal.signal(signal.SIGINT, lambda number, frame: os._exit(_INTERRUPTED))
        main = importlib.import_module(module).main
        if handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, handler)
        return int(main())
    except KeyboardInterrupt:
        return _INTERRUPTED
