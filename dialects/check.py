"""``gnomon.check``: a condition that the user asserts, and the message for when it is false.

Like a callback, a check refers to a Python object by number: the function that formats the message
from the payload, called only when the message is read. `passes.functionalize_checks` replaces
checks by values. A check that remains raises an error when it is evaluated and fails, and whenever
it is lowered; a debug check that remains does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import BOOL, INT, STRING
from gnomon.dialects.callbacks import callback_of
from gnomon.dialects.combinators import Values, require, to_front
from gnomon.dialects.contract import NOT_LINEAR, ZERO_TANGENT, Instance, MappedAxis, Op
from gnomon.dialects.emit import constant, ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, type_of


class JaxRuntimeError(ValueError):
    """A failed check or another error that `checkify` found; the name is JAX's."""


def _infer(
    predicate: TensorType, *payload: TensorType, callback: int, message: str, debug: bool
) -> tuple[TensorType, ...]:
    expected = TensorType((), np.dtype(np.bool_))
    require(predicate == expected, "check", f"the predicate must be {expected}, got {predicate}")
    return ()


def _evaluate(
    predicate: np.ndarray, *payload: np.ndarray, callback: int, message: str, debug: bool
) -> tuple[()]:
    if not predicate and not debug:
        (text,) = callback_of(callback).function(*payload)
        raise JaxRuntimeError(text)
    return ()


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    """All elements must pass; the payload is that of the first element that fails."""
    predicate, *payload = to_front(operands, dims, axis, only_batched=True)
    first = constant(np.int32(0))
    if dims[0] is not None:
        if axis.size:
            first = ops.argmax(ops.not_(predicate), axis=0, index_dtype=np.dtype(np.int32))
        predicate = ops.reduce_and(predicate, axes=(0,))
    chosen = [
        x if dim is None else _element(x, first) for x, dim in zip(payload, dims[1:], strict=True)
    ]
    inst.op.build([predicate, *chosen], inst.params)
    return [], []


def _element(x: ir.Value, index: ir.Value) -> ir.Value:
    size, *shape = type_of(x).shape
    if not size:
        return zeros(type_of(x).with_shape(tuple(shape)))
    starts = [index, *(constant(np.int32(0)) for _ in shape)]
    return ops.reshape(ops.dynamic_slice(x, *starts, sizes=(1, *shape)), shape=tuple(shape))


def _lower(inst: Instance) -> list[Any]:
    if inst.params["debug"]:
        return []
    raise ValueError(
        "Cannot abstractly evaluate a checkify.check which was not functionalized. This probably "
        "means you tried to stage (jit/scan/pmap/...) a `check` without functionalizing it through "
        f"`checkify.checkify`. The check is {inst.params['message']!r} ({ir.Location.current})"
    )


_EXAMPLE = """\
%given = builtin.unrealized_conversion_cast %ok, %x
    : tensor<i1>, tensor<f32> to tuple<tensor<i1>, tensor<f32>>
"gnomon.check"(%given) {callback = 0 : i64, message = "x must be positive", debug = false}
    : (tuple<tensor<i1>, tensor<f32>>) -> ()"""

check = Op(
    name="check",
    doc="assert a condition; the other operands are formatted into the message when it is false",
    example=_EXAMPLE,
    attributes={"callback": INT, "message": STRING, "debug": BOOL},
    results=0,
    effects=True,
    form=Form.HOST,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=_evaluate,
    jvp=ZERO_TANGENT,
    transpose=NOT_LINEAR,
    batch=_batch,
    sharding=sharding_rules.undetermined,
    lower=_lower,
)

__all__ = ["JaxRuntimeError", "check"]
