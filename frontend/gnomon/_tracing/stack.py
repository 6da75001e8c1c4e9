"""The traces in progress on a thread, and what is known of the program being traced."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gnomon._config.current import Config, config
from gnomon._native import count_staging
from gnomon._sharding.device import default_device
from gnomon._tracing.on_device import place_of
from gnomon._tracing.trace import Trace, Tracer


class NamedAxis:
    """A binding of a named axis.

    Attributes:
      name, size: the name and the size of the axis.
      trace: the trace of the `vmap` or `shard_map` that maps the axis.
      checked: whether types say which values vary over it: `shard_map` with ``check_vma``.
      anchor: a value of ``trace``, made when it is first needed.
    """

    __slots__ = ("anchor", "checked", "name", "size", "trace")

    def __init__(self, name: str, size: int, trace: Trace, checked: bool) -> None:
        self.name, self.size, self.trace, self.checked = name, size, trace, checked
        self.anchor: Any = None


class _State(threading.local):
    """The traces of a thread, outermost first, and the innermost one that stages."""

    def __init__(self) -> None:
        self.stack: list[Trace] = []
        self.staging: Trace | None = None
        # The level of the innermost trace that `outside_of_traces` hides.
        self.hidden_level = 0
        self.axes: list[NamedAxis] = []
        self.spent = 0
        self.platform: tuple[str, list[None]] | None = None
        # How many times code asked for the platform; a trace in which it asked depends on it.
        self.platform_questions = 0


state = _State()


def staging() -> bool:
    """Whether a trace takes all ops, as in `jit` and in loop bodies; see `Trace`."""
    return state.staging is not None


def needs_bind() -> bool:
    """Whether ops must go through `bind` even when all operands are concrete.

    They must where a trace takes all ops, and where an option checks operands or results. Functions
    that call NumPy directly ask this; what a program does may only depend on `staging`.
    """
    return state.staging is not None or (Config.operands_somewhere and config.checks_operands)


def tracing_depth() -> int:
    """The number of traces in progress on this thread."""
    return len(state.stack)


def innermost_trace() -> Trace | None:
    """The innermost trace in progress, which is the parent of a new one; None without one."""
    return state.stack[-1] if state.stack else None


def innermost_level() -> int:
    """The level of the innermost trace on this thread, hidden ones included; 0 without one.

    The levels of new traces are above it. So an op on values of a new trace and of a hidden one,
    which the traced function closes over, goes to the new trace.
    """
    return state.stack[-1].level if state.stack else state.hidden_level


def traces_between(outer: int, inner: int) -> list[Trace]:
    """The active traces whose levels are above ``outer`` and at most ``inner``."""
    return [trace for trace in state.stack if outer < trace.level <= inner]


def program_memo() -> dict[Any, Any]:
    """A dictionary that lives as long as the program being traced."""
    return state.stack[-1].memo


@contextmanager
def active(trace: Trace) -> Iterator[Trace]:
    """Make a trace the innermost one."""
    outer = state.staging
    state.stack.append(trace)
    stages = trace.staging
    if stages:
        state.staging = trace
        count_staging(1)
    try:
        yield trace
    finally:
        state.stack.pop()
        state.staging = outer
        if stages:
            count_staging(-1)
        trace.finished = True


@contextmanager
def outside_of_traces() -> Iterator[None]:
    """Run code outside of all traces of this thread: its ops on concrete arrays are evaluated."""
    stack, outer, spent, hidden = state.stack, state.staging, state.spent, state.hidden_level
    state.hidden_level = innermost_level()
    state.stack, state.staging, state.spent = [], None, 0
    try:
        yield
    finally:
        state.stack, state.staging, state.spent = stack, outer, spent
        state.hidden_level = hidden


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """A context manager in which ops on concrete values are evaluated while a function is traced.

    Ops with a traced operand are still traced.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> @gn.jit
      ... def f(x):
      ...     with gn.ensure_compile_time_eval():
      ...         small = bool(gnp.sum(gnp.arange(3)) < 4)  # known, and good for Python's if
      ...     return x if small else -x
      >>> int(f(1))
      1
    """
    # The traces stay active: functions that are transformed inside may close over their values.
    outer, state.staging = state.staging, None
    try:
        yield
    finally:
        state.staging = outer


# --------------------------------------------------------------------------------------- platforms


@contextmanager
def program_platform(platform: str) -> Iterator[list[None]]:
    """Trace a program for a platform.

    Yields:
      A list that gets an element each time that the traced code asks for the platform.
    """
    before = state.platform
    queries: list[None] = []
    state.platform = platform, queries
    try:
        yield queries
    finally:
        state.platform = before


def platform_of(operands: Sequence[Any], what: str) -> str:
    """The platform that the program being traced is for, or that eager code on arrays runs on."""
    state.platform_questions += 1
    # Inside of `ensure_compile_time_eval`, the program does not have the ops on concrete operands.
    in_program = state.staging is not None or any(type(x) is Tracer for x in operands)
    if state.platform is not None and state.stack and in_program:
        platform, queries = state.platform
        queries.append(None)
        return platform
    place = place_of(operands, what)
    return (default_device() if place is None else place[0]).platform


# -------------------------------------------------------------------------------------- named axes


@contextmanager
def named_axis(name: str, size: int) -> Iterator[None]:
    """Bind an axis name inside of a mapped function, whose trace is the innermost one."""
    with named_axes({name: size}, checked=False):
        yield


@contextmanager
def named_axes(sizes: Mapping[str, int], *, checked: bool) -> Iterator[None]:
    """Bind axis names inside of a mapped function, whose trace is the innermost one."""
    count = len(state.axes)
    state.axes += [NamedAxis(name, n, state.stack[-1], checked) for name, n in sizes.items()]
    try:
        yield
    finally:
        del state.axes[count:]


def innermost_axis(names: Sequence[str]) -> NamedAxis:
    """The innermost binding of some names.

    Raises:
      NameError: none of them is bound.
    """
    for axis in reversed(state.axes):
        if axis.name in names:
            return axis
    bound = ", ".join(sorted({a.name for a in state.axes})) or "none"
    raise NameError(
        f"unbound axis name: {names[0]!r} (bound here: {bound}). Collectives take a name that an "
        "enclosing shard_map, pmap or vmap(..., axis_name=...) binds"
    )


def encloses(outer: Trace, inner: Trace) -> bool:
    """Whether one trace encloses another; both are in progress."""
    return outer.level < inner.level
