"""The errors of reading, checking and running artifacts."""

from __future__ import annotations

__all__ = [
    "ArtifactDamagedError",
    "ArtifactError",
    "ArtifactIncompatibleError",
    "ArtifactVersionError",
    "CheckpointError",
    "MissingModuleError",
    "NotAnArtifactError",
    "ProgramError",
]


class ArtifactError(Exception):
    """The base class: an artifact cannot be read, or its programs cannot run here."""


class NotAnArtifactError(ArtifactError):
    """The file is something else: it does not begin as an artifact does."""


class ArtifactVersionError(ArtifactError):
    """The file is of a format that this version of the package does not read."""


class ArtifactDamagedError(ArtifactError):
    """The file is truncated or altered: a size, a checksum or the metadata is wrong."""


class ArtifactIncompatibleError(ArtifactError):
    """The artifact is intact, but not for this machine, this runtime or this use."""


class CheckpointError(ArtifactError):
    """A file of arrays cannot be read, or does not hold what is asked of it."""


class MissingModuleError(ArtifactIncompatibleError):
    """No compiled module of the artifact runs on this machine."""


class ProgramError(ArtifactError, RuntimeError):
    """A program of the artifact could not be loaded, or failed when it ran."""
