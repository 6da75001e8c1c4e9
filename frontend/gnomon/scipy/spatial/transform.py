"""Rotations in space: `Rotation`, and `Slerp` between several of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gnomon.numpy as gnp
from gnomon import random as gr
from gnomon._arrays.annotations import DTypeLike
from gnomon._arrays.array import Array
from gnomon._tracing.bind import with_weak_type
from gnomon.numpy._arguments import promoted
from gnomon.scipy.spatial import _quaternions as quaternions

__all__ = ["Rotation", "Slerp"]


def _vectors(function: str, x: Any, size: int, what: str) -> Array:
    """Check vectors of a given length: a single one, or several along the first dimension."""
    (v,) = promoted(function, gnp.asarray(x), inexact=True)
    if v.ndim not in (1, 2) or v.shape[-1] != size:
        raise ValueError(
            f"{function}: {what} must have shape ({size},) or (n, {size}), got {v.shape}"
        )
    return v


class Rotation(NamedTuple):
    """A rotation of space, or several of them: a pytree of their quaternions.

    Definition: ``scipy.spatial.transform.Rotation``.

    Attributes:
      quat: ``(x, y, z, w)`` of length one, ``(4,)`` or ``(n, 4)``.

    Example:
      >>> import gnomon.numpy as gnp
      >>> quarter = Rotation.from_euler("z", 90, degrees=True)
      >>> print(gnp.round(quarter.apply(gnp.array([1.0, 0.0, 0.0])), 3))
      [0. 1. 0.]
      >>> print((quarter * quarter).magnitude())
      3.1415927
    """

    quat: Array

    # -------------------------------------------------------------------------------- construction

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """The rotations of quaternions ``(x, y, z, w)`` of any length other than zero."""
        return cls(quaternions.normalized(_vectors("Rotation.from_quat", quat, 4, "quat")))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """The rotations of orthogonal matrices of determinant 1, ``(3, 3)`` or ``(n, 3, 3)``."""
        (m,) = promoted("Rotation.from_matrix", gnp.asarray(matrix), inexact=True)
        if m.ndim not in (2, 3) or m.shape[-2:] != (3, 3):
            raise ValueError(
                f"Rotation.from_matrix: matrix must have shape (3, 3) or (n, 3, 3), got {m.shape}"
            )
        return cls(quaternions.from_matrix(m))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """The rotations of vectors ``(3,)`` or ``(n, 3)``: along the axes, angles as lengths."""
        v = _vectors("Rotation.from_rotvec", rotvec, 3, "rotvec")
        return cls(quaternions.from_rotvec(gnp.deg2rad(v) if degrees else v))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """The rotations of modified Rodrigues parameters, ``(3,)`` or ``(n, 3)``."""
        return cls(quaternions.from_mrp(_vectors("Rotation.from_mrp", mrp, 3, "mrp")))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """The rotations by angles about coordinate axes, one after the other.

        Args:
          seq: one to three letters of ``"xyz"`` for fixed axes, or of ``"XYZ"`` for axes that
            rotate with the body.
          angles: a number or ``(len(seq),)`` for one rotation; ``(n, len(seq))`` for several
            rotations, or ``(n,)`` for several about one axis.
        Raises:
          ValueError: ``seq`` is not valid, or the angles have another shape.
        """
        axes, intrinsic = _axes_of(seq)
        (a,) = promoted("Rotation.from_euler", gnp.asarray(angles), inexact=True)
        if a.ndim < 2 and len(axes) == 1:
            # A number, or one for each rotation.
            a = a[..., None]
        if a.ndim not in (1, 2) or a.shape[-1] != len(axes):
            raise ValueError(
                f"Rotation.from_euler: angles of shape {a.shape} are not one for each axis of "
                f"{seq!r}"
            )
        if degrees:
            a = gnp.deg2rad(a)
        return cls(quaternions.from_euler(axes, a, intrinsic=intrinsic))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """The identity, or ``num`` identities."""
        one = gnp.array([0, 0, 0, 1], dtype)
        return cls(one if num is None else gnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Uniformly distributed random rotations."""
        return cls.from_quat(gr.normal(random_key, (4,) if num is None else (num, 4)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Join rotations into a sequence."""
        return cls(gnp.concatenate([gnp.atleast_2d(each.quat) for each in rotations]))

    # ------------------------------------------------------------------------------- as a sequence

    @property
    def single(self) -> bool:
        """Whether the object is a single rotation and not a sequence."""
        return self.quat.ndim == 1

    def __getitem__(self, indexer: Any) -> Rotation:  # type: ignore[override]
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return int(self.quat.shape[0])

    # ---------------------------------------------------------------------------------- operations

    def __mul__(self, other: Any) -> Rotation:
        """The rotation by ``other``, and then by this one."""
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(quaternions.normalized(quaternions.composed(self.quat, other.quat)))

    def inv(self) -> Rotation:
        """The inverse."""
        return Rotation(quaternions.inverse(self.quat))

    def apply(self, vectors: Any, inverse: bool = False) -> Array:
        """Rotate vectors ``(3,)`` or ``(n, 3)``; vectors and rotations broadcast."""
        v = _vectors("Rotation.apply", vectors, 3, "vectors")
        matrix = self.as_matrix()
        if inverse:
            matrix = matrix.swapaxes(-1, -2)
        return gnp.matmul(matrix, v[..., None], precision="highest")[..., 0]

    def magnitude(self) -> Array:
        """The angles, from 0 to pi."""
        return quaternions.angle_of(self.quat)

    def mean(self, weights: Any = None) -> Rotation:
        """The mean of the rotations, which minimizes the sum of squared chords.

        Definition: F. L. Markley et al., Averaging Quaternions (2007).
        """
        q = gnp.atleast_2d(self.quat)
        if weights is not None:
            (w,) = promoted("Rotation.mean", gnp.asarray(weights), inexact=True)
            if w.shape != q.shape[:1]:
                raise ValueError(
                    f"Rotation.mean: weights of shape {w.shape} are not one for each of "
                    f"{q.shape[0]} rotations"
                )
        else:
            w = gnp.ones(q.shape[0], q.dtype)
        moments = gnp.matmul((w[:, None] * q).T, q, precision="highest")
        return Rotation(gnp.linalg.eigh(moments)[1][:, -1])

    # ------------------------------------------------------------------------------- as other forms

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions.

        Args:
          canonical: choose the sign of each quaternion so that ``w > 0``; if w is zero, the first
            nonzero component is positive.
          scalar_first: return ``(w, x, y, z)``.
        """
        q = quaternions.canonical(self.quat) if canonical else self.quat
        return gnp.roll(q, 1, axis=-1) if scalar_first else q

    def as_matrix(self) -> Array:
        """Matrices, ``(3, 3)`` or ``(n, 3, 3)``."""
        return with_weak_type(quaternions.matrix_of(self.quat), False)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Rotation vectors: along the axes, with the angles as lengths."""
        v = quaternions.rotvec_of(self.quat)
        return gnp.rad2deg(v) if degrees else v

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters."""
        return quaternions.mrp_of(self.quat)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles about three coordinate axes, see `from_euler`: ``(3,)`` or ``(n, 3)``.

        Raises:
          ValueError: ``seq`` does not have three axes, or has the same one twice in a row.
        """
        axes, intrinsic = _axes_of(seq)
        if len(axes) != 3:
            raise ValueError(f"Expected 3 axes, got {seq}.")
        first, middle, last = axes
        if middle in (first, last):
            raise ValueError(f"Expected consecutive axes to be different, got {seq}")
        angles = quaternions.euler_of(self.quat, (first, middle, last), intrinsic=intrinsic)
        return gnp.rad2deg(angles) if degrees else angles


def _axes_of(seq: str) -> tuple[tuple[int, ...], bool]:
    """The axes, and whether they rotate with the body."""
    for letters, intrinsic in (("xyz", False), ("XYZ", True)):
        if 1 <= len(seq) <= 3 and set(seq) <= set(letters):
            return tuple(map(letters.index, seq)), intrinsic
    raise ValueError(
        "Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], one to three of "
        f"them, got {seq!r}"
    )


class Slerp(NamedTuple):
    """Interpolation between given rotations, at constant angular speed: a pytree.

    Definition: ``scipy.spatial.transform.Slerp``. It is made by `init`.

    Attributes:
      times: ``(n,)``, increasing.
      timedelta: the differences of the times.
      rotations: the rotations at all times but the last.
      rotvecs: ``(n - 1, 3)``, the rotations from each one to the next.

    Example:
      >>> import gnomon.numpy as gnp
      >>> turns = Rotation.from_euler("z", [0.0, 90.0], degrees=True)
      >>> print(gnp.round(Slerp.init([0, 1], turns)(0.5).as_rotvec(degrees=True), 3))
      [ 0.  0. 45.]
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """Interpolate between rotations at given times.

        Args:
          times: ``(n,)``, which must increase (this is not checked).
          rotations: two or more rotations.
        Raises:
          TypeError: ``rotations`` is not a `Rotation`.
          ValueError: there are fewer than two rotations, or their number is not that of the times.
        """
        if not isinstance(rotations, Rotation):
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        quat = rotations.quat
        at = gnp.asarray(times, dtype=quat.dtype)
        if at.shape != quat.shape[:1]:
            raise ValueError(
                f"Expected a time for each rotation, got times of shape {at.shape} and "
                f"{len(rotations)} rotations"
            )
        before, after = Rotation(quat[:-1]), Rotation(quat[1:])
        return cls(at, gnp.diff(at), before, (before.inv() * after).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at times; beyond the first and the last time, they are extrapolated."""
        t = gnp.asarray(times, dtype=self.times.dtype)
        if t.ndim > 1:
            raise ValueError(f"`times` must be at most 1-dimensional, got shape {t.shape}")
        last = self.timedelta.shape[0] - 1
        place = gnp.clip(gnp.searchsorted(self.times, t, side="right") - 1, 0, last)
        part = (t - self.times[place]) / self.timedelta[place]
        turn = Rotation(quaternions.from_rotvec(self.rotvecs[place] * part[..., None]))
        return Rotation(self.rotations.quat[place]) * turn
