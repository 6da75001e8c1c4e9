"""Products by NumPy's BLAS: results, layouts, special values, and which programs call it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.errors import ExecutionError
from gnomon.backends.iree import blas
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.emission import code_kinds
from gnomon.backends.iree.legalize import library_products
from gnomon.backends.iree.legalize.legalization import without
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.iree.legalize.reductions import convolution
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.ops.check import DTYPES, all_rows, check_compiled
from tests.sample import sample
from tests.tolerance import assert_near

f32, f64 = np.float32, np.float64
CALL = re.compile(rb"gnomon_products_\w+::")

pytestmark = pytest.mark.skipif(
    not blas.has_products(), reason="NumPy ships no OpenBLAS that kernels could call"
)


@pytest.fixture
def all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library computes products of all sizes."""
    monkeypatch.setattr(library_products, "SMALLEST", {"f32": 1, "f64": 1})
    monkeypatch.setattr(library_products, "SMALLEST_ITEM", 1)
    monkeypatch.setattr(library_products, "NARROWEST", 1)
    monkeypatch.setattr(library_products, "SHORTEST", 1)
    monkeypatch.setattr(library_products, "FEWEST_FEATURES", 1)
    monkeypatch.setattr(library_products, "SMALLEST_TRANSPOSED", 1)
    # Small products are split too.
    monkeypatch.setattr(library_products, "_PER_THREAD", 1)


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with gn.enable_x64(True):
        yield


BACKEND = IreeBackend("cpu")
WITHOUT = IreeBackend("cpu", without(LEGALIZATIONS, "library-products"))


def lowered(function: Callable[..., Any], *arguments: Any, backend: IreeBackend = BACKEND) -> Any:
    ensure_context()
    text = gn.jit(function).lower(*arguments).as_text("gnomon")
    return backend.lower(Program(ir.Module.parse(text)))


def calls(artifact: Any) -> int:
    """The dispatches of the library's kernels in the compiler's input."""
    return len(CALL.findall(artifact.plan.code or b""))


def run(artifact: Any, *arguments: Any, backend: IreeBackend = BACKEND) -> list[np.ndarray]:
    return [x.to_numpy() for x in backend.compile(artifact)(arguments)]


