"""Large complex arrays are taken apart and put together by kernels of our own.

IREE 3.13 vectorizes no kernel that reads or writes a complex number, and makes its workgroups of a
power of two that divides the number of elements. With an odd number, each element is a workgroup:
two threads took 30 % of the processor time of a program to claim the workgroups of two kernels that
split 197 x 257 numbers.

A complex array is an array of pairs in memory. A kernel reads vectors of pairs, and writes the real
parts, the imaginary parts, or both; another one reads both parts, and writes pairs. They are the
same for all sizes.
"""

from __future__ import annotations

import logging
import math
from typing import NamedTuple

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.legalize.text_kernels import add_kernels, dispatch, kernel_as_text
from gnomon.backends.iree.targets import Target
from gnomon.dialects.mlir import ir, other_dialects

__all__ = ["FEWEST", "LEGALIZATIONS", "write_complex_kernels"]

logger = logging.getLogger(__name__)

FEWEST = 1 << 13
"""The least number of elements of an array that has a kernel.

Times of calls with kernels for all sizes, in units of those without any, on an AMD Zen 5:
  elements       4096   8192   16384   50629   262144   1048576
  abs(z)         0.66   0.57   0.48    0.08    0.35     0.35
  z.real + 1     0.99   0.87   0.70    0.13    0.82     0.61
  z * z + 1      1.05   1.01   0.73    0.23    1.15     1.43
The last is bound by memory, which the kernels pass over more often.
"""

_REAL, _IMAG, _COMPLEX = "stablehlo.real", "stablehlo.imag", "stablehlo.complex"
_PARTS = (_REAL, _IMAG)
# Ops whose result IREE's kernels make as they need it.
_IN_PLACE = frozenset({"stablehlo.constant", "stablehlo.broadcast_in_dim", "stablehlo.iota"})
# The elements of a workgroup. A call of `abs` of as many takes 8 us in all.
_WORKGROUP = 1 << 14
_VECTOR_BYTES = 64


class _Kernel(NamedTuple):
    """A kernel.

    Attributes:
      element: the dtype of the parts.
      ops: the ops whose results it writes: those that take parts of an array, or ``complex``.
    """

    element: str
    ops: tuple[str, ...]

    @property
    def name(self) -> str:
        ops = "_".join(op.removeprefix("stablehlo.") for op in self.ops)
        return f"{ops}_{self.element}"


