"""Forward and reverse mode: `jvp`, `linearize`, `vjp`."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, map_text
from gnomon._arrays.concrete import wrap
from gnomon._arrays.dtypes import float0
from gnomon._diagnostics.source_location import user_location
from gnomon._tracing.bind import as_operand, varying
from gnomon._tracing.function import (
    Traced,
    apply,
    auxiliary_leaves,
    call_function,
    check_callable,
    match_dtype,
    output_leaves,
    result_and_auxiliary,
    trace_function,
    with_avals,
)
from gnomon.dialects import functions
from gnomon.dialects.functions import Program
from gnomon.dialects.types import is_inexact
from gnomon.passes.differentiate import Differentiator
from gnomon.passes.expand import Expander


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of ``fun`` at ``primals`` and its derivative in the direction of ``tangents``.

    Args:
      fun: a function of arrays and pytrees of them.
      primals: a tuple or list of arguments.
      tangents: a tuple or list of the same structure, shapes and dtypes (``float0`` zeros for
        integer arguments).
      has_aux: whether ``fun`` returns a pair of its result and auxiliary data.
    Returns:
      ``(primals_out, tangents_out)``, with ``has_aux`` ``(primals_out, tangents_out, aux)``.
    Raises:
      TypeError: structures or dtypes of primals and tangents differ.
      ValueError: their shapes differ.

    Example:
      >>> import gnomon as gn
      >>> gn.jvp(lambda x: x**2, (3.0,), (1.0,))
      (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))

    See also:
      `linearize`, `vjp`
    """
    check_callable(fun, "jvp")
    leaves, in_tree, operands, wrt, directions = _jvp_inputs("jvp", primals, tangents)
    call = _call_on(fun, leaves, in_tree, wrt, has_aux)
    traced = trace_function(
        call, fun, "jvp", [o.aval for o in operands], staging=False, sources=operands
    )
    results = apply(
        functions.jvp,
        traced,
        [*operands, *traced.captures, *directions],
        wrt=tuple(range(len(wrt))),
    )
    count = len(traced.avals)
    outs = with_avals(results[:count], traced.avals)
    found = iter(results[count:])
    out_tangents = [
        with_avals([next(found)], [a])[0] if is_inexact(a.dtype) else np.zeros(a.shape, float0)
        for a in traced.avals
    ]
    return _separate_auxiliary(traced, outs, out_tangents, has_aux)


def _separate_auxiliary(
    traced: Traced, outs: list[Any], tangents: list[Any], has_aux: bool
) -> tuple[Any, ...]:
    if not has_aux:
        tree = traced.tree
        return tree_util.tree_unflatten(tree, outs), tree_util.tree_unflatten(tree, tangents)
    out_tree, put_back = traced.extra
    count = out_tree.num_leaves
    return (
        tree_util.tree_unflatten(out_tree, outs[:count]),
        tree_util.tree_unflatten(out_tree, tangents[:count]),
        put_back(outs[count:]),
    )


def _call_on(
    fun: Callable[..., Any], leaves: list[Any], in_tree: Any, wrt: list[int], has_aux: bool
) -> Callable[[list[Any]], tuple[Any, Any]]:
    """``fun`` as a function of the leaves ``wrt`` only; the other leaves are fixed."""

    def call(tracers: list[Any]) -> tuple[Any, Any]:
        full = list(leaves)
        for i, tracer in zip(wrt, tracers, strict=True):
            full[i] = tracer
        out = fun(*tree_util.tree_unflatten(in_tree, full))
        if not has_aux:
            return out, None
        result, aux = result_and_auxiliary(out, fun)
        results, tree = output_leaves(result, "the result")
        arrays, put_back = auxiliary_leaves(aux)
        return (results, arrays), (tree, put_back)

    return call


