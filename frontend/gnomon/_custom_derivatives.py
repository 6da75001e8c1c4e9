"""Functions with derivative rules of their own: `custom_jvp` and `custom_vjp`.

A call that a transformation traces becomes one op that holds the function and its rules as bodies.
The rules are traced at the call, where the arguments may still have values that Python's control
flow can ask for, and as many levels deep as there are differentiations around the call. A rule that
raises does so only where the derivative is asked for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon import tree_util
from gnomon._array import Array, wrap
from gnomon._aval import ShapedArray
from gnomon._dtypes import float0
from gnomon._errors import UnexpectedTracerError
from gnomon._function import (
    Traced,
    bind_bodies,
    call_function,
    check_callable,
    name_of,
    output_leaves,
    rearranged,
    trace_function,
    with_avals,
)
from gnomon._tracing import (
    as_operand,
    bind,
    derivative_rule,
    differentiation_order,
    is_tracer,
    may_have_tangent,
    replaced_by_rule,
    staging,
    trace_for,
)
from gnomon._tree import broadcast_prefix
from gnomon.dialects.body import Body
from gnomon.dialects.custom_derivatives import remember_failure
from gnomon.dialects.emit import ops
from gnomon.dialects.types import TensorType, is_inexact


class SymbolicZero:
    """A tangent or cotangent that is known to be zero when the rule is traced.

    Attributes:
      aval: the type that the zero would have.
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
      perturbed: false if it is known that no derivative by it is asked for.
    """

    value: Any
    perturbed: bool


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of a value: an array, or a `SymbolicZero`."""
    array = as_operand(val)
    if symbolic_zeros:
        return SymbolicZero(array.aval)
    if is_inexact(array.dtype):
        return wrap(np.zeros(array.shape, array.dtype))
    return np.zeros(array.shape, float0)


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a pytree of `CustomVJPPrimal`."""

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
    """All arguments by position, defaults filled in."""
    try:
        signature = inspect.signature(fun)
    except (ValueError, TypeError):
        if kwargs:
            raise TypeError(
                f"{name_of(fun)} has no signature, so its arguments must be given by position"
            ) from None
        return tuple(args)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"{name_of(fun)}: the keyword arguments {sorted(bound.kwargs)} could not be resolved "
            "to positions; functions with custom derivatives take arguments by position"
        )
    return bound.args


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


class _Call:
    """The arguments of one call: the leaves to differentiate by, and the rest."""

    def __init__(self, args: tuple[Any, ...], nondiff: Sequence[int]) -> None:
        for i in nondiff:
            if not -len(args) <= i < len(args):
                raise ValueError(f"nondiff_argnums names argument {i} of {len(args)}")
        static = {i % len(args) for i in nondiff}
        self.static = {i: args[i] for i in sorted(static)}
        self.count = len(args)
        self.dynamic = tuple(a for i, a in enumerate(args) if i not in static)
        leaves, self.tree = tree_util.tree_flatten(self.dynamic)
        self.operands = [as_operand(leaf) for leaf in leaves]
        self.avals = [o.aval for o in self.operands]
        self.inexact = [i for i, a in enumerate(self.avals) if is_inexact(a.dtype)]

    @property
    def runs_at_once(self) -> bool:
        """Nothing traces the arguments."""
        return not staging() and trace_for(self.operands) is None

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments of the function, with other leaves."""
        dynamic: Iterator[Any] = iter(tree_util.tree_unflatten(self.tree, list(leaves)))
        return [self.static[i] if i in self.static else next(dynamic) for i in range(self.count)]

    def trace(self, fun: Callable[..., Any], kind: str) -> Traced:
        """The function itself as a body."""
        with replaced_by_rule():
            return trace_function(
                lambda tracers: (fun(*self.arguments(tracers)), None),
                fun,
                kind,
                self.avals,
                staging=True,
                sources=self.operands,
            )


