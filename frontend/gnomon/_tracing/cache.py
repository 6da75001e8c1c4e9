"""The programs of a jitted function as they were traced, so that it is traced once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from gnomon._tracing.function import Traced
from gnomon._tracing.stack import state
from gnomon._tracing.trace import is_tracer
from gnomon.dialects.functions import Program

__all__ = ["TraceCache"]

# Of one function; a program of a thousand ops is about a megabyte.
_MOST = 64


class TraceCache:
    """Traced programs by signature.

    Each lies in a module of its own, which nothing changes: a trace that calls the function imports
    it, and what is compiled is a copy.

    Args:
      tiered: whether eager code evaluates the functions until they are compiled; None: as the
        configuration says.
    """

    __slots__ = ("__weakref__", "_known", "_tiered")

    everywhere: ClassVar[weakref.WeakSet[TraceCache]] = weakref.WeakSet()

    def __init__(self, tiered: bool | None = None) -> None:
        self._tiered = tiered
        self._known: dict[Any, tuple[str, Traced]] = {}
        self.everywhere.add(self)

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()

    def function(self, key: Any, trace: Callable[[], Traced]) -> tuple[str, Traced]:
        """The function of a program, by its name there, and what is known of it.

        Where it cannot be kept, it is in the program being traced.
        """
        known = self._known.get(key)
        if known is None:
            traced, is_kept = self._trace(key, trace)
            if is_kept:
                return self._known[key]
            name = traced.program.add(traced.name, traced.body)
            traced.program.staged[name] = self._tiered
            known = name, traced
        return known

    def copy(self, key: Any, trace: Callable[[], Traced]) -> Traced:
        """The function as a detached body, for the caller to change."""
        known = self._known.get(key)
        if known is None:
            return self._trace(key, trace)[0]
        name, traced = known
        program = Program()
        body = program.import_body(traced.program, traced.program.body(name), {})
        return traced._replace(program=program, body=body)

    def _trace(self, key: Any, trace: Callable[[], Traced]) -> tuple[Traced, bool]:
        """The function, traced now, and whether it is kept."""
        questions = state.platform_questions
        # Of jitted functions that call each other the outermost is kept: a copy at each level would
        # be the square of their number.
        is_inner = state.staging is not None
        traced = trace()
        if is_inner:
            return traced, False
        if state.platform_questions != questions or any(map(is_tracer, traced.captures)):
            # It depends on where it is traced: on the platform, or on values of other traces.
            return traced, False
        if len(self._known) >= _MOST:
            self._known.clear()
        program = Program()
        body = program.import_body(traced.program, traced.body, {})
        name = program.add(traced.name, body)
        program.staged[name] = self._tiered
        self._known[key] = name, traced._replace(program=program, body=program.body(name))
        return traced, True
