"""Steps along a line that satisfy the strong Wolfe conditions.

Definition: J. Nocedal, S. Wright, Numerical Optimization (2006), algorithms 3.5 and 3.6, merged
into one loop: steps grow until an interval that holds such a step is known, and then the interval
is narrowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax
from gnomon._arrays.array import Array

__all__ = ["Point", "Search", "dot", "line_search"]

# The conditions: the value must decrease by this fraction of the decrease that the slope at the
# start predicts, and the slope must be at most this fraction of the slope at the start. The numbers
# are the book's for quasi-Newton directions.
_DECREASE, _FLATTER = 1e-4, 0.9
# A step closer to an end of the interval than this fraction of its width is replaced by its middle.
_MARGIN = 0.1


class Point(NamedTuple):
    """A point of the line: its step, and the value, slope and gradient at the point."""

    step: Array
    value: Array
    slope: Array
    gradient: Array


class Search(NamedTuple):
    """The result of `line_search`.

    Attributes:
      point: the point of the step, or the start if no lower point was found.
      found: whether the step satisfies both conditions, or decreases the value by more than
        rounding errors.
      bracketed: whether an interval was found that holds a step that satisfies both conditions.
      evaluations: the number of evaluations of the function and its gradient.
    """

    point: Point
    found: Array
    bracketed: Array
    evaluations: Array


class _State(NamedTuple):
    """The loop's state: an interval from ``low``, the best point so far, to ``high``."""

    low: Point
    high: Point
    next_step: Array
    bracketed: Array
    done: Array
    evaluations: Array


def dot(a: Array, b: Array) -> Array:
    """The inner product of two vectors."""
    return gnp.dot(a, b, precision=lax.Precision.HIGHEST)


def line_search(
    value_and_gradient: Callable[[Array], tuple[Array, Array]],
    x: Array,
    direction: Array,
    value: Array,
    gradient: Array,
    first_step: Array,
    max_evaluations: Any,
) -> Search:
    """Find a step from ``x`` along a direction in which the function decreases."""
    start = Point(gnp.zeros_like(value), value, dot(gradient, direction), gradient)

    def at(step: Array) -> Point:
        found, slope = value_and_gradient(x + step * direction)
        return Point(step, found, dot(slope, direction), slope)

    def is_unfinished(state: _State) -> Array:
        return ~state.done & (state.evaluations < max_evaluations)

    def advance(state: _State) -> _State:
        return _advanced(state, at(state.next_step), start)

    first = _State(
        low=start,
        high=start,
        next_step=first_step,
        bracketed=gnp.array(False),
        done=gnp.array(False),
        evaluations=gnp.array(0),
    )
    last = lax.while_loop(is_unfinished, advance, first)
    # A step that is not flat enough is accepted if the decrease exceeds the rounding errors.
    lowered = value - last.low.value
    least = np.sqrt(np.finfo(value.dtype).eps) * gnp.maximum(abs(value), abs(last.low.value))
    return Search(last.low, last.done | (lowered > least), last.bracketed, last.evaluations)


def _advanced(state: _State, point: Point, start: Point) -> _State:
    """The state after the function has been evaluated at a point."""
    low = state.low
    promised = start.value + _DECREASE * point.step * start.slope
    # A value or slope that is not finite counts as too high, too.
    finite = gnp.isfinite(point.value) & gnp.isfinite(point.slope)
    lower = (point.value <= promised) & (gnp.equal(low.step, 0) | (point.value < low.value))
    too_high = ~(finite & lower)
    done = ~too_high & (gnp.abs(point.slope) <= -_FLATTER * start.slope)
    # Whether the function rises from the point to the end of the interval, or beyond it.
    end = gnp.where(state.bracketed, state.high.step - low.step, 1)
    rises = ~too_high & (point.slope * gnp.sign(end) >= 0)
    high = _chosen(too_high, point, _chosen(rises, low, state.high))
    bracketed = state.bracketed | too_high | rises
    new_low = _chosen(too_high, low, point)
    step = gnp.where(bracketed, _between(new_low, high), 2 * point.step)
    return _State(new_low, high, step, bracketed, done, state.evaluations + 1)


def _chosen(condition: Array, point: Point, other: Point) -> Point:
    return Point(*(gnp.where(condition, a, b) for a, b in zip(point, other, strict=True)))


def _between(low: Point, high: Point) -> Array:
    """The minimizer of the cubic through both ends, with their slopes (equation 3.59)."""
    width = high.step - low.step
    mean = low.slope + high.slope - 3 * (high.value - low.value) / width
    root = gnp.sqrt(mean * mean - low.slope * high.slope)
    root = gnp.where(width < 0, -root, root)
    part = 1 - (high.slope + root - mean) / (high.slope - low.slope + 2 * root)
    # The comparisons are false for a minimizer of nan, so the middle replaces it.
    inside = (part >= _MARGIN) & (part <= 1 - _MARGIN)
    return low.step + gnp.where(inside, part, np.array(0.5, part.dtype)) * width
