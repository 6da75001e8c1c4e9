"""Running stepped programs: loops and branches in Python around compiled pieces.

Between pieces, values stay on the device. Besides the operands of host functions, the host reads
only conditions and indices, one number each. A slot is cleared after its last use, so that a
value's memory is freed when a compiled program would free it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import iree.runtime as rt
import numpy as np

from gnomon.backends.iree.driver import DriverState
from gnomon.backends.iree.host import HostCall, read_view
from gnomon.backends.iree.reflection import STEPS
from gnomon.backends.iree.steps import Block, Branch, Call, Loop, Piece, Step, from_text
from gnomon.dialects.types import TensorType

__all__ = ["Stepper", "read_steps"]

_Values: TypeAlias = "list[Any]"
_Run: TypeAlias = "Callable[[_Values], None]"

_BOOL = TensorType((), np.dtype(np.bool_))
_INDEX = TensorType((), np.dtype(np.int32))


def read_steps(function: Any) -> Block | None:
    """The steps of a loaded program, from the reflection data of its ``main``, if it has any."""
    text = function.reflection.get(STEPS)
    return None if text is None else from_text(text)


class Stepper:
    """A loaded stepped program, with the calling convention of one of IREE's functions.

    Args:
      program: the steps; the block's arguments are the program's.
      module: the loaded module with the pieces.
      context: IREE's context, which runs the pieces.
      calls: the host functions by name.
      state: the device.
    """

    def __init__(
        self, program: Block, module: Any, context: Any, calls: Mapping[str, HostCall], state: Any
    ) -> None:
        self._program = program
        self._size = 1 + max(_slots_of(program), default=-1)
        self._run = _Preparation(module, context, calls, state).block(program)

    def __call__(self, arguments: Any, results: Any) -> None:
        """Run the program on a list of buffer views, and add its results to another."""
        values: _Values = [None] * self._size
        for index, slot in enumerate(self._program.arguments):
            values[slot] = arguments.get_as_object(index, rt.HalBufferView)
        for value in self._run(values):
            results.push_ref(value)


class _Preparation:
    """Turns steps into Python functions."""

    def __init__(
        self, module: Any, context: Any, calls: Mapping[str, HostCall], state: DriverState
    ) -> None:
        self._module = module
        self._context = context
        self._calls = calls
        self._state = state

    def block(self, block: Block) -> Callable[[_Values], Sequence[Any]]:
        """The function that runs a block and takes its results out of their slots."""
        own = {*block.arguments, *(slot for step in block.steps for slot in _given(step))}
        live = set(block.results)
        steps: list[tuple[_Run, tuple[int, ...]]] = []
        for step in reversed(block.steps):
            touched = _slots_of(step)
            steps.append((self._step(step), tuple((touched & own) - live)))
            live |= touched
        steps.reverse()
        results, last = block.results, tuple(own.intersection(block.results))

        def run(values: _Values) -> list[Any]:
            for step, done in steps:
                step(values)
                for slot in done:
                    values[slot] = None
            out = [values[slot] for slot in results]
            for slot in last:
                values[slot] = None
            return out

        return run

    def _step(self, step: Step) -> _Run:
        match step:
            case Piece():
                return self._piece(step)
            case Call():
                return self._call(step)
            case Loop():
                return self._loop(step)
            case Branch():
                return self._branch(step)

    def _piece(self, step: Piece) -> _Run:
        function = self._module.lookup_function(step.function)
        invoke, takes, gives = self._context.invoke, step.takes, step.gives

        def run(values: _Values) -> None:
            arguments = rt.VmVariantList(len(takes))
            for slot in takes:
                arguments.push_ref(values[slot])
            results = rt.VmVariantList(len(gives))
            invoke(function, arguments, results)
            for index, slot in enumerate(gives):
                values[slot] = results.get_as_object(index, rt.HalBufferView)

        return run

    def _call(self, step: Call) -> _Run:
        call, takes, gives = self._calls[step.function], step.takes, step.gives

        def run(values: _Values) -> None:
            for slot, value in zip(gives, call([values[slot] for slot in takes]), strict=True):
                values[slot] = value

        return run

    def _loop(self, step: Loop) -> _Run:
        cond, body, state = self.block(step.cond), self.block(step.body), self._state
        initial, carries = step.initial, step.carries

        def run(values: _Values) -> None:
            carried: Sequence[Any] = [values[slot] for slot in initial]
            while True:
                for slot, value in zip(carries, carried, strict=True):
                    values[slot] = value
                del carried
                (holds,) = cond(values)
                if not read_view(state, holds, _BOOL):
                    return
                carried = body(values)

        return run

    def _branch(self, step: Branch) -> _Run:
        blocks, state = [self.block(block) for block in step.blocks], self._state
        index, gives, last = step.index, step.gives, len(step.blocks) - 1

        def run(values: _Values) -> None:
            number = int(read_view(state, values[index], _INDEX))
            chosen = blocks[number if 0 <= number < last else last]
            for slot, value in zip(gives, chosen(values), strict=True):
                values[slot] = value

        return run


def _given(step: Step) -> tuple[int, ...]:
    """The slots that a step fills for later ones."""
    return step.carries if isinstance(step, Loop) else step.gives


def _slots_of(step: Step | Block) -> set[int]:
    """The slots that a step reads or fills, at any depth."""
    match step:
        case Piece() | Call():
            return {*step.takes, *step.gives}
        case Loop():
            return {*step.initial, *step.carries} | _slots_of(step.cond) | _slots_of(step.body)
        case Branch():
            return {step.index, *step.gives}.union(*map(_slots_of, step.blocks))
        case Block():
            return {*step.arguments, *step.results}.union(*map(_slots_of, step.steps))
