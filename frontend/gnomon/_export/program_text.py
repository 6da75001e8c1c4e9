"""The program of an entry of an artifact, as text of this version of the dialect."""

from __future__ import annotations

from gnomon._export.serialization import is_of_this_dialect
from gnomon.backends.bytecode import BytecodeError, RefusedProgramError
from gnomon.backends.foreign import read_program
from gnomon_runtime.artifact import Artifact, Entry
from gnomon_runtime.errors import (
    ArtifactDamagedError,
    ArtifactIncompatibleError,
    MissingModuleError,
)

__all__ = ["program_text"]


def program_text(artifact: Artifact, entry: Entry, platform: str) -> str:
    """The program of an entry; if that is of another version, its portable form, raised.

    Args:
      artifact: the artifact.
      entry: an entry of it.
      platform: the platform for which the program was exported.

    Raises:
      MissingModuleError: the artifact has neither for the platform.
      ArtifactDamagedError: the portable form cannot be read.
      ArtifactIncompatibleError: it has an op without a form in the dialect.
    """
    if platform in entry.sections["program"] and is_of_this_dialect(entry):
        return artifact.program(entry.name, platform).decode()
    if platform not in entry.sections["portable"]:
        raise MissingModuleError(
            f"{artifact.name}: the function {entry.name!r} has no program for {platform!r} that "
            "could be compiled: neither one of this version of gnomon's dialect nor StableHLO"
        )
    try:
        return read_program(artifact.portable(entry.name, platform))
    except RefusedProgramError as error:
        raise ArtifactIncompatibleError(f"{artifact.name}: {error}") from error
    except BytecodeError as error:
        raise ArtifactDamagedError(f"{artifact.name}: {error}") from error
