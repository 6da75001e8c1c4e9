"""The operands of elementwise functions: promotion, broadcasting, and a direct path.

Eager calls on arrays that need no conversion go straight to the op's NumPy function. All other
calls, and all traced ones, go through `bind`.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray, PlacedArray, wrap
from gnomon._arrays.extended import EQUALITIES, ExtendedArray
from gnomon._config.current import config
from gnomon._diagnostics.errors import warn_user
from gnomon._diagnostics.quiet import quiet
from gnomon._examples import example_section
from gnomon._tracing.bind import bind, with_weak_type
from gnomon._tracing.stack import needs_bind
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_complex
from gnomon.lax import broadcast_shapes
from gnomon.lax._creation import converted
from gnomon.lax._operands import (
    ANY_DTYPE,
    BOOL_OR_INTEGER,
    FLOAT,
    FLOAT_OR_COMPLEX,
    INTEGERS,
    NUMBER,
    REAL,
    broadcast,
    constant_like,
    describe_dtypes,
    repeated,
)
from gnomon.numpy._arguments import as_array

DType = np.dtype[Any]
Kind = Callable[[Any], DType]

ANY_KIND: Kind = np.dtype
NUMERIC_KIND: Kind = _dtypes.to_numeric_dtype
INEXACT_KIND: Kind = _dtypes.to_inexact_dtype

_FLOAT32, _FLOAT64 = np.dtype("float32"), np.dtype("float64")
_INT32, _INT64 = np.dtype("int32"), np.dtype("int64")
_WITH_FLOAT = frozenset((_FLOAT32, _FLOAT64))
_WITH_INT = frozenset((_FLOAT32, _FLOAT64, _INT32, _INT64))
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


class IncompatibleShapesError(TypeError, ValueError):
    """Shapes cannot be broadcast. NumPy raises ``ValueError`` here, and JAX also ``TypeError``."""


# --------------------------------------------------------------------------------- the general path


def promoted_operands(function: str, kind: Kind, *xs: Any) -> list[Array]:
    """Convert operands to arrays of one dtype and one shape.

    Args:
      function: the name of the caller, for messages.
      kind: how the common dtype is converted: `ANY_KIND` keeps it, `NUMERIC_KIND` converts bool to
        int32, and `INEXACT_KIND` converts integers and bool to a floating dtype.
      xs: arrays and scalars.
    Raises:
      TypeError: an operand is neither an array nor a scalar, or there is no common dtype.
      IncompatibleShapesError: the shapes cannot be broadcast together.
    """
    arrays = promoted_dtypes(function, kind, *xs)
    check_ranks(function, arrays)
    return spread(function, arrays)


def promoted_dtypes(function: str, kind: Kind, *xs: Any) -> list[Array]:
    """Convert operands to arrays of one dtype; see `promoted_operands`."""
    for x in xs:
        if isinstance(x, np.ndarray) and x.dtype == _dtypes.float0:
            raise TypeError(
                f"{function} was called with an array of dtype float0: the tangent or gradient of "
                "an integer. It takes no part in arithmetic; gnomon.numpy.zeros_like(x, dtype) "
                "makes an array of zeros of it"
            )
    arrays = [as_array(function, x, i) for i, x in enumerate(xs)]
    try:
        dtype, weak = _dtypes.promote(tuple([(x.dtype, x.weak_type) for x in arrays]))
        dtype = kind(dtype)
    except (TypeError, _dtypes.TypePromotionError):
        for i, x in enumerate(arrays):
            dtype_of: Any = x.dtype
            if isinstance(dtype_of, _dtypes.ExtendedDType):
                raise TypeError(
                    f"{function} does not accept dtype {x.dtype} at position {i}: random keys are "
                    "not numbers"
                ) from None
        raise
    return [
        x if x.dtype == dtype and x.weak_type == weak else converted(x, dtype, weak) for x in arrays
    ]


def spread(function: str, arrays: list[Array]) -> list[Array]:
    """Broadcast arrays to one shape, whatever their ranks are: see `check_ranks`."""
    shapes = {x.shape for x in arrays}
    if len(shapes) == 1:
        return arrays
    try:
        shape = broadcast_shapes(*(x.shape for x in arrays))
    except ValueError as error:
        given = ", ".join(str(x.shape) for x in arrays)
        raise IncompatibleShapesError(
            f"{function} got incompatible shapes for broadcasting: {given}. Counted from the last, "
            "dimensions must be equal or 1"
        ) from error
    if any(isinstance(x, PlacedArray) for x in arrays):
        return [broadcast_to_shape(x, shape) if x.ndim else repeated(x, shape) for x in arrays]
    return [broadcast_to_shape(x, shape) for x in arrays]


def check_ranks(function: str, arrays: Sequence[Array], core_ranks: Sequence[int] = ()) -> None:
    """Apply the option ``numpy_rank_promotion`` to the operands of a function.

    The option is about every function that computes elementwise, wherever it is called. So gnomon's
    own functions must give arrays equal ranks before they combine them.

    Args:
      function: the name of the function, for messages.
      arrays: the operands; those of rank 0 combine with any array.
      core_ranks: how many of the last dimensions of each operand are not broadcast; by default 0.
    """
    if config.numpy_rank_promotion == "allow":
        return
    batch_ranks = itertools.zip_longest((x.ndim for x in arrays), core_ranks, fillvalue=0)
    if len({rank - core for rank, core in batch_ranks if rank}) < 2:
        return
    shapes = " ".join(str(x.shape) for x in arrays)
    if config.numpy_rank_promotion == "raise":
        raise ValueError(
            f"Operands could not be broadcast together for {function} on shapes {shapes} and with "
            "the config option gnomon_numpy_rank_promotion='raise': make their ranks equal, for "
            "example with x[None], or set the option to 'allow'"
        )
    warn_user(
        f"Following NumPy automatic rank promotion for {function} on shapes {shapes}. Set the "
        "config option gnomon_numpy_rank_promotion to 'allow' to disable this warning"
    )


def broadcast_to_shape(x: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast ``x`` to a shape."""
    lead = len(shape) - x.ndim
    if any(n == 1 != shape[lead + d] for d, n in enumerate(x.shape)):
        return bind(ops.broadcast_in_dim, x, shape=shape, dims=tuple(range(lead, len(shape))))
    return broadcast(x, shape)


