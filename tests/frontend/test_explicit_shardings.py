"""Explicit axes of meshes: types of results, and errors, compared with JAX."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import NamedSharding, P
from gnomon.errors import ShardingTypeError
from gnomon.sharding import AxisType, auto_axes, explicit_axes, reshard
from tests.frontend.many_devices import Comparison
from tests.newest_jax import CHANGED_SHARDINGS, IS_NEWEST
from tests.sample import sample
from tests.tolerance import assert_each_near
from tests.tools.pages import run

pytestmark = pytest.mark.usefixtures("devices")

_BEFORE = """
m = lib.make_mesh((4, 2), ('x', 'y'))
def put(value, *spec):
    return lib.device_put(value, NamedSharding(m, P(*spec)))
a = put(np.arange(32, dtype='float32').reshape(8, 4), 'x', 'y')
b = put(np.arange(32, dtype='float32').reshape(8, 4), 'x', None)
c = put(np.arange(32, dtype='float32').reshape(8, 4), None, 'x')
d = put(np.arange(64, dtype='float32').reshape(8, 4, 2), 'x', None, 'y')
v = put(np.arange(8, dtype='float32'), 'x')
w = put(np.arange(4, dtype='float32'), 'y')
u = put(np.arange(4, dtype='float32'))
s = put(np.float32(2.0))
xy = put(np.arange(16, dtype='float32'), ('x', 'y'))
i3 = put(np.array([0, 2, 1], dtype='int32'))
i8 = put(np.arange(8, dtype='int32') % 4, 'x')
n = put(np.ones((8, 4, 8), 'float32'), 'x')
k = put(np.ones((4, 4, 3), 'float32'))
key, init = lib.random.key(0), lib.nn.initializers

PU, PR, PX = P(unreduced={'x'}), P(reduced={'x'}), P('x')
n4, n16 = put(np.ones((4, 4), 'float32')), put(np.ones((16, 4), 'float32'), 'x')
with lib.set_mesh(m):
    U, R, UY = (reshard(n4, s) for s in (P(unreduced={'x'}), P(reduced={'x'}), P(unreduced={'y'})))
    UV = reshard(n4[0], P(unreduced={'x'}))

def pcast(t, to):
    return lax.pcast(t, 'x', to=to)

def scattered(t):
    return lax.psum_scatter(t, 'x', tiled=True)

def inner(t, k):
    return lib.grad(lambda t: (t * k).sum())(t)

def told(x):
    if isinstance(x, (list, tuple)):
        return [told(y) for y in x]
    t = lib.typeof(x)
    return [str(t).lstrip('~'), str(t.sharding.spec)]

def kind(error):
    if type(error).__name__ == 'ShardingTypeError':
        return 'ShardingTypeError'
    if isinstance(error, NotImplementedError) and 'unreduced rule for' in str(error):
        return 'ShardingTypeError'
    kinds = (TypeError, ValueError, AssertionError, NotImplementedError)
    return next((k.__name__ for k in kinds if isinstance(error, k)), type(error).__name__)

def attempt(make):
    try:
        return told(make())
    except Exception as error:
        return kind(error)

def traced(make):
    found = []
    lib.eval_shape(lambda: [found.append(attempt(make)), 0][1])
    return found[0]
