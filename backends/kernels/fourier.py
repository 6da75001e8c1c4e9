"""Fourier transforms, one dimension after the other.

Numbers in single precision are transformed in double precision, so that only results are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.kernels.arithmetic import apply, converted
from gnomon.backends.kernels.code import Code, Pair, Place, Scalar
from gnomon.backends.kernels.folds import Total
from gnomon.backends.kernels.movements import constant_buffer, filled
from gnomon.backends.kernels.values import Buffer, Index, Stored, Value, flattened
from gnomon.dialects.mlir import stablehlo
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.backends.kernels.builder import Builder, Operation

__all__ = ["FOURIER"]

# A longer table of roots of unity is replaced by two short ones, whose products are the roots.
_SHORT_TABLE = 256
# A length with a larger factor is transformed by Bluestein's algorithm.
_LONGEST_RADIX = 128
_F64, _C128 = np.dtype(np.float64), np.dtype(np.complex128)


def _factors(length: int) -> list[int]:
    """The factors of a length: fours, then primes."""
    factors, quotient, factor = [], length, 4
    while quotient > 1:
        if quotient % factor == 0:
            factors.append(factor)
            quotient //= factor
        else:
            factor = {4: 2, 2: 3}.get(factor, factor + 2)
            factor = factor if factor * factor <= quotient or factor == 2 else quotient
    return factors


def _padded(length: int) -> int:
    """The length of the transforms in Bluestein's algorithm, or 0 to transform by the factors.

    The cost of a transform is estimated as its length times the sum of its factors.
    """
    factors = _factors(length)
    least = 2 * length - 1
    smooth = (
        2**a * 3**b * 5**c
        for a in range(least.bit_length() + 1)
        for b in range(3)
        for c in range(2)
        if 2**a * 3**b * 5**c >= least
    )
    padded = min(smooth)
    cost = 3 * padded * sum(_factors(padded))
    is_long = max(factors, default=1) > _LONGEST_RADIX
    return padded if is_long or length * sum(factors) > cost else 0


def _roots(counts: np.ndarray, length: int) -> np.ndarray:
    """``exp(-2 pi i k / length)``, from angles in the first octant."""
    octants, remainder = np.divmod(8 * counts, length)
    is_odd = octants % 2 == 1
    angles = np.where(is_odd, length - remainder, remainder) * (np.pi / (4 * length))
    cosines, sines = np.cos(angles), np.sin(angles)
    # In an odd octant, the angle is the distance from the octant's end.
    cosines, sines = np.where(is_odd, sines, cosines), np.where(is_odd, cosines, sines)
    # Each quarter turn multiplies the roots by -i.
    real = np.choose(octants // 2, [cosines, -sines, -cosines, sines])
    imag = np.choose(octants // 2, [-sines, -cosines, sines, cosines])
    return real + 1j * imag


class _Numbers:
    """Arithmetic of complex numbers in double precision."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.code: Code = builder.code

    def real(self, name: str, *operands: Scalar) -> Scalar:
        return self.code.same(f"arith.{name}", *operands)

    def number(self, value: float) -> Scalar:
        return self.code.constant(value, "f64")

    def _pair(self, name: str, *operands: Pair) -> Pair:
        result = apply(self.code, name, operands, _C128)
        assert isinstance(result, Pair)
        return result

    def add(self, x: Pair, y: Pair) -> Pair:
        return self._pair("add", x, y)

    def subtract(self, x: Pair, y: Pair) -> Pair:
        return self._pair("subtract", x, y)

    def multiply(self, x: Pair, y: Pair) -> Pair:
        return self._pair("multiply", x, y)

    def conjugate(self, x: Pair) -> Pair:
        return Pair(x.re, self.real("negf", x.im))

    def scale(self, x: Pair, factor: Scalar) -> Pair:
        return Pair(self.real("mulf", x.re, factor), self.real("mulf", x.im, factor))

    def by_i(self, x: Pair) -> Pair:
        """``i x``."""
        return Pair(self.real("negf", x.im), x.re)

    def read(self, buffer: Buffer, place: Place) -> Pair:
        element = self.builder.load(buffer, place)
        assert isinstance(element, Pair)
        return element


