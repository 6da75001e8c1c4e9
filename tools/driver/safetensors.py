"""Safetensors files, with errors for the command line."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gnomon.tools.driver.errors import DriverError
from gnomon_runtime import safetensors
from gnomon_runtime.errors import CheckpointError

__all__ = ["read_safetensors", "write_safetensors"]


def read_safetensors(path: str) -> dict[str, np.ndarray]:
    """The arrays of a file, by name.

    Raises:
      DriverError: the file is damaged, or has a dtype that is not supported.
    """
    try:
        return safetensors.read_safetensors(path)
    except CheckpointError as error:
        raise DriverError(str(error)) from error


def write_safetensors(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name.

    Raises:
      DriverError: the format does not support a dtype.
    """
    try:
        safetensors.write_safetensors(path, arrays)
    except CheckpointError as error:
        raise DriverError(str(error)) from error
