"""gnomon.lax against jax.lax: values, dtypes, weak types, shapes, kinds of error."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.lax as jlax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.lax as glax
import tests.sample as sampling
from tests.frontend.oracle import (
    check,
    check_types,
    checks_in_one_program,
    outcome,
    sample,
    to_gnomon,
    weakly,
)
from tests.tolerance import assert_near
from tests.xla import NEWER_EMITTERS

DTYPES = ["bool", "int8", "int32", "uint8", "uint32", "float16", "bfloat16", "float32", "complex64"]

EXACT_UNARY = (
    "neg abs sign floor ceil is_finite square bitwise_not population_count clz real imag conj"
)
TRANSCENDENTAL = (
    "exp exp2 expm1 log log1p logistic sqrt rsqrt cbrt sin cos tan tanh asin acos atan sinh cosh "
    "asinh acosh atanh reciprocal"
)
BINARY = (
    "add sub mul max min nextafter complex bitwise_and bitwise_or bitwise_xor shift_left "
    "shift_right_arithmetic shift_right_logical eq ne lt le gt ge rem mulhi div pow atan2"
)
# Complex functions of NumPy and of XLA are slightly inaccurate at different points.
ULPS = {"float16": 2, "bfloat16": 2, "float32": 8, "complex64": 24}
DOMAIN = {"acosh": (1.0, 5.0), "atanh": (-0.95, 0.95), "asin": (-0.99, 0.99), "acos": (-0.99, 0.99)}


# The shapes of results do not depend on dtypes, so one dtype is inferred at several shapes.
@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", (EXACT_UNARY + " " + TRANSCENDENTAL).split())
def test_unary_types(name: str) -> None:
    for dtype, shape in (*((d, (2, 3)) for d in DTYPES), ("float32", ()), ("complex64", (0, 2))):
        check_types(getattr(glax, name), getattr(jlax, name), sample(dtype, shape))


# JAX must compile to compute values, so these are compared for some dtypes; types are for all.
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "bfloat16", "float32", "complex64"])
def test_exact_unary(dtype: str) -> None:
    x = sample(dtype, (3, 4))
    with checks_in_one_program() as check:
        for name in EXACT_UNARY.split():
            ulps = 4 if dtype == "complex64" and name in ("abs", "sign", "square") else 0
            check(getattr(glax, name), getattr(jlax, name), x, ulps=ulps)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex64"])
def test_transcendental(dtype: str) -> None:
    with checks_in_one_program() as check:
        for name in TRANSCENDENTAL.split():
            low, high = DOMAIN.get(name, (-3.0, 3.0))
            if name in ("log", "sqrt", "rsqrt", "log1p") and dtype != "complex64":
                low, high = 0.1, 5.0
            x = sample(dtype, (8, 5), low=low, high=high)
            check(getattr(glax, name), getattr(jlax, name), x, ulps=ULPS[dtype])


SCALARS = [1, 1.0, True, 0.5j, np.float32(2), np.int8(3), None, "a", [1.0]]


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", (EXACT_UNARY + " " + TRANSCENDENTAL).split())
def test_unary_of_scalars(name: str) -> None:
    for value in SCALARS:
        if not (name == "conj" and value is None):  # an error of another kind there
            check_types(getattr(glax, name), getattr(jlax, name), value)


SHAPES = [((), ()), ((3, 4), (3, 4)), ((), (4,)), ((1, 4), (3, 1)), ((0,), (0,)), ((3,), (1, 3))]


# As for one operand; bitwise functions take no floats, and have the types of others.
@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", BINARY.split())
def test_binary_types(name: str) -> None:
    cases = [*((d, SHAPES[1]) for d in DTYPES), *(("float32", s) for s in SHAPES)]
    for dtype, (left, right) in [*cases, *(("uint32", s) for s in SHAPES)]:
        if (name, dtype) != ("atan2", "complex64"):  # complex angles are not supported
            args = sample(dtype, left), sample(dtype, right)
            check_types(getattr(glax, name), getattr(jlax, name), *args)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "bfloat16", "float32", "complex64"])
def test_binary(dtype: str) -> None:
    with checks_in_one_program() as check:
        for name in BINARY.split():
            low = 0.1 if name == "pow" else -3.0
            x, y = sample(dtype, (3, 4), 1, low=low), sample(dtype, (3, 1), 2)
            if name in ("rem", "div", "shift_left"):
                y = jnp.where(y == 0, jnp.ones_like(y), y) if dtype != "bool" else y
            inexact = name in ("atan2", "pow", "div") or (dtype == "complex64" and name == "mul")
            ulps = ULPS.get(dtype, 0) if inexact else 0
            if (name, dtype) != ("atan2", "complex64"):  # not supported here
                check(getattr(glax, name), getattr(jlax, name), x, y, ulps=ulps)


PAIRS = [
    (1, 2),
    (1, 2.0),
    (True, 1),
    (True, True),
    (1.0, np.float32(2)),
    (1.0, np.float64(2)),
    (weakly(1), weakly(2)),
    (weakly(1), jnp.int32(2)),
    (weakly(1.0), jnp.float16(2)),
    (jnp.ones(3), 1.0),
    (jnp.ones(3), 1),
    (jnp.ones(3), np.ones(3)),
    (jnp.ones(3), jnp.ones(4)),
    (jnp.ones(3), jnp.ones((1, 3))),
    (jnp.ones(3), jnp.ones(3, jnp.int32)),
    (np.arange(3), np.arange(3)),
    ([1.0], 1.0),
    (None, 1.0),
    ("a", 1.0),
    (2**40, 1),
    (1j, 1j),
]


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", BINARY.split())
def test_binary_of_mixed_arguments(name: str) -> None:
    for pair in PAIRS:
        if name == "atan2" and pair is PAIRS[-1]:
            continue  # complex angles are not supported here
        check_types(getattr(glax, name), getattr(jlax, name), *pair)


def test_pow_takes_integer_exponents() -> None:
    x, n = sample("float32", (5,)), jnp.arange(-2, 3)
    check(glax.pow, jlax.pow, x, n, ulps=4)
    check(glax.pow, jlax.pow, x, 3, ulps=4)
    check(glax.pow, jlax.pow, 2.0, jnp.int8(3))
    check(glax.pow, jlax.pow, n, n)
    check(glax.pow, jlax.pow, n, x)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "bfloat16", "float32", "complex64"])
def test_integer_pow(dtype: str) -> None:
    with checks_in_one_program() as check:
        for power in (-3, -1, 0, 1, 2, 5):
            check(glax.integer_pow, jlax.integer_pow, sample(dtype, (6,)), power, ulps=8)


def test_round() -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388609.0, np.inf, np.nan], np.float32)
    with checks_in_one_program() as check:
        for m in (0, 1):
            ours, theirs = glax.RoundingMethod(m), jlax.RoundingMethod(m)
            for v in (jnp.asarray(x), jnp.arange(3)):
                check(
                    functools.partial(glax.round, rounding_method=ours),
                    functools.partial(jlax.round, rounding_method=theirs),
                    v,
                )
        check(glax.round, jlax.round, jnp.arange(3))


def test_clamp() -> None:
    x = sample("float32", (3, 4))
    zeros = jnp.zeros((3, 4))
    with checks_in_one_program() as check:
        for low, high in ((-1.0, 1.0), (zeros, 1.0), (0, 1), (zeros[0], 1.0)):
            check(glax.clamp, jlax.clamp, low, x, high)
        check(glax.clamp, jlax.clamp, 0, 1, 3)
        check(glax.clamp, jlax.clamp, 0, 1, jnp.int32(3))
        check(glax.clamp, jlax.clamp, jnp.nan, x, 1.0)


def test_select() -> None:
    with checks_in_one_program() as check:
        _check_selections(check)


def _check_selections(check: Callable[..., None]) -> None:
    a, b, c = (sample("float32", (3,), i) for i in range(3))
    p = jnp.array([True, False, True])
    for args in (
        (p, a, b),
        (True, a, b),
        (1, a, b),
        (p, a, 1.0),
        (p, 1.0, 2.0),
        (True, 1.0, 2.0),
        (jnp.array(False), 1.0, 2.0),
        (p, a, b.astype(jnp.int32)),
        (p, a, jnp.ones(4)),
    ):
        check(glax.select, jlax.select, *args)
    for args in (
        (jnp.array([0, 2, 1]), a, b, c),
        (jnp.array([5, -2, 1]), a, b, c),
        (1, a, b, c),
        (p, a, b, c),
        (p, a),
        (jnp.array([0, 1, 1], jnp.int8), a, b),
        (1, 1, 2, 3),
    ):
        check(glax.select_n, jlax.select_n, *args)


CONVERT = DTYPES


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("old", CONVERT)
def test_convert_element_type(old: str) -> None:
    x = sample(old, (10,), low=-100, high=100)
    if old in ("float16", "bfloat16", "float32"):
        edges = jnp.array([0.0, -0.0, jnp.inf, -jnp.inf, jnp.nan, 300.7, -1.5, 65504.0], old)
        x = jnp.concatenate([x, edges])
    with checks_in_one_program() as check:
        for new in CONVERT:
            check(glax.convert_element_type, jlax.convert_element_type, x, new)


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("value", [1, 1.5, True, 2**40, 2**100, 1j, np.float64(1.7), [1, 2]])
@pytest.mark.parametrize(
    "new", [int, float, bool, np.float32, "bfloat16", None, np.float64, "nonsense"]
)
def test_convert_element_type_of_scalars(value: Any, new: Any) -> None:
    if value == 2**100 and new in (int, bool):
        pytest.skip("JAX raises its own OverflowError or reads the object as true")
    check_types(glax.convert_element_type, jlax.convert_element_type, value, new)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("old", ["int8", "uint16", "bfloat16", "uint32", "float32"])
def test_bitcast_convert_type(old: str) -> None:
    with checks_in_one_program() as check:
        for new in ("int8", "uint8", "float16", "bfloat16", "int32", "float32"):
            last = max(1, np.dtype(jnp.dtype(new)).itemsize // np.dtype(jnp.dtype(old)).itemsize)
            for shape in ((4,), (3, 2), (2, 4), (), (3, last)):
                x = sample(old, shape)
                check(glax.bitcast_convert_type, jlax.bitcast_convert_type, x, new)


@pytest.mark.parametrize(
    "args",
    [
        ((2,), 1),
        ((2,), 1, jnp.float32),
        ((2,), 1, float),
        (2, 1.0),
        ((), 1.0),
        ((0, 3), 1.0),
        ((2,), True),
        ((2,), weakly(3)),
        ((2,), np.ones(3)),
        ((-2,), 1),
        ((2.0,), 1),
        ("ab", 1),
    ],
    ids=str,
)
def test_full(args: Any) -> None:
    check_types(glax.full, jlax.full, *args)


@pytest.mark.parametrize(
    "args",
    [
        (jnp.ones((2, 3)), 1),
        (1.0, 1),
        (weakly(1, (2,)), 3.7),
        (jnp.ones(3), 1, jnp.int32, (2,)),
        (jnp.ones(3), 1.5, None, ()),
        (np.ones(3), True),
        (jnp.ones(3), np.ones(3)),
    ],
    ids=str,
)
def test_full_like(args: Any) -> None:
    check_types(glax.full_like, jlax.full_like, *args)


@pytest.mark.parametrize("dtype", [*DTYPES, int, float])
def test_iota(dtype: Any) -> None:
    check_types(glax.iota, jlax.iota, dtype, 0)
    check_types(glax.broadcasted_iota, jlax.broadcasted_iota, dtype, (2, 3), 1)
    check(glax.broadcasted_iota, jlax.broadcasted_iota, dtype, (2, 3), 0)


@pytest.mark.parametrize("args", [((2, 3), 2), ((2, 3), -1), ((-1,), 0), ((), 0)])
def test_iota_errors(args: Any) -> None:
    check(glax.broadcasted_iota, jlax.broadcasted_iota, jnp.int32, *args)


M, V = jnp.arange(6.0).reshape(2, 3), jnp.arange(5)
CASES: list[tuple[str, Any]] = [
    *(("broadcast", a) for a in [(1.0, (2,)), (V, (2, 3)), (V, ()), (V, (-2,)), (weakly(1), (2,))]),
    *(
        ("broadcast_in_dim", a)
        for a in [
            (V, (2, 5), (1,)),
            (V, (5, 2), (0,)),
            (V, (2, 5), (0,)),
            (V, (2, 5), ()),
            (V, (2, 5), (2,)),
            (V, (5,), (-1,)),
            (M, (2, 3), (1, 0)),
            (M, (3, 2), (1, 0)),
            (M, (3, 4, 2), (2, 0)),
            (M[:1], (3, 4, 2), (1, 0)),
            (M[:, :2], (2, 2), (1, 1)),
            (M, (2, 4, 3), (0, 2)),
            (jnp.ones((2, 1)), (2, 4), (0, 1)),
            (1, (2, 3), ()),
            (1, (-2, 3), ()),
            (M, (2, 3), (0, 1)),
        ]
    ),
    *(
        ("reshape", a)
        for a in [
            (M, (3, 2)),
            (M, (3, 2), (1, 0)),
            (M, (6,), (1, 0)),
            (M, 6),
            (M, (-1,)),
            (M, (6,), (0,)),
            (1, (1,)),
            (1, ()),
            (jnp.ones((0, 3)), (5, 0)),
        ]
    ),
    *(("squeeze", (jnp.ones((1, 2, 1)), d)) for d in [(0,), (-1,), (0, 2), (1,), (3,), (0, 0), ()]),
    *(("expand_dims", (V, d)) for d in [(0,), (0, -1), (3,), (0, 0), (), (1,)]),
    *(("transpose", (M, p)) for p in [(1, 0), (0, 1), (0,), (0, 0), (-1, 0), np.array([1, 0])]),
    *(("rev", (M, d)) for d in [(0,), (1, 0), (), (-1,), (0, 0), (2,)]),
    *(
        ("concatenate", a)
        for a in [
            ([M, M], 0),
            ([M, M * 2], 1),
            ([M], 0),
            (M, 0),
            ([M, M], -1),
            ([], 0),
            ([M, V], 0),
            ([M, jnp.ones((2, 4))], 0),
            ([M, M.astype(int)], 0),
            ([1.0, 2.0], 0),
            ([M, M], 2),
            ([weakly(1, (2,)), weakly(2, (1,))], 0),
        ]
    ),
    *(
        ("pad", a)
        for a in [
            (V, 0, [(1, 2, 1)]),
            (V, 0, [(-1, -1, 0)]),
            (V, 0, [(-1, 2, 2)]),
            (V, 0.0, [(1, 1, 1)]),
            (V, 0, [(1, 1, -1)]),
            (V, 0, [(-4, -4, 0)]),
            (V, 0, [(1, 1)]),
            (V, V, [(1, 1, 0)]),
            (V, 0, [(1, 1, 0), (1, 1, 0)]),
            (M, jnp.nan, [(0, 1, 2), (2, -1, 0)]),
            (weakly(1, (2,)), jnp.int32(0), [(1, 1, 0)]),
            (weakly(1, (2,)), 0, [(1, 1, 0)]),
            (V, 0, [(0, 0, 0)]),
        ]
    ),
    *(
        ("slice", a)
        for a in [
            (V, (1,), (3,)),
            (V, (1,), (5,), (2,)),
            (V, (2,), (2,)),
            (V, (1,), (4,), (-1,)),
            (V, 1, 4),
            (M, (0, 1), (2, 3)),
            (M, (0, 0), (2, 3), (1, 2)),
            (V, (4,), (3,)),
        ]
    ),
    *(
        ("slice_in_dim", a)
        for a in [
            (V, 1, 4),
            (V, -3, -1),
            (V, None, None, 2),
            (V, 0, 9),
            (V, 0, 2, 1, -1),
            (M, 0, 2, 1, 1),
        ]
    ),
    *(
        ("index_in_dim", a)
        for a in [(V, 1), (V, -1, 0, False), (V, 5), (V, -6), (M, 1, 1), (M, 1, -1, False)]
    ),
    *(
        ("dynamic_slice", a)
        for a in [
            (V, (3,), (3,)),
            (V, (-1,), (3,)),
            (V, (-10,), (3,)),
            (V, jnp.array([1]), (3,)),
            (V, np.array([1]), (3,)),
            (V, (1.0,), (3,)),
            (V, (1, 1), (3,)),
            (V, (1,), (6,)),
            (V, (1,), (-1,)),
            (M, (jnp.int8(1), jnp.uint32(1)), (1, 1)),
            (M, (jnp.uint8(200), jnp.uint8(200)), (1, 2)),
            (weakly(1, (2,)), (jnp.int32(1),), (1,)),
            (V, 1, (3,)),
        ]
    ),
    *(
        ("dynamic_slice_in_dim", a)
        for a in [(V, 3, 3), (M, 1, 2, 1), (V, jnp.int8(-2), 1), (M, 0, 1, -1)]
    ),
    *(
        ("dynamic_index_in_dim", a)
        for a in [(V, 7), (V, -2, 0, False), (M, 1, 1), (M, jnp.int32(0), 0, False)]
    ),
    *(
        ("dynamic_update_slice", a)
        for a in [
            (V, V[:2] * 7, (4,)),
            (V, V[:2] * 7, (-1,)),
            (V, jnp.ones(2), (4,)),
            (V, jnp.ones(6, int), (4,)),
            (V, jnp.ones((2, 3), int), (4,)),
            (V, 1, (4,)),
            (M, jnp.zeros((1, 2)), (1, 1)),
            (weakly(1, (2,)), weakly(2, (1,)), (jnp.int32(1),)),
            (weakly(1, (2,)), weakly(2, (1,)), (1,)),
        ]
    ),
    *(("dynamic_update_slice_in_dim", a) for a in [(V, V[:2], 4, 0), (M, jnp.zeros((2, 1)), 1, 1)]),
    *(
        ("dynamic_update_index_in_dim", a)
        for a in [
            (V, 1, 4, 0),
            (M, jnp.zeros(2), 1, 1),
            (M, jnp.zeros((2, 1)), 1, 1),
            (M, jnp.zeros(3), -1, 0),
        ]
    ),
    *(("collapse", (jnp.ones((4, 2, 3)), *a)) for a in [(1,), (0, 2), (-2,), (0,), (1, 2)]),
    *(("split", a) for a in [(V, (2, 3)), (V, (2, 2)), (M, (1, 2), 1), (V, (0, 5)), (M, (1, 1))]),
    *(("tile", a) for a in [(V, (2,)), (M, (2, 1)), (V, (2, 2)), (V, (0,)), (M, (1, 1))]),
    *(("stack", a) for a in [([V, V],), ([V, V], 1), ([V, V], -1), ([V, M],)]),
    *(("unstack", a) for a in [(V,), (M,), (M, 1), (1.0,)]),
    *(
        ("broadcast_shapes", a)
        for a in [((2, 1), (3,)), ((2, 2), (3,)), ((),), ((4,), ()), ((0,), (1,))]
    ),
    *(("broadcast_to_rank", a) for a in [(V, 3), (V, 1), (1.0, 2)]),
    ("shape_as_value", ((2, 3),)),
    *(
        ("reduce_precision", a)
        for a in [(1.1, 5, 2), (jnp.array([1e10, 1.23, jnp.inf, 1e-20]), 5, 10)]
    ),
    *(("reciprocal", a) for a in [(2,), (jnp.arange(3),)]),
    ("batch_matmul", (jnp.ones((4, 2, 3)), jnp.ones((4, 3, 2)))),
    ("batch_matmul", (jnp.ones((2,)), jnp.ones((4, 3, 2)))),
    ("batch_matmul", (jnp.ones((2, 3)), jnp.ones((4, 3, 2)))),
]


NAMES = list(dict.fromkeys(name for name, _ in CASES))


@pytest.mark.parametrize("name", NAMES)
def test_structural(name: str) -> None:
    with checks_in_one_program() as check:
        for args in (args for each, args in CASES if each == name):
            check(getattr(glax, name), getattr(jlax, name), *args)


REDUCTIONS = ["sum", "prod", "max", "min", "and", "or", "xor"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype: str) -> None:
    with checks_in_one_program() as check:
        for name in REDUCTIONS:
            ours, theirs = getattr(glax, f"reduce_{name}"), getattr(jlax, f"reduce_{name}")
            for shape, axes in (((3, 4), (0, 1)), ((3, 4), ()), ((), ())):
                check_types(ours, theirs, sample(dtype, shape), axes)
            for shape in ((3, 4), (0, 4)):
                if 0 in shape and dtype == "complex64" and name in ("max", "min"):
                    continue  # see test_extrema_of_no_complex_numbers
                # A sum of three numbers up to three, a product of three.
                x, scale = sample(dtype, shape), 3.0 if name == "sum" else 0.0
                check(ours, theirs, x, (0,), ulps=4, scale=scale)


def test_extrema_of_no_complex_numbers() -> None:
    """The results are the ends of the order; JAX's have an imaginary part of zero and are not."""
    empty = np.zeros((0, 1), np.complex64)
    for reduce, end in ((glax.reduce_max, -np.inf), (glax.reduce_min, np.inf)):
        for run in (reduce, gn.jit(reduce, static_argnums=1)):
            (value,) = np.asarray(run(empty, (0,)))
            assert (value.real, value.imag) == (end, end)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reduction_errors(name: str) -> None:
    ours, theirs = getattr(glax, f"reduce_{name}"), getattr(jlax, f"reduce_{name}")
    for axes in ((-1,), (2,), (0, 0), 0):
        check_types(ours, theirs, M, axes)


