"""Functions that are rewritten for IREE, at their edges: compiled, against the evaluator.

Compilations take long, so all functions of a dtype make one program.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body
from gnomon.dialects.emit import constant, full_like, ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType
from tests.tolerance import assert_each_near

BACKEND = iree_backend("cpu")

FLOATS = [np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
ORDINARY = (0.3, 0.5, 2 / 3, 1.5, 2.0, 3.0, 8.0, 27.0, 100.25)


def edges(dtype: np.dtype) -> np.ndarray:
    """Numbers of both signs at which a function of floats may go wrong."""
    info = ml_dtypes.finfo(dtype)
    sizes = [0.0, np.inf, 1.0, *ORDINARY, *(float(x) for x in (info.tiny, info.max, info.eps))]
    sizes += [float(info.smallest_subnormal), 3 * float(info.smallest_subnormal)]
    return np.array([*sizes, *(-s for s in sizes), np.nan]).astype(dtype)


def pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of edges that are not subnormal."""
    values = edges(dtype)
    x, y = np.meshgrid(*[values[~is_subnormal(values)]] * 2)
    return x.ravel(), y.ravel()


def compiled_and_evaluated(
    emit: Callable[..., list[ir.Value]], *arguments: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    def program() -> Program:
        new = Program()
        types = [TensorType(a.shape, a.dtype) for a in arguments]
        new.add("main", Body.build(types, emit), public=True)
        return new

    compiled = [b.to_numpy() for b in BACKEND.compile(BACKEND.lower(program()))(list(arguments))]
    evaluated = Evaluator(program())("main", *arguments)
    return list(zip(compiled, evaluated, strict=True))


def is_subnormal(x: np.ndarray) -> np.ndarray:
    """Compiled code flushes these to zero."""
    magnitude = np.abs(x.astype(np.float64))
    return (magnitude > 0) & (magnitude < float(ml_dtypes.finfo(x.dtype).tiny))


def assert_same(actual: np.ndarray, expected: np.ndarray, ulps: float, name: str) -> None:
    """Check that elements agree to some ulps, with equal infinities, nans and signs of zeros.

    A result that is subnormal, or next to subnormal numbers, may be zero.
    """
    assert actual.dtype == expected.dtype
    eps = float(ml_dtypes.finfo(actual.dtype).eps)
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    least = float(ml_dtypes.finfo(actual.dtype).tiny) * (1 + ulps * eps)
    a = np.where((e != 0) & (np.abs(e) <= least) & (a == 0), e, a)
    finite = np.isfinite(e)
    np.testing.assert_array_equal(a[~finite], e[~finite], name)
    zeros = e == 0
    np.testing.assert_array_equal(np.signbit(a[zeros]), np.signbit(e[zeros]), name)
    a, e = a[finite], e[finite]
    spacing = np.maximum(eps * np.abs(e), float(ml_dtypes.finfo(actual.dtype).smallest_subnormal))
    bad = ~(np.abs(a - e) <= ulps * spacing)
    assert not bad.any(), f"{name}: got {a[bad]}, expected {e[bad]}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_edges(dtype: np.dtype) -> None:
    x, y = pairs(dtype)

    def emit(one: ir.Value, x: ir.Value, y: ir.Value) -> list[ir.Value]:
        return [ops.cbrt(one), ops.atan2(x, y), ops.pow(x, y)]

    results = compiled_and_evaluated(emit, edges(dtype), x, y)
    for (a, e), ulps, name in zip(results, (2, 2, 16), ("cbrt", "atan2", "pow"), strict=True):
        assert_same(a, e, ulps, f"{name} {dtype}")


UNARY = (
    "sign exp log sqrt rsqrt sin cos tan tanh atan asin acos asinh atanh cosh sinh logistic log1p "
    "expm1 exp2 abs floor ceil cbrt is_finite neg"
)
BINARY = "add sub mul div rem atan2 max min eq lt nextafter pow"


@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nans_that_only_llvm_finds(dtype: np.dtype) -> None:
    """MLIR does not evaluate x + nan; LLVM does, and then it evaluates a function of the sum.

    Integers from nan have no defined value there, nor has what is computed from them.
    """
    x = np.linspace(-2, 2, 5).astype(dtype)

    def emit(x: ir.Value) -> list[ir.Value]:
        nan = ops.add(x, full_like(x, np.nan))
        results = [getattr(ops, name)(nan) for name in UNARY.split()]
        for name in BINARY.split():
            results += [getattr(ops, name)(nan, x), getattr(ops, name)(x, nan)]
        return results + [ops.convert(nan, dtype=t) for t in (*INTEGERS, *FLOATS)]

    for a, e in compiled_and_evaluated(emit, x):
        np.testing.assert_array_equal(a.astype(np.float64), e.astype(np.float64))


COMPLEX = (
    "exp expm1 log log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "sign square"
)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_functions_of_infinities_and_nans(dtype: type) -> None:
    """Both give the values of annex G of the C standard, which leaves some signs open."""
    parts = [1.0, 0.0, -0.0, -2.5, 50.0, np.inf, -np.inf, np.nan]
    x = np.array([complex(a, b) for a in parts for b in parts], dtype)
    results = compiled_and_evaluated(lambda x: [getattr(ops, f)(x) for f in COMPLEX.split()], x)
    for name, (actual, expected) in zip(COMPLEX.split(), results, strict=True):
        for a, e, other in (
            (actual.real, expected.real, expected.imag),
            (actual.imag, expected.imag, expected.real),
        ):
            has_no_sign = ~np.isfinite(x) & ((e == 0) | (np.isinf(e) & np.isnan(other)))
            a, e = (np.where(has_no_sign, np.abs(v), v) for v in (a, e))
            assert_same(a, e, 4, name)


def test_circular_functions_of_every_size() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20000, dtype=np.uint32)
    # The last is the f32 number with the least relative distance to a multiple of pi / 2.
    near = np.array([np.pi, np.pi / 2, 1e5, 16367173 * 2.0**72], np.float32)
    x = np.concatenate([bits.view(np.float32), edges(np.dtype(np.float32)), near, -near])

    def emit(x: ir.Value) -> list[ir.Value]:
        return [ops.sin(x), ops.cos(x), ops.tan(x)]

    results = compiled_and_evaluated(emit, x)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
        references = [np.sin(wide), np.cos(wide), np.tan(wide)]
    for (a, _), e, name in zip(results, references, ("sin", "cos", "tan"), strict=True):
        assert_same(a, e.astype(np.float32), 1.0, name)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_floats_to_integers(source: np.dtype) -> None:
    powers = [2.0**p + d for p in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, 0, 1)]
    with np.errstate(over="ignore"):
        ends = np.array([*powers, *(-p for p in powers), 0.9, -0.9, 1e30]).astype(source)
    x = np.concatenate([edges(source), ends])

    def emit(x: ir.Value) -> list[ir.Value]:
        return [ops.convert(x, dtype=t) for t in INTEGERS]

    for a, e in compiled_and_evaluated(emit, x):
        np.testing.assert_array_equal(a, e, f"{source} to {e.dtype}")


