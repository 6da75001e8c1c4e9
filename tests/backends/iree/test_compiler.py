"""Compilations that fail, in every way, and the process that survives them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gnomon.backends.cache import ExecutableCache, cache_key, default_cache
from gnomon.backends.errors import (
    CompilationError,
    CompilationFailed,
    CompilerCrashed,
    CompilerTimeout,
)
from gnomon.backends.iree import process
from gnomon.backends.iree.compiler import (
    CompileOptions,
    compile_artifact,
    compile_flags,
    prestart,
    prestart_if_nothing_is_cached,
    shutdown,
)
from gnomon.backends.iree.inside.linker import bundled_linker
from gnomon.backends.iree.options import ProgramCost, choose_options
from gnomon.backends.iree.targets import (
    TARGETS,
    bundled_linker_script,
    find_linker,
)
from gnomon.backends.iree.worker import OWN_FLAGS
from gnomon.dialects.mlir import context, other_dialects
from tests.backends.iree.programs import CPU, compiled, entry, portable, spec

SMALL = spec((3,), np.float32)
GOOD = portable(entry(f"  return %a : {SMALL.mlir}", (SMALL,), (SMALL,)))
REFUSED = portable(
    entry(
        f"  %0 = stablehlo.custom_call @nobody_knows(%a) : ({SMALL.mlir}) -> {SMALL.mlir}\n"
        f"  return %0 : {SMALL.mlir}",
        (SMALL,),
        (SMALL,),
    )
)
# The compiler never ends on a function that calls itself.
ENDLESS = portable(
    f"func.func private @f(%a: {SMALL.mlir}) -> {SMALL.mlir} {{\n"
    f"  %0 = func.call @f(%a) : ({SMALL.mlir}) -> {SMALL.mlir}\n  return %0 : {SMALL.mlir}\n}}\n"
    + entry(
        f"  %0 = func.call @f(%a) : ({SMALL.mlir}) -> {SMALL.mlir}\n  return %0 : {SMALL.mlir}",
        (SMALL,),
        (SMALL,),
    )
)


def compile_now(artifact: bytes, timeout_s: float = 60.0) -> bytes:
    options = CompileOptions(timeout_s=timeout_s)
    return compile_artifact(artifact, target=CPU, options=options, cache=None)


def test_the_environment_sets_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GNOMON_COMPILE_TIMEOUT_S", raising=False)
    assert CompileOptions().timeout_s == 600
    monkeypatch.setenv("GNOMON_COMPILE_TIMEOUT_S", "2.5")
    assert CompileOptions().timeout_s == 2.5
    monkeypatch.setenv("GNOMON_COMPILE_TIMEOUT_S", "soon")
    with pytest.raises(ValueError, match=r"GNOMON_COMPILE_TIMEOUT_S must be a number.*'soon'"):
        CompileOptions()


def check_reproducer(error: CompilationError, artifact: bytes) -> None:
    assert error.reproducer is not None
    assert str(error.reproducer) in str(error)
    assert error.reproducer.read_bytes() == artifact
    command = shlex.split(error.reproducer.with_suffix(".sh").read_text())
    assert command[0] == "iree-compile"
    assert str(error.reproducer) in command
    flags = {f for f in compile_flags(CPU, CompileOptions()) if not f.startswith(OWN_FLAGS)}
    assert flags <= set(command)


def test_the_error_of_a_refused_program_gives_the_reason() -> None:
    with pytest.raises(CompilationFailed, match=r"error:.*custom_call.*nobody_knows") as caught:
        compile_now(REFUSED)
    check_reproducer(caught.value, REFUSED)
    assert compile_now(GOOD)


def test_the_reproducer_reproduces() -> None:
    with pytest.raises(CompilationFailed) as caught:
        compile_now(REFUSED)
    assert caught.value.reproducer is not None
    script = caught.value.reproducer.with_suffix(".sh")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    again = subprocess.run(
        ["sh", script], capture_output=True, text=True, env=environment, check=False
    )
    assert again.returncode == 1
    assert "nobody_knows" in again.stderr


@pytest.mark.parametrize("artifact", [b"", b"nonsense", GOOD[:-20], GOOD[:30]])
def test_files_that_are_not_artifacts_are_refused(artifact: bytes) -> None:
    with pytest.raises(CompilationError):
        compile_now(artifact)


def test_text_is_not_an_artifact() -> None:
    with pytest.raises(TypeError, match="bytes, got str"):
        compile_artifact("func.func", target=CPU)  # type: ignore[arg-type]


def test_an_endless_compilation_is_stopped() -> None:
    compile_now(GOOD)
    started = time.monotonic()
    with pytest.raises(CompilerTimeout, match=r"within 0\.3 s.*timeout_s") as caught:
        compile_now(ENDLESS, timeout_s=0.3)
    assert time.monotonic() - started < 5
    check_reproducer(caught.value, ENDLESS)
    assert compile_now(GOOD)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_death_in_the_middle_is_reported_and_survived(number: signal.Signals) -> None:
    compile_now(GOOD)
    victim = process.COMPILER.pid
    assert victim is not None
    timer = threading.Timer(0.3, os.kill, (victim, number))
    timer.start()
    with pytest.raises(CompilerCrashed, match=f"died.*{number.name}") as caught:
        compile_now(ENDLESS)
    timer.join()
    check_reproducer(caught.value, ENDLESS)
    assert compile_now(GOOD)
    assert process.COMPILER.pid != victim


def test_a_death_between_two_programs_is_not_noticed() -> None:
    compile_now(GOOD)
    victim = process.COMPILER.pid
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    os.waitid(os.P_PID, victim, os.WEXITED | os.WNOWAIT)
    assert compile_now(GOOD)
    assert process.COMPILER.pid != victim


def test_an_interrupt_ends_the_compilation() -> None:
    compile_now(GOOD)
    # If a shell started the tests in the background, the signal is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            compile_now(ENDLESS)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert compile_now(GOOD)


def test_prestart_and_shutdown() -> None:
    shutdown()
    assert process.COMPILER.pid is None
    prestart(CPU)
    started = process.COMPILER.pid
    assert started is not None
    prestart(CPU)
    assert compile_now(GOOD)
    assert process.COMPILER.pid == started


def test_the_process_starts_early_if_nothing_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNOMON_CACHE", "1")
    monkeypatch.setenv("GNOMON_CACHE_DIR", str(tmp_path))
    cache = default_cache()
    assert cache is not None
    shutdown()
    cache.put(cache_key("program"), b"executable")
    prestart_if_nothing_is_cached()
    assert process.COMPILER.pid is None
    cache.clear()
    prestart_if_nothing_is_cached()
    assert process.COMPILER.pid is not None


def test_threads_take_turns() -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(compile_now(GOOD))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(found) == 3
    assert len(set(found)) == 1


def test_the_cache_is_used(tmp_path: Path) -> None:
    cache = ExecutableCache(tmp_path)
    executable = compile_artifact(GOOD, target=CPU, cache=cache)
    (stored,) = cache.entries()
    assert cache.get(stored.key) == executable
    cache.put(stored.key, b"from the cache")
    assert compile_artifact(GOOD, target=CPU, cache=cache) == b"from the cache"
    options = CompileOptions("async")
    assert compile_artifact(GOOD, target=CPU, options=options, cache=cache) != b"from the cache"
    assert len(cache.entries()) == 2


ORPHAN = """
import os, sys, threading, time
from gnomon.backends.iree import process
from tests.backends.iree.test_compiler import ENDLESS, GOOD, compile_now
compile_now(GOOD)
print(process.COMPILER.pid, flush=True)
if sys.argv[1] == "busy":
    threading.Thread(target=compile_now, args=(ENDLESS,), daemon=True).start()
    time.sleep(0.3)
