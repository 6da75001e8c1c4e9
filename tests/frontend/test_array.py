"""The array type: values, conversions, exchange with other libraries, printing, immutability."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import gnomon
from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, shaped_array
from gnomon._arrays.concrete import ConcreteArray, wrap, wrap_buffer
from gnomon._arrays.dlpack import import_capsule
from gnomon._sharding.device import HOST
from gnomon.backends.errors import BufferDeletedError
from gnomon.dialects import types


class Buffer:
    """A value that is not available at once."""

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.value: np.ndarray[Any, Any] | None = value
        self.ready = False

    def to_numpy(self) -> np.ndarray[Any, Any]:
        self.wait()
        assert self.value is not None
        return self.value

    def wait(self) -> None:
        if self.value is None:
            raise BufferDeletedError("deleted")
        self.ready = True

    def is_ready(self) -> bool:
        return self.ready

    def delete(self) -> None:
        self.value = None

    def is_deleted(self) -> bool:
        return self.value is None


def on_device(value: np.ndarray[Any, Any], weak: bool = False) -> ConcreteArray:
    return wrap_buffer(Buffer(value), shaped_array(value.shape, value.dtype, weak))


# ----------------------------------------------------------------------------------------- the type


def test_avals_are_interned() -> None:
    aval = shaped_array((2, 3), np.dtype("float32"))
    assert aval is ShapedArray([np.int64(2), 3], "float32") is wrap(np.ones((2, 3), "f4")).aval
    assert aval is not shaped_array((2, 3), np.dtype("float32"), True)
    assert aval.update(weak_type=True).strip_weak_type() is aval
    assert (str(aval), aval.ndim, aval.size, len(aval)) == ("float32[2,3]", 2, 6, 2)
    assert repr(aval.update(weak_type=True)) == "ShapedArray(float32[2,3], weak_type=True)"
    assert aval.type == types.TensorType((2, 3), np.dtype("float32"))
    assert pickle.loads(pickle.dumps(aval)) is aval
    assert copy.deepcopy(aval) is aval


def test_array_is_a_type_for_isinstance_only() -> None:
    assert isinstance(wrap(np.ones(2)), gnomon.Array)
    with pytest.raises(TypeError, match=r"gnomon\.numpy\.asarray"):
        Array()


@pytest.mark.parametrize("make", [wrap, on_device], ids=["host", "device"])
def test_attributes(make: Any) -> None:
    x = make(np.ones((2, 3), np.float16))
    assert (x.shape, x.dtype, x.ndim, x.size) == ((2, 3), np.float16, 2, 6)
    assert (x.itemsize, x.nbytes, len(x), x.weak_type) == (2, 12, 2, False)
    assert (x.device, x.devices()) == (HOST, {HOST})
    with pytest.raises(TypeError, match="unsized"):
        len(make(np.ones(())))


def test_scalars_of_numpy_become_arrays() -> None:
    x = wrap(np.add(np.ones(()), 1))
    assert type(x._value) is np.ndarray and x.shape == ()


def test_a_value_on_a_device_is_read_on_first_use() -> None:
    x = on_device(np.arange(3.0), weak=True)
    assert x.weak_type and not x.is_ready() and x.shape == (3,)
    assert x.block_until_ready() is x
    assert x.is_ready()
    assert x.tolist() == [0, 1, 2]
    assert x._value is x.numpy_value()


def test_arrays_are_immutable() -> None:
    x: Any = wrap(np.zeros(3))
    with pytest.raises(TypeError, match=r"x\.at\[idx\]\.set\(y\)"):
        x[0] = 1
    with pytest.raises(TypeError, match="cannot be deleted"):
        del x[0]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        np.from_dlpack(x)[0] = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert x.tolist() == [0, 0, 0]


@pytest.mark.parametrize("make", [wrap, on_device], ids=["host", "device"])
def test_deleted_arrays_raise_where_their_value_is_used(make: Any) -> None:
    x = make(np.ones(3, np.float32))
    assert not x.is_deleted()
    x.delete()
    assert x.is_deleted() and x.shape == (3,) and x.dtype == np.float32
    assert "deleted" in repr(x)
    x.delete()
    for use in (np.asarray, str, list, pickle.dumps, lambda a: a.block_until_ready()):
        with pytest.raises(RuntimeError, match=r"float32\[3\] has been deleted or donated"):
            use(x)


def test_a_donated_buffer_is_noticed() -> None:
    x = on_device(np.ones(3))
    assert x._buffer is not None
    x._buffer.delete()
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="donate_argnums"):
        x.numpy_value()


def test_arrays_are_freed() -> None:
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        wrap(np.ones(3)).aval
    gc.collect()
    assert len(gc.get_objects()) < before + 50


# -------------------------------------------------------------------------------------- conversions


def test_python_scalars() -> None:
    assert bool(wrap(np.array([[True]]))) is True
    assert int(wrap(np.array(3, np.int8))) == 3
    assert float(wrap(np.array(2.5, ml_dtypes.bfloat16))) == 2.5
    assert complex(wrap(np.array(2.5, np.float32))) == 2.5
    assert [10, 20, 30][wrap(np.array(1, np.uint8))] == 20  # type: ignore[call-overload]
    assert wrap(np.array([[7]])).item() == 7
    assert wrap(np.arange(6)).item(4) == 4
    assert f"{wrap(np.array(2.0)):.3f}" == "2.000"


def test_conversions_that_are_refused() -> None:
    vector, empty = wrap(np.ones(2)), wrap(np.ones(0))
    with pytest.raises(ValueError, match=r"x\.any\(\) or x\.all\(\)"):
        bool(vector)
    with pytest.raises(ValueError, match=r"x\.size > 0"):
        bool(empty)
    for convert in (int, float, complex):
        with pytest.raises(TypeError, match=r"shape \(2,\)"):
            convert(vector)
    with pytest.raises(TypeError, match=r"use x\.real"):
        float(wrap(np.array(1j)))
    with pytest.raises(TypeError, match=r"float64\[\]"):
        range(wrap(np.array(1.0)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size 1"):
        vector.item()
    with pytest.raises(TypeError, match="0-d array"):
        iter(wrap(np.array(1.0)))


def test_iteration_gives_arrays_of_the_same_weak_type() -> None:
    x = wrap(np.arange(6, dtype=np.float32).reshape(3, 2), True)
    rows = list(x)
    assert all(isinstance(r, Array) and r.weak_type and r.shape == (2,) for r in rows)
    scalars = list(rows[1])
    assert [s.shape for s in scalars] == [(), ()] and [float(s) for s in scalars] == [2, 3]
    assert [r.tolist() for r in reversed(x)] == [[4, 5], [2, 3], [0, 1]]


def test_numpy_conversion() -> None:
    value = np.arange(3, dtype=np.float32)
    x = wrap(value)
    assert np.shares_memory(np.asarray(x), value)
    assert np.asarray(x, np.float64).dtype == np.float64
    owned = np.array(x)
    owned[0] = 7
    assert x.tolist() == [0, 1, 2]
    for convert in (np.asarray, ConcreteArray.__array__):
        with pytest.raises(ValueError, match="copy"):
            convert(x, np.int32, copy=False)


@pytest.mark.parametrize("dtype", sorted(types.ANY, key=str), ids=str)
@pytest.mark.parametrize("shape", [(), (4,), (0, 3), (2, 2), (1, 2, 1, 2, 1, 1)])
def test_no_view_of_numpy_can_be_made_writable(dtype: Any, shape: tuple[int, ...]) -> None:
    value = np.resize(np.array([0, 1, 1, 0]).astype(dtype), shape)
    for x in (wrap(value), wrap(value.T)):
        views = [np.asarray(x), x.__array__(), gnomon.device_get(x)]
        for view in views:
            while isinstance(view, np.ndarray):
                assert not view.flags.writeable
                with pytest.raises(ValueError, match="WRITEABLE"):
                    view.flags.writeable = True
                view = view.base
        assert np.asarray(x).dtype == x.dtype
        assert np.asarray(x).tobytes() == x.tobytes()


def test_the_buffer_protocol_reads_as_jax_does() -> None:
    for value in (np.arange(6.0, dtype="f4").reshape(2, 3), np.array(True), np.zeros((0, 2), "c8")):
        ours, theirs = memoryview(wrap(value)), memoryview(jnp.asarray(value))
        for name in ("shape", "strides", "itemsize", "readonly", "c_contiguous"):
            assert getattr(ours, name) == getattr(theirs, name)
        assert ours.format == theirs.format.lstrip("=")
        assert ours.tobytes() == bytes(wrap(value)) == value.tobytes()
        assert not hasattr(ours.obj, "__array__")
        assert ours.readonly
    assert np.frombuffer(wrap(np.arange(3)), np.int64).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="read-write"):
        io.BytesIO(b"0123").readinto(wrap(np.zeros(1, np.float32)))  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="dtype"):
        memoryview(wrap(np.zeros(2, ml_dtypes.bfloat16)))
    view = memoryview(gnomon.jit(lambda x: x + 1)(np.zeros(1000, np.float32)))
    gc.collect()
    assert set(view) == {1.0}


@pytest.mark.parametrize("dtype", sorted(types.ANY, key=str), ids=str)
def test_pickle_and_copies(dtype: Any) -> None:
    x = wrap(np.array([0, 1, 1]).astype(dtype), True)
    for other in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x), x.copy()):
        assert other.aval is x.aval
        # A format of exponents only has nan instead of zero, and nan is unequal to itself.
        assert other.tobytes() == x.tobytes()
        assert other._value is not x._value


# ------------------------------------------------------------------------------------------- dlpack


DLPACK = ["float32", "float64", "int8", "uint16", "bool", "complex64", "float16"]


@pytest.mark.parametrize("dtype", [*DLPACK, "bfloat16"])
def test_dlpack_both_ways_shares_memory(dtype: str) -> None:
    value = np.arange(6).reshape(2, 3)[:, ::2].astype(dtype)
    x = wrap(value)
    back = import_capsule(x)
    assert back.dtype == value.dtype and np.shares_memory(back, value)
    np.testing.assert_array_equal(back, value)
    if dtype != "bool":
        np.testing.assert_array_equal(np.asarray(jnp.from_dlpack(x)), value)
    theirs = jnp.asarray(value)
    np.testing.assert_array_equal(import_capsule(theirs), np.asarray(theirs))
    copied = import_capsule(x, copy=True)
    assert not np.shares_memory(copied, value)


def test_dlpack_refuses_other_objects_streams_and_devices() -> None:
    with pytest.raises(TypeError, match="__dlpack__"):
        import_capsule([1, 2])
    with pytest.raises(BufferError, match="stream"):
        wrap(np.ones(2)).__dlpack__(stream=1)

    class OnGpu:
        def __dlpack__(self, **_: Any) -> None:
            raise AssertionError

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(BufferError, match="device type 2"):
        import_capsule(OnGpu())


def test_old_consumers_of_read_only_memory_get_a_copy() -> None:
    class Old:
        def __init__(self, x: Array) -> None:
            self.x: Any = x

        def __dlpack__(self, **_: Any) -> Any:
            return self.x.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.x.__dlpack_device__()

    value = np.broadcast_to(np.float32(1), (3,))
    out = np.from_dlpack(Old(wrap(value)))
    assert not np.shares_memory(out, value) and out.tolist() == [1, 1, 1]


# ----------------------------------------------------------------------------------------- printing

PRINTED = [
    np.ones(()),
    np.ones((2, 3), np.float32),
    np.arange(40) * 1000,
    np.zeros((0, 3)),
    np.zeros(0, np.int8),
    np.ones((2, 2), ml_dtypes.bfloat16),
    np.ones((2, 2), ml_dtypes.int4),
    np.ones(5000),
    np.array(True),
    np.linspace(0, 1, 17, dtype=np.float32),
    np.ones(3) * 1j,
]


@pytest.mark.parametrize("value", PRINTED, ids=lambda v: f"{v.dtype.name}{v.shape}")
def test_printing_is_that_of_jax(value: np.ndarray[Any, Any]) -> None:
    with jax.enable_x64(True):
        theirs = jnp.asarray(value)
    assert repr(wrap(value)) == repr(theirs)
    assert str(wrap(value)) == str(theirs)


def test_weak_types_are_printed() -> None:
    assert repr(wrap(np.array(2, np.int32), True)) == repr(jnp.asarray(2))


# ---------------------------------------------------------------------------------------- operators


def test_operators_of_numpy_arrays_defer_to_ours() -> None:
    total = np.ones(3, np.float32) + wrap(np.ones(3, np.float32))
    assert isinstance(total, Array)
