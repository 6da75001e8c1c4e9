"""Lowering programs to the StableHLO that `kernels` writes as loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gnomon.backends import profiling
from gnomon.backends.compilation import Artifact, Lowering, Observer, has_open_loops
from gnomon.backends.complex_numbers import rules, split_complex_numbers
from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.long_sums import (
    STAGE,
    cumulative_rules,
    is_short,
    product_in_pieces,
    sum_in_stages,
)
from gnomon.backends.narrow import legalize_narrow_dtypes
from gnomon.backends.pjrt.legalize import RULES
from gnomon.backends.rewriting import Rule, rewrite
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.combinators import accumulator
from gnomon.dialects.contract import REGISTRY, Instance, all_operations
from gnomon.dialects.dot_algorithm import algorithm_as_ops
from gnomon.dialects.emit import convert
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.host_call import host_call
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_inexact
from gnomon.passes.pipeline import Pass

__all__ = ["KernelBackend", "KernelPlan"]

_PYTHON = "it calls a Python function, which a program without Python cannot do"
_REASONS = {
    "gnomon.pure_callback": _PYTHON,
    "gnomon.io_callback": _PYTHON,
    "gnomon.debug_callback": _PYTHON,
    "gnomon.host_call": _PYTHON,
}
_LAPACK = "it needs LAPACK, which a program without libraries does not have"
_DEVICES = "it runs on several devices; this function runs on one processor"


def _sum(inst: Instance) -> Sequence[ir.Value] | None:
    """A long sum of f64 in stages; the loops add long sums of f32 in f64."""
    type_, axes = inst.operand_types[0], inst.params["axes"]
    if type_.dtype not in (np.float64, np.complex128) or is_short(type_, axes, STAGE):
        return None
    return [sum_in_stages(inst.operand, axes)]


def _product(inst: Instance) -> Sequence[ir.Value] | None:
    dtype = inst.type.dtype
    if not is_inexact(dtype):
        return None
    total = product_in_pieces(inst, accumulator(dtype))
    return None if total is None else [convert(total, dtype)]


_LONG_SUMS = {
    "gnomon.reduce_sum": _sum,
    "gnomon.dot_general": _product,
    **cumulative_rules(convert),
}


class KernelPlan(NamedTuple):
    """What a program becomes, to be written as loops.

    Attributes:
      module: the StableHLO.
      functions: the functions of Python that it calls.
      unbounded: whether it has a loop that may run any number of times.
      program_key: the key under which to remember the program as it was traced; None if it is not
        remembered.
    """

    module: ir.Operation
    functions: tuple[Any, ...] = ()
    unbounded: bool = False
    program_key: str | None = None


class KernelBackend:
    """Lowers programs to StableHLO, which `kernels` writes as loops.

    Attributes:
      platform: its name in messages.
      written: what the loops become, in messages.
      rules: rewriting rules of the target, which come before those of all targets.
      functions: rules that rewrite elementary functions of real numbers, which come last.
      in_process: whether programs run in this process: they can call Python, and the devices of a
        mesh share its memory.
    """

    platform = "loops"
    written = "be written as loops"
    rules: Mapping[str, Rule] = MappingProxyType({})
    functions: Mapping[str, Rule] = MappingProxyType({})
    in_process = False

    def lower(
        self, program: Program, *, keep_stages: bool = False, observe: Observer | None = None
    ) -> Artifact:
        """Lower a program whose public function is ``main``; see `Backend.lower`.

        Raises:
          UnsupportedOnTarget: an op or a dtype has no kernel; the message names it and the line.
        """
        lowering = Lowering(program, keep_stages=keep_stages, observe=observe)
        with profiling.span("lower", program=lowering.name):
            return self.lower_in(lowering)

    def lower_in(self, lowering: Lowering) -> Artifact:
        """Lower a program that may be expanded already; see `lower`."""
        lowering.expand()
        unbounded = has_open_loops(lowering.module)
        lowering.run(("expand-scan",))
        lowering.legalize(
            Pass(
                "legalize-for-loops",
                "rewrite or reject operations that have no kernels",
                self._legalize,
            )
        )
        functions, callbacks = self.called_functions(lowering.module)
        lowering.to_stablehlo()
        plan = KernelPlan(_clone(lowering.module), functions, unbounded)
        return lowering.artifact(plan=plan, callbacks=callbacks)

    def called_functions(self, module: ir.Module) -> tuple[tuple[Any, ...], tuple[Callback, ...]]:
        """Name the functions of Python that a legalized program calls; none by default."""
        return (), ()

    def _legalize(self, module: ir.Module) -> None:
        program = Program(module)
        if "gnomon.mesh" in module.operation.attributes and not self.in_process:
            raise UnsupportedOnTarget(_DEVICES)
        rewrite(program, {"gnomon.dot_general": algorithm_as_ops})
        rewrite(program, {**RULES, **_LONG_SUMS, **self.rules})
        split_complex_numbers(program, rules())
        legalize_narrow_dtypes(program)
        rewrite(program, self.functions)
        for function in program.functions:
            for op in all_operations(program.body(symbol_name(function))):
                reason = None if self._can_call(op) else _reason(op)
                if reason is not None:
                    raise UnsupportedOnTarget(
                        f"{op.name} cannot {self.written}: {reason} ({op.location})"
                    )

    def _can_call(self, op: ir.Operation) -> bool:
        """Whether an operation is a call of Python, and the program can make it."""
        return self.in_process and op.name == host_call.full_name


def _clone(module: ir.Module) -> ir.Operation:
    copy: ir.Operation = module.operation.clone(ip=False)
    return copy


def _reason(op: ir.Operation) -> str | None:
    if op.name in _REASONS:
        return _REASONS[op.name]
    definition = REGISTRY.get(op.name)
    if definition is not None and definition.lower is on_host:
        return _LAPACK
    if definition is not None and definition.collective:
        return _DEVICES
    return None
