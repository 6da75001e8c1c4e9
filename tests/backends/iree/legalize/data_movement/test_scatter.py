"""Gather, the scatters and slice updates, compiled by IREE and compared with the evaluator.

Compilations take long, so many cases make one program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.control_flow import while_
from gnomon.dialects.emit import constant, full_like, ops, reshape
from gnomon.dialects.functions import Program
from gnomon.dialects.indexing.windows import Dimensions
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, type_of
from tests.ops.test_indexing_random import OPS, Case, _is_unique, draw
from tests.tolerance import units_off

BACKEND = iree_backend("cpu")

I32 = np.dtype(np.int32)
F32 = np.dtype(np.float32)
Emit = Callable[..., ir.Value]
ROW = Dimensions((), (0,), (0,), (), ())
FLAGS = {"unique_indices": False, "indices_are_sorted": False}


def differences(
    emits: Sequence[Emit], arguments: Sequence[Sequence[np.ndarray]], units: float = 0.0
) -> list[int]:
    """The functions, compiled as one program, that differ from the evaluator."""

    def build() -> Program:
        program = Program()
        types = [TensorType(a.shape, a.dtype) for args in arguments for a in args]

        def emit(*values: ir.Value) -> list[ir.Value]:
            given = iter(values)
            return [
                emit_one(*(next(given) for _ in args))
                for emit_one, args in zip(emits, arguments, strict=True)
            ]

        program.add("main", Body.build(types, emit), public=True)
        return program

    flat = [np.ascontiguousarray(a).reshape(a.shape) for args in arguments for a in args]
    expected = Evaluator(build())("main", *flat)
    actual = [buffer.to_numpy() for buffer in BACKEND.compile(BACKEND.lower(build()))(flat)]
    wrong = []
    for n, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        if units_off(a, e).max(initial=0.0) > units:
            wrong.append(n)
    return wrong


def _emit_case(case: Case) -> Emit:
    return lambda *xs: REGISTRY[f"gnomon.{case.op}"].build(xs, case.params)[0]


def _settled(case: Case) -> Case:
    """Make all updates of one position equal, because any of them may win."""
    if case.op == "scatter" and not _is_unique(case):
        return replace(case, updates=np.full_like(case.updates, 1))
    return case


@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["f4", "u1"])
def test_random_dimension_numbers(op: str, dtype: str) -> None:
    cases = [_settled(draw(op, seed, dtype)) for seed in range(9000, 9010)]
    # Factors and terms are multiples of 1/4, but products round.
    wrong = differences([_emit_case(c) for c in cases], [c.arrays for c in cases], 16)
    assert not wrong, [cases[n] for n in wrong]


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("op", OPS)
def test_other_dtypes(op: str) -> None:
    dtypes = ["?", "i2", "u8", "f2", "c8"]
    cases = [_settled(draw(op, 9100 + n, d)) for n, d in enumerate(dtypes)]
    wrong = differences([_emit_case(c) for c in cases], [c.arrays for c in cases], 16)
    assert not wrong, [cases[n] for n in wrong]


@pytest.mark.parametrize("mode", ["drop", "clip", "promise_in_bounds"])
def test_indices_far_out_of_bounds(mode: str) -> None:
    """Without the legalization, these programs end the process."""
    indices = [
        np.array([[0], [10**9], [-(10**9)], [3], [7], [-1], [8]], np.int32),
        np.array([[0], [2**63], [2**64 - 1], [3], [7], [2**32], [8]], np.uint64),
        np.array([[0], [2**62], [-(2**62)], [3], [7], [2**32], [-(2**32)]], np.int64),
        np.array([[0], [127], [-128], [3], [7], [-1], [8]], np.int8),
    ]
    names = ("scatter_add", "scatter_max", "scatter_mul", "scatter_min")
    operand, updates = np.arange(8, dtype=F32), np.arange(2, 9, dtype=F32)

    def emit(name: str) -> Emit:
        params = {**ROW.as_scatter(), "mode": mode, **FLAGS}
        return lambda x, i, u: getattr(ops, name)(x, i, u, **params)

    assert not differences([emit(name) for name in names], [(operand, i, updates) for i in indices])


def test_the_last_of_several_updates_or_another_one_stays() -> None:
    params = {**ROW.as_scatter(), "mode": "drop", **FLAGS}
    program = Program()
    x, i = np.zeros(4, F32), np.array([[1], [1], [3], [1], [9]], np.int32)
    u = np.array([5, 6, 7, 8, 9], F32)
    types = [TensorType(a.shape, a.dtype) for a in (x, i, u)]
    body = Body.build(types, lambda *xs: [ops.scatter(*xs, **params)])
    program.add("main", body, public=True)
    (result,) = (b.to_numpy() for b in BACKEND.compile(BACKEND.lower(program))([x, i, u]))
    assert result[1] in (5, 6, 8)
    assert result[[0, 2, 3]].tolist() == [0, 0, 7]


# ------------------------------------------------------------ operands updated by themselves

N = 64


def _part(x: ir.Value, start: ir.Value, size: int = 40) -> ir.Value:
    return ops.dynamic_slice(x, start, sizes=(size,))


def _twice(x: ir.Value) -> ir.Value:
    return ops.mul(x, full_like(x, 2))


def _places(start: ir.Value, size: int) -> ir.Value:
    at = ops.iota(dtype=I32, shape=(size,), dimension=0)
    return reshape(ops.add(at, ops.broadcast_in_dim(start, shape=(size,), dims=())), (size, 1))


def _overlap(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
    return ops.dynamic_update_slice(x, _part(x, j), i)


def _static(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
    head = ops.slice(x, start=(0,), limit=(40,), strides=(1,))
    return ops.dynamic_update_slice(x, head, i)


def _after_another_op(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
    return _overlap(_twice(x), i, j)


def _chain(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
    return _overlap(_overlap(x, i, j), j, i)


def _added_mirror(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
    part = _part(x, j)
    return ops.dynamic_update_slice(x, ops.add(part, ops.rev(part, dims=(0,))), i)


def _matrix(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
    m, zero = reshape(x, (8, 8)), constant(np.array(0, I32))
    head = ops.slice(m, start=(0, 0), limit=(6, 8), strides=(1, 1))
    return reshape(
        ops.dynamic_update_slice(m, ops.transpose(head, permutation=(1, 0)), zero, i), (N,)
    )


def _index_from_operand(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
    at = reshape(ops.convert(_part(x, j, 1), dtype=I32), ())
    return ops.dynamic_update_slice(x, _part(x, i, 9), at)


def _scattered(name: str, before: bool) -> Emit:
    params = {**ROW.as_scatter(), "mode": "drop", **FLAGS}

    def emit(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        x = _twice(x) if before else x
        return getattr(ops, name)(x, _places(i, 40), _part(x, j), **params)

    return emit


def _gathered(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
    read = ops.gather(
        x, _places(j, 40), **ROW.as_gather(), slice_sizes=(1,), mode="clip", fill_value=0, **FLAGS
    )
    return ops.scatter_add(x, _places(i, 40), read, **ROW.as_scatter(), mode="drop", **FLAGS)


ALIASED: list[Emit] = [
    _overlap,
    _static,
    _after_another_op,
    _chain,
    _added_mirror,
    _matrix,
    _index_from_operand,
    _scattered("scatter", False),
    _scattered("scatter", True),
    _scattered("scatter_add", False),
    _scattered("scatter_add", True),
    _scattered("scatter_max", True),
    _gathered,
]


def _looped(emit: Emit) -> Emit:
    """Five iterations, each of which updates a different position."""

    def emit_loop(x: ir.Value, i: ir.Value, j: ir.Value) -> ir.Value:
        types = [*(TensorType((), I32) for _ in range(3)), type_of(x)]

        def one(k: ir.Value) -> ir.Value:
            return ops.add(k, constant(np.array(1, I32)))

        cond = Body.build(types, lambda k, *_: [ops.lt(k, constant(np.array(5, I32)))])
        body = Body.build(types, lambda k, i, j, x: [one(k), one(i), j, emit(x, i, j)])
        carries = [constant(np.array(0, I32)), i, j, x]
        counts: dict[str, Any] = {"cond_consts": 0, "body_consts": 0}
        return while_.build(carries, counts, [cond, body])[3]

    return emit_loop


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "u1", "c8"])
def test_an_operand_updated_by_itself(in_loop: bool, dtype: str) -> None:
    rng = np.random.default_rng(3)
    emits = ALIASED
    if dtype != "f4":
        emits = [e for e in emits if e is not _index_from_operand][:: 3 if in_loop else 1]
    starts = [(np.array(a, I32), np.array(b, I32)) for a, b in ((5, 2), (2, 5))]
    arguments = [(rng.permutation(N).astype(dtype), *starts[n % 2]) for n in range(len(emits))]
    if in_loop:
        emits = [_looped(e) for e in emits]
    assert not differences(emits, arguments)


def test_one_element_is_updated_by_another() -> None:
    """``x.at[i].add(x[j])``, which IREE refuses as a scatter; alone and in every kind of loop."""

    def updated(c: Any, i: Any) -> Any:
        return c.at[i].add(c[1])

    def program(x: Any, n: Any) -> Any:
        return (
            updated(x, n),
            x.at[n].min(x[1]),
            x.at[n + 10].multiply(x[1]),
            lax.fori_loop(0, 3, lambda i, c: updated(c, i), x),
            lax.fori_loop(0, n, lambda i, c: updated(c, i - 1), x),
            lax.scan(lambda c, i: (updated(c, i), c[i]), x, gnp.arange(3)),
        )

    def waiting(x: Any) -> Any:
        def done(s: Any) -> Any:
            return s[1][1] < 20

        return lax.while_loop(done, lambda s: (s[0] + 1, updated(s[1], s[0] % 3)), (0, x))

    x = gnp.arange(1.0, 6.0)
    for function, arguments in ((program, (x, 3)), (waiting, (x,))):
        compiled = gn.tree.leaves(gn.jit(function)(*arguments))
        evaluated = gn.tree.leaves(function(*arguments))
        for given, wanted in zip(compiled, evaluated, strict=True):
            np.testing.assert_array_equal(np.asarray(given), np.asarray(wanted))


def test_a_literal_is_updated_in_every_iteration() -> None:
    """A body's writes into literals do not persist to the next iteration."""
    places = np.array([1, 2, 3, 0, 2], np.int32)

    def largest(h: Any, i: Any) -> Any:
        return gn.ops.segment_max(h * (2.0 - i), places, 4)

    def added(h: Any, i: Any) -> Any:
        rows = lax.concatenate([gnp.full((3, 2), -5.0), gnp.zeros((1, 2))], 0)
        return rows.at[places].add(h * (2.0 - i), mode="promise_in_bounds")

    def counted(h: Any) -> Any:
        def step(h: Any, i: Any) -> Any:
            chosen = lax.cond(i % 2 == 0, lambda h: largest(h, i), lambda h: h[:4], h)
            return h + 1, (largest(h, i), added(h, i), chosen)

        return lax.scan(step, h, gnp.arange(4))

    def waiting(h: Any) -> Any:
        def go_on(s: Any) -> Any:
            return (s[0] < 4) & (s[1].sum() < 1e6)

        return lax.while_loop(
            go_on, lambda s: (s[0] + 1, s[1] + added(h, s[0])), (0, gnp.zeros((4, 2)))
        )

    h = gnp.ones((5, 2))
    for function in (counted, waiting):
        compiled, evaluated = (gn.tree.leaves(f(h)) for f in (gn.jit(function), function))
        for given, wanted in zip(compiled, evaluated, strict=True):
            np.testing.assert_array_equal(np.asarray(given), np.asarray(wanted))


