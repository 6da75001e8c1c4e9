"""Barriers that have done their work when kernels are formed: those that remain split a program."""

from __future__ import annotations

import pytest

from gnomon.backends.iree import barriers
from tests.backends.iree.test_in_place_pass import function, kernel, loop, parsed

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


def test_several_operands_need_one_if_one_of_them_does() -> None:
    both = f"%x, %z = util.optimization_barrier %l, %{{}} : {T}, {T}"
    lines = [f"%l = {LITERALS['literal']}", f"%m = {LITERALS['constant']}"]
    reads = [f"%y = {kernel('%x')}", f"%w = {kernel('%z')}"]
    assert remaining(*lines, both.format("m"), *reads) == 0
    assert remaining(*lines, both.format("a"), *reads) == 1
