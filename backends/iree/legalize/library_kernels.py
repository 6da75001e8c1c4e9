"""The kernels that call NumPy's BLAS, as text of IREE's dialects.

A kernel passes its two operands, its result, and integers to a native function
(`backends/native/products.cpp`), which computes the share of one of several workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gnomon.backends.iree.blas import SYMBOL

__all__ = ["KERNELS", "Kernel", "kernels_as_text"]

KERNELS = "gnomon_products"
"""The name of the executable that has the kernels."""


class Kernel(NamedTuple):
    """A kernel: its name, the dtype of its arrays, and how many numbers it takes."""

    name: str
    element: str
    numbers: int


def kernels_as_text(kernels: Sequence[Kernel]) -> str:
    """A module with some kernels, in MLIR's generic form."""
    exports = "\n".join(
        f"""
  "stream.executable.export"() <{{function_ref = @{k.name}, sym_name = "{k.name}",
      sym_visibility = "public"}}> ({{
  ^bb0(%workers: index):
    %one = "arith.constant"() <{{value = 1 : index}}> : () -> index
    "stream.return"(%workers, %one, %one) : (index, index, index) -> ()
  }}) : () -> ()"""
        for k in kernels
    )
    functions = "\n".join(_kernel(k) for k in kernels)
    return f"""
"stream.executable"() <{{sym_name = "{KERNELS}", sym_visibility = "private"}}> ({{{exports}
  "builtin.module"() ({{{functions}
  }}) : () -> ()
  "stream.executable.end"() : () -> ()
}}) : () -> ()
"""


def _kernel(kernel: Kernel) -> str:
    name, element, count = kernel
    dense = f"memref<?x{element}, strided<[1], offset: ?>>"
    given = ", ".join(f"%n{i}" for i in range(count))
    indices = ", ".join(["index"] * count)
    called = f"({', '.join([f'memref<{element}>, index'] * 3)}, {indices}, index, index) -> ()"
    arguments = ", ".join(f"%n{i}: index" for i in range(count))
    views = "\n".join(
        f"""
    %{x}_view = "stream.binding.subspan"(%{x}, %zero, %one)
        : (!stream.binding, index, index) -> {dense}
    %{x}_parts:4 = "memref.extract_strided_metadata"(%{x}_view)
        : ({dense}) -> (memref<{element}>, index, index, index)"""
        for x in "abc"
    )
    arrays = ", ".join(f"%{x}_parts#0, %{x}_parts#1" for x in "abc")
    return f"""
  "func.func"() <{{function_type = {called}, sym_name = "{SYMBOL}{name}",
      sym_visibility = "private"}}> ({{
  }}) {{hal.import.static, llvm.bareptr = [true]}} : () -> ()
  "func.func"() <{{function_type = (!stream.binding, !stream.binding, {indices}, !stream.binding)
      -> (), sym_name = "{name}"}}> ({{
  ^bb0(%a: !stream.binding, %b: !stream.binding, {arguments}, %c: !stream.binding):
    %zero = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %one = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %worker = "stream.dispatch.workgroup.id"() <{{dimension = 0 : index}}> : () -> index
    %workers = "stream.dispatch.workgroup.count"() <{{dimension = 0 : index}}> : () -> index
{views}
    "func.call"({arrays}, {given}, %worker, %workers)
        <{{callee = @{SYMBOL}{name}}}> : {called}
    "func.return"() : () -> ()
  }}) : () -> ()"""
