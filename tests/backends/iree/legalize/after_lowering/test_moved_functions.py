"""Functions of rearranged operands: derivatives of softmax, and each kind of function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.tolerance import assert_near

X = np.float32([0.5, -1.25, 2.0])


@pytest.mark.parametrize("axis", [0, -1])
def test_second_derivatives_of_softmax(axis: int) -> None:
    def f(x: Any) -> Any:
        return (gn.nn.softmax(x, axis=axis) * gnp.arange(3.0)).sum()

    hessian = gn.hessian(f)
    assert_near(gn.jit(hessian)(X), hessian(X), units=32.0, scale=1.0)
    both = gn.jit(gn.jacrev(gn.jacrev(f)))(X)
    assert_near(both, hessian(X), units=32.0, scale=1.0)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "abs": gnp.abs,
    "convert": lambda x: x.astype(np.int32),
    "isfinite": gnp.isfinite,
    "sqrt": lambda x: gnp.sqrt(gnp.abs(x)),
    "real": lambda x: gnp.real(x + 1j * x),
    "not": lambda x: ~(x > 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_rearranged_operands(name: str) -> None:
    f = FUNCTIONS[name]

    def program(x: Any) -> Any:
        column = x.sum(1)[:, None]
        square = gnp.broadcast_to(column, (3, 3))
        return f(column), f(square), square, f(square.T), f(x.T)[None], column

    x = np.outer(X, X) + 1
    for found, expected in zip(gn.jit(program)(x), program(x), strict=True):
        assert_near(found, expected, units=8.0)
