"""A platform of jaxlib's CPU client in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gnomon.backends import platforms


@pytest.fixture(scope="module")
def devices() -> Iterator[tuple[Any, ...]]:
    """Four devices of a separate platform."""
    pytest.importorskip("jaxlib")
    from gnomon.backends.distributed.backend import XlaCpuBackend

    backend = XlaCpuBackend("xla", 4)
    platforms.register("xla", lambda name: backend)
    yield backend.devices()
    platforms.unregister("xla")
