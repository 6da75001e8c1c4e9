"""Loops, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gnomon.backends.standalone_c.values import Buffer, Stored, Value
from gnomon.dialects.mlir import ir

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["CONTROL"]


def _while(emitter: Emitter, operation: Operation) -> list[Value]:
    test, body = (region.blocks[0] for region in operation.op.regions)
    last = [op.operation for op in body.operations][-1]
    carried: list[Value] = []
    buffers: dict[int, Buffer] = {}
    for k, argument in enumerate(body.arguments):
        if last.operands[k] == argument:
            # The loop does not change it.
            x = operation.operands[k]
            carried.append(x if x.is_cheap else emitter.stored(x))
            continue
        buffer = emitter.overwritable(operation, k)
        x = operation.operands[k]
        if buffer is None:
            buffer = emitter.result(operation, k)
            emitter.compute(x, buffer)
        buffers[k] = buffer
        carried.append(Stored(buffer, x.type))
    # The carries live until the end of the loop, even after their last use in the body.
    held = [buffer for value in carried for buffer in value.reads]
    for buffer in held:
        buffer.holders += 1
    owners = {k: buffer.scope for k, buffer in buffers.items()}
    with emitter.block("for (;;)"):
        with emitter.scope(test, carried) as (condition,):
            emitter.line(f"if (!({condition.element(emitter, ())})) break;")
        # The body owns its carries: it may overwrite them.
        number = emitter.number()
        for buffer in buffers.values():
            buffer.scope = number
        with emitter.scope(body, carried, number=number) as results:
            _move(emitter, results, buffers)
    for k, buffer in buffers.items():
        buffer.scope = owners[k]
    for buffer in held:
        buffer.holders -= 1
    return carried


def _move(emitter: Emitter, results: Sequence[Value], buffers: dict[int, Buffer]) -> None:
    """Make the results of a body the carries of the next iteration."""
    carries = set(buffers.values())
    pending: list[tuple[Buffer, Value, Buffer | None]] = []
    for k, buffer in buffers.items():
        value = results[k]
        if isinstance(value, Stored) and value.buffer is buffer:
            continue
        if not value.reads & carries:
            pending.append((buffer, value, None))
            continue
        # Other moves may overwrite the buffers that it reads.
        held = emitter.allocate(value.type)
        emitter.compute(value, held)
        pending.append((buffer, Stored(held, value.type), held))
    for buffer, value, copy in pending:
        emitter.compute(value, buffer)
        if copy is not None:
            emitter.release(copy)


def _outputs(emitter: Emitter, operation: Operation) -> list[Buffer]:
    """Buffers for the results of a block, held so that the end of the block does not free them."""
    outputs = [emitter.result(operation, k) for k in range(len(operation.types))]
    for output in outputs:
        output.holders += 1
    return outputs


def _kept(outputs: Sequence[Buffer], operation: Operation) -> list[Value]:
    """The results in the buffers from `_outputs`."""
    for output in outputs:
        output.holders -= 1
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


def _branches(emitter: Emitter, operation: Operation) -> list[Value]:
    (index,) = operation.operands
    blocks = [region.blocks[0] for region in operation.op.regions]
    outputs = _outputs(emitter, operation)
    expression = index.element(emitter, ())
    if operation.op.name == "stablehlo.if":
        expression = f"{expression} ? 0 : 1"
    with emitter.block(f"switch ({expression})"):
        # An index out of bounds takes the last branch.
        for i, block in enumerate(blocks):
            label = f"case {i}:" if i < len(blocks) - 1 else "default:"
            with emitter.block(label):
                emitter.write_block(block, [], outputs)
                emitter.line("break;")
    return _kept(outputs, operation)


def _call(emitter: Emitter, operation: Operation) -> list[Value]:
    name = ir.FlatSymbolRefAttr(operation.attribute("callee")).value
    block = emitter.functions[name].regions[0].blocks[0]
    arguments = [x if x.is_cheap else emitter.stored(x) for x in operation.operands]
    outputs = _outputs(emitter, operation)
    with emitter.block(""):
        emitter.write_block(block, arguments, outputs)
    for x, value in zip(operation.operands, arguments, strict=True):
        if value is not x and isinstance(value, Stored):
            emitter.release(value.buffer)
    return _kept(outputs, operation)


CONTROL: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {
    "stablehlo.while": _while,
    "stablehlo.case": _branches,
    "stablehlo.if": _branches,
    "func.call": _call,
}
