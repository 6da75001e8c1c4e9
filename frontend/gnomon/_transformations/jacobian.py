"""Jacobians, from one derivative per basis vector: `jacfwd`, `jacrev`, `hessian`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._arrays.dtypes import float0
from gnomon._tracing.bind import as_operand, bind, with_weak_type
from gnomon._tracing.dimensions import number
from gnomon._tracing.function import auxiliary_leaves, check_callable, described
from gnomon._tracing.trace import is_tracer
from gnomon._transformations.argnums import ArgumentLeaves, canonical_argnums, differentiable
from gnomon._transformations.differentiate import jvp, vjp
from gnomon._transformations.vmap import vmap
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.dialects.types import is_complex, is_inexact

P = ParamSpec("P")

_INT32 = np.dtype(np.int32)

__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]


def _basis(leaves: list[Array]) -> list[Array]:
    """The standard basis of the product space of the leaves, along a new leading axis."""
    total = sum(math.prod(leaf.shape) for leaf in leaves)
    rows: list[Array] = []
    start = 0
    for leaf in leaves:
        size = math.prod(leaf.shape)
        if is_symbolic_dim(total):
            rows.append(_symbolic_rows(leaf, total, size, start))
        else:
            block = np.zeros((total, size), leaf.dtype)
            block[np.arange(start, start + size), np.arange(size)] = 1
            rows.append(wrap(block.reshape(total, *leaf.shape), leaf.aval.weak_type))
        start += size
    return rows


def _symbolic_rows(leaf: Array, total: Any, size: Any, start: Any) -> Array:
    """The components of the basis vectors for one leaf, where sizes are symbolic."""
    row, column = (bind(ops.iota, dtype=_INT32, shape=(total, size), dimension=d) for d in range(2))
    shift = as_operand(number(start, _INT32))
    shift = bind(ops.broadcast_in_dim, shift, shape=(total, size), dims=())
    column = bind(ops.add, column, shift)
    block = bind(ops.convert, bind(ops.eq, row, column), dtype=leaf.dtype)
    rows = bind(ops.reshape, block, shape=(total, *leaf.shape))
    return with_weak_type(rows, leaf.aval.weak_type)


def _split_basis(stacked: Any, leaves: list[Array], axis: int) -> list[Any]:
    """Split the axis of the basis vectors into one piece per leaf, of the leaf's shape."""
    pieces, start = [], 0
    shape = stacked.shape
    for leaf in leaves:
        size = math.prod(leaf.shape)
        low, high = [0] * len(shape), list(shape)
        low[axis], high[axis] = start, start + size
        piece = bind(
            ops.slice, stacked, start=tuple(low), limit=tuple(high), strides=(1,) * len(shape)
        )
        new = (*shape[:axis], *leaf.shape, *shape[axis + 1 :])
        pieces.append(bind(ops.reshape, piece, shape=tuple(new)))
        start += size
    return pieces


def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """The Jacobian of ``fun``, column by column in forward mode: good for tall Jacobians.

    Args:
      fun: returns arrays or a pytree of them (with ``has_aux`` a pair of that and auxiliary data).
      argnums: which arguments to differentiate by.
      has_aux: whether ``fun`` returns auxiliary data.
      holomorphic: promises that ``fun`` is complex analytic.
    Returns:
      A function of the same arguments. Its result has the tree of the output, with the tree of the
      argument in place of each leaf. The shape of a leaf is the shape of the output's leaf followed
      by that of the argument's leaf. With ``has_aux`` it returns ``(jacobian, aux)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> gn.jacfwd(lambda x: gnp.array([x[0] * x[1], x[0]]))(gnp.array([2.0, 3.0]))
      Array([[3., 2.],
             [1., 0.]], dtype=float32)

    See also:
      `jacrev`, `jvp`
    """
    check_callable(fun, "jacfwd")
    positions = canonical_argnums(argnums)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = ArgumentLeaves(fun, positions, args, kwargs)
        leaves = [_jacfwd_input(leaf, holomorphic) for leaf in chosen.leaves]
        put_back: Any = None

        def push(*directions: Any) -> Any:
            nonlocal put_back
            out, tangents, *aux = jvp(chosen, tuple(leaves), tuple(directions), has_aux=has_aux)
            tangents = tree_util.tree_map(_without_float0, tangents, out)
            if not has_aux:
                return (tangents,)
            arrays, put_back = auxiliary_leaves(aux[0])
            return tangents, arrays

        found = vmap(push, out_axes=(-1, None) if has_aux else (-1,))(*_basis(leaves))
        stacked, tree_out = tree_util.tree_flatten(found[0])
        _check_jacobian_outputs(stacked, holomorphic, "jacfwd")
        columns = []
        for column in stacked:
            pieces = _split_basis(column, leaves, column.ndim - 1)
            columns.append(chosen.unflatten(pieces))
        jac = tree_util.tree_unflatten(tree_out, columns)
        return (jac, put_back(found[1])) if has_aux else jac

    return described(jacobian, fun, "The Jacobian of {}, in forward mode.")


