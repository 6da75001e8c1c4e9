"""A user's program ends silently, whatever its globals hold and however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = """
import sys
import numpy as np
from tests.backends.iree.test_executable import PRODUCT, SLOW, MODELS, executable, matrix
from gnomon.backends.iree.buffer import Buffer

class Holder:
    pass

programs = {model: executable(PRODUCT, (SLOW, SLOW), (SLOW,), model) for model in MODELS}
array = matrix(0)
argument = Buffer.from_numpy(array)
results = [program([argument, array])[0] for program in programs.values()]
holder = Holder()
holder.cycle = holder, results
Holder.more = [programs["async"]([argument, results[1]])[0] for _ in range(3)]
"""

ENDINGS = {
    "falls off the end": ("", 0, ""),
    "values were read": ("kept = [result.to_numpy() for result in results]", 0, ""),
    "sys.exit": ("sys.exit(3)", 3, ""),
    "an exception": ("raise RuntimeError('on purpose')", 1, "RuntimeError: on purpose\n"),
    "in a module": (
        "import types; sys.modules['m'] = m = types.ModuleType('m'); m.r = results",
        0,
        "",
    ),
    "a thread holds it": (
        "import threading; threading.Thread(target=lambda r: r[0].wait(), args=(results,)).start()",
        0,
        "",
    ),
}


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_the_end_is_silent(ending: str) -> None:
    code, status, last = ENDINGS[ending]
    done = subprocess.run(
        [sys.executable, "-c", SETUP + code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=60,
        check=False,
    )
    assert done.stdout == ""
    if last:
        assert done.stderr.startswith("Traceback")
        assert done.stderr.endswith(last)
    else:
        assert done.stderr == ""
    assert done.returncode == status


INTERRUPTED = """
import os, signal, sys, threading, time
import gnomon as gn
from gnomon import lax

@gn.jit
def f(n):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, 1.0))

f(3)
start = time.monotonic()
f(10**7)
each = (time.monotonic() - start) / 10**7
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    f(min(2**31 - 1, int(1.0 / each)))
except KeyboardInterrupt:
    print("interrupted", flush=True)

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(2)

# The interpreter takes two seconds to end, in which the call returns.
sys.modules["m"] = type(sys)("m")
sys.modules["m"].kept = Slow()
"""


@pytest.mark.skipif(
    sys.platform == "win32", reason="on Windows, a process cannot interrupt itself by a signal"
)
def test_an_interrupted_call_may_return_while_the_interpreter_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


AT_EXIT = """
import atexit

def save():
    print(gn.jit(lambda t: t["a"][0] + 1)({"a": (1, 2)}), used(3.0), gnp.arange(3) + 1)
    print(gn.tree.map(lambda x: -x, {"b": [1, None]}), gn.grad(lambda t: t[0] ** 2)((3.0,))[0])
    print(tiered(2.0), gn.jit(lambda x: x * 5, tiered=True)(2.0))

atexit.register(save)
import gnomon as gn, gnomon.numpy as gnp
used = gn.jit(lambda x: x + 1)
tiered = gn.jit(lambda x: x * 4, tiered=True)
if {use}:
    used(1.0), tiered(1.0)
"""


@pytest.mark.parametrize(
    "use",
    [pytest.param(True, marks=pytest.mark.smoke), pytest.param(False, marks=pytest.mark.slow)],
)
def test_functions_of_all_kinds_work_in_exit_handlers_from_before_the_import(
    use: bool, tmp_path: Path
) -> None:
    # The libraries' exit handlers, of their registries and threads, run before this one.
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", AT_EXIT.replace("{use}", str(use))],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:2] == ["2 4.0 [1 2 3]", "{'b': [-1, None]} 6.0"]
    assert lines[2:] == ["8.0 10.0"]
    assert list(tmp_path.iterdir()) == []
