"""Devices behave as in JAX: where arrays live, and where programs and eager ops on them run."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon._sharding.sharding import Sharding, SingleDeviceSharding
from tests.backends.numpy_platform import Device, NumpyBackend, registered
from tests.backends.real_platforms import REAL_PLATFORMS, plugin_named
from tests.tolerance import assert_near

HOST = gn.devices("cpu")[0]
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


@pytest.fixture
def platform() -> Iterator[NumpyBackend]:
    with registered("fake") as backend:
        yield backend
        gn.clear_caches()


@pytest.fixture
def devices(platform: NumpyBackend) -> tuple[Device, ...]:
    return platform.devices()


def check(actual: Any, expected: Any, device: Any, committed: bool = True) -> None:
    """Check that two pytrees have equal leaves, and that those of the first are on a device."""
    for a, e in zip(gn.tree.leaves(actual), gn.tree.leaves(expected), strict=True):
        assert a.devices() == {device}
        assert a.committed == committed
        assert (a.shape, a.dtype, a.weak_type) == (e.shape, e.dtype, e.weak_type)
        assert_near(a, e, 8, scale=1.0)


# ---------------------------------------------------------------------------------- looking around


def test_devices_of_a_platform(devices: tuple[Device, ...]) -> None:
    assert gn.devices("fake") == list(devices) == gn.local_devices(backend="fake")
    assert gn.device_count("fake") == gn.local_device_count("fake") == 2
    assert (gn.default_backend(), gn.devices(), gn.device_count()) == ("cpu", [HOST], 1)
    assert [d.id for d in devices] == [0, 1]
    assert isinstance(HOST, gn.Device)
    assert isinstance(devices[0], gn.Device)
    assert gn.process_indices() == [0]
    assert gn.local_devices(process_index=0) == [HOST]
    with pytest.raises(ValueError, match="unknown process_index 3"):
        gn.local_devices(process_index=3)
    with pytest.raises(gn.errors.BackendUnavailable, match=r"unknown platform 'tpv'.*'fake'"):
        gn.devices("tpv")


def test_frequencies_on_a_device(devices: tuple[Device, ...]) -> None:
    for make in (gnp.fft.fftfreq, gnp.fft.rfftfreq):
        x = make(4, device=devices[1])
        assert x.devices() == {devices[1]}
        np.testing.assert_array_equal(x, make(4))
        with pytest.raises(TypeError, match="device"):
            make(4, device="nonsense")


def test_an_array_says_where_it_is(devices: tuple[Device, ...]) -> None:
    x = gn.device_put(VALUE, devices[1])
    assert (x.device, x.devices(), x.platform()) == (devices[1], {devices[1]}, "fake")
    assert x.sharding == SingleDeviceSharding(devices[1]) != gnp.zeros(3).sharding
    assert x.sharding.device_set == {devices[1]}
    assert (x.committed, gnp.zeros(3).committed) == (True, False)
    assert x.on_device_size_in_bytes() == 24
    assert devices[1].memory_stats() == {"bytes_in_use": 24, "bytes_limit": 1 << 20}
    assert gn.copy_to_host_async([x])[0] is x
    np.testing.assert_array_equal(x, VALUE)
    assert repr(x) == repr(gnp.asarray(VALUE))
    assert (str(x[0, 0]), float(x[1, 2]), x.tolist()) == ("-2.0", 3.0, VALUE.tolist())
    x.delete()
    assert x.is_deleted()
    assert devices[1].memory_stats()["bytes_in_use"] <= 16  # type: ignore[index]  # indices
    for use in (x.devices, x.on_device_size_in_bytes, x.block_until_ready, lambda: x + 1):
        with pytest.raises(RuntimeError, match="deleted or donated"):
            use()


class Thing:
    """An object that can become an array."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.arange(3, dtype=dtype)


def test_pickle_dlpack_and_device_get_copy_to_the_host(devices: tuple[Device, ...]) -> None:
    x = gn.device_put(VALUE, devices[0])
    back = pickle.loads(pickle.dumps(x))
    assert back.devices() == {HOST}
    np.testing.assert_array_equal(back, VALUE)
    with pytest.raises(BufferError, match=r"lives on FakeDevice\(id=0\)"):
        np.from_dlpack(x)
    copied = x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True)
    assert "dltensor" in repr(copied)
    np.testing.assert_array_equal(np.from_dlpack(gn.device_put(x, HOST)), VALUE)
    got = gn.device_get({"a": x, "b": 3, "c": Thing(), "d": np.float32(2)})
    assert [type(got[name]) for name in "abcd"] == [np.ndarray, int, np.ndarray, np.ndarray]
    assert got["b"] == 3


