"""`custom_vmap`: functions with a custom batching rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gnomon import tree_util
from gnomon._diagnostics.errors import UnexpectedTracerError
from gnomon._tracing.bind import trace_for
from gnomon._tracing.differentiation_order import differentiated, differentiation_order
from gnomon._tracing.function import Traced, check_callable, name_of, output_leaves, trace_function
from gnomon._tracing.stack import outside_of_traces
from gnomon._tracing.stateful import StatefulFunction
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.custom_rules import Call, emit_custom, resolve_positions
from gnomon.dialects.body import Body
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.emit import constant, ops
from gnomon.dialects.functions import Program
from gnomon.passes.expand import Expander


class custom_vmap(StatefulFunction):  # noqa: N801
    """A function with a custom batching rule.

    Args:
      fun: a function of arrays and pytrees of them.

    The rule, defined by `def_vmap`, is called when a `vmap` of the function is expanded. In
    forward mode (`jvp`, `jacfwd`) the function and its rule are differentiated; reverse mode raises
    ``TypeError``, unless `custom_vjp` is wrapped around the function.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> @gn.custom_batching.custom_vmap
      ... def f(x, y):
      ...     return x + y
      >>> @f.def_vmap
      ... def f_vmap(axis_size, in_batched, xs, ys):
      ...     return xs * ys, True  # not a sum, to show that the rule is used
      >>> gn.vmap(f)(gnp.arange(3), gnp.arange(1, 4))
      Array([0, 2, 6], dtype=int32)
    """

    __slots__ = ("__dict__", "__weakref__", "fun", "vmap_rule")

    def __init__(self, fun: Callable[..., Any]) -> None:
        check_callable(fun, "custom_vmap")
        self.fun = fun
        self.vmap_rule: Callable[..., tuple[Any, Any]] | None = None
        self._describe_as(fun)

    def __repr__(self) -> str:
        return f"<custom_vmap of {name_of(self.fun)}>"

    def def_vmap(self, vmap_rule: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
        """Define the rule and return it, so that this method serves as a decorator.

        Args:
          vmap_rule: takes the size of the mapped axis; a list that holds, for each argument, a
            pytree of bools, true for the mapped leaves; and the arguments, whose mapped leaves have
            the mapped axis as dimension 0. It returns the result and a pytree of bools of the same
            structure, true for the mapped leaves of the result.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        name = name_of(self.fun)
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name} using def_vmap."
            )
        args = resolve_positions(self.fun, args, kwargs)
        call = Call(args, ())
        trace = trace_for(call.operands)
        if trace is None:
            return call.run(self.fun)

        def run(tracers: list[Any]) -> tuple[Any, Any]:
            return self.fun(*call.arguments(tracers)), None

        traced = trace_function(
            run, self.fun, "custom_vmap", call.avals, staging=True, sources=call.operands
        )
        order = differentiation_order(call.operands)
        # The program outlives the trace, whose values the rule does not need.
        types = call.without_values(), traced._replace(captures=[])
        rule = functools.partial(_batched, self.vmap_rule, *types, order)
        callback = Callback(rule)
        trace.program.callbacks.append(callback)
        return emit_custom(ops.custom_vmap, call, traced, [], {"rule": callback.number})


def _batched(
    rule: Callable[..., Any],
    call: Call,
    traced: Traced,
    order: int,
    size: int,
    mapped: Sequence[bool],
) -> tuple[Program, str, list[bool]]:
    """Trace the rule for arguments of which some are mapped; see `BatchingRule` for the results."""
    what = f"custom vmap rule ({name_of(rule)})"
    flags: list[bool] = []

    def run(tracers: list[Any]) -> tuple[Any, Any]:
        returned = rule(size, list(call.arguments(mapped)), *call.arguments(tracers))
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise TypeError(
                f"{what} must return a pair of the result and a pytree of bools that says which "
                f"of its leaves are mapped, got {returned!r}"
            )
        out, out_batched = returned
        leaves, tree = output_leaves(out, what)
        batched, batched_tree = tree_util.tree_flatten(out_batched)
        if tree != batched_tree:
            raise ValueError(
                "structure of output value and output batching specification returned by "
                f"{what} do not match.\nOutput values: {tree}\nBatching spec: {batched_tree}"
            )
        if tree != traced.tree:
            raise ValueError(
                f"structure of output returned by {what} does not match that of original "
                f"custom-vmapped function.\nOriginal output: {traced.tree}\nRule output: {tree}"
            )
        flags[:] = map(bool, batched)
        for leaf, aval, is_mapped in zip(leaves, traced.avals, flags, strict=True):
            shape = (size, *aval.shape) if is_mapped else aval.shape
            if (leaf.shape, leaf.dtype) != (shape, aval.dtype):
                raise ValueError(
                    f"{what} returned {leaf.aval} where the function returns {aval}, so that "
                    f"{aval.update(shape=shape)} was expected"
                )
        return leaves, None

    avals = [
        a.update(shape=(size, *a.shape)) if m else a
        for a, m in zip(call.avals, mapped, strict=True)
    ]
    # The rule is traced into a separate program, outside of the traces in progress.
    with outside_of_traces(), differentiated(order):
        batched = trace_function(run, rule, "custom vmap rule", avals, staging=True)
    for capture in batched.captures:
        if is_tracer(capture):
            raise UnexpectedTracerError(
                f"The {what} uses a traced value that it closes over.\n"
                f"{capture.describe_origin()}\n"
                "A rule can use only its arguments: make the value an argument of the function."
            )
    captures = [c.numpy_value() for c in batched.captures]
    types = [a.type for a in avals]
    body = Body.build(types, lambda *xs: batched.body.inline([*xs, *map(constant, captures)]))
    name = batched.program.add(f"{traced.name}.batched", body)
    Expander(batched.program).expand(name)
    return batched.program, name, list(flags)


__all__ = ["custom_vmap"]
