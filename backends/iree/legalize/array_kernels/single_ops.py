"""Selections and scatters outside of loops as kernels of their own.

IREE 3.13 has no stable sort, and scatters number by number, beyond the bounds of the array too. So
the rules of kernels of vector code write these ops alone, each as a kernel with one thread. A sum
of 16384 rows of 32 numbers in 512 segments takes 80 us, where IREE's kernels took 490 on the same
busy machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gnomon.backends.iree.legalize.array_kernels.code import Kernel
from gnomon.backends.iree.legalize.array_kernels.executable import dispatch, write_kernel
from gnomon.backends.iree.legalize.array_kernels.layout import View
from gnomon.backends.iree.legalize.array_kernels.selections import kept_count, sort
from gnomon.backends.iree.legalize.array_kernels.updates import scatter
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.legalize.loop_kernels.attributes import integer
from gnomon.backends.iree.legalize.loop_kernels.loop_kernel import as_stored, as_unstored
from gnomon.backends.iree.targets import Target
from gnomon.dialects.mlir import ir, other_dialects
from gnomon.dialects.types import TensorType

__all__ = ["LEGALIZATIONS", "MOST_SELECTED", "has_scatter_kernels", "selects"]

_SORT, _SCATTER, _SLICE = "stablehlo.sort", "stablehlo.scatter", "stablehlo.slice"
_PREFIX = "gnomon_op_"
# The dtypes of the arrays that kernels scatter into, and their types in MLIR. Other dtypes are
# stored as one of these, except complex numbers.
_SCATTERED = {
    "float32": "f32",
    "float64": "f64",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
}

MOST_SELECTED = 64
"""The most elements of a row that a kernel selects.

If a row is in the reverse order, each of its n elements moves all k of the list. The 64 largest of
10^6 numbers take at most 40 ms then, twice as long as a sort by NumPy, and 1 ms in a random order.
"""


def selects(type_: TensorType, k: int, target: Target) -> bool:
    """Whether a kernel selects the ``k`` first of the rows of an array of integer keys."""
    return target.capabilities.host_memory and k <= MOST_SELECTED and _is_static(type_)


def has_scatter_kernels(dtype: np.dtype, target: Target) -> bool:
    """Whether a kernel scatters numbers of a dtype, and skips those that are out of bounds."""
    return target.capabilities.host_memory and dtype.name in _SCATTERED


def _is_static(type_: TensorType) -> bool:
    return all(isinstance(n, int) for n in type_.shape)


def write_single_ops(module: ir.Module, target: Target) -> bool:
    """Replace the selections and scatters of a module by kernels, in place."""
    del target
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if (op.name == _SCATTER and _is_scattered(op)) or (op.name == _SORT and _is_stable(op)):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    numbers = itertools.count()
    with other_dialects(module.context):
        for op in found:
            _write(op, f"{_PREFIX}{next(numbers)}", module.body)
    return bool(found)


def _is_scattered(op: ir.Operation) -> bool:
    """Whether `has_scatter_kernels` is true of a scatter."""
    return str(op.operands[0].type.element_type) in _SCATTERED.values()


def _is_stable(op: ir.Operation) -> bool:
    """Whether equal elements keep their order, which is so in selections, and in no other sort."""
    # Without the attribute, as in programs read from an artifact, a sort is not stable.
    return "is_stable" in op.attributes and ir.BoolAttr(op.attributes["is_stable"]).value


def _write(op: ir.Operation, name: str, module: ir.Block) -> None:
    inputs = [v.type for v in op.operands]
    outputs = [_output(op, r.type) for r in op.results]

    def write(kernel: Kernel, targets: Sequence[View]) -> None:
        kernel.current = op.block
        if op.name == _SORT:
            sort(kernel, op, targets)
        else:
            scatter(kernel, op, targets[0])

    with op.location:
        scratch = write_kernel(name, list(op.operands), inputs, outputs, write, {}, module)
        operands = [as_stored(v, op) for v in op.operands]
        with ir.InsertionPoint(op):
            stored = dispatch(name, operands, outputs, scratch)
        results = [as_unstored(v, t, op) for v, t in zip(stored, outputs, strict=False)]
    for old, new in zip(op.results, results, strict=True):
        _replace(old, new)
    op.erase()


def _output(op: ir.Operation, type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of a result, without the elements that are not read."""
    if op.name != _SORT:
        return type_
    shape = list(type_.shape)
    shape[integer(op, "dimension")] = max(1, kept_count(op))
    return ir.RankedTensorType.get(shape, type_.element_type)


def _replace(old: ir.Value, new: ir.Value) -> None:
    """Replace a value by another one, which may lack the end of its rows."""
    if old.type == new.type:
        old.replace_all_uses_with(new)
        return
    for use in list(old.uses):
        user = use.owner.operation
        assert user.name == _SLICE
        if user.results[0].type == new.type:
            user.results[0].replace_all_uses_with(new)
            user.erase()
        else:
            user.operands[0] = new


LEGALIZATIONS = (
    Legalization(
        name="single-op-kernels",
        stage=Stage.COMPILER_OPS,
        kind=Kind.MISCOMPILED,
        doc="write selections of the first few of a row, and scatters of rows, as kernels",
        upstream="IREE 3.13's sort is not stable, and its scatter writes beyond the array",
        texts=("stable_sorts",),
        reproducer="the positions of the largest of equal numbers are wrong",
        targets=Targets.where(host_memory=True),
        run=write_single_ops,
        needs=frozenset({_SORT, _SCATTER}),
    ),
)
