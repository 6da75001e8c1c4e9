"""The memory of functions that compare, count or select: it grows with operands and results.

A table of one operand's elements with another's has 10^12 entries for 10^6 elements each.
"""

from __future__ import annotations

import math
import re
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, nn, ops, random
from gnomon.scipy import cluster, ndimage, signal, stats

MILLION = 1_000_000

X, Y, I, B = "x", "y", "i", "b"  # noqa: E741 (sorted floats, floats, indices, booleans)


def key() -> Any:
    return random.key(0)


# The operands of a function, and the function of these and of the number of their elements.
FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "searchsorted": (X + Y, lambda a, v, n: gnp.searchsorted(a, v)),
    "searchsorted right": (X + Y, lambda a, v, n: gnp.searchsorted(a, v, "right")),
    "searchsorted by sorting": (X + Y, lambda a, v, n: gnp.searchsorted(a, v, method="sort")),
    "digitize": (Y + X, lambda x, bins, n: gnp.digitize(x, bins)),
    "interp": (Y + X + Y, lambda x, xp, fp, n: gnp.interp(x, xp, fp)),
    "interp periodic": (Y + X + Y, lambda x, xp, fp, n: gnp.interp(x, xp, fp, period=7)),
    "isin": (I + I, lambda x, y, n: gnp.isin(x, y)),
    "bincount": (I + Y, lambda x, w, n: gnp.bincount(x, w, length=n)),
    "histogram": (Y, lambda x, n: gnp.histogram(x, n)),
    "histogram with edges": (Y + X, lambda x, edges, n: gnp.histogram(x, edges)),
    "histogram2d": (Y + Y, lambda x, y, n: gnp.histogram2d(x, y, 50)),
    "unique": (I, lambda x, n: gnp.unique(x, True, True, True, size=n)),
    "intersect1d": (Y + Y, lambda x, y, n: gnp.intersect1d(x, y, return_indices=True, size=n)),
    "union1d": (Y + Y, lambda x, y, n: gnp.union1d(x, y, size=n)),
    "setxor1d": (Y + Y, lambda x, y, n: gnp.setxor1d(x, y, size=n)),
    "setdiff1d": (Y + Y, lambda x, y, n: gnp.setdiff1d(x, y, size=n)),
    "percentile": (Y + X, lambda x, q, n: gnp.percentile(x, q)),
    "quantile": (Y + X, lambda x, q, n: gnp.quantile(x, q)),
    "nanquantile": (Y + X, lambda x, q, n: gnp.nanquantile(x, q)),
    "median": (Y, lambda x, n: gnp.median(x)),
    "choice by probabilities": (X, lambda p, n: random.choice(key(), n, (n,), p=p)),
    "choice of few": (X, lambda p, n: random.choice(key(), n, (10,), False, p)),
    "choice without replacement": (Y, lambda x, n: random.choice(key(), x, (10,), False)),
    "permutation": (Y, lambda x, n: random.permutation(key(), x)),
    "multinomial": (X, lambda p, n: random.multinomial(key(), 100.0, p)),
    "categorical": (Y, lambda x, n: random.categorical(key(), x)),
    "rankdata": (Y, lambda x, n: stats.rankdata(x)),
    "mode": (I, lambda x, n: stats.mode(x)),
    "gaussian_kde": (Y + X, lambda x, y, n: stats.gaussian_kde(x[:1000])(y)),
    "integrate_kde": (
        Y + X,
        lambda x, y, n: stats.gaussian_kde(x[:1000]).integrate_kde(stats.gaussian_kde(y)),
    ),
    "vq": (Y + X, lambda x, codes, n: cluster.vq.vq(x, codes[:1000])),
    "polyval": (X + Y, lambda p, x, n: gnp.polyval(p[:10], x)),
    "piecewise": (Y, lambda x, n: gnp.piecewise(x, [x < 0, x > 1], [gnp.sin, gnp.cos, 0.0])),
    "select": (Y, lambda x, n: gnp.select([x < 0, x > 1], [x, 2 * x])),
    "take": (Y + I, lambda x, i, n: gnp.take(x, i, mode="wrap")),
    "take_along_axis": (Y + I, lambda x, i, n: gnp.take_along_axis(x, i, 0)),
    "take_along_axis one_hot": (
        Y + I,
        lambda x, i, n: gnp.take_along_axis(x, i, 0, mode="one_hot"),
    ),
    "put": (Y + I, lambda x, i, n: gnp.put(x, i, x, inplace=False)),
    "put_along_axis": (Y + I, lambda x, i, n: gnp.put_along_axis(x, i, x, 0, inplace=False)),
    "add at": (Y + I, lambda x, i, n: x.at[i].add(x)),
    "max at": (Y + I, lambda x, i, n: x.at[i].max(x)),
    "multiply at": (Y + I, lambda x, i, n: x.at[i].multiply(x)),
    "segment_sum": (Y + I, lambda x, i, n: ops.segment_sum(x, i, n)),
    "segment_max": (Y + I, lambda x, i, n: ops.segment_max(x, i, n)),
    "nonzero": (B, lambda x, n: gnp.nonzero(x, size=n)),
    "compress": (B + Y, lambda c, x, n: gnp.compress(c, x, size=n)),
    "place": (Y + B, lambda x, mask, n: gnp.place(x, mask, x, inplace=False)),
    "delete": (Y + I, lambda x, i, n: gnp.delete(x, i[: n // 2], assume_unique_indices=True)),
    "insert": (Y + I, lambda x, i, n: gnp.insert(x, i, x)),
    "repeat": (Y + I, lambda x, i, n: gnp.repeat(x, i % 3, total_repeat_length=n)),
    "choose": (I + Y, lambda i, x, n: gnp.choose(i, [x, x + 1], mode="clip")),
    "partition": (Y, lambda x, n: gnp.partition(x, n // 2)),
    "top_k": (Y, lambda x, n: lax.top_k(x, n // 2)),
    "cumlogsumexp": (Y, lambda x, n: lax.cumlogsumexp(x)),
    "map_coordinates": (Y + X, lambda x, at, n: ndimage.map_coordinates(x, [at], 1)),
    "fftconvolve": (Y + X, lambda x, y, n: signal.fftconvolve(x, y)),
    "gradient of pinv": (
        Y,
        lambda x, n: gn.grad(lambda x: gnp.linalg.pinv(x.reshape(n // 2, 2)).sum())(x),
    ),
    "gradient of pinv of a wide matrix": (
        Y,
        lambda x, n: gn.grad(lambda x: gnp.linalg.pinv(x.reshape(2, n // 2)).sum())(x),
    ),
    "one_hot of few": (I, lambda i, n: nn.one_hot(i[:10], n)),
}


def operands(kinds: str, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    floats = rng.random(n, np.float32)
    made = {X: np.sort(floats), Y: floats, I: rng.permutation(n).astype(np.int32), B: floats > 0.5}
    return [made[kind] for kind in kinds]


# ---------------------------------------------------------------------------------------- programs

TENSOR = re.compile(r"tensor<((?:\d+x)+)(?:complex<)?[a-z]+(\d+)")


def largest_tensor(function: Callable[..., Any], arguments: Sequence[Any]) -> int:
    """The bytes of the largest array in the program of a function."""
    program = str(gn.make_jaxpr(function)(*arguments))
    return max(
        math.prod(map(int, sizes[:-1].split("x"))) * (int(bits) + 7) // 8
        for sizes, bits in set(TENSOR.findall(program))
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_array_of_a_program_is_larger_than_operands_and_results(name: str) -> None:
    kinds, function = FUNCTIONS[name]
    dtypes = {X: np.float32, Y: np.float32, I: np.int32, B: np.bool_}
    arguments = [np.zeros(MILLION, dtypes[kind]) for kind in kinds]
    results = gn.tree_util.tree_leaves(gn.eval_shape(lambda *a: function(*a, MILLION), *arguments))
    bound = sum(math.prod(a.shape) * a.dtype.itemsize for a in (*arguments, *results))
    assert largest_tensor(lambda *a: function(*a, MILLION), arguments) <= 2 * bound


def test_the_first_nonzero_elements_take_no_number_for_each_element() -> None:
    x = np.zeros(MILLION, np.bool_)
    call = gn.jit(lambda x: gnp.nonzero(x, size=2)).lower(x).compile()
    analysis = call.memory_analysis()
    assert analysis.temp_size_in_bytes < 3 * x.nbytes
    x[[7, -1]] = True
    assert call(x)[0].tolist() == [7, MILLION - 1]


def test_the_largest_array_of_a_table_is_found() -> None:
    x = np.zeros(MILLION, np.float32)
    table = largest_tensor(lambda a, v: gnp.searchsorted(a, v, method="compare_all"), [x, x])
    assert table >= MILLION**2


# ------------------------------------------------------------------------------------- eager calls


def peak_of(function: Callable[..., Any], arguments: Sequence[Any]) -> int:
    """The most bytes of arrays that live at once in a call."""
    tracemalloc.start()
    try:
        gn.block_until_ready(function(*arguments))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_eager_calls_make_no_table() -> None:
    n = 20_000
    peaks = {}
    for name, (kinds, function) in FUNCTIONS.items():
        if name != "multinomial":  # draws one category after the other, which takes long
            arguments = [gnp.asarray(a) for a in operands(kinds, n)]
            peaks[name] = peak_of(lambda *a, f=function: f(*a, n), arguments)
    # A table has one byte at least for each of the n * n pairs.
    assert max(peaks.values()) < n * n / 2, peaks


def test_choice_of_a_million_by_probabilities_counts_its_bytes() -> None:
    (p,) = operands(X, MILLION)
    peak = peak_of(lambda p: random.choice(key(), MILLION, (MILLION,), p=p), [p])
    assert peak < 8 * (p.nbytes + 4 * MILLION)
