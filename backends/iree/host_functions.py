"""Host calls: ops that compiled programs leave to Python.

A legalization replaces an op that Python should evaluate by ``gnomon.host_call``, which is lowered
to a call of an external function. When the executable is loaded, two things are combined:

- The *table* of those functions: the op, its attributes and its types for each one, as text in the
  executable itself (the reflection data of ``main``), so that a cached executable is complete.
- The *callbacks* of the program. Python functions exist only within a process, so the table numbers
  them, and they are passed to the executable. Programs that differ only in their callbacks share an
  executable.

`host.HostModule` evaluates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gnomon.backends.iree.reflection import HOST
from gnomon.dialects.body import operands_of
from gnomon.dialects.callbacks import Callback, callback_of
from gnomon.dialects.contract import params_of, result_types
from gnomon.dialects.host_call import host_call
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.types import TensorType, mlir_type, tensor_type, type_of

__all__ = [
    "CALLBACK",
    "MODULE",
    "HostFunction",
    "as_text",
    "collect",
    "from_text",
    "publish",
    "read_table",
]

MODULE = "host"
"""The module of IREE's virtual machine that has the functions."""
CALLBACK = "callback"
"""The parameter of ops that holds the number of a Python function."""


class HostFunction(NamedTuple):
    """A function that a compiled program calls.

    Attributes:
      name: the function's name, in the module ``host``.
      op: the op that it evaluates, without ``gnomon.``.
      params: the op's attributes; a callback is numbered within the program.
      operands, results: the types of operands and results.
    """

    name: str
    op: str
    params: ir.DictAttr
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]

    @property
    def symbol(self) -> str:
        """The symbol that the program calls."""
        return f"{MODULE}.{self.name}"

    @property
    def type(self) -> ir.FunctionType:
        """Its type in MLIR."""
        return ir.FunctionType.get(
            [mlir_type(t) for t in self.operands], [mlir_type(t) for t in self.results], context()
        )

    @property
    def calling_convention(self) -> str:
        """Its type in the virtual machine: every array is a reference."""
        return f"0{'r' * len(self.operands) or 'v'}_{'r' * len(self.results) or 'v'}"


def collect(module: ir.Module) -> tuple[list[HostFunction], tuple[Callback, ...]]:
    """Name the host functions of a legalized module, and return them with their callbacks.

    Equal calls share a function.
    """
    functions: dict[tuple[Any, ...], HostFunction] = {}
    numbers: dict[int, int] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == host_call.full_name:
            params = params_of(op)
            attributes = _count_callbacks(params["params"], numbers)
            operands = tuple(type_of(v) for v in operands_of(op))
            results = result_types(op)
            key = (params["op"], attributes, operands, results)
            if key not in functions:
                functions[key] = HostFunction(f"f{len(functions)}", *key)
            op.attributes["symbol"] = ir.StringAttr.get(functions[key].symbol, context())
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return list(functions.values()), tuple(map(callback_of, numbers))


def _count_callbacks(params: ir.DictAttr, numbers: dict[int, int]) -> ir.DictAttr:
    """The attributes, with a callback numbered within the program instead of the process."""
    if CALLBACK not in params:
        return params
    number = ir.IntegerAttr(params[CALLBACK])
    place = numbers.setdefault(number.value, len(numbers))
    attributes = {entry.name: entry.attr for entry in params}
    return ir.DictAttr.get({**attributes, CALLBACK: ir.IntegerAttr.get(number.type, place)})


def as_text(functions: Sequence[HostFunction]) -> str:
    """The table of host functions, which `from_text` reads."""
    table = ir.ArrayAttr.get(
        [
            ir.DictAttr.get(
                {
                    "name": ir.StringAttr.get(f.name, context()),
                    "op": ir.StringAttr.get(f.op, context()),
                    "params": f.params,
                    "type": ir.TypeAttr.get(f.type, context()),
                },
                context(),
            )
            for f in functions
        ],
        context(),
    )
    return str(table)


def from_text(text: str) -> list[HostFunction]:
    """The host functions of a table that `as_text` has written."""
    ensure_context()
    return [
        _entry(ir.DictAttr(entry)) for entry in ir.ArrayAttr(ir.Attribute.parse(text, context()))
    ]


def publish(module: ir.Module, functions: Sequence[HostFunction]) -> None:
    """Write the table of the host functions of a lowered module into it."""
    if not functions:
        return
    main = next(op.operation for op in module.body.operations if _symbol(op.operation) == "main")
    main.attributes["iree.reflection"] = ir.DictAttr.get(
        {HOST: ir.StringAttr.get(as_text(functions), context())}, context()
    )


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if op.name == "func.func" else ""


def read_table(function: Any) -> list[HostFunction]:
    """The host functions of a loaded program, from the reflection data of its ``main``."""
    text = function.reflection.get(HOST)
    return [] if text is None else from_text(text)


def _entry(entry: ir.DictAttr) -> HostFunction:
    type_ = ir.FunctionType(ir.TypeAttr(entry["type"]).value)
    return HostFunction(
        ir.StringAttr(entry["name"]).value,
        ir.StringAttr(entry["op"]).value,
        ir.DictAttr(entry["params"]),
        tuple(map(tensor_type, type_.inputs)),
        tuple(map(tensor_type, type_.results)),
    )
