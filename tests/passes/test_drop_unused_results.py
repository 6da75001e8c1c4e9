"""``drop-unused-results``: used results do not change, and unused ones are not computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body
from gnomon.dialects.contract import bodies_of
from gnomon.dialects.emit import constant, ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir
from gnomon.passes.drop_unused_results import drop_unused_results
from tests.dialects.random_programs import TYPES
from tests.dialects.test_control_flow import FLOATS, GIVES, close, draw, program, vjp

S, V, N = TYPES["s"], TYPES["v"], TYPES["i"]


def narrowed(body: Body) -> Program:
    """Apply the pass to a program whose main function has the given body."""
    owner = Program()
    owner.add("main", body, public=True)
    drop_unused_results(owner)
    assert owner.module.operation.verify()
    return owner


def only(owner: Program, name: str) -> ir.Operation:
    (op,) = [op for op in owner.body("main").operations if op.name == name]
    return op


def shapes(owner: Program, name: str) -> list[tuple[int, int]]:
    """The numbers of arguments and results of the bodies of an op."""
    bodies = bodies_of(only(owner, name))
    return [(len(b.arguments), len(b.results)) for b in bodies]


@pytest.mark.parametrize("seed", range(20))
def test_used_results_do_not_change(seed: int) -> None:
    """Keep one result of a random program, then one cotangent of its gradient."""
    plain, body = program(seed, loops=bool(seed % 2))
    rng = np.random.default_rng(seed)
    arguments = draw(rng)
    wanted = int(rng.integers(len(GIVES)))
    types = body.argument_types
    one = Body.build(types, lambda *v: [body.inline(v)[wanted]])
    owner = narrowed(one)
    close(Evaluator(owner)("main", *arguments), [plain(*arguments)[wanted]])
    if seed % 2:
        return
    gradient = vjp(body, FLOATS, [0])
    at = len(GIVES) + int(rng.integers(len(FLOATS)))
    types = gradient.argument_types
    arguments = [*arguments, rng.uniform(-1, 1, 3)]
    plain_owner = Program()
    plain_owner.add("main", gradient.clone(), public=True)
    expected = Evaluator(plain_owner)("main", *arguments)[at]
    owner = narrowed(Body.build(types, lambda *v: [gradient.inline(v)[at]]))
    close(Evaluator(owner)("main", *arguments), [expected], 0)
    assert len(str(owner.module)) <= len(str(plain_owner.module))


def test_scan_loses_carries_inputs_and_stacked_results() -> None:
    def inner(c: Any, unused: Any, a: Any, b: Any, x: Any, y: Any) -> list[Any]:
        return [ops.add(a, ops.mul(c, x)), ops.add(b, y), ops.sin(b), ops.exp(a)]

    def emit(*v: Any) -> list[Any]:
        params = {"consts": 2, "carry": 2, "length": 3, "reverse": False, "unroll": 1}
        out = ops.scan(*v, bodies=[Body.build([S] * 6, inner)], **params)
        return [out[0]]

    owner = narrowed(Body.build([S] * 4 + [V] * 2, emit))
    assert shapes(owner, "gnomon.scan") == [(3, 1)]
    assert "gnomon.sin" not in str(owner.module)
    assert "gnomon.exp" not in str(owner.module)
    xs = np.arange(3.0)
    (got,) = Evaluator(owner)("main", *map(np.asarray, (2.0, 0.0, 1.0, 0.0)), xs, xs)
    assert got == 7.0


def test_while_keeps_what_its_condition_reads() -> None:
    cond = Body.build(
        [S, N, S, S], lambda stop, n, a, b: [ops.lt(ops.convert(n, dtype=S.dtype), stop)]
    )

    def step(c: Any, n: Any, a: Any, b: Any) -> list[Any]:
        return [ops.add(n, constant(np.int32(1))), ops.add(a, c), ops.mul(b, a)]

    def emit(stop: Any, c: Any, n: Any, a: Any, b: Any) -> list[Any]:
        bodies = [cond, Body.build([S, N, S, S], step)]
        out = ops.while_(stop, c, n, a, b, bodies=bodies, cond_consts=1, body_consts=1)
        return [out[1]]

    owner = narrowed(Body.build([S, S, N, S, S], emit))
    assert shapes(owner, "gnomon.while") == [(3, 1), (3, 2)]
    assert "gnomon.mul" not in str(owner.module)
    arguments = [np.asarray(3.0), np.asarray(0.5), np.asarray(0, np.int32), *[np.asarray(1.0)] * 2]
    close(Evaluator(owner)("main", *arguments), [np.asarray(2.5)])


def test_switch_keeps_the_operands_that_some_branch_reads() -> None:
    branches = [
        Body.build([S, S, S], lambda a, b, c: [ops.sin(a), c]),
        Body.build([S, S, S], lambda a, b, c: [ops.neg(b), ops.exp(c)]),
    ]
    owner = narrowed(Body.build([N, S, S, S], lambda *v: [ops.switch(*v, bodies=branches)[0]]))
    assert shapes(owner, "gnomon.switch") == [(2, 1), (2, 1)]
    assert "gnomon.exp" not in str(owner.module)
    one = np.asarray(1.0)
    close(Evaluator(owner)("main", np.asarray(1, np.int32), one, 2 * one, one), [-2 * one])


def test_an_inner_loop_that_needs_less_narrows_the_outer_one() -> None:
    """The second carry feeds the inner loop only, where nothing used depends on it."""
    params = {"consts": 0, "carry": 2, "length": 2, "reverse": False, "unroll": 1}
    inner = Body.build([S, S], lambda a, b: [ops.sin(a), ops.mul(b, b)])

    def outer(a: Any, b: Any) -> list[Any]:
        first, _ = ops.scan(a, b, bodies=[inner], **params)
        return [first, ops.cos(b)]

    def emit(a: Any, b: Any) -> list[Any]:
        return [ops.scan(a, b, bodies=[Body.build([S, S], outer)], **params)[0]]

    owner = narrowed(Body.build([S, S], emit))
    assert shapes(owner, "gnomon.scan") == [(1, 1)]
    assert "gnomon.cos" not in str(owner.module) and "gnomon.mul" not in str(owner.module)
    close(
        Evaluator(owner)("main", np.asarray(1.0), np.asarray(1.0)),
        [np.sin(np.sin(np.sin(np.sin(1.0))))],
    )


def test_unused_ops_are_dropped() -> None:
    params = {"consts": 0, "carry": 1, "length": 2, "reverse": False, "unroll": 1}
    inner = Body.build([S], lambda a: [ops.sin(a)])

    def emit(a: Any) -> list[Any]:
        ops.switch(ops.convert(a, dtype=N.dtype), bodies=[Body.build([], list)])
        ops.scan(a, bodies=[inner], **params)
        return [a]

    owner = narrowed(Body.build([S], emit))
    assert not list(owner.body("main").operations)
