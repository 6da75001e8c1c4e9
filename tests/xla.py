"""XLA's options for the oracle's programs, each of which runs once."""

from __future__ import annotations

import os
import sys
from importlib import metadata

_VARIABLE = "XLA_FLAGS"

# LLVM's optimizations take a third of a compilation, and other tests have the other cores.
FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"

# XLA's older emitters of kernels need half of the time of its newer ones.
_OLDER_EMITTERS = "--xla_cpu_use_fusion_emitters=false"


def has_older_emitters() -> bool:
    """Whether the installed JAX still has the older emitters, as JAX 0.10 does."""
    try:
        return metadata.version("jaxlib").startswith("0.10.")
    except metadata.PackageNotFoundError:
        return False


# `jax.jit(f, compiler_options=NEWER_EMITTERS)` is for what the older ones do wrong.
NEWER_EMITTERS = {"xla_cpu_use_fusion_emitters": True} if has_older_emitters() else None


def configure() -> None:
    """Set the options of this process and its children, before JAX is imported."""
    os.environ.setdefault(_VARIABLE, FLAGS)


def start() -> None:
    """Start the oracle with the older emitters, if tests have imported it.

    The variable holds their option only while JAX reads it, once and for all: XLA in other
    libraries and in children reads the same variable, and ends its process at an unknown option.
    """
    if "jax" not in sys.modules or not has_older_emitters():
        return
    flags = os.environ[_VARIABLE]
    os.environ[_VARIABLE] = f"{flags} {_OLDER_EMITTERS}"
    try:
        sys.modules["jax"].devices()
    finally:
        os.environ[_VARIABLE] = flags
