"""Arrays over the devices of two processes, and values exchanged between them."""

from __future__ import annotations

import pytest

from tests.backends.distributed.processes import run_processes

pytest.importorskip("jaxlib")


def test_arrays_and_values_of_two_processes() -> None:
    ended = run_processes("""
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

        if process == 1:
            gn.jit(lambda x: x + 1)(spread)
        else:
            gn.jit(lambda x: x + 2)(spread)
    """)
    assert all(each.code == 1 for each in ended), ended
    assert all("DistributedError" in each.errors for each in ended)
    assert any("do not run the same program" in each.errors for each in ended)


def test_one_process_has_no_peers() -> None:
    (only,) = run_processes(
        """
        from gnomon.experimental import multihost_utils as utils
        assert utils.process_allgather(np.arange(2)).tolist() == [[0, 1]]
        assert utils.broadcast_one_to_all(np.arange(2)).tolist() == [0, 1]
        utils.sync_global_devices("here")
        utils.assert_equal(np.ones(3))
        """,
        count=1,
        connect=False,
    )
    assert only.code == 0, only
