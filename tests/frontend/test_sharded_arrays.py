"""Arrays over several devices, compared with JAX on eight devices."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import NamedSharding, P
from gnomon.sharding import AxisType
from tests.frontend.many_devices import Comparison, outcome
from tests.sample import sample

pytestmark = pytest.mark.usefixtures("devices")

_BEFORE = """
m = lib.make_mesh((4, 2), ('x', 'y'), axis_types=(AxisType.Auto,) * 2)
line = lib.make_mesh((8,), ('z',), axis_types=(AxisType.Auto,))
one = lib.make_mesh((1,), ('o',))
def put(value, *spec):
    return lib.device_put(value, NamedSharding(m, P(*spec)))
x = put(np.arange(32, dtype='float32').reshape(8, 4), 'x', 'y')
r = put(np.arange(8, dtype='float32'), 'x')
"""


def _each(*expressions: str) -> str:
    return f"{_BEFORE}out = [{', '.join(expressions)}]"


def _some(*expressions: str) -> str:
    """A program of a sample of expressions, each of which JAX compiles."""
    return _each(*sample(expressions, len(expressions) // 3, expressions[0]))


# Programs whose variable `out`, with values and shardings of arrays, must be what JAX makes it.
VALUES = {
    "an array": _each(
        "x",
        "x.device",
        "len(x.devices())",
        "x.committed",
        "x.is_fully_replicated",
        "x.is_fully_addressable",
        "put(np.ones(3)).is_fully_replicated",
        "x.addressable_shards",
        "[s.data for s in x.global_shards]",
        "x.addressable_data(2)",
        "x.addressable_shards[1].index",
        "[(s.replica_id, s.index, s.device.id) for s in r.addressable_shards]",
        "x.on_device_size_in_bytes()",
        "repr(x)",
        "str(x)",
        "float(x[1, 2])",
        "np.asarray(x)",
        "x.tolist()",
        "x.is_deleted()",
        "xnp.ones(3).addressable_shards",
    ),
    "device_put": _each(
        "lib.device_put(x, lib.devices()[2])",
        "lib.device_put(x) is x",
        "put(x, 'y')",
        "put(x, ('y', 'x'))",
        "put(lib.device_put(x, lib.devices()[2]), 'x', 'y')",
        "lib.device_put(x, NamedSharding(line, P('z')))",
        "lib.device_put({'a': np.ones(8), 'b': np.ones((4, 2))}, NamedSharding(m, P('x')))",
        "lib.device_put([r, np.ones((4, 2))], [NamedSharding(m, P()),"
        " NamedSharding(m, P(None, 'y'))])",
        "put(3)",
        "put(xnp.arange(8), ('x', 'y'))",
        "lib.device_put(np.arange(8), NamedSharding(one, P('o'))).device",
        "lib.device_put(r, NamedSharding(line, P('z')), donate=True)",
    ),
    "made from parts": _each(
        "lib.make_array_from_callback((8,), r.sharding, lambda i: np.arange(8.0, dtype='f')[i])",
        "lib.make_array_from_callback((8, 4), x.sharding, lambda i: np.asarray(x)[i] + 1)",
        "lib.make_array_from_callback((), NamedSharding(m, P()), lambda i: np.int32(3))",
        "lib.make_array_from_single_device_arrays((8,), r.sharding,"
        " [s.data for s in r.addressable_shards])",
        "lib.make_array_from_single_device_arrays((8, 4), x.sharding,"
        " [s.data for s in x.addressable_shards][::-1])",
        "lib.make_array_from_process_local_data(r.sharding, np.arange(8, dtype='f'))",
        "lib.make_array_from_process_local_data(r.sharding, np.arange(8, dtype='f'), (8,))",
    ),
    "eager ops": _some(
        "x + 1",
        "x + xnp.ones(4)",
        "xnp.ones(4) - x",
        "x.T",
        "x.sum(0)",
        "x.mean()",
        "x.max(1, keepdims=True)",
        "x @ x.T",
        "x.reshape(-1)",
        "x.reshape(4, 2, 4)",
        "xnp.concatenate([x, x])",
        "x[0]",
        "x[:, 1]",
        "x.at[0].set(1)",
        "xnp.floor(x / 2)",
        "x.astype('int32')",
        "xnp.where(x > 0, x, 0)",
        "xnp.cumsum(x, 0)",
        "xnp.sort(x, 0)",
        "xnp.broadcast_to(r[:, None], (8, 3))",
        "x.copy()",
        "r + put(np.ones(8, 'f'), 'y')",
        "put(np.ones(8, 'f'), 'y') + r",
        "r + put(np.ones(8, 'f'))",
        "lib.device_put(x, lib.devices()[2]) + 1",
        "list(x[:2])[0].shape",
        "lib.device_put(np.arange(8), NamedSharding(one, P('o')))"
        " + lib.device_put(1, lib.devices()[0])",
    ),
    "jit": _some(
        *(
            f"lib.jit(lambda a: {result})(x)"
            for result in (
                "a * 2",
                "(a, xnp.zeros(3))",
                "a.T",
                "a.sum(1)",
                "a.reshape(-1)",
                "a.reshape(2, 4, 4)",
                "a.reshape(8, 2, 2)",
                "a[:4]",
                "a[0]",
                "a[::-1]",
                "xnp.concatenate([a, a], 1)",
                "xnp.sort(a, 0)",
                "xnp.pad(a, ((0, 0), (1, 1)))",
                "lax.scan(lambda c, v: (c + v, c * v), xnp.zeros(4), a)",
                "lax.fori_loop(0, 3, lambda i, c: c * 2, a)",
                "lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1, a)",
                "lax.cond(a.sum() > 0, lambda v: v * 2, lambda v: -v, a)",
                "xnp.cumsum(a, 0)",
                "xnp.take(a, xnp.array([0, 1]), axis=0)",
                "a.at[0].set(1.0)",
                "lax.top_k(a, 2)[0]",
                "xnp.argmax(a, 1)",
                "xnp.expand_dims(a, 0)",
                "a @ a.T",
                "xnp.einsum('ij,kj->ki', a, a)",
                "lib.grad(lambda v: xnp.sum(v ** 2))(a)",
                "lib.vmap(lambda v: v * v.sum())(a)",
                "lib.value_and_grad(lambda v: (v * v).sum())(a)",
                "lib.nn.relu(a)",
            )
        ),
        "lib.jit(lambda a, b: a + b)(r, put(np.ones(8, 'f'), 'y'))",
        "lib.jit(lambda a, b: b + a)(r, put(np.ones(8, 'f'), 'y'))",
        "lib.jit(lambda a, b: {'s': a + b, 'd': a - b})(r, np.ones(8, 'f'))",
        "lib.jit(lambda k: lib.random.uniform(k, (8,)),"
        " out_shardings=NamedSharding(m, P('x')))(lib.random.PRNGKey(0))",
    ),
    "arrays like others": _each(
        "xnp.zeros_like(x), xnp.ones_like(r, dtype='int32'), lax.full_like(x, 2.0)",
        "xnp.zeros_like(x + 1), xnp.ones_like(r, shape=(4,)) + 1",
        "xnp.zeros_like(lib.device_put(np.ones(4, 'f'), lib.devices()[3]))",
        "xnp.full_like(lib.device_put(np.ones(4, 'f'), lib.devices()[3]), 2.0) + 1",
    ),
    "in_shardings": _each(
        "lib.jit(lambda a: a * 2, in_shardings=NamedSharding(m, P('x')))(np.arange(8, dtype='f'))",
        "lib.jit(lambda a: a * 2, in_shardings=NamedSharding(m, P('x')))(r)",
        "lib.jit(lambda a, b: (a, b), in_shardings=(NamedSharding(m, P('y')), None))"
        "(xnp.ones(8), r)",
        "lib.jit(lambda a, b: a['u'] + b, in_shardings=({'u': NamedSharding(m, P('x'))},"
        " NamedSharding(m, P())))({'u': np.ones(8, 'f')}, 2.0)",
        "lib.jit(lambda n, a: a * n, static_argnums=0,"
        " in_shardings=(NamedSharding(m, P('x')),))(3, np.ones(8, 'f'))",
    ),
    "out_shardings": _each(
        "lib.jit(lambda a: a * 2, out_shardings=NamedSharding(m, P('x')))(np.arange(8, dtype='f'))",
        "lib.jit(lambda a: (a, a), out_shardings=(None, NamedSharding(m, P())))(x)",
        "lib.jit(lambda a: {'u': a, 'v': (a, a)}, out_shardings={'u': None,"
        " 'v': NamedSharding(m, P('y'))})(x)",
        "lib.jit(lambda: xnp.zeros((8, 4)), out_shardings=NamedSharding(m, P('x')))()",
    ),
    "with_sharding_constraint": _each(
        "lib.jit(lambda a: lax.with_sharding_constraint(a, NamedSharding(m, P('y'))))"
        "(np.arange(8, dtype='f'))",
        "lib.jit(lambda a: lax.with_sharding_constraint(a * 2, NamedSharding(m, P(None, 'x')))"
        " + 1)(x)",
        "lib.jit(lambda a: lax.with_sharding_constraint(a, NamedSharding(m,"
        " P(P.UNCONSTRAINED))))(x)",
        "lib.jit(lambda a: lax.with_sharding_constraint([a, a], [NamedSharding(m, P()),"
        " NamedSharding(m, P('x'))]))(x)",
        "lax.with_sharding_constraint(x, NamedSharding(m, P('y')))",
        "lax.with_sharding_constraint(np.arange(8, dtype='f'), NamedSharding(m, P('y')))",
        "lib.jit(lib.vmap(lambda a: lax.with_sharding_constraint(a, NamedSharding(m, P('y')))))(x)",
        "lib.jit(lib.grad(lambda a: (lax.with_sharding_constraint(a, NamedSharding(m, P('y')))"
        " ** 2).sum()))(x).tolist()",
    ),
    "a mesh that is set": _BEFORE
    + """
