"""Control flow: cases that random programs do not reach."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from gnomon.dialects.body import Body
from gnomon.dialects.contract import TypeRuleError
from gnomon.dialects.control_flow import ReverseModeWhileError
from gnomon.dialects.emit import constant, ops, zeros
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType, bfloat16
from gnomon.passes.differentiate import Differentiator
from gnomon.passes.expand_scan import expand_scan
from gnomon.passes.hoist_invariants import hoist_invariants
from gnomon.passes.pipeline import LOWER, run_passes
from tests.dialects.test_control_flow import close, interpret, jvp, run, vjp, vmap
from tests.tolerance import assert_each_near, units_of_differences

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
S, V = TensorType((), F64), TensorType((3,), F64)
N = TensorType((), np.dtype(np.int32))


def i32(value: int) -> np.ndarray:
    return np.asarray(value, np.int32)


def scan_of(
    inner: Body, consts: int, carry: int, length: int, reverse: bool = False, unroll: int = 1
) -> Body:
    """A body that consists of one scan."""
    types = inner.argument_types
    stacked = [t.with_shape((length, *t.shape)) for t in types[consts + carry :]]
    params = {"consts": consts, "carry": carry, "length": length}
    return Body.build(
        [*types[: consts + carry], *stacked],
        lambda *v: ops.scan(*v, bodies=[inner], reverse=reverse, unroll=unroll, **params),
    )


def while_of(cond: Body, inner: Body, cond_consts: int = 0, body_consts: int = 0) -> Body:
    """A body that consists of one while loop; arguments are constants of both, then carries."""
    types = [*cond.argument_types[:cond_consts], *inner.argument_types]
    counts = {"cond_consts": cond_consts, "body_consts": body_consts}
    return Body.build(types, lambda *v: ops.while_(*v, bodies=[cond, inner], **counts))


def lowered(main: Body, *arguments: Any) -> list[np.ndarray]:
    """Lower a body and run it with the StableHLO interpreter."""
    owner = Program()
    owner.add("main", main, public=True)
    run_passes(owner.module, LOWER)
    assert owner.module.operation.verify()
    return interpret(owner.module, list(map(np.asarray, arguments)))


# ------------------------------------------------------------------------------------- type errors


def test_scan_names_the_carry_that_changes_its_type() -> None:
    inner = Body.build([S, V], lambda a, b: [a, ops.convert(b, dtype=F32)])
    message = r"carry 1 enters the body as f64\[3\] and leaves it as f32\[3\]"
    with pytest.raises(TypeRuleError, match=message):
        scan_of(inner, 0, 2, 4)


def test_scan_names_missing_carries_lengths_and_arguments() -> None:
    with pytest.raises(TypeRuleError, match=r"must return the 2 carries .* it returns \(f64\[\]\)"):
        scan_of(Body.build([S, S], lambda a, b: [a]), 0, 2, 4)
    identity = Body.build([S], lambda x: [x])
    params = {"consts": 0, "carry": 0, "reverse": False, "unroll": 1}
    with pytest.raises(TypeRuleError, match=r"input 0 must have leading dimension 4, got f64\[3\]"):
        Body.build([V], lambda x: ops.scan(x, bodies=[identity], length=4, **params))
    with pytest.raises(TypeRuleError, match=r"leading dimension 4, got f64\[\]"):
        Body.build([S], lambda x: ops.scan(x, bodies=[identity], length=4, **params))
    with pytest.raises(TypeRuleError, match=r"the body takes \(f64\[\]\).*\(i32\[\]\)"):
        stacked = TensorType((4,), np.dtype(np.int32))
        Body.build([stacked], lambda x: ops.scan(x, bodies=[identity], length=4, **params))
    with pytest.raises(TypeRuleError, match="the length must be in"):
        scan_of(Body.build([S], lambda x: [x]), 0, 1, -1)
    with pytest.raises(TypeRuleError, match="unroll must be at least 1"):
        scan_of(Body.build([S], lambda x: [x]), 0, 1, 2, unroll=0)


def test_errors_of_while() -> None:
    true = Body.build([S], lambda x: [constant(np.asarray(True))])
    with pytest.raises(TypeRuleError, match=r"carry 0 enters the body as f64\[\] and leaves it as"):
        while_of(true, Body.build([S], lambda x: [ops.convert(x, dtype=F32)]))
    with pytest.raises(
        TypeRuleError, match=r"condition must return one bool\[\], but it returns \(f64"
    ):
        while_of(Body.build([S], lambda x: [x]), Body.build([S], lambda x: [x]))
    with pytest.raises(TypeRuleError, match="must return the 1 carries"):
        while_of(true, Body.build([S], lambda x: [x, x]))
    with pytest.raises(TypeRuleError, match=r"the condition takes \(f64\[\]\), but the op passes"):
        while_of(true, Body.build([S, V], lambda x, y: [x, y]))


def test_switch_names_the_branch_and_the_result() -> None:
    first = Body.build([S, V], lambda x, y: [x, y])
    second = Body.build([S, V], lambda x, y: [x, ops.convert(y, dtype=F32)])
    build = [N, S, V]
    with pytest.raises(TypeRuleError, match=r"result 1 is f64\[3\] in branch 0 and f32\[3\] in br"):
        Body.build(build, lambda *v: ops.switch(*v, bodies=[first, second]))
    with pytest.raises(TypeRuleError, match=r"the index must be i32\[\], got f64\[\]"):
        Body.build([S, S, V], lambda *v: ops.switch(*v, bodies=[first]))
    with pytest.raises(TypeRuleError, match="at least one branch"):
        Body.build(build, lambda *v: ops.switch(*v, bodies=[]))
    with pytest.raises(
        TypeRuleError, match=r"branch 0 takes \(f64\[\], f64\[3\]\), but the op pass"
    ):
        Body.build([N, S], lambda *v: ops.switch(*v, bodies=[first]))


# ------------------------------------------------------------------------------------------ switch


def _three_way() -> Body:
    branches = [
        Body.build([S], lambda x, k=k: [ops.mul(x, constant(np.asarray(float(k))))])
        for k in (2, 3, 5)
    ]
    return Body.build([N, S], lambda i, x: ops.switch(i, x, bodies=branches))


@pytest.mark.parametrize("index", [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1])
def test_switch_clamps_its_index_everywhere(index: int) -> None:
    expected = [np.asarray((2.0, 3.0, 5.0)[min(max(index, 0), 2)])]
    close(run(_three_way(), i32(index), 1.0), expected)
    close(lowered(_three_way(), i32(index), 1.0), expected)
    batched = run(vmap(_three_way(), [True, False], 2), np.array([index, 1], np.int32), 1.0)
    close(batched, [np.array([expected[0], 3.0])])


def test_passes_keep_the_branches_of_a_switch() -> None:
    owner = Program()
    owner.add("main", _three_way(), public=True)
    run_passes(owner.module, ("canonicalize", "cse", "canonicalize"))
    assert str(owner.module).count("gnomon.branch") == 3
    assert owner.module.operation.verify()


def test_branches_share_slots_for_residuals() -> None:
    """Residuals of equal type share a result of the forward switch; operands are not returned."""
    branches = [
        Body.build([V], lambda x: [ops.sin(ops.exp(x))]),
        Body.build([V], lambda x: [ops.cos(ops.sin(x))]),
        Body.build([V], lambda x: [ops.mul(x, x)]),
    ]
    main = Body.build([N, V], lambda i, x: ops.switch(i, x, bodies=branches))
    parts = Differentiator(Program()).linearize(main, [False, True])
    # The index, x, and two slots for the residuals of the first and of the second branch.
    assert [t.shape for t in parts.residual_types] == [(), (3,), (3,), (3,)]
    for index in range(3):
        x = np.array([0.3, 0.5, 0.7])
        exact = [np.cos(np.exp(x)) * np.exp(x), -np.sin(np.sin(x)) * np.cos(x), 2 * x][index]
        close(run(vjp(main, [1], [0]), i32(index), x, np.ones(3))[1:], [exact])


def test_elements_that_do_not_run_a_branch_get_no_nan() -> None:
    """The infinite derivative of a square root at zero does not reach other elements."""
    branches = [Body.build([S], lambda x: [x]), Body.build([S], lambda x: [ops.sqrt(x)])]
    main = Body.build([N, S], lambda i, x: ops.switch(i, x, bodies=branches))
    index, x = np.array([0, 1], np.int32), np.array([0.0, 4.0])
    for derived in (
        vjp(vmap(main, [True, True], 2), [1], [0]),
        vmap(vjp(main, [1], [0]), [True] * 3, 2),
    ):
        close(run(derived, index, x, np.ones(2)), [np.array([0.0, 2.0]), np.array([1.0, 0.25])])


def test_batched_choice_between_branches_that_differ_in_mappedness() -> None:
    branches = [
        Body.build([S, S], lambda x, y: [x, y]),
        Body.build([S, S], lambda x, y: [y, y]),
    ]
    main = Body.build([N, S, S], lambda i, x, y: ops.switch(i, x, y, bodies=branches))
    x = np.array([1.0, 2.0])
    for index in (0, 1):
        got = run(vmap(main, [False, True, False], 2), i32(index), x, 7.0)
        close(got, [x if index == 0 else np.array([7.0, 7.0]), np.array([7.0, 7.0])])


# ------------------------------------------------------------------------------------------- while


def _remainder() -> Body:
    """``a mod b`` by subtraction, which does not terminate for ``b == 0``."""
    cond = Body.build([N, N], lambda b, a: [ops.ge(a, b)])
    step = Body.build([N, N], lambda b, a: [ops.sub(a, b)])
    counts = {"cond_consts": 1, "body_consts": 1}
    return Body.build([N, N], lambda a, b: ops.while_(b, b, a, bodies=[cond, step], **counts))


def test_batched_loops_terminate_although_an_inner_loop_would_not() -> None:
    """Euclid's algorithm: finished elements must not run the inner loop on zero."""

    def unfinished(a: Any, b: Any) -> list[Any]:
        return [ops.gt(b, constant(i32(0)))]

    inner = _remainder()
    step = Body.build([N, N], lambda a, b: [b, *inner.inline([a, b])])
    gcd = while_of(Body.build([N, N], unfinished), step)
    a, b = np.array([12, 35, 7, 0], np.int32), np.array([18, 14, 0, 5], np.int32)
    got = run(vmap(gcd, [True, True], 4), a, b)
    close(got, [np.gcd(a, b), np.zeros(4, np.int32)])


