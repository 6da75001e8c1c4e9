"""Tiered entries: NumPy evaluates the program until it is compiled in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays.concrete import ConcreteArray, PlacedArray, placed, wrap
from gnomon._arrays.sharded import sharded
from gnomon._compilation.arguments import Call
from gnomon._compilation.donation import usable_donations
from gnomon._compilation.entry import Entry, check_donated
from gnomon._compilation.lowered import Lowered
from gnomon._compilation.shardings import Shardings
from gnomon._config.current import Config, config
from gnomon._sharding.device import Device
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._tracing import on_device
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import Traced, with_avals
from gnomon.backends.tiered import Overtaken, TieredProgram
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context

__all__ = ["TieredEntry"]


class TieredEntry:
    """A traced program for one signature, which NumPy evaluates until it is compiled.

    Args:
      fun, traced: the function, and its traced program, which is copied.
      call: the call that it was traced for.
      place: the device, whose memory is the host's, and whether results are committed to it.
      shardings: the shardings of arguments and results.
      always: whether calls before the end of the compilation are evaluated whatever the
        configuration says. If False, calls wait for the compiler while ``gnomon_tiered`` is off.
      compiled: called in the background thread when the program is compiled.
    """

    __slots__ = (
        "__weakref__",
        "_always",
        "_captures",
        "_donated",
        "_entry",
        "_outcome",
        "_place",
        "_program",
        "_shardings",
    )

    def __init__(
        self,
        fun: Callable[..., Any],
        traced: Traced,
        call: Call,
        place: tuple[Device, bool],
        shardings: Shardings,
        always: bool,
        compiled: Callable[[], None],
    ) -> None:
        self._always = always
        self._place = place
        self._shardings = shardings.outs
        self._captures = traced.captures
        self._donated = donated = usable_donations(call, traced.avals)
        self._outcome = traced.avals, traced.tree
        self._entry: Callable[[list[Any]], Any] | None = None
        checks = config.enable_checks

        def compile_entry() -> Entry:
            ensure_context()
            with config.override("gnomon_enable_checks", checks):
                lowered = Lowered(
                    fun, _copied(traced), call, place, shardings, keep_stages=False, donated=donated
                )
                entry = lowered.compile().entry
            compiled()
            return entry

        def evaluated_program() -> Program:
            copy = _copied(traced)
            copy.program.add("main", copy.body, public=True)
            return copy.program

        self._program: TieredProgram[Entry] | None
        self._program = TieredProgram(traced.name, evaluated_program, compile_entry)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the compiled program; see `TieredProgram.wait`."""
        program = self._program
        if program is not None:
            program.wait(timeout)

    def __call__(self, leaves: list[Any]) -> Any:
        """Run the compiled program, or evaluate it, on the dynamic leaves of a call."""
        program = self._program
        if program is not None:
            entry = program.compiled(wait=not (self._always or config.tiered))
            if entry is None:
                try:
                    return self._evaluate(program, leaves)
                except Overtaken:
                    entry = program.compiled(wait=True)
            # In this order, because other threads read `_entry` once `_program` is None.
            assert entry is not None
            self._entry = entry.direct()
            self._program = None
        return self._entry(leaves)  # type: ignore[misc]

    def _evaluate(self, program: TieredProgram[Entry], leaves: list[Any]) -> Any:
        device, committed = self._place
        if self._donated:
            check_donated(leaves, self._donated)
        given = [as_operand(leaf) for leaf in leaves]
        if Config.guards_somewhere:
            on_device.guard_operands([x for x in leaves if isinstance(x, PlacedArray)], device)
        arrays = [array.numpy_value() for array in (*given, *self._captures)]
        values = program.evaluate(arrays)
        for i in self._donated:
            if isinstance(leaves[i], ConcreteArray):
                leaves[i].delete()
        avals, tree = self._outcome
        results = with_avals(self._placed(values, device, committed), avals)
        return tree_util.tree_unflatten(tree, results)

    def _placed(
        self, values: Sequence[np.ndarray], device: Device, committed: bool
    ) -> Sequence[Any]:
        """The results as arrays with the placement that the compiled program would give them."""
        if not committed:
            return [wrap(np.asarray(v)) for v in values]
        outs: Sequence[Any] = self._shardings or [None] * len(values)
        return [
            sharded(np.asarray(v), sharding)
            if isinstance(sharding, NamedSharding)
            else placed(np.asarray(v), device, committed=True)
            for v, sharding in zip(values, outs, strict=True)
        ]


def _copied(traced: Traced) -> Traced:
    """A copy of the traced function in a new program."""
    program = Program()
    body = program.import_body(traced.program, traced.body, {})
    return traced._replace(program=program, body=body)
