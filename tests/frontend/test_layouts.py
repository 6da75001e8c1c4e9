"""Layouts, the order of elements in memory, and formats, which are a layout and a sharding."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.experimental.layout import Format, Layout, with_layout_constraint
from gnomon.sharding import SingleDeviceSharding

pytestmark = pytest.mark.usefixtures("devices")

HERE = SingleDeviceSharding(gn.devices("cpu")[0])
DUCK = gn.ShapeDtypeStruct((4, 6), np.float32)


def _both(x: Any, y: Any) -> Any:
    return x[0, :], y[:, 0]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (1, 2, 1, 2, 1, 2)])
def test_arrays_are_row_major(shape: tuple[int, ...]) -> None:
    for x in (gnp.zeros(shape), gn.device_put(np.zeros(shape), HERE), gnp.zeros(shape).T):
        assert x.format == Format(Layout(range(len(shape))), HERE)


def test_a_program_reads_formats_and_gives_them_to_another() -> None:
    auto = Format(Layout.AUTO)
    compiled = gn.jit(_both, in_shardings=auto, out_shardings=auto).trace(DUCK, DUCK)
    formats, keywords = compiled.lower().compile().input_formats
    assert keywords == {}
    assert formats == (Format(Layout((0, 1)), HERE),) * 2
    assert compiled.lower().compile().output_formats == (Format(Layout((0,)), HERE),) * 2
    first = gn.jit(lambda x, y: (x * 2, y * 3), out_shardings=formats).lower(DUCK, DUCK).compile()
    assert first.output_formats == formats
    x, y = first(gnp.ones((4, 6), np.float32), gnp.ones((4, 6), np.float32))
    np.testing.assert_array_equal(compiled.lower().compile()(x, y)[1], np.full(4, 3))


def test_formats_of_a_program_that_calls_functions() -> None:
    """The traced program no longer exists once it is compiled."""
    weights = gnp.ones((6, 2))
    double = gn.jit(lambda x: x * 2)
    compiled = gn.jit(lambda x: gnp.tanh(double(x) @ weights)).lower(DUCK).compile()
    for _ in range(2):
        assert compiled.input_formats == ((Format(Layout((0, 1)), HERE),), {})
        assert compiled.output_formats == Format(Layout((0, 1)), HERE)


def test_formats_over_a_mesh() -> None:
    sharding = gn.NamedSharding(gn.make_mesh((4, 2), ("x", "y")), gn.P("x", "y"))
    wanted = Format(Layout((0, 1)), sharding)
    x = gn.device_put(np.arange(32.0, dtype=np.float32).reshape(8, 4), wanted)
    assert x.format == wanted
    f = gn.jit(lambda x: x + 1, in_shardings=wanted, out_shardings=wanted)
    assert f(x).format == wanted
    compiled = f.lower(x).compile()
    assert compiled.input_formats == ((wanted,), {})
    assert compiled.output_formats == wanted
    np.testing.assert_array_equal(f(x), np.arange(1, 33).reshape(8, 4))


@pytest.mark.parametrize("order", [(1, 0), (0,), (0, 1, 2)])
@pytest.mark.parametrize("spread", [False, True])
def test_other_layouts_raise(order: tuple[int, ...], spread: bool) -> None:
    sharding: Any = HERE
    if spread:
        sharding = gn.NamedSharding(gn.make_mesh((2,), ("x",)), gn.P("x"))
    bad = Format(Layout(order), sharding)
    x = gnp.ones((2, 3))
    error, text = (
        (NotImplementedError, r"arrays are row-major.*AUTO")
        if len(order) == 2
        else (ValueError, r"dimensions, but the array has shape \(2, 3\)")
    )
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("device_put", lambda: gn.device_put(x, bad)),
        ("jit: in_shardings", lambda: gn.jit(lambda x: x, in_shardings=bad)(x)),
        ("jit: out_shardings", lambda: gn.jit(lambda x: x, out_shardings=bad)(x)),
        ("jit: out_shardings", lambda: gn.grad(gn.jit(gnp.sin, out_shardings=bad))(x)),
        ("with_layout_constraint", lambda: with_layout_constraint(x, bad.layout)),
        (
            "with_layout_constraint",
            lambda: gn.jit(lambda x: with_layout_constraint(x, bad.layout))(x),
        ),
    ]
    for name, call in calls:
        with pytest.raises(error, match=f"{name}.*{text}"):
            call()


def test_the_layout_of_an_intermediate() -> None:
    @gn.jit
    def f(x: Any) -> Any:
        return with_layout_constraint({"y": x.T}, Layout((0, 1)))["y"] * 2

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(f(x), x.T * 2)
    np.testing.assert_array_equal(gn.vmap(f)(x[None])[0], x.T * 2)
    np.testing.assert_array_equal(gn.grad(lambda x: f(x).sum())(x), np.full((2, 3), 2))


def test_layouts_and_formats_pickle() -> None:
    for value in (Layout((1, 0)), Format(Layout.AUTO), Format(Layout((0,)), HERE)):
        again = pickle.loads(pickle.dumps(value))
        assert again == value
        assert hash(again) == hash(value)
        assert repr(again) == repr(value)
    assert pickle.loads(pickle.dumps(Layout.AUTO)) is Layout.AUTO


def test_wrong_arguments_raise() -> None:
    with pytest.raises(ValueError, match=r"each of 0 to 1 once, got \(0, 2\)"):
        Layout((0, 2))
    with pytest.raises(ValueError, match=r"needs a gnomon\.NamedSharding"):
        Format(Layout((0,)))
    with pytest.raises(TypeError, match=r"Layout\.AUTO or None, got 3"):
        Format(3)
    with pytest.raises(TypeError, match="Format takes a sharding"):
        Format(None, gn.P("x"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="takes layouts, got 5"):
        with_layout_constraint(gnp.ones(2), 5)
    for layout in (Layout((0,)), Layout.AUTO):
        with pytest.raises(ValueError, match=r"as a part of a format.*Format\(layout, sharding\)"):
            gn.jit(lambda x: x, out_shardings=layout)