"""

EXPRESSIONS = {
    "elementwise": """
        xnp.sin(a) | a + 1.0 | 1 + v | a * s | a + b | b + w | a + w | a + u | -v | v ** 2
        a + c | v[:, None] + c | xnp.where(a > 1, a, 0.0) | xnp.where(a > 1, b, c)
        a.astype('int32') | xnp.clip(a, 0, 1) | xnp.maximum(b, w) | divmod(v, 2.0)
        lax.clamp(0.0, a, 1.0) | lax.bitcast_convert_type(a, 'int32') | lax.complex(a, a)
        lib.nn.relu(a) | lib.nn.gelu(a) | v[None, :] * v[:, None] | xnp.nan_to_num(a)
        lax.optimization_barrier(a) | xnp.isnan(a).any() | v + np.ones(8, 'float32')
    """,
    "reductions": """
        a.sum() | a.sum(0) | a.sum(1) | a.mean(0) | a.max(axis=1, keepdims=True) | a.argmax(1)
        xnp.prod(v) | xnp.all(a > 0, axis=0) | xnp.var(a, 0) | xnp.std(b, 1) | xnp.argmax(v)
        lib.nn.softmax(a, axis=-1) | lib.nn.logsumexp(b, axis=1) | xnp.linalg.norm(v)
        xnp.cumsum(a, 1) | xnp.cumsum(b, 1) | lax.cumsum(b, 0) | lax.cummax(b, 1)
        xnp.count_nonzero(a) | xnp.ptp(b, axis=1) | lax.reduce(b, 0.0, lax.add, (1,))
        lax.reduce_window(b, 0.0, lax.add, (1, 2), (1, 2), 'VALID')
    """,
    "contractions": """
        a @ w | a @ u | b @ u | a @ a.T | b @ b.T | b @ c.T | b.T @ b | xnp.vdot(v, v)
        lax.dot_general(b, b, (((0,), (0,)), ((), ())))
        lax.dot_general(b, b, (((1,), (1,)), ((0,), (0,))))
        lax.dot_general(b, c, (((1,), (1,)), ((0,), (0,))))
        xnp.einsum('ij,ij->i', b, b) | xnp.einsum('ij,kj->ik', a, a) | xnp.dot(b, u)
        xnp.outer(v, w) | xnp.tensordot(b, u, 1) | xnp.inner(v, v)
        lax.conv_general_dilated(d, xnp.ones((2, 4, 1)), (1,), 'VALID')
    """,
    "shapes": """
        a.T | xnp.transpose(d, (2, 0, 1)) | xnp.swapaxes(a, 0, 1) | xnp.moveaxis(d, 0, 2)
        a.reshape(32) | a.reshape(2, 4, 4) | a.reshape(8, 2, 2) | b.reshape(32)
        b.reshape(8, 2, 2) | b.reshape(8, 4, 1) | b.reshape(4, 2, 4) | b.reshape(2, 4, 4)
        b.reshape(1, 8, 4) | c.reshape(8, 2, 2) | c.reshape(32) | v.reshape(4, 2)
        v.reshape(2, 4) | v.reshape(1, 8) | xy.reshape(8, 2) | xy.reshape(4, 4)
        xy.reshape(2, 8) | a.ravel() | a.reshape(4, 2, 2, 2) | b.reshape(4, 8) | d.reshape(64)
        d.reshape(32, 2) | d.reshape(8, 8) | v[None] | v[..., None] | xnp.expand_dims(a, 1)
        xnp.squeeze(v[None]) | xnp.broadcast_to(v, (3, 8)) | xnp.broadcast_to(s, (8,))
        lax.broadcast_in_dim(v, (8, 2), (0,)) | lax.broadcast(v, (2,)) | lax.rev(v, (0,))
        xnp.concatenate([v, v]) | xnp.concatenate([a, a], 1) | xnp.concatenate([b, c], 1)
        xnp.concatenate([b, a], 0) | xnp.stack([v, v]) | xnp.vstack([v, v]) | xnp.hstack([u, u])
        lax.slice(v, (0,), (4,)) | lax.pad(v, 0.0, [(1, 1, 0)]) | xnp.pad(u, 1)
        lax.pad(b, 0.0, [(0, 0, 0), (1, 1, 0)]) | lax.pad(b, 0.0, [(4, 4, 0), (0, 0, 0)])
        xnp.split(b, 2, axis=1) | xnp.split(v, 2) | xnp.roll(b, 1, 1) | xnp.roll(v, 1)
        xnp.tile(u, (2, 2)) | xnp.triu(b) | xnp.flip(v)
    """,
    "indexing": """
        v[0] | v[2:4] | v[:4] | v[::2] | v[::-1] | a[0] | a[:, 0] | b[:, 0] | b[:, 1:3] | b[0]
        b[2:6] | u[1:] | d[:, 1] | a[i3] | u[i3] | b[i3] | b[:, i3] | a[i8] | u[i8]
        b.at[:, 1].set(0.0) | b.at[:, 0].add(v) | b.at[:, i3].set(1.0) | v.at[i3].set(1.0)
        v.at[i3].add(xnp.ones(3)) | v.at[0].set(1.0) | u.at[0].set(1.0) | xnp.take(u, i3)
        xnp.take(v, i3) | xnp.take(b, i3, axis=1) | lax.dynamic_slice(b, (0, 1), (8, 2))
        lax.dynamic_slice(v, (0,), (4,)) | lax.dynamic_update_slice(b, b[:, :2], (0, 1))
        lax.dynamic_index_in_dim(b, 1, 1) | lax.dynamic_index_in_dim(b, 1, 0)
    """,
    "sorting and matrices": """
        xnp.sort(v) | xnp.sort(b, axis=1) | xnp.sort(a, axis=1) | xnp.argsort(b, axis=1)
        lax.top_k(b, 2) | lax.top_k(a, 2) | lax.sort((b, b), dimension=1) | xnp.linalg.qr(b)
        xnp.linalg.cholesky(xnp.eye(4)) | xnp.fft.fft(b)
    """,
    "creation": """
        xnp.zeros((8, 4)) | xnp.ones(3) + 1 | xnp.arange(8) | lax.iota('int32', 8) | xnp.eye(8)
        xnp.zeros_like(a) | xnp.ones_like(a, dtype='int32') | xnp.full_like(v, 3.0)
        lax.full_like(a, 3.0) | xnp.empty_like(a) | xnp.zeros_like(a, shape=(8, 4))
        lib.jit(xnp.zeros_like)(a) | lib.vmap(xnp.ones_like)(a) | lib.jit(xnp.full_like)(v, 2.0)
        xnp.full_like(a, 3.0, shape=(4,)) | xnp.linspace(0, 1, 8) | lib.nn.one_hot(i8, 4)
        lib.random.normal(lib.random.key(0), (8,)) | xnp.asarray([1.0, 2.0])
    """,
    "control flow": """
        lax.cond(True, lambda t: t + 1, lambda t: t * 2, a) | lax.cond(s > 1, lambda: b, lambda: c)
        lax.switch(1, [lambda t: t, lambda t: t * 2], a)
        lax.scan(lambda k, t: (k + t, k), w, a)
        lax.scan(lambda k, t: (k + t.sum(), t), 0.0, c)
        lax.scan(lambda k, t: (k + v, None), xnp.zeros(8), None, length=2)
        lax.scan(lambda k, t: (k + v, k), v, None, length=2)
        lax.while_loop(lambda t: t.sum() < 100, lambda t: t + 1, v)
        lax.while_loop(lambda t: t.sum() < 100, lambda t: t + v, xnp.zeros(8))
        lax.fori_loop(0, 3, lambda i, t: t * 2, a) | lax.map(lambda t: t * 2, v)
        lax.map(lambda t: t * 2, u)
    """,
    "transformations": """
        lib.vmap(lambda t: t * 2)(a) | lib.vmap(lambda t: t.sum())(a)
        lib.vmap(lambda t: t.sum(), in_axes=1)(a) | lib.vmap(lambda t: t + 1, out_axes=1)(b)
        lib.vmap(lambda t, k: t * k, in_axes=(0, None))(a, w) | lib.vmap(lambda t: xnp.ones(3))(v)
        lib.vmap(lambda t: t * 2, spmd_axis_name='x')(v) | lib.vmap(lambda t: v + t)(v)
        lib.vmap(lambda t: t * 2, spmd_axis_name='y')(v)
        lib.vmap(lambda t, k: t + k)(v, xnp.ones(8)) | lib.vmap(lib.vmap(lambda t: t + 1))(a)
        lib.vmap(lib.grad(lambda t: (t * t).sum()))(a) | lib.grad(lambda t: (t * t).sum())(a)
        lib.grad(lambda t: (t @ u).sum())(b) | lib.grad(lambda t: (b @ t).sum())(u)
        lib.grad(lambda t: (a + t).sum())(w) | lib.grad(lambda t: (a + t).sum())(u)
        lib.value_and_grad(lambda t: (t * t).sum())(a) | lib.jvp(xnp.sin, (a,), (a,))
        lib.vjp(xnp.sin, a)[1](a)[0] | lib.linearize(xnp.sin, a)[1](a)
        lib.checkpoint(lambda t: xnp.sin(t))(a) | lib.jit(lambda t: t * 2)(a)
        lib.jit(lambda t: t.sum(0))(a) | lib.jit(lambda t: t @ t.T)(a)
        lib.jit(lib.vmap(lambda t: t.sum()))(a)
        lib.eval_shape(lambda t: t * 2, a)
        lib.eval_shape(lambda t: t * 2, lib.ShapeDtypeStruct((8,), 'f4', sharding=P('x')))
    """,
    "given shardings": """
        lax.dot_general(b, b, (((0,), (0,)), ((), ())), out_sharding=P('x', None))
        lax.dot_general(b, b, (((0,), (0,)), ((), ())), out_sharding=P(None, None))
        xnp.einsum('ij,kj->ik', a, a, out_sharding=P('x', None))
        xnp.dot(a, w, out_sharding=P('x'))
        xnp.einsum('ij,ik->jk', b, b, out_sharding=P('y', None))
        xnp.matmul(a, w, out_sharding=P('x')) | xnp.reshape(v, (2, 4), out_sharding=P(None, 'x'))
        xnp.reshape(a, (32,), out_sharding=P('x'))
        lax.broadcast(v, (2,), out_sharding=P('y', 'x'))
        lax.broadcast_in_dim(v, (8, 2), (0,), out_sharding=P('x', 'y'))
        a.at[i3].get(out_sharding=P(None, 'y')) | b.at[i3].get(out_sharding=P())
        b.at[i8].get(out_sharding=P('x')) | v.at[0].get(out_sharding=P())
        v.at[2:4].get(out_sharding=P()) | v.at[0].get(out_sharding=NamedSharding(m, P()))
        xnp.zeros((8, 4), out_sharding=P('x', None)) | xnp.ones(8, out_sharding=P('x'))
        xnp.full((8,), 2.0, out_sharding=P('x')) | xnp.arange(8, out_sharding=P('x'))
        xnp.zeros_like(a, out_sharding=P(None, 'x')) | xnp.zeros(8, out_sharding=P('z'))
        lax.broadcasted_iota('int32', (8, 4), 0, out_sharding=P('x', None))
        lib.random.normal(lib.random.key(0), (8,), out_sharding=P('x'))
        lib.random.uniform(lib.random.key(0), (8, 4), out_sharding=P('x', 'y'))
        xnp.ravel(a, out_sharding=P('x')) | a.ravel(out_sharding=P(('x', 'y')))
        a.reshape(4, 8, out_sharding=P('x')) | xnp.repeat(v, 2, out_sharding=P('x'))
        xnp.repeat(a, 2, axis=0, out_sharding=P('x', 'y')) | v.repeat(3, out_sharding=P(None))
        xnp.percentile(a, 50.0, axis=1, out_sharding=P('x'))
        lax.reduce(a, 0.0, lax.add, (1,), out_sharding=P('x'))
        lax.reduce_sum(a, (1,), out_sharding=P('x')) | lax.reduce_sum(a, (1,), out_sharding=P(None))
        lax.conv_general_dilated(n, k, (1,), 'SAME')
        lax.conv_general_dilated(n, k, (1,), 'SAME', out_sharding=P('x', None, None))
        lax.conv_general_dilated(n, k, (1,), 'SAME', out_sharding=P(None, 'y', None))
    """,
    "given shardings of updates": """
        v.at[i3].set(2.0) | v.at[i3].set(2.0, out_sharding=P('x'))
        a.at[i8].add(a, out_sharding=P('x', 'y')) | a.at[0].set(1.0, out_sharding=P('y'))
        a.at[i3].multiply(2.0, out_sharding=P()) | a.at[i3].min(2.0, out_sharding=P('x'))
        a.at[i3].max(2.0, out_sharding=P('x')) | v.at[0].set(v[1], out_sharding=P('y'))
        v.at[i3].set(2.0, out_sharding=P('z'))
        lib.grad(lambda t: t.at[i3].set(2.0, out_sharding=P('x')).sum())(v)
    """,
    "given shardings of random numbers": """
        lib.random.gumbel(key, (8,), out_sharding=P('x'))
        lib.random.gamma(key, v, (8,), out_sharding=P('y'))
        lib.random.categorical(key, a, axis=1, out_sharding=P('y'))
        lib.random.permutation(key, a, out_sharding=P('y', 'x'))
        lib.random.permutation(key, 8, out_sharding=P('x'))
        lax.rng_bit_generator(np.arange(4, dtype='u4'), (8,), out_sharding=P('x'))
    """,
    "given shardings of initializers": """
        init.zeros(key, (8, 4), 'float32', P('x')) | init.ones(key, (8, 4), 'float32', P('x', 'y'))
        init.constant(2.0)(key, (8, 4), 'float32', out_sharding=P('x', None))
        init.normal()(key, (8, 4), 'float32', P('x', 'y'))
    """,
    "sums": """
        U | R | UY | UV | U + U | U + n4 | U + UY | U * U | U * R | R * U | U * n4 | xnp.sin(U)
        U * 2.0 | U + 1.0 | U.sum() | U.sum(0) | U.T | U[None] | xnp.stack([U, U]) | U == U
        U.astype('float16') | U @ R | U @ n4 | U / 2.0 | U.mean()
        xnp.where(True, U, U) | xnp.broadcast_to(U, (2, 4, 4)) | xnp.split(U, 2)
        lax.scan(lambda k, _: (k + U, None), U, None, length=2)[0]
        lax.cond(True, lambda t: t + t, lambda t: t, U)
        R + R | R + 1.0 | 2.0 * R | xnp.sin(R) | R.T | R.sum() | R.mean() | b @ R | R @ R
        xnp.ones((8, 4)) @ R | R > 1 | R.astype('int32') | xnp.stack([R, R])
        reshard(U, P()) | reshard(U, P('x', 'y')) | reshard(U, P('y', unreduced={'x'}))
        reshard(R, P()) | reshard(U, P(reduced={'x'}))
        reshard(n4, P('x', unreduced={'x'})) | reshard(n4, P(unreduced={'z'}))
        xnp.einsum('ij,ik->jk', b, b, out_sharding=P(unreduced={'x'}))
        xnp.dot(b.T, b, out_sharding=P(unreduced={'x'})) | xnp.zeros(4, out_sharding=UV.sharding)
        lib.grad(lambda t: (b @ t).sum())(R) | lib.grad(lambda t: xnp.sin(b @ t).sum())(R)
        lib.grad(lambda t: reshard(t, P()).sum())(U) | lib.grad(lambda t: (b @ t).sum())(n4)
        lib.grad(lambda t: (b @ reshard(t, P(reduced={'x'}))).sum())(n4)
        lib.jit(lib.grad(lambda t: (b @ t).sum()))(R)
        shard_map(lambda t: t + t, in_specs=PU, out_specs=PU)(U)
        shard_map(lambda t: t, in_specs=PU, out_specs=P())(U)
        shard_map(lambda t: t, in_specs=P(), out_specs=P())(R)
        shard_map(lambda t: lax.psum(t, 'x'), in_specs=PU, out_specs=P())(U)
        shard_map(lambda t: pcast(t, to='unreduced'), in_specs=PX, out_specs=PU)(v)
        shard_map(lambda t: t, in_specs=PX, out_specs=PU)(v)
        shard_map(lambda t: pcast(t, to='reduced'), in_specs=P(), out_specs=PR)(n4)
        shard_map(lambda t: pcast(t, to='unreduced'), in_specs=P(), out_specs=PU)(n4)
        shard_map(lambda t: pcast(t, to='varying'), in_specs=PR, out_specs=PX)(R)
        shard_map(lambda t: xnp.sin(t), in_specs=PU, out_specs=PU)(U)
        shard_map(lambda t: xnp.sin(t), in_specs=PR, out_specs=PR)(R)
        shard_map(scattered, in_specs=PU, out_specs=PX)(U)
        shard_map(lambda t, k: t * k, in_specs=(PR, PX), out_specs=PX)(R, n16)
        lib.grad(lambda t: shard_map(lax.mul, in_specs=(PR, PX), out_specs=PX)(t, n16).sum())(R)
        shard_map(inner, in_specs=(PR, PX), out_specs=PU)(R, n16)
    """,
    "changes of shardings": """
        reshard(a, P('y', 'x')) | reshard(a, P()) | reshard(v, NamedSharding(m, P('y')))
        reshard([v, w], P('y')) | reshard(xnp.arange(8), P('x')) | reshard(np.arange(8), P('x'))
        reshard(v, P('q')) | reshard(put(np.ones(3)), P('x')) | lib.device_put(v, P('y'))
        lax.with_sharding_constraint(v, P('x')) | lax.with_sharding_constraint(v, P(None))
        auto_axes(lambda t: t @ t.T, out_sharding=P('x', 'y'))(a) | auto_axes(lambda t: t)(a)
        auto_axes(lambda t: t.sum(), axes='y', out_sharding=P())(b)
        auto_axes(lambda t: t * 2, axes='x', out_sharding=P('x', 'y'))(a)
        lib.grad(auto_axes(lambda t: (t @ t.T).sum(), out_sharding=P()))(a)
        auto_axes(lambda t: (t, t.sum()), out_sharding=(P('x', 'y'), P()))(a)
        explicit_axes(lambda t: t * 2)(a)
        explicit_axes(lambda t: t * 2, in_sharding=(P('x', 'y'),))(a)
        auto_axes(explicit_axes(lambda t: t * 2, in_sharding=P('x')), out_sharding=P('x'))(v)
    """,
}


def _listed(text: str) -> list[str]:
    """Half of the expressions in a text."""
    every = [e.strip() for line in text.strip().splitlines() for e in line.split(" | ")]
    return sample(every, -(-len(every) // 2), every[0])


def _program(text: str) -> str:
    """Expressions while they are traced; some of them are also evaluated, which JAX compiles."""
    listed = _listed(text)
    evaluated = sample(listed, -(-len(listed) // 4), "evaluated")
    made = "".join(
        f"\n    out[{e!r}] = [traced(lambda: {e})"
        + (f", attempt(lambda: {e})]" if e in evaluated else "]")
        for e in listed
    )
    return f"{_BEFORE}\nout = {{}}\nwith lib.set_mesh(m):{made}\n"


PROGRAMS = {name: _program(text) for name, text in EXPRESSIONS.items()}

# Arrays that are made or computed while a mesh is set; `before` was made earlier.
_MADE = """
    xnp.zeros((4, 2)) | xnp.full(3, 2) | xnp.arange(3) | xnp.eye(3) | xnp.array([1, 2])
    xnp.float32(3) | lib.random.normal(lib.random.key(0), (3,)) | lib.random.PRNGKey(0)
    lib.random.split(lib.random.key(0)) | xnp.sin(np.ones(3)) | xnp.add(np.ones(3), 1)
    before | before + 1 | before * xnp.zeros(3) | before[0] | xnp.stack([before, before])
    lib.jit(lambda: xnp.zeros(3))() | lib.jit(lambda x: x * 2)(before) | before.astype('int32')
    lib.grad(lambda x: (x * x).sum())(before) | lib.vmap(lambda x: x * 2)(before)
    lib.device_put(np.ones(3)) | lib.device_put(np.ones(3), lib.devices()[1]) | made
    lib.device_put(np.ones(3), lib.devices()[1]) + 1
    lib.device_put(np.ones(8), NamedSharding(lib.make_mesh((8,), ('q',)), P('q'))) + 1
