"""Whether two results of one program agree, as closely as its arithmetic allows.

No fixed tolerance suits a random program, so the tolerance is measured: the program is evaluated
several times with each operation's result perturbed by its possible error, and the spread of an
element is its tolerance. An element that jumps (an index, a branch or a sign that depends on a
rounding, a cancellation of all digits) cannot be judged, and is counted as undecided.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.backends.reference import Arrays, Callee, Evaluator
from gnomon.dialects.body import results_of
from gnomon.dialects.contract import ENGINE, lookup
from gnomon.dialects.functions import TRANSFORMATIONS, Program
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, names_of
from gnomon.dialects.types import is_inexact, tensor_type
from gnomon.tools.fuzz.running import Outcome, evaluator_of


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _of_forms(*forms: Form) -> frozenset[str]:
    return frozenset(name.removeprefix("gnomon.") for name in names_of("gnomon", *forms))


# Ops without rounding.
EXACT = _names(
    "abs and all_gather all_to_all argmax argmin ceil clamp clz complex conj cummax cummin eq "
    "floor ge gt imag is_finite le lt max min ne neg nextafter not or pmax pmin ppermute real "
    "reduce_and reduce_max reduce_min reduce_or reduce_precision reduce_window_max "
    "reduce_window_min reduce_xor round scatter scatter_max scatter_min select sign stop_gradient "
    "window_argmax window_argmin xor"
) | _of_forms(
    *(Form.CREATION, Form.IDENTITY, Form.VIEW, Form.JOIN, Form.REINTERPRETATION, Form.INDEXING),
    *(Form.SORT, Form.STRUCTURE),
)
# Ops whose result may be a zero of either sign if their operands have both.
EXTREMA = _names(
    "clamp cummax cummin max min pmax pmin reduce_max reduce_min reduce_window_max "
    "reduce_window_min scatter_max scatter_min"
)
# Ops that may or may not begin with a 0, to which negative zeros are added.
SUMS = _names("cumsum reduce_sum reduce_window_sum")
# Ops whose result is rounded once: correctly, or nearly so.
ROUNDED = _names("add sub mul div sqrt square convert fma")
# Ops that combine many operand elements in each result: errors are relative to the largest.
NORMWISE = _of_forms(Form.CONTRACTION, Form.FOURIER, Form.MATRIX)

# Ops that tell whether operands are equal, which perturbed numbers hardly ever are.
EQUALITIES = _names("eq ne")

# The largest perturbation of an element of a result, in units in the last place.
UNITS = 2.0
# Numbers that differ by fewer units may be equal where they are rounded differently.
NEAR_UNITS = 256.0
# The number of evaluations that judge a result, and the number that must confirm a failure.
FEW, MANY = 3, 24
# Of a program that is slow to evaluate there are fewer: those that begin within these seconds.
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison.

    Attributes:
      failure: a description of the difference, or None.
      result: the index of the result that differs.
      compared: the number of results that were compared.
      undecided: the number of them without an element that can be judged.
    """

    failure: str | None = None
    result: int | None = None
    compared: int = 0
    undecided: int = 0


