"""Creation of arrays against jax.numpy."""

from __future__ import annotations

import array as array_module
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.frontend.oracle import check, sample, weakly
from tests.tolerance import assert_near

VALUES: list[Any] = [
    1,
    1.5,
    True,
    1j,
    2**40,
    [],
    [1, 2],
    [1, 2.5],
    [True, 1],
    [True, False],
    [1, 1j],
    [[1, 2], [3, 4]],
    ((1, 2), [3, 4]),
    [[], []],
    [[1, 2], [3]],
    [1, None],
    [1, "a"],
    None,
    "a",
    [np.float32(1), 2],
    [np.int8(1), np.int8(2)],
    [np.ones(2, np.float32), [1, 2]],
    np.arange(3),
    np.float64(1.5),
    np.arange(3, dtype=np.uint8),
    np.array(["a"]),
    np.array(1.5, ml_dtypes.bfloat16),
    b"abc",
    range(4),
    array_module.array("i", [1, 2]),
    pytest.param(object(), id="object"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v)[:30])
def test_array_of_values(value: Any) -> None:
    check(gnp.array, jnp.array, value)
    check(gnp.asarray, jnp.asarray, value)


def test_array_with_dtype() -> None:
    for value in (1, 2.7, True, [1, 2.5], np.arange(3), np.array([1.5, -2.7]), 300, -1):
        for dtype in ("int32", "float32", "bool", "uint8", "bfloat16", "complex64", int, float):
            if dtype == "uint8" and isinstance(value, (list, np.ndarray)):
                continue  # casts out of range are not defined by C, nor by JAX
            check(gnp.array, jnp.array, value, dtype)
    check(gnp.array, jnp.array, 1j, "float32")
    check(gnp.array, jnp.array, 1, "nonsense")
    check(gnp.array, jnp.array, [1, 2], ndmin=3)
    check(gnp.array, jnp.array, [1, 2], order="F")


@pytest.mark.parametrize(
    "value, dtype",
    [
        ([2**31], None),
        ([[1], [-(2**31) - 1]], None),
        ([True, 2**40], None),
        ([2**70], None),
        ([300], "int8"),
        ([-1], "uint32"),
        ([np.int64(300)], "int8"),
        (range(3, 400, 300), "int8"),
        ([range(3, 400, 300)], "int8"),
        ([1.0, 300.0], "uint8"),
        ([np.nan, 1], "int32"),
        ([np.inf], "uint8"),
        ([1 + 2j], "float32"),
        ([1 + 2j], "int32"),
        (300.0, "uint8"),
        (np.nan, "int32"),
        (-np.inf, "int32"),
        ([255.9, -0.5], "uint8"),
        ([2147483647.9, -(2**31)], "int32"),
        ([np.nan, 0.0, 1j], "bool"),
        ([np.array([300])], "int8"),
    ],
)
def test_numbers_at_the_ends_of_a_dtype(value: Any, dtype: str | None) -> None:
    check(gnp.array, jnp.array, value, dtype)


def test_numbers_beside_arrays_fit_the_dtype() -> None:
    with pytest.raises(OverflowError, match="300 does not fit int8"):
        gnp.array([gnp.int8(1), 300], "int8")
    with pytest.raises(OverflowError, match="1099511627776 does not fit int32"):
        gn.jit(lambda x: gnp.array([[x, 2**40]]))(1)


def test_array_of_arrays() -> None:
    x = jnp.arange(3)
    check(gnp.array, jnp.array, x)
    check(gnp.array, jnp.array, x, "float32")
    check(gnp.array, jnp.array, [x, x])
    check(gnp.array, jnp.array, [x, [1, 2, 3.5]])
    with pytest.raises(ValueError, match="must have the same shape"):
        gnp.array([[x[0], 1], [2]])
    check(gnp.asarray, jnp.asarray, weakly(1.0))
    check(gnp.array, jnp.array, [weakly(1.0), weakly(2)])
    check(gnp.array, jnp.array, [[weakly(1.0), 2], [3, x[0]]])


