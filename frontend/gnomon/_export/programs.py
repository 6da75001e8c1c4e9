"""Artifacts of programs in MLIR: `save_program`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import gnomon.backends.compilation as lowering
from gnomon import tree_util
from gnomon._arrays.aval import ShapedArray, shaped_array
from gnomon._export.exported import Exported
from gnomon._export.saving import compile_module, platform_of_target
from gnomon._export.serialization import WeightNames, add_function, new_writer
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType

__all__ = ["save_program"]


def save_program(
    path: str | os.PathLike[str],
    name: str,
    program: Program,
    *,
    targets: Sequence[str],
) -> None:
    """Write a program of MLIR into an artifact, compiled for targets.

    Args:
      path: the path of the file, which is replaced atomically.
      name: the name of the function in the artifact.
      program: a module whose public function is ``main``. Several results become a tuple.
      targets: the targets to compile for, see `gnomon.export.save`.

    Raises:
      ValueError: there is no such target.
      UnsupportedOnTarget: a target does not support the program.
    """
    signature = program.signature("main")
    inputs, outputs = _avals(signature.arguments), _avals(signature.results)
    platforms = tuple(dict.fromkeys(map(platform_of_target, targets)))
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
        programs=dict.fromkeys(platforms, text),
        closed_over=(),
        _get_vjp=None,
    )
    writer = new_writer()
    add_function(writer, name, exported, WeightNames(writer), modules=modules)
    writer.write(path)


def _avals(types: Sequence[TensorType]) -> tuple[ShapedArray, ...]:
    return tuple(shaped_array(t.shape, t.dtype) for t in types)
