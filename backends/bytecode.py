"""MLIR bytecode from files, which may be damaged.

MLIR's reader trusts its input: wrong sizes and offsets abort the process, or keep it busy for ever.
So a child process reads the bytecode, with bounds on its time and memory, and answers with the text
of the program. The child stays for the next program.
"""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Sequence

from gnomon.backends.iree.process import CompilerProcess, ProcessDiedError, ProcessTimeoutError
from gnomon.dialects.mlir import context, ensure_context, ir, stablehlo

if sys.platform != "win32":
    import resource

__all__ = [
    "MAGIC",
    "BytecodeError",
    "OpenSizesError",
    "RefusedProgramError",
    "answer",
    "bound_memory",
    "parse_bytecode",
    "read_bytecode",
    "serve",
]

MAGIC = b"ML\xefR"
"""The first bytes of bytecode: of a module, or of a portable artifact of StableHLO."""

# The bounds of a program: a constant part, and a part for each byte.
_SECONDS, _SECONDS_PER_BYTE = 20.0, 1e-6
_MEMORY, _MEMORY_PER_BYTE = 4 << 30, 64


class BytecodeError(ValueError):
    """Bytecode that is damaged, or of a version that cannot be read."""


class RefusedProgramError(BytecodeError):
    """A program that is intact, but that the reader refuses."""


class OpenSizesError(RefusedProgramError):
    """A program whose types leave sizes open, read without the types of its arguments."""


# The error of an answer, by the word in its header.
_ERRORS = {"damaged": BytecodeError, "refused": RefusedProgramError, "open": OpenSizesError}


@functools.cache
def _reader() -> CompilerProcess:
    return CompilerProcess(serve=f"{__name__}:serve")


def read_bytecode(data: bytes) -> ir.Module:
    """The program in a module's bytecode or in a portable artifact.

    Raises:
      BytecodeError: it cannot be read.
    """
    text = answer(_reader(), data, "bytecode")
    ensure_context()
    try:
        return ir.Module.parse(text, context())
    except ir.MLIRError as error:
        raise BytecodeError(f"the bytecode is damaged: {error}") from None


def answer(reader: CompilerProcess, data: bytes, kind: str, flags: Sequence[str] = ()) -> str:
    """The text with which a child process answers a program.

    Args:
      reader: the process, whose server answers as `serve` does.
      data: the program.
      kind: what the program is, for messages.
      flags: the flags of the request.

    Raises:
      BytecodeError: it cannot be read.
    """
    timeout_s = _SECONDS + _SECONDS_PER_BYTE * len(data)
    try:
        header, text = reader.request({"flags": list(flags)}, data, (), timeout_s)
    except ProcessDiedError as error:
        reason = error.diagnostics.strip().split("\n")[0] or _describe_status(error.status)
        raise BytecodeError(f"the {kind} is damaged: its reader crashed ({reason})") from None
    except ProcessTimeoutError:
        raise BytecodeError(
            f"the {kind} is damaged: it was not read within {timeout_s:.0f} s"
        ) from None
    if not header["ok"]:
        raise _ERRORS[str(header.get("error", "damaged"))](text.decode())
    return text.decode()


def _describe_status(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"exit status {status}"


def serve(_: Sequence[str], data: bytes) -> tuple[dict[str, object], bytes]:
    """Answer with the text of a program; called in the child process."""
    ensure_context()
    bound_memory(len(data))
    try:
        module = parse_bytecode(data)
        text = module.operation.get_asm(enable_debug_info=True, assume_verified=True)
        return {"ok": True}, str(text).encode()
    except ir.MLIRError as error:
        return {"ok": False}, str(error).encode()
    except (RuntimeError, ValueError, MemoryError):
        # Messages and names that are not text.
        return {"ok": False}, b"the bytecode is damaged"


def parse_bytecode(data: bytes) -> ir.Module:
    """Parse a portable artifact or a module's bytecode; only for child processes."""
    try:
        return stablehlo.deserialize_portable_artifact(context(), data)
    except (ir.MLIRError, RuntimeError, ValueError):
        return ir.Module.parse(data, context())


def bound_memory(size: int) -> None:
    """Bound the memory of this process, which reads a program of a size in bytes."""
    if sys.platform == "win32":
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    bound = _MEMORY + _MEMORY_PER_BYTE * size
    if most == resource.RLIM_INFINITY or bound < most:
        resource.setrlimit(resource.RLIMIT_AS, (bound, most))
