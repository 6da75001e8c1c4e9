"""Operators and methods of arrays: each is a function of `gnomon.numpy`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._api.devices import device_put
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import DeviceLike, DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._tracing.trace import Tracer
from gnomon.dialects.types import is_complex
from gnomon.numpy._array_api import check_version
from gnomon.numpy._at import IndexUpdateHelper
from gnomon.numpy._dispatch import fast_path
from gnomon.numpy._indexing import getitem

Function = Callable[..., Any]

_OPERANDS = (int, float, complex, np.generic, np.ndarray, Array)
# Containers whose operators do not support arrays. A class derived from one may support them by a
# reflected operator.
_REJECTED = (list, tuple, set, dict)

# Pairs of an operator and a function of gnomon.numpy.
_BINARY = (
    ("add", "add"),
    ("sub", "subtract"),
    ("mul", "multiply"),
    ("truediv", "true_divide"),
    ("floordiv", "floor_divide"),
    ("mod", "remainder"),
    ("divmod", "divmod"),
    ("pow", "power"),
    ("matmul", "matmul"),
    ("and", "bitwise_and"),
    ("or", "bitwise_or"),
    ("xor", "bitwise_xor"),
    ("lshift", "left_shift"),
    ("rshift", "right_shift"),
)
_COMPARISONS = (
    ("eq", "equal"),
    ("ne", "not_equal"),
    ("lt", "less"),
    ("le", "less_equal"),
    ("gt", "greater"),
    ("ge", "greater_equal"),
)
_UNARY = (("neg", "negative"), ("pos", "positive"), ("abs", "absolute"), ("invert", "invert"))

# Methods with the arguments of the function of the same name after the array.
_METHODS = (
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "choose",
    "clip",
    "conj",
    "conjugate",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "max",
    "mean",
    "min",
    "nonzero",
    "prod",
    "ptp",
    "ravel",
    "repeat",
    "round",
    "searchsorted",
    "sort",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "var",
)
_PROPERTIES = (("mT", "matrix_transpose"), ("real", "real"), ("imag", "imag"))


def install(array: Any, namespace: Mapping[str, Any]) -> None:
    """Give the array type its operators and methods.

    Args:
      array: the base class of all arrays.
      namespace: the functions of `gnomon.numpy` by name. Functions may be added later, since they
        are looked up when they are called.
    """
    for name, function_name in _BINARY:
        setattr(array, f"__{name}__", _operator(name, function_name, namespace, False))
        setattr(array, f"__r{name}__", _operator(f"r{name}", function_name, namespace, True))
    for name, function_name in _COMPARISONS:
        setattr(array, f"__{name}__", _operator(name, function_name, namespace, False))
    for name, function_name in _UNARY:
        setattr(array, f"__{name}__", _unary_operator(name, namespace[function_name]))
    for name in _METHODS:
        setattr(array, name, _method(name, namespace))
    for name, function_name in _PROPERTIES:
        setattr(array, name, _property(name, function_name, namespace))
    for name, function in _own_methods(namespace).items():
        function.__qualname__ = f"Array.{name}"
        setattr(array, name, function)
    array.T = property(lambda self: self.transpose(), doc="The array with reversed dimensions.")
    array.at = property(IndexUpdateHelper, doc=IndexUpdateHelper.__doc__)
    array.__getitem__ = getitem
    # Defining == removes the hash.
    array.__hash__ = None


# ---------------------------------------------------------------------------------------- operators


def _operator(
    name: str, function_name: str, namespace: Mapping[str, Any], reflected: bool
) -> Function:
    symbol = f"__{name}__"

    def general(x: Any, y: Any) -> Any:
        other = x if reflected else y
        if not isinstance(other, _OPERANDS) and not hasattr(other, "__jax_array__"):
            if isinstance(other, _REJECTED) and (reflected or not _defines_reflected(other, name)):
                raise TypeError(
                    f"unsupported operand type for {symbol} of an array: {type(other).__name__}. "
                    "Convert it with gnomon.numpy.array"
                )
            return NotImplemented
        return namespace[function_name](x, y)

    function: Function = general
    direct = getattr(namespace.get(function_name), "direct", None)
    if direct is not None:
        numpy_function, dtypes = direct
        function = fast_path(numpy_function, dtypes, general)

    def reflection(self: Any, other: Any) -> Any:
        return function(other, self)

    method = reflection if reflected else function
    return _named(method, symbol, f"See `gnomon.numpy.{function_name}`.")


def _defines_reflected(other: Any, name: str) -> bool:
    """Whether the class of a container defines the reflected operator itself."""
    reflection = f"__r{name}__"
    own = getattr(type(other), reflection, None)
    return own is not None and all(getattr(c, reflection, None) is not own for c in _REJECTED)


def _unary_operator(name: str, function: Function) -> Function:
    def method(self: Any) -> Any:
        return function(self)

    return _named(method, f"__{name}__", f"See `gnomon.numpy.{function.__name__}`.")


def _named(method: Function, name: str, doc: str) -> Function:
    method.__name__, method.__qualname__, method.__doc__ = name, f"Array.{name}", doc
    return method


# ------------------------------------------------------------------------------------------ methods


def _method(name: str, namespace: Mapping[str, Any]) -> Function:
    function = namespace[name]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return _named(method, name, f"See `gnomon.numpy.{name}`.")


def _property(name: str, function_name: str, namespace: Mapping[str, Any]) -> property:
    def value(self: Any) -> Any:
        return namespace[function_name](self)

    return property(value, doc=f"See `gnomon.numpy.{function_name}`.")


def _sizes(args: tuple[Any, ...]) -> Any:
    return args[0] if len(args) == 1 else args


def _own_methods(namespace: Mapping[str, Any]) -> dict[str, Function]:
    """Methods that do more than call the function of their name."""

    def reshape(self: Any, *args: Any, order: str = "C", out_sharding: Any = None) -> Array:
        """The same elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
        return namespace["reshape"](self, _sizes(args), order=order, out_sharding=out_sharding)

    def transpose(self: Any, *args: Any) -> Array:
        """Permute dimensions, by default reverse them: ``x.transpose(1, 0)``, or a tuple."""
        axes = _sizes(args) if args else None
        if axes is not None and not isinstance(axes, (tuple, list)):
            axes = tuple(axes) if np.ndim(axes) else (axes,)
        return namespace["transpose"](self, axes)

    def astype(
        self: Any, dtype: DTypeLike | None, copy: bool = False, device: DeviceLike | None = None
    ) -> Array:
        """See `gnomon.numpy.astype`; the method also takes the dtype by name, as NumPy's does."""
        result: Array = namespace["astype"](self, dtype, copy=copy, device=device)
        return result

    def flatten(self: Any, order: str = "C", *, out_sharding: OutSharding | None = None) -> Array:
        """The elements in one dimension."""
        return namespace["ravel"](self, order, out_sharding=out_sharding)

    def copy(self: Any) -> Array:
        """The array itself: traced values do not change."""
        return self

    def byteswap(self: Any) -> Array:
        """The array with the bytes of each element in reverse order."""
        return _byteswap(self)

    def view(self: Any, dtype: Any = None, type: None = None) -> Array:
        """Reinterpret the bits of the array as another dtype."""
        return _view(self, dtype, type)

    def compress(self: Any, condition: Any, axis: int | None = None, **kwargs: Any) -> Array:
        """See `gnomon.numpy.compress`."""
        result: Array = namespace["compress"](condition, self, axis, **kwargs)
        return result

    def to_device(self: Any, device: DeviceLike | None, *, stream: Any = None) -> Array:
        """Put the array on a device; see `gnomon.device_put`."""
        if stream is not None:
            raise NotImplementedError("to_device: the stream argument is not supported")
        result: Array = device_put(self, device)
        return result

    def array_namespace(self: Any, *, api_version: str | None = None) -> Any:
        """`gnomon.numpy`, by the array API standard."""
        check_version(api_version)
        return sys.modules[namespace["__name__"]]

    def rounded(self: Any, ndigits: int | None = None) -> Array:
        out = namespace["round"](self, 0 if ndigits is None else ndigits)
        return out.astype(int) if ndigits is None and not isinstance(self, Tracer) else out

    def contains(self: Any, other: Any) -> Any:
        if self.ndim != 1 or np.ndim(other):
            raise ValueError(
                "`in` tests for a number in a one-dimensional array, got shapes "
                f"{np.shape(other)} and {self.shape}; use (x == y).any()"
            )
        return bool(namespace["any"](namespace["equal"](self, other)))

    return {
        "reshape": reshape,
        "transpose": transpose,
        "astype": astype,
        "flatten": flatten,
        "copy": copy,
        "view": view,
        "byteswap": byteswap,
        "compress": compress,
        "to_device": to_device,
        "__array_namespace__": array_namespace,
        "__round__": rounded,
        "__contains__": contains,
    }


