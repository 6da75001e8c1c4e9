"""Sample points: over the whole range of a format, and where functions lose digits.

Every exponent of the format has some points, and exponents near zero have many. The intervals of a
function have more, and around zeros, poles and ends of intervals the neighbouring numbers are
included. Formats of 16 bits are sampled completely.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import ml_dtypes
import numpy as np

__all__ = ["PAIRS", "complex_numbers", "multiples", "numbers", "pairs"]

# The range of exponents of 2 in which most programs compute.
_USUAL = (-14, 8)


def multiples(unit: float, count: int = 64) -> tuple[float, ...]:
    """Multiples of a number: the first few, and multiples by powers of 2."""
    return tuple(k * unit for k in range(1, count)) + tuple(unit * 2.0**k for k in range(7, 60))


def _word(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")


def _from_parts(
    dtype: np.dtype, exponents: np.ndarray, rng: np.random.Generator, signs: bool = True
) -> np.ndarray:
    """Numbers with given stored exponents and random mantissas and signs."""
    info = np.finfo(dtype)
    word = _word(dtype)
    mantissa = rng.integers(0, 1 << info.nmant, exponents.size, dtype=word)
    sign = rng.integers(0, 2 if signs else 1, exponents.size, dtype=word)
    bits = (exponents.astype(word) << word.type(info.nmant)) | mantissa
    bits |= sign << word.type(info.bits - 1)
    return bits.view(dtype)


def _neighbours(dtype: np.dtype, centers: Iterable[float]) -> np.ndarray:
    """Centers of both signs, and numbers up to 2**12 steps away from them."""
    with np.errstate(over="ignore"):
        bits = np.array(list(centers), np.float64).astype(dtype).view(f"i{dtype.itemsize}")
    steps = [0, *(s * k for k in (1, 2, 3, 5, 16, 100, 4096) for s in (-1, 1))]
    moved = (bits[:, None] + np.array(steps, bits.dtype)).reshape(-1).view(dtype)
    return np.concatenate([moved, -moved])


def _edges(dtype: np.dtype) -> np.ndarray:
    info = np.finfo(dtype)
    ends = (0.0, float(info.smallest_subnormal), float(info.tiny), float(info.max), 1.0, np.inf)
    return np.array([*ends, *(-e for e in ends), np.nan], dtype)


def numbers(
    dtype: np.dtype,
    count: int,
    intervals: Sequence[tuple[float, float]] = (),
    near: Sequence[float] = (),
    seed: int = 0,
) -> np.ndarray:
    """Numbers of a format, somewhat more than ``count``; all numbers of a 16-bit format.

    Args:
      dtype: the format.
      count: two fifths of this number of points are spread over all exponents, and two fifths over
        those in which most programs compute.
      intervals: the intervals of interest, which get half as many points as ``count``.
      near: centers whose neighbours are added, with both signs.
      seed: the seed of the generator.
    """
    if dtype.itemsize == 2:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    bias = info.maxexp - 1
    everywhere = np.resize(np.arange(2 * bias + 1), 2 * count // 5)
    usual = rng.integers(bias + _USUAL[0], bias + _USUAL[1], 2 * count // 5)
    parts = [_edges(dtype), _from_parts(dtype, np.concatenate([everywhere, usual]), rng)]
    for low, high in intervals:
        size = max(count // (2 * len(intervals)), 1)
        parts.append(rng.uniform(low, high, size).astype(dtype))
    if near:
        parts.append(_neighbours(dtype, near))
    with np.errstate(invalid="ignore"):
        return np.concatenate(parts)


# ----------------------------------------------------------------------------------------- complex


def complex_numbers(
    dtype: np.dtype, count: int, near: Sequence[complex] = (), seed: int = 0
) -> np.ndarray:
    """About ``count`` complex numbers, a third of them near centers.

    Args:
      dtype: complex64 or complex128.
      count: the number of points.
      near: centers; the distances from them are spread over magnitudes from 1 to 2**-40.
      seed: the seed of the generator.
    """
    rng = np.random.default_rng(seed)
    third = count // 3
    size = np.exp2(rng.uniform(-20, 6, third)) * np.exp(2j * np.pi * rng.uniform(size=third))
    parts = rng.uniform(-8, 8, third) + 1j * rng.uniform(-8, 8, third)
    angle = np.exp(2j * np.pi * rng.uniform(size=third))
    centers = np.resize(np.array(near or (0,), complex), third)
    around = centers + np.exp2(rng.uniform(-40, 0, third)) * angle
    return np.concatenate([size, parts, around]).astype(dtype)


# ------------------------------------------------------------------------------------------- pairs


def _logarithmic(
    rng: np.random.Generator, low: float, high: float, count: int, signs: bool = True
) -> np.ndarray:
    """Numbers between two powers of 2 with a uniformly distributed logarithm."""
    sign = rng.choice([-1.0, 1.0], count) if signs else 1.0
    return np.asarray(sign * np.exp2(rng.uniform(low, high, count)))


def _range(dtype: np.dtype) -> tuple[float, float]:
    info = ml_dtypes.finfo(dtype)
    return math.log2(float(info.tiny)), math.log2(float(info.max))


def _anywhere(dtype: np.dtype, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Pairs: a third over the whole range, a third of similar size, a third of usual size."""
    third = count // 3
    low, high = _range(dtype)
    x = np.concatenate([_logarithmic(rng, low, high, 2 * third), _logarithmic(rng, *_USUAL, third)])
    like = x[third : 2 * third] * _logarithmic(rng, -12, 12, third)
    y = np.concatenate(
        [_logarithmic(rng, low, high, third), like, _logarithmic(rng, *_USUAL, third)]
    )
    return [x, y]


