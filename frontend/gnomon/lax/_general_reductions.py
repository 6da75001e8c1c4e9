"""Reductions by any computation, over whole dimensions and over sliding windows.

If the computation is a known monoid, the reduction becomes the op of that monoid. Any other
computation is applied to pairs of neighbours, then to pairs of the results, and so on. So it must
be associative, and the reduction can be differentiated and mapped like the ops of the computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays.annotations import OutSharding
from gnomon._arrays.array import Array
from gnomon._arrays.aval import shaped_array
from gnomon._tracing.bind import bind
from gnomon._tracing.function import check_callable, trace_function
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon._transformations.vmap import vmap
from gnomon._trees.prefixes import difference_of_structures
from gnomon.dialects.body import Body, operands_of
from gnomon.dialects.combinators import highest, lowest
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import as_size, surely_at_most
from gnomon.dialects.types import BOOL, is_complex
from gnomon.dialects.window_folds import fold_windows, window_shape
from gnomon.lax._convolution_shapes import padtype_to_pads
from gnomon.lax._creation import converted, full
from gnomon.lax._operands import argument, broadcast
from gnomon.lax._reductions import reduction_axes
from gnomon.lax._slicing import slice_in_dim
from gnomon.lax._structural import concatenate, ints, pad, reshape, transpose

# The op of a computation -> the name of its reduction, and its identity.
_MONOIDS: dict[str, tuple[str, Callable[[np.dtype[Any]], Any]]] = {
    "gnomon.add": ("sum", lambda dtype: 0),
    "gnomon.mul": ("prod", lambda dtype: 1),
    "gnomon.max": ("max", lowest),
    "gnomon.min": ("min", highest),
    "gnomon.and": ("and", lambda dtype: True if dtype == BOOL else -1),
    "gnomon.or": ("or", lambda dtype: 0),
    "gnomon.xor": ("xor", lambda dtype: 0),
}

Arrays = list[Array]


class _Computation:
    """A checked function of two trees of scalars, which can combine lists of arrays.

    Attributes:
      monoid: the op that the function consists of, if it is a single known op.
      tree: the structure of the function's results, and so of the reduction's.
    """

    def __init__(self, what: str, fun: Callable[[Any, Any], Any], operands: Arrays, tree: Any):
        self._fun, self._tree, self._count = fun, tree, len(operands)
        avals = [shaped_array((), x.dtype) for x in operands]

        def call(tracers: list[Any]) -> tuple[Any, Any]:
            return fun(*self._sides(tracers)), None

        traced = trace_function(call, fun, what, [*avals, *avals], staging=True)
        given = [f"{a.dtype.name}{list(a.shape)}" for a in traced.avals]
        wanted = [f"{a.dtype.name}[]" for a in avals]
        self.tree = traced.tree
        if given != wanted:
            raise TypeError(
                f"{what}: the computation must return values like its arguments, one scalar for "
                f"each operand: ({', '.join(wanted)}); it returns ({', '.join(given)})"
            )
        self.monoid = None if traced.captures else _single_op(traced.body)

    def _sides(self, leaves: Sequence[Any]) -> list[Any]:
        sides = leaves[: self._count], leaves[self._count :]
        return [tree_util.tree_unflatten(self._tree, list(side)) for side in sides]

    def __call__(self, left: Sequence[Array], right: Sequence[Array]) -> Arrays:
        """Combine arrays of one shape, element by element."""
        shape = left[0].shape

        def flat(*leaves: Any) -> list[Any]:
            return list(tree_util.tree_leaves(self._fun(*self._sides(leaves))))

        if not shape:
            results = flat(*left, *right)
        elif 0 in shape:
            return list(left)
        else:
            size = (math.prod(shape),)
            results = vmap(flat)(*(reshape(x, size) for x in (*left, *right)))
        return [reshape(_strong(r, x), shape) for r, x in zip(results, left, strict=True)]


def _strong(x: Any, like: Array) -> Array:
    """A result as an array without weak type, also if the computation returned a number."""
    return x if isinstance(x, Array) else converted(argument("reduce", x), like.dtype)


def _single_op(body: Body) -> str | None:
    """The name of the op, if the body is a single op of its two arguments, in either order."""
    operations = list(body.operations)
    if len(operations) != 1 or len(body.arguments) != 2:
        return None
    (op,) = operations
    arguments = body.arguments
    if set(operands_of(op)) != set(arguments) or body.results[0] in arguments:
        return None
    return str(op.name)


# --------------------------------------------------------------------------------------- operands


def _trees(what: str, operands: Any, init_values: Any) -> tuple[Arrays, Arrays, Any]:
    """The operands, their initial values in the same dtypes, and the structure of both."""
    leaves, tree = tree_util.tree_flatten(operands)
    inits, init_tree = tree_util.tree_flatten(init_values)
    if tree != init_tree:
        raise ValueError(
            f"lax.{what}: operands must have the same tree structure as init_values: "
            + difference_of_structures(tree, init_tree, "operands", "init_values")
        )
    if not leaves:
        raise ValueError(f"lax.{what} takes at least one operand")
    arrays = [argument(what, x, i) for i, x in enumerate(leaves)]
    scalars = [argument(what, x, i) for i, x in enumerate(inits)]
    if any(s.shape for s in scalars):
        shapes = [s.shape for s in scalars]
        error = TypeError if what == "reduce_window" else ValueError  # As in JAX.
        raise error(f"lax.{what}: initial values must be scalars, got shapes {shapes}")
    if len({x.shape for x in arrays}) > 1:
        given = ", ".join(str(x.shape) for x in arrays)
        raise ValueError(f"lax.{what}: operands must have one shape, got {given}")
    return arrays, scalars, tree


def _matching(what: str, arrays: Arrays, scalars: Arrays) -> Arrays:
    """The initial values, converted to the dtypes of the operands."""
    for x, scalar in zip(arrays, scalars, strict=True):
        kinds = "biufc"
        weak = scalar.aval.weak_type and kinds.find(_kind(scalar)) <= kinds.find(_kind(x))
        if scalar.dtype != x.dtype and not weak:
            raise TypeError(
                f"lax.{what}: operand dtypes must match those of the initial values, got "
                f"{[x.dtype.name for x in arrays]} and {[s.dtype.name for s in scalars]}"
            )
    return [converted(s, x.dtype, False) for x, s in zip(arrays, scalars, strict=True)]


def _kind(x: Array) -> str:
    kind = x.dtype.kind
    return kind if kind in "biuc" else "f"


def _identity(op: str, dtype: np.dtype[Any]) -> np.ndarray:
    return np.asarray(_MONOIDS[op][1](dtype)).astype(dtype)


def _is_identity(op: str, scalar: Array, dtype: np.dtype[Any]) -> bool:
    value = None if is_tracer(scalar) else concrete_value(scalar)
    if value is None:
        return False
    return bool(value == _identity(op, dtype))


# ------------------------------------------------------------------------------- whole dimensions


@takes_out_sharding
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: OutSharding | None = None,
) -> Any:
    """Combine an initial value and all elements along dimensions.

    Args:
      operands: an array, or a pytree of arrays of one shape for a joint reduction.
      init_values: scalars of the same structure and dtypes.
      computation: takes two such structures of scalars and returns one. It must be associative.
      dimensions: the dimensions to reduce; distinct and not negative. If there are none, the
        operands are returned.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      The structure of arrays without those dimensions. A reduction over no elements gives the
      initial values.
    Raises:
      TypeError: dtypes differ, or the types that the computation returns are not those it takes.
      ValueError: structures or shapes differ, or dimensions do not exist.

    Example:
      >>> import gnomon.numpy as gnp
      >>> reduce(gnp.array([3.0, 4.0]), 0.0, lambda a, b: gnp.hypot(a, b), (0,))
      Array(5., dtype=float32)
    """
    check_callable(computation, "reduce")
    arrays, scalars, tree = _trees("reduce", operands, init_values)
    axes = reduction_axes("reduce", arrays[0], dimensions)
    combine = _Computation("reduce", computation, arrays, tree)
    if not axes:
        _matching("reduce", arrays, scalars)
        return tree_util.tree_unflatten(combine.tree, arrays)
    if combine.monoid in _MONOIDS and len(arrays) == 1:
        (x,), (scalar,) = arrays, scalars
        name, _ = _MONOIDS[combine.monoid]
        reduced = bind(getattr(ops, f"reduce_{name}"), x, axes=axes)
        if not _is_identity(combine.monoid, scalar, x.dtype):
            (start,) = _matching("reduce", arrays, scalars)
            reduced = combine([broadcast(start, reduced.shape)], [reduced])[0]
        return tree_util.tree_unflatten(combine.tree, [reduced])
    initial = _matching("reduce", arrays, scalars)
    shape = arrays[0].shape
    kept = [d for d in range(len(shape)) if d not in axes]
    rest = tuple(shape[d] for d in kept)
    count = math.prod(shape[d] for d in axes)
    starts = [broadcast(s, rest) for s in initial]
    if count == 0:
        return tree_util.tree_unflatten(combine.tree, starts)
    order = (*axes, *kept)
    rows = [reshape(transpose(x, order), (count, *rest)) for x in arrays]
    whole = [reshape(x, rest) for x in _reduce_rows(rows, combine)]
    return tree_util.tree_unflatten(combine.tree, combine(starts, whole))


def _reduce_rows(rows: Arrays, combine: _Computation) -> Arrays:
    """Combine neighbouring rows, until one row is left."""
    while (n := rows[0].shape[0]) > 1:
        even = [slice_in_dim(x, 0, n - 1, 2) for x in rows]
        odd = [slice_in_dim(x, 1, n, 2) for x in rows]
        paired = combine(even, odd)
        if n % 2:
            last = [slice_in_dim(x, n - 1, n) for x in rows]
            paired = [concatenate([p, x], 0) for p, x in zip(paired, last, strict=True)]
        rows = paired
    return rows


# ---------------------------------------------------------------------------------------- windows


def _window_parameters(
    shape: Sequence[int],
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any,
    window_dilation: Any,
) -> dict[str, tuple[int, ...]]:
    """Check the parameters of the window ops."""
    rank = len(shape)
    window = ints("reduce_window", "window_dimensions", window_dimensions)
    if len(window) != rank:
        raise TypeError(
            "lax.reduce_window: window_dimensions needs one number for each dimension of the "
            f"operand, got {window} for shape {tuple(shape)}"
        )
    lists = {"window_dimensions": window}
    for name, given in (
        ("window_strides", window_strides),
        ("base_dilation", base_dilation),
        ("window_dilation", window_dilation),
    ):
        lists[name] = (1,) * rank if given is None else ints("reduce_window", name, given)
    for name, numbers in lists.items():
        if len(numbers) != rank:
            raise TypeError(
                f"lax.reduce_window: {name} must be as long as window_dimensions {window}, got "
                f"{numbers}"
            )
        if any(surely_at_most(n, 0) for n in numbers):
            raise TypeError(f"lax.reduce_window: {name} must be positive, got {numbers}")
    if isinstance(padding, str):
        reach = [(w - 1) * a + 1 for w, a in zip(window, lists["window_dilation"], strict=True)]
        pads = padtype_to_pads(shape, reach, lists["window_strides"], padding)
    else:
        pads = [(as_size(low), as_size(high)) for low, high in padding]
    if len(pads) != rank:
        raise ValueError(
            "lax.reduce_window: padding needs a pair for each dimension of the operand, got "
            f"{pads} for shape {tuple(shape)}"
        )
    low, high = tuple(p for p, _ in pads), tuple(p for _, p in pads)
    return {**lists, "padding_low": low, "padding_high": high}


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of the result of `reduce_window`.

    Args:
      operand_shape: the shape of the operand.
      window_dimensions, window_strides: the window's size and stride in each dimension.
      padding: a pair of pads for each dimension.
      base_dilation, window_dilation: the distance of neighbours in operand and window; None means
        1.

    Example:
      >>> from gnomon import lax
      >>> lax.reduce_window_shape_tuple((8, 8), (2, 2), (2, 2), [(0, 0), (0, 0)])
      (4, 4)
    """
    return window_shape(
        operand_shape,
        **_window_parameters(
            operand_shape,
            window_dimensions,
            window_strides,
            padding,
            base_dilation,
            window_dilation,
        ),
    )


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combine an initial value and the elements of each window of a sliding window.

    Args:
      operand: an array, or a pytree of arrays of one shape for a joint reduction.
      init_value: scalars of the same structure and dtypes.
      computation: takes two such structures of scalars and returns one. It must be associative.
      window_dimensions: the size of the window in each dimension.
      window_strides: the distance between neighbouring windows; 1 by default.
      padding: ``"VALID"``, ``"SAME"``, ``"SAME_LOWER"`` (see `padtype_to_pads`), or a pair of
        numbers for each dimension; negative numbers remove elements. Padding itself is not
        combined.
      base_dilation, window_dilation: the distance between elements of the operand, and between
        elements of the window; 1 by default.
    Returns:
      The structure of arrays with one element for each window.
    Raises:
      TypeError: a parameter does not fit the rank or is not positive, or dtypes differ.
      ValueError: structures or shapes differ.

    Example:
      >>> import gnomon.lax as lax, gnomon.numpy as gnp
      >>> reduce_window(gnp.array([1.0, 4.0, 2.0]), -gnp.inf, lax.max, (2,))
      Array([4., 4.], dtype=float32)
    """
    check_callable(computation, "reduce_window")
    arrays, scalars, tree = _trees("reduce_window", operand, init_value)
    shape = arrays[0].shape
    params = _window_parameters(
        shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    combine = _Computation("reduce_window", computation, arrays, tree)
    if combine.tree != tree:
        raise ValueError(
            f"reduce_window: the computation must return the structure of the operands, {tree}; it "
            f"returns {combine.tree}"
        )
    initial = _matching("reduce_window", arrays, scalars)
    counts = window_shape(shape, **params)
    if 0 in counts:
        return tree_util.tree_unflatten(combine.tree, [full(counts, 0, x.dtype) for x in arrays])
    monoid = combine.monoid if len(arrays) == 1 else None
    if monoid in _MONOIDS:
        (x,), (start,) = arrays, initial
        name, _ = _MONOIDS[monoid]
        if name == "sum" or (name in ("max", "min") and not is_complex(x.dtype)):
            reduced = [bind(getattr(ops, f"reduce_window_{name}"), x, **params)]
        else:
            identity = converted(argument("reduce_window", _identity(monoid, x.dtype)), x.dtype)
            reduced = _fold([x], [identity], params, combine)
        if not _is_identity(monoid, start, x.dtype):
            reduced = combine([broadcast(start, reduced[0].shape)], reduced)
        return tree_util.tree_unflatten(combine.tree, reduced)
    # Without an identity, padding cannot be combined: a mask marks the actual elements.
    present = full(shape, True, BOOL)

    def combine_present(left: Sequence[Array], right: Sequence[Array]) -> Arrays:
        *xs, x_present = left
        *ys, y_present = right
        both = bind(ops.and_, x_present, y_present)
        single = [bind(ops.select, x_present, x, y) for x, y in zip(xs, ys, strict=True)]
        joined = combine(xs, ys)
        chosen = [bind(ops.select, both, j, s) for j, s in zip(joined, single, strict=True)]
        return [*chosen, bind(ops.or_, x_present, y_present)]

    *values, some = _fold(
        [*arrays, present], [*initial, full((), False, BOOL)], params, combine_present
    )
    starts = [broadcast(s, some.shape) for s in initial]
    joined = combine(starts, values)
    results = [bind(ops.select, some, j, s) for j, s in zip(joined, starts, strict=True)]
    return tree_util.tree_unflatten(combine.tree, results)


def _fold(
    arrays: Arrays,
    fills: Arrays,
    params: dict[str, tuple[int, ...]],
    combine: Callable[[Sequence[Array], Sequence[Array]], Sequence[Array]],
) -> Arrays:
    """Pad arrays with given values, and combine the elements of each window."""
    gaps = [b - 1 for b in params["base_dilation"]]
    config = list(zip(params["padding_low"], params["padding_high"], gaps, strict=True))
    padded = [pad(x, fill, config) for x, fill in zip(arrays, fills, strict=True)]
    return fold_windows(
        padded,
        padded[0].shape,
        params,
        lambda x, d, start, limit, stride: slice_in_dim(x, start, limit, stride, d),
        combine,
    )


__all__ = ["reduce", "reduce_window", "reduce_window_shape_tuple"]
