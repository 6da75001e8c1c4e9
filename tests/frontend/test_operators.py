"""Operators and methods of arrays against those of jax.Array."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.backends.iree.joined import check_joined
from tests.frontend.oracle import (
    check,
    check_types,
    checks_in_one_program,
    sample,
    to_gnomon,
    weakly,
)
from tests.tolerance import assert_each_near, assert_near

BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge"


def _operator(name: str) -> Callable[[Any, Any], Any]:
    return divmod if name == "divmod" else getattr(operator, name)


# The other operand: Python's and NumPy's numbers, NumPy arrays, and refused objects.
OTHERS = [
    2,
    2.0,
    True,
    1j,
    np.float32(2),
    np.float64(2),
    np.int8(3),
    np.arange(1, 4),
    np.ones(3, np.float32),
    [1, 2, 3],
    None,
    "a",
    {},
]


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", [*BINARY.split(), "divmod"])
def test_binary_types(name: str) -> None:
    function = _operator(name)
    for dtype in ("bool", "int8", "int32", "uint8", "bfloat16", "float32", "complex64"):
        x = sample(dtype, (3,))
        for other in (*OTHERS, sample("float32", (3,)), sample("int32", (3,)), weakly(2.0)):
            if name in ("eq", "ne") and isinstance(other, (list, dict, str, type(None))):
                continue  # see test_comparing_with_objects_that_are_not_numbers
            check_types(function, function, x, other)
            if not isinstance(other, (jax.Array, str)):  # "a" % x formats
                check_types(function, function, other, x)


def test_values() -> None:
    with checks_in_one_program() as check:
        for name in BINARY.split():
            function = _operator(name)
            integral = name in ("and_", "or_", "xor", "lshift", "rshift")
            dtype = "int32" if integral else "float32"
            x = sample(dtype, (3, 3), low=1, high=3)
            y = sample(dtype, (3, 3), seed=1, low=1, high=3)
            check(function, function, x, y, ulps=4)
            if name != "matmul":
                check(function, function, x, 2, ulps=4)
                check(function, function, 3, x, ulps=4)
                check(function, function, x, np.array(y), ulps=4)
                check(function, function, np.array(x), y, ulps=4)
                check(function, function, np.int32(2), x, ulps=4)
                check(function, function, x, np.int32(2), ulps=4)


def test_unary() -> None:
    with checks_in_one_program() as check:
        for dtype in ("bool", "int8", "uint8", "float32", "complex64"):
            x = sample(dtype, (4,))
            for function in (operator.neg, operator.pos, operator.abs, operator.invert):
                check(function, function, x, ulps=2 if dtype == "complex64" else 0)
        check(round, round, jnp.array([1.26, -2.5]), 1, ulps=1)


def test_comparing_with_objects_that_are_not_numbers() -> None:
    x = gnp.arange(3)
    assert (x == None) is False  # noqa: E711 - as Python compares different types
    assert (x != "a") is True
    for other in ([0, 1, 2], {}):
        with pytest.raises(TypeError, match="Convert it with"):
            _ = x == other


def test_power_with_a_static_exponent_is_one_op() -> None:
    check(lambda x: x**2, lambda x: x**2, jnp.array([-3.0, 0.0, 2.0]))
    check(lambda x: x**-1, lambda x: x**-1, jnp.array([-3.0, 0.5, 2.0]))
    check(lambda x: x**-1, lambda x: x**-1, jnp.arange(1, 3))
    assert "integer_pow" in str(gn.make_jaxpr(lambda x: x**3)(1.0))


class Foreign:
    """An object with its own operators."""

    def __radd__(self, other: Any) -> str:
        return "radd"

    def __rmul__(self, other: Any) -> str:
        return "rmul"

    def __rmatmul__(self, other: Any) -> str:
        return "rmatmul"


def test_reflected_operators_of_foreign_objects_are_called() -> None:
    x = gnp.arange(3.0)
    assert x + Foreign() == "radd"
    assert x * Foreign() == "rmul"
    assert x @ Foreign() == "rmatmul"
    for other in ("a", None, object()):
        with pytest.raises(TypeError, match="unsupported operand"):
            x - other
    with pytest.raises(TypeError, match=r"gnomon\.numpy\.array"):
        x + [1.0, 2.0, 3.0]
    with pytest.raises(TypeError):
        [1.0, 2.0, 3.0] + x


def test_in_place_operators_make_new_arrays() -> None:
    x = y = gnp.arange(3)
    x += 1
    np.testing.assert_array_equal(y, [0, 1, 2])
    np.testing.assert_array_equal(x, [1, 2, 3])


METHODS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("sum", (), {}),
    ("sum", (0,), {"keepdims": True}),
    ("mean", (1,), {}),
    ("max", (), {}),
    ("min", (0,), {}),
    ("prod", (), {}),
    ("any", (), {}),
    ("all", (1,), {}),
    ("argmax", (0,), {}),
    ("argmin", (), {}),
    ("cumsum", (1,), {}),
    ("cumprod", (0,), {}),
    ("std", (), {}),
    ("var", (0,), {"ddof": 1}),
    ("reshape", (4, 3), {}),
    ("reshape", ((2, -1),), {}),
    ("reshape", (-1,), {"order": "F"}),
    ("transpose", (), {}),
    ("transpose", (1, 0), {}),
    ("transpose", ((1, 0),), {}),
    ("ravel", (), {}),
    ("flatten", (), {}),
    ("flatten", ("F",), {"out_sharding": None}),
    ("astype", ("int32",), {}),
    ("astype", (bool,), {}),
    ("astype", (), {"dtype": "int32"}),
    ("astype", ("int32", True), {}),
    ("clip", (-1, 1), {}),
    ("conj", (), {}),
    ("round", (1,), {}),
    ("take", (np.array([0, 2]),), {"axis": 0}),
    ("repeat", (2,), {"axis": 1}),
    ("swapaxes", (0, 1), {}),
    ("trace", (), {}),
    ("diagonal", (), {}),
    ("ptp", (0,), {}),
    ("copy", (), {}),
    ("dot", (np.ones(4, np.float32),), {}),
    ("nonzero", (), {}),
    ("view", ("int32",), {}),
    ("view", ("uint8",), {}),
    ("byteswap", (), {}),
]


def test_methods() -> None:
    x = sample("float32", (3, 4))
    calls = {}
    with checks_in_one_program() as check:
        for name, args, kwargs in METHODS:
            call = operator.methodcaller(name, *args, **kwargs)
            check(call, call, x, ulps=8, scale=3.0)  # sums of up to twelve numbers up to three
            if name not in ("nonzero", "copy"):
                calls[repr(call)] = call, (to_gnomon(x),)
    # Traced values have the same methods.
    check_joined(calls, lambda found, eager: assert_each_near(found, eager, 8, scale=3.0))


def test_properties() -> None:
    x = sample("complex64", (2, 3))
    with checks_in_one_program() as check:
        for name in ("T", "mT", "real", "imag"):
            check(operator.attrgetter(name), operator.attrgetter(name), x)
    y = to_gnomon(x)
    assert (y.ndim, y.size, y.itemsize, y.nbytes) == (2, 6, 8, 48)
    assert gn.jit(lambda v: v.T.at[0, 0].set(1j))(y).shape == (3, 2)


def test_views_of_bits() -> None:
    x = jnp.arange(8, dtype=jnp.uint8)
    cases = [(d, x) for d in ("uint16", "int32", "float32", "int8", "uint8")]
    cases += [("int32", x[:3]), ("int8", jnp.float32(1.0)), ("uint8", jnp.array([True, False]))]
    with checks_in_one_program() as check:
        for dtype, value in cases:
            check(operator.methodcaller("view", dtype), operator.methodcaller("view", dtype), value)


def test_membership_and_hash() -> None:
    x = gnp.arange(3)
    assert 2 in x
    assert 5 not in x
    with pytest.raises(ValueError, match="one-dimensional"):
        _ = 1 in gnp.ones((2, 2))
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(TypeError, match="unhashable"):
        gn.jit(lambda v: hash(v))(x)


def test_operators_of_tracers() -> None:
    x, y = to_gnomon(sample("float32", (3,))), to_gnomon(sample("float32", (3,), seed=1))

    def f(a: Any, b: Any) -> Any:
        return ((a + b) * 2 - b / a) ** 2 + abs(-a) @ b + (a > 0) * b + 1 // a % 3

    assert_near(gn.jit(f)(x, y), f(x, y), 8)
    gradient = gn.grad(lambda a, b: f(a, b).sum())(x, y)
    reference = jax.grad(lambda a, b: f(a, b).sum())(jnp.array(x), jnp.array(y))
    assert_near(gradient, reference, 16)


@pytest.mark.parametrize("number, square", [(3e38, np.inf), (1e-30, 0)])
def test_small_products_out_of_range_are_silent(number: float, square: float) -> None:
    x = gnp.full((1, 1), number)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(x @ x, [[square]])


def test_an_eager_call_of_small_arrays_stays_near_numpy() -> None:
    # A generous bound: it fails if the fast path is not taken, not if the machine is busy.
    import timeit

    x, n = gnp.arange(10.0), np.arange(10, dtype=np.float32)
    for ours, theirs in (
        (lambda: x + x, lambda: n + n),
        (lambda: x * 2.0, lambda: n * 2.0),
        (lambda: gnp.sin(x), lambda: np.sin(n)),
    ):
        fast = min(timeit.repeat(ours, number=500, repeat=20))
        base = min(timeit.repeat(theirs, number=500, repeat=20))
        assert fast < 8 * base, f"{fast / 500 * 1e6} us against {base / 500 * 1e6} us"
