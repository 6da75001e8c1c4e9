"""The memory of loops on the host: that of one iteration, however many there are."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOPS = """
import re
import gnomon as gn, gnomon.numpy as gnp
from gnomon import lax

COUNT = 40
x = gnp.ones((1024, 1024))

def step(carry):
    return gnp.cumsum(carry * 0.5, axis=0) * 1e-3

def branch(i, carry):
    return lax.cond(i % 3 == 0, step, lambda c: gnp.cumsum(c, axis=1) * 1e-3, carry)

called = gn.jit(step)
loops = {
    "one": lambda x: lax.fori_loop(0, COUNT, lambda i, c: step(c), x),
    "nested": lambda x: lax.fori_loop(
        0, 8, lambda i, c: lax.fori_loop(0, COUNT // 8, lambda j, c: step(c), c), x
    ),
    "with a branch": lambda x: lax.fori_loop(0, COUNT, branch, x),
    "in a branch": lambda x: lax.cond(
        x[0, 0] > 0, lambda x: lax.fori_loop(0, COUNT, lambda i, c: step(c), x), gnp.sin, x
    ),
    "with calls": lambda x: lax.fori_loop(0, COUNT, lambda i, c: called(called(c)), x) + called(x),
    "with a stack": lambda x: lax.scan(lambda c, i: (step(c), c[0]), x, gnp.arange(COUNT)),
}

def peak():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1])

for name, loop in loops.items():
    compiled = gn.jit(loop).lower(x).compile()
    before = peak()
    gn.block_until_ready(compiled(x))
    print(name, peak() - before, sep="=")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
def test_a_loop_reuses_the_memory_of_its_iterations() -> None:
    """40 iterations of 4 MiB or more each, which the host runs through without waiting."""
    run = [sys.executable, "-c", LOOPS]
    lines = subprocess.run(run, capture_output=True, check=True, text=True).stdout.splitlines()
    grown = {
        name: int(kilobytes) / 1024 for name, _, kilobytes in (s.partition("=") for s in lines)
    }
    assert len(grown) == 6
    assert {name: size for name, size in grown.items() if size > 60} == {}
