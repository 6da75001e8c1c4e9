"""Arrays over the devices of two processes, and values exchanged between them."""

from __future__ import annotations

import signal

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


def test_unreduced_arrays_of_two_processes() -> None:
    ended = run_processes("""
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
    """)
    assert [each.code for each in ended] == [0, 0], ended


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


@pytest.mark.parametrize("signalled", [(1,), (0, 1, 2)])
def test_a_process_that_is_to_end_stops_all_at_the_same_step(signalled: tuple[int, ...]) -> None:
    program = _UNTIL_THE_SYNC_POINT.format(stride=1, signalled=signalled)
    ended = run_processes(program, count=3, devices=1)
    assert [each.code for each in ended] == [0, 0, 0], ended


def test_steps_need_not_be_consecutive() -> None:
    ended = run_processes(_UNTIL_THE_SYNC_POINT.format(stride=10, signalled=(0,)))
    assert [each.code for each in ended] == [0, 0], ended


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


def test_the_signal_is_handled_in_the_main_thread() -> None:
    ended = run_processes(
        """
        import concurrent.futures
        from gnomon.experimental import multihost_utils as utils
        with concurrent.futures.ThreadPoolExecutor() as pool:
            error = pool.submit(utils.reached_preemption_sync_point, 0).exception()
            assert isinstance(error, RuntimeError) and "main thread" in str(error), error
            assert not utils.reached_preemption_sync_point(0)
            assert not pool.submit(utils.reached_preemption_sync_point, 1).result()
        """
    )
    assert [each.code for each in ended] == [0, 0], ended


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


def test_pmap_over_two_processes_and_the_store_of_plugins() -> None:
    ended = run_processes("""
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
    """)
    assert [each.code for each in ended] == [0, 0], ended
    for each in ended:
        assert "this process has 2 of the 4 devices of all processes" in each.output
        assert "axis_size is 3, but there are 4 devices of all processes" in each.output


def test_pmap_in_traced_functions_of_two_processes() -> None:
    ended = run_processes("""
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

        # Rows of one process: over its own devices, and so are collectives.
        own = rows * rows.sum(0)
        check(gn.jit(f)(rows), own)
        check(gn.grad(loss)(gnp.asarray(rows)), np.broadcast_to(2 * rows.sum(0), (2, 2)))
        check(gn.jit(lambda: f(rows))(), own)
        assert gn.jit(f)(rows).devices() == set(gn.local_devices())
        # Outside, rows of one process are part of the rows of all.
        check(f(rows), of_all[mine])
        assert gn.eval_shape(f, rows).shape == (2, 2)
        try:
            gn.jit(f)(np.ones((3, 2), np.float32))
        except ValueError as error:
            print(error)
    """)
    assert [each.code for each in ended] == [0, 0], ended
    for each in ended:
        assert "pmap: axis_size is 4, but the mapped axes have size 3" in each.output


def test_arrays_move_between_meshes_of_the_same_devices() -> None:
    ended = run_processes("""
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
    """)
    assert [each.code for each in ended] == [0, 0], ended


def test_a_process_without_devices_in_the_mesh() -> None:
    ended = run_processes("""
        # As JAX's guide to several processes: half of the devices, all of another process.
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
        # A mesh that is set holds what is made, and toy programs print their results.
        with gn.set_mesh(gn.make_mesh((2, 2), ("i", "j"))):
            ones = gnp.ones((4, 4)) * gnp.arange(4.0)
            assert ones.is_fully_replicated and len(ones.sharding.device_set) == 4
            spread = gn.device_put(ones, P("i", "j"))
            assert float(gnp.sum(spread)) == 24.0
    """)
    assert [each.code for each in ended] == [0, 0], ended


