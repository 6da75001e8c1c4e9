"""Sorts: IREE's own is a bubble sort, not stable, and wrong on several operands with equal keys.

Keys become signed integers in sorting order, and the position along the dimension is the last key.
So the order is strict, and any sort is stable. Only keys and positions are sorted; the operands are
then gathered by position. On CPUs, a kernel selects the first few, see
`array_kernels.selections`. Otherwise there are four ways to sort:

- If comparing all pairs of a row is cheap, that is done. On CPUs, the compiler's own sort does it
  in one kernel for all rows. On devices, an element's position is the number of elements before it:
  the compiler's sort would run each row in one thread, for CUDA it rejects rows of 32, and for
  Vulkan it rejects most shapes ("'vector.transfer_read' op with rank > 1") or crashes.
- On a target that can call Python and shares its memory, the evaluator sorts: a million numbers
  take 20 ms.
- On devices, the first few are selected one after another: the largest key of a row, and the first
  position that has it, among those that come after the one selected before.
- Elsewhere a bitonic network sorts (K. E. Batcher, Sorting Networks and their Applications, 1968):
  a loop of log2(n) (log2(n) + 1) / 2 steps, each of which compares every element with one other. A
  million numbers take 1.5 s on two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.backends.iree.legalize.array_kernels.single_ops import selects
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Rule
from gnomon.dialects.body import Body
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import (
    broadcast_scalar,
    constant,
    convert,
    full,
    full_like,
    move_dim,
    ops,
    reshape,
    slice_along,
    take,
)
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import (
    BOOL,
    UNSIGNED,
    TensorType,
    is_complex,
    is_floating,
    type_of,
)

__all__ = ["LEGALIZATIONS", "sorting_rules"]

_I32 = np.dtype(np.int32)
_F32 = np.dtype(np.float32)
# Rows of up to this many elements are compared pair by pair, however many rows there are.
_SHORT = 16
# Longer rows are, too, up to this many comparisons, which take as long as a call on the host.
_MAX_COMPARISONS = 1 << 15
# The bits of a position in such a row.
_MARK = 16
# The most elements that are selected one after another. Each takes two reductions, which are
# written out; a network for rows of 2048 elements has 66 steps of some 13 kernels.
_MOST_SELECTED = 16


# -------------------------------------------------------------------------------------------- keys


def _ordered(x: ir.Value, *, total: bool = False) -> list[ir.Value]:
    """Integer keys, i32 or i64, in sorting order, the most significant first.

    `gnomon.dialects.sorting.ordered_integers` does the same for arrays.
    """
    dtype = type_of(x).dtype
    if is_complex(dtype):
        return [*_ordered(ops.real(x)), *_ordered(ops.imag(x))]
    if dtype == BOOL or (not is_floating(dtype) and dtype.itemsize < _I32.itemsize):
        return [convert(x, _I32)]
    if not is_floating(dtype):
        if dtype not in UNSIGNED:
            return [x]
        signed = np.dtype(f"i{dtype.itemsize}")
        bits = ops.bitcast_convert(x, dtype=signed)
        return [ops.xor(bits, full_like(bits, np.iinfo(signed).min))]
    if dtype.itemsize < _F32.itemsize:
        x = convert(x, _F32)
    if not total:
        zero, nan = full_like(x, 0), full_like(x, np.nan)
        x = ops.select(ops.eq(x, zero), zero, ops.select(ops.ne(x, x), nan, x))
    signed = np.dtype(f"i{type_of(x).dtype.itemsize}")
    bits = ops.bitcast_convert(x, dtype=signed)
    sign = ops.shift_right_arithmetic(bits, full_like(bits, 8 * signed.itemsize - 1))
    return [ops.xor(bits, ops.and_(sign, full_like(bits, np.iinfo(signed).max)))]


# ------------------------------------------------------------------------------------ permutations


def _is_cheap(type_: TensorType, dimension: int) -> bool:
    """Whether comparing all pairs of a row is fast."""
    n = type_.shape[dimension]
    return n <= _SHORT or type_.size * n <= _MAX_COMPARISONS


def _permutation(keys: Sequence[ir.Value], target: Target) -> ir.Value:
    """The positions of the rows' elements in sorting order, from keys of shape ``[rows, n]``."""
    type_ = type_of(keys[0])
    rows, n = type_.shape
    if not _is_cheap(type_, 1):
        return _network(keys)
    if target.memory == "device":
        return _ranked(keys)
    position = ops.iota(dtype=_I32, shape=(rows, n), dimension=1)
    # The positions are scaled, since a key may equal them. The compiler would then merge the two
    # and fail ("write affecting operations on global resources").
    marked = ops.mul(position, full_like(position, (1 << _MARK) + 1))
    everything = _owned([*keys, marked])
    order = ops.sort(*everything, dimension=1, num_keys=len(everything), is_stable=False)[-1]
    return ops.shift_right_logical(order, full_like(order, _MARK))


