"""Repeated steps that are rolled into loops: their values, and which steps qualify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon.scipy.special as special
from gnomon import tree_util
from gnomon.backends.iree.legalize.control.rolled_chains import LEAST_FUNCTIONS, LEAST_STEPS
from tests.sample import sample
from tests.tolerance import assert_near

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


def functions(steps: int) -> Callable[..., Any]:
    """Elementwise steps, each with one function."""

    def run(w: Any, x: Any, y: Any) -> Any:
        for _ in range(steps):
            x = gnp.where(y > 0, gnp.sin(x), x * 1.01 + 0.1)
        return x

    return run


def arithmetic(w: Any, x: Any, y: Any) -> Any:
    for _ in range(100):
        x = abs(x * 0.9 - y) / 1.5
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
    "functions": (functions(LEAST_FUNCTIONS + 1), 1),
    "few_functions": (functions(LEAST_FUNCTIONS - 1), 0),
    "arithmetic": (arithmetic, 0),
}


def test_values() -> None:
    """Half of the programs, and a gradient of one, side by side."""
    chosen = sample(PROGRAMS.values(), len(PROGRAMS) // 2, __name__)

    def several(w: Any, x: Any, y: Any) -> Any:
        gradient = gn.grad(lambda *a: chain(9)(*a).sum(), (0, 1))
        return [f(w, x, y) for f, _ in chosen], gradient(w, x, y)

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


def power(x: Any) -> Any:
    return x**0.3


def arccosh(x: Any) -> Any:
    return gnp.arccosh(x + 1)


FUNCTIONS = (
    *(gnp.sin, gnp.cos, gnp.tan, gnp.arcsin, gnp.arccos, gnp.arctan),
    *(gnp.sinh, gnp.cosh, gnp.tanh, gnp.arcsinh, arccosh, gnp.arctanh),
    *(gnp.exp, gnp.exp2, gnp.expm1, gnp.log, gnp.log1p, gnp.cbrt, power, gn.nn.sigmoid),
    *(special.erf, special.erfc, special.erfinv, special.gammaln, special.digamma),
    *(special.i0e, special.i1e, special.zeta),
)
DTYPES = ("float32", "float16", "float64")


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        pytest.param(
            function,
            dtype,
            id=f"{function.__name__}-{dtype}",
            marks=[pytest.mark.slow, pytest.mark.sampled(0.25)],
        )
        for function in FUNCTIONS
        for dtype in DTYPES
    ],
)
def test_chains_of_each_function(function: Callable[..., Any], dtype: str) -> None:
    """Also under `vmap`, and of a view, a scalar and an empty array."""

    def chain(x: Any) -> Any:
        # The first step also broadcasts the literals.
        for _ in range(LEAST_FUNCTIONS + 1):
            # Values stay where each function is defined, and errors do not grow.
            value = function(x + 1, x) if function is special.zeta else function(x)
            x = gnp.clip(0.05 * value + 0.3, 0.1, 0.9) + 0.05 * x
        return x

    with gn.enable_x64(dtype == "float64"):
        x = gnp.linspace(0.1, 0.9, 14, dtype=dtype)
        jitted = gn.jit(chain)
        assert jitted.lower(x).as_text("legalized").count('"gnomon.while"') == 1
        for argument in (x, x.reshape(7, 2)[::2], x[3], x[:0]):
            found, expected = jitted(argument), chain(argument)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert_near(found, expected, 64, scale=1.0)
        assert_near(gn.jit(gn.vmap(chain))(x), chain(x), 64, scale=1.0)
