"""Typical programs on devices with separate memory, compared with the evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.backends.devices.platforms import PLATFORMS
from tests.backends.pjrt.test_programs import PROGRAMS, normal
from tests.tolerance import assert_near


def branch_in_scan(xs: Any) -> Any:
    def step(total: Any, x: Any) -> Any:
        total = lax.cond(x > 0, lambda t: t + x, lambda t: t * 0.5, total)
        return total, total

    return lax.scan(step, gnp.float32(1), xs)


def sum_of_a_loop(x: Any) -> Any:
    # Loops with values of several types return one tuple to the compiler's passes.
    count, factor = lax.fori_loop(0, 5, lambda i, c: (c[0] + i, c[1] * 0.5 + x), (0, x))
    return count, gnp.sum(factor * x, axis=1), gnp.sum(-factor, axis=0)


def sums_of_pairs(x: Any, y: Any) -> Any:
    # IREE would lose partial sums of subgroups on CUDA: see `legalize.reductions.stepwise`.
    pairs = x[:, :, None] + y
    return gnp.sum(pairs, (1, 2)), gnp.max(pairs * x[:, :, None], (0, 1, 2)), gnp.var(pairs)


def small_systems(a: Any) -> Any:
    """Solutions in a loop and outside of it, and factorizations."""
    positive = a @ a.mT + gnp.eye(a.shape[-1])
    solved = lax.fori_loop(0, 3, lambda _, x: gnp.linalg.solve(positive, x), a)
    return solved, gnp.linalg.cholesky(positive), gnp.linalg.det(a), gnp.linalg.slogdet(a)


def third(f: Callable[..., Any]) -> Callable[..., Any]:
    return gn.grad(gn.grad(gn.grad(f)))


# Vulkan has no 64-bit types.
NOT_ON_VULKAN = ("wide and narrow dtypes",)
ALL: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{name: program for name, program in PROGRAMS.items() if name not in NOT_ON_VULKAN},
    "branch in scan": (branch_in_scan, (np.float32([1, -1, 0.5, -2, 3]),)),
    "sum of a loop": (sum_of_a_loop, (normal(3, 4),)),
    "sums of pairs": (sums_of_pairs, (normal(8, 32), normal(8, 32, 3))),
    "small systems": (small_systems, (normal(2, 3, 3),)),
    "first few": (lambda x: lax.top_k(x, 5), (normal(3, 400),)),
    "third derivative": (third(gnp.tanh), (np.float32(0.3),)),
}


# Many kernels, each of which the driver compiles again.
LONG = ("convolution", "derivatives", "random numbers", "small systems", "sorts")
ONCE_WRONG = ("sum of a loop", "sums of pairs")
SAMPLED = [name for name in ALL if name not in LONG + ONCE_WRONG]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    "name",
    [
        *ONCE_WRONG,
        *(pytest.param(name, marks=pytest.mark.sampled(0.3)) for name in SAMPLED),
        *(pytest.param(name, marks=pytest.mark.slow) for name in LONG),
    ],
)
def test_program_on_a_device(name: str, platform: str) -> None:
    function, arguments = ALL[name]
    expected = function(*gn.tree.map(gnp.asarray, arguments))
    device = gn.devices(platform)[0]
    results = gn.jit(function)(*gn.device_put(arguments, device))
    assert gn.tree.structure(results) == gn.tree.structure(expected)
    for result, reference in zip(gn.tree.leaves(results), gn.tree.leaves(expected), strict=True):
        assert result.devices() == {device}
        assert (result.shape, result.dtype) == (reference.shape, reference.dtype)
        # Sums of up to a hundred terms; 16-bit numbers are summed in 32 bits and rounded once.
        assert_near(result, reference, 64 if result.dtype.itemsize > 2 else 1, scale=1.0)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_random_bits_are_those_of_the_host(platform: str) -> None:
    draw = gn.jit(lambda seed: gn.random.bits(gn.random.key(seed), (65,)))
    there = draw(gn.device_put(np.uint32(3), gn.devices(platform)[0]))
    np.testing.assert_array_equal(there, gn.random.bits(gn.random.key(3), (65,)))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_eager_ops_run_where_their_operands_are(platform: str) -> None:
    x = gn.device_put(normal(4, 5), gn.devices(platform)[0])
    y = gnp.sum(x * 2 + 1, axis=0)
    assert y.devices() == {gn.devices(platform)[0]}
    assert_near(y, np.sum(np.asarray(x) * 2 + 1, 0), 4)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("rows", [4, 5])
def test_small_systems_are_not_sent_to_the_host(rows: int, platform: str) -> None:
    a = gn.device_put(np.eye(rows, dtype=np.float32), gn.devices(platform)[0])
    loop = gn.jit(lambda a: lax.fori_loop(0, 3, lambda _, x: gnp.linalg.solve(a, x), a))
    assert ("host_call" in loop.lower(a).as_text("legalized")) == (rows == 5)
