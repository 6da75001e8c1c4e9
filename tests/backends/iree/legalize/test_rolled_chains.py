"""Repeated steps that are rolled into loops: their values, and which steps qualify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import tree_util
from gnomon.backends.iree.legalize.control.rolled_chains import LEAST_STEPS

RNG = np.random.default_rng(0)
W = (0.2 * RNG.normal(size=(16, 16))).astype(np.float32)
X, Y = RNG.normal(size=(2, 16)).astype(np.float32)


def chain(steps: int) -> Callable[..., Any]:
    def run(w: Any, x: Any, y: Any) -> Any:
        for _ in range(steps):
            x = gnp.tanh(w @ x) + 0.1 * y
        return x

    return run


def exchanged(w: Any, x: Any, y: Any) -> Any:
    """Two values that trade places, between other ops."""
    x = x * 2
    for _ in range(11):
        x, y = gnp.sin(w @ y), gnp.cos(x) - x.sum() * 0.1
    return x * y, y


def from_one(w: Any, x: Any, y: Any) -> Any:
    """Two values that are the same value before the first step."""
    a = b = x
    for _ in range(10):
        a, b = gnp.tanh(w @ b), gnp.tanh(w.T @ a) * y
    return a, b


def further_back(w: Any, x: Any, y: Any) -> Any:
    """Each step reads the values of the two steps before it, like a loop with two carries."""
    for _ in range(12):
        x, y = gnp.tanh(w @ x) - 0.5 * y, x
    return x, y


def two_chains(w: Any, x: Any, y: Any) -> Any:
    """One chain after another, with other ops."""
    x = chain(9)(w, x, y)
    for _ in range(9):
        x = x / (1 + abs(x).max())
    return x


def kept(w: Any, x: Any, y: Any) -> Any:
    """Each step's value is a result."""
    values = []
    for _ in range(10):
        x = gnp.tanh(w @ x)
        values.append(x)
    return values


def others(w: Any, x: Any, y: Any) -> Any:
    """Each step has a matrix of its own."""
    for k in range(10):
        x = gnp.tanh((w + k) @ x)
    return x


PROGRAMS = {
    # The first step also scales y.
    "chain": (chain(LEAST_STEPS + 1), 1),
    "short": (chain(LEAST_STEPS - 1), 0),
    "exchanged": (exchanged, 1),
    "from_one": (from_one, 1),
    "further_back": (further_back, None),
    "two_chains": (two_chains, 2),
    "kept": (kept, 0),
    "others": (others, 0),
}


def test_values() -> None:
    """All programs, and a gradient of one, side by side."""

    def several(w: Any, x: Any, y: Any) -> Any:
        gradient = gn.grad(lambda *a: chain(9)(*a).sum(), (0, 1))
        return [f(w, x, y) for f, _ in PROGRAMS.values()], gradient(w, x, y)

    expected = tree_util.tree_leaves(several(W, X, Y))
    found = tree_util.tree_leaves(gn.jit(several)(W, X, Y))
    for one, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(value), 2e-4, 2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_which_steps_are_rolled(name: str) -> None:
    function, loops = PROGRAMS[name]
    text = gn.jit(function).lower(W, X, Y).as_text("legalized")
    if loops is not None:
        assert text.count('"gnomon.while"') == loops
