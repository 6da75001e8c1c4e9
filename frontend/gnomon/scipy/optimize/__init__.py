"""Minimization of functions of vectors: `minimize`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import gnomon.numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._transformations.gradient import value_and_grad
from gnomon.dialects.types import is_floating
from gnomon.numpy._arguments import promoted
from gnomon.scipy.optimize._quasi_newton import (
    CONVERGED,
    Approximation,
    Limits,
    full_matrix,
    last_steps,
    run,
)

__all__ = ["OptimizeResults", "minimize"]


class OptimizeResults(NamedTuple):
    """The result of `minimize`.

    Attributes:
      x: the last point.
      success: whether the gradient is small there, or the function does not fall any more.
      status: 0 for success; 1 after as many iterations or evaluations as are allowed; 3 where no
        step along the last direction was low and flat enough; 5 where the function fell as far as
        steps were tried.
      fun, jac: value and gradient there.
      hess_inv: what is known of the inverse Hessian; None if that is no matrix.
      nfev, njev: how often the function and its gradient were computed.
      nit: the number of steps.
    """

    x: Array
    success: Array
    status: Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Array
    njev: Array
    nit: Array


_UNLIMITED = np.iinfo(np.int32).max
# By method, the options and their defaults; None means a default that depends on the problem.
_OPTIONS: dict[str, dict[str, Any]] = {
    "bfgs": {"maxiter": None, "norm": np.inf, "gtol": 1e-5, "line_search_maxiter": 10},
    "l-bfgs-experimental-do-not-rely-on-this": {
        "maxiter": None,
        "norm": np.inf,
        "maxcor": 10,
        "ftol": 2.220446049250313e-09,
        "gtol": 1e-5,
        "maxfun": None,
        "maxgrad": None,
        "maxls": 20,
    },
}


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike | Sequence[float],
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Find where a function is lowest, by its gradients.

    Args:
      fun: ``fun(x, *args)``, a number that can be differentiated.
      x0: where to start, ``(n,)``.
      args: further arguments of ``fun``.
      method: ``"BFGS"``; or ``"l-bfgs-experimental-do-not-rely-on-this"``, JAX's name of BFGS that
        knows the last steps alone.
      tol: stop where the norm of the gradient is below; ``options["gtol"]`` goes before.
      options: by name. Both methods have ``maxiter`` (200 for each number of ``x0`` by default),
        ``norm`` (of the gradient) and ``gtol``; BFGS has ``line_search_maxiter``; the other one
        ``maxcor`` (how many steps are known), ``ftol`` (stop where a step lowers the value by no
        more than this part of it), ``maxfun``, ``maxgrad`` (at most so many evaluations) and
        ``maxls`` (for one step).
    Returns:
      The result; it can be compiled and mapped, but not differentiated in reverse (its loop ends
      when it ends).
    Raises:
      ValueError: ``x0`` is no vector, ``method`` is another one, or it has not an option.
      TypeError: ``x0`` is complex, ``args`` is no tuple, or ``fun`` gives no number.

    Example:
      >>> import gnomon.numpy as gnp
      >>> def rosenbrock(x):
      ...     return gnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
      >>> found = minimize(rosenbrock, gnp.zeros(2), method="BFGS", tol=1e-3)
      >>> print(gnp.round(found.x, 2), found.success)
      [1. 1.] True
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize: args must be a tuple, got {type(args).__name__}")
    (x,) = promoted("minimize", gnp.asarray(x0), inexact=True)
    if x.ndim != 1:
        raise ValueError(f"minimize: x0 must be a vector, got shape {x.shape}; see ravel_pytree")
    if not is_floating(x.dtype):
        raise TypeError(f"minimize: x0 must be real, got dtype {x.dtype.name}; split it in parts")
    given, approximation = _settings(method, options or {}, tol)
    maxiter = 200 * x.size if given["maxiter"] is None else given["maxiter"]
    allowed = [given.get(name) for name in ("maxfun", "maxgrad")]
    limits = Limits(
        gradient=given["gtol"],
        relative_decrease=given.get("ftol", -1),
        norm=given["norm"],
        iterations=maxiter,
        evaluations=min((n for n in allowed if n is not None), default=_UNLIMITED),
        search=given.get("line_search_maxiter", given.get("maxls")),
    )
    state = run(value_and_grad(lambda x: fun(x, *args)), x, approximation, limits)
    return OptimizeResults(
        x=state.x,
        success=gnp.equal(state.status, CONVERGED),
        status=state.status,
        fun=state.value,
        jac=state.gradient,
        hess_inv=approximation.matrix(state.known),
        nfev=state.evaluations,
        njev=state.evaluations,
        nit=state.iterations,
    )


def _settings(
    method: str, options: Mapping[str, Any], tol: float | None
) -> tuple[dict[str, Any], Approximation]:
    name = method.lower()
    known = _OPTIONS.get(name)
    if known is None:
        methods = " and ".join(repr(m) for m in _OPTIONS)
        raise ValueError(f"Method {method!r} not recognized: minimize has {methods}")
    if unknown := [key for key in options if key not in known]:
        raise ValueError(
            f"minimize: the method {method!r} has no option {unknown[0]!r}; its options: "
            f"{', '.join(known)}"
        )
    given = {**known, **({} if tol is None else {"gtol": tol}), **options}
    return given, full_matrix() if name == "bfgs" else last_steps(given["maxcor"])
