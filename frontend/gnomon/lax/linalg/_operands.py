"""Checks of matrix operands, and small functions of matrices that several modules use."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.linear_algebra.matrices import MATRIX_DTYPES
from gnomon.dialects.types import is_complex, is_inexact
from gnomon.lax._creation import converted
from gnomon.lax._elementwise import add, conj, mul
from gnomon.lax._operands import accept, argument, constant_like, same_dtype
from gnomon.lax._structural import transpose

_DTYPES = frozenset(MATRIX_DTYPES)


def as_matrices(function: str, *xs: Any) -> list[Array]:
    """Convert arguments to arrays of one dtype that LAPACK supports.

    Raises:
      NotImplementedError: a dtype is floating point, of fewer than 32 bits.
      TypeError: a dtype is unsupported for another reason, or the dtypes differ.
    """
    arrays = [argument(f"linalg.{function}", x, i) for i, x in enumerate(xs)]
    for i, x in enumerate(arrays):
        if is_inexact(x.dtype) and x.dtype not in _DTYPES:
            raise NotImplementedError(
                f"lax.linalg.{function}: unsupported dtype {x.dtype.name}; convert with "
                "x.astype('float32')"
            )
        accept(f"linalg.{function}", x, _DTYPES, i)
    same_dtype(f"linalg.{function}", arrays)
    return arrays


def as_matrix(function: str, x: Any, square: bool = False) -> Array:
    (array,) = as_matrices(function, x)
    return check_matrix(function, array, square)


def check_matrix(function: str, x: Array, square: bool) -> Array:
    if x.ndim < 2:
        raise TypeError(
            f"lax.linalg.{function} takes matrices, arrays of two dimensions or more; got shape "
            f"{x.shape}"
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise TypeError(
            f"lax.linalg.{function} takes square matrices, [..., n, n]; got shape {x.shape}"
        )
    return x


def transposed(x: Array) -> Array:
    rank = x.ndim
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(x: Array) -> Array:
    swapped = transposed(x)
    return conj(swapped) if is_complex(x.dtype) else swapped


def symmetrized(function: str, x: Any) -> Array:
    """``(x + x^H) / 2``; integers become floating."""
    array = argument(f"linalg.{function}", x, 0)
    if not is_inexact(array.dtype):
        array = converted(array, np.dtype(np.float32), array.aval.weak_type)
    array = as_matrix(function, array, square=True)
    return mul(add(array, adjoint(array)), constant_like(array, 0.5))


def triangle(x: Array, lower: bool, offset: int = 0) -> Array:
    """The part of ``x`` on one side of a diagonal, and zeros on the other side."""
    *_, rows, columns = x.shape
    mask = np.tri(rows, columns, offset if lower else offset - 1, dtype=bool)
    kept = np.broadcast_to(mask if lower else ~mask, x.shape)
    return bind(ops.select, kept, x, constant_like(x, 0))


def matmul(x: Array, y: Array) -> Array:
    batch = tuple(range(x.ndim - 2))
    return bind(
        ops.dot_general,
        x,
        y,
        lhs_contracting=(x.ndim - 1,),
        rhs_contracting=(y.ndim - 2,),
        lhs_batch=batch,
        rhs_batch=batch,
        dtype=x.dtype,
        precision="highest",
    )
