"""The op table with surrounding ops: operands are constants or views, results are summed.

A compiler fuses an op with the producers of its operands and the consumers of its results, and
makes more errors there than in the op itself. A `Surrounded` is a row with a choice for each
operand: an argument, a constant of some kind, or a view of an argument. Optionally, each result is
summed.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.backends.errors import CompilationError
from gnomon.backends.interface import Backend
from gnomon.dialects.body import Body
from gnomon.dialects.emit import constant, ops, reshape
from gnomon.dialects.functions import Program
from gnomon.dialects.traits import Form, form_of
from gnomon.dialects.types import BOOL, is_floating, is_inexact, is_integer, short_name, type_of
from tests.ops.check import EXTRA_ULPS, Case, draw_all, emit_row, run, types_of
from tests.ops.row import Operand, Row
from tests.tolerance import assert_near, unit

ARGUMENT = "argument"

# ------------------------------------------------------------------------------------- constants


def _literal(operand: Operand, value: np.ndarray) -> Any:
    return constant(value)


def _splat(operand: Operand, value: np.ndarray) -> Any:
    return constant(np.broadcast_to(value.ravel()[:1].reshape((1,) * value.ndim), value.shape))


def _ramp(operand: Operand, value: np.ndarray) -> Any:
    """Evenly spaced numbers of the operand's range, made by an iota."""
    dtype, shape = value.dtype, value.shape
    ramp = ops.iota(dtype=np.dtype(np.int32), shape=shape, dimension=len(shape) - 1)
    if dtype == BOOL:
        return ops.eq(ops.rem(ramp, _like(ramp, 2)), _like(ramp, 1))
    if is_floating(dtype):
        # Fused chains of narrow floats are rounded once. These numbers are exact at each op.
        step = 2.0 ** math.floor(math.log2((operand.high - operand.low) / max(shape[-1], 1)))
        start = math.ceil(operand.low / step) * step + step / 4
        ramp = ops.convert(ramp, dtype=dtype)
        return ops.add(ops.mul(ramp, _like(ramp, step)), _like(ramp, start))
    low = max(int(operand.low), 0 if short_name(dtype).startswith("u") else int(operand.low))
    span = max(int(operand.high), low) - low + 1
    ramp = ops.add(ops.rem(ramp, _like(ramp, span)), _like(ramp, low))
    return ops.convert(ramp, dtype=dtype)


def _like(x: Any, value: float) -> Any:
    type_ = type_of(x)
    return constant(np.full(type_.shape, value, type_.dtype))


CONSTANTS: dict[str, Callable[[Operand, np.ndarray], Any]] = {
    "literal": _literal,
    "splat": _splat,
    "ramp": _ramp,
}


def _constants_of(row: Row, operand: Operand, value: np.ndarray) -> list[str]:
    """The kinds of constants that an operand can be."""
    if form_of(f"gnomon.{row.op}") is Form.MATRIX:
        # The others are singular, and whether a factorization of them fails depends on a rounding.
        return ["literal"]
    if operand.draw is not None or not value.size or not value.ndim:
        # The row defines a special value, such as a triangular matrix or sorted positions.
        return ["literal"]
    has_ramp = is_floating(value.dtype) or is_integer(value.dtype) or value.dtype == BOOL
    return ["literal", "splat", *(["ramp"] if has_ramp else [])]


# ------------------------------------------------------------------------------------------ views


def _around(value: np.ndarray, shape: Sequence[int], place: tuple[slice, ...]) -> np.ndarray:
    """An array of a shape that holds a value in one place, and copies of its elements elsewhere."""
    whole = np.resize(value, tuple(shape))
    whole[place] = value
    return whole


@dataclass(frozen=True)
class View:
    """A way to pass an operand as a view of an argument.

    Attributes:
      whole: makes the argument from the operand's value.
      take: makes the operand from the argument.
    """

    whole: Callable[[np.ndarray], np.ndarray]
    take: Callable[[Any, tuple[int, ...]], Any]


def _vector(value: np.ndarray) -> np.ndarray:
    """A scalar as a vector of one element, of which views can be taken."""
    return value if value.ndim else value.reshape(1)


