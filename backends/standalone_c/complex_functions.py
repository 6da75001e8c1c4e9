"""C functions on complex numbers, and for Fourier transforms."""

from __future__ import annotations

__all__ = ["ARITHMETIC", "FACTORIZATIONS", "FOURIER", "LONGEST_RADIX"]

# The largest factor of a length that `gnomon_fft` takes; see `fourier`.
LONGEST_RADIX = 128

# Products are those of NumPy, and quotients those of R. L. Smith (Algorithm 116, 1962).
ARITHMETIC = """\
GNOMON_INLINE C gnomon_complex_of_T(T re, T im) {
  const C z = {re, im};
  return z;
}
GNOMON_INLINE C gnomon_complex_add_T(C x, C y) {
  return gnomon_complex_of_T(x.re + y.re, x.im + y.im);
}
GNOMON_INLINE C gnomon_complex_subtract_T(C x, C y) {
  return gnomon_complex_of_T(x.re - y.re, x.im - y.im);
}
GNOMON_INLINE C gnomon_complex_multiply_T(C x, C y) {
  return gnomon_complex_of_T(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
}
GNOMON_INLINE C gnomon_complex_divide_T(C x, C y) {
  if (y.re == 0 && y.im == 0) return gnomon_complex_of_T(x.re / ABS(y.re), x.im / ABS(y.re));
  if (ABS(y.re) >= ABS(y.im)) {
    const T ratio = y.im / y.re, below = y.re + y.im * ratio;
    return gnomon_complex_of_T((x.re + x.im * ratio) / below, (x.im - x.re * ratio) / below);
  }
  const T ratio = y.re / y.im, below = y.re * ratio + y.im;
  return gnomon_complex_of_T((x.re * ratio + x.im) / below, (x.im * ratio - x.re) / below);
}
GNOMON_INLINE C gnomon_complex_conjugate_T(C x) { return gnomon_complex_of_T(x.re, -x.im); }
GNOMON_INLINE C gnomon_complex_swap_T(C x) { return gnomon_complex_of_T(x.im, x.re); }
"""

_ROOT = """\
GNOMON_INLINE C gnomon_root(int64_t i, int shift, const double *low, const double *high) {
  const double *const a = low + 2 * (i & ((1 << shift) - 1)), *const b = high + 2 * (i >> shift);
  return gnomon_complex_of_T(a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]);
}
"""

# The transform of n numbers x, by the factors of n; a 0 ends the list of factors. roots[i] is the
# n-th root of unity to the power i. x and y are both overwritten; one of them is the result. After
# each factor, x[k m + j] is coefficient k of the transform of the elements j, j + m, j + 2 m, ...
_FFT = """\
GNOMON_INLINE C *gnomon_fft(int64_t n, const int *factors, const C *roots, C *x, C *y) {
  for (int64_t l = 1; *factors; l *= *factors++) {
    const int64_t p = *factors, m = n / (l * p), step = l * m;
    for (int64_t k = 0; k < l; ++k) {
      const C *const from = x + k * m * p;
      C *const to = y + k * m;
      if (p == 4) {
        const C w1 = roots[m * k], w2 = roots[2 * m * k], w3 = roots[3 * m * k];
        GNOMON_INDEPENDENT
        for (int64_t j = 0; j < m; ++j) {
          const C a = from[j], b = gnomon_complex_multiply_T(from[m + j], w1);
          const C c = gnomon_complex_multiply_T(from[2 * m + j], w2);
          const C d = gnomon_complex_multiply_T(from[3 * m + j], w3);
          const C s = gnomon_complex_add_T(a, c), t = gnomon_complex_subtract_T(a, c);
          const C u = gnomon_complex_add_T(b, d), v = gnomon_complex_subtract_T(b, d);
          to[j] = gnomon_complex_add_T(s, u);
          to[step + j] = gnomon_complex_of_T(t.re + v.im, t.im - v.re);
          to[2 * step + j] = gnomon_complex_subtract_T(s, u);
          to[3 * step + j] = gnomon_complex_of_T(t.re - v.im, t.im + v.re);
        }
      } else if (p == 2) {
        const C w = roots[m * k];
        GNOMON_INDEPENDENT
        for (int64_t j = 0; j < m; ++j) {
          const C a = from[j], b = gnomon_complex_multiply_T(from[m + j], w);
          to[j] = gnomon_complex_add_T(a, b);
          to[step + j] = gnomon_complex_subtract_T(a, b);
        }
      } else if (p == 3) {
        const C w1 = roots[m * k], w2 = roots[2 * m * k];
        const T sine = (T)0.86602540378443864676;
        GNOMON_INDEPENDENT
        for (int64_t j = 0; j < m; ++j) {
          const C a = from[j], b = gnomon_complex_multiply_T(from[m + j], w1);
          const C c = gnomon_complex_multiply_T(from[2 * m + j], w2);
          const C s = gnomon_complex_add_T(b, c), d = gnomon_complex_subtract_T(b, c);
          const T re = a.re - s.re / 2, im = a.im - s.im / 2;
          to[j] = gnomon_complex_add_T(a, s);
          to[step + j] = gnomon_complex_of_T(re + sine * d.im, im - sine * d.re);
          to[2 * step + j] = gnomon_complex_of_T(re - sine * d.im, im + sine * d.re);
        }
      } else {
        /* Terms r and p - r have conjugate roots, as have results c and p - c. */
        const int64_t half = (p - 1) / 2;
        for (int64_t j = 0; j < m; ++j) {
          C sums[LONGEST_RADIX / 2], differences[LONGEST_RADIX / 2], total = from[j];
          const C first = total;
          for (int64_t r = 1; r <= half; ++r) {
            const C a = gnomon_complex_multiply_T(from[m * r + j], roots[m * r * k]);
            const C b = gnomon_complex_multiply_T(from[m * (p - r) + j], roots[m * (p - r) * k]);
            sums[r - 1] = gnomon_complex_add_T(a, b);
            differences[r - 1] = gnomon_complex_subtract_T(a, b);
            total = gnomon_complex_add_T(total, sums[r - 1]);
          }
          to[j] = total;
          for (int64_t c = 1; c <= half; ++c) {
            C even = first, odd = {0, 0};
            for (int64_t r = 0, turn = c; r < half; ++r) {
              const C w = roots[n / p * turn];
              even.re += sums[r].re * w.re;
              even.im += sums[r].im * w.re;
              odd.re -= differences[r].im * w.im;
              odd.im += differences[r].re * w.im;
              turn += c;
              turn -= turn >= p ? p : 0;
            }
            to[c * step + j] = gnomon_complex_add_T(even, odd);
            to[(p - c) * step + j] = gnomon_complex_subtract_T(even, odd);
          }
        }
      }
    }
    C *const done = y;
    y = x;
    x = done;
  }
  return x;
}
"""

