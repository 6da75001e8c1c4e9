"""The C functions that programs call; a program's file contains only those that it uses."""

from __future__ import annotations

import re

from gnomon.backends.standalone_c.complex_functions import ARITHMETIC, FACTORIZATIONS, FOURIER
from gnomon.backends.standalone_c.types import COMPLEX_TYPES

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

# If an operand is nan, so is the result.
_FLOAT = """\
GNOMON_INLINE T gnomon_max_T(T x, T y) { return x > y || x != x ? x : y; }
GNOMON_INLINE T gnomon_min_T(T x, T y) { return x < y || x != x ? x : y; }
GNOMON_INLINE T gnomon_sign_T(T x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
GNOMON_INLINE INT gnomon_order_T(T x) {
  INT bits;
  memcpy(&bits, &x, sizeof bits);
  return bits < 0 ? (INT)(bits ^ MAX) : bits;
}
"""

_SIGNED = """\
GNOMON_INLINE T gnomon_divide_T(T x, T y) {
  return y == 0 ? -1 : y == -1 ? (T)(0 - (U)x) : x / y;
}
GNOMON_INLINE T gnomon_remainder_T(T x, T y) { return y == 0 ? x : y == -1 ? 0 : x % y; }
GNOMON_INLINE T gnomon_power_T(T x, T y) {
  U result = 1, base = (U)x;
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  for (; y; y >>= 1, base *= base) if (y & 1) result *= base;
  return (T)result;
}
GNOMON_INLINE T gnomon_shift_left_T(T x, T y) {
  return y < 0 || y >= BITS ? 0 : (T)((U)x << y);
}
GNOMON_INLINE T gnomon_shift_right_logical_T(T x, T y) {
  return y < 0 || y >= BITS ? 0 : (T)((uT)x >> y);
}
GNOMON_INLINE T gnomon_shift_right_arithmetic_T(T x, T y) {
  return y < 0 || y >= BITS ? (x < 0 ? -1 : 0) : x >> y;
}
GNOMON_INLINE T gnomon_to_T(double x) {
  return x != x ? 0 : x >= HIGH ? MAX : x <= -HIGH ? MIN : (T)x;
}
"""

_UNSIGNED = """\
GNOMON_INLINE T gnomon_divide_T(T x, T y) { return y == 0 ? MAX : x / y; }
GNOMON_INLINE T gnomon_remainder_T(T x, T y) { return y == 0 ? x : x % y; }
GNOMON_INLINE T gnomon_power_T(T x, T y) {
  U result = 1, base = x;
  for (; y; y >>= 1, base *= base) if (y & 1) result *= base;
  return (T)result;
}
GNOMON_INLINE T gnomon_shift_left_T(T x, T y) { return y >= BITS ? 0 : (T)((U)x << y); }
GNOMON_INLINE T gnomon_shift_right_logical_T(T x, T y) { return y >= BITS ? 0 : (T)(x >> y); }
GNOMON_INLINE T gnomon_shift_right_arithmetic_T(T x, T y) {
  const sT number = (sT)x;
  return (T)(y >= BITS ? (number < 0 ? -1 : 0) : number >> y);
}
GNOMON_INLINE T gnomon_to_T(double x) { return x >= HIGH ? MAX : x > 0 ? (T)x : 0; }
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
GNOMON_INLINE uint64_t gnomon_reduce_bits(uint64_t bits, int width, int fraction, int exponent,
                                          int mantissa) {
  /* The type has 1 + own + fraction bits; exponent and mantissa are the bits to keep. */
  const uint64_t sign = bits & (1ULL << (width - 1));
  const uint64_t infinity = ((1ULL << (width - 1 - fraction)) - 1) << fraction;
  const int own = width - 1 - fraction, bias = (1 << (own - 1)) - 1;
  const int largest = exponent < own ? (1 << (exponent - 1)) - 1 : bias;
  uint64_t size = bits ^ sign;
  if (size > infinity) return bits;
  if (mantissa < fraction) {
    const int dropped = fraction - mantissa;
    size += (1ULL << (dropped - 1)) - 1 + ((size >> dropped) & 1);
    size = size >> dropped << dropped;
  }
  if (exponent < own && (int)(size >> fraction) > bias + largest) size = infinity;
  if (exponent < own && (int)(size >> fraction) <= bias - largest) size = 0;
  return sign | size;
}
GNOMON_INLINE float gnomon_reduce_precision_float(float x, int exponent, int mantissa) {
  const uint64_t bits = gnomon_bits_of_float(x);
  return gnomon_float_of_bits((uint32_t)gnomon_reduce_bits(bits, 32, 23, exponent, mantissa));
}
GNOMON_INLINE double gnomon_reduce_precision_double(double x, int exponent, int mantissa) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = gnomon_reduce_bits(bits, 64, 52, exponent, mantissa);
  memcpy(&x, &bits, sizeof bits);
  return x;
}
GNOMON_INLINE float gnomon_reduce_precision_bf16(float x, int exponent, int mantissa) {
  const uint64_t bits = gnomon_store_bf16(x);
  return gnomon_load_bf16((uint16_t)gnomon_reduce_bits(bits, 16, 7, exponent, mantissa));
}
GNOMON_INLINE float gnomon_reduce_precision_f16(float x, int exponent, int mantissa) {
  const uint64_t bits = gnomon_store_f16(x);
  return gnomon_load_f16((uint16_t)gnomon_reduce_bits(bits, 16, 10, exponent, mantissa));
}
GNOMON_INLINE float gnomon_round_bf16(float x) { return gnomon_load_bf16(gnomon_store_bf16(x)); }
GNOMON_INLINE float gnomon_round_f16(float x) { return gnomon_load_f16(gnomon_store_f16(x)); }
"""

