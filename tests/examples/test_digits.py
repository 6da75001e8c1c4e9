"""The digits example reaches its accuracy and prints the expected output."""

from __future__ import annotations

import importlib.util
import io
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gnomon
from tests.backends.real_platforms import REAL_PLATFORMS, plugin_named
from tests.tolerance import assert_near

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"

needs_sklearn = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="scikit-learn (the extra 'examples')"
)


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("digits", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def accuracy_in(text: str) -> float:
    found = re.search(r"^test accuracy (\d+\.\d+)%", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])


@pytest.mark.slow
@needs_sklearn
def test_the_network_learns_the_digits() -> None:
    run = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=300
    )
    assert run.stderr == ""
    assert accuracy_in(run.stdout) >= 97.0
    # A redirected output has only the outcome, without the progress line.
    assert "\r" not in run.stdout
    assert "Gradient of each test example" in run.stdout
    assert len(re.findall(r"a \d, read as \d", run.stdout)) == 4


class Terminal(io.StringIO):
    """Standard output that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.slow
@needs_sklearn
def test_a_terminal_sees_each_epoch_on_one_line(
    digits: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digits, "EPOCHS", 3)
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    digits.main()
    progress, _, _ = terminal.getvalue().partition("\ntest accuracy")
    losses = [float(v) for v in re.findall(r"\repoch +\d/3  loss (\d+\.\d+)", progress)]
    assert len(losses) == 3
    assert all(0 < loss < np.log(10) for loss in losses)
    assert "\n" not in progress


@needs_sklearn
def test_the_gradients_of_the_examples_have_the_gradient_of_the_batch_as_their_mean(
    digits: ModuleType,
) -> None:
    data_key, params_key = gnomon.random.split(gnomon.random.key(0))
    params = digits.init_params(params_key)
    x, y = (part[:50] for part in digits.load_data(data_key)[1])
    _, gradient = digits.loss_and_gradient(params, x, y)
    each = digits.example_gradients(params, x, y)
    assert gnomon.tree_util.tree_structure(each) == gnomon.tree_util.tree_structure(params)

    def close(stacked: Any, whole: Any) -> None:
        assert stacked.shape == (50, *whole.shape)
        assert_near(np.asarray(stacked, np.float64).mean(0), whole, 64)

    gnomon.tree_util.tree_map(close, each, gradient)


@pytest.mark.slow
@needs_sklearn
@pytest.mark.parametrize("platform", REAL_PLATFORMS)
def test_training_agrees_on_other_platforms(
    digits: ModuleType, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digits, "EPOCHS", 1)

    def learned() -> tuple[Any, Any]:
        data_key, params_key, training_key = gnomon.random.split(gnomon.random.key(0), 3)
        training, test = digits.load_data(data_key)
        training = tuple(part[:320] for part in training)
        params = digits.train(training_key, digits.init_params(params_key), training, test)
        return params, digits.test_accuracy(params, *test)

    here, right = learned()
    with plugin_named(platform):
        device = gnomon.devices(platform)[0]
    with gnomon.default_device(platform):
        there, same = learned()
    assert same.devices() == {device}
    assert abs(float(same) - float(right)) <= 0.01
    for one, other in zip(*map(gnomon.tree.leaves, (here, there)), strict=True):
        assert other.devices() == {device}
        np.testing.assert_allclose(other, one, rtol=0.01, atol=1e-3)


# Targets other than this machine, one of each kind for which the example's programs are compiled.
ELSEWHERE = (
    "cuda:sm_90",
    "rocm:gfx942",
    "metal",
    pytest.param("tpu:v5e", marks=pytest.mark.tpu_compile),
    pytest.param("tpu:v6e", marks=pytest.mark.tpu_compile),
)


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@needs_sklearn
@pytest.mark.parametrize("target", ELSEWHERE)
def test_all_that_it_compiles_is_compiled_for_other_machines(
    digits: ModuleType, target: str
) -> None:
    def everything(params: Any, velocity: Any, x: Any, y: Any) -> Any:
        value, gradient = digits.loss_and_gradient(params, x, y)
        params, velocity = digits.update(params, velocity, gradient)
        right = digits.test_accuracy(params, x, y)
        return value, params, velocity, right, digits.example_gradients(params, x, y)

    params = digits.init_params(gnomon.random.key(0))
    batch = [gnomon.ShapeDtypeStruct((digits.BATCH_SIZE, n), np.float32) for n in (64, 10)]
    compiled = gnomon.jit(everything).lower(params, params, *batch).compile(target=target)
    assert len(compiled.serialize()) > 10_000
    assert "f64" not in compiled.as_text("stablehlo")
    if target.startswith("cuda"):
        assert compiled.as_text().count(".visible .entry") >= 5


@needs_sklearn
def test_the_data_are_split_in_the_same_way_in_every_run(digits: ModuleType) -> None:
    key = gnomon.random.key(3)
    for one, other in zip(digits.load_data(key)[0], digits.load_data(key)[0], strict=True):
        np.testing.assert_array_equal(one, other)
    # The training and test sets are disjoint and complete.
    (train, _), (test, _) = digits.load_data(key)
    assert len(train) + len(test) == 1797
    distinct = {image.tobytes() for image in train}
    assert not any(image.tobytes() in distinct for image in test)


def test_without_scikit_learn_the_extra_is_named() -> None:
    program = (
        "import runpy, sys; sys.modules['sklearn'] = sys.modules['sklearn.datasets'] = None; "
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert run.returncode == 1
    assert "scikit-learn" in run.stderr
    assert "gnomon[examples]" in run.stderr
    assert "Traceback" not in run.stderr
