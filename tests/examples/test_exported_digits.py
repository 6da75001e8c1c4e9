"""The trained classifier of digits as an artifact and in C, run by the runtime and the driver.

For each backend, two processes give the same bits.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gnomon_runtime
from tests.conftest import cpu_plugin
from tests.tolerance import assert_each_near

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn"),
]

EXAMPLES = Path(__file__).parents[2] / "examples"
CLASSIFIER = EXAMPLES / "c" / "classifier.py"
BATCH = 36


def gnomon(*words: str, folder: Path) -> None:
    environment = {**os.environ, "GNOMON_PJRT_PLUGIN": f"xla_cpu:{cpu_plugin()}"}
    command = [sys.executable, "-m", "gnomon.tools.driver", *words]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images, their labels, and the artifact."""
    path = tmp_path_factory.mktemp("digits")
    subprocess.run([sys.executable, str(CLASSIFIER), "images.bin"], cwd=path, check=True)
    data = (path / "images.bin").read_bytes()
    images = np.frombuffer(data, np.float32, 360 * 64).reshape(360, 64)
    np.save(path / "batch.npy", images[:BATCH])
    np.save(path / "labels.npy", np.frombuffer(data, np.int32, offset=images.nbytes))
    targets = "cpu,vulkan" + (",xla_cpu" if cpu_plugin() else "")
    gnomon("compile", f"{CLASSIFIER}:classify", "--target", targets, "-o", "m.gnm", folder=path)
    return path


def by_runtime(folder: Path, platform: str) -> bytes:
    """The scores of a batch, computed in a process without a compiler."""
    program = f"""
import sys, numpy as np, gnomon_runtime
result = gnomon_runtime.load("m.gnm", platform={platform!r})(np.load("batch.npy"))
sys.stdout.buffer.write(np.asarray(result["scores"]).tobytes())
assert not any(name.split(".")[0] in ("gnomon", "torch_mlir") for name in sys.modules)
assert "iree.compiler" not in sys.modules
"""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout


def by_driver(folder: Path, platform: str) -> bytes:
    """The scores of a batch, computed by ``gnomon run``."""
    given = ["run", "m.gnm", "--device", platform, "--input", "batch.npy"]
    gnomon(*given, "--output", "results.npz", folder=folder)
    scores: np.ndarray = np.load(folder / "results.npz")["scores"]
    return scores.tobytes()


def check(folder: Path, results: list[bytes]) -> np.ndarray:
    """Check that all results have the same bits, and are near the CPU's; return them."""
    assert len(set(results)) == 1
    scores = np.frombuffer(results[0], np.float32).reshape(BATCH, 10)
    expected = np.frombuffer(by_runtime(folder, "cpu"), np.float32).reshape(BATCH, 10)
    assert_each_near(scores, expected, 256, scale=np.abs(expected).max())
    right = scores.argmax(axis=-1) == np.load(folder / "labels.npy")[:BATCH]
    assert right.mean() > 0.9
    return scores


def test_without_a_compiler_and_by_the_driver(folder: Path) -> None:
    check(folder, [by_runtime(folder, "cpu"), by_runtime(folder, "cpu"), by_driver(folder, "cpu")])


@pytest.mark.vulkan
def test_on_vulkan(folder: Path) -> None:
    check(folder, [by_runtime(folder, "vulkan"), by_driver(folder, "vulkan")])


@pytest.mark.pjrt
def test_on_a_plugin(folder: Path) -> None:
    module = gnomon_runtime.read(folder / "m.gnm").entry().modules["xla_cpu"]
    assert module.backend == "pjrt"
    check(folder, [by_driver(folder, "xla_cpu") for _ in range(2)])


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_from_c(folder: Path) -> None:
    gnomon("compile", f"{CLASSIFIER}:classify", "-o", "libclassify.a", folder=folder)
    build = ["cc", "-Wall", "-Wextra", "-Werror", "-I.", str(EXAMPLES / "c" / "classify.c")]
    subprocess.run([*build, "libclassify.a", "-lm", "-o", "classify"], cwd=folder, check=True)
    outputs = [
        subprocess.run(["./classify", "images.bin"], cwd=folder, check=True, capture_output=True)
        for _ in range(2)
    ]
    assert outputs[0].stdout == outputs[1].stdout
    assert b"of 360 images are read as the right digit" in outputs[0].stderr
    rows = [line.split() for line in outputs[0].stdout.decode().splitlines()]
    found = np.array([digit for digit, _ in rows], np.int32)
    assert (found == np.load(folder / "labels.npy")).mean() > 0.95
    scores = np.frombuffer(by_runtime(folder, "cpu"), np.float32).reshape(BATCH, 10)
    best = np.array([score for _, score in rows[:BATCH]], np.float32)
    assert_each_near(best, scores.max(axis=-1), 256, scale=np.abs(scores).max())
