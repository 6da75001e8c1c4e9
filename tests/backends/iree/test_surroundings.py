"""Temporary folders that cannot be used, files that stay, interrupts, entries that do not load."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.backends.cache import default_cache
from gnomon.backends.errors import CompilationFailed, ExecutionError, OutOfMemory
from gnomon.backends.interrupts import run_interruptibly
from gnomon.backends.iree.buffer import execution_error
from gnomon.backends.iree.device import cpu_device
from gnomon.backends.iree.inside.libraries import loading_libraries
from gnomon.backends.iree.scratch import remove_orphans, scratch_folder
from tests.backends.iree.test_compiler import REFUSED, compile_now

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

PROGRAM = """
import gnomon as gn, gnomon.numpy as gnp
print(gn.jit(lambda x: gnp.cos(x) * 2)(gnp.zeros(3)))
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("kind", ["named oddly", "missing"])
def test_any_temporary_folder_will_do(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "a b'c\"d;$(e)"
    if kind == "named oddly":
        folder.mkdir()
    done = run(PROGRAM, TMPDIR=str(folder), GNOMON_CACHE="0")
    assert (done.returncode, done.stdout) == (0, "[2. 2. 2.]\n"), done.stderr
    if kind == "named oddly":
        assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_temporary_folder_will_do(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = run(PROGRAM, TMPDIR=str(tmp_path), GNOMON_CACHE="0")
    assert (done.returncode, done.stdout) == (0, "[2. 2. 2.]\n"), done.stderr


def _descriptors() -> int:
    """The number of open libraries of this process; the compiler's process has others."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += "iree_dylib_" in os.readlink(f"/proc/self/fd/{name}")
    return found


def _libraries() -> int:
    return sum("iree_dylib_" in line for line in Path("/proc/self/maps").read_text().splitlines())


@linux
def test_a_loaded_program_keeps_no_file_and_is_freed_with_its_function() -> None:
    gn.clear_caches()
    functions = [gn.jit(lambda x, i=i: gnp.sin(x) * i) for i in range(4)]
    functions[0](gnp.ones(3))
    descriptors, libraries = _descriptors(), _libraries()
    for function in functions:
        function(gnp.ones(3))
    assert _descriptors() == descriptors == 0
    assert not [name for name in os.listdir(scratch_folder()) if name.startswith("iree_dylib_")]
    assert _libraries() > libraries
    gn.clear_caches()
    assert _libraries() < libraries


def _mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


@linux
@pytest.mark.slow
def test_a_process_of_many_programs_keeps_none_of_them() -> None:
    def run_programs(first: int, count: int) -> None:
        for i in range(first, first + count):
            assert gn.jit(lambda x, i=i: gnp.cos(x) * i)(gnp.zeros(3))[0] == i
        gn.clear_caches()

    run_programs(0, 10)
    mappings, descriptors = _mappings(), len(os.listdir("/proc/self/fd"))
    run_programs(10, 30)
    # Memory that the allocator keeps adds a few.
    assert _mappings() < mappings + 50
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert _libraries() == 0


FIRST_WITHOUT_A_LIBRARY = """
import os
import gnomon as gn, gnomon.numpy as gnp
gn.jit(lambda x: x.reshape(3, 1))(gnp.ones(3))
gn.jit(lambda x: gnp.cos(x) * 2)(gnp.zeros(3))
print([name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("iree")])
"""


@linux
def test_a_first_program_without_a_library_does_not_settle_where_libraries_go(
    tmp_path: Path,
) -> None:
    done = run(FIRST_WITHOUT_A_LIBRARY, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@linux
def test_a_temporary_folder_of_another_user_is_not_used() -> None:
    folder = Path(scratch_folder())
    folder.chmod(0o777)
    try:
        with pytest.raises(Exception, match="accessible to other users"), loading_libraries():
            pass
    finally:
        folder.chmod(0o700)


WAITS = """
import os, sys
from gnomon.backends.iree.scratch import make_scratch_folder, scratch_folder
make_scratch_folder()
print(os.path.basename(scratch_folder()), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="locks folders as POSIX does")
def test_folders_of_killed_processes_are_removed_and_no_others(tmp_path: Path) -> None:
    # As after an afternoon on a shared machine: folders of processes that were killed and of one
    # that runs, of other programs, and links.
    orphans = [tmp_path / f"gnomon-{i}-abcdefgh" for i in (1, os.getpid(), 4_000_000)]
    others = [tmp_path / name for name in ("gnomon-abcdefgh", "gnomon-7", "other-7-abcdefgh")]
    for folder in orphans + others:
        (folder / "more").mkdir(parents=True)
        (folder / "more" / "file").write_bytes(b"1")
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "gnomon-8-abcdefgh").symlink_to(target)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", WAITS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        running = tmp_path / process.stdout.readline().strip()
        try:
            assert not any(folder.exists() for folder in orphans)
            assert running.name.startswith(f"gnomon-{process.pid}-")
            remove_orphans(str(tmp_path))
            assert len(list(running.iterdir())) == 1
        finally:
            process.kill()
            process.wait()
    remove_orphans(str(tmp_path))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"target", "gnomon-8-abcdefgh", *(folder.name for folder in others)}
    assert all((folder / "more" / "file").exists() for folder in others)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_folders_of_other_users_stay(tmp_path: Path) -> None:
    folder = tmp_path / "gnomon-1-abcdefgh"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    remove_orphans(str(tmp_path))
    assert folder.exists()


