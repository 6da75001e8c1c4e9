"""Elementwise ops at the edges of their dtypes: values, signs of zero, derivatives, as in JAX.

Subnormal numbers are left out, because XLA flushes them to zero and gnomon does not. Complex
arguments are finite: at infinities the ops follow annex G of C, and XLA does so only in part;
there Python's `cmath` is the reference.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from gnomon.dialects import functions
from gnomon.dialects.body import Body
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.functions import Program
from gnomon.dialects.types import is_complex, is_inexact
from tests.ops.check import DTYPES, add_main, run, types_of
from tests.tolerance import assert_each_near, units_off

Reference = Callable[..., Any]

_FLOATING = ("f16", "bf16", "f32", "f64")
_INTEGERS = ("i8", "i64", "u8", "u32")
_COMPLEX = ("c64", "c128")

_ARITHMETIC = "add sub mul div neg sign square"
_FUNCTIONS = (
    "exp log sqrt rsqrt sin cos tan tanh atan asin acos asinh atanh cosh sinh logistic log1p expm1"
)
_REAL = "rem abs floor ceil is_finite cbrt atan2 max min eq ne lt le gt ge nextafter pow acosh"
_SPECIAL = "erf erfc erf_inv bessel_i0e bessel_i1e"
_BITS = (
    "and or xor not shift_left shift_right_logical shift_right_arithmetic population_count clz "
    "mulhi add sub mul div rem neg sign square max min eq ne lt le gt ge"
)
_JAX_NAMES = {n: f"bitwise_{n}" for n in ("and", "or", "xor", "not")}

# Functions whose values JAX computes with more error than the others.
_LOOSE = {"sinh": 64.0, "cosh": 64.0, "pow": 16.0}

_NUMBERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 0.1, 0.75, 1.5,
    -1.5, 2.5, -2.5, 0.49999997, 10.0, -10.0, 88.0, -88.0, 100.0, -100.0, 1e4, -1e4, 1e20, -1e20,
    1e-5, 1e-20, np.pi, -np.pi,
)  # fmt: skip
_COMPLEX_PARTS = (0.0, 1.0, -1.0, 0.5, -0.7, 2.0, -3.0, 50.0)


def edges(dtype: np.dtype) -> np.ndarray:
    """The numbers of a dtype at which functions are tested."""
    if is_complex(dtype):
        real, imaginary = np.meshgrid(_COMPLEX_PARTS, _COMPLEX_PARTS)
        return (real + 1j * imaginary).astype(dtype).reshape(-1)
    if not is_inexact(dtype):
        info = np.iinfo(dtype)
        bits = info.bits
        low, high = int(info.min), int(info.max)
        values = {0, 1, 2, 3, 7, bits - 1, bits, bits + 1, high, high - 1, high // 2, low, low + 1}
        values |= {-1, -2, -7} if low < 0 else set()
        return np.array(sorted(v for v in values if low <= v <= high), dtype)
    info = ml_dtypes.finfo(dtype)
    extremes = (float(info.max), -float(info.max), float(info.smallest_normal), float(info.eps))
    with np.errstate(over="ignore", under="ignore"):
        numbers = np.array([*_NUMBERS, *extremes]).astype(dtype)
    wide = numbers.astype(np.float64)
    return numbers[~((wide != 0) & (np.abs(wide) < float(info.smallest_normal)))]


def operands(op: str, dtype: np.dtype) -> list[np.ndarray]:
    """All pairs of edges, for an op of two operands."""
    values = edges(dtype)
    if len(REGISTRY[f"gnomon.{op}"].operands) == 1:
        return [values]
    return [grid.reshape(-1) for grid in np.meshgrid(values, values)]


def reference_of(op: str) -> Reference:
    """JAX's function."""
    return getattr(jax.lax, _JAX_NAMES.get(op, op))  # type: ignore[no-any-return]


def _parts(array: np.ndarray) -> list[np.ndarray]:
    return [array.real, array.imag] if is_complex(array.dtype) else [array]


