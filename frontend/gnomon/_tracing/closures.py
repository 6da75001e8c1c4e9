"""Keys that describe everything that a function depends on besides its arguments.

Two functions with equal keys run the same code on the same values, so one trace serves both. The
key holds the code, and the values of defaults, closure cells and global names; functions among
these are followed. Arrays and modules are compared by identity, numbers by value.

A function has no key if it depends on something that may change unnoticed (a list, an object of a
class of the user, a module of the user), or if it does more than compute, for example prints.
"""

from __future__ import annotations

import functools
import math
import types
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from gnomon._arrays.concrete import ConcreteArray
from gnomon._native import Dispatcher
from gnomon._trees.partial import Partial

__all__ = ["Closure", "closure_of"]

# The packages whose modules do not change, and whose objects depend only on such modules.
_PACKAGES = frozenset({"gnomon", "numpy", "ml_dtypes", "math", "cmath", "operator", "functools"})
_CONSTANTS = (bool, int, str, bytes, type(None), type(Ellipsis))
# Names of functions of Python and NumPy that do more than compute, or read values that the key
# lacks.
_IMPURE = frozenset(
    ("print", "input", "open", "next", "iter", "exec", "eval", "globals", "locals", "vars")
    + ("setattr", "delattr")
    + ("fromfile", "genfromtxt", "load", "loadtxt", "memmap")
    + ("save", "savetxt", "savez", "savez_compressed", "tofile")
)
# The most values to which a function with a key may refer; a key for more costs too much.
_MAX_VALUES = 200


class _Same:
    """A value that is compared by identity, and kept alive only on request."""

    __slots__ = ("_hash", "_value")

    def __init__(self, value: Any, *, weak: bool) -> None:
        self._hash = id(value)
        self._value: Any = weakref.ref(value) if weak else lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same) or self._hash != other._hash:
            return False
        value = self._value()
        return value is not None and value is other._value()


class Closure:
    """Everything that some functions depend on besides their arguments.

    Attributes:
      key: equal for functions that run the same code on the same values. It keeps no array alive.
      arrays: the arrays among the values.
    """

    __slots__ = ("arrays", "key")

    def __init__(self, key: Hashable, arrays: Sequence[ConcreteArray]) -> None:
        self.key = key
        self.arrays = arrays


class _NoKeyError(Exception):
    """Raised for a value that may change unnoticed."""


def closure_of(functions: Sequence[Callable[..., Any]]) -> Closure | None:
    """Everything that functions depend on; None if it may change unnoticed."""
    reader = _Reader()
    try:
        key = tuple([reader.of(function) for function in functions])
    except (_NoKeyError, RecursionError):
        return None
    return Closure(key, reader.arrays)