def _emit(
    op: Any,
    call: _Call,
    traced: Traced,
    rules: Sequence[_Rule],
    wrt: Sequence[int],
    failure: str,
    fixed: bool = False,
) -> Any:
    """The op of a call; its results as the function's result.

    ``fixed``: nothing is differentiated by what the function and its rules close over.
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
    params = {
        "consts": len(consts),
        "wrt": tuple(wrt),
        "name": traced.name,
        "failure": failure,
    }
    closed_over = list(consts.values())
    if fixed:
        closed_over = [_without_tangents(c) for c in closed_over]
    operands = [*closed_over, *call.operands]
    results = bind_bodies(op, traced.program, operands, bodies, params)
    return tree_util.tree_unflatten(traced.tree, with_avals(results, traced.avals))


class _Rule(NamedTuple):
    """A traced rule: its body on arguments of ``types``, then ``captures``."""

    body: Body
    types: list[TensorType]
    captures: list[Array]


class _Custom:
    """What both decorators have in common."""

    fun: Callable[..., Any]
    __call__: Callable[..., Any]

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        check_callable(fun, type(self).__name__)
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = _nondiff_positions(fun, nondiff_argnums, nondiff_argnames)
        self.symbolic_zeros = False

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {name_of(self.fun)}>"


# ------------------------------------------------------------------------------------- custom_jvp


class custom_jvp(_Custom):  # noqa: N801
    """A function whose derivative is what a rule says, in forward and in reverse mode.

    Args:
      fun: a function of arrays and pytrees of them.
      nondiff_argnums, nondiff_argnames: arguments that the rule gets first and as they are, be they
        arrays or not (functions, say); nothing is differentiated by them.

    The rule, given by `defjvp`, takes the nondifferentiable arguments, a tuple of primals and a
    tuple of tangents, and returns the result and its tangent. It must be linear in the tangents; it
    is differentiated itself where higher derivatives are asked for.

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

    jvp: Callable[..., Any] | None = None
    # Where a rule knows all that the result depends on, as that of `custom_root` does.
    closes_over_fixed = False

    def defjvp(
        self, jvp: Callable[..., tuple[Any, Any]], symbolic_zeros: bool = False
    ) -> Callable[..., tuple[Any, Any]]:
        """Define the rule; returns it, so that it serves as a decorator.

        Args:
          jvp: the rule.
          symbolic_zeros: give a `SymbolicZero` for a tangent that is known to be zero, not an array
            of zeros. What is known is what is known at the call: inside of `jit`, a value that
            depends on an argument of the jitted function may have a tangent.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Define the rule by the contribution of each argument.

        Args:
          jvps: per argument, ``None`` where it contributes nothing, or a function
            ``(tangent, ans, *primals) -> tangent of the result``.
        """
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
            out = self(*primals)
            terms = [
                rule(t, out, *primals)
                for rule, t in zip(jvps, tangents, strict=False)
                if rule is not None
            ]
            if not terms:
                return out, tree_util.tree_map(zero_from_primal, out)
            return out, functools.reduce(
                functools.partial(tree_util.tree_map, lambda a, b: bind(ops.add, a, b)), terms
            )

        self.defjvp(functools.wraps(self.fun)(jvp))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        name = name_of(self.fun)
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {name} using defjvp.")
        args = resolve_positions(self.fun, args, kwargs)
        call = _Call(args, self.nondiff_argnums)
        order = differentiation_order(call.operands)
        if call.runs_at_once or (not order and not staging()):
            return self.fun(*args)
        call.static = {i: _without_tangents(a) for i, a in call.static.items()}
        traced = call.trace(self.fun, "custom_jvp")
        wrt = [
            i for i in call.inexact if not self.symbolic_zeros or may_have_tangent(call.operands[i])
        ]
        rules: list[_Rule] = []
        failure = ""
        if order:
            try:
                rules = [self._trace_rule(call, traced, wrt)]
            except Exception as error:
                failure = remember_failure(error)
        return _emit(ops.custom_jvp, call, traced, rules, wrt, failure, self.closes_over_fixed)

    def _trace_rule(self, call: _Call, traced: Traced, wrt: list[int]) -> _Rule:
        rule = self.jvp
        assert rule is not None
        count = len(call.avals)

        def run(tracers: list[Any]) -> tuple[Any, Any]:
            primals = tree_util.tree_unflatten(call.tree, tracers[:count])
            given = dict(zip(wrt, tracers[count:], strict=True))
            zeros = [zero_from_primal(_Typed(a), self.symbolic_zeros) for a in call.avals]
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
        return _Rule(found.body, [a.type for a in avals], found.captures)