def _byteswap(x: Any) -> Array:
    if is_complex(x.dtype):
        return lax.complex(_byteswap(lax.real(x)), _byteswap(lax.imag(x)))
    if x.dtype.itemsize == 1:
        return x
    reversed_bytes = lax.rev(lax.bitcast_convert_type(x, np.dtype(np.uint8)), (x.ndim,))
    return lax.bitcast_convert_type(reversed_bytes, x.dtype)


_PARTS = (lax.real, lax.imag)


def _view(x: Any, dtype: Any, kind: Any) -> Array:
    if kind is not None:
        raise NotImplementedError("view: the argument 'type' is not supported")
    if dtype is None:
        return x
    target = _dtypes.check_user_dtype(dtype, "view")
    if target == x.dtype:
        return x
    boolean = np.dtype(bool)
    if boolean in (x.dtype, target):
        # Convert to bytes first, since the dialect cannot reinterpret the bits of bool.
        source = x.astype("uint8") if x.dtype == boolean else x
        if target != boolean:
            return _view(source, target, None)
        return _view(source, "uint8", None).astype(bool)
    if x.ndim and is_complex(x.dtype):
        # The dialect has no bits of complex numbers; their parts follow each other in memory.
        parts = lax.concatenate([lax.expand_dims(p(x), [x.ndim]) for p in _PARTS], x.ndim)
        return _view(lax.reshape(parts, (*x.shape[:-1], 2 * x.shape[-1])), target, None)
    if x.ndim and is_complex(target):
        numbers = _view(x, np.dtype(f"float{4 * target.itemsize}"), None)
        if numbers.shape[-1] % 2:
            raise ValueError(
                f"view: the last dimension of {x.aval} must hold whole numbers of {target}"
            )
        first, second = (
            lax.slice_in_dim(numbers, i, numbers.shape[-1], 2, x.ndim - 1) for i in range(2)
        )
        return lax.complex(first, second)
    old, new = _dtypes.itemsize_bits(x.dtype), _dtypes.itemsize_bits(target)
    if not x.ndim and old != new:
        raise ValueError(
            f"view: a 0-d array of {x.dtype} cannot be viewed as {target}, which has another size"
        )
    if old == new:
        return lax.bitcast_convert_type(x, target)
    if new > old:
        factor = new // old
        if x.shape[-1] % factor:
            raise ValueError(
                f"view: the last dimension of {x.aval} must be a multiple of {factor} to become "
                f"{target}"
            )
        parts = lax.reshape(x, (*x.shape[:-1], x.shape[-1] // factor, factor))
        return lax.bitcast_convert_type(parts, target)
    parts = lax.bitcast_convert_type(x, target)
    return lax.reshape(parts, (*x.shape[:-1], x.shape[-1] * (old // new)))
