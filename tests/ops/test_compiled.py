"""Every row of the op table, compiled by IREE for the CPU and compared with the evaluator.

An op is compiled once, as one program with its first row in every dtype and its other rows in one
dtype each: a compilation costs far more than an op.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.iree.legalize.host_ops import HOST_OPS
from gnomon.dialects.body import Body
from gnomon.dialects.functions import Program
from gnomon.dialects.types import is_inexact, short_name
from tests.ops.check import (
    DTYPES,
    all_rows,
    assert_close,
    draw_all,
    emit_row,
    params_of,
    program_of,
    run,
    types_of,
)
from tests.ops.row import Row

BACKEND = iree_backend("cpu")

Case = tuple[Row, np.dtype]

# (op, dtype name or "*") -> what differs from the evaluator, and why. It shrinks.
_F8 = "IREE 3.13 generates no CPU code for arithmetic on the 8-bit formats"
_I4 = "IREE 3.13 packs 4-bit integers, and takes no sizes that are not whole bytes"
KNOWN_DIFFERENCES: dict[tuple[str, str], str] = {
    **{("*", name): _F8 for name in DTYPES if name.startswith("f8")},
    ("*", "i4"): _I4,
    ("*", "u4"): _I4,
}

# Compiled code may use another algorithm than NumPy's: this many more ulps of the dtype.
EXTRA_ULPS = 8.0


ROWS = all_rows()
OPS = sorted({row.op for row in ROWS})


# Long series and iterations: up to ten seconds of compilation for each dtype. The small dtypes are
# computed in f32, so they are left to the slow tests.
DEAR = (
    "polygamma",
    "zeta",
    "random_gamma_grad",
    "igamma",
    "igammac",
    "igamma_grad_a",
    "regularized_incomplete_beta",
)
_SMALL_FLOATS = ("f16", "bf16")


def _cases(op: str) -> list[Case]:
    rows = [row for row in ROWS if row.op == op]
    if f"gnomon.{op}" in HOST_OPS:
        # Python evaluates the op: what a row puts around it only costs time to compile.
        rows = [replace(row, around=None) for row in rows]
    chosen = []
    for i, row in enumerate(rows):
        names = row.dtypes.split()
        one = "f32" if "f32" in names else names[0]
        chosen += [
            (row, DTYPES[n])
            for n in names
            if (i == 0 or n == one) and not (_excused(op, n) or _excused(op, _target(row, n)))
        ]
    return chosen


def _is_put_off(op: str, dtype: np.dtype) -> bool:
    return op in DEAR and short_name(dtype) in _SMALL_FLOATS


def _target(row: Row, name: str) -> str:
    """The dtype that a conversion gives; of another op, the one that it takes."""
    return short_name(params_of(row, DTYPES[name]).get("dtype") or DTYPES[name])


def _excused(op: str, dtype: str) -> str | None:
    for key in ((op, dtype), (op, "*"), ("*", dtype)):
        if key in KNOWN_DIFFERENCES:
            return KNOWN_DIFFERENCES[key]
    return None


def _joint_program(cases: list[Case], operands: list[list[np.ndarray]]) -> Program:
    """One program that applies every case to its own operands."""
    program = Program()
    types = [t for arrays in operands for t in types_of(arrays)]

    def emit(*values: Any) -> list[Any]:
        results: list[Any] = []
        start = 0
        for (row, dtype), arrays in zip(cases, operands, strict=True):
            given = values[start : start + len(arrays)]
            start += len(arrays)
            results += emit_row(row, dtype, given)
        return results

    program.add("main", Body.build(types, emit), public=True)
    return program


def _compare(cases: list[Case], operands: list[list[np.ndarray]], label: str) -> None:
    program = _joint_program(cases, operands)
    executable = BACKEND.compile(BACKEND.lower(program))
    flat = [np.ascontiguousarray(a).reshape(a.shape) for arrays in operands for a in arrays]
    results = iter(b.to_numpy() for b in executable(flat))
    problems = []
    for (row, dtype), arrays in zip(cases, operands, strict=True):
        expected = run(program_of(row, dtype, arrays), "f", arrays)
        for reference in expected:
            result = next(results)
            try:
                assert result.dtype == reference.dtype
                ulps = row.ulps + EXTRA_ULPS if is_inexact(reference.dtype) else 0.0
                assert_close(result, reference, reference.dtype, ulps, f"{row.id} {dtype}")
            except AssertionError as error:
                problems.append(str(error))
    assert not problems, f"{label}:\n" + "\n".join(problems)


def _check(op: str, cases: list[Case]) -> None:
    operands = [draw_all(row, dtype, salt="compiled", edges=True) for row, dtype in cases]
    _compare(cases, operands, op)


@pytest.mark.parametrize("op", OPS)
def test_compiled_equals_evaluated(op: str) -> None:
    cases = [case for case in _cases(op) if not _is_put_off(op, case[1])]
    if not cases:
        pytest.skip(KNOWN_DIFFERENCES.get((op, "*"), "every dtype is a known difference"))
    _check(op, cases)


@pytest.mark.slow
@pytest.mark.parametrize("op", DEAR)
def test_small_dtypes_of_dear_ops(op: str) -> None:
    cases = [case for case in _cases(op) if _is_put_off(op, case[1])]
    assert cases
    _check(op, cases)
