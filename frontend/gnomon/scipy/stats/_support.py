"""Values of distributions outside of their supports and for invalid parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

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


def is_positive(x: Any) -> Any:
    """Whether a parameter is positive."""
    return x > 0


def is_not_negative(x: Any) -> Any:
    """Whether a parameter is zero or positive."""
    return x >= 0


def nan_for_invalid(
    **conditions: Callable[[Any], Any],
) -> Callable[[Callable[_P, Array]], Callable[_P, Array]]:
    """Decorate a function of a distribution to return nan for parameters that are not valid.

    Without this, the functions are defined for some of them: with a negative ``scale``, most
    distribution functions are those of the mirrored distribution.

    Args:
      conditions: which parameters are valid, for each name. ``scale`` must be positive.
    """

    def decorate(function: Callable[_P, Array]) -> Callable[_P, Array]:
        names = list(inspect.signature(function).parameters)
        wanted = {"scale": is_positive, **conditions}
        checks = [(names.index(name), name, wanted[name]) for name in wanted if name in names]

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> Array:
            value = function(*args, **kwargs)
            for position, name, is_valid in checks:
                parameter: Any = args[position] if position < len(args) else kwargs.get(name, 1)
                # Valid numbers, such as defaults, add no operation.
                if not isinstance(parameter, (int, float)) or not is_valid(parameter):
                    value = nan_unless(is_valid(gnp.asarray(parameter)), value)
            return value

        return checked

    return decorate


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


def log_of_probability(p: Array, rest: Array | None = None) -> Array:
    """The logarithm of a probability, with a derivative of zero where the probability is zero.

    Args:
      p: the probability.
      rest: one minus the probability, which has the digits that a ``p`` near 1 has lost.
    """
    impossible = gnp.equal(p, 0)
    value = gnp.where(impossible, -np.inf, lax.log(gnp.where(impossible, 1, p)))
    if rest is None:
        return value
    is_likely = rest < 0.5
    # A difference from 0 has no negative zero, which would be the logarithm of 1.
    return gnp.where(is_likely, lax.log1p(0 - gnp.where(is_likely, rest, 0)), value)


def zero_where(condition: Array, value: Array) -> Array:
    """The value without its rounding error where it is zero; the derivative is unchanged."""
    return value - lax.stop_gradient(gnp.where(condition, value, 0))


def log1m_exp_of_exp(z: Array) -> Array:
    """log(1 - exp(-exp(z))), also where exp(z) underflows."""
    is_low, is_high = z < -10, z > 0
    growth = lax.exp(gnp.where(is_low, z, -10))
    series = z - growth / 2 + growth * growth / 24
    # Near 1, the difference has lost the digits of the exponential.
    high = lax.log1p(-lax.exp(-lax.exp(gnp.where(is_high, z, 0))))
    middle = log_of_probability(-lax.expm1(-lax.exp(gnp.where(is_high, 0, z))))
    return gnp.where(is_low, series, gnp.where(is_high, high, middle))


def log1m_exp(y: Array) -> Array:
    """log(1 - exp(-y)) of numbers that are not negative."""
    # Each formula has lost digits where the other one has them.
    is_high = y > 1
    low = lax.log(-lax.expm1(-gnp.where(is_high, 1, y)))
    return gnp.where(is_high, lax.log1p(-lax.exp(-gnp.where(is_high, y, 1))), low)


def nan_unless(valid: Array, value: Array) -> Array:
    """The value where the parameters are valid, and nan elsewhere, as in SciPy."""
    return gnp.where(valid, value, np.nan)
