"""Products of matrices by the BLAS that NumPy ships.

A ``stablehlo.dot_general`` becomes a dispatch of a kernel that calls the library
(`backends/iree/blas.py`). IREE schedules it like any other kernel: it starts when its operands are
ready, and runs on IREE's threads without Python, in loops too. Operands are read in place:
transposed dimensions become strides.

IREE does not fuse the library's kernels with the operations that follow, so these read the result
from memory. For products of some terms per element, that costs little next to the product.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from gnomon.backends.iree.blas import has_products
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.legalize.library_kernels import (
    Kernel,
    as_text,
    dispatch,
    element_of,
)
from gnomon.backends.iree.legalize.library_windows import Windows, windows_of
from gnomon.backends.iree.legalize.text_kernels import add_kernels
from gnomon.backends.iree.options import available_cores
from gnomon.backends.iree.targets import Target
from gnomon.dialects.mlir import ir, other_dialects, stablehlo

__all__ = ["LEGALIZATIONS", "SMALLEST", "use_library", "windows_pay"]

logger = logging.getLogger(__name__)

# The least number of multiplications for which the library is used. Wall time of the library's
# kernel divided by that of IREE 3.13's, for square matrices of n rows, on an AMD Zen 5 with
# OpenBLAS 0.3.31 (less than 1 means that the library is faster). The second row is with the kernels
# of both for AVX2; in the third, a bias and a `maximum` follow, which IREE fuses with its kernel:
#   n                16     32     64     96     128    256
#   f32              1.00   1.00   1.03   1.02   1.02   1.17
#   f32, AVX2        1.02   1.04   1.03   0.98   0.93   0.82
#   f32, `maximum`   1.05   1.04   1.10   1.07   1.06   1.55
#   f64              1.01   0.97   0.95   0.97   0.95   0.92
# The calls hardly differ, but the compilations do: the library's kernel is the same for all sizes,
# and IREE takes 70 to 440 ms for each product of other sizes. The compiler takes 2.0 s of processor
# time for the training step of a GPT, and 3.6 if only products of 2^23 multiplications or more use
# the library.
SMALLEST = {"f32": 1 << 12, "f64": 1 << 12}
# The dtypes of the operands of a product, by the dtype of its result. Operands of 16 bits are
# converted: 512 rows of bf16 take 4.1 ms of CPU time, and 6.3 ms in IREE's kernel.
_READ = {"f32": ("f32", "bf16", "f16"), "f64": ("f64",)}
# Operands of these dtypes are converted by the kernel, others before it.
_CONVERTED_INSIDE = frozenset({"bf16"})
# The least number of multiplications in each product of a batch. The ratio for a batch of 32
# products of 64 x 64 x 32: 0.77 to 1.05, with AVX2 0.85 to 1.03, f64 0.76 to 0.88; for 64 products
# of 16 x 16 x 16: 1.15 and 1.31; for 256 of 8 x 8 x 8: 1.3 and 2.0.
SMALLEST_ITEM = 1 << 17
# The least number of rows and columns, and of terms of a sum. A product of a matrix and a vector
# takes 1.4 times as long with AVX2 (and 0.8 to 0.9 with AVX-512). A product with few terms takes
# little more time than writing its result, so IREE's fusion pays: 4096 x 16 x 8 in k-means, 1.1 to
# 1.3.
NARROWEST, SHORTEST = 8, 16
# The least number of columns of a product of windows. Wall time divided by that of IREE's product
# of stored windows, for 3 x 3 kernels over 8 images of 32 x 32, on the same Zen 5: from 64 channels
# to 1: 0.31, to 3: 0.38, to 8: 0.58, from 3 to 8: 0.79, to 32: 1.03. Compiled in 0.16 s; with
# stored windows in 0.33 to 0.73.
FEWEST_FEATURES = 1
# The least number of multiplications in a product of transposed windows. IREE's kernels multiply a
# transposed slice for each position in the kernel. The ratio for the gradient of a convolution, 3 x
# 3: one image of 16 x 16, from 8 channels to 8: 1.0; of 32 x 32, from 3 to 8: 0.86; 8 images of 16
# x 16, from 4 to 4: 1.2. On an Intel Xeon, 8 images of 32 x 32, from 64 to 1: 0.15; from 64 to 8:
# 0.32.
SMALLEST_TRANSPOSED = 1 << 15
# The least number of multiplications that is worth a thread.
_PER_THREAD = 1 << 17

_DOT, _TRANSPOSE = "stablehlo.dot_general", "stablehlo.transpose"

# A dimension: its size, and its strides in the two operands.
_Dim: TypeAlias = "tuple[int, int, int]"


class _Matrix(NamedTuple):
    """An operand in the library's terms: its memory, and the layout of its rows."""

    value: ir.Value
    leading: int
    transposed: bool


