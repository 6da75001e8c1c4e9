"""`gnomon_threefry_partitionable=False` gives JAX's numbers of that mode."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import gnomon as gn
from tests.sample import sample

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


def test_numbers_are_those_of_jax() -> None:
    chosen = sample(CASES, 7, __name__)

    def draw(module: Any, keys: Any) -> Any:
        return {f"{name} of {impl}": PROGRAMS[name](module, keys[impl]) for impl, name in chosen}

    ours, theirs = (
        {impl: module.random.key(7, impl=impl) for impl, _ in chosen} for module in (gn, jax)
    )
    expected = jax.jit(lambda keys: draw(jax, keys))(theirs)
    for found in (draw(gn, ours), gn.jit(lambda keys: draw(gn, keys))(ours)):
        for name, wanted in expected.items():
            assert found[name].dtype == wanted.dtype
            np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=0, err_msg=name)


def test_bits_of_every_width() -> None:
    def draw(module: Any) -> Any:
        key, found = module.random.key(1), {}
        for dtype in ("uint8", "uint16", "uint32", "uint64"):
            for shape in ((), (0,), (1,), (5,), (4, 3)):
                found[f"{dtype}, {shape}"] = module.random.bits(key, shape, dtype)
            each = module.vmap(lambda k, dtype=dtype: module.random.bits(k, (), dtype))
            found[f"{dtype} of each key"] = each(module.random.split(key))
        return found

    with gn.enable_x64(True), jax.enable_x64(True):
        found, expected = draw(gn), jax.jit(lambda: draw(jax))()
    for name, wanted in expected.items():
        np.testing.assert_array_equal(found[name], wanted, err_msg=name, strict=True)


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
