"""Explicit axes of meshes: `reshard`, and functions in which axes are automatic or explicit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from gnomon import tree_util
from gnomon._api.devices import device_put
from gnomon._api.meshes import use_abstract_mesh
from gnomon._arrays.array import Array
from gnomon._arrays.extended import ExtendedArray
from gnomon._config.current import config
from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.mesh import AbstractMesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._sharding.sharding import Sharding
from gnomon._tracing.bind import as_operand
from gnomon._tracing.constraints import constrained
from gnomon._tracing.explicit import automatic, concrete_mesh, full_spec
from gnomon._tracing.forbidden_collectives import check_move, check_types
from gnomon._tracing.function import check_callable, described
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import is_tracer
from gnomon._trees.prefixes import broadcast_prefix

__all__ = [
    "auto_axes",
    "explicit_axes",
    "is_of_no_mesh",
    "placed_sharding",
    "reshard",
    "takes_out_sharding",
    "with_out_sharding",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def reshard(xs: Any, out_shardings: Any) -> Any:
    """Arrays with other shardings; explicit axes of the mesh change in the types, too.

    Args:
      xs: a pytree of arrays.
      out_shardings: a `gnomon.NamedSharding`, a `gnomon.P` of the mesh that is set, or a pytree of
        those that is a prefix of ``xs``.
    Returns:
      The pytree with the new shardings.
    Raises:
      TypeError: ``out_shardings`` holds neither a spec nor a `gnomon.NamedSharding`.
      ValueError: a spec is given and no mesh is set; a spec names an axis that the mesh does not
        have, or has more entries than an array has dimensions; or the size of a dimension is not
        divisible by the number of its parts.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> with gn.set_mesh(gn.make_mesh((1,), ("data",))):
      ...     print(gn.typeof(gn.sharding.reshard(gnp.ones((4, 2)), gn.P("data"))))
      float32[4@data,2]
    """
    leaves, tree = tree_util.tree_flatten(xs)
    wanted = _spread(out_shardings, xs, "reshard: out_shardings")
    moved = [
        _reshard(as_operand(leaf), sharding, "reshard")
        for leaf, sharding in zip(leaves, wanted, strict=True)
    ]
    return tree_util.tree_unflatten(tree, moved)


def _spread(shardings: Any, tree: Any, what: str) -> list[Any]:
    """The sharding of each leaf of a tree, from a prefix of the tree with shardings."""
    return broadcast_prefix(shardings, tree, _is_sharding, prefix_name=what, full_name="the tree")


def _is_sharding(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec))


def _named(sharding: Any, what: str) -> NamedSharding:
    """A `NamedSharding` unchanged, or one made of a spec and the mesh that is set."""
    if isinstance(sharding, PartitionSpec):
        mesh = config.mesh_context[1]
        if mesh is None or mesh.empty:
            raise ValueError(
                f"{what}: the spec {sharding} needs a mesh: set one with gnomon.set_mesh, or pass "
                "a gnomon.NamedSharding"
            )
        sharding = NamedSharding(mesh, sharding)
    if not isinstance(sharding, NamedSharding):
        raise TypeError(
            f"{what} takes a gnomon.NamedSharding or a gnomon.P of the mesh that is set, got "
            f"{sharding!r}"
        )
    return sharding


def _reshard(x: Any, sharding: Any, what: str) -> Any:
    """Give one array another sharding."""
    sharding = _named(sharding, what)
    try:
        sharding.shard_shape(x.shape)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    sharding = full_spec(sharding, x.ndim)
    check_move(what, x.aval.explicit, sharding)
    if is_tracer(x) or staging():
        return constrained(x, sharding)
    mesh = concrete_mesh(sharding.mesh, x)
    if mesh is None:
        raise ValueError(
            f"{what}: the sharding {sharding} has no devices: set a mesh with gnomon.set_mesh"
        )
    return device_put(x, NamedSharding(mesh, sharding.spec))


def is_of_no_mesh(sharding: Any) -> bool:
    """Whether a sharding is the one that `typeof` shows where no mesh is set."""
    return isinstance(sharding, NamedSharding) and bool(sharding.mesh.empty)


def placed_sharding(sharding: NamedSharding | PartitionSpec, what: str) -> NamedSharding:
    """The `NamedSharding` that is meant by a spec or sharding, with devices if they are known."""
    given = _named(sharding, what)
    mesh = concrete_mesh(given.mesh)
    return given if mesh is None else given.update(mesh=mesh)


# -------------------------------------------------------------------------------- changes of modes


def with_out_sharding(
    what: str, out_sharding: Any, compute: Callable[..., Any], *arrays: Any
) -> Any:
    """Call a function of arrays and give its result, or a pytree of results, a sharding.

    Args:
      what: the name of the function in messages.
      out_sharding: a sharding or a spec; with None, the result keeps the sharding of its type.
      compute: the function; it gets the arrays without explicit axes in their types.
      arrays: the arguments of the function.
    """
    if out_sharding is None or is_of_no_mesh(out_sharding):
        return compute(*arrays)
    sharding = _named(out_sharding, f"{what}: out_sharding")
    types = [getattr(as_operand(x).aval, "explicit", None) for x in arrays]
    check_types(what, types, [sharding])
    with _axes_of_type(AxisType.Auto, sharding.mesh.abstract_mesh, None):
        result = compute(*(automatic(as_operand(x)) for x in arrays))
    return tree_util.tree_map(lambda x: _reshard(x, sharding, f"{what}: out_sharding"), result)


def takes_out_sharding(f: _Function) -> _Function:
    """A decorator that implements the parameter ``out_sharding`` of a function.

    The function itself only declares the parameter and never gets it; see `with_out_sharding`.
    """
    what = f"{f.__module__.removeprefix('gnomon.').split('._')[0]}.{f.__name__}"
    position = list(inspect.signature(f).parameters).index("out_sharding")

    @functools.wraps(f)
    def wrapper(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        if len(args) > position:
            out_sharding = args[position]
            args = (*args[:position], *args[position + 1 :])
        if out_sharding is None:
            return f(*args, **kwargs)
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        arrays = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]

        def compute(*values: Array) -> Any:
            filled = list(leaves)
            for i, value in zip(arrays, values, strict=True):
                filled[i] = value
            positional, named = tree_util.tree_unflatten(tree, filled)
            return f(*positional, **named)

        return with_out_sharding(what, out_sharding, compute, *(leaves[i] for i in arrays))

    return cast("_Function", wrapper)


def _is_array(x: Any) -> bool:
    return isinstance(x, Array) and not isinstance(x, ExtendedArray)


def _chosen(axes: Any, mesh: AbstractMesh, what: str) -> frozenset[Any]:
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    if unknown := [name for name in names if name not in mesh.axis_names]:
        raise ValueError(f"{what}: the mesh has no axes {unknown}; its axes are {mesh.axis_names}")
    return frozenset(names)


def _axes_of_type(kind: AxisType, mesh: AbstractMesh, axes: frozenset[Any] | None) -> Any:
    """A context in which the named axes of the mesh, by default all, have the given type."""
    context: AbstractMesh = config.mesh_context[1] or mesh
    names = [n for n in context.axis_names if axes is None or n in axes]
    kept = set(context.manual_axes)
    types = {name: kind for name in names if name not in kept}
    return use_abstract_mesh(context.update_axis_types(types))


def _mesh_of_leaves(leaves: Sequence[Any]) -> AbstractMesh | None:
    mesh: AbstractMesh | None = config.mesh_context[1]
    if mesh is not None and not mesh.empty:
        return mesh
    found = (x.aval.explicit for x in leaves)
    return next((sharding.mesh for sharding in found if sharding is not None), None)


def auto_axes(
    f: Callable[..., Any] | None = None, /, *, axes: Any = None, out_sharding: Any = ...
) -> Any:
    """Make a function in which explicit axes of the mesh are automatic.

    Inside of the function, types do not have these axes: the shardings of intermediate values are
    chosen for the program. The results have the shardings that ``out_sharding`` gives.

    Args:
      f: a function of arrays and pytrees of them. Without one, `auto_axes` is a decorator.
      axes: the names of the axes; by default all.
      out_sharding: a `gnomon.NamedSharding`, a `gnomon.P` of the mesh that is set, or a pytree of
        those that is a prefix of the result.
    Raises:
      TypeError: ``out_sharding`` is not given.
      ValueError: there is no mesh, or ``axes`` names an axis that the mesh does not have.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> with gn.set_mesh(gn.make_mesh((1,), ("data",))):
      ...     x = gn.sharding.reshard(gnp.ones((4, 2)), gn.P("data"))
      ...     print(gn.typeof(gn.sharding.auto_axes(gnp.flip, out_sharding=gn.P("data"))(x)))
      float32[4@data,2]
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    check_callable(f, "auto_axes")
    inner = f

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.pop("out_sharding", out_sharding)
        if wanted is ...:
            raise TypeError("auto_axes: missing required keyword argument: 'out_sharding'")
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        arrays = [as_operand(leaf) for leaf in leaves]
        mesh = _mesh_of_leaves(arrays)
        if mesh is None:
            raise ValueError("auto_axes needs a mesh: set one with gnomon.set_mesh")
        chosen = _chosen(axes, mesh, "auto_axes")
        with _axes_of_type(AxisType.Auto, mesh, chosen):
            given = [automatic(x, chosen.__contains__) for x in arrays]
            args, kwargs = tree_util.tree_unflatten(tree, given)
            out = inner(*args, **kwargs)
        results, out_tree = tree_util.tree_flatten(out)
        shardings = _spread(wanted, out, "auto_axes: out_sharding")
        moved = [
            _reshard(as_operand(x), _over(s, mesh), "auto_axes: out_sharding")
            for x, s in zip(results, shardings, strict=True)
        ]
        return tree_util.tree_unflatten(out_tree, moved)

    return described(wrapper, f, "The function {} in which explicit axes are automatic.")


