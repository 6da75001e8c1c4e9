"""gnomon.random against jax.random: bits, uniform numbers and integers exactly, others closely."""

from __future__ import annotations

import copy
import pickle
from collections import UserList
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jrandom
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, random
from gnomon._arrays.concrete import wrap
from tests.backends.iree.joined import report
from tests.frontend.oracle import KINDS, assert_close, kind, outcome, outcomes_in_one_program
from tests.tolerance import assert_each_near, assert_near, units_of_differences

OURS, THEIRS = random.key(42), jrandom.key(42)


@contextmanager
def compared_in_one_program() -> Iterator[Callable[..., None]]:
    """Give a function that compares one sampler under the same key in both, after the block."""
    calls: list[tuple[str, Any, Any, float, float]] = []

    def compare(name: str, *args: Any, ulps: float = 0, scale: float = 0, **kwargs: Any) -> None:
        calls.append((name, args, kwargs, ulps, scale))

    yield compare
    pairs = outcomes_in_one_program(
        [(getattr(jrandom, name), (THEIRS, *args), kwargs) for name, args, kwargs, *_ in calls],
        fused=True,
    )
    problems = {}
    for (name, args, kwargs, ulps, scale), (theirs, error) in zip(calls, pairs, strict=True):
        try:
            assert error is None, f"JAX raises {error!r}"
            compare_to(theirs, name, args, kwargs, ulps, scale)
        except AssertionError as error:
            problems[f"{name}{args}"] = str(error)
    report(problems)


def compare_to(
    theirs: Any, name: str, args: Any, kwargs: Any, ulps: float = 0, scale: float = 0
) -> None:
    """One sampler under the same key as JAX's result."""
    ours = getattr(random, name)(OURS, *map(_ours, args), **kwargs)
    assert (ours.dtype, ours.shape, ours.weak_type) == (theirs.dtype, theirs.shape, False)
    assert_close(np.asarray(ours), np.asarray(theirs), ulps, scale)


def _ours(x: Any) -> Any:
    return wrap(np.array(x)) if isinstance(x, jax.Array) else x


# ------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31 - 1, -(2**31), 2**40 + 3, -(2**40), 2**63 - 1])
def test_seeds(seed: int) -> None:
    np.testing.assert_array_equal(random.PRNGKey(seed), jrandom.PRNGKey(seed))


@pytest.mark.parametrize("seed", [np.int8(-3), np.uint32(2**31 + 1), np.int64(2**40 + 3)])
def test_seeds_of_numpy(seed: Any) -> None:
    np.testing.assert_array_equal(random.key_data(random.key(seed)), jrandom.PRNGKey(seed))


@pytest.mark.parametrize("seed", [0, -1, 2**40 + 3, -(2**40), np.int64(-5), np.uint64(2**63 + 9)])
def test_seeds_under_x64(seed: Any) -> None:
    with gn.enable_x64(), jax.enable_x64(True):
        np.testing.assert_array_equal(random.PRNGKey(seed), jrandom.PRNGKey(seed))


def test_split_and_fold_in() -> None:
    for num in (2, 3, 0, (2, 3), ()):
        expected = jrandom.key_data(jrandom.split(THEIRS, num))
        np.testing.assert_array_equal(random.key_data(random.split(OURS, num)), expected)
    for data in (0, 7, 2**32 - 1, np.int32(-1), True):
        expected = jrandom.key_data(jrandom.fold_in(THEIRS, data))
        np.testing.assert_array_equal(random.key_data(random.fold_in(OURS, data)), expected)


def test_raw_keys_stay_raw() -> None:
    raw = random.PRNGKey(42)
    for result in (random.split(raw), random.fold_in(raw, 3)):
        assert not isinstance(result, random.KeyArray) and result.dtype == np.uint32
    np.testing.assert_array_equal(random.split(raw), random.key_data(random.split(OURS)))
    np.testing.assert_array_equal(random.bits(raw, (3,)), random.bits(OURS, (3,)))
    np.testing.assert_array_equal(random.bits(np.asarray(raw), (3,)), random.bits(OURS, (3,)))