def test_array_of_tracers() -> None:
    def f(x: Any, y: Any) -> Any:
        return gnp.array([[x, y, 1.0], [y, x * y, 2]])

    np.testing.assert_array_equal(gn.jit(f)(2.0, 3.0), [[2, 3, 1], [3, 6, 2]])
    gradient = gn.grad(lambda x: gnp.sum(gnp.array([x, x**2, 1.0])))(3.0)
    assert float(gradient) == 7.0
    many = gn.jit(lambda x: gnp.array([x] * 40))(1.0)
    np.testing.assert_array_equal(many, np.ones(40))


def test_arrays_do_not_share_memory_with_writable_arrays() -> None:
    source = np.arange(3.0, dtype=np.float32)
    made = [
        gnp.array(source),
        gnp.asarray(source),
        gnp.asarray(source, "float32"),
        source + gnp.zeros(3),
    ]
    made.append(gnp.from_dlpack(source))
    source[0] = 7
    for x in made:
        np.testing.assert_array_equal(x, [0, 1, 2])
    x = gnp.arange(3)
    assert gnp.asarray(x) is x
    assert gnp.array(x) is not x


@pytest.mark.parametrize("copy", [None, False, True])
def test_dlpack_keeps_no_64_bits_where_they_are_off(copy: bool | None) -> None:
    source = np.arange(6).reshape(2, 3).T
    for dtype, narrow in (("int64", "int32"), ("float64", "float32"), ("complex128", "complex64")):
        x = gnp.from_dlpack(source.astype(dtype), copy=copy)
        assert x.dtype == narrow
        np.testing.assert_array_equal(x, source)
        with gn.enable_x64():
            assert gnp.from_dlpack(source.astype(dtype), copy=copy).dtype == dtype


FILLED: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("zeros", (3,), {}),
    ("zeros", ((2, 3), "int32"), {}),
    ("zeros", ((), bool), {}),
    ("zeros", (2, 3), {}),
    ("zeros", ((2, -1),), {}),
    ("zeros", ("a",), {}),
    ("zeros", (2.5,), {}),
    ("ones", ((2, 3),), {"dtype": "bfloat16"}),
    ("empty", ((2, 0),), {}),
    ("full", ((2, 3), 7), {}),
    ("full", ((2, 3), 7.5), {}),
    ("full", ((2, 3), 7.5, "int32"), {}),
    ("full", ((2, 3), np.arange(3)), {}),
    ("full", ((2, 3), np.arange(2)), {}),
    ("full", ((2,), [1, 2]), {}),
    ("zeros_like", (np.ones((2, 3), np.int8),), {}),
    ("zeros_like", (2.0,), {}),
    ("ones_like", (np.ones((2, 3), np.int8), "float32"), {}),
    ("ones_like", (np.ones((2, 3)),), {"shape": (4,)}),
    ("ones_like", ([1, 2],), {}),
    ("empty_like", (np.ones((2, 3), np.int8),), {}),
    ("full_like", (np.ones((2, 3), np.int8), 4), {}),
    ("full_like", (np.ones((2, 3), np.float32), np.arange(3)), {}),
    ("full_like", (np.ones((2, 3), np.float32), 2.5, int), {}),
    ("eye", (3,), {}),
    ("eye", (2, 4), {"k": 1}),
    ("eye", (4, 2), {"k": -1, "dtype": "int32"}),
    ("eye", (0,), {}),
    ("identity", (2,), {}),
    ("tri", (3,), {}),
    ("tri", (3, 4), {"k": 1, "dtype": "int8"}),
    ("tril", (np.ones((2, 3, 3), np.float32),), {}),
    ("tril", (np.ones((3, 4), np.int32), -1), {}),
    ("triu", (np.ones((3, 4), bool), 1), {}),
    ("triu", (np.ones(3),), {}),
    ("diag", (np.arange(3),), {}),
    ("diag", (np.arange(3), 2), {}),
    ("diag", (np.arange(3.0, dtype=np.float32), -1), {}),
    ("diag", (np.arange(12).reshape(3, 4),), {}),
    ("diag", (np.arange(12).reshape(3, 4), 2), {}),
    ("diag", (np.arange(12).reshape(3, 4), -5), {}),
    ("diag", (np.ones((2, 2, 2)),), {}),
    ("diag", (1.0,), {}),
    ("diagflat", (np.arange(4).reshape(2, 2), 1), {}),
    ("meshgrid", (np.arange(3), np.arange(2.0)), {}),
    ("meshgrid", (np.arange(3), np.arange(2), np.arange(4)), {"indexing": "ij"}),
    ("meshgrid", (np.arange(3), np.arange(2)), {"sparse": True}),
    ("meshgrid", (np.arange(3),), {}),
    ("meshgrid", (np.ones((2, 2)),), {}),
    ("meshgrid", (), {}),
    ("indices", ((2, 3),), {}),
    ("indices", ((2, 3), "float32"), {}),
    ("indices", ((2, 3),), {"sparse": True}),
    ("vander", (np.arange(4.0),), {}),
    ("vander", (np.arange(4), 3), {"increasing": True}),
    ("fromfunction", (lambda i, j: i * 10 + j, (2, 3)), {}),
    ("fromfunction", (lambda i, j: i == j, (2, 3)), {"dtype": int}),
    ("frombuffer", (b"\x01\x02\x03\x04",), {"dtype": "uint8"}),
    ("frombuffer", (np.arange(4.0).tobytes(),), {"count": 2, "offset": 8}),
    ("fromstring", ("1 2 3",), {"sep": " "}),
]


