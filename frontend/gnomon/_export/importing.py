"""`gnomon.import_stablehlo`: programs of other frameworks as functions of arrays."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnomon._compilation.jit import jit
from gnomon._tracing.bind import as_operand
from gnomon._tracing.function import call_function
from gnomon.dialects.deferred import Deferred
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.dialects.functions import Program

__all__ = ["import_stablehlo"]

_bytecode: Any = Deferred("gnomon.backends.bytecode")
_foreign: Any = Deferred("gnomon.backends.foreign")
_functions: Any = Deferred("gnomon.dialects.functions")
_mlir: Any = Deferred("gnomon.dialects.mlir")
_refine: Any = Deferred("gnomon.passes.refine_stablehlo")


def import_stablehlo(program: str | os.PathLike[str] | bytes) -> Callable[..., Any]:
    """A program of StableHLO as a function of arrays, to be transformed like any other.

    The program may be one that JAX, PyTorch or TensorFlow exported. A child process reads it. If
    its types leave sizes open, it is read again for the shapes of each call.

    Args:
      program: the path of a file, or its contents: MLIR text of StableHLO and CHLO, bytecode, or a
        portable artifact. Its public function is ``main``, or the only public one.

    Returns:
      A function under `jit` that takes the arrays that the program takes. It returns an array, or a
      tuple of several.
    Raises:
      ValueError: the program is damaged, or an operation has no form in gnomon's dialect. The
        message names the operation, the line and the reason.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> square = gn.import_stablehlo(
      ...     b"func.func @main(%x: tensor<f32>) -> tensor<f32> {"
      ...     b"  %y = stablehlo.multiply %x, %x : tensor<f32>"
      ...     b"  return %y : tensor<f32> }"
      ... )
      >>> print(gn.grad(square)(3.0), gn.vmap(square)(gnp.arange(3.0)))
      6.0 [0. 1. 4.]
    """
    imported = _Imported(program)

    def call(*arguments: Any) -> Any:
        return imported(arguments)

    call.__name__ = call.__qualname__ = imported.name
    return jit(call)


class _Imported:
    """The functions of a program for the types of its calls.

    Attributes:
      name: the name of the function.
    """

    def __init__(self, program: str | os.PathLike[str] | bytes) -> None:
        if isinstance(program, bytes):
            self.path, self.name, self._data = "program", "imported", program
        else:
            path = Path(program)
            self.path, self.name, self._data = str(path), path.stem, path.read_bytes()
        # By the types of the arguments; by None if the program has all sizes.
        self._programs: dict[Any, tuple[Program, str]] = {}
        with contextlib.suppress(_bytecode.OpenSizesError):
            self._programs[None] = self._read(None)

    def _read(self, types: Sequence[TensorType] | None) -> tuple[Program, str]:
        known = None if types is None else [_refine.Argument(t) for t in types]
        try:
            text = _foreign.read_program(self._data, known)
        except _bytecode.BytecodeError as error:
            message = str(error).replace('error: "-":', f"{self.path}:")
            raise type(error)(message) from None
        _mlir.ensure_context()
        source = _functions.Program(_mlir.ir.Module.parse(text, _mlir.context()))
        program = _functions.Program()
        body = program.import_body(source, source.body("main"), {})
        symbol = "".join(c if c.isalnum() else "_" for c in self.name).strip("_")
        name = program.add(f"imported_{symbol}", body)
        program.mark_effects()
        return program, name

    def __call__(self, arguments: Sequence[Any]) -> Any:
        operands = [as_operand(a) for a in arguments]
        types = tuple(TensorType(tuple(x.shape), x.dtype) for x in operands)
        key = None if None in self._programs else types
        if key not in self._programs:
            self._programs[key] = self._read(types)
        program, name = self._programs[key]
        expected = program.signature(name).arguments
        if expected != types:
            raise TypeError(
                f"the program {self.path} takes ({', '.join(map(str, expected))}), "
                f"got ({', '.join(map(str, types))})"
            )
        results = call_function(program, name, operands)
        return results[0] if len(results) == 1 else tuple(results)
