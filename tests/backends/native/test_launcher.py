"""Calls without Python code: which ones the launcher makes, and what it leaves to Python."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from gnomon import _native
from gnomon._native import CallLock, DirectEntry, Dispatcher, IreeLauncher, SignatureCache
from tests.backends.native.caller import Caller


class View:
    """The stand-in for a buffer view of IREE."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Values(list):
    """The stand-in for a list of results of IREE."""

    def __init__(self, capacity: int) -> None:
        super().__init__([None] * capacity)

    def get_as_object(self, index: int, kind: type) -> Any:
        assert kind is View
        return self[index]


class Buffer:
    """A buffer with the slots that the launcher reads."""

    __slots__ = ("_array", "_deleted", "_host", "_pending", "_view", "device", "dtype", "shape")

    def __init__(self, value: Any, device: Any, **slots: Any) -> None:
        self.shape, self.dtype, self.device = (), "f32", device
        self._view: Any = View(value)
        self._array = self._pending = self._host = self._deleted = None
        for name, given in slots.items():
            setattr(self, name, given)

    def view_for(self, state: Any) -> View:
        self._view = View((state, self._array))
        return self._view


class Array:
    """An array with the slots that entries read."""

    __slots__ = ("_aval", "_buffer", "_value", "weak_type")

    def __init__(self, buffer: Any) -> None:
        self._aval: Any = AVAL
        self._buffer, self._value, self.weak_type = buffer, None, False

    def delete(self) -> None:
        raise AssertionError("a common array is deleted without Python code")


AVAL = SimpleNamespace(weak_type=True)
DEVICE = object()


class Program:
    """A loaded program, whose result is the list of its arguments' values, and its launcher."""

    def __init__(self, *, keeps_results: bool = True) -> None:
        self.state, self.lock, self.slow = "state", CallLock(), False
        self.lists: list[Values] = []
        self.general: list[list[Any]] = []
        self.fail: BaseException | None = None
        self.seconds = 0.0
        self.launcher = IreeLauncher(
            Buffer, View, Values, DEVICE, [((2,), "i32")], keeps_results, self.failed, self.owned
        )
        self.launcher.bind(
            lambda _, views, names: list(views), "context", self.invoke, "main", self
        )
        self.launcher.ready = True

    def invoke(self, function: str, arguments: list[View], results: Values) -> None:
        assert function == "main"
        time.sleep(self.seconds)
        if self.fail is not None:
            raise self.fail
        self.lists.append(results)
        results[0] = View([view.value for view in arguments])

    def failed(self, error: BaseException, state: Any) -> None:
        assert state == "state"
        if isinstance(error, ArithmeticError):
            raise ValueError("ours") from error

    def owned(self, results: list[Any], state: Any) -> list[Any]:
        assert state == "state"
        return [Buffer(("copied", result._view.value), DEVICE) for result in results]

    def entry(self, captures: Any = (), donated: Any = (), unflatten: Any = None) -> DirectEntry:
        def general(leaves: list[Any]) -> str:
            self.general.append(leaves)
            return "general"

        def host_buffer(leaf: Any) -> Buffer:
            return Buffer(("converted", leaf), DEVICE)

        return DirectEntry(
            self.launcher, Array, general, host_buffer, captures, [AVAL], donated, unflatten
        )


@pytest.fixture
def program() -> Program:
    return Program()


def test_a_call_and_its_result(program: Program) -> None:
    entry = program.entry(captures=[Buffer(3, DEVICE)])
    result = entry([Array(Buffer(1, DEVICE)), 2])
    assert type(result) is Array
    assert (result._aval, result.weak_type, result._value) == (AVAL, True, None)
    buffer = result._buffer
    assert type(buffer) is Buffer
    assert buffer._view.value == [1, ("converted", 2), 3]
    assert (buffer.shape, buffer.dtype, buffer.device) == ((2,), "i32", DEVICE)
    assert buffer._array is buffer._pending is buffer._host is buffer._deleted is None
    assert program.general == []


@pytest.mark.parametrize("keeps_results", [True, False])
def test_the_list_of_results_is_reused_if_it_is_kept(keeps_results: bool) -> None:
    program = Program(keeps_results=keeps_results)
    entry = program.entry()
    first, second = entry([1]), entry([2])
    assert (program.lists[0] is program.lists[1]) == keeps_results
    assert first._buffer._view.value == [("converted", 1)]
    assert second._buffer._view.value == [("converted", 2)]


def test_several_results_become_a_tree(program: Program) -> None:
    assert isinstance(program.entry(unflatten=tuple)([1]), tuple)
    with pytest.raises(ValueError, match="types of the results"):
        DirectEntry(program.launcher, Array, print, print, [], [], [], None)


def not_ready(program: Program) -> None:
    program.launcher.ready = False


def reload(program: Program) -> None:
    _native.next_runtime_generation()


