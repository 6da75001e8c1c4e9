"""Arrays in loops, kept in the dtype in which the loop's updates and reads need them.

IREE handles some dtypes badly, so that an update of a slice works on bits, or on bytes for bools
(`data_movement.storage`). In a loop, each iteration would convert the whole array before its update
and back after it. Here the loop carries the stored form: it is made once before the loop, and
converted back once after it. What else reads the array in the loop converts the elements that it
reads. An array that the loop only reads is stored once, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.aliases import name_of
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.body import Body, erase, is_unpacking, operands_of, results_of
from gnomon.dialects.contract import bodies_of, lookup, params_of
from gnomon.dialects.control_flow import while_
from gnomon.dialects.control_flow.bodies import split
from gnomon.dialects.emit import constant_value, convert, ops
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import BOOL, TensorType, type_of

__all__ = ["LEGALIZATIONS", "keep_stored"]

_BYTE = np.dtype(np.int8)
# The elements of their results are elements of their operands.
_MOVES = (
    *("dynamic_update_slice", "dynamic_slice", "scatter", "scatter_max", "scatter_min", "gather"),
    *("slice", "reshape", "broadcast_in_dim", "transpose", "concatenate", "select", "max", "min"),
)


def keep_stored(program: Program, target: Target) -> None:
    """Rewrite all loops of a program in place, inner ones first."""
    for function in program.functions:
        _keep_in(program.body(symbol_name(function)))


def _keep_in(body: Body) -> None:
    for op in body.region_operations:
        for inner in bodies_of(op):
            _keep_in(inner)
        if lookup(op) is while_:
            _join_conversions(bodies_of(op)[1])
            loop = _Loop(op)
            if not loop.is_converted:
                continue
            with ir.InsertionPoint(op), op.location:
                values = loop.rewritten()
            for old, new in zip(results_of(op), values, strict=True):
                old.replace_all_uses_with(new)
            erase(op)


def _maker(value: ir.Value) -> ir.Operation | None:
    """The op that computes a value; None for an argument."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    return op.operands[0].owner.operation if is_unpacking(op) else op


def _is_conversion(op: ir.Operation, source: TensorType, result: TensorType) -> bool:
    """Whether an op stores a value, or loads it: its bits, or bools as bytes."""
    if source.dtype.itemsize != result.dtype.itemsize or not source.rank:
        return False
    if BOOL in (source.dtype, result.dtype):
        return name_of(op) == "convert" and _BYTE in (source.dtype, result.dtype)
    return name_of(op) == "bitcast_convert"


def _loaded_from(value: ir.Value) -> ir.Value | None:
    """The stored form that a value is loaded from; None if it is computed in another way."""
    op = _maker(value)
    if op is None or name_of(op) not in ("convert", "bitcast_convert"):
        return None
    (stored,) = operands_of(op)
    if not _is_conversion(op, type_of(stored), type_of(value)):
        return None
    return None if type_of(value).dtype == BOOL and not _holds_bools(stored) else stored


def _holds_bools(stored: ir.Value) -> bool:
    """Whether all bytes of an array are 0 or 1, as its own computation tells."""
    waiting, seen = [stored], set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        op = _maker(value)
        if op is None:
            return False
        operands = operands_of(op)
        if name_of(op) == "while":
            n = results_of(op).index(value)
            body = bodies_of(op)[1]
            first = len(operands) - len(body.results)
            # If the carry holds bools, so does the next one: then all of them do.
            seen.add(body.arguments[params_of(op)["body_consts"] + n])
            waiting += [operands[first + n], body.results[n]]
        elif name_of(op) == "optimization_barrier":
            waiting.append(operands[results_of(op).index(value)])
        elif name_of(op) in _MOVES:
            waiting += [x for x in operands if type_of(x).dtype == _BYTE]
        elif name_of(op) != "convert" or type_of(operands[0]).dtype != BOOL:
            found = constant_value(value)
            if found is None or not np.isin(found, (0, 1)).all():
                return False
    return True


def _store(value: ir.Value, dtype: np.dtype) -> ir.Value:
    if (stored := _loaded_from(value)) is not None and type_of(stored).dtype == dtype:
        return stored
    return _converted(value, dtype)


def _converted(value: ir.Value, dtype: np.dtype) -> ir.Value:
    if BOOL in (type_of(value).dtype, dtype):
        return convert(value, dtype)
    return value if type_of(value).dtype == dtype else ops.bitcast_convert(value, dtype=dtype)


def _join_conversions(body: Body) -> None:
    """Let an update read the stored form of what the update before it has loaded."""
    for op in body.operations:
        if name_of(op) in ("convert", "bitcast_convert"):
            (value,), (result,) = operands_of(op), results_of(op)
            stored = _loaded_from(value)
            if stored is not None and stored.type == result.type:
                result.replace_all_uses_with(stored)


