"""Arrays of random keys.

A key is two 32-bit words, the key of the Threefry-2x32 hash. A `KeyArray` holds any number of them
as two arrays of words, which are its leaves as a tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from gnomon import _dtypes, lax, tree_util
from gnomon._array import Array
from gnomon.lax._operands import broadcast
from gnomon.lax._structural import canonical_axis

IMPLEMENTATION = "threefry2x32"
# Generators that jax.random has and gnomon does not.
_KNOWN_ELSEWHERE = ("rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32")


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


def key_dtype(impl_spec: Any = None) -> KeyDType:
    """The dtype of the keys that `key` makes."""
    check_implementation(impl_spec)
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

    def data(self) -> Array:
        """The words in one array, with one more dimension, the last, of size two."""
        rank = self.ndim
        return lax.concatenate([lax.expand_dims(word, (rank,)) for word in self.words], rank)

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
        return f"Array({self.shape}, dtype={_KEY_DTYPE.name}) overlaying:\n{self.data()}"

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
