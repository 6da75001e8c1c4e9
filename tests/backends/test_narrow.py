"""8-bit floats and integers of 4 and 2 bits, which compiled programs store in bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.lax
import gnomon.numpy as gnp
from gnomon.backends.narrow import legalize_narrow_dtypes
from gnomon.backends.narrow_formats import is_narrow, storage
from gnomon.backends.reference import Evaluator
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.types import ANY, is_floating, short_name
from tests.ops import rows_elementwise, rows_elementwise_functions, rows_elementwise_special
from tests.ops.check import DTYPES, all_rows, draw_all, params_of, program_of
from tests.ops.row import Row
from tests.xla import NEWER_EMITTERS

jax = pytest.importorskip("jax")
jax_numpy = pytest.importorskip("jax.numpy")

NARROW = [d for d in ANY if is_narrow(d)]
FLOATS = [d for d in NARROW if is_floating(d)]
INTEGERS = [d for d in NARROW if not is_floating(d)]
CODES = np.arange(256, dtype=np.uint8)


def _rows() -> dict[str, list[tuple[Row, np.dtype]]]:
    """The cases with narrow dtypes, by op."""
    found: dict[str, list[tuple[Row, np.dtype]]] = {}
    for row in all_rows():
        for dtype in (DTYPES[name] for name in row.dtypes.split()):
            if is_narrow(dtype) or is_narrow(params_of(row, dtype).get("dtype") or dtype):
                found.setdefault(row.op, []).append((row, dtype))
    return found


ROWS = _rows()


def in_bytes(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8).view(storage(array.dtype)) if is_narrow(array.dtype) else array


def assert_same(actual: np.ndarray, expected: np.ndarray, message: str = "") -> None:
    """Equal, including the signs of zeros; all nans are equal."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), message
    if is_floating(actual.dtype):
        with np.errstate(invalid="ignore"):  # signalling nans
            a, b = actual.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_array_equal(a, b, message)
        kept = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a[kept]), np.signbit(b[kept]), message)
    elif is_narrow(actual.dtype):
        np.testing.assert_array_equal(actual.astype(np.int64), expected.astype(np.int64), message)
    else:
        np.testing.assert_array_equal(actual, expected, message)


@pytest.mark.sampled(0.8)
@pytest.mark.parametrize("op", ROWS)
def test_rewritten_program_means_the_same(op: str) -> None:
    for row, dtype in ROWS[op]:
        arrays = draw_all(row, dtype, salt="narrow", edges=True)
        expected = Evaluator(program_of(row, dtype, arrays))("f", *arrays)
        program = program_of(row, dtype, arrays)
        # Only the arguments and results of `main` are stored as NumPy stores them.
        del program.function("f").attributes["sym_visibility"]
        results = program.signature("f").results
        legalize_narrow_dtypes(program)
        assert program.module.operation.verify()
        signature = program.signature("f")
        assert not any(is_narrow(t.dtype) for t in (*signature.arguments, *signature.results))
        actual = Evaluator(program)("f", *map(in_bytes, arrays))
        for a, e, type_ in zip(actual, expected, results, strict=True):
            a = a.view(type_.dtype) if is_narrow(type_.dtype) else a
            assert_same(a, e, f"{row.id} {short_name(dtype)}")


def _rounded() -> dict[str, list[tuple[Row, np.dtype]]]:
    """Ops that compute each number of an 8-bit format from one or two, with a case per format."""
    found: dict[str, dict[np.dtype, tuple[Row, np.dtype]]] = {}
    for module in (rows_elementwise, rows_elementwise_functions, rows_elementwise_special):
        for row in module.ROWS:
            if len(row.operands) > 2 or any(o.dtype is not None for o in row.operands):
                continue
            for dtype in (DTYPES[name] for name in row.dtypes.split()):
                if dtype in FLOATS:
                    found.setdefault(row.op, {}).setdefault(dtype, (row, dtype))
    return {op: list(cases.values()) for op, cases in found.items()}


ROUNDED = _rounded()


@pytest.mark.parametrize("op", ROUNDED)
def test_every_number_is_rounded_once(op: str) -> None:
    """For all numbers or all pairs, evaluated and rewritten ops round the f64 result once.

    A dozen random numbers would miss an op that rounds twice on some processors only.
    """
    evaluate = REGISTRY[f"gnomon.{op}"].evaluate
    round_to = REGISTRY["gnomon.convert"].evaluate
    assert callable(evaluate) and callable(round_to)
    for row, dtype in ROUNDED[op]:
        codes = CODES.view(dtype)
        arrays = [codes] if len(row.operands) == 1 else [a.ravel() for a in _pairs(codes)]
        program = program_of(row, dtype, arrays)
        (type_,) = program.signature("f").results
        with np.errstate(all="ignore"):
            wide = evaluate(*(a.astype(np.float64) for a in arrays), **params_of(row, dtype))
            expected = round_to(np.asarray(wide), dtype=type_.dtype)
        message = f"{op} {short_name(dtype)}"
        assert_same(Evaluator(program)("f", *arrays)[0], expected, message)
        del program.function("f").attributes["sym_visibility"]
        legalize_narrow_dtypes(program)
        (rewritten,) = Evaluator(program)("f", *map(in_bytes, arrays))
        if is_narrow(type_.dtype):
            rewritten = rewritten.view(type_.dtype)
        assert_same(rewritten, expected, f"{message}, rewritten")


