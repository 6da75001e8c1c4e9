"""The pass `host_reads` on programs with kernels: the arrays for which the host waits."""

from __future__ import annotations

import pytest

from gnomon.backends.iree.inside import host_reads
from tests.backends.iree.inside.test_in_place_pass import T, function, kernel, loop, parsed

LITERAL = f"%l = arith.constant dense<1.0> : {T}"


def read(value: str, number: int = 0) -> str:
    """Lines that pass a value to Python; its result is the value ``%r`` with a number."""
    return (
        f"%e{number} = hal.tensor.export {value} : {T} -> !hal.buffer_view\n"
        f"%h{number} = util.call @host(%e{number}) : (!hal.buffer_view) -> !hal.buffer_view\n"
        f"%r{number} = hal.tensor.import %h{number} : !hal.buffer_view -> {T}"
    )


def yielded(value: str) -> str:
    return f"scf.yield {value} : {T}"


WHILE = [
    f"%y = scf.while (%c = %l) : ({T}) -> {T} {{",
    f"scf.condition(%b) %c : {T}",
    "} do {",
    f"^bb0(%d: {T}):",
    read("%d"),
    f"%w = {kernel('%r0')}",
    yielded("%w"),
    "}",
]
BRANCH = [
    f"%w = scf.if %b -> ({T}) {{",
    read("%c"),
    yielded("%r0"),
    "} else {",
    yielded("%c"),
    "}",
    yielded("%w"),
]
NESTED = [
    "%n1 = arith.addi %n, %n : index",
    f"%w = scf.for %j = %c0 to %n1 step %n iter_args(%d = %c) -> ({T}) {{",
    read("%d"),
    yielded("%r0"),
    "}",
]

# The number of barriers, and the program.
PROGRAMS = {
    "a literal": (1, function(LITERAL, *loop("%c = %l", read("%c"), yielded("%r0")))),
    "an argument": (0, function(*loop("%c = %a", read("%c"), yielded("%r0")))),
    "a kernel's": (
        1,
        function(f"%x = {kernel('%a')}", *loop("%c = %x", read("%c"), yielded("%r0"))),
    ),
    "computed in each iteration": (
        2,
        function(
            LITERAL,
            *loop("%c = %l", read("%c"), f"%w = {kernel('%r0')}", yielded("%w")),
        ),
    ),
    "read by kernels only": (
        0,
        function(LITERAL, *loop("%c = %l", f"%w = {kernel('%c')}", yielded("%w"))),
    ),
    "read after a kernel": (
        0,
        function(LITERAL, *loop("%c = %l", f"%w = {kernel('%c')}", read("%w"), yielded("%r0"))),
    ),
    "read as a view": (
        1,
        function(
            LITERAL,
            *loop(
                "%c = %l",
                f"%z = flow.tensor.reshape %c : {T} -> tensor<2x4xf32>",
                f"%v = flow.tensor.reshape %z : tensor<2x4xf32> -> {T}",
                read("%v"),
                yielded("%r0"),
            ),
        ),
    ),
    "one of two carries that start alike": (
        1,
        function(
            LITERAL,
            *loop(
                "%c = %l, %d = %l",
                read("%c"),
                f"%w = {kernel('%d')}",
                f"scf.yield %r0, %w : {T}, {T}",
                count=2,
            ),
            results="%y#0, %y#1",
        ),
    ),
    "carries that change places": (
        3,
        function(
            LITERAL,
            *loop(
                "%c = %l, %d = %l",
                read("%c"),
                f"%w = {kernel('%r0')}",
                f"scf.yield %d, %w : {T}, {T}",
                count=2,
            ),
            results="%y#0, %y#1",
        ),
    ),
    "in a branch": (2, function(LITERAL, *loop("%c = %l", *BRANCH))),
    "in a nested loop": (2, function(LITERAL, *loop("%c = %l", *NESTED, yielded("%w")))),
    "in a loop that does not count": (2, function(LITERAL, *WHILE)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_barriers(name: str) -> None:
    count, text = PROGRAMS[name]
    with parsed(text) as (ir, module, _):
        assert host_reads.wait_for_carries(ir, module) == count
        # Every carry is complete now.
        assert host_reads.wait_for_carries(ir, module) == 0
