"""Devices, meshes, specs and shardings, compared with JAX on eight devices."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from typing import Any

import pytest

import gnomon as gn
from gnomon import P
from gnomon.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, SingleDeviceSharding
from tests.frontend.many_devices import Comparison

pytestmark = pytest.mark.usefixtures("devices")

_MESH = "m = lib.make_mesh((4, 2), ('x', 'y'))\n"
_GRID = "np.array(lib.devices()).reshape(4, 2)"


def _each(*expressions: str, before: str = _MESH) -> str:
    return f"{before}out = [{', '.join(expressions)}]"


# Programs whose variable `out` must be what JAX makes it.
VALUES = {
    "mesh": _each(
        "repr(m)",
        "str(m)",
        "m.shape",
        "m.shape_tuple",
        "m.size",
        "m.axis_sizes",
        "m.device_ids",
        "m.empty",
        "m.is_multi_process",
        "m.explicit_axes",
        "m.auto_axes",
        "m.are_all_axes_explicit",
        "[d.id for d in m.local_devices]",
        "m.local_mesh.shape",
        "repr(m.abstract_mesh)",
        "str(m.abstract_mesh)",
        "str(m.abstract_mesh.abstract_device)",
        "m.update(axis_names=('a', 'b'))",
        "m.update(axis_types=(AxisType.Auto,) * 2)",
    ),
    "mesh from an array": _each(
        f"repr(Mesh({_GRID}, ('x', 'y')))",
        f"Mesh({_GRID}, ('x', 'y')) == m",
        f"Mesh({_GRID}, ('x', 'y'), axis_types=(AxisType.Explicit,) * 2) is m",
        "Mesh(lib.devices(), 'x')",
        "lib.make_mesh((3, 2), ('x', 'y'))",
        "lib.make_mesh((2,), ('x',), devices=lib.devices()[4:]).device_ids",
        "repr(Mesh(np.array(lib.devices()[0]), ()))",
        "repr(list(AxisType))",
    ),
    "abstract mesh": _each(
        "a",
        "a.shape",
        "a.size",
        "a.empty",
        "a.axis_types",
        "a.update(axis_types=(AxisType.Explicit,) * 2)",
        "a.update_axis_types({'x': AxisType.Manual})",
        "a.abstract_mesh",
        "AbstractMesh((), ())",
        "a == AbstractMesh((4, 2), ('x', 'y'))",
        before="a = AbstractMesh((4, 2), ('x', 'y'))\n",
    ),
    "specs": _each(
        "[repr(p) for p in ps]",
        "[str(p) for p in ps]",
        "[len(p) for p in ps]",
        "[p.partitions == ps[1].partitions for p in ps]",
        "P('x') == P('x', None)",
        "P('x') == ('x',)",
        "P(('x',)) == P('x')",
        "P(()) == P(None)",
        "P('x') + P('y')",
        "P('x') + ('y',)",
        "('y',) + P('x')",
        "P('x')[0]",
        "P('x', 'y')[:1]",
        "P('x').index('x')",
        "P(['x'])",
        "P('x').update(unreduced={'y'})",
        "list(P('x', None))",
        "len(lib.tree.leaves([P('x'), P()]))",
        before=(
            "ps = [P(), P('x'), P(None), P(None, 'x'), P(('x', 'y'), None), P('x', P.UNCONSTRAINED)"
            ", P(unreduced={'x'}), P('y', reduced={'x'}), P('x', unreduced={'y'})]\n"
        ),
    ),
    "named sharding": _each(
        "s",
        "s.spec",
        "s.memory_kind",
        "s.num_devices",
        "s.is_fully_replicated",
        "s.is_fully_addressable",
        "len(s.addressable_devices)",
        "s.shard_shape((8, 4))",
        "s.shard_shape((8, 4, 3))",
        "s.devices_indices_map((8, 4))",
        "s.addressable_devices_indices_map((8, 4, 1))",
        "NamedSharding(m, P(('x', 'y'))).devices_indices_map((8,))",
        "NamedSharding(m, P(('y', 'x'))).devices_indices_map((8,))",
        "NamedSharding(m, P(None, 'x')).devices_indices_map((3, 4))",
        "NamedSharding(m, P('x'), memory_kind='pinned_host')",
        "s.update(spec=P('y'))",
        "s.with_memory_kind('device') == s",
        "NamedSharding(m, P('x')).replicated_axes",
        "NamedSharding(m, P(None)).is_fully_replicated",
        "NamedSharding(lib.make_mesh((1, 8), ('a', 'b')), P('a')).is_fully_replicated",
        "NamedSharding(m.abstract_mesh, P('x'))",
        "NamedSharding(m.abstract_mesh, P('x')).shard_shape((8,))",
        before=_MESH + "s = NamedSharding(m, P('x', 'y'))\n",
    ),
    "equivalence": _each(
        "NamedSharding(m, P('x')) == NamedSharding(m, P('x', None))",
        "NamedSharding(m, P('x')).is_equivalent_to(NamedSharding(m, P('x', None)), 2)",
        "NamedSharding(m, P()).is_equivalent_to(NamedSharding(auto, P()), 2)",
        "NamedSharding(m, P('x')).is_equivalent_to(NamedSharding(other, P('a')), 2)",
        "NamedSharding(m, P('x')).is_equivalent_to(NamedSharding(other, P('b')), 2)",
        "NamedSharding(m, P(('x', 'y'))).is_equivalent_to(NamedSharding(line, P('x')), 1)",
        "NamedSharding(m, P(('y', 'x'))).is_equivalent_to(NamedSharding(line, P('x')), 1)",
        "NamedSharding(m, P()).is_equivalent_to(NamedSharding(swapped, P()), 2)",
        "NamedSharding(m, P(unreduced={'x'})).is_equivalent_to(NamedSharding(m, P()), 1)",
        "NamedSharding(m, P(reduced={'x'})).is_equivalent_to(NamedSharding(m, P()), 1)",
        "NamedSharding(single, P(unreduced={'a'})).is_equivalent_to(NamedSharding(single, P()), 1)",
        "NamedSharding(m, P()).is_equivalent_to(one, 1)",
        "NamedSharding(single, P('a')).is_equivalent_to(one, 1)",
        "one.is_equivalent_to(NamedSharding(single, P('a')), 1)",
        before=_MESH
        + f"auto = Mesh({_GRID}, ('x', 'y'))\n"
        + "other = lib.make_mesh((4, 2), ('a', 'b'))\n"
        + "line = lib.make_mesh((8,), ('x',))\n"
        + f"swapped = Mesh({_GRID}[::-1], ('x', 'y'))\n"
        + "single = lib.make_mesh((1,), ('a',))\n"
        + "one = SingleDeviceSharding(lib.devices()[0])\n",
    ),
    "single device sharding": _each(
        "s",
        "s.devices_indices_map((3, 4))",
        "s.shard_shape((3,))",
        "s.memory_kind",
        "s.addressable_devices",
        "s.num_devices",
        "s == SingleDeviceSharding(lib.devices()[3], memory_kind='device')",
        "xnp.zeros(3).sharding",
        before="s = SingleDeviceSharding(lib.devices()[3])\n",
    ),
    "contexts": _MESH
    + """
