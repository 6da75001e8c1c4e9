"""The op table on devices with separate memory, compared with the evaluator.

Each op's first row in two dtypes, several ops in one program. Long series and iterations, and all
rows and dtypes, are slow tests: a separate step of `.ci/run`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gnomon.backends.narrow_formats import is_narrow
from gnomon.dialects.types import short_name
from tests.backends.devices.platforms import PLATFORMS, backend_of, dtypes_on
from tests.ops.cases import DEAR, OPS, cases_of, dtypes_of, few_cases_of, groups
from tests.ops.check import Case, check_compiled, more_units_than_the_row

_DEAR_ON_DEVICES = DEAR | {"fft", "sort"}


def _ulps(platform: str) -> float:
    # Vulkan requires exponentials to within 3 + 2 |x| ulps only, and sums in any order.
    return 96.0 if platform == "vulkan" else 8.0


def _cases(op: str, platform: str) -> list[Case]:
    return [case for case in cases_of(op, dtypes_on(platform)) if not is_narrow(case[1])]


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("ops", groups([op for op in OPS if op not in _DEAR_ON_DEVICES]))
def test_ops_on_a_device_equal_the_evaluator(ops: Sequence[str], platform: str) -> None:
    cases = [case for op in ops for case in few_cases_of(op, dtypes_on(platform))]
    check_compiled(backend_of(platform), cases, more_units_than_the_row(_ulps(platform)))


@pytest.mark.slow
@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("ops", groups(OPS))
def test_every_row_on_a_device_equals_the_evaluator(ops: Sequence[str], platform: str) -> None:
    cases = [case for op in ops for case in _cases(op, platform)]
    check_compiled(backend_of(platform), cases, more_units_than_the_row(_ulps(platform)))


def test_a_case_is_about_all_its_dtypes() -> None:
    rows = [case for case in cases_of("convert") if short_name(case[1]) == "f32"]
    assert any(len(dtypes_of(case)) == 2 for case in rows)
    contractions = [case for case in cases_of("dot_general") if short_name(case[1]) == "f32"]
    assert any("f64" in dtypes_of(case) for case in contractions)