def test_batched_switch_ends_although_a_branch_would_not() -> None:
    same, inner = Body.build([N, N], lambda a, b: [a]), _remainder()
    main = Body.build([N, N, N], lambda i, a, b: ops.switch(i, a, b, bodies=[same, inner]))
    index, a = np.array([0, 1, 0], np.int32), np.array([9, 9, 8], np.int32)
    b = np.array([0, 4, 0], np.int32)
    mapped = vmap(main, [True] * 3, 3)
    close(run(mapped, index, a, b), [np.array([9, 1, 8], np.int32)])
    close(run(mapped, 0 * index, a, 0 * b), [a])


def test_batched_predicate_keeps_carries_that_nothing_changes() -> None:
    """A carry that passes through unchanged is not batched."""
    cond = Body.build([S, V, N], lambda x, v, n: [ops.lt(x, constant(np.asarray(3.0)))])
    step = Body.build(
        [S, V, N],
        lambda x, v, n: [ops.add(x, ops.reduce_sum(v, axes=(0,))), v, ops.add(n, n)],
    )
    batched = vmap(while_of(cond, step), [True, False, False], 2)
    (loop,) = [op for op in batched.operations if op.name == "gnomon.while"]
    assert [str(t) for t in Body(loop.regions[1].blocks[0]).result_types] == [
        "f64[2]",
        "f64[3]",
        "i32[2]",
    ]
    x, v = np.array([0.0, 2.5]), np.array([0.25, 0.5, 0.25])
    expected = [np.array([3.0, 3.5]), np.stack([v, v]), np.array([8, 2], np.int32)]
    close(run(batched, x, v, i32(1)), expected)


