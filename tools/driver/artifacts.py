"""Artifacts, files with the suffix ``.gnm``: written by ``compile``, read by other commands.

loss.gnm          the only function of the artifact, or the function named ``main``
model.gnm:step    the function of a given name
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gnomon
import gnomon_runtime
from gnomon import export
from gnomon._compilation.ahead_of_time import closed_program
from gnomon._export.program_text import program_text
from gnomon._export.saving import platform_of_target
from gnomon.backends.compilation import Artifact
from gnomon.backends.iree.standalone import reason_for_refinement
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.types import TensorType
from gnomon.tools.driver.errors import DriverError
from gnomon.tools.driver.programs import (
    Leaf,
    LoweredProgram,
    PythonProgram,
    compiler_of,
)
from gnomon.tools.driver.specifications import DTYPES_BY_NAME
from gnomon.tools.driver.tables import columns, size
from gnomon_runtime.machine import reason_against

__all__ = ["SUFFIX", "ArtifactProgram", "describe_artifact", "is_artifact", "save_artifact"]

SUFFIX = ".gnm"
_KEY = re.compile(r"\['?(.*?)'?\]|\.(\w+)")


def is_artifact(path: str) -> bool:
    """Whether a path names an artifact, or a function of one."""
    return path.endswith(SUFFIX) or path.rpartition(":")[0].endswith(SUFFIX)


def _split(path: str) -> tuple[str, str | None]:
    if path.endswith(SUFFIX):
        return path, None
    file, _, entry = path.rpartition(":")
    return file, entry


class ArtifactProgram:
    """A function of an artifact.

    Attributes:
      path: the path as the user wrote it.
      name: the name of the function.
      arguments, results: a leaf for each array.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.file, wanted = _split(path)
        self._artifact = gnomon_runtime.read(self.file)
        try:
            self.entry = self._artifact.entry(wanted)
        except KeyError as error:
            raise DriverError(str(error.args[0])) from None
        self.name = self.entry.name
        self.leaves: list[Any] = [None] * len(self.entry.inputs)
        self.arguments = [
            Leaf(_argument_name(path, self.entry.parameters), _type_of(type_))
            for path, type_ in zip(self.entry.in_tree.paths(), self.entry.inputs, strict=True)
        ]
        self.results = [
            Leaf(_simple(path) or "result", _type_of(type_))
            for path, type_ in zip(self.entry.out_tree.paths(), self.entry.outputs, strict=True)
        ]

    def lower(self, target: str) -> LoweredProgram:
        """The function lowered for a target, from the program in the artifact."""
        compiler, rest = compiler_of(target)
        artifact = self.artifact_for(compiler, platform_of_target(target))
        return LoweredProgram(target, compiler, rest, artifact)

    def artifact_for(self, compiler: Any, platform: str = "cpu") -> Artifact:
        """The function lowered by a backend, from the program in the artifact."""
        known = {**self.entry.sections["program"], **self.entry.sections["portable"]}
        if not known:
            raise DriverError(f"{self.path}: the artifact holds compiled modules only")
        try:
            text = program_text(
                self._artifact, self.entry, platform if platform in known else next(iter(known))
            )
        except gnomon_runtime.ArtifactError as error:
            raise DriverError(f"{self.path}: {error}") from error
        weights = [gnomon.numpy.asarray(self._artifact.weight(w)) for w in self.entry.weights]
        program = closed_program(text, weights)
        artifact: Artifact = compiler.lower(program, keep_stages=True)
        return artifact

    def caller(self, device: str | None) -> Callable[[Sequence[Any]], list[Any]]:
        """A function that runs the artifact's module for this machine, compiling it if missing."""
        function = gnomon.load(self.file, platform=device)[self.name]
        return lambda arrays: list(function.call_flat([np.asarray(x) for x in arrays]))


def _simple(path: str) -> str:
    return ".".join(index or name for index, name in _KEY.findall(path))


def _argument_name(path: str, parameters: Sequence[str]) -> str:
    kind, _, rest = _simple(path).partition(".")
    # The root is the pair of positional and keyword arguments.
    if kind != "0":
        return rest
    index, dot, inner = rest.partition(".")
    name = parameters[int(index)] if int(index) < len(parameters) else ""
    return f"{name or f'arg{index}'}{dot}{inner}"


