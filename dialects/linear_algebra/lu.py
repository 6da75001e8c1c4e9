"""``lu``: the factors of Gaussian elimination and the permutation of its row swaps."""

from __future__ import annotations

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import INT
from gnomon.dialects.combinators import Tangents, Values, require, require_dtype
from gnomon.dialects.contract import NOT_LINEAR, ZERO_TANGENT, Instance, Op
from gnomon.dialects.emit import ops, take
from gnomon.dialects.linear_algebra import flops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    batch_leading,
    check_matrix,
    columns,
    concatenate_columns,
    concatenate_rows,
    identity,
    lower_triangle,
    matmul,
    rows,
    upper_triangle,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, type_of
from gnomon_runtime.linear_algebra import elimination

_I32 = np.dtype(np.int32)


def _infer(a: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    m, n = check_matrix("lu", a)
    batch = a.shape[:-2]
    return a, TensorType((*batch, min(m, n)), _I32), TensorType((*batch, m), _I32)


def permuted_rows(x: ir.Value, permutation: ir.Value) -> ir.Value:
    """Permute the rows of each matrix of a batch by its own permutation: ``x[permutation]``."""
    type_ = type_of(x)
    batch = range(type_.rank - 2)
    return take(x, permutation, type_.rank - 2, batch, mode="clip", unique=True)


def square_factors(lu: ir.Value) -> tuple[ir.Value, ir.Value]:
    """L and U of ``[m, n]`` factors, both padded to square with ones on the diagonal."""
    type_ = type_of(lu)
    *batch, m, n = type_.shape
    k = min(m, n)
    lower = lower_triangle(columns(lu, 0, k), -1)
    lower = ops.add(lower, identity(type_of(lower)))
    if m > k:
        whole = identity(type_.with_shape((*batch, m, m)))
        lower = concatenate_columns(lower, columns(whole, k, m))
    upper = upper_triangle(rows(lu, 0, k))
    if n > k:
        whole = identity(type_.with_shape((*batch, n, n)))
        upper = concatenate_rows(upper, rows(whole, k, n))
    return lower, upper


def _jvp(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
    """``dL = L tril(G, -1)``, ``dU = triu(G) U`` with ``G = L^-1 P dA U^-1``.

    See F. de Hoog, R. Anderssen, M. Lukas (2011).
    """
    (lu, _, permutation), (da,) = outs, tangents
    lower, upper = square_factors(lu)
    left = ops.triangular_solve(
        lower,
        permuted_rows(da, permutation),
        left_side=True,
        lower=True,
        transpose_a=False,
        conjugate_a=False,
        unit_diagonal=True,
    )
    both = ops.triangular_solve(
        upper,
        left,
        left_side=False,
        lower=False,
        transpose_a=False,
        conjugate_a=False,
        unit_diagonal=False,
    )
    tangent = ops.add(matmul(lower, lower_triangle(both, -1)), matmul(upper_triangle(both), upper))
    return [tangent, None, None]


lu = Op(
    name="lu",
    doc="L (without its unit diagonal) and U in one matrix, with L U = a[permutation]; the pivots; "
    "the permutation",
    example='%lu, %pivots, %permutation = "gnomon.lu"(%a) '
    ": (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xi32>, tensor<3xi32>)",
    operands=("a",),
    results=3,
    form=Form.MATRIX,
    work=flops.lu,
    infer=_infer,
    evaluate=elimination.factor,
    jvp=_jvp,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)


def _infer_permutation(pivots: TensorType, *, size: int) -> TensorType:
    name = "lu_pivots_to_permutation"
    require_dtype(name, pivots, (_I32,))
    require(pivots.rank >= 1, name, f"the pivots must have rank 1 or more, got {pivots}")
    require(
        size >= pivots.shape[-1],
        name,
        f"the size {size} of the permutation must not be less than the number of pivots, "
        f"{pivots.shape[-1]}",
    )
    return TensorType((*pivots.shape[:-1], size), _I32)


lu_pivots_to_permutation = Op(
    name="lu_pivots_to_permutation",
    doc="the permutation of rows by successive swaps: step i swaps row i with row pivots[i], if "
    "there is such a row",
    example='%r = "gnomon.lu_pivots_to_permutation"(%pivots) {size = 4 : i64} '
    ": (tensor<3xi32>) -> tensor<4xi32>",
    attributes={"size": INT},
    operands=("pivots",),
    form=Form.MATRIX,
    work=flops.permutation,
    infer=_infer_permutation,
    evaluate=elimination.permutation_of,
    jvp=ZERO_TANGENT,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.automatic_batch,
    lower=on_host,
)
