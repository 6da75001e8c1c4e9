"""Loops: `scan`, `while_loop`, `fori_loop`, `map`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, split_alike
from gnomon._arrays.concrete import wrap
from gnomon._config.current import config
from gnomon._diagnostics.errors import ConcretizationTypeError, GnomonTypeError
from gnomon._tracing.bind import as_operand, bind, with_weak_type
from gnomon._tracing.function import (
    Traced,
    bind_bodies,
    check_callable,
    name_of,
    trace_function,
    with_avals,
)
from gnomon._tracing.trace import concrete_value, is_tracer
from gnomon._transformations.vmap import vmap
from gnomon._trees.prefixes import difference_of_structures
from gnomon.dialects.emit import ops
from gnomon.dialects.types import TensorType, is_integer
from gnomon.lax._bodies import captures_first, leaves_of, path_to, trace_body

__all__ = ["fori_loop", "map", "scan", "while_loop"]


def _check_carry(
    what: str, in_tree: Any, in_avals: Sequence[ShapedArray], out_tree: Any, outs: Sequence[Any]
) -> None:
    """Raise ``TypeError`` unless the body returns a carry of the type that it takes."""
    if in_tree != out_tree:
        raise TypeError(
            f"{what}: the carry must have the same pytree structure before and after the body: "
            + difference_of_structures(in_tree, out_tree, "the carry", "the body's result")
        )
    different = [
        f"  carry{path_to(in_tree, i)} is {a} before and {b} after"
        for i, (a, b) in enumerate(zip(in_avals, outs, strict=True))
        if _differ(a, b)
    ]
    casts = sorted({n for a, b in zip(in_avals, outs, strict=True) for n in b.vma - a.vma})
    if different:
        raise TypeError(
            f"{what}: the carry must have equal types before and after the body:\n"
            + "\n".join(different)
            + "\nStart with the type that the body returns (for example x.astype(...), "
            "gnomon.numpy.zeros(..., dtype)), or convert the body's result."
            + (
                f"\nThe result varies over {casts}: start with gnomon.lax.pcast(..., "
                f"{tuple(casts)}, to='varying')."
                if casts
                else ""
            )
        )


def _differ(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether types of a carry before and after the body differ in more than the weak type."""
    return a.shape != b.shape or a.dtype != b.dtype or a.vma != b.vma or not split_alike(a, b)


def _promote(
    leaves: list[Array], avals: Sequence[ShapedArray], outs: Sequence[ShapedArray]
) -> list[Array] | None:
    """Promote weakly typed leaves of the initial carry to the dtypes of the body's results.

    So a loop may start with a Python number and go on with arrays. A weakly typed leaf keeps its
    type if the body returns the same dtype, weak or not. The result is None if nothing changes.
    """
    promoted = list(leaves)
    for i, (a, b) in enumerate(zip(avals, outs, strict=True)):
        if a.weak_type and a.shape == b.shape and a.dtype != b.dtype:
            common, _ = _dtypes.promote(((a.dtype, True), (b.dtype, b.weak_type)))
            if common != a.dtype:
                promoted[i] = _strong(_cast(leaves[i], a.update(dtype=common)))
    return promoted if any(p is not q for p, q in zip(promoted, leaves, strict=True)) else None


def _cast(array: Array, aval: ShapedArray) -> Any:
    return array if array.dtype == aval.dtype else bind(ops.convert, array, dtype=aval.dtype)


