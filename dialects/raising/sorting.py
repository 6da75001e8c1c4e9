"""``sort``: comparators that the dialect sorts by are recognized; others rank the elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gnomon.dialects.attributes import constant_elements
from gnomon.dialects.emit import constant, convert, full_like, move_dim, ops, reshape
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.elementwise import is_total_order, total_order_key
from gnomon.dialects.raising.source import RaiseError, Region, Source, raises
from gnomon.dialects.raising.structural import broadcast
from gnomon.dialects.types import is_complex, is_floating, type_of

# Ranks compare all pairs of elements of a row; more pairs than this would take too much memory.
_MAX_PAIRS = 1 << 26
_I32 = np.dtype(np.int32)


class _Key(NamedTuple):
    """A key of a comparator.

    Attributes:
      operand: the number of the sorted operand.
      part: ``"real"`` or ``"imag"`` of a complex operand, or ``""``.
      descending: whether larger keys come first.
      total: whether -0 comes before 0, and nans are ordered by their bits.
    """

    operand: int
    part: str
    descending: bool
    total: bool


# ---------------------------------------------------------------------------------------- matching


def _owner(value: ir.Value) -> ir.Operation | None:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _direction(operation: ir.Operation) -> str:
    return str(operation.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">")


def _literal(value: ir.Value) -> np.ndarray | None:
    owner = _owner(value)
    if owner is None or owner.name != "stablehlo.constant":
        return None
    return constant_elements(owner)


def _is_canonicalization(operation: ir.Operation) -> bool:
    """Whether a select replaces zeros by 0, or nans by one nan, as comparators of JAX do."""
    predicate, on_true, _ = operation.operands
    literal, compared = _literal(on_true), _owner(predicate)
    if literal is None or compared is None or compared.name != "stablehlo.compare":
        return False
    direction = _direction(compared)
    return bool(
        (direction == "EQ" and (literal == 0).all())
        or (direction == "NE" and (literal != literal).all())
    )


def _read(value: ir.Value, arguments: Sequence[ir.Value]) -> tuple[int, str, bool] | None:
    """The argument that a value is, its part, and whether its zeros and nans are made equal."""
    part, canonical = "", False
    while True:
        for number, argument in enumerate(arguments):
            if value == argument:
                return number, part, canonical
        owner = _owner(value)
        if owner is None:
            return None
        if owner.name == "stablehlo.select" and _is_canonicalization(owner):
            value, canonical = owner.operands[2], True
        elif owner.name in ("stablehlo.real", "stablehlo.imag") and not part:
            value, part = owner.operands[0], owner.name.rpartition(".")[2]
        else:
            return None


def _comparison(value: ir.Value, arguments: Sequence[ir.Value]) -> tuple[ir.Operation, _Key] | None:
    owner = _owner(value)
    if owner is None or owner.name != "stablehlo.compare":
        return None
    sides = [_read(x, arguments) for x in owner.operands]
    left, right = sides
    if left is None or right is None or left[1:] != right[1:]:
        return None
    first, second = left[0], right[0]
    if first // 2 != second // 2 or first == second:
        return None
    direction = _direction(owner)
    descending = (direction[0] == "G") != (first > second)
    total = is_total_order(owner) and not left[2]
    return owner, _Key(first // 2, left[1], descending, total)


def _keys(value: ir.Value, arguments: Sequence[ir.Value]) -> list[_Key] | None:
    """The keys of a lexicographic comparison ``a < b or (a == b and rest)``."""
    direct = _comparison(value, arguments)
    if direct is not None:
        return [direct[1]] if _direction(direct[0]) in ("LT", "GT") else None
    owner = _owner(value)
    if owner is None or owner.name != "stablehlo.or":
        return None
    for less, rest in (tuple(owner.operands), tuple(owner.operands)[::-1]):
        first, both = _comparison(less, arguments), _owner(rest)
        if first is None or both is None or both.name != "stablehlo.and":
            continue
        for equal, others in (tuple(both.operands), tuple(both.operands)[::-1]):
            same = _comparison(equal, arguments)
            if same is None or _direction(same[0]) != "EQ":
                continue
            following = _keys(others, arguments)
            is_strict = _direction(first[0]) in ("LT", "GT")
            alike = same[1][:2] == first[1][:2] and same[1].total == first[1].total
            if following is not None and is_strict and alike:
                return [first[1], *following]
    return None


# ----------------------------------------------------------------------------------------- sorting


def _key_array(key: _Key, operand: ir.Value) -> ir.Value:
    x = getattr(ops, key.part)(operand) if key.part else operand
    if is_floating(type_of(x).dtype) and not key.total:
        if not key.descending:
            return x
        # All zeros are equal, and all nans, which come first in descending order.
        x = ops.select(ops.eq(x, full_like(x, 0)), full_like(x, 0), x)
        x = ops.select(ops.ne(x, x), full_like(x, np.nan), x)
    x = total_order_key(x)
    return ops.not_(x) if key.descending else x


def _native_count(keys: Sequence[_Key], operands: Sequence[ir.Value]) -> int | None:
    """The number of leading operands that are the keys as the dialect orders them."""
    expected: list[_Key] = []
    for number, x in enumerate(operands):
        if keys == expected:
            break
        parts = ("real", "imag") if is_complex(type_of(x).dtype) else ("",)
        expected += [_Key(number, part, False, False) for part in parts]
    plain = [k._replace(total=k.total and is_floating(_dtype(k, operands))) for k in keys]
    if plain != expected:
        return None
    return len({k.operand for k in keys})


def _dtype(key: _Key, operands: Sequence[ir.Value]) -> np.dtype:
    dtype = type_of(operands[key.operand]).dtype
    return dtype if not is_complex(dtype) else np.dtype(np.float32)


@raises("sort")
def _sort(source: Source) -> list[ir.Value]:
    operands, region = source.operands, source.region
    type_ = type_of(operands[0])
    dimension = source.integer("dimension", -1) % max(type_.rank, 1)
    if type_.size == 0 or type_.rank == 0:
        return operands
    (result,) = region.results
    keys = _keys(result, list(region.block.arguments))
    # StableHLO leaves the order of equal elements open unless the sort is stable; ours always is.
    if keys is None:
        ranks = _ranks(region, operands, dimension)
        return _sorted([ranks, *operands], 1, dimension)[1:]
    count = _native_count(keys, operands)
    if count is not None:
        return _sorted(operands, count, dimension)
    arrays = [_key_array(k, operands[k.operand]) for k in keys]
    return _sorted([*arrays, *operands], len(arrays), dimension)[len(arrays) :]


def _sorted(operands: Sequence[ir.Value], count: int, dimension: int) -> list[ir.Value]:
    results: list[ir.Value] = ops.sort(
        *operands, dimension=dimension, num_keys=count, is_stable=True
    )
    return results


def _ranks(region: Region, operands: Sequence[ir.Value], dimension: int) -> ir.Value:
    """The position of each element in the sorted order, by an arbitrary comparator."""
    type_ = type_of(operands[0])
    last = type_.rank - 1
    moved = [move_dim(x, dimension, last) for x in operands]
    shape = type_of(moved[0]).shape
    length, rows = shape[-1], math.prod(shape[:-1])
    pairs = rows * length * length
    if pairs > _MAX_PAIRS:
        raise RaiseError(
            f"its comparator is not an order of keys, and {rows} rows of {length} elements have "
            f"too many pairs to be ranked ({pairs}, at most {_MAX_PAIRS})"
        )
    table = (rows, length, length)
    arguments = []
    for x in moved:
        flat = reshape(x, (rows, length))
        for dims in ((0, 1), (0, 2)):
            arguments.append(reshape(broadcast(flat, table, dims), (pairs,)))
    (before,) = region.vectorize(arguments, pairs)
    before = reshape(before, table)  # whether element i comes before element j
    after = ops.transpose(before, permutation=(0, 2, 1))
    earlier = constant(np.broadcast_to(np.tri(length, k=-1, dtype=bool), table))
    # Equal elements come neither before each other, or both, and keep their order.
    precedes = ops.select(ops.xor(before, after), after, earlier)
    ranks = ops.reduce_sum(convert(precedes, _I32), axes=(2,))
    return move_dim(reshape(ranks, shape), last, dimension)