def test_reductions_keep_weak_types() -> None:
    x = weakly(2, (3,))
    with checks_in_one_program() as check:
        for name in REDUCTIONS:
            check(getattr(glax, f"reduce_{name}"), getattr(jlax, f"reduce_{name}"), x, (0,))
        for name in ("cumsum", "cumprod", "cummax", "cummin"):
            check(getattr(glax, name), getattr(jlax, name), x, 0)
        check(glax.argmax, jlax.argmax, x, 0, np.int32)


def test_arg_reductions() -> None:
    for name in ("argmax", "argmin"):  # refused when JAX lowers them
        check(getattr(glax, name), getattr(jlax, name), sample("complex64", (5, 4)), 1, "uint8")
    with checks_in_one_program() as check_later:
        for dtype, name in itertools.product(DTYPES[:-1], ["argmax", "argmin"]):
            ours, theirs = getattr(glax, name), getattr(jlax, name)
            check_later(ours, theirs, sample(dtype, (5, 4)), 1, "uint8")
            for axis, index_dtype in ((0, "int32"), (2, "int32"), (-1, "int32"), (0, "float32")):
                check_types(ours, theirs, sample(dtype, (5, 4)), axis, index_dtype)
            for axis in (0, 1):
                check_types(ours, theirs, sample(dtype, (0, 3)), axis, "int32")
        x = jnp.asarray(np.array([1.0, np.nan, 3.0, np.nan], np.float32))
        check_later(glax.argmax, jlax.argmax, x, 0, "int32")
        check_later(glax.argmin, jlax.argmin, x, 0, "int32")


