"""`numpy.pad`, `insert` and `delete` against NumPy; gradients against JAX."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.tolerance import assert_each_near, assert_near

MODES: list[dict[str, Any]] = [
    {"mode": "linear_ramp", "end_values": ((5, -4), (1, 2))},
    {"mode": "linear_ramp"},
    {"mode": "maximum", "stat_length": 2},
    {"mode": "minimum"},
    {"mode": "mean", "stat_length": ((1, 2), (3, 1))},
    {"mode": "median"},
    {"mode": "reflect", "reflect_type": "odd"},
    {"mode": "symmetric", "reflect_type": "odd"},
    {"mode": "reflect"},
    {"mode": "symmetric"},
    {"mode": "wrap"},
    {"mode": "edge"},
    {"mode": "constant", "constant_values": ((1, 2), (3, 4))},
]


@pytest.mark.parametrize("options", MODES, ids=str)
def test_modes_of_padding(options: dict[str, Any]) -> None:
    for shape, dtype in itertools.product([(3, 4), (1, 2)], ["float32", "int32"]):
        x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
        widths = ((2, 7), (0, 1))
        got, expected = gnp.pad(x, widths, **options), np.pad(x, widths, **options)
        assert got.dtype == expected.dtype
        assert_each_near(got, expected, 8, scale=9.0)


def test_padding_by_a_function_and_by_dimensions() -> None:
    def border(row: Any, width: tuple[int, int], axis: int, options: dict[str, Any]) -> Any:
        return row.at[: width[0]].set(options["value"] + axis)

    x = np.ones((2, 3), np.float32)
    expected = [[6, 5, 5, 5, 5], [6, 1, 1, 1, 0], [6, 1, 1, 1, 0], [6, 0, 0, 0, 0]]
    np.testing.assert_array_equal(np.asarray(gnp.pad(x, 1, border, value=5)), expected)
    np.testing.assert_array_equal(np.asarray(gnp.pad(x, {-1: (1, 2)})), np.pad(x, ((0, 0), (1, 2))))


def test_gradients_of_padding() -> None:
    x = np.array([1.0, 4.0, 2.0], np.float32)
    weights = np.arange(10, dtype=np.float32)

    def of(library: Any) -> Any:
        def total(x: Any) -> Any:
            padded = [
                library.pad(x, (3, 4), **o)
                for o in ({"mode": "linear_ramp"}, {"mode": "mean"}, MODES[6])
            ]
            return sum((weights * p).sum() for p in padded)

        return total

    expected = jax.grad(of(jnp))(x)
    assert_near(gn.jit(gn.grad(of(gnp)))(x), expected, 16)  # sums of thirty terms


def test_errors_of_padding() -> None:
    x = gnp.ones((2, 0))
    with pytest.raises(ValueError, match="Cannot apply 'reflect' padding to empty axis 1"):
        gnp.pad(x, 1, "reflect")
    with pytest.raises(ValueError, match="unsupported keyword arguments for mode 'edge'"):
        gnp.pad(x, 1, "edge", constant_values=1)
    with pytest.raises(NotImplementedError, match="mode 'mirror' is none of"):
        gnp.pad(x, 1, "mirror")
    with pytest.raises(ValueError, match="negative"):
        gnp.pad(x, -1)
    with pytest.raises(TypeError, match="integral"):
        gnp.pad(x, 1.5)
    with pytest.raises(ValueError, match="may have"):
        gnp.pad(x, (1, 2, 3))


POSITIONS: list[Any] = [
    0,
    -1,
    2,
    [1],
    [2, 0, 2],
    slice(None, None, 2),
    np.array([True, False, True]),
]


@pytest.mark.parametrize("where", POSITIONS, ids=str)
def test_insertions(where: Any) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    for axis in (0, 1, None):
        if isinstance(where, np.ndarray) and axis != 0:
            continue
        obj = gnp.array(where) if isinstance(where, list) else where
        for values in (7, np.int32(7)):
            np.testing.assert_array_equal(
                np.asarray(gnp.insert(x, obj, values, axis)), np.insert(x, where, values, axis)
            )
        np.testing.assert_array_equal(
            np.asarray(gnp.delete(x, obj, axis)), np.delete(x, where, axis)
        )
    several = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    np.testing.assert_array_equal(
        np.asarray(gnp.insert(x, 1, several, axis=1)), np.insert(x, 1, several, axis=1)
    )


def test_traced_positions() -> None:
    x = np.arange(10, 15, dtype=np.int32)
    values, places = np.array([7, 8, 9], np.int32), np.array([3, -5, 3], np.int32)

    def all_four(one: Any, several: Any, different: Any) -> Any:
        return (
            gnp.insert(x, one, 99),
            gnp.insert(x, several, values),
            gnp.delete(x, one),
            gnp.delete(x, different, assume_unique_indices=True),
        )

    got = gn.jit(all_four)(2, places, np.array([-1, 0]))
    expected = (
        np.insert(x, 2, 99),
        np.insert(x, places, values),
        np.delete(x, 2),
        np.delete(x, [-1, 0]),
    )
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(g), e)
    with pytest.raises(ValueError, match="assume_unique_indices"):
        gn.jit(lambda i: gnp.delete(x, i))(places)


def test_pads_of_views_of_complex_constants() -> None:
    # The zero imaginary parts of an iota are a splat, which IREE did not compile in these.
    def views() -> list[Any]:
        x = gn.lax.broadcasted_iota("complex64", (31, 3), 0)
        return [gnp.pad(v, 1) for v in (x[:, ::-1][:, :1], x[::-2, :1], x.T[:1, ::-1])]

    for got, expected in zip(gn.jit(views)(), views(), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))
