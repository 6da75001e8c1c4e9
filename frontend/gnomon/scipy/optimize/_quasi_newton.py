"""Minimization by gradients alone: BFGS, and BFGS with limited memory.

Definition: J. Nocedal, S. Wright, Numerical Optimization (2006), algorithms 6.1 and 7.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gnomon.numpy as gnp
from gnomon import lax
from gnomon._arrays.array import Array
from gnomon.scipy.optimize._line_search import dot, line_search

__all__ = ["CONVERGED", "Approximation", "Limits", "State", "full_matrix", "last_steps", "run"]

# The status of results, with JAX's numbers.
UNDEFINED, CONVERGED, OUT_OF_ITERATIONS, NO_STEP_IN_INTERVAL, NO_INTERVAL = -1, 0, 1, 3, 5

ValueAndGradient = Callable[[Array], tuple[Array, Array]]


class Approximation(NamedTuple):
    """A representation of the approximate inverse Hessian.

    Attributes:
      first: returns the initial approximation at a point.
      times: returns its product with a gradient.
      updated: updates it by the last step and the change of the gradient.
      matrix: returns the matrix itself, if it is stored.
    """

    first: Callable[[Array], Any]
    times: Callable[[Any, Array], Array]
    updated: Callable[[Any, Array, Array], Any]
    matrix: Callable[[Any], Array | None]


class Limits(NamedTuple):
    """When to stop.

    Attributes:
      gradient: stop when the norm of the gradient is below it.
      relative_decrease: stop when a step decreases the value by at most this fraction.
      norm: the order of the norm of gradients; see `numpy.linalg.norm`.
      iterations, evaluations, search: the maximum numbers of steps, of evaluations of the function,
        and of evaluations for one step.
    """

    gradient: Any
    relative_decrease: Any
    norm: Any
    iterations: Any
    evaluations: Any
    search: Any


class State(NamedTuple):
    """The state of a minimization."""

    iterations: Array
    x: Array
    value: Array
    gradient: Array
    previous_value: Array
    known: Any
    evaluations: Array
    status: Array


def run(
    value_and_gradient: ValueAndGradient, x: Array, approximation: Approximation, limits: Limits
) -> State:
    """Take steps until a limit is reached."""

    def is_flat(gradient: Array) -> Array:
        return gnp.linalg.norm(gradient, ord=limits.norm) < limits.gradient

    value, gradient = value_and_gradient(x)
    first = State(
        iterations=gnp.array(0),
        x=x,
        value=value,
        gradient=gradient,
        # The length of the first step is about one.
        previous_value=value + gnp.linalg.norm(gradient) / 2,
        known=approximation.first(x),
        evaluations=gnp.array(1),
        status=gnp.select(
            [is_flat(gradient), gnp.asarray(limits.iterations) < 1],
            [CONVERGED, OUT_OF_ITERATIONS],
            UNDEFINED,
        ),
    )

    def is_unfinished(state: State) -> Array:
        return gnp.equal(state.status, UNDEFINED)

    def advance(state: State) -> State:
        direction = -approximation.times(state.known, state.gradient)
        search = line_search(
            value_and_gradient,
            state.x,
            direction,
            state.value,
            state.gradient,
            _first_step(state, direction),
            limits.search,
        )
        point = search.point
        # Without a step, the direction may be infinite or nan, so that the product would be nan.
        step = gnp.where(point.step > 0, point.step * direction, 0)
        known = approximation.updated(state.known, step, point.gradient - state.gradient)
        lowered = state.value - point.value
        scale = gnp.maximum(gnp.abs(state.value), gnp.abs(point.value))
        converged = is_flat(point.gradient) | (
            search.found & (lowered <= limits.relative_decrease * gnp.maximum(scale, 1))
        )
        iterations = state.iterations + 1
        evaluations = state.evaluations + search.evaluations
        exhausted = (iterations >= limits.iterations) | (evaluations >= limits.evaluations)
        lost = gnp.where(search.bracketed, NO_STEP_IN_INTERVAL, NO_INTERVAL)
        status = gnp.select(
            [converged, ~search.found, exhausted], [CONVERGED, lost, OUT_OF_ITERATIONS], UNDEFINED
        )
        return State(
            iterations,
            state.x + step,
            point.value,
            point.gradient,
            state.value,
            known,
            evaluations,
            status.astype(state.status.dtype),
        )

    return lax.while_loop(is_unfinished, advance, first)


def _first_step(state: State, direction: Array) -> Array:
    """The step that decreases the value as much as the previous one (equation 3.60), at most 1."""
    slope = dot(state.gradient, direction)
    guess = 2.02 * (state.value - state.previous_value) / slope
    return gnp.where((guess > 0) & (guess < 1), guess, 1).astype(state.value.dtype)


# --------------------------------------------------------------------------------- the whole matrix


class _Matrix(NamedTuple):
    """The inverse Hessian; ``fresh`` until the first step determines its scale."""

    matrix: Array
    fresh: Array


def full_matrix() -> Approximation:
    """The inverse Hessian as a matrix: equations 6.17 and 6.20."""

    def first(x: Array) -> _Matrix:
        return _Matrix(gnp.eye(x.size, dtype=x.dtype), gnp.array(True))

    def product(matrix: Array, other: Array) -> Array:
        return gnp.dot(matrix, other, precision=lax.Precision.HIGHEST)

    def times(known: _Matrix, gradient: Array) -> Array:
        return product(known.matrix, gradient)

    def updated(known: _Matrix, step: Array, change: Array) -> _Matrix:
        curvature = dot(change, step)
        # If the function is steep, the identity would be far too large: the update by the step
        # would be lost to rounding.
        size = curvature / dot(change, change)
        matrix = gnp.where(known.fresh, size * known.matrix, known.matrix)
        # Keep the product and do not expand it: if the function is steep, the terms of the sum are
        # so much larger than the result that float32 does not have enough digits.
        projection = gnp.eye(step.size, dtype=step.dtype) - gnp.outer(step, change / curvature)
        new = product(projection, product(matrix, projection.T))
        new = new + gnp.outer(step, step / curvature)
        useful = curvature > 0
        return _Matrix(gnp.where(useful, new, known.matrix), known.fresh & ~useful)

    return Approximation(first, times, updated, lambda known: known.matrix)


# ----------------------------------------------------------------------------------- the last steps


class _Steps(NamedTuple):
    """The last steps and changes of the gradient, the latest one last.

    Attributes:
      steps, changes: ``(count, n)``.
      weights: one over the inner product of each pair; zero if there is none yet.
      scale: the factor of the identity in the first matrix.
    """

    steps: Array
    changes: Array
    weights: Array
    scale: Array


def last_steps(count: int) -> Approximation:
    """The inverse Hessian represented by the last steps: algorithm 7.4."""

    def first(x: Array) -> _Steps:
        none = gnp.zeros((count, x.size), x.dtype)
        return _Steps(none, none, gnp.zeros(count, x.dtype), gnp.ones((), x.dtype))

    def times(known: _Steps, gradient: Array) -> Array:
        def backward(rest: Array, each: Any) -> tuple[Array, Array]:
            step, change, weight = each
            part = weight * dot(step, rest)
            return rest - part * change, part

        def forward(found: Array, each: Any) -> tuple[Array, None]:
            (step, change, weight), part = each
            return found + (part - weight * dot(change, found)) * step, None

        pairs = known.steps, known.changes, known.weights
        rest, parts = lax.scan(backward, gradient, pairs, reverse=True)
        return lax.scan(forward, known.scale * rest, (pairs, parts))[0]

    def updated(known: _Steps, step: Array, change: Array) -> _Steps:
        curvature = dot(change, step)

        def pushed(rows: Array, row: Array) -> Array:
            return gnp.concatenate([rows[1:], row[None]])

        new = _Steps(
            pushed(known.steps, step),
            pushed(known.changes, change),
            pushed(known.weights, 1 / curvature),
            curvature / dot(change, change),
        )
        kept = [gnp.where(curvature > 0, a, b) for a, b in zip(new, known, strict=True)]
        return _Steps(*kept)

    return Approximation(first, times, updated, lambda known: None)
