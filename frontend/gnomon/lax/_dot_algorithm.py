"""The algorithms of matrix products: `DotAlgorithm`, and the named ones of `DotAlgorithmPreset`."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np

from gnomon._arrays import dtypes as _dtypes
from gnomon.dialects.dot_algorithm import ANY_F8, PRESETS, TF32, Algorithm, algorithm_of
from gnomon.dialects.types import FLOAT8, FLOATING, bfloat16, is_complex, short_name

_F32 = np.dtype(np.float32)
_BY_NAME = {short_name(d): d for d in FLOATING}


class DotAlgorithm(NamedTuple):
    """The dtypes that a product rounds its operands to and accumulates in.

    An algorithm is passed as ``precision`` to `dot`, `dot_general`, ``numpy.matmul`` and so on. It
    does not change the dtype of the result. An algorithm of several operations splits the operands
    into pieces to avoid the rounding; gnomon then keeps the operands in the dtype of the sums.

    Attributes:
      lhs_precision_type, rhs_precision_type: floating point dtypes.
      accumulation_type: a floating point dtype.
      lhs_component_count, rhs_component_count: the number of pieces of each operand.
      num_primitive_operations: the number of products of pieces that are summed.
      allow_imprecise_accumulation: whether some steps may be summed in fewer bits.

    Example:
      >>> import numpy as np
      >>> import gnomon as gn
      >>> import gnomon.numpy as gnp
      >>> x = gnp.array([1 + 2**-12, 1.0])
      >>> gn.lax.dot(x, x, precision=DotAlgorithm(np.float16, np.float16, np.float32))
      Array(2., dtype=float32)
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms, which ``precision`` accepts, too.

    A name consists of the dtypes of both operands and of the accumulation. ``X3``, ``X6`` and
    ``X9`` give the number of products of pieces that emulate the precision of the accumulation.
    ``ANY_F8`` accepts every 8-bit floating point dtype without a conversion.
    """

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def accumulation_type(self) -> Any:
        """The dtype in which products are summed; None if it depends on the operands."""
        form = PRESETS.get(self.name)
        if form is None or self.name.startswith("ANY_F8_ANY_F8_ANY"):
            return None
        return form.dtype

    @property
    def supported_lhs_types(self) -> tuple[Any, ...] | None:
        """The dtypes that operands keep; others are converted to the first. None means all."""
        form = PRESETS.get(self.name)
        if form is None or form.lhs == ANY_F8:
            return None
        if form.lhs == "bf16" and form.rounds:
            return (bfloat16, _F32)
        return (_BY_NAME[form.lhs],) if form.lhs in ("f16", "f64") else (_F32,)

    @property
    def supported_rhs_types(self) -> tuple[Any, ...] | None:
        """See `supported_lhs_types`."""
        return self.supported_lhs_types

    def supported_output_types(self, lhs_dtype: Any, rhs_dtype: Any) -> tuple[Any, ...] | None:
        """The dtypes of results that need no conversion; None means all dtypes."""
        form, accumulated = PRESETS.get(self.name), self.accumulation_type
        if form is None or accumulated is None:
            return None
        if form.lhs == ANY_F8:
            return (_F32, np.dtype(np.float16), bfloat16, *FLOAT8)
        small = _BY_NAME.get(form.lhs)
        given = _dtypes.promote(((np.dtype(lhs_dtype), False), (np.dtype(rhs_dtype), False)))[0]
        return (accumulated, small) if form.rounds and given == small else (accumulated,)


def algorithm_text(precision: Any) -> str | None:
    """The precision attribute of an algorithm, a preset or its name; None for other values."""
    if isinstance(precision, str):
        precision = DotAlgorithmPreset.__members__.get(precision)
    if isinstance(precision, DotAlgorithmPreset):
        return str(PRESETS[precision.name]) if precision.name in PRESETS else "default"
    if not isinstance(precision, DotAlgorithm):
        return None
    names = [short_name(np.dtype(t)) for t in precision[:3]]
    if not set(names) <= _BY_NAME.keys():
        raise ValueError(
            f"the types of a lax.DotAlgorithm are floating point dtypes, got {', '.join(names)}"
        )
    lhs, rhs, accumulation = names
    return str(Algorithm(lhs, rhs, accumulation, *precision[3:]))


def for_operands(text: str, lhs: np.dtype[Any], rhs: np.dtype[Any]) -> str:
    """The precision attribute of an algorithm for operands of given dtypes.

    Raises:
      ValueError: an operand is complex, or the algorithm takes 8-bit floats and an operand has
        another dtype.
    """
    if is_complex(lhs) or is_complex(rhs):
        raise ValueError(
            f"lax.dot_general: the algorithm {text} applies to real numbers, got operands of "
            f"{short_name(lhs)} and {short_name(rhs)}; multiply their real and imaginary parts, "
            "or omit the algorithm"
        )
    if ANY_F8 not in text:
        return text
    if not {lhs, rhs} <= set(FLOAT8):
        raise ValueError(
            f"lax.dot_general: the algorithm {text} requires both inputs to have float8 dtypes, "
            f"got {short_name(lhs)} and {short_name(rhs)}"
        )
    return text.replace(ANY_F8, short_name(lhs), 1).replace(ANY_F8, short_name(rhs), 1)


def mode_of(text: str) -> str:
    """The `Precision` that is nearest to an algorithm, for ops that take no algorithm."""
    algorithm = algorithm_of(text) if ANY_F8 not in text else None
    if algorithm is None or (algorithm.rounds and algorithm.lhs not in ("tf32", "f32", "f64")):
        return "default"
    return "high" if algorithm.operations == 3 or algorithm.lhs == TF32 else "highest"


__all__ = ["DotAlgorithm", "DotAlgorithmPreset", "algorithm_text", "for_operands", "mode_of"]
