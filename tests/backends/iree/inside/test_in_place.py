"""Updates of values that something else needs: nothing but the update's result may change.

Programs combine a producer of a value, an update of it, another use of the old value, and the order
of the two. Whole numbers make nearly all results exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.backends.iree.joined import Call, check_joined
from tests.tolerance import assert_near

N = 5
F32 = np.float32
Producer = Callable[[Any, Any], Any]
Update = Callable[[Any, Any, Any], Any]
LITERAL = np.arange(N * N, dtype=F32).reshape(N, N) % 7
SPREAD = np.eye(N, dtype=F32) * 9


def definite(x: Any) -> Any:
    return x @ x.T + SPREAD * 99


def same(x: Any) -> Any:
    return gn.pure_callback(lambda v: v, gn.ShapeDtypeStruct((N, N), F32), x)


def stacked(x: Any, i: Any) -> Any:
    return lax.scan(lambda c, row: (c + row, c), x[0], x)[1]


def carried(x: Any, i: Any) -> Any:
    return lax.fori_loop(0, 3, lambda k, c: c.at[k + i].add(c[k]), x)


def searched(x: Any, i: Any) -> Any:
    step = lambda c: (c[0] + 1, c[1].at[c[0], 0].set(c[1][c[0], 1]))  # noqa: E731
    return lax.while_loop(lambda c: (c[0] < 3) & (c[1][0, 0] < 1e6), step, (i, x))[1]


# Ways to make a value of shape (N, N) from an array and a position.
PRODUCERS: dict[str, Producer] = {
    "argument": lambda x, i: x,
    "argument_reshaped": lambda x, i: x.reshape(N * N).reshape(N, N),
    "argument_transposed": lambda x, i: x.T,
    "argument_sliced": lambda x, i: gnp.concatenate([x, x])[2 : 2 + N],
    "literal": lambda x, i: gnp.asarray(LITERAL),
    "splat": lambda x, i: gnp.full((N, N), 3.0),
    "iota": lambda x, i: lax.broadcasted_iota(F32, (N, N), 0),
    "elementwise": lambda x, i: x * 3,
    "converted": lambda x, i: (x.astype(np.int32) * 2).astype(F32),
    "product": lambda x, i: x @ x,
    "sum": lambda x, i: x + x.sum(0),
    "sort": lambda x, i: gnp.sort(x, 0),
    "long_sort": lambda x, i: gnp.sort(gnp.tile(x.ravel(), 1400))[: N * N].reshape(N, N),
    "cumsum": lambda x, i: gnp.cumsum(x, 0),
    "gather": lambda x, i: x[(gnp.arange(N) + i) % N],
    "reversed": lambda x, i: x[::-1],
    "slice": lambda x, i: lax.dynamic_slice(gnp.tile(x, (2, 2)), (i, i), (N, N)),
    "pad": lambda x, i: gnp.pad(x[1:], ((0, 1), (0, 0))),
    "concatenate": lambda x, i: gnp.concatenate([x[2:], x[:2] * 2]),
    "select": lambda x, i: gnp.where(x > 1, x, -x),
    "window": lambda x, i: lax.reduce_window(x, F32(0), lax.add, (2, 1), (1, 1), "SAME"),
    "updated": lambda x, i: (x + 1).at[i].set(7.0),
    "scattered": lambda x, i: (x * 2).at[gnp.array([0, 2, 2])].add(1.0),
    "cholesky": lambda x, i: gnp.linalg.cholesky(definite(x)),
    "inverse": lambda x, i: gnp.linalg.inv(definite(x)) * 1e3,
    "solve": lambda x, i: gnp.linalg.solve(definite(x), x) * 1e3,
    "qr": lambda x, i: abs(gnp.linalg.qr(definite(x))[1]),
    "eigh": lambda x, i: gnp.diag(gnp.linalg.eigh(definite(x))[0]) + 1,
    "callback": lambda x, i: same(x * 2),
    "callback_of_argument": lambda x, i: same(x),
    "stacked": stacked,
    "carried": carried,
    "searched": searched,
    "branch": lambda x, i: lax.cond(i > 0, lambda x: x, lambda x: x * 2, x),
    "branch_of_literals": lambda x, i: lax.cond(
        i > 0, lambda: gnp.asarray(LITERAL), lambda: gnp.zeros((N, N))
    ),
    "called": lambda x, i: gn.jit(lambda x: x - 1)(x),
    "random": lambda x, i: gn.random.randint(gn.random.key(i), (N, N), 0, 9).astype(F32),
    "fourier": lambda x, i: gnp.fft.fft(x).real,
}

# Ways to update a value, given a position and rows to write.
UPDATES: dict[str, Update] = {
    "slice_update": lambda a, i, u: lax.dynamic_update_slice(a, u[:2, :2], (i, i)),
    "slice_update_here": lambda a, i, u: lax.dynamic_update_slice(a, u[:1], (2, 0)),
    "set": lambda a, i, u: a.at[i, 0].set(70.0),
    "set_row": lambda a, i, u: a.at[i].set(u[0]),
    "set_static": lambda a, i, u: a.at[1].set(u[0]),
    "set_slice": lambda a, i, u: a.at[1:3].set(u[:2]),
    "set_strided": lambda a, i, u: a.at[::2, 1].set(70.0),
    "set_of_itself": lambda a, i, u: a.at[i].set(a[i + 1] * 2),
    "moved_in_itself": lambda a, i, u: a.at[1:3].set(a[0:2]),
    "add": lambda a, i, u: a.at[i].add(u[0]),
    "add_static": lambda a, i, u: a.at[3].add(u[0]),
    "add_rows": lambda a, i, u: a.at[gnp.array([0, 3, 3])].add(u[:3]),
    "multiply": lambda a, i, u: a.at[i].multiply(2.0),
    "divide": lambda a, i, u: a.at[i, 1:3].divide(2.0),
    "power": lambda a, i, u: a.at[i].power(2.0),
    "min": lambda a, i, u: a.at[gnp.array([1, 1, 4])].min(u[:3]),
    "max": lambda a, i, u: a.at[i].max(u[1]),
    "apply": lambda a, i, u: a.at[i].apply(lambda v: v - 1),
    "columns": lambda a, i, u: a.at[:, gnp.array([0, 2])].set(u[:, :2]),
    "mapped": lambda a, i, u: gn.vmap(lambda row, v: row.at[i].set(v))(a, u[0]),
    "loop": lambda a, i, u: lax.fori_loop(0, 3, lambda k, c: c.at[k].set(u[k] + c[4]), a),
    "scan": lambda a, i, u: lax.scan(lambda c, v: (c.at[i].add(v), v), a, u)[0],
    "branch": lambda a, i, u: lax.cond(i > 0, lambda a: a.at[i].set(70.0), lambda a: a, a),
    "twice": lambda a, i, u: a.at[i].set(u[0]).at[i + 1].set(a[i]),
}

# Other uses of the old value.
USES: dict[str, Callable[[Any, Any], Any]] = {
    "returned": lambda a, i: a,
    "returned_twice": lambda a, i: (a, a),
    "transposed": lambda a, i: a.T,
    "reshaped": lambda a, i: a.ravel(),
    "sliced": lambda a, i: a[1:3],
    "row": lambda a, i: a[i],
    "summed": lambda a, i: a.sum(),
    "multiplied": lambda a, i: a @ (a > 2).astype(F32),
    "mapped": lambda a, i: -a,
    "converted": lambda a, i: a.astype(np.int32),
    "gathered": lambda a, i: a[gnp.array([3, 0])],
    "sorted": lambda a, i: gnp.sort(a),
    "called_back": lambda a, i: same(a),
    "looped": lambda a, i: lax.fori_loop(0, 2, lambda k, s: s + a[k], a[4]),
    "carried": lambda a, i: lax.fori_loop(0, 2, lambda k, c: c.at[k].add(1.0), a),
    "updated_too": lambda a, i: a.at[i + 1].set(-1.0),
}

Combination = tuple[str, str, str, bool, bool]


def program(combinations: Sequence[Combination]) -> Callable[..., Any]:
    """A function of an array, a place, and rows: the results of several combinations."""

    def function(x: Any, i: Any, u: Any) -> list[Any]:
        results = []
        for k, (producer, update, use, use_first, one_more) in enumerate(combinations):
            rows = u * (k + 1)
            value = PRODUCERS[producer](x + k if producer != "argument" and k else x, i)
            if use_first:
                used = USES[use](value, i)
                updated = UPDATES[update](value, i, rows)
            else:
                updated = UPDATES[update](value, i, rows)
                used = USES[use](value, i)
            results.append((used, updated, x + (k + 1)) if one_more else (used, updated))
        return results

    return function


def check(combinations: Sequence[Combination]) -> None:
    """Run combinations twice as one program; compare results and arguments with the evaluator."""
    rng = np.random.default_rng(0)
    x, u = (rng.integers(0, 6, (N, N)).astype(F32) for _ in range(2))
    function = program(combinations)
    compiled = gn.jit(function)
    given = [gnp.asarray(x.copy()), np.int32(1), gnp.asarray(u.copy())]
    wanted = function(*given)
    for _ in range(2):
        for combination, got, expected in zip(combinations, compiled(*given), wanted, strict=True):
            for a, b in zip(gn.tree.leaves(got), gn.tree.leaves(expected), strict=True):
                assert_near(np.asarray(a), np.asarray(b), 64, message=str(combination))
    np.testing.assert_array_equal(np.asarray(given[0]), x)
    np.testing.assert_array_equal(np.asarray(given[2]), u)


def drawn(seed: int, count: int, producers: Sequence[str] | None = None) -> list[Combination]:
    rng = np.random.default_rng(seed)
    names = [list(producers or PRODUCERS), list(UPDATES), list(USES)]
    return [
        (*(str(rng.choice(n)) for n in names), bool(rng.integers(2)), bool(rng.integers(2)))
        for _ in range(count)
    ]  # type: ignore[misc]


@pytest.mark.parametrize("producer", ["cholesky", "inverse", "callback", "stacked", "argument"])
def test_a_returned_value_is_not_updated(producer: str) -> None:
    check([(producer, "set", "returned", True, False)])


def test_an_update_whose_reader_may_run_later() -> None:
    def function(i: Any, u: Any, y: Any, z: Any) -> Any:
        u = u * 2
        a = y * 3
        return a, lax.dynamic_update_slice(a, u, (i, i)), z + 1

    y = np.arange(25, dtype=F32).reshape(5, 5)
    got = gn.jit(function)(np.int32(1), -y[:2, :2] - 1, y, y)
    np.testing.assert_array_equal(np.asarray(got[0]), y * 3)
    assert np.asarray(got[1])[1, 1] == -2


def test_stacked_carries_are_returned_as_they_were() -> None:
    def function(c: Any, xs: Any) -> Any:
        ys = lax.scan(lambda c, x: (c, c), c, xs)[1]
        return ys, ys.at[3].multiply(c)

    old, new = gn.jit(function)(np.int32(3), np.zeros((8, 5), F32))
    np.testing.assert_array_equal(np.asarray(old), np.full(8, 3))
    np.testing.assert_array_equal(np.asarray(new), np.where(np.arange(8) == 3, 9, 3))


def test_a_donated_argument_is_updated_once() -> None:
    step = gn.jit(lambda x, i: (x.at[i].set(7.0), x.sum()), donate_argnums=0)
    x = gnp.arange(6.0)
    for k in range(3):
        x, total = step(x, k)
        assert float(total) == sum([7.0] * k + list(range(k, 6)))


def test_values_of_other_dtypes_are_copied() -> None:
    dtypes = [np.bool_, np.int8, np.float16, np.complex64]
    arrays = [np.arange(12).reshape(3, 4).astype(dtype) for dtype in dtypes]

    @gn.jit
    def function(arrays: list[Any], i: Any) -> list[Any]:
        return [(y := x[::-1] * x, y.at[i].set(x.dtype.type(0))) for x in arrays]

    for x, (old, new) in zip(arrays, function(arrays, 1), strict=True):
        name = x.dtype.name
        np.testing.assert_array_equal(np.asarray(old), x[::-1] * x, name)
        np.testing.assert_array_equal(np.asarray(new)[[0, 2]], (x[::-1] * x)[[0, 2]], name)
        assert not np.asarray(new)[1].any(), name


@pytest.mark.parametrize("literal", [np.float64(2), np.int64(-7), np.complex64(2 + 1j)])
def test_literals_of_64_bits_are_written_for_each_use(literal: Any) -> None:
    """IREE writes them by a kernel, and takes equal kernels for one after it has planned copies."""

    def updated(y: Any) -> Any:
        a = gnp.full(6, literal)
        return a, a.at[1].set(y), a.reshape(2, 3)

    def looped(y: Any) -> Any:
        a = gnp.full(6, literal)

        def step(k: Any, c: Any) -> Any:
            return gnp.full(6, literal).at[k].add(y) + c.at[1].set(y)

        return a, lax.fori_loop(0, 3, step, a)

    with gn.enable_x64():
        y = literal * 3
        for function in (updated, looped):
            compiled, wanted = gn.jit(function), gn.tree.leaves(function(y))
            for _ in range(2):
                for a, b in zip(gn.tree.leaves(compiled(y)), wanted, strict=True):
                    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


STENCILS: dict[str, Callable[[Any], Any]] = {
    "diffused": lambda u: u.at[1:-1].set(u[1:-1] + (u[2:] - 2 * u[1:-1] + u[:-2]) / 4),
    "shifted_up": lambda u: u.at[1:].set(u[:-1]),
    "shifted_down": lambda u: u.at[:-1].set(u[1:] * 2),
}


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("shape", [(17,), (1000,), (40, 9)])
def test_rows_computed_from_what_they_overwrite(shape: tuple[int, ...]) -> None:
    """The loop makes a kernel of its own, whose presence changes how IREE writes the rows."""

    def uses(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def function(u: Any) -> Any:
            counted = lax.fori_loop(0, 2, lambda k, c: c.at[k].add(1.0), u)
            looped = lax.fori_loop(0, 3, lambda _, c: step(c), u)
            return step(u + 1), step(step(u * 2)), looped, counted

        return function

    u = np.random.default_rng(0).integers(0, 9, shape).astype(F32)
    calls: dict[str, Call] = {name: (uses(step), (u,)) for name, step in STENCILS.items()}
    check_joined(calls, lambda got, expected: assert_near(got, expected, 4))


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("seed", range(2))
def test_random_combinations(seed: int) -> None:
    check(drawn(seed, 6))


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("number", range(len(PRODUCERS)))
def test_every_producer_and_every_update(number: int) -> None:
    """Each producer meets a third of the updates; each update, a third of the producers."""
    producer = list(PRODUCERS)[number]
    rng = np.random.default_rng(number)
    uses = itertools.cycle(rng.permutation(list(USES)))
    check(
        [
            (producer, update, str(next(uses)), bool(rng.integers(2)), bool(rng.integers(2)))
            for update in list(UPDATES)[number % 3 :: 3]
        ]
    )


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("seed", range(100, 120))
def test_more_random_combinations(seed: int) -> None:
    check(drawn(seed, 8))
