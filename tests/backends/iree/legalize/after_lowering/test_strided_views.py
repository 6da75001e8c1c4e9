"""Slices with gaps that are read by position compile, and only they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
import gnomon.scipy.fft
from gnomon import lax
from tests.backends.iree.joined import Call, check_joined
from tests.tolerance import assert_each_near, assert_near

X = np.arange(2 * 5 * 7, dtype=np.float32).reshape(2, 5, 7) / 8
PLACES = np.array([1, 0, 1, 5, -1], np.int32)

# Views that are read by position, of an array and a start that is known only at run time.
VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "every other": lambda x, i: x[0, 0, ::2],
    "every other, inner": lambda x, i: x[0, :, ::2],
    "every other, outer": lambda x, i: x[0, ::2],
    "backwards": lambda x, i: x[-1, -1, ::-2],
    "one of the last": lambda x, i: x[:, :, 2:3],
    "one of two": lambda x, i: x[:, 0:1, 2:3],
    "one of the last, found at run time": lambda x, i: lax.dynamic_slice(x, (0, 0, i), (2, 5, 1)),
    "transposed": lambda x, i: x[0, :, ::2].T,
    "of what is transposed": lambda x, i: x.T[0:1],
    "of what is rotated": lambda x, i: gnp.transpose(x, (1, 2, 0))[:, 1:2],
    "of one row, transposed": lambda x, i: x[:1].T[2:3],
    "of a view": lambda x, i: x[:, :, ::2][:, 1:4],
    "widened": lambda x, i: x.astype("float16")[0, :, ::2].astype("float32"),
    "unsigned": lambda x, i: x.astype("uint8")[0, :, ::2],
    "unsigned, twice": lambda x, i: x.astype("uint8")[0, 0, ::-1][::-2],
    "of bools": lambda x, i: (x[0] > 2)[:, ::2],
    "of bools, backwards": lambda x, i: (x[0, 0] > 2)[::-2],
    "times one": lambda x, i: x[0, :, ::2] * 1.0 + 0.0,
    "scaled": lambda x, i: (
        (x.astype("int8")[0, :, ::2].astype("float32") - x[0, 0, 0]) * x[0, 1, 1]
    ),
    "broadcast": lambda x, i: gnp.broadcast_to(x[:, 1:2, 1:2], (2, 3, 1)),
}

READERS: dict[str, Callable[[Any, Any], Any]] = {
    "reversed": lambda v, i: lax.rev(v, (v.ndim - 1,)),
    "reversed, outer": lambda v, i: lax.rev(v, (0,)),
    "gather": lambda v, i: v[i],
    "gather, filled": lambda v, i: v.at[i].get(mode="fill"),
    "gather, inner": lambda v, i: v[..., i],
    "gather, both": lambda v, i: v[i % 2, ..., i % 2] if v.ndim > 1 else v[i],
    "gather, promised": lambda v, i: v.at[i % 2].get(mode="promise_in_bounds"),
    "reversed scan": lambda v, i: lax.cumsum(v.astype("float32"), axis=v.ndim - 1, reverse=True),
    "reversed scan of a function": lambda v, i: lax.cumlogsumexp(
        v.astype("float32"), axis=0, reverse=True
    ),
    "sort": lambda v, i: gnp.sort(v, axis=-1),
}


_QUICK = ("reversed", "gather, filled", "reversed scan of a function")


@pytest.mark.parametrize(
    "reader",
    [
        *(pytest.param(reader, marks=pytest.mark.sampled(0.3)) for reader in _QUICK),
        *(
            pytest.param(reader, marks=[pytest.mark.slow, pytest.mark.sampled(0.5)])
            for reader in READERS
            if reader not in _QUICK
        ),
    ],
)
def test_views_are_read_by_position(reader: str) -> None:
    def read(x: Any, start: Any, places: Any) -> dict[str, Any]:
        return {name: READERS[reader](view(x, start), places) for name, view in VIEWS.items()}

    found = gnomon.jit(read)(X, 3, PLACES)
    expected = read(gnp.asarray(X), 3, gnp.asarray(PLACES))
    for name, value in expected.items():
        assert_each_near(found[name], value, 16, message=name)


# Programs that IREE refuses: a shape, a dtype, and a function of an array and positions.
REFUSED: dict[str, tuple[tuple[int, ...], str, Callable[[Any, Any], Any]]] = {
    "gather": ((2, 3, 4), "float32", lambda x, i: x[i, 0:1, 0:1]),
    "gather of pairs": ((7, 2, 3), "float32", lambda x, i: x.at[0:4, i, 0:1].get(mode="fill")),
    "filled": ((7, 3, 4), "float32", lambda x, i: x.at[0:3, i, 0:1].get(mode="fill")),
    "promised": (
        (7, 3, 4), "float32", lambda x, i: x.at[0:3, i, 0:1].get(mode="promise_in_bounds")
    ),
    "bytes": ((5, 7), "int8", lambda x, i: x.at[i, 0:1].get(mode="fill")),
    "scan": ((7,), "float32", lambda x, i: lax.cumlogsumexp(x[::2], axis=0, reverse=True)),
    "sort": ((2, 3), "float32", lambda x, i: gnp.sort(x[-1, ::-2])),
}  # fmt: skip


def test_one_view_alone_compiles() -> None:
    places = np.array([1, 0, 1], np.int32)
    calls: dict[str, Call] = {
        name: (function, (np.arange(np.prod(shape)).reshape(shape).astype(dtype), places))
        for name, (shape, dtype, function) in REFUSED.items()
    }
    check_joined(calls, lambda found, expected: assert_each_near(found, expected, 4))


def test_cosine_transforms_read_views() -> None:
    calls: dict[str, Call] = {}
    for shape in ((4,), (5,), (16,), (4, 5)):
        transform = gnomon.scipy.fft.dctn if len(shape) > 1 else gnomon.scipy.fft.dct
        x = np.linspace(-1, 1, np.prod(shape), dtype=np.float32).reshape(shape)
        calls[f"shape {shape}"] = transform, (x,)
    check_joined(calls, lambda found, expected: assert_near(found, expected, 16))


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x: lax.rev(x[:, :, ::2], (0,)), 1),
        # Read in two ways, stored once.
        (lambda x: ((y := x[:, :, ::2])[PLACES], lax.rev(y, (1,))), 1),
        # Without gaps: neighbours stay neighbours.
        (lambda x: (lax.rev(x[:, 1:3, 2:5], (1,)), x[::2][PLACES]), 0),
        # Not read by position.
        (lambda x: gnp.exp(x[:, :, ::2]), 0),
        # A computed value is stored already.
        (lambda x: lax.rev(gnp.exp(x[:, :, ::2]), (0,)), 0),
    ],
)
def test_only_values_with_gaps_are_stored(function: Callable[[Any], Any], count: int) -> None:
    text = gnomon.jit(function).lower(X).as_text("stablehlo")
    assert text.count("optimization_barrier") == count


def test_views_are_read_in_loops_and_branches() -> None:
    def f(x: Any, i: Any) -> Any:
        def step(k: Any, y: Any) -> Any:
            return y + lax.rev(lax.dynamic_slice(x, (0, 0, k), (2, 5, 1)), (1,))

        y = lax.fori_loop(0, i, step, gnp.zeros((2, 5, 1)))
        return lax.cond(i > 1, lambda v: lax.rev(v[:, ::2], (1,)), lambda v: v[:, :3], y)

    assert_each_near(gnomon.jit(f)(X, 3), f(gnp.asarray(X), 3), 4)


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("name", ["x86-64-v2", "aarch64-linux", "wasm32", "cuda:sm_90", "rocm"])
def test_views_are_read_by_position_on_every_target(name: str) -> None:
    def read(x: Any, start: Any, places: Any) -> Any:
        return [
            READERS[reader](view(x, start), places)
            for reader in ("reversed, outer", "gather", "gather, filled", "reversed scan")
            for view in VIEWS.values()
        ]

    assert gnomon.jit(read).lower(X, 3, PLACES).compile(target=name).serialize()


def test_a_view_of_a_splat_is_updated_in_a_branch() -> None:
    v, w = np.ones((2, 2, 1, 2, 1), np.float32), np.full((2, 2, 2, 1, 2, 1), 3, np.float32)

    @gnomon.jit
    def f(p: Any) -> Any:
        splat = gnp.full((3, 2, 2, 1, 2, 1), -1.0)
        return lax.cond(p, lambda a: a[::-2].at[-1].max(v), lambda a: w, splat)

    updated = np.full(w.shape, -1, np.float32)
    updated[-1] = 1
    for chosen in (True, False):
        np.testing.assert_array_equal(f(chosen), updated if chosen else w)


_SPLAT = (3, 2, 2, 1, 2, 1)
_OVER = np.full((2, 2, 2, 1, 2, 1), 3, np.float32)


# A jitted function is inlined into the loop only after the loop's invariants have been moved out.
@gnomon.jit
def _updated(splat: Any) -> Any:
    return splat[::-2].at[-1].max(np.ones((2, 2, 1, 2, 1), np.float32))


# Loops that update a view of a splat; their arguments are the splat and the number of steps.
SPLAT_LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "constant of fori": lambda s, n: lax.fori_loop(0, n, lambda i, c: _updated(s), _OVER),
    "unchanged carry": lambda s, n: lax.fori_loop(
        0, n, lambda i, c: (_updated(c[1]), c[1]), (_OVER, s)
    ),
    "constant of while": lambda s, n: lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, _updated(s)), (0, _OVER)
    ),
    "constant of a condition": lambda s, n: lax.while_loop(
        lambda c: (c[0] < n) & (gnp.sum(_updated(s)) < 100), lambda c: (c[0] + 1, c[1]), (0, _OVER)
    ),
    "constant of scan": lambda s, n: lax.scan(
        lambda c, x: (c + n, _updated(s)), n, gnp.arange(3, dtype=np.int32)
    ),
    "scanned": lambda s, n: lax.scan(
        lambda c, x: (c + n, _updated(x)), n, gnp.broadcast_to(s, (3, *_SPLAT))
    ),
    "nested": lambda s, n: lax.fori_loop(
        0, n, lambda i, c: lax.fori_loop(0, i, lambda j, d: _updated(s), c), _OVER
    ),
}


def test_a_view_of_a_splat_is_updated_in_a_loop() -> None:
    def f(loop: Callable[[Any, Any], Any], value: float) -> Callable[[Any], Any]:
        return lambda n: loop(gnp.full(_SPLAT, value), n)

    # The values differ, so that each loop has a splat of its own.
    calls: dict[str, Call] = {
        name: (f(loop, -1.0 - k), (np.int32(2),))
        for k, (name, loop) in enumerate(SPLAT_LOOPS.items())
    }
    check_joined(calls)