def _root(builder: Builder, length: int) -> Callable[[Place], Pair]:
    """The power of a root of unity, read from tables that this writes."""
    numbers, code = _Numbers(builder), builder.code
    bits = max(length - 1, 1).bit_length()
    bits = bits if length <= _SHORT_TABLE else -(-bits // 2)
    tables = []
    for counts in (np.arange(min(1 << bits, length)), np.arange(0, length, 1 << bits)):
        table = _roots(counts, length)
        tables.append(constant_buffer(builder, table, TensorType((len(table),), _C128)))
    low, high = tables

    def root(power: Place) -> Pair:
        if length <= _SHORT_TABLE:
            return numbers.read(low, power)
        quotient, rest = code.divided(power, 1 << bits)
        return numbers.multiply(numbers.read(low, rest), numbers.read(high, quotient))

    return root


def _transform(
    builder: Builder, length: int, roots: Buffer, source: Buffer, other: Buffer
) -> Buffer:
    """Write the transform of a row by the factors of its length; the result is in one of two rows.

    ``roots[i]`` is the root of unity to the power i. Both rows are overwritten. After each factor,
    element ``k m + j`` is coefficient k of the transform of the elements j, j + m, j + 2 m, ...
    """
    code, done, target = builder.code, 1, other
    for factor in _factors(length):
        count = length // (done * factor)
        with code.loops([done], independent=False) as (k,), code.loops([count]) as (j,):
            start = code.plus(code.times(k, count * factor), j)
            elements = [code.plus(start, count * r) for r in range(factor)]
            to = code.plus(code.times(k, count), j)
            results = [code.plus(to, done * count * r) for r in range(factor)]
            powers = [code.times(k, count * r) for r in range(factor)]
            stage = _Stage(_Numbers(builder), roots, source, target, length)
            if factor in (2, 3, 4):
                stage.small(elements, powers, results)
            else:
                stage.large(factor, start, count, k, to, done * count)
        done *= factor
        source, target = target, source
    return source


@dataclass(frozen=True)
class _Stage:
    """The transforms of one factor's length.

    Attributes:
      numbers: the arithmetic.
      roots: the roots of unity.
      source, target: the rows.
      length: the length of the whole transform.
    """

    numbers: _Numbers
    roots: Buffer
    source: Buffer
    target: Buffer
    length: int

    def _term(self, element: Place, power: Place) -> Pair:
        value = self.numbers.read(self.source, element)
        if power == 0:
            return value
        return self.numbers.multiply(value, self.numbers.read(self.roots, power))

    def small(
        self, elements: Sequence[Place], powers: Sequence[Place], results: Sequence[Place]
    ) -> None:
        """Write out a transform of two, three or four numbers."""
        n = self.numbers
        x = [self._term(*each) for each in zip(elements, powers, strict=True)]
        if len(x) == 2:
            y = [n.add(x[0], x[1]), n.subtract(x[0], x[1])]
        elif len(x) == 3:
            sum_, turned = n.add(x[1], x[2]), n.by_i(n.subtract(x[1], x[2]))
            middle = n.subtract(x[0], n.scale(sum_, n.number(0.5)))
            turned = n.scale(turned, n.number(math.sqrt(3) / 2))
            y = [n.add(x[0], sum_), n.subtract(middle, turned), n.add(middle, turned)]
        else:
            even = n.add(x[0], x[2]), n.subtract(x[0], x[2])
            odd = n.add(x[1], x[3]), n.by_i(n.subtract(x[1], x[3]))
            y = [n.add(even[0], odd[0]), n.subtract(even[1], odd[1])]
            y += [n.subtract(even[0], odd[0]), n.add(even[1], odd[1])]
        for place, value in zip(results, y, strict=True):
            n.builder.store(self.target, place, value)

    def large(self, factor: int, start: Place, step: int, k: Place, to: Place, apart: int) -> None:
        """Loop over pairs of terms: r and factor - r have conjugate roots, as have the results."""
        n, builder = self.numbers, self.numbers.builder
        code, half = builder.code, (factor - 1) // 2
        with (
            builder.scratch(TensorType((half,), _C128)) as sums,
            builder.scratch(TensorType((half,), _C128)) as differences,
        ):
            first = n.read(self.source, start)
            total = Total(code, first)
            with code.loop(0, half) as r:
                pair = []
                for number in (code.plus(r, 1), code.minus(factor - 1, r)):
                    element = code.plus(start, code.times(number, step))
                    power = code.same("arith.muli", code.at(code.times(number, step)), code.at(k))
                    pair.append(n.multiply(n.read(self.source, element), n.read(self.roots, power)))
                builder.store(sums, r, n.add(*pair))
                builder.store(differences, r, n.subtract(*pair))
                held = total.get()
                assert isinstance(held, Pair)
                total.set(n.add(held, n.read(sums, r)))
            builder.store(self.target, to, total.get())
            with code.loop(0, half) as c:
                zero = n.number(0.0)
                even, odd = Total(code, first), Total(code, Pair(zero, zero))
                with code.loop(0, half) as r:
                    turn = code.same(
                        "arith.muli", code.at(code.plus(c, 1)), code.at(code.plus(r, 1))
                    )
                    _, rest = code.divided(turn, factor)
                    w = n.read(self.roots, code.times(rest, self.length // factor))
                    for of, terms, weight in ((even, sums, w.re), (odd, differences, w.im)):
                        held = of.get()
                        assert isinstance(held, Pair)
                        of.set(n.add(held, n.scale(n.read(terms, r), weight)))
                left, right = even.get(), odd.get()
                assert isinstance(left, Pair) and isinstance(right, Pair)
                turned = n.by_i(right)
                above = code.plus(to, code.times(code.plus(c, 1), apart))
                below = code.plus(to, code.times(code.minus(factor - 1, c), apart))
                builder.store(self.target, above, n.add(left, turned))
                builder.store(self.target, below, n.subtract(left, turned))


@dataclass(frozen=True)
class _Line:
    """The transform of one line.

    Attributes:
      row: the buffer that takes the numbers.
      write: writes their transform and returns the buffer that holds it.
    """

    row: Buffer
    write: Callable[[], Buffer]


@contextmanager
def _line(builder: Builder, length: int) -> Iterator[_Line]:
    """Write the tables and buffers that all transforms of a length share."""
    padded = _padded(length)
    size = padded or length
    code, numbers = builder.code, _Numbers(builder)
    with ExitStack() as stack:

        def scratch(count: int) -> Buffer:
            return stack.enter_context(builder.scratch(TensorType((count,), _C128)))

        roots, row, other = (scratch(size) for _ in range(3))
        root = _root(builder, size)
        with code.loops([size]) as (k,):
            builder.store(roots, k, root(k))
        if not padded:
            yield _Line(row, lambda: _transform(builder, size, roots, row, other))
            return
        # Bluestein's algorithm: j k = (j^2 + k^2 - (k - j)^2) / 2 turns a transform into a
        # convolution, which is computed by transforms of another length. turns[k] is the root of
        # unity to the power k^2 / 2.
        turns, spectrum = scratch(length), scratch(size)
        root = _root(builder, 2 * length)
        with code.loops([length]) as (k,):
            square = code.same("arith.muli", code.at(k), code.at(k))
            builder.store(turns, k, root(code.divided(square, 2 * length)[1]))
        builder.compute(filled(builder, row.type, 0), row)
        with code.loops([length], independent=False) as (k,):
            turn = numbers.conjugate(numbers.read(turns, k))
            builder.store(row, k, turn)
            with code.when(code.compare("ne", code.at(k), code.at(0))):
                builder.store(row, code.minus(size, k), turn)
        result = _transform(builder, size, roots, row, other)
        with code.loops([size]) as (k,):
            number = numbers.number(1 / size)
            builder.store(spectrum, k, numbers.scale(numbers.read(result, k), number))
        yield _Line(
            row, lambda: _bluestein(builder, length, size, roots, turns, spectrum, row, other)
        )


def _bluestein(
    builder: Builder,
    length: int,
    size: int,
    roots: Buffer,
    turns: Buffer,
    spectrum: Buffer,
    row: Buffer,
    other: Buffer,
) -> Buffer:
    code, n = builder.code, _Numbers(builder)
    with code.loops([length]) as (k,):
        builder.store(row, k, n.multiply(n.read(row, k), n.read(turns, k)))
    with code.loop(length, size, independent=True) as rest:
        builder.store(row, rest, Pair(n.number(0.0), n.number(0.0)))
    first = _transform(builder, size, roots, row, other)
    free = other if first is row else row
    # An inverse transform: the real and imaginary parts are swapped before and after.
    with code.loops([size]) as (k,):
        product = n.multiply(n.read(first, k), n.read(spectrum, k))
        builder.store(first, k, Pair(product.im, product.re))
    second = _transform(builder, size, roots, first, free)
    with code.loops([length]) as (k,):
        element = n.read(second, k)
        swapped = Pair(element.im, element.re)
        builder.store(second, k, n.multiply(swapped, n.read(turns, k)))
    return second


def _along(
    builder: Builder,
    source: Value,
    into: Buffer,
    dim: int,
    length: int,
    *,
    backward: bool,
    scale: float,
) -> None:
    """Transform all lines along a dimension, and multiply the results by ``scale``.

    Args:
      builder: the writer of the code.
      source: real or complex numbers; fewer than the length if they are half of a spectrum.
      into: receives the first coefficients of each line, as many as fit, or only their real parts
        if its dtype is real; may be the source's buffer.
      dim: the dimension.
      length: the length of the transform.
      backward: whether the roots of unity are the conjugate ones.
      scale: the factor.
    """
    points, count = source.type.shape[dim], into.type.shape[dim]
    others = [n for d, n in enumerate(source.type.shape) if d != dim]
    code, n = builder.code, _Numbers(builder)

    def swapped(x: Pair) -> Pair:
        """A backward transform swaps the real and imaginary parts before and after."""
        return Pair(x.im, x.re) if backward else x

    with (
        _line(builder, length) as line,
        code.loops(others, independent=False) as outer,
    ):

        def at(place: Place) -> Index:
            return (*outer[:dim], place, *outer[dim:])

        with code.loops([points]) as (k,):
            element = converted(code, source.element(builder, at(k)), source.type.dtype, _C128)
            assert isinstance(element, Pair)
            builder.store(line.row, k, swapped(element))
        if points < length:
            # The other coefficients of a real signal are the conjugates of these.
            with code.loops([length - points]) as (k,):
                mirrored = swapped(n.read(line.row, code.plus(k, 1)))
                place = code.minus(length - 1, k)
                builder.store(line.row, place, swapped(n.conjugate(mirrored)))
        spectrum = line.write()
        with code.loops([count]) as (k,):
            number = swapped(n.read(spectrum, k))
            number = n.scale(number, n.number(scale)) if scale != 1 else number
            result = converted(code, number, _C128, into.type.dtype)
            builder.store(into, flattened(code, at(k), into.type.shape), result)


def _fft(builder: Builder, operation: Operation) -> list[Value]:
    (x,), type_ = operation.operands, operation.type
    kind = stablehlo.FftTypeAttr(operation.attribute("fft_type")).value
    lengths = operation.integers("fft_length")
    first = x.type.rank - len(lengths)
    into = builder.result(operation)
    if 0 in (type_.size, x.type.size):
        builder.compute(filled(builder, type_, 0), into)
        return [Stored(into, type_)]
    backward = kind in ("IFFT", "IRFFT")
    scale = 1 / math.prod(lengths) if backward else 1.0
    # RFFT transforms the last dimension, whose numbers are real, first; IRFFT transforms it last.
    dims = [*range(first, x.type.rank)]
    if kind != "IRFFT":
        dims.insert(0, dims.pop())
    with ExitStack() as stack:
        between = into
        if kind == "IRFFT" and len(dims) > 1:
            between = stack.enter_context(builder.scratch(x.type))
        for i, d in enumerate(dims):
            is_last = i == len(dims) - 1
            to = into if is_last else between
            factor = scale if is_last else 1.0
            length = lengths[d - first]
            _along(builder, x, to, d, length, backward=backward, scale=factor)
            x = Stored(to, to.type)
    return [Stored(into, type_)]


FOURIER: dict[str, Callable[[Builder, Operation], Sequence[Value]]] = {"stablehlo.fft": _fft}
