"""Functions of artifacts on the devices of PJRT plugins."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.aval import shaped_array
from gnomon._arrays.concrete import ConcreteArray, placed_buffer
from gnomon._export.program_text import program_text
from gnomon.backends import platforms
from gnomon.backends.errors import BackendUnavailable, CompilationFailed
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.types import TensorType
from gnomon_runtime.artifact import Artifact, Entry, Module
from gnomon_runtime.dtypes import FLOAT0, dtype_named
from gnomon_runtime.errors import ArtifactIncompatibleError, MissingModuleError
from gnomon_runtime.running import Function, LoadedArtifact

__all__ = ["load_on_plugin"]

logger = logging.getLogger(__name__)


def load_on_plugin(artifact: Artifact, platform: str, number: int) -> LoadedArtifact:
    """The functions of an artifact, to run on a device of a plugin; see `gnomon.load`.

    Raises:
      MissingModuleError: the plugin is missing or has no such device.
    """
    try:
        devices = platforms.backend(platform).devices()
    except BackendUnavailable as error:
        raise MissingModuleError(f"{artifact.name}: {error}") from error
    if number >= len(devices):
        raise MissingModuleError(
            f"{artifact.name}: the platform {platform!r} has {len(devices)} devices, and no device "
            f"{number}"
        )
    return LoadedArtifact(
        artifact,
        platform=platform,
        function=lambda owner, entry: _On(owner, entry, devices[number]),
    )


class _On(Function):
    """A function on a device of a plugin. Results are gnomon's arrays, which stay there.

    Args:
      owner, entry: see `Function`.
      device: the device.
    """

    def __init__(self, owner: LoadedArtifact, entry: Entry, device: Any) -> None:
        super().__init__(owner, entry, device.platform, 0, _no_module)
        self._device = device
        self._executable: Any = None
        self._weights: list[Any] = []
        self._made = threading.Lock()

    @property
    def module(self) -> Module:
        """A description of the module for the plugin."""
        found = _module_for(self.entry, self._device.platform)
        return found or Module(self._device.platform, "pjrt", self._device.platform)

    def _prepared(self) -> Any:
        with self._made:
            if self._executable is None:
                entry, artifact = self.entry, self._owner.artifact
                if entry.is_symbolic or entry.nr_devices > 1:
                    raise ArtifactIncompatibleError(
                        f"{artifact.name}: the function {self.name!r} has symbolic dimensions, or "
                        "is for several devices: call it by gnomon.export.load_exported"
                    )
                self._input_dtypes = [dtype_named(t.dtype) for t in entry.inputs]
                arrays = [artifact.weight(name) for name in entry.weights]
                put = self._device.backend.put
                self._weights = [put(array, self._device) for array in arrays]
                self._executable = _executable(artifact, entry, self._device)
        return self._executable

    def call_flat(self, leaves: Sequence[Any]) -> list[Any]:
        """Run the function on the leaves of its arguments; returns those of its results."""
        executable, entry = self._prepared(), self.entry
        assert self._input_dtypes is not None
        if len(leaves) != len(entry.inputs):
            raise TypeError(f"{entry.name} takes {len(entry.inputs)} arrays, got {len(leaves)}")
        self._check_donated(leaves)
        given = [
            self._buffer(index, leaf)
            for index, leaf in enumerate(leaves)
            if self._input_dtypes[index] != FLOAT0
        ]
        results = iter(executable.run([*given, *self._weights]))
        for index in entry.donated:
            if isinstance(leaves[index], ConcreteArray):
                leaves[index].delete()
        return [
            np.zeros(type_.shape, FLOAT0)
            if dtype_named(type_.dtype) == FLOAT0
            else self._array(next(results), type_.weak_type)
            for type_ in entry.outputs
        ]

    def _buffer(self, index: int, leaf: Any) -> Any:
        array = self._checked(index, leaf)
        if isinstance(leaf, ConcreteArray):
            there = leaf._buffer
            if there is not None and there.device is self._device:
                return there
        return self._device.backend.put(array, self._device)

    def _array(self, buffer: Any, weak: bool) -> Any:
        aval = shaped_array(tuple(buffer.shape), buffer.dtype, weak)
        return placed_buffer(buffer, aval, self._device, committed=True)


def _no_module(artifact: Artifact, entry: Entry, platform: str | None) -> tuple[Module, bytes]:
    raise AssertionError("functions on plugins have executables of their own")


def _module_for(entry: Entry, platform: str) -> Module | None:
    """The module of an entry that was compiled for the plugin's platform."""
    return next(
        (m for m in entry.modules.values() if m.backend == "pjrt" and m.platform == platform), None
    )


def _executable(artifact: Artifact, entry: Entry, device: Any) -> Any:
    """The executable of an entry: from its module, or compiled from its program."""
    backend, platform = device.backend, device.platform
    module = _module_for(entry, platform)
    if module is not None:
        inputs = [TensorType(t.shape, dtype_named(t.dtype)) for t in entry.inputs]
        inputs = [t for t in inputs if t.dtype != FLOAT0]
        weights = [artifact.weights[name].type for name in entry.weights]
        inputs += [TensorType(t.shape, dtype_named(t.dtype)) for t in weights]
        outputs = [TensorType(t.shape, dtype_named(t.dtype)) for t in entry.outputs]
        try:
            if module.fingerprint not in ("", backend.fingerprint()):
                raise CompilationFailed("it is of another plugin, or for other devices")
            return backend.load(
                artifact.module(entry.name, module.target),
                device=device,
                input_types=inputs,
                output_types=[t for t in outputs if t.dtype != FLOAT0],
                donate=entry.donated,
            )
        except CompilationFailed as error:
            logger.warning(
                "%s: the program of %s is compiled again, because its executable for %s cannot be "
                "loaded: %s",
                *(artifact.name, entry.name, module.target, error),
            )
    programs = {**entry.sections["program"], **entry.sections["portable"]}
    known = platform if platform in programs else next(iter(programs), "")
    if not known:
        raise MissingModuleError(
            f"{artifact.name}: the function {entry.name!r} has no executable for {platform!r}, and "
            "no program that could be compiled for it"
        )
    text = program_text(artifact, entry, known)
    ensure_context()
    program = Program(ir.Module.parse(text, context()))
    return backend.compile(backend.lower(program), device=device, donate=entry.donated)
