"""``expand-scan``: turn every ``gnomon.scan`` into a ``gnomon.while`` over a counter.

Stacked inputs become constants of the loop, which are read at the counter. Stacked results become
carries, which are written at the counter. Each iteration of the loop runs ``unroll`` iterations of
the scan with one read and one write for all of them; the remainder is emitted after the loop. A
scan of at most ``unroll`` iterations needs no loop.

Stacked bools are stored as bytes while the loop runs: a backend whose memory holds bytes, not bits,
would otherwise convert the whole stack in each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects.body import Body, erase, operands_of, results_of
from gnomon.dialects.contract import bodies_of, lookup, params_of
from gnomon.dialects.control_flow import scan, while_
from gnomon.dialects.control_flow.bodies import split
from gnomon.dialects.emit import constant, convert, ops, reshape, slice_along, zeros
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.dialects.types import BOOL, TensorType, type_of

_COUNTER = TensorType((), np.dtype(np.int32))
_BYTE = np.dtype(np.int8)


def expand_scan(program: Program) -> None:
    """Expand all scans of a program in place."""
    for function in program.functions:
        _expand_in(program.body(symbol_name(function)))


def _expand_in(body: Body) -> None:
    for op in body.region_operations:
        for inner in bodies_of(op):
            _expand_in(inner)
        if lookup(op) is scan:
            with ir.InsertionPoint(op), op.location:
                values = _Scan(op).expand()
            for old, new in zip(results_of(op), values, strict=True):
                old.replace_all_uses_with(new)
            erase(op)


class _Scan:
    """One scan; `expand` emits its replacement at the current insertion point."""

    def __init__(self, op: ir.Operation) -> None:
        params = params_of(op)
        self.length: int = params["length"]
        self.reverse: bool = params["reverse"]
        # The rest after unrolling must be a number.
        symbolic = is_symbolic_dim(self.length)
        self.unroll = 1 if symbolic else max(1, min(params["unroll"], self.length))
        self.consts, self.carry, self.xs = split(operands_of(op), params["consts"], params["carry"])
        (self.body,) = bodies_of(op)
        results = self.body.result_types
        self.y_types = [t.with_shape((self.length, *t.shape)) for t in results[len(self.carry) :]]

    def expand(self) -> list[ir.Value]:
        """Emit the replacement; return the final carries and the stacked results."""
        if self.length == 0:
            return [*self.carry, *(zeros(t) for t in self.y_types)]
        remainder = self.length % self.unroll
        looped = self.length - remainder
        if looped == self.unroll and remainder == 0:
            state, ys = self._block(self.unroll, self.consts, self.carry, self.xs)
            return [*state, *ys]
        stored = [_stored(x) for x in self.xs]
        state, ys = self._loop(looped, stored)
        if remainder:
            start = constant(np.int32(0 if self.reverse else looped))
            blocks = self._read_blocks(stored, start, remainder)
            state, y_blocks = self._block(remainder, self.consts, state, blocks)
            ys = [_write(y, _stored(b), start) for y, b in zip(ys, y_blocks, strict=True)]
        return [*state, *(convert(y, t.dtype) for y, t in zip(ys, self.y_types, strict=True))]

    def _read_blocks(
        self, stored: Sequence[ir.Value], start: ir.Value, size: int
    ) -> list[ir.Value]:
        """``size`` slices of each stacked input, from position ``start``."""
        return [
            convert(_read(s, start, size), type_of(x).dtype)
            for s, x in zip(stored, self.xs, strict=True)
        ]

    def _loop(
        self, looped: int, stored: Sequence[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Emit a loop over the first ``looped`` iterations, a multiple of ``unroll``."""
        unroll, consts = self.unroll, [*self.consts, *stored]
        empty = [zeros(t.with_dtype(_in_memory(t.dtype))) for t in self.y_types]
        carry = [constant(np.int32(0)), *self.carry, *empty]
        carry_types = [type_of(v) for v in carry]

        def running(counter: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            return [ops.lt(counter, _count(looped))]

        def body(*arguments: ir.Value) -> list[ir.Value]:
            constants, xs, (counter,), state, ys = split(
                arguments, len(self.consts), len(self.xs), 1, len(self.carry)
            )
            start = counter
            if self.reverse:
                start = ops.sub(_count(self.length - unroll), counter)
            blocks = self._read_blocks(xs, start, unroll)
            state, y_blocks = self._block(unroll, constants, state, blocks)
            written = [_write(y, _stored(b), start) for y, b in zip(ys, y_blocks, strict=True)]
            return [ops.add(counter, constant(np.int32(unroll))), *state, *written]

        values = while_.build(
            [*consts, *carry],
            {"cond_consts": 0, "body_consts": len(consts)},
            [
                Body.build(carry_types, running),
                Body.build([*(type_of(v) for v in consts), *carry_types], body),
            ],
        )
        _, state, ys = split(values, 1, len(self.carry))
        return state, ys

    def _block(
        self,
        size: int,
        consts: Sequence[ir.Value],
        state: Sequence[ir.Value],
        blocks: Sequence[ir.Value],
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Emit consecutive iterations; return the final carries and the stacked results."""
        state = list(state)
        rows: list[list[ir.Value]] = [[] for _ in range(size)]
        for i in reversed(range(size)) if self.reverse else range(size):
            slices = [
                reshape(slice_along(x, 0, i, i + 1) if size > 1 else x, type_of(x).shape[1:])
                for x in blocks
            ]
            values = self.body.inline([*consts, *state, *slices])
            state, ys = split(values, len(state))
            rows[i] = [reshape(y, (1, *type_of(y).shape)) for y in ys]
        stacked = [
            ops.concatenate(*parts, dimension=0) if size > 1 else parts[0]
            for parts in zip(*rows, strict=True)
        ]
        return state, stacked


def _count(n: Any) -> ir.Value:
    """A number of iterations, which may be symbolic."""
    if is_symbolic_dim(n):
        return ops.dimension(size=n, dtype=np.dtype(np.int32))
    return constant(np.int32(n))


def _in_memory(dtype: np.dtype) -> np.dtype:
    return _BYTE if dtype == BOOL else dtype


def _stored(x: ir.Value) -> ir.Value:
    """A value as the loop stores it."""
    return convert(x, _in_memory(type_of(x).dtype))


def _starts(x: ir.Value, start: ir.Value) -> list[ir.Value]:
    return [start, *(constant(np.int32(0)) for _ in type_of(x).shape[1:])]


def _read(x: ir.Value, start: ir.Value, size: int) -> ir.Value:
    """Read ``size`` slices of ``x`` from position ``start``."""
    return ops.dynamic_slice(x, *_starts(x, start), sizes=(size, *type_of(x).shape[1:]))


def _write(x: ir.Value, block: ir.Value, start: ir.Value) -> ir.Value:
    """Write a block of slices into ``x`` at position ``start``."""
    return ops.dynamic_update_slice(x, block, *_starts(x, start))


__all__ = ["expand_scan"]
