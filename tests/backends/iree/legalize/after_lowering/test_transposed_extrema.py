"""Positions of extrema that are transposed at once, later, or in part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.backends.iree.joined import Call, check_joined

X = np.cos(np.arange(24)).astype(np.float32).reshape(2, 3, 4)

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "at once": lambda x: gnp.argmin(x, 2).T,
    "axis 0": lambda x: gnp.argmax(x, 0).T,
    "of one element": lambda x: gnp.argmin(x[..., :1], 2).T,
    "reduced": lambda x: gnp.argmin(x, 2).T.sum(1),
    "reduced first": lambda x: gnp.argmin(gnp.stack([x, -x]), 3).sum(0).T,
    "twice": lambda x: (a := gnp.argmax(x, 1), a.T, a.T + 1),
    "kept": lambda x: gnp.argmin(x, 2, keepdims=True).transpose(2, 1, 0),
    "part": lambda x: gnp.argmax(x, 2)[:, 1:].T,
    "computed": lambda x: (gnp.argmax(x, 2) * 2).T + gnp.arange(2),
    "nan": lambda x: gnp.nanargmax(x, 1).T,
    "both results": lambda x: [a.T for a in lax.reduce(
        (x, x.astype(np.int32)), (np.float32(9), np.int32(0)),
        lambda a, b: (gnp.minimum(a[0], b[0]), gnp.where(a[0] < b[0], a[1], b[1])), (1,))],
    "vmap": lambda x: gn.vmap(lambda r: gnp.argmin(r, 1), in_axes=1, out_axes=1)(x),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c + gnp.argmin(x + c.T[..., None], 2).T,
                                         gnp.zeros((3, 2), np.int32)),
}  # fmt: skip


def test_transposed_positions() -> None:
    calls: dict[str, Call] = {name: (f, (X,)) for name, f in PROGRAMS.items()}
    check_joined(calls)