def _owned(operands: Sequence[ir.Value]) -> list[ir.Value]:
    """The same values, in memory that nothing else reads.

    A sort overwrites its operands, and in loops IREE lets two sorts share equal operands, such as
    the positions: the second sort found them in the order of the first. So each operand gets a zero
    added that depends on all operands, and that the compiler does not recognize as zero.
    """
    mixed = operands[0]
    for x in operands[1:]:
        mixed = ops.add(ops.mul(mixed, full_like(mixed, 3)), convert(x, type_of(mixed).dtype))
    counted = ops.population_count(mixed)
    zero = ops.shift_right_logical(counted, full_like(counted, 7))
    return [ops.add(x, convert(zero, type_of(x).dtype)) for x in operands]


def _ranked(keys: Sequence[ir.Value]) -> ir.Value:
    """The permutation by rank: an element's position is the number of elements before it."""
    rows, n = type_of(keys[0]).shape
    pairs = TensorType((rows, n, n), _I32)

    def along(x: ir.Value, dimension: int) -> ir.Value:
        return ops.broadcast_in_dim(x, shape=pairs.shape, dims=(0, dimension))

    first, second = (ops.iota(dtype=_I32, shape=pairs.shape, dimension=d) for d in (1, 2))
    before = _less([*(along(k, 2) for k in keys), second], [*(along(k, 1) for k in keys), first])
    place = ops.reduce_sum(convert(before, _I32), axes=(2,))
    is_here = ops.eq(along(place, 2), first)
    return ops.reduce_sum(ops.select(is_here, second, full(pairs, 0)), axes=(2,))


def _network(keys: Sequence[ir.Value]) -> ir.Value:
    """The permutation by a bitonic network."""
    rows, n = type_of(keys[0]).shape
    padded = 1 << (n - 1).bit_length()
    size = rows * padded
    state = [_flat(key, padded) for key in keys]
    position = ops.iota(dtype=_I32, shape=(rows, padded), dimension=1)
    state.append(reshape(position, (size,)))
    flat = TensorType((size,), _I32)

    def scalar(value: int) -> ir.Value:
        return constant(np.asarray(value, _I32))

    def spread(x: ir.Value) -> ir.Value:
        return broadcast_scalar(x, (size,))

    def running(block: ir.Value, distance: ir.Value, *values: ir.Value) -> list[ir.Value]:
        return [ops.le(block, scalar(padded))]

    def step(block: ir.Value, distance: ir.Value, *values: ir.Value) -> list[ir.Value]:
        """Compare each element with the one at ``distance``, and order them as ``block`` asks."""
        place, zero = ops.iota(dtype=_I32, shape=(size,), dimension=0), full(flat, 0)
        local = ops.and_(place, full(flat, padded - 1))
        partner = ops.xor(place, spread(distance))
        others = [take(v, partner, 0, unique=True) for v in values]
        ascending = ops.eq(ops.and_(local, spread(block)), zero)
        is_first = ops.eq(ops.and_(local, spread(distance)), zero)
        takes_smaller = ops.eq(ascending, is_first)
        swap = ops.eq(_less(others, values), takes_smaller)
        chosen = [ops.select(swap, o, v) for o, v in zip(others, values, strict=True)]
        half = ops.shift_right_logical(distance, scalar(1))
        done = ops.eq(half, scalar(0))
        next_block = ops.select(done, ops.shift_left(block, scalar(1)), block)
        return [next_block, ops.select(done, block, half), *chosen]

    types = [TensorType((), _I32)] * 2 + [type_of(v) for v in state]
    results = ops.while_.build(
        [scalar(2), scalar(1), *state],
        {"cond_consts": 0, "body_consts": 0},
        [Body.build(types, running), Body.build(types, step)],
    )
    return slice_along(reshape(results[-1], (rows, padded)), 1, 0, n)


def _selected(keys: ir.Value, k: int) -> ir.Value:
    """The positions of the ``k`` largest keys of each row, in descending order."""
    type_ = type_of(keys)
    rows, n = type_.shape
    position = ops.iota(dtype=_I32, shape=(rows, n), dimension=1)
    least, end = full_like(keys, np.iinfo(type_.dtype).min), full_like(position, n)

    def along(x: ir.Value) -> ir.Value:
        return ops.broadcast_in_dim(x, shape=(rows, n), dims=(0,))

    left = full(TensorType((rows, n), BOOL), True)
    found: list[ir.Value] = []
    for _ in range(k):
        largest = along(ops.reduce_max(ops.select(left, keys, least), axes=(1,)))
        is_largest = ops.and_(left, ops.eq(keys, largest))
        place = ops.reduce_min(ops.select(is_largest, position, end), axes=(1,))
        found.append(reshape(place, (rows, 1)))
        left = _less([keys, along(place)], [largest, position])
    return ops.concatenate(*found, dimension=1) if k > 1 else found[0]


def _flat(key: ir.Value, padded: int) -> ir.Value:
    """A key in one dimension, with each row padded by elements that sort last."""
    type_ = type_of(key)
    rows, n = type_.shape
    if padded > n:
        fill = constant(np.asarray(np.iinfo(type_.dtype).max, type_.dtype))
        key = ops.pad(key, fill, low=(0, 0), high=(0, padded - n), interior=(0, 0))
    return reshape(key, (rows * padded,))