CUMULATIVE = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", ["int8", "uint32", "float16", "bfloat16", "float32", "complex64"])
def test_cumulative(dtype: str) -> None:
    x = sample(dtype, (3, 4))
    with checks_in_one_program() as check:
        for name in CUMULATIVE:
            if name == "cumlogsumexp" and dtype not in ("float16", "bfloat16", "float32"):
                continue  # JAX fails on some others, and takes complex numbers
            ours, theirs = getattr(glax, name), getattr(jlax, name)
            # Four steps, each rounded by half a unit in both libraries, of numbers up to three.
            check(ours, theirs, x, 0, True, ulps=4, scale=3.0)
            check(ours, theirs, x, 1, ulps=4, scale=3.0)
            for axis in (-1, 3):
                check_types(ours, theirs, x, axis)


# Numbers, and whether they are summed from the end, which for palindromes gives the same numbers.
TIES = [
    ([2, 2], False),
    ([2, 2, 2], True),
    ([0, 1, 1, 0], False),
    ([-1, 3, 3, 3, -1], False),
    ([-1, 3, 3, 3, -1], True),
]


def test_cumlogsumexp_has_all_derivatives_at_ties() -> None:
    """They are those of its definition, which does not overflow for these numbers."""

    def by_definition(v: Any, reverse: bool) -> Any:
        below = jnp.tril(jnp.ones((v.size, v.size)))
        return jnp.log((below.T if reverse else below) @ jnp.exp(v)).sum()

    def derivatives(f: Any, transforms: list[Any], v: Any, reverse: bool) -> list[Any]:
        f, found = functools.partial(f, reverse=reverse), []
        for transform in transforms:
            f = transform(f)
            found.append(f(v))
        return found

    chosen = sampling.sample(TIES, 2, "ties")
    points = [(np.array(values, np.float32), reverse) for values, reverse in chosen]
    expected = jax.jit(
        lambda: [derivatives(by_definition, [jax.jacfwd] * 4, *point) for point in points]
    )()

    def ours(v: Any, reverse: bool) -> Any:
        return glax.cumlogsumexp(v, reverse=reverse).sum()

    for point, wanted in zip(points, expected, strict=True):
        found = derivatives(ours, [gn.jacfwd, gn.jacrev] * 2, *point)
        for order, (a, b) in enumerate(zip(found, wanted, strict=True), 1):
            assert_near(a, b, 64, scale=1.0, message=f"order {order} at {point}")


