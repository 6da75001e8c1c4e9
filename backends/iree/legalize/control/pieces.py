"""Splitting a StableHLO program into steps and pieces, see `steps`.

``main`` and the blocks of the chosen loops and branches are cut at the steps that they contain. The
ops between two cuts become a function, a piece. Its arguments are the values from outside that it
uses, and its results are its values that are used outside. Other pieces may use the arguments too,
so a piece updates copies of them. Literals are not passed but repeated in each piece, so that the
compiler can fold them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from gnomon.backends.iree.legalize.control.counters import counter_of
from gnomon.backends.iree.legalize.control.emitter import operations, terminator
from gnomon.backends.iree.reflection import STEPS
from gnomon.backends.iree.steps import (
    Block,
    Branch,
    Call,
    Loop,
    Piece,
    Step,
    to_text,
)
from gnomon.dialects.mlir import context, ir

__all__ = ["Choice", "calls_python", "every_step", "split_into_pieces", "steps_for_order"]

_WHILE, _CASE, _CALL = "stablehlo.while", "stablehlo.case", "func.call"
_CONSTANT = "stablehlo.constant"
_TABLE = "iree.reflection"

Choice: TypeAlias = "Callable[[ir.Operation], bool]"
"""Whether an op is a step, at which its block is cut."""


# ---------------------------------------------------------------------------- which ops are steps


def calls_python(op: ir.Operation) -> bool:
    """Whether an op calls a host function."""
    return op.name == _CALL and _callee(op).startswith("host.")


def every_step(op: ir.Operation) -> bool:
    """Choose all loops, branches and calls of Python, leaving no control flow to the compiler."""
    return op.name in (_WHILE, _CASE) or calls_python(op)


def steps_for_order(effects: frozenset[str]) -> Choice:
    """Choose the fewest steps that keep the order of calls.

    These are the calls with effects, and the control flow around them. A loop that is not counted
    is also a step if it contains any call, and so is one that calls Python in its condition.

    Args:
      effects: the symbols of the host functions with effects.
    """
    return partial(_keeps_order, effects)


def _keeps_order(effects: frozenset[str], op: ir.Operation) -> bool:
    if op.name == _CALL:
        return _callee(op) in effects
    if op.name not in (_WHILE, _CASE):
        return False
    if any(_keeps_order(effects, inner) for inner in _inside(op)):
        return True
    if op.name == _CASE:
        return False
    cond, body = (region.blocks[0] for region in op.regions)
    if counter_of(cond, body) is None:
        return any(map(calls_python, _inside(op)))
    return any(calls_python(inner) for inner in _below(cond))


def _callee(op: ir.Operation) -> str:
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def _below(block: ir.Block) -> Iterator[ir.Operation]:
    for op in block.operations:
        yield op.operation
        yield from _inside(op.operation)


def _inside(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            yield from _below(block)


# --------------------------------------------------------------------------------------- the pieces


@dataclass
class _Draft:
    """A piece while its arguments and results are collected, in order and without repeats."""

    operations: list[ir.Operation] = field(default_factory=list)
    literals: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    inputs: dict[ir.Value, None] = field(default_factory=dict)
    outputs: dict[ir.Value, None] = field(default_factory=dict)


@dataclass
class _StepDraft:
    """A step, with its blocks."""

    op: ir.Operation
    blocks: list[_DraftBlock]


@dataclass
class _DraftBlock:
    """A block, cut into pieces and steps."""

    block: ir.Block
    items: list[_Draft | _StepDraft]

    @property
    def results(self) -> list[ir.Value]:
        """The operands of its terminator."""
        return list(terminator(self.block).operands)


def split_into_pieces(module: ir.Module, is_step: Choice) -> bool:
    """Split ``main`` in place if it contains a step, and return whether it does.

    ``main`` then becomes an empty function, with the steps as reflection data.
    """
    main = next(
        op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
        and ir.StringAttr(op.operation.attributes["sym_name"]).value == "main"
    )
    (block,) = main.regions[0].blocks
    if not any(is_step(op.operation) for op in block.operations):
        return False
    program = _Splitter(main, is_step).program(block)
    attributes = {name: main.attributes[name] for name in main.attributes}
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], [], context()), context())
    known = attributes.get(_TABLE)
    entries = {e.name: e.attr for e in ir.DictAttr(known)} if known is not None else {}
    entries[STEPS] = ir.StringAttr.get(to_text(program), context())
    attributes[_TABLE] = ir.DictAttr.get(entries, context())
    for name in ("arg_attrs", "res_attrs"):
        attributes.pop(name, None)
    _function(attributes, [], main, lambda arguments: [])
    main.erase()
    return True


def _function(
    attributes: dict[str, ir.Attribute],
    inputs: Sequence[ir.Value],
    before: ir.Operation,
    emit: Callable[[Sequence[ir.Value]], Sequence[ir.Value]],
) -> None:
    function = ir.Operation.create(
        "func.func",
        attributes=attributes,
        regions=1,
        loc=before.location,
        ip=ir.InsertionPoint(before),
    )
    block = function.regions[0].blocks.append(
        *(v.type for v in inputs), arg_locs=[before.location] * len(inputs)
    )
    with ir.InsertionPoint(block), before.location:
        ir.Operation.create("func.return", operands=list(emit(list(block.arguments))))


class _Splitter:
    """Cuts blocks, collects the arguments and results of pieces, and writes steps and pieces."""

    def __init__(self, main: ir.Operation, is_step: Choice) -> None:
        self._main = main
        self._is_step = is_step
        self._slots: dict[ir.Value, int] = {}
        self._slot_count = 0
        # Where the results of ops in pieces are computed.
        self._producers: dict[ir.Value, _Draft] = {}
        self._literals: dict[ir.Value, ir.Operation] = {}
        self._pieces = 0

    def program(self, block: ir.Block) -> Block:
        """Split the block of a function."""
        draft = self._split(block)
        self._collect_values(draft)
        return self._block(draft, [self._slot(a) for a in block.arguments])

    # ------------------------------------------------------------------------------- splitting

    def _split(self, block: ir.Block) -> _DraftBlock:
        items: list[_Draft | _StepDraft] = []
        draft = _Draft()
        for op in operations(block):
            if self._is_step(op):
                items += [
                    draft,
                    _StepDraft(op, [self._split(region.blocks[0]) for region in op.regions]),
                ]
                draft = _Draft()
                continue
            draft.operations.append(op)
            self._producers.update(dict.fromkeys(op.results, draft))
            if op.name == _CONSTANT:
                self._literals[op.results[0]] = op
        return _DraftBlock(block, [*items, draft])

    # ---------------------------------------------------------------------- inputs and outputs

    def _collect_values(self, block: _DraftBlock) -> None:
        """Collect the arguments and results of the pieces in a block."""
        for item in block.items:
            if isinstance(item, _Draft):
                for op in item.operations:
                    for value in _used(op):
                        self._require(value, item)
            else:
                for value in item.op.operands:
                    self._require(value, None)
                for inner in item.blocks:
                    self._collect_values(inner)
        for value in block.results:
            self._require(value, None)

    def _require(self, value: ir.Value, user: _Draft | None) -> None:
        producer = self._producers.get(value)
        if user is not None:
            if producer is user:
                return
            if value in self._literals:
                user.literals[value] = self._literals[value]
                return
            user.inputs[value] = None
        if producer is not None:
            producer.outputs[value] = None

    # ------------------------------------------------------------------------------------- writing

    def _slot(self, value: ir.Value) -> int:
        if value not in self._slots:
            self._slots[value] = self._new_slot()
        return self._slots[value]

    def _new_slot(self) -> int:
        self._slot_count += 1
        return self._slot_count - 1

    def _slots_of(self, values: Sequence[ir.Value] | dict[ir.Value, None]) -> tuple[int, ...]:
        return tuple(map(self._slot, values))

    def _block(self, block: _DraftBlock, arguments: Sequence[int] = ()) -> Block:
        steps: list[Step] = []
        for item in block.items:
            if isinstance(item, _StepDraft):
                steps.append(self._step(item))
            elif item.outputs:
                steps.append(self._piece(item))
        return Block(tuple(arguments), tuple(steps), self._slots_of(block.results))

    def _step(self, draft_step: _StepDraft) -> Step:
        op = draft_step.op
        operands = list(op.operands)
        if op.name == _CALL:
            name = _callee(op).removeprefix("host.")
            return Call(name, self._slots_of(operands), self._slots_of(list(op.results)))
        if op.name == _CASE:
            blocks = tuple(self._block(block) for block in draft_step.blocks)
            return Branch(self._slot(operands[0]), blocks, self._slots_of(list(op.results)))
        carries = [self._new_slot() for _ in operands]
        cond, body = draft_step.blocks
        for named in (cond.block.arguments, body.block.arguments, op.results):
            self._slots.update(zip(named, carries, strict=True))
        return Loop(
            self._slots_of(operands), tuple(carries), self._block(cond), self._block(body, carries)
        )

    def _piece(self, draft: _Draft) -> Piece:
        name = f"piece{self._pieces}"
        self._pieces += 1
        inputs, outputs = list(draft.inputs), list(draft.outputs)
        type_ = ir.FunctionType.get([v.type for v in inputs], [v.type for v in outputs], context())

        def emit(arguments: Sequence[ir.Value]) -> list[ir.Value]:
            new = dict(zip(inputs, arguments, strict=True))
            for op in [*draft.literals.values(), *draft.operations]:
                _clone(op, new)
            return [new[v] for v in outputs]

        attributes: dict[str, ir.Attribute] = {
            "sym_name": ir.StringAttr.get(name, context()),
            "function_type": ir.TypeAttr.get(type_, context()),
        }
        _function(attributes, inputs, self._main, emit)
        return Piece(name, self._slots_of(inputs), self._slots_of(outputs))


def _used(op: ir.Operation) -> list[ir.Value]:
    """The values from outside that an op and its regions use."""
    if not len(op.regions):
        return list(op.operands)
    used: dict[ir.Value, None] = dict.fromkeys(op.operands)
    inside: set[ir.Value] = set()
    for inner in _inside(op):
        used.update(dict.fromkeys(inner.operands))
        inside.update(inner.results)
        for region in inner.regions:
            inside.update(a for block in region.blocks for a in block.arguments)
    for region in op.regions:
        inside.update(a for block in region.blocks for a in block.arguments)
    return [v for v in used if v not in inside]


def _clone(op: ir.Operation, new: dict[ir.Value, ir.Value]) -> ir.Operation:
    """Clone an op at the current insertion point, with values replaced, and add its results."""

    def rename(inner: ir.Operation) -> ir.WalkResult:
        for i, value in enumerate(inner.operands):
            if value in new:
                inner.operands[i] = new[value]
        return ir.WalkResult.ADVANCE

    clone = op.clone()
    clone.walk(rename)
    new.update(zip(op.results, clone.results, strict=True))
    return clone
