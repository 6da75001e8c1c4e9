"""``split-scans``: the same values from fewer contractions inside of loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body
from gnomon.dialects.contract import bodies_of, lookup
from gnomon.dialects.functions import Program
from gnomon.dialects.types import bfloat16
from gnomon.passes import split_scans as room
from gnomon.passes.pipeline import EXPAND, run_passes
from tests.frontend.staged import trace
from tests.tolerance import assert_near

RNG = np.random.default_rng(0)
STEPS, BATCH, WIDE = 5, 3, 4

W, R = RNG.standard_normal((2, WIDE, WIDE), dtype=np.float32)
H = RNG.standard_normal((BATCH, WIDE), dtype=np.float32)
XS = RNG.standard_normal((STEPS, BATCH, WIDE), dtype=np.float32)
MATRICES = RNG.standard_normal((STEPS, WIDE, WIDE), dtype=np.float32)


def flat(tree: Any) -> Any:
    return gnp.concatenate(
        [gnp.ravel(x).astype(np.float32) for x in gn.tree_util.tree_leaves(tree)]
    )


def recurrent(reverse: bool) -> Callable[..., Any]:
    def f(w: Any, r: Any, h: Any, xs: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = gnp.tanh(x @ w + h @ r)
            return h, (h @ w, h)

        return lax.scan(cell, h, xs, reverse=reverse)

    return f


def loss(*arguments: Any) -> Any:
    h, (ys, hs) = recurrent(False)(*arguments)
    return gnp.sum(h) + gnp.sum(ys * ys) + gnp.sum(hs)


def twice(r: Any, h: Any) -> Any:
    """Each step uses a weight twice, so its cotangent is a sum."""

    def step(i: Any, h: Any) -> Any:
        return h + 0.1 * gnp.tanh(gnp.tanh(h @ r) @ r.T)

    return gnp.sum(lax.fori_loop(0, STEPS, step, h) ** 2)


def sums(h: Any, xs: Any, matrices: Any) -> Any:
    """Only sums, of several kinds; no op must stay in sequence."""

    def step(sums: Any, slices: Any) -> Any:
        x, m = slices
        a, b, c, d = sums
        product = x @ m
        return (a + product, -(x.T @ h).T + b, c + gnp.sum(product), d + 2), None

    zero = gnp.zeros_like(h)
    start = zero, gnp.zeros((h.shape[1], WIDE)), gnp.zeros(()), 1
    return lax.scan(step, start, (xs, matrices))


def kept(h: Any, xs: Any) -> Any:
    """Sums that another op reads, or that contain no contraction."""

    def step(carry: Any, x: Any) -> Any:
        a, b = carry
        return (a + x @ h.T, b + a[:, :1] * x), gnp.sum(a)

    return lax.scan(step, (gnp.zeros((BATCH, BATCH)), gnp.zeros_like(h)), xs)


def nested(r: Any, h: Any, xs: Any) -> Any:
    def outer(h: Any, x: Any) -> Any:
        h, ys = lax.scan(lambda h, row: (gnp.tanh(h @ r), row @ r), h, x)
        return h, ys

    h, ys = lax.scan(outer, h, xs)
    return gnp.sum(h) + gnp.sum(ys)


def narrow(h: Any, xs: Any) -> Any:
    def step(total: Any, x: Any) -> Any:
        x = x.astype(bfloat16)
        dot = lax.dot_general(x, h.astype(bfloat16), (((1,), (1,)), ((), ())))
        return total + dot, None

    return lax.scan(step, gnp.zeros((BATCH, BATCH), bfloat16), xs)[0]


def chosen_in_order(h: Any, xs: Any) -> Any:
    """The operands of an op with regions stay in the loop."""

    def step(h: Any, x: Any) -> Any:
        y = h @ x.T
        y = lax.cond(gnp.sum(h) > 0, lambda: y, lambda: -y)
        return gnp.sin(h), y

    return lax.scan(step, h, xs)


def contractions(body: Body, inside: bool = False) -> int:
    """The number of contractions in loops."""
    count = 0
    for op in body.operations:
        count += inside and op.name == "gnomon.dot_general"
        if lookup(op).is_control_flow:
            count += sum(contractions(b, inside or op.name == "gnomon.scan") for b in bodies_of(op))
    return count


def both(function: Callable[..., Any], *arguments: Any) -> tuple[np.ndarray, np.ndarray, int, int]:
    """The values of a function and the contractions in its loops, before and after."""
    traced = trace(lambda *given: flat(function(*given)), *arguments)
    module = traced.program.module
    public = Program(module)
    public.add("main", traced.body, public=True)
    found: list[Any] = []
    run_passes(module, EXPAND)
    for passes in ((), ("hoist-invariants", "split-scans", "drop-unused-results", "cse")):
        run_passes(module, passes)
        assert module.operation.verify()
        body = public.body("main")
        given = [*map(np.asarray, arguments), *(c.numpy_value() for c in traced.captures)]
        (value,) = Evaluator(public).prepare(body)(*given)
        found += [value, contractions(body)]
    before, n, after, m = found
    return before, after, n, m


GRADIENT = gn.grad(loss, (0, 1, 2, 3))

# A function, its arguments, and the contractions in its loops before and after.
CASES: dict[str, tuple[Callable[..., Any], list[Any], int, int]] = {
    "forward": (recurrent(False), [W, R, H, XS], 3, 1),
    "reverse": (recurrent(True), [W, R, H, XS], 3, 1),
    "gradient": (GRADIENT, [W, R, H, XS], 9, 2),
    "gradient_vmap": (
        gn.vmap(GRADIENT, (None, 0, None, 0)),
        [W, MATRICES, H, XS[None].repeat(STEPS, 0)],
        9,
        2,
    ),
    "second_order": (
        gn.grad(lambda *a: sum(gnp.sum(gnp.sin(g)) for g in GRADIENT(*a)), (0, 1)),
        [W, R, H, XS],
        -1,
        -1,
    ),
    "twice": (gn.grad(twice, (0, 1)), [R, H], 6, 4),
    "sums": (sums, [H, XS, MATRICES], 2, 0),
    "kept": (kept, [H, XS], 1, 0),
    "nested": (gn.grad(nested, (0, 1)), [R, H, XS[:, :, None]], 4, 2),
    "narrow": (narrow, [H, XS], 1, 0),
    "chosen_in_order": (chosen_in_order, [H, XS], 1, 1),
    "one_step": (recurrent(False), [W, R, H, XS[:1]], 3, 3),
}


@pytest.mark.parametrize("name", CASES)
def test_values_stay_and_contractions_go(name: str) -> None:
    function, arguments, inside, left = CASES[name]
    before, after, n, m = both(function, *arguments)
    # Sums over iterations and widths have another order.
    assert_near(after, before, 64)
    if inside < 0:
        assert m < n
    else:
        assert (n, m) == (inside, left)


@pytest.mark.parametrize("limit", ["MAX_FLOPS", "MAX_STACKED"])
def test_large_values_stay_in_the_loop(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(room, limit, 8)
    *_, left = both(GRADIENT, W, R, H, XS)
    assert left > 2
