"""Evaluation of ``dot_general`` by NumPy: views of the operands, a product of matrices, a view."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gnomon.dialects.dot_algorithm import algorithm_of, is_algorithm, rounded_arrays
from gnomon.dialects.pairwise import multiply_in_pieces, terms_at_once
from gnomon.dialects.types import BOOL, SIGNED, is_complex, is_integer, short_name

__all__ = ["evaluate", "free_dims"]

Dims = tuple[int, ...]
Multiply = Callable[[np.ndarray, np.ndarray], np.ndarray]


def free_dims(rank: int, *taken: Sequence[int]) -> Dims:
    """The dimensions that are neither contracted nor batched, in order."""
    used = set().union(*taken)
    return tuple(d for d in range(rank) if d not in used)


class _Plan(NamedTuple):
    """How NumPy computes one signature: views, a ``matmul``, a view; ``None`` means no change."""

    lhs_permutation: Dims | None
    lhs_shape: Dims | None
    rhs_permutation: Dims | None
    rhs_shape: Dims | None
    out_shape: Dims
    reshape_out: bool
    multiply: Multiply


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


@functools.lru_cache(maxsize=4096)
def _plan(
    lhs: Dims,
    rhs: Dims,
    lhs_contracting: Dims,
    rhs_contracting: Dims,
    lhs_batch: Dims,
    rhs_batch: Dims,
    lhs_dtype: np.dtype,
    dtype: np.dtype,
) -> _Plan:
    # The order of the contracting dims is free; in the order of the larger operand, that operand
    # is not copied.
    by_lhs = _product(lhs) >= _product(rhs)
    pairs = sorted(
        zip(lhs_contracting, rhs_contracting, strict=True), key=lambda p: p[0 if by_lhs else 1]
    )
    lhs_contracting, rhs_contracting = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    lhs_free = free_dims(len(lhs), lhs_batch, lhs_contracting)
    rhs_free = free_dims(len(rhs), rhs_batch, rhs_contracting)
    batch = tuple(lhs[d] for d in lhs_batch)
    m, n = tuple(lhs[d] for d in lhs_free), tuple(rhs[d] for d in rhs_free)
    k = _product([lhs[d] for d in lhs_contracting])

    lhs_permutation = (*lhs_batch, *lhs_free, *lhs_contracting)
    rhs_permutation = (*rhs_batch, *rhs_contracting, *rhs_free)
    lhs_permuted = tuple(lhs[d] for d in lhs_permutation)
    rhs_permuted = tuple(rhs[d] for d in rhs_permutation)
    # Without batch dims, a missing free dim is not added: matrix-vector products then use gemv.
    keep = bool(batch)
    lhs_matrix = (*batch, *((_product(m),) if m or keep else ()), k)
    rhs_matrix = (*batch, k, *((_product(n),) if n or keep else ()))
    out_shape = (*batch, *m, *n)
    product_shape = (*lhs_matrix[:-1], *rhs_matrix[len(batch) + 1 :])
    return _Plan(
        None if lhs_permutation == tuple(range(len(lhs))) else lhs_permutation,
        None if lhs_matrix == lhs_permuted else lhs_matrix,
        None if rhs_permutation == tuple(range(len(rhs))) else rhs_permutation,
        None if rhs_matrix == rhs_permuted else rhs_matrix,
        out_shape,
        product_shape != out_shape,
        _multiplier(lhs_dtype, np.dtype(dtype), _product(m), k, _product(n), len(batch)),
    )


def _multiplier(
    operand: np.dtype, result: np.dtype, m: int, k: int, n: int, batch: int
) -> Multiply:
    """A matrix product that takes the ``operand`` dtype and returns the ``result`` dtype."""
    if operand == BOOL and result == BOOL:
        # A sum of non-negative terms is positive if and only if one term is, so BLAS computes the
        # or of ands.
        return lambda a, b: np.matmul(a.astype(np.float32), b.astype(np.float32)) > 0
    if is_integer(result):
        return _integer_multiplier(operand, result, m, k, n)
    work = _working_dtype(operand, result)
    multiply: Multiply = np.matmul if batch else np.ndarray.dot
    if not batch and k == 1 and 1 in (m, n):
        multiply = _scale
    elif k > 2 * (terms := terms_at_once(m, n)):
        multiply = functools.partial(multiply_in_pieces, multiply, batch, terms)
    if is_complex(work):
        multiply = functools.partial(_multiply_complex, multiply)
    if work == operand == result:
        return multiply
    return lambda a, b: multiply(a.astype(work, copy=False), b.astype(work, copy=False)).astype(
        result, copy=False
    )


def _scale(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product by a matrix of one element, without BLAS's axpy, which ``dot`` would call.

    axpy omits products with zero, even if the other factor is infinite or nan.
    """
    result: np.ndarray = np.multiply.outer(a[..., 0], b[0])
    return result


