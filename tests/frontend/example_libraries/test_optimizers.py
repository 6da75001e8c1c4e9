"""Optimizers: each rule compared with JAX's for several steps, on trees and under jit; errors."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import numpy as np
import pytest
from jax.example_libraries import optimizers as theirs

import gnomon as gn
from gnomon.example_libraries import optimizers as ours
from tests.tolerance import assert_near

RULES: dict[str, tuple[Any, ...]] = {
    "sgd": (0.1,),
    "momentum": (0.1, 0.9),
    "nesterov": (0.1, 0.9),
    "adagrad": (0.1,),
    "rmsprop": (0.1,),
    "rmsprop_momentum": (0.1,),
    "adam": (0.1,),
    "adamax": (0.1,),
    "sm3": (0.1,),
}
STEPS = 8


def parameters(empty: bool = True) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "scalar": np.float32(1.5),
        "layers": [np.float32(rng.normal(size=(3, 4))), np.float32(rng.normal(size=(5,)))],
        "deep": np.float32(rng.normal(size=(2, 3, 2))),
        "empty": np.zeros((0, 3) if empty else (1, 3), np.float32),
    }


def gradients(step: int, empty: bool = True) -> Any:
    rng = np.random.default_rng(step + 1)

    def draw(x: Any) -> Any:
        g = np.float32(rng.normal(size=np.shape(x)))
        # Zeros, by which no rule may divide.
        return np.where(np.abs(g) < 0.3, np.float32(0), g)

    return jax.tree.map(draw, parameters(empty))


def trained(library: Any, jit: Any, rules: dict[str, tuple[Any, ...]]) -> list[tuple[str, Any]]:
    """The parameters after each step by each rule; one program has the steps of all rules."""
    made = {name: getattr(library, name)(*rule) for name, rule in rules.items()}
    empty = {name: name != "sm3" for name in rules}  # JAX's rule refuses empty arrays
    states = {name: made[name][0](parameters(empty[name])) for name in rules}

    @jit
    def update(step: Any, given: Any, states: Any) -> Any:
        return {name: made[name][1](step, given[name], states[name]) for name in rules}

    seen = []
    for step in range(STEPS):
        states = update(step, {n: gradients(step, empty[n]) for n in rules}, states)
        for name in rules:
            leaves = jax.tree.leaves(jax.tree.map(np.asarray, made[name][2](states[name])))
            seen += [(name, leaf) for leaf in leaves]
    return seen


def check_rules(rules: dict[str, tuple[Any, ...]], other: dict[str, tuple[Any, ...]]) -> None:
    expected = trained(theirs, jax.jit, other)
    for found in (trained(ours, lambda f: f, rules), trained(ours, gn.jit, rules)):
        for (name, x), (_, y) in zip(found, expected, strict=True):
            # JAX's sm3 makes vectors of scalars.
            # Each step adds roundings of a few operations at the size of the parameters.
            assert_near(x, y.reshape(x.shape), units=8.0 * STEPS, scale=4.0, message=name)


@pytest.mark.slow
def test_rules_are_those_of_jax() -> None:
    check_rules(RULES, RULES)


def test_a_rule_takes_a_schedule() -> None:
    mine, other = (m.polynomial_decay(0.1, 5, 0.01) for m in (ours, theirs))
    check_rules({"momentum": (mine, 0.9)}, {"momentum": (other, 0.9)})


SCHEDULES: dict[str, tuple[Any, ...]] = {
    "constant": (0.3,),
    "exponential_decay": (0.3, 4, 0.5),
    "inverse_time_decay": (0.3, 4, 0.5),
    "inverse_time_decay ": (0.3, 4, 0.5, True),
    "polynomial_decay": (0.3, 6, 0.05, 2.0),
    "piecewise_constant": ([2, 5], [0.5, 0.25, 0.125]),
}


def test_schedules_are_those_of_jax() -> None:
    def rates(library: Any) -> Any:
        made = {n: getattr(library, n.strip())(*given) for n, given in SCHEDULES.items()}
        return lambda step: {n: np.float32(1) * schedule(step) for n, schedule in made.items()}

    mine, compiled, other = rates(ours), gn.jit(rates(ours)), jax.jit(rates(theirs))
    for step in (0, 1, 2, 3, 5, 6, 7, 100):
        for name, rate in other(step).items():
            for found in (mine(step), compiled(step)):
                assert_near(np.float32(found[name]), np.float32(rate), units=4.0, message=name)


def test_errors_of_schedules() -> None:
    with pytest.raises(ValueError, match="one shorter"):
        ours.piecewise_constant([1, 2], [0.1, 0.2])
    with pytest.raises(ValueError, match="sequences"):
        ours.piecewise_constant(1, [0.1, 0.2])
    with pytest.raises(TypeError, match="scalar or a function"):
        ours.make_schedule([0.1, 0.2])
    with pytest.raises(TypeError, match="scalar or a function"):
        ours.sgd([0.1, 0.2])


def test_gradients_of_another_structure_are_refused() -> None:
    init, update, _ = ours.sgd(0.1)
    with pytest.raises(TypeError, match="did not match the parameter tree structure"):
        update(0, [1.0], init({"a": 1.0}))


def test_a_state_that_changes_its_structure_is_refused() -> None:
    @ours.optimizer
    def growing() -> Any:
        return lambda x: (x,), lambda i, g, s: (*s, g), lambda s: s[0]

    init, update, _ = growing()
    with pytest.raises(TypeError, match="output structure"):
        update(0, [1.0], init([1.0]))


def test_norm_and_clipping() -> None:
    tree = gradients(0)
    assert_near(np.asarray(ours.l2_norm(tree)), np.asarray(theirs.l2_norm(tree)), units=8.0)
    assert float(ours.l2_norm({"a": 3.0, "b": [4.0]})) == 5.0
    for bound in (0.5, 100.0):
        found = gn.tree.leaves(gn.jit(ours.clip_grads)(tree, bound))
        expected = jax.tree.leaves(theirs.clip_grads(tree, bound))
        for x, y in zip(found, expected, strict=True):
            assert_near(np.asarray(x), np.asarray(y), units=16.0)


def test_a_state_survives_a_pickle() -> None:
    init, update, _ = ours.adam(0.1)
    state = update(0, gradients(0), init(parameters()))
    unpacked = ours.unpack_optimizer_state(state)
    assert isinstance(unpacked["scalar"], ours.JoinPoint)
    again = ours.pack_optimizer_state(pickle.loads(pickle.dumps(unpacked)))
    assert gn.tree.structure(again) == gn.tree.structure(state)
    for step in range(1, 3):
        state = update(step, gradients(step), state)
        again = update(step, gradients(step), again)
    for x, y in zip(gn.tree.leaves(again), gn.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    with pytest.raises(TypeError, match="JoinPoint"):
        ours.pack_optimizer_state({"w": gn.numpy.ones(2)})


def test_sm3_takes_empty_arrays() -> None:
    init, update, get_params = ours.sm3(0.1)
    state = update(0, gradients(0), init(parameters()))
    assert get_params(state)["empty"].shape == (0, 3)


def test_a_state_goes_through_transformations() -> None:
    """The state is a pytree: it is scanned over, mapped, and differentiated through."""
    init, update, get_params = ours.momentum(0.05, 0.9)

    def final(start: Any) -> Any:
        def step(state: Any, i: Any) -> Any:
            g = gn.grad(lambda p: ((p["x"] - 3.0) ** 2).sum())(get_params(state))
            return update(i, g, state), None

        state, _ = gn.lax.scan(step, init({"x": start}), gn.numpy.arange(60))
        return get_params(state)["x"].sum()

    start = gn.numpy.array([0.0, 1.0])
    assert abs(float(gn.jit(final)(start)) - 6.0) < 0.5
    # The iteration is affine in its start, so its derivative is the same everywhere.
    derivative = np.asarray(gn.jit(gn.grad(final))(start))
    difference = float(final(start + 1.0) - final(start)) / 2.0
    assert_near(derivative, np.full(2, difference, np.float32), units=64.0, scale=1.0)
    mapped = gn.vmap(final)(gn.numpy.stack([start, start + 1]))
    assert_near(np.asarray(mapped[0]), np.asarray(final(start)), units=16.0)
