"""Programs whose kernels are compiled separately: equal results, and cached kernels."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from gnomon.backends.cache import ExecutableCache
from gnomon.backends.iree import kernel_cache
from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.iree.blas import has_products
from gnomon.backends.iree.compiler import CompileOptions, compile_flags, shutdown
from gnomon.backends.iree.inside.kernels import pack, unpack
from gnomon.backends.iree.legalize import library_products
from gnomon.backends.iree.targets import find_linker, find_target
from gnomon.backends.iree.worker import KERNELS_APART

pytestmark = pytest.mark.skipif(
    find_linker().kind == "none", reason="without a linker programs are compiled whole"
)

WIDTH, DEPTH = 16, 2


def network(activations: tuple[Callable[[Any], Any], ...], width: int = WIDTH) -> Any:
    """A training step of a perceptron with an activation for each layer."""

    def loss(weights: Any, x: Any) -> Any:
        for weight, activation in zip(weights, activations, strict=True):
            x = activation(x @ weight)
        return (x * x).sum() / width

    def step(weights: Any, x: Any) -> Any:
        value, gradient = gnomon.value_and_grad(loss)(weights, x)
        return value, [w - 0.1 * g for w, g in zip(weights, gradient, strict=True)]

    return step


def arguments(batch: int = 8) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((WIDTH, WIDTH), np.float32) / WIDTH for _ in range(DEPTH)]
    return weights, rng.standard_normal((batch, WIDTH), np.float32)


def step_of(layers: str) -> Any:
    named = {"t": gnp.tanh, "s": gnomon.nn.softplus}
    return network(tuple(named[letter] for letter in layers))


def values_of(function: Any, *given: Any) -> list[np.ndarray]:
    # A new function, which nothing in this process has compiled.
    return [np.asarray(leaf) for leaf in gnomon.tree.leaves(gnomon.jit(function)(*given))]


def assert_equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache."""
    monkeypatch.setenv("GNOMON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("GNOMON_CACHE", raising=False)
    monkeypatch.delenv("GNOMON_KERNELS_APART", raising=False)
    yield tmp_path


@pytest.fixture
def counts(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[int, int]]]:
    """For each program so far: its kernels, and those of them that were in the cache."""
    caplog.set_level(logging.DEBUG, logger=kernel_cache.logger.name)

    def read() -> list[tuple[int, int]]:
        texts = [r for r in caplog.records if "of them in the cache" in r.msg]
        return [(int(r.args[0]), int(r.args[1])) for r in texts]  # type: ignore[index, arg-type]

    return read


def whole(monkeypatch: pytest.MonkeyPatch, function: Any, *given: Any) -> list[np.ndarray]:
    with monkeypatch.context() as patch:
        patch.setenv("GNOMON_KERNELS_APART", "0")
        return values_of(function, *given)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    """The results of a step whose program is compiled whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNOMON_CACHE_DIR", str(tmp_path_factory.mktemp("whole")))
        return whole(patch, step_of("ts"), *arguments())


def test_byte_strings_are_packed() -> None:
    parts = [b"", b"one", b"\0" * 9]
    assert unpack(pack(parts)) == parts
    assert unpack(pack([])) == []


def test_results_are_those_of_the_whole_program(
    folder: Path, counts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole(monkeypatch, step_of("ts"), *arguments())
    assert counts() == []
    assert_equal(values_of(step_of("ts"), *arguments()), expected)
    ((kernels, known),) = counts()
    assert kernels >= 4 and known == 0


@pytest.mark.skipif(not has_products(), reason="NumPy ships no OpenBLAS that kernels could call")
def test_programs_that_call_the_library(
    folder: Path, counts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel calls the BLAS for products of all sizes, so the second program finds it."""
    monkeypatch.setattr(library_products, "SMALLEST", {"f32": 1})
    monkeypatch.setattr(library_products, "SMALLEST_ITEM", 1)
    monkeypatch.setattr(library_products, "NARROWEST", 1)
    monkeypatch.setattr(library_products, "SHORTEST", 1)
    expected = whole(monkeypatch, step_of("ts"), *arguments())
    assert_equal(values_of(step_of("ts"), *arguments()), expected)
    values_of(step_of("ts"), *arguments(batch=12))
    (kernels, known), (_, shared) = counts()
    assert kernels >= 4 and known == 0 < shared


