"""Vectorization: `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gnomon import tree_util
from gnomon._arrays.aval import ShapedArray
from gnomon._diagnostics.errors import ShardingTypeError
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import (
    Traced,
    apply,
    check_callable,
    described,
    name_of,
    output_leaves,
    positional_names,
    trace_function,
    with_avals,
)
from gnomon._tracing.stack import named_axis
from gnomon._trees.prefixes import broadcast_prefix
from gnomon.dialects import functions
from gnomon.dialects.contract import MappedAxis
from gnomon.dialects.symbolic.dimension import as_size
from gnomon.passes.expand import mapped_results

P = ParamSpec("P")
R = TypeVar("R")


def vmap(
    fun: Callable[P, R],
    in_axes: int | Sequence[Any] | None = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable | None = None,
) -> Callable[P, R]:
    """A function that maps ``fun`` over an axis of its arguments, without a loop.

    Args:
      fun: a function of arrays and pytrees of them.
      in_axes: for each positional argument the axis to map: an int, ``None`` (not mapped), or a
        pytree of those that is a prefix of the argument. A single int or ``None`` applies to all
        arguments. Arguments given by keyword are mapped over their leading axis.
      out_axes: the place of the mapped axis in each result, in the same form; ``None`` for a
        result that does not depend on a mapped argument.
      axis_name: a name for the axis, for collectives (`gnomon.lax.psum`).
      axis_size: the size of the axis; needed only if no argument is mapped.
      spmd_axis_name: the axes of the mesh over which the types of the arguments split the mapped
        axis. It is only checked, and ignored if the types do not split the mapped axis.
    Returns:
      A function of the same arguments, with the mapped axis added.
    Raises:
      ValueError: ``in_axes`` or ``out_axes`` is not a prefix of the arguments or results, an axis
        is out of range, or mapped axes differ in size.

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
    name = "" if axis_name is None else str(axis_name)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        arguments = _Arguments(fun, in_axes, axis_size, args, kwargs)
        sharding = arguments.mapped_sharding(spmd_axis_name)
        traced = _trace(fun, arguments, name)
        outputs = _Outputs(fun, traced.extra if name else traced.tree, out_axes, traced)
        axis = MappedAxis(arguments.size, name)
        in_dimensions = arguments.dimensions(traced)
        results = apply(
            functions.vmap,
            traced,
            [*arguments.mapped_leaves(), *traced.captures],
            in_axes=in_dimensions,
            out_axes=outputs.dimensions(in_dimensions, axis),
            axis_size=axis.size,
            axis_name=name,
        )
        return outputs.assembled(results, axis.size, sharding)

    return described(mapped, fun, "The function {} mapped over an axis of its arguments.")


