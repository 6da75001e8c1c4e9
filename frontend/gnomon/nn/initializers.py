"""Initializers of weights: functions of a key, a shape and a dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gnomon import numpy as gnp
from gnomon import random
from gnomon._api.explicit_axes import takes_out_sharding
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.annotations import ArrayLike, DTypeLike, OutSharding, ShapeLike
from gnomon._arrays.array import Array
from gnomon._examples import example_section
from gnomon.dialects.types import is_complex, real_dtype
from gnomon.lax._operands import as_shape, as_tuple
from gnomon.lax._structural import canonical_axis

__all__ = [
    "Initializer",
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

Axes = int | Sequence[int]


class Initializer(Protocol):
    """A function that makes an array of weights."""

    def __call__(
        self,
        key: ArrayLike,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        """Weights of a shape and dtype, drawn with a key."""


def _dtype(dtype: Any) -> np.dtype[Any]:
    if dtype is None:
        return _dtypes.default_float_dtype()
    checked: np.dtype[Any] = _dtypes.check_user_dtype(dtype, "nn.initializers")
    return checked


def _factor(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.asarray(value).astype(dtype)


@takes_out_sharding
def zeros(
    key: ArrayLike,
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """An array of zeros; itself an initializer.

    Args:
      key: ignored.
      shape: the shape of the result.
      dtype: the dtype; None means the default float dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.

    Example:
      >>> from gnomon import random
      >>> from gnomon.nn import initializers
      >>> initializers.zeros(random.key(0), (2, 2))
      Array([[0., 0.],
             [0., 0.]], dtype=float32)
    """
    return gnp.zeros(shape, _dtype(dtype))


@takes_out_sharding
def ones(
    key: ArrayLike,
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """An array of ones; itself an initializer.

    Args:
      key: ignored.
      shape: the shape of the result.
      dtype: the dtype; None means the default float dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.

    Example:
      >>> from gnomon import random
      >>> from gnomon.nn import initializers
      >>> initializers.ones(random.key(0), (2, 2))
      Array([[1., 1.],
             [1., 1.]], dtype=float32)
    """
    return gnp.ones(shape, _dtype(dtype))


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that fills an array with one value.

    Args:
      value: the value, a scalar or an array that broadcasts to the shape.
      dtype: the default dtype of the initializer; None means the default float dtype.
    Returns:
      A function of a key, a shape and optionally a dtype. The key is not used.

    Example:
      >>> from gnomon import random
      >>> from gnomon.nn import initializers
      >>> initializers.constant(0.5)(random.key(0), (2, 2))
      Array([[0.5, 0.5],
             [0.5, 0.5]], dtype=float32)

    See also:
      `zeros`, `ones`
    """

    @takes_out_sharding
    def init(
        key: ArrayLike,
        shape: ShapeLike,
        dtype: DTypeLike | None = dtype,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        return gnp.full(shape, value, _dtype(dtype))

    return init


def uniform(scale: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that draws uniformly from [0, scale).

    Args:
      scale: the upper bound.
      dtype: the default dtype of the initializer; None means the default float dtype.
    Returns:
      A function of a key, a shape and optionally a dtype.

    Example:
      >>> from gnomon import random
      >>> from gnomon.nn import initializers
      >>> x = initializers.uniform(0.1)(random.key(0), (1000,))
      >>> bool((x >= 0).all() and (x < 0.1).all())
      True
    """

    @takes_out_sharding
    def init(
        key: ArrayLike,
        shape: ShapeLike,
        dtype: DTypeLike | None = dtype,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        dtype = _dtype(dtype)
        return random.uniform(key, shape, dtype) * _factor(scale, dtype)

    return init


def normal(stddev: ArrayLike = 0.01, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that draws from the normal distribution with mean 0.

    Args:
      stddev: the standard deviation.
      dtype: the default dtype of the initializer; None means the default float dtype.
    Returns:
      A function of a key, a shape and optionally a dtype.

    Example:
      >>> from gnomon import random
      >>> from gnomon.nn import initializers
      >>> initializers.normal(5.0)(random.key(42), (2, 3)).shape
      (2, 3)

    See also:
      `truncated_normal`, `variance_scaling`
    """

    @takes_out_sharding
    def init(
        key: ArrayLike,
        shape: ShapeLike,
        dtype: DTypeLike | None = dtype,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        dtype = _dtype(dtype)
        return random.normal(key, shape, dtype) * _factor(stddev, dtype)

    return init


def truncated_normal(
    stddev: ArrayLike = 0.01,
    dtype: DTypeLike | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """An initializer that draws from a normal distribution with mean 0, cut off on both sides.

    Args:
      stddev: the standard deviation of the distribution before it is cut off.
      dtype: the default dtype of the initializer; None means the default float dtype.
      lower, upper: the bounds, in multiples of ``stddev``.
    Returns:
      A function of a key, a shape and optionally a dtype.

    Example:
      >>> import gnomon.numpy as gnp
      >>> from gnomon import random
      >>> from gnomon.nn import initializers
      >>> x = initializers.truncated_normal(0.1)(random.key(0), (1000,))
      >>> bool(gnp.abs(x).max() <= 0.2)
      True

    See also:
      `normal`
    """

    @takes_out_sharding
    def init(
        key: ArrayLike,
        shape: ShapeLike,
        dtype: DTypeLike | None = dtype,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        dtype = _dtype(dtype)
        drawn = random.truncated_normal(key, lower, upper, shape, dtype)
        return drawn * _factor(stddev, dtype)

    return init


# ------------------------------------------------------------------------------- variance scaling


def _sizes(shape: Sequence[int], axes: Axes) -> int:
    dims = as_tuple(axes)
    return math.prod(shape[canonical_axis(d, len(shape))] for d in dims)


def _fans(
    shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes
) -> tuple[float, float]:
    """The fan-in and the fan-out of a weight array."""
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(
            f"cannot distinguish the inputs from the outputs of weights of shape {shape} with the "
            "default in_axis; pass in_axis, or a shape of at least two dimensions"
        )
    inputs, outputs, batch = (_sizes(shape, a) for a in (in_axis, out_axis, batch_axis))
    field = math.prod(shape) / inputs / outputs / batch
    return inputs * field, outputs * field


_DENOMINATORS = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: (fan_in * fan_out) ** 0.5,
}
_DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")

# Standard deviations of the normal distributions truncated at 2: on the line, and in the plane.
_CUT_OFF = 0.87962566103423978
_CUT_OFF_COMPLEX = 0.95311164380491208


def variance_scaling(
    scale: ArrayLike,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """An initializer whose variance is ``scale`` divided by the number of inputs or outputs.

    Args:
      scale: the factor.
      mode: the divisor: ``"fan_in"``, ``"fan_out"``, ``"fan_avg"`` or ``"fan_geo_avg"``.
      distribution: ``"truncated_normal"``, ``"normal"`` or ``"uniform"``.
      in_axis, out_axis, batch_axis: which dimensions of the weights are inputs, outputs, batches.
      dtype: the default dtype of the initializer.
    Returns:
      An `Initializer`. With the default ``in_axis``, it raises ``ValueError`` for weights of fewer
      than two dimensions.
    Raises:
      ValueError: the mode or the distribution is unknown (when the initializer is called).

    Example:
      >>> from gnomon import random
      >>> from gnomon.nn import initializers
      >>> init = initializers.variance_scaling(2.0, "fan_in", "normal")
      >>> init(random.key(0), (400, 100)).std().round(2)
      Array(0.07, dtype=float32)

    See also:
      `he_normal`, `glorot_uniform`, `lecun_normal`
    """

    @takes_out_sharding
    def init(
        key: ArrayLike,
        shape: ShapeLike,
        dtype: DTypeLike | None = dtype,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        sizes, dtype = as_shape("nn.initializers", shape), _dtype(dtype)
        fans = _fans(sizes, in_axis, out_axis, batch_axis)
        if mode not in _DENOMINATORS:
            raise ValueError(
                f"invalid mode of variance_scaling: {mode!r}; one of {', '.join(_DENOMINATORS)}"
            )
        if distribution not in _DISTRIBUTIONS:
            raise ValueError(
                f"invalid distribution of variance_scaling: {distribution!r}; one of "
                f"{', '.join(_DISTRIBUTIONS)}"
            )
        variance = gnp.array(scale / _DENOMINATORS[mode](*fans), dtype)
        if distribution == "normal":
            return random.normal(key, sizes, dtype) * gnp.sqrt(variance)
        if distribution == "uniform":
            if is_complex(dtype):
                return _complex_uniform(key, sizes, dtype) * gnp.sqrt(variance)
            return random.uniform(key, sizes, dtype, -1) * gnp.sqrt(3 * variance)
        if is_complex(dtype):
            stddev = gnp.sqrt(variance) / _factor(_CUT_OFF_COMPLEX, dtype)
            return _complex_truncated_normal(key, 2, sizes, dtype) * stddev
        stddev = gnp.sqrt(variance) / _factor(_CUT_OFF, dtype)
        return random.truncated_normal(key, -2, 2, sizes, dtype) * stddev

    return init


def _phases(key: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    angles = 2 * np.pi * random.uniform(key, shape, real_dtype(dtype)).astype(dtype)
    return gnp.exp(1j * angles)


def _complex_uniform(key: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Uniform in the disc of variance one."""
    radius_key, phase_key = random.split(key)
    radius = gnp.sqrt(2 * random.uniform(radius_key, shape, real_dtype(dtype))).astype(dtype)
    return radius * _phases(phase_key, shape, dtype)


def _complex_truncated_normal(
    key: Any, upper: float, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """Normal in the plane, truncated at the circle of radius ``upper``."""
    radius_key, phase_key = random.split(key)
    inside = 1 - gnp.exp(gnp.array(-(upper**2), dtype))
    drawn = inside * random.uniform(radius_key, shape, real_dtype(dtype)).astype(dtype)
    return gnp.sqrt(-gnp.log(1 - drawn)) * _phases(phase_key, shape, dtype)


class _Scaled(Protocol):
    def __call__(
        self,
        in_axis: Axes = -2,
        out_axis: Axes = -1,
        batch_axis: Axes = (),
        dtype: DTypeLike | None = None,
    ) -> Initializer: ...


def _scaled(name: str, scale: float, mode: str, distribution: str, of: str) -> _Scaled:
    def initializer(
        in_axis: Axes = -2,
        out_axis: Axes = -1,
        batch_axis: Axes = (),
        dtype: DTypeLike | None = None,
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    initializer.__name__ = initializer.__qualname__ = name
    initializer.__doc__ = f"""The initializer of {of}.

    It is `variance_scaling` by {scale}, mode ``"{mode}"``, distribution ``"{distribution}"``.

    Args:
      in_axis, out_axis, batch_axis: the dimensions of the weights that are inputs, outputs and
        batches: an int or a sequence of ints.
      dtype: the default dtype of the initializer; None means the default float dtype.
    Returns:
      A function of a key, a shape of at least two dimensions, and optionally a dtype.
    """ + example_section("nn", name)
    return initializer


_GLOROT = "Glorot and Bengio (2010)"
_LECUN = "LeCun, Bottou, Orr, Müller (1998)"
_HE = "He, Zhang, Ren, Sun (2015)"

glorot_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", _GLOROT)
glorot_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal", _GLOROT)
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", _LECUN)
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", _LECUN)
he_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", _HE)
he_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", _HE)

xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer of uniformly distributed orthogonal matrices.

    Weights that are not square have orthonormal rows or columns, whichever are fewer.

    Args:
      scale: a factor.
      column_axis: the dimension of the columns; all others form the rows.
      dtype: the default dtype of the initializer.
    Returns:
      An `Initializer`; it raises ``ValueError`` for weights of fewer than two dimensions.

    Example:
      >>> import gnomon
      >>> orthogonal()(gnomon.random.key(42), (2, 3)).shape
      (2, 3)
    """

    @takes_out_sharding
    def init(
        key: ArrayLike,
        shape: ShapeLike,
        dtype: DTypeLike | None = dtype,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        sizes, dtype = as_shape("nn.initializers", shape), _dtype(dtype)
        if len(sizes) < 2:
            raise ValueError(
                f"the orthogonal initializer requires at least two dimensions, got shape {sizes}"
            )
        if 0 in sizes:
            return gnp.zeros(sizes, dtype)
        axis = canonical_axis(column_axis, len(sizes))
        others = tuple(n for d, n in enumerate(sizes) if d != axis)
        q = random.orthogonal(key, math.prod(others), (), dtype, sizes[axis])
        return gnp.moveaxis(q.reshape((*others, sizes[axis])), -1, axis) * _factor(scale, dtype)

    return init


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer of convolutions: zero except for an orthogonal matrix in the middle.

    Args:
      scale, column_axis, dtype: see `orthogonal`.
    Returns:
      An `Initializer` of weights of three to five dimensions, the last two of which are input and
      output. It raises ``ValueError`` for others, and if there are more inputs than outputs.

    Example:
      >>> import gnomon
      >>> delta_orthogonal()(gnomon.random.key(42), (3, 2, 2))[0]
      Array([[0., 0.],
             [0., 0.]], dtype=float32)
    """

    @takes_out_sharding
    def init(
        key: ArrayLike,
        shape: ShapeLike,
        dtype: DTypeLike | None = dtype,
        out_sharding: OutSharding | None = None,
    ) -> Array:
        sizes, dtype = as_shape("nn.initializers", shape), _dtype(dtype)
        if len(sizes) not in (3, 4, 5):
            raise ValueError(
                f"the delta orthogonal initializer requires three to five dimensions, got {sizes}"
            )
        if sizes[-1] < sizes[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`. ")
        matrix = orthogonal(scale, column_axis, dtype)(key, sizes[-2:])
        middle = tuple((n - 1) // 2 for n in sizes[:-2])
        return gnp.zeros(sizes, dtype).at[middle].set(matrix)

    return init
