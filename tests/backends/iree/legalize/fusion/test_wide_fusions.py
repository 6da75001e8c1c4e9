"""Expressions of more buffers than IREE binds in one kernel: compiled, against the evaluator."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree.targets import TARGETS
from tests.tolerance import assert_near

MAX_LEAVES = TARGETS["cpu"].capabilities.max_buffers


def arrays(count: int, *shape: int) -> list[Any]:
    rng = np.random.default_rng(count)
    return [gnp.asarray(rng.normal(size=shape).astype(np.float32)) for _ in range(count)]


def tree(xs: list[Any]) -> Any:
    """A balanced tree of products and sums."""
    for depth in range(20):
        if len(xs) == 1:
            break
        pairs = zip(xs[::2], xs[1::2], strict=False)
        joined = [a * b if depth % 2 else a + b for a, b in pairs]
        xs = joined + xs[len(xs) // 2 * 2 :]
    return xs[0]


def prefixes(xs: list[Any]) -> list[Any]:
    """Every partial sum is a result, so as many buffers are written as read."""
    sums, total = [], gnp.zeros_like(xs[0])
    for x in xs:
        total = 0.5 * total + x
        sums.append(total)
    return sums


def reductions(xs: list[Any]) -> list[Any]:
    norm = gnp.sqrt(sum(gnp.sum(x * x) for x in xs))
    return [norm, gnp.max(sum(xs)), gnp.mean(sum(xs), axis=0), sum(x.T for x in xs) @ xs[0]]


def in_a_loop(xs: list[Any]) -> Any:
    return lax.fori_loop(0, 3, lambda i, carry: 0.1 * (sum(xs) + carry), gnp.zeros_like(xs[0]))


def sgd(parameters: list[Any], gradients: list[Any]) -> list[Any]:
    return [p - 0.1 * g for p, g in zip(parameters, gradients, strict=True)]


def chosen(xs: list[Any], ys: list[Any]) -> Any:
    """Twenty choices, each of three buffers."""
    triples = zip(xs[:20], xs[20:40], ys, strict=False)
    return sum(gnp.where(a > 0, b, gnp.clip(c, -1, 1)) for a, b, c in triples)


def together(xs: list[Any], ys: list[Any]) -> Any:
    return chosen(xs, ys), sum(xs), reductions(xs), in_a_loop(xs), prefixes(xs), sgd(xs, ys)


def gradient(xs: list[Any], ys: list[Any]) -> Any:
    def loss(values: list[Any]) -> Any:
        products = [v * y for v, y in zip(values, ys, strict=True)]
        return gnp.sum(gnp.tanh(sum(products)) ** 2)

    return gn.grad(loss)(xs)


def pieces(scalars: list[Any], rows: list[Any]) -> Any:
    return gnp.stack(scalars), gnp.concatenate(rows), [rows[0] + i for i in range(40)]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sixty arrays": (together, (arrays(60, 6, 6), arrays(60, 6, 6))),
    "gradient": (gradient, (arrays(60, 7), arrays(60, 7))),
    "a tree of two hundred leaves": (tree, (arrays(200, 5),)),
    "a hundred pieces": (pieces, (arrays(100), arrays(100, 3))),
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("case", CASES)
def test_programs_of_many_buffers_run(case: str) -> None:
    function, arguments = CASES[case]
    compiled = gn.tree_util.tree_leaves(gn.jit(function)(*arguments))
    evaluated = gn.tree_util.tree_leaves(function(*arguments))
    for given, wanted in zip(compiled, evaluated, strict=True):
        assert_near(given, wanted, 32, scale=3.0)  # sums of sixty numbers up to three


def test_gpus_bind_fewer_buffers() -> None:
    """A kernel of PTX has a parameter for each buffer; the drivers of CUDA and HIP allow 16."""
    x, y = (np.ones(7, np.complex64) for _ in range(2))

    def both(x: Any, y: Any, xs: list[Any]) -> Any:
        return x / y, sum(xs)

    lowered = gn.jit(both).lower(x, y, arrays(30, 7))
    kernels = re.findall(rb"\.entry [^{]*\{", lowered.compile(target="cuda:sm_90").serialize())
    assert kernels
    assert max(kernel.count(b".param .u64") for kernel in kernels) <= 16


def barriers(function: Callable[..., Any], *arguments: Any) -> int:
    return str(gn.jit(function).lower(*arguments).as_text("legalized")).count("barrier")


def test_only_wide_expressions_get_barriers() -> None:
    def layers(xs: list[Any]) -> Any:
        state = xs[0]
        for x in xs:
            state = gnp.maximum(state @ x + x[0], 0.0)
        return state

    assert barriers(lambda xs: sum(xs), arrays(MAX_LEAVES, 3)) == 0
    assert barriers(lambda xs: sum(xs), arrays(MAX_LEAVES + 1, 3)) == 1
    assert barriers(lambda xs: sum(xs), arrays(2 * MAX_LEAVES, 3)) == 2
    # The literal zeros are not buffers, and a matrix product ends the fusion.
    assert barriers(lambda x: sum(x + i for i in range(40)), gnp.ones(3)) == 0
    assert barriers(layers, arrays(40, 3, 3)) == 0
