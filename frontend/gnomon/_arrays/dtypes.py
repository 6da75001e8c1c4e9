"""Dtypes: the supported ones, their canonical forms, their kinds, and promotion.

Two dtypes promote to their least upper bound in a lattice. Python scalars are weak types in it:
``int8 + 3`` is int8, ``float32 + 3.0`` is float32. Unless x64 is enabled, new arrays get a 32-bit
dtype instead of a 64-bit one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from gnomon._arrays.annotations import DTypeLike
from gnomon._arrays.array import Array
from gnomon._arrays.promotion import (
    PYTHON_OF_WEAK,
    WEAK_OF_PYTHON,
    Node,
    TypePromotionError,
    Weak,
    least_upper_bound,
    promote_types,
)
from gnomon._config.current import config
from gnomon._diagnostics.errors import warn_user
from gnomon.dialects import types as dialect_types

__all__ = [
    "ExtendedDType",
    "TypePromotionError",
    "bfloat16",
    "can_cast",
    "canonicalize_dtype",
    "check_user_dtype",
    "default_complex_dtype",
    "default_float_dtype",
    "default_int_dtype",
    "default_uint_dtype",
    "dtype_of",
    "exact_python_scalar",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "is_python_scalar",
    "is_supported",
    "is_weakly_typed",
    "isdtype",
    "issubdtype",
    "itemsize_bits",
    "prng_key",
    "promote",
    "promote_types",
    "result_type",
    "scalar_type_of",
    "to_complex_dtype",
    "to_floating_dtype",
    "to_inexact_dtype",
    "to_numeric_dtype",
]

DType = np.dtype[Any]

finfo = ml_dtypes.finfo
iinfo = ml_dtypes.iinfo
can_cast = np.can_cast
bfloat16 = ml_dtypes.bfloat16

float0: DType = np.dtype([("float0", np.void, 0)])
"""The dtype of the tangents of integers and booleans: it has one value, of no bytes."""


class extended(np.generic):  # noqa: N801 - the name of the API, a scalar type like np.floating
    """The abstract scalar type of dtypes that NumPy does not know."""


class prng_key(extended):  # noqa: N801 - the name of the API
    """The abstract scalar type of the dtypes of random keys."""


class ExtendedDType:
    """The base of dtypes that NumPy does not know.

    Attributes:
      type: the abstract scalar type, a subclass of `extended`.
      name: the name that is printed.
    """

    type: type[extended]
    name: str

    def of_parts(self, part: Callable[[DType], Any]) -> Any:
        """An array of this dtype; ``part`` is called with the dtype of each of its parts."""
        raise NotImplementedError(
            f"an array of {self.name} cannot be made of numbers: its dtype has no method of_parts"
        )


# --------------------------------------------------------------------------------- supported dtypes

_BOOL: DType = dialect_types.BOOL
_UNSIGNED: tuple[DType, ...] = dialect_types.UNSIGNED
_SIGNED: tuple[DType, ...] = dialect_types.SIGNED
_FLOATING: tuple[DType, ...] = dialect_types.FLOATING
_COMPLEX: tuple[DType, ...] = dialect_types.COMPLEX
_NARROW_INTEGERS = frozenset(dialect_types.SUB_BYTE)
_FLOAT8 = dialect_types.FLOAT8
_BFLOAT16: DType = np.dtype(bfloat16)
_CUSTOM_FLOATS = frozenset((*_FLOAT8, _BFLOAT16))
SUPPORTED = frozenset((_BOOL, *_UNSIGNED, *_SIGNED, *_FLOATING, *_COMPLEX))

_KINDS: dict[str, frozenset[DType]] = {
    "bool": frozenset((_BOOL,)),
    "signed integer": frozenset(_SIGNED),
    "unsigned integer": frozenset(_UNSIGNED),
    "integral": frozenset(_SIGNED + _UNSIGNED),
    "real floating": frozenset(_FLOATING),
    "complex floating": frozenset(_COMPLEX),
    "numeric": SUPPORTED - {_BOOL},
}

# The abstract types above custom scalar types, which do not derive from np.floating or np.integer.
_ABSTRACT_FLOAT = (np.floating, np.inexact, np.number, np.generic)
_ABSTRACT_SIGNED = (np.signedinteger, np.integer, np.number, np.generic)
_ABSTRACT_UNSIGNED = (np.unsignedinteger, np.integer, np.number, np.generic)
_CUSTOM_ANCESTORS: dict[type, tuple[type, ...]] = {
    **{d.type: _ABSTRACT_FLOAT for d in _CUSTOM_FLOATS},
    **{d.type: _ABSTRACT_SIGNED for d in _NARROW_INTEGERS if d in _SIGNED},
    **{d.type: _ABSTRACT_UNSIGNED for d in _NARROW_INTEGERS if d in _UNSIGNED},
}

TO_32_BIT: dict[DType, DType] = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in (
        ("int64", "int32"),
        ("uint64", "uint32"),
        ("float64", "float32"),
        ("complex128", "complex64"),
    )
}


def is_supported(dtype: Any) -> bool:
    """True for the dtypes of the dialect."""
    return dtype in SUPPORTED


# ------------------------------------------------------------------------------- the canonical form


def default_int_dtype() -> DType:
    """int32, or int64 under x64."""
    return _INT64 if config.x64 else _INT32


def default_uint_dtype() -> DType:
    """uint32, or uint64 under x64."""
    return _UINT64 if config.x64 else _UINT32


def default_float_dtype() -> DType:
    """float32, or float64 under x64."""
    return _FLOAT64 if config.x64 else _FLOAT32


def default_complex_dtype() -> DType:
    """complex64, or complex128 under x64."""
    return _COMPLEX128 if config.x64 else _COMPLEX64


_INT32, _INT64 = np.dtype("int32"), np.dtype("int64")
_UINT32, _UINT64 = np.dtype("uint32"), np.dtype("uint64")
_FLOAT32, _FLOAT64 = np.dtype("float32"), np.dtype("float64")
_COMPLEX64, _COMPLEX128 = np.dtype("complex64"), np.dtype("complex128")

PYTHON_DEFAULTS: dict[type, Callable[[], DType]] = {
    bool: lambda: _BOOL,
    int: default_int_dtype,
    float: default_float_dtype,
    complex: default_complex_dtype,
}


def is_python_scalar(x: Any) -> bool:
    """True for Python bool, int, float and complex, instances of their subclasses included.

    NumPy's scalars are not Python scalars, although np.float64 is a subclass of float.
    """
    if type(x) in PYTHON_DEFAULTS:
        return True
    return isinstance(x, (int, float, complex)) and not isinstance(x, np.generic)


def exact_python_scalar(x: Any) -> Any:
    """Convert an instance of a subclass of int, float or complex, such as a member of an IntEnum.

    Args:
      x: any value.
    Returns:
      The int, float or complex of the same value; any other ``x`` unchanged.
    """
    if type(x) in PYTHON_DEFAULTS or not is_python_scalar(x):
        return x
    exact = int if isinstance(x, int) else float if isinstance(x, float) else complex
    return exact(x)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The dtype that arrays requested with a dtype get; it depends on whether x64 is on.

    Args:
      dtype: anything that ``np.dtype`` takes.
      allow_extended_dtype: return dtypes of random keys unchanged instead of raising.
    Raises:
      TypeError: ``dtype`` is not a dtype.
      ValueError: ``dtype`` is that of random keys, and ``allow_extended_dtype`` is False.

    Example:
      >>> from gnomon import dtypes
      >>> dtypes.canonicalize_dtype("float64")
      dtype('float32')
      >>> dtypes.canonicalize_dtype(int)
      dtype('int32')
    """
    if isinstance(dtype, ExtendedDType):
        if not allow_extended_dtype:
            raise ValueError(f"the extended dtype {dtype} has no canonical NumPy dtype")
        return dtype
    if type(dtype) is not type:
        try:
            dtype = np.dtype(dtype)
        except TypeError as error:
            raise TypeError(f"{dtype!r} is not a dtype") from error
    else:
        default = PYTHON_DEFAULTS.get(dtype)
        dtype = np.dtype(dtype) if default is None else default()
    return dtype if config.x64 else TO_32_BIT.get(dtype, dtype)