def test_cumulative_of_bool_raises() -> None:
    for name in CUMULATIVE:
        check_types(getattr(glax, name), getattr(jlax, name), V > 2, 0)


# ------------------------------------------------------------------------------------ contraction

DOT_DTYPES = ["bool", "int8", "int32", "uint8", "float16", "bfloat16", "float32", "complex64"]
F = jnp.arange(6.0).reshape(2, 3)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", DOT_DTYPES)
def test_dot(dtype: str) -> None:
    v, m, t = sample(dtype, (4,)), sample(dtype, (4, 3), 1), sample(dtype, (3, 4))
    for a, b in ((v, v), (v, m), (t, v), (m, m), (m, v), (1.0, v), (sample(dtype, (1, 4, 3)), v)):
        check_types(glax.dot, jlax.dot, a, b)
    check(glax.dot, jlax.dot, t, m, ulps=4, together=True)


NUMBERS = [
    (((1,), (1,)), ((), ())),
    (((0, 1), (0, 1)), ((), ())),
    (((1, 0), (1, 0)), ((), ())),
    (((), ()), ((), ())),
    (((1,), (1,)), ((0,), (0,))),
    (((), ()), ((0, 1), (0, 1))),
    (([1], [1]), ([], [])),
    (((-1,), (-1,)), ((), ())),
    (((1,), (0,)), ((), ())),
    (((1,), (1,)), ((1,), (1,))),
    (((1,), (1, 2)), ((), ())),
]


