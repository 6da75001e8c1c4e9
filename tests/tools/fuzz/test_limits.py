"""Which of JAX's values nearby confirm a value of gnomon's at a singular point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gnomon.tools.fuzz import checking
from gnomon.tools.fuzz.checking import check, known_difference, reference
from gnomon.tools.fuzz.limits import neighbours, with_limits
from gnomon.tools.fuzz.program import Array, Block, Operand, Program, Splat, Statement, Variable
from gnomon.tools.fuzz.running import Outcome, value_of

NAN, INF = np.nan, np.inf


def outcome(value: Any, dtype: Any = np.float32) -> Outcome:
    return Outcome((np.array([value], dtype),), (False,))


def program(text: str, flavour: str = "special", dtype: str = "float32") -> Program:
    """A program of one statement on one argument ``x``."""
    types = (((9,), dtype),)
    statement = Statement(("v",), types, text, (("x", Operand(Variable("x"))),))
    return Program((("x", Array((9,), dtype, flavour, 1)),), Block(("x",), (statement,), ("v",)))


@pytest.mark.parametrize(
    ("ours", "nearby", "known"),
    [
        pytest.param(0.5, (0.5001, 0.4999), True, id="limit"),
        pytest.param(0.5, (0.6, 0.5), False, id="jump"),
        pytest.param(0.5, (NAN, 0.5), True, id="end of the domain"),
        pytest.param(0.5, (NAN, NAN), False, id="outside of the domain"),
        pytest.param(NAN, (0.5, 0.5), False, id="no value"),
        pytest.param(INF, (1e9, INF), True, id="pole"),
        pytest.param(INF, (1e9, -1e9), False, id="pole with both signs"),
        pytest.param(-INF, (1e9, 1e9), False, id="other sign"),
        pytest.param(1e-9, (2e-4, -2e-4), True, id="small"),
    ],
)
def test_a_limit_is_what_all_values_nearby_approach(
    ours: float, nearby: tuple[float, ...], known: bool
) -> None:
    (found,) = with_limits(outcome(ours), outcome(7), [outcome(x) for x in nearby]).values
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.float32([ours if known else 7]))


def test_complex_limits_are_finite_and_integers_have_none() -> None:
    near = [outcome(1 + 2.0001j, np.complex64)]
    assert with_limits(outcome(1 + 2j, np.complex64), outcome(0j, np.complex64), near).values == (
        np.complex64(1 + 2j),
    )
    (kept,) = with_limits(outcome(3, np.int32), outcome(4, np.int32), [outcome(3, np.int32)]).values
    assert kept == 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_neighbours_are_near_and_finite(dtype: str) -> None:
    (original,) = (value_of(a) for _, a in program("{x}", dtype=dtype).arguments)
    x = original.astype(np.float64)
    moved = [value_of(p.arguments[0][1]) for p in neighbours(program("{x}", dtype=dtype))]
    assert len(moved) == 4 and {m.dtype for m in moved} == {original.dtype}
    for each in moved:
        y = each.astype(np.float64)
        assert np.array_equal(np.isnan(x), np.isnan(y)) and not np.isinf(y).any()
        finite = np.isfinite(x)
        assert (y != x)[finite].all()
        np.testing.assert_allclose(y[finite], x[finite], rtol=0.02, atol=0.02)
        assert (np.sign(y) * x > 50)[np.isinf(x)].all()


def test_integers_have_no_neighbours() -> None:
    given = program("{x}", "integers", "int32")
    assert all(near == given for near in neighbours(given))


def test_filled_arrays_have_neighbours() -> None:
    statement = Statement(
        ("v",), (((2,), "float32"),), "{x}", (("x", Operand(Splat((2,), "float32", "-1"))),)
    )
    given = Program((), Block((), (statement,), ("v",)))
    (above, _, below, _) = (reference(near).values[0] for near in neighbours(given))
    assert (above < -1).all() and (below > -1).all()
    np.testing.assert_allclose(above, -1, rtol=0.02)


@pytest.mark.slow
def test_a_limit_explains_jax() -> None:
    pytest.importorskip("jax")
    tested = program("gn.jvp(lambda t: gnp.ldexp(t, -1), ({x},), (gnp.ones_like({x}),))[1]")
    failure = check(tested, jax=True)
    assert failure is not None and failure.kind == "jax values"
    (rule,) = (known for known in checking.KNOWN if known.limit)
    assert known_difference(tested, failure) == rule.reason


def test_a_jump_explains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a step, one side agrees with gnomon's value and the other one with a wrong value."""
    tested = program("gnp.floor({x})")

    def ask_jax(programs: Sequence[Program], *, jitted: bool = True) -> list[Outcome]:
        outcomes = [reference(p) for p in programs]
        at_one = value_of(tested.arguments[0][1]) == 1
        return [
            replace(o, values=(np.where(at_one, np.float32(0), o.values[0]),)) if p == tested else o
            for p, o in zip(programs, outcomes, strict=True)
        ]

    monkeypatch.setattr(checking, "ask_jax", ask_jax)
    failure = check(tested, jax=True, kinds="jax values")
    assert failure is not None and failure.detail.startswith("0.0 instead of 1.0 ")
    assert not known_difference(tested, failure)
