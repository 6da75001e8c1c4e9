"""Operations that make and move elements: constants, broadcasts, slices, concatenations, pads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.standalone_c.types import c_type, initializer, literal, of_type
from gnomon.backends.standalone_c.values import (
    Buffer,
    Flat,
    Index,
    Lazy,
    Stored,
    Value,
    flattened,
    plus,
    times,
)
from gnomon.dialects.attributes import constant_elements
from gnomon.dialects.slicing import padded_range
from gnomon.dialects.types import TensorType, bfloat16, is_complex

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["MOVEMENTS", "copied", "remapped", "splat", "start_of"]

_PER_LINE = 12


def splat(type_: TensorType, text: str) -> Lazy:
    """A value all of whose elements are one C expression."""
    return Lazy(type_, lambda _, __: text, frozenset(), True, True)


def _constant(emitter: Emitter, operation: Operation) -> list[Value]:
    array: np.ndarray = constant_elements(operation.op)
    type_ = operation.type
    kind = of_type(type_)
    if array.size == 0:
        return [splat(type_, "0")]
    flat = array.reshape(-1)
    raw = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
    if (raw == raw[0]).all():
        return [splat(type_, literal(flat[0], type_.dtype))]
    if type_.dtype in (np.float16, bfloat16):
        texts = [str(int(x)) for x in flat.view(np.uint16)]
    else:
        texts = [initializer(x, type_.dtype) for x in flat]
    name = emitter.name("gnomon_constant_")
    lines = [
        "  " + ", ".join(texts[i : i + _PER_LINE]) + "," for i in range(0, len(texts), _PER_LINE)
    ]
    head = f"static const {kind.stored} {name}[{flat.size}] = {{"
    emitter.constants.append("\n".join([head, *lines, "};"]))
    return [Stored(Buffer(name, type_), type_)]


def _iota(emitter: Emitter, operation: Operation) -> list[Value]:
    dimension, type_ = int(operation.attribute("iota_dimension")), operation.type
    kind = c_type(type_.dtype)
    if is_complex(type_.dtype):
        raise UnsupportedOnTarget(f"there is no C code for it in {type_.dtype}")

    def element(emitter: Emitter, index: Index | Flat) -> str:
        assert not isinstance(index, Flat)
        return kind.rounded(f"(({kind.computed}){index[dimension]})")

    return [Lazy(type_, element, frozenset(), type_.rank == 1, True)]


def remapped(operand: Value, type_: TensorType, place: Callable[[Emitter, Index], Index]) -> Lazy:
    """A value whose elements are those of an operand at other indices."""

    def element(emitter: Emitter, index: Index | Flat) -> str:
        assert not isinstance(index, Flat)
        return operand.element(emitter, place(emitter, index))

    return Lazy(type_, element, operand.reads, type_.rank == 1, operand.is_cheap)


def _broadcast(emitter: Emitter, operation: Operation) -> list[Value]:
    (x,), dims = operation.operands, operation.integers("broadcast_dimensions")
    type_ = operation.type
    if x.type.size == 1:
        zero = ("0",) * x.type.rank
        return [Lazy(type_, lambda e, _: x.element(e, zero), x.reads, True, x.is_cheap)]
    if x.type.shape == type_.shape:
        return [x]
    sizes = x.type.shape

    def place(_: Emitter, index: Index) -> Index:
        return tuple("0" if n == 1 else index[d] for n, d in zip(sizes, dims, strict=True))

    return [remapped(x, type_, place)]


def _reshape(emitter: Emitter, operation: Operation) -> list[Value]:
    (x,), type_ = operation.operands, operation.type
    if isinstance(x, Stored):
        return [Stored(x.buffer, type_)]
    if not x.is_flat:
        stored = emitter.stored(x)
        return [Stored(stored.buffer, type_)]

    def element(emitter: Emitter, index: Index | Flat) -> str:
        return x.element(emitter, Flat(flattened(index, type_.shape)))

    return [Lazy(type_, element, x.reads, True, x.is_cheap)]


def _transpose(emitter: Emitter, operation: Operation) -> list[Value]:
    (x,), order = operation.operands, operation.integers("permutation")
    inverse = [order.index(d) for d in range(len(order))]
    return [remapped(x, operation.type, lambda _, i: tuple(i[p] for p in inverse))]


def _slice(emitter: Emitter, operation: Operation) -> list[Value]:
    (x,), starts = operation.operands, operation.integers("start_indices")
    strides = operation.integers("strides")
    steps = list(zip(starts, strides, strict=True))
    return [
        remapped(
            x,
            operation.type,
            lambda _, index: tuple(
                plus(times(i, step), start) for i, (start, step) in zip(index, steps, strict=True)
            ),
        )
    ]


def _reverse(emitter: Emitter, operation: Operation) -> list[Value]:
    (x,), dimensions = operation.operands, operation.integers("dimensions")
    shape = x.type.shape

    def place(_: Emitter, index: Index) -> Index:
        return tuple(
            f"({n - 1} - {i})" if d in dimensions else i
            for d, (i, n) in enumerate(zip(index, shape, strict=True))
        )

    return [remapped(x, operation.type, place)]


def _concatenate(emitter: Emitter, operation: Operation) -> list[Value]:
    dimension = int(operation.attribute("dimension"))
    into, offset = emitter.result(operation), 0
    shape = operation.type.shape
    for x in operation.operands:
        at = _shifted(shape, dimension, offset)
        emitter.compute(x, into, at)
        offset += x.type.shape[dimension]
    return [Stored(into, operation.type)]


def _shifted(shape: Sequence[int], dimension: int, offset: int) -> Callable[[Index], str]:
    def at(index: Index) -> str:
        places = [plus(i, offset) if d == dimension else i for d, i in enumerate(index)]
        return flattened(tuple(places), shape)

    return at


def _pad(emitter: Emitter, operation: Operation) -> list[Value]:
    x, padding = operation.operands
    type_ = operation.type
    into = emitter.result(operation)
    emitter.compute(_of_scalar(padding, type_), into)
    amounts = (
        operation.integers(name)
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    ranges = list(map(padded_range, x.type.shape, *amounts))
    cut = remapped(
        x,
        x.type.with_shape(tuple(r.last - r.first for r in ranges)),
        lambda _, index: tuple(plus(i, r.first) for i, r in zip(index, ranges, strict=True)),
    )

    def at(index: Index) -> str:
        places = [plus(times(i, r.step), r.begin) for i, r in zip(index, ranges, strict=True)]
        return flattened(tuple(places), type_.shape)

    emitter.compute(cut, into, at)
    return [Stored(into, type_)]


def _of_scalar(scalar: Value, type_: TensorType) -> Lazy:
    return Lazy(type_, lambda e, _: scalar.element(e, ()), scalar.reads, True, scalar.is_cheap)


def start_of(emitter: Emitter, start: Value, largest: int) -> str:
    """A start index, clamped to 0 and its largest value, in a variable."""
    if largest == 0:
        return "0"
    value = start.element(emitter, ())
    signed = start.type.dtype.kind == "i"
    # An unsigned index may be beyond the largest signed one.
    low = f"{value} < 0 ? 0 : " if signed else ""
    clamped = f"{low}{value} > {largest} ? {largest} : (int64_t){value}"
    return emitter.local("int64_t", clamped, "s")


def _dynamic_slice(emitter: Emitter, operation: Operation) -> list[Value]:
    x, *starts = operation.operands
    type_ = operation.type
    limits = [n - m for n, m in zip(x.type.shape, type_.shape, strict=True)]
    offsets = [start_of(emitter, s, n) for s, n in zip(starts, limits, strict=True)]

    def place(_: Emitter, index: Index) -> Index:
        return tuple(plus(i, s) for i, s in zip(index, offsets, strict=True))

    return [remapped(x, type_, place)]


def _dynamic_update_slice(emitter: Emitter, operation: Operation) -> list[Value]:
    into = copied(emitter, operation)
    _, update, *starts = operation.operands
    type_ = operation.type
    limits = [n - m for n, m in zip(type_.shape, update.type.shape, strict=True)]
    offsets = [start_of(emitter, s, n) for s, n in zip(starts, limits, strict=True)]

    def at(index: Index) -> str:
        places = tuple(plus(i, s) for i, s in zip(index, offsets, strict=True))
        return flattened(places, type_.shape)

    emitter.compute(update, into, at)
    return [Stored(into, type_)]


def copied(emitter: Emitter, operation: Operation, number: int = 0, result: int = 0) -> Buffer:
    """A buffer that holds the elements of an operand and may be overwritten.

    Read the other operands of the operation after this call, not before it.

    Args:
      emitter, operation: the arguments of the rule.
      number: the number of the operand.
      result: the number of the result that the buffer will hold.
    """
    own = emitter.overwritable(operation, number)
    if own is not None:
        return own
    into = emitter.result(operation, result)
    emitter.compute(operation.operands[number], into)
    return into


def _same(emitter: Emitter, operation: Operation) -> list[Value]:
    return list(operation.operands)


MOVEMENTS: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {
    "stablehlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.transpose": _transpose,
    "stablehlo.slice": _slice,
    "stablehlo.reverse": _reverse,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.pad": _pad,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.optimization_barrier": _same,
}
