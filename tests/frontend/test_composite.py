"""`lax.composite`: named operations that mean what their decomposition says."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp


@functools.partial(gn.lax.composite, name="my.scaled", version=3)
def scaled(x: Any, /, *, factor: Any = 2) -> dict[str, Any]:
    return {"scaled": gnp.sin(x) * factor, "x": x}


def test_it_means_its_decomposition() -> None:
    x = gnp.arange(3.0)
    bias = gnp.ones(3)

    def several(x: Any) -> Any:
        closed = gn.lax.composite(lambda a: a + bias + x, "closed")(x)
        return scaled(x, factor=3)["scaled"], gn.vmap(scaled)(x)["scaled"], closed

    want = 3 * np.sin(np.arange(3.0)), 2 * np.sin(np.arange(3.0)), 2 * np.arange(3.0) + 1
    for found in (several(x), gn.jit(several)(x)):
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6)


def test_the_program_has_its_name() -> None:
    text = str(gn.make_jaxpr(functools.partial(scaled, factor=5))(1.0))
    assert '"gnomon.composite"' in text
    assert 'name = "my.scaled"' in text
    assert "version = 3" in text
    assert "'factor': 5" in text


def test_it_needs_a_rule_to_be_differentiated() -> None:
    with pytest.raises(ValueError, match=r"my\.scaled.*custom_jvp"):
        gn.grad(lambda x: scaled(x)["scaled"])(1.0)

    @gn.custom_jvp
    def known(x: Any) -> Any:
        return scaled(x)["scaled"]

    known.defjvp(lambda x, t: (known(*x), 2 * gnp.cos(x[0]) * t[0]))
    np.testing.assert_allclose(float(gn.grad(known)(1.0)), 2 * np.cos(1.0), rtol=1e-6)


def test_attributes_cannot_be_traced_arrays() -> None:
    with pytest.raises(gn.errors.UnexpectedTracerError, match="by position"):
        gn.jit(lambda k: scaled(1.0, factor=k))(2.0)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        jax.jit(lambda k: jax.lax.composite(lambda x, *, k: x * k, "a")(1.0, k=k))(2.0)
