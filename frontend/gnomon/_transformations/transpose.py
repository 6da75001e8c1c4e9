"""`linear_transpose`, and `fwd_and_bwd`, the two passes of reverse mode as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays.aval import ShapedArray
from gnomon._compilation.jit import jit
from gnomon._compilation.stages import aval_of
from gnomon._diagnostics.source_location import user_location
from gnomon._tracing.differentiation_order import LATER, differentiated
from gnomon._tracing.function import (
    call_function,
    check_callable,
    name_of,
    trace_function,
    with_avals,
)
from gnomon._transformations.differentiate import matched, vjp
from gnomon.dialects.body import operands_of
from gnomon.dialects.contract import MappedAxis
from gnomon.dialects.functions import Program
from gnomon.passes.expand import Expander, mapped_results


def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[str] = ()
) -> Callable[[Any], tuple[Any, ...]]:
    """The transpose of a function that is linear in all its arguments.

    Args:
      fun: a linear function of arrays and pytrees of them.
      primals: arguments, of which only shapes and dtypes are used (`ShapeDtypeStruct` will do).
      reduce_axes: must be empty.
    Returns:
      A function from a cotangent, of the structure of ``fun``'s result, to a tuple of cotangents of
      the arguments. As a pytree, its leaves are the arrays that ``fun`` closes over, so that it may
      be an argument or a result of a jitted function.
    Raises:
      TypeError: the derivative of ``fun`` depends on its arguments. Terms of ``fun`` that do not
        depend on them are ignored.

    Example:
      >>> import gnomon as gn
      >>> print(gn.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)[0])
      6.0
    """
    check_callable(fun, "linear_transpose")
    if reduce_axes:
        raise NotImplementedError("linear_transpose: reduce_axes is not supported, as in JAX")
    leaves, in_tree = tree_util.tree_flatten(primals)
    avals = [aval_of(leaf) for leaf in leaves]

    def call(tracers: list[Any]) -> tuple[Any, Any]:
        return fun(*tree_util.tree_unflatten(in_tree, tracers)), None

    with differentiated(LATER):
        traced = trace_function(call, fun, "linear_transpose", avals, staging=True)
    program = traced.program
    function = program.add(traced.name, traced.body, location=user_location())
    expander = Expander(program)
    expander.expand(function)
    captures = traced.captures
    _check_linear(fun, expander, function, len(avals), len(captures))
    linear = [True] * len(avals) + [False] * len(captures)
    present = [True] * len(traced.avals)
    try:
        name = expander.differentiator.transpose_function(function, tuple(linear), tuple(present))
    except NotImplementedError as error:
        raise TypeError(
            f"linear_transpose: {name_of(fun)} is not linear in its arguments: {error}"
        ) from None
    return Transpose(
        _Transposed(program, name, tuple(avals), in_tree, tuple(traced.avals), traced.tree),
        list(captures),
    )


@dataclass
class _Transposed:
    """A transposed function of captured arrays and cotangents.

    Attributes:
      program: the program that holds the function.
      name: the name of the function.
      in_avals, in_tree: the types and the tree of the arguments of the original function.
      out_avals, out_tree: those of its result.
    """

    program: Program
    name: str
    in_avals: tuple[ShapedArray, ...]
    in_tree: tree_util.PyTreeDef
    out_avals: tuple[ShapedArray, ...]
    out_tree: tree_util.PyTreeDef
    is_detached: bool = False

    def __deepcopy__(self, memo: dict[int, Any]) -> _Transposed:
        return self  # It does not change.

    __hash__ = object.__hash__

    def detached(self) -> _Transposed:
        """The same function in a program of its own, which outlives the one being traced."""
        if self.is_detached:
            return self
        program = Program()
        name = program.import_function(self.program, self.name, {})
        return replace(self, program=program, name=name, is_detached=True)

    def apply(self, captures: list[Any], cotangent: Any) -> Any:
        """The cotangents of the arguments."""
        given, tree = tree_util.tree_flatten(cotangent)
        if tree != self.out_tree:
            raise TypeError(
                "cotangent type does not match function output, expected the structure "
                f"{self.out_tree}, got {tree}"
            )
        try:
            seeds = [matched(ct, a) for ct, a in zip(given, self.out_avals, strict=True)]
        except ValueError as error:
            raise TypeError(f"cotangent type does not match function output: {error}") from None
        results = call_function(self.program, self.name, [*captures, *seeds])
        weak = all(seed.aval.weak_type for seed in seeds)
        avals = [a.cotangent() for a in self.in_avals]
        avals = avals if weak else [a.strip_weak_type() for a in avals]
        return tree_util.tree_unflatten(self.in_tree, with_avals(results, avals))


class Transpose:
    """A transposed function. As a pytree, its leaves are the arrays that it closes over."""

    def __init__(self, function: _Transposed, captures: list[Any]) -> None:
        self._function = function
        self._captures = captures

    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        """A tuple of the cotangents of the arguments.

        Raises:
          TypeError: the cotangent does not have the structure, shapes and dtypes of the result.
        """
        out: tuple[Any, ...] = self._function.apply(self._captures, cotangent)
        return out


tree_util.register_pytree_node(
    Transpose,
    lambda transpose: (tuple(transpose._captures), transpose._function.detached()),
    lambda function, captures: Transpose(function, list(captures)),
)


def _check_linear(
    fun: Callable[..., Any], expander: Expander, function: str, count: int, captures: int
) -> None:
    """Raise if the function's derivative depends on its first ``count`` arguments."""
    wrt = (*[True] * count, *[False] * captures)
    parts = expander.differentiator.linearize_function(function, wrt)[2]
    program = expander.program
    varies = mapped_results(program, parts.forward, wrt, MappedAxis(1, ""))
    residuals = varies[len(parts.out_nonzero) :]
    changing = {parts.linear.arguments[i] for i, changes in enumerate(residuals) if changes}
    for op in parts.linear.operations:
        if any(operand in changing for operand in operands_of(op)):
            raise TypeError(
                f"linear_transpose: {name_of(fun)} is not linear in its arguments: its derivative "
                f"depends on where it is taken ({op.location})"
            )


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward pass of a function as two functions.

    Unlike the pullback of `vjp`, the backward function serves all primals, and is compiled once.

    Args:
      fun: a function of arrays and pytrees of them.
      argnums: which arguments to differentiate by.
      has_aux: whether ``fun`` returns a pair of its result and auxiliary data.
      jitted: whether to compile both functions.
    Returns:
      ``(fwd, bwd)``. ``fwd(*args)`` returns the result and the residuals (with ``has_aux`` also the
      auxiliary data). ``bwd(residuals, cotangent)`` returns the cotangent of the argument, or a
      tuple of cotangents unless ``argnums`` is an int.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> fwd, bwd = gn.fwd_and_bwd(gnp.sin, argnums=0)
      >>> y, residuals = fwd(0.0)
      >>> print(bwd(residuals, 2.0))
      2.0
    """
    check_callable(fun, "fwd_and_bwd")
    single = isinstance(argnums, (int, np.integer))
    wanted: list[Any] = np.atleast_1d(argnums).tolist()

    def fwd(*args: Any) -> Any:
        positions = [i % len(args) for i in wanted]

        def on_chosen(*chosen: Any) -> Any:
            given = list(args)
            for i, value in zip(positions, chosen, strict=True):
                given[i] = value
            return fun(*given)

        return vjp(on_chosen, *(args[i] for i in positions), has_aux=has_aux)

    def bwd(residuals: Any, cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if single else found

    fwd.__name__ = f"{name_of(fun)}_fwd"
    bwd.__name__ = f"{name_of(fun)}_bwd"
    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


__all__ = ["fwd_and_bwd", "linear_transpose"]
