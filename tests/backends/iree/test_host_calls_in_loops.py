"""Loops whose bodies leave the program: Python and the loop must see what was written before.

Programs combine a producer of the initial value, a call of Python, a library or a kernel of ours,
a loop around it, and another use of the initial value. Many of them are compiled as one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree import backend
from gnomon.backends.iree.options import CompileOptions
from tests.tolerance import assert_near

# Systems of this size are solved by LAPACK, and products are computed by its BLAS.
N = 16
F32 = np.float32
LITERAL = (np.arange(N * N, dtype=F32).reshape(N, N) % 7) / 4
SPREAD = np.eye(N, dtype=F32) * 4
LOWER = np.tril(np.full((N, N), 0.25, F32)) + SPREAD
IMAGES = (1, N, 4, 4)
WEIGHTS = np.linspace(-0.1, 0.1, N * N * 9, dtype=F32).reshape(N, N, 3, 3)

# Initial values of shape (N, N), from an argument and a number.
PRODUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "splat": lambda x, k: gnp.full((N, N), 0.5),
    "zeros": lambda x, k: gnp.zeros((N, N)),
    "eye": lambda x, k: gnp.eye(N),
    "iota": lambda x, k: lax.broadcasted_iota(F32, (N, N), 1),
    "literal": lambda x, k: gnp.asarray(LITERAL),
    "argument": lambda x, k: x,
    "spread_number": lambda x, k: gnp.full((N, N), k),
    "reshaped_splat": lambda x, k: gnp.full((N * N,), 2.0).reshape(N, N),
    "reshaped_literal": lambda x, k: gnp.asarray(LITERAL.ravel()).reshape(N, N),
    "reshaped_argument": lambda x, k: x.ravel().reshape(N, N),
    "sliced_literal": lambda x, k: gnp.asarray(np.vstack([LITERAL, LITERAL + 1]))[2 : 2 + N],
    "sliced_argument": lambda x, k: gnp.concatenate([x, x])[2 : 2 + N],
    "transposed": lambda x, k: x.T,
    "computed": lambda x, k: gnp.sin(x) + k,
    "product": lambda x, k: x @ (x * 0.1),
    "updated": lambda x, k: gnp.zeros((N, N)).at[1].set(x[0]),
    "called": lambda x, k: added(x),
    "factored": lambda x, k: gnp.linalg.cholesky(x @ x.T + SPREAD),
    "looped": lambda x, k: lax.fori_loop(0, 2, lambda i, c: added(c), gnp.ones((N, N))),
    "branch": lambda x, k: lax.cond(k > 0, lambda: gnp.ones((N, N)), lambda: gnp.zeros((N, N))),
    "random": lambda x, k: gn.random.uniform(gn.random.key(3), (N, N)),
}


def added(x: Any) -> Any:
    return gn.pure_callback(lambda v: np.asarray(v) + F32(1), gn.ShapeDtypeStruct(x.shape, F32), x)


def kept(x: Any) -> Any:
    """A callback with an effect."""
    shape = gn.ShapeDtypeStruct(x.shape, F32)
    return gn.experimental.io_callback(lambda v: np.asarray(v) * F32(0.5), shape, x)


def ordered(x: Any) -> Any:
    shape = gn.ShapeDtypeStruct(x.shape, F32)
    return gn.experimental.io_callback(lambda v: np.asarray(v) - F32(1), shape, x, ordered=True)


# What a step makes of the carry. The first operation of most reads the carry itself.
CALLS: dict[str, Callable[[Any], Any]] = {
    "callback": added,
    "io_callback": kept,
    "callback_of_a_row": lambda c: c.at[0].set(added(c[0])),
    "callback_of_transposed": lambda c: added(c.T),
    "callback_of_reshaped": lambda c: added(c.ravel()).reshape(N, N),
    "two_callbacks": lambda c: added(c) + kept(c),
    "callback_of_computed": lambda c: added(gnp.cos(c)),
    "computed_of_callback": lambda c: gnp.cos(added(c)),
    "solve": lambda c: gnp.linalg.solve(gnp.asarray(LITERAL + SPREAD), c),
    "solve_triangular": lambda c: gn.scipy.linalg.solve_triangular(LOWER, c, lower=True),
    "solve_by_carry": lambda c: gnp.linalg.solve(c, gnp.ones((N, 2))) @ gnp.ones((2, N)) + SPREAD,
    "cholesky": lambda c: gnp.linalg.cholesky(c),
    "inv": lambda c: gnp.linalg.inv(c),
    "qr": lambda c: abs(gnp.linalg.qr(c)[1]),
    "eigh": lambda c: gnp.diag(gnp.linalg.eigvalsh(c)) + SPREAD,
    "fourier": lambda c: gnp.fft.fft(c).real * 0.1,
    "library_product": lambda c: gnp.asarray(LITERAL) @ c * 0.1,
    "library_product_of_carry": lambda c: c @ c * 0.1,
    "library_convolution": lambda c: gnp.tanh(
        lax.conv(c.reshape(IMAGES), gnp.asarray(WEIGHTS), (1, 1), "SAME")
    ).reshape(N, N),
    "sort_kernel": lambda c: gnp.sort(c, 1)[::-1],
    "scatter_kernel": lambda c: c.at[gnp.array([0, 3, 3])].add(1.0),
    "cumulative_kernel": lambda c: gnp.cumsum(c, 0) * 0.1,
}


def counted(call: Any, c: Any, n: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: call(c), c)


def nested(call: Any, c: Any, n: Any) -> Any:
    inner = lambda i, c: lax.fori_loop(0, 2, lambda j, c: call(c), c)  # noqa: E731
    return lax.fori_loop(0, n, inner, c)


def with_two_carries(call: Any, c: Any, n: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, cs: (cs[1], call(cs[0])), (c, c))


def with_a_sum(call: Any, c: Any, n: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, cs: (call(cs[0]), cs[1] + cs[0].sum()), (c, 0.0))


def scanned(call: Any, c: Any, n: Any) -> Any:
    return lax.scan(lambda c, i: (call(c), c[0] * i), c, gnp.arange(3.0))


def branching(call: Any, c: Any, n: Any) -> Any:
    return lax.fori_loop(0, 4, lambda i, c: lax.cond(i % 2 == 1, call, lambda c: c, c), c)


def late(call: Any, c: Any, n: Any) -> Any:
    """A loop in a branch, whose other side passes the initial value on."""
    return lax.cond(n > 1, lambda c: counted(call, c, n), lambda c: c, c)


LOOPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "counted": counted,
    "to_an_argument": lambda call, c, n: lax.fori_loop(0, n, lambda i, c: call(c), c),
    "once": lambda call, c, n: lax.fori_loop(0, 1, lambda i, c: call(c), c),
    "never": lambda call, c, n: lax.fori_loop(0, n - 3, lambda i, c: call(c), c),
    "nested": nested,
    "two_carries": with_two_carries,
    "with_a_sum": with_a_sum,
    "while": lambda call, c, n: lax.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, call(s[1])), (0, c)
    ),
    "open_while": lambda call, c, n: lax.while_loop(
        lambda s: s[0] * s[0] < 5, lambda s: (s[0] + 1, call(s[1])), (0, c)
    ),
    "scan": scanned,
    "scan_over_rows": lambda call, c, n: lax.scan(lambda s, row: (call(s), row.sum()), c, c[:3]),
    "unrolled": lambda call, c, n: call(call(call(c))),
    "unrolled_scan": lambda call, c, n: lax.scan(
        lambda c, _: (call(c), None), c, None, length=4, unroll=2
    )[0],
    "branches": branching,
    "in_a_branch": late,
    "twice": lambda call, c, n: counted(call, counted(call, c, n), n),
}

# Other uses of the initial value.
USES: dict[str, Callable[[Any], Any]] = {
    "none": lambda c: 0,
    "returned": lambda c: c,
    "summed": lambda c: c.sum(),
    "computed": lambda c: c * 2,
    "called_back": added,
    "updated": lambda c: c.at[0].set(5.0),
    "looped": lambda c: lax.fori_loop(0, 2, lambda i, c: kept(c), c),
}


class Combination(NamedTuple):
    """The names of the parts of a program."""

    producer: str
    call: str
    loop: str
    use: str


def program(combinations: Sequence[Combination]) -> Callable[..., Any]:
    def function(x: Any, k: Any, n: Any) -> list[Any]:
        results = []
        for producer, call, loop, use in combinations:
            initial = PRODUCERS[producer](x, k)
            looped = LOOPS[loop](CALLS[call], initial, n)
            results.append((looped, USES[use](initial)))
        return results

    return function


def arguments() -> tuple[Any, ...]:
    x = np.random.default_rng(0).integers(0, 6, (N, N)).astype(F32) / 4 + np.eye(N, dtype=F32)
    return gnp.asarray(x), F32(1.5), np.int32(3)


def assert_same(actual: Any, expected: Any, combinations: Sequence[Combination]) -> None:
    """Factorizations repeat their errors in each iteration, so a few thousand units are right."""
    for combination, got, wanted in zip(combinations, actual, expected, strict=True):
        for a, b in zip(gn.tree.leaves(got), gn.tree.leaves(wanted), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            finite = np.abs(b[np.isfinite(b)])
            scale = float(finite.max()) if finite.size else 0.0
            assert_near(a, b, 4096, scale, message=str(combination))


def check(combinations: Sequence[Combination], calls: int = 2, **options: Any) -> None:
    """Run combinations as one program, several times, and compare them with the evaluator."""
    function = program(combinations)
    expected = function(*arguments())
    compiled = gn.jit(function, **options)
    for _ in range(calls):
        assert_same(compiled(*arguments()), expected, combinations)


def drawn(seed: int, count: int, **fixed: Sequence[str]) -> list[Combination]:
    """Random combinations, in which each part occurs about equally often."""
    rng = np.random.default_rng(seed)
    parts = zip(Combination._fields, (PRODUCERS, CALLS, LOOPS, USES), strict=True)

    def names(field: str, table: Any) -> Any:
        chosen = list(fixed.get(field, table))
        return itertools.islice(
            itertools.chain.from_iterable(rng.permutation(chosen) for _ in itertools.count()), count
        )

    columns = [[str(name) for name in names(field, table)] for field, table in parts]
    return [Combination(*row) for row in zip(*columns, strict=True)]


def incremented(x: Any) -> Any:
    return gn.pure_callback(lambda v: np.asarray(v) + v.dtype.type(1), x, x)


def repeated(call: Callable[[Any], Any], x: Any, times: int = 3) -> Any:
    return lax.fori_loop(0, times, lambda i, c: call(c), x)


DOUBLE = 2 * np.eye(N, dtype=F32)
# Programs of which nothing but the host reads the initial value: IREE would not compute it.
ALONE: dict[str, tuple[Callable[[], Any], Any]] = {
    "splat": (lambda: repeated(incremented, gnp.ones(4), 10), np.full(4, 11, F32)),
    "number": (lambda: repeated(incremented, gnp.float32(1)), F32(4)),
    "iota": (lambda: repeated(incremented, gnp.arange(4.0)), np.arange(3.0, 7, dtype=F32)),
    "reshaped": (
        lambda: repeated(incremented, gnp.ones(4, np.int8).reshape(2, 2)),
        np.full((2, 2), 4, np.int8),
    ),
    "solve": (
        lambda: repeated(lambda c: gnp.linalg.solve(gnp.asarray(DOUBLE), c), gnp.ones(N)),
        np.full(N, 0.125, F32),
    ),
    "solve_triangular": (
        lambda: repeated(lambda c: gn.scipy.linalg.solve_triangular(DOUBLE, c), gnp.full(N, 3.0)),
        np.full(N, 0.375, F32),
    ),
    "nested": (
        lambda: lax.fori_loop(0, 2, lambda i, c: repeated(incremented, c), gnp.ones(4)),
        np.full(4, 7, F32),
    ),
    "scan": (
        lambda: lax.scan(lambda c, _: (incremented(c), None), gnp.ones(4), length=3)[0],
        np.full(4, 4, F32),
    ),
    "branch": (
        lambda: lax.fori_loop(
            0, 3, lambda i, c: lax.cond(i > 0, incremented, lambda c: c, c), gnp.ones(4)
        ),
        np.full(4, 3, F32),
    ),
    "mapped": (
        lambda: gn.vmap(lambda k: repeated(incremented, gnp.full(3, 2.0)) + k)(gnp.arange(2.0)),
        np.array([[5, 5, 5], [6, 6, 6]], F32),
    ),
    "mapped_over_carries": (
        lambda: gn.vmap(
            lambda k: repeated(lambda c: gnp.linalg.solve(gnp.asarray(DOUBLE), c), gnp.ones(N)) + k
        )(gnp.arange(2.0)),
        np.array([[0.125] * N, [1.125] * N], F32),
    ),
}
QUICK = ("splat", "solve", "nested", "branch")


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ALONE],
)
def test_the_host_alone_reads_the_initial_value(name: str) -> None:
    function, expected = ALONE[name]
    compiled = gn.jit(function)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(), expected)


@pytest.mark.slow
def test_the_host_alone_reads_it_on_a_mapped_device() -> None:
    f = gn.pmap(lambda x: repeated(incremented, gnp.ones(4)) + x)
    np.testing.assert_array_equal(f(np.zeros((1, 4), F32)), np.full((1, 4), 4, F32))


def test_a_donated_initial_value() -> None:
    step = gn.jit(lambda x: repeated(incremented, x), donate_argnums=0)
    np.testing.assert_array_equal(step(step(gnp.ones(4))), np.full(4, 7, F32))


def on_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run programs on IREE's threads, where the host may come before a kernel that it needs."""
    monkeypatch.setattr(backend, "choose_options", lambda *_: CompileOptions("async"))


def test_random_combinations_on_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_pool(monkeypatch)
    check(drawn(0, 6))


def test_views_of_arguments_on_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument in another shape is a copy, which Python may read before it is made."""
    on_the_pool(monkeypatch)
    loops = ("counted", "nested", "while", "scan", "two_carries")
    producers = ("reshaped_literal", "reshaped_argument", "argument")
    check(
        [Combination(p, "callback", loop, "looped") for p in producers for loop in loops], calls=10
    )


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("seed", range(1, 25))
def test_more_random_combinations(seed: int) -> None:
    check(drawn(seed, 10))


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("seed", range(25, 37))
def test_more_random_combinations_on_the_pool(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_pool(monkeypatch)
    check(drawn(seed, 10))
