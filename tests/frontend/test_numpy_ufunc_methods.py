"""Methods of universal functions, against JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.frontend.oracle import checks_in_one_program
from tests.tolerance import assert_each_near, assert_near

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
N = np.array([[7, 3], [5, 1]], np.int32)
BINARY = [n for n in dir(jnp) if isinstance(getattr(jnp, n), jnp.ufunc) and getattr(jnp, n).nin > 1]


def equal(ours: Any, theirs: Any) -> None:
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert_each_near(ours, theirs, 2)


def method(library: Any, name: str, which: str) -> Callable[..., Any]:
    """A method of a function, with a name that says whose it is."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(getattr(library, name), which)(*args, **kwargs)

    call.__name__ = f"{name}.{which}"
    return call


def test_methods_are_those_of_jax() -> None:
    index, slices = np.array([0, 1, 0]), np.array([1, 0])
    with checks_in_one_program() as check:

        def compare(name: str, which: str, *args: Any, **kwargs: Any) -> None:
            ours, theirs = method(gnp, name, which), method(jnp, name, which)
            check(ours, theirs, *args, ulps=2, weak=False, **kwargs)

        for name in BINARY:
            ours, theirs = getattr(gnp, name), getattr(jnp, name)
            assert isinstance(ours, gnp.ufunc)
            assert (ours.nin, ours.nout, ours.nargs, ours.identity) == (2, 1, 3, theirs.identity)
            operand = N if name.startswith("bitwise") else X
            for axis in (0, 1, -1):
                compare(name, "reduce", operand, axis=axis)
                compare(name, "reduce", operand, axis=axis, keepdims=True)
                compare(name, "accumulate", operand, axis=axis)
            compare(name, "outer", operand, operand[0])
            compare(name, "at", operand[0], index, operand[0, 1], inplace=False)
            # JAX returns numbers for slices of logical functions; NumPy is their reference.
            if name.startswith("logical"):
                expected = getattr(np, name).reduceat(operand, slices, 1)
                equal(ours.reduceat(operand, slices, 1), expected)
            else:
                compare(name, "reduceat", operand, slices, 1)


def test_reduce_with_a_mask_and_a_start() -> None:
    mask = np.array([True, False, True])
    equal(gnp.add.reduce(X, 1, initial=5, where=mask), jnp.add.reduce(X, 1, initial=5, where=mask))
    ours = gnp.frompyfunc(lambda x, y: x * 2 + y, 2, 1, identity=0)
    theirs = jnp.frompyfunc(lambda x, y: x * 2 + y, 2, 1, identity=0)
    equal(ours.reduce(X, 1, where=mask), theirs.reduce(X, 1, where=mask))
    equal(ours.reduce(X, None), theirs.reduce(X, None))
    equal(ours(X, 3.0), theirs(X, 3.0))
    equal(ours.reduce(X[:0]), theirs.reduce(X[:0]))


def test_under_transformations() -> None:
    def f(lib: Any, x: Any) -> Any:
        return lib.logaddexp.reduce(lib.subtract.accumulate(x))

    ours = gn.jit(gn.vmap(gn.grad(lambda x: f(gnp, x))))(X)
    theirs = jax.vmap(jax.grad(lambda x: f(jnp, x)))(X)
    assert_near(ours, theirs, 4)


def test_errors() -> None:
    with pytest.raises(NotImplementedError, match="immutable"):
        gnp.add.at(gnp.zeros(3), 0, 1.0)
    with pytest.raises(ValueError, match="two arguments"):
        gnp.negative.reduce(X)
    with pytest.raises(ValueError, match="no identity"):
        gnp.subtract.reduce(X[:0])
    with pytest.raises(IndexError, match="not in"):
        gnp.add.reduceat(X, np.array([5]))
    with pytest.raises(TypeError, match="takes 2 arguments"):
        gnp.frompyfunc(lambda x, y: x + y, 2, 1)(X)
    assert not isinstance(gnp.sum, gnp.ufunc)
