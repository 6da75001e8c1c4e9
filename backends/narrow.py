"""Rewrite programs on 8-bit floats and on integers of 4 and 2 bits to programs on bytes.

IREE 3.13 generates no CPU code for arithmetic on the 8-bit formats, and it packs small integers,
which works only if the sizes are whole bytes. XLA's CPU compiler aborts on some ops on small
integers. This pass turns every value of such a dtype into one of its storage dtype
(`narrow_formats`). Ops that only move elements move the bytes. All other ops are applied to the
decoded values, and their results are rounded or wrapped once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.narrow_formats import (
    bits_of,
    clamped,
    computed,
    from_memory,
    from_typed,
    is_narrow,
    narrowed,
    storage,
    to_memory,
    to_typed,
    widened,
)
from gnomon.dialects.attributes import DTYPE
from gnomon.dialects.body import Body, clone_into, create, operands_of, results_of
from gnomon.dialects.callbacks import call_back, callback_of
from gnomon.dialects.contract import Instance, attach_bodies, instance_of
from gnomon.dialects.elementwise.expansion import emitted
from gnomon.dialects.elementwise.representation import following_bits
from gnomon.dialects.emit import constant, convert, full_like, ops, reshape, slice_along
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import (
    SUB_BYTE,
    UNSIGNED,
    TensorType,
    is_complex,
    is_floating,
    is_integer,
    mlir_type,
    short_name,
    tensor_type,
    type_of,
)

__all__ = ["legalize_narrow_dtypes", "mentions"]

_Rule: TypeAlias = "Callable[[Instance], Sequence[ir.Value]]"

_I8, _U8 = np.dtype(np.int8), np.dtype(np.uint8)

# Ops that only move elements move the bytes: these forms, and some other ops.
_MOVING_FORMS = (Form.VIEW, Form.JOIN, Form.INDEXING, Form.IDENTITY, Form.CONTROL)
_MOVES = frozenset({"scatter", "select", "stop_gradient"})

# Empty reductions, and gathers out of bounds, result in an end of the wider dtype's range.
_CLAMPED = frozenset(
    {
        *("reduce_max", "reduce_min", "reduce_window_max", "reduce_window_min"),
        *("cummax", "cummin", "gather"),
    }
)


def legalize_narrow_dtypes(program: Program, *, keep_signature: bool = False) -> None:
    """Rewrite every function of a program that has values of narrow dtypes.

    Args:
      program: the program; its functions keep their names.
      keep_signature: whether the arguments and results of ``main`` keep their dtypes and are
        converted; otherwise those of narrow dtypes become bytes as in NumPy arrays.
    """
    boundary = _CONVERTED if keep_signature else _IN_MEMORY
    for function in program.functions:
        name = symbol_name(function)
        body = program.body(name)
        if not mentions(body, is_narrow):
            continue
        public = "sym_visibility" not in function.attributes
        rewritten = _body(body, boundary if public else None)
        location = function.location
        program.erase(name)
        program.add(name, rewritten, public=public, location=location)


def mentions(body: Body, chosen: Callable[[np.dtype], bool]) -> bool:
    """Whether a body has values whose dtype satisfies a predicate."""
    if any(chosen(t.dtype) for t in body.argument_types):
        return True
    # A program has few types, so the predicate is asked once for each.
    types: set[ir.Type] = set()
    for op in body.operations:
        types.update([result.type for result in results_of(op)])
    if any(chosen(tensor_type(type_).dtype) for type_ in types):
        return True
    return any(
        mentions(Body(block), chosen)
        for op in body.region_operations
        for region in op.regions
        for block in region.blocks
    )


def _stored(type_: TensorType) -> TensorType:
    return type_.with_dtype(storage(type_.dtype))


class _Boundary(NamedTuple):
    """The form of the arguments and results of ``main``, and conversions to stored values.

    Attributes:
      type_: maps a narrow type to the type of the argument or result.
      enter: converts an argument to a stored value.
      leave: converts a stored value to a result.
    """

    type_: Callable[[TensorType], TensorType]
    enter: Callable[[ir.Value, np.dtype], ir.Value]
    leave: Callable[[ir.Value, np.dtype], ir.Value]


_IN_MEMORY = _Boundary(_stored, from_memory, to_memory)
_CONVERTED = _Boundary(lambda type_: type_, from_typed, to_typed)


def _body(body: Body, boundary: _Boundary | None = None) -> Body:
    """A body on stored values; with a boundary, its arguments and results have that form."""

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        given = list(arguments)
        if boundary is not None:
            given = [
                boundary.enter(x, t.dtype) for x, t in zip(given, body.argument_types, strict=True)
            ]
        env = dict(zip(body.arguments, given, strict=True))
        for op in body.operations:
            with op.location:
                _rewrite(op, env)
        results = [env[r] for r in body.results]
        if boundary is not None:
            results = [
                boundary.leave(x, t.dtype) for x, t in zip(results, body.result_types, strict=True)
            ]
        return results

    types = map(boundary.type_ if boundary is not None else _stored, body.argument_types)
    return Body.build(list(types), emit)


def _rewrite(op: ir.Operation, env: dict[ir.Value, ir.Value]) -> None:
    results = results_of(op)
    involved = [type_of(v).dtype for v in (*operands_of(op), *results)]
    if not any(map(is_narrow, involved)) and not op.regions:
        clone_into(op, env)
        return
    inst = instance_of(op, [env[v] for v in operands_of(op)])
    is_moved = inst.op.form in _MOVING_FORMS or inst.op.name in _MOVES
    is_moved = is_moved and inst.op.name not in _CLAMPED
    values = _moved(op, inst) if is_moved else _rule(inst.op.name)(inst)
    env.update(zip(results, values, strict=True))


def _rule(name: str) -> _Rule:
    return _RULES.get(name, _applied)


# ---------------------------------------------------------------------------------- the two ways


def _moved(op: ir.Operation, inst: Instance) -> list[ir.Value]:
    """Apply an op to the stored values."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    types = [mlir_type(_stored(t)) for t in inst.result_types]
    if inst.op.operands is not ... and not inst.bodies:
        created = ir.Operation.create(
            op.name, results=types, operands=list(inst.operands), attributes=attributes
        )
        return list(created.results)
    created, results = create(op.name, types, inst.operands, attributes, len(op.regions))
    if inst.bodies:
        attach_bodies(inst.op, created, [_body(b) for b in inst.bodies])
    return results


