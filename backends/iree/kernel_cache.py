"""The compiled kernels of a program: from the cache, or from several processes of the compiler.

The compiler's process splits a program (`kernels.py`) and asks for its kernels. Kernels that were
compiled before, for any program, are in the cache of executables. The others are compiled in
batches, by the process that asked and by additional ones. Each batch is an entry of the cache;
another entry for each kernel names its batch.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gnomon.backends.cache import ExecutableCache, cache_key
from gnomon.backends.errors import CompilerUnavailable
from gnomon.backends.iree.inside.kernels import pack, unpack
from gnomon.backends.iree.options import available_cores
from gnomon.backends.iree.process import CompilerProcess, ProcessDiedError, ProcessTimeoutError
from gnomon.backends.progress import report

__all__ = ["Kernels", "stop_helpers"]

logger = logging.getLogger(__name__)

# More processes than this would wait for memory, and for the one that splits programs.
_MAX_PROCESSES = 8
# This many kernels are worth starting another process, which takes a quarter of a second.
_KERNELS_FOR_A_PROCESS = 4
# The shares of a process in the remaining kernels, one batch after another: the first batches are
# large, since a batch costs 25 ms besides its kernels, and the last ones are small, so that the
# processes end at about the same time.
_SHARES = (0.6, 0.6, 1.0)
_MIN_BATCH, _MAX_BATCH = 2, 16

Message = tuple[dict[str, object], bytes]
Ask = Callable[[dict[str, object], bytes], Message]


@dataclass(frozen=True)
class _Place:
    """The place of a compiled kernel: the key of its batch, and its index there."""

    batch: str
    index: int


class Kernels:
    """The kernels of programs with the same flags.

    Args:
      store: the cache; None for no cache.
      flags: the compiler's flags for the program.
      process_flags: the flags of the compiler's process.
      key: everything, besides its text, on which the code of a kernel depends.
      timeout_s: the timeout for each batch.
    """

    def __init__(
        self,
        store: ExecutableCache | None,
        flags: Sequence[str],
        process_flags: Sequence[str],
        key: Iterable[str],
        timeout_s: float,
    ) -> None:
        self._store = store
        self._flags = list(flags)
        self._process_flags = list(process_flags)
        self._key = tuple(key)
        self._timeout_s = timeout_s
        self.used = False

    def announce(self, count: int) -> None:
        """Start the processes that will help to compile this many kernels.

        They start while the worker plans the program's memory. All of them may be in the cache, but
        mostly a program that is compiled has new ones.
        """
        for process in _helpers(_processes_for(count) - 1):
            with contextlib.suppress(CompilerUnavailable, OSError):
                process.start(self._process_flags)

    def provide(self, texts: bytes, ask: Ask) -> Message:
        """The answer to a worker that asks for compiled kernels.

        Args:
          texts: the texts of the kernels, as the worker sent them.
          ask: sends the worker a request, and waits for its reply.

        Returns:
          The header and the payload of the answer. If a kernel did not compile, the answer tells
          the worker to compile the program as a whole.
        """
        kernels = unpack(texts)
        keys = [cache_key("kernel", *self._key, text) for text in kernels]
        places: dict[str, _Place] = {}
        batches: dict[str, bytes] = {}
        for key in keys:
            self._look_up(key, places, batches)
        missing = [
            (key, text) for key, text in zip(keys, kernels, strict=True) if key not in places
        ]
        logger.debug("%d kernels, %d of them in the cache", len(keys), len(keys) - len(missing))
        if missing and not self._compile(missing, ask, places, batches):
            return {"places": None}, b""
        order = {batch: i for i, batch in enumerate(batches)}
        self.used = True
        return (
            {"places": [[order[places[key].batch], places[key].index] for key in keys]},
            pack(list(batches.values())),
        )

    def _look_up(self, key: str, places: dict[str, _Place], batches: dict[str, bytes]) -> None:
        if self._store is None or (entry := self._store.get(key)) is None:
            return
        place = _Place(**json.loads(entry))
        if place.batch not in batches:
            batch = self._store.get(place.batch)
            if batch is None:
                return
            batches[place.batch] = batch
        places[key] = place

    def _compile(
        self,
        missing: Sequence[tuple[str, bytes]],
        ask: Ask,
        places: dict[str, _Place],
        batches: dict[str, bytes],
    ) -> bool:
        """Compile kernels and store them; False if one does not compile."""
        processes = _processes_for(len(missing))
        pending = deque(_batches(missing, processes))
        failed = threading.Event()
        total, reporting = len(places) + len(missing), threading.Lock()
        compiled: dict[str, tuple[bytes, list[str]]] = {}
        report(total - len(missing), total)

        def work(ask: Ask) -> None:
            while not failed.is_set():
                try:
                    batch = pending.popleft()
                except IndexError:
                    return
                keys = [key for key, _ in batch]
                name = cache_key("batch", *keys)
                symbol = f"gnomon_{name[:32]}"
                try:
                    reply, content = ask({"batch": symbol}, pack([text for _, text in batch]))
                except BaseException:
                    failed.set()
                    raise
                if not reply["ok"]:
                    failed.set()
                    return
                with reporting:
                    compiled[name] = content, keys
                    done = sum(len(keys) for _, keys in compiled.values())
                    report(total - len(missing) + done, total)

        def help_(process: CompilerProcess) -> None:
            try:
                work(lambda header, payload: self._request(process, header, payload))
            except (ProcessDiedError, ProcessTimeoutError, CompilerUnavailable) as error:
                # The program is compiled as a whole instead, which reports the error if it recurs.
                logger.debug("a process that compiled kernels failed: %r", error)

        helpers = [
            threading.Thread(target=help_, args=(process,), name="gnomon-kernels", daemon=True)
            for process in _helpers(processes - 1)
        ]
        for helper in helpers:
            helper.start()
        work(ask)
        for helper in helpers:
            helper.join()
        if failed.is_set():
            return False
        entries: dict[str, bytes] = {}
        for name, (content, keys) in compiled.items():
            batches[name] = entries[name] = content
            for index, key in enumerate(keys):
                places[key] = _Place(name, index)
                entries[key] = json.dumps({"batch": name, "index": index}).encode()
        if self._store is not None:
            self._store.put_all(entries)
        return True

    def _request(
        self, process: CompilerProcess, header: dict[str, object], payload: bytes
    ) -> Message:
        header = {**header, "flags": self._flags}
        return process.request(header, payload, self._process_flags, self._timeout_s)


def _processes_for(kernels: int) -> int:
    """The number of processes that compile some kernels."""
    return min(available_cores(), _MAX_PROCESSES, -(-kernels // _KERNELS_FOR_A_PROCESS))


def _batches(kernels: Sequence[tuple[str, bytes]], processes: int) -> list[list[tuple[str, bytes]]]:
    """Kernels in batches, in the order in which the processes should take them."""
    # The long ones come first, since one of them could take longer than all that is left.
    rest = sorted(kernels, key=lambda one: -len(one[1]))
    batches = []
    shares = itertools.chain(_SHARES, itertools.repeat(_SHARES[-1]))
    while rest:
        share = next(shares) if processes > 1 else 1.0
        size = min(max(math.ceil(len(rest) * share / processes), _MIN_BATCH), _MAX_BATCH)
        # Every process gets some of the long ones.
        taken = rest[: size * processes]
        batches += [taken[i::processes] for i in range(processes) if taken[i::processes]]
        rest = rest[size * processes :]
    return batches


_HELPERS: list[CompilerProcess] = []
_lock = threading.Lock()


def _helpers(count: int) -> list[CompilerProcess]:
    """Additional processes of the compiler, which are kept for later programs."""
    with _lock:
        while len(_HELPERS) < count:
            _HELPERS.append(CompilerProcess())
        return _HELPERS[:count]


def stop_helpers() -> None:
    """End the additional processes; the next compilation starts others."""
    for process in list(_HELPERS):
        process.stop()