"""
for _types in ("Explicit", "Auto"):
    PROGRAMS[f"made while a mesh is set: {_types}"] = f"""
m = lib.make_mesh((4, 2), ('x', 'y'), (AxisType.{_types}, AxisType.Explicit))
before = xnp.arange(3.0)
with lib.set_mesh(m):
    made = xnp.zeros(3)
def told(make):
    try:
        x = make()
    except ValueError:
        return 'ValueError'
    s = x.sharding
    spec = [e for e in s.spec if e] if hasattr(s, 'spec') else None
    types = str(lib.typeof(x).sharding.spec)
    return type(s).__name__, spec, x.committed, types, len(x.devices()), x.is_fully_replicated
out = {{}}
with lib.set_mesh(m):
    for name, make in {{{", ".join(f"{e!r}: lambda: {e}" for e in _listed(_MADE))}}}.items():
        out[name] = told(make)
"""
# A constraint is about automatic axes: explicit ones stay in the type. `m` is not set here.
_CONSTRAINTS = """
    bound(a, n, P()) | bound(a, n, P(None, 'y')) | bound(a, n, P('y'))
    bound(a, n, P(P.UNCONSTRAINED, 'y')) | bound(b, m, P()) | bound(b, m, P('y', 'x'))
    bound(np.ones((8, 4)), n, P(None, 'y')) | bound(np.ones((8, 4)), m, P())
    lax.with_sharding_constraint(b, NamedSharding(m, P()))
    lax.with_sharding_constraint(a, NamedSharding(n, P(None, 'y')))
