// Matrix products that compiled kernels call by name, computed by the BLAS that NumPy ships.
//
// The library-products legalization writes kernels that are grids of calls of one of these
// functions. Each call computes its share of the result in the calling thread, so only IREE's
// threads work. `backends/iree/blas.py` finds the library's functions and passes them to
// `gnomon_set_products` before it loads a program that needs them.

#include "exported.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace {

// A function of the C interface of BLAS with 64-bit integers.
template <typename T>
using Gemm = void (*)(int order, int transpose_a, int transpose_b, std::int64_t m, std::int64_t n,
                      std::int64_t k, T alpha, const T *a, std::int64_t lda, const T *b,
                      std::int64_t ldb, T beta, T *c, std::int64_t ldc);

constexpr int row_major = 101, no_transpose = 111, transpose = 112;

template <typename T> Gemm<T> library = nullptr;

struct Product {
    std::size_t outer, inner;     // The sizes of the two batch dimensions.
    std::size_t a_outer, a_inner; // Their strides in the operands; the result is dense.
    std::size_t b_outer, b_inner;
    std::size_t m, n, k;
    std::size_t lda, ldb;
    bool a_transposed, b_transposed;
    std::size_t row_pieces, column_pieces; // The pieces into which each result is split.
};

void require_library(bool loaded) {
    if (!loaded) {
        std::fputs("gnomon: a program calls the BLAS before the BLAS was loaded\n", stderr);
        std::abort();
    }
}

// A piece of a result: the result's place in the batch, and the piece's rows and columns.
struct Piece {
    std::size_t outer, inner, item;
    std::size_t row_begin, row_end, column_begin, column_end;
};

// The pieces that worker `worker` of `workers` computes, passed to a function one by one.
template <typename F>
void for_each_piece(const Product &p, std::size_t worker, std::size_t workers, F compute) {
    std::size_t pieces = p.row_pieces * p.column_pieces;
    std::size_t tasks = p.outer * p.inner * pieces;
    for (std::size_t task = tasks * worker / workers; task < tasks * (worker + 1) / workers;
         ++task) {
        std::size_t item = task / pieces, piece = task % pieces;
        std::size_t row = piece / p.column_pieces, column = piece % p.column_pieces;
        compute(Piece{item / p.inner, item % p.inner, item, p.m * row / p.row_pieces,
                      p.m * (row + 1) / p.row_pieces, p.n * column / p.column_pieces,
                      p.n * (column + 1) / p.column_pieces});
    }
}

// The part of the product that worker `worker` of `workers` computes.
template <typename T>
void multiply(const Product &p, const T *a, const T *b, T *c, std::size_t worker,
              std::size_t workers) {
    require_library(library<T> != nullptr);
    for_each_piece(p, worker, workers, [&](const Piece &piece) {
        const T *x = a + piece.outer * p.a_outer + piece.inner * p.a_inner +
                     piece.row_begin * (p.a_transposed ? 1 : p.lda);
        const T *y = b + piece.outer * p.b_outer + piece.inner * p.b_inner +
                     piece.column_begin * (p.b_transposed ? p.ldb : 1);
        T *z = c + piece.item * p.m * p.n + piece.row_begin * p.n + piece.column_begin;
        library<T>(row_major, p.a_transposed ? transpose : no_transpose,
                   p.b_transposed ? transpose : no_transpose,
                   static_cast<std::int64_t>(piece.row_end - piece.row_begin),
                   static_cast<std::int64_t>(piece.column_end - piece.column_begin),
                   static_cast<std::int64_t>(p.k), T(1), x, static_cast<std::int64_t>(p.lda), y,
                   static_cast<std::int64_t>(p.ldb), T(0), z, static_cast<std::int64_t>(p.n));
    });
}

// Elements of bfloat16 in rows of `count`, as f32 without gaps.
void widen(const std::uint16_t *from, std::size_t stride, std::size_t rows, std::size_t count,
           float *to) {
    for (std::size_t row = 0; row < rows; ++row, from += stride, to += count)
        for (std::size_t i = 0; i < count; ++i) {
            std::uint32_t bits = std::uint32_t{from[i]} << 16;
            std::memcpy(to + i, &bits, sizeof bits);
        }
}

