"""Every op, by its rows: meaning, types, derivatives, transposes, batching, second order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnomon.dialects import functions
from gnomon.dialects.contract import FACETS, REGISTRY, Verdict
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType, is_complex, is_inexact
from tests.ops.check import (
    DTYPES,
    add_main,
    all_rows,
    assert_close,
    draw_all,
    op_of,
    params_of,
    program_of,
    run,
    types_of,
    ulps_of,
)
from tests.ops.row import Row
from tests.sample import sample
from tests.tolerance import assert_near, units_of_differences

ROOT = Path(__file__).parents[2]
ROWS = all_rows()

# Ops whose meaning needs more than one operation around them, and where they are tested.
ELSEWHERE = {
    "func.call": "tests/frontend/test_transformations.py",
    "gnomon.jvp": "tests/frontend/test_transformations.py",
    "gnomon.vjp": "tests/frontend/test_transformations.py",
    "gnomon.vmap": "tests/frontend/test_transformations.py",
    "gnomon.shard_map": "tests/frontend/test_shard_map.py",
    "gnomon.yield": "tests/dialects/test_control_flow.py",
    "gnomon.branch": "tests/dialects/test_control_flow.py",
    "gnomon.all_gather": "tests/frontend/test_collectives.py",
    "gnomon.all_to_all": "tests/frontend/test_collectives.py",
    "gnomon.ppermute": "tests/frontend/test_collectives.py",
    "gnomon.psum_scatter": "tests/frontend/test_collectives.py",
    "gnomon.pure_callback": "tests/frontend/test_callbacks.py",
    "gnomon.io_callback": "tests/frontend/test_callbacks.py",
    "gnomon.debug_callback": "tests/frontend/test_callbacks.py",
    "gnomon.inspect_sharding": "tests/frontend/test_pictures.py",
    "gnomon.check": "tests/frontend/test_checkify.py",
    "gnomon.host_call": "tests/backends/iree/test_host.py",
    "gnomon.composite": "tests/frontend/test_composite.py",
    "gnomon.custom_vmap": "tests/frontend/test_custom_batching.py",
    "gnomon.custom_vjp": "tests/frontend/test_custom_derivatives.py",
    "gnomon.custom_vjp_tangents": "tests/frontend/test_custom_derivatives.py",
    "gnomon.psum": "tests/frontend/test_collectives.py",
    "gnomon.pmax": "tests/frontend/test_collectives.py",
    "gnomon.pmin": "tests/frontend/test_collectives.py",
    "gnomon.axis_index": "tests/frontend/test_collectives.py",
    "gnomon.all_gather_invariant": "tests/frontend/test_shard_map.py",
    "gnomon.psum_invariant": "tests/frontend/test_shard_map.py",
    "gnomon.pmax_invariant": "tests/frontend/test_shard_map.py",
    "gnomon.pmin_invariant": "tests/frontend/test_shard_map.py",
    "gnomon.pvary": "tests/frontend/test_shard_map.py",
}

# Ops whose batching rule is not a loop, and where it is tested.
NOT_A_LOOP = {"rng_bit_generator": "tests/frontend/test_random_generators.py"}

DIFFERENTIABLE = [row for row in ROWS if row.differentiable]
REVERSIBLE = [row for row in DIFFERENTIABLE if row.op != "while"]
BATCHED = [row for row in ROWS if row.op not in NOT_A_LOOP]

STEP = 1e-5
# A sixth of the ratio of the derivative two orders higher to the one that is compared, in the row
# nearest to a pole: twenty over the square of the distance, which is 0.02 for erf_inv.
DIFFERENCES = 8192 * units_of_differences(STEP)


# Of so many ops, one is a smoke test: each is quick, but they are hundreds.
SMOKE_EVERY = 16


def ops_of(rows: Sequence[Row]) -> list[Any]:
    """The ops of some rows, a few of which are smoke tests: an item is an op with all its rows."""
    return [
        pytest.param(op, marks=[pytest.mark.smoke] if i % SMOKE_EVERY == 0 else [])
        for i, op in enumerate(dict.fromkeys(row.op for row in rows))
    ]


def dtypes_of(row: Row, *, wide: bool = False) -> list[str]:
    """The names of the dtypes of a row; ``wide``: of those, f64 and c128."""
    return [name for name in row.dtypes.split() if not wide or name in ("f64", "c128")]


def check_each(check: Callable[[Row, np.dtype], None], cases: Iterable[tuple[Row, str]]) -> None:
    """Check each case, and name those that fail."""
    problems: dict[str, Exception] = {}
    for row, name in cases:
        try:
            check(row, DTYPES[name])
        except Exception as error:
            problems[f"{row.id}-{name}"] = error
    if problems:
        text = "\n".join(f"{name}: {error!r}" for name, error in problems.items())
        raise AssertionError(text) from next(iter(problems.values()))


def cases_of(op: str, rows: Sequence[Row], *, wide: bool = False) -> Iterator[tuple[Row, str]]:
    """The rows of an op, each with each of its dtypes."""
    return ((row, name) for row in rows if row.op == op for name in dtypes_of(row, wide=wide))


def test_every_op_has_a_row() -> None:
    missing = REGISTRY.keys() - {f"gnomon.{row.op}" for row in ROWS} - ELSEWHERE.keys()
    assert not missing


def test_ops_tested_elsewhere_exist_and_so_do_their_tests() -> None:
    assert not ELSEWHERE.keys() - REGISTRY.keys()
    assert not NOT_A_LOOP.keys() - {row.op for row in ROWS}
    paths = {*ELSEWHERE.values(), *NOT_A_LOOP.values()}
    assert not [path for path in sorted(paths) if not (ROOT / path).is_file()]


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_facet_is_a_rule_or_a_verdict(name: str) -> None:
    op = REGISTRY[name]
    for facet in FACETS:
        rule = getattr(op, facet)
        assert callable(rule) or isinstance(rule, Verdict)


def test_differentiable_ops_are_differentiated_by_some_row() -> None:
    covered = {f"gnomon.{row.op}" for row in ROWS if row.differentiable}
    rules = {n for n, op in REGISTRY.items() if not isinstance(op.jvp, Verdict)}
    assert not rules - covered - ELSEWHERE.keys()


@pytest.mark.parametrize("op", ops_of(ROWS))
def test_evaluation_equals_the_reference(op: str) -> None:
    check_each(_evaluation_equals_the_reference, cases_of(op, ROWS))


def _evaluation_equals_the_reference(row: Row, dtype: np.dtype) -> None:
    arrays = draw_all(row, dtype, edges=True)
    copies = [a.copy() for a in arrays]
    program = program_of(row, dtype, arrays)
    results = run(program, "f", arrays)
    with np.errstate(all="ignore"):
        expected = row.reference(*copies)
    if not isinstance(expected, (tuple, list)):
        expected = [expected]
    signature = program.signature("f")
    assert len(results) == len(expected)
    for result, reference, type_ in zip(results, expected, signature.results, strict=True):
        assert (result.shape, result.dtype) == type_
        assert_close(result, reference, type_.dtype, ulps_of(row, dtype), row.id)
    _check_the_rule(row, dtype, arrays)
    for array, copy in zip(arrays, copies, strict=True):
        assert array.tobytes() == copy.tobytes(), "an op wrote into its operand"


def _check_the_rule(row: Row, dtype: np.dtype, arrays: list[np.ndarray]) -> None:
    """Assert that the rule itself gives the inferred types: the evaluator converts its results."""
    op = op_of(row)
    if op.is_control_flow:
        return
    params = params_of(row, dtype)
    with np.errstate(all="ignore"):
        out = op.evaluate(*arrays, **params)  # type: ignore[operator]
    outs = [out] if op.results == 1 else list(out)
    types = op.infer_types(types_of(arrays), params)
    assert [(np.shape(o), np.asarray(o).dtype) for o in outs] == [tuple(t) for t in types]


# ------------------------------------------------------------------------------------ derivatives


def _direction(row: Row, dtype: np.dtype, like: np.ndarray, salt: str) -> np.ndarray:
    rng = np.random.default_rng(len(salt) + like.size)
    values = rng.normal(size=like.shape)
    if is_complex(like.dtype):
        values = values + 1j * rng.normal(size=like.shape)
    return np.asarray(values).astype(like.dtype)


def _wrt(row: Row, arrays: list[np.ndarray]) -> list[int]:
    return [i for i in row.differentiable if is_inexact(arrays[i].dtype)]


def _moved(arrays: list[np.ndarray], wrt: list[int], directions: Any, h: float) -> list[np.ndarray]:
    moved = list(arrays)
    for i, d in zip(wrt, directions, strict=True):
        moved[i] = np.asarray(arrays[i] + h * d)
    return moved


def _differences(program: Program, name: str, arrays: Any, wrt: Any, directions: Any) -> Any:
    plus = run(program, name, _moved(arrays, wrt, directions, STEP))
    minus = run(program, name, _moved(arrays, wrt, directions, -STEP))
    return [
        (p - m) / (2 * STEP) if is_inexact(p.dtype) else None
        for p, m in zip(plus, minus, strict=True)
    ]


def _assert_derivative(actual: Any, expected: Any, message: str) -> None:
    assert_near(actual, expected, DIFFERENCES, scale=1.0, message=message)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("op", ops_of(DIFFERENTIABLE))
def test_jvp_equals_finite_differences(op: str) -> None:
    check_each(_jvp_equals_finite_differences, cases_of(op, DIFFERENTIABLE, wide=True))


def _jvp_equals_finite_differences(row: Row, dtype: np.dtype) -> None:
    arrays = draw_all(row, dtype)
    program = program_of(row, dtype, arrays)
    types = types_of(arrays)
    for wrt in [[i] for i in _wrt(row, arrays)] + [_wrt(row, arrays)]:
        directions = [_direction(row, dtype, arrays[i], "d") for i in wrt]
        name = add_main(
            program, functions.jvp, "f", [*types, *(types[i] for i in wrt)], wrt=tuple(wrt)
        )
        results = run(program, name, [*arrays, *directions])
        expected = [d for d in _differences(program, "f", arrays, wrt, directions) if d is not None]
        tangents = results[len(program.signature("f").results) :]
        for tangent, difference in zip(tangents, expected, strict=True):
            _assert_derivative(tangent, difference, f"jvp of {row.id} by {wrt}")


def _vjp(program: Program, types: list[TensorType], wrt: list[int]) -> tuple[str, list[int]]:
    results = program.signature("f").results
    outputs = [i for i, t in enumerate(results) if is_inexact(t.dtype)]
    name = add_main(
        program,
        functions.vjp,
        "f",
        [*types, *(results[i] for i in outputs)],
        wrt=tuple(wrt),
        outputs=tuple(outputs),
    )
    return name, outputs


@pytest.mark.sampled(1)
@pytest.mark.parametrize("op", ops_of(REVERSIBLE))
def test_transpose_identity(op: str) -> None:
    check_each(_transpose_identity, cases_of(op, REVERSIBLE, wide=True))


def _transpose_identity(row: Row, dtype: np.dtype) -> None:
    """Re <w, J v> = Re <J^T w, v>, without conjugation: the convention of complex derivatives."""
    arrays = draw_all(row, dtype)
    program = program_of(row, dtype, arrays)
    types = types_of(arrays)
    wrt = _wrt(row, arrays)
    directions = [_direction(row, dtype, arrays[i], "d") for i in wrt]
    forward = add_main(
        program, functions.jvp, "f", [*types, *(types[i] for i in wrt)], wrt=tuple(wrt)
    )
    backward, outputs = _vjp(program, types, wrt)
    count = len(program.signature("f").results)
    results = run(program, forward, [*arrays, *directions])
    tangents = results[count:]
    seeds = [_direction(row, dtype, results[i], "seed") for i in outputs]
    found = run(program, backward, [*arrays, *seeds])
    for primal, again in zip(results[:count], found[:count], strict=True):
        np.testing.assert_array_equal(primal, again)
    left = sum(float(np.sum(w * t).real) for w, t in zip(seeds, tangents, strict=True))
    right = sum(float(np.sum(ct * v).real) for ct, v in zip(found[count:], directions, strict=True))
    size = sum(float(np.sum(np.abs(w * t))) for w, t in zip(seeds, tangents, strict=True))
    assert_near(left, right, 64, scale=max(1.0, size))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("op", ops_of(REVERSIBLE))
def test_second_order(op: str) -> None:
    check_each(_second_order, cases_of(op, REVERSIBLE, wide=True))


def _second_order(row: Row, dtype: np.dtype) -> None:
    """The derivative of the gradient (forward over reverse) equals its finite difference."""
    arrays = draw_all(row, dtype)
    program = program_of(row, dtype, arrays)
    types = types_of(arrays)
    wrt = _wrt(row, arrays)
    backward, outputs = _vjp(program, types, wrt)
    results = run(program, "f", arrays)
    seeds = [_direction(row, dtype, results[i], "seed") for i in outputs]
    directions = [_direction(row, dtype, arrays[i], "second") for i in wrt]
    operands = [*arrays, *seeds]
    operand_types = types_of(operands)
    second = add_main(
        program,
        functions.jvp,
        backward,
        [*operand_types, *(types[i] for i in wrt)],
        wrt=tuple(wrt),
    )
    count = len(program.signature(backward).results)
    tangents = run(program, second, [*operands, *directions])[count:]
    expected = [
        d for d in _differences(program, backward, operands, wrt, directions) if d is not None
    ]
    for tangent, difference in zip(tangents, expected, strict=True):
        _assert_derivative(tangent, difference, f"second derivative of {row.id}")


# ---------------------------------------------------------------------------------------- batching


def _batchings(row: Row, arrays: list[np.ndarray]) -> list[tuple[int, ...]]:
    """The mapped operands and their batch dimensions: all first, each alone, and last."""
    count = len(arrays)
    if not count:
        return []
    choices = {tuple([0] * count), tuple(a.ndim for a in arrays)}
    for i in range(count):
        choices.add(tuple(0 if j == i else -1 for j in range(count)))
    if count == 2:
        choices |= set(itertools.product((0, -1), repeat=2)) - {(-1, -1)}
    return sorted(choices)


def sampled_cases_of(op: str) -> Iterator[tuple[Row, str]]:
    """The rows of an op, each with one of its dtypes: hardly a batching rule looks at the dtype."""
    for row in BATCHED:
        if row.op == op:
            yield from ((row, name) for name in sample(dtypes_of(row), 1, row.id))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("op", ops_of(BATCHED))
def test_vmap_equals_a_loop(op: str) -> None:
    check_each(_vmap_equals_a_loop, sampled_cases_of(op))


def _vmap_equals_a_loop(row: Row, dtype: np.dtype) -> None:
    size = 3
    members = [draw_all(row, dtype, salt=str(i)) for i in range(size)]
    program = program_of(row, dtype, members[0])
    out_count = len(program.signature("f").results)
    for in_axes in _batchings(row, members[0]):
        operands = [
            members[0][i] if axis < 0 else np.stack([m[i] for m in members], axis=axis)
            for i, axis in enumerate(in_axes)
        ]
        expected = [
            run(
                program,
                "f",
                [members[0 if axis < 0 else k][i] for i, axis in enumerate(in_axes)],
            )
            for k in range(size)
        ]
        name = add_main(
            program,
            functions.vmap,
            "f",
            types_of(operands),
            in_axes=in_axes,
            out_axes=(0,) * out_count,
            axis_size=size,
            axis_name="",
        )
        results = run(program, name, operands)
        for i, result in enumerate(results):
            stacked = np.stack([e[i] for e in expected])
            assert result.dtype == stacked.dtype
            assert_close(result, stacked, stacked.dtype, row.ulps, f"vmap of {row.id} {in_axes}")
