"""Jitted functions that LLVM compiles in this process, as users call them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.llvm.executable import Executable
from tests.tolerance import assert_each_near, assert_near


@pytest.fixture(autouse=True)
def compiler() -> Iterator[None]:
    before = gnomon.config.gnomon_cpu_compiler
    gnomon.config.update("gnomon_cpu_compiler", "llvm")
    yield
    gnomon.config.update("gnomon_cpu_compiler", before)


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_transformations_equal_the_evaluator() -> None:
    """One program with derivatives, factorizations, random numbers, a scan and a branch."""
    x, w = _normal(4, 3), _normal(3, 3)

    def programs(x: Any, w: Any) -> Any:
        def loss(w: Any) -> Any:
            return gnp.sum(gnp.tanh(x @ w) ** 2)

        matrix = w @ w.T + gnp.eye(3)
        return {
            "gradient": gnomon.grad(loss)(w),
            "hessian": gnomon.hessian(loss)(w),
            "solve": gnp.linalg.solve(matrix, gnp.ones(3)),
            "singular values": gnp.linalg.svd(w)[1],
            "normal": gnomon.vmap(lambda k: gnomon.random.normal(k, (2,)))(
                gnomon.random.split(gnomon.random.key(0), 2)
            ),
            "scan": lax.scan(lambda c, r: (c + r, c * r), gnp.zeros(3), x),
            "branch": lax.cond(x[0, 0] > 0, lambda: x.sum(0), lambda: x.max(0)),
            "sorted": gnp.sort(x, axis=0),
        }

    compiled = gnomon.jit(programs).lower(x, w).compile()
    assert isinstance(compiled.executable, Executable)
    with gnomon.disable_jit():
        expected = programs(gnp.asarray(x), gnp.asarray(w))
    assert_near(compiled(x, w), expected, units=32)
    assert compiled.memory_analysis().argument_size_in_bytes >= x.nbytes + w.nbytes


def test_products_round_their_operands_as_their_algorithms_say() -> None:
    x, y = _normal(4, 64), _normal(64, 3)

    def products(x: Any, y: Any) -> list[Any]:
        names = ("BF16_BF16_F32", "TF32_TF32_F32", "F16_F16_F32", "BF16_BF16_F32_X3")
        return [lax.dot(x, y, precision=name) for name in names]

    for found, expected in zip(
        gnomon.jit(products)(x, y), products(*map(gnp.asarray, (x, y))), strict=True
    ):
        assert_near(found, expected, units=32, scale=float(abs(expected).max()))


def test_logarithms_and_powers_of_subnormal_numbers() -> None:
    """They keep their digits, as NumPy's do: arithmetic does not flush them to zero."""

    def functions(x: Any, y: Any) -> Any:
        return gnp.log(x), gnp.log2(x), gnp.log10(x), gnp.log1p(x), gnp.power(x, y)

    with gnomon.enable_x64():
        arguments = []
        for dtype, sizes in ((np.float32, [1e-45, 1e-40, 1e-38]), (np.float64, [5e-324, 1e-310])):
            x = np.array([*sizes, *np.negative(sizes), 0.0, np.inf, 2.0], dtype)
            arguments.append((x, np.full_like(x, 0.4375)))
        found = gnomon.jit(lambda pairs: [functions(*pair) for pair in pairs])(arguments)
        with np.errstate(all="ignore"):
            expected = [
                [f(x) for f in (np.log, np.log2, np.log10, np.log1p)] + [np.power(x, y)]
                for x, y in arguments
            ]
        for ours, numpys in zip(found, expected, strict=True):
            for f, e in zip(ours, numpys, strict=True):
                assert_each_near(f, e, 4)


def test_calls_of_python() -> None:
    seen: list[np.ndarray] = []

    def doubled(y: Any) -> Any:
        seen.append(y)
        return np.asarray(y) * 2

    def body(i: Any, x: Any) -> Any:
        return gnomon.pure_callback(doubled, x, x)

    function = gnomon.jit(lambda x: lax.fori_loop(0, 3, body, x) + 1)
    for _ in range(2):
        np.testing.assert_array_equal(function(gnp.arange(3.0)), [1, 9, 17])
    # What the function has kept does not change when the program uses its memory again.
    np.testing.assert_array_equal(np.stack(seen[:3]), np.outer([1, 2, 4], np.arange(3)))


def test_exceptions_of_python_end_loops() -> None:
    calls = []

    def fails(y: Any) -> Any:
        calls.append(1)
        raise ValueError("mine")

    def body(c: Any) -> Any:
        return gnomon.pure_callback(fails, c, c)

    function = gnomon.jit(lambda x: lax.while_loop(lambda c: c < 5, body, x))
    for number in (1, 2):
        with pytest.raises(ValueError, match="mine"):
            function(1.0)
        assert len(calls) == number

    # A program that calls itself through Python, and fails inside, is as it was afterwards.
    def inner(y: Any) -> Any:
        with pytest.raises(ValueError, match="mine"):
            function(1.0)
        return np.asarray(y) + 1

    outer = gnomon.jit(lambda x: gnomon.pure_callback(inner, x, x))
    assert float(outer(1.0)) == 2.0