# ---------------------------------------------------------------------------------------- transfers


def test_device_put(devices: tuple[Device, ...]) -> None:
    first, second = devices
    host = gnp.asarray(VALUE)
    for source in (VALUE, host, gn.device_put(VALUE, second), gn.device_put(VALUE, first)):
        check(gn.device_put(source, first), host, first)
    check(gn.device_put(gn.device_put(VALUE, first), HOST), host, HOST)
    check(gn.device_put(2.0, SingleDeviceSharding(first)), gnp.asarray(2.0), first)
    # Without a device, an array stays where it is.
    x = gn.device_put(VALUE, first)
    assert gn.device_put(x) is x
    check(gn.device_put(VALUE), host, HOST, committed=False)
    # Trees and prefixes of trees.
    tree = {"a": (VALUE, 1), "b": [VALUE]}
    put = gn.device_put(tree, {"a": first, "b": second})
    assert [leaf.device for leaf in gn.tree.leaves(put)] == [first, first, second]
    put = gn.device_put((x, VALUE), (None, second))
    assert [leaf.device for leaf in put] == [first, second]
    with pytest.raises(ValueError, match="device_put: device"):
        gn.device_put(tree, {"a": first})
    with pytest.raises(TypeError, match=r"must be one of gnomon\.devices"):
        gn.device_put(VALUE, "fake")
    key = gn.device_put(gn.random.key(0), first)
    check(gn.random.uniform(key, (3,)), gn.random.uniform(gn.random.key(0), (3,)), first)


def test_a_numpy_array_may_be_written_to_afterwards(devices: tuple[Device, ...]) -> None:
    array = VALUE.copy()
    x, y = gn.device_put(array, devices[0]), gn.device_put(array, HOST)
    array[:] = 7
    np.testing.assert_array_equal(x, VALUE)
    np.testing.assert_array_equal(y, VALUE)


def test_donation_and_aliases_in_device_put(devices: tuple[Device, ...]) -> None:
    first, second = devices
    x = gn.device_put(VALUE, first)
    y = gn.device_put(x, second, donate=True)
    assert x.is_deleted()
    z = gn.device_put(y, second, donate=True)
    assert y.is_deleted()
    check(z, gnp.asarray(VALUE), second)
    before = second.in_use
    same = gn.device_put(z, second)
    assert second.in_use == before
    copied = gn.device_put(z, second, may_alias=False)
    z.delete()
    same.delete()
    np.testing.assert_array_equal(copied, VALUE)
    with pytest.raises(ValueError, match="cannot be True at the same time"):
        gn.device_put(copied, first, donate=True, may_alias=True)


def test_functions_that_make_arrays_take_a_device(devices: tuple[Device, ...]) -> None:
    device = devices[1]
    for made, expected in (
        (gnp.zeros((2,), device=device), gnp.zeros(2)),
        (gnp.full(2, 3, device=SingleDeviceSharding(device)), gnp.full(2, 3)),
        (gnp.ones_like(VALUE, device=device), gnp.ones_like(VALUE)),
        (gnp.arange(3, device=device), gnp.arange(3)),
        (gnp.linspace(0, 1, 3, device=device), gnp.linspace(0, 1, 3)),
        (gnp.eye(2, device=device), gnp.eye(2)),
        (gnp.array([1, 2], device=device), gnp.array([1, 2])),
        (gnp.asarray(VALUE, device=device), gnp.asarray(VALUE)),
        (gnp.astype(VALUE, int, device=device), gnp.astype(VALUE, int)),
        (gnp.asarray(VALUE).to_device(device), gnp.asarray(VALUE)),
    ):
        check(made, expected, device)


# ---------------------------------------------------------------------------------------- eager ops


