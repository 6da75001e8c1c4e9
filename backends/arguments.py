"""Checks of the arguments that are given to an executable for one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["buffers_of_arguments"]


def buffers_of_arguments(
    args: Sequence[Any], types: Sequence[tuple[tuple[int, ...], Any]], device: Any, kind: type[Any]
) -> list[Any]:
    """The buffers of arguments, on the device of a program; NumPy arrays are transferred.

    Args:
      args: NumPy arrays, which may be modified after the call, and buffers.
      types: the shape and dtype of each argument of the program.
      device: the device of the program.
      kind: the class of the device's buffers.
    Raises:
      TypeError: the number of arguments, a shape, a dtype or a device is not the declared one.
    """
    if len(args) != len(types):
        raise TypeError(f"the program takes {len(types)} arguments, got {len(args)}")
    buffers = []
    for index, (arg, (shape, dtype)) in enumerate(zip(args, types, strict=True)):
        if not isinstance(arg, (kind, np.ndarray)):
            raise TypeError(
                f"argument {index} must be a NumPy array or a {kind.__name__}, got "
                f"{type(arg).__name__}"
            )
        if arg.shape != shape or arg.dtype != dtype:
            raise TypeError(
                f"argument {index} has shape {arg.shape} and dtype {arg.dtype}, but the program "
                f"was compiled for shape {shape} and dtype {dtype}"
            )
        if isinstance(arg, np.ndarray):
            arg = device.backend.put(arg, device, copy=True)
        elif arg.device is not device:
            raise TypeError(
                f"argument {index} is on {arg.device!r}, but the program was compiled for "
                f"{device!r}"
            )
        buffers.append(arg)
    return buffers
