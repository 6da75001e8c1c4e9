"""Kernels as units of compilation: programs are split into them, and assembled from them.

Between two phases of the compiler, each kernel of a program is a ``hal.executable``, to which the
rest of the program refers only by name. Code generation for kernels is 60 to 90 % of a compilation,
so kernels are compiled separately, and a compiled kernel is used in all programs that contain it.

Splitting: the text of a kernel contains more than its code depends on, namely its name, and the
offsets of its operands in the program's buffers. `split` removes both. Each operand becomes a
binding that begins where the operand does, so that the same layer of another model, or the next
layer of this one, has the same text.

Compiling: `compile_batch` compiles several kernels into one object file, a static library of
IREE's, since a fixed part of code generation (50 ms) is paid once per batch. With the object it
returns a frame for each kernel: the ``hal.executable`` without code, but with the computed size of
the grid.

Assembling: `assemble` gives each executable of the program its frame, and as its code a
function that finds the kernel in the object's table of functions and calls it with the operands at
their offsets in this program. The linker joins the objects with these functions.

The compiler's process loads this file by its path, so it must not import the rest of gnomon.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = ["Kernel", "UnknownFormError", "assemble", "compile_batch", "pack", "split", "unpack"]

_SOURCES, _TARGETS, _HAL = b"executable-sources", b"executable-targets", b"hal"
_EXECUTABLE, _VARIANT = "hal.executable", "hal.executable.variant"
_EXPORT, _MODULE, _FUNCTION = "hal.executable.export", "builtin.module", "func.func"
_ENDS = frozenset({"hal.executable_end", "hal.executable.variant_end"})
_SUBSPAN = "hal.interface.binding.subspan"
_ASSUMPTION = "util.assume.int"
_LIST = re.compile(r"\[(#util[^\[\]]*)\]")
_RANGE = re.compile(r"umin = (\d+), umax = (\d+)")
# The alignment of values in the buffers into which the compiler packs them.
_ALIGNMENT = 64
_NAME = "kernel"
_BINDING = re.compile(r"#hal\.pipeline\.binding<[^>]*>")
_TARGET = re.compile(r'target\(<"llvm-cpu", "[^"]*", \{')

_SIZE = struct.Struct("<Q")

# IREE's structures (iree/hal/local/executable_library.h), and the number of their version.
_VERSION = 6
_STATE = (
    '!llvm.struct<"iree_hal_executable_dispatch_state_v0_t", '
    "(i32, i32, i16, i16, i32, i32, i16, i8, i8, ptr, ptr, ptr)>"
)
_STATE_BINDINGS = 10
# The offset of the pointer to the functions in a library's structure: after header and imports.
_FUNCTIONS_OFFSET = 32


class UnknownFormError(ValueError):
    """Raised if the compiler's text differs from that of the version for which this is written."""


class Kernel(NamedTuple):
    """A kernel of a program.

    Attributes:
      op: its ``hal.executable`` in the program.
      text: its code, without anything particular to the program.
      operands: for each of its bindings, the program's binding, and the offset in bytes.
    """

    op: int
    text: str
    operands: tuple[tuple[int, int], ...]


class _Parts(NamedTuple):
    """The operations of an executable: one function for one target."""

    variant: int
    export: int
    module: int
    function: int


def pack(parts: Sequence[bytes]) -> bytes:
    """Several byte strings as one."""
    return b"".join(piece for part in parts for piece in (_SIZE.pack(len(part)), part))


def unpack(data: bytes) -> list[bytes]:
    """The byte strings that `pack` joined."""
    parts, at = [], 0
    while at < len(data):
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        parts.append(data[at : at + size])
        at += size
    return parts


# -------------------------------------------------------------------------------------- splitting


def split(ir: CompilerIR, module: int) -> list[Kernel]:
    """The kernels of a program.

    Args:
      ir: access to the program.
      module: the program, up to the phase ``executable-sources``.

    Returns:
      The kernels; none if one of them cannot be compiled separately, because it has several
      targets, several functions with bodies, or values that are known only when the program is
      loaded.
    """
    kernels = []
    for op in _executables(ir, module):
        if _parts(ir, op) is None:
            return []
        kernels.append(_normalize(ir, op))
    return kernels


