"""Every op of the op table on a PJRT plugin for the CPU: its results are the evaluator's.

Ops that no plugin supports are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.pjrt.backend import PjrtBackend
from gnomon.backends.pjrt.legalize import reason_unsupported
from gnomon.backends.pjrt.plugin import PluginSpec
from gnomon.dialects.types import short_name
from tests.conftest import cpu_plugin
from tests.ops.check import (
    DTYPES,
    Case,
    all_rows,
    check_compiled,
    draw_all,
    joint_program,
)

pytestmark = pytest.mark.pjrt

ROWS = all_rows()
SUPPORTED = sorted({r.op for r in ROWS if reason_unsupported(f"gnomon.{r.op}") is None})
REFUSED = sorted({r.op for r in ROWS} - set(SUPPORTED))

# Series and iterations take seconds to compile in each dtype.
DEAR = (
    "igamma",
    "igamma_grad_a",
    "igammac",
    "polygamma",
    "random_gamma_grad",
    "regularized_incomplete_beta",
    "zeta",
)

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
    chosen = []
    for i, row in enumerate(row for row in ROWS if row.op == op):
        names = row.dtypes.split()
        one = "f32" if "f32" in names else names[0]
        every = i == 0 and op not in DEAR
        chosen += [(row, DTYPES[n]) for n in names if every or n == one]
    return chosen


def _is_small(case: Case) -> bool:
    return short_name(case[1]) in SMALL


@pytest.mark.parametrize("op", SUPPORTED)
def test_compiled_equals_evaluated(op: str, backend: PjrtBackend) -> None:
    check_compiled(
        backend, [case for case in _cases(op) if not _is_small(case)], functions_are_ours=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in SUPPORTED if any(map(_is_small, _cases(op)))])
def test_compiled_equals_evaluated_in_small_integers(op: str, backend: PjrtBackend) -> None:
    check_compiled(backend, list(filter(_is_small, _cases(op))), functions_are_ours=False)


@pytest.mark.parametrize("op", REFUSED)
def test_ops_that_no_plugin_supports_are_refused_by_name(op: str, backend: PjrtBackend) -> None:
    cases = _cases(op)[:1]
    operands = [draw_all(row, dtype) for row, dtype in cases]
    with pytest.raises(UnsupportedOnTarget, match=rf"gnomon\.{op} cannot run .*'xla_cpu'"):
        backend.lower(joint_program(cases, operands))
