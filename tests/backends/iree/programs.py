"""Programs for the tests: StableHLO text in, executables out, each compiled once."""

from __future__ import annotations

import functools
import string
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.backends.iree.compiler import CompileOptions, compile_artifact
from gnomon.backends.iree.executable import Executable
from gnomon.backends.iree.targets import TARGETS
from gnomon.dialects.mlir import ensure_context, ir, stablehlo

CPU = TARGETS["cpu"]

MLIR_TYPES = {
    "bool": "i1",
    "bfloat16": "bf16",
    # Held in bytes, see backends/narrow.py.
    "float8_e4m3fn": "ui8",
    "float8_e5m2": "ui8",
    "int4": "i8",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    **{f"int{width}": f"i{width}" for width in (8, 16, 32, 64)},
    **{f"uint{width}": f"ui{width}" for width in (8, 16, 32, 64)},
    **{f"float{width}": f"f{width}" for width in (16, 32, 64)},
}


@dataclass(frozen=True)
class Spec:
    """The shape and dtype of an argument or a result."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def mlir(self) -> str:
        """The type in MLIR's syntax."""
        sizes = "".join(f"{size}x" for size in self.shape)
        return f"tensor<{sizes}{MLIR_TYPES[self.dtype.name]}>"


def spec(shape: tuple[int, ...], dtype: Any) -> Spec:
    return Spec(shape, np.dtype(dtype))


def dtype_named(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


@functools.cache
def portable(text: str) -> bytes:
    """The portable artifact of StableHLO text."""
    ensure_context()
    module = ir.Module.parse(text)
    return stablehlo.serialize_portable_artifact_str(str(module), stablehlo.get_minimum_version())


def entry(body: str, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> str:
    """A module with a `main` whose arguments are `%a`, `%b`, `%c`, ... and which ends in `body`."""
    arguments = ", ".join(
        f"%{name}: {one.mlir}" for name, one in zip(string.ascii_letters, inputs, strict=False)
    )
    results = ", ".join(one.mlir for one in outputs)
    return f"func.func public @main({arguments}) -> ({results}) {{\n{body}\n}}"


@functools.cache
def compiled(
    body: str, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...], model: str = "sync"
) -> bytes:
    """The executable of a function body."""
    artifact = portable(entry(body, inputs, outputs))
    return compile_artifact(artifact, target=CPU, options=CompileOptions(model))


def executable(
    body: str,
    inputs: tuple[Spec, ...],
    outputs: tuple[Spec, ...],
    model: str = "sync",
    donate: tuple[int, ...] = (),
) -> Executable:
    """A function body, compiled and loaded."""
    return Executable(
        compiled(body, inputs, outputs, model),
        input_types=inputs,
        output_types=outputs,
        execution_model=model,
        donate=donate,
    )
