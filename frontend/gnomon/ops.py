"""Reductions over segments, with the functions of `jax.ops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import numpy as gnp
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays.annotations import ArrayLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._tracing.trace import concrete_value
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.numpy._reductions import extreme_identity

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


@takes_out_sharding
def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Sums of the rows of ``data`` that have the same id.

    Args:
      data: an array of shape ``(n, ...)``, or a number, which is every row.
      segment_ids: integers of shape ``(n,)``.
      num_segments: the number of rows of the result; by default the largest id plus one, for which
        the ids must not be traced. Rows with other ids, also negative ones, are dropped.
      indices_are_sorted, unique_indices: promises about the ids.
      bucket_size: first sum groups of this number of rows, which loses less precision.
      mode: the treatment of ids out of bounds; see ``Array.at``. By default they are dropped.
      out_sharding: the sharding of the result on a mesh with explicit axes.
    Returns:
      An array of shape ``(num_segments, ...)``; a segment without rows holds 0.
    Raises:
      TypeError: the ids are not integers.
      ValueError: shapes do not fit, or the number of segments is not known.

    Example:
      >>> import gnomon.numpy as gnp
      >>> segment_sum(gnp.arange(5), gnp.array([0, 0, 1, 1, 2]))
      Array([1, 5, 4], dtype=int32)
    """
    return _segments(
        "add", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size,
        mode,
    )  # fmt: skip


@takes_out_sharding
def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Products of the rows of ``data`` that have the same id; see `segment_sum`.

    A segment without rows holds 1.

    Args:
      data: an array of shape ``(n, ...)``, or a number, which is every row.
      segment_ids: integers of shape ``(n,)``, the segment of each row.
      num_segments: the number of segments; None means the largest id plus one, for which the ids
        must not be traced. Rows with other ids, also negative ones, are dropped.
      indices_are_sorted, unique_indices: promises about the ids.
      bucket_size, mode, out_sharding: see `segment_sum`.
    Returns:
      An array of shape ``(num_segments, ...)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> segment_prod(gnp.arange(1, 6), gnp.array([0, 0, 1, 1, 2]))
      Array([ 2, 12,  5], dtype=int32)
    """
    return _segments(
        "multiply", data, segment_ids, num_segments, indices_are_sorted, unique_indices,
        bucket_size, mode,
    )  # fmt: skip


@takes_out_sharding
def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Maxima of the rows of ``data`` that have the same id; see `segment_sum`.

    A segment without rows holds the smallest number of the dtype (``-inf``).

    Args:
      data: an array of shape ``(n, ...)``, or a number, which is every row.
      segment_ids: integers of shape ``(n,)``, the segment of each row.
      num_segments: the number of segments; None means the largest id plus one, for which the ids
        must not be traced. Rows with other ids, also negative ones, are dropped.
      indices_are_sorted, unique_indices: promises about the ids.
      bucket_size, mode, out_sharding: see `segment_sum`.
    Returns:
      An array of shape ``(num_segments, ...)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> segment_max(gnp.arange(5), gnp.array([0, 0, 1, 1, 2]))
      Array([1, 3, 4], dtype=int32)
    """
    return _segments(
        "max", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size,
        mode,
    )  # fmt: skip


@takes_out_sharding
def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Minima of the rows of ``data`` that have the same id; see `segment_sum`.

    A segment without rows holds the largest number of the dtype (``inf``).

    Args:
      data: an array of shape ``(n, ...)``, or a number, which is every row.
      segment_ids: integers of shape ``(n,)``, the segment of each row.
      num_segments: the number of segments; None means the largest id plus one, for which the ids
        must not be traced. Rows with other ids, also negative ones, are dropped.
      indices_are_sorted, unique_indices: promises about the ids.
      bucket_size, mode, out_sharding: see `segment_sum`.
    Returns:
      An array of shape ``(num_segments, ...)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> segment_min(gnp.arange(5), gnp.array([0, 0, 1, 1, 2]))
      Array([0, 2, 4], dtype=int32)
    """
    return _segments(
        "min", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size,
        mode,
    )  # fmt: skip


# The functions that combine the buckets of `bucket_size`.
_COMBINE: dict[str, Any] = {"add": gnp.sum, "multiply": gnp.prod, "max": gnp.max, "min": gnp.min}


def _identity(update: str, dtype: np.dtype[Any]) -> Any:
    if update in ("add", "multiply"):
        return np.asarray(update == "multiply", dtype)
    return extreme_identity(update, dtype)


def _segments(
    update: str,
    data: Any,
    segment_ids: Any,
    num_segments: int | None,
    indices_are_sorted: bool,
    unique_indices: bool,
    bucket_size: int | None,
    mode: Any,
) -> Array:
    name = {"add": "sum", "multiply": "prod"}.get(update, update)
    rows, ids = gnp.asarray(data), gnp.asarray(segment_ids)
    if not gnp.issubdtype(ids.dtype, gnp.integer):
        raise TypeError(f"segment_{name}: segment_ids must be integers, got {ids.dtype}")
    if rows.ndim == 0 and ids.ndim == 1:
        rows = gnp.broadcast_to(rows, ids.shape)
    if ids.ndim != 1 or rows.shape[:1] != ids.shape:
        raise ValueError(
            f"segment_{name}: segment_ids must hold one id for each row of data, got ids of shape "
            f"{ids.shape} for data of shape {rows.shape}"
        )
    if num_segments is None:
        known = concrete_value(ids)
        if known is None:
            raise ValueError(
                f"segment_{name}: the number of segments is not known if segment_ids are traced: "
                "pass num_segments"
            )
        num_segments = int(known.max(initial=-1)) + 1
    num_segments = num_segments if is_symbolic_dim(num_segments) else int(num_segments)
    if num_segments < 0:
        raise ValueError(f"segment_{name}: num_segments must not be negative, got {num_segments}")

    shape = (num_segments, *rows.shape[1:])
    identity = _identity(update, rows.dtype)

    def fold(part: Array, part_ids: Array) -> Array:
        start = gnp.full(shape, identity, rows.dtype)
        return getattr(start.at[part_ids], update)(
            part,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            wrap_negative_indices=False,
        )

    if bucket_size is None:
        return fold(rows, ids)
    if bucket_size < 1:
        raise ValueError(f"segment_{name}: bucket_size must be positive, got {bucket_size}")
    starts = range(0, max(rows.shape[0], 1), bucket_size)
    parts = [fold(rows[i : i + bucket_size], ids[i : i + bucket_size]) for i in starts]
    return _COMBINE[update](gnp.stack(parts), axis=0).astype(rows.dtype)
