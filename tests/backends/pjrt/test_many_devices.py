"""Arrays and functions over several devices of a plugin: as over the CPU devices of the process."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import NamedSharding, P, lax
from gnomon._sharding import mesh as meshes
from gnomon._transformations import pmap as pmaps
from gnomon.backends import platforms
from gnomon.backends.pjrt.backend import PjrtBackend
from gnomon.backends.pjrt.plugin import PluginSpec
from gnomon.errors import BufferDeletedError
from gnomon.sharding import AxisType
from tests.backends.iree.joined import report
from tests.frontend import (
    test_explicit_shardings,
    test_mapped_shardings,
    test_pmap,
    test_shard_map,
    test_shard_map_nesting,
    test_sharded_arrays,
)
from tests.frontend.many_devices import COUNT, eight_devices, outcome
from tests.sample import sample
from tests.tolerance import assert_near

pytestmark = pytest.mark.pjrt

PLATFORM = "xla_cpu"


@pytest.fixture(scope="module")
def eight(spec: PluginSpec) -> Iterator[list[Any]]:
    """Eight devices of the plugin, under the name of its platform."""
    backend = PjrtBackend(
        PLATFORM, PluginSpec(PLATFORM, spec.path, {"cpu_device_count": COUNT}, spec.flags)
    )
    platforms.register(PLATFORM, lambda _: backend)
    yield gn.devices(PLATFORM)
    platforms.unregister(PLATFORM)
    gn.clear_caches()
    backend.close()


@pytest.fixture
def mesh(eight: list[Any]) -> Any:
    return gn.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2, devices=eight)


@pytest.fixture
def on_plugin(eight: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that name no platform get the plugin's devices; the default device is the host."""
    devices, devices_of = gn.devices, meshes.devices_of
    monkeypatch.setattr(gn, "devices", lambda backend=None: devices(backend or PLATFORM))
    for module in (meshes, pmaps):
        monkeypatch.setattr(module, "devices_of", lambda name=None: devices_of(name or PLATFORM))


def neutral(x: Any) -> Any:
    """An outcome without the names of devices."""
    if isinstance(x, str):
        for name in ("Xla_cpuDevice", "XLA_CPU"):
            x = x.replace(name, "CpuDevice")
        return x.replace("CPU_", "cpu:").replace("CpuDevice_", "cpu:").replace(PLATFORM, "cpu")
    if isinstance(x, (list, tuple)):
        return [neutral(v) for v in x]
    return {k: neutral(v) for k, v in x.items()} if isinstance(x, dict) else x


def agree(found: Any, expected: Any) -> bool:
    """Whether outcomes agree except for rounding, as reductions have another order."""
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(map(agree, found, expected))
        )
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(agree(found[k], expected[k]) for k in found)
    if isinstance(expected, float) and isinstance(found, float):
        # Sums of up to 32 numbers of size 32, in f32.
        both_nan = math.isnan(found) and math.isnan(expected)
        return both_nan or math.isclose(found, expected, rel_tol=2e-6, abs_tol=2e-5)
    return bool(found == expected)


# The programs of modules of tests, which compare them with JAX's.
TABLES: dict[Any, Any] = {
    test_sharded_arrays: test_sharded_arrays.VALUES,
    test_mapped_shardings: test_mapped_shardings.PROGRAMS,
    test_pmap: [name for name, text in test_pmap.VALUES.items() if "cpu" not in text],
    test_explicit_shardings: test_explicit_shardings.PROGRAMS,
    test_shard_map: test_shard_map.VALUES,
    test_shard_map_nesting: test_shard_map_nesting.CASES,
}


