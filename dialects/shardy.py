"""Meshes, shardings and manual computations in the form that XLA's partitioner, Shardy, reads.

StableHLO has no ops for these. Shardy reads them from attributes and custom calls:

- the module's frontend attribute ``xla.sdy.meshes`` declares meshes by name;
- ``xla.sdy.sharding`` is the sharding of an argument of ``main``, of a value on a custom call of
  ``Sharding``, and of a result on a custom call of ``xla.sdy.FuncResultSharding``;
- a manual computation is a call of a function on shards, between the custom calls
  ``xla.sdy.GlobalToLocalShape`` and ``xla.sdy.LocalToGlobalShape``.

In the gnomon dialect, the module attribute ``gnomon.mesh`` marks a program that is partitioned. The
attribute ``gnomon.split`` of an argument or result of ``main`` has the axes that split each
dimension:

    module attributes {gnomon.mesh = {axes = ["x", "y"], sizes = array<i64: 2, 2>,
                                      devices = array<i64: 0, 1, 2, 3>}} {
      func.func @main(%x: tensor<4x8xf32> {gnomon.split = ["x", ""]}) -> ...
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gnomon.dialects.attributes import INTS, STRINGS
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.types import TensorType, mlir_type, tensor_type

__all__ = [
    "BODY_NAME",
    "MESH",
    "OPEN",
    "SPLIT",
    "Mesh",
    "annotate",
    "argument_attributes",
    "constrain",
    "declare_first_device",
    "first_mesh",
    "has_meshes",
    "local_types",
    "manual_computation",
    "mesh_of",
    "module_attributes",
    "on_first_device",
    "splits_of",
]

MESH = "gnomon.mesh"
SPLIT = "gnomon.split"
# The entry of a dimension that may be split in any way.
OPEN = "?"

# The prefix by which Shardy recognizes the functions of manual computations.
BODY_NAME = "xla.sdy.manual_computation_body"

_FRONTEND = "mhlo.frontend_attributes"
_MESHES = "xla.sdy.meshes"
# The mesh of values that only the first device has.
_FIRST = "maximal_mesh_0"

# For each dimension, the names of the axes that split it, separated by commas; or `OPEN`.
Split = Sequence[str]


class Mesh(NamedTuple):
    """The mesh of a partitioned program.

    Attributes:
      axes, sizes: the names and the sizes of its axes.
      devices: the ids of its devices, one for each partition; empty if any devices will do.
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    devices: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of partitions."""
        return math.prod(self.sizes)

    def text(self, order: Sequence[int] = ()) -> str:
        """The mesh in Shardy's syntax; ``order`` lists the partitions if they are permuted."""
        axes = ", ".join(f'"{name}"={n}' for name, n in zip(self.axes, self.sizes, strict=True))
        ids = f", device_ids={list(order)}" if tuple(order) != tuple(range(len(order))) else ""
        return f"#sdy.mesh<[{axes}]{ids}>"


def mesh_of(module: ir.Module) -> Mesh | None:
    """The mesh of a partitioned program; None if the program is not partitioned."""
    attributes = module.operation.attributes
    if MESH not in attributes:
        return None
    given = ir.DictAttr(attributes[MESH])
    return Mesh(
        STRINGS.decode(given["axes"]), INTS.decode(given["sizes"]), INTS.decode(given["devices"])
    )


def annotate(
    module: ir.Module, mesh: Mesh, arguments: Sequence[Split], results: Sequence[Split]
) -> None:
    """Mark a program as partitioned over a mesh, and annotate ``main`` with shardings.

    Args:
      module: the program; it is changed.
      mesh: the mesh, with the ids of the devices.
      arguments, results: the sharding of each argument and result of ``main``.
    """
    module.operation.attributes[MESH] = ir.DictAttr.get(
        {
            "axes": STRINGS.encode(mesh.axes),
            "sizes": INTS.encode(mesh.sizes),
            "devices": INTS.encode(mesh.devices),
        },
        context(),
    )
    main = _main(module)
    for name, splits in (("arg_attrs", arguments), ("res_attrs", results)):
        main.attributes[name] = ir.ArrayAttr.get(
            [ir.DictAttr.get({SPLIT: STRINGS.encode(s)}, context()) for s in splits], context()
        )