def accept(function: str, x: Array, dtypes: Collection[DType]) -> None:
    """Raise ``TypeError`` unless the function takes the (promoted) dtype."""
    if x.dtype not in dtypes:
        raise TypeError(
            f"{function} does not accept dtype {x.dtype.name}. "
            f"Accepted dtypes are: {describe_dtypes(dtypes)}."
        )


# ---------------------------------------------------------------------------------------- factories


_ELEMENTS: dict[frozenset[DType], str] = {
    ANY_DTYPE: "numbers or bools",
    NUMBER: "numbers",
    REAL: "numbers or bools",  # The orderings, which take complex numbers on another path.
    FLOAT: "real numbers",
    FLOAT_OR_COMPLEX: "real or complex numbers",
    BOOL_OR_INTEGER: "integers or bools",
    INTEGERS: "integers",
}
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_CONVERSIONS = {
    ANY_KIND: "",
    NUMERIC_KIND: "; bools become integers",
    INEXACT_KIND: "; integers and bools become floating point numbers",
}


def document(function: Any, name: str, summary: str, arguments: str, result: str) -> Any:
    """Give a generated function its name and docstring.

    Args:
      function: the function.
      name: its name, also in the table of examples.
      summary: the first line.
      arguments: the section Args, one entry in a line.
      result: the section Returns.
    """
    function.__name__ = function.__qualname__ = name
    lines = "\n".join(
        textwrap.fill(line, 100, initial_indent=" " * 6, subsequent_indent=" " * 8)
        for line in arguments.splitlines()
    )
    function.__doc__ = f"""{summary}

    Args:
{lines}
    Returns:
      {result}
    Raises:
      TypeError: an argument is neither an array nor a scalar, or has a dtype that is not accepted.
    """ + example_section("numpy", name)
    return function


def unary(
    name: str, op_name: str, kind: Kind, dtypes: frozenset[DType], summary: str
) -> Callable[[ArrayLike], Array]:
    """An elementwise function of one array that is one op.

    Args:
      name: the name of the function.
      op_name: the name of the op.
      kind: how the dtype is promoted.
      dtypes: the dtypes that the op takes.
      summary: the first line of the docstring.
    """
    op = getattr(ops, op_name)
    evaluate = op.evaluate
    direct = frozenset(d for d in dtypes if kind(d) == d)

    def function(x: ArrayLike, /) -> Array:
        if type(x) is ConcreteArray:
            value = x._value
            if value is not None and value.dtype in direct and not needs_bind():
                try:
                    return wrap(quiet.run(evaluate, value), x.weak_type)
                except RuntimeError:
                    pass
        (x,) = promoted_dtypes(name, kind, x)
        accept(name, x, dtypes)
        return bind(op, x)

    arguments = f"x: an array or scalar of {_ELEMENTS[dtypes]}{_CONVERSIONS[kind]}."
    return document(function, name, summary, arguments, "An array of the shape of ``x``.")


