"""`odeint` beside JAX's, beside solutions that are known, and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jax.experimental.ode import odeint as jax_odeint

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.experimental.ode import odeint
from gnomon.test_util import check_grads
from tests.frontend.oracle import jax

TIMES = np.array([0.0, 0.3, 1.0, 1.1, 2.0])


def _pendulum(numpy: Any) -> Any:
    def slope(y: Any, t: Any, damping: Any, options: Any) -> Any:
        angle, speed = y
        return speed, -damping * speed - options["pull"] * numpy.sin(angle) + 0.1 * numpy.cos(t)

    return slope


def _solved(m: Any, solve: Any, y0: Any, t: Any, *args: Any) -> Any:
    return solve(_pendulum(m.numpy), y0, m.numpy.asarray(t), *args)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("x64", [False, True])
def test_solutions_and_gradients_beside_jax(x64: bool) -> None:
    dtype, rtol = (np.float64, 1e-7) if x64 else (np.float32, 2e-4)
    y0 = (np.array([1.0, 0.5], dtype), np.array([0.2, -1.0], dtype))
    args = (TIMES.astype(dtype), dtype(0.25), {"pull": dtype(5.0)})

    def results(m: Any, solve: Any) -> Any:
        def loss(y0: Any, *args: Any) -> Any:
            angle, speed = _solved(m, solve, y0, *args)
            return (angle**2).sum() + (speed * angle).sum()

        gradients = m.grad(loss, argnums=(0, 1, 2, 3))
        rates = m.numpy.asarray(np.array([0.1, 0.4], dtype))
        mapped = m.vmap(lambda rate: _solved(m, solve, y0, args[0], rate, args[2]))(rates)
        return _solved(m, solve, y0, *args), m.jit(gradients)(y0, *args), mapped

    with gn.enable_x64(x64), jax.enable_x64(x64):
        ours, theirs = results(gn, odeint), jax.jit(lambda: results(jax, jax_odeint))()
        for x, y in zip(gn.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=rtol)


def test_interpolation_is_of_fourth_order() -> None:
    """Errors between steps fall by about 2⁵ if the steps are halved."""
    with gn.enable_x64(True):
        errors = []
        for size in (0.2, 0.1, 0.05):
            t = gnp.asarray([0.0, 0.37 * size, 0.8 + 0.37 * size])
            found = odeint(
                lambda y, t: y * gnp.cos(t), gnp.ones(1), t, rtol=1.0, atol=1.0, hmax=size
            )
            errors.append(abs(float(found[-1, 0]) - np.exp(np.sin(t[-1]))))
        assert 14 < errors[0] / errors[1] < 90
        assert 14 < errors[1] / errors[2] < 90


@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-10])
def test_tolerances(tolerance: float) -> None:
    with gn.enable_x64(True):
        found = odeint(
            lambda y, t: -y * y, 1.0, np.array([0.0, 1.0, 9.0]), rtol=tolerance, atol=tolerance
        )
        error = np.abs(np.asarray(found) - 1 / (1 + np.array([0.0, 1.0, 9.0]))).max()
        assert error < 30 * tolerance


@pytest.mark.slow
def test_derivatives_of_two_orders() -> None:
    with gn.enable_x64(True):

        def f(y0: Any, t: Any, rate: Any) -> Any:
            return odeint(lambda y, t, rate: -rate * y + gnp.sin(t), y0, t, rate)

        check_grads(f, (np.array([1.0, -0.5]), TIMES, 0.7), 2, "rev", atol=1e-5, rtol=1e-5)


def test_what_func_closes_over() -> None:
    def loss(weights: Any, given: bool) -> Any:
        def slope(y: Any, t: Any, *args: Any) -> Any:
            return (args[0] if args else weights) @ y * gnp.cos(t)

        args = (weights,) if given else ()
        return (odeint(slope, gnp.ones(2), gnp.asarray(TIMES), *args, rtol=1e-6) ** 2).sum()

    weights = gnp.array([[0.1, -0.4], [0.3, 0.2]])
    expected = gn.grad(loss)(weights, True)
    np.testing.assert_allclose(gn.grad(loss)(weights, False), expected, rtol=1e-4)
    np.testing.assert_allclose(
        gn.jit(gn.grad(loss), static_argnums=1)(weights, False), expected, rtol=1e-4
    )


def test_integers_and_complex_numbers() -> None:
    t = gnp.asarray([0, 1, 2])  # integers, as are the state and an argument

    def decay(y0: Any) -> Any:
        return odeint(lambda y, t, n: -n * y, y0, t, 2, rtol=1e-6, atol=1e-6)

    np.testing.assert_allclose(decay(gnp.asarray(1)), np.exp([0, -2, -4.0]), rtol=1e-4)
    assert abs(gn.grad(lambda y: decay(y)[-1])(1.0) - np.exp(-4)) < 1e-5

    def turned(rate: Any) -> Any:
        y0 = gnp.ones(1, np.complex64)
        return odeint(lambda y, t, rate: 1j * rate * y, y0, t, rate, rtol=1e-6, atol=1e-6)[-1, 0]

    assert abs(turned(gnp.complex64(0.5 + 0.1j)) - np.exp(1j - 0.2)) < 1e-4
    slope = gn.grad(lambda rate: turned(rate).real)(0.5)
    assert abs(slope + 2 * np.sin(1.0)) < 1e-4


def test_real_derivatives_of_complex_numbers() -> None:
    y0, t = gnp.array([1j]), gnp.array([0.0, 2.0])
    found = odeint(lambda y, t: gnp.ones(1), y0, t, rtol=1e-6)
    np.testing.assert_allclose(found, [[1j], [2 + 1j]], rtol=1e-6)
    with pytest.raises(TypeError, match="complex numbers for a real array"):
        odeint(lambda y, t: 1j * y, gnp.ones(1), t)


def test_edges() -> None:
    y0 = {"a": gnp.ones((2, 0)), "b": gnp.float32(3.0)}
    still = odeint(lambda y, t: gn.tree.map(gnp.zeros_like, y), y0, gnp.asarray(TIMES))
    assert still["a"].shape == (5, 2, 0)
    np.testing.assert_array_equal(still["b"], np.full(5, 3.0))
    # A list of numbers for a vector, and a vector for a list.
    turn = odeint(lambda y, t: [y[1], -y[0]], gnp.ones(2), gnp.asarray(TIMES))
    pair = odeint(lambda y, t: gnp.stack([y[1], -y[0]]), (1.0, 1.0), gnp.asarray(TIMES))
    np.testing.assert_array_equal(turn, np.stack(pair, -1))
    one = odeint(lambda y, t: y, gnp.ones(2), gnp.zeros(1))
    np.testing.assert_array_equal(one, np.ones((1, 2)))
    few = odeint(lambda y, t: -y, 1.0, gnp.array([0.0, 50.0]), mxstep=3)
    assert gnp.isnan(few[-1])  # too few steps to get there
    nothing = odeint(lambda y, t: y * gnp.nan, 1.0, gnp.array([0.0, 1.0]))
    assert gnp.isnan(nothing[-1])


def test_arguments_that_are_wrong() -> None:
    y0 = gnp.ones(2)
    with pytest.raises(ValueError, match=r"t must be an array of shape \(n,\), got shape \(\)"):
        odeint(lambda y, t: y, y0, 1.0)
    with pytest.raises(ValueError, match=r"got shape \(0,\)"):
        odeint(lambda y, t: y, y0, gnp.zeros(0))
    with pytest.raises(TypeError, match="t must be real numbers, got dtype complex64"):
        odeint(lambda y, t: y, y0, gnp.zeros(2, np.complex64))
    for wrong in (lambda y, t: y[:1], lambda y, t: (y, y), lambda y, t: y[None]):
        with pytest.raises(ValueError, match=r"func must return a pytree like y0.* \[\(2,\)\]"):
            odeint(wrong, y0, gnp.arange(2.0))
