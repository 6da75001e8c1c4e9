"""Host calls: ops that Python evaluates in the middle of compiled programs."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.iree.executable import Executable
from gnomon.backends.iree.legalize import host_ops
from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.emit import constant, ops
from gnomon.dialects.functions import Program
from gnomon.dialects.host_call import call_on_host
from gnomon.dialects.types import COMPLEX, FLOATING, TensorType

BACKEND = iree_backend("cpu")

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
S, V, N = TensorType((), F32), TensorType((4,), F32), TensorType((), I32)


def program_of(types: Sequence[TensorType], emit: Callable[..., Any]) -> Program:
    program = Program()
    program.add("main", Body.build(types, emit), public=True)
    return program


def build(types: Sequence[TensorType], emit: Callable[..., Any]) -> Executable:
    return BACKEND.compile(BACKEND.lower(program_of(types, emit)))


def run(executable: Executable, *arrays: Any) -> list[np.ndarray]:
    given = [np.asarray(a, t[1]) for a, t in zip(arrays, executable.input_types, strict=True)]
    return [b.to_numpy() for b in executable(given)]


def call(callback: Callback, *operands: Any, given: Sequence[TensorType]) -> list[Any]:
    return ops.io_callback.build(
        operands, {"callback": callback.number, "given": given, "ordered": True}
    )


def note(callback: Callback, *operands: Any) -> None:
    ops.debug_callback.build(operands, {"callback": callback.number, "ordered": True})


TYPES = [
    TensorType(shape, dtype)
    for dtype in (
        np.dtype(np.bool_),
        *(np.dtype(f"{s}int{n}") for s in ("", "u") for n in (8, 16, 32, 64)),
        *(d for d in FLOATING if d.itemsize > 1),
        *COMPLEX,
    )
    for shape in ((), (3,), (0, 2), (1, 2, 1, 3))
]


def test_every_dtype_and_shape_goes_both_ways() -> None:
    """All in one call, reversed, so that no result is an operand's buffer by chance."""
    rng = np.random.default_rng(0)
    arrays = [np.asarray(rng.integers(0, 2, t.shape)).astype(t.dtype) for t in TYPES]
    seen: list[np.ndarray] = []

    def swap(*given: np.ndarray) -> list[np.ndarray]:
        seen.extend(given)
        return list(reversed(given))

    callback = Callback(swap)
    executable = build(
        TYPES,
        lambda *v: list(reversed(call(callback, *v, given=TYPES[::-1]))),
    )
    results = run(executable, *arrays)
    for type_, array, given, result in zip(TYPES, arrays, seen, results, strict=True):
        assert given.dtype == result.dtype == type_.dtype
        assert given.shape == result.shape == type_.shape
        np.testing.assert_array_equal(given, array)
        np.testing.assert_array_equal(result, array)


