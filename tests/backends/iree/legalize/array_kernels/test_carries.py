"""Carries in kernels of vector code, how they get their new values, and the memory of values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, tree_util
from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.iree.legalize.array_kernels import array_kernel, carries
from gnomon.backends.iree.targets import find_target, incompatibility
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.tolerance import assert_near

Step = Callable[[Any], Any]


def _around(u: Any) -> Any:
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 3 * u[1:-1, 1:-1]


def _inner(u: Any) -> Any:
    """The part of the carry that is replaced is computed from its neighbours."""
    return u.at[1:-1, 1:-1].set(_around(u))


def _inner_read_before_and_after(u: Any) -> Any:
    new = u.at[1:-1, :].set(u[1:-1] - u[:-2] + new_row(u))
    return new + 0 * (u + new[::-1])


def new_row(u: Any) -> Any:
    return u[0] * 2


def _small_part(u: Any) -> Any:
    """Less than half of the carry is replaced."""
    return u.at[:2].set(u[1:3] - u[2:4])


def _twice(u: Any) -> Any:
    """The first and the last row depend on the inner ones."""
    return _inner(u).at[0].set(u[2]).at[-1].set(u[-3] * 2)


def _padded(u: Any) -> Any:
    return gnp.pad(_around(u), ((1, 1), (2, 0)), constant_values=2)


def _padded_value_in_use(u: Any) -> Any:
    around = _around(u)
    return gnp.pad(around, 1) + around.max()


def _rolled(u: Any) -> Any:
    return gnp.roll(u, 1, 0) - gnp.roll(u, -2, 1) + gnp.roll(u, (3, 1), (0, 1))


def _concatenated(u: Any) -> Any:
    return gnp.concatenate([u[-1:] + 1, u[1:-1] * 2 - u[:-2], u[:1]], 0)


def _elementwise(u: Any) -> Any:
    return u * 2 - (u + 1)


def _of_itself_and_shifted(u: Any) -> Any:
    return u * 2 - u[::-1]


def _many_values(u: Any) -> Any:
    """Memory is used again."""
    for axis in (0, 1, 0, 1, 0):
        u = gnp.roll(u, 1, axis) - u
    return u


def _nested(u: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, u: _padded(_inner(u)), u) - u


STEPS: dict[str, Step] = {
    f.__name__.strip("_"): f
    for f in (
        *(_inner, _inner_read_before_and_after, _small_part, _twice, _padded, _rolled),
        *(_padded_value_in_use, _concatenated, _elementwise, _of_itself_and_shifted),
        *(_many_values, _nested),
    )
}


def _pairs(state: Any) -> Any:
    """Of several carries, some trade places."""
    a, b, c, d = state
    v = b + a
    return _elementwise(a) + v, v, _inner(d), _padded(c)


def _copies(state: Any) -> Any:
    a, b, c, d = state
    new = _inner(a)
    return new, new, d, c + _rolled(b)


def _repeated(step: Step, state: Any, times: int) -> Any:
    return lax.fori_loop(0, times, lambda _, state: step(state), state)


def _all(x: Any) -> list[Any]:
    """All steps, repeated an odd and an even number of times."""
    results = [_repeated(step, x, times) for step in STEPS.values() for times in (1, 2, 5)]
    for step in (_pairs, _copies):
        results += _repeated(step, (x, x + 1, x + 2, x + 3), 3)
    return results


def _in_slices(x: Any) -> list[Any]:
    """The dtypes are compiled in several programs, of some of the steps each."""
    return [_repeated(STEPS[name], x, 3) for name in ("inner", "padded", "elementwise", "rolled")]


def _numbers(dtype: Any, *shape: int) -> np.ndarray:
    values = np.random.default_rng(0).integers(-3, 4, shape)
    return (values % 2 == 0) if dtype is bool else values.astype(dtype)


def _check(function: Callable[[Any], Any], x: np.ndarray, exact: bool = True) -> None:
    """Compare with NumPy; small integers are exact in every order of additions."""
    before = x.copy()
    with gn.enable_x64(True):
        expected = tree_util.tree_leaves(function(gnp.asarray(x)))
        compiled = gn.jit(function)
        for _ in range(2):
            found = tree_util.tree_leaves(compiled(x))
            for result, value in zip(found, expected, strict=True):
                if exact:
                    np.testing.assert_array_equal(np.asarray(result), np.asarray(value))
                else:
                    assert_near(np.asarray(result), np.asarray(value), 2.0**10, scale=1.0)
    np.testing.assert_array_equal(x, before)


def _lowered(function: Callable[[Any], Any], x: Any, target: str) -> Any:
    ensure_context()
    text = gn.jit(function).lower(x).as_text("gnomon")
    return iree_backend(target).lower(Program(ir.Module.parse(text)))


@pytest.fixture
def all_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carries, "_LEAST_BYTES_OF_TWO", 0)


@pytest.mark.usefixtures("all_in_turns")
def test_values() -> None:
    _check(_all, _numbers(np.int32, 7, 19))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(5, 4), (6, 16), (9, 17), (5, 70)])
@pytest.mark.usefixtures("all_in_turns")
def test_values_of_other_shapes(shape: tuple[int, int]) -> None:
    """Rows that are shorter than a vector, as long, a little longer, and of several vectors."""
    _check(_all, _numbers(np.int64, *shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint32, np.int64])
@pytest.mark.usefixtures("all_in_turns")
def test_dtypes(dtype: Any) -> None:
    _check(_in_slices, _numbers(dtype, 5, 35))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.usefixtures("all_in_turns")
def test_levels(level: str) -> None:
    if missing := incompatibility(find_target(level)):
        pytest.skip(missing)
    x = _numbers(np.float32, 7, 37)
    backend = iree_backend(level)
    artifact = _lowered(_in_slices, x, level)
    assert array_kernel.PREFIX in artifact.plan.code.decode()
    expected = [np.asarray(y) for y in _in_slices(gnp.asarray(x))]
    found = backend.compile(artifact)([x])
    for result, value in zip(found, expected, strict=True):
        np.testing.assert_array_equal(result.to_numpy(), value)


@pytest.mark.slow
@pytest.mark.usefixtures("all_in_turns")
def test_compiles_for_other_processors() -> None:
    artifact = _lowered(_in_slices, _numbers(np.float32, 7, 37), "aarch64-linux")
    assert iree_backend("aarch64-linux").executable_bytes(artifact)


@pytest.mark.usefixtures("all_in_turns")
def test_bools_and_complex_numbers() -> None:
    def function(x: Any) -> Any:
        def step(state: Any) -> Any:
            flags, numbers = state
            flags = flags.at[1:-1].set(flags[2:] ^ flags[:-2])
            return flags, numbers.at[1:-1].set(numbers[2:] * 1j - numbers[:-2])

        return _repeated(step, (x > 0, x + 1j * x[::-1]), 3)

    _check(function, _numbers(np.float32, 9, 21))


@pytest.mark.usefixtures("all_in_turns")
def test_ranks() -> None:
    """Ranks 1 and 6, and a rank of 0, which is a number."""

    def function(x: Any) -> Any:
        def step(state: Any) -> Any:
            row, six, number = state
            inner = six[:, 1:-1, :, :, 1:-1]
            near = six[:, 2:, :, :, 1:-1] - six[:, 1:-1, :, :, :-2]
            six = six.at[:, 1:-1, :, :, 1:-1].set(inner + near)
            return row.at[1:].set(row[:-1] - row[1:]), six, number + row[0]

        return _repeated(step, (x.ravel(), x.reshape(2, 5, 1, 3, 4, 1), x[0, 0]), 3)

    _check(function, _numbers(np.int32, 12, 10))


@pytest.mark.usefixtures("all_in_turns")
def test_in_transformations() -> None:
    """A loop whose trip count is not known, a mapped one, the gradient of one, and a branch."""

    def until(x: Any) -> Any:
        return lax.while_loop(
            lambda s: abs(s[0]).max() < 50, lambda s: (_inner(s[0]), s[1] + 1), (x, 0)
        )

    def loss(x: Any) -> Any:
        steps = lax.scan(lambda u, _: (_inner(u) * 0.5, u[1, 1]), x, None, length=4)
        return (steps[0] ** 2).sum() + steps[1].sum()

    def chosen(x: Any) -> Any:
        def step(i: Any, u: Any) -> Any:
            return lax.cond(i % 2 == 0, _inner, _padded, u)

        return lax.fori_loop(0, 4, step, x)

    def function(x: Any) -> Any:
        mapped = gn.vmap(lambda u: _repeated(_inner, u, 3))(gnp.stack([x, x * 2]))
        return until(x), mapped, gn.grad(loss)(x), gn.vmap(until)(gnp.stack([x, x + 1])), chosen(x)

    _check(function, _numbers(np.float32, 6, 18), exact=False)


# ------------------------------------------------------------------------------ the memory


def _code(function: Callable[[Any], Any], x: Any) -> str:
    return str(_lowered(function, x, "cpu").plan.code.decode())


def _scratch_bytes(function: Callable[[Any], Any], x: Any) -> int:
    """The bytes of memory that a loop takes as one kernel, besides its results."""
    call = next(line for line in _code(function, x).splitlines() if "flow.dispatch" in line)
    found = re.findall(r"tensor<(\d+)xi8>", call)
    return int(found[-1]) if found else 0


@pytest.mark.parametrize(
    ("step", "arrays"),
    [
        # Each step is one nest of loops, which reads one array and writes another.
        (_inner, 2),
        (_padded, 2),
        (_elementwise, 0),
        # Of the nine intermediate arrays, three are needed at a time.
        (_many_values, 5),
    ],
)
def test_memory(step: Step, arrays: int) -> None:
    x = np.zeros((64, 32), np.float32)
    assert _scratch_bytes(lambda x: _repeated(step, x, 9), x) == arrays * x.nbytes


@pytest.mark.parametrize(("shape", "arrays"), [((31, 33), 1), ((32, 32), 2)])
def test_small_carries_are_copied(shape: tuple[int, int], arrays: int) -> None:
    """On both sides of the threshold, the values are right; only memory differs."""
    x = _numbers(np.float32, *shape)
    function = lambda x: _repeated(_padded, x, 3)  # noqa: E731
    bytes_ = arrays * x.nbytes
    assert _scratch_bytes(function, x) == -(-bytes_ // 64) * 64
    _check(function, x)


def test_broadcasts_are_not_read_from_memory() -> None:
    """Constants and rows that a loop repeats are not stored, so the kernel has two operands."""

    def function(x: Any) -> Any:
        scale, row = gnp.full(x.shape, 3.0), gnp.broadcast_to(x[0] * 2, x.shape)
        return lax.fori_loop(0, 5, lambda _, u: u * scale - row, x)

    x = _numbers(np.float32, 70, 64)
    call = next(line for line in _code(function, x).splitlines() if "flow.dispatch" in line)
    assert "(tensor<70x64xf32>, tensor<64xf32>) -> tensor<70x64xf32>" in call
    _check(function, x)


# ------------------------------------------------------------------------------ which loops


def _costly(u: Any) -> Any:
    return gnp.sin(u) * gnp.exp(u)


@pytest.mark.parametrize(
    ("step", "size", "cores", "kernel"),
    [
        # Two threads gain less than separate kernels lose by their traffic of memory.
        (_inner, 256, 1, True),
        (_inner, 256, 2, True),
        (_inner, 256, 64, False),
        (_inner, 64, 64, True),
        (_costly, 256, 1, True),
        (_costly, 256, 2, False),
        (_costly, 64, 2, True),
        # Two arrays of 10 MiB leave the caches, and so does one of them.
        (_inner, 1024, 2, True),
        (_inner, 1600, 2, False),
        (_elementwise, 1024, 2, True),
        (_elementwise, 1600, 2, False),
    ],
)
def test_which_loops_are_kernels(
    step: Step, size: int, cores: int, kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_kernel, "available_cores", lambda: cores)
    function = lambda x: _repeated(step, x, 3)  # noqa: E731
    code = _code(function, np.zeros((size, size), np.float32))
    assert (array_kernel.PREFIX in code) == kernel
