"""Dtypes: canonical forms, promotion and kinds are those of JAX, for all pairs, in both modes."""

from __future__ import annotations

import enum
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from gnomon import dtypes
from gnomon._arrays import dtypes as _dtypes
from gnomon._arrays import host_values as _host_values
from gnomon._arrays.concrete import wrap
from gnomon._config.contexts import numpy_dtype_promotion
from gnomon._config.current import config
from gnomon.dialects import types

ALL = sorted(types.ANY, key=str)
PYTHON = (int, float, complex)
WIDE = (np.dtype("int64"), np.dtype("uint64"), np.dtype("float64"), np.dtype("complex128"))


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request: pytest.FixtureRequest) -> Iterator[bool]:
    with jax.enable_x64(request.param), gnomon.enable_x64(request.param):
        yield request.param


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outcome(function: Any) -> Any:
    try:
        return function()
    except ValueError as error:
        return type(error).__name__


def name(x: Any) -> str:
    return getattr(x, "__name__", str(x))


@pytest.mark.parametrize("mode", ["standard", "strict"])
def test_promote_types_of_all_pairs(x64: bool, mode: str) -> None:
    with jax.numpy_dtype_promotion(mode), numpy_dtype_promotion(mode):
        for a, b in itertools.product([*ALL, *PYTHON], repeat=2):
            expected = outcome(lambda: jnp.promote_types(a, b))  # noqa: B023
            actual = outcome(lambda: _dtypes.promote_types(a, b))  # noqa: B023
            assert actual == expected, (name(a), name(b))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["standard", "strict"])
def test_result_type_of_all_pairs_weak_and_strong(x64: bool, mode: str) -> None:
    from jax._src import dtypes as jax_dtypes
    from jax._src.lax.lax import _convert_element_type

    usable = [d for d in ALL if x64 or d not in WIDE]

    def theirs(dtype: Any, weak: bool) -> Any:
        return _convert_element_type(jnp.zeros((), dtype), dtype, weak)

    def ours(dtype: Any, weak: bool) -> Any:
        return wrap(np.zeros((), dtype), weak)

    # JAX has no weak types of the smallest integers: its result_type of two raises a KeyError.
    operands = [(d, w) for d in usable for w in (False, True) if not (w and d in types.SUB_BYTE)]
    pairs = {p: (theirs(*p), ours(*p)) for p in operands}
    with jax.numpy_dtype_promotion(mode), numpy_dtype_promotion(mode):
        for a, b in itertools.product(operands, repeat=2):
            (ja, ga), (jb, gb) = pairs[a], pairs[b]
            expected = outcome(lambda: jax_dtypes.result_type(ja, jb, return_weak_type_flag=True))  # noqa: B023
            actual = outcome(lambda: _dtypes.result_type(ga, gb, return_weak_type_flag=True))  # noqa: B023
            assert actual == expected, (a, b)


VALUES = (1, 2.0, 1j, True, np.float32(1), np.int8(1), np.zeros(2), "bfloat16", None, int)


def test_result_type_of_values(x64: bool) -> None:
    for a, b in itertools.product(VALUES, repeat=2):
        expected, actual = jnp.result_type(a, b), _dtypes.result_type(a, b)
        assert actual == expected, (a, b)
    assert _dtypes.result_type(1, 2.0, 3j) == jnp.result_type(1, 2.0, 3j)
    with pytest.raises(ValueError, match="one array or dtype"):
        _dtypes.result_type()


def test_canonical_dtypes(x64: bool) -> None:
    for dtype in [*ALL, bool, *PYTHON, "float64"]:
        assert dtypes.canonicalize_dtype(dtype) == jax.dtypes.canonicalize_dtype(dtype)
    with pytest.raises(TypeError, match="not a dtype"):
        dtypes.canonicalize_dtype("no such dtype")


ABSTRACT = (
    np.floating,
    np.integer,
    np.number,
    np.generic,
    np.inexact,
    np.complexfloating,
    np.signedinteger,
    np.unsignedinteger,
    np.bool_,
)


