"""Unit quaternions ``(x, y, z, w)`` in the last dimension of an array; other forms of rotations.

A quaternion and its negative are the same rotation. Each function is differentiable wherever the
rotation is, including angles of zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gnomon.numpy as gnp
from gnomon import lax
from gnomon._arrays.array import Array

__all__ = [
    "angle_of",
    "canonical",
    "composed",
    "euler_of",
    "from_axis",
    "from_euler",
    "from_matrix",
    "from_mrp",
    "from_rotvec",
    "inverse",
    "matrix_of",
    "mrp_of",
    "normalized",
    "rotvec_of",
]

# Below this angle, in radians, quotients of sines are computed by the first terms of their series.
_SMALL = 1e-3


def _inner(a: Array, b: Array) -> Array:
    return gnp.sum(a * b, axis=-1, keepdims=True)


def _norm(v: Array) -> Array:
    """The length of vectors, ``(..., 1)``, without underflow; its derivative at zero is zero."""
    largest = lax.stop_gradient(gnp.max(abs(v), axis=-1, keepdims=True))
    there = largest > 0
    scaled = v / gnp.where(there, largest, 1)
    return largest * gnp.sqrt(gnp.where(there, _inner(scaled, scaled), 1))


def normalized(q: Array) -> Array:
    """Scale quaternions to length one."""
    return q / _norm(q)


def inverse(q: Array) -> Array:
    """The inverse rotations."""
    return gnp.concatenate([-q[..., :3], q[..., 3:]], axis=-1)


def canonical(q: Array) -> Array:
    """Choose the sign of a quaternion: the first nonzero one of w, x, y and z is positive."""
    x, y, z, w = (q[..., i] for i in range(4))
    first = gnp.where(
        gnp.not_equal(w, 0),
        w,
        gnp.where(gnp.not_equal(x, 0), x, gnp.where(gnp.not_equal(y, 0), y, z)),
    )
    return gnp.where(first[..., None] < 0, -q, q)


def composed(p: Array, q: Array) -> Array:
    """The rotation by ``q``, and then by ``p``: Hamilton's product."""
    u, s = p[..., :3], p[..., 3:]
    v, t = q[..., :3], q[..., 3:]
    return gnp.concatenate([s * v + t * u + gnp.cross(u, v), s * t - _inner(u, v)], axis=-1)


def from_axis(axis: int, angle: Array) -> Array:
    """Rotations by angles ``(...)`` about a coordinate axis."""
    half = angle / 2
    zero = gnp.zeros_like(half)
    parts = [gnp.sin(half) if i == axis else zero for i in range(3)]
    return gnp.stack([*parts, gnp.cos(half)], axis=-1)


def angle_of(q: Array) -> Array:
    """The angle ``(...)``, from 0 to pi."""
    return 2 * gnp.atan2(_norm(q[..., :3]), abs(q[..., 3:]))[..., 0]


# ------------------------------------------------------------------------------- rotation vectors


def from_rotvec(v: Array) -> Array:
    """The quaternions of rotation vectors: along the axes, with angles in radians as lengths."""
    square, angle = _inner(v, v), _norm(v)
    away = angle > _SMALL
    near = 0.5 - square / 48
    scale = gnp.where(away, gnp.sin(angle / 2) / gnp.where(away, angle, 1), near)
    return gnp.concatenate([scale * v, gnp.cos(angle / 2)], axis=-1)


def rotvec_of(q: Array) -> Array:
    """Rotation vectors: along the axes, with the angles as lengths, which are at most pi."""
    q = canonical(q)
    angle = angle_of(q)[..., None]
    away = angle > _SMALL
    near = 2 + angle * angle / 12
    scale = gnp.where(away, angle / gnp.where(away, gnp.sin(angle / 2), 1), near)
    return scale * q[..., :3]


# --------------------------------------------------------------- modified Rodrigues parameters


def from_mrp(m: Array) -> Array:
    """The quaternions of vectors along the axes whose lengths are tangents of a quarter angle."""
    square = _inner(m, m)
    return gnp.concatenate([2 * m, 1 - square], axis=-1) / (1 + square)


def mrp_of(q: Array) -> Array:
    """Vectors along the axes whose lengths are tangents of a quarter angle, which are at most 1."""
    q = gnp.where(q[..., 3:] < 0, -q, q)
    return q[..., :3] / (1 + q[..., 3:])


# --------------------------------------------------------------------------------------- matrices


