"""Eight CPU devices for tests, and JAX with eight CPU devices in a child process.

A test module uses the fixture ``devices`` by

    pytestmark = pytest.mark.usefixtures("devices")

and compares its programs with JAX's by a `Comparison`.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import gnomon as gn
from gnomon.backends.iree import device as iree_device
from gnomon.backends.iree.targets import TARGETS
from tests.frontend.oracle import kind
from tests.tolerance import assert_near

COUNT = 8
_others = [iree_device.Device(id, TARGETS["cpu"]) for id in range(1, COUNT)]

# The names that a program may use, with either library.
_PRELUDE = """
import numpy as np
from {name}.sharding import *
from {name}.sharding import PartitionSpec as P
import {name} as lib, {name}.numpy as xnp
from {name} import lax, shard_map
"""
# A program without a result must fail.
_RESULT = re.compile(r"\bout = ")


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
    scope: dict[str, Any] = {}
    try:
        exec(_PRELUDE.format(name=name), scope)
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
    """JAX's results of programs, each run on eight devices in the session's child process."""
    return {name: _jax_process().outcome(program) for name, program in programs.items()}


class _JaxProcess:
    """A process in which JAX has eight devices: its flag must be set before JAX begins."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        context.Process(target=_answer, args=(theirs,), daemon=True).start()
        theirs.close()

    def outcome(self, program: str) -> tuple[str, Any]:
        """The outcome of one program; an error if the process ends or takes minutes."""
        self.connection.send(program)
        assert self.connection.poll(300), program
        answer: tuple[str, Any] = self.connection.recv()
        return answer


@functools.cache
def _jax_process() -> _JaxProcess:
    """The child process, which lasts as long as this one: JAX takes seconds to start."""
    return _JaxProcess()


def _answer(connection: Connection) -> None:
    """What the child process runs."""
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={COUNT}"
    warnings.simplefilter("ignore")
    with contextlib.suppress(EOFError):
        while True:
            connection.send(outcome("jax", connection.recv()))


class Comparison:
    """Programs that are run with gnomon and with JAX, whose results must agree.

    Args:
      programs: the programs by name; each sets the variable ``out``, or fails.
    """

    def __init__(self, programs: Mapping[str, str]) -> None:
        self.programs = dict(programs)

    def both(self, name: str) -> tuple[str, Any, Any]:
        """Run a program: ``"value"`` or ``"error"``, our result and JAX's; errors of one kind."""
        what, ours = outcome("gnomon", self.programs[name])
        expected, theirs = _jax_process().outcome(self.programs[name])
        assert what == expected, (ours, theirs)
        if what == "error":
            assert ours[0] == theirs[0], (ours, theirs)
        return what, ours, theirs

    def check_equal(self, name: str) -> None:
        """Assert that both results are equal, or that both fail if the program sets no result."""
        what, ours, theirs = self.both(name)
        assert what == ("value" if _RESULT.search(self.programs[name]) else "error"), theirs
        if what == "value":
            assert ours == theirs

    def check_near(self, name: str, ulps: float) -> str:
        """Assert that both results are arrays that differ by some ulps of 1, or that both fail.

        Returns:
          ``"value"`` or ``"error"``.
        """
        what, ours, theirs = self.both(name)
        if what == "value":
            assert ours[:2] == theirs[:2]
            dtype = theirs[0]
            assert_near(np.array(ours[2], dtype), np.array(theirs[2], dtype), ulps, scale=1.0)
        return what

    def check_error(self, name: str, text: str) -> None:
        """Assert that both fail with one kind of error, and that ours says ``text``."""
        what, ours, theirs = self.both(name)
        assert what == "error", (ours, theirs)
        assert text in ours[1]