def _parts(ir: CompilerIR, executable: int) -> _Parts | None:
    variant = _only(ir, executable, _VARIANT)
    if variant is None:
        return None
    found = {ir.name(op): op for op in _members(ir, variant)}
    if len(list(_members(ir, variant))) != 2 or found.keys() != {_EXPORT, _MODULE}:
        return None
    functions = _members(ir, found[_MODULE])
    if any(ir.name(op) != _FUNCTION for op in functions):
        return None
    # The others are declarations of functions that the dynamic loader finds, such as the BLAS's.
    defined = [op for op in functions if any(True for _ in ir.blocks(op))]
    if len(defined) != 1:
        return None
    return _Parts(variant, found[_EXPORT], found[_MODULE], defined[0])


def _only(ir: CompilerIR, op: int, name: str) -> int | None:
    """The only operation inside another one, if it has this name; None otherwise."""
    members = _members(ir, op)
    return members[0] if [ir.name(member) for member in members] == [name] else None


def _members(ir: CompilerIR, op: int) -> list[int]:
    members = (member for block in ir.blocks(op) for member in ir.operations(block))
    return [member for member in members if ir.name(member) not in _ENDS]


def _normalize(ir: CompilerIR, executable: int) -> Kernel:
    holder = ir.parse("module {}")
    copy = ir.clone(executable)
    ir.append(ir.body(holder), copy)
    parts = _parts(ir, copy)
    assert parts is not None
    operands = _separate_operands(ir, parts)
    name = ir.parse_attribute(f'"{_NAME}"')
    for op in (copy, parts.export, parts.function):
        ir.set_attribute(op, "sym_name", name)
    # In a program of kernels alone nothing refers to a private kernel, so it would be dropped.
    ir.set_attribute(copy, "sym_visibility", ir.parse_attribute('"public"'))
    text = ir.text(copy)
    ir.destroy_module(holder)
    return Kernel(executable, text, operands)


def _separate_operands(ir: CompilerIR, parts: _Parts) -> tuple[tuple[int, int], ...]:
    """Make each operand of a kernel a binding that begins where the operand does, in place."""
    spans = [op for op in ir.nested(parts.function) if ir.name(op) == _SUBSPAN]
    places = [(ir.integer(op, "binding"), _offset(ir, op)) for op in spans]
    operands = tuple(dict.fromkeys(places))
    old = ir.attribute_text(ir.attribute(parts.export, "layout"))
    bindings = _BINDING.findall(old)
    whole = ", ".join(bindings)
    if f"[{whole}]" not in old:
        raise UnknownFormError(
            f"the layout of a kernel is written in a way that is not known: {old}"
        )
    layout = ir.parse_attribute(
        old.replace(f"[{whole}]", f"[{', '.join(bindings[number] for number, _ in operands)}]")
    )
    zero = 0
    for span, place in zip(spans, places, strict=True):
        if place[1]:
            if not zero:
                zero = ir.clone(ir.definition(ir.operands(span)[0]))
                ir.prepend(next(ir.blocks(parts.function)), zero)
                ir.set_int_attribute(zero, "value", 0)
            ir.set_operand(span, 0, ir.results(zero)[0])
        ir.set_int_attribute(span, "binding", operands.index(place))
        ir.set_attribute(span, "layout", layout)
    ir.set_attribute(parts.export, "layout", layout)
    for op in ir.nested(parts.function):
        if ir.name(op) == _ASSUMPTION:
            _generalize(ir, op)
    for op in list(ir.nested(parts.function)):
        if ir.name(op) == "arith.constant" and not any(True for _ in ir.uses(ir.results(op)[0])):
            ir.erase(op)
    return operands


def _offset(ir: CompilerIR, span: int) -> int:
    """The constant offset of an operand that can be moved out of the kernel; 0 if there is none."""
    if not ir.segment_size(span, 0):
        return 0
    definition = ir.definition(ir.operands(span)[0])
    if not definition or ir.name(definition) != "arith.constant":
        return 0
    offset = ir.integer(definition, "value")
    # The code relies on the declared alignment of the binding's start.
    aligned = ir.attribute(span, "alignment") and offset % ir.integer(span, "alignment") == 0
    return offset if aligned else 0


