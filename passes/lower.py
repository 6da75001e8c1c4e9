"""``lower-to-stablehlo``: replace every op by its StableHLO form, the facet ``lower``.

A program with a mesh (see `dialects.shardy`) becomes one SPMD program for all devices of the mesh.
The callees of ``gnomon.shard_map`` become manual computations, in which a collective lowers to the
StableHLO collective.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from gnomon.dialects import collective_lowering, shardy
from gnomon.dialects.attributes import SYMBOL
from gnomon.dialects.body import Body, results_of
from gnomon.dialects.contract import (
    ENGINE,
    Instance,
    Op,
    Rule,
    Verdict,
    all_operations,
    instance_of,
    lookup,
    params_of,
)
from gnomon.dialects.errors import NoDynamicForm
from gnomon.dialects.functions import Program, callee, symbol_name
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.shardy import Mesh
from gnomon.dialects.sized_forms import SizeValues, has_sizes, lowering_with
from gnomon.dialects.symbolic.encoding import is_symbolic_attribute
from gnomon.dialects.symbolic.errors import InconclusiveDimensionOperation
from gnomon.dialects.types import TensorType, mlir_type, type_of
from gnomon.passes.symbolic_sizes import drop_expressions, emit_assertions, has_symbolic_types


class LoweringError(TypeError):
    """An op has no StableHLO form; the message names the op and the line."""


class Lowering:
    """Lowers bodies; the ``engine`` of the ``lower`` rules.

    Args:
      program: the program.
      mesh: the mesh over which the program is partitioned, if any.

    Attributes:
      mesh: that mesh; while a manual computation is lowered, the mesh of the computation.
      manual: the axes of the mesh that are manual in the function that is being lowered.
    """

    def __init__(self, program: Program, mesh: Mesh | None = None) -> None:
        self.program = program
        self.mesh = mesh
        self.manual: tuple[str, ...] = ()
        # The text of each mesh in Shardy's syntax, by the name of the mesh.
        self.meshes: dict[str, str] = {}
        self._devices = () if mesh is None else mesh.devices
        self._partitions = 1 if mesh is None else mesh.size
        self._channels = itertools.count(1)
        self._positions: dict[tuple[Mesh, str], str] = {}
        # The functions that the program calls and does not have, by name.
        self._external: dict[str, ir.FunctionType] = {}

    def fill(self, region: ir.Region, body: Body, captured: Sequence[ir.Value] = ()) -> ir.Block:
        """Lower a body into an empty region.

        Args:
          region: an empty region, which receives one block.
          body: the body to lower.
          captured: values for the first arguments; the others become block arguments.
        """
        types = [mlir_type(t) for t in body.argument_types[len(captured) :]]
        block = region.blocks.append(*types)
        with ir.InsertionPoint(block):
            results = self.emit(body, [*captured, *block.arguments])
            ir.Operation.create("stablehlo.return", operands=results)
        return block

    def emit(self, body: Body, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Lower a body at the current insertion point; return its results."""
        from_gnomon = dict(zip(body.arguments, operands, strict=True))
        for op in body.operations:
            definition = lookup(op)
            inst = instance_of(op, None, self)
            inst.operands = [from_gnomon[v] for v in inst.operands]
            with op.location:
                if definition.lower is ENGINE:
                    results = self._call(op, inst.operands)
                elif isinstance(definition.lower, Verdict):
                    reason = definition.lower.value
                    raise LoweringError(f"{op.name} cannot be lowered: {reason} ({op.location})")
                else:
                    self._check_bound(definition, op)
                    results = self._lowered(definition.lower, inst, op)
            if isinstance(results, ir.Value):
                results = [results]
            from_gnomon.update(zip(results_of(op), results, strict=True))
        return [from_gnomon[r] for r in body.results]

    def _lowered(self, rule: Rule, inst: Instance, op: ir.Operation) -> Any:
        if not has_sizes():
            return rule(inst)
        try:
            results = rule(inst)
        except (NoDynamicForm, InconclusiveDimensionOperation) as error:
            raise LoweringError(
                f"{op.name} cannot be lowered with symbolic dimensions: {error} ({op.location})"
            ) from error
        for result in [results] if isinstance(results, ir.Value) else results:
            owner = result.owner
            if isinstance(owner, ir.Block):
                continue
            for name in owner.attributes:
                if is_symbolic_attribute(owner.attributes[name]):
                    raise LoweringError(
                        f"{op.name} cannot be lowered with symbolic dimensions: {owner.name} takes "
                        f"{name} as a number ({op.location})"
                    )
        return results

    def _call(self, op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value]:
        created = ir.Operation.create(
            "func.call",
            results=[r.type for r in op.results],
            operands=list(operands),
            attributes={"callee": ir.FlatSymbolRefAttr.get(callee(op))},
        )
        return list(created.results)

    def call_external(self, inst: Instance, name: str) -> list[ir.Value]:
        """A call of an external function, which the program's runner provides."""
        types = [mlir_type(t) for t in inst.result_types]
        operand_types = [x.type for x in inst.operands]
        self._external[name] = ir.FunctionType.get(operand_types, types, context())
        created = ir.Operation.create(
            "func.call",
            results=types,
            operands=list(inst.operands),
            attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
        )
        return list(created.results)

    def declare_external(self, module: ir.Module) -> None:
        """Declare the functions of `call_external`: calls of undeclared ones do not verify."""
        for name, type_ in self._external.items():
            ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get(name, context()),
                    "function_type": ir.TypeAttr.get(type_, context()),
                    "sym_visibility": ir.StringAttr.get("private", context()),
                },
                regions=1,
                loc=module.operation.location,
                ip=ir.InsertionPoint.at_block_begin(module.body),
            )

    # ------------------------------------------------------------------------ partitioned programs

    def _check_bound(self, definition: Op, op: ir.Operation) -> None:
        if definition.name == "shard_map" and self.mesh is None:
            raise LoweringError(
                f"{op.name} cannot be lowered: the program is not partitioned over a mesh; run the "
                f"pass expand-transformations ({op.location})"
            )
        if not definition.collective:
            return
        unbound = [name for name in params_of(op)["axes"] if name not in self.manual]
        if unbound:
            raise LoweringError(
                f"{op.name} cannot be lowered: no vmap or shard_map around it binds the axis "
                f"{unbound[0]!r} ({op.location})"
            )

    def channel(self) -> int:
        """The number of a new channel for a collective."""
        return next(self._channels)

    def mesh_name(self, axes: Sequence[str], sizes: Sequence[int], devices: Sequence[int]) -> str:
        """The name of a mesh; the first use declares it.

        Args:
          axes, sizes: the names and sizes of the axes of the mesh.
          devices: the ids of the devices of the mesh; if empty, the devices of the program in the
            program's order.
        Raises:
          LoweringError: the devices of the mesh are not those of the program.
        """
        mesh = Mesh(tuple(axes), tuple(sizes))
        order = tuple(devices) or self._devices
        if mesh.size != self._partitions or sorted(order) != sorted(self._devices):
            raise LoweringError(
                f"a mesh of the axes {dict(zip(axes, sizes, strict=True))} over the devices "
                f"{list(order)} is used in a program that is partitioned over the devices "
                f"{list(self._devices)}; a program runs on the devices of one mesh"
            )
        text = mesh.text([self._devices.index(d) for d in order])
        for name, declared in self.meshes.items():
            if declared == text:
                return name
        name = f"mesh_{len(self.meshes)}" if self.meshes else "mesh"
        self.meshes[name] = text
        return name

    def constrain(self, inst: Instance) -> ir.Value:
        """Lower a ``gnomon.sharding_constraint``."""
        p = inst.params
        (x,), (type_,) = inst.operands, inst.result_types
        used = {axis for entry in p["spec"] for axis in entry.split(",")}
        if used & set(self.manual):
            raise LoweringError(
                f"gnomon.sharding_constraint with the spec {list(p['spec'])} in a shard_map over "
                f"{list(self.manual)}: in a shard_map, each device holds its own value along the "
                "manual axes, which a sharding cannot mention"
            )
        if set(p["names"]) <= set(self.manual):
            return x  # The partitioner splits along no axis.
        name = self.mesh_name(p["names"], p["sizes"], p["devices"])
        return shardy.constrain(x, type_, name, p["spec"], result=False)

    def manual_computation(self, inst: Instance) -> list[ir.Value]:
        """Lower a ``gnomon.shard_map``; its callee is lowered as a separate function."""
        p = inst.params
        name = self.mesh_name(p["mesh_axes"], p["mesh_sizes"], ())
        signature = self.program.signature(p["callee"])
        automatic = set(p["mesh_axes"]) - set(p["manual_axes"]) - set(self.manual)

        def splits(specs: Sequence[Sequence[Sequence[str]]], types: Sequence[TensorType]) -> list:  # type: ignore[type-arg]
            return [
                [*(",".join(names) for names in spec), *[""] * (type_.rank - len(spec))]
                for spec, type_ in zip(specs, types, strict=True)
            ]

        return shardy.manual_computation(
            p["callee"],
            inst.operands,
            signature,
            inst.result_types,
            name,
            p["manual_axes"],
            (splits(p["in_specs"], signature.arguments), splits(p["out_specs"], signature.results)),
            open_=bool(automatic),
        )

    def position(self, axis: str) -> ir.Value:
        """The position of this partition along a manual axis.

        A partition has a number only if all axes are manual. If some are not, the position is
        computed by a manual computation over those axes.
        """
        mesh = self.mesh
        assert mesh is not None
        automatic = [name for name in mesh.axes if name not in self.manual]
        if not automatic:
            return collective_lowering.position(mesh, axis)
        key = mesh, axis
        if key not in self._positions:
            self._positions[key] = self._position_function(mesh, axis)
        function = self._positions[key]
        name = self.mesh_name(mesh.axes, mesh.sizes, ())
        type_ = type_of(self.program.body(function).results[0])
        return shardy.manual_computation(
            function, [], ((), [type_]), [type_], name, automatic, ((), [()]), open_=False
        )[0]

    def _position_function(self, mesh: Mesh, axis: str) -> str:
        body = Body.build([], lambda: [collective_lowering.position(mesh, axis)])
        name = self.program.add(shardy.BODY_NAME, body)
        self.program.function(name).attributes["no_inline"] = ir.UnitAttr.get(context())
        return name


