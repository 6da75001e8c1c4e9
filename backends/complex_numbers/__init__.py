"""Complex numbers as pairs of real numbers, through whole programs."""

from __future__ import annotations

from gnomon.backends.complex_numbers.rules import rules
from gnomon.backends.complex_numbers.splitting import split_complex_numbers

__all__ = ["rules", "split_complex_numbers"]
