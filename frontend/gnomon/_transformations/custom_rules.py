"""The common part of functions with custom rules, such as `custom_jvp` and `custom_vjp`.

A traced call becomes one op, whose bodies are the function and its derivative rules. The rules are
traced at the call, where the arguments may still have values that Python's control flow can use,
and to as many levels as there are differentiations around the call. An error that a rule raises is
kept, and raised only if the derivative is used.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.concrete import wrap
from gnomon._arrays.dtypes import float0
from gnomon._tracing.bind import as_operand, bind, trace_for
from gnomon._tracing.differentiation_order import may_have_tangent, replaced_by_rule
from gnomon._tracing.function import (
    Traced,
    bind_bodies,
    check_callable,
    match_dtype,
    name_of,
    output_leaves,
    rearranged,
    trace_function,
    with_avals,
)
from gnomon._tracing.stack import staging, state
from gnomon._tracing.stateful import StatefulFunction
from gnomon._tracing.trace import is_tracer
from gnomon.dialects.body import Body
from gnomon.dialects.custom_derivatives import closed_over_error
from gnomon.dialects.emit import ops
from gnomon.dialects.types import TensorType, is_inexact


class SymbolicZero:
    """A tangent or cotangent that is known to be zero when the rule is traced.

    Attributes:
      aval: the type of the value whose tangent or cotangent it is.
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype; ``float0`` where the primal is an integer or a bool."""
        return self.aval.dtype if is_inexact(self.aval.dtype) else float0

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.aval.shape)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"


class CustomVJPPrimal(NamedTuple):
    """An argument of a forward rule with ``symbolic_zeros``.

    Attributes:
      value: the argument.
      perturbed: false if the argument is known to have no tangent.
    """

    value: Any
    perturbed: bool


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of a value.

    Args:
      val: an array or a Python number.
      symbolic_zeros: return a `SymbolicZero` instead of an array.
    Returns:
      An array of zeros of the tangent's dtype: ``float0`` for integers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import custom_derivatives
      >>> custom_derivatives.zero_from_primal(gnp.array([1.0, 2.0]))
      Array([0., 0.], dtype=float32)
      >>> custom_derivatives.zero_from_primal(3).dtype == gn.dtypes.float0
      True
    """
    array = as_operand(val)
    if symbolic_zeros:
        return SymbolicZero(array.aval)
    if is_inexact(array.dtype):
        return wrap(np.zeros(array.shape, array.dtype))
    return np.zeros(array.shape, float0)


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a pytree of `CustomVJPPrimal`, which a rule with ``symbolic_zeros`` gets.

    Args:
      tree: a pytree whose leaves have an attribute ``value``.

    Example:
      >>> import gnomon as gn
      >>> from gnomon import custom_derivatives
      >>> @gn.custom_vjp
      ... def double(x):
      ...     return 2 * x
      ...
      >>> def forward(x):
      ...     values = custom_derivatives.custom_vjp_primal_tree_values(x)
      ...     return 2 * values, None
      ...
      >>> double.defvjp(forward, lambda _, g: (2 * g,), symbolic_zeros=True)
      >>> gn.grad(double)(3.0)
      Array(2., dtype=float32, weak_type=True)
    """

    def is_primal(x: Any) -> bool:
        return isinstance(x, CustomVJPPrimal)

    def value(x: Any) -> Any:
        if not is_primal(x):
            raise TypeError(
                f"custom_vjp_primal_tree_values takes leaves of type CustomVJPPrimal, got {x!r}"
            )
        return x.value

    return tree_util.tree_map(value, tree, is_leaf=is_primal)


# -------------------------------------------------------------------------------------- arguments


def resolve_positions(fun: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """All arguments by position, with the defaults of those that are not given.

    Raises:
      TypeError: the arguments do not fit the function's signature, or one is keyword-only.
    """
    try:
        signature = inspect.signature(fun)
    except (ValueError, TypeError):
        if kwargs:
            raise TypeError(
                f"{name_of(fun)} has no signature, so its arguments must be passed by position"
            ) from None
        return tuple(args)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name_of(fun)}: {error}") from None
    positional = [n for n, p in signature.parameters.items() if p.kind in _POSITIONAL]
    if others := [name for name in kwargs if name not in positional]:
        raise TypeError(
            f"{name_of(fun)}: the keyword arguments {sorted(others)} could not be resolved "
            "to positions; functions with custom derivatives take arguments by position"
        )
    bound.apply_defaults()
    # Keyword-only parameters are left out: the function applies their defaults itself.
    return bound.args


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _nondiff_positions(
    fun: Callable[..., Any], argnums: Sequence[int], argnames: Sequence[str]
) -> tuple[int, ...]:
    argnums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    if not names:
        return tuple(sorted(argnums))
    known = list(inspect.signature(fun).parameters)
    for name in names:
        if name not in known:
            raise ValueError(f"nondiff_argnames: {name_of(fun)} has no argument {name!r}")
    return tuple(sorted({*argnums, *(known.index(n) for n in names)}))


class Call:
    """The arguments of one call: the leaves that become operands, and the static arguments."""

    def __init__(self, args: tuple[Any, ...], nondiff: Sequence[int]) -> None:
        for i in nondiff:
            if not -len(args) <= i < len(args):
                raise ValueError(
                    f"nondiff_argnums names argument {i}, but the function was called with "
                    f"{len(args)} arguments"
                )
        static = {i % len(args) for i in nondiff}
        self.static = {i: args[i] for i in sorted(static)}
        self.count = len(args)
        self.dynamic = tuple(a for i, a in enumerate(args) if i not in static)
        leaves, self.tree = tree_util.tree_flatten(self.dynamic)
        self.operands = [as_operand(leaf) for leaf in leaves]
        self.avals = [o.aval for o in self.operands]
        self.inexact = [i for i, a in enumerate(self.avals) if is_inexact(a.dtype)]

    @property
    def runs_eagerly(self) -> bool:
        """Whether no trace takes the call, so that it is evaluated at once."""
        return not staging() and trace_for(self.operands) is None

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments of the function, with these leaves in place of the operands."""
        dynamic: Iterator[Any] = iter(tree_util.tree_unflatten(self.tree, list(leaves)))
        return [self.static[i] if i in self.static else next(dynamic) for i in range(self.count)]

    def without_values(self) -> Call:
        """The structure and types of the call, without its operands."""
        result = copy.copy(self)
        result.operands, result.dynamic = [], ()
        return result

    def run(self, fun: Callable[..., Any]) -> Any:
        """Call the function on the operands, and convert the leaves of its result to arrays."""
        leaves, tree = output_leaves(fun(*self.arguments(self.operands)), name_of(fun))
        return tree_util.tree_unflatten(tree, leaves)

    def run_plainly(self, fun: Callable[..., Any], args: Sequence[Any], kind: str) -> Any:
        """Call the function without its rules, where its arguments have no tangents.

        Raises:
          UnexpectedTracerError: a value that the function closes over may have a tangent.
        """
        out = fun(*args)
        if state.stack:
            given = tree_util.tree_leaves(tuple(self.static.values()))
            own = trace_for([*self.operands, *given])
            for leaf in tree_util.tree_leaves(out):
                if may_have_tangent(leaf, own.level if own else 0):
                    raise closed_over_error(kind, name_of(fun))
        return out

    def trace(self, fun: Callable[..., Any], kind: str) -> Traced:
        """Trace the function itself, without its rules."""
        with replaced_by_rule():
            return trace_function(
                lambda tracers: (fun(*self.arguments(tracers)), None),
                fun,
                kind,
                self.avals,
                staging=True,
                sources=self.operands,
            )