def check_user_dtype(dtype: Any, function: str = "") -> Any:
    """The canonical form of a ``dtype`` argument; warns where it narrows an explicit dtype.

    Args:
      dtype: the caller's argument, not None. Python's ``int``, ``float`` and ``complex`` mean
        the default dtypes.
      function: the name of the function that took it, for messages.

    Raises:
      TypeError: ``dtype`` is not a dtype, or not one of numbers or booleans.
      ValueError: ``dtype`` is None or an array.
    """
    where = f" in {function}" if function else ""
    if dtype is None:
        raise ValueError(f"a dtype must be given{where}, got None")
    if isinstance(dtype, Array):
        raise ValueError(f"an array was given as a dtype{where}: use dtype=x.dtype")
    if isinstance(dtype, ExtendedDType):
        return dtype
    if isinstance(dtype, type):
        default = PYTHON_DEFAULTS.get(dtype)
        if default is not None:
            return default()
    try:
        exact = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(f"{dtype!r} is not a dtype{where}") from error
    if exact not in SUPPORTED and exact != float0:
        raise TypeError(
            f"arrays hold numbers and booleans; got dtype {exact}{where}. Supported dtypes: "
            f"{', '.join(sorted(d.name for d in SUPPORTED))}"
        )
    return _canonical_of_explicit(exact, where)


