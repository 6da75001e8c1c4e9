"""gnomon.scipy.stats against SciPy, in both precisions and at the ends of the supports."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.scipy.stats as theirs
import numpy as np
import pytest
from scipy import stats as reference

import gnomon as gn
import tests.sample as sampling
from gnomon.scipy import stats
from tests.tolerance import assert_each_near, assert_near, unit

RNG = np.random.default_rng(0)
REAL = np.concatenate([RNG.normal(0, 3, 20), [0.0, 1.0, -1.0, 2.0]])
WHOLE = np.arange(-2.0, 10.0)
UNIT = np.concatenate(
    [RNG.uniform(0, 1, 10), [0.05, 0.5, 0.95, 0.0, -0.0, 1.0, 1e-12, 1 - 2**-20, -0.1, 1.1, np.nan]]
)

# Parameters without loc and scale, and points at which the distribution is tested.
CASES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "norm": ((), REAL),
    "uniform": ((), REAL),
    "expon": ((), REAL),
    "cauchy": ((), REAL),
    "laplace": ((), REAL),
    "logistic": ((), REAL),
    "gumbel_r": ((), REAL),
    "gumbel_l": ((), REAL),
    "gamma": ((2.3,), REAL),
    "chi2": ((3.1,), REAL),
    "beta": ((1.7, 0.6), np.concatenate([RNG.uniform(0.01, 0.99, 10), [-0.5, 1.5]])),
    "pareto": ((2.5,), REAL),
    "t": ((4.5,), REAL),
    "gennorm": ((1.4,), REAL),
    "truncnorm": ((-1.0, 2.5), REAL),
    "vonmises": ((2.1,), RNG.uniform(-3, 3, 10)),
    "wrapcauchy": ((0.4,), np.concatenate([RNG.uniform(0.1, 6.2, 10), [-1.0, 7.0]])),
    "poisson": ((3.4,), WHOLE),
    "bernoulli": ((0.3,), WHOLE),
    "geom": ((0.3,), WHOLE),
    "binom": ((7.0, 0.3), WHOLE),
    "nbinom": ((3.0, 0.3), WHOLE),
    "betabinom": ((7.0, 1.3, 2.2), WHOLE),
}


@pytest.mark.parametrize("name", CASES)
def test_distributions(name: str) -> None:
    parameters, points = CASES[name]
    ours, right = getattr(stats, name), getattr(reference, name)
    wanted = [f for f in dir(getattr(theirs, name)) if hasattr(right, f) and f[0] != "_"]
    assert set(wanted) - {"entropy"} <= set(dir(ours))
    for function in wanted:
        if function == "entropy":
            continue
        where = UNIT if function in ("ppf", "isf") else points
        arguments: list[Any] = [where, *parameters]
        names = list(inspect.signature(getattr(ours, function)).parameters)
        jax_names = list(inspect.signature(getattr(getattr(theirs, name), function)).parameters)
        assert names == jax_names
        if "scale" in names and name != "beta":
            arguments += [0.4, 1.7]
        for dtype in (np.float32, np.float64):
            given = [np.asarray(a, dtype) for a in arguments]
            with gn.enable_x64(), np.errstate(all="ignore"):
                found = getattr(ours, function)(*given)
                expected = getattr(right, function)(*(g.astype(np.float64) for g in given))
            assert found.dtype == dtype
            label = f"{name}.{function} {dtype.__name__}"
            assert_each_near(found, expected, 128, scale=0.1, message=label)


def test_invalid_parameters_and_lost_outcomes_are_nan() -> None:
    invalid = {
        "gamma": (-1.5,), "chi2": (-1.5,), "pareto": (-1.5,), "gennorm": (0.0,), "poisson": (-1.5,),
    }  # fmt: skip
    functions = ("pdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf", "pmf")
    for name, (parameters, _) in CASES.items():
        for function in filter(functions.__contains__, dir(getattr(stats, name))):
            ours = getattr(getattr(stats, name), function)
            names = inspect.signature(ours).parameters
            x = np.array([-1.5, 0.25, 0.5, 1.0, 2.5], np.float32)
            calls = [((np.full(5, np.nan, np.float32), *parameters), {})]
            calls += [((x, *invalid[name]), {})] if name in invalid else []
            if "scale" in names:
                calls += [((x, *parameters), {"scale": s}) for s in (-1.0, np.zeros(5), np.nan)]
                calls += [((x, *parameters), {"loc": np.nan})]
            for arguments, others in calls:
                found = np.asarray(ours(*arguments, **others))
                assert np.isnan(found).all(), f"{name}.{function} {arguments} {others}: {found}"


# Calls whose formulas could lose digits: where a probability is almost 1, and where logarithms of
# probabilities or of gamma cancel.
CANCELLING: list[tuple[str, str, tuple[float, ...]]] = [
    ("expon", "logcdf", (50.0,)),
    ("pareto", "logcdf", (1e10, 2.0)),
    ("pareto", "cdf", (0.5, np.inf)),
    *(
        ("pareto", f, (1.0, np.inf))
        for f in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf")
    ),
    ("gumbel_r", "logsf", (-3.0,)),
    ("gumbel_r", "logsf", (-5.0,)),
    ("gumbel_l", "logcdf", (3.0,)),
    ("cauchy", "logcdf", (1e25,)),
    ("cauchy", "logsf", (-1e25,)),
    ("truncnorm", "logcdf", (20.0, 10.0, np.inf)),
    ("truncnorm", "logsf", (-10.0, -np.inf, 0.0)),
    ("truncnorm", "logcdf", (1e200, 0.0, np.inf)),
    ("truncnorm", "cdf", (39.5, 39.0, 40.0)),
    ("binom", "logpmf", (0.0, 100.0, 1e-10)),
    ("binom", "logpmf", (7.0, 7.0, 1.0)),
    ("nbinom", "logpmf", (0.0, 7.0, 1.0)),
    ("betabinom", "pmf", (0.0, 0.0, 1.3, 2.2)),
]
# Points at which one of the two probabilities is tiny. The logarithm of the other one is that of a
# difference from 1, which SciPy loses.
NEARLY_CERTAIN: list[tuple[str, float, tuple[float, ...]]] = [
    ("gamma", 60.0, (2.0,)),
    ("gamma", 1e-8, (2.0,)),
    ("chi2", 100.0, (3.0,)),
    ("chi2", 1e-8, (3.0,)),
    ("beta", 1 - 2.0**-20, (2.0, 9.0)),
    ("beta", 1e-5, (4.0, 2.0)),
]


def test_no_digits_cancel() -> None:
    with gn.enable_x64():
        for name, x, parameters in NEARLY_CERTAIN:
            ours, theirs = getattr(stats, name), getattr(reference, name)
            cdf, sf = theirs.cdf(x, *parameters), theirs.sf(x, *parameters)
            logarithms = (np.log(cdf), np.log1p(-cdf)) if cdf < sf else (np.log1p(-sf), np.log(sf))
            for function, expected, sign in zip(
                (ours.logcdf, ours.logsf), logarithms, (1, -1), strict=True
            ):
                message = f"{name} {x} {parameters}"
                assert_each_near(function(x, *parameters), expected, 64, message=message)
                slope = sign * theirs.pdf(x, *parameters) / np.exp(expected)
                found = gn.grad(function)(x, *parameters)
                assert_each_near(found, slope, 256, message=message)
        for name, function, arguments in CANCELLING:
            found = getattr(getattr(stats, name), function)(*arguments)
            expected = getattr(getattr(reference, name), function)(*arguments)
            assert_each_near(found, expected, 256, message=f"{name}.{function}{arguments}")
        # The density at 0 is (1 + c) / (1 - c) / (2 pi).
        assert_each_near(stats.wrapcauchy.pdf(0.0, 1 - 2.0**-30), (2.0**31 - 1) / (2 * np.pi), 32)
        # Of a narrow interval, SciPy's probabilities cancel, too.
        found = stats.truncnorm.cdf(1e-10, 0.0, np.inf)
        assert_each_near(found, np.sqrt(2 / np.pi) * 1e-10, 8)
        assert_each_near(stats.truncnorm.pdf(0.0, -1e-5, 1e-5), 5e4 * (1 + 1e-10 / 6), 8)


def test_vectors() -> None:
    alpha, x = np.array([1.5, 2.0, 0.7]), np.array([0.2, 0.5, 0.3])
    expected = reference.dirichlet.logpdf(x, alpha)
    assert_near(stats.dirichlet.logpdf(x, alpha), expected, 16)
    assert_near(stats.dirichlet.pdf(x[:2], alpha), np.exp(expected), 16)
    counts, p = np.array([2, 0, 3]), np.array([0.2, 0.3, 0.5])
    expected = reference.multinomial.pmf(counts, 5, p)
    assert_near(stats.multinomial.pmf(counts, 5, p), expected, 16)
    assert float(stats.multinomial.pmf(counts, 4, p)) == 0.0
    points, mean = RNG.normal(size=(4, 2)), np.array([0.3, -0.2])
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    expected = reference.multivariate_normal.logpdf(points, mean, cov)
    found = stats.multivariate_normal.logpdf(points, mean, cov)
    assert_near(found, expected, 16)
    expected = reference.multivariate_normal.logpdf(points, mean, 2.0)
    assert_near(stats.multivariate_normal.logpdf(points, mean, 2.0), expected, 16)


def test_gradients_and_errors() -> None:
    slope = gn.grad(lambda x: stats.gamma.logpdf(x, 2.0))(3.0)
    assert_near(slope, 1 / 3 - 1, 8)
    # The quotient of density and distribution, from logarithms of about 450.
    expected = np.exp(reference.norm.logpdf(-30.0) - reference.norm.logcdf(-30.0))
    assert_near(gn.grad(stats.norm.logcdf)(-30.0), expected, 512)
    assert np.isfinite(gn.grad(lambda x: stats.beta.logpdf(x, 2.0, 2.0))(1.5))
    with pytest.raises(ValueError, match="as many entries as alpha"):
        stats.dirichlet.pdf(np.ones(2), np.ones(5))
    with pytest.raises(ValueError, match="must be a matrix"):
        stats.multivariate_normal.pdf(np.ones(2), np.ones(2), np.ones(2))


def test_entropy_of_poisson() -> None:
    rates = np.array([0.0, 0.1, 1, 9, 24, 26, 90, 110, 1e3], np.float32)
    expected = reference.poisson.entropy(rates.astype(np.float64))
    got = np.asarray(stats.poisson.entropy(rates))
    assert_each_near(got, expected, 64)
    assert np.isnan(stats.poisson.entropy(-1.0))
    with gn.enable_x64(True):
        got = np.asarray(stats.poisson.entropy(rates.astype(np.float64)))
    # The series, for rates above a hundred, leaves out a term of the order of rate**-4.
    assert_each_near(got, expected, 110.0**-4 / unit(np.float64))


def test_derivatives_at_and_beyond_the_ends() -> None:
    beyond = [
        (stats.gamma.cdf, (-1.0, 0.5)),
        (stats.gamma.sf, (-1.0, 0.5)),
        (stats.chi2.cdf, (-1.0, 1.0)),
        (stats.beta.cdf, (-1.0, 0.5, 0.5)),
        (stats.beta.cdf, (2.0, 0.5, 0.5)),
        (stats.beta.sf, (2.0, 0.5, 0.5)),
    ]
    for function, arguments in beyond:
        assert gn.grad(function)(*arguments) == 0
    assert stats.gamma.cdf(-1.0, 0.5) == 0 and stats.beta.sf(-1.0, 0.5, 0.5) == 1
    assert np.isnan(stats.gamma.cdf(np.nan, 0.5))
    assert gn.grad(stats.laplace.cdf)(0.0) == 0.5


# Parameters, and points below, at the ends of, inside and above the support.
SUPPORTS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "expon": ((), (-3.0, 0.0, 1.5)),
    "pareto": ((2.5,), (-3.0, 0.5, 1.0, 1.5)),
    "uniform": ((), (-3.0, 0.0, 0.5, 1.0, 2.0)),
    "truncnorm": ((-1.0, 2.0), (-3.0, -1.0, 0.5, 2.0, 7.0)),
    "gamma": ((1.0,), (-3.0, 0.0, 1.5)),
    "chi2": ((3.0,), (-3.0, 0.0, 1.5)),
    "beta": ((1.0, 1.0), (-3.0, 0.0, 0.5, 1.0, 2.0)),
}


def test_gradients_inside_and_outside_of_the_support() -> None:
    def gradient(library: Any, module: Any, name: str, function: str) -> Any:
        parameters, points = SUPPORTS[name]
        # The derivatives of beta's integral by its parameters are not implemented, as in JAX.
        count = 1 if name == "beta" else 1 + len(parameters)
        argnums, axes = tuple(range(count)), (0, *(None for _ in parameters))
        derivative = library.grad(getattr(getattr(module, name), function), argnums)
        return library.vmap(derivative, axes)(np.array(points, np.float32), *parameters)

    cases = [
        (name, function)
        for name in SUPPORTS
        for function in ("cdf", "logcdf", "sf", "logsf")
        if hasattr(getattr(stats, name), function)
    ]
    cases = sampling.sample(cases, len(cases) // 2, __name__)
    expected = jax.jit(lambda: [gradient(jax, theirs, *case) for case in cases])()
    for case, wanted in zip(cases, expected, strict=True):
        for g, e in zip(gradient(gn, stats, *case), map(np.asarray, wanted), strict=True):
            # JAX's own gradients are nan at some ends, where ours are zero, or nan for pareto's b.
            where = ~np.isnan(e)
            np.testing.assert_allclose(
                np.asarray(g)[where], e[where], 1e-4, 1e-6, err_msg=".".join(case)
            )


def test_gradients_of_intervals_without_an_end() -> None:
    for a, b in ((-np.inf, 1.0), (0.0, np.inf)):
        for function in (stats.truncnorm.cdf, stats.truncnorm.sf, stats.truncnorm.logpdf):
            for x in (-3.0, 0.5, 3.0):
                assert np.all(np.isfinite(gn.grad(function, (0, 1, 2))(x, a, b)))
    assert gn.grad(stats.pareto.ppf)(2.0, 2.5) == 0