BAD: dict[str, tuple[Any, Any]] = {
    "float seed": (lambda r: r.key(1.5), TypeError),
    "array of seeds": (lambda r: r.key(np.arange(3)), TypeError),
    "huge seed": (lambda r: r.key(2**64), OverflowError),
    "string seed": (lambda r: r.key("a"), TypeError),
    "key as seed": (lambda r: r.key(r.key(0)), TypeError),
    "unknown generator": (lambda r: r.key(0, impl="foo"), ValueError),
    "array of keys": (lambda r: r.bits(r.split(r.key(0)), (2,)), ValueError),
    "split of keys": (lambda r: r.split(r.split(r.key(0))), ValueError),
    "words of another shape": (lambda r: r.wrap_key_data(np.zeros(3, np.uint32)), TypeError),
    "words of another dtype": (lambda r: r.wrap_key_data(np.zeros(2, np.int32)), TypeError),
    "no key": (lambda r: r.bits(0, (2,)), TypeError),
    "negative data": (lambda r: r.fold_in(r.key(0), -1), OverflowError),
    "large data": (lambda r: r.fold_in(r.key(0), 2**33), OverflowError),
    "array of data": (lambda r: r.fold_in(r.key(0), np.arange(3)), TypeError),
    "signed bits": (lambda r: r.bits(r.key(0), (2,), np.int8), ValueError),
    "integer uniform": (lambda r: r.uniform(r.key(0), (2,), int), ValueError),
    "complex uniform": (lambda r: r.uniform(r.key(0), (2,), complex), ValueError),
    "integer normal": (lambda r: r.normal(r.key(0), (2,), int), ValueError),
    "floating randint": (lambda r: r.randint(r.key(0), (2,), 0, 3, float), TypeError),
    "bounds": (lambda r: r.randint(r.key(0), (3,), np.zeros(2, int), 2), ValueError),
    "large bound": (lambda r: r.randint(r.key(0), (3,), 0, 2**40), OverflowError),
    "integer probability": (lambda r: r.bernoulli(r.key(0), 1, (3,)), TypeError),
    "probabilities": (lambda r: r.bernoulli(r.key(0), np.ones(2), (3,)), ValueError),
    "mode": (lambda r: r.bernoulli(r.key(0), 0.5, (3,), mode="x"), ValueError),
    "gumbel mode": (lambda r: r.gumbel(r.key(0), (3,), mode="x"), ValueError),
    "categories": (lambda r: r.categorical(r.key(0), np.ones((3, 4)), shape=(5,)), ValueError),
    "choice of nothing": (lambda r: r.choice(r.key(0), 0, (3,)), ValueError),
    "choice of shape": (lambda r: r.choice(r.key(0), 3, 3), TypeError),
    "probabilities of choice": (lambda r: r.choice(r.key(0), 3, (3,), p=np.ones(2)), ValueError),
    "draws without replacement": (lambda r: r.choice(r.key(0), 3, (4,), replace=False), ValueError),
    "permutation of a float": (lambda r: r.permutation(r.key(0), 1.5), TypeError),
    "integer gamma": (lambda r: r.gamma(r.key(0), 1.0, dtype=int), ValueError),
    "parameters of beta": (lambda r: r.beta(r.key(0), np.ones(2), 1.0, (3,)), ValueError),
    "concentration": (lambda r: r.dirichlet(r.key(0), 1.0), ValueError),
    "key in arithmetic": (
        lambda r: (lax if r is random else jax.lax).add(r.key(0), r.key(0)),
        TypeError,
    ),
    "key as array": (lambda r: np.asarray(r.key(0)), TypeError),
    "key as bool": (lambda r: bool(r.key(0)), TypeError),
    "number as key": (
        lambda r: (lax if r is random else jax.lax).convert_element_type(0, r.key(0).dtype),
        ValueError,
    ),
    "order of keys": (
        lambda r: (lax if r is random else jax.lax).lt(r.key(0), r.key(1)),
        TypeError,
    ),
    "negative size": (lambda r: r.orthogonal(r.key(0), -1), ValueError),
    "hash of a key": (lambda r: hash(r.key(0)), TypeError),
}


