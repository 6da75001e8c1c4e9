"""`custom_vjp`, functions with custom rules for reverse mode, and functions built on it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.dtypes import float0
from gnomon._diagnostics.errors import UnexpectedTracerError
from gnomon._tracing.bind import as_operand, bind
from gnomon._tracing.differentiation_order import (
    LATER,
    derivative_rule,
    differentiated,
    differentiation_order,
    may_have_tangent,
)
from gnomon._tracing.function import (
    Traced,
    call_function,
    check_callable,
    match_dtype,
    name_of,
    output_leaves,
    rearranged,
    rebuilt,
    trace_function,
    with_avals,
)
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.custom_rules import (
    Call,
    Custom,
    CustomVJPPrimal,
    Rule,
    SymbolicZero,
    Typed,
    check_results,
    emit_custom,
    resolve_positions,
    zero_from_primal,
)
from gnomon._trees.prefixes import broadcast_prefix
from gnomon.dialects.custom_derivatives import remember_failure
from gnomon.dialects.emit import ops
from gnomon.dialects.types import is_floating, is_inexact


class custom_vjp(Custom):  # noqa: N801
    """A function with custom rules for the forward and the backward pass of reverse mode.

    Args:
      fun: a function of arrays and pytrees of them.
      nondiff_argnums, nondiff_argnames: arguments that are not differentiated, and hold no traced
        values. The forward rule takes them in their places, the backward rule takes them first.

    The rules are defined by `defvjp`. Forward mode (`jvp`, `jacfwd`) raises `TypeError`.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> @gn.custom_vjp
      ... def clip_gradient(x):
      ...     return x
      >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (gnp.clip(g, -1.0, 1.0),))
      >>> float(gn.grad(lambda x: 5.0 * clip_gradient(x))(2.0))
      1.0
    """

    __slots__ = ("bwd", "fwd")

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        super().__init__(fun, nondiff_argnums, nondiff_argnames)

    def defvjp(
        self,
        fwd: Callable[..., tuple[Any, Any]],
        bwd: Callable[..., tuple[Any, ...]],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Define the rules.

        Args:
          fwd: takes the arguments of the function; returns its result, and residuals for ``bwd``.
          bwd: takes the nondifferentiable arguments, the residuals and the cotangent of the result;
            returns a tuple with a cotangent (or ``None``) for each argument.
          symbolic_zeros: whether ``fwd`` gets `CustomVJPPrimal` leaves, and ``bwd`` gets a
            `SymbolicZero` as the cotangent of an integer result.
          optimize_remat: accepted for compatibility, without effect: unused residuals are not
            computed in any case.
        """
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros = symbolic_zeros

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        name = name_of(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name} using defvjp.")
        args = resolve_positions(self.fun, args, kwargs)
        call = Call(args, self.nondiff_argnums)
        for leaf in tree_util.tree_leaves(tuple(call.static.values())):
            if is_tracer(leaf):
                raise UnexpectedTracerError(
                    f"A traced value of {leaf.aval} was passed to the custom_vjp function {name} "
                    "as an argument that nondiff_argnums declares non-differentiable.\n"
                    f"{leaf.describe_origin()}\n"
                    "Such arguments cannot hold traced values: they are for functions and other "
                    "static values. Make it an ordinary argument, and return None as its cotangent."
                )
        order = differentiation_order(call.operands)
        if call.runs_eagerly or (not order and not staging()):
            return call.run_plainly(self.fun, rebuilt(args), "custom_vjp")
        traced = call.trace(self.fun, "custom_vjp")
        rules: list[Rule] = []
        failure = ""
        # Without an inexact result there is no cotangent, and the rules are not needed.
        if order and any(is_inexact(a.dtype) for a in traced.avals):
            try:
                rules = self._trace_rules(call, traced)
            except Exception as error:
                failure = remember_failure(error)
        params = {"wrt": tuple(call.inexact), "failure": failure}
        return emit_custom(ops.custom_vjp, call, traced, rules, params)

    def _trace_rules(self, call: Call, traced: Traced) -> list[Rule]:
        fwd, bwd = self.fwd, self.bwd
        assert fwd is not None and bwd is not None
        cotangent_avals = [a.cotangent() for a in traced.avals if is_inexact(a.dtype)]

        def run(tracers: list[Any]) -> tuple[Any, Any]:
            given = tracers
            if self.symbolic_zeros:
                given = [
                    CustomVJPPrimal(t, is_inexact(t.dtype) and may_have_tangent(call.operands[i]))
                    for i, t in enumerate(tracers)
                ]
            out = fwd(*call.arguments(given))
            results, residuals, tree = _checked_fwd(out, fwd, self.fun, traced)
            # The backward rule is traced here, where the residuals may still have values.
            backward = trace_function(
                lambda inner: (backward_on(inner, len(residuals), tree), None),
                bwd,
                "custom_vjp rule",
                [*(r.aval for r in residuals), *cotangent_avals],
                staging=True,
                sources=[*residuals, *(None for _ in cotangent_avals)],
            )
            # Values of the forward rule that the backward rule closes over are residuals too.
            trace = tracers[0]._trace if tracers else None
            inner = [c for c in backward.captures if is_tracer(c) and c._trace is trace]
            # The rule is closed here, as no tracer may outlive the forward rule: `checking_leaks`
            # would report it.
            return (results, residuals, inner), _closed_rule(
                backward, residuals, inner, cotangent_avals
            )

        def backward_on(inner: list[Any], count: int, tree: Any) -> list[Any]:
            residuals = tree_util.tree_unflatten(tree, inner[:count])
            seeds = iter(inner[count:])
            cotangents = [
                next(seeds)
                if is_inexact(a.dtype)
                else zero_from_primal(Typed(a), self.symbolic_zeros)
                for a in traced.avals
            ]
            cotangent = tree_util.tree_unflatten(traced.tree, cotangents)
            out = bwd(*call.static.values(), residuals, cotangent)
            return _checked_bwd(out, bwd, self.fun, call)

        with derivative_rule():
            forward = trace_function(
                run, fwd, "custom_vjp rule", call.avals, staging=True, sources=call.operands
            )
        return [
            Rule(forward.body, [a.type for a in call.avals], forward.captures),
            forward.extra,
        ]