with lib.set_mesh(m):
    out = [
        lib.device_put(np.arange(8), P('x')),
        lib.jit(lambda a: lax.with_sharding_constraint(a, P('y')))(np.arange(8)),
        lib.jit(lambda a: a * 2, in_shardings=P('x'), out_shardings=P('y'))(np.arange(8)),
        lib.jit(lambda a: a * 2)(np.arange(8)),
        str(lib.ShapeDtypeStruct((8,), np.float32, sharding=P('x')).sharding),
    ]
""",
    "a mesh that is entered": _BEFORE
    + """
with m:
    out = [lib.jit(lambda a: lax.with_sharding_constraint(a, P('y')))(np.arange(8))]
""",
    "ahead of time": _BEFORE
    + """
f = lib.jit(lambda a, b: (a * b, b.sum()))
compiled = f.lower(x, 2.0).compile()
struct = lib.ShapeDtypeStruct((8,), np.float32, sharding=r.sharding)
other = lib.jit(lambda a: a * 2).lower(struct).compile()
out = [
    compiled.input_shardings[0][0],
    compiled.output_shardings,
    compiled(x, 2.0),
    repr(struct),
    other.input_shardings,
    other.output_shardings,
    other(r),
]
""",
    "deletion and donation": _BEFORE
    + """
