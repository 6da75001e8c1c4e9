"""The shardings of results of shard_map and pmap, compared with JAX on eight devices."""

from __future__ import annotations

from typing import Any

import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import P
from gnomon.sharding import AxisType, NamedSharding
from tests.frontend.many_devices import Comparison
from tests.sample import sample

pytestmark = pytest.mark.usefixtures("devices")

_SPECS = ("P()", "P('x')", "P('x', 'y')", "P(('x', 'y'))", "P(None, 'y')", "P('x', None)")
_SPECS += ("P(None, ('y', 'x'))",)
_BEFORE = f"""
m = lib.make_mesh((4, 2), ('x', 'y'), axis_types=(AxisType.Auto,) * 2)
e = lib.make_mesh((4, 2), ('x', 'y'))
a = xnp.arange(32.0).reshape(8, 4)
put = lambda value, *spec, mesh=m: lib.device_put(value, NamedSharding(mesh, P(*spec)))
SPECS = ({", ".join(sample(_SPECS, 2, __name__))})
PLAIN = ({", ".join(sample(_SPECS[:5], 2, "plain"))})

def mapped(in_spec, out_spec, f=lambda v: 2 * v, mesh=m, **options):
    return shard_map(f, mesh=mesh, in_specs=in_spec, out_specs=out_spec, **options)
"""
_WIDE = "a = xnp.arange(64.0).reshape(8, 8)\n"

PROGRAMS = {
    "at once": _WIDE + "out = [mapped(spec, spec)(a) for spec in SPECS]",
    "in jit": _WIDE + "out = [lib.jit(mapped(spec, spec))(a) for spec in SPECS]",
    "in the middle of jit": _WIDE
    + "out = [lib.jit(lambda v: mapped(spec, spec)(v).T + 1)(a) for spec in SPECS]",
    "arguments with shardings": _WIDE
    + """
out = [f(mapped(P('x'), P('x')))(put(a, *spec)) for spec in PLAIN
       for f in (lambda g: g, lib.jit)]
""",
    "explicit axes": _WIDE
    + """
out = [f(mapped(spec, spec, mesh=e))(put(a, *spec, mesh=e)) for spec in SPECS
       for f in (lambda g: g, lib.jit)]
""",
    "sums": """
total = lambda v: (lax.psum(v.sum(), 'x'), lax.psum(v, ('x', 'y')), v.max(1))
f = mapped(P('x', 'y'), (P('y'), P(), P(('x', 'y'))), lambda v: (
    lax.psum(v.sum(keepdims=True)[0], 'x'), lax.psum(v, ('x', 'y')), v.max(1)))
out = [*f(a), *lib.jit(f)(a)]
""",
    "some axes": """
f = mapped(P('x'), P('x'), axis_names={'x'})
out = [lib.jit(f)(put(a, 'x', 'y')), f(put(a, 'x', 'y')), f(a)]
""",
    "transformations": """
f = mapped(P('x'), P('x'), lambda v: v ** 2)
total = lambda v: f(v).sum()
b = xnp.ones((3, 8, 4))
tangent = lambda v: lib.jvp(f, (v,), (v,))[1]
out = [g(h)(v) for g in (lambda g: g, lib.jit)
       for h, v in ((lib.grad(total), a), (lib.vmap(f), b), (tangent, a))]
""",
    "an abstract mesh": """
f = mapped(P('x'), P('x'), mesh=m.abstract_mesh)
out = [f(put(a, 'x')), lib.jit(f)(put(a, 'x'))]
""",
    "the context's mesh": """
with lib.set_mesh(m):
    f = shard_map(lambda v: v + 1, in_specs=P('y'), out_specs=P('y'))
    out = [f(a), lib.jit(f)(a)]
""",
    "what is computed with results": """
y = mapped(P('x'), P('x'))(a)
out = [y + 1, y.T, y.sum(0), lib.jit(lambda v: v.T @ v)(y), lib.device_put(y, m.devices[0, 1]),
       y.addressable_shards[2].data]
""",
    "on another device": "mapped(P('x'), P('x'))(lib.device_put(a, lib.devices()[3]))",
    "on another mesh": """
z = lib.make_mesh((4,), ('z',), axis_types=(AxisType.Auto,))
mapped(P('x'), P('x'))(put(a, 'z', mesh=z))
""",
    "on another device, in jit": """
lib.jit(mapped(P('x'), P('x')))(lib.device_put(a, lib.devices()[3]))
""",
    "inferred from automatic axes": """
lib.jit(shard_map(lambda v: v, mesh=m, out_specs=P('x')))(put(a, 'x'))
""",
    "inferred from types": """
f = shard_map(lambda v: 2 * v, mesh=e, out_specs=P('x'), check_vma=False)
b = put(xnp.ones((3, 8)), None, 'x', mesh=e)
out = [f(put(a, 'x', mesh=e)), lib.jit(f)(put(a, 'x', mesh=e)), lib.jit(f)(a), lib.vmap(f)(b)]
""",
    "pmap": """
b = xnp.arange(64.0).reshape(8, 8)
out = [lib.pmap(lambda v: 2 * v)(b), lib.pmap(lambda v: 2 * v, axis_name='i')(b[:4]),
       lib.pmap(lambda v: 2 * v, axis_name='i', out_axes=1)(b),
       lib.pmap(lambda v: lax.psum(v, 'i'), axis_name='i', out_axes=None)(b),
       lib.pmap(lambda v: v.sum(), axis_name='i')(b), lib.pmap(lambda v: v, axis_name='i')(b[:1]),
       lib.jit(lib.pmap(lambda v: 2 * v, axis_name='i'))(b)]
out.append(lib.pmap(lambda v: v + 1, axis_name='j')(out[0]))
out.append(lib.pmap(lambda v: v + 1, axis_name='j')(out[0]) + b)
""",
    "pmap of what is on another device": """
lib.pmap(lambda v: 2 * v)(lib.device_put(xnp.ones((8, 2)), lib.devices()[3]))
""",
    "pmap of what is on more devices": """
more = lib.pmap(lambda v: 2 * v)(xnp.ones((8, 2)))[:4]
lib.pmap(lambda v: 2 * v)(more)
""",
}
COMPARISON = Comparison({name: _BEFORE + program for name, program in PROGRAMS.items()})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_jax(name: str) -> None:
    COMPARISON.check_equal(name)