def _strong(array: Any) -> Any:
    """The array without its weak type."""
    return with_weak_type(array, False)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Apply a function to slices along the leading axis of arrays, and carry a value along.

    In Python::

        carry, ys = init, []
        for x in xs: carry, y = f(carry, x); ys.append(y)
        return carry, stack(ys)

    Args:
      f: takes the carry and a slice of ``xs``; returns the new carry, of the same type, and an
        output.
      init: the first carry.
      xs: a pytree of arrays of one leading size, or None.
      length: the number of steps; needed if ``xs`` has no arrays.
      reverse: run from the last slice to the first; outputs are in the order of the slices.
      unroll: accepted for compatibility; the compiler decides.
    Returns:
      ``(carry, ys)``.
    Raises:
      TypeError: the carry changes its structure, shape or dtype, or ``f`` does not return a pair.
      ValueError: leading sizes differ, or the length is not known.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> def step(total, x):
      ...     return total + x, 10 * total
      >>> total, outputs = lax.scan(step, gnp.array(0), gnp.array([1, 2, 3]))
      >>> total
      Array(6, dtype=int32)
      >>> outputs
      Array([ 0, 10, 30], dtype=int32, weak_type=True)
      >>> lax.scan(lambda x, _: (2 * x, None), 1, length=5)[0]
      Array(32, dtype=int32, weak_type=True)

    See also:
      `fori_loop`, `map`, `associative_scan`
    """
    check_callable(f, "scan")
    carry, carry_tree = leaves_of(init, "scan's init")
    slices, xs_tree = leaves_of(xs, "scan's xs")
    steps = _scan_length(slices, xs_tree, length)
    given: Any = unroll
    if not isinstance(given, (bool, int)) or given < 0:
        raise ValueError(f"scan: unroll must be a bool or a non-negative int, got {unroll!r}")
    if config.disable_jit:
        return _scan_in_python(
            f, tree_util.tree_unflatten(carry_tree, carry), slices, xs_tree, steps, reverse
        )
    in_tree = tree_util.tree_structure(
        (
            tree_util.tree_unflatten(carry_tree, carry),
            tree_util.tree_unflatten(xs_tree, slices),
        )
    )

    def trace() -> tuple[Traced, int]:
        avals = [c.aval for c in carry]
        avals += [_slice_aval(x.aval) for x in slices]
        traced = _trace_pair(f, in_tree, avals)
        return traced, traced.extra[0].num_leaves

    traced, count = trace()
    for _ in carry:
        if count != len(carry):
            break
        promoted = _promote(carry, [c.aval for c in carry], traced.avals[:count])
        if promoted is None:
            break
        carry = promoted
        traced, count = trace()
    out_carry_tree, _ = traced.extra
    in_avals = [c.aval for c in carry]
    _check_carry("scan", carry_tree, in_avals, out_carry_tree, traced.avals[:count])

    slice_types = [x.aval.update(shape=x.shape[1:]).type for x in slices]
    types = [*(a.type for a in in_avals), *slice_types]
    bodies = [captures_first(traced, types)]
    params = {
        "consts": len(traced.captures),
        "carry": len(carry),
        "length": steps,
        "reverse": bool(reverse),
        "unroll": max(int(unroll), 1),
    }
    operands = [*traced.captures, *carry, *slices]
    results = bind_bodies(ops.scan, traced.program, operands, bodies, params)
    stacked = [_stacked_aval(aval, steps) for aval in traced.avals[count:]]
    outs = with_avals(results, [*traced.avals[:count], *stacked])
    # If the function returns a list instead of a tuple, so does the scan.
    return tree_util.tree_unflatten(traced.tree, outs)


def _slice_aval(aval: ShapedArray) -> ShapedArray:
    """The type of one slice of an array that a scan iterates over."""
    sharding = aval.explicit
    if sharding is not None:
        if aval.split[0]:
            raise ValueError(
                "scan: the leading axis of every array of xs must not be split over a mesh, got "
                f"{aval}. Move it with gnomon.sharding.reshard"
            )
        sharding = sharding.update(spec=sharding.spec.update(partitions=aval.split[1:]))
    return aval.replicated().update(shape=aval.shape[1:], sharding=sharding)


def _stacked_aval(aval: ShapedArray, steps: int) -> ShapedArray:
    """The type of the stacked outputs of a scan."""
    sharding = aval.explicit
    if sharding is not None:
        partitions = (None, *aval.split)
        sharding = sharding.update(spec=sharding.spec.update(partitions=partitions))
    return aval.replicated().update(shape=(steps, *aval.shape), sharding=sharding)


def _scan_in_python(
    f: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    slices: list[Array],
    xs_tree: Any,
    steps: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """Run a scan as a Python loop, for `disable_jit`."""
    if steps == 0:
        raise ValueError(
            "zero-length scan is not supported in disable_jit() mode because the output type is "
            "unknown."
        )
    rows: list[Any] = [None] * steps
    for i in reversed(range(steps)) if reverse else range(steps):
        parts = [
            bind(ops.reshape, _slice(x, i, i + 1), shape=x.shape[1:]) if x.ndim else x
            for x in slices
        ]
        carry, rows[i] = f(carry, tree_util.tree_unflatten(xs_tree, parts))

    def stack(*values: Any) -> Any:
        arrays = [as_operand(v) for v in values]
        pieces = [bind(ops.reshape, a, shape=(1, *a.shape)) for a in arrays]
        return bind(ops.concatenate, *pieces, dimension=0) if steps > 1 else pieces[0]

    return carry, tree_util.tree_map(stack, *rows)


def _trace_pair(
    f: Callable[[Any, Any], tuple[Any, Any]],
    in_tree: Any,
    avals: Sequence[ShapedArray],
) -> Traced:
    """Trace the body of a scan; ``Traced.extra`` holds the structures of carry and output."""

    def call(tracers: list[Any]) -> tuple[Any, Any]:
        out: Any = f(*tree_util.tree_unflatten(in_tree, tracers))
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(
                f"scan: {name_of(f)} must return a pair (carry, y), got {type(out).__name__}"
            )
        trees = tree_util.tree_structure(out[0]), tree_util.tree_structure(out[1])
        return out, trees

    return trace_function(call, f, "scan", avals, staging=True)


def _scan_length(slices: Sequence[Array], tree: Any, length: int | None) -> int:
    for i, x in enumerate(slices):
        if x.ndim == 0:
            raise ValueError(
                "scan: every array of xs needs a leading axis, but "
                f"xs{path_to(tree, i)} is a scalar"
            )
    sizes = {x.shape[0] for x in slices}
    if len(sizes) > 1:
        raise ValueError(f"scan got values with different leading axis sizes: {sorted(sizes)}")
    if length is not None:
        try:
            wanted = int(length)
        except GnomonTypeError:
            raise ConcretizationTypeError(
                length,
                "It is the argument length of scan, which is part of the program; lax.fori_loop "
                "and lax.while_loop take numbers of steps that are not known.",
            ) from None
        except TypeError as error:
            raise TypeError(f"scan: length must be an int, got {length!r}") from error
        if sizes and sizes != {wanted}:
            raise ValueError(
                f"scan: length is {wanted}, but the leading axis of xs has size {sizes.pop()}"
            )
        if wanted < 0:
            raise ValueError(f"scan: length must not be negative, got {wanted}")
        return wanted
    if not sizes:
        raise ValueError("scan: give xs with at least one array, or length")
    return sizes.pop()


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Apply a function to a value repeatedly while a condition holds.

    Args:
      cond_fun: maps the carry to a boolean scalar.
      body_fun: maps the carry to a carry of the same type.
      init_val: the first carry, a pytree of arrays.
    Returns:
      The carry for which ``cond_fun`` is false. Forward-mode differentiation works; reverse mode
      raises, because the number of steps is not known: use `scan`, or `fori_loop` with static
      bounds.
    Raises:
      TypeError: the condition is not a boolean scalar, or the carry changes its type.

    Example:
      >>> from gnomon import lax
      >>> lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
      Array(192, dtype=int32, weak_type=True)

    See also:
      `fori_loop`, `scan`
    """
    check_callable(cond_fun, "while_loop")
    check_callable(body_fun, "while_loop")
    if config.disable_jit and _is_known(init_val):
        try:
            value = init_val
            while cond_fun(value):
                value = body_fun(value)
            return value
        except ConcretizationTypeError:
            pass  # the condition is traced after all
    carry, tree = leaves_of(init_val, "while_loop's init_val")
    in_tree = tree_util.tree_structure((init_val,))

    def trace() -> list[Traced]:
        avals = [c.aval for c in carry]
        body = trace_body(body_fun, "while_loop", in_tree, avals)
        if body.tree != tree or any(starmap(_differ, zip(avals, body.avals, strict=True))):
            return [body]  # an error, or the body is traced again
        return [body, trace_body(cond_fun, "while_loop", in_tree, avals, body.program)]

    traced, *rest = trace()
    for _ in carry:
        if traced.tree != tree:
            break
        promoted = _promote(carry, [c.aval for c in carry], traced.avals)
        if promoted is None:
            break
        carry = promoted
        traced, *rest = trace()
    avals = [c.aval for c in carry]
    _check_carry("while_loop", tree, avals, traced.tree, traced.avals)
    (condition,) = rest
    if condition.tree != tree_util.tree_structure(0) or condition.avals[0].type != TensorType(
        (), np.dtype(np.bool_)
    ):
        shown = condition.avals[0] if len(condition.avals) == 1 else condition.tree
        raise TypeError(f"while_loop: cond_fun must return a boolean scalar, got {shown}")
    types = [a.type for a in avals]
    bodies = [captures_first(p, types) for p in (condition, traced)]
    params = {"cond_consts": len(condition.captures), "body_consts": len(traced.captures)}
    operands = [*condition.captures, *traced.captures, *carry]
    results = bind_bodies(ops.while_, traced.program, operands, bodies, params)
    # If members may stop after different numbers of steps, the results vary over their axes.
    decides = condition.avals[0].vma
    final = [aval.update(vma=aval.vma | decides) for aval in traced.avals]
    return tree_util.tree_unflatten(tree, with_avals(results, final))