def test_dot_general() -> None:
    with checks_in_one_program() as check:
        for numbers in NUMBERS:
            check(glax.dot_general, jlax.dot_general, F, F, numbers, ulps=4)


@pytest.mark.parametrize(
    ("left", "right"),
    [("float16", "bfloat16"), ("float8_e4m3fn", "float8_e5m2"), ("int8", "uint8")],
)
def test_dot_general_of_two_formats_of_one_width(left: str, right: str) -> None:
    """Neither operand loses digits by a conversion to the other's format."""
    x, y = sample(left, (4, 8), 1, low=0), sample(right, (8, 3), 2, low=0)
    numbers = (((1,), (0,)), ((), ()))
    for a, b in ((x, y), (y.T, x.T)):
        for preferred in ("float32", None):
            check(
                glax.dot_general,
                jlax.dot_general,
                a,
                b,
                numbers,
                preferred_element_type=preferred,
                ulps=4,
            )


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bfloat16"])
def test_dot_converts_its_sums(dtype: str) -> None:
    """If the result has a lower kind than the products, only their sum is converted."""
    x, y = sample(dtype, (2, 3)), sample(dtype, (3, 2), seed=1)
    check(glax.dot, jlax.dot, x, y, preferred_element_type="int32")
    # XLA's older emitters do not convert complex sums.
    dot = jax.jit(
        jlax.dot, static_argnames="preferred_element_type", compiler_options=NEWER_EMITTERS
    )
    check(glax.dot, dot, x, y, preferred_element_type="float32", ulps=8, together=True)


