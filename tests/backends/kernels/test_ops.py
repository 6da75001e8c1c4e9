"""The op table as loops over scalars, by each emitter, compared with the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.kernels.lowering import KernelBackend
from tests.backends.kernels.emitters import QUICK_EMITTERS
from tests.ops.cases import OPS, ROWS, cases_of, groups
from tests.ops.check import (
    DTYPES,
    Case,
    check_compiled,
    draw_all,
    joint_program,
    more_units_than_the_row,
)
from tests.sample import sample

SUPPORTED = frozenset(
    {
        *("bool", *(f"{s}{n}" for s in "iu" for n in (8, 16, 32, 64))),
        *("f16", "bf16", "f32", "f64", "c64", "c128"),
        # In bytes.
        *("f8_e4m3fn", "f8_e5m2", "i4", "u4", "i2", "u2"),
    }
)
REFUSED = ("eig", "schur")

# Together these have most of the rules. A commit runs half of them; all run in the slow test.
QUICK = (
    *("bitcast_convert", "cholesky", "conv_general_dilated", "dot_general", "expm1", "fft"),
    *("gather", "integer_pow", "reduce_precision", "reduce_window", "scatter"),
    *("select_and_scatter_add", "sort", "triangular_solve"),
)


def _cases(op: str) -> list[Case]:
    return cases_of(op, SUPPORTED, calls_python=False)


WRITTEN = [op for op in OPS if op not in REFUSED and _cases(op)]


@pytest.mark.parametrize("emitter", QUICK_EMITTERS)
def test_some_ops_equal_the_evaluator(emitter: Callable[[], KernelBackend]) -> None:
    cases = [case for op in sample(QUICK, 7, __name__) for case in _cases(op)[:12]]
    check_compiled(emitter(), cases, more_units_than_the_row(8))


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("ops", groups(WRITTEN))
@pytest.mark.parametrize("emitter", QUICK_EMITTERS)
def test_every_op_equals_the_evaluator(
    emitter: Callable[[], KernelBackend], ops: Sequence[str]
) -> None:
    cases = [case for op in ops for case in _cases(op)]
    check_compiled(emitter(), cases, more_units_than_the_row(8))


@pytest.mark.parametrize("emitter", QUICK_EMITTERS)
@pytest.mark.parametrize("op", REFUSED)
def test_what_has_no_kernel_is_refused_by_name(
    op: str, emitter: Callable[[], KernelBackend]
) -> None:
    row = next(row for row in ROWS if row.op == op)
    dtype = DTYPES["f32" if "f32" in row.dtypes.split() else row.dtypes.split()[0]]
    program = joint_program([(row, dtype)], [draw_all(row, dtype)])
    backend = emitter()
    with pytest.raises(UnsupportedOnTarget, match=f"cannot {backend.written}: .*LAPACK"):
        backend.lower(program)
