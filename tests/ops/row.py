"""The op table's row: one use of an op, from which every check of that op is derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Sampler = Callable[[np.random.Generator, tuple[int, ...], np.dtype], np.ndarray]


@dataclass(frozen=True)
class Operand:
    """How to draw one operand.

    Attributes:
      shape: its shape.
      low, high: bounds of the uniform draw (floating and complex parts), or of the integers drawn.
      dtype: fixed dtype (indices, predicates), or ``None``: the dtype under test.
      values: edge values mixed in by the evaluation and compilation checks (not by derivatives).
      draw: a sampler for operands that should not be drawn uniformly.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    dtype: Any = None
    values: tuple[float, ...] = ()
    draw: Sampler | None = None


@dataclass(frozen=True)
class Row:
    """One row of the op table.

    Attributes:
      op: the op's name in the registry, without ``gnomon.``.
      operands: how to draw the operands.
      params: the op's parameters (a callable gets the dtype under test and returns them).
      reference: the same function in plain NumPy or JAX, independent of the op's own evaluation;
        gets the NumPy operands only.
      dtypes: names of the dtypes under test (``"f32 f64 bf16 i32 u8 c64 bool"`` split at blanks).
      differentiable: positions of the operands with respect to which to differentiate; empty if
        the verdict is that there is no derivative.
      ulps: accuracy of the op in units of the dtype's epsilon, relative to the result's scale.
      label: tells rows of one op apart.
      bodies: for region ops, a function that builds the bodies for a dtype.
      around: surrounds the op with others, if its operands must have a property, or if only a
        function of its results is determined. It gets the op, as a function from SSA values to a
        list of them, and the values of the operands; it returns the results.
    """

    op: str
    operands: tuple[Operand, ...]
    reference: Callable[..., Any]
    params: dict[str, Any] | Callable[[np.dtype], dict[str, Any]] = field(default_factory=dict)
    dtypes: str = "f32"
    differentiable: tuple[int, ...] = ()
    ulps: float = 4.0
    label: str = ""
    bodies: Callable[[np.dtype], tuple[Any, ...]] | None = None
    around: Callable[..., Sequence[Any]] | None = None

    @property
    def id(self) -> str:
        """The row's name in test reports."""
        return f"{self.op}-{self.label}" if self.label else self.op
