"""Cotangents of parts of arrays are added to those parts alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.tolerance import assert_each_near

A = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
ROWS = np.array([3, 0, 3, -1])


def _loop(read: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda a: lax.fori_loop(0, 20, lambda i, c: c + gnp.sum(read(a, i) ** 2), 0.0)


READS: dict[str, Callable[[Any], Any]] = {
    "a row": _loop(lambda a, i: a[i]),
    "a column": _loop(lambda a, i: a[:, i]),
    "an element": _loop(lambda a, i: a[i, i]),
    "a window": _loop(lambda a, i: lax.dynamic_slice(a, (i, 2 * i), (3, 4))),
    "a row beyond the end": _loop(lambda a, i: a.at[i + 10].get(mode="fill", fill_value=0)),
    "rows": _loop(lambda a, i: a[(gnp.array(ROWS) + i) % 20]),
}
# These read the whole array too, or twice.
MIXED: dict[str, Callable[[Any], Any]] = {
    "a row and all": _loop(lambda a, i: a[i] * gnp.sum(a)),
    "two rows": _loop(lambda a, i: a[i] * a[i - 1]),
    "straight": lambda a: gnp.sum(a[ROWS] ** 2) + gnp.sum(gnp.sin(a)) + a[3, 4] * a[3, 5],
    "a row and its update": _loop(lambda a, i: a.at[i].multiply(2.0)[i - 1]),
}


@pytest.mark.parametrize("jit", [False, True])
def test_gradients_are_those_of_forward_mode(jit: bool) -> None:
    functions = [*READS.values(), *MIXED.values()]

    def gradients(a: Any) -> list[Any]:
        return [gn.grad(f)(a) for f in functions]

    found = (gn.jit(gradients) if jit else gradients)(A)
    for f, gradient in zip(functions, found, strict=True):
        assert_each_near(gradient, gn.jacfwd(f)(A), 64, scale=float(np.abs(gradient).max()))


def test_mapped_gradients() -> None:
    batch = np.stack([A, A[::-1], 2 * A])
    found = gn.jit(gn.vmap(lambda a: [gn.grad(f)(a) for f in READS.values()]))(batch)
    for f, gradients in zip(READS.values(), found, strict=True):
        for a, gradient in zip(batch, gradients, strict=True):
            assert_each_near(gradient, gn.grad(f)(a), 64, scale=float(np.abs(gradient).max()))


@pytest.mark.parametrize("name", READS)
def test_no_step_passes_over_the_array(name: str) -> None:
    text = gn.jit(gn.grad(READS[name])).lower(A).as_text()
    assert re.search(r"stablehlo\.while", text)
    assert not re.search(
        r"(add|concatenate|transpose|select) .*tensor<(20x30|30x20|600x1)xf32>", text
    )
