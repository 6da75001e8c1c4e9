"""Barriers that have done their work when kernels are formed: those that remain split a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree.inside import barriers
from tests.backends.iree.inside.test_in_place_pass import function, kernel, loop, parsed

T = "tensor<8xf32>"
LITERALS = {
    "literal": "arith.constant dense<1.0> : tensor<8xf32>",
    "constant": "flow.tensor.constant dense<1.0> : tensor<8xf32>",
    "splat": "flow.tensor.splat %f : tensor<8xf32>",
}
NUMBER = "%f = arith.constant 1.0 : f32"
BARRIER = f"%x = util.optimization_barrier %l : {T}"


def remaining(*lines: str, results: str = "%y") -> int:
    with parsed(function(*lines, results=results)) as (ir, module, _):
        barriers.drop(ir, module)
        return sum(ir.name(op) == "util.optimization_barrier" for op in ir.nested(module))


@pytest.mark.parametrize("literal", LITERALS)
def test_kernels_read_literals_without_a_barrier(literal: str) -> None:
    lines = [NUMBER, f"%l = {LITERALS[literal]}", BARRIER]
    assert remaining(*lines, f"%y = {kernel('%x')}") == 0
    assert remaining(*lines, f"%y = {kernel('%x')}", results="%y, %x") == 1


@pytest.mark.parametrize("literal", LITERALS)
def test_the_host_reads_a_literal_through_its_barrier(literal: str) -> None:
    lines = [NUMBER, f"%l = {LITERALS[literal]}", BARRIER, "%e = flow.tensor.load %x[%c0] : " + T]
    assert remaining(*lines, f"%y = {kernel('%x')}") == 1


@pytest.mark.parametrize("inside", [False, True])
def test_a_loop_reads_what_was_written_before_it(inside: bool) -> None:
    """Without the barrier, the literal would be written again in each iteration."""
    body = loop("%c = %a", *[BARRIER] * inside, f"%w = {kernel('%x')}", f"scf.yield %w : {T}")
    lines = [f"%l = {LITERALS['literal']}", *[BARRIER] * (not inside), *body]
    assert remaining(*lines) == (not inside)


def test_results_of_kernels_need_none_and_arguments_keep_theirs() -> None:
    assert remaining(f"%l = {kernel('%a')}", BARRIER, results="%x") == 0
    assert remaining(BARRIER.replace("%l", "%a"), f"%y = {kernel('%x')}") == 1


@pytest.mark.parametrize("view", [False, True])
def test_what_a_loop_carries_needs_none(view: bool) -> None:
    """IREE 3.13 would not wait for the iteration before."""
    barrier = BARRIER.replace("%l", "%c")
    if view:
        reshape = "flow.tensor.reshape %c : tensor<8xf32> -> tensor<8xf32>"
        barrier = f"%v = {reshape}\n" + BARRIER.replace("%l", "%v")
    assert remaining(*loop("%c = %a", barrier, f"%w = {kernel('%x')}", f"scf.yield %w : {T}")) == 0


def test_results_of_a_loop_need_none() -> None:
    body = loop("%c = %a", f"%w = {kernel('%c')}", f"scf.yield %w : {T}")
    assert remaining(*body, BARRIER.replace("%l", "%y#0"), results="%x") == 0


def test_a_loop_on_the_thread_pool_waits_for_the_iteration_before() -> None:
    """The loop carries its value through a barrier; what is there too early has other values."""

    def iterated(x: Any, barrier: bool) -> Any:
        def step(carry: Any, _: Any) -> Any:
            carry = lax.optimization_barrier(carry) if barrier else carry
            moved = gnp.roll(carry, 1, axis=0) + gnp.roll(carry, 1, axis=1)
            return gnp.sin(moved + gnp.cumsum(carry, axis=0) * 1e-3), None

        return lax.scan(step, lax.scan(step, x, None, length=2)[0] * 2, None, length=3)[0]

    x = gnp.sin(gnp.arange(512.0 * 512.0)).reshape(512, 512)
    lowered = gn.jit(iterated, static_argnums=1).lower(x, True)
    assert lowered._artifact.plan.options.execution_model == "async"
    expected = gn.jit(iterated, static_argnums=1)(x, False)
    for _ in range(3):
        np.testing.assert_array_equal(lowered.compile()(x), expected)


def test_several_operands_need_one_if_one_of_them_does() -> None:
    both = f"%x, %z = util.optimization_barrier %l, %{{}} : {T}, {T}"
    lines = [f"%l = {LITERALS['literal']}", f"%m = {LITERALS['constant']}"]
    reads = [f"%y = {kernel('%x')}", f"%w = {kernel('%z')}"]
    assert remaining(*lines, both.format("m"), *reads) == 0
    assert remaining(*lines, both.format("a"), *reads) == 1
