"""Long expressions: split into kernels of bounded size, with the values of the evaluator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree.legalize.fusion.long_fusions import MAX_SIZE
from gnomon.scipy import special
from tests.tolerance import assert_near

_OPERATION = re.compile(r"(%\w+)(?::\d+)? = (?:stablehlo\.)?\"?([\w.]+)\"?(.*)")
_NOT_FUSED = {"constant", "iota", "concatenate", "optimization_barrier", "dot_general"}


def sines(n: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        y = x
        for _ in range(n):
            y = gnp.sin(y) + x
        return y

    return run


def products(n: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        y = x
        for _ in range(n):
            y = y * x + 0.5
        return gnp.sum(y)

    return run


def choices(n: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for i in range(n):
            x = gnp.where(i % 3 == 0, gnp.sin(x), x * 1.01 + 0.01)
        return x

    return run


def shared(n: int) -> Callable[[Any], Any]:
    """Many expressions of one computed value."""

    def run(x: Any) -> Any:
        y = gnp.tanh(x)
        return gnp.stack([y * i + x for i in range(n)])

    return run


def in_a_loop(n: int) -> Callable[[Any], Any]:
    step = sines(n)
    return lambda x: lax.fori_loop(0, 3, lambda i, c: 0.1 * step(c) * i + x, x)


PROGRAMS: dict[str, tuple[Callable[[int], Callable[[Any], Any]], int]] = {
    "sines": (sines, 20),
    "products": (products, 200),
    "gradient of products": (lambda n: gn.grad(products(n)), 100),
    "gradient of sines": (lambda n: gn.grad(lambda x: gnp.sum(sines(n)(x))), 10),
    "choices": (choices, 30),
    "shared": (shared, 300),
}


def largest_kernel(function: Callable[[Any], Any], argument: Any) -> int:
    """The largest number of connected ops in a function, not counting barriers and literals."""
    text = gn.jit(function).trace(argument).lower().as_text()
    kernel: dict[str, str] = {}

    def whole(name: str) -> str:
        while kernel[name] != name:
            name = kernel[name]
        return name

    for line in text.splitlines():
        if not (found := _OPERATION.match(line.strip())):
            continue
        result, op, rest = found.groups()
        if op in _NOT_FUSED or (op.startswith("broadcast") and "%c" in rest):
            continue
        kernel[result] = result
        for operand in re.findall(r"%\w+", rest):
            if operand in kernel:
                kernel[whole(operand)] = result
    return max(Counter(whole(name) for name in kernel).values())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("program", PROGRAMS)
def test_kernels_are_bounded(program: str) -> None:
    build, n = PROGRAMS[program]
    # Chains of functions of small arrays become loops.
    argument = gnp.linspace(0.1, 0.9, 5000, dtype=gnp.float32)
    sizes = [largest_kernel(build(m), argument) for m in (n, 2 * n, 4 * n)]
    # Functions of one value are in one kernel, even if the second exceeds its size.
    assert all(MAX_SIZE // 2 < size <= 1.25 * MAX_SIZE for size in sizes), sizes


def barriers(function: Callable[..., Any], argument: Any) -> int:
    text = gn.jit(function).trace(argument).lower().as_text("legalized")
    return text.count("gnomon.optimization_barrier")


def test_barriers_grow_with_the_program() -> None:
    x = gnp.ones(5000)
    assert barriers(sines(3), x) == 0
    ten, twenty, forty = (barriers(sines(n), x) for n in (10, 20, 40))
    assert 0 < ten < twenty
    assert forty <= 2 * twenty + 1


def test_unconnected_kernels_get_no_barriers() -> None:
    x = gnp.ones(5)
    assert barriers(lambda x: [gnp.sin(x + i) * 2 for i in range(30)], x) == 0
    # A literal that all ops use does not connect them.
    assert barriers(lambda x: [gnp.sin(x[i]) + gnp.ones(5) for i in range(5)], x) == 0


def test_parts_of_arguments_are_not_stored() -> None:
    """Each kernel reads them where they are; IREE refuses some such barriers."""

    def f(x: Any, y: Any) -> Any:
        return special.betaln(x[:1][:, None], y[::-1, None])

    x, y = np.array([0.5, 2.0], np.float32), np.array([1.5, 3.0, 7.0], np.float32)
    text = gn.jit(f).lower(x, y).as_text("stablehlo")
    parts = {"%arg0", "%arg1"}
    barriers = 0
    for m in _OPERATION.finditer(text):
        reads_part = m[3].split()[0] in parts
        if m[2] in ("slice", "reshape", "reverse") and reads_part:
            parts.add(m[1])
        elif m[2] == "optimization_barrier":
            barriers += 1
            assert not reads_part, m[0]
    assert len(parts) > 4
    assert barriers > 4
    assert_near(gn.jit(f)(x, y), f(gnp.asarray(x), gnp.asarray(y)), units=4)


def test_bodies_of_loops_are_split() -> None:
    assert barriers(in_a_loop(20), gnp.ones(5)) > 1


@pytest.mark.parametrize("program", ["sines", "gradient of products", "choices"])
def test_values(program: str) -> None:
    build, n = PROGRAMS[program]
    x = gnp.asarray(np.linspace(0.1, 0.9, 5, dtype=np.float32))
    assert_near(gn.jit(build(n))(x), build(n)(x), 64, scale=3.0)


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize(
    ("program", "shape"),
    [
        (program, shape)
        for program in (*PROGRAMS, "in a loop")
        for shape in ((), (1000,), (40, 30))
        # A kernel that writes more than 32 numbers, each to a separate buffer, cannot be loaded.
        if (program, shape) != ("shared", ())
    ],
)
def test_values_of_longer_ones(program: str, shape: tuple[int, ...]) -> None:
    build, n = (in_a_loop, 10) if program == "in a loop" else PROGRAMS[program]
    values = np.random.default_rng(0).uniform(0.1, 0.9, shape).astype(np.float32)
    x = gnp.asarray(values)
    assert_near(gn.jit(build(2 * n))(x), build(2 * n)(x), 256, scale=3.0)
