"""Branches that pass one buffer to several arguments of a block: none of them may lose it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax

# What a step makes of each array; the results of its last kernel share a buffer.
STEPS = [
    (gnp.sin, gnp.cumsum, lambda x: x * 2),
    (gnp.sort, lambda x: x.at[0].add(1.0), gnp.sin),
    (lambda x: x + x.sum(), gnp.flip, gnp.cumsum),
    (gnp.sin, gnp.sin, gnp.sin, gnp.sin, lambda x: x * 3),
]


def _check(f: Any, xs: tuple[Any, ...]) -> None:
    with gn.disable_jit():
        expected = f(*xs)
    for found, value in zip(gn.jit(f)(*xs), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kept", ["all", "some", "none"])
@pytest.mark.parametrize("size", [1, 8, 100])
@pytest.mark.parametrize("steps", STEPS)
def test_results_of_a_branch_share_a_buffer(steps: Any, size: int, kept: str) -> None:
    count = len(steps)

    def taken(xs: Any) -> Any:
        def turned(_: Any, xs: Any) -> Any:
            return tuple(step(xs[j - 1]) for j, step in enumerate(steps))

        return lax.fori_loop(0, 2, turned, xs)

    def other(xs: Any) -> Any:
        through = {"all": count, "some": count - 1, "none": 0}[kept]
        return *xs[:through], *(gnp.zeros_like(x) for x in xs[through:])

    def f(*xs: Any) -> Any:
        out = lax.cond(gnp.sum(xs[0]) > 0, taken, other, xs)
        return *out, *(x.reshape(1, -1) for x in out[-2:])

    rng = np.random.default_rng(0)
    xs = tuple(np.abs(rng.standard_normal(size)).astype(np.float32) for _ in range(count))
    _check(f, xs)
    _check(f, tuple(-x for x in xs))


def test_the_gradient_of_nested_loops_that_may_stop() -> None:
    """The solvers of jaxopt have this form: a loop in a loop, each of which a flag ends."""

    def loop(cond: Any, body: Any, init: Any, length: int) -> Any:
        def step(x: Any) -> Any:
            x = body(x)
            return x, cond(x)

        def turn(carry: Any, _: Any) -> Any:
            return lax.cond(carry[1], step, lambda x: (x, False), carry[0]), None

        return lax.scan(turn, (init, cond(init)), None, length=length)[0][0]

    def solve(scale: Any) -> Any:
        def objective(w: Any) -> Any:
            return gnp.sum(w * w) * scale

        def descend(state: Any) -> Any:
            w, size = state
            before = objective(w)
            return loop(
                lambda s: objective(s[0]) > before,
                lambda s: (w - s[1] * scale, s[1] * 0.5),
                (w, size),
                2,
            )

        solver = gn.jit(lambda init: loop(lambda s: s[1] > 1e-4, descend, init, 1))
        return solver((gnp.ones(3), gnp.asarray(1.0)))[0].sum()

    value, slope = gn.value_and_grad(solve)(0.1)
    assert (value, slope) == (3, 0)


def test_a_loop_whose_carry_holds_an_array_twice() -> None:
    def f(x: Any) -> Any:
        def turn(carry: Any) -> Any:
            i, a, b, c = carry
            a = gnp.sort(gnp.sin(a) + b)
            return i + 1, a, a, lax.cond(a.sum() > 0, lambda: a, lambda: c)

        return lax.while_loop(lambda c: gnp.abs(c[1]).max() + c[0] < 5, turn, (0, x, x, x))[1:]

    _check(f, (np.linspace(0, 1, 9, dtype=np.float32),))
