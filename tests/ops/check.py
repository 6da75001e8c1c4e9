"""Building, running and comparing programs of the dialect for the checks of the op table."""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tests.ops
from gnomon.backends.interface import Backend
from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body
from gnomon.dialects.contract import REGISTRY, Op
from gnomon.dialects.functions import Program, emit_call
from gnomon.dialects.types import (
    ANY,
    TensorType,
    is_complex,
    is_floating,
    is_inexact,
    is_integer,
    short_name,
)
from gnomon.tools.accuracy.bounds import BOUND, bound_of_op
from tests.ops.row import Operand, Row
from tests.tolerance import judge, units_off

DTYPES = {short_name(d): d for d in ANY}

# A row in one of its dtypes.
Case = tuple[Row, np.dtype]

# Compiled code may use another algorithm than NumPy's: this many more ulps of the dtype.
EXTRA_ULPS = 8.0
# The error of a reference that is rounded to the dtype.
REFERENCE_ULPS = 1.0


def all_rows() -> list[Row]:
    """The rows of all modules."""
    rows: list[Row] = []
    for module in pkgutil.iter_modules(tests.ops.__path__):
        if module.name.startswith("rows_"):
            rows += importlib.import_module(f"tests.ops.{module.name}").ROWS
    return rows


def op_of(row: Row) -> Op:
    """The op of a row."""
    return REGISTRY[f"gnomon.{row.op}"]


def ulps_of(row: Row, dtype: np.dtype, *, compiled: bool = False) -> float:
    """The tolerance of a row's result against its reference, or compiled against evaluated.

    Functions in the table of accuracy must meet its bound; those with a separate bound are
    compared with references that are no better.
    """
    bounds = bound_of_op(row.op, dtype.name)
    if bounds is None or max(bounds.values()) > BOUND:
        return row.ulps + (EXTRA_ULPS if compiled else 0.0)
    return sum(bounds.values()) if compiled else bounds["eager"] + REFERENCE_ULPS


def params_of(row: Row, dtype: np.dtype) -> dict[str, Any]:
    """The op's parameters for a dtype under test."""
    return row.params(dtype) if callable(row.params) else dict(row.params)


def generator(row: Row, dtype: np.dtype, salt: str = "") -> np.random.Generator:
    """A generator whose seed is the row's name, so that a failure can be repeated."""
    return np.random.default_rng(zlib.crc32(f"{row.id} {dtype} {salt}".encode()))


def draw(
    operand: Operand, rng: np.random.Generator, dtype: np.dtype, edges: bool = False
) -> np.ndarray:
    """One operand of a row."""
    dtype = np.dtype(operand.dtype) if operand.dtype is not None else dtype
    shape = operand.shape
    if operand.draw is not None:
        return np.asarray(operand.draw(rng, shape, dtype))
    if dtype == np.bool_:
        array = rng.integers(0, 2, shape).astype(np.bool_)
    elif is_integer(dtype):
        unsigned = short_name(dtype).startswith("u")
        low = int(max(operand.low, 0) if unsigned else operand.low)
        array = rng.integers(low, max(int(operand.high), low) + 1, shape).astype(dtype)
    elif is_complex(dtype):
        parts = rng.uniform(operand.low, operand.high, (2, *shape))
        array = (parts[0] + 1j * parts[1]).astype(dtype)
    else:
        array = np.asarray(rng.uniform(operand.low, operand.high, shape)).astype(dtype)
    if edges and operand.values and array.size and is_floating(dtype):
        flat = array.reshape(-1)
        values = np.array(operand.values, np.float64).astype(dtype)[: flat.size]
        flat[: values.size] = values
    return array


def draw_all(row: Row, dtype: np.dtype, salt: str = "", edges: bool = False) -> list[np.ndarray]:
    """All operands of a row."""
    rng = generator(row, dtype, salt)
    return [draw(o, rng, dtype, edges) for o in row.operands]


def types_of(arrays: Sequence[np.ndarray]) -> list[TensorType]:
    """The types of some arrays."""
    return [TensorType(a.shape, a.dtype) for a in arrays]


def emit_row(row: Row, dtype: np.dtype, values: Sequence[Any]) -> Sequence[Any]:
    """Apply the row's op to SSA values, at the current insertion point."""
    op, params = op_of(row), params_of(row, dtype)
    bodies = row.bodies(dtype) if row.bodies else ()
    if row.around is None:
        return op.build(values, params, bodies)
    return row.around(lambda *v: op.build(v, params, bodies), *values)


