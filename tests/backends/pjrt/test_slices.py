"""Programs for all chips of a slice of TPUs, compiled on a machine that has none."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import NamedSharding, P, lax
from gnomon.backends.errors import BackendUnavailable
from gnomon.experimental import topologies
from gnomon.sharding import AxisType, Mesh

pytestmark = pytest.mark.tpu_compile


@pytest.fixture(scope="module")
def topology() -> topologies.TopologyDescription:
    return topologies.get_topology_desc("v5e:4x4", "tpu")


@pytest.fixture
def mesh(topology: topologies.TopologyDescription) -> Mesh:
    return topologies.make_mesh(topology, (8, 2), ("data", "model"))


def struct(*shape: int, sharding: Any = None) -> gn.ShapeDtypeStruct:
    return gn.ShapeDtypeStruct(shape, np.float32, sharding=sharding)


def collectives(text: str) -> set[str]:
    """The collectives in a program of HLO, whether they run at once or are started and awaited."""
    found = re.findall(r" (all-reduce|all-gather|collective-permute|reduce-scatter)[\w-]*\(", text)
    return set(found)


def test_the_devices_of_a_topology(topology: topologies.TopologyDescription) -> None:
    devices: list[Any] = topology.devices
    assert sorted(d.id for d in devices) == list(range(16))
    assert len({d.coords for d in devices}) == 16
    assert {(d.platform, d.device_kind) for d in devices} == {("tpu", "TPU v5 lite")}
    again = topologies.get_topology_desc("tpu:v5e:4x4")
    assert again.devices == devices
    assert devices[0].memory_stats() is None


def test_the_devices_that_are_present() -> None:
    attached = topologies.get_attached_topology("cpu")
    assert attached.devices == gn.devices("cpu")
    mesh = topologies.make_mesh(attached, (1,), ("x",))
    assert gn.device_put(gnp.ones(2), NamedSharding(mesh, P("x"))).tolist() == [1, 1]


def test_a_gradient_over_a_slice(mesh: Mesh) -> None:
    def loss(w: Any, x: Any) -> Any:
        return gnp.mean(gnp.tanh(x @ w["in"]) @ w["out"])

    weights = {"in": P(None, "model"), "out": P("model")}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in weights.items()}
    step = gn.jit(gn.grad(loss), in_shardings=(shardings, NamedSharding(mesh, P("data"))))
    lowered = step.lower({"in": struct(256, 512), "out": struct(512, 256)}, struct(1024, 256))
    compiled: Any = lowered.compile()
    memory = compiled.memory_analysis()
    part = 2 * 256 * 512 // 2 + 1024 * 256 // 8
    assert memory.argument_size_in_bytes == 4 * part
    # A tuple of two results also takes a table of pointers.
    assert 4 * 256 * 512 <= memory.output_size_in_bytes < 4 * 256 * 512 + 4096
    assert compiled.cost_analysis()["flops"] > 0
    assert len(compiled.serialize()) > 10_000
    assert "all-reduce" in collectives(compiled.as_text())
    assert "xla.sdy.sharding" in compiled.as_text("stablehlo")
    assert compiled.input_shardings[0] == (shardings, NamedSharding(mesh, P("data")))
    assert compiled.output_shardings == shardings


def test_shard_map_over_a_slice(mesh: Mesh) -> None:
    ring = [(i, (i + 1) % 8) for i in range(8)]

    def member(x: Any, w: Any) -> Any:
        return lax.ppermute(x, "data", ring) * lax.psum(w.sum(), "model")

    mapped = gn.shard_map(
        member, mesh=mesh, in_specs=(P("data"), P("model")), out_specs=P("data", "model")
    )
    # The first argument is whole on each chip: nothing says how it is split.
    split = struct(256, sharding=NamedSharding(mesh, P("model")))
    compiled: Any = gn.jit(mapped).lower(struct(64, 128), split).compile()
    assert collectives(compiled.as_text()) == {"collective-permute", "all-reduce"}
    whole, given = compiled.input_shardings[0]
    assert whole == NamedSharding(mesh, P()) and given == split.sharding
    assert compiled.output_shardings.spec == P("data", "model")


def test_constraints_and_closures(topology: topologies.TopologyDescription) -> None:
    # The devices in another order.
    grid = np.array(topology.devices[::-1], dtype=object).reshape(4, 4)
    mesh = Mesh(grid, ("x", "y"), (AxisType.Auto,) * 2)
    table = np.arange(128.0, dtype=np.float32)

    @gn.jit
    def fun(x: Any) -> Any:
        return lax.with_sharding_constraint(gnp.sin(x) + table, NamedSharding(mesh, P("y", "x")))

    compiled: Any = fun.lower(struct(64, 128, sharding=NamedSharding(mesh, P("x")))).compile()
    assert compiled.output_shardings.spec == P("y", "x")
    assert compiled.memory_analysis().argument_size_in_bytes == 4 * 64 * 128 // 4


def test_meshes_of_a_topology_and_of_this_machine(topology: topologies.TopologyDescription) -> None:
    here = gn.make_mesh((1,), ("x",))
    there = gn.make_mesh((1,), ("x",), devices=topology.devices)
    results = []
    for mesh in (here, there):
        mapped = gn.shard_map(lambda v: v * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        results.append(gn.jit(mapped).lower(struct(4)).compile())
    assert results[0](gnp.ones(4)).tolist() == [2, 2, 2, 2]
    assert not hasattr(results[0], "target")
    assert results[1].target == "tpu:v5e:4x4"  # type: ignore[attr-defined]


def test_nothing_runs_on_described_devices(mesh: Mesh) -> None:
    sharding = NamedSharding(mesh, P("data"))
    value = np.ones(16, np.float32)
    double = gn.jit(lambda x: x * 2, in_shardings=sharding)
    mapped = gn.shard_map(lambda v: v, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    with pytest.raises(BackendUnavailable, match=r"only described, so they cannot run.*lower"):
        double(value)
    with pytest.raises(BackendUnavailable, match="only described, so they cannot run programs"):
        mapped(value)
    with pytest.raises(BackendUnavailable, match=r"they cannot hold arrays.*ShapeDtypeStruct"):
        gn.device_put(value, sharding)
    with pytest.raises(BackendUnavailable, match="they cannot hold arrays"):
        gn.device_put(value, mesh.devices.flat[0])
    with pytest.raises(BackendUnavailable, match="cannot run in this process"):
        double.lower(struct(16)).compile()(value)


def test_topologies_that_are_not_known() -> None:
    with pytest.raises(ValueError, match=r"knows no topology 'v9:1x1'.*v5e:1x1"):
        topologies.get_topology_desc("v9:1x1", "tpu")
    with pytest.raises(ValueError, match="the platform 'cpu' cannot describe absent devices"):
        topologies.get_topology_desc("v5e:4x4", "cpu")
    with pytest.raises(NotImplementedError, match=r"\['num_slices'\]"):
        topologies.get_topology_desc("v5e:4x4", "tpu", num_slices=2)
    single = topologies.get_topology_desc("v5e:1x1")
    with pytest.raises(ValueError, match="needs 4 devices, but there are 1"):
        topologies.make_mesh(single, (4,), ("x",))
    with pytest.raises(NotImplementedError, match="contiguous_submeshes"):
        topologies.make_mesh(single, (1,), ("x",), contiguous_submeshes=True)
