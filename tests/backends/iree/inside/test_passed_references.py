"""Branches that pass a buffer which something else needs too: none may lose it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree.inside import passed_references
from tests.backends.iree.inside.test_in_place_pass import parsed

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


@pytest.mark.sampled(0.16)
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


def test_a_buffer_that_a_branch_passes_is_used_after_it() -> None:
    """The first result shares a buffer with those that one side passes on."""

    def f(x: Any) -> Any:
        def failed(failure: Any, *values: Any) -> Any:
            return gn.pure_callback(lambda _, *values: values, values, failure, *values)

        values = gnp.float32(0), gnp.float32(1), gnp.cumsum(x), gnp.sin(x)
        failure = x[0] < 0
        return gnp.cos(x), *lax.cond(failure, failed, lambda _, *v: v, failure, *values)

    x = np.arange(1, 4, dtype=np.float32)
    _check(f, (x,))
    _check(f, (-x,))


USED = {
    # Nothing needs %a after the branch, which passes it once.
    "once": ("vm.br ^end(%a : !vm.buffer)", "", 0),
    "twice": ("vm.br ^two(%a, %a : !vm.buffer, !vm.buffer)", "", 1),
    "after": ("vm.br ^end(%a : !vm.buffer)", "%u = vm.call @use(%a) : (!vm.buffer) -> i32", 1),
    "twice and after": (
        "vm.br ^two(%a, %a : !vm.buffer, !vm.buffer)",
        "%u = vm.call @use(%a) : (!vm.buffer) -> i32",
        2,
    ),
    # The loop defines it anew.
    "in a loop": ("vm.br ^again(%a : !vm.buffer)", "", 0),
    "in a loop and after": (
        "vm.br ^around(%a : !vm.buffer)",
        "%u = vm.call @use(%a) : (!vm.buffer) -> i32",
        1,
    ),
    # The last iteration passes %x to the end, other iterations read it.
    "in other iterations": (
        "%u = vm.call @use(%x) : (!vm.buffer) -> i32\nvm.br ^again(%a : !vm.buffer)",
        "",
        0,
    ),
    "a number": ("vm.br ^number(%n : i32)", "%u = vm.call @number(%n) : (i32) -> i32", 0),
}
CODE = """
vm.module @m {{
  vm.import private @make(%n: i32) -> !vm.buffer
  vm.import private @use(%a: !vm.buffer) -> i32
  vm.import private @number(%n: i32) -> i32
  vm.func private @f(%n: i32, %b: !vm.buffer) -> !vm.buffer {{
    vm.br ^again(%b : !vm.buffer)
  ^again(%x: !vm.buffer):
    %a = vm.call @make(%n) : (i32) -> !vm.buffer
    vm.cond_br %n, ^here, ^end(%x : !vm.buffer)
  ^here:
    {branch}
  ^around(%y: !vm.buffer):
    vm.cond_br %n, ^here, ^end(%y : !vm.buffer)
  ^number(%i: i32):
    vm.fail %i, "none"
  ^two(%p: !vm.buffer, %q: !vm.buffer):
    vm.br ^end(%p : !vm.buffer)
  ^end(%result: !vm.buffer):
    {after}
    vm.return %result : !vm.buffer
  }}
}}
"""


@pytest.mark.parametrize("name", USED)
def test_references_that_are_copied(name: str) -> None:
    branch, after, count = USED[name]
    with parsed(CODE.format(branch=branch, after=after)) as (ir, module, _):
        before = sum(ir.name(op) == "vm.select.ref" for op in ir.nested(module))
        passed_references.copy_passed(ir, module)
        copies = sum(ir.name(op) == "vm.select.ref" for op in ir.nested(module))
        assert copies - before == count
