"""Calls of Python in programs for jaxlib's CPU client.

jaxlib's client compiles custom calls of Python functions. `thread_status` prepares a legalized
program for them: it threads a number, the status, through all calls of Python, in program order.

- The status makes each call depend on the one before, so that calls happen in program order.
- A call whose function raises an exception returns a status other than 0, and zeros as results.
  Then no other function is called, and loops end, except those in a ``shard_map`` that have
  collectives. An error reported to XLA would end the program on one device only, while the other
  devices wait for it in a collective.
- The last status is an additional result of ``main``: it tells all processes how the calls ended.

Outside of a ``shard_map``, the first device of the mesh makes the calls, with whole arrays. In a
``shard_map``, each device makes them, with its shards. If the ``shard_map`` is manual over some
axes of the mesh only, the operands are replicated over the other axes, and the first device along
those axes makes the calls.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.dialects import shardy
from gnomon.dialects.attributes import STRINGS
from gnomon.dialects.body import Body, clone_into, operands_of, results_of
from gnomon.dialects.callbacks import Callback, callback_of
from gnomon.dialects.contract import REGISTRY, Op, all_operations, bodies_of, lookup, params_of
from gnomon.dialects.control_flow import switch, while_
from gnomon.dialects.control_flow.bodies import split
from gnomon.dialects.emit import ops, reshape, slice_along, zeros
from gnomon.dialects.functions import Program, callee, emit_call, symbol_name
from gnomon.dialects.host_call import host_call
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.shard_map import shard_map
from gnomon.dialects.types import TensorType, type_of

__all__ = ["STATUS", "PythonCall", "emit_custom_calls", "thread_status"]

STATUS = TensorType((), np.dtype(np.int64))

_SYMBOL = "python."
_TARGET = "xla_ffi_python_cpu_callback"


class PythonCall(NamedTuple):
    """An op that Python evaluates in a program.

    Attributes:
      op: the op.
      params: its parameters.
      results: the types of its results.
      callback: the user's function, which this keeps alive; None if the op has none.
    """

    op: Op
    params: dict[str, Any]
    results: tuple[TensorType, ...]
    callback: Callback | None


def thread_status(module: ir.Module) -> list[PythonCall]:
    """Thread the status through a legalized program, and return its calls of Python."""
    program = Program(module)
    threader = _Threader(program)
    main = program.body("main")
    if not threader.calls_python(main):
        return []

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        results, status = threader.run(main, arguments, zeros(STATUS))
        return [*results, status]

    body = Body.build(main.argument_types, emit)
    original = program.function("main")
    location = original.location
    attributes = {name: original.attributes[name] for name in original.attributes}
    program.erase("main")
    program.add("main", body, public=True, location=location)
    replacement = program.function("main")
    if "res_attrs" in attributes:
        replicated = ir.DictAttr.get({shardy.SPLIT: STRINGS.encode(())}, context())
        attributes["res_attrs"] = ir.ArrayAttr.get(
            [*ir.ArrayAttr(attributes["res_attrs"]), replicated], context()
        )
    for name, attribute in attributes.items():
        if name not in ("function_type", "sym_name"):
            replacement.attributes[name] = attribute
    return threader.calls


class _Threader:
    """Emits bodies again, with the status threaded through them.

    Attributes:
      calls: the calls of Python so far.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.calls: list[PythonCall] = []
        # The axes of the mesh that are manual in the current shard_map, and the others.
        self._manual: frozenset[str] = frozenset()
        self._automatic: tuple[str, ...] = ()
        self._mesh: dict[str, Any] = {}

    def calls_python(self, body: Body) -> bool:
        """Whether a body calls Python."""
        return any(
            op.name == host_call.full_name
            or ("callee" in op.attributes and self.calls_python(self.program.body(callee(op))))
            for op in all_operations(body)
        )

    def _has_calls(self, op: ir.Operation) -> bool:
        return any(map(self.calls_python, self._inner(op)))

    def _inner(self, op: ir.Operation) -> list[Body]:
        if "callee" in op.attributes:
            return [self.program.body(callee(op))]
        return bodies_of(op) if lookup(op).is_control_flow else []

    def run(
        self, body: Body, arguments: Sequence[ir.Value], status: ir.Value
    ) -> tuple[list[ir.Value], ir.Value]:
        """Emit a body at the insertion point; return its results and the status."""
        env = dict(zip(body.arguments, arguments, strict=True))
        for op in body.operations:
            with op.location:
                if op.name != host_call.full_name and not self._has_calls(op):
                    clone_into(op, env)
                    continue
                operands = [env[v] for v in operands_of(op)]
                results, status = self._op(op, operands, status)
                env.update(zip(results_of(op), results, strict=True))
        return [env[r] for r in body.results], status

    def _op(
        self, op: ir.Operation, operands: list[ir.Value], status: ir.Value
    ) -> tuple[list[ir.Value], ir.Value]:
        if op.name == host_call.full_name:
            return self._host_call(op, operands, status)
        definition = lookup(op)
        if definition is switch:
            return self._switch(op, operands, status)
        if definition is while_:
            return self._while(op, operands, status)
        if definition is shard_map:
            return self._shard_map(op, operands, status)
        if op.name == "func.call" or definition.inline is not None:
            return self.run(self._inner(op)[0], operands, status)
        raise UnsupportedOnTarget(
            f"{op.name} has a body that calls Python, which cannot be compiled after "
            f"gnomon.distributed.initialize ({op.location})"
        )

    def _host_call(
        self, op: ir.Operation, operands: list[ir.Value], status: ir.Value
    ) -> tuple[list[ir.Value], ir.Value]:
        if self._automatic:
            return self._on_first_devices(op, operands, status)
        params = params_of(op)
        definition = REGISTRY[f"gnomon.{params['op']}"]
        decoded = definition.decode(params["params"])
        number = decoded.get("callback")
        callback = None if number is None else callback_of(number)
        symbol = f"{_SYMBOL}{len(self.calls)}"
        self.calls.append(PythonCall(definition, decoded, params["given"], callback))
        given = (STATUS, *params["given"])
        encoded = {entry.name: entry.attr for entry in params["params"]}
        status, *results = host_call.build(
            [status, *operands], {**params, "params": encoded, "given": given, "symbol": symbol}
        )
        return results, status

    def _on_first_devices(
        self, op: ir.Operation, operands: list[ir.Value], status: ir.Value
    ) -> tuple[list[ir.Value], ir.Value]:
        """Emit a call that the first device along the axes that are not manual makes."""
        axes = self._automatic
        sizes = dict(zip(self._mesh["mesh_axes"], self._mesh["mesh_sizes"], strict=True))
        size = math.prod(sizes[name] for name in axes)
        given = params_of(op)["given"]

        def call(status: ir.Value, *values: ir.Value) -> list[ir.Value]:
            results, status = self._host_call(op, list(values), status)
            return [status, *results]

        def first(x: ir.Value) -> ir.Value:
            gathered = ops.all_gather(x, axes=axes, dimension=0, size=size, groups=())
            return reshape(slice_along(gathered, 0, 0, 1), type_of(x).shape)

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            types = [type_of(x) for x in arguments]
            unused = Body.build(types, lambda status, *_: [status, *map(zeros, given)])
            place = functools.reduce(ops.max, (ops.axis_index(axes=(name,)) for name in axes))
            called = switch.build([place, *arguments], {}, [Body.build(types, call), unused])
            return [first(x) for x in called]

        self._automatic = ()
        body = Body.build([STATUS, *map(type_of, operands)], emit)
        self._automatic = axes
        name = self.program.add("on_first_devices", body)
        status, *results = emit_call(
            self.program,
            shard_map,
            name,
            [status, *operands],
            **self._mesh,
            manual_axes=axes,
            in_specs=((), *(() for _ in operands)),
            out_specs=((), *(() for _ in given)),
            check_vma=False,
        )
        return results, status

    def _switch(
        self, op: ir.Operation, operands: list[ir.Value], status: ir.Value
    ) -> tuple[list[ir.Value], ir.Value]:
        index, *values = operands
        types = [STATUS, *map(type_of, values)]

        def threaded(body: Body) -> Body:
            def emit(entering: ir.Value, *arguments: ir.Value) -> list[ir.Value]:
                results, leaving = self.run(body, arguments, entering)
                return [leaving, *results]

            return Body.build(types, emit)

        bodies = [threaded(body) for body in bodies_of(op)]
        status, *results = switch.build([index, status, *values], {}, bodies)
        return results, status

    def _while(
        self, op: ir.Operation, operands: list[ir.Value], status: ir.Value
    ) -> tuple[list[ir.Value], ir.Value]:
        """Emit a loop whose condition is a carry, since a condition cannot return a status."""
        params = params_of(op)
        for_cond, for_body, carry = split(operands, params["cond_consts"], params["body_consts"])
        cond, body = bodies_of(op)
        # In a shard_map, a call may fail on one device only, and collectives need all devices.
        ends_early = not self._manual or not any(
            lookup(inner).collective for each in (cond, body) for inner in all_operations(each)
        )

        def test(values: Sequence[ir.Value], status: ir.Value) -> list[ir.Value]:
            (going,), status = self.run(cond, values, status)
            if ends_early:
                going = ops.and_(going, ops.eq(status, zeros(STATUS)))
            return [going, status]

        def emit(*inputs: ir.Value) -> list[ir.Value]:
            tested, consts, (_, entering), values = split(inputs, len(for_cond), len(for_body), 2)
            new, leaving = self.run(body, [*consts, *values], entering)
            return [*test([*tested, *new], leaving), *new]

        start = [*test([*for_cond, *carry], status), *carry]
        consts = [*for_cond, *for_body]
        types = [type_of(v) for v in start]
        _, status, *results = while_.build(
            [*consts, *start],
            {"cond_consts": 0, "body_consts": len(consts)},
            [
                Body.build(types, lambda going, *carried: [going]),
                Body.build([*map(type_of, consts), *types], emit),
            ],
        )
        return results, status

    def _shard_map(
        self, op: ir.Operation, operands: list[ir.Value], status: ir.Value
    ) -> tuple[list[ir.Value], ir.Value]:
        params = params_of(op)
        manual = frozenset(params["manual_axes"])
        sizes = zip(params["mesh_axes"], params["mesh_sizes"], strict=True)
        outer = self._manual, self._automatic, self._mesh
        self._manual |= manual
        self._automatic = tuple(a for a, n in sizes if n > 1 and a not in self._manual)
        self._mesh = {name: params[name] for name in ("mesh_axes", "mesh_sizes")}
        original = params["callee"]
        body = self.program.body(original)

        def emit(entering: ir.Value, *arguments: ir.Value) -> list[ir.Value]:
            results, leaving = self.run(body, arguments, entering)
            # All devices continue with the same status.
            return [ops.pmax(leaving, axes=tuple(sorted(manual)), groups=()), *results]

        threaded = Body.build([STATUS, *body.argument_types], emit)
        self._manual, self._automatic, self._mesh = outer
        name = self.program.add(f"{original}.python", threaded, like=original)
        params = {k: v for k, v in params.items() if k not in ("callee", "signature")}
        params["in_specs"] = ((), *params["in_specs"])
        params["out_specs"] = ((), *params["out_specs"])
        status, *results = emit_call(self.program, shard_map, name, [status, *operands], **params)
        return results, status