def test_f64_to_bf16() -> None:
    x = np.concatenate([edges(FLOATS[1]), np.random.default_rng(1).normal(size=100)])
    emit = lambda x: [ops.convert(x, dtype=FLOATS[3])]  # noqa: E731
    ((a, e),) = compiled_and_evaluated(emit, x)
    assert_same(a, e, 0, "f64 to bf16")


def test_contraction_of_nothing_and_wide_padding() -> None:
    def emit(a: ir.Value, b: ir.Value, c: ir.Value, fill: ir.Value) -> list[ir.Value]:
        dims = {"lhs_contracting": (1,), "rhs_contracting": (0,), "lhs_batch": (), "rhs_batch": ()}
        product = ops.dot_general(a, b, **dims, dtype=FLOATS[0], precision="default")
        return [product, ops.pad(c, fill, low=(1,), high=(2,), interior=(1,))]

    c = np.array([1 + 2j, 3 - 1j])
    arguments = np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32), c, np.array(5 + 7j)
    for a, e in compiled_and_evaluated(emit, *arguments):
        np.testing.assert_array_equal(a, e)


def test_powers_of_a_literal_and_a_half() -> None:
    """Powers with half-integer exponents become roots and products."""
    x = edges(np.dtype(np.float32))
    x = np.concatenate([x[~is_subnormal(x)], np.float32([1e-25, 1e-13, 3e13, 1e25])])
    exponents = [-3.5, -1.5, -0.5, 0.5, 2.5]

    def emit(v: ir.Value) -> list[ir.Value]:
        return [ops.pow(v, full_like(v, y)) for y in exponents]

    for (compiled, _), y in zip(compiled_and_evaluated(emit, x), exponents, strict=True):
        with np.errstate(all="ignore"):
            wanted = np.power(x.astype(np.float64), y).astype(np.float32)
        # NumPy computes a power of 0.5 as a square root, which is nan for -inf.
        wanted[x == -np.inf] = np.inf if y > 0 else 0
        wanted[is_subnormal(wanted)] = 0
        compiled = np.where(is_subnormal(compiled), np.float32(0), compiled)
        assert_each_near(compiled, wanted, 2)


