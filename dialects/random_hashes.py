"""Further counter-based generators: Philox, four-word Threefry, and ``rng_bit_generator``.

Each rule is written once, over a namespace ``f`` of elementwise and structural ops: `evaluated`
for NumPy, `lowered` for StableHLO. The lowered hashes use only 32-bit integers, which every target
supports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import DTYPE, INTS, STRING
from gnomon.dialects.combinators import batch_elementwise, describe, lowered, require
from gnomon.dialects.contract import (
    NOT_LINEAR,
    ZERO_TANGENT,
    Instance,
    MappedAxis,
    Op,
)
from gnomon.dialects.emit import move_dim, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.random_bits import THREEFRY_FLOPS
from gnomon.dialects.traits import Cost, Form
from gnomon.dialects.types import TensorType, type_of
from gnomon.dialects.work_rules import Types, Work

UINT32 = np.dtype(np.uint32)
UINT64 = np.dtype(np.uint64)

# Elements per block: the arrays of a block fit in a core's L2 cache.
_BLOCK = 1 << 13

Words = tuple[Any, ...]


class _Evaluated:
    """The ops of the registry as functions of NumPy arrays."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        evaluate: Callable[..., Any] = getattr(ops, name).evaluate
        setattr(self, name, evaluate)
        return evaluate

    def full_like(self, x: np.ndarray, value: int) -> np.ndarray:
        return np.broadcast_to(np.array(value, x.dtype), x.shape)


evaluated: Any = _Evaluated()


# ------------------------------------------------------------------------------------------ rounds


def _product(f: Any, x: Any, factor: int) -> tuple[Any, Any]:
    """The low and the high word of the 64 bits of ``factor * x``."""
    low = f.mul(x, f.full_like(x, factor))
    if f is evaluated:
        return low, f.mulhi(x, f.full_like(x, factor))
    # Multiply by halves: not every target has 64-bit integers.
    half, mask = f.full_like(x, 16), f.full_like(x, 0xFFFF)

    def upper(v: Any) -> Any:
        return f.shift_right_logical(v, half)

    above, below = f.full_like(x, factor >> 16), f.full_like(x, factor & 0xFFFF)
    x1, x0 = upper(x), f.and_(x, mask)
    middle = f.add(f.mul(x1, below), upper(f.mul(x0, below)))
    carried = upper(f.add(f.mul(x0, above), f.and_(middle, mask)))
    return low, f.add(f.add(f.mul(x1, above), upper(middle)), carried)


def _xor(f: Any, *words: Any) -> Any:
    first, *rest = words
    for word in rest:
        first = f.xor(first, word)
    return first


def _rotated(f: Any, x: Any, left: int) -> Any:
    high = f.shift_left(x, f.full_like(x, left))
    return f.or_(high, f.shift_right_logical(x, f.full_like(x, 32 - left)))


# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
_PHILOX_ROUNDS = 10
# Operations for each word of the results.
_PHILOX_FLOPS = 25
_PHILOX_2 = 0xD256D193
_PHILOX_4 = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def _philox2x32(f: Any, key: Any, x0: Any, x1: Any) -> Words:
    for round_ in range(_PHILOX_ROUNDS):
        if round_:
            key = f.add(key, f.full_like(key, _WEYL[0]))
        low, high = _product(f, x0, _PHILOX_2)
        x0, x1 = _xor(f, high, x1, key), low
    return x0, x1


def _philox4x32(f: Any, k0: Any, k1: Any, x0: Any, x1: Any, x2: Any, x3: Any) -> Words:
    for round_ in range(_PHILOX_ROUNDS):
        if round_:
            k0, k1 = (f.add(k, f.full_like(k, w)) for k, w in zip((k0, k1), _WEYL, strict=True))
        (low0, high0), (low1, high1) = _product(f, x0, _PHILOX_4[0]), _product(f, x2, _PHILOX_4[1])
        x0, x1, x2, x3 = _xor(f, high1, x1, k0), low1, _xor(f, high0, x3, k1), low0
    return x0, x1, x2, x3


_THREEFRY_ROUNDS = 20
_PARITY = 0x1BD11BDA
_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))


