"""Functions of distributions at and beyond the ends of their supports and of their parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gnomon import numpy as gnp
from gnomon._arrays.array import Array


def on_support(
    function: Callable[[Array], Array],
    z: Array,
    ends: tuple[float, float],
    beyond: tuple[float, float],
    within: float,
) -> Array:
    """A function between two ends; beyond them constants, whose derivatives are zero.

    Clipping alone would not do: a derivative that is infinite at an end, times zero, is nan.

    Args:
      function: elementwise.
      z: where it is looked at; nan stays nan.
      ends: of the support; they belong to it.
      beyond: the values below and above.
      within: a place inside the support, where the function is harmless.
    """
    low, high = z < ends[0], z > ends[1]
    value = function(gnp.where(low | high, within, z))
    return gnp.where(low, beyond[0], gnp.where(high, beyond[1], value))


def nan_unless(valid: Array, value: Array) -> Array:
    """A value where the parameters are valid, nan elsewhere; as in SciPy."""
    return gnp.where(valid, value, np.nan)