out = [str(get_mesh()), str(get_abstract_mesh()), get_mesh().empty, get_abstract_mesh().empty]
with lib.set_mesh(m):
    out += [repr(get_mesh()), repr(get_abstract_mesh())]
    with lib.set_mesh(m.update(axis_names=('a', 'b'))):
        out += [str(get_mesh())]
    with use_abstract_mesh(AbstractMesh((8,), ('z',))):
        out += [str(get_abstract_mesh()), str(get_mesh())]
    out += [str(get_mesh()), str(get_abstract_mesh())]
out += [str(get_mesh())]
lib.set_mesh(m)
out += [str(get_mesh())]
lib.set_mesh(None)
out += [str(get_mesh())]
""",
}

# Programs that raise an error of JAX's kind; the text says what to find in it.
ERRORS = {
    "too many names": ("Mesh(lib.devices(), ('x', 'y'))", "ndim == 1"),
    "too few names": (f"Mesh({_GRID}, ('x',))", "ndim == 2"),
    "None as a name": ("Mesh(lib.devices(), (None,))", "None"),
    "axis types": ("Mesh(lib.devices(), ('x',), axis_types=(AxisType.Auto,) * 2)", "axis_types"),
    "axis types of strings": ("lib.make_mesh((4,), ('x',), axis_types=('a',))", "AxisType"),
    "too few devices": ("lib.make_mesh((16,), ('x',))", "16"),
    "shape and names": ("lib.make_mesh((8,), ('x', 'y'))", "len"),
    "abstract mesh of two names": ("str(AbstractMesh((2,), ('x', 'y')))", "axis_names"),
    "assignment": (_MESH + "m.devices = 1", "devices"),
    "unknown axis": (_MESH + "NamedSharding(m, P('z'))", "'z'"),
    "axis of another kind": (_MESH + "NamedSharding(m, P(1))", "1"),
    "memory kind": (_MESH + "NamedSharding(m, P('x'), memory_kind='bad')", "bad"),
    "no division": (_MESH + "NamedSharding(m, P('x')).shard_shape((7, 4))", "divi"),
    "too few dimensions": (
        _MESH + "NamedSharding(m, P('x', 'y')).check_compatible_aval((8,))",
        "",
    ),
    "no devices": (_MESH + "NamedSharding(m.abstract_mesh, P('x')).device_set", "AbstractMesh"),
    "nothing unconstrained": (_MESH + "NamedSharding(m, P(P.UNCONSTRAINED))", "UNCONSTRAINED"),
    "unreduced": ("P('x', unreduced={'x'})", "unreduced"),
    "unreduced None": ("P(unreduced={None})", "None"),
    "unreduced text": ("P(unreduced='x')", "unreduced"),
    "iteration": ("list(P(unreduced={'x'}))", "partitions"),
    "no mesh": ("lib.set_mesh(3)", "int"),
    "abstract mesh is set": (_MESH + "lib.set_mesh(m.abstract_mesh)", "AbstractMesh"),
    "abstract mesh of another size": (
        _MESH
        + "with lib.set_mesh(m):\n"
        + "    with use_abstract_mesh(AbstractMesh((3,), ('z',))): pass",
        "size",
    ),
    "get_mesh in jit": ("lib.jit(lambda x: (get_mesh(), x)[1])(1)", "get_abstract_mesh"),
    "set_mesh in jit": (_MESH + "lib.jit(lambda x: (lib.set_mesh(m), x)[1])(1)", "set_mesh"),
}


COMPARISON = Comparison({**VALUES, **{k: program for k, (program, _) in ERRORS.items()}})


@pytest.mark.parametrize("name", VALUES)
def test_as_jax(name: str) -> None:
    COMPARISON.check_equal(name)


@pytest.mark.parametrize("name", ERRORS)
def test_errors_as_jax(name: str) -> None:
    COMPARISON.check_error(name, ERRORS[name][1])


def test_an_axis_twice() -> None:
    # JAX has a separate class for it.
    mesh = gn.make_mesh((4, 2), ("x", "y"))
    for spec in (P("x", "x"), P(("x", "x"))):
        with pytest.raises(ValueError, match="'x' twice"):
            NamedSharding(mesh, spec)
    with pytest.raises(ValueError, match="different names"):
        Mesh(mesh.devices, ("x", "x"))


def test_pickles(devices: list[Any]) -> None:
    mesh = gn.make_mesh((4, 2), ("x", "y"), (AxisType.Auto, AxisType.Explicit))
    things = (
        devices[3],
        mesh,
        mesh.abstract_mesh,
        P("x", P.UNCONSTRAINED),
        P(unreduced={"x"}),
        NamedSharding(mesh, P("x", None), memory_kind="pinned_host"),
        SingleDeviceSharding(devices[2]),
    )
    for thing in things:
        assert pickle.loads(pickle.dumps(thing)) == thing
    assert pickle.loads(pickle.dumps(mesh)) is mesh


def test_a_mesh_is_part_of_the_signature() -> None:
    seen = []

    @gn.jit
    def f(x: Any) -> Any:
        seen.append(gn.sharding.get_abstract_mesh().axis_names)
        return x

    mesh = gn.make_mesh((4, 2), ("x", "y"))
    for _ in range(2):
        f(1.0)
        with gn.set_mesh(mesh):
            f(1.0)
    assert seen == [(), ("x", "y")]


def test_the_mesh_is_kept_while_options_change() -> None:
    mesh = gn.make_mesh((4, 2), ("x", "y"))
    with gn.set_mesh(mesh):
        with gn.enable_x64():
            assert gn.sharding.get_mesh() is mesh
            assert gn.numpy.zeros(1).dtype == "float64"
        assert gn.sharding.get_mesh() is mesh
        assert gn.numpy.zeros(1).dtype == "float32"
    with gn.enable_x64():
        gn.set_mesh(mesh)
    assert gn.sharding.get_mesh() is mesh
    gn.set_mesh(None)
    assert gn.sharding.get_mesh().empty
    token = gn.config.token
    gn.config.update("gnomon_enable_x64", True)
    try:
        assert gn.config.token != token
        assert gn.numpy.zeros(1).dtype == "float64"
    finally:
        gn.config.update("gnomon_enable_x64", False)


def test_large_meshes_are_cheap() -> None:
    class Chip:
        platform, device_kind, process_index = "tpu", "v5", 0

        def __init__(self, id: int) -> None:
            self.id = id

        def memory_stats(self) -> None:
            return None

    start = time.process_time()
    mesh = gn.make_mesh((16, 16, 16), ("a", "b", "c"), devices=[Chip(i) for i in range(4096)])  # type: ignore[misc]
    sharding = NamedSharding(mesh, P(("a", "c"), "b"))
    assert len(sharding.devices_indices_map((512, 64))) == 4096
    assert sharding.shard_shape((512, 64)) == (2, 4)
    assert sharding.is_equivalent_to(NamedSharding(mesh, P(("a", "c"), "b", None)), 3)
    assert time.process_time() - start < 1


def test_the_number_of_cpu_devices() -> None:
    program = """