"""
PROGRAMS["constraints beside explicit axes"] = f"""
m = lib.make_mesh((4, 2), ('x', 'y'))
n = lib.make_mesh((4, 2), ('x', 'y'), (AxisType.Explicit, AxisType.Auto))
b = lib.device_put(np.ones((8, 4), 'float32'), NamedSharding(m, P('x', 'y')))
a = lib.device_put(np.ones((8, 4), 'float32'), NamedSharding(n, P('x')))
def bound(x, mesh, spec):
    return lib.jit(lambda x: lax.with_sharding_constraint(x, NamedSharding(mesh, spec)))(x)
def told(make):
    try:
        x = make()
    except (AssertionError, ValueError):
        return 'error'
    spec = [[e] if isinstance(e, str) else e for e in x.sharding.spec if e]
    return str(lib.typeof(x)), spec, x.sharding.is_fully_replicated
out = {{}}
for name, make in {{{", ".join(f"{e!r}: lambda: {e}" for e in _listed(_CONSTRAINTS))}}}.items():
    out[name] = told(make)
"""
# Axes that a shard_map does not map over stay in the types inside of it, and in those of results.
_BESIDE = """
    inside(lambda t: t * 2, X)(a) | inside(lambda t: xnp.sin(t).T, X, P(None, 'x'))(a)
    inside(lambda t: t.sum(1), X)(a) | inside(lambda t: t, X)(b) | inside(lambda t: t @ t.T, X)(a)
    inside(lambda t: lax.psum(t, 'x'), X, P())(a) | inside(lambda t: t.sum(), X)(a)
    inside(lambda t: lax.ppermute(t, 'x', [(0, 1), (1, 0)]), X)(a)
    inside(lambda t: reshard(t, P('y')), X)(a) | inside(lib.vmap(lambda r: r * 2), X)(a)
    inside(lambda t: lax.all_to_all(t, 'x', 0, 0, tiled=True), P(None))(c)
    inside(lambda t: lax.scan(lambda s, r: (s + r, r * 2), t[0] * 0, t)[1], X)(a)
    inside(lambda t: xnp.matmul(t, t.T, out_sharding=P(None, 'y')), X)(a)
    lib.grad(lambda t: inside(lambda t: xnp.sin(t) * t, X)(t).sum())(a)
