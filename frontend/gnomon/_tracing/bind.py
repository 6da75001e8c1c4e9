"""Tracing: how Python code that runs on tracers becomes IR.

`bind` applies every op without regions. If no operand is traced and no staging trace is active, it
evaluates the op at once, with NumPy or on the operands' device. Otherwise it emits the op into the
innermost trace among those of the operands and the staging trace. The module `trace` defines what
a trace is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays import host_values
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import (
    ConcreteArray,
    PlacedArray,
    mesh_placements,
    placed,
    with_weak_flag,
    wrap,
    wrap_unspread,
)
from gnomon._arrays.sharded import ShardedArray
from gnomon._arrays.transfers import guard_host_value
from gnomon._config.current import Config, config
from gnomon._sharding.device import HOST, in_host_memory
from gnomon._tracing.evaluation import check_execution, check_values, evaluated
from gnomon._tracing.mesh_creation import replicated_over_mesh
from gnomon._tracing.on_device import computes_on_host, place_of, run_op
from gnomon._tracing.on_mesh import run_op_on_mesh
from gnomon._tracing.shardings import sharded_results
from gnomon._tracing.stack import state
from gnomon._tracing.trace import Trace, Tracer, concrete_value
from gnomon.dialects.contract import Op
from gnomon_runtime.booleans import zero_or_one

__all__ = ["as_operand", "bind", "operand_of", "trace_for", "varying", "with_weak_type"]


def trace_for(operands: Sequence[Any]) -> Trace | None:
    """The trace that takes an op on these operands; ``None`` if the op is evaluated."""
    innermost = state.staging
    for operand in operands:
        if type(operand) is Tracer:
            trace = operand._trace
            if trace.finished:
                trace.check_alive(operand)
            if innermost is None or trace.level > innermost.level:
                innermost = trace
    return innermost


def bind(op: Op, *operands: Any, **params: Any) -> Any:
    """Apply an op to arrays.

    Args:
      op: an op without regions.
      operands: arrays (concrete or traced), or NumPy arrays, of the exact shapes and dtypes that
        the op's type rule requires.
      params: the op's parameters.
    Returns:
      An `Array`, or a list of them if the op does not have exactly one result. Results are
      weakly typed if all operands are.
    Raises:
      TypeRuleError: the type rule rejects the operands.
    """
    trace = trace_for(operands)
    if trace is not None:
        return trace.bind(op, operands, params)
    if Config.operands_somewhere and config.no_execution:
        check_execution(op.full_name)
    arrays = []
    weak = bool(operands)
    for operand in operands:
        if type(operand) is ConcreteArray:
            value = operand._value
            arrays.append(operand.numpy_value() if value is None else value)
            weak = weak and operand.weak_type
        elif isinstance(operand, PlacedArray):
            return _bind_placed(op, operands, params)
        else:
            arrays.append(np.asarray(operand))
            weak = False
    result = evaluated(op, arrays, params)
    if Config.checks_somewhere and config.checks_values:
        check_values(op.full_name, [result] if op.results == 1 else result)
    if op.results == 1:
        return wrap(result if type(result) is np.ndarray else np.asarray(result), weak)
    return [wrap(np.asarray(r), weak) for r in result]


def _bind_placed(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """`bind` where an operand is not on the host, or is committed to its device."""
    name = op.full_name.removeprefix("gnomon.")
    device, committed = place_of(operands, name) or (HOST, False)
    weak = all(getattr(x, "weak_type", False) for x in operands)
    results: Sequence[Any]
    if in_host_memory(device) or (
        (not committed or _are_only_on_host(operands)) and computes_on_host(operands)
    ):
        out = evaluated(op, [concrete_value(x) for x in operands], params)
        out = [out] if op.results == 1 else out
        values = [np.asarray(r) for r in out]
        if committed and any(type(x) is ShardedArray for x in operands):
            results = sharded_results(op, operands, params, values, weak)
        elif committed:
            results = [placed(v, device, committed=True, weak_type=weak) for v in values]
        else:
            results = [wrap(v, weak) for v in values]
    elif any(type(x) is ShardedArray for x in operands):
        results = run_op_on_mesh(op, operands, params, device, weak_type=weak)
    else:
        results = run_op(op, operands, params, device, committed=committed, weak_type=weak)
    if Config.checks_somewhere and config.checks_values:
        check_values(op.full_name, [r.numpy_value() for r in results])
    return results[0] if op.results == 1 else list(results)


def _are_only_on_host(operands: Sequence[Any]) -> bool:
    """Whether committed operands are replicated over a mesh, but have not been put there yet.

    This saves the compilation of programs that only initialize parameters while a mesh is set.
    """
    return all(
        not getattr(x, "committed", False)
        or (type(x) is ShardedArray and x.is_fully_replicated and x.is_only_on_host())
        for x in operands
    )


def as_operand(x: Any) -> Array:
    """Convert an array-like value to an array, by JAX's rules for dtypes and weak types.

    Raises:
      TypeError: ``x`` is not an array, a NumPy array or scalar, or a Python number.
    """
    if isinstance(x, Array):
        return x
    operand = operand_of(x)
    if Config.guards_somewhere and state.staging is None:
        guard_host_value(x)
    return operand


def operand_of(x: Any) -> Array:
    """`as_operand` without the transfer guard."""
    if isinstance(x, Array):
        return x
    if type(x) in _dtypes.PYTHON_DEFAULTS:
        return wrap_unspread(host_values.scalar_to_numpy(x), type(x) is not bool)
    if isinstance(x, (np.ndarray, np.generic)):
        host_values.refuse_masks(x)
        dtype = _dtypes.canonicalize_dtype(x.dtype)
        if not _dtypes.is_supported(dtype):
            raise TypeError(f"a NumPy array of dtype {x.dtype} is not an array of numbers")
        # A copy, as the caller may write to the NumPy array, and an Array never changes.
        return wrap_unspread(zero_or_one(np.array(x, dtype)))
    if _dtypes.is_python_scalar(x):
        return wrap_unspread(host_values.scalar_to_numpy(x), True)
    convert = getattr(x, "__jax_array__", None) or getattr(x, "__gnomon_array__", None)
    if convert is not None:
        return as_operand(convert())
    raise TypeError(
        f"{x!r} of type {type(x).__name__} is not an array: pass a gnomon or NumPy array or a "
        "Python number (convert a list with gnomon.numpy.array)"
    )


def varying(arrays: Sequence[Any], vma: frozenset[str]) -> list[Any]:
    """Mark arrays as varying over some axes of a mesh, if a trace takes them."""
    if all(array.aval.vma >= vma for array in arrays):
        return list(arrays)
    trace = trace_for(arrays)
    return list(arrays) if trace is None else [trace.varying(array, vma) for array in arrays]


def with_weak_type(x: Array, weak_type: bool = True) -> Array:
    """The same array with the weak-type flag as given."""
    if x.aval.weak_type == weak_type:
        return x
    if isinstance(x, Tracer):
        return x._trace.tracer(x._ssa, weak_type, x._location, x.aval.vma, x.aval.explicit)
    assert isinstance(x, ConcreteArray)
    return with_weak_flag(x, weak_type)


mesh_placements.append(replicated_over_mesh)
