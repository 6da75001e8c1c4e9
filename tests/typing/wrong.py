"""Mistakes of a user: a type checker must report each line that says so, and no other."""

from __future__ import annotations

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, nn, random
from gnomon.scipy import special, stats
from gnomon.scipy.sparse import linalg

x = gnp.ones(3)


@gn.jit
def scaled(x: gn.Array, n: int) -> gn.Array:
    return x * n


gnp.sin("a")  # error
gnp.add(x, "a")  # error
gnp.sum([1, 2])  # error
gnp.zeros("a")  # error
gnp.mean(x, axes=0)  # error
gnp.sinus(x)  # error
gn.vmpa(scaled)  # error
x.shpae  # error
x.sum(axes=0)  # error
x + "a"  # error
x.at[0].put(1.0)  # error
gn.jit(scaled).lowr(x, 1)  # error
gn.grad(3)  # error
scaled(x)  # error
scaled(x, "b")  # error
number: int = scaled(x, 2)  # error
gn.vmap(scaled)(x, 1, 2)  # error
nn.relu("a")  # error
lax.exp("a")  # error
stats.norm.pdf("a")  # error
random.normal(random.key(0), 1.5)  # error
lax.sin("a")  # error
lax.reduce_sum(x, 0)  # error
lax.select(x > 0, x, "a")  # error
lax.dynamic_slice(x, 0, (1,))  # error
gnp.pad(x, "1")  # error
gnp.split(x, 1.5)  # error
gnp.unique([1, 2])  # error
gnp.roots("a")  # error
gnp.zeros(3, device="cpu:0")  # error
gnp.dot(x, x, out_sharding="i")  # error
random.uniform(random.key(0), out_sharding=("i",))  # error
random.split("a")  # error
special.erf("a")  # error
linalg.cg("a", x)  # error
nn.initializers.glorot_normal()(random.key(0), 1.5)  # error
