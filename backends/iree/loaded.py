"""Programs in IREE's virtual machine, called under a lock, and measured by their first calls."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import iree.runtime as rt

from gnomon._native import CallLock
from gnomon.backends.errors import ExecutionError
from gnomon.backends.iree.blas import load_for
from gnomon.backends.iree.buffer import execution_error
from gnomon.backends.iree.device import DriverState, runtime_generation
from gnomon.backends.iree.host import HostModule
from gnomon.backends.iree.host_functions import read_table
from gnomon.backends.iree.interrupts import run_interruptibly
from gnomon.backends.iree.reflection import STEPS
from gnomon.backends.iree.scratch import loading_libraries
from gnomon.backends.iree.waiting import Pace
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.deferred import Deferred

__all__ = ["LoadedProgram"]

# Few programs have steps.
stepped: Any = Deferred("gnomon.backends.iree.stepped")

# After a call that took this long, the next one runs so that an interrupt can end it.
_SLOW_S = 0.02
# The memory of a call is the minimum over this many calls, since other threads allocate meanwhile.
_MEASURED_CALLS = 3


class LoadedProgram:
    """A program in IREE's virtual machine.

    Attributes:
      host: the Python functions that it calls, or None.
      function: the function to invoke, or None if Python runs steps of it.
      context: the context in which to invoke it.
      invoke: runs it on a list of arguments, and fills a list of results.
      footprint: the bytes that a call allocates, as far as measured.
      pace: how long a call takes that no other program delays; None if its loops may take any time.
      unmeasured: the number of calls left in which to measure that.
      slow: whether the next call is expected to take long.
      unbounded: whether any call may take long.
    """

    __slots__ = (
        "context",
        "footprint",
        "function",
        "generation",
        "host",
        "invoke",
        "lock",
        "pace",
        "slow",
        "state",
        "unbounded",
        "unmeasured",
    )

    invoke: Callable[[Any, Any], None]

    def __init__(
        self,
        vmfb: bytes,
        state: DriverState,
        callbacks: Sequence[Callback],
        slow: bool,
        unbounded: bool,
    ) -> None:
        self.state = state
        self.slow = slow or unbounded
        self.unbounded = unbounded
        self.generation = runtime_generation()
        # IREE does not allow concurrent calls of one context.
        self.lock = CallLock()
        self.footprint = 0
        self.pace = None if unbounded else Pace()
        self.unmeasured = _MEASURED_CALLS
        if state.shares_memory:
            load_for(vmfb)
        state.activate()
        try:
            module = rt.VmModule.copy_buffer(state.instance, vmfb)
            function = module.lookup_function("main")
            table = read_table(function) if function is not None else []
            self.host = HostModule(table, callbacks, state) if table else None
            modules = (
                [state.module, self.host.module, module] if self.host else [state.module, module]
            )
            with loading_libraries():
                context = rt.VmContext(state.instance, modules)
        except Exception as error:
            raise execution_error("the compiled program cannot be loaded", error, state) from error
        if function is None:
            raise ExecutionError(
                "the compiled program has no function `main`; it was compiled from something "
                f"else, with the functions {sorted(module.function_names)}"
            )
        self.context = context
        self.function = None
        if STEPS not in function.reflection:
            self.function = function
            self.invoke = functools.partial(context.invoke, function)
        else:
            calls = self.host.calls if self.host else {}
            steps = stepped.read_steps(function)
            self.invoke = stepped.Stepper(steps, module, context, calls, state)

    @property
    def is_quick(self) -> bool:
        """Whether the next call needs neither measuring nor care for interrupts."""
        return not (self.slow or self.unmeasured)

    def call(self, arguments: Any, results: Any, keep_alive: object) -> None:
        """Run the program; in the main thread, an interrupt ends a call expected to take long.

        Args:
          arguments, results: see `invoke`.
          keep_alive: the memory that it reads, since it continues to run after an interrupt.
        """
        if self.slow and threading.current_thread() is threading.main_thread():
            run_interruptibly(lambda: self._call_measured(arguments, results, keep_alive))
        else:
            self._call_measured(arguments, results, keep_alive)

    def _call_measured(self, arguments: Any, results: Any, _keep_alive: object) -> None:
        with self.lock:
            self.state.activate()
            started = time.perf_counter()
            if self.unmeasured:
                _invoke_measured(self, arguments, results)
            else:
                self.invoke(arguments, results)
            self.slow = self.unbounded or time.perf_counter() - started > _SLOW_S


def _invoke_measured(loaded: LoadedProgram, arguments: Any, results: Any) -> None:
    """Run a program and record the memory that it allocates."""
    state = loaded.state
    if not state.shares_memory:
        loaded.unmeasured = 0
        loaded.invoke(arguments, results)
        return
    before = state.allocated_bytes()
    loaded.invoke(arguments, results)
    allocated = state.allocated_bytes() - before
    first = loaded.unmeasured == _MEASURED_CALLS
    loaded.footprint = allocated if first else min(allocated, loaded.footprint)
    loaded.unmeasured -= 1
