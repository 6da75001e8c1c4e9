"""The largest errors of a function: eager, compiled, and those of another library beside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.tools.accuracy.bounds import Function
from gnomon.tools.accuracy.exact import EXACT, reference
from gnomon.tools.accuracy.samples import numbers, pairs

__all__ = ["Error", "Points", "errors", "points", "worst"]


@dataclass(frozen=True)
class Points:
    """Operands with the exact values, also of the operands without their subnormal numbers."""

    operands: list[np.ndarray]
    exact: list[np.ndarray]
    flushed: list[np.ndarray]


@dataclass(frozen=True)
class Error:
    """The largest error in units in the last place, and the operands that have it."""

    units: float
    at: tuple[float, ...]
    found: float = 0.0
    exact: float = 0.0


def points(function: Function, dtype: np.dtype, count: int, seed: int = 0) -> Points:
    """What a function is measured at in a format."""
    if function.pairs:
        operands = pairs(dtype, count, function.pairs, seed)
    else:
        operands = [numbers(dtype, count, function.intervals, function.near, seed)]
    exact = EXACT[function.exact_name]
    found = reference(exact, operands, dtype)
    flushed = [part.copy() for part in found]
    tiny = float(ml_dtypes.finfo(dtype).tiny)
    with np.errstate(invalid="ignore"):
        small = [np.abs(o.astype(np.float64)) < tiny for o in operands]
    somewhere = np.logical_or.reduce(small)
    if somewhere.any():
        zeroed = [
            np.where(s, np.copysign(0.0, o.astype(np.float64)), o.astype(np.float64))[somewhere]
            for s, o in zip(small, operands, strict=True)
        ]
        for part, value in zip(flushed, reference(exact, zeroed, dtype), strict=True):
            part[somewhere] = value
    return Points(operands, found, flushed)


def _units(found: np.ndarray, exact: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    info = ml_dtypes.finfo(dtype)
    high, low = exact
    largest = float(info.max)
    beyond = 2.0 ** (int(info.maxexp) - 64)
    with np.errstate(all="ignore"):
        same = (found == high) & (low == 0) | (np.isnan(found) & np.isnan(high))
        same |= np.isinf(found) & (np.abs(high) > largest) & (found * high > 0)
        down = 2.0**-64
        # Infinity is the number after the largest one.
        f = np.where(np.isinf(found), np.copysign(beyond, found), found * down)
        h = np.where(np.abs(high) > largest, np.copysign(beyond, high), high * down)
        exponent = np.maximum(np.frexp(np.abs(high))[1] - 1, int(info.minexp))
        exponent = np.where(np.isfinite(high), np.minimum(exponent, info.maxexp - 1), 0)
        step = np.ldexp(float(info.eps), exponent - 64)
        step = np.where(exponent < -900, np.ldexp(float(info.eps), exponent), step)
        tiny = exponent < -900
        f, h = np.where(tiny, found, f), np.where(tiny, high, h)
        rest = np.where(tiny, low, low * down)
        off = np.abs((f - h) - rest) / step
    off = np.where(np.isnan(found) != np.isnan(high), np.inf, off)
    return np.where(same, 0.0, off)


def errors(
    results: np.ndarray, given: Points, dtype: np.dtype, flushes: bool = False
) -> np.ndarray:
    """By how many units in the last place each result is off.

    Args:
        results: of the function, in the format.
        given: the operands and the exact values.
        dtype: the format.
        flushes: whether subnormal numbers may count as zeros, as operands and as results.
    """
    with np.errstate(invalid="ignore"):
        found = np.asarray(results).astype(np.float64)
    off = _units(found, given.exact, dtype)
    if not flushes:
        return off
    tiny = float(ml_dtypes.finfo(dtype).tiny)
    for exact in (given.exact, given.flushed):
        off = np.minimum(off, _units(found, exact, dtype))
        with np.errstate(invalid="ignore"):
            off = np.where((found == 0) & (np.abs(exact[0]) <= tiny), 0.0, off)
    return off


def worst(off: np.ndarray, results: np.ndarray, given: Points) -> Error:
    """The largest of the errors."""
    i = int(np.argmax(off))
    at = tuple(float(o[i]) for o in given.operands)
    return Error(float(off[i]), at, float(results[i]), float(given.exact[0][i]))


def largest_error(
    call: Callable[..., Any], given: Points, dtype: np.dtype, flushes: bool = False
) -> Error:
    """The largest error of a function on arrays."""
    results = np.asarray(call(*given.operands))
    assert results.dtype == dtype, f"{results.dtype} instead of {dtype}"
    return worst(errors(results, given, dtype, flushes), results, given)
