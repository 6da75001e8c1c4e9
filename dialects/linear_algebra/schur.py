"""``schur``: unitary triangularization of general matrices."""

from __future__ import annotations

import math

import numpy as np

from gnomon.dialects import sharding_rules
from gnomon.dialects.attributes import BOOL
from gnomon.dialects.contract import NO_DERIVATIVE, NOT_LINEAR, Op
from gnomon.dialects.linear_algebra import shifted_qr
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import batch_leading, check_square, nan_like
from gnomon.dialects.types import TensorType


def _infer(a: TensorType, *, compute_schur_vectors: bool) -> tuple[TensorType, ...]:
    check_square("schur", a)
    return (a, a) if compute_schur_vectors else (a,)


def _evaluate(a: np.ndarray, *, compute_schur_vectors: bool) -> tuple[np.ndarray, ...]:
    n = a.shape[-1]
    members = a.reshape(math.prod(a.shape[:-2]), n, n)
    forms, vectors = np.empty_like(members), np.empty_like(members)
    for i, member in enumerate(members):
        try:
            forms[i], vectors[i] = shifted_qr.schur(member)
        except np.linalg.LinAlgError:
            forms[i] = np.triu(nan_like((n, n), a.dtype))
            vectors[i] = nan_like((n, n), a.dtype)
    found = (forms.reshape(a.shape), vectors.reshape(a.shape))
    return found if compute_schur_vectors else found[:1]


schur = Op(
    name="schur",
    doc="T, and Q on request, with a = Q T Q^H; T is triangular, except that for a real matrix it "
    "may have blocks of two rows on the diagonal",
    example='%t, %q = "gnomon.schur"(%a) {compute_schur_vectors = true} '
    ": (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>)",
    attributes={"compute_schur_vectors": BOOL},
    operands=...,
    results=None,
    infer=_infer,
    evaluate=_evaluate,
    jvp=NO_DERIVATIVE,
    transpose=NOT_LINEAR,
    batch=batch_leading,
    sharding=sharding_rules.batch_dimensions,
    lower=on_host,
)