def test_ops_of_the_table_are_evaluated_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers an op with two sets of parameters, one with several results, one without operands.

    Compiled code runs before, between and after them.
    """
    for name in ("cumsum", "threefry2x32", "iota"):
        monkeypatch.setitem(host_ops.HOST_OPS, f"gnomon.{name}", "for the test")
    matrix, words = TensorType((2, 3), F32), TensorType((2,), np.dtype(np.uint32))

    def emit(x: Any, k: Any) -> list[Any]:
        down = ops.cumsum(ops.add(x, x), axis=0, reverse=False)
        back = ops.cumsum(ops.mul(down, x), axis=1, reverse=True)
        ramp = ops.iota(dtype=F32, shape=(2, 3), dimension=1)
        bits = ops.threefry2x32(k, k, k, k)
        return [ops.add(ops.add(down, back), ramp), down, *bits]

    program = program_of([matrix, words], emit)
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2], np.uint32)]
    expected = Evaluator(program)("main", *arrays)
    artifact = BACKEND.lower(program, keep_stages=True)
    assert str(artifact.stages.legalized.plain).count("gnomon.host_call") == 4
    assert "gnomon.cumsum" not in str(artifact.stages.legalized.plain)
    for result, wanted in zip(run(BACKEND.compile(artifact), *arrays), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_loops_and_branches_call_as_often_as_they_run() -> None:
    log: list[tuple[str, int]] = []
    says = {
        name: Callback(lambda i, name=name: log.append((name, int(i))) or ())
        for name in ("cond", "even", "odd", "after")
    }
    double = Callback(lambda x: (2 * x,))

    def emit(n: Any, x: Any) -> list[Any]:
        def cond(n: Any, i: Any, x: Any) -> list[Any]:
            note(says["cond"], i)
            return [ops.lt(i, n)]

        def even(i: Any, x: Any) -> list[Any]:
            note(says["even"], i)
            return call(double, x, given=[V])

        def odd(i: Any, x: Any) -> list[Any]:
            note(says["odd"], i)
            return [x]

        def body(i: Any, x: Any) -> list[Any]:
            one = constant(np.int32(1))
            parity = ops.and_(i, one)
            branches = [Body.build([N, V], f) for f in (even, odd)]
            (x,) = ops.switch.build([parity, i, x], {}, branches)
            return [ops.add(i, one), ops.add(x, x)]

        i, x = ops.while_.build(
            [n, constant(np.int32(0)), x],
            {"cond_consts": 1, "body_consts": 0},
            [Body.build([N, N, V], cond), Body.build([N, V], body)],
        )
        note(says["after"], i)
        return [x]

    program = program_of([N, V], emit)
    evaluated = Evaluator(program)("main", np.int32(3), np.ones(4, np.float32))
    expected, log[:] = list(log), []
    assert expected == [
        ("cond", 0), ("even", 0), ("cond", 1), ("odd", 1), ("cond", 2), ("even", 2), ("cond", 3),
        ("after", 3),
    ]  # fmt: skip
    executable = BACKEND.compile(BACKEND.lower(program))
    (result,) = run(executable, 3, np.ones(4))
    assert log == expected
    np.testing.assert_array_equal(result, np.full(4, 32.0))
    np.testing.assert_array_equal(result, evaluated[0])
    log.clear()
    run(executable, 0, np.ones(4))
    assert log == [("cond", 0), ("after", 0)]


class MyError(Exception):
    pass


def test_errors_reach_the_caller_unchanged_and_the_program_survives() -> None:
    raised = MyError("the reason", 7)

    def fail(x: np.ndarray) -> Any:
        if x[0] < 0:
            raise raised
        return (x.astype(np.float64) if x[0] == 0 else x[:2] if x[0] == 1 else x,)

    callback = Callback(fail)
    executable = build([V], lambda x: call(callback, ops.add(x, x), given=[V]))
    for _ in range(2):
        with pytest.raises(MyError) as caught:
            run(executable, [-1, 1, 1, 1])
        assert caught.value is raised
        names = [entry.name for entry in caught.traceback]
        assert names[-1] == "fail" and "run" in names  # from the call to the line that raised
    with pytest.raises(RuntimeError, match=r"dtype for return value #0.*float32.*float64"):
        run(executable, [0, 1, 1, 1])
    with pytest.raises(RuntimeError, match=r"shape for return value #0.*\(4,\).*\(2,\)"):
        run(executable, [0.5, 1, 1, 1])
    np.testing.assert_array_equal(run(executable, [4, 1, 1, 1])[0], [8, 2, 2, 2])


def test_a_function_may_run_compiled_programs_its_own_included() -> None:
    def fall(x: np.ndarray) -> Any:
        if x[0] <= 0:
            return (x,)
        (rest,) = run(executable, x - 1)
        return (rest + x,)

    callback = Callback(fall)
    executable = build([V], lambda x: call(callback, x, given=[V]))
    np.testing.assert_array_equal(run(executable, [4, 4, 4, 4])[0], np.full(4, 10.0))


def test_threads_call_one_program_at_once() -> None:
    """Each call waits inside its host function until all others are there too."""
    barrier = threading.Barrier(3, timeout=30)
    callback = Callback(lambda x: (barrier.wait(), (x + 1,))[1])
    executable = build([V], lambda x: call(callback, ops.add(x, x), given=[V]))
    results: dict[int, np.ndarray] = {}

    def work(i: int) -> None:
        results[i] = run(executable, np.full(4, i))[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(3):
        np.testing.assert_array_equal(results[i], np.full(4, 2 * i + 1))


def test_large_programs_block_on_the_thread_pool_and_arguments_may_be_kept() -> None:
    big = TensorType((700, 700), F32)
    kept: list[np.ndarray] = []
    callback = Callback(lambda x: (kept.append(x), (x + 1,))[1])

    def emit(x: Any) -> list[Any]:
        dims = {"lhs_contracting": (1,), "rhs_contracting": (0,), "lhs_batch": (), "rhs_batch": ()}
        square = ops.dot_general(x, x, **dims, dtype=F32, precision="default")
        (y,) = call(callback, square, given=[big])
        return [ops.dot_general(y, x, **dims, dtype=F32, precision="default")]

    executable = build([big], emit)
    assert executable.execution_model == "blocking"
    for scale in (1.0, 2.0):
        x = np.full(big.shape, scale, np.float32)
        (result,) = run(executable, x)
        np.testing.assert_array_equal(result, (x @ x + 1) @ x)
    assert [k[0, 0] for k in kept] == [700.0, 2800.0]


def test_executables_hold_and_release_their_functions() -> None:
    def made() -> tuple[Any, Executable]:
        callback = Callback(lambda x: (x,))
        return weakref.ref(callback), build([V], lambda x: call(callback, x, given=[V]))

    watch, executable = made()
    gc.collect()
    np.testing.assert_array_equal(run(executable, np.ones(4))[0], np.ones(4))
    module = weakref.ref(executable._loaded.host)  # type: ignore[arg-type]
    del executable
    gc.collect()
    assert watch() is None and module() is None


def test_programs_that_differ_in_their_functions_share_the_compiled_code() -> None:
    artifacts = []
    for factor in (2, 3):
        callback = Callback(lambda x, factor=factor: (factor * x,))
        program = program_of([V], lambda x, c=callback: call(c, ops.neg(x), given=[V]))
        artifacts.append(BACKEND.lower(program))
    first, second = artifacts
    assert first.portable == second.portable
    for artifact, factor in zip(artifacts, (2, 3), strict=True):
        (result,) = run(BACKEND.compile(artifact), np.ones(4))
        np.testing.assert_array_equal(result, np.full(4, -factor))


def test_an_executable_without_its_functions_raises_a_named_error() -> None:
    callback = Callback(lambda x: (x,))
    executable = build([V], lambda x: call(callback, x, given=[V]))
    with pytest.raises(RuntimeError, match="loaded without them; trace it again"):
        Executable(executable._vmfb, input_types=[_Spec(V)], output_types=[_Spec(V)])


class _Spec:
    def __init__(self, type_: TensorType) -> None:
        self.shape, self.dtype = type_


def test_regions_cannot_be_called_on_the_host() -> None:
    class Loop:
        op = ops.while_

    with pytest.raises(TypeError, match=r"gnomon\.while has regions"):
        call_on_host(Loop())  # type: ignore[arg-type]


def _in_child(executable: Executable, queue: Any) -> None:
    queue.put(run(executable, np.ones(4))[0].tolist())


def test_a_forked_child_runs_them_too() -> None:
    callback = Callback(lambda x: (x + 2,))
    executable = build([V], lambda x: call(callback, x, given=[V]))
    run(executable, np.ones(4))
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=_in_child, args=(executable, queue))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert queue.get() == [3.0] * 4


def test_another_process_finds_everything_in_the_cache(tmp_path: Any) -> None:
    """The second one has no compiler that works, and other numbers for its callbacks."""
    source = textwrap.dedent("""
        import sys
        import numpy as np
        import gnomon as gn
        from gnomon import lax
        from gnomon.backends.iree.legalize import host_ops
        from gnomon.backends.iree.process import COMPILER
        from gnomon.dialects.callbacks import Callback
        host_ops.HOST_OPS["gnomon.cumsum"] = "for the test"
        if sys.argv[1] == "second":
            Callback(print)
            def refuse(*args): raise AssertionError("compiled again")
            COMPILER.compile = refuse
        print(gn.jit(lambda x: lax.cumsum(2 * x, 0) + 1)(np.ones(3, np.float32)))
    """)
    env = {**os.environ, "GNOMON_CACHE_DIR": str(tmp_path)}
    for which in ("first", "second"):
        done = subprocess.run(
            [sys.executable, "-c", source, which],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("[3. 5. 7.]\n", "")
