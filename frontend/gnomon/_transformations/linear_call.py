"""`linear_call`: a linear function with a custom transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnomon import tree_util
from gnomon._tracing.bind import trace_for
from gnomon._tracing.function import Traced, check_callable, name_of, output_leaves, trace_function
from gnomon._transformations.custom_rules import Call, Rule, emit_custom
from gnomon._trees.prefixes import difference_of_structures
from gnomon.dialects.custom_derivatives import remember_failure
from gnomon.dialects.emit import ops


def linear_call(
    fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any
) -> Any:
    """Call a linear function whose transpose, in reverse mode, is another function.

    Args:
      fun: ``fun(residual_args, linear_args)``, linear in the second argument.
      fun_transpose: ``fun_transpose(residual_args, cotangent)``, the transpose of ``fun``. The
        cotangent has the type of the result of ``fun``; the result has that of ``linear_args``. The
        transpose of ``fun_transpose`` is ``fun``.
      residual_args: a pytree of arrays, in which neither function need be linear.
      linear_args: a pytree of arrays.
    Returns:
      ``fun(residual_args, linear_args)``.
    Raises:
      TypeError: (when the transpose is used) the result of ``fun_transpose`` does not have the
        structure, shapes and dtypes of ``linear_args``.

    Example:
      >>> import gnomon as gn
      >>> from gnomon.custom_derivatives import linear_call
      >>> def third(x):
      ...     return linear_call(lambda r, x: x / r, lambda r, ct: 5.0 * ct / r, 3.0, x)
      >>> print(third(9.0), gn.linear_transpose(third, 9.0)(9.0)[0])
      3.0 15.0
    """
    check_callable(fun, "linear_call")
    check_callable(fun_transpose, "linear_call")
    call = Call((residual_args, linear_args), ())
    if trace_for(call.operands) is None:
        return call.run(fun)
    fixed = len(tree_util.tree_leaves(residual_args))

    def run(tracers: list[Any]) -> tuple[Any, Any]:
        return fun(*call.arguments(tracers)), None

    traced = trace_function(
        run, fun, "linear_call", call.avals, staging=True, sources=call.operands
    )
    rules: list[Rule] = []
    failure = ""
    try:
        rules = [_trace_transpose(fun_transpose, call, traced, fixed, linear_args)]
    except Exception as error:  # raised only if the transpose is used
        failure = remember_failure(error)
    params = {"residuals": fixed, "failure": failure}
    return emit_custom(ops.linear_call, call, traced, rules, params)


def _trace_transpose(
    fun_transpose: Callable[..., Any], call: Call, traced: Traced, fixed: int, linear_args: Any
) -> Rule:
    what = f"the transpose {name_of(fun_transpose)} given to linear_call"

    def run(tracers: list[Any]) -> tuple[Any, Any]:
        leaves = [*tracers[:fixed], *(0 for _ in call.avals[fixed:])]
        residuals, _ = call.arguments(leaves)
        seeds = tree_util.tree_unflatten(traced.tree, tracers[fixed:])
        found, tree = output_leaves(fun_transpose(residuals, seeds), what)
        wanted = tree_util.tree_structure(linear_args)
        if tree != wanted:
            raise TypeError(
                "transpose output pytree structure must match that of linear inputs: "
                + difference_of_structures(tree, wanted, "the output", "the inputs")
            )
        for leaf, aval in zip(found, call.avals[fixed:], strict=True):
            if (leaf.shape, leaf.dtype) != (aval.shape, aval.dtype):
                raise TypeError(
                    f"{what} must return values of the types of the linear arguments: expected "
                    f"{aval}, got {leaf.aval}"
                )
        return found, None

    avals = [*call.avals[:fixed], *traced.avals]
    sources = [*call.operands[:fixed], *(None for _ in traced.avals)]
    found = trace_function(
        run, fun_transpose, "linear_call transpose", avals, staging=True, sources=sources
    )
    return Rule(found.body, [a.type for a in avals], found.captures)


__all__ = ["linear_call"]
