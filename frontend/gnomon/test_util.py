"""Checks of derivatives against finite differences, for tests of user's functions.

The finite differences are central ones, in one random direction: two evaluations of the function,
however many numbers it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from gnomon import numpy as gnp
from gnomon import tree_util
from gnomon._arrays.dtypes import float0
from gnomon._tracing.bind import as_operand
from gnomon._transformations.differentiate import jvp, vjp
from gnomon.dialects.types import is_complex, is_inexact

__all__ = ["check_grads", "check_jvp", "check_vjp"]


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: str | Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Check the derivatives of a function at a point against finite differences.

    Derivatives with respect to all floating-point and complex leaves of the arguments are checked,
    in one random direction. Those of order ``n + 1`` are the first derivatives of those of order
    ``n``.

    Args:
      f: the function, of pytrees of arrays, to a pytree of arrays.
      args: its arguments.
      order: the highest order of derivatives to check.
      modes: ``"fwd"`` for `jvp`, ``"rev"`` for `vjp`, or both.
      atol, rtol: the tolerances. By default, the cube root of the machine epsilon of the coarsest
        dtype among arguments and results: 5e-3 for float32, 6e-6 for float64.
      eps: the step; by default the same number, which balances truncation and rounding errors.
    Raises:
      AssertionError: derivatives differ; the message tells the mode and the order.
      ValueError: ``order`` is less than one, or there is no such mode.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.test_util import check_grads
      >>> check_grads(lambda x, w: gnp.tanh(w * x), (gnp.arange(3.0), 0.5), order=2)
    """
    if order < 1:
        raise ValueError(f"check_grads: order must be at least 1, got {order}")
    wanted = [modes] if isinstance(modes, str) else list(modes)
    if unknown := [mode for mode in wanted if mode not in ("fwd", "rev")]:
        raise ValueError(f"check_grads: modes are 'fwd' and 'rev', got {unknown[0]!r}")
    _check(_OfLeaves(f, tuple(args)), wanted, 1, order, (atol, rtol, eps))


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., tuple[Any, Any]],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check a function that computes a Jacobian-vector product, such as ``partial(jvp, f)``.

    Args:
      f: the function.
      f_jvp: maps ``(primals, tangents)``, two tuples, to the result of ``f`` and its tangent.
      args: the arguments of ``f``.
      atol, rtol, eps: as for `check_grads`.
      err_msg: the beginning of messages.
    Raises:
      AssertionError: the results or the tangents differ from those that ``f`` gives.

    Example:
      >>> import functools
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> from gnomon.test_util import check_jvp
      >>> check_jvp(gnp.sin, functools.partial(gn.jvp, gnp.sin), (gnp.float32(1.0),))
    """
    primals = tuple(args)
    expected = f(*primals)
    rule = _Tolerance.of((primals, expected), atol, rtol, eps)
    tangents = _random_like(primals, np.random.default_rng(0))
    out, tangent = f_jvp(primals, tangents)
    rule.compare(out, expected, f"{err_msg}the primal results of the JVP are", "the function's are")
    rule.compare(
        tangent,
        _difference(f, primals, tangents, rule.eps),
        f"{err_msg}the tangents of {_name(f)} are",
        "finite differences give",
    )


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., tuple[Any, Callable[[Any], Any]]],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check a function that computes a vector-Jacobian product, such as ``partial(vjp, f)``.

    Args:
      f: the function.
      f_vjp: maps the arguments of ``f`` to its result, and a function from a cotangent of the
        result to a tuple of cotangents of the arguments.
      args: the arguments of ``f``.
      atol, rtol, eps: as for `check_grads`.
      err_msg: the beginning of messages.
    Raises:
      AssertionError: the results differ, or the cotangents do not agree with finite differences.

    Example:
      >>> import functools
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> from gnomon.test_util import check_vjp
      >>> check_vjp(gnp.sin, functools.partial(gn.vjp, gnp.sin), (gnp.float32(1.0),))
    """
    primals = tuple(args)
    expected = f(*primals)
    rule = _Tolerance.of((primals, expected), atol, rtol, eps)
    random = np.random.default_rng(0)
    cotangent = _random_like(expected, random)
    out, pull_back = f_vjp(*primals)
    rule.compare(out, expected, f"{err_msg}the primal results of the VJP are", "the function's are")
    pulled = pull_back(cotangent)
    tangents = tree_util.tree_map(_along, _random_like(primals, random), pulled)
    rule.compare(
        _inner(pulled, tangents),
        _inner(cotangent, _difference(f, primals, tangents, rule.eps)),
        f"{err_msg}the cotangents of {_name(f)} times a tangent are",
        "finite differences give",
    )


# ------------------------------------------------------------------------------------------- orders


class _OfLeaves:
    """A function of the inexact leaves of arguments, to the list of its inexact results.

    Attributes:
      leaves: the leaves of the given arguments.
    """

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._f, self.__name__ = f, _name(f)
        given, self._tree = tree_util.tree_flatten(args)
        self._given = [as_operand(leaf) for leaf in given]
        self._places = [i for i, leaf in enumerate(self._given) if is_inexact(leaf.dtype)]
        self.leaves = tuple(self._given[i] for i in self._places)

    def __call__(self, *leaves: Any) -> list[Any]:
        values: list[Any] = list(self._given)
        for i, leaf in zip(self._places, leaves, strict=True):
            values[i] = leaf
        out = tree_util.tree_leaves(self._f(*tree_util.tree_unflatten(self._tree, values)))
        return [y for y in map(as_operand, out) if is_inexact(y.dtype)]


