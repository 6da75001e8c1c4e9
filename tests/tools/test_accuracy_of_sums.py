"""Long sums lose no more digits than docs/accuracy.md says, in every layout, eager and compiled."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp
from gnomon.backends.iree.targets import find_target, incompatibility
from gnomon.tools.accuracy.sums import (
    CASES,
    Case,
    bound,
    call_on,
    exact_of,
    roundings,
    stored,
)

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
PAIRS = [(case, layout) for case in CASES for layout in case.layouts]
# All functions in the layout that NumPy and compilers add in order, and sums in all layouts.
SAMPLE = [
    (case, layout)
    for case, layout in PAIRS
    if layout == "rows" or case.layouts == ("vector",) or case.name == "numpy.sum"
]


def check_eager(pairs: list[tuple[Case, str]], n: int, dtype: Any = np.float32) -> None:
    for case, layout in pairs:
        x = stored(case, layout, n, dtype)
        result = call_on(case, layout, gn, gnp.asarray(x))
        assert result.dtype == dtype
        off = roundings(case, exact_of(case, layout, x), result)
        assert off <= bound(n), (case.name, layout, n, off)


def check_compiled(pairs: list[tuple[Case, str]], n: int) -> None:
    operands = [stored(case, layout, n) for case, layout in pairs]
    results = gn.jit(
        lambda xs: [
            call_on(case, layout, gn, x) for (case, layout), x in zip(pairs, xs, strict=True)
        ]
    )(operands)
    for (case, layout), x, result in zip(pairs, operands, results, strict=True):
        off = roundings(case, exact_of(case, layout, x), result)
        assert off <= bound(n), (case.name, layout, n, off)


@pytest.mark.parametrize("n", [1000, 4100, 100_003])
def test_eager_sums(n: int) -> None:
    check_eager(PAIRS, n)


def test_eager_sums_of_a_million_rows() -> None:
    names = ("numpy.sum", "numpy.tensordot", "numpy.matmul", "grad of a broadcast", "numpy.cumsum")
    check_eager([(case, "rows") for case in CASES if case.name in names], 1_000_003)


def test_eager_sums_of_f64() -> None:
    with gn.enable_x64(True):
        names = ("numpy.sum", "numpy.mean", "numpy.tensordot", "numpy.cumsum")
        pairs = [(case, layout) for case, layout in PAIRS if case.name in names]
        check_eager(pairs, 10_007, np.float64)


def test_compiled_sums() -> None:
    check_compiled(SAMPLE, 5000)


def test_compiled_products_of_two_vectors() -> None:
    """Pieces that do not divide the terms are padded, and then added in fewer lanes."""
    pairs = [(case, "vector") for case in CASES if case.name == "numpy.tensordot"]
    check_compiled(pairs, 100_003)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_sums_in_few_lanes(target: str) -> None:
    """The fewer lanes a processor's vectors have, the more terms are added one after another."""
    if missing := incompatibility(find_target(target)):
        pytest.skip(missing)
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((2049,), (0,)),
        ((8191,), (0,)),
        ((81, 100), (0, 1)),
        ((250, 3, 20), (0, 2)),
        ((200, 2, 50), (0, 2)),
        ((30, 3, 30, 2, 30), (0, 2, 4)),
    ]
    operands = [np.full(shape, 0.1, np.float32) for shape, _ in shapes]

    def program(xs: list[Any]) -> list[Any]:
        def sums(x: Any, axes: tuple[int, ...]) -> list[Any]:
            last = x.ndim - 1
            return [gnp.sum(x, axes), gnp.sum(x.T, [last - axis for axis in axes])]

        return [sums(x, axes) for x, (_, axes) in zip(xs, shapes, strict=True)]

    found = gn.jit(program).lower(operands).compile(target=target)(operands)
    for sums, (shape, axes) in zip(found, shapes, strict=True):
        terms = math.prod(shape[axis] for axis in axes)
        exact = terms * float(np.float32(0.1))
        for total in sums:
            off = np.abs(np.asarray(total, np.float64) - exact).max() / (exact * 2.0**-24)
            assert off <= bound(terms), (target, shape, axes, off)


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("n", [130, 1000, 4097, 16_383, 100_003, 1_000_000])
def test_all_compiled_sums(n: int) -> None:
    check_compiled(PAIRS, n)