def _generalize(ir: CompilerIR, assumption: int) -> None:
    """Generalize the assumptions of a kernel about an offset, so that they hold for other programs.

    If a kernel has several callers, the offset is an argument, and the kernel lists the values of
    all callers. Its code depends only on their alignment: that of `_ALIGNMENT` for values of the
    program, and less for some constants.
    """
    uses = [use for result in ir.results(assumption) for use in ir.uses(result)]
    if any(ir.name(user) != _SUBSPAN or index != 0 for user, index in uses):
        return
    # One list for each offset, with a value for each caller.
    lists = _LIST.findall(ir.attribute_text(ir.attribute(assumption, "assumptions")))
    if len(lists) != len(ir.results(assumption)):
        return
    general = []
    for text in lists:
        ranges = _RANGE.findall(text)
        # An assumption without a range is that of a caller whose offset is computed: it may be any.
        if len(ranges) != text.count("assumption<") or any(
            low != high or int(high) >> 32 for low, high in ranges
        ):
            return
        alignment = math.gcd(_ALIGNMENT, *(int(low) for low, _ in ranges))
        general.append(f"[#util.int.assumption<umin = 0, umax = {2**32 - 1}, udiv = {alignment}>]")
    ir.set_attribute(assumption, "assumptions", ir.parse_attribute(f"[{', '.join(general)}]"))


# -------------------------------------------------------------------------------------- compiling


def compile_batch(
    ir: CompilerIR, session: Any, name: str, texts: Sequence[str], folder: Path
) -> bytes | None:
    """Compile kernels into one object.

    Args:
      ir: access to the programs of the session.
      session: a session of the compiler, with the flags of the program.
      name: a name for the batch that is unique within every program.
      texts: the kernels.
      folder: the folder for temporary files.

    Returns:
      The batch for `assemble`; None if the compiler rejected it, after printing the reason.
    """
    from iree.compiler.api import Source  # noqa: PLC0415

    path = folder / f"{name}.o"
    library = f'static", {{link_static = true, static_library_output = "{path}", '
    bodies = []
    for i, text in enumerate(texts):
        body, count = _TARGET.subn(f'target(<"llvm-cpu", "{library}', text)
        if count != 1:
            raise UnknownFormError("a kernel's target is written in a way that is not known")
        # No other symbol has this name, and names of values begin with a percent sign.
        bodies.append(body.replace(f"@{_NAME}", f"@{name}_{i}"))
    source_text = f"module @{name} {{\n" + "\n".join(bodies) + "\n}\n"
    with session.invocation() as invocation:
        invocation.enable_console_diagnostics()
        source = Source.wrap_buffer(session, source_text.encode(), buffer_name=name)
        if not invocation.parse_source(source):
            return None
        if not ir.run_phases(invocation, _SOURCES, _TARGETS):
            return None
        with ir.module_of(invocation) as module:
            frames = [_frame(ir, op) for op in _executables(ir, module)]
        if not ir.run_phases(invocation, _TARGETS, _HAL):
            return None
    code = path.read_bytes()
    for suffix in (".o", ".h"):
        path.with_suffix(suffix).unlink(missing_ok=True)
    return pack([name.encode(), code, *(frame.encode() for frame in frames)])


def _executables(ir: CompilerIR, module: int) -> list[int]:
    members = (op for block in ir.blocks(module) for op in ir.operations(block))
    return [op for op in members if ir.name(op) == _EXECUTABLE]


def _frame(ir: CompilerIR, executable: int) -> str:
    """An executable as text, without its code."""
    copy = ir.clone(executable)
    variant = _only(ir, copy, _VARIANT)
    assert variant is not None
    for member in _members(ir, variant):
        if ir.name(member) == _MODULE:
            for op in _members(ir, member):
                ir.erase(op)
    text = ir.text(copy)
    ir.erase(copy)
    return text


# -------------------------------------------------------------------------------------- assembling


def assemble(
    ir: CompilerIR,
    kernels: Sequence[Kernel],
    places: Sequence[tuple[int, int]],
    batches: Sequence[bytes],
    folder: Path,
) -> list[Path]:
    """Replace the kernels of a program by compiled ones, in place.

    Args:
      ir: access to the program.
      kernels: the kernels of the program, from `split`.
      places: for each kernel, the index of its batch, and its index there.
      batches: the batches, from `compile_batch`.
      folder: the folder for the objects, where the linker finds them.

    Returns:
      The objects' files, which the phase ``hal`` reads.
    """
    contents = [unpack(batch) for batch in batches]
    paths = [folder / f"{name.decode()}.o" for name, *_ in contents]
    for path, (_, code, *_) in zip(paths, contents, strict=True):
        path.write_bytes(code)
    for kernel, (batch, index) in zip(kernels, places, strict=True):
        name, _, *frames = contents[batch]
        parts = _parts(ir, kernel.op)
        assert parts is not None
        symbol = ir.symbol(parts.export)
        _replace_export(ir, parts.export, frames[index].decode())
        # A batch of one kernel is not linked, so the kernel keeps its name.
        suffix = "linked" if len(frames) > 1 else "0"
        library = f"{name.decode()}_{suffix}_library_query"
        _replace_code(ir, parts.module, _call(library, index, symbol, kernel.operands))
        object_ = f'[#hal.executable.object<{{path = "{paths[batch]}"}}>]'
        ir.set_attribute(parts.variant, "objects", ir.parse_attribute(object_))
    return paths


