"""Rows of the op table: factorizations and linear systems.

Where the results are not unique (eigenvectors have a free phase, for example), the row tests a
function of them that is: ``around`` applies it to the results of the op.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.dialects.emit import constant, ops
from gnomon.dialects.linear_algebra.matrices import (
    adjoint,
    as_rows,
    identity,
    matmul,
    trace,
    upper_triangle,
)
from gnomon.dialects.types import is_complex, type_of
from tests.ops.row import Operand, Row

LAPACK = "f32 f64 c64 c128"


def _h(x: np.ndarray) -> np.ndarray:
    return x.conj().swapaxes(-1, -2)


# ---------------------------------------------------------------- operands that suit the op, in IR


def _positive(x: Any) -> Any:
    """``x x^H + 1``: positive definite, well conditioned."""
    return ops.add(matmul(x, adjoint(x)), identity(type_of(x)))


def _positive_array(x: np.ndarray) -> np.ndarray:
    return (x @ _h(x) + np.eye(x.shape[-1])).astype(x.dtype)


def _dominant(x: Any, factor: float = 8.0) -> Any:
    """``x + 8``: invertible, well conditioned."""
    unit = identity(type_of(x))
    return ops.add(x, ops.mul(unit, constant(np.full(type_of(x).shape, factor, type_of(x).dtype))))


def _dominant_array(x: np.ndarray) -> np.ndarray:
    return (x + 8 * np.eye(*x.shape[-2:])).astype(x.dtype)


def _spread(x: Any) -> Any:
    """A Hermitian matrix with well separated eigenvalues: ``x + x^H + diag(0, 10, 20, ...)``."""
    type_ = type_of(x)
    steps = constant(np.broadcast_to(10.0 * np.arange(type_.shape[-1]), type_.shape[:-1]))
    return ops.add(ops.add(x, adjoint(x)), ops.mul(identity(type_), as_rows(steps, type_)))


def _spread_array(x: np.ndarray) -> np.ndarray:
    steps = 10.0 * np.arange(x.shape[-1])
    return (x + _h(x) + np.diag(steps)).astype(x.dtype)


def _raised(x: Any) -> Any:
    """``x + diag(4, 14, 24, ...)``: well separated singular values and eigenvalues."""
    type_ = type_of(x)
    shape = (*type_.shape[:-2], type_.shape[-1])
    steps = constant(np.broadcast_to(4 + 10.0 * np.arange(type_.shape[-1]), shape))
    return ops.add(x, ops.mul(identity(type_), as_rows(steps, type_)))


def _raised_array(x: np.ndarray) -> np.ndarray:
    steps = 4 + 10.0 * np.arange(x.shape[-1])
    return (x + np.eye(*x.shape[-2:]) * steps).astype(x.dtype)


# --------------------------------------------------------------------------- cholesky, triangular


def _cholesky(label: str, *shape: int, dtypes: str = LAPACK) -> Row:
    return Row(
        "cholesky",
        (Operand(shape),),
        lambda x: np.linalg.cholesky(_positive_array(x)),
        dtypes=dtypes,
        differentiable=(0,),
        ulps=32.0,
        label=label,
        around=lambda op, x: op(_positive(x)),
    )


def _triangular(
    label: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    dtypes: str = "f64 c128",
    **given: bool,
) -> Row:
    params = {
        "left_side": True,
        "lower": True,
        "transpose_a": False,
        "conjugate_a": False,
        "unit_diagonal": False,
    } | given

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = _dominant_array(a)
        a = np.tril(a) if params["lower"] else np.triu(a)
        if params["unit_diagonal"]:
            a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
        a = a.swapaxes(-1, -2) if params["transpose_a"] else a
        a = a.conj() if params["conjugate_a"] else a
        if params["left_side"]:
            return np.linalg.solve(a, b).astype(b.dtype)
        return np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)

    return Row(
        "triangular_solve",
        (Operand(a, -1, 1), Operand(b)),
        reference,
        params,
        dtypes=dtypes,
        differentiable=(0, 1),
        ulps=64.0,
        label=label,
        around=lambda op, a, b: op(_dominant(a), b),
    )


# -------------------------------------------------------------------------------------- lu, solve


def _lu_reference(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Compute one matrix and one row at a time."""
    x = _dominant_array(x)
    *batch, m, n = x.shape
    found = []
    for a in x.reshape(math.prod(batch), m, n):
        a, pivots, permutation = a.copy(), [], np.arange(m)
        for j in range(min(m, n)):
            size = np.abs(a[j:, j].real) + np.abs(a[j:, j].imag)
            p = j + int(size.argmax())
            pivots.append(p)
            a[[j, p]], permutation[[j, p]] = a[[p, j]], permutation[[p, j]]
            for i in range(j + 1, m):
                a[i, j] /= a[j, j]
                a[i, j + 1 :] -= a[i, j] * a[j, j + 1 :]
        found.append((a, np.array(pivots, np.int32), permutation.astype(np.int32)))
    lu, pivots, permutation = (list(parts) for parts in zip(*found, strict=True))
    return (
        np.reshape(lu, x.shape).astype(x.dtype),
        np.reshape(pivots, (*batch, min(m, n))).astype(np.int32),
        np.reshape(permutation, (*batch, m)),
    )


