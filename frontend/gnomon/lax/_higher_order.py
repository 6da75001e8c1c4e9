"""Functions of functions: `associative_scan`, `platform_dependent`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand, bind
from gnomon._tracing.stack import platform_of
from gnomon.dialects.emit import ops
from gnomon.lax._structural import canonical_axis


def _slice(x: Array, axis: int, start: int, limit: int, stride: int = 1) -> Any:
    rank = x.ndim
    return bind(
        ops.slice,
        x,
        start=tuple(start if d == axis else 0 for d in range(rank)),
        limit=tuple(limit if d == axis else n for d, n in enumerate(x.shape)),
        strides=tuple(stride if d == axis else 1 for d in range(rank)),
    )


class _Line:
    """Slice and join arrays along an axis; with ``reverse``, elements count from the end."""

    def __init__(self, axis: int, reverse: bool) -> None:
        self.axis = axis
        self.reverse = reverse

    def cut(self, x: Array, start: int, limit: int, stride: int = 1) -> Any:
        """The elements ``start``, ``start + stride``, ... before ``limit``."""
        if self.reverse:
            size = x.shape[self.axis]
            count = max(-(-(limit - start) // stride), 0)
            limit = size - start
            start = limit - 1 - (count - 1) * stride if count else limit
        return _slice(x, self.axis, start, limit, stride)

    def join(self, first: Array, second: Array) -> Any:
        """Join the elements of one array and those of another."""
        parts = (second, first) if self.reverse else (first, second)
        return bind(ops.concatenate, *parts, dimension=self.axis)

    def interleave(self, even: Array, odd: Array) -> Any:
        """Alternate the elements of two arrays; the first one may be longer by one."""
        axis, count = self.axis, odd.shape[self.axis]
        shape = odd.shape
        pair = (*shape[: axis + 1], 1, *shape[axis + 1 :])
        parts = [bind(ops.reshape, x, shape=pair) for x in (self.cut(even, 0, count), odd)]
        if self.reverse:
            parts.reverse()
        joined = bind(ops.concatenate, *parts, dimension=axis + 1)
        joined = bind(ops.reshape, joined, shape=(*shape[:axis], 2 * count, *shape[axis + 1 :]))
        if even.shape[axis] == count:
            return joined
        return self.join(joined, self.cut(even, count, count + 1))


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All partial results of an associative operation, in a logarithmic number of steps.

    Args:
      fn: an associative function ``fn(a, b)`` of two pytrees like ``elems``, which returns as many
        arrays of the same dtypes. One call combines many pairs of elements along the axis.
      elems: a pytree of arrays of one size along ``axis``.
      reverse: combine from the last element to the first.
      axis: the axis to scan along.
    Returns:
      A pytree like ``elems``; element ``i`` combines the elements up to ``i``.
    Raises:
      TypeError: ``fn`` is not callable, or changes dtypes.
      ValueError: the sizes along the axis differ, or ``fn`` changes the number of arrays.

    Guy Blelloch, Prefix sums and their applications (1990).

    Example:
      >>> import gnomon.numpy as gnp
      >>> associative_scan(gnp.add, gnp.arange(5))
      Array([ 0,  1,  3,  6, 10], dtype=int32)
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    leaves, tree = tree_util.tree_flatten(elems)
    arrays = [as_operand(leaf) for leaf in leaves]
    if not arrays:
        return elems
    axes = [canonical_axis(axis, x.ndim) for x in arrays]
    sizes = {x.shape[a] for x, a in zip(arrays, axes, strict=True)}
    if len(sizes) > 1:
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension. "
            f"(saw: {[x.shape for x in arrays]})"
        )

    lines = [_Line(a, reverse) for a in axes]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        out = fn(tree_util.tree_unflatten(tree, a), tree_util.tree_unflatten(tree, b))
        found, out_tree = tree_util.tree_flatten(out)
        if len(found) != len(arrays):
            raise ValueError(
                f"associative_scan: fn must return a pytree like its arguments, {tree}; got "
                f"{out_tree}"
            )
        combined = [as_operand(x) for x in found]
        given, returned = ([x.dtype.name for x in xs] for xs in (arrays, combined))
        if given != returned:
            raise TypeError(
                "associative_scan: fn must return arrays of the dtypes of its arguments, "
                f"{given}; got {returned}"
            )
        return combined

    def cut(values: list[Any], start: int, limit: int, stride: int = 1) -> list[Any]:
        return [line.cut(x, start, limit, stride) for line, x in zip(lines, values, strict=True)]

    def scan(values: list[Any], size: int) -> list[Any]:
        """Combine pairs, scan the combined pairs, and fill in the elements between them."""
        if size < 2:
            return values
        pairs = combine(cut(values, 0, size - 1, 2), cut(values, 1, size, 2))
        odd = scan(pairs, size // 2)
        even = cut(values, 0, 1)
        if size > 2:
            before = odd if size % 2 else cut(odd, 0, size // 2 - 1)
            rest = combine(before, cut(values, 2, size, 2))
            even = [line.join(a, b) for line, a, b in zip(lines, even, rest, strict=True)]
        return [line.interleave(e, o) for line, e, o in zip(lines, even, odd, strict=True)]

    return tree_util.tree_unflatten(tree, scan(arrays, sizes.pop()))


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Apply the function for the platform that the program runs on.

    Args:
      args: arguments of the functions.
      default: the function for platforms that are not named.
      per_platform: functions by platform: ``cpu=``, ``cuda=``, ``tpu=``.
    Raises:
      NotImplementedError: there is no function for this platform and no default.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.platform_dependent(gnp.array(2.0), cpu=lambda x: x + 1, default=lambda x: x * 10)
      Array(3., dtype=float32, weak_type=True)
    """
    platform = platform_of(tree_util.tree_leaves(args), "platform_dependent")
    chosen = per_platform.get(platform, default)
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent: there is no function for {platform!r} (given: "
            f"{', '.join(sorted(per_platform)) or 'none'}) and no default"
        )
    return chosen(*args)


__all__ = ["associative_scan", "platform_dependent"]
