"""The geometry of a convolution's windows: dimension numbers, padding and dilation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.dialects.combinators import normalized, require
from gnomon.dialects.symbolic.dimension import surely_at_most
from gnomon.dialects.types import TensorType
from gnomon.dialects.window_folds import dilated, windows_in

Dims = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]

OP = "conv_general_dilated"


def permuted(shape: Dims, order: Dims) -> Dims:
    """The sizes of a shape in another order."""
    return tuple(shape[d] for d in order)


def inverse(order: Dims) -> Dims:
    """The permutation that undoes ``order``."""
    return tuple(order.index(d) for d in range(len(order)))


@dataclass(frozen=True)
class Geometry:
    """The parameters that determine which elements are multiplied.

    A spec lists the dimensions of an array in canonical order: ``(batch, feature, *spatial)`` for
    ``lhs`` and the result, ``(out feature, in feature, *spatial)`` for ``rhs``.
    """

    lhs_spec: Dims
    rhs_spec: Dims
    out_spec: Dims
    window_strides: Dims
    padding: Pads
    lhs_dilation: Dims
    rhs_dilation: Dims
    feature_group_count: int
    batch_group_count: int

    @staticmethod
    def of(params: Mapping[str, Any]) -> Geometry:
        """Extract the geometry from an op's parameters."""
        return Geometry(*(params[name] for name in Geometry.__dataclass_fields__))

    @property
    def params(self) -> dict[str, Any]:
        """The geometry as an op's parameters."""
        return dict(vars(self))

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.window_strides)

    @property
    def groups(self) -> int:
        """The number of groups; at most one of the two group counts is not 1."""
        return self.feature_group_count * self.batch_group_count

    def check(self, lhs: TensorType, rhs: TensorType) -> None:
        """Raise `TypeRuleError` unless the geometry fits the operands."""
        rank = self.rank
        require(
            lhs.rank == rhs.rank == rank + 2,
            OP,
            f"{rank} window strides require operands of rank {rank + 2}, got {lhs} and {rhs}",
        )
        for spec in (self.lhs_spec, self.rhs_spec, self.out_spec):
            require(
                len(normalized(spec, rank + 2, OP)) == rank + 2,
                OP,
                f"a spec must order all {rank + 2} dimensions, got {spec}",
            )
        for name in ("padding", "lhs_dilation", "rhs_dilation"):
            given = getattr(self, name)
            require(
                len(given) == rank,
                OP,
                f"{name} must have one entry per spatial dimension ({rank}), got {given}",
            )
        for name in ("window_strides", "lhs_dilation", "rhs_dilation"):
            given = getattr(self, name)
            require(all(n >= 1 for n in given), OP, f"{name} must be positive, got {given}")
        self._check_groups(lhs, rhs)
        for size, dilation, pads in zip(
            permuted(lhs.shape, self.lhs_spec)[2:], self.lhs_dilation, self.padding, strict=True
        ):
            require(
                not surely_at_most(dilated(size, dilation) + sum(pads), -1),
                OP,
                f"padding {pads} removes more than the dilated size {dilated(size, dilation)} "
                f"of {lhs}",
            )

    def _check_groups(self, lhs: TensorType, rhs: TensorType) -> None:
        counts = {
            "feature_group_count": self.feature_group_count,
            "batch_group_count": self.batch_group_count,
        }
        for name, count in counts.items():
            require(count >= 1, OP, f"{name} must be positive, got {count}")
        require(1 in counts.values(), OP, f"one of the two group counts must be 1, got {counts}")
        batch, features = permuted(lhs.shape, self.lhs_spec)[:2]
        out_features, in_features = permuted(rhs.shape, self.rhs_spec)[:2]
        require(
            features == in_features * self.feature_group_count,
            OP,
            f"the {features} features of lhs {lhs} must equal the {in_features} input features of "
            f"rhs {rhs} times feature_group_count = {self.feature_group_count}",
        )
        require(
            out_features % self.groups == 0,
            OP,
            f"the {out_features} output features of rhs {rhs} cannot be split into {self.groups} "
            "groups",
        )
        require(
            batch % self.batch_group_count == 0,
            OP,
            f"the batch of {batch} of lhs {lhs} cannot be split into batch_group_count = "
            f"{self.batch_group_count} groups",
        )

    def out_sizes(self, lhs: Dims, rhs: Dims) -> Dims:
        """The spatial sizes of the result, from the shapes of the operands."""
        sizes = []
        for d in range(self.rank):
            span = dilated(lhs[self.lhs_spec[d + 2]], self.lhs_dilation[d]) + sum(self.padding[d])
            window = dilated(rhs[self.rhs_spec[d + 2]], self.rhs_dilation[d])
            sizes.append(windows_in(span, window, self.window_strides[d]))
        return tuple(sizes)

    def out_shape(self, lhs: Dims, rhs: Dims) -> Dims:
        """The shape of the result, from the shapes of the operands."""
        canonical = (
            lhs[self.lhs_spec[0]] // self.batch_group_count,
            rhs[self.rhs_spec[0]],
            *self.out_sizes(lhs, rhs),
        )
        return permuted(canonical, inverse(self.out_spec))

    def terms(self, rhs: Dims) -> int:
        """The number of products in each sum."""
        return math.prod(permuted(rhs, self.rhs_spec)[1:])
