"""Calls of Python in programs of two processes."""

from __future__ import annotations

import pytest

from tests.backends.distributed.processes import run_all, run_processes

pytest.importorskip("jaxlib")


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

        # Only the process that owns the mesh's first device calls Python, with whole arrays.
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
                gn.pure_callback(function, two, x), "a"
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


_OUTSIDE = """
        from gnomon.experimental import io_callback
        values = np.arange(8, dtype=np.float32)
        log = []
        def twice(x):
            log.append(np.asarray(x).tolist())
            return 2 * np.asarray(x)
        for axis_type in gn.sharding.AxisType.Auto, gn.sharding.AxisType.Explicit:
            mesh = gn.make_mesh((4,), ("i",), (axis_type,))
            for spec in P("i"), P():
                x = gn.device_put(values, gn.NamedSharding(mesh, spec))
                for call in (
                    lambda x: gn.pure_callback(twice, x.aval, x),
                    lambda x: io_callback(twice, x.aval, x),
                    lambda x: io_callback(twice, x.aval, x, ordered=True),
                ):
                    y = call(x)
                    assert y.sharding.mesh == mesh and y.is_fully_replicated, y.sharding
                    assert np.array_equal(y, 2 * values)
                gn.debug.callback(lambda *seen: log.append(seen[1].tolist()), 3, gnp.sum(x))
                gn.debug.print("of all: {}", gnp.max(x))
                for kind in (np.int8, bool, np.complex64):
                    given = gn.device_put(values.astype(kind), gn.NamedSharding(mesh, spec))
                    y = gn.pure_callback(lambda x: np.asarray(x)[::-1], given.aval, given)
                    assert y.dtype == kind and np.array_equal(y, values.astype(kind)[::-1])
        assert log == ([] if process else [*[values.tolist()] * 3, 28] * 4), log
        try:
            gn.pure_callback(lambda x: 1 / 0, x.aval, x)
        except (ZeroDivisionError, gn.errors.ExecutionError) as error:
            assert isinstance(error, ZeroDivisionError) == (process == 0)
        else:
            raise AssertionError("no error")
        own = gn.pure_callback(twice, gn.ShapeDtypeStruct((), np.float32), gnp.float32(process))
        assert own == 2 * process and own.is_fully_addressable
    """

_OVER_SOME_AXES = """
        mesh = gn.make_mesh((2, 2), ("a", "b"), (gn.sharding.AxisType.Auto,) * 2)
        values = np.arange(16, dtype=np.float32).reshape(4, 4)
        x = gn.device_put(values, gn.NamedSharding(mesh, P("a", "b")))
        log = []
        def note(x):
            log.append(np.asarray(x).tolist())
            return np.asarray(x).cumsum(1)
        def f(x):
            y = gn.pure_callback(note, gn.typeof(x), x)
            gn.debug.print("a row of {}", y)
            return y
        for axes, parts in (("a", np.split(values, 2)), ("b", np.split(values, 2, axis=1))):
            spec = P("a") if axes == "a" else P(None, "b")
            mapped = gn.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, axis_names={axes})
            y = gn.jit(mapped)(x)
            expected = np.concatenate([p.cumsum(1) for p in parts], axis=0 if axes == "a" else 1)
            for shard in y.addressable_shards:
                assert np.array_equal(shard.data, expected[shard.index])
        # Over `a`, the process of each row calls; over `b`, that of the first row.
        assert len(log) == (1 if process else 3), log
        assert log[0] == values[2 * process : 2 * process + 2].tolist()
    """


@pytest.mark.slow
def test_calls_outside_of_jitted_functions_and_over_some_axes() -> None:
    ended = run_all(
        {"outside of jitted functions": _OUTSIDE, "in a shard_map over some axes": _OVER_SOME_AXES}
    )
    assert [each.code for each in ended] == [0, 0], ended
    assert ended[0].output.count("of all: 7.0") == 4
    assert "of all" not in ended[1].output
    assert [each.output.count("a row of") for each in ended] == [3, 1]
