"""Selects of complex numbers, part by part: IREE 3.13 cannot translate them to SPIR-V.

Many ops are lowered to such selects, and guards of loops contain them, so the pass works on
StableHLO. The compiler's own expansions of two ops contain them, so these are expanded here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets, always
from gnomon.backends.iree.targets import Target
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import full_like, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex

__all__ = ["LEGALIZATIONS", "split_complex_selects"]

_SELECT = "stablehlo.select"


def split_complex_selects(module: ir.Module, target: Target) -> bool:
    """Rewrite the complex selects of a StableHLO module in place."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == _SELECT and _is_complex(op.results[0].type):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            predicate, *choices = op.operands
            parts = []
            for name in ("stablehlo.real", "stablehlo.imag"):
                values = [_part(name, x) for x in choices]
                parts.append(_create(_SELECT, values[0].type, [predicate, *values]))
            whole = _create("stablehlo.complex", op.results[0].type, parts)
        op.results[0].replace_all_uses_with(whole)
        op.erase()
    return bool(found)


def _is_complex(type_: ir.Type) -> bool:
    return isinstance(ir.RankedTensorType(type_).element_type, ir.ComplexType)


def _part(name: str, x: ir.Value) -> ir.Value:
    type_ = ir.RankedTensorType(x.type)
    element = ir.ComplexType(type_.element_type).element_type
    return _create(name, ir.RankedTensorType.get(type_.shape, element), [x])


def _create(name: str, type_: ir.Type, operands: list[ir.Value]) -> ir.Value:
    return ir.Operation.create(name, results=[type_], operands=operands).results[0]


def _sign(inst: Instance) -> Sequence[ir.Value] | None:
    if not is_complex(inst.type.dtype):
        return None
    z = inst.operand
    size = ops.abs(z)
    zero = full_like(size, 0)
    is_zero = ops.eq(size, zero)
    parts = (ops.select(is_zero, zero, ops.div(part(z), size)) for part in (ops.real, ops.imag))
    return [ops.complex(*parts)]


def _pow(inst: Instance) -> Sequence[ir.Value] | None:
    if not is_complex(inst.type.dtype):
        return None
    z, w = inst.operands
    zero = full_like(z, 0)
    power = ops.exp(ops.mul(w, ops.log(z)))
    grows = ops.gt(ops.real(w), full_like(ops.real(w), 0))
    of_zero = ops.select(grows, zero, full_like(z, complex(np.nan, np.nan)))
    of_zero = ops.select(ops.eq(w, zero), full_like(z, 1), of_zero)
    return [ops.select(ops.eq(z, zero), of_zero, power)]


_LACKING = Targets.where(complex_selects=False)
_NOT_WRITTEN = "IREE 3.13 cannot translate a select of complex numbers to SPIR-V"

LEGALIZATIONS = (
    Legalization(
        name="complex-signs-and-powers",
        stage=Stage.DECOMPOSE,
        kind=Kind.REFUSED,
        doc="expand complex signs and powers, whose expansions by IREE contain complex selects",
        upstream=_NOT_WRITTEN,
        texts=("selects_of_complex_numbers",),
        reproducer="`x ** x` of complex64 for `metal` does not compile",
        targets=_LACKING,
        rules=always({"gnomon.sign": _sign, "gnomon.pow": _pow}),
    ),
    Legalization(
        name="complex-selects",
        stage=Stage.LAST,
        kind=Kind.REFUSED,
        doc="write selects of complex numbers part by part",
        upstream=_NOT_WRITTEN,
        texts=("selects_of_complex_numbers",),
        reproducer="`where` of complex64 for `metal` does not compile",
        targets=_LACKING,
        run=split_complex_selects,
    ),
)