def _stores(value: ir.Value) -> list[ir.Value]:
    """The stored forms that are made of a value."""
    made = []
    for use in value.uses:
        op = use.owner.operation
        if name_of(op) in ("convert", "bitcast_convert"):
            (result,) = results_of(op)
            if _is_conversion(op, type_of(value), type_of(result)):
                made.append(result)
    return made


class _Loop:
    """One ``gnomon.while``; `rewritten` emits its replacement at the current insertion point."""

    def __init__(self, op: ir.Operation) -> None:
        self.params = params_of(op)
        self.for_cond, self.for_body, self.carry = split(
            operands_of(op), self.params["cond_consts"], self.params["body_consts"]
        )
        self.cond, self.body = bodies_of(op)
        loaded = map(_loaded_from, self.body.results)
        self.dtypes = [
            type_of(v).dtype if stored is None else type_of(stored).dtype
            for v, stored in zip(self.carry, loaded, strict=True)
        ]
        # The constants that the body stores, each with the dtype.
        self.stored = [
            (i, dtype)
            for i, argument in enumerate(self.body.arguments[: len(self.for_body)])
            for dtype in sorted({type_of(s).dtype for s in _stores(argument)}, key=str)
        ]

    @property
    def is_converted(self) -> bool:
        """Whether an array is stored in another dtype than its own."""
        dtypes = [type_of(v).dtype for v in self.carry]
        return bool(self.stored) or dtypes != self.dtypes

    def rewritten(self) -> list[ir.Value]:
        """The results of the loop with stored carries."""
        carry = [_store(v, d) for v, d in zip(self.carry, self.dtypes, strict=True)]
        for_body = [*self.for_body, *(_store(self.for_body[i], d) for i, d in self.stored)]
        carry_types = [type_of(v) for v in carry]
        values = while_.build(
            [*self.for_cond, *for_body, *carry],
            {**self.params, "body_consts": len(for_body)},
            [
                Body.build([*map(type_of, self.for_cond), *carry_types], self._condition),
                Body.build([*map(type_of, for_body), *carry_types], self._iteration),
            ],
        )
        return self._loaded(values)

    def _loaded(self, carry: Sequence[ir.Value]) -> list[ir.Value]:
        wanted = (type_of(v).dtype for v in self.carry)
        return [_converted(v, d) for v, d in zip(carry, wanted, strict=True)]

    def _condition(self, *arguments: ir.Value) -> list[ir.Value]:
        consts, carry = split(arguments, len(self.for_cond))
        return self.cond.inline([*consts, *self._loaded(carry)])

    def _iteration(self, *arguments: ir.Value) -> list[ir.Value]:
        consts, stored, carry = split(arguments, len(self.for_body), len(self.stored))
        loaded = self._loaded(carry)
        results = self.body.inline([*consts, *loaded])
        kept = list(zip(loaded, carry, strict=True))
        kept += ((consts[i], value) for (i, _), value in zip(self.stored, stored, strict=True))
        for value, form in kept:
            for made in _stores(value):
                if made.type == form.type and made not in results:
                    made.replace_all_uses_with(form)
        parts = _parts_of({v: form for v, form in kept if v.type != form.type})
        # What is carried in another dtype is loaded at the end of the body.
        return [
            parts.get(v, v) if type_of(v).dtype == d else _operand_of_load(v)
            for v, d in zip(results, self.dtypes, strict=True)
        ]


def _parts_of(kept: dict[ir.Value, ir.Value]) -> dict[ir.Value, ir.Value]:
    """Read parts of loaded arrays from their stored forms; the new value of each part."""
    parts = {}
    for op in list(ir.InsertionPoint.current.block.operations):
        if name_of(op.operation) != "dynamic_slice":
            continue
        whole, *starts = operands_of(op.operation)
        if whole in kept:
            (part,) = results_of(op.operation)
            with ir.InsertionPoint(op), op.location:
                read = ops.dynamic_slice(kept[whole], *starts, sizes=type_of(part).shape)
                parts[part] = _converted(read, type_of(part).dtype)
            part.replace_all_uses_with(parts[part])
    return parts


def _operand_of_load(value: ir.Value) -> ir.Value:
    op = _maker(value)
    assert op is not None
    return operands_of(op)[0]


LEGALIZATIONS = (
    Legalization(
        name="stored-carries",
        stage=Stage.REWRITE_AGAIN,
        kind=Kind.SLOW,
        doc="keep the arrays that loops update in the dtype of the updates",
        upstream="IREE 3.13 converts a whole array before and after each update of a slice of it, "
        "if the update works on its bits",
        reproducer="100 updates of one element of bf16[1048576] in a loop take over four times the "
        "processor time",
        run=keep_stored,
    ),
)
