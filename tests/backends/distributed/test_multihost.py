"""Arrays over the devices of two processes, and values exchanged between them."""

from __future__ import annotations

import signal

import pytest

from tests.backends.distributed.processes import run_all, run_processes

pytest.importorskip("jaxlib")


_VALUES = """
        from gnomon.experimental import multihost_utils as utils
        mesh = gn.make_mesh((2, 2), ("processes", "devices"))
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        spec = P("processes", "devices")
        spread = gn.device_put(x, gn.NamedSharding(mesh, spec))
        assert not spread.is_fully_addressable
        assert [s.data.shape for s in spread.addressable_shards] == [(2, 1), (2, 1)]
        assert gn.jit(gnp.sum)(spread) == x.sum()
        total = gn.shard_map(
            lambda x: lax.psum(x, "processes"), mesh=mesh, in_specs=spec,
            out_specs=P(None, "devices"),
        )
        assert np.array_equal(utils.process_allgather(gn.jit(total)(spread)), x[:2] + x[2:])
        gradient = gn.jit(gn.grad(lambda x: gnp.sum(x * x)))(spread)
        assert np.array_equal(utils.process_allgather(gradient), 2 * x)
        try:
            np.asarray(spread)
        except gn.errors.GnomonRuntimeError as error:
            assert "process_allgather" in str(error)
        else:
            raise AssertionError("a part of another process was read")

        local = x[2 * process :][:2]
        whole = utils.host_local_array_to_global_array(local, mesh, spec)
        assert np.array_equal(utils.process_allgather(whole), x)
        back = utils.global_array_to_host_local_array(whole, mesh, spec)
        assert back.is_fully_addressable and np.array_equal(back, local)

        number = np.int64(2**40 + process)
        every = utils.process_allgather({"a": number})["a"]
        assert every.dtype == np.int64 and every.tolist() == [2**40, 2**40 + 1]
        tiled = utils.process_allgather(np.full(1, process), tiled=True)
        assert tiled.tolist() == [0, 1]
        assert utils.broadcast_one_to_all(number) == 2**40
        assert utils.broadcast_one_to_all(number, is_source=process == 1) == 2**40 + 1
        utils.sync_global_devices("before")
        utils.assert_equal({"x": x})
        try:
            utils.assert_equal({"x": x + process}, "they differ")
        except AssertionError as error:
            assert "they differ: ['x'] of process 1" in str(error)
        else:
            raise AssertionError("different values are equal")
        print("all values were as expected")

        if process == 1:
            gn.jit(lambda x: x + 1)(spread)
        else:
            gn.jit(lambda x: x + 2)(spread)
    """


_UNTIL_THE_SYNC_POINT = """
        from gnomon.experimental import multihost_utils as utils
        for step in range(0, 20000, {stride}):
            if utils.reached_preemption_sync_point(step):
                break
            if step == 2 * {stride} and process in {signalled}:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.001 * (1 + process))
        else:
            raise AssertionError("the signal had no effect")
        assert step > 2 * {stride}
        assert not utils.reached_preemption_sync_point(step + 1)
        utils.assert_equal(np.array(step), "the steps")
"""


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(("signalled", "stride"), [((1,), 1), ((0, 1, 2), 10)])
def test_a_process_that_is_to_end_stops_all_at_the_same_step(
    signalled: tuple[int, ...], stride: int
) -> None:
    """Steps need not be consecutive."""
    program = _UNTIL_THE_SYNC_POINT.format(stride=stride, signalled=signalled)
    ended = run_processes(program, count=3, devices=1)
    assert [each.code for each in ended] == [0, 0, 0], ended


@pytest.mark.slow
def test_processes_that_have_ended_or_not_begun_choose_no_step() -> None:
    ended = run_processes(
        """
        from gnomon.experimental import multihost_utils as utils
        if process == 2:
            sys.exit()
        if process == 1:
            time.sleep(2)
        for step in range(20000):
            if utils.reached_preemption_sync_point(step):
                break
            if step == 2 and process == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.001)
        print(step)
        """,
        count=3,
        devices=1,
    )
    assert [each.code for each in ended] == [0, 0, 0], ended
    assert ended[0].output == ended[1].output


@pytest.mark.slow
def test_the_second_signal_ends_the_process() -> None:
    ended = run_processes(
        """
        from gnomon.experimental import multihost_utils as utils
        utils.reached_preemption_sync_point(0)
        if process == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            print("one", flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
        utils.sync_global_devices("never reached")
        """,
        kill=(1,),
    )
    assert "process 1 of 2 is gone" in ended[0].errors, ended
    assert (ended[1].code, ended[1].output) == (-signal.SIGTERM, "one\n"), ended


def test_one_process_has_no_peers() -> None:
    (only,) = run_processes(
        """
        from gnomon.experimental import multihost_utils as utils
        assert utils.process_allgather(np.arange(2)).tolist() == [[0, 1]]
        assert utils.broadcast_one_to_all(np.arange(2)).tolist() == [0, 1]
        utils.sync_global_devices("here")
        utils.assert_equal(np.ones(3))
        assert not utils.reached_preemption_sync_point(0)
        """,
        count=1,
        connect=False,
    )
    assert only.code == 0, only