def _closed_rule(
    backward: Traced,
    residuals: Sequence[Array],
    inner: Sequence[Array],
    cotangents: Sequence[ShapedArray],
) -> Rule:
    """The backward rule as a function of all residuals and of the cotangents.

    Args:
      backward: the traced rule; it takes returned residuals and cotangents.
      residuals: the residuals that the forward rule returned.
      inner: the values of the forward rule that ``backward`` captures; they become residuals too.
      cotangents: the types of the cotangents.
    """
    residual_types = [r.aval.type for r in (*residuals, *inner)]
    types = [*residual_types, *(a.type for a in cotangents)]
    outer = [c for c in backward.captures if not any(c is i for i in inner)]
    places = {id(c): len(residuals) + i for i, c in enumerate(inner)}
    places |= {id(c): len(types) + i for i, c in enumerate(outer)}
    order = [*range(len(residuals)), *range(len(residual_types), len(types))]
    order += [places[id(c)] for c in backward.captures]
    body = rearranged(backward.body, order, [*types, *(c.aval.type for c in outer)])
    return Rule(body, types, outer)


def _checked_fwd(
    out: Any, rule: Any, fun: Any, traced: Traced
) -> tuple[list[Array], list[Array], Any]:
    """Check what a forward rule returned; return results, residuals and the residuals' tree."""
    who = f"Custom VJP fwd rule {name_of(rule)} for function {name_of(fun)}"
    if not isinstance(out, (list, tuple)) or len(out) != 2:
        raise TypeError(
            f"{who} must produce a pair (list or tuple of length two) where the first element "
            "represents the primal output and the second element represents residuals, but got "
            f"{out!r}."
        )
    results, tree = output_leaves(out[0], who)
    if tree != traced.tree:
        raise TypeError(
            f"{who} must produce a pair (list or tuple of length two) where the first element "
            f"represents the primal output (equal to the output of {name_of(fun)}), and so of its "
            f"structure, but got {tree} where the function returns {traced.tree}."
        )
    check_results(results, traced, f"{who} must produce")
    residuals, residual_tree = output_leaves(out[1], f"the residuals of {who}")
    return results, residuals, residual_tree


