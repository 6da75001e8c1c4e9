"""Every op of the op table compiles for TPUs, except those that need f64, which are refused.

Some ops are compiled as one program, for one of two generations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gnomon.backends.errors import CompilationFailed, CompilerCrashed, UnsupportedOnTarget
from gnomon.backends.pjrt.backend import PjrtBackend
from gnomon.backends.pjrt.legalize import reason_unsupported
from gnomon.dialects.body import Body
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType
from tests.ops.cases import GROUP, ROWS
from tests.ops.check import DTYPES, Case, draw_all, joint_program, params_of
from tests.ops.test_pjrt import SUPPORTED

pytestmark = pytest.mark.tpu_compile

BACKEND = PjrtBackend("tpu")
TARGETS = ("v5e:2x2", "v6e:1x1")
# Ops computed in f64, which the compiler emulates: it rejects some and takes minutes for others.
IN_F64 = [op for op in SUPPORTED if reason_unsupported(f"gnomon.{op}", "tpu") is not None]
OPS = [op for op in SUPPORTED if op not in IN_F64]
PARTS = [OPS[i : i + GROUP] for i in range(0, len(OPS), GROUP)]
PREFERRED = ("f32", "i32", "u32", "bool", "c64", "i8", "u8", "i16", "f64", "bf16", "f16")

# The compiler rejects vectors of 2-bit integers, and aborts on some.
TWO_BITS = (DTYPES["i2"], DTYPES["u2"])


def _case(op: str) -> Case:
    """The op's first row in the dtype that TPUs compute with rather than another."""
    return next(
        (row, DTYPES[name])
        for name in PREFERRED
        for row in ROWS
        if row.op == op
        and name in row.dtypes.split()
        and params_of(row, DTYPES[name]).get("dtype", DTYPES[name]) not in TWO_BITS
    )


def check_compiles(ops: Sequence[str], target: str) -> None:
    cases = [_case(op) for op in ops]
    program = joint_program(cases, [draw_all(*case) for case in cases])
    compiled = BACKEND.compile_for(BACKEND.lower(program), target)
    assert compiled.as_text().startswith("HloModule")


@pytest.mark.sampled(0.15)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ops", PARTS, ids=str)
def test_some_compile(ops: Sequence[str], target: str) -> None:
    check_compiles(ops, target)


@pytest.mark.slow
@pytest.mark.sampled(0.25)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ops", PARTS, ids=str)
def test_compiles(ops: Sequence[str], target: str) -> None:
    check_compiles(ops, target)


@pytest.mark.parametrize("op", IN_F64)
def test_ops_that_need_f64_are_refused_by_name(op: str) -> None:
    row = next(row for row in ROWS if row.op == op)
    program = joint_program([(row, DTYPES["f32"])], [draw_all(row, DTYPES["f32"])])
    with pytest.raises(UnsupportedOnTarget, match=rf"gnomon\.{op} cannot run .*'tpu': .* f64"):
        BACKEND.lower(program)


def test_a_compiler_that_aborts_does_not_take_the_process_along() -> None:
    program = Program()
    int2, int8 = DTYPES["i2"], np.dtype(np.int8)
    body = Body.build([TensorType((12,), int2)], lambda x: [ops.convert(x, dtype=int8)])
    program.add("main", body, public=True)
    artifact = BACKEND.lower(program)
    with pytest.raises((CompilerCrashed, CompilationFailed), match=r"Check failed|INT2"):
        BACKEND.compile_for(artifact, TARGETS[0])
    body = Body.build([TensorType((12,), int8)], lambda x: [ops.neg(x)])
    program = Program()
    program.add("main", body, public=True)
    BACKEND.compile_for(BACKEND.lower(program), TARGETS[0])
