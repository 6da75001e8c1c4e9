"""Memory of freed arrays that IREE's allocator keeps for later ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax

SQUARE = np.linspace(-3, 3, 300 * 300, dtype=np.float32).reshape(300, 300)
X = SQUARE.ravel()
ROWS = np.arange(0, 300, 7, dtype=np.int32)

# The bytes that IREE has allocated and not freed, in a process that does nothing else.
LIVE = """
import numpy as np
import gnomon as gn
from gnomon.backends.iree.driver import driver_state

states = [driver_state(name) for name in ("local-sync", "local-task")]

def live():
    figures = [state.allocator.statistics for state in states]
    return sum(f["device_bytes_allocated"] - f["device_bytes_freed"] for f in figures)

x = gn.device_put(np.ones(1 << 22, np.float32))
double, half = gn.jit(lambda x: x * 2), gn.jit(lambda x: x / 2)
gn.block_until_ready(double(x))
print(live())
for _ in range(3):
    gn.block_until_ready(double(x))
print(live())
half.lower(x).compile()(x).block_until_ready()
print(live())
for state in states:
    state.free_memory()
print(live())
"""


def test_a_freed_array_is_kept_for_one_of_its_size() -> None:
    """Until a program is loaded, or `free_memory` is called."""
    command = [sys.executable, "-c", LIVE]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    array = 4 << 22
    assert list(map(int, output.split())) == [array, array, array, 0]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "pad": lambda x, a: lax.pad(x, 1.0, [(5, 70, 1)]),
    "concatenate": lambda x, a: gnp.concatenate([x, x[::-1], gnp.zeros(9)]),
    "slices": lambda x, a: (x[1:-1], x[::2], a[5:, ::-1], a.T),
    "update": lambda x, a: (x.at[7].set(2.0), a.at[1:-1, 1:-1].set(0.0)),
    "scatter": lambda x, a: gnp.zeros((300, 300)).at[ROWS].add(a[ROWS]),
    "scatter_out_of_bounds": lambda x, a: a.at[ROWS * 2].set(1.0, mode="drop"),
    "gather_fill": lambda x, a: a.at[ROWS * 9].get(mode="fill"),
    "sums": lambda x, a: ((x * x).sum(), a.sum(0), a.sum(1), (a * a).sum(-1), a.argmax(0)),
    "cumulative": lambda x, a: (gnp.cumsum(x), lax.cummax(a, axis=1)),
    "softmax": lambda x, a: gn.nn.softmax(a),
    "products": lambda x, a: (a @ a, a @ a[0], gnp.einsum("ij,ik->jk", a, a[:, :9])),
    "windows": lambda x, a: lax.reduce_window(a, -np.inf, lax.max, (3, 3), (1, 1), "SAME"),
    "convolution": lambda x, a: lax.conv(a[None, None], gnp.ones((8, 1, 3, 3)), (1, 1), "SAME"),
    "complex": lambda x, a: gnp.abs(gnp.exp(1j * x)),
    "fourier": lambda x, a: gnp.abs(gnp.fft.rfft(a)),
    "sorts": lambda x, a: (gnp.sort(a), lax.top_k(a, 5)[0]),
    "where": lambda x, a: gnp.where(x > 0, x, 0.0),
    "bfloat16": lambda x, a: (a.astype(gnp.bfloat16) * 2).astype("float32"),
    "loop": lambda x, a: lax.fori_loop(0, 5, lambda i, c: c.at[i].set(c[i + 1] * 2 + 1), a),
    "scan": lambda x, a: lax.scan(lambda c, r: (c * 0.5 + r, c), a[0], a),
    "linear_algebra": lambda x, a: gnp.linalg.solve(a + 900 * gnp.eye(300), a),
}


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_do_not_depend_on_what_was_in_memory(name: str) -> None:
    """Results and temporary values, some of which kernels write in parts."""
    jitted = gn.jit(PROGRAMS[name])
    expected = gn.tree.leaves(jitted(X, SQUARE))
    for _ in range(3):
        # This leaves nan in the memory that the next call gets.
        gn.block_until_ready(jitted(np.full_like(X, np.nan), np.full_like(SQUARE, np.nan)))
        found = gn.tree.leaves(jitted(X, SQUARE))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
        del found
