"""The op table and programs on any backend, compared with the evaluator.

The tests of a platform name the backend and its missing features; the checks are the same for all
platforms.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.backends.iree.legalize.host_ops import HOST_OPS
from gnomon.backends.narrow_formats import is_narrow
from gnomon.dialects.dot_algorithm import TF32, algorithm_of, is_algorithm
from gnomon.dialects.functions import Program
from gnomon.dialects.types import is_inexact, short_name
from tests.ops.check import (
    DTYPES,
    all_rows,
    assert_close,
    draw_all,
    joint_program,
    params_of,
    program_of,
    run,
)
from tests.ops.row import Row

__all__ = ["OPS", "Case", "cases_of", "check_cases", "dtypes_of", "few_cases_of", "run_on"]

Case = tuple[Row, np.dtype]

# Compiled code may use another algorithm than NumPy's: this many more ulps of the dtype.
EXTRA_ULPS = 8.0

ROWS = all_rows()
OPS = sorted({row.op for row in ROWS})


def dtypes_of(case: Case) -> set[str]:
    """The short names of the dtypes of a case.

    These are the dtype under test and those of the operands, the parameters, and an algorithm
    among the parameters.
    """
    row, dtype = case
    params = params_of(row, dtype).values()
    found = {short_name(d) for d in (dtype, *(a.dtype for a in draw_all(row, dtype)))}
    found |= {short_name(v) for v in params if isinstance(v, np.dtype)}
    for text in params:
        if isinstance(text, str) and is_algorithm(text):
            algorithm = algorithm_of(text)
            found |= {algorithm.lhs, algorithm.rhs, algorithm.accumulation} - {TF32}
    return found


def cases_of(op: str, dtypes: Collection[str] = frozenset(DTYPES)) -> list[Case]:
    """An op's first row in every dtype and its other rows in one dtype each.

    Args:
      op: its name.
      dtypes: short names of those that the platform has.
    """
    rows = [row for row in ROWS if row.op == op]
    if f"gnomon.{op}" in HOST_OPS:
        # Python evaluates the op, so compiling the rest of a row only costs time.
        rows = [replace(row, around=None) for row in rows]
    chosen: list[Case] = []
    for i, row in enumerate(rows):
        cases = [(row, DTYPES[name]) for name in row.dtypes.split()]
        cases = [case for case in cases if dtypes_of(case) <= set(dtypes)]
        one = next((c for c in cases if short_name(c[1]) == "f32"), cases[0] if cases else None)
        chosen += [case for case in cases if i == 0 or case is one]
    return chosen


def few_cases_of(op: str, dtypes: Collection[str]) -> list[Case]:
    """An op's first row in f32 and in another dtype, which differs from op to op.

    Dtypes that are computed in bytes are left out: `backends/narrow.py` has its own tests.
    """
    cases = [case for case in cases_of(op, dtypes) if not is_narrow(case[1])]
    cases = [case for case in cases if case[0] is cases[0][0]]
    plain = [case for case in cases if short_name(case[1]) == "f32"]
    others = [case for case in cases if short_name(case[1]) != "f32"]
    return plain + others[zlib.crc32(op.encode()) % len(others) :][:1] if others else plain


def run_on(backend: Any, program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a program's ``main`` on a backend's first device."""
    executable = backend.compile(backend.lower(program))
    given = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
    return [buffer.to_numpy() for buffer in executable(given)]


def check_cases(
    backend: Any,
    cases: Sequence[Case],
    *,
    extra_ulps: Callable[[Case], float] = lambda _: EXTRA_ULPS,
) -> None:
    """Run cases as one program, and fail with all differences from the evaluator."""
    operands = [draw_all(row, dtype, salt="compiled", edges=True) for row, dtype in cases]
    program = joint_program(cases, operands)
    results = iter(run_on(backend, program, [a for arrays in operands for a in arrays]))
    problems = []
    for case, arrays in zip(cases, operands, strict=True):
        row, dtype = case
        for reference in run(program_of(row, dtype, arrays), "f", arrays):
            result = next(results)
            try:
                assert result.dtype == reference.dtype
                ulps = row.ulps + extra_ulps(case) if is_inexact(reference.dtype) else 0.0
                name = f"{row.id} {short_name(dtype)}"
                assert_close(result, reference, reference.dtype, ulps, name)
            except AssertionError as error:
                problems.append(str(error))
    assert not problems, "\n".join(problems)