"""
PROGRAMS["axes beside those of a shard_map"] = f"""
{_BEFORE}
X = P('x')
c = put(np.arange(64, dtype='float32').reshape(16, 4), None, 'y')
def inside(f, i, o=P('x')):
    def body(t):
        seen.append(str(lib.typeof(t)))
        return f(t)
    return shard_map(body, in_specs=i, out_specs=o, axis_names={{'x'}})
def typed(make):
    seen.clear()
    try:
        made = lib.jit(make)()
    except Exception as error:
        return kind(error)
    value = np.asarray(reshard(made, P())).astype('float64').round(3).tolist()
    return str(lib.typeof(made)), seen[-1:], value
out, seen = {{}}, []
with lib.set_mesh(m):
    for name, make in {{{", ".join(f"{e!r}: lambda: {e}" for e in _listed(_BESIDE))}}}.items():
        out[name] = typed(make)
"""
PROGRAMS["another abstract mesh"] = """
lib.set_mesh(lib.make_mesh((4, 2), ('x', 'y')))
a = lib.device_put(np.arange(32.0).reshape(8, 4), P('x', 'y'))
@lib.jit
def f(a):
    with use_abstract_mesh(AbstractMesh((8,), ('z',), (AxisType.Explicit,))):
        return reshard(a, P('z', None)) * 2
