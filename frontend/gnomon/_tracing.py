"""Tracing: how Python code that runs on tracers becomes IR.

A `Trace` is a function under construction: an open body and the names of what stands outside. A
`Tracer` is an SSA value of one trace. `bind` is the one door through which every op goes: with
concrete operands outside of staging it evaluates with NumPy at once; else it emits the op into the
body of the innermost trace that an operand belongs to (or that stages everything).

Two kinds of trace:

* A *staging* trace (`jit`, bodies of control flow) takes every op bound while it is active.
* A transformation's trace (`grad`, `jvp`, `vmap`) takes ops on its own tracers only; the others run
  outside. Where its arguments have values (`grad` outside of `jit`), a tracer that Python asks for
  its value evaluates what it needs of the program so far.

Values from outside that a body uses become extra arguments of it, its *captures*.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from gnomon import _dtypes
from gnomon._array import Array, ConcreteArray, PlacedArray, placed, wrap
from gnomon._aval import ShapedArray, shaped_array
from gnomon._config import Config, config
from gnomon._device import HOST, default_device
from gnomon._errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from gnomon._on_device import at_hand, place_of, run_op
from gnomon._quiet import quiet
from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import Op, has_effects
from gnomon.dialects.emit import constant
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.types import is_inexact, type_of

# Captured arrays up to this many elements become literals of the program, larger ones arguments.
LITERAL_SIZE = 4


class _State(threading.local):
    """The traces of a thread, outermost first, and the innermost one that stages."""

    def __init__(self) -> None:
        self.stack: list[Trace] = []
        self.staging: Trace | None = None
        self.axes: list[tuple[str, int, Trace]] = []
        self.scope = ""
        self.spent = 0
        self.platform: tuple[str, list[None]] | None = None


_state = _State()


def staging() -> bool:
    """True where an op takes the long way through `bind`, constants included.

    So inside of `jit` and loop bodies, which stage it, and where operands or results are checked.
    """
    return _state.staging is not None or (Config.operands_somewhere and config.checks_operands)


def tracing_depth() -> int:
    """The number of traces in progress on this thread."""
    return len(_state.stack)


def program_memo() -> dict[Any, Any]:
    """What is remembered for as long as the program being traced exists."""
    return _state.stack[-1].memo


# ------------------------------------------------------------------------------- source locations

_PACKAGE = str(Path(__file__).parent)
_internal: dict[str, bool] = {}
_locations: dict[tuple[str, int, str], ir.Location] = {}


def user_frame() -> tuple[str, int]:
    """File and line of the innermost frame outside of the package."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        internal = _internal.get(filename)
        if internal is None:
            internal = _internal[filename] = filename.startswith((_PACKAGE, "<frozen"))
        if not internal:
            return filename, frame.f_lineno
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "<unknown>", 0


def user_location() -> ir.Location:
    """The MLIR location of the user's line that runs, named by the scopes around it."""
    filename, line = user_frame()
    key = (filename, line, _state.scope)
    location = _locations.get(key)
    if location is None:
        location = ir.Location.file(filename, line, 0, context())
        if _state.scope:
            location = ir.Location.name(_state.scope, location, context())
        _locations[key] = location
    return location


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A context manager that names the ops traced inside of it.

    The names of nested scopes, joined by slashes, are the ops' locations in dumps
    (``as_text(debug_info=True)``), errors and profiles.

    Args:
      name: the name.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> @gn.jit
      ... def layer(x):
      ...     with gn.named_scope("attention"):
      ...         return gnp.sin(x)
      >>> 'loc("attention"' in layer.lower(1.0).as_text("traced", debug_info=True)
      True
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope: name must be a string, got {name!r}")
    before = _state.scope
    _state.scope = f"{before}/{name}" if before else name
    try:
        yield
    finally:
        _state.scope = before


# ----------------------------------------------------------------------------------------- traces


