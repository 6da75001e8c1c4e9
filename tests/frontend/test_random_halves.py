"""`gnomon_threefry_partitionable=False` gives JAX's numbers of that mode."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn

PROGRAMS = {
    "split": lambda m, k: m.random.key_data(m.random.split(k, 3)),
    "split-shape": lambda m, k: m.random.key_data(m.random.split(k, (2, 3))),
    "fold_in": lambda m, k: m.random.key_data(m.random.fold_in(k, 5)),
    "of-many": lambda m, k: m.vmap(lambda k: m.random.bits(k, (3,)))(m.random.split(k, 4)),
    "keys-of-many": lambda m, k: m.random.key_data(m.vmap(m.random.split)(m.random.split(k, 4))),
    "one-of-many": lambda m, k: m.vmap(m.random.uniform)(m.random.split(k, 4)),
    "uniform": lambda m, k: m.random.uniform(k, (5, 3)),
    "normal": lambda m, k: m.random.normal(k),
    "permutation": lambda m, k: m.random.permutation(k, 9),
}


@pytest.fixture(autouse=True)
def halves() -> Any:
    with gn.threefry_partitionable(False), jax.threefry_partitionable(False):
        yield


# The bits of the other generator do not depend on the mode; its keys do.
CASES = [
    *(("threefry2x32", name) for name in PROGRAMS),
    *(("rbg", name) for name in ("split", "split-shape", "fold_in", "keys-of-many")),
]


@pytest.mark.parametrize(("impl", "name"), CASES)
@pytest.mark.parametrize("jit", [False, True])
def test_numbers_are_those_of_jax(name: str, jit: bool, impl: str) -> None:
    results = []
    for module in (gn, jax):
        key = module.random.key(7, impl=impl)
        program = lambda key, module=module: PROGRAMS[name](module, key)  # noqa: E731
        results.append(np.asarray((module.jit(program) if jit else program)(key)))
    assert results[0].dtype == results[1].dtype
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (4, 3)])
def test_bits_of_every_width(dtype: str, shape: tuple[int, ...]) -> None:
    with gn.enable_x64(True), jax.enable_x64(True):
        ours = gn.random.bits(gn.random.key(1), shape, dtype)
        theirs = jax.random.bits(jax.random.key(1), shape, jnp.dtype(dtype))
        each = gn.vmap(lambda k: gn.random.bits(k, (), dtype))(gn.random.split(gn.random.key(1)))
        of_jax = jax.vmap(lambda k: jax.random.bits(k, (), dtype))(
            jax.random.split(jax.random.key(1))
        )
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
    np.testing.assert_array_equal(np.asarray(each), np.asarray(of_jax))


def test_programs_are_traced_again() -> None:
    draw = gn.jit(lambda key: gn.random.bits(key, (3,)))
    key = gn.random.key(0)
    first = np.asarray(draw(key))
    with gn.threefry_partitionable(True):
        assert not np.array_equal(first, np.asarray(draw(key)))
    assert np.array_equal(first, np.asarray(draw(key)))


def test_symbolic_sizes_are_refused() -> None:
    from gnomon import export

    (n,) = export.symbolic_shape("n")
    spec = gn.ShapeDtypeStruct((n,), np.float32)
    with pytest.raises(NotImplementedError, match="symbolic sizes"):
        export.export(gn.jit(lambda x: gn.random.uniform(gn.random.key(0), x.shape)))(spec)
