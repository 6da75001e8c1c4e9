"""Elementwise functions are within the bounds of the accuracy table, and its page is current."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gnomon as gn
from gnomon.tools.accuracy.bounds import (
    BOUND,
    FUNCTIONS,
    WAYS,
    Function,
    bound_of_op,
)
from gnomon.tools.accuracy.measure import call_of, errors, largest_error, named, points
from gnomon.tools.accuracy.page import page
from tests.sample import sample

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"

# The numbers of points in f32; in f64 there are a tenth as many.
FEW, MANY = 3000, 200_000
# The functions of which a commit compiles a third as one program.
TOGETHER = [f for f in FUNCTIONS if not f.pairs and not f.costly]
ROWS = [pytest.param(f, dtype, id=f"{f.name}-{dtype}") for f in FUNCTIONS for dtype in f.dtypes]


def _name(function: Function) -> str:
    return f"{function.name}-complex" if function.is_complex else function.name


def check(function: Function, dtype: str, way: str, count: int) -> None:
    """Check that the largest error of a function is within its bound."""
    wide = np.dtype(getattr(gn.numpy, dtype).dtype)
    with gn.enable_x64(True), np.errstate(all="ignore"):
        given = points(function, wide, count)
        call = call_of(function, way, given)
        error = largest_error(call, given, wide, flushes=way != "eager", scale=function.scale)
    assert error.units <= function.bound(dtype, way), error


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("function", "dtype"), ROWS)
def test_evaluated_functions(function: Function, dtype: str) -> None:
    check(function, dtype, "eager", FEW // 4 if function.costly else FEW)


@pytest.mark.sampled(0.24)
@pytest.mark.parametrize("way", [w for w in WAYS if w not in ("eager", "cpu")])
@pytest.mark.parametrize("function", FUNCTIONS, ids=_name)
def test_functions_as_they_are_written_for_other_targets(function: Function, way: str) -> None:
    for dtype in function.dtypes:
        if dtype not in ("float16", "bfloat16") and way in function.ways(dtype):
            check(function, dtype, way, FEW // 4 if function.costly else FEW)


def test_compiled_functions_of_f32() -> None:
    functions = sample(TOGETHER, len(TOGETHER) // 3, "f32")
    given = [points(f, np.dtype(np.float32), FEW) for f in functions]
    calls = [named(gn, f.name) for f in functions]
    joint = gn.jit(lambda *xs: [call(x) for call, x in zip(calls, xs, strict=True)])
    results = joint(*(p.operands[0] for p in given))
    for function, p, result in zip(functions, given, results, strict=True):
        error = largest_error(
            lambda x, result=result: result,
            p,
            np.dtype(np.float32),
            flushes=True,
            scale=function.scale,
        )
        assert error.units <= function.bound("float32", "cpu"), (function.name, error)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_compiled_functions_of_complex_numbers(dtype: str) -> None:
    functions = [f for f in FUNCTIONS if f.is_complex and not f.pairs]
    functions = sample(functions, len(functions) // 2, dtype)
    with gn.enable_x64(True):
        given = [points(f, np.dtype(dtype), FEW // 4) for f in functions]
        joint = gn.jit(
            lambda *zs: [
                getattr(gn.lax, f.short_name)(z) for f, z in zip(functions, zs, strict=True)
            ]
        )
        results = joint(*(p.operands[0] for p in given))
    for function, p, result in zip(functions, given, results, strict=True):
        off = errors(np.asarray(result), p, np.dtype(dtype), flushes=True)
        assert off.max() <= function.bound(dtype, "cpu"), (function.name, off.max())


@pytest.mark.exhaustive
@pytest.mark.parametrize(("function", "dtype"), ROWS)
def test_functions_in_all_ways(function: Function, dtype: str) -> None:
    for way in function.ways(dtype):
        check(function, dtype, way, MANY)


def test_an_error_beyond_the_bound_is_found() -> None:
    (function,) = (f for f in FUNCTIONS if f.name == "lax.atan" and not f.is_complex)
    given = points(function, np.dtype(np.float32), FEW)

    def coarse(x: np.ndarray) -> np.ndarray:
        return (np.arctan(x.astype(np.float64)) * (1 + 4e-7)).astype(np.float32)

    assert largest_error(coarse, given, np.dtype(np.float32)).units > BOUND


def test_the_page_is_that_of_the_table() -> None:
    """The measured errors depend on the processor, but the bounds do not."""
    text, _, _ = PAGE.read_text().partition("\n## Sums\n")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    measured = {(r[0].strip("| `"), r[1]): r[2:] for r in rows if len(r) > 3}
    assert list(measured) == [(f.name, dtype) for f in FUNCTIONS for dtype in f.dtypes]
    has_peer = "JAX" in text
    for function in FUNCTIONS:
        for dtype in function.dtypes:
            _, *cells = measured[function.name, dtype]
            assert len(cells) == len(WAYS) + has_peer
            for way, cell in zip(WAYS, cells, strict=False):
                if way in function.ways(dtype):
                    assert float(cell.split(" at ")[0]) <= function.bound(dtype, way)
    tail = page([], 0).rpartition("| function | separate bounds")
    assert text.endswith(tail[1] + tail[2]), "run: python -m gnomon.tools.accuracy"


def test_bounds_of_ops() -> None:
    assert bound_of_op("exp", "float32") == {"eager": BOUND, "cpu": BOUND}
    assert bound_of_op("add", "float32") is None
    assert bound_of_op("exp", "complex64") is None