def _check(
    f: _OfLeaves,
    modes: Sequence[str],
    order: int,
    last: int,
    tolerances: tuple[float | None, float | None, float | None],
) -> None:
    random = np.random.default_rng(order)
    for mode in modes:
        message = f"order {order}, mode {mode!r}: "
        if mode == "fwd":
            check_jvp(f, lambda xs, ts: jvp(f, xs, ts), f.leaves, *tolerances, err_msg=message)
        else:
            check_vjp(f, lambda *xs: vjp(f, *xs), f.leaves, *tolerances, err_msg=message)
        if order == last:
            continue
        derivative = _tangents_of(f) if mode == "fwd" else _cotangents_of(f, random)
        extra = (_random_like(f.leaves, random),) if mode == "fwd" else ()
        derivative.__name__ = f"the derivative of {f.__name__}"
        _check(_OfLeaves(derivative, (f.leaves, *extra)), modes, order + 1, last, tolerances)


def _tangents_of(f: _OfLeaves) -> Callable[..., Any]:
    return lambda primals, tangents: jvp(f, primals, tangents)[1]


def _cotangents_of(f: _OfLeaves, random: np.random.Generator) -> Callable[..., Any]:
    cotangent = _random_like(f(*f.leaves), random)
    return lambda primals: vjp(f, *primals)[1](cotangent)


# ------------------------------------------------------------------------------ finite differences


def _random_like(tree: Any, random: np.random.Generator) -> Any:
    """Tangents of a tree: standard normal numbers, and float0 for integers and booleans."""

    def of(leaf: Any) -> Any:
        x = as_operand(leaf)
        if not is_inexact(x.dtype):
            return np.zeros(x.shape, float0)
        drawn = random.standard_normal(x.shape)
        if is_complex(x.dtype):
            drawn = drawn + 1j * random.standard_normal(x.shape)
        return gnp.asarray(np.asarray(drawn).astype(x.dtype))

    return tree_util.tree_map(of, tree)


def _along(tangent: Any, cotangent: Any) -> Any:
    """A tangent with the phases of a cotangent, so that no products of their elements cancel."""
    if tangent.dtype == float0:
        return tangent
    phase = np.sign(_exact(cotangent).conj())
    aligned = np.abs(_exact(tangent)) * np.where(phase == 0, 1, phase)
    return gnp.asarray(aligned.astype(tangent.dtype))


def _difference(f: Callable[..., Any], primals: Any, tangents: Any, eps: float) -> Any:
    """The tangent of ``f``, by central differences."""

    def moved(by: float) -> Any:
        def of(x: Any, t: Any) -> Any:
            return x if t.dtype == float0 else (as_operand(x) + by * t).astype(t.dtype)

        return f(*tree_util.tree_map(of, primals, tangents))

    def quotient(high: Any, low: Any) -> Any:
        return (_exact(high) - _exact(low)) / (2 * eps)

    return tree_util.tree_map(quotient, moved(eps), moved(-eps))


def _exact(x: Any) -> np.ndarray[Any, Any]:
    """Numbers as float64 or complex128, so that the comparison itself loses nothing."""
    array = np.asarray(x)
    if array.dtype == float0:
        return np.zeros(array.shape)
    return array.astype(np.complex128 if is_complex(array.dtype) else np.float64)


def _inner(x: Any, y: Any) -> Any:
    """The inner product of a cotangent and a tangent, which for complex numbers conjugates none."""
    pairs = zip(tree_util.tree_leaves(x), tree_util.tree_leaves(y), strict=True)
    return np.asarray(sum((_exact(a) * _exact(b)).sum().real for a, b in pairs), np.float64)


# -------------------------------------------------------------------------------------- comparisons


class _Tolerance:
    """The step of finite differences, and the tolerances of comparisons."""

    def __init__(self, atol: float, rtol: float, eps: float) -> None:
        self.atol, self.rtol, self.eps = atol, rtol, eps

    @staticmethod
    def of(tree: Any, atol: float | None, rtol: float | None, eps: float | None) -> _Tolerance:
        """The given numbers; for those that are None, what the dtypes of the leaves allow."""
        dtypes = {as_operand(leaf).dtype for leaf in tree_util.tree_leaves(tree)}
        step = max(
            (float(ml_dtypes.finfo(d).eps) for d in dtypes if is_inexact(d)), default=2.0**-52
        ) ** (1 / 3)
        return _Tolerance(*(step if given is None else given for given in (atol, rtol, eps)))

    def compare(self, found: Any, expected: Any, what: str, against: str) -> None:
        """Raise ``AssertionError`` unless two trees of arrays agree."""
        for x, y in zip(tree_util.tree_leaves(found), tree_util.tree_leaves(expected), strict=True):
            a, b = _exact(x), _exact(y)
            if a.shape != b.shape or not np.allclose(
                a, b, rtol=self.rtol, atol=self.atol, equal_nan=True
            ):
                raise AssertionError(
                    f"{what} {a}, {against} {b} (rtol {self.rtol:.1e}, atol {self.atol:.1e})"
                )


def _name(f: Callable[..., Any]) -> str:
    return str(getattr(f, "__name__", f))
