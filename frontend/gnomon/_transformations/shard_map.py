"""`shard_map`: a function that runs once per device of a mesh, on the devices' shards."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar, overload

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._config.current import config
from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec, axes_of
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import check_callable, described
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.map_shards import map_shards
from gnomon._transformations.shard_map_checks import check_arguments, check_specs
from gnomon._trees.prefixes import broadcast_prefix

__all__ = ["Infer", "shard_map", "smap"]

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
            if in_specs is not Infer:
                check_specs("in_specs", in_specs, manual)
            check_specs("out_specs", out_specs, manual)
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

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> mesh = gn.make_mesh((1,), ("x",))
      >>> with gn.set_mesh(mesh):
      ...     print(gn.smap(lambda x: 2 * x, in_axes=0, out_axes=0, axis_name="x")(gnp.arange(2)))
      [0 2]
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
    check_arguments(fun, mesh, tree, dynamic, operands, [specs[i] for i in dynamic])

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
