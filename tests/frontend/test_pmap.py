"""pmap compared with JAX on eight devices, and what it supports beyond JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.frontend.many_devices import Comparison
from tests.tolerance import assert_near

pytestmark = pytest.mark.usefixtures("devices")

_BEFORE = """
rng = np.random.default_rng(0)
V = rng.normal(size=8).astype(np.float32)
A = rng.normal(size=(4, 3)).astype(np.float32)
B = rng.normal(size=(4, 4, 2)).astype(np.float32)
G = [[0, 3], [1, 2]]
p = lib.pmap
"""

VALUES = {
    "plain": "p(lambda v: v * 2)(V)",
    "psum": "p(lambda v: v / lax.psum(v, 'i'), 'i')(V)",
    "arguments": "p(lambda a, b, *, c: a * b + c, in_axes=(0, None))(A, 2.0, c=A)",
    "in_axes": "p(lambda a: a.sum(), in_axes=1)(A)",
    "in_axes of a tree": "p(lambda t: t['a'] + t['b'], in_axes=({'a': 0, 'b': None},))("
    "{'a': A, 'b': A[0]})",
    "out_axes": "p(lambda a: a * 2, out_axes=1)(A)",
    "out_axes of none": "p(lambda a: a * 2, out_axes=None)(A)",
    "static": "p(lambda a, n, b: a * n - b, static_broadcasted_argnums=1)(A, 3, A)",
    "static of several": "p(lambda f, a, n: f(a) * n, static_broadcasted_argnums=(0, 2), "
    "in_axes=(None, 0, None))(xnp.sin, A, 2)",
    "axis_size": "p(lambda a: a + 1, axis_size=4)(A)",
    "devices": "p(lambda a: a + 1, devices=lib.devices()[4:])(A)",
    "backend": "p(lambda a: a + 1, backend='cpu')(A)",
    "donated": "p(lambda a: a + 1, donate_argnums=0)(A)",
    "groups": "p(lambda v: lax.psum(v, 'i', axis_index_groups=G), 'i')(A)",
    "groups of a gather": "p(lambda v: lax.all_gather(v, 'i', axis_index_groups=G), 'i')(A)",
    "groups of a scatter": "p(lambda b: lax.psum_scatter(b[:2], 'i', axis_index_groups=G), 'i')(B)",
    "groups of an exchange": "p(lambda b: lax.all_to_all(b, 'i', 0, 1, axis_index_groups=G, "
    "tiled=True), 'i')(B)",
    "index and size": "p(lambda v: v * lax.axis_index('i') + lax.axis_size('i'), 'i')(V)",
    "permutation": "p(lambda v: lax.ppermute(v, 'i', [(0, 1), (1, 0)]), 'i')(A)",
    "shuffle": "p(lambda v: lax.pshuffle(v, 'i', [3, 0, 2, 1]), 'i')(A)",
    "pswapaxes": "p(lambda b: lax.pswapaxes(b, 'i', 0), 'i')(B)",
    "of grad": "p(lib.grad(lambda a: lax.psum((a**2).sum(), 'i')), 'i')(A)",
    "under grad": "lib.grad(lambda a: p(lambda r: xnp.sin(lax.psum(r, 'i') * r), 'i')(a).sum())(A)",
    "under grad with groups": "lib.grad(lambda a: p(lambda r: xnp.sin(lax.psum(r, 'i', "
    "axis_index_groups=G) * r), 'i')(a).sum())(A)",
    "in jit": "lib.jit(lambda a: p(lambda r: r - lax.pmean(r, 'i'), 'i')(a) * 2)(A)",
    "of vmap": "p(lib.vmap(lambda r: r * lax.psum(r, 'i')), 'i')(A)",
    "of a scan": "p(lambda r: lax.scan(lambda c, x: (c + lax.psum(x, 'i'), c), 0.0, r)[1], 'i')(A)",
    "no axis in common": "p(lambda a, b: a + b)(A, A[:3])",
    "too many": "p(lambda v: v)(np.zeros(9))",
    "nothing mapped": "p(lambda v: v, in_axes=None)(A)",
    "another axis_size": "p(lambda a: a, axis_size=3)(A)",
    "other devices": "p(lambda a: a, devices=lib.devices()[:2])(A)",
    "static beyond the arguments": "p(lambda a: a, static_broadcasted_argnums=1)(A)",
}
REFUSED = {
    *("no axis in common", "too many", "nothing mapped", "another axis_size", "other devices"),
    "static beyond the arguments",
}


COMPARISON = Comparison(
    {name: f"{_BEFORE}out = np.asarray({text})" for name, text in VALUES.items()}
)


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("name", VALUES)
def test_equals_jax(name: str) -> None:
    assert COMPARISON.check_near(name, 16) == ("error" if name in REFUSED else "value")


A = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)


def test_nested() -> None:
    def inner(x: Any) -> Any:
        return x * lax.psum(x, ("i", "j")) + lax.axis_index("i") - lax.psum(x, "j")

    nested = gn.pmap(gn.pmap(inner, axis_name="j"), axis_name="i")
    total, row = A.sum((0, 1)), A.sum(1, keepdims=True)
    expected = A * total + np.arange(2.0)[:, None, None] - row
    assert_near(nested(A), expected, 16, scale=1.0)
    assert_near(gn.jit(nested)(A), expected, 16, scale=1.0)
    mapped = gn.vmap(gn.vmap(inner, axis_name="j"), axis_name="i")
    ours = gn.grad(lambda x: gnp.sin(nested(x)).sum())(A)
    assert_near(ours, gn.grad(lambda x: gnp.sin(mapped(x)).sum())(A), 64, scale=1.0)


def test_in_other_transformations() -> None:
    row = gn.pmap(lambda r: r - lax.pmean(r, "i"), axis_name="i")
    centred = A - A.mean(1, keepdims=True)
    assert_near(gn.vmap(row)(A), centred, 16, scale=1.0)
    _, scanned = lax.scan(lambda c, x: (c, row(x)), 0.0, A)
    assert_near(scanned, centred, 16, scale=1.0)
    primal, tangent = gn.jvp(row, (A[0],), (A[1],))
    assert_near(primal, centred[0], 16, scale=1.0)
    assert_near(tangent, centred[1], 16, scale=1.0)


def test_axes_counted_from_the_end() -> None:
    f = gn.pmap(lambda a: a * 2, in_axes=-1, out_axes=-1)
    np.testing.assert_array_equal(f(A), A * 2)


def test_lowered() -> None:
    f = gn.pmap(lambda v: lax.psum(v, "i"), axis_name="i")
    assert "gnomon.shard_map" in f.lower(np.ones(4, np.float32)).as_text("traced")


def test_errors() -> None:
    with pytest.raises(ValueError, match="different sizes of mapped axes"):
        gn.pmap(lambda a, b: a)(A[0], A[0, :3])
    with pytest.raises(ValueError, match="there are 8 devices"):
        gn.pmap(lambda v: v)(np.zeros(9))
    with pytest.raises(TypeError, match="in_axes must be an int"):
        gn.pmap(lambda v: v, in_axes="0")
    with pytest.raises(ValueError, match="out of range for a result of rank 1"):
        gn.pmap(lambda v: v, out_axes=1)(np.zeros(4, np.float32))
