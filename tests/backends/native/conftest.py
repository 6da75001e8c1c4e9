"""Fixtures of the native module's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gnomon._native import Key
from tests.backends.native.caller import Caller


@pytest.fixture
def caller() -> Caller:
    return Caller()


@pytest.fixture
def key_of(caller: Caller) -> Callable[..., Key]:
    """The key of a call, made by a cache without static arguments."""
    cache = caller.cache()

    def key_of(*args: Any, **kwargs: Any) -> Key:
        key = cache.lookup(args, kwargs, None)[2]
        assert key is not None
        return key

    return key_of
