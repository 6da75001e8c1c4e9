"""Programs of JAX's exports, in the calling convention of ours.

JAX's programs take the index of the platform if there are several, and then only the arguments that
they use. Ours take all arguments except those of dtype float0, and are for one platform.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

import gnomon.backends.compilation as lowering
from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.dtypes import float0
from gnomon.backends.foreign import read_program
from gnomon.dialects.body import Body
from gnomon.dialects.emit import constant, full
from gnomon.dialects.functions import Program, call, emit_call
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.types import TensorType
from gnomon.passes.refine_stablehlo import Argument

__all__ = ["JaxProgram"]

_BOOL = np.dtype(np.bool_)


@dataclasses.dataclass(frozen=True)
class JaxProgram:
    """The program of one of JAX's exports.

    Attributes:
      data: the portable artifact.
      name: the name of the function.
      in_avals, out_avals: the types of the leaves of the arguments and results.
      kept: the positions of the arguments that the program takes.
      indices: the index of each platform; empty if the program does not take it.
    """

    data: bytes
    name: str
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    kept: tuple[int, ...]
    indices: Mapping[str, int]

    def text(self, platform: str) -> str:
        """The program for a platform as text, if it has no symbolic dimensions.

        Raises:
          BytecodeError: the program is damaged, or has an op without a form in the dialect.
        """
        types = [_type(a.shape, a.dtype) for a in self.in_avals]
        return str(lowering.Text(self._read(platform, types, None).module).located)

    def for_sizes(self, platform: str, operands: Sequence[TensorType]) -> Program:
        """The program for a platform and the types of a call without its float0 arguments.

        Raises:
          BytecodeError: as `text`; or the program does not take these sizes.
        """
        given = iter(operands)
        types = [_type((), a.dtype) if a.dtype == float0 else next(given) for a in self.in_avals]
        known = [Argument(types[i]) for i in self.kept]
        if self.indices:
            known.insert(0, Argument(None, self.indices[platform]))
        return self._read(platform, types, known)

    def _read(
        self, platform: str, types: Sequence[TensorType], known: Sequence[Argument] | None
    ) -> Program:
        """Read the program, and call it from a function of all arguments."""
        text = read_program(self.data, known)
        ensure_context()
        source, program = Program(ir.Module.parse(text, context())), Program()
        program.rename(f"jit_{self.name}")
        name = program.add(self.name, program.import_body(source, source.body("main"), {}))
        signature = program.signature(name)
        outside = [i for i, a in enumerate(self.in_avals) if a.dtype != float0]
        body = Body.open([types[i] for i in outside])
        arguments = dict(zip(outside, body.arguments, strict=True))
        with ir.InsertionPoint(body.block), ir.Location.unknown(context()):
            operands = [arguments[i] if i in arguments else full(types[i], 0) for i in self.kept]
            if self.indices:
                dtype = signature.arguments[0].dtype if signature.arguments else _BOOL
                operands.insert(0, constant(np.array(self.indices[platform], dtype)))
            results = emit_call(program, call, name, operands)
            if len(results) != len(self.out_avals):
                raise ValueError(
                    f"the program has {len(results)} results, but the function "
                    f"{len(self.out_avals)}"
                )
            pairs = zip(results, self.out_avals, strict=True)
            body.close([r for r, a in pairs if a.dtype != float0])
        program.add("main", body, public=True)
        return program


def _type(shape: Sequence[int], dtype: np.dtype) -> TensorType:
    """The type in JAX's programs, where float0 is i1."""
    return TensorType(tuple(shape), _BOOL if dtype == float0 else dtype)