print("now", flush=True)
if sys.argv[2] == "killed":
    time.sleep(60)
"""


def test_the_caller_works_while_the_process_compiles(tmp_path: Path) -> None:
    events: list[str] = []
    given = {"target": CPU, "cache": ExecutableCache(tmp_path)}
    compile_artifact(GOOD, **given, meanwhile=lambda: events.append("compiled"))
    assert events == ["compiled"]
    compile_artifact(GOOD, **given, meanwhile=lambda: events.append("found"))
    assert events == ["compiled"]


@pytest.mark.parametrize("name", ["iree.runtime", "gnomon.backends.iree.executable"])
def test_the_runtime_is_imported_only_when_a_program_is_compiled(name: str) -> None:
    code = (
        "import sys, gnomon\n"
        "lowered = gnomon.jit(lambda x: x + 1).lower(1.0)\n"
        f"assert {name!r} not in sys.modules\n"
        "lowered.compile()\n"
        f"assert {name!r} in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie counts as ended: there may be no parent to reap it.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.parametrize("state", ["idle", "busy"])
@pytest.mark.parametrize("end", ["exits", "killed"])
def test_the_process_ends_with_its_parent(state: str, end: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, state, end],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert parent.stdout.readline() == "now\n"
    if end == "killed":
        parent.kill()
    _, messages = parent.communicate(timeout=30)
    assert messages == ""
    assert parent.returncode == (-signal.SIGKILL if end == "killed" else 0)
    deadline = time.monotonic() + 10
    while alive(worker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(worker)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_compiles_with_a_process_of_its_own() -> None:
    compile_now(GOOD)
    before = process.COMPILER.pid
    child = os.fork()
    if child == 0:
        status = 1
        try:
            compile_now(GOOD)
            status = 0 if process.COMPILER.pid != before else 2
            shutdown()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert compile_now(GOOD)
    assert process.COMPILER.pid == before


@pytest.mark.parametrize(
    "options",
    [{"execution_model": "later"}, {"opt_level": "O9"}, {"timeout_s": 0}, {"timeout_s": -1.0}],
)
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=name):
        CompileOptions(**options)  # type: ignore[arg-type]


def test_small_programs_run_inline_and_large_ones_do_not() -> None:
    assert choose_options(ProgramCost(operations=100, traffic=1e3)).execution_model == "sync"
    medium = ProgramCost(operations=8e6, traffic=1e6, dispatches=4)
    assert choose_options(medium).execution_model == "async"
    assert choose_options(medium, host_calls=1).execution_model == "async"
    assert choose_options(medium, host_calls=2).execution_model == "sync"
    large = choose_options(ProgramCost(operations=2e9, traffic=1e7, contraction_flops=2e9))
    assert (large.execution_model, large.data_tiling) == ("async", True)
    loop = ProgramCost(operations=1e6, traffic=1e6, dispatches=10_000)
    assert choose_options(loop).execution_model == "sync"


def test_every_flag_has_a_reason() -> None:
    for target in TARGETS.values():
        for flag in (*target.flags, *target.process_flags, *find_linker().flags):
            assert flag.name.startswith("--iree-")
            assert flag.reason


def test_the_linker_of_the_compilers_package_is_the_fallback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bundled = bundled_linker()
    assert bundled is not None
    script = bundled_linker_script(bundled)
    version = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert "LLD" in version.stdout
    monkeypatch.setattr("shutil.which", lambda name: "/bin/sh" if name == "sh" else None)
    find_linker.cache_clear()
    try:
        assert find_linker().kind == "bundled"
        one = spec((5,), np.float64)
        body = f"  %0 = stablehlo.sine %a : {one.mlir}\n  return %0 : {one.mlir}"
        assert compile_now(portable(entry(body, (one,), (one,))))
    finally:
        find_linker.cache_clear()


def test_an_executable_is_the_same_each_time() -> None:
    assert compile_now(GOOD) == compile_now(GOOD)
    assert compiled(f"  return %a : {SMALL.mlir}", (SMALL,), (SMALL,))


def test_threads_take_other_dialects_until_the_last_one_is_done() -> None:
    def work() -> None:
        with other_dialects(context()):
            pass

    thread = threading.Thread(target=work)
    with other_dialects(context()):
        thread.start()
        thread.join()
        assert context().allow_unregistered_dialects
    assert not context().allow_unregistered_dialects
