"""The memory that an executable needs, from what the compiler's process stored in it."""

from __future__ import annotations

from collections.abc import Sequence

import iree.runtime as rt

from gnomon.backends.iree.inside.planned_memory import read
from gnomon.backends.iree.reflection import MEMORY
from gnomon.backends.memory import MemoryAnalysis
from gnomon.dialects.types import TensorType

__all__ = ["analyze_memory"]


def analyze_memory(
    vmfb: bytes, arguments: Sequence[TensorType], results: Sequence[TensorType]
) -> MemoryAnalysis | None:
    """The memory that an executable needs; None if it depends on the arguments of a call.

    The size of the code is that of the executable, with its literals, and of the constants that
    loading it computes. The temporaries are an upper bound: see `planned_memory`.

    Args:
      vmfb: the executable.
      arguments, results: the types of its arguments and results.
    """
    # The instance of a device would start its driver, and the executable may be for another one.
    module = rt.VmModule.copy_buffer(rt.VmInstance(), vmfb)
    text = module.lookup_function("main").reflection.get(MEMORY)
    if text is None:
        return None
    planned = read(text)
    given, made = sum(t.nbytes for t in arguments), sum(t.nbytes for t in results)
    shared = sum(arguments[index].nbytes for index in planned.returned_arguments)
    return MemoryAnalysis(
        generated_code_size_in_bytes=len(vmfb) + planned.constants,
        argument_size_in_bytes=given,
        output_size_in_bytes=made,
        alias_size_in_bytes=shared,
        temp_size_in_bytes=planned.temporaries,
        peak_memory_in_bytes=given + made - shared + planned.temporaries,
    )