def test_issubdtype_of_all_pairs() -> None:
    for a, b in itertools.product(ALL, [*ALL, *ABSTRACT]):
        expected = jnp.issubdtype(a, b)
        assert dtypes.issubdtype(a, b) == expected, (a, b)
        assert dtypes.issubdtype(a.type, b) == expected, (a, b)
    assert dtypes.issubdtype(dtypes.prng_key, dtypes.extended)
    assert not dtypes.issubdtype(np.float32, dtypes.extended)


KINDS = (
    "bool",
    "signed integer",
    "unsigned integer",
    "integral",
    "real floating",
    "complex floating",
    "numeric",
)


def test_isdtype() -> None:
    for dtype, kind in itertools.product(ALL, [*KINDS, np.float32, ("integral", np.bool_)]):
        assert _dtypes.isdtype(dtype, kind) == jnp.isdtype(dtype, kind), (dtype, kind)
    with pytest.raises(ValueError, match="kind 'real' is neither"):
        _dtypes.isdtype(np.float32, "real")
    with pytest.raises(TypeError, match="kind must be"):
        _dtypes.isdtype(np.float32, 3.5)


def test_conversions_between_kinds() -> None:
    from jax._src import dtypes as jax_dtypes

    # JAX treats 2-bit integers as inexact here, and then refuses them.
    for dtype in [d for d in ALL if d.name not in ("int2", "uint2")]:
        assert _dtypes.to_inexact_dtype(dtype) == jax_dtypes.to_inexact_dtype(dtype)
        assert _dtypes.to_floating_dtype(dtype) == jax_dtypes.to_floating_dtype(dtype)
        assert _dtypes.to_complex_dtype(dtype) == jax_dtypes.to_complex_dtype(dtype)
        assert _dtypes.to_numeric_dtype(dtype) == jax_dtypes.to_numeric_dtype(dtype)
        assert dtypes.itemsize_bits(dtype) == jax.dtypes.itemsize_bits(dtype)
        assert dtypes.scalar_type_of(wrap(np.zeros((), dtype))) is jax_dtypes.scalar_type_of(
            jnp.zeros((), dtype)
        )


def test_limits() -> None:
    assert dtypes.finfo(dtypes.bfloat16).eps == jnp.finfo(jnp.bfloat16).eps
    assert dtypes.finfo("float32").max == np.finfo(np.float32).max
    assert dtypes.iinfo("int4").max == 7
    assert dtypes.float0 == jax.dtypes.float0


# -------------------------------------------------------------------------- Python and NumPy values


def test_python_scalars_become_weak_arrays_of_default_dtypes(x64: bool) -> None:
    for value in (True, 3, -2.5, 1e300, 1 + 2j):
        array, expected = _host_values.to_array(value), jnp.asarray(value)
        assert (array.dtype, array.weak_type) == (expected.dtype, expected.weak_type)
        np.testing.assert_array_equal(np.asarray(array), np.asarray(expected))


class Label(enum.IntEnum):
    ONE = 1


class Count(int):
    pass


class Length(float):
    pass


class Phase(complex):
    pass