def _slice_of(
    whole: Callable[[tuple[int, ...]], tuple[int, ...]], place: Callable[[int], tuple[slice, ...]]
) -> View:
    """A view that is a slice, given by the shape of the whole and the position of the slice."""

    def make(value: np.ndarray) -> np.ndarray:
        value = _vector(value)
        shape = whole(value.shape)
        part = place(value.ndim)
        fitting = value.reshape((*value.shape, *(1,) * (len(shape) - value.ndim)))
        return _around(fitting, shape, part)

    def take(x: Any, shape: tuple[int, ...]) -> Any:
        slices = [
            s.indices(n) for s, n in zip(place(len(shape) or 1), type_of(x).shape, strict=True)
        ]
        start, limit, strides = (tuple(part) for part in zip(*slices, strict=True))
        return reshape(ops.slice(x, start=start, limit=limit, strides=strides), shape)

    return View(make, take)


def _flipped(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.flip(value)).reshape(value.shape)


VIEWS: dict[str, View] = {
    "strided": _slice_of(
        lambda s: tuple(2 * n for n in s), lambda rank: (slice(0, None, 2),) * rank
    ),
    "part": _slice_of(lambda s: tuple(n + 2 for n in s), lambda rank: (slice(1, -1),) * rank),
    "column": _slice_of(lambda s: (*s, 3), lambda rank: (*(slice(None),) * rank, slice(1, 2))),
    "reversed": View(
        _flipped,
        lambda x, shape: ops.rev(x, dims=tuple(range(len(shape)))) if shape else x,
    ),
    "transposed": View(
        lambda value: np.ascontiguousarray(value.T).reshape(value.shape[::-1]),
        lambda x, shape: ops.transpose(x, permutation=tuple(range(len(shape)))[::-1]),
    ),
}

# ------------------------------------------------------------------------------------ surroundings


@dataclass(frozen=True, eq=False)
class Surrounded:
    """A row in one of its dtypes, with the ops around it.

    Attributes:
      case: the row and the dtype.
      given: how each operand is given: an argument, one of `CONSTANTS` or one of `VIEWS`.
      summed: whether all elements of each result are added up.
    """

    case: Case
    given: tuple[str, ...]
    summed: bool

    @property
    def id(self) -> str:
        """The name in reports, which also seeds the values."""
        row, dtype = self.case
        return f"{row.id} {short_name(dtype)} ({', '.join(self.given)}){' summed' * self.summed}"

    def values(self) -> list[np.ndarray]:
        """The values of the operands, including constants."""
        row, dtype = self.case
        return draw_all(row, dtype, salt="surrounded")

    def arguments(self) -> list[np.ndarray]:
        """The arguments of the program."""
        given = [
            VIEWS[how].whole(value) if how in VIEWS else value
            for how, value in zip(self.given, self.values(), strict=True)
            if how not in CONSTANTS
        ]
        # ascontiguousarray would make a vector of a scalar.
        return [np.ascontiguousarray(x).reshape(x.shape) for x in given]

    def emit(self, arguments: Sequence[Any]) -> list[Any]:
        """Emit the op and its surroundings at the current insertion point."""
        row, dtype = self.case
        remaining = iter(arguments)
        operands = []
        for how, operand, value in zip(self.given, row.operands, self.values(), strict=True):
            if how in CONSTANTS:
                operands.append(CONSTANTS[how](operand, value))
            elif how in VIEWS:
                operands.append(VIEWS[how].take(next(remaining), value.shape))
            else:
                operands.append(next(remaining))
        results = list(emit_row(row, dtype, operands))
        return [_sum_of(r) for r in results] if self.summed else results

    def program(self) -> Program:
        """A program that consists of this row and its surroundings."""
        return joined([self])

    def check(self, found: Sequence[np.ndarray]) -> str:
        """A description of wrong results; empty if all are correct."""
        plain = Surrounded(self.case, self.given, False) if self.summed else self
        arguments = self.arguments()
        expected = run(self.program(), "main", arguments)
        terms = run(plain.program(), "main", arguments)
        row, _ = self.case
        try:
            for result, reference, parts in zip(found, expected, terms, strict=True):
                assert result.dtype == reference.dtype
                ulps = row.ulps + EXTRA_ULPS if is_inexact(reference.dtype) else 0.0
                if self.summed and is_inexact(reference.dtype):
                    _assert_sum(result, reference, parts, ulps, self.id)
                else:
                    # Other tests check the accuracy of each number. Here results may cancel.
                    assert_near(result, reference, ulps)
        except AssertionError as error:
            return f"{self.id}: {error}"
        return ""


