"""Factorizations and solutions of small systems, written out instead of called.

A call of LAPACK costs microseconds, divides a program that Python runs in steps into more of them,
and keeps loops from becoming kernels. From a device, it also takes two copies and a wait: 0.3 ms on
an H200. A system of a few unknowns needs only a few operations. So these ops become elementwise
ops, unrolled over the elements of one matrix; each acts on all matrices of a batch at once.

Elimination swaps rows as LAPACK does: the pivot is the first of the largest elements of its column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.backends.iree.legalize.host_ops import has_numpy
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.legalize.small_batches import solve_by_rows
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.control_flow import scan, while_
from gnomon.dialects.emit import constant, full_like, ops, reshape, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, type_of

__all__ = [
    "LARGEST",
    "LARGEST_IN_LOOPS",
    "LARGEST_WITHOUT_LAPACK",
    "LEGALIZATIONS",
    "rules_with_numpy",
]

# The most rows of a matrix whose factorization is written out. The number of ops grows with its
# cube. A kernel of 5 unknowns takes the compiler a second, and a call of LAPACK 15 us. In a loop
# the call is made in each iteration, and keeps the loop from becoming a kernel.
LARGEST = 4
LARGEST_IN_LOOPS = 8
# The most rows where LAPACK cannot be called. A kernel of 8 unknowns takes the compiler 5 s.
LARGEST_WITHOUT_LAPACK = 8
# The most elements of a batch of systems; for more, LAPACK is faster.
_MOST = 1 << 14
# The most elements of a batch that is written out in loops. A loop of 50 solutions of 16 systems of
# 8 unknowns is one kernel (0.04 ms; 1.3 with calls). With 32 systems it is none: it takes 2.3 ms
# (1.7 with calls), and 14 s to compile.
_MOST_IN_KERNELS = 1 << 10

_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_I32 = np.dtype(np.int32)

# The elements of a matrix, each as an array over the batch.
_Elements: TypeAlias = "list[list[ir.Value]]"
# Rows of right-hand sides, each as an array ``[*batch, columns]``.
_Rows: TypeAlias = "list[ir.Value]"


def _in_loop() -> bool:
    owner = ir.InsertionPoint.current.block.owner
    while owner is not None and owner.name != "func.func":
        if owner.name in (scan.full_name, while_.full_name):
            return True
        owner = owner.operation.parent
    return False


def _unknowns(inst: Instance) -> int | None:
    """The rows of an op's first operand; None unless these are square matrices of known sizes."""
    type_ = inst.operand_types[0]
    if type_.dtype not in _REAL or any(not isinstance(n, int) for n in type_.shape):
        return None
    rows, columns = type_.shape[-2:]
    return rows if rows == columns and rows > 0 and _size(inst) > 0 else None


def _size(inst: Instance) -> int:
    return max(math.prod(t.shape) for t in (*inst.operand_types, *inst.result_types))


def _is_faster(inst: Instance, unknowns: int, target: Target) -> bool:
    """Whether it is faster to write out an op than to call LAPACK."""
    # On devices, loops never become kernels.
    in_kernel = target.capabilities.host_memory and _size(inst) <= _MOST_IN_KERNELS and _in_loop()
    return unknowns <= (LARGEST_IN_LOOPS if in_kernel else LARGEST) and _size(inst) <= _MOST


# --------------------------------------------------------------------------- elements of matrices


def _element(x: ir.Value, i: int, j: int) -> ir.Value:
    """The elements ``[i, j]`` of all matrices of a batch."""
    *batch, _, _ = type_of(x).shape
    start = (*(0 for _ in batch), i, j)
    limit = (*batch, i + 1, j + 1)
    window = ops.slice(x, start=start, limit=limit, strides=(1,) * len(start))
    return reshape(window, tuple(batch))


def _elements(x: ir.Value) -> _Elements:
    rows, columns = type_of(x).shape[-2:]
    return [[_element(x, i, j) for j in range(columns)] for i in range(rows)]


def _rows(x: ir.Value) -> _Rows:
    *batch, rows, columns = type_of(x).shape
    row_values = []
    for i in range(rows):
        start, limit = (*(0 for _ in batch), i, 0), (*batch, i + 1, columns)
        row = ops.slice(x, start=start, limit=limit, strides=(1,) * len(start))
        row_values.append(reshape(row, (*batch, columns)))
    return row_values


