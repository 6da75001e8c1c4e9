"""gnomon.nn and gnomon.scipy.special against JAX: values, types, derivatives at kinks."""

from __future__ import annotations

from collections.abc import Callable
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
from tests.frontend.oracle import assert_close, check, check_types, sample, weakly
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


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_values(name: str) -> None:
    x = jnp.array([*POINTS, -jnp.inf, jnp.inf, jnp.nan])
    check(getattr(gnn, name), getattr(jnn, name), x, ulps=8)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_types(name: str) -> None:
    ours, theirs = getattr(gnn, name), getattr(jnn, name)
    for dtype in ("bfloat16", "float16", "float32", "int32", "int8", "bool"):
        for shape in ((), (2, 3), (0,)):
            check_types(ours, theirs, sample(dtype, shape))
    for value in (1.5, 2, weakly(1.5), weakly(2), np.float32(1), None, [1.0], "a"):
        check_types(ours, theirs, value)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_derivatives(name: str) -> None:
    # That of `relu` at nan is 1 here, so that the nan remains visible (docs/differences.md).
    points = np.array([*POINTS, *([] if name == "relu" else [np.nan])], np.float32)
    theirs = jax.vmap(jax.grad(getattr(jnn, name)))(points)
    ours = gn.vmap(gn.grad(getattr(gnn, name)))(points)
    assert_close(np.asarray(ours), np.asarray(theirs), ulps=32, scale=1.0)


@pytest.mark.parametrize("name", ["relu", "softplus", "silu", "gelu", "elu", "log_sigmoid"])
def test_activation_second_derivatives(name: str) -> None:
    points = np.array(POINTS, np.float32)
    theirs = jax.vmap(jax.grad(jax.grad(getattr(jnn, name))))(points)
    ours = gn.vmap(gn.grad(gn.grad(getattr(gnn, name))))(points)
    assert_close(np.asarray(ours), np.asarray(theirs), ulps=16, scale=1.0)


def test_activation_arguments() -> None:
    x = sample("float32", (3, 4))
    for name, argument in (("elu", 0.3), ("celu", 2.0), ("leaky_relu", 0.2), ("squareplus", 1)):
        check(getattr(gnn, name), getattr(jnn, name), x, argument, ulps=8)
    check(gnn.gelu, jnn.gelu, x, approximate=False, ulps=8)
    check(gnn.glu, jnn.glu, x, ulps=8)
    check(gnn.glu, jnn.glu, sample("float32", (4, 3)), axis=0, ulps=8)
    with pytest.raises(ValueError, match="even"):
        gnn.glu(np.ones(3, np.float32))


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


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name: str) -> None:
    ours, theirs = getattr(gnn, name), getattr(jnn, name)
    x = sample("float32", (3, 4))
    large = jnp.array([1000.0, 1001.0, -1e6])
    for args in ((x,), (x, 0), (x, (0, 1)), (x, None), (large,), (x, 1, MASK)):
        check(ours, theirs, *args, ulps=8)
    for dtype in ("bfloat16", "int32", "float16"):
        check_types(ours, theirs, sample(dtype, (3, 4)))
    check_types(ours, theirs, x, 2)
    check_types(ours, theirs, [1.0, 2.0])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_softmax_derivatives(name: str) -> None:
    ours, theirs = getattr(gnn, name), getattr(jnn, name)
    for values in ([0.5, -1.0, 2.0], [1000.0, 1000.0, -1000.0], [3.0, 3.0, 3.0]):
        x = np.array(values, np.float32)
        expected = np.asarray(jax.jacrev(theirs)(x))
        for transformation in (gn.jacrev, gn.jacfwd):
            assert_close(np.asarray(transformation(ours)(x)), expected, ulps=8)
        assert_close(
            np.asarray(gn.jacfwd(gn.jacrev(ours))(x)),
            np.asarray(jax.jacfwd(jax.jacrev(theirs))(x)),
            ulps=8,
        )


def test_logsumexp() -> None:
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


def compare_initializers(build: Callable[[Any], Any], *args: Any, **tolerance: Any) -> None:
    ours = build(gnn.initializers)(gn.random.key(3), *args)
    theirs = build(jnn.initializers)(jrandom.key(3), *args)
    assert (ours.shape, ours.dtype, ours.weak_type) == (theirs.shape, theirs.dtype, False)
    assert_close(np.asarray(ours), np.asarray(theirs), **tolerance)


@pytest.mark.parametrize("name", FACTORIES)
def test_initializers(name: str) -> None:
    close = {"ulps": 16}
    compare_initializers(lambda m: getattr(m, name)(), (5, 7), **close)
    compare_initializers(lambda m: getattr(m, name)(), (3, 4), "bfloat16", ulps=2)


@pytest.mark.slow
def test_initializers_with_arguments() -> None:
    close = {"ulps": 16}
    compare_initializers(lambda m: m.zeros, (2, 3))
    compare_initializers(lambda m: m.ones, (2, 3), "float16")
    compare_initializers(lambda m: m.constant(3.5), (2, 3))
    compare_initializers(lambda m: m.normal(2.0, "bfloat16"), (4,), ulps=2)
    compare_initializers(lambda m: m.truncated_normal(1.0, lower=-1.0, upper=0.5), (4,), **close)
    for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        compare_initializers(
            lambda m: m.variance_scaling(2.0, mode, "normal", 0, 1, (2,)),  # noqa: B023
            (3, 4, 5),
            **close,
        )
    for distribution in ("normal", "uniform", "truncated_normal"):
        compare_initializers(
            lambda m: m.variance_scaling(1.0, "fan_in", distribution),  # noqa: B023
            (6, 2),
            "complex64",
            ulps=64,
        )


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


@pytest.mark.parametrize(
    "name", ["erf", "erfc", "expit", "gammaln", "digamma", "i0", "i0e", "i1", "i1e"]
)
def test_special_functions(name: str) -> None:
    ours, theirs = getattr(gspecial, name), getattr(jspecial, name)
    x = jnp.array([0.1, 0.5, 1.5, 2.5, 4.0, 9.0])
    # The terms of digamma cancel near its zero, 1.46.
    check(ours, theirs, x, ulps=32, scale=1.0 if name == "digamma" else 0.0)
    for value in (1, 2.5, weakly(2), jnp.arange(1, 4), jnp.ones(2, jnp.bfloat16), [1.0], None):
        check_types(ours, theirs, value)


def test_special_functions_of_two_arguments_and_inverses() -> None:
    unit = jnp.array([-0.99, -0.5, 0.0, 0.3, 0.999])
    check(gspecial.ndtr, jspecial.ndtr, 3 * unit, ulps=16)
    check(gspecial.erfinv, jspecial.erfinv, unit, ulps=64)
    check(gspecial.logit, jspecial.logit, (unit + 1) / 2, ulps=16)
    check(gspecial.polygamma, jspecial.polygamma, 1, jnp.array([0.5, 2.0]), ulps=64)
    check(gspecial.zeta, jspecial.zeta, 2.0, jnp.array([1.0, 2.0]), ulps=64)
    check(gspecial.softmax, jspecial.softmax, sample("float32", (3, 4)), axis=1, ulps=8)
    check(gspecial.log_softmax, jspecial.log_softmax, sample("float32", (3, 4)), axis=1, ulps=16)


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
