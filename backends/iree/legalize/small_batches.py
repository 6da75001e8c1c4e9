"""Batches of small systems in loops, solved row by row instead of called.

A call of LAPACK keeps a loop from becoming a kernel, and waits for the kernels before it. Written
out element by element (`small_matrices`), a large batch of systems of 8 unknowns has too much code
for a kernel. So elimination acts on whole rows here, of all systems at once, in a loop over pivots.
The batch is the last dimension, along which the kernel's vectors run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gnomon.dialects.body import Body
from gnomon.dialects.contract import Instance
from gnomon.dialects.control_flow import scan, while_
from gnomon.dialects.emit import constant, full, full_like, ops, reshape, slice_along, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, form_of
from gnomon.dialects.types import TensorType, type_of

__all__ = ["solve_by_rows"]

_LARGEST = 8
# The most elements of a batch. A loop of ten solutions of 96 and of 64 systems of 8 unknowns, with
# the products that make them, takes 2 ms of processor time; with calls of LAPACK it takes 10. Both
# take the compiler as long.
_MOST = 1 << 13

# Ops of these forms, and some others, keep a loop from becoming a kernel.
_IN_NO_KERNEL_FORMS = (Form.SORT, Form.FOURIER, Form.WINDOW, Form.CALLBACK)
_IN_NO_KERNEL = frozenset(
    f"gnomon.{name}"
    for name in (
        *("scatter", "conv_general_dilated", "lu", "qr", "svd", "eigh", "eigvalsh", "eig"),
        *("cholesky", "triangular_solve", "schur", "geqrf", "householder_product"),
    )
)
_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_I32 = np.dtype(np.int32)


def _is_in_no_kernel() -> bool:
    """Whether the current op is in no loop, or in one that cannot become a kernel."""
    owner, loop = ir.InsertionPoint.current.block.owner, None
    while owner is not None and owner.name != "func.func":
        if owner.name in (scan.full_name, while_.full_name):
            loop = owner.operation
        owner = owner.operation.parent
    if loop is None:
        return True
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found |= op.name in _IN_NO_KERNEL or form_of(op.name) in _IN_NO_KERNEL_FORMS
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    loop.walk(visit)
    return found


def solve_by_rows(inst: Instance) -> Sequence[ir.Value] | None:
    """The rule of ``gnomon.solve``; pivots are chosen as LAPACK does.

    Returns:
      The solutions; None for systems that LAPACK should solve.
    """
    types = (*inst.operand_types, inst.type)
    sizes = [size for t in types for size in t.shape]
    if types[0].dtype not in _REAL or any(not isinstance(size, int) for size in sizes):
        return None
    a, b = inst.operands
    *batch, n, columns = type_of(b).shape
    elements = max(math.prod(t.shape) for t in types)
    if 0 in sizes or n > _LARGEST or elements > _MOST or _is_in_no_kernel():
        return None
    systems = math.prod(batch)
    first = reshape(a, (systems, n, n))
    left = ops.transpose(first, permutation=(2, 1, 0) if inst.params["transpose_a"] else (1, 2, 0))
    right = ops.transpose(reshape(b, (systems, n, columns)), permutation=(1, 2, 0))
    system = ops.concatenate(left, right, dimension=1)
    rows = _eliminated(system)
    solution = _substituted([_row(rows, k) for k in range(n)])
    stacked = ops.concatenate(*[reshape(x, (1, columns, systems)) for x in solution], dimension=0)
    return [reshape(ops.transpose(stacked, permutation=(2, 0, 1)), inst.type.shape)]


def _row(x: ir.Value, i: int) -> ir.Value:
    return reshape(slice_along(x, 0, i, i + 1), type_of(x).shape[1:])


def _eliminated(x: ir.Value) -> ir.Value:
    """The rows of the pivots, each from the pivot's column on.

    It is a loop, since the code of each step would take the compiler a tenth of a second.

    Args:
      x: the rows of all systems, ``[rows, columns, systems]``.
    """
    type_ = type_of(x)
    number = TensorType((), _I32)

    def condition(step: ir.Value, _x: ir.Value, _rows: ir.Value) -> list[ir.Value]:
        return [ops.lt(step, constant(np.int32(type_.shape[0])))]

    def body(step: ir.Value, x: ir.Value, rows: ir.Value) -> list[ir.Value]:
        pivot, rest = _step(x)
        zero = constant(np.int32(0))
        row = reshape(pivot, (1, *type_.shape[1:]))
        rows = ops.dynamic_update_slice(rows, row, step, zero, zero)
        return [ops.add(step, constant(np.int32(1))), rest, rows]

    types = [number, type_, type_]
    operands = [constant(np.int32(0)), x, zeros(type_)]
    _, _, result = while_.build(
        operands,
        {"cond_consts": 0, "body_consts": 0},
        [Body.build(types, condition), Body.build(types, body)],
    )
    return result


def _step(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The row of the pivot, and the other rows without their first elements, which are zero.

    A row and a column of zeros take the places of those that are gone. The row is never chosen,
    since it comes last, and no element is larger.
    """
    n, columns, systems = type_of(x).shape
    wide = (n, columns, systems)
    here = _is_pivot(reshape(slice_along(x, 1, 0, 1), (n, systems)))
    chosen = ops.select(ops.broadcast_in_dim(here, shape=wide, dims=(0, 2)), x, zeros(type_of(x)))
    pivot = ops.reduce_sum(chosen, axes=(0,))
    # The first row takes the place of the pivot's.
    short = (n - 1, columns, systems)
    is_replaced = ops.broadcast_in_dim(slice_along(here, 0, 1, n), shape=short, dims=(0, 2))
    top = ops.broadcast_in_dim(_row(x, 0), shape=short, dims=(1, 2))
    below = ops.select(is_replaced, top, slice_along(x, 0, 1, n))
    heads = reshape(slice_along(below, 1, 0, 1), (n - 1, systems))
    head = ops.broadcast_in_dim(_row(pivot, 0), shape=(n - 1, systems), dims=(1,))
    # Elements below a zero pivot are zero too, and stay.
    factor = ops.select(ops.eq(head, zeros(type_of(head))), heads, ops.div(heads, head))
    shape = (n - 1, columns - 1, systems)
    product = ops.mul(
        ops.broadcast_in_dim(factor, shape=shape, dims=(0, 2)),
        ops.broadcast_in_dim(slice_along(pivot, 0, 1, columns), shape=shape, dims=(1, 2)),
    )
    rest = ops.sub(slice_along(below, 1, 1, columns), product)
    zero = zeros(type_of(x).with_shape(()))
    return pivot, ops.pad(rest, zero, low=(0, 0, 0), high=(1, 1, 0), interior=(0, 0, 0))


