"""`shard_map`: a function that runs once per device of a mesh, on the devices' shards."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, TypeVar, overload

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, explicit_sharding
from gnomon._config.current import config
from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec, axes_of
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import (
    Traced,
    apply,
    check_callable,
    described,
    name_of,
    trace_function,
    with_avals,
)
from gnomon._tracing.stack import innermost_trace, named_axes
from gnomon._tracing.trace import is_tracer
from gnomon._tracing.unreduced import summed
from gnomon._transformations.mapped_shardings import device_mesh, give_shardings, place_operands
from gnomon._transformations.member_values import MemberValues
from gnomon._trees.prefixes import broadcast_prefix
from gnomon.dialects.shard_map import Spec
from gnomon.dialects.shard_map import shard_map as shard_map_op

__all__ = ["Infer", "map_shards", "shard_map", "smap"]

F = TypeVar("F", bound=Callable[..., Any])


class InferFromArguments:
    """The value of ``in_specs`` that takes the specs from the shardings of the arguments."""

    def __repr__(self) -> str:
        return "gnomon.sharding.Infer"


Infer = InferFromArguments()


@overload
def shard_map(
    f: F,
    /,
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Mesh | AbstractMesh | None = ...,
    axis_names: AbstractSet[Any] = ...,
    check_vma: bool = ...,
) -> F: ...


@overload
def shard_map(
    f: None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Mesh | AbstractMesh | None = ...,
    axis_names: AbstractSet[Any] = ...,
    check_vma: bool = ...,
) -> Callable[[F], F]: ...


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: AbstractSet[Any] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """A function that runs ``f`` once per device of a mesh, each on its shards of the arguments.

    Inside of ``f``, arrays are the shards of one device, and collectives such as `gnomon.lax.psum`
    take the names of the mesh's axes.

    Args:
      f: a function of positional arguments. Without it, a decorator is returned.
      out_specs: a pytree of `P`, a prefix of the result. An axis in a spec concatenates the
        devices' results along that dimension; along axes that the spec leaves out, the results
        must be equal.
      in_specs: a pytree of `P`, a prefix of the tuple of arguments. An axis in a spec splits that
        dimension; along axes that the spec leaves out, all devices get the same values. None in
        place of a spec passes an argument to ``f`` unchanged. By default, which requires explicit
        axes, the specs are those of the arguments' shardings.
      mesh: by default the mesh of the context (`set_mesh`).
      axis_names: the axes of the mesh to map over; by default all.
      check_vma: whether types track over which axes a value may differ between devices
        (`gnomon.lax.pcast`). If they do, ``out_specs`` are checked, and derivatives that are taken
        inside of ``f`` sum the cotangents of a value that all devices share.
    Returns:
      A function of whole arrays.
    Raises:
      ValueError: there is no mesh, a spec does not fit its array, a size is not divisible, or a
        result may differ along an axis that its spec leaves out.
      TypeError: a spec is not a `P`.

    Example:
      >>> import gnomon as gn
      >>> mesh = gn.make_mesh((1,), ("i",))
      >>> total = gn.shard_map(
      ...     lambda x: gn.lax.psum(x.sum(), "i"), mesh=mesh, in_specs=gn.P("i"), out_specs=gn.P()
      ... )
      >>> float(total(gn.numpy.arange(4.0)))
      6.0
    """

    def transform(fun: Callable[..., Any]) -> Callable[..., Any]:
        check_callable(fun, "shard_map")

        def mapped(*args: Any) -> Any:
            grid, manual = _mesh_and_axes(mesh, axis_names)
            _check_specs("in_specs", in_specs, manual)
            _check_specs("out_specs", out_specs, manual)
            return _call(fun, grid, manual, in_specs, out_specs, check_vma, args)

        return described(mapped, fun, "The function {} run by each device of a mesh.")

    return transform if f is None else transform(f)


def smap(
    f: Callable[..., Any] | None = None,
    /,
    *,
    in_axes: Any = Infer,
    out_axes: Any,
    axis_name: Hashable,
) -> Any:
    """`shard_map` over one axis of the context's mesh, with dimensions instead of specs.

    Args:
      f: a function of positional arguments. Without it, a decorator is returned.
      in_axes: for each argument the dimension to split, or None; a prefix of the arguments.
      out_axes: for each result the dimension to concatenate, or None; a prefix of the result.
      axis_name: the name of the axis.
    """
    if isinstance(axis_name, (list, tuple)):
        raise TypeError(f"smap axis_name must be the name of one axis, got {axis_name}")
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if axes is not Infer and not all(
            isinstance(axis, int) for axis in tree_util.tree_leaves(axes)
        ):
            raise TypeError(f"smap {what} must be ints, None, or containers of those, got {axes}")

    def spec(axis: int | None) -> PartitionSpec:
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)

    def specs(axes: Any) -> Any:
        return tree_util.tree_map(spec, axes, is_leaf=lambda axis: axis is None)

    return shard_map(
        f,
        in_specs=Infer if in_axes is Infer else specs(in_axes),
        out_specs=specs(out_axes),
        axis_names={axis_name},
    )


# ------------------------------------------------------------------------------- meshes and specs


def _mesh_and_axes(mesh: Any, axis_names: Any) -> tuple[Mesh | AbstractMesh, frozenset[Any]]:
    """The mesh, of the call or of the context, and the axes to map over."""
    context = config.mesh_context[1]
    if mesh is None:
        if context is None or context.empty:
            raise ValueError(
                "shard_map needs a mesh: there is none in the context; pass mesh=, or set one "
                "with gnomon.set_mesh(mesh)"
            )
        mesh = config.mesh_context[0] or context
        if mesh.abstract_mesh != context:
            mesh = context
    elif not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(
            "shard_map takes a gnomon.sharding.Mesh or AbstractMesh, got "
            f"{mesh!r} of type {type(mesh).__name__}"
        )
    elif context is not None and not context.empty and mesh.abstract_mesh != context:
        raise ValueError(
            f"shard_map was given the mesh {mesh}, which is not the mesh of the context, {context}"
        )
    if mesh.empty:
        raise ValueError(f"shard_map needs a mesh with devices, got {mesh}")
    if not isinstance(axis_names, (set, frozenset)):
        raise TypeError(f"shard_map axis_names must be a set, got {axis_names!r}")
    names = frozenset(axis_names) or frozenset(mesh.axis_names)
    if not names <= frozenset(mesh.axis_names):
        raise ValueError(
            f"shard_map axis_names={set(names)} must be axes of the mesh, which are "
            f"{mesh.axis_names}"
        )
    return mesh, names


def _check_specs(what: str, specs: Any, manual: frozenset[Any]) -> None:
    if specs is Infer:
        return
    if what == "in_specs" and specs is None:
        return  # all arguments are passed to the function unchanged
    paths = tree_util.tree_flatten_with_path(specs)[0]
    wrong = [
        f"  {what}{tree_util.keystr(path)} is {spec!r} of type {type(spec).__name__}"
        for path, spec in paths
        if not isinstance(spec, PartitionSpec)
    ]
    if wrong:
        raise TypeError(
            f"shard_map {what} must be a pytree of gnomon.sharding.PartitionSpec, but\n"
            + "\n".join(wrong)
        )
    unknown = [
        f"  {what}{tree_util.keystr(path)} names {name!r}"
        for path, spec in paths
        for entry in (*spec.partitions, tuple(spec.unreduced), tuple(spec.reduced))
        for name in axes_of(entry)
        if name not in manual
    ]
    if unknown:
        raise ValueError(
            f"shard_map {what} must name axes that are mapped over, {sorted(map(str, manual))}, "
            "but\n" + "\n".join(unknown)
        )


def _check_sums(
    what: str, specs: Sequence[PartitionSpec], mesh: Mesh | AbstractMesh, *, check_vma: bool
) -> None:
    """Raise ``ValueError`` if specs with unreduced or reduced axes are not possible."""
    kinds = set(mesh.axis_types)
    for spec in specs:
        if not (spec.unreduced or spec.reduced):
            continue
        if not check_vma:
            raise ValueError(
                f"shard_map {what}: {spec} has unreduced or reduced axes, which are tracked with "
                "check_vma=True only"
            )
        if not kinds <= {AxisType.Explicit, AxisType.Manual}:
            raise ValueError(
                f"shard_map {what}: {spec} has unreduced or reduced axes, so all axes of the mesh "
                f"must be of type Explicit, got {mesh}"
            )


def _spec_of(spec: PartitionSpec) -> Spec:
    """A spec as a parameter of the op."""
    return tuple(tuple(str(name) for name in axes_of(entry)) for entry in spec.partitions)


def _inferred(leaf: Any, manual: frozenset[Any]) -> PartitionSpec:
    """The spec of an argument's sharding, restricted to the manual axes."""
    sharding: Any = None
    if isinstance(leaf, Array):
        sharding = leaf.aval.explicit if is_tracer(leaf) else leaf.sharding
    if not isinstance(sharding, NamedSharding):
        return PartitionSpec()
    return PartitionSpec(
        *(
            tuple(name for name in axes_of(entry) if name in manual)
            for entry in sharding.spec.partitions
        ),
        unreduced=sharding.spec.unreduced & manual,
        reduced=sharding.spec.reduced & manual,
    )


