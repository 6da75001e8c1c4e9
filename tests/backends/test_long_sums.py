"""On every target, no op of a legalized program adds more than a few terms one after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp
from gnomon.backends.iree.pipeline import legalize
from gnomon.backends.iree.targets import find_target
from gnomon.backends.long_sums import ROWS, STAGE
from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import operands_of
from gnomon.dialects.contract import all_operations, instance_of
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.types import type_of

N = 20_003
# The most cumulative terms, and the most products in a contraction.
SCANNED, MULTIPLIED = 128, 4096


def _program(x: Any, rows: Any, z: Any) -> list[Any]:
    return [
        *(gnp.sum(rows, 0), gnp.sum(x), gnp.sum(rows), gnp.sum(rows.T * 2, 1), gnp.sum(z, 0)),
        *(gnp.cumsum(x), gnp.cumsum(rows, 0), gnp.cumsum(z[::-1], 0), lax.cumlogsumexp(x)),
        *(gnp.dot(x, x), x @ rows, rows.T @ rows, gnp.cumsum(x.astype("bfloat16"))),
    ]


def _terms(op: ir.Operation) -> tuple[int, int]:
    """The number of terms that an op adds in order, and the most that it may add."""
    params, (shape, *_) = instance_of(op).params, [type_of(v).shape for v in operands_of(op)]
    if op.name == "gnomon.dot_general":
        return math.prod(shape[d] for d in params["lhs_contracting"]), MULTIPLIED
    if op.name != "gnomon.reduce_sum":
        return shape[params["axis"]], SCANNED
    rows = math.prod(shape[d] for d in params["axes"] if d != len(shape) - 1)
    return (rows, ROWS) if rows > ROWS else (math.prod(shape[d] for d in params["axes"]), 4 * STAGE)


@pytest.mark.parametrize("target", ["cpu", "vulkan", "cuda", "aarch64-linux"])
def test_legalized_programs_add_few_terms_in_order(target: str) -> None:
    x = np.random.default_rng(0).random(N, np.float32)
    rows, z = np.stack([x, x[::-1]], 1), (x + 1j * x).astype(np.complex64)
    module = ir.Module.parse(gn.jit(_program).lower(x, rows, z).as_text("gnomon"), context())
    legalize(module, find_target(target))
    program = Program(module)
    seen = 0
    for function in program.functions:
        for op in all_operations(program.body(symbol_name(function))):
            name = op.name.removeprefix("gnomon.")
            if name in ("reduce_sum", "cumsum", "cumlogsumexp", "dot_general"):
                terms, most = _terms(op)
                assert terms <= most, op
                seen += 1
    assert seen > 12
    results = Evaluator(program)("main", x, rows, z)
    for result, expected in zip(results, _program(*map(gnp.asarray, (x, rows, z))), strict=True):
        off = 0.02 if expected.dtype.itemsize == 2 else 1e-5
        np.testing.assert_allclose(
            np.asarray(result).astype("c16"), np.asarray(expected).astype("c16"), rtol=off
        )
