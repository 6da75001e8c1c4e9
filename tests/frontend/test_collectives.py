"""Collectives over the axis names that vmap binds, against JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from tests.tolerance import assert_each_near, assert_near

jax = pytest.importorskip("jax")

X = np.array([[1.0, -2.0, 0.5], [4.0, 0.25, -1.0]], np.float32)


def program(api: Any, name: str) -> Any:
    lax = api.lax
    return {
        "psum": lambda x: x / lax.psum(abs(x), "i"),
        "pmean": lambda x: x - lax.pmean(x * x, "i"),
        "pmax": lambda x: x * lax.pmax(x, "i"),
        "pmin": lambda x: x - lax.pmin(x, "i"),
        "axis_index": lambda x: x * lax.axis_index("i"),
        "psum_of_unmapped": lambda x: x + lax.psum(2.0, "i"),
    }[name]


NAMES = ("psum", "pmean", "pmax", "pmin", "axis_index", "psum_of_unmapped")


def test_collectives_equal_jax() -> None:
    def mapped(api: Any) -> Any:
        return lambda x: {
            (name, axis): api.vmap(program(api, name), axis, axis_name="i")(x)
            for name in NAMES
            for axis in (0, 1)
        }

    expected = jax.jit(mapped(jax))(X)
    for found in (mapped(gnomon)(X), gnomon.jit(mapped(gnomon))(X)):
        for case, wanted in expected.items():
            assert_each_near(found[case], wanted, 4, message=str(case))


def test_gradients_equal_jax() -> None:
    names = [n for n in NAMES if n not in ("pmax", "pmin")]

    def gradients(api: Any, np_: Any) -> Any:
        def loss(x: Any, name: str) -> Any:
            return np_.sum(np_.sin(api.vmap(program(api, name), axis_name="i")(x)))

        return lambda x: {name: api.grad(loss)(x, name) for name in names}

    def inner(api: Any) -> Any:
        return lambda x: {
            name: api.vmap(api.grad(program(api, name)), axis_name="i")(x) for name in names
        }

    found = gnomon.jit(gradients(gnomon, gnp))(X), inner(gnomon)(X[:, 0])
    expected = jax.jit(gradients(jax, jax.numpy))(X), jax.jit(inner(jax))(X[:, 0])
    for ours, theirs in zip(found, expected, strict=True):
        for name in names:
            assert_near(ours[name], theirs[name], 64, scale=1.0, message=name)


def test_gradient_of_an_extremum_goes_to_the_members_that_attain_it() -> None:
    def loss(x: Any) -> Any:
        return gnp.sum(gnomon.vmap(lambda v: gnomon.lax.pmax(v, "i"), axis_name="i")(x))

    x = np.array([1.0, 3.0, 3.0, 2.0], np.float32)
    np.testing.assert_array_equal(gnomon.grad(loss)(x), [0.0, 2.0, 2.0, 0.0])


def test_nested_names() -> None:
    def f(x: Any) -> Any:
        return gnomon.lax.psum(x, ("i", "j")) + gnomon.lax.axis_index("j")

    found = gnomon.vmap(gnomon.vmap(f, axis_name="j"), axis_name="i")(X)
    np.testing.assert_array_equal(found, X.sum() + np.arange(3) + np.zeros((2, 1)))


def test_inside_of_control_flow() -> None:
    def f(x: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            return carry + gnomon.lax.psum(x, "i"), None

        return gnomon.lax.scan(body, gnp.float32(0), None, length=3)[0]

    np.testing.assert_array_equal(gnomon.vmap(f, axis_name="i")(X[:, 0]), np.full(2, 15.0))


def test_unbound_name() -> None:
    with pytest.raises(NameError, match="unbound axis name: 'k'"):
        gnomon.vmap(lambda x: gnomon.lax.psum(x, "k"), axis_name="i")(X)


CUBE = np.random.default_rng(0).normal(size=(2, 3, 6, 12)).astype(np.float32)

# Programs over the axes i (2 members) and j (3 members), on arrays of shape (6, 12).
MOVEMENTS: dict[str, Any] = {
    "all_gather": lambda lax, x: lax.all_gather(x, "i", axis=1),
    "all_gather tiled": lambda lax, x: lax.all_gather(x, "j", axis=-1, tiled=True),
    "all_to_all": lambda lax, x: lax.all_to_all(x[:3], "j", 0, 1),
    "all_to_all tiled": lambda lax, x: lax.all_to_all(x, "j", 1, 0, tiled=True),
    "all_to_all of both": lambda lax, x: lax.all_to_all(x, ("i", "j"), 0, 1),
    "all_to_all of both, tiled": lambda lax, x: lax.all_to_all(x, ("i", "j"), 0, 0, tiled=True),
    "pswapaxes": lambda lax, x: lax.pswapaxes(x[:, :3], "j", 1),
    "psum_scatter": lambda lax, x: lax.psum_scatter(x[:2], "i"),
    "psum_scatter tiled": lambda lax, x: lax.psum_scatter(x, "j", scatter_dimension=1, tiled=True),
    "ppermute": lambda lax, x: lax.ppermute(x, "j", [(0, 2), (2, 1), (1, 0)]),
    "pshuffle": lambda lax, x: lax.pshuffle({"a": x}, "i", [1, 0])["a"],
    "dimensions": lambda lax, x: lax.psum(x, ("i", 0)) + lax.psum(3, ("i", "j")),
}


def test_movements_equal_jax() -> None:
    def nested(api: Any, name: str, x: Any) -> Any:
        inner = api.vmap(lambda x: MOVEMENTS[name](api.lax, x), axis_name="j")
        return api.vmap(inner, axis_name="i")(x)

    def both(api: Any, np_: Any, name: str, x: Any) -> Any:
        loss = api.grad(lambda x: np_.sum(np_.sin(nested(api, name, x))))
        return nested(api, name, x), loss(x)

    expected = jax.jit(lambda x: {n: both(jax, jax.numpy, n, x) for n in MOVEMENTS})(CUBE)
    for name, (value, gradient) in expected.items():
        found = both(gnomon, gnp, name, CUBE)
        assert_near(found[0], value, 8, message=name)
        assert_near(found[1], gradient, 32, message=name)


def test_movements_where_jax_has_none() -> None:
    def both(f: Any) -> Any:
        return np.asarray(gnomon.vmap(gnomon.vmap(f, axis_name="j"), axis_name="i")(CUBE))

    lax, flat = gnomon.lax, CUBE.reshape(6, 6, 12)
    gathered = both(lambda x: lax.all_gather(x, ("i", "j")))
    np.testing.assert_array_equal(gathered, np.broadcast_to(flat, (2, 3, 6, 6, 12)))
    total = flat.sum(0)
    scattered = both(lambda x: lax.psum_scatter(x, ("i", "j")))
    assert_near(scattered.reshape(6, 12), total, 8)
    # To the next member in the row-major order of both axes; the first gets zeros.
    shifted = both(lambda x: lax.ppermute(x, ("i", "j"), [(k, k + 1) for k in range(5)]))
    np.testing.assert_array_equal(shifted.reshape(6, 6, 12)[1:], flat[:5])
    assert not shifted[0, 0].any()
    partial = both(lambda x: lax.ppermute(x, "j", [(0, 1)]))
    np.testing.assert_array_equal(partial[:, 1], CUBE[:, 0])
    assert not partial[:, [0, 2]].any()
    sent = both(lambda x: lax.pbroadcast(x, "j", 2))
    np.testing.assert_array_equal(sent, np.broadcast_to(CUBE[:, 2:], CUBE.shape))


def test_movements_of_unmapped_values() -> None:
    lax, x = gnomon.lax, CUBE[0, 0]

    def f(i: Any) -> Any:
        return (
            lax.all_gather(x, "i"),
            lax.psum_scatter(x, "i"),
            lax.all_to_all(x, "i", 0, 1),
            lax.ppermute(x, "i", [(0, 1)]),
        )

    found = [np.asarray(r) for r in gnomon.jit(gnomon.vmap(f, axis_name="i"))(np.arange(6))]
    repeated = np.broadcast_to(x, (6, *x.shape))
    np.testing.assert_array_equal(found[0], np.broadcast_to(repeated, (6, *repeated.shape)))
    assert_each_near(found[1], 6 * x, 8)
    np.testing.assert_array_equal(found[2], np.broadcast_to(x[:, :, None], (6, 12, 6)))
    np.testing.assert_array_equal(found[3], np.where(np.arange(6)[:, None, None] == 1, x, 0))


def test_errors_of_movements() -> None:
    def mapped(f: Any) -> Any:
        return gnomon.vmap(f, axis_name="i")(CUBE)

    lax = gnomon.lax
    with pytest.raises(ValueError, match="must have the same size as the named axes, 2"):
        mapped(lambda x: lax.all_to_all(x, "i", 0, 1))
    with pytest.raises(ValueError, match="a multiple of the size"):
        mapped(lambda x: lax.psum_scatter(x, "i", tiled=True))
    with pytest.raises(ValueError, match="a destination twice"):
        mapped(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 1)]))
    with pytest.raises(ValueError, match="beyond the 2"):
        mapped(lambda x: lax.ppermute(x, "i", [(0, 2)]))
    with pytest.raises(ValueError, match="does not represent a permutation"):
        mapped(lambda x: lax.pshuffle(x, "i", [0, 0]))
    with pytest.raises(ValueError, match="must cover all indices exactly once"):
        mapped(lambda x: lax.all_gather(x, "i", axis_index_groups=[[0], [0]]))
    with pytest.raises(ValueError, match="must all be the same size"):
        wide = gnomon.vmap(
            lambda x: lax.all_gather(x, "i", axis_index_groups=[[0, 1], [2]]), axis_name="i"
        )
        wide(np.zeros((3, 2), np.float32))


def test_ops_on_a_named_axis_belong_to_its_vmap() -> None:
    """The trace of a function for one axis size is not used for another, even without operands."""
    lax = gnomon.lax
    x = np.arange(3.0, dtype=np.float32)
    counted = gnomon.jit(lambda y: y * lax.psum(1, "i"))
    summed = gnomon.jit(lambda y: lax.psum(y, "i"))

    def mapped(f: Any, x: Any) -> np.ndarray:
        return np.asarray(gnomon.vmap(lambda x: x + f(), axis_name="i")(x))

    def both(x: Any) -> Any:
        return [
            gnomon.vmap(lambda x: counted(x) + summed(1.0), axis_name="i")(part)
            for part in (x, x[:2])
        ]

    for size in (3, 2):
        for f in (counted, summed):
            np.testing.assert_array_equal(mapped(lambda f=f: f(2.0), x[:size]), x[:size] + 2 * size)
    for run in (both, gnomon.jit(both)):
        for found, size in zip(run(x), (3, 2), strict=True):
            np.testing.assert_array_equal(np.asarray(found), size * x[:size] + size)
    with pytest.raises(NameError):
        counted(2.0)
    loop = mapped(lambda: lax.scan(lambda c, _: (lax.psum(c, "i"), None), 1.0, None, 2)[0], x)
    np.testing.assert_array_equal(loop, x + 9)
    squared = mapped(lambda: gnomon.grad(lambda y: lax.psum(y * y, "i"))(1.0), x)
    assert_each_near(squared, np.asarray(x + 6), 8)
    inner = mapped(lambda: gnomon.vmap(lambda y: lax.psum(y, ("i", "j")), axis_name="j")(x)[0], x)
    np.testing.assert_array_equal(inner, x + 9)
    groups = [[0, 1], [2, 3]]
    size = mapped(lambda: lax.psum(1, "i", axis_index_groups=groups), np.zeros(4, np.float32))
    np.testing.assert_array_equal(size, 2)