# The ids have no arguments, because the text of a function has its address.
@pytest.mark.sampled(0.8)
@pytest.mark.parametrize("case", FILLED, ids=lambda c: f"{c[0]}")
def test_filled(case: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    name, args, kwargs = case
    check(getattr(gnp, name), getattr(jnp, name), *args, **kwargs)


RANGES: list[tuple[Any, ...]] = [
    (5,),
    (0,),
    (-3,),
    (2.5,),
    (2, 7),
    (1.5, 4),
    (0, 10, 3),
    (10, 0, -3),
    (0, 1, 0.1),
    (0, 1, 0.1, "bfloat16"),
    (1, 2, 0.25, "float32"),
    (3, None, None, "float32"),
    (3, None, None, "uint8"),
    (np.int8(4),),
    (np.float32(0), np.float32(1), np.float32(0.3)),
    (0, 5, 0),
    (1j,),
    ([1, 2],),
    (np.arange(2),),
    (None,),
    (None, 3),
    ("a",),
    (weakly(4),),
    (jnp.int32(4),),
]


@pytest.mark.parametrize("args", RANGES, ids=repr)
def test_arange(args: tuple[Any, ...]) -> None:
    check(gnp.arange, jnp.arange, *args, ulps=2)


def test_arange_of_traced_values_explains() -> None:
    with pytest.raises(gn.errors.ConcretizationTypeError):
        gn.jit(gnp.arange)(3)


SPACED: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((0, 1, 5), {}),
    ((0, 1, 5), {"endpoint": False}),
    ((0, 1, 5), {"retstep": True}),
    ((0, 10, 4), {"dtype": "int32"}),
    ((0.0, 1.0, 1), {"retstep": True}),
    ((0, 1, 1), {"endpoint": False, "retstep": True}),
    ((0, 1, 0), {"retstep": True}),
    ((0, 1, -1), {}),
    ((np.arange(3), np.arange(3) + 2, 4), {"axis": 1}),
    ((np.arange(3), 7, 4), {"axis": -1}),
    ((1, 1j, 3), {}),
    ((np.float16(1), np.float16(2), 3), {}),
]