// A part of an operand of bfloat16, as f32: rows from `row` on, and columns from `column` on. The
// rows and the columns of a transposed operand are those of its transpose, which is what memory
// has.
struct Widened {
    const float *data;
    std::int64_t leading;
};

Widened widened(const std::uint16_t *x, std::size_t leading, bool transposed, std::size_t row,
                std::size_t rows, std::size_t column, std::size_t columns,
                std::vector<float> &memory) {
    if (transposed) {
        std::swap(row, column);
        std::swap(rows, columns);
    }
    memory.resize(std::max(memory.size(), rows * columns));
    widen(x + row * leading + column, leading, rows, columns, memory.data());
    return {memory.data(), static_cast<std::int64_t>(columns)};
}

// The same for operands of bfloat16, of which parts are converted that fit into the processor's
// caches: converted in separate kernels, they would take another pass over memory.
void multiply_narrow(const Product &p, const std::uint16_t *a, const std::uint16_t *b, float *c,
                     std::size_t worker, std::size_t workers) {
    require_library(library<float> != nullptr);
    constexpr std::size_t most_rows = 512, most_columns = 1024, most_terms = 512;
    thread_local std::vector<float> a_memory, b_memory;
    for_each_piece(p, worker, workers, [&](const Piece &piece) {
        const std::uint16_t *x = a + piece.outer * p.a_outer + piece.inner * p.a_inner;
        const std::uint16_t *y = b + piece.outer * p.b_outer + piece.inner * p.b_inner;
        float *z = c + piece.item * p.m * p.n;
        for (std::size_t column = piece.column_begin; column < piece.column_end;
             column += most_columns) {
            std::size_t columns = std::min(most_columns, piece.column_end - column);
            for (std::size_t term = 0; term < p.k; term += most_terms) {
                std::size_t terms = std::min(most_terms, p.k - term);
                Widened right =
                    widened(y, p.ldb, p.b_transposed, term, terms, column, columns, b_memory);
                for (std::size_t row = piece.row_begin; row < piece.row_end; row += most_rows) {
                    std::size_t rows = std::min(most_rows, piece.row_end - row);
                    Widened left =
                        widened(x, p.lda, p.a_transposed, row, rows, term, terms, a_memory);
                    library<float>(
                        row_major, p.a_transposed ? transpose : no_transpose,
                        p.b_transposed ? transpose : no_transpose, static_cast<std::int64_t>(rows),
                        static_cast<std::int64_t>(columns), static_cast<std::int64_t>(terms), 1.0f,
                        left.data, left.leading, right.data, right.leading, term == 0 ? 0.0f : 1.0f,
                        z + row * p.n + column, static_cast<std::int64_t>(p.n));
                }
            }
        }
    });
}

// A matrix whose rows are windows of an array: a grid of positions of windows, and in each of them
// a grid of places with `depth` neighbours. It is multiplied by a matrix of `n` columns. The
// strides of places are negative where a kernel is reversed.
struct Windows {
    std::size_t rows[4], row_strides[4];
    std::size_t places[3];
    std::ptrdiff_t place_strides[3];
    std::size_t depth, offset;
    std::size_t n, ldb;
    bool b_transposed;
};

// Neighbouring columns of a matrix of windows: an offset in the window, and how many elements.
struct Run {
    std::ptrdiff_t offset;
    std::size_t count;
};

// The columns from `begin` to `end` of a matrix of windows.
std::vector<Run> columns_of(const Windows &w, std::size_t begin, std::size_t end) {
    std::vector<Run> runs;
    for (std::size_t at = begin; at < end;) {
        std::size_t place = at / w.depth, skipped = at % w.depth, rest = place;
        auto offset = static_cast<std::ptrdiff_t>(skipped);
        for (int d = 2; d >= 0; --d) {
            offset += static_cast<std::ptrdiff_t>(rest % w.places[d]) * w.place_strides[d];
            rest /= w.places[d];
        }
        std::size_t count = std::min(end - at, w.depth - skipped);
        runs.push_back({offset, count});
        at += count;
    }
    return runs;
}