def _leaf_specs(what: str, specs: Any, tree: Any) -> list[Any]:
    try:
        return broadcast_prefix(specs, tree, is_leaf=lambda x: x is None)
    except ValueError as error:
        raise ValueError(
            f"shard_map {what} must be a tree prefix of the corresponding value, got {specs}: "
            f"{error}"
        ) from None


def _call(
    fun: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    manual: frozenset[Any],
    in_specs: Any,
    out_specs: Any,
    check_vma: bool,
    args: tuple[Any, ...],
) -> Any:
    leaves, tree = tree_util.tree_flatten(args)
    if in_specs is Infer:
        if not all(mesh.axis_types[mesh.axis_names.index(n)] is AxisType.Explicit for n in manual):
            raise TypeError(
                "shard_map in_specs must be given, unless all axes of the mesh that are mapped "
                f"over are of type Explicit; the mesh is {mesh}"
            )
        specs: list[Any] = [_inferred(leaf, manual) for leaf in leaves]
    else:
        specs = _leaf_specs("in_specs", in_specs, args)
    dynamic = [i for i, spec in enumerate(specs) if spec is not None]
    operands = [as_operand(leaves[i]) for i in dynamic]
    _check_arguments(fun, mesh, tree, dynamic, operands, [specs[i] for i in dynamic])

    def run(tracers: Sequence[Any]) -> Any:
        full = list(leaves)
        for i, tracer in zip(dynamic, tracers, strict=True):
            full[i] = tracer
        return fun(*tree_util.tree_unflatten(tree, full))

    def specs_of_results(out: Any) -> list[PartitionSpec]:
        return _leaf_specs("out_specs", out_specs, out)

    return map_shards(
        run,
        fun,
        "shard_map",
        operands,
        [specs[i] for i in dynamic],
        specs_of_results,
        mesh,
        manual,
        check_vma=check_vma,
    )