# c += a b. a has m rows and k columns, with the strides `row` and `column`; b has k rows and n
# columns, and is contiguous. A block of four rows and sixteen columns of c is kept in registers,
# for a few terms of the sums: in a longer chain of additions f32 loses digits.
_MATMUL = """\
GNOMON_INLINE void gnomon_matmul_T(int64_t m, int64_t n, int64_t k, const T *a, int64_t row,
                                   int64_t column, const T *b, T *c) {
  enum { ROWS = 4, COLUMNS = 16, TERMS = 256 };
  for (int64_t j = 0; j < n; j += COLUMNS) {
    for (int64_t i = 0; i < m; i += ROWS) {
      if (i + ROWS <= m && j + COLUMNS <= n) {
        T *const to = c + i * n + j;
        const T *const from = a + i * row;
        for (int64_t start = 0; start < k; start += TERMS) {
          const int64_t stop = start + TERMS < k ? start + TERMS : k;
          T s0[COLUMNS] = {0}, s1[COLUMNS] = {0}, s2[COLUMNS] = {0}, s3[COLUMNS] = {0};
          for (int64_t p = start; p < stop; ++p) {
            const T *const x = from + p * column, *const y = b + p * n + j;
            const T x0 = x[0], x1 = x[row], x2 = x[2 * row], x3 = x[3 * row];
            for (int l = 0; l < COLUMNS; ++l) {
              s0[l] = FMA(x0, y[l], s0[l]);
              s1[l] = FMA(x1, y[l], s1[l]);
              s2[l] = FMA(x2, y[l], s2[l]);
              s3[l] = FMA(x3, y[l], s3[l]);
            }
          }
          for (int l = 0; l < COLUMNS; ++l) {
            to[l] = (T)(to[l] + (V)s0[l]);
            to[n + l] = (T)(to[n + l] + (V)s1[l]);
            to[2 * n + l] = (T)(to[2 * n + l] + (V)s2[l]);
            to[3 * n + l] = (T)(to[3 * n + l] + (V)s3[l]);
          }
        }
        continue;
      }
      const int64_t rows = m - i < ROWS ? m - i : ROWS;
      const int64_t columns = n - j < COLUMNS ? n - j : COLUMNS;
      for (int64_t r = 0; r < rows; ++r) {
        T *const to = c + (i + r) * n + j;
        for (int64_t start = 0; start < k; start += TERMS) {
          const int64_t stop = start + TERMS < k ? start + TERMS : k;
          T sums[COLUMNS] = {0};
          for (int64_t p = start; p < stop; ++p) {
            const T x = a[(i + r) * row + p * column];
            const T *const y = b + p * n + j;
            for (int64_t l = 0; l < columns; ++l) sums[l] = FMA(x, y[l], sums[l]);
          }
          for (int64_t l = 0; l < columns; ++l) to[l] = (T)(to[l] + (V)sums[l]);
        }
      }
    }
  }
}
"""

# Adds to c[i] the dot product of row i of b and the vector a. b has n rows and is contiguous.
_ROWS = """\
GNOMON_INLINE void gnomon_rows_T(int64_t n, int64_t k, const T *a, const T *b, T *c) {
  enum { LANES = 16 };
  for (int64_t i = 0; i < n; ++i) {
    T sums[LANES] = {0}, total = c[i];
    const T *const row = b + i * k;
    const int64_t whole = k / LANES * LANES;
    for (int64_t p = 0; p < whole; p += LANES)
      for (int l = 0; l < LANES; ++l) sums[l] = FMA(a[p + l], row[p + l], sums[l]);
    for (int64_t p = whole; p < k; ++p) total = FMA(a[p], row[p], total);
    for (int l = 0; l < LANES; ++l) total = (T)(total + (V)sums[l]);
    c[i] = total;
  }
}
"""

