"""Layers: parameters, shapes and outputs compared with JAX's stax for the same keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.example_libraries import stax as theirs

import gnomon as gn
from gnomon.example_libraries import stax as ours
from tests.sample import sample
from tests.tolerance import assert_near

Make = Callable[[Any], Any]

IMAGE = (2, 6, 7, 3)
ACTIVATIONS = (
    *("Tanh", "Relu", "Exp", "LogSoftmax", "Softmax", "Softplus"),
    *("Sigmoid", "Elu", "LeakyRelu", "Selu", "Gelu"),
)
LAYERS: dict[str, tuple[Make, Any]] = {
    "Dense": (lambda s: s.Dense(4), (2, 5)),
    "Dense of a cube": (lambda s: s.Dense(4), (2, 3, 5)),
    "Conv": (lambda s: s.Conv(4, (3, 3)), IMAGE),
    "Conv same": (lambda s: s.Conv(4, (3, 2), strides=(2, 1), padding="SAME"), IMAGE),
    "Conv padded": (lambda s: s.Conv(2, (3, 3), padding=((1, 2), (0, 1))), IMAGE),
    "GeneralConv": (
        lambda s: s.GeneralConv(("NCHW", "OIHW", "NHWC"), 4, (3, 3)),
        (2, 3, 6, 7),
    ),
    "ConvTranspose": (lambda s: s.ConvTranspose(4, (3, 3), strides=(2, 2)), IMAGE),
    "Conv1DTranspose": (lambda s: s.Conv1DTranspose(4, (3,), padding="SAME"), (2, 6, 3)),
    "BatchNorm": (lambda s: s.BatchNorm(), IMAGE),
    "BatchNorm of rows": (lambda s: s.BatchNorm(axis=0, center=False), (5, 4)),
    "BatchNorm bare": (lambda s: s.BatchNorm(axis=(0, 1), scale=False), (5, 4, 3)),
    "MaxPool": (lambda s: s.MaxPool((2, 2)), IMAGE),
    "MaxPool strided": (lambda s: s.MaxPool((2, 3), strides=(2, 2), padding="SAME"), IMAGE),
    "SumPool": (lambda s: s.SumPool((2, 2), spec="NCHW"), (2, 3, 6, 7)),
    "AvgPool": (lambda s: s.AvgPool((3, 2), padding="SAME"), IMAGE),
    "AvgPool in one dimension": (lambda s: s.AvgPool((3,), spec="NWC"), (2, 6, 3)),
    "Flatten": (lambda s: s.Flatten, IMAGE),
    "Identity": (lambda s: s.Identity, (2, 5)),
    **{
        name: (lambda s, name=name: getattr(s, name), (3, 5))  # type: ignore[misc]
        for name in ACTIVATIONS
    },
    "elementwise": (
        lambda s: s.elementwise(lambda x, scale: x * scale, scale=2.0),
        (3, 5),
    ),
    "serial": (lambda s: s.serial(s.Dense(8), s.Tanh, s.Dense(3), s.LogSoftmax), (4, 5)),
    "parallel": (
        lambda s: s.serial(
            s.FanOut(3),
            s.parallel(s.Dense(4), s.serial(s.Dense(4), s.Relu), s.Identity),
            s.FanInSum,
        ),
        (2, 4),
    ),
    "concatenated": (
        lambda s: s.serial(s.FanOut(2), s.parallel(s.Dense(3), s.Dense(4)), s.FanInConcat()),
        (2, 4),
    ),
    "shape_dependent": (
        lambda s: s.shape_dependent(lambda shape: s.Dense(shape[-1] // 2)),
        (2, 6),
    ),
    "residual block": (
        lambda s: s.serial(
            s.FanOut(2),
            s.parallel(
                s.serial(s.Conv(3, (3, 3), padding="SAME"), s.BatchNorm(), s.Relu), s.Identity
            ),
            s.FanInSum,
            s.AvgPool((2, 2), strides=(2, 2)),
            s.Flatten,
            s.Dense(5),
        ),
        IMAGE,
    ),
    "kept": (lambda s: s.serial(s.Dropout(0.4, mode="test"), s.Dense(3)), (2, 5)),
}


def numbers(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.tree.map(np.asarray, tree))]


def plain(shape: Any) -> Any:
    return [plain(s) for s in shape] if isinstance(shape, list) else tuple(int(d) for d in shape)


def test_layers_are_those_of_jax() -> None:
    names = sample(LAYERS, len(LAYERS) // 4, __name__)
    rng = np.random.default_rng(0)
    inputs = {n: np.float32(rng.normal(size=LAYERS[n][1])) for n in names}
    made = {name: LAYERS[name][0](ours) for name in names}
    shapes, params, their_shapes = {}, {}, {}
    for name, (init, _) in made.items():
        shapes[name], params[name] = init(gn.random.PRNGKey(1), LAYERS[name][1])

    @jax.jit
    def expected(inputs: dict[str, Any]) -> Any:
        found = {}
        for name in names:
            make, shape = LAYERS[name]
            init, apply = make(theirs)
            their_shapes[name], their_params = init(jax.random.PRNGKey(1), shape)
            out = apply(their_params, inputs[name], rng=jax.random.PRNGKey(2))
            found[name] = their_params, out
        return found

    def applied(params: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        key = gn.random.PRNGKey(2)
        return {name: made[name][1](params[name], inputs[name], rng=key) for name in names}

    wanted = expected(inputs)
    results = applied(params, inputs), gn.jit(applied)(params, inputs)
    for name, (their_params, out) in wanted.items():
        assert plain(shapes[name]) == plain(their_shapes[name]), name
        for a, b in zip(numbers(params[name]), numbers(their_params), strict=True):
            assert a.shape == b.shape, name
            assert_near(a, b, units=8.0, message=name)
        for result in results:
            found = np.asarray(result[name])
            assert found.shape == plain(shapes[name]), name
            # Sums of some dozens of products of the size of one.
            assert_near(found, np.asarray(out), units=64.0, scale=1.0, message=name)


def test_dropout_keeps_what_jax_keeps() -> None:
    inputs = np.ones((50, 4), np.float32)
    _, apply = ours.Dropout(0.3)
    _, their_apply = theirs.Dropout(0.3)
    found = apply((), gn.numpy.asarray(inputs), rng=gn.random.PRNGKey(3))
    expected = their_apply((), inputs, rng=jax.random.PRNGKey(3))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    with pytest.raises(ValueError, match="PRNG key"):
        apply((), inputs)


@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.serial(s.Conv(4, (3, 3)), s.Relu, s.Conv(2, (1, 1))),
        lambda s: s.BatchNorm(),
        lambda s: s.ConvTranspose(4, (3, 3)),
    ],
)
def test_a_batch_of_any_size(make: Make) -> None:
    shape, _ = make(ours)[0](gn.random.PRNGKey(0), (-1, 6, 7, 3))
    their_shape, _ = make(theirs)[0](jax.random.PRNGKey(0), (-1, 6, 7, 3))
    assert plain(shape) == plain(their_shape)


def test_pooling_keeps_a_batch_of_any_size() -> None:
    """JAX returns a batch dimension of 0."""
    assert ours.MaxPool((2, 2), strides=(2, 2))[0](None, (-1, 5, 5, 2))[0] == (-1, 2, 2, 2)


def test_a_network_learns() -> None:
    from gnomon.example_libraries import optimizers

    init, predict = ours.serial(ours.Dense(16), ours.Tanh, ours.Dense(1))
    _, params = init(gn.random.key(0), (-1, 2))
    x = gn.random.normal(gn.random.key(1), (64, 2))
    y = (x[:, :1] * x[:, 1:]).clip(-1, 1)
    start, update, get_params = optimizers.adam(0.02)

    def loss(params: Any) -> Any:
        return ((predict(params, x) - y) ** 2).mean()

    @gn.jit
    def step(i: Any, state: Any) -> Any:
        return update(i, gn.grad(loss)(get_params(state)), state)

    state = start(params)
    before = float(loss(params))
    for i in range(150):
        state = step(i, state)
    assert float(loss(get_params(state))) < before / 5
