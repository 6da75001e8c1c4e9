"""Refusals: ops and dtypes that a target lacks, by name, before the compiler sees them.

Nothing is demoted: a program with f64 on a target without it is an error, not a program in f32.
"""

from __future__ import annotations

from dataclasses import replace

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Rule
from gnomon.dialects.body import results_of
from gnomon.dialects.contract import Instance, all_operations
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, short_name, type_of

__all__ = ["LEGALIZATIONS", "LEGALIZATIONS_OF_REWRITTEN", "check_dtypes", "refuse"]

# The advice for an unsupported dtype, by its short name.
_INSTEAD = {
    "f64": "convert to float32, or leave x64 mode",
    "c128": "convert to complex64, or leave x64 mode",
    "i64": "convert to int32, or leave x64 mode",
    "u64": "convert to uint32, or leave x64 mode",
    "bf16": "convert to float32",
    "f16": "convert to float32",
}


def check_dtypes(program: Program, target: Target) -> None:
    """Refuse a program with a dtype that the target lacks.

    Raises:
      UnsupportedOnTarget: names the first op that has one.
    """
    accepted: set[ir.Type] = set()
    for function in program.functions:
        body = program.body(symbol_name(function))
        for type_ in body.argument_types:
            if not _has(target, type_):
                raise _refusal(type_, "an argument", "", target)
        # Checking results is enough: an operand is the result of another op or an argument, and
        # the arguments of a loop's body are operands of the loop.
        for op in all_operations(body):
            for value in results_of(op):
                if value.type in accepted:
                    continue
                if not _has(target, type_of(value)):
                    raise _refusal(type_of(value), op.name, _line(op.location), target)
                accepted.add(value.type)


def _has(target: Target, type_: TensorType) -> bool:
    return short_name(type_.dtype) in target.capabilities.dtypes


def _refusal(type_: TensorType, what: str, line: str, target: Target) -> UnsupportedOnTarget:
    instead = _INSTEAD.get(short_name(type_.dtype), "convert to a dtype that it has")
    return UnsupportedOnTarget(
        f"{what} of type {type_} is not supported on target {target.name!r}, which computes with "
        f"{', '.join(sorted(target.capabilities.dtypes))}{line}; {instead}, or choose another "
        "target, such as 'cpu' or 'cuda'"
    )


def refuse(target: Target, reason: str) -> Rule:
    """A rule that refuses an op that the target cannot run."""

    def rule(inst: Instance) -> None:
        types = ", ".join(map(str, inst.operand_types))
        raise UnsupportedOnTarget(
            f"{inst.op.full_name} of ({types}) is not supported on target {target.name!r}: "
            f"{reason}{_line(ir.Location.current)}; compute it in a program for the CPU and pass "
            "the result on, or choose a target whose programs can call Python ('cpu', 'cuda', "
            "'vulkan')"
        )

    return rule


def _line(location: ir.Location) -> str:
    """The user's line, for a message; empty if it is not known."""
    text = str(location)
    return "" if "unknown" in text else f" ({text})"


LEGALIZATIONS = (
    Legalization(
        name="missing-dtypes",
        stage=Stage.PREPARE,
        kind=Kind.REFUSED,
        doc="refuse by name a program with a dtype that the target lacks",
        upstream="IREE 3.13 demotes such a dtype, or fails in the middle of code generation",
        no_report="such a program cannot run on the target in any form",
        reproducer="`x + x` of f64 for `vulkan:portable` fails in the conversion to SPIR-V",
        run=check_dtypes,
    ),
)

# Check the ops that rules have written, too.
LEGALIZATIONS_OF_REWRITTEN = (
    replace(
        LEGALIZATIONS[0],
        name="missing-dtypes-written",
        stage=Stage.FUSE,
        reproducer="",
        no_reproducer="no rule is known to write a dtype that the target lacks; this checks it",
    ),
)
