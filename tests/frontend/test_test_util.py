"""Checks of derivatives: right ones pass in every dtype and order, and wrong ones do not."""

import functools
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.test_util import check_grads, check_jvp, check_vjp

X = np.array([0.3, -1.2, 2.0], np.float32)


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("modes", ["fwd", "rev", ("fwd", "rev"), ["rev"]])
@pytest.mark.parametrize(
    ("f", "args"),
    [
        (gnp.sin, (1.0,)),
        (lambda x: gnp.linalg.inv(x), (np.eye(3, dtype=np.float32) * 2 + 0.1,)),
        (lambda x, n, y: gnp.sin(x) ** n * y["a"], (X, 2, {"a": X + 3})),
        (lambda z: z**3 * gnp.conj(z), (np.array([1 + 2j, 0.5j], np.complex64),)),
        (lambda z: gnp.abs(z), (np.array([1 + 2j, 0.5j], np.complex64),)),
        (lambda x: gnp.tanh(x), (np.zeros((0, 3), np.float32),)),
        (lambda x: (x.sum(), gnp.argmax(x)), (X,)),
    ],
)
def test_derivatives_that_are_right(f: Any, args: Any, modes: Any) -> None:
    check_grads(f, args, 3, modes)


@pytest.mark.slow
def test_derivatives_of_compiled_loops_are_right() -> None:
    """Each is a program to compile, so none is of the third order, and both modes are in one."""
    check_grads(gn.jit(lambda x: gn.lax.fori_loop(0, 3, lambda _, y: y * x, x)), (X,), 2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "complex128"])
def test_the_tolerance_is_that_of_the_dtype(dtype: str) -> None:
    with gn.enable_x64(True):
        x = gnp.asarray(X).astype(dtype)
        check_grads(gnp.tanh, (x,), 2)
        coarse = {"bfloat16": 2.0, "float16": 0.5, "float32": 0.02}.get(dtype, 1e-4)
        wrong = gn.custom_jvp(gnp.tanh)
        wrong.defjvps(lambda t, out, x: t * (1 - out * out) * (1 + coarse))
        with pytest.raises(AssertionError, match="finite differences give"):
            check_grads(wrong, (x * 0.2,), 1)


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_a_wrong_rule(mode: str) -> None:
    @gn.custom_jvp
    def square(x: Any) -> Any:
        return x * x

    square.defjvps(lambda t, _, x: x * t)
    with pytest.raises(AssertionError, match=f"order 1, mode '{mode}': the .*tangents of square"):
        check_grads(square, (X,), 1, mode)


def test_a_wrong_element_of_a_cotangent() -> None:
    @gn.custom_vjp
    def total(x: Any) -> Any:
        return x.sum()

    total.defvjp(lambda x: (x.sum(), x), lambda x, c: (c * gnp.array([1.0, 1.0, 0.0]),))
    with pytest.raises(AssertionError, match="order 1, mode 'rev'"):
        check_grads(total, (X,), 1, "rev")


def test_a_derivative_that_is_wrong_in_the_second_order_only() -> None:
    @gn.custom_vjp
    def sine(x: Any) -> Any:
        return gnp.sin(x)

    sine.defvjp(lambda x: (gnp.sin(x), x), lambda x, c: (gnp.cos(gn.lax.stop_gradient(x)) * c,))
    check_grads(sine, (X,), 1, "rev")
    with pytest.raises(AssertionError, match="order 2, mode 'rev'"):
        check_grads(sine, (X,), 2, "rev")


def test_wrong_primal_results() -> None:
    def jvp(primals: Any, tangents: Any) -> Any:
        return gnp.cos(*primals), gn.jvp(gnp.sin, primals, tangents)[1]

    def vjp(x: Any) -> Any:
        return gnp.cos(x), gn.vjp(gnp.sin, x)[1]

    check_jvp(gnp.sin, functools.partial(gn.jvp, gnp.sin), (X,))
    check_vjp(gnp.sin, functools.partial(gn.vjp, gnp.sin), (X,))
    with pytest.raises(AssertionError, match="mine: the primal results of the JVP"):
        check_jvp(gnp.sin, jvp, (X,), err_msg="mine: ")
    with pytest.raises(AssertionError, match="the primal results of the VJP"):
        check_vjp(gnp.sin, vjp, (X,))


def test_tolerances_and_steps_that_are_given() -> None:
    with pytest.raises(AssertionError):
        check_grads(gnp.exp, (gnp.float32(2.0),), 1, atol=1e-9, rtol=1e-9)
    check_grads(gnp.exp, (gnp.float32(2.0),), 1, eps=0.1, atol=0.1, rtol=0.1)


def test_arguments_that_are_wrong() -> None:
    with pytest.raises(ValueError, match="order must be at least 1, got 0"):
        check_grads(gnp.sin, (X,), 0)
    with pytest.raises(ValueError, match="modes are 'fwd' and 'rev', got 'both'"):
        check_grads(gnp.sin, (X,), 1, "both")


def test_tracers_can_be_told_from_arrays() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(isinstance(x, gn.core.Tracer))
        return x

    f(gnp.ones(2))
    gn.jit(f)(gnp.ones(2))
    gn.vmap(f)(gnp.ones(2))
    gn.make_jaxpr(f)(gnp.ones(2))
    assert seen == [False, True, True, True]
