"""The Python functions that a program of jaxlib's client calls, and the exceptions they raise."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.backends.distributed.python_calls import STATUS, PythonCall
from gnomon.backends.errors import ExecutionError
from gnomon.dialects.host_call import evaluate_on_host

__all__ = ["CalledFunctions"]

# A status is the number of an error times this, plus the index of its process.
_MAX_PROCESSES = 1 << 24

# Errors are numbered downwards, since devices agree on the largest status: the first error.
_FIRST_ERROR = 1 << 38


class CalledFunctions:
    """The functions that a program calls.

    Args:
      calls: the program's calls of Python.
      process: the index of this process.
      one_device: whether the program is for one device.

    Attributes:
      functions: for each call, a function on the status and the operands, as jaxlib calls it.
    """

    def __init__(self, calls: Sequence[PythonCall], process: int, one_device: bool) -> None:
        self.functions = [self._function(call) for call in calls]
        self._process = process
        self._one_device = one_device
        self._numbers = itertools.count(_FIRST_ERROR, -1)
        # Exceptions that no call of the program has raised yet, by status.
        self._errors: dict[int, BaseException] = {}

    def _function(self, call: PythonCall) -> Callable[..., tuple[np.ndarray[Any, Any], ...]]:
        def function(
            status: np.ndarray[Any, Any], *arrays: np.ndarray[Any, Any]
        ) -> tuple[np.ndarray[Any, Any], ...]:
            code = int(status)
            if code == 0:
                try:
                    with np.errstate(all="ignore"):
                        values = evaluate_on_host(call.op, call.params, call.results, arrays)
                    return (np.zeros((), STATUS.dtype), *values)
                except BaseException as error:
                    code = next(self._numbers) * _MAX_PROCESSES + self._process
                    self._errors[code] = error
            unused = (np.zeros(t.shape, t.dtype) for t in call.results)
            return (np.asarray(code, STATUS.dtype), *unused)

        return function

    def check(self, status: int) -> None:
        """Raise if a function raised an exception during a run of the program.

        Args:
          status: the program's last status.

        Raises:
          BaseException: the exception, if it was raised in this process.
          ExecutionError: it was raised in another process.
        """
        if status == 0:
            return
        error = self._errors.pop(status, None)
        if not self._one_device:
            # Functions may have failed on several devices, and in several processes.
            error = error or next(iter(self._errors.values()), None)
            self._errors.clear()
        if error is not None:
            raise error
        raise ExecutionError(
            "a Python function that the program calls raised an exception in process "
            f"{status % _MAX_PROCESSES}, which reports it"
        )
