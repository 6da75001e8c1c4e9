"""``gnomon run``: run a program on arrays; print, check, write and time its results."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects.types import TensorType, is_complex, is_inexact, real_dtype
from gnomon.tools.driver.arrays import (
    compare,
    given_type,
    is_sized_by_calls,
    read_inputs,
    write_arrays,
)
from gnomon.tools.driver.benchmark import Statistics, measure
from gnomon.tools.driver.errors import ComparisonError, UsageError
from gnomon.tools.driver.mlir import MlirProgram
from gnomon.tools.driver.opening import AnyProgram, open_program
from gnomon.tools.driver.programs import Leaf, PythonProgram
from gnomon.tools.driver.progress import progress
from gnomon.tools.driver.requests import request_of

__all__ = ["run_command"]


def run_command(options: argparse.Namespace) -> None:
    """Run ``gnomon run``."""
    program = open_program(request_of(options))
    inputs = _inputs(program, options)
    if options.evaluate:
        if not isinstance(program, MlirProgram):
            raise UsageError("--evaluate takes programs in MLIR")
        results = program.evaluate([_on_host(x) for x in inputs])
    else:
        caller = program.caller(options.device)
        with progress(f"{program.name}: compiling and running"):
            results = [_on_host(x) for x in caller(inputs)]
    names = [leaf.name for leaf in program.results]
    named = dict(zip(names, results, strict=True))
    timing = None
    if options.benchmark is not None and not options.evaluate:
        with progress(f"{program.name}: measuring"):
            timing = measure(lambda: _wait(caller(inputs)), options.benchmark)
    if options.output:
        write_arrays(options.output, named)
    _report(options, named, timing)
    if options.expect:
        differences = compare(named, options.expect, options.rtol, options.atol)
        if differences:
            raise ComparisonError("\n".join(map(str, differences)))
        if not options.json:
            print(f"as expected by {options.expect}")


def _inputs(program: AnyProgram, options: argparse.Namespace) -> list[Any]:
    """A value for each argument: from ``--input``, from the file's example, or random."""
    leaves = program.arguments
    given = read_inputs(options.input, leaves)
    examples = program.leaves if isinstance(program, PythonProgram) else [None] * len(leaves)
    # Each argument has its own generator, so that giving one does not change the others.
    values: list[Any] = []
    for i, (leaf, example) in enumerate(zip(leaves, examples, strict=True)):
        if i in given:
            values.append(given[i])
        elif options.random is not None and is_sized_by_calls(leaf):
            raise UsageError(
                f"--random: {leaf.name} is {leaf.type}; give its sizes, as in --input "
                f"{leaf.name}={given_type(leaf)}=0, or a file"
            )
        elif options.random is not None:
            values.append(_random(leaf, np.random.default_rng((options.random, i))))
        elif (example is not None and hasattr(example, "__array__")) or isinstance(
            example, (bool, int, float, complex)
        ):
            values.append(example)
        else:
            shown = ", ".join(f"{one.name}: {one.type}" for one in leaves)
            raise UsageError(
                f"the program takes ({shown}), and there is no --input for {leaf.name}; --random "
                "fills in the arguments that are not given"
            )
    return values


def _random(leaf: Leaf, generator: np.random.Generator) -> np.ndarray:
    """Random numbers: normally distributed, or 0 and 1 for integers and bools."""
    shape, dtype = leaf.type
    if is_complex(dtype):
        parts = generator.standard_normal((2, *shape)).astype(real_dtype(dtype))
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if is_inexact(dtype):
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def _on_host(value: Any) -> np.ndarray:
    return np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value)


def _wait(values: Sequence[Any]) -> None:
    for value in values:
        # The results of an artifact are computed when the call returns.
        for name in ("block_until_ready", "wait"):
            if hasattr(value, name):
                getattr(value, name)()
                break


def _report(
    options: argparse.Namespace, results: dict[str, np.ndarray], timing: Statistics | None
) -> None:
    if options.json:
        shown = {
            name: {
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                **({} if options.output else {"value": _as_json(array)}),
            }
            for name, array in results.items()
        }
        print(json.dumps({"results": shown, "benchmark": timing and timing.as_json()}, indent=2))
        return
    if not (options.output or timing):
        for name, array in results.items():
            print(f"{name}: {TensorType(array.shape, array.dtype)}\n{array}")
    if timing is not None:
        print("\n".join(timing.lines()))


def _as_json(array: np.ndarray) -> Any:
    if is_complex(array.dtype):
        return {"real": _as_json(array.real), "imag": _as_json(array.imag)}
    if is_inexact(array.dtype):
        return _with_names(array.astype(np.float64).tolist())
    return array.tolist()


def _with_names(value: Any) -> Any:
    """Nested lists of floats, with nan and infinity as strings, because JSON lacks them."""
    if isinstance(value, list):
        return [_with_names(one) for one in value]
    return value if math.isfinite(value) else str(value)
