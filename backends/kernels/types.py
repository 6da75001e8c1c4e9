"""The types of elements in memory and in computations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.dialects.types import TensorType, bfloat16, is_complex, real_dtype, short_name

__all__ = ["Kind", "kind_of", "of_type"]


@dataclass(frozen=True)
class Kind:
    """How the elements of a dtype are stored and computed with.

    Attributes:
      stored: their type in memory. Complex numbers are stored as two elements.
      computed: their type in computations: that of the parts of complex numbers.
    """

    stored: str
    computed: str

    @property
    def is_half(self) -> bool:
        """Whether it is a 16-bit float, which is computed in f32 and rounded after each step."""
        return self.stored in ("f16", "bf16")


_KINDS: dict[np.dtype[Any], Kind] = {
    np.dtype(np.bool_): Kind("i8", "i1"),
    **{np.dtype(f"{s}{n // 8}"): Kind(f"i{n}", f"i{n}") for s in "iu" for n in (8, 16, 32, 64)},
    np.dtype(np.float16): Kind("f16", "f32"),
    bfloat16: Kind("bf16", "f32"),
    np.dtype(np.float32): Kind("f32", "f32"),
    np.dtype(np.float64): Kind("f64", "f64"),
}


def kind_of(dtype: np.dtype[Any]) -> Kind:
    """How elements of a dtype are stored and computed with.

    Raises:
      UnsupportedOnTarget: kernels do not support the dtype.
    """
    part = real_dtype(dtype) if is_complex(dtype) else dtype
    try:
        return _KINDS[part]
    except KeyError:
        raise UnsupportedOnTarget(
            f"kernels do not compute with {short_name(dtype)}; they take bool, integers of 8 to "
            "64 bits, f16, bf16, f32, f64, c64 and c128"
        ) from None


def of_type(type_: TensorType) -> Kind:
    """How the elements of an array are stored and computed with."""
    return kind_of(type_.dtype)
