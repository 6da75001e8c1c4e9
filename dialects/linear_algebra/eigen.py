"""``eigh`` and ``eig``: eigenvalues and eigenvectors of Hermitian and of general matrices."""

from __future__ import annotations

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values
from gnomon.dialects.contract import NOT_LINEAR, Instance, Op
from gnomon.dialects.emit import convert, ops, zeros
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    adjoint,
    as_rows,
    batch_leading,
    by_member,
    check_square,
    complex_dtype,
    diagonal,
    inverse_gaps,
    matmul,
    nan_like,
    real_part,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, real_dtype, type_of

# ------------------------------------------------------------------------------------------ eigh


def _infer_eigh(a: TensorType, *, lower: bool) -> tuple[TensorType, TensorType]:
    check_square("eigh", a)
    return a, TensorType(a.shape[:-1], real_dtype(a.dtype))


def _evaluate_eigh(a: np.ndarray, *, lower: bool) -> tuple[np.ndarray, np.ndarray]:
    n = a.shape[-1]

    def factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(a, "L" if lower else "U")
        return vectors, values

    def failed() -> tuple[np.ndarray, np.ndarray]:
        return nan_like((n, n), a.dtype), nan_like((n,), real_dtype(a.dtype))

    found: tuple[np.ndarray, np.ndarray] = by_member(factor, a, failed)
    return found


