"""shard_map and its collectives, compared with JAX on eight devices; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import P, lax
from gnomon.sharding import AxisType
from tests.frontend.many_devices import Comparison
from tests.tolerance import assert_near
from tests.tools.pages import run

pytestmark = pytest.mark.usefixtures("devices")

_BEFORE = """
m = lib.make_mesh((4, 2), ('x', 'y'), axis_types=(AxisType.Auto,) * 2)
def sm(f, i, o, **k):
    return lib.shard_map(f, mesh=m, in_specs=i, out_specs=o, **k)
def vary(v, names):
    return lax.pcast(v, names, to='varying')
rng = np.random.default_rng(0)
V = xnp.asarray(rng.normal(size=8).astype(np.float32))
A = xnp.asarray(rng.normal(size=(8, 6)).astype(np.float32))
B = xnp.asarray(rng.normal(size=(8, 8)).astype(np.float32))
W = xnp.asarray(rng.normal(size=2).astype(np.float32))
X, XY = P('x'), P(('x', 'y'))
G = [[0, 3], [1, 2]]
BOTH, H, HH = ('x', 'y'), [[0, 7, 3], [1, 2], [4, 5, 6]], [[0, 7, 3, 5], [1, 2, 4, 6]]
U = {'check_vma': False}
"""

# Expressions in these variables; each is evaluated with both libraries.
VALUES = {
    # Splitting and joining.
    "identity": "sm(lambda v: v, X, X)(V)",
    "two axes of one dimension": "sm(lambda v: v * 2, P(('y', 'x')), P(('x', 'y')))(V)",
    "two dimensions": "sm(lambda a: a.T, P('x', 'y'), P('y', 'x'))(A)",
    "concatenates what is the same": "sm(lambda w: w, P(), XY)(W)",
    "shapes inside": "sm(lambda a: a[:, 0] * a.shape[0] + a.shape[1], P('x', 'y'), XY)(A)",
    "pytrees": "sm(lambda t, w: {'s': t['a'] * w, 'n': [w]}, ({'a': X}, P()), "
    "{'s': X, 'n': P()})({'a': V}, W)['s']",
    "prefixes": "sm(lambda t: t[0] - t[1], P('x'), P('x'))((V, V * 3))",
    "closure": "sm(lambda v: v * W.sum() + xnp.arange(2.0), X, X)(V)",
    "of older programs": "__import__(lib.__name__ + '.experimental.shard_map', fromlist=['_'])"
    ".shard_map(lambda v: lax.axis_index('x') + v, m, X, X, check_rep=False)(V)",
    "decorator": "lib.shard_map(mesh=m, in_specs=X, out_specs=X)(lambda v: v + 1)(V)",
    "static argument": "sm(lambda v, n: v * n, (X, None), X)(V, 3)",
    "partly manual": "sm(lambda a: lax.psum(a, 'x'), P('x'), P(), axis_names={'x'})(A)",
    "replicated without a check": "sm(lambda v: v, X, P(), **U)(V)",
    # Reductions.
    "psum": "sm(lambda v: lax.psum(v, 'x'), X, P())(V)",
    "psum of one of two": "sm(lambda v: lax.psum(v, 'y'), XY, X)(V)",
    "psum of both": "sm(lambda v: lax.psum(v, ('x', 'y')), XY, P())(V)",
    "psum of what is the same": "sm(lambda w: lax.psum(w, 'x'), P(), P())(W)",
    "psum of a number": "sm(lambda v: v * lax.psum(1, ('x', 'y')), X, X)(V)",
    "psum of booleans": "sm(lambda v: lax.psum(v > 0, 'x'), X, P())(V)",
    "psum without a check": "sm(lambda v: lax.psum(v, 'x'), X, P(), **U)(V)",
    "psum of groups": "sm(lambda v: lax.psum(v, 'x', axis_index_groups=G), X, X, **U)(V)",
    "pmax of groups": "sm(lambda v: lax.pmax(v, 'x', axis_index_groups=G), X, X, **U)(V)",
    "pmean": "sm(lambda v: v - lax.pmean(v, 'x'), X, X)(V)",
    "pmean of groups": "sm(lambda v: lax.pmean(v, 'x', axis_index_groups=G), X, X, **U)(V)",
    "pmax": "sm(lambda v: lax.pmax(v, 'x'), X, P())(V)",
    "pmin": "sm(lambda v: lax.pmin(v, ('x', 'y')), XY, P())(V)",
    # Positions.
    "axis_index": "sm(lambda v: v + lax.axis_index('x'), X, X)(V)",
    "axis_index of both": "sm(lambda v: v + lax.axis_index(('x', 'y')), XY, XY)(V)",
    "axis_size": "sm(lambda v: v * lax.axis_size('x') + lax.axis_size(('x', 'y')), X, X)(V)",
    # Movements.
    "ppermute": "sm(lambda v: lax.ppermute(v, 'x', [(0, 1), (1, 2), (3, 0)]), X, X)(V)",
    "ppermute of both": "sm(lambda v: lax.ppermute(v, ('x', 'y'), [(i, (i + 3) % 8) for i in "
    "range(8)]), XY, XY)(V)",
    "pshuffle": "sm(lambda v: lax.pshuffle(v, 'x', [2, 0, 3, 1]), X, X)(V)",
    "all_gather": "sm(lambda v: lax.all_gather(v, 'x')[::-1], X, P('x'))(V)",
    "all_gather tiled": "sm(lambda v: lax.all_gather(v, 'x', tiled=True)[None], X, P('x'))(V)",
    "all_gather of both": "sm(lambda a: lax.all_gather(a, ('x', 'y'), axis=1), XY, XY)(A)",
    "all_gather of groups": "sm(lambda v: lax.all_gather(v, 'x', axis_index_groups=G), X, X, "
    "**U)(V)",
    "psum_scatter": "sm(lambda b: lax.psum_scatter(b, 'x', tiled=True), P(None, 'x'), X)(B)",
    "psum_scatter untiled": "sm(lambda b: lax.psum_scatter(b[:4], 'x'), P(None, 'x'), X)(B)",
    "psum_scatter of groups": "sm(lambda b: lax.psum_scatter(b[:2], 'x', axis_index_groups=G), "
    "P(None, 'x'), X, **U)(B)",
    "all_to_all": "sm(lambda b: lax.all_to_all(b, 'x', 1, 0, tiled=True), X, P(None, 'x'))(B)",
    "all_to_all untiled": "sm(lambda b: lax.all_to_all(b[:, :4], 'x', 1, 1), X, X)(B)",
    "all_to_all of groups": "sm(lambda b: lax.all_to_all(b, 'x', 1, 0, axis_index_groups=G, "
    "tiled=True), X, X, **U)(B)",
    "reductions of groups over both axes": "sm(lambda v: xnp.stack([f(v, BOTH, axis_index_groups="
    "H) for f in (lax.psum, lax.pmax, lax.pmin)], 1), XY, XY, **U)(V)",
    "movements of groups over both axes": "sm(lambda b: xnp.concatenate(["
    "lax.all_gather(b, BOTH, axis_index_groups=HH, tiled=True), "
    "lax.psum_scatter(b.reshape(4, 2), BOTH, axis_index_groups=HH).reshape(1, 2).repeat(4, 1), "
    "lax.all_to_all(b, BOTH, 1, 0, axis_index_groups=HH, tiled=True).reshape(1, 8)]), XY, XY, "
    "**U)(B)",
    # Derivatives inside, where types say which values are invariant.
    "grad by what is shared": "sm(lambda w, v: lib.grad(lambda w: (w * v).sum())(w), (P(), X), "
    "P())(W, V)",
    "grad by a shard": "sm(lambda w, v: lib.grad(lambda v: (w * v**2).sum())(v), (P(), X), "
    "X)(W, V)",
    "grad of a psum": "sm(lambda v: lib.grad(lambda v: lax.psum((v**2).sum(), 'x'))(v), X, X)(V)",
    "grad of a psum, unchecked": "sm(lambda v: lib.grad(lambda v: lax.psum((v**2).sum(), "
    "'x'))(v), X, X, **U)(V)",
    "grad through a gather": "sm(lambda v: lib.grad(lambda v: (lax.all_gather(v, 'x') * "
    "lax.axis_index('x')).sum())(v), X, X)(V)",
    "grad through a permutation": "sm(lambda v: lib.grad(lambda v: (v * lax.ppermute(v, 'x', "
    "[(i, (i + 1) % 4) for i in range(4)])).sum())(v), X, X)(V)",
    "vjp": "sm(lambda w, v: lib.vjp(lambda w: w * v, w)[1](v)[0], (P(), X), P())(W, V)",
    "jvp": "sm(lambda w, v: lib.jvp(lambda w: lax.psum(w * v, 'x'), (w,), (w,))[1], (P(), X), "
    "P())(W, V)",
    "linearize": "sm(lambda w, v: lib.linearize(lambda w: w * v, w)[1](w), (P(), X), X)(W, V)",
    "hessian": "sm(lambda w, v: lib.hessian(lambda w: lax.psum(((w * v) ** 3).sum(), 'x'))(w), "
    "(P(), X), P())(W, V)",
    "cast": "sm(lambda w, v: lib.grad(lambda w: (vary(w, 'x') * v).sum())(w), (P(), X), P())(W, V)",
    "no cast without a check": "sm(lambda w, v: vary(w, 'x') * v, (P(), X), X, **U)(W, V)",
    # Derivatives of mapped functions.
    "grad of it": "lib.grad(lambda v: sm(lambda v: lax.psum(xnp.sin(v).sum(), 'x'), X, P())(v))(V)",
    "grad of it, unchecked": "lib.grad(lambda v: sm(lambda v: lax.psum(xnp.sin(v).sum(), 'x'), X, "
    "P(), **U)(v))(V)",
    "grad by what it shares": "lib.grad(lambda w: sm(lambda w, v: xnp.sin(w * v), (P(), X), X, "
    "**U)(w, V).sum())(W)",
    "grad by a closure": "lib.grad(lambda w: sm(lambda v: xnp.sin(w * v), X, X)(V).sum())(W)",
    # Loops.
    "scan": "sm(lambda v: lax.scan(lambda c, _: (c + lax.pmean(v, 'x'), c), xnp.zeros(2), None, "
    "length=3)[0], X, P())(V)",
    "scan with a cast": "sm(lambda v: lax.scan(lambda c, _: (c + v, None), vary(xnp.zeros(2), "
    "'x'), None, length=3)[0], X, X)(V)",
    "while": "sm(lambda v: lax.while_loop(lambda c: (c < 9).all(), lambda c: c * 2 + 1, "
    "abs(v)), X, X)(V)",
    "cond": "sm(lambda v: lax.cond(v[0] > 0, lambda: v, lambda: -v), X, X)(V)",
    # Meshes of the context, and mapped functions in mapped functions.
    "nested": "sm(lambda a: lib.shard_map(lambda b: lax.psum(b, 'y') + lax.axis_index('x'), "
    "in_specs=P(None, 'y'), out_specs=P(), axis_names={'y'})(a), P('x'), P('x'), "
    "axis_names={'x'})(A)",
    "vmap of it": "lib.vmap(sm(lambda v: v - lax.pmean(v, 'x'), X, X), 1, 1)(A)",
    "vmap in it": "sm(lambda a: lib.vmap(lambda r: r * lax.psum(r, 'x'))(a), X, X)(A)",
    "jit in it": "sm(lambda a: lib.jit(lambda r: r * lax.psum(r, 'x'))(a), X, X)(A)",
    "random numbers": "sm(lambda v: v + lib.random.uniform(lib.random.key(0), (2,)), X, X)(V)",
}


_TYPES = """
types = []
sm(lambda v: (types.append(str(lib.typeof(v))), v)[1], X, X)(V)
out = sorted(set(types))
"""
_PRINTED = """
W3 = xnp.arange(3.0)
out = []
def f(v, w):
    total = lax.psum(v * w.sum(), 'x')
    out.extend([str(v), f'{w}', str(total)])
    if lax.psum(w.sum(), ('x', 'y')) > 0:
        return total
    return v