class DisturbedEvaluator(Evaluator):
    """An evaluator that perturbs the rounded results of each op by a few units in the last place.

    Args:
      program: the program.
      rng: the generator of the perturbations.
    """

    def __init__(self, program: Program, rng: np.random.Generator) -> None:
        super().__init__(program)
        self._rng = rng

    def step(self, op: ir.Operation) -> Callee:
        """One operation as a Python callable on arrays."""
        run = super().step(op)
        name = op.name.removeprefix("gnomon.")
        if name in EXTREMA:
            return lambda *operands: self._with_either_zero(run(*operands), operands)
        if name in EQUALITIES:
            return lambda x, y: run(x, self._perhaps_equal(x, y))
        if name in EXACT or op.name in TRANSFORMATIONS:
            return run
        definition = lookup(op)
        if definition.evaluate is ENGINE or definition.is_control_flow:
            return run
        types = [tensor_type(r.type) for r in results_of(op)]
        if not any(is_inexact(type_.dtype) for type_ in types):
            return run
        size = max(1, sum(math.prod(type_.shape) for type_ in types))
        moves_operands = name not in ROUNDED
        normwise = name in NORMWISE

        def disturbed(*operands: np.ndarray) -> Arrays:
            error = 1.0
            if moves_operands:
                length = max((o.size for o in operands), default=1)
                if name in SUMS:
                    # Roundings of equal terms have one sign, and add up in each level of a sum.
                    error = max(error, math.log2(max(1, length // size)) / 4)
                terms = 1.0 + 0.5 * np.sqrt(max(1.0, length / size))
                operands = tuple(self._moved(o, terms, normwise) for o in operands)
            results = [self._moved(r, error, normwise) for r in run(*operands)]
            if name not in SUMS:
                return results
            return self._with_either_zero(results, (*operands, np.zeros(1, np.float32)))

        return disturbed

    def _with_either_zero(self, results: Arrays, operands: Sequence[np.ndarray]) -> Arrays:
        """The results of an extremum; their zeros get random signs if those of operands differ."""
        signs = {bool(s) for x in operands if _is_real(x.dtype) for s in np.signbit(x[x == 0])}
        if len(signs) < 2:
            return results
        draws = [self._rng.choice([-1.0, 1.0], r.shape) for r in results]
        return [
            np.where(r == 0, np.copysign(0.0, draw), r).astype(r.dtype)
            for r, draw in zip(results, draws, strict=True)
        ]

    def _perhaps_equal(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """``y``, where elements that are nearly those of ``x`` are perhaps equal to them.

        Elements that are equal are left alone: they are probably exact.
        """
        if not is_inexact(x.dtype):
            return y
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        a, b = x.astype(wide), y.astype(wide)
        size = np.abs(a)
        largest = size[np.isfinite(size)].max(initial=0.0)
        bound = np.maximum(NEAR_UNITS * size, UNITS * largest) * float(ml_dtypes.finfo(x.dtype).eps)
        with np.errstate(invalid="ignore"):
            near = np.isfinite(a) & (np.abs(a - b) <= bound)
        return np.where(near & (self._rng.random(x.shape) < 0.5), x, y)

    def _moved(self, x: np.ndarray, units: float, normwise: bool) -> np.ndarray:
        if not is_inexact(x.dtype) or not x.size:
            return x
        info = ml_dtypes.finfo(x.dtype)
        eps, tiny = float(info.eps), float(info.tiny)
        if x.dtype.kind == "c":
            parts = x.view(x.real.dtype) if x.flags.c_contiguous and x.ndim else None
            if parts is None:
                real = self._moved(np.asarray(x.real), units, normwise)
                imag = self._moved(np.asarray(x.imag), units, normwise)
                return np.asarray(real + 1j * imag, x.dtype)
            # The errors of both the real and the imaginary part are relative to the modulus.
            size = np.repeat(np.abs(x), 2, axis=-1)
        else:
            parts, size = x, np.abs(x.astype(np.float64))
        if normwise:
            finite = size[np.isfinite(size)]
            size = np.maximum(size, 0.25 * finite.max(initial=0.0))
        draw = self._rng.uniform(-1.0, 1.0, parts.shape)
        wide = parts.astype(np.float64)
        moved = np.where(np.isfinite(wide), wide + draw * (UNITS * units * eps) * size, wide)
        flushed = (np.abs(moved) < tiny * (1 + 8 * eps)) & (draw > 0)
        moved = np.where(flushed, 0.0 * wide, moved)
        # The sign of a nan is not specified. Often all nans of an array have the same one.
        sign = draw if self._rng.random() < 0.5 else self._rng.choice([-1.0, 1.0])
        moved = np.where(np.isnan(wide), np.copysign(np.nan, sign), moved)
        out = np.asarray(moved.astype(parts.dtype))
        return out.view(x.dtype) if x.dtype.kind == "c" else out


def _is_real(dtype: np.dtype[Any]) -> bool:
    return is_inexact(dtype) and dtype.kind != "c"


class Judge:
    """Judges results of one program; the perturbed evaluations run only when they are needed.

    Args:
      program: a `gnomon.tools.fuzz.program.Program`.
      reference: the outcome of eager calls, around which the perturbed evaluations scatter.
    """

    def __init__(self, program: Any, reference: Outcome) -> None:
        self._program = program
        self._reference = reference
        self._samples: list[list[np.ndarray]] = []
        self._seconds = 0.0

    def _sampled(self, count: int) -> list[list[np.ndarray]]:
        """The results of the first `count` perturbed evaluations, or fewer if they take long."""
        while len(self._samples) < count and (
            len(self._samples) < FEW or self._seconds < PATIENCE_S
        ):
            start = time.perf_counter()
            rng = np.random.default_rng(len(self._samples))
            run = evaluator_of(self._program, functools.partial(DisturbedEvaluator, rng=rng))
            self._samples.append([np.asarray(v) for v in run()])
            self._seconds += time.perf_counter() - start
        return self._samples[:count]

    def compare(self, actual: Outcome, factor: float, *, weak: bool = True) -> Verdict:
        """Compare an outcome with the reference.

        Args:
          actual: the outcome of another way to run the program.
          factor: the tolerance, as a multiple of how far the perturbations moved an element.
          weak: whether weak types must agree.
        """
        expected = self._reference
        undecided = 0
        for i, (a, e) in enumerate(zip(actual.values, expected.values, strict=True)):
            given = (a.shape, a.dtype.name, actual.weak[i] if weak else None)
            wanted = (e.shape, e.dtype.name, expected.weak[i] if weak else None)
            if given != wanted:
                return Verdict(f"types: {given} instead of {wanted}", i)
            if same(a, e).all():
                continue
            for count in (FEW, MANY):
                allowed, judged = self._allowed(i, count, factor)
                off = distance(a, e)
                bad = ~same(a, e) & judged & ~(off <= allowed)
                if not bad.any():
                    undecided += not judged.any()
                    break
            else:
                at = np.unravel_index(int(np.argmax(np.where(bad, off, -1.0))), bad.shape)
                return Verdict(
                    f"values: {a[at]} instead of {e[at]} at {tuple(map(int, at))}, "
                    f"{int(bad.sum())} of {bad.size} wrong (allowed {allowed[at]:.3g})",
                    i,
                )
        return Verdict(None, None, len(expected.values), undecided)

    def _allowed(self, i: int, count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
        """The tolerance of each element of a result, and whether the element can be judged."""
        e = self._reference.values[i]
        samples = [s[i] for s in self._sampled(count)]
        if not is_inexact(e.dtype):
            steady = np.all([same(s, e) for s in samples], axis=0)
            return np.zeros(e.shape), np.asarray(steady)
        spread = np.max([np.where(same(s, e), 0.0, distance(s, e)) for s in samples], axis=0)
        info = ml_dtypes.finfo(e.dtype)
        size = np.abs(wide(e))
        floor = float(info.eps) * np.maximum(np.where(np.isfinite(size), size, 0.0), 0.0)
        allowed = factor * (spread + floor) + float(info.tiny)
        # An element that perturbations make nan or infinite, or finite again, cannot be judged.
        judged = np.isfinite(spread)
        return np.asarray(allowed), np.asarray(judged)


def wide(x: np.ndarray) -> np.ndarray:
    """A numeric array as float64 or complex128."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which elements are equal, where nans equal each other."""
    if not is_inexact(a.dtype):
        return np.asarray(a == b)
    with np.errstate(all="ignore"):
        a, b = wide(a), wide(b)
        return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The distance of elements; infinite if they differ and one of them is not finite."""
    with np.errstate(all="ignore"):
        if a.dtype.kind == "c":
            off = np.hypot(_distance(a.real, b.real), _distance(a.imag, b.imag))
        else:
            off = _distance(a, b)
    return np.asarray(off)


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    off = np.abs(a - b)
    off = np.where(np.isfinite(a) & np.isfinite(b), off, np.inf)
    return np.asarray(np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, off))


__all__ = ["DisturbedEvaluator", "Judge", "Verdict", "distance", "same"]
