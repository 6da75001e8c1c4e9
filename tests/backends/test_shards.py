"""Arrays over several devices that do not share memory, on mock devices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gnomon.backends import shards
from gnomon.backends.errors import BufferDeletedError, GnomonRuntimeError


class MadeUp(SimpleNamespace):
    """A device that can be hashed."""

    __hash__ = object.__hash__


class Part:
    """A buffer of one device."""

    def __init__(self, value: Any, device: Any) -> None:
        self.value, self.device = np.array(value), device
        self.shape, self.dtype = self.value.shape, self.value.dtype
        self.gone = False

    def to_numpy(self) -> Any:
        return self.value

    def copy_to_host_async(self) -> None:
        pass

    def wait(self) -> None:
        pass

    def is_ready(self) -> bool:
        return True

    def is_lost(self) -> bool:
        return False

    def is_deleted(self) -> bool:
        return self.gone


class Doubling:
    """A program of one argument that doubles it, on each device of this process."""

    def run_on_all(self, buffers: Any) -> Any:
        return [[Part(2 * x.value, x.device)] for (x,) in buffers]

    def as_text(self) -> str:
        return "doubling"


def devices(count: int, processes: int = 1) -> list[Any]:
    backend = SimpleNamespace(put=lambda array, device, copy=False: Part(array, device))
    return [
        MadeUp(id=i, process_index=i * processes // count, backend=backend) for i in range(count)
    ]


def halves(found: list[Any]) -> shards.Layout:
    """The rows of a matrix split in two, each half on every second device."""
    return shards.Layout((4, 2), found, [(slice(2 * (i % 2), 2 * (i % 2) + 2),) for i in range(4)])


X = np.arange(8.0, dtype=np.float32).reshape(4, 2)


def test_parts_are_put_and_joined() -> None:
    buffer = shards.put(X, halves(devices(4)))
    assert buffer.shape == (4, 2) and len(buffer.parts) == 4 and buffer.is_ready()
    np.testing.assert_array_equal(buffer.parts[3].to_numpy(), X[2:])
    np.testing.assert_array_equal(buffer.to_numpy(), X)
    assert not buffer.to_numpy().flags.writeable


def test_layouts_are_equal_whatever_the_spelling() -> None:
    two = devices(2)
    one = shards.Layout((4,), two, [(slice(None),)] * 2)
    other = shards.Layout((4,), two, [(slice(0, 4),), ()])
    assert one == other and hash(one) == hash(other) and one.is_fully_replicated
    assert one != shards.Layout((4,), two, [(slice(0, 2),), (slice(2, 4),)])
    assert one != shards.Layout((4,), two[::-1], [()] * 2)


def test_deletion() -> None:
    buffer = shards.put(X, halves(devices(4)))
    parts = buffer.parts
    other = shards.ShardedBuffer(buffer.layout, buffer.dtype, parts)
    buffer.delete()
    assert buffer.is_deleted() and not other.is_deleted()
    with pytest.raises(BufferDeletedError, match=r"shape \(4, 2\).*delete\(\) was called"):
        buffer.to_numpy()
    parts[1].gone = True  # type: ignore[attr-defined]
    assert other.is_deleted()


def test_several_processes() -> None:
    """Of four devices, the first two are this process's."""
    layout = halves(devices(4, processes=2))
    buffer = shards.put(X, layout)
    assert len(buffer.parts) == 2 and not layout.is_fully_addressable
    np.testing.assert_array_equal(buffer.to_numpy(), X)  # all parts are here
    rows = shards.Layout((4, 2), layout.devices, [(slice(i, i + 1),) for i in range(4)])
    buffer = shards.put(X, rows)
    with pytest.raises(GnomonRuntimeError, match=r"2 of its 4 devices.*addressable_shards"):
        buffer.to_numpy()
    whole = shards.put(X, shards.Layout((4, 2), layout.devices, [()] * 4))
    np.testing.assert_array_equal(whole.to_numpy(), X)
    layout.devices[2].is_addressable = True  # type: ignore[attr-defined]
    assert shards.is_addressable(layout.devices[2])


def test_programs() -> None:
    layout = halves(devices(4))
    dtype = np.dtype(np.float32)
    run = shards.ShardedExecutable(Doubling(), layout.devices, [(layout, dtype)], [(layout, dtype)])
    (made,) = run([X])
    np.testing.assert_array_equal(made.to_numpy(), 2 * X)
    assert made.layout is layout and run.as_text() == "doubling"
    assert list(run.input_types) == [((4, 2), dtype)] == list(run.output_types)
    (again,) = run.run([made])
    np.testing.assert_array_equal(again.to_numpy(), 4 * X)
    with pytest.raises(TypeError, match="takes 1 arguments, got 2"):
        run([X, X])
    with pytest.raises(TypeError, match=r"shape .8,. and dtype float32, but"):
        run([np.zeros(8, np.float32)])
    other = shards.put(X, shards.Layout((4, 2), layout.devices, [()] * 4))
    with pytest.raises(TypeError, match="argument 0 is Layout"):
        run([other])