def test_unbatched_predicate_keeps_the_loop_unbatched() -> None:
    cond = Body.build([N, S], lambda n, x: [ops.lt(n, constant(i32(3)))])
    step = Body.build([N, S], lambda n, x: [ops.add(n, constant(i32(1))), ops.add(x, x)])
    batched = vmap(while_of(cond, step), [False, True], 2)
    assert "gnomon.select" not in str(batched.block)
    close(run(batched, i32(0), np.array([1.0, 2.0])), [i32(3).repeat(2), np.array([8.0, 16.0])])


def test_loop_that_never_runs_keeps_its_start() -> None:
    false = Body.build([S], lambda x: [constant(np.asarray(False))])
    main = while_of(false, Body.build([S], lambda x: [ops.exp(x)]))
    close(run(main, 3.0), [np.asarray(3.0)])
    close(run(jvp(main, [0]), 3.0, 2.0), [np.asarray(3.0), np.asarray(2.0)])
    close(run(vmap(main, [True], 2), np.array([1.0, 2.0])), [np.array([1.0, 2.0])])


def _doubling() -> Body:
    cond = Body.build([S], lambda x: [ops.lt(x, constant(np.asarray(10.0)))])
    return while_of(cond, Body.build([S], lambda x: [ops.mul(x, x)]))


