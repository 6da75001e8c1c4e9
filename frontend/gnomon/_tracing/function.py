"""Tracing of Python functions on pytrees into bodies of the dialect, and their evaluation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.concrete import placed, with_weak_flag, wrap
from gnomon._arrays.dtypes import float0
from gnomon._arrays.sharded import ShardedArray, sharded
from gnomon._config.current import config
from gnomon._diagnostics.source_location import user_location
from gnomon._sharding.device import Device, default_device, in_host_memory
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._tracing import eager_cache
from gnomon._tracing.bind import as_operand, bind, trace_for
from gnomon._tracing.constraints import constraint_mesh
from gnomon._tracing.evaluation import check_execution, evaluator, invalid_value
from gnomon._tracing.explicit import retyped
from gnomon._tracing.inspections import any_inspections, report_shardings
from gnomon._tracing.on_device import place_of, run_program
from gnomon._tracing.on_mesh import run_program_on_mesh
from gnomon._tracing.shardings import mesh_of, program_shardings, propagated, sharding_in
from gnomon._tracing.stack import active, innermost_level, innermost_trace
from gnomon._tracing.trace import Trace, Tracer, concrete_value
from gnomon.backends import profiling
from gnomon.dialects.body import Body
from gnomon.dialects.contract import Op
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import TRANSFORMATIONS, Program, emit_call
from gnomon.dialects.functions import call as call_op
from gnomon.dialects.types import TensorType, is_complex, is_inexact
from gnomon.passes.propagate_shardings import Inspected

DIFFERENTIATIONS = frozenset({"grad", "jvp", "vjp", "linearize"})


class Traced(NamedTuple):
    """A traced function.

    Attributes:
      name: a name for the function in the IR.
      program: the program that holds the functions that the body calls.
      body: the detached body; its arguments are the traced ones, then the captures.
      captures: arrays from outside that the body uses.
      avals: types of its results.
      tree: the pytree of its results.
      extra: the extra data that ``call`` of `trace_function` returned.
    """

    name: str
    program: Program
    body: Body
    captures: list[Array]
    avals: list[ShapedArray]
    tree: Any
    extra: Any


def name_of(fun: Callable[..., Any]) -> str:
    """The name of a function in messages and in the IR."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    return str(getattr(fun, "__name__", type(fun).__name__))


def positional_names(fun: Callable[..., Any]) -> list[str]:
    """The names of the parameters that take arguments by position, for messages; those known."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (ValueError, TypeError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def symbol_for(fun: Callable[..., Any]) -> str:
    """The name of a function as a symbol that MLIR prints without quotes."""
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in name_of(fun))
    return name.strip("_") or "function"


def check_callable(fun: Any, transformation: str) -> None:
    """Raise ``TypeError`` unless ``fun`` can be transformed."""
    if not callable(fun):
        raise TypeError(f"{transformation} takes a callable, got {fun!r} of {type(fun).__name__}")
    if isinstance(fun, staticmethod):
        raise TypeError(
            f"{transformation} takes a function, got {fun!r}: apply staticmethod to the "
            "transformed function"
        )
    if inspect.isgeneratorfunction(fun):
        raise TypeError(
            f"{transformation} takes a function that returns its results, got the generator "
            f"function {fun!r}"
        )


def with_metadata(wrapper: Any, fun: Any) -> Any:
    """`functools.update_wrapper`, except that unsuitable attributes of ``fun`` are not copied.

    An instance of a class may have a ``__name__`` that is not a string, for example.
    """
    try:
        return functools.update_wrapper(wrapper, fun)
    except TypeError:
        for attribute in functools.WRAPPER_ASSIGNMENTS:
            with suppress(AttributeError, TypeError):
                setattr(wrapper, attribute, getattr(fun, attribute))
        return functools.update_wrapper(wrapper, fun, assigned=())


def described(wrapper: Callable[..., Any], fun: Any, sentence: str) -> Any:
    """Name a transformed function after ``fun``, and put ``sentence`` before its docstring."""
    with_metadata(wrapper, fun)
    wrapper.__doc__ = sentence.format(name_of(fun))
    if own := getattr(fun, "__doc__", None):
        wrapper.__doc__ += f"\n\nOf the function itself:\n\n{own}"
    return wrapper


def output_leaves(out: Any, what: str) -> tuple[list[Array], Any]:
    """The leaves of a result as arrays, and its tree; other leaves raise ``TypeError``."""
    leaves, tree = tree_util.tree_flatten(out)
    arrays = []
    for i, leaf in enumerate(leaves):
        try:
            arrays.append(as_operand(leaf))
        except TypeError as error:
            if has_float0([leaf]):
                return output_leaves(without_float0(out), what)
            path = tree_util.keystr(tree_util.tree_flatten_with_path(out)[0][i][0]) or "the result"
            raise TypeError(
                f"{what} must return arrays or pytrees of them; {path} is {leaf!r} of type "
                f"{type(leaf).__name__}"
            ) from error
    return arrays, tree


class NoTangent:
    """A node without leaves that replaces an array of ``float0`` in arguments and results."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def has_float0(leaves: Sequence[Any]) -> bool:
    """Whether a leaf is an array of ``float0``."""
    return any(getattr(leaf, "dtype", None) == float0 for leaf in leaves)


