"""Kernels of scalars, split because they would have more buffers than IREE can bind.

IREE puts scalar ops, those on tensors of one element, into common kernels, whether they read each
other's results or not. Each number that such a kernel reads or writes is a buffer of its own. IREE
binds 32 to a kernel, for CUDA and ROCm 16, but checks that only when the program is loaded
(``binding count 41 > 32`` for a stack of forty numbers computed from one).

IREE forms these kernels at the top level of a function, from its end to its start. A kernel begins
with the last scalar op that is in none yet, takes the scalar ops before it, and passes over other
ops. It ends before an op whose result is read by one that it passed over. A barrier is passed over.
So a kernel ends at a barrier after a scalar op, if the barrier holds that op's result.

This module forms the kernels in the same order, and ends each before it has too many buffers. Some
ops move before IREE forms kernels, because they are fused with the ops that read their results.
Only ops that stay where they are end a kernel here, so kernels may be taken to be longer than they
are, never shorter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.combinators import stablehlo
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, names_of
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "split_scalar_kernels"]

# How many more scalar ops may bring the number of buffers down again after it was too high.
_LOOKAHEAD = 1000
_MOST_OPERANDS = 3

_LITERALS = names_of("stablehlo", Form.CREATION)
# Ops that IREE takes for other types of the same buffer.
_VIEWS = frozenset(f"stablehlo.{name}" for name in ("reshape", "broadcast_in_dim", "transpose"))
# Ops that are never in a kernel of scalars.
_CONTROL = frozenset(
    f"stablehlo.{name}" for name in ("optimization_barrier", "custom_call", "while", "if", "case")
) | {"scf.for", "scf.if", "scf.while"}
# Ops that are not fused with the ops that read their results, and scalar ops if they are small.
_STAYING = frozenset(
    f"stablehlo.{name}" for name in ("dot_general", "reduce", "reduce_window", "convolution")
)
# Ops that IREE does not put into kernels of scalars, or not always.
_UNSURE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("sort", "scatter", "gather", "fft", "dynamic_slice", "dynamic_update_slice"),
        *("rng_bit_generator", "cholesky", "triangular_solve", "concatenate", "return"),
    )
)
_NEVER = _LITERALS | _VIEWS | _CONTROL | _UNSURE


def split_scalar_kernels(module: ir.Module, target: Target) -> bool:
    """Put barriers between scalar ops of a StableHLO module that need many buffers, in place."""
    changed = False
    for function in module.body.operations:
        for region in function.operation.regions:
            for block in region.blocks:
                changed |= _split(block, target.capabilities.max_buffers)
    return changed


def _split(block: ir.Block, limit: int) -> bool:
    ops = [op.operation for op in block.operations]
    scalar = [_is_scalar(op) for op in ops]
    if sum(scalar) * (_MOST_OPERANDS + 1) <= limit:
        return False
    ends = _ends(ops, scalar)
    positions = {op: i for i, op in enumerate(ops)}
    changed = False
    last = len(ops) - 1
    while last >= 0:
        kernel = _kernel(ops, scalar, ends, last, limit)
        if kernel.is_cut:
            _end(ops, kernel, positions)
            changed = True
        last = kernel.before
    return changed


def _is_scalar(op: ir.Operation) -> bool:
    """Whether IREE puts an op into a kernel of scalars."""
    name = op.name
    if not name.startswith("stablehlo.") or name in _NEVER:
        return False
    if len(op.results) != 1 or (len(op.regions) and name not in _STAYING):
        return False
    return _is_single(op.results[0]) and all(_is_single(x) for x in op.operands)


def _is_single(value: ir.Value) -> bool:
    """Whether a value is a tensor of one element."""
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType):
        return False
    return type_.has_static_shape and all(size == 1 for size in type_.shape)


def _ends(ops: Sequence[ir.Operation], scalar: Sequence[bool]) -> dict[int, int]:
    """For each op that stays in its place, the last op whose result it reads, by position.

    No kernel contains scalar ops both after the staying op and at or before that last op.
    """
    ends: dict[int, int] = {}
    makers: dict[ir.Value, int] = {}
    for i, op in enumerate(ops):
        latest = max((makers.get(x, -1) for x in op.operands), default=-1)
        stays = op.name in _CONTROL or (op.name in _STAYING and not scalar[i])
        if stays:
            ends[i] = latest
        # A scalar op with a single user may move into that.
        if stays or (scalar[i] and len(list(_users(op.results[0]))) > 1):
            latest = i
        makers.update(dict.fromkeys(op.results, latest))
    return ends


class _Kernel(NamedTuple):
    """The scalar ops of one kernel.

    Attributes:
      positions: of the ops in their block, the last one first.
      before: the position of the op at which the kernel ends; -1 for the start of the block.
      is_cut: whether the kernel ends there only with a barrier.
    """

    positions: Sequence[int]
    before: int
    is_cut: bool


def _kernel(
    ops: Sequence[ir.Operation],
    scalar: Sequence[bool],
    ends: Mapping[int, int],
    last: int,
    limit: int,
) -> _Kernel:
    """The kernel of at most ``limit`` buffers from the last scalar op up to a position."""
    positions: list[int] = []
    own: set[ir.Operation] = set()
    read: set[ir.Value] = set()
    written = fitting = 0
    end = -1
    for i in range(last, -1, -1):
        if i <= end:
            break
        if not scalar[i]:
            if positions:
                end = max(end, ends.get(i, -1))
            continue
        op = ops[i]
        (result,) = op.results
        written += any(user not in own for user in _users(result))
        read.discard(result)
        read.update(x for x in map(_viewed, op.operands) if not _is_literal(x))
        own.add(op)
        positions.append(i)
        if written + len(read) <= limit:
            fitting = len(positions)
        elif written > limit or len(positions) > fitting + _LOOKAHEAD:
            break
    if fitting < len(positions):
        return _Kernel(positions[:fitting], before=positions[fitting], is_cut=True)
    return _Kernel(positions, before=end, is_cut=False)


def _is_literal(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name in _LITERALS


def _is_computed(value: ir.Value) -> bool:
    """Whether a value is the result of a scalar op."""
    return not isinstance(value.owner, ir.Block) and _is_scalar(value.owner.operation)


def _is_view(value: ir.Value) -> bool:
    """Whether a value is a view of another tensor of one element."""
    maker = value.owner
    if isinstance(maker, ir.Block) or maker.name not in _VIEWS:
        return False
    return _is_single(value) and _is_single(maker.operands[0])


def _viewed(value: ir.Value) -> ir.Value:
    while _is_view(value):
        value = value.owner.operands[0]
    return value


def _users(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops that read a value or a view of it."""
    for use in value.uses:
        user = use.owner.operation
        if len(user.results) == 1 and _is_view(user.results[0]):
            yield from _users(user.results[0])
        else:
            yield user


