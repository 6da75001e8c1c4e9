"""Compiling programs by a plugin, and loading compiled ones."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from gnomon.backends.errors import CompilationFailed, OutOfMemory, UnsupportedOnTarget
from gnomon.backends.pjrt.c_api import STRUCTS, PjrtError, address_of
from gnomon.backends.pjrt.client import Client
from gnomon.backends.pjrt.executable import Executable, Signature
from gnomon.backends.pjrt.protobuf import compile_options

__all__ = ["compile_loaded", "load_serialized", "program_struct", "refused"]


def program_struct(portable: bytes) -> tuple[Any, Any]:
    """The struct of a program for a plugin, and the objects to keep alive along with it."""
    struct = STRUCTS["Program"]
    code = ctypes.create_string_buffer(portable, len(portable))
    program = struct(code=address_of(code), code_size=len(portable), format=b"mlir", format_size=4)
    program.struct_size = struct.size
    return program, code


def refused(error: PjrtError, platform: str) -> Exception:
    """Converts an error of a compiler."""
    if error.code == "RESOURCE_EXHAUSTED":
        return OutOfMemory(f"the program does not fit on the device: {error.message}")
    if error.code == "UNIMPLEMENTED":
        return UnsupportedOnTarget(f"the compiler of {platform!r} rejected it: {error.message}")
    return CompilationFailed(
        f"the compiler of {platform!r} failed: {error}", diagnostics=error.message
    )


def compile_loaded(
    client: Client,
    portable: bytes,
    signature: Signature,
    *,
    partitions: int = 1,
    flags: Mapping[str, Any] | None = None,
) -> Executable:
    """Compiles a program for devices of a client.

    Args:
      portable: a StableHLO artifact of a version that the plugin reads.
      signature: its devices, arguments and results.
      partitions: the number of parts into which the compiler splits each replica.
      flags: options of the compiler.

    Raises:
      CompilationFailed, UnsupportedOnTarget, OutOfMemory: the compiler rejected the program.
    """
    client.check_alive()
    program, code = program_struct(portable)
    options = compile_options(
        [d.id for d in signature.devices],
        replicas=len(signature.devices) // partitions,
        partitions=partitions,
        shardy=partitions > 1,
        flags=flags,
    )
    try:
        loaded = client.api.call(
            "Client_Compile",
            client=client.handle,
            program=address_of(program),
            compile_options=options,
            compile_options_size=len(options),
        ).executable
    except PjrtError as error:
        raise refused(error, client.plugin.name) from error
    del code
    return Executable(client, loaded, signature)


def load_serialized(
    client: Client,
    serialized: bytes,
    signature: Signature,
) -> Executable:
    """Loads the bytes from `Executable.serialize`.

    Raises:
      CompilationFailed: they are damaged, or from another version of the plugin or other devices.
    """
    client.check_alive()
    try:
        loaded = client.api.call(
            "Executable_DeserializeAndLoad",
            client=client.handle,
            serialized=serialized,
            serialized_size=len(serialized),
        ).loaded
    except PjrtError as error:
        raise refused(error, client.plugin.name) from error
    return Executable(client, loaded, signature)
