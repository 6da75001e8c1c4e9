"""Raising programs of StableHLO in tests, and evaluating them without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.backends.reference import Evaluator
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.passes.raise_stablehlo import load_chlo, raise_stablehlo


def raised(text: str) -> Program:
    """The raised form of a module, verified."""
    ensure_context()
    load_chlo()
    program = raise_stablehlo(ir.Module.parse(text, context()))
    assert program.module.operation.verify()
    return program


def evaluate(text: str, *arrays: Any) -> list[np.ndarray]:
    """Evaluate the public function of a module of StableHLO."""
    program = raised(text)
    types = program.signature("main").arguments
    return Evaluator(program)(
        "main", *(np.asarray(a, t.dtype) for a, t in zip(arrays, types, strict=True))
    )
