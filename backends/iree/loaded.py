"""Programs in IREE's virtual machine, called under a lock, and timed."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import iree.runtime as rt

from gnomon._native import CallLock
from gnomon.backends.errors import ExecutionError
from gnomon.backends.interrupts import run_interruptibly
from gnomon.backends.iree.blas import load_for
from gnomon.backends.iree.buffer import execution_error
from gnomon.backends.iree.device import DriverState, runtime_generation
from gnomon.backends.iree.host import HostModule
from gnomon.backends.iree.host_functions import read_table
from gnomon.backends.iree.inside import planned_memory
from gnomon.backends.iree.inside.libraries import loading_libraries
from gnomon.backends.iree.reflection import MEMORY, STEPS
from gnomon.backends.iree.waiting import Pace
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.deferred import Deferred

__all__ = ["LoadedProgram"]

# Few programs have steps.
stepped: Any = Deferred("gnomon.backends.iree.stepped")

# After a call that took this long, the next one runs so that an interrupt can end it.
_SLOW_S = 0.02


class LoadedProgram:
    """A program in IREE's virtual machine.

    Attributes:
      host: the Python functions that it calls, or None.
      function: the function to invoke, or None if Python runs steps of it.
      context: the context in which to invoke it.
      invoke: runs it on a list of arguments, and fills a list of results.
      temporaries: the bytes that a call allocates at most besides its results; None if that depends
        on the arguments.
      pace: how long a call takes that no other program delays; None if its loops may take any time.
      slow: whether the next call is expected to take long.
      unbounded: whether any call may take long.
    """

    __slots__ = (
        "context",
        "function",
        "generation",
        "host",
        "invoke",
        "lock",
        "pace",
        "slow",
        "state",
        "temporaries",
        "unbounded",
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
        self.pace = None if unbounded else Pace()
        state.activate()
        if state.shares_memory:
            load_for(vmfb)
            # Arrays of the sizes of other programs may never be needed again.
            state.allocator.trim()
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
        planned = function.reflection.get(MEMORY)
        self.temporaries = None if planned is None else planned_memory.read(planned).temporaries
        self.function = None
        if STEPS not in function.reflection:
            self.function = function
            self.invoke = functools.partial(context.invoke, function)
        else:
            calls = self.host.calls if self.host else {}
            steps = stepped.read_steps(function)
            self.invoke = stepped.Stepper(steps, module, context, calls, state)

    def call(self, arguments: Any, results: Any, keep_alive: object) -> None:
        """Run the program; in the main thread, an interrupt ends a call expected to take long.

        Args:
          arguments, results: see `invoke`.
          keep_alive: the memory that it reads, since it continues to run after an interrupt.
        """
        if self.slow and threading.current_thread() is threading.main_thread():
            run_interruptibly(lambda: self._call_timed(arguments, results, keep_alive))
        else:
            self._call_timed(arguments, results, keep_alive)

    def _call_timed(self, arguments: Any, results: Any, _keep_alive: object) -> None:
        with self.lock:
            self.state.activate()
            started = time.perf_counter()
            self.invoke(arguments, results)
            self.slow = self.unbounded or time.perf_counter() - started > _SLOW_S