b = f(a)
out = {'type': str(lib.typeof(b)), 'at': str(b.sharding), 'is': np.asarray(b).tolist()}
lib.set_mesh(None)
"""


COMPARISON = Comparison(PROGRAMS)


def _without_kinds(outcome: Any) -> Any:
    """JAX's outcome without the kind of unreduced values, which specs show since 0.12."""
    if isinstance(outcome, str):
        return outcome.replace(", unreduced_kind=sum", "")
    return [*map(_without_kinds, outcome)] if isinstance(outcome, list) else outcome


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_types_and_errors_are_those_of_jax(name: str) -> None:
    what, ours, theirs = COMPARISON.both(name)
    assert what == "value", theirs
    different = [
        f"{e}: {mine} instead of {theirs[e]}"
        for e, mine in ours.items()
        if (mine == _without_kinds(theirs[e])) == (IS_NEWEST and e in CHANGED_SHARDINGS)
    ]
    assert not different, "\n".join(different)


@pytest.fixture
def mesh() -> Any:
    return gn.make_mesh((4, 2), ("x", "y"))


def _put(mesh: Any, *spec: Any, shape: tuple[int, ...] = (8, 4)) -> Any:
    value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return gn.device_put(value, NamedSharding(mesh, P(*spec)))


def test_an_unreduced_array_is_the_sum_of_its_terms(mesh: Any) -> None:
    a, b = _put(mesh, None, "x", shape=(4, 8)), _put(mesh, "x")
    with gn.set_mesh(mesh):
        c = gnp.einsum("ij,jk->ik", a, b, out_sharding=P(unreduced={"x"}))
        assert repr(c).startswith("Array(shape=(4, 4), dtype=float32, sharding=NamedSharding(")
        assert not c.is_fully_replicated
        total = np.asarray(a) @ np.asarray(b)
        # One of the two devices along y.
        terms = [np.asarray(shard.data) for shard in c.addressable_shards][::2]
        np.testing.assert_array_equal(sum(terms), total)
        np.testing.assert_array_equal(reshard(c + c, P("x", "y")), total + total)
        # Not only sums: every op that is linear without factors keeps the terms.
        running = gnp.cumsum(c, axis=0)
        assert running.sharding.spec.unreduced == {"x"}
        np.testing.assert_array_equal(reshard(running, P()), np.cumsum(total, axis=0))
        parts = [
            gn.device_put(np.full(2, i, np.float32), device) for i, device in enumerate(mesh._flat)
        ]
        made = gn.make_array_from_single_device_arrays(
            (4,), NamedSharding(mesh, P("y", unreduced={"x"})), parts
        )
        np.testing.assert_array_equal(reshard(made, P()), [12, 12, 16, 16])
        with pytest.raises(NotImplementedError, match="which term of the sum"):
            gn.make_array_from_callback((4,), made.sharding, lambda index: np.zeros(2))


def test_a_gradient_of_a_reduced_value_is_that_of_the_value(mesh: Any) -> None:
    x, w = _put(mesh, "x"), _put(mesh, shape=(4, 2))

    def loss(w: Any) -> Any:
        return gnp.tanh(0.01 * x @ w).sum()

    with gn.set_mesh(mesh):
        gradient = gn.jit(gn.grad(loss))(reshard(w, P(reduced={"x"})))
        assert str(gn.typeof(gradient)) == "float32[4,2]{U:x}"
        assert_each_near(reshard(gradient, P()), gn.grad(loss)(w), units=8)