@pytest.mark.parametrize(
    "share",
    [pytest.param(12, id="a twelfth"), pytest.param(3, id="a third", marks=pytest.mark.slow)],
)
def test_as_on_the_host(share: int, eight: Any, request: pytest.FixtureRequest) -> None:
    """A sample of the programs on the host, and then all on the plugin, which share ops."""
    programs = {
        f"{module.__name__}: {name}": module.COMPARISON.programs[name]
        for module, names in TABLES.items()
        for name in sample(names, len(names) // share, module.__name__)
    }
    with eight_devices():
        expected = {name: neutral(outcome("gnomon", text)) for name, text in programs.items()}
    request.getfixturevalue("on_plugin")
    problems = {}
    for name, text in programs.items():
        found = neutral(outcome("gnomon", text))
        if not agree(found, expected[name]):
            problems[name] = f"{found} instead of {expected[name]}"
    report(problems)


# --------------------------------------------------------------------------- a table of programs

A = np.linspace(-1, 2, 64, dtype=np.float32).reshape(8, 8)
PARAMS = {"in": np.sin(A), "out": np.cos(A[:, :4])}
RING = [(i, (i + 1) % 4) for i in range(4)]


def mlp(params: Any, x: Any) -> Any:
    return gnp.mean((gnp.tanh(x @ params["in"]) @ params["out"]) ** 2)


def mapped(body: Callable[..., Any], ins: Any = "x", outs: Any = "x") -> Callable[..., Any]:
    def program(mesh: Any) -> Any:
        return gn.shard_map(body, mesh=mesh, in_specs=P(*ins), out_specs=P(*outs))

    return program


def in_scan(v: Any) -> Any:
    def step(carry: Any, i: Any) -> Any:
        return gnp.sin(lax.ppermute(carry, "x", RING)) + i, None

    return lax.scan(step, v, gnp.arange(3.0))[0]


# Functions of a mesh that return a function, its arguments, and their specs.
PROGRAMS: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...], tuple[P, ...]]] = {
    "matmul by rows": (lambda m: gnp.matmul, (A, A), (P("x"), P())),
    "matmul by columns": (lambda m: gnp.matmul, (A, A), (P(), P(None, "x"))),
    "matmul by both": (lambda m: gnp.matmul, (A, A), (P("x", "y"), P("y"))),
    "gradient of layers": (
        lambda m: gn.grad(lambda i, o, x: mlp({"in": i, "out": o}, x), (0, 1)),
        (PARAMS["in"], PARAMS["out"], A),
        (P(None, "y"), P("y"), P("x")),
    ),
    "psum": (mapped(lambda v: v * lax.psum(v, "x")), (A,), (P("x"),)),
    "psum of two axes": (mapped(lambda v: v * lax.psum(v.sum(), ("x", "y"))), (A,), (P("y"),)),
    "all_gather": (mapped(lambda v: lax.all_gather(v, "x").sum(0) + v), (A,), (P("x"),)),
    "ppermute": (mapped(lambda v: lax.ppermute(v, "x", RING)), (A,), (P("x"),)),
    "psum_scatter": (
        mapped(lambda v: lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True)),
        (A,),
        (P("x"),),
    ),
    "all_to_all": (mapped(lambda v: lax.all_to_all(v, "x", 1, 0, tiled=True)), (A,), (P(),)),
    "scan": (mapped(in_scan), (A,), (P("x"),)),
    "grad of a map": (
        lambda m: gn.grad(lambda v: (mapped(lambda u: gnp.sin(u) * lax.psum(u, "x"))(m)(v)).sum()),
        (A,),
        (P("x"),),
    ),
    "vmap": (lambda m: gn.vmap(lambda r: r * r.sum()), (A,), (P("x", "y"),)),
    "sort": (lambda m: lambda v: gnp.sort(v, axis=0), (A,), (P("x", "y"),)),
    "random numbers": (
        lambda m: lambda v: v + gn.random.normal(gn.random.key(3), (8, 8)),
        (A,),
        (P("x", "y"),),
    ),
}