// Write some columns of the rows from `begin` to `end`, one row after the other.
template <typename T>
void copy_windows(const Windows &w, const T *a, const std::vector<Run> &columns, std::size_t begin,
                  std::size_t end, T *out) {
    std::size_t at[4], rest = begin;
    for (int d = 3; d >= 0; --d) {
        at[d] = rest % w.rows[d];
        rest /= w.rows[d];
    }
    for (std::size_t row = begin; row < end; ++row) {
        const T *window = a + w.offset;
        for (int d = 0; d < 4; ++d)
            window += at[d] * w.row_strides[d];
        for (const Run &run : columns) {
            std::memcpy(out, window + run.offset, run.count * sizeof(T));
            out += run.count;
        }
        for (int d = 3; d >= 0; --d) {
            if (++at[d] < w.rows[d])
                break;
            at[d] = 0;
        }
    }
}

// The rows of the product that worker `worker` of `workers` computes, in panels of windows that fit
// into the processor's second-level cache.
template <typename T>
void convolve(const Windows &w, const T *a, const T *b, T *c, std::size_t worker,
              std::size_t workers) {
    require_library(library<T> != nullptr);
    constexpr std::size_t panel_bytes = 512 * 1024, fewest_rows = 16;
    thread_local std::vector<T> panel;
    std::size_t rows = w.rows[0] * w.rows[1] * w.rows[2] * w.rows[3];
    std::size_t depth = w.places[0] * w.places[1] * w.places[2] * w.depth;
    std::size_t begin = rows * worker / workers, end = rows * (worker + 1) / workers;
    std::size_t most = std::max(fewest_rows, panel_bytes / (depth * sizeof(T)));
    std::vector<Run> columns = columns_of(w, 0, depth);
    panel.resize(std::max(panel.size(), std::min(most, end - begin) * depth));
    for (std::size_t row = begin; row < end; row += most) {
        std::size_t last = std::min(end, row + most);
        copy_windows(w, a, columns, row, last, panel.data());
        library<T>(row_major, no_transpose, w.b_transposed ? transpose : no_transpose,
                   static_cast<std::int64_t>(last - row), static_cast<std::int64_t>(w.n),
                   static_cast<std::int64_t>(depth), T(1), panel.data(),
                   static_cast<std::int64_t>(depth), b, static_cast<std::int64_t>(w.ldb), T(0),
                   c + row * w.n, static_cast<std::int64_t>(w.n));
    }
}

// The rows of the product of the transposed matrix of windows that worker `worker` of `workers`
// computes: the sum of the products of panels of windows, each of which fits into the processor's
// second-level cache.
template <typename T>
void convolve_transposed(const Windows &w, const T *a, const T *b, T *c, std::size_t worker,
                         std::size_t workers) {
    require_library(library<T> != nullptr);
    constexpr std::size_t panel_bytes = 512 * 1024, fewest_rows = 16, most_rows = 2048;
    thread_local std::vector<T> panel;
    std::size_t rows = w.rows[0] * w.rows[1] * w.rows[2] * w.rows[3];
    std::size_t depth = w.places[0] * w.places[1] * w.places[2] * w.depth;
    std::size_t begin = depth * worker / workers, end = depth * (worker + 1) / workers;
    if (begin == end)
        return;
    std::vector<Run> columns = columns_of(w, begin, end);
    std::size_t width = end - begin;
    std::size_t most = std::clamp(panel_bytes / (width * sizeof(T)), fewest_rows, most_rows);
    panel.resize(std::max(panel.size(), std::min(most, rows) * width));
    for (std::size_t row = 0; row < rows; row += most) {
        std::size_t last = std::min(rows, row + most);
        copy_windows(w, a, columns, row, last, panel.data());
        library<T>(row_major, transpose, w.b_transposed ? transpose : no_transpose,
                   static_cast<std::int64_t>(width), static_cast<std::int64_t>(w.n),
                   static_cast<std::int64_t>(last - row), T(1), panel.data(),
                   static_cast<std::int64_t>(width), b + row * (w.b_transposed ? 1 : w.ldb),
                   static_cast<std::int64_t>(w.ldb), T(row == 0 ? 0 : 1), c + begin * w.n,
                   static_cast<std::int64_t>(w.n));
    }
}

} // namespace

