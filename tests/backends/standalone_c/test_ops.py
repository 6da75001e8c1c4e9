"""The op table as programs in C, compared with the evaluator."""

from __future__ import annotations

import shutil

import pytest

from gnomon.backends.errors import UnsupportedOnTarget
from tests.backends.on_device import OPS, ROWS, dtypes_of
from tests.backends.standalone_c.compiled import CompiledC
from tests.ops.check import DTYPES, Case, check_compiled, draw_all, joint_program

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

SUPPORTED = frozenset(
    {
        *("bool", *(f"{s}{n}" for s in "iu" for n in (8, 16, 32, 64))),
        *("f16", "bf16", "f32", "f64", "c64", "c128"),
    }
)
REFUSED = ("eig", "schur")

# Together these have most of the rules; the others run in the slow test.
QUICK = (
    *("bitcast_convert", "conv_general_dilated", "fft", "gather", "reduce_precision", "scatter"),
    "sort",
)


def _cases(op: str) -> list[Case]:
    """An op's first row in every dtype and its other rows in one dtype each."""
    chosen = []
    for i, row in enumerate(row for row in ROWS if row.op == op):
        names = row.dtypes.split()
        one = "f32" if "f32" in names else names[0]
        chosen += [(row, DTYPES[name]) for name in names if i == 0 or name == one]
    return [case for case in chosen if dtypes_of(case) <= SUPPORTED]


WRITTEN = [op for op in OPS if op not in REFUSED and _cases(op)]


@pytest.mark.parametrize("op", QUICK)
def test_some_ops_equal_the_evaluator(op: str) -> None:
    check_compiled(CompiledC(), _cases(op)[:12], functions_are_ours=False)


@pytest.mark.slow
@pytest.mark.parametrize("op", WRITTEN)
def test_every_op_equals_the_evaluator(op: str) -> None:
    check_compiled(CompiledC(), _cases(op), functions_are_ours=False)


@pytest.mark.parametrize("op", REFUSED)
def test_what_c_does_not_have_is_refused_by_name(op: str) -> None:
    row = next(row for row in ROWS if row.op == op)
    dtype = DTYPES["f32" if "f32" in row.dtypes.split() else row.dtypes.split()[0]]
    program = joint_program([(row, dtype)], [draw_all(row, dtype)])
    with pytest.raises(UnsupportedOnTarget, match=r"cannot be written in C: .*LAPACK"):
        CompiledC().lower(program)