@pytest.mark.skipif(not has_products(), reason="NumPy ships no OpenBLAS that kernels could call")
def test_programs_with_several_kernels_of_the_library(
    folder: Path, counts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions and products of two dtypes are kernels of the library."""

    def function(x: Any, y: Any) -> Any:
        image = gnomon.lax.conv(
            x.reshape(1, 16, 64, 64), gnp.ones((32, 16, 3, 3), "f4"), (1, 1), "SAME"
        )
        products = x @ x.T, y @ y
        sums = [gnp.tanh(image).sum(axis) for axis in (1, 2, 3)]
        return products, sums, gnomon.nn.softmax(x), gnp.cumsum(y, 0)

    rng = np.random.default_rng(2)
    x = rng.standard_normal((256, 256), np.float32)
    with gnomon.enable_x64(True):
        given = x, x.astype(np.float64)
        expected = whole(monkeypatch, function, *given)
        assert_equal(values_of(lambda *a: function(*a), *given), expected)
    ((kernels, _),) = counts()
    assert kernels >= 4


def test_an_edit_of_one_layer_compiles_its_kernels_alone(
    folder: Path, counts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    values_of(step_of("ss"), *arguments())
    found = values_of(step_of("st"), *arguments())
    _, (kernels, known) = counts()
    assert 0 < known < kernels
    assert_equal(found, whole(monkeypatch, step_of("st"), *arguments()))


def test_a_program_finds_all_of_its_kernels(folder: Path, counts: Any) -> None:
    expected = values_of(step_of("ts"), *arguments())
    cache = ExecutableCache(folder / "executables")
    # The executable is written last, before the entry that leads to it from the traced program.
    for newest in cache.entries()[-2:]:
        cache.remove(newest.key)
    assert_equal(values_of(step_of("ts"), *arguments()), expected)
    (kernels, _), (again, known) = counts()
    assert known == again == kernels


def test_damaged_entries_are_compiled_again(folder: Path, counts: Any) -> None:
    expected = values_of(step_of("ts"), *arguments())
    for damage in ("cut", "removed"):
        files = [path for path in (folder / "executables").rglob("*") if path.is_file()]
        # The batches of kernels, and the program itself.
        large = [path for path in files if path.stat().st_size > 4096]
        assert len(large) >= 2
        for path in large:
            if damage == "cut":
                path.write_bytes(path.read_bytes()[:-1])
            else:
                path.unlink()
        assert_equal(values_of(step_of("ts"), *arguments()), expected)
        *_, (_, known) = counts()
        assert known == 0, damage
    assert len(counts()) == 3


def test_without_a_cache_kernels_are_compiled_apart(
    trained: list[np.ndarray], counts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNOMON_CACHE", "0")
    for _ in range(2):
        assert_equal(values_of(step_of("ts"), *arguments()), trained)
    assert [known for _, known in counts()] == [0, 0]


@pytest.mark.parametrize("cores", [1, 3])
def test_several_processes_compile(
    folder: Path, trained: list[np.ndarray], monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(kernel_cache, "available_cores", lambda: cores)
    monkeypatch.setattr(kernel_cache, "_KERNELS_FOR_A_PROCESS", 2)
    monkeypatch.setattr(kernel_cache, "_HELPERS", [])
    try:
        assert_equal(values_of(step_of("ts"), *arguments()), trained)
        assert len(kernel_cache._HELPERS) == cores - 1
        assert all(process.pid for process in kernel_cache._HELPERS)
    finally:
        kernel_cache.stop_helpers()


def test_helpers_start_while_the_program_is_planned(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []
    start, provide = kernel_cache.CompilerProcess.start, kernel_cache.Kernels.provide
    monkeypatch.setattr(
        kernel_cache.CompilerProcess,
        "start",
        lambda self, flags: (events.append("start"), start(self, flags))[1],
    )
    monkeypatch.setattr(
        kernel_cache.Kernels,
        "provide",
        lambda self, *given: (events.append("provide"), provide(self, *given))[1],
    )
    monkeypatch.setattr(kernel_cache, "available_cores", lambda: 2)
    monkeypatch.setattr(kernel_cache, "_HELPERS", [])
    try:
        values_of(step_of("ts"), *arguments())
        assert events[-2:] == ["start", "provide"]
    finally:
        kernel_cache.stop_helpers()


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 4, 7, 43, 100])
def test_batches_become_smaller(count: int, processes: int) -> None:
    kernels = [(str(i), b"x" * (i * 7 % 13)) for i in range(count)]
    batches = kernel_cache._batches(kernels, processes)
    assert sorted(one for batch in batches for one in batch) == sorted(kernels)
    sizes = [len(batch) for batch in batches]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] <= kernel_cache._MAX_BATCH
    # The longest kernels are the first of the first batches.
    longest = sorted((len(text) for _, text in kernels), reverse=True)
    assert [len(batch[0][1]) for batch in batches[:processes]] == longest[: len(batches)][
        :processes
    ]


def test_a_program_is_compiled_whole_where_a_helper_dies(
    folder: Path, trained: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(kernel_cache.CompilerProcess):
        def request(self, *_: Any) -> Any:
            raise kernel_cache.ProcessDiedError(-11, "")

    monkeypatch.setattr(kernel_cache, "available_cores", lambda: 2)
    monkeypatch.setattr(kernel_cache, "_KERNELS_FOR_A_PROCESS", 2)
    monkeypatch.setattr(kernel_cache, "_HELPERS", [Dying()])
    assert_equal(values_of(step_of("ts"), *arguments()), trained)


def test_kernels_that_do_not_link_are_compiled_with_their_program(
    folder: Path,
    trained: list[np.ndarray],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spoil(packed: list[bytes]) -> bytes:
        name, code, *frames = unpack(packed[0])
        spoiled = pack([name, b"no object" + code[9:], *frames])
        return pack([spoiled, *packed[1:]])

    provide = kernel_cache.Kernels.provide

    def spoiled(self: Any, payload: bytes, ask: Any) -> Any:
        header, batches = provide(self, payload, ask)
        return header, spoil(unpack(batches))

    monkeypatch.setattr(kernel_cache.Kernels, "provide", spoiled)
    assert_equal(values_of(step_of("ts"), *arguments()), trained)
    assert any("do not link" in record.message for record in caplog.records)


def test_processes_share_kernels(folder: Path) -> None:
    code = (
        "import sys, numpy as np, gnomon\n"
        "from tests.backends.iree.inside.test_kernels import arguments, step_of, values_of\n"
        "print(b''.join(v.tobytes() for v in values_of(step_of('tt'), *arguments())).hex())\n"
    )
    root = Path(__file__).parents[4]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, cwd=root
        )
        for _ in range(2)
    ]
    printed = {process.communicate(timeout=300)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert len(printed) == 1 and printed != {b""}


def test_programs_for_other_machines_are_compiled_whole() -> None:
    options = CompileOptions()
    assert KERNELS_APART in compile_flags(find_target("cpu"), options)
    for name in ("x86-64-v3", "aarch64-linux", "vulkan", "cuda:sm_90", "wasm32"):
        assert KERNELS_APART not in compile_flags(find_target(name), options)


def test_the_compiler_shows_kernels_by_their_names(folder: Path, counts: Any) -> None:
    artifact = gnomon.jit(step_of("ts")).lower(*arguments())._artifact
    (assembly,) = iree_backend("cpu").emit(artifact, "asm").values()
    assert assembly.count(b"main_dispatch") > 4
    assert counts() == []


def test_loops_and_updates_in_place(
    folder: Path, counts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(x: Any, index: Any) -> Any:
        x = x.at[index].add(x[0])
        total = gnomon.lax.fori_loop(0, 5, lambda i, c: gnp.tanh(c @ c).at[i].set(x[i]), x @ x.T)
        return gnp.cumsum(total, 0), x, gnp.linalg.norm(total, axis=1)

    rng = np.random.default_rng(1)
    given = rng.standard_normal((16, 16), np.float32) / 16, np.array([3, 3, 9])
    expected = whole(monkeypatch, function, *given)
    assert_equal(values_of(lambda *a: function(*a), *given), expected)
    ((kernels, _),) = counts()
    assert kernels >= 4


def test_a_kernel_that_writes_at_a_fixed_and_at_a_computed_position(
    folder: Path, counts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a stack are not aligned; code that takes them for aligned crashes."""

    def function(x: Any) -> Any:
        last, rows = gnomon.lax.scan(lambda c, _: (gnp.sin(c),) * 2, x, None, length=3)
        return rows, last[..., ::-1]

    x = np.random.default_rng(0).uniform(0.1, 3, (1, 9, 7, 3, 7)).astype(np.float16)
    expected = whole(monkeypatch, function, x)
    assert_equal(values_of(lambda x: function(x), x), expected)
    ((kernels, _),) = counts()
    assert kernels >= 4


def test_the_processes_are_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "available_cores", lambda: 2)
    monkeypatch.setattr(kernel_cache, "_KERNELS_FOR_A_PROCESS", 2)
    values_of(step_of("ts"), *arguments(batch=4))
    assert kernel_cache._HELPERS and kernel_cache._HELPERS[0].pid
    shutdown()
    assert all(process.pid is None for process in kernel_cache._HELPERS)
