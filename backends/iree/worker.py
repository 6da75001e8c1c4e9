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
import re
import select
import signal
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, cast

__all__ = ["ALLOCATE_AT_THE_CALL", "OWN_FLAGS", "RUNS_AHEAD", "main", "read_frame", "write_frame"]

_START, _KERNELS_FORMED, _MEMORY_PLANNED, _END = b"start", b"flow", b"stream", b"end"
# What this worker does besides the compiler; flags that begin so are not the compiler's.
OWN_FLAGS = "--gnomon-"
# For programs in the memory of the host: those that end before a call returns, and others.
ALLOCATE_AT_THE_CALL = "--gnomon-allocate-at-the-call"
RUNS_AHEAD = "--gnomon-allocate-at-the-call=runs-ahead"
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
    """Compiles in parts, between which the module is changed."""
    # It can be found only after the handshake has told `sys.path`.
    from iree.compiler.api import Output, Session, Source  # noqa: PLC0415

    session = Session()
    own = {flag for flag in flags if flag.startswith(OWN_FLAGS)}
    try:
        session.set_flags(*(flag for flag in flags if flag not in own))
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
        after = _KERNELS_FORMED
        if own:
            _set_phases(invocation, after, _MEMORY_PLANNED)
            if not invocation.execute():
                return {"ok": False, "stage": "compile"}, b""
            with _module_of(invocation) as module:
                _allocate_at_the_call(module, waits=RUNS_AHEAD in own)
            after = _MEMORY_PLANNED
        _set_phases(invocation, after, _END)
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


class _OperationState(ctypes.Structure):
    _fields_ = (
        ("name", _String),
        ("location", ctypes.c_void_p),
        # Numbers and pointers, which functions fill in.
        ("lists", ctypes.c_void_p * 10),
        ("infer_results", ctypes.c_bool),
    )


_STATE = ctypes.POINTER(_OperationState)

# MLIR's handles are structures of one pointer, which are passed as the pointer is.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ireeCompilerInvocationExportStealModule": (_POINTER, (_POINTER,)),
    "ireeCompilerInvocationImportStealModule": (ctypes.c_bool, (_POINTER, _POINTER)),
    "ireeCompilerInvocationSetCompileFromPhase": (None, (_POINTER, ctypes.c_char_p)),
    "ireeCompilerInvocationSetCompileToPhase": (None, (_POINTER, ctypes.c_char_p)),
    "ireeCompilerSessionBorrowContext": (_POINTER, (_POINTER,)),
    "mlirAttributeParseGet": (_POINTER, (_POINTER, _String)),
    "mlirBlockGetFirstOperation": (_POINTER, (_POINTER,)),
    "mlirBlockGetNextInRegion": (_POINTER, (_POINTER,)),
    "mlirBlockInsertOwnedOperationBefore": (None, (_POINTER, _POINTER, _POINTER)),
    "mlirContextEnableMultithreading": (None, (_POINTER, ctypes.c_bool)),
    "mlirIdentifierGet": (_POINTER, (_POINTER, _String)),
    "mlirIdentifierStr": (_String, (_POINTER,)),
    "mlirOpResultGetOwner": (_POINTER, (_POINTER,)),
    "mlirOperationCreate": (_POINTER, (_STATE,)),
    "mlirOperationDestroy": (None, (_POINTER,)),
    "mlirOperationGetAttributeByName": (_POINTER, (_POINTER, _String)),
    "mlirOperationGetContext": (_POINTER, (_POINTER,)),
    "mlirOperationGetLocation": (_POINTER, (_POINTER,)),
    "mlirOperationGetName": (_POINTER, (_POINTER,)),
    "mlirOperationGetNextInBlock": (_POINTER, (_POINTER,)),
    "mlirOperationGetNumOperands": (_INDEX, (_POINTER,)),
    "mlirOperationGetNumRegions": (_INDEX, (_POINTER,)),
    "mlirOperationGetOperand": (_POINTER, (_POINTER, _INDEX)),
    "mlirOperationGetRegion": (_POINTER, (_POINTER, _INDEX)),
    "mlirOperationGetResult": (_POINTER, (_POINTER, _INDEX)),
    "mlirRegionGetFirstBlock": (_POINTER, (_POINTER,)),
    "mlirOperationStateAddAttributes": (None, (_STATE, _INDEX, _POINTER)),
    "mlirOperationStateAddOperands": (None, (_STATE, _INDEX, _POINTER)),
    "mlirOperationStateAddResults": (None, (_STATE, _INDEX, _POINTER)),
    "mlirValueGetType": (_POINTER, (_POINTER,)),
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


