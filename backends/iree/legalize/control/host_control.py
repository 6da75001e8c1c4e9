"""Loops and branches on the host: ``stablehlo.while`` and ``case`` become ``scf`` ops.

IREE runs control flow on the host, and the ops between on the device, one submission for each
sequence. By default it keeps a loop's counter on the device too: each iteration computes the
counter there, waits for it, and reads it back to decide whether to continue and where slices start.
Its scheduler also fails most often on such reads in a loop (``failed to solve for timepoint
coverage``).

So a counted loop, with a literal step and a bound that is known before the loop, becomes
``scf.for``, and scalars that only control the program stay on the host: bools and integers of
rank 0 that are computed from literals, counters and each other. Loops on a few numbers become
kernels, counted or not, see `loop_kernels`.

An attribute of the module says that all its values are on a single device. Without it, IREE does
not know where the carries of a loop are, and copies each of them in each iteration. With it,
carries are updated in place; see `in_place`.

A recurrent cell of two matrix products (100 steps, f32[8,32]) took 4.2 ms without these measures,
0.9 ms with the scalars on the host, and 0.5 ms with the attribute, too. Its gradient went from
34 ms to 1.3 ms.

Programs with other loops stay StableHLO, see `guards`. These alternatives were tried and failed:
``scf.while`` with scalars on the host (its regions are pruned differently); blocks with branches,
and barriers around loops (values were freed too early, or overwritten); nested ``scf.for`` whose
innermost one runs at most once (one of 60 random programs did not end).
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.control.emitter import operations, terminator
from gnomon.backends.iree.legalize.control.rewriter import CONTROL_FLOW, Program, Rewriter
from gnomon.dialects.mlir import ir

__all__ = ["has_control_flow", "host_control"]

_AFFINITY = "#hal.device.promise<@__device_0>"


def has_control_flow(module: ir.Module) -> bool:
    """Whether a StableHLO module has loops or branches."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found |= op.name in CONTROL_FLOW
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def host_control(module: ir.Module, *, kernels: bool, guarded: bool = False) -> None:
    """Rewrite a StableHLO module in place; its context must allow the compiler's own dialects.

    Args:
      module: the module.
      kernels: whether small loops become kernels, see `loop_kernels`.
      guarded: whether every array that enters a loop or leaves a branch is copied. IREE rejects
        some programs in which such an array turns out to be a literal or equal to another one.

    Raises:
      OpenLoopError: a loop is neither counted nor small enough for a kernel. The module must not be
        used any more.
    """
    program = Program(kernels, guarded, module.body)
    for function in _functions(module):
        _rewrite_function(function, program)
    module.operation.attributes["stream.affinity"] = ir.Attribute.parse(_AFFINITY)


def _functions(module: ir.Module) -> list[ir.Operation]:
    return [
        op.operation
        for op in module.body.operations
        if op.operation.name == "func.func" and len(op.operation.regions[0].blocks)
    ]


def _rewrite_function(function: ir.Operation, program: Program) -> None:
    (block,) = function.regions[0].blocks
    _erase_unused(block)
    replacement = ir.Operation.create(
        "func.func",
        attributes={name: function.attributes[name] for name in function.attributes},
        regions=1,
        loc=function.location,
        ip=ir.InsertionPoint(function),
    )
    entry = replacement.regions[0].blocks.append(*(a.type for a in block.arguments))
    arguments = dict(zip(block.arguments, entry.arguments, strict=True))
    rewriter = Rewriter(entry, arguments, {}, program)
    rewriter.block(block)
    results = [rewriter.tensor(v) for v in terminator(block).operands]
    rewriter.create("func.return", [], results)
    function.erase()


def _erase_unused(block: ir.Block) -> None:
    """Erase unused operations, loops too, since IREE fails on some unused loops."""
    for op in reversed(operations(block)):
        if len(op.results) and not any(next(iter(r.uses), None) for r in op.results):
            op.erase()
        elif op.name in CONTROL_FLOW:
            for region in op.regions:
                _erase_unused(region.blocks[0])
