"""Programs as functions of loops over scalars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnomon.backends.compilation import Artifact
from gnomon.backends.kernels.builder import WORKSPACE_SIZE, Builder, Rule, memref_of
from gnomon.backends.kernels.contractions import CONTRACTIONS
from gnomon.backends.kernels.control import CONTROL
from gnomon.backends.kernels.elementwise import ELEMENTWISE
from gnomon.backends.kernels.fourier import FOURIER
from gnomon.backends.kernels.indexing import INDEXING
from gnomon.backends.kernels.movements import MOVEMENTS
from gnomon.backends.kernels.reductions import REDUCTIONS
from gnomon.backends.kernels.sorting import SORTING
from gnomon.backends.kernels.triangular import TRIANGULAR
from gnomon.backends.kernels.values import Buffer, Stored
from gnomon.backends.kernels.windows import WINDOWS
from gnomon.dialects.functions import symbol_name
from gnomon.dialects.types import TensorType, type_of

__all__ = ["Kernels", "kernels"]

_RULES: dict[str, Rule] = {
    **ELEMENTWISE,
    **MOVEMENTS,
    **REDUCTIONS,
    **WINDOWS,
    **SORTING,
    **CONTRACTIONS,
    **INDEXING,
    **TRIANGULAR,
    **FOURIER,
    **CONTROL,
}
# These read each element of an array at most once, so the array is computed in their loops.
_READ_ONCE = frozenset(
    {
        *ELEMENTWISE,
        *(f"stablehlo.{n}" for n in ("reshape", "transpose", "slice", "reverse", "concatenate")),
        *(f"stablehlo.{n}" for n in ("pad", "reduce", "return", "dot_general", "convolution")),
        *("stablehlo.dynamic_slice", "stablehlo.fft"),
        "func.return",
    }
)


@dataclass(frozen=True)
class Kernels:
    """A program as loops over scalars.

    Attributes:
      text: a module whose only public function, ``main``, takes memory for the arguments, for the
        results, and for intermediate values.
      inputs, outputs: the types of the memory for arguments and results: those of the program,
        except that elements of narrow dtypes are bytes.
      workspace: the size in bytes of the memory for intermediate values.
    """

    text: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    workspace: int


def kernels(artifact: Artifact) -> Kernels:
    """Write a program that `KernelBackend` has lowered as loops over scalars.

    Raises:
      UnsupportedOnTarget: an operation or a dtype has no kernel.
    """
    functions: dict[str, Any] = {
        symbol_name(op.operation): op.operation for op in artifact.plan.module.regions[0].blocks[0]
    }
    block = functions["main"].regions[0].blocks[0]
    builder = Builder(_RULES, _READ_ONCE.__contains__, ELEMENTWISE.__contains__, functions)
    results = list(block.operations)[-1].operands
    inputs = [Buffer(f"%in{k}", type_of(x)) for k, x in enumerate(block.arguments)]
    outputs = [Buffer(f"%out{k}", type_of(x), owned=True) for k, x in enumerate(results)]
    builder.write_block(block, [Stored(b, b.type) for b in inputs], outputs)
    parameters = [f"{b.memory}: {memref_of(b.type)} {{llvm.noalias}}" for b in (*inputs, *outputs)]
    size = max(builder.workspace.size, 1)
    parameters.append(f"%workspace: memref<{WORKSPACE_SIZE}xi8> {{llvm.noalias}}")
    lines = [
        "module {",
        *builder.globals,
        *builder.declarations.values(),
        f"  func.func @main({', '.join(parameters)}) {{",
        builder.code.text(),
        "    return",
        "  }",
        "}",
    ]
    text = "\n".join(line for line in lines if line).replace(WORKSPACE_SIZE, str(size))
    taken, given = (tuple(b.type for b in buffers) for buffers in (inputs, outputs))
    return Kernels(text, taken, given, builder.workspace.size)