def test_unreduced_axes_are_explicit(mesh: Any) -> None:
    automatic = gn.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    for name in ("unreduced", "reduced"):
        with pytest.raises(ValueError, match=f"^{name} axes must be of type Explicit, but P"):
            NamedSharding(automatic, P(**{name: {"x"}}))
    with gn.set_mesh(mesh):
        u = reshard(gnp.ones(4), P(unreduced={"x"}))
        with pytest.raises(ShardingTypeError, match=r"cannot be made automatic\. Sum it"):
            auto_axes(gnp.sin, out_sharding=P())(u)
        with pytest.raises(ShardingTypeError, match=r"sin of float32\[4\]\{U:x\}: the op is not"):
            gnp.sin(u)
        with pytest.raises(ShardingTypeError, match=r"replicated over \['x'\], over which another"):
            gn.jit(lambda a, b: a + b)(reshard(gnp.ones(4), P(reduced={"x"})), gnp.ones(4) * 2)


def test_the_type_of_keys_has_a_sharding(mesh: Any) -> None:
    with gn.set_mesh(mesh):
        keys = reshard(gn.random.key_data(gn.random.split(gn.random.key(0), 8)), P("x"))
        keys = gn.random.wrap_key_data(keys)
        assert keys.sharding.spec == P("x") and gn.typeof(keys).sharding.spec == P("x")
        assert str(gn.typeof(keys)) == "key<fry>[8@x]"
        part = keys.addressable_shards[2]
        assert (part.device, part.index, part.data.shape) == (gn.devices()[2], (slice(2, 4),), (2,))
        assert keys.addressable_data(2).shape == (2,)


def test_values_and_results_have_the_shardings_of_the_types(mesh: Any) -> None:
    a, b = _put(mesh, "x", "y"), _put(mesh, "x", None)
    plain = np.arange(32, dtype=np.float32).reshape(8, 4)

    def loss(t: Any) -> Any:
        return gnp.sum(gnp.sin(t) * b)

    with gn.set_mesh(mesh):
        gradient = gn.jit(gn.grad(loss))(a)
        eager = gn.grad(loss)(a)
        product = gn.jit(lambda t: auto_axes(gnp.matmul, out_sharding=P("y"))(t, t.T))(a)
    with gn.set_mesh(mesh):
        drawn = gn.random.normal(gn.random.key(0), (8,), out_sharding=P("x"))
        rows = gn.jit(lambda t: t.at[np.array([1, 3])].get(out_sharding=P(None, "y")))(a)
        drawn_gamma = gn.random.gamma(gn.random.key(0), b[:, 0] + 1.0, out_sharding=P("y"))
        updated = a.at[np.array([1, 3])].divide(plain[:2] + 1.0, out_sharding=P("y"))
        started = gn.nn.initializers.orthogonal()(gn.random.key(0), (8, 4), None, P("x", "y"))
    np.testing.assert_array_equal(drawn, gn.random.normal(gn.random.key(0), (8,)))
    np.testing.assert_array_equal(drawn_gamma, gn.random.gamma(gn.random.key(0), plain[:, 0] + 1.0))
    np.testing.assert_array_equal(
        updated, gnp.array(plain).at[np.array([1, 3])].divide(plain[:2] + 1.0)
    )
    np.testing.assert_array_equal(
        started, gn.nn.initializers.orthogonal()(gn.random.key(0), (8, 4))
    )
    assert drawn_gamma.sharding == NamedSharding(mesh, P("y"))
    assert updated.sharding == NamedSharding(mesh, P("y", None))
    assert started.sharding == NamedSharding(mesh, P("x", "y"))
    assert drawn.sharding == NamedSharding(mesh, P("x"))
    np.testing.assert_array_equal(rows, plain[[1, 3]])
    assert rows.sharding == NamedSharding(mesh, P(None, "y"))
    for found in (gradient, eager):
        assert found.sharding == NamedSharding(mesh, P("x", "y"))
        assert_each_near(np.asarray(found), np.cos(plain) * plain, 8.0, 1.0)
    assert product.sharding == NamedSharding(mesh, P("y", None))
    np.testing.assert_array_equal(product, plain @ plain.T)


# Arguments that follow the key, for results of shape (8,) or (8, 4).
RANDOM: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("cauchy", "exponential", "laplace", "logistic", "maxwell"), ((8,),)),
    **dict.fromkeys(("bits", "normal", "uniform", "gumbel", "rademacher"), ((8,),)),
    **dict.fromkeys(("gamma", "loggamma", "chisquare", "t", "poisson", "pareto"), (3.0, (8,))),
    **dict.fromkeys(("generalized_normal", "rayleigh", "lognormal", "wald"), (3.0, (8,))),
    "ball": (4, 2, (8,)),
    "bernoulli": (0.3, (8,)),
    "beta": (2.0, 3.0, (8,)),
    "categorical": (np.zeros((8, 4), np.float32),),
    "dirichlet": (np.ones(4, np.float32), (8,)),
    "f": (3.0, 4.0, (8,)),
    "geometric": (0.3, (8,)),
    "multivariate_normal": (np.zeros(4, np.float32), np.eye(4, dtype=np.float32), (8,)),
    "orthogonal": (8,),
    "permutation": (8,),
    "randint": ((8,), 0, 9),
    "triangular": (0.0, 0.5, 1.0, (8,)),
    "truncated_normal": (-1.0, 1.0, (8,)),
}
MADE_OF_SHAPES = ("glorot_normal", "normal", "orthogonal", "truncated_normal", "uniform")