class _Typed(Array):
    """A type in the place of an array, for `zero_from_primal`."""

    __slots__ = ("_aval",)

    def __new__(cls, *args: Any) -> _Typed:
        return object.__new__(cls)

    def __init__(self, aval: ShapedArray) -> None:
        self._aval = aval

    @property
    def aval(self) -> ShapedArray:
        """The type."""
        return self._aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self._aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self._aval.dtype


def _without_tangents(argument: Any) -> Any:
    def stop(leaf: Any) -> Any:
        if is_tracer(leaf) and is_inexact(leaf.dtype):
            return bind(ops.stop_gradient, leaf)
        return leaf

    return tree_util.tree_map(stop, argument)


def _types(avals: Sequence[Any]) -> str:
    return ", ".join(str(a) for a in avals)


def _checked_jvp(out: Any, rule: Any, fun: Any, traced: Traced) -> tuple[list[Any], list[Any]]:
    """Results and tangents that a jvp rule returned, if they are of the right structure."""
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
    _check_results(results, traced, f"{who} must produce")
    found = []
    for result, tangent in zip(results, tangents, strict=True):
        aval = result.aval
        if isinstance(tangent, SymbolicZero):
            tangent = zero_from_primal(_Typed(tangent.aval))
        if not is_inexact(aval.dtype):
            if getattr(tangent, "dtype", None) != float0:
                raise TypeError(
                    f"{who} must produce a tangent of dtype float0 for the output of type {aval}, "
                    f"but got {getattr(tangent, 'dtype', type(tangent).__name__)}."
                )
            continue
        tangent = _as_dtype(tangent, aval)
        if (tangent.shape, tangent.dtype) != (aval.shape, aval.dtype):
            raise TypeError(
                f"{who} must produce primal and tangent outputs with corresponding shapes and "
                f"dtypes. Expected {_types([r.aval for r in results])}, but got a tangent of type "
                f"{tangent.aval} for the output of type {aval}."
            )
        found.append(tangent)
    return results, found


def _as_dtype(x: Any, aval: ShapedArray) -> Array:
    """An array; a weakly typed one, such as a float of Python, in the dtype of ``aval``."""
    array = as_operand(x)
    floats = is_inexact(aval.dtype) and is_inexact(array.dtype)
    if array.dtype != aval.dtype and array.aval.weak_type and floats:
        converted: Array = bind(ops.convert, array, dtype=aval.dtype)
        return converted
    return array


def _check_results(results: list[Array], traced: Traced, start: str) -> None:
    for i, (result, aval) in enumerate(zip(results, traced.avals, strict=True)):
        results[i] = result = _as_dtype(result, aval)
        if (result.shape, result.dtype) != (aval.shape, aval.dtype):
            raise TypeError(
                f"{start} the primal output of the function, with its shapes and dtypes. The "
                f"function returns {_types(traced.avals)}, the rule "
                f"{_types([r.aval for r in results])}."
            )


# ------------------------------------------------------------------------------------- custom_vjp


