"""Jitted functions, which look up the compiled program of a call, or compile one."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, explicit_sharding
from gnomon._arrays.concrete import committed_device
from gnomon._compilation.arguments import ArgumentRoles, Call, check_arguments
from gnomon._compilation.entry import CheckedEntry, Entry
from gnomon._compilation.log import (
    level_of_messages,
    log_cache_miss,
    log_finished,
    remember_signature,
    watches_compilation,
)
from gnomon._compilation.lowered import Lowered
from gnomon._compilation.programs import abstractify, programs_of
from gnomon._compilation.progress import explained
from gnomon._compilation.shardings import RequestedShardings, Shardings, no_requested_shardings
from gnomon._compilation.stages import TracedFunction, aval_of
from gnomon._compilation.static_data import static_key, structure_key
from gnomon._compilation.tiered import TieredEntry
from gnomon._config.current import config
from gnomon._native import Dispatcher
from gnomon._sharding.device import (
    Device,
    default_device,
    devices_of,
    in_host_memory,
    is_addressable,
    is_described,
)
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._tracing.bind import as_operand, trace_for
from gnomon._tracing.cache import TraceCache
from gnomon._tracing.constraints import constrained
from gnomon._tracing.differentiation_order import differentiation_order
from gnomon._tracing.evaluation import check_execution
from gnomon._tracing.function import (
    Traced,
    call_function,
    has_float0,
    name_of,
    trace_function,
    with_avals,
    without_float0,
)
from gnomon._tracing.stack import outside_of_traces, program_memo, program_platform, staging, state
from gnomon._tracing.stateful import StatefulFunction
from gnomon._tracing.trace import is_tracer
from gnomon.backends import platforms
from gnomon.backends.errors import BackendUnavailable

__all__ = ["JitFunction"]

P = ParamSpec("P")
R = TypeVar("R")


class JitFunction(Dispatcher, StatefulFunction, Generic[P, R]):
    """A jitted function, which is traced and compiled for each new signature."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_cache",
        "_fun",
        "_place",
        "_programs",
        "_requested",
        "_roles",
        "_tiered",
        "_traces",
    )

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Run the compiled program of this signature, compiling it if it is new."""

    def __init__(
        self,
        fun: Callable[P, R],
        static_argnums: Any,
        static_argnames: Any,
        donate_argnums: Any,
        donate_argnames: Any,
        place: Device | str | None = None,
        requested: RequestedShardings = no_requested_shardings,
        tiered: bool | None = None,
    ) -> None:
        self._roles = ArgumentRoles.of(
            fun, static_argnums, static_argnames, donate_argnums, donate_argnames
        )
        self._programs = programs_of(fun, self._roles, place, requested, tiered)
        self._cache = self._programs.cache
        Dispatcher.__init__(self, self._cache, config, state)
        self._describe_as(fun)
        self._fun = fun
        self._place = place
        self._requested = requested
        self._tiered = tiered
        self._traces = TraceCache(tiered)

    def __repr__(self) -> str:
        return f"<jit of {name_of(self._fun)}>"

    if not TYPE_CHECKING:  # Else every attribute would be known to type checkers.

        def __getattr__(self, name: str) -> Any:
            # Asked for by `inspect.signature(f, follow_wrapped=False)`, and rarely.
            if name == "__signature__":
                return inspect.signature(self._fun)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> Any:
        static, donated = self._roles.static, self._roles.donated
        place = self._place, self._requested, self._tiered
        attributes = self._own_attributes(self._fun)
        return JitFunction, (self._fun, *static, *donated, *place), attributes

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call for which `Dispatcher` has found no entry, or that may be traced."""
        try:
            entry, leaves, key = self._cache.lookup(args, kwargs, config.token)
        except (OverflowError, TypeError, ValueError):
            if has_float0(tree_util.tree_leaves((args, kwargs))):
                replaced: Any = without_float0((args, kwargs))
                return self(*replaced[0], **replaced[1])
            check_arguments(Call(self._roles, args, kwargs), self._fun, abstractify)
            raise
        if (key is None or staging()) and trace_for(leaves) is not None:
            return self._call_traced(args, kwargs)
        if entry is None:
            if config.disable_jit:
                return self._fun(*args, **kwargs)
            call = Call(self._roles, args, kwargs)
            start = log_cache_miss(self._fun, call) if watches_compilation() else None
            traced, place, shardings = self._trace_with_place(call, compiles=True)
            if start is not None:
                log_finished("tracing", self._fun, start, level_of_messages())
            check_execution(f"jit of {name_of(self._fun)}")
            if any(is_tracer(c) for c in traced.captures):
                # The function closes over a tracer (a jitted inner function under grad): the call
                # becomes part of that trace, and the result cannot be cached for other traces.
                return self._call_traced(args, kwargs)
            compiled = self._entry(traced, call, place, shardings, start)
            if config.checks_values:
                entry = CheckedEntry(compiled, self._fun, call)
            else:
                entry = compiled.direct() if isinstance(compiled, Entry) else compiled
            assert key is not None  # only calls with tracers have none
            self._cache.insert(key, entry)
            remember_signature(self._fun, call)
        return entry(leaves)

    def wait_for_compilation(self, timeout: float | None = None) -> None:
        """Wait until the programs that are being compiled in the background are ready.

        Return at once if none are: see ``tiered`` of `jit`.

        Raises:
          TimeoutError: compilation takes longer than ``timeout`` seconds.
          CompilationError: a compilation failed; the next call of that signature raises it too.

        Example:
          >>> import gnomon as gn, gnomon.numpy as gnp
          >>> f = gn.jit(lambda x: gnp.sin(x) ** 2, tiered=True)
          >>> f(0.0)  # evaluated
          Array(0., dtype=float32...)
          >>> f.wait_for_compilation()
          >>> f(0.0)  # compiled
          Array(0., dtype=float32...)
        """
        end = None if timeout is None else time.monotonic() + timeout
        for entry in list(self._programs.tiered):
            entry.wait(None if end is None else max(0.0, end - time.monotonic()))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower for arguments of these types.

        Args:
          args, kwargs: arrays, or anything with ``shape`` and ``dtype``
            (`gnomon.ShapeDtypeStruct`).
        """
        return self.trace(*args, **kwargs).lower()

    def trace(self, *args: Any, **kwargs: Any) -> TracedFunction:
        """Trace for arguments of these types: the first stage of compiling ahead of time."""
        call = Call(self._roles, args, kwargs)
        traced, place, shardings = self._trace_with_place(call)

        def lower(platform: str | None) -> Lowered:
            chosen = traced, place, shardings
            if platform is not None:
                chosen = self._trace_on(call, next(filter(is_addressable, devices_of(platform))))
            trace, device, shards = chosen
            return Lowered(self._fun, trace, call, device, shards, keep_stages=True)

        return TracedFunction(call, traced, name_of(self._fun), lower)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the results, without computing them."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget all compiled programs."""
        self._cache.clear()
        self._traces.clear()

    def _cache_size(self) -> int:
        return self._cache.size()

    # ----------------------------------------------------------------------------------- compiling

    def _entry(
        self,
        traced: Traced,
        call: Call,
        place: tuple[Device, bool],
        shardings: Shardings,
        start: float | None,
    ) -> Entry | TieredEntry:
        """Make the entry of a new signature: compiled here, or in the background if tiered.

        Args:
          start: when the call began, if the time is to be logged.
        """

        def log() -> None:
            if start is not None:
                log_finished("compiling", self._fun, start, level)

        if is_described(place[0]):
            raise BackendUnavailable(
                f"jit of {name_of(self._fun)}: {place[0]!r} are only described, so they cannot "
                "run programs; compile for them with .lower(...).compile()"
            )
        level = level_of_messages()
        tiered = config.tiered if self._tiered is None else self._tiered
        if tiered and in_host_memory(place[0]):
            entry = TieredEntry(self._fun, traced, call, place, shardings, bool(self._tiered), log)
            self._programs.tiered.add(entry)
            return entry
        lowered = Lowered(self._fun, traced, call, place, shardings, keep_stages=False)
        name = name_of(self._fun)
        with explained(name) if config.explain_compiles else nullcontext():
            compiled = lowered.compile().entry
        log()
        return compiled

    def _trace_with_place(
        self, call: Call, *, compiles: bool = False
    ) -> tuple[Traced, tuple[Device, bool], Shardings]:
        """Trace for the device that the program will run on; return it with the trace.

        Args:
          compiles: whether the program will be compiled at once.
        """
        place = self._place_of(call, (), None)
        if compiles and config.cpu_compiler == "iree" and in_host_memory(place[0]):
            platforms.prestart_host_compiler()
        while True:
            with outside_of_traces(), program_platform(place[0].platform) as asked:
                key = self._memo_key(call, [aval_of(leaf) for leaf in call.leaves])
                traced = self._traces.copy(key, lambda: self._trace(call))
            shardings = self._shardings_of(call, traced)
            before, place = place, self._place_of(call, traced.captures, shardings.place)
            # The arrays that the function closes over are known only after tracing. If they change
            # the program's platform, a function that asked for the platform is traced again.
            if not asked or place[0].platform == before[0].platform:
                return traced, place, shardings

    def _trace_on(
        self, call: Call, device: Device
    ) -> tuple[Traced, tuple[Device, bool], Shardings]:
        """Trace for a device that the caller has chosen."""
        with outside_of_traces(), program_platform(device.platform):
            key = self._memo_key(call, [aval_of(leaf) for leaf in call.leaves])
            traced = self._traces.copy(key, lambda: self._trace(call))
        shardings = self._shardings_of(call, traced)
        place = shardings.place
        if place is not None and place.platform != device.platform:
            raise ValueError(
                f"lower: jit of {name_of(self._fun)} has shardings on {place!r}, but is lowered "
                f"for {device.platform!r}"
            )
        return traced, (place or device, True), shardings

    def _shardings_of(self, call: Call, traced: Traced) -> Shardings:
        return Shardings(
            self._requested,
            call,
            traced,
            lambda i: f"{call.leaf_names(self._fun)[i]} of jit of {name_of(self._fun)}",
            config.mesh_context[0],
        )

    def _place_of(
        self, call: Call, captures: Sequence[Array], sharded: Device | None
    ) -> tuple[Device, bool]:
        """The device of the program, and whether its results are committed to it."""
        if self._place is not None:
            place = self._place
            return (devices_of(place)[0] if isinstance(place, str) else place), True
        arrays = [*call.leaves, *captures]

        def describe(i: int) -> str:
            if i < len(call.leaves):
                return f"{call.leaf_names(self._fun)[i]} of jit of {name_of(self._fun)}"
            return f"an array that jit of {name_of(self._fun)} closes over"

        device = committed_device(arrays, describe)
        if sharded is not None:
            if device not in (None, sharded):
                raise ValueError(
                    f"received incompatible devices: arguments of jit of {name_of(self._fun)} are "
                    f"committed to {device!r}, but its shardings are on {sharded!r}"
                )
            return sharded, True
        return (default_device(), False) if device is None else (device, True)

    def _trace(self, call: Call) -> Traced:
        def run(tracers: list[Any]) -> tuple[Any, Any]:
            args, kwargs = call.arguments(tracers)
            return self._fun(*args, **kwargs), None

        requested = self._requested.inputs(call)
        avals = [
            aval.update(sharding=explicit_sharding(sharding, aval.ndim))
            for aval, sharding in zip(map(aval_of, call.leaves), requested, strict=True)
        ]
        return trace_function(
            run,
            self._fun,
            "jit",
            avals,
            staging=True,
            names=call.leaf_names(self._fun),
        )

    # -------------------------------------------------------------------------- inside of a trace

    def _call_traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        call = Call(self._roles, args, kwargs)
        leaves = [as_operand(leaf) for leaf in call.leaves]
        if self._requested.ins is not None:
            leaves = _constrained(leaves, self._requested.inputs(call))
        memo = program_memo()
        key = self._memo_key(call, [leaf.aval for leaf in leaves])
        traced_function = memo.get((self, key))
        if traced_function is None:
            # A partial adds no frame to the stack, which nested jitted functions fill.
            traced_function = self._traces.function(key, functools.partial(self._trace, call))
            if not any(is_tracer(c) for c in traced_function[1].captures):
                memo[self, key] = traced_function
        name, traced = traced_function
        self._requested.check_layouts(call, traced)
        results = call_function(traced.program, name, [*leaves, *traced.captures])
        results = with_avals(results, traced.avals)
        if self._requested.outs is not None:
            results = _constrained(results, self._requested.outputs(traced.tree))
        return tree_util.tree_unflatten(traced.tree, results)

    def _memo_key(self, call: Call, avals: list[ShapedArray]) -> Any:
        """A key of everything that the traced program depends on."""
        statics = static_key((*call.static_args.items(), *call.static_kwargs.items()))
        # Rules of custom derivatives are traced for as many derivatives as may still be taken.
        order = differentiation_order()
        axes = tuple((axis.name, axis.size) for axis in state.axes)
        tree = structure_key(call.tree)
        return (tree, tuple(avals), statics, call.count, config.token, order, axes)


def _constrained(arrays: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Traced values, each constrained to its requested sharding if that is over a mesh."""
    return [
        constrained(x, sharding) if isinstance(sharding, NamedSharding) else x
        for x, sharding in zip(arrays, shardings, strict=True)
    ]
