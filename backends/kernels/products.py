"""Products of matrices in memory, in blocks that are kept in registers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gnomon.backends.kernels.code import Code, Place, Scalar, Variable
from gnomon.backends.kernels.types import of_type
from gnomon.backends.kernels.values import Buffer

__all__ = ["Matrix", "add_product", "add_rows"]

# The size of a block of the product, and the terms that are added up before they are added to it:
# in a longer chain of additions f32 loses digits.
_ROWS, _COLUMNS, _TERMS = 4, 16, 256


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory.

    Attributes:
      buffer: the memory.
      start: the position of its first element.
      row: the distance of its rows.
      column: the distance of its columns.
    """

    buffer: Buffer
    start: Place
    row: int
    column: int = 1

    @property
    def stored(self) -> str:
        """The type of its elements."""
        return of_type(self.buffer.type).stored

    def place(self, code: Code, row: Place, column: Place) -> Place:
        """The position of an element."""
        place = code.plus(code.times(row, self.row), code.times(column, self.column))
        return code.plus(self.start, place)

    def read(self, code: Code, row: Place, column: Place) -> Scalar:
        """An element."""
        place = self.place(code, row, column)
        return code.read(self.buffer.memory, self.stored, self.buffer.type.size, place)

    def write(self, code: Code, row: Place, column: Place, value: Scalar) -> None:
        """Write an element."""
        place = self.place(code, row, column)
        code.write(self.buffer.memory, self.buffer.type.size, place, value)

    def read_row(self, code: Code, row: Place, column: Place, width: int) -> Scalar:
        """Elements of a row."""
        place = self.place(code, row, column)
        memory, size = self.buffer.memory, self.buffer.type.size
        return code.read_vector(memory, self.stored, size, place, width)

    def write_row(self, code: Code, row: Place, column: Place, value: Scalar) -> None:
        """Write elements of a row."""
        place = self.place(code, row, column)
        memory, size = self.buffer.memory, self.buffer.type.size
        code.write_vector(memory, self.stored, size, place, value)


def _added(code: Code, left: Scalar, right: Scalar) -> Scalar:
    is_integer = "xi" in left.type or left.type.startswith("i")
    return code.same("arith.addi" if is_integer else "arith.addf", left, right)


def _multiplied_and_added(code: Code, x: Scalar, y: Scalar, total: Scalar) -> Scalar:
    """``x y + total``; of floats either rounding will do."""
    if "xi" in x.type or x.type.startswith("i"):
        return code.same("arith.addi", code.same("arith.muli", x, y), total)
    tail = f"fastmath<contract> : {x.type}"
    product = code.pure("arith.mulf", [x, y], tail, x.type)
    return code.pure("arith.addf", [product, total], tail, x.type)


@contextmanager
def _pieces(code: Code, count: int, size: int) -> Iterator[list[tuple[Place, Place]]]:
    """A loop over pieces of a range; yields the start and the end of one."""
    if count <= size:
        yield [(0, count)]
        return
    with code.loop(0, count, size) as start:
        end = code.same("arith.minsi", code.at(code.plus(start, size)), code.at(count))
        yield [(start, end)]


def add_product(
    code: Code, sizes: tuple[int, int, int], left: Matrix, right: Matrix, total: Matrix
) -> None:
    """Add the product of two matrices to a third; the rows of the right one are contiguous.

    Args:
      code: the text.
      sizes: the numbers of rows, of columns and of terms.
      left, right, total: the matrices.
    """
    rows, columns, terms = sizes
    whole = (rows - rows % _ROWS, columns - columns % _COLUMNS)
    for column_range, width in ((whole[1], _COLUMNS), (columns, columns % _COLUMNS)):
        for row_range, height in ((whole[0], _ROWS), (rows, rows % _ROWS)):
            if not (width and height and column_range and row_range):
                continue
            with (
                code.loop(0 if width == _COLUMNS else whole[1], column_range, width) as j,
                code.loop(0 if height == _ROWS else whole[0], row_range, height) as i,
                _pieces(code, terms, _TERMS) as pieces,
            ):
                for start, end in pieces:
                    _add_block(code, (height, width), (i, j), (start, end), left, right, total)


def _add_block(
    code: Code,
    size: tuple[int, int],
    place: tuple[Place, Place],
    terms: tuple[Place, Place],
    left: Matrix,
    right: Matrix,
    total: Matrix,
) -> None:
    height, width = size
    i, j = place
    rows = [code.plus(i, r) for r in range(height)]
    zero = code.spread(code.constant(0, left.stored), width)
    sums = [code.variable(zero.type, zero) for _ in rows]
    with code.loop(*terms) as p:
        of_right = right.read_row(code, p, j, width)
        of_left = [code.spread(left.read(code, row, p), width) for row in rows]
        for element, sum_ in zip(of_left, sums, strict=True):
            code.assign(sum_, _multiplied_and_added(code, element, of_right, code.value(sum_)))
    for row, sum_ in zip(rows, sums, strict=True):
        before = total.read_row(code, row, j, width)
        total.write_row(code, row, j, _added(code, before, code.value(sum_)))


def add_rows(code: Code, rows: int, terms: int, left: Matrix, right: Matrix, total: Matrix) -> None:
    """Add to each element of a vector the product of a vector with a row of a matrix."""
    whole = terms - terms % _COLUMNS
    with code.loop(0, rows) as i:
        sum_: Variable = code.variable(total.stored, total.read(code, 0, i))
        if whole:
            zero = code.spread(code.constant(0, left.stored), _COLUMNS)
            lanes = code.variable(zero.type, zero)
            with code.loop(0, whole, _COLUMNS) as p:
                x, y = left.read_row(code, 0, p, _COLUMNS), right.read_row(code, i, p, _COLUMNS)
                code.assign(lanes, _multiplied_and_added(code, x, y, code.value(lanes)))
        if terms != whole:
            with code.loop(whole, terms) as p:
                x, y = left.read(code, 0, p), right.read(code, i, p)
                code.assign(sum_, _multiplied_and_added(code, x, y, code.value(sum_)))
        if whole:
            vector = code.value(lanes)
            for k in range(_COLUMNS):
                lane = code.lane(vector, k)
                code.assign(sum_, _added(code, code.value(sum_), lane))
        total.write(code, 0, i, code.value(sum_))
