"""Matrix products: `dot_general` and its special cases."""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._config.current import config
from gnomon._tracing.bind import bind, with_weak_type
from gnomon.dialects.dot_algorithm import is_algorithm
from gnomon.dialects.emit import ops
from gnomon.dialects.types import (
    BOOL,
    FLOATING,
    SIGNED,
    TensorType,
    is_complex,
    is_floating,
    real_dtype,
)
from gnomon.lax._creation import converted
from gnomon.lax._dot_algorithm import (
    DotAlgorithm,
    DotAlgorithmPreset,
    algorithm_text,
    for_operands,
    mode_of,
)
from gnomon.lax._operands import argument
from gnomon.lax._structural import ints

DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


class Precision(enum.Enum):
    """How precisely an accelerator multiplies matrices.

    On the CPU, all modes compute in the dtype of the operands.

    Attributes:
      DEFAULT: the fastest mode: on a TPU bfloat16, on a GPU possibly tensorfloat32.
      HIGH: slower and more precise: three bfloat16 products, tensorfloat32.
      HIGHEST: float32.
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: Any) -> Precision | None:
        return _PRECISION_NAMES.get(value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


_PRECISION_NAMES: dict[Any, Precision] = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    None: Precision.DEFAULT,
}

PrecisionLike = (
    None
    | str
    | Precision
    | tuple[str, str]
    | tuple[Precision, Precision]
    | DotAlgorithm
    | DotAlgorithmPreset
)


def canonical_precision(precision: PrecisionLike) -> str:
    """The precision attribute of an op, from the argument ``precision`` of a function.

    Raises:
      ValueError: ``precision`` is none of the accepted values.
    """
    algorithm = algorithm_text(precision)
    if algorithm is not None:
        return algorithm
    parts = precision if isinstance(precision, tuple) else (precision,)
    if len(parts) in (1, 2) and all(_is_precision(p) for p in parts):
        names = [Precision(p).name.lower() for p in parts]
        return names[0] if names[0] == names[-1] else ",".join(names)
    raise ValueError(
        "precision must be None, a lax.Precision, one of "
        f"{', '.join(repr(n) for n in _PRECISION_NAMES if n)}, a pair of them for the two "
        "operands, a lax.DotAlgorithm, a lax.DotAlgorithmPreset or the name of one; "
        f"got {precision!r}"
    )


def chosen_precision(precision: PrecisionLike) -> str:
    """The precision attribute from the argument, or from the configuration if that is None."""
    if precision is None:
        precision = config.default_matmul_precision
    return "default" if precision is None else canonical_precision(precision)


def chosen_mode(precision: PrecisionLike) -> str:
    """`chosen_precision` for ops that take no algorithm; an algorithm becomes the nearest mode."""
    chosen = chosen_precision(precision)
    return mode_of(chosen) if is_algorithm(chosen) else chosen


def _is_precision(value: Any) -> bool:
    return isinstance(value, Precision) or value is None or value in _PRECISION_NAMES


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Products of two arrays, summed over paired dimensions.

    Args:
      lhs, rhs: arrays.
      dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``: the
        dimensions that are summed over, and the batch dimensions that both operands share.
      precision: see `Precision`; one value, a pair for the two operands, or a `DotAlgorithm`.
      preferred_element_type: the dtype in which products are summed, which is the dtype of the
        result; by default the dtype that the operands promote to.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      An array: batch dimensions first, then the others of ``lhs``, then the others of ``rhs``.
    Raises:
      TypeError: dimensions do not exist, or their sizes differ.
      ValueError: unknown precision.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.arange(6.0).reshape(2, 3)
      >>> dot_general(x, x, (((1,), (1,)), ((), ())))
      Array([[ 5., 14.],
             [14., 50.]], dtype=float32)
    """
    if out_sharding is not None:
        return with_out_sharding(
            "lax.dot_general",
            out_sharding,
            lambda x, y: dot_general(x, y, dimension_numbers, precision, preferred_element_type),
            lhs,
            rhs,
        )
    x, y = argument("dot_general", lhs, 0), argument("dot_general", rhs, 1)
    preferred = None
    if preferred_element_type is not None:
        preferred = _dtypes.check_user_dtype(preferred_element_type, "lax.dot_general")
    numbers = _hashable_numbers(dimension_numbers)
    precise = chosen_precision(precision)
    if is_algorithm(precise):
        precise = for_operands(precise, x.dtype, y.dtype)
        whole = higher_precision(x.dtype, y.dtype)
        if not is_floating(whole):
            # Algorithms take and return floating point numbers.
            wide = np.dtype(np.float64 if whole.itemsize > 4 else np.float32)
            left, right = (bind(ops.convert, v, dtype=wide) for v in (x, y))
            product = dot_general(left, right, numbers, precision)
            weak = preferred is None and x.aval.weak_type and y.aval.weak_type
            return converted(product, preferred or whole, weak)
    if preferred is not None:
        common = higher_precision(x.dtype, y.dtype)
        if _loses_kind(common, preferred):
            # Convert the sums, not the operands: with an integer result, 0.5 * 4 must be 2, not 0.
            sums = dot_general(x, y, numbers, precision, _WITH_ALL_OF.get(common, common))
            return converted(sums, preferred, False)
    work, params = _resolved(x.aval.type, y.aval.type, numbers, precise, preferred)
    if not x.dtype == y.dtype == work:
        x, y = (a if a.dtype == work else bind(ops.convert, a, dtype=work) for a in (x, y))
    result = bind(ops.dot_general, x, y, **params)
    return with_weak_type(result, preferred is None and x.aval.weak_type and y.aval.weak_type)


Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def _hashable_numbers(numbers: Any) -> Numbers:
    try:
        hash(numbers)
    except TypeError:
        (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = numbers
        return (
            (tuple(lhs_contracting), tuple(rhs_contracting)),
            (tuple(lhs_batch), tuple(rhs_batch)),
        )
    return numbers


_WITH_ALL_OF = {d: np.dtype(np.float32) for d in FLOATING if d.itemsize < 4}


@functools.lru_cache(maxsize=4096)
def _resolved(
    lhs: TensorType,
    rhs: TensorType,
    numbers: Numbers,
    precision: str,
    preferred: np.dtype[Any] | None,
) -> tuple[np.dtype[Any], dict[str, Any]]:
    """The dtype to convert operands to, and the op's parameters, after all checks."""
    contracting, batch = numbers
    lhs_contracting, rhs_contracting = (ints("dot_general", "contracting", d) for d in contracting)
    lhs_batch, rhs_batch = (ints("dot_general", "batch", d) for d in batch)
    _check_side("lhs", lhs, lhs_contracting, lhs_batch)
    _check_side("rhs", rhs, rhs_contracting, rhs_batch)
    _check_sizes("contracting", lhs, rhs, lhs_contracting, rhs_contracting)
    _check_sizes("batch", lhs, rhs, lhs_batch, rhs_batch)
    common = higher_precision(lhs.dtype, rhs.dtype)
    dtype = common if preferred is None else preferred
    params = {
        "lhs_contracting": lhs_contracting,
        "rhs_contracting": rhs_contracting,
        "lhs_batch": lhs_batch,
        "rhs_batch": rhs_batch,
        "dtype": dtype,
        "precision": precision,
    }
    if lhs.dtype != rhs.dtype and _precision_rank(lhs.dtype)[:3] == _precision_rank(rhs.dtype)[:3]:
        # Of two formats with the same width, neither holds all numbers of the other.
        common = _WITH_ALL_OF.get(common, common)
    return _operand_dtype(common, dtype), params


def higher_precision(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a product of two dtypes in XLA.

    Complex dtypes win over floating ones and these over integers, then the wider dtype wins, then
    the one with the larger range.
    """
    return max(a, b, key=_precision_rank)


def _precision_rank(dtype: np.dtype[Any]) -> tuple[bool, bool, int, int]:
    part = real_dtype(dtype)
    bits = _dtypes.itemsize_bits(part)
    if is_floating(part):
        return is_complex(dtype), True, bits, int(ml_dtypes.finfo(part).nexp)
    return False, False, 0 if dtype == BOOL else bits, int(dtype in SIGNED)


def _loses_kind(common: np.dtype[Any], result: np.dtype[Any]) -> bool:
    """Whether the result is real and products are complex, or integer and products are not."""
    if is_complex(common):
        return not is_complex(result)
    return is_floating(common) and not (is_floating(result) or is_complex(result))


def _operand_dtype(common: np.dtype[Any], result: np.dtype[Any]) -> np.dtype[Any]:
    """``common``, unless the kind of ``result`` holds no products of it; then ``result``."""
    kind, result_kind = _dtypes.scalar_type_of(common), _dtypes.scalar_type_of(result)
    holds = kind is result_kind or (kind in (bool, int) and result_kind is float)
    return common if holds or kind is bool else result


def _check_side(
    side: str, x: TensorType, contracting: tuple[int, ...], batch: tuple[int, ...]
) -> None:
    used = (*contracting, *batch)
    if any(not 0 <= d < x.rank for d in used):
        raise TypeError(
            f"lax.dot_general: dimension numbers of {side} must be in [0, {x.rank}) for shape "
            f"{x.shape}, got contracting {contracting} and batch {batch}"
        )
    if len(set(used)) != len(used):
        raise TypeError(
            f"lax.dot_general: contracting {contracting} and batch {batch} dimensions of {side} "
            "must be distinct"
        )


def _check_sizes(
    what: str, x: TensorType, y: TensorType, lhs: tuple[int, ...], rhs: tuple[int, ...]
) -> None:
    a, b = tuple(x.shape[d] for d in lhs), tuple(y.shape[d] for d in rhs)
    if a != b:
        raise TypeError(
            f"lax.dot_general: {what} dimensions must have the same sizes, got {a} for {lhs} of "
            f"shape {x.shape} and {b} for {rhs} of shape {y.shape}"
        )


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """The product of two vectors, of a matrix and a vector, or of two matrices.

    Args:
      lhs, rhs: arrays of one or two dimensions (any with ``dimension_numbers``).
      dimension_numbers, precision, preferred_element_type: see `dot_general`.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Raises:
      ValueError: the shapes do not fit, and there are no dimension numbers.

    Example:
      >>> import gnomon.numpy as gnp
      >>> dot(gnp.arange(3.0), gnp.arange(3.0))
      Array(5., dtype=float32)
    """
    x, y = argument("dot", lhs, 0), argument("dot", rhs, 1)
    if dimension_numbers is None:
        if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2 and x.shape[-1] == y.shape[0]):
            raise ValueError(
                "lax.dot: without dimension_numbers, operands must be vectors or matrices with "
                f"equal inner sizes, got shapes {x.shape} and {y.shape}"
            )
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(
        x,
        y,
        dimension_numbers,
        precision,
        preferred_element_type,
        out_sharding=out_sharding,
    )


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Array:
    """The products of stacks of matrices, whose leading dimensions are equal.

    Args:
      lhs: an array ``[..., n, k]`` of at least two dimensions.
      rhs: an array ``[..., k, m]`` of the same dtype and rank; nothing is broadcast.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
    Returns:
      An array ``[..., n, m]``.
    Raises:
      ValueError: the ranks differ, or are below two.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import lax
      >>> lax.batch_matmul(gnp.ones((5, 2, 3)), gnp.ones((5, 3, 4))).shape
      (5, 2, 4)

    See also:
      `dot_general`, `gnomon.numpy.matmul`
    """
    x, y = argument("batch_matmul", lhs, 0), argument("batch_matmul", rhs, 1)
    if min(x.ndim, y.ndim) < 2:
        raise ValueError(
            f"lax.batch_matmul takes arrays of two dimensions or more, got {x.ndim} and {y.ndim}"
        )
    if x.ndim != y.ndim:
        raise ValueError(
            f"lax.batch_matmul takes arrays of the same rank, got {x.ndim} and {y.ndim}"
        )
    batch = tuple(range(x.ndim - 2))
    return dot_general(x, y, (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)), precision)