# ---------------------------------------------------------------------------------------- programs


def _separate_bodies(program: Program, mesh: Mesh) -> dict[str, tuple[Mesh, tuple[str, ...]]]:
    """Give each ``gnomon.shard_map`` a separate function, with a name that Shardy recognizes.

    Returns:
      For each of these functions, its mesh and the axes that are manual in it.
    """
    bodies: dict[str, tuple[Mesh, tuple[str, ...]]] = {}
    reached: set[str] = set()

    def visit(body: Body, manual: tuple[str, ...]) -> None:
        for op in all_operations(body):
            if op.name == "func.call" and callee(op) not in reached:
                reached.add(callee(op))
                visit(program.body(callee(op)), manual)
            if op.name != "gnomon.shard_map":
                continue
            params, original = params_of(op), callee(op)
            name = program.add(
                shardy.BODY_NAME,
                program.body(original).clone(),
                location=program.function(original).location,
            )
            reached.add(name)
            op.attributes["callee"] = SYMBOL.encode(name)
            inner = tuple(
                a for a in params["mesh_axes"] if a in manual or a in params["manual_axes"]
            )
            bodies[name] = Mesh(params["mesh_axes"], params["mesh_sizes"], mesh.devices), inner
            visit(program.body(name), inner)

    for name in program.names:
        if "sym_visibility" not in program.function(name).attributes:
            reached.add(name)
            visit(program.body(name), ())
    # The functions of ops that were dropped since symbol-dce may name axes that nothing binds.
    for name in program.names:
        if name not in reached:
            program.erase(name)
    return bodies


