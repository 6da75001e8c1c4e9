"""Dimension numbers of convolutions, named paddings, and the shapes of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gnomon.dialects.symbolic.dimension import as_size, larger, surely_at_most
from gnomon.dialects.window_folds import windows_in

Shape = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


class ConvDimensionNumbers(NamedTuple):
    """The positions of the dimensions of a convolution.

    Attributes:
      lhs_spec: ``(batch, feature, *spatial)`` dimensions of ``lhs``.
      rhs_spec: ``(out feature, in feature, *spatial)`` dimensions of ``rhs``.
      out_spec: ``(batch, feature, *spatial)`` dimensions of the result.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


# ------------------------------------------------------------------------------ dimension numbers


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Dimension numbers in canonical form.

    Args:
      lhs_shape, rhs_shape: shapes of the operands.
      dimension_numbers: `ConvDimensionNumbers`; or three strings with a letter for each dimension:
        ``N`` batch, ``C`` feature of ``lhs`` and the result, ``O`` and ``I`` the features of
        ``rhs``, any others the spatial ones; or None for ``('NCHW', 'OIHW', 'NCHW')``.
    Raises:
      TypeError: the dimension numbers are none of these, or do not fit the shapes.

    Example:
      >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
      ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            "a convolution takes operands of one rank, got shapes "
            f"{tuple(lhs_shape)} and {tuple(rhs_shape)}"
        )
    if dimension_numbers is None:
        in_order = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(in_order, in_order, in_order)
    if not isinstance(dimension_numbers, (list, tuple)):
        raise TypeError(
            "dimension_numbers of a convolution must be None, ConvDimensionNumbers or three "
            f"strings, got {type(dimension_numbers).__name__}"
        )
    if len(dimension_numbers) != 3 or not all(isinstance(s, str) for s in dimension_numbers):
        raise TypeError(
            "dimension_numbers of a convolution must be three strings (lhs, rhs, result), "
            f"got {dimension_numbers!r}"
        )
    for spec in dimension_numbers:
        if len(spec) != len(lhs_shape):
            raise TypeError(
                f"each string of dimension_numbers must have a letter for each of the "
                f"{len(lhs_shape)} dimensions of the operands, got {spec!r} for shapes "
                f"{tuple(lhs_shape)} and {tuple(rhs_shape)}"
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Shape, Shape, Shape]:
    """The dimension orders of input, kernel and output, from three strings.

    Args:
      dimension_numbers: three strings such as ``("NHWC", "HWIO", "NHWC")``; the spatial letters of
        all are in the order of the kernel's.
    Returns:
      Three tuples: the positions of batch and feature, of output and input feature, and again of
      batch and feature; each is followed by the positions of the spatial dimensions.
    Raises:
      TypeError: a letter is missing or doubled, or the spatial letters differ.

    Example:
      >>> from gnomon import lax
      >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
      ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, rhs, out = dimension_numbers
    pairs = ((lhs, "NC"), (rhs, "OI"), (out, "NC"))
    for spec, features in pairs:
        if any(spec.count(letter) != 1 for letter in features) or len(set(spec)) != len(spec):
            raise TypeError(
                f"dimension_numbers of a convolution: {spec!r} must have {features[0]!r} and "
                f"{features[1]!r} and each other letter once"
            )
    if len({frozenset(spec) - set(features) for spec, features in pairs}) != 1:
        raise TypeError(
            "dimension_numbers of a convolution must name the same spatial dimensions, got "
            f"{tuple(dimension_numbers)}"
        )
    spatial = [letter for letter in rhs if letter not in "OI"]
    first, second, third = (
        tuple(spec.index(letter) for letter in (*features, *spatial)) for spec, features in pairs
    )
    return first, second, third


# ---------------------------------------------------------------------------------------- padding


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """The sizes of a named padding, as a pair for each dimension.

    Args:
      in_shape, window_shape, window_strides: one number for each spatial dimension.
      padding: "VALID" means no padding. "SAME" means as much padding as makes the sizes of the
        result ``ceil(in_shape / strides)``; if it is odd, the end gets one more. "SAME_LOWER" is
        the same, but the beginning gets one more.
    Raises:
      RuntimeError: ``padding`` is another string.
      TypeError: ``padding`` is not a string.

    Example:
      >>> padtype_to_pads((8,), (4,), (1,), "SAME")
      [(1, 2)]
    """
    if not isinstance(padding, str):
        raise TypeError(f"padding must be 'SAME', 'SAME_LOWER' or 'VALID', got {padding!r}")
    name = padding.upper()
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(f"padding must be 'SAME', 'SAME_LOWER' or 'VALID', got {padding!r}")
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = as_size(larger(0, (-(-size // stride) - 1) * stride + window - size))
        less, more = total // 2, total - total // 2
        pads.append((less, more) if name == "SAME" else (more, less))
    return pads


def explicit_pads(function: str, padding: Any) -> Pads:
    """Padding that is given as pairs of ints; ``ValueError`` if it is anything else."""
    try:
        return tuple((as_size(low), as_size(high)) for low, high in padding)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"lax.{function}: padding must be 'SAME', 'SAME_LOWER', 'VALID' or a sequence of "
            f"(low, high) pairs of integers, got {padding!r}"
        ) from error


def transposed_pads(window: int, stride: int, padding: Any) -> tuple[int, int]:
    """The padding of a transposed convolution, computed from that of the convolution."""
    if padding == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
        return low, total - low
    if padding == "VALID":
        return window - 1, stride - 1 + max(window - stride, 0)
    if isinstance(padding, tuple):
        low, high = padding
        return window - 1 - low, window - 1 - high
    raise ValueError(
        f"lax.conv_transpose: padding must be 'SAME', 'VALID' or (low, high) pairs, got {padding!r}"
    )


# ----------------------------------------------------------------------------------------- shapes


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = 1,
) -> Shape:
    """The shape of a convolution's result, with all shapes in canonical order.

    Args:
      lhs_shape: the input's shape, ``(batch, feature, *spatial)``.
      rhs_shape: the kernel's shape, ``(out, in, *spatial)``.
      strides: the stride in each spatial dimension.
      pads: "SAME", "VALID", or a pair of pads for each spatial dimension.
      batch_group_count: the number of groups that the batch is divided into.
    Raises:
      TypeError: the number of pads does not fit.
      ValueError: a negative pad removes more elements than there are.

    Example:
      >>> from gnomon import lax
      >>> lax.conv_shape_tuple((1, 3, 8, 8), (4, 3, 3, 3), (1, 1), "VALID")
      (1, 4, 6, 6)
    """
    sizes, windows = tuple(lhs_shape[2:]), tuple(rhs_shape[2:])
    if isinstance(pads, str):
        pads = padtype_to_pads(sizes, windows, strides, pads)
    if len(pads) != len(sizes):
        raise TypeError(
            f"a convolution needs one pad for each of its {len(sizes)} spatial dimensions, got "
            f"{pads}"
        )
    padded = [n + low + high for n, (low, high) in zip(sizes, pads, strict=True)]
    if any(surely_at_most(n, -1) for n in padded):
        raise ValueError(f"padding {pads} removes more than the sizes {sizes}")
    out = map(windows_in, padded, windows, strides)
    batch, features = lhs_shape[0] // batch_group_count, rhs_shape[0]
    return tuple(map(as_size, (batch, features, *out)))


def _in_order(shape: Sequence[int], spec: Sequence[int]) -> Shape:
    return tuple(shape[d] for d in spec)


def _out_of_order(shape: Sequence[int], spec: Sequence[int]) -> Shape:
    return tuple(shape[list(spec).index(d)] for d in range(len(spec)))


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Sequence[str],
) -> Shape:
    """The shape of the result of `conv_general_dilated` without dilation and groups.

    Args:
      lhs_shape, rhs_shape: the shapes of input and kernel.
      window_strides: the stride in each spatial dimension.
      padding: "SAME", "VALID", or a pair of pads for each spatial dimension.
      dimension_numbers: three strings; see `conv_general_permutations`.

    Example:
      >>> from gnomon import lax
      >>> numbers = ("NHWC", "HWIO", "NHWC")
      >>> lax.conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 4), (2, 2), "SAME", numbers)
      (1, 4, 4, 4)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    canonical = conv_shape_tuple(
        _in_order(lhs_shape, lhs), _in_order(rhs_shape, rhs), window_strides, padding
    )
    return _out_of_order(canonical, out)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Sequence[str],
) -> Shape:
    """The shape of the result of `conv_transpose`.

    Args:
      lhs_shape, rhs_shape: the shapes of input and kernel.
      window_strides: the stride in each spatial dimension, by which the result grows.
      padding: "SAME", "VALID", or a pair of pads for each spatial dimension.
      dimension_numbers: three strings; see `conv_general_permutations`.

    Example:
      >>> from gnomon import lax
      >>> numbers = ("NHWC", "HWIO", "NHWC")
      >>> lax.conv_transpose_shape_tuple((1, 4, 4, 3), (3, 3, 3, 5), (2, 2), "SAME", numbers)
      (1, 8, 8, 5)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    (batch, _, *sizes), (features, _, *windows) = (
        _in_order(lhs_shape, lhs),
        _in_order(rhs_shape, rhs),
    )
    if isinstance(padding, str):
        padding = [
            transposed_pads(k, s, padding) for k, s in zip(windows, window_strides, strict=True)
        ]
    canonical = (
        (n - 1) * stride - window + 2 + sum(pads)
        for n, window, stride, pads in zip(sizes, windows, window_strides, padding, strict=True)
    )
    return _out_of_order((batch, features, *canonical), out)
