"""A cheap estimate of a program's cost: for users, and for choosing how to run it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import Op, bodies_of, lookup, params_of
from gnomon.dialects.control_flow import while_
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic import polynomials
from gnomon.dialects.symbolic.dimension import Dimension, any_symbolic, substituted
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, type_of

# The trip count that is assumed for a loop whose trip count is not known.
UNKNOWN_TRIP_COUNT = 100
# A contraction is large if its rows, columns and contracted elements are all at least this many.
LARGE = 64
# Operations that one thread computes.
_SERIAL = (Form.SCATTER, Form.SORT)
# The size that is assumed for a variable of symbolic dimensions.
ASSUMED_SIZE = 32


@dataclass
class Cost:
    """The approximate cost of a program.

    Attributes:
      flops: arithmetic operations; see `work_rules.Work`.
      transcendentals: evaluations of functions such as exp and sqrt.
      bytes_accessed: bytes of operands and results, as if a fused kernel accessed each once.
      dispatches: the number of kernels, run one after another.
      operations: the flops of contractions, and the numbers that other ops compute or move.
      traffic: the bytes that arguments, results and kernels access, each counted for itself.
      contraction_flops: flops in large unbatched contractions outside of control flow.
      batched_flops: flops in batched contractions.
      product_flops: flops in all contractions.
      serial_operations: the part of `operations` that runs in one thread.
      serial_bytes: bytes that these access; they are not in `traffic`.
    """

    flops: float = 0.0
    transcendentals: float = 0.0
    bytes_accessed: float = 0.0
    dispatches: float = 0.0
    operations: float = 0.0
    traffic: float = 0.0
    contraction_flops: float = 0.0
    batched_flops: float = 0.0
    product_flops: float = 0.0
    serial_operations: float = 0.0
    serial_bytes: float = 0.0

    def analysis(self) -> dict[str, float]:
        """The figures for users, by the names of XLA's analysis, and the dispatches."""
        return {
            "flops": self.flops,
            "transcendentals": self.transcendentals,
            "bytes accessed": self.bytes_accessed,
            "dispatches": self.dispatches,
        }

    def add(self, other: Cost, times: float = 1.0) -> None:
        """Add ``times`` another cost, except its ``contraction_flops``."""
        self.flops += times * other.flops
        self.transcendentals += times * other.transcendentals
        self.bytes_accessed += times * other.bytes_accessed
        self.dispatches += times * other.dispatches
        self.operations += times * other.operations
        self.traffic += times * other.traffic
        self.batched_flops += times * other.batched_flops
        self.product_flops += times * other.product_flops
        self.serial_operations += times * other.serial_operations
        self.serial_bytes += times * other.serial_bytes


def _assumed(size: Any) -> Any:
    """A parameter, with `ASSUMED_SIZE` for the variables of sizes that are symbolic."""
    if isinstance(size, tuple):
        return tuple(map(_assumed, size))
    if not isinstance(size, Dimension):
        return size
    names = polynomials.variables(size.polynomial)
    return substituted(size.polynomial, dict.fromkeys(names, ASSUMED_SIZE))


def _sized(type_: TensorType) -> TensorType:
    if not any_symbolic(type_.shape):
        return type_
    return type_.with_shape(tuple(max(_assumed(n), 0) for n in type_.shape))


def estimate(body: Body) -> Cost:
    """The cost of a body without calls.

    Elementwise ops are assumed to fuse and count as arithmetic only. Contractions, reductions and
    data movement count as kernels with memory traffic.
    """
    total = Cost()
    accessed: set[ir.Value] = set()
    for op in body.operations:
        definition = lookup(op)
        if definition.is_control_flow:
            times = _trip_count(op, definition)
            for inner in bodies_of(op):
                total.add(estimate(inner), times)
            total.dispatches += times
            continue
        cost = _cost_of(op, definition)
        total.add(cost)
        total.contraction_flops += cost.contraction_flops
        if cost.dispatches:
            accessed.update(operands_of(op), results_of(op))
    ends = [*body.arguments, *body.results]
    sizes = [_sized(type_of(value)).nbytes for value in ends]
    total.traffic += sum(sizes)
    # A kernel has accessed the others, and counts them.
    fused = (value not in accessed for value in ends)
    total.bytes_accessed += sum(itertools.compress(sizes, fused))
    total.dispatches += 1
    return total


def operation_costs(body: Body, times: float = 1.0) -> Iterator[tuple[ir.Operation, Cost]]:
    """Yield each operation of a body, nested ones included, with the cost of all its executions.

    Args:
      body: a body without calls.
      times: the number of times that the body runs.
    """
    for op in body.operations:
        definition = lookup(op)
        if definition.is_control_flow:
            for inner in bodies_of(op):
                yield from operation_costs(inner, times * _trip_count(op, definition))
        else:
            cost = Cost()
            cost.add(_cost_of(op, definition), times)
            yield op, cost


def _trip_count(op: ir.Operation, definition: Op) -> float:
    if definition is while_:
        return UNKNOWN_TRIP_COUNT
    return float(_assumed(params_of(op, definition).get("length", 1)))


def _cost_of(op: ir.Operation, definition: Op) -> Cost:
    """The cost of one execution of an operation other than control flow."""
    results = [_sized(type_of(r)) for r in results_of(op)]
    operands = [_sized(type_of(o)) for o in operands_of(op)]
    params = {name: _assumed(value) for name, value in params_of(op, definition).items()}
    work = definition.work(operands, results, **params)
    total = Cost(flops=work.flops, transcendentals=work.transcendentals)
    size = max((t.size for t in (*results, *operands)), default=0)
    is_contraction = definition.form is Form.CONTRACTION
    total.operations = work.flops if is_contraction else size
    if definition.name == "dot_general":
        total.product_flops = work.flops
        depth = math.prod(operands[0].shape[d] for d in params["lhs_contracting"])
        rows, columns = (t.size / max(depth, 1) for t in operands)
        if params["lhs_batch"]:
            total.batched_flops = work.flops
        elif min(rows, columns, depth) >= LARGE:
            total.contraction_flops = work.flops
    if is_contraction or definition.form in _SERIAL or any(t.size != size for t in operands):
        total.dispatches = 1
        total.bytes_accessed = sum(t.nbytes for t in (*operands, *results))
        if definition.form in _SERIAL:
            total.serial_operations = size
            total.serial_bytes = total.bytes_accessed
        else:
            total.traffic = total.bytes_accessed
    return total
