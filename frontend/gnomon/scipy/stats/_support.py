"""Values of distributions outside of their supports and for invalid parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import is_weakly_typed
from gnomon._tracing.bind import with_weak_type

_P = ParamSpec("_P")


def typed_as_outcome(function: Callable[_P, Array]) -> Callable[_P, Array]:
    """A function of outcomes whose result is weakly typed only if an array of outcomes is.

    Outcomes may be integers, which parameters that are Python floats would make weakly typed.
    """
    first = next(iter(inspect.signature(function).parameters))

    @functools.wraps(function)
    def typed(*args: _P.args, **kwargs: _P.kwargs) -> Array:
        result = function(*args, **kwargs)
        is_weak = is_weakly_typed(args[0] if args else kwargs[first])
        return result if is_weak or not result.ndim else with_weak_type(result, False)

    return typed


def on_support(
    function: Callable[[Array], Array],
    z: Array,
    ends: tuple[float, float],
    beyond: tuple[float, float],
    within: float,
) -> Array:
    """Evaluate a function inside its support; outside of it and at its ends, return constants.

    There the derivatives are zero. Clipping alone would make them nan where the derivative at an
    end is infinite or nan.

    Args:
      function: an elementwise function.
      z: the arguments of the function; nan stays nan.
      ends: the ends of the support.
      beyond: the values below and above the support, and at its ends.
      within: a point inside the support at which the function and its derivatives are finite.
    """
    low, high = z <= ends[0], z >= ends[1]
    value = function(gnp.where(low | high, within, z))
    return gnp.where(low, beyond[0], gnp.where(high, beyond[1], value))


def log_of_probability(p: Array) -> Array:
    """The logarithm of a probability, with a derivative of zero where the probability is zero."""
    impossible = gnp.equal(p, 0)
    return gnp.where(impossible, -np.inf, lax.log(gnp.where(impossible, 1, p)))


def log1m_exp_of_exp(z: Array) -> Array:
    """log(1 - exp(-exp(z))), also where exp(z) underflows."""
    is_low = z < -10
    growth = lax.exp(gnp.where(is_low, z, -10))
    series = z - growth / 2 + growth * growth / 24
    return gnp.where(is_low, series, log_of_probability(-lax.expm1(-lax.exp(z))))


def nan_unless(valid: Array, value: Array) -> Array:
    """The value where the parameters are valid, and nan elsewhere, as in SciPy."""
    return gnp.where(valid, value, np.nan)
