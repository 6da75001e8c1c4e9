"""Run a function as jit traces it, with all arguments traced, but without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._arrays.host_values import to_array
from gnomon._tracing.function import Traced, trace_function
from gnomon.backends.reference import Evaluator


def trace(function: Callable[..., Any], *arguments: Any) -> Traced:
    """The program of a function that returns one array."""
    avals = [to_array(a).aval for a in arguments]
    return trace_function(
        lambda tracers: (function(*tracers), None), function, "jit", avals, staging=True
    )


def op_names(traced: Traced) -> list[str]:
    """The names of a program's ops, without constants."""
    names = [op.name.removeprefix("gnomon.") for op in traced.body.operations]
    return [name for name in names if name != "constant"]


def run_staged(function: Callable[..., Any], *arguments: Any) -> Array:
    """Trace a function, and evaluate the program."""
    traced = trace(function, *arguments)
    values = [to_array(a).numpy_value() for a in arguments]
    captures = [c.numpy_value() for c in traced.captures]
    with np.errstate(all="ignore"):
        (out,) = Evaluator(traced.program).prepare(traced.body)(*values, *captures)
    return wrap(out, traced.avals[0].weak_type)
