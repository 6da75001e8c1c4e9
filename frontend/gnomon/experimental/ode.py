"""Initial value problems of ordinary differential equations, with derivatives by the adjoint.

The method is the Runge-Kutta pair of orders 5 and 4 of Dormand and Prince, with a step size that
adapts to the estimated error, and Shampine's interpolation of fourth order between steps (Dormand
and Prince 1980, Shampine 1986; Hairer, Norsett and Wanner, *Solving Ordinary Differential Equations
I*, sections II.4 to II.6).

Derivatives come from the adjoint equation, which is solved backwards from one time to the time
before it, together with the solution itself (Chen et al. 2018). So memory does not grow with the
number of steps.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon import lax, tree_util
from gnomon import numpy as gnp
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import float0
from gnomon._tracing.bind import as_operand
from gnomon._transformations.custom_vjp import closure_convert, custom_vjp
from gnomon._transformations.differentiate import vjp
from gnomon._transformations.vmap import vmap
from gnomon.dialects.types import is_complex, is_inexact
from gnomon.flatten_util import ravel_pytree

__all__ = ["odeint"]

# The slopes of stage i + 1 are taken at `_TIMES[i]`, after a step with the weights `_STAGES[i]`.
_TIMES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
# The last stage is the solution of order 5; these are the weights of the one of order 4.
_FOURTH = (5179 / 57600, 0.0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40)
_ERROR = tuple(a - b for a, b in zip((*_STAGES[-1], 0.0), _FOURTH, strict=True))
# The weights of the solution in the middle of a step.
_MIDDLE = (
    6025192743 / 60171106304, 0.0, 51252292925 / 130801643196, -2691868925 / 90256659456,
    187940372067 / 3189068634112, -1776094331 / 39487288512, 11237099 / 470086768,
)  # fmt: skip

_SAFETY, _MIN_FACTOR, _MAX_FACTOR = 0.9, 0.2, 10.0

# Maps the solution, the time and the arguments of the function to the derivative.
_Slope = Callable[[Array, Array, list[Any]], Array]


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
) -> Any:
    """Solve ``dy/dt = func(y, t, *args)`` with ``y(t[0]) = y0``.

    Reverse-mode derivatives exist with respect to ``y0``, ``t``, ``args``, and what ``func`` closes
    over. Forward-mode derivatives do not.

    Args:
      func: maps ``(y, t, *args)`` to the derivative of ``y``, which has its structure and shapes.
        Real numbers and vectors may have another structure: ``[a, b]`` is a vector of two.
      y0: a pytree of arrays.
      t: increasing times, of shape ``(n,)``; the first one is that of ``y0``.
      args: pytrees of arrays.
      rtol, atol: the tolerances of the error of a step, relative to ``y`` and absolute.
      mxstep: the largest number of steps from one time to the next.
      hmax: the largest step.
    Returns:
      The solution at the times ``t``, a pytree like ``y0`` whose arrays have shape ``(n, ...)``. It
      is nan at a time that is not reached: after ``mxstep`` steps, or where the solution diverges.
    Raises:
      TypeError: ``t`` is not real, or the derivative of a real array is complex.
      ValueError: ``t`` is not of rank 1 or has no elements, or the derivative has other shapes.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon.experimental.ode import odeint
      >>> decay = odeint(lambda y, t, rate: -rate * y, 1.0, gnp.array([0.0, 1.0]), 2.0)
      >>> print(decay.round(4))
      [1.     0.1353]
    """
    times = as_operand(t)
    if is_complex(times.dtype):
        raise TypeError(f"odeint: t must be real numbers, got dtype {times.dtype}")
    if times.ndim != 1 or times.shape[0] == 0:
        raise ValueError(f"odeint: t must be an array of shape (n,), got shape {times.shape}")
    if not is_inexact(times.dtype):
        times = times.astype(gnp.result_type(float))
    start, unravel = _ravel(y0)
    avals = [as_operand(leaf).aval for leaf in tree_util.tree_leaves(y0)]
    shapes = [aval.shape for aval in avals]

    def slope(y: Array, time: Array, *args: Any) -> Array:
        found = [as_operand(leaf) for leaf in tree_util.tree_leaves(func(unravel(y), time, *args))]
        if [x.shape for x in found] != shapes and not _same_vector(found, avals):
            raise ValueError(
                "odeint: func must return a pytree like y0, whose arrays have the shapes "
                f"{shapes}; got the shapes {[x.shape for x in found]}"
            )
        if len(found) != len(avals):
            return _ravel(found)[0].astype(y.dtype)
        for i, aval in enumerate(avals):
            if is_complex(aval.dtype):
                found[i] = found[i].astype(aval.dtype)
            elif is_complex(found[i].dtype):
                raise TypeError("odeint: func returned complex numbers for a real array of y0")
        return _ravel(found)[0].astype(y.dtype)

    arguments = tree_util.tree_map(as_operand, args)
    converted, captured = closure_convert(slope, start, times[0], *arguments)
    leaves, tree = tree_util.tree_flatten((*arguments, *captured))
    parts, joined = _real_parts(leaves)

    def real_slope(y: Array, time: Array, parts: list[Any]) -> Array:
        return converted(y, time, *tree_util.tree_unflatten(tree, joined(parts)))

    limits = _Limits(float(rtol), float(atol), float(mxstep), float(hmax))
    return vmap(unravel)(_solution(real_slope, limits, start, times, parts))


def _real_parts(leaves: list[Any]) -> tuple[list[Any], Callable[[list[Any]], list[Any]]]:
    """Arrays as real ones, and the function that makes arrays of such parts again."""
    parts, which = [], []
    for leaf in leaves:
        x = as_operand(leaf)
        which.append(is_complex(x.dtype))
        parts += [gnp.real(x), gnp.imag(x)] if which[-1] else [x]

    def joined(parts: list[Any]) -> list[Any]:
        rest = iter(parts)
        return [lax.complex(next(rest), next(rest)) if two else next(rest) for two in which]

    return parts, joined


def _same_vector(xs: Sequence[Any], ys: Sequence[Any]) -> bool:
    """Whether real numbers and vectors in two trees are the same vector in a row."""
    return all(x.ndim <= 1 and not is_complex(x.dtype) for x in (*xs, *ys)) and (
        sum(x.size for x in xs) == sum(y.size for y in ys)
    )


def _ravel(tree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """A tree as a vector of real numbers, and the inverse."""
    leaves, structure = tree_util.tree_flatten(tree)
    arrays = [as_operand(leaf) for leaf in leaves]
    floats = [x if is_inexact(x.dtype) else x.astype(gnp.result_type(float)) for x in arrays]
    parts, joined = _real_parts(floats)
    flat, unravel = ravel_pytree(parts)
    return flat, lambda x: tree_util.tree_unflatten(structure, joined(unravel(x)))


# ------------------------------------------------------------------------------------------ solving


class _Limits(NamedTuple):
    """The options of `odeint`."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float


