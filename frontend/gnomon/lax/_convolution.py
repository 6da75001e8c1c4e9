"""Convolutions: `conv_general_dilated` and its special cases."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._arrays.concrete import wrap
from gnomon._tracing.bind import bind
from gnomon.dialects.contract import TypeRuleError
from gnomon.dialects.convolution import Geometry
from gnomon.dialects.emit import ops
from gnomon.dialects.types import BOOL, SIGNED, is_complex, is_floating, is_integer
from gnomon.dialects.window_folds import dilated
from gnomon.lax._contraction import (
    Precision,
    PrecisionLike,
    chosen_mode,
    dot_general,
)
from gnomon.lax._convolution_shapes import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    Pads,
    Shape,
    conv_dimension_numbers,
    explicit_pads,
    padtype_to_pads,
    transposed_pads,
)
from gnomon.lax._creation import convert_element_type, converted
from gnomon.lax._dot_algorithm import DotAlgorithm, DotAlgorithmPreset
from gnomon.lax._operands import argument, same_dtype

_INT32 = np.dtype(np.int32)

# ----------------------------------------------------------------------------------- convolutions


@takes_out_sharding
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """A convolution over any number of spatial dimensions; the kernel is not reversed.

    Args:
      lhs: the input, with ``n`` spatial dimensions, a batch and a feature dimension.
      rhs: the kernel, with ``n`` spatial dimensions, output features, and the input features of one
        group.
      window_strides: how far apart windows are, in each spatial dimension.
      padding: "SAME", "SAME_LOWER", "VALID" (see `padtype_to_pads`), or ``(low, high)`` in each
        spatial dimension; negative padding takes elements away.
      lhs_dilation, rhs_dilation: the distance between neighbouring elements of the input and of
        the kernel; zeros fill the gaps.
      dimension_numbers: see `conv_dimension_numbers`.
      feature_group_count: the number of groups that the input features are split into; each group
        computes its share of the output features.
      batch_group_count: the number of groups that the batch is split into; each group computes its
        share of the output features.
      precision: see `Precision`.
      preferred_element_type: the dtype of the sums and of the result; by default that of the
        operands.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      An array with dimensions as ``dimension_numbers`` says.
    Raises:
      TypeError: the dtypes differ, or dimension numbers do not fit.
      ValueError: sizes, groups or padding do not fit.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x, kernel = gnp.arange(5.0).reshape(1, 1, 5), gnp.ones((1, 1, 3))
      >>> conv_general_dilated(x, kernel, (1,), "SAME")
      Array([[[1., 3., 6., 9., 7.]]], dtype=float32)
    """
    x, w = argument("conv_general_dilated", lhs, 0), argument("conv_general_dilated", rhs, 1)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    rank = x.ndim - 2
    by_name = isinstance(padding, str)
    if by_name and lhs_dilation is not None and any(n != 1 for n in lhs_dilation):
        raise ValueError(
            "lax.conv_general_dilated: padding by name is not defined for a dilated lhs; pass the "
            "sizes, or call lax.conv_transpose"
        )
    strides = tuple(map(operator.index, window_strides))
    if len(strides) != len(numbers.rhs_spec) - 2:
        raise ValueError(
            "lax.conv_general_dilated: window_strides must have one entry for each of the "
            f"{len(numbers.rhs_spec) - 2} spatial dimensions, got {strides}"
        )
    kernel_dilation = (1,) * rank if rhs_dilation is None else tuple(rhs_dilation)
    if by_name:
        pads = _named_pads(x.shape, w.shape, strides, kernel_dilation, numbers, padding)
    else:
        pads = explicit_pads("conv_general_dilated", padding)
    if len(pads) != rank:
        raise TypeError(
            f"lax.conv_general_dilated: padding must have one pair for each of the {rank} spatial "
            f"dimensions, got {pads}"
        )
    geometry = Geometry(
        lhs_spec=tuple(map(operator.index, numbers.lhs_spec)),
        rhs_spec=tuple(map(operator.index, numbers.rhs_spec)),
        out_spec=tuple(map(operator.index, numbers.out_spec)),
        window_strides=strides,
        padding=pads,
        lhs_dilation=(1,) * rank if lhs_dilation is None else tuple(lhs_dilation),
        rhs_dilation=kernel_dilation,
        feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
    )
    same_dtype("conv_general_dilated", (x, w))
    if x.dtype == BOOL:
        # Products of bools are ands. Their sum, as a bool, is an or; as a number, it is a count.
        counts = conv_general_dilated(
            converted(x, _INT32, False),
            converted(w, _INT32, False),
            strides,
            pads,
            lhs_dilation,
            rhs_dilation,
            numbers,
            feature_group_count,
            batch_group_count,
        )
        found = BOOL if preferred_element_type is None else preferred_element_type
        return convert_element_type(counts, found)
    dtype = x.dtype
    if preferred_element_type is not None:
        dtype = _dtypes.check_user_dtype(preferred_element_type, "lax.conv_general_dilated")
        _check_preferred(x.dtype, dtype)
    precise = chosen_mode(precision)
    try:
        geometry.check(x.aval.type, w.aval.type)
    except TypeRuleError as error:
        raise ValueError(str(error).replace("gnomon.", "lax.", 1)) from None
    return bind(ops.conv_general_dilated, x, w, **geometry.params, dtype=dtype, precision=precise)


def _named_pads(
    lhs: Shape, rhs: Shape, strides: Shape, dilation: Any, numbers: ConvDimensionNumbers, name: Any
) -> Pads:
    sizes = [lhs[d] for d in numbers.lhs_spec[2:]]
    windows = [dilated(rhs[d], n) for d, n in zip(numbers.rhs_spec[2:], dilation, strict=True)]
    return tuple(padtype_to_pads(sizes, windows, strides, name))


def _check_preferred(given: np.dtype[Any], preferred: np.dtype[Any]) -> None:
    """Raise ``TypeError`` unless products of one dtype may be summed in another."""
    widening = _dtypes.itemsize_bits(preferred) >= _dtypes.itemsize_bits(given)
    if is_integer(given) and is_floating(preferred):
        fits = widening
    else:
        kinds = (is_integer, is_floating, is_complex)
        fits = widening and all(kind(preferred) for kind in kinds if kind(given))
        fits = fits and (given not in SIGNED or preferred in SIGNED)
    if not fits:
        raise TypeError(
            f"lax.conv_general_dilated: preferred_element_type {preferred.name} must be of the "
            f"kind of the operands' dtype {given.name} (or floating for integers), and not narrower"
        )


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """A convolution of ``[batch, feature, *spatial]`` by ``[out, in, *spatial]``.

    Args:
      lhs: the input, an array ``[batch, feature, *spatial]``.
      rhs: the kernel, an array ``[out, in, *spatial]`` of the same dtype.
      window_strides: the stride of the window in each spatial dimension.
      padding: "SAME" or "VALID".
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.conv(gnp.ones((1, 1, 4, 4)), gnp.ones((2, 1, 3, 3)), (1, 1), "VALID").shape
      (1, 2, 2, 2)
      >>> lax.conv(gnp.ones((1, 1, 4, 4)), gnp.ones((2, 1, 3, 3)), (2, 2), "SAME").shape
      (1, 2, 2, 2)

    See also:
      `conv_general_dilated`, `conv_with_general_padding`
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """A convolution in canonical order with any padding and dilation.

    Args:
      lhs: the input, an array ``[batch, feature, *spatial]``.
      rhs: the kernel, an array ``[out, in, *spatial]`` of the same dtype.
      window_strides: the stride of the window in each spatial dimension.
      padding: "SAME", "VALID", or a pair of pads for each spatial dimension.
      lhs_dilation, rhs_dilation: the distance of neighbours in input and kernel for each spatial
        dimension; None means 1.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> x, kernel = gnp.ones((1, 1, 6)), gnp.ones((1, 1, 3))
      >>> lax.conv_with_general_padding(x, kernel, (1,), [(0, 0)], None, (2,))
      Array([[[3., 3.]]], dtype=float32)

    See also:
      `conv`, `conv_general_dilated`
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


_LAST_FEATURES = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """A convolution with a fractional stride: the input is dilated by ``strides``.

    Args:
      lhs, rhs: input and kernel; features come last by default (``NHWC``, ``HWIO``).
      strides: the factor by which the result is larger, in each spatial dimension.
      padding: "SAME" or "VALID": the padding of the convolution that is transposed; the result has
        the size of that convolution's input. Or ``(low, high)`` pairs: the padding of the dilated
        input, or with ``use_consistent_padding`` the padding of the convolution.
      rhs_dilation, dimension_numbers, precision, preferred_element_type: see
        `conv_general_dilated`.
      transpose_kernel: reverse the kernel and exchange its features. The result is then the
        gradient of the convolution with the same kernel.
      use_consistent_padding: whether pairs in ``padding`` are the padding of the convolution that
        is transposed.
    Raises:
      ValueError: there are four or more spatial dimensions and no dimension numbers.
      TypeError, ValueError: see `conv_general_dilated`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x, kernel = gnp.array([1.0, 2.0]).reshape(1, 2, 1), gnp.ones((3, 1, 1))
      >>> conv_transpose(x, kernel, (2,), "SAME").ravel()
      Array([1., 1., 3., 2.], dtype=float32)
    """
    x, w = argument("conv_transpose", lhs, 0), argument("conv_transpose", rhs, 1)
    if dimension_numbers is None:
        if x.ndim not in _LAST_FEATURES:
            raise ValueError(
                "lax.conv_transpose has default dimension_numbers for at most three spatial "
                f"dimensions, got an array of rank {x.ndim}; pass them"
            )
        dimension_numbers = _LAST_FEATURES[x.ndim]
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    dilation = (1,) * (w.ndim - 2) if rhs_dilation is None else tuple(rhs_dilation)
    if use_consistent_padding or padding in ("SAME", "VALID"):
        forward = [padding] * len(strides) if isinstance(padding, str) else padding
        sizes = [
            dilated(w.shape[d], n) for d, n in zip(numbers.rhs_spec[2:], dilation, strict=True)
        ]
        padding = [
            transposed_pads(k, s, p) for k, s, p in zip(sizes, strides, forward, strict=True)
        ]
    if transpose_kernel:
        if w.ndim > 2:
            w = bind(ops.rev, w, dims=tuple(sorted(numbers.rhs_spec[2:])))
        order = list(range(w.ndim))
        out, in_ = numbers.rhs_spec[:2]
        order[out], order[in_] = in_, out
        w = bind(ops.transpose, w, permutation=tuple(order))
    return conv_general_dilated(
        x,
        w,
        (1,) * (x.ndim - 2),
        padding,
        strides,
        dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


# ---------------------------------------------------------------------------------------- patches


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The windows that a convolution would sum over, as features of the result.

    Args:
      lhs: the input.
      filter_shape: the sizes of the windows.
      window_strides, padding, lhs_dilation, rhs_dilation: as in `conv_general_dilated`.
      dimension_numbers, precision, preferred_element_type: as in `conv_general_dilated`.
    Returns:
      An array with one feature for each pair of an input feature and a position in the window, in
      row-major order.

    Example:
      >>> import gnomon.numpy as gnp
      >>> conv_general_dilated_patches(gnp.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
      Array([[[0., 1., 2.],
              [1., 2., 3.]]], dtype=float32)
    """
    x = argument("conv_general_dilated_patches", lhs, 0)
    window = tuple(map(operator.index, filter_shape))
    numbers = conv_dimension_numbers(x.shape, (1, 1, *window), dimension_numbers)
    features = x.shape[numbers.lhs_spec[1]]
    kernel = _unit_kernels(features, window, x.dtype).transpose(
        np.argsort(numbers.rhs_spec).tolist()
    )
    return conv_general_dilated(
        x,
        wrap(np.ascontiguousarray(kernel), x.aval.weak_type),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=features,
        precision=_for_patches(precision),
        preferred_element_type=preferred_element_type,
    )