def numbers(*shape: int, seed: int = 0, dtype: Any = f64) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_half_of_the_products_of_the_table(all_sizes: None) -> None:
    rows = [row for row in all_rows() if row.op == "dot_general"]
    cases = [(row, DTYPES[n]) for row in rows for n in row.dtypes.split() if n in "f32 f64 c128"]
    check_compiled(BACKEND, sample(cases, len(cases) // 2, __name__))


@pytest.mark.parametrize("dtype", [f32, f64])
def test_the_thresholds_decide(dtype: Any) -> None:
    large, small = numbers(512, 512, dtype=dtype), numbers(8, 8, dtype=dtype)
    assert calls(lowered(gnp.matmul, large, large)) == 1
    assert calls(lowered(gnp.matmul, small, small)) == 0
    assert calls(lowered(gnp.matmul, large, large[:, :4])) == 0
    assert calls(lowered(gnp.matmul, large.astype(np.int64), large.astype(np.int64))) == 0


LAYOUTS: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
    ("ij,jk->ik", (33, 70), (70, 41)),
    ("ji,jk->ik", (70, 33), (70, 41)),
    ("ij,kj->ik", (33, 70), (41, 70)),
    ("ji,kj->ik", (70, 33), (41, 70)),
    ("bij,bjk->bik", (5, 9, 7), (5, 7, 11)),
    ("bthd,bshd->bhts", (2, 9, 3, 5), (2, 8, 3, 5)),
    ("bhts,bshd->bhtd", (2, 3, 9, 8), (2, 8, 3, 5)),
    ("abij,abjk->abik", (3, 4, 5, 6), (3, 4, 6, 7)),
    ("ijk,jkl->il", (6, 4, 5), (4, 5, 7)),
    ("ijk,kjl->il", (6, 4, 5), (5, 4, 7)),
    ("ij,j->i", (30, 20), (20,)),
    ("i,i->", (30,), (30,)),
    ("i,j->ij", (30,), (20,)),
    ("ij,jk->ik", (30, 1), (1, 20)),
    ("ij,jk->ik", (3, 0), (0, 4)),
    ("ij,jk->ik", (0, 3), (3, 4)),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [f32, f64])
def test_layouts(all_sizes: None, dtype: Any) -> None:
    operands = [
        (numbers(*lhs, dtype=dtype), numbers(*rhs, seed=1, dtype=dtype)) for _, lhs, rhs in LAYOUTS
    ]

    def products(operands: Any) -> list[Any]:
        return [
            gnp.einsum(subscripts, *pair)
            for (subscripts, _, _), pair in zip(LAYOUTS, operands, strict=True)
        ]

    results = run(lowered(products, operands), *(x for pair in operands for x in pair))
    for layout, (a, b), result in zip(LAYOUTS, operands, results, strict=True):
        expected = np.einsum(layout[0], a.astype(f64), b.astype(f64)).astype(dtype)
        assert result.dtype == expected.dtype
        scale = float(np.max(np.abs(a), initial=1))
        assert_near(result, expected, 4 * max(1, *a.shape), scale=scale, message=str(layout))
        if not a.size:
            assert calls(lowered(lambda a, b, s=layout[0]: gnp.einsum(s, a, b), a, b)) == 0


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "features last": ((2, 9, 11, 5), (3, 3, 5, 7), {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}),
    "features first": ((2, 5, 9, 11), (7, 5, 3, 2), {}),
    "strides": ((2, 5, 19, 21), (7, 5, 3, 3), {"window_strides": (2, 3), "padding": "VALID"}),
    "dilations": (
        (2, 5, 9, 11), (7, 5, 3, 3),
        {"rhs_dilation": (2, 1), "lhs_dilation": (1, 2), "padding": ((3, 1), (0, -1))},
    ),
    "one dimension": ((3, 6, 70), (8, 6, 5), {"window_strides": (1,)}),
    "three dimensions": ((2, 3, 6, 7, 8), (5, 3, 3, 2, 3), {"window_strides": (1, 2, 1)}),
    "an image": ((2, 1, 40, 40), (5, 1, 5, 5), {}),
}  # fmt: skip


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", [f32, f64])
def test_convolutions(all_sizes: None, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    operands = [
        tuple(rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes)
        for *shapes, _ in CONVOLUTIONS.values()
    ]

    def all_of_them(operands: Any) -> list[Any]:
        return [
            lax.conv_general_dilated(
                x, w, **{"window_strides": (1, 1), "padding": "SAME", **parameters}
            )
            for (x, w), (*_, parameters) in zip(operands, CONVOLUTIONS.values(), strict=True)
        ]

    artifact = lowered(all_of_them, operands)
    assert artifact.plan.code.count(b"::@products_windows_") == len(operands)
    results = run(artifact, *(x for pair in operands for x in pair))
    for found, wanted in zip(results, all_of_them(operands), strict=True):
        assert_near(found, wanted, 64, scale=1.0)


# The kernels of f64 are those of f32 with another function of the library.
@pytest.mark.slow
@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(("dtype", "step"), [(f32, 1), (f64, 3), (gnp.bfloat16, 1)])
def test_gradients_of_kernels(
    all_sizes: None, dtype: Any, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of transposed windows, also of several panels, and shared by several threads."""
    monkeypatch.setattr(convolution, "_MIN_PRODUCTS", 1)
    rng = np.random.default_rng(4)
    shapes = {
        **CONVOLUTIONS,
        "rows for two panels": ((3, 40, 40, 9), (5, 3, 9, 4), CONVOLUTIONS["features last"][2]),
        "one feature": ((2, 8, 8, 6), (3, 3, 6, 1), CONVOLUTIONS["features last"][2]),
        "one channel": ((2, 8, 8, 1), (3, 3, 1, 6), CONVOLUTIONS["features last"][2]),
        "one dimension": ((2, 3, 30), (4, 3, 5), {"window_strides": (1,)}),
        "three dimensions": ((2, 3, 6, 7, 5), (4, 3, 2, 3, 2), {"window_strides": (1, 1, 1)}),
    }
    shapes = dict(list(shapes.items())[::step])
    operands = [
        tuple(rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes)
        for *shapes, _ in shapes.values()
    ]

    def total(w: Any, x: Any, parameters: Any) -> Any:
        y = lax.conv_general_dilated(
            x, w, **{"window_strides": (1, 1), "padding": "SAME", **parameters}
        )
        return gnp.sum(y * gnp.cos(gnp.arange(y.size).reshape(y.shape)).astype(dtype))

    def gradients(operands: Any) -> list[Any]:
        return [
            gn.grad(total)(w, x, parameters)
            for (x, w), (*_, parameters) in zip(operands, shapes.values(), strict=True)
        ]

    artifact = lowered(gradients, operands)
    assert artifact.plan.code.count(b"::@products_transposed_windows_") == len(operands)
    results = run(artifact, *(x for pair in operands for x in pair))
    for found, wanted in zip(results, gradients(operands), strict=True):
        assert_near(found, wanted, 64, scale=float(np.abs(np.asarray(wanted, f64)).max()))


def test_gradients_of_inputs(all_sizes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their kernels are reversed: the windows are read in reverse order instead."""
    monkeypatch.setattr(convolution, "_MIN_PRODUCTS", 1)
    operands = [
        tuple(numbers(*shape, seed=k) for k, shape in enumerate(shapes))
        for *shapes, _ in CONVOLUTIONS.values()
    ]

    def total(x: Any, w: Any, parameters: Any) -> Any:
        y = lax.conv_general_dilated(
            x, w, **{"window_strides": (1, 1), "padding": "SAME", **parameters}
        )
        return gnp.sum(y * gnp.cos(gnp.arange(y.size).reshape(y.shape)))

    def gradients(operands: Any) -> list[Any]:
        return [
            gn.grad(total)(x, w, parameters)
            for (x, w), (*_, parameters) in zip(operands, CONVOLUTIONS.values(), strict=True)
        ]

    artifact = lowered(gradients, operands)
    assert b"stablehlo.reverse" not in artifact.plan.code
    assert artifact.plan.code.count(b"::@products_windows_") == len(operands)
    results = run(artifact, *(x for pair in operands for x in pair))
    for name, found, wanted in zip(CONVOLUTIONS, results, gradients(operands), strict=True):
        assert_near(found, wanted, 64, scale=float(np.abs(wanted).max()), message=name)


def test_gradients_of_kernels_of_one_place(all_sizes: None) -> None:
    x, w = numbers(2, 5, 5, 6), numbers(1, 1, 6, 7)

    def total(w: Any, x: Any) -> Any:
        layout = CONVOLUTIONS["features last"][2]
        return gnp.sum(lax.conv_general_dilated(x, w, (1, 1), "SAME", **layout) ** 2)

    (found,) = run(lowered(gn.grad(total), w, x), w, x)
    assert_near(found, gn.grad(total)(w, x), 64, scale=float(np.abs(found).max()))


@pytest.mark.parametrize("dtype", [gnp.bfloat16, np.float16])
def test_operands_of_16_bits_are_converted(all_sizes: None, dtype: Any) -> None:
    a, b = (numbers(40, 40, seed=k).astype(dtype) for k in range(2))
    artifact = lowered(lambda a, b: a.T @ b, a, b)
    assert calls(artifact) == 1
    # bfloat16 is converted inside of the kernel: only the result is converted outside.
    conversions = artifact.plan.code.count(b"stablehlo.convert")
    assert conversions == (1 if dtype is gnp.bfloat16 else 3)
    (found,) = run(artifact, a, b)
    assert found.dtype == dtype
    # Sums of f32, rounded once.
    assert_near(found, (a.T.astype(f32) @ b.astype(f32)).astype(dtype), 1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sizes", [(600, 40, 1100), (3, 1100, 600), (530, 1030, 5), (1, 7, 513)])
def test_operands_of_bfloat16_in_parts(all_sizes: None, sizes: Any) -> None:
    """More rows, columns and terms than are converted at once."""
    of = dict(zip("mkn", sizes, strict=True))
    layouts = ["mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->nm"]
    operands = [
        tuple(
            numbers(*(of[d] for d in dims), seed=k).astype(gnp.bfloat16)
            for k, dims in enumerate(layout.split("->")[0].split(","))
        )
        for layout in layouts
    ]

    def products(operands: Any) -> list[Any]:
        return [
            gnp.einsum(layout, *pair, preferred_element_type=f32)
            for layout, pair in zip(layouts, operands, strict=True)
        ]

    artifact = lowered(products, operands)
    assert calls(artifact) == len(layouts)
    results = run(artifact, *(x for pair in operands for x in pair))
    for layout, (a, b), found in zip(layouts, operands, results, strict=True):
        wanted = np.einsum(layout, a.astype(f64), b.astype(f64)).astype(f32)
        assert found.dtype == f32 and found.shape == wanted.shape
        units, scale = 8 * of["k"] ** 0.5, float(of["k"] ** 0.5)
        assert_near(found, wanted, units, scale=scale, message=layout)


def test_batches_of_bfloat16(all_sizes: None) -> None:
    a = numbers(2, 9, 3, 5).astype(gnp.bfloat16)
    (found,) = run(
        lowered(lambda a: gnp.einsum("bthd,bshd->bhts", a, a, preferred_element_type=f32), a),
        a,
    )
    wide = a.astype(f64)
    assert_near(found, np.einsum("bthd,bshd->bhts", wide, wide).astype(f32), 8, scale=5.0)


def test_transposed_operands_are_not_copied(all_sizes: None) -> None:
    a = numbers(2, 9, 3, 5)
    artifact = lowered(lambda a: gnp.einsum("bthd,bshd->bhts", a, a), a)
    assert calls(artifact) == 1
    assert re.search(rb'"flow.dispatch"\(%\w+, %arg0, %arg0,', artifact.plan.code)


def test_operands_that_are_one_value_transposed_twice(all_sizes: None) -> None:
    a = numbers(20, 20)
    results = run(lowered(lambda a: (a.T @ a.T, (a.T @ a) @ a.T), a), a)
    for result, expected in zip(results, (a.T @ a.T, (a.T @ a) @ a.T), strict=True):
        assert_near(result, expected, 1000, scale=1.0)


def test_nans_infinities_and_zeros(all_sizes: None) -> None:
    a, b = numbers(40, 50), numbers(50, 60)
    a[9], b[:, 9] = 5e-324, 1.0
    a[3, 4], a[5, 6], a[7, 8], b[8, :] = np.nan, np.inf, np.inf, 0.0
    (result,) = run(lowered(gnp.matmul, a, b), a, b)
    with np.errstate(invalid="ignore"):
        expected = a @ b
    assert np.isnan(result[3]).all()
    assert np.isnan(result[7]).all()
    assert_near(result, expected, 100, scale=1.0)


def test_constants_splats_and_views(all_sizes: None) -> None:
    a, ramp = numbers(24, 24), np.arange(576.0).reshape(24, 24) / 576

    def function(a: Any) -> Any:
        fixed = gnp.arange(576.0).reshape(24, 24) / 576
        return a @ fixed, gnp.ones((24, 24)) @ a, a[::-1] @ a[:, ::-1], a[1:20] @ a[:, 3:], a @ a

    results = run(lowered(function, a), a)
    expected = [a @ ramp, np.ones((24, 24)) @ a, a[::-1] @ a[:, ::-1], a[1:20] @ a[:, 3:], a @ a]
    for result, wanted in zip(results, expected, strict=True):
        assert_near(result, wanted, 100, scale=1.0)


def test_arguments_at_odd_addresses(all_sizes: None) -> None:
    buffer = np.empty(24 * 24 * 8 + 8, np.uint8)
    a = buffer[8:].view(f64).reshape(24, 24)
    a[:] = numbers(24, 24)
    (result,) = run(lowered(gnp.matmul, a, a), a, a)
    assert_near(result, a @ a, 100, scale=1.0)


def test_calls_give_equal_results() -> None:
    a = numbers(300, 300)
    executable = BACKEND.compile(lowered(gnp.matmul, a, a))
    first = executable([a, a])[0].to_numpy()
    for _ in range(20):
        np.testing.assert_array_equal(executable([a, a])[0].to_numpy(), first)


def test_loops(all_sizes: None) -> None:
    n = 128  # A loop over smaller arrays is one kernel, without calls of the library.
    w, x = numbers(n, n) / n, numbers(n, n, seed=1)
    expected = x
    for _ in range(10):
        expected = np.tanh(expected @ w)

    def counting(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 10, lambda i, x: gnp.tanh(x @ w), x)

    def open_ended(x: Any, w: Any) -> Any:
        def goes_on(state: Any) -> Any:
            return (state[1] < 10) & (gnp.sum(state[0]) < 1e9)

        return lax.while_loop(goes_on, lambda s: (gnp.tanh(s[0] @ w), s[1] + 1), (x, 0))[0]

    for function in (counting, open_ended):
        artifact = lowered(function, x, w)
        assert calls(artifact) == 1
        (result,) = run(artifact, x, w)
        assert_near(result, expected, 1000, scale=1.0)


def test_gradients_and_branches(all_sizes: None) -> None:
    w, x = numbers(32, 32) / 8, numbers(32, 32, seed=1)

    def loss(w: Any, x: Any) -> Any:
        return gnp.sum(gnp.tanh(lax.cond(x[0, 0] > 0, lambda x: x @ w, lambda x: w @ x, x)) ** 2)

    function = gn.value_and_grad(loss, (0, 1))
    (with_it, without_it) = (
        run(lowered(function, w, x, backend=b), w, x, backend=b) for b in (BACKEND, WITHOUT)
    )
    for result, expected in zip(with_it, without_it, strict=True):
        assert_near(result, expected, 1000, scale=1.0)


def test_programs_in_several_threads() -> None:
    a = numbers(256, 256)
    executable = BACKEND.compile(lowered(lambda a: a @ a, a))
    expected = executable([a])[0].to_numpy()
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(20):
            if not np.array_equal(executable([a])[0].to_numpy(), expected):
                wrong.append(threading.current_thread())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_operands_are_not_packed_where_the_library_multiplies() -> None:
    """The compiler tiles its products only in files, and in programs without library products."""
    a = numbers(512, 512, dtype=f32)
    artifact = lowered(lambda a: (a @ a)[:, :8] @ a[:8], a)
    assert calls(artifact) == 1 and not artifact.plan.options.data_tiling
    assert BACKEND._without_library(artifact).plan.options.data_tiling


def test_other_targets_and_files_keep_the_kernels_of_the_compiler() -> None:
    a = numbers(256, 256)
    elsewhere = IreeBackend("x86-64-v3")
    assert calls(lowered(gnp.matmul, a, a, backend=elsewhere)) == 0
    for function in (gnp.matmul, lambda x, w: lax.fori_loop(0, 3, lambda i, x: x @ w, x)):
        artifact = lowered(function, a, a)
        assert calls(artifact) == 1
        assert blas.SYMBOL.encode() not in BACKEND.compile_for(artifact).serialize()
        # The program itself is as it was.
        assert calls(artifact) == 1
    kinds = code_kinds(BACKEND.target)
    assert kinds
    emitted = BACKEND.emit(lowered(gnp.matmul, a, a), kinds[0])
    assert all(blas.SYMBOL.encode() not in text for text in emitted.values())


def test_without_the_library_nothing_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    a = numbers(256, 256)
    vmfb = BACKEND.executable_bytes(lowered(gnp.matmul, a, a))
    monkeypatch.setattr(library_products, "has_products", lambda: False)
    assert calls(lowered(gnp.matmul, a, a)) == 0
    monkeypatch.setattr(blas, "has_products", lambda: False)
    with pytest.raises(ExecutionError, match="compile the program again"):
        blas.load_for(vmfb)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_numpy_keeps_its_threads_and_a_new_process_loads_the_library() -> None:
    program = """
import numpy as np, os, gnomon as gn
from gnomon.backends.iree import blas
def threads():
    return len(os.listdir("/proc/self/task"))
a = np.ones((256, 256))
a @ a
before = threads()
assert blas.has_products() and threads() == before, (before, threads())
with gn.enable_x64(True):
    f = gn.jit(lambda a: a @ a)
    assert np.asarray(f(a))[0, 0] == 256
    child = os.fork()
    if child == 0:
        os._exit(int(np.asarray(f(a))[0, 0] != 256))
    assert os.waitpid(child, 0)[1] == 0
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