def _iota(type_: TensorType, dimension: int) -> ir.Value:
    return ops.iota(dtype=_I32, shape=type_.shape, dimension=dimension)


def _stack_rows(rows: _Rows, type_: TensorType) -> ir.Value:
    """Matrices from their rows, by selects: a concatenation would be a kernel for each part."""
    dims = (*range(type_.rank - 2), type_.rank - 1)
    wide = [ops.broadcast_in_dim(row, shape=type_.shape, dims=dims) for row in rows]
    return _selected(wide, _iota(type_, type_.rank - 2))


def _stack(elements: Sequence[ir.Value], type_: TensorType) -> ir.Value:
    """Stack arrays along a new last dimension."""
    dims = tuple(range(type_.rank - 1))
    wide = [ops.broadcast_in_dim(x, shape=type_.shape, dims=dims) for x in elements]
    return _selected(wide, _iota(type_, type_.rank - 1))


def _matrix(elements: _Elements, type_: TensorType) -> ir.Value:
    row_type = type_.with_shape((*type_.shape[:-2], type_.shape[-1]))
    return _stack_rows([_stack(row, row_type) for row in elements], type_)


def _selected(values: Sequence[ir.Value], index: ir.Value) -> ir.Value:
    selected = values[-1]
    for i in reversed(range(len(values) - 1)):
        here = ops.eq(index, full_like(index, i))
        selected = ops.select(here, values[i], selected)
    return selected


def _over_columns(x: ir.Value, row: ir.Value) -> ir.Value:
    """An element of each matrix, broadcast over the columns of a row."""
    shape = type_of(row).shape
    return ops.broadcast_in_dim(x, shape=shape, dims=tuple(range(len(shape) - 1)))


def _less(x: ir.Value, factor: ir.Value, y: ir.Value) -> ir.Value:
    """``x - factor * y``, where all columns may share the factor."""
    if type_of(factor).shape != type_of(y).shape:
        factor = _over_columns(factor, y)
    return ops.sub(x, ops.mul(factor, y))


def _divided(row: ir.Value, x: ir.Value) -> ir.Value:
    return ops.div(row, _over_columns(x, row))


# ------------------------------------------------------------------------------------ elimination


class _Elimination:
    """Gaussian elimination with partial pivoting.

    Args:
      a: the matrices, whose elements are replaced by those of L and U.
      rows: right-hand sides, which are swapped and eliminated as well.
      keep: whether all of L, the pivots and the order are needed, not only U and the right-hand
        sides.

    Attributes:
      a: L without its unit diagonal, and U.
      rows: the right-hand sides, after the substitution of L.
      pivots: the rows with which each step's row was swapped.
      order: the permutation of the rows.
      odd: whether the number of swaps is odd.
    """

    def __init__(self, a: _Elements, rows: _Rows, keep: bool = False) -> None:
        self.a = a
        self.rows = rows
        type_ = type_of(a[0][0])
        numbers = type_.with_dtype(_I32)
        self.order = [_number(numbers, i) for i in range(len(a))] if keep else []
        self.pivots: list[ir.Value] = []
        self.odd: ir.Value | None = None
        for k in range(len(a)):
            self._swap(k, _number(numbers, k) if keep else None)
            self._eliminate(k)

    def _swap(self, k: int, pivot: ir.Value | None) -> None:
        """Swap row k with the first of the rows whose element in column k is largest."""
        n = len(self.a)
        largest = ops.abs(self.a[k][k])
        chosen = []
        for i in range(k + 1, n):
            size = ops.abs(self.a[i][k])
            # A nan is never larger than another element, as in LAPACK; but if it is the first, it
            # is the pivot.
            larger = ops.gt(size, largest)
            largest = ops.select(larger, size, largest)
            chosen.append((i, larger))
        # The pivot is the last row that was larger than those before it.
        is_taken: ir.Value | None = None
        swaps = []
        for i, larger in reversed(chosen):
            here = larger if is_taken is None else ops.and_(larger, ops.not_(is_taken))
            is_taken = larger if is_taken is None else ops.or_(is_taken, larger)
            swaps.append((i, here))
        if pivot is not None:
            for i, here in swaps:
                pivot = ops.select(here, full_like(pivot, i), pivot)
            self.pivots.append(pivot)
            self._permute(self.order, k, swaps)
        if is_taken is None:
            return
        self.odd = is_taken if self.odd is None else ops.ne(self.odd, is_taken)
        for j in range(k if pivot is None else 0, n):
            column = [row[j] for row in self.a]
            self._permute(column, k, swaps)
            for i in range(n):
                self.a[i][j] = column[i]
        self._permute(self.rows, k, swaps)

    @staticmethod
    def _permute(values: list[ir.Value], k: int, swaps: Sequence[tuple[int, ir.Value]]) -> None:
        if not values:
            return
        first = old = values[k]
        for i, here in swaps:
            if type_of(here).shape != type_of(old).shape:
                here = _over_columns(here, old)
            first = ops.select(here, values[i], first)
            values[i] = ops.select(here, old, values[i])
        values[k] = first

    def _eliminate(self, k: int) -> None:
        n = len(self.a)
        for i in range(k + 1, n):
            below, pivot = self.a[i][k], self.a[k][k]
            # Elements below a zero pivot are zero too, and stay.
            is_zero = ops.eq(pivot, zeros(type_of(pivot)))
            factor = ops.select(is_zero, below, ops.div(below, pivot))
            self.a[i][k] = factor
            for j in range(k + 1, n):
                self.a[i][j] = _less(self.a[i][j], factor, self.a[k][j])
            if self.rows:
                self.rows[i] = _less(self.rows[i], factor, self.rows[k])

    @property
    def diagonal(self) -> list[ir.Value]:
        """The pivots' values, the diagonal of U."""
        return [self.a[k][k] for k in range(len(self.a))]


