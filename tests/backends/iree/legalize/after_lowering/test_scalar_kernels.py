"""Programs of many scalars, which IREE computes in common kernels: compiled, against evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree.targets import TARGETS
from tests.tolerance import assert_near

SCALAR = np.float32(0.3)
ROW = np.array([0.1, -0.4, 0.7], np.float32)
# Counts around the 32 buffers that IREE binds.
CASES = [
    *((SCALAR, 32), (SCALAR, 33), (ROW, 33)),
    *(
        pytest.param(x, count, marks=[pytest.mark.slow, pytest.mark.sampled(0.4)])
        for x, counts in ((SCALAR, (31, 60, 200)), (ROW, (31, 32, 60, 200)))
        for count in counts
    ),
]

MAX_BUFFERS = TARGETS["cpu"].capabilities.max_buffers


def agree(function: Callable[..., Any], *arguments: Any) -> None:
    compiled = gn.tree.leaves(gn.jit(function)(*arguments))
    evaluated = gn.tree.leaves(function(*arguments))
    for given, wanted in zip(compiled, evaluated, strict=True):
        wanted = np.asarray(wanted)
        scale = float(np.abs(wanted).max())
        assert_near(given, wanted, 64, scale=max(scale, 1.0))


def numbers(x: Any, count: int) -> list[Any]:
    return [x * (0.01 * i) + x * x for i in range(count)]


def chosen(x: Any, count: int) -> Any:
    """A chain of choices among computed numbers."""
    out = x
    for i, number in enumerate(numbers(x, count)):
        out = gnp.where(x > 0.01 * i, number, out + 1)
    return out


@pytest.mark.parametrize(("x", "count"), CASES)
def test_many_numbers_are_joined(x: Any, count: int) -> None:
    def joined(x: Any) -> Any:
        terms = numbers(x, count)
        return gnp.stack(terms), gnp.concatenate([gnp.ravel(t) for t in terms]), sum(terms)

    def loss(x: Any) -> Any:
        return gnp.sum(gnp.tanh(gnp.stack(numbers(x, count))))

    agree(lambda x: (joined(x), gn.grad(loss)(x)), x)


@pytest.mark.parametrize("count", [33, pytest.param(200, marks=pytest.mark.slow)])
def test_many_numbers_are_mapped_and_returned(count: int) -> None:
    agree(gn.vmap(lambda x: gnp.stack(numbers(x, count))), ROW)
    agree(lambda x: (numbers(x, count), sum(numbers(x, count))), SCALAR)


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("count", [31, 32, 33, 60, 200])
def test_one_of_many_numbers_is_chosen(count: int) -> None:
    agree(lambda x: gnp.stack([chosen(x, count), gn.grad(chosen)(x, count)]), SCALAR)
    agree(lambda k, x: lax.select_n(k, *numbers(x, count)), np.int32(3), SCALAR)


def test_each_number_reads_arguments_of_its_own() -> None:
    arguments = [np.float32(0.1 * i) for i in range(80)]

    def products(*xs: Any) -> Any:
        return gnp.stack([a * b + 1 for a, b in zip(xs[::2], xs[1::2], strict=True)])

    agree(products, *arguments)


def test_numbers_between_operations_on_arrays() -> None:
    def interleaved(x: Any) -> Any:
        numbers, v = [], x
        for i in range(40):
            total = gnp.sum(v) * 0.01 + i
            root = gnp.sqrt(abs(total))
            v = v * root * 0.1 + x
            numbers += [total, root]
        return gnp.stack(numbers), v

    agree(interleaved, ROW)


def test_in_a_loop() -> None:
    def step(carry: Any, i: Any) -> Any:
        terms = gnp.stack(numbers(carry + i, 40))
        return terms.mean(), terms

    agree(lambda x: lax.scan(step, x, np.arange(3, dtype=np.float32)), np.float32(0.1))


def barriers(function: Callable[..., Any], *arguments: Any) -> int:
    return str(gn.jit(function).lower(*arguments).as_text("stablehlo")).count("barrier")


def test_only_wide_kernels_get_barriers() -> None:
    def stack(count: int) -> Callable[[Any], Any]:
        return lambda x: gnp.stack([x * (i + 2) for i in range(count)])

    def total(x: Any) -> Any:
        return sum(x * (i + 2) for i in range(60))

    x = np.float32(0.5)
    assert barriers(stack(MAX_BUFFERS - 1), x) == 0  # one buffer is read
    assert barriers(stack(MAX_BUFFERS), x) == 1
    assert barriers(stack(4 * MAX_BUFFERS), x) == 4
    # Numbers that only their kernel reads are not buffers.
    assert barriers(total, x) == 0
