"""Reductions of values computed of broadcast numbers, more of them than a kernel's stack holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.backends.iree.joined import Call, check_joined

COUNT = 100_003
ONE, TWO = np.float32(1), np.float32(2)
ROW = np.float32([1, 2, np.nan])


def spread(x: Any) -> Any:
    return gnp.broadcast_to(x, (COUNT,))


def spread_rows(x: Any) -> Any:
    return gnp.broadcast_to(x[:, None], (3, COUNT))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sum of a comparison": (lambda x, y: gnp.sum(spread(x) < spread(y)), (ONE, TWO)),
    "a literal": (lambda x: gnp.sum(spread(x) > 0), (np.ones(1, np.int32),)),
    "views": (lambda x: gnp.sum(gnp.resize(x, 50_001)[::-2] > 0), (np.ones(1, np.int32),)),
    "several": (
        lambda x, y: gnp.max(((spread(x) < spread(y)) & ~(spread(x) > 3)).astype("i4")),
        (ONE, TWO),
    ),
    "any": (
        lambda x, y: (gnp.any((spread(x) < spread(y)) & gnp.isfinite(spread(x))),),
        (np.float32(np.nan), TWO),
    ),
    "select": (
        lambda m, x, y: gnp.sum(gnp.where(spread(m), spread(x) < spread(y), spread(x) > 0)),
        (np.True_, ONE, TWO),
    ),
    "rows": (
        lambda x, y: gnp.sum(spread_rows(x) <= spread_rows(y), axis=1),
        (ROW, ROW[::-1].copy()),
    ),
    "rows and a number": (lambda x, y: gnp.sum(spread_rows(x) < y, axis=1), (ROW, TWO)),
    "rows by columns": (
        lambda x, y: gnp.sum(spread_rows(x) < gnp.broadcast_to(y, (3, COUNT)), axis=1),
        (ROW, np.linspace(0, 3, COUNT, dtype=np.float32)),
    ),
    "read again": (
        lambda x, y: (m := spread(x) < spread(y), gnp.sum(m), gnp.where(m, spread(x), 0.0)[:3]),
        (ONE, TWO),
    ),
    "converted to integers": (
        lambda x: (gnp.max(spread(x).astype("i4")), gnp.sum(spread(x).astype("i1"))),
        (TWO,),
    ),
    "clamped": (
        lambda i: gnp.sum(lax.clamp(i[0], spread(i[1]), i[2])),
        (np.int32([1, 7, 3]),),
    ),
    "functions": (
        lambda x, y: gnp.max(gnp.arctan2(spread(x), gnp.exp(spread(y))) + gnp.tan(spread(y)) ** 2),
        (ONE, TWO),
    ),
    "complex": (
        lambda z: gnp.sum(gnp.square(spread(z)).imag + abs(spread(z))),
        (np.complex64(1 + 2j),),
    ),
    "mapped views": (gn.vmap(lambda x: gnp.sum(gnp.resize(x, COUNT) > 0)), (ROW[:, None],)),
    "mapped views as integers": (
        gn.vmap(lambda x: gnp.sum(gnp.resize(x, COUNT).astype("i4"))),
        (np.float32([[1], [2]]),),
    ),
    "mapped views, chosen": (
        gn.vmap(
            lambda x: gnp.sum(gnp.where(gnp.resize(x, COUNT) > 1, gnp.resize(x, COUNT), 2) > 0)
        ),
        (ROW[:, None],),
    ),
    "transposed": (
        lambda x: gnp.sum(gnp.broadcast_to(x, (COUNT, 3)).T.astype("i4"), axis=1),
        (np.float32([1, 2, 3]),),
    ),
    "computed before it is repeated": (
        lambda x: gnp.sum(gnp.broadcast_to(gnp.where(x > 3, x, 2)[:, None], (2, COUNT)), axis=1),
        (np.int32([3, 4]),),
    ),
    "converted": (lambda x: gnp.sum(spread(x).astype(bool)), (TWO,)),
}


def test_reductions_of_broadcast_values() -> None:
    calls: dict[str, Call] = {name: (f, given) for name, (f, given) in PROGRAMS.items()}
    check_joined(calls)


def test_comparisons_with_no_elements_and_of_symbolic_sizes() -> None:
    def count(x: Any, y: Any) -> Any:
        return gnp.sum(gnp.broadcast_to(x, y.shape) < 2)

    assert gn.jit(count)(ONE, np.zeros((0, 3), np.float32)) == 0
    (n,) = gn.export.symbolic_shape("n")
    exported = gn.export.export(gn.jit(count))(ONE, gn.ShapeDtypeStruct((n,), np.float32))
    assert exported.call(ONE, np.zeros(COUNT, np.float32)) == COUNT
