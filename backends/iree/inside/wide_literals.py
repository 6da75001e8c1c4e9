"""Literals of 64 bits, which IREE must not write twice by equal kernels.

IREE 3.13 writes a literal whose elements are all equal where it is used, and again for each user
that needs a copy. There is a command for patterns of up to 32 bits. For others it calls a kernel,
and decides so after it has planned copies and schedules: then it takes equal calls for one, whose
result an update overwrites although another user reads it, or which is no longer written at all.
This pass writes each such literal by a kernel before anything is planned. Each call has a number,
so that no two are equal.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["write_by_kernels"]

_FUNCTIONS = ("util.func", "util.initializer")
_CONSTANTS = ("arith.constant", "flow.tensor.constant")
_TYPE = re.compile(r"tensor<((?:\d+x)*)((?:complex<)?[if](?:64|32|128)>?)>")
_WIDE = re.compile(r"[fi](64|128)|complex<.*")
_VALUE = re.compile(r"(?:dense<)?(.*?)>? : ")
# Their pattern is shorter.
_ZERO = re.compile(r"\(?0(\.0+e\+00)?(, ?0(\.0+e\+00)?)?\)?")


def write_by_kernels(ir: CompilerIR, module: int) -> int:
    """Write the 64-bit literals of a program by kernels; the module is changed.

    Args:
      ir: access to the program.
      module: the program after its kernels were formed.

    Returns:
      The number of literals.
    """
    literals = [
        (op, text)
        for block in ir.blocks(module)
        for function in ir.operations(block)
        if ir.name(function) in _FUNCTIONS
        for op in ir.nested(function)
        if (text := _literal(ir, op)) is not None
    ]
    templates: dict[tuple[str, str], tuple[int, tuple[int, int]]] = {}
    for count, (op, value) in enumerate(literals):
        type_ = ir.type_text(ir.results(op)[0])
        if (type_, value) not in templates:
            holder = ir.parse(_kernel(f"literal_{len(templates)}", type_, value))
            kernel, function = ir.operations(ir.body(holder))
            ir.prepend(next(ir.blocks(module)), kernel)
            (body,) = ir.blocks(function)
            number, call, _ = ir.operations(body)
            templates[type_, value] = holder, (number, call)
        number, call = map(ir.clone, templates[type_, value][1])
        ir.set_int_attribute(number, "value", count)
        ir.set_operand(call, 0, ir.results(number)[0])
        ir.insert_before(op, number)
        ir.insert_before(op, call)
        ir.replace(ir.results(op)[0], ir.results(call)[0])
        ir.erase(op)
    for holder, _ in templates.values():
        ir.destroy_module(holder)
    return len(literals)


def _literal(ir: CompilerIR, op: int) -> str | None:
    """The element of a wide literal that is not zero; None if the operation makes none."""
    name = ir.name(op)
    if name == "flow.tensor.splat":
        maker = ir.definition(ir.operands(op)[0])
        if not maker or ir.name(maker) != "arith.constant":
            return None
    elif name in _CONSTANTS and ir.is_splat(op):
        maker = op
    else:
        return None
    found = _TYPE.fullmatch(ir.type_text(ir.results(op)[0]))
    if found is None or not _WIDE.fullmatch(found[2]):
        return None
    value = _VALUE.match(ir.attribute_text(ir.attribute(maker, "value")))
    return None if value is None or _ZERO.fullmatch(value[1]) else value[1]


def _kernel(name: str, type_: str, value: str) -> str:
    found = _TYPE.fullmatch(type_)
    assert found is not None
    sizes, element = re.findall(r"\d+", found[1]), found[2]
    whole = f"offsets = {[0] * len(sizes)}, sizes = [{', '.join(sizes)}], strides = " + str(
        [1] * len(sizes)
    )
    stored = f"!iree_tensor_ext.dispatch.tensor<writeonly:{type_}>"
    return f"""
flow.executable private @{name} {{
  flow.executable.export public @{name} workgroups() -> (index, index, index) {{
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
    flow.return %x, %y, %z : index, index, index
  }}
  builtin.module {{
    func.func @{name}(%number: index, %to: {stored}) {{
      %literal = arith.constant dense<{value}> : tensor<{element}>
      %element = tensor.extract %literal[] : tensor<{element}>
      %empty = tensor.empty() : {type_}
      %value = linalg.fill ins(%element : {element}) outs(%empty : {type_}) -> {type_}
      iree_tensor_ext.dispatch.tensor.store %value, %to, {whole} : {type_} -> {stored}
      return
    }}
  }}
}}
util.func private @make_{name}() -> {type_} {{
  %number = arith.constant 0 : index
  %value = flow.dispatch @{name}::@{name}(%number) : (index) -> {type_}
  util.return %value : {type_}
}}
"""
