"""Special functions of ``scipy.special``, with their derivatives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon._examples import example_section
from gnomon.dialects.types import is_complex
from gnomon.numpy._arguments import promoted
from gnomon.numpy._bessel import i1 as modified_bessel_1
from gnomon.numpy._dispatch import INEXACT_KIND, promoted_operands
from gnomon.scipy._complex_gamma import gamma, loggamma
from gnomon.scipy._error_functions import owens_t, wofz
from gnomon.scipy._gamma_functions import (
    bernoulli,
    beta,
    betainc,
    betaln,
    comb,
    factorial,
    gammainc,
    gammaincc,
    gammaln,
    gammasgn,
    multigammaln,
    poch,
)
from gnomon.scipy._hypergeometric import hyp1f1, hyp2f1
from gnomon.scipy._integrals import bessel_jn, exp1, expi, expn, fresnel, sici, spence
from gnomon.scipy._probability_functions import (
    boxcox,
    boxcox1p,
    dawsn,
    entr,
    erfcinv,
    erfcx,
    kl_div,
    log_ndtr,
    ndtr,
    ndtri,
    rel_entr,
    xlog1py,
    xlogy,
)
from gnomon.scipy._spherical_harmonics import sph_harm_y

__all__ = [
    "bernoulli",
    "bessel_jn",
    "beta",
    "betainc",
    "betaln",
    "boxcox",
    "boxcox1p",
    "comb",
    "dawsn",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp1",
    "expi",
    "expit",
    "expn",
    "factorial",
    "fresnel",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "hyp1f1",
    "hyp2f1",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "kl_div",
    "log_ndtr",
    "log_softmax",
    "loggamma",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "owens_t",
    "poch",
    "polygamma",
    "rel_entr",
    "sici",
    "softmax",
    "spence",
    "sph_harm_y",
    "wofz",
    "xlog1py",
    "xlogy",
    "zeta",
]

Axis = int | tuple[int, ...] | None


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """The logarithm of the sum of exponentials, without overflow.

    Args:
      a: an array.
      axis: the dimensions to sum over; all by default.
      b: factors of the exponentials, zero and negative ones included.
      keepdims: keep the reduced dimensions, with size one.
      return_sign: return ``(result, sign)`` of the sum; without it a negative sum gives nan.
      where: a mask of the elements to sum.
    Returns:
      ``log(sum(b * exp(a)))``, and the sign of the sum if it is requested.

    Example:
      >>> import gnomon.numpy as gnp
      >>> logsumexp(gnp.array([1000.0, -1000.0]))
      Array(1000., dtype=float32)
    """
    if b is None:
        (x,) = promoted("logsumexp", a, inexact=True)
        factor = None
    else:
        x, factor = promoted("logsumexp", a, b, inexact=True)
        # A factor of zero excludes its element, even an infinite one.
        x = gnp.where(lax.eq(factor, np.zeros((), factor.dtype)), -np.inf, x)
    if where is not None:
        x = gnp.where(where, x, 0)
    reduction: dict[str, Any] = {"axis": axis, "where": where}
    largest = gnp.max(gnp.real(x), keepdims=True, initial=-np.inf, **reduction)
    largest = lax.stop_gradient(gnp.where(gnp.isfinite(largest), largest, 0))
    terms = gnp.exp(x - largest.astype(x.dtype))
    if factor is not None:
        terms = terms * factor
    total = gnp.sum(terms, keepdims=keepdims, **reduction)
    if not keepdims:
        largest = gnp.reshape(largest, total.shape)
    complex_result = is_complex(total.dtype)
    sign = gnp.sign(total)
    if return_sign or not complex_result:
        total = gnp.abs(total)
    result = gnp.log(total) + largest.astype(total.dtype)
    if return_sign:
        return result, sign
    if factor is None or complex_result:
        return result
    return gnp.where(sign < 0, np.nan, result)


def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """Exponentials divided by their sum, without overflow.

    Args:
      x: an array.
      axis: the axis or axes of the sum; None, the default, means all.
    Returns:
      A floating point array of the shape of ``x``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.softmax(gnp.array([0.0, 0.0, 1000.0]))
      Array([0., 0., 1.], dtype=float32)
      >>> special.softmax(gnp.zeros((2, 2)), axis=1)
      Array([[0.5, 0.5],
             [0.5, 0.5]], dtype=float32)

    See also:
      `log_softmax`, `gnomon.nn.softmax`, whose default is the last axis
    """
    (x,) = promoted("softmax", x, inexact=True)
    unnormalized = gnp.exp(x - lax.stop_gradient(gnp.max(x, axis=axis, keepdims=True)))
    return unnormalized / gnp.sum(unnormalized, axis=axis, keepdims=True)


def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """The logarithm of `softmax`, also accurate where `softmax` is tiny.

    Args:
      x: an array.
      axis: the axis or axes along which the exponentials are normalized; None means all.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.log_softmax(gnp.array([0.0, 1000.0]))
      Array([-1000.,     0.], dtype=float32)
    """
    (x,) = promoted("log_softmax", x, inexact=True)
    return x - logsumexp(x, axis=axis, keepdims=True)


class _OfOne(Protocol):
    def __call__(self, x: ArrayLike) -> Array: ...


class _OfOrder(Protocol):
    def __call__(self, n: ArrayLike, x: ArrayLike) -> Array: ...


def _elementwise(name: str, function: Callable[..., Array], summary: str, *names: str) -> Any:
    signature = inspect.Signature(
        [
            inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="ArrayLike")
            for n in names
        ],
        return_annotation="Array",
    )

    def special(*args: Any, **kwargs: Any) -> Array:
        arguments = args
        if kwargs or len(args) != len(names):
            try:
                arguments = signature.bind(*args, **kwargs).args
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
        return function(*promoted_operands(name, INEXACT_KIND, *arguments))

    special.__signature__ = signature  # type: ignore[attr-defined]
    special.__name__ = special.__qualname__ = name
    described = ", ".join(names)
    special.__doc__ = f"""{summary}

    Args:
      {described}: real arrays or scalars; integers become floating point numbers.
    Raises:
      TypeError: an argument is complex, or not an array.
    """ + example_section("scipy", name)
    return special


erf: _OfOne = _elementwise(
    "erf", lax.erf, "The error function, the integral of 2 exp(-t²) / sqrt(pi) from 0 to x.", "x"
)
erfc: _OfOne = _elementwise(
    "erfc", lax.erfc, "The complementary error function 1 - erf(x), accurate where it is tiny.", "x"
)
erfinv: _OfOne = _elementwise(
    "erfinv",
    lax.erf_inv,
    "The inverse of the error function; inf at 1, nan outside of [-1, 1].",
    "x",
)
digamma: _OfOne = _elementwise(
    "digamma", lax.digamma, "The digamma function, the derivative of `gammaln`.", "x"
)
polygamma: _OfOrder = _elementwise(
    "polygamma", lax.polygamma, "The derivative of order n of `digamma`.", "n", "x"
)
i0e: _OfOne = _elementwise(
    "i0e", lax.bessel_i0e, "The modified Bessel function of order 0, times exp(-abs(x)).", "x"
)
i1e: _OfOne = _elementwise(
    "i1e", lax.bessel_i1e, "The modified Bessel function of order 1, times exp(-abs(x)).", "x"
)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Hurwitz zeta function: the sum of ``(q + k) ** -x`` over k from 0.

    Args:
      x: an array or scalar of numbers greater than 1.
      q: an array or scalar that broadcasts with ``x``; None means 1, Riemann's zeta function.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.zeta(gnp.array([2.0, 4.0])).round(4)
      Array([1.6449, 1.0823], dtype=float32)
      >>> special.zeta(2.0, 2.0).round(4)
      Array(0.6449, dtype=float32, weak_type=True)
    """
    return lax.zeta(*promoted_operands("zeta", INEXACT_KIND, x, 1.0 if q is None else q))


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 0.

    Args:
      x: an array or scalar of real numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.i0(gnp.array([0.0, 1.0])).round(4)
      Array([1.    , 1.2661], dtype=float32)

    See also:
      `i0e`, which does not overflow
    """
    return gnp.i0(x)


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 1.

    Args:
      x: an array or scalar of real numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.i1(gnp.array([0.0, 1.0])).round(4)
      Array([0.    , 0.5652], dtype=float32)

    See also:
      `i1e`, which does not overflow
    """
    return modified_bessel_1(x)


def expit(x: ArrayLike) -> Array:
    """The logistic function ``1 / (1 + exp(-x))``, the inverse of `logit`.

    Args:
      x: an array or scalar; integers become floating point numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.expit(gnp.array([-100.0, 0.0, 100.0])).round(4)
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    (x,) = promoted("expit", x, inexact=True)
    return lax.logistic(x)


def logit(x: ArrayLike) -> Array:
    """The logarithm of the odds, ``log(x / (1 - x))``: the inverse of `expit`.

    Args:
      x: probabilities, an array or scalar; integers become floating point numbers.
    Returns:
      -inf at 0, inf at 1, nan outside of [0, 1].

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.scipy import special
      >>> special.logit(gnp.array([0.0, 0.5, 0.75, 1.0])).round(4)
      Array([  -inf, 0.    , 1.0986,    inf], dtype=float32)
    """
    (x,) = promoted("logit", x, inexact=True)
    return gnp.log(x) - gnp.log1p(-x)
