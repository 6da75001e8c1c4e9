"""``schur``: unitary triangularization of general matrices."""

from __future__ import annotations

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.contract import NO_DERIVATIVE, NOT_LINEAR, Op
from gnomon.dialects.linear_algebra import flops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import batch_leading, check_square
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType
from gnomon_runtime.linear_algebra import factorizations


def _infer(a: TensorType, *, compute_schur_vectors: bool) -> tuple[TensorType, ...]:
    check_square("schur", a)
    return (a, a) if compute_schur_vectors else (a,)


schur = Op(
    name="schur",
    doc="T, and Q on request, with a = Q T Q^H; T is triangular, except that for a real matrix it "
    "may have blocks of two rows on the diagonal",
    example='%t, %q = "gnomon.schur"(%a) {compute_schur_vectors = true} '
    ": (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>)",
    attributes={"compute_schur_vectors": BOOL},
    operands=...,
    results=None,
    form=Form.MATRIX,
    work=flops.schur,
    infer=_infer,
    evaluate=factorizations.schur,
    jvp=NO_DERIVATIVE,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
