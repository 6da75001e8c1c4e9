"""Errors about traced values that rules of ops raise; the frontend defines the others."""

from __future__ import annotations

__all__ = ["GnomonTypeError", "NoDynamicForm", "UnexpectedTracerError"]


class GnomonTypeError(TypeError):
    """The base of gnomon's type errors."""


class NoDynamicForm(GnomonTypeError):  # noqa: N818 - a verdict of a lowering rule
    """An operation with symbolic dimensions has no form in StableHLO with sizes as operands."""


class UnexpectedTracerError(GnomonTypeError):
    """A traced value was used outside of the trace that it belongs to.

    In most cases the value escaped from a traced function through a side effect (a global, an
    attribute, a list, a cache): return it instead. Otherwise a function with a custom derivative
    rule closes over the value, and the rule does not give the derivative with respect to it: pass
    it as an argument.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