import gnomon as gn
for wrong in (0, "three", 2.5, True):
    try:
        gn.config.update("gnomon_num_cpu_devices", wrong)
    except ValueError as error:
        assert "num_cpu_devices" in str(error)
    else:
        raise AssertionError(wrong)
gn.numpy.zeros(3) + 1
gn.config.update("jax_num_cpu_devices", 4)
assert [d.id for d in gn.devices()] == [0, 1, 2, 3] and gn.devices() == gn.devices("cpu")
assert gn.device_count() == gn.local_device_count() == gn.config.gnomon_num_cpu_devices == 4
assert gn.numpy.zeros(3).devices() == {gn.devices()[0]}
gn.config.update("gnomon_num_cpu_devices", 4)
try:
    gn.config.update("gnomon_num_cpu_devices", 2)
except RuntimeError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "at the start of the program" in ran.stdout


def test_the_environment_sets_the_number_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_NUM_CPU_DEVICES", "3")
    program = "import gnomon as gn; print(gn.devices())"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert out.stdout == "[CpuDevice(id=0), CpuDevice(id=1), CpuDevice(id=2)]\n"


def test_abstract_meshes_have_no_devices() -> None:
    with pytest.raises(ValueError, match="no devices"):
        _ = AbstractMesh((2,), ("x",)).devices