class custom_vjp(_Custom):  # noqa: N801
    """A function whose reverse-mode derivative is what two rules say.

    Args:
      fun: a function of arrays and pytrees of them.
      nondiff_argnums, nondiff_argnames: arguments that no derivative is taken by. The forward rule
        gets them in their places, the backward rule first. They hold no traced values.

    The rules are given by `defvjp`. Forward mode (`jvp`, `jacfwd`) raises `TypeError`.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> @gn.custom_vjp
      ... def clip_gradient(x):
      ...     return x
      >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (gnp.clip(g, -1.0, 1.0),))
      >>> float(gn.grad(lambda x: 5.0 * clip_gradient(x))(2.0))
      1.0
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None

    def defvjp(
        self,
        fwd: Callable[..., tuple[Any, Any]],
        bwd: Callable[..., tuple[Any, ...]],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Define the rules.

        Args:
          fwd: takes what the function takes; returns its result, and residuals for ``bwd``.
          bwd: takes the nondifferentiable arguments, the residuals and the cotangent of the result;
            returns a tuple with a cotangent (or ``None``) for each argument.
          symbolic_zeros: give `CustomVJPPrimal` arguments to ``fwd``, and `SymbolicZero` cotangents
            of integer results to ``bwd``.
          optimize_remat: taken for compatibility: a forward rule whose residuals nobody uses is
            replaced by the function in any case.
        """
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros = symbolic_zeros

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        name = name_of(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name} using defvjp.")
        args = resolve_positions(self.fun, args, kwargs)
        call = _Call(args, self.nondiff_argnums)
        for leaf in tree_util.tree_leaves(tuple(call.static.values())):
            if is_tracer(leaf):
                raise UnexpectedTracerError(
                    f"A traced value of {leaf.aval} was passed to the custom_vjp function {name} "
                    "as an argument that nondiff_argnums calls non-differentiable.\n"
                    f"{leaf.describe_origin()}\n"
                    "Such arguments hold no traced values: they are for functions and the like. "
                    "Make it an ordinary argument, and return None as its cotangent."
                )
        order = differentiation_order(call.operands)
        if call.runs_at_once or (not order and not staging()):
            return self.fun(*args)
        traced = call.trace(self.fun, "custom_vjp")
        rules: list[_Rule] = []
        failure = ""
        if order:
            try:
                rules = self._trace_rules(call, traced)
            except Exception as error:
                failure = remember_failure(error)
        return _emit(ops.custom_vjp, call, traced, rules, call.inexact, failure)

    def _trace_rules(self, call: _Call, traced: Traced) -> list[_Rule]:
        fwd, bwd = self.fwd, self.bwd
        assert fwd is not None and bwd is not None
        cotangent_avals = [a for a in traced.avals if is_inexact(a.dtype)]

        def run(tracers: list[Any]) -> tuple[Any, Any]:
            given = tracers
            if self.symbolic_zeros:
                given = [
                    CustomVJPPrimal(t, may_have_tangent(call.operands[i]))
                    for i, t in enumerate(tracers)
                ]
            out = fwd(*call.arguments(given))
            results, residuals, tree = _checked_fwd(out, fwd, self.fun, traced)
            # The backward rule is traced while the values of the residuals can be had.
            backward = trace_function(
                lambda inner: (backward_on(inner, len(residuals), tree), None),
                bwd,
                "custom_vjp rule",
                [*(r.aval for r in residuals), *cotangent_avals],
                staging=True,
                sources=[*residuals, *(None for _ in cotangent_avals)],
            )
            # What it uses of the forward rule beside them is a residual too.
            trace = tracers[0]._trace if tracers else None
            inner = [c for c in backward.captures if is_tracer(c) and c._trace is trace]
            return (results, residuals, inner), (backward, residuals, inner)

        def backward_on(inner: list[Any], count: int, tree: Any) -> list[Any]:
            residuals = tree_util.tree_unflatten(tree, inner[:count])
            seeds = iter(inner[count:])
            cotangents = [
                next(seeds)
                if is_inexact(a.dtype)
                else zero_from_primal(_Typed(a), self.symbolic_zeros)
                for a in traced.avals
            ]
            cotangent = tree_util.tree_unflatten(traced.tree, cotangents)
            out = bwd(*call.static.values(), residuals, cotangent)
            return _checked_bwd(out, bwd, self.fun, call)

        with derivative_rule():
            forward = trace_function(
                run, fwd, "custom_vjp rule", call.avals, staging=True, sources=call.operands
            )
        backward, residuals, inner = forward.extra
        residual_types = [r.aval.type for r in (*residuals, *inner)]
        cotangent_types = [a.type for a in cotangent_avals]
        outer = [c for c in backward.captures if not any(c is i for i in inner)]
        # From (residuals, cotangents, captures in order) to (all residuals, cotangents, outer).
        places = {id(c): len(residuals) + i for i, c in enumerate(inner)}
        first = len(residual_types) + len(cotangent_types)
        places |= {id(c): first + i for i, c in enumerate(outer)}
        order = [*range(len(residuals)), *range(len(residual_types), first)]
        order += [places[id(c)] for c in backward.captures]
        types = [*residual_types, *cotangent_types]
        body = rearranged(backward.body, order, [*types, *(c.aval.type for c in outer)])
        return [
            _Rule(forward.body, [a.type for a in call.avals], forward.captures),
            _Rule(body, types, outer),
        ]