def test_argmax_says_that_its_dtype_is_too_narrow() -> None:
    with pytest.raises(ValueError, match="int8 does not hold the index 128"):
        glax.argmax(np.zeros(129, np.float32), 0, np.int8)
    assert glax.argmax(np.arange(128), 0, np.int8) == 127


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("right", ["float32", "bfloat16", "int8", "int32", "float16", "complex64"])
@pytest.mark.parametrize("left", ["float32", "bfloat16", "int8", "uint8", "complex64"])
@pytest.mark.parametrize("preferred", [None, "float32", "int32"])
def test_dot_of_dtypes(left: str, right: str, preferred: Any) -> None:
    if preferred == "int32" and not (left.endswith("int8") and right.startswith("int")):
        pytest.skip("JAX's CPU backend takes some of these, and truncates operands or products")
    x, y = sample(left, (3, 4)), sample(right, (4,))
    check_types(glax.dot, jlax.dot, x, y, preferred_element_type=preferred)
    if (left, right) in (("int8", "int8"), ("bfloat16", "bfloat16"), ("bfloat16", "float32")):
        check(glax.dot, jlax.dot, x, y, preferred_element_type=preferred, ulps=4, together=True)


def test_dot_weak_types() -> None:
    w = weakly(1.0, (2,))
    check(glax.dot, jlax.dot, w, w)
    check(glax.dot, jlax.dot, w, jnp.ones(2))
    check(glax.dot, jlax.dot, w, jnp.ones(2, jnp.bfloat16))


@pytest.mark.parametrize(
    "precision", [None, "highest", "default", "high", ("highest", "default"), "no", 3]
)
def test_precision(precision: Any) -> None:
    check(glax.dot, jlax.dot, F[0], F[0], precision=precision)