class _Arguments:
    """The leaves of a call's arguments, each with its mapped axis.

    Attributes:
      leaves: all leaves; those that are mapped are arrays.
      places: the mapped axis of each mapped leaf, by the leaf's number.
      size: the size of the mapped axes.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        in_axes: Any,
        axis_size: int | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                f"positional arguments passed to the function, but got {len(in_axes)} entries in "
                f"in_axes={in_axes} and {len(args)} positional arguments"
            )
        given, self._tree = tree_util.tree_flatten((args, kwargs))
        wanted = _leaf_axes((in_axes, 0), (args, kwargs), "in_axes")
        self.leaves = [
            leaf if axis is None else as_operand(leaf)
            for leaf, axis in zip(given, wanted, strict=True)
        ]
        axes = [
            None if axis is None else _axis_of(leaf, axis, name_of(fun))
            for leaf, axis in zip(self.leaves, wanted, strict=True)
        ]
        self.size = _axis_size(self.leaves, axes, axis_size, fun, self._tree)
        self.places = {i: axis for i, axis in enumerate(axes) if axis is not None}

    def mapped_leaves(self) -> list[Any]:
        return [self.leaves[i] for i in self.places]

    def element_avals(self) -> list[ShapedArray]:
        """The types of the mapped leaves without their mapped axes."""
        avals = []
        for i, place in self.places.items():
            aval = self.leaves[i].aval
            shape = (*aval.shape[:place], *aval.shape[place + 1 :])
            sharding = aval.explicit
            if sharding is not None:
                split = aval.split
                partitions = (*split[:place], *split[place + 1 :])
                sharding = sharding.update(spec=sharding.spec.update(partitions=partitions))
            avals.append(aval.replicated().update(shape=shape, sharding=sharding))
        return avals

    def mapped_sharding(self, spmd_axis_name: Any) -> NamedSharding | None:
        """The sharding of the mapped axis in the types of the leaves, as that of a vector.

        Raises:
          ValueError: two leaves split the axis differently, or not as ``spmd_axis_name`` says.
        """
        places = self.places.items()
        avals = [(self.leaves[i].aval, place) for i, place in places]
        found = {aval.split[place] for aval, place in avals}
        if len(found) > 1:
            raise ValueError(
                "vmap: the mapped axes of all arguments must be split over the same axes of the "
                f"mesh, got {', '.join(str(aval) for aval, _ in avals)}"
            )
        typed = next((aval.explicit for aval, _ in avals if aval.explicit is not None), None)
        if typed is None or not (axes := found.pop()):
            return typed and typed.update(spec=PartitionSpec(None))
        given = (spmd_axis_name,) if isinstance(spmd_axis_name, str) else spmd_axis_name
        if given is not None and tuple(given) != axes:
            raise ValueError(
                f"vmap: the mapped axis is split over {axes}, which is not spmd_axis_name="
                f"{spmd_axis_name!r}"
            )
        return typed.update(spec=PartitionSpec(axes))

    def with_elements(self, tracers: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with tracers in the place of the mapped leaves."""
        full = list(self.leaves)
        for i, tracer in zip(self.places, tracers, strict=True):
            full[i] = tracer
        args, kwargs = tree_util.tree_unflatten(self._tree, full)
        return args, kwargs

    def dimensions(self, traced: Traced) -> tuple[int, ...]:
        """The mapped dimension of each operand; -1 for the captures, which follow the leaves."""
        return (*self.places.values(), *(-1 for _ in traced.captures))


def _trace(fun: Callable[..., Any], arguments: _Arguments, axis_name: str) -> Traced:
    """Trace the function on elements; with a named axis, `Traced.extra` is the result's tree."""

    def call(tracers: list[Any]) -> tuple[Any, Any]:
        args, kwargs = arguments.with_elements(tracers)
        if not axis_name:
            return fun(*args, **kwargs), None
        with named_axis(axis_name, arguments.size):
            return output_leaves(fun(*args, **kwargs), f"vmap of {name_of(fun)}")

    return trace_function(call, fun, "vmap", arguments.element_avals(), staging=False)


