"""The largest errors of a function: evaluated, compiled, or legalized for other targets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import gnomon as gn
import gnomon.scipy.special
from gnomon.backends.iree.pipeline import legalize
from gnomon.backends.iree.targets import find_target
from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon.tools.accuracy.bounds import Function
from gnomon.tools.accuracy.exact import COMPLEX, EXACT, complex_reference, reference
from gnomon.tools.accuracy.samples import complex_numbers, numbers, pairs

__all__ = ["Error", "Points", "call_of", "errors", "largest_error", "named", "points"]

# A target with the legalization of each way that is evaluated, not compiled.
_TARGETS = {"no f64": "vulkan", "no library": "aarch64-linux"}


@dataclass(frozen=True)
class Points:
    """Operands with the exact values for them, and for them with subnormals flushed to zero."""

    operands: list[np.ndarray]
    exact: list[np.ndarray]
    flushed: list[np.ndarray]


@dataclass(frozen=True)
class Error:
    """The largest error in units in the last place, and the operands at which it occurs."""

    units: float
    at: tuple[complex, ...]
    found: complex = 0.0
    exact: complex = 0.0


def points(function: Function, dtype: np.dtype, count: int, seed: int = 0) -> Points:
    """The sample points of a function in a format; fewer in f64, where exact values are costly."""
    if function.is_complex:
        return _complex_points(function, dtype, count // 10, seed)
    if dtype.itemsize == 8 or (dtype.itemsize == 4 and EXACT[function.exact_name].few):
        count //= 10
    if function.costly:
        count //= 4
    if function.pairs:
        operands = pairs(dtype, count, function.pairs, seed)
    else:
        near = [center.real for center in function.near]
        operands = [numbers(dtype, count, function.intervals, near, seed)]
    exact = EXACT[function.exact_name]
    found = reference(exact, operands, dtype)
    flushed = [part.copy() for part in found]
    tiny = float(ml_dtypes.finfo(dtype).tiny)
    with np.errstate(invalid="ignore"):
        small = [np.abs(o.astype(np.float64)) < tiny for o in operands]
    somewhere = np.logical_or.reduce(small)
    if somewhere.any():
        with np.errstate(invalid="ignore"):
            wide = [o.astype(np.float64) for o in operands]
        zeroed = [
            np.where(s, np.copysign(0.0, o), o)[somewhere] for s, o in zip(small, wide, strict=True)
        ]
        for part, value in zip(flushed, reference(exact, zeroed, dtype), strict=True):
            part[somewhere] = value
    return Points(operands, found, flushed)


def _complex_points(function: Function, dtype: np.dtype, count: int, seed: int) -> Points:
    operands = [
        complex_numbers(dtype, count, function.near, seed + i)
        for i in range(2 if function.pairs else 1)
    ]
    found = complex_reference(COMPLEX[function.exact_name], operands)
    # Results out of range, or subnormal, have separate tests.
    info = ml_dtypes.finfo(np.empty(0, dtype).real.dtype)
    size = np.abs(found[0])
    ordinary = (size < float(info.max) / 4) & (size > float(info.tiny) / float(info.eps))
    operands = [operand[ordinary] for operand in operands]
    found = [part[ordinary] for part in found]
    return Points(operands, found, found)


def _units(
    found: np.ndarray, exact: list[np.ndarray], dtype: np.dtype, scale: Any = 0.0
) -> np.ndarray:
    info = ml_dtypes.finfo(dtype)
    high, low = exact
    largest = float(info.max)
    beyond = 2.0 ** (int(info.maxexp) - 64)
    with np.errstate(all="ignore"):
        same = (found == high) & (low == 0) | (np.isnan(found) & np.isnan(high))
        same |= np.isinf(found) & (np.abs(high) > largest) & (found * high > 0)
        down = 2.0**-64
        # Infinity counts as the number after the largest one.
        f = np.where(np.isinf(found), np.copysign(beyond, found), found * down)
        h = np.where(np.abs(high) > largest, np.copysign(beyond, high), high * down)
        size = np.maximum(np.abs(high), np.minimum(scale, largest))
        exponent = np.maximum(np.frexp(size)[1] - 1, int(info.minexp))
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
    results: np.ndarray,
    given: Points,
    dtype: np.dtype,
    *,
    flushes: bool = False,
    scale: str = "",
) -> np.ndarray:
    """The error of each result in units in the last place.

    Args:
      results: the results of the function, in the format.
      given: the operands and the exact values.
      dtype: the format.
      flushes: whether subnormal numbers may count as zeros, as operands and as results.
      scale: see `Function`.
    """
    if dtype.kind == "c":
        return _complex_errors(results, given, dtype, flushes)
    least: Any = 0.0
    with np.errstate(invalid="ignore"):
        found = np.asarray(results).astype(np.float64)
        if scale == "operands":
            sizes = [np.abs(o.astype(np.float64)) for o in given.operands]
            least = np.maximum.reduce([np.where(np.isfinite(s), s, 0.0) for s in sizes])
        elif scale == "one below zero":
            least = np.where(given.operands[0] < 0, 1.0, 0.0)
    off = _units(found, given.exact, dtype, least)
    # Check the sign of a zero that is the result at zero.
    of_zero = (given.operands[0] == 0) & (given.exact[0] == 0) & (found == 0)
    lost = of_zero & (np.signbit(found) != np.signbit(given.exact[0]))
    if not flushes:
        return np.where(lost, np.inf, off)
    tiny = float(ml_dtypes.finfo(dtype).tiny)
    for exact in (given.exact, given.flushed):
        off = np.minimum(off, _units(found, exact, dtype, least))
        with np.errstate(invalid="ignore"):
            # A value that rounds to the smallest normal number may be subnormal before rounding.
            off = np.where((found == 0) & (np.abs(exact[0]) <= tiny), 0.0, off)
    return np.where(lost, np.inf, off)


def _complex_errors(
    results: np.ndarray, given: Points, dtype: np.dtype, flushes: bool
) -> np.ndarray:
    """The larger error of the two parts, in units of the absolute value."""
    real = np.empty(0, dtype).real.dtype
    tiny = float(ml_dtypes.finfo(real).tiny)
    size = np.abs(given.exact[0])
    parts = []
    for part in (np.real, np.imag):
        found, exact = part(results).astype(np.float64), [part(e) for e in given.exact]
        off = _units(found, exact, real, size)
        if flushes:
            off = np.where((found == 0) & (np.abs(exact[0]) <= tiny), 0.0, off)
        parts.append(off)
    return np.maximum(*parts)


def named(root: Any, name: str) -> Callable[..., Any]:
    """A function of a package by its qualified name."""
    found: Callable[..., Any] = functools.reduce(getattr, name.split("."), root)
    return found


def call_of(function: Function, way: str, given: Points) -> Callable[..., np.ndarray]:
    """The function on NumPy arrays, computed in one of the ways of `WAYS`."""
    call = named(gn, function.name)
    if way == "eager":
        return lambda *x: np.asarray(call(*map(gn.numpy.asarray, x)))
    compiled = gn.jit(call)
    if way == "cpu":
        return lambda *x: np.asarray(compiled(*x))
    text = compiled.lower(*given.operands).as_text("gnomon")
    module = ir.Module.parse(text, context())
    legalize(module, find_target(_TARGETS[way]))
    evaluator = Evaluator(Program(module))
    return lambda *x: evaluator("main", *x)[0]


def largest_error(
    call: Callable[..., Any],
    given: Points,
    dtype: np.dtype,
    *,
    flushes: bool = False,
    scale: str = "",
) -> Error:
    """The largest error of a function on arrays."""
    with np.errstate(all="ignore"):
        results = np.asarray(call(*given.operands))
    assert results.dtype == dtype, f"{results.dtype} instead of {dtype}"
    off = errors(results, given, dtype, flushes=flushes, scale=scale)
    i = int(np.argmax(off))
    number = complex if dtype.kind == "c" else float
    at = tuple(number(o[i]) for o in given.operands)
    return Error(float(off[i]), at, number(results[i]), number(given.exact[0][i]))