def _jvp_inputs(
    name: str, primals: Any, tangents: Any, wrong_dtype: type[Exception] = TypeError
) -> tuple[list[Array], Any, list[Array], list[int], list[Array]]:
    for kind, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"{name} takes {kind} as a tuple or list of arguments, got {type(given).__name__}"
            )
    leaves, in_tree = tree_util.tree_flatten(tuple(primals))
    tangent_leaves, tangent_tree = tree_util.tree_flatten(tuple(tangents))
    if in_tree != tangent_tree or isinstance(primals, list) != isinstance(tangents, list):
        raise TypeError(
            f"{name} takes primals and tangents of one structure; got a {type(primals).__name__} "
            f"{in_tree} and a {type(tangents).__name__} {tangent_tree}"
        )
    leaves = [as_operand(leaf) for leaf in leaves]
    operands, wrt, directions = [], [], []
    for i, (primal, tangent) in enumerate(zip(leaves, tangent_leaves, strict=True)):
        if getattr(tangent, "dtype", None) == float0:
            if is_inexact(primal.dtype):
                raise wrong_dtype(
                    f"{name}: the tangent of a primal of dtype {primal.dtype.name} has dtype float0"
                )
            continue
        tangent = as_operand(tangent)
        if not is_inexact(primal.dtype):
            raise wrong_dtype(
                f"{name}: primal and tangent arguments do not match: the primal has dtype "
                f"{primal.dtype.name}, whose tangent has dtype float0 (np.zeros(shape, "
                f"gnomon.dtypes.float0)), got {tangent.dtype.name}"
            )
        tangent = match_dtype(tangent, primal.aval)
        if tangent.shape != primal.shape or tangent.dtype != primal.dtype:
            error = ValueError if tangent.dtype == primal.dtype else wrong_dtype
            raise error(
                f"{name}: primal and tangent arguments must have equal shapes and dtypes, got "
                f"{primal.aval} and {tangent.aval}"
            )
        primal, tangent = varying([primal, tangent], primal.aval.vma | tangent.aval.vma)
        operands.append(primal)
        wrt.append(i)
        directions.append(tangent)
    return leaves, in_tree, operands, wrt, directions


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``fun`` at ``primals``, and its derivative there as a linear function.

    ``fun`` is evaluated once; the linear function may be applied many times.

    Args:
      fun: a function of arrays and pytrees of them.
      primals: where to evaluate it.
      has_aux: whether ``fun`` returns a pair of its result and auxiliary data.
    Returns:
      ``(out, linear)``, with ``has_aux`` ``(out, linear, aux)``; ``linear(*tangents)`` takes
      tangents like ``primals`` and returns the tangent of ``out``.
    Raises:
      TypeError: (from the linear function) the structures of primals and tangents differ.
      ValueError: (from the linear function) their shapes or dtypes differ.

    Example:
      >>> import gnomon as gn
      >>> y, f_jvp = gn.linearize(lambda x: x**2, 3.0)
      >>> float(y), float(f_jvp(1.0)), float(f_jvp(2.0))
      (9.0, 6.0, 12.0)

    See also:
      `jvp`, `vjp`
    """
    check_callable(fun, "linearize")
    return _linearized(fun, primals, has_aux, "linearize", Pushforward)


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``fun``, and a function that pulls cotangents back.

    Args:
      fun: a function of arrays and pytrees of them.
      primals: where to evaluate it.
      has_aux: whether ``fun`` returns a pair of its result and auxiliary data.
    Returns:
      ``(out, pullback)``, with ``has_aux`` ``(out, pullback, aux)``. ``pullback(cotangent)`` takes
      a pytree like ``out`` and returns a tuple of cotangents like ``primals``. The primal
      computation is not repeated, however often the pullback is called. The pullback is a pytree
      of its residuals, so that jitted functions may return it and take it as an argument.
    Raises:
      ValueError: (from the pullback) the cotangent's structure, shapes or dtypes are not those of
        ``out``.

    Example:
      >>> import gnomon as gn
      >>> y, pullback = gn.vjp(lambda x, y: x * y, 2.0, 3.0)
      >>> y
      Array(6., dtype=float32, weak_type=True)
      >>> pullback(1.0)
      (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))

    See also:
      `grad`, `jvp`, `linearize`
    """
    check_callable(fun, "vjp")
    return _linearized(fun, primals, has_aux, "vjp", Pullback)


