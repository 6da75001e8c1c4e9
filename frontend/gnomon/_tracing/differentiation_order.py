"""How many more times the code being traced may be differentiated.

The rules of a custom derivative are traced to that depth. They are traced at the call, where
Python's control flow can ask for values, once for each differentiation around the call. A rule
itself is traced with one differentiation fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gnomon._tracing.bind import trace_for
from gnomon._tracing.stack import state, traces_between
from gnomon._tracing.trace import Tracer

__all__ = [
    "LATER",
    "derivative_rule",
    "differentiated",
    "differentiation_order",
    "may_have_tangent",
    "replaced_by_rule",
]


# The number of times that a function traced now may be differentiated where it is called later.
LATER = 2


def differentiation_order(operands: Sequence[Any] | None = None) -> int:
    """The number of times that an op on the operands (default: on any) may be differentiated."""
    stack = state.stack
    if operands is not None and (trace := trace_for(operands)) is not state.staging:
        stack = traces_between(0, trace.level) if trace else []
    return max(sum(t.differentiates for t in stack) - state.spent, 0)


def may_have_tangent(operand: Any, above: int = 0) -> bool:
    """Whether a value may depend on the inputs of a differentiation in progress.

    Differentiations up to the level ``above`` do not count.
    """
    if type(operand) is not Tracer:
        return False
    return any(t.differentiates for t in traces_between(above, operand._trace.level))


@contextmanager
def derivative_rule() -> Iterator[None]:
    """Trace a rule, with one differentiation fewer around its ops."""
    state.spent += 1
    try:
        yield
    finally:
        state.spent -= 1


@contextmanager
def differentiated(order: int) -> Iterator[None]:
    """Trace code that may be differentiated ``order`` more times than by the traces around it."""
    state.spent -= order
    try:
        yield
    finally:
        state.spent += order


@contextmanager
def replaced_by_rule() -> Iterator[None]:
    """Trace a function that has a rule: its own ops are never differentiated."""
    outer, state.spent = state.spent, sum(t.differentiates for t in state.stack)
    try:
        yield
    finally:
        state.spent = outer