def test_precision_enum() -> None:
    assert glax.Precision("highest") is glax.Precision.HIGHEST
    assert [p.name for p in glax.Precision] == [p.name for p in jlax.Precision]
    assert str(glax.dot(np.ones(2), np.ones(2), precision=glax.Precision.HIGH)) == "2.0"


# ------------------------------------------------------------------------------ gather and scatter

X = jnp.arange(12.0).reshape(3, 4)
ROWS = jnp.array([[1], [7], [-1]])
PLACES = jnp.array([[0, 1], [2, 3], [3, 3]])


def _gather(module: Any, x: Any, rows: Any, numbers: Any, sizes: Any, **kwargs: Any) -> Any:
    return module.gather(x, rows, module.GatherDimensionNumbers(*numbers), sizes, **kwargs)


def _scatter(
    module: Any, name: str, x: Any, rows: Any, new: Any, numbers: Any, **kwargs: Any
) -> Any:
    return getattr(module, name)(x, rows, new, module.ScatterDimensionNumbers(*numbers), **kwargs)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    ("mode", "dtype"),
    [*((m, "float32") for m in (None, "clip", "fill", "wrap"))]
    + [("fill", d) for d in ("int8", "uint8", "bool", "complex64")],
)
def test_gather(mode: Any, dtype: str) -> None:
    x = sample(dtype, (3, 4))
    with checks_in_one_program() as check:
        for rows, numbers, sizes in (
            (ROWS, ((1,), (0,), (0,)), (1, 4)),
            (ROWS, ((0, 2), (), (1,)), (2, 2)),
            (PLACES, ((), (0, 1), (0, 1)), (1, 1)),
            (ROWS, ((), (1,), (1,), (0,), (0,)), (1, 1)),
            (ROWS * 1.0, ((1,), (0,), (0,)), (1, 4)),
            (ROWS, ((1,), (0,), (0,)), (1, 5)),
            (ROWS, ((1,), (0,), (0,)), (1,)),
            (ROWS, ((1,), (2,), (0,)), (1, 4)),
            (ROWS, ((0,), (0,), (1,)), (1, 4)),
        ):
            check(
                lambda *a: _gather(glax, *a, mode=mode),
                lambda *a: _gather(jlax, *a, mode=mode),
                x,
                rows,
                numbers,
                sizes,
            )


def test_gather_fill_value() -> None:
    args = (X, ROWS, ((1,), (0,), (0,)), (1, 4))
    for fill in (3, 2.5, True):
        check(
            lambda *a: _gather(glax, *a, mode="fill", fill_value=fill),  # noqa: B023
            lambda *a: _gather(jlax, *a, mode="fill", fill_value=fill),  # noqa: B023
            *args,
        )


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    ("mode", "dtype"),
    [*((m, "float32") for m in (None, "clip", "drop"))]
    + [(None, d) for d in ("int8", "bool", "complex64")],
)
def test_scatter(dtype: str, mode: Any) -> None:
    x, new = sample(dtype, (3, 4)), sample(dtype, (3, 4), 5)
    refused = {  # complex numbers have no order for scatters; bools are not added or multiplied
        "complex64": ("scatter_min", "scatter_max"),
        "bool": ("scatter_add", "scatter_mul", "scatter_sub"),
    }
    with checks_in_one_program() as check:
        for name, (rows, update, numbers) in itertools.product(
            ("scatter", *(f"scatter_{how}" for how in ("add", "mul", "min", "max", "sub"))),
            (
                (ROWS, new, ((1,), (0,), (0,))),
                (ROWS, new[:, 0], ((), (1,), (1,), (0,), (0,))),
                (PLACES, new[:, 0], ((), (0, 1), (0, 1))),
                (ROWS, new[:2], ((1,), (0,), (0,))),
            ),
        ):
            if name not in refused.get(dtype, ()):
                check(
                    functools.partial(_scatter, glax, name, mode=mode),
                    functools.partial(_scatter, jlax, name, mode=mode),
                    x,
                    rows,
                    update,
                    numbers,
                    ulps=4,
                )


def test_scatter_errors() -> None:
    numbers, new = ((1,), (0,), (0,)), jnp.ones((3, 4))
    for name in ("scatter", "scatter_add"):
        for x, rows, update in (
            (X, ROWS, new.astype(jnp.float16)),
            (X, ROWS * 1.0, new),
            (X, ROWS, new[:2]),
            (X > 1 if name == "scatter_add" else 1.0, ROWS, new > 1),
        ):
            check_types(
                lambda *a: _scatter(glax, name, *a),  # noqa: B023
                lambda *a: _scatter(jlax, name, *a),  # noqa: B023
                x,
                rows,
                update,
                numbers,
            )


def test_index_take() -> None:
    check(glax.index_take, jlax.index_take, X, (jnp.array([0, 2]),), (1,))
    check(glax.index_take, jlax.index_take, X, (jnp.array([0, 2]), jnp.array([3, 1])), (0, 1))
    beyond = jnp.array([-1, 7, 255, -300])
    check(glax.index_take, jlax.index_take, X, (beyond, -beyond), (0, 1))
    check(glax.index_take, jlax.index_take, X, (beyond.astype("uint32"),), (1,))


