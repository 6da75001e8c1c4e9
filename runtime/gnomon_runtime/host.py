"""Host functions: operations that compiled programs leave to NumPy, and their module.

IREE has no code for factorizations of matrices. A program calls an external function for each. The
artifact's metadata lists the operation, the parameters and the types for the name of each function.
IREE finds external functions in a module of its virtual machine; `HostModule` makes such a module
of the functions in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import iree.runtime as rt
import numpy as np

from gnomon_runtime.artifact import HostFunction
from gnomon_runtime.devices import Device
from gnomon_runtime.dtypes import dtype_named
from gnomon_runtime.linear_algebra.functions import FUNCTIONS

__all__ = ["HostModule", "evaluate"]

_MODULE = "host"


def evaluate(function: HostFunction, arrays: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """The results of a host function, of the types that the program expects.

    Raises:
      TypeError: the function has other parameters, or gives other shapes.
    """
    rule: Callable[..., Any] = FUNCTIONS[function.op]
    with np.errstate(all="ignore"):
        found = rule(*arrays, **function.params)
    given = found if isinstance(found, (tuple, list)) else (found,)
    if len(given) != len(function.results):
        raise TypeError(f"{function.op} has {len(given)} results, not {len(function.results)}")
    results = []
    for value, type_ in zip(given, function.results, strict=True):
        results.append(np.asarray(value, dtype_named(type_.dtype)))
        if results[-1].shape != type_.shape:
            raise TypeError(
                f"{function.op} returned an array of shape {results[-1].shape} to a program that "
                f"expects {type_}"
            )
    return results


class HostModule:
    """The host functions of one loaded program, as a module of IREE's virtual machine.

    Attributes:
      module: IREE's module.
    """

    def __init__(self, functions: Sequence[HostFunction], device: Device) -> None:
        # The functions hold this separate list, not this object. Otherwise there would be a cycle:
        # this object holds the module, and the module holds the functions where the garbage
        # collector does not see them.
        self._errors: list[BaseException] = []
        interface = rt.PyModuleInterface(_MODULE, _Instance)
        for function in functions:
            answer = _answer(function, device, self._errors)
            interface.export(function.name, _calling_convention(function), answer)
        self.module = interface.create()

    def take_error(self) -> BaseException | None:
        """The exception of a host function in the call that just failed."""
        return self._errors.pop() if self._errors else None


class _Instance:
    """The state of a module in one of IREE's contexts; the functions need none."""

    def __init__(self, interface: Any) -> None:
        self.interface = interface


def _calling_convention(function: HostFunction) -> str:
    """The type in the virtual machine, where every array is a reference."""
    return f"0{'r' * len(function.operands) or 'v'}_{'r' * len(function.results) or 'v'}"


def _answer(
    function: HostFunction, device: Device, errors: list[BaseException]
) -> Callable[..., Any]:
    """The entry that IREE calls for a host function: it takes and returns buffer views."""

    def read(reference: Any, type_: Any) -> np.ndarray[Any, Any]:
        view, dtype = reference.deref(rt.HalBufferView), dtype_named(type_.dtype)
        # A module that contradicts the table must not be read beyond its end.
        size = math.prod(type_.shape) * dtype.itemsize
        if view.byte_length != size:
            raise TypeError(f"{function.op} was given {view.byte_length} bytes, not {size}")
        return device.values_of(view, type_.shape, dtype)

    def answer(instance: Any, *references: Any) -> Any:
        try:
            arrays = [read(r, t) for r, t in zip(references, function.operands, strict=True)]
            views = [device.copied(value) for value in evaluate(function, arrays)]
        except BaseException as error:
            # IREE keeps the text of an exception only; the caller raises this one again.
            errors.append(error)
            raise
        out = [view.ref for view in views]
        return out[0] if len(out) == 1 else tuple(out) or None

    return answer