def test_sums_of_complex_and_narrow_numbers() -> None:
    """Complex numbers are added in two parts, and narrow ones in f32."""
    n = 50_001
    ones = np.full((n, 2), 0.1, np.float32)
    operands = [gnp.asarray(ones, dtype) for dtype in ("complex64", "float16", "bfloat16")]

    def program(*xs: Any) -> Any:
        return [(gnp.sum(x, 0), gnp.cumsum(x / 16, 0)[-1], gnp.mean(x, 0)) for x in xs]

    for results in (program(*operands), gn.jit(program)(*operands)):
        for x, found in zip(operands, results, strict=True):
            value = np.asarray(x[0]).astype(np.complex128)
            for result, exact in zip(found, (n * value, n * value / 16, value), strict=True):
                units = {"complex64": bound(n)}.get(x.dtype.name, 2.0)
                eps = float(gnp.finfo(x.dtype).eps) / 2
                off = np.abs(np.asarray(result).astype(np.complex128) - exact) / np.abs(exact)
                assert off.max() <= units * eps, (x.dtype, off.max() / eps)


# ------------------------------------------------------------- programs in which every digit counts


def test_means_of_many_rows() -> None:
    rows = 500 + np.random.default_rng(0).random((300_000, 2), np.float32)
    exact = rows.astype(np.float64)
    a = gnp.asarray(rows)
    gradient = gn.grad(lambda b: gnp.mean((a + b) ** 2))(gnp.zeros(2))
    np.testing.assert_allclose(gradient, exact.mean(0), rtol=1e-6)
    np.testing.assert_allclose(gnp.corrcoef(a.T), np.corrcoef(exact.T), atol=1e-5)
    np.testing.assert_allclose(gnp.var(a, 0), exact.var(0), rtol=1e-5)
    ones = gnp.ones((17_000_000, 2))
    assert (gnp.mean(ones, 0) == 1).all()


def test_cumulative_sums_pass_two_to_the_24() -> None:
    last = gn.jit(lambda x: gnp.cumsum(x)[-1])
    ones = gnp.ones(17_000_000)
    assert float(gnp.cumsum(ones)[-1]) == float(last(ones)) == 17_000_000


def test_a_compiled_variance_does_not_depend_on_how_the_length_divides() -> None:
    x = np.linspace(1e4, 1e4 + 1, 5_000_000, dtype=np.float32)
    np.testing.assert_allclose(gn.jit(gnp.var)(x), x.astype(np.float64).var(), rtol=1e-4)


def test_scans_in_both_directions_across_blocks() -> None:
    """The last block of 64 elements is not full; their totals are accumulated in blocks, too."""
    x = np.random.default_rng(1).random((3, 5003, 2), np.float32)
    infinite = x.copy()
    infinite[:, 100], infinite[:, 4900] = np.inf, -np.inf

    def program(x: Any, y: Any) -> Any:
        scans = []
        for reverse in (False, True):
            scans += [lax.cumsum(x, 1, reverse), lax.cumlogsumexp(x, 1, reverse)]
            scans += [lax.cumsum(y, 1, reverse), lax.cumlogsumexp(-abs(y), 1, reverse)]
        return scans

    def scan(ufunc: np.ufunc, x: np.ndarray, reverse: bool) -> np.ndarray:
        x = np.flip(x, 1) if reverse else x
        found = ufunc.accumulate(x, 1)
        return np.flip(found, 1) if reverse else found

    expected = []
    with np.errstate(invalid="ignore"):
        for reverse in (False, True):
            for part in (x.astype(np.float64), infinite.astype(np.float64)):
                low = part if np.isfinite(part).all() else -abs(part)
                expected.append(scan(np.add, part, reverse))
                expected.append(scan(np.logaddexp, low, reverse))
    for results in (program(gnp.asarray(x), gnp.asarray(infinite)), gn.jit(program)(x, infinite)):
        for result, exact in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.asarray(result), exact, rtol=2e-6)


def test_sums_of_long_windows() -> None:
    x = gnp.full(10_000, 0.1)
    sums = lax.reduce_window(x, np.float32(0), lax.add, (5000,), (5000,), "VALID")
    np.testing.assert_allclose(sums, 5000 * float(np.float32(0.1)), rtol=bound(5000) * 2.0**-24)


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text().partition("\n## Sums\n")[2]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    found = [(row[0].strip("| `"), row[1]) for row in rows]
    assert found == [(case.name, layout) for case, layout in PAIRS]
