"""gnomon.scipy.special against SciPy in both precisions, and its derivatives against JAX's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.scipy.special as theirs
import mpmath
import numpy as np
import pytest
from scipy import special as reference

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.scipy import special
from tests.tolerance import assert_each_near, assert_near

RNG = np.random.default_rng(0)
REAL = np.concatenate([RNG.uniform(-6, 6, 40), RNG.uniform(0, 1, 20), [0.0, 1.0, 2.0, np.nan]])
POSITIVE = np.abs(REAL)
FAR = np.concatenate([POSITIVE, RNG.uniform(5, 50, 20), [np.inf]])
UNIT = np.concatenate([10.0 ** RNG.uniform(-30, 0, 30), [0.0, 0.1, 0.5, 0.9, 1.0, 2.0]])
OTHER = RNG.uniform(0.1, 10, REAL.size)

# (function, arguments, accuracy in units of the dtype)
CASES: dict[str, tuple[tuple[Any, ...], float]] = {
    "gammaln": ((POSITIVE,), 64),
    "gammasgn": ((REAL,), 0),
    "gamma": ((REAL,), 128),
    "beta": ((OTHER, REAL), 256),
    "betaln": ((OTHER, POSITIVE * 10), 512),
    "betainc": ((OTHER, 2.5, RNG.uniform(0, 1, OTHER.size)), 64),
    "gammainc": ((OTHER, POSITIVE), 64),
    "gammaincc": ((OTHER, POSITIVE), 64),
    "poch": ((OTHER, 1.5), 128),
    "factorial": ((POSITIVE,), 64),
    "xlogy": ((REAL, OTHER), 8),
    "xlog1py": ((REAL, OTHER), 8),
    "entr": ((REAL,), 8),
    "rel_entr": ((POSITIVE, OTHER), 2048),
    "kl_div": ((POSITIVE, OTHER), 2048),
    "boxcox": ((OTHER, REAL), 64),
    "boxcox1p": ((OTHER, REAL), 64),
    "erfcx": ((REAL,), 64),
    "dawsn": ((REAL,), 16),
    "log_ndtr": ((REAL * 10,), 64),
    "ndtri": ((UNIT,), 32),
    "exp1": ((FAR,), 32),
    "expi": ((REAL,), 64),
    "spence": ((POSITIVE,), 16),
    "sici": ((FAR,), 128),
    "fresnel": ((REAL,), 128),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    arguments, ulps = CASES[name]
    function, expected = getattr(special, name), getattr(reference, name)
    for dtype in (np.float32, np.float64):
        given = [np.asarray(a, dtype) for a in arguments]
        with gn.enable_x64(), np.errstate(all="ignore"):
            ours = function(*given)
            right = expected(*(a.astype(np.float64) for a in given))
        pairs = zip(ours, right, strict=True) if isinstance(ours, tuple) else [(ours, right)]
        for a, b in pairs:
            assert a.dtype == dtype
            if name == "gammasgn":
                b = np.where((given[0] < 0) & (b == 0), np.nan, b)
            assert_each_near(a, b, ulps, scale=0.01)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr"])
def test_entropies_of_infinities_and_zeros(name: str) -> None:
    numbers = [-np.inf, -1.0, -0.0, 0.0, 0.5, 2.0, 1e37, np.inf, np.nan]
    x, y = (a.astype(np.float32) for a in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        right = getattr(reference, name)(x.astype(np.float64), y.astype(np.float64))
        right = right.astype(np.float32)
    for function in (getattr(special, name), gn.jit(getattr(special, name))):
        assert_each_near(function(x, y), right, 16)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gammaincc_of_small_parameters(dtype: type) -> None:
    """One minus gammainc has few digits there, or none, and SciPy loses some."""
    a = (10.0 ** -np.arange(1.0, 31, 4)).astype(dtype)
    for x in (0.02, 0.45, 0.7, 2.0):
        argument = np.full_like(a, x)
        with gn.enable_x64():
            ours = special.gammaincc(a, argument)
        with mpmath.workprec(200):
            right = [
                float(mpmath.gammainc(p, q, mpmath.inf) / mpmath.gamma(p))
                for p, q in zip(a.tolist(), argument.tolist(), strict=True)
            ]
        assert_each_near(ours, np.array(right), 2)


DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "xlogy": lambda s, x: s.xlogy(x, 2.0 + x),
    "entr": lambda s, x: s.entr(x),
    "log_ndtr": lambda s, x: s.log_ndtr(-4 * x),
    "ndtri": lambda s, x: s.ndtri(x / 4),
    "expi": lambda s, x: s.expi(x),
    "expn": lambda s, x: s.expn(3, x),
    "fresnel": lambda s, x: s.fresnel(x)[0],
    "sici": lambda s, x: s.sici(x)[1],
    "poch": lambda s, x: s.poch(x, 1.5),
    "gammainc": lambda s, x: s.gammainc(2.0, x),
    "betainc": lambda s, x: s.betainc(2.0, 0.7, x / 4),
    "multigammaln": lambda s, x: s.multigammaln(x + 2, 3),
}


@pytest.mark.slow
def test_derivatives() -> None:
    x = np.array([0.25, 0.8, 1.7, 3.1], np.float32)

    def total(s: Any) -> Callable[[Any], Any]:
        return lambda v: sum((f(s, v) for f in DERIVATIVES.values()), start=0.0 * v)

    def slopes(grad: Any, s: Any) -> Callable[[Any], Any]:
        return lambda x: {
            name: grad(lambda v, f=f: f(s, v).sum())(x) for name, f in DERIVATIVES.items()
        }

    right = jax.jit(slopes(jax.grad, theirs))(x)
    for name, ours in slopes(gn.grad, special)(x).items():
        assert_each_near(ours, right[name], 64, scale=1.0, message=name)
    twice = gn.jit(gn.vmap(gn.grad(lambda v: total(special)(v))))(x)
    assert_each_near(twice, gn.vmap(gn.grad(lambda v: total(special)(v)))(x), 64, scale=1.0)


def test_numbers_and_shapes() -> None:
    assert_each_near(special.bernoulli(12), reference.bernoulli(12), 8)
    # Exponentials of logarithms up to nine.
    assert_each_near(special.comb(7, np.arange(9)), reference.comb(7, np.arange(9)), 32)
    bessel = special.bessel_jn(np.array([0.0, 0.5, 3.0], np.float32), v=3)
    expected = [reference.jv(k, [0.0, 0.5, 3.0]) for k in range(4)]
    assert_near(bessel, np.stack(expected), 8)
    assert_near(special.zeta(2.0), np.pi**2 / 6, 4)
    assert special.betainc(np.ones((2, 1)), 2.0, np.ones(3)).shape == (2, 3)
    for n in (0, 2, 5):
        assert_near(special.expn(n, 0.7), reference.expn(n, 0.7), 16)


def test_bessel_functions_compile() -> None:
    x = np.linspace(0.1, 9, 17, dtype=np.float32)
    found = gn.jit(lambda x: special.bessel_jn(x, v=10))(x)
    assert_near(found, np.stack([reference.jv(k, x.astype(np.float64)) for k in range(11)]), 8)


def test_errors() -> None:
    with pytest.raises(ValueError, match="complex"):
        special.gammasgn(1j)
    with pytest.raises(NotImplementedError, match="exact"):
        special.factorial(3, exact=True)
    with pytest.raises(ValueError, match="non-negative"):
        special.bernoulli(-1)
    with pytest.raises(TypeError, match="float16"):
        special.ndtri(np.float16(0.5))


def test_derivatives_at_zero() -> None:
    assert gn.grad(special.i0)(0.0) == 0 and gn.grad(gn.numpy.i0)(0.0) == 0
    assert gn.grad(gn.grad(special.i0))(0.0) == 0.5
    assert gn.grad(special.entr)(0.0) == np.inf
    assert np.isnan(special.xlogy(0.0, np.nan)) and np.isnan(special.xlog1py(0.0, np.nan))
    assert special.xlogy(0.0, 0.0) == 0


@pytest.mark.slow
def test_derivatives_next_to_edges() -> None:
    """Eager and compiled values, compared with mpmath."""
    tiny = 1.1754944e-38

    def second(f: Any) -> Any:
        return gn.vmap(gn.grad(gn.grad(f)))

    def several(x: Any, far: Any, near: Any) -> Any:
        return (
            lax.digamma(x),
            second(lax.digamma)(far),
            gn.vmap(gn.grad(lax.bessel_i1e))(near),
            second(lax.bessel_i1e)(near),
            second(lax.cbrt)(gnp.array([0.0, np.inf, -np.inf, 8.0])),
        )

    arguments = (
        np.float32([-1e-20, -1e-12, -1e-8, 1e-8, -2 + 2.0**-22, -0.25]),
        np.float32([-100.5, -20.5, -7.25, 0.1]),
        np.float32([tiny, 1e-6, -1e-6, 0.3, 1.25, 0.0]),
    )
    want = (
        [1e20, 1e12, 1e8, -1e8, -4194303.1, 2.9141393],
        [-9.80272026e-5, -2.26628992e-3, 124.008526, -2001.86137],
        [0.5, 0.499999, 0.499999, 0.270611189, 0.0203310006, 0.5],
        [-1.0, -0.999998125, 0.999998125, -0.569212004, -0.0915494815, 0.0],
        [-np.inf, 0.0, 0.0, -2 / 9 / 32],
    )
    for found in (several(*arguments), gn.jit(several)(*arguments)):
        for got, true in zip(found, want, strict=True):
            np.testing.assert_allclose(np.asarray(got), true, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize(("name", "x64"), [("float32", False), ("float64", True)])
def test_derivatives_of_the_normal_distribution_in_its_tails(name: str, x64: bool) -> None:
    """The logarithm's derivative is the hazard h, whose own derivative is -h (x + h)."""
    x = np.array([-1e30, -1e4, -30, -20.5, -12, -4, -1, 0, 0.3, 4.914, 9, 12, 36], name)
    with mpmath.workdps(60):
        exact = [mpmath.mpf(float(v)) for v in x]
        density = [mpmath.npdf(v) for v in exact]
        hazard = [
            mpmath.npdf(v) / (mpmath.erfc(-v / mpmath.sqrt(2)) / 2) if v > -1e5 else -v
            for v in exact
        ]
        slope = [
            -h * (v + h) if v > -1e5 else mpmath.mpf(-1) for v, h in zip(exact, hazard, strict=True)
        ]
        expected = [np.array(list(map(float, values))) for values in (density, hazard, slope)]
    with gn.enable_x64(x64), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow
        first = gn.grad(special.log_ndtr)
        functions = (gn.grad(special.ndtr), first, gn.grad(first))
        found = [np.asarray(gn.vmap(f)(gnp.asarray(x))) for f in functions]
    tiny = float(np.finfo(name).tiny)
    for actual, wanted, ulps in zip(found, expected, (4, 4, 2000), strict=True):
        wanted = np.where(np.abs(wanted) < tiny, 0, wanted)
        actual = np.where(np.abs(actual) < tiny, 0, actual)
        assert_each_near(actual, wanted.astype(name), ulps)
    # The square of the argument overflows; its half does not.
    far = np.array([-1.4e154 if x64 else -2e19], name)
    with gn.enable_x64(x64):
        assert_each_near(special.log_ndtr(far), -(far / 2) * far, 2)
    # Both tails, and the ends.
    ends = np.array([np.inf, -np.inf], name)
    with gn.enable_x64(x64):
        np.testing.assert_array_equal(gn.vmap(first)(ends), [0, np.inf])
        np.testing.assert_array_equal(gn.vmap(gn.grad(first))(ends), [0, -1])
