"""XLA's CPU client of jaxlib as a backend, in one process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.backends.errors import BufferDeletedError
from tests.tolerance import assert_near

pytest.importorskip("jaxlib")


def test_the_devices_are_this_processes(devices: Any) -> None:
    assert [device.id for device in devices] == [0, 1, 2, 3]
    assert gn.devices("xla") == list(devices)
    assert gn.local_devices(backend="xla") == list(devices)
    assert gn.process_index("xla") == 0
    assert all(device.is_addressable and device.platform == "xla" for device in devices)
    assert repr(devices[2]) == "XlaDevice(id=2)"
    assert pickle.loads(pickle.dumps(devices[2])) is devices[2]


def test_a_program_runs_where_its_argument_is(devices: Any) -> None:
    x = np.linspace(-2, 2, 7, dtype=np.float32)
    f = gn.jit(lambda x, y: (gnp.sin(x) * y, gnp.sum(x)))
    a, b = f(gn.device_put(x, devices[3]), 2.0)
    assert a.devices() == {devices[3]} == b.devices()
    assert_near(np.asarray(a), np.sin(x.astype(np.float64)) * 2, units=4)
    assert_near(np.asarray(b), np.sum(x.astype(np.float64)), units=7, scale=np.abs(x).sum())


def test_gradients(devices: Any) -> None:
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    gradient = gn.grad(lambda x: gnp.sum(gnp.tanh(x) ** 2))(gn.device_put(x, devices[1]))
    exact = x.astype(np.float64)
    assert_near(np.asarray(gradient), 2 * np.tanh(exact) / np.cosh(exact) ** 2, units=8)


@pytest.mark.parametrize(
    "dtype",
    [np.bool_, np.int8, np.uint32, np.int64, np.float16, ml_dtypes.bfloat16, np.complex64],
    ids=lambda dtype: np.dtype(dtype).name,
)
def test_arrays_come_back_as_they_were_put(devices: Any, dtype: Any) -> None:
    given = np.arange(-3, 3).reshape(2, 3).astype(dtype)
    buffer = devices[1].backend.put(given.T, devices[1], copy=True)
    assert buffer.dtype == given.dtype
    assert buffer.to_numpy().tobytes() == np.ascontiguousarray(given.T).tobytes()
    assert not buffer.to_numpy().flags.writeable


def test_a_donated_argument_is_deleted(devices: Any) -> None:
    x = gn.device_put(np.ones(4, np.float32), devices[0])
    y = gn.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    assert np.array_equal(y, np.full(4, 2, np.float32))
    buffer = devices[0].backend.put(np.ones(3, np.float32), devices[0])
    buffer.delete()
    with pytest.raises(BufferDeletedError, match=r"delete\(\) was called"):
        buffer.to_numpy()


def test_nan_is_the_maximum(devices: Any) -> None:
    x = gn.device_put(np.array([1, np.nan, 3], np.float32), devices[0])
    assert np.isnan(gn.jit(gnp.max)(x))
    assert np.array_equal(gnp.maximum(x, 2), [2, np.nan, 3], equal_nan=True)


def test_the_executable_checks_its_arguments(devices: Any) -> None:
    backend = devices[0].backend
    lowered = gn.jit(lambda x: x * 2).lower(gn.device_put(np.ones(3, np.float32), devices[1]))
    executable = lowered.compile().executable
    assert np.array_equal(executable([np.ones(3, np.float32)])[0].to_numpy(), [2, 2, 2])
    with pytest.raises(TypeError, match="takes 1 arguments, got 0"):
        executable([])
    with pytest.raises(TypeError, match=r"compiled for shape \(3,\)"):
        executable([np.ones(4, np.float32)])
    with pytest.raises(TypeError, match=r"is on XlaDevice\(id=0\), but the program was compiled"):
        executable([backend.put(np.ones(3, np.float32), devices[0])])
    assert "HloModule" in executable.as_text()
    assert executable.cost_analysis()["flops"] >= 3


def test_neither_jax_nor_jaxlib_is_needed_before_initialize() -> None:
    program = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {hidden}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import gnomon as gn, numpy as np
try:
    gn.distributed.initialize("127.0.0.1:1", 1, 0)
except gn.errors.BackendUnavailable as error:
    print(error)
    sys.exit()
"""
    command = [sys.executable, "-c", program.replace("{hidden}", "('jax', 'jaxlib')")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert "python -m pip install 'gnomon[distributed]'" in run.stdout