def test_powers_of_subnormal_numbers_of_f64() -> None:
    """Their logarithms are read from their bits."""
    x = np.array([5e-324, 1e-310, -1e-310])
    y = np.array([0.4375, 0.5, 0.5])
    ((compiled, _),) = compiled_and_evaluated(lambda x, y: [ops.pow(x, y)], x, y)
    with np.errstate(invalid="ignore"):
        assert_each_near(compiled, np.power(x, y), 4)


def test_tangents_of_large_complex_numbers() -> None:
    """Twice the angle overflows; an angle that is not finite leaves no limit but at infinity."""
    parts = [1.0, -50.0, 1e10, 3e38, -3e38, np.inf, np.nan]
    z = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
    pairs = compiled_and_evaluated(lambda z: [ops.tan(z), ops.tanh(z)], z)
    for compiled, evaluated in pairs:
        np.testing.assert_array_equal(np.isnan(compiled.real), np.isnan(evaluated.real))
        np.testing.assert_array_equal(np.isnan(compiled.imag), np.isnan(evaluated.imag))
        known = ~np.isnan(evaluated)
        assert_each_near(compiled[known], evaluated[known], 8, scale=1.0)


def test_complex_powers_by_zero_and_one() -> None:
    parts = [0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in parts for b in parts], np.complex64)

    def emit(z: ir.Value) -> list[ir.Value]:
        return [ops.pow(z, full_like(z, w)) for w in (0, 1)]

    by_zero, by_one = compiled_and_evaluated(emit, z)
    for powers in by_zero:
        np.testing.assert_array_equal(powers, np.ones_like(z))
    for powers in by_one:
        np.testing.assert_array_equal(powers, z)


def test_powers_of_complex_zero() -> None:
    exponents = [1 + 1j, 2, 0.5 - 2j, 300, 0, -1, -1 + 2j, 1j, complex(1, np.nan), np.nan]
    w = np.array(exponents, np.complex64)
    wide = w.astype(np.complex128)
    with np.errstate(all="ignore"):
        pairs = compiled_and_evaluated(
            lambda x, y: [ops.pow(full_like(v, 0), v) for v in (x, y)], w, wide
        )
    for compiled, evaluated in pairs:
        is_defined = np.isfinite(evaluated)
        np.testing.assert_array_equal(compiled[is_defined], evaluated[is_defined])
        np.testing.assert_array_equal(np.isfinite(compiled), is_defined)
        assert (compiled[:4] == 0).all()


def test_sums_of_padded_pieces() -> None:
    """Adjacent pieces are concatenated; others are padded and summed."""
    x, y = np.float32([[1, 2], [3, 4]]), np.float32([[5], [6]])

    def padded(v: ir.Value, low: int, high: int, value: float = 0) -> ir.Value:
        zeros_ = constant(np.float32(value))
        return ops.pad(v, zeros_, low=(0, low), high=(0, high), interior=(0, 0))

    def emit(x: ir.Value, y: ir.Value) -> list[ir.Value]:
        return [
            ops.add(padded(x, 1, 1), ops.add(padded(y, 3, 0), padded(y, 0, 3))),
            ops.add(padded(x, 1, 1), padded(y, 3, 0)),
            ops.add(padded(x, 1, 1), padded(x, 0, 2)),
            ops.add(padded(x, 0, 1), padded(y, 2, 0, 1.0)),
            ops.add(padded(x, 0, 1), padded(ops.neg(y), 2, 0)),
        ]

    for compiled, evaluated in compiled_and_evaluated(emit, x, y):
        np.testing.assert_array_equal(compiled, evaluated)