def _jvp_eigh(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    """Perturbation theory for distinct eigenvalues (Giles 2008): ``dV = V (F * V^H dA V)``."""
    (vectors, values), (da,) = outs, tangents
    inner = matmul(matmul(adjoint(vectors), da), vectors)
    turn = ops.mul(inverse_gaps(values, type_of(inner)), inner)
    return [matmul(vectors, turn), real_part(diagonal(inner))]


eigh = Op(
    name="eigh",
    doc="eigenvectors (as columns) and the ascending eigenvalues of Hermitian matrices; reads one "
    "triangle",
    example='%v, %w = "gnomon.eigh"(%a) {lower = true} '
    ": (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>)",
    attributes={"lower": BOOL},
    operands=("a",),
    results=2,
    infer=_infer_eigh,
    evaluate=_evaluate_eigh,
    jvp=_jvp_eigh,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)


# ------------------------------------------------------------------------------------------- eig


def _infer_eig(
    a: TensorType, *, compute_left: bool, compute_right: bool, enable_eigvec_derivs: bool
) -> tuple[TensorType, ...]:
    check_square("eig", a)
    vectors = a.with_dtype(complex_dtype(a.dtype))
    values = vectors.with_shape(a.shape[:-1])
    return (values, *([vectors] if compute_left else []), *([vectors] if compute_right else []))


def _evaluate_eig(
    a: np.ndarray, *, compute_left: bool, compute_right: bool, enable_eigvec_derivs: bool
) -> tuple[np.ndarray, ...]:
    dtype = complex_dtype(a.dtype)
    n = a.shape[-1]

    def factor(a: np.ndarray) -> tuple[np.ndarray, ...]:
        if not (compute_left or compute_right):
            return (np.linalg.eigvals(a).astype(dtype),)
        values, right = (x.astype(dtype) for x in np.linalg.eig(a))
        return (
            values,
            *([_left_vectors(a, values)] if compute_left else []),
            *([right] if compute_right else []),
        )

    def failed() -> tuple[np.ndarray, ...]:
        count = compute_left + compute_right
        return (nan_like((n,), dtype), *(nan_like((n, n), dtype) for _ in range(count)))

    found = by_member(factor, a, failed)
    return found if isinstance(found, tuple) else (found,)


def _left_vectors(a: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The left eigenvectors, in the order of the eigenvalues: right ones of the adjoint."""
    mirrored, vectors = np.linalg.eig(a.conj().swapaxes(-1, -2))
    distance = np.abs(values[..., :, None] - mirrored.conj()[..., None, :])
    order = np.empty(values.shape, np.intp)
    # Match each eigenvalue with the nearest one left; within a cluster, any match is correct.
    for i in range(values.shape[-1]):
        nearest = distance[..., i, :].argmin(-1)
        order[..., i] = nearest
        np.put_along_axis(distance, nearest[..., None, None], np.inf, axis=-1)
    result: np.ndarray = np.take_along_axis(vectors, order[..., None, :], -1)
    return result.astype(values.dtype)


def _jvp_eig(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    params = inst.params
    (a,), (da,) = inst.operands, tangents
    vectors_asked = params["compute_left"] or params["compute_right"]
    if vectors_asked and not params["enable_eigvec_derivs"]:
        raise NotImplementedError(
            "the derivative of eigenvectors of a general matrix is defined only for distinct "
            "eigenvalues and vectors of one largest component, which cannot be checked here; "
            "gnomon.lax.linalg.eig(..., enable_eigvec_derivs=True) takes it on trust, and the "
            "derivative of the eigenvalues alone needs compute_left_eigenvectors=False and "
            "compute_right_eigenvectors=False"
        )
    values = outs[0]
    da = convert(da, type_of(values).dtype)
    if params["compute_right"]:
        right = outs[-1]
    else:
        # The scaling of the vectors cancels in the result, and so does its derivative.
        _, right = ops.eig(a, compute_left=False, compute_right=True, enable_eigvec_derivs=True)
    inner = ops.solve(right, matmul(da, right), transpose_a=False)
    found = [diagonal(inner)]
    if params["compute_left"]:
        left = outs[1]
        mirrored = ops.solve(left, matmul(adjoint(da), left), transpose_a=False)
        found.append(_vector_tangents(ops.conj(values), left, mirrored))
    if params["compute_right"]:
        found.append(_vector_tangents(values, right, inner))
    return found


def _vector_tangents(values: ir.Value, vectors: ir.Value, inner: ir.Value) -> ir.Value:
    """Tangents of eigenvectors of unit length whose largest component is real (LAPACK's geev).

    Perturbation theory determines each tangent up to a multiple of the vector. The two conditions,
    on the length and on the largest component, determine the multiple.
    """
    type_ = type_of(vectors)
    rank = type_.rank
    moved = matmul(vectors, ops.mul(inverse_gaps(values, type_), inner))
    overlap = ops.real(ops.reduce_sum(ops.mul(ops.conj(vectors), moved), axes=(rank - 2,)))
    index = np.dtype(np.int32)
    largest = ops.argmax(ops.abs(vectors), axis=rank - 2, index_dtype=index)
    at_largest = ops.eq(
        ops.iota(dtype=index, shape=type_.shape, dimension=rank - 2),
        ops.broadcast_in_dim(largest, shape=type_.shape, dims=(*range(rank - 2), rank - 1)),
    )

    def picked(x: ir.Value) -> ir.Value:
        return ops.reduce_sum(ops.select(at_largest, x, zeros(type_)), axes=(rank - 2,))

    turn = ops.div(ops.imag(picked(moved)), ops.real(picked(vectors)))
    free = ops.complex(ops.neg(overlap), ops.neg(turn))
    return ops.add(moved, ops.mul(vectors, as_rows(free, type_)))


_EXAMPLE_EIG = """\
%both = "gnomon.eig"(%a)
    {compute_left = false, compute_right = true, enable_eigvec_derivs = false}
    : (tensor<3x3xf32>) -> tuple<tensor<3xcomplex<f32>>, tensor<3x3xcomplex<f32>>>
%w, %v = builtin.unrealized_conversion_cast %both
    : tuple<tensor<3xcomplex<f32>>, tensor<3x3xcomplex<f32>>>
    to tensor<3xcomplex<f32>>, tensor<3x3xcomplex<f32>>"""


eig = Op(
    name="eig",
    doc="eigenvalues of general matrices, with left or right eigenvectors (as columns) on request",
    example=_EXAMPLE_EIG,
    attributes=dict.fromkeys(("compute_left", "compute_right", "enable_eigvec_derivs"), BOOL),
    operands=...,
    results=None,
    infer=_infer_eig,
    evaluate=_evaluate_eig,
    jvp=_jvp_eig,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