def _allocate_at_the_call(module: int, waits: bool) -> None:
    """Has programs allocate memory when they are called, and not in the order of a queue; in place.

    Where programs run ahead of the device, a loop waits for each iteration before it allocates for
    the next: otherwise it would allocate for all of them.

    IREE 3.13 takes memory in the order of a queue from slabs of 64 MiB. It keeps every slab for
    ever and looks for room in the last one and four others, so a process that frees more than that
    and allocates again grows without end. Memory that is allocated at the call is `malloc`'s.
    """
    for block in _blocks(module):
        for function in _operations(block):
            for i, body in enumerate(_blocks(function)):
                _allocate_in(body, waits and i > 0, waits)


def _allocate_in(block: int, wait: bool, nested_wait: bool) -> None:
    for op in _operations(block):
        if _name(op) == b"stream.resource.alloca":
            _allocate_now(block, op, wait)
        for inner in _blocks(op):
            _allocate_in(inner, nested_wait, nested_wait)


def _allocate_now(block: int, queued: int, wait: bool) -> None:
    """Puts an allocation in the place of a queued one, which waits for what that would wait for."""

    def create(name: bytes, like: int, operands: Sequence[int], **attributes: int) -> int:
        op = _create_op(queued, name, _c("mlirValueGetType")(like), operands, attributes)
        _c("mlirBlockInsertOwnedOperationBefore")(block, queued, op)
        return int(_c("mlirOperationGetResult")(op, 0))

    size, *wait_for = (
        _c("mlirOperationGetOperand")(queued, i)
        for i in range(_c("mlirOperationGetNumOperands")(queued))
    )
    memory, ready = (_c("mlirOperationGetResult")(queued, i) for i in range(2))
    affinity = _c("mlirOperationGetAttributeByName")(queued, _string(b"affinity"))
    new = create(
        b"stream.resource.alloc", memory, [size], **({"affinity": affinity} if affinity else {})
    )
    if not wait_for:
        wait_for = [create(b"stream.timepoint.immediate", ready, [])]
    elif wait:
        sizes = _parse_attribute(queued, b"array<i32: 1, 1, 1>")
        operands = [new, size, *wait_for]
        new = create(b"stream.timepoint.await", memory, operands, operandSegmentSizes=sizes)
    # The memory is ready when what the queue was to wait for is.
    _c("mlirValueReplaceAllUsesOfWith")(memory, new)
    _c("mlirValueReplaceAllUsesOfWith")(ready, wait_for[0])
    _c("mlirOperationDestroy")(queued)


def _create_op(
    source: int, name: bytes, type_: int, operands: Sequence[int], attributes: dict[str, int]
) -> int:
    """An op of one result that is in no block yet, with the location of another."""
    context = _c("mlirOperationGetContext")(source)
    state = _OperationState(name=_string(name), location=_c("mlirOperationGetLocation")(source))
    _c("mlirOperationStateAddResults")(state, 1, _handles(type_))
    _c("mlirOperationStateAddOperands")(state, len(operands), _handles(*operands))
    for key, value in attributes.items():
        named = _handles(_c("mlirIdentifierGet")(context, _string(key.encode())), value)
        _c("mlirOperationStateAddAttributes")(state, 1, named)
    return int(_c("mlirOperationCreate")(state))


def _parse_attribute(op: int, text: bytes) -> int:
    return int(_c("mlirAttributeParseGet")(_c("mlirOperationGetContext")(op), _string(text)))


def _handles(*handles: int) -> Any:
    return (ctypes.c_void_p * len(handles))(*handles)


def _string(text: bytes) -> _String:
    string = _String(ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p), len(text))
    string.kept = text  # as long as the pointer to it
    return string


def _rename_temporary_folder() -> None:
    """Gives the temporary folder a name that a shell takes: the linker's command is not quoted."""
    folder = os.environ["TMPDIR"]
    if re.search(r"[^A-Za-z0-9_./-]", folder) and os.path.isdir("/proc/self/fd"):
        # The linker is a process of its own.
        descriptor = os.open(folder, os.O_RDONLY)
        os.environ["TMPDIR"] = f"/proc/{os.getpid()}/fd/{descriptor}"


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

    _rename_temporary_folder()
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