@pytest.mark.parametrize("case", SPACED, ids=repr)
def test_linspace(case: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    args, kwargs = case
    check(gnp.linspace, jnp.linspace, *args, ulps=2, **kwargs)


def test_logspace_and_geomspace() -> None:
    check(gnp.logspace, jnp.logspace, 0, 2, 5, ulps=16)
    check(gnp.logspace, jnp.logspace, 0, 2, 5, base=2, ulps=16)
    check(gnp.geomspace, jnp.geomspace, 1, 1000, 4, ulps=32)
    check(gnp.geomspace, jnp.geomspace, -1, -8, 4, dtype="float32", ulps=32)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8", "uint32", "bool_", "complex64"])
def test_dtype_names(name: str) -> None:
    ours, theirs = getattr(gnp, name), getattr(jnp, name)
    assert np.dtype(ours) == np.dtype(theirs)
    assert ours == np.dtype(theirs).type
    assert ours.dtype == np.dtype(theirs)
    check(ours, theirs, 1)
    check(gnp.zeros, jnp.zeros, 3, np.dtype(ours))
    assert gnp.zeros(2, ours).dtype == ours
    assert gnp.issubdtype(ours, np.generic)
    assert {ours: 1}[ours] == 1
    x = sample(np.dtype(theirs), (3,))
    check(lambda v: v.astype(name.strip("_")), lambda v: v.astype(theirs), x)


def test_constants_and_attributes() -> None:
    for name in ("pi", "e", "inf", "euler_gamma"):
        assert getattr(gnp, name) == getattr(jnp, name)
    assert gnp.newaxis is None
    assert gnp.ndarray is gn.Array
    assert isinstance(gnp.ones(2), gnp.ndarray)
    x = gnp.ones((2, 3))
    assert (gnp.shape(x), gnp.ndim(x), gnp.size(x), gnp.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert (gnp.shape(1.0), gnp.ndim(2), gnp.size(3)) == ((), 0, 1)
    assert gnp.result_type(gnp.int8(1), 2.0) == jnp.result_type(jnp.int8(1), 2.0)
    assert gnp.promote_types("int32", "float16") == np.float16
    assert gnp.finfo(gnp.bfloat16).bits == 16
    assert gnp.iinfo(gnp.int8).max == 127


def test_gradients_of_grids() -> None:
    for ours, theirs in (
        (
            lambda x: (gnp.linspace(x, 3.0, 4) ** 2).sum(),
            lambda x: (jnp.linspace(x, 3.0, 4) ** 2).sum(),
        ),
        (lambda x: (gnp.full((3,), x) ** 2).sum(), lambda x: (jnp.full((3,), x) ** 2).sum()),
        (
            lambda x: gnp.diag(x * gnp.arange(3.0)).sum(),
            lambda x: jnp.diag(x * jnp.arange(3.0)).sum(),
        ),
    ):
        assert_near(gn.grad(ours)(2.0), jax.grad(theirs)(2.0), 4)
        assert_near(gn.jit(ours)(2.0), ours(2.0), 4)


def test_x64_is_respected() -> None:
    with gn.enable_x64(), jax.enable_x64(True):
        for value in (1, 1.5, [1, 2], np.arange(3.0), 2**40):
            check(gnp.array, jnp.array, value)
        check(gnp.zeros, jnp.zeros, 3)
        check(gnp.arange, jnp.arange, 3)
        check(gnp.linspace, jnp.linspace, 0, 1, 4, ulps=2)
    with pytest.warns(UserWarning, match="64-bit"):
        assert gnp.zeros(2, "float64").dtype == np.float32


@pytest.mark.parametrize("wrap", [np.array, gnp.array, tuple, list])
def test_shapes_are_any_sequence_of_integers(wrap: Any) -> None:
    shape = wrap([2, 3])
    x = gnp.arange(6)
    arrays = [gnp.zeros(shape), gn.lax.full(shape, 1), x.reshape(shape), gnp.broadcast_to(1, shape)]
    arrays += [gn.random.uniform(gn.random.key(0), shape), gnp.tile(gnp.ones((1, 1)), shape)]
    assert [a.shape for a in [*arrays, gnp.resize(x, shape)]] == [(2, 3)] * 7
