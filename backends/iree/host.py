"""The module that evaluates host calls, which compiled programs leave to Python.

IREE finds external functions in a module of its virtual machine, which `HostModule` makes from
Python functions. It calls them in the thread that runs the program, with views of buffers that are
ready. `host_functions` says how programs name them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import iree.runtime as rt
import numpy as np

from gnomon.backends.iree.buffer import import_array
from gnomon.backends.iree.driver import DriverState
from gnomon.backends.iree.host_functions import CALLBACK, MODULE, HostFunction
from gnomon.backends.iree.remote import read, upload_and_wait
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.host_call import evaluate_on_host
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType

__all__ = ["HostCall", "HostModule", "read_view", "resolve"]

HostCall: TypeAlias = "Callable[[Sequence[Any]], list[Any]]"
"""A host function from buffer views to buffer views that are ready."""


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
        interface = rt.PyModuleInterface(MODULE, _Instance)
        for function in functions:
            call = _call(function, resolve(function.params, callbacks), state, self._errors)
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


def resolve(params: ir.DictAttr, callbacks: Sequence[Callback]) -> ir.DictAttr:
    """The attributes, with a callback numbered within the process instead of the program."""
    if CALLBACK not in params:
        return params
    place = ir.IntegerAttr(params[CALLBACK])
    if place.value >= len(callbacks):
        raise LookupError(
            "the program calls Python functions of the process that it was traced in, and was "
            "loaded without them; trace it again"
        )
    number = ir.IntegerAttr.get(place.type, callbacks[place.value].number)
    return ir.DictAttr.get({**{e.name: e.attr for e in params}, CALLBACK: number})


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