@pytest.mark.parametrize("change", [not_ready, reload])
def test_calls_that_python_makes(program: Program, change: Any) -> None:
    leaves = [Array(Buffer(1, DEVICE))]
    change(program)
    assert program.entry()(leaves) == "general"
    assert program.general == [leaves]


def test_python_makes_the_calls_that_are_recorded(program: Program) -> None:
    _native.set_recording(True)
    try:
        assert program.entry()([]) == "general"
    finally:
        _native.set_recording(False)
    assert program.entry()([]) != "general"


@pytest.mark.parametrize(
    "buffer",
    [
        pytest.param(Buffer(1, object()), id="elsewhere"),
        pytest.param(Buffer(1, DEVICE, _pending="program"), id="pending"),
        pytest.param(Buffer(1, DEVICE, _view=None, _deleted="reason"), id="deleted"),
        pytest.param(SimpleNamespace(), id="foreign"),
    ],
)
def test_buffers_that_python_handles(program: Program, buffer: Any) -> None:
    assert program.entry()([Array(buffer)]) == "general"
    assert program.lists == []


def test_results_of_arguments_in_numpy_memory_are_copied(program: Program) -> None:
    result = program.entry()([Array(Buffer(1, DEVICE, _view=None, _array="memory"))])
    assert result._buffer._view.value == ("copied", [("state", "memory")])


def test_donated_arrays_are_deleted(program: Program) -> None:
    array, other = Array(Buffer(1, DEVICE)), Array(Buffer(2, DEVICE))
    buffer = array._buffer
    entry = program.entry(donated=[0])
    assert entry([array, other])._buffer._view.value == [1, 2]
    assert array._buffer is array._value is buffer._view is None
    assert array._aval is AVAL
    assert "donated" in buffer._deleted
    assert other._buffer is not None
    for leaves in ([other, other], [1, other]):
        assert entry(leaves) == "general"


def test_errors_are_translated(program: Program) -> None:
    entry = program.entry()
    program.fail = ZeroDivisionError("theirs")
    with pytest.raises(ValueError, match="ours"):
        entry([1])
    program.fail = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        entry([1])
    program.fail = None
    assert type(entry([1])) is Array  # the lock is free


def test_after_a_slow_call_python_takes_over(program: Program) -> None:
    program.seconds = 0.03
    entry = program.entry()
    assert type(entry([1])) is Array
    assert program.slow
    assert not program.launcher.ready
    assert entry([1]) == "general"


def test_a_program_that_runs_is_not_entered_again(program: Program) -> None:
    entry = program.entry()
    with program.lock:
        assert entry([1]) == "general"
    assert type(entry([1])) is Array


def test_the_lock_is_waited_for() -> None:
    lock, order = CallLock(), []

    def wait() -> None:
        with lock:
            order.append("waiter")

    with lock:
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.02)
        order.append("holder")
    thread.join(10)
    assert order == ["holder", "waiter"]


def test_attributes_must_be_slots() -> None:
    class WithoutSlots:
        pass

    types = (WithoutSlots, View, Values)
    with pytest.raises(RuntimeError, match="not kept in a slot"):
        IreeLauncher(*types, DEVICE, [], False, print, print)


# ------------------------------------------------------------------------------------- dispatchers


class Function(Dispatcher):
    """A compiled function that notes the calls that it makes itself."""

    def __init__(self, cache: SignatureCache, config: Any, state: Any) -> None:
        super().__init__(cache, config, state)
        self.calls: list[Any] = []

    def _call(self, args: Any, kwargs: Any) -> str:
        self.calls.append((args, kwargs))
        return "made"


@pytest.fixture
def function(caller: Caller) -> Any:
    """A function with an entry for calls with an int, in the context that is in force."""
    cache = caller.cache()
    config = SimpleNamespace(token="token", operands_somewhere=False)
    function = Function(cache, config, SimpleNamespace(staging=None))
    function.config, function.cache = config, cache
    _, _, key = cache.lookup((1,), {}, "token")
    assert key is not None
    cache.insert(key, lambda leaves: ("entry", leaves))
    _native.set_context("token")
    yield function
    from gnomon._config.current import _refresh_tokens

    _refresh_tokens()


def test_a_call_in_the_cache(function: Any) -> None:
    assert function(2) == ("entry", [2])
    assert function.calls == []


def test_calls_that_are_not_in_the_cache(function: Any) -> None:
    assert function(2.0) == function(1, x=2) == function(object()) == "made"
    assert [kwargs for _, kwargs in function.calls] == [{}, {"x": 2}, {}]


def test_without_a_common_context_the_configuration_is_read(function: Any) -> None:
    _native.set_context(None)
    assert function(2) == ("entry", [2])
    function.config.token = "other"
    assert function(2) == "made"
    function.config.token, function.config.operands_somewhere = "token", True
    assert function(2) == "made"


def test_a_subclass_must_be_initialized() -> None:
    class Forgetful(Dispatcher):
        def __init__(self) -> None:
            pass

    with pytest.raises((RuntimeError, TypeError)):
        Forgetful()()
