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
from gnomon.backends.iree.process import CompilerProcess
from gnomon.dialects.mlir import context, ensure_context, ir, other_dialects
from gnomon.passes.raise_stablehlo import RaiseError, is_foreign, load_chlo, raise_stablehlo

__all__ = ["read_program", "serve"]

# The parser calls a text without a name "-".
_PLACE = re.compile(r"(?s)(.*) \(-:(\d+:\d+)\)")


@functools.cache
def _reader() -> CompilerProcess:
    return CompilerProcess(serve=f"{__name__}:serve")


def read_program(data: bytes) -> str:
    """The text of a program in the gnomon dialect, with locations.

    Args:
      data: MLIR text in UTF-8, a module's bytecode, or a portable artifact of StableHLO.

    Raises:
      BytecodeError: it cannot be read. If the line in the text is known, the message has the form
        of the parser's: ``error: "-":line:column: reason``.
      RefusedProgramError: an op has no form in the gnomon dialect.
    """
    return answer(_reader(), data, "bytecode" if data.startswith(MAGIC) else "text")


def serve(_: Sequence[str], data: bytes) -> tuple[dict[str, object], bytes]:
    """Answer with a program of the gnomon dialect; called in the child process."""
    ensure_context()
    bound_memory(len(data))
    try:
        load_chlo()
        with other_dialects(context()):
            is_bytecode = data.startswith(MAGIC)
            module = parse_bytecode(data) if is_bytecode else _parse_text(data)
            if is_foreign(module):
                module = raise_stablehlo(module).module
                module.operation.verify()
            text = module.operation.get_asm(enable_debug_info=True, assume_verified=True)
        return {"ok": True}, str(text).encode()
    except RaiseError as error:
        return {"ok": False, "refused": True}, _in_the_form_of_the_parser(str(error)).encode()
    except ir.MLIRError as error:
        return {"ok": False}, str(error).encode()
    except (RuntimeError, ValueError, MemoryError):
        # Messages and names that are not text, and programs that are nested too deeply.
        return {"ok": False}, b"the program is damaged"


def _parse_text(data: bytes) -> ir.Module:
    return ir.Module.parse(data.decode(), context())


def _in_the_form_of_the_parser(message: str) -> str:
    match = _PLACE.fullmatch(message)
    return message if match is None else f'error: "-":{match[2]}: {match[1]}'
