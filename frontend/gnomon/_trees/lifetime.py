"""Import optree so that its registry lives until all exit handlers have run.

optree clears its registry, which knows even tuples and dictionaries, in an exit handler. Exit
handlers run in reverse order of their registration, so without this module a handler that was
registered before the import of optree could not use trees.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import Any

__all__: list[str] = []


class _ExitHandlers:
    """Equals the exit handlers of pybind11's modules that it does not contain, and collects them.

    `atexit.unregister` compares its argument with each handler.
    """

    def __init__(self, others: _ExitHandlers | None = None) -> None:
        self.functions: list[Callable[[], object]] = []
        self._others = others

    def __call__(self) -> None:
        """Do nothing: only functions can be exit handlers."""

    def __eq__(self, handler: object) -> bool:
        # The functions have no names. Their arguments lie in an object whose type has one.
        record = type(getattr(handler, "__self__", None)).__name__
        if not record.startswith("pybind11_detail_function_record"):
            return False
        if self._others is not None and any(handler is known for known in self._others.functions):
            return False
        function: Any = handler
        self.functions.append(function)
        return self._others is not None

    __hash__ = None  # type: ignore[assignment]


class _CallsAtTheEnd:
    """Calls functions when the interpreter clears the modules, after all exit handlers."""

    def __init__(self, functions: list[Callable[[], object]]) -> None:
        self._functions = functions

    def __del__(self) -> None:
        for function in reversed(self._functions):
            function()


def _import_optree() -> _CallsAtTheEnd | None:
    if "optree" in sys.modules:
        # It keeps its place among the handlers: before those that precede its import.
        return None
    before = _ExitHandlers()
    atexit.unregister(before)
    import optree  # noqa: F401, PLC0415

    added = _ExitHandlers(before)
    atexit.unregister(added)
    return _CallsAtTheEnd(added.functions)


_clears_registry = _import_optree()