class Trace:
    """A function under construction.

    Attributes:
      what: what is being traced, in messages: ``jit of f``.
      staging: takes every op bound while it is active.
      program: the module that receives the functions it names.
      body: the open body; captures follow the arguments.
      captures: what the extra arguments stand for, in order.
      sources: the values of the arguments, where they have any.
      names: names of the arguments in messages.
      differentiates: what it traces is differentiated.
    """

    __slots__ = (
        "_captured",
        "_evaluator",
        "_known",
        "_location_scope",
        "body",
        "captures",
        "differentiates",
        "finished",
        "ip",
        "level",
        "memo",
        "names",
        "program",
        "sources",
        "staging",
        "tracers",
        "what",
    )

    def __init__(
        self,
        what: str,
        avals: Sequence[ShapedArray],
        *,
        staging: bool,
        sources: Sequence[Array | None] | None = None,
        names: Sequence[str] | None = None,
        differentiates: bool = False,
    ) -> None:
        ensure_context()
        parent = _state.stack[-1] if _state.stack else None
        self.what = what
        self.staging = staging
        self.level = len(_state.stack) + 1
        self.program: Program = parent.program if parent else Program()
        self.body = Body.open([a.type for a in avals], user_location())
        self.ip = ir.InsertionPoint(self.body.block)
        self.sources = sources
        self.names = names
        self.differentiates = differentiates
        self.captures: list[Array] = []
        self.finished = False
        # Derived things that live as long as the module does (functions traced once, ...).
        self.memo: dict[Any, Any] = parent.memo if parent else {}
        self._captured: dict[int, ir.Value] = {}
        self._known: dict[ir.Value, np.ndarray] = {}
        self._evaluator: Evaluator | None = None
        self.tracers = [
            Tracer(self, value, aval)
            for value, aval in zip(self.body.arguments, avals, strict=True)
        ]

    # ------------------------------------------------------------------------------- emitting ops

    def bind(self, op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Emit an op on arrays; a tracer, or a list where the op has several results."""
        values, weak = self.values(operands)
        location = user_location()
        with self.ip, location:
            results = op.build(values, params)
        if op.results == 1:
            return self.tracer(results[0], weak, location)
        return [self.tracer(r, weak, location) for r in results]

    def values(self, operands: Sequence[Any]) -> tuple[list[ir.Value], bool]:
        """SSA values of arrays in this trace, and whether all are weakly typed."""
        weak = bool(operands)
        values = []
        for operand in operands:
            values.append(self.value(operand))
            weak = weak and getattr(operand, "weak_type", False)
        return values, weak

    def emit(self, function: Callable[..., Sequence[ir.Value]], operands: Sequence[Any]) -> Any:
        """Run a function that emits IR on the SSA values of arrays; its results as SSA values."""
        values, _ = self.values(operands)
        with self.ip, user_location():
            return function(*values)

    def tracer(
        self, value: ir.Value, weak_type: bool = False, location: ir.Location | None = None
    ) -> Tracer:
        """The tracer of an SSA value of this trace."""
        type_ = type_of(value)
        return Tracer(self, value, shaped_array(type_.shape, type_.dtype, weak_type), location)

    def value(self, operand: Any) -> ir.Value:
        """The SSA value of an array in this trace; what stands outside is captured."""
        if type(operand) is Tracer:
            if operand._trace is self:
                return operand._ssa
            operand._trace.check_alive(operand)
        found = self._captured.get(id(operand))
        if found is not None:
            return found
        if type(operand) is PlacedArray and (operand.committed or operand._value is None):
            pass  # Its place says where the program runs, or its value is not here.
        elif type(operand) is not Tracer:
            array = operand.numpy_value() if isinstance(operand, Array) else np.asarray(operand)
            if array.size <= LITERAL_SIZE:
                with self.ip, user_location():
                    return constant(array)
            if not isinstance(operand, Array):
                operand = wrap(array)
        value = self.body.add_argument(operand.aval.type)
        self.captures.append(operand)
        self._captured[id(operand)] = value
        return value

    def check_alive(self, tracer: Tracer) -> None:
        """Raise if the function was traced to its end before."""
        if self.finished:
            raise UnexpectedTracerError(
                f"A traced value of {tracer.aval} was used after the function that made it "
                f"({self.what}) had been traced.\n{tracer.describe_origin()}\n"
                "It escaped through a side effect: a global, an attribute, a list, a generator. "
                "Return the value from the function instead."
            )

    # ---------------------------------------------------------------------------- concrete values

    def evaluate(self, value: ir.Value) -> np.ndarray | None:
        """The value of an SSA value, if it depends on known arguments only."""
        known = self._known
        work = [value]
        arguments = {a: i for i, a in enumerate(self.body.arguments)}
        if self._evaluator is None:
            self._evaluator = evaluator(self.program)
        while work:
            current = work[-1]
            if current in known:
                work.pop()
                continue
            if current in arguments:
                array = self._argument_value(arguments[current])
                if array is None:
                    return None
                known[current] = array
                continue
            op = _producer(current)
            if has_effects(op):
                # It would run here, and once more when the whole function runs.
                return None
            pending = [o for o in operands_of(op) if o not in known]
            if pending:
                work.extend(pending)
                continue
            with np.errstate(all="ignore"):
                arrays = [known[o] for o in operands_of(op)]
                results = self._evaluator.step(op)(*arrays)
            known.update(zip(results_of(op), results, strict=True))
        return known[value]

    def _argument_value(self, index: int) -> np.ndarray | None:
        count = len(self.tracers)
        if index >= count:
            return concrete_value(self.captures[index - count])
        source = None if self.sources is None else self.sources[index]
        return None if source is None else concrete_value(source)

    # ------------------------------------------------------------------------------------ closing

    def finish(self, results: Sequence[Any]) -> Body:
        """End the body with its results; the trace takes no more ops."""
        values, _ = self.values(results)
        self.body.close(values)
        return self.body


def _producer(value: ir.Value) -> ir.Operation:
    owner = value.owner
    op = owner.operation if isinstance(owner, ir.OpView) else owner
    if op.name == "builtin.unrealized_conversion_cast":
        inner = op.operands[0].owner
        return inner.operation if isinstance(inner, ir.OpView) else inner
    return op


@contextmanager
def active(trace: Trace) -> Iterator[Trace]:
    """Make a trace the innermost one."""
    outer = _state.staging
    _state.stack.append(trace)
    if trace.staging:
        _state.staging = trace
    try:
        yield trace
    finally:
        _state.stack.pop()
        _state.staging = outer
        trace.finished = True


@contextmanager
def evaluation() -> Iterator[None]:
    """Run code outside of all traces of this thread: its ops on concrete arrays are evaluated."""
    stack, outer, spent = _state.stack, _state.staging, _state.spent
    _state.stack, _state.staging, _state.spent = [], None, 0
    try:
        yield
    finally:
        _state.stack, _state.staging, _state.spent = stack, outer, spent


@contextmanager
def program_platform(platform: str) -> Iterator[list[None]]:
    """Trace a program for a platform; what it yields is not empty if that was asked for."""
    before = _state.platform
    asked: list[None] = []
    _state.platform = platform, asked
    try:
        yield asked
    finally:
        _state.platform = before


def platform_of(operands: Sequence[Any], what: str) -> str:
    """The platform that the program being traced is for, or that eager code on arrays runs on."""
    if _state.platform is not None and _state.stack:
        platform, asked = _state.platform
        asked.append(None)
        return platform
    place = place_of(operands, what)
    return (default_device() if place is None else place[0]).platform


# ----------------------------------------------------------------------- orders of differentiation


def differentiation_order(operands: Sequence[Any] | None = None) -> int:
    """How often an op on these operands (by default, on any traced here) can be differentiated."""
    stack = _state.stack
    if operands is not None and (trace := trace_for(operands)) is not _state.staging:
        stack = stack[: trace.level] if trace else []
    return max(sum(t.differentiates for t in stack) - _state.spent, 0)


def may_have_tangent(operand: Any) -> bool:
    """Whether a value may depend on what a differentiation in progress differentiates by."""
    if type(operand) is not Tracer:
        return False
    return any(t.differentiates for t in _state.stack[: operand._trace.level])


@contextmanager
def derivative_rule() -> Iterator[None]:
    """Trace a rule: its ops stand where one differentiation has been done."""
    _state.spent += 1
    try:
        yield
    finally:
        _state.spent -= 1


@contextmanager
def differentiated(order: int) -> Iterator[None]:
    """Trace what is differentiated ``order`` times more often than the traces around it tell."""
    _state.spent -= order
    try:
        yield
    finally:
        _state.spent += order


@contextmanager
def replaced_by_rule() -> Iterator[None]:
    """Trace a function that has a rule: its own ops are never differentiated."""
    outer, _state.spent = _state.spent, sum(t.differentiates for t in _state.stack)
    try:
        yield
    finally:
        _state.spent = outer


# ----------------------------------------------------------------------------------- named axes


@contextmanager
def named_axis(name: str, size: int) -> Iterator[None]:
    """Bind an axis name inside of a mapped function, whose trace is the innermost one."""
    _state.axes.append((name, size, _state.stack[-1]))
    try:
        yield
    finally:
        _state.axes.pop()


def axis_binding(name: str) -> tuple[int, Trace]:
    """Size of a named axis, and the trace of the `vmap` that maps it."""
    for bound, size, trace in reversed(_state.axes):
        if bound == name:
            return size, trace
    known = ", ".join(sorted({a[0] for a in _state.axes})) or "none"
    raise NameError(
        f"unbound axis name: {name!r} (bound here: {known}). Collectives take a name that an "
        "enclosing vmap(..., axis_name=...) binds"
    )


# ---------------------------------------------------------------------------------------- tracers


class Tracer(Array):
    """An array of a function that is being traced: a type, and a value in the program."""

    # The SSA value must not be touched once the trace is finished: passes may have erased it.
    __slots__ = ("__weakref__", "_aval", "_location", "_ssa", "_trace")

    def __new__(cls, *args: Any) -> Tracer:
        return object.__new__(cls)

    def __init__(
        self,
        trace: Trace,
        value: ir.Value,
        aval: ShapedArray,
        location: ir.Location | None = None,
    ) -> None:
        self._trace = trace
        self._ssa = value
        self._aval = aval
        self._location = location

    @property
    def aval(self) -> ShapedArray:
        """Shape, dtype and weak type."""
        return self._aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self._aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self._aval.dtype

    @property
    def weak_type(self) -> bool:
        """The dtype came from a Python scalar and gives way to others in promotion."""
        return self._aval.weak_type

    def __repr__(self) -> str:
        return f"Traced<{self._aval}> in {self._trace.what}"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def describe_origin(self) -> str:
        """Where the value comes from: the argument, or the user's line."""
        trace = self._trace
        for i, tracer in enumerate(trace.tracers):
            if tracer is self:
                name = trace.names[i] if trace.names else f"argument {i}"
                return f"It is {name} of {trace.what}."
        line = f" at {_line(self._location)}" if self._location else ""
        return f"It was made in {trace.what}{line}."

    # --- conversions that need a value

    def concrete(self) -> np.ndarray | None:
        """The value, where it is known."""
        self._trace.check_alive(self)
        return self._trace.evaluate(self._ssa)

    def numpy_value(self) -> np.ndarray:
        """The value; raises `ConcretizationTypeError` where it is not known."""
        value = self.concrete()
        if value is None:
            raise ConcretizationTypeError(self)
        return value

    def _scalar(self, error: type[Exception]) -> Any:
        value = self.concrete()
        if value is None:
            raise error(self)
        return wrap(value)

    def __bool__(self) -> bool:
        return bool(self._scalar(TracerBoolConversionError))

    def __int__(self) -> int:
        return int(self._scalar(TracerIntegerConversionError))

    def __index__(self) -> int:
        return self._scalar(TracerIntegerConversionError).__index__()

    def __float__(self) -> float:
        return float(self._scalar(ConcretizationTypeError))

    def __complex__(self) -> complex:
        return complex(self._scalar(ConcretizationTypeError))

    def item(self, *args: int) -> Any:
        """The element as a Python scalar, where the value is known."""
        return self._scalar(ConcretizationTypeError).item(*args)

    def tolist(self) -> Any:
        """Nested lists, where the value is known."""
        return self._scalar(ConcretizationTypeError).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise TracerArrayConversionError(self)

    def __dlpack__(self, **kwargs: Any) -> NoReturn:
        raise TracerArrayConversionError(self)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array: it has no dimensions")
        return (self[i] for i in range(self.shape[0]))

    def __reversed__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self) - 1, -1, -1))

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        return self

    def block_until_ready(self) -> Tracer:
        """A traced value has nothing to wait for; the tracer itself."""
        return self

    def __reduce__(self) -> NoReturn:
        raise ConcretizationTypeError(self, "It was pickled or copied.")


