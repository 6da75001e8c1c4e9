"""Axes may come in any iterable, and arrays to join in any collection, as in JAX."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.frontend.oracle import jax

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

# Functions of a namespace and of the axes 0 and 1.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: (lambda m, axis, name=name: getattr(m.numpy, name)(X, axis=axis))
        for name in (
            "sum", "prod", "max", "min", "mean", "std", "var", "all", "any", "average", "ptp",
            "flip", "expand_dims",
        )
    },
    "method": lambda m, axis: m.numpy.asarray(X).sum(axis),
    "squeeze": lambda m, axis: m.numpy.squeeze(X[:1, :1], axis),
    "moveaxis": lambda m, axis: m.numpy.moveaxis(X, axis, (2, 0)),
    "roll": lambda m, axis: m.numpy.roll(X, (1, 2), axis=axis),
    "shifts": lambda m, axis: m.numpy.roll(X, axis, axis=(1, 2)),
    "fftshift": lambda m, axis: m.numpy.fft.fftshift(X, axis),
    "softmax": lambda m, axis: m.nn.softmax(X, axis),
    "grad": lambda m, axis: m.grad(lambda x, y: x * y, argnums=axis)(2.0, 3.0),
}  # fmt: skip

ITERABLES = {
    "range": lambda: range(2), "array": lambda: np.arange(2), "deque": lambda: deque((0, 1)),
    "keys": lambda: {0: "a", 1: "b"}.keys(), "numpy ints": lambda: (np.int64(0), np.int8(1)),
}  # fmt: skip


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("iterable", ITERABLES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_axes_in_any_iterable(name: str, iterable: str) -> None:
    function, axes = FUNCTIONS[name], ITERABLES[iterable]
    ours = gn.tree.leaves(function(gn, axes()))
    theirs = gn.tree.leaves(function(jax, (0, 1)))
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)


@pytest.mark.parametrize("axis", [1.5, "a", object(), (0, 1.5), (None,)])
def test_axes_that_are_no_integers(axis: Any) -> None:
    for function in (gnp.sum, gnp.flip, gnp.expand_dims, gnp.squeeze, gnp.max):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            function(gnp.ones((1, 1)), axis)
    with pytest.raises(TypeError, match="argnums must be an int or a tuple of ints"):
        gn.grad(lambda x: x, argnums=axis)


@pytest.mark.parametrize("name", ["stack", "concatenate", "vstack", "hstack", "column_stack"])
def test_arrays_of_any_collection_are_joined(name: str) -> None:
    parts = {"a": np.ones((2, 2), np.float32), "b": np.zeros((2, 2), np.float32)}
    for xs in (parts.values(), deque(parts.values()), tuple(parts.values())):
        ours = getattr(gnp, name)(xs)
        np.testing.assert_array_equal(ours, getattr(jax.numpy, name)(list(parts.values())))
    for wrong in ((x for x in parts.values()), "ab", 1, None):
        with pytest.raises(TypeError, match="takes a sequence of arrays"):
            getattr(gnp, name)(wrong)
