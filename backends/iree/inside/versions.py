"""The version of IREE that the modules of this package were written for."""

from __future__ import annotations

from gnomon.backends.errors import GnomonRuntimeError

__all__ = ["TESTED", "check_version"]

TESTED = "3.13"


def check_version(package: str, version: str, error: type[GnomonRuntimeError]) -> None:
    """Raise an error unless a package of IREE is a release of the tested version."""
    if version.split(".")[:2] != TESTED.split("."):
        raise error(
            f"{package} {version} is installed, but this gnomon works with {TESTED} only: "
            f"`pip install '{package}=={TESTED}.*'` installs that"
        )