@pytest.mark.slow
def test_calls_of_python() -> None:
    ended = run_processes("""
        local = gnp.arange(3.0)
        shape = gn.ShapeDtypeStruct((3,), np.float32)
        for call in (gn.pure_callback, gn.experimental.io_callback):
            assert np.array_equal(call(np.sin, shape, local), np.sin(np.arange(3, dtype="f")))
            sines = gn.jit(lambda x: call(np.sin, shape, x))(local)
            assert np.array_equal(sines, np.sin(np.arange(3, dtype="f")))
        gn.debug.print("eagerly: {}", local)
        gn.jit(lambda x: gn.debug.print("compiled: {}", x))(local)
        values, _ = gn.jit(gnp.linalg.eig)(gnp.outer(local, local))
        assert np.allclose(values, [5, 0, 0], atol=1e-5)

        # One process calls with whole arrays, the owner of the mesh's first device.
        mesh = gn.make_mesh((4,), ("a",), axis_types=(gn.sharding.AxisType.Auto,))
        x = gn.device_put(np.arange(8, dtype="f"), gn.NamedSharding(mesh, P("a")))
        eight = gn.ShapeDtypeStruct((8,), np.float32)
        log = []

        def f(x):
            gn.debug.callback(lambda x: log.append(x.tolist()), x)
            return gnp.sum(gn.pure_callback(np.cumsum, eight, x))

        assert float(gn.jit(f)(x)) == 84
        assert log == ([] if process else [list(range(8))])
        gn.jit(lambda x: gn.debug.print("of both: {}", x))(x)
        largest = gn.jit(lambda x: gnp.max(gnp.linalg.eigvals(gnp.outer(x, x)).real))(x)
        assert np.allclose(largest, 140, rtol=1e-5)

        # In a shard_map, each process calls for its devices.
        def mapped(function, x):
            two = gn.ShapeDtypeStruct((2,), np.float32)
            f = lambda x: lax.psum(
                gn.pure_callback(function, two, x, vmap_method="sequential"), "a"
            )
            return gn.jit(gn.shard_map(f, mesh=mesh, in_specs=P("a"), out_specs=P()))(x)

        log.clear()
        assert mapped(lambda x: log.append(x.tolist()) or x, x).tolist() == [12, 16]
        assert sorted(log) == [[4 * process, 4 * process + 1], [4 * process + 2, 4 * process + 3]]

        class Failure(Exception):
            pass

        def fail(x):
            raise Failure

        def fail_in_process_1(x):
            return fail(x) if process else x

        for run, where in (
            (lambda: mapped(fail_in_process_1, x), {1}),
            (lambda: mapped(fail, x), {0, 1}),
            (lambda: gn.jit(lambda x: gn.pure_callback(fail, eight, x))(x), {0}),
        ):
            try:
                run()
            except Failure:
                assert process in where
            except gn.errors.ExecutionError as error:
                assert process not in where and f"in process {1 - process}" in str(error)
            else:
                raise AssertionError("no error")
        assert float(gn.jit(gnp.sum)(x)) == 28
    """)
    assert [each.code for each in ended] == [0, 0], ended
    for each in ended:
        assert "eagerly: [0. 1. 2.]" in each.output
        assert "compiled: [0. 1. 2.]" in each.output
    assert "of both: [0. 1. 2. 3. 4. 5. 6. 7.]" in ended[0].output
    assert "of both" not in ended[1].output


@pytest.mark.slow
def test_a_process_dies_in_a_callback() -> None:
    alive, dead = run_processes("""
        mesh = gn.make_mesh((4,), ("a",), axis_types=(gn.sharding.AxisType.Auto,))
        x = gn.device_put(np.arange(8, dtype="f"), gn.NamedSharding(mesh, P("a")))

        def die(x):
            if process:
                os._exit(3)

        def f(x):
            gn.debug.callback(die, x)
            return lax.psum(x, "a")

        try:
            gn.jit(gn.shard_map(f, mesh=mesh, in_specs=P("a"), out_specs=P()))(x)
        except gn.errors.DistributedError as error:
            print(error)
    """)
    assert (alive.code, dead.code) == (0, 3), alive
    assert "process 1 of 2 is gone" in alive.output
