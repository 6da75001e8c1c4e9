"""The memory that a compiled program needs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MemoryAnalysis"]


@dataclass(frozen=True)
class MemoryAnalysis:
    """The compiler's analysis of the memory of a program.

    Attributes:
      generated_code_size_in_bytes: the size of the code, and of constants that the compiler reports
        as a part of it.
      argument_size_in_bytes, output_size_in_bytes: the sizes in the device's layout. Arrays that
        the program closes over count as arguments.
      alias_size_in_bytes: the memory that outputs share with arguments.
      temp_size_in_bytes: the memory of intermediate values.
      peak_memory_in_bytes: the maximum at any time; zero if the compiler does not report it.
    """

    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    host_generated_code_size_in_bytes: int = 0
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0
    peak_memory_in_bytes: int = 0
