"""The memory allocator that a process gets when the first device is made."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not (sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "malloc_info")),
    reason="only glibc has the parameters of the allocator that gnomon sets, and counts its heaps",
)

# The number of heaps after four threads had arrays of a megabyte at the same time.
PROGRAM = """
import ctypes, sys, threading
import numpy as np
import gnomon as gn

gn.jit(lambda x: x + 1)(np.ones(3, np.float32))
together = threading.Barrier(4)

def hold():
    array = np.ones(1 << 17)
    together.wait()

threads = [threading.Thread(target=hold) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def heaps(path: str, **variables: str) -> int:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", PROGRAM, path]
    subprocess.run(command, env=environment | variables, check=True)
    with open(path, encoding="utf-8") as file:
        return file.read().count("<heap nr=")


def test_threads_share_one_heap(tmp_path) -> None:
    """So what one thread frees serves all; programs allocate in more than one."""
    assert heaps(str(tmp_path / "ours")) == 1


def test_users_choose_the_number_of_heaps(tmp_path) -> None:
    assert heaps(str(tmp_path / "chosen"), MALLOC_ARENA_MAX="3") > 1
