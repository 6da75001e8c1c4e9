"""`custom_jvp`: functions with a custom rule for forward mode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gnomon import tree_util
from gnomon._arrays.dtypes import float0
from gnomon._tracing.bind import as_operand, bind
from gnomon._tracing.differentiation_order import (
    derivative_rule,
    differentiation_order,
    may_have_tangent,
)
from gnomon._tracing.function import (
    Traced,
    match_dtype,
    name_of,
    output_leaves,
    rebuilt,
    trace_function,
)
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.custom_rules import (
    Call,
    Custom,
    Rule,
    SymbolicZero,
    Typed,
    check_results,
    describe_avals,
    emit_custom,
    resolve_positions,
    without_tangents,
    zero_from_primal,
)
from gnomon.dialects.custom_derivatives import remember_failure
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_inexact


class custom_jvp(Custom):  # noqa: N801
    """A function with a custom JVP rule, which is used in forward and in reverse mode.

    Args:
      fun: a function of arrays and pytrees of them.
      nondiff_argnums, nondiff_argnames: arguments that are not differentiated. They may be any
        Python objects, such as functions; the rule takes them first, unchanged.

    The rule, defined by `defjvp`, takes the nondifferentiable arguments, a tuple of primals and a
    tuple of tangents, and returns the result and its tangent, which must be linear in the tangents.
    For higher derivatives the rule itself is differentiated.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> @gn.custom_jvp
      ... def log1pexp(x):
      ...     return gnp.log(1.0 + gnp.exp(x))
      >>> @log1pexp.defjvp
      ... def log1pexp_jvp(primals, tangents):
      ...     (x,), (t,) = primals, tangents
      ...     return log1pexp(x), (1.0 - 1.0 / (1.0 + gnp.exp(x))) * t
      >>> float(gn.grad(log1pexp)(100.0))
      1.0
    """

    __slots__ = ("_skips_constants", "closes_over_fixed", "jvp")

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        self.jvp: Callable[..., Any] | None = None
        # Whether the values that the function and its rule close over are held constant, as in
        # `custom_root`, whose rule accounts for all that the result depends on.
        self.closes_over_fixed = False
        self._skips_constants = False
        super().__init__(fun, nondiff_argnums, nondiff_argnames)

    def defjvp(
        self, jvp: Callable[..., tuple[Any, Any]], symbolic_zeros: bool = False
    ) -> Callable[..., tuple[Any, Any]]:
        """Define the rule and return it, so that this method serves as a decorator.

        Args:
          jvp: the rule.
          symbolic_zeros: whether the rule gets a `SymbolicZero`, not an array of zeros, for a
            tangent that is known to be zero when the call is traced. Inside of a `jit` that is
            differentiated, every traced value counts as one that may have a tangent.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        self._skips_constants = False
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Define the rule by the contribution of each argument.

        Args:
          jvps: for each argument a function ``(tangent, ans, *primals) -> tangent of the result``,
            or ``None`` if the argument contributes nothing.
        """
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
            if len(jvps) != len(primals):
                raise ValueError(
                    f"defjvps of {name_of(self.fun)} got {len(jvps)} rules, but the function is "
                    f"called with {len(primals)} arguments: pass a rule or None for each"
                )
            out = self(*primals)
            # A rule may multiply by infinity, and make nan of a tangent of zeros.
            terms = [
                rule(t, out, *primals)
                for rule, t in zip(jvps, tangents, strict=True)
                if rule is not None and not isinstance(t, SymbolicZero)
            ]
            if not terms:
                return out, tree_util.tree_map(zero_from_primal, out)
            return out, functools.reduce(
                functools.partial(tree_util.tree_map, lambda a, b: bind(ops.add, a, b)), terms
            )

        self.defjvp(functools.wraps(self.fun)(jvp))
        self._skips_constants = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        name = name_of(self.fun)
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {name} using defjvp.")
        args = resolve_positions(self.fun, args, kwargs)
        # Nondifferentiable arguments may hold tracers, whose tangents are stopped here.
        fixed = {i % len(args) for i in self.nondiff_argnums} if args else set()
        args = tuple(without_tangents(a) if i in fixed else a for i, a in enumerate(args))
        call = Call(args, self.nondiff_argnums)
        order = differentiation_order(call.operands)
        if call.runs_eagerly or (not order and not staging()):
            if self.closes_over_fixed:
                return self.fun(*rebuilt(args))
            return call.run_plainly(self.fun, rebuilt(args), "custom_jvp")
        traced = call.trace(self.fun, "custom_jvp")
        wrt = [i for i in call.inexact if self._has_tangent(call.operands[i])]
        rules: list[Rule] = []
        failure = ""
        if order:
            try:
                rules = [self._trace_rule(call, traced, wrt)]
            except Exception as error:
                failure = remember_failure(error)
        params = {"wrt": tuple(wrt), "failure": failure}
        return emit_custom(ops.custom_jvp, call, traced, rules, params, self.closes_over_fixed)

    def _has_tangent(self, operand: Any) -> bool:
        """Whether the rule gets a tangent of an operand, not a symbolic zero."""
        if self._skips_constants:
            # A traced operand may get a tangent later, if the function is traced separately.
            return is_tracer(operand)
        return not self.symbolic_zeros or may_have_tangent(operand)

    def _trace_rule(self, call: Call, traced: Traced, wrt: list[int]) -> Rule:
        rule = self.jvp
        assert rule is not None
        count = len(call.avals)
        symbolic = self.symbolic_zeros or self._skips_constants

        def run(tracers: list[Any]) -> tuple[Any, Any]:
            primals = tree_util.tree_unflatten(call.tree, tracers[:count])
            given = dict(zip(wrt, tracers[count:], strict=True))
            zeros = [zero_from_primal(Typed(a), symbolic) for a in call.avals]
            tangents = [given.get(i, zero) for i, zero in enumerate(zeros)]
            out = rule(
                *call.static.values(), primals, tree_util.tree_unflatten(call.tree, tangents)
            )
            return _checked_jvp(out, rule, self.fun, traced), None

        avals = [*call.avals, *(call.avals[i] for i in wrt)]
        sources = [*call.operands, *(None for _ in wrt)]
        with derivative_rule():
            found = trace_function(
                run, rule, "custom_jvp rule", avals, staging=True, sources=sources
            )
        return Rule(found.body, [a.type for a in avals], found.captures)


def _checked_jvp(out: Any, rule: Any, fun: Any, traced: Traced) -> tuple[list[Any], list[Any]]:
    """Check the structures and types that a JVP rule returned; return results and tangents."""
    who = f"Custom JVP rule {name_of(rule)} for function {name_of(fun)}"
    if not isinstance(out, (list, tuple)) or len(out) != 2:
        raise TypeError(
            f"{who} must produce a pair (list or tuple of length two) representing primal and "
            f"tangent outputs, but got {out!r}."
        )
    results, tree = output_leaves(out[0], who)
    tangents, tangent_tree = tree_util.tree_flatten(out[1])
    if tree != tangent_tree:
        raise TypeError(
            f"{who} must produce primal and tangent outputs with equal container (pytree) "
            f"structures, but got {tree} and {tangent_tree} respectively."
        )
    if tree != traced.tree:
        raise TypeError(
            f"{who} must produce a pair (list or tuple of length two) where the first element "
            "represents the primal output (equal in value to the output of the function "
            f"{name_of(fun)}), and so of its structure, but got {tree} where the function returns "
            f"{traced.tree}."
        )
    check_results(results, traced, f"{who} must produce")
    found = []
    for result, tangent in zip(results, tangents, strict=True):
        aval = result.aval
        if isinstance(tangent, SymbolicZero):
            tangent = zero_from_primal(Typed(tangent.aval))
        if not is_inexact(aval.dtype):
            if getattr(tangent, "dtype", None) != float0:
                raise TypeError(
                    f"{who} must produce a tangent of dtype float0 for the output of type {aval}, "
                    f"but got {getattr(tangent, 'dtype', type(tangent).__name__)}."
                )
            continue
        tangent = match_dtype(as_operand(tangent), aval)
        if (tangent.shape, tangent.dtype) != (aval.shape, aval.dtype):
            raise TypeError(
                f"{who} must produce primal and tangent outputs with corresponding shapes and "
                f"dtypes. Expected {describe_avals([r.aval for r in results])}, but got a tangent "
                f"of type {tangent.aval} for the output of type {aval}."
            )
        found.append(tangent)
    return results, found


__all__ = ["custom_jvp"]
