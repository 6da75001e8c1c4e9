"""`pmap` over the devices of two processes."""

from __future__ import annotations

import pytest

from tests.backends.distributed.processes import run_all

pytest.importorskip("jaxlib")

_EAGER = """
        rows = np.arange(4, dtype=np.float32).reshape(2, 2) + 10 * process
        every = np.concatenate([rows - 10 * process + 10 * p for p in range(2)])
        f = gn.pmap(lambda x, s: x + s * lax.psum(x, "i"), axis_name="i", in_axes=(0, None))
        y = f(rows, 2.0)
        assert y.shape == (2, 2) and y.is_fully_addressable
        assert y.devices() == set(gn.local_devices())
        assert np.array_equal(y, rows + 2 * every.sum(0))
        again = f(y, 1.0)  # the rows are where they are needed
        assert again.shape == (2, 2)
        index = gn.pmap(lambda x: lax.axis_index("i") + 0 * x, axis_name="i")(rows[:, 0])
        assert np.array_equal(index, [2 * process, 2 * process + 1])
        columns = gn.pmap(lambda x: 2 * x, in_axes=1, out_axes=1)(rows[:1])
        assert np.array_equal(columns, 2 * rows[:1])
        total = gn.pmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None)(rows)
        assert np.array_equal(total, every.sum(0))
        tree = gn.pmap(lambda t, n: {"a": t["a"] * n}, static_broadcasted_argnums=1)({"a": rows}, 3)
        assert np.array_equal(tree["a"], 3 * rows)
        # The store of the clients of plugins.
        from tests.backends.pjrt.test_key_values import Plugin
        plugin = Plugin(gn.distributed._processes.connection())
        assert plugin.call("kv_try_get", "KeyValueTryGet", b"never") is None
        assert plugin.put(b"from/%d" % process, bytes([0, process])) == b""
        for other in range(2):
            key = b"from/%d" % other
            value = plugin.call("kv_get", "KeyValueGet", key, timeout_in_ms=60000)
            assert value == bytes([0, other]), (value, plugin.errors)
        assert plugin.call("kv_get", "KeyValueGet", b"never", timeout_in_ms=10) is None
        assert [code for code, _ in plugin.errors] == ["NOT_FOUND", "DEADLINE_EXCEEDED"]

        own = gn.pmap(lambda x: lax.psum(x, "i"), axis_name="i", devices=gn.local_devices())(rows)
        assert np.array_equal(own, np.broadcast_to(rows.sum(0), (2, 2)))
        for wrong, kind in (
            (lambda: f(np.ones((4, 2), np.float32), 1.0), ValueError),
            (lambda: gn.pmap(lambda x: x, axis_size=3)(rows), ValueError),
        ):
            try:
                wrong()
            except kind as error:
                print(error)
            else:
                raise AssertionError("no error")
    """

_TRACED = """
        rows = np.arange(4, dtype=np.float32).reshape(2, 2) + 10 * process
        every = np.arange(4, dtype=np.float32).reshape(2, 2) + np.array([0, 10]).reshape(2, 1, 1)
        every = every.reshape(4, 2)
        f = gn.pmap(lambda x: x * lax.psum(x, "i"), axis_name="i", axis_size=4)
        mesh = gn.make_mesh((4,), ("i",), (gn.sharding.AxisType.Auto,))
        x = gn.make_array_from_process_local_data(gn.NamedSharding(mesh, P("i")), rows)
        mine = slice(2 * process, 2 * process + 2)

        def check(found, expected):
            assert found.shape == expected.shape, (found.shape, expected.shape)
            if found.is_fully_addressable:
                assert np.allclose(found, expected), (found, expected)
                return
            for shard in found.addressable_shards:
                assert np.allclose(shard.data, expected[shard.index]), (shard, expected)

        # Arrays of all processes: the function is mapped over all devices.
        of_all = every * every.sum(0)
        slope = np.broadcast_to(2 * every.sum(0), (4, 2))
        tangent = every.sum(0) + 4 * every
        loss = lambda x: f(x).sum()
        check(gn.jit(f)(x), of_all)
        check(gn.jit(gn.grad(loss))(x), slope)
        check(gn.grad(loss)(x), slope)
        check(gn.jit(lambda x: gn.jvp(f, (x,), (gnp.ones_like(x),))[1])(x), tangent)
        scanned = lambda x: lax.scan(lambda c, _: (f(c) / 9, c.sum()), x, None, 1)[0]
        check(gn.jit(scanned)(x), of_all / 9)
        check(gn.jit(lambda x: lax.cond(x[0, 1] > 0, f, lambda x: x, x))(x), of_all)
        check(gn.jit(lambda x: gn.vmap(f)(gnp.stack([x, -x])))(x), np.stack([of_all, of_all]))
        total = gn.pmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None)
        check(gn.jit(total)(x), every.sum(0))
        index = gn.pmap(lambda x: lax.axis_index("i") + 0 * x, "i", devices=gn.devices())
        check(gn.jit(lambda x: index(x[:, 0]))(x), np.arange(4.0))
        empty = gn.jit(lambda x: gn.pmap(lambda x: x + 1)(x[:, :0]))(x)
        assert empty.shape == (4, 0)

        # Rows of one process are mapped over its own devices; collectives are over these as well.
        own = rows * rows.sum(0)
        check(gn.jit(f)(rows), own)
        check(gn.grad(loss)(gnp.asarray(rows)), np.broadcast_to(2 * rows.sum(0), (2, 2)))
        check(gn.jit(lambda: f(rows))(), own)
        assert gn.jit(f)(rows).devices() == set(gn.local_devices())
        # Without `jit`, the rows of one process are its part of the rows of all.
        check(f(rows), of_all[mine])
        assert gn.eval_shape(f, rows).shape == (2, 2)
        try:
            gn.jit(f)(np.ones((3, 2), np.float32))
        except ValueError as error:
            print(error)
    """


@pytest.mark.slow
def test_pmap_over_two_processes_and_the_store_of_plugins() -> None:
    ended = run_all({"eager calls and the store": _EAGER, "in traced functions": _TRACED})
    assert [each.code for each in ended] == [0, 0], ended
    for each in ended:
        assert "this process has 2 of the 4 devices of all processes" in each.output
        assert "axis_size is 3, but there are 4 devices of all processes" in each.output
        assert "pmap: axis_size is 4, but the mapped axes have size 3" in each.output