@pytest.mark.parametrize("what", BAD)
def test_errors(what: str) -> None:
    call, expected = BAD[what]
    _, theirs = outcome(call, (jrandom,), {})
    _, ours = outcome(call, (random,), {})
    assert theirs is not None and kind(theirs) is expected
    assert ours is not None and kind(ours) is expected, f"{ours!r}"
    assert len(str(ours)) > 10 and kind(ours) in KINDS


def test_key_arrays() -> None:
    keys = random.split(OURS, 6)
    assert isinstance(keys, gn.Array)
    assert (keys.shape, keys.ndim, keys.size, len(keys)) == ((6,), 1, 6, 6)
    assert (keys.itemsize, keys.nbytes) == (8, 48)
    assert str(keys.dtype) == "key<fry>" == str(jrandom.key(0).dtype)
    assert gn.dtypes.issubdtype(keys.dtype, gn.dtypes.prng_key)
    assert repr(keys) == repr(jrandom.split(THEIRS, 6))
    assert random.key_impl(keys) == jrandom.key_impl(THEIRS) == "threefry2x32"
    data = np.asarray(random.key_data(keys))
    for a, b in (
        (keys.reshape(2, 3), data.reshape(2, 3, 2)),
        (keys.reshape((3, -1)), data.reshape(3, 2, 2)),
        (keys.reshape(2, 3).T, data.reshape(2, 3, 2).transpose(1, 0, 2)),
        (keys.reshape(1, 6).squeeze(), data),
        (keys.reshape(2, 3).ravel(), data),
        (random.wrap_key_data(random.key_data(keys)), data),
        (list(keys)[4], data[4]),
        (copy.deepcopy(keys), data),
        (pickle.loads(pickle.dumps(keys)), data),
        (random.clone(keys.copy().reshape(6)[:1].squeeze()), data[0]),
        (random.clone(keys), data),
    ):
        assert isinstance(a, random.KeyArray)
        np.testing.assert_array_equal(random.key_data(a), b)
    assert np.asarray(keys == random.split(OURS, 6)).all()
    assert not np.asarray(keys != keys).any()
    assert pickle.loads(pickle.dumps(keys.dtype)) is keys.dtype
    with pytest.raises(TypeError, match="key arrays only"):
        assert keys == 3


FLAGS = np.arange(6) % 2 == 0
# Functions that move elements act on keys as on rows of words, along any but the last dimension.
MOVES: dict[str, tuple[Any, Any]] = {
    "stack": (lambda n, k: n.stack([k[0], k[1]]), lambda w: np.stack([w[0], w[1]])),
    "concatenate": (lambda n, k: n.concatenate([k, k[:2]]), lambda w: np.concatenate([w, w[:2]])),
    "where": (
        lambda n, k: n.where(FLAGS, k, k[0]),
        lambda w: np.where(FLAGS[:, None], w, w[0]),
    ),
    "broadcast_to": (lambda n, k: n.broadcast_to(k, (2, 6)), lambda w: np.stack([w, w])),
    "reshape": (lambda n, k: n.reshape(k, (2, -1)).swapaxes(0, 1)[1], lambda w: w[[1, 4]]),
    "take": (lambda n, k: n.take(k, np.array([4, 1])), lambda w: w[[4, 1]]),
    "roll": (lambda n, k: n.flip(n.roll(k, 2)), lambda w: np.roll(w, 2, 0)[::-1]),
    "split": (lambda n, k: n.split(k, 3)[1], lambda w: w[2:4]),
    "set": (lambda n, k: k.at[1:3].set(k[:2]).at[0].get(), lambda w: w[0]),
    "select": (lambda n, k: lax.select(FLAGS, k, k[::-1])[1], lambda w: w[4]),
    "dynamic": (lambda n, k: lax.dynamic_index_in_dim(k, 3, 0, False), lambda w: w[3]),
    "update": (lambda n, k: lax.dynamic_update_index_in_dim(k, k[0], 3, 0)[3], lambda w: w[0]),
}


