"""``eigh``, ``eigvalsh`` and ``eig``: eigenvalues and eigenvectors of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values
from gnomon.dialects.contract import NOT_LINEAR, Instance, Op
from gnomon.dialects.emit import convert, ops, zeros
from gnomon.dialects.linear_algebra import flops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    adjoint,
    as_rows,
    batch_leading,
    check_square,
    diagonal,
    inverse_gaps,
    matmul,
    real_part,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, real_dtype, type_of
from gnomon_runtime.linear_algebra import factorizations
from gnomon_runtime.linear_algebra.members import complex_dtype

# ------------------------------------------------------------------------------------------ eigh


def _infer_eigh(a: TensorType, *, lower: bool) -> tuple[TensorType, TensorType]:
    check_square("eigh", a)
    return a, TensorType(a.shape[:-1], real_dtype(a.dtype))


def _in_basis(vectors: ir.Value, da: ir.Value) -> ir.Value:
    return matmul(matmul(adjoint(vectors), da), vectors)


def _jvp_eigh(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    """Perturbation theory for distinct eigenvalues (Giles 2008): ``dV = V (F * V^H dA V)``."""
    (vectors, values), (da,) = outs, tangents
    inner = _in_basis(vectors, da)
    turn = ops.mul(inverse_gaps(values, type_of(inner)), inner)
    return [matmul(vectors, turn), real_part(diagonal(inner))]


def _narrow_eigh(inst: Instance, used: Sequence[bool]) -> list[ir.Value] | None:
    return None if used[0] else [ops.eigvalsh(inst.operand, **inst.params)]


eigh = Op(
    name="eigh",
    doc="eigenvectors (as columns) and the ascending eigenvalues of Hermitian matrices; reads one "
    "triangle",
    example='%v, %w = "gnomon.eigh"(%a) {lower = true} '
    ": (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>)",
    attributes={"lower": BOOL},
    operands=("a",),
    results=2,
    form=Form.MATRIX,
    work=flops.eigh,
    infer=_infer_eigh,
    evaluate=factorizations.eigh,
    jvp=_jvp_eigh,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    narrow=_narrow_eigh,
    lower=on_host,
)


def _infer_eigvalsh(a: TensorType, *, lower: bool) -> TensorType:
    check_square("eigvalsh", a)
    return TensorType(a.shape[:-1], real_dtype(a.dtype))


def _linearize_eigvalsh(
    inst: Instance, tangents: Tangents
) -> tuple[list[ir.Value], list[ir.Value]]:
    """The derivative of the values takes the vectors, so both are computed at once."""
    (da,) = tangents
    vectors, values = ops.eigh(inst.operand, **inst.params)
    return [values], [real_part(diagonal(_in_basis(vectors, da)))]


eigvalsh = Op(
    name="eigvalsh",
    doc="the ascending eigenvalues of Hermitian matrices, in half of the time of `eigh`; reads one "
    "triangle",
    example='%w = "gnomon.eigvalsh"(%a) {lower = true} : (tensor<3x3xf32>) -> tensor<3xf32>',
    attributes={"lower": BOOL},
    operands=("a",),
    form=Form.MATRIX,
    work=flops.eigvalsh,
    infer=_infer_eigvalsh,
    evaluate=factorizations.eigvalsh,
    jvp=_linearize_eigvalsh,
    linearize=_linearize_eigvalsh,
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


def _jvp_eig(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    params = inst.params
    (a,), (da,) = inst.operands, tangents
    has_vectors = params["compute_left"] or params["compute_right"]
    if has_vectors and not params["enable_eigvec_derivs"]:
        raise NotImplementedError(
            "the derivative of eigenvectors of a general matrix is defined only if the eigenvalues "
            "are distinct and each vector has a single largest component, which cannot be checked "
            "here; gnomon.lax.linalg.eig(..., enable_eigvec_derivs=True) assumes it. To "
            "differentiate only the eigenvalues, pass compute_left_eigenvectors=False and "
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


def _narrow_eig(inst: Instance, used: Sequence[bool]) -> list[ir.Value] | None:
    left, right = (inst.params[name] for name in ("compute_left", "compute_right"))
    kept = {"compute_left": left and used[1], "compute_right": right and used[-1]}
    if (left, right) == tuple(kept.values()):
        return None
    found = inst.op.build(inst.operands, {**inst.params, **kept})
    return found if used[0] else found[1:]


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
    form=Form.MATRIX,
    work=flops.eig,
    infer=_infer_eig,
    evaluate=factorizations.eig,
    jvp=_jvp_eig,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    narrow=_narrow_eig,
    lower=on_host,
)
