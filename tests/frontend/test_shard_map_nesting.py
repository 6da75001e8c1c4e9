"""shard_map nested with each transformation, compared with the unsharded program and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.many_devices import Comparison, outcome
from tests.tolerance import assert_near

pytestmark = pytest.mark.usefixtures("devices")

# ``S`` applies a layer by eight devices, rows over x and columns of the weights over y, or by one
# device if ``SHARDED`` is false.
_BEFORE = """
m = lib.make_mesh((4, 2), ('x', 'y'), axis_types=(AxisType.Auto,) * 2)
rng = np.random.default_rng(0)
W = xnp.asarray(rng.normal(size=(3, 4)).astype(np.float32))
X = xnp.asarray(rng.normal(size=(8, 3)).astype(np.float32))
D = xnp.asarray(rng.normal(size=(8, 3)).astype(np.float32))

def plain(f):
    return f

def layer(w, x):
    return xnp.tanh(x @ w)

def whole(w, x):
    return layer(w, x).sum(1)

def cast(v):
    return lax.pcast(v, ('x', 'y'), to='varying') if SHARDED else v

def of(layer, check_vma=True):
    if not SHARDED:
        return lambda w, x: layer(w, x).sum(1)
    return lib.shard_map(
        lambda w, x: lax.psum(layer(w, x).sum(1), 'y'), mesh=m,
        in_specs=(P(None, 'y'), P('x')), out_specs=P('x'), check_vma=check_vma)

@lib.custom_vjp
def custom(w, x):
    return xnp.sin(S(w, x)).sum()
custom.defvjp(lambda w, x: (custom(w, x), (w, x)),
              lambda r, g: lib.vjp(lambda w, x: (g * S(w, x)).sum(), *r)[1](xnp.float32(2)))

@lib.custom_vjp
def inner(h):
    return xnp.tanh(h)
inner.defvjp(lambda h: (inner(h), h), lambda h, g: (3 * g * xnp.cos(h),))

@lib.custom_jvp
def inner_jvp(h):
    return xnp.tanh(h)
inner_jvp.defjvp(lambda p, t: (inner_jvp(*p), 2 * t[0] * xnp.cos(p[0])))

def loss(w, x):
    return xnp.sin(S(w, x)).sum()