def _end(
    ops: Sequence[ir.Operation], kernel: _Kernel, positions: Mapping[ir.Operation, int]
) -> None:
    """Put a barrier after the op before a kernel, so that the kernel cannot contain it."""
    before = ops[kernel.before]
    own = {ops[i].results[0] for i in kernel.positions}
    # Other scalar ops whose results the kernel reads must not move into it.
    held = dict.fromkeys(before.results)
    for i in kernel.positions:
        for x in ops[i].operands:
            viewed = _viewed(x)
            if viewed in own or not _is_computed(viewed):
                continue
            # A view that is made after the barrier reads the barrier's result.
            while x != viewed and positions[x.owner.operation] > kernel.before:
                x = x.owner.operands[0]
            held[x] = None
    values = list(held)
    with ir.InsertionPoint.after(before), before.location:
        stored = stablehlo("optimization_barrier", values, [type_of(x) for x in values])
    for value, result in zip(values, stored, strict=True):
        if value == before.results[0]:
            value.replace_all_uses_except(result, result.owner.operation)
            continue
        for use in list(value.uses):
            user = use.owner.operation
            if positions.get(user, -1) > kernel.before:
                user.operands[use.operand_number] = result


LEGALIZATIONS = (
    Legalization(
        name="wide-scalar-kernels",
        stage=Stage.LAST,
        kind=Kind.REFUSED,
        doc="put barriers between scalar ops that read or write many buffers together",
        upstream="IREE 3.13 puts scalar ops into common kernels, binds 32 buffers to a kernel, and "
        "fails when a kernel with more is loaded (``binding count 41 > 32``)",
        issue="https://github.com/iree-org/iree/issues/5152",
        texts=("kernels_with_many_buffers",),
        reproducer="a stack of forty numbers that are computed from one does not load",
        run=split_scalar_kernels,
    ),
)
