"""The platforms of devices with separate memory."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon.backends import platforms

# Each test runs where the platform's device is, and is left out elsewhere by its mark.
PLATFORMS = [
    pytest.param("vulkan", marks=pytest.mark.vulkan),
    pytest.param("cuda", marks=pytest.mark.cuda),
]


def backend_of(platform: str) -> Any:
    """The backend of a platform."""
    return platforms.backend(platform)


def dtypes_on(platform: str) -> frozenset[str]:
    """Short names of the dtypes that the platform computes with."""
    return frozenset(backend_of(platform).target.capabilities.dtypes)