class _State(NamedTuple):
    """The solution after a step, and what the next step needs.

    Attributes:
      y, slope, time: the solution at the end of the last step, its derivative, and the time.
      dt: the size of the next step.
      before: the time at which the last step began.
      polynomial: the coefficients of the solution in that step, from the fourth power on.
    """

    y: Array
    slope: Array
    time: Array
    dt: Array
    before: Array
    polynomial: Array


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def _solution(slope: _Slope, limits: _Limits, y0: Array, times: Array, args: list[Any]) -> Array:
    """The solution at each time, as rows of a matrix."""

    def f(y: Array, time: Array) -> Array:
        return slope(y, time, args)

    first = f(y0, times[0])
    dt = gnp.clip(_first_step(f, limits, y0, times[0], first), 0.0, limits.hmax)
    constant = gnp.zeros((5, *y0.shape), y0.dtype).at[4].set(y0)
    start = _State(y0, first, times[0], dt.astype(times.dtype), times[0], constant)

    def unfinished(carry: tuple[_State, Array], target: Array) -> Array:
        state, count = carry
        # A step that is too small to change the time, or no number, ends the loop.
        moves = state.time + state.dt > state.time
        return (state.time < target) & moves & (count < limits.mxstep)

    def advance(state: _State, target: Array) -> tuple[_State, Array]:
        state, _ = lax.while_loop(
            lambda carry: unfinished(carry, target),
            lambda carry: (_step(f, limits, carry[0]), carry[1] + 1),
            (state, gnp.asarray(0)),
        )
        length = state.time - state.before
        place = (target - state.before) / gnp.where(length == 0, 1, length)
        y = gnp.polyval(state.polynomial, place.astype(y0.dtype))
        return state, gnp.where(state.time >= target, y, gnp.nan)

    _, ys = lax.scan(advance, start, times[1:])
    return gnp.concatenate([y0[None], ys])


def _step(f: Callable[[Array, Array], Array], limits: _Limits, state: _State) -> _State:
    """The state after an attempt of a step: if it is rejected, only the step size differs."""
    y0, dt = state.y, state.dt.astype(state.y.dtype)
    slopes = [state.slope]
    for c, weights in zip(_TIMES, _STAGES, strict=True):
        at = y0 + dt * _weighted(weights, slopes)
        slopes.append(f(at, state.time + c * state.dt))
    # The weights of the last stage are those of the solution.
    y1, middle = at, y0 + dt * _weighted(_MIDDLE, slopes)
    ratio = _error_ratio(dt * _weighted(_ERROR, slopes), limits, y0, y1)
    factor = gnp.where(ratio == 0, _MAX_FACTOR, _SAFETY * ratio ** (-1 / 5))
    # A step that was accepted is not followed by a smaller one.
    factor = gnp.clip(factor, gnp.where(ratio < 1, 1.0, _MIN_FACTOR), _MAX_FACTOR)
    size = gnp.clip(state.dt * factor.astype(state.dt.dtype), 0.0, limits.hmax)
    taken = _State(
        y1,
        slopes[-1],
        state.time + state.dt,
        size,
        state.time,
        _quartic(y0, y1, middle, dt * slopes[0], dt * slopes[-1]),
    )
    accepted = ratio <= 1
    return tree_util.tree_map(
        lambda new, old: gnp.where(accepted, new, old), taken, state._replace(dt=size)
    )