def _checked_bwd(out: Any, rule: Any, fun: Any, call: Call) -> list[Array]:
    """Check what a backward rule returned; return the cotangents of the inexact arguments."""
    who = f"Custom VJP bwd rule {name_of(rule)} for function {name_of(fun)}"
    if isinstance(out, list) and len(out) == len(call.dynamic):
        out = tuple(out)
    dummy = tree_util.tree_unflatten(call.tree, [0] * len(call.avals))

    def is_none(x: Any) -> bool:
        return x is None

    leaves: list[Any] | None = None
    if isinstance(out, tuple):
        try:
            leaves = broadcast_prefix(out, dummy, is_leaf=is_none)
        except ValueError:
            leaves = None
        given = tree_util.tree_leaves(out)
        if leaves is not None and len([x for x in leaves if x is not None]) != len(given):
            leaves = None  # an array in the place of a whole pytree
    if leaves is None:
        raise TypeError(
            f"{who} must produce an output with the same container (pytree) structure as the args "
            "tuple of the primal function, and in particular must produce a tuple of length equal "
            f"to the number of arguments to the primal function ({len(call.dynamic)}), but got VJP "
            f"output structure {tree_util.tree_structure(out)} for primal input structure "
            f"{call.tree}."
        )
    found = []
    for i, (ct, aval) in enumerate(zip(leaves, call.avals, strict=True)):
        if not is_inexact(aval.dtype):
            continue  # None, float0 and integers all count as zero
        if ct is None or isinstance(ct, SymbolicZero):
            ct = zero_from_primal(Typed(aval))
        if getattr(ct, "dtype", None) == float0:
            raise ValueError(f"{who} produced a float0 cotangent for the input of type {aval}.")
        ct = match_dtype(as_operand(float(ct) if type(ct) is int else ct), aval)
        if is_floating(ct.dtype) and is_floating(aval.dtype):
            # A rule may compute in another precision; the gradient has the argument's dtype.
            ct = bind(ops.convert, ct, dtype=aval.dtype) if ct.dtype != aval.dtype else ct
        if (ct.shape, ct.dtype) != (aval.shape, aval.dtype) or ct.aval.vma - aval.vma:
            path = tree_util.tree_flatten_with_path(dummy)[0][i][0]
            raise ValueError(
                f"{who} must produce cotangents of the shapes and dtypes of the primal inputs: at "
                f"output{tree_util.keystr(path)} it must produce {aval}, but got {ct.aval}."
                + (
                    " It varies over axes of a mesh that the input does not vary over: sum it over "
                    "them with gnomon.lax.psum."
                    if ct.aval.vma - aval.vma
                    else ""
                )
            )
        found.append(ct)
    return found


# ----------------------------------------------------------------------------- built on custom_vjp


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose backward rule is returned by ``fun`` together with the result.

    Args:
      fun: returns ``(result, rule)``; ``rule(cotangent)`` returns the cotangents of the arguments,
        a tuple, or one cotangent if there is one argument. It may close over values of ``fun``.

    Example:
      >>> import gnomon as gn
      >>> @gn.custom_gradient
      ... def f(x):
      ...     return x**2, lambda g: (g * x,)
      >>> float(gn.grad(f)(3.0))
      3.0
    """
    pending = threading.local()  # passes ``rule`` from ``fwd`` to ``bwd``, which is traced next

    @custom_vjp
    @functools.wraps(fun)
    def wrapped(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> Any:
        result, rule = fun(*args)
        pending.rule = rule
        return result, None

    def bwd(_: Any, cotangent: Any) -> Any:
        found = vars(pending).pop("rule")(cotangent)
        return found if isinstance(found, tuple) else (found,)

    wrapped.defvjp(fwd, bwd)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapped(*resolve_positions(fun, args, kwargs))

    return call


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Any, list[Any]]:
    """Turn the inexact traced values that ``fun`` closes over into arguments.

    This makes closures usable with `custom_vjp`, whose rules give cotangents of arguments only.

    Args:
      fun: a function of arrays and pytrees of them.
      example_args: arguments with the structure, shapes and dtypes of the later calls.
    Returns:
      ``(converted, values)``, with ``converted(*args, *values)`` equal to ``fun(*args)``.

    Example:
      >>> import gnomon as gn
      >>> def f(x):
      ...     def g(y):
      ...         return x * y
      ...     converted, values = gn.closure_convert(g, 1.0)
      ...     return converted(2.0, *values)
      >>> gn.grad(f)(5.0)
      Array(2., dtype=float32, weak_type=True)
    """
    check_callable(fun, "closure_convert")
    leaves, in_tree = tree_util.tree_flatten(example_args)
    avals = [as_operand(leaf).aval for leaf in leaves]

    def run(tracers: list[Any]) -> tuple[Any, Any]:
        return fun(*tree_util.tree_unflatten(in_tree, tracers)), None

    with differentiated(LATER):
        traced = trace_function(run, fun, "closure_convert", avals, staging=True)
    name = traced.program.add(traced.name, traced.body)
    hoisted = [i for i, c in enumerate(traced.captures) if is_tracer(c) and is_inexact(c.dtype)]

    def converted(*args: Any) -> Any:
        count = len(args) - len(hoisted)
        given, tree = tree_util.tree_flatten(args[:count])
        if tree != in_tree:
            raise TypeError(
                f"{name_of(fun)} was converted for arguments of structure {in_tree}, got {tree}"
            )
        captures: list[Any] = list(traced.captures)
        for i, value in zip(hoisted, args[count:], strict=True):
            captures[i] = value
        operands = [as_operand(x) for x in (*given, *captures)]
        results = call_function(traced.program, name, operands)
        return tree_util.tree_unflatten(traced.tree, with_avals(results, traced.avals))

    return converted, [traced.captures[i] for i in hoisted]


__all__ = ["closure_convert", "custom_gradient", "custom_vjp"]
