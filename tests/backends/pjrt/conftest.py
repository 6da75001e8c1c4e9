"""The PJRT plugin for the CPU with two devices, shared by all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gnomon.backends.pjrt.backend import PjrtBackend
from gnomon.backends.pjrt.client import Client, Device
from gnomon.backends.pjrt.plugin import PluginSpec
from tests.conftest import cpu_plugin


@pytest.fixture(scope="session")
def spec() -> PluginSpec:
    """The plugin, asked for two devices."""
    path = cpu_plugin()
    assert path is not None, "the test must be marked pjrt"
    # Optimizing takes the larger part of the time that the tests compile.
    flags = {"xla_backend_optimization_level": 0}
    return PluginSpec("xla_cpu", path, {"cpu_device_count": 2}, flags)


@pytest.fixture(scope="session")
def backend(spec: PluginSpec) -> Iterator[PjrtBackend]:
    """A backend of the plugin, closed at the end of the session."""
    backend = PjrtBackend("xla_cpu", spec)
    yield backend
    backend.close()


@pytest.fixture
def client(backend: PjrtBackend) -> Client:
    """The backend's client."""
    return backend.client


@pytest.fixture
def device(backend: PjrtBackend) -> Device:
    """The first of the two devices."""
    return backend.devices()[0]