def several_ops(x: Any) -> Any:
    """Functions of every kind: elementwise, indexed, reduced, contracted, composed, conditional."""
    y = gnp.sin(x) * 2.0 + 1
    z = gnp.sum(y.at[0, 1].set(5.0), axis=0) + x[0] - x[1, 2]
    for row in x:
        z = z + row
    chosen = gnp.where(x > 0, x, 0.0) @ x.T
    return [
        (z, chosen, gnp.linalg.norm(x), x.mean(), gnp.concatenate([x, x]), gnp.argsort(x[0])),
        (x.reshape(3, 2), x.T, -x, x[:, ::-1], x[:, 1:], x.astype(int), gnp.nonzero(x > 0), x == x),
        (2 * gnp.int32(3) + x, np.float32(2) * x, x + VALUE, lax.dynamic_slice(x, (0, 1), (2, 2))),
    ]


def test_eager_ops_stay_on_the_device_and_compile_once(platform: NumpyBackend) -> None:
    device = platform.devices()[1]
    x = gn.device_put(VALUE, device)
    check(several_ops(x), several_ops(gnp.asarray(VALUE)), device)
    compiled, put = platform.counts.compiled, platform.counts.put
    check(several_ops(x + 1), several_ops(gnp.asarray(VALUE) + 1), device)
    assert platform.counts.compiled == compiled
    # The numbers and the NumPy array are on the device; only the indices from the host are new.
    assert platform.counts.put - put <= 2


def test_a_loop_over_elements_compiles_one_program(platform: NumpyBackend) -> None:
    x = gn.device_put(np.arange(10, dtype=np.float32), platform.devices()[0])
    _ = x[0]
    compiled = platform.counts.compiled
    assert [float(x[i]) for i in range(10)] == list(range(10))
    assert platform.counts.compiled == compiled
    assert [float(v) for v in reversed(x[2:8])] == [7, 6, 5, 4, 3, 2]
    assert platform.counts.compiled - compiled == 2


def test_scalars_that_were_broadcast_are_not_transferred(platform: NumpyBackend) -> None:
    x = gn.device_put(np.ones(10000, np.float32), platform.devices()[0])
    _ = x * 2.0
    before = platform.devices()[0].in_use
    y = x * 2.5
    assert platform.devices()[0].in_use - before == 40000 + 4
    assert float(y[7]) == 2.5


def test_uncommitted_arrays_go_where_committed_ones_are(devices: tuple[Device, ...]) -> None:
    first, second = devices
    x = gn.device_put(VALUE, first)
    check(x + gnp.ones(3), gnp.asarray(VALUE + 1), first)
    check(gn.jit(gnp.add)(gnp.ones(3), x), gnp.asarray(VALUE + 1), first)
    other = gn.device_put(VALUE, second)
    with pytest.raises(
        ValueError,
        match=r"operand 0 of add of float32\[2,3\] is committed to FakeDevice\(id=0\), and "
        r"operand 1 of add of float32\[2,3\] to FakeDevice\(id=1\)",
    ):
        x + other
    with pytest.raises(
        ValueError, match=r"'x' of jit of f of .*FakeDevice\(id=0\).*'y'\['a'\].*FakeDevice\(id=1\)"
    ):

        @gn.jit
        def f(x: Any, y: Any) -> Any:
            return x + y["a"]

        f(x, {"a": other})
    with pytest.raises(ValueError, match="CpuDevice"):
        gn.device_put(1.0, HOST) + x


def test_arrays_that_are_committed_to_the_host(devices: tuple[Device, ...]) -> None:
    x = gn.device_put(VALUE, HOST)
    check(several_ops(x), several_ops(gnp.asarray(VALUE)), HOST)
    check(gn.jit(gnp.sin)(x), gnp.sin(gnp.asarray(VALUE)), HOST)
    check(gn.grad(lambda x: (x * x).sum())(x), gnp.asarray(2 * VALUE), HOST)


def test_debug_nans_sees_values_on_devices(devices: tuple[Device, ...]) -> None:
    x = gn.device_put(VALUE, devices[0])
    with gn.debug_nans(True):
        with pytest.raises(FloatingPointError, match="encountered in log"):
            gnp.log(x)
        with pytest.raises(FloatingPointError, match="FakeDevice"):
            gn.grad(lambda x: gnp.log(x).sum() * 0 + gnp.sqrt(x).sum())(x)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_PLATFORMS)
