"""Detection of this machine's GPU, from the system's libraries and files.

No function here starts one of IREE's drivers. Each returns None if it finds no GPU.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

__all__ = ["cuda_architecture", "no_architecture", "rocm_architecture"]

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
_KFD = Path("/sys/class/kfd/kfd/topology/nodes")


@functools.cache
def cuda_architecture() -> str | None:
    """The first NVIDIA GPU's architecture, such as "sm_90"."""
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        device, value = ctypes.c_int(), ctypes.c_int()
        if library.cuInit(0) or library.cuDeviceGet(ctypes.byref(device), 0):
            return None
        numbers = []
        for attribute in (_MAJOR, _MINOR):
            if library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
                return None
            numbers.append(value.value)
        return f"sm_{numbers[0]}{numbers[1]}"
    return None


@functools.cache
def rocm_architecture() -> str | None:
    """The first AMD GPU's architecture, such as "gfx942", as the kernel driver reports it."""
    try:
        nodes = sorted(_KFD.iterdir(), key=lambda path: int(path.name))
        texts = [(node / "properties").read_text() for node in nodes]
    except (OSError, ValueError):
        return None
    for text in texts:
        properties = dict(line.split(None, 1) for line in text.splitlines() if " " in line)
        version = int(properties.get("gfx_target_version", "0"))
        if version:
            # 90402 is version 9.4.2, gfx942: the name has the last two numbers in hexadecimal.
            major, minor, stepping = version // 10000, version // 100 % 100, version % 100
            return f"gfx{major}{minor:x}{stepping:x}"
    return None


def no_architecture() -> str | None:
    """Return None, for families whose members cannot be detected."""
    return None