def test_reverse_mode_of_while_says_what_to_use() -> None:
    with pytest.raises(ReverseModeWhileError, match=r"scan.*fori_loop.*forward mode"):
        vjp(_doubling(), [0], [0])
    assert issubclass(ReverseModeWhileError, ValueError)


def test_forward_mode_of_while_also_where_it_is_linearized() -> None:
    x = 2.0
    close(run(jvp(_doubling(), [0]), x, 1.0), [np.asarray(16.0), np.asarray(32.0)])
    parts = Differentiator(Program()).linearize(_doubling(), [True])
    values = run(parts.forward, x)
    close(values[:1], [np.asarray(16.0)])
    close(run(parts.linear, *values[1:], 0.5), [np.asarray(16.0)])


def test_reverse_mode_passes_a_while_without_tangents() -> None:
    count = while_of(
        Body.build([N], lambda n: [ops.lt(n, constant(i32(5)))]),
        Body.build([N], lambda n: [ops.add(n, constant(i32(2)))]),
    )
    main = Body.build(
        [S, N], lambda x, n: [ops.mul(x, ops.convert(count.inline([n])[0], dtype=F64))]
    )
    got = run(vjp(main, [0], [0]), 2.0, i32(0), 1.0)
    close(got, [np.asarray(12.0), np.asarray(6.0)])


# -------------------------------------------------------------------------------------------- scan


def _cumulative() -> Body:
    """Carry ``h -> sin(w h) + x``, and stack its square."""

    def emit(w: Any, h: Any, x: Any) -> list[Any]:
        new = ops.add(ops.sin(ops.mul(w, h)), x)
        return [new, ops.mul(new, new)]

    return Body.build([V, V, V], emit)


def _plain_cumulative(w: Any, h: Any, xs: Any, reverse: bool) -> list[np.ndarray]:
    ys = np.empty_like(xs)
    for i in reversed(range(len(xs))) if reverse else range(len(xs)):
        h = np.sin(w * h) + xs[i]
        ys[i] = h * h
    return [h, ys]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 5, 7])
