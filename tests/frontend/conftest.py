"""Fixtures that several test modules of the frontend share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def devices() -> Iterator[list[Any]]:
    """Eight CPU devices."""
    # The oracle is imported only where it is needed: an installation need not have it.
    from tests.frontend.many_devices import eight_devices

    with eight_devices() as found:
        yield found
