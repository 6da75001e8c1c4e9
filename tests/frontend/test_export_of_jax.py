"""Exported functions between gnomon and JAX: JAX's bytes are read here, and ours by JAX."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import jax
import jax.export as jax_export
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import export
from gnomon_runtime import ArtifactError
from tests.tolerance import assert_each_near

pytest.importorskip("flatbuffers", reason="JAX serializes with this package")

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


class Pair(NamedTuple):
    first: Any
    second: Any


jax_export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")
export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")

ARGUMENTS = ({"x": X, "unused": np.zeros(2, np.int32)},)
KEYWORDS = {"k": [np.float32(2), np.int32(3)]}


def structured(np_like: Any, a: Any, *, k: Any) -> Any:
    """Unused arguments, integers, and every kind of node."""
    x = a["x"]
    rest = collections.OrderedDict(z=x[0], b=k[0] * 2)
    return {
        "r": np_like.sin(x) * k[0] + np_like.asarray(X),
        "s": (Pair(x.sum(0), None), [k[1]], rest),
    }


def twice(m: Any, grad: Any, exported: Any) -> tuple[Any, Any]:
    """The first and the second derivative of a function like `structured`."""

    def loss(x: Any) -> Any:
        return m.sum(exported.call({**ARGUMENTS[0], "x": x}, **KEYWORDS)["r"] ** 2)

    return grad(loss)(X), grad(lambda x: m.sum(grad(loss)(x) ** 2))(X)


def test_functions_with_trees_and_derivatives() -> None:
    theirs = jax_export.export(jax.jit(lambda a, k: structured(jnp, a, k=k)))(
        *ARGUMENTS, **KEYWORDS
    )
    ours = export.export(gn.jit(lambda a, k: structured(gnp, a, k=k)))(*ARGUMENTS, **KEYWORDS)
    here = export.deserialize(theirs.serialize(2))
    there = jax_export.deserialize(ours.serialize(2, format="jax"))
    assert (here.in_tree, here.out_tree) == (ours.in_tree, ours.out_tree)
    assert (there.in_tree, there.out_tree) == (theirs.in_tree, theirs.out_tree)
    assert (here.fun_name, here.platforms, here.nr_devices) == ("<lambda>", ("cpu",), 1)
    wanted = jax.tree.leaves(theirs.call(*ARGUMENTS, **KEYWORDS))
    for read, derivatives in (
        (here, twice(gnp, gn.grad, here)),
        (there, twice(jnp, jax.grad, there)),
        (export.deserialize(here.serialize(2)), ()),
    ):
        assert_each_near(jax.tree.leaves(read.call(*ARGUMENTS, **KEYWORDS)), wanted, 8)
        for actual, expected in zip(derivatives, twice(jnp, jax.grad, theirs), strict=False):
            assert_each_near(np.asarray(actual), np.asarray(expected), 64)
    without = export.deserialize(theirs.serialize())
    with pytest.raises(ValueError, match="pass vjp_order to serialize"):
        without.vjp()


def test_symbolic_dimensions() -> None:
    def function(m: Any) -> Any:
        return lambda x, y: m.exp(x @ y.T) + m.asarray(X[:1, :1])

    specs, y = ("b, 2*c", "5, 2*c"), np.full((5, 4), 0.1, np.float32)

    def types(e: Any, struct: Any) -> list[Any]:
        scope = e.SymbolicScope()
        return [struct(e.symbolic_shape(s, scope=scope), np.float32) for s in specs]

    theirs = jax_export.export(jax.jit(function(jnp)))(*types(jax_export, jax.ShapeDtypeStruct))
    ours = export.export(gn.jit(function(gnp)))(*types(export, gn.ShapeDtypeStruct))
    here = export.deserialize(theirs.serialize(1))
    there = jax_export.deserialize(ours.serialize(1, format="jax"))
    assert list(map(str, here.in_avals[0].shape)) == ["b", "2*c"]
    wanted = np.exp(X @ y.T) + X[:1, :1]
    for read, m, grad in (here, gnp, gn.grad), (there, jnp, jax.grad):
        np.testing.assert_allclose(read.call(X, y), wanted, 1e-6)
        np.testing.assert_allclose(read.call(X[:2], y), wanted[:2], 1e-6)
        gradient = grad(lambda x, m=m, read=read: m.sum(read.call(x, y)))(X)
        np.testing.assert_allclose(gradient, np.exp(X @ y.T) @ y, 1e-5)
        with pytest.raises(ValueError, match="Division had remainder 1"):
            read.call(X[:, :3], y[:, :3])
    with pytest.raises(NotImplementedError, match="has no program for all sizes"):
        here.serialize()


def test_several_platforms() -> None:
    def chosen(x: Any) -> Any:
        return jax.lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos)

    theirs = jax_export.export(jax.jit(chosen), platforms=("cuda", "cpu"))(X)
    here = export.deserialize(theirs.serialize())
    np.testing.assert_allclose(here.call(X), np.sin(X), 1e-6)
    ours = export.export(gn.jit(gnp.cos), platforms=("cuda", "cpu"))(X)
    data = ours.serialize(format="jax")
    for read in jax_export.deserialize(data), export.deserialize(data):
        np.testing.assert_allclose(read.call(X), np.cos(X), 1e-6)


def test_what_has_no_counterpart_is_refused_by_name() -> None:
    key = jax.random.key(0)
    with pytest.raises(ArtifactError, match=r"random keys \(threefry2x32\)"):
        export.deserialize(jax_export.export(jax.jit(jax.random.bits))(key).serialize())
    for function, message in (
        (gn.lax.linalg.svd, "which only gnomon runs"),
        (lambda x: {1: x}, "keys of dictionaries in JAX's exports must be str"),
        (lambda x: gn.random.key(0), "gnomon.KeyArray, which JAX does not have"),
    ):
        exported = export.export(gn.jit(function))(X)
        with pytest.raises((NotImplementedError, ValueError), match=message):
            exported.serialize(format="jax")
    vulkan = export.export(gn.jit(gnp.sin), platforms=["vulkan"])(X)
    with pytest.raises(NotImplementedError, match="'vulkan', which JAX does not have"):
        vulkan.serialize(format="jax")
    with pytest.raises(ValueError, match="'gnomon' or 'jax', got 'onnx'"):
        vulkan.serialize(format="onnx")