def lower_to_stablehlo(program: Program) -> None:
    """Lower every function of a program in place."""
    mesh = shardy.mesh_of(program.module)
    bodies = {} if mesh is None else _separate_bodies(program, mesh)
    lowering = Lowering(program, mesh)
    for function in program.functions:
        name = symbol_name(function)
        lowering.mesh, lowering.manual = bodies.get(name, (mesh, ()))
        attributes = {key: function.attributes[key] for key in function.attributes}
        results_split: list[tuple[str, ...] | None] = []
        if mesh is not None:
            results_split = shardy.splits_of(function, "res_attrs")
            _mark_function(lowering, function, attributes, name in bodies)
        body = program.body(name)
        with function.location:
            holder = ir.Operation.create("gnomon.branch", regions=1, ip=False)
            types = [mlir_type(t) for t in body.argument_types]
            block = holder.regions[0].blocks.append(*types)
            with ir.InsertionPoint(block):
                results = _emit_function(lowering, body, block, "sym_visibility" not in attributes)
                if any(results_split):
                    results = _split_results(lowering, results, results_split)
                ir.Operation.create("func.return", operands=results)
        replacement = ir.Operation.create(
            "func.func",
            attributes=attributes,
            regions=1,
            loc=function.location,
            ip=ir.InsertionPoint(function),
        )
        block.append_to(replacement.regions[0])
        drop_expressions(replacement)
        function.erase()
    lowering.declare_external(program.module)
    if mesh is not None:
        del program.module.operation.attributes[shardy.MESH]
        declared = shardy.module_attributes(lowering.meshes, mesh.size)
        for key, value in declared.items():
            program.module.operation.attributes[key] = value