# Functions of a module like jax and a module like jax.numpy.
SUBCLASS_CASES: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda m, n: (n.ones(3, "int8") + Label.ONE, Length(2) * n.ones(2, "float16")),
    "comparison": lambda m, n: n.arange(3) == Label.ONE,
    "complex": lambda m, n: n.ones(2) * Phase(1j),
    "wrapping around": lambda m, n: n.uint8(3) + Count(-1),
    "asarray": lambda m, n: [n.asarray(x) for x in (Label.ONE, Length(1), Phase(1j))],
    "array of a dtype": lambda m, n: n.array(Label.ONE, "int8"),
    "array of a list": lambda m, n: n.array([Label.ONE, n.int8(2)]),
    "jit": lambda m, n: m.jit(lambda a, b: (a + 1, n.ones(2, "int8") + a, b))(Label.ONE, Length(2)),
    "grad": lambda m, n: m.grad(lambda x: x * 2)(Length(2)),
    "vmap": lambda m, n: m.vmap(lambda x, y: x + y, (0, None))(n.arange(3), Label.ONE),
    "update": lambda m, n: n.arange(3).at[Label.ONE].set(Label.ONE),
    "update of uint32": lambda m, n: n.zeros(2, "uint32").at[0].set(Count(2**32 - 1)),
    "selection": lambda m, n: (n.where(True, Label.ONE, 0), n.clip(n.arange(3), Label.ONE, 2)),
    "full": lambda m, n: (n.full(2, Label.ONE), n.full_like(n.ones(2), Label.ONE)),
    "joining": lambda m, n: (n.stack([Label.ONE, Label.ONE]), n.take(n.arange(3), Label.ONE)),
    "lax": lambda m, n: (m.lax.add(n.int32(1), Label.ONE), m.lax.select(True, Label.ONE, 0)),
    "conversion": lambda m, n: m.lax.convert_element_type(Count(2**31 + 3), "uint32"),
    "switch": lambda m, n: m.lax.switch(Label.ONE, [lambda: 0, lambda: 1]),
    "cond": lambda m, n: m.lax.cond(True, lambda x: x, lambda x: x, Label.ONE),
    "while_loop": lambda m, n: m.lax.while_loop(lambda c: c < 3, lambda c: c + 1, Label.ONE),
    "fori_loop": lambda m, n: m.lax.fori_loop(Label.ONE, 3, lambda i, c: c + i, 0),
    "scan": lambda m, n: m.lax.scan(lambda c, x: (c + 1, x), Label.ONE, n.arange(2)),
    "device_put": lambda m, n: m.device_put(Label.ONE),
    "fold_in": lambda m, n: m.random.fold_in(m.random.PRNGKey(0), Label.ONE),
    "NumPy scalars": lambda m, n: (n.asarray(np.float64(1)), n.ones(2, "float16") + np.float64(1)),
}


@pytest.mark.parametrize("name", SUBCLASS_CASES)
def test_instances_of_subclasses_of_python_numbers(name: str) -> None:
    case = SUBCLASS_CASES[name]
    got = gnomon.tree_util.tree_leaves(case(gnomon, gnp))
    expected = jax.tree_util.tree_leaves(case(jax, jnp))
    for g, e in zip(got, expected, strict=True):
        assert (g.dtype, g.weak_type) == (e.dtype, e.weak_type)
        np.testing.assert_array_equal(np.asarray(g), np.asarray(e))


def test_types_of_instances_of_subclasses() -> None:
    for x in (Label.ONE, Length(1)):
        ours, theirs = gnomon.eval_shape(lambda x: x, x), jax.eval_shape(lambda x: x, x)
        assert (ours.dtype, ours.weak_type) == (theirs.dtype, theirs.weak_type)
        assert gnomon.typeof(x).weak_type and jax.typeof(x).weak_type
        assert gnp.result_type(x, np.float16) == jnp.result_type(x, np.float16)
    with pytest.raises(OverflowError, match="does not fit in int32"):
        gnp.asarray(Count(2**31))
    with pytest.raises(OverflowError, match="out of bounds"):
        gnomon.random.fold_in(gnomon.random.key(0), Count(2**32))


def test_other_enums_are_refused() -> None:
    plain = enum.Enum("plain", "ONE")
    for x in (plain.ONE, plain, Label):
        with pytest.raises(TypeError):
            gnp.equal(gnp.arange(3), x)


def test_python_int_operands_wrap_around_in_narrow_dtypes() -> None:
    for value, dtype in ((-1, "uint8"), (300, "int8"), (2**31 - 1, "uint16"), (7, "bfloat16")):
        expected = jnp.zeros((), dtype) + value
        assert _host_values.scalar_to_numpy(value, np.dtype(dtype)) == np.asarray(expected)


def test_python_ints_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OverflowError, match="does not fit in int32"):
        _host_values.to_array(2**31)
    with gnomon.enable_x64():
        assert _host_values.to_array(2**31).dtype == np.int64
        with pytest.raises(OverflowError, match="does not fit in int64"):
            _host_values.to_array(2**63)


def test_numpy_arrays_become_canonical(x64: bool) -> None:
    for dtype in ALL:
        value = np.ones(3, dtype)
        assert _host_values.to_array(value).dtype == dtypes.canonicalize_dtype(dtype)
    swapped = np.arange(3, dtype=">f4")
    np.testing.assert_array_equal(np.asarray(_host_values.to_array(swapped)), [0, 1, 2])
    assert _host_values.to_array(swapped).dtype == np.float32