def _number(type_: TensorType, i: int) -> ir.Value:
    return constant(np.full(type_.shape, i, type_.dtype))


def _substitute(a: _Elements, rows: _Rows, *, lower: bool, unit: bool) -> _Rows:
    """Solve triangular systems; only one triangle of the elements is read."""
    n = len(rows)
    order: Iterator[int] = iter(range(n)) if lower else reversed(range(n))
    solution = list(rows)
    solved: list[int] = []
    for k in order:
        for j in solved:
            solution[k] = _less(solution[k], a[k][j], solution[j])
        if not unit:
            solution[k] = _divided(solution[k], a[k][k])
        solved.append(k)
    return solution


def _transposed(a: _Elements) -> _Elements:
    return [list(column) for column in zip(*a, strict=True)]


# -------------------------------------------------------------------------------------- the rules


def _solve(inst: Instance) -> Sequence[ir.Value]:
    a, b = inst.operands
    elements = _elements(a)
    if inst.params["transpose_a"]:
        elements = _transposed(elements)
    elimination = _Elimination(elements, _rows(b))
    return [
        _stack_rows(
            _substitute(elimination.a, elimination.rows, lower=False, unit=False), inst.type
        )
    ]


def _triangular_solve(inst: Instance) -> Sequence[ir.Value]:
    params = inst.params
    a, b = inst.operands
    elements = _elements(a)
    lower = params["lower"]
    # X op(A) = B is op(A)^T X^T = B^T.
    if params["transpose_a"] == params["left_side"]:
        elements, lower = _transposed(elements), not lower
    unit = params["unit_diagonal"]
    if params["left_side"]:
        return [_stack_rows(_substitute(elements, _rows(b), lower=lower, unit=unit), inst.type)]
    rank = type_of(b).rank
    order = (*range(rank - 2), rank - 1, rank - 2)
    swapped = ops.transpose(b, permutation=order)
    rows = _substitute(elements, _rows(swapped), lower=lower, unit=unit)
    return [_stack(rows, inst.type)]


