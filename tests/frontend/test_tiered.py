"""Jitted functions in two tiers: evaluated at once, compiled in the background."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.background import Job
from gnomon.backends.errors import CompilationFailed
from gnomon.backends.iree.backend import IreeBackend
from gnomon.sharding import NamedSharding
from gnomon.sharding import PartitionSpec as P
from tests.tolerance import assert_near

pytestmark = pytest.mark.iree


class Gate:
    """Holds the background's compilations until it is opened.

    Attributes:
      compiled: how many programs have been compiled.
      error: the error that compilations raise, unless it is None.
    """

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.compiled = 0
        self.error: Exception | None = None


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made, compile_ = Gate(), IreeBackend.compile

    def compile_at_the_gate(self: Any, *args: Any, **kwargs: Any) -> Any:
        assert made.opened.wait(60)
        if made.error is not None:
            raise made.error
        made.compiled += 1
        return compile_(self, *args, **kwargs)

    monkeypatch.setattr(IreeBackend, "compile", compile_at_the_gate)
    yield made
    made.opened.set()
    # Jobs that a test left in the queue must not affect the next one.
    gn.clear_caches()
    Job(lambda: None).result(60)


def loss(w: Any, x: Any) -> Any:
    return gnp.sum(gnp.tanh(x @ w["kernel"] + w["bias"]) ** 2)


def arguments() -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(0)
    w = {"kernel": gnp.array(rng.normal(size=(4, 3)), "float32"), "bias": gnp.zeros(3)}
    return w, gnp.array(rng.normal(size=(5, 4)), "float32")


@pytest.mark.smoke
def test_the_program_is_evaluated_until_it_is_compiled(gate: Gate) -> None:
    traces = []

    def step(w: Any, x: Any) -> Any:
        traces.append(None)
        return gn.value_and_grad(loss)(w, x)

    w, x = arguments()
    f = gn.jit(step, tiered=True)
    first, second = f(w, x), f(w, x)
    assert gate.compiled == 0
    gate.opened.set()
    f.wait_for_compilation()
    assert gate.compiled == 1
    third = f(w, x)
    assert len(traces) == 1
    expected = gn.jit(step, tiered=False)(w, x)
    for result in (first, second, third):
        assert gn.tree.structure(result) == gn.tree.structure(expected)
        for a, b in zip(gn.tree.leaves(result), gn.tree.leaves(expected), strict=True):
            assert (a.aval, a.committed) == (b.aval, b.committed)
            # Sums of at most 15 products of numbers up to 8.
            assert_near(a, b, 16, scale=8.0)


def test_each_signature_has_its_tiers(gate: Gate) -> None:
    f = gn.jit(lambda x, n: x * n, static_argnums=1, tiered=True)
    assert f(2.0, 3).item() == 6 and f(2.0, 4).item() == 8 and f(gnp.ones(2), 3).tolist() == [3, 3]
    assert f(2.0, 3).weak_type and f(2, 3).dtype == np.int32
    gate.opened.set()
    f.wait_for_compilation()
    assert gate.compiled == 4
    assert f(2.0, 3).item() == 6 and f(2.0, 4).item() == 8 and f(2.0, 3).weak_type


def test_the_option(gate: Gate) -> None:
    assert gn.config.gnomon_tiered is False
    f = gn.jit(lambda x: x + 1)
    with gn.tiered():
        assert f(1).item() == 2
        assert gate.compiled == 0
        # An explicit False is stronger.
        gate.opened.set()
        assert gn.jit(lambda x: x + 2, tiered=False)(1).item() == 3
    # With the option off, a call waits for a compilation that has begun.
    assert f(1).item() == 2
    assert gate.compiled == 2
    with pytest.raises(TypeError, match="tiered must be True, False or None"):
        gn.jit(lambda x: x, tiered="yes")


def test_the_environment_variable() -> None:
    program = "import gnomon; print(gnomon.config.gnomon_tiered)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "GNOMON_TIERED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"


def test_waiting(gate: Gate) -> None:
    f = gn.jit(lambda x: x - 1, tiered=True)
    f.wait_for_compilation()  # nothing is compiled
    f(1.0)
    with pytest.raises(TimeoutError):
        f.wait_for_compilation(0.01)
    gate.opened.set()
    f.wait_for_compilation(60)
    assert gate.compiled == 1


def test_an_error_of_the_compiler_is_raised_by_the_next_call(gate: Gate) -> None:
    f = gn.jit(lambda x: x * 3, tiered=True)
    gate.error = CompilationFailed("refused", diagnostics="")
    assert f(1.0).item() == 3
    gate.opened.set()
    with pytest.raises(CompilationFailed, match="refused"):
        f.wait_for_compilation()
    for _ in range(3):  # the first is the background's; each later call compiles
        with pytest.raises(CompilationFailed, match="refused"):
            f(1.0)
    gate.error = None
    assert f(1.0).item() == 3
    assert gate.compiled == 1


def test_errors_of_tracing_and_of_arguments_are_those_of_jit() -> None:
    f = gn.jit(lambda x: x if x > 0 else -x, tiered=True)
    with pytest.raises(gn.errors.TracerBoolConversionError):
        f(1.0)
    with pytest.raises(TypeError, match="is not an array"):
        f("a")
    with gn.no_execution(), pytest.raises(RuntimeError, match="no_execution"):
        gn.jit(lambda x: x, tiered=True)(1.0)


def test_effects_happen_once_for_each_call(gate: Gate) -> None:
    seen: list[Any] = []

    def record(x: Any) -> Any:
        seen.append(int(x))
        return np.int32(x + 1)

    @gn.jit
    def inner(x: Any) -> Any:
        return gn.experimental.io_callback(
            record, gn.ShapeDtypeStruct((), np.int32), x, ordered=True
        )

    def f(x: Any) -> Any:
        gn.debug.callback(lambda v: seen.append(("debug", int(v))), x, ordered=True)
        return lax.fori_loop(0, 3, lambda i, v: inner(v), x)

    tiered = gn.jit(f, tiered=True)
    once = [("debug", 5), 5, 6, 7]
    assert tiered(gnp.int32(5)).item() == 8
    gn.effects_barrier()
    assert seen == once
    gate.opened.set()
    tiered.wait_for_compilation()
    assert tiered(gnp.int32(5)).item() == 8
    gn.effects_barrier()
    assert seen == once * 2


def test_an_exception_of_a_callback(gate: Gate) -> None:
    def fail(x: Any) -> Any:
        raise ValueError(f"no {x}")

    f = gn.jit(
        lambda x: gn.pure_callback(fail, gn.ShapeDtypeStruct((), np.float32), x), tiered=True
    )
    for _ in range(2):
        with pytest.raises(ValueError, match="no 1"):
            f(gnp.float32(1))
        gate.opened.set()
        f.wait_for_compilation()


def test_donated_arguments_are_deleted(gate: Gate) -> None:
    f = gn.jit(lambda x, y: x + y, donate_argnums=0, tiered=True)
    for _ in range(2):
        x, y = gnp.ones(4), gnp.arange(4.0)
        with pytest.raises(RuntimeError, match="is donated, but it is also another argument"):
            f(y, y)
        result = f(x, y)
        assert x.is_deleted() and not y.is_deleted()
        assert result.tolist() == [1, 2, 3, 4]
        with pytest.raises(RuntimeError, match="deleted"):
            f(x, y)
        gate.opened.set()
        f.wait_for_compilation()


def test_results_do_not_change_with_the_arguments_of_numpy(gate: Gate) -> None:
    f = gn.jit(lambda x: (x, x.reshape(2, 2)), tiered=True)
    x = np.zeros(4, np.float32)
    same, reshaped = f(x)
    x[:] = 1
    assert same.tolist() == [0] * 4 and reshaped.tolist() == [[0, 0], [0, 0]]


def test_arrays_that_the_function_closes_over(gate: Gate) -> None:
    big = gnp.arange(100.0)
    f = gn.jit(lambda x: (x * big).sum(), tiered=True)
    assert f(2.0).item() == 9900
    gate.opened.set()
    f.wait_for_compilation()
    assert f(2.0).item() == 9900


def test_committed_and_sharded_arguments(gate: Gate) -> None:
    device = gn.devices("cpu")[0]
    f = gn.jit(lambda x: x * 2, tiered=True)
    spread = NamedSharding(gn.make_mesh((1,), ("i",)), P("i"))
    for place in (device, spread):
        x = gn.device_put(gnp.arange(4.0), place)
        evaluated = f(x)
        assert gate.compiled == 0
        expected = gn.sharding.SingleDeviceSharding(device) if place is device else spread
        assert evaluated.sharding == expected and evaluated.committed
        assert evaluated.tolist() == [0, 2, 4, 6]
    gate.opened.set()
    f.wait_for_compilation()
    compiled = f(x)
    assert compiled.sharding == spread and compiled.tolist() == [0, 2, 4, 6]


def test_many_threads_call_at_once(gate: Gate) -> None:
    w, x = arguments()
    f = gn.jit(gn.grad(loss), tiered=True)
    expected = gn.grad(loss)(w, x)["kernel"]
    results: list[Any] = []

    def call() -> None:
        for _ in range(20):
            results.append(f(w, x)["kernel"])

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    gate.opened.set()
    for thread in threads:
        thread.join(120)
    assert len(results) == 80
    for result in results:
        assert_near(result, expected, 16, scale=8.0)


def test_a_call_of_itself_in_a_callback(gate: Gate) -> None:
    def again(x: Any) -> Any:
        return np.asarray(f(gnp.float32(x - 1))) if x > 0 else np.float32(0)

    shape = gn.ShapeDtypeStruct((), np.float32)
    f = gn.jit(lambda x: gn.pure_callback(again, shape, x) + x, tiered=True)
    assert f(gnp.float32(3)).item() == 6


def test_the_compiled_program_overtakes_a_long_evaluation() -> None:
    @gn.jit
    def inner(n: Any) -> Any:
        step = lambda s: (s[0] + 1, (s[1] * 1664525 + 1013904223) % 2147483647)  # noqa: E731
        return lax.while_loop(lambda s: s[0] < n, step, (gnp.int32(0), gnp.int32(1)))

    f = gn.jit(lambda n: inner(n)[0], tiered=True)
    count = 3_000_000  # minutes by evaluation
    start = threading.active_count()
    assert f(gnp.int32(count)).item() == count
    (entry,) = f._programs.tiered
    assert entry._program is None, "the call was evaluated to its end"
    assert threading.active_count() <= start + 1


def test_a_long_evaluation_can_be_interrupted(gate: Gate) -> None:
    f = gn.jit(lambda x: lax.while_loop(lambda v: v >= 0, lambda v: v * 0 + x, x), tiered=True)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            f(gnp.float32(1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert f(gnp.float32(-1)).item() == -1


def test_transformations_of_a_tiered_function(gate: Gate) -> None:
    f = gn.jit(lambda x: gnp.sin(x) * x, tiered=True)
    x = gnp.arange(1.0, 4.0)
    slope = lambda x: np.sin(x) + x * np.cos(x)  # noqa: E731
    for _ in range(2):
        # Two units for each of the four roundings.
        assert_near(gn.grad(f)(1.0), np.float32(slope(1.0)), 8, scale=1.0)
        assert_near(gn.vmap(f)(x), np.sin(np.asarray(x)) * np.asarray(x), 8, scale=1.0)
        assert_near(gn.vmap(gn.grad(f))(x), np.float32(slope(np.asarray(x))), 8, scale=4.0)
        assert_near(gn.jit(gn.grad(f), tiered=True)(1.0), np.float32(slope(1.0)), 8, scale=1.0)
        if not gate.opened.is_set():
            assert gate.compiled == 0
            gate.opened.set()


def test_a_nan_is_found(gate: Gate) -> None:
    f = gn.jit(lambda x: gnp.log(x), tiered=True)
    with gn.debug_nans(), pytest.raises(FloatingPointError, match="log"):
        f(-1.0)


def test_abandoned_jobs_are_not_compiled(gate: Gate) -> None:
    kept = gn.jit(lambda x: x + 1, tiered=True)
    kept(1.0)
    dropped = gn.jit(lambda x: x + 2, tiered=True)
    dropped(1.0)
    (entry,) = dropped._programs.tiered
    reference = weakref.ref(entry)
    del entry
    dropped.clear_cache()
    gc.collect()
    assert reference() is None
    gate.opened.set()
    kept.wait_for_compilation()
    assert dropped(1.0).item() == 3
    dropped.wait_for_compilation()
    assert gate.compiled == 2


def test_a_forked_child_compiles_for_itself(gate: Gate) -> None:
    f = gn.jit(lambda x: x * 5, tiered=True)
    f(1.0)
    time.sleep(0.5)  # the background is at the gate
    child = os.fork()
    if child == 0:
        status = 1
        try:
            evaluated = f(2.0).item()
            gate.opened.set()
            f.wait_for_compilation(120)
            status = 0 if (evaluated, f(2.0).item(), gate.compiled) == (10, 10, 1) else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    gate.opened.set()
    f.wait_for_compilation()
    assert f(2.0).item() == 10


EXIT = """
import os, sys, time
os.environ["GNOMON_CACHE_DIR"] = sys.argv[1]
import gnomon as gn, gnomon.numpy as gnp
from gnomon.backends.iree.process import COMPILER
f = gn.jit(lambda x: gnp.linalg.inv(gnp.tanh(x @ x.T)).sum(), tiered=True)
print(f(gnp.eye(8)).dtype, flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    time.sleep(0.01)
    if COMPILER.pid is not None:
        time.sleep(0.1)
        break
print(COMPILER.pid, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 60.0])
def test_the_end_of_the_process_stops_a_compilation(tmp_path: Any, delay: float) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXIT, str(tmp_path), str(delay)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    dtype, pid = done.stdout.split()
    assert dtype == "float32"
    assert not list(tmp_path.rglob("reproducers/*"))
    if delay:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.vulkan
def test_other_devices_compile_at_once() -> None:
    f = gn.jit(lambda x: x + 1, tiered=True)
    x = gn.device_put(gnp.ones(3), gn.devices("vulkan")[0])
    assert f(x).tolist() == [2, 2, 2]
    assert not f._programs.tiered
