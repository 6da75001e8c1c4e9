"""Devices as a program sees them."""

from __future__ import annotations

from gnomon.backends import platforms
from gnomon.backends.interface import Device

__all__ = ["HOST", "Device"]

HOST: Device = platforms.backend(platforms.HOST_PLATFORM).devices()[0]
"""The device of arrays that are kept in the process's own memory."""
