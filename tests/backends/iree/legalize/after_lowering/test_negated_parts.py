"""Concatenations and stacks of negated parts, such as rotations of some of the features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.backends.iree.joined import Call, check_joined

Q = np.array([1.5, -0.0, np.inf, np.nan, -4.0, 0.0, 7.0, 2.0], np.float32)


def rotated(x: Any, n: int) -> Any:
    """The first ``2 * n`` features, rotated by half, and the others."""
    return gnp.concatenate([-x[..., n : 2 * n], x[..., :n], x[..., 2 * n :]], axis=-1)


def times_i(q: Any) -> Any:
    return gnp.array([-q[1], q[0], q[3], -q[2]])


def cross_matrix(v: Any) -> Any:
    return gnp.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


PROGRAMS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "half of the features": (lambda x: rotated(x, 2), Q),
    "an odd number": (lambda x: rotated(x, 3), Q[:7]),
    "all features": (lambda x: rotated(x, 4), Q),
    "rows": (lambda x: rotated(x, 1), Q.reshape(2, 4)),
    "columns": (lambda x: rotated(x, 2), Q[:, None].T),
    "a dimension of one after it": (
        lambda x: gnp.concatenate([-x[2:4], x[:2], x[4:]]),
        Q[:, None],
    ),
    "twice": (lambda x: gnp.concatenate([-x[2:4], x[:2], -x[6:8], x[4:6]]), Q),
    "concatenated again": (
        lambda x: gnp.concatenate([gnp.concatenate([-x[2:4], x[:2]]), x[4:]]),
        Q,
    ),
    "a quaternion": (times_i, Q[:4]),
    "quaternions": (gn.vmap(times_i), Q.reshape(2, 4)),
    "a stack": (lambda x: gnp.stack([-x[:, 1], x[:, 0], x[:, 3]], axis=-1), Q.reshape(2, 4)),
    "a pair": (lambda x: gnp.stack([-x[..., 1], x[..., 0]], axis=-1), Q.reshape(4, 2)),
    "a cross product's matrix": (cross_matrix, Q[:3]),
    "fused": (lambda x: rotated(x, 2) * 0.5 + x, Q),
    "in a loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: rotated(c, 2) + 1, x), Q),
    "its derivative": (
        lambda x: gn.jvp(lambda x: rotated(x, 2) ** 2, (x,), (x,))[1],
        Q,
    ),
}


# The legalization asks only whether the dtype is floating, so the others have a third each.
@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        ("float32", list(PROGRAMS)),
        ("complex64", list(PROGRAMS)),
        *((d, list(PROGRAMS)[k::3]) for k, d in enumerate(("float64", "float16", "bfloat16"))),
    ],
)
def test_negated_parts(dtype: str, names: list[str]) -> None:
    def compare(found: np.ndarray, expected: np.ndarray) -> None:
        for part in (np.real, np.imag):
            ours, wanted = (part(x.astype(np.complex128)) for x in (found, expected))
            np.testing.assert_array_equal(ours, wanted)
            assert not np.any((np.signbit(ours) != np.signbit(wanted)) & (wanted == 0))

    calls: dict[str, Call] = {}
    with gn.enable_x64():
        for name in names:
            function, x = PROGRAMS[name]
            given = gnp.asarray(x).astype(dtype)
            if dtype == "complex64":
                given = gnp.where(gnp.isfinite(x), given + 2j * given[::-1], 1)
            calls[name] = function, (given,)
        check_joined(calls, compare)
