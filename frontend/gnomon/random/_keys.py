"""Keys: what `key`, `split` and `fold_in` make and every sampler takes.

A key is two 32-bit words, the key of the Threefry-2x32 hash. A `KeyArray` holds any number of them
as two arrays of words, which are its leaves as a tree; a raw key is one uint32 array whose last
dimension holds the two words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from gnomon import _dtypes, lax, tree_util
from gnomon._array import Array, ConcreteArray, wrap
from gnomon._config import config
from gnomon._tracing import as_operand, bind, staging
from gnomon.dialects.emit import ops
from gnomon.lax._operands import as_shape, broadcast
from gnomon.lax._structural import canonical_axis

IMPLEMENTATION = "threefry2x32"
# Generators that jax.random has and gnomon does not.
_KNOWN_ELSEWHERE = ("rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32")

UINT32 = np.dtype(np.uint32)
UINT64 = np.dtype(np.uint64)


class KeyDType(_dtypes.ExtendedDType):
    """The dtype of random keys; there is one instance."""

    type = _dtypes.prng_key
    name = "key<fry>"
    itemsize = 8

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return key_dtype, ()


_KEY_DTYPE = KeyDType()


def key_dtype(impl: Any = None) -> KeyDType:
    """The dtype of the keys that `key` makes."""
    check_implementation(impl)
    return _KEY_DTYPE


def check_implementation(impl: Any) -> None:
    """Raise unless a generator's name is ours (or None).

    Raises:
      NotImplementedError: it is one of JAX's that gnomon does not have.
      ValueError: it is unknown.
    """
    if impl is None or impl is _KEY_DTYPE or impl == IMPLEMENTATION:
        return
    if impl in _KNOWN_ELSEWHERE:
        raise NotImplementedError(
            f"the generator {impl!r} is not implemented: use {IMPLEMENTATION!r}, the default"
        )
    raise ValueError(f"unrecognized generator {impl!r}: there is {IMPLEMENTATION!r}")


class KeyArray(Array):
    """An array of random keys.

    It is indexed, reshaped and iterated like other arrays, and compared with ``==``; arithmetic on
    it raises. As a tree it has two leaves of the array's shape, the words of the keys.

    Attributes:
      words: two uint32 arrays of the shape of the array.
    """

    __slots__ = ("words",)

    words: tuple[Any, Any]

    def __new__(cls, first: Any, second: Any) -> KeyArray:
        keys = object.__new__(cls)
        keys.words = (first, second)
        return keys

    @property
    def aval(self) -> Any:
        """Shape and dtype; keys have no type in a program, their words have."""
        return KeyAval(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return tuple(self.words[0].shape)

    @property
    def dtype(self) -> Any:
        """`KeyDType`."""
        return _KEY_DTYPE

    @property
    def weak_type(self) -> bool:
        """False."""
        return False

    @property
    def size(self) -> int:
        """The number of keys."""
        return math.prod(self.shape)

    # ------------------------------------------------------------------------------------ structure

    def _each(self, function: Callable[[Array], Array]) -> KeyArray:
        return KeyArray(*(function(word) for word in self.words))

    def __getitem__(self, index: Any) -> KeyArray:
        return self._each(lambda word: word[index])

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.shape:
            raise TypeError("iteration over a single key")
        first, second = (lax.unstack(word) for word in self.words)
        return (KeyArray(a, b) for a, b in zip(first, second, strict=True))

    def reshape(self, *shape: Any) -> KeyArray:
        """The same keys in another shape; one size may be -1."""
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        sizes = tuple(sizes)
        if -1 in sizes:
            rest = math.prod(n for n in sizes if n != -1)
            if sizes.count(-1) > 1 or rest == 0 or self.size % rest:
                raise TypeError(f"cannot reshape {self.size} keys to {sizes}")
            sizes = tuple(self.size // rest if n == -1 else n for n in sizes)
        return self._each(lambda word: lax.reshape(word, sizes))

    def ravel(self) -> KeyArray:
        """The keys in one dimension."""
        return self.reshape(-1) if self.size else self.reshape(0)

    flatten = ravel

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> KeyArray:
        """Without dimensions of size one."""
        if axis is None:
            axis = tuple(d for d, n in enumerate(self.shape) if n == 1)
        dims = axis if isinstance(axis, tuple) else (axis,)
        return self._each(lambda word: lax.squeeze(word, dims))

    def transpose(self, *axes: Any) -> KeyArray:
        """With dimensions permuted, or reversed."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        if not order:
            order = tuple(reversed(range(self.ndim)))
        order = tuple(canonical_axis(d, self.ndim) for d in order)
        return self._each(lambda word: lax.transpose(word, order))

    @property
    def T(self) -> KeyArray:
        """With the dimensions in reverse order."""
        return self.transpose()

    def copy(self) -> KeyArray:
        """The same keys."""
        return KeyArray(*self.words)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> KeyArray:
        return self.copy()

    # ---------------------------------------------------------------------------------- comparisons

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            raise TypeError(f"a key array is compared with key arrays only, got {type(other)}")
        shape = lax.broadcast_shapes(self.shape, other.shape)
        first, second = (
            lax.eq(broadcast(a, shape), broadcast(b, shape))
            for a, b in zip(self.words, other.words, strict=True)
        )
        return lax.bitwise_and(first, second)

    def __ne__(self, other: object) -> Any:
        return lax.bitwise_not(self == other)

    def __hash__(self) -> int:
        raise TypeError("unhashable type: KeyArray; use random.key_data(key).tobytes()")

    # ---------------------------------------------------------------------------- the device side

    def block_until_ready(self) -> KeyArray:
        """Wait until the words are computed; the array itself."""
        for word in self.words:
            word.block_until_ready()
        return self

    def devices(self) -> set[Any]:
        """The devices that hold the words."""
        return set().union(*(word.devices() for word in self.words))

    @property
    def device(self) -> Any:
        """The device that holds the words."""
        return self.words[0].device

    def delete(self) -> None:
        """Free the memory."""
        for word in self.words:
            word.delete()

    def is_deleted(self) -> bool:
        """True after `delete`, or after the array was donated to a call."""
        return any(word.is_deleted() for word in self.words)

    # -------------------------------------------------------------------------- what keys are not

    def numpy_value(self) -> NoReturn:
        """Raises: keys are not numbers."""
        raise TypeError(
            "an array of random keys cannot become an array of numbers: use random.key_data(key) "
            "for the words, random.bits(key) for random numbers"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self.numpy_value()

    def __bool__(self) -> NoReturn:
        raise TypeError("a key array cannot be converted to boolean")

    def __repr__(self) -> str:
        return f"Array({self.shape}, dtype={_KEY_DTYPE.name}) overlaying:\n{key_data(self)}"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return KeyArray, self.words


class KeyAval:
    """Shape and dtype of an array of keys, for messages."""

    __slots__ = ("shape",)

    dtype = _KEY_DTYPE
    weak_type = False

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of keys."""
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyAval) and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((KeyAval, self.shape))

    def __str__(self) -> str:
        return f"{_KEY_DTYPE.name}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return f"ShapedArray({self})"


tree_util.register_pytree_node(
    KeyArray,
    lambda keys: (keys.words, None),
    lambda _, words: KeyArray(*words),
)


# ---------------------------------------------------------------------------------- raw and typed


def _is_raw(x: Any) -> bool:
    return isinstance(x, Array | np.ndarray) and not isinstance(x, KeyArray)


def _from_raw(x: Any) -> KeyArray:
    array = as_operand(x)
    if array.dtype != UINT32:
        raise TypeError(
            f"the words of random keys must be uint32, got an array of dtype {array.dtype.name}"
        )
    if array.ndim == 0 or array.shape[-1] != 2:
        raise TypeError(
            "an array of the words of random keys must have a last dimension of size 2, got shape "
            f"{array.shape}"
        )
    known = host_values(array)
    if known is not None:
        return KeyArray(wrap(known[0][..., 0]), wrap(known[0][..., 1]))
    return KeyArray(*(lax.index_in_dim(array, i, -1, keepdims=False) for i in (0, 1)))


def words_of(function: str, keys: Any) -> tuple[Array, Array, bool]:
    """The words of one key, and whether it was a raw one.

    Raises:
      TypeError: it is not a key.
      ValueError: it is an array of keys.
    """
    raw = False
    if type(keys) is not KeyArray:
        if not _is_raw(keys):
            raise TypeError(
                f"random.{function} takes a key, made by random.key or random.PRNGKey; got a value "
                f"of type {type(keys).__name__}"
            )
        keys, raw = _from_raw(keys), True
    first, second = keys.words
    if first.shape:
        raise ValueError(
            f"random.{function} accepts a single key, but was given a key array of shape "
            f"{first.shape}. Use gnomon.vmap for a batch of keys."
        )
    return first, second, raw


def _result(first: Array, second: Array, raw: bool) -> Array:
    keys = KeyArray(first, second)
    return key_data(keys) if raw else keys


def key_data(keys: Any) -> Array:
    """The words of keys.

    Args:
      keys: an array of keys, or a raw key.
    Returns:
      A uint32 array with one more dimension, the last, of size two.

    Example:
      >>> key_data(key(7))
      Array([0, 7], dtype=uint32)
    """
    if type(keys) is not KeyArray:
        if not _is_raw(keys):
            raise TypeError(f"key_data takes keys, got a value of type {type(keys).__name__}")
        keys = _from_raw(keys)
    first, second = keys.words
    known = host_values(first, second)
    if known is not None:
        data = np.empty((*known[0].shape, 2), UINT32)
        data[..., 0], data[..., 1] = known
        return wrap(data)
    rank = first.ndim
    return lax.concatenate([lax.expand_dims(w, (rank,)) for w in (first, second)], rank)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Keys from their words, the inverse of `key_data`.

    Args:
      key_bits_array: a uint32 array whose last dimension has size two.
      impl, dtype: the generator (at most one is given); there is ``"threefry2x32"``.
    Raises:
      TypeError: another dtype or shape.
    """
    check_implementation(_implementation("wrap_key_data", impl, dtype))
    if not _is_raw(key_bits_array):
        raise TypeError(
            f"wrap_key_data takes an array of uint32, got {type(key_bits_array).__name__}"
        )
    return _from_raw(key_bits_array)


def _implementation(function: str, impl: Any, dtype: Any) -> Any:
    if impl is not None and dtype is not None:
        raise ValueError(f"random.{function}: give impl or dtype, not both")
    return dtype if impl is None else impl


def key_impl(keys: Any) -> str:
    """The name of the generator of keys: ``"threefry2x32"``."""
    if type(keys) is not KeyArray:
        if not _is_raw(keys):
            raise TypeError(f"key_impl takes keys, got a value of type {type(keys).__name__}")
        _from_raw(keys)
    return IMPLEMENTATION


# ------------------------------------------------------------------------------------ making keys


def _seed_words(function: str, seed: Any) -> tuple[Array, Array]:
    if isinstance(seed, KeyArray):
        raise TypeError(f"{function} accepts a scalar seed, but was given a random key")
    if np.ndim(seed):
        raise TypeError(
            f"{function} accepts a scalar seed, but was given an array of shape {np.shape(seed)}. "
            "Use gnomon.vmap for a batch of seeds."
        )
    if isinstance(seed, int):
        if not -(2**63) <= seed < 2**63:
            raise OverflowError(f"{function}: the seed {seed} does not fit 64 bits")
        high = seed >> 32 & 0xFFFFFFFF if config.x64 else 0
        return _word(high), _word(seed & 0xFFFFFFFF)
    array = as_operand(seed)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{function}: the seed must be an integer, got {array.aval}")
    bits = 8 * array.dtype.itemsize
    unsigned = np.dtype(f"uint{bits}")
    if bits <= 32:
        # The high word of a 32-bit seed is zero, negative seeds included.
        low = lax.convert_element_type(array, UINT32)
        return _word(0), low
    wide = array if array.dtype == unsigned else bind(ops.bitcast_convert, array, dtype=unsigned)
    high_word = lax.shift_right_logical(wide, np.uint64(32))
    low_word = lax.bitwise_and(wide, np.uint64(0xFFFFFFFF))
    high, low = (bind(ops.convert, w, dtype=UINT32) for w in (high_word, low_word))
    return high, low


def _word(value: int) -> Array:
    return wrap(np.array(value, UINT32))


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """A random key from a seed.

    Args:
      seed: an integer, or an integer array without dimensions. Without 64-bit types the lower 32
        bits count.
      impl, dtype: the generator (at most one is given); there is ``"threefry2x32"``.
    Returns:
      A key array without dimensions.
    Raises:
      TypeError: the seed is not one integer.
      OverflowError: it does not fit 64 bits.

    Example:
      >>> key(7)
      Array((), dtype=key<fry>) overlaying:
      [0 7]
    """
    check_implementation(_implementation("key", impl, dtype))
    return KeyArray(*_seed_words("key", seed))


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """A raw random key from a seed: a uint32 array of two words; see `key` for typed ones.

    Example:
      >>> PRNGKey(7)
      Array([0, 7], dtype=uint32)
    """
    check_implementation(impl)
    return key_data(KeyArray(*_seed_words("PRNGKey", seed)))


def host_values(*arrays: Array) -> list[np.ndarray[Any, Any]] | None:
    """The NumPy values of arrays, where they are at hand and nothing is staged.

    With them the short samplers call NumPy at once: each op that goes through `bind` costs as much
    as all of them.
    """
    if staging():
        return None
    values = []
    for array in arrays:
        value = array._value if type(array) is ConcreteArray else None
        if value is None:
            return None
        values.append(value)
    return values


# From this size on a view that repeats a word costs less than an array of them.
_LARGE = 1 << 14


def hashed_counters(first: Array, second: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """`threefry` of `counters`."""
    size = math.prod(shape)
    known = host_values(first, second)
    if known is None or size > 2**32:
        return threefry(first, second, *counters(shape))
    repeat = np.full if size < _LARGE else lambda n, word: np.broadcast_to(word, n)
    high, low = ops.threefry2x32.evaluate(
        *(repeat(shape, word) for word in known),
        np.zeros(shape, UINT32),
        np.arange(size, dtype=UINT32).reshape(shape),
    )
    return wrap(high), wrap(low)


def threefry(first: Array, second: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """The hash of counters under one key: two words for each counter."""
    shape = high.shape
    out = bind(ops.threefry2x32, broadcast(first, shape), broadcast(second, shape), high, low)
    return out[0], out[1]


def counters(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """0, 1, 2, ... in row-major order, as the high and low words of 64-bit numbers."""
    size = math.prod(shape)
    if size <= 2**32:
        low = bind(ops.iota, dtype=UINT32, shape=(size,), dimension=0)
        return broadcast(_word(0), shape), lax.reshape(low, shape)
    wide = bind(ops.iota, dtype=UINT64, shape=(size,), dimension=0)
    bits = broadcast(wrap(np.array(32, UINT64)), (size,))
    high = bind(ops.convert, bind(ops.shift_right_logical, wide, bits), dtype=UINT32)
    low = bind(ops.convert, wide, dtype=UINT32)
    return lax.reshape(high, shape), lax.reshape(low, shape)


def split(key: Any, num: int | tuple[int, ...] = 2) -> Array:
    """New keys from a key.

    Args:
      key: one key.
      num: how many, or the shape of the array of new keys.
    Returns:
      Keys of the given kind (typed or raw) with the dimensions of ``num`` in front.
    Raises:
      ValueError: ``key`` is an array of keys.

    Example:
      >>> key_data(split(key(0)))
      Array([[1797259609, 2579123966],
             [ 928981903, 3453687069]], dtype=uint32)
    """
    first, second, raw = words_of("split", key)
    shape = as_shape("random.split", num)
    return _result(*hashed_counters(first, second, shape), raw)


def fold_in(key: Any, data: Any) -> Array:
    """A new key from a key and an integer.

    Args:
      key: one key.
      data: an integer of 32 bits, or an integer array without dimensions.
    Returns:
      One key of the given kind.
    Raises:
      TypeError: ``data`` has dimensions.
      OverflowError: a Python int that does not fit uint32.
    """
    first, second, raw = words_of("fold_in", key)
    if np.ndim(data):
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {np.shape(data)}. Use "
            "gnomon.vmap for a batch."
        )
    if type(data) is int and not 0 <= data < 2**32:
        raise OverflowError(f"fold_in: the integer {data} is out of bounds for uint32")
    low = lax.convert_element_type(data, UINT32)
    return _result(*threefry(first, second, _word(0), low), raw)


def clone(key: Any) -> Any:
    """The same key, for reuse on purpose."""
    words_of("clone", key)
    return key.copy()