def test_real_platforms(name: str) -> None:
    with plugin_named(name):
        device = gn.devices(name)[-1]
    x, host = gn.device_put(VALUE, device), gnp.asarray(VALUE)

    def compute(x: Any) -> Any:
        def f(v: Any) -> Any:
            return gnp.sum(gnp.exp(v / 4) ** 2)

        y = (x * 2.0 + x[1]).at[0, 1].set(5.0)
        chosen = gnp.where(y > 0, y, 0.0)
        summed = lax.scan(lambda c, row: (c + row, c * row), x[0], x)
        return chosen @ x.T, x > 0, x.astype(int), gn.value_and_grad(f)(y), summed

    for shift in range(2):
        check(compute(x + shift), compute(host + shift), device)
    check(gn.jit(compute)(x), compute(host), device)
    with gn.default_device(device):
        drawn = gn.random.uniform(gn.random.key(0), (3,))
    check(drawn, gn.random.uniform(gn.random.key(0), (3,)), device, committed=False)
    check(gn.device_put(x, HOST), host, HOST)


@pytest.mark.vulkan
def test_each_call_reads_its_own_indices() -> None:
    device = gn.devices("vulkan")[-1]
    x = gn.device_put(np.zeros((2, 3), np.float32), device)
    for i, j in ((0, 1), (1, 2), (0, 0), (1, 1)):
        expected = np.zeros((2, 3), np.float32)
        expected[i, j] = 5
        given = [gn.device_put(np.int32(k), device) for k in (i, j)]
        update = gn.jit(lambda x, i, j: lax.dynamic_update_slice(x, gnp.full((1, 1), 5.0), (i, j)))
        for found in (x.at[i, j].set(5.0), update(x, *given), x.at[i, j].set(5.0)):
            np.testing.assert_array_equal(found, expected)


LOOP = """
import sys, numpy as np, gnomon as gn, gnomon.numpy as gnp
from gnomon.backends.iree import process
x = gn.device_put(np.ones((3, 4), np.float32), gn.devices("vulkan")[0])
for i in range(2):
    y = gnp.exp(x * (2.0 + i) - x[i])
print(float(y[0, 0]), process.COMPILER.pid is not None)
"""


@pytest.mark.slow
@pytest.mark.vulkan
def test_a_second_process_compiles_no_ops() -> None:
    lines = [
        subprocess.run(
            [sys.executable, "-c", LOOP], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    for value, _ in lines:
        assert_near(np.float32(value), np.exp(2), 8)  # Vulkan's exponential: 3 + 2 * 2 units
    assert lines[1][1] == "False"


# ---------------------------------------------------------------------------------- transformations


def test_transformations_outside_of_jit_run_on_the_device(platform: NumpyBackend) -> None:
    device = platform.devices()[1]

    def f(x: Any) -> Any:
        return gnp.sum(gnp.tanh(x) ** 2)

    def loops(x: Any) -> Any:
        return (
            lax.scan(lambda c, row: (c + row, c * row), x[0], x),
            lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, x)),
            lax.fori_loop(0, 3, lambda i, v: v + i, x),
            lax.cond(x[0, 0] > 0, lambda v: v, lambda v: v * 2, x),
            lax.map(lambda row: row @ row, x),
        )

    def derivatives(x: Any) -> Any:
        primal, pullback = gn.vjp(lambda x: gnp.sin(x) @ x.T, x)
        out, linear = gn.linearize(gnp.sin, x)
        return (
            gn.value_and_grad(f)(x),
            gn.jvp(gnp.sin, (x,), (x,)),
            gn.vmap(lambda row: row @ row)(x),
            gn.hessian(lambda v: (v**3).sum())(x[0]),
            pullback(primal),
            linear(out),
            gn.grad(gn.jit(f))(x),
            gn.checkpoint(f)(x),
        )

    x, host = gn.device_put(VALUE, device), gnp.asarray(VALUE)
    check(loops(x), loops(host), device)
    check(derivatives(x), derivatives(host), device)
    compiled = platform.counts.compiled
    check(loops(x), loops(host), device)
    check(derivatives(x), derivatives(host), device)
    assert platform.counts.compiled == compiled
    # Python may still ask for a value.
    check(gn.grad(lambda v: v if v > 0 else -v)(x[0, 0]), gnp.float32(-1), device)