def assert_like_jax(
    actual: np.ndarray, expected: np.ndarray, arrays: list[np.ndarray], ulps: float, signs: bool
) -> None:
    """Equal dtypes, nans, infinities; equal values within ulps, and equal signs of zeros."""
    assert actual.dtype == expected.dtype
    if not is_inexact(actual.dtype):
        np.testing.assert_array_equal(actual, expected)
        return
    size = np.abs(expected.astype(np.complex128 if is_complex(actual.dtype) else np.float64))
    for a, e in zip(_parts(actual), _parts(expected), strict=True):
        info = ml_dtypes.finfo(a.dtype)
        x, y = a.astype(np.float64), e.astype(np.float64)
        tiny = float(info.smallest_normal) * 1.01
        with np.errstate(invalid="ignore"):
            near = np.abs(x - y) <= ulps * float(info.eps) * size
        small = (np.abs(x) <= tiny) & (np.abs(y) <= tiny)
        wrong = ~(near | small | (x == y) | (np.isnan(x) & np.isnan(y)))
        if signs:
            wrong |= (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
        where = np.argwhere(wrong.reshape(-1))[:5, 0]
        assert not where.size, "; ".join(
            f"at {[v.reshape(-1)[i] for v in arrays]}: {actual[i]}, JAX has {expected[i]}"
            for i in where
        )


def _cases() -> list[Any]:
    groups = (
        (f"{_ARITHMETIC} {_FUNCTIONS} {_REAL} {_SPECIAL}", _FLOATING),
        (f"{_ARITHMETIC} {_FUNCTIONS} acosh", _COMPLEX),
        (_BITS, _INTEGERS),
    )
    pairs = {(op, name) for ops, names in groups for op in ops.split() for name in names}
    return sorted(pairs)


@pytest.mark.sampled(0.24)
@pytest.mark.parametrize(("op", "name"), _cases())
def test_values_are_those_of_jax(op: str, name: str) -> None:
    dtype = DTYPES[name]
    arrays = operands(op, dtype)
    if op == "sign" and is_complex(dtype):
        arrays = [a[a != 0] for a in arrays]
    with np.errstate(all="ignore"):
        actual = np.asarray(REGISTRY[f"gnomon.{op}"].evaluate(*arrays))  # type: ignore[operator]
    with jax.enable_x64(True):
        expected = np.asarray(reference_of(op)(*arrays))
    # XLA drops some signs of zero in complex results.
    signs = not is_complex(dtype)
    assert_like_jax(actual, expected, arrays, _LOOSE.get(op, 8.0), signs)


_OF_TWO = {
    "add sub mul div max min": ("f16", "f32", "f64", "c64", "i8", "u32"),
    "pow atan2": ("f16", "f32", "f64", "c64"),
    "rem": ("f16", "f32", "f64", "i8", "u32"),
}


@pytest.mark.parametrize(
    ("op", "name"), [(op, n) for ops, names in _OF_TWO.items() for op in ops.split() for n in names]
)
def test_numbers_and_splats_give_what_arrays_give(op: str, name: str) -> None:
    """NumPy has other code for one number as operand: its `x ** 0.5` is a square root."""
    dtype = DTYPES[name]
    x, y = np.meshgrid(edges(dtype), edges(dtype))
    evaluate: Any = REGISTRY[f"gnomon.{op}"].evaluate
    with np.errstate(all="ignore"):
        whole = np.asarray(evaluate(x, y))
        for row, (left, right) in enumerate(zip(x, y, strict=True)):
            found = np.asarray(evaluate(left, np.broadcast_to(right[0], right.shape)))
            _assert_same(found, whole[row])
            found = np.asarray(evaluate(np.broadcast_to(x[0, row], right.shape), y[:, row]))
            _assert_same(found, whole[:, row])
            _assert_same(
                np.asarray(evaluate(left[:1].reshape(()), right[0].reshape(()))), whole[row, 0]
            )


def _assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    for a, e in zip(_parts(actual), _parts(expected), strict=True):
        # A root and a power may differ by a unit.
        unit = float(np.finfo(a.dtype).eps) if is_inexact(a.dtype) else 0
        np.testing.assert_allclose(a, e, rtol=unit, atol=0)
        np.testing.assert_array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(e) & ~np.isnan(e))


_SUB_BYTE = ("i2", "u2", "i4", "u4")
_NARROW = (*_SUB_BYTE, "f8_e3m4", "f8_e4m3", "f8_e4m3fn", "f8_e5m2", "f8_e8m0fnu")
_SOURCES = ("bool", *_INTEGERS, *_FLOATING, *_COMPLEX, *_NARROW)
_TARGETS = (*_SOURCES, "i16", "u16", "i32", "u64")


@pytest.mark.sampled(0.15)
@pytest.mark.parametrize("source", _SOURCES)
def test_conversions_are_those_of_jax(source: str) -> None:
    dtype = DTYPES[source]
    if source == "bool":
        x = np.array([False, True])
    elif source in _SUB_BYTE:
        x = np.arange(-8, 8).astype(dtype)
    elif is_inexact(dtype) and not is_complex(dtype):
        more = (127.5, -128.5, 255.9, 65519.0, 65520.0, 2.0**31, 2.0**32, -(2.0**63), 460.0, 470.0)
        with np.errstate(over="ignore"):
            x = np.concatenate([edges(dtype), np.array(more).astype(dtype)])
    else:
        x = edges(dtype)
    for target in _TARGETS:
        to = DTYPES[target]
        # lax only tests the real part of a complex number; the op tests whether the number is zero.
        if is_complex(dtype) and not is_complex(to):
            continue
        with np.errstate(all="ignore"):
            actual = REGISTRY["gnomon.convert"].evaluate(x, dtype=to)  # type: ignore[operator]
        with jax.enable_x64(True):
            expected = np.asarray(jax.lax.convert_element_type(x, to))
        assert_like_jax(actual, expected, [x], 0.0, signs=True)