def _powers(dtype: np.dtype, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Pairs whose power is in range: any base, bases near 1, integer exponents."""
    low, high = _range(dtype)
    quarter = count // 4
    x = np.concatenate(
        [
            _logarithmic(rng, low, high, quarter, signs=False),
            1 + _logarithmic(rng, -20, -1, quarter),
            _logarithmic(rng, *_USUAL, quarter),
            _logarithmic(rng, -3, 3, quarter, signs=False),
        ]
    ).astype(dtype)
    target = rng.uniform(low, high, count)[: x.size]
    with np.errstate(all="ignore"):
        y = target / np.log2(np.abs(x.astype(np.float64)))
    y[2 * quarter : 3 * quarter] = rng.integers(-40, 40, quarter)
    y[3 * quarter :] = rng.integers(-8, 8, quarter) / 2
    return [x, y]


def _log_sums(dtype: np.dtype, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Pairs of all sizes with small and large differences, and pairs with a sum near 1."""
    half = count // 2
    x = _logarithmic(rng, *_USUAL, half)
    share = rng.uniform(1e-6, 1 - 1e-6, half)
    y = np.concatenate([x + _logarithmic(rng, -10, 7, half), np.log1p(-share)])
    return [np.concatenate([x, np.log(share)]), y]


def _zeta(dtype: np.dtype, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Exponents from one to about 11, whose terms are normal numbers, and positive shifts."""
    return [
        1 + _logarithmic(rng, -6, 3.4, count, signs=False),
        _logarithmic(rng, -4, 8, count, signs=False),
    ]


def _polygamma(dtype: np.dtype, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Small orders and positive arguments."""
    return [
        rng.integers(1, 6, count).astype(np.float64),
        _logarithmic(rng, -3, 8, count, signs=False),
    ]


def _gamma(dtype: np.dtype, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Shapes with arguments within a few standard deviations, or of similar size; small shapes."""
    third = count // 3
    shape = _logarithmic(rng, -4, 12, 2 * third, signs=False)
    around = shape[:third] + 3 * np.sqrt(shape[:third]) * rng.standard_normal(third)
    like = shape[third:] * _logarithmic(rng, -2, 1, third, signs=False)
    small = _logarithmic(rng, -14, 0, third, signs=False)
    argument = _logarithmic(rng, -8, 3, third, signs=False)
    return [
        np.concatenate([shape, small]),
        np.concatenate([np.abs(around), like, argument]),
    ]


def _beta(dtype: np.dtype, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Two shapes, and arguments within a few standard deviations of the mean or anywhere."""
    half = count // 2
    a, b = (_logarithmic(rng, -3, 11, 2 * half, signs=False) for _ in range(2))
    mean = a[:half] / (a[:half] + b[:half])
    spread = np.sqrt(mean * (1 - mean) / (a[:half] + b[:half] + 1))
    around = np.clip(mean + 2 * spread * rng.standard_normal(half), 0.01, 0.99)
    return [a, b, np.concatenate([around, rng.uniform(0.01, 0.99, half)])]


PAIRS = {
    "anywhere": _anywhere,
    "powers": _powers,
    "log sums": _log_sums,
    "zeta": _zeta,
    "polygamma": _polygamma,
    "gamma": _gamma,
    "beta": _beta,
}
# The kinds for functions that have no values outside a domain; edge cases have separate tests.
_WITHIN_A_DOMAIN = ("zeta", "polygamma", "gamma", "beta")


def pairs(dtype: np.dtype, count: int, kind: str, seed: int = 0) -> list[np.ndarray]:
    """About ``count`` pairs or triples of a kind, and all pairs of some edge cases.

    There are no edge cases for functions that have no values outside a domain.
    """
    rng = np.random.default_rng(seed)
    made = PAIRS[kind](dtype, rng, count)
    if kind in _WITHIN_A_DOMAIN:
        return [operand.astype(dtype) for operand in made]
    edges = np.array([0.0, 1.0, 2.5, 3.0, np.inf, -0.0, -1.0, -2.5, -3.0, -np.inf, np.nan])
    grids = np.meshgrid(edges, edges)
    with np.errstate(all="ignore"):
        return [
            np.concatenate([found.astype(dtype), grid.reshape(-1).astype(dtype)])
            for found, grid in zip(made, grids, strict=True)
        ]