def test_functions_that_move_keys() -> None:
    keys = random.split(OURS, 6)
    words = np.asarray(random.key_data(keys))
    for name, (call, expected) in MOVES.items():
        moved = call(gn.numpy, keys)
        assert isinstance(moved, random.KeyArray), name
        np.testing.assert_array_equal(random.key_data(moved), expected(words), name)
    staged = gn.jit(lambda k: gn.numpy.where(k[0] == k[1], k, gn.numpy.stack([k[1]] * 6)))(keys)
    np.testing.assert_array_equal(random.key_data(staged), np.tile(words[1], (6, 1)))
    for call in (
        lambda: gn.numpy.where(FLAGS, keys, 0),
        lambda: gn.numpy.concatenate([keys, words[:, 0]]),
        lambda: gn.numpy.stack([keys[0], random.key(0, impl="rbg")]),
    ):
        with pytest.raises(ValueError, match="same extended dtype"):
            call()
    with pytest.raises(TypeError):
        keys.at[0].set(3)


# Arrays of one key: a number is the value of each word.
CONSTANT_KEYS: dict[str, tuple[Any, Any]] = {
    "zeros": (lambda n, k: n.zeros(2, k.dtype), lambda w: 0),
    "ones": (lambda n, k: n.ones((2,), dtype=k.dtype), lambda w: 1),
    "empty": (lambda n, k: n.empty(2, k.dtype), lambda w: 0),
    "full": (lambda n, k: n.full(2, 100, k.dtype), lambda w: 100),
    "full of a key": (lambda n, k: n.full(2, k[1]), lambda w: w[1]),
    "full of keys": (lambda n, k: n.full((2, 2), k, k.dtype)[0], lambda w: w),
    "zeros_like": (lambda n, k: n.zeros_like(k), lambda w: 0),
    "ones_like": (lambda n, k: n.ones_like(k), lambda w: 1),
    "empty_like": (lambda n, k: n.empty_like(k), lambda w: 0),
    "full_like": (lambda n, k: n.full_like(k, 100), lambda w: 100),
    "full_like of a key": (lambda n, k: n.full_like(k, k[1]), lambda w: w[1]),
}


def test_constant_arrays_of_keys() -> None:
    keys = random.split(OURS, 2)
    words = np.asarray(random.key_data(keys))
    made = gn.jit(lambda k: {name: call(gn.numpy, k) for name, (call, _) in CONSTANT_KEYS.items()})(
        keys
    )
    for name, (call, expected) in CONSTANT_KEYS.items():
        for result in (call(gn.numpy, keys), made[name]):
            assert result.dtype == keys.dtype and result.shape == (2,), name
            filled = np.broadcast_to(np.uint32(expected(words)), (2, 2))
            np.testing.assert_array_equal(random.key_data(result), filled, name)
    with pytest.raises(ValueError, match="cannot be converted"):
        gn.numpy.full(2, random.key(0, impl="rbg"), keys.dtype)
    struct = gn.ShapeDtypeStruct((2,), keys.dtype)
    assert gn.ShapeDtypeStruct.like(keys) == struct == gn.eval_shape(lambda k: k, struct)
    assert gn.eval_shape(gn.vmap(random.bits), struct).shape == (2,)
    plain = gn.ShapeDtypeStruct.like(1.0).update(shape=(3,))
    assert plain == gn.ShapeDtypeStruct((3,), "float32", weak_type=True)
    assert pickle.loads(pickle.dumps(plain)) == copy.deepcopy(plain) == plain