def _replace_export(ir: CompilerIR, export: int, frame: str) -> None:
    holder = ir.parse(frame)
    (compiled,) = (op for op in ir.nested(ir.operation_of(holder)) if ir.name(op) == _EXPORT)
    new = ir.clone(compiled)
    ir.insert_before(export, new)
    # These attributes stay the program's, since they describe its bindings.
    for name in ("sym_name", "layout", "ordinal"):
        ir.set_attribute(new, name, ir.attribute(export, name))
    ir.erase(export)
    ir.destroy_module(holder)


def _replace_code(ir: CompilerIR, module: int, text: str) -> None:
    holder = ir.parse(text)
    new = ir.clone(ir.operation_of(holder))
    ir.insert_before(module, new)
    ir.erase(module)
    ir.destroy_module(holder)


def _call(library: str, index: int, name: str, operands: Sequence[tuple[int, int]]) -> str:
    """A module with a function that calls a kernel of a library on the program's operands."""
    arguments = "(!llvm.ptr, !llvm.ptr, !llvm.ptr)"
    lines = [
        f"%version = llvm.mlir.constant({_VERSION} : i32) : i32",
        "%one = llvm.mlir.constant(1 : i32) : i32",
        f"%library = llvm.call @{library}(%version, %environment) : (i32, !llvm.ptr) -> !llvm.ptr",
        *_loaded("table", "%library", _FUNCTIONS_OFFSET, "i8"),
        *_loaded("kernel", "%table", index, "!llvm.ptr"),
    ]
    state = "%state"
    if operands != tuple((i, 0) for i in range(len(operands))):
        state = "%own_state"
        lines += [
            f"%given = llvm.load %state : !llvm.ptr -> {_STATE}",
            f"%bindings = llvm.extractvalue %given[{_STATE_BINDINGS}] : {_STATE}",
            f"%own = llvm.alloca %one x !llvm.array<{len(operands)} x ptr> : (i32) -> !llvm.ptr",
        ]
        for i, (binding, offset) in enumerate(operands):
            lines += [
                *_loaded(f"binding_{i}", "%bindings", binding, "!llvm.ptr"),
                f"%operand_{i} = llvm.getelementptr %binding_{i}[{offset}] "
                ": (!llvm.ptr) -> !llvm.ptr, i8",
                f"%slot_{i} = llvm.getelementptr %own[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr",
                f"llvm.store %operand_{i}, %slot_{i} : !llvm.ptr, !llvm.ptr",
            ]
        lines += [
            f"%changed = llvm.insertvalue %own, %given[{_STATE_BINDINGS}] : {_STATE}",
            f"%own_state = llvm.alloca %one x {_STATE} : (i32) -> !llvm.ptr",
            f"llvm.store %changed, %own_state : {_STATE}, !llvm.ptr",
        ]
    body = "\n".join(lines)
    return f"""
module {{
  llvm.func @{library}(i32, !llvm.ptr) -> !llvm.ptr
  llvm.func @{name}(%environment: !llvm.ptr, %state: !llvm.ptr, %workgroup: !llvm.ptr) -> i32 {{
{body}
    %status = llvm.call %kernel(%environment, {state}, %workgroup) : !llvm.ptr, {arguments} -> i32
    llvm.return %status : i32
  }}
}}
"""


def _loaded(name: str, base: str, index: int, element: str) -> list[str]:
    """Lines that load the pointer at an index from a base address."""
    return [
        f"%{name}_at = llvm.getelementptr {base}[{index}] : (!llvm.ptr) -> !llvm.ptr, {element}",
        f"%{name} = llvm.load %{name}_at : !llvm.ptr -> !llvm.ptr",
    ]