def _is_known(tree: Any) -> bool:
    """Whether no array of a pytree is traced without a value."""
    return not any(is_tracer(x) and x.concrete() is None for x in tree_util.tree_leaves(tree))


def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Apply ``body_fun(i, value)`` for ``i`` from ``lower`` to ``upper - 1``.

    Args:
      lower, upper: integer scalars. If both are known during tracing, the loop is a `scan`, which
        can be differentiated in reverse mode; otherwise it is a `while_loop`.
      body_fun: maps the index and the value to a value of the same type.
      init_val: the first value.
      unroll: accepted for compatibility if the bounds are known; an error otherwise.
    Returns:
      The last value.
    Raises:
      TypeError: the bounds are not integers of one dtype, or the value changes its type.

    Example:
      >>> import gnomon as gn
      >>> from gnomon import lax
      >>> lax.fori_loop(0, 4, lambda i, total: total + i, 0)
      Array(6, dtype=int32, weak_type=True)
      >>> gn.grad(lambda x: lax.fori_loop(0, 3, lambda i, y: y * x, 1.0))(2.0)
      Array(12., dtype=float32, weak_type=True)

    See also:
      `scan`, `while_loop`
    """
    check_callable(body_fun, "fori_loop")
    bounds = [as_operand(lower), as_operand(upper)]
    for bound in bounds:
        if bound.shape != () or not is_integer(bound.dtype):
            raise TypeError(f"fori_loop: lower and upper must be integer scalars, got {bound.aval}")
    low, high = bounds
    if low.dtype != high.dtype:
        if low.aval.weak_type:
            low = _strong(_cast(low, high.aval))
        elif high.aval.weak_type:
            high = _strong(_cast(high, low.aval))
        else:
            raise TypeError(
                "fori_loop: lower and upper must have equal dtypes, got "
                f"{low.dtype.name} and {high.dtype.name}"
            )
    # Outside of jit, a bound that is computed under grad still has a value.
    values = [concrete_value(b) for b in (low, high)]
    if all(v is not None for v in values):
        first, last = (int(v) for v in values)  # type: ignore[arg-type]

        def step(carry: Any, _: Any) -> tuple[Any, None]:
            i, value = carry
            return (_successor(i), body_fun(i, value)), None

        if config.disable_jit and last <= first:
            return init_val
        # Known bounds become Python integers, which keep the dtypes of results.
        start = as_operand(first)
        (_, final), _ = scan(
            step, (start, init_val), None, length=max(last - first, 0), unroll=unroll or 1
        )
        return final
    if unroll is not None:
        raise ValueError(
            "fori_loop: unroll needs a static trip count, but lower or upper is traced"
        )
    init = (low, high, init_val)
    final = while_loop(
        lambda state: bind(ops.lt, state[0], state[1]),
        lambda state: (_successor(state[0]), state[1], body_fun(state[0], state[2])),
        init,
    )
    return final[2]


def _successor(i: Array) -> Any:
    return bind(ops.add, i, wrap(np.asarray(1, i.dtype), i.aval.weak_type))


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply a function to the slices along the leading axis one by one, and stack the results.

    Args:
      f: maps a slice of ``xs`` to a pytree of arrays.
      xs: a pytree of arrays of one leading size.
      batch_size: the number of slices that `vmap` processes at once; None and 0 mean one by one.
    Raises:
      ValueError: leading sizes differ, or there are no arrays.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.map(lambda x: x**2, gnp.arange(4))
      Array([0, 1, 4, 9], dtype=int32)

    See also:
      `gnomon.vmap`, which computes all slices at once; `scan`
    """
    if not batch_size:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    if batch_size < 1:
        raise ValueError(f"map: batch_size must be positive, got {batch_size}")
    leaves, tree = leaves_of(xs, "map's xs")
    total = _scan_length(leaves, tree, None)
    whole = total // batch_size
    batched = vmap(f)
    pieces = []
    if whole:
        blocks = [
            bind(
                ops.reshape,
                _slice(x, 0, whole * batch_size),
                shape=(whole, batch_size, *x.shape[1:]),
            )
            for x in leaves
        ]
        out = scan(lambda _, x: ((), batched(x)), (), tree_util.tree_unflatten(tree, blocks))[1]
        pieces.append(
            tree_util.tree_map(
                lambda y: bind(ops.reshape, y, shape=(y.shape[0] * y.shape[1], *y.shape[2:])), out
            )
        )
    if total > whole * batch_size or not pieces:
        rest = [_slice(x, whole * batch_size, total) for x in leaves]
        pieces.append(batched(tree_util.tree_unflatten(tree, rest)))
    if len(pieces) == 1:
        return pieces[0]
    return tree_util.tree_map(lambda *ys: bind(ops.concatenate, *ys, dimension=0), *pieces)


def _slice(x: Array, start: int, limit: int) -> Any:
    zeros = (0,) * (x.ndim - 1)
    return bind(
        ops.slice,
        x,
        start=(start, *zeros),
        limit=(limit, *x.shape[1:]),
        strides=(1,) * x.ndim,
    )