y, z = x + 1, x + 2
y.delete()
f = lib.jit(lambda a: a * 2, donate_argnums=0)
d = f(z)
out = [y.is_deleted(), z.is_deleted(), d, x.is_deleted()]
""",
}

# Programs that raise an error of JAX's kind; the text says what to find in it.
ERRORS = {
    "put: no division": ("put(np.ones(7), 'x')", "divi"),
    "put: too few dimensions": ("put(1.0, 'x')", "dimensions"),
    "put: no mesh": ("lib.device_put(np.ones(8), P('x'))", "set_mesh"),
    "other devices": ("x + lib.device_put(1.0, lib.devices()[3])", "incompatible devices"),
    "other devices in jit": (
        "lib.jit(lambda a, b: a + b)(r, lib.device_put(np.ones(8), lib.devices()[3]))",
        "incompatible devices",
    ),
    "dlpack": ("x.__dlpack__()", "8 devices"),
    "dlpack device": ("x.__dlpack_device__()", "8 devices"),
    "deleted": ("y = x + 1\ny.delete()\ny + 1", "deleted"),
    "callback: shape": (
        "lib.make_array_from_callback((8,), r.sharding, lambda i: np.arange(3.0))",
        "(3,)",
    ),
    "callback: no sharding": ("lib.make_array_from_callback((8,), 'a', lambda i: i)", "sharding"),
    "callback: dtype": (
        "lib.make_array_from_callback((8,), r.sharding, lambda i: xnp.ones(2), dtype='int32')",
        "int32",
    ),
    "parts: too few": (
        "lib.make_array_from_single_device_arrays((8,), r.sharding, [r.addressable_data(0)] * 3)",
        "8",
    ),
    "parts: of NumPy": (
        "lib.make_array_from_single_device_arrays((8,), r.sharding, [np.ones(2)] * 8)",
        "ndarray",
    ),
    "parts: an array": ("lib.make_array_from_single_device_arrays((8,), r.sharding, r)", "list"),
    "parts: no division": (
        "lib.make_array_from_single_device_arrays((9,), r.sharding,"
        " [s.data for s in r.addressable_shards])",
        "divi",
    ),
    "process data: shape": (
        "lib.make_array_from_process_local_data(r.sharding, np.arange(8.0), (16,))",
        "(16,)",
    ),
    "in: mismatch": (
        "lib.jit(lambda a: a, in_shardings=NamedSharding(m, P('x')))(put(np.ones(8), 'y'))",
        "in_shardings",
    ),
    "in: another device": (
        "lib.jit(lambda a: a, in_shardings=NamedSharding(m, P('x')))"
        "(lib.device_put(np.ones(8), lib.devices()[3]))",
        "in_shardings",
    ),
    "in: no division": (
        "lib.jit(lambda a: a, in_shardings=NamedSharding(m, P('x')))(np.ones(7))",
        "divi",
    ),
    "in: prefix": (
        "lib.jit(lambda a, b: a, in_shardings=(NamedSharding(m, P('x')),))(np.ones(8), 1)",
        "in_shardings",
    ),
    "in: keywords": (
        "lib.jit(lambda a: a, in_shardings=NamedSharding(m, P('x')))(a=np.ones(8))",
        "keyword",
    ),
    "in: open": (
        "lib.jit(lambda a: a, in_shardings=NamedSharding(m, P(P.UNCONSTRAINED)))(np.ones(8))",
        "UNCONSTRAINED",
    ),
    "out: open": (
        "lib.jit(lambda a: a, out_shardings=NamedSharding(m, P(P.UNCONSTRAINED)))(np.ones(8))",
        "UNCONSTRAINED",
    ),
    "in: two meshes": (
        "lib.jit(lambda a, b: a + b, in_shardings=(NamedSharding(m, P('x')),"
        " NamedSharding(lib.make_mesh((2,), ('z',)), P('z'))))(np.ones(8), np.ones(8))",
        "",
    ),
    "out: no division": (
        "lib.jit(lambda a: a, out_shardings=NamedSharding(m, P('x')))(np.ones(7))",
        "divi",
    ),
    "out: another device": (
        "lib.jit(lambda a: a, out_shardings=NamedSharding(m, P('x')))"
        "(lib.device_put(np.ones(8), lib.devices()[3]))",
        "incompatible devices",
    ),
    "constraint: too few dimensions": (
        "lib.jit(lambda a: lax.with_sharding_constraint(a, NamedSharding(m, P('x', 'y'))))(1.0)",
        "dimensions",
    ),
    "compiled: mismatch": (
        "lib.jit(lambda a: a).lower(r).compile()(put(np.ones(8, 'f'), 'y'))",
        "sharding",
    ),
}
# JAX raises another kind of error, which does not name the cause.
SPEC_WITHOUT_MESH = {
    "out": "lib.jit(lambda a: a, out_shardings=P('x'))(np.ones(8))",
    "in": "lib.jit(lambda a: a, in_shardings=P('x'))(np.ones(8))",
    "constraint": "lib.jit(lambda a: lax.with_sharding_constraint(a, P('y')))(np.ones(8))",
}


COMPARISON = Comparison({**VALUES, **{k: _BEFORE + program for k, (program, _) in ERRORS.items()}})


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.filterwarnings("ignore:.*with mesh:DeprecationWarning")
def test_as_jax(name: str) -> None:
    COMPARISON.check_equal(name)


@pytest.mark.parametrize("name", ERRORS)
def test_errors_as_jax(name: str) -> None:
    COMPARISON.check_error(name, ERRORS[name][1])


@pytest.mark.parametrize("name", SPEC_WITHOUT_MESH)
def test_a_spec_needs_a_mesh(name: str) -> None:
    what, (error, message) = outcome("gnomon", _BEFORE + SPEC_WITHOUT_MESH[name])
    assert (what, error) == ("error", "RuntimeError")
    assert "set_mesh" in message


@pytest.fixture
def mesh() -> Any:
    return gn.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)


def test_pickles(mesh: Any) -> None:
    x = gn.device_put(np.arange(8), NamedSharding(mesh, P("x")))
    back = pickle.loads(pickle.dumps(x))
    assert back.devices() == {gn.devices()[0]}
    np.testing.assert_array_equal(back, np.arange(8))
    f = pickle.loads(pickle.dumps(gn.jit(np.sin, out_shardings=NamedSharding(mesh, P("x")))))
    assert repr(f) == "<jit of sin>"


def test_a_shard_outlives_its_array(mesh: Any) -> None:
    x = gn.jit(lambda a: a * 2)(gn.device_put(np.arange(8.0), NamedSharding(mesh, P("x"))))
    part = x.addressable_data(2)
    moved = gn.device_put(x, gn.devices()[1])
    resharded = gn.device_put(x, NamedSharding(mesh, P("y")))
    x.delete()
    assert part.tolist() == [4, 6]  # of the third device: the second row of the mesh
    assert moved.tolist() == resharded.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def test_one_program_for_all_shardings(mesh: Any) -> None:
    traced = []

    @gn.jit
    def f(x: Any) -> Any:
        traced.append(x)
        return x + 1

    for spec in (P("x"), P("y"), P()):
        for _ in range(2):
            f(gn.device_put(np.arange(8.0), NamedSharding(mesh, spec)))
    assert len(traced) == 1


def test_transformations_of_sharded_arrays(mesh: Any) -> None:
    x = gn.device_put(np.arange(32.0).reshape(8, 4), NamedSharding(mesh, P("x", "y")))
    for transformed in (
        lambda a: gn.grad(lambda v: (v * v).sum())(a),
        lambda a: gn.vmap(lambda v: v * v.sum())(a),
        lambda a: gn.jvp(gnp.sin, (a,), (a,))[1],
        lambda a: gn.vjp(gnp.sin, a)[1](a)[0],
    ):
        result = transformed(x)
        assert result.sharding.spec == P("x", "y")
        np.testing.assert_allclose(result, transformed(np.asarray(x)), rtol=1e-6)


def test_random_numbers_do_not_depend_on_the_sharding(mesh: Any) -> None:
    expected = gn.jit(lambda k: gn.random.normal(k, (8, 4)))(gn.random.key(0))
    for spec in (P("x"), P(None, "y"), P(("y", "x"))):
        sharding = NamedSharding(mesh, spec)
        drawn = gn.jit(lambda k: gn.random.normal(k, (8, 4)), out_shardings=sharding)
        np.testing.assert_array_equal(drawn(gn.random.key(0)), expected)
    key = gn.device_put(gn.random.key(0), NamedSharding(mesh, P()))
    bits = gn.random.bits(key, (8, 4))
    np.testing.assert_array_equal(bits, gn.random.bits(gn.random.key(0), (8, 4)))


def test_arrays_on_a_later_device(devices: list[Any]) -> None:
    x = gn.device_put(np.arange(3.0), devices[3])
    assert (x.devices(), (x + 1).devices()) == ({devices[3]}, {devices[3]})
    assert gn.jit(lambda a: a * 2)(x).devices() == {devices[3]}
    assert gn.grad(lambda a: (a**2).sum())(x).devices() == {devices[3]}
    with pytest.raises(ValueError, match="incompatible devices"):
        x + gn.device_put(1.0, devices[2])
    with gn.default_device(devices[5]):
        assert (gnp.zeros(3) + 1).devices() == {devices[5]}
        assert gn.jit(lambda a: a * 2)(np.ones(3)).devices() == {devices[5]}
    np.testing.assert_array_equal(np.from_dlpack(x), x)
    assert any(y is x for y in gn.live_arrays())
