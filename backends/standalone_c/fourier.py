"""Fourier transforms, one dimension after the other, by the functions of `complex_functions`.

Numbers in single precision are transformed in double precision, so that only results are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnomon.backends.standalone_c.complex_functions import LONGEST_RADIX
from gnomon.backends.standalone_c.movements import splat
from gnomon.backends.standalone_c.scalars import converted
from gnomon.backends.standalone_c.types import literal
from gnomon.backends.standalone_c.values import Buffer, Index, Stored, Value, flattened
from gnomon.dialects.mlir import stablehlo
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["FOURIER"]

# A longer table of roots of unity is replaced by two short ones, whose products are the roots.
_SHORT_TABLE = 256
_PER_LINE = 4
_F64, _C128 = np.dtype(np.float64), np.dtype(np.complex128)
_JOIN, _SWAP = "gnomon_complex_of_double", "gnomon_complex_swap_double"


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
    is_long = max(factors, default=1) > LONGEST_RADIX
    return padded if is_long or length * sum(factors) > cost else 0


def _roots(counts: np.ndarray, length: int) -> np.ndarray:
    """``exp(-2 pi i k / length)`` as pairs, from angles in the first octant."""
    octants, remainder = np.divmod(8 * counts, length)
    is_odd = octants % 2 == 1
    angles = np.where(is_odd, length - remainder, remainder) * (np.pi / (4 * length))
    cosines, sines = np.cos(angles), np.sin(angles)
    # In an odd octant, the angle is the distance from the octant's end.
    cosines, sines = np.where(is_odd, sines, cosines), np.where(is_odd, cosines, sines)
    # Each quarter turn multiplies the roots by -i.
    real = np.choose(octants // 2, [cosines, -sines, -cosines, sines])
    imag = np.choose(octants // 2, [-sines, -cosines, sines, cosines])
    return np.stack([real, imag], -1)


@dataclass(frozen=True)
class _Line:
    """The transform of one line.

    Attributes:
      row: the buffer that takes the numbers.
      call: the C expression of a pointer to their transform.
    """

    row: Buffer
    call: str


def _table(emitter: Emitter, kind: str, name: str, texts: Sequence[str]) -> str:
    name = emitter.name(f"gnomon_{name}_")
    lines = [
        "  " + ", ".join(texts[i : i + _PER_LINE]) + "," for i in range(0, len(texts), _PER_LINE)
    ]
    emitter.constants.append(
        "\n".join([f"static const {kind} {name}[{len(texts)}] = {{", *lines, "};"])
    )
    return name


def _root(emitter: Emitter, length: int) -> Callable[[str], str]:
    """The C expression of a power of a root of unity, read from tables that this writes."""
    shift = max(length - 1, 1).bit_length()
    shift = shift if length <= _SHORT_TABLE else -(-shift // 2)
    names = []
    for counts in (np.arange(min(1 << shift, length)), np.arange(0, length, 1 << shift)):
        texts = [literal(x, _F64) for x in _roots(counts, length).reshape(-1)]
        names.append(_table(emitter, "double", "roots", texts))
    return lambda power: f"gnomon_root({power}, {shift}, {', '.join(names)})"


@contextmanager
def _line(emitter: Emitter, length: int) -> Iterator[_Line]:
    """Write the tables and buffers that all transforms of a length share."""
    padded = _padded(length)
    size = padded or length
    factors = _table(emitter, "int", "factors", [str(p) for p in (*_factors(size), 0)])
    with ExitStack() as stack:

        def scratch(count: int) -> Buffer:
            return stack.enter_context(emitter.scratch(TensorType((count,), _C128)))

        roots, row, other = (scratch(size) for _ in range(3))
        root = _root(emitter, size)
        with emitter.loops([size]) as (k,):
            emitter.store(roots, k, root(k))
        arguments = f"{factors}, {roots.pointer}"
        if not padded:
            rows = f"{row.pointer}, {other.pointer}"
            yield _Line(row, f"gnomon_fft({size}, {arguments}, {rows})")
            return
        turns, spectrum = scratch(length), scratch(size)
        root = _root(emitter, 2 * length)
        with emitter.loops([length]) as (k,):
            power = f"(int64_t)((uint64_t){k} * (uint64_t){k} % {2 * length})"
            emitter.store(turns, k, root(power))
        arguments = f"{length}, {size}, {arguments}, {turns.pointer}, {spectrum.pointer}"
        arguments = f"{arguments}, {row.pointer}, {other.pointer}"
        emitter.line(f"gnomon_chirp({arguments});")
        yield _Line(row, f"gnomon_bluestein({arguments})")


def _along(
    emitter: Emitter,
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
    with _line(emitter, length) as line:
        row = line.row.pointer
        with emitter.loops(others, parallel=False) as outer:

            def at(place: str) -> Index:
                return (*outer[:dim], place, *outer[dim:])

            with emitter.loops([points]) as (k,):
                value = converted(emitter, source.element(emitter, at(k)), source.type.dtype, _C128)
                # A backward transform swaps the real and imaginary parts before and after.
                emitter.store(line.row, k, f"{_SWAP}({value})" if backward else value)
            if points < length:
                # The other coefficients of a real signal are the conjugates of these. Real and
                # imaginary parts are swapped here, since this transform is backward.
                with emitter.loops([length - points]) as (k,):
                    mirrored = f"{row}[{k} + 1]"
                    conjugate = f"{_JOIN}(-{mirrored}.re, {mirrored}.im)"
                    emitter.store(line.row, f"{length - 1} - {k}", conjugate)
            spectrum = emitter.local("gnomon_complex_double *", line.call, "z")
            with emitter.loops([count]) as (k,):
                parts = [f"{spectrum}[{k}].{p}" for p in ("im", "re")[:: 1 if backward else -1]]
                if scale != 1:
                    parts = [f"{p} * {literal(scale, _F64)}" for p in parts]
                number = emitter.local("gnomon_complex_double", f"{_JOIN}({', '.join(parts)})")
                number = converted(emitter, number, _C128, into.type.dtype)
                emitter.store(into, flattened(at(k), into.type.shape), number)


def _fft(emitter: Emitter, operation: Operation) -> list[Value]:
    (x,), type_ = operation.operands, operation.type
    kind = stablehlo.FftTypeAttr(operation.attribute("fft_type")).value
    lengths = operation.integers("fft_length")
    first = x.type.rank - len(lengths)
    into = emitter.result(operation)
    if 0 in (type_.size, x.type.size):
        emitter.compute(splat(type_, literal(0, type_.dtype)), into)
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
            between = stack.enter_context(emitter.scratch(x.type))
        for i, d in enumerate(dims):
            is_last = i == len(dims) - 1
            to = into if is_last else between
            factor = scale if is_last else 1.0
            length = lengths[d - first]
            _along(emitter, x, to, d, length, backward=backward, scale=factor)
            x = Stored(to, to.type)
    return [Stored(into, type_)]


FOURIER: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {"stablehlo.fft": _fft}
