"""Memory of IREE's arrays that is not cleared before kernels write it."""

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
from gnomon._native import leave_memory_uncleared

N = 1 << 17
X = np.linspace(-3, 3, N, dtype=np.float32)
SQUARE = X[: 300 * 300].reshape(300, 300)
ROWS = np.arange(0, 300, 7, dtype=np.int32)

# Allocations of a process that does nothing else, so that each takes the memory of the one before.
REUSE = """
import sys
import numpy as np
from gnomon.backends.iree.buffer import MEMORY_TYPE, OWNED_USAGE
from gnomon.backends.iree.driver import driver_state

allocator = driver_state("local-sync").allocator
for nbytes in map(int, sys.argv[1:]):
    for _ in range(2):
        buffer = allocator.allocate_buffer(MEMORY_TYPE, OWNED_USAGE, nbytes)
        view = np.ndarray(nbytes, np.uint8, buffer.map())
        print(np.count_nonzero(view == 171))
        view[:] = 171
        del view, buffer
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs ELF files")
def test_only_large_buffers_keep_what_was_in_memory() -> None:
    small, large = 1 << 16, 1 << 20
    command = [sys.executable, "-c", REUSE, str(small), str(large)]
    counts = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    first_small, second_small, _, second_large = map(int, counts.split())
    assert (first_small, second_small) == (0, 0)
    # No more than the first pages, which have the buffer's description, is overwritten.
    assert large - 8192 <= second_large < large


def test_an_address_outside_of_libraries() -> None:
    assert not leave_memory_uncleared(0, 1 << 18)


def _spoil_free_memory() -> None:
    """Fill memory with nan, and free it."""
    junk = [np.full(1 << size, 255, np.uint8) for size in range(18, 24) for _ in range(4)]
    del junk


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


@pytest.mark.sampled(0.15)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_do_not_depend_on_what_was_in_memory(name: str) -> None:
    """Results and temporary values of more than 256 KiB, some of which kernels write in parts."""
    program = PROGRAMS[name]
    expected = gn.tree.leaves(program(gnp.asarray(X), gnp.asarray(SQUARE)))
    jitted = gn.jit(program)
    for _ in range(3):
        _spoil_free_memory()
        found = gn.tree.leaves(jitted(X, SQUARE))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-4)
        del found