def _for_patches(precision: Any) -> Any:
    """The precision with which kernels of ones and zeros keep the values of the input."""
    if precision is None or isinstance(precision, DotAlgorithm | DotAlgorithmPreset):
        return precision
    return (precision, Precision.DEFAULT)


def _unit_kernels(features: int, window: Shape, dtype: np.dtype[Any]) -> np.ndarray:
    """For each position in the window, a kernel that selects it; the same for each feature."""
    places = math.prod(window)
    unit = np.broadcast_to(np.eye(places).astype(dtype), (features, places, places))
    return unit.reshape(features * places, 1, *window)


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Array:
    """A convolution with a different kernel at each position of the result.

    Args:
      lhs: the input.
      rhs: the kernels. Their spatial dimensions are those of the result; their input features are
        those that `conv_general_dilated_patches` returns.
      filter_shape: the sizes of the windows.
      window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision: see
        `conv_general_dilated`.

    Example:
      >>> import gnomon.numpy as gnp
      >>> kernels = gnp.arange(6.0).reshape(1, 2, 3)
      >>> conv_general_dilated_local(gnp.ones((1, 1, 4)), kernels, (1,), "VALID", (2,))
      Array([[[3., 5., 7.]]], dtype=float32)
    """
    x = argument("conv_general_dilated_local", lhs, 0)
    w = argument("conv_general_dilated_local", rhs, 1)
    pair = precision if type(precision) is tuple else (precision, precision)
    patches = conv_general_dilated_patches(
        x,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        precision=pair[0],
    )
    numbers = conv_dimension_numbers(x.shape, (1, 1, *filter_shape), dimension_numbers)
    along = sorted(zip(numbers.out_spec[2:], numbers.rhs_spec[2:], strict=True))
    places = tuple(p for p, _ in along), tuple(k for _, k in along)
    summed = (numbers.out_spec[1],), (numbers.rhs_spec[1],)
    products = dot_general(patches, w, (summed, places), precision)
    # From [*spatial, batch, feature] to the order of the result.
    order: list[int] = list(range(len(along)))
    for place, source in sorted(
        ((numbers.out_spec[0], len(along)), (numbers.out_spec[1], len(along) + 1))
    ):
        order.insert(place, source)
    return bind(ops.transpose, products, permutation=tuple(order))
