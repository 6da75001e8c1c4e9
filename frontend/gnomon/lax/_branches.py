"""Branches: `cond`, `switch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._arrays.aval import split_alike
from gnomon._arrays.concrete import wrap
from gnomon._config.current import config
from gnomon._tracing.bind import as_operand, bind, varying
from gnomon._tracing.function import (
    Traced,
    bind_bodies,
    check_callable,
    name_of,
    rearranged,
    with_avals,
)
from gnomon._tracing.trace import concrete_value
from gnomon._trees.prefixes import difference_of_structures
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program
from gnomon.dialects.types import is_floating, is_integer
from gnomon.lax._bodies import leaves_of, path_to, trace_body
from gnomon.passes.drop_casts import drop_casts

__all__ = ["cond", "switch"]

_INT32 = np.dtype(np.int32)
_NOT_GIVEN: Any = object()


def switch(
    index: ArrayLike,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = _NOT_GIVEN,
) -> Any:
    """Apply one of several functions, chosen by an index.

    Args:
      index: an integer scalar; it is clamped to ``[0, len(branches) - 1]``.
      branches: functions of ``operands`` whose results agree in structure, shapes and dtypes.
      operands: arguments of the branches.
      operand: the single argument of the branches, as a keyword; an old form.
    Returns:
      The result of ``branches[index](*operands)``. All branches are traced and one is executed.
      If `vmap` maps ``index``, all branches are executed and their results are selected.
    Raises:
      TypeError: the index is not an integer scalar, or the branches' results differ in type.

    Example:
      >>> from gnomon import lax
      >>> lax.switch(1, [lambda x: x + 1, lambda x: x * 10], 5)
      Array(50, dtype=int32, weak_type=True)
      >>> lax.switch(7, [lambda x: x + 1, lambda x: x * 10], 5)
      Array(50, dtype=int32, weak_type=True)

    See also:
      `cond`
    """
    if operand is not _NOT_GIVEN:
        if operands:
            raise TypeError("switch: pass operands by position or as operand=, not both")
        operands = (operand,)
    if not branches:
        raise ValueError("switch takes at least one branch, got none")
    for branch in branches:
        if not callable(branch):
            raise TypeError(f"switch: branches must be callable, got {branch!r}")
    chosen = as_operand(index)
    if chosen.shape != ():
        raise TypeError(f"switch: the index must be a scalar, got an array of shape {chosen.shape}")
    if not is_integer(chosen.dtype):
        raise TypeError(f"switch: the index must be an integer, got {chosen.dtype.name}")
    if len(branches) == 1:
        return branches[0](*operands)
    if config.disable_jit and (known := concrete_value(chosen)) is not None:
        return branches[min(max(int(known), 0), len(branches) - 1)](*operands)
    if chosen.dtype != _INT32:
        # Clamp first: a wide index must not wrap around.
        limits = [wrap(np.asarray(v, chosen.dtype)) for v in (0, len(branches) - 1)]
        chosen = bind(ops.clamp, limits[0], chosen, limits[1])
        chosen = bind(ops.convert, chosen, dtype=_INT32)
    return _branch("switch", chosen, branches, operands)


def cond(
    pred: ArrayLike,
    true_fun: Any,
    false_fun: Any,
    *operands: Any,
    operand: Any = _NOT_GIVEN,
    linear: Any = None,
) -> Any:
    """Apply one of two functions, chosen by a predicate.

    Args:
      pred: a scalar; a number is true if it is not zero.
      true_fun, false_fun: functions of ``operands`` whose results agree in structure, shapes and
        dtypes.
      operands: arguments of both.
      operand: the single argument of both, as a keyword; an old form.
      linear: ignored.
    Returns:
      The result of the chosen function; see `switch`.
    Raises:
      TypeError: the predicate is not a scalar number, or the results differ in type.

    Example:
      >>> import gnomon.lax as lax
      >>> float(lax.cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 1.0))
      2.0
    """
    if operand is not _NOT_GIVEN:
        if operands:
            raise TypeError("cond: pass operands by position or as operand=, not both")
        operands = (operand,)
    if not callable(true_fun) and len(operands) == 2 and callable(operands[1]):
        # The older form: cond(pred, true_operand, true_fun, false_operand, false_fun).
        on_true, on_false = false_fun, operands[1]
        true_operand, false_operand = true_fun, operands[0]
        true_fun, false_fun = lambda a, b: on_true(a), lambda a, b: on_false(b)
        operands = (true_operand, false_operand)
    check_callable(true_fun, "cond")
    check_callable(false_fun, "cond")
    pred = as_operand(pred)
    if pred.shape != ():
        raise TypeError(f"cond: pred must be a scalar, got an array of shape {pred.shape}")
    if config.disable_jit and (known := concrete_value(pred)) is not None:
        return (true_fun if known else false_fun)(*operands)
    if pred.dtype != np.bool_:
        dtype = pred.dtype
        if not (is_integer(dtype) or is_floating(dtype)):
            raise TypeError(f"cond: pred must be a boolean or a real number, got {dtype.name}")
        pred = bind(ops.ne, pred, wrap(np.zeros((), dtype)))
    index = bind(ops.convert, pred, dtype=_INT32)
    return _branch("cond", index, (false_fun, true_fun), operands)


def _branch(
    what: str, index: Array, branches: Sequence[Callable[..., Any]], operands: tuple[Any, ...]
) -> Any:
    leaves, tree = leaves_of(operands, f"{what}'s operands")
    # If members of an axis may choose differently, the operands vary over it; see `drop_casts`.
    chooses = index.aval.vma
    leaves = varying(leaves, chooses)
    avals = [leaf.aval for leaf in leaves]
    program = Program()  # holds the functions that the branches call
    traced = [trace_body(branch, what, tree, avals, program) for branch in branches]
    _check_branches(what, branches, traced)
    captures: dict[int, Array] = {id(c): c for t in traced for c in t.captures}
    position = {key: len(leaves) + i for i, key in enumerate(captures)}
    types = [a.type for a in avals] + [c.aval.type for c in captures.values()]
    bodies = []
    for t in traced:
        order = [*range(len(leaves)), *(position[id(c)] for c in t.captures)]
        bodies.append(rearranged(t.body, order, types))
        if chooses:
            drop_casts(t.program, bodies[-1], chooses)
    outer = varying(list(captures.values()), chooses)
    results = bind_bodies(ops.switch, traced[0].program, [index, *leaves, *outer], bodies, {})
    out_avals = [aval.update(vma=aval.vma | chooses) for aval in traced[0].avals]
    return tree_util.tree_unflatten(traced[0].tree, with_avals(results, out_avals))


def _check_branches(
    what: str, branches: Sequence[Callable[..., Any]], traced: Sequence[Traced]
) -> None:
    first = traced[0]
    labels = [f"branches[{i}]" for i in range(len(branches))]
    if what == "cond":
        labels = ["false_fun", "true_fun"]
    called = [f"{label} ({name_of(f)})" for label, f in zip(labels, branches, strict=True)]
    for name, other in zip(called[1:], traced[1:], strict=True):
        names = f"{called[0]} and {name}"
        if other.tree != first.tree:
            raise TypeError(
                f"{what} branches must have the same output structure: "
                + difference_of_structures(first.tree, other.tree, called[0], name)
            )
        different = []
        for i, (a, b) in enumerate(zip(first.avals, other.avals, strict=True)):
            if a.shape != b.shape or a.dtype != b.dtype or a.vma != b.vma or not split_alike(a, b):
                different.append(
                    f"  output {path_to(first.tree, i) or '(the result itself)'}: {a} and {b}"
                )
        if different:
            raise TypeError(
                f"{what} branches must have equal output types; {names} differ at\n"
                + "\n".join(different)
                + "\nConvert one side with astype, broadcast it, or cast it with gnomon.lax.pcast."
            )
