"""Special functions, expanded before everything else is legalized.

Their algorithms contain loops and elementary functions that must be legalized in turn, so the
expansion comes first. Incomplete gamma and beta functions need f64; for targets without it, Python
computes them, or they are refused where it cannot be called.
"""

from __future__ import annotations

from gnomon.backends.functions import series
from gnomon.backends.iree.legalize.functions.conversions import rounded
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.legalize.refusals import refuse
from gnomon.backends.iree.targets import Target
from gnomon.backends.rewriting import Rule
from gnomon.dialects.elementwise.expansion import WITH_LOOPS
from gnomon.dialects.host_call import call_on_host

__all__ = ["LEGALIZATIONS", "integral_rules", "series_rules"]


def series_rules(target: Target) -> dict[str, Rule]:
    """The rules of series and polynomials for a target."""
    return series.series_rules(f64=target.capabilities.f64, rounded=rounded)


def integral_rules(target: Target) -> dict[str, Rule]:
    """The rules of incomplete gamma and beta functions for a target."""
    capabilities = target.capabilities
    if capabilities.f64:
        return series.integral_rules(rounded=rounded)
    if capabilities.host_calls:
        return dict.fromkeys(WITH_LOOPS, call_on_host)
    reason = "it is computed in f64, and its programs cannot call Python"
    return dict.fromkeys(WITH_LOOPS, refuse(target, reason))


LEGALIZATIONS = (
    Legalization(
        name="integrals",
        stage=Stage.DECOMPOSE,
        kind=Kind.REFUSED,
        doc="expand incomplete gamma and beta functions in f64, or leave them to Python",
        upstream="IREE 3.13 has no such functions, and compiles few of their loops",
        no_report="StableHLO has no such functions",
        reproducer="`gammainc` for `vulkan:portable` does not compile",
        rules=integral_rules,
    ),
    Legalization(
        name="series",
        stage=Stage.DECOMPOSE,
        kind=Kind.INACCURATE,
        doc="expand special functions by their series before the functions in them are rewritten",
        upstream="IREE 3.13 loses digits in the elementary functions that the series are made of",
        texts=("sines_of_large_arguments", "logarithms_near_one"),
        reproducer="`digamma` of f32 loses digits next to its poles",
        rules=series_rules,
    ),
)
