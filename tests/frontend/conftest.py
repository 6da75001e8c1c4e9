"""Fixtures that several test modules of the frontend share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gnomon
from tests import sample


@pytest.fixture(scope="module")
def devices() -> Iterator[list[Any]]:
    """Eight CPU devices."""
    # The oracle is imported only where it is needed: an installation need not have it.
    from tests.frontend.many_devices import eight_devices

    with eight_devices() as found:
        yield found


@pytest.fixture(autouse=True)
def _compiler(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each module uses one of the CPU's two compilers, which the commit draws.

    What a program computes must not depend on its compiler, and LLVM in this process takes less
    time. Slow tests use IREE, and so do tests that look at what IREE does (mark `iree`).
    """
    item = request.node
    fixed = item.get_closest_marker("iree") or item.get_closest_marker("slow")
    if not fixed and sample.order(f"compiler of {item.nodeid.partition('::')[0]}")[0] % 2:
        gnomon.config.update("gnomon_cpu_compiler", "llvm")
    yield
    if gnomon.config.gnomon_cpu_compiler != "iree":
        gnomon.config.update("gnomon_cpu_compiler", "iree")
