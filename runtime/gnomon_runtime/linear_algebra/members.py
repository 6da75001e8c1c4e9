"""Batches of matrices of which NumPy rejects some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np


def by_member(
    function: Callable[[np.ndarray], Any], a: np.ndarray, failed: Callable[[], Any]
) -> Any:
    """Factor a batch with NumPy; ``failed`` gives the results of members that NumPy rejects.

    NumPy raises ``LinAlgError`` if any member of a batch fails or is not finite. The contract is
    that of JAX: only the results of that member are nan.
    """
    try:
        return function(a)
    except np.linalg.LinAlgError:
        pass
    members = []
    for member in a.reshape(-1, *a.shape[-2:]):
        try:
            members.append(_as_tuple(function(member)))
        except np.linalg.LinAlgError:
            members.append(_as_tuple(failed()))
    batch = a.shape[:-2]
    stacked_results = tuple(
        np.stack(parts).reshape(*batch, *parts[0].shape) for parts in zip(*members, strict=True)
    )
    return stacked_results if len(stacked_results) > 1 else stacked_results[0]


def check_finite(a: np.ndarray) -> np.ndarray:
    """The matrices; LAPACK's iterations (gesdd) may not end on infinities.

    Raises:
      np.linalg.LinAlgError: one is not finite.
    """
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("a matrix is not finite")
    return a


def _as_tuple(result: Any) -> tuple[np.ndarray, ...]:
    return (
        tuple(result)
        if isinstance(result, Iterable) and not isinstance(result, np.ndarray)
        else (result,)
    )


def nan_like(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array of nan; complex numbers are nan in both parts."""
    nan = complex(np.nan, np.nan) if dtype.kind == "c" else np.nan
    return np.full(tuple(shape), nan, dtype)


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """The complex dtype of the same precision."""
    return np.result_type(dtype, np.complex64)


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex dtype; a real dtype unchanged."""
    return np.empty((), dtype).real.dtype
