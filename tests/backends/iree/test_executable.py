"""Calls: arguments that results alias, asynchronous chains, failures, threads, forks."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import threading
import time
from typing import Any

import iree.runtime
import numpy as np
import pytest

from gnomon.backends.errors import BufferDeletedError, ExecutionError
from gnomon.backends.iree.buffer import Buffer, Pending
from gnomon.backends.iree.device import cpu_device
from gnomon.backends.iree.executable import Executable
from tests.backends.iree.programs import compiled, executable, spec
from tests.tolerance import assert_near

MODELS = ("sync", "async")

LARGE = spec((200, 200), np.float32)
IDENTITY = f"""
  %0 = stablehlo.add %a, %a : {LARGE.mlir}
  return %a, %0, %a : {LARGE.mlir}, {LARGE.mlir}, {LARGE.mlir}
"""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("wrap", [False, True])
def test_a_returned_argument_lives_on_its_own(model: str, wrap: bool) -> None:
    run = executable(IDENTITY, (LARGE,), (LARGE, LARGE, LARGE), model)
    array = np.ones((200, 200), np.float32)
    (same, doubled, again) = run([Buffer.from_numpy(array) if wrap else array])
    if wrap:
        doubled.wait()
    array[...] = 7
    del array
    gc.collect()
    junk = [np.full((200, 200), 9, np.float32) for _ in range(4)]
    np.testing.assert_array_equal(same.to_numpy(), 1)
    np.testing.assert_array_equal(again.to_numpy(), 1)
    np.testing.assert_array_equal(doubled.to_numpy(), 2)
    del junk


@pytest.mark.parametrize("model", MODELS)
def test_a_returned_result_outlives_the_first_one(model: str) -> None:
    run = executable(IDENTITY, (LARGE,), (LARGE, LARGE, LARGE), model)
    (_, doubled, _) = run([np.ones((200, 200), np.float32)])
    (same, _, _) = run([doubled])
    doubled.delete()
    gc.collect()
    np.testing.assert_array_equal(same.to_numpy(), 2)


# 2 * 600^3 flops: some milliseconds on any machine.
SLOW = spec((600, 600), np.float32)
PRODUCT = f"""
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
     : ({SLOW.mlir}, {SLOW.mlir}) -> {SLOW.mlir}
  return %0 : {SLOW.mlir}
