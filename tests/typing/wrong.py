"""Mistakes of a user: a type checker must report each line that says so, and no other."""

from __future__ import annotations

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, nn, random
from gnomon.scipy import stats

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
