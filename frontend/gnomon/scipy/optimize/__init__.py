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
      success: whether the gradient is small at this point, or the function decreases no further.
      status: 0 for success; 1 if the limit of iterations or evaluations was reached; 3 if no step
        along the last direction satisfied the conditions of the line search; 5 if the function
        decreased for every step that was tried.
      fun, jac: the value and the gradient at this point.
      hess_inv: the approximation of the inverse Hessian; None if it is not a matrix.
      nfev, njev: the numbers of evaluations of the function and of its gradient.
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
# The options of each method with their defaults; None for defaults that depend on the problem.
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
    """Minimize a function of a vector, using its gradient.

    Calls can be compiled and mapped, but not differentiated in reverse mode, because the number of
    iterations is not known in advance.

    Args:
      fun: a differentiable function ``fun(x, *args)`` that returns a number.
      x0: the start, ``(n,)``.
      args: further arguments of ``fun``.
      method: ``"BFGS"``; or ``"l-bfgs-experimental-do-not-rely-on-this"``, which is JAX's name for
        BFGS with limited memory.
      tol: stop when the norm of the gradient is below it; ``options["gtol"]`` takes precedence.
      options: a dictionary of options. Both methods have ``maxiter`` (by default 200 for each
        element of ``x0``), ``norm`` (of the gradient) and ``gtol``. BFGS has
        ``line_search_maxiter``. The other method has ``maxcor`` (the number of steps to remember),
        ``ftol`` (stop when a step decreases the value by less than this fraction), ``maxfun`` and
        ``maxgrad`` (the maximum number of evaluations), and ``maxls`` (the same for one step).
    Returns:
      An `OptimizeResults`.
    Raises:
      ValueError: ``x0`` is not a vector, ``method`` is unknown, or it does not have an option.
      TypeError: ``x0`` is complex, ``args`` is not a tuple, or ``fun`` does not return a number.

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
        raise TypeError(
            f"minimize: x0 must be real, got dtype {x.dtype.name}; split it into real and "
            "imaginary parts"
        )
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
