"""The StableHLO forms of the elementwise ops, run by StableHLO's own interpreter, in every dtype.

Unlike the compilers, the interpreter takes 8-bit floats and integers of 2 and 4 bits, so their
lowering is compared with the evaluator here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gnomon.dialects.body import Body
from gnomon.dialects.emit import constant, convert, ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import stablehlo
from gnomon.dialects.types import BOOL, TensorType, is_complex, is_floating, short_name, type_of
from gnomon.passes.lower import lower_to_stablehlo
from tests.ops import (
    rows_elementwise,
    rows_elementwise_bits,
    rows_elementwise_functions,
    rows_elementwise_integrals,
    rows_elementwise_special,
)
from tests.ops.check import DTYPES, assert_close, draw_all, op_of, params_of, program_of, run
from tests.ops.row import Row

ROOMS = (
    rows_elementwise,
    rows_elementwise_functions,
    rows_elementwise_bits,
    rows_elementwise_special,
    rows_elementwise_integrals,
)
ROWS = [row for room in ROOMS for row in room.ROWS]

# The faults of the interpreter itself, by op and dtype.
INTERPRETER_FAULTS = {
    ("log1p", "c128"): "loses the digits of the real part of small arguments",
    ("expm1", "c128"): "loses the digits of the real part of small arguments",
    # LLVM rounds by adding the first number without a fraction, 16, which is beyond this format.
    ("ceil", "f8_e3m4"): "makes nan of finite numbers",
    ("floor", "f8_e3m4"): "makes nan of finite numbers",
    ("round", "f8_e3m4"): "makes nan of finite numbers",
}
LEFT_OUT = {
    "integers, any divisor": "it divides by zero as the machine does, which ends the process",
    "to f8_e8m0fnu": "it drops the sign of numbers that the format, powers of two, does not hold",
    "e1m0 rank 1": "it makes nan infinite where no mantissa bit is left",
}
EXTRA_ULPS = 8.0

Case = tuple[Row, np.dtype]


def _parts(value: Any) -> list[Any]:
    """A value as one or more values of dtypes that the bindings can return."""
    dtype = type_of(value).dtype
    if is_complex(dtype):
        return [*_parts(ops.real(value)), *_parts(ops.imag(value))]
    if dtype == BOOL or short_name(dtype) in ("i2", "u2", "i4", "u4"):
        return [convert(value, np.dtype(np.int8))]
    if is_floating(dtype):
        return [ops.bitcast_convert(value, dtype=np.dtype(f"uint{8 * dtype.itemsize}"))]
    return [value]


def _joined(parts: list[np.ndarray], type_: TensorType) -> np.ndarray:
    dtype = type_.dtype
    if is_complex(dtype):
        real = np.zeros((), dtype).real.dtype
        result = np.empty(type_.shape, dtype)
        result.real, result.imag = (p.reshape(-1).view(real).reshape(type_.shape) for p in parts)
        return result
    (part,) = parts
    if is_floating(dtype):
        return part.reshape(-1).view(dtype).reshape(type_.shape)
    return part.astype(dtype).reshape(type_.shape)


def _interpreted(cases: list[Case], operands: list[list[np.ndarray]]) -> list[np.ndarray]:
    """The results of all cases, from one program without arguments."""
    program = Program()
    types: list[TensorType] = []

    def emit() -> list[Any]:
        results: list[Any] = []
        for (row, dtype), arrays in zip(cases, operands, strict=True):
            (value,) = op_of(row).build([constant(a) for a in arrays], params_of(row, dtype))
            types.append(type_of(value))
            results += _parts(value)
        return results

    program.add("main", Body.build([], emit), public=True)
    lower_to_stablehlo(program)
    assert program.module.operation.verify()
    found = iter(np.array(a) for a in stablehlo.eval_module(program.module, []))
    return [_joined([next(found) for _ in range(1 + is_complex(t.dtype))], t) for t in types]


def _cases(op: str) -> list[Case]:
    return [
        (row, DTYPES[name])
        for row in ROWS
        if row.op == op and row.label not in LEFT_OUT
        for name in row.dtypes.split()
        if (op, name) not in INTERPRETER_FAULTS
    ]


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("op", sorted({row.op for row in ROWS}))
def test_interpreted_equals_evaluated(op: str) -> None:
    cases = _cases(op)
    operands = [draw_all(row, dtype, salt="interpreted", edges=True) for row, dtype in cases]
    results = _interpreted(cases, operands)
    problems = []
    for (row, dtype), arrays, result in zip(cases, operands, results, strict=True):
        (expected,) = run(program_of(row, dtype, arrays), "f", arrays)
        try:
            assert result.dtype == expected.dtype
            ulps = row.ulps + EXTRA_ULPS if row.ulps else 0.0
            assert_close(result, expected, expected.dtype, ulps, f"{row.id} {dtype}")
        except AssertionError as error:
            problems.append(str(error))
    assert not problems, "\n".join(problems)
