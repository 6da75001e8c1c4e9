"""``solve`` and the determinants, which use a factorization without exposing it.

They are differentiated implicitly, not through the factors: the derivative of a solution is another
solution, and the derivative of a determinant needs a solution or the matrix of cofactors.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import NOT_LINEAR, Instance, MappedAxis, Op
from gnomon.dialects.emit import add_tangents, ops, zeros
from gnomon.dialects.linear_algebra import flops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    batch_leading,
    check_matrix,
    check_square,
    fold_into_columns,
    matmul,
    real_part,
    swapped,
    trace,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, multilinear
from gnomon.dialects.types import TensorType, is_complex, real_dtype, type_of
from gnomon_runtime.linear_algebra import systems, unthreaded

# ----------------------------------------------------------------------------------------- solve


def _infer_solve(a: TensorType, b: TensorType, *, transpose_a: bool) -> TensorType:
    size = check_square("solve", a)
    rows, _ = check_matrix("solve", b)
    require(
        a.dtype == b.dtype and a.shape[:-2] == b.shape[:-2] and rows == size,
        "solve",
        f"a system [..., n, n] x = [..., n, k] in one dtype is expected, got {a} and {b}",
    )
    return b


def _jvp_solve(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """``A X = B``: ``dX = A^-1 (dB - dA X)``."""
    (x,), (da, rhs) = outs, tangents
    if da is not None:
        if inst.params["transpose_a"]:
            da = swapped(da)
        rhs = add_tangents(rhs, ops.neg(matmul(da, x)))
    assert rhs is not None
    return [ops.solve(inst.operands[0], rhs, **inst.params)]


def _transpose_solve(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (cotangent,) = cotangents
    if cotangent is None:
        return [None, None]
    transposed = not inst.params["transpose_a"]
    return [None, ops.solve(inst.operands[0], cotangent, transpose_a=transposed)]


def _batch_solve(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    (a, b), (a_dim, b_dim) = operands, dims
    if a_dim is not None:
        return batch_leading(inst, operands, dims, axis)
    # One matrix with many right-hand sides needs only one factorization.
    assert b_dim is not None
    return [fold_into_columns(b, b_dim, lambda rhs: ops.solve(a, rhs, **inst.params))], [0]


solve = Op(
    name="solve",
    doc="the x with a x = b (or a^T x = b); infinite or nan if a is singular",
    example='%r = "gnomon.solve"(%a, %b) {transpose_a = false} '
    ": (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>",
    attributes={"transpose_a": BOOL},
    operands=("a", "b"),
    form=Form.MATRIX,
    work=flops.solve,
    infer=_infer_solve,
    evaluate=systems.solve,
    jvp=_jvp_solve,
    linear=multilinear(1),
    transpose=_transpose_solve,
    batch=_batch_solve,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)


def _solved(a: ir.Value, da: ir.Value) -> ir.Value:
    return ops.solve(a, da, transpose_a=False)


# ----------------------------------------------------------------------------------- determinants


def _infer_slogdet(a: TensorType) -> tuple[TensorType, TensorType]:
    check_square("slogdet", a)
    sign = a.with_shape(a.shape[:-2])
    return sign, sign.with_dtype(real_dtype(a.dtype))


def _jvp_slogdet(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """``d log det A = tr(A^-1 dA)``: the real part moves the logarithm, the imaginary the sign."""
    sign, _ = outs
    (da,) = tangents
    change = trace(_solved(inst.operand, da))
    if not is_complex(type_of(sign).dtype):
        return [None, change]
    imaginary = ops.imag(change)
    turn = ops.complex(zeros(type_of(imaginary)), imaginary)
    return [ops.mul(sign, turn), real_part(change)]


slogdet = Op(
    name="slogdet",
    doc="the sign (complex: the phase) of the determinant, and the logarithm of its magnitude",
    example='%sign, %log = "gnomon.slogdet"(%a) : (tensor<3x3xf32>) -> (tensor<f32>, tensor<f32>)',
    operands=("a",),
    results=2,
    form=Form.MATRIX,
    work=flops.determinant,
    infer=_infer_slogdet,
    evaluate=systems.slogdet,
    jvp=_jvp_slogdet,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)


def _infer_det(a: TensorType) -> TensorType:
    check_square("det", a)
    return a.with_shape(a.shape[:-2])


def _jvp_det(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    """Jacobi's formula with cofactors, which holds for singular matrices as well."""
    (da,) = tangents
    rank = type_of(inst.operand).rank
    return [ops.reduce_sum(ops.mul(ops.cofactors(inst.operand), da), axes=(rank - 2, rank - 1))]


det = Op(
    name="det",
    doc="the determinant",
    example='%r = "gnomon.det"(%a) : (tensor<3x3xf32>) -> tensor<f32>',
    operands=("a",),
    form=Form.MATRIX,
    work=flops.determinant,
    infer=_infer_det,
    evaluate=unthreaded.det,
    jvp=_jvp_det,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)


def _infer_cofactors(a: TensorType) -> TensorType:
    check_square("cofactors", a)
    return a


def _jvp_cofactors(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    """``dC = tr(X) C - C X^T`` with ``X = A^-1 dA``, for ``C = det(A) A^-T`` and invertible A."""
    (c,), (da,) = outs, tangents
    x = _solved(inst.operand, da)
    type_ = type_of(c)
    total = ops.broadcast_in_dim(trace(x), shape=type_.shape, dims=tuple(range(type_.rank - 2)))
    return [ops.sub(ops.mul(total, c), matmul(c, swapped(x)))]


cofactors = Op(
    name="cofactors",
    doc="the derivative of the determinant with respect to each element, det(a) a^-T; a may be "
    "singular",
    example='%r = "gnomon.cofactors"(%a) : (tensor<3x3xf32>) -> tensor<3x3xf32>',
    operands=("a",),
    form=Form.MATRIX,
    work=flops.cofactors,
    infer=_infer_cofactors,
    evaluate=systems.cofactors,
    jvp=_jvp_cofactors,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