class _Product(NamedTuple):
    """A batch of matrix products, as parameters of the kernel.

    Attributes:
      element: the name of the result's dtype.
      batch: the two batch dimensions, the outer one first.
      sizes: m, n and k: the rows and columns of the result, and the number of terms of each sum.
      lhs, rhs: the operands.
    """

    element: str
    batch: tuple[_Dim, _Dim]
    sizes: tuple[int, int, int]
    lhs: _Matrix
    rhs: _Matrix

    @property
    def products(self) -> int:
        """The number of products of matrices."""
        return self.batch[0][0] * self.batch[1][0]

    def numbers(self) -> list[int]:
        """The kernel's integer parameters, in order."""
        (outer, a_outer, b_outer), (inner, a_inner, b_inner) = self.batch
        m, n, _ = self.sizes
        rows, columns = _pieces(m, n, -(-self._threads() // self.products))
        strides = (outer, inner, a_outer, a_inner, b_outer, b_inner)
        layout = (self.lhs.leading, self.rhs.leading, self.lhs.transposed, self.rhs.transposed)
        return [*strides, *self.sizes, *map(int, layout), rows, columns]

    def _threads(self) -> int:
        return _threads(self.products * math.prod(self.sizes))

    def workers(self) -> int:
        """How many calls of the library's function run side by side."""
        *_, rows, columns = self.numbers()
        return min(self._threads(), rows * columns * self.products)

    @property
    def kernel(self) -> Kernel:
        """The kernel that computes it."""
        operand = element_of(self.lhs.value)
        if operand not in _CONVERTED_INSIDE:
            operand = self.element
        return Kernel(operand, operand, self.element, _NUMBERS)

    @property
    def operands(self) -> tuple[ir.Value, ir.Value]:
        """The arrays that the kernel reads."""
        return self.lhs.value, self.rhs.value


class _WindowProduct(NamedTuple):
    """The product of a matrix of windows, or of its transpose, and another matrix.

    The first is a convolution, and the second the gradient of one with respect to its kernel.
    """

    element: str
    windows: Windows
    transposed: bool
    columns: int
    rhs: _Matrix

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k, as for `_Product`."""
        rows, depth = self.windows.shape
        return (depth, self.columns, rows) if self.transposed else (rows, self.columns, depth)

    def numbers(self) -> list[int]:
        """The kernel's integer parameters, in order."""
        return [*self.windows.numbers(), self.columns, self.rhs.leading, int(self.rhs.transposed)]

    def workers(self) -> int:
        """How many calls of the native function run side by side."""
        return min(_threads(math.prod(self.sizes)), self.sizes[0])

    @property
    def kernel(self) -> Kernel:
        """The kernel that computes it."""
        name = "transposed_windows" if self.transposed else "windows"
        return Kernel(f"{name}_{self.element}", self.element, self.element, len(self.numbers()))

    @property
    def operands(self) -> tuple[ir.Value, ir.Value]:
        """The arrays that the kernel reads."""
        return self.windows.value, self.rhs.value


def _threads(multiplications: int) -> int:
    return max(1, min(available_cores(), multiplications // _PER_THREAD))


def _pieces(m: int, n: int, count: int) -> tuple[int, int]:
    """The rows and columns of the grid of about ``count`` nearly square pieces of a result."""
    rows = min(m, max(1, round(math.sqrt(count * m / n))))
    return rows, min(n, max(1, round(count / rows)))


def use_library(module: ir.Module, target: Target) -> bool:
    """Rewrite the products of a module in place, where the library computes them faster."""
    products: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == _DOT:
            products.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    kernels: set[Kernel] = set()
    with other_dialects(module.context):
        for op in products:
            product = _chosen(op)
            # `has_products` loads the library, so it is asked only when there is a product for it.
            if product is None or not has_products():
                continue
            with ir.InsertionPoint(op), op.location:
                result = dispatch(
                    product.kernel,
                    product.operands,
                    product.numbers(),
                    product.workers(),
                    op.results[0].type,
                )
            op.results[0].replace_all_uses_with(result)
            # The compiler drops transposes that are no longer used.
            op.erase()
            kernels.add(product.kernel)
        if kernels:
            add_kernels(map(as_text, sorted(kernels)), module)
    return bool(kernels)


# ------------------------------------------------------------------------------------- the choice


def _chosen(op: ir.Operation) -> _Product | _WindowProduct | None:
    """The product if the library should compute it, else None."""
    lhs, rhs, element = (element_of(v) for v in (*op.operands, *op.results))
    if lhs != rhs or lhs not in _READ.get(element, ()) or "algorithm" in op.attributes:
        return None
    convolution = _as_window_product(op, element)
    if convolution is not None:
        pays = windows_pay(convolution.sizes, element, convolution.transposed)
        logger.debug(
            "a product of %swindows of %s, %s (m, n, k): %s",
            "transposed " if convolution.transposed else "",
            element,
            convolution.sizes,
            "by the BLAS"
            if pays
            else "kernels of IREE's, for it has too few columns or multiplications",
        )
        if pays:
            return convolution
    product = _as_product(op, element)
    if product is None:
        return None
    refusal = _reason_against(product)
    logger.debug(
        "%d products of %s, %s (m, n, k): %s",
        product.products,
        element,
        product.sizes,
        f"a kernel of IREE's, for {refusal}" if refusal else "by the BLAS",
    )
    return None if refusal else product


def windows_pay(sizes: tuple[int, int, int], element: str, transposed: bool = False) -> bool:
    """Whether the library is faster for a product of windows.

    Args:
      sizes: m, n and k.
      element: the name of the dtype.
      transposed: whether the matrix of windows is transposed.
    """
    if transposed:
        return math.prod(sizes) >= SMALLEST_TRANSPOSED
    return sizes[1] >= FEWEST_FEATURES and math.prod(sizes) >= SMALLEST[element]


def _reason_against(product: _Product) -> str:
    """Why the library is not faster for a product; empty if it is."""
    item, least = math.prod(product.sizes), SMALLEST[product.element]
    *sides, terms = product.sizes
    if min(sides) < NARROWEST:
        return f"it has fewer than {NARROWEST} rows or columns"
    if terms < SHORTEST:
        return f"its sums have fewer than {SHORTEST} terms"
    if product.products > 1 and item < SMALLEST_ITEM:
        return f"each has fewer than {SMALLEST_ITEM} multiplications"
    if item * product.products < least:
        return f"there are fewer than {least} multiplications"
    return ""


def _as_product(op: ir.Operation, element: str) -> _Product | None:
    """A contraction as products of matrices that are read in place; None if it is not one."""
    dims = _dimension_numbers(op)
    lhs, rhs = (_strided(value) for value in op.operands)
    shapes = [ir.RankedTensorType(v.type).shape for v in op.operands]
    if any(size < 1 for shape in shapes for size in shape):
        return None

    def paired(lhs_dims: Sequence[int], rhs_dims: Sequence[int]) -> list[_Dim]:
        return [
            (shapes[0][i], lhs[1][i], rhs[1][j]) for i, j in zip(lhs_dims, rhs_dims, strict=True)
        ]

    def free(side: int) -> list[_Dim]:
        used = (*dims[side], *dims[2 + side])
        strides = (lhs, rhs)[side][1]
        kept = [d for d in range(len(shapes[side])) if d not in used]
        return [(shapes[side][d], strides[d], strides[d]) for d in kept]

    batch = _collapse(paired(dims[0], dims[1]))
    # The terms may be added in any order, as long as it is the same in both operands.
    depth = _collapse(sorted(paired(dims[2], dims[3]), key=lambda dim: -dim[1]))
    rows, columns = _collapse(free(0)), _collapse(free(1))
    if len(batch) > 2 or max(len(depth), len(rows), len(columns)) > 1:
        return None
    (k, a_k, b_k), (m, a_m, _), (n, b_n, _) = (_only(g) for g in (depth, rows, columns))
    a = _matrix(lhs[0], (m, a_m), (k, a_k))
    b = _matrix(rhs[0], (k, b_k), (n, b_n))
    if a is None or b is None:
        return None
    unit = (1, 0, 0)
    outer, inner = ([unit] * (2 - len(batch))) + batch
    return _Product(element, (outer, inner), (m, n, k), a, b)


def _as_window_product(op: ir.Operation, element: str) -> _WindowProduct | None:
    """A product of windows of one array and a matrix; None for any other."""
    lhs_batch, _, lhs_contracting, rhs_contracting = _dimension_numbers(op)
    lhs, rhs = op.operands
    rank, shape = len(ir.RankedTensorType(lhs.type).shape), ir.RankedTensorType(rhs.type).shape
    transposed = lhs_contracting == list(range(rank - 1))
    if lhs_batch or not (transposed or (rank == 2 and lhs_contracting == [1])):
        return None
    windows = windows_of(lhs)
    kept = [d for d in range(len(shape)) if d not in rhs_contracting]
    if windows is None or len(kept) != 1 or 0 in shape:
        return None
    # The array before its transposes may not be a matrix, but the transposed one is.
    for value, strides in (_strided(rhs), (rhs, _dense(shape))):
        inner = _collapse((shape[d], strides[d], strides[d]) for d in rhs_contracting)
        if len(inner) > 1:
            continue
        size, stride, _ = _only(inner)
        columns = (shape[kept[0]], strides[kept[0]])
        matrix = _matrix(value, (size, stride), columns)
        if matrix is not None:
            return _WindowProduct(element, windows, transposed, columns[0], matrix)
    return None


def _only(group: list[_Dim]) -> _Dim:
    return group[0] if group else (1, 1, 1)


def _matrix(value: ir.Value, rows: tuple[int, int], columns: tuple[int, int]) -> _Matrix | None:
    """A matrix in the library's terms, from its sizes and strides; None if neither stride is 1."""
    (m, row_stride), (n, column_stride) = rows, columns
    if column_stride == 1 or n == 1:
        return _Matrix(value, row_stride if m > 1 else n, transposed=False)
    if row_stride == 1 or m == 1:
        return _Matrix(value, column_stride, transposed=True)
    return None


def _collapse(dims: Iterable[_Dim]) -> list[_Dim]:
    """Join neighbouring dimensions that are contiguous in both operands."""
    collapsed: list[_Dim] = []
    for size, a, b in dims:
        if size == 1:
            continue
        if collapsed and collapsed[-1][1:] == (size * a, size * b):
            collapsed[-1] = (collapsed[-1][0] * size, a, b)
        else:
            collapsed.append((size, a, b))
    return collapsed


def _strided(value: ir.Value) -> tuple[ir.Value, list[int]]:
    """The array that a value is a transpose of, and the value's strides in it."""
    order = list(range(len(ir.RankedTensorType(value.type).shape)))
    while isinstance(value, ir.OpResult) and value.owner.name == _TRANSPOSE:
        owner = value.owner.operation
        permutation = list(ir.DenseI64ArrayAttr(owner.attributes["permutation"]))
        order = [permutation[d] for d in order]
        (value,) = owner.operands
    dense = _dense(ir.RankedTensorType(value.type).shape)
    return value, [dense[d] for d in order]


def _dense(shape: Sequence[int]) -> list[int]:
    """The strides of an array without gaps."""
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _dimension_numbers(op: ir.Operation) -> tuple[list[int], list[int], list[int], list[int]]:
    """The batch dimensions of both sides, then the contracted dimensions of both sides."""
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return (
        list(numbers.lhs_batching_dimensions),
        list(numbers.rhs_batching_dimensions),
        list(numbers.lhs_contracting_dimensions),
        list(numbers.rhs_contracting_dimensions),
    )


# The length of `_Product.numbers`.
_NUMBERS = 15


LEGALIZATIONS = (
    Legalization(
        name="library-products",
        stage=Stage.COMPILER_OPS,
        kind=Kind.SLOW,
        doc="multiply matrices and convolve by the OpenBLAS that NumPy ships, in f32 and f64",
        upstream="IREE 3.13 takes up to 1.8 times as long as OpenBLAS for products of f64",
        reproducer="a product of 1024 rows of f64 takes 1.3 times as long or more",
        targets=Targets.where(is_host=True),
        run=use_library,
        needs=frozenset({_DOT}),
    ),
)
