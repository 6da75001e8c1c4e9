"""Closed expressions, made of literals and iotas alone.

IREE fuses an elementwise op that reads no tensor into all users of its result, however many there
are, as it fuses an iota. A closed expression consists of such ops only, so each use copies all of
it: with two uses in each step, twenty steps become a million ops. Random numbers from a key that
the program itself makes are such expressions; they took fifteen seconds to compile, or never ended.

- Small values are evaluated, and become literals: `fold_closed_expressions`.
- In expressions of large values, a zero that the compiler cannot see is added to the iota where
  they start, so that they read a tensor like others: `open_expressions`. It runs on StableHLO,
  where each op becomes one op of IREE's.

An expression that stays short when it is copied is left alone: an iota in a kernel costs nothing,
while a literal is read from memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.attributes import DENSE
from gnomon.dialects.body import Body, erase, operands_of, results_of
from gnomon.dialects.combinators import (
    lowered,
    stablehlo,
    stablehlo_constant,
)
from gnomon.dialects.contract import REGISTRY, Op, bodies_of, lookup, params_of
from gnomon.dialects.emit import constant
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, type_of

__all__ = [
    "LEGALIZATIONS",
    "LEGALIZATIONS_OF_LOWERED",
    "fold_closed_expressions",
    "open_expressions",
]

# An expression with at most this many ops, copies included, is short.
_SHORT = 16
# The most elements of a value that is evaluated, since the executable contains it.
_ELEMENTS = 1 << 14
# A copied expression with up to this many ops hardly slows down the compiler.
_COPIES = 1000

# Besides constants and iotas, ops of these forms are evaluated.
_EVALUATED = (Form.ELEMENTWISE, Form.VIEW, Form.JOIN, Form.REINTERPRETATION)
_CONSTANT = "gnomon.constant"
_RAMP, _LITERAL = "stablehlo.iota", "stablehlo.constant"
# Ops that are lowered to many ops, and the number to count for each.
_LONG = {"gnomon.threefry2x32": _COPIES}


def fold_closed_expressions(program: Program, target: Target) -> None:
    """Replace the small closed expressions of a program by literals, in place."""
    for function in program.functions:
        _fold(program.body(symbol_name(function)))


def _fold(body: Body) -> None:
    # The number of ops in a copy of each closed value.
    lengths: dict[ir.Value, int] = {}
    closed: list[ir.Operation] = []
    for op in body.operations:
        definition = REGISTRY.get(op.name)
        if definition is None:
            continue
        if definition.is_control_flow:
            for inner in bodies_of(op):
                _fold(inner)
            continue
        if not _is_evaluated(op, definition):
            continue
        operands, results = operands_of(op), results_of(op)
        if all(x in lengths for x in operands) and all(_is_small(type_of(r)) for r in results):
            own = 0 if op.name == _CONSTANT else _LONG.get(op.name, 1)
            length = own + sum(lengths[x] for x in operands)
            lengths.update(dict.fromkeys(results, length))
            closed.append(op)
    if any(length > _SHORT for length in lengths.values()):
        _replace(closed, lengths)


def _is_small(type_: TensorType) -> bool:
    return not any_symbolic(type_.shape) and type_.size <= _ELEMENTS


def _is_evaluated(op: ir.Operation, definition: Op) -> bool:
    return definition.form in _EVALUATED or op.name in (_CONSTANT, "gnomon.iota")


def _replace(closed: Sequence[ir.Operation], lengths: Mapping[ir.Value, int]) -> None:
    """Replace the long values that ops outside closed expressions use by literals."""
    long = [op for op in closed if lengths[results_of(op)[0]] > _SHORT]
    known = _evaluated(closed, long)
    # In reverse order: values that only long expressions use then have no uses left.
    for op in reversed(long):
        for result in results_of(op):
            if next(iter(result.uses), None) is not None:
                with ir.InsertionPoint(op), op.location:
                    literal = constant(known[result])
                result.replace_all_uses_with(literal)
        erase(op)


def _evaluated(
    closed: Sequence[ir.Operation], wanted: Sequence[ir.Operation]
) -> dict[ir.Value, np.ndarray]:
    """The values of ops, and of all values that they depend on."""
    needed = {r for op in wanted for r in results_of(op)}
    for op in reversed(closed):
        if any(r in needed for r in results_of(op)):
            needed.update(operands_of(op))
    known: dict[ir.Value, np.ndarray] = {}
    for op in closed:
        results = results_of(op)
        if not any(r in needed for r in results):
            continue
        definition = lookup(op)
        operands = (known[x] for x in operands_of(op))
        with np.errstate(all="ignore"):
            values = definition.evaluate(*operands, **params_of(op, definition))  # type: ignore[operator]
        if definition.results == 1:
            values = [values]
        for result, value in zip(results, values, strict=True):
            known[result] = np.asarray(value, type_of(result).dtype)
    return known


# ------------------------------------------------------------------------------ large expressions


def open_expressions(module: ir.Module, target: Target) -> bool:
    """Make the long closed expressions of a StableHLO module read a tensor, in place."""
    changed = False
    for function in module.body.operations:
        for block in function.operation.regions[0].blocks:
            changed |= _open(block)
    return changed


def _open(block: ir.Block) -> bool:
    changed = False
    for op in block.operations:
        if len(op.regions):
            for region in op.regions:
                for inner in region.blocks:
                    changed |= _open(inner)
    # This ends, since each round makes one more expression read a tensor.
    while (root := _root_of_long(block)) is not None:
        _shift(root)
        changed = True
    return changed


def _root_of_long(block: ir.Block) -> ir.Operation | None:
    """The start of a long closed expression: its first iota, or else its first literal."""
    lengths: dict[ir.Value, int] = {}
    roots: dict[ir.Value, ir.Operation] = {}
    for op in block.operations:
        name = op.name
        if name in (_RAMP, _LITERAL):
            if name == _RAMP or ir.DenseElementsAttr(op.attributes["value"]).is_splat:
                lengths[op.results[0]] = int(name == _RAMP)
                roots[op.results[0]] = op.operation
            continue
        # The first test is the cheaper one, and false for nearly all ops.
        operands = op.operands
        if len(operands) and operands[0] not in lengths:
            continue
        if not lengths.keys() >= set(operands) or not _is_fused(op.operation):
            continue
        (result,) = op.results
        lengths[result] = 1 + sum(lengths[x] for x in operands)
        starts = [roots[x] for x in operands]
        roots[result] = next((r for r in starts if r.name == _RAMP), starts[0])
        if lengths[result] > _COPIES:
            return roots[result]
    return None


def _is_fused(op: ir.Operation) -> bool:
    if op.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose"):
        return True
    if op.name == "stablehlo.optimization_barrier" or len(op.regions) or len(op.results) != 1:
        return False
    shape = type_of(op.results[0]).shape
    return bool(len(op.operands)) and all(type_of(x).shape in (shape, ()) for x in op.operands)


def _shift(root: ir.Operation) -> None:
    """Replace an iota or a literal by an equal value that the compiler cannot fold."""
    (result,) = root.results
    type_ = type_of(result)
    with ir.InsertionPoint.after(root), root.location:
        if root.name == _LITERAL:
            value = DENSE.decode(root.attributes["value"]).flat[0]
        else:
            value = 0
        scalar = type_.with_shape(())
        literal = stablehlo_constant(np.asarray(value, type_.dtype))
        (hidden,) = stablehlo("optimization_barrier", [literal], [scalar])
        opened = lowered.broadcast_in_dim(hidden, shape=type_.shape, dims=())
        made = [hidden.owner, opened.owner]
        if root.name == _RAMP:
            opened = lowered.add(result, opened)
            made.append(opened.owner)
    result.replace_all_uses_except(opened, [op.operation for op in made])


_COPIED = (
    "IREE 3.13 copies an elementwise op that reads no tensor into each of its users: compile time "
    "grows exponentially with the length of such an expression"
)

LEGALIZATIONS = (
    Legalization(
        name="fold-closed-expressions",
        stage=Stage.PREPARE,
        kind=Kind.SLOW,
        doc="evaluate long expressions of literals and iotas alone, where the value is small",
        upstream=_COPIED,
        reproducer="two sines of an iota make over ten kernels instead of one",
        run=fold_closed_expressions,
    ),
)

LEGALIZATIONS_OF_LOWERED = (
    Legalization(
        name="open-closed-expressions",
        stage=Stage.LOWERED,
        kind=Kind.SLOW,
        doc="add a hidden zero at the start of a long expression of literals and iotas",
        upstream=_COPIED,
        reproducer="two sines of an iota make over ten kernels instead of one",
        run=open_expressions,
    ),
)