def _type_of(type_: Any) -> TensorType:
    return TensorType(type_.shape, DTYPES_BY_NAME[type_.dtype])


def save_artifact(path: str, programs: Sequence[PythonProgram], targets: Sequence[str]) -> None:
    """Write functions, compiled for targets, into an artifact."""
    platforms = list(dict.fromkeys(map(platform_of_target, targets)))
    functions = {
        program.name: export.export(program.jitted, platforms=platforms)(
            *program.given.positional, **program.given.by_name
        )
        for program in programs
    }
    export.save(path, functions, targets=targets)


# ------------------------------------------------------------------------------------- inspection


def _facts(path: str) -> dict[str, Any]:
    artifact = gnomon_runtime.read(path)
    artifact.verify()
    entries = []
    for entry in artifact.entries.values():
        program = ArtifactProgram(f"{path}:{entry.name}")
        modules = [
            {
                "target": module.target,
                "backend": module.backend,
                "platform": module.platform,
                "bytes": artifact.sections[entry.sections["module"][target]].length,
                "versions": dict(module.versions),
                "features": list(module.features),
                "host_functions": sorted({function.op for function in module.host}),
                "unusable": reason_against(module),
            }
            for target, module in entry.modules.items()
        ]
        entries.append(
            {
                "name": entry.name,
                "function": entry.function,
                "arguments": [{"name": x.name, "type": str(x.type)} for x in program.arguments],
                "results": [{"name": x.name, "type": str(x.type)} for x in program.results],
                "donated": list(entry.donated),
                "platforms": list(entry.platforms),
                "modules": modules,
                "refined": _reason_for_refinement(artifact, entry),
                "weights": list(entry.weights),
                "vjp": entry.vjp,
            }
        )
    return {
        "file": path,
        "format": artifact.version,
        "digest": artifact.digest,
        "bytes": sum(section.length for section in artifact.sections),
        "producer": dict(artifact.producer),
        "entries": entries,
        "weights": {name: str(weight.type) for name, weight in artifact.weights.items()},
    }


def _reason_for_refinement(artifact: gnomon_runtime.Artifact, entry: gnomon_runtime.Entry) -> str:
    """Why the CPU compiles a function for the sizes of each call; empty if it does not."""
    types = (*entry.inputs, *entry.outputs)
    is_symbolic = any(isinstance(n, str) for type_ in types for n in type_.shape)
    has_module = any(module.platform == "cpu" for module in entry.modules.values())
    if not is_symbolic or has_module or "cpu" not in entry.sections["program"]:
        return ""
    ensure_context()
    text = artifact.program(entry.name, "cpu").decode()
    return reason_for_refinement(Program(ir.Module.parse(text, context())))


def describe_artifact(path: str, as_json: bool) -> None:
    """Print the contents of an artifact, after verifying all of its checksums."""
    facts = _facts(path)
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    made_by = ", ".join(f"{name} {version}" for name, version in facts["producer"].items())
    print(f"{path}: artifact of format {facts['format']}, {size(facts['bytes'])}, intact")
    print(f"digest {facts['digest']}")
    print(f"made by {made_by}")
    for entry in facts["entries"]:
        print(f"\n{entry['name']}, for {', '.join(entry['platforms'])}")
        rows = [("takes", one["name"], one["type"]) for one in entry["arguments"]]
        rows += [("gives", one["name"], one["type"]) for one in entry["results"]]
        print(columns(rows, "  "))
        for module in entry["modules"]:
            here = "runs on this machine"
            if module["platform"] != "cpu":
                here = f"for a device of {module['platform']}"
            usable = module["unusable"] or here
            print(f"  module for {module['target']}, {size(module['bytes'])}: {usable}")
            if module["host_functions"]:
                print(f"    calls NumPy for {', '.join(module['host_functions'])}")
        if entry["refined"]:
            print(f"  compiled for the sizes of each call: {entry['refined']}")
        if entry["weights"]:
            print(f"  weights {', '.join(entry['weights'])}")
    if facts["weights"]:
        print("\nweights")
        print(columns(list(facts["weights"].items()), "  "))
