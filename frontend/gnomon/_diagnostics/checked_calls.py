"""`debug_nans` and `debug_infs` in eager code: they check what a call of gnomon returns.

Functions of gnomon compute with nan and infinity on their way, in branches that `where` does not
take and as bounds. So an op that gives one inside of a function is only noted, and the error raised
if the function that the user called returns one. Python tells when that is: the frame of a call can
be asked to report its return. Code without nan never gets here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from gnomon._diagnostics.source_location import is_internal

__all__ = ["raise_on_return"]


def raise_on_return(error: Exception, is_invalid: Callable[[Any], bool]) -> None:
    """Raise an error when the function of gnomon that the user called returns.

    Args:
      error: about the first op whose result is invalid.
      is_invalid: whether a returned value is. If it is not, nothing is raised.
    """
    frame: FrameType | None = sys._getframe(1)
    called: FrameType | None = None
    while frame is not None and is_internal(frame.f_code.co_filename):
        called, frame = frame, frame.f_back
    if called is None:
        raise error
    outer = called.f_trace
    if getattr(outer, "watches_return", False):
        return  # An earlier op is noted already.
    previous = sys.gettrace()

    def watch(frame: FrameType, event: str, value: Any) -> Any:
        if outer is not None:
            outer(frame, event, value)
        if event == "return":
            frame.f_trace = outer
            if previous is None:
                sys.settrace(None)
            if is_invalid(value):
                raise error
        return watch

    watch.watches_return = True  # type: ignore[attr-defined]
    called.f_trace = watch
    if previous is None:
        # Python reports of a frame only while there is something to report to.
        sys.settrace(_ignored)


def _ignored(frame: FrameType, event: str, value: Any) -> None:
    """Trace no further calls."""
