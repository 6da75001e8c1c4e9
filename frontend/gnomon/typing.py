"""Types for annotations of functions that take arrays.

Annotate arguments with `ArrayLike`, an array or a scalar, and results with `gnomon.Array`.
`DTypeLike` is anything that names a dtype: ``"float32"``, ``gnomon.numpy.float32``, ``float``.
"""

from gnomon._arrays.annotations import ArrayLike, DTypeLike, SupportsDType

__all__ = ["ArrayLike", "DTypeLike", "SupportsDType"]
