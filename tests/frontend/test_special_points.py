"""Values and derivatives where formulas cancel or overflow, and of rare arguments."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
import scipy.stats

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, nn
from gnomon._arrays.concrete import wrap
from gnomon.scipy import special, stats
from tests.sample import sample
from tests.tolerance import assert_near


def sinc_derivative(x: np.ndarray, order: int) -> np.ndarray:
    """The derivative of sinc by its Taylor series, which converges fast for small arguments."""
    total = np.zeros_like(x, np.longdouble)
    for k in range(order // 2 + order % 2, 30):
        power = 2 * k - order
        factor = np.prod(np.arange(power + 1, 2 * k + 1, dtype=np.longdouble))
        factorial = np.prod(np.arange(1, 2 * k + 2, dtype=np.longdouble))
        term = (-1) ** k * np.longdouble(np.pi) ** (2 * k) * factor / factorial
        total += term * np.asarray(x, np.longdouble) ** power
    return total


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_of_sinc(dtype: type) -> None:
    small = np.array([0, 1e-30, 1e-10, 1e-5, 1e-3, 0.01, 0.1, 0.24, -0.24, 0.26, -0.4], dtype)
    large = np.array([1e3, 1e10, 1e20, -1e20], dtype)
    first = gn.grad(gnp.sinc)
    orders: list[Callable[[Any], Any]] = [
        first,
        gn.grad(first),
        gn.jacrev(gn.jacfwd(gn.jacrev(gnp.sinc))),
    ]
    with gn.enable_x64(dtype is np.float64):
        for order, of in enumerate(orders, 1):
            mapped = gn.vmap(of)
            # Derivatives of a higher order take long to compile.
            for run in (mapped, gn.jit(mapped)) if order == 1 else (mapped,):
                values = run(small)
                expected = sinc_derivative(small, order).astype(dtype)
                same_digits(values, expected, units=64)
        # At whole numbers the derivative is the cosine, 1 or -1, over the argument.
        for values in (gn.vmap(first)(large), gn.jit(gn.vmap(first))(large)):
            same_digits(values, 1 / large, units=16)


def test_sinc_at_infinity() -> None:
    # As in JAX since 0.12; NumPy and JAX before give nan.
    for dtype in ("float32", "bfloat16"):
        x = gnp.array([np.inf, -np.inf, 1.0], dtype)
        for run in (gnp.sinc, gn.jit(gnp.sinc)):
            values = run(x)
            assert not np.any(values)
            assert not np.signbit(np.asarray(values)[:2].astype(np.float32)).any()
        assert not np.any(gn.vmap(gn.grad(gnp.sinc))(x[:2]))
    z = gnp.array([complex(np.inf, 2), complex(-np.inf, 0)], "complex64")
    assert not np.any(gnp.sinc(z)) and not np.any(gn.jit(gnp.sinc)(z))
    assert not np.any(gn.vmap(gn.grad(gnp.sinc, holomorphic=True))(z))


def same_digits(found: Any, expected: np.ndarray, units: float) -> None:
    """Compare each element by its own magnitude."""
    found, is_zero = np.asarray(found), expected == 0
    assert found.dtype == expected.dtype
    assert not found[is_zero].any()
    ratios = found[~is_zero] / expected[~is_zero]
    assert_near(ratios, np.ones_like(ratios), units)


def test_8_bit_floats_are_sorted() -> None:
    # NumPy's sort compares the nans of this dtype as if they were numbers.
    values = [2, np.nan, 1, -1, 0.5, 3, np.inf, -np.inf, -0.0]
    x = np.array(values, np.float32).astype(ml_dtypes.float8_e5m2)
    numbers = np.sort(np.float32(values))

    def of(x: Any) -> tuple[Any, ...]:
        ordered = gnp.sort(x)
        places = gnp.searchsorted(ordered, x), gnp.lexsort((x, gnp.zeros_like(x)))
        return ordered, gnp.argsort(x), lax.sort((x, x), num_keys=2)[0], *places

    for ordered, order, pairs, *places in (of(gnp.asarray(x)), gn.jit(of)(x)):
        for found in (ordered, pairs, x[np.asarray(order)]):
            np.testing.assert_array_equal(np.asarray(found).astype(np.float32), numbers)
        assert places[0].tolist() == [5, 8, 4, 1, 3, 6, 7, 0, 2]
        assert places[1].tolist() == order.tolist()
    np.testing.assert_array_equal(np.asarray(gnp.unique(x)).astype(np.float32), numbers)


@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_zero_is_above_negative_zero(dtype: type) -> None:
    # Both orders, at the start and the end of arrays that NumPy reads in vectors of 8 or 16.
    zeros = np.array([[0, -0.0] * 8 + [0], [-0.0, 0] * 8 + [-0.0], [-0.0] * 17], dtype)
    one_below = np.where(np.arange(17) == 3, dtype(-1), zeros)

    def of(x: Any, y: Any) -> Any:
        window: Any = {"window_dimensions": (1, 3), "window_strides": (1, 1), "padding": "VALID"}
        results: list[Any] = []
        for over, reduce, scan, name, start in (
            (lax.max, gnp.max, lax.cummax, "max", -np.inf),
            (lax.min, gnp.min, lax.cummin, "min", np.inf),
        ):
            results += [reduce(x), reduce(x, 0), reduce(y, 1), scan(x, 1), scan(x, 1, True)]
            results += [lax.reduce_window(x, gnp.asarray(start, dtype), over, **window)]
            columns = gnp.array([5, 2, 5])
            results += [getattr(x.at[:, columns], name)(x[:, :3])]
            results += [getattr(x.at[1, columns], name)(x[0, 1:4])]
            of_two = getattr(gnp, f"{name}imum")
            results += [over(x, y), over(x[1], x[0]), of_two(y[::-1], x), of_two(y, 0.0)]
            results += [of_two(-0.0, x[0]), of_two(x[0, 0], x[0, 1]), of_two(x[0, 1], x[0, 0])]
        return [*results, lax.clamp(x[1], x[0], x[2]), gnp.clip(x, 0.0, x[1])]

    operands = gnp.asarray(zeros), gnp.asarray(one_below)
    for found, compiled in zip(of(*operands), gn.jit(of)(*operands), strict=True):
        assert_array_equal_bits(np.asarray(found), np.asarray(compiled))


def assert_array_equal_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes(), (found, expected)


@pytest.mark.iree  # whose programs flush the factor, a subnormal number, to zero
def test_rounding_to_places_beyond_the_largest_number() -> None:
    x = np.array([7, -3, INF, -INF], np.float32)
    for round_ in (gnp.round, gn.jit(gnp.round, static_argnums=1)):
        np.testing.assert_array_equal(round_(x, -40), [0, 0, INF, -INF])


def test_complex_numbers_are_clamped() -> None:
    x = np.complex64([1 + 2j, 3 - 1j, -1, 2 + 5j])

    def of(x: Any) -> Any:
        return lax.clamp(np.complex64(0), x, np.complex64(2))

    for clamp in (of, gn.jit(of), gn.vmap(of)):
        assert clamp(x).tolist() == [1 + 2j, 2, 0, 2]
    _, pull = gn.vjp(of, x)
    assert pull(np.ones(4, np.complex64))[0].tolist() == [1, 0, 0, 0]


def test_convolutions_over_an_empty_batch() -> None:
    image, kernel = np.ones((2, 3, 8, 8), np.float32), np.ones((2, 3, 3, 3), np.float32)

    def conv(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "VALID")

    for axes, x, w in (
        ((None, 0), image, kernel[None][:0]),
        ((0, None), image[None][:0], kernel),
        ((0, 0), image[None][:0], kernel[None][:0]),
    ):
        mapped = gn.vmap(conv, axes)
        assert mapped(x, w).shape == gn.jit(mapped)(x, w).shape == (0, 2, 2, 6, 6)
        sums = gn.grad(lambda x, w, mapped=mapped: gnp.sum(mapped(x, w)), (0, 1))(x, w)
        assert [s.shape for s in sums] == [x.shape, w.shape]


def test_integers_under_x64_have_results_of_64_bits() -> None:
    with gn.enable_x64(True):
        for n in (None, 1, 3):
            assert gnp.fft.hfft(np.arange(3), n=n).dtype == np.float64
        assert stats.mode(np.arange(3)).count.dtype == np.int64


def test_8_bit_floats_have_neighbours() -> None:
    formats = ["e5m2", "e4m3fn", "e4m3b11fnuz", "e4m3", "e3m4", "e5m2fnuz", "e4m3fnuz", "e8m0fnu"]
    codes = [np.arange(256, dtype=np.uint8).view(f"float8_{name}") for name in formats]
    pairs = [np.meshgrid(x, x[:: 1 + i]) for i, x in enumerate(codes)]

    def of(pairs: Any, codes: Any) -> Any:
        return [gnp.nextafter(x, y) for x, y in pairs], [gnp.spacing(x) for x in codes]

    operands = gn.tree.map(gnp.asarray, (pairs, codes))
    eager, compiled = of(*operands), gn.jit(of)(*operands)
    for number, (x, y) in enumerate(pairs):
        x, y = x.astype(np.float32), y.astype(np.float32)
        numbers = np.unique(x[~np.isnan(x)])
        place = np.searchsorted(numbers, np.where(np.isnan(x), 1, x))
        step = place + (y > x) - (y < x)
        expected = np.where(x == y, y, numbers[np.clip(step, 0, len(numbers) - 1)])
        expected = np.where(np.isnan(x) | np.isnan(y), np.nan, expected)
        for found in (eager[0][number], compiled[0][number]):
            np.testing.assert_array_equal(np.asarray(found).astype(np.float32), expected)
        if formats[number] != "e8m0fnu":  # Its smallest gap is subnormal in f32.
            gaps = [np.asarray(r[1][number]).astype(np.float32) for r in (eager, compiled)]
            np.testing.assert_array_equal(*gaps)
        finite = numbers[np.isfinite(numbers) & (numbers > 0)]
        upwards = gnp.spacing(gnp.asarray(finite[:-1]).astype(codes[number].dtype))
        np.testing.assert_array_equal(np.asarray(upwards).astype(np.float32), np.diff(finite))


def test_positions_beyond_32_bits_are_refused() -> None:
    x = wrap(np.broadcast_to(np.int8(0), (2**31 + 8,)))
    calls: list[Callable[[Any], Any]] = [gnp.argmax, gnp.argmin, gnp.nonzero, gnp.flatnonzero]
    for call in (*calls, lambda x: gnp.argmax(x, 0), gn.jit(gnp.argmax)):
        with pytest.raises(ValueError, match=r"214748365[56]"):
            call(x)


def test_sums_of_narrow_integers_need_little_memory() -> None:
    x = gnp.asarray(np.full(2**24, 100, np.int8))
    tracemalloc.start()
    try:
        total = gnp.sum(x)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert total.dtype == np.int32
    assert total == 100 * 2**24
    assert gnp.prod(x[:3].astype(np.uint16)).dtype == np.uint32
    assert gnp.nanmean(x[:4], dtype=np.int8) == -28


def _power(exponent: float) -> Callable[[Any], Any]:
    return lambda x: x ** gnp.full((), exponent)


INF = np.inf
# Functions, orders, points, and the derivatives of that order there. JAX gives the same except for
# arctanh, hypot and entr below zero, where its reverse mode gives nan, for hard_silu and xlogy,
# where its forward mode does, and for gammaln at -0.
AT_POLES: dict[str, tuple[Callable[[Any], Any], int, list[float], list[float]]] = {
    "reciprocal": (gnp.reciprocal, 3, [0.0, INF, 0.5], [-INF, 0, -96]),
    "x**0.5": (_power(0.5), 3, [0.0, 4.0], [INF, 3 / 256]),
    "x**1.5": (_power(1.5), 3, [0.0, 1.0], [-INF, -0.375]),
    "x**-1": (_power(-1.0), 3, [0.0, 1.0], [-INF, -6]),
    "x**3": (lambda x: x**3, 3, [INF, 0.0], [6, 6]),
    "x**4": (lambda x: x**4, 3, [1e30, 0.0], [2.4e31, 0]),
    "arcsin": (gnp.arcsin, 2, [1.0, -1.0, 0.5], [INF, -INF, 0.5 / 0.75**1.5]),
    "arcsin d3": (gnp.arcsin, 3, [1.0, -1.0, 0.0], [INF, INF, 1]),
    "arccos": (gnp.arccos, 2, [1.0, -1.0, 0.5], [-INF, INF, -0.5 / 0.75**1.5]),
    "arctanh": (gnp.arctanh, 2, [1.0, -1.0, 0.5], [INF, -INF, 16 / 9]),
    "arctanh d3": (gnp.arctanh, 3, [1.0, -1.0, 0.0], [INF, INF, 2]),
    "sinh": (gnp.sinh, 3, [800.0, -INF, 0.0], [INF, INF, 1]),
    "cosh": (gnp.cosh, 3, [800.0, -INF, 0.0], [INF, -INF, 0]),
    "digamma": (special.digamma, 3, [0.0, -1.0, -100.0], [INF, INF, INF]),
    "gammaln": (special.gammaln, 1, [0.0, -0.0, -1.0, INF], [-INF, INF, np.nan, INF]),
    "cauchy.ppf": (stats.cauchy.ppf, 1, [0.0, 1.0, 0.5, 1e-30], [INF, INF, np.pi, INF]),
    "entr": (special.entr, 3, [0.0, 2.0, -1.0], [INF, 0.25, 0]),
    "entr d1": (special.entr, 1, [0.0, -1.0, -INF], [INF, 0, 0]),
    "loggamma": (special.loggamma, 1, [-1.0, -0.5, -INF], [0, 0, 0]),
    "hypot": (lambda x: gnp.hypot(x, INF), 1, [INF, -INF, 1.0], [0, 0, 0]),
    "sparse_plus": (nn.sparse_plus, 1, [INF, -INF, 0.0], [1, 0, 0.5]),
    "hard_silu": (nn.hard_silu, 1, [INF, -INF, 3.0, 0.0], [1, 0, 1, 0.5]),
    "xlogy": (lambda x: special.xlogy(2.0, x), 1, [0.0, -2.0, INF], [INF, -1, 0]),
    "xlogy at 0": (lambda x: special.xlogy(x, 0.0), 1, [0.0, 1.0, INF], [-INF, -INF, -INF]),
    "xlog1py": (lambda x: special.xlog1py(1.0, x), 3, [-1.0, 1.0], [INF, 0.25]),
    "i0": (gnp.i0, 1, [1e30, -1e30, 0.0], [INF, -INF, 0]),
    "i0 d2": (special.i0, 2, [0.0, -0.25, INF], [0.5, 0.5117697, np.nan]),
    "i1": (special.i1, 3, [0.0, 0.125], [0.375, 0.3774439]),
    "rel_entr": (lambda x: special.rel_entr(x, 2.0), 2, [1e30, 0.5], [1e-30, 2]),
}


def test_derivatives_at_poles() -> None:
    def forward(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: gn.jvp(f, (x,), (np.float32(1),))[1]

    def of(points: dict[str, np.ndarray], modes: tuple[Any, ...] = (gn.grad,)) -> dict[str, Any]:
        results: dict[str, list[Any]] = {name: [] for name in points}
        for name, x in points.items():
            for mode in modes:
                derivative, order = AT_POLES[name][:2]
                for _ in range(order):
                    derivative = mode(derivative)
                results[name].append(gn.vmap(derivative)(x))
        return results

    points = {name: np.float32(row[2]) for name, row in AT_POLES.items()}
    # Derivatives of a higher order take long to compile.
    compiled = {name: points[name] for name in sample(AT_POLES, 10, "poles")}
    for results in (of(points, (forward, gn.grad)), gn.jit(of)(compiled)):
        for name, found in results.items():
            for values in found:
                np.testing.assert_allclose(values, AT_POLES[name][3], 1e-5, 1e-12, err_msg=name)


def test_small_box_cox_transformations() -> None:
    with gn.enable_x64():
        x, power = np.array([1e-15, 1e-306, 0.5]), np.array([1e-306, 1e-18, 0.0])
        for run in (special.boxcox1p, gn.jit(special.boxcox1p)):
            np.testing.assert_allclose(run(x, power), np.log1p(x), rtol=2.0**-51)
        slope = gn.grad(special.boxcox, 1)(3.0, 0.0)
        assert abs(float(slope) / (np.log(3.0) ** 2 / 2) - 1) < 2.0**-50


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_special_functions_where_their_formulas_end(jit: bool) -> None:
    """Infinite logarithms, points next to poles, orders between integers, overflowing quotients."""
    near = np.array([-4e-6, -1e-3, -1.001, 1e-5, -2 + 1e-4j], np.complex64)
    z, m = np.float32([50, 50, 1000, 12, 3000]), np.float32([1, -1, 2.5, -1.5, 1e-3])
    infinite = np.array([INF, -INF, INF * 1j, complex(INF, -1), complex(3, INF)], np.complex64)

    def values(near: Any, z: Any, m: Any, infinite: Any, one: Any) -> dict[str, Any]:
        return {
            "boxcox": special.boxcox(one - 1, gnp.stack([one - 1, one, -one])),
            "boxcox1p": special.boxcox1p(-one, one - 1),
            "beta": special.beta(gnp.array([INF, INF, 2, 0]), one * gnp.array([2, INF, 3, 0])),
            "beta'": gn.vmap(gn.grad(special.beta), (0, None))(gnp.array([INF, 1.0]), 2 * one),
            "gamma": special.gamma(near),
            "loggamma": special.loggamma(near),
            "poch": special.poch(z, m),
            "wofz": special.wofz(infinite),
            "wofz'": gn.jvp(special.wofz, (infinite,), (gnp.ones_like(infinite),))[1],
            "expn": special.expn(gnp.stack([one / 2, 1.8 * one, 2 * one]), one / 2),
            "expn'": gn.vmap(gn.grad(special.expn, 1), (None, 0))(
                0 * one, gnp.stack([one, one / 2])
            ),
        }

    x = np.array([1, 0.5])
    expected = {
        "boxcox": [-INF, -1, -INF],
        "boxcox1p": -INF,
        "beta": [0, 0, 1 / 12, INF],
        "beta'": [0, -0.75],
        "gamma": scipy.special.gamma(near.astype(complex)),
        "loggamma": scipy.special.loggamma(near.astype(complex)),
        "poch": scipy.special.poch(z.astype(float), m),
        "wofz": np.zeros(5),
        "wofz'": np.zeros(5),
        "expn": [np.nan, np.nan, scipy.special.expn(2, 0.5)],
        "expn'": -np.exp(-x) * (1 + x) / x**2,
    }

    def some(*arguments: Any) -> dict[str, Any]:
        """Without what takes long to compile and has the same formulas."""
        left_out = ("beta'", "gamma", "wofz", "wofz'", "boxcox1p", "expn'")
        return {k: v for k, v in values(*arguments).items() if k not in left_out}

    arguments = (near, z, m, infinite, np.float32(1))
    for name, found in (gn.jit(some) if jit else values)(*arguments).items():
        np.testing.assert_allclose(found, expected[name], 1e-5, err_msg=name)


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_distributions_where_their_formulas_end(jit: bool) -> None:
    """Many degrees of freedom or trials, tails that underflow, counts that are nan, wrong p."""
    df = np.float32([INF, 1e20, 1e4, 21, 1])
    counts = np.float32([0, 2, 50, np.nan])
    trials = np.float32([1e15, 1e15, 1e4, 3])
    p = np.float32([1e-18, 1e-15, 0.005, 0.5])
    low = np.float32([-1000, -100, -10.5, -9.5, 1])
    wrong = np.float32([0, 2, np.nan])

    def values(df: Any, counts: Any, trials: Any, p: Any, low: Any, wrong: Any) -> dict[str, Any]:
        return {
            "t": stats.t.logpdf(counts[1], df),
            "t'": gn.vmap(gn.grad(stats.t.logpdf), (None, 0))(counts[1], df[:2]),
            "binom": stats.binom.pmf(counts, trials, p),
            "nbinom": stats.nbinom.pmf(counts, trials, 1 - p),
            "bernoulli": stats.bernoulli.pmf(counts[3], 0.5),
            "betabinom": stats.betabinom.pmf(counts[3], 4, 2.0, 3.0),
            "poisson": stats.poisson.pmf(counts[3], 2.0),
            "gumbel_l": stats.gumbel_l.logcdf(low),
            "gumbel_r": stats.gumbel_r.logsf(-low),
            "geom p": stats.geom.pmf(1, wrong),
            "dirichlet": stats.dirichlet.logpdf(gnp.array([0.25, 0, 0.75]), df[4] * gnp.ones(3)),
            "cauchy": stats.cauchy.logpdf(1e30 * df[4]),
            "nbinom p": stats.nbinom.pmf(0, 3, wrong),
        }

    wide = {"trials": trials.astype(float), "p": p.astype(float)}
    lower_tail = np.array([-1000, *scipy.stats.gumbel_l.logcdf(low[1:].astype(float))])
    expected = {
        "t": scipy.stats.t.logpdf(2, df.astype(float)),
        "t'": [-2, -2],
        "binom": scipy.stats.binom.pmf(counts, wide["trials"], wide["p"]),
        "nbinom": scipy.stats.nbinom.pmf(counts, wide["trials"], (1 - p).astype(float)),
        **dict.fromkeys(("bernoulli", "betabinom", "poisson"), np.nan),
        "gumbel_l": lower_tail,
        "gumbel_r": lower_tail,
        **dict.fromkeys(("geom p", "nbinom p"), [np.nan] * 3),
        "dirichlet": np.log(2),
        "cauchy": scipy.stats.cauchy.logpdf(1e30),
    }

    def some(*arguments: Any) -> dict[str, Any]:
        kept = ("t", "binom", "gumbel_l", "geom p")
        return {k: v for k, v in values(*arguments).items() if k in kept}

    arguments = (df, counts, trials, p, low, wrong)
    for name, found in (gn.jit(some) if jit else values)(*arguments).items():
        np.testing.assert_allclose(found, expected[name], 1e-4, 1e-30, err_msg=name)


def test_values_beside_the_poles() -> None:
    x = np.float32([np.nan, -np.inf, -3, -1, 1, 3, np.inf])
    np.testing.assert_allclose(nn.sparse_plus(x), [np.nan, 0, 0, 0, 1, 3, np.inf])
    np.testing.assert_allclose(nn.hard_silu(x), [np.nan, np.nan, 0, -1 / 3, 2 / 3, 3, np.inf])
    assert np.isnan(gn.vmap(gn.grad(special.gamma))(x[:3])).all()


def test_rare_arguments() -> None:
    pairs = np.arange(8, dtype=np.float32).reshape(2, 4)
    for other in ("complex64", "uint8", "float64", "int16", "complex128", "bool"):
        for x in (pairs, pairs.view(np.complex64)):
            with gn.enable_x64():
                found = gnp.asarray(x).view(other)
            np.testing.assert_array_equal(np.asarray(found), x.view(other))
    with pytest.raises(ValueError, match="whole numbers of complex64"):
        gnp.zeros((2, 3)).view("complex64")

    mask = np.array([True, True, False])
    for ufunc, own in (
        (gnp.bitwise_and, np.bitwise_and),
        (gnp.bitwise_or, np.bitwise_or),
        (gnp.bitwise_xor, np.bitwise_xor),
    ):
        for dtype in (np.int32, np.uint8):
            x = np.arange(1, 7, dtype=dtype).reshape(2, 3)
            arguments = {"axis": 1, "where": mask, "initial": dtype(9), "keepdims": True}
            found = ufunc.reduce(gnp.asarray(x), **arguments)
            np.testing.assert_array_equal(np.asarray(found), own.reduce(x, **arguments))

    empty = gnp.add.reduceat(gnp.ones((3, 4)), gnp.zeros(0, int), axis=1)
    assert empty.shape == (3, 0)
    assert gnp.r_[np.arange(3), 7].tolist() == [0, 1, 2, 7]
    assert gnp.c_[np.arange(2), np.arange(2)].tolist() == [[0, 0], [1, 1]]

    def total(x: Any) -> Any:
        return lax.scan(lambda c, a: (c + a, c), 0.0, x, unroll=0)

    assert float(total(gnp.arange(3.0))[0]) == float(gn.jit(total)(gnp.arange(3.0))[0]) == 3
