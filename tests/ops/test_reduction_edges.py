"""Derivatives of reductions and cumulative ops where they have kinks and infinities.

Finite differences say nothing there, so JAX's values are the reference.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from gnomon.dialects import functions
from gnomon.dialects.body import Body
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType
from tests.ops.check import add_main, run
from tests.tolerance import assert_each_near

F32 = np.dtype(np.float32)


def gradient(op: str, x: np.ndarray, seed: np.ndarray, **params: Any) -> np.ndarray:
    """The cotangent of ``x`` for the cotangent ``seed`` of the result."""
    program = Program()
    type_ = TensorType(x.shape, x.dtype)
    body = Body.build([type_], lambda v: REGISTRY[f"gnomon.{op}"].build([v], params))
    program.add("f", body)
    types = [type_, TensorType(seed.shape, seed.dtype)]
    add_main(program, functions.vjp, "f", types, wrt=(0,), outputs=(0,))
    return run(program, "main", [x, seed])[1]


TIES = np.array([[3, 1, 3], [3, 2, 0], [1, 2, 3], [3, 2, -0.0], [0.5, 2, 0]], F32)


@pytest.mark.parametrize(("op", "function"), [("reduce_max", "max"), ("reduce_min", "min")])
def test_ties_of_extrema_share_equally(op: str, function: str) -> None:
    seed = np.array([1, 10, 100], F32)
    reduce = getattr(jax.numpy, function)
    expected = jax.vjp(lambda x: reduce(x, axis=0), TIES)[1](seed)[0]
    np.testing.assert_array_equal(gradient(op, TIES, seed, axes=(0,)), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", ["cummax", "cummin"])
@pytest.mark.parametrize(
    "count", [1, 2, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4, 8, 13))]
)
def test_ties_of_cumulative_extrema_are_those_of_jax(op: str, reverse: bool, count: int) -> None:
    x = np.array([1, 2, 2, 2, 0, 2, 3, 3, 0, 3, 3, 3, 3], F32)[:count]
    seed = np.arange(1, count + 1).astype(F32)
    expected = jax.vjp(lambda v: getattr(jax.lax, op)(v, reverse=reverse), x)[1](seed)[0]
    np.testing.assert_array_equal(gradient(op, x, seed, axis=0, reverse=reverse), expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", ["cummax", "cummin"])
def test_no_gradient_passes_a_nan_of_cumulative_extrema(op: str, reverse: bool) -> None:
    x = np.array([1, 2, np.nan, 3, 4], F32)
    seed = np.arange(1, 6).astype(F32)
    expected = jax.vjp(lambda v: getattr(jax.lax, op)(v, reverse=reverse), x)[1](seed)[0]
    np.testing.assert_array_equal(gradient(op, x, seed, axis=0, reverse=reverse), expected)


def test_leading_infinities_of_cumlogsumexp_do_not_spoil_the_gradient() -> None:
    # JAX returns nan for every element before and after two leading -inf: masked sums lose their
    # gradients. Here finite elements have the gradients that they have without the masked ones.
    masked = np.array([-np.inf, -np.inf, 0.5, 2.0, -1.0], F32)
    seed = np.array([0, 0, 1, 10, 100], F32)
    found = gradient("cumlogsumexp", masked, seed, axis=0, reverse=False)
    expected = jax.vjp(jax.lax.cumlogsumexp, masked[2:])[1](seed[2:])[0]
    np.testing.assert_array_equal(found[:2], 0)
    assert_each_near(found[2:], expected, 8)


def test_a_nan_spreads_to_the_gradient_of_a_maximum() -> None:
    x = np.array([1, np.nan, 3], F32)
    assert np.isnan(gradient("reduce_max", x, np.ones((), F32), axes=(0,))).all()


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_gradient_of_a_product_with_zeros(zeros: int) -> None:
    x = np.array([2, 3, 4, 5, 7], F32)
    x[:zeros] = 0
    expected = [np.prod(np.delete(x, i)) for i in range(x.size)]
    found = gradient("reduce_prod", x, np.ones((), F32), axes=(0,))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
def test_the_extremum_of_no_elements_is_constant(op: str) -> None:
    program = Program()
    type_ = TensorType((3, 0), F32)
    body = Body.build([type_], lambda v: REGISTRY[f"gnomon.{op}"].build([v], {"axes": (1,)}))
    program.add("f", body)
    add_main(program, functions.jvp, "f", [type_, type_], wrt=(0,))
    x = np.zeros((3, 0), F32)
    np.testing.assert_array_equal(run(program, "main", [x, x])[1], np.zeros(3, F32))