@pytest.mark.parametrize("unroll", [1, 2, 3, 7, 20])
def test_scan_expands_correctly_for_every_length_and_unroll(
    length: int, unroll: int, reverse: bool
) -> None:
    rng = np.random.default_rng(length)
    w, h, xs = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(length, 3))
    expected = _plain_cumulative(w, h, xs, reverse)
    main = scan_of(_cumulative(), 1, 1, length, reverse, unroll)
    close(run(main, w, h, xs), expected)
    owner = Program()
    owner.add("main", main, public=True)
    expand_scan(owner)
    looped = min(unroll, length) < length
    assert ("gnomon.while" in str(owner.module)) == looped
    close(run(owner.body("main"), w, h, xs), expected)
    if length != 2:  # the interpreter is slow
        close(lowered(owner.body("main").clone(), w, h, xs), expected)


def test_scan_of_length_zero_in_every_transformation() -> None:
    main = scan_of(_cumulative(), 1, 1, 0)
    w, h, xs, ys = np.ones(3), np.arange(3.0), np.zeros((0, 3)), np.zeros((0, 3))
    close(run(main, w, h, xs), [h, ys])
    close(run(jvp(main, [0, 1, 2]), w, h, xs, w, 2 * h, xs), [h, ys, 2 * h, ys])
    close(run(vjp(main, [0, 1, 2], [0, 1]), w, h, xs, w, ys), [h, ys, 0 * w, w, xs])
    batched = vmap(main, [False, True, False], 2)
    close(run(batched, w, np.stack([h, h]), xs), [np.stack([h, h]), np.zeros((2, 0, 3))])
    second = jvp(vjp(main, [0, 1, 2], [0, 1]), [0, 1, 3])
    assert all(np.isfinite(v).all() for v in run(second, w, h, xs, w, ys, w, w, w))


def test_constants_of_the_loop_are_not_stacked() -> None:
    """Neither a constant matrix of a product nor a value computed from it is a stacked residual."""
    matrix = TensorType((3, 3), F64)

    def emit(w: Any, h: Any, x: Any) -> list[Any]:
        product = ops.reduce_sum(ops.mul(ops.exp(w), _rows(h)), axes=(1,))
        return [ops.add(ops.sin(product), x), x]

    main = scan_of(Body.build([matrix, V, V], emit), 1, 1, 5)
    hoist_invariants(main)
    (loop,) = [op for op in main.operations if op.name == "gnomon.scan"]
    assert "gnomon.exp" not in str(loop)
    gradient = vjp(main, [0, 1, 2], [0, 1])
    assert "5x3x3" not in str(gradient.block)
    rng = np.random.default_rng(0)
    w, h, xs = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=(5, 3))
    direction = rng.normal(size=(3, 3))
    got = run(gradient, w, h, xs, np.ones(3), np.ones((5, 3)))

    def value(w: np.ndarray) -> float:
        state = h
        for x in xs:
            state = np.sin(np.exp(w) @ state) + x
        return float(state.sum())

    step = 1e-6
    slope = (value(w + step * direction) - value(w - step * direction)) / (2 * step)
    assert_each_near(np.vdot(got[2], direction), slope, 512 * units_of_differences(step))


def _rows(x: Any) -> Any:
    return ops.broadcast_in_dim(x, shape=(3, 3), dims=(1,))


def test_residuals_that_depend_on_constants_only_are_not_stacked() -> None:
    """A partial derivative that depends on constants only, which no earlier pass could hoist."""
    inner = Body.build([V, V], lambda w, h: [ops.div(h, ops.sin(w))])
    main = scan_of(inner, 1, 1, 4)
    hoist_invariants(main)
    parts = Differentiator(Program()).linearize(main, [False, True])
    assert [t.shape for t in parts.residual_types] == [(3,)]
    w = np.array([0.5, 1.0, 2.0])
    close(run(vjp(main, [1], [0]), w, w, np.ones(3))[1:], [np.sin(w) ** -4.0])