def _multiply_complex(multiply: Multiply, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A complex product that keeps infinities, which BLAS makes nan as it scales by 1 + 0i."""
    out = multiply(a, b)
    undefined = np.isnan(out)
    if not undefined.any():
        return out
    parts = np.empty_like(out)
    parts.real = np.matmul(a.real, b.real) - np.matmul(a.imag, b.imag)
    parts.imag = np.matmul(a.real, b.imag) + np.matmul(a.imag, b.real)
    return np.where(undefined, parts, out)


def _working_dtype(operand: np.dtype, result: np.dtype) -> np.dtype:
    """The BLAS dtype in which inexact products are computed before one final rounding."""
    if is_complex(result):
        return max(operand, result, key=lambda d: d.itemsize)
    double = np.dtype(np.float64) in (operand, result)
    return np.dtype(np.float64 if double else np.float32)


# Below this many products, NumPy's own integer loops are faster than conversion to floats.
_MIN_PRODUCTS = 1 << 15


def _integer_multiplier(operand: np.dtype, result: np.dtype, m: int, k: int, n: int) -> Multiply:
    """A wrapping integer matrix product, in BLAS wherever its floats are exact."""
    largest = 1 if operand == BOOL else _magnitude(operand)
    bound = largest * largest * k
    if bound <= 1 << 24:
        return lambda a, b: (
            np.matmul(a.astype(np.float32), b.astype(np.float32))
            .astype(np.int32)
            .astype(result, copy=False)
        )
    if bound <= 1 << 53 and operand.itemsize < 4:
        return lambda a, b: (
            np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(result)
        )
    if operand.itemsize == result.itemsize == 4 and m * n * k >= _MIN_PRODUCTS and k < 1 << 20:
        return lambda a, b: _matmul_by_halves(a, b).astype(result)
    # Wrapping commutes with sums and products, so the wider dtype gives the same result.
    wide = max(operand, result, key=lambda d: d.itemsize)
    return lambda a, b: np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False)).astype(
        result, copy=False
    )


def _magnitude(dtype: np.dtype) -> int:
    bits = int(short_name(dtype)[1:])
    return 2 ** (bits - 1) if dtype in SIGNED else 2**bits - 1


def _matmul_by_halves(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product of 32-bit integers modulo 2**32 from exact products of their 16-bit halves."""
    a_low, a_high = (a & 0xFFFF).astype(np.float64), (a >> 16).astype(np.float64)
    b_low, b_high = (b & 0xFFFF).astype(np.float64), (b >> 16).astype(np.float64)
    low = np.matmul(a_low, b_low).astype(np.int64)
    cross = np.matmul(a_high, b_low).astype(np.int64) + np.matmul(a_low, b_high).astype(np.int64)
    return low + (cross << 16)


def evaluate(
    lhs: np.ndarray,
    rhs: np.ndarray,
    *,
    lhs_contracting: Dims,
    rhs_contracting: Dims,
    lhs_batch: Dims,
    rhs_batch: Dims,
    dtype: np.dtype,
    precision: str,
) -> np.ndarray:
    """Evaluate ``dot_general``; the arguments are its operands and parameters."""
    result = dtype
    if is_algorithm(precision):
        algorithm = algorithm_of(precision)
        lhs, rhs = rounded_arrays(lhs, rhs, algorithm)
        dtype = algorithm.dtype
    plan = _plan(
        lhs.shape,
        rhs.shape,
        lhs_contracting,
        rhs_contracting,
        lhs_batch,
        rhs_batch,
        lhs.dtype,
        dtype,
    )
    if plan.lhs_permutation is not None:
        lhs = lhs.transpose(plan.lhs_permutation)
    if plan.lhs_shape is not None:
        lhs = lhs.reshape(plan.lhs_shape)
    if plan.rhs_permutation is not None:
        rhs = rhs.transpose(plan.rhs_permutation)
    if plan.rhs_shape is not None:
        rhs = rhs.reshape(plan.rhs_shape)
    out = plan.multiply(lhs, rhs)
    if result != dtype:
        out = out.astype(result)
    if plan.reshape_out:
        return out.reshape(plan.out_shape)
    return out if plan.out_shape else np.asarray(out)