def _canonical_of_explicit(dtype: DType, where: str = "") -> DType:
    if config.x64:
        return dtype
    narrow = TO_32_BIT.get(dtype)
    if narrow is None:
        return dtype
    warn_user(
        f"dtype {dtype} was requested explicitly{where} but 64-bit types are off: it becomes "
        f"{narrow}. Turn them on by gnomon.config.update('gnomon_enable_x64', True) or the "
        "environment variable GNOMON_ENABLE_X64=1"
    )
    return narrow


# ---------------------------------------------------------------------------------- dtype of values


def dtype_of(x: Any) -> Any:
    """The dtype of a value, or the one that a dtype specifier means.

    Arrays keep theirs; Python scalars, NumPy arrays and dtypes give the canonical form.

    Raises:
      TypeError: ``x`` has no dtype of numbers or booleans.
      ValueError: ``x`` is None.
    """
    if isinstance(x, Array):
        return x.dtype
    default = PYTHON_DEFAULTS.get(type(x))
    if default is not None:
        return default()
    if x is None:
        raise ValueError("None has no dtype")
    if isinstance(x, type):
        default = PYTHON_DEFAULTS.get(x)
        if default is not None:
            return default()
        # Our own scalar types name a kind of number, as `float` does, and give way silently.
        named = x.__dict__.get("dtype")
        return canonicalize_dtype(named) if isinstance(named, np.dtype) else check_user_dtype(x)
    if isinstance(x, ExtendedDType):
        return x
    if isinstance(x, (str, np.dtype)):
        return check_user_dtype(x)
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, ExtendedDType):
        return dtype
    if not isinstance(dtype, np.dtype):
        try:
            dtype = np.result_type(x)
        except TypeError as error:
            raise TypeError(f"a value of type {type(x).__name__} has no dtype: {x!r}") from error
    if dtype not in SUPPORTED and dtype != float0:
        raise TypeError(
            f"a value of dtype {dtype} is not valid as an array of gnomon, which holds numbers "
            "and booleans only"
        )
    return canonicalize_dtype(dtype)