def _applied(inst: Instance) -> list[ir.Value]:
    """Apply an op to the decoded values and encode its results."""
    operands = [widened(x, t.dtype) for x, t in zip(inst.operands, inst.operand_types, strict=True)]
    given = {computed(t.dtype) for t in inst.operand_types if is_narrow(t.dtype)}
    params = dict(inst.params)
    for name, kind in inst.op.attributes.items():
        if kind is DTYPE:
            params[name] = _result_dtype(params[name], given)
    results = inst.op.build(operands, params)
    return [_rounded(inst, x, t) for x, t in zip(results, inst.result_types, strict=True)]


def _result_dtype(dtype: np.dtype, given: set[np.dtype]) -> np.dtype:
    """The dtype in which to compute a result of ``dtype`` from operands computed in ``given``."""
    wide = computed(dtype)
    # Sums of 8-bit floats are accumulated in f32 even if the result is a 16-bit float.
    is_wider = is_floating(wide) and any(d.itemsize > wide.itemsize for d in given)
    return next(iter(given)) if is_wider else wide


def _rounded(inst: Instance, x: ir.Value, type_: TensorType) -> ir.Value:
    if not is_narrow(type_.dtype):
        return convert(x, type_.dtype)
    if inst.op.name in _CLAMPED:
        x = clamped(x, type_.dtype)
    return narrowed(x, type_.dtype)


def _refuse(inst: Instance) -> list[ir.Value]:
    types = [*inst.operand_types, *inst.result_types]
    names = sorted({short_name(t.dtype) for t in types if is_narrow(t.dtype)})
    raise UnsupportedOnTarget(
        f"a compiled program calls a Python function with arrays of {', '.join(names)}, which "
        "compiled code stores as bytes; convert to another dtype before the call and back after it"
    )


# ---------------------------------------------------------------------------------- special rules


def _call_of_python(inst: Instance) -> list[ir.Value]:
    """Call Python with stored values, which a function around the callback converts."""
    types, given = tuple(inst.operand_types), tuple(inst.result_types)
    number = inst.params["callback"]

    def on_stored_values(*arrays: np.ndarray) -> list[np.ndarray]:
        operands = [_from_stored(a, t.dtype) for a, t in zip(arrays, types, strict=True)]
        results = call_back(number, given, operands)
        return [_to_stored(r) for r in results]

    callback = callback_of(number).derived((types, given), on_stored_values)
    params = {**inst.params, "callback": callback.number}
    if "given" in params:
        params["given"] = tuple(map(_stored, given))
    return list(inst.op.build(inst.operands, params))


