"""`scipy.optimize.minimize` on functions with known minima, and compared with SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.scipy.optimize import minimize

LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
METHODS = ("BFGS", LIMITED)


def rosenbrock(x: Any) -> Any:
    return gnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x: Any) -> Any:
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def matyas(x: Any) -> Any:
    return 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


def smooth_steps(x: Any) -> Any:
    """A minimum beyond a plateau, where the first steps are far too short."""
    return gnp.sum(gnp.log1p((x - 3) ** 2))


FUNCTIONS = {
    "rosenbrock": (rosenbrock, [0.0, 0.0], [1.0, 1.0]),
    "rosenbrock_8": (rosenbrock, [0.0] * 8, [1.0] * 8),
    "himmelblau": (himmelblau, [1.0, 1.0], [3.0, 2.0]),
    "matyas": (matyas, [5.0, -7.0], [0.0, 0.0]),
    "smooth_steps": (smooth_steps, [4.5, -1.0, 2.0], [3.0, 3.0, 3.0]),
}


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_minimum_is_found(name: str, method: str, x64: bool) -> None:
    fun, start, expected = FUNCTIONS[name]
    with gn.enable_x64(x64):
        options = {"ftol": 0.0} if method == LIMITED else {}
        solve = gn.jit(lambda x: minimize(fun, x, method=method, tol=1e-4, options=options))
        found = solve(gnp.array(start))
        assert bool(found.success)
        assert int(found.status) == 0
        # At these minima, which are zero, no eigenvalue of the Hessian is below 0.03. This bounds
        # the errors of point and value by the norm of the gradient.
        norm = float(gnp.linalg.norm(found.jac))
        assert float(gnp.linalg.norm(found.x - gnp.array(expected))) <= norm / 0.03 + 1e-5
        assert abs(float(found.fun)) <= norm**2 / (2 * 0.03) + 1e-9
        assert float(gnp.max(gnp.abs(found.jac))) < 1e-4
        assert int(found.nfev) == int(found.njev) >= int(found.nit) > 0


def test_a_quadratic_function_and_its_estimated_hessian() -> None:
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    matrix, b = (q * np.linspace(0.5, 2, 6)) @ q.T, rng.standard_normal(6)
    with gn.enable_x64(True):
        found = minimize(lambda x: x @ (matrix @ x) / 2 - b @ x, np.zeros(6), method="BFGS")
        peer = scipy.optimize.minimize(
            lambda x: x @ (matrix @ x) / 2 - b @ x,
            np.zeros(6),
            jac=lambda x: matrix @ x - b,
            method="BFGS",
            options={"gtol": 1e-5, "norm": np.inf},
        )
        assert bool(found.success)
        assert int(found.nit) <= peer.nit + 2
        np.testing.assert_allclose(found.x, np.linalg.solve(matrix, b), atol=1e-5 / 0.5)
        # The estimated inverse Hessian is right along the steps that were taken.
        np.testing.assert_allclose(found.hess_inv @ matrix, np.eye(6), atol=0.1)


@pytest.mark.parametrize("method", METHODS)
def test_it_maps_and_takes_arguments(method: str) -> None:
    def shifted(x: Any, shift: Any, scale: float) -> Any:
        return gnp.sum(scale * (x - shift) ** 4 + (x - shift) ** 2)

    shifts = gnp.array([[0.0, 1.0], [2.0, -3.0], [10.0, 0.5]])
    solve = gn.vmap(lambda s: minimize(shifted, gnp.zeros(2), (s, 0.5), method=method))
    found = gn.jit(solve)(shifts)
    assert found.success.tolist() == [True] * 3
    np.testing.assert_allclose(found.x, shifts, atol=1e-5)


def test_only_bfgs_returns_an_inverse_hessian() -> None:
    assert minimize(matyas, gnp.ones(2), method=LIMITED).hess_inv is None
    assert minimize(matyas, gnp.ones(2), method="BFGS").hess_inv.shape == (2, 2)


def test_it_says_why_it_ended() -> None:
    few = minimize(rosenbrock, gnp.zeros(2), method="BFGS", options={"maxiter": 2})
    assert (bool(few.success), int(few.status), int(few.nit)) == (False, 1, 2)
    few = minimize(rosenbrock, gnp.zeros(2), method=LIMITED, options={"maxfun": 5})
    assert (bool(few.success), int(few.status)) == (False, 1)
    endless = minimize(lambda x: -gnp.sum(x) - gnp.sum(x**2), gnp.ones(2), method="BFGS")
    assert not bool(endless.success)
    assert bool(gnp.isfinite(endless.fun) & gnp.all(gnp.isfinite(endless.x)))
    assert float(endless.fun) < -1e12
    # At a kink the gradient is not zero, but no step leads to a lower value.
    kink = minimize(lambda x: gnp.sum(gnp.abs(x - 0.25)), gnp.array([0.25, 4.0]), method="BFGS")
    assert not bool(kink.success)
    assert int(kink.status) == 3
    none = minimize(rosenbrock, gnp.zeros(2), method="BFGS", options={"maxiter": 0})
    assert (int(none.status), int(none.nit), none.x.tolist()) == (1, 0, [0, 0])
    # If all values are nan, the start is returned.
    lost = minimize(lambda x: gnp.sum(gnp.log(x - 5)), gnp.array([1.0, 2.0]), method="BFGS")
    assert (int(lost.status), lost.x.tolist()) == (3, [1, 2])
    there = minimize(matyas, gnp.zeros(2), method="BFGS")
    assert (bool(there.success), int(there.nit), int(there.nfev)) == (True, 0, 1)


def test_steps_to_values_that_are_not_finite_are_undone() -> None:
    found = minimize(lambda x: gnp.sum(x - gnp.log(x)), gnp.array([0.05, 8.0]), method="BFGS")
    assert bool(found.success)
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-4)


def test_integers_start_as_floats_and_tol_is_the_gradients() -> None:
    found = minimize(matyas, [1, 2], method="bfgs", tol=1e-2)
    assert found.x.dtype == np.float32
    assert int(found.nit) <= int(minimize(matyas, [1, 2], method="bfgs", tol=1e-6).nit)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "not recognized", {"method": "Nelder-Mead"}),
        (ValueError, "no option 'xtol'", {"method": "BFGS", "options": {"xtol": 1}}),
        (TypeError, "args must be a tuple", {"method": "BFGS", "args": [1]}),
    ],
)
def test_errors_of_bad_calls(error: type[Exception], message: str, call: dict[str, Any]) -> None:
    with pytest.raises(error, match=message):
        minimize(matyas, gnp.ones(2), **call)


def test_the_start_is_a_real_vector() -> None:
    with pytest.raises(ValueError, match=r"must be a vector, got shape \(2, 2\)"):
        minimize(gnp.sum, gnp.ones((2, 2)), method="BFGS")
    with pytest.raises(TypeError, match="must be real"):
        minimize(lambda x: gnp.sum(abs(x)), gnp.ones(2) * 1j, method="BFGS")


def test_nothing_to_choose() -> None:
    found = minimize(lambda x: gnp.sum(x**2), gnp.zeros(0), method="BFGS")
    assert bool(found.success)
    assert found.x.shape == (0,)


@pytest.mark.parametrize("steepness", [1e4, 1e5])
def test_steep_functions(steepness: float) -> None:
    found = minimize(lambda x: gnp.mean((steepness * x) ** 2), gnp.ones(2), method="BFGS")
    assert found.success
    assert abs(found.x).max() < 1e-6
