"""Elementwise choices among operands: `select`, and limits to an interval."""

from __future__ import annotations

from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.extended import takes_extended_arrays
from gnomon._tracing.bind import bind, with_weak_type
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, is_complex
from gnomon.lax._elementwise import ge
from gnomon.lax._operands import INTEGERS, argument, broadcast, constant_like, same_dtype


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """Elementwise ``x`` limited to the interval [min, max].

    Args:
      min: the lower bound, an array of the shape of ``x`` or a scalar.
      x: an array. All three have one dtype. Complex numbers are ordered by their real parts, then
        by their imaginary parts.
      max: the upper bound, like ``min``; it wins where it is below ``min``.
    Raises:
      TypeError: dtypes differ, or a bound has another shape.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.clamp(0, gnp.array([-1, 3, 12]), 10)
      Array([ 0,  3, 10], dtype=int32)

    See also:
      `gnomon.numpy.clip`, which promotes and broadcasts
    """
    low, x, high = (argument("clamp", v, i) for i, v in enumerate((min, x, max)))
    same_dtype("clamp", (low, x, high))
    for name, bound in (("min", low), ("max", high)):
        if bound.shape not in ((), x.shape):
            raise TypeError(
                f"lax.clamp: {name} must be a scalar or have the operand's shape, got "
                f"{name} of shape {bound.shape} for an operand of shape {x.shape}"
            )
    low, high = broadcast(low, x.shape), broadcast(high, x.shape)
    if is_complex(x.dtype):
        return bind(ops.min, bind(ops.max, low, x), high)
    return bind(ops.clamp, low, x, high)


@takes_extended_arrays("on_true", "on_false")
def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Elementwise choice: ``on_true`` where ``pred`` is true, ``on_false`` elsewhere.

    Args:
      pred: a bool array of the choices' shape, or a scalar.
      on_true, on_false: arrays of one shape and dtype.
    Raises:
      TypeError: shapes or dtypes differ.

    Example:
      >>> import gnomon.numpy as gnp
      >>> select(gnp.array([True, False]), gnp.array([1.0, 2.0]), gnp.array([3.0, 4.0]))
      Array([1., 4.], dtype=float32)
    """
    return select_n(pred, on_false, on_true)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Elementwise choice among cases by their number.

    Args:
      which: bool (two cases at most) or integers, of the cases' shape or a scalar; numbers out of
        range choose the first or the last case.
      cases: arrays of one shape and dtype.
    Raises:
      TypeError: shapes or dtypes differ, or there are too many cases for a bool.
      ValueError: there are no cases.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.select_n(gnp.array([True, False]), gnp.array([1, 2]), gnp.array([10, 20]))
      Array([10,  2], dtype=int32)
      >>> lax.select_n(gnp.array([2, 0]), gnp.array([1, 2]), gnp.array([3, 4]), gnp.array([5, 6]))
      Array([5, 2], dtype=int32)

    See also:
      `select`, whose first case is for True
    """
    if not cases:
        raise ValueError("lax.select_n must have at least one case")
    which = argument("select_n", which, 0)
    arrays = [argument("select_n", c, i + 1) for i, c in enumerate(cases)]
    shapes = [c.shape for c in arrays]
    if any(s != shapes[0] for s in shapes):
        raise TypeError(f"lax.select: cases must have one shape, got {', '.join(map(str, shapes))}")
    same_dtype("select", arrays)
    if which.shape not in ((), shapes[0]):
        raise TypeError(
            "lax.select: the choice must be a scalar or have the cases' shape, got shape "
            f"{which.shape} for cases of shape {shapes[0]}"
        )
    if which.dtype == BOOL:
        if len(arrays) > 2:
            raise TypeError("lax.select: a bool cannot choose among more than 2 cases")
    elif which.dtype not in INTEGERS:
        raise TypeError(f"lax.select: the choice must be bool or integer, got {which.dtype.name}")
    chosen = arrays[0]
    for number, case in enumerate(arrays[1:], 1):
        taken = which if which.dtype == BOOL else ge(which, constant_like(which, number))
        chosen = bind(ops.select, taken, case, chosen)
    return with_weak_type(chosen, all(c.aval.weak_type for c in arrays))