// The kernel passes each array as a pointer and an offset in elements, then the numbers.
#define GNOMON_PRODUCT(NAME, MULTIPLY, FROM, TO)                                                   \
    GNOMON_EXPORT void NAME(                                                                       \
        const FROM *a, std::size_t a_offset, const FROM *b, std::size_t b_offset, TO *c,           \
        std::size_t c_offset, std::size_t outer, std::size_t inner, std::size_t a_outer,           \
        std::size_t a_inner, std::size_t b_outer, std::size_t b_inner, std::size_t m,              \
        std::size_t n, std::size_t k, std::size_t lda, std::size_t ldb, std::size_t a_transposed,  \
        std::size_t b_transposed, std::size_t row_pieces, std::size_t column_pieces,               \
        std::size_t worker, std::size_t workers) {                                                 \
        Product product{                                                                           \
            outer, inner, a_outer,           a_inner,           b_outer,    b_inner,      m, n, k, \
            lda,   ldb,   a_transposed != 0, b_transposed != 0, row_pieces, column_pieces};        \
        MULTIPLY(product, a + a_offset, b + b_offset, c + c_offset, worker, workers);              \
    }

#define GNOMON_WINDOWS(NAME, CONVOLVE, T)                                                          \
    GNOMON_EXPORT void NAME(                                                                       \
        const T *a, std::size_t a_offset, const T *b, std::size_t b_offset, T *c,                  \
        std::size_t c_offset, std::size_t r0, std::size_t r1, std::size_t r2, std::size_t r3,      \
        std::size_t r0_stride, std::size_t r1_stride, std::size_t r2_stride,                       \
        std::size_t r3_stride, std::size_t p0, std::size_t p1, std::size_t p2,                     \
        std::ptrdiff_t p0_stride, std::ptrdiff_t p1_stride, std::ptrdiff_t p2_stride,              \
        std::size_t depth, std::size_t offset, std::size_t n, std::size_t ldb,                     \
        std::size_t b_transposed, std::size_t worker, std::size_t workers) {                       \
        Windows windows{{r0, r1, r2, r3},                                                          \
                        {r0_stride, r1_stride, r2_stride, r3_stride},                              \
                        {p0, p1, p2},                                                              \
                        {p0_stride, p1_stride, p2_stride},                                         \
                        depth,                                                                     \
                        offset,                                                                    \
                        n,                                                                         \
                        ldb,                                                                       \
                        b_transposed != 0};                                                        \
        CONVOLVE<T>(windows, a + a_offset, b + b_offset, c + c_offset, worker, workers);           \
    }

extern "C" {
GNOMON_PRODUCT(gnomon_product_f32, multiply<float>, float, float)
GNOMON_PRODUCT(gnomon_product_f64, multiply<double>, double, double)
GNOMON_PRODUCT(gnomon_product_bf16, multiply_narrow, std::uint16_t, float)
GNOMON_WINDOWS(gnomon_product_windows_f32, convolve, float)
GNOMON_WINDOWS(gnomon_product_windows_f64, convolve, double)
GNOMON_WINDOWS(gnomon_product_transposed_windows_f32, convolve_transposed, float)
GNOMON_WINDOWS(gnomon_product_transposed_windows_f64, convolve_transposed, double)

GNOMON_EXPORT void gnomon_set_products(void *single, void *full) {
    library<float> = reinterpret_cast<Gemm<float>>(single);
    library<double> = reinterpret_cast<Gemm<double>>(full);
}
} // extern "C"
