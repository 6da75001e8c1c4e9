"""The MLIR context of the process and its threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import weakref

import pytest

from gnomon.dialects import mlir


def test_a_thread_leaves_the_context_before_it_ends() -> None:
    """Afterwards, the bindings' own stack of the thread would release them without the GIL."""
    left: list[int] = []

    def record() -> None:
        assert mlir.ir.Context.current is mlir.ir.Location.current is None
        left.append(threading.get_ident())

    def work() -> None:
        mlir.ensure_context()
        assert mlir.ir.Context.current is mlir.context()
        weakref.finalize(mlir._thread.entered, record)
        mlir.ensure_context()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert left == [thread.ident]


def test_a_thread_that_ends_leaves_the_others_in_the_context() -> None:
    mlir.ensure_context()
    thread = threading.Thread(target=mlir.ensure_context)
    thread.start()
    thread.join(60)
    assert mlir.ir.Context.current is mlir.context()
    assert mlir.ir.Location.current == mlir.ir.Location.unknown()


_FORK = """
import os, threading
from gnomon.dialects import mlir

mlir.ensure_context()
entered, end = threading.Event(), threading.Event()

def work():
    mlir.ensure_context()
    entered.set()
    end.wait()

thread = threading.Thread(target=work)
thread.start()
entered.wait()
child = os.fork()
if child == 0:
    assert mlir.ir.Context.current is mlir.context()
    os._exit(0)
end.set()
thread.join()
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_stays_in_the_context() -> None:
    """It deletes what belongs to the threads that it has not, on the thread that goes on."""
    run = [sys.executable, "-W", "ignore", "-c", _FORK]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


OTHER_BINDINGS = """
import sys
import torch_mlir._mlir_libs._stablehlo as stablehlo
import torch_mlir.ir
{change}
import gnomon
try:
    gnomon.jit(lambda x: x + 1).lower(1.0)
except ImportError as error:
    print(error)
"""
ADVICE = "`pip install torch-mlir==20261001` installs the version that it was tested with"


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ("del torch_mlir.ir.DynamicOpTrait", "torch_mlir.ir.DynamicOpTrait"),
        (
            "del stablehlo.get_current_version, stablehlo.register_dialect",
            "torch_mlir._mlir_libs._stablehlo.get_current_version, "
            "torch_mlir._mlir_libs._stablehlo.register_dialect",
        ),
        ("sys.modules['torch_mlir.dialects.func'] = None", "torch_mlir.dialects.func.FuncOp"),
    ],
)
def test_bindings_that_lack_something_are_refused(change: str, missing: str) -> None:
    command = [sys.executable, "-c", OTHER_BINDINGS.format(change=change)]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert output == f"gnomon needs {missing}, which the installed torch-mlir lacks: {ADVICE}\n"
