"""``triangular_solve``: linear systems with triangular matrices."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.combinators import (
    Tangents,
    Values,
    lowered,
    parse,
    require,
    stablehlo,
)
from gnomon.dialects.contract import Instance, MappedAxis, Op
from gnomon.dialects.emit import add_tangents, ops
from gnomon.dialects.linear_algebra import flops
from gnomon.dialects.linear_algebra.matrices import (
    batch_leading,
    check_matrix,
    check_square,
    conjugated,
    fold_into_columns,
    lower_triangle,
    matmul,
    swapped,
    upper_triangle,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, multilinear
from gnomon.dialects.types import TensorType, is_complex
from gnomon_runtime.linear_algebra.substitution import solve_triangular


def _infer(
    a: TensorType,
    b: TensorType,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> TensorType:
    size = check_square("triangular_solve", a)
    rows, columns = check_matrix("triangular_solve", b)
    require(
        a.dtype == b.dtype and a.shape[:-2] == b.shape[:-2],
        "triangular_solve",
        f"both operands must have one dtype and the same batch dimensions, got {a} and {b}",
    )
    require(
        size == (rows if left_side else columns),
        "triangular_solve",
        f"the matrix {a} does not fit the {'rows' if left_side else 'columns'} of {b}",
    )
    return b


def _jvp(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """``dX = op(A)^-1 (dB - op(dA) X)`` for ``op(A) X = B``: one solve for both tangents."""
    (x,), (da, db) = outs, tangents
    params = inst.params
    rhs = db
    if da is not None:
        offset = 1 if params["unit_diagonal"] else 0
        da = lower_triangle(da, -offset) if params["lower"] else upper_triangle(da, offset)
        if params["transpose_a"]:
            da = swapped(da)
        if params["conjugate_a"]:
            da = conjugated(da)
        product = matmul(da, x) if params["left_side"] else matmul(x, da)
        rhs = add_tangents(rhs, ops.neg(product))
    assert rhs is not None
    return [ops.triangular_solve(inst.operands[0], rhs, **params)]


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    (cotangent,) = cotangents
    if cotangent is None:
        return [None, None]
    params = inst.params | {"transpose_a": not inst.params["transpose_a"]}
    return [None, ops.triangular_solve(inst.operands[0], cotangent, **params)]


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    (a, b), (a_dim, b_dim) = operands, dims
    if a_dim is not None:
        return batch_leading(inst, operands, dims, axis)
    # One matrix with many right-hand sides: make them columns (rows) of one system.
    assert b_dim is not None
    side = -1 if inst.params["left_side"] else -2
    solved = fold_into_columns(
        b, b_dim, lambda rhs: ops.triangular_solve(a, rhs, **inst.params), side
    )
    return [solved], [0]


def _lower(inst: Instance) -> list[ir.Value]:
    params = inst.params
    a, b = inst.operands
    transpose = "NO_TRANSPOSE"
    conjugate = params["conjugate_a"] and is_complex(inst.type.dtype)
    if params["transpose_a"]:
        transpose = "ADJOINT" if conjugate else "TRANSPOSE"
    elif conjugate:
        a = lowered.conj(a)
    return stablehlo(
        "triangular_solve",
        [a, b],
        inst.result_types,
        transpose_a=parse(f"#stablehlo<transpose {transpose}>"),
        **{name: BOOL.encode(params[name]) for name in ("left_side", "lower", "unit_diagonal")},
    )


triangular_solve = Op(
    name="triangular_solve",
    doc="the x with op(a) x = b (or x op(a) = b), where op may transpose and conjugate; reads one "
    "triangle of a",
    example='%r = "gnomon.triangular_solve"(%a, %b) {left_side = true, lower = true, '
    "transpose_a = false, conjugate_a = false, unit_diagonal = false} "
    ": (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>",
    attributes=dict.fromkeys(
        ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"), BOOL
    ),
    operands=("a", "b"),
    form=Form.MATRIX,
    stablehlo=("triangular_solve",),
    work=flops.substitution,
    infer=_infer,
    evaluate=solve_triangular,
    jvp=_jvp,
    linear=multilinear(1),
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.batch_dimensions,
    lower=_lower,
)
