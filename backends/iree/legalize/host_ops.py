"""Ops that compiled programs leave to Python, and why: `backends.iree.host` calls them.

A call costs a few microseconds and a wait for the operands. It pays off if the compiler has no code
for the op, or if LAPACK is much faster. Targets whose programs cannot call Python refuse these ops.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.legalize.refusals import refuse
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Rule, SpecialCase
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.traits import Form, names_of

__all__ = ["HOST_OPS", "LEGALIZATIONS", "has_numpy", "host_rules", "numpy_host_rules"]

_LAPACK = "IREE has no code for it"

# The op's full name, and the reason.
HOST_OPS: dict[str, str] = {
    **dict.fromkeys(sorted(names_of("gnomon", Form.CALLBACK)), "it is a Python function"),
    **dict.fromkeys(sorted(names_of("gnomon", Form.MATRIX)), _LAPACK),
}


def host_rules(target: Target) -> dict[str, Rule]:
    """The rewriting rules of `HOST_OPS` for a target."""
    if target.capabilities.host_calls:
        return dict.fromkeys(HOST_OPS, SpecialCase(call_on_host))
    return {
        name: SpecialCase(refuse(target, f"{reason}, and its programs cannot call Python"))
        for name, reason in HOST_OPS.items()
    }


def has_numpy(target: Target) -> bool:
    """Whether modules that `gnomon_runtime` loads for a target can call NumPy.

    NumPy's LAPACK serves every processor; WebAssembly, which is not ELF code, has no NumPy.
    """
    return target.capabilities.host_calls or target.code == "elf"


def numpy_host_rules(target: Target) -> dict[str, Rule]:
    """The rules of `HOST_OPS` for modules that `gnomon_runtime` loads, which has only NumPy."""
    rules = host_rules(target)
    if target.capabilities.host_calls or not has_numpy(target):
        return rules
    lapack = [name for name, reason in HOST_OPS.items() if reason == _LAPACK]
    return {**rules, **dict.fromkeys(lapack, SpecialCase(call_on_host))}


LEGALIZATIONS = (
    Legalization(
        name="host-calls",
        stage=Stage.DECOMPOSE,
        kind=Kind.REFUSED,
        doc="leave callbacks and factorizations to Python; refuse them where it cannot be called",
        upstream="IREE 3.13 compiles no custom call, nor `cholesky` and `triangular_solve`",
        texts=("factorizations",),
        reproducer="`linalg.cholesky` does not compile",
        rules=host_rules,
    ),
)
