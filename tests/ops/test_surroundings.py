"""Every op with constant operands, with views for operands, and before a full reduction.

The default tests take one choice for some ops, on this processor. The slow tests take more choices,
with another sample for each level of x86-64 that runs here.
"""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.iree.backend import IreeBackend, iree_backend
from gnomon.backends.iree.targets import find_target, incompatibility
from gnomon.dialects.body import Body
from gnomon.dialects.functions import Program
from gnomon.dialects.types import short_name
from tests.ops.cases import DEAR, OPS, cases_of, few_cases_of
from tests.ops.check import Case, draw_all, joint_program, run, types_of
from tests.ops.surroundings import (
    ARGUMENT,
    CONSTANTS,
    VIEWS,
    Surrounded,
    check_surrounded,
    sampled,
    surroundings_of,
)

LEVELS = ("cpu", "x86-64-v2", "x86-64-v3", "x86-64-v4")
# The number of ops in one program of the quick tests.
_GROUP = 12
# The number of choices for an op's first row in each of two dtypes, and for each other row.
_MANY, _FEW = 8, 1

_QUICK = [op for op in OPS if op not in DEAR]


@pytest.mark.sampled(0.13)
@pytest.mark.parametrize("first", range(0, len(_QUICK), _GROUP), ids=lambda i: _QUICK[i])
def test_ops_in_one_of_their_surroundings(first: int) -> None:
    backend = iree_backend("cpu")
    dtypes = backend.target.capabilities.dtypes
    items = [
        item
        for op in _QUICK[first : first + _GROUP]
        for case in few_cases_of(op, dtypes)[:1]
        for item in sampled(surroundings_of(case), 1)
    ]
    check_surrounded(backend, items)


def _is_supported(backend: IreeBackend, case: Case) -> bool:
    try:
        backend.lower(joint_program([case], [draw_all(*case)]))
    except UnsupportedOnTarget:
        return False
    return True


def _sample(backend: IreeBackend, op: str, salt: str) -> list[Surrounded]:
    dtypes = backend.target.capabilities.dtypes
    first = few_cases_of(op, dtypes)
    names = {short_name(dtype) for _, dtype in first}
    others = [
        case
        for case in cases_of(op, dtypes)
        if case[0] is not first[0][0] and short_name(case[1]) in names
    ]
    return [
        item
        for cases, count in ((first, _MANY), (others, _FEW))
        for case in cases
        if _is_supported(backend, case)
        for item in sampled(surroundings_of(case), count, salt)
    ]


# All of them take hours.
@pytest.mark.slow
@pytest.mark.sampled(0.02)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("op", OPS)
def test_ops_in_their_surroundings(op: str, level: str) -> None:
    if missing := incompatibility(find_target(level)):
        pytest.skip(missing)
    backend = iree_backend(level)
    items = _sample(backend, op, level)
    if not items:
        pytest.skip(f"{level} has no form of {op}")
    check_surrounded(backend, items)


# ------------------------------------------------------------------------------------ the generator


def _case(op: str) -> Case:
    return few_cases_of(op, frozenset({"f32"}))[0]


def test_every_subset_of_the_operands_is_constant_in_every_kind() -> None:
    given = {item.given for item in surroundings_of(_case("add"))}
    for kind in CONSTANTS:
        assert {(kind, ARGUMENT), (ARGUMENT, kind), (kind, kind)} <= given
    assert {(view, view) for view in VIEWS} | {(ARGUMENT, ARGUMENT)} <= given
    assert {item.summed for item in surroundings_of(_case("add"))} == {False, True}


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (2, 1, 3), (0, 2)])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_gives_the_operand(view: str, shape: tuple[int, ...]) -> None:
    value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    whole = VIEWS[view].whole(value)
    program = Program()
    take = VIEWS[view].take
    program.add("main", Body.build(types_of([whole]), lambda x: [take(x, shape)]), public=True)
    (found,) = run(program, "main", [whole])
    np.testing.assert_array_equal(found, value)
    assert found.shape == shape


def test_wrong_results_are_found() -> None:
    items = [item for item in surroundings_of(_case("exp")) if "splat" in item.given]
    for item in items:
        (right,) = [np.asarray(x) for x in _evaluated(item)]
        assert not item.check([right])
        assert item.check([right * np.float32(1.01)])
        assert item.check([right.astype(np.float64)])


def _evaluated(item: Surrounded) -> list[np.ndarray]:
    return run(item.program(), "main", item.arguments())


def test_a_sample_is_always_the_same() -> None:
    items = surroundings_of(_case("mul"))
    again = surroundings_of(_case("mul"))
    assert [i.id for i in sampled(items, 5)] == [i.id for i in sampled(again, 5)]
    assert [i.id for i in sampled(items, 5)] != [i.id for i in sampled(items, 5, "v2")]
