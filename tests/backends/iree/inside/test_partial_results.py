"""The check of reductions on GPUs reads configurations as IREE prints them."""

from __future__ import annotations

import pytest

from gnomon.backends.iree.compiler import compile_flags
from gnomon.backends.iree.inside.partial_results import loses_partial_results
from gnomon.backends.iree.options import CompileOptions
from gnomon.backends.iree.targets import find_target
from gnomon.backends.iree.worker import CHECK_PARTIAL_RESULTS

KINDS = "[#linalg.iterator_type<parallel>, #linalg.iterator_type<reduction>]"


def config(lanes: str, subgroups: str) -> str:
    dims = ", ".join(str(i) for i in range(lanes.count(",") + 1))
    bases = f"lane_basis = [[{lanes}], [{dims}]], subgroup_basis = [[{subgroups}], [{dims}]]"
    return f"#iree_gpu.lowering_config<{{{bases}, thread = [0, 1], workgroup = [1, 0]}}>"


@pytest.mark.parametrize(
    ("lanes", "subgroups", "loses"),
    [
        ("1, 1", "1, 3", True),
        ("1, 2", "1, 3", True),
        ("1, 4", "1, 3", False),
        ("1, 32", "1, 32", False),
        ("1, 1", "3, 1", False),  # rows, which are not combined
        ("32, 1", "1, 2", True),  # lanes of rows do not help
    ],
)
def test_there_must_be_a_lane_for_each_subgroup(lanes: str, subgroups: str, loses: bool) -> None:
    assert loses_partial_results(KINDS, config(lanes, subgroups)) == loses


def test_dimensions_count_together() -> None:
    kinds = '["reduction", "parallel", "reduction"]'
    assert not loses_partial_results(kinds, config("2, 1, 2", "1, 8, 4"))
    assert loses_partial_results(kinds, config("2, 1, 2", "2, 1, 4"))


def test_loops_are_in_any_order() -> None:
    bases = "lane_basis = [[1, 4], [1, 0]], subgroup_basis = [[2, 1], [1, 0]]"
    text = f"#iree_gpu.lowering_config<{{{bases}, thread = [0, 1], workgroup = [1, 0]}}>"
    assert loses_partial_results(KINDS, text)
    assert not loses_partial_results('["reduction", "parallel"]', text)


def test_other_configurations_have_no_lanes() -> None:
    other = "#iree_gpu.lowering_config<{reduction = [0, 4], thread = [1, 0], workgroup = [32, 0]}>"
    assert not loses_partial_results(KINDS, other)


def test_kernels_with_lanes_are_checked() -> None:
    for name, checked in (
        *(("cuda:sm_90", True), ("rocm:gfx942", True)),
        *(("vulkan", False), ("metal", False), ("x86-64-v3", False)),
    ):
        flags = compile_flags(find_target(name), CompileOptions())
        assert (CHECK_PARTIAL_RESULTS in flags) == checked