def test_reproducers_are_in_new_folders_of_the_user_alone() -> None:
    paths = []
    for _ in range(2):
        with pytest.raises(CompilationFailed) as caught:
            compile_now(REFUSED)
        assert caught.value.reproducer is not None
        paths.append(caught.value.reproducer)
    assert paths[0] != paths[1]
    for path in paths:
        assert path.read_bytes() == REFUSED
        assert path.parent.stat().st_mode & 0o077 == 0


def test_an_intact_entry_that_does_not_load_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests that run at the same time put entries into the cache that they share.
    monkeypatch.setenv("GNOMON_CACHE_DIR", str(tmp_path))
    cache = default_cache()
    assert cache is not None

    def function(x: Any) -> Any:
        return gnp.cos(x) * 1234.5

    np.testing.assert_allclose(gn.jit(function)(gnp.zeros(2)), 1234.5)
    # The executable, and the entry that leads to it from the traced program.
    made = {entry.key for entry in cache.entries()}
    assert len(made) == 2
    good = {key: cache.get(key) for key in made}
    for damaged in [{key} for key in made] + [made]:
        for key in damaged:
            cache.put(key, b"an entry of another world")
        gn.clear_caches()
        np.testing.assert_allclose(gn.jit(function)(gnp.zeros(2)), 1234.5)
        assert {key: cache.get(key) for key in made} == good


INTERRUPTED = """
import os, signal, threading, time
import gnomon as gn, gnomon.numpy as gnp, gnomon.lax as lax
{define}
# Where the tests run in the background, the signal is ignored from the start.
signal.signal(signal.SIGINT, signal.default_int_handler)
timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
timer.start()
start = time.monotonic()
try:
    call()
except KeyboardInterrupt:
    assert time.monotonic() - start < 5
    print("interrupted", gn.jit(lambda x: x + 1)(gnp.ones(2)))
"""
ENDLESS = """
f = gn.jit(lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, 1.)))
f(3)  # A short call says nothing of the next one.
call = lambda: f(2**31 - 1)
"""
LONG = """
f = gn.jit(lambda x: lax.fori_loop(0, 10**6, lambda i, c: gnp.sin(c) + i, x))
f.lower(gnp.ones(10000)).compile()
call = lambda: f(gnp.ones(10000)).block_until_ready()
"""


@pytest.mark.skipif(os.name != "posix", reason="the signal is POSIX's")
@pytest.mark.parametrize("define", [ENDLESS, LONG], ids=["while", "fori"])
def test_an_interrupt_is_heeded_while_a_program_runs(define: str) -> None:
    done = run(INTERRUPTED.format(define=define))
    assert done.stdout == "interrupted [2. 2.]\n", done.stderr
    assert done.returncode == 0


def test_errors_leave_the_thread_of_the_call() -> None:
    def fail() -> None:
        raise ValueError("this")

    for _ in range(2):
        with pytest.raises(ValueError, match="this"):
            run_interruptibly(fail)
    done: list[int] = []
    run_interruptibly(lambda: done.append(1))
    assert done == [1]


def test_errors_of_memory_and_files_are_distinguished() -> None:
    state = cpu_device().driver_state("sync")
    inner = "runtime/src/iree/base/x.c:12: RESOURCE_EXHAUSTED; "
    memory = execution_error("the program failed", RuntimeError(inner + "no room"), state)
    assert isinstance(memory, OutOfMemory)
    assert "no room" not in str(memory) and "RESOURCE" not in str(memory)
    files = execution_error("it failed", RuntimeError(inner + "unable to open file"), state)
    assert isinstance(files, ExecutionError) and "ulimit -n" in str(files)


def test_no_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_COMPILE_TIMEOUT_S", "inf")
    np.testing.assert_allclose(gn.jit(lambda x: gnp.cos(x) * 77)(gnp.zeros(2)), 77)
