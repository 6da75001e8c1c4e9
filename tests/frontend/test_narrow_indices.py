"""Indices whose dtype cannot hold the size of the axis: as those of int32, eager and traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, nn, ops
from tests.frontend.staged import run_staged

# Negative indices, indices in bounds, and indices out of bounds.
CASES = {
    "int8 on 300": ("int8", 300, [-1, -100, 100, 127]),
    "uint8 on 300": ("uint8", 300, [0, 100, 255, 200]),
    "int8 on 200": ("int8", 200, [-1, -128, 100, 127]),
    "int8 on 20": ("int8", 20, [-1, -128, 19, 127]),
    "uint8 on 20": ("uint8", 20, [0, 19, 255, 20]),
    "int16 on 70,000": ("int16", 70_000, [-1, -30_000, 30_000, 32_767]),
    "uint16 on 70,000": ("uint16", 70_000, [0, 30_000, 65_535, 60_000]),
}

ROWS = lax.GatherDimensionNumbers((), (0,), (0,))
WRITES = lax.ScatterDimensionNumbers((), (0,), (0,))


def modes(make: Callable[[Any], Callable[..., Any]], *names: Any) -> dict[str, Callable[..., Any]]:
    return {f" {name}": make(name) for name in names}


def each(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Apply a function of a scalar index to each of the indices."""
    return lambda x, i: gnp.stack([f(x, i[k]) for k in range(4)])


TABLES: dict[str, dict[str, Callable[..., Any]]] = {
    "take": modes(lambda m: lambda x, i: gnp.take(x, i, mode=m), None, "fill", "clip", "wrap"),
    "put": modes(
        lambda m: lambda x, i: gnp.put(x, i, -1.0, mode=m, inplace=False), None, "clip", "wrap"
    ),
    "take_along_axis": modes(
        lambda m: lambda x, i: gnp.take_along_axis(x, i, 0, mode=m), "fill", "clip", "one_hot"
    ),
    "put_along_axis": modes(
        lambda m: lambda x, i: gnp.put_along_axis(x, i, -1.0, 0, mode=m, inplace=False),
        "clip",
        "drop",
    ),
    "get": modes(lambda m: lambda x, i: x.at[i].get(mode=m), None, "fill", "clip"),
    "get without wrapping": modes(
        lambda m: lambda x, i: x.at[i].get(mode=m, wrap_negative_indices=False), "fill", "clip"
    ),
    "set": modes(lambda m: lambda x, i: x.at[i].set(-1.0, mode=m), None, "drop", "clip"),
    "add": modes(lambda m: lambda x, i: x.at[i].add(1.0, mode=m), "drop", "clip"),
    "max": modes(
        lambda m: lambda x, i: x.at[i].max(1e9, mode=m, wrap_negative_indices=False),
        "drop",
        "clip",
    ),
    "gather": modes(lambda m: lambda x, i: lax.gather(x, i[:, None], ROWS, (1,), mode=m), "fill",
                    "clip"),
    "scatter": modes(
        lambda m: lambda x, i: lax.scatter_add(x, i[:, None], x[:4], WRITES, mode=m),
        "drop",
        "clip",
    ),
    "segment_sum": modes(
        lambda m: lambda x, i: ops.segment_sum(x[:4], i, x.shape[0], mode=m), None, "clip"
    ),
    "choose": modes(
        lambda m: lambda x, i: gnp.choose(i, list(gnp.tile(x[:300, None], (1, 4))), mode=m),
        "clip",
        "wrap",
    ),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name + mode: f for name, table in TABLES.items() for mode, f in table.items()},
    "brackets": lambda x, i: x[i],
    "brackets of a scalar": each(lambda x, k: x[k]),
    "brackets of two dimensions": lambda x, i: gnp.stack([x, -x])[i % 2, i],
    "dynamic_slice": each(lambda x, k: lax.dynamic_slice(x, (k,), (x.shape[0] - 3,))),
    "dynamic_index_in_dim": each(lambda x, k: lax.dynamic_index_in_dim(x, k)),
    "dynamic_update_slice": each(lambda x, k: lax.dynamic_update_slice(x, gnp.ones(5), (k,))),
    "mapped dynamic_slice": lambda x, i: gn.vmap(lambda k: lax.dynamic_slice(x, (k,), (5,)))(i),
    "mapped dynamic_update_slice": lambda x, i: gn.vmap(
        lambda k: lax.dynamic_update_slice(x, gnp.ones(5), (k,))
    )(i),
    "mapped read": lambda x, i: gn.vmap(lambda k: x.at[k].get(mode="fill"))(i),
    "derivative of take": lambda x, i: gn.grad(lambda y: gnp.take(y, i, mode="clip").sum())(x),
    "index_take": lambda x, i: lax.index_take(x, (i,), (0,)),
    "roll": each(lambda x, k: gnp.roll(x, k)),
    "unravel_index": lambda x, i: gnp.stack(gnp.unravel_index(i, (x.shape[0], 3))),
    "unravel_index of few": lambda x, i: gnp.stack(gnp.unravel_index(i, (5, 4))),
    "ravel_multi_index": lambda x, i: gnp.ravel_multi_index(
        (i, i), (x.shape[0], 3), mode="clip", dtype=np.int32
    ),
    "one_hot": lambda x, i: nn.one_hot(i, 300),
    "bincount": lambda x, i: gnp.bincount(i, length=x.shape[0]),
    "repeat": lambda x, i: gnp.repeat(x[:4], gnp.maximum(i, 0), total_repeat_length=x.shape[0]),
    "insert": lambda x, i: gnp.insert(x, i, -1.0),
    "delete": lambda x, i: gnp.delete(x, i, assume_unique_indices=True),
    "searchsorted": lambda x, i: gnp.searchsorted(gnp.arange(-5, x.shape[0] - 5), i),
    "nonzero": lambda x, i: gnp.nonzero(gnp.tile(i > 0, 100), size=300, fill_value=-1)[0],
    "derivative of dynamic_slice": lambda x, i: gn.grad(
        lambda y: lax.dynamic_slice(y, (i[0],), (7,)).sum()
    )(x),
}
# Python bounds of eager calls, and shapes that depend on values.
ONLY_TRACED = {"delete", "insert", "repeat"}


