"""Selections and scatters as kernels, alone and in loops, on both sides of their thresholds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import export, lax
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.legalize.array_kernels import single_ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.backends.iree.joined import Call, check_joined
from tests.sample import sample

RNG = np.random.default_rng(0)
f32, f64, i32 = np.float32, np.float64, np.int32
KEYS = [f32, f64, np.float16, ml_dtypes.bfloat16, np.int8, i32, np.int64, np.uint8, np.uint64, bool]
MOST = single_ops.MOST_SELECTED


def with_ties(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Numbers of which many are equal, with zeros of both signs, infinities and nan."""
    x = RNG.integers(0, 9, shape).astype(dtype)
    if np.dtype(dtype).kind in "fV":
        special = np.array([np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf], f64).astype(dtype)
        x.flat[: special.size] = special[: x.size]
    return x


def code_of(function: Callable[..., Any], *arguments: Any, target: str = "cpu") -> str:
    """The compiler's input for a program."""
    ensure_context()
    with gn.enable_x64(True):
        text = gn.jit(function).lower(*arguments).as_text("gnomon")
    artifact = IreeBackend(target).lower(Program(ir.Module.parse(text)))
    return artifact.plan.code.decode() if artifact.plan.code is not None else ""


def as_numbers(x: Any) -> np.ndarray:
    """An array of a dtype whose nan NumPy recognizes."""
    x = np.asarray(x)
    return x.astype(f32) if x.dtype == ml_dtypes.bfloat16 else x


def assert_all_same(calls: dict[str, Call]) -> None:
    """Check that compiled results equal those of eager code, without a tolerance."""

    def compare(found: np.ndarray, expected: np.ndarray) -> None:
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(as_numbers(found), as_numbers(expected))

    with gn.enable_x64(True):
        check_joined(calls, compare)


def assert_same(function: Callable[..., Any], *arguments: Any) -> None:
    assert_all_same({"the program": (function, arguments)})


# -------------------------------------------------------------------------------------- selections


def test_selections_of_every_dtype() -> None:
    arguments = [with_ties((3, 40), dtype) for dtype in KEYS]

    def largest(*xs: Any) -> Any:
        return [lax.top_k(x, 7) for x in xs]

    assert single_ops._PREFIX in code_of(largest, *arguments)
    assert_same(largest, *arguments)


SHAPES = [
    ((9,), 1, 0),
    ((9,), 9, 0),
    ((1,), 1, 0),
    ((2000,), 8, 0),
    ((2, 300, 3), 5, 1),
    ((2, 1, 2, 20, 1, 2), 3, 3),
    ((MOST + 200,), MOST, 0),
    ((MOST + 200,), MOST + 1, 0),
    ((MOST + 200,), MOST + 200, 0),
    ((0, 4), 2, 1),
    ((4, 3), 0, 1),
]


def test_selections_of_every_shape() -> None:
    """Also of more than a kernel selects, of none, and from rows in the worst order."""
    arguments = [with_ties(shape, f32) for shape, _, _ in SHAPES]

    def largest(*xs: Any) -> Any:
        found = []
        for x, (_, k, axis) in zip(xs, SHAPES, strict=True):
            values, positions = lax.top_k(gnp.moveaxis(x, axis, -1), k)
            found += [values, positions]
        return found

    ramp = np.arange(500, dtype=f32)
    assert_all_same(
        {
            "shapes": (largest, arguments),
            "rising": (lambda x: lax.top_k(x, 9), (ramp,)),
            "falling": (lambda x: lax.top_k(x, 9), (ramp[::-1].copy(),)),
        }
    )


@pytest.mark.parametrize(("k", "is_kernel"), [(MOST, True), (MOST + 1, False)])
def test_which_selections_are_kernels(k: int, is_kernel: bool) -> None:
    code = code_of(lambda x: lax.top_k(x, k), np.ones(100000, f32))
    assert (single_ops._PREFIX in code) == is_kernel


