"""Functions of functions: associative scans, transposes, implicit derivatives; against JAX."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from tests.backends.iree.joined import report
from tests.frontend.oracle import assert_trees_close, outcomes_in_one_program

jax = pytest.importorskip("jax")
jax_numpy = pytest.importorskip("jax.numpy")

OURS = SimpleNamespace(api=gnomon, np=gnp, lax=gnomon.lax)
THEIRS = SimpleNamespace(api=jax, np=jax_numpy, lax=jax.lax)

A = np.array([[3.0, 1.0], [0.5, 2.0]], np.float32)
B = np.array([1.0, 2.0], np.float32)
ROOTS = np.array([1.0, 4.0, 9.0], np.float32)

Case = Callable[[Any], Any]


def _prefix(ns: Any, size: int, reverse: bool) -> Any:
    x = np.arange(6 * size, dtype=np.float32).reshape(2, size, 3) / 7 + 0.5
    return ns.lax.associative_scan(
        lambda p, q: {"a": p["a"] * q["a"], "b": p["b"] * q["a"] + q["b"]},
        {"a": x / 3, "b": x},
        reverse=reverse,
        axis=1,
    )


def _products(ns: Any, reverse: bool) -> Any:
    return lambda x: ns.np.sum(ns.lax.associative_scan(ns.np.multiply, x, reverse=reverse))


def _sqrt(ns: Any) -> Any:
    def newton(f: Any, x: Any) -> Any:
        return ns.lax.while_loop(
            lambda x: abs(f(x)) > 1e-5, lambda x: x - f(x) / ns.api.grad(f)(x), x
        )

    return lambda v: ns.lax.custom_root(
        lambda x: x * x - v, 1.0 * v, newton, lambda g, y: y / g(1.0)
    )


def _solve(ns: Any) -> Any:
    def richardson(matvec: Any, b: Any) -> Any:
        return ns.lax.fori_loop(0, 60, lambda i, x: x + 0.3 * (b - matvec(x)), 0 * b)

    return lambda a, b: ns.lax.custom_linear_solve(lambda x: a @ x, b, richardson, richardson)


def _total(ns: Any, f: Any) -> Any:
    return lambda *args: ns.np.sum(f(*args))


class Affine(NamedTuple):
    """The function ``scale * x + shift``."""

    scale: Any
    shift: Any


CASES: dict[str, Case] = {
    "scan forward": lambda ns: [_prefix(ns, n, False) for n in (0, 1, 2, 5, 8)],
    "scan reverse": lambda ns: [_prefix(ns, n, True) for n in (0, 1, 2, 5, 8)],
    "scan of a named tuple by a function of tuples": lambda ns: ns.lax.associative_scan(
        lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), Affine(ROOTS, ROOTS)
    ),
    "scan grad": lambda ns: ns.api.grad(_products(ns, True))(ROOTS),
    "transpose": lambda ns: ns.api.linear_transpose(lambda x, y: A @ x - 2 * y, B, B)(B),
    "transpose of a tree": lambda ns: ns.api.linear_transpose(
        lambda d: (2 * d["a"], d["a"]), {"a": B}
    )((B, B)),
    "transpose of integers": lambda ns: ns.api.linear_transpose(
        lambda x: (ns.np.cumsum(x)[::-1] - 3 * x)[ns.np.array([0, 2, 2])], np.zeros(3, np.int32)
    )(np.array([1, 2, 5], np.int32)),
    "transpose as a result of jit": lambda ns: ns.api.jit(
        lambda w: ns.api.linear_transpose(lambda x: w @ x, B)
    )(A)(B),
    "transpose as an argument": lambda ns: ns.api.jit(lambda t, x: t(x))(
        ns.api.linear_transpose(lambda x: A @ x, B), B
    ),
    "transpose of a scan": lambda ns: ns.api.linear_transpose(
        lambda x: ns.lax.scan(lambda c, v: (c + v, c), 0.0 * x[0], x), ROOTS
    )((np.float32(1), ROOTS)),
    "grad of transpose": lambda ns: ns.api.grad(
        lambda w: ns.np.sum(ns.api.linear_transpose(lambda x: w @ x, B)(B)[0] ** 2)
    )(A),
    "root": lambda ns: ns.api.value_and_grad(_sqrt(ns))(4.0),
    "root twice": lambda ns: ns.api.grad(ns.api.grad(_sqrt(ns)))(4.0),
    "root jvp": lambda ns: ns.api.jvp(_sqrt(ns), (4.0,), (1.0,)),
    "root vmap": lambda ns: ns.api.vmap(ns.api.grad(_sqrt(ns)))(ROOTS),
    "grad of vmap of root": lambda ns: ns.api.grad(_total(ns, ns.api.vmap(_sqrt(ns))))(ROOTS),
    "solve jvp": lambda ns: ns.api.jvp(_solve(ns), (A, B), (A * 0.1, B)),
    "solve grad": lambda ns: ns.api.grad(_total(ns, _solve(ns)), (0, 1))(A, B),
    "solve hessian": lambda ns: ns.api.hessian(lambda b: ns.np.sum(_solve(ns)(A * b[0], b) ** 2))(
        B
    ),
    "solve vmap": lambda ns: ns.api.grad(
        lambda a: ns.np.sum(ns.api.vmap(_solve(ns), (None, 0))(a, np.stack([B, 2 * B])))
    )(A),
    "symmetric": lambda ns: ns.api.grad(
        lambda b: ns.np.sum(
            ns.lax.custom_linear_solve(lambda x: 2 * x, b, lambda f, b: b / 2, symmetric=True)
        )
    )(B),
    "auxiliary data of NumPy": lambda ns: ns.lax.custom_linear_solve(
        lambda x: 2 * x,
        B,
        lambda f, b: (b / 2, (np.arange(2.0), 3)),
        symmetric=True,
        has_aux=True,
    ),
    "cond without operand": lambda ns: ns.lax.cond(
        True, lambda x: 1.0, lambda x: 2.0, operand=None
    ),
    "cond with two operands": lambda ns: ns.lax.cond(True, 3.0, lambda x: x, 4.0, lambda y: 2 * y),
    "platform": lambda ns: ns.lax.platform_dependent(1.0, cpu=lambda x: x + 1, tpu=lambda x: x),
    "spmd": lambda ns: ns.api.vmap(ns.np.sin, spmd_axis_name="i")(B),
    "passes": lambda ns: _passes(ns),
    "pullback through jit": lambda ns: ns.api.jit(lambda p, c: p(c))(
        ns.api.vjp(ns.np.sin, 1.0)[1], 2.0
    ),
}


def _passes(ns: Any) -> Any:
    forward, backward = ns.api.fwd_and_bwd(lambda x, y: (ns.np.sin(x) * y, x), (0, 1), has_aux=True)
    out, residuals, aux = forward(1.0, 2.0)
    return out, aux, backward(residuals, 1.0), backward(forward(2.0, 3.0)[1], 2.0)


def close(ours: Any, theirs: Any, ulps: float = 512.0) -> None:
    assert_trees_close(ours, theirs, ulps, scale=1.0)


def test_equals_jax() -> None:
    pairs = outcomes_in_one_program([(case, (THEIRS,), {}) for case in CASES.values()])
    problems = {}
    for (name, case), (expected, error) in zip(CASES.items(), pairs, strict=True):
        try:
            # While it traces, JAX computes what depends on the platform with Python's numbers.
            close(case(OURS), case(THEIRS) if error or name == "platform" else expected)
        except Exception as raised:
            problems[name] = f"{type(raised).__name__}: {raised}"
    report(problems)


def test_compiled() -> None:
    def program(ns: Any) -> Any:
        return ns.api.jit(
            lambda r, a, b: (
                ns.api.grad(_products(ns, True))(r),
                ns.api.vmap(ns.api.grad(_sqrt(ns)))(r),
                ns.api.grad(_total(ns, _solve(ns)), (0, 1))(a, b),
                ns.api.linear_transpose(lambda x: a @ x, b)(b),
            )
        )(ROOTS, A, B)

    close(program(OURS), program(THEIRS))


def test_auxiliary_data() -> None:
    def root(v: Any) -> Any:
        return gnomon.lax.custom_root(
            lambda x: x * x - v,
            1.0,
            lambda f, x: (gnp.sqrt(v), {"steps": 3}),
            lambda g, y: y / g(1.0),
            has_aux=True,
        )

    (value, aux), gradient = gnomon.value_and_grad(root, has_aux=True)(4.0)
    assert (float(value), int(aux["steps"]), float(gradient)) == (2.0, 3, 0.25)


def test_errors() -> None:
    with pytest.raises(ValueError, match="same first dimension"):
        gnomon.lax.associative_scan(gnp.add, (gnp.ones(3), gnp.ones(4)))
    with pytest.raises(TypeError, match="callable"):
        gnomon.lax.associative_scan(1, gnp.ones(3))
    with pytest.raises(TypeError, match=r"arrays of the dtypes of its arguments, \['int32'\]"):
        gnomon.lax.associative_scan(lambda a, b: 1.5 * a + b, gnp.arange(4))
    with pytest.raises(ValueError, match="must return a pytree like its arguments"):
        gnomon.lax.associative_scan(lambda a, b: a[0], (gnp.ones(3), gnp.ones(3)))
    with pytest.raises(TypeError, match="no transpose"):
        gnomon.linear_transpose(gnomon.lax.stop_gradient, 1.0)
    for f in (gnp.sin, lambda x: x * x, lambda x: 1 / x, lambda x: gnp.where(x > 0, x, 2 * x)):
        with pytest.raises(TypeError, match="not linear"):
            gnomon.linear_transpose(f, 1.0)
    for f in (lambda x: x * x, lambda x: x & 3, lambda x: gnp.asarray(ROOTS)[x % 2], gnp.abs):
        with pytest.raises(TypeError, match=r"not linear|has no transpose"):
            gnomon.linear_transpose(f, 1)
    with pytest.raises(TypeError, match="custom_root: f"):
        gnomon.lax.custom_root(lambda x: (x, x), 1.0, lambda f, x: x, lambda g, y: y)
    with pytest.raises(TypeError, match="cotangent type"):
        gnomon.linear_transpose(lambda x: 2 * x, 1.0)(gnp.ones(3))
    with pytest.raises(NotImplementedError, match="no default"):
        gnomon.lax.platform_dependent(1.0, tpu=lambda x: x)
    with pytest.raises(TypeError, match="transpose_solve"):
        gnomon.grad(
            lambda b: gnomon.lax.custom_linear_solve(lambda x: 2 * x, b, lambda f, b: b / 2)
        )(1.0)
    with pytest.raises(TypeError, match="matvec must return a pytree of structure"):
        gnomon.lax.custom_linear_solve(lambda x: [x], 1.0, lambda f, b: f(b)[0])
    with pytest.raises(TypeError, match="matvec must return a pytree of structure"):
        gnomon.scipy.sparse.linalg.cg(lambda x: tuple(x), [1.0, 2.0])
    with pytest.raises(ValueError, match="must return arrays like"):
        gnomon.lax.custom_linear_solve(lambda x: x, 1.0, lambda f, b: gnp.ones(3))