def _lu(label: str, *shape: int, dtypes: str = LAPACK) -> Row:
    return Row(
        "lu",
        (Operand(shape, -4, 4),),
        _lu_reference,
        dtypes=dtypes,
        differentiable=(0,),
        # The roundings of all steps add up, in an order that LAPACK chooses.
        ulps=max(64.0, 8.0 * min(shape[-2:])),
        label=label,
        around=lambda op, x: op(_dominant(x)),
    )


def _solve(label: str, a: tuple[int, ...], b: tuple[int, ...], transpose_a: bool = False) -> Row:
    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = np.linalg.inv(_dominant_array(a))
        return (a.swapaxes(-1, -2) if transpose_a else a) @ b

    return Row(
        "solve",
        (Operand(a), Operand(b)),
        reference,
        {"transpose_a": transpose_a},
        dtypes=LAPACK,
        differentiable=(0, 1),
        ulps=64.0,
        label=label,
        around=lambda op, a, b: op(_dominant(a), b),
    )


def _slogdet_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    det = np.prod(np.linalg.eigvals(_dominant_array(x)), -1)
    sign = det / np.abs(det)
    sign = sign if is_complex(x.dtype) else np.sign(det.real)
    return sign.astype(x.dtype), np.log(np.abs(det)).astype(x.real.dtype)


def _det_reference(x: np.ndarray) -> np.ndarray:
    det = np.prod(np.linalg.eigvals(_dominant_array(x)), -1)
    return (det if is_complex(x.dtype) else det.real).astype(x.dtype)


def _cofactors_reference(x: np.ndarray) -> np.ndarray:
    x = _dominant_array(x)
    det = np.linalg.det(x)[..., None, None]
    return (det * np.linalg.inv(x).swapaxes(-1, -2)).astype(x.dtype)


def _of_dominant(op: str, reference: Any, label: str, *shape: int) -> Row:
    return Row(
        op,
        (Operand(shape),),
        reference,
        dtypes=LAPACK,
        differentiable=(0,),
        ulps=64.0,
        label=label,
        around=lambda op, x: op(_dominant(x)),
    )


def _permutation_reference(pivots: np.ndarray, size: int) -> np.ndarray:
    rows = []
    for row in pivots.reshape(-1, pivots.shape[-1]):
        order = list(range(size))
        for i, p in enumerate(row):
            order[i], order[p] = order[p], order[i]
        rows.append(order)
    return np.reshape(np.array(rows, np.int32), (*pivots.shape[:-1], size))


# --------------------------------------------------------------------------------------------- qr


