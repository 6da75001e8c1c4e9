"""For each op of the table: its lowered form is raised to a program with the same value."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.backends.reference import Evaluator
from gnomon.passes.pipeline import EXPAND, LOWER, run_passes
from gnomon.passes.raise_stablehlo import raise_stablehlo
from tests.ops.check import DTYPES, Case, all_rows, assert_close, draw_all, joint_program
from tests.sample import sample

CASES: list[Case] = [(row, DTYPES[name]) for row in all_rows() for name in row.dtypes.split()]
JOINED = 50


def check(cases: list[Case]) -> None:
    """Evaluate cases in one program, and again after lowering and raising it."""
    operands = [draw_all(row, dtype) for row, dtype in cases]
    arrays = [a for part in operands for a in part]
    expected = Evaluator(joint_program(cases, operands))("main", *arrays)
    lowered = joint_program(cases, operands)
    run_passes(lowered.module, (*EXPAND, *LOWER))
    program = raise_stablehlo(lowered.module)
    assert program.module.operation.verify()
    results = Evaluator(program)("main", *arrays)
    ulps = max(8.0, *(2 * row.ulps for row, _ in cases))
    ids = ", ".join(row.id for row, _ in cases)
    for actual, wanted in zip(results, expected, strict=True):
        assert actual.dtype == wanted.dtype
        assert_close(actual, wanted, wanted.dtype, ulps, ids)


def test_the_raised_form_of_a_lowered_op_has_its_value() -> None:
    """A sample of the ops and dtypes, in joined programs."""
    chosen = sample(CASES, 200, "raising")
    for start in range(0, len(chosen), JOINED):
        check(chosen[start : start + JOINED])


@pytest.mark.exhaustive
def test_the_raised_form_of_every_lowered_op_has_its_value() -> None:
    """All ops and dtypes; about forty seconds."""
    for case in CASES:
        check([case])


def test_the_table_covers_arrays_of_several_dtypes() -> None:
    """The sample is drawn from integers, floats, complex numbers and bools."""
    assert {np.dtype(d).kind for _, d in CASES} >= set("iufcb")
