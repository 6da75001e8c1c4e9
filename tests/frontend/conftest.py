"""Fixtures that several test modules of the frontend share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.frontend.many_devices import eight_devices


@pytest.fixture(scope="module")
def devices() -> Iterator[list[Any]]:
    """Eight CPU devices."""
    with eight_devices() as found:
        yield found
