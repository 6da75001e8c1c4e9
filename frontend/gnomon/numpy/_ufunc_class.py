"""Universal functions: the methods ``reduce``, ``accumulate``, ``at``, ``outer``, ``reduceat``.

The functions of `gnomon.numpy` that are universal functions in JAX (``add``, ``maximum``, ...) are
plain functions, because Python calls these fastest; the methods are attributes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike, DTypeLike
from gnomon._arrays.array import Array
from gnomon._tracing.trace import concrete_value
from gnomon._transformations.vmap import vmap
from gnomon.lax._structural import canonical_axis
from gnomon.numpy import (
    _accumulations,
    _construction,
    _joining,
    _logarithms,
    _manipulation,
    _reductions,
    _selection,
    _taking,
    _ufuncs,
)
from gnomon.numpy._arguments import as_array

_METHODS = ("reduce", "accumulate", "at", "outer", "reduceat")
_FACTS = ("nin", "nout", "nargs", "identity")


class _CountsFunctions(type):
    """Makes the functions that have the methods of `ufunc` instances of it, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        # A wrapper of such a function has its attributes, but may be any function.
        universal = getattr(instance, "__ufunc__", None)
        return universal is not None and universal._func is instance


class ufunc(metaclass=_CountsFunctions):  # noqa: N801 (NumPy's name)
    """A function of scalars, applied to arrays element by element; see `frompyfunc`.

    Attributes:
      nin, nout, nargs: the numbers of arguments, of results, and of both.
      identity: the result of a reduction over no elements, or None.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        nin: int,
        nout: int,
        *,
        identity: Any = None,
        reducer: Callable[..., Array] | None = None,
        accumulator: Callable[..., Array] | None = None,
        update: str | None = None,
        elementwise: bool = False,
    ) -> None:
        self.__name__ = getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__
        self.nin, self.nout, self.nargs, self.identity = nin, nout, nin + nout, identity
        self._func = func
        self._reducer, self._accumulator, self._update = reducer, accumulator, update
        self._elementwise = elementwise

    def _parts(self) -> tuple[Any, ...]:
        """The values that distinguish it from other universal functions."""
        rules = self._reducer, self._accumulator, self._update, self._elementwise
        return (self._func, self.nin, self.nout, type(self.identity), self.identity, *rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((self._func, self.nin, self.nout))

    def __repr__(self) -> str:
        return f"<gnomon.numpy.ufunc {self.__name__!r}>"

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        """Apply to arrays that broadcast against each other."""
        _unsupported(self.__name__, out=out, where=where)
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} arguments, got {len(args)}")
        if self._elementwise:
            return self._func(*args)
        arrays = _manipulation.broadcast_arrays(*(as_array(self.__name__, a) for a in args))
        shape = arrays[0].shape
        function = self._func
        for _ in shape:
            function = vmap(function)
        return function(*arrays)

    def reduce(
        self,
        a: ArrayLike,
        axis: int | None = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Combine the elements along an axis, from the first to the last.

        Args:
          a: an array.
          axis: the axis; None means all axes.
          dtype: the dtype to compute in.
          keepdims: keep the axis with size 1.
          initial: a value that comes before the first element.
          where: a mask of the elements to combine; it needs an identity or ``initial``.
        Raises:
          ValueError: there are no elements and no identity.

        Example:
          >>> import gnomon.numpy as gnp
          >>> gnp.add.reduce(gnp.arange(4))
          Array(6, dtype=int32)
        """
        self._check_binary("reduce")
        _unsupported(f"{self.__name__}.reduce", out=out)
        if self._reducer is not None:
            return self._reducer(
                a, axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
            )
        x = as_array(self.__name__, a)
        x = x if dtype is None else x.astype(dtype)
        x = x.astype(self._result_dtype(x))
        if where is not None and initial is None and self.identity is None:
            raise ValueError(f"{self.__name__}.reduce: where needs initial, there is no identity")
        kept = np.ones(x.shape, bool) if where is None else where
        mask = _manipulation.broadcast_to(kept, x.shape)
        shape = (1,) * x.ndim
        if axis is None:
            x, mask = _manipulation.ravel(x), _manipulation.ravel(mask)
            place = 0
        else:
            place = canonical_axis(axis, x.ndim)
            shape = (*x.shape[:place], 1, *x.shape[place + 1 :])
        rows = _manipulation.moveaxis(x, place, 0)
        masks = _manipulation.moveaxis(mask, place, 0)
        start = self.identity if initial is None else initial
        if start is None:
            if rows.shape[0] == 0:
                raise ValueError(f"{self.__name__}.reduce: no elements, and no identity")
            carry, rows, masks = rows[0], rows[1:], masks[1:]
        else:
            carry = _manipulation.broadcast_to(as_array(self.__name__, start), rows.shape[1:])
            carry = carry.astype(x.dtype)

        def step(carry: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
            new = self(carry, row[0]).astype(carry.dtype)
            return (new if where is None else _selection.where(row[1], new, carry)), None

        result = lax.scan(step, carry, (rows, masks))[0]
        return _manipulation.reshape(result, shape) if keepdims else result

    def accumulate(
        self, a: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None, out: None = None
    ) -> Array:
        """The results of `reduce` over the first element, the first two, and so on.

        Example:
          >>> import gnomon.numpy as gnp
          >>> gnp.multiply.accumulate(gnp.arange(1, 5))
          Array([ 1,  2,  6, 24], dtype=int32)
        """
        self._check_binary("accumulate")
        _unsupported(f"{self.__name__}.accumulate", out=out)
        x = as_array(self.__name__, a)
        place = canonical_axis(axis, x.ndim)
        if self._accumulator is not None:
            return self._accumulator(x, place, dtype=dtype)
        rows = _manipulation.moveaxis(x if dtype is None else x.astype(dtype), place, 0)
        if rows.shape[0] == 0:
            return _manipulation.moveaxis(rows, 0, place)
        rows = rows.astype(self._result_dtype(rows))

        def step(carry: Array, row: Array) -> tuple[Array, Array]:
            new = self(carry, row).astype(carry.dtype)
            return new, new

        later = lax.scan(step, rows[0], rows[1:])[1]
        return _manipulation.moveaxis(_joining.concatenate([rows[:1], later]), 0, place)

    def at(self, a: ArrayLike, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Array:
        """A copy of an array with the function applied at indices.

        Args:
          a: an array.
          indices: an index as in ``a[indices]``; at repeated indices, the function is applied
            repeatedly.
          b: the second argument of a function of two arguments.
          inplace: must be False, since arrays are immutable.
        Raises:
          NotImplementedError: ``inplace`` is True.

        Example:
          >>> import gnomon.numpy as gnp
          >>> gnp.add.at(gnp.zeros(3), gnp.array([0, 0]), 1.0, inplace=False)
          Array([2., 0., 0.], dtype=float32)
        """
        if inplace:
            raise NotImplementedError(
                f"{self.__name__}.at cannot write into its argument, arrays are immutable: pass "
                "inplace=False and use the result"
            )
        x = as_array(self.__name__, a)
        if self.nin == 1:
            return x.at[indices].apply(self)
        if b is None:
            raise ValueError(f"{self.__name__}.at takes a second operand")
        if self._update is not None:
            return getattr(x.at[indices], self._update)(b)
        places = _manipulation.reshape(np.arange(x.size, dtype=np.int32), x.shape)[indices]
        values = _manipulation.broadcast_to(as_array(self.__name__, b), places.shape)
        x = x.astype(self._result_dtype(x))

        def step(flat: Array, one: tuple[Array, Array]) -> tuple[Array, None]:
            place, value = one
            return flat.at[place].set(self(flat[place], value).astype(flat.dtype)), None

        each = (_manipulation.ravel(places), _manipulation.ravel(values))
        return _manipulation.reshape(lax.scan(step, _manipulation.ravel(x), each)[0], x.shape)

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Any:
        """Apply to all pairs of elements; the result has the shape ``A.shape + B.shape``.

        Example:
          >>> import gnomon.numpy as gnp
          >>> gnp.multiply.outer(gnp.arange(2), gnp.arange(3))
          Array([[0, 0, 0],
                 [0, 1, 2]], dtype=int32)
        """
        self._check_binary("outer")
        x, y = as_array(self.__name__, A), as_array(self.__name__, B)
        column = _manipulation.reshape(x, (*x.shape, *(1,) * y.ndim))
        return self(column, lax.broadcast_to_rank(y, column.ndim))

    def reduceat(
        self,
        a: ArrayLike,
        indices: ArrayLike,
        axis: int = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
    ) -> Array:
        """`reduce` over slices: from each index to the next one, the last to the end.

        If an index is not below the next one, the slice is the element at this index.

        Raises:
          IndexError: an index is out of bounds and not traced.
        """
        self._check_binary("reduceat")
        _unsupported(f"{self.__name__}.reduceat", out=out)
        x = as_array(self.__name__, a)
        place = canonical_axis(axis, x.ndim)
        known = concrete_value(as_array(self.__name__, indices))
        if known is None:
            return self._reduced_at_traced(x, as_array(self.__name__, indices), place, dtype)
        starts, size = known.tolist(), x.shape[place]
        if any(not 0 <= i < size for i in starts):
            raise IndexError(f"{self.__name__}.reduceat: an index is not in [0, {size}): {starts}")
        if not starts:
            empty = lax.slice_in_dim(_construction.asarray(x, dtype), 0, 0, axis=place)
            return lax.convert_element_type(empty, self._result_dtype(empty))
        pieces = []
        for start, end in zip(starts, [*starts[1:], size], strict=True):
            piece = lax.slice_in_dim(x, start, max(end, start + 1), axis=place)
            pieces.append(self.reduce(piece, place, dtype=dtype, keepdims=True))
        return _joining.concatenate(pieces, place)

    def _reduced_at_traced(self, x: Array, indices: Array, axis: int, dtype: Any) -> Array:
        """`reduceat` for slices of unknown lengths: all slices are extended in parallel."""
        x = _construction.asarray(x, dtype)
        x = lax.convert_element_type(x, self._result_dtype(x))
        size = x.shape[axis]
        starts = lax.expand_dims(indices, [i for i in range(x.ndim) if i != axis])
        ends = _joining.append(indices[1:], size)
        ends = lax.expand_dims(ends, [i for i in range(x.ndim) if i != axis])

        def grown(i: Any, found: Array) -> Array:
            longer = self(found, lax.dynamic_slice_in_dim(x, i, 1, axis))
            return _selection.where((starts < i) & (i < ends), longer, found)

        return lax.fori_loop(0, size, grown, _taking.take(x, indices, axis))

    def _result_dtype(self, x: Array) -> np.dtype[Any]:
        """The dtype of the function of two elements, which the carry must have."""
        one = np.ones((), x.dtype)
        return np.dtype(self(one, one).dtype)

    def _check_binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(
                f"{self.__name__}.{method} needs a function of two arguments with one result, "
                f"this one has {self.nin} and {self.nout}"
            )


def _unsupported(name: str, **arguments: Any) -> None:
    for argument, value in arguments.items():
        if value is not None:
            raise NotImplementedError(f"{name}: the argument {argument!r} is not supported")


def frompyfunc(
    func: Callable[..., Any], /, nin: int, nout: int, *, identity: ArrayLike | None = None
) -> ufunc:
    """Make a universal function from a function of scalars.

    Args:
      func: a function of ``nin`` scalars that returns ``nout`` scalars and uses gnomon's functions.
      nin, nout: the numbers of arguments and of results.
      identity: the result of a reduction over no elements.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.frompyfunc(lambda x, y: x * y + 1, 2, 1).reduce(gnp.arange(1, 4))
      Array(10, dtype=int32)
    """
    if not callable(func):
        raise TypeError(f"frompyfunc takes a function, got {type(func).__name__}")
    return ufunc(func, nin, nout, identity=identity)


def _bitwise(
    reduction: Callable[..., Array], combine: Callable[..., Array]
) -> Callable[..., Array]:
    """A reduction of `gnomon.lax` with the parameters of `ufunc.reduce`."""

    def reduce(
        a: Any, axis: int | None, *, dtype: Any, keepdims: bool, initial: Any, where: Any
    ) -> Array:
        x = as_array("reduce", a)
        x = x if dtype is None else x.astype(dtype)
        axes: Iterable[int] = range(x.ndim) if axis is None else (canonical_axis(axis, x.ndim),)
        if where is not None:
            zero = lax.full_like(x, 0)
            identity = lax.bitwise_not(zero) if reduction is lax.reduce_and else zero
            x = _selection.where(where, x, identity)
        result = reduction(x, tuple(axes))
        if initial is not None:
            result = combine(result, lax.full_like(result, initial))
        if not keepdims:
            return result
        return _manipulation.expand_dims(result, tuple(axes))

    return reduce


def _untyped(reduction: Callable[..., Array]) -> Callable[..., Array]:
    """A reduction that takes no dtype."""

    def reduce(a: Any, axis: int | None, *, dtype: Any, **kwargs: Any) -> Array:
        x = as_array("reduce", a)
        return reduction(x if dtype is None else x.astype(dtype), axis, **kwargs)

    return reduce


def _logical(reduction: Callable[..., Array]) -> Callable[..., Array]:
    """`all` and `any`, which take neither dtype nor initial."""

    def reduce(
        a: Any, axis: int | None, *, dtype: Any, keepdims: bool, initial: Any, where: Any
    ) -> Array:
        _unsupported("reduce of a logical function", dtype=dtype, initial=initial)
        return reduction(a, axis, keepdims=keepdims, where=where)

    return reduce


def _binary(function: Callable[..., Any], **facts: Any) -> ufunc:
    return ufunc(function, 2, 1, elementwise=True, **facts)


_UFUNCS = (
    _binary(
        _ufuncs.add,
        identity=0,
        reducer=_reductions.sum,
        accumulator=_accumulations.cumsum,
        update="add",
    ),
    _binary(
        _ufuncs.multiply,
        identity=1,
        reducer=_reductions.prod,
        accumulator=_accumulations.cumprod,
        update="multiply",
    ),
    _binary(_ufuncs.subtract, update="subtract"),
    _binary(_ufuncs.maximum, reducer=_untyped(_reductions.max), update="max"),
    _binary(_ufuncs.minimum, reducer=_untyped(_reductions.min), update="min"),
    _binary(_ufuncs.bitwise_and, identity=-1, reducer=_bitwise(lax.reduce_and, lax.bitwise_and)),
    _binary(_ufuncs.bitwise_or, identity=0, reducer=_bitwise(lax.reduce_or, lax.bitwise_or)),
    _binary(_ufuncs.bitwise_xor, identity=0, reducer=_bitwise(lax.reduce_xor, lax.bitwise_xor)),
    _binary(_ufuncs.logical_and, identity=True, reducer=_logical(_reductions.all)),
    _binary(_ufuncs.logical_or, identity=False, reducer=_logical(_reductions.any)),
    _binary(_ufuncs.logical_xor, identity=False),
    _binary(_logarithms.logaddexp, identity=float("-inf")),
    _binary(_logarithms.logaddexp2, identity=float("-inf")),
    ufunc(_ufuncs.negative, 1, 1, elementwise=True),
)

for _universal in _UFUNCS:
    vars(_universal._func).update(
        {name: getattr(_universal, name) for name in (*_METHODS, *_FACTS)}, __ufunc__=_universal
    )
