"""Loops carry arrays in the dtype that their updates work on, and compute what they did."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax

DTYPES = ("bool", "uint8", "uint32", "bfloat16", "float16", "float8_e5m2", "int8", "float32")
SIZE = 50


def _operand(dtype: str) -> Any:
    x = np.random.default_rng(0).integers(0, 2, SIZE)
    return gnp.asarray(x if dtype == "bool" else 3 * x + 1).astype(dtype)


def _updates(x: Any, y: Any) -> Any:
    """Updates, reads of parts and of all, an array that the loop only reads, and an inner loop."""

    def step(i: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        def inner(k: Any, b: Any) -> Any:
            return b.at[k + i].set(y[k])

        a, b, count = carry
        a = a.at[2 * i].set(y[i])
        a = a.at[i].set(a[i + 1])
        b = lax.dynamic_update_slice(b, lax.dynamic_slice(a, (i,), (3,)), (3 * i,))
        return a, lax.fori_loop(0, 3, inner, b), count + gnp.sum(b == y)

    return lax.fori_loop(0, 15, step, (x, y, 0))


def test_values() -> None:
    operands = {dtype: (_operand(dtype), _operand(dtype)[::-1]) for dtype in DTYPES}
    found = gn.jit(lambda o: {dtype: _updates(*pair) for dtype, pair in o.items()})(operands)
    for dtype, pair in operands.items():
        for result, expected in zip(found[dtype], _updates(*pair), strict=True):
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected, dtype)


def test_bytes_of_a_program_are_not_taken_for_bools() -> None:
    def program(x: Any) -> Any:
        def step(i: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            flags, total = carry
            changed = x.at[i].set(flags[i].astype(gnp.int8) * 7)
            return changed.astype(bool), total + gnp.sum(flags.astype(gnp.int8))

        return lax.fori_loop(0, 5, step, (x > 1, 0))

    x = np.array([0, 5, 1, 0, 9, 2], np.int8)
    for result, expected in zip(gn.jit(program)(x), program(gnp.asarray(x)), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_sieve() -> None:
    def crossed_out(n: Any, sieve: Any) -> Any:
        return lax.while_loop(
            lambda c: c[0] < 1000, lambda c: (c[0] + n, c[1].at[c[0]].set(False)), (n * n, sieve)
        )[1]

    def step(n: Any, sieve: Any) -> Any:
        return lax.cond(sieve[n], crossed_out, lambda n, sieve: sieve, n, sieve)

    @gn.jit
    def primes(sieve: Any) -> Any:
        return gnp.sum(lax.fori_loop(2, 32, step, sieve.at[:2].set(False)))

    assert primes(gnp.ones(1000, bool)) == 168


@pytest.mark.parametrize("dtype", ["bool", "uint32", "bfloat16"])
def test_no_step_converts_the_array(dtype: str) -> None:
    def program(x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 40, lambda i, a: a.at[i].set(y[i + 1]).at[i + 1].set(a[i]), x)

    x = _operand(dtype)
    text = gn.jit(program).lower(x, x).as_text()
    start = text.index("} do {")
    body = text[start : text.index("stablehlo.return", start)]
    assert "dynamic_update_slice" in body
    assert not re.search(rf"(convert|compare) .*-> tensor<{SIZE}x", body)