def test_keys_are_compared() -> None:
    keys = random.split(OURS, 2)
    for n, k in ((gn.numpy, keys), (jax.numpy, jrandom.split(THEIRS, 2))):
        mod = lax if n is gn.numpy else jax.lax
        equal = (n.equal(k, k[1]), n.not_equal(k[0], k), mod.eq(k, k[::-1]), mod.ne(k, k[::-1]))
        np.testing.assert_array_equal(
            np.stack(equal), [[False, True], [False, True], [False, False], [True, True]]
        )
        same = (n.array_equal(k, k), n.array_equal(k, k[0]), n.array_equiv(k[1:], k[1]))
        assert [bool(x) for x in same] == [True, False, True]
    assert not gn.numpy.array_equiv(keys, gn.numpy.stack([*keys, keys[0]]))
    np.testing.assert_array_equal(gn.vmap(gn.numpy.equal)(keys, keys[::-1]), [False, False])


def test_keys_in_transformations() -> None:
    keys = random.split(OURS, 3)
    each = np.stack([np.asarray(random.uniform(k, (2,))) for k in keys])
    for axis in (0, -1):
        out = gn.vmap(lambda k: random.uniform(k, (2,)), in_axes=axis)(keys)
        np.testing.assert_array_equal(out, each)
    out = gn.jit(gn.vmap(lambda k: random.uniform(k, (2,))))(keys)
    np.testing.assert_array_equal(out, each)
    assert isinstance(gn.jit(random.split)(OURS), random.KeyArray)
    np.testing.assert_array_equal(
        random.key_data(gn.vmap(random.split)(keys)),
        np.stack([np.asarray(random.key_data(random.split(k))) for k in keys]),
    )
    last, drawn = lax.scan(lambda k, _: (random.split(k)[0], random.bits(k)), OURS, None, 3)
    assert isinstance(last, random.KeyArray) and drawn.shape == (3,)
    with pytest.raises(TypeError):
        gn.grad(lambda k: 1.0)(OURS)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn"])
def test_short_way_of_eager_calls_equals_the_traced_one(dtype: str) -> None:
    keys = random.split(OURS, 2)
    for shape in ((), (3,), (2, 3), (0,)):
        traced = gn.vmap(lambda k: random.uniform(k, shape, dtype))(keys)  # noqa: B023
        each = np.stack([np.asarray(random.uniform(k, shape, dtype)) for k in keys])
        np.testing.assert_array_equal(np.asarray(traced), each)
    raw = random.split(random.PRNGKey(1), 2)
    traced = gn.vmap(lambda k: random.split(k, 3))(raw)
    np.testing.assert_array_equal(traced, np.stack([np.asarray(random.split(k, 3)) for k in raw]))


# --------------------------------------------------------------------------------------- samplers


def test_bits_and_shapes() -> None:
    with compared_in_one_program() as compare:
        for dtype in ("uint8", "uint16", "uint32"):
            compare("bits", (3, 7, 11), dtype)
        for shape in ((), (1,), (0,), 5, (100_000,), (2, 3, 4)):
            compare("uniform", shape)


def test_counters_beyond_32_bits() -> None:
    """Arrays of more than 2**32 numbers continue in the high word; only the trace is checked."""
    text = gn.make_jaxpr(lambda k: random.bits(k, (2**33,), np.uint8))(OURS)
    assert "shift_right_logical" in str(text) and "tensor<8589934592xui64>" in str(text)


FLOATS = ["float32", "bfloat16", "float16"]


def _compare_scaled_halves(dtype: str, low: float, high: float) -> None:
    """`uniform` of 16 bits between bounds: u * (high - low) + low.

    We round after each operation, and so does XLA on some processors. On others, such as Intel's
    with AVX-512, it computes in float32 and rounds only the sum. So the oracle's numbers must all
    be those of one way, or all those of the other.
    """
    u = np.asarray(random.uniform(OURS, (500,), dtype))
    rounded_twice = (u * u.dtype.type(high - low)).astype(u.dtype) + u.dtype.type(low)
    rounded_once = (u.astype(np.float32) * (high - low) + low).astype(u.dtype)
    ours = random.uniform(OURS, (500,), dtype, low, high)
    theirs = jrandom.uniform(THEIRS, (500,), dtype, low, high)
    assert (ours.dtype, ours.shape, ours.weak_type) == (theirs.dtype, theirs.shape, False)
    np.testing.assert_array_equal(np.asarray(ours), rounded_twice)
    assert any(np.array_equal(theirs, each) for each in (rounded_twice, rounded_once))
    assert not np.array_equal(rounded_twice, rounded_once)