def _pairs(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(codes, codes.size), np.tile(codes, codes.size)


def _near(dtype: np.dtype) -> np.ndarray:
    """Every number of a format, the points halfway between, and their neighbours."""
    with np.errstate(all="ignore"):
        numbers = np.unique(CODES.view(dtype).astype(np.float32))
    numbers = numbers[np.isfinite(numbers)]
    halfway = (numbers[1:] + numbers[:-1]) / 2
    beyond = np.array([numbers[-1] * 1.03, numbers[-1] * 1.07, 1e30, 1e-30, 0.0, -0.0], np.float32)
    points = np.concatenate([numbers, halfway, beyond, -beyond])
    special = np.array([np.inf, -np.inf, np.nan], np.float32)
    around = [np.nextafter(points, np.float32(e)) for e in (np.inf, -np.inf)]
    tested = np.concatenate([points, *around, special])
    # Below the normal numbers of f32, XLA may round to any power of two.
    return tested[~(np.abs(tested) < np.finfo(np.float32).tiny) | (tested == 0)]


def test_conversions_of_every_code_are_those_of_jax() -> None:
    """One program for all formats: what each code means, and how numbers are rounded to them."""
    codes = {d.name: CODES.view(d) for d in FLOATS}
    numbers = {d.name: _near(d) for d in FLOATS}

    def program(np_: Any, codes: Any, numbers: Any) -> Any:
        decoded = {name: x.astype(np_.float32) for name, x in codes.items()}
        encoded = {name: x.astype(name) for name, x in numbers.items()}
        return decoded, encoded

    ours = gnomon.jit(lambda c, n: program(gnp, c, n))(codes, numbers)
    program_of_jax = jax.jit(lambda c, n: program(jax_numpy, c, n), compiler_options=NEWER_EMITTERS)
    theirs = program_of_jax(codes, numbers)
    for mine, other in zip(ours, theirs, strict=True):
        for name in codes:
            assert_same(np.asarray(mine[name]), np.asarray(other[name]), name)


def test_arithmetic_in_a_loop_with_branches() -> None:
    """Narrow dtypes as arguments, as results, through every kind of region, and differentiated."""
    eights = gnp.asarray(np.linspace(-2, 2, 5), "float8_e4m3fn")
    fours = gnp.asarray([-8, -3, 0, 3, 7], "int4")

    def step(carry: Any, x: Any) -> Any:
        f, i = carry
        f = gnomon.lax.cond(x[0] > 0, lambda v: gnp.sin(v) + v, lambda v: v * v, f)
        i = gnomon.lax.fori_loop(0, 2, lambda k, v: v * v + v, i)
        return (f, i - i[::-1]), (f, gnp.max(i))

    def program(f: Any, i: Any) -> Any:
        scanned = gnomon.lax.scan(step, (f, i), gnp.asarray([[1.0], [-1.0], [1.0]], f.dtype))
        return scanned, gnomon.grad(lambda v: gnp.sum(gnp.exp(v) * v))(f)

    found, expected = gnomon.jit(program)(eights, fours), program(eights, fours)
    for a, e in zip(*map(gnomon.tree_util.tree_leaves, (found, expected)), strict=True):
        assert_same(np.asarray(a), np.asarray(e))


def test_callbacks_get_and_return_narrow_dtypes() -> None:
    """Also in compiled programs, where such values are bytes, and together with wider operands."""
    seen: list[Any] = []

    def called(i: Any, f: Any, x: Any) -> Any:
        seen.append((i.dtype.name, f.dtype.name, x.dtype.name))
        return i[::-1], (f.astype(np.float32) * 2).astype(f.dtype), x + 1

    def program(i: Any, f: Any, x: Any) -> Any:
        results = gnomon.pure_callback(called, (i, f, x), i, f, x)
        gnomon.debug.callback(lambda v: seen.append(v.dtype.name), results[0])
        return results, results[0] * 2

    i, f, x = gnp.asarray([-8, 7, 1], "int4"), gnp.asarray([0.5, -3], "float8_e4m3fn"), gnp.ones(2)
    found, expected = gnomon.jit(program)(i, f, x), program(i, f, x)
    gnomon.effects_barrier()
    assert seen == [("int4", "float8_e4m3fn", "float32"), "int4"] * 2
    for a, e in zip(*map(gnomon.tree_util.tree_leaves, (found, expected)), strict=True):
        assert_same(np.asarray(a), np.asarray(e))
    wrong = gnomon.jit(lambda v: gnomon.pure_callback(lambda v: v.astype(np.int8), v, v))
    with pytest.raises(RuntimeError, match="Expected: int4, Actual: int8"):
        wrong(i).block_until_ready()