def without_float0(tree: Any) -> Any:
    """A pytree with a `NoTangent` for each array of ``float0``."""
    return tree_util.tree_map(
        lambda leaf: NoTangent(leaf.shape) if has_float0([leaf]) else leaf, tree
    )


tree_util.register_pytree_node(
    NoTangent, lambda node: ((), node.shape), lambda shape, _: np.zeros(shape, float0)
)


def rebuilt(tree: Any) -> Any:
    """A tree as a traced function gets it: dictionaries have sorted keys."""
    return tree_util.tree_map(lambda leaf: leaf, tree)


def auxiliary_leaves(out: Any) -> tuple[list[Array], Callable[[Sequence[Any]], Any]]:
    """The arrays of auxiliary data, and a function that puts arrays back among the other leaves."""
    leaves, tree = tree_util.tree_flatten(out)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Array)]
    found = [leaves[i] for i in places]
    # Tracers must not outlive the trace.
    others = [None if isinstance(leaf, Array) else leaf for leaf in leaves]

    def put_back(arrays: Sequence[Any]) -> Any:
        full = list(others)
        for i, array in zip(places, arrays, strict=True):
            full[i] = array
        return tree_util.tree_unflatten(tree, full)

    return found, put_back


def result_and_auxiliary(out: Any, fun: Callable[..., Any]) -> tuple[Any, Any]:
    """The result and the auxiliary data of a function; raises ``TypeError`` unless it is a pair."""
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise TypeError(
            f"with has_aux=True, {name_of(fun)} must return a pair (result, aux), got "
            f"{type(out).__name__}"
        )
    result, aux = out
    return result, aux


def trace_function(
    call: Callable[[list[Any]], tuple[Any, Any]],
    fun: Callable[..., Any],
    transformation: str,
    avals: Sequence[ShapedArray],
    *,
    staging: bool,
    sources: Sequence[Array | None] | None = None,
    names: Sequence[str] | None = None,
    program: Program | None = None,
) -> Traced:
    """Trace a function.

    Args:
      call: takes the tracers; returns the result (a pytree) and extra data.
      fun: the user's function, for its name.
      transformation: the name of the transformation, such as ``"jit"`` or ``"grad"``.
      avals: types of the arguments to trace.
      staging, sources, names: see `Trace`.
      program: receives the functions that ``fun`` calls; not used inside of another trace.
    """
    what = f"{transformation} of {name_of(fun)}"
    trace = Trace(
        what,
        avals,
        staging=staging,
        sources=sources,
        names=names,
        differentiates=transformation in DIFFERENTIATIONS,
        jitted=transformation == "jit",
        program=program,
        parent=innermost_trace(),
        level=innermost_level() + 1,
    )
    with active(trace), profiling.span(f"trace {what}"):
        out, extra = call(trace.arguments(avals))
        leaves, tree = output_leaves(out, what)
        body = trace.finish(leaves)
    result_avals = [leaf.aval for leaf in leaves]
    if config.check_tracer_leaks:
        # These hold tracers too, and are not used below.
        out = leaves = None  # type: ignore[assignment]
        trace.check_leaks()
    return Traced(symbol_for(fun), trace.program, body, trace.captures, result_avals, tree, extra)


