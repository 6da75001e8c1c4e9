"""Tolerances: a number of units of the dtype, at a magnitude.

The unit of a dtype is the spacing of its numbers at one. The algorithm determines the number of
units by which a result may be off: half a unit for each rounding, so the length of a sum, or a
condition number. It also determines the magnitude: that of the element itself if elements are
computed independently, that of the largest element if they are computed together, and that of the
operands if these cancel.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import gnomon as gn
from gnomon.dialects.types import is_inexact

__all__ = ["assert_each_near", "assert_near", "judge", "unit", "units_of_differences", "units_off"]


def unit(dtype: Any) -> float:
    """The spacing of a dtype's numbers at one; zero for exact dtypes."""
    dtype = np.dtype(dtype)
    return float(ml_dtypes.finfo(dtype).eps) if is_inexact(dtype) else 0.0


def units_of_differences(step: float, dtype: Any = np.float64) -> float:
    """The error of central differences in units, if f and its derivatives are of size one.

    The error is the square of the step, plus the rounding error of f divided by the step.
    """
    return (step * step + unit(dtype) / step) / unit(dtype)


def units_off(actual: Any, expected: Any, scale: Any = 0.0, dtype: Any = None) -> np.ndarray:
    """The error of each element in units; infinite if the two differ and are not both finite.

    Elements of exact dtypes have an error of zero if they are equal, and of infinity otherwise.

    Args:
      actual: the result.
      expected: its reference, of the same shape.
      scale: the magnitude at which units are counted, if the element's own is smaller.
      dtype: the dtype of the units; by default, the coarser of both dtypes.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    dtypes = [actual.dtype, expected.dtype] if dtype is None else [np.dtype(dtype)]
    coarser = max(dtypes, key=unit)
    if not unit(coarser):
        return np.where(actual == expected, 0.0, np.inf)
    with np.errstate(all="ignore"):  # signalling nans
        a, e = _wide(actual), _wide(expected)
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        # Subnormal results may be flushed to zero.
        least = float(ml_dtypes.finfo(coarser).tiny) / unit(coarser)
        size = np.where(np.isfinite(e), np.abs(e), 0.0)
        off = np.abs(a - e) / (np.maximum(np.maximum(size, scale), least) * unit(coarser))
    off = np.where(np.isfinite(a) & np.isfinite(e), off, np.inf)
    return np.asarray(np.where(same, 0.0, off))


def judge(off: np.ndarray, units: float, actual: Any, expected: Any, message: str = "") -> None:
    """Raise ``AssertionError`` if an element is off by more than ``units``."""
    if not off.size or off.max() <= units:
        return
    worst = np.unravel_index(off.argmax(), off.shape)
    raise AssertionError(
        f"{message}{': ' if message else ''}off by {off.max():.4g} units (allowed: {units:g}) at "
        f"{tuple(map(int, worst))}: {np.asarray(actual)[worst]} instead of "
        f"{np.asarray(expected)[worst]}"
    )


def assert_near(
    actual: Any, expected: Any, units: float, scale: float = 0.0, message: str = ""
) -> None:
    """Compare arrays, or pytrees of them, whose elements are computed from each other.

    Args:
      actual: the result.
      expected: its reference, of the same shapes.
      units: the tolerance in units of the largest element.
      scale: the magnitude of the values from which the elements are computed, if that is larger.
      message: the beginning of the error message.
    """
    for a, e in _pairs(actual, expected):
        finite = np.abs(_wide(e)[np.isfinite(_wide(e))])
        judge(units_off(a, e, max(scale, finite.max(initial=0.0))), units, a, e, message)


def assert_each_near(
    actual: Any, expected: Any, units: float, scale: float = 0.0, message: str = ""
) -> None:
    """Compare arrays, or pytrees of them, whose elements are computed independently.

    Args:
      actual: the result.
      expected: its reference, of the same shapes.
      units: the tolerance of each element in units.
      scale: the magnitude at which units are counted, if the element's own is smaller: that of the
        operands near a zero of the function.
      message: the beginning of the error message.
    """
    for a, e in _pairs(actual, expected):
        judge(units_off(a, e, scale), units, a, e, message)


def _wide(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # signalling nans
        return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _pairs(actual: Any, expected: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    one = hasattr(actual, "shape")  # then lists are arrays, too
    ours = [np.asarray(leaf) for leaf in ([actual] if one else gn.tree.leaves(actual))]
    theirs = [np.asarray(leaf) for leaf in ([expected] if one else gn.tree.leaves(expected))]
    assert len(ours) == len(theirs), f"{len(ours)} arrays instead of {len(theirs)}"
    for a, e in zip(ours, theirs, strict=True):
        assert a.shape == e.shape, f"shape {a.shape} instead of {e.shape}"
    return list(zip(ours, theirs, strict=True))