def run_over(over: Any, names: Any, compiled: bool) -> dict[str, Any]:
    """The results of some programs; if compiled, they are one program."""
    functions = {name: PROGRAMS[name][0](over) for name in names}

    def program(given: dict[str, Any]) -> dict[str, Any]:
        return {name: functions[name](*arguments) for name, arguments in given.items()}

    given = {
        name: [
            gn.device_put(a, NamedSharding(over, s))
            for a, s in zip(*PROGRAMS[name][1:], strict=True)
        ]
        for name in names
    }
    return gn.jit(program)(given) if compiled else program(given)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_programs(compiled: bool, mesh: Any) -> None:
    found = run_over(mesh, PROGRAMS, compiled)
    with eight_devices() as devices:
        host = gn.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2, devices=devices)
        expected = run_over(host, PROGRAMS, compiled)
    problems = {}
    for name in PROGRAMS:
        results = zip(gn.tree.leaves(found[name]), gn.tree.leaves(expected[name]), strict=True)
        try:
            for f, e in results:
                assert f.sharding.spec == e.sharding.spec
                assert f.devices() == set(mesh.devices.flat)
                # Sums of 64 numbers.
                assert_near(np.asarray(f), np.asarray(e), units=64)
        except AssertionError as error:
            problems[name] = str(error)
    report(problems)


def test_training_steps(mesh: Any) -> None:
    """Twenty steps have the same losses in three placements as on one device of the host."""

    @gn.jit
    def step(params: Any, x: Any) -> Any:
        value, gradient = gn.value_and_grad(mlp)(params, x)
        return gn.tree.map(lambda p, g: p - 0.1 * g, params, gradient), value

    def losses(place: Callable[[Any, str], Any]) -> list[float]:
        params = {name: place(value, name) for name, value in PARAMS.items()}
        x, found = place(A, "x"), []
        for _ in range(20):
            params, value = step(params, x)
            found.append(float(value))
        return found

    alone = losses(lambda value, name: value)
    for specs in (
        {"in": P(), "out": P(), "x": P("x")},
        {"in": P(None, "y"), "out": P("y"), "x": P("x")},
        {"in": P(("x", "y")), "out": P(("x", "y")), "x": P(("x", "y"))},
    ):
        spread = losses(lambda v, name, s=specs: gn.device_put(v, NamedSharding(mesh, s[name])))
        np.testing.assert_allclose(spread, alone, rtol=20 * 64 * np.finfo(np.float32).eps)


# ------------------------------------------------------------------------------------------ arrays

SPECS = (P(), P("x"), P(None, "y"), P("x", "y"), P("y", "x"), P(("x", "y")), P(None, ("y", "x")))


@pytest.mark.parametrize("source", SPECS, ids=str)
def test_all_pairs_of_shardings(source: P, mesh: Any, eight: list[Any]) -> None:
    line = gn.make_mesh((8,), ("z",), (AxisType.Auto,), devices=eight)
    half = gn.make_mesh((4,), ("z",), (AxisType.Auto,), devices=eight[4:])
    x = gn.device_put(A, NamedSharding(mesh, source))
    targets = [NamedSharding(mesh, spec) for spec in SPECS]
    targets += [NamedSharding(line, P(None, "z")), NamedSharding(half, P("z"))]
    for target in targets:
        y = gn.device_put(x, target)
        assert y.sharding == target
        for shard in y.addressable_shards:
            np.testing.assert_array_equal(shard.data, A[shard.index])
            assert shard.data.devices() == {shard.device}
    np.testing.assert_array_equal(gn.device_put(x, eight[3]), A)
    np.testing.assert_array_equal(gn.device_put(x, gn.devices("cpu")[0]), A)


def test_parts_are_where_the_sharding_says(mesh: Any) -> None:
    x = gn.device_put(A, NamedSharding(mesh, P("x", "y")))
    assert x.addressable_data(3).shape == (2, 4)
    assert [s.device.id for s in x.addressable_shards] == list(range(8))
    made = gn.make_array_from_single_device_arrays(
        (8, 8), x.sharding, [s.data for s in x.addressable_shards]
    )
    np.testing.assert_array_equal(made, A)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)), A)
    assert repr(x) == repr(gnp.asarray(A)) and str(x) == str(gnp.asarray(A))
    with pytest.raises(BufferError, match="over 8 devices"):
        x.__dlpack__()
    with pytest.raises(ValueError, match="size 6 is not divisible"):
        gn.device_put(np.ones(6), NamedSharding(mesh, P("x")))