_FILE_AND_LINE = re.compile(r'"([^"]*)":(\d+):0')


def _line(location: ir.Location) -> str:
    found = _FILE_AND_LINE.search(str(location))
    return f"{found[1]}:{found[2]}" if found else str(location)


def is_tracer(x: Any) -> bool:
    """True for a value of a function that is being traced."""
    return type(x) is Tracer


def concrete_value(x: Any) -> np.ndarray | None:
    """The NumPy value of an array, where it is known."""
    if type(x) is Tracer:
        return x.concrete()
    return x.numpy_value() if isinstance(x, Array) else np.asarray(x)


# ------------------------------------------------------------------------------------------- bind


def trace_for(operands: Sequence[Any]) -> Trace | None:
    """The trace that takes an op on these operands; ``None``: it is evaluated."""
    found = _state.staging
    for operand in operands:
        if type(operand) is Tracer:
            trace = operand._trace
            if trace.finished:
                trace.check_alive(operand)
            if found is None or trace.level > found.level:
                found = trace
    return found


def bind(op: Op, *operands: Any, **params: Any) -> Any:
    """Apply an op to arrays.

    Args:
      op: an op without regions.
      operands: arrays (concrete or traced), or NumPy arrays, of the exact shapes and dtypes that
      the
        op's type rule wants.
      params: the op's parameters.
    Returns:
      An `Array`, or a list of them where the op does not have exactly one result. It is weakly
      typed where all operands are.
    Raises:
      TypeRuleError: the type rule rejects the operands.
    """
    trace = trace_for(operands)
    if trace is not None:
        return trace.bind(op, operands, params)
    arrays = []
    weak = bool(operands)
    for operand in operands:
        if type(operand) is ConcreteArray:
            value = operand._value
            arrays.append(operand.numpy_value() if value is None else value)
            weak = weak and operand.weak_type
        elif type(operand) is PlacedArray:
            return _bind_placed(op, operands, params)
        else:
            arrays.append(np.asarray(operand))
            weak = False
    result = _evaluated(op, arrays, params)
    if Config.checks_somewhere and config.checks_values:
        _check_values(op.full_name, [result] if op.results == 1 else result, user_frame)
    if op.results == 1:
        return wrap(result if type(result) is np.ndarray else np.asarray(result), weak)
    return [wrap(np.asarray(r), weak) for r in result]


