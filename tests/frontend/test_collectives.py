"""Collectives over the axis names that vmap binds, against JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp

jax = pytest.importorskip("jax")

X = np.array([[1.0, -2.0, 0.5], [4.0, 0.25, -1.0]], np.float32)


def program(api: Any, name: str) -> Any:
    lax = api.lax
    return {
        "psum": lambda x: x / lax.psum(abs(x), "i"),
        "pmean": lambda x: x - lax.pmean(x * x, "i"),
        "pmax": lambda x: x * lax.pmax(x, "i"),
        "pmin": lambda x: x - lax.pmin(x, "i"),
        "axis_index": lambda x: x * lax.axis_index("i"),
        "psum_of_unmapped": lambda x: x + lax.psum(2.0, "i"),
    }[name]


NAMES = ("psum", "pmean", "pmax", "pmin", "axis_index", "psum_of_unmapped")


@pytest.mark.parametrize("name", NAMES)
def test_collective_equals_jax(name: str) -> None:
    ours, theirs = program(gnomon, name), program(jax, name)
    for wrap in (lambda api, f: f, lambda api, f: api.jit(f)):
        for axes in ((0,), (1,)):
            a = wrap(gnomon, gnomon.vmap(ours, axes, axis_name="i"))(X)
            b = wrap(jax, jax.vmap(theirs, axes, axis_name="i"))(X)
            np.testing.assert_allclose(a, b, rtol=4 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("pmax", "pmin")])
def test_gradients_equal_jax(name: str) -> None:
    def loss(api: Any, np_: Any) -> Any:
        f = program(api, name)
        return lambda x: np_.sum(np_.sin(api.vmap(f, axis_name="i")(x)))

    ours = gnomon.jit(gnomon.grad(loss(gnomon, gnp)))(X)
    theirs = jax.grad(loss(jax, jax.numpy))(X)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=64 * np.finfo(np.float32).eps)
    inner = gnomon.vmap(gnomon.grad(program(gnomon, name)), axis_name="i")(X[:, 0])
    expected = jax.vmap(jax.grad(program(jax, name)), axis_name="i")(X[:, 0])
    np.testing.assert_allclose(inner, expected, rtol=0, atol=64 * np.finfo(np.float32).eps)


def test_gradient_of_an_extremum_goes_to_the_members_that_attain_it() -> None:
    def loss(x: Any) -> Any:
        return gnp.sum(gnomon.vmap(lambda v: gnomon.lax.pmax(v, "i"), axis_name="i")(x))

    x = np.array([1.0, 3.0, 3.0, 2.0], np.float32)
    np.testing.assert_allclose(gnomon.grad(loss)(x), [0.0, 2.0, 2.0, 0.0])


def test_nested_names() -> None:
    def f(x: Any) -> Any:
        return gnomon.lax.psum(x, ("i", "j")) + gnomon.lax.axis_index("j")

    found = gnomon.vmap(gnomon.vmap(f, axis_name="j"), axis_name="i")(X)
    np.testing.assert_allclose(found, X.sum() + np.arange(3) + np.zeros((2, 1)))


def test_inside_of_control_flow() -> None:
    def f(x: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            return carry + gnomon.lax.psum(x, "i"), None

        return gnomon.lax.scan(body, gnp.float32(0), None, length=3)[0]

    np.testing.assert_allclose(gnomon.vmap(f, axis_name="i")(X[:, 0]), np.full(2, 15.0))


def test_unbound_name() -> None:
    with pytest.raises(NameError, match="unbound axis name: 'k'"):
        gnomon.vmap(lambda x: gnomon.lax.psum(x, "k"), axis_name="i")(X)
