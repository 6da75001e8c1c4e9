"""The executables and dispatches of kernels of vector code, in the compiler's dialects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from gnomon.backends.iree.legalize.array_kernels.code import Kernel, Rule
from gnomon.backends.iree.legalize.array_kernels.emitter import stored_type
from gnomon.backends.iree.legalize.array_kernels.layout import Buffer, View, dense
from gnomon.backends.iree.legalize.loop_kernels.loop_kernel import distinct
from gnomon.backends.iree.legalize.loop_kernels.scalar_code import UnsupportedError, index, number
from gnomon.backends.iree.legalize.loop_kernels.values import size_of
from gnomon.backends.iree.legalize.text_kernels import run_kernel
from gnomon.dialects.mlir import ir

__all__ = ["dispatch", "write_kernel"]

Write: TypeAlias = "Callable[[Kernel, Sequence[View]], None]"
"""Writes the code of a kernel, whose results go to some views."""


def write_kernel(
    name: str,
    arrays: Sequence[ir.Value],
    inputs: Sequence[ir.RankedTensorType],
    outputs: Sequence[ir.RankedTensorType],
    write: Write,
    rules: Mapping[str, Rule],
    module: ir.Block,
    workgroups: int = 1,
) -> int:
    """Write a kernel as an executable at the start of a module.

    Args:
      name: the name of the executable and of its function.
      arrays: the values of the program that are the kernel's arguments.
      inputs: their types.
      outputs: the types of the results.
      write: writes the code.
      rules: the rules of ops, see `Kernel`.
      module: the block of the module.
      workgroups: how many times the code runs, side by side, for a run of the kernel. If that is
        more than once, it must not need memory besides its results, which all would share.

    Returns:
      The number of bytes that it needs besides its results.

    Raises:
      UnsupportedError: `write` raised it; there is no executable then.
    """
    binding = ir.Type.parse("!stream.binding")
    string = ir.StringAttr.get
    executable = ir.Operation.create(
        "stream.executable",
        attributes={"sym_name": string(name), "sym_visibility": string("private")},
        regions=1,
        ip=ir.InsertionPoint.at_block_begin(module),
    )
    try:
        body = executable.regions[0].blocks.append()
        with ir.InsertionPoint(body):
            _export(name, workgroups)
            inner = ir.Operation.create("builtin.module", regions=1)
            ir.Operation.create("stream.executable.end")
        with ir.InsertionPoint(inner.regions[0].blocks.append()):
            count = len(inputs) + len(outputs) + 1
            type_ = ir.FunctionType.get([binding] * count, [])
            function = ir.Operation.create(
                "func.func",
                attributes={"sym_name": string(name), "function_type": ir.TypeAttr.get(type_)},
                regions=1,
            )
        entry = function.regions[0].blocks.append(*[binding] * count)
        with ir.InsertionPoint(entry):
            scratch = _code(arrays, inputs, outputs, write, rules, list(entry.arguments))
        if not scratch:
            entry.erase_argument(count - 1)
            type_ = ir.FunctionType.get([binding] * (count - 1), [])
            function.attributes["function_type"] = ir.TypeAttr.get(type_)
        return scratch
    except UnsupportedError:
        executable.erase()
        raise


def _export(name: str, workgroups: int) -> None:
    string = ir.StringAttr.get
    export = ir.Operation.create(
        "stream.executable.export",
        attributes={
            "function_ref": ir.FlatSymbolRefAttr.get(name),
            "sym_name": string(name),
            "sym_visibility": string("public"),
        },
        regions=1,
    )
    with ir.InsertionPoint(export.regions[0].blocks.append()):
        count, one = number(index(), workgroups), number(index(), 1)
        ir.Operation.create("stream.return", operands=[count, one, one])


def _code(
    arrays: Sequence[ir.Value],
    inputs: Sequence[ir.RankedTensorType],
    outputs: Sequence[ir.RankedTensorType],
    write: Write,
    rules: Mapping[str, Rule],
    bindings: list[ir.Value],
) -> int:
    zero = number(index(), 0)
    *given, last = bindings
    memories = [
        _subspan(b, zero, [], ir.MemRefType.get([size_of(t)], stored_type(t.element_type)))
        for b, t in zip(given, (*inputs, *outputs), strict=True)
    ]
    dynamic = ir.ShapedType.get_dynamic_size()
    i8 = ir.IntegerType.get_signless(8)
    bytes_ = number(index(), 1)
    scratch = _subspan(last, zero, [bytes_], ir.MemRefType.get([dynamic], i8))
    start = number(index(), 0).owner.operation
    before_loops = number(index(), 0).owner.operation
    kernel = Kernel(start, before_loops, scratch, rules)
    targets = [
        View(Buffer(m, t.element_type, 0), tuple(t.shape), dense(t.shape), t.element_type)
        for m, t in zip(memories[len(inputs) :], outputs, strict=True)
    ]
    for old, memory, type_ in zip(arrays, memories, inputs, strict=False):
        buffer = Buffer(memory, type_.element_type)
        view = View(buffer, tuple(type_.shape), dense(type_.shape), type_.element_type)
        kernel.set(old, view)
    write(kernel, targets)
    ir.Operation.create("func.return")
    if kernel.scratch_bytes:
        value = ir.IntegerAttr.get(index(), kernel.scratch_bytes)
        bytes_.owner.operation.attributes["value"] = value
    else:
        scratch.owner.operation.erase()
    return kernel.scratch_bytes


def _subspan(
    binding: ir.Value, zero: ir.Value, sizes: Sequence[ir.Value], type_: ir.Type
) -> ir.Value:
    return ir.Operation.create(
        "stream.binding.subspan", results=[type_], operands=[binding, zero, *sizes]
    ).results[0]


def dispatch(
    name: str,
    operands: Sequence[ir.Value],
    outputs: Sequence[ir.RankedTensorType],
    scratch: int,
) -> list[ir.Value]:
    """Dispatch a kernel; return its results as they are stored, and then its memory.

    Args:
      name: its name.
      operands: its arguments, as they are stored.
      outputs: the types of its results.
      scratch: the number of bytes that it needs besides them.
    """
    i8 = ir.IntegerType.get_signless(8)
    results = [t for t in distinct(outputs) if t is not None]
    if scratch:
        results.append(ir.RankedTensorType.get([scratch], i8))
    return run_kernel(name, name, [], operands, results)