def _emit_function(
    lowering: Lowering, body: Body, block: ir.Block, is_public: bool
) -> list[ir.Value]:
    """Lower the body of a function; a public one checks the sizes of its arguments."""
    arguments = list(block.arguments)
    if not has_symbolic_types([x.type for x in arguments]):
        return lowering.emit(body, arguments)
    sizes = SizeValues(arguments)
    with lowering_with(sizes):
        if is_public:
            emit_assertions(sizes, arguments)
        return lowering.emit(body, arguments)


def _mark_function(
    lowering: Lowering, function: ir.Operation, attributes: dict[str, ir.Attribute], manual: bool
) -> None:
    """Write the attributes of a function of a partitioned program as Shardy reads them."""
    attributes.pop("res_attrs", None)
    if "arg_attrs" in attributes:
        mesh = lowering.mesh
        assert mesh is not None
        name = lowering.mesh_name(mesh.axes, mesh.sizes, ())
        splits = shardy.splits_of(function, "arg_attrs")
        attributes["arg_attrs"] = ir.ArrayAttr.get(
            [shardy.argument_attributes(split, name) for split in splits], context()
        )
    if manual:
        # The call marks the manual computation; inlined, the body would run on whole values.
        attributes["no_inline"] = ir.UnitAttr.get(context())


def _split_results(
    lowering: Lowering,
    results: Sequence[ir.Value],
    splits: Sequence[tuple[str, ...] | None],
) -> list[ir.Value]:
    mesh = lowering.mesh
    assert mesh is not None
    name = lowering.mesh_name(mesh.axes, mesh.sizes, ())
    return [
        x if split is None else shardy.constrain(x, type_of(x), name, split, result=True)
        for x, split in zip(results, splits, strict=True)
    ]


__all__ = ["Lowering", "LoweringError", "lower_to_stablehlo"]
