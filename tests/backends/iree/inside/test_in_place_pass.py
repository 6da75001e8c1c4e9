"""The pass `in_place` on programs with kernels: the buffers that it copies."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

import pytest
from iree.compiler.api import Output, Session, Source

from gnomon import _native
from gnomon.backends.iree.inside.compiler_ir import CompilerIR
from gnomon.backends.iree.inside.in_place import copy_updated_buffers
from gnomon.backends.iree.inside.session import handles

T, U = "tensor<8xf32>", "tensor<2xf32>"
RAMP = [float(i) for i in range(8)]
KERNEL = """
flow.executable private @k {
  flow.executable.export public @k
  builtin.module {
    func.func @k() { return }
  }
}
util.func private @host(!hal.buffer_view) -> !hal.buffer_view
"""
UPDATE = "flow.tensor.update %u, {}[%c0] : tensor<2xf32> -> {} as tensor<8xf32>"


def update(value: str) -> str:
    return UPDATE.format(value, value)


def kernel(value: str) -> str:
    return f"flow.dispatch @k::@k({value}) : ({T}) -> {T}"


def function(*lines: str, results: str = "%y") -> str:
    types = ", ".join(T for _ in results.split(","))
    body = "\n".join(
        [
            f"%a = hal.tensor.import %p : !hal.buffer_view -> {T}",
            f"%u = hal.tensor.import %q : !hal.buffer_view -> {U}",
            "%c0 = arith.constant 0 : index",
            *lines,
            f"util.return {results} : {types}",
        ]
    )
    arguments = "%p: !hal.buffer_view, %q: !hal.buffer_view, %n: index, %b: i1"
    return f"{KERNEL}\nutil.func public @main({arguments}) -> ({types}) {{\n{body}\n}}"


@contextlib.contextmanager
def parsed(text: str) -> Iterator[tuple[CompilerIR, int, object]]:
    session = Session()
    with session, session.invocation() as invocation:
        ir = CompilerIR(*handles(session), ctypes.CDLL(_native.__file__))
        invocation.enable_console_diagnostics()
        assert invocation.parse_source(Source.wrap_buffer(session, text.encode()))
        with ir.module_of(invocation) as module:
            yield ir, module, invocation
        output = Output.open_membuffer()
        invocation.output_ir(output)
        output.close()


LOOP = "%y:{n} = scf.for %i = %c0 to %n step %n iter_args({args}) -> ({types}) {{"


def loop(args: str, *body: str, count: int = 1) -> list[str]:
    types = ", ".join([T] * count)
    return [LOOP.format(n=count, args=args, types=types), *body, "}"]


ROWS = f"%v = flow.dispatch @k::@k({{}}) : ({T}) -> {U}"
WRITE = f"%y = flow.tensor.update %v, %x[%c0] : {U} -> %x as {T}"

PROGRAMS = {
    "rows from the updated buffer": (1, function(f"%x = {kernel('%a')}", ROWS.format("%x"), WRITE)),
    "rows from another buffer": (0, function(f"%x = {kernel('%a')}", ROWS.format("%a"), WRITE)),
    "rows from a view of the updated buffer": (
        1,
        function(
            f"%x = {kernel('%a')}",
            f"%z = flow.tensor.reshape %x : {T} -> tensor<2x4xf32>",
            f"%s = flow.tensor.reshape %z : tensor<2x4xf32> -> {T}",
            ROWS.format("%s"),
            WRITE,
        ),
    ),
    "rows put together from the updated buffer": (
        1,
        function(
            f"%x = {kernel('%a')}",
            ROWS.format("%x"),
            f"%z = flow.tensor.empty : {T}",
            f"%w = flow.tensor.update %v, %z[%c0] : {U} -> %z as {T}",
            f"%y = flow.tensor.update %w, %x[%c0] : {T} -> %x as {T}",
        ),
    ),
    "its own buffer": (0, function(f"%x = {kernel('%a')}", f"%y = {update('%x')}")),
    "an argument": (1, function(f"%y = {update('%a')}")),
    "a literal": (1, function(f"%x = arith.constant dense<{RAMP}> : {T}", f"%y = {update('%x')}")),
    "one number everywhere": (
        0,
        function(f"%x = arith.constant dense<2.0> : {T}", f"%y = {update('%x')}"),
    ),
    "returned": (
        1,
        function(f"%x = {kernel('%a')}", f"%y = {update('%x')}", results="%x, %y"),
    ),
    "returned as a view": (
        1,
        function(
            f"%x = {kernel('%a')}",
            f"%v = flow.tensor.reshape %x : {T} -> tensor<4x2xf32>",
            f"%w = flow.tensor.reshape %v : tensor<4x2xf32> -> {T}",
            f"%y = {update('%x')}",
            results="%w, %y",
        ),
    ),
    "read by something independent": (
        1,
        function(
            f"%x = {kernel('%a')}", f"%r = {kernel('%x')}", f"%y = {update('%x')}", results="%r, %y"
        ),
    ),
    "read by what the update is made of": (
        1,
        function(
            f"%x = {kernel('%a')}",
            f"%r = {kernel('%x')}",
            f"%s = flow.tensor.slice %r[%c0 for %c0] : {T} -> {U}",
            f"%y = flow.tensor.update %s, %x[%c0] : {U} -> %x as {T}",
        ),
    ),
    "updated by a part of itself": (
        1,
        function(
            f"%x = {kernel('%a')}",
            f"%s = flow.tensor.slice %x[%c0 for %c0] : {T} -> {U}",
            f"%y = flow.tensor.update %s, %x[%c0] : {U} -> %x as {T}",
        ),
    ),
    "updated twice, one after the other": (
        0,
        function(f"%x = {kernel('%a')}", f"%z = {update('%x')}", f"%y = {update('%z')}"),
    ),
    "updated in two ways": (
        2,
        function(
            f"%x = {kernel('%a')}",
            f"%z = {update('%x')}",
            f"%y = {update('%x')}",
            results="%z, %y",
        ),
    ),
    "Python's": (
        1,
        function(
            "%h = util.call @host(%p) : (!hal.buffer_view) -> !hal.buffer_view",
            f"%x = hal.tensor.import %h : !hal.buffer_view -> {T}",
            f"%y = {update('%x')}",
        ),
    ),
    "a branch's": (
        1,
        function(
            f"%x = scf.if %b -> ({T}) {{ scf.yield %a : {T} }} else {{ scf.yield %a : {T} }}",
            f"%y = {update('%x')}",
        ),
    ),
    "a carry": (
        0,
        function(
            f"%x = {kernel('%a')}",
            *loop("%c = %x", f"%z = {update('%c')}", f"scf.yield %z : {T}"),
        ),
    ),
    "a carry that starts as an argument": (
        1,
        function(*loop("%c = %a", f"%z = {update('%c')}", f"scf.yield %z : {T}")),
    ),
    "two carries that start alike": (
        1,
        function(
            f"%x = {kernel('%a')}",
            *loop(
                "%c = %x, %d = %x",
                f"%z = {update('%c')}",
                f"%w = {update('%d')}",
                f"scf.yield %z, %w : {T}, {T}",
                count=2,
            ),
            results="%y#0, %y#1",
        ),
    ),
    "carries that change places": (
        1,
        function(
            f"%x = {kernel('%a')}",
            *loop(
                "%d = %a, %c = %x",
                f"%z = {update('%c')}",
                f"scf.yield %z, %d : {T}, {T}",
                count=2,
            ),
            results="%y#0, %y#1",
        ),
    ),
    "a carry that leaves twice": (
        1,
        function(
            f"%x = {kernel('%a')}",
            f"%v = {kernel('%x')}",
            *loop(
                "%c = %x, %d = %v",
                f"%z = {update('%c')}",
                f"scf.yield %z, %z : {T}, {T}",
                count=2,
            ),
            results="%y#0, %y#1",
        ),
    ),
    "a carry that is read after its update": (
        0,
        function(
            f"%x = {kernel('%a')}",
            f"%v = {kernel('%x')}",
            *loop(
                "%c = %x, %d = %v",
                f"%z = {update('%c')}",
                f"%r = {kernel('%z')}",
                f"scf.yield %z, %r : {T}, {T}",
                count=2,
            ),
            results="%y#0, %y#1",
        ),
    ),
    "a carry that is read after the host has waited": (
        1,
        function(
            f"%x = {kernel('%a')}",
            f"%v = {kernel('%x')}",
            *loop(
                "%c = %x, %d = %v",
                f"%z = {update('%c')}",
                f"%l = flow.tensor.load %z[%c0] : {T}",
                f"%r = {kernel('%z')}",
                f"scf.yield %z, %r : {T}, {T}",
                count=2,
            ),
            results="%y#0, %y#1",
        ),
    ),
    "a carry of a while": (
        1,
        function(
            f"%y = scf.while (%c = %a) : ({T}) -> {T} {{",
            f"%z = {update('%c')}",
            f"scf.condition(%b) %z : {T}",
            "} do {",
            f"^bb0(%d: {T}):",
            f"scf.yield %d : {T}",
            "}",
        ),
    ),
    "what a body is given from outside": (
        1,
        function(
            f"%x = {kernel('%a')}",
            *loop("%c = %a", f"%z = {update('%x')}", f"scf.yield %z : {T}"),
        ),
    ),
    "the result of a loop that updates it": (
        0,
        function(
            f"%x = {kernel('%a')}",
            *loop("%c = %x", f"%z = {update('%c')}", f"scf.yield %z : {T}"),
            f"%v = {update('%y')}",
            results="%v",
        ),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_copies_values_that_an_update_must_not_overwrite(name: str) -> None:
    count, text = PROGRAMS[name]
    with parsed(text) as (ir, module, _):
        assert copy_updated_buffers(ir, module) == count
        assert copy_updated_buffers(ir, module) == 0
