"""The parameter ``accuracy`` of transcendental functions."""

from __future__ import annotations

import enum
from typing import Any


class AccuracyMode(enum.Enum):
    """How accurate a transcendental function must be; both modes give the same result."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """The permitted error of a transcendental function; any setting gives the same result.

    Args:
      atol, rtol: absolute and relative error.
      ulps: error in units in the last place.
    Raises:
      ValueError: a tolerance is negative, or none is positive.
    """

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> None:
        if atol < 0 or rtol < 0 or ulps < 0:
            raise ValueError(
                f"Tolerances must be non-negative, got atol={atol}, rtol={rtol}, ulps={ulps}"
            )
        if not (atol or rtol or ulps):
            raise ValueError("At least one of atol, rtol, or ulps must be set, to more than zero")
        self.atol = atol
        self.rtol = rtol
        self.ulps = ulps

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


def check_accuracy(name: str, accuracy: Any) -> None:
    if accuracy is not None and not isinstance(accuracy, AccuracyMode | Tolerance):
        raise NotImplementedError(
            f"lax.{name}: accuracy must be None, a lax.AccuracyMode or a lax.Tolerance, "
            f"got {accuracy!r}"
        )
