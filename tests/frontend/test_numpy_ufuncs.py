"""Elementwise functions of gnomon.numpy against jax.numpy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import tests.sample as sampling
from tests.backends.iree.joined import check_joined
from tests.frontend.oracle import (
    check,
    check_types,
    checks_in_one_program,
    sample,
    to_gnomon,
    weakly,
)
from tests.newest_jax import IS_NEWEST
from tests.tolerance import assert_near

DTYPES = ["bool", "int8", "int32", "uint8", "float16", "bfloat16", "float32", "complex64"]

EXACT_UNARY = (
    "negative positive sign square absolute abs bitwise_invert invert bitwise_not logical_not "
    "bitwise_count floor ceil trunc rint isnan isinf isfinite isposinf isneginf iscomplex "
    "isreal real imag conj conjugate signbit fabs nan_to_num modf frexp spacing"
)
TRANSCENDENTAL = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh "
    "tanh arcsinh arccosh arctanh asin acos atan asinh acosh atanh reciprocal sinc deg2rad "
    "rad2deg degrees radians"
)
EXACT_BINARY = (
    "add subtract multiply maximum minimum fmax fmin equal not_equal less less_equal greater "
    "greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift bitwise_left_shift "
    "bitwise_right_shift logical_and logical_or logical_xor copysign nextafter heaviside "
    "remainder mod fmod floor_divide divmod gcd lcm"
)
INEXACT_BINARY = "true_divide divide power pow float_power arctan2 atan2 hypot logaddexp logaddexp2"
ULPS = {"float16": 2, "bfloat16": 2, "float32": 8, "complex64": 24}
DOMAIN = {
    "arccosh": (1.0, 5.0),
    "acosh": (1.0, 5.0),
    "arctanh": (-0.95, 0.95),
    "atanh": (-0.95, 0.95),
    "log": (0.1, 5.0),
    "log2": (0.1, 5.0),
    "log10": (0.1, 5.0),
    "log1p": (0.1, 5.0),
    "sqrt": (0.1, 5.0),
}
for _name in ("arcsin", "arccos", "asin", "acos"):
    DOMAIN[_name] = (-0.99, 0.99)

# Results that are weakly typed in JAX by accident: promotion ignores the weak type of a bool, and
# the others are weak in some calls only. Ours are weak if all operands are.
UNTYPED = (
    "isnan isinf isfinite isposinf isneginf iscomplex isreal signbit logical_and logical_or "
    "logical_xor heaviside hypot logaddexp2 gcd lcm spacing"
)

# Results that differ from JAX's on purpose.
SKIPPED = {
    ("rint", "bool"),  # a bool is not rounded by a float op
}


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("name", (EXACT_UNARY + " " + TRANSCENDENTAL).split())
def test_unary_types(name: str) -> None:
    for dtype in DTYPES:
        for shape in ((), (2, 3), (0, 2)):
            if (name, dtype) not in SKIPPED:
                check_types(
                    getattr(gnp, name),
                    getattr(jnp, name),
                    sample(dtype, shape),
                    weak=name not in UNTYPED.split(),
                )


SCALARS = [1, 1.0, True, 0.5j, np.float32(2), np.int8(3), np.arange(3), None, "a", [1.0], (1, 2)]


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("name", (EXACT_UNARY + " " + TRANSCENDENTAL).split())
def test_unary_of_scalars(name: str) -> None:
    # JAX's log2 of a weakly typed number is weakly typed since 0.12.
    weak = name not in UNTYPED.split() and not (IS_NEWEST and name == "log2")
    for value in SCALARS:
        check_types(getattr(gnp, name), getattr(jnp, name), value, weak=weak)


def test_exact_unary() -> None:
    special = jnp.array([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -1.5, 2.5, 1e30, -1e-30])
    arrays = [sample(d, (3, 4)) for d in ("bool", "int8", "uint8", "bfloat16", "float32")]
    with checks_in_one_program() as check:
        for name in EXACT_UNARY.split():
            for x in (*arrays, special):
                check(getattr(gnp, name), getattr(jnp, name), x, weak=name not in UNTYPED.split())


def test_transcendental() -> None:
    with checks_in_one_program() as check:
        for name in TRANSCENDENTAL.split():
            ours, theirs = getattr(gnp, name), getattr(jnp, name)
            for dtype in sampling.sample(("bfloat16", "float32", "complex64"), 1, name):
                if (name, dtype) == ("cbrt", "complex64"):
                    continue
                low, high = DOMAIN.get(name, (-3.0, 3.0))
                x = sample(dtype, (8, 5), low=low, high=high)
                scale = 1.0 if name == "sinc" else 0.0
                check(ours, theirs, x, ulps=ULPS[dtype], scale=scale)
            check(ours, theirs, sample("int32", (5,), low=1, high=3), ulps=8, scale=1.0)


SHAPES = [((3, 4), (3, 4)), ((), (4,)), ((1, 4), (3, 1)), ((2,), (0, 1))]


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("name", (EXACT_BINARY + " " + INEXACT_BINARY).split())
def test_binary_types(name: str) -> None:
    ours, theirs = getattr(gnp, name), getattr(jnp, name)
    for left in DTYPES:
        for right in DTYPES:
            if name in ("arctan2", "atan2") and "complex64" in (left, right):
                continue  # the angle of complex numbers is not supported
            check_types(ours, theirs, sample(left, (2, 1)), sample(right, (3,)))
    # For shapes that do not fit, JAX raises a TypeError or a ValueError; our error is both.
    for kind in (TypeError, ValueError):
        with pytest.raises(kind):
            ours(*to_gnomon((sample("int32", (3,)), sample("int32", (4,)))))
    for left_shape, right_shape in SHAPES:
        check_types(ours, theirs, sample("int32", left_shape), sample("int32", right_shape))


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("name", (EXACT_BINARY + " " + INEXACT_BINARY).split())
def test_binary_with_scalars(name: str) -> None:
    ours, theirs = getattr(gnp, name), getattr(jnp, name)
    weak = {"weak": name not in UNTYPED.split()}
    arrays = [sample(d, (3,)) for d in ("bool", "int8", "int32", "bfloat16", "float32")]
    scalars = (2, 2.5, True, np.float32(2), np.int8(3), np.float64(1.5), weakly(2), weakly(1.5))
    for value in scalars:
        for x in (*arrays, weakly(3, (3,)), 7, 0.5):
            check_types(ours, theirs, x, value, **weak)
            check_types(ours, theirs, value, x, **weak)
    for value in (None, "a", [1.0, 2.0, 3.0]):
        check_types(ours, theirs, arrays[-1], value)
        check_types(ours, theirs, value, arrays[-1])


def test_exact_binary() -> None:
    special = jnp.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5])
    with checks_in_one_program() as check:
        for name in EXACT_BINARY.split():
            ours, theirs = getattr(gnp, name), getattr(jnp, name)
            for dtype in ("bool", "int8", "uint8", "float32"):
                x, y = sample(dtype, (4, 5)), sample(dtype, (5,), seed=1)
                if dtype == "bool" and name == "fmod":
                    continue  # True modulo False is 0, as for integers; in JAX it is 1
                if dtype == "int8" and name in ("left_shift", "right_shift"):
                    y = abs(y)
                check(ours, theirs, x, y)
            if name not in ("gcd", "lcm"):
                check(ours, theirs, special[:, None], special[None, :])


def test_inexact_binary() -> None:
    special = jnp.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5])
    with checks_in_one_program() as check:
        for name in INEXACT_BINARY.split():
            ours, theirs = getattr(gnp, name), getattr(jnp, name)
            for dtype in ("int32", "bfloat16", "float32"):
                x = sample(dtype, (4, 5), low=1, high=3)
                y = sample(dtype, (5,), seed=1, low=1, high=3)
                check(ours, theirs, x, y, ulps=ULPS.get(dtype, 8))
            if "power" not in name and name != "pow":
                check(ours, theirs, special[:, None], special[None, :], ulps=4)


def test_integer_division() -> None:
    with checks_in_one_program() as check:
        for dtype in ("int8", "int32", "uint8", "uint32"):
            info = np.iinfo(dtype)
            values = [info.min, info.min + 1, info.max, 0, 1, 2, 3, 7]
            x = jnp.array(values + ([-1, -2, -3] if info.min else []), dtype)
            for name in ("floor_divide", "remainder", "fmod"):
                y = x[x != 0]
                check(getattr(gnp, name), getattr(jnp, name), x[:, None], y[None, :])


def test_power() -> None:
    with checks_in_one_program() as check:
        x = sample("float32", (6,))
        for exponent in (0, 1, 2, 3, -1, -2, 0.5, True, np.int32(3), weakly(2), jnp.int32(2)):
            check(gnp.power, jnp.power, jnp.abs(x), exponent, ulps=4)
        integers = jnp.array([-3, -1, 0, 1, 2, 5])
        for exponent in (0, 1, 2, 5, 31):
            check(gnp.power, jnp.power, integers, exponent)
        check(gnp.power, jnp.power, integers[:, None], jnp.arange(8))
        check(gnp.power, jnp.power, integers, -1)
        check(gnp.power, jnp.power, x, jnp.arange(6), ulps=4)
        check(gnp.power, jnp.power, 2, x, ulps=4)


def test_integer_power_is_exact_beyond_six_bits() -> None:
    # By repeated squaring; overflow wraps around.
    base, exponent = np.array([1, -1, 2, 3, 0], np.int32), np.array([64, 65, 64, 100, 64], np.int32)
    wrapped = [int(b) ** int(e) % 2**32 for b, e in zip(base, exponent, strict=True)]
    expected = np.array(wrapped, np.uint64).astype(np.uint32).astype(np.int32)
    np.testing.assert_array_equal(gnp.power(base, exponent), expected)
    negative = gnp.power(np.array([1, -1, -1, 2], np.int32), np.array([-3, -3, -2, -1], np.int32))
    np.testing.assert_array_equal(negative, [1, -1, 1, 0])


def test_ldexp_and_frexp() -> None:
    # NumPy is the reference for subnormal numbers, because XLA may flush them.
    x = np.array([0.0, -0.0, 1.0, -1.5, 3e38, 1.2e-38, np.inf, -np.inf, np.nan, 7.0], np.float32)
    n = np.array([0, 1, -1, 5, -30, 127, 10, -10], np.int32)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x[:, None], n[None, :])
    np.testing.assert_array_equal(gnp.ldexp(x[:, None], n[None, :]), expected)
    check(gnp.frexp, jnp.frexp, jnp.array(x))
    rng = np.random.default_rng(0)
    values = (rng.normal(size=200) * 2.0 ** rng.integers(-148, 120, 200)).astype(np.float32)
    shifts = rng.integers(-300, 300, 200).astype(np.int32)
    mantissa, exponent = gnp.frexp(values)
    np.testing.assert_array_equal(mantissa, np.frexp(values)[0])
    np.testing.assert_array_equal(exponent, np.frexp(values)[1])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(gnp.ldexp(values, shifts), np.ldexp(values, shifts))
    # The derivative of the mantissa is a power of two, that of ldexp too.
    assert float(gn.grad(lambda x: gnp.frexp(x)[0])(12.0)) == 1 / 16
    specials = np.array([1.5, 0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    _, tangents = gn.jvp(lambda x: gnp.ldexp(x, 3), (specials,), (np.ones_like(specials),))
    np.testing.assert_array_equal(tangents, np.full(6, 8.0))


def test_round() -> None:
    with checks_in_one_program() as check:
        x = jnp.array([0.5, 1.5, -2.5, 1.25, 123.456, -0.05], jnp.float32)
        for decimals in (0, 1, 2, -1):
            check(gnp.round, jnp.round, x, decimals, ulps=1)
        check(gnp.round, jnp.round, jnp.arange(3), 1)
        check(gnp.round, jnp.round, jnp.arange(3), -1)
        check(gnp.round, jnp.round, x.astype(jnp.float16), 1, ulps=1)


def test_clip() -> None:
    with checks_in_one_program() as check:
        x = jnp.arange(-3.0, 4.0)
        for bounds in ((-1, 1), (None, 1.5), (0, None), (None, None), (2, 1), (jnp.arange(7), 4.0)):
            check(gnp.clip, jnp.clip, x, *bounds)
        check(gnp.clip, jnp.clip, x, min=1, max=2)
        check(gnp.clip, jnp.clip, jnp.arange(5), 1.5, 2.5)
        check(gnp.clip, jnp.clip, x, 1j)


def test_where_and_select() -> None:
    with checks_in_one_program() as check:
        x, y = sample("float32", (3, 4)), sample("int32", (4,))
        condition = x > 0
        cases: list[tuple[Any, ...]] = [
            (condition, x, y),
            (condition, x, 0),
            (condition, 1, 2.0),
            (condition, 1, 2),
            (True, x, y),
            (y, x, 1.0),
            (x, x, x),
            (condition, x, None),
        ]
        for case in cases:
            check(gnp.where, jnp.where, *case)
        check(gnp.where, jnp.where, condition)
        check(gnp.where, jnp.where, condition, size=4, fill_value=9)
        check(gnp.select, jnp.select, [x > 1, x > 0], [x, y])
        check(gnp.select, jnp.select, [x > 1, x > 0], [1, 2.5], 7)
        check(gnp.select, jnp.select, [x > 1], [1, 2])


def test_nonzero() -> None:
    x = jnp.array([[0, 1, 0], [2, 0, 3]])
    with checks_in_one_program() as check:
        for kwargs in ({}, {"size": 2}, {"size": 5}, {"size": 5, "fill_value": -1}, {"size": 0}):
            check(gnp.nonzero, jnp.nonzero, x, **kwargs)
            check(gnp.argwhere, jnp.argwhere, x, **kwargs)
            check(gnp.flatnonzero, jnp.flatnonzero, x, **kwargs)
        check(gnp.nonzero, jnp.nonzero, jnp.array(1.0))
        check(gnp.nonzero, jnp.nonzero, jnp.zeros((0, 2)))
        for shape in ((0,), (0, 2)):
            empty = jnp.zeros(shape, bool)
            check(gnp.nonzero, jnp.nonzero, empty, size=3, fill_value=1)
            check(gnp.flatnonzero, jnp.flatnonzero, empty, size=3, fill_value=1)
            check(gnp.argwhere, jnp.argwhere, empty, size=3, fill_value=1)
    value = gn.jit(lambda a: gnp.nonzero(a, size=4, fill_value=7))(to_gnomon(x))
    np.testing.assert_array_equal(value, jnp.nonzero(x, size=4, fill_value=7))
    with pytest.raises(TypeError, match="nonzero elements must be known: pass size"):
        gn.jit(gnp.nonzero)(to_gnomon(x))


def test_comparisons_with_tolerance() -> None:
    x = jnp.array([1.0, np.nan, np.inf, -np.inf, 1e-9])
    y = jnp.array([1.00001, np.nan, np.inf, np.inf, 0.0])
    for equal_nan in (False, True):
        check(gnp.isclose, jnp.isclose, x, y, equal_nan=equal_nan)
        check(gnp.allclose, jnp.allclose, x, y, equal_nan=equal_nan)
        check(gnp.array_equal, jnp.array_equal, x, x, equal_nan)
    check(gnp.isclose, jnp.isclose, jnp.arange(3), 1)
    check(gnp.array_equal, jnp.array_equal, x, y[:2])
    check(gnp.array_equal, jnp.array_equal, [1, 2], [1.0, 2.0])
    check(gnp.array_equiv, jnp.array_equiv, [1, 1], 1)
    assert not gnp.array_equiv([1, 1], [1, 1, 1])  # as in NumPy; JAX raises


def test_complex_comparisons_go_by_the_real_part_first() -> None:
    x = jnp.array([1 + 2j, 1 + 1j, 2 - 1j, 0j])
    for name in ("less", "less_equal", "greater", "greater_equal"):
        check(getattr(gnp, name), getattr(jnp, name), x[:, None], x[None, :])


SMOOTH_UNARY = [n for n in TRANSCENDENTAL.split() if n not in ("radians", "degrees")] + [
    "square",
    "fabs",
]


def test_gradients() -> None:
    calls = {}
    with checks_in_one_program() as check:
        for name in SMOOTH_UNARY:
            x = jnp.float32(1.5 if name in ("arccosh", "acosh") else 0.4)
            ours, theirs = getattr(gnp, name), getattr(jnp, name)
            check(gn.grad(ours), jax.grad(theirs), x, ulps=16)
            check(ours, theirs, x, ulps=8)
            calls[name] = ours, (np.asarray(x),)
    check_joined(calls, lambda found, expected: assert_near(found, expected, 8))


POINTS = {
    # JAX's gradient at zero is nan since 0.12; gnomon's is 0.5, as before.
    "hypot": [(3.0, 4.0), (0.0, 2.0), *([] if IS_NEWEST else [(0.0, 0.0)]), (3e10, 4e10)],
    "logaddexp": [(1.0, 2.0), (0.0, 0.0), (1.0, -np.inf), (800.0, 1.0)],
    "logaddexp2": [(1.0, 2.0), (3.0, 3.0), (1.0, -np.inf)],
    "maximum": [(1.0, 2.0), (2.0, 2.0)],
    "minimum": [(1.0, 2.0), (2.0, 2.0)],
    "power": [(0.0, 2.0), (2.0, 3.0), (0.0, 1.0)],
    "arctan2": [(1.0, 2.0), (0.0, 1.0)],
    "remainder": [(5.5, 2.0), (-5.5, 2.0)],
    "fmod": [(5.5, 2.0), (-5.5, 2.0)],
    "copysign": [(1.0, -2.0)],
    "divide": [(1.0, 3.0)],
}


def test_gradients_at_points() -> None:
    with checks_in_one_program() as check:
        for name, points in POINTS.items():
            ours, theirs = gn.grad(getattr(gnp, name), (0, 1)), jax.grad(getattr(jnp, name), (0, 1))
            for x, y in points:
                check(ours, theirs, jnp.float32(x), jnp.float32(y), ulps=8)


def test_derivatives_of_sinc_at_zero() -> None:
    ours, theirs = gnp.sinc, jnp.sinc
    for _ in range(3):
        assert_near(ours(0.0), theirs(0.0), 4, scale=1.0)
        ours, theirs = gn.grad(ours), jax.grad(theirs)


def test_abs_at_zero_and_power_with_static_exponent() -> None:
    assert float(gn.grad(gnp.abs)(0.0)) == float(jax.grad(jnp.abs)(0.0))
    for exponent in (0, 1, 2, 3):
        ours = gn.grad(lambda x, n=exponent: x**n)(0.0)
        assert float(ours) == float(jax.grad(lambda x, n=exponent: x**n)(0.0))


def test_float0_is_rejected() -> None:
    zeros = np.zeros((2,), gn.dtypes.float0)
    with pytest.raises(TypeError, match="float0"):
        gnp.add(zeros, 1)


def test_the_fast_path_does_not_warn() -> None:
    large = gnp.full((3,), 3e38)
    np.testing.assert_array_equal(large * large, np.full(3, np.inf, np.float32))
    np.testing.assert_array_equal(large * 1e300, np.full(3, np.inf, np.float32))
    assert np.isnan(gnp.log(-large)).all()


def test_the_short_way_on_several_threads() -> None:
    x = gnp.arange(100_000.0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: (x * n + n).sum(), range(8)))
    for n, result in enumerate(results):
        assert float(result) == float((x * n + n).sum())


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "add", "less", "maximum", "power"])
def test_the_short_way_and_the_general_way_agree(name: str) -> None:
    function = getattr(gnp, name)
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5, 7.25, 1e30, -3e-30]
    floats = gnp.array(values)
    integers = gnp.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31)])
    for x in (floats, integers):
        left, right = gnp.meshgrid(x, x)
        if name == "power" and x is integers:
            right = gnp.abs(right) % 8
        # Under vmap ops are emitted, and evaluated one by one.
        traced = gn.vmap(function)(left, right)
        eager = function(left, right)
        np.testing.assert_array_equal(eager, traced)
        np.testing.assert_array_equal(np.signbit(eager), np.signbit(traced))


def test_strict_promotion() -> None:
    with gn.config.override("gnomon_numpy_dtype_promotion", "strict"):
        assert (gnp.ones(2) * 2.0).dtype == np.float32
        with pytest.raises(ValueError, match="strict"):
            gnp.ones(2) + gnp.arange(2)


def test_x64() -> None:
    with gn.enable_x64(), jax.enable_x64(True):
        x = jnp.arange(4) / 3
        assert x.dtype == np.float64
        check(gnp.sin, jnp.sin, x, ulps=4)
        check(gnp.add, jnp.add, x, 1)
        check(gnp.multiply, jnp.multiply, jnp.arange(4), 2.5)
        check(gnp.power, jnp.power, jnp.arange(4), jnp.arange(4))
        check(gnp.angle, jnp.angle, jnp.arange(4) - 1)
        check(gnp.angle, jnp.angle, jnp.ones(3, bool))
