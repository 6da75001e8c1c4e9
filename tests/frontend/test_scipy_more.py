"""`gnomon.scipy` against SciPy: iterative solvers, samples, spectra, interpolation, functions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import jax.scipy.ndimage
import numpy as np
import pytest
import scipy
import scipy.interpolate
import scipy.signal
import scipy.special
import scipy.stats

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.scipy import (
    _error_functions,
    cluster,
    integrate,
    interpolate,
    ndimage,
    signal,
    sparse,
    special,
    stats,
)
from tests.frontend.oracle import check
from tests.tolerance import assert_each_near, assert_near, unit, units_of_differences

RNG = np.random.default_rng(5)


def close(ours: Any, theirs: Any, ulps: float = 16.0) -> None:
    assert_near(ours, theirs, ulps)


def residual_units(matrix: np.ndarray, tol: float = 1e-5) -> float:
    """The error of a solution whose residual is ``tol`` times the right side."""
    return float(np.linalg.cond(matrix) * (tol / unit("float32") + 8))


def f32(*shape: int) -> np.ndarray:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


# --------------------------------------------------------------------------------- sparse systems

MATRIX = (f32(6, 6) + 6 * np.eye(6)).astype(np.float32)
SIDE = f32(6)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_iterative_solvers(dtype: str) -> None:
    a = MATRIX.astype(dtype)
    b = SIDE.astype(dtype)
    if dtype == "complex64":
        a, b = a + 1j * MATRIX.T / 4, b * (1 + 2j)
    hermitian = a @ a.conj().T
    inverse = np.diag(1 / np.diag(a))
    solvers = {
        "cg": lambda m: sparse.linalg.cg(m, b, tol=1e-6)[0],
        "bicgstab": lambda m: sparse.linalg.bicgstab(m, b, tol=1e-6, M=inverse)[0],
        "gmres": lambda m: sparse.linalg.gmres(lambda v: gnp.dot(m, v), b, tol=1e-6)[0],
        "restarted": lambda m: sparse.linalg.gmres(m, b, b, tol=1e-6, restart=2, M=inverse)[0],
        "incremental": lambda m: sparse.linalg.gmres(m, b, solve_method="incremental")[0],
    }
    for name, solve in solvers.items():
        given = hermitian if name == "cg" else a
        close(solve(gnp.asarray(given)), np.linalg.solve(given, b), residual_units(given))


def test_iterative_solvers_of_trees_and_their_derivatives() -> None:
    b = {"x": SIDE, "y": np.float32(2)}

    def double(v: Any) -> Any:
        return gn.tree.map(lambda x: 2 * x, v)

    for solver in (sparse.linalg.cg, sparse.linalg.bicgstab, sparse.linalg.gmres):
        found = solver(double, b)[0]
        close(found, {"x": SIDE / 2, "y": np.float32(1)})
    spd = MATRIX @ MATRIX.T
    ours = gn.jit(gn.grad(lambda m, b: sparse.linalg.cg(m, b, tol=1e-6)[0].sum(), (0, 1)))
    theirs = gn.grad(lambda m, b: gnp.linalg.solve(m, b).sum(), (0, 1))
    # The derivative by the matrix is a product of two solutions.
    close(ours(spd, SIDE), theirs(spd, SIDE), 2 * residual_units(spd, 1e-6))
    zero, info = sparse.linalg.gmres(gnp.eye(3), gnp.zeros(3))
    assert zero.tolist() == [0.0] * 3 and int(info) == 0


def test_the_solution_has_the_dtype_of_the_system() -> None:
    a, b = np.diag([2.0, 4.0]).astype(np.float32), np.array([2, 4], np.float32)
    # The matrix, the preconditioner, the first guess and the right side; the solution.
    systems = {
        "complex matrix": (a * 1j, None, None, b, np.array([-1j, -1j])),
        "complex function": (lambda v: v * 2j, None, None, b, np.array([-1j, -2j])),
        "complex preconditioner": (a, np.eye(2) * (0.5 + 0.5j), None, b, np.ones(2) + 0j),
        "complex guess": (a, None, np.array([1j, 0]), b, np.ones(2) + 0j),
        "integers": (a, None, None, b.astype(np.int32), np.ones(2)),
    }
    for solver in (sparse.linalg.bicgstab, sparse.linalg.gmres):
        for name, (matrix, inverse, guess, side, expected) in systems.items():
            found = np.asarray(solver(matrix, side, guess, M=inverse, tol=1e-6)[0])
            assert found.dtype.kind == expected.dtype.kind, name
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)
    found = np.asarray(sparse.linalg.cg(np.array([[2, 1j], [-1j, 2]]), np.array([1, 2]))[0])
    assert_near(found, np.array([2 - 2j, 4 + 1j]) / 3, 64)


def test_errors_of_iterative_solvers() -> None:
    with pytest.raises(ValueError, match="square matrix"):
        sparse.linalg.cg(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ValueError, match="matching tree structure"):
        sparse.linalg.cg(np.eye(2), gnp.ones(2), [gnp.ones(2)])
    with pytest.raises(ValueError, match="matching shapes"):
        sparse.linalg.bicgstab(np.eye(2), gnp.ones(2), gnp.ones(3))
    with pytest.raises(ValueError, match="invalid solve_method"):
        sparse.linalg.gmres(np.eye(2), gnp.ones(2), solve_method="x")
    with pytest.raises(TypeError, match="function or ndarray"):
        sparse.linalg.cg("A", gnp.ones(2))


# ------------------------------------------------------------------------------------------ samples

SAMPLES = RNG.integers(0, 4, (4, 7))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_statistics(axis: int | None) -> None:
    for x in (SAMPLES, SAMPLES.astype(np.float32)):
        for keepdims in (False, True):
            ours = stats.mode(x, axis, keepdims=keepdims)
            theirs = scipy.stats.mode(x, axis, keepdims=keepdims)
            close(tuple(ours), (theirs.mode, theirs.count), 0.0)
        for method in ("average", "min", "max", "dense", "ordinal"):
            theirs = scipy.stats.rankdata(x, method, axis=axis)
            close(stats.rankdata(x, method, axis=axis), theirs, 0.0)
    close(stats.sem(SAMPLES, axis, ddof=0), scipy.stats.sem(SAMPLES, axis, ddof=0))
    with_nan = SAMPLES.astype(np.float32)
    with_nan[0, 2] = np.nan
    close(stats.sem(with_nan, axis), scipy.stats.sem(with_nan, axis))
    omitted = scipy.stats.sem(with_nan, axis, nan_policy="omit")
    close(stats.sem(with_nan, axis, nan_policy="omit"), np.asarray(omitted))
    assert np.isnan(np.asarray(stats.rankdata(gnp.array([1.0, np.nan])))).all()


def test_mode_in_64_bits_under_strict_dtype_promotion() -> None:
    with gn.enable_x64(True), gn.numpy_dtype_promotion("strict"):
        value, count = stats.mode(gnp.array([3.0, 1.0, 3.0]))
    assert (float(value), int(count), count.dtype) == (3.0, 2, np.int64)


def test_errors_of_statistics() -> None:
    with pytest.raises(ValueError, match="unknown method"):
        stats.rankdata(SAMPLES, "best")
    with pytest.raises(NotImplementedError, match="nan_policy='omit'"):
        stats.mode(SAMPLES, nan_policy="omit")
    with pytest.raises(ValueError, match="illegal nan_policy"):
        stats.rankdata(SAMPLES, nan_policy="x")
    assert np.isnan(np.asarray(stats.mode(gnp.zeros((0, 2))).mode)).all()


def test_kernel_density() -> None:
    x, weights, points = f32(2, 9), np.arange(1, 10).astype(np.float32), f32(2, 4)
    for method in (None, "silverman", 0.4):
        ours = stats.gaussian_kde(x, method, weights)
        theirs = scipy.stats.gaussian_kde(x, method, weights)
        close(ours(points), theirs(points), 64)
        close(ours.logpdf(points), theirs.logpdf(points), 64)
    mean, cov = f32(2), np.eye(2, dtype=np.float32)
    close(ours.integrate_gaussian(mean, cov), theirs.integrate_gaussian(mean, cov), 64)
    close(ours.integrate_kde(ours), theirs.integrate_kde(theirs), 64)
    line, other = stats.gaussian_kde(x[0]), scipy.stats.gaussian_kde(x[0])
    close(line.integrate_box_1d(-1.0, 0.5), other.integrate_box_1d(-1.0, 0.5), 64)
    assert line.resample(gn.random.key(0), (5,)).shape == (1, 5)
    mapped = gn.jit(lambda k, p: k(p))(ours, points)
    close(mapped, theirs(points), 64)
    for bad, error in (
        (lambda: stats.gaussian_kde(np.ones(1)), "multiple elements"),
        (lambda: stats.gaussian_kde(x, "wide"), "bw_method"),
        (lambda: stats.gaussian_kde(x, weights=np.ones(3)), "length 9"),
        (lambda: ours(np.ones((3, 1), np.float32)), "points have dimension 3"),
    ):
        with pytest.raises(ValueError, match=error):
            bad()


# ------------------------------------------------------------------------------------------ spectra

SIGNAL = f32(2, 50)


@pytest.mark.parametrize(
    "options",
    [
        {"nperseg": 8},
        {"nperseg": 7, "noverlap": 5, "nfft": 16, "window": "hamming", "boundary": "even"},
        {"nperseg": 8, "boundary": "odd", "detrend": "constant", "padded": False},
        {"nperseg": 8, "boundary": None, "return_onesided": False, "window": ("kaiser", 4.0)},
        {"nperseg": 8, "axis": 0, "boundary": "constant", "window": "flattop"},
    ],
)
def test_stft_and_back(options: dict[str, Any]) -> None:
    x = SIGNAL.T.copy() if options.get("axis") == 0 else SIGNAL
    ours, theirs = signal.stft(x, 2.0, **options), scipy.signal.stft(x, 2.0, **options)
    close(ours, theirs, 64)
    if options == {"nperseg": 8}:
        back = signal.istft(ours[2], 2.0)
        close(back, scipy.signal.istft(theirs[2], 2.0), 64)
        close(back[1][:, :50], SIGNAL, 64)


def test_inverse_of_pieces_that_do_not_overlap() -> None:
    z = scipy.signal.stft(SIGNAL, nperseg=10, noverlap=0, window="boxcar")[2]
    back = signal.istft(z, nperseg=10, noverlap=0, window="boxcar")[1]
    assert back.shape == SIGNAL.shape
    close(back, SIGNAL, 64)


@pytest.mark.parametrize("window", ["triang", "bartlett", "cosine", ("gaussian", 2.0), "tukey"])
def test_windows(window: Any) -> None:
    for size in (8, 9):
        ours = signal.welch(SIGNAL[0], window=window, nperseg=size)
        close(ours, scipy.signal.welch(SIGNAL[0], window=window, nperseg=size), 64)


def test_spectral_densities() -> None:
    for options in (
        {"nperseg": 16},
        {"nperseg": 15, "scaling": "spectrum", "detrend": "linear", "average": "median"},
        {"nperseg": 16, "return_onesided": False, "window": "blackmanharris"},
    ):
        close(signal.welch(SIGNAL, **options), scipy.signal.welch(SIGNAL, **options), 128)
        pair = SIGNAL[0], SIGNAL[1]
        close(signal.csd(*pair, **options), scipy.signal.csd(*pair, **options), 128)
    with pytest.warns(UserWarning, match="nperseg=256 is greater"):
        signal.welch(SIGNAL)
    with pytest.raises(ValueError, match="unknown window"):
        signal.welch(SIGNAL, window="square", nperseg=4)
    with pytest.raises(ValueError, match="noverlap must be less"):
        signal.stft(SIGNAL, nperseg=4, noverlap=4)
    with pytest.raises(ValueError, match='must be "median" or "mean"'):
        signal.csd(*SIGNAL, nperseg=4, average="x")


# ------------------------------------------------------------------------------------ interpolation


def test_interpolation_on_grids() -> None:
    grid = (np.array([0.0, 1.0, 3.0], np.float32), np.array([-1.0, 0.5], np.float32))
    values = f32(3, 2, 2)
    points = np.array([[0.5, 0.0], [3.0, -1.0], [4.0, 0.0]], np.float32)
    for method in ("linear", "nearest"):
        for fill in (np.nan, None):
            options = {"method": method, "bounds_error": False, "fill_value": fill}
            ours = interpolate.RegularGridInterpolator(grid, values, **options)
            theirs = scipy.interpolate.RegularGridInterpolator(grid, values, **options)
            close(ours(points), theirs(points))
            lost = np.array([[np.nan, 0.0], [1.0, np.nan], [1.0, 0.0]], np.float32)
            close(ours(lost), theirs(lost))
    close(gn.jit(lambda f, p: f(p))(ours, points), theirs(points))
    slopes = gn.grad(lambda p: ours(p, "linear").sum())(gnp.asarray(points))
    # Linear in a cell: the slopes are the differences between its sides.
    across = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, -1.0], [0.5, 0.5]], np.float32)
    left, right, below, above = theirs(across, "linear").sum(-1)
    assert_near(slopes[0], np.float32([right - left, (above - below) / 1.5]), 16)
    with pytest.raises(ValueError, match="is not defined"):
        interpolate.RegularGridInterpolator(grid, values, "cubic")
    with pytest.raises(ValueError, match="3 point arrays"):
        interpolate.RegularGridInterpolator((*grid, grid[0]), values[..., 0])


@pytest.mark.sampled(0.8)
@pytest.mark.parametrize("mode", ["constant", "nearest", "mirror", "wrap", "reflect"])
def test_map_coordinates(mode: str) -> None:
    places = [jnp.array([0.5, 1.5, -1.0, 3.0, -3.2]), jnp.array([1.5, 2.5, 0.0, 5.0, -7.7])]
    for x, order in ((jnp.arange(12.0).reshape(3, 4), 1), (jnp.arange(12).reshape(3, 4), 0)):
        ours, theirs = ndimage.map_coordinates, jax.scipy.ndimage.map_coordinates
        check(ours, theirs, x, places, order, mode, 7.0, ulps=8.0)
    for lists in ([[0.5, 2]], [[0.5, 2], [1, 2]]):  # the second has too many
        check(ours, theirs, [1.0, 4.0, 7.0], lists, 1, mode, ulps=8.0)


def test_quantization_and_integration() -> None:
    x, codes = f32(5, 3), f32(4, 3)
    close(cluster.vq.vq(x, codes), scipy.cluster.vq.vq(x, codes))
    close(integrate.trapezoid(x, axis=0), scipy.integrate.trapezoid(x, axis=0))
    with pytest.raises(ValueError, match="same rank"):
        cluster.vq.vq(x, codes[0])


# ---------------------------------------------------------------------------------------- functions


def _points(*bounds: tuple[float, float]) -> list[np.ndarray]:
    return [RNG.uniform(low, high, 40) for low, high in bounds]


COMPLEX_POINTS = [a + 1j * b for a, b in [_points((-6, 6), (-4, 6))]]
# Arguments, and the tolerance in units. Powers, exponentials and gamma functions lose as many units
# as the logarithm of their result is large; hyp2f1 cancels for close parameters.
FUNCTIONS: dict[str, tuple[list[np.ndarray], float]] = {
    "loggamma": (COMPLEX_POINTS, 256),
    "gamma": (COMPLEX_POINTS, 256),
    "wofz": (COMPLEX_POINTS, 256),
    "owens_t": (_points((-4, 4), (-5, 5)), 256),
    "hyp1f1": (_points((-5, 5), (-5, 5), (-150, 60)), 1024),
    "hyp2f1": (_points((-5, 5), (-5, 5), (-5, 5), (-9, 1)), 4096),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_special_functions(name: str) -> None:
    arguments, units = FUNCTIONS[name]
    with gn.enable_x64():
        ours = getattr(special, name)(*arguments)
        assert_each_near(ours, getattr(scipy.special, name)(*arguments), units)


DERIVATIVES = {
    "loggamma": ([1.5, 3.0],),
    "owens_t": ([0.5, 1.2, -2.0], [0.3, 3.0, -1.5]),
    "hyp1f1": (1.3, 2.7, [-3.0, 4.0, -120.0]),
    "hyp2f1": (1.3, 0.7, 2.2, [0.3, -4.0, 0.95]),
}


@pytest.mark.parametrize("name", list(DERIVATIVES))
def test_derivatives_of_special_functions(name: str) -> None:
    arguments = [a.copy() for a in np.broadcast_arrays(*map(np.asarray, DERIVATIVES[name]))]
    step = 1e-5
    with gn.enable_x64():
        slopes = gn.grad(lambda *a: getattr(special, name)(*a).sum(), range(len(arguments)))
        for i, slope in enumerate(slopes(*map(gnp.array, arguments))):
            up, down = ([*arguments] for _ in range(2))
            up[i], down[i] = arguments[i] + step, arguments[i] - step
            function = getattr(scipy.special, name)
            expected = (function(*up) - function(*down)) / (2 * step)
            # The power of 1 - x at 1/20: a sixth of its third derivative is 96 times the first.
            assert_near(slope, expected, 128 * units_of_differences(step))


def test_special_functions_at_their_edges() -> None:
    h = np.array([-1.0, 0.0, 2.0, 1.0, 0.5], np.float32)
    whole = [RNG.integers(-4, 5, 60).astype(np.float32) for _ in range(2)]
    c, x = np.arange(1, 61, dtype=np.float32) % 7 + 1, RNG.uniform(0.9, 1, 60).astype(np.float32)
    # Integer parameters: the logarithmic case, and finite sums.
    close(special.hyp2f1(*whole, c, x), scipy.special.hyp2f1(*whole, c, x), 8192)
    assert special.hyp2f1(1.0, 2.0, -3.0, 0.5) == np.inf
    assert special.hyp2f1(-1.0, 2.0, -3.0, 0.5) == scipy.special.hyp2f1(-1, 2, -3, 0.5)
    assert_near(special.hyp2f1(0.5, 0.5, 2.0, 1.0), 4 / np.pi, 16)  # four gamma functions
    assert special.hyp1f1(1.0, -2.0, 0.5) == np.inf and special.hyp1f1(0.0, 0.0, 2.0) == 1.0
    close(special.owens_t(h, np.float32(np.inf)), scipy.special.owens_t(h, np.inf))
    assert np.isnan(complex(special.loggamma(-1 + 0j)).real)
    close(gn.jit(special.wofz)(1j * h), scipy.special.wofz(1j * h), 32)
    with pytest.raises(ValueError, match="does not support complex"):
        special.hyp1f1(1.0, 2.0, 1j)


def test_coefficients_underflow_silently() -> None:
    _error_functions._weideman.cache_clear()
    with np.errstate(all="raise"):
        close(special.wofz(1j), scipy.special.wofz(1j), 32)


def test_spherical_harmonics() -> None:
    n = np.array([0, 1, 2, 5, 9, 9, 3])
    m = np.array([0, -1, 2, -5, 0, 4, 1])
    theta, phi = (a.astype(np.float32) for a in (RNG.uniform(0, 3, 7), RNG.uniform(0, 6, 7)))
    expected = scipy.special.sph_harm_y(n, m, theta, phi)
    close(special.sph_harm_y(n, m, theta, phi), expected, 64)
    traced = gn.jit(lambda n, t: special.sph_harm_y(n, m, t, phi, n_max=9))
    close(traced(n, theta), expected, 64)
    with pytest.raises(TypeError, match="needs n_max"):
        gn.jit(lambda n: special.sph_harm_y(n, m, theta, phi))(n)