def test_uniform() -> None:
    with compared_in_one_program() as compare:
        for dtype in (*FLOATS, "float8_e4m3fn", "float8_e5m2"):
            compare("uniform", (500,), dtype)
            if dtype not in ("bfloat16", "float16"):
                compare("uniform", (500,), dtype, -1.5, 2.0)
        low, high = jnp.array([-2.0, 0.0, 1.0]), jnp.array([[0.5], [4.0]])
        compare("uniform", (2, 3), "float32", low, high)
    for dtype in ("bfloat16", "float16"):
        _compare_scaled_halves(dtype, -1.5, 2.0)


# Our erf_inv is more accurate; JAX's loses up to 50 units near the ends of its domain.
NORMAL_ULPS = {"float32": 60, "bfloat16": 1, "float16": 1, "complex64": 60}


def test_normal() -> None:
    with compared_in_one_program() as compare:
        for dtype, ulps in NORMAL_ULPS.items():
            compare("normal", (1000,), dtype, ulps=ulps)


def test_normal_is_close_in_the_middle() -> None:
    ours = np.asarray(random.normal(OURS, (5000,)))
    theirs = np.asarray(jrandom.normal(THEIRS, (5000,)))
    middle = np.abs(theirs) < 3
    assert_each_near(ours[middle], theirs[middle], 8)


def test_64_bits() -> None:
    with gn.enable_x64(), jax.enable_x64(True), compared_in_one_program() as compare:
        compare("bits", (5,))
        compare("uniform", (500,))
        compare("uniform", (500,), "float64", -1.3, 2.7)
        compare("normal", (500,), ulps=100)
        for low, high in ((0, 10), (-(2**40), 2**41), (0, 2**63 - 1), (5, 2)):
            compare("randint", (20,), low, high)
            compare("randint", (20,), max(low, 0), high, "uint64")


def test_randint() -> None:
    with compared_in_one_program() as compare:
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
            for low, high in ((0, 10), (3, 4), (5, 2), (-7, 100), (0, 256), (0, 2**31 - 1)):
                compare("randint", (20,), low, high, dtype)
        compare("randint", (4, 3), jnp.arange(3), jnp.array([10, 20, 30]))
        compare("randint", (4,), 0.0, 10.0)


def test_bernoulli() -> None:
    with compared_in_one_program() as compare:
        for args in ((0.3, (50,)), (0.3, (50,), "high"), (), (jnp.array([0.1, 0.9]),)):
            compare("bernoulli", *args)
        compare("bernoulli", jnp.array([0.1, 0.9], jnp.bfloat16), (4, 2))
        for dtype in (None, "float32", "int8", "uint8", "bool"):
            compare("rademacher", (50,), dtype)


# Logarithms and similar functions differ by a few units, and results near zero by units at one.
DISTRIBUTIONS = ("exponential", "cauchy", "laplace", "logistic", "maxwell", "gumbel")


def test_distributions() -> None:
    with compared_in_one_program() as compare:
        for dtype in FLOATS:
            for name in DISTRIBUTIONS:
                # With 16 bits there are three roundings in both libraries; functions of float32
                # lose more.
                compare(name, (300,), dtype, ulps=16 if dtype == "float32" else 4, scale=1.0)
        compare("gumbel", (300,), mode="highest", ulps=16, scale=1.0)


@pytest.mark.slow
def test_distributions_with_parameters() -> None:
    with compared_in_one_program() as compare:
        two, three = jnp.array([0.5, 2.0]), jnp.array([[1.0], [2.0], [3.0]])
        close = {"ulps": 64, "scale": 1.0}
        compare("truncated_normal", -1.0, 2.0, (300,), **close)
        compare("truncated_normal", -two, three, **close)
        compare("pareto", two, **close)
        compare("rayleigh", two, (3, 2), **close)
        compare("weibull_min", 2.0, 1.5, (300,), **close)
        compare("lognormal", 2.0, (300,), **close)
        compare("triangular", 0.0, 1.0, 3.0, (300,), **close)
        # The rounding errors of terms up to the square of the mean times a squared normal number.
        compare("wald", two, (300, 2), ulps=16, scale=32.0)
        compare("geometric", 0.1, (300,))
        compare("double_sided_maxwell", 1.0, two, (3,), **close)
        compare("gumbel", (300,), mode="high", **close)
        compare("gumbel", (300,), "bfloat16", mode="highest", **close)