def _from_stored(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if not is_narrow(dtype):
        return array
    return array.astype(dtype) if dtype in SUB_BYTE else array.view(dtype)


def _to_stored(array: np.ndarray) -> np.ndarray:
    if not is_narrow(array.dtype):
        return array
    stored = storage(array.dtype)
    return array.astype(stored) if array.dtype in SUB_BYTE else array.view(stored)


def _constant(inst: Instance) -> list[ir.Value]:
    value: np.ndarray = inst.params["value"]
    dtype = value.dtype
    if is_floating(dtype):
        return [constant(value.view(_U8))]
    return [constant(value.astype(storage(dtype)))]


def _convert(inst: Instance) -> list[ir.Value]:
    (source,), target = inst.operand_types, inst.type.dtype
    x = widened(inst.operand, source.dtype)
    if not is_narrow(target):
        return [convert(x, target)]
    if is_complex(source.dtype):
        x = ops.real(x)
    if is_integer(target) and is_floating(type_of(x).dtype):
        wide = ops.convert(x, dtype=storage(target))
        return [narrowed(clamped(wide, target), target)]
    if is_floating(target) and not is_floating(type_of(x).dtype):
        x = convert(x, np.dtype(np.float32))
    return [narrowed(x, target)]


def _bitcast(inst: Instance) -> list[ir.Value]:
    """Reinterpret bits: convert narrow integers to and from bytes, or repack them."""
    (source,), result = inst.operand_types, inst.type
    x = inst.operand
    source_bits, bits = (_bits_below_byte(d) for d in (source.dtype, result.dtype))
    if source_bits:
        x = _unsigned(x, source.dtype)
        if source_bits < (bits or 8):
            x = _packed(x, source_bits, (bits or 8) // source_bits)
    if not bits:
        return [ops.bitcast_convert(x, dtype=storage(result.dtype))]
    if not source_bits:
        x = ops.bitcast_convert(x, dtype=_U8)
    whole = source_bits or 8
    if whole > bits:
        x = reshape(_unpacked(x, bits, whole // bits), result.shape)
    return [narrowed(x, result.dtype)]


def _bits_below_byte(dtype: np.dtype) -> int:
    return bits_of(dtype) if dtype in SUB_BYTE else 0


def _packed(x: ir.Value, bits: int, count: int) -> ir.Value:
    """Pack each ``count`` values along the last dimension into one, the first one lowest."""
    shape = type_of(x).shape
    last = len(shape) - 1
    parts = [slice_along(x, last, i, shape[last], count) for i in range(count)]
    total = parts[0]
    for i, part in enumerate(parts[1:], 1):
        total = ops.or_(total, ops.shift_left(part, full_like(part, bits * i)))
    return reshape(total, shape[:-1]) if shape[last] == count else total


def _unpacked(x: ir.Value, bits: int, count: int) -> ir.Value:
    """Unpack the parts of values into a new last dimension, the lowest first."""
    split = reshape(x, (*type_of(x).shape, 1))
    parts = [ops.shift_right_logical(split, full_like(split, bits * i)) for i in range(count)]
    return ops.concatenate(*parts, dimension=type_of(split).rank - 1)


def _unsigned(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """The bits of a narrow integer as a ``ui8``, zero-extended."""
    x = convert(x, _U8)
    return ops.and_(x, full_like(x, 2 ** bits_of(dtype) - 1))


def _on_bits(emit: Callable[[ir.Value, ir.Value | None, int], ir.Value]) -> _Rule:
    """A rule that applies ``emit(x, y, bits)`` to the bits of narrow integers as ``ui8``."""

    def rule(inst: Instance) -> list[ir.Value]:
        dtype = inst.type.dtype
        x, *others = (_unsigned(v, dtype) for v in inst.operands)
        result = emit(x, others[0] if others else None, bits_of(dtype))
        return [narrowed(result, dtype)]

    return rule


def _leading_zeros(x: ir.Value, _: ir.Value | None, bits: int) -> ir.Value:
    return ops.sub(ops.clz(x), full_like(x, 8 - bits))


def _mulhi(inst: Instance) -> list[ir.Value]:
    dtype = inst.type.dtype
    product = ops.mul(*inst.operands)
    shift = ops.shift_right_logical if dtype in UNSIGNED else ops.shift_right_arithmetic
    return [narrowed(shift(product, full_like(product, bits_of(dtype))), dtype)]


def _shift_right_arithmetic(inst: Instance) -> list[ir.Value]:
    dtype = inst.type.dtype
    x, y = (convert(v, _I8) for v in inst.operands)
    unused = full_like(x, 8 - bits_of(dtype))
    signed = ops.shift_right_arithmetic(ops.shift_left(x, unused), unused)
    return [narrowed(ops.shift_right_arithmetic(signed, y), dtype)]


def _following(inst: Instance) -> list[ir.Value]:
    """The next number of an 8-bit format, whose codes are stored."""
    dtype = inst.type.dtype
    x, y = (widened(v, dtype) for v in inst.operands)
    bits, target = (ops.bitcast_convert(v, dtype=_I8) for v in inst.operands)
    following = following_bits(emitted, x, y, bits, target, dtype)
    return [ops.bitcast_convert(following, dtype=_U8)]


_RULES: dict[str, _Rule] = {
    "shift_right_arithmetic": _shift_right_arithmetic,
    **dict.fromkeys(("pure_callback", "io_callback", "debug_callback"), _call_of_python),
    "host_call": _refuse,
    "constant": _constant,
    "convert": _convert,
    "bitcast_convert": _bitcast,
    "clz": _on_bits(_leading_zeros),
    "population_count": _on_bits(lambda x, _, bits: ops.population_count(x)),
    "shift_right_logical": _on_bits(lambda x, y, bits: ops.shift_right_logical(x, y)),
    "mulhi": _mulhi,
    "nextafter": _following,
}