def test_two_scatters_at_the_same_64_bit_places() -> None:
    def loss(x: Any) -> Any:
        ordered = gnp.take_along_axis(x, gnp.argsort(x, 0), 0)
        return (ordered[0] * ordered[-1]).sum()

    def program(x: Any) -> Any:
        return gn.jvp(gn.grad(loss), (x,), (x,))

    with gn.enable_x64(True):
        x = gnp.asarray(np.random.default_rng(0).normal(size=(3, 4)).astype(F32))
        compiled, evaluated = (f(x) for f in (gn.jit(program), program))
    for given, wanted in zip(compiled, evaluated, strict=True):
        np.testing.assert_array_equal(np.asarray(given), np.asarray(wanted))


def test_large_unsigned_starts_are_clamped_to_the_end() -> None:
    x = np.arange(10, dtype=np.float32)
    emits, arguments = [], []
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        for start in (0, 3, np.iinfo(dtype).max // 2 + 1, np.iinfo(dtype).max):
            index = np.array(start, dtype)
            emits += [
                lambda x, i: ops.dynamic_slice(x, i, sizes=(3,)),
                lambda x, i: ops.dynamic_update_slice(x, slice_of_two(x), i),
            ]
            arguments += [(x, index), (x, index)]
    assert not differences(emits, arguments)


def slice_of_two(x: ir.Value) -> ir.Value:
    return ops.slice(x, start=(4,), limit=(6,), strides=(1,))


def test_many_updates_and_indices_of_narrower_dtypes() -> None:
    """Converted in the scatter's kernel, they would not fit on its stack."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 65, (4, 64), np.int32)
    small = rng.integers(-8, 8, (4, 64, 128), np.int8)
    few = rng.integers(0, 50, 16384, np.uint8)

    def add(dtype: Any, rows: Any, updates: Any) -> Any:
        return gnp.zeros((65, 128), dtype).at[rows].add(updates.astype(dtype))

    def counts(rows: Any, updates: Any, few: Any) -> Any:
        sums = [add(dtype, rows, updates) for dtype in ("int32", "int16", "float32")]
        return *sums, add("int32", rows, updates > 0), gnp.bincount(few, length=50)

    found = gn.jit(counts)(rows, small, few)
    expected = np.zeros((65, 128), np.int32)
    np.add.at(expected, rows, small)
    positive = np.zeros((65, 128), np.int32)
    np.add.at(positive, rows, small > 0)
    for sums in found[:3]:
        np.testing.assert_array_equal(sums, expected.astype(sums.dtype))
    np.testing.assert_array_equal(found[3], positive)
    np.testing.assert_array_equal(found[4], np.bincount(few, minlength=50))
    flags = gn.jit(lambda rows, flags: add("int32", rows, flags))(rows, small > 0)
    np.testing.assert_array_equal(flags, positive)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_scatters_of_bools_compile_for_cuda(dtype: str) -> None:
    def update(x: Any, rows: Any, flags: Any) -> Any:
        return x.at[rows].max(flags.astype(dtype)), x.at[rows].set((~flags).astype(dtype))

    x, rows = np.zeros((7, 3), dtype), np.arange(5, dtype=np.int32)
    lowered = gn.jit(update).lower(x, rows, np.ones((5, 3), bool))
    assert lowered.compile(target="cuda:sm_90").serialize()


def test_updates_that_a_loop_computed_are_widened_before_the_scatter() -> None:
    """The first form of the program compiles: its scatter does not convert the updates."""

    def total(x: Any, rows: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            return gnp.sort(carry * 2, axis=-1), None

        updates, _ = lax.scan(step, x, None, length=2)
        return gnp.zeros((65, 128), gnp.bfloat16).at[rows].add(updates)

    x = np.ones((4, 64, 128), gnp.bfloat16)
    rows = np.arange(256, dtype=np.int32).reshape(4, 64) % 65
    traced = gn.jit(total).lower(x, rows)._artifact
    assert traced.plan.form is not None
    assert BACKEND.executable_bytes(traced)
    counted = np.zeros(65, np.float32)
    np.add.at(counted, rows, 4)
    expected = np.broadcast_to(counted[:, None], (65, 128))
    np.testing.assert_array_equal(gn.jit(total)(x, rows).astype(np.float32), expected)


def test_one_window_is_updated_where_it_is() -> None:
    """Nothing is transposed or copied for columns, elements and windows of a few rows."""
    x = np.arange(60.0, dtype=np.float32).reshape(3, 4, 5)

    def program(x: Any, i: Any) -> Any:
        return (
            x.at[:, i].add(2.0),
            x.at[:, :, i].multiply(x[:, :, i - 1]),
            x.at[i, :, i].max(7.0),
            x.at[:, i].set(9.0, mode="clip"),
            x.at[:, 0, i].min(-1.0, mode="promise_in_bounds"),
        )

    def numpys(i: int) -> list[np.ndarray]:
        found = [x.copy() for _ in range(5)]
        if i < 4:
            found[0][:, i] += 2
        found[1][:, :, i] *= found[1][:, :, i - 1]
        if i < 3:
            found[2][i, :, i] = np.maximum(found[2][i, :, i], 7)
        found[3][:, min(i, 3)] = 9
        found[4][:, 0, i] = -1
        return found

    compiled = gn.jit(program)
    for i in (2, 4):
        for result, expected in zip(compiled(x, i), numpys(i), strict=True):
            np.testing.assert_array_equal(result, expected)
    assert "transpose" not in compiled.lower(x, 2).as_text()
