"""Compilation: `jit`, and the stages of a compiled function."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from gnomon import _evaluation, _native, _on_device, tree_util
from gnomon._ahead_of_time import CompiledForTarget
from gnomon._array import (
    Array,
    ConcreteArray,
    PlacedArray,
    committed_device,
    placed_buffer,
    wrap_buffer,
)
from gnomon._aval import ShapedArray
from gnomon._compile_log import log_compiled, watched_miss
from gnomon._config import config
from gnomon._device import HOST, Device, as_device, default_device, devices_of
from gnomon._differentiation_order import differentiation_order
from gnomon._evaluation import invalid_value
from gnomon._function import (
    Traced,
    call_function,
    check_callable,
    name_of,
    trace_function,
    with_avals,
)
from gnomon._stages import ShapeDtypeStruct, Stage, TracedFunction, aval_of
from gnomon._trace import Tracer, is_tracer
from gnomon._trace_stack import evaluation, program_memo, program_platform, staging
from gnomon._tracing import as_operand, trace_for
from gnomon._tree import flatten_one_level
from gnomon.backends.compilation import Artifact, Stages
from gnomon.backends.interface import Buffer, Executable


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
) -> Any:
    """A compiled version of ``fun``.

    The first call with arguments of given structure, shapes, dtypes and static values traces
    ``fun`` and compiles the program; later calls run the compiled program.

    Args:
      fun: a pure function of arrays and pytrees of them. Without it, a decorator is returned.
      static_argnums: positions of arguments that are Python values known at tracing; they must be
        hashable, and each new value compiles anew.
      static_argnames: likewise by name. Where only one of the two is given, the other is found from
        the signature.
      donate_argnums, donate_argnames: arguments whose memory the call may take over; they must not
        be used afterwards.
      keep_unused: arguments that ``fun`` does not use stay arguments of the program in any case;
        taken for compatibility.
      device: where the program runs, wherever its arguments are; they are brought there. By default
        it runs on the device that arguments are committed to (`device_put`), else on the default
        one. Inside of another traced function it runs where that does.
      backend: likewise, on the first device of a platform.
      inline: inside of another traced function, calls are inlined in any case; taken for
        compatibility.
    Returns:
      A `JitFunction`: call it like ``fun``, or ``.lower(*args).compile()`` it ahead of time.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> f = gn.jit(lambda x: gnp.sin(x) ** 2)
      >>> f(gnp.zeros(3))
      Array([0., 0., 0.], dtype=float32)
    """
    if fun is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            keep_unused=keep_unused,
            device=device,
            backend=backend,
            inline=inline,
        )
    check_callable(fun, "jit")
    if device is not None and backend is not None:
        raise ValueError(
            f"jit: give a device or a backend, not both: got device={device!r}, backend={backend!r}"
        )
    if device is not None:
        device = as_device(device)
    elif not (backend is None or isinstance(backend, str)):
        raise TypeError(f"jit: backend must be the name of a platform, got {backend!r}")
    return JitFunction(
        fun, static_argnums, static_argnames, donate_argnums, donate_argnames, device or backend
    )


def _ints(value: Any, what: str) -> tuple[int, ...]:
    if value is None:
        return ()
    values = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    if not all(isinstance(v, (int, np.integer)) for v in values):
        raise TypeError(f"jit: {what} must be an int or a sequence of ints, got {value!r}")
    return tuple(int(v) for v in values)


def _names(value: Any, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    values = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(v, str) for v in values):
        raise TypeError(f"jit: {what} must be a string or a sequence of strings, got {value!r}")
    return values


def _parameters(fun: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(fun).parameters.values())
    except (ValueError, TypeError):
        return None


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _resolve(
    fun: Callable[..., Any],
    argnums: tuple[int, ...],
    argnames: tuple[str, ...],
    infer: bool,
    what: str,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Non-negative positions and names, each completed from the other by the signature."""
    parameters = _parameters(fun)
    if parameters is None:
        return argnums, argnames
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    keywords = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    count = len(positional)
    for i in argnums:
        if not variadic and not -count <= i < count:
            raise ValueError(
                f"jit: {what}_argnums={argnums} names positional argument {i}, but "
                f"{name_of(fun)} takes {count}"
            )
    nums = tuple(i + count if i < 0 else i for i in argnums)
    named = {p.name for p in parameters if p.kind in _NAMED}
    for name in argnames:
        if not keywords and name not in named:
            raise ValueError(
                f"jit: {what}_argnames names {name!r}, which is no argument of {name_of(fun)} "
                f"(it has {', '.join(sorted(named)) or 'none'})"
            )
    if infer and argnums and not argnames:
        argnames = tuple(
            positional[i].name
            for i in nums
            if i < count and positional[i].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
    elif infer and argnames and not argnums:
        nums = tuple(i for i, p in enumerate(positional) if p.name in argnames)
    return nums, argnames


def abstractify(x: Any) -> Any:
    """The interned type of an argument, for the signature; tracers are not looked up."""
    if type(x) is Tracer:
        return _native.UNCACHED
    array = as_operand(x)
    if type(array) is PlacedArray and array._committed:
        return _place_token(array.aval, array._device)
    # Where others are does not matter: the program runs on the default device.
    return array.aval


class _PlaceToken(NamedTuple):
    """What a program knows of an array that is committed to a device; interned like a type."""

    aval: ShapedArray
    device: Device


@functools.lru_cache(4096)
def _place_token(aval: ShapedArray, device: Device) -> _PlaceToken:
    return _PlaceToken(aval, device)


class _Call:
    """The arguments of a call: dynamic leaves, and how to put the call together again."""

    def __init__(self, owner: JitFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.static_args = {i: args[i] for i in owner.static_argnums if i < len(args)}
        self.static_kwargs = {n: kwargs[n] for n in owner.static_argnames if n in kwargs}
        dynamic_args = tuple(a for i, a in enumerate(args) if i not in self.static_args)
        dynamic_kwargs = {n: v for n, v in kwargs.items() if n not in self.static_kwargs}
        self.count = len(args)
        self.leaves, self.tree = tree_util.tree_flatten((dynamic_args, dynamic_kwargs))
        self.donated = owner.donated_leaves(args, dynamic_args, dynamic_kwargs, self.static_args)

    def arguments(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments, with other leaves."""
        dynamic_args, dynamic_kwargs = tree_util.tree_unflatten(self.tree, list(leaves))
        rest = iter(dynamic_args)
        args = tuple(
            self.static_args[i] if i in self.static_args else next(rest) for i in range(self.count)
        )
        return args, {**dynamic_kwargs, **self.static_kwargs}

    def leaf_names(self, fun: Callable[..., Any]) -> list[str]:
        """A name in messages for each dynamic leaf."""
        parameters = _parameters(fun) or []
        dynamic = [i for i in range(self.count) if i not in self.static_args]
        paths = tree_util.tree_flatten_with_path(tree_util.tree_unflatten(self.tree, self.leaves))[
            0
        ]
        names = []
        for path, _ in paths:
            kind, head, *rest = path
            if kind.idx == 0:
                i = dynamic[head.idx]
                known = i < len(parameters) and parameters[i].kind in _POSITIONAL
                label = f"the argument '{parameters[i].name}'" if known else f"argument {i}"
            else:
                label = f"the keyword argument '{head.key}'"
            names.append(label + tree_util.keystr(tuple(rest)))
        return names


_caches: weakref.WeakKeyDictionary[Callable[..., Any], dict[Any, _native.SignatureCache]]
_caches = weakref.WeakKeyDictionary()


def _signature_cache(
    fun: Callable[..., Any],
    static_argnums: tuple[int, ...],
    static_argnames: tuple[str, ...],
    donated: Any,
    place: Any,
) -> _native.SignatureCache:
    """The compiled programs of a function, shared by all that `jit` makes of it alike."""

    def make() -> _native.SignatureCache:
        return _native.SignatureCache(
            abstractify, flatten_one_level, ConcreteArray, static_argnums, static_argnames
        )

    try:
        of_function = _caches.setdefault(fun, {})
    except TypeError:  # neither hashed nor referred to weakly
        return make()
    options = (static_argnums, static_argnames, donated, place)
    if options not in of_function:
        of_function[options] = make()
    return of_function[options]


def clear_caches() -> None:
    """Forget the compiled programs of all jitted functions; those on disk stay."""
    for of_function in list(_caches.values()):
        for cache in of_function.values():
            cache.clear()
    _evaluation.clear_caches()
    _on_device.clear_caches()


class JitFunction:
    """What `jit` returns: a function that compiles itself for each new signature."""

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: Any,
        static_argnames: Any,
        donate_argnums: Any,
        donate_argnames: Any,
        place: Device | str | None = None,
    ) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun
        infer = static_argnums is None or static_argnames is None
        self.static_argnums, self.static_argnames = _resolve(
            fun,
            _ints(static_argnums, "static_argnums"),
            _names(static_argnames, "static_argnames"),
            infer,
            "static",
        )
        self.donate_argnums, self.donate_argnames = _resolve(
            fun,
            _ints(donate_argnums, "donate_argnums"),
            _names(donate_argnames, "donate_argnames"),
            donate_argnums is None or donate_argnames is None,
            "donate",
        )
        both = set(self.static_argnums) & set(self.donate_argnums)
        if both:
            raise ValueError(f"jit: arguments {sorted(both)} are both static and donated")
        self._cache = _signature_cache(
            fun,
            self.static_argnums,
            self.static_argnames,
            (self.donate_argnums, self.donate_argnames),
            place,
        )
        self._place = place

    def __repr__(self) -> str:
        return f"<jit of {name_of(self._fun)}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled program of this signature, compiling it if it is new."""
        entry, leaves, key = self._cache.lookup(args, kwargs, config.token)
        if (key is None or staging()) and trace_for(leaves) is not None:
            return self._call_traced(args, kwargs)
        if entry is None:
            if config.disable_jit:
                return self._fun(*args, **kwargs)
            call = _Call(self, args, kwargs)
            start = watched_miss(self._fun, call) if config.watches_tracing else None
            traced, place = self._trace_with_place(call)
            if any(is_tracer(c) for c in traced.captures):
                # The function closes over a value that is being traced (a jitted inner function
                # under grad): the call is a part of that trace, and nothing can be kept for another
                # one.
                return self._call_traced(args, kwargs)
            entry = Lowered(traced, call, place, keep_stages=False).compile().entry
            if start is not None:
                log_compiled(self._fun, call, start)
            if config.checks_values:
                entry = _CheckedEntry(entry, self._fun, call)
            assert key is not None  # only calls with tracers have none
            self._cache.insert(key, entry)
        return entry(leaves)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower for arguments of these types.

        Args:
          args, kwargs: arrays, or anything with ``shape`` and ``dtype``
          (`gnomon.ShapeDtypeStruct`).
        """
        return self.trace(*args, **kwargs).lower()

    def trace(self, *args: Any, **kwargs: Any) -> TracedFunction:
        """Trace for arguments of these types: the first stage of compiling ahead of time."""
        call = _Call(self, args, kwargs)
        traced, place = self._trace_with_place(call)

        def lower() -> Lowered:
            return Lowered(traced, call, place, keep_stages=True)

        return TracedFunction(call, traced, name_of(self._fun), lower)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the results, without computing them."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget all compiled programs."""
        self._cache.clear()

    def _cache_size(self) -> int:
        return self._cache.size()

    # ----------------------------------------------------------------------------------- compiling

    def donated_leaves(
        self,
        args: tuple[Any, ...],
        dynamic_args: tuple[Any, ...],
        dynamic_kwargs: dict[str, Any],
        static: dict[int, Any],
    ) -> tuple[int, ...]:
        """Which dynamic leaves are donated."""
        if not self.donate_argnums and not self.donate_argnames:
            return ()
        positions = [i for i in range(len(args)) if i not in static]
        flags: list[bool] = []
        for i, value in zip(positions, dynamic_args, strict=True):
            flags += [i in self.donate_argnums] * len(tree_util.tree_leaves(value))
        for name in sorted(dynamic_kwargs):
            count = len(tree_util.tree_leaves(dynamic_kwargs[name]))
            flags += [name in self.donate_argnames] * count
        return tuple(i for i, flag in enumerate(flags) if flag)

    def _trace_with_place(self, call: _Call) -> tuple[Traced, tuple[Device, bool]]:
        """Trace for the device that the program will run on, and find that."""
        place = self._place_of(call, ())
        while True:
            with evaluation(), program_platform(place[0].platform) as asked:
                traced = self._trace(call)
            before, place = place, self._place_of(call, traced.captures)
            # Arrays that the function closes over are known only now, and may be elsewhere.
            if not asked or place[0].platform == before[0].platform:
                return traced, place

    def _place_of(self, call: _Call, captures: Sequence[Array]) -> tuple[Device, bool]:
        """Where the program runs, and whether its results are committed to that."""
        if self._place is not None:
            place = self._place
            return (devices_of(place)[0] if isinstance(place, str) else place), True
        arrays = [*call.leaves, *captures]

        def describe(i: int) -> str:
            if i < len(call.leaves):
                return f"{call.leaf_names(self._fun)[i]} of jit of {name_of(self._fun)}"
            return f"an array that jit of {name_of(self._fun)} closes over"

        device = committed_device(arrays, describe)
        return (default_device(), False) if device is None else (device, True)

    def _trace(self, call: _Call) -> Traced:
        def run(tracers: list[Any]) -> tuple[Any, Any]:
            args, kwargs = call.arguments(tracers)
            return self._fun(*args, **kwargs), None

        return trace_function(
            run,
            self._fun,
            "jit",
            [aval_of(leaf) for leaf in call.leaves],
            staging=True,
            names=call.leaf_names(self._fun),
        )

    # -------------------------------------------------------------------------- inside of a trace

    def _call_traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        call = _Call(self, args, kwargs)
        leaves = [as_operand(leaf) for leaf in call.leaves]
        memo = program_memo()
        key = self._memo_key(call, leaves)
        known = memo.get(key)
        if known is None:
            traced = self._trace(call)
            name = traced.program.add(traced.name, traced.body)
            traced.program.staged.add(name)
            known = name, traced
            if not any(is_tracer(c) for c in traced.captures):
                memo[key] = known
        name, traced = known
        results = call_function(traced.program, name, [*leaves, *traced.captures])
        return tree_util.tree_unflatten(traced.tree, with_avals(results, traced.avals))

    def _memo_key(self, call: _Call, leaves: list[Array]) -> Any:
        # Types and signs count too: 1 and True, 0.0 and -0.0 are equal and not the same program.
        statics = tuple(
            (name, type(value), value, repr(value) if isinstance(value, (float, complex)) else None)
            for name, value in (*call.static_args.items(), *call.static_kwargs.items())
        )
        avals = tuple(leaf.aval for leaf in leaves)
        # Rules of custom derivatives are traced as deep as they can be asked for.
        order = differentiation_order()
        return (self, call.tree, avals, statics, call.count, config.token, order)


class Lowered(Stage):
    """A traced and lowered function, ready to be compiled."""

    def __init__(
        self, traced: Traced, call: _Call, place: tuple[Device, bool], keep_stages: bool
    ) -> None:
        super().__init__(call, traced)
        self._device, self._committed = place
        program = traced.program
        program.add("main", traced.body, public=True)
        program.rename(f"jit_{traced.name}")
        self._artifact: Artifact = self._device.backend.lower(program, keep_stages=keep_stages)

    @property
    def stages(self) -> Stages:
        """The program's text at each stage."""
        return self._artifact.stages

    def as_text(self, dialect: str = "stablehlo", *, debug_info: bool = False) -> str:
        """The program as MLIR.

        Args:
          dialect: the stage: ``"traced"`` (transformations are ops), ``"gnomon"`` (transformations
            expanded), ``"legalized"`` (rewritten for the backend) or ``"stablehlo"``.
          debug_info: with the user's lines, and the names of `named_scope`.
        """
        names = {"gnomon": "expanded"}
        stage = names.get(dialect, dialect)
        if stage not in vars(self.stages):
            raise ValueError(
                f"as_text: there is no stage {dialect!r}; give one of 'traced', 'gnomon', "
                "'legalized', 'stablehlo'"
            )
        text = getattr(self.stages, stage)
        return str(text.located if debug_info else text.plain)

    def cost_analysis(self) -> dict[str, float]:
        """An estimate of what a call does, before the compiler has fused anything.

        Returns:
          ``"flops"`` and ``"bytes accessed"``, those of a loop counted once for each iteration (a
          hundred, where their number is not known), and ``"dispatches"``, kernels one after
          another.
        """
        cost = self._artifact.cost
        return {
            "flops": cost.flops,
            "bytes accessed": cost.bytes_accessed,
            "dispatches": cost.dispatches,
        }

    @overload
    def compile(self, *, target: None = None) -> Compiled: ...
    @overload
    def compile(self, *, target: str) -> CompiledForTarget: ...
    def compile(self, *, target: str | None = None) -> Compiled | CompiledForTarget:
        """Compile for the device of the arguments, or for a target that need not be here.

        Args:
          target: ``"cuda:sm_90"``, ``"rocm:gfx942"``, ``"vulkan"``, ``"metal"``,
            ``"aarch64-linux"``, ``"tpu:v5e:2x2"``, ... (docs/targets.md).
        Raises:
          ValueError: there is no such target.
          UnsupportedOnTarget: the target has no form of an op or a dtype of the program.
        """
        if target is not None:
            return self._compile_for(target)
        device, donated = self._device, self._call.donated
        if device is HOST:
            executable = device.backend.compile(self._artifact, device=device)
        else:
            executable = device.backend.compile(self._artifact, device=device, donate=donated)
        if device is HOST and not self._committed:
            return Compiled(self, executable, Entry(executable, self._traced, donated))
        entry = _PlacedEntry(executable, self._traced, donated, device, self._committed)
        return Compiled(self, executable, entry)

    def _compile_for(self, target: str) -> CompiledForTarget:
        donated, closed = self._call.donated, self._traced._replace(captures=[])

        def bind(executable: Executable, device: Device) -> Compiled:
            entry = _PlacedEntry(executable, closed, donated, device, device is not HOST)
            return Compiled(self, executable, entry, device)

        text = self.stages.traced.located
        return CompiledForTarget(target, text, self._traced.captures, donated, bind)


class Compiled(Stage):
    """A compiled function for one signature; call it with arguments of just that signature."""

    def __init__(
        self, lowered: Lowered, executable: Executable, entry: Entry, device: Device | None = None
    ) -> None:
        super().__init__(lowered._call, lowered._traced)
        self._lowered = lowered
        self._device = device or lowered._device
        self.executable = executable
        self.entry = entry

    def as_text(self, dialect: str = "stablehlo", *, debug_info: bool = False) -> str:
        """The program as MLIR; see `Lowered.as_text`."""
        return self._lowered.as_text(dialect, debug_info=debug_info)

    def cost_analysis(self) -> dict[str, float]:
        """An estimate of what a call does; see `Lowered.cost_analysis`."""
        return self._lowered.cost_analysis()

    def memory_analysis(self) -> Any:
        """The bytes of arguments, results and temporaries; None where the compiler tells none."""
        tell = getattr(self.executable, "memory_analysis", None)
        return None if tell is None else tell()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises:
          TypeError: structure, shapes or dtypes are not those it was compiled for.
        """
        expected = self._lowered._call
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        if tree != expected.tree:
            raise TypeError(
                f"the function was compiled for arguments of structure {expected.tree}, called "
                f"with {tree} (static arguments are left out of the call)"
            )
        device = committed_device(leaves, lambda i: f"argument {i} of the compiled function")
        if device is not None and device is not self._device:
            raise ValueError(
                f"the function was compiled for {self._device!r}, called with arguments "
                f"that are committed to {device!r}: bring them there with gnomon.device_put, or "
                "compile for them"
            )
        for leaf, other in zip(leaves, expected.leaves, strict=True):
            given, wanted = aval_of(leaf), aval_of(other)
            if given.shape != wanted.shape or given.dtype != wanted.dtype:
                raise TypeError(
                    f"the function was compiled for an argument of type {wanted}, called with "
                    f"{given}"
                )
        return self.entry([as_operand(leaf) for leaf in leaves])


def _buffer_of(leaf: Any) -> Buffer:
    """The buffer of an array, made on first use, or of what stands for one."""
    array: Any = leaf if type(leaf) is ConcreteArray else as_operand(leaf)
    if array._buffer is None:
        array._buffer = HOST.backend.put(array.numpy_value(), HOST)
    buffer: Buffer = array._buffer
    return buffer


def _host_buffer(leaf: Any) -> Buffer:
    """The buffer of an array on the host, where the array is brought if it lives elsewhere."""
    array: Any = leaf if isinstance(leaf, ConcreteArray) else as_operand(leaf)
    if type(array) is PlacedArray:
        return _on_device.input_buffer(array, HOST)
    return _buffer_of(array)


class Entry:
    """A compiled program with what stands around it: arguments in, results out."""

    __slots__ = ("_avals", "_captures", "_donated", "_executable", "_single", "_tree", "_types")

    def __init__(self, executable: Executable, traced: Traced, donated: tuple[int, ...]) -> None:
        self._executable = executable
        self._avals = traced.avals
        self._tree = traced.tree
        self._captures = self._buffers_of(traced.captures)
        self._donated = donated
        self._types = executable.input_types
        self._single = traced.tree == tree_util.tree_structure(0)

    def _buffers_of(self, captures: Sequence[Array]) -> list[Any]:
        """Buffers that no later call deletes."""
        return [HOST.backend.put(c.numpy_value(), HOST) for c in captures]

    def __call__(self, leaves: list[Any]) -> Any:
        """Run on the dynamic leaves of a call."""
        inputs: list[Any] = [
            leaf._buffer if type(leaf) is ConcreteArray and leaf._buffer else _host_buffer(leaf)
            for leaf in leaves
        ]
        inputs += self._captures
        # The signature that this entry was found by tells number, shapes and dtypes.
        buffers = self._executable.run(inputs)
        for i in self._donated:
            leaf = leaves[i]
            if isinstance(leaf, ConcreteArray):
                leaf.delete()
        if self._single:
            return wrap_buffer(buffers[0], self._avals[0])
        return tree_util.tree_unflatten(
            self._tree, [wrap_buffer(b, a) for b, a in zip(buffers, self._avals, strict=True)]
        )


class _PlacedEntry(Entry):
    """An entry whose program runs on another device, or whose results are committed to theirs."""

    __slots__ = ("_committed", "_device")

    def __init__(
        self,
        executable: Executable,
        traced: Traced,
        donated: tuple[int, ...],
        device: Device,
        committed: bool,
    ) -> None:
        self._device = device
        self._committed = committed
        super().__init__(executable, traced, donated)

    def _buffers_of(self, captures: Sequence[Array]) -> list[Any]:
        return [_on_device.input_buffer(c, self._device) for c in captures]

    def __call__(self, leaves: list[Any]) -> Any:
        """Run on the dynamic leaves of a call."""
        device, donated = self._device, self._donated
        inputs: list[Any] = [
            _on_device.input_buffer(leaf, device, fresh=i in donated)
            for i, leaf in enumerate(map(as_operand, leaves))
        ]
        buffers = self._executable.run([*inputs, *self._captures])
        for i in donated:
            if isinstance(leaves[i], ConcreteArray):
                leaves[i].delete()
        results = [
            placed_buffer(buffer, aval, device, self._committed)
            for buffer, aval in zip(buffers, self._avals, strict=True)
        ]
        return results[0] if self._single else tree_util.tree_unflatten(self._tree, results)


class _CheckedEntry:
    """An entry under `debug_nans` or `debug_infs`, which finds the op that bad results are of."""

    def __init__(self, entry: Entry, fun: Callable[..., Any], call: _Call) -> None:
        self._entry = entry
        self._fun = fun
        self._call = call

    def __call__(self, leaves: list[Any]) -> Any:
        """Run on the dynamic leaves of a call."""
        args, kwargs = self._call.arguments([as_operand(leaf) for leaf in leaves])
        out = self._entry(leaves)
        kind = invalid_value([leaf.numpy_value() for leaf in tree_util.tree_leaves(out)])
        if kind is not None:
            what = f"invalid value ({kind}) encountered in jit of {name_of(self._fun)}"
            if self._call.donated:
                raise FloatingPointError(
                    f"{what}; it donates arguments, so it cannot be run again to find the op"
                )
            with config.override("gnomon_disable_jit", True), evaluation():
                self._fun(*args, **kwargs)
            raise FloatingPointError(f"{what}; run op by op, no op gives one")
        return out


__all__ = ["Compiled", "JitFunction", "Lowered", "ShapeDtypeStruct", "clear_caches", "jit"]
