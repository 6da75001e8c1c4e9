"""`pmap`: a function mapped over an axis of its arguments, one device per index."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import ConcreteArray
from gnomon._compilation.jit import jit
from gnomon._sharding.device import Device, devices_of, is_addressable
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon._tracing.bind import as_operand, bind, trace_for
from gnomon._tracing.function import check_callable, described, name_of
from gnomon._tracing.stateful import StatefulFunction
from gnomon._transformations.map_shards import map_shards
from gnomon._transformations.pmap_processes import local_rows, rows_of_all
from gnomon._trees.prefixes import broadcast_prefix
from gnomon.backends import platforms
from gnomon.dialects.emit import ops

__all__ = ["pmap"]

# The name of the axis if the user gives none; shardings show it.
_UNNAMED = "_internal_pmap_axis_name"


def pmap(
    fun: Callable[..., Any],
    axis_name: Hashable | None = None,
    *,
    in_axes: int | Sequence[Any] | None = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Any:
    """A compiled function that maps ``fun`` over an axis of its arguments, one device per index.

    It is `shard_map` over a mesh of one axis, without ``check_vma``, and with the mapped axis
    removed from the shards. New programs should use `shard_map`.

    In a program of several processes, the devices are those of all processes. Each process gives
    arrays whose mapped axis has the number of its own devices, and gets results of that size;
    collectives act over all devices. In a traced function (`jit`, `grad`, ...), the size of the
    mapped axis decides: if it is the number of all devices, arrays and results are those of all
    processes. If it is at most the number of this process's devices, the function is mapped over
    these only, and its collectives act over these only.

    Args:
      fun: a function of arrays and pytrees of them.
      axis_name: the name of the axis, for collectives (`gnomon.lax.psum`).
      in_axes: for each positional argument the axis to map: an int, None (each device gets the
        whole argument), or a pytree of those that is a prefix of the argument. Arguments given by
        keyword are mapped over their leading axis.
      out_axes: the place of the mapped axis in each result, in the same form; None gives the
        result of the first device.
      static_broadcasted_argnums: positions of arguments that are Python values.
      devices: the devices to map over; by default as many of ``gnomon.devices(backend)`` as are
        needed, or with several processes all of them.
      backend: the platform of the devices.
      axis_size: the size of the mapped axis; with several processes, the number of all devices.
      donate_argnums: arguments whose memory the call may take over.
    Returns:
      A function of the same arguments, with the mapped axis added. It may be called in other
      mapped functions, and may call them.
    Raises:
      ValueError: no argument is mapped, mapped axes differ in size, or there are too few devices.

    Example:
      >>> import gnomon as gn
      >>> gn.pmap(lambda x: x / gn.lax.psum(x, "i"), axis_name="i")(gn.numpy.ones((1, 2)))
      Array([[1., 1.]], dtype=float32)
    """
    check_callable(fun, "pmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(type(axis) is int for axis in tree_util.tree_leaves(axes)):
            raise TypeError(
                f"pmap {what} must be an int, None, or containers of those, got {axes!r}"
            )
    static = _positions(static_broadcasted_argnums)
    donated = _positions(donate_argnums)
    name = _UNNAMED if axis_name is None else axis_name

    def taken_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Operands:
        dynamic = [i for i in range(len(args)) if i not in static]
        axes = in_axes
        if isinstance(axes, tuple):
            if len(axes) != len(args):
                raise ValueError(
                    f"pmap in_axes has {len(axes)} entries, {axes}, for {len(args)} positional "
                    "arguments"
                )
            axes = tuple(axes[i] for i in dynamic)
        given = tuple(args[i] for i in dynamic)
        leaves, tree = tree_util.tree_flatten((given, kwargs))
        operands = [as_operand(leaf) for leaf in leaves]
        return _Operands(dynamic, tree, operands, _places("in_axes", (axes, 0), (given, kwargs)))

    def mapped(*args: Any, **kwargs: Any) -> Any:
        dynamic, tree, operands, places = taken_apart(args, kwargs)
        size = _size(fun, operands, places)
        used = _devices(size, axis_size, devices, backend)
        mesh = Mesh(np.array(used, dtype=object), (name,))
        specs = [
            _spec(None if place is None else place % operand.ndim, name)
            for operand, place in zip(operands, places, strict=True)
        ]

        def run(tracers: Sequence[Any]) -> Any:
            members = [
                tracer if place is None else _without_axis(tracer, place % tracer.ndim)
                for tracer, place in zip(tracers, places, strict=True)
            ]
            inner, keywords = tree_util.tree_unflatten(tree, members)
            full = list(args)
            for i, value in zip(dynamic, inner, strict=True):
                full[i] = value
            out = fun(*full, **keywords)
            out_leaves, out_tree = tree_util.tree_flatten(out)
            out_places = _places("out_axes", out_axes, out)
            results = [
                leaf if place is None else _with_axis(leaf, place)
                for leaf, place in zip(out_leaves, out_places, strict=True)
            ]
            run_specs[:] = [
                _spec(None if place is None else place % result.ndim, name)
                for result, place in zip(results, out_places, strict=True)
            ]
            return tree_util.tree_unflatten(out_tree, results)

        run_specs: list[PartitionSpec] = []
        return map_shards(
            run,
            fun,
            "pmap",
            operands,
            specs,
            lambda out: run_specs,
            mesh,
            {name},
            check_vma=False,
        )

    described(mapped, fun, "The function {} mapped over devices.")
    compiled = jit(mapped, static_argnums=static or None, donate_argnums=donated or None)

    def across_processes(*args: Any, **kwargs: Any) -> Any:
        everywhere = devices_of(backend) if devices is None else devices
        if all(map(is_addressable, everywhere)):
            return compiled(*args, **kwargs)
        dynamic, tree, operands, places = taken_apart(args, kwargs)
        if trace_for(operands) is not None:
            return compiled(*args, **kwargs)
        _size(fun, operands, places)
        if axis_size not in (None, len(everywhere)):
            raise ValueError(
                f"pmap: axis_size is {axis_size}, but there are {len(everywhere)} devices of all "
                "processes"
            )
        whole = [
            rows_of_all(operand, place, everywhere, name)
            for operand, place in zip(operands, places, strict=True)
        ]
        inner, keywords = tree_util.tree_unflatten(tree, whole)
        full = list(args)
        for i, value in zip(dynamic, inner, strict=True):
            full[i] = value
        result = tree_util.tree_map(local_rows, compiled(*full, **keywords))
        for leaf in tree_util.tree_leaves([args[i] for i in donated]):
            if isinstance(leaf, ConcreteArray) and not leaf.is_deleted():
                leaf.delete()
        return result

    return MappedFunction(compiled, across_processes)


class _Operands(NamedTuple):
    """The arguments of a call.

    Attributes:
      dynamic: the positions of the arguments that are not static.
      tree: the structure of these arguments and of those given by keyword.
      operands, places: the leaves, and the mapped axis of each.
    """

    dynamic: list[int]
    tree: Any
    operands: list[Any]
    places: list[int | None]


class MappedFunction(StatefulFunction):
    """A function that `pmap` made: a jitted function, with calls for several processes.

    Args:
      compiled: the jitted function of whole arrays, whose attributes this object has too.
      across_processes: the call where there may be devices of other processes.
    """

    __slots__ = ("__dict__", "__weakref__", "_across_processes", "_compiled")

    def __init__(self, compiled: Any, across_processes: Callable[..., Any]) -> None:
        self._compiled = compiled
        self._across_processes = across_processes
        self._describe_as(compiled.__wrapped__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the mapped function."""
        # Devices of other processes exist only after `gnomon.distributed.initialize`.
        if platforms.host_engine() is None:
            return self._compiled(*args, **kwargs)
        return self._across_processes(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("__") and name != "__signature__") or name == "_compiled":
            raise AttributeError(name)
        return getattr(self._compiled, name)

    def __repr__(self) -> str:
        return repr(self._compiled)


