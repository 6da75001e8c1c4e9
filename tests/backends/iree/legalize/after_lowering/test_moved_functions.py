"""Functions of rearranged operands: derivatives of softmax, and each kind of function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from tests.backends.iree.joined import Call, check_joined
from tests.tolerance import assert_near

X = np.float32([0.5, -1.25, 2.0])


def test_second_derivatives_of_softmax() -> None:
    def f(axis: int) -> Callable[[Any], Any]:
        return lambda x: (gn.nn.softmax(x, axis=axis) * gnp.arange(3.0)).sum()

    def program(given: list[Any]) -> list[Any]:
        return [
            (gn.hessian(f(axis))(x), gn.jacrev(gn.jacrev(f(axis)))(y))
            for axis, (x, y) in zip((0, -1), given, strict=True)
        ]

    for axis, pair in zip((0, -1), gn.jit(program)([(X, X), (X, X)]), strict=True):
        expected = gn.hessian(f(axis))(X)
        for found, of in zip(pair, ("hessian", "jacrev of jacrev"), strict=True):
            assert_near(found, expected, units=32.0, scale=1.0, message=f"{of}, axis {axis}")


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "abs": gnp.abs,
    "convert": lambda x: x.astype(np.int32),
    "isfinite": gnp.isfinite,
    "sqrt": lambda x: gnp.sqrt(gnp.abs(x)),
    "real": lambda x: gnp.real(x + 1j * x),
    "not": lambda x: ~(x > 0),
}


def test_functions_of_rearranged_operands() -> None:
    def uses(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def program(x: Any) -> Any:
            column = x.sum(1)[:, None]
            square = gnp.broadcast_to(column, (3, 3))
            return f(column), f(square), square, f(square.T), f(x.T)[None], column

        return program

    x = np.outer(X, X) + 1
    calls: dict[str, Call] = {name: (uses(f), (x,)) for name, f in FUNCTIONS.items()}
    check_joined(calls, lambda found, expected: assert_near(found, expected, units=8.0))