def _checked_fwd(
    out: Any, rule: Any, fun: Any, traced: Traced
) -> tuple[list[Array], list[Array], Any]:
    """Results, leaves and tree of the residuals that a forward rule returned."""
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
    _check_results(results, traced, f"{who} must produce")
    residuals, residual_tree = output_leaves(out[1], f"the residuals of {who}")
    return results, residuals, residual_tree


def _checked_bwd(out: Any, rule: Any, fun: Any, call: _Call) -> list[Array]:
    """Cotangents of the inexact arguments that a backward rule returned."""
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
            leaves = None  # an array stood for a whole pytree
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
            continue  # whatever stands here (None, float0, an integer) counts as zero
        if ct is None or isinstance(ct, SymbolicZero):
            ct = zero_from_primal(_Typed(aval))
        if getattr(ct, "dtype", None) == float0:
            raise ValueError(f"{who} produced a float0 cotangent for the input of type {aval}.")
        ct = _as_dtype(ct, aval)
        if (ct.shape, ct.dtype) != (aval.shape, aval.dtype):
            path = tree_util.tree_flatten_with_path(dummy)[0][i][0]
            raise ValueError(
                f"{who} must produce cotangents of the shapes and dtypes of the primal inputs: at "
                f"output{tree_util.keystr(path)} it must produce {aval}, but got {ct.aval}."
            )
        found.append(ct)
    return found


# ----------------------------------------------------------------------------- built on custom_vjp


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns its own backward rule beside its result.

    Args:
      fun: returns ``(result, rule)``; ``rule(cotangent)`` returns the cotangents of the arguments,
        a tuple, or one cotangent where there is one argument. It may close over values of ``fun``.

    Example:
      >>> import gnomon as gn
      >>> @gn.custom_gradient
      ... def f(x):
      ...     return x**2, lambda g: (g * x,)
      >>> float(gn.grad(f)(3.0))
      3.0
    """
    pending: list[Callable[..., Any]] = []  # rules wait for the backward rule, which is traced next

    @custom_vjp
    @functools.wraps(fun)
    def wrapped(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> Any:
        result, rule = fun(*args)
        pending.append(rule)
        return result, None

    def bwd(_: Any, cotangent: Any) -> Any:
        found = pending.pop()(cotangent)
        return found if isinstance(found, tuple) else (found,)

    wrapped.defvjp(fwd, bwd)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapped(*resolve_positions(fun, args, kwargs))

    return call


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Any, list[Any]]:
    """A function without the differentiable traced values that ``fun`` closes over, and those.

    It makes closures usable with `custom_vjp`, whose rules see arguments only.

    Args:
      fun: a function of arrays and pytrees of them.
      example_args: arguments of the shapes and dtypes that it will be called with.
    Returns:
      ``(converted, values)``, with ``converted(*args, *values)`` equal to ``fun(*args)``.
    """
    check_callable(fun, "closure_convert")
    leaves, in_tree = tree_util.tree_flatten(example_args)
    avals = [as_operand(leaf).aval for leaf in leaves]

    def run(tracers: list[Any]) -> tuple[Any, Any]:
        return fun(*tree_util.tree_unflatten(in_tree, tracers)), None

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


__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
    "zero_from_primal",
]