def _linearized(
    fun: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool, name: str, kind: type[_Linear]
) -> tuple[Any, ...]:
    """The value of ``fun`` and its linear map of this ``kind``, as `linearize` and `vjp` return."""
    leaves, in_tree = tree_util.tree_flatten(primals)
    leaves = [as_operand(leaf) for leaf in leaves]
    wrt = [i for i, leaf in enumerate(leaves) if is_inexact(leaf.dtype)]
    operands = [leaves[i] for i in wrt]
    traced = trace_function(
        _call_on(fun, leaves, in_tree, wrt, has_aux),
        fun,
        name,
        [o.aval for o in operands],
        staging=False,
        sources=operands,
    )
    program = traced.program
    function = program.add(traced.name, traced.body, location=user_location())
    expander = Expander(program)
    expander.expand(function)
    nonzero = [True] * len(operands) + [False] * len(traced.captures)
    forward, linear, parts = expander.differentiator.linearize_function(function, tuple(nonzero))
    results = call_function(program, forward, [*operands, *traced.captures])
    values = with_avals(results[: len(traced.avals)], traced.avals)
    out_tree = traced.extra[0] if has_aux else traced.tree
    linear_map = _LinearMap(
        program,
        expander.differentiator,
        linear,
        parts.out_nonzero,
        [leaf.aval for leaf in leaves],
        in_tree,
        traced.avals,
        out_tree,
    )
    mapping = kind(linear_map, results[len(traced.avals) :])
    count = out_tree.num_leaves
    out = tree_util.tree_unflatten(out_tree, values[:count])
    if not has_aux:
        return out, mapping
    return out, mapping, traced.extra[1](values[count:])


class _LinearMap:
    """A function of a program, from residuals and tangents to tangents, with its types."""

    def __init__(
        self,
        program: Program,
        differentiator: Differentiator,
        name: str,
        out_nonzero: Sequence[bool],
        in_avals: Sequence[ShapedArray],
        in_tree: Any,
        out_avals: Sequence[ShapedArray],
        out_tree: Any,
    ) -> None:
        self.program = program
        self.differentiator = differentiator
        self.name = name
        self.out_nonzero = out_nonzero
        self.in_avals = in_avals
        self.in_tree = in_tree
        self.out_avals = out_avals
        self.out_tree = out_tree
        self._detached: _LinearMap | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> _LinearMap:
        return self  # It does not change.

    @property
    def wrt(self) -> list[int]:
        """The indices of the arguments that have tangents."""
        return [i for i, a in enumerate(self.in_avals) if is_inexact(a.dtype)]

    def detached(self) -> _LinearMap:
        """The same map in a separate program, which outlives the one being traced."""
        if self._detached is None:
            program = Program()
            name = program.import_function(self.program, self.name, {})
            self._detached = copy.copy(self)
            self._detached.program = program
            self._detached.name = name
            self._detached.differentiator = Differentiator(program)
            self._detached._detached = self._detached
        return self._detached

    def push_forward(self, residuals: list[Any], tangents: list[Array]) -> Any:
        """The tangent of the result."""
        found = iter(call_function(self.program, self.name, [*residuals, *tangents]))
        # A weakly typed result depends on weakly typed primals only.
        weak = all(
            t.aval.weak_type
            for i, t in zip(self.wrt, tangents, strict=True)
            if self.in_avals[i].weak_type
        )
        out: list[Any] = []
        for aval, nonzero in zip(self.out_avals, self.out_nonzero, strict=True):
            if nonzero:
                tangent = next(found)
                out += with_avals([tangent], [aval if weak else aval.strip_weak_type()])
            elif is_inexact(aval.dtype):
                out.append(wrap(np.zeros(aval.shape, aval.dtype)))
            else:
                out.append(np.zeros(aval.shape, float0))
        return tree_util.tree_unflatten(self.out_tree, out[: self.out_tree.num_leaves])

    def pull_back(self, residuals: list[Any], cotangent: Any) -> Any:
        """Cotangents of the primals."""
        given, tree = tree_util.tree_flatten(cotangent)
        if tree != self.out_tree:
            raise ValueError(
                "the cotangent must have the structure of the function's output: expected "
                f"{self.out_tree}, got {tree}"
            )
        count = self.out_tree.num_leaves
        seeds: list[Any] = []
        weak = True
        present: list[bool] = []
        for i, (aval, nonzero) in enumerate(zip(self.out_avals, self.out_nonzero, strict=True)):
            ct = checked_cotangent(given[i], aval) if i < count else None
            if nonzero:
                present.append(ct is not None)
                # A strongly typed cotangent of a weakly typed result makes all cotangents strong.
                weak = weak and (ct is None or not aval.weak_type or ct.aval.weak_type)
                seeds += [ct] if ct is not None else []
        linear = [False] * len(residuals) + [True] * len(self.wrt)
        backward = self.differentiator.transpose_function(self.name, tuple(linear), tuple(present))
        results = call_function(self.program, backward, [*residuals, *seeds])
        avals = [self.in_avals[i].cotangent() for i in self.wrt]
        results = with_avals(results, avals if weak else [a.strip_weak_type() for a in avals])
        found = dict(zip(self.wrt, results, strict=True))
        filled = [
            found[i] if i in found else np.zeros(aval.shape, float0)
            for i, aval in enumerate(self.in_avals)
        ]
        return tree_util.tree_unflatten(self.in_tree, filled)