# Bluestein's algorithm: jk = (j^2 + k^2 - (k - j)^2) / 2 turns a transform into a convolution,
# which is computed by transforms of m numbers. turns[k] is the n-th root of unity to the power
# k^2 / 2.
_CHIRP = """\
GNOMON_INLINE void gnomon_chirp(int64_t n, int64_t m, const int *factors, const C *roots,
                                  const C *turns, C *spectrum, C *x, C *y) {
  memset(x, 0, (size_t)m * sizeof *x);
  x[0] = turns[0];
  for (int64_t k = 1; k < n; ++k) x[k] = x[m - k] = gnomon_complex_conjugate_T(turns[k]);
  const C *const z = gnomon_fft(m, factors, roots, x, y);
  for (int64_t k = 0; k < m; ++k)
    spectrum[k] = gnomon_complex_of_T(z[k].re / (T)m, z[k].im / (T)m);
}
GNOMON_INLINE C *gnomon_bluestein(int64_t n, int64_t m, const int *factors, const C *roots,
                                    const C *turns, const C *spectrum, C *x, C *y) {
  for (int64_t k = 0; k < n; ++k) x[k] = gnomon_complex_multiply_T(x[k], turns[k]);
  memset(x + n, 0, (size_t)(m - n) * sizeof *x);
  C *const a = gnomon_fft(m, factors, roots, x, y), *const b = a == x ? y : x;
  /* An inverse transform: the real and imaginary parts are swapped before and after. */
  for (int64_t k = 0; k < m; ++k)
    a[k] = gnomon_complex_swap_T(gnomon_complex_multiply_T(a[k], spectrum[k]));
  C *const z = gnomon_fft(m, factors, roots, a, b);
  for (int64_t k = 0; k < n; ++k)
    z[k] = gnomon_complex_multiply_T(gnomon_complex_swap_T(z[k]), turns[k]);
  return z;
}
"""

# As for real numbers: see `prelude`.
_CHOLESKY = """\
GNOMON_INLINE void gnomon_cholesky_C(int64_t n, const C *a, C *to, bool lower) {
  const int64_t row = lower ? n : 1, column = lower ? 1 : n;
  memset(to, 0, (size_t)(n * n) * sizeof *to);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      C sum = a[i * row + j * column];
      for (int64_t k = 0; k < j; ++k) {
        const C x = to[i * row + k * column], y = to[j * row + k * column];
        sum = gnomon_complex_subtract_T(
            sum, gnomon_complex_multiply_T(x, gnomon_complex_conjugate_T(y)));
      }
      if (i == j && !(sum.re > 0)) {
        for (int64_t r = 0; r < n; ++r)
          for (int64_t c = 0; c <= r; ++c)
            to[r * row + c * column] = gnomon_complex_of_T(NAN, NAN);
        return;
      }
      const T pivot = i == j ? 0 : to[j * row + j * column].re;
      to[i * row + j * column] = i == j ? gnomon_complex_of_T((T)sqrt(sum.re), 0)
                                        : gnomon_complex_of_T(sum.re / pivot, sum.im / pivot);
    }
  }
}
"""

_SOLVE = """\
GNOMON_INLINE void gnomon_solve_C(int64_t n, int64_t m, const C *a, int64_t row, int64_t column,
                                  bool lower, bool unit, T sign, C *x, int64_t down,
                                  int64_t across) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = lower ? step : n - 1 - step;
    C *const to = x + i * down;
    for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) {
      const C y = a[i * row + k * column], factor = gnomon_complex_of_T(y.re, sign * y.im);
      const C *const from = x + k * down;
      for (int64_t j = 0; j < m; ++j)
        to[j * across] = gnomon_complex_subtract_T(
            to[j * across], gnomon_complex_multiply_T(factor, from[j * across]));
    }
    if (unit) continue;
    const C y = a[i * row + i * column], pivot = gnomon_complex_of_T(y.re, sign * y.im);
    for (int64_t j = 0; j < m; ++j)
      to[j * across] = gnomon_complex_divide_T(to[j * across], pivot);
  }
}
"""

FACTORIZATIONS = (_CHOLESKY, _SOLVE)
FOURIER = (_ROOT, _FFT.replace("LONGEST_RADIX", str(LONGEST_RADIX)), _CHIRP)
