"""Repeated steps of small ops, rolled into a loop.

Tracing unrolls a Python loop: five hundred steps of a product and a function are a thousand ops,
each a kernel to compile and to launch. As a loop they are compiled once, and the loop becomes one
kernel (`array_kernels`). So if a program repeats the same ops, each time on the results of the
repetition before, the repetitions become a loop.

Only steps of small ops are rolled. With more work in each op, launching a kernel costs little, and
kernels with several threads are faster. Elementwise ops are fused, so steps of them alone are few
kernels; they are rolled if together they compute many functions, whose code the compiler would
generate once for each: 200 sines take it 7 s, and 200 error functions 36.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.targets import Target
from gnomon.dialects.body import PLAIN, Body, clone_into, erase
from gnomon.dialects.contract import has_effects, is_literal, lookup, params_of
from gnomon.dialects.control_flow import while_
from gnomon.dialects.emit import constant, ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Cost, Form, cost_of, form_of
from gnomon.dialects.types import type_of

__all__ = ["LEAST_FUNCTIONS", "LEAST_STEPS", "LEGALIZATIONS", "roll_chains"]

logger = logging.getLogger(__name__)

# The least number of equal steps that become a loop, and the most ops of a step.
LEAST_STEPS = 8
_LONGEST_STEP = 64
# Limits on the elements of a value, the multiplications of a contraction, and the bytes of all
# values of a step, within which `array_kernels` makes a kernel of the loop.
_ELEMENTS = 1 << 12
_MULTIPLICATIONS = 1 << 16
_BYTES = 1 << 17
# The least number of functions that are worth a loop of elementwise ops.
LEAST_FUNCTIONS = 32
# The most times that an op is compared, on average.
_COMPARISONS = 40

# Ops of these forms, and products, are separate kernels.
_STARTS_KERNEL = (Form.REDUCTION, Form.CONTRACTION)
# Besides elementwise ops and small products, ops of these forms may be rolled.
_ROLLED = (Form.ELEMENTWISE, Form.REDUCTION, Form.VIEW, Form.JOIN)
_OTHERS = frozenset(
    f"gnomon.{name}" for name in ("dot_general", "iota", "dynamic_slice", "dynamic_update_slice")
)


@dataclass
class _Left:
    """The number of comparisons of ops that are left before the search ends."""

    comparisons: int


@dataclass
class _Run:
    """Equal steps.

    Attributes:
      start: the position of the first op.
      size: the number of ops of a step.
      steps: the number of steps.
      handed: for each operand of each op, the position of the op in the step before that computed
        it; None if it was computed in the same step or outside.
    """

    start: int
    size: int
    steps: int
    handed: list[list[int | None]]


def roll_chains(program: Program, target: Target) -> None:
    """Roll the repeated steps of a program's main function, in place."""
    body = program.body("main")
    kept = [op for op in body.operations if not is_literal(op)]
    if len(kept) < 2 * LEAST_STEPS:
        return
    for sequence in _sequences(kept):
        _roll(sequence)


def _sequences(operations: Sequence[ir.Operation]) -> Iterator[list[ir.Operation]]:
    """The longest sequences of ops that may be rolled."""
    sequence: list[ir.Operation] = []
    for op in operations:
        if _is_small(op):
            sequence.append(op)
            continue
        yield sequence
        sequence = []
    yield sequence


def _is_small(op: ir.Operation) -> bool:
    if op.name not in PLAIN or len(op.results) != 1 or has_effects(op):
        return False
    definition = lookup(op)
    if definition.form not in _ROLLED and op.name not in _OTHERS:
        return False
    types = [type_of(v) for v in (*op.operands, *op.results)]
    if any(not isinstance(n, int) for t in types for n in t.shape):
        return False
    if any(t.size > _ELEMENTS or t.dtype.kind not in "fiubc" for t in types):
        return False
    if op.name == "gnomon.dot_general":
        depth = math.prod(types[0].shape[d] for d in params_of(op, definition)["lhs_contracting"])
        return types[-1].size * depth <= _MULTIPLICATIONS
    return True


