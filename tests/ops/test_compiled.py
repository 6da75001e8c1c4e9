"""Every row of the op table, compiled by IREE for the CPU and compared with the evaluator.

An op is compiled once, as one program with its first row in every dtype and its other rows in one
dtype each: a compilation costs far more than an op. There are no exceptions: every dtype that an op
declares compiles, and its results are the evaluator's.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.iree.legalize.host_ops import HOST_OPS
from gnomon.backends.narrow_formats import is_narrow
from gnomon.dialects.types import short_name
from tests.ops.check import DTYPES, Case, all_rows, check_compiled, params_of

BACKEND = iree_backend("cpu")

ROWS = all_rows()
OPS = sorted({row.op for row in ROWS})


# Only slow tests cover long series and iterations, which take up to ten seconds to compile for each
# dtype, and the dtypes that are computed in f32 or bytes, whose rewriting has other tests.
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


# An op of each kind: elementwise, structural, contraction, reduction, windowed, linear algebra.
SMOKE = ("add", "exp", "gather", "dot_general", "reduce_sum", "conv_general_dilated", "cholesky")


def _marks(op: str) -> tuple[pytest.MarkDecorator, ...]:
    if op in DEAR:
        return (pytest.mark.slow,)
    return (pytest.mark.smoke,) if op in SMOKE else ()


def _cases(op: str) -> list[Case]:
    rows = [row for row in ROWS if row.op == op]
    if f"gnomon.{op}" in HOST_OPS:
        # Python evaluates the op, so compiling the rest of a row only costs time.
        rows = [replace(row, around=None) for row in rows]
    chosen = []
    for i, row in enumerate(rows):
        names = row.dtypes.split()
        one = "f32" if "f32" in names else names[0]
        chosen += [(row, DTYPES[n]) for n in names if i == 0 or n == one]
    return chosen


def _is_put_off(case: Case) -> bool:
    row, dtype = case
    target = params_of(row, dtype).get("dtype") or dtype
    is_dear = row.op in DEAR and short_name(dtype) in _SMALL_FLOATS
    return is_dear or is_narrow(dtype) or is_narrow(target)


@pytest.mark.parametrize("op", [pytest.param(op, marks=_marks(op)) for op in OPS])
def test_compiled_equals_evaluated(op: str) -> None:
    cases = [case for case in _cases(op) if not _is_put_off(case)]
    assert cases
    check_compiled(BACKEND, cases)


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in OPS if any(map(_is_put_off, _cases(op)))])
def test_compiled_equals_evaluated_in_small_dtypes(op: str) -> None:
    check_compiled(BACKEND, [case for case in _cases(op) if _is_put_off(case)])