def _weighted(weights: tuple[float, ...], slopes: list[Array]) -> Array:
    terms = [w * k for w, k in zip(weights, slopes, strict=True) if w]
    return functools.reduce(operator.add, terms)


def _quartic(y0: Array, y1: Array, middle: Array, d0: Array, d1: Array) -> Array:
    """The polynomial on [0, 1] with given values at 0, 1/2 and 1, and derivatives at 0 and 1."""
    return gnp.stack(
        [
            -2 * d0 + 2 * d1 - 8 * y0 - 8 * y1 + 16 * middle,
            5 * d0 - 3 * d1 + 18 * y0 + 14 * y1 - 32 * middle,
            -4 * d0 + d1 - 11 * y0 - 5 * y1 + 16 * middle,
            d0,
            y0,
        ]
    )


def _error_ratio(error: Array, limits: _Limits, y0: Array, y1: Array) -> Array:
    """The error of a step over the tolerance, as the root of the mean square."""
    allowed = limits.atol + limits.rtol * gnp.maximum(gnp.abs(y0), gnp.abs(y1))
    return _norm(error / allowed)


def _norm(x: Array) -> Array:
    return gnp.sqrt(gnp.mean(x * x)) if x.size else gnp.zeros((), x.dtype)


def _first_step(
    f: Callable[[Array, Array], Array], limits: _Limits, y0: Array, time: Array, slope: Array
) -> Array:
    """The size of the first step (Hairer, Norsett and Wanner, section II.4)."""
    scale = limits.atol + limits.rtol * gnp.abs(y0)
    size, speed = _norm(y0 / scale), _norm(slope / scale)
    guess = gnp.where((size < 1e-5) | (speed < 1e-5), 1e-6, 0.01 * size / speed)
    moved = f(y0 + guess.astype(y0.dtype) * slope, time + guess.astype(time.dtype))
    bend = _norm((moved - slope) / scale) / guess
    most = gnp.maximum(speed, bend)
    step = gnp.where(most <= 1e-15, gnp.maximum(1e-6, guess * 1e-3), (0.01 / most) ** (1 / 5))
    return gnp.minimum(100 * guess, step)


# ------------------------------------------------------------------------------------------ adjoint


def _forward(slope: _Slope, limits: _Limits, y0: Array, times: Array, args: list[Any]) -> Any:
    ys = _solution(slope, limits, y0, times, args)
    return ys, (ys, times, args)


def _backward(slope: _Slope, limits: _Limits, residuals: Any, cotangents: Array) -> Any:
    ys, times, args = residuals
    floats = [i for i, x in enumerate(args) if is_inexact(x.dtype)]
    given = [args[i] for i in floats]

    def of_floats(y: Array, time: Array, *floats_: Any) -> Array:
        filled = list(args)
        for i, x in zip(floats, floats_, strict=True):
            filled[i] = x
        return slope(y, time, filled)

    # The state of the adjoint: the solution, its cotangent, and those of the time and of the args.
    zeros = (gnp.zeros_like(times[0]), *(gnp.zeros_like(x) for x in given))
    _, unravel = ravel_pytree((ys[0], ys[0], *zeros))

    def adjoint_slope(state: Array, reversed_time: Array, given: list[Any]) -> Array:
        y, bar, *_ = unravel(state)
        found, pull_back = vjp(of_floats, y, -reversed_time, *given)
        return ravel_pytree((-found, *pull_back(bar)))[0].astype(state.dtype)

    def back(carry: Any, at: Any) -> Any:
        bar, *sums = carry
        y, time, before, cotangent, slope_bar = at
        sums[0] = sums[0] - slope_bar
        state, _ = ravel_pytree((y, bar, *sums))
        ends = gnp.stack([-time, -before])
        _, bar, *sums = unravel(_solution(adjoint_slope, limits, state, ends, given)[1])
        return (bar + cotangent, *sums), slope_bar

    slopes = vmap(lambda y, time: slope(y, time, args))(ys, times)
    by_time = gnp.sum(slopes * cotangents, axis=1).astype(times.dtype)
    rows = (ys[1:], times[1:], times[:-1], cotangents[:-1], by_time[1:])
    (bar, time_bar, *arg_bars), later = lax.scan(back, (cotangents[-1], *zeros), rows, reverse=True)
    found: list[Any] = [np.zeros(x.shape, float0) for x in args]
    for i, value in zip(floats, arg_bars, strict=True):
        found[i] = value
    return bar, gnp.concatenate([time_bar[None], later]), found


_solution.defvjp(_forward, _backward)
