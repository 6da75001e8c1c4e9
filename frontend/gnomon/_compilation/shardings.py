"""The shardings of a jitted function: those requested, and those of arguments and results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gnomon import tree_util
from gnomon._arrays.concrete import ConcreteArray, PlacedArray
from gnomon._compilation.arguments import Call
from gnomon._sharding.device import Device, check_partitions, is_described
from gnomon._sharding.device_group import is_spread, place_of_devices
from gnomon._sharding.layout import Format, Layout, check_layout, sharding_of
from gnomon._sharding.mesh import Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec, Unconstrained
from gnomon._sharding.sharding import Sharding
from gnomon._tracing.constraints import constraint_mesh, resolved
from gnomon._tracing.explicit import with_devices
from gnomon._tracing.function import Traced
from gnomon._tracing.inspections import any_inspections, report_shardings
from gnomon._tracing.partitioned import annotate, named
from gnomon._tracing.shardings import (
    check_fits,
    mesh_of,
    propagated,
    sharding_in,
    typed_split,
)
from gnomon._trees.prefixes import broadcast_prefix
from gnomon.dialects.functions import Program
from gnomon.passes.propagate_shardings import Inspected

__all__ = ["RequestedShardings", "Shardings", "no_requested_shardings"]


def _is_none(x: Any) -> bool:
    return x is None


class RequestedShardings:
    """The ``in_shardings`` and ``out_shardings`` that the caller of `jit` requests.

    Args:
      ins, outs: pytrees of shardings, specs, formats and None, which are prefixes of the positional
        arguments and of the result; None if not given.
      only_layouts: whether to leave out the shardings, and keep the layouts of the formats.
    Raises:
      TypeError: a leaf is something else.
      ValueError: a leaf is a layout without a sharding, or a spec has unconstrained dimensions.

    Attributes:
      key: a hashable value, equal for equal shardings and layouts.
      shardings: the shardings and specs.
    """

    def __init__(self, ins: Any, outs: Any, *, only_layouts: bool = False) -> None:
        ins = tuple(ins) if isinstance(ins, list) else ins
        for name, tree in (("in_shardings", ins), ("out_shardings", outs)):
            for leaf in tree_util.tree_leaves(tree):
                _check(name, leaf)
        leaves, tree = tree_util.tree_flatten((ins, outs))
        self.key = (tree, tuple(leaves), only_layouts)
        self._given = ins, outs
        self._only_layouts = only_layouts
        self._has_layouts = any(isinstance(leaf, Format) for leaf in leaves)
        shardings = tree_util.tree_map(sharding_of, (ins, outs))
        self.ins: Any
        self.outs: Any
        self.ins, self.outs = (None, None) if only_layouts else shardings
        self.shardings: list[Any] = tree_util.tree_leaves((self.ins, self.outs))

    def __bool__(self) -> bool:
        return bool(self.shardings) or self._has_layouts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestedShardings) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> Any:
        make = functools.partial(RequestedShardings, only_layouts=self._only_layouts)
        return make, self._given

    def without_shardings(self) -> RequestedShardings:
        """The layouts alone."""
        if not self._has_layouts:
            return no_requested_shardings
        return RequestedShardings(*self._given, only_layouts=True)

    def inputs(self, call: Call) -> list[Sharding | None]:
        """The sharding that each dynamic leaf of a call must have, if any."""
        if self.ins is None:
            return [None] * len(call.leaves)
        args, kwargs = tree_util.tree_unflatten(call.tree, list(range(len(call.leaves))))
        if kwargs:
            raise ValueError(
                "jit: with in_shardings, pass arguments by position; got the keyword arguments "
                f"{', '.join(kwargs)}"
            )
        found = broadcast_prefix(
            self.ins, args, _is_none, prefix_name="jit: in_shardings", full_name="the arguments"
        )
        return [resolved(leaf, "jit: in_shardings") for leaf in found]

    def outputs(self, tree: Any) -> list[Sharding | None]:
        """The sharding that each leaf of the result must have, if any."""
        if self.outs is None:
            return [None] * tree.num_leaves
        result = tree_util.tree_unflatten(tree, list(range(tree.num_leaves)))
        found = broadcast_prefix(
            self.outs, result, _is_none, prefix_name="jit: out_shardings", full_name="the result"
        )
        return [with_devices(resolved(leaf, "jit: out_shardings")) for leaf in found]

    def check_layouts(self, call: Call, traced: Traced) -> None:
        """Check that the arguments and the results can have the layouts of the formats.

        Raises:
          ValueError: a layout has the wrong rank.
          NotImplementedError: a layout is not row-major.
        """
        if not self._has_layouts:
            return
        ins, outs = self._given
        args, _ = tree_util.tree_unflatten(call.tree, list(range(len(call.leaves))))
        result = tree_util.tree_unflatten(traced.tree, list(range(len(traced.avals))))
        for name, prefix, positions, avals in (
            ("in_shardings", ins, args, traced.body.argument_types),
            ("out_shardings", outs, result, traced.avals),
        ):
            if prefix is None:
                continue
            found = broadcast_prefix(
                prefix, positions, _is_none, prefix_name=f"jit: {name}", full_name="the values"
            )
            for i, leaf in zip(tree_util.tree_leaves(positions), found, strict=True):
                if isinstance(leaf, Format):
                    check_layout(f"jit: {name}", leaf.layout, tuple(avals[i].shape))


no_requested_shardings = RequestedShardings(None, None)


def _check(name: str, leaf: Any) -> None:
    if isinstance(leaf, Layout) or leaf is Layout.AUTO:
        raise ValueError(
            f"jit: {name} takes a layout as a part of a format, "
            f"gnomon.experimental.layout.Format(layout, sharding), got {leaf!r}"
        )
    leaf = sharding_of(leaf)
    if leaf is not None and not isinstance(leaf, (Sharding, PartitionSpec)):
        raise TypeError(
            f"jit: {name} takes shardings, such as gnomon.NamedSharding(mesh, spec), specs and "
            f"None, got {leaf!r}"
        )
    spec = leaf.spec if isinstance(leaf, NamedSharding) else leaf
    if isinstance(spec, PartitionSpec) and any(
        isinstance(entry, Unconstrained) for entry in spec.partitions
    ):
        raise ValueError(f"jit: {name} cannot have UNCONSTRAINED dimensions, got {leaf}")


class Shardings:
    """The shardings of the arguments and results of one program.

    Args:
      requested: the shardings given to `jit`.
      call, traced: the call, and the program with the arrays that it closes over.
      describe: returns the name of a leaf of the call for messages.
      context: the mesh that is set, if any.

    Attributes:
      place: the device of the shardings, or the group of their devices; None if there are no
        shardings.
      ins: the sharding of each leaf of the call, or None.
      captured: the sharding of each array that the program closes over.
      outs: the sharding of each result; None if there is no mesh.
      inspected: the values whose shardings the program asks for.
    Raises:
      ValueError: a sharding does not fit the shape of an array, or differs from the sharding that
        the array is committed to.
    """

    def __init__(
        self,
        requested: RequestedShardings,
        call: Call,
        traced: Traced,
        describe: Callable[[int], str],
        context: Mesh | None = None,
    ) -> None:
        requested.check_layouts(call, traced)
        wanted = requested.inputs(call)
        outs = requested.outputs(traced.tree)
        types = traced.body.argument_types
        for i, (leaf, sharding) in enumerate(zip(call.leaves, wanted, strict=True)):
            if sharding is not None:
                _check_argument(leaf, sharding, types[i].shape, functools.partial(describe, i))
        found = [sharding_in(leaf) for leaf in call.leaves]
        self.ins = [w or f for w, f in zip(wanted, found, strict=True)]
        self.captured = captured = [sharding_in(c) for c in traced.captures]
        self.place: Device | None = None
        self.outs: list[Sharding] | None = None
        self.inspected: list[Inspected] = []
        self._mesh: Mesh | None = None
        mesh = mesh_of([*self.ins, *captured, *outs])
        constrained = constraint_mesh(traced.program, traced.body)
        if mesh is None or not _is_alike(mesh, constrained):
            mesh = constrained or context
        demanded = [s for s in (*wanted, *outs) if s is not None]
        if mesh is None:
            if demanded:
                self.place = _one_place(demanded)
            if any_inspections():
                unknown = [None] * len(types)
                propagated(traced.program, traced.body, unknown, None, self.inspected)
            return
        self._mesh = mesh
        self.place = _one_place([*demanded, NamedSharding(mesh, PartitionSpec())])
        given = [*self.ins, *captured]
        splits = propagated(traced.program, traced.body, given, mesh, self.inspected)
        for sharding, aval in zip(outs, traced.avals, strict=True):
            if isinstance(sharding, NamedSharding):
                check_fits(sharding, aval.shape, "jit: out_shardings")
        explicit = [aval.explicit for aval in traced.avals]
        splits = [
            split if t is None else typed_split(mesh, t._axes, split)
            for t, split in zip(explicit, splits, strict=True)
        ]
        self.outs = [
            named(mesh, split, t) if out is None else out
            for out, split, t in zip(outs, splits, explicit, strict=True)
        ]

    @property
    def mesh(self) -> Mesh | None:
        """The mesh of the program, if there is one."""
        return self._mesh

    @property
    def whole(self) -> NamedSharding | None:
        """The sharding of an array replicated over the mesh; None without a mesh."""
        return None if self._mesh is None else NamedSharding(self._mesh, PartitionSpec())

    def annotate(self, program: Program) -> None:
        """Annotate a program with its mesh and shardings, if the mesh has several devices.

        Args:
          program: a program whose ``main`` takes the leaves of the call, then the captured arrays.
        """
        if self._mesh is not None and self.outs is not None and self._mesh.size > 1:
            annotate(program, self._mesh, [*self.ins, *self.captured], self.outs)

    def report_inspections(self, device: Device) -> None:
        """Call the callbacks of sharding inspections, for the mesh or else for ``device``."""
        report_shardings(self.inspected, device if self._mesh is None else self._mesh)


def _is_alike(mesh: Mesh, constrained: Mesh | None) -> bool:
    """Whether the mesh of the constraints, if any, has the devices and axes of ``mesh``."""
    return constrained is None or (mesh._flat, mesh.shape) == (constrained._flat, constrained.shape)


def _check_argument(
    leaf: Any, sharding: Sharding, shape: tuple[int, ...], describe: Callable[[], str]
) -> None:
    if isinstance(sharding, NamedSharding):
        check_fits(sharding, shape, "jit: in_shardings")
    has = None
    if isinstance(leaf, PlacedArray) and leaf.committed:
        has = leaf.sharding
    elif not isinstance(leaf, ConcreteArray):
        has = sharding_in(leaf)
    if has is not None and not sharding.is_equivalent_to(has, len(shape)):
        raise ValueError(
            f"{describe()} does not have the sharding of in_shardings: it has {has}, not "
            f"{sharding}. Move it with gnomon.device_put"
        )


def _one_place(shardings: Sequence[Sharding]) -> Device:
    """The single device of the shardings, or the group of their devices."""
    found: Device | None = None
    for sharding in shardings:
        place = place_of_devices(sharding._device_tuple)
        if found is not None and place is not found:
            raise ValueError(
                f"received incompatible devices: shardings of jit are on {found!r} and {place!r}"
            )
        found = place
    assert found is not None
    if is_spread(found) and not is_described(found):
        check_partitions(found.devices)  # type: ignore[attr-defined]
    return found