def test_jit(platform: NumpyBackend) -> None:
    first, second = platform.devices()
    x, host = gn.device_put(VALUE, first), gnp.asarray(VALUE)
    f = gn.jit(lambda x, y: {"sum": x + y, "weak": y * 2})
    check(f(x, 1.0), f(host, 1.0), first)
    compiled, runs = platform.counts.compiled, platform.counts.run
    check(f(x, 2.0), f(host, 2.0), first)
    check(f(gn.device_put(x, second), 2.0), f(host, 2.0), second)
    assert (platform.counts.compiled - compiled, platform.counts.run - runs) == (1, 2)
    # Arrays that a function closes over count, too.
    check(gn.jit(lambda v: v + x)(host), host + host, first)
    small = gn.device_put(np.float32(2), second)
    check(gn.jit(lambda v: v * small)(host), 2 * host, second)
    # A platform named in the call wins over the arguments' devices.
    check(gn.jit(gnp.sin, device=second)(x), gnp.sin(host), second)
    check(gn.jit(gnp.sin, backend="fake")(host), gnp.sin(host), first)
    check(gn.jit(gnp.sin, backend="cpu")(x), gnp.sin(host), HOST)
    with pytest.raises(ValueError, match="not both"):
        gn.jit(gnp.sin, device=first, backend="fake")
    with pytest.raises(TypeError, match="must be one of"):
        gn.jit(gnp.sin, device="fake")


def test_donation(platform: NumpyBackend) -> None:
    (device, _) = platform.devices()
    f = gn.jit(lambda x, y: x + y, donate_argnums=0)
    x = gn.device_put(VALUE, device)
    check(f(x, x * 2), gnp.asarray(3 * VALUE), device)
    assert x.is_deleted()
    # A number that is cached on the device is not donated.
    one = gn.device_put(1.0, device) * 0
    for _ in range(2):
        check(gn.jit(lambda a, b: a + b, donate_argnums=0)(1.0, one), gnp.asarray(1.0), device)


def test_ahead_of_time(devices: tuple[Device, ...]) -> None:
    first, second = devices
    x = gn.device_put(VALUE, first)
    compiled = gn.jit(gnp.sin).lower(x).compile()
    check(compiled(x), gnp.sin(gnp.asarray(VALUE)), first)
    check(compiled(VALUE), gnp.sin(gnp.asarray(VALUE)), first)
    struct = gn.ShapeDtypeStruct((2, 3), np.float32, sharding=SingleDeviceSharding(second))
    there = gn.jit(gnp.sin).lower(struct).compile()
    check(there(gn.device_put(VALUE, second)), gnp.sin(gnp.asarray(VALUE)), second)
    with pytest.raises(ValueError, match="incompatible devices"):
        gn.jit(gnp.add).lower(x, struct)
    with pytest.raises(ValueError, match=r"compiled for FakeDevice\(id=0\).*FakeDevice\(id=1\)"):
        compiled(gn.device_put(VALUE, second))


def test_platform_dependent(devices: tuple[Device, ...]) -> None:
    def f(x: Any) -> Any:
        return lax.platform_dependent(x, cpu=lambda x: x, fake=lambda x: -x)

    x = gn.device_put(VALUE, devices[0])
    for g in (f, gn.jit(f)):
        assert float(g(x)[0, 0]) == 2
        assert float(g(gnp.asarray(VALUE))[0, 0]) == -2
    assert float(gn.jit(lambda v: f(v + x))(VALUE)[0, 0]) == 4
    with gn.default_device(devices[0]):
        assert float(gn.jit(f)(1.0)) == -1


def test_callbacks(devices: tuple[Device, ...]) -> None:
    x = gn.device_put(VALUE, devices[0])
    y = gn.pure_callback(lambda v: v * 2, gn.ShapeDtypeStruct((2, 3), np.float32), x)
    check(y, gnp.asarray(VALUE * 2), devices[0])


# ------------------------------------------------------------------------------- the default device


