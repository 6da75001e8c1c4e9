"""Every op of the op table on a PJRT plugin for the CPU: its results are the evaluator's.

Each commit takes half of the ops, and a ninth of the rows and dtypes of each. Ops that no plugin
supports are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pytest

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.pjrt.backend import PjrtBackend
from gnomon.backends.pjrt.legalize import reason_unsupported
from gnomon.backends.pjrt.plugin import PluginSpec
from gnomon.dialects.types import short_name
from tests.conftest import cpu_plugin
from tests.ops.cases import DEAR, GROUP, OPS, cases_of, groups
from tests.ops.check import (
    Case,
    check_compiled,
    draw_all,
    joint_program,
    more_units_than_the_row,
)
from tests.sample import sample

pytestmark = pytest.mark.pjrt

SUPPORTED = [op for op in OPS if reason_unsupported(f"gnomon.{op}") is None]
REFUSED = sorted(set(OPS) - set(SUPPORTED))

# These dtypes are computed in bytes, and left to the slow tests.
SMALL = ("i4", "u4", "i2", "u2")


@pytest.fixture(scope="module")
def backend() -> Iterator[PjrtBackend]:
    path = cpu_plugin()
    assert path is not None
    flags = {"xla_backend_optimization_level": 0}
    backend = PjrtBackend("xla_cpu", PluginSpec("xla_cpu", path, {}, flags))
    yield backend
    backend.close()


def _cases(op: str) -> list[Case]:
    return cases_of(op, in_every_dtype=lambda op: op not in DEAR, calls_python=False)


def _is_small(case: Case) -> bool:
    return short_name(case[1]) in SMALL


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(9, marks=pytest.mark.sampled(0.5)),
        pytest.param(1, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("ops", groups(SUPPORTED, 2 * GROUP))
def test_compiled_equals_evaluated(ops: Sequence[str], parts: int, backend: PjrtBackend) -> None:
    cases = []
    for op in ops:
        every = [case for case in _cases(op) if not _is_small(case)]
        cases += sample(every, math.ceil(len(every) / parts), op)
    check_compiled(backend, cases, more_units_than_the_row(8))


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("ops", groups([op for op in SUPPORTED if any(map(_is_small, _cases(op)))]))
def test_compiled_equals_evaluated_in_small_integers(
    ops: Sequence[str], backend: PjrtBackend
) -> None:
    cases = [case for op in ops for case in _cases(op) if _is_small(case)]
    check_compiled(backend, cases, more_units_than_the_row(8))


@pytest.mark.parametrize("op", REFUSED)
def test_ops_that_no_plugin_supports_are_refused_by_name(op: str, backend: PjrtBackend) -> None:
    cases = _cases(op)[:1]
    operands = [draw_all(row, dtype) for row, dtype in cases]
    with pytest.raises(UnsupportedOnTarget, match=rf"gnomon\.{op} cannot run .*'xla_cpu'"):
        backend.lower(joint_program(cases, operands))
