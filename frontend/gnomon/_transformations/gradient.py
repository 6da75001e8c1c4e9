"""Gradients of scalar functions: `grad`, `value_and_grad`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._arrays.dtypes import float0
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import (
    apply,
    auxiliary_leaves,
    check_callable,
    described,
    result_and_auxiliary,
    trace_function,
    with_avals,
)
from gnomon._transformations.argnums import ArgumentLeaves, canonical_argnums, differentiable
from gnomon.dialects import functions
from gnomon.dialects.types import is_complex, is_inexact

P = ParamSpec("P")


def value_and_grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[str] = (),
) -> Callable[P, tuple[Any, Any]]:
    """A function that evaluates ``fun`` and its gradient.

    Args:
      fun: returns a scalar (rank 0, real; complex if ``holomorphic``), or with ``has_aux`` a pair
        of the scalar and any auxiliary data.
      argnums: which positional arguments to differentiate by: an int, or a tuple of ints. They are
        pytrees of floating point (or complex) arrays.
      has_aux: whether ``fun`` returns a pair of the scalar and auxiliary data.
      holomorphic: promises that ``fun`` is complex analytic; arguments and result are complex.
      allow_int: whether integer arguments are allowed; their gradient is zero, of dtype ``float0``.
      reduce_axes: must be empty.
    Returns:
      A function of the same arguments that returns ``(value, gradient)``, with ``has_aux``
      ``((value, aux), gradient)``. The gradient has the tree of the argument, or is a tuple of
      such trees if ``argnums`` is a tuple.
    Raises:
      TypeError: the result is not a scalar of the right kind, or an argument is not differentiable.

    Example:
      >>> import gnomon as gn
      >>> value, gradient = gn.value_and_grad(lambda x: x * x)(3.0)
      >>> float(value), float(gradient)
      (9.0, 6.0)
    """
    check_callable(fun, "value_and_grad")
    if reduce_axes:
        raise NotImplementedError("reduce_axes is not supported, as in JAX; use lax.psum")
    positions = canonical_argnums(argnums)

    def value_and_grad_of(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        chosen = ArgumentLeaves(fun, positions, args, kwargs)
        leaves = [differentiable(leaf, "grad", holomorphic, allow_int) for leaf in chosen.leaves]
        wrt = [i for i, leaf in enumerate(leaves) if is_inexact(leaf.dtype)]
        operands = [leaves[i] for i in wrt]

        def call(tracers: list[Any]) -> tuple[Any, Any]:
            full: list[Any] = list(leaves)
            for i, tracer in zip(wrt, tracers, strict=True):
                full[i] = tracer
            out = chosen(*full)
            if not has_aux:
                return _scalar_result(out, holomorphic), None
            value, aux = result_and_auxiliary(out, fun)
            arrays, put_back = auxiliary_leaves(aux)
            return (_scalar_result(value, holomorphic), arrays), put_back

        names = chosen.names()
        traced = trace_function(
            call,
            fun,
            "grad",
            [o.aval for o in operands],
            staging=False,
            sources=operands,
            names=[names[i] for i in wrt],
        )
        one = wrap(np.ones((), traced.avals[0].dtype))
        results = apply(
            functions.vjp,
            traced,
            [*operands, *traced.captures, one],
            wrt=tuple(range(len(wrt))),
            outputs=(0,),
        )
        count = len(traced.avals)
        outs = with_avals(results[:count], traced.avals)
        found = iter(with_avals(results[count:], [o.aval.cotangent() for o in operands]))
        gradient = chosen.unflatten(
            [
                next(found) if is_inexact(leaf.dtype) else np.zeros(leaf.shape, float0)
                for leaf in leaves
            ]
        )
        if has_aux:
            return (outs[0], traced.extra(outs[1:])), gradient
        return outs[0], gradient

    return described(value_and_grad_of, fun, "The value of {} and its gradient.")


def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[str] = (),
) -> Callable[P, Any]:
    """A function that evaluates the gradient of ``fun``.

    Args:
      fun: a function whose result is a real scalar; with ``has_aux``, a pair of that and auxiliary
        data.
      argnums: which positional arguments to differentiate by: an int, or several.
      has_aux: whether ``fun`` returns auxiliary data.
      holomorphic: promises that ``fun`` is complex analytic, so that complex arguments and results
        are allowed.
      allow_int: allow integer arguments, whose gradients have the dtype ``float0``.
      reduce_axes: must be empty.
    Returns:
      A function of the same arguments that returns the gradient: a tree like the argument, or a
      tuple of such trees if ``argnums`` is a sequence; with ``has_aux`` ``(gradient, aux)``.
    Raises:
      TypeError: (from that function) the result is not a real scalar, or an argument is not
        floating point.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> gn.grad(lambda x: x**3)(2.0)
      Array(12., dtype=float32, weak_type=True)
      >>> gn.grad(lambda w, x: (w * x).sum(), argnums=(0, 1))(gnp.array([1.0, 2.0]), 3.0)
      (Array([3., 3.], dtype=float32), Array(3., dtype=float32, weak_type=True))
      >>> gn.grad(lambda x: x**2)(3)
      Traceback (most recent call last):
          ...
      TypeError: grad requires real- or complex-valued inputs (input dtype that is a ...

    See also:
      `value_and_grad`, `jacobian`, `vjp`
    """
    check_callable(fun, "grad")
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    def grad_of(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return described(grad_of, fun, "The gradient of {}.")


def _scalar_result(out: Any, holomorphic: bool) -> Array:
    if tree_util.tree_structure(out) != tree_util.tree_structure(0):
        raise TypeError(
            "gradient only defined for scalar-output functions; the output is a pytree of "
            f"structure {tree_util.tree_structure(out)}. For several outputs use jacrev or vjp, "
            "for auxiliary data has_aux=True."
        )
    array = as_operand(out)
    if array.shape != ():
        raise TypeError(
            f"gradient only defined for scalar-output functions; the output has shape "
            f"{array.shape}. Sum it, or use jacrev, jacfwd or vjp."
        )
    dtype = array.dtype
    if holomorphic:
        if not is_complex(dtype):
            raise TypeError(
                f"grad with holomorphic=True requires a complex output, got {dtype.name}"
            )
    elif not is_inexact(dtype) or is_complex(dtype):
        advice = (
            "For a holomorphic function use holomorphic=True, else differentiate its real part."
            if is_complex(dtype)
            else "Convert the result to a float."
        )
        raise TypeError(
            "grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), "
            f"but got {dtype.name}. {advice}"
        )
    return array
