"""The bodies of written kernels are set aside, and put back in the place of their barriers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.nn as nn
from gnomon import lax
from gnomon.backends.iree.inside.compiler_ir import CompilerIR
from gnomon.backends.iree.inside.kernel_bodies import Bodies
from tests.backends.iree.inside.test_in_place_pass import parsed

VIEW = "memref<64xf32>"
LONG = tuple(f"%x{i} = arith.addf %x{i - 1}, %x{i - 1} : f32" for i in range(1, 30))


def executable(*lines: str, name: str = "k") -> str:
    """A kernel that reads an element of its operand, and writes the last of some numbers."""
    body = "\n".join(lines)
    return f"""
stream.executable private @{name} {{
  stream.executable.export public @{name} workgroups() -> (index, index, index) {{
    %one = arith.constant 1 : index
    stream.return %one, %one, %one : index, index, index
  }}
  builtin.module {{
    func.func @{name}(%a: !stream.binding, %i: index, %b: !stream.binding) {{
      %zero = arith.constant 0 : index
      %from = stream.binding.subspan %a[%zero] : !stream.binding -> {VIEW}
      %to = stream.binding.subspan %b[%zero] : !stream.binding -> {VIEW}
      %x0 = memref.load %from[%i] : {VIEW}
      {body}
      memref.store %x{len(lines)}, %to[%zero] : {VIEW}
      return
    }}
  }}
}}"""


def ops(ir: CompilerIR, module: int) -> list[str]:
    """The names of the operations of the kernels' functions."""
    functions = (op for op in ir.nested(module) if ir.name(op) == "func.func")
    return [ir.name(op) for function in functions for op in ir.nested(function)]


def barriers(ir: CompilerIR, module: int) -> list[int]:
    return [op for op in ir.nested(module) if ir.name(op) == "util.optimization_barrier"]


def test_what_stays_and_what_comes_back() -> None:
    with parsed(executable(*LONG)) as (ir, module, _):
        before = ops(ir, module)
        bodies = Bodies(ir, module)
        assert bodies.count == 1
        views = ["stream.binding.subspan"] * 2
        left = ["arith.constant", *views, "util.optimization_barrier", "func.return"]
        assert ops(ir, module) == left
        (barrier,) = barriers(ir, module)
        types = [ir.type_text(value) for value in ir.operands(barrier)]
        assert types == [VIEW, VIEW, "index"]
        bodies.put_back(module)
        bodies.close()
        # What computes the views is there twice.
        assert ops(ir, module) == ["arith.constant", *views, "arith.constant", *before[3:]]
        assert ops(ir, module).count("arith.addf") == len(LONG)


def test_short_bodies_stay() -> None:
    with parsed(executable(*LONG[:3])) as (ir, module, _):
        before = ops(ir, module)
        bodies = Bodies(ir, module)
        assert bodies.count == 0
        assert ops(ir, module) == before
        bodies.put_back(module)
        bodies.close()
        assert ops(ir, module) == before


def test_a_body_reads_what_its_barrier_reads() -> None:
    """Passes replace a kernel's numbers, and the bindings from which it has its views."""
    with parsed(executable(*LONG)) as (ir, module, _):
        bodies = Bodies(ir, module)
        (barrier,) = barriers(ir, module)
        first, second, _ = ir.operands(barrier)
        (zero,) = (
            op
            for op in ir.nested(module)
            if ir.name(op) == "arith.constant" and ir.block_of(op) == ir.block_of(barrier)
        )
        for index, value in enumerate((second, first, ir.results(zero)[0])):
            ir.set_operand(barrier, index, value)
        bodies.put_back(module)
        bodies.close()
        (load,) = (op for op in ir.nested(module) if ir.name(op) == "memref.load")
        assert ir.operands(load) == [second, ir.results(zero)[0]]


def test_copies_of_a_kernel_all_get_the_body() -> None:
    with parsed(executable(*LONG)) as (ir, module, _):
        bodies = Bodies(ir, module)
        (old,) = (op for op in ir.nested(module) if ir.name(op) == "stream.executable")
        new = ir.clone(old)
        ir.set_attribute(new, "sym_name", ir.parse_attribute('"copy"'))
        ir.insert_before(old, new)
        bodies.put_back(module)
        bodies.close()
        assert ops(ir, module).count("arith.addf") == 2 * len(LONG)
        assert not barriers(ir, module)


def test_each_kernel_gets_its_own_body() -> None:
    other = tuple(line.replace("addf", "mulf") for line in LONG)
    with parsed(executable(*LONG) + executable(*other, name="l")) as (ir, module, _):
        bodies = Bodies(ir, module)
        assert bodies.count == 2
        bodies.put_back(module)
        bodies.close()
        names = [name for name in ops(ir, module) if name in ("arith.addf", "arith.mulf")]
        assert names == ["arith.addf"] * len(LONG) + ["arith.mulf"] * len(LONG)


def test_unused_kernels_may_be_dropped() -> None:
    with parsed(executable(*LONG)) as (ir, module, _):
        bodies = Bodies(ir, module)
        (kernel,) = (op for op in ir.nested(module) if ir.name(op) == "stream.executable")
        ir.erase(kernel)
        bodies.put_back(module)
        bodies.close()

    def function(x: Any) -> Any:
        return lax.switch(gn.numpy.full((), 1), [nn.softmax, lambda x: x + 1], x)

    x = np.ones((64, 64), np.float32)
    np.testing.assert_array_equal(gn.jit(function)(x), x + 1)
    pairs = np.full((1, 2), -1, np.int32)
    found = gn.jit(lambda x: gn.numpy.unique(gn.numpy.full_like(x, -1), size=4, fill_value=1))
    np.testing.assert_array_equal(found(pairs), [-1, 1, 1, 1])


def test_a_lost_body_is_an_error() -> None:
    with parsed(executable(*LONG)) as (ir, module, _):
        bodies = Bodies(ir, module)
        (barrier,) = barriers(ir, module)
        ir.erase(barrier)
        with pytest.raises(ValueError, match="dropped the body"):
            bodies.put_back(module)
        bodies.close()


@pytest.mark.parametrize("layers", [1, 5])
def test_equal_and_different_kernels_of_a_program(layers: int) -> None:
    """Softmaxes of equal and of different shapes: equal kernels are one, the others differ."""

    def function(x: Any, w: Any) -> Any:
        for axis in itertools.islice(itertools.cycle((0, 1, 1)), layers):
            x = nn.softmax(x @ w, axis)
        return x

    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(n, 48)).astype(np.float32) for n in (200, 48))
    expected = np.asarray(function(gn.numpy.asarray(x), w))
    np.testing.assert_allclose(gn.jit(function)(x, w), expected, rtol=2e-5, atol=1e-6)
