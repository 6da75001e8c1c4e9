"""Typical user code, in which a type checker must find no errors."""

from __future__ import annotations

from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, nn, random
from gnomon.scipy import special, stats
from gnomon.scipy.sparse import linalg
from gnomon.typing import ArrayLike

Params = dict[str, gn.Array]


def loss(params: Params, x: gn.Array, y: gn.Array) -> gn.Array:
    hidden = gnp.tanh(x @ params["w"] + params["b"])
    return gnp.mean((hidden - y) ** 2)


@gn.jit
def normalized(x: ArrayLike, axis: int = -1) -> gn.Array:
    x = gnp.asarray(x)
    return (x - x.mean(axis, keepdims=True)) / gnp.sqrt(x.var(axis=axis, keepdims=True) + 1e-6)


@gn.jit(static_argnames="n", donate_argnums=0)
def power(x: gn.Array, n: int = 2) -> gn.Array:
    return x**n


class Model:
    def __init__(self, width: int) -> None:
        self.w: gn.Array = gnp.eye(width)

    @gn.jit
    def apply(self, x: gn.Array) -> gn.Array:
        return self.w @ x


def main() -> None:
    key = random.key(0)
    first, second = random.split(key)
    params = {"w": random.normal(first, (3, 2)), "b": gnp.zeros(2)}
    x, y = random.uniform(second, shape=(4, 3)), gnp.zeros((4, 2), dtype=gnp.float32)
    gradient = gn.grad(loss)(params, x, y)
    params = {name: p - 0.1 * gradient[name] for name, p in params.items()}
    value, both = gn.value_and_grad(loss, argnums=(0, 1))(params, x, y)
    step = gn.jit(loss)
    again: gn.Array = step(params, x, y)
    compiled = step.lower(params, x, y).compile()
    print(float(value), both, again.item(), compiled(params, x, y))
    rows: gn.Array = gn.vmap(gnp.dot)(x, x)
    per_example = gn.vmap(gn.grad(loss), in_axes=(None, 0, 0))(params, x, y)
    print(rows, per_example, gn.hessian(loss)(params, x, y), gn.checkpoint(loss)(params, x, y))
    print(normalized(3.0), normalized(np.ones(3)), power(x, n=3), Model(3).apply(x[0]))
    flat = x.at[0, 1:].set(0.0).T.reshape(-1).astype("float32")
    print(flat.shape[0] + 1, float(flat[0]), flat.dtype, bool((flat > 0).any()), len(flat))
    combined: gn.Array = -x + 1 - 2.0 * x / np.float32(3)
    for row in combined:
        print(row.sum().round(2))
    print(gnp.concatenate([x, x], axis=1), gnp.where(x > 0, x, 0.0), gnp.stack((x, x)))
    print(gnp.sum(x, axis=(0, 1), dtype=float), gnp.arange(3.0), gnp.linspace(0, 1, 5))
    print(gnp.einsum("ij,kj->ik", x, x), gnp.clip(x, 0, 1), gnp.argmax(x, axis=0))
    print(nn.softmax(x, axis=-1), nn.relu(x), special.logsumexp(x), stats.norm.pdf(x, 0.0, 1.0))
    total = lax.fori_loop(0, 3, lambda i, carry: carry + i, 0.0)
    _, sums = lax.scan(lambda carry, row: (carry + row, carry), gnp.zeros(3), x)
    print(total, sums, lax.cond(x.sum() > 0, lambda v: v, lambda v: -v, x), gnp.linalg.norm(x))
    tree: Any = gn.tree_util.tree_map(lambda leaf: leaf * 2, params)
    print(tree, gn.device_put(x), gn.devices()[0], gn.eval_shape(loss, params, x, y))
    print(special.erf(0.5), gnp.pad(x, [(0, 1), (2, 2)]), gnp.pad(x, {-1: 1}), gnp.tile(x, (2, 1)))
    print(gnp.split(x, [1, 2]), gnp.repeat(x, 2, axis=0), gnp.histogram(x, bins=[0.0, 0.5, 1.0]))
    print(gnp.linalg.norm(x, ord="fro"), gnp.zeros(3, device=gn.devices()[0]), gnp.ix_([0, 1], [2]))
    spread = gn.sharding.NamedSharding(gn.make_mesh((1,), ("i",)), gn.P("i"))
    print(random.uniform(key, (4,), out_sharding=None), gnp.dot(x, x.T, out_sharding=None))
    print(gnp.arange(4, out_sharding=spread), random.fold_in(key, 3), random.key(0, impl="rbg"))
    print(lax.dynamic_slice(x, (0, 1), (1, 2)), lax.concatenate([x, x], 0), lax.sin(x))
    print(lax.select(x > 0, x, -x), lax.reduce_sum(x, (0,)), lax.switch(1, [gnp.sin, gnp.cos], x))
    start = nn.initializers.glorot_normal()(key, (3, 2))
    print(start, linalg.cg(gnp.eye(3), x[0]), linalg.cg(lambda v: 2 * v, x[0], M=gnp.eye(3)))
