"""Inspection: names of scopes, types, texts, costs, caches."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import gnomon as gn
import gnomon.numpy as gnp


def test_named_scopes_are_locations() -> None:
    @gn.jit
    def layer(x: Any) -> Any:
        with gn.named_scope("attention"), gn.named_scope("query"):
            y = gnp.sin(x)
        return gn.named_call(gnp.cos, name="feedforward")(y)

    lowered = layer.lower(gnp.ones(3))
    traced = lowered.as_text("traced", debug_info=True)
    assert 'loc("attention/query"(' in traced
    assert 'loc("feedforward"(' in traced
    assert "test_api.py" in traced
    assert "attention" in lowered.as_text(debug_info=True)
    assert "attention" not in lowered.as_text()


def test_a_scope_ends_with_its_block() -> None:
    with pytest.raises(RuntimeError), gn.named_scope("broken"):
        raise RuntimeError
    text = gn.jit(lambda x: gnp.sin(x)).lower(1.0).as_text("traced", debug_info=True)
    assert "broken" not in text
    with pytest.raises(TypeError, match="must be a string"), gn.named_scope(3):  # type: ignore
        pass


def test_typeof() -> None:
    assert str(gn.typeof(gnp.ones((2, 3)))) == "float32[2,3]"
    assert gn.typeof(1.0).weak_type
    assert gn.jit(lambda x: gnp.ones(gn.typeof(x).shape))(gnp.zeros((2, 1))).shape == (2, 1)


def test_jit_of_the_same_function_shares_its_programs() -> None:
    traced = []

    def f(x: Any) -> Any:
        traced.append(x)
        return x * 2

    for _ in range(3):
        assert gn.jit(f)(2.0) == 4.0
    assert len(traced) == 1
    assert gn.jit(f, static_argnums=0)(2.0) == 4.0
    assert len(traced) == 2
    gn.clear_caches()
    assert gn.jit(f)(2.0) == 4.0
    assert len(traced) == 3


def test_programs_of_a_function_die_with_it() -> None:
    def make() -> Any:
        def f(x: Any) -> Any:
            return x + 1

        assert gn.jit(f)(1.0) == 2.0
        return weakref.ref(f)

    dead = make()
    gc.collect()
    assert dead() is None


def test_cost_analysis() -> None:
    lowered = gn.jit(gnp.matmul).lower(gnp.ones((8, 16)), gnp.ones((16, 4)))
    cost = lowered.compile().cost_analysis()
    assert cost["flops"] == 2 * 8 * 16 * 4
    assert cost["bytes accessed"] >= 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert lowered.out_info == lowered.compile().out_info
