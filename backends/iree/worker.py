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

import importlib
import json
import os
import select
import signal
import struct
import sys
import threading
from collections.abc import Sequence
from typing import BinaryIO, cast

__all__ = ["main", "read_frame", "write_frame"]

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
    # It can be found only after the handshake has told `sys.path`.
    from iree.compiler.api import Output, Session, Source  # noqa: PLC0415

    session = Session()
    try:
        session.set_flags(*flags)
    except ValueError as error:
        print(error, file=sys.stderr, flush=True)
        return {"ok": False, "stage": "flags"}, b""
    with session, session.invocation() as invocation:
        invocation.enable_console_diagnostics()
        source = Source.wrap_buffer(session, artifact, buffer_name="gnomon")
        if not invocation.parse_source(source):
            return {"ok": False, "stage": "parse"}, b""
        if not invocation.execute():
            return {"ok": False, "stage": "compile"}, b""
        output = Output.open_membuffer()
        invocation.output_vm_bytecode(output)
        executable = bytes(output.map_memory())
        output.close()
    return {"ok": True}, executable


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
