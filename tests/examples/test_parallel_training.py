"""The parallel training example computes the same losses with every strategy."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gnomon as gn
from tests.frontend.many_devices import eight_devices

EXAMPLE = Path(__file__).parents[2] / "examples" / "parallel_training.py"
WAYS = ("data", "tensor", "fully sharded", "pipeline")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("parallel_training", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    with eight_devices() as devices:
        yield gn.make_mesh((8,), ("devices",), devices=devices)


@pytest.fixture(scope="module")
def expected(example: ModuleType, mesh: Any) -> list[float]:
    losses: list[float] = example.train("one device", mesh, 20)
    assert losses[-1] < 0.5 * losses[0]
    return losses


@pytest.fixture(scope="module")
def whole(example: ModuleType, mesh: Any) -> Any:
    """The parameters after one step on one device."""
    after, _ = example.WAYS["one device"](mesh)(example.initial_params(), example.tokens_to_learn())
    return after


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("way", WAYS)
def test_twenty_steps_agree_with_one_device(
    way: str, example: ModuleType, mesh: Any, expected: list[float]
) -> None:
    found = example.train(way, mesh, 20)
    # A step rounds each weight once; twenty steps of a loss of size one amplify that.
    np.testing.assert_allclose(found, expected, rtol=512 * np.finfo(np.float32).eps)


@pytest.mark.slow
@pytest.mark.sampled(0.25)
@pytest.mark.parametrize("way", WAYS)
def test_the_gradient_agrees_with_one_device(
    way: str, example: ModuleType, mesh: Any, whole: Any
) -> None:
    params, tokens = example.initial_params(), example.tokens_to_learn()
    found, _ = example.WAYS[way](mesh)(params, tokens)
    for name, after in whole.items():
        step, other = np.asarray(after - params[name]), np.asarray(found[name] - params[name])
        scale = np.abs(step).max()
        np.testing.assert_allclose(other, step, rtol=0, atol=256 * 2**-23 * scale, err_msg=name)
