"""Eight CPU devices for a test, and JAX with eight CPU devices in a child process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import gnomon as gn
from gnomon.backends.iree import device as iree_device
from gnomon.backends.iree.targets import TARGETS
from tests.frontend.oracle import kind

COUNT = 8
ROOT = Path(__file__).parents[2]
_others = [iree_device.Device(id, TARGETS["cpu"]) for id in range(1, COUNT)]

# The names that a program may use, with either library.
_PRELUDE = """
import numpy as np
from {name}.sharding import *
from {name}.sharding import PartitionSpec as P
import {name} as lib, {name}.numpy as xnp
from {name} import lax
{more}
"""


@contextmanager
def eight_devices() -> Iterator[list[Any]]:
    """Run with eight CPU devices, the first of which is the only one of other tests."""
    gn.devices("cpu")
    before = iree_device._devices["cpu"]
    iree_device._devices["cpu"] = (before[0], *_others)
    try:
        yield gn.devices("cpu")
    finally:
        iree_device._devices["cpu"] = before
        gn.clear_caches()


def outcome(name: str, program: str) -> tuple[str, Any]:
    """The variable ``out`` of a program that is run with a library, or the kind of its error."""
    more = "from jax import shard_map" if name == "jax" else ""
    scope: dict[str, Any] = {}
    try:
        exec(_PRELUDE.format(name=name, more=more), scope)
        exec(program, scope)
    except Exception as error:
        return "error", (kind(error).__name__, str(error))
    return "value", _plain(scope.get("out"))


def _plain(x: Any) -> Any:
    """Convert a result to objects that can be pickled and compared."""
    if isinstance(x, (list, tuple)):
        return [_plain(v) for v in x]
    if isinstance(x, Mapping):
        return {str(k): _plain(v) for k, v in x.items()}
    if isinstance(x, (set, frozenset)):
        return sorted(_plain(v) for v in x)
    if isinstance(x, (bool, int, float, str, type(None), slice)):
        return repr(x) if isinstance(x, slice) else x
    if hasattr(x, "__array__") and hasattr(x, "sharding"):
        return [_plain(np.asarray(x)), str(x.sharding)]
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype != object:
        return [str(x.dtype), list(x.shape), x.tolist()]
    return str(x)


def jax_outcomes(programs: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
    """JAX's results of programs, all run on eight devices in one child process."""
    flags = "--xla_force_host_platform_device_count=8"
    child = subprocess.run(
        [sys.executable, "-c", "from tests.frontend import many_devices as m; m.answer()"],
        input=pickle.dumps(dict(programs)),
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        timeout=300,
        check=False,
    )
    assert child.returncode == 0, child.stderr.decode()
    found: dict[str, tuple[str, Any]] = pickle.loads(child.stdout)
    return found


def answer() -> None:
    """The entry point of the child process of `jax_outcomes`."""
    programs = pickle.loads(sys.stdin.buffer.read())
    warnings.simplefilter("ignore")
    answers = {key: outcome("jax", program) for key, program in programs.items()}
    sys.stdout.buffer.write(pickle.dumps(answers))
