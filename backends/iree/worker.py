"""The compiler's process: reads programs from a pipe, writes executables to another.

It runs as a script of its own and imports nothing of gnomon, so that it starts quickly and so that
whatever the compiler does to its process (abort, segmentation fault, a pass that never ends) leaves
the user's program untouched.

The conversation, in frames of a JSON header and a payload:
    parent:  {"sys_path": [...], "process_flags": [...]}, or "serve" in the place of the flags
    worker:  {"ready": true}
    parent:  {"flags": [...]}, the artifact
    worker:  {"ok": true}, the executable      or  {"ok": false, "stage": "..."}
Another compiler than IREE's is named by "serve", a ``module:function`` that takes flags and payload
of a request and returns header and payload of the reply.
Diagnostics go to the standard error stream, which the parent gave as a file.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import json
import os
import select
import signal
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, cast

__all__ = ["main", "read_frame", "write_frame"]

_START, _KERNELS_FORMED, _END = b"start", b"flow", b"end"
# Threads take turns at kernels. Of fewer, and before there are any, they only wait for each other:
# a fifth of the time that a small program takes.
_KERNELS_FOR_THREADS = 4

_HEADER = struct.Struct("<QQ")
_ORPHAN_POLL_MS = 5000


def write_frame(stream: BinaryIO, header: dict[str, object], payload: bytes = b"") -> None:
    """Writes one frame and flushes."""
    text = json.dumps(header).encode()
    stream.write(_HEADER.pack(len(text), len(payload)) + text)
    stream.write(payload)
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[dict[str, object], bytes] | None:
    """Reads one frame; None at the end of the stream."""
    sizes = stream.read(_HEADER.size)
    if len(sizes) < _HEADER.size:
        return None
    text_size, payload_size = _HEADER.unpack(sizes)
    text = stream.read(text_size)
    payload = stream.read(payload_size)
    if len(text) < text_size or len(payload) < payload_size:
        return None
    header: dict[str, object] = json.loads(text)
    return header, payload


def _exit_with_parent(requests: int) -> None:
    """Ends this process as soon as the parent is gone, even in the middle of a compilation."""
    parent = os.getppid()
    poll = select.poll()
    poll.register(requests, 0)
    while True:
        # A forked child of the parent may hold the pipe open, hence the second test.
        if poll.poll(_ORPHAN_POLL_MS) or os.getppid() != parent:
            os._exit(1)


def _compile(flags: Sequence[str], artifact: bytes) -> tuple[dict[str, object], bytes]:
    """Compiles in two halves: what is done to the program, and what to its kernels."""
    # It can be found only after the handshake has told `sys.path`.
    from iree.compiler.api import Output, Session, Source  # noqa: PLC0415

    session = Session()
    try:
        session.set_flags(*flags)
    except ValueError as error:
        print(error, file=sys.stderr, flush=True)
        return {"ok": False, "stage": "flags"}, b""
    with session, session.invocation() as invocation:
        _set_threads(session, False)
        invocation.enable_console_diagnostics()
        source = Source.wrap_buffer(session, artifact, buffer_name="gnomon")
        if not invocation.parse_source(source):
            return {"ok": False, "stage": "parse"}, b""
        _set_phases(invocation, _START, _KERNELS_FORMED)
        if not invocation.execute():
            return {"ok": False, "stage": "compile"}, b""
        with _module_of(invocation) as module:
            _drop_barriers(module)
            _set_threads(session, _count_kernels(module) >= _KERNELS_FOR_THREADS)
        _set_phases(invocation, _KERNELS_FORMED, _END)
        if not invocation.execute():
            return {"ok": False, "stage": "compile"}, b""
        return {"ok": True}, _executable(invocation, Output)


def _executable(invocation: Any, kind: Any) -> bytes:
    output = kind.open_membuffer()
    invocation.output_vm_bytecode(output)
    executable = bytes(output.map_memory())
    output.close()
    return executable


# ------------------------------------------------------------------------ the module between phases

# By MLIR's C interface, which the compiler's library has: `iree.compiler.ir` keeps each context
# that it has seen for ever, 3 MB for each program.

_POINTER, _INDEX = ctypes.c_void_p, ctypes.c_ssize_t


class _String(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t))


# MLIR's handles are structures of one pointer, which are passed as the pointer is.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ireeCompilerInvocationExportStealModule": (_POINTER, (_POINTER,)),
    "ireeCompilerInvocationImportStealModule": (ctypes.c_bool, (_POINTER, _POINTER)),
    "ireeCompilerInvocationSetCompileFromPhase": (None, (_POINTER, ctypes.c_char_p)),
    "ireeCompilerInvocationSetCompileToPhase": (None, (_POINTER, ctypes.c_char_p)),
    "ireeCompilerSessionBorrowContext": (_POINTER, (_POINTER,)),
    "mlirBlockGetFirstOperation": (_POINTER, (_POINTER,)),
    "mlirBlockGetNextInRegion": (_POINTER, (_POINTER,)),
    "mlirContextEnableMultithreading": (None, (_POINTER, ctypes.c_bool)),
    "mlirIdentifierStr": (_String, (_POINTER,)),
    "mlirOpResultGetOwner": (_POINTER, (_POINTER,)),
    "mlirOperationDestroy": (None, (_POINTER,)),
    "mlirOperationGetName": (_POINTER, (_POINTER,)),
    "mlirOperationGetNextInBlock": (_POINTER, (_POINTER,)),
    "mlirOperationGetNumOperands": (_INDEX, (_POINTER,)),
    "mlirOperationGetNumRegions": (_INDEX, (_POINTER,)),
    "mlirOperationGetOperand": (_POINTER, (_POINTER, _INDEX)),
    "mlirOperationGetRegion": (_POINTER, (_POINTER, _INDEX)),
    "mlirOperationGetResult": (_POINTER, (_POINTER, _INDEX)),
    "mlirRegionGetFirstBlock": (_POINTER, (_POINTER,)),
    "mlirValueIsAOpResult": (ctypes.c_bool, (_POINTER,)),
    "mlirValueReplaceAllUsesOfWith": (None, (_POINTER, _POINTER)),
}


@functools.cache
def _c(name: str) -> Any:
    """A function of the library; one of our own, as others may have given theirs other types."""
    # As in `_compile`, after the handshake.
    from iree.compiler.api import ctypes_dl  # noqa: PLC0415

    function = ctypes_dl._dylib[name]
    function.restype, function.argtypes = _FUNCTIONS[name]
    return function


def _set_threads(session: Any, on: bool) -> None:
    """Whether passes over several functions or kernels run at the same time."""
    context = _c("ireeCompilerSessionBorrowContext")(session._session_p)
    _c("mlirContextEnableMultithreading")(context, on)


def _set_phases(invocation: Any, first: bytes, last: bytes) -> None:
    _c("ireeCompilerInvocationSetCompileFromPhase")(invocation._inv_p, first)
    _c("ireeCompilerInvocationSetCompileToPhase")(invocation._inv_p, last)


@contextlib.contextmanager
def _module_of(invocation: Any) -> Iterator[int]:
    """The module of an invocation, which has it back afterwards."""
    module = _c("ireeCompilerInvocationExportStealModule")(invocation._inv_p)
    try:
        yield module
    finally:
        if not _c("ireeCompilerInvocationImportStealModule")(invocation._inv_p, module):
            raise RuntimeError("the compiler does not take back its own module")


def _blocks(op: int) -> Iterator[int]:
    for i in range(_c("mlirOperationGetNumRegions")(op)):
        block = _c("mlirRegionGetFirstBlock")(_c("mlirOperationGetRegion")(op, i))
        while block:
            yield block
            block = _c("mlirBlockGetNextInRegion")(block)


def _operations(block: int) -> Iterator[int]:
    op = _c("mlirBlockGetFirstOperation")(block)
    while op:
        # The op may be gone when the next is asked for.
        following = _c("mlirOperationGetNextInBlock")(op)
        yield op
        op = following


def _name(op: int) -> bytes:
    text = _c("mlirIdentifierStr")(_c("mlirOperationGetName")(op))
    return ctypes.string_at(text.data, text.length)


def _count_kernels(module: int) -> int:
    return sum(
        _name(op) == b"flow.executable" for block in _blocks(module) for op in _operations(block)
    )


def _drop_barriers(op: int) -> None:
    """Take away the barriers behind what kernels compute; in place.

    They have kept values out of the kernels of others. Left where they are they part the program:
    the host waits at each. And IREE 3.13's Vulkan driver frees an allocation too early whose parts
    are seen through barriers: others wrote where they still were.
    """
    for block in _blocks(op):
        for inner in _operations(block):
            _drop_barriers(inner)
            if _name(inner) == b"util.optimization_barrier":
                _drop_barrier(inner)


def _drop_barrier(barrier: int) -> None:
    count = _c("mlirOperationGetNumOperands")(barrier)
    values = [_c("mlirOperationGetOperand")(barrier, i) for i in range(count)]
    if not all(map(_is_computed, values)):
        return
    for i, value in enumerate(values):
        result = _c("mlirOperationGetResult")(barrier, i)
        _c("mlirValueReplaceAllUsesOfWith")(result, value)
    _c("mlirOperationDestroy")(barrier)


def _is_computed(value: int) -> bool:
    """Whether a value, or what it is a view of, is the result of a kernel."""
    while _c("mlirValueIsAOpResult")(value):
        op = _c("mlirOpResultGetOwner")(value)
        if _name(op) != b"flow.tensor.reshape":
            return _name(op) == b"flow.dispatch"
        value = _c("mlirOperationGetOperand")(op, 0)
    return False


def main() -> None:
    """Serves requests until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the compiler or its linker prints on standard output must not enter the conversation.
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if hasattr(select, "poll"):
        threading.Thread(target=_exit_with_parent, args=(requests.fileno(),), daemon=True).start()

    handshake = read_frame(requests)
    if handshake is None:
        return
    setup = handshake[0]
    sys.path[:] = cast(list[str], setup["sys_path"])
    serve = _compile
    if setup.get("serve"):
        module, _, function = str(setup["serve"]).partition(":")
        serve = getattr(importlib.import_module(module), function)
    else:
        from iree.compiler import api  # noqa: PLC0415

        process_flags = cast(list[str], setup["process_flags"])
        if process_flags:
            api._initializeGlobalCL("gnomon", *process_flags)
    write_frame(replies, {"ready": True})

    while (request := read_frame(requests)) is not None:
        header, artifact = request
        reply, executable = serve(cast(list[str], header["flags"]), artifact)
        sys.stderr.flush()
        write_frame(replies, reply, executable)


if __name__ == "__main__":
    main()