def _evaluated(op: Op, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    try:
        return quiet.run(op.evaluate, *arrays, **params)  # type: ignore[arg-type]
    except RuntimeError:  # the context is in use further up
        with np.errstate(all="ignore"):
            return op.evaluate(*arrays, **params)  # type: ignore[operator]


def _bind_placed(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """`bind` where an operand lives on another device, or is committed to its own."""
    name = op.full_name.removeprefix("gnomon.")
    device, committed = place_of(operands, name) or (HOST, False)
    weak = all(getattr(x, "weak_type", False) for x in operands)
    results: Sequence[Any]
    if device is HOST or (not committed and at_hand(operands)):
        out = _evaluated(op, [concrete_value(x) for x in operands], params)
        out = [out] if op.results == 1 else out
        values = [np.asarray(r) for r in out]
        results = [
            placed(v, HOST, committed=True, weak_type=weak) if committed else wrap(v, weak)
            for v in values
        ]
    else:
        results = run_op(op, operands, params, device, committed=committed, weak_type=weak)
    if Config.checks_somewhere and config.checks_values:
        _check_values(op.full_name, [r.numpy_value() for r in results], user_frame)
    return results[0] if op.results == 1 else list(results)


def invalid_value(arrays: Sequence[Any]) -> str | None:
    """What `debug_nans` and `debug_infs`, where they are on, find among arrays: nan, inf."""
    for array in arrays:
        array = np.asarray(array)
        if is_inexact(array.dtype):
            if config.debug_nans and np.isnan(array).any():
                return "nan"
            if config.debug_infs and np.isinf(array).any():
                return "inf"
    return None


def _check_values(name: str, arrays: Sequence[Any], where: Callable[[], tuple[str, int]]) -> None:
    kind = invalid_value(arrays)
    if kind is not None:
        filename, line = where()
        raise FloatingPointError(
            f"invalid value ({kind}) encountered in {name.removeprefix('gnomon.')} "
            f"({filename}:{line})"
        )


def _check_step(op: ir.Operation, arrays: Sequence[Any]) -> None:
    def where() -> tuple[str, int]:
        found = _FILE_AND_LINE.search(str(op.location))
        return (found[1], int(found[2])) if found else user_frame()

    _check_values(op.name, arrays, where)


def evaluator(program: Program) -> Evaluator:
    """What evaluates functions of a program: jitted ones compiled, unless results are checked."""
    if config.checks_values:
        return Evaluator(program, None, _check_step)
    return Evaluator(program, compiled_calls())


def as_operand(x: Any) -> Array:
    """An array of anything array-like, with JAX's rules for dtypes and weak types.

    Raises:
      TypeError: ``x`` is not an array, a NumPy array or scalar, or a Python number.
    """
    if isinstance(x, Array):
        return x
    if _dtypes.is_python_scalar(x):
        return wrap(_dtypes.scalar_to_numpy(x), type(x) is not bool)
    if isinstance(x, (np.ndarray, np.generic)):
        dtype = _dtypes.canonicalize_dtype(x.dtype)
        if not _dtypes.is_supported(dtype):
            raise TypeError(f"a NumPy array of dtype {x.dtype} is not an array of numbers")
        # A copy: the caller may write to a NumPy array, an Array never changes.
        return wrap(np.array(x, dtype))
    convert = getattr(x, "__jax_array__", None) or getattr(x, "__gnomon_array__", None)
    if convert is not None:
        return as_operand(convert())
    raise TypeError(
        f"{x!r} of type {type(x).__name__} is not an array: give a gnomon or NumPy array or a "
        "Python number (of a list, make an array with gnomon.numpy.array)"
    )


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """A context manager in which ops on known values are evaluated while a function is traced.

    What depends on traced values is traced all the same.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> @gn.jit
      ... def f(x):
      ...     with gn.ensure_compile_time_eval():
      ...         small = bool(gnp.sum(gnp.arange(3)) < 4)  # known, and good for Python's if
      ...     return x if small else -x
      >>> int(f(1))
      1
    """
    with evaluation():
        yield


# Set by `_jit`: how a call of a jitted function inside of eager code runs (compiled).
_compiled_calls: list[Any] = [None]


def compiled_calls() -> Any:
    """The evaluator's hook that runs calls of jitted functions as compiled code."""
    return _compiled_calls[0]


def set_compiled_calls(hook: Any) -> None:
    """Install the hook."""
    _compiled_calls[0] = hook
