"""Sorts on IREE: by a kernel, by Python where it shares the memory, or else by a network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.iree.legalize.data_movement.sorting import sorting_rules
from gnomon.backends.iree.targets import TARGETS
from gnomon.backends.rewriting import rewrite
from gnomon.dialects.body import Body
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program
from tests.ops.check import run, types_of

BACKEND = iree_backend("cpu")

CPU = TARGETS["cpu"]
WITHOUT_HOST = replace(CPU, capabilities=replace(CPU.capabilities, host_memory=False))


def _selection(values: np.ndarray, k: int) -> Program:
    """The ``k`` largest of each row."""
    program = Program()
    body = Body.build(types_of([values]), lambda x: ops.top_k(x, k=k, axis=1))
    program.add("main", body, public=True)
    return program


def _program(arrays: list[np.ndarray], num_keys: int, k: int) -> Program:
    program = Program()

    def emit(*values: object) -> list[object]:
        ordered = ops.sort(*values, dimension=0, num_keys=num_keys, is_stable=True)
        return [*ordered, *ops.top_k(values[0], k=k, axis=0)]

    program.add("main", Body.build(types_of(arrays), emit), public=True)
    return program


def _names(program: Program) -> set[str]:
    return {op.name.removeprefix("gnomon.") for op in program.body("main").operations}


def _arrays(n: int, dtype: type, rng: np.random.Generator) -> list[np.ndarray]:
    keys = rng.integers(-n // 4, n // 4, (n, 2)).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        keys[:5, 0] = [np.nan, -0.0, 0.0, np.inf, -np.inf][:n]
    return [keys, rng.integers(0, 3, (n, 2)).astype(np.uint32), np.arange(2 * n).reshape(n, 2)]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, np.float64])
@pytest.mark.parametrize("n", [200, 256])
def test_the_network_sorts(n: int, dtype: type) -> None:
    arrays = _arrays(n, dtype, np.random.default_rng(n))
    program = _program(arrays, 2, n // 3)
    expected = run(program, "main", arrays)
    rewrite(program, sorting_rules(WITHOUT_HOST))
    assert "while" in _names(program) and not _names(program) & {"sort", "top_k"}
    for found, wanted in zip(run(program, "main", arrays), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("n", [1, 16, 33, 300])
def test_devices_get_no_sort(n: int) -> None:
    """Short rows are sorted by rank, and long ones by a network."""
    arrays = _arrays(n, np.float32, np.random.default_rng(n))
    program = _program(arrays, 2, n // 3)
    expected = run(program, "main", arrays)
    rewrite(program, sorting_rules(TARGETS["vulkan"]))
    assert not _names(program) & {"sort", "top_k"}
    assert ("while" in _names(program)) == (n == 300)
    for found, wanted in zip(run(program, "main", arrays), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("k", [1, 5, 16])
def test_devices_select_the_first_few_one_after_another(k: int, dtype: type) -> None:
    rng = np.random.default_rng(k)
    values = rng.integers(-20, 20, (3, 400)).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        values[0, :5] = [np.nan, -0.0, 0.0, np.inf, -np.inf]
    # A row of the least value, which also fills the places of what is selected already.
    kind = values.dtype.kind
    values[1] = {"b": 0, "f": -np.inf}[kind] if kind in "bf" else np.iinfo(values.dtype).min
    program = _selection(values, k)
    expected = run(program, "main", [values])
    rewrite(program, sorting_rules(TARGETS["vulkan"]))
    names = [op.name.removeprefix("gnomon.") for op in program.body("main").operations]
    assert not {"while", "sort", "top_k"}.intersection(names)
    assert names.count("reduce_max") == names.count("reduce_min") == k
    for found, wanted in zip(run(program, "main", [values]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_devices_select_many_by_the_network() -> None:
    values = np.random.default_rng(0).integers(-50, 50, (3, 400)).astype(np.int32)
    program = _selection(values, 17)
    expected = run(program, "main", [values])
    rewrite(program, sorting_rules(TARGETS["vulkan"]))
    assert "while" in _names(program)
    for found, wanted in zip(run(program, "main", [values]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_the_network_compiles() -> None:
    arrays = _arrays(300, np.float32, np.random.default_rng(0))
    program = _program(arrays, 2, 5)
    expected = run(program, "main", arrays)
    rewrite(program, sorting_rules(WITHOUT_HOST))
    executable = BACKEND.compile(BACKEND.lower(program))
    for found, wanted in zip(executable(arrays), expected, strict=True):
        np.testing.assert_array_equal(found.to_numpy(), wanted)


@pytest.mark.parametrize(("n", "name"), [(16, "sort"), (2000, "host_call")])
def test_short_rows_are_sorted_in_a_kernel_and_long_ones_by_python(n: int, name: str) -> None:
    arrays = _arrays(n, np.float32, np.random.default_rng(n))
    program = _program(arrays, 1, 3)
    rewrite(program, sorting_rules(CPU))
    assert name in _names(program) and "while" not in _names(program)


def test_keys_that_are_the_positions() -> None:
    """The positions that break ties must not be merged with keys that equal them."""

    def f(x: Any, rows: Any) -> Any:
        n = x.shape[0]
        counted = gnomon.lax.broadcasted_iota("int32", rows.shape, 1)
        return (
            gnp.lexsort((x, gnp.arange(n))),
            gnp.lexsort((gnp.arange(n), x)),
            gnomon.lax.sort((counted, rows), num_keys=1),
        )

    x, rows = np.array([3, 1, 3, 1, 2], np.int32), np.arange(6, dtype=np.float32).reshape(2, 3)
    found, expected = gnomon.jit(f)(x, rows), f(gnp.asarray(x), gnp.asarray(rows))
    for a, b in zip(gnomon.tree.leaves(found), gnomon.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)
