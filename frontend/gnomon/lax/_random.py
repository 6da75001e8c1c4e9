"""Random bits of a generator with an explicit state, as in XLA."""

from __future__ import annotations

import enum

import numpy as np

from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand, bind
from gnomon.dialects.emit import ops
from gnomon.lax._creation import bitcast_convert_type
from gnomon.lax._operands import as_shape
from gnomon.lax._structural import reshape

_UINT32 = np.dtype(np.uint32)
_UINT64 = np.dtype(np.uint64)
_WORDS = 4


class RandomAlgorithm(enum.IntEnum):
    """The algorithms of `rng_bit_generator`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


_NAMES = {
    RandomAlgorithm.RNG_DEFAULT: "philox",
    RandomAlgorithm.RNG_PHILOX: "philox",
    RandomAlgorithm.RNG_THREE_FRY: "threefry",
}


def rng_bit_generator(
    key: ArrayLike,
    shape: ShapeLike,
    dtype: DTypeLike = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: OutSharding | None = None,
) -> tuple[Array, Array]:
    """Random bits from a state, and the next state.

    Most programs should use `gnomon.random`. The definition is XLA's ``RngBitGenerator``; the
    default algorithm is Philox-4x32 on every device. Under `vmap`, the bits of the whole batch are
    generated from its first state, as in JAX.

    Args:
      key: the state, uint32[4]: the lower and the upper word of a key, then of a counter. With x64,
        it may be uint64[2].
      shape: the shape of the bits.
      dtype: an unsigned integer dtype.
      algorithm: a `RandomAlgorithm`.
      out_sharding: the sharding of the bits, or a spec of the mesh that is set.
    Returns:
      The new state, of the type of ``key``, and an array of bits.
    Raises:
      TypeError: the dtype is not unsigned, or the state has another type.

    Example:
      >>> import gnomon.numpy as gnp
      >>> rng_bit_generator(gnp.arange(4, dtype="uint32"), (2,))[0]
      Array([0, 1, 3, 3], dtype=uint32)
    """
    if out_sharding is not None:
        new, bits = rng_bit_generator(key, shape, dtype, algorithm)
        return new, with_out_sharding("lax.rng_bit_generator", out_sharding, lambda: bits)
    sizes = as_shape("lax.rng_bit_generator", shape)
    kind = _dtypes.check_user_dtype(dtype, "lax.rng_bit_generator")
    if kind.kind != "u" or kind.itemsize * 8 not in (8, 16, 32, 64):
        raise TypeError(f"lax.rng_bit_generator: unsupported dtype {kind.name}")
    state = as_operand(key)
    wide = state.dtype == _UINT64 and state.shape == (2,)
    if not wide and (state.dtype != _UINT32 or state.shape != (_WORDS,)):
        raise TypeError(
            f"lax.rng_bit_generator: the key must be uint32[4] or uint64[2], got {state.aval}"
        )
    if wide:
        state = reshape(bitcast_convert_type(state, _UINT32), (_WORDS,))
    new, bits = bind(
        ops.rng_bit_generator,
        state,
        shape=sizes,
        dtype=kind,
        algorithm=_NAMES[RandomAlgorithm(algorithm)],
    )
    if wide:
        new = bitcast_convert_type(reshape(new, (2, 2)), _UINT64)
    return new, bits