# The triangular factor of a symmetric matrix given by one triangle, or nan if it is not positive
# definite; the other triangle becomes 0.
_CHOLESKY = """\
GNOMON_INLINE void gnomon_cholesky_T(int64_t n, const T *a, T *to, bool lower) {
  const int64_t row = lower ? n : 1, column = lower ? 1 : n;
  memset(to, 0, (size_t)(n * n) * sizeof *to);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      T sum = a[i * row + j * column];
      for (int64_t k = 0; k < j; ++k)
        sum -= to[i * row + k * column] * to[j * row + k * column];
      if (i == j && !(sum > 0)) {
        for (int64_t r = 0; r < n; ++r)
          for (int64_t c = 0; c <= r; ++c) to[r * row + c * column] = NAN;
        return;
      }
      to[i * row + j * column] = i == j ? (T)sqrt(sum) : sum / to[j * row + j * column];
    }
  }
}
"""

# Overwrites x, which is m right-hand sides, with the solutions of a triangular system of n rows.
_SOLVE = """\
GNOMON_INLINE void gnomon_solve_T(int64_t n, int64_t m, const T *a, int64_t row, int64_t column,
                                  bool lower, bool unit, T *x, int64_t down, int64_t across) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = lower ? step : n - 1 - step;
    T *const to = x + i * down;
    for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) {
      const T factor = a[i * row + k * column];
      const T *const from = x + k * down;
      for (int64_t j = 0; j < m; ++j) to[j * across] -= factor * from[j * across];
    }
    if (unit) continue;
    const T pivot = a[i * row + i * column];
    for (int64_t j = 0; j < m; ++j) to[j * across] /= pivot;
  }
}
"""

_TEMPLATES = {"matmul": _MATMUL, "rows": _ROWS, "cholesky": _CHOLESKY, "solve": _SOLVE}

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


def _integers() -> list[str]:
    texts = []
    for bits in (8, 16, 32, 64):
        for sign, template in (("", _SIGNED), ("u", _UNSIGNED)):
            type_ = f"{sign}int{bits}_t"
            text = template.replace("(uT)", f"(uint{bits}_t)").replace("sT", f"int{bits}_t")
            names = {
                "T": type_,
                "U": f"uint{max(bits, 32)}_t",
                "BITS": str(bits),
                "MAX": f"{sign.upper()}INT{bits}_MAX",
                "MIN": f"INT{bits}_MIN",
                # 2^31 for i32: the first number that it does not hold.
                "HIGH": f"{float(2 ** (bits if sign else bits - 1))!r}",
            }
            texts.append(_replaced(text, names))
    return texts


def _wrapping(type_: str) -> str:
    """The type in which products of integers wrap."""
    bits = int(type_.strip("uint_"))
    return f"uint{max(bits, 32)}_t"


def _helper(name: str) -> str:
    """The text of a function that is made from a template, by its name."""
    kind, _, types = name.removeprefix("gnomon_").partition("_")
    if kind in _TEMPLATES:
        text = _TEMPLATES[kind]
        if types in ("float", "double"):
            return _replaced(text, {"T": types, "V": types, "FMA": f"GNOMON_FMA_{types}"})
        unsigned = _wrapping(types)
        text = re.sub(r"FMA\((.+?), (.+?), (.+?)\);", r"(T)((V)\3 + (V)\1 * \2);", text)
        return _replaced(text, {"T": types, "V": unsigned})
    source, target = re.fullmatch(r"(u?int\d+_t|float|double)_(.*)", types).groups()  # type: ignore[union-attr]
    return _replaced(_CONVERT_BITS, {"FROM": source, "TO": target})


def _functions() -> dict[str, str]:
    """Each function's text by its name."""
    floats = [
        _replaced(_FLOAT, {"T": t, "INT": f"int{b}_t", "MAX": f"INT{b}_MAX"})
        for t, b in (("float", 32), ("double", 64))
    ]
    functions = {}
    complex_numbers = [
        _replaced(text, {"T": t, "C": f"gnomon_complex_{t}", "ABS": f"fabs{suffix}"})
        for t, suffix in (("float", "f"), ("double", ""))
        for text in (ARITHMETIC, *FACTORIZATIONS, *(FOURIER if t == "double" else ()))
    ]
    for text in [_HALVES, *floats, *_integers(), _BITS, *complex_numbers]:
        for part in re.split(r"^(?=GNOMON_INLINE)", text, flags=re.MULTILINE):
            if part:
                name = re.search(r"(gnomon_\w+)\(", part)
                assert name is not None
                functions[name[1]] = part
    return functions


def prelude(code: str, helpers: set[str]) -> str:
    """The definitions that the code of a program needs, in order.

    Args:
      code: the code.
      helpers: the names of functions that are made from templates for given types.
    """
    functions = _functions() | {name: _helper(name) for name in sorted(helpers)}
    needed: set[str] = set()
    pending = code
    while pending:
        names = set(re.findall(r"gnomon_\w+(?=\()", pending)) & set(functions)
        pending = "\n".join(functions[name] for name in names - needed)
        needed |= names
    chosen = "".join(text for name, text in functions.items() if name in needed)
    types = [COMPLEX_TYPES] if "gnomon_complex_" in code + chosen else []
    return "\n".join([_HEAD, *types, chosen])
