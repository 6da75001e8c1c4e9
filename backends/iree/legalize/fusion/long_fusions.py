"""Long elementwise expressions, split into several kernels because a single one compiles slowly.

IREE fuses elementwise ops one pair at a time, each time copying the ops that are already fused. If
values have several uses, the time grows faster than the square of the kernel's size, and so does
that of LLVM's passes over a very long block of code. A chain of 40 sines (46 ops each) took 4 s to
compile and one of 80 took 20 s; the gradient of 100 multiplications and additions took minutes. A
barrier makes the next op start another kernel, so that compile time is proportional to the program.

A *cluster* is a connected set of fused ops, which the compiler makes at most one kernel of. Its
size is the number of ops after lowering. At `MAX_SIZE`, the compile time per op starts to grow. A
kernel of that size computes for longer than it takes to write its results and read them again, and
longer kernels spill registers: 20 sines of 100,000 numbers take 30 ms in kernels of five sines and
49 ms in one kernel; 1000 products of a million numbers take 142 ms in several kernels and 243 ms in
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gnomon.backends.iree.legalize.fusion.wide_fusions import is_fused
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.barrier import optimization_barrier
from gnomon.dialects.body import PLAIN, Body, operands_of, results_of
from gnomon.dialects.contract import ENGINE, bodies_of, instance_of, lookup
from gnomon.dialects.functions import Program, callee, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, Form, cost_of, form_of
from gnomon.dialects.types import type_of

__all__ = ["LEGALIZATIONS", "MAX_SIZE", "split_long_fusions"]

# The most ops of StableHLO in one kernel.
MAX_SIZE = 192
# The number of ops to count for a function, which becomes many instructions.
_FUNCTION_SIZE = 4
_CALL = "func.call"


def split_long_fusions(program: Program, target: Target) -> None:
    """Put barriers between the parts of long expressions of a program, in place."""
    sizes = _Sizes(program)
    for function in program.functions:
        _split(program.body(symbol_name(function)), sizes)


@dataclass(eq=False)
class _Cluster:
    """A connected set of fused ops, a node of a union-find forest.

    Attributes:
      size: the sum of the ops' sizes.
      merged: the cluster into which this one was merged.
    """

    size: int
    merged: _Cluster | None = None

    def whole(self) -> _Cluster:
        """The cluster that contains this one now."""
        root = self
        while root.merged is not None:
            root = root.merged
        # Shorten the path for the next search.
        step = self
        while step.merged is not None:
            step.merged, step = root, step.merged
        return root


def _split(body: Body, sizes: _Sizes) -> None:
    clusters: dict[ir.Value, _Cluster] = {}
    stored: dict[ir.Value, ir.Value] = {}
    # Literals, and values computed from literals alone, are repeated in each kernel.
    literals: set[ir.Value] = set()
    duplicates: dict[tuple[ir.Value, ...], _Cluster] = {}
    for op in body.operations:
        if lookup(op).is_control_flow:
            for inner in bodies_of(op):
                _split(inner, sizes)
            continue
        operands, results = operands_of(op), results_of(op)
        if all(x in literals for x in operands):
            literals.update(results)
            continue
        if op.name not in PLAIN or not is_fused(op.name):
            continue
        own = {x: clusters[x].whole() for x in operands if x in clusters}
        if not own and form_of(op.name) is Form.VIEW:
            # Each kernel reads the stored operand at other indices. IREE 3.13 also refuses some
            # barriers here: of a slice of one element to which a dimension was added.
            continue
        joined, left = _joined(own.values(), sizes.of(op))
        for i, x in enumerate(operands):
            if x in own and own[x] in left:
                if x not in stored:
                    stored[x] = _barrier(x)
                op.operands[i] = stored[x]
        if op.name == _CALL:
            joined = _with_duplicate(joined, duplicates, tuple(op.operands))
        clusters |= dict.fromkeys(results, joined)


def _joined(clusters: Iterable[_Cluster], size: int) -> tuple[_Cluster, set[_Cluster]]:
    """A cluster for an op of a size, merged with those of its operands, smaller ones first.

    Returns:
      The cluster, and the clusters for which it has no room.
    """
    joined, left = _Cluster(size), set[_Cluster]()
    for cluster in sorted(dict.fromkeys(clusters), key=lambda c: c.size):
        if joined.size + cluster.size > MAX_SIZE:
            left.add(cluster)
        else:
            joined.size += cluster.size
            cluster.merged = joined
    return joined, left


def _with_duplicate(
    cluster: _Cluster,
    duplicates: dict[tuple[ir.Value, ...], _Cluster],
    operands: tuple[ir.Value, ...],
) -> _Cluster:
    """The cluster of a call, merged with that of an earlier call of the same operands.

    When the sine and the cosine of one value are inlined, their common part is computed once. This
    connects the two clusters, whether there is room or not.
    """
    duplicate = duplicates.setdefault(operands, cluster).whole()
    if duplicate is not cluster:
        duplicate.size += cluster.size
        cluster.merged = duplicate
    return duplicate


def _barrier(value: ir.Value) -> ir.Value:
    maker = value.owner.operation
    with ir.InsertionPoint.after(maker), maker.location:
        (stored,) = optimization_barrier.build([value], {})
    return stored


@dataclass
class _Sizes:
    """The number of StableHLO ops that the ops of a program are lowered to."""

    program: Program
    _functions: dict[str, int] = field(default_factory=dict)
    _ops: dict[tuple[object, ...], int] = field(default_factory=dict)

    def of(self, op: ir.Operation) -> int:
        """The size of an op without regions."""
        if op.name == _CALL:
            return self._function(callee(op))
        key = (op.name, *(x.type.element_type for x in op.operands))
        if key not in self._ops:
            self._ops[key] = _lowered_size(op)
        return self._ops[key]

    def _function(self, name: str) -> int:
        if name not in self._functions:
            body = self.program.body(name)
            self._functions[name] = sum(
                1 if lookup(op).is_control_flow else self.of(op) for op in body.operations
            )
        return self._functions[name]


def _lowered_size(op: ir.Operation) -> int:
    """The size of an op after lowering, found by lowering it in a separate block."""
    definition = lookup(op)
    if definition.lower is ENGINE or not callable(definition.lower):
        return 1
    body = Body.open([type_of(x) for x in operands_of(op)])
    with ir.InsertionPoint(body.block), ir.Location.unknown():
        definition.lower(instance_of(op, body.arguments))
    return sum(_size(lowered.operation) for lowered in body.block.operations)


def _size(op: ir.Operation) -> int:
    """The size of an op of StableHLO."""
    if op.name == "stablehlo.constant":
        return 0
    return _FUNCTION_SIZE if cost_of(op.name) is Cost.FUNCTION else 1


LEGALIZATIONS = (
    Legalization(
        name="long-fusions",
        stage=Stage.FUSE,
        kind=Kind.SLOW,
        doc="put barriers between the parts of a long elementwise expression",
        upstream="the compile time of IREE 3.13 grows with the square of a kernel's size or faster",
        reproducer="twenty nested sines take over one and a half times the code",
        run=split_long_fusions,
    ),
)
