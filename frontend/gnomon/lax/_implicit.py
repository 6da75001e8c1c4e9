"""Implicit differentiation of solutions: `custom_root` and `custom_linear_solve`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._tracing.bind import as_operand, bind, varying
from gnomon._tracing.function import (
    Traced,
    bind_bodies,
    check_callable,
    rearranged,
    trace_function,
    with_avals,
)
from gnomon._tracing.stack import tracing_depth
from gnomon._tracing.trace import varying_axes
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon._transformations.custom_rules import zero_from_primal
from gnomon._transformations.custom_vjp import closure_convert
from gnomon._transformations.differentiate import jvp, linearize
from gnomon._transformations.transpose import linear_transpose
from gnomon.dialects.emit import ops
from gnomon.lax._gradient import stop_gradient


def _of_structure(what: str, out: Any, expected: Any) -> Any:
    """Call a function and check the structure of its result."""
    tree, wanted = tree_util.tree_structure(out), tree_util.tree_structure(expected)
    if tree != wanted:
        raise TypeError(f"{what} must return a pytree of structure {wanted}, got {tree}")
    return out


def _like(what: str, out: Any, expected: Any) -> Any:
    """Check the structure, shapes and dtypes of the result of a solver, and return it."""
    _of_structure(what, out, expected)
    pairs = zip(tree_util.tree_leaves(out), tree_util.tree_leaves(expected), strict=True)
    for a, b in ((as_operand(x), as_operand(y)) for x, y in pairs):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            error = TypeError if a.shape == b.shape else ValueError
            raise error(f"{what} must return arrays like {b.aval}, got {a.aval}")
    return out


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """A root of a function, differentiated by the implicit function theorem.

    Args:
      f: the function whose root is sought. The root is differentiated with respect to the values
        that ``f`` closes over.
      initial_guess: the start of the solver; its derivative is zero.
      solve: ``solve(f, initial_guess)`` returns the root, or with ``has_aux`` a pair of the root
        and auxiliary data. It may use Python loops or `lax.while_loop`.
      tangent_solve: ``tangent_solve(g, y)`` solves ``g(x) = y`` for a linear ``g``; for scalars
        ``lambda g, y: y / g(1.0)``.
      has_aux: whether ``solve`` returns a pair of the root and auxiliary data.
    Returns:
      The result of ``solve``.
    Raises:
      TypeError, ValueError: the structure or the shapes of the root are not those of the guess.

    Example:
      >>> import gnomon as gn
      >>> def newton(f, x):
      ...     for _ in range(20):
      ...         x = x - f(x) / gn.grad(f)(x)
      ...     return x
      >>> def sqrt(a):
      ...     return custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
      >>> round(float(gn.grad(sqrt)(4.0)), 4)
      0.25
    """
    for function in (f, solve, tangent_solve):
        check_callable(function, "custom_root")
    guess = stop_gradient(tree_util.tree_map(as_operand, initial_guess))
    equation, params = closure_convert(
        lambda x: _of_structure("custom_root: f", f(x), guess), guess
    )

    def root(*params: Any) -> Any:
        out = solve(lambda x: equation(x, *params), guess)
        if has_aux:
            solution, aux = out
            return _like("custom_root: solve", solution, guess), aux
        return _like("custom_root: solve", out, guess)

    solved = custom_jvp(root)
    solved.closes_over_fixed = True  # the solver may close over any values

    @solved.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        out = solved(*primals)
        solution = out[0] if has_aux else out
        _, change = jvp(lambda *p: equation(solution, *p), tuple(primals), tuple(tangents))
        _, linear = linearize(lambda x: equation(x, *primals), solution)
        negated = tree_util.tree_map(lambda t: bind(ops.neg, t), change)
        tangent = _like("custom_root: tangent_solve", tangent_solve(linear, negated), solution)
        if has_aux:
            return out, (tangent, tree_util.tree_map(zero_from_primal, out[1]))
        return out, tangent

    return solved(*params)


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve a linear system by any solver, and differentiate the solution implicitly.

    Args:
      matvec: the linear map ``A``. The solution is differentiated with respect to ``b`` and the
        values that ``matvec`` closes over.
      b: the right-hand side, a pytree of arrays.
      solve: ``solve(matvec, b)`` returns ``x`` with ``matvec(x) = b``, or with ``has_aux`` a pair
        of ``x`` and auxiliary data.
      transpose_solve: like ``solve``, for the transposed map; needed for reverse mode.
      symmetric: a promise that the map is its own transpose; ``solve`` is then used for both.
      has_aux: whether ``solve`` returns a pair of the solution and auxiliary data.
    Returns:
      The result of ``solve``.
    Raises:
      TypeError, ValueError: the structure or the shapes of a solution are not those of ``b``.
      TypeError: ``transpose_solve`` is missing in reverse mode.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> a = gnp.array([2.0, 4.0])
      >>> print(custom_linear_solve(lambda x: a * x, a, lambda f, b: b / a, symmetric=True))
      [1. 1.]
    """
    for function in (matvec, solve):
        check_callable(function, "custom_linear_solve")
    leaves, tree = tree_util.tree_flatten(b)
    sides = [as_operand(leaf) for leaf in leaves]
    b = tree_util.tree_unflatten(tree, sides)

    def checked(name: str, out: Any, aux: bool) -> Any:
        solution = out[0] if aux else out
        _like(f"custom_linear_solve: {name}", solution, b)
        return out

    # What the solver calls: it may map it, so only the structure of the result is checked.
    def product(y: Any) -> Any:
        return _of_structure("custom_linear_solve: matvec", matvec(y), b)

    if not tracing_depth():
        solved = checked("solve", solve(product, b), has_aux)
        return tree_util.tree_map(as_operand, solved)
    avals = [x.aval for x in sides]

    def trace(function: Callable[[Any], Any], name: str, aux: bool = False) -> Traced:
        def call(tracers: list[Any]) -> tuple[Any, Any]:
            return checked(name, function(tree_util.tree_unflatten(tree, tracers)), aux), None

        return trace_function(call, function, "custom_linear_solve", avals, staging=True)

    def vecmat(y: Any) -> Any:
        return linear_transpose(matvec, b)(y)[0]

    traced = [trace(lambda y: solve(product, y), "solve", has_aux), trace(matvec, "matvec")]
    if symmetric:
        backward = transpose_solve or solve
        traced.append(trace(lambda y: backward(product, y), "solve", has_aux))
        traced.append(trace(matvec, "matvec"))
    elif transpose_solve is not None:
        given = transpose_solve
        traced.append(trace(lambda y: given(vecmat, y), "transpose_solve", has_aux))
        traced.append(trace(vecmat, "matvec"))
    consts: dict[int, Array] = {id(c): c for t in traced for c in t.captures}
    place = {key: i for i, key in enumerate(consts)}
    types = [*(c.aval.type for c in consts.values()), *(a.type for a in avals)]
    bodies = [
        rearranged(
            t.body,
            [*(len(consts) + i for i in range(len(avals))), *(place[id(c)] for c in t.captures)],
            types,
        )
        for t in traced
    ]
    operands = [*consts.values(), *sides]
    vma = varying_axes(operands)
    if varying_axes(sides) != vma:
        # The cotangents of the right-hand side vary over the axes over which the matrix varies.
        return custom_linear_solve(
            matvec,
            tree_util.tree_unflatten(tree, varying(sides, vma)),
            solve,
            transpose_solve,
            symmetric,
            has_aux,
        )
    params = {"consts": len(consts)}
    results = bind_bodies(ops.custom_linear_solve, traced[0].program, operands, bodies, params)
    return tree_util.tree_unflatten(traced[0].tree, with_avals(results, traced[0].avals))


__all__ = ["custom_linear_solve", "custom_root"]