def test_threads_have_their_own_memory() -> None:
    function = gnomon.jit(lambda x: gnp.sort(gnp.cumsum(x[::-1]) * x))
    xs = [_normal(500) + k for k in range(8)]
    expected = [np.asarray(function(x)) for x in xs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: np.asarray(function(x)), xs * 4))
    for k, each in enumerate(found):
        np.testing.assert_array_equal(each, expected[k % 8])


def test_arguments_of_any_layout_and_donated_ones() -> None:
    x = _normal(6, 4)
    unaligned = np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(6, 4)
    function = gnomon.jit(lambda x: x + 1)
    for given in (x.T, x[::2], unaligned, x[:, ::-1]):
        np.testing.assert_array_equal(function(given), given + 1)
    donating = gnomon.jit(lambda x: x * 2, donate_argnums=0)
    given = gnp.asarray(x)
    np.testing.assert_array_equal(donating(given), x * 2)
    assert given.is_deleted()


def test_the_option_is_part_of_the_key_and_others_compile_as_before() -> None:
    function = gnomon.jit(lambda x: gnp.exp(x))
    first = function(gnp.ones(3))
    gnomon.config.update("gnomon_cpu_compiler", "iree")
    second = function(gnp.ones(3))
    np.testing.assert_allclose(first, second, rtol=3e-7)
    assert function._cache_size() == 2
    gnomon.config.update("gnomon_cpu_compiler", "llvm")
    assert gnomon.export.export(function)(gnp.ones(3)).call(gnp.ones(3)).shape == (3,)
    with pytest.raises(ValueError, match="takes one of 'auto', 'llvm', 'iree'"):
        gnomon.config.update("gnomon_cpu_compiler", "gcc")


def test_the_first_of_a_sort_are_selected() -> None:
    """Few of many are selected, others sorted; equal elements keep their order in both."""
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 9, (2, count)).astype(np.float32) for count in (40, 300, 1200)]
    counts = (1, 8, 32, 40)

    def first(*given: Any) -> Any:
        return [
            (lax.top_k(x, k), gnp.argsort(x, 1)[:, :k], gnp.sort(x, 1)[:, 1 : k + 1], gnp.max(x))
            for x in given
            for k in counts
        ]

    found = iter(gnomon.jit(first)(*given))
    for x in given:
        for k in counts:
            (values, places), order, smallest, _ = next(found)
            expected = np.argsort(-x, 1, kind="stable")[:, :k]
            np.testing.assert_array_equal(places, expected)
            np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))
            np.testing.assert_array_equal(order, np.argsort(x, 1, kind="stable")[:, :k])
            np.testing.assert_array_equal(smallest, np.sort(x, 1)[:, 1 : k + 1])


def test_calls_need_no_python() -> None:
    """Common calls run the native launcher, others the executable; both give the same."""
    f = gnomon.jit(lambda x, i: (x @ x + i, gnp.argmax(x, 1), x > 0, x.astype(gnp.bfloat16)))
    x = _normal(8, 8)
    expected = f(x, 1)
    calls = {
        "arrays": (gnp.asarray(x), 1),
        "columns": (np.asfortranarray(x), 1),
        "strided": (np.repeat(x, 2, axis=1)[:, ::2], 1),
        "read only": (gnp.asarray(x), np.int32(1)),
        "results": (f(gnp.linalg.inv(x), 0)[0] * 0 + x, 1),
    }
    for name, given in calls.items():
        for _ in range(3):
            for found, wanted in zip(f(*given), expected, strict=True):
                assert found.dtype == wanted.dtype
                assert_near(found, wanted, 0, message=name)
    assert not np.asarray(expected[0]).flags.writeable


def test_threads_and_donated_arguments_of_native_calls() -> None:
    large = gnomon.jit(lambda x: gnp.cumsum(gnp.sin(x)) + gnp.sum(x))
    x = _normal(40_000)
    expected = np.asarray(large(x))
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: np.asarray(large(x)), range(40)):
            np.testing.assert_array_equal(found, expected)
    step = gnomon.jit(lambda x: x + 1, donate_argnums=0)
    value = gnp.zeros(100)
    for _ in range(5):
        old, value = value, step(value)
        assert old.is_deleted()
    assert float(value[0]) == 5


def test_small_systems_are_solved_in_loops() -> None:
    def program(a: Any) -> Any:
        spd = a @ a.T + 9 * gnp.eye(a.shape[-1])
        factor = gnp.linalg.cholesky(spd)
        return {
            "solve": gnp.linalg.solve(spd, a),
            "determinant": gnp.linalg.det(a),
            "factor": factor,
            "triangular": lax.linalg.triangular_solve(factor, a, lower=True),
            "gradient": gnomon.grad(lambda a: gnp.linalg.slogdet(a)[1])(spd),
        }

    for rows, calls_lapack in ((3, False), (16, False), (17, True)):
        a = _normal(rows, rows)
        compiled = gnomon.jit(program).lower(a).compile()
        assert ("@host." in compiled.as_text()) is calls_lapack
        assert_near(compiled(a), program(gnp.asarray(a)), 2000)
