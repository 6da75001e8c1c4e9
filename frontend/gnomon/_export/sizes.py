"""The values of the variables in an exported function's shapes, from the shapes of a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gnomon._arrays.aval import ShapedArray
from gnomon.dialects.symbolic import polynomials as poly
from gnomon.dialects.symbolic.bounds import LARGEST
from gnomon.dialects.symbolic.dimension import Dimension, SymbolicScope, exceeds, substituted
from gnomon.dialects.symbolic.solving import steps_for

__all__ = ["Sizes", "check_variables", "scope_of"]

# A symbolic size in the text of a program, and the names of variables (not functions) in it.
_SIZES = re.compile(r"gnomon\.dims? = (\[[^]]*\]|\"[^\"]*\")")
_VARIABLE = re.compile(r"\b(?!(?:floordiv|mod|max|min)\b)[A-Za-z_]\w*")


def _sizes(aval: ShapedArray) -> tuple[Any, ...]:
    return aval.shape


def scope_of(avals: Sequence[ShapedArray], what: str) -> SymbolicScope | None:
    """The common scope of the symbolic dimensions of types; None if there are none.

    Raises:
      ValueError: the dimensions have different scopes.
    """
    found: SymbolicScope | None = None
    for aval in avals:
        for size in _sizes(aval):
            if isinstance(size, Dimension):
                if found is not None and size.scope is not found:
                    raise ValueError(
                        f"Invalid mixing of symbolic scopes when exporting {what}: '{size}' "
                        f"belongs to {size.scope}, and another dimension to {found}. Create all "
                        "shapes with the same scope=, or with symbolic_args_specs"
                    )
                found = size.scope
    return found


def check_variables(text: str, known: frozenset[str], what: str) -> None:
    """Raise unless the variables in a program's text can be found from shapes.

    Raises:
      ValueError: a variable occurs in no shape of an argument.
    """
    used = {name for found in _SIZES.findall(text) for name in _VARIABLE.findall(found)}
    if missing := sorted(used - known):
        raise ValueError(
            f"Cannot solve for values of dimension variables {missing} of {what}: they do not "
            "occur in the shape of any argument. Pass the function an array of shape (0, "
            f"{missing[0]}) and read the size from it"
        )


class Sizes:
    """Solves for the values of the variables, given the shapes of a call.

    Args:
      avals: the types of the arguments.
      names: the names of the arguments in messages, such as ``args[0]``.
      what: the name of the function in messages.

    Raises:
      ValueError: a variable cannot be found from shapes, or scopes are mixed.
    """

    def __init__(self, avals: Sequence[ShapedArray], names: Sequence[str], what: str) -> None:
        self.scope = scope_of(avals, what)
        self._names = names
        self._avals = avals
        # (argument, axis, dimension) of each symbolic dimension.
        self._symbolic = [
            (i, axis, size.polynomial)
            for i, aval in enumerate(avals)
            for axis, size in enumerate(_sizes(aval))
            if isinstance(size, Dimension)
        ]
        self._steps, missing = steps_for([_sizes(aval) for aval in avals])
        if missing:
            raise ValueError(
                f"Cannot solve for values of dimension variables {sorted(missing)}: each needs a "
                "dimension of an argument that is linear in it, without other unknown variables. "
                f"{self._specifications()}"
            )
        self.variables = frozenset(step.variable for step in self._steps)

    def _specifications(self) -> str:
        listed = ", ".join(
            f"{name}.shape = ({', '.join(map(str, aval.shape))}{',' * (len(aval.shape) == 1)})"
            for name, aval in zip(self._names, self._avals, strict=True)
            if any(isinstance(n, Dimension) for n in _sizes(aval))
        )
        return f"The shapes were exported as {listed}"

    def _error(self, message: str, kind: str = "polymorphic shapes specification") -> ValueError:
        return ValueError(
            f"Input shapes do not match the {kind}. {message}. {self._specifications()}"
        )

    def __call__(self, shapes: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        """The value of each variable, given the shapes of the arguments, whose ranks must match.

        Raises:
          ValueError: no values fit the shapes, or the values violate a constraint.
        """
        values: dict[str, Any] = {}
        for step in self._steps:
            variable, i, axis, factor, rest = step
            left = shapes[i][axis] - substituted(rest, values)
            if left % factor != 0:
                raise self._error(
                    f"Division had remainder {left % factor} when computing the value of "
                    f"'{variable}' from {self._names[i]}.shape[{axis}] (= {shapes[i][axis]}), "
                    f"which is '{poly.text(step.dimension)}'"
                )
            values[variable] = left // factor
            if values[variable] < 1 or exceeds(values[variable], LARGEST):
                wanted = ">= 1" if values[variable] < 1 else f"<= {LARGEST}"
                raise self._error(
                    f"Expected value {wanted} for dimension variable '{variable}', got "
                    f"{values[variable]} from {self._names[i]}.shape[{axis}] (= {shapes[i][axis]})"
                )
        for i, axis, size in self._symbolic:
            expected = substituted(size, values)
            if expected != shapes[i][axis]:
                raise self._error(
                    f"Found inconsistency between dimension size {self._names[i]}.shape[{axis}] "
                    f"(= {shapes[i][axis]}) and the specification '{poly.text(size)}' "
                    f"(= {expected})"
                )
        if self.scope is not None:
            self._check_constraints(self.scope, values)
        return values

    def _check_constraints(self, scope: SymbolicScope, values: dict[str, Any]) -> None:
        for text, (relation, left, right) in zip(scope.constraints, scope.relations, strict=True):
            if not (poly.variables(left) | poly.variables(right)) <= values.keys():
                continue  # about variables in no argument
            one, other = substituted(left, values), substituted(right, values)
            holds = {"==": one == other}.get(relation)
            if holds is None:
                holds = one >= other if relation == ">=" else one <= other
            if not holds:
                raise self._error(
                    f"The left side of {text!r} is {one}, the right side {other}",
                    f"symbolic shape constraint {text}",
                )
