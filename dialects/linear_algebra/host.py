"""The StableHLO form of factorizations that StableHLO lacks: a custom call that names the op.

A backend that runs such a program evaluates the op on the host or maps it to a library.
"""

from __future__ import annotations

from gnomon.dialects.contract import Instance
from gnomon.dialects.errors import NoDynamicForm
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.types import mlir_type


def on_host(inst: Instance) -> list[ir.Value]:
    """``stablehlo.custom_call @gnomon.<op>``, with the op's parameters as a dictionary."""
    if any(any_symbolic(t.shape) for t in (*inst.operand_types, *inst.result_types)):
        raise NoDynamicForm("the host computes it for arrays of fixed sizes only")
    parameters = inst.op.encode(inst.params)
    created = ir.Operation.create(
        "stablehlo.custom_call",
        results=[mlir_type(t) for t in inst.result_types],
        operands=list(inst.operands),
        attributes={
            "call_target_name": ir.StringAttr.get(inst.op.full_name),
            "has_side_effect": ir.BoolAttr.get(False),
            # The typed FFI, which takes a dictionary of parameters.
            "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
            "backend_config": ir.DictAttr.get(parameters),
        },
    )
    return list(created.results)