class _Linear:
    """A linear map with its residuals, which are its leaves as a pytree."""

    def __init__(self, linear_map: _LinearMap, residuals: list[Any]) -> None:
        self._map = linear_map
        self._residuals = residuals


class Pushforward(_Linear):
    """A pushforward: it maps tangents of the arguments to the tangent of the result."""

    def __call__(self, *tangents: Any) -> Any:
        """The tangent of the result.

        Raises:
          TypeError: the tangents do not have the structure of the primals.
          ValueError: a tangent does not have the shape and dtype of its primal.
        """
        linear_map = self._map
        zeros = [wrap(np.zeros(a.shape, a.dtype), a.weak_type) for a in linear_map.in_avals]
        primals = tree_util.tree_unflatten(linear_map.in_tree, zeros)
        _, _, _, _, directions = _jvp_inputs("the linear function", primals, tangents, ValueError)
        return linear_map.push_forward(self._residuals, directions)

    def __repr__(self) -> str:
        return f"<Pushforward: {map_text(self._map.in_avals, self._map.out_avals)}>"


class Pullback(_Linear):
    """A pullback: it maps a cotangent of the result to cotangents of the arguments."""

    def __call__(self, *cotangents: Any) -> Any:
        """A tuple of the cotangents of the arguments.

        Raises:
          TypeError: the number of arguments is not one.
          ValueError: the cotangent does not have the structure, shapes and dtypes of the result.
        """
        if len(cotangents) != 1:
            raise TypeError(
                "the function that vjp returns takes one argument, a cotangent of the structure "
                f"of the result, got {len(cotangents)}"
            )
        (cotangent,) = cotangents
        return self._map.pull_back(self._residuals, cotangent)

    def __repr__(self) -> str:
        return f"<Pullback: {map_text(self._map.out_avals, self._map.in_avals)}>"


for _kind in (Pushforward, Pullback):
    tree_util.register_pytree_node(
        _kind,
        lambda linear: (tuple(linear._residuals), linear._map.detached()),
        functools.partial(lambda kind, aux, children: kind(aux, list(children)), _kind),
    )


def checked_cotangent(ct: Any, aval: ShapedArray) -> Array | None:
    """The cotangent of an output as an array, its type checked; ``None`` for integer outputs."""
    if not is_inexact(aval.dtype):
        return None  # float0, None and zeros all count as zero
    return matched(ct, aval)


def matched(ct: Any, aval: ShapedArray) -> Array:
    """The cotangent of an output as an array, its type checked."""
    array = match_dtype(as_operand(ct), aval)
    aval = aval.cotangent()
    if array.shape != aval.shape or array.dtype != aval.dtype or array.aval.vma - aval.vma:
        raise ValueError(
            "the cotangent must have the shape and dtype of the function's output, and vary over "
            f"no more axes of a mesh: expected {aval}, got {array.aval}"
        )
    return array