def _positions(given: int | Iterable[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(sorted(given))


def _places(what: str, axes: Any, tree: Any) -> list[int | None]:
    """The mapped axis of each leaf, from a prefix tree of axes."""
    try:
        return broadcast_prefix(axes, tree, is_leaf=lambda x: x is None)
    except ValueError as error:
        given = axes[0] if what == "in_axes" else axes
        raise ValueError(
            f"pmap {what} must be a tree prefix of the corresponding value, got {given!r}: {error}"
        ) from None


def _size(fun: Callable[..., Any], operands: Sequence[Array], places: Sequence[int | None]) -> int:
    sizes = set()
    for operand, place in zip(operands, places, strict=True):
        if place is None:
            continue
        if not -operand.ndim <= place < operand.ndim:
            raise ValueError(
                f"pmap of {name_of(fun)}: in_axes names axis {place} of an array of shape "
                f"{operand.shape}"
            )
        sizes.add(operand.shape[place])
    if not sizes:
        raise ValueError(f"pmap of {name_of(fun)} needs an argument with a mapped axis")
    if len(sizes) > 1:
        raise ValueError(
            f"pmap of {name_of(fun)} got different sizes of mapped axes: {sorted(sizes)}"
        )
    (size,) = sizes
    return int(size)


def _devices(
    size: int, axis_size: int | None, devices: Sequence[Device] | None, backend: str | None
) -> Sequence[Device]:
    """The devices that a mapped axis of this size is mapped over."""
    found = devices_of(backend) if devices is None else devices
    local = [device for device in found if is_addressable(device)]
    # In a traced function, a process may give its own rows only.
    is_local = size <= len(local) < len(found)
    if axis_size not in (None, len(found) if is_local else size):
        raise ValueError(f"pmap: axis_size is {axis_size}, but the mapped axes have size {size}")
    if is_local:
        return local[:size]
    if devices is not None and len(devices) != size:
        raise ValueError(
            f"pmap: the mapped axes have size {size}, but devices= has {len(devices)} devices"
        )
    if size > len(found):
        raise ValueError(
            f"pmap: the mapped axes have size {size}, but there are {len(found)} devices "
            "(gnomon_num_cpu_devices sets the number of CPU devices)"
        )
    return found[:size]


def _spec(axis: int | None, name: Any) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)


def _without_axis(x: Array, axis: int) -> Any:
    return bind(ops.reshape, x, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))


def _with_axis(x: Any, axis: int) -> Any:
    array = as_operand(x)
    rank = array.ndim + 1
    if not -rank <= axis < rank:
        raise ValueError(f"pmap: out_axes {axis} is out of range for a result of rank {rank}")
    place = axis % rank
    return bind(ops.reshape, array, shape=(*array.shape[:place], 1, *array.shape[place:]))