def apply(op: Op, traced: Traced, operands: Sequence[Any], **params: Any) -> list[Any]:
    """Apply a transformation (or call) of a traced function to arrays.

    The op is evaluated at once if no trace takes the operands; otherwise it is emitted. The
    ``operands`` are those of the op; they must include the captures.
    """
    trace = trace_for(operands)
    program = traced.program
    name = program.add(traced.name, traced.body, location=user_location())
    if trace is not None:
        values = trace.emit(
            lambda *values_inside: emit_call(program, op, name, values_inside, **params), operands
        )
        return [trace.tracer(v) for v in values]
    return evaluate_op(program, op, name, operands, params)


def evaluate_op(
    program: Program, op: Op, name: str, operands: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    """Evaluate a call or transformation of a function: with NumPy, or on the operands' device."""
    check_execution(name)
    place = place_of(operands, name)
    arrays: Sequence[Any] = [concrete_value(o) for o in operands] if _on_host(place) else operands
    types = [TensorType(a.shape, a.dtype) for a in arrays]
    key = None
    if op.full_name in TRANSFORMATIONS and _is_cached(operands, place):
        key = eager_cache.key_of(program, op.full_name, name, types, params)
        run = None if key is None else eager_cache.take(key)
        if key is not None and run is not None:
            results = run(*arrays)
            eager_cache.give_back(key, run)
            return _on_place(results, place)
    body = Body.build(
        types, lambda *arguments: emit_call(program, op, name, list(arguments), **params)
    )
    main = program.add("main", body)
    try:
        shardings = _known_shardings(program, main, operands, place)
        if place is not None and not _on_host(place):
            return _run_placed(program, main, operands, place, shardings)
        run = evaluator(program).prepared(main)
        results = run(*arrays)
    finally:
        program.erase(main)
    if key is not None:
        eager_cache.give_back(key, run)
    return _on_place(results, place, shardings)


def _is_cached(operands: Sequence[Any], place: Place | None) -> bool:
    """Whether to cache an evaluation: on the host, outside of traces."""
    return (
        innermost_trace() is None
        and _on_host(place)
        # An error of a value check names the line of this call.
        and not config.checks_values
        and not any(type(o) is ShardedArray for o in operands)
    )


Place = tuple[Device, bool]


def _known_shardings(
    program: Program, name: str, operands: Sequence[Any], place: Place | None
) -> list[NamedSharding] | None:
    """The shardings of the results of a function on arrays; calls its inspections' callbacks."""
    inspected: list[Inspected] = []
    shardings = None
    body = program.body(name)
    mesh = mesh_of([sharding_in(x) for x in operands]) or constraint_mesh(program, body)
    where: Any = mesh or (default_device() if place is None else place[0])
    if mesh is not None:
        shardings = program_shardings(program, name, operands, mesh, inspected)
    elif any_inspections():
        propagated(program, body, [None] * len(body.argument_types), None, inspected)
    report_shardings(inspected, where)
    return shardings


def _on_host(place: Place | None) -> bool:
    return place is None or in_host_memory(place[0])


def _on_place(
    values: Sequence[Any],
    place: Place | None,
    shardings: Sequence[NamedSharding] | None = None,
) -> list[Any]:
    """Make arrays, with their place or shardings, of values that were computed on the host."""
    arrays = [np.asarray(v) for v in values]
    if shardings is not None:
        return [sharded(a, s) for a, s in zip(arrays, shardings, strict=True)]
    if place is not None and place[1]:
        return [placed(a, place[0], committed=True) for a in arrays]
    return [wrap(a) for a in arrays]


def _run_placed(
    program: Program,
    main: str,
    operands: Sequence[Any],
    place: Place,
    shardings: Sequence[NamedSharding] | None,
) -> list[Any]:
    """Run a function of a program on a device that is not the host, or on the devices of a mesh."""
    device, committed = place
    results: Sequence[Any]
    if shardings is None:
        results = run_program(program, main, operands, device, committed=committed)
    else:
        results = run_program_on_mesh(program, main, operands, device, shardings)
    if config.checks_values:
        kind = invalid_value([r.numpy_value() for r in results])
        if kind is not None:
            raise FloatingPointError(
                f"invalid value ({kind}) encountered among the results of a program on "
                f"{device!r}; to learn which op computes it, move the arguments to the CPU"
            )
    return list(results)


def call_function(program: Program, name: str, operands: Sequence[Any]) -> list[Any]:
    """Call a function of a program with arrays; evaluated or emitted."""
    trace = trace_for(operands)
    if trace is None:
        return evaluate_op(program, call_op, name, operands, {})
    if trace.program is not program:
        imported = trace.memo.setdefault(("imported", id(program)), {})
        # This entry keeps the other program alive, so that its id is not reused.
        trace.memo[("importing", id(program))] = program
        name = trace.program.import_function(program, name, imported)
    target = trace.program
    values = trace.emit(lambda *arguments: emit_call(target, call_op, name, arguments), operands)
    return [trace.tracer(v) for v in values]


def bind_bodies(
    op: Op,
    program: Program,
    operands: Sequence[Any],
    bodies: Sequence[Body],
    params: dict[str, Any],
) -> list[Any]:
    """Apply an op with bodies to arrays: evaluated, or emitted.

    Args:
      op, program, operands, bodies, params: the op; ``program`` has the functions that it calls.
    """
    trace = trace_for(operands)
    if trace is not None:
        values = trace.emit(lambda *arguments: op.build(arguments, params, bodies), operands)
        return [trace.tracer(v) for v in values]
    check_execution(op.full_name)
    place = place_of(operands, op.full_name.removeprefix("gnomon."))
    if place is not None and not _on_host(place):
        types = [TensorType(o.shape, o.dtype) for o in operands]
        body = Body.build(types, lambda *arguments: op.build(arguments, params, bodies))
        main = program.add("main", body)
        try:
            shardings = _known_shardings(program, main, operands, place)
            return _run_placed(program, main, operands, place, shardings)
        finally:
            program.erase(main)
    shardings = None
    if any_inspections() or any(type(o) is ShardedArray for o in operands):
        copies = [body.clone() for body in bodies]
        types = [TensorType(o.shape, o.dtype) for o in operands]
        body = Body.build(types, lambda *arguments: op.build(arguments, params, copies))
        main = program.add("main", body)
        try:
            shardings = _known_shardings(program, main, operands, place)
        finally:
            program.erase(main)
    key = eager_cache.key_of_bodies(program, bodies) if _is_cached(operands, place) else None
    prepared: Any = None if key is None else eager_cache.take(key)
    if prepared is None:
        run = evaluator(program, checked=False)
        prepared = [run.prepare(body) for body in bodies]
    arrays = [concrete_value(o) for o in operands]
    with np.errstate(all="ignore"):
        results = op.evaluate(*arrays, bodies=prepared, **params)  # type: ignore[operator]
    if key is not None:
        eager_cache.give_back(key, prepared)
    if config.checks_values and invalid_value(results) is not None:
        # As with a jitted function, only results count, and a second run finds the op.
        run = evaluator(program)
        with np.errstate(all="ignore"):
            op.evaluate(  # type: ignore[operator]
                *arrays, bodies=[run.prepare(body) for body in bodies], **params
            )
    return _on_place(results, place, shardings)


def rearranged(body: Body, order: Sequence[int], types: Sequence[TensorType]) -> Body:
    """The body, with arguments of ``types`` of which ``order[i]`` replaces its argument ``i``."""
    if list(order) != list(range(len(types))):
        body.rearrange_arguments(order, types)
    return body


def match_dtype(x: Array, aval: ShapedArray) -> Array:
    """A weakly typed float or complex number in the dtype of ``aval``, if that can hold it."""
    if x.dtype == aval.dtype or not x.aval.weak_type or not is_inexact(x.dtype):
        return x
    if not is_inexact(aval.dtype) or (is_complex(x.dtype) and not is_complex(aval.dtype)):
        return x
    converted: Array = bind(ops.convert, x, dtype=aval.dtype)
    return converted


def with_avals(results: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """Results with the weak types, varying axes and shardings that tracing found."""
    return [_like(r, aval) for r, aval in zip(results, avals, strict=True)]


def _like(array: Any, aval: ShapedArray) -> Any:
    weak = aval.weak_type or array.weak_type
    if type(array) is Tracer:
        vma = aval.vma | array.aval.vma
        sharding = aval.explicit or array.aval.explicit
        own = array.aval
        if weak == array.weak_type and vma == own.vma and sharding is own.explicit:
            return array
        return array._trace.tracer(array._ssa, weak, array._location, vma, sharding)
    if aval.explicit is not None:
        array = retyped(array, aval.explicit)
    if weak == array.weak_type:
        return array
    trace = trace_for([array])
    return with_weak_flag(array, True) if trace is None else trace.tracer(trace.value(array), True)
