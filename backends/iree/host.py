"""Host calls: ops that compiled programs leave to Python, and the module that evaluates them.

A legalization replaces an op that Python should evaluate by ``gnomon.host_call``, which is lowered
to a call of an external function. When the executable is loaded, two things are combined:

- The *table* of those functions: the op, its attributes and its types for each one, as text in the
  executable itself (the reflection data of ``main``), so that a cached executable is complete.
- The *callbacks* of the program. Python functions exist only within a process, so the table numbers
  them, and they are passed to the executable. Programs that differ only in their callbacks share an
  executable.

IREE finds external functions in a module of its virtual machine, which `HostModule` makes from
Python functions. It calls them in the thread that runs the program, with views of buffers that are
ready.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import iree.runtime as rt
import numpy as np

from gnomon.backends.iree.buffer import import_array
from gnomon.backends.iree.driver import DriverState
from gnomon.backends.iree.reflection import HOST
from gnomon.backends.iree.remote import read, upload_and_wait
from gnomon.dialects.body import operands_of
from gnomon.dialects.callbacks import Callback, callback_of
from gnomon.dialects.contract import REGISTRY, params_of, result_types
from gnomon.dialects.host_call import evaluate_on_host, host_call
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.types import TensorType, mlir_type, tensor_type, type_of

__all__ = [
    "HostCall",
    "HostFunction",
    "HostModule",
    "collect",
    "publish",
    "read_table",
    "read_view",
]

HostCall: TypeAlias = "Callable[[Sequence[Any]], list[Any]]"
"""A host function from buffer views to buffer views that are ready."""

_MODULE = "host"
# The parameter of ops that holds the number of a Python function.
_CALLBACK = "callback"


@dataclass(frozen=True)
class HostFunction:
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
        return f"{_MODULE}.{self.name}"

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


# ------------------------------------------------------------------------------------ compile time


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
    if _CALLBACK not in params:
        return params
    number = ir.IntegerAttr(params[_CALLBACK])
    place = numbers.setdefault(number.value, len(numbers))
    attributes = {entry.name: entry.attr for entry in params}
    return ir.DictAttr.get({**attributes, _CALLBACK: ir.IntegerAttr.get(number.type, place)})


def publish(module: ir.Module, functions: Sequence[HostFunction]) -> None:
    """Write the table of the host functions of a lowered module into it."""
    if not functions:
        return
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
    main = next(op.operation for op in module.body.operations if _symbol(op.operation) == "main")
    main.attributes["iree.reflection"] = ir.DictAttr.get(
        {HOST: ir.StringAttr.get(str(table), context())}, context()
    )


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if op.name == "func.func" else ""


# ---------------------------------------------------------------------------------------- run time


def read_table(function: Any) -> list[HostFunction]:
    """The host functions of a loaded program, from the reflection data of its ``main``."""
    text = function.reflection.get(HOST)
    if text is None:
        return []
    ensure_context()
    return [
        _entry(ir.DictAttr(entry)) for entry in ir.ArrayAttr(ir.Attribute.parse(text, context()))
    ]


def _entry(entry: ir.DictAttr) -> HostFunction:
    type_ = ir.FunctionType(ir.TypeAttr(entry["type"]).value)
    return HostFunction(
        ir.StringAttr(entry["name"]).value,
        ir.StringAttr(entry["op"]).value,
        ir.DictAttr(entry["params"]),
        tuple(map(tensor_type, type_.inputs)),
        tuple(map(tensor_type, type_.results)),
    )


class HostModule:
    """The host functions of one loaded program, as a module of IREE's virtual machine.

    Args:
      functions: the program's table.
      callbacks: the Python functions that the table numbers.
      state: the device that runs the program.

    Attributes:
      calls: the functions by name, on buffer views, for callers in Python.
      module: IREE's module.
    """

    def __init__(
        self, functions: Sequence[HostFunction], callbacks: Sequence[Callback], state: DriverState
    ) -> None:
        # The functions refer to this list instead of to this object, which would be a cycle through
        # IREE's module that the garbage collector cannot see.
        self._errors: list[BaseException] = []
        self.calls: dict[str, HostCall] = {}
        interface = rt.PyModuleInterface(_MODULE, _Instance)
        for function in functions:
            call = _call(function, _resolve(function.params, callbacks), state, self._errors)
            self.calls[function.name] = call
            interface.export(function.name, function.calling_convention, _answer(call))
        self.module = interface.create()

    def take_error(self) -> BaseException | None:
        """The exception of a host function in the call that just failed."""
        return self._errors.pop() if self._errors else None


def _call(
    function: HostFunction, params: ir.DictAttr, state: DriverState, errors: list[BaseException]
) -> HostCall:
    """A host function on buffer views."""
    op = REGISTRY[f"gnomon.{function.op}"]
    given = op.decode(params)
    operands, results = function.operands, function.results

    def call(views: Sequence[Any]) -> list[Any]:
        try:
            arrays = [read_view(state, v, t) for v, t in zip(views, operands, strict=True)]
            with np.errstate(all="ignore"):
                values = evaluate_on_host(op, given, results, arrays)
            return [_device_copy(state, value) for value in values]
        except BaseException as error:
            # IREE keeps only the text of an exception; the caller raises this one again.
            errors.append(error)
            raise

    return call


def _answer(call: HostCall) -> Callable[..., Any]:
    """The function that IREE calls for a host function, on references to buffer views."""

    def answer(instance: Any, *references: Any) -> Any:
        views = call([reference.deref(rt.HalBufferView) for reference in references])
        out = [view.ref for view in views]
        return out[0] if len(out) == 1 else tuple(out) or None

    return answer


class _Instance:
    """The state of a module in one of IREE's contexts; the functions need none."""

    def __init__(self, interface: Any) -> None:
        self.interface = interface


def _resolve(params: ir.DictAttr, callbacks: Sequence[Callback]) -> ir.DictAttr:
    """The attributes, with a callback numbered within the process instead of the program."""
    if _CALLBACK not in params:
        return params
    place = ir.IntegerAttr(params[_CALLBACK])
    if place.value >= len(callbacks):
        raise LookupError(
            "the program calls Python functions of the process that it was traced in, and was "
            "loaded without them; trace it again"
        )
    number = ir.IntegerAttr.get(place.type, callbacks[place.value].number)
    return ir.DictAttr.get({**{e.name: e.attr for e in params}, _CALLBACK: number})


def read_view(state: DriverState, view: Any, type_: TensorType) -> np.ndarray[Any, Any]:
    """The read-only array of a buffer view; in place if Python shares the memory."""
    if type_.size == 0:
        return np.empty(type_.shape, type_.dtype)
    if state.shares_memory:
        array = np.ndarray(type_.shape, type_.dtype, view.map())
    else:
        array = read(state, view, type_.shape, type_.dtype)
    array.flags.writeable = False
    return array


def _device_copy(state: DriverState, array: np.ndarray[Any, Any]) -> Any:
    """A view of a copy of an array in the device's memory, which is ready."""
    if state.shares_memory:
        return import_array(state, array, copy=True)[0]
    return upload_and_wait(state, array)
