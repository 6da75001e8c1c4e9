"""Vector quantization."""

from __future__ import annotations

import gnomon.numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.numpy._arguments import promoted
from gnomon.scipy._blocks import map_in_blocks

__all__ = ["vq"]


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The nearest code of each observation.

    Args:
      obs: observations ``(m, n)``, or ``(m,)`` for single numbers.
      code_book: codes ``(k, n)``, or ``(k,)``.
      check_finite: accepted for compatibility.
    Returns:
      ``(code, distance)``: the index of the nearest code and its distance, both ``(m,)``.
    Raises:
      ValueError: the ranks differ, or are not one or two.

    Example:
      >>> import gnomon.numpy as gnp
      >>> vq(gnp.array([1.5, 4.0]), gnp.array([0.0, 1.0, 3.0]))
      (Array([1, 2], dtype=int32), Array([0.5, 1. ], dtype=float32))
    """
    x, codes = promoted("vq", obs, code_book, inexact=True)
    if x.ndim != codes.ndim:
        raise ValueError(
            f"Observation and code_book should have the same rank, got shapes {x.shape} and "
            f"{codes.shape}"
        )
    if x.ndim == 1:
        x, codes = x[:, None], codes[:, None]
    if x.ndim != 2:
        raise ValueError(f"ndim different than 1 or 2 are not supported, got shape {x.shape}")

    def nearest(row: Array) -> tuple[Array, Array]:
        distances = gnp.linalg.norm(row[None] - codes, axis=-1)
        return gnp.argmin(distances), gnp.min(distances)

    found: tuple[Array, Array] = map_in_blocks(nearest, x, codes.size)
    return found
