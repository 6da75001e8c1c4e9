"""Random bits: ``threefry2x32``, the counter-based generator of the default random numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.combinators import (
    batch_elementwise,
    describe,
    require,
    stablehlo,
    stablehlo_full,
)
from gnomon.dialects.contract import NOT_LINEAR, ZERO_TANGENT, Instance, Op
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, Form
from gnomon.dialects.types import TensorType

UINT32 = np.dtype(np.uint32)

# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), Threefry-2x32 with 20 rounds.
PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
GROUPS = 5

# Elements per block: the four arrays of a block fit in a core's L2 cache.
_BLOCK = 1 << 14
# Up to this many elements, Python integers are faster than NumPy calls.
_MAX_PYTHON_ELEMENTS = 8
_MASK = 0xFFFFFFFF


def _infer(*types: TensorType) -> tuple[TensorType, TensorType]:
    first = types[0]
    require(
        first.dtype == UINT32 and all(t == first for t in types),
        "threefry2x32",
        f"takes four u32 operands of one shape, got {describe(types)}; "
        "broadcast the key words to the shape of the counters",
    )
    return first, first


# ------------------------------------------------------------------------------------- evaluation


def _threefry_integers(k0: int, k1: int, x0: int, x1: int) -> tuple[int, int]:
    """The hash of one pair of words, in Python integers."""
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    x0 = (x0 + k0) & _MASK
    x1 = (x1 + k1) & _MASK
    for group in range(GROUPS):
        for left in ROTATIONS[group % 2]:
            x0 = (x0 + x1) & _MASK
            x1 = (((x1 << left) & _MASK) | (x1 >> (32 - left))) ^ x0
        x0 = (x0 + keys[(group + 1) % 3]) & _MASK
        x1 = (x1 + keys[(group + 2) % 3] + group + 1) & _MASK
    return x0, x1


_LEFT = {r: np.array(r, UINT32) for group in ROTATIONS for r in group}
_RIGHT = {r: np.array(32 - r, UINT32) for group in ROTATIONS for r in group}
_COUNTS = [np.array(group + 1, UINT32) for group in range(GROUPS)]


def _threefry_in_place(
    k0: np.ndarray, k1: np.ndarray, x0: np.ndarray, x1: np.ndarray, work: np.ndarray
) -> None:
    """Overwrite the counters ``x0``, ``x1`` with their hashes; ``work`` is scratch space."""
    keys = (k0, k1, k0 ^ k1 ^ np.array(PARITY, UINT32))
    np.add(x0, k0, out=x0)
    np.add(x1, k1, out=x1)
    for group in range(GROUPS):
        for left in ROTATIONS[group % 2]:
            np.add(x0, x1, out=x0)
            np.left_shift(x1, _LEFT[left], out=work)
            np.right_shift(x1, _RIGHT[left], out=x1)
            np.bitwise_or(x1, work, out=x1)
            np.bitwise_xor(x1, x0, out=x1)
        np.add(x0, keys[(group + 1) % 3], out=x0)
        np.add(x1, keys[(group + 2) % 3], out=x1)
        np.add(x1, _COUNTS[group], out=x1)


def _flat_key(key: np.ndarray) -> np.ndarray:
    """Flatten the key words; a broadcast key stays one word."""
    if key.size and not any(key.strides):
        return key[(slice(0, 1),) * key.ndim].reshape(1)
    return key.reshape(-1)


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, size, _BLOCK))


def _evaluate(
    k0: np.ndarray, k1: np.ndarray, x0: np.ndarray, x1: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    shape, size = x0.shape, x0.size
    if size <= _MAX_PYTHON_ELEMENTS:
        words = [_threefry_integers(*w) for w in zip(*_word_lists(k0, k1, x0, x1), strict=True)]
        out = np.array(words, UINT32).reshape(size, 2).T.reshape(2, *shape)
        return out[0, ...], out[1, ...]
    key0, key1 = _flat_key(k0), _flat_key(k1)
    out0, out1 = np.array(x0, order="C").reshape(-1), np.array(x1, order="C").reshape(-1)
    work = np.empty(min(size, _BLOCK), UINT32)
    for block in _blocks(size):
        b0, b1 = out0[block], out1[block]
        _threefry_in_place(
            key0 if key0.size == 1 else key0[block],
            key1 if key1.size == 1 else key1[block],
            b0,
            b1,
            work[: b0.size],
        )
    return out0.reshape(shape), out1.reshape(shape)


def _word_lists(*arrays: np.ndarray) -> list[list[int]]:
    return [a.reshape(-1).tolist() for a in arrays]


# --------------------------------------------------------------------------------------- lowering


def _lower(inst: Instance) -> list[ir.Value]:
    type_ = inst.result_types[0]

    def splat(value: int) -> ir.Value:
        return stablehlo_full(type_, value)

    def apply(name: str, x: ir.Value, y: ir.Value) -> ir.Value:
        return stablehlo(name, [x, y], [type_])[0]

    def rotate(x: ir.Value, left: int) -> ir.Value:
        return apply(
            "or",
            apply("shift_left", x, splat(left)),
            apply("shift_right_logical", x, splat(32 - left)),
        )

    k0, k1, x0, x1 = inst.operands
    keys = (k0, k1, apply("xor", apply("xor", k0, k1), splat(PARITY)))
    x0, x1 = apply("add", x0, k0), apply("add", x1, k1)
    for group in range(GROUPS):
        for left in ROTATIONS[group % 2]:
            x0 = apply("add", x0, x1)
            x1 = apply("xor", rotate(x1, left), x0)
        x0 = apply("add", x0, keys[(group + 1) % 3])
        x1 = apply("add", apply("add", x1, keys[(group + 2) % 3]), splat(group + 1))
    return [x0, x1]


# Operations for each word of the results.
THREEFRY_FLOPS = 60

threefry2x32 = Op(
    name="threefry2x32",
    doc="the Threefry-2x32 hash (20 rounds) of the counters x0, x1 under the key k0, k1",
    example=(
        '%r:2 = "gnomon.threefry2x32"(%k0, %k1, %x0, %x1) : '
        "(tensor<4xui32>, tensor<4xui32>, tensor<4xui32>, tensor<4xui32>) "
        "-> (tensor<4xui32>, tensor<4xui32>)"
    ),
    operands=("k0", "k1", "x0", "x1"),
    results=2,
    form=Form.ELEMENTWISE,
    cost=Cost.FUNCTION,
    work=work_rules.per_element(THREEFRY_FLOPS),
    infer=_infer,
    evaluate=_evaluate,
    jvp=ZERO_TANGENT,
    transpose=NOT_LINEAR,
    batch=batch_elementwise,
    sharding=sharding_rules.elementwise,
    lower=_lower,
)
