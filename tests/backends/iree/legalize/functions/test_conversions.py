"""Conversions to 16-bit floats round wherever their results are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp
from tests.backends.iree.joined import report

NARROW = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
# Values that are computed without rounding, so that the rounded ones are the same everywhere.
MAKERS: dict[str, Callable[[Any], Any]] = {
    "argument": lambda x: x,
    "element": lambda x: x[:1],
    "scalar": lambda x: x[0],
    "negative": lambda x: -x,
    "sum": lambda x: x[::2] + x[::2],
    "maximum": lambda x: gnp.max(x),
    "transpose": lambda x: x.reshape(-1, 1).T,
    "where": lambda x: gnp.where(x > 3, x, -x),
    "gather": lambda x: x[gnp.array([0, 2, 1])],
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: -c, x),
    "branch": lambda x: lax.cond(x[0] > 0, lambda x: -x, lambda x: x, x),
    "sort": gnp.sort,
}


def back_and_forth(x: Any, dtype: str) -> Any:
    return x.astype(dtype).astype(np.float32)


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("size", [3, 17, 1000])
def test_conversions_round_in_every_kernel(size: int) -> None:
    x = np.linspace(1.001, 9.003, size, dtype=np.float32)
    cases = [(maker, dtype) for maker in MAKERS for dtype in NARROW]

    @gn.jit
    def functions(xs: list[Any]) -> list[Any]:
        results = []
        for (maker, dtype), x in zip(cases, xs, strict=True):
            rounded = back_and_forth(MAKERS[maker](x), dtype)
            results.append((rounded, rounded * 4, gnp.concatenate([rounded.ravel()] * 2)))
        return results

    problems = {}
    # Each has an argument of its own, so that the compiler shares nothing among them.
    for (maker, dtype), results in zip(cases, functions([x] * len(cases)), strict=True):
        made = np.asarray(MAKERS[maker](gnp.asarray(x)))
        value = made.astype(NARROW[dtype]).astype(np.float32)
        assert not np.array_equal(made, value)
        try:
            for found, expected in zip(
                results, (value, value * 4, np.tile(value.ravel(), 2)), strict=True
            ):
                np.testing.assert_array_equal(np.asarray(found), expected)
        except AssertionError as error:
            problems[f"{maker}, {dtype}"] = str(error)
    report(problems)


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_results_of_functions_are_numbers_of_the_dtype(size: int) -> None:
    x = np.linspace(0.1, 3, size, dtype=np.float32)

    def functions(x: Any, dtype: str) -> Any:
        def step(carry: Any, y: Any) -> Any:
            carry = back_and_forth(carry * 1.01 + y, dtype)
            return carry, carry

        return (
            back_and_forth(gnp.exp(x), dtype),
            back_and_forth(gnp.sin(x) * x, dtype),
            back_and_forth(gn.nn.softmax(x), dtype),
            back_and_forth(x @ x, dtype),
            lax.scan(step, np.float32(0), x)[1],
            gn.grad(lambda x: (back_and_forth(x, dtype) ** 2).sum())(x),
            gn.vmap(lambda y: back_and_forth(y / 3, dtype))(x),
        )

    both = gn.jit(lambda xs: {dtype: functions(x, dtype) for dtype, x in xs.items()})
    for dtype, results in both(dict.fromkeys(NARROW, x)).items():
        for n, result in enumerate(results):
            value = np.asarray(result)
            narrow = value.astype(NARROW[dtype]).astype(np.float32)
            np.testing.assert_array_equal(value, narrow, f"result {n}, {dtype}")


def test_special_values_are_converted_to_bfloat16() -> None:
    info = ml_dtypes.finfo(ml_dtypes.bfloat16)
    largest, tiny = float(info.max), float(info.smallest_subnormal)
    x = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.00390625, 1.01171875, -1.00390626, largest]
        + [largest * 1.001, largest * 1.002, 3.4e38, -3.4e38, tiny, tiny / 2, tiny * 1.5, 1e-45],
        np.float32,
    )
    expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    both = gn.jit(
        lambda x, y: (
            back_and_forth(x, "bfloat16"),
            back_and_forth(y[gnp.arange(y.size)], "bfloat16"),
        )
    )
    for actual in map(np.asarray, both(x, x)):
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(np.signbit(actual[3:5]), np.signbit(expected[3:5]))


def test_other_dtypes_are_rounded_to_bfloat16() -> None:
    arrays = {}
    for dtype in ("int8", "uint8", "int16", "int32", "uint32", "bool", "float16"):
        x = np.array([0, 1, 100, 127], dtype)
        if x.dtype.itemsize > 1:
            x = np.concatenate([x, np.array([257, 259, 1025, 32767], dtype)])
        arrays[dtype] = x
    parts = (slice(None), slice(-1, None), slice(-2, -1))

    @gn.jit
    def functions(given: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {
            dtype: [back_and_forth(x[part], "bfloat16") for x, part in zip(xs, parts, strict=True)]
            for dtype, xs in given.items()
        }

    for dtype, results in functions({dtype: [x] * 3 for dtype, x in arrays.items()}).items():
        expected = arrays[dtype].astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
        for actual, part in zip(results, parts, strict=True):
            np.testing.assert_array_equal(np.asarray(actual), expected[part], f"{dtype}, {part}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v4", "sapphirerapids", "aarch64-linux"])
def test_conversions_compile_for_other_machines(target: str) -> None:
    lowered = gn.jit(lambda x, i: back_and_forth(x[i] * 2, "bfloat16")).lower(
        np.ones(5, np.float32), np.arange(3)
    )
    assert lowered.compile(target=target).serialize()