@pytest.mark.slow
def test_categorical() -> None:
    with compared_in_one_program() as compare:
        logits = jrandom.normal(jrandom.key(1), (4, 6))
        compare("categorical", logits)
        compare("categorical", logits, axis=0, shape=(5, 6))
        compare("categorical", logits[0], shape=(3, 2), mode="high")
        compare("categorical", logits, mode="highest")
        compare("categorical", jnp.zeros((3, 4), jnp.bfloat16))


def test_shapes_of_choices_are_sequences_of_any_kind() -> None:
    key = gn.random.key(0)
    assert gn.random.choice(key, 5, UserList([2, 3])).shape == (2, 3)
    with pytest.raises(TypeError, match=r"random.choice: shape must be a sequence, got 3"):
        gn.random.choice(key, 5, 3)


def test_choice() -> None:
    with compared_in_one_program() as compare:
        logits = jrandom.normal(jrandom.key(1), (4, 6))
        compare("choice", 6, (40,))
        compare("choice", logits, (3,), axis=1)
        compare("choice", logits, (2, 3))
        compare("choice", 6, (0,))
    p = np.asarray(jax.nn.softmax(logits[0]))
    theirs = jax.jit(lambda p: jrandom.choice(THEIRS, 6, (200,), p=p))(p)
    np.testing.assert_array_equal(random.choice(OURS, 6, (200,), p=_ours(p)), theirs)
    # Many categories: the sums of their probabilities have JAX's roundings, and are not sorted.
    p = np.random.default_rng(3).dirichlet(np.ones(50_000)).astype(np.float32)
    wanted = jax.jit(lambda p: jrandom.choice(THEIRS, 50_000, (100_000,), p=p))(p)

    def draw(p: Any) -> Any:
        return random.choice(OURS, 50_000, (100_000,), p=p)

    np.testing.assert_array_equal(np.asarray(draw(p)), wanted)
    np.testing.assert_array_equal(np.asarray(gn.jit(draw)(p)), wanted)


SMALL_AND_LARGE = jnp.array([0.01, 0.3, 1.0, 2.5, 30.0])


@pytest.mark.slow
def test_gamma_family() -> None:
    with compared_in_one_program() as compare:
        close = {"ulps": 64, "scale": 1.0}
        compare("gamma", SMALL_AND_LARGE, (40, 5), **close)
        compare("gamma", 2.0, (0,))
        compare("loggamma", SMALL_AND_LARGE, (40, 5), **close)
        compare("beta", SMALL_AND_LARGE, 0.5, **close)
        compare("f", SMALL_AND_LARGE, 3.0, **close)
        compare("t", SMALL_AND_LARGE[1:], (20, 4), **close)
        compare("ball", 3, 1.5, (20,), **close)


@pytest.mark.slow
def test_counts_of_events() -> None:
    with compared_in_one_program() as compare:
        compare("poisson", jnp.array([0.0, 0.5, 9.9, 10.0, 50.0, 1e5, jnp.nan]))
        compare("poisson", 4.0, (200,), "int16")
        compare("binomial", jnp.array([0.0, 1.0, 10.0, 1e5, jnp.nan, -1.0, jnp.inf]), 0.3)
        compare("binomial", 100, jnp.array([0.0, 1.0, 0.5, 1.5, -1.0, jnp.nan]), (3, 6))
        compare("multinomial", jnp.array([10, 1000]), jnp.array([0.2, 0.3, 0.5]), shape=(2, 3))


