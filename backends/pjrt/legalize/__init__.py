"""What XLA's compilers have no code for: rewritten, or refused by name.

XLA takes every op of StableHLO, so programs get the native forms. What is left are ops whose
StableHLO form is a custom call by our name, factorizations, which become loops, all but those of
general matrices by their eigenvalues, and calls of Python.
"""

from __future__ import annotations

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.narrow import legalize_narrow_dtypes, mentions
from gnomon.backends.pjrt.legalize.bands import RULES as BAND_RULES
from gnomon.backends.pjrt.legalize.factorizations import RULES as FACTORIZATION_RULES
from gnomon.backends.pjrt.legalize.jacobi import RULES as JACOBI_RULES
from gnomon.backends.rewriting import rewrite
from gnomon.dialects.contract import REGISTRY, all_operations
from gnomon.dialects.elementwise.expansion import WITH_LOOPS
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import SUB_BYTE

__all__ = ["RULES", "legalize", "reason_unsupported"]

RULES = {**BAND_RULES, **FACTORIZATION_RULES, **JACOBI_RULES}

_CALLS_PYTHON = (
    "it calls a Python function, and a program on a PJRT plugin's device cannot; call it between "
    "programs, or run on the platform 'cpu'"
)
_FACTORIZATION = (
    "there is no form of it without LAPACK; compute it on the platform 'cpu' (gnomon.device_put "
    "the operands there)"
)
_IN_F64 = (
    "it is computed in f64, and a TPU's f64 is two f32, without the range that it takes; compute "
    "it on the platform 'cpu' (gnomon.device_put the operands there)"
)
# XLA's compiler for the CPU, as of 2025, aborts the process on transposes and reductions of
# integers of less than a byte, and counts the bits of the whole byte: they are computed in bytes.
_WITHOUT_SMALL_INTEGERS = ("cpu",)
_UNSUPPORTED = {
    "gnomon.pure_callback": _CALLS_PYTHON,
    "gnomon.io_callback": _CALLS_PYTHON,
    "gnomon.debug_callback": _CALLS_PYTHON,
}


def legalize(module: ir.Module, platform: str, kind: str = "") -> None:
    """Rewrite a module in place so that a plugin's compiler takes it.

    Args:
      module: the program.
      platform: its name, for messages.
      kind: the plugin's own name for its devices, where some are here.
    Raises:
      UnsupportedOnTarget: it holds an op that cannot be rewritten; the message names the line.
    """
    program = Program(module)
    rewrite(program, RULES)
    bodies = [program.body(symbol_name(function)) for function in program.functions]
    if kind in _WITHOUT_SMALL_INTEGERS and any(mentions(b, SUB_BYTE.__contains__) for b in bodies):
        legalize_narrow_dtypes(program, keep_signature=True)
    for function in program.functions:
        for op in all_operations(program.body(symbol_name(function))):
            reason = reason_unsupported(op.name, platform)
            if reason is not None:
                raise UnsupportedOnTarget(
                    f"{op.name} cannot run on the platform {platform!r}: {reason} ({op.location})"
                )


def reason_unsupported(name: str, platform: str | None = None) -> str | None:
    """Why an op, by its full name, does not run on a platform, or on any plugin; None where it
    does.
    """
    if name in RULES:
        return None
    if platform == "tpu" and name in WITH_LOOPS:
        return _IN_F64
    if name in _UNSUPPORTED:
        return _UNSUPPORTED[name]
    return _FACTORIZATION if _is_on_host(name) else None


def _is_on_host(name: str) -> bool:
    definition = REGISTRY.get(name)
    return definition is not None and definition.lower is on_host