def fast_path(
    numpy_function: Callable[[Any, Any], Any],
    direct: frozenset[DType],
    slow: Callable[[Any, Any], Any],
) -> Callable[[Any, Any], Any]:
    """A function of two operands that calls a NumPy function directly if no conversion is needed.

    This is the case for values in host memory with one of the dtypes ``direct``, if both have the
    same dtype or one is a Python number. Otherwise, or if the NumPy function returns
    NotImplemented, it calls ``slow``.
    """
    with_float, with_int = direct & _WITH_FLOAT, direct & _WITH_INT

    def function(x: ArrayLike, y: ArrayLike, /) -> Any:
        if type(x) is ConcreteArray:
            a = x._value
            if a is not None and not needs_bind():
                other: Any = y
                if type(y) is ConcreteArray:
                    other = y._value
                    if (
                        other is None
                        or a.dtype is not other.dtype
                        or (x.weak_type and y.weak_type)
                        or a.dtype not in direct
                    ):
                        return slow(x, y)
                    weak = False
                elif (type(y) is float and a.dtype in with_float) or (
                    type(y) is int and a.dtype in with_int and _INT_MIN <= y <= _INT_MAX
                ):
                    weak = x.weak_type
                else:
                    return slow(x, y)
                try:
                    value = quiet.run(numpy_function, a, other)
                except (RuntimeError, ValueError):
                    return slow(x, y)  # If shapes do not fit, the general path says so.
                return slow(x, y) if value is NotImplemented else wrap(value, weak)
        elif type(y) is ConcreteArray:
            b = y._value
            if (
                b is not None
                and (
                    (type(x) is float and b.dtype in with_float)
                    or (type(x) is int and b.dtype in with_int and _INT_MIN <= x <= _INT_MAX)
                )
                and not needs_bind()
            ):
                try:
                    value = quiet.run(numpy_function, x, b)
                except RuntimeError:
                    return slow(x, y)
                return slow(x, y) if value is NotImplemented else wrap(value, y.weak_type)
        return slow(x, y)

    return function


def binary(
    name: str,
    op_name: str,
    kind: Kind,
    dtypes: frozenset[DType],
    summary: str,
    *,
    direct_function: Any = None,
    direct_dtypes: frozenset[DType] | None = None,
    general: Callable[[Any, Any], Array] | None = None,
) -> Callable[[ArrayLike, ArrayLike], Array]:
    """An elementwise function of two arrays that is one op.

    Args:
      name: the name of the function.
      op_name: the name of the op.
      kind: how the dtypes are promoted.
      dtypes: the dtypes that the op takes.
      summary: the first line of the docstring.
      direct_function: a function of NumPy arrays and Python numbers that does the same as the op
        on ``direct_dtypes``, to the last bit; by default the op's own function, a ufunc.
      direct_dtypes: see ``direct_function``.
      general: replaces the op where the direct path does not apply.
    """
    op = getattr(ops, op_name)
    evaluate = op.evaluate if direct_function is None else direct_function
    assert direct_function is not None or isinstance(evaluate, np.ufunc)
    given = dtypes if direct_dtypes is None else direct_dtypes
    direct = frozenset(d for d in given if kind(d) == d)

    def through_op(x: Any, y: Any) -> Array:
        if op_name in EQUALITIES and isinstance(x, ExtendedArray) and isinstance(y, ExtendedArray):
            return EQUALITIES[op_name](x, y)
        x, y = promoted_operands(name, kind, x, y)
        accept(name, x, dtypes)
        return bind(op, x, y)

    function = fast_path(evaluate, direct, through_op if general is None else general)
    # For operators, which have another general path.
    function.direct = (evaluate, direct)  # type: ignore[attr-defined]
    return document(
        function,
        name,
        summary,
        f"x, y: arrays or scalars of {_ELEMENTS[dtypes]} that broadcast together"
        f"{_CONVERSIONS[kind]}.",
        "A bool array of the broadcast shape."
        if op_name in _COMPARISONS
        else "An array of the promoted dtype and the broadcast shape.",
    )


# --------------------------------------------------------------------------- composites of many ops


def select_op(condition: Array, on_true: Array, on_false: Array) -> Array:
    """The op ``select``; the result is weakly typed if both choices are."""
    weak = on_true.aval.weak_type and on_false.aval.weak_type
    return with_weak_type(bind(ops.select, condition, on_true, on_false), weak)


def zero_like(x: Array) -> Array:
    """Zeros of the type of ``x``."""
    return constant_like(x, 0)


def reject_complex(function: str, x: Array) -> None:
    """Raise ``TypeError`` for complex numbers."""
    if is_complex(x.dtype):
        raise TypeError(f"{function} does not support complex-valued inputs, got {x.aval}")


def no_out(function: str, out: Any) -> None:
    """Raise ``NotImplementedError`` for an argument ``out``, which would be written to."""
    if out is not None:
        raise NotImplementedError(
            f"{function}: arrays are immutable, the argument 'out' is not supported"
        )
