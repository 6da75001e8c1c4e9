"""Functions of functions: `vectorize`, `apply_along_axis`, `piecewise`, ..."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from gnomon import lax
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._transformations.vmap import vmap
from gnomon.lax._structural import canonical_axis
from gnomon.numpy._arguments import as_array
from gnomon.numpy._construction import asarray
from gnomon.numpy._dispatch import check_ranks
from gnomon.numpy._manipulation import broadcast_to, expand_dims, reshape
from gnomon.numpy._selection import where

CoreDims = tuple[tuple[str, ...], ...]

_NAME = r"\w+"
_LIST = rf"\((?:{_NAME}(?:,{_NAME})*,?)?\)"
_SIGNATURE = re.compile(rf"^{_LIST}(?:,{_LIST})*->{_LIST}(?:,{_LIST})*$")


def _parsed(signature: str) -> tuple[CoreDims, CoreDims]:
    """The names of the core dimensions of arguments and results."""
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.match(text):
        raise ValueError(f"vectorize: not a valid gufunc signature: {signature!r}")
    inputs, outputs = (
        tuple(tuple(re.findall(_NAME, part)) for part in re.findall(_LIST, side))
        for side in text.split("->")
    )
    return inputs, outputs


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """Make a function of scalars or small arrays apply to larger arrays, with broadcasting.

    Args:
      pyfunc: the function.
      excluded: positions and names of arguments that are passed unchanged.
      signature: the dimensions of the arguments and results of the function, such as
        ``"(n,m),(m)->(n)"``; scalars by default.
    Returns:
      The function, mapped over the leading dimensions of its arguments.
    Raises:
      ValueError: the signature cannot be read, or arguments do not fit it.

    Example:
      >>> import gnomon.numpy as gnp
      >>> matvec = vectorize(gnp.dot, signature="(n,m),(m)->(n)")
      >>> matvec(gnp.ones((2, 3)), gnp.ones((4, 3))).shape
      (4, 2)
    """
    for item in excluded:
        if not isinstance(item, (int, str)):
            raise TypeError(f"vectorize: excluded holds positions and names, got {item!r}")
        if isinstance(item, int) and item < 0:
            raise ValueError(f"vectorize: excluded positions must be at least 0, got {item}")
    core = None if signature is None else _parsed(signature)

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        absent = {i for i in range(len(args)) if args[i] is None and i not in excluded}
        if absent and core is not None:
            raise ValueError(
                f"vectorize: the arguments {sorted(absent)} are None, but the signature "
                f"{signature!r} requires arrays; list them in excluded"
            )
        aside = {i for i in range(len(args)) if i in excluded} | absent
        mapped = [i for i in range(len(args)) if i not in aside]
        names = [name for name in kwargs if name not in excluded]
        if names and core is not None:
            raise TypeError(
                f"vectorize: with a signature, keyword arguments must be excluded, got {names}"
            )

        def call(*arrays: Any) -> Any:
            full = list(args)
            for i, x in zip(mapped, arrays, strict=False):
                full[i] = x
            given = dict(zip(names, arrays[len(mapped) :], strict=True))
            return pyfunc(*full, **{**kwargs, **given})

        arrays = [asarray(args[i]) for i in mapped] + [asarray(kwargs[name]) for name in names]
        inputs: CoreDims = ((),) * len(arrays) if core is None else core[0]
        if len(inputs) != len(arrays):
            raise TypeError(
                f"vectorize: the signature {signature!r} has {len(inputs)} arguments, "
                f"got {len(arrays)}"
            )
        return _mapped(call, arrays, inputs, None if core is None else core[1])

    return wrapped


def _mapped(
    call: Callable[..., Any], arrays: list[Array], inputs: CoreDims, outputs: CoreDims | None
) -> Any:
    sizes: dict[str, int] = {}
    shapes = []
    for x, names in zip(arrays, inputs, strict=True):
        if x.ndim < len(names):
            raise ValueError(
                f"vectorize: core dimensions {names} need an array of at least as many "
                f"dimensions, got shape {x.shape}"
            )
        shapes.append(x.shape[: x.ndim - len(names)])
        for name, size in zip(names, x.shape[x.ndim - len(names) :], strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(
                    f"vectorize: core dimension {name!r} has inconsistent sizes {sizes[name]} "
                    f"and {size}"
                )
    common = lax.broadcast_shapes(*shapes) if shapes else ()
    # Without a signature, the function determines the dimensions of the results.
    function = call if outputs is None else _checked(call, outputs, sizes)
    check_ranks("vectorize", arrays, [len(names) for names in inputs])
    # One vmap for each leading dimension, over the arguments that vary along it.
    for place in reversed(range(len(common))):
        axes = []
        for i, shape in enumerate(shapes):
            own = place - (len(common) - len(shape))
            varies = own >= 0 and (shape[own] != 1 or common[place] == 1)
            axes.append(0 if varies else None)
            if own >= 0 and not varies:
                old = arrays[i].shape
                arrays[i] = reshape(arrays[i], (*old[:own], *old[own + 1 :]))
        if any(axis is not None for axis in axes):
            function = vmap(function, tuple(axes))
    return function(*arrays)


def _checked(
    call: Callable[..., Any], outputs: CoreDims, sizes: dict[str, int]
) -> Callable[..., Any]:
    """Make ``call`` check its results against the signature."""

    def function(*arrays: Any) -> Any:
        result = call(*arrays)
        found = result if isinstance(result, tuple) else (result,)
        if isinstance(result, tuple) != (len(outputs) > 1):
            raise TypeError(
                f"vectorize: the signature has {len(outputs)} results, but the function returned "
                f"{type(result).__name__}"
            )
        if len(found) != len(outputs):
            raise TypeError(
                f"vectorize: the signature has {len(outputs)} results, but the function returned "
                f"{len(found)}"
            )
        for x, names in zip(found, outputs, strict=True):
            shape = np.shape(x)
            fits = len(shape) == len(names) and all(
                sizes.setdefault(name, size) == size
                for name, size in zip(names, shape, strict=True)
            )
            if not fits:
                raise ValueError(
                    f"vectorize: the function returned shape {shape}, but the signature says "
                    f"{names} with sizes {sizes}"
                )
        return result

    return function


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """Apply a function of vectors to the vectors along an axis.

    Args:
      func1d: a function of a 1-d array; ``args`` and ``kwargs`` are passed to it unchanged.
      axis: the dimension of ``arr`` that holds the vectors; the dimensions of the result of
        ``func1d`` replace it.
      arr: an array of at least one dimension.
      args, kwargs: further arguments of ``func1d``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([[1, 9, 3], [4, 4, 5]])
      >>> gnp.apply_along_axis(lambda row: row.max() - row.min(), 1, x)
      Array([8, 1], dtype=int32)
      >>> gnp.apply_along_axis(gnp.cumsum, 0, gnp.array([[1, 2], [3, 4]]))
      Array([[1, 2],
             [4, 6]], dtype=int32)

    See also:
      `gnomon.vmap`, `vectorize`
    """
    x = as_array("apply_along_axis", arr)
    place = canonical_axis(axis, x.ndim)
    function: Callable[..., Any] = lambda vector: func1d(vector, *args, **kwargs)  # noqa: E731
    # The last wrapper runs first: the dimensions before the axis are mapped from the first to the
    # last, and then those after it from the last to the first.
    for mapped_axis in range(1, x.ndim - place):
        function = vmap(function, in_axes=mapped_axis, out_axes=-1)
    for _ in range(place):
        function = vmap(function, in_axes=0, out_axes=0)
    return function(x)


def apply_over_axes(func: Callable[[Any, int], Any], a: ArrayLike, axes: Sequence[int]) -> Array:
    """Apply a reduction along several axes in turn and keep the reduced dimensions.

    Args:
      func: a function of an array and an axis, such as `sum`. Its result must keep the dimension
        with size one, or drop it.
      a: an array.
      axes: the axes, in the order in which ``func`` is applied.
    Raises:
      ValueError: the function drops more dimensions than the axis.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.apply_over_axes(gnp.sum, gnp.arange(8).reshape(2, 2, 2), [0, 2])
      Array([[[10],
              [18]]], dtype=int32)
    """
    x = as_array("apply_over_axes", a)
    for axis in axes:
        place = canonical_axis(axis, x.ndim)
        reduced = func(x, place)
        if reduced.ndim == x.ndim:
            x = reduced
        elif reduced.ndim == x.ndim - 1:
            x = expand_dims(reduced, place)
        else:
            raise ValueError(
                "apply_over_axes: the function must keep or drop the axis, but it returned shape "
                f"{reduced.shape} for shape {x.shape}"
            )
    return x


def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Apply to each element the function (or constant) of the last condition that holds.

    Args:
      x: the array.
      condlist: bools, one array of the shape of ``x`` for each condition.
      funclist: functions of arrays, or constants, one for each condition. An additional last one
        is for elements at which no condition holds (0 by default). All functions are evaluated
        everywhere.
      args, kw: passed to the functions.
    Raises:
      ValueError: the numbers of conditions and functions do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([-2.0, 3.0])
      >>> gnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: 2 * v])
      Array([2., 6.], dtype=float32)
    """
    values = as_array("piecewise", x)
    count = len(condlist)
    if len(funclist) not in (count, count + 1):
        raise ValueError(
            f"piecewise: {count} conditions take {count} or {count + 1} functions, got "
            f"{len(funclist)}"
        )
    otherwise = funclist[-1] if len(funclist) > count else 0

    def piece(choice: Any) -> Array:
        given = choice(values, *args, **kw) if callable(choice) else choice
        return lax.convert_element_type(asarray(given), values.dtype)

    conditions = [lax.convert_element_type(asarray(c), np.bool_) for c in condlist]
    result = broadcast_to(piece(otherwise), values.shape)
    for condition, choice in zip(conditions, funclist, strict=False):
        result = where(condition, piece(choice), result)
    return result


__all__ = ["apply_along_axis", "apply_over_axes", "piecewise", "vectorize"]