def test_stop_gradient() -> None:
    check(glax.stop_gradient, jlax.stop_gradient, (V, M, {"a": M}["a"]))
    with pytest.raises(TypeError, match="arrays and scalars"):
        glax.stop_gradient([1.0, "a"])


def test_accuracy() -> None:
    assert float(glax.exp(0.0, accuracy=glax.AccuracyMode.HIGHEST)) == 1.0
    assert float(glax.log(1.0, accuracy=glax.Tolerance(atol=1e-3, ulps=1))) == 0.0
    with pytest.raises(NotImplementedError, match="Tolerance"):
        glax.exp(0.0, accuracy=3)
    for arguments in ({"rtol": -1.0}, {}):
        with pytest.raises(ValueError):
            glax.Tolerance(**arguments)


def test_names_and_docstrings() -> None:
    for name in glax.__all__:
        value = getattr(glax, name)
        if callable(value):
            assert value.__doc__, name
    assert glax.sin.__name__ == "sin"


# ------------------------------------------------------------------------------------ under tracing


def _traced(name: str, args: Any) -> None:
    """A traced call has the type of an eager one; arrays among the arguments are traced."""
    function = getattr(glax, name)
    leaves, tree = gn.tree_util.tree_flatten(to_gnomon(args))
    arrays = [x for x in leaves if isinstance(x, gn.Array)]

    def call(*traced: Any) -> Any:
        pending = iter(traced)
        return function(
            *tree.unflatten([next(pending) if isinstance(x, gn.Array) else x for x in leaves])
        )

    expected = call(*arrays)
    got = gn.eval_shape(call, *arrays)
    for a, b in zip(gn.tree_util.tree_leaves(expected), gn.tree_util.tree_leaves(got), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)


@pytest.mark.parametrize(("name", "args"), CASES, ids=lambda v: str(v).replace("\n", "")[:60])
def test_structural_functions_are_traced(name: str, args: Any) -> None:
    _, error = outcome(getattr(glax, name), to_gnomon(args), {})
    if error is not None:
        with pytest.raises(type(error)):
            _traced(name, args)
    elif name not in ("shape_as_value", "broadcast_shapes"):
        _traced(name, args)


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", (EXACT_UNARY + " " + TRANSCENDENTAL).split())
def test_unary_functions_are_traced(name: str) -> None:
    for dtype in ("int32", "float32", "bfloat16", "complex64"):
        x = sample(dtype, (2, 3))
        _, error = outcome(getattr(glax, name), (to_gnomon(x),), {})
        if error is None:
            _traced(name, (x,))


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", BINARY.split())
def test_binary_functions_are_traced(name: str) -> None:
    for dtype in ("int32", "float32"):
        x, y = sample(dtype, (2, 3)), sample(dtype, (1, 3), 1)
        _, error = outcome(getattr(glax, name), to_gnomon((x, y)), {})
        if error is None:
            _traced(name, (x, y))


def test_dynamic_slices_at_traced_places() -> None:
    x, new = gn.numpy.arange(7.0), gn.numpy.ones(3)
    for start in (-9, -2, 0, 3, 99):
        expected = np.asarray(glax.dynamic_slice(x, (start,), (3,)))
        index = gn.numpy.asarray(start)
        np.testing.assert_array_equal(
            gn.vmap(lambda i: glax.dynamic_slice(x, (i,), (3,)))(index[None])[0], expected
        )
        np.testing.assert_array_equal(
            gn.vmap(lambda i: glax.dynamic_update_slice(x, new, (i,)))(index[None])[0],
            np.asarray(glax.dynamic_update_slice(x, new, (start,))),
        )


def test_tokens() -> None:
    first, second = glax.create_token(), glax.create_token(1.0)
    assert type(glax.after_all(first, second)) is type(glax.after_all()) is type(first)

    def f(x, token):
        return x + 1, glax.after_all(token, glax.create_token())

    number, token = gn.jit(f)(1.0, first)
    assert number == 2 and type(token) is type(first)
    assert type(gn.vmap(f)(gn.numpy.ones(2), first)[1]) is type(first)
    for operands in ((1.0,), (first, gn.numpy.ones(2))):
        with pytest.raises(TypeError, match="after_all: operands must be tokens, got"):
            glax.after_all(*operands)


def test_permuted_broadcasts() -> None:
    # JAX returns an operand of the result's shape as it is, and its derivative fails.
    square = np.arange(9.0, dtype=np.float32).reshape(3, 3)
    weights = np.arange(18.0, dtype=np.float32).reshape(3, 2, 3)

    def permuted(x: Any) -> tuple[Any, Any]:
        slope = gn.grad(lambda x: (glax.broadcast_in_dim(x, (3, 2, 3), (2, 0)) * weights).sum())
        return glax.broadcast_in_dim(x, (3, 3), (1, 0)), slope(x)

    for result, slope in (permuted(square), gn.jit(permuted)(square)):
        np.testing.assert_array_equal(result, square.T)
        np.testing.assert_array_equal(slope, weights.sum(1).T)
