"""Arrays of random keys.

A key is a few 32-bit words, two for Threefry-2x32. A `KeyArray` holds any number of keys as one
array for each word; these arrays are its leaves as a tree.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from gnomon import lax, tree_util
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.array import Array
from gnomon._arrays.aval import shaped_array
from gnomon._arrays.extended import ExtendedArray
from gnomon.dialects.sharding_rules import spec_text
from gnomon.lax._operands import as_tuple, broadcast
from gnomon.lax._structural import canonical_axis
from gnomon.random._implementations import IMPLEMENTATIONS, Implementation, implementation


class KeyDType(_dtypes.ExtendedDType):
    """The dtype of the keys of a generator; there is one instance for each."""

    type = _dtypes.prng_key

    def __init__(self, implementation: Implementation) -> None:
        self.implementation = implementation
        self.name = f"key<{implementation.tag}>"
        self.itemsize = 4 * implementation.words

    def __repr__(self) -> str:
        return self.name

    def of_parts(self, part: Callable[[np.dtype[Any]], Any]) -> KeyArray:
        """Make keys of words that a function makes."""
        words = [part(np.dtype(np.uint32)) for _ in range(self.implementation.words)]
        return KeyArray(words, self.implementation)

    def __reduce__(self) -> Any:
        return key_dtype, (self.implementation.name,)


_DTYPES = {each: KeyDType(each) for each in IMPLEMENTATIONS.values()}


def key_dtype(impl_spec: str | KeyDType | None = None) -> KeyDType:
    """The dtype of the keys of a generator.

    Args:
      impl_spec: the name of the generator; by default the configured one.
    Raises:
      ValueError: there is no generator of that name.
      TypeError: the argument is not a name.

    Example:
      >>> key_dtype("rbg")
      key<rbg>
    """
    return _DTYPES[implementation_of(impl_spec)]


def implementation_of(spec: Any) -> Implementation:
    """The generator of a name or of a dtype of keys; the configured one for None."""
    return spec.implementation if isinstance(spec, KeyDType) else implementation(spec)


# What a key array is compared with in error; comparisons with other objects are False.
_NO_KEYS = (Array, np.ndarray, np.generic, int, float, complex, list, tuple, set, dict)


class KeyArray(ExtendedArray):
    """An array of random keys.

    It can be indexed, reshaped and iterated like other arrays, and compared with ``==``; arithmetic
    raises. As a tree, its leaves are the words of the keys, which are arrays of its shape.

    Attributes:
      words: uint32 arrays of the shape of the array.
      implementation: the generator that the keys belong to.
    """

    __slots__ = ("implementation",)

    implementation: Implementation

    def __new__(cls, words: Sequence[Any], implementation: Implementation) -> KeyArray:
        keys = object.__new__(cls)
        keys.words = tuple(words)
        keys.implementation = implementation
        return keys

    @property
    def aval(self) -> Any:
        """Shape, dtype and sharding; only the words of keys have a type in programs."""
        explicit = getattr(getattr(self.words[0], "aval", None), "explicit", None)
        return KeyAval(self.shape, self.dtype, explicit)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return tuple(self.words[0].shape)

    @property
    def dtype(self) -> Any:
        """`KeyDType`."""
        return _DTYPES[self.implementation]

    @property
    def weak_type(self) -> bool:
        """False."""
        return False

    @property
    def size(self) -> int:
        """The number of keys."""
        return math.prod(self.shape)

    def data(self) -> Array:
        """The words in one array with an additional last dimension."""
        rank = self.ndim
        return lax.concatenate([lax.expand_dims(word, (rank,)) for word in self.words], rank)

    def with_words(self, words: Iterable[Any]) -> KeyArray:
        """Make keys of the same generator from words."""
        return KeyArray(tuple(words), self.implementation)

    # ------------------------------------------------------------------------------------ structure

    def _each(self, function: Callable[[Array], Array]) -> KeyArray:
        return KeyArray([function(word) for word in self.words], self.implementation)

    def __getitem__(self, index: Any) -> KeyArray:
        return self._each(lambda word: word[index])

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.shape:
            raise TypeError("iteration over a single key")
        rows = zip(*(lax.unstack(word) for word in self.words), strict=True)
        return (KeyArray(words, self.implementation) for words in rows)

    def reshape(self, *shape: Any) -> KeyArray:  # type: ignore[override] # fewer options
        """The same keys in another shape; one size may be -1."""
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        sizes = tuple(sizes)
        if -1 in sizes:
            rest = math.prod(n for n in sizes if n != -1)
            if sizes.count(-1) > 1 or rest == 0 or self.size % rest:
                raise TypeError(f"cannot reshape {self.size} keys to {sizes}")
            sizes = tuple(self.size // rest if n == -1 else n for n in sizes)
        return self._each(lambda word: lax.reshape(word, sizes))

    def ravel(self) -> KeyArray:  # type: ignore[override] # fewer options
        """Flatten the keys to one dimension."""
        return self.reshape(-1) if self.size else self.reshape(0)

    flatten = ravel  # type: ignore[assignment] # fewer options

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> KeyArray:  # type: ignore[override] # fewer options
        """Remove dimensions of size one."""
        if axis is None:
            axis = tuple(d for d, n in enumerate(self.shape) if n == 1)
        dims = as_tuple(axis)
        return self._each(lambda word: lax.squeeze(word, dims))

    def transpose(self, *axes: Any) -> KeyArray:
        """Permute the dimensions; by default reverse them."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        if not order:
            order = tuple(reversed(range(self.ndim)))
        order = tuple(canonical_axis(d, self.ndim) for d in order)
        return self._each(lambda word: lax.transpose(word, order))

    def swapaxes(self, axis1: int, axis2: int) -> KeyArray:
        """Exchange two dimensions."""
        order = list(range(self.ndim))
        first, second = (canonical_axis(axis, self.ndim) for axis in (axis1, axis2))
        order[first], order[second] = second, first
        return self.transpose(*order) if order else self.copy()

    def take(self, indices: Any, axis: int | None = None, **options: Any) -> KeyArray:  # type: ignore[override] # fewer options
        """Take keys at indices along a dimension, or of the flat array; see `numpy.take`."""
        return self._each(lambda word: word.take(indices, axis, **options))

    @property
    def at(self) -> Any:
        """``keys.at[index].set(others)`` and ``.get()``: as for other arrays."""
        return _KeysAt(self)

    @property
    def T(self) -> KeyArray:
        """The keys with the dimensions in reverse order."""
        return self.transpose()

    def copy(self) -> KeyArray:
        """The same keys."""
        return KeyArray(self.words, self.implementation)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> KeyArray:
        return self.copy()

    # ---------------------------------------------------------------------------------- comparisons

    def _holds_words(self) -> bool:
        """False for a node of a tree of other objects, such as dtypes or specifications."""
        return all(isinstance(word, Array) for word in self.words)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            if not isinstance(other, _NO_KEYS):
                return NotImplemented
            raise TypeError(f"a key array is compared with key arrays only, got {type(other)}")
        if other.implementation is not self.implementation:
            raise TypeError(f"keys of two generators compared: {self.dtype} and {other.dtype}")
        if not (self._holds_words() and other._holds_words()):
            return self.words == other.words
        shape = lax.broadcast_shapes(self.shape, other.shape)
        first, *rest = (
            lax.eq(broadcast(a, shape), broadcast(b, shape))
            for a, b in zip(self.words, other.words, strict=True)
        )
        return functools.reduce(lax.bitwise_and, rest, first)

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        if equal is NotImplemented:
            return equal
        return not equal if isinstance(equal, bool) else lax.bitwise_not(equal)

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

    @property
    def sharding(self) -> Any:
        """How the keys are distributed over devices."""
        return self.words[0].sharding

    @property
    def committed(self) -> bool:
        """Whether the keys were put on their devices explicitly."""
        return bool(self.words[0].committed)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return bool(self.words[0].is_fully_addressable)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds all keys."""
        return bool(self.words[0].is_fully_replicated)

    @property
    def addressable_shards(self) -> list[Any]:
        """The keys that each device of this process holds."""
        return self._shards_of([word.addressable_shards for word in self.words])

    @property
    def global_shards(self) -> list[Any]:
        """The keys that each device holds."""
        return self._shards_of([word.global_shards for word in self.words])

    def addressable_data(self, index: int) -> KeyArray:
        """The keys on one of the devices of this process, by its number among them."""
        return self._each(lambda word: word.addressable_data(index))

    def _shards_of(self, words: Sequence[Sequence[Any]]) -> list[Any]:
        joined = []
        for parts in zip(*words, strict=True):
            data = [part.data for part in parts]
            keys = None if data[0] is None else self.with_words(data)
            joined.append(dataclasses.replace(parts[0], data=keys))
        return joined

    def delete(self) -> None:
        """Free the memory."""
        for word in self.words:
            word.delete()

    def is_deleted(self) -> bool:
        """True after `delete`, or after the array was donated to a call."""
        return any(word.is_deleted() for word in self.words)

    # -------------------------------------------------------------------- unsupported conversions

    def numpy_value(self) -> NoReturn:
        """Raise ``TypeError``: keys are not numbers."""
        raise TypeError(
            "an array of random keys cannot become an array of numbers: use random.key_data(key) "
            "for the words, random.bits(key) for random numbers"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self.numpy_value()

    def __bool__(self) -> NoReturn:
        raise TypeError("a key array cannot be converted to boolean")

    def __repr__(self) -> str:
        if not self._holds_words():
            # As a tree, it may hold types, or anything that a function has made of its leaves.
            return f"KeyArray({self.words}, {self.implementation})"
        return f"Array({self.shape}, dtype={self.dtype.name}) overlaying:\n{self.data()}"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return KeyArray, (self.words, self.implementation)


class _KeysAt:
    """``keys.at`` and ``keys.at[index]``."""

    __slots__ = ("index", "keys")

    def __init__(self, keys: KeyArray, index: Any = None) -> None:
        self.keys = keys
        self.index = index

    def __getitem__(self, index: Any) -> _KeysAt:
        return _KeysAt(self.keys, index)

    def get(self, **options: Any) -> KeyArray:
        """The keys at the index."""
        return self.keys._each(lambda word: word.at[self.index].get(**options))

    def set(self, values: Any, **options: Any) -> KeyArray:
        """A copy of the array with other keys at the index.

        Raises:
          TypeError: the other keys are not keys of the same generator.
        """
        keys = self.keys
        if not isinstance(values, KeyArray) or values.implementation is not keys.implementation:
            raise TypeError(f"at[].set of {keys.dtype} takes keys of that dtype, got {values!r}")
        pairs = zip(keys.words, values.words, strict=True)
        words = [word.at[self.index].set(value, **options) for word, value in pairs]
        return KeyArray(words, keys.implementation)


class KeyAval:
    """The type of an array of keys.

    Attributes:
      shape, dtype: the shape, and the `KeyDType`.
      explicit: the sharding over a mesh with explicit axes, or None.
    """

    __slots__ = ("dtype", "explicit", "shape")

    weak_type = False

    def __init__(self, shape: tuple[int, ...], dtype: KeyDType, explicit: Any = None) -> None:
        self.shape = shape
        self.dtype = dtype
        self.explicit = explicit

    @property
    def sharding(self) -> Any:
        """How the keys are split over the explicit axes of a mesh."""
        return shaped_array(self.shape, np.dtype(np.uint32), sharding=self.explicit).sharding

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of keys."""
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, KeyAval)
            and self.shape == other.shape
            and self.dtype is other.dtype
            and self.explicit == other.explicit
        )

    def __hash__(self) -> int:
        return hash((KeyAval, self.shape, self.dtype))

    def __str__(self) -> str:
        splits = ((),) * self.ndim if self.explicit is None else self.explicit._axes
        return f"{self.dtype.name}[{','.join(map(spec_text, self.shape, splits))}]"

    def __repr__(self) -> str:
        return f"ShapedArray({self})"


tree_util.register_pytree_node(
    KeyArray,
    lambda keys: (keys.words, keys.implementation),
    lambda implementation, words: KeyArray(words, implementation),
)
