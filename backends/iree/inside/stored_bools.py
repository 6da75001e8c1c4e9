"""Bools and the same bools as numbers of 8 bits, which IREE must not take for one value.

IREE 3.13 stores bools as bytes. If a kernel stores both bools and their conversions to 8-bit
integers, its code generation finds that the bytes are equal, computes them once, and copies them
from one result to the other. It refuses that copy, which no workgroup makes (``write affecting
operations on global resources``). This pass writes such a conversion as ``1 ^ !x``.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["separate_bytes"]

_KERNEL, _STORE, _CONVERT = (
    "flow.executable",
    "iree_tensor_ext.dispatch.tensor.store",
    "arith.extui",
)
_BOOLS, _BYTES = re.compile(r"[x<]i1>").search, re.compile(r"[x<]i8>").search
_OTHER_FORM = """
util.func private @convert(%bool: i1) -> i8 {
  %true = arith.constant true
  %not = arith.xori %bool, %true : i1
  %byte = arith.extui %not : i1 to i8
  %one = arith.constant 1 : i8
  %result = arith.xori %byte, %one : i8
  util.return %result : i8
}
"""


def separate_bytes(ir: CompilerIR, module: int) -> int:
    """Rewrite conversions of bools in kernels that store both forms; the module is changed.

    Args:
      ir: access to the program.
      module: the program after its kernels were formed.

    Returns:
      The number of conversions that were rewritten.
    """
    conversions = [
        op
        for block in ir.blocks(module)
        for kernel in ir.operations(block)
        if ir.name(kernel) == _KERNEL
        for op in _conversions(ir, kernel)
    ]
    if not conversions:
        return 0
    holder = ir.parse(_OTHER_FORM)
    (function,) = ir.operations(ir.body(holder))
    for op in conversions:
        _rewrite(ir, op, function)
    ir.destroy_module(holder)
    return len(conversions)


def _conversions(ir: CompilerIR, kernel: int) -> list[int]:
    """The conversions of bools to bytes in a kernel that stores both; none in other kernels."""
    ops = list(ir.nested(kernel))
    stored = [ir.type_text(ir.operands(op)[0]) for op in ops if ir.name(op) == _STORE]
    if not any(map(_BOOLS, stored)) or not any(map(_BYTES, stored)):
        return []
    return [
        op
        for op in ops
        if ir.name(op) == _CONVERT
        and ir.type_text(ir.operands(op)[0]) == "i1"
        and ir.type_text(ir.results(op)[0]) == "i8"
    ]


def _rewrite(ir: CompilerIR, conversion: int, function: int) -> None:
    """Replace a conversion by the body of a function."""
    (body,) = ir.blocks(function)
    copied = {ir.argument(body, 0): ir.operands(conversion)[0]}
    *ops, last = ir.operations(body)
    for op in ops:
        new = ir.clone(op)
        for index, value in enumerate(ir.operands(op)):
            ir.set_operand(new, index, copied[value])
        ir.insert_before(conversion, new)
        copied[ir.results(op)[0]] = ir.results(new)[0]
    ir.replace(ir.results(conversion)[0], copied[ir.operands(last)[0]])
    ir.erase(conversion)