def program_of(row: Row, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> Program:
    """A program whose function ``f`` applies the row's op."""
    program = Program()
    program.add("f", Body.build(types_of(arrays), lambda *v: emit_row(row, dtype, v)))
    return program


def joint_program(cases: Sequence[Case], operands: Sequence[Sequence[np.ndarray]]) -> Program:
    """A program whose ``main`` applies every case to its own operands."""
    program = Program()
    types = [t for arrays in operands for t in types_of(arrays)]

    def emit(*values: Any) -> list[Any]:
        results: list[Any] = []
        start = 0
        for (row, dtype), arrays in zip(cases, operands, strict=True):
            given = values[start : start + len(arrays)]
            start += len(arrays)
            results += emit_row(row, dtype, given)
        return results

    program.add("main", Body.build(types, emit), public=True)
    return program


def add_main(
    program: Program,
    op: Op,
    callee: str,
    types: Sequence[TensorType],
    name: str = "main",
    **params: Any,
) -> str:
    """A function that applies a transformation to another."""
    body = Body.build(list(types), lambda *v: emit_call(program, op, callee, list(v), **params))
    return program.add(name, body, public=True)


class _Running:
    """The program that is evaluated, with its caches; functions are added and never removed."""

    def __init__(self, program: Program) -> None:
        self.evaluator = Evaluator(program)
        self.verified = 0


_running: list[_Running] = []


def run(program: Program, name: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Evaluate a function; the program must verify before."""
    if not _running or _running[0].evaluator.program is not program:
        _running[:] = [_Running(program)]
    running = _running[0]
    if running.verified != len(program.names):
        assert program.module.operation.verify()
        running.verified = len(program.names)
    return running.evaluator(name, *arrays)


def assert_close(
    actual: Any, expected: Any, dtype: np.dtype, ulps: float = 4.0, message: str = ""
) -> None:
    """Equal shapes, and values within ``ulps`` units of the dtype.

    The unit is relative to each expected value, with the result's median magnitude as a floor, so
    that results near a zero of the function are held to the accuracy of their inputs. Zeros that a
    result has by its structure, such as those of a dilated convolution, say nothing about the
    others, so that median leaves zeros out. If most values are zeros, they must be exact.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{message}: {actual.shape} != {expected.shape}"
    if not is_inexact(dtype):
        np.testing.assert_array_equal(actual, expected.astype(actual.dtype), message)
        return
    with np.errstate(invalid="ignore"):  # signalling nans
        size = np.abs(expected.astype(np.complex128 if is_complex(expected.dtype) else np.float64))
    finite = size[np.isfinite(size)]
    scale = np.where(size == 0, _median(finite), _median(finite[finite != 0]))
    judge(units_off(actual, expected, scale, dtype), ulps, actual, expected, message)


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if values.size else 0.0


def units_of_case(case: Case) -> float:
    """The tolerance of a case on a backend whose functions gnomon writes."""
    return ulps_of(*case, compiled=True)


def more_units_than_the_row(units: float) -> Callable[[Case], float]:
    """The tolerance on a backend with functions of its own: some units more than the row's."""
    return lambda case: case[0].ulps + units


def check_compiled(
    backend: Backend, cases: Sequence[Case], units: Callable[[Case], float] = units_of_case
) -> None:
    """Compile cases as one program, run it, and fail with all differences from the evaluator.

    Args:
      backend: the backend that compiles.
      cases: the rows and dtypes.
      units: the tolerance of a case in units of the result's dtype.
    """
    operands = [draw_all(row, dtype, salt="compiled", edges=True) for row, dtype in cases]
    executable = backend.compile(backend.lower(joint_program(cases, operands)))
    flat = [np.ascontiguousarray(a).reshape(a.shape) for arrays in operands for a in arrays]
    results = iter(b.to_numpy() for b in executable(flat))
    problems = []
    for case, arrays in zip(cases, operands, strict=True):
        row, dtype = case
        for reference in run(program_of(row, dtype, arrays), "f", arrays):
            result = next(results)
            try:
                assert result.dtype == reference.dtype
                allowed = units(case) if is_inexact(reference.dtype) else 0.0
                name = f"{row.id} {short_name(dtype)}"
                assert_close(result, reference, reference.dtype, allowed, name)
            except AssertionError as error:
                problems.append(str(error))
    assert not problems, "\n".join(problems)
