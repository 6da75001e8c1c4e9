"""Errors about traced values that rules of ops raise, too; the others are the frontend's."""

from __future__ import annotations

__all__ = ["GnomonTypeError", "UnexpectedTracerError"]


class GnomonTypeError(TypeError):
    """The base of gnomon's type errors."""


class UnexpectedTracerError(GnomonTypeError):
    """A traced value was used where it does not belong.

    Mostly after the function that made it had been traced: it escaped through a side effect (a
    global, an attribute, a list, a cache). Return it instead. Or a function with a derivative rule
    of its own closes over it: the rule does not tell the derivative by it. Make it an argument.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