def _qr_reference(full_matrices: bool) -> Any:
    """By the Cholesky factor of the Gram matrix, with LAPACK's signs."""

    def reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = _raised_array(x)
        m, n = x.shape[-2:]
        k = min(m, n)
        first = x[..., :k].astype(np.complex128 if is_complex(x.dtype) else np.float64)
        r = _h(np.linalg.cholesky(_h(first) @ first))
        q = first @ np.linalg.inv(r)
        signs = np.sign(np.diagonal(np.linalg.qr(x)[1], axis1=-2, axis2=-1).real)
        q, r = q * signs[..., None, :], r * signs[..., :, None]
        r = np.concatenate([r, _h(q) @ x[..., k:]], -1)
        if full_matrices and m > n:
            complete = np.linalg.qr(x, mode="complete")[0][..., n:]
            q = np.concatenate([q, complete], -1)
            r = np.concatenate([r, np.zeros((*r.shape[:-2], m - n, n))], -2)
        return q.astype(x.dtype), r.astype(x.dtype)

    return reference


def _qr(label: str, *shape: int, full_matrices: bool = False, dtypes: str = LAPACK) -> Row:
    return Row(
        "qr",
        (Operand(shape),),
        _qr_reference(full_matrices),
        {"full_matrices": full_matrices, "pivoting": False},
        dtypes=dtypes,
        differentiable=(0,),
        ulps=64.0,
        label=label,
        around=lambda op, x: op(_raised(x)),
    )


def _projected(op: Any, x: Any) -> list[Any]:
    """The unique functions of geqrf's results: R, and Q R from the reflectors."""
    packed, taus = op(x)
    return [upper_triangle(packed), matmul(ops.householder_product(packed, taus), _top(packed))]


def _top(packed: Any) -> Any:
    type_ = type_of(packed)
    n = type_.shape[-1]
    start = (0,) * type_.rank
    return upper_triangle(
        ops.slice(packed, start=start, limit=(*type_.shape[:-2], n, n), strides=(1,) * type_.rank)
    )


def _reflectors_reference(a: np.ndarray, taus: np.ndarray) -> np.ndarray:
    m, n = a.shape[-2:]
    q = np.broadcast_to(np.eye(m, dtype=a.dtype), (*a.shape[:-2], m, m))
    for j in range(taus.shape[-1]):
        v = a[..., j, None] * (np.arange(m) > j)[:, None] + (np.arange(m) == j)[:, None]
        q = q @ (np.eye(m) - taus[..., j, None, None] * v @ _h(v))
    return np.ascontiguousarray(q[..., :n]).astype(a.dtype)


# ------------------------------------------------------------------------------------ svd, eigen


def _svd(label: str, *shape: int, full_matrices: bool = False, dtypes: str = "f64 c128") -> Row:
    """A function of the vectors up to their phases: ``U diag(s^2) U^H``, and the same of V."""

    def around(op: Any, x: Any) -> list[Any]:
        s, u, vh = op(_raised(x))
        k = type_of(s).shape[-1]
        weights = constant(
            np.broadcast_to(1.0 + np.arange(k), type_of(s).shape).astype(type_of(s).dtype)
        )
        u, v = _cut(u, k), adjoint(_cut(vh, k, rows=True))
        left = ops.mul(u, as_rows(weights, type_of(u)))
        right = ops.mul(v, as_rows(weights, type_of(v)))
        return [s, matmul(left, adjoint(u)), matmul(right, adjoint(v)), matmul(left, adjoint(v))]

    def reference(x: np.ndarray) -> tuple[np.ndarray, ...]:
        u, s, vh = np.linalg.svd(_raised_array(x), full_matrices=False)
        w = 1.0 + np.arange(s.shape[-1])
        parts = ((u * w) @ _h(u), (_h(vh) * w) @ vh, (u * w) @ vh)
        return (s, *(p.astype(x.dtype) for p in parts))

    return Row(
        "svd",
        (Operand(shape),),
        reference,
        {"full_matrices": full_matrices, "compute_uv": True},
        dtypes=dtypes,
        differentiable=() if full_matrices and shape[-1] != shape[-2] else (0,),
        ulps=256.0,
        label=label,
        around=around,
    )


def _cut(x: Any, k: int, rows: bool = False) -> Any:
    type_ = type_of(x)
    m, n = type_.shape[-2:]
    limit = (*type_.shape[:-2], *((k, n) if rows else (m, k)))
    return ops.slice(x, start=(0,) * type_.rank, limit=limit, strides=(1,) * type_.rank)


