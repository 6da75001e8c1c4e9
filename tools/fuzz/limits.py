"""Singular points: what JAX's results tend to where its value differs from gnomon's.

A formula for a derivative often multiplies 0 by an infinity at the ends of a domain, where the
derivative has a limit. So JAX's value there is no proof. Its values nearby are: gnomon's value is
right if JAX's results, wherever the arguments move to, approach it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np

from gnomon.tools.fuzz.program import Array, Program, with_arrays
from gnomon.tools.fuzz.running import Outcome

# The step, in units of the square root of the dtype's relative precision.
_STEP = 0.125


def neighbours(program: Program) -> Iterator[Program]:
    """The program with arguments that are a little off; infinite ones are large instead."""
    for factor in (1, -1):
        for zero in (1, -1):

            def near(array: Array, factor: int = factor, zero: int = zero) -> Array:
                if "float" not in array.dtype:
                    return array
                step = _STEP * _resolution(np.dtype(array.dtype))
                ordinary = f"numpy.where(x == 0, {zero * step!r}, x * {1 + factor * step!r})"
                large = f"numpy.copysign({step**-1.5!r}, x)"
                moved = f"numpy.where(numpy.isinf(x), {large}, {ordinary})"
                return replace(array, step=f"(lambda x: {moved})({array.step or 'x'})")

            yield with_arrays(program, near)


def _resolution(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).eps) ** 0.5


def with_limits(expected: Outcome, theirs: Outcome, nearby: list[Outcome]) -> Outcome:
    """JAX's outcome, with the expected elements where they are the limits of JAX's nearby.

    An element is a limit if all values nearby approach it or are nan, and at least one is not.

    Args:
      expected: gnomon's outcome.
      theirs: JAX's.
      nearby: JAX's outcomes for the `neighbours` of the program.
    """
    values = []
    for i, (ours, other) in enumerate(zip(expected.values, theirs.values, strict=True)):
        if ours.dtype.kind in "iub" or ours.shape != other.shape:
            values.append(other)
            continue
        found = [outcome.values[i] for outcome in nearby]
        absent = [np.isnan(x) for x in found]
        ways = [a | _approaches(x, ours) for x, a in zip(found, absent, strict=True)]
        limit = np.all(ways, axis=0) & ~np.all(absent, axis=0)
        values.append(np.asarray(np.where(limit, ours, other)).astype(other.dtype))
    return replace(theirs, values=tuple(values))


def _approaches(x: np.ndarray, limit: np.ndarray) -> np.ndarray:
    wide = np.complex128 if limit.dtype.kind == "c" else np.float64
    kind = limit.real.dtype if limit.dtype.kind == "c" else limit.dtype
    small = _resolution(kind)
    with np.errstate(all="ignore"):
        x, limit = x.astype(wide), limit.astype(wide)
        close = np.abs(x - limit) <= small * np.maximum(np.abs(limit), 1)
        pole = x * np.sign(limit) >= 1 / small if wide is np.float64 else False
        return np.asarray(np.where(np.isfinite(limit), close, np.isinf(limit) & pole))


__all__ = ["neighbours", "with_limits"]