def _sum_of(x: Any) -> Any:
    type_ = type_of(x)
    if type_.dtype == BOOL:
        x = ops.convert(x, dtype=np.dtype(np.int32))
    return ops.reduce_sum(x, axes=tuple(range(len(type_.shape)))) if type_.shape else x


def _assert_sum(
    found: np.ndarray, expected: np.ndarray, terms: np.ndarray, ulps: float, name: str
) -> None:
    """The error of a sum is at most that of its terms, plus a rounding for each of them."""
    with np.errstate(all="ignore"):
        wide = np.complex128 if np.iscomplexobj(expected) else np.float64
        size = np.abs(np.asarray(terms).astype(wide)).sum()
        a, e = found.astype(wide), expected.astype(wide)
        if not (np.isfinite(size) and np.isfinite(e)):
            np.testing.assert_array_equal(np.isfinite(a), np.isfinite(e), name)
            return
        allowed = (ulps + math.log2(terms.size + 2)) * size * unit(expected.dtype)
        assert np.abs(a - e) <= allowed, f"{name}: {a} instead of {e} (allowed: {allowed:.3g} off)"


def joined(items: Sequence[Surrounded]) -> Program:
    """A program whose ``main`` contains all cases, one after the other."""
    program = Program()
    arguments = [item.arguments() for item in items]

    def emit(*values: Any) -> list[Any]:
        remaining = iter(values)
        results: list[Any] = []
        for item, given in zip(items, arguments, strict=True):
            results += item.emit(list(itertools.islice(remaining, len(given))))
        return results

    types = [t for given in arguments for t in types_of(given)]
    program.add("main", Body.build(types, emit), public=True)
    return program


def surroundings_of(case: Case) -> list[Surrounded]:
    """Choices for a row: subsets of its operands as constants, and all operands as views.

    Each subset of the first four operands is each kind of constant in turn, and all operands
    together are each kind of view.
    """
    row, dtype = case
    values = draw_all(row, dtype, salt="surrounded")
    count = len(values)
    given: dict[tuple[str, ...], None] = {}
    for chosen in itertools.product((False, True), repeat=min(count, 4)):
        for kind in CONSTANTS:
            given[
                tuple(
                    _kind(kind, row, operand, value) if is_constant else ARGUMENT
                    for operand, value, is_constant in zip(
                        row.operands, values, (*chosen, *(False,) * count), strict=False
                    )
                )
            ] = None
    for view in VIEWS:
        given[(view,) * count] = None
    return [Surrounded(case, g, summed) for g in given for summed in (False, True)]


def _kind(kind: str, row: Row, operand: Operand, value: np.ndarray) -> str:
    kinds = _constants_of(row, operand, value)
    return kind if kind in kinds else kinds[-1]


def sampled(items: Sequence[Surrounded], count: int, salt: str = "") -> list[Surrounded]:
    """A sample of the cases, which is always the same."""
    return sorted(items, key=lambda item: zlib.crc32(f"{item.id}{salt}".encode()))[:count]


def check_surrounded(backend: Backend, items: Sequence[Surrounded]) -> None:
    """Compile the cases as one program, run it, and compare with the evaluator."""
    problems = list(_problems(backend, items))
    assert not problems, "\n".join(problems)


def _problems(backend: Backend, items: Sequence[Surrounded]) -> Iterator[str]:
    if not items:
        return
    arguments = [a for item in items for a in item.arguments()]
    try:
        executable = backend.compile(backend.lower(joined(items)))
    except CompilationError as error:
        if len(items) == 1:
            yield f"{items[0].id}: {error}"
            return
        # Bisect to find the failing one.
        middle = len(items) // 2
        yield from _problems(backend, items[:middle])
        yield from _problems(backend, items[middle:])
        return
    remaining = iter(b.to_numpy() for b in executable(arguments))
    for item in items:
        count = len(joined([item]).signature("main").results)
        if problem := item.check(list(itertools.islice(remaining, count))):
            yield problem