def emit_custom(
    op: Any,
    call: Call,
    traced: Traced,
    rules: Sequence[Rule],
    params: dict[str, Any],
    fixed: bool = False,
) -> Any:
    """Apply the op of a call; return its results in the structure of the function's result.

    Args:
      op: an op whose first body is the function, and whose other bodies are its rules.
      call, traced, rules: the arguments, the traced function, and the traced rules.
      params: the op's parameters except ``name`` and ``consts``, the number of operands that the
        bodies close over.
      fixed: whether the values that the function and its rules close over are held constant.
    """
    consts: dict[int, Array] = {id(c): c for c in traced.captures}
    for rule in rules:
        consts.update((id(c), c) for c in rule.captures)
    position = {key: i for i, key in enumerate(consts)}
    const_types = [c.aval.type for c in consts.values()]

    def closed(body: Body, arguments: Sequence[TensorType], captures: Sequence[Array]) -> Body:
        order = [len(consts) + i for i in range(len(arguments))]
        order += [position[id(c)] for c in captures]
        return rearranged(body, order, [*const_types, *arguments])

    bodies = [closed(traced.body, [a.type for a in call.avals], traced.captures)]
    bodies += [closed(rule.body, rule.types, rule.captures) for rule in rules]
    params = {"consts": len(consts), "name": traced.name, **params}
    closed_over = list(consts.values())
    if fixed:
        closed_over = [without_tangents(c) for c in closed_over]
    operands = [*closed_over, *call.operands]
    results = bind_bodies(op, traced.program, operands, bodies, params)
    return tree_util.tree_unflatten(traced.tree, with_avals(results, traced.avals))


class Rule(NamedTuple):
    """A traced rule; the body takes arguments of ``types``, followed by the ``captures``."""

    body: Body
    types: list[TensorType]
    captures: list[Array]


class Custom(StatefulFunction):
    """The base class of `custom_jvp` and `custom_vjp`."""

    __slots__ = ("__dict__", "__weakref__", "fun", "nondiff_argnums", "symbolic_zeros")

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        check_callable(fun, type(self).__name__)
        self.fun = fun
        self.nondiff_argnums = _nondiff_positions(fun, nondiff_argnums, nondiff_argnames)
        self.symbolic_zeros = False
        self._describe_as(fun)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {name_of(self.fun)}>"


# ---------------------------------------------------------------------------------------- results


class Typed(Array):
    """An array without a value, which gives `zero_from_primal` a type."""

    __slots__ = ("aval",)

    aval: ShapedArray

    def __new__(cls, *args: Any) -> Typed:
        return object.__new__(cls)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval


def without_tangents(argument: Any) -> Any:
    def stop(leaf: Any) -> Any:
        if is_tracer(leaf) and is_inexact(leaf.dtype):
            return bind(ops.stop_gradient, leaf)
        return leaf

    return tree_util.tree_map(stop, argument)


def describe_avals(avals: Sequence[Any]) -> str:
    return ", ".join(str(a) for a in avals)


def check_results(results: list[Array], traced: Traced, start: str) -> None:
    for i, (result, aval) in enumerate(zip(results, traced.avals, strict=True)):
        results[i] = result = match_dtype(result, aval)
        if (result.shape, result.dtype) != (aval.shape, aval.dtype):
            raise TypeError(
                f"{start} the primal output of the function, with its shapes and dtypes. The "
                f"function returns {describe_avals(traced.avals)}, the rule "
                f"{describe_avals([r.aval for r in results])}."
            )


__all__ = [
    "Call",
    "Custom",
    "CustomVJPPrimal",
    "Rule",
    "SymbolicZero",
    "Typed",
    "check_results",
    "custom_vjp_primal_tree_values",
    "describe_avals",
    "emit_custom",
    "resolve_positions",
    "without_tangents",
    "zero_from_primal",
]
