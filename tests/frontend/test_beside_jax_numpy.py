"""Programs of `numpy`, `nn`, `lax` and `scipy` that must do what they do in JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.beside_jax import Program, check_program

NAN, INF = float("nan"), float("inf")
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _border(row: Any, width: tuple[int, int], axis: int, _: Any) -> Any:
    return row.at[: width[0]].set(axis + 5)


def _in_all(name: str, *arguments: Any, **options: Any) -> Program:
    """All functions of a distribution at the same arguments."""
    functions = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf")
    return lambda ns: [
        getattr(getattr(ns.stats, name), f)(*arguments, **options) for f in functions
    ]


def _second(function: str, *arguments: float) -> Program:
    def program(ns: Any) -> Any:
        both = ns.api.jacfwd(ns.api.jacfwd(getattr(ns.lax, function), (0, 1)), (0, 1))
        return both(*arguments)

    return program


ENDS = np.array([0.0, 0.5, 1.0], np.float32)

CASES: dict[str, Program] = {
    "pad by a function, rank 3": lambda ns: ns.np.pad(CUBE, 1, _border),
    "pad by a function, rank 4": lambda ns: ns.np.pad(CUBE[..., None], (1, 2), _border),
    "apply_along_axis": lambda ns: [
        ns.np.apply_along_axis(lambda v: v[:2].sum() * v[:1], axis, CUBE) for axis in range(3)
    ],
    "softplus at nan": lambda ns: ns.api.grad(ns.nn.softplus)(NAN),
    "logaddexp at nan": lambda ns: [
        ns.api.grad(f, (0, 1))(*at)
        for f in (ns.np.logaddexp, ns.np.logaddexp2)
        for at in ((NAN, 0.0), (0.0, NAN), (NAN, NAN), (INF, -INF), (1.0, 1.0))
    ],
    "logaddexp values": lambda ns: ns.np.logaddexp(
        np.float32([INF, -INF, INF, NAN, NAN, 1]), np.float32([INF, -INF, -INF, INF, 0, 1])
    ),
    "pow twice at exponent 0": _second("pow", 4.0, 0.0),
    "pow twice at base and exponent": _second("pow", 2.5, 1.5),
    "truncnorm without an interval": _in_all("truncnorm", ENDS, 2.0, 1.0),
    "truncnorm of one point": _in_all("truncnorm", ENDS, 1.0, 1.0),
    "truncnorm": _in_all("truncnorm", ENDS, -1.0, 1.0),
    "beta of negative scale": _in_all("beta", ENDS, 2.0, 2.0, scale=-1.0),
    "beta without a": lambda ns: ns.stats.beta.logpdf(ENDS, 0.0, 1.0),
    "beta of negative a, b": lambda ns: ns.stats.beta.pdf(ENDS, -1.1, -1.1),
    "r_ and c_ by letters": lambda ns: [
        joined[letter, [1, 2, 3], [4, 5, 6]] for joined in (ns.np.r_, ns.np.c_) for letter in "rc"
    ],
    "r_ by letters, matrices": lambda ns: ns.np.r_["c", np.ones((2, 2)), np.zeros((1, 2))],
}


@pytest.mark.parametrize("case", CASES)
def test_equals_jax(case: str) -> None:
    check_program(CASES[case])