@pytest.mark.slow
def test_orders() -> None:
    with compared_in_one_program() as compare:
        matrix = jrandom.normal(jrandom.key(1), (5, 6))
        for args in ((10,), (1,), (0,), (jnp.arange(3000),), (matrix, 1), (matrix, 0, True)):
            compare("permutation", *args)
        for args in ((10, (3, 2), False), (matrix, (2, 2), False, None, 1), (6, (0,), False)):
            compare("choice", *args)
        compare("choice", 6, (2, 2), False, jax.nn.softmax(matrix[0]))
        compare("categorical", matrix, shape=(3, 5), replace=False)
        compare("categorical", matrix, axis=0, shape=(2, 2, 6), replace=False)


def test_matrices() -> None:
    close = {"ulps": 32, "scale": 1.0}
    mean, cov = jnp.array([1.0, 2.0]), jnp.array([[2.0, 0.5], [0.5, 1.0]])
    with compared_in_one_program() as compare:
        compare("orthogonal", 2, (4,), m=5, **close)
        compare("multivariate_normal", mean, cov, (5,), **close)
    drawn = random.multivariate_normal(OURS, _ours(mean), _ours(cov), (20000,), method="eigh")
    variances = np.diag(cov)
    error = np.sqrt((np.outer(variances, variances) + cov**2) / len(drawn))
    assert (np.abs(np.cov(np.asarray(drawn).T) - cov) < 5 * error).all()


@pytest.mark.slow
def test_rejection_under_transformations() -> None:
    keys = random.split(OURS, 3)

    def draw(key: Any) -> Any:
        return random.gamma(key, 0.7, (4,)), random.poisson(key, 12.0, (2,))

    each = [draw(k) for k in keys]
    for wrapped in (gn.vmap(draw), gn.jit(gn.vmap(draw))):
        for found, expected in zip(wrapped(keys), zip(*each, strict=True), strict=True):
            assert_each_near(found, np.stack(expected), 16)


@pytest.mark.parametrize(
    "name",
    ["gamma", *(pytest.param(name, marks=pytest.mark.slow) for name in ("loggamma", "dirichlet"))],
)
def test_derivatives_of_gamma_numbers(name: str) -> None:
    weights = np.arange(5, dtype=np.float32)
    ours = gn.grad(lambda a: (getattr(random, name)(OURS, a) * weights).sum())
    theirs = jax.grad(lambda a: (getattr(jrandom, name)(THEIRS, a) * weights).sum())
    expected = np.asarray(jax.jit(theirs)(SMALL_AND_LARGE))
    assert_each_near(ours(np.asarray(SMALL_AND_LARGE)), expected, 64)


def test_derivatives() -> None:
    def total(low: Any) -> Any:
        return lax.reduce_sum(random.truncated_normal(OURS, low, 1.0, (5,)), (0,))

    step = 1e-2
    slope = (float(total(-1.0 + step)) - float(total(-1.0 - step))) / (2 * step)
    units = units_of_differences(step, np.float32)
    assert_near(gn.grad(total)(-1.0), np.float32(slope), units, scale=abs(float(total(-1.0))))
    width = gn.grad(lambda high: lax.reduce_sum(random.uniform(OURS, (4,), maxval=high), (0,)))
    assert_near(width(2.0), np.asarray(random.uniform(OURS, (4,))).sum(), 4)


def test_keys_compared_with_other_objects() -> None:
    key = random.key(0)
    for other in (None, "a", np.dtype("uint32"), object()):
        assert (key == other) is False
        assert (key != other) is True
    for other in (0, [key], {}, np.zeros(2, np.uint32), gnp.zeros(2)):
        with pytest.raises(TypeError, match="a key array is compared with key arrays only"):
            _ = key == other
    # As nodes of trees, they may hold other objects than arrays.
    types = gn.tree.map(lambda x: x.dtype, {"key": key, "x": gnp.ones(2)})
    assert types == gn.tree.map(lambda x: x.dtype, {"key": random.key(1), "x": gnp.zeros(3)})
    assert (types["key"] != types["key"]) is False