"""

# Transformations of the mapped function.
AROUND = {
    "jit": "lib.jit(S)(W, X)",
    "grad": "lib.grad(loss, (0, 1))(W, X)",
    "jit of grad": "lib.jit(lib.grad(loss, (0, 1)))(W, X)",
    "grad of jit": "lib.grad(lib.jit(loss))(W, X)",
    "grad of grad": "lib.grad(lambda w: (lib.grad(loss)(w, X) ** 2).sum())(W)",
    "jvp": "lib.jvp(lambda x: S(W, x), (X,), (D,))",
    "linearize": "lib.linearize(lambda x: S(W, x), X)[1](D)",
    "vjp": "lib.vjp(S, W, X)[1](X[:, 0])",
    "vmap": "lib.vmap(S, (None, 0))(W, xnp.stack([X, D]))",
    "vmap over the last axis": "lib.vmap(S, (None, 2), 1)(W, xnp.stack([X, D], 2))",
    "vmap of grad": "lib.vmap(lib.grad(loss), (None, 0))(W, xnp.stack([X, D]))",
    "scan": "lax.scan(lambda x, d: (xnp.sin(x + d * S(W, x)[:, None]), x[0]), X, "
    "xnp.stack([X, D]))",
    "grad of scan": "lib.grad(lambda w: lax.scan(lambda x, d: (xnp.sin(x + d * S(w, x)[:, None]), "
    "None), X, xnp.stack([X, D]))[0].sum())(W)",
    "cond": "lax.cond(X[0, 0] > 0, lambda: S(W, X), lambda: S(W, D))",
    "grad of cond": "lib.grad(lambda w: lax.cond(X[0, 0] > 0, lambda: S(w, X), "
    "lambda: S(w, D)).sum())(W)",
    "while": "lax.while_loop(lambda x: x.sum() < 20, lambda x: x + abs(S(W, x))[:, None], X)",
    "fori_loop": "lax.fori_loop(0, 3, lambda i, x: x + S(W, x)[:, None], X)",
    "checkpoint": "lib.grad(lib.checkpoint(loss))(W, X)",
    "remat with a policy": "lib.grad(lib.remat(loss, "
    "policy=lib.checkpoint_policies.dots_saveable))(W, X)",
    "custom_vjp": "lib.grad(custom, (0, 1))(W, X)",
}

# Layers that apply a transformation to the shards.
INSIDE = {
    "jit": "lib.jit(layer)",
    "grad": "lambda w, x: lib.grad(lambda w: (layer(w, x) ** 2).sum() / 2)(w).sum(0) * layer(w, x)",
    "jvp": "lambda w, x: lib.jvp(lambda y: layer(w, y), (x,), (x * x,))[1]",
    "vjp": "lambda w, x: lib.vjp(lambda y: layer(w, y), x)[1](layer(w, x))[0] @ w",
    "linearize": "lambda w, x: lib.linearize(lambda y: layer(w, y), x)[1](x * x)",
    "vmap": "lambda w, x: lib.vmap(lambda r: layer(w, r))(x)",
    "scan": "lambda w, x: lax.scan(lambda c, _: (xnp.sin(c) + layer(w, x), None), "
    "cast(xnp.zeros((x.shape[0], w.shape[1]))), None, length=3)[0]",
    "scan over rows": "lambda w, x: lax.map(lambda r: layer(w, r), x)",
    "cond": "lambda w, x: lax.cond(W[0, 0] > 0, layer, lambda w, x: -layer(w, x), w, x)",
    "while": "lambda w, x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, xnp.sin(c[1])), "
    "(0, layer(w, x)))[1]",
    "checkpoint": "lib.checkpoint(layer)",
    "remat with a policy": "lib.remat(lambda w, x: xnp.sin(layer(w, x)), "
    "policy=lib.checkpoint_policies.dots_saveable)",
    "custom_vjp": "lambda w, x: inner(x @ w)",
    "custom_jvp": "lambda w, x: inner_jvp(x @ w)",
    "closure": "lambda w, x: layer(w, x) * W.sum()",
}

# The transformations of a layer. Loops without a trip count have no reverse mode, and rules of
# reverse mode have no forward mode.
USES = {
    "value": "S(W, X)",
    "jit": "lib.jit(S)(W, X)",
    "grad": "lib.grad(loss, (0, 1))(W, X)",
    "jvp": "lib.jvp(lambda x: S(W, x), (X,), (D,))",
}


def _program(layer: str, use: str, *, sharded: bool, check_vma: bool = True) -> str:
    return (
        f"SHARDED = {sharded}\n{_BEFORE}\nS = of({layer}, {check_vma})\n"
        f"out = [np.asarray(v).tolist() for v in lib.tree_util.tree_leaves({use})]"
    )


CASES = {f"{name} of it": ("layer", use) for name, use in AROUND.items()} | {
    f"{name} in it, {how}": (layer, use)
    for name, layer in INSIDE.items()
    for how, use in USES.items()
    if (name, how) not in (("while", "grad"), ("custom_vjp", "jvp"))
}


def _check(found: tuple[str, Any], expected: tuple[str, Any]) -> None:
    assert (found[0], expected[0]) == ("value", "value"), (found, expected)
    assert len(found[1]) == len(expected[1])
    for ours, theirs in zip(found[1], expected[1], strict=True):
        a, b = np.array(ours, np.float32), np.array(theirs, np.float32)
        assert_near(a, b, 64, scale=max(1.0, float(np.abs(b).max(initial=0))))


@pytest.mark.sampled(0.8)
@pytest.mark.parametrize(
    "name",
    [
        n if n.endswith(("of it", "grad")) else pytest.param(n, marks=pytest.mark.slow)
        for n in CASES
    ],
)
def test_equals_the_unsharded_program(name: str) -> None:
    layer, use = CASES[name]
    expected = outcome("gnomon", _program(layer, use, sharded=False))
    _check(outcome("gnomon", _program(layer, use, sharded=True)), expected)


# Without types, a derivative taken inside is that of one device's loss by its own copy.
OWN_COPIES = ("grad in it", "vjp in it")


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(OWN_COPIES)])
def test_equals_the_unsharded_program_unchecked(name: str) -> None:
    layer, use = CASES[name]
    expected = outcome("gnomon", _program(layer, use, sharded=False))
    found = outcome("gnomon", _program(layer, use, sharded=True, check_vma=False))
    _check(found, expected)


COMPARISON = Comparison({n: _program(*case, sharded=True) for n, case in CASES.items()})


@pytest.mark.slow
@pytest.mark.sampled(0.25)
@pytest.mark.parametrize("name", CASES)
def test_equals_jax(name: str) -> None:
    what, ours, theirs = COMPARISON.both(name)
    _check((what, ours), (what, theirs))
