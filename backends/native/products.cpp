// Matrix products that compiled kernels call by name, computed by the BLAS that NumPy ships.
//
// The library-products legalization writes kernels that are grids of calls of one of these
// functions. Each call computes its share of the result in the calling thread, so only IREE's
// threads work. `backends/iree/blas.py` finds the library's functions and passes them to
// `gnomon_set_products` before it loads a program that needs them.

#include "exported.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

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

// The part of the product that worker `worker` of `workers` computes.
template <typename T>
void multiply(const Product &p, const T *a, const T *b, T *c, std::size_t worker,
              std::size_t workers) {
    if (library<T> == nullptr) {
        std::fputs("gnomon: a program calls the BLAS before the BLAS was loaded\n", stderr);
        std::abort();
    }
    std::size_t pieces = p.row_pieces * p.column_pieces;
    std::size_t tasks = p.outer * p.inner * pieces;
    for (std::size_t task = tasks * worker / workers; task < tasks * (worker + 1) / workers;
         ++task) {
        std::size_t item = task / pieces, piece = task % pieces;
        std::size_t row = piece / p.column_pieces, column = piece % p.column_pieces;
        std::size_t outer = item / p.inner, inner = item % p.inner;
        std::size_t row_begin = p.m * row / p.row_pieces;
        std::size_t row_end = p.m * (row + 1) / p.row_pieces;
        std::size_t column_begin = p.n * column / p.column_pieces;
        std::size_t column_end = p.n * (column + 1) / p.column_pieces;
        const T *x =
            a + outer * p.a_outer + inner * p.a_inner + row_begin * (p.a_transposed ? 1 : p.lda);
        const T *y =
            b + outer * p.b_outer + inner * p.b_inner + column_begin * (p.b_transposed ? p.ldb : 1);
        T *z = c + item * p.m * p.n + row_begin * p.n + column_begin;
        library<T>(row_major, p.a_transposed ? transpose : no_transpose,
                   p.b_transposed ? transpose : no_transpose,
                   static_cast<std::int64_t>(row_end - row_begin),
                   static_cast<std::int64_t>(column_end - column_begin),
                   static_cast<std::int64_t>(p.k), T(1), x, static_cast<std::int64_t>(p.lda), y,
                   static_cast<std::int64_t>(p.ldb), T(0), z, static_cast<std::int64_t>(p.n));
    }
}

} // namespace

// The kernel passes each array as a pointer and an offset in elements, then the numbers.
#define GNOMON_PRODUCT(NAME, T)                                                                    \
    GNOMON_EXPORT void NAME(const T *a, std::size_t a_offset, const T *b, std::size_t b_offset,    \
                            T *c, std::size_t c_offset, std::size_t outer, std::size_t inner,      \
                            std::size_t a_outer, std::size_t a_inner, std::size_t b_outer,         \
                            std::size_t b_inner, std::size_t m, std::size_t n, std::size_t k,      \
                            std::size_t lda, std::size_t ldb, std::size_t a_transposed,            \
                            std::size_t b_transposed, std::size_t row_pieces,                      \
                            std::size_t column_pieces, std::size_t worker, std::size_t workers) {  \
        Product product{                                                                           \
            outer, inner, a_outer,           a_inner,           b_outer,    b_inner,      m, n, k, \
            lda,   ldb,   a_transposed != 0, b_transposed != 0, row_pieces, column_pieces};        \
        multiply<T>(product, a + a_offset, b + b_offset, c + c_offset, worker, workers);           \
    }

extern "C" {
GNOMON_PRODUCT(gnomon_product_f32, float)
GNOMON_PRODUCT(gnomon_product_f64, double)

GNOMON_EXPORT void gnomon_set_products(void *single, void *full) {
    library<float> = reinterpret_cast<Gemm<float>>(single);
    library<double> = reinterpret_cast<Gemm<double>>(full);
}
} // extern "C"