def test_arrays_do_not_change_with_the_numpy_array_they_came_from() -> None:
    value = np.zeros(3, np.float32)
    for source in (value, value[::2], np.broadcast_to(value, (2, 3))):
        array = _host_values.to_array(source)
        value[...] += 1
        assert not np.array_equal(np.asarray(array), source)


def test_objects_that_are_not_arrays_are_refused() -> None:
    for value in ([1, 2], (1, 2), "text", None, object(), int):
        with pytest.raises(TypeError, match="expected an array"):
            _host_values.to_array(value)
    with pytest.raises(TypeError, match=r"gnomon\.numpy\.array"):
        _host_values.to_array([1, 2])
    with pytest.raises(ValueError, match="masked arrays"):
        _host_values.to_array(np.ma.masked_array([1, 2], [True, False]))
    for dtype in ("S3", "O", "M8[s]"):
        with pytest.raises(TypeError, match="numbers and booleans"):
            _host_values.to_array(np.zeros(2, dtype))


# ---------------------------------------------------------------------------------- explicit dtypes


def test_explicit_wide_dtypes_warn_at_the_users_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert _dtypes.check_user_dtype("float64", "zeros") == np.float32
    (warning,) = caught
    assert "in zeros" in str(warning.message) and "gnomon_enable_x64" in str(warning.message)
    assert warning.filename == __file__
    with gnomon.enable_x64(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _dtypes.check_user_dtype("float64") == np.float64


def test_bad_dtypes_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="S3 in zeros"):
        _dtypes.check_user_dtype("S3", "zeros")
    with pytest.raises(TypeError, match="is not a dtype in zeros"):
        _dtypes.check_user_dtype("float33", "zeros")
    with pytest.raises(ValueError, match=r"use dtype=x\.dtype"):
        _dtypes.check_user_dtype(wrap(np.ones(2)))
    with pytest.raises(ValueError, match="must be given"):
        _dtypes.check_user_dtype(None)


def test_promotion_errors_give_the_dtypes_and_the_reason() -> None:
    with pytest.raises(
        dtypes.TypePromotionError, match=r"int4, int8.*integers of 4 and 2 bits promote"
    ):
        _dtypes.promote_types("int4", "int8")
    with pytest.raises(dtypes.TypePromotionError, match="8-bit floats promote"):
        _dtypes.promote_types(ml_dtypes.float8_e5m2, "float32")
    with numpy_dtype_promotion("strict"), pytest.raises(dtypes.TypePromotionError, match="strict"):
        _dtypes.promote_types("int32", "float32")
    assert config.numpy_dtype_promotion == "standard"


class _KeyDtype(_dtypes.ExtendedDType):
    type = dtypes.prng_key
    name = "key<test>"

    def __str__(self) -> str:
        return self.name


def test_extended_dtypes_meet_only_themselves() -> None:
    key = _KeyDtype()
    assert _dtypes.promote(((key, False), (key, False))) == (key, False)
    assert dtypes.issubdtype(key, dtypes.prng_key)
    with pytest.raises(dtypes.TypePromotionError, match="does not promote with other dtypes"):
        _dtypes.promote(((key, False), (np.dtype("float32"), False)))


def test_the_dtype_of_a_value() -> None:
    for value in (1, True, 1.5, 2j, np.float64(1), np.ones(2), np.int8(3), "int16", np.uint64):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert gnomon.lax.dtype(value) == jax.lax.dtype(value)
    assert gnomon.lax.dtype(gnomon.numpy.ones(2, "bfloat16")) == gnomon.numpy.bfloat16
    with pytest.raises(ValueError, match="None has no dtype"):
        gnomon.lax.dtype(None)
    with pytest.raises(TypeError, match="a list has no dtype"):
        gnomon.lax.dtype([1.0])


def test_scalar_types_give_way_to_32_bits_silently() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gnomon.numpy.result_type(gnomon.numpy.float64, gnomon.numpy.int32) == np.float32
        assert gnomon.numpy.result_type(gnomon.numpy.int64) == np.int32
    with pytest.warns(UserWarning, match="64-bit types are off"):
        assert gnomon.numpy.result_type(np.float64) == np.float32
