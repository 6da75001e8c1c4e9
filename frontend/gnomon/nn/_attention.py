"""Attention by scaled dot products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import BOOL
from gnomon.numpy._arguments import promoted

_FLOAT32 = np.dtype(np.float32)


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """Attention: values averaged with the softmax of scaled products of queries and keys.

    Args:
      query: an array of shape (batch, length, heads, size), or without the batch.
      key, value: arrays of shape (batch, length, key heads, size). Each key head is used for
        (heads / key heads) consecutive heads of the query.
      bias: an array that is added to the products; it broadcasts to (batch, heads, queries, keys).
      mask: booleans that broadcast to the same shape and select the keys that a query attends to.
      scale: the factor of the products; 1 / sqrt(size) by default.
      is_causal: whether queries ignore keys after their own position.
      query_seq_lengths, key_value_seq_lengths: the numbers of valid queries and keys of each
        sequence, of shape (batch,). The result of other queries is zero.
      local_window_size: the distances before and after its own position up to which a query
        attends.
      implementation: None or ``"xla"``, which mean the same.
      return_residual: also return the logarithm of the sum of exponentials, of shape (batch,
        queries, heads).
    Returns:
      An array of the shape of ``query``, but with the size of ``value``; with ``return_residual``,
      a pair of it and the logarithms.
    Raises:
      ValueError: the shapes do not fit, or the mask is not boolean.
      NotImplementedError: the implementation is not available.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import nn
      >>> query, key = gnp.ones((1, 3, 2, 4)), gnp.zeros((1, 5, 2, 4))
      >>> value = gnp.arange(5.0).reshape(1, 5, 1, 1) * gnp.ones((1, 5, 2, 4))
      >>> nn.dot_product_attention(query, key, value).shape
      (1, 3, 2, 4)
      >>> nn.dot_product_attention(query, key, value)[0, 0, 0]
      Array([2., 2., 2., 2.], dtype=float32)
    """
    if implementation not in (None, "xla"):
        raise NotImplementedError(
            f"dot_product_attention: implementation {implementation!r} is not available; use None"
        )
    query, key, value = promoted("dot_product_attention", query, key, value)
    shape = query.shape
    if query.ndim == 3:
        query, key, value = (gnp.expand_dims(x, 0) for x in (query, key, value))
    if query.ndim != 4 or key.ndim != 4 or key.shape[:3] != value.shape[:3]:
        raise ValueError(
            "dot_product_attention: query, key and value must have shapes (batch, length, heads, "
            f"size), got {query.shape}, {key.shape} and {value.shape}"
        )
    batch, length, heads, size = query.shape
    count, groups = key.shape[1], key.shape[2]
    if heads % groups or key.shape[0] != batch or key.shape[3] != size:
        raise ValueError(
            f"dot_product_attention: keys of shape {key.shape} do not fit queries of shape "
            f"{query.shape}: the batch and the size must be equal, and the heads of the query a "
            "multiple of those of the keys"
        )
    factor = 1 / math.sqrt(size) if scale is None else scale
    split = gnp.reshape(query, (batch, length, groups, heads // groups, size))
    logits = gnp.einsum("btkgh,bskh->bkgts", split, key, preferred_element_type=_FLOAT32)
    logits = gnp.reshape(logits, (batch, heads, length, count)) * factor
    if bias is not None:
        logits = logits + gnp.astype(lax.broadcast_to_rank(gnp.asarray(bias), 4), logits.dtype)
    allowed = _allowed(length, count, is_causal, local_window_size)
    if mask is not None:
        given = lax.broadcast_to_rank(gnp.asarray(mask), 4)
        if given.dtype != BOOL:
            raise ValueError(f"dot_product_attention: mask must be bool, got {given.dtype.name}")
        allowed = allowed & given
    for lengths, positions in (
        (query_seq_lengths, gnp.arange(length)[None, None, :, None]),
        (key_value_seq_lengths, gnp.arange(count)[None, None, None, :]),
    ):
        if lengths is not None:
            inside = positions < gnp.reshape(gnp.asarray(lengths), (batch, 1, 1, 1))
            allowed = allowed & inside
    # Finite, so that the result of a query without keys is not nan.
    least = -0.7 * float(np.finfo(np.float32).max)
    logits = gnp.where(allowed, logits, least)
    largest = lax.stop_gradient(gnp.max(logits, axis=-1, keepdims=True))
    weights = gnp.exp(logits - largest)
    total = gnp.sum(weights, axis=-1, keepdims=True)
    shares = gnp.astype(weights / total, key.dtype)
    shares = gnp.reshape(shares, (batch, groups, heads // groups, length, count))
    result = gnp.einsum("bkgts,bskh->btkgh", shares, value)
    result = gnp.reshape(result, (batch, length, heads, value.shape[3]))
    if query_seq_lengths is not None:
        counts = gnp.reshape(gnp.asarray(query_seq_lengths), (batch, 1, 1, 1))
        result = gnp.where(gnp.arange(length)[None, :, None, None] < counts, result, 0)
    result = gnp.reshape(result, (*shape[:-1], value.shape[3]))
    if not return_residual:
        return result
    residual = gnp.moveaxis((largest + gnp.log(total))[..., 0], 1, 2)
    return result, gnp.reshape(residual, shape[:-1])


def _allowed(
    length: int, count: int, is_causal: bool, window: int | tuple[int, int] | None
) -> Array:
    """A mask ``[1, 1, length, count]`` of the keys that each position of a query attends to."""
    ahead = gnp.arange(count)[None, None, None, :] - gnp.arange(length)[None, None, :, None]
    allowed = gnp.ones((1, 1, length, count), bool)
    if is_causal:
        allowed = allowed & (ahead <= 0)
    if window is not None:
        before, after = (window, window) if isinstance(window, int) else window
        allowed = allowed & (ahead >= -before) & (ahead <= after)
    return allowed