def test_inputs_and_results_serve_as_residuals() -> None:
    """A residual that is an input or already stacked is not stacked again."""

    def emit(h: Any, x: Any) -> list[Any]:
        y = ops.exp(x)  # its derivative is itself
        return [ops.add(h, ops.mul(y, x)), y]

    main = scan_of(Body.build([V, V], emit), 0, 1, 4)
    parts = Differentiator(Program()).linearize(main, [True, True])
    (loop,) = [op for op in parts.forward.operations if op.name == "gnomon.scan"]
    assert len(Body(loop.regions[0].blocks[0]).results) == 2
    xs = np.random.default_rng(1).normal(size=(4, 3))
    got = run(vjp(main, [1], [0]), np.zeros(3), xs, np.ones(3))
    close(got[2:], [np.exp(xs) * (1 + xs)])


def test_linear_scans_with_a_counter_transpose() -> None:
    """A linear scan may have a nonlinear carry, here the counter that scales each step."""

    def emit(n: Any, h: Any, x: Any) -> list[Any]:
        factor = ops.broadcast_in_dim(ops.convert(n, dtype=F64), shape=(3,), dims=())
        new = ops.add(ops.mul(h, factor), x)
        return [ops.add(n, constant(i32(1))), new, ops.mul(new, factor)]

    main = scan_of(Body.build([N, V, V], emit), 0, 2, 4)
    transposed = Differentiator(Program()).transpose(main, [False, True, True], [False, True, True])
    rng = np.random.default_rng(2)
    h, xs = rng.normal(size=3), rng.normal(size=(4, 3))
    ct_h, ct_ys = rng.normal(size=3), rng.normal(size=(4, 3))
    _, out_h, ys = run(main, i32(1), h, xs)
    back_h, back_xs = run(transposed, i32(1), ct_h, ct_ys)
    left = np.vdot(out_h, ct_h) + np.vdot(ys, ct_ys)
    assert_each_near(left, np.vdot(h, back_h) + np.vdot(xs, back_xs), 64)


def test_tangents_that_start_from_zero() -> None:
    """Only the inputs have tangents; the carry gets one in the loop."""
    main = scan_of(_cumulative(), 1, 1, 4)
    rng = np.random.default_rng(3)
    w, h, xs = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(4, 3))
    direction = rng.normal(size=(4, 3))
    tangent = run(jvp(main, [2]), w, h, xs, direction)[2]
    cotangent = run(vjp(main, [2], [0]), w, h, xs, np.ones(3))[2]
    step = 1e-6
    ends = [_plain_cumulative(w, h, xs + s * step * direction, False)[0] for s in (1, -1)]
    # Each of the four steps rounds the value.
    close([tangent], [(ends[0] - ends[1]) / (2 * step)], 4 * units_of_differences(step))
    assert_each_near(tangent.sum(), np.vdot(cotangent, direction), 64)


def test_linear_program_with_a_literal_zero_start_transposes() -> None:
    """A sum over inputs by a scan that starts from a literal: linear in the inputs alone."""
    inner = Body.build([V, V], lambda total, x: [ops.add(total, x)])

    def emit(xs: Any) -> list[Any]:
        params = {"consts": 0, "carry": 1, "length": 4, "reverse": False, "unroll": 1}
        return list(ops.scan(zeros(V), xs, bodies=[inner], **params))

    main = Body.build([V.with_shape((4, 3))], emit)
    transposed = Differentiator(Program()).transpose(main, [True], [True])
    ct = np.arange(3.0)
    close(run(transposed, ct), [np.tile(ct, (4, 1))])


def test_scan_of_scans_in_low_precision_keeps_its_dtype() -> None:
    half = TensorType((2,), bfloat16)
    inner = Body.build([half, half], lambda h, x: [ops.mul(h, x), ops.add(h, x)])
    main = scan_of(inner, 0, 1, 3)
    xs = np.full((3, 2), 1.5, bfloat16)
    h, ys = run(main, np.ones(2, bfloat16), xs)
    assert h.dtype == ys.dtype == bfloat16
    got = run(vjp(main, [0, 1], [0, 1]), np.ones(2, bfloat16), xs, h, ys)
    assert [g.dtype for g in got] == [bfloat16] * 4


