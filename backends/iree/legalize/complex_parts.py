"""Complex numbers as pairs of real numbers, through whole programs.

IREE 3.13 vectorizes no op of complex numbers, and rejects or miscompiles some. It expands functions
into exp(z) - 1, exp(z) - exp(-z) and log(1 + z), which lose small arguments (1e-18 gives 0), and
into sines and logarithms of f32 that have a bounded absolute error only. The functions of real
numbers that are written here instead are legalized by other rules.
"""

from __future__ import annotations

from gnomon.backends.complex_numbers import rules, split_complex_numbers
from gnomon.backends.functions.logarithm_of_magnitude import log1p_parts
from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.targets import Target
from gnomon.dialects.functions import Program

__all__ = ["LEGALIZATIONS"]


def _split(program: Program, target: Target) -> None:
    # IREE vectorizes no kernel that reads or writes a complex number. On devices, each thread
    # computes its numbers one by one anyway.
    log_of_size = None if target.capabilities.f64 else log1p_parts
    split_complex_numbers(program, rules(log_of_size), apart=target.memory == "host")


LEGALIZATIONS = (
    Legalization(
        name="complex-parts",
        stage=Stage.SPLIT,
        kind=Kind.INACCURATE,
        doc="compute with the parts of complex numbers, in loops and functions too",
        upstream="IREE 3.13 vectorizes no op of complex numbers, rejects some of them, and expands "
        "functions into exp(z) - 1, exp(z) - exp(-z) and log(1 + z), which are 0 for 1e-18",
        texts=(
            "sines_of_small_complex_numbers",
            "roots_of_complex_numbers",
            "powers_of_complex_zero",
            "selects_of_complex_numbers",
            "pads_of_wide_complex_numbers",
            "roundings_in_windows",
            "windows_of_complex_numbers_on_vulkan",
        ),
        reproducer="`sin(1e-9 + 1e-9j)` of complex64 has the imaginary part 0",
        run=_split,
    ),
)
