"""Programs that gnomon compiled, loaded and run without a compiler.

It needs NumPy and IREE's runtime. `load` makes functions of a file, `read` only opens and checks
it, and `Writer` writes one; docs/artifact_format.md documents the layout.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gnomon_runtime.artifact import (
    Artifact,
    Entry,
    Module,
    TensorType,
    Weight,
    from_bytes,
    read,
)
from gnomon_runtime.errors import (
    ArtifactDamagedError,
    ArtifactError,
    ArtifactIncompatibleError,
    ArtifactVersionError,
    CheckpointError,
    MissingModuleError,
    NotAnArtifactError,
    ProgramError,
)
from gnomon_runtime.tree import Node, Opaque, Tree, register_namedtuple, register_node

__version__ = "0.1.0"

# Reading a file needs no runtime, and loading one no writer: these are imported at first use.
_DEFERRED = {
    "Array": "gnomon_runtime.devices",
    "DeletedArrayError": "gnomon_runtime.devices",
    "Function": "gnomon_runtime.running",
    "LoadedArtifact": "gnomon_runtime.running",
    "Writer": "gnomon_runtime.writing",
    "load": "gnomon_runtime.running",
    "load_state": "gnomon_runtime.checkpoints",
    "save_state": "gnomon_runtime.checkpoints",
}

if TYPE_CHECKING:
    from gnomon_runtime.checkpoints import load_state, save_state
    from gnomon_runtime.devices import Array, DeletedArrayError
    from gnomon_runtime.running import Function, LoadedArtifact, load
    from gnomon_runtime.writing import Writer
else:

    def __getattr__(name: str) -> Any:
        if name not in _DEFERRED:
            raise AttributeError(f"module 'gnomon_runtime' has no attribute {name!r}")
        value = getattr(importlib.import_module(_DEFERRED[name]), name)
        globals()[name] = value
        return value


__all__ = [
    "Array",
    "Artifact",
    "ArtifactDamagedError",
    "ArtifactError",
    "ArtifactIncompatibleError",
    "ArtifactVersionError",
    "CheckpointError",
    "DeletedArrayError",
    "Entry",
    "Function",
    "LoadedArtifact",
    "MissingModuleError",
    "Module",
    "Node",
    "NotAnArtifactError",
    "Opaque",
    "ProgramError",
    "TensorType",
    "Tree",
    "Weight",
    "Writer",
    "from_bytes",
    "load",
    "load_state",
    "read",
    "register_namedtuple",
    "register_node",
    "save_state",
]
