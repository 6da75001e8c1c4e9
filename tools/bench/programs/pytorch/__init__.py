"""The programs in PyTorch, as its users would write them: a function for each.

The port of ``family/name`` is the function ``name`` in the family's module here. It takes the
arguments of the program as tensors, in the same trees, and returns the same results in the same
trees; only those that draw random numbers or use constants differ (see `arguments`).

The ports are eager: `torch.compile` writes C++ or Triton, so it needs a compiler for C++ at run
time, which a machine for measurements may lack. Nothing imports PyTorch before a port is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import gnomon
from gnomon.tools.bench.frameworks import Framework
from gnomon.tools.bench.programs.program import Program
from gnomon.tools.bench.programs.pytorch.arguments import ADAPTED

MODULES = {
    "image": "images",
    "transformer": "transformers",
    "sequence": "sequences",
    "simulation": "simulation",
    "inference": "statistics",
    "kernel": "kernels",
}


def load_port(program: Program) -> Callable[..., Any]:
    """The function that computes a program in PyTorch."""
    family, name = program.name.split("/")
    port: Callable[..., Any] = getattr(
        importlib.import_module(f"{__name__}.{MODULES[family]}"), name
    )
    return port


def numpy_arguments(program: Program, gnomon_framework: Framework) -> tuple[Any, ...]:
    """The arguments of a port as NumPy arrays; gnomon makes them."""
    _, given = program.build(gnomon_framework)
    if program.name in ADAPTED:
        given = ADAPTED[program.name](gnomon_framework, *given)
    arguments: tuple[Any, ...] = gnomon.tree.map(np.asarray, given)
    return arguments


__all__ = ["MODULES", "load_port", "numpy_arguments"]
