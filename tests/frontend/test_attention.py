"""Attention and the initializers that take linear algebra, against JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import gnomon as gn
from tests.frontend.oracle import checks_in_one_program
from tests.tolerance import assert_near

RNG = np.random.default_rng(0)
QUERY = RNG.normal(size=(2, 6, 4, 8)).astype(np.float32)
KEY, VALUE = (RNG.normal(size=(2, 7, 2, 8)).astype(np.float32) for _ in range(2))
BIAS = RNG.normal(size=(1, 4, 6, 7)).astype(np.float32)
MASK = RNG.uniform(size=(2, 1, 6, 7)) > 0.3

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bias and mask": {"bias": BIAS, "mask": MASK, "scale": 0.3},
    "causal": {"is_causal": True},
    "window and lengths": {
        "local_window_size": (1, 0),
        "query_seq_lengths": np.array([3, 6]),
        "key_value_seq_lengths": np.array([7, 2]),
    },
}


def test_attention() -> None:
    ours, theirs = gn.nn.dot_product_attention, jax.nn.dot_product_attention
    arrays = [jax.numpy.asarray(x) for x in (QUERY, KEY, VALUE)]
    with checks_in_one_program() as check:
        for kwargs in CASES.values():
            check(ours, theirs, *arrays, ulps=8, weak=False, together=True, **kwargs)


def test_attention_compiled_with_gradient() -> None:
    def loss(api: Any) -> Any:
        attend = api.nn.dot_product_attention
        return lambda q: attend(q, KEY[0], VALUE[0], is_causal=True).sum()

    ours = gn.jit(gn.grad(loss(gn)))(QUERY[0])
    assert_near(ours, jax.jit(jax.grad(loss(jax)))(QUERY[0]), 16)


def test_errors() -> None:
    with pytest.raises(ValueError, match="a multiple of those of the keys"):
        gn.nn.dot_product_attention(QUERY[:, :, :3], KEY, VALUE)
    with pytest.raises(NotImplementedError, match="cudnn"):
        gn.nn.dot_product_attention(QUERY, KEY, VALUE, implementation="cudnn")
    with pytest.raises(ValueError, match="orthogonal initializer requires"):
        gn.nn.initializers.orthogonal()(gn.random.key(0), (3,))


def test_orthogonal_initializers() -> None:
    ours, theirs = gn.nn.initializers, jax.nn.initializers
    for name, shape in (("orthogonal", (3, 4, 5)), ("delta_orthogonal", (3, 3, 4, 5))):
        found = getattr(ours, name)(2.0)(gn.random.key(3), shape)
        expected = getattr(theirs, name)(2.0)(jax.random.key(3), shape)
        assert_near(found, expected, 8)