def _tangent(op: str, arrays: list[np.ndarray], wrt: int) -> np.ndarray:
    program = Program()
    types = types_of(arrays)
    program.add("f", Body.build(types, lambda *v: REGISTRY[f"gnomon.{op}"].build(v, {})))
    name = add_main(program, functions.jvp, "f", [*types, types[wrt]], wrt=(wrt,))
    return run(program, name, [*arrays, np.ones_like(arrays[wrt])])[1]


_DIFFERENTIABLE = [
    op for op in f"{_ARITHMETIC} {_FUNCTIONS} {_SPECIAL} abs cbrt max min".split() if op != "sign"
]


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("op", _DIFFERENTIABLE)
def test_derivatives_are_those_of_jax(op: str) -> None:
    arrays = operands(op, DTYPES["f32"])
    # In JAX, squares of huge and of tiny divisors overflow; nan is on neither side of a branch cut.
    sizes = [np.where(a == 0, 1, np.abs(a)) for a in arrays]
    keep = np.all([(size > 1e-18) & (size < 1e18) for size in sizes], axis=0)
    arrays = [a[keep] for a in arrays]
    for wrt in range(len(arrays)):
        actual = _tangent(op, arrays, wrt)

        def at(x: Any, wrt: int = wrt) -> Any:
            return reference_of(op)(*arrays[:wrt], x, *arrays[wrt + 1 :])

        expected = np.asarray(jax.jvp(at, (arrays[wrt],), (np.ones_like(arrays[wrt]),))[1])
        # Slopes of 1 - tanh² and the like lose digits where they tend to zero, in both.
        with np.errstate(invalid="ignore"):
            settled = (units_off(actual, expected, scale=1.0) <= 8) & np.isfinite(expected)
        assert_like_jax(np.where(settled, expected, actual), expected, arrays, 64.0, signs=False)


def test_clamp_has_no_slope_at_its_bounds() -> None:
    x = np.array([-1.0, 0.0, 0.5, 1.0, 2.0], np.float32)
    low, high = np.zeros(5, np.float32), np.ones(5, np.float32)
    slopes = [_tangent("clamp", [low, x, high], wrt) for wrt in range(3)]
    np.testing.assert_array_equal(slopes, [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]])


def test_slopes_of_clamp_where_the_bounds_cross_are_not_those_of_the_lower() -> None:
    # The result is the upper bound. As in JAX, only an operand above it gives that bound a
    # gradient.
    x = np.array([-1.0, 0.25, 2.0, 0.5, np.nan], np.float32)
    low, high = np.ones(5, np.float32), np.array([0.5, 0.5, 0.5, 1.0, 2.0], np.float32)
    slopes = [_tangent("clamp", [low, x, high], wrt) for wrt in range(3)]
    np.testing.assert_array_equal(slopes, [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0]])


def test_slope_of_a_power_at_zero() -> None:
    x = np.array([0.0, 0.0, 0.0, 0.0, 2.0], np.float32)
    y = np.array([0.0, 1.0, 2.0, 0.5, 0.0], np.float32)
    # JAX has nan for the first, 0 * inf; x ** 0 is 1 whatever x, so its slope is 0.
    np.testing.assert_array_equal(_tangent("pow", [x, y], 0), [0, 1, 0, np.inf, 0])
    by_exponent = _tangent("pow", [x, y], 1)
    assert_each_near(by_exponent, [0, 0, 0, 0, np.log(np.float32(2))], 4)


@pytest.mark.parametrize("name", ["f32", "c64"])
def test_acosh_has_the_slope_of_its_own_branch(name: str) -> None:
    # JAX takes the root of (x - 1) (x + 1) at once, which is another branch left of the origin.
    x = np.array([1.5, 3.0, -2.0], DTYPES[name]) + (0.5j if name == "c64" else 0)
    x = x.astype(DTYPES[name])
    step = np.float64(1e-6)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.complex128 if name == "c64" else np.float64)
        expected = (np.arccosh(wide + step) - np.arccosh(wide - step)) / (2 * step)
    assert_each_near(_tangent("acosh", [x], 0), expected, 64)


_OF_CMATH = "exp log sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
# Angles of all quadrants: an infinite result may have any signs.
_SPECIAL_PARTS = (0.0, 0.5, 2.0, 3.5, 5.0, 1e10, np.inf)
# At these C17 has other values than C99, which `cmath` follows; the ops are finite in one part.
_AS_IN_C17 = {("tanh", "imag"), ("acosh", "imag"), ("tan", "real")}


