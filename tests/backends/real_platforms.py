"""The platforms other than the host's, as parameters of tests; absent ones are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import cpu_plugin

REAL_PLATFORMS = (
    pytest.param("xla_cpu", marks=pytest.mark.pjrt),
    pytest.param("vulkan", marks=pytest.mark.vulkan),
    pytest.param("cuda", marks=pytest.mark.cuda),
)


@contextmanager
def plugin_named(platform: str) -> Iterator[None]:
    """The environment that makes the PJRT plugin a platform; nothing for platforms of IREE."""
    with pytest.MonkeyPatch.context() as patch:
        if platform == "xla_cpu":
            patch.setenv("GNOMON_PJRT_PLUGIN", f"xla_cpu:{cpu_plugin()}")
        yield