def test_an_array_on_another_device_is_named() -> None:
    mesh = gn.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    x = gn.device_put(gnp.arange(8.0), gn.devices()[3])
    with pytest.raises(ValueError, match=r"shard_map is committed to CpuDevice\(id=3\)"):
        gn.shard_map(lambda v: v, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)


def test_two_meshes_of_the_same_devices() -> None:
    first = gn.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    second = gn.make_mesh((8,), ("z",), axis_types=(AxisType.Auto,))

    def over(mesh: Any, name: str) -> Any:
        return gn.shard_map(lambda v: v + 1, mesh=mesh, in_specs=P(name), out_specs=P(name))

    x = gn.device_put(gnp.arange(8.0), NamedSharding(first, P("y")))
    for g in (over(second, "z"), gn.jit(over(second, "z"))):
        assert g(x).sharding == NamedSharding(second, P("z"))
    assert (gn.jit(lambda v: over(first, "x")(over(second, "z")(v)))(x) == x + 2).all()


def test_nested_maps_label_the_outer_results_only() -> None:
    mesh = gn.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def inner(v: Any) -> Any:
        return gn.shard_map(
            lambda w: w * 2, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}
        )(v)

    outer = gn.shard_map(inner, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    x = gnp.arange(32.0).reshape(8, 4)
    for f in (outer, gn.jit(outer)):
        assert f(x).sharding.spec == P("x")
        assert (f(x) == 2 * x).all()
    total = gn.jit(gn.pmap(lambda v: gn.pmap(lambda w: w + 1)(v)))(gnp.ones((2, 3, 4)))
    assert total.sharding.spec == P("_internal_pmap_axis_name")
    assert (total == 2).all()
