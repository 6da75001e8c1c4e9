"""Vectorization: `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._function import (
    apply,
    check_callable,
    described,
    name_of,
    output_leaves,
    trace_function,
    with_avals,
)
from gnomon._trace_stack import named_axis
from gnomon._tracing import as_operand
from gnomon._tree_prefixes import broadcast_prefix
from gnomon.dialects import functions
from gnomon.dialects.contract import MappedAxis
from gnomon.passes.expand import mapped_results


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[..., Any]:
    """A function that maps ``fun`` over an axis of its arguments, without a loop.

    Args:
      fun: a function of arrays and pytrees of them.
      in_axes: per positional argument, the axis to map: an int, ``None`` (not mapped), or a pytree
      of
        those that is a prefix of the argument. A single int or ``None`` stands for all arguments.
        Arguments given by keyword are mapped over their leading axis.
      out_axes: likewise where the mapped axis stands in the results; ``None`` for a result that
        does not depend on a mapped argument.
      axis_name: a name for the axis, for collectives (`gnomon.lax.psum`).
      axis_size: the size of the axis; needed only where nothing is mapped.
      spmd_axis_name: taken for compatibility: it names a mesh axis of sharded arrays, and there is
        one device.
    Returns:
      A function of the same arguments, with the mapped axis added.
    Raises:
      ValueError: ``in_axes`` or ``out_axes`` is no prefix of the arguments or results, an axis is
      out of
        range, or mapped axes differ in size.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> gn.vmap(gnp.dot)(gnp.ones((3, 2)), gnp.ones((3, 2)))
      Array([2., 2., 2.], dtype=float32)
    """
    check_callable(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, (int, tuple))):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got {in_axes!r}"
        )
    _check_axes("in_axes", in_axes)
    _check_axes("out_axes", out_axes)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                f"positional arguments passed to the function, but got {len(in_axes)} entries in "
                f"in_axes={in_axes} and {len(args)} positional arguments"
            )
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        axes = _leaf_axes((in_axes, 0), (args, kwargs), "in_axes")
        leaves = [
            leaf if a is None else as_operand(leaf) for leaf, a in zip(leaves, axes, strict=True)
        ]
        axes = [
            None if a is None else _axis_of(leaf, a, name_of(fun))
            for leaf, a in zip(leaves, axes, strict=True)
        ]
        size = _axis_size(leaves, axes, axis_size, name_of(fun), tree)
        places = {i: a for i, a in enumerate(axes) if a is not None}
        name = "" if axis_name is None else str(axis_name)

        def call(tracers: list[Any]) -> tuple[Any, Any]:
            full = list(leaves)
            for i, tracer in zip(places, tracers, strict=True):
                full[i] = tracer
            inner_args, inner_kwargs = tree_util.tree_unflatten(tree, full)
            if not name:
                return fun(*inner_args, **inner_kwargs), None
            with named_axis(name, size):
                out = fun(*inner_args, **inner_kwargs)
                return output_leaves(out, f"vmap of {name_of(fun)}")

        avals = []
        for i, place in places.items():
            shape = list(leaves[i].shape)
            del shape[place]
            avals.append(leaves[i].aval.update(shape=tuple(shape)))
        traced = trace_function(call, fun, "vmap", avals, staging=False)
        out_tree = traced.extra if name else traced.tree
        dummy = tree_util.tree_unflatten(out_tree, [0] * len(traced.avals))
        places_of_all = _leaf_axes(out_axes, dummy, "out_axes")
        # Arrays of float0 are no results of the program: they only get an axis.
        traces = [not isinstance(leaf, np.ndarray) for leaf in tree_util.tree_leaves(dummy)]
        wanted = [axis for axis, there in zip(places_of_all, traces, strict=True) if there]
        in_dims = (*places.values(), *(-1 for _ in traced.captures))
        if None in wanted:
            mask = [d >= 0 for d in in_dims]
            mapped_axis = MappedAxis(size, name)
            batched_out = mapped_results(traced.program, traced.body, mask, mapped_axis)
        out_dims = []
        result_avals = []
        for i, (aval, axis) in enumerate(zip(traced.avals, wanted, strict=True)):
            if axis is None:
                if batched_out[i]:
                    raise ValueError(
                        f"vmap of {name_of(fun)} has a mapped output but out_axes is None: result "
                        f"{i} depends on a mapped argument, so give it an axis in out_axes"
                    )
                out_dims.append(-1)
                result_avals.append(aval)
                continue
            rank = aval.ndim + 1
            if not -rank <= axis < rank:
                raise ValueError(
                    f"vmap: out_axes {axis} is out of range for a result of rank {rank} with the "
                    "mapped axis"
                )
            out_dims.append(axis % rank)
            shape = list(aval.shape)
            shape.insert(axis % rank, size)
            result_avals.append(aval.update(shape=tuple(shape)))
        results = apply(
            functions.vmap,
            traced,
            [*(leaves[i] for i in places), *traced.captures],
            in_axes=in_dims,
            out_axes=tuple(out_dims),
            axis_size=size,
            axis_name=name,
        )
        out = tree_util.tree_unflatten(out_tree, with_avals(results, result_avals))
        if all(traces):
            return out
        leaves, tree = tree_util.tree_flatten(out)
        for i, (axis, there) in enumerate(zip(places_of_all, traces, strict=True)):
            if not there and axis is not None:
                leaves[i] = np.stack([leaves[i]] * size, axis)
        return tree_util.tree_unflatten(tree, leaves)

    return described(mapped, fun, "The function {} mapped over an axis of its arguments.")


def _check_axes(what: str, axes: Any) -> None:
    for leaf in tree_util.tree_leaves(axes):
        if not isinstance(leaf, int) or isinstance(leaf, bool):
            raise TypeError(
                f"vmap {what} must be ints, None, or (nested) containers of those, got {axes!r}"
            )


def _leaf_axes(axes: Any, tree: Any, what: str) -> list[int | None]:
    """The axis of each leaf, from a prefix tree of axes."""
    try:
        found: list[int | None] = broadcast_prefix(axes, tree, is_leaf=lambda x: x is None)
        return found
    except ValueError as error:
        given = axes[0] if what == "in_axes" else axes
        raise ValueError(
            f"vmap {what} specification must be a tree prefix of the corresponding value, got "
            f"specification {given!r}: {error}"
        ) from None


def _axis_of(leaf: Any, axis: int, name: str) -> int:
    rank = leaf.ndim
    if not -rank <= axis < rank:
        raise ValueError(
            f"vmap of {name} was requested to map its argument along axis {axis}, which implies "
            f"that its rank should be at least {axis + 1 if axis >= 0 else -axis}, but is only "
            f"{rank} (its shape is {leaf.shape})"
        )
    return axis % rank


def _axis_size(
    leaves: list[Any], axes: list[int | None], given: int | None, name: str, tree: Any
) -> int:
    sizes = {leaf.shape[a] for leaf, a in zip(leaves, axes, strict=True) if a is not None}
    if given is not None:
        sizes.add(given)
    if not sizes:
        raise ValueError(
            f"vmap of {name} must have at least one non-None value in in_axes, or axis_size"
        )
    if len(sizes) > 1:
        paths = tree_util.tree_flatten_with_path(tree_util.tree_unflatten(tree, leaves))[0]
        lines = [
            f"  {_argument_name(path)} has shape {leaf.shape}, mapped axis {a} of size "
            f"{leaf.shape[a]}"
            for (path, leaf), a in zip(paths, axes, strict=True)
            if a is not None
        ]
        extra = [f"  axis_size is {given}"] if given is not None else []
        raise ValueError(
            f"vmap of {name} got inconsistent sizes for array axes to be mapped:\n"
            + "\n".join(lines + extra)
        )
    return int(next(iter(sizes)))


def _argument_name(path: tuple[Any, ...]) -> str:
    kind, *rest = path
    if kind.idx == 1:
        return f"keyword argument {tree_util.keystr(tuple(rest))}"
    return f"argument {rest[0].idx}{tree_util.keystr(tuple(rest[1:]))}"
