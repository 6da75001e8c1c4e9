"""Memory of NumPy that enters: arrays keep their values, and booleans are stored as 0 or 1."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, tree_util
from gnomon.experimental import io_callback
from gnomon_runtime import safetensors

SIZE = 1000
CPU = gn.devices()[0]


def sharding() -> gn.NamedSharding:
    return gn.NamedSharding(gn.make_mesh((1,), ("d",)), gn.P("d"))


def like(x: Any) -> gn.ShapeDtypeStruct:
    return gn.ShapeDtypeStruct(x.shape, x.dtype)


def read_only(x: np.ndarray) -> np.ndarray:
    view = x[:]
    view.flags.writeable = False
    return view


def called(x: np.ndarray, *operands: Any, **options: Any) -> Any:
    """A callback that returns an array that its caller keeps."""
    return gn.pure_callback(lambda *_: x, like(x), *operands, **options)


def mapped(x: np.ndarray, method: str) -> Any:
    spread = np.ones((2, 1), np.float32)
    result = x.reshape(2, -1) if method == "broadcast_all" else x[: SIZE // 2]
    declared = gn.ShapeDtypeStruct((SIZE // 2,), x.dtype)
    return gn.vmap(
        lambda y: gn.pure_callback(lambda _: result, declared, y, vmap_method=method)
    )(spread)  # fmt: skip


def without_jit(x: np.ndarray) -> Any:
    with gn.disable_jit():
        return gn.jit(lambda: called(x))()


# Functions of an array of NumPy whose results must not change with it.
EAGER: dict[str, Callable[[np.ndarray], Any]] = {
    "asarray": gnp.asarray,
    "asarray of a view": lambda x: gnp.asarray(x[:]),
    "asarray of a read-only view": lambda x: gnp.asarray(read_only(x)),
    "asarray with a dtype": lambda x: gnp.asarray(x, x.dtype),
    "asarray of a buffer": lambda x: gnp.asarray(memoryview(x)),
    "array": gnp.array,
    "array without a copy": lambda x: gnp.array(x, copy=False),
    "array of a list": lambda x: gnp.array([x, x])[0],
    "frombuffer": lambda x: gnp.frombuffer(x, x.dtype),
    "from_dlpack": gnp.from_dlpack,
    "device_put": gn.device_put,
    "device_put on a device": lambda x: gn.device_put(x, CPU),
    "device_put over a mesh": lambda x: gn.device_put(x, sharding()),
    "make_array_from_callback": lambda x: gn.make_array_from_callback(
        x.shape, sharding(), lambda index: x[index]
    ),
    "make_array_from_process_local_data": lambda x: gn.make_array_from_process_local_data(
        sharding(), x
    ),
    "make_array_from_single_device_arrays": lambda x: gn.make_array_from_single_device_arrays(
        x.shape, sharding(), [gn.device_put(x, CPU)]
    ),
    "reshape": lambda x: gnp.reshape(x, (SIZE, 1))[:, 0],
    "lax.reshape": lambda x: lax.reshape(x, (SIZE,)),
    "update": lambda x: gnp.zeros(SIZE, x.dtype).at[:].set(x),
    "vmap": gn.vmap(lambda y: y),
    "scan": lambda x: lax.scan(lambda c, y: (c, y), x, x),
    "fori_loop": lambda x: lax.fori_loop(0, 0, lambda _, c: c, x),
    "cond": lambda x: lax.cond(True, lambda y: y, lambda y: y, x),
    "composite": lambda x: lax.composite(lambda y, **_: gnp.asarray(y), "test.id")(x, k=x),
    "pickle": lambda x: pickle.loads(pickle.dumps(gnp.asarray(x))),
    "pure_callback": called,
    "pure_callback of a dlpack array": lambda x: gn.pure_callback(
        lambda: gn.dlpack.from_dlpack(x, copy=False), like(x)
    ),
    "pure_callback on a device": lambda x: called(x, gn.device_put(1.0, CPU)),
    "pure_callback over a mesh": lambda x: called(x, gn.device_put(np.ones(4), sharding())),
    "pure_callback in sequential vmap": lambda x: mapped(x, "sequential"),
    "pure_callback in vmap": lambda x: mapped(x, "broadcast_all"),
    "pure_callback in checkpoint": lambda x: gn.checkpoint(lambda y: called(x, y))(1.0),
    "pure_callback in jvp": lambda x: gn.jvp(lambda y: (called(x), y), (1.0,), (1.0,))[0][0],
    "pure_callback without jit": without_jit,
    "pure_callback in a loop": lambda x: lax.fori_loop(0, 2, lambda _, c: called(x, c), x),
    "io_callback": lambda x: io_callback(lambda: x, like(x)),
    "custom_linear_solve": lambda x: lax.custom_linear_solve(
        lambda y: y, gnp.asarray(x), lambda _, b: called(x, b)
    ),
}
COMPILED: dict[str, Callable[[np.ndarray], Any]] = {
    "argument": lambda x: gn.jit(lambda y: (y, y.reshape(-1, 2)))(x),
    "compiled": lambda x: gn.jit(lambda y: y).lower(x).compile()(x),
    "constant": lambda x: gn.jit(lambda: gnp.asarray(x))(),
    "callback": lambda x: gn.jit(
        lambda: (called(x), io_callback(lambda: x, like(x), ordered=True))
    )(),
    "tiered": lambda x: gn.jit(lambda: called(x), tiered=True)(),
    "pmap": lambda x: gn.pmap(lambda y: y)(x[None]),
    "exported": lambda x: gn.export.export(gn.jit(lambda y: y))(like(x)).call(x),
}  # fmt: skip
DOORS = {**EAGER, **COMPILED}


@pytest.mark.parametrize("name", DOORS)
def test_arrays_keep_their_values(name: str) -> None:
    source = np.ones(SIZE, np.float32)
    results = tree_util.tree_leaves(DOORS[name](source))
    source[:] = 7
    for value, values in ((1, results), (7, tree_util.tree_leaves(DOORS[name](source)))):
        for result in values:
            np.testing.assert_array_equal(result, np.full(result.shape, value, np.float32))


@pytest.mark.parametrize("name", DOORS)
def test_booleans_become_zero_or_one(name: str) -> None:
    source = np.full(SIZE, 254, np.uint8).view(np.bool_)
    for result in tree_util.tree_leaves(DOORS[name](source)):
        assert result.dtype == np.bool_
        assert (np.asarray(result).view(np.uint8) == 1).all()


def test_sums_of_a_mask_with_other_bytes() -> None:
    mask = np.full((100, 100), 254, np.uint8).view(np.bool_)
    assert gn.jit(gnp.sum)(mask) == gnp.sum(mask) == 10_000


# --------------------------------------------------------------------------------- callbacks' state


class Simulator:
    """Keeps its observation in one buffer, as simulators do."""

    def __init__(self) -> None:
        self.observation = np.zeros(3, np.float32)

    def step(self, action: Any) -> np.ndarray:
        self.observation += np.asarray(action)
        return self.observation


def _steps(framework: Any, callback: Any) -> list[Any]:
    simulator = Simulator()
    shape = framework.ShapeDtypeStruct((3,), np.float32)
    one = np.ones(3, np.float32)
    return [callback(simulator.step, shape, one) for _ in range(3)]


@pytest.mark.parametrize("kind", ["pure", "io"])
def test_observations_of_a_simulator(kind: str) -> None:
    ours, theirs = (
        (gn.pure_callback, jax.pure_callback)
        if kind == "pure"
        else (io_callback, jax.experimental.io_callback)
    )
    results, expected = _steps(gn, ours), _steps(jax, theirs)
    np.testing.assert_array_equal(np.asarray(results)[:, 0], [1, 2, 3])
    np.testing.assert_array_equal(results, expected)


def test_two_observations_in_one_function() -> None:
    simulator = Simulator()
    shape = gn.ShapeDtypeStruct((3,), np.float32)

    def twice(action: Any) -> Any:
        first = io_callback(simulator.step, shape, action, ordered=True)
        return first, io_callback(simulator.step, shape, action, ordered=True)

    for run, expected in ((twice, (1, 2)), (gn.jit(twice), (3, 4)), (gn.checkpoint(twice), (5, 6))):
        first, second = run(np.ones(3, np.float32))
        assert (first[0], second[0]) == expected


# ------------------------------------------------------------------------------------------- files


def test_a_memory_map_that_changes(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones(SIZE, np.float32))
    loaded = [gnp.load(path), gnp.load(path, mmap_mode="r"), gnp.asarray(np.load(path, "r+"))]
    changed = np.load(path, mmap_mode="r+")
    changed[:] = 7
    changed.flush()
    np.testing.assert_array_equal(gnp.stack(loaded), np.ones((3, SIZE)))


def test_booleans_of_files(tmp_path: Path) -> None:
    dirty = np.full(SIZE, 254, np.uint8).view(np.bool_)
    np.save(tmp_path / "x.npy", dirty)
    safetensors.write_safetensors(tmp_path / "x.safetensors", {"x": dirty})
    (read,) = safetensors.read_safetensors(tmp_path / "x.safetensors").values()
    loaded = gnp.load(tmp_path / "x.npy", mmap_mode="r")
    for array in (read, np.asarray(loaded)):
        assert (array.view(np.uint8) == 1).all()