"""


@functools.cache
def rotation(seed: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    return np.linalg.qr(generator.normal(size=(600, 600)))[0].astype(np.float32)


def matrix(seed: int) -> np.ndarray[Any, Any]:
    """A random rotation, so that products of many rotations keep their norm."""
    return rotation(seed % 2).copy()


# A product of matrices sums 600 terms for each element.
UNITS_OF_A_PRODUCT = 600


def test_asynchronous_calls_return_before_the_work_is_done_and_chain() -> None:
    run = executable(PRODUCT, (SLOW, SLOW), (SLOW,), "async")
    first, second = matrix(0), matrix(1)
    expected = first
    started = time.perf_counter()
    (chain,) = run([first, second])
    for _ in range(19):
        (chain,) = run([chain, second])
    launched = time.perf_counter() - started
    assert not chain.is_ready()
    chain.wait()
    finished = time.perf_counter() - started
    assert chain.is_ready()
    assert launched < 0.5 * finished
    for _ in range(20):
        expected = expected @ second
    assert_near(chain.to_numpy(), expected, 20 * UNITS_OF_A_PRODUCT, scale=1.0)


def test_inputs_may_be_dropped_while_a_program_runs() -> None:
    run = executable(PRODUCT, (SLOW, SLOW), (SLOW,), "async")
    first, second = matrix(0), matrix(1)
    expected = first @ second @ second
    left, right = first.copy(), Buffer.from_numpy(second.copy())
    (chain,) = run([left, right])
    (chain,) = run([chain, right])
    right.delete()
    del left, right
    gc.collect()
    junk = [np.full((600, 600), np.nan, np.float32) for _ in range(8)]
    assert_near(chain.to_numpy(), expected, 2 * UNITS_OF_A_PRODUCT, scale=1.0)
    del junk


def test_results_may_be_dropped_while_their_program_runs() -> None:
    run = executable(PRODUCT, (SLOW, SLOW), (SLOW,), "async")
    for seed in range(5):
        run([matrix(seed), matrix(seed + 1)])
    value = matrix(0)
    assert_near(run([value, value])[0].to_numpy(), value @ value, UNITS_OF_A_PRODUCT, scale=1.0)


def test_synchronous_and_asynchronous_programs_mix() -> None:
    slow = executable(PRODUCT, (SLOW, SLOW), (SLOW,), "async")
    inline = executable(PRODUCT, (SLOW, SLOW), (SLOW,), "sync")
    value, factor = matrix(0), matrix(1)
    (mixed,) = inline(slow([*inline([value, factor]), factor]) + [Buffer.from_numpy(factor)])
    assert_near(
        mixed.to_numpy(), value @ factor @ factor @ factor, 3 * UNITS_OF_A_PRODUCT, scale=1.0
    )


def test_inputs_of_finished_programs_are_released() -> None:
    run = executable(PRODUCT, (SLOW, SLOW), (SLOW,), "async")
    (result,) = run([matrix(0), matrix(1)])
    result.wait()
    assert not cpu_device().driver_state("async").in_flight._entries


def failed_buffer(message: str) -> Buffer:
    """A buffer whose program has failed with a message."""
    state = cpu_device().driver_state("async")
    semaphore = state.device.create_semaphore(0)
    fence = iree.runtime.HalFence.create_at(semaphore, 1)
    view = Buffer.from_numpy(np.zeros((600, 600), np.float32)).view_for(state)
    pending = Pending(semaphore, fence, state)
    fence.fail(message)
    return Buffer((600, 600), np.dtype(np.float32), cpu_device(), view=view, pending=pending)


def test_a_failure_surfaces_where_the_value_is_read_and_not_elsewhere() -> None:
    run = executable(PRODUCT, (SLOW, SLOW), (SLOW,), "async")
    good = matrix(0)
    (result,) = run([failed_buffer("the lamp went out"), good])
    (further,) = run([result, good])
    (unharmed,) = run([good, good])
    for _ in range(2):
        with pytest.raises(ExecutionError, match="the lamp went out"):
            further.to_numpy()
    with pytest.raises(ExecutionError, match="the lamp went out"):
        result.wait()
    assert further.is_ready()
    assert_near(unharmed.to_numpy(), good @ good, UNITS_OF_A_PRODUCT, scale=1.0)
    with pytest.raises(ExecutionError, match="the lamp went out"):
        executable(PRODUCT, (SLOW, SLOW), (SLOW,), "sync")([result, good])


def test_donated_buffers_are_gone() -> None:
    run = executable(PRODUCT, (SLOW, SLOW), (SLOW,), "async", donate=(0,))
    value = matrix(0)
    given, kept = Buffer.from_numpy(value), Buffer.from_numpy(value)
    (result,) = run([given, kept])
    assert given.is_deleted()
    assert not kept.is_deleted()
    with pytest.raises(BufferDeletedError, match="donated"):
        given.to_numpy()
    with pytest.raises(BufferDeletedError, match="donated"):
        run([given, kept])
    assert_near(result.to_numpy(), value @ value, UNITS_OF_A_PRODUCT, scale=1.0)


def test_a_deleted_buffer_raises_a_named_error() -> None:
    buffer = Buffer.from_numpy(np.zeros(3))
    view = buffer.to_numpy()
    buffer.delete()
    buffer.delete()
    assert "deleted" in repr(buffer)
    with pytest.raises(BufferDeletedError, match=r"shape \(3,\).*float64.*delete"):
        buffer.to_numpy()
    with pytest.raises(BufferDeletedError):
        buffer.is_ready()
    np.testing.assert_array_equal(view, 0)


SMALL = spec((3,), np.float32)
TWICE = f"  %0 = stablehlo.add %a, %a : {SMALL.mlir}\n  return %0 : {SMALL.mlir}"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "takes 1 arguments, got 0"),
        ([np.zeros(4, np.float32)], r"argument 0 has shape \(4,\).*compiled for shape \(3,\)"),
        ([np.zeros(3)], "dtype float64.*compiled for.*float32"),
        ([Buffer.from_numpy(np.zeros(3))], "dtype float64"),
        ([[1.0, 2.0, 3.0]], "must be a NumPy array or a Buffer, got list"),
        ([1.0], "must be a NumPy array or a Buffer, got float"),
    ],
)
def test_wrong_arguments_are_named(args: list[Any], message: str) -> None:
    run = executable(TWICE, (SMALL,), (SMALL,))
    with pytest.raises(TypeError, match=message):
        run(args)


def test_bytes_that_are_not_an_executable_are_refused() -> None:
    good = compiled(TWICE, (SMALL,), (SMALL,))
    for damaged in (b"", b"not a module" * 20, good[: len(good) // 2]):
        with pytest.raises(ExecutionError, match="cannot be loaded"):
            Executable(damaged, input_types=[SMALL], output_types=[SMALL])


@pytest.mark.parametrize("model", MODELS)
def test_threads_share_an_executable(model: str) -> None:
    run = executable(TWICE, (SMALL,), (SMALL,), model)
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(100):
            value = np.full(3, number * 1000 + turn, np.float32)
            result = run([value])[0].to_numpy()
            if not np.array_equal(result, 2 * value):
                wrong.append((number, turn, result))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert wrong == []


def _in_child(queue: Any) -> None:
    value = np.arange(3, dtype=np.float32)
    results = [executable(TWICE, (SMALL,), (SMALL,), model)([value])[0] for model in MODELS]
    results += [run([value])[0] for run in (INHERITED["sync"], INHERITED["async"])]
    queue.put([result.to_numpy().tolist() for result in results])


INHERITED: dict[str, Executable] = {}


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_runs_programs() -> None:
    for model in MODELS:
        INHERITED[model] = executable(TWICE, (SMALL,), (SMALL,), model)
        INHERITED[model]([np.zeros(3, np.float32)])[0].to_numpy()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=30) == [[0, 2, 4]] * 4
    child.join(timeout=30)
    assert child.exitcode == 0


def test_devices_look_like_those_of_jax() -> None:
    device = cpu_device()
    assert (repr(device), str(device)) == ("CpuDevice(id=0)", "cpu:0")
    assert (device.id, device.platform, device.device_kind) == (0, "cpu", "cpu")
    assert device.process_index == 0
    assert cpu_device() is device