def _weighted(vectors: Any) -> Any:
    """``sum (k + 1) v_k v_k^H``, which does not depend on the phases of the vectors."""
    type_ = type_of(vectors)
    steps = constant(np.broadcast_to(1.0 + np.arange(type_.shape[-1]), type_.shape[:-1]))
    return matmul(ops.mul(vectors, as_rows(steps, type_)), adjoint(vectors))


def _eigh_around(op: Any, x: Any) -> list[Any]:
    vectors, values = op(_spread(x))
    return [values, _weighted(vectors)]


def _eigh_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, v = np.linalg.eigh(_spread_array(x))
    return values, ((v * (1.0 + np.arange(v.shape[-1]))) @ _h(v)).astype(x.dtype)


def _eigh(label: str, *shape: int, lower: bool = True) -> Row:
    return Row(
        "eigh",
        (Operand(shape),),
        _eigh_reference,
        {"lower": lower},
        dtypes=LAPACK,
        differentiable=(0,),
        ulps=256.0,
        label=label,
        around=_eigh_around,
    )


def _eigvalsh(label: str, *shape: int, lower: bool = True) -> Row:
    return Row(
        "eigvalsh",
        (Operand(shape),),
        lambda x: np.linalg.eigvalsh(_spread_array(x)),
        {"lower": lower},
        dtypes=LAPACK,
        differentiable=(0,),
        ulps=256.0,
        label=label,
        around=lambda op, x: op(_spread(x)),
    )


def _eig(label: str, *shape: int, left: bool = False, right: bool = False) -> Row:
    def reference(x: np.ndarray) -> list[np.ndarray]:
        x = _raised_array(x)
        values, vectors = (v.astype(np.result_type(x, np.complex64)) for v in np.linalg.eig(x))
        mirrored = _h(np.linalg.inv(vectors))
        mirrored = mirrored / np.linalg.norm(mirrored, axis=-2, keepdims=True)
        weighted = (mirrored * (1.0 + np.arange(x.shape[-1]))) @ _h(mirrored)
        return [values, *([weighted] if left else []), *([vectors] if right else [])]

    def around(op: Any, x: Any) -> list[Any]:
        results = op(_raised(x))
        if left:
            results[1] = _weighted(results[1])
        return results

    return Row(
        "eig",
        (Operand(shape, -1, 1),),
        reference,
        {"compute_left": left, "compute_right": right, "enable_eigvec_derivs": True},
        dtypes="f64 c128",
        differentiable=(0,),
        ulps=512.0,
        label=label,
        around=around,
    )


def _pinv(label: str, *shape: int) -> Row:
    return Row(
        "pinv",
        (Operand(shape), Operand(shape[:-2], 1e-6, 1e-6)),
        lambda x, rtol: np.linalg.pinv(_raised_array(x)),
        dtypes="f64",
        differentiable=(0,),
        ulps=256.0,
        label=label,
        around=lambda op, x, rtol: op(_raised(x), rtol),
    )


