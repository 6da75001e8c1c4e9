"""Traces and their values.

A `Trace` is a function under construction: an open body and the values that it captures. A
`Tracer` is an SSA value of one trace.

There are two kinds of trace:

* A *staging* trace (`jit`, bodies of control flow) takes every op bound while it is active.
* A transformation's trace (`grad`, `jvp`, `vmap`) takes ops on its own tracers only; other ops go
  to the traces around it, or are evaluated. If its arguments have values (`grad` outside of `jit`)
  and Python asks a tracer for its value, the ops on which the tracer depends are evaluated.

Values from outside that a body uses become extra arguments of the body, its *captures*.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeGuard

import numpy as np

from gnomon._arrays.array import Array
from gnomon._arrays.aval import INVARIANT, ShapedArray, shaped_array
from gnomon._arrays.concrete import PlacedArray, wrap
from gnomon._config.current import config
from gnomon._diagnostics.errors import (
    ConcretizationTypeError,
    ShardingTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from gnomon._diagnostics.source_location import file_and_line, user_location
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._tracing.evaluation import evaluator
from gnomon._tracing.explicit import explicit_types, has_explicit_types
from gnomon._tracing.unreduced import without_reduced
from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import Op, has_effects, params_of
from gnomon.dialects.emit import constant, ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from gnomon.dialects.symbolic.dimension import any_symbolic, is_symbolic_dim
from gnomon.dialects.types import is_inexact, type_of

__all__ = ["Trace", "Tracer", "concrete_value", "is_tracer", "varying_axes"]

# Captured arrays up to this many elements become literals of the program, larger ones arguments,
# unless NumPy stores them as one element.
LITERAL_SIZE = 4


class Trace:
    """A function under construction.

    Attributes:
      what: what is being traced, in messages: ``jit of f``.
      staging: whether the trace takes every op bound while it is active.
      program: the program that receives the functions that the body calls.
      level: above those of the traces around it. An op on values of several traces goes to the
        one with the highest level.
      body: the open body; captures follow the arguments.
      captures: the outer values of the extra arguments, in order.
      sources: the arrays that are passed for the arguments, where there are any.
      names: names of the arguments in messages.
      differentiates: whether the traced function is differentiated.
      in_jit: whether `jit` traces the function, or one that calls it.
      members: the `MemberValues` of a `shard_map` whose values are known while tracing, or None.
      made: weak references to its tracers, under `check_tracer_leaks`.
    """

    __slots__ = (
        "_arguments",
        "_captured",
        "_evaluator",
        "_known",
        "_location_scope",
        "body",
        "captures",
        "differentiates",
        "finished",
        "in_jit",
        "ip",
        "level",
        "made",
        "members",
        "memo",
        "names",
        "program",
        "sources",
        "staging",
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
        jitted: bool = False,
        program: Program | None = None,
        parent: Trace | None = None,
        level: int = 1,
    ) -> None:
        ensure_context()
        self.what = what
        self.staging = staging
        self.level = level
        self.program: Program = parent.program if parent else program or Program()
        self.body = Body.open([a.type for a in avals], user_location())
        self.ip = ir.InsertionPoint(self.body.block)
        self.sources = sources
        self.names = names
        self.differentiates = differentiates
        self.in_jit: bool = jitted or (parent is not None and parent.in_jit)
        self.captures: list[Array] = []
        self.finished = False
        self.members: Any = None
        # Derived data that lives as long as the program (functions traced once, ...).
        self.memo: dict[Any, Any] = parent.memo if parent else {}
        self._captured: dict[int, ir.Value] = {}
        self._known: dict[ir.Value, np.ndarray] = {}
        self._evaluator: Evaluator | None = None
        self.made: list[weakref.ref[Tracer]] | None = [] if config.check_tracer_leaks else None
        # Weak references, because tracers refer to their trace: a cycle would keep the captured
        # arrays alive until the garbage collector runs.
        self._arguments: list[weakref.ref[Tracer]] = []

    def arguments(self, avals: Sequence[ShapedArray]) -> list[Tracer]:
        """Make the tracers of the arguments, once, from the ``avals`` of the constructor."""
        tracers = [
            Tracer(self, value, aval)
            for value, aval in zip(self.body.arguments, avals, strict=True)
        ]
        self._arguments = [weakref.ref(tracer) for tracer in tracers]
        return tracers

    def argument_index(self, tracer: Tracer) -> int | None:
        """The index of the argument that a tracer is; None if it is not an argument."""
        matches = (i for i, argument in enumerate(self._arguments) if argument() is tracer)
        return next(matches, None)

    # ------------------------------------------------------------------------------- emitting ops

    def bind(self, op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Emit an op on arrays; return a tracer, or a list unless the op has exactly one result."""
        vma = varying_axes(operands)
        if vma:
            # Inexact operands only: the transpose of `pvary` sums their cotangents over the axes.
            operands = [
                self.varying(x, vma) if type(x) is Tracer and is_inexact(x.aval.dtype) else x
                for x in operands
            ]
        values, weak = self.values(operands)
        location = user_location()
        with self.ip, location:
            results = op.build(values, params)
        if has_explicit_types(operands):
            shapes = [type_of(r).shape for r in results]
            types: Sequence[Any] = explicit_types(op, operands, params, shapes) or ()
        else:
            types = (None,) * len(results)
        if op.results == 1:
            return self.tracer(results[0], weak, location, vma, types[0])
        return [self.tracer(r, weak, location, vma, t) for r, t in zip(results, types, strict=True)]

    def varying(self, operand: Any, vma: frozenset[str]) -> Any:
        """Mark an array as varying over some axes of a mesh."""
        own = operand.aval.vma
        missing = vma - own
        if not missing:
            return operand
        sharding = operand.aval.explicit
        if sharding is not None:
            if unreduced := sorted(operand.aval.unreduced & missing):
                raise ShardingTypeError(
                    f"a value of type {operand.aval} is unreduced over {unreduced}, and meets one "
                    "that varies over them. Sum it first, with gnomon.lax.psum"
                )
            sharding = without_reduced(sharding, missing)
        values, weak = self.values([operand])
        with self.ip, user_location():
            value = ops.pvary(*values, axes=tuple(sorted(missing)))
        return self.tracer(value, weak, None, own | vma, sharding)

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
        self,
        value: ir.Value,
        weak_type: bool = False,
        location: ir.Location | None = None,
        vma: frozenset[str] = INVARIANT,
        sharding: NamedSharding | None = None,
    ) -> Tracer:
        """The tracer of an SSA value of this trace."""
        type_ = type_of(value)
        aval = shaped_array(type_.shape, type_.dtype, weak_type, vma, sharding)
        return Tracer(self, value, aval, location)

    def value(self, operand: Any) -> ir.Value:
        """The SSA value of an array in this trace; a value from outside is captured."""
        if type(operand) is Tracer:
            if operand._trace is self:
                return operand._ssa
            operand._trace.check_alive(operand)
        found = self._captured.get(id(operand))
        if found is not None:
            return found
        if isinstance(operand, PlacedArray) and (operand.committed or operand._value is None):
            pass  # Its device decides where the program runs, or its value is not on the host.
        elif type(operand) is not Tracer:
            array = operand.numpy_value() if isinstance(operand, Array) else np.asarray(operand)
            if array.size <= LITERAL_SIZE or not any(array.strides):
                with self.ip, user_location():
                    return constant(array)
            if not isinstance(operand, Array):
                operand = wrap(array)
        value = self.body.add_argument(operand.aval.type)
        self.captures.append(operand)
        self._captured[id(operand)] = value
        return value

    def check_alive(self, tracer: Tracer) -> None:
        """Raise `UnexpectedTracerError` if the trace is finished."""
        if self.finished:
            raise UnexpectedTracerError(
                f"A traced value of {tracer.aval} was used after the function that made it "
                f"({self.what}) had been traced.\n{tracer.describe_origin()}\n"
                "It escaped through a side effect: a global, an attribute, a list, a generator. "
                "Return the value from the function instead."
            )

    def check_leaks(self) -> None:
        """Raise if a tracer of the trace, which is finished, is still alive."""
        if self.made is None:
            return
        gc.collect()
        alive = [tracer for reference in self.made if (tracer := reference()) is not None]
        if alive:
            lines = [f"{t.aval}: {t.describe_origin()}" for t in alive]
            raise UnexpectedTracerError(
                f"Leaked trace: {self.what} has been traced, and values that it made are still "
                "referred to, from a global, an attribute, a list, a closure:\n" + "\n".join(lines)
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
                # The op would run here, and once more when the whole function runs.
                return None
            if _is_symbolic(op):
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
        count = len(self._arguments)
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


def _is_symbolic(op: ir.Operation) -> bool:
    """Whether the value or the shape of a result depends on symbolic dimensions."""
    if any(any_symbolic(type_of(value).shape) for value in results_of(op)):
        return True
    return op.name == "gnomon.dimension" and is_symbolic_dim(params_of(op)["size"])


class Tracer(Array):
    """An array of a function that is being traced: a type, and a value in the program."""

    # The SSA value must not be touched once the trace is finished: passes may have erased it.
    __slots__ = ("__weakref__", "_location", "_ssa", "_trace", "aval")

    aval: ShapedArray

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
        self.aval = aval
        self._location = location
        if trace.made is not None:
            trace.made.append(weakref.ref(self))

    def __repr__(self) -> str:
        return f"Traced<{self.aval}> in {self._trace.what}"

    def __str__(self) -> str:
        trace = self._trace
        text = None
        if trace.members is not None and not trace.finished:
            text = trace.members.described(trace, self._ssa)
        return repr(self) if text is None else str(text)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def describe_origin(self) -> str:
        """Where the value comes from: the argument, or the user's line."""
        trace = self._trace
        i = trace.argument_index(self)
        if i is not None:
            name = trace.names[i] if trace.names else f"argument {i}"
            return f"It is {name} of {trace.what}."
        place = file_and_line(self._location) if self._location else None
        line = f" at {place[0]}:{place[1]}" if place else ""
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
        value, trace = self.concrete(), self._trace
        if value is None and trace.members is not None:
            value = trace.members.known(trace, self._ssa, self.aval.vma)
        if value is None:
            raise error(self)
        return wrap(value)

    def __bool__(self) -> bool:
        return bool(self._scalar(TracerBoolConversionError))

    def __int__(self) -> int:
        return int(self._scalar(ConcretizationTypeError))

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
        value = concrete_value(self)
        if value is None:
            raise ConcretizationTypeError(self, "Its method tolist() was called.")
        return value.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        # Integers and bools have no tangent that NumPy's array would lose.
        value = None if is_inexact(self.dtype) else self.concrete()
        if value is None:
            raise TracerArrayConversionError(self)
        return np.array(value, dtype)

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
        """Return the tracer itself: a traced value has nothing to wait for."""
        return self

    def __reduce__(self) -> NoReturn:
        raise ConcretizationTypeError(self, "It was pickled or copied.")


def varying_axes(operands: Sequence[Any]) -> frozenset[str]:
    """The mesh axes over which some of the arrays vary."""
    vma = INVARIANT
    for operand in operands:
        if type(operand) is Tracer and operand.aval.vma:
            vma |= operand.aval.vma
    return vma


def is_tracer(x: Any) -> TypeGuard[Tracer]:
    """True for a value of a function that is being traced."""
    return type(x) is Tracer


def concrete_value(x: Any) -> np.ndarray | None:
    """The NumPy value of an array, where it is known."""
    if type(x) is Tracer:
        return x.concrete()
    return x.numpy_value() if isinstance(x, Array) else np.asarray(x)