def _over(sharding: Any, mesh: AbstractMesh) -> Any:
    """The `NamedSharding` of a spec over a mesh; any other value is returned unchanged."""
    return NamedSharding(mesh, sharding) if isinstance(sharding, PartitionSpec) else sharding


def explicit_axes(
    f: Callable[..., Any] | None = None, /, *, axes: Any = None, in_sharding: Any = ...
) -> Any:
    """Make a function in which automatic axes of the mesh are explicit.

    Inside of the function, types have these axes, and the shardings of all values follow from those
    of the arguments. The types of the results do not have these axes.

    Args:
      f: a function of arrays and pytrees of them. Without one, `explicit_axes` is a decorator.
      axes: the names of the axes; by default all.
      in_sharding: a `gnomon.P`, or a pytree of those that is a prefix of the tuple of arguments.
    Raises:
      TypeError: ``in_sharding`` is not given.
      ValueError: no mesh is set, or ``axes`` names an axis that the mesh does not have.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> auto = (gn.sharding.AxisType.Auto,)
      >>> def f(x):
      ...     print(gn.typeof(x))
      ...     return x
      >>> with gn.set_mesh(gn.make_mesh((1,), ("data",), auto)):
      ...     _ = gn.jit(gn.sharding.explicit_axes(f, in_sharding=gn.P("data")))(gnp.ones(4))
      float32[4@data]
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    check_callable(f, "explicit_axes")
    inner = f

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.pop("in_sharding", in_sharding)
        if wanted is ...:
            raise TypeError("explicit_axes: missing required keyword argument: 'in_sharding'")
        outer: AbstractMesh | None = config.mesh_context[1]
        if outer is None or outer.empty:
            raise ValueError("explicit_axes needs a mesh: set one with gnomon.set_mesh")
        chosen = _chosen(axes, outer, "explicit_axes")
        with _axes_of_type(AxisType.Explicit, outer, chosen):
            specs = _spread(wanted, args, "explicit_axes: in_sharding")
            leaves, tree = tree_util.tree_flatten(args)
            given = [
                _reshard(as_operand(leaf), spec, "explicit_axes: in_sharding")
                for leaf, spec in zip(leaves, specs, strict=True)
            ]
            out = inner(*tree_util.tree_unflatten(tree, given), **kwargs)
        changed = chosen.difference(outer.explicit_axes)
        return tree_util.tree_map(lambda x: automatic(as_operand(x), changed.__contains__), out)

    return described(wrapper, f, "The function {} in which automatic axes are explicit.")
