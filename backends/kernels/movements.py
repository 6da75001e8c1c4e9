"""Operations that make and move elements: constants, broadcasts, slices, concatenations, pads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.kernels.arithmetic import constant, only, rounded
from gnomon.backends.kernels.builder import memref_of
from gnomon.backends.kernels.code import Element, Place
from gnomon.backends.kernels.integers import to_float
from gnomon.backends.kernels.types import kind_of, of_type
from gnomon.backends.kernels.values import Buffer, Flat, Index, Lazy, Stored, Value, flattened
from gnomon.dialects.attributes import constant_elements
from gnomon.dialects.slicing import padded_range
from gnomon.dialects.types import TensorType, is_complex, is_floating

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

__all__ = ["MOVEMENTS", "constant_buffer", "copied", "filled", "remapped", "splat", "start_of"]


def splat(type_: TensorType, element: Element) -> Lazy:
    """A value all of whose elements are one that is known."""
    return Lazy(type_, lambda _, __: element, frozenset(), True, True)


def filled(builder: Builder, type_: TensorType, number: float) -> Lazy:
    """A value all of whose elements are a number."""
    return splat(type_, constant(builder.code, number, type_.dtype))


def _constant(builder: Builder, operation: Operation) -> list[Value]:
    array: np.ndarray = constant_elements(operation.op)
    type_ = operation.type
    of_type(type_)
    if array.size == 0:
        return [filled(builder, type_, 0)]
    flat = array.reshape(-1)
    raw = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
    if (raw == raw[0]).all():
        first = flat[0]
        return [
            Lazy(type_, lambda b, _: constant(b.code, first, type_.dtype), frozenset(), True, True)
        ]
    return [Stored(constant_buffer(builder, flat, type_), type_)]


def constant_buffer(builder: Builder, array: np.ndarray, type_: TensorType) -> Buffer:
    """Memory that holds a constant array, defined beside the function."""
    memref = memref_of(type_)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).tobytes().hex().upper()
    symbol = f"@constant_{builder.code.number()}"
    builder.globals.append(
        f'  memref.global "private" constant {symbol} : {memref} = dense<"0x{data}">'
    )
    name = builder.code.at_head(symbol, f"memref.get_global {symbol} : {memref}")
    return Buffer(name, type_)


def _iota(builder: Builder, operation: Operation) -> list[Value]:
    dimension, type_ = int(operation.attribute("iota_dimension")), operation.type
    kind, dtype = kind_of(type_.dtype), type_.dtype
    if is_complex(dtype):
        raise UnsupportedOnTarget(f"there is no kernel for it in {dtype}")

    def element(builder: Builder, index: Index | Flat) -> Element:
        assert not isinstance(index, Flat)
        code = builder.code
        place = code.at(index[dimension])
        if dtype == np.bool_:
            return code.compare("ne", place, code.at(0))
        if not is_floating(dtype):
            return code.cast("arith.index_cast", place, kind.computed)
        number = code.cast("arith.index_cast", place, "i64")
        return rounded(code, to_float(code, number, np.dtype(np.int64), kind.computed), dtype)

    return [Lazy(type_, element, frozenset(), type_.rank == 1, True)]


def remapped(operand: Value, type_: TensorType, place: Callable[[Builder, Index], Index]) -> Lazy:
    """A value whose elements are those of an operand at other indices."""

    def element(builder: Builder, index: Index | Flat) -> Element:
        assert not isinstance(index, Flat)
        return operand.element(builder, place(builder, index))

    return Lazy(type_, element, operand.reads, type_.rank == 1, operand.is_cheap)


def _broadcast(builder: Builder, operation: Operation) -> list[Value]:
    (x,), dims = operation.operands, operation.integers("broadcast_dimensions")
    type_ = operation.type
    if x.type.size == 1:
        zero = (0,) * x.type.rank
        return [Lazy(type_, lambda b, _: x.element(b, zero), x.reads, True, x.is_cheap)]
    if x.type.shape == type_.shape and list(dims) == sorted(dims):
        return [x]
    sizes = x.type.shape

    def place(_: Builder, index: Index) -> Index:
        return tuple(0 if n == 1 else index[d] for n, d in zip(sizes, dims, strict=True))

    return [remapped(x, type_, place)]


def _reshape(builder: Builder, operation: Operation) -> list[Value]:
    (x,), type_ = operation.operands, operation.type
    if isinstance(x, Stored):
        return [Stored(x.buffer, type_)]
    if type_.size == 1:
        zero = (0,) * x.type.rank
        return [Lazy(type_, lambda b, _: x.element(b, zero), x.reads, True, x.is_cheap)]
    if not x.is_flat:
        stored = builder.stored(x)
        return [Stored(stored.buffer, type_)]

    def element(builder: Builder, index: Index | Flat) -> Element:
        return x.element(builder, Flat(flattened(builder.code, index, type_.shape)))

    return [Lazy(type_, element, x.reads, True, x.is_cheap)]


def _transpose(builder: Builder, operation: Operation) -> list[Value]:
    (x,), order = operation.operands, operation.integers("permutation")
    inverse = [order.index(d) for d in range(len(order))]
    return [remapped(x, operation.type, lambda _, i: tuple(i[p] for p in inverse))]


def _slice(builder: Builder, operation: Operation) -> list[Value]:
    (x,), starts = operation.operands, operation.integers("start_indices")
    strides = operation.integers("strides")
    steps = list(zip(starts, strides, strict=True))

    def place(builder: Builder, index: Index) -> Index:
        code = builder.code
        return tuple(
            code.plus(code.times(i, step), start)
            for i, (start, step) in zip(index, steps, strict=True)
        )

    return [remapped(x, operation.type, place)]


def _reverse(builder: Builder, operation: Operation) -> list[Value]:
    (x,), dimensions = operation.operands, operation.integers("dimensions")
    shape = x.type.shape

    def place(builder: Builder, index: Index) -> Index:
        return tuple(
            builder.code.minus(n - 1, i) if d in dimensions else i
            for d, (i, n) in enumerate(zip(index, shape, strict=True))
        )

    return [remapped(x, operation.type, place)]


def _concatenate(builder: Builder, operation: Operation) -> list[Value]:
    dimension = int(operation.attribute("dimension"))
    into, offset = builder.result(operation), 0
    starts = [0] * operation.type.rank
    for x in operation.operands:
        starts[dimension] = offset
        builder.compute(x, into, _shifted(builder, operation.type, starts))
        offset += x.type.shape[dimension]
    return [Stored(into, operation.type)]


def _shifted(
    builder: Builder,
    type_: TensorType,
    starts: Sequence[Place],
    steps: Sequence[int] | None = None,
) -> Callable[[Index], Place]:
    """Maps an index in a part of an array to a position in the array."""
    code, starts = builder.code, list(starts)
    steps = [1] * type_.rank if steps is None else steps

    def at(index: Index) -> Place:
        places = (
            code.plus(code.times(i, step), start)
            for i, step, start in zip(index, steps, starts, strict=True)
        )
        return flattened(code, tuple(places), type_.shape)

    return at


def _pad(builder: Builder, operation: Operation) -> list[Value]:
    x, padding = operation.operands
    type_ = operation.type
    into = builder.result(operation)
    builder.compute(_of_scalar(padding, type_), into)
    amounts = (
        operation.integers(name)
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    ranges = list(map(padded_range, x.type.shape, *amounts))
    cut = remapped(
        x,
        x.type.with_shape(tuple(r.last - r.first for r in ranges)),
        lambda b, index: tuple(b.code.plus(i, r.first) for i, r in zip(index, ranges, strict=True)),
    )
    starts, steps = [r.begin for r in ranges], [r.step for r in ranges]
    builder.compute(cut, into, _shifted(builder, type_, starts, steps))
    return [Stored(into, type_)]


def _of_scalar(scalar: Value, type_: TensorType) -> Lazy:
    return Lazy(type_, lambda b, _: scalar.element(b, ()), scalar.reads, True, scalar.is_cheap)


def start_of(builder: Builder, start: Value, largest: int) -> Place:
    """A start index, clamped to 0 and its largest value."""
    if largest == 0:
        return 0
    code, value = builder.code, only(start.element(builder, ()))
    is_signed = start.type.dtype.kind == "i"
    wide = code.cast("arith.extsi" if is_signed else "arith.extui", value, "i64")
    zero, most = code.constant(0, "i64"), code.constant(largest, "i64")
    # An unsigned index may be beyond the largest signed one.
    clamped = (
        code.same("arith.minsi", code.same("arith.maxsi", wide, zero), most)
        if is_signed
        else code.same("arith.minui", wide, most)
    )
    return code.cast("arith.index_cast", clamped, "index")


def _dynamic_slice(builder: Builder, operation: Operation) -> list[Value]:
    x, *starts = operation.operands
    type_ = operation.type
    limits = [n - m for n, m in zip(x.type.shape, type_.shape, strict=True)]
    offsets = [start_of(builder, s, n) for s, n in zip(starts, limits, strict=True)]

    def place(builder: Builder, index: Index) -> Index:
        return tuple(builder.code.plus(i, s) for i, s in zip(index, offsets, strict=True))

    return [remapped(x, type_, place)]


def _dynamic_update_slice(builder: Builder, operation: Operation) -> list[Value]:
    into = copied(builder, operation)
    _, update, *starts = operation.operands
    type_ = operation.type
    limits = [n - m for n, m in zip(type_.shape, update.type.shape, strict=True)]
    offsets = [start_of(builder, s, n) for s, n in zip(starts, limits, strict=True)]
    builder.compute(update, into, _shifted(builder, type_, offsets))
    return [Stored(into, type_)]


def copied(builder: Builder, operation: Operation, number: int = 0, result: int = 0) -> Buffer:
    """A buffer that holds the elements of an operand and may be overwritten.

    Read the other operands of the operation after this call, not before it.

    Args:
      builder, operation: the arguments of the rule.
      number: the number of the operand.
      result: the number of the result that the buffer will hold.
    """
    own = builder.overwritable(operation, number)
    if own is not None:
        return own
    into = builder.result(operation, result)
    builder.compute(operation.operands[number], into)
    return into


def _same(builder: Builder, operation: Operation) -> list[Value]:
    return list(operation.operands)


MOVEMENTS: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {
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
