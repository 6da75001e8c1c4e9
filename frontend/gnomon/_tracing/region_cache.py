"""A cache of the functions that eager loops and branches trace.

`lax.scan(f, ...)` and similar functions trace `f`. Outside of all traces, the trace is kept,
together with the bodies that are prepared for evaluation. Another call uses it if its functions
have the same code and refer to the same values (`closures`), and its arguments have the same types.
JAX keeps traces by the identity of the function, and ignores later changes of the values that it
closes over; here, a change makes a new trace.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from gnomon._arrays.array import Array
from gnomon._config.current import config
from gnomon._tracing.closures import Closure, closure_of
from gnomon._tracing.differentiation_order import differentiation_order
from gnomon._tracing.stack import innermost_trace, state
from gnomon.dialects.body import Body

if TYPE_CHECKING:
    from gnomon._tracing.function import Traced

__all__ = ["Regions", "clear", "traced_regions"]

# The number of entries, each with a program; one of a thousand ops takes about a megabyte.
_MAX_ENTRIES = 64
# The most memory in bytes of those arrays of an entry to which no function refers.
_MAX_OWN_BYTES = 1 << 20

_entries: OrderedDict[Hashable, Regions] = OrderedDict()
_lock = threading.Lock()


class Regions:
    """The traced functions of a loop or branch.

    Attributes:
      traced: the functions.
      is_kept: whether other calls use them too, so that bodies must not be changed.
    """

    __slots__ = ("_bodies", "_captures", "_runs", "_traced", "is_kept")

    def __init__(self, traced: Sequence[Traced]) -> None:
        self._traced = list(traced)
        self._captures: list[list[Callable[[], Array | None]]] | None = None
        self._bodies: list[Body] | None = None
        # The prepared bodies, if no call uses them: at most one list, which `pop` gives to only one
        # of several threads.
        self._runs: list[list[Any]] = []
        self.is_kept = False

    @property
    def traced(self) -> list[Traced]:
        """The functions, with their captures; empty if a captured array no longer exists."""
        if self._captures is None:
            return self._traced
        functions = []
        for traced, references in zip(self._traced, self._captures, strict=True):
            captures = [array for reference in references if (array := reference()) is not None]
            if len(captures) != len(references):
                return []
            functions.append(traced._replace(captures=captures))
        return functions

    def bodies(self, make: Callable[[], list[Body]]) -> list[Body]:
        """The bodies for the op; ``make`` makes them of the traced functions."""
        if self._bodies is None:
            self._bodies = make()
        return self._bodies

    def take_runs(self) -> list[Any] | None:
        """The prepared bodies, unless another call uses them."""
        try:
            return self._runs.pop()
        except IndexError:
            return None

    def give_back(self, runs: list[Any]) -> None:
        """Put prepared bodies back when the call is over."""
        if self.is_kept:
            self._runs[:] = [runs]

    def keep_for(self, closure: Closure) -> bool:
        """Prepare for the cache: make references to the functions' arrays weak."""
        theirs = {id(array) for array in closure.arrays}
        captures = [capture for traced in self._traced for capture in traced.captures]
        own = [capture for capture in captures if id(capture) not in theirs]
        if sum(capture.nbytes for capture in own) > _MAX_OWN_BYTES:
            return False
        self._captures = [
            [
                weakref.ref(capture) if id(capture) in theirs else _holding(capture)
                for capture in traced.captures
            ]
            for traced in self._traced
        ]
        self._traced = [traced._replace(captures=[]) for traced in self._traced]
        self.is_kept = True
        return True


def _is_hashable(key: Hashable) -> bool:
    """Whether a key can be looked up: static data of a tree may be a list or a dictionary."""
    try:
        hash(key)
    except TypeError:
        return False
    return True


def _holding(array: Array) -> Callable[[], Array]:
    """A reference that keeps the array alive."""
    return lambda: array


def traced_regions(
    what: str,
    functions: Sequence[Callable[..., Any]],
    key: Hashable,
    trace: Callable[[], Sequence[Traced]],
) -> tuple[Regions, list[Traced]]:
    """The traced functions of a loop or branch, from the cache if it has them.

    Args:
      what: the loop or branch.
      functions: the user's functions.
      key: everything else that the trace depends on: the types and the structure of the arguments.
      trace: traces the functions.
    """
    closure = None
    if (
        _is_hashable(key)
        and innermost_trace() is None
        and not config.check_tracer_leaks
        # An error of a value check names the line of this call.
        and not config.checks_values
    ):
        closure = closure_of(functions)
    if closure is None:
        regions = Regions(trace())
        return regions, regions.traced
    full_key = (what, closure.key, key, config.token, differentiation_order())
    with _lock:
        entry = _entries.get(full_key)
        if entry is not None:
            _entries.move_to_end(full_key)
    if entry is not None and (traced := entry.traced):
        return entry, traced
    questions = state.platform_questions
    regions = Regions(trace())
    traced = regions.traced
    # A callback may hold any object, which must not outlive the program.
    depends_on_more = state.platform_questions != questions or any(
        t.program.callbacks for t in traced
    )
    if not depends_on_more and regions.keep_for(closure):
        with _lock:
            _entries[full_key] = regions
            while len(_entries) > _MAX_ENTRIES:
                _entries.popitem(last=False)
    return regions, traced


def clear() -> None:
    """Forget everything."""
    with _lock:
        _entries.clear()
