"""Interpolation on rectangular grids."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import gnomon.numpy as gnp
from gnomon import tree_util
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays.array import Array
from gnomon.numpy._arguments import as_array, promoted

__all__ = ["RegularGridInterpolator"]

_METHODS = ("linear", "nearest")


@tree_util.register_pytree_node_class
class RegularGridInterpolator:
    """Interpolation of a function that is known on a rectangular grid.

    Args:
      points: for each dimension of the grid, its coordinates, strictly increasing.
      values: the values on the grid: an array whose first dimensions are those of the grid.
      method: ``"linear"`` or ``"nearest"``.
      bounds_error: must be false.
      fill_value: the value outside of the grid; None to extrapolate.
    Raises:
      NotImplementedError: ``bounds_error`` is true.
      ValueError: there are more coordinates than dimensions, the fill value cannot be cast to the
        dtype of the values, or the method is unknown.

    Example:
      >>> import gnomon.numpy as gnp
      >>> f = RegularGridInterpolator((gnp.array([0.0, 1.0]),), gnp.array([10.0, 20.0]))
      >>> f(gnp.array([[0.25], [2.0]]))
      Array([12.5,  nan], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        _check_method(method)
        if bounds_error:
            raise NotImplementedError(
                "RegularGridInterpolator: bounds_error=True is not supported, because compiled "
                "code cannot raise; pass fill_value"
            )
        (self.values,) = promoted(
            "RegularGridInterpolator", as_array("RegularGridInterpolator", values), inexact=True
        )
        if len(points) > self.values.ndim:
            raise ValueError(
                f"there are {len(points)} point arrays, but values has {self.values.ndim} "
                "dimensions"
            )
        if fill_value is not None:
            fill_value = as_array("RegularGridInterpolator", fill_value)
            if not _dtypes.can_cast(fill_value.dtype, self.values.dtype, casting="same_kind"):
                raise ValueError(
                    "fill_value must be either 'None' or of a type compatible with values, got "
                    f"{fill_value.dtype.name} for {self.values.dtype.name}"
                )
        self.grid = tuple(as_array("RegularGridInterpolator", p, i) for i, p in enumerate(points))
        self.fill_value = fill_value
        self.method: str = method
        self.bounds_error: bool = bounds_error

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[str, bool]]:
        """Flatten the interpolator, which is a pytree."""
        return (self.grid, self.values, self.fill_value), (self.method, self.bounds_error)

    @classmethod
    def tree_unflatten(
        cls, aux_data: tuple[str, bool], children: Sequence[Any]
    ) -> RegularGridInterpolator:
        """The inverse of `tree_flatten`."""
        made = cls.__new__(cls)
        made.grid, made.values, made.fill_value = children
        made.method, made.bounds_error = aux_data
        return made

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The values at points.

        Args:
          xi: points ``(..., dimensions)``, or a tuple of the coordinates of each dimension.
          method: the method; by default that of the interpolator.
        Returns:
          An array of shape ``(..., further dimensions of the values)``.
        """
        method = self.method if method is None else method
        _check_method(method)
        rank = len(self.grid)
        x = _coordinates(xi, rank)
        if x.shape[-1] != rank:
            raise ValueError(
                f"the requested sample points xi have dimension {x.shape[-1]}, but this "
                f"RegularGridInterpolator has dimension {rank}"
            )
        flat = gnp.reshape(x, (-1, rank))
        cells = [_cell(flat[:, i], grid) for i, grid in enumerate(self.grid)]
        result = self._linear(cells) if method == "linear" else self._nearest(cells)
        if method == "nearest":
            # No comparison with nan is true, which would select a neighbour.
            lost = gnp.reshape(gnp.isnan(flat).any(-1), (-1, *(1,) * (result.ndim - 1)))
            result = gnp.where(lost, np.nan, result)
        if self.fill_value is not None:
            outside = functools.reduce(operator.or_, (out for _, _, out in cells))
            outside = gnp.reshape(outside, (-1, *(1,) * (result.ndim - 1)))
            result = gnp.where(outside, self.fill_value, result)
        return gnp.reshape(result, (*x.shape[:-1], *self.values.shape[rank:]))

    def _linear(self, cells: list[tuple[Array, Array, Array]]) -> Array:
        total: Any = 0.0
        for corner in itertools.product((0, 1), repeat=len(cells)):
            weights = [
                part if upper else 1 - part
                for upper, (_, part, _) in zip(corner, cells, strict=True)
            ]
            weight = functools.reduce(operator.mul, weights)
            place = tuple(i + upper for upper, (i, _, _) in zip(corner, cells, strict=True))
            values = self.values[place]
            total = total + values * gnp.reshape(weight, (-1, *(1,) * (values.ndim - 1)))
        return total

    def _nearest(self, cells: list[tuple[Array, Array, Array]]) -> Array:
        place = tuple(gnp.where(part <= 0.5, i, i + 1) for i, part, _ in cells)
        return self.values[place]


def _check_method(method: str) -> None:
    if method not in _METHODS:
        raise ValueError(f"method {method!r} is not defined; it is one of {', '.join(_METHODS)}")


def _coordinates(xi: Any, rank: int) -> Array:
    if isinstance(xi, tuple) and len(xi) == 1:
        (xi,) = xi
    if isinstance(xi, tuple):
        parts = gnp.broadcast_arrays(*(as_array("xi", x, i) for i, x in enumerate(xi)))
        return gnp.stack(parts, -1)
    x = as_array("xi", xi)
    if x.ndim == 1:
        return gnp.reshape(x, (-1, 1) if rank == 1 else (1, -1))
    return x


def _cell(x: Array, grid: Array) -> tuple[Array, Array, Array]:
    """The cell of each coordinate, the position in the cell, and whether it is outside."""
    place = gnp.clip(gnp.searchsorted(grid, x) - 1, 0, grid.size - 2)
    low, high = grid[place], grid[place + 1]
    return place, (x - low) / (high - low), (x < grid[0]) | (x > grid[-1])
