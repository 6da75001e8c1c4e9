"""Devices with separate memory: copies, asynchronous calls, lifetimes, failures, forks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import iree.runtime
import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon._arrays.concrete import wrap
from gnomon.backends.errors import (
    BackendUnavailable,
    BufferDeletedError,
    ExecutionError,
    OutOfMemory,
)
from gnomon.backends.iree.buffer import Pending
from gnomon.backends.iree.remote import RemoteBuffer
from tests.backends.devices.platforms import PLATFORMS, backend_of
from tests.conftest import has_device
from tests.tolerance import assert_each_near, assert_near

ROOT = Path(__file__).parents[3]

on_platforms = pytest.mark.parametrize("platform", PLATFORMS)


def put(value: Any, platform: str) -> Any:
    return gn.device_put(value, gn.devices(platform)[0])


@on_platforms
def test_devices_are_numbered_and_have_a_kind(platform: str) -> None:
    devices = gn.devices(platform)
    assert [device.id for device in devices] == list(range(len(devices)))
    assert all(device.platform == platform and device.device_kind for device in devices)
    assert gn.devices(platform)[0] is devices[0]
    assert repr(devices[0]) == f"{platform.capitalize()}Device(id=0)"


@on_platforms
def test_values_go_there_and_back(platform: str) -> None:
    rng = np.random.default_rng(0)
    large = rng.standard_normal((700, 501)).astype(np.float32)
    values = [
        np.float32(3.5),
        np.zeros((0, 4), np.int32),
        rng.integers(0, 2, 11).astype(np.bool_),
        np.arange(5, dtype=np.uint8),
        rng.standard_normal(7).astype(np.float16),
        rng.standard_normal(9).astype(ml_dtypes.bfloat16),
        (rng.standard_normal(5) + 1j).astype(np.complex64),
        large,
        large.T[::-1, ::2],
        np.arange(4, dtype=">i4"),
    ]
    backend = backend_of(platform)
    buffers = [backend.put(np.asarray(value)) for value in values]
    for value, buffer in zip(values, buffers, strict=True):
        read = buffer.to_numpy()
        assert read.dtype == value.dtype.newbyteorder("=")
        assert not read.flags.writeable
        np.testing.assert_array_equal(read, value)
        assert buffer.to_numpy() is read
    buffers[-3].delete()
    np.testing.assert_array_equal(values[-3], large)


@on_platforms
def test_an_array_may_change_once_it_is_put(platform: str) -> None:
    array = np.ones((600, 600), np.float32)
    buffer = backend_of(platform).put(array)
    array[...] = 7
    np.testing.assert_array_equal(buffer.to_numpy(), 1)


SIZE = 192


def rotation(seed: int) -> np.ndarray:
    normal = np.random.default_rng(seed).normal(size=(SIZE, SIZE))
    return np.linalg.qr(normal)[0].astype(np.float32)


# Each element sums SIZE terms.
product = gn.jit(lambda a, b: a @ b)


@on_platforms
def test_calls_return_before_the_work_is_done_and_chain(platform: str) -> None:
    first, second = put(rotation(0), platform), put(rotation(1), platform)
    product(first, second).block_until_ready()
    count = 10 if platform == "vulkan" else 2000
    started = time.perf_counter()
    chain = first
    for _ in range(count):
        chain = product(chain, second)
    launched = time.perf_counter() - started
    if platform == "vulkan":
        assert not chain.is_ready()
    chain.block_until_ready()
    finished = time.perf_counter() - started
    assert chain.is_ready()
    if platform == "vulkan":
        assert launched < 0.5 * finished
    expected = rotation(0).astype(np.float64)
    for _ in range(count):
        expected = expected @ rotation(1)
    assert_near(chain, expected, count * SIZE, scale=1.0)


@on_platforms
def test_memory_in_use_is_not_freed(platform: str) -> None:
    second = put(rotation(1), platform)
    chain = product(put(rotation(0), platform), second)
    chain = product(chain, second)
    product(chain, second)
    del second
    gc.collect()
    junk = [put(np.full((SIZE, SIZE), np.nan, np.float32), platform) for _ in range(8)]
    expected = rotation(0) @ rotation(1) @ rotation(1)
    assert_near(chain, expected, 2 * SIZE, scale=1.0)
    assert all(np.isnan(array).all() for array in junk)


@on_platforms
def test_the_memory_of_arrays_is_counted(platform: str) -> None:
    device = gn.devices(platform)[0]
    gc.collect()
    before = device.memory_stats()
    assert before is not None
    array = put(np.zeros(1 << 20, np.float32), platform)
    twin = put(np.zeros(1 << 18, np.float32), platform)
    during = device.memory_stats()
    assert during["bytes_in_use"] == before["bytes_in_use"] + (5 << 20)
    assert during["peak_bytes_in_use"] >= during["bytes_in_use"]
    assert during["num_allocs"] == before["num_allocs"] + 2
    array.delete()
    del twin
    gc.collect()
    assert device.memory_stats()["bytes_in_use"] == before["bytes_in_use"]


@on_platforms
def test_donated_arrays_are_gone(platform: str) -> None:
    twice = gn.jit(lambda x: x + x, donate_argnums=0)
    given = put(np.arange(3.0, dtype=np.float32), platform)
    np.testing.assert_array_equal(twice(given), [0, 2, 4])
    assert given.is_deleted()
    with pytest.raises(RuntimeError, match=r"donated|deleted"):
        np.asarray(given)


@on_platforms
def test_python_is_called_from_a_program(platform: str) -> None:
    def scaled(x: np.ndarray) -> np.ndarray:
        return x * np.float32(3)

    @gn.jit
    def f(x: Any) -> Any:
        middle = gn.pure_callback(scaled, gn.ShapeDtypeStruct(x.shape, x.dtype), x + 1)
        return gnp.linalg.cholesky(middle @ middle.T + gnp.eye(3)) + 1

    x = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    scale = (x + 1) * 3
    expected = np.linalg.cholesky(scale @ scale.T + np.eye(3)) + 1
    result = f(put(x, platform))
    assert result.device.platform == platform
    assert_each_near(result, expected, 512)

    def fails(x: np.ndarray) -> np.ndarray:
        raise KeyError("on purpose")

    g = gn.jit(lambda x: gn.pure_callback(fails, gn.ShapeDtypeStruct(x.shape, x.dtype), x))
    with pytest.raises(KeyError, match="on purpose"):
        g(put(x, platform))
    assert_each_near(f(put(x, platform)), expected, 512)


@on_platforms
def test_a_failure_surfaces_where_the_value_is_read_and_not_elsewhere(platform: str) -> None:
    backend = backend_of(platform)
    device = backend.devices()[0]
    state = device.driver_state("async")
    semaphore = state.device.create_semaphore(0)
    fence = iree.runtime.HalFence.create_at(semaphore, 1)
    view = backend.put(rotation(0)).view_for(state)
    pending = Pending(semaphore, fence, state)
    doomed = RemoteBuffer(
        (SIZE, SIZE), np.dtype(np.float32), device, state, view=view, pending=pending
    )
    assert not doomed.is_ready()
    semaphore.fail("the lamp went out")
    for _ in range(2):
        with pytest.raises(ExecutionError, match="the lamp went out"):
            doomed.to_numpy()
    good = put(rotation(0), platform)
    assert_near(product(good, good), rotation(0) @ rotation(0), SIZE, scale=1.0)


# The errors of a driver after a fault or a hang, as far as a semaphore reports them.
@pytest.mark.vulkan
@pytest.mark.parametrize(
    "sign", ["INTERNAL; VK_ERROR_DEVICE_LOST", "querying semaphore: DATA_LOSS"]
)
def test_a_lost_device_restarts_and_others_keep_working(sign: str) -> None:
    backend = backend_of("vulkan")
    device = backend.devices()[0]
    elsewhere = gn.jit(lambda x: x + 1)(np.ones(3, np.float32))
    read, unread = put(rotation(0), "vulkan"), put(rotation(1), "vulkan")
    np.asarray(read)
    # The literal of an eager op is kept on the device for the next one.
    np.asarray(read + 2.0)
    state = device.driver_state("async")
    semaphore = state.device.create_semaphore(0)
    fence = iree.runtime.HalFence.create_at(semaphore, 1)
    doomed = RemoteBuffer(
        (SIZE, SIZE),
        np.dtype(np.float32),
        device,
        state,
        view=backend.put(rotation(0)).view_for(state),
        pending=Pending(semaphore, fence, state),
    )
    semaphore.fail(sign)
    with pytest.raises(ExecutionError, match=rf"{sign}; vulkan.* was lost, with all values on it"):
        doomed.to_numpy()
    with pytest.raises(ExecutionError, match=rf"lost before it was read, by .*{sign[-9:]}"):
        doomed.to_numpy()
    assert device.driver_state("async") is not state
    for value in (unread, product(unread, unread)):
        with pytest.raises(ExecutionError, match=r"compute it again.*restarts it"):
            np.asarray(value)
    expected = rotation(0) @ rotation(0)
    assert_near(product(read, read), expected, SIZE, scale=1.0)
    np.testing.assert_array_equal(read + 2.0, rotation(0) + 2)
    assert device.memory_stats()["bytes_in_use"] > 0
    assert elsewhere.tolist() == [2, 2, 2]


@pytest.mark.vulkan
def test_a_device_survives_running_out_of_memory() -> None:
    # The pages of neither array are ever touched: lavapipe refuses more than 2 GiB at once.
    with pytest.raises(OutOfMemory, match=r"vulkan.*3221225472 bytes.*delete arrays"):
        put(wrap(np.empty(3 << 30, np.uint8)), "vulkan")
    x = put(np.float32(1), "vulkan")
    fill = gn.jit(lambda x: gnp.broadcast_to(x, (3 << 28,)) + 1)
    with pytest.raises(OutOfMemory, match="want of memory"):
        fill(x).block_until_ready()
    assert float(x + 1) == 2
    assert float(gn.device_put(np.float32(1), gn.devices("cpu")[0]) + 1) == 2


@on_platforms
def test_arrays_come_and_go_without_copies_in_the_hosts_memory(platform: str) -> None:
    given = np.ones((1024, 1024), np.float32)  # large enough that staging memory is not kept
    put(given, platform).block_until_ready()
    for view in (given, given[:, ::2], given.T):
        given[...] = 1
        tracemalloc.start()
        on_device = put(view, platform)
        given[...] = 2  # it has been read
        result = np.asarray(on_device)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < view.nbytes / 8
        assert result.shape == view.shape and (result == 1).all()


@on_platforms
def test_a_deleted_buffer_is_not_read(platform: str) -> None:
    backend = backend_of(platform)
    buffer = backend.put(np.zeros(3, np.float32))
    buffer.delete()
    with pytest.raises(BufferDeletedError, match="delete"):
        buffer.to_numpy()


@on_platforms
def test_threads_share_a_device(platform: str) -> None:
    f = gn.jit(lambda x: x * 2 + 1)
    f(put(np.zeros(4, np.float32), platform))
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(8):
            value = np.full(4, number * 100 + turn, np.float32)
            result = np.asarray(f(put(value, platform)))
            if not np.array_equal(result, value * 2 + 1):
                wrong.append((number, turn, result))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    assert wrong == []


def _in_child(queue: Any, read: Any, unread: Any) -> None:
    f = gn.jit(lambda x: x * 2)
    results: list[Any] = [f(put(np.arange(3, dtype=np.float32), "vulkan")).tolist()]
    results.append(f(read).tolist())
    try:
        np.asarray(unread)
    except RuntimeError as error:
        results.append(str(error))
    queue.put(results)
    # Arrays of the parent process end here as well.
    del read, unread
    gc.collect()


@pytest.mark.vulkan
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_device_of_its_own() -> None:
    f = gn.jit(lambda x: x * 2)
    read = f(put(np.arange(3, dtype=np.float32), "vulkan"))
    unread = read * 2
    np.asarray(read)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue, read, unread))
    child.start()
    own, inherited, message = queue.get(timeout=120)
    child.join(timeout=60)
    assert child.exitcode == 0
    assert (own, inherited) == ([0, 2, 4], [0, 4, 8])
    assert "fork" in message
    np.testing.assert_array_equal(unread, [0, 4, 8])


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


@on_platforms
def test_the_end_is_silent(platform: str) -> None:
    done = _python(
        "import numpy as np, gnomon as gn\n"
        f"x = gn.device_put(np.ones((50, 50), np.float32), gn.devices('{platform}')[0])\n"
        "f = gn.jit(lambda a, b: a @ b)\n"
        "class Holder: pass\n"
        "Holder.more = [f(x, x) for _ in range(5)]\n"
        "kept = [np.asarray(f(x, x)), f(Holder.more[0], x)]\n"
        "Holder.cycle = Holder, kept\n"
        "print(kept[0][0, 0])\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("50.0\n", "", 0)


@pytest.mark.vulkan
def test_a_missing_driver_is_named_in_the_error() -> None:
    done = _python(
        "import gnomon as gn\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        gn.devices('vulkan')\n"
        "    except RuntimeError as error:\n"
        "        print(type(error).__name__, error)\n"
        "print(gn.numpy.ones(2) + 1)\n",
        VK_ICD_FILENAMES="/nowhere.json",
        VK_DRIVER_FILES="/nowhere.json",
    )
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert first == second
    assert first.startswith("BackendUnavailable")
    assert "mesa-vulkan-drivers" in first
    assert last == "[2. 2.]"


def test_no_gpu_is_a_named_error() -> None:
    if has_device("cuda"):
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(BackendUnavailable, match="libcuda"):
        gn.devices("cuda")


@on_platforms
def test_an_update_does_not_share_memory_with_the_next(platform: str) -> None:
    """A donated array's memory must not hold the next update's indices, which the host reads."""

    def program(x: Any, y: Any, i: Any) -> Any:
        first = gn.lax.dynamic_update_slice(x, y[:2, :3] * 2, (i[0], i[1]))
        return gn.lax.dynamic_update_slice(first, y[:1, :1] * 3, (i[1], i[0]))

    x, y, i = gnp.arange(24.0).reshape(6, 4), gnp.ones((6, 4)), gnp.array([4, 5])
    wanted = np.asarray(program(x, y, i))
    compiled, given = gn.jit(program), [put(value, platform) for value in (x, y, i)]
    for _ in range(20):
        np.testing.assert_array_equal(np.asarray(compiled(*given)), wanted)
