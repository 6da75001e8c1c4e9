"""Rows of Fourier transforms, against the matrix of the transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.row import Operand, Row

Dims = tuple[int, ...]


def _matrix(length: int, sign: int) -> np.ndarray:
    counts = np.arange(length)
    return np.exp(sign * 2j * np.pi * np.outer(counts, counts) / max(length, 1))


def _by_matrices(x: np.ndarray, kind: str, lengths: Dims) -> np.ndarray:
    sign = -1 if kind in ("FFT", "RFFT") else 1
    first = x.ndim - len(lengths)
    y = x.astype(np.complex128)
    for d, length in list(enumerate(lengths, start=first))[: -1 if kind == "IRFFT" else None]:
        y = np.moveaxis(np.moveaxis(y, d, -1) @ _matrix(length, sign), -1, d)
    if kind == "RFFT":
        y = y[..., : lengths[-1] // 2 + 1]
    if kind == "IRFFT":
        length = lengths[-1]
        rest = y[..., 1 : length - length // 2][..., ::-1].conj()
        y = (np.concatenate([y, rest], -1) @ _matrix(length, sign)).real
    return y / np.prod(lengths) if sign > 0 else y


def _row(kind: str, shape: Dims, lengths: Dims, label: str = "") -> Row:
    real = kind == "RFFT"

    def reference(x: np.ndarray) -> np.ndarray:
        out: Any = _by_matrices(x, kind, lengths)
        wide = x.dtype in (np.float64, np.complex128)
        if kind == "IRFFT":
            return out.astype(np.float64 if wide else np.float32)
        return out.astype(np.complex128 if wide else np.complex64)

    return Row(
        "fft",
        (Operand(shape),),
        reference,
        {"kind": kind, "lengths": lengths},
        dtypes="f32 f64" if real else "c64 c128",
        differentiable=(0,),
        ulps=64.0,
        label=f"{kind.lower()}-{label or 'x'.join(map(str, lengths))}",
    )


ROWS = [
    _row("FFT", (2, 6), (6,)),
    _row("FFT", (1,), (1,)),
    _row("FFT", (37,), (37,)),
    _row("FFT", (2, 3, 4), (3, 4)),
    _row("FFT", (2, 0, 3), (0, 3), "empty"),
    _row("IFFT", (3, 5), (5,)),
    _row("IFFT", (2, 3, 2, 2), (3, 2, 2)),
    _row("RFFT", (2, 6), (6,)),
    _row("RFFT", (7,), (7,)),
    _row("RFFT", (3, 1), (1,)),
    _row("RFFT", (3, 4), (3, 4)),
    _row("IRFFT", (2, 4), (6,)),
    _row("IRFFT", (4,), (7,)),
    _row("IRFFT", (2, 1), (1,)),
    _row("IRFFT", (3, 3), (3, 5)),
    _row("IRFFT", (0, 3), (4,), "empty"),
    _row("IRFFT", (2, 0), (0,), "no-points"),
]
