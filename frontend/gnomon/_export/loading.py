"""`gnomon.load`: loading artifacts, and compiling modules that they lack."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gnomon.backends import platforms
from gnomon.dialects.deferred import Deferred

if TYPE_CHECKING:
    from gnomon_runtime.artifact import Artifact
    from gnomon_runtime.running import LoadedArtifact

__all__ = ["load"]

_artifacts: Any = Deferred("gnomon_runtime.artifact")
_errors: Any = Deferred("gnomon_runtime.errors")
_machine: Any = Deferred("gnomon_runtime.machine")
_program_text: Any = Deferred("gnomon._export.program_text")
_running: Any = Deferred("gnomon_runtime.running")
_deserialization: Any = Deferred("gnomon._export.deserialization")
_saving: Any = Deferred("gnomon._export.saving")
_serialization: Any = Deferred("gnomon._export.serialization")
_on_plugins: Any = Deferred("gnomon._export.pjrt_functions")


def load(
    path: str | os.PathLike[str],
    *,
    platform: str | None = None,
    device: int = 0,
    digest: str | None = None,
) -> LoadedArtifact:
    """Load an artifact; functions without a module for this machine are compiled when called.

    They are compiled from the program in gnomon's dialect. If that is of another version, the
    portable StableHLO artifact is raised to this version of the dialect and compiled.

    Args:
      path: the path of the file.
      platform: the platform to run on: ``"cpu"``, ``"vulkan"``, ``"cuda"``, ``"tpu"``, the name of
        a PJRT plugin; by default the CPU if the artifact has a module for it or none at all. On a
        plugin, results are gnomon's arrays.
      device: the number of the device of that platform.
      digest: the expected digest of the file, if known; a file with another digest is rejected.

    Returns:
      A mapping from names to functions; if there is only one function, the mapping is callable.
    Raises:
      gnomon_runtime.ArtifactError: the file is not an artifact, damaged, or of another version.

    Example:
      >>> import gnomon as gn
      >>> model = gn.load("digits.gnm")  # doctest: +SKIP
      >>> model["predict"](images)  # doctest: +SKIP
    """
    artifact = _artifacts.read(path)
    _running.check_digest(artifact, digest)
    platform = platform or _only_plugin(artifact)
    if platform is not None and (platform == "tpu" or platform in platforms.plugins()):
        loaded: LoadedArtifact = _on_plugins.load_on_plugin(artifact, platform, device)
        return loaded
    return _running.LoadedArtifact(
        artifact, platform=platform, device=device, modules=_module_or_compiled
    )


def _only_plugin(artifact: Artifact) -> str | None:
    """The platform of a plugin that is set, if the artifact has modules for that platform alone."""
    modules = [m for entry in artifact.entries.values() for m in entry.modules.values()]
    names = {module.platform for module in modules}
    if len(names) == 1 and names <= set(platforms.plugins()):
        return names.pop()
    return None


def _module_or_compiled(artifact: Any, entry: Any, platform: str | None) -> Any:
    """The module of an entry for this machine, compiled from its program if there is none."""
    try:
        module = _machine.choose_module(artifact, entry, platform)
    except _errors.MissingModuleError:
        chosen = platform or ("cpu" if "cpu" in entry.platforms else None)
        if chosen is None or not _has_program(entry, chosen):
            raise
        text = _program_text.program_text(artifact, entry, chosen)
        if entry.is_symbolic and _serialization.is_of_this_dialect(entry):
            avals = _deserialization.input_types(entry)
            return _saving.compile_symbolic(entry.name, avals, text, chosen)[0]
        return _saving.compile_module(text, chosen, entry.donated)
    return module, artifact.module(entry.name, module.target)


def _has_program(entry: Any, platform: str) -> bool:
    own = platform in entry.sections["program"] and _serialization.is_of_this_dialect(entry)
    return own or platform in entry.sections["portable"]
