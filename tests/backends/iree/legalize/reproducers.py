"""Programs that IREE handles wrongly without a legalization, by its name."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.scipy import special

__all__ = ["REPRODUCERS", "Measure", "Reproducer"]

f32, f64, i32, u8 = np.float32, np.float64, np.int32, np.uint8
c64 = np.complex64
PORTABLE = "vulkan:portable"


class Measure(enum.Enum):
    """The measure of a program that is slow without a legalization."""

    OPERATIONS = "operations that the compiler is given"
    DISPATCHES = "calls of kernels"
    WAITS = "places where the host waits for the device"
    BYTES = "bytes of the executable"
    CPU_SECONDS = "seconds of processor time of a call"


@dataclass(frozen=True)
class Reproducer:
    """A program and how it fails.

    Attributes:
      function: the program.
      arguments: the arguments of the function.
      bound: the error that a right result may have.
      target: the target that it is compiled for.
      beside: the names of other legalizations, which would hide the failure; both runs leave them
        out.
      measure: the quantity that grows without the legalization, if the values stay right.
      factor: the least factor by which it grows.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    bound: float = 0.0
    target: str = "cpu"
    beside: tuple[str, ...] = ()
    measure: Measure | None = None
    factor: float = 1.5

    def lowered(self) -> tuple[str, tuple[Any, ...]]:
        """The program in the gnomon dialect, and its arguments."""
        wide = any(np.asarray(x).dtype in (f64, np.complex128) for x in self.arguments)
        with gn.enable_x64(wide):
            text = gn.jit(self.function).lower(*self.arguments).as_text("gnomon")
        return text, self.arguments


RNG = np.random.default_rng(0)
ROW = np.arange(1, 9, dtype=f32)
SMALL = ml_dtypes.bfloat16(0.01)
ROW_OF_256 = np.linspace(1, 2, 256, dtype=f32)
COMPLEX = (RNG.normal(size=9) + 1j * RNG.normal(size=9)).astype(c64)
ODD_COMPLEX = (np.cos(np.arange(50629)) + 1j * np.sin(np.arange(50629) ** 0.5)).astype(c64)
SQUARE = RNG.uniform(1, 2, (300, 300)).astype(f32)
SQUARE_F64 = RNG.uniform(-1, 1, (1024, 1024))
CUBE = np.cos(np.arange(120, dtype=f32)).reshape(4, 5, 6)


def _steps(w: Any, x: Any) -> Any:
    for _ in range(40):
        x = gnp.tanh(w @ x)
    return x


def _layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = gnp.mean(x, -1, keepdims=True)
    return (x - mean) / gnp.sqrt(gnp.var(x, -1, keepdims=True) + 1e-5) * scale + shift


def _solutions(a: Any, b: Any) -> Any:
    return lax.fori_loop(0, 300, lambda _, x: gnp.linalg.solve(a, x) + b, b)


def _spread(u: Any, i: Any) -> Any:
    updated = lax.dynamic_update_slice(gnp.zeros((3, 7), u.dtype), u, (i, 0))
    return lax.pad(updated, f32(0), [(0, 0, 1), (0, 0, 0)])


def _pools(x: Any) -> Any:
    def sums(v: Any) -> Any:
        return lax.reduce_window(v, np.zeros((), v.dtype), lax.add, (2, 2, 1), (1, 2, 1), "SAME")

    largest = lax.reduce_window(x, -np.inf, lax.max, (2, 2, 1), (1, 2, 1), "SAME")
    return sums(x.astype(np.float16)), sums(x), largest, sums(2 * x) + gnp.zeros(largest.shape)


