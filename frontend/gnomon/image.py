"""Resampling of images, with the functions of `jax.image`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon import lax
from gnomon import numpy as gnp
from gnomon._arrays.annotations import ArrayLike
from gnomon._arrays.array import Array
from gnomon.dialects.symbolic.dimension import any_symbolic, larger
from gnomon.dialects.types import real_dtype
from gnomon.lax._contraction import PrecisionLike
from gnomon.lax._operands import as_shape

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """Methods of interpolation between pixels; each also has a name."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name.

        The names are nearest; linear, bilinear, trilinear and triangle; cubic, bicubic and
        tricubic; lanczos3; lanczos5; cubic-pytorch and bicubic-pytorch, PyTorch's kernel; and
        area, the mean of the operand over the area of a pixel of the result.
        """
        method = _NAMES.get(s)
        if method is None:
            raise ValueError(f"unknown resize method {s!r}; the methods are {', '.join(_NAMES)}")
        return method


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


def _triangle(x: Array) -> Array:
    return gnp.maximum(0, 1 - gnp.abs(x))


def _keys_cubic(a: float) -> Callable[[Array], Array]:
    """Keys' cubic convolution kernel, for x >= 0."""

    def kernel(x: Array) -> Array:
        near = (((a + 2) * x - (a + 3)) * x) * x + 1.0
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return gnp.where(x >= 2.0, 0.0, gnp.where(x >= 1.0, far, near))

    return kernel


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        numerator = radius * gnp.sin(np.pi * x) * gnp.sin(np.pi * x / radius)
        denominator = gnp.where(x > 0, np.pi**2 * x**2, 1)
        return gnp.where(x > radius, 0.0, gnp.where(x > 1e-3, numerator / denominator, 1.0))

    return kernel


_KERNELS: dict[ResizeMethod, Callable[[Array], Array]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _keys_cubic(-0.5),
}


class _Kernel(NamedTuple):
    """The weight of a pixel by its distance, and whether edge pixels are repeated outside."""

    weight: Callable[[Array], Array]
    replicates: bool = False


def _kernel(method: ResizeMethod, antialias: bool) -> _Kernel:
    if method is not ResizeMethod.CUBIC_PYTORCH:
        return _Kernel(_KERNELS[method])
    # With antialiasing, PyTorch uses the common kernel.
    return _Kernel(_KERNELS[ResizeMethod.CUBIC]) if antialias else _Kernel(_keys_cubic(-0.75), True)


def _weights(
    kernel: _Kernel,
    size: int,
    new_size: int,
    scale: Any,
    translation: ArrayLike,
    antialias: bool,
    dtype: np.dtype[Any],
) -> Array:
    """The matrix, of shape ``(size, new_size)``, that resamples one dimension.

    A pixel of the result is the mean of the pixels of the operand, weighted by the kernel at their
    distances. If the image shrinks, antialiasing widens the kernel by the same factor.
    """
    if dtype.itemsize < 4:
        # Positions in narrow floats would not tell neighbouring pixels apart.
        dtype = np.dtype(np.float32)
        scale, translation = (gnp.asarray(v).astype(dtype) for v in (scale, translation))
    inverse = 1.0 / scale
    width = gnp.maximum(inverse, 1.0) if antialias else 1.0
    centers = (gnp.arange(new_size, dtype=dtype) + 0.5) * inverse - translation * inverse - 0.5
    # The kernel that repeats edge pixels extends two pixels beyond the edges.
    margin = 2 if kernel.replicates else 0
    xp: Any = _arrays_of(size)
    pixels = xp.arange(-margin, size + margin)
    weights = kernel.weight(gnp.abs(centers[None, :] - pixels.astype(dtype)[:, None]) / width)
    if kernel.replicates:
        owners = xp.eye(size, dtype=dtype)[xp.clip(pixels, 0, xp.asarray(size - 1))]
        weights = gnp.dot(owners.T, weights, precision=lax.Precision.HIGHEST)
    total = gnp.sum(weights, axis=0, keepdims=True)
    tiny = 1000.0 * float(np.finfo(np.float32).eps)
    normalized = gnp.where(
        gnp.abs(total) > tiny,
        weights / gnp.where(gnp.abs(total) > 0, total, 1),
        gnp.zeros_like(weights),
    )
    # Pixels whose center is outside of the image are zero.
    inside = (centers >= -0.5) & (centers <= size - 0.5)
    return gnp.where(inside[None, :], normalized, 0)


def _arrays_of(*sizes: Any) -> Any:
    """The namespace that computes arrays from sizes: NumPy, unless one of them is symbolic."""
    return gnp if any_symbolic(sizes) else np


def _area_weights(
    size: int, new_size: int, scale: Any, translation: Any, dtype: np.dtype[Any]
) -> Array:
    """The matrix, of shape ``(size, new_size)``, of means over the areas of the new pixels."""
    edges = (gnp.arange(new_size + 1, dtype=dtype) - translation) / scale
    xp = _arrays_of(size)
    edges = gnp.clip(edges, 0, xp.asarray(size, dtype))
    pixels = xp.arange(size, dtype=dtype)[:, None]
    overlap = gnp.minimum(edges[None, 1:], pixels + 1) - gnp.maximum(edges[None, :-1], pixels)
    overlap = gnp.maximum(overlap, 0)
    total = gnp.sum(overlap, axis=0, keepdims=True)
    return gnp.where(total > 0, overlap / gnp.where(total > 0, total, 1), 0)