def test_selections_in_loops_and_transformations() -> None:
    def beams(table: Any, start: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            scores, tokens = state
            scores, picked = lax.top_k((scores[:, None] + table[tokens]).reshape(-1), 4)
            return (scores, picked % 16), picked // 16

        return lax.scan(step, (start, gnp.arange(4, dtype=i32)), None, length=6)

    table, start = RNG.normal(size=(16, 16)).astype(f32), np.zeros(4, f32)
    code = code_of(beams, table, start)
    assert "gnomon_loop_" in code and "host." not in code

    def chosen(x: Any, i: Any) -> Any:
        few = lambda x: (x[:2], x[2:4].astype(i32))  # noqa: E731
        return lax.cond(i > 0, lambda x: lax.top_k(x, 2), few, x)

    assert_all_same(
        {
            "in a scan": (beams, (table, start)),
            "mapped": (gn.vmap(lambda x: lax.top_k(x, 3)), (with_ties((5, 30), f32),)),
            "gradient": (
                gn.grad(lambda x: (lax.top_k(x, 3)[0] ** 2).sum()),
                (np.cos(np.arange(30.0)),),
            ),
            "in a branch": (chosen, (with_ties((30,), f32)[6:], i32(1))),
        }
    )


# ---------------------------------------------------------------------------------------- scatters

ROWS = np.array([3, 0, 3, 3, 11, -20, 7, 2, 0, 9, 10, 3], i32)


def updated(x: Any, rows: Any, u: Any) -> Any:
    """All kinds of updates of rows, which repeat, and of which some are out of bounds."""
    at = x.at[rows]
    results = [at.set(u[0]), at.min(u), at.max(u)]
    return results if x.dtype == bool else [*results, at.add(u), at.multiply(u)]


def test_scatters_of_every_dtype() -> None:
    # Rows are less than a vector, or more.
    cases = product((1, 5, 33), [*KEYS, np.uint32, np.complex64, np.complex128])
    chosen = sample(cases, 10, "scatters")
    arrays = [RNG.integers(0, 5, (10, width)).astype(d) for width, d in chosen]
    updates = [RNG.integers(0, 3, (ROWS.size, width)).astype(d) for width, d in chosen]

    def every(rows: Any, *given: Any) -> Any:
        half = len(given) // 2
        return [
            [x.at[rows].set(u[0]), x.at[rows].add(u)]
            if gnp.iscomplexobj(x)
            else updated(x, rows, u)
            for x, u in zip(given[:half], given[half:], strict=True)
        ]

    assert single_ops._PREFIX in code_of(every, ROWS, *arrays, *updates)
    assert_same(every, ROWS, *arrays, *updates)


def test_scatters_of_nan_and_of_other_shapes() -> None:
    x = with_ties((11, 3), f32)
    six = np.ones((2, 3, 1, 2, 2, 4), f32)
    functions: dict[str, Callable[[Any, Any], Any]] = {
        "nan": lambda x, r: [x.at[r].max(x[0]), x.at[r].min(x[1]), x.at[r].add(x[r])],
        "no rows": lambda x, r: x.at[r[:0]].add(1),
        "of nothing": lambda x, r: x[:0].at[r].add(1),
        "unsigned rows": lambda x, r: x.at[r.astype(gnp.uint64)].add(2),
        "segments": lambda x, r: gn.ops.segment_sum(
            x, gnp.sort(r)[:11], 9, indices_are_sorted=True
        ),
    }
    calls: dict[str, Call] = {name: (f, (x, ROWS)) for name, f in functions.items()}
    calls["rank 6"] = lambda x, r: x.at[:, r[:5] % 4, :, :, 0].add(x[0, 0, 0, 0]), (six, ROWS)
    assert_all_same(calls)


def test_scatters_in_loops_and_transformations() -> None:
    def counted(x: Any, rows: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            x, old = state
            new = x.at[(rows + i) % 13].add(x[rows % 10] + 1)
            return new.at[rows].set(0.5), old.at[rows].max(new[i]) + x[0]

        return lax.fori_loop(0, 5, step, (x, x))

    x = RNG.integers(0, 5, (10, 6)).astype(f32)
    code = code_of(counted, x, ROWS)
    assert "gnomon_loop_" in code and "stablehlo.scatter" not in code
    assert_all_same(
        {
            "in a loop": (counted, (x, ROWS)),
            "mapped": (
                gn.vmap(lambda x: x.at[ROWS % 4].add(x[:1])),
                (RNG.integers(0, 5, (3, 6, 2)).astype(f32),),
            ),
            "gradient": (gn.grad(lambda x: (x[ROWS] * x[ROWS]).sum()), (x,)),
        }
    )


def test_the_arguments_of_scatters_are_kept() -> None:
    x = np.zeros((4, 8), f32)
    given = gnp.asarray(x)
    gn.jit(lambda x: x.at[gnp.array([1, 1])].add(1.0))(given)
    np.testing.assert_array_equal(np.asarray(given), np.zeros((4, 8)))


# ------------------------------------------------------------------------------ artifacts, targets


def test_sorts_of_whole_arrays_are_left_alone() -> None:
    """They are not stable; in programs with scalar loops, the attribute that says so is missing."""

    def search(x: Any, value: Any) -> Any:
        return gnp.searchsorted(gnp.sort(x), value)

    calls: dict[str, Call] = {
        dtype.__name__: (search, (np.array([3, 1, 2, 5, 4], dtype), np.array(2, dtype)))
        for dtype in (np.int64, f64, i32, f32)
    }
    assert_all_same(calls)


def test_exported_programs_keep_the_kernels() -> None:
    """They need neither the compiler nor a library."""
    a = RNG.normal(size=(300, 300)).astype(f32)

    def f(a: Any, rows: Any) -> Any:
        return lax.top_k((a @ a).at[rows].add(1.0), 3)

    exported = export.export(gn.jit(f))(a, ROWS)
    loaded = export.deserialize(exported.serialize())
    for found, expected in zip(loaded.call(a, ROWS), f(gnp.asarray(a), ROWS), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    "target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "znver5", "aarch64-linux", "riscv64-linux"]
)
def test_kernels_compile_for_other_processors(target: str) -> None:
    ensure_context()

    def f(x: Any, rows: Any) -> Any:
        return lax.top_k(x.at[rows].add(x[0]), 3)

    text = gn.jit(f).lower(np.ones((20, 40), f32), ROWS).as_text("gnomon")
    backend = IreeBackend(target)
    artifact = backend.lower(Program(ir.Module.parse(text)))
    assert artifact.plan.code.decode().count("stream.executable.export") >= 2
    assert backend.executable_bytes(artifact)
