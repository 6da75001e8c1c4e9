"""gnomon.nn and gnomon.scipy.special against JAX: values, types, derivatives at kinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.nn as jnn
import jax.numpy as jnp
import jax.random as jrandom
import jax.scipy.special as jspecial
import numpy as np
import pytest

import gnomon as gn
import gnomon.nn as gnn
import gnomon.numpy as gnp
import gnomon.scipy.special as gspecial
from tests.frontend.oracle import (
    assert_close,
    check,
    check_types,
    checks_in_one_program,
    sample,
    weakly,
)
from tests.tolerance import assert_near

ACTIVATIONS = [
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "swish",
    "tanh",
]
# Numbers at which functions have kinks or overflow, and ordinary numbers.
POINTS = [-1e4, -100.0, -7.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0, 3.0, 6.0, 7.0, 100.0, 1e4]


def test_activation_values() -> None:
    x = jnp.array([*POINTS, -jnp.inf, jnp.inf, jnp.nan])
    # In `gelu` one plus a tangent cancels, so its last unit counts.
    with checks_in_one_program(fused=True) as check:
        for name in ACTIVATIONS:
            check(getattr(gnn, name), getattr(jnn, name), x, ulps=8)


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_types(name: str) -> None:
    ours, theirs = getattr(gnn, name), getattr(jnn, name)
    for dtype in ("bfloat16", "float16", "float32", "int32", "int8", "bool"):
        for shape in ((), (2, 3), (0,)):
            check_types(ours, theirs, sample(dtype, shape))
    for value in (1.5, 2, weakly(1.5), weakly(2), np.float32(1), None, [1.0], "a"):
        check_types(ours, theirs, value)


def test_activation_derivatives() -> None:
    with checks_in_one_program(fused=True) as check:
        for name in ACTIVATIONS:
            # That of `relu` at nan is 1 here, so the nan remains visible (docs/differences.md).
            points = jnp.array([*POINTS, *([] if name == "relu" else [np.nan])], np.float32)
            ours, theirs = gn.grad(getattr(gnn, name)), jax.grad(getattr(jnn, name))
            check(gn.vmap(ours), jax.vmap(theirs), points, ulps=32, scale=1.0)
        for name in ("relu", "softplus", "silu", "gelu", "elu", "log_sigmoid"):
            ours = gn.grad(gn.grad(getattr(gnn, name)))
            theirs = jax.grad(jax.grad(getattr(jnn, name)))
            points = jnp.array(POINTS, np.float32)
            check(gn.vmap(ours), jax.vmap(theirs), points, ulps=16, scale=1.0)


def test_activation_arguments() -> None:
    with checks_in_one_program() as check:
        x = sample("float32", (3, 4))
        for name, argument in (("elu", 0.3), ("celu", 2.0), ("leaky_relu", 0.2), ("squareplus", 1)):
            check(getattr(gnn, name), getattr(jnn, name), x, argument, ulps=8)
        check(gnn.gelu, jnn.gelu, x, approximate=False, ulps=8)
        check(gnn.glu, jnn.glu, x, ulps=8)
        check(gnn.glu, jnn.glu, sample("float32", (4, 3)), axis=0, ulps=8)
    with pytest.raises(ValueError, match="even"):
        gnn.glu(np.ones(3, np.float32))
    with pytest.raises(ValueError, match="axis -1 is out of bounds"):
        gnn.glu(2.0)


def test_log1mexp() -> None:
    x = jnp.array([1e-30, 1e-5, 0.1, 0.6931, 0.6932, 1.0, 20.0, 200.0, jnp.inf])
    check(gnn.log1mexp, jnn.log1mexp, x, ulps=8)
    check(gnn.log1mexp, jnn.log1mexp, jnp.arange(1, 4), ulps=8)
    points = np.asarray(x[:-1])
    theirs = jax.vmap(jax.grad(jnn.log1mexp))(points)
    ours = gn.vmap(gn.grad(gnn.log1mexp))(points)
    assert_close(np.asarray(ours), np.asarray(theirs), ulps=32)


# --------------------------------------------------------------------------------- along an axis

MASK = jnp.array([[True, False, True, True], [True] * 4, [False] * 3 + [True]])


def test_softmax() -> None:
    x = sample("float32", (3, 4))
    large = jnp.array([1000.0, 1001.0, -1e6])
    with checks_in_one_program() as check:
        for name in ("softmax", "log_softmax"):
            ours, theirs = getattr(gnn, name), getattr(jnn, name)
            for args in ((x,), (x, 0), (x, (0, 1)), (x, None), (large,), (x, 1, MASK)):
                check(ours, theirs, *args, ulps=8)
            for dtype in ("bfloat16", "int32", "float16"):
                check_types(ours, theirs, sample(dtype, (3, 4)))
            check_types(ours, theirs, x, 2)
            check_types(ours, theirs, [1.0, 2.0])


def test_softmax_derivatives() -> None:
    with checks_in_one_program() as check:
        for name in ("softmax", "log_softmax", "logsumexp"):
            ours, theirs = getattr(gnn, name), getattr(jnn, name)
            for values in ([0.5, -1.0, 2.0], [1000.0, 1000.0, -1000.0], [3.0, 3.0, 3.0]):
                x = jnp.array(values, np.float32)
                for transformation in (gn.jacrev, gn.jacfwd):
                    check(transformation(ours), jax.jacrev(theirs), x, ulps=8)
                check(gn.jacfwd(gn.jacrev(ours)), jax.jacfwd(jax.jacrev(theirs)), x, ulps=8)


def test_logsumexp() -> None:
    with checks_in_one_program() as check:
        x, b = sample("float32", (3, 4)), sample("float32", (3, 4), 1)
        cases: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((x,), {}),
            ((x, 0), {}),
            ((x, (0, 1)), {"keepdims": True}),
            ((x,), {"axis": 1, "keepdims": True}),
            ((x,), {"b": b, "axis": 0}),
            ((x,), {"b": b, "axis": 0, "return_sign": True}),
            ((x,), {"axis": 1, "where": MASK}),
            ((jnp.array([-jnp.inf, -jnp.inf]),), {}),
            ((jnp.array([jnp.inf, 1.0]),), {}),
            ((jnp.array([1e4, 1e4]),), {"b": jnp.array([1.0, 0.0])}),
            ((jnp.array([jnp.inf, 1.0]),), {"b": jnp.array([0.0, 1.0])}),
            ((jnp.arange(4),), {}),
        ]
        for module, other in ((gnn, jnn), (gspecial, jspecial)):
            for args, kwargs in cases:
                check(module.logsumexp, other.logsumexp, *args, ulps=8, **kwargs)
        check(gnn.logmeanexp, jnn.logmeanexp, x, axis=1, ulps=8)
        check(gnn.logmeanexp, jnn.logmeanexp, x, axis=1, where=MASK, ulps=8)


def test_logsumexp_derivative_of_large_and_infinite() -> None:
    for values in ([1000.0, -jnp.inf], [-1e30, 0.0], [5.0, 5.0]):
        x = np.array(values, np.float32)
        expected = np.asarray(jax.grad(jnn.logsumexp)(x))
        assert_close(np.asarray(gn.grad(gnn.logsumexp)(x)), expected, ulps=4)


def test_standardize() -> None:
    with checks_in_one_program() as check:
        x = sample("float32", (3, 4))
        for kwargs in (
            {},
            {"axis": 0},
            {"axis": (0, 1), "epsilon": 0.1},
            {"mean": 0.0, "variance": 1.0},
            {"algorithm": "stable"},
            {"where": x > -1.0},
            {"algorithm": "no"},
        ):
            check(gnn.standardize, jnn.standardize, x, ulps=16, **kwargs)


def test_one_hot() -> None:
    labels = jnp.array([[0, 2], [5, -1]])
    check(gnn.one_hot, jnn.one_hot, labels, 3)
    check(gnn.one_hot, jnn.one_hot, labels, 3, dtype=jnp.int8, axis=0)
    check(gnn.one_hot, jnn.one_hot, labels, 3, dtype=bool, axis=1)
    for args in ((labels, 0), (2, 4), ([1, 2], 3), (jnp.uint8(2), 4), (labels, 2.5)):
        check_types(gnn.one_hot, jnn.one_hot, *args)
    check_types(gnn.one_hot, jnn.one_hot, labels, 3, axis=4)


# ------------------------------------------------------------------------------------ initializers

FACTORIES = [
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "xavier_normal",
    "xavier_uniform",
    "normal",
    "uniform",
    "truncated_normal",
]


def initialized(
    nn: Any, random: Any, name: str, args: tuple[Any, ...], shape: Any, *dtype: str
) -> Any:
    """What an initializer makes of a key."""
    made = getattr(nn.initializers, name)
    return (made(*args) if name not in ("zeros", "ones") else made)(random.key(3), shape, *dtype)


@contextmanager
def compared_initializers() -> Iterator[Callable[..., None]]:
    with checks_in_one_program() as check:
        ours, theirs = partial(initialized, gnn, gn.random), partial(initialized, jnn, jrandom)

        def compare(name: str, args: Any, shape: Any, *dtype: str, ulps: float = 16) -> None:
            check(ours, theirs, name, args, shape, *dtype, ulps=ulps)

        yield compare


def test_initializers() -> None:
    with compared_initializers() as compare:
        for name in FACTORIES:
            compare(name, (), (5, 7))
            compare(name, (), (3, 4), "bfloat16", ulps=2)


@pytest.mark.slow
def test_initializers_with_arguments() -> None:
    with compared_initializers() as compare:
        compare("zeros", (), (2, 3), ulps=0)
        compare("ones", (), (2, 3), "float16", ulps=0)
        compare("constant", (3.5,), (2, 3), ulps=0)
        compare("normal", (2.0, "bfloat16"), (4,), ulps=2)
        compare("truncated_normal", (1.0, "float32", -1.0, 0.5), (4,))
        for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
            compare("variance_scaling", (2.0, mode, "normal", 0, 1, (2,)), (3, 4, 5))
        for distribution in ("normal", "uniform", "truncated_normal"):
            args = (1.0, "fan_in", distribution)
            compare("variance_scaling", args, (6, 2), "complex64", ulps=64)


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ((1.0, "fan_in", "normal"), (3,)),
        ((1.0, "no", "normal"), (3, 2)),
        ((1.0, "fan_in", "no"), (3, 2)),
    ],
)
def test_initializer_errors(arguments: Any, shape: Any) -> None:
    with pytest.raises(ValueError):
        jnn.initializers.variance_scaling(*arguments)(jrandom.key(0), shape)
    with pytest.raises(ValueError, match=r"invalid|two dimensions"):
        gnn.initializers.variance_scaling(*arguments)(gn.random.key(0), shape)


# ------------------------------------------------------------------------------- special functions


def test_special_functions() -> None:
    x = jnp.array([0.1, 0.5, 1.5, 2.5, 4.0, 9.0])
    with checks_in_one_program() as check:
        for name in ("erf", "erfc", "expit", "gammaln", "digamma", "i0", "i0e", "i1", "i1e"):
            ours, theirs = getattr(gspecial, name), getattr(jspecial, name)
            # The terms of digamma cancel near its zero, 1.46.
            check(ours, theirs, x, ulps=32, scale=1.0 if name == "digamma" else 0.0)
            for value in (1, 2.5, weakly(2), jnp.arange(1, 4), jnp.ones(2, jnp.bfloat16)):
                check_types(ours, theirs, value)
            for value in ([1.0], None):
                check_types(ours, theirs, value)


def test_special_functions_of_two_arguments_and_inverses() -> None:
    with checks_in_one_program() as check:
        unit = jnp.array([-0.99, -0.5, 0.0, 0.3, 0.999])
        check(gspecial.ndtr, jspecial.ndtr, 3 * unit, ulps=16)
        check(gspecial.erfinv, jspecial.erfinv, unit, ulps=64)
        check(gspecial.logit, jspecial.logit, (unit + 1) / 2, ulps=16)
        check(gspecial.polygamma, jspecial.polygamma, 1, jnp.array([0.5, 2.0]), ulps=64)
        check(gspecial.zeta, jspecial.zeta, 2.0, jnp.array([1.0, 2.0]), ulps=64)
        check(gspecial.softmax, jspecial.softmax, sample("float32", (3, 4)), axis=1, ulps=8)
        check(
            gspecial.log_softmax, jspecial.log_softmax, sample("float32", (3, 4)), axis=1, ulps=16
        )


# ------------------------------------------------------------------------------- transformations


def test_under_transformations() -> None:
    x = gnp.asarray(sample("float32", (5, 4)))

    def loss(x: Any) -> Any:
        return gnp.sum(gnn.gelu(gnn.log_softmax(gnn.relu(x) + gnn.softplus(x))))

    eager = np.asarray(gn.grad(loss)(x))
    # The derivative of gelu adds terms of size one, which cancel. JAX's has the same error.
    assert_near(gn.jit(gn.grad(loss))(x), eager, 32, scale=1.0)
    rows = np.stack([np.asarray(gn.grad(loss)(row)) for row in x])
    assert_near(gn.vmap(gn.grad(loss))(x), rows, 32)
    assert_near(eager, rows, 32)
    assert gn.jit(lambda k: gnn.initializers.he_normal()(k, (3, 2)))(gn.random.key(0)).shape == (
        3,
        2,
    )
