"""Which rows and dtypes of the op table a check takes, and how many ops it joins in a program."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gnomon.backends.iree.legalize.host_ops import HOST_OPS
from gnomon.backends.narrow_formats import is_narrow
from gnomon.dialects.dot_algorithm import TF32, algorithm_of, is_algorithm
from gnomon.dialects.types import short_name
from tests.ops.check import DTYPES, Case, all_rows, draw_all, params_of

ROWS = all_rows()
OPS = sorted({row.op for row in ROWS})

# Series and iterations take seconds to compile for each dtype.
DEAR = frozenset(
    (
        "igamma",
        "igamma_grad_a",
        "igammac",
        "polygamma",
        "random_gamma_grad",
        "regularized_incomplete_beta",
        "zeta",
    )
)

# The number of ops in one program: a compilation costs more than an op, but long programs are slow
# to compile, and leave one worker waiting for the other at the end.
GROUP = 8


def groups(ops: Sequence[str], size: int = GROUP) -> list[Any]:
    """Parameters of a test that each hold several ops, to be compiled as one program."""
    parts = [ops[i : i + size] for i in range(0, len(ops), size)]
    return [pytest.param(part, id=f"{part[0]} to {part[-1]}") for part in parts]


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


def cases_of(
    op: str,
    dtypes: Collection[str] = frozenset(DTYPES),
    in_every_dtype: Callable[[str], bool] = lambda op: True,
    calls_python: bool = True,
) -> list[Case]:
    """Cases in which each row of an op occurs, and each dtype that a row has.

    A row occurs in f32, or in its first dtype, and in the dtypes that no earlier row has: integers
    and floats often have separate rows.

    Args:
      op: its name.
      dtypes: short names of those that the platform has.
      in_every_dtype: whether every dtype of an op occurs, or only one for each row.
      calls_python: whether Python evaluates `HOST_OPS`, as for IREE's programs: then their results
        are the evaluator's, also where they are not unique, and the ops around them cost time only.
    """
    rows = [row for row in ROWS if row.op == op]
    if calls_python and f"gnomon.{op}" in HOST_OPS:
        rows = [replace(row, around=None) for row in rows]
    chosen: list[Case] = []
    covered: set[np.dtype] = set()
    for row in rows:
        cases = [(row, DTYPES[name]) for name in row.dtypes.split()]
        if len(dtypes) < len(DTYPES):
            cases = [case for case in cases if dtypes_of(case) <= set(dtypes)]
        one = next((c for c in cases if short_name(c[1]) == "f32"), cases[0] if cases else None)
        every = in_every_dtype(op)
        chosen += [c for c in cases if c is one or (every and c[1] not in covered)]
        covered.update(dtype for _, dtype in cases)
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