# ----------------------------------------------------------------------------------------- errors


def _parameter(fun: Callable[..., Any], position: int) -> str:
    """The parameter of a function that a positional argument is bound to, for messages."""
    try:
        names = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        return ""
    return f", the argument {names[position]!r} of {name_of(fun)}," if position < len(names) else ""


def _check_arguments(
    fun: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    tree: Any,
    dynamic: Sequence[int],
    operands: Sequence[Array],
    specs: Sequence[PartitionSpec],
) -> None:
    paths = tree_util.tree_flatten_with_path(
        tree_util.tree_unflatten(tree, list(range(tree.num_leaves)))
    )[0]
    wrong = []
    for i, operand, spec in zip(dynamic, operands, specs, strict=True):
        path = paths[i][0]
        where = f"  args{tree_util.keystr(path)}{_parameter(fun, path[0].idx)} is {operand.aval}"
        if len(spec) > operand.ndim:
            wrong.append(
                f"{where}, of rank {operand.ndim}, and its spec {spec} has {len(spec)} entries"
                + ("; give P() for a scalar" if operand.ndim == 0 else "")
            )
            continue
        if (operand.aval.unreduced, operand.aval.reduced) != (spec.unreduced, spec.reduced):
            wrong.append(
                f"{where}, and its spec is {spec}; both must have the same unreduced and reduced "
                "axes. Change the argument with gnomon.sharding.reshard"
            )
        for d, entry in enumerate(spec.partitions):
            parts = math.prod(mesh.shape[name] for name in axes_of(entry))
            if operand.shape[d] % parts:
                wrong.append(
                    f"{where}, and its spec {spec} splits dimension {d}, of size "
                    f"{operand.shape[d]}, into {parts} parts, which does not evenly divide it"
                )
    if wrong:
        raise ValueError(
            f"shard_map of {name_of(fun)} over the mesh {dict(mesh.shape)}: in_specs do not fit "
            "the arguments:\n" + "\n".join(wrong)
        )


