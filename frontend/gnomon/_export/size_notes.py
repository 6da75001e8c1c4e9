"""The note of an artifact's entry on the sizes of its arguments; see `gnomon_runtime.sizes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon._arrays.aval import ShapedArray
from gnomon.dialects.symbolic import polynomials as poly
from gnomon.dialects.symbolic.bounds import LARGEST
from gnomon.dialects.symbolic.dimension import Dimension
from gnomon.dialects.symbolic.solving import Step, steps_for

__all__ = ["size_notes"]


def size_notes(avals: Sequence[ShapedArray], arrays: Sequence[Dimension]) -> dict[str, Any]:
    """How the variables follow from the shapes of a call, and what calls check.

    Args:
      avals: the types of the arguments.
      arrays: the symbolic dimensions of the program's arrays, which have 32 bits.
    """
    shapes: list[tuple[Any, ...]] = [aval.shape for aval in avals]
    steps, _ = steps_for(shapes)
    checks: list[list[Any]] = []
    scope = None
    solved = {(step.argument, step.axis) for step in steps}
    for i, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            if not isinstance(size, Dimension):
                continue
            scope = size.scope
            if (i, axis) not in solved:
                # The dimension is read by a step of its own, under a name that no variable has.
                name = f"{i}.{axis}"
                steps.append(Step(name, i, axis, 1, poly.ZERO))
                text = f"the specification '{size}' of dimension {axis} of argument {i}"
                checks.append(["==", name, _expression(size.polynomial), text])
    assert scope is not None
    known = {step.variable for step in steps}
    for text, (relation, left, right) in zip(scope.constraints, scope.relations, strict=True):
        if poly.variables(left) | poly.variables(right) <= known:
            sides = _expression(left), _expression(right)
            checks.append([relation, *sides, f"the symbolic shape constraint {text}"])
    for size in arrays:
        if size.polynomial not in {poly.atom(name) for name in known}:
            text = f"the limit of 32 bits of the dimension {size} of an array"
            checks.append(["<=", _expression(size.polynomial), LARGEST, text])
    return {
        "steps": [[s.variable, s.argument, s.axis, s.factor, _expression(s.rest)] for s in steps],
        "checks": checks,
    }


def _expression(polynomial: poly.Polynomial) -> Any:
    total: Any = None
    for monomial, coefficient in polynomial:
        term: Any = coefficient
        for which, power in monomial:
            for _ in range(power):
                factor = which if isinstance(which, str) else _operation(which)
                term = factor if term == 1 else ["*", term, factor]
        total = term if total is None else ["+", total, term]
    return 0 if total is None else total


def _operation(which: poly.Operation) -> Any:
    return [which.kind, *map(_expression, which.arguments)]
