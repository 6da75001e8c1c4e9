"""Artifacts of programs in MLIR: `save_program`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import gnomon.backends.compilation as lowering
from gnomon import tree_util
from gnomon._arrays.aval import ShapedArray, shaped_array
from gnomon._export.exported import Exported
from gnomon._export.saving import compile_module, compile_stablehlo, platform_of_target
from gnomon._export.serialization import WeightNames, add_function, new_writer
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, stablehlo
from gnomon.dialects.types import TensorType

__all__ = ["save_program"]


def save_program(
    path: str | os.PathLike[str],
    name: str,
    program: Program,
    *,
    is_stablehlo: bool,
    targets: Sequence[str],
) -> None:
    """Write a program of MLIR into an artifact, compiled for targets.

    Args:
      path: the path of the file, which is replaced atomically.
      name: the name of the function in the artifact.
      program: a module whose public function is ``main``. Several results become a tuple.
      is_stablehlo: whether the program is StableHLO, which is compiled unchanged, and not gnomon's
        dialect.
      targets: the targets to compile for, see `gnomon.export.save`.

    Raises:
      ValueError: there is no such target.
      UnsupportedOnTarget: a target does not support the program.
    """
    signature = program.signature("main")
    inputs, outputs = _avals(signature.arguments), _avals(signature.results)
    platforms = tuple(dict.fromkeys(map(platform_of_target, targets)))
    text, portable = "", b""
    if is_stablehlo:
        portable = lowering.serialize(program.module, stablehlo.get_current_version())
        modules = [
            compile_stablehlo(stablehlo.deserialize_portable_artifact(context(), portable), target)
            for target in dict.fromkeys(targets)
        ]
    else:
        text = str(lowering.Text(program.module).located)
        modules = [compile_module(text, target) for target in dict.fromkeys(targets)]
    exported = Exported(
        fun_name=name,
        in_tree=tree_util.tree_structure((inputs, {})),
        in_avals=inputs,
        out_tree=tree_util.tree_structure(outputs[0] if len(outputs) == 1 else outputs),
        out_avals=outputs,
        platforms=platforms,
        disabled_safety_checks=(),
        donated=(),
        programs={} if is_stablehlo else dict.fromkeys(platforms, text),
        closed_over=(),
        _get_vjp=None,
        _portable=dict.fromkeys(platforms, portable) if is_stablehlo else None,
    )
    writer = new_writer()
    add_function(writer, name, exported, WeightNames(writer), modules=modules)
    writer.write(path)


def _avals(types: Sequence[TensorType]) -> tuple[ShapedArray, ...]:
    return tuple(shaped_array(t.shape, t.dtype) for t in types)