def matrix_of(q: Array) -> Array:
    """The matrices ``(..., 3, 3)`` that rotate columns."""
    x, y, z, w = (q[..., i] for i in range(4))
    rows = (
        (w * w + x * x - y * y - z * z, 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), w * w - x * x + y * y - z * z, 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), w * w - x * x - y * y + z * z),
    )
    return gnp.stack([gnp.stack(row, axis=-1) for row in rows], axis=-2)


def from_matrix(m: Array) -> Array:
    """The quaternions of orthogonal matrices with determinant one.

    Definition: F. L. Markley, Unit Quaternion from Rotation Matrix (2008). Of four formulas for the
    same quaternion, take the one with the smallest rounding errors.
    """
    entry = [[m[..., i, j] for j in range(3)] for i in range(3)]
    trace = entry[0][0] + entry[1][1] + entry[2][2]
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts: dict[int, Any] = {
            i: 1 - trace + 2 * entry[i][i],
            j: entry[j][i] + entry[i][j],
            k: entry[k][i] + entry[i][k],
            3: entry[k][j] - entry[j][k],
        }
        candidates.append(gnp.stack([parts[n] for n in range(4)], axis=-1))
    vector = [entry[(i + 2) % 3][(i + 1) % 3] - entry[(i + 1) % 3][(i + 2) % 3] for i in range(3)]
    candidates.append(gnp.stack([*vector, 1 + trace], axis=-1))
    sizes = gnp.stack([*(entry[i][i] for i in range(3)), trace], axis=-1)
    best = gnp.argmax(sizes, axis=-1)[..., None, None]
    chosen = gnp.take_along_axis(gnp.stack(candidates, axis=-2), best, axis=-2)[..., 0, :]
    return normalized(chosen)


# ------------------------------------------------------------------------------------ Euler angles


def from_euler(axes: tuple[int, ...], angles: Array, *, intrinsic: bool) -> Array:
    """Rotations about one axis after another, by angles ``(..., len(axes))``."""
    q = from_axis(axes[0], angles[..., 0])
    for i, axis in enumerate(axes[1:], 1):
        turn = from_axis(axis, angles[..., i])
        # Intrinsic axes turn with the body; extrinsic axes are fixed.
        q = composed(q, turn) if intrinsic else composed(turn, q)
    return q


def euler_of(q: Array, axes: tuple[int, int, int], *, intrinsic: bool) -> Array:
    """Euler angles ``(..., 3)`` about three axes.

    The middle angle is in [0, pi], or in [-pi/2, pi/2] if all three axes are different.

    If the rotated first axis and the third axis are parallel, the third angle is zero.

    Definition: E. Bernardes, S. Viollet, Quaternion to Euler angles conversion: A direct, general
    and computationally efficient method (2022).
    """
    i, j, k = axes[::-1] if intrinsic else axes
    is_proper = i == k
    if is_proper:
        k = 3 - i - j
    parity = (i - j) * (j - k) * (k - i) // 2
    a, b, c, d = q[..., 3], q[..., i], q[..., j], q[..., k] * parity
    if not is_proper:
        a, b, c, d = a - c, b + d, c + a, d - b
    middle = 2 * gnp.atan2(_hypot(c, d), _hypot(a, b))
    half_sum, half_difference = _atan2(b, a), _atan2(d, c)
    first, third = half_sum - half_difference, half_sum + half_difference
    if intrinsic:
        first, third = third, first
    edge = 4 * float(np.finfo(middle.dtype).eps)
    at_start, at_end = middle <= edge, middle >= np.pi - edge
    lost = 2 * (half_difference if intrinsic else -half_difference)
    first = gnp.where(at_start, 2 * half_sum, gnp.where(at_end, lost, first))
    third = gnp.where(at_start | at_end, 0, third)
    if not is_proper:
        middle = middle - np.array(np.pi / 2, middle.dtype)
        # The sign belongs to the angle about the third of the fixed axes.
        if intrinsic:
            first = first * parity
        else:
            third = third * parity
    angles = gnp.stack([first, middle, third], axis=-1)
    turn = np.array(2 * np.pi, angles.dtype)
    half_turn = turn / 2
    angles = gnp.where(angles < -half_turn, angles + turn, angles)
    return gnp.where(angles > half_turn, angles - turn, angles)


def _hypot(a: Array, b: Array) -> Array:
    return _norm(gnp.stack([a, b], axis=-1))[..., 0]


def _atan2(y: Array, x: Array) -> Array:
    """The angle of a point; at the origin, the angle and its derivative are zero."""
    there = gnp.not_equal(x, 0) | gnp.not_equal(y, 0)
    return gnp.where(there, lax.atan2(y, gnp.where(there, x, 1)), 0)