def _less(left: Sequence[ir.Value], right: Sequence[ir.Value]) -> ir.Value:
    """Lexicographic comparison of rows of keys."""
    *pairs, last = zip(left, right, strict=True)
    result = ops.lt(*last)
    for x, y in reversed(pairs):
        result = ops.or_(ops.lt(x, y), ops.and_(ops.eq(x, y), result))
    return result


# ------------------------------------------------------------------------------------------- rules


def _matrix(x: ir.Value, dimension: int) -> ir.Value:
    """``x`` as rows along a dimension."""
    type_ = type_of(x)
    n = type_.shape[dimension]
    return reshape(move_dim(x, dimension, type_.rank - 1), (type_.size // n, n))


def _take(x: ir.Value, order: ir.Value, dimension: int) -> ir.Value:
    """The elements of ``x`` along a dimension, gathered by a matrix of positions."""
    type_ = type_of(x)
    n, (rows, k) = type_.shape[dimension], type_of(order).shape
    elements = reshape(move_dim(x, dimension, type_.rank - 1), (type_.size,))
    row_start = ops.mul(ops.iota(dtype=_I32, shape=(rows, k), dimension=0), full(type_of(order), n))
    places = reshape(ops.add(row_start, order), (rows * k,))
    others = [m for d, m in enumerate(type_.shape) if d != dimension]
    return move_dim(
        reshape(take(elements, places, 0, unique=True), (*others, k)), type_.rank - 1, dimension
    )


def _sort(inst: Instance, target: Target) -> Sequence[ir.Value] | None:
    type_, dimension = inst.operand_types[0], inst.params["dimension"]
    if type_.size == 0 or type_.shape[dimension] == 1:
        return inst.operands
    compared = inst.operands[: inst.params["num_keys"]]
    keys = [_matrix(k, dimension) for x in compared for k in _ordered(x)]
    order = _permutation(keys, target)
    return [_take(x, order, dimension) for x in inst.operands]


def _first(keys: ir.Value, k: int, target: Target) -> ir.Value:
    """The positions of the ``k`` largest keys of each row, in descending order."""
    if selects(type_of(keys), k, target):
        # `array_kernels.single_ops` makes a kernel of what this op is lowered to.
        return ops.top_k(keys, k=k, axis=1)[1]
    type_ = type_of(keys)
    if target.memory == "device" and k <= _MOST_SELECTED and not _is_cheap(type_, 1):
        return _selected(keys, k)
    return slice_along(_permutation([ops.not_(keys)], target), 1, 0, k)


def _top_k(inst: Instance, target: Target) -> Sequence[ir.Value] | None:
    (x,), (type_,) = inst.operands, inst.operand_types
    axis, k = inst.params["axis"], inst.params["k"]
    if inst.result_types[0].size == 0:
        return [full(t, 0) for t in inst.result_types]
    (ascending,) = _ordered(x, total=True)
    order = _first(_matrix(ascending, axis), k, target)
    others = [n for d, n in enumerate(type_.shape) if d != axis]
    positions = move_dim(reshape(order, (*others, k)), type_.rank - 1, axis)
    return [_take(x, order, axis), positions]


_Way: TypeAlias = "Callable[[Instance, Target], Sequence[ir.Value] | None]"

_SORTS: dict[str, tuple[_Way, str]] = {
    "gnomon.sort": (_sort, "dimension"),
    "gnomon.top_k": (_top_k, "axis"),
}


def sorting_rules(target: Target) -> dict[str, Rule]:
    """The rules of the sorts, for a target."""

    def chosen(way: _Way, parameter: str) -> Rule:
        def rule(inst: Instance) -> Sequence[ir.Value] | None:
            return way(inst, target)

        def on_host(inst: Instance) -> Sequence[ir.Value] | None:
            type_ = inst.operand_types[0]
            empty = any(t.size == 0 for t in (type_, *inst.result_types))
            selected = "k" in inst.params and selects(type_, inst.params["k"], target)
            if empty or selected or _is_cheap(type_, inst.params[parameter]):
                return rule(inst)
            return call_on_host(inst)

        capabilities = target.capabilities
        return on_host if capabilities.host_memory and capabilities.host_calls else rule

    return {name: chosen(way, parameter) for name, (way, parameter) in _SORTS.items()}


LEGALIZATIONS = (
    Legalization(
        name="sorts",
        stage=Stage.DECOMPOSE,
        kind=Kind.MISCOMPILED,
        doc="sort strictly ordered integer keys, in a way that suits the length and the target",
        upstream="IREE 3.13's sort is a bubble sort, not stable, and wrong on several operands "
        "with equal keys; on GPUs a row is one thread, or the sort does not compile",
        texts=("stable_sorts",),
        reproducer="a sort of eight pairs by a key with ties has the wrong values",
        rules=sorting_rules,
    ),
)
