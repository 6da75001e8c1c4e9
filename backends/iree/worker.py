"""The compiler's process: reads programs from a pipe, and writes executables to another.

It runs as a script and imports nothing of gnomon, so that it starts quickly. Failures of the
compiler (an abort, a segmentation fault, a pass that never ends) do not affect the user's program.

The conversation, in frames of a JSON header and a payload:
    parent:  {"sys_path": [...], "process_flags": [...], "serve": ""}
    worker:  {"ready": true}
    parent:  {"flags": [...]}, the artifact
    worker:  {"ok": true}, the executable      or  {"ok": false, "stage": "..."}
If the flags say that kernels are compiled separately, the worker asks for them in between:
    worker:  {"kernels": n}, the texts
    parent:  {"batch": name}, some of them     any number of times; other workers also get "flags"
    worker:  {"ok": true}, the compiled batch  or  {"ok": false, "stage": "..."}
    parent:  {"places": [...]}, the batches    or  {"places": null} to compile it as a whole
If "serve" is not empty, it names a compiler other than IREE's, as ``module:function``: it takes the
flags and the payload of a request, and returns the header and the payload of the reply.
Diagnostics go to standard error, for which the parent provides a file.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import json
import os
import re
import select
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

if TYPE_CHECKING:
    from gnomon.backends.iree.inside.compiler_ir import CompilerIR

__all__ = [
    "ALLOCATE_AT_THE_CALL",
    "CHECK_PARTIAL_RESULTS",
    "KERNELS_APART",
    "OWN_FLAGS",
    "main",
    "read_frame",
    "write_frame",
]

_START, _KERNELS_FORMED, _MEMORY_PLANNED, _END = b"start", b"flow", b"stream", b"end"
_MERGE_IN_KERNELS = b"stream.executable(builtin.module(func.func(cse)))"
_SOURCES_PHASE, _TARGETS_PHASE = b"executable-sources", b"executable-targets"
_CONFIGURED_PHASE, _HOST_CODE_PHASE = b"executable-configurations", b"vm"
# Flags with this prefix are for this worker, not for the compiler.
OWN_FLAGS = "--gnomon-"
# For programs in the memory of the host.
ALLOCATE_AT_THE_CALL = "--gnomon-allocate-at-the-call"
# For GPUs whose kernels have lanes and subgroups; see `partial_results`.
CHECK_PARTIAL_RESULTS = "--gnomon-check-partial-results"
# For this machine's processor, with a linker; see `kernels`.
KERNELS_APART = "--gnomon-kernels-apart"
# Threads compile kernels in parallel. With fewer kernels than this, and before kernels are formed,
# they only wait for each other, which takes a fifth of the time of a small program.
_KERNELS_FOR_THREADS = 4
# With fewer kernels, splitting does not pay: assembling a program takes as long as one or two.
_KERNELS_TO_PART = 4

_Message = tuple[dict[str, object], bytes]
_Ask = Callable[[dict[str, object], bytes], _Message]
_Tell = Callable[[dict[str, object]], None]
_Server = Callable[[dict[str, object], bytes, _Ask, _Tell], _Message]

# What the parent says when it starts this process.
_setup: dict[str, object] = {}

_HEADER = struct.Struct("<QQ")
_ORPHAN_POLL_MS = 5000


def write_frame(stream: BinaryIO, header: dict[str, object], payload: bytes = b"") -> None:
    """Write one frame and flush."""
    text = json.dumps(header).encode()
    stream.write(_HEADER.pack(len(text), len(payload)) + text)
    stream.write(payload)
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[dict[str, object], bytes] | None:
    """Read one frame; None at the end of the stream."""
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
    """End this process as soon as the parent has ended, even during a compilation."""
    parent = os.getppid()
    poll = select.poll()
    poll.register(requests, 0)
    while True:
        # A forked child of the parent may hold the pipe open, hence the second test.
        if poll.poll(_ORPHAN_POLL_MS) or os.getppid() != parent:
            os._exit(1)


def _session(flags: Sequence[str]) -> tuple[Any, CompilerIR] | None:
    """A session of the compiler with flags, and access to its programs; None for wrong flags."""
    # The import works only after the handshake, which sets `sys.path`.
    from iree.compiler.api import Session  # noqa: PLC0415 - see above

    session = Session()
    try:
        session.set_flags(*(flag for flag in flags if not flag.startswith(OWN_FLAGS)))
    except ValueError as error:
        print(error, file=sys.stderr, flush=True)
        return None
    library, handle = _inside("session").handles(session)
    native = ctypes.CDLL(str(_setup["native"]))
    ir: CompilerIR = _inside("compiler_ir").CompilerIR(library, handle, native)
    ir.set_threads(False)
    return session, ir


class _StageError(Exception):
    """The compiler has refused a program, and printed why; the argument is the stage."""


def _compile(flags: Sequence[str], artifact: bytes, ask: _Ask, tell: _Tell) -> _Message:
    """Compile in several phases, and rewrite the module between them.

    Args:
      flags: the flags for the program.
      artifact: the program.
      ask: sends the parent a message, and returns the answer.
      tell: sends it a message that has no answer.
    """
    from iree.compiler.api import Output, Source  # noqa: PLC0415

    opened = _session(flags)
    if opened is None:
        return {"ok": False, "stage": "flags"}, b""
    session, ir = opened
    own = {flag for flag in flags if flag.startswith(OWN_FLAGS)}
    with session, session.invocation() as invocation:
        invocation.enable_console_diagnostics()
        source = Source.wrap_buffer(session, artifact, buffer_name="gnomon")
        try:
            if not invocation.parse_source(source):
                raise _StageError("parse")
            facts = _plan(ir, invocation, own, tell)
            _generate(ir, session, invocation, own, ask, facts)
        except _StageError as error:
            return {"ok": False, "stage": str(error)}, b""
        return {"ok": True}, _executable(invocation, Output)


def _run_phases(ir: CompilerIR, invocation: Any, first: bytes, last: bytes) -> None:
    if not ir.run_phases(invocation, first, last):
        raise _StageError("compile")


def _run_passes(ir: CompilerIR, invocation: Any, pipeline: bytes) -> None:
    if not ir.run_passes(invocation, pipeline):
        raise _StageError("compile")


@contextlib.contextmanager
def _stage(name: str) -> Iterator[None]:
    """A part of a compilation that raises ``ValueError`` to refuse the program."""
    try:
        yield
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        raise _StageError(name) from error


class _Facts(NamedTuple):
    """The number of kernels of a program, and whether the host runs its loops and branches."""

    kernels: int
    host_control: bool


def _plan(ir: CompilerIR, invocation: Any, own: set[str], tell: _Tell) -> _Facts:
    """Form the kernels of a program and plan its memory.

    Flags that do not apply to the program are removed from ``own``.
    """
    # Without their bodies, equal kernels would no longer be seen to be equal.
    _run_passes(ir, invocation, b"iree-flow-deduplicate-executables")
    with ir.module_of(invocation) as module:
        bodies = _inside("kernel_bodies").Bodies(ir, module)
    with contextlib.closing(bodies):
        _run_phases(ir, invocation, _START, _KERNELS_FORMED)
        with ir.module_of(invocation) as module:
            _inside("barriers").drop(ir, module)
        # Barriers kept equal values apart. If these were merged only later, they would share a
        # buffer that `in_place` did not see.
        _run_passes(ir, invocation, b"cse")
        with ir.module_of(invocation) as module:
            _inside("wide_literals").write_by_kernels(ir, module)
            with _stage("in-place"):
                _inside("in_place").copy_updated_buffers(ir, module)
            _inside("cloned_kernels").separate_results(ir, module)
            _inside("stored_bools").separate_bytes(ir, module)
            count = _count_kernels(ir, module)
            host_control = _has_host_control(ir, module)
            if host_control:
                _inside("host_reads").wait_for_carries(ir, module)
        if count < _KERNELS_TO_PART:
            own.discard(KERNELS_APART)
        elif KERNELS_APART in own:
            tell({"announced": count})
        _run_phases(ir, invocation, _KERNELS_FORMED, _MEMORY_PLANNED)
        with ir.module_of(invocation) as module:
            if host_control:
                with _stage("memory"):
                    _inside("written_memory").check(ir, module)
            if ALLOCATE_AT_THE_CALL in own:
                _inside("allocations").allocate_at_the_call(ir, module)
            _inside("planned_memory").record(ir, module)
            with _stage("bodies"):
                bodies.put_back(module)
    if bodies.count:
        _run_passes(ir, invocation, _MERGE_IN_KERNELS)
    return _Facts(count, host_control)


def _generate(
    ir: CompilerIR, session: Any, invocation: Any, own: set[str], ask: _Ask, facts: _Facts
) -> None:
    """Generate the code of a program, after `_plan`."""
    after = _MEMORY_PLANNED
    objects: list[Path] = []
    if KERNELS_APART in own:
        _run_phases(ir, invocation, after, _SOURCES_PHASE)
        with _stage("kernels"):
            objects = _with_compiled_kernels(ir, session, invocation, ask)
        after = _TARGETS_PHASE if objects else _SOURCES_PHASE
    if CHECK_PARTIAL_RESULTS in own:
        _run_phases(ir, invocation, after, _CONFIGURED_PHASE)
        with _stage("reductions"), ir.module_of(invocation) as module:
            _inside("partial_results").check(ir, module)
        after = _CONFIGURED_PHASE
    # Kernels that were compiled separately had several processes instead of threads.
    ir.set_threads(not objects and facts.kernels >= _KERNELS_FOR_THREADS)
    try:
        if facts.host_control:
            _run_phases(ir, invocation, after, _HOST_CODE_PHASE)
            with ir.module_of(invocation) as module:
                _inside("passed_references").copy_passed(ir, module)
            after = _HOST_CODE_PHASE
        _run_phases(ir, invocation, after, _END)
    finally:
        for path in objects:
            path.unlink()


def _with_compiled_kernels(ir: CompilerIR, session: Any, invocation: Any, ask: _Ask) -> list[Path]:
    """Replace the kernels of a program by separately compiled ones; the files of their objects."""
    kernels_module = _inside("kernels")
    try:
        with ir.module_of(invocation) as module:
            kernels = kernels_module.split(ir, module)
    except kernels_module.UnknownFormError as error:
        print(f"warning: {error}", file=sys.stderr, flush=True)
        return []
    if not kernels:
        return []
    texts = list(dict.fromkeys(kernel.text for kernel in kernels))
    header, payload = ask(
        {"kernels": len(texts)}, kernels_module.pack([text.encode() for text in texts])
    )
    while "batch" in header:
        header, payload = ask(*_compile_batch(ir, session, str(header["batch"]), payload))
    if header["places"] is None:
        return []
    of_text = dict(zip(texts, cast(list[Any], header["places"]), strict=True))
    places = [tuple(of_text[kernel.text]) for kernel in kernels]
    with ir.module_of(invocation) as module:
        paths: list[Path] = kernels_module.assemble(
            ir, kernels, places, kernels_module.unpack(payload), Path(os.environ["TMPDIR"])
        )
    return paths


def _compile_batch(ir: CompilerIR, session: Any, name: str, texts: bytes) -> _Message:
    """Compile a batch of kernels."""
    kernels_module = _inside("kernels")
    batch = kernels_module.compile_batch(
        ir,
        session,
        name,
        [text.decode() for text in kernels_module.unpack(texts)],
        Path(os.environ["TMPDIR"]),
    )
    return ({"ok": False, "stage": "kernels"}, b"") if batch is None else ({"ok": True}, batch)


def _serve(header: dict[str, object], payload: bytes, ask: _Ask, tell: _Tell) -> _Message:
    """Answer a request."""
    flags = cast(list[str], header["flags"])
    if "batch" not in header:
        return _compile(flags, payload, ask, tell)
    opened = _session(flags)
    if opened is None:
        return {"ok": False, "stage": "flags"}, b""
    session, ir = opened
    with session:
        return _compile_batch(ir, session, str(header["batch"]), payload)


def _other_compiler(name: str) -> _Server:
    """A compiler other than IREE's, as a function that answers requests."""
    module, _, function = name.partition(":")
    compile_ = getattr(importlib.import_module(module), function)

    def serve(header: dict[str, object], payload: bytes, _ask: _Ask, _tell: _Tell) -> _Message:
        reply: _Message = compile_(header["flags"], payload)
        return reply

    return serve