def test_batch_dimension_of_stacked_values_comes_second() -> None:
    main = scan_of(_cumulative(), 1, 1, 4)
    rng = np.random.default_rng(4)
    w, h, xs = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(2, 4, 3))
    batched = vmap(main, [False, False, True], 2)
    (loop,) = [op for op in batched.operations if op.name == "gnomon.scan"]
    assert re.search(r"tensor<4x2x3xf64>", str(loop.operands[0].type))
    each = [_plain_cumulative(w, h, x, False) for x in xs]
    close(run(batched, w, h, xs), [np.stack([e[i] for e in each]) for i in (0, 1)])


@pytest.mark.parametrize("size", [0, 1])
def test_mapped_axis_of_size_zero_and_one(size: int) -> None:
    cases = [
        (scan_of(_cumulative(), 1, 1, 4), [(3,), (3,), (4, 3)]),
        (_doubling(), [()]),
    ]
    for main, shapes in cases:
        arguments = [np.full((size, *s), 0.5) for s in shapes]
        if main.argument_types == [S]:
            arguments = [a * 4 for a in arguments]
        got = run(vmap(main, [True] * len(shapes), size), *arguments)
        assert [g.shape for g in got] == [(size, *t.shape) for t in main.result_types]
    index = np.ones(size, np.int32)
    got = run(vmap(_three_way(), [True, True], size), index, np.ones(size))
    close(got, [np.full(size, 3.0)])


# ---------------------------------------------------------------------------------------- hoisting


def test_hoisting_makes_carries_that_pass_through_constants() -> None:
    cond = Body.build([N, V, V], lambda n, v, h: [ops.lt(n, constant(i32(3)))])
    step = Body.build(
        [N, V, V],
        lambda n, v, h: [ops.add(n, constant(i32(1))), v, ops.add(h, ops.exp(v))],
    )
    main = while_of(cond, step)
    hoist_invariants(main)
    (loop,) = [op for op in main.operations if op.name == "gnomon.while"]
    assert len(Body(loop.regions[1].blocks[0]).results) == 2
    assert "gnomon.exp" not in str(loop)
    v = np.arange(3.0)
    close(run(main, i32(0), v, 0 * v), [i32(3), v, 3 * np.exp(v)])
    before = str(main.block)
    hoist_invariants(main)
    assert str(main.block) == before


def test_hoisting_leaves_nonterminating_ops_in_a_loop_that_may_not_run() -> None:
    """The remainder by zero is in the loop's body, and the loop runs zero times."""
    inner = _remainder()
    cond = Body.build([N], lambda n: [ops.lt(n, constant(i32(0)))])
    step = Body.build([N, N, N], lambda a, b, n: inner.inline([a, b]))

    def emit(a: Any, b: Any, n: Any) -> list[Any]:
        return list(ops.while_(a, b, n, bodies=[cond, step], cond_consts=0, body_consts=2))

    main = Body.build([N, N, N], emit)
    hoist_invariants(main)
    close(run(main, i32(7), i32(0), i32(1)), [i32(1)])

    empty = scan_of(Body.build([N, N, N], lambda a, b, n: inner.inline([a, b])), 2, 1, 0)
    hoist_invariants(empty)
    close(run(empty, i32(7), i32(0), i32(1)), [i32(1)])


def test_hoisting_reaches_nested_loops() -> None:
    """A value that depends on constants of both loops is hoisted out of both."""
    inner = Body.build([V, V], lambda w, h: [ops.mul(h, ops.sin(w))])
    params = {"consts": 1, "carry": 1, "length": 2, "reverse": False, "unroll": 1}
    outer = Body.build([V, V], lambda w, h: list(ops.scan(w, h, bodies=[inner], **params)))
    main = scan_of(outer, 1, 1, 3)
    hoist_invariants(main)
    (loop,) = [op for op in main.operations if op.name == "gnomon.scan"]
    assert "gnomon.sin" not in str(loop)
    w = np.array([0.5, 1.0, 2.0])
    close(run(main, w, np.ones(3)), [np.sin(w) ** 6])
