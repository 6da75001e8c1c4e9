"""`gaussian_kde`: a density that is estimated from samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax, random, tree_util
from gnomon._arrays.annotations import ArrayLike, ShapeLike
from gnomon._arrays.array import Array
from gnomon.dialects.types import is_complex
from gnomon.numpy._arguments import as_array, promoted
from gnomon.scipy import linalg, special
from gnomon.scipy._blocks import map_in_blocks

__all__ = ["gaussian_kde"]

BandwidthMethod = None | str | float | Callable[["gaussian_kde"], Any]


@tree_util.register_pytree_node_class
class gaussian_kde:  # noqa: N801
    """A density estimate: the mixture of normal distributions around samples.

    Args:
      dataset: samples ``(dimensions, n)``, or ``(n,)``.
      bw_method: the factor by which the normal distributions are narrower than the samples:
        ``"scott"`` (the default), ``"silverman"``, a number, or a function of the estimator.
      weights: the weights of the samples, ``(n,)``.
    Attributes:
      dataset, weights: the arguments; the weights are scaled to add up to one.
      neff: the effective number of samples.
      covariance, inv_cov: the covariance of each normal distribution and its inverse.
      d, n: the number of dimensions and of samples.

    Example:
      >>> import gnomon.numpy as gnp
      >>> density = gaussian_kde(gnp.array([1.0, 2.0, 3.0]))
      >>> print(gnp.round(density(2.0), 3))
      [0.318]
    """

    def __init__(
        self,
        dataset: ArrayLike,
        bw_method: BandwidthMethod = None,
        weights: ArrayLike | None = None,
    ) -> None:
        x = gnp.atleast_2d(as_array("gaussian_kde", dataset))
        if is_complex(x.dtype):
            raise NotImplementedError("gaussian_kde does not support complex data")
        if x.size <= 1:
            raise ValueError("`dataset` input should have multiple elements.")
        d, n = x.shape
        if weights is None:
            (x,) = promoted("gaussian_kde", x, inexact=True)
            given = gnp.full(n, 1.0 / n, x.dtype)
        else:
            x, given = promoted("gaussian_kde", x, weights, inexact=True)
            given = gnp.atleast_1d(given)
            if given.ndim != 1:
                raise ValueError("`weights` input should be one-dimensional.")
            if given.size != n:
                raise ValueError(f"`weights` input should be of length {n}, got {given.size}")
            given = given / gnp.sum(given)
        self.dataset, self.weights = x, given
        self.neff = 1 / gnp.sum(given**2)
        factor = self._factor("scott" if bw_method is None else bw_method, d)
        spread = gnp.atleast_2d(gnp.cov(x, rowvar=True, bias=False, aweights=given))
        self.covariance = spread * factor**2
        self.inv_cov = gnp.linalg.inv(spread) / factor**2

    def _factor(self, method: Any, d: int) -> Any:
        if callable(method):
            return method(self)
        if method == "scott":
            return gnp.power(self.neff, -1.0 / (d + 4))
        if method == "silverman":
            return gnp.power(self.neff * (d + 2) / 4.0, -1.0 / (d + 4))
        if isinstance(method, str) or np.ndim(method):
            raise ValueError(
                "`bw_method` should be 'scott', 'silverman', a scalar, or a callable, got "
                f"{method!r}"
            )
        return method

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Flatten the estimator, which is a pytree."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Sequence[Any]) -> gaussian_kde:
        """The inverse of `tree_flatten`."""
        made = cls.__new__(cls)
        made.neff, made.dataset, made.weights, made.covariance, made.inv_cov = children
        return made

    @property
    def d(self) -> int:
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        return int(self.dataset.shape[1])

    def _points(self, points: ArrayLike) -> Array:
        x = gnp.atleast_2d(as_array("gaussian_kde", points))
        if is_complex(x.dtype):
            raise NotImplementedError("gaussian_kde does not support complex coordinates")
        if x.shape[0] == self.d:
            return x
        if x.shape == (1, self.d):
            return gnp.reshape(x, (self.d, 1))
        raise ValueError(f"points have dimension {x.shape[0]}, dataset has dimension {self.d}")

    def _at_points(self, points: ArrayLike, reduce: Callable[[Array], Array]) -> Array:
        """Reduce the logarithms of the weighted normal densities at each point."""
        x, samples, weights, precision = promoted(
            "gaussian_kde", self._points(points), self.dataset, self.weights, self.inv_cov
        )
        whitening = linalg.cholesky(precision, lower=True)
        white, centres = (gnp.dot(v.T, whitening) for v in (x, samples))
        log_norm = gnp.sum(gnp.log(gnp.diag(whitening))) - 0.5 * self.d * math.log(2 * math.pi)
        log_weights = gnp.log(weights) + log_norm

        def at(point: Array) -> Array:
            return reduce(log_weights - 0.5 * gnp.sum((point[None] - centres) ** 2, -1))

        densities: Array = map_in_blocks(at, white, centres.size)
        return densities

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points ``(dimensions, m)``, or ``(m,)``."""
        return self._at_points(points, lambda logs: gnp.sum(gnp.exp(logs)))

    def __call__(self, points: ArrayLike) -> Array:
        """See `evaluate`."""
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """See `evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density."""
        return self._at_points(x, special.logsumexp)

    def _overlaps(self, covariance: Array, means: Array) -> Array:
        """Integrals of the density times normal densities with given means, ``(dimensions, m)``.

        ``covariance`` is the sum of both covariances.
        """
        factor = linalg.cho_factor(covariance)
        norm = math.sqrt(2 * math.pi) ** self.d * gnp.prod(gnp.diag(factor[0]))

        def overlap(mean: Array) -> Array:
            offsets = self.dataset - mean[:, None]
            distances = gnp.sum(offsets * linalg.cho_solve(factor, offsets), 0)
            return gnp.sum(gnp.exp(-0.5 * distances) * self.weights)

        overlaps: Array = map_in_blocks(overlap, means.T, self.dataset.size)
        return overlaps / norm

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times a normal density."""
        centre = gnp.atleast_1d(gnp.squeeze(gnp.asarray(mean)))
        covariance = gnp.atleast_2d(gnp.asarray(cov))
        if centre.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}, got shape {centre.shape}")
        if covariance.shape != (self.d, self.d):
            raise ValueError(
                f"covariance does not have dimension {self.d}, got shape {covariance.shape}"
            )
        return self._overlaps(self.covariance + covariance, centre[:, None])[0]

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The integral of a density of one dimension between two numbers."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if np.ndim(low) or np.ndim(high):
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        sigma = gnp.sqrt(self.covariance[0, 0])
        parts = [special.ndtr((limit - self.dataset[0]) / sigma) for limit in (high, low)]
        return gnp.sum(self.weights * (parts[0] - parts[1]))

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product with another estimated density."""
        if other.d != self.d:
            raise ValueError(f"KDEs are not the same dimensionality: {self.d} and {other.d}")
        overlaps = self._overlaps(self.covariance + other.covariance, other.dataset)
        return gnp.sum(overlaps * other.weights)

    def resample(self, key: ArrayLike, shape: ShapeLike = ()) -> Array:
        """Draw from the density.

        Args:
          key: a random key.
          shape: the shape of the draws.
        Returns:
          ``(dimensions, *shape)``.
        """
        chosen_key, noise_key = random.split(key)
        chosen = random.choice(chosen_key, self.n, shape=shape, p=self.weights)
        noise = random.multivariate_normal(
            noise_key,
            gnp.zeros(self.d, self.covariance.dtype),
            self.covariance,
            shape=shape,
            dtype=self.dataset.dtype,
        )
        return self.dataset[:, chosen] + lax.transpose(noise, tuple(range(noise.ndim))[::-1])

    def integrate_box(
        self, low_bounds: ArrayLike, high_bounds: ArrayLike, maxpts: int | None = None
    ) -> Array:
        """Not supported, as in JAX."""
        raise NotImplementedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method: BandwidthMethod = None) -> None:
        """Not supported, as in JAX; make a new estimator instead."""
        raise NotImplementedError("dynamically changing the bandwidth method is not supported")