sm(f, (P('x', 'y'), P()), P(None, 'y'))(xnp.arange(16.0).reshape(8, 2), W3)
"""
COMPARISON = Comparison(
    {name: f"{_BEFORE}out = np.asarray({text})" for name, text in VALUES.items()}
    | {"the type of a shard": _BEFORE + _TYPES, "what is printed": _BEFORE + _PRINTED}
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", VALUES)
def test_equals_jax(name: str) -> None:
    assert COMPARISON.check_near(name, 16) == "value"


def test_the_type_of_a_shard_is_that_of_jax() -> None:
    COMPARISON.check_equal("the type of a shard")


def test_values_outside_of_jit_are_printed_as_by_jax() -> None:
    COMPARISON.check_equal("what is printed")


# ------------------------------------------------------------------------------------- gnomon's own


def _mesh() -> Any:
    return gn.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def test_values_that_cannot_be_printed() -> None:
    shown = []

    def effects(v: Any) -> Any:
        gn.debug.callback(lambda x: None, v)
        return (shown.append(str(v)), v)[1]

    def varies(v: Any) -> Any:
        return v if v.sum() > 0 else -v

    _mapped(effects, P("x"), P("x"))(V)
    gn.jit(_mapped(lambda v: (shown.append(str(v)), v)[1], P("x"), P("x")))(V)
    assert [text.partition(" in ")[0] for text in shown] == ["Traced<float32[2]{V:x}>"] * 2
    with pytest.raises(gn.errors.TracerBoolConversionError):
        _mapped(varies, P("x"), P("x"))(V)
    with pytest.raises(gn.errors.TracerBoolConversionError):
        _mapped(varies, P("x"), P("x"), check_vma=False)(V)


def _mapped(f: Any, in_specs: Any, out_specs: Any, **kwargs: Any) -> Any:
    return gn.shard_map(f, mesh=_mesh(), in_specs=in_specs, out_specs=out_specs, **kwargs)


V = np.linspace(-1.0, 2.0, 8, dtype=np.float32)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", [None, "sequential", "expand_dims", "broadcast_all"])
def test_each_device_calls_python_with_its_shard(method: Any) -> None:
    shapes = []

    def host(x: Any, y: Any) -> Any:
        shapes.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    def call(x: Any, y: Any) -> Any:
        out = gn.ShapeDtypeStruct(x.shape, x.dtype)
        return gn.pure_callback(host, out, x, y, vmap_method=method)

    mapped = _mapped(call, (P(("x", "y")), P()), P(("x", "y")))
    for call_all in mapped, gn.jit(mapped):
        assert np.array_equal(call_all(V, np.float32(1)), V + 1)
    assert shapes == [((1,), ())] * 16
    within = _mapped(lambda v: gn.vmap(call)(v, v), P("x"), P("x"))
    if method is None:
        with pytest.raises(NotImplementedError, match="Got vmap_method=None"):
            within(V)
        with pytest.raises(NotImplementedError, match="Got vmap_method=None"):
            gn.vmap(mapped, in_axes=(0, None))(np.stack([V, V]), np.float32(1))
    else:
        assert np.array_equal(within(V), 2 * V)


def test_the_mesh_of_the_context() -> None:
    f = gn.shard_map(lambda v: lax.psum(v, "x"), in_specs=P("x"), out_specs=P())
    with pytest.raises(ValueError, match="there is none in the context"):
        f(V)
    with gn.set_mesh(_mesh()):
        assert_near(f(V), V.reshape(4, 2).sum(0), 4)
        assert_near(gn.jit(f)(V), V.reshape(4, 2).sum(0), 4)
        total = gn.smap(lambda v: lax.psum(v, "x"), in_axes=0, out_axes=None, axis_name="x")
        assert_near(total(V), V.reshape(4, 2).sum(0), 4)
        other = gn.make_mesh((2,), ("z",))
        with pytest.raises(ValueError, match="not the mesh of the context"):
            gn.shard_map(lambda v: v, mesh=other, in_specs=P("z"), out_specs=P("z"))(V)


def test_the_mesh_inside_is_manual() -> None:
    seen = []

    def f(v: Any) -> Any:
        mesh = gn.sharding.get_abstract_mesh()
        seen.append((mesh.manual_axes, mesh.auto_axes))
        return v

    _mapped(f, P("x"), P("x"), axis_names={"x"})(V)
    assert seen == [(("x",), ("y",))]
    assert gn.sharding.get_abstract_mesh().empty


def test_types_name_the_varying_axes() -> None:
    found: dict[str, Any] = {}

    def f(v: Any, w: Any) -> Any:
        found["shard"], found["shared"] = gn.typeof(v), gn.typeof(w)
        found["product"] = gn.typeof(v * w)
        found["sum"] = gn.typeof(lax.psum(v, "x"))
        found["cast"] = gn.typeof(lax.pvary(w, ("x", "y")))
        found["jit"] = gn.typeof(gn.jit(lambda a, b: a + b)(v, w))
        found["vmap"] = gn.typeof(gn.vmap(lambda a: a + w[0])(v))
        found["gradient"] = gn.typeof(gn.grad(lambda b: (v * b).sum())(w))
        found["gathered"] = gn.typeof(lax.all_gather(v, "x", to="invarying"))
        return v

    _mapped(f, (P("x"), P()), P("x"))(V, V[:2])
    assert {name: sorted(aval.vma) for name, aval in found.items()} == {
        "shard": ["x"],
        "shared": [],
        "product": ["x"],
        "sum": [],
        "cast": ["x", "y"],
        "jit": ["x"],
        "vmap": ["x"],
        "gradient": [],
        "gathered": [],
    }
    assert str(found["cast"]) == "float32[2]{V:(x,y)}"


ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "replication": (
        lambda: _mapped(lambda v: v, P("x"), P())(V),
        ValueError,
        r"may vary over \['x'\]",
    ),
    "replication of one of two": (
        lambda: _mapped(lambda v: v, P(("x", "y")), P("x"))(V),
        ValueError,
        r"may vary over \['y'\]",
    ),
    "what members choose": (
        lambda: _mapped(lambda v: lax.cond(v[0] > 0, lambda: 1.0, lambda: 2.0), P("x"), P())(V),
        ValueError,
        r"may vary over \['x'\]",
    ),
    "how long members go on": (
        lambda: _mapped(
            lambda v: lax.while_loop(lambda c: c < v[0], lambda c: c + 1, 0.0), P("x"), P()
        )(V),
        ValueError,
        r"may vary over \['x'\]",
    ),
    "scan": (
        lambda: _mapped(
            lambda v: lax.scan(lambda c, _: (c + v, None), gnp.zeros(2), None, 2)[0], P("x"), P("x")
        )(V),
        TypeError,
        r"start with gnomon.lax.pcast\(..., \('x',\), to='varying'\)",
    ),
    "cond": (
        lambda: _mapped(lambda v: lax.cond(True, lambda: v, lambda: gnp.zeros(2)), P("x"), P("x"))(
            V
        ),
        TypeError,
        r"float32\[2\] and float32\[2\]{V:x}",
    ),
    "twice varying": (
        lambda: _mapped(lambda v: lax.pcast(v, "x", to="varying"), P("x"), P("x"))(V),
        ValueError,
        "from=varying, to='varying'",
    ),
    "a rule of custom_vjp": (
        lambda: _mapped(_with_rule, (P(), P("x")), P())(V[:2], V),
        ValueError,
        "sum it over them with gnomon.lax.psum",
    ),
    "rank of an argument": (
        lambda: _mapped(lambda v: v, P(None, "x"), P("x"))(V),
        ValueError,
        r"args\[0\], the argument 'v' of <lambda>, is float32\[8\], of rank 1, and its spec",
    ),
    "rank of a result": (
        lambda: _mapped(lambda v: v.sum(), P("x"), P("x"))(V),
        ValueError,
        "a scalar that differs between devices needs a dimension",
    ),
    "size": (
        lambda: _mapped(lambda v: v, P("x"), P("x"))(V[:6]),
        ValueError,
        "into 4 parts, which does not evenly divide it",
    ),
    "unknown axis": (
        lambda: _mapped(lambda v: v, P("z"), P())(V),
        ValueError,
        "in_specs names 'z'",
    ),
    "no spec": (
        lambda: _mapped(lambda v: v, P("x"), 0)(V),
        TypeError,
        "out_specs is 0 of type int",
    ),
    "prefix": (
        lambda: _mapped(lambda v: v, (P("x"), P("x")), P("x"))(V),
        ValueError,
        "in_specs must be a tree prefix",
    ),
    "axis names": (
        lambda: _mapped(lambda v: v, P("x"), P("x"), axis_names={"z"})(V),
        ValueError,
        "must be axes of the mesh",
    ),
    "specs to be inferred": (
        lambda: gn.shard_map(lambda v: v, mesh=_mesh(), out_specs=P())(V),
        TypeError,
        "of type Explicit",
    ),
    "unbound": (
        lambda: _mapped(lambda v: lax.psum(v, "z"), P("x"), P("x"))(V),
        NameError,
        "unbound axis name: 'z'",
    ),
    "keywords": (
        lambda: _mapped(lambda v: v, P("x"), P("x"))(v=V),
        TypeError,
        "unexpected keyword argument",
    ),
    "groups": (
        lambda: _mapped(lambda v: lax.psum(v, "x", axis_index_groups=[[0, 1]]), P("x"), P("x"))(V),
        ValueError,
        "cover all indices exactly once",
    ),
}


@gn.custom_vjp
def _scaled(w: Any, v: Any) -> Any:
    return (w * v).sum()


_scaled.defvjp(lambda w, v: (_scaled(w, v), (w, v)), lambda r, g: (g * r[1], g * r[0]))


def _with_rule(w: Any, v: Any) -> Any:
    return gn.grad(_scaled)(w, v)


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, match = ERRORS[name]
    with pytest.raises(error, match=match):
        call()


def test_branches_that_members_choose_sum_no_cotangents_inside() -> None:
    """The gradient by a shared value is the sum over the members that took the branch."""
    w = np.array([2.0, -1.0], np.float32)

    def inside(w: Any, v: Any) -> Any:
        def loss(w: Any) -> Any:
            product = gn.jit(lambda w: (w * v).sum())
            return lax.cond(v[0] > 0, lambda: product(w), lambda: (w * w * v).sum())

        return gn.grad(loss)(w)

    def whole(w: Any) -> Any:
        rows = V.reshape(4, 2)
        return sum((w * r if r[0] > 0 else w * w * r).sum() for r in rows)

    found = _mapped(inside, (P(), P("x")), P())(w, V)
    assert_near(found, gn.grad(whole)(w), 8, scale=1.0)


def test_groups_with_types_vary() -> None:
    """Members of different groups get different sums, so that the sums vary."""
    groups = [[0, 3], [1, 2]]
    rows = V.reshape(4, 2)
    found = _mapped(lambda v: lax.psum(v, "x", axis_index_groups=groups), P("x"), P("x"))(V)
    outer, inner = rows[0] + rows[3], rows[1] + rows[2]
    assert_near(found, np.concatenate([outer, inner, inner, outer]), 4, scale=1.0)
    uneven = [[0, 1, 3], [2]]
    found = _mapped(lambda v: lax.psum(v, "x", axis_index_groups=uneven), P("x"), P("x"))(V)
    three = rows[0] + rows[1] + rows[3]
    assert_near(found, np.concatenate([three, three, rows[2], three]), 4, scale=1.0)


def test_pbroadcast() -> None:
    found = _mapped(lambda v: lax.pbroadcast(v, "x", 2), P("x"), P("x"))(V)
    np.testing.assert_array_equal(found, np.tile(V[4:6], 4))

    def loss(v: Any) -> Any:
        return (_mapped(lambda v: lax.pbroadcast(v, "x", 2), P("x"), P("x"))(v) * V).sum()

    expected = np.zeros(8, np.float32)
    expected[4:6] = V.reshape(4, 2).sum(0)
    assert_near(gn.grad(loss)(V), expected, 8, scale=1.0)


def test_ragged_all_to_all_and_its_derivatives() -> None:
    mesh = gn.make_mesh((2,), ("i",))
    starts = np.array([[0, 2], [1, 3]], np.int32)
    lengths = np.array([[2, 1], [1, 3]], np.int32)
    places = np.array([[0, 1], [3, 2]], np.int32)
    rows = np.arange(12.0, dtype=np.float32)
    filled = -np.ones(12, np.float32)

    def exchange(o: Any, f: Any, s: Any, n: Any, p: Any, r: Any) -> Any:
        return lax.ragged_all_to_all(o, f, s[0], n[0], p[0], r[0], axis_name="i")

    mapped = gn.shard_map(exchange, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    sent = lengths.T.copy()
    expected = filled.copy()
    origin = np.full(12, -1)
    for source in range(2):
        for target in range(2):
            for k in range(lengths[source, target]):
                place = 6 * target + places[source, target] + k
                origin[place] = 6 * source + starts[source, target] + k
                expected[place] = rows[origin[place]]
    found = mapped(rows, filled, starts, lengths, places, sent)
    np.testing.assert_array_equal(found, expected)
    weights = np.arange(1.0, 13.0, dtype=np.float32)

    def loss(rows: Any, filled: Any) -> Any:
        return (mapped(rows, filled, starts, lengths, places, sent) * weights).sum()

    by_rows, by_filled = gn.jit(gn.grad(loss, (0, 1)))(rows, filled)
    expected_rows = np.zeros(12, np.float32)
    np.add.at(expected_rows, origin[origin >= 0], weights[origin >= 0])
    np.testing.assert_array_equal(by_rows, expected_rows)
    np.testing.assert_array_equal(by_filled, np.where(origin < 0, weights, 0))


def test_programs_show_it() -> None:
    f = _mapped(lambda v: lax.psum(v, "x"), P("x"), P())
    text = str(gn.make_jaxpr(f)(V))
    assert '"gnomon.shard_map"' in text and '"gnomon.psum_invariant"' in text
    assert 'in_specs = [[["x"]]]' in text and "mesh_sizes = array<i64: 4, 2>" in text
    lowered = gn.jit(f).lower(V)
    assert "shard_map" in lowered.as_text("traced")
    assert "shard_map" not in lowered.as_text("gnomon")
    assert "stablehlo.reduce" in lowered.as_text("stablehlo")


def test_the_page_is_true() -> None:
    text, given = run("shard_map.md")
    assert text == given
