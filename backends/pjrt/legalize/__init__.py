"""Legalization for XLA's compilers: rewrite or reject the ops that they do not support.

XLA compiles every op of StableHLO, so programs use the native forms. The other ops have a custom
call as their StableHLO form. Factorizations are rewritten to loops, except ``eig`` and ``schur`` of
general matrices. Those and callbacks become host calls if programs can call Python; otherwise they
are rejected.
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
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, names_of
from gnomon.dialects.types import SUB_BYTE

__all__ = ["RULES", "legalize", "reason_unsupported"]

RULES = {**BAND_RULES, **FACTORIZATION_RULES, **JACOBI_RULES}

_CALLS_PYTHON = (
    "it calls a Python function, which a program on a PJRT plugin's device cannot do; call it "
    "between programs, or run on the platform 'cpu'"
)
_FACTORIZATION = (
    "it needs LAPACK; compute it on the platform 'cpu' (gnomon.device_put the operands there)"
)
_IN_F64 = (
    "it is computed in f64, but a TPU's f64 is a pair of f32, whose range is too small; compute it "
    "on the platform 'cpu' (gnomon.device_put the operands there)"
)
# As of 2025, XLA's CPU compiler aborts the process on transposes and reductions of sub-byte
# integers, and its population count counts the whole byte, so they are computed in bytes.
_WITHOUT_SMALL_INTEGERS = ("cpu",)
_UNSUPPORTED = dict.fromkeys(sorted(names_of("gnomon", Form.CALLBACK)), _CALLS_PYTHON)


def legalize(
    module: ir.Module, platform: str, kind: str = "", *, calls_python: bool = False
) -> None:
    """Rewrite a module in place so that a plugin's compiler accepts it.

    Args:
      module: the program.
      platform: the name of the platform, for messages.
      kind: the plugin's own name of its devices, if some are present.
      calls_python: whether compiled programs can call Python.

    Raises:
      UnsupportedOnTarget: an op cannot be rewritten; the message names it and the line.
    """
    program = Program(module)
    rewrite(program, RULES)
    bodies = [program.body(symbol_name(function)) for function in program.functions]
    if kind in _WITHOUT_SMALL_INTEGERS and any(mentions(b, SUB_BYTE.__contains__) for b in bodies):
        legalize_narrow_dtypes(program, keep_signature=True)
    if calls_python:
        rewrite(program, dict.fromkeys(_left_to_python(), call_on_host))
    for function in program.functions:
        for op in all_operations(program.body(symbol_name(function))):
            reason = reason_unsupported(op.name, platform)
            if reason is not None:
                raise UnsupportedOnTarget(
                    f"{op.name} cannot run on the platform {platform!r}: {reason} ({op.location})"
                )


def reason_unsupported(name: str, platform: str | None = None) -> str | None:
    """The reason why a platform, or any plugin, does not support an op; None if it does.

    ``name`` is the full name of the op.
    """
    if name in RULES:
        return None
    if platform == "tpu" and name in WITH_LOOPS:
        return _IN_F64
    return _UNSUPPORTED.get(name, _FACTORIZATION if _is_on_host(name) else None)


def _is_on_host(name: str) -> bool:
    definition = REGISTRY.get(name)
    return definition is not None and definition.lower is on_host


def _left_to_python() -> list[str]:
    """The ops that only Python can evaluate, or LAPACK through Python."""
    factorizations = [name for name in REGISTRY if name not in RULES and _is_on_host(name)]
    return [*_UNSUPPORTED, *factorizations]
