"""Pictures and inspections of shardings, compared with JAX on eight devices."""

from __future__ import annotations

from typing import Any

import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.sharding import AxisType, NamedSharding, SingleDeviceSharding
from gnomon.sharding import PartitionSpec as P
from tests.frontend.many_devices import Comparison
from tests.tools.pages import run

pytestmark = pytest.mark.usefixtures("devices")

_BEFORE = """
import contextlib, io, os
from unittest import mock
m = lib.make_mesh((4, 2), ('x', 'y'), axis_types=(AxisType.Auto,) * 2)
line = lib.make_mesh((8,), ('z',), axis_types=(AxisType.Auto,))
def put(value, *spec):
    return lib.device_put(value, NamedSharding(m, P(*spec)))
x = put(np.arange(32, dtype='float32').reshape(8, 4), 'x', 'y')

def text(show, *args, **kwargs):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        show(*args, **kwargs)
    return printed.getvalue()

def picture(shape, *spec, mesh=m, use_color=False, **kwargs):
    sharding = NamedSharding(mesh, P(*spec))
    return text(lib.debug.visualize_sharding, shape, sharding, use_color=use_color, **kwargs)

def array_picture(value):
    return text(lib.debug.visualize_array_sharding, value, use_color=False)

def inspected(f, *args):
    found = []
    def of(value):
        lib.debug.inspect_array_sharding(value, callback=found.append)
    f(of)(*args)
    return found
"""

PROGRAMS = {
    "two dimensions": """
out = [picture(shape, *spec) for shape in ((8, 8), (16, 4), (8, 24), (8, 4000))
       for spec in (('x', 'y'), ('y', 'x'), ('x',), (None, 'y'), (), (('x', 'y'),))]
""",
    "one dimension": """
out = [picture((8,), *spec) for spec in (('x',), ('y',), (), (('x', 'y'),), (('y', 'x'),))]
out.append(picture((8,), 'z', mesh=line))
""",
    "sizes": """
out = [picture((8, 8), 'x', 'y', scale=scale, min_width=least, max_width=most)
       for scale in (0.3, 1.0, 2.5) for least in (1, 9, 30) for most in (40, 80)]
""",
    "colors": """
color = {'FORCE_COLOR': '1', 'TERM': 'xterm-256color', 'COLORTERM': 'truecolor'}
with mock.patch.dict(os.environ, color):
    out = [picture((8, 8), *spec, use_color=True, color_map=lambda t: (t, 0.8 * t, 1 - t, 1.0))
           for spec in (('x', 'y'), ('x',), (None, 'y'), (), (('x', 'y'),))]
assert all('\\x1b[' in each for each in out)
""",
    "arrays": """
moved = lib.device_put(x, m.devices[1, 1])
out = [array_picture(value) for value in
       (x, x.T, x.sum(0), put(np.ones(8), 'y'), xnp.ones((3, 3)), moved)]
""",
    "arrays in jit": """
def f(a):
    lib.debug.visualize_array_sharding(a.T @ a, use_color=False)
    lib.debug.visualize_array_sharding(a.T, use_color=False)
    return a
out = [text(lib.jit(f), x), text(lib.jit(f).lower(2 * x.T).compile)]
""",
    "three dimensions": "picture((2, 2, 2))",
    "no dimension": "picture(())",
    "a shape that is not divisible": "picture((6, 6), 'x')",
    "an array of three dimensions": "array_picture(xnp.ones((2, 2, 2)))",
    "at once": """
out = [inspected(lambda of: of, value) for value in (x, x.T, xnp.arange(3), {'a': x, 'b': [x.T]})]
""",
    "in jit": """
out = [inspected(lambda of: lib.jit(lambda a: (of(2 * a), of(a.T), of(a.sum(1)), a)[-1]), x),
       inspected(lambda of: lib.jit(lambda a: lib.jit(lambda b: (of(b.T), b)[1])(a) + 1), x)]
""",
    "under transformations": """
def square(of):
    return lambda a: (of(2 * a), (a ** 2).sum())[1]
out = [inspected(lambda of: lib.grad(square(of)), x),
       inspected(lambda of: lib.jit(lib.grad(square(of))), x),
       inspected(lambda of: lib.vmap(square(of)), x),
       inspected(lambda of: lib.jit(lib.vmap(square(of))), x),
       inspected(lambda of: lib.vmap(square(of), in_axes=1), x)]
""",
    "in loops": """
def summed(of):
    return lambda a: lax.scan(lambda c, row: (of(row), (c, row))[1], 0.0, a)
out = [inspected(lambda of: lib.jit(summed(of)), x), inspected(lambda of: lib.jit(summed(of)), x.T)]
""",
    "in shard_map": """
def mapped(of):
    return shard_map(lambda a: (of(2 * a), a)[1], mesh=m, in_specs=P('x'), out_specs=P('x'))
out = [inspected(mapped, x), inspected(lambda of: lib.jit(mapped(of)), x)]
""",
}
COMPARISON = Comparison({name: _BEFORE + program for name, program in PROGRAMS.items()})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_jax(name: str) -> None:
    COMPARISON.check_equal(name)


def test_the_page_is_true() -> None:
    text, given = run("parallelism.md")
    assert text == given


def test_a_compiled_function_reports_once() -> None:
    mesh = gn.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    x = gn.device_put(gnp.arange(8.0), NamedSharding(mesh, P("x")))
    found: list[Any] = []

    @gn.jit
    def f(x: Any) -> Any:
        gn.debug.inspect_array_sharding(x + 1, callback=found.append)
        return x * 2

    lowered = f.lower(x)
    assert found == []
    lowered.compile()
    assert found == [NamedSharding(mesh, P("x"))]
    f(x)
    f(x + 1)
    assert len(found) == 2
    # Another signature is another program: one on a single device.
    f(gnp.ones(3))
    assert found[2] == SingleDeviceSharding(gn.devices()[0])


def test_programs_keep_their_values() -> None:
    x = gnp.arange(4.0)

    def f(x: Any) -> Any:
        gn.debug.inspect_array_sharding(x, callback=lambda sharding: None)
        return gnp.sin(x) * 3

    def plain(x: Any) -> Any:
        return gnp.sin(x) * 3

    def total(function: Any) -> Any:
        return lambda x: function(x).sum()

    for transform in (gn.jit, gn.vmap, lambda g: gn.grad(total(g)), lambda g: gn.hessian(total(g))):
        assert (transform(f)(x) == transform(plain)(x)).all()  # type: ignore[no-untyped-call]


def test_callbacks_are_freed_with_the_program() -> None:
    import gc
    import weakref

    class Told:
        def __call__(self, sharding: Any) -> None: ...

    told = Told()
    alive = weakref.ref(told)
    gn.jit(lambda x: (gn.debug.inspect_array_sharding(x, callback=alive()), x)[1])(1.0)
    del told
    gn.clear_caches()
    gc.collect()
    assert alive() is None


def test_a_callback_must_be_callable() -> None:
    with pytest.raises(TypeError, match="inspect_array_sharding"):
        gn.debug.inspect_array_sharding(gnp.ones(3), callback=3)  # type: ignore[arg-type]


def test_errors_of_a_callback_are_raised_by_the_call() -> None:
    def refuse(sharding: Any) -> None:
        raise OSError("no paper")

    with pytest.raises(OSError, match="no paper"):
        gn.jit(lambda x: (gn.debug.inspect_array_sharding(x, callback=refuse), x)[1])(1.0)
