"""Threads share what a transformation returned, and what eager code keeps of loops and branches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.sharding import AxisType, NamedSharding, PartitionSpec
from gnomon.tools.soak import in_threads

pytestmark = pytest.mark.iree

V = np.arange(4, dtype=np.float32)
TANH = np.tanh(V)


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Lets threads take turns between any two calls of Python."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    gn.clear_caches()
    yield
    sys.setswitchinterval(before)


def check_in_threads(work: Callable[[], Any], expected: Any, times: int = 1) -> None:
    """Check the results of a function that several threads call at once, several times each."""

    def check() -> None:
        for _ in range(times):
            np.testing.assert_allclose(np.asarray(work()), expected, rtol=1e-5, atol=1e-5)

    in_threads(6, check)


@gn.custom_vjp
def twice_as_steep(x: Any) -> Any:
    return gnp.sin(x)


twice_as_steep.defvjp(lambda x: (gnp.sin(x), x), lambda x, g: (2 * g * gnp.cos(x),))


def derivative(x: Any) -> Any:
    return gn.grad(lambda y: (gnp.sin(y) * y).sum())(x)


DERIVATIVE = np.cos(V) * V + np.sin(V)


def vjp() -> Callable[[], Any]:
    pull_back = gn.vjp(lambda x: (gnp.sin(x) * gn.jit(lambda y: y * y)(x)).sum(), V)[1]
    return lambda: pull_back(gnp.float32(1))[0]


def linearize() -> Callable[[], Any]:
    push_forward = gn.linearize(lambda x: lax.cond(x[0] < 1, gnp.sin, gnp.cos, x), V)[1]
    return lambda: push_forward(gnp.ones(4))


def custom_vjp() -> Callable[[], Any]:
    pull_back = gn.vjp(lambda x: twice_as_steep(x).sum(), V)[1]
    return lambda: pull_back(gnp.float32(1))[0]


def linear_transpose() -> Callable[[], Any]:
    transposed = gn.linear_transpose(gnp.cumsum, V)
    return lambda: transposed(gnp.ones(4))[0]


def exported() -> Callable[[], Any]:
    call = gn.export.export(gn.jit(lambda x: gnp.tanh(x)))(V).call
    return lambda: gn.grad(lambda x: call(x).sum())(V)


def lowered() -> Callable[[], Any]:
    stage = gn.jit(lambda x: gnp.tanh(x)).lower(V)
    return lambda: stage.compile()(V)


def jitted() -> Callable[[], Any]:
    tanh = gn.jit(lambda x: gnp.tanh(x))
    return lambda: gn.hessian(lambda x: tanh(x).sum())(V).diagonal()


def branch() -> Callable[[], Any]:
    return lambda: lax.cond(True, derivative, lambda x: x, V)


def loop() -> Callable[[], Any]:
    def body(carry: Any, x: Any) -> tuple[Any, None]:
        return carry + derivative(x), None

    return lambda: lax.scan(body, gnp.zeros(4), gnp.stack([V, V]))[0]


def mapped() -> Callable[[], Any]:
    return lambda: lax.map(gn.grad(gn.jit(gnp.tanh)), V)


SHARED: dict[Callable[[], Callable[[], Any]], Any] = {
    vjp: np.cos(V) * V * V + 2 * V * np.sin(V),
    linearize: np.cos(V),
    custom_vjp: 2 * np.cos(V),
    linear_transpose: [4, 3, 2, 1],
    exported: 1 - TANH**2,
    lowered: TANH,
    jitted: -2 * TANH * (1 - TANH**2),
    branch: DERIVATIVE,
    loop: 2 * DERIVATIVE,
    mapped: 1 - TANH**2,
}


@pytest.mark.sampled(0.25)
@pytest.mark.parametrize("make", SHARED, ids=lambda make: make.__name__)
def test_threads_share_a_program(make: Callable[[], Callable[[], Any]]) -> None:
    for _ in range(3):
        gn.clear_caches()
        check_in_threads(make(), SHARED[make], times=4)


@pytest.mark.sampled(0.68)
@pytest.mark.parametrize("make", [vjp, branch, loop], ids=lambda make: make.__name__)
def test_threads_share_a_program_that_is_searched(make: Callable[[], Callable[[], Any]]) -> None:
    """After the first inspection and the first constraint, programs are searched for others."""
    everywhere = NamedSharding(gn.make_mesh((1,), "x", (AxisType.Auto,)), PartitionSpec("x"))
    gn.jit(lambda x: gn.debug.inspect_array_sharding(x, callback=lambda _: None))(V)
    gn.jit(lambda x: lax.with_sharding_constraint(x, everywhere))(V)
    test_threads_share_a_program(make)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [0, 1, 1000, 100_000])
def test_threads_share_an_argument(size: int) -> None:
    """Its buffer is made by the first call that takes it."""
    double = gn.jit(lambda x: x * 2)
    double(gnp.zeros(size))
    for number in range(30):
        x = gnp.full(size, float(number))
        check_in_threads(lambda x=x: double(x), np.full(size, 2.0 * number))


@pytest.mark.sampled(0.68)
@pytest.mark.parametrize("size", [0, 1000, 1_000_000])
def test_threads_share_a_result(size: int) -> None:
    """It is read while a program, which all of them wait for, may still compute it."""
    double = gn.jit(lambda x: x * 2)
    for number in range(10 if size < 1_000_000 else 3):
        x = double(gnp.full(size, float(number)))
        check_in_threads(lambda x=x: x, np.full(size, 2.0 * number))


@pytest.mark.sampled(0.68)
@pytest.mark.vulkan
@pytest.mark.parametrize("size", [0, 1000, 1_000_000])
def test_threads_share_an_array_on_a_device(size: int) -> None:
    """It is copied to the host once."""
    double = gn.jit(lambda x: x * 2)
    device = gn.devices("vulkan")[0]
    for number in range(10 if size < 1_000_000 else 3):
        x = double(gn.device_put(np.full(size, number, np.float32), device))
        check_in_threads(lambda x=x: x, np.full(size, 2.0 * number))
        y = gn.device_put(np.full(size, number, np.float32), device)
        check_in_threads(lambda y=y: double(y), np.full(size, 2.0 * number))
