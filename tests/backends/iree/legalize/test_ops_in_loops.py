"""The op table in loops that are kernels of vector code; the operands differ in each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.iree.legalize.loop_kernels import code as scalar_kernels
from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body
from gnomon.dialects.control_flow import scan
from gnomon.dialects.functions import Program
from gnomon.dialects.types import short_name
from tests.ops.cases import OPS, few_cases_of
from tests.ops.check import Case, draw_all, emit_row, types_of, ulps_of
from tests.tolerance import assert_near

BACKEND = iree_backend("cpu")
DTYPES = {"f32", "f64", "i8", "i16", "i32", "i64", "u8", "u32", "bool"}
# The number of cases in one program.
_GROUP = 14

_LEFT_OUT = {"while", "scan", "switch", "sort", "fft", "conv_general_dilated"} | {
    f"{kind}_callback" for kind in ("pure", "io", "debug")
}
CASES = [
    case
    for op in OPS
    if op not in _LEFT_OUT
    for case in few_cases_of(op, BACKEND.target.capabilities.dtypes)
    if short_name(case[1]) in DTYPES
]


def _program(cases: Sequence[Case], operands: Sequence[Sequence[np.ndarray]]) -> Program:
    """A loop of two steps for each case, over two copies of its operands."""
    types = types_of([np.stack([x, x]) for arrays in operands for x in arrays])
    params = {"consts": 0, "carry": 0, "length": 2, "reverse": False, "unroll": 1}

    def emit(*values: Any) -> list[Any]:
        results, at = [], 0
        for (row, dtype), arrays in zip(cases, operands, strict=True):
            given = values[at : at + len(arrays)]
            at += len(arrays)
            step = lambda *x, row=row, dtype=dtype: emit_row(row, dtype, x)  # noqa: E731
            results += scan.build(list(given), params, [Body.build(types_of(arrays), step)])
        return results

    program = Program()
    program.add("main", Body.build(types, emit), public=True)
    return program


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("first", range(0, len(CASES), _GROUP))
def test_ops_in_loops(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalar_kernels, "_BUDGET", -1)
    drawn = [(case, draw_all(*case)) for case in CASES[first : first + _GROUP]]
    cases = [case for case, arrays in drawn if arrays]
    operands = [arrays for _, arrays in drawn if arrays]
    arguments = [np.stack([x, x]) for arrays in operands for x in arrays]
    expected = Evaluator(_program(cases, operands))("main", *arguments)
    executable = BACKEND.compile(BACKEND.lower(_program(cases, operands)))
    ulps = max(64.0, *(4 * ulps_of(*case, compiled=True) for case in cases))
    for result, value in zip(executable(arguments), expected, strict=True):
        assert_near(result.to_numpy(), np.asarray(value), ulps, scale=1.0)