class _Outputs:
    """The results of a mapped function, each with the axis that ``out_axes`` gives it.

    Arrays of float0 are not results of the program; NumPy repeats them along the mapped axis.
    """

    def __init__(self, fun: Callable[..., Any], tree: Any, out_axes: Any, traced: Traced) -> None:
        self._fun, self._tree, self._traced = fun, tree, traced
        example = tree_util.tree_unflatten(tree, [0] * len(traced.avals))
        self._axes = _leaf_axes(out_axes, example, "out_axes")
        self._is_result = [
            not isinstance(leaf, np.ndarray) for leaf in tree_util.tree_leaves(example)
        ]
        self._result_axes = [
            axis for axis, is_result in zip(self._axes, self._is_result, strict=True) if is_result
        ]

    def dimensions(self, in_dimensions: tuple[int, ...], axis: MappedAxis) -> tuple[int, ...]:
        """The mapped dimension of each result, -1 where ``out_axes`` is None.

        Raises:
          ValueError: an axis is out of range, or a result without one depends on a mapped argument.
        """
        wanted = self._result_axes
        if None in wanted:
            mask = [d >= 0 for d in in_dimensions]
            batched = mapped_results(self._traced.program, self._traced.body, mask, axis)
        dimensions = []
        for i, (aval, place) in enumerate(zip(self._traced.avals, wanted, strict=True)):
            if place is None:
                if batched[i]:
                    raise ValueError(
                        f"vmap of {name_of(self._fun)} has a mapped output but out_axes is None: "
                        f"result {i} depends on a mapped argument, so give it an axis in out_axes"
                    )
                dimensions.append(-1)
                continue
            rank = aval.ndim + 1
            if not -rank <= place < rank:
                raise ValueError(
                    f"vmap: out_axes {place} is out of range for a result of rank {rank} with the "
                    "mapped axis"
                )
            dimensions.append(place % rank)
        return tuple(dimensions)

    def assembled(self, results: list[Any], size: int, mapped: NamedSharding | None) -> Any:
        """The results in the structure of the function's result, with their traced types."""
        avals = []
        for aval, place in zip(self._traced.avals, self._result_axes, strict=True):
            if place is not None:
                aval = _with_mapped_axis(aval, place % (aval.ndim + 1), size, mapped)
            avals.append(aval)
        out = tree_util.tree_unflatten(self._tree, with_avals(results, avals))
        if all(self._is_result):
            return out
        leaves, tree = tree_util.tree_flatten(out)
        for i, (axis, is_result) in enumerate(zip(self._axes, self._is_result, strict=True)):
            if not is_result and axis is not None:
                leaves[i] = np.stack([leaves[i]] * size, axis)
        return tree_util.tree_unflatten(tree, leaves)


def _with_mapped_axis(
    aval: ShapedArray, place: int, size: int, mapped: NamedSharding | None
) -> ShapedArray:
    """The type of a result with the mapped axis."""
    shape = (*aval.shape[:place], size, *aval.shape[place:])
    sharding = aval.explicit or mapped
    if sharding is not None:
        (axes,) = mapped._axes if mapped is not None else ((),)
        split = (*aval.split[:place], axes, *aval.split[place:])
        if any(axis in of_dimension for of_dimension in aval.split for axis in axes):
            raise ShardingTypeError(
                f"vmap: a result {aval} of the mapped function is split over an axis of the mesh "
                f"over which the mapped axis is split, {axes}"
            )
        sharding = sharding.update(spec=sharding.spec.update(partitions=split))
    return aval.replicated().update(shape=shape, sharding=sharding)


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
    leaves: list[Any],
    axes: list[int | None],
    given: int | None,
    fun: Callable[..., Any],
    tree: Any,
) -> int:
    sizes = {leaf.shape[a] for leaf, a in zip(leaves, axes, strict=True) if a is not None}
    if given is not None:
        sizes.add(given)
    if not sizes:
        raise ValueError(
            f"vmap of {name_of(fun)} must have at least one non-None value in in_axes, or axis_size"
        )
    if len(sizes) > 1:
        paths = tree_util.tree_flatten_with_path(tree_util.tree_unflatten(tree, leaves))[0]
        lines = [
            f"  {_argument_name(path, fun)} has shape {leaf.shape}, mapped axis {a} of size "
            f"{leaf.shape[a]}"
            for (path, leaf), a in zip(paths, axes, strict=True)
            if a is not None
        ]
        extra = [f"  axis_size is {given}"] if given is not None else []
        raise ValueError(
            f"vmap of {name_of(fun)} got inconsistent sizes for array axes to be mapped:\n"
            + "\n".join(lines + extra)
        )
    size: int = as_size(next(iter(sizes)))
    return size


def _argument_name(path: tuple[Any, ...], fun: Callable[..., Any]) -> str:
    kind, argument, *rest = path
    below = tree_util.keystr(tuple(rest))
    if kind.idx == 1:
        return f"the argument {argument.key}{below}"
    known = positional_names(fun)
    if argument.idx < len(known):
        return f"the argument {known[argument.idx]}{below}"
    return f"argument {argument.idx}{below}"