def operands(case: str) -> tuple[Any, Any, Any]:
    dtype, size, indices = CASES[case]
    narrow = np.array(indices, dtype)
    return gnp.arange(size, dtype=np.float32), narrow, narrow.astype(np.int32)


def assert_same(narrow: Any, wide: Any) -> None:
    assert narrow.shape == wide.shape
    np.testing.assert_array_equal(np.asarray(narrow).astype(wide.dtype), np.asarray(wide))


@pytest.mark.sampled(0.8)
@pytest.mark.parametrize("case", CASES)
def test_narrow_indices_are_those_of_int32(case: str) -> None:
    x, narrow, wide = operands(case)
    for name, f in FUNCTIONS.items():
        if name not in ONLY_TRACED:
            assert_same(f(x, gnp.asarray(narrow)), f(x, gnp.asarray(wide)))
        assert_same(run_staged(f, x, narrow), run_staged(f, x, wide))


@pytest.mark.sampled(0.68)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("part", [pytest.param(n, marks=pytest.mark.slow) for n in range(6)])
def test_narrow_indices_in_compiled_programs(case: str, part: int) -> None:
    x, narrow, wide = operands(case)
    functions = list(FUNCTIONS.values())[part::6]
    results = gn.jit(lambda x, i: [f(x, i) for f in functions])(x, narrow)
    for function, result in zip(functions, results, strict=True):
        assert_same(result, run_staged(function, x, wide))


def test_values_of_narrow_indices_as_numpy_gives_them() -> None:
    x, index = np.arange(300), np.array([0, 100, 255, 200], np.uint8)

    def f(x: Any, i: Any) -> list[Any]:
        clipped, wrapped = (gnp.take(x, i, mode=mode) for mode in ("clip", "wrap"))
        return [clipped, wrapped, gnp.roll(x, i[3]), *gnp.unravel_index(i, (300, 2))]

    expected = [index, index, np.roll(x, 200), *np.unravel_index(index, (300, 2))]
    for run in (f, gn.jit(f)):
        for value, right in zip(run(x, index), expected, strict=True):
            np.testing.assert_array_equal(value, right)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda k: gnp.diagonal(gnp.ones((300, 300)), k), (200,)),
        (lambda k: gnp.insert(gnp.zeros(300), np.array([k, k]), 1.0), (302,)),
        (lambda k: gnp.unravel_index(250, (k, k))[0] + gnp.zeros(3), (3,)),
    ],
)
def test_narrow_integers_of_numpy_as_static_arguments(
    function: Callable[[Any], Any], expected: tuple[int, ...]
) -> None:
    narrow, wide = function(np.int8(100)), function(100)
    assert narrow.shape == wide.shape == expected
    np.testing.assert_array_equal(narrow, wide)


def test_unravel_index_keeps_a_dtype_that_holds_the_coordinates() -> None:
    index = np.array([5, 100], np.int8)
    assert gnp.unravel_index(index, (20, 10))[0].dtype == np.int8
    assert gnp.unravel_index(index, (2, 300))[0].dtype == np.int32