class _Reader:
    """Makes keys of values."""

    def __init__(self) -> None:
        self.arrays: list[ConcreteArray] = []
        self._functions: dict[types.FunctionType, int] = {}
        self._count = 0
        # Whether a value so far is the module numpy.
        self._names_numpy = False

    def of(self, value: Any) -> Hashable:
        """The key of a value."""
        self._count += 1
        if self._count > _MAX_VALUES:
            raise _NoKeyError
        kind = type(value)
        if kind is types.FunctionType:
            return self._of_function(value)
        if kind in _CONSTANTS:
            return kind, value
        if kind in (float, complex):
            return kind, repr(value)  # 0.0 == -0.0, and nan != nan
        if kind is ConcreteArray:
            self.arrays.append(value)
            return _Same(value, weak=True)
        if kind is tuple:
            return (kind, *[self.of(item) for item in value])
        if kind is functools.partial or kind is Partial:
            items = (value.func, *value.args, *value.keywords.values())
            return (kind.__name__, tuple(value.keywords), *[self.of(item) for item in items])
        if kind is types.BuiltinFunctionType and _is_pure_builtin(value):
            return _Same(value, weak=False)
        self._names_numpy |= value is np
        if _is_constant(value):
            return _Same(value, weak=not isinstance(value, (np.ufunc, np.dtype)))
        raise _NoKeyError

    def _of_function(self, function: types.FunctionType) -> Hashable:
        token = self._functions.get(function)
        if token is not None:
            return "function", token
        self._functions[function] = len(self._functions)
        code = function.__code__
        parts: list[Hashable] = [_Same(code, weak=False)]
        for cell in function.__closure__ or ():
            try:
                parts.append(self.of(cell.cell_contents))
            except ValueError:  # the cell is empty
                raise _NoKeyError from None
        if function.__defaults__ or function.__kwdefaults__:
            by_position, by_name = function.__defaults__ or (), function.__kwdefaults__ or {}
            parts.append((len(by_position), *by_name))
            parts.extend([self.of(default) for default in (*by_position, *by_name.values())])
        outside = function.__globals__
        # Not by its own `__module__`, which `functools.wraps` copies from another function.
        if not _is_of_package(outside.get("__name__")):
            names = _global_names(code)
            if not names.isdisjoint(_IMPURE):
                raise _NoKeyError
            for name in names:
                if name in outside:
                    parts.append((name, self.of(outside[name])))
            # `np.random` has a state; `gnomon.random`, which has the same name, has none.
            if "random" in names and self._names_numpy:
                raise _NoKeyError
        return tuple(parts)


@functools.lru_cache(256)
def _is_of_package(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _PACKAGES


def _is_pure_builtin(function: types.BuiltinFunctionType) -> bool:
    """Whether a function in native code only computes: not one of `time` or `os`, nor `print`."""
    if not isinstance(function.__self__, types.ModuleType):
        return False  # a method of an object, which may have a state
    module = str(function.__module__).lstrip("_")
    is_known = module == "builtins" or _is_of_package(module)
    return is_known and function.__name__ not in _IMPURE


def _is_constant(value: Any) -> bool:
    """Whether a value other than a function or an array never changes."""
    if isinstance(value, types.ModuleType):
        is_random = value.__name__.startswith("numpy.random")
        return (_is_of_package(value.__name__) or value is math) and not is_random
    if isinstance(value, type):
        return (
            value.__module__ == "builtins"
            or _is_of_package(value.__module__)
            or _is_plain_namedtuple(value)
        )
    if isinstance(value, np.ufunc):
        # `np.frompyfunc` makes functions of the user ufuncs on objects.
        return any(not set(types_) <= set("O->") for types_ in value.types)
    if isinstance(value, np.dtype):
        return True
    if isinstance(value, Dispatcher):
        return True  # A jitted function ignores later changes of what it closes over.
    # Not any other object of ours or NumPy's: it may hold a function of the user, or change.
    is_scalar_type = type(value).__module__.startswith("gnomon.") and callable(value)
    return is_scalar_type and isinstance(getattr(value, "dtype", None), np.dtype)


def _is_plain_namedtuple(kind: type) -> bool:
    """Whether a class is a named tuple without methods of the user, which may read globals."""
    if not issubclass(kind, tuple) or not hasattr(kind, "_fields"):
        return False
    bases = [base for base in kind.__mro__ if base not in (tuple, object)]
    return all(_is_generated(each) for base in bases for each in vars(base).values())


def _is_generated(attribute: Any) -> bool:
    """Whether an attribute of a named tuple is data, or a function that Python made for it."""
    if isinstance(attribute, (property, functools.cached_property)):
        return False
    function = getattr(attribute, "__func__", attribute)
    if not isinstance(function, types.FunctionType):
        return True
    name = str(function.__globals__.get("__name__"))
    return name == "collections" or name.startswith("namedtuple_")


@functools.lru_cache(1024)
def _global_names(code: types.CodeType) -> frozenset[str]:
    """The names of globals and attributes that code, and the functions in it, may look up."""
    return frozenset(name for each in _nested(code) for name in each.co_names)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)