def _threefry4x32(f: Any, *words: Any) -> Words:
    keys, x = list(words[:4]), list(words[4:])
    keys.append(_xor(f, *keys, f.full_like(keys[0], _PARITY)))

    def inject(group: int) -> None:
        for i in range(4):
            x[i] = f.add(x[i], keys[(group + i) % 5])
        if group:
            x[3] = f.add(x[3], f.full_like(x[3], group))

    inject(0)
    for round_ in range(_THREEFRY_ROUNDS):
        # Rounds alternate between mixing word 0 with 1, 2 with 3, and word 0 with 3, 2 with 1.
        partners = ((0, 1), (2, 3)) if round_ % 2 == 0 else ((0, 3), (2, 1))
        for (a, b), left in zip(partners, _ROTATIONS[round_ % 8], strict=True):
            x[a] = f.add(x[a], x[b])
            x[b] = f.xor(_rotated(f, x[b], left), x[a])
        if round_ % 4 == 3:
            inject(round_ // 4 + 1)
    return tuple(x)


def _threefry2x32(f: Any, *words: Any) -> Words:
    if f is evaluated:
        return tuple(ops.threefry2x32.evaluate(*words))
    op = ops.threefry2x32
    types = [type_of(w) for w in words]
    return tuple(op.lower(Instance(op, words, types, op.infer_types(types, {}), {})))


# ----------------------------------------------------------------------------------- hashes as ops


def _hash_op(
    name: str, keys: int, counters: int, doc: str, rounds: Callable[..., Words], flops: int
) -> Op:
    """Declare a hash op on words of one shape: the key words, then the counter words.

    ``flops`` counts the operations for each word of the results.
    """
    operands = tuple(f"k{i}" for i in range(keys)) + tuple(f"x{i}" for i in range(counters))

    def infer(*types: TensorType) -> tuple[TensorType, ...]:
        first = types[0]
        require(
            first.dtype == UINT32 and all(t == first for t in types),
            name,
            f"takes {len(operands)} u32 operands of one shape, got {describe(types)}; broadcast "
            "the key words to the shape of the counters",
        )
        return (first,) * counters

    def evaluate(*words: np.ndarray) -> Words:
        shape, size = words[0].shape, words[0].size
        # A broadcast key is not materialized.
        rows = [w.reshape(-1) if any(w.strides) or not w.size else w.flat[:1] for w in words]
        out = np.empty((counters, size), UINT32)
        for start in range(0, size, _BLOCK):
            block = slice(start, min(start + _BLOCK, size))
            width = (block.stop - start,)
            taken = [np.broadcast_to(r, width) if r.size == 1 else r[block] for r in rows]
            for row, result in zip(out, rounds(evaluated, *taken), strict=True):
                row[block] = result
        return tuple(row.reshape(shape) for row in out)

    def lower(inst: Instance) -> list[ir.Value]:
        return list(rounds(lowered, *inst.operands))

    words_in, words_out = (", ".join(["tensor<4xui32>"] * n) for n in (len(operands), counters))
    return Op(
        name=name,
        doc=doc,
        example=(
            f'%r:{counters} = "gnomon.{name}"({", ".join("%" + o for o in operands)}) : '
            f"({words_in}) -> ({words_out})"
        ),
        operands=operands,
        results=counters,
        form=Form.ELEMENTWISE,
        cost=Cost.FUNCTION,
        work=work_rules.per_element(flops),
        infer=infer,
        evaluate=evaluate,
        jvp=ZERO_TANGENT,
        transpose=NOT_LINEAR,
        batch=batch_elementwise,
        sharding=sharding_rules.elementwise,
        lower=lower,
    )


philox2x32 = _hash_op(
    "philox2x32",
    1,
    2,
    "the Philox-2x32 hash (10 rounds) of two words under a key",
    _philox2x32,
    _PHILOX_FLOPS,
)
philox4x32 = _hash_op(
    "philox4x32",
    2,
    4,
    "the Philox-4x32 hash (10 rounds) of four words under a key",
    _philox4x32,
    _PHILOX_FLOPS,
)
threefry4x32 = _hash_op(
    "threefry4x32",
    4,
    4,
    "the Threefry-4x32 hash (20 rounds) of four words under a key",
    _threefry4x32,
    THREEFRY_FLOPS,
)


# ------------------------------------------------------------------------------ rng_bit_generator

# The state is a key of two words and a counter of two, the lower one first.
_STATE = 4
ALGORITHMS = ("philox", "threefry")


def _infer_generator(
    key: TensorType, *, shape: tuple[int, ...], dtype: np.dtype, algorithm: str
) -> tuple[TensorType, TensorType]:
    name = "rng_bit_generator"
    require(
        key.dtype == UINT32 and key.shape == (_STATE,),
        name,
        f"takes a state of four u32 words, got {key}",
    )
    require(dtype.kind == "u", name, f"generates unsigned integers, got {dtype.name}")
    require(
        algorithm in ALGORITHMS,
        name,
        f"the algorithm must be one of {', '.join(ALGORITHMS)}; got {algorithm!r}",
    )
    return key, TensorType(tuple(shape), dtype)


def _split_dimension(shape: Sequence[int]) -> int:
    """The dimension along which the two words of each Threefry counter are adjacent."""
    even = [d for d, n in enumerate(shape) if n % 2 == 0]
    return even[0] if even else int(np.argmax(shape))


def counters_used(shape: Sequence[int], dtype: np.dtype, algorithm: str) -> int:
    """The number of counter values that an array consumes."""
    size = math.prod(shape)
    wide = dtype.itemsize == UINT64.itemsize
    if algorithm == "philox":
        return -(-size // (2 if wide else 4))
    if wide or size < 2:
        return size
    d = _split_dimension(shape)
    return size // shape[d] * -(-shape[d] // 2)


def _add_wide(f: Any, words: Sequence[Any], addend: Sequence[Any]) -> list[Any]:
    """The wrapping sum of two multi-word integers, lowest word first."""
    out: list[Any] = []
    carry = None
    for i, word in enumerate(words):
        parts = [*addend[i : i + 1], *([] if carry is None else [carry])]
        carry = None
        for part in parts:
            word = f.add(word, part)
            over = f.convert(f.lt(word, part), dtype=UINT32)
            carry = over if carry is None else f.add(carry, over)
        out.append(word)
    return out


def _counts(f: Any, count: int) -> list[Any]:
    """The numbers 0, 1, 2, ... as multi-word integers, lowest word first."""
    if count <= 2**32:
        return [f.iota(dtype=UINT32, shape=(count,), dimension=0)]
    wide = f.iota(dtype=UINT64, shape=(count,), dimension=0)
    upper = f.shift_right_logical(wide, f.full_like(wide, 32))
    return [f.convert(v, dtype=UINT32) for v in (wide, upper)]


def _joined(f: Any, words: Sequence[Any], at: int) -> Any:
    """Interleave arrays of one shape along a dimension."""
    shape = _shape(words[0])
    parts = [f.reshape(w, shape=(*shape[: at + 1], 1, *shape[at + 1 :])) for w in words]
    joined = f.concatenate(*parts, dimension=at + 1)
    return f.reshape(joined, shape=(*shape[:at], shape[at] * len(words), *shape[at + 1 :]))


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(x.shape) if isinstance(x, np.ndarray) else type_of(x).shape


def _taken(f: Any, x: Any, shape: Sequence[int]) -> Any:
    """Crop to ``shape``: keep the first elements along each dimension."""
    if _shape(x) == tuple(shape):
        return x
    start, strides = (0,) * len(shape), (1,) * len(shape)
    return f.slice(x, start=start, limit=tuple(shape), strides=strides)


def _wide(f: Any, low: Any, high: Any) -> Any:
    low, high = (f.convert(w, dtype=UINT64) for w in (low, high))
    return f.or_(low, f.shift_left(high, f.full_like(high, 32)))


def _generate(
    f: Any, key: Any, shape: tuple[int, ...], dtype: np.dtype, algorithm: str
) -> tuple[Any, Any]:
    """The new state and the bits."""
    count, size = counters_used(shape, dtype, algorithm), math.prod(shape)
    state = [f.slice(key, start=(i,), limit=(i + 1,), strides=(1,)) for i in range(_STATE)]
    steps = [f.full_like(state[0], count >> 32 * i & 0xFFFFFFFF) for i in range(2)]
    new = f.concatenate(*state[:2], *_add_wide(f, state[2:], steps), dimension=0)
    if not size:
        return new, _empty(f, shape, dtype)
    k0, k1, c0, c1 = (
        f.broadcast_in_dim(f.reshape(w, shape=()), shape=(count,), dims=()) for w in state
    )
    is_wide = dtype.itemsize == UINT64.itemsize
    if algorithm == "philox":
        # The upper half of the counter repeats the key.
        words = _hashed(f, "philox4x32", k0, k1, *_add_wide(f, (c0, c1, k0, k1), _counts(f, count)))
        if is_wide:
            words = (_wide(f, *words[:2]), _wide(f, *words[2:]))
        bits = f.reshape(_taken(f, _joined(f, words, 0), (size,)), shape=shape)
    else:
        words = _threefry2x32(f, k0, k1, *_add_wide(f, (c0, c1), _counts(f, count)))
        if is_wide or size == 1:
            bits = f.reshape(_wide(f, *words) if is_wide else words[0], shape=shape)
        else:
            d = _split_dimension(shape)
            half = (*shape[:d], -(-shape[d] // 2), *shape[d + 1 :])
            parts = [f.reshape(w, shape=half) for w in words]
            bits = _taken(f, _joined(f, parts, d), shape)
    return new, bits if dtype in (UINT32, UINT64) else f.convert(bits, dtype=dtype)


def _hashed(f: Any, name: str, *words: Any) -> Words:
    if f is evaluated:
        return tuple(getattr(ops, name).evaluate(*words))
    return _philox4x32(f, *words)


def _empty(f: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return f.iota(dtype=dtype, shape=shape, dimension=0)


def _batch_generator(
    inst: Instance, operands: Sequence[Any], dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    """Generate the bits of all batch elements from the first state; keep the other states.

    This is JAX's rule. Hashing each state would double the cost, and which bits a state generates
    is up to the compiler anyway.
    """
    (keys,), (dim,) = operands, dims
    assert dim is not None
    keys = move_dim(keys, dim, 0)
    size = axis.size
    params = {**inst.params, "shape": (size, *inst.params["shape"])}
    first = ops.slice(keys, start=(0, 0), limit=(1, _STATE), strides=(1, 1))
    new, bits = inst.op.build([ops.reshape(first, shape=(_STATE,))], params)
    rest = ops.slice(keys, start=(1, 0), limit=(size, _STATE), strides=(1, 1))
    new = ops.concatenate(ops.reshape(new, shape=(1, _STATE)), rest, dimension=0)
    return [new, bits], [0, 0]


def _evaluate_generator(key: np.ndarray, **params: Any) -> tuple[np.ndarray, np.ndarray]:
    return _generate(evaluated, key, **params)


def _lower_generator(inst: Instance) -> list[ir.Value]:
    return list(_generate(lowered, inst.operands[0], **inst.params))


def _work_generator(operands: Types, results: Types, *, algorithm: str, **params: Any) -> Work:
    words = results[1].nbytes / UINT32.itemsize
    return Work(flops=words * (_PHILOX_FLOPS if algorithm == "philox" else THREEFRY_FLOPS))


rng_bit_generator = Op(
    name="rng_bit_generator",
    doc="the next state and random bits, from a state of four words: a key and a counter",
    example=(
        '%s, %bits = "gnomon.rng_bit_generator"(%state) '
        '{shape = array<i64: 3>, dtype = ui32, algorithm = "philox"} : '
        "(tensor<4xui32>) -> (tensor<4xui32>, tensor<3xui32>)"
    ),
    attributes={"shape": INTS, "dtype": DTYPE, "algorithm": STRING},
    operands=("key",),
    results=2,
    form=Form.RANDOM,
    stablehlo=("rng_bit_generator",),
    work=_work_generator,
    infer=_infer_generator,
    evaluate=_evaluate_generator,
    jvp=ZERO_TANGENT,
    transpose=NOT_LINEAR,
    batch=_batch_generator,
    sharding=sharding_rules.generated,
    lower=_lower_generator,
)