@functools.cache
def _inside(name: str) -> Any:
    """A module of ``inside``, loaded by its path, since importing gnomon would be slow."""
    path = Path(__file__).with_name("inside") / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _executable(invocation: Any, kind: Any) -> bytes:
    output = kind.open_membuffer()
    invocation.output_vm_bytecode(output)
    executable = bytes(output.map_memory())
    output.close()
    return executable


def _has_host_control(ir: CompilerIR, module: int) -> bool:
    """Whether a program, after its kernels were formed, has loops or branches on the host."""
    return any(
        ir.name(function) == "util.func" and _has_regions(ir, function)
        for block in ir.blocks(module)
        for function in ir.operations(block)
    )


def _has_regions(ir: CompilerIR, function: int) -> bool:
    blocks = list(ir.blocks(function))
    return len(blocks) > 1 or any(
        any(True for _ in ir.blocks(op)) for block in blocks for op in ir.operations(block)
    )


def _count_kernels(ir: CompilerIR, module: int) -> int:
    return sum(
        ir.name(op) == "flow.executable"
        for block in ir.blocks(module)
        for op in ir.operations(block)
    )


def _rename_temporary_folder() -> None:
    """Give the temporary folder a name without special characters for the linker.

    IREE does not quote the linker's command.
    """
    folder = os.environ["TMPDIR"]
    if re.search(r"[^A-Za-z0-9_./-]", folder) and os.path.isdir("/proc/self/fd"):
        # The linker is another process, so "self" would not name this one.
        descriptor = os.open(folder, os.O_RDONLY)
        os.environ["TMPDIR"] = f"/proc/{os.getpid()}/fd/{descriptor}"


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Standard output of the compiler or its linker must not enter the conversation.
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
    _setup.update(handshake[0])
    sys.path[:] = cast(list[str], _setup["sys_path"])
    serve: _Server = _serve
    if _setup.get("serve"):
        serve = _other_compiler(str(_setup["serve"]))
    else:
        _inside("session").start(cast(list[str], _setup["process_flags"]))
    write_frame(replies, {"ready": True})

    def tell(header: dict[str, object], payload: bytes = b"") -> None:
        sys.stderr.flush()
        write_frame(replies, header, payload)

    def ask(header: dict[str, object], payload: bytes) -> _Message:
        tell(header, payload)
        answer = read_frame(requests)
        if answer is None:
            # The parent has closed the pipe, so nothing waits for the program.
            os._exit(1)
        return answer

    while (request := read_frame(requests)) is not None:
        tell(*serve(*request, ask, tell))


if __name__ == "__main__":
    main()
