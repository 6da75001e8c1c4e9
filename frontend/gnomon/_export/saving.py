"""Artifacts with compiled modules: `save`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gnomon import tree_util
from gnomon._arrays.aval import ShapedArray
from gnomon._export.exported import Exported
from gnomon._export.exporting import export
from gnomon._export.serialization import WeightNames, add_function, check_has_programs, new_writer
from gnomon._export.size_notes import size_notes
from gnomon.backends import platforms
from gnomon.backends.errors import (
    CompilationFailed,
    CompilerCrashed,
    NotDynamic,
)
from gnomon.dialects.deferred import Deferred
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon_runtime.artifact import Module

__all__ = ["compile_module", "compile_symbolic", "platform_of_target", "save"]

_standalone: Any = Deferred("gnomon.backends.iree.standalone")

# The platforms, besides the CPU, whose name a target's name may begin with.
_OTHER = ("cuda", "rocm", "vulkan", "metal", "tpu")


def platform_of_target(target: str) -> str:
    """The platform of the devices that a target describes."""
    head = target.partition(":")[0]
    return head if head in _OTHER or head in platforms.plugins() else "cpu"


def compile_module(text: str, target: str, donated: tuple[int, ...] = ()) -> tuple[Module, bytes]:
    """Compile a program for a target.

    Args:
      text: the program in gnomon's dialect.
      target: the target's name.
      donated: positions of the arguments whose memory a call takes over.

    Raises:
      ValueError: there is no such target.
      UnsupportedOnTarget: the target does not support an op or a dtype, or the program calls
        Python.
    """
    ensure_context()
    program = Program(ir.Module.parse(text, context()))
    platform = platform_of_target(target)
    if platform == "tpu" or platform in platforms.plugins():
        backend, rest = platforms.compiler_for(target)
        executable = backend.compile_for(backend.lower(program), rest, donate=donated)
        here = not rest and platform != "tpu"
        fingerprint = backend.fingerprint() if here else ""
        module = Module(target, "pjrt", platform, fingerprint=fingerprint)
        return module, bytes(executable.serialize())
    return _described(_standalone.compile_standalone(program, target))


def _described(made: Any) -> tuple[Module, bytes]:
    module = Module(
        made.target,
        "iree",
        made.platform,
        execution=made.execution,
        machine=made.machine,
        features=tuple(made.features),
        versions=made.versions,
        host=made.host,
    )
    return module, made.code


def save(
    path: str | os.PathLike[str],
    functions: Mapping[str, Any],
    *,
    targets: Sequence[str] = ("cpu",),
    weights: Any = None,
    vjp_order: int = 0,
) -> None:
    """Write functions and what they close over into one artifact, compiled for targets.

    Args:
      path: the path of the file, which is replaced atomically.
      functions: by name, each an `Exported`, or a pair of a jitted function and a tuple of example
        arguments, arrays or `ShapeDtypeStruct`. Donated arguments are donated in the artifact too.
      targets: the targets to compile for, see docs/targets.md. ``"cpu"`` is the level of this
        machine's architecture (such as x86-64-v3), so that similar machines run the module too.
        Without targets there are no modules, and `gnomon.load` compiles the functions.
      weights: a tree of arrays that functions close over; their paths in it become their names.
      vjp_order: how many times the functions that `load_exported` returns can be differentiated.

    Raises:
      ValueError: there is no such target, a function was exported for other platforms, or its name
        is empty or has a dot.
      UnsupportedOnTarget: a target does not support a function.
      NotImplementedError: a function calls Python, is to be compiled for several devices, or has
        symbolic dimensions and needs their sizes to be compiled.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> from gnomon import export
      >>> step = gn.jit(lambda state, x: state + x, donate_argnums=0)
      >>> types = (gn.ShapeDtypeStruct((4,), gnp.float32),) * 2
      >>> export.save("steps.gnm", {"step": (step, types)})  # doctest: +SKIP
    """
    wanted = list(dict.fromkeys(map(platform_of_target, targets))) or None
    writer = new_writer()
    names = WeightNames(writer, _names_of(weights))
    for name, given in functions.items():
        if not name or "." in name:
            raise ValueError(
                f"the name of a function must be a non-empty string without dots, got {name!r}"
            )
        exported = given if isinstance(given, Exported) else _exported(name, given, wanted)
        modules: list[tuple[Module, bytes]] = []
        sizes: dict[str, Any] = {}
        check_has_programs(exported)
        for target in dict.fromkeys(targets):
            platform = platform_of_target(target)
            if platform not in exported.programs:
                raise ValueError(
                    f"{name} was exported for {', '.join(exported.platforms)}, but is to be "
                    f"compiled for {target!r}; export it for platforms=[{platform!r}, ...] too"
                )
            if exported.nr_devices > 1:
                raise NotImplementedError(
                    f"{name} runs on {exported.nr_devices} devices, but the compiled modules of a "
                    "file run on one; save it with targets=[] for load_exported"
                )
            text = exported.programs[platform]
            if exported.is_symbolic:
                module, sizes = compile_symbolic(name, exported.in_avals, text, target)
                modules.append(module)
            else:
                modules.append(compile_module(text, target, exported.donated))
        add_function(
            writer, name, exported, names, vjp_order=vjp_order, modules=modules, sizes=sizes
        )
    writer.write(path)


def compile_symbolic(
    name: str, avals: Sequence[ShapedArray], text: str, target: str
) -> tuple[tuple[Module, bytes], dict[str, Any]]:
    """Compile a function with symbolic dimensions for all sizes; the module, and the size notes.

    Raises:
      NotImplementedError: it must be compiled for the sizes of each call.
    """
    ensure_context()
    program = Program(ir.Module.parse(text, context()))
    try:
        if platform_of_target(target) in ("tpu", *platforms.plugins()):
            raise NotDynamic("a plugin compiles programs of fixed sizes")
        made, dimensions = _standalone.compile_standalone_for_all_sizes(program, target)
    except (NotDynamic, CompilationFailed, CompilerCrashed) as error:
        raise NotImplementedError(
            f"{name} has symbolic dimensions, and cannot be compiled for all sizes: {error}. Save "
            "it with targets=[] for load_exported, which compiles it for the sizes of each call, "
            "or save a function of fixed sizes that calls it"
        ) from error
    return _described(made), size_notes(avals, dimensions)


def _exported(name: str, given: Any, platforms_: Sequence[str] | None) -> Exported:
    try:
        function, arguments = given
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be an Exported, or a pair of a jitted function and its example "
            f"arguments, got {given!r}"
        ) from None
    return export(function, platforms=platforms_)(*arguments)


def _names_of(weights: Any) -> dict[int, str]:
    """The names of the leaves of a tree, by the ``id`` of the leaf."""
    names = {}
    for path, leaf in tree_util.tree_leaves_with_path(weights):
        names[id(leaf)] = tree_util.keystr(path, simple=True, separator="/") or "weight"
    return names
