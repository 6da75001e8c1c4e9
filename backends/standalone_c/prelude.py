"""The C functions that programs call; a program's file contains only those that it uses."""

from __future__ import annotations

import re

__all__ = ["prelude"]

_HEAD = """\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Rounding is part of the program: compilers must not fuse or reorder products and sums. */
#if defined(__FAST_MATH__)
#error "this program needs IEEE arithmetic: build it without -ffast-math"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

/* The iterations of the next loop do not depend on each other. */
#if defined(__clang__)
#define GNOMON_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define GNOMON_INDEPENDENT _Pragma("GCC ivdep")
#else
#define GNOMON_INDEPENDENT
#endif
/* x y + z in products of matrices, where either rounding will do. */
#ifdef FP_FAST_FMAF
#define GNOMON_FMA_float(x, y, z) fmaf(x, y, z)
#else
#define GNOMON_FMA_float(x, y, z) ((z) + (x) * (y))
#endif
#ifdef FP_FAST_FMA
#define GNOMON_FMA_double(x, y, z) fma(x, y, z)
#else
#define GNOMON_FMA_double(x, y, z) ((z) + (x) * (y))
#endif
#if defined(__GNUC__)
#define GNOMON_INLINE static inline __attribute__((unused))
#else
#define GNOMON_INLINE static inline
#endif
"""

# If an operand is nan, so is the result; of two zeros the positive one is larger. Equal numbers
# differ in the sign of a zero alone, so the signs are combined; without branches, compilers
# vectorize it.
_FLOAT = """\
GNOMON_INLINE T gnomon_max_T(T x, T y) {
  T larger = x > y ? x : y;
  I a, b;
  larger = x != x ? x : larger;
  memcpy(&a, &x, sizeof a);
  memcpy(&b, &larger, sizeof b);
  b &= a | -(I)(x != y);
  memcpy(&larger, &b, sizeof b);
  return larger;
}
GNOMON_INLINE T gnomon_min_T(T x, T y) {
  T smaller = x < y ? x : y;
  I a, b;
  smaller = x != x ? x : smaller;
  memcpy(&a, &x, sizeof a);
  memcpy(&b, &smaller, sizeof b);
  b |= a & -(I)(x == y);
  memcpy(&smaller, &b, sizeof b);
  return smaller;
}
"""

_BITS = """\
GNOMON_INLINE int gnomon_count_ones(uint64_t x) {
  int count = 0;
  for (; x; x &= x - 1) ++count;
  return count;
}
GNOMON_INLINE int gnomon_leading_zeros(uint64_t x, int bits) {
  int count = bits;
  for (; x; x >>= 1) --count;
  return count;
}
"""

_HALVES = """\
GNOMON_INLINE float gnomon_float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
GNOMON_INLINE uint32_t gnomon_bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
GNOMON_INLINE float gnomon_load_bf16(uint16_t x) { return gnomon_float_of_bits((uint32_t)x << 16); }
GNOMON_INLINE uint16_t gnomon_store_bf16(float x) {
  const uint32_t bits = gnomon_bits_of_float(x);
  if (x != x) return (uint16_t)((bits >> 16) | 64);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
GNOMON_INLINE float gnomon_load_f16(uint16_t x) {
  const uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = (x >> 10) & 31;
  const uint32_t fraction = x & 1023;
  if (exponent == 31) return gnomon_float_of_bits(sign | 0x7f800000 | (fraction << 13));
  if (exponent) return gnomon_float_of_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
  return (sign ? -1.0f : 1.0f) * (float)fraction * 5.9604644775390625e-8f;
}
GNOMON_INLINE uint16_t gnomon_store_f16(float x) {
  const uint32_t bits = gnomon_bits_of_float(x), sign = (bits >> 16) & 0x8000;
  const uint32_t size = bits & 0x7fffffff;
  if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (size < 0x38800000) {
    /* Subnormal: a multiple of 2^-24, rounded by the addition of a large number. */
    const float shifted = gnomon_float_of_bits(size) + 0.5f;
    return (uint16_t)(sign | (gnomon_bits_of_float(shifted) - 0x3f000000));
  }
  return (uint16_t)(sign | ((size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13));
}
"""

_CONVERT_BITS = """\
GNOMON_INLINE TO gnomon_bits_FROM_TO(FROM x) {
  TO y;
  memcpy(&y, &x, sizeof y);
  return y;
}
"""


def _replaced(text: str, names: dict[str, str]) -> str:
    pattern = re.compile(r"(?<![A-Za-z0-9])(" + "|".join(names) + r")(?![A-Za-z0-9])")
    return pattern.sub(lambda match: names[match[1]], text)


def _functions() -> dict[str, str]:
    """Each function's text by its name."""
    floats = [
        _replaced(_FLOAT, {"T": t, "I": f"uint{bits}_t"})
        for t, bits in (("float", 32), ("double", 64))
    ]
    bits = [
        _replaced(_CONVERT_BITS, {"FROM": source, "TO": target})
        for pair in (("float", "int32_t"), ("double", "int64_t"))
        for source, target in (pair, pair[::-1])
    ]
    functions = {}
    for text in [_HALVES, *floats, *bits, _BITS]:
        for part in re.split(r"^(?=GNOMON_INLINE)", text, flags=re.MULTILINE):
            if part:
                name = re.search(r"(gnomon_\w+)\(", part)
                assert name is not None
                functions[name[1]] = part
    return functions


def prelude(code: str) -> str:
    """The definitions that the code of a program needs, in order."""
    functions = _functions()
    needed: set[str] = set()
    pending = code
    while pending:
        names = set(re.findall(r"gnomon_\w+(?=\()", pending)) & set(functions)
        pending = "\n".join(functions[name] for name in names - needed)
        needed |= names
    chosen = "".join(text for name, text in functions.items() if name in needed)
    return "\n".join([_HEAD, chosen])