def _is_pivot(column: ir.Value) -> ir.Value:
    """Which row of each system has the pivot: the first of the largest elements of its column.

    A nan is never larger than another element, as in LAPACK; but if it is the first, it is the
    pivot.
    """
    type_ = type_of(column)
    numbers = ops.iota(dtype=_I32, shape=type_.shape, dimension=0)
    size = ops.abs(column)
    of_nan = ops.select(
        ops.eq(numbers, full_like(numbers, 0)), full_like(size, np.inf), full_like(size, -1)
    )
    size = ops.select(ops.ne(size, size), of_nan, size)
    largest = ops.broadcast_in_dim(ops.reduce_max(size, axes=(0,)), shape=type_.shape, dims=(1,))
    candidates = ops.select(
        ops.eq(size, largest), numbers, full(type_.with_dtype(_I32), type_.shape[0])
    )
    first = ops.broadcast_in_dim(
        ops.reduce_min(candidates, axes=(0,)), shape=type_.shape, dims=(1,)
    )
    return ops.eq(numbers, first)


def _substituted(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Solve the triangular systems; each row begins at its diagonal, and ends with zeros."""
    n = len(rows)
    solution: list[ir.Value] = []
    for k in reversed(range(n)):
        row = rows[k]
        x = slice_along(row, 0, n - k, type_of(row).shape[0] - k)
        shape = type_of(x).shape
        for j in range(k + 1, n):
            factor = ops.broadcast_in_dim(_row(row, j - k), shape=shape, dims=(1,))
            x = ops.sub(x, ops.mul(factor, solution[n - 1 - j]))
        solution.append(ops.div(x, ops.broadcast_in_dim(_row(row, 0), shape=shape, dims=(1,))))
    return solution[::-1]