def test_every_random_function_heeds_a_sharding_that_is_given(mesh: Any) -> None:
    takes = "out_sharding"
    functions = {name: getattr(gn.random, name) for name in gn.random.__all__ if name != "Key"}
    described = {n for n, f in functions.items() if takes in str(inspect.signature(f))}
    assert described == RANDOM.keys()
    made: dict[str, Any] = {}

    def draw() -> None:
        key = gn.random.key(0)
        for name, arguments in RANDOM.items():
            made[name] = gn.typeof(functions[name](key, *arguments, out_sharding=P("x")))
        for name in MADE_OF_SHAPES:
            initializer = getattr(gn.nn.initializers, name)()
            made[f"nn.{name}"] = gn.typeof(initializer(key, (8, 4), None, P("x")))

    with gn.set_mesh(mesh):
        gn.eval_shape(draw)
    for name, type_ in made.items():
        assert type_.sharding.spec == P("x", *(None,) * (len(type_.shape) - 1)), name


def test_an_error_names_the_op_the_axis_and_the_line(mesh: Any) -> None:
    a, c = _put(mesh, "x"), _put(mesh, None, "x")
    with pytest.raises(ShardingTypeError, match=r"mul .*8@x,4@x.*test_explicit_shardings.py:\d+"):
        gn.jit(lambda t: t * c)(a)
    with pytest.raises(ShardingTypeError, match=r"add .*split over 'y' .*'x' .*shardings.py:\d+"):
        _put(mesh, "y") + a
    with pytest.raises(ShardingTypeError, match=r"dot_general .*ambiguous.*out_sharding"):
        gn.jit(lambda t: t.T @ t)(a)
    with pytest.raises(ShardingTypeError, match=r"host_call|callback .*reshard.*auto_axes"):
        gn.jit(lambda t: gn.pure_callback(np.sin, gn.ShapeDtypeStruct(t.shape, t.dtype), t))(a)


def test_types_with_different_shardings_are_different_types(mesh: Any) -> None:
    a, b = _put(mesh, "x"), _put(mesh, "y")
    assert gn.typeof(a) != gn.typeof(b)
    assert gn.typeof(a).update(weak_type=True).sharding == gn.typeof(a).sharding
    struct = gn.ShapeDtypeStruct((8, 4), np.float32, sharding=NamedSharding(mesh, P("x")))
    assert struct != gn.ShapeDtypeStruct((8, 4), np.float32)
    assert gn.typeof(struct) == gn.typeof(a)
    seen = []

    @gn.jit
    def f(t: Any) -> Any:
        seen.append(str(gn.typeof(t)))
        return t

    for x in (a, b, a):
        assert f(x).sharding.is_equivalent_to(x.sharding, 2)
    assert seen == ["float32[8@x,4]", "float32[8@y,4]"]


def test_axes_of_several_types_in_one_mesh() -> None:
    mesh = gn.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    a = _put(mesh, "x", "y")
    assert str(gn.typeof(a)) == "float32[8@x,4]"
    result = gn.jit(lambda t: gnp.exp(t).T)(a)
    assert result.sharding.spec == P("y", "x")


def test_explicit_axes_of_an_automatic_mesh() -> None:
    mesh = gn.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    seen = []

    def f(t: Any) -> Any:
        seen.append(str(gn.typeof(t)))
        return t * 2

    with gn.set_mesh(mesh):
        x = gn.device_put(np.arange(8, dtype=np.float32), P("x"))
        result = gn.jit(explicit_axes(f, in_sharding=P("y")))(x)
        with pytest.raises(ValueError, match="the mesh has no axes"):
            auto_axes(f, axes="z", out_sharding=P())(x)
    assert seen == ["float32[8@y]"]
    assert str(gn.typeof(result)) == "float32[8]"
    np.testing.assert_array_equal(result, np.arange(8) * 2)
    with pytest.raises(ValueError, match="set_mesh"):
        reshard(gnp.arange(8), P("x"))


def test_the_page_is_true() -> None:
    try:
        text, given = run("explicit_sharding.md")
    finally:
        gn.set_mesh(None)
    assert text == given


def test_the_sharding_of_a_type_without_a_mesh_is_no_request() -> None:
    x = gnp.arange(3.0)
    nowhere = gn.typeof(x).sharding
    np.testing.assert_array_equal(gnp.zeros((3,), device=nowhere), np.zeros(3))
    np.testing.assert_array_equal(gnp.arange(3, out_sharding=nowhere), np.arange(3))
    np.testing.assert_array_equal(gnp.reshape(x, (1, 3), out_sharding=nowhere), x[None])
    key = gn.random.key(0)
    drawn = gn.random.normal(key, (3,), out_sharding=nowhere)
    np.testing.assert_array_equal(drawn, gn.random.normal(key, (3,)))


def test_abstract_meshes_stand_for_those_with_the_devices() -> None:
    mesh = gn.make_mesh((2, 2), ("a", "b"), axis_types=(gn.sharding.AxisType.Auto,) * 2)
    x = gn.device_put(gnp.ones((2, 4)), gn.NamedSharding(mesh, gn.P()))
    spec = gn.P(None, "a")
    with gn.set_mesh(mesh):
        wanted = gn.NamedSharding(gn.sharding.get_abstract_mesh(), spec)
        assert gn.lax.with_sharding_constraint(x, wanted).sharding.spec == spec
        assert gn.jit(lambda x: 2 * x, out_shardings=wanted)(x).sharding.spec == spec
    assert gn.lax.with_sharding_constraint(x, wanted).sharding.mesh == mesh
    with pytest.raises(ValueError, match="AbstractMesh, which has no devices"):
        gn.lax.with_sharding_constraint(gnp.ones((2, 4)), wanted)