def _sines(n: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for _ in range(n):
            x = gnp.sin(x)
        return x

    return function


def _closed(x: Any) -> Any:
    y = lax.iota(f32, 64)
    for _ in range(2):
        y = gnp.sin(y) + y * y
    return x + y


def _in_groups(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", feature_group_count=2)


def _while_all(x: Any, flags: Any) -> Any:
    return lax.while_loop(
        lambda s: (s[0].sum() < 3e4) & s[2][0],
        lambda s: (s[0] + s[1] + 1, s[1], ~s[2] | True),
        (x, x, flags),
    )


def _branches(i: Any, x: Any) -> Any:
    return lax.switch(i, [lambda x: x + 1, lambda x: x * 2, lambda x: x - 1], x) * 2


def _updates(x: Any) -> Any:
    return lax.fori_loop(0, 300, lambda i, c: c.at[i].add(c[i + 1] * 2), x)


def _forces(x: Any) -> Any:
    apart = x[:, None] - x[None]
    return (apart / (1 + (apart * apart).sum(-1, keepdims=True))).sum(1)


REPRODUCERS = {
    "products-by-algorithm": Reproducer(
        lambda a, b: lax.dot(a, b, precision="BF16_BF16_F32"),
        (np.full((1, 8), 1.01, f32), np.full((8, 1), 1.01, f32)),
        1e-3,
    ),
    "narrow-dtypes": Reproducer(lambda x: x + x, (np.array([1, 1, 2], ml_dtypes.int4),)),
    "missing-dtypes": Reproducer(
        lambda x: x + x, (np.ones(3, f64),), target=PORTABLE, beside=("missing-dtypes-written",)
    ),
    "fold-closed-expressions": Reproducer(
        _closed,
        (np.ones(64, f32),),
        beside=("open-closed-expressions",),
        measure=Measure.DISPATCHES,
        factor=10,
    ),
    "open-closed-expressions": Reproducer(
        _closed,
        (np.ones(64, f32),),
        beside=("fold-closed-expressions",),
        measure=Measure.DISPATCHES,
        factor=10,
    ),
    "host-calls": Reproducer(gnp.linalg.cholesky, (4 * np.eye(9, dtype=f32),)),
    "rolled-chains": Reproducer(
        _steps,
        (np.eye(32, dtype=f32), np.ones(32, f32)),
        1e-5,
        measure=Measure.DISPATCHES,
        factor=10,
    ),
    "small-matrices": Reproducer(
        _solutions,
        (np.array([[2, 1], [1, 3]], f32), np.ones((2, 1), f32)),
        1e-5,
        measure=Measure.CPU_SECONDS,
        factor=10,
    ),
    "fourier-transforms": Reproducer(gnp.fft.fft, (np.arange(7, dtype=f32),), 1e-5),
    "integrals": Reproducer(
        special.gammainc, (np.array([0.5, 30], f32), np.array([0.1, 20], f32)), target=PORTABLE
    ),
    "series": Reproducer(special.digamma, (np.linspace(-3.9, -0.01, 999, dtype=f32),), 1e-5),
    "sorts": Reproducer(
        lambda k, x: lax.sort((k, x), num_keys=1)[1],
        (np.arange(8, dtype=i32) % 2, ROW),
        beside=("single-op-kernels",),
    ),
    "single-op-kernels": Reproducer(lambda x: lax.top_k(x, 5)[1], (np.arange(8, dtype=i32) % 2,)),
    "complex-parts": Reproducer(gnp.sin, (np.array([1e-9 + 1e-9j], c64),), 1e-15),
    "windows": Reproducer(_pools, (CUBE,), 1e-5, PORTABLE),
    "padded-spreads": Reproducer(
        lambda x: lax.reduce_window(
            lax.pad(x, f32(0), [(0, 0, 1)]), f32(0), lax.add, (2,), (1,), ((1, 0),)
        ),
        (ROW,),
    ),
    "pads-of-pads": Reproducer(
        lambda x: lax.pad(lax.pad(x, f32(0), [(1, 0, 0)]), f32(0), [(0, 0, 1)]), (ROW,)
    ),
    "sums-of-pads": Reproducer(
        lambda x, y: lax.pad(x, f32(0), [(0, 9999, 0)]) + lax.pad(y, f32(0), [(9999, 0, 0)]),
        (np.ones(9999, f32),) * 2,
        measure=Measure.DISPATCHES,
    ),
    "half-powers": Reproducer(lambda x: x**1.5, (ROW,), measure=Measure.OPERATIONS, factor=3),
    "cheap-branches": Reproducer(
        _branches, (i32(1), np.ones(1000, f32)), measure=Measure.DISPATCHES, factor=3
    ),
    "saturating-conversions": Reproducer(
        lambda x: x.astype(i32), (np.array([np.inf, -np.inf, 3e10, 1.5], f32),)
    ),
    "rounded-conversions": Reproducer(
        lambda x: x[:1].astype(gnp.bfloat16).astype(f32), (np.array([7.001, 2], f32),)
    ),
    "indexing": Reproducer(
        lambda x, i: lax.dynamic_update_slice(x, x[:5], (i,)), (np.arange(12, dtype=f32), i32(3))
    ),
    "functions": Reproducer(gnp.sin, (np.array([1e5, 3e7, 1e10], f32),), 1e-6),
    "functions-without-library": Reproducer(
        gnp.sin, (np.array([0.1, 2, 30], f64),), 1e-15, "x86-64-v3"
    ),
    "functions-without-f64": Reproducer(gnp.sin, (np.array([2, 3e10], f32),), 1e-6, PORTABLE),
    "empty-contractions": Reproducer(
        lambda a, b: a @ b, (np.zeros((3, 0), f32), np.zeros((0, 4), f32))
    ),
    "convolutions": Reproducer(
        lambda x, k: lax.conv(x, k, (1, 1), "SAME"),
        (np.ones((2, 16, 32, 32), f32), np.ones((32, 16, 3, 3), f32)),
        bound=1e-3,
        measure=Measure.CPU_SECONDS,
        factor=4,
    ),
    "convolutions-in-groups": Reproducer(
        _in_groups,
        (np.ones((1, 4, 6, 6), f32), np.ones((4, 2, 3, 3), f32)),
        1e-4,
        PORTABLE,
    ),
    # The evaluator's own sum is pairwise.
    "sums": Reproducer(gnp.sum, (np.full(1 << 22, 0.1, f32),), 50.0, PORTABLE),
    "sums-on-cores": Reproducer(lambda x: gnp.sum(x * x), (np.full(1 << 22, 0.1, f32),), 1.0),
    "cumulative-sums": Reproducer(gnp.cumsum, (np.full(1_000_000, 1e-6, f32),), 1e-5),
    "cumulative-bfloat16": Reproducer(
        lambda x: (lax.cumsum(x, 1, True) - lax.cumsum(x, 1, True)[::-1])[1],
        (np.full((3, 8), 1.7, gnp.bfloat16),),
    ),
    "positions-of-extrema": Reproducer(
        lambda x: gnp.argmin(x, 1),
        (np.random.default_rng(0).standard_normal((1000, 1000), f32),),
        measure=Measure.CPU_SECONDS,
        factor=2,
    ),
    "ragged-extrema": Reproducer(
        lambda x: gnp.max(gnp.exp(x), axis=0),
        (np.ones((2001, 1023), f32),),
        bound=1e-6,
        measure=Measure.CPU_SECONDS,
        factor=2,
    ),
    "products-with-vectors": Reproducer(
        lambda a, x: a @ x,
        (np.ones((2000, 5000), f32), np.ones(5000, f32)),
        measure=Measure.DISPATCHES,
    ),
    "stored-carries": Reproducer(
        lambda x: lax.fori_loop(0, 100, lambda i, a: a.at[3 * i].set(a[i]), x),
        (np.ones(1 << 20, ml_dtypes.bfloat16),),
        measure=Measure.CPU_SECONDS,
        factor=4,
    ),
    "contractions": Reproducer(
        lambda a, b: a @ b, (np.full((2, 4096), SMALL), np.full((4096, 2), SMALL)), 0.01
    ),
    "bfloat16-conversions": Reproducer(
        lambda x: x.astype(ml_dtypes.bfloat16),
        (np.arange(9, dtype=i32),),
        target="x86-64-v3",
        beside=("rounded-conversions",),
    ),
    "roundings": Reproducer(gnp.round, (ROW,), target="wasm32"),
    "narrow-arithmetic": Reproducer(
        lambda x: x // u8(3), (np.arange(8, dtype=u8),), target=PORTABLE
    ),
    "values-read-across": Reproducer(lambda x: x / x.sum(0), (SQUARE,), 1e-6, PORTABLE),
    "reductions-read-by-more": Reproducer(
        lambda x, c: x + (c * c).sum(1),
        (np.ones((65536, 16), f32), np.ones((16, 8), f32)),
        measure=Measure.CPU_SECONDS,
    ),
    "sums-of-products": Reproducer(
        lambda x: gnp.sum(-x, 1), (np.ones((128, 128), f32),), target="cuda:sm_80"
    ),
    "stepwise-reductions": Reproducer(
        lambda x, y: gnp.sum(x[:, :, None] + y, (1, 2)),
        (np.ones((64, 256), f32), np.ones((64, 256, 3), f32)),
        target="cuda:sm_80",
    ),
    # Vectors of 32 bytes and fewer make a kernel that is only a little larger.
    "sums-of-factors": Reproducer(
        lambda x, y: gnp.sum(x * y, 0),
        (np.ones((512, 512), f32),) * 2,
        target="x86-64-v4",
        beside=("sums-on-cores",),
        measure=Measure.BYTES,
    ),
    "long-fusions": Reproducer(_sines(20), (np.ones(64, f32),), measure=Measure.BYTES),
    "wide-fusions": Reproducer(
        lambda *rows: sum(rows), tuple(np.full(4, k, f32) for k in range(60))
    ),
    "wide-scalar-kernels": Reproducer(
        lambda x: gnp.stack([x * (i + 2) for i in range(40)]), (f32(0.5),)
    ),
    "small-arguments": Reproducer(lax.cumlogsumexp, (np.array([0, -40, -40], f64),), 0.0),
    "lifted-elements": Reproducer(
        lambda x: (x[:1, None], x[:1, None] + gnp.arange(3, dtype=f32)), (np.ones(2, f32),)
    ),
    "strided-views": Reproducer(lambda x, i: x[::2][i], (ROW, np.array([0, 2, 1], i32))),
    "negated-parts": Reproducer(
        lambda x: gnp.concatenate([-x[2:4], x[:2], x[4:]]), (np.arange(8, dtype=f32),)
    ),
    "strided-reads": Reproducer(
        lambda x, i: x[i][::2] + 1,
        (np.arange(5, dtype=f64), np.array([4, 2, 0, 1, 3], i32)),
        target="x86-64-v3",
    ),
    "transposed-extrema": Reproducer(
        lambda x: gnp.argmin(x, axis=2).T,
        (np.arange(12, dtype=i32).reshape(2, 2, 3),),
        beside=("positions-of-extrema",),
    ),
    "spread-values": Reproducer(
        lambda x, y: gnp.sum(gnp.broadcast_to(x, 100_000) > gnp.broadcast_to(y, 100_000)),
        (f32(1), f32(0)),
    ),
    "masks": Reproducer(
        lambda x, m: gnp.isnan(x * m.astype(f32)),
        (np.full(3, np.inf, f32), np.array([True, False, True])),
    ),
    "short-dimensions": Reproducer(
        _forces,
        (RNG.standard_normal((256, 3)).astype(f32),),
        1e-4,
        measure=Measure.CPU_SECONDS,
        factor=1.3,
    ),
    "unsigned-factors": Reproducer(
        lambda a, b: a.astype(f32) @ b, (np.full((3, 4), 200, u8), np.ones(4, f32))
    ),
    "moved-functions": Reproducer(
        gn.hessian(lambda x: gnp.sum(gn.nn.softmax(x))), (np.ones(2, f32),), 1e-6
    ),
    "spread-updates": Reproducer(_spread, (np.arange(1, 8, dtype=f32)[None], i32(1))),
    "host-control": Reproducer(
        _updates,
        (np.ones(20000, f32),),
        beside=("copied-arrays",),
        measure=Measure.WAITS,
        factor=3,
    ),
    "guarded-loops": Reproducer(
        _while_all,
        (np.arange(4096, dtype=f32) / 4096, np.ones(4096, np.bool_)),
        1e-3,
        beside=("steps",),
    ),
    "complex-kernels": Reproducer(
        gnp.abs, (ODD_COMPLEX,), 1e-5, measure=Measure.CPU_SECONDS, factor=1.5
    ),
    "library-products": Reproducer(
        lambda a, b: a @ b,
        (SQUARE_F64, SQUARE_F64),
        1e-9,
        measure=Measure.CPU_SECONDS,
        factor=1.1,
    ),
    "row-kernels": Reproducer(
        gn.grad(lambda *operands: gnp.sum(_layer_norm(*operands) ** 2)),
        (np.cos(np.arange(1 << 17, dtype=f32)).reshape(512, 256), ROW_OF_256, ROW_OF_256),
        1e-3,
        measure=Measure.DISPATCHES,
    ),
    "constant-reductions": Reproducer(
        lambda x: gnp.sum((x.astype(i32) & 0) | 3), (np.arange(10, dtype=f32),)
    ),
}
