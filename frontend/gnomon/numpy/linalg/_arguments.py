"""Checks and conversions of the arguments of linear algebra."""

from __future__ import annotations

from typing import Any

from gnomon import lax
from gnomon._arrays.array import Array
from gnomon.dialects.types import is_complex
from gnomon.numpy import _linear_algebra
from gnomon.numpy._arguments import promoted
from gnomon.numpy._manipulation import (
    matrix_transpose,
)


def inexact(function: str, x: Any) -> Array:
    (array,) = promoted(f"linalg.{function}", x, inexact=True)
    return array


def square(function: str, x: Any) -> Array:
    a = inexact(function, x)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"linalg.{function} takes matrices [..., n, n], got shape {a.shape}")
    return a


def adjoint(x: Array) -> Array:
    swapped = matrix_transpose(x)
    return lax.conj(swapped) if is_complex(x.dtype) else swapped


def product(x: Array, y: Array) -> Array:
    return _linear_algebra.matmul(x, y, precision="highest")


def supported(function: str, x: Array) -> Array:
    """Return ``x``, or raise ``NotImplementedError`` if LAPACK does not support its dtype."""
    if x.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise NotImplementedError(
            f"linalg.{function}: unsupported dtype {x.dtype.name}; convert to float32 first"
        )
    return x


def squares(x: Array) -> Array:
    """``|x|^2``."""
    return lax.real(lax.mul(x, lax.conj(x))) if is_complex(x.dtype) else lax.mul(x, x)
