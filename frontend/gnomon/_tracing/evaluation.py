"""Evaluation of ops on concrete arrays, and of programs, at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon._arrays.concrete import ConcreteArray
from gnomon._config.current import config
from gnomon._diagnostics.checked_calls import raise_on_return
from gnomon._diagnostics.quiet import quiet
from gnomon._diagnostics.source_location import file_and_line, user_frame
from gnomon._sharding.device import HOST, compiler_of
from gnomon._tracing import eager_cache
from gnomon._trees.flatten import tree_leaves
from gnomon.backends.interface import Executable, lower_to_run
from gnomon.backends.reference import Evaluator
from gnomon.backends.tiered import Overtaken, TieredProgram
from gnomon.dialects.contract import Op
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from gnomon.dialects.types import is_inexact

__all__ = [
    "check_execution",
    "check_values",
    "clear_caches",
    "evaluated",
    "evaluator",
    "invalid_value",
]


def evaluated(op: Op, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of an op on NumPy arrays, without NumPy's warnings."""
    try:
        return quiet.run(op.evaluate, *arrays, **params)  # type: ignore[arg-type]
    except RuntimeError:  # an enclosing call has entered the context
        with np.errstate(all="ignore"):
            return op.evaluate(*arrays, **params)  # type: ignore[operator]


def check_execution(function: str) -> None:
    """Raise ``RuntimeError`` under `no_execution`."""
    if config.no_execution:
        raise RuntimeError(
            f"gnomon tried to execute {function.removeprefix('gnomon.')}, but 'no_execution' is set"
        )


def evaluator(program: Program, *, checked: bool | None = None) -> Evaluator:
    """An evaluator of a program.

    Args:
      program: the program.
      checked: whether each op's results are checked, as `debug_nans` and `debug_infs` do; by
        default if one of them is on. Otherwise jitted functions run compiled.
    """
    if config.checks_values if checked is None else checked:
        return Evaluator(program, None, _check_step)
    return Evaluator(program, _run_compiled)


# ------------------------------------------------------------ the checks debug_nans and debug_infs


def invalid_value(arrays: Sequence[Any]) -> str | None:
    """The kind of value, nan or inf, that `debug_nans` or `debug_infs` finds, or None."""
    for array in arrays:
        array = np.asarray(array)
        if is_inexact(array.dtype):
            if config.debug_nans and np.isnan(array).any():
                return "nan"
            if config.debug_infs and np.isinf(array).any():
                return "inf"
    return None


def check_values(name: str, arrays: Sequence[Any]) -> None:
    """Raise `FloatingPointError` if `invalid_value` finds an invalid result of an eager op.

    The error is raised when the gnomon function that the user called returns, and only if that
    function's result is invalid too.

    Args:
      name: the name of the op.
      arrays: the results of the op.
    """
    kind = invalid_value(arrays)
    if kind is not None:
        raise_on_return(_invalid(kind, name, user_frame()), _returns_invalid)


def _returns_invalid(result: Any) -> bool:
    leaves = tree_leaves(result)
    arrays = [x.numpy_value() for x in leaves if isinstance(x, ConcreteArray)]
    return invalid_value(arrays) is not None


def _invalid(kind: str, name: str, where: tuple[str, int]) -> FloatingPointError:
    filename, line = where
    return FloatingPointError(
        f"invalid value ({kind}) encountered in {name.removeprefix('gnomon.')} ({filename}:{line})"
    )


# Ops that compute nothing: the user wrote the nan in their result, as an operand of `where`, say.
_COPIES = frozenset({"gnomon.broadcast_in_dim", "gnomon.constant", "gnomon.convert"})


def _check_step(op: ir.Operation, arrays: Sequence[Any]) -> None:
    """`check_values` for an op of a program; raises at once, as no user call belongs to it."""
    kind = None if op.name in _COPIES else invalid_value(arrays)
    if kind is not None:
        raise _invalid(kind, op.name, file_and_line(op.location) or user_frame())


# ----------------------------------------------------------------------- calls of jitted functions


_compiled_functions: dict[str, Executable | TieredProgram[Executable]] = {}


def _run_compiled(program: Program, name: str) -> Callable[..., Any] | None:
    """The evaluator's hook: functions that `jit` traced run compiled."""
    if name not in program.staged:
        return None

    ready: Executable | None = None

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        nonlocal ready
        if ready is not None:
            return [b.to_numpy() for b in ready(arrays)]
        copy = _as_main(program, name)
        # Verification would take four fifths of the time of printing.
        text = copy.module.operation.get_asm(assume_verified=True)
        tiered = program.staged[name]
        if tiered is None:
            tiered = config.tiered
        cached = _compiled_functions.get(text)
        if cached is None:
            made = _tiered(copy, name) if tiered else _compiled(copy)
            cached = _compiled_functions[text] = made
        if isinstance(cached, TieredProgram):
            executable = cached.compiled(wait=not tiered)
            if executable is None:
                try:
                    return cached.evaluate(arrays)
                except Overtaken:
                    executable = cached.compiled(wait=True)
            assert executable is not None
            cached = _compiled_functions[text] = executable
        ready = cached
        return [b.to_numpy() for b in ready(arrays)]

    return run


def _as_main(program: Program, name: str) -> Program:
    """Copy a function of a program into a new program, as ``main``."""
    copy = Program()
    copied = copy.import_function(program, name, {})
    copy.add("main", copy.body(copied).clone(), public=True)
    return copy


def _compiled(program: Program) -> Executable:
    compiler = compiler_of(HOST)
    return compiler.compile(lower_to_run(compiler, program), device=HOST)


def _tiered(program: Program, name: str) -> TieredProgram[Executable]:
    def copy() -> Program:
        ensure_context()
        copied = Program()
        body = copied.import_body(program, program.body("main"), {})
        copied.add("main", body, public=True)
        return copied

    return TieredProgram(name, copy, lambda: _compiled(copy()))


def clear_caches() -> None:
    """Forget the compiled functions and the prepared transformations."""
    eager_cache.clear()
    _compiled_functions.clear()
