"""A cache of the traced programs of a jitted function: each signature is traced once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from gnomon._tracing.function import Traced
from gnomon._tracing.stack import state
from gnomon._tracing.trace import is_tracer
from gnomon.dialects.functions import Program

__all__ = ["TraceCache"]

# Programs per jitted function; one of a thousand ops takes about a megabyte.
_MAX_PROGRAMS = 64


def _is_nested() -> bool:
    """Whether the program of another jitted function is being traced.

    Of nested jitted functions only the outermost is cached: with a copy at each level, memory would
    be quadratic in the depth.
    """
    return state.staging is not None and state.staging.in_jit


class TraceCache:
    """Traced programs by signature.

    Each program has its own module, which is never changed: a trace that calls the function imports
    it, and the compiler gets a copy.

    Args:
      tiered: whether eager code evaluates the functions until they are compiled; if None, the
        configuration decides.
    """

    __slots__ = ("__weakref__", "_known", "_tiered")

    everywhere: ClassVar[weakref.WeakSet[TraceCache]] = weakref.WeakSet()

    def __init__(self, tiered: bool | None = None) -> None:
        self._tiered = tiered
        self._known: dict[Any, tuple[str, Traced]] = {}
        self.everywhere.add(self)

    def clear(self) -> None:
        """Forget all programs."""
        self._known.clear()

    def function(self, key: Any, trace: Callable[[], Traced]) -> tuple[str, Traced]:
        """The name of the traced function in its program, and the function as `Traced`.

        A function that cannot be cached is added to the program being traced.
        """
        cached = self._known.get(key)
        if cached is None:
            if _is_nested():
                traced = trace()  # `_trace` would only call it, from one more frame.
            else:
                traced, is_kept = self._trace(key, trace)
                if is_kept:
                    return self._known[key]
            name = traced.program.add(traced.name, traced.body)
            traced.program.staged[name] = self._tiered
            cached = name, traced
        return cached

    def copy(self, key: Any, trace: Callable[[], Traced]) -> Traced:
        """The traced function with a detached body, which the caller may change."""
        cached = self._known.get(key)
        if cached is None:
            return self._trace(key, trace)[0]
        name, traced = cached
        program = Program()
        body = program.import_body(traced.program, traced.program.body(name), {})
        return traced._replace(program=program, body=body)

    def _trace(self, key: Any, trace: Callable[[], Traced]) -> tuple[Traced, bool]:
        """Trace the function; return it and whether it was cached."""
        questions = state.platform_questions
        is_inner = _is_nested()
        traced = trace()
        if is_inner:
            return traced, False
        if state.platform_questions != questions or any(map(is_tracer, traced.captures)):
            # The program depends on the platform, or on values of other traces.
            return traced, False
        if len(self._known) >= _MAX_PROGRAMS:
            self._known.clear()
        program = Program()
        body = program.import_body(traced.program, traced.body, {})
        name = program.add(traced.name, body)
        program.staged[name] = self._tiered
        self._known[key] = name, traced._replace(program=program, body=program.body(name))
        return traced, True