def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """The Jacobian of ``fun``, row by row in reverse mode: good for wide Jacobians.

    Args:
      fun: returns arrays or a pytree of them (with ``has_aux`` a pair of that and auxiliary data).
      argnums: which arguments to differentiate by.
      has_aux: whether ``fun`` returns auxiliary data.
      holomorphic: promises that ``fun`` is complex analytic.
      allow_int: allow integer arguments; the Jacobian by one is zeros of its dtype.
    Returns:
      A function of the same arguments; its result is the one of `jacfwd`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> gn.jacrev(lambda x: gnp.array([x[0] * x[1], x[0]]))(gnp.array([2.0, 3.0]))
      Array([[3., 2.],
             [1., 0.]], dtype=float32)
      >>> gn.jacrev(lambda x: x**2)(gnp.array([1.0, 2.0, 3.0])).shape
      (3, 3)

    See also:
      `jacfwd`, `vjp`
    """
    check_callable(fun, "jacrev")
    positions = canonical_argnums(argnums)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = ArgumentLeaves(fun, positions, args, kwargs)
        leaves = [differentiable(leaf, "jacrev", holomorphic, allow_int) for leaf in chosen.leaves]
        out, pullback, *aux = vjp(chosen, *leaves, has_aux=has_aux)
        out_leaves, out_tree = tree_util.tree_flatten(out)
        _check_jacobian_outputs(out_leaves, holomorphic, "jacrev")

        def pull(*seeds: Any) -> Any:
            found = pullback(tree_util.tree_unflatten(out_tree, list(seeds)))
            return tuple(None if _is_float0(ct) else ct for ct in found)

        found = vmap(pull)(*_basis(out_leaves))
        rows: list[list[Any]] = [[] for _ in out_leaves]
        for leaf, stacked in zip(leaves, found, strict=True):
            if stacked is None:
                pieces = [
                    wrap(np.zeros((*o.shape, *leaf.shape), leaf.dtype), leaf.aval.weak_type)
                    for o in out_leaves
                ]
            else:
                pieces = _split_basis(stacked, out_leaves, 0)
            for row, piece in zip(rows, pieces, strict=True):
                row.append(piece)
        jac = tree_util.tree_unflatten(out_tree, [chosen.unflatten(row) for row in rows])
        return (jac, aux[0]) if has_aux else jac

    return described(jacobian, fun, "The Jacobian of {}, in reverse mode.")


def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """A function that evaluates the matrix of second derivatives: ``jacfwd(jacrev(fun))``.

    Args:
      fun: a function, usually with a scalar result.
      argnums: which positional arguments to differentiate by: an int, or several.
      has_aux: whether ``fun`` returns a pair of its result and auxiliary data.
      holomorphic: promises that ``fun`` is complex analytic.
    Returns:
      A function of the same arguments. For an array argument of shape ``s``, its result has the
      shape of the output of ``fun`` followed by ``s + s``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> gn.hessian(lambda x: x[0] ** 2 * x[1])(gnp.array([1.0, 2.0]))
      Array([[4., 2.],
             [2., 0.]], dtype=float32)
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


def _is_float0(x: Any) -> bool:
    return not is_tracer(x) and getattr(x, "dtype", None) == float0


def _without_float0(tangent: Any, out: Array) -> Any:
    """A tangent; that of an integer output is zeros of the output's dtype, which `vmap` can map."""
    return wrap(np.zeros(out.shape, out.dtype)) if _is_float0(tangent) else tangent


def _jacfwd_input(leaf: Any, holomorphic: bool) -> Array:
    array = differentiable(leaf, "jacfwd", holomorphic)
    if not holomorphic and is_complex(array.dtype):
        raise TypeError(
            "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), "
            f"but got {array.dtype.name}. For holomorphic differentiation pass holomorphic=True; "
            "for non-holomorphic functions of complex inputs use jvp directly."
        )
    return array


def _check_jacobian_outputs(outs: Sequence[Any], holomorphic: bool, name: str) -> None:
    for out in outs:
        dtype = out.dtype
        if holomorphic and not is_complex(dtype):
            raise TypeError(
                f"{name} with holomorphic=True requires complex outputs, got {dtype.name}"
            )
        if not holomorphic and name == "jacrev" and (is_complex(dtype) or not is_inexact(dtype)):
            raise TypeError(
                "jacrev requires real-valued outputs (output dtype that is a sub-dtype of "
                f"np.floating), but got {dtype.name}. For holomorphic differentiation pass "
                "holomorphic=True; for other functions with complex outputs use vjp directly."
            )


jacobian = jacrev