def _check_results(
    what: str,
    fun: Callable[..., Any],
    traced: Traced,
    specs: Sequence[PartitionSpec],
    manual: Sequence[str],
) -> None:
    example = tree_util.tree_unflatten(traced.tree, list(range(len(traced.avals))))
    paths = tree_util.tree_flatten_with_path(example)[0]
    wrong = []
    for (path, _), aval, spec in zip(paths, traced.avals, specs, strict=True):
        where = f"  the result{tree_util.keystr(path)} is {aval}"
        if len(spec) > aval.ndim:
            wrong.append(
                f"{where}, of rank {aval.ndim}, and its spec {spec} has {len(spec)} entries"
                + (
                    "; a scalar that differs between devices needs a dimension, to be concatenated "
                    "along"
                    if aval.ndim == 0
                    else ""
                )
            )
            continue
        mentioned = {name for names in _spec_of(spec) for name in names}
        varying = [name for name in manual if name in aval.vma and name not in mentioned]
        if (aval.unreduced, aval.reduced) != (spec.unreduced, spec.reduced):
            wrong.append(f"{where}, and its spec {spec} has other unreduced or reduced axes")
        elif varying:
            wrong.append(
                f"{where}, which may vary over {varying}, and its spec {spec} says that it is the "
                "same along them"
            )
    if wrong:
        raise ValueError(
            f"{what} of {name_of(fun)}: out_specs do not fit the results:\n"
            + "\n".join(wrong)
            + "\nMention each axis along which a result differs in its spec, or reduce the result "
            "over it (gnomon.lax.psum). If a result is the same though its type does not say so, "
            "give check_vma=False."
        )


# ---------------------------------------------------------------------------------------- mapping


def map_shards(
    call: Callable[[Sequence[Any]], Any],
    fun: Callable[..., Any],
    what: str,
    operands: Sequence[Array],
    in_specs: Sequence[PartitionSpec],
    out_specs: Callable[[Any], Sequence[PartitionSpec]],
    mesh: Mesh | AbstractMesh,
    axes: AbstractSet[Any],
    *,
    check_vma: bool,
) -> Any:
    """Trace a function on shards, and apply it to whole arrays.

    Args:
      call: takes the tracers of the shards; returns the result, a pytree.
      fun: the user's function, for its name.
      what: the transformation, for messages.
      operands: the whole arrays.
      in_specs: the specs of the operands, which have been checked.
      out_specs: takes the result of ``call``; returns the specs of its leaves.
      mesh: the mesh.
      axes: the axes to map over; those that are manual already are not mapped again.
      check_vma: see `shard_map`.
    """
    types = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    manual = [n for n in mesh.axis_names if n in axes and types[n] is not AxisType.Manual]
    placed = device_mesh(mesh, operands)
    if placed is not None:
        operands = place_operands(operands, in_specs, placed, manual, what)
    sizes = {str(name): mesh.shape[name] for name in manual}
    _check_sums("in_specs", in_specs, mesh, check_vma=check_vma)

    members = MemberValues.of(
        operands, tuple(map(_spec_of, in_specs)), mesh, tuple(sizes), checked=check_vma
    )

    def traced_call(tracers: list[Any]) -> tuple[Any, Any]:
        trace = innermost_trace()
        if members is not None and trace is not None:
            trace.members = members
        with _manual_axes(mesh, manual), named_axes(sizes, checked=check_vma):
            out = call(tracers)
            specs = list(out_specs(out))
            _check_sums("out_specs", specs, mesh, check_vma=check_vma)
            return _summed(out, specs), specs

    avals = [
        _local_aval(operand.aval, spec, mesh, manual, check_vma=check_vma)
        for operand, spec in zip(operands, in_specs, strict=True)
    ]
    traced = trace_function(traced_call, fun, what, avals, staging=False)
    specs: list[PartitionSpec] = traced.extra
    _check_results(what, fun, traced, specs, list(sizes))
    results = apply(
        shard_map_op,
        traced,
        [*operands, *traced.captures],
        mesh_axes=tuple(str(name) for name in mesh.axis_names),
        mesh_sizes=tuple(mesh.axis_sizes),
        manual_axes=tuple(sizes),
        in_specs=(*map(_spec_of, in_specs), *(() for _ in traced.captures)),
        out_specs=tuple(map(_spec_of, specs)),
        check_vma=check_vma,
    )
    whole = [
        _whole_aval(aval, spec, mesh, sizes) for aval, spec in zip(traced.avals, specs, strict=True)
    ]
    results = with_avals(results, whole)
    if placed is not None:
        whole_specs = [
            _whole_spec(aval, spec, mesh, sizes)
            for aval, spec in zip(traced.avals, specs, strict=True)
        ]
        results = give_shardings(results, whole_specs, placed, manual)
    return tree_util.tree_unflatten(traced.tree, results)