def test_default_device(platform: NumpyBackend) -> None:
    first, second = platform.devices()
    host = gnp.ones(3)
    with gn.default_device(second):
        x = gnp.ones(3)
        check(x, host, second, committed=False)
        check((x + 1, gn.jit(gnp.sin)(x)), (host + 1, gnp.sin(1.0) * host), second, committed=False)
        check(gn.jit(gnp.sin)(np.ones(3, np.float32)), gnp.sin(x), second, committed=False)
        check(
            gn.random.normal(gn.random.key(0), (3,)),
            gn.random.normal(gn.random.key(0), (3,)),
            second,
            committed=False,
        )
        check(gn.device_put(2.0), gnp.asarray(2.0), second, committed=False)
        check(gn.device_put(x, first) + x, host + host, first)
        with gn.default_device("cpu"):
            assert gnp.ones(3).devices() == {HOST}
    # Uncommitted arrays move to the default device, which is the host again.
    check((x + 1, gn.jit(gnp.sin)(x)), (host + 1, gnp.sin(host)), HOST, committed=False)
    with gn.default_device("fake"):
        assert gnp.zeros(2).devices() == {first}
        # Drawing parameters compiles nothing; large arrays are computed on the device.
        compiled = platform.counts.compiled
        drawn = gn.random.normal(gn.random.key(0), (8, 8)) * 2.0
        assert (platform.counts.compiled, drawn.devices()) == (compiled, {first})
        large = gnp.ones(1 << 17, gnp.int8)
        check(large + large, gnp.full(1 << 17, 2, gnp.int8), first, committed=False)
        assert platform.counts.compiled == compiled + 1
    gn.config.update("jax_default_device", second)
    try:
        assert gnp.zeros(2).devices() == {second}
        assert gn.config.gnomon_default_device is second
    finally:
        gn.config.update("gnomon_default_device", None)
    assert gnp.zeros(2).devices() == {HOST}
    with pytest.raises(ValueError, match="takes a device"), gn.default_device(3):
        pass


def test_placement_does_not_change_the_program(platform: NumpyBackend) -> None:
    traces = []

    @gn.jit
    def f(x: Any) -> Any:
        traces.append(1)
        return x + 1

    with gn.default_device("fake"):
        f(gnp.ones(3))
        f(np.ones(3, np.float32))
    assert len(traces) == 1


def test_platforms_in_use(platform: NumpyBackend) -> None:
    gn.config.update("gnomon_platforms", "fake,cpu")
    try:
        assert gn.default_backend() == "fake"
        assert gn.devices() == list(platform.devices())
        check(gnp.arange(3) + 1, gnp.arange(3) + 1, platform.devices()[0], committed=False)
        with pytest.raises(gn.errors.BackendUnavailable, match="GNOMON_PLATFORMS"):
            gn.devices("vulkan")
    finally:
        gn.config.update("gnomon_platforms", None)
    assert gn.devices() == [HOST]


def test_sharding_constraints_of_one_device() -> None:
    here = SingleDeviceSharding(gn.devices()[0])
    constrain = gn.lax.with_sharding_constraint
    x = {"a": gnp.arange(3), "b": 2.0}
    for found in (constrain(x, here), gn.jit(lambda x: constrain(x, {"a": here, "b": here}))(x)):
        assert found["a"].tolist() == [0, 1, 2]
        assert found["a"].sharding == here
        assert float(found["b"]) == 2.0
    assert gn.grad(lambda x: constrain(x, here) ** 2)(3.0) == 6.0

    class Halves(Sharding):
        @property
        def device_set(self) -> set[Any]:
            return {0, 1}

    with pytest.raises(NotImplementedError, match="2 devices"):
        constrain(x, Halves())
    with pytest.raises(ValueError, match="None"):
        constrain(x, None)
    with pytest.raises(TypeError, match="takes shardings"):
        constrain(gnp.arange(3), 3)


def test_lowering_for_a_platform(platform: NumpyBackend) -> None:
    """The program runs on the platform's first device, and sees the platform."""

    def f(x):
        return gn.lax.platform_dependent(x, cpu=lambda x: x + 1, fake=lambda x: x + 2)

    traced = gn.jit(f).trace(VALUE)
    there = traced.lower(lowering_platforms=("fake",)).compile()(VALUE)
    assert there.device == platform.devices()[0]
    np.testing.assert_array_equal(np.asarray(there), VALUE + 2)
    here = traced.lower().compile()(VALUE)
    assert here.device == HOST
    np.testing.assert_array_equal(np.asarray(here), VALUE + 1)
    with pytest.raises(gn.errors.BackendUnavailable):
        traced.lower(lowering_platforms=("nowhere",))
