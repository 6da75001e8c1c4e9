"""The memory that a compiled program needs, compared with what its calls allocate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.lax as lax
import gnomon.numpy as gnp
from gnomon.backends.iree.targets import target_names
from gnomon.backends.memory import MemoryAnalysis

N = 40
X = np.linspace(0.1, 1.0, N * N, dtype=np.float32).reshape(N, N)
WHOLE, ROW = X.nbytes, X[0].nbytes


def analysis(function: Callable[..., Any], *arguments: Any, **options: Any) -> MemoryAnalysis:
    compiled = gn.jit(function, **options).lower(*arguments).compile()
    memory = compiled.memory_analysis()
    assert isinstance(memory, MemoryAnalysis)
    return memory


def allocated_by(function: Callable[..., Any], *arguments: Any) -> int:
    """The bytes that a call allocates, the least of several."""
    device = gn.devices("cpu")[0]
    compiled = gn.jit(function).lower(*arguments).compile()
    executable = compiled.executable
    state = device.driver_state(executable.execution_model)
    given = [gnp.asarray(x) for x in arguments]
    gn.block_until_ready(compiled(*given))
    amounts = []
    for _ in range(3):
        state.free_memory()
        before = _ever_allocated(state)
        gn.block_until_ready(compiled(*given))
        amounts.append(_ever_allocated(state) - before)
    return min(amounts)


def _ever_allocated(state: Any) -> int:
    statistics = state.allocator.statistics
    return int(statistics["device_bytes_allocated"] + statistics["host_bytes_allocated"])


STRAIGHT: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x: gnp.sin(x) + 1,
    "product": lambda x: (x @ gnp.sin(x) @ x).sum(0),
    "two results": lambda x: (x @ x, gnp.cos(x).sum(1)),
    "one value twice": lambda x: (x + 1, x + 1),
    "update": lambda x: x.at[3].set(0.0),
    "sort": lambda x: gnp.sort(x, axis=0) + 1,
    "gather": lambda x: x[gnp.argsort(x[0])],
    "indices": lambda x: x[::-1, gnp.arange(N)],
    "softmax": lambda x: gn.nn.softmax(x @ x),
    "nothing": lambda x: x[:0] + 1,
    "bool": lambda x: x > 0.5,
    "complex": lambda x: x * 1j + x.T,
}


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("name", STRAIGHT)
def test_counts_what_a_call_allocates(name: str) -> None:
    function = STRAIGHT[name]
    memory = analysis(function, X)
    results = gn.tree.leaves(gn.eval_shape(function, X))
    assert memory.argument_size_in_bytes == WHOLE
    assert memory.output_size_in_bytes == sum(r.size * r.dtype.itemsize for r in results)
    assert memory.alias_size_in_bytes == 0
    given = memory.output_size_in_bytes // (2 if name == "one value twice" else 1)
    assert memory.temp_size_in_bytes + given == allocated_by(function, X)
    assert memory.peak_memory_in_bytes == (
        WHOLE + memory.output_size_in_bytes + memory.temp_size_in_bytes
    )
    assert memory.generated_code_size_in_bytes > 0


def test_temporaries_of_products() -> None:
    memory = analysis(lambda x: (x @ gnp.sin(x) @ x).sum(0), X)
    assert memory.temp_size_in_bytes == 2 * WHOLE
    assert analysis(lambda x: gnp.sin(x) * 2 + x, X).temp_size_in_bytes == 0


def test_results_that_are_arguments() -> None:
    memory = analysis(lambda x, y: (y, x + 1, y), X, X[0])
    assert memory.alias_size_in_bytes == 2 * ROW
    assert memory.output_size_in_bytes == WHOLE + 2 * ROW
    assert memory.temp_size_in_bytes == 0
    assert memory.peak_memory_in_bytes == 2 * WHOLE + ROW


def test_without_arguments_and_results() -> None:
    assert analysis(lambda: gnp.ones(N)).output_size_in_bytes == ROW
    memory = analysis(lambda x: (), X)
    assert memory.output_size_in_bytes == memory.temp_size_in_bytes == 0


def test_arrays_that_the_function_closes_over_are_arguments() -> None:
    y = gnp.asarray(X)
    assert analysis(lambda x: x + y, X[0]).argument_size_in_bytes == WHOLE + ROW


def test_constants_that_loading_computes_belong_to_the_code() -> None:
    # A call of Python keeps the constant out of the kernels that use it.
    without = analysis(lambda x: gnp.linalg.cholesky(x), X)
    large = analysis(lambda x: gnp.linalg.cholesky(x + 9 * gnp.eye(N)), X)
    difference = large.generated_code_size_in_bytes - without.generated_code_size_in_bytes
    assert difference >= WHOLE


def test_operands_and_results_of_python_functions_are_temporaries() -> None:
    def host(x: Any) -> Any:
        return gn.pure_callback(np.sin, gn.ShapeDtypeStruct(x.shape, x.dtype), x * 2)

    # The operand and the result of the call; the second result is the program's.
    assert analysis(lambda x: host(x) + 1, X).temp_size_in_bytes == 2 * WHOLE

    def both(x: Any) -> Any:
        y = host(x)
        return y, y + 1

    assert analysis(both, X).temp_size_in_bytes == WHOLE


def test_carries_of_loops_count_twice() -> None:
    def loop(x: Any) -> Any:
        return lax.fori_loop(0, 10, lambda i, c: gnp.sin(c @ x), x)

    # One carry is read while the next one is made; one of the two is the result.
    x = np.ones((300, 300), np.float32)
    assert analysis(loop, x).temp_size_in_bytes == 2 * x.nbytes


def test_all_branches_count() -> None:
    def branches(x: Any) -> Any:
        return lax.cond(x[0, 0] > 0, lambda x: x @ x @ x, lambda x: gnp.sort(x @ x), x)

    assert analysis(branches, X).temp_size_in_bytes >= 2 * WHOLE


def test_loops_that_python_runs() -> None:
    def step(i: Any, x: Any) -> Any:
        gn.debug.callback(lambda _: None, x[0, 0], ordered=True)
        return x @ X

    memory = analysis(lambda x: lax.fori_loop(0, 3, step, x), X)
    assert memory.output_size_in_bytes == WHOLE
    assert memory.temp_size_in_bytes > 0


def test_an_executable_from_a_file_has_the_counts() -> None:
    # The compiler's process stores them in the executable, not beside it.
    compiled = gn.jit(lambda x: (x @ gnp.sin(x)).sum()).lower(X).compile()
    backend = gn.devices("cpu")[0].backend
    executable = type(compiled.executable)(
        compiled.serialize(),
        input_types=[gn.ShapeDtypeStruct(X.shape, X.dtype)],
        output_types=[gn.ShapeDtypeStruct((), X.dtype)],
        device=backend.devices()[0],
    )
    assert executable.memory_analysis().temp_size_in_bytes >= WHOLE


@pytest.mark.sampled(0.1)
@pytest.mark.parametrize("target", target_names())
def test_every_target_reports(target: str) -> None:
    lowered = gn.jit(lambda x: (x @ gnp.sin(x)).sum(0)).lower(X)
    memory = lowered.compile(target=target).memory_analysis()
    assert memory.argument_size_in_bytes == WHOLE
    assert memory.output_size_in_bytes == ROW
    assert memory.temp_size_in_bytes >= WHOLE
    assert memory.peak_memory_in_bytes >= 2 * WHOLE + ROW