def _summed(out: Any, specs: Sequence[PartitionSpec]) -> Any:
    """The results of a function on shards; varying ones become unreduced as their specs say."""
    if not any(spec.unreduced for spec in specs):
        return out
    leaves, tree = tree_util.tree_flatten(out)
    for i, spec in enumerate(specs):
        if is_tracer(leaves[i]):
            names = tuple(sorted(spec.unreduced & leaves[i].aval.vma))
            leaves[i] = summed(leaves[i]._trace, leaves[i], names) if names else leaves[i]
    return tree_util.tree_unflatten(tree, leaves)


def _inner_mesh(mesh: Mesh | AbstractMesh, manual: Sequence[Any]) -> AbstractMesh:
    """The abstract mesh with some axes manual."""
    return mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))


@contextmanager
def _manual_axes(mesh: Mesh | AbstractMesh, manual: Sequence[Any]) -> Iterator[None]:
    """Set the context's mesh to this one with some axes manual."""
    before = config.mesh_context
    inner = _inner_mesh(mesh, manual)
    concrete = mesh if isinstance(mesh, Mesh) else before[0]
    config.set_mesh_context((concrete, inner, before[2]))
    try:
        yield
    finally:
        config.set_mesh_context(before)


def _parts(spec: PartitionSpec, dimension: int, mesh: Mesh | AbstractMesh) -> int:
    if dimension >= len(spec):
        return 1
    return math.prod(mesh.shape[name] for name in axes_of(spec[dimension]))


def _local_aval(
    aval: ShapedArray,
    spec: PartitionSpec,
    mesh: Mesh | AbstractMesh,
    manual: Sequence[Any],
    *,
    check_vma: bool,
) -> ShapedArray:
    """The type of a shard."""
    shape = tuple(n // _parts(spec, d, mesh) for d, n in enumerate(aval.shape))
    varying = {name for names in _spec_of(spec) for name in names} if check_vma else ()
    local = aval.replicated().update(shape=shape, vma=aval.vma.union(varying))
    others = _other_explicit(aval, mesh, manual)
    if not (spec.unreduced or spec.reduced or any(others)):
        return local
    typed = spec.update(partitions=others)
    return local.update(sharding=NamedSharding(_inner_mesh(mesh, manual), typed))


def _other_explicit(
    aval: ShapedArray, mesh: Mesh | AbstractMesh, manual: Iterable[Any]
) -> list[tuple[Any, ...]]:
    """For each dimension, the explicit axes in a type that are not mapped over."""
    others = set(mesh.explicit_axes).difference(manual)
    return [tuple(axis for axis in axes if axis in others) for axes in aval.split]


def _whole_spec(
    aval: ShapedArray, spec: PartitionSpec, mesh: Mesh | AbstractMesh, manual: Mapping[str, int]
) -> PartitionSpec:
    """The spec of a result that is joined from shards, with the axes that are not mapped over."""
    others = _other_explicit(aval, mesh, manual)
    if not any(others):
        return spec
    return spec.update(
        partitions=[
            (*axes_of(entry), *axes)
            for entry, axes in zip_longest(spec.partitions, others, fillvalue=())
        ]
    )


def _whole_aval(
    aval: ShapedArray, spec: PartitionSpec, mesh: Mesh | AbstractMesh, manual: Mapping[str, int]
) -> ShapedArray:
    """The type of a result that is joined from shards."""
    shape = tuple(n * _parts(spec, d, mesh) for d, n in enumerate(aval.shape))
    whole_spec = _whole_spec(aval, spec, mesh, manual)
    sharding = explicit_sharding(NamedSharding(mesh, whole_spec), len(shape))
    whole = aval.replicated().update(shape=shape, sharding=sharding)
    return whole.update(vma=aval.vma.difference(manual))
