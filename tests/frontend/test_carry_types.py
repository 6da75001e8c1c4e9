"""Types of loop carries and results of branches, compared with JAX for each pair of types."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.frontend.oracle import Pair, kind, outcome, outcomes_in_one_program
from tests.sample import sample

# Functions from a module like jax.numpy to a number of each kind.
KINDS: dict[str, Callable[[Any], Any]] = {
    "int": lambda n: 1,
    "float": lambda n: 1.5,
    "complex": lambda n: 1j,
    "bool": lambda n: True,
    "weak float": lambda n: n.asarray(1.5) * 1,
    "float32": lambda n: n.float32(1.5),
    "float16": lambda n: n.float16(1.5),
    "int32": lambda n: n.int32(3),
    "int8": lambda n: n.int8(3),
    "complex64": lambda n: n.complex64(2j),
}

# Functions of a module like jax and two numbers.
FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cond": lambda m, a, b: m.lax.cond(True, lambda: a, lambda: b),
    "cond on the other side": lambda m, a, b: m.lax.cond(False, lambda: a, lambda: b),
    "switch": lambda m, a, b: m.lax.switch(2, [lambda: a, lambda: b, lambda: a]),
    "scan": lambda m, a, b: m.lax.scan(lambda c, _: (b, None), a, None, length=2)[0],
    "scan that multiplies": lambda m, a, b: m.lax.scan(lambda c, _: (c * b, None), a, None, 2)[0],
    "scan over slices": lambda m, a, b: m.lax.scan(lambda c, x: (c, x), b, m.numpy.full((2,), a))[
        1
    ],
    "scan that adds slices": lambda m, a, b: m.lax.scan(
        lambda c, x: (c, (x + 1, x + b)), 0, m.numpy.full((2,), a)
    )[1],
    "while": lambda m, a, b: m.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, b), (0, a)),
    "fori": lambda m, a, b: m.lax.fori_loop(0, 3, lambda i, c: b, a),
    "fori with its index": lambda m, a, b: m.lax.fori_loop(0, 3, lambda i, c: i * b, a),
}


def _described(pair: Pair) -> Any:
    """The types and values of results, or the kind of an error."""
    result, error = pair
    if error is not None:
        return kind(error).__name__
    leaves = jax.tree_util.tree_leaves(result)
    return [(str(x.dtype), bool(x.weak_type), np.asarray(x, complex).tolist()) for x in leaves]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", FORMS)
def test_types_are_those_of_jax(form: str) -> None:
    pairs = sample(itertools.product(KINDS, KINDS), 34, form)

    def call(pair: tuple[str, str], m: Any, n: Any) -> Any:
        a, b = pair
        return FORMS[form](m, KINDS[a](n), KINDS[b](n))

    expected = outcomes_in_one_program([(call, (pair, jax, jnp), {}) for pair in pairs])
    different = []
    for pair, of_jax in zip(pairs, expected, strict=True):
        ours, theirs = _described(outcome(call, (pair, gn, gnp), {})), _described(of_jax)
        if ours != theirs:
            different.append(f"{pair}: {ours}, JAX gives {theirs}")
    assert not different, "\n".join(different)


def test_known_bounds_give_a_weakly_typed_index() -> None:
    def total(m: Any, n: Any) -> Any:
        return m.lax.fori_loop(n.int8(0), n.int8(4), lambda i, c: c + i * 100, 0)

    ours, theirs = total(gn, gnp), total(jax, jnp)
    assert int(ours) == 600
    assert (ours.dtype, ours.weak_type) == (theirs.dtype, theirs.weak_type)
