"""Tracebacks as users see them: without the frames of gnomon.

An exception keeps its whole traceback, so debuggers and `logging` see every frame. What prints the
exception leaves frames out:

- The hooks of Python for exceptions that nothing catches (`sys.excepthook`,
  `threading.excepthook`) and IPython print a copy of the traceback without them.
- pytest skips frames with a variable ``__tracebackhide__``, local or global. If that is a function,
  pytest calls it before it reports a failure. So does IPython skip those with a local one, if the
  option says ``"tracebackhide"``; but it always shows the last frame, which is gnomon's.

So no function is wrapped, and code that raises nothing pays nothing.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TypeGuard

from gnomon._config.current import config
from gnomon.backends.errors import CompilerStopped

__all__ = ["hide_frames", "install", "install_in_ipython"]

_PACKAGES = frozenset(("gnomon", "gnomon_runtime"))
# What gnomon calls, and calls gnomon or the user's functions in turn.
_LIBRARIES = frozenset(
    (
        "concurrent",
        "contextlib",
        "functools",
        "importlib",
        "iree",
        "ml_dtypes",
        "numpy",
        "opt_einsum",
        "optree",
        "torch_mlir",
    )
)
_HINT = "(Frames of gnomon are left out; GNOMON_TRACEBACK_FILTERING=off shows them.)"


def install() -> None:
    """Make Python, and IPython and pytest if they run, print errors without gnomon's frames."""
    _install_excepthook()
    _install_threading_excepthook()
    shell = _ipython_shell()
    if shell is not None:
        install_in_ipython(shell)
    if "_pytest" in sys.modules:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in _PACKAGES:
                vars(module)["__tracebackhide__"] = _is_hidden_by_pytest


def _is_hidden_by_pytest(raised: Any) -> bool:
    """Whether pytest hides a frame of gnomon in the traceback of an ``ExceptionInfo``."""
    if raised is not None:
        hide_frames(raised.value)  # frames of modules that were imported later, too
    return config.traceback_filtering != "off"


def hide_frames(error: BaseException) -> None:
    """Mark the frames of gnomon in the tracebacks of an error, for IPython and pytest."""
    if config.traceback_filtering == "off":
        return
    for each in _chain(error):
        for entry, hidden in _entries(each.__traceback__):
            if hidden:
                entry.tb_frame.f_locals["__tracebackhide__"] = True


# ------------------------------------------------------------------------------------------- frames


def _entries(traceback: TracebackType | None) -> Iterator[tuple[TracebackType, bool]]:
    """The entries of a traceback, and whether each is hidden.

    Hidden are the frames of gnomon, and those of libraries that hidden frames have called.
    """
    hidden = False
    while traceback is not None:
        package = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        hidden = package in _PACKAGES or (hidden and package in _LIBRARIES)
        yield traceback, hidden
        traceback = traceback.tb_next


def _without_hidden(traceback: TracebackType | None) -> TracebackType | None:
    """A copy of a traceback without hidden entries."""
    kept: TracebackType | None = None
    for entry, hidden in reversed(list(_entries(traceback))):
        if not hidden:
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _chain(error: BaseException) -> list[BaseException]:
    """An error, those that led to it, and those that it groups."""
    found: dict[int, BaseException] = {}
    waiting: list[Any] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in found:
            found[id(each)] = each
            waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
    return list(found.values())


@contextlib.contextmanager
def _filtered(error: BaseException) -> Iterator[bool]:
    """Leave the hidden frames out of the tracebacks of an error while a block prints it.

    Errors that gnomon caught before it raised this one, and that began in a hidden frame, are left
    out too, unless they are the cause that it names.

    Yields:
      whether anything was left out.
    """
    before = [(e, e.__traceback__, e.__suppress_context__) for e in _chain(error)]
    try:
        removed = False
        for each, traceback, _ in before:
            shown = _without_hidden(traceback)
            if shown is None and each is error:
                continue  # The program is gnomon's.
            removed = removed or any(hidden for _, hidden in _entries(traceback))
            each.__traceback__ = shown
        for each, _, _ in before:
            context = each.__context__
            if context is not None and context.__traceback__ is None:
                each.__suppress_context__ = True
        yield removed
    finally:
        for each, traceback, suppressed in before:
            each.__traceback__, each.__suppress_context__ = traceback, suppressed


def _leaves_out(error: BaseException | None) -> TypeGuard[Exception]:
    """Whether an error is printed without hidden frames; interrupts and exits are not errors."""
    return isinstance(error, Exception) and config.traceback_filtering in ("auto", "remove_frames")


# ------------------------------------------------------------------------------------------- hooks


def _install_excepthook() -> None:
    previous = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if not _leaves_out(error):
            previous(kind, error, traceback)
            return
        with _filtered(error) as removed:
            previous(kind, error, error.__traceback__)
        if removed:
            print(_HINT, file=sys.stderr)

    sys.excepthook = excepthook


def _install_threading_excepthook() -> None:
    previous = threading.excepthook

    def excepthook(raised: threading.ExceptHookArgs) -> None:
        error = raised.exc_value
        if isinstance(error, CompilerStopped):
            return  # A program ends silently, although daemon threads still compile.
        if not _leaves_out(error):
            previous(raised)
            return
        with _filtered(error) as removed:
            given = (raised.exc_type, error, error.__traceback__, raised.thread)
            previous(threading.ExceptHookArgs(given))
        if removed:
            print(_HINT, file=sys.stderr)

    threading.excepthook = excepthook


def _ipython_shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def install_in_ipython(shell: Any) -> None:
    """Make a shell of IPython print errors without the frames of gnomon."""
    previous = shell.showtraceback

    def showtraceback(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        error = (exc_tuple or sys.exc_info())[1]
        if not _leaves_out(error):
            if error is not None:
                hide_frames(error)
            previous(exc_tuple, *args, **options)
            return
        with _filtered(error) as removed:
            previous((type(error), error, error.__traceback__), *args, **options)
        if removed:
            print(_HINT)  # where IPython prints the traceback

    shell.showtraceback = showtraceback