# --------------------------------------------------------------------------------------- StableHLO


def emit_custom_calls(module: ir.Module) -> None:
    """Replace the external functions of a lowered program by custom calls of jaxlib."""
    is_partitioned = shardy.has_meshes(module)
    mesh = shardy.first_mesh(module) if is_partitioned else None
    any_on_first = False
    for function in [op.operation for op in module.body.operations]:
        name = symbol_name(function)
        if name.startswith(_SYMBOL):
            function.erase()
            continue
        on_first = is_partitioned and not name.startswith(shardy.BODY_NAME)
        for op in _external_calls(function):
            _emit_custom_call(op, on_first, mesh)
            any_on_first = any_on_first or on_first
    if any_on_first:
        shardy.declare_first_device(module)


def _external_calls(function: ir.Operation) -> list[ir.Operation]:
    calls: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "func.call" and callee(op).startswith(_SYMBOL):
            calls.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return calls


def _emit_custom_call(op: ir.Operation, on_first: bool, mesh: str | None) -> None:
    index = int(callee(op).removeprefix(_SYMBOL))
    types = [r.type for r in op.results]
    with ir.InsertionPoint(op), op.location:
        operands = list(op.operands)
        if on_first:
            operands = _replicated(operands, mesh)
        attributes = {
            "call_target_name": ir.StringAttr.get(_TARGET, context()),
            # The typed FFI, which takes a dictionary of parameters.
            "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32, context()), 4),
            "has_side_effect": ir.BoolAttr.get(True, context()),
            "backend_config": ir.Attribute.parse(f"{{index = {index} : ui64}}", context()),
            "operand_layouts": _row_major([x.type for x in operands]),
            "result_layouts": _row_major(types),
        }
        if on_first:
            attributes |= shardy.on_first_device(len(types))
        created = ir.Operation.create(
            "stablehlo.custom_call", results=types, operands=operands, attributes=attributes
        )
        results = list(created.results)
        if on_first:
            results = _replicated(results, mesh)
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _replicated(values: Sequence[ir.Value], mesh: str | None) -> list[ir.Value]:
    """The values, replicated over a mesh; XLA warns of other ways to and from a single device."""
    if mesh is None:
        return list(values)
    types = map(type_of, values)
    return [
        shardy.constrain(x, type_, mesh, ("",) * type_.rank, result=False)
        for x, type_ in zip(values, types, strict=True)
    ]


def _row_major(types: Sequence[ir.Type]) -> ir.ArrayAttr:
    """Row-major layouts, which NumPy's arrays have; without them, XLA may choose others."""

    def layout(type_: ir.Type) -> ir.Attribute:
        rank = ir.RankedTensorType(type_).rank
        order = ", ".join(map(str, reversed(range(rank))))
        return ir.Attribute.parse(
            f"dense<{f'[{order}]' if rank else ''}> : tensor<{rank}xindex>", context()
        )

    return ir.ArrayAttr.get([layout(t) for t in types], context())
