"""Programs from files: text or bytecode, of the gnomon dialect or of StableHLO.

The parser of MLIR can crash on what it reads, and verifiers can as well. So a child process parses
the program, verifies it, and raises StableHLO to the gnomon dialect, with bounds on its time and
memory. It answers with the text of the program in the gnomon dialect.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from gnomon.backends.bytecode import MAGIC, answer, bound_memory, parse_bytecode
from gnomon.backends.bytecode_attributes import without_unknown
from gnomon.backends.iree.process import CompilerProcess
from gnomon.dialects.mlir import context, ensure_context, ir, other_dialects
from gnomon.passes.raise_stablehlo import (
    OpenArgumentsError,
    RaiseError,
    is_foreign,
    load_chlo,
    raise_stablehlo,
)
from gnomon.passes.refine_stablehlo import Argument, parse_argument

__all__ = ["read_program", "serve"]

# The flag that precedes what is known of the arguments.
_ARGUMENTS = "arguments"
# The parser calls a text without a name "-".
_PLACE = re.compile(r"(?s)(.*) \(-:(\d+:\d+)\)")


@functools.cache
def _reader() -> CompilerProcess:
    return CompilerProcess(serve=f"{__name__}:serve")


def read_program(data: bytes, arguments: Sequence[Argument] | None = None) -> str:
    """The text of a program in the gnomon dialect, with locations.

    Args:
      data: MLIR text in UTF-8, a module's bytecode, or a portable artifact of StableHLO.
      arguments: what is known of the arguments of StableHLO whose types leave sizes open.

    Raises:
      BytecodeError: it cannot be read. If the line in the text is known, the message has the form
        of the parser's: ``error: "-":line:column: reason``.
      RefusedProgramError: an op has no form in the gnomon dialect.
      OpenSizesError: the types leave sizes open, and there are no arguments.
    """
    kind = "bytecode" if data.startswith(MAGIC) else "text"
    flags = () if arguments is None else [_ARGUMENTS, *map(str, arguments)]
    return answer(_reader(), data, kind, flags)


def serve(flags: Sequence[str], data: bytes) -> tuple[dict[str, object], bytes]:
    """Answer with a program of the gnomon dialect; called in the child process."""
    ensure_context()
    bound_memory(len(data))
    try:
        load_chlo()
        with other_dialects(context()):
            is_bytecode = data.startswith(MAGIC)
            module = parse_bytecode(_readable(data)) if is_bytecode else _parse_text(data)
            if is_foreign(module):
                known = [parse_argument(a) for a in flags[1:]] if flags else None
                module = raise_stablehlo(module, known).module
                module.operation.verify()
            elif flags:
                raise RaiseError(
                    "the types of the arguments are known; only StableHLO leaves sizes open"
                )
            text = module.operation.get_asm(enable_debug_info=True, assume_verified=True)
        return {"ok": True}, str(text).encode()
    except RaiseError as error:
        kind = "open" if isinstance(error, OpenArgumentsError) else "refused"
        return {"ok": False, "error": kind}, _in_the_form_of_the_parser(str(error)).encode()
    except ir.MLIRError as error:
        return {"ok": False}, str(error).encode()
    except (RuntimeError, ValueError, MemoryError):
        # Messages and names that are not text, and programs that are nested too deeply.
        return {"ok": False}, b"the program is damaged"


def _readable(data: bytes) -> bytes:
    """Bytecode without the attributes of dialects that are not in this build of MLIR."""
    try:
        return without_unknown(data, _is_known)
    except ValueError:
        return data  # The reader says what is wrong.


def _is_known(dialect: str) -> bool:
    if dialect == "vhlo":  # It is loaded by the reader of portable artifacts alone.
        return True
    try:
        context().get_dialect_descriptor(dialect)
    except ValueError:
        return False
    return True


def _parse_text(data: bytes) -> ir.Module:
    return ir.Module.parse(data.decode(), context())


def _in_the_form_of_the_parser(message: str) -> str:
    match = _PLACE.fullmatch(message)
    return message if match is None else f'error: "-":{match[2]}: {match[1]}'
