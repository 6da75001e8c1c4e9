"""Other generators than the default, and lax.rng_bit_generator: bits equal to JAX's."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.random as jrandom
import numpy as np
import pytest

import gnomon as gn
from gnomon import lax, random
from tests.frontend.oracle import kind, outcome
from tests.tolerance import assert_each_near

GENERATORS = ["rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32"]


def _words(x: Any) -> np.ndarray:
    if isinstance(x, random.KeyArray):
        return np.asarray(random.key_data(x))
    if isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        return np.asarray(jrandom.key_data(x))
    return np.asarray(x)


def _compare(ours: Any, theirs: Any) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype.name == b.dtype.name
        np.testing.assert_array_equal(_words(a), _words(b))


@pytest.mark.sampled(0.8)
@pytest.mark.parametrize("name", GENERATORS)
def test_bits_and_new_keys(name: str) -> None:
    def drawn(r: Any, vmap: Any) -> Any:
        def draw(key: Any) -> Any:
            keys = r.split(key, (2, 3))
            return [
                keys,
                r.fold_in(key, 77),
                r.bits(key, (5,), "uint32"),
                r.uniform(key, (3, 3), "bfloat16"),
                # A generator made of a hash uses each key for its own bits; XLA's generator uses
                # the first.
                vmap(lambda k: r.bits(k, (2,), "uint16"))(keys[0]),
            ]

        return draw

    ours, theirs = random.key(2**31 + 5, impl=name), jrandom.key(2**31 + 5, impl=name)
    _compare([ours], [theirs])
    _compare(drawn(random, gn.vmap)(ours), jax.jit(drawn(jrandom, jax.vmap))(theirs))


@pytest.mark.parametrize(
    "name",
    ["rbg", *(pytest.param(n, marks=pytest.mark.slow) for n in GENERATORS if n != "rbg")],
)
def test_compiled(name: str) -> None:
    def draw(key: Any) -> Any:
        return random.bits(key, (5,)), random.fold_in(key, 77)

    key = random.key(3, impl=name)
    _compare(gn.jit(draw)(key), draw(key))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rbg", "unsafe_rbg"])
def test_samplers_by_rejection(name: str) -> None:
    ours, theirs = random.key(3, impl=name), jrandom.key(3, impl=name)
    alpha = np.array([0.3, 2.0, 30.0], np.float32)
    assert_each_near(random.gamma(ours, alpha), jrandom.gamma(theirs, alpha), 64)
    # JAX has Poisson numbers by Threefry alone.
    assert (random.poisson(ours, np.array([0.0, 0.5, 20.0])) >= 0).all()


def test_descriptions_of_a_keys_generator() -> None:
    key = random.key(1, dtype=random.key_dtype("rbg"))
    assert repr(key) == repr(jrandom.key(1, impl="rbg"))
    assert (random.key_impl(key), str(key.dtype), key.itemsize) == ("rbg", "key<rbg>", 16)
    assert key.dtype is random.split(key).dtype is pickle.loads(pickle.dumps(key)).dtype
    again = random.wrap_key_data(random.key_data(key), impl="rbg")
    assert bool(again == key)
    with pytest.raises(TypeError, match="two generators"):
        assert key == random.key(1)
    with pytest.raises(ValueError, match="'rgb': the generators are 'threefry2x32'"):
        random.key(0, impl="rgb")
    with pytest.raises(TypeError, match="last dimension of size 2"):
        random.bits(random.PRNGKey(0, impl="rbg"))
    last, _ = lax.scan(lambda k, _: (random.split(k)[0], None), key, None, 2)
    assert last.dtype is key.dtype


@pytest.mark.parametrize("name", ["rbg", "philox2x32"])
def test_the_configured_generator(name: str) -> None:
    with gn.default_prng_impl(name), jax.default_prng_impl(name):
        _compare([random.PRNGKey(3)], [jrandom.PRNGKey(3)])
        assert random.key(0).dtype is random.key_dtype(name)
        _compare([random.split(random.PRNGKey(3))], [jrandom.split(jrandom.PRNGKey(3))])
    with pytest.raises(ValueError, match="default_prng_impl"):
        gn.default_prng_impl("none such").__enter__()


# -------------------------------------------------------------------------------- rng_bit_generator

STATE = np.array([1, 2, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32)


def _cases(lax_: Any) -> Any:
    algorithms = lax_.RandomAlgorithm
    return lambda state: [
        part
        for algorithm in algorithms
        for shape, dtype in (((), "uint8"), ((3, 5), "uint32"), ((2, 3), "uint16"))
        for part in lax_.rng_bit_generator(state, shape, dtype, algorithm)
    ]


def test_rng_bit_generator() -> None:
    expected = jax.jit(_cases(jax.lax))(STATE)
    _compare(_cases(lax)(STATE), expected)
    assert [str(a) for a in lax.RandomAlgorithm] == [str(a) for a in jax.lax.RandomAlgorithm]


def test_rng_bit_generator_of_64_bits() -> None:
    wide = STATE.view(np.uint64)

    def both(lax_: Any) -> Any:
        return lambda state: [
            part
            for algorithm in lax_.RandomAlgorithm
            for part in lax_.rng_bit_generator(state, (3,), "uint64", algorithm)
        ]

    with gn.enable_x64(), jax.enable_x64(True):
        expected = jax.jit(both(jax.lax))(wide)
        _compare(both(lax)(wide), expected)


def test_rng_bit_generator_of_a_batch() -> None:
    states = np.arange(12, dtype=np.uint32).reshape(3, 4)
    for in_axes, given in ((0, states), (1, states.T)):
        _compare(
            gn.vmap(lambda s: lax.rng_bit_generator(s, (2,)), in_axes)(given),
            jax.vmap(lambda s: jax.lax.rng_bit_generator(s, (2,)), in_axes)(given),
        )


@pytest.mark.parametrize("args", [(STATE, (2,), np.int32), (STATE, (2,), np.float32)], ids=str)
def test_errors(args: tuple[Any, ...]) -> None:
    _, theirs = outcome(jax.lax.rng_bit_generator, args, {})
    _, ours = outcome(lax.rng_bit_generator, args, {})
    assert theirs is not None and ours is not None and kind(ours) is kind(theirs)


def test_a_state_of_another_type() -> None:
    for state in (STATE[:3], STATE.astype(np.int32), np.uint32(3)):
        with pytest.raises(TypeError, match=r"must be uint32\[4\] or uint64\[2\]"):
            lax.rng_bit_generator(state, (2,))
