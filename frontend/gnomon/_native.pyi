"""Types of the native module; backends/native holds its source."""

from collections.abc import Callable, Sequence
from typing import Any, Final, final

class NonHashableStaticArgumentError(TypeError, ValueError):
    """A value given for a static argument cannot be hashed."""

@final
class Uncached:
    """The type of UNCACHED."""

UNCACHED: Final[Uncached]
"""The result of `abstractify` for a leaf whose call must not be looked up."""

@final
class Key:
    """The signature of a call. Keys of calls that run the same program are equal."""

    @property
    def avals(self) -> tuple[Any, ...]:
        """The tokens of the leaves, in the order of the leaves."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class SignatureCache:
    """Maps the signature of a call to the entry to run for it."""

    def __init__(
        self,
        abstractify: Callable[[Any], object],
        flatten_custom: Callable[[Any], tuple[Sequence[Any], object] | None],
        array_type: type,
        static_argnums: tuple[int, ...] = (),
        static_argnames: tuple[str, ...] = (),
    ) -> None: ...
    def lookup(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], context: object
    ) -> tuple[Any | None, list[Any], Key | None]:
        """Looks up a call: (entry or None, leaves, key or None if a leaf is UNCACHED)."""
    def insert(self, key: Key, entry: object) -> None:
        """Sets the entry, which must not be None, for calls with this key."""
    def clear(self) -> None:
        """Removes all entries and cached tokens of leaves, and resets the counters."""
    def size(self) -> int:
        """The number of entries."""
    @property
    def hits(self) -> int:
        """The number of lookups that found an entry."""
    @property
    def misses(self) -> int:
        """The number of lookups of cacheable calls that found no entry."""

def strictly_equal(a: object | None, b: object | None) -> bool:
    """Whether no program can distinguish two objects."""

def set_comparison(comparison: Callable[[Any, Any], bool]) -> None:
    """Sets the function that compares two different objects of one type."""

def runtime_generation() -> int:
    """A number that changes when programs must be loaded again."""

def next_runtime_generation() -> None:
    """Makes all loaded programs invalid."""

def set_recording(on: bool) -> None:
    """Sets whether calls are recorded, so that all must be made in Python."""

def set_context(context: object) -> None:
    """Sets the context of all look-ups.

    None if it differs between threads, or if operands are checked.
    """

def stop_threads_instead_of_terminating() -> None:
    """Lets all threads but the calling one stop where C++ would end the process."""

class Readable:
    """The base class of arrays with a value, which has the buffer protocol."""

    __slots__ = ()

    def __buffer__(self, flags: int, /) -> memoryview: ...

def remove_folder_at_exit(folder: bytes) -> None:
    """Removes a folder after all exit handlers have run; a forked child does not remove it."""

def count_staging(change: int) -> None:
    """Changes the number of traces in progress, in all threads, that stage all ops."""

@final
class CallLock:
    """A lock for ``with`` that is fast to acquire if it is free."""

    def __init__(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class ObjectCode:
    """Object code of a compiled program, in the memory of this process."""

    nbytes: int
    """The bytes of memory that it takes."""

    def __init__(self, content: bytes) -> None: ...
    @staticmethod
    def is_supported() -> bool:
        """Whether object code can be loaded on this system."""

    def symbol(self, name: str) -> int:
        """The address of a function or variable, as long as the object lives."""

class Launcher:
    """Runs a compiled program without a Python frame."""

@final
class FunctionLauncher(Launcher):
    """Runs a function of machine code."""

    def __init__(
        self,
        buffer_type: type,
        device: object,
        output_types: Sequence[tuple[tuple[int, ...], Any]],
        empty: Callable[[tuple[int, ...], Any], Any],
        address: int,
        workspace: int,
        owner: object,
    ) -> None: ...

@final
class IreeLauncher(Launcher):
    """Runs a loaded program of IREE."""

    ready: bool
    """Whether the next call may be made. `bind` and a slow call set it to False."""

    def __init__(
        self,
        buffer_type: type,
        view_type: type,
        list_type: type,
        device: object,
        output_types: Sequence[tuple[tuple[int, ...], Any]],
        keeps_results: bool,
        failed: Callable[[BaseException, Any], None],
        owned: Callable[[list[Any], Any], Sequence[Any]],
    ) -> None: ...
    def bind(
        self,
        pack: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any],
        context: object,
        invoke: Callable[[Any, Any, Any], None],
        function: object,
        loaded: object,
    ) -> None:
        """Sets the loaded program."""

@final
class DirectEntry:
    """The entry of a signature whose calls need no Python code."""

    def __init__(
        self,
        launcher: Launcher,
        array_type: type,
        general: Callable[[list[Any]], Any],
        host_buffer: Callable[[Any], Any],
        captures: Sequence[Any],
        avals: Sequence[Any],
        donated: Sequence[int],
        unflatten: Callable[[list[Any]], Any] | None,
    ) -> None: ...
    def __call__(self, leaves: list[Any]) -> Any:
        """Runs the program on the dynamic leaves of a call."""

class Dispatcher:
    """The base class of compiled functions: looks up and runs a call.

    All calls that are not in the cache are made by the method ``_call(args, kwargs)`` of the
    subclass.
    """

    def __init__(self, cache: SignatureCache, config: object, state: object) -> None: ...
