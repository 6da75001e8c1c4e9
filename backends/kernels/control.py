"""Loops, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gnomon.backends.kernels.arithmetic import only
from gnomon.backends.kernels.builder import memref_of
from gnomon.backends.kernels.code import Scalar
from gnomon.backends.kernels.values import Buffer, Stored, Value
from gnomon.dialects.mlir import ir

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

__all__ = ["CONTROL"]


def _while(builder: Builder, operation: Operation) -> list[Value]:
    test, body = (region.blocks[0] for region in operation.op.regions)
    last = [op.operation for op in body.operations][-1]
    carried: list[Value] = []
    buffers: dict[int, Buffer] = {}
    for k, argument in enumerate(body.arguments):
        if last.operands[k] == argument:
            # The loop does not change it.
            x = operation.operands[k]
            carried.append(x if x.is_cheap else builder.stored(x))
            continue
        buffer = builder.overwritable(operation, k)
        x = operation.operands[k]
        if buffer is None:
            buffer = builder.result(operation, k)
            builder.compute(x, buffer)
        buffers[k] = buffer
        carried.append(Stored(buffer, x.type))
    # The carries live until the end of the loop, even after their last use in the body.
    held = [buffer for value in carried for buffer in value.reads]
    for buffer in held:
        buffer.holders += 1
    owners = {k: buffer.scope for k, buffer in buffers.items()}

    def goes_on() -> Scalar:
        code = builder.code
        with builder.scope(test, carried) as (condition,):
            holds = only(condition.element(builder, ()))
        if not builder.calls_outside:
            return holds
        failed = code.value(builder.failed())
        return code.select(failed, code.constant(False, "i1"), holds)

    with builder.code.repeat(goes_on):
        # The body owns its carries: it may overwrite them.
        number = builder.code.number()
        for buffer in buffers.values():
            buffer.scope = number
        with builder.scope(body, carried, number=number) as results:
            _move(builder, results, buffers)
    for k, buffer in buffers.items():
        buffer.scope = owners[k]
    for buffer in held:
        buffer.holders -= 1
    return carried


def _move(builder: Builder, results: Sequence[Value], buffers: dict[int, Buffer]) -> None:
    """Make the results of a body the carries of the next iteration."""
    carries = set(buffers.values())
    pending: list[tuple[Buffer, Value, Buffer | None]] = []
    for k, buffer in buffers.items():
        value = results[k]
        if isinstance(value, Stored) and value.buffer is buffer:
            continue
        if not value.reads & carries:
            pending.append((buffer, value, None))
        elif value.type.size == 1:
            # Other moves may overwrite the buffers that it reads: it is read now.
            pending.append((buffer, builder.held(value), None))
        else:
            copy = builder.allocate(value.type)
            builder.compute(value, copy)
            pending.append((buffer, Stored(copy, value.type), copy))
    for buffer, value, held in pending:
        builder.compute(value, buffer)
        if held is not None:
            builder.release(held)


def _outputs(builder: Builder, operation: Operation) -> list[Buffer]:
    """Buffers for the results of a block, held so that the end of the block does not free them."""
    outputs = [builder.result(operation, k) for k in range(len(operation.types))]
    for output in outputs:
        output.holders += 1
    return outputs


def _kept(outputs: Sequence[Buffer], operation: Operation) -> list[Value]:
    """The results in the buffers from `_outputs`."""
    for output in outputs:
        output.holders -= 1
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


def _branches(builder: Builder, operation: Operation) -> list[Value]:
    """An index out of bounds takes the last branch."""
    code = builder.code
    blocks = [region.blocks[0] for region in operation.op.regions]
    outputs = _outputs(builder, operation)
    index = only(operation.operands[0].element(builder, ()))
    if operation.op.name == "stablehlo.if":
        number = code.select(index, code.at(0), code.at(1))
    else:
        number = code.cast("arith.index_cast", index, "index")
    write = partial(builder.write_block, arguments=[], outputs=outputs)
    code.switch(number, [partial(write, block) for block in blocks])
    return _kept(outputs, operation)


def _call(builder: Builder, operation: Operation) -> list[Value]:
    name = ir.FlatSymbolRefAttr(operation.attribute("callee")).value
    if not builder.functions[name].regions[0].blocks:
        return _call_outside(builder, operation, name)
    block = builder.functions[name].regions[0].blocks[0]
    arguments = [x if x.is_cheap else builder.stored(x) for x in operation.operands]
    outputs = _outputs(builder, operation)
    builder.write_block(block, arguments, outputs)
    for x, value in zip(operation.operands, arguments, strict=True):
        if value is not x and isinstance(value, Stored):
            builder.release(value.buffer)
    return _kept(outputs, operation)


def _call_outside(builder: Builder, operation: Operation, name: str) -> list[Value]:
    """Call a function that is not part of the program, with the memory of operands and results.

    It returns whether it failed.
    """
    code = builder.code
    operands = [builder.stored(x) for x in operation.operands]
    outputs = [builder.result(operation, k) for k in range(len(operation.types))]
    memory = [*(x.buffer for x in operands), *outputs]
    types = ", ".join(memref_of(buffer.type) for buffer in memory)
    symbol = name.replace(".", "_")
    builder.declarations[name] = f"  func.func private @{symbol}({types}) -> i1"
    status = code.call(symbol, [buffer.memory for buffer in memory], f"({types}) -> i1", "i1")
    failed = builder.failed()
    code.assign(failed, code.same("arith.ori", code.value(failed), status))
    for x, value in zip(operation.operands, operands, strict=True):
        if value is not x:
            builder.release(value.buffer)
    return [Stored(b, t) for b, t in zip(outputs, operation.types, strict=True)]


CONTROL: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {
    "stablehlo.while": _while,
    "stablehlo.case": _branches,
    "stablehlo.if": _branches,
    "func.call": _call,
}
