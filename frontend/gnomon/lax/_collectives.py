"""Collectives over the named axes that `vmap` binds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon import tree_util
from gnomon._tracing import Trace, as_operand, axis_binding, trace_for
from gnomon.dialects.contract import Op
from gnomon.dialects.emit import ops

AxisName = Any


def _names(axis_name: AxisName) -> tuple[str, ...]:
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    return tuple(str(name) for name in names)


def _innermost(names: Sequence[str]) -> Trace:
    return max((axis_binding(name)[1] for name in names), key=lambda trace: trace.level)


def _bind_over(op: Op, names: tuple[str, ...], *operands: Any) -> Any:
    """Bind a collective, inside of the vmap that binds its axes even for unmapped operands."""
    axis_trace = _innermost(names)
    trace = trace_for(operands)
    if trace is None or trace.level < axis_trace.level:
        trace = axis_trace
    return trace.bind(op, operands, {"axes": names})


def _reduce(op: Op, x: Any, axis_name: AxisName) -> Any:
    names = _names(axis_name)
    _innermost(names)
    return tree_util.tree_map(lambda leaf: _bind_over(op, names, as_operand(leaf)), x)


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The sum of ``x`` over the members of a mapped axis.

    Args:
      x: a pytree of arrays. For a Python number the result is it times the axis size, a Python
      number. axis_name: a name that an enclosing ``vmap(..., axis_name=...)`` binds, or a tuple of
      names.
    Raises:
      NameError: the name is not bound.
    """
    _no_groups("psum", axis_index_groups)
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return x * axis_size(axis_name)
    return _reduce(ops.psum, x, axis_name)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The mean of ``x`` over the members of a mapped axis; see `psum`."""
    _no_groups("pmean", axis_index_groups)
    total = psum(x, axis_name)
    size = axis_size(axis_name)
    return tree_util.tree_map(lambda leaf: leaf / size, total)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The largest of ``x`` over the members of a mapped axis; see `psum`."""
    _no_groups("pmax", axis_index_groups)
    return _reduce(ops.pmax, x, axis_name)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The smallest of ``x`` over the members of a mapped axis; see `psum`."""
    _no_groups("pmin", axis_index_groups)
    return _reduce(ops.pmin, x, axis_name)


def axis_index(axis_name: AxisName) -> Any:
    """The position of the member along a mapped axis, an int32 scalar.

    For a tuple of names, the position in row-major order of the axes together.
    """
    position: Any = None
    for name in _names(axis_name):
        size, trace = axis_binding(name)
        index = trace.bind(ops.axis_index, (), {"axes": (name,)})
        position = index if position is None else position * size + index
    return position


def axis_size(axis_name: AxisName) -> int:
    """The size of a mapped axis, or of several together."""
    size = 1
    for name in _names(axis_name):
        size *= axis_binding(name)[0]
    return size


def _no_groups(name: str, groups: Any) -> None:
    if groups is not None:
        raise NotImplementedError(f"{name}: axis_index_groups is not supported under vmap")


__all__ = ["axis_index", "axis_size", "pmax", "pmean", "pmin", "psum"]
