"""`debug_nans` and `debug_infs` in eager code, which check what a function of gnomon returns.

Functions of gnomon use nan and infinity internally, as bounds and in branches that `where` does not
select. So when an op inside of such a function returns one, the error is only prepared; it is
raised if the function that the user called returns a nan or an infinity, too. A trace function on
the frame of this call reports the return. Code without nan never gets here.
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
      error: the error, which names the first op whose result is invalid.
      is_invalid: whether the returned value is invalid. If not, nothing is raised.
    """
    frame: FrameType | None = sys._getframe(1)
    called: FrameType | None = None
    while frame is not None and is_internal(frame.f_code.co_filename):
        called, frame = frame, frame.f_back
    if called is None:
        raise error
    outer = called.f_trace
    if getattr(outer, "watches_return", False):
        return  # An earlier op has prepared its error already.
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
        # Python calls the trace functions of frames only while the thread has one, too.
        sys.settrace(_ignored)


def _ignored(frame: FrameType, event: str, value: Any) -> None:
    """A trace function that does nothing."""
