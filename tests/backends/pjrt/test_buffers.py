"""Arrays on a plugin's device: transfers, views in place, lifetimes."""

from __future__ import annotations

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from gnomon.backends.errors import BufferDeletedError, OutOfMemory
from gnomon.backends.pjrt.backend import PjrtBackend
from gnomon.backends.pjrt.buffer import ELEMENT_TYPES, put
from gnomon.backends.pjrt.client import Client, Device

pytestmark = pytest.mark.pjrt

# The dtypes that this plugin transfers; it supports fewer than the interface.
DTYPES = [d for d in ELEMENT_TYPES if d.name not in ("int2", "uint2")]


def aligned(shape: tuple[int, ...], fill: float) -> np.ndarray:
    """An array that starts at a multiple of 64 bytes, which this plugin reads in place."""
    nbytes = int(np.prod(shape)) * 4
    memory = np.zeros(nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    array = memory[start : start + nbytes].view(np.float32).reshape(shape)
    array[...] = fill
    return array


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_there_and_back(dtype: np.dtype, device: Device) -> None:
    for shape in ((), (0,), (3, 0), (1,), (7,), (2, 3, 5), (1, 2, 1, 2, 1, 2)):
        count = int(np.prod(shape))
        array = (np.arange(count) % 2).astype(dtype).reshape(shape)
        buffer = put(array, device)
        assert (buffer.shape, buffer.dtype, buffer.device) == (shape, dtype, device)
        result = buffer.to_numpy()
        assert result.dtype == dtype and result.shape == shape
        np.testing.assert_array_equal(result.astype(np.complex128), array.astype(np.complex128))
        assert not result.flags.writeable
        assert buffer.is_ready()


def test_any_layout(device: Device) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for view in (
        array.T,
        array[:, ::-1],
        array[::2, 1:, ::3],
        np.broadcast_to(array[0], (5, 3, 4)),
    ):
        np.testing.assert_array_equal(put(view, device).to_numpy(), view)
    swapped = array.astype(array.dtype.newbyteorder())
    np.testing.assert_array_equal(put(swapped, device).to_numpy(), array)


def test_a_dtype_that_devices_do_not_have(device: Device) -> None:
    with pytest.raises(TypeError, match=r"dtype <U1 cannot be put on .*convert to one of"):
        put(np.array(["a"]), device)


def test_a_copy_is_independent_of_the_array(device: Device) -> None:
    for count in (4, 1 << 16):
        array = np.ones(count, np.float32)
        buffer = put(array, device, copy=True)
        array[:] = 2
        assert buffer.to_numpy()[-1] == 1


def test_memory_is_shared_both_ways(device: Device, client: Client) -> None:
    array = aligned((256, 256), 3)
    buffer = put(array, device)
    result = buffer.to_numpy()
    assert np.shares_memory(result, array)
    # The array is held as long as the device reads it, and no longer.
    alive = weakref.ref(array.base)
    del array
    assert alive() is not None and result[0, 0] == 3
    part = result[5]
    del buffer, result
    gc.collect()
    assert alive() is not None and part[0] == 3
    del part
    gc.collect()
    assert alive() is None
    assert not client.borrowed


def test_views_outlive_their_buffer(device: Device, backend: PjrtBackend) -> None:
    buffer = put(np.arange(1 << 16, dtype=np.float32), device)
    array = buffer.to_numpy()
    buffer.delete()
    others = [put(np.zeros(1 << 16, np.float32), device) for _ in range(8)]
    assert array[-1] == (1 << 16) - 1
    assert others


def test_deleted_buffers_raise_a_named_error(device: Device) -> None:
    buffer = put(np.ones(3, np.float32), device)
    assert not buffer.is_deleted()
    buffer.delete()
    buffer.delete("another reason")
    assert buffer.is_deleted()
    assert "deleted" in repr(buffer)
    for use in (buffer.to_numpy, buffer.wait, buffer.is_ready, buffer.copy_to_host_async):
        with pytest.raises(BufferDeletedError, match=r"shape \(3,\).*used after delete\(\)"):
            use()


def test_copies_between_devices(backend: PjrtBackend) -> None:
    first, second = backend.devices()
    buffer = put(np.arange(5, dtype=np.int32), first)
    copy = buffer.copy_to(second)
    assert copy.device is second
    buffer.delete()
    assert copy.to_numpy().tolist() == [0, 1, 2, 3, 4]


def test_transfers_to_the_host_ahead_of_time(
    device: Device, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a device with separate memory.
    monkeypatch.setattr(client, "shares_host_memory", False)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = put(array, device)
    buffer.copy_to_host_async()
    buffer.copy_to_host_async()
    np.testing.assert_array_equal(buffer.to_numpy(), array)
    assert buffer.to_numpy() is buffer.to_numpy()
    # Nothing waits for this buffer; its memory is kept until the transfer has ended.
    lost = put(np.zeros((512, 512), np.float32), device)
    lost.copy_to_host_async()
    del lost
    gc.collect()
    np.testing.assert_array_equal(put(np.zeros((), ml_dtypes.bfloat16), device).to_numpy(), 0)


def test_a_full_memory(device: Device) -> None:
    # All rows are the same memory: the array is small here, and a petabyte on the device.
    array = np.broadcast_to(np.zeros((1,), np.int8), (1 << 50,))
    with pytest.raises((OutOfMemory, MemoryError)):
        put(array, device)
    assert put(np.ones(2, np.float32), device).to_numpy().tolist() == [1, 1]


def _handles_in_use(client: Client) -> int:
    """The number of handles, once the plugin has returned all arrays that it borrowed."""
    gc.collect()
    while client.borrowed:
        client.return_borrowed()
    return len(client.owned)


def test_nothing_leaks(device: Device, client: Client) -> None:
    before = _handles_in_use(client)
    for _ in range(200):
        put(np.ones(3, np.float32), device).to_numpy()
        put(aligned((64, 128), 1), device).to_numpy()
    assert _handles_in_use(client) == before


def test_descriptions_of_devices(backend: PjrtBackend) -> None:
    first, second = backend.devices()
    assert backend.devices() == (first, second)
    assert (first.platform, first.id, first.process_index) == ("xla_cpu", 0, 0)
    assert (repr(second), str(second)) == ("Xla_cpuDevice(id=1)", "XLA_CPU_1")
    assert first.device_kind == "cpu" and first.memory_kinds
    assert first.backend is backend
    assert first.memory_stats() is None or "bytes_in_use" in first.memory_stats()
