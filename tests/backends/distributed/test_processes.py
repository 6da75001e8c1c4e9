"""Programs of two processes: their devices, and how they end."""

from __future__ import annotations

import pytest

from tests.backends.distributed.processes import run_processes

pytest.importorskip("jaxlib")


def test_the_devices_are_those_of_all_processes() -> None:
    ended = run_processes("""
        assert gn.distributed.is_initialized()
        assert gn.process_index() == process and gn.process_count() == count == 2
        assert len(gn.devices()) == gn.device_count() == 4 and gn.devices() == gn.devices("cpu")
        assert [d.process_index for d in gn.devices()] == [0, 0, 1, 1]
        assert gn.local_devices() == gn.devices()[2 * process :][:2]
        assert gn.local_device_count() == 2
        assert gn.local_devices(process_index=0) == gn.devices()[:2]
        x = gnp.arange(3.0)
        assert x.devices() == {gn.local_devices()[0]} and not x.committed
        assert gn.jit(gnp.sum)(x) == 3 and gn.grad(gnp.sum)(x)[0] == 1
        assert gn.device_put(x, gn.local_devices()[1]).devices() == {gn.local_devices()[1]}
        other = gn.devices()[2 - 2 * process]
        try:
            gn.device_put(x, other)
        except ValueError as error:
            assert "belongs to process" in str(error), error
        else:
            raise AssertionError("an array was put on a device of the other process")
        try:
            gn.distributed.initialize()
        except RuntimeError as error:
            assert "should only be called once" in str(error)
        else:
            raise AssertionError("it was initialized twice")
        gn.distributed.shutdown()
        assert not gn.distributed.is_initialized()
        print("done")
    """)
    assert [each.code for each in ended] == [0, 0], ended
    assert all("done" in each.output for each in ended)


@pytest.mark.slow
def test_processes_that_do_not_find_each_other() -> None:
    """One waits for a process that does not come, and that one for no coordinator."""
    program = """
        if process == 1:
            os.environ["GNOMON_COORDINATOR_ADDRESS"] = "127.0.0.1:1"
        start = time.monotonic()
        try:
            gn.distributed.initialize(initialization_timeout=2, heartbeat_timeout_seconds=5)
        except gn.errors.DistributedError as error:
            print(error, "|", time.monotonic() - start)
    """
    first, second = run_processes(program, connect=False)
    assert (first.code, second.code) == (0, 0), (first, second)
    message, _, seconds = first.output.partition("|")
    assert "process 1 of 2 did not connect to the coordinator within 2 s" in message
    assert float(seconds) < 10
    assert "process 1 cannot reach the coordinator at 127.0.0.1:1" in second.output


# How process 1 leaves the program, and what process 0 learns of it.
_ENDINGS = {
    "died": ("os._exit(3)", "process 1 of 2 is gone: its connection was closed"),
    "raised": ('raise ValueError("too bad")', "it raised ValueError: too bad"),
    "ended": ("sys.exit()", "process 1 of 2 has ended its program"),
    "stopped": ("os.kill(os.getpid(), signal.SIGSTOP)", "nothing was heard from it for 4 s"),
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", _ENDINGS)
def test_the_others_learn_of_the_end_of_a_process(ending: str) -> None:
    how, message = _ENDINGS[ending]
    program = f"""
        if process == 1:
            gn.devices()
            {how}
        connection = gn.distributed._processes.connection()
        try:
            gn.devices()  # which may be seconds later than in the other process
            connection.agree("a program", "digest", (0, 1))
        except gn.errors.DistributedError as error:
            print(error)
            sys.exit(7)
    """
    first, second = run_processes(program, heartbeat=4, kill=[1] if ending == "stopped" else [])
    assert first.code == 7, first
    assert message in first.output
    assert second.code == {"died": 3, "raised": 1, "ended": 0, "stopped": -9}[ending]


@pytest.mark.slow
def test_the_coordinator_dies() -> None:
    program = """
        if process == 0:
            gn.devices()
            os._exit(3)
        connection = gn.distributed._processes.connection()
        try:
            gn.devices()  # which may be seconds later than in the other process
            connection.agree("a program", "digest", (0, 1))
        except gn.errors.DistributedError as error:
            print(error)
            sys.exit(7)
    """
    first, second = run_processes(program)
    assert (first.code, second.code) == (3, 7), second
    assert "is gone: its connection was closed: process 0 died" in second.output