def _roll(sequence: list[ir.Operation]) -> None:
    if len(sequence) < 2 * LEAST_STEPS:
        return
    numbers: dict[object, int] = {}
    kinds = np.array([numbers.setdefault(_kind(op), len(numbers)) for op in sequence])
    places = {op.results[0]: i for i, op in enumerate(sequence)}
    at, left = 0, _Left(_COMPARISONS * len(sequence))
    while at + 2 * LEAST_STEPS <= len(sequence):
        run = _first_run(sequence, kinds, places, at, left)
        if run is None:
            return
        _replace(sequence, run)
        at = run.start + run.size * run.steps


def _kind(op: ir.Operation) -> object:
    """The part of an op that equal ops share: everything except the values of its operands."""
    attributes = tuple((name, op.attributes[name]) for name in sorted(op.attributes))
    return (op.name, attributes, *(v.type for v in (*op.operands, *op.results)))


def _first_run(
    sequence: list[ir.Operation],
    kinds: np.ndarray,
    places: dict[ir.Value, int],
    start: int,
    left: _Left,
) -> _Run | None:
    """The first run of equal steps from a position on, with the shortest step."""
    for size in range(1, min(_LONGEST_STEP, (len(sequence) - start) // LEAST_STEPS) + 1):
        same = kinds[start:-size] == kinds[start + size :]
        # Find ops that differ from the op one step later; between them are the candidates.
        breaks = np.concatenate([[-1], np.flatnonzero(~same), [len(same)]])
        for before, after in itertools.pairwise(breaks):
            if after - before - 1 < (LEAST_STEPS - 1) * size:
                continue
            first, last = start + int(before) + 1, start + int(after) + size
            for offset in range(size):
                most = (last - first - offset) // size
                left.comparisons -= most * size
                if left.comparisons < 0:
                    return None
                run = _run(sequence, places, first + offset, size, most)
                if run is not None:
                    return run
    return None


def _run(
    sequence: list[ir.Operation], places: dict[ir.Value, int], start: int, size: int, most: int
) -> _Run | None:
    """The run of steps whose corresponding operands have corresponding origins.

    Two operands correspond if they are the same value, or if ops at the same position of their own
    step, or of the step before, computed them.
    """
    step = sequence[start:][:size]
    if most < LEAST_STEPS or not _is_worth_it(step, most):
        return None

    def origin(k: int, value: ir.Value) -> object:
        """Where an operand of step ``k`` comes from."""
        at = places.get(value, -1) - start
        if at < (k - 1) * size or at < 0:
            return value
        return at - k * size

    expected = [[origin(1, v) for v in op.operands] for op in sequence[start + size :][:size]]
    steps = 1
    while steps < most:
        here = sequence[start + steps * size :][:size]
        if [[origin(steps, v) for v in op.operands] for op in here] != expected:
            break
        steps += 1
    if steps < LEAST_STEPS or not _is_worth_it(step, steps):
        return None
    # The first step has no step before it: there, such operands may be any values from outside.
    for op, origins in zip(sequence[start:][:size], expected, strict=True):
        for value, place in zip(op.operands, origins, strict=True):
            first = origin(0, value)
            if isinstance(place, int) and place < 0:
                if isinstance(first, int):
                    return None
            elif first != place:
                return None
    handed = [[p + size if isinstance(p, int) and p < 0 else None for p in o] for o in expected]
    run = _Run(start, size, steps, handed)
    return run if _is_rolled(sequence, run) else None


def _is_worth_it(step: list[ir.Operation], steps: int) -> bool:
    """Whether so many steps are many kernels, or compute many functions."""
    if any(form_of(op.name) in _STARTS_KERNEL for op in step):
        return True
    functions = sum(cost_of(op.name) is Cost.FUNCTION for op in step)
    return functions * steps >= LEAST_FUNCTIONS


def _is_rolled(sequence: list[ir.Operation], run: _Run) -> bool:
    """Whether a step's values are small in total, and only the next step reads them.

    The values that the last step passes on may be read by any op.
    """
    carried = _carried(run)
    if not carried:
        return False
    step = sequence[run.start :][: run.size]
    inside = {op.results[0]: i for i, op in enumerate(sequence[run.start :][: _length(run)])}
    for value, i in inside.items():
        is_last = i // run.size == run.steps - 1
        for use in value.uses:
            user = use.owner.operation.results
            at = inside.get(user[0]) if len(user) == 1 else None
            if at is None and not (is_last and i % run.size in carried):
                return False
    types = {v: type_of(v) for op in step for v in (*op.operands, *op.results)}
    return sum(t.nbytes for t in types.values()) <= _BYTES


def _length(run: _Run) -> int:
    return run.size * run.steps


def _carried(run: _Run) -> list[int]:
    """The positions of the ops whose results the next step reads."""
    return sorted({p for places in run.handed for p in places if p is not None})


def _replace(sequence: list[ir.Operation], run: _Run) -> None:
    """Replace the steps of a run by a loop."""
    step = sequence[run.start :][: run.size]
    last = sequence[run.start + _length(run) - run.size :][: run.size]
    carried = _carried(run)
    initial: dict[int, ir.Value] = {}
    for op, places in zip(step, run.handed, strict=True):
        for value, place in zip(op.operands, places, strict=True):
            if place is None:
                continue
            if initial.setdefault(place, value) != value:
                # The later steps use one value where the first uses two, so the first is not
                # rolled.
                first = run.size
                _replace(sequence, _Run(run.start + first, run.size, run.steps - 1, run.handed))
                return
    step_results = {op.results[0] for op in step}
    outside = list(
        dict.fromkeys(
            v
            for op, places in zip(step, run.handed, strict=True)
            for v, place in zip(op.operands, places, strict=True)
            if place is None and v not in step_results
        )
    )
    with ir.InsertionPoint(last[-1]), last[-1].location:
        results = _loop(step, run, carried, [initial[p] for p in carried], outside)
    for place, value in zip(carried, results, strict=True):
        last[place].results[0].replace_all_uses_with(value)
    for op in reversed(sequence[run.start :][: _length(run)]):
        erase(op)
    logger.debug("%d steps of %d ops are a loop", run.steps, run.size)


def _loop(
    step: list[ir.Operation],
    run: _Run,
    carried: list[int],
    initial: list[ir.Value],
    outside: list[ir.Value],
) -> list[ir.Value]:
    start = constant(np.int32(0))
    types = [type_of(v) for v in (start, *initial)]

    def running(counter: ir.Value, *carries: ir.Value) -> list[ir.Value]:
        del carries
        return [ops.lt(counter, constant(np.int32(run.steps)))]

    def body(*arguments: ir.Value) -> list[ir.Value]:
        consts, counter = arguments[: len(outside)], arguments[len(outside)]
        state = dict(zip(carried, arguments[len(outside) + 1 :], strict=True))
        env = dict(zip(outside, consts, strict=True))
        results: list[ir.Value] = []
        for op, places in zip(step, run.handed, strict=True):
            own = dict(env)
            for value, place in zip(op.operands, places, strict=True):
                if place is not None:
                    own[value] = state[place]
            (result,) = clone_into(op, own)
            env[op.results[0]] = result
            results.append(result)
        return [ops.add(counter, constant(np.int32(1))), *(results[p] for p in carried)]

    values = while_.build(
        [*outside, start, *initial],
        {"cond_consts": 0, "body_consts": len(outside)},
        [
            Body.build(types, running),
            Body.build([*(type_of(v) for v in outside), *types], body),
        ],
    )
    return list(values[1:])


LEGALIZATIONS = (
    Legalization(
        name="rolled-chains",
        stage=Stage.PREPARE,
        kind=Kind.SLOW,
        doc="roll repeated steps of small ops into a loop, which becomes one kernel",
        upstream="IREE 3.13 compiles and launches the kernels of each step, a microsecond each",
        reproducer="a product and a function, forty times, are over ten times as many kernels",
        targets=Targets.where(host_memory=True),
        run=roll_chains,
    ),
)
