"""``gnomon.host_call``: an op that Python evaluates in the middle of a compiled program.

A backend uses it in place of an op that its compiler cannot compile (a callback), or for which
LAPACK is faster (a factorization). The op's name, its encoded attributes and the types of its
results are enough to call the op's ``evaluate`` facet in another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import DICTIONARY, STRING, TYPES
from gnomon.dialects.contract import EXPANDED, REGISTRY, Instance, Op, TypeRuleError
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType


def _infer(
    *types: TensorType, op: str, params: Any, given: tuple[TensorType, ...], symbol: str
) -> tuple[TensorType, ...]:
    if f"gnomon.{op}" not in REGISTRY:
        raise TypeRuleError(f"host_call: the gnomon dialect has no op '{op}'")
    return given


def evaluate_on_host(
    op: Op, params: dict[str, Any], results: Sequence[TensorType], arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Evaluate an op; convert its results to the expected dtypes and check their shapes.

    Args:
      op: an op with an ``evaluate`` rule.
      params: its parameters.
      results: the types of its results.
      arrays: its operands.

    Raises:
      TypeError: a result does not have the expected shape.
    """
    rule: Any = op.evaluate
    out = rule(*arrays, **params)
    values = (out,) if op.results == 1 else tuple(out)
    converted = [np.asarray(v, t.dtype) for v, t in zip(values, results, strict=True)]
    for value, type_ in zip(converted, results, strict=True):
        if value.shape != type_.shape:
            raise TypeError(
                f"{op.full_name} returned an array of shape {value.shape} to a program that "
                f"expects {type_}"
            )
    return converted


def _evaluate(
    *arrays: np.ndarray, op: str, params: Any, given: tuple[TensorType, ...], symbol: str
) -> list[np.ndarray]:
    definition = REGISTRY[f"gnomon.{op}"]
    return evaluate_on_host(definition, definition.decode(params), given, arrays)


def _lower(inst: Instance) -> list[ir.Value]:
    results: list[ir.Value] = inst.engine.call_external(inst, inst.params["symbol"])
    return results


host_call = Op(
    name="host_call",
    doc="the named op of the dialect, evaluated by Python; ``symbol`` is the function that "
    "compiled code calls for it",
    example='%l = "gnomon.host_call"(%a) {op = "sin", params = {}, given = [tensor<4xf32>], '
    'symbol = "host.f0"} : (tensor<4xf32>) -> tensor<4xf32>',
    attributes={"op": STRING, "params": DICTIONARY, "given": TYPES, "symbol": STRING},
    results=None,
    # The op may call a user's function, which must run exactly as often as the program says.
    effects=True,
    form=Form.HOST,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=_evaluate,
    jvp=EXPANDED,
    transpose=EXPANDED,
    batch=EXPANDED,
    sharding=sharding_rules.undetermined,
    lower=_lower,
)


def call_on_host(inst: Instance) -> list[ir.Value]:
    """The rewrite rule that replaces an op by a host call.

    Raises:
      TypeError: the op has regions, whose evaluation needs the whole program.
    """
    if inst.op.is_control_flow:
        raise TypeError(f"{inst.op.full_name} has regions: it cannot be called on the host")
    params = {
        "op": inst.op.name,
        "params": inst.op.encode(inst.params),
        "given": inst.result_types,
        "symbol": "",
    }
    return host_call.build(inst.operands, params)


__all__ = ["call_on_host", "evaluate_on_host", "host_call"]