@pytest.mark.parametrize("op", _OF_CMATH.split())
@pytest.mark.parametrize("name", _COMPLEX)
def test_special_values_of_complex_functions_are_those_of_annex_g(op: str, name: str) -> None:
    dtype = DTYPES[name]
    parts = [*_SPECIAL_PARTS, *(-p for p in _SPECIAL_PARTS), np.nan]
    x = np.array([complex(a, b) for a in parts for b in parts], dtype)
    with np.errstate(all="ignore"):
        results = REGISTRY[f"gnomon.{op}"].evaluate(x)  # type: ignore[operator]
    for z, found in zip(x.tolist(), results.tolist(), strict=True):
        try:
            expected = getattr(cmath, op)(z)
        except OverflowError:
            continue
        except ValueError:  # an invalid operation
            assert cmath.isnan(found) or cmath.isinf(found), (z, found)
            continue
        if ((op, "imag") in _AS_IN_C17 and z.real == 0 and z.imag != z.imag) or (
            (op, "real") in _AS_IN_C17 and z.imag == 0 and z.real != z.real
        ):
            assert cmath.isnan(found)
            continue
        has_signs = not (cmath.isnan(z) or (math.isinf(z.real) and math.isinf(z.imag)))
        size = abs(expected) if cmath.isfinite(expected) else 0.0
        for a, e in ((found.real, expected.real), (found.imag, expected.imag)):
            near = a == e or (a != a and e != e)
            near |= abs(a - e) <= 16 * np.finfo(dtype).eps * max(size, abs(e)) < math.inf
            near |= not has_signs and abs(a) == abs(e)
            assert near, (z, found, expected)
            assert not has_signs or e != e or math.copysign(1, a) == math.copysign(1, e), (z, found)


def test_complex_expm1_at_the_ends_of_the_range() -> None:
    # In f32 exp(89) overflows, and its product with a small sine or cosine does not.
    parts = [(89, 0.1), (89, 1.5), (-np.inf, np.inf), (-np.inf, np.nan), (np.inf, 0)]
    x = np.array([complex(*p) for p in parts], np.complex64)
    with np.errstate(all="ignore"):
        expected = (np.exp(x.astype(np.complex128)) - 1).astype(np.complex64)
        actual = REGISTRY["gnomon.expm1"].evaluate(x)  # type: ignore[operator]
    assert_each_near(actual.real, expected.real, 2)
    assert_each_near(actual.imag, expected.imag, 2)


def test_errors_name_the_op_and_its_operands() -> None:
    two, three = np.zeros(2, np.float32), np.zeros(3, np.float32)
    whole, truth = np.zeros(2, np.int32), np.zeros(2, np.bool_)

    def infer(op: str, *arrays: np.ndarray, **params: Any) -> None:
        REGISTRY[f"gnomon.{op}"].infer_types(types_of(arrays), params)

    with pytest.raises(TypeError, match=r"gnomon\.add .*one shape and dtype.*f32\[2\], f32\[3\]"):
        infer("add", two, three)
    with pytest.raises(TypeError, match=r"gnomon\.exp takes .*f32.*got i32\[2\]"):
        infer("exp", whole)
    with pytest.raises(TypeError, match=r"gnomon\.select: the predicate must be a bool"):
        infer("select", whole, two, two)
    with pytest.raises(TypeError, match=r"gnomon\.select: both choices must have one type"):
        infer("select", truth, two, whole)
    with pytest.raises(TypeError, match=r"gnomon\.clamp: bounds must have"):
        infer("clamp", three, two, two)
    with pytest.raises(TypeError, match=r"integers have no negative powers"):
        infer("integer_pow", whole, y=-1)
    with pytest.raises(TypeError, match=r"rounding_method must be one of"):
        infer("round", two, rounding_method="UP")
    with pytest.raises(TypeError, match=r"the last dimension must be 4"):
        infer("bitcast_convert", np.zeros(3, np.uint8), dtype=DTYPES["f32"])
    with pytest.raises(TypeError, match=r"bool and complex values have no bit pattern"):
        infer("bitcast_convert", truth, dtype=DTYPES["u8"])
    with pytest.raises(TypeError, match=r"at least one exponent bit"):
        infer("reduce_precision", two, exponent_bits=0, mantissa_bits=3)


def test_the_order_of_polygamma_has_no_derivative() -> None:
    x = np.full(3, 2.0, np.float32)
    with pytest.raises(
        NotImplementedError, match=r"gnomon\.polygamma has no derivative with respect to its first"
    ):
        _tangent("polygamma", [x, x], 0)