def _distinct(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Matrices with distinct eigenvalues; otherwise the order of a Schur form is not determined."""
    x = rng.uniform(-0.5, 0.5, shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.uniform(-0.5, 0.5, shape)
    return np.asarray(x + np.diag(2.0 * np.arange(shape[-1]))).astype(dtype)


def _tridiagonal_matrix(dl: np.ndarray, d: np.ndarray, du: np.ndarray) -> np.ndarray:
    n = d.shape[-1]
    below, above = (np.eye(n, k=k, dtype=d.dtype) for k in (-1, 1))
    middle = np.eye(n, dtype=d.dtype)
    return dl[..., None] * below + d[..., None] * middle + du[..., None] * above


def _tridiagonal(label: str, *batch: int, n: int, k: int) -> Row:
    beside, middle = Operand((*batch, n), -2, 2), Operand((*batch, n), 5, 6)
    return Row(
        "tridiagonal_solve",
        (beside, middle, beside, Operand((*batch, n, k))),
        lambda dl, d, du, b: np.linalg.solve(_tridiagonal_matrix(dl, d, du), b).astype(b.dtype),
        dtypes=LAPACK,
        differentiable=(0, 1, 2, 3),
        ulps=64.0,
        label=label,
    )


def _restored(op: Any, x: Any) -> list[Any]:
    """``q t q^H``, and the elements of t that must vanish."""
    t, q = op(x)
    return [matmul(matmul(q, t), adjoint(q)), ops.sub(t, upper_triangle(t, -1))]


def _invariants(op: Any, x: Any) -> list[Any]:
    """The trace and the squared norm of the tridiagonal form."""
    _, d, e, _ = op(x)
    axes = (type_of(d).rank - 1,)
    square = ops.reduce_sum(ops.mul(d, d), axes=axes)
    beside = ops.reduce_sum(ops.mul(e, e), axes=axes)
    return [ops.reduce_sum(d, axes=axes), ops.add(square, ops.add(beside, beside))]


def _invariants_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lower = np.tril(x, -1)
    diagonal = np.diagonal(x, axis1=-2, axis2=-1).real
    norm = 2 * (np.abs(lower) ** 2).sum((-2, -1)) + (diagonal**2).sum(-1)
    return diagonal.sum(-1), norm.astype(diagonal.dtype)


def _hessenberg_spectrum(op: Any, x: Any) -> list[Any]:
    """The determinant of the Hessenberg form."""
    packed, _ = op(x)
    return [ops.det(upper_triangle(packed, -1))]


ROWS = [
    _cholesky("", 3, 3),
    _cholesky("batch", 2, 4, 4, dtypes="f64 c128"),
    _cholesky("one", 1, 1, dtypes="f64"),
    _cholesky("empty", 0, 0, dtypes="f64"),
    _cholesky("empty-batch", 2, 0, 3, 3, dtypes="f64"),
    _triangular("", (3, 3), (3, 2), dtypes=LAPACK),
    _triangular("upper", (3, 3), (3, 5), lower=False),
    _triangular("right", (3, 3), (2, 3), left_side=False, conjugate_a=True),
    _triangular("right-upper", (2, 3, 3), (2, 4, 3), left_side=False, lower=False),
    _triangular("transposed", (2, 3, 3), (2, 3, 1), transpose_a=True, unit_diagonal=True),
    _triangular("adjoint", (3, 3), (3, 2), transpose_a=True, conjugate_a=True, lower=False),
    _triangular("right-adjoint", (3, 3), (2, 3), left_side=False, transpose_a=True),
    _triangular("blocks", (40, 40), (40, 2), dtypes="f64"),
    _triangular("empty", (0, 0), (0, 2), dtypes="f64"),
    _triangular("no-columns", (2, 2), (2, 0), dtypes="f64"),
    _lu("", 3, 3),
    _lu("tall", 2, 4, 3, dtypes="f64 c128"),
    _lu("wide", 3, 5, dtypes="f64 c128"),
    _lu("blocks", 37, 35, dtypes="f64"),
    _lu("empty-columns", 3, 0, dtypes="f64"),
    Row(
        "lu_pivots_to_permutation",
        (Operand((4,), dtype="int32", low=3, high=5),),
        lambda pivots: _permutation_reference(pivots, 6),
        {"size": 6},
        dtypes="i32",
    ),
    Row(
        "lu_pivots_to_permutation",
        (Operand((2, 3), dtype="int32", low=2, high=2),),
        lambda pivots: _permutation_reference(pivots, 3),
        {"size": 3},
        dtypes="i32",
        label="batch",
    ),
    _solve("", (3, 3), (3, 2)),
    _solve("transposed", (2, 3, 3), (2, 3, 1), transpose_a=True),
    _solve("empty", (0, 0), (0, 2)),
    _of_dominant("slogdet", _slogdet_reference, "", 3, 3),
    _of_dominant("slogdet", _slogdet_reference, "batch", 2, 4, 4),
    _of_dominant("slogdet", _slogdet_reference, "empty", 0, 0),
    _of_dominant("det", _det_reference, "", 3, 3),
    _of_dominant("det", _det_reference, "batch", 2, 4, 4),
    _of_dominant("det", _det_reference, "empty", 2, 0, 0),
    _of_dominant("cofactors", _cofactors_reference, "", 3, 3),
    _of_dominant("cofactors", _cofactors_reference, "batch", 2, 4, 4),
    _of_dominant("cofactors", _cofactors_reference, "one", 1, 1),
    _qr("", 3, 3),
    _qr("tall", 2, 4, 3, dtypes="f64 c128"),
    _qr("wide", 3, 5, dtypes="f64 c128"),
    _qr("full", 5, 3, full_matrices=True, dtypes="f64 c128"),
    _qr("full-wide", 2, 3, full_matrices=True, dtypes="f64"),
    _qr("one", 1, 1, dtypes="f64 c128"),
    Row(
        "geqrf",
        (Operand((4, 3)),),
        lambda x: (np.triu(np.linalg.qr(x, mode="raw")[0].swapaxes(-1, -2)), x),
        dtypes=LAPACK,
        ulps=64.0,
        around=_projected,
    ),
    Row(
        "householder_product",
        (Operand((2, 4, 3)), Operand((2, 2), 0, 1)),
        _reflectors_reference,
        dtypes=LAPACK,
        ulps=64.0,
    ),
    Row(
        "householder_product",
        (Operand((40, 36), -0.1, 0.1), Operand((36,), 0, 1)),
        _reflectors_reference,
        dtypes="f64",
        ulps=256.0,
        label="blocks",
    ),
    _svd("", 3, 3, dtypes=LAPACK),
    _svd("tall", 2, 4, 3),
    _svd("wide", 3, 5),
    _svd("full", 3, 5, full_matrices=True),
    _svd("full-square", 2, 2, full_matrices=True),
    _svd("one", 1, 1),
    Row(
        "svd",
        (Operand((3, 4)),),
        lambda x: np.sqrt(np.linalg.eigvalsh((y := _raised_array(x)) @ _h(y)))[..., ::-1],
        {"full_matrices": True, "compute_uv": False},
        dtypes="f64 c128",
        differentiable=(0,),
        ulps=256.0,
        label="values",
        around=lambda op, x: op(_raised(x)),
    ),
    _pinv("", 4, 3),
    _pinv("wide", 2, 2, 3),
    _pinv("empty", 0, 3),
    _eigh("", 3, 3),
    _eigh("upper", 2, 3, 3, lower=False),
    _eigh("one", 1, 1),
    _eigvalsh("", 3, 3),
    _eigvalsh("upper", 2, 3, 3, lower=False),
    _eigvalsh("one", 1, 1),
    _eig("", 3, 3, right=True),
    _eig("values", 2, 3, 3),
    _eig("both", 3, 3, left=True, right=True),
    _eig("left", 3, 3, left=True),
    _tridiagonal("", n=4, k=2),
    _tridiagonal("batch", 2, n=3, k=1),
    _tridiagonal("one", n=1, k=2),
    _tridiagonal("empty", n=0, k=2),
    Row(
        "schur",
        (Operand((5, 5), draw=_distinct),),
        lambda x: (x, np.zeros_like(x)),
        {"compute_schur_vectors": True},
        dtypes=LAPACK,
        ulps=256.0,
        around=_restored,
    ),
    Row(
        "schur",
        (Operand((2, 3, 3), draw=_distinct),),
        lambda x: np.trace(x, axis1=-2, axis2=-1),
        {"compute_schur_vectors": False},
        dtypes="f64 c128",
        ulps=256.0,
        label="values",
        around=lambda op, x: [trace(op(x)[0])],
    ),
    Row(
        "hessenberg",
        (Operand((2, 4, 4)),),
        np.linalg.det,
        dtypes="f64 c128",
        ulps=256.0,
        around=_hessenberg_spectrum,
    ),
    Row(
        "tridiagonal",
        (Operand((2, 4, 4)),),
        _invariants_reference,
        {"lower": True},
        dtypes=LAPACK,
        ulps=256.0,
        around=_invariants,
    ),
    Row(
        "tridiagonal",
        (Operand((3, 3)),),
        lambda x: _invariants_reference(x.swapaxes(-1, -2)),
        {"lower": False},
        dtypes="f64 c128",
        ulps=256.0,
        label="upper",
        around=_invariants,
    ),
]

__all__ = ["LAPACK", "ROWS"]
