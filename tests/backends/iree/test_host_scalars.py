"""Scalars that the host computes, in loops whose branches depend on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
from gnomon import lax

# The bounds are literals: only ops with a literal are folded, as those of signed numbers.
OPS: dict[str, Callable[[Any], Any]] = {
    "clamp": lambda x: lax.clamp(False, x, True),
    "max": lambda x: lax.max(x, False),
    "min": lambda x: lax.min(x, True),
    "lt": lambda x: lax.lt(False, x),
    "ge": lambda x: lax.ge(x, True),
}


@pytest.mark.parametrize("op", OPS)
def test_ops_of_bools_and_literals(op: str) -> None:
    def result(n: Any, a: Any) -> Any:
        def step(i: Any, a: Any) -> Any:
            return lax.cond(OPS[op](i < n), lambda a: a @ a + a, lambda a: a, a)

        # The loop stays on the host, because products of this size use several threads.
        return lax.fori_loop(0, 3, step, a)[0, 0]

    a = np.eye(600, dtype=np.float32)
    compiled = gn.jit(result)
    assert [compiled(n, a) for n in range(3)] == [1, 2, 6]