def _main(module: ir.Module) -> ir.Operation:
    return next(
        op.operation
        for op in module.body.operations
        if ir.StringAttr(op.operation.attributes["sym_name"]).value == "main"
    )


def splits_of(function: ir.Operation, attribute: str) -> list[tuple[str, ...] | None]:
    """The shardings of the arguments (``arg_attrs``) or results (``res_attrs``) of a function."""
    if attribute not in function.attributes:
        return []
    found: list[tuple[str, ...] | None] = []
    for each in ir.ArrayAttr(function.attributes[attribute]):
        given = ir.DictAttr(each)
        found.append(STRINGS.decode(given[SPLIT]) if SPLIT in given else None)
    return found


def local_types(module: ir.Module, mesh: Mesh) -> tuple[list[TensorType], list[TensorType]]:
    """The types of the shards of the arguments and results of ``main`` on each device."""
    main = _main(module)
    type_ = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    sizes = dict(zip(mesh.axes, mesh.sizes, strict=True))

    def local(whole: TensorType, split: Split | None) -> TensorType:
        if split is None:
            return whole
        parts = [math.prod(sizes[a] for a in entry.split(",") if a) for entry in split]
        return whole.with_shape(tuple(n // p for n, p in zip(whole.shape, parts, strict=True)))

    def every(types: Sequence[ir.Type], attribute: str) -> list[TensorType]:
        splits = splits_of(main, attribute) or [None] * len(types)
        return [local(tensor_type(t), s) for t, s in zip(types, splits, strict=True)]

    return every(type_.inputs, "arg_attrs"), every(type_.results, "res_attrs")


# ------------------------------------------------------------------------------------------ writing


def _dimension(entry: str, *, open_: bool) -> str:
    axes = [] if entry == OPEN else [f'"{name}"' for name in entry.split(",") if name]
    return "{" + ", ".join([*axes, "?"] if open_ or entry == OPEN else axes) + "}"


def _sharding(mesh: str, split: Split, *, open_: bool = False) -> str:
    """A sharding over a mesh; if ``open_``, dimensions may be split over further axes."""
    dimensions = ", ".join(_dimension(entry, open_=open_) for entry in split)
    return f"<@{mesh}, [{dimensions}]>"


def _frontend(attributes: Mapping[str, str]) -> dict[str, ir.Attribute]:
    given = {name: ir.StringAttr.get(value, context()) for name, value in attributes.items()}
    return {_FRONTEND: ir.DictAttr.get(given, context())}


def argument_attributes(split: Split | None, mesh: str) -> ir.DictAttr:
    """The attributes of an argument of ``main``."""
    if split is None:
        return ir.DictAttr.get({}, context())
    return ir.DictAttr.get(
        _frontend({"xla.sdy.sharding": f"#sdy.sharding{_sharding(mesh, split)}"}), context()
    )


def module_attributes(meshes: Mapping[str, str], partitions: int) -> dict[str, ir.Attribute]:
    """The attributes of a module: its meshes by name, and the number of partitions."""
    i32 = ir.IntegerType.get_signless(32, context())
    declared = ", ".join(f"{name} = {text}" for name, text in meshes.items())
    return {
        **_frontend({_MESHES: "{" + declared + "}"}),
        "mhlo.num_partitions": ir.IntegerAttr.get(i32, partitions),
        "mhlo.num_replicas": ir.IntegerAttr.get(i32, 1),
    }


def has_meshes(module: ir.Module) -> bool:
    """Whether a lowered module declares meshes: it is for several devices."""
    return _FRONTEND in module.operation.attributes


def _declared(module: ir.Module) -> str:
    attributes = ir.DictAttr(module.operation.attributes[_FRONTEND])
    return str(ir.StringAttr(attributes[_MESHES]).value)


def first_mesh(module: ir.Module) -> str | None:
    """The name of a mesh that a lowered module declares; None if it declares none."""
    name, _, rest = _declared(module)[1:].partition(" = ")
    return name if rest else None


def declare_first_device(module: ir.Module) -> None:
    """Declare the mesh that `on_first_device` mentions, in a lowered partitioned module."""
    declared = _declared(module)
    first = f"{_FIRST} = #sdy.mesh<[], device_ids=[0]>"
    text = f"{declared[:-1]}, {first}}}" if declared != "{}" else f"{{{first}}}"
    module.operation.attributes[_FRONTEND] = _frontend({_MESHES: text})[_FRONTEND]


def on_first_device(results: int) -> dict[str, ir.Attribute]:
    """The attributes of an op that only the first device runs, with whole operands."""
    shardings = ", ".join([f"<@{_FIRST}, []>"] * results)
    return _frontend({"xla.sdy.sharding": f"#sdy.sharding_per_value<[{shardings}]>"})


def _custom_call(
    target: str,
    operands: Sequence[ir.Value],
    types: Sequence[TensorType],
    attributes: Mapping[str, str],
    *,
    effect: bool,
) -> list[ir.Value]:
    """A custom call with frontend attributes; an effect keeps it from being merged or dropped."""
    given: dict[str, ir.Attribute] = {
        "call_target_name": ir.StringAttr.get(target, context()),
        **_frontend(attributes),
    }
    if effect:
        given["has_side_effect"] = ir.BoolAttr.get(True, context())
    created = ir.Operation.create(
        "stablehlo.custom_call",
        results=[mlir_type(t) for t in types],
        operands=list(operands),
        attributes=given,
    )
    return list(created.results)


def constrain(x: ir.Value, type_: TensorType, mesh: str, split: Split, *, result: bool) -> ir.Value:
    """Constrain the sharding of a value in a program or, if ``result``, of a result of ``main``."""
    (constrained,) = _custom_call(
        "xla.sdy.FuncResultSharding" if result else "Sharding",
        [x],
        [type_],
        {"xla.sdy.sharding": f"#sdy.sharding_per_value<[{_sharding(mesh, split)}]>"},
        effect=result,
    )
    return constrained


def manual_computation(
    body: str,
    operands: Sequence[ir.Value],
    local: tuple[Sequence[TensorType], Sequence[TensorType]],
    whole: Sequence[TensorType],
    mesh: str,
    manual: Sequence[str],
    splits: tuple[Sequence[Split], Sequence[Split]],
    *,
    open_: bool,
) -> list[ir.Value]:
    """Emit a manual computation: a call of a function on shards.

    Args:
      body: the function's name, which begins with `BODY_NAME`.
      operands: whole values.
      local: the types of the function's arguments and results.
      whole: the types of the whole results.
      mesh: the mesh's name.
      manual: the manual axes.
      splits: the shardings of the operands and of the results over the manual axes.
      open_: whether there are other axes, which may split the values further.
    """
    axes = "#sdy<manual_axes{" + ", ".join(f'"{name}"' for name in manual) + "}>"

    def listed(given: Sequence[Split]) -> str:
        shardings = ", ".join(_sharding(mesh, split, open_=open_) for split in given)
        return f"#sdy.sharding_per_value<[{shardings}]>"

    shards = list(operands)
    if shards:
        shards = _custom_call(
            "xla.sdy.GlobalToLocalShape",
            shards,
            local[0],
            {"xla.sdy.in_shardings": listed(splits[0]), "xla.sdy.manual_axes": axes},
            effect=True,
        )
    call = ir.Operation.create(
        "func.call",
        results=[mlir_type(t) for t in local[1]],
        operands=shards,
        attributes={
            "callee": ir.FlatSymbolRefAttr.get(body, context()),
            **_frontend({"inlineable": "false"}),
        },
    )
    return _custom_call(
        "xla.sdy.LocalToGlobalShape",
        list(call.results),
        whole,
        {"xla.sdy.manual_axes": axes, "xla.sdy.out_shardings": listed(splits[1])},
        effect=True,
    )
