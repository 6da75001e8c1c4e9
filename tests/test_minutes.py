"""The table of minutes: which folders are listed, and which ones grew."""

from __future__ import annotations

import json

from tests.minutes import TABLE, folder_of, grown


def test_folders_are_listed_to_the_depth_that_divides_the_time() -> None:
    assert folder_of("tests/test_docs.py::test_x") == "tests"
    assert folder_of("tests/frontend/example_libraries/test_stax.py::test_x[a/b]") == (
        "tests/frontend"
    )
    assert folder_of("tests/backends/iree/legalize/fusion/test_wide_fusions.py::test") == (
        "tests/backends/iree/legalize"
    )


def test_a_slow_machine_is_not_growth_and_a_new_folder_is() -> None:
    table = {"a": 10.0, "b": 4.0, "c": 1.0}
    assert grown({"a": 20.0, "b": 8.0, "c": 2.0}, table) == (2.0, set())
    assert grown({"a": 20.0, "b": 10.0, "c": 2.0, "d": 1.0}, table) == (2.0, {"b", "d"})


def test_the_table_holds_both_parts_of_the_suite() -> None:
    assert set(json.loads(TABLE.read_text())) == {"default", "slow"}
