"""Every op of the op table, compiled by IREE for the CPU and compared with the evaluator.

Each op has all of its rows in some dtype and all of its dtypes in some row, of which each commit
compiles a ninth, together with some other ops: a compilation costs far more than an op. There are
no exceptions: every dtype that an op declares compiles, and its results are the evaluator's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.narrow_formats import is_narrow
from gnomon.dialects.types import short_name
from tests.ops.cases import DEAR, GROUP, OPS, cases_of, groups
from tests.ops.check import Case, check_compiled, params_of
from tests.sample import sample

BACKEND = iree_backend("cpu")

_SMALL_FLOATS = ("f16", "bf16")


# An op of each kind: elementwise, structural, contraction, reduction, windowed, linear algebra.
SMOKE = ("add", "exp", "gather", "dot_general", "reduce_sum", "conv_general_dilated", "cholesky")


def _is_put_off(case: Case) -> bool:
    """Whether only slow tests cover a case: its rewriting to f32 or bytes has other tests."""
    row, dtype = case
    target = params_of(row, dtype).get("dtype") or dtype
    is_dear = row.op in DEAR and short_name(dtype) in _SMALL_FLOATS
    return is_dear or is_narrow(dtype) or is_narrow(target)


@pytest.mark.parametrize("parts", [9, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "ops",
    [
        pytest.param(SMOKE, marks=pytest.mark.smoke, id="of each kind"),
        *groups([op for op in OPS if op not in DEAR and op not in SMOKE], 2 * GROUP),
    ],
)
def test_compiled_equals_evaluated(ops: Sequence[str], parts: int) -> None:
    cases = []
    for op in ops:
        every = [case for case in cases_of(op) if not _is_put_off(case)]
        cases += sample(every, math.ceil(len(every) / parts), op)
    assert {row.op for row, _ in cases} == set(ops)
    check_compiled(BACKEND, cases)


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("op", sorted(DEAR))
def test_compiled_series_equal_evaluated(op: str) -> None:
    check_compiled(BACKEND, [case for case in cases_of(op) if not _is_put_off(case)])


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("ops", groups([op for op in OPS if any(map(_is_put_off, cases_of(op)))]))
def test_compiled_equals_evaluated_in_small_dtypes(ops: Sequence[str]) -> None:
    check_compiled(BACKEND, [case for op in ops for case in cases_of(op) if _is_put_off(case)])
