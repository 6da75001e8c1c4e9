"""Rows of the op table: incomplete gamma and beta functions, held to SciPy and JAX in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from tests.ops.row import Operand, Row

ROWS: list[Row] = []

INF, NAN = np.inf, np.nan


def _in_f64(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def reference(*arrays: np.ndarray) -> np.ndarray:
        result = np.asarray(function(*(a.astype(np.float64) for a in arrays)))
        return result.astype(arrays[0].dtype)

    return reference


def _by_jax(name: str) -> Callable[..., np.ndarray]:
    """A function of JAX, which is imported when the first value is computed.

    It is called with 16 elements whatever the row has: its compilation takes seconds.
    """

    def reference(a: np.ndarray, x: np.ndarray) -> np.ndarray:
        jax = pytest.importorskip("jax")
        rest = (0, 16 - a.size)
        operands = (np.pad(v.reshape(-1), rest, constant_values=1.0) for v in (a, x))
        with jax.enable_x64(True):
            result = np.asarray(getattr(jax.lax, name)(*operands))
        return result[: a.size].reshape(a.shape)

    return reference


def _edges(values: dict[tuple[float, float], float], function: Any) -> Callable[..., Any]:
    """A function with some of its values replaced, those at which the reference differs."""

    def reference(a: np.ndarray, x: np.ndarray) -> np.ndarray:
        result = np.array(function(a, x))
        for (p, q), value in values.items():
            result[(a == p) & (x == q)] = value
        return result

    return reference


# Powers, large arguments, the uniform expansion; then ends of the domain, and outside.
_A = (0.3, 2.5, 20.0, 300.0, 20000.0, 30000.0, 0.0, 1.0, INF, 1.0, -1.0, 1.0, NAN)
_X = (0.1, 4.0, 25.0, 290.0, 20100.0, 29900.0, 1.0, 0.0, 1.0, INF, 1.0, -1.0, 1.0)
_SHORT_A, _SHORT_X = (0.25, 2.5, 20.0, 128.0), (0.125, 4.0, 25.0, 120.0)

_ENDS = {(INF, 1.0): 0.0, (1.0, INF): 0.0}
_GAMMA: tuple[tuple[str, Any, float, tuple[int, ...]], ...] = (
    ("igamma", special.gammainc, 200.0, (1,)),
    ("igammac", special.gammaincc, 200.0, (1,)),
    ("igamma_grad_a", _edges(_ENDS, _by_jax("igamma_grad_a")), 1e4, (1,)),
    (
        "random_gamma_grad",
        _edges({(0.0, 1.0): INF, (INF, 1.0): 0.0, (1.0, INF): INF}, _by_jax("random_gamma_grad")),
        1e4,
        (1,),
    ),
)
for _op, _function, _ulps, _differentiable in _GAMMA:
    _reference = _in_f64(_function)
    ROWS += [
        Row(
            _op,
            (Operand((15,), 0.5, 8.0, values=_A), Operand((15,), 0.5, 12.0, values=_X)),
            _reference,
            dtypes="f32",
            label="edges",
        ),
        Row(
            _op,
            (Operand((2, 4), 0.5, 8.0), Operand((2, 4), 0.5, 12.0)),
            _reference,
            dtypes="f64",
            differentiable=_differentiable,
            ulps=_ulps,
        ),
        Row(
            _op,
            (Operand((), 0.5, 8.0), Operand((), 0.5, 12.0)),
            _reference,
            dtypes="bf16 f16 f8_e4m3fn",
            label="rank 0",
        ),
        Row(
            _op,
            (Operand((0,)), Operand((0,))),
            _reference,
            dtypes="f32 f64",
            differentiable=_differentiable,
            label="no elements",
        ),
    ]

for _log_space in (False, True):
    ROWS.append(
        Row(
            "gamma_sample",
            (Operand((2, 3), 0.5, 8.0), Operand((2, 3), 0.5, 2.0)),
            lambda a, sample: sample,
            params={"log_space": _log_space},
            dtypes="f32 f64 bf16 f16 f8_e4m3fn",
            differentiable=(1,),
            ulps=0.0,
            label="log space" if _log_space else "",
        )
    )

_BETA = _in_f64(special.betainc)
_P = (0.3, 2.5, 200.0, 0.01, 20000.0, 0.0, 1.0, INF, 1.0, -1.0, 1.0, 2.0, NAN)
_Q = (0.7, 4.0, 300.0, 50.0, 30000.0, 1.0, 0.0, 1.0, INF, 1.0, 2.0, 1.0, 1.0)
_Z = (0.1, 0.7, 0.41, 0.9, 0.401, 0.5, 0.5, 0.5, 0.5, 0.5, 0.0, 1.0, 0.5)
ROWS += [
    Row(
        "regularized_incomplete_beta",
        tuple(
            Operand((15,), low, high, values=values)
            for low, high, values in ((0.5, 8.0, _P), (0.5, 12.0, _Q), (0.0, 1.0, _Z))
        ),
        _BETA,
        dtypes="f32",
        label="edges",
    ),
    Row(
        "regularized_incomplete_beta",
        (Operand((2, 4), 0.5, 8.0), Operand((2, 4), 0.5, 12.0), Operand((2, 4), 0.1, 0.9)),
        _BETA,
        dtypes="f64",
        differentiable=(2,),
        ulps=1e3,
    ),
    Row(
        "regularized_incomplete_beta",
        (Operand((), 0.5, 8.0), Operand((), 0.5, 12.0), Operand((), 0.1, 0.9)),
        _BETA,
        dtypes="bf16 f16 f8_e4m3fn",
        label="rank 0",
    ),
    Row(
        "regularized_incomplete_beta",
        (Operand((0,)), Operand((0,)), Operand((0,))),
        _BETA,
        dtypes="f32 f64",
        differentiable=(2,),
        label="no elements",
    ),
]