def _matrix(
    method: ResizeMethod,
    size: int,
    new_size: int,
    scale: Any,
    translation: ArrayLike,
    antialias: bool,
    dtype: np.dtype[Any],
) -> Array:
    """The matrix, of shape ``(size, new_size)``, that resamples one dimension by a method."""
    if method is ResizeMethod.AREA:
        return _area_weights(size, new_size, scale, translation, dtype)
    kernel = _kernel(method, antialias)
    return _weights(kernel, size, new_size, scale, translation, antialias, dtype)


def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = lax.Precision.HIGHEST,
) -> Array:
    """Scale and translate an image: the point ``x`` moves to ``x * scale + translation``.

    The center of pixel ``i`` is the point ``i + 0.5``.

    Args:
      image: an array; integers become floats.
      shape: the shape of the result; dimensions that are not in ``spatial_dims`` keep their sizes.
      spatial_dims: the dimensions that are resampled.
      scale, translation: one number for each spatial dimension, in pixels of the result; they may
        be traced.
      method: any `ResizeMethod` except nearest.
      antialias: widen the kernel if the image shrinks.
      precision: the precision of the contractions.
    Raises:
      ValueError: shapes do not fit, or the method is nearest.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x, one = gnp.arange(4.0), gnp.ones(1)
      >>> scale_and_translate(x, (4,), (0,), one, one, "linear")
      Array([0., 0., 1., 2.], dtype=float32)
    """
    x = _image(image, shape, "scale_and_translate")
    shape = as_shape("scale_and_translate", shape)
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        raise ValueError("scale_and_translate: nearest has no kernel; use resize")
    dims = tuple(int(d) % max(x.ndim, 1) for d in spatial_dims)
    if len(set(dims)) != len(dims):
        raise ValueError(f"scale_and_translate: spatial_dims has repeated dimensions: {dims}")
    kept = [d for d in range(x.ndim) if d not in dims]
    if any(x.shape[d] != shape[d] for d in kept):
        raise ValueError(
            f"scale_and_translate: dimensions that are not in spatial_dims={dims} keep their "
            f"sizes, got an image of {x.shape} and shape {tuple(shape)}"
        )
    real = real_dtype(x.dtype)
    scales, translations = gnp.asarray(scale, real), gnp.asarray(translation, real)
    for name, value in (("scale", scales), ("translation", translations)):
        if value.shape != (len(dims),):
            raise ValueError(
                f"scale_and_translate: {name} must hold one number for each of the "
                f"{len(dims)} spatial dimensions, got shape {value.shape}"
            )
    for i, d in enumerate(dims):
        matrix = _matrix(chosen, x.shape[d], shape[d], scales[i], translations[i], antialias, real)
        x = _resample(x, d, matrix.astype(x.dtype), precision)
    return x


def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = lax.Precision.HIGHEST,
) -> Array:
    """Resize an image, so that its corners stay at the corners.

    Args:
      image: an array; integers become floats, except for nearest.
      shape: the shape of the result, with all dimensions.
      method: see `ResizeMethod`.
      antialias: widen the kernel if the image shrinks.
      precision: the precision of the contractions.
    Raises:
      ValueError: the rank of the shape is not that of the image.

    Example:
      >>> import gnomon.numpy as gnp
      >>> resize(gnp.array([0.0, 1.0]), (4,), "linear")
      Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)
    """
    shape = as_shape("resize", shape)
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        return _nearest(image, shape)
    x = _image(image, shape, "resize")
    real = real_dtype(x.dtype)
    for d, (old, new) in enumerate(zip(x.shape, shape, strict=True)):
        if old != new:
            scale = _ratio(new, larger(old, 1), real)
            matrix = _matrix(chosen, old, new, scale, np.zeros((), real), antialias, real)
            x = _resample(x, d, matrix.astype(x.dtype), precision)
    return x


def _ratio(new: Any, old: Any, dtype: np.dtype[Any]) -> Any:
    """The quotient of two sizes as a scalar."""
    if any_symbolic((new, old)):
        return gnp.asarray(new, dtype) / gnp.asarray(old, dtype)
    return np.float64(new / old).astype(dtype)


def _nearest(image: Any, shape: Sequence[int]) -> Array:
    x = gnp.asarray(image)
    _check_rank(x, shape, "resize")
    for d, (old, new) in enumerate(zip(x.shape, shape, strict=True)):
        if old != new:
            # The pixel that contains the center of the new one.
            xp = _arrays_of(old, new)
            before, after = (xp.asarray(n, np.float32) for n in (old, new))
            centers = (xp.arange(new, dtype=np.float32) + 0.5) * before / after
            x = gnp.take(x, xp.floor(centers).astype(np.int32), axis=d)
    return x


def _resample(x: Array, dimension: int, matrix: Array, precision: PrecisionLike) -> Array:
    out = gnp.tensordot(x, matrix, axes=((dimension,), (0,)), precision=precision)
    return gnp.moveaxis(out, -1, dimension)


def _method(method: str | ResizeMethod) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


def _image(image: Any, shape: Sequence[int], what: str) -> Array:
    x = gnp.asarray(image)
    _check_rank(x, shape, what)
    return x if gnp.issubdtype(x.dtype, gnp.inexact) else x.astype(gnp.float32)


def _check_rank(x: Array, shape: Sequence[int], what: str) -> None:
    if len(shape) != x.ndim:
        raise ValueError(
            f"{what}: shape must give all {x.ndim} dimensions of the image of {x.shape}, got "
            f"{tuple(shape)}"
        )
