"""Booleans whose bytes are neither 0 nor 1."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon_runtime.booleans import zero_or_one


@pytest.mark.parametrize("shape", [(), (0,), (5,), (1000,), (20, 30), (2, 1, 3, 1, 2, 1)])
def test_zero_or_one(shape: tuple[int, ...]) -> None:
    dirty = np.full(shape, 254, np.uint8).view(np.bool_)
    np.testing.assert_array_equal(zero_or_one(dirty).view(np.uint8), np.ones(shape))
    clean = np.ones(shape, np.bool_)
    numbers = np.full(shape, 254, np.uint8)
    assert zero_or_one(clean) is clean
    assert zero_or_one(numbers) is numbers


def test_zero_or_one_of_every_second_element() -> None:
    dirty = np.full((20, 40), 254, np.uint8).view(np.bool_)[:, ::2]
    assert (zero_or_one(dirty).view(np.uint8) == 1).all()