_UNREDUCED = """
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        terms, whole = P(unreduced={"i"}), P()
        with gn.set_mesh(gn.make_mesh((4,), ("i",))):
            rows = gn.device_put(x, P("i"))
            sums = gn.jit(lambda t: gnp.einsum("ij,ik->jk", t, t, out_sharding=terms))(rows)
            assert str(gn.typeof(sums + sums)) == "float32[2,2]{U:i}"
            assert np.asarray(sums.addressable_data(0)).sum() == (0 if process else (x.T @ x).sum())
            assert np.array_equal(gn.reshard(sums, whole), x.T @ x)
            w = gn.reshard(gnp.ones((2, 2)), P(reduced={"i"}))
            gradient = gn.jit(gn.grad(lambda w: gnp.sum(rows @ w)))(w)
            assert str(gn.typeof(gradient)) == "float32[2,2]{U:i}"
            assert np.array_equal(gn.reshard(gradient, whole), np.stack([x.sum(0)] * 2, 1))
            mapped = gn.shard_map(lambda t: t, in_specs=P("i"), out_specs=terms)(rows)
            assert np.array_equal(gn.reshard(mapped, whole), x.sum(0, keepdims=True))
    """

_BETWEEN_MESHES = """
        from gnomon.sharding import AxisType
        value = np.arange(24, dtype=np.float32).reshape(4, 6)
        Auto = AxisType.Auto
        shape = {"i": (4,), "jk": (2, 2)}
        meshes = {n: gn.make_mesh(s, tuple(n), (Auto,) * len(n)) for n, s in shape.items()}
        specs = {"i": [P("i"), P()], "jk": [P("j", "k"), P(("k", "j")), P(None, "k")]}
        for one, other in (("i", "jk"), ("jk", "i")):
            for first in specs[one]:
                for second in specs[other]:
                    x = gn.device_put(value, gn.NamedSharding(meshes[one], first))
                    target = gn.NamedSharding(meshes[other], second)
                    y = gn.device_put(x, target)
                    assert y.sharding == target
                    for shard in y.addressable_shards:
                        assert np.array_equal(shard.data, value[shard.index]), (first, second)
                    mapped = gn.shard_map(
                        lambda x: 2 * x, mesh=meshes[other], in_specs=second, out_specs=second
                    )
                    for shard in gn.jit(mapped)(x).addressable_shards:
                        assert np.array_equal(shard.data, 2 * value[shard.index])
    """

_WITHOUT_DEVICES = """
        # The mesh has half of the devices, all of which are process 1's.
        mesh = gn.make_mesh((2,), ("a",), devices=gn.devices()[2:])
        x = gn.device_put(np.arange(8.0).reshape(2, 4), gn.NamedSharding(mesh, P("a")))
        assert len(x.addressable_shards) == (2 if process else 0)
        total = gn.jit(lambda x: gnp.sum(gnp.sin(x)))(x)
        eager = gnp.sum(gnp.sin(x))
        if process:
            assert abs(float(total) - np.sin(np.arange(8)).sum()) < 1e-5
            assert abs(float(eager) - float(total)) < 1e-5
        else:
            assert total.addressable_shards == [] and total.shape == ()
            assert repr(total) == repr(eager) == "Array(shape=(), dtype=float32)"
        # Under `set_mesh`, new arrays are over the whole mesh, and both processes can read a sum.
        with gn.set_mesh(gn.make_mesh((2, 2), ("i", "j"))):
            ones = gnp.ones((4, 4)) * gnp.arange(4.0)
            assert ones.is_fully_replicated and len(ones.sharding.device_set) == 4
            spread = gn.device_put(ones, P("i", "j"))
            assert float(gnp.sum(spread)) == 24.0
    """

_IN_THREADS = """
        import concurrent.futures
        from gnomon.experimental import multihost_utils as utils
        with concurrent.futures.ThreadPoolExecutor() as pool:
            error = pool.submit(utils.reached_preemption_sync_point, 0).exception()
            assert isinstance(error, RuntimeError) and "main thread" in str(error), error
            assert not utils.reached_preemption_sync_point(0)
            assert not pool.submit(utils.reached_preemption_sync_point, 1).result()
        """


def test_arrays_and_values_of_two_processes() -> None:
    """The last program is another one in each process."""
    ended = run_all(
        {
            "unreduced arrays": _UNREDUCED,
            "arrays move between meshes of the same devices": _BETWEEN_MESHES,
            "a process without devices in the mesh": _WITHOUT_DEVICES,
            "signals are handled in the main thread": _IN_THREADS,
            "values": _VALUES,
        }
    )
    assert all("all values were as expected" in each.output for each in ended), ended
    assert all(each.code == 1 for each in ended), ended
    assert all("DistributedError" in each.errors for each in ended)
    assert any("do not run the same program" in each.errors for each in ended)
