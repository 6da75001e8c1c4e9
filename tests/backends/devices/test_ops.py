"""The op table on devices with separate memory, compared with the evaluator.

Each op's first row in two dtypes, several ops in one program. The ops in `DEAR`, and all rows and
dtypes, are slow tests: a separate step of `.ci/run`.
"""

from __future__ import annotations

import pytest

from gnomon.backends.narrow_formats import is_narrow
from gnomon.dialects.types import short_name
from tests.backends.devices.platforms import PLATFORMS, backend_of, dtypes_on
from tests.backends.on_device import (
    OPS,
    Case,
    cases_of,
    check_cases,
    dtypes_of,
    few_cases_of,
)

# Long series and iterations take seconds to compile for each dtype.
DEAR = frozenset(
    (
        "fft",
        "igamma",
        "igamma_grad_a",
        "igammac",
        "polygamma",
        "random_gamma_grad",
        "regularized_incomplete_beta",
        "sort",
        "zeta",
    )
)

_GROUP = 8


def _ulps(platform: str) -> float:
    # Vulkan requires exponentials to within 3 + 2 |x| ulps only, and sums in any order.
    return 96.0 if platform == "vulkan" else 8.0


def _cases(op: str, platform: str) -> list[Case]:
    return [case for case in cases_of(op, dtypes_on(platform)) if not is_narrow(case[1])]


_QUICK = [op for op in OPS if op not in DEAR]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("first", range(0, len(_QUICK), _GROUP), ids=lambda i: _QUICK[i])
def test_ops_on_a_device_equal_the_evaluator(first: int, platform: str) -> None:
    cases = [
        case
        for op in _QUICK[first : first + _GROUP]
        for case in few_cases_of(op, dtypes_on(platform))
    ]
    check_cases(backend_of(platform), cases, extra_ulps=lambda _: _ulps(platform))


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("op", OPS)
def test_every_row_on_a_device_equals_the_evaluator(op: str, platform: str) -> None:
    cases = _cases(op, platform)
    if not cases:
        pytest.skip(f"no dtype of {op} is on {platform}")
    check_cases(backend_of(platform), cases, extra_ulps=lambda _: _ulps(platform))


def test_a_case_is_about_all_its_dtypes() -> None:
    rows = [case for case in cases_of("convert") if short_name(case[1]) == "f32"]
    assert any(len(dtypes_of(case)) == 2 for case in rows)
    contractions = [case for case in cases_of("dot_general") if short_name(case[1]) == "f32"]
    assert any("f64" in dtypes_of(case) for case in contractions)
