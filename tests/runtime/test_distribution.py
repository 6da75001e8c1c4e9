"""The runtime's own distribution: built, installed in a fresh environment, and used there."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import export

RUNTIME = Path(__file__).parents[2] / "runtime"

PROGRAM = """
import importlib.util, sys
import numpy as np, gnomon_runtime
for name in ("gnomon", "torch_mlir", "iree.compiler", "optree", "jax"):
    try:
        assert importlib.util.find_spec(name) is None, name
    except ModuleNotFoundError:
        pass
model = gnomon_runtime.load(sys.argv[1])
print(np.asarray(model(np.arange(6, dtype=np.float32))).tobytes().hex())
"""


@pytest.mark.slow
def test_an_environment_with_the_runtime_alone(tmp_path) -> None:
    spec = gn.ShapeDtypeStruct((6,), np.float32)
    export.save(tmp_path / "f.gnm", {"f": (gn.jit(lambda x: gnp.tanh(x) * 3), (spec,))})
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"

    def run(*command: object) -> str:
        given = list(map(str, command))
        result = subprocess.run(given, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", RUNTIME)
    installed = run(sys.executable, "-m", "pip", "--python", python, "list", "--format=freeze")
    names = {line.partition("==")[0].replace("-", "_") for line in installed.splitlines()}
    assert names - {"pip", "setuptools"} == {
        *("gnomon_runtime", "iree_base_runtime", "ml_dtypes", "numpy"),
    }
    (found,) = run(python, "-c", PROGRAM, tmp_path / "f.gnm").split()
    model = gn.load(tmp_path / "f.gnm")
    assert found == np.asarray(model(np.arange(6, dtype=np.float32))).tobytes().hex()