def write_complex_kernels(module: ir.Module, target: Target) -> bool:
    """Take the large complex arrays of a module apart and put them together by kernels of ours."""
    del target
    # The ops with the same operands, in a block, by name.
    found: dict[tuple[ir.Block, tuple[ir.Value, ...]], dict[str, list[ir.Operation]]] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in (*_PARTS, _COMPLEX) and _pays(op):
            same = found.setdefault((op.block, tuple(op.operands)), {})
            same.setdefault(op.name, []).append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    kernels = set()
    with other_dialects(module.context):
        for by_name in found.values():
            # The first of the ops comes before all others. Its operands may be results of kernels
            # by now.
            first = next(iter(by_name.values()))[0]
            operands = list(first.operands)
            part = first.results[0].type if first.name in _PARTS else operands[0].type
            kernel = _Kernel(str(part.element_type), tuple(sorted(by_name, reverse=True)))
            size = math.prod(part.shape)
            with ir.InsertionPoint(first), first.location:
                results = dispatch(
                    kernel.name,
                    [*operands, size],
                    -(-size // _WORKGROUP),
                    [by_name[name][0].results[0].type for name in kernel.ops],
                )
            for name, result in zip(kernel.ops, results, strict=True):
                for op in by_name[name]:
                    op.results[0].replace_all_uses_with(result)
                    op.erase()
            kernels.add(kernel)
        add_kernels((kernel_as_text(one.name, _code(one)) for one in sorted(kernels)), module)
    return bool(found)


def _pays(op: ir.Operation) -> bool:
    type_ = ir.RankedTensorType(op.results[0].type)
    ignored = _IN_PLACE if op.name == _COMPLEX else _IN_PLACE | {_COMPLEX}
    if not type_.has_static_shape or any(_is_by(x, ignored) for x in op.operands):
        return False
    if op.name == _COMPLEX and all(use.owner.name in _PARTS for use in op.results[0].uses):
        return False
    size = math.prod(type_.shape)
    pays = size >= max(FEWEST, 1)
    if logger.isEnabledFor(logging.DEBUG):
        how = "a kernel of ours" if pays else f"in its kernel, for it has under {FEWEST}"
        logger.debug("%s of %d elements: %s", op.name, size, how)
    return pays


def _is_by(value: ir.Value, names: frozenset[str]) -> bool:
    """Whether a value is the result of one of some ops."""
    return isinstance(value, ir.OpResult) and value.owner.name in names


def _code(kernel: _Kernel) -> str:
    element = kernel.element
    width = 8 * _VECTOR_BYTES // int(element.removeprefix("f"))
    buffer = f"memref<?x{element}>"
    pair, half = f"vector<{2 * width}x{element}>", f"vector<{width}x{element}>"
    joins = kernel.ops == (_COMPLEX,)
    # The index in a pair of each part that the kernel reads or writes.
    indices = [0, 1] if joins else [int(op == _IMAG) for op in kernel.ops]

    def each(lines: str) -> str:
        return "".join(lines.replace("#", str(i)) for i in indices)

    parts, pairs = each(", %b_#: !stream.binding"), ", %b: !stream.binding"
    arguments = f"{parts}, %count: index{pairs}" if joins else f"{pairs}, %count: index{parts}"
    views = each(f"""
      %part_# = "stream.binding.subspan"(%b_#, %zero, %count)
          : (!stream.binding, index, index) -> {buffer}""")
    if joins:
        vectors = (
            each(f"""
        %half_# = vector.load %part_#[%i] : {buffer}, {half}""")
            + f"""
        %both = vector.interleave %half_0, %half_1 : {half} -> {pair}
        vector.store %both, %pairs[%at] : {buffer}, {pair}"""
        )
        numbers = f"""
        %x_# = memref.load %part_#[%i] : {buffer}
        memref.store %x_#, %pairs[%at_#] : {buffer}"""
    else:
        vectors = f"""
        %both = vector.load %pairs[%at] : {buffer}, {pair}
        %half_0, %half_1 = vector.deinterleave %both : {pair} -> {half}""" + each(f"""
        vector.store %half_#, %part_#[%i] : {buffer}, {half}""")
        numbers = f"""
        %x_# = memref.load %pairs[%at_#] : {buffer}
        memref.store %x_#, %part_#[%i] : {buffer}"""
    numbers = each(f"""
        %offset_# = arith.constant # : index
        %at_# = arith.addi %at, %offset_# : index{numbers}""")
    return f"""
    func.func @{kernel.name}({arguments.removeprefix(", ")}) {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %two = arith.constant 2 : index
      %width = arith.constant {width} : index
      %share = arith.constant {_WORKGROUP} : index
      %size = arith.muli %count, %two : index
      %pairs = "stream.binding.subspan"(%b, %zero, %size)
          : (!stream.binding, index, index) -> {buffer}{views}
      %worker = "stream.dispatch.workgroup.id"() <{{dimension = 0 : index}}> : () -> index
      %start = arith.muli %worker, %share : index
      %next = arith.addi %start, %share : index
      %end = arith.minui %next, %count : index
      %length = arith.subi %end, %start : index
      %rest = arith.remui %length, %width : index
      %last = arith.subi %end, %rest : index
      scf.for %i = %start to %last step %width {{
        %at = arith.muli %i, %two : index{vectors}
      }}
      scf.for %i = %last to %end step %one {{
        %at = arith.muli %i, %two : index{numbers}
      }}
      return
    }}"""


LEGALIZATIONS = (
    Legalization(
        name="complex-kernels",
        stage=Stage.COMPILER_OPS,
        kind=Kind.SLOW,
        doc="take large complex arrays apart and put them together by kernels with vectors",
        upstream="IREE 3.13 vectorizes no kernel of complex numbers, and makes a workgroup "
        "of each element if their number is odd",
        reproducer="`abs` of 197 x 257 complex numbers takes twice as long",
        targets=Targets.where(memory="host"),
        run=write_complex_kernels,
        needs=frozenset({*_PARTS, _COMPLEX}),
    ),
)