def is_weakly_typed(x: Any) -> bool:
    """True for Python scalars other than bool, for their types, and for arrays made from them.

    An instance of a subclass, such as a member of an IntEnum, is not weakly typed here, although
    operations convert it to a weakly typed array: `result_type` of JAX answers this way, too.
    """
    if type(x) is type:
        return x in (int, float, complex)
    return type(x) in (int, float, complex) or bool(getattr(x, "weak_type", False))


def scalar_type_of(x: Any) -> type:
    """The Python type of the same kind as the elements: bool, int, float or complex.

    Args:
      x: an array or scalar.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import dtypes
      >>> dtypes.scalar_type_of(gnp.ones(2)), dtypes.scalar_type_of(True)
      (<class 'float'>, <class 'bool'>)
    """
    return _python_type(dtype_of(x))


def _python_type(dtype: DType) -> type:
    if dtype == _BOOL:
        return bool
    if dtype in _KINDS["integral"]:
        return int
    if dtype in _KINDS["real floating"]:
        return float
    if dtype in _KINDS["complex floating"]:
        return complex
    raise TypeError(f"dtype {dtype} has no Python scalar type")


# ---------------------------------------------------------------------------------------- promotion


def _node(dtype: DType, weak: bool) -> Node:
    return WEAK_OF_PYTHON[_python_type(dtype)] if weak else dtype


_promoted: dict[tuple[Any, ...], tuple[Any, bool]] = {}


def promote(operands: tuple[tuple[Any, bool], ...]) -> tuple[Any, bool]:
    """The dtype that operands promote to, and whether it is weak. Answers are cached.

    Args:
      operands: a pair (dtype, weak_type) for each operand.
    """
    key = (operands, config.x64, config.numpy_dtype_promotion)
    found = _promoted.get(key)
    if found is None:
        found = _promoted[key] = _promote(operands)
    return found