def test_deletion_and_donation(mesh: Any) -> None:
    sharding = NamedSharding(mesh, P("x", "y"))
    x = gn.device_put(A, sharding)
    y = gn.device_put(x, NamedSharding(mesh, P("x")))
    part = x.addressable_data(0)
    x.delete()
    assert x.is_deleted()
    np.testing.assert_array_equal(part, A[:2, :4])
    with pytest.raises(RuntimeError, match="has been deleted"):
        x + 1
    step = gn.jit(lambda v: v * 2, donate_argnums=0)
    z = step(gn.device_put(y, sharding))
    np.testing.assert_array_equal(z, 2 * A)
    for _ in range(3):
        before, z = z, step(z)
        assert before.is_deleted()
    np.testing.assert_array_equal(z, 16 * A)
    # A result of the same type with another sharding cannot reuse the memory.
    moved = gn.jit(lambda v: v * 2, donate_argnums=0, out_shardings=NamedSharding(mesh, P("y")))
    np.testing.assert_array_equal(moved(z), 32 * A)


def test_explicit_axes(eight: list[Any]) -> None:
    mesh = gn.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2, devices=eight)
    with gn.set_mesh(mesh):
        x = gn.device_put(A, P("x", "y"))
        assert str(gn.typeof(x)) == "float32[8@x,8@y]"
        assert str(gn.typeof(gnp.sin(x).T)) == "float32[8@y,8@x]"
        moved = gn.sharding.reshard(x, P(None, "y"))
        assert moved.addressable_data(0).shape == (8, 4)
        np.testing.assert_array_equal(moved, A)
        with pytest.raises(gn.errors.ShardingTypeError):
            x + x.T

        @gn.jit
        def f(v: Any) -> Any:
            assert str(gn.typeof(v)) == "float32[8@x,8@y]"
            return gnp.sin(v).sum(1)

        assert f(x).sharding.spec == P("x")
        grad = gn.jit(gn.grad(lambda v: (f(v) ** 2).sum()))(x)
        assert grad.sharding.spec == P("x", "y")


def test_one_device_in_a_mesh(eight: list[Any]) -> None:
    mesh = gn.make_mesh((1,), ("x",), (AxisType.Auto,), devices=eight[2:3])
    sharding = NamedSharding(mesh, P("x"))
    x = gn.device_put(A, sharding)
    for y in (x + 1, gn.jit(lambda v: v + 1)(x), gn.vmap(lambda v: v + 1)(x)):
        assert y.sharding == sharding and y.devices() == {eight[2]}
        np.testing.assert_array_equal(y, A + 1)
    total = gn.shard_map(lambda v: lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    np.testing.assert_array_equal(total(A), A)
    assert total(A).devices() == {eight[2]}


def test_random_numbers_do_not_depend_on_the_sharding(mesh: Any) -> None:
    draw = lambda key: gn.random.bits(key, (8, 8))  # noqa: E731
    expected = draw(gn.random.key(7))
    for spec in SPECS:
        drawn = gn.jit(draw, out_shardings=NamedSharding(mesh, spec))(gn.random.key(7))
        np.testing.assert_array_equal(drawn, expected)


def test_mixed_devices_are_an_error(mesh: Any, eight: list[Any]) -> None:
    x = gn.device_put(A, NamedSharding(mesh, P("x")))
    other = gn.device_put(A, eight[0])
    for run in (lambda: x + other, lambda: gn.jit(gnp.add)(x, other)):
        with pytest.raises(ValueError, match="received incompatible devices"):
            run()


def test_a_part_that_was_donated(mesh: Any) -> None:
    x = gn.jit(lambda v: v + 1)(gn.device_put(A, NamedSharding(mesh, P("x"))))
    part = x.addressable_data(1)
    gn.jit(lambda v: v * 2, donate_argnums=0)(part)
    assert x.is_deleted()
    with pytest.raises((RuntimeError, BufferDeletedError), match="deleted or donated"):
        np.asarray(x)
