"""Calls of Python in programs of jaxlib's CPU client, in one process."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import P, lax
from gnomon.experimental import io_callback

pytest.importorskip("jaxlib")

_TWO = gn.ShapeDtypeStruct((2,), np.float32)
_EIGHT = gn.ShapeDtypeStruct((8,), np.float32)


@pytest.fixture
def x(devices: Any) -> Any:
    return gn.device_put(np.arange(3, dtype=np.float32), devices[1])


@pytest.fixture
def split(devices: Any) -> Any:
    mesh = gn.make_mesh((4,), ("a",), devices=devices, axis_types=(gn.sharding.AxisType.Auto,))
    return gn.device_put(np.arange(8, dtype=np.float32), gn.NamedSharding(mesh, P("a")))


@pytest.mark.parametrize(
    "given",
    [
        np.array([True, False]),
        np.arange(-2, 3).astype(ml_dtypes.int4),
        np.arange(6).reshape(2, 3).astype(np.uint8),
        np.linspace(0, 1, 5).astype(ml_dtypes.bfloat16),
        np.float64(2.5),
        np.ones((2, 0), np.float16),
        np.array([1 + 2j], np.complex64),
    ],
    ids=lambda x: f"{x.dtype}{list(x.shape)}",
)
def test_arrays_of_each_dtype_pass_unchanged(devices: Any, given: Any) -> None:
    given = np.asarray(given)
    seen = []

    def echo(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append((x.dtype, x.tobytes()))
        return x.T

    type_ = gn.ShapeDtypeStruct(given.T.shape, given.dtype)
    with gn.enable_x64():
        result = gn.jit(lambda x: gn.pure_callback(echo, type_, x))(
            gn.device_put(given, devices[2])
        )
    assert seen == [(given.dtype, given.tobytes())]
    assert result.dtype == given.dtype
    assert np.asarray(result).tobytes() == given.T.tobytes()


def _effects(x: Any, log: list[Any], *, twice: Any) -> Any:
    """A program with effects in loops and branches, which append what they get to the log."""

    def body(i: Any, x: Any) -> Any:
        gn.debug.callback(lambda i: log.append(int(i)), i)
        return x + 1

    def again(x: Any) -> Any:
        io_callback(lambda x: log.append(float(x)), None, x[0])
        return x[0] < 5

    io_callback(lambda: log.append("first"), None, ordered=True)
    x = lax.fori_loop(0, 2, body, x)
    x = lax.while_loop(again, lambda x: x + 2, x)
    x = lax.cond(x[1] > 0, lambda x: io_callback(twice, gn.typeof(x), x), lambda x: x, x)
    gn.debug.callback(lambda: log.append("last"))
    return x


def test_effects_are_in_order(x: Any) -> None:
    log: list[Any] = []
    result = gn.jit(lambda x: _effects(x, log, twice=lambda x: 2 * x))(x)
    assert np.array_equal(result, [12, 14, 16])
    assert log == ["first", 0, 1, 2.0, 4.0, 6.0, "last"]


def test_effects_over_several_devices_happen_once(split: Any) -> None:
    log: list[Any] = []
    result = gn.jit(lambda x: _effects(x, log, twice=np.cumsum))(split)
    assert np.array_equal(result, np.cumsum(np.arange(8) + 6))
    assert log == ["first", 0, 1, 2.0, 4.0, 6.0, "last"]


def test_prints(x: Any, capfd: Any) -> None:
    gn.jit(lambda x: gn.debug.print("{} of {y}", x[2], y=x))(x)
    assert capfd.readouterr().out == "2.0 of [0. 1. 2.]\n"


def test_each_device_calls_in_a_shard_map(split: Any) -> None:
    log: list[Any] = []

    def f(x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            gn.debug.callback(lambda i, x: log.append((int(i), x.tolist())), i, x)
            return x + lax.psum(x, "a")

        x = lax.fori_loop(0, 2, step, x)
        return gn.pure_callback(np.cumsum, _TWO, x)

    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    mapped = gn.shard_map(f, mesh=split.sharding.mesh, in_specs=P("a"), out_specs=P("a"))

    def around(x: Any) -> Any:
        gn.debug.callback(lambda: log.append("before"))
        x = mapped(x)
        gn.debug.callback(lambda: log.append("after"))
        return x

    result = gn.jit(around)(split)
    y = x + x.sum(0)
    assert np.array_equal(result, np.cumsum(y + y.sum(0), axis=1).reshape(-1))
    assert (log[0], log[-1]) == ("before", "after")
    calls = [(i, row.tolist()) for i, rows in enumerate((x, y)) for row in rows]
    assert sorted(log[1:-1]) == sorted(calls)


def test_maps_over_some_axes(devices: Any) -> None:
    mesh = gn.make_mesh(
        (2, 2), ("a", "b"), devices=devices, axis_types=(gn.sharding.AxisType.Auto,) * 2
    )
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    x = gn.device_put(values, gn.NamedSharding(mesh, P("a", "b")))
    log: list[Any] = []

    def f(x: Any) -> Any:
        def again(state: Any) -> Any:
            i, x = state
            gn.debug.callback(lambda i, x: log.append((int(i), x.tolist())), i, x)
            large = gn.pure_callback(
                lambda x: np.asarray(x) > 9, gn.ShapeDtypeStruct(x.shape, bool), x
            )
            return i + 1, io_callback(np.negative, gn.typeof(x), gnp.where(large, x, 0))

        return lax.while_loop(lambda state: state[0] < 2, again, (0, x))[1]

    mapped = gn.shard_map(
        f, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}, check_vma=False
    )
    y = gn.jit(mapped)(x)
    first = np.where(values > 9, -values, 0)
    assert np.array_equal(y, np.zeros((4, 4)))
    calls = [(i, a[k : k + 2].tolist()) for i, a in enumerate((values, first)) for k in (0, 2)]
    assert sorted(log) == sorted(calls)
    failing = gn.shard_map(
        lambda x: gn.pure_callback(_fail, gn.ShapeDtypeStruct(x.shape, x.dtype), x),
        mesh=mesh,
        in_specs=P("b"),
        out_specs=P("b"),
        axis_names={"b"},
    )
    with pytest.raises(_CallbackError):
        gn.jit(failing)(x)
    inner = gn.shard_map(f, in_specs=P(None, "b"), out_specs=P(None, "b"), axis_names={"b"})
    both = gn.shard_map(
        inner, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}, check_vma=False
    )
    assert np.array_equal(gn.jit(both)(x), np.zeros((4, 4)))


class _CallbackError(Exception):
    """An exception that only the callbacks of these tests raise."""


def _fail(*_: Any) -> Any:
    raise _CallbackError("of the callback")


def test_the_callbacks_exception_is_raised(x: Any) -> None:
    log: list[Any] = []

    def f(x: Any) -> Any:
        # The loop would not end with the zeros that a failed call returns.
        x = lax.while_loop(
            lambda x: x[0] < 5, lambda x: gn.pure_callback(_fail, gn.typeof(x), x), x
        )
        gn.debug.callback(lambda: log.append("after"))
        return x

    for _ in range(2):
        with pytest.raises(_CallbackError, match="of the callback"):
            gn.jit(f)(x)
    assert log == []
    wrong = gn.jit(lambda x: gn.pure_callback(lambda x: x[:1], gn.typeof(x), x))
    with pytest.raises(RuntimeError, match="Incorrect output shape"):
        wrong(x)


def test_an_exception_on_one_of_several_devices(split: Any) -> None:
    whole = gn.jit(lambda x: gnp.sum(gn.pure_callback(_fail, _EIGHT, x)))
    with pytest.raises(_CallbackError):
        whole(split)

    def f(x: Any) -> Any:
        y = gn.pure_callback(lambda x: _fail() if x[0] == 4 else x, _TWO, x)
        return lax.psum(y, "a")

    mapped = gn.jit(gn.shard_map(f, mesh=split.sharding.mesh, in_specs=P("a"), out_specs=P()))
    with pytest.raises(_CallbackError):
        mapped(split)
    assert np.array_equal(mapped(split + 1), [16, 20])


def test_a_callback_may_run_programs(x: Any) -> None:
    inner = gn.jit(lambda x: x * 2)

    @gn.jit
    def outer(x: Any, depth: Any) -> Any:
        return gn.pure_callback(
            lambda x, d: np.asarray(outer(inner(x), d - 1)) if d else x, gn.typeof(x), x, depth
        )

    assert np.array_equal(outer(x, 2), [0, 4, 8])


def test_eigenvalues_of_general_matrices(devices: Any) -> None:
    a = np.array([[1, 2], [3, 4]], np.float32)
    on_device = gn.device_put(a, devices[3])
    w, v = gn.jit(gnp.linalg.eig)(on_device)
    assert w.devices() == {devices[3]}
    assert np.allclose(a @ v, v * np.asarray(w), atol=1e-5)
    gradient = gn.jit(gn.grad(lambda a: gnp.sum(gnp.linalg.eigvals(a).real)))(on_device)
    assert np.allclose(gradient, np.eye(2), atol=1e-5)