def _promote(operands: tuple[tuple[Any, bool], ...]) -> tuple[Any, bool]:
    dtypes = {dtype for dtype, _ in operands}
    all_weak = all(weak for _, weak in operands)
    result: Any
    if len(operands) == 1:
        result, weak = operands[0]
    elif len(dtypes) == 1 and not all_weak:
        # The only case that extended dtypes allow: all operands have the same one.
        result, weak = next(iter(dtypes)), False
    else:
        extended_dtypes = [str(d) for d in dtypes if isinstance(d, ExtendedDType)]
        if extended_dtypes:
            raise TypePromotionError(
                f"dtype {extended_dtypes[0]} does not promote with other dtypes; got "
                f"{', '.join(sorted(map(str, dtypes)))}"
            )
        if all_weak and config.numpy_dtype_promotion != "strict":
            # Promote the strong counterparts, so that a weak int16 promotes like an int16.
            bound, weak = least_upper_bound(frozenset(dtypes)), True
        else:
            bound = least_upper_bound(frozenset(_node(dtype, weak) for dtype, weak in operands))
            weak = isinstance(bound, Weak)
        result = PYTHON_OF_WEAK[bound] if isinstance(bound, Weak) else bound
        result = canonicalize_dtype(result)
    weak = weak and result != _BOOL
    if weak:
        unsigned = result in _UNSIGNED
        result = default_uint_dtype() if unsigned else PYTHON_DEFAULTS[_python_type(result)]()
    return result, weak


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype that an operation on these operands converts them to.

    Args:
      args: arrays, Python scalars, dtypes or their names; None means the default float dtype.
      return_weak_type_flag: return ``(dtype, weak_type)``.
    Raises:
      ValueError: there are no operands.
      TypePromotionError: there is no common dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.result_type(gnp.int32, gnp.float16)
      dtype('float16')
      >>> gnp.result_type(gnp.array([1, 2], dtype=gnp.int8), 7)
      dtype('int8')

    See also:
      `promote_types`
    """
    if not args:
        raise ValueError("result_type needs at least one array or dtype")
    pairs = tuple(
        (default_float_dtype(), False) if arg is None else (dtype_of(arg), is_weakly_typed(arg))
        for arg in args
    )
    promoted = promote(pairs)
    return promoted if return_weak_type_flag else promoted[0]


# -------------------------------------------------------------------------------------------- kinds


def _scalar_type(specifier: Any) -> type:
    if isinstance(specifier, ExtendedDType):
        return specifier.type
    if isinstance(specifier, type) and issubclass(specifier, np.generic):
        return specifier
    return np.dtype(specifier).type


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is, or belongs to, another one in NumPy's hierarchy of scalar types.

    bfloat16 and the f8 types belong to ``np.floating``, int2 and int4 to ``np.signedinteger``, the
    dtypes of random keys to `prng_key`.

    Args:
      arg1: a dtype, or a name or scalar type of one.
      arg2: a dtype, or an abstract type such as ``gnp.integer`` or ``gnp.floating``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.issubdtype(gnp.bfloat16, gnp.floating)
      True
      >>> gnp.issubdtype(gnp.int32, gnp.floating)
      False
    """
    if isinstance(arg2, ExtendedDType):
        return isinstance(arg1, ExtendedDType) and arg1 == arg2
    a_type, b_type = _scalar_type(arg1), _scalar_type(arg2)
    ancestors = _CUSTOM_ANCESTORS.get(a_type)
    if ancestors is not None:
        return b_type is a_type or b_type in ancestors
    return issubclass(a_type, b_type)


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Whether a dtype is of a kind that the array API standard names.

    Args:
      dtype: a dtype.
      kind: a dtype; or ``'bool'``, ``'signed integer'``, ``'unsigned integer'``, ``'integral'``,
        ``'real floating'``, ``'complex floating'``, ``'numeric'``; or a tuple of those.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.isdtype(gnp.float32, "real floating")
      True
      >>> gnp.isdtype(gnp.bool, ("integral", "real floating"))
      False
    """
    exact = np.dtype(dtype)
    options: set[DType] = set()
    for entry in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(entry, str) and entry in _KINDS:
            options |= _KINDS[entry]
            continue
        try:
            options.add(np.dtype(entry))
        except TypeError as error:
            if isinstance(entry, str):
                raise ValueError(
                    f"isdtype: kind {entry!r} is neither a dtype nor one of "
                    f"{', '.join(map(repr, _KINDS))}"
                ) from error
            raise TypeError(
                f"isdtype: kind must be a dtype, a string or a tuple of these; got {entry!r}"
            ) from error
    return exact in options


def itemsize_bits(dtype: Any) -> int:
    """The number of bits of one element: 4 for int4, 8 for bool.

    Args:
      dtype: anything that ``np.dtype`` takes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import dtypes
      >>> dtypes.itemsize_bits(gnp.int4), dtypes.itemsize_bits(gnp.float32)
      (4, 32)
    """
    exact = np.dtype(dtype)
    return int(iinfo(exact).bits) if exact in _NARROW_INTEGERS else 8 * exact.itemsize


def to_numeric_dtype(dtype: Any) -> DType:
    """int32 for bool, any other dtype unchanged."""
    exact = np.dtype(dtype)
    return _INT32 if exact == _BOOL else exact


def to_inexact_dtype(dtype: Any) -> DType:
    """The floating dtype that functions like ``sin`` convert integers and booleans to."""
    exact = np.dtype(dtype)
    if exact in (_INT64, _UINT64):
        return _FLOAT64
    return _FLOAT32 if exact == _BOOL or exact in _KINDS["integral"] else exact


def to_floating_dtype(dtype: Any) -> DType:
    """The dtype from `to_inexact_dtype`; if it is complex, the dtype of its real part."""
    return dialect_types.real_dtype(to_inexact_dtype(dtype))


def to_complex_dtype(dtype: Any) -> DType:
    """complex128 for dtypes of 64-bit floats, complex64 for all others."""
    wide = to_inexact_dtype(dtype) in (_FLOAT64, _COMPLEX128)
    return _COMPLEX128 if wide else _COMPLEX64