def _cholesky(inst: Instance) -> Sequence[ir.Value]:
    (a,) = inst.operands
    elements = _elements(a)
    n = len(elements)
    zero = zeros(type_of(elements[0][0]))
    factor: _Elements = [[zero] * n for _ in range(n)]
    positive: ir.Value | None = None
    for j in range(n):
        pivot = elements[j][j]
        for k in range(j):
            pivot = _less(pivot, factor[j][k], factor[j][k])
        # A pivot of nan is not a failure, as in OpenBLAS; the nan spreads.
        here = ops.not_(ops.le(pivot, zero))
        positive = here if positive is None else ops.and_(positive, here)
        factor[j][j] = ops.sqrt(pivot)
        for i in range(j + 1, n):
            x = elements[i][j]
            for k in range(j):
                x = _less(x, factor[i][k], factor[j][k])
            factor[i][j] = ops.div(x, factor[j][j])
    assert positive is not None
    nan = full_like(zero, np.nan)
    for i in range(n):
        for j in range(i + 1):
            factor[i][j] = ops.select(positive, factor[i][j], nan)
    return [_matrix(factor, inst.type)]


def _lu(inst: Instance) -> Sequence[ir.Value]:
    elimination = _Elimination(_elements(inst.operands[0]), [], keep=True)
    factors, pivots, order = inst.result_types
    return [
        _matrix(elimination.a, factors),
        _stack(elimination.pivots, pivots),
        _stack(elimination.order, order),
    ]


def _product(values: Sequence[ir.Value]) -> ir.Value:
    product = values[0]
    for value in values[1:]:
        product = ops.mul(product, value)
    return product


def _det(inst: Instance) -> Sequence[ir.Value]:
    elimination = _Elimination(_elements(inst.operands[0]), [])
    return [_with_sign(_product(elimination.diagonal), elimination)]


def _slogdet(inst: Instance) -> Sequence[ir.Value]:
    elimination = _Elimination(_elements(inst.operands[0]), [])
    sign = _product([ops.sign(x) for x in elimination.diagonal])
    log = ops.log(ops.abs(elimination.diagonal[0]))
    for pivot in elimination.diagonal[1:]:
        log = ops.add(log, ops.log(ops.abs(pivot)))
    return [_with_sign(sign, elimination), log]


def _with_sign(x: ir.Value, elimination: _Elimination) -> ir.Value:
    return x if elimination.odd is None else ops.select(elimination.odd, ops.neg(x), x)


_RULES: dict[str, Callable[[Instance], Sequence[ir.Value]]] = {
    "solve": _solve,
    "triangular_solve": _triangular_solve,
    "cholesky": _cholesky,
    "lu": _lu,
    "det": _det,
    "slogdet": _slogdet,
}


def rules_with_numpy(target: Target) -> dict[str, Rule]:
    """The rules for modules that `gnomon_runtime` loads, which call NumPy's LAPACK."""
    return _rules(target, has_lapack=has_numpy(target))


def _rules_of(target: Target) -> dict[str, Rule]:
    return _rules(target, has_lapack=target.capabilities.host_calls)


def _rules(target: Target, has_lapack: bool) -> dict[str, Rule]:
    def written_out(name: str) -> Rule:
        def rule(inst: Instance) -> Sequence[ir.Value] | None:
            unknowns = _unknowns(inst)
            if unknowns is None:
                return None
            if _is_faster(inst, unknowns, target):
                return _RULES[name](inst)
            by_rows = name == "solve" and target.capabilities.host_memory
            if by_rows and (solution := solve_by_rows(inst)) is not None:
                return solution
            # Without LAPACK, the op would be refused.
            is_only_way = not has_lapack and unknowns <= LARGEST_WITHOUT_LAPACK
            return _RULES[name](inst) if is_only_way else None

        return rule

    return {f"gnomon.{name}": written_out(name) for name in _RULES}


LEGALIZATIONS = (
    Legalization(
        name="small-matrices",
        stage=Stage.PREPARE,
        kind=Kind.SLOW,
        doc=f"write out factorizations and solutions of up to {LARGEST} unknowns, and of up to "
        f"{LARGEST_WITHOUT_LAPACK} where LAPACK cannot be called; on CPUs also of up to "
        f"{LARGEST_IN_LOOPS} in loops if the batch is small, and larger batches row by row",
        upstream="IREE 3.13 has no code for them, and a call of Python and LAPACK takes 15 us",
        reproducer="a loop of 300 solutions of 2 unknowns takes over ten times as long",
        rules=_rules_of,
    ),
)
