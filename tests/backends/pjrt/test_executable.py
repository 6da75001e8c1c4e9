"""Programs on a plugin's devices: run, donate, fail, serialize, end."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from gnomon.backends import profiling
from gnomon.backends.errors import (
    BufferDeletedError,
    CompilationFailed,
    ExecutionError,
    OutOfMemory,
)
from gnomon.backends.pjrt.backend import PjrtBackend
from gnomon.backends.pjrt.buffer import put
from gnomon.backends.pjrt.client import Device
from gnomon.backends.pjrt.compilation import compile_loaded, load_serialized
from gnomon.backends.pjrt.executable import Executable, Signature
from gnomon.backends.pjrt.plugin import PluginSpec
from gnomon.dialects.mlir import stablehlo
from gnomon.dialects.types import TensorType
from tests.conftest import cpu_plugin

pytestmark = pytest.mark.pjrt

F32 = np.dtype(np.float32)


def artifact(text: str) -> bytes:
    return stablehlo.serialize_portable_artifact_str(text, "1.0.0")


def vector(size: int) -> list[TensorType]:
    return [TensorType((size,), F32)]


def double(size: int) -> bytes:
    t = f"tensor<{size}xf32>"
    return artifact(
        f"module {{ func.func public @main(%a: {t}) -> {t} "
        f"{{ %0 = stablehlo.add %a, %a : {t} return %0 : {t} }} }}"
    )


@pytest.fixture(scope="module")
def doubled(backend: PjrtBackend) -> Executable:
    device = backend.devices()[0]
    return compile_loaded(backend.client, double(4), Signature([device], vector(4), vector(4)))


def test_arrays_and_buffers_as_arguments(doubled: Executable, device: Device) -> None:
    array = np.arange(4, dtype=np.float32)
    (result,) = doubled([array])
    array[:] = 0
    assert result.to_numpy().tolist() == [0, 2, 4, 6]
    (again,) = doubled([result])
    assert again.to_numpy().tolist() == [0, 4, 8, 12]


def test_arguments_that_do_not_fit(doubled: Executable, backend: PjrtBackend) -> None:
    array = np.zeros(4, np.float32)
    with pytest.raises(TypeError, match="takes 1 arguments, got 2"):
        doubled([array, array])
    with pytest.raises(TypeError, match=r"has shape \(3,\) and dtype float32.*shape \(4,\)"):
        doubled([array[:3]])
    with pytest.raises(TypeError, match=r"dtype float64.*dtype float32"):
        doubled([array.astype(np.float64)])
    with pytest.raises(TypeError, match="must be a NumPy array or a Buffer, got list"):
        doubled([[0.0]])
    elsewhere = put(array, backend.devices()[1])
    with pytest.raises(TypeError, match=r"is on Xla_cpuDevice\(id=1\).*Xla_cpuDevice\(id=0\)"):
        doubled([elsewhere])
    with pytest.raises(ExecutionError, match=r"failed to start.*device"):
        doubled.run([elsewhere])
    deleted = put(array, backend.devices()[0])
    deleted.delete()
    with pytest.raises(BufferDeletedError, match="used after delete"):
        doubled([deleted])
    assert doubled([array])[0].to_numpy().tolist() == [0, 0, 0, 0]


def test_a_loop_of_calls_leaks_nothing(doubled: Executable, device: Device) -> None:
    client = doubled.client
    buffer = put(np.ones(4, np.float32), device)
    doubled.run([buffer])
    gc.collect()
    before, idle = len(client.owned), len(doubled._idle)
    for _ in range(2000):
        doubled.run([buffer])
    assert len(client.owned) == before
    assert len(doubled._idle) == idle == 1


# --------------------------------------------------------------------------------------- donation

TWO = """
module { func.func public @main(%a: tensor<65536xf32> {DONATED}, %b: tensor<65536xf32>)
    -> tensor<65536xf32> {
  %0 = stablehlo.add %a, %b : tensor<65536xf32>
  return %0 : tensor<65536xf32> } }
"""


@pytest.fixture(scope="module", params=["tf.aliasing_output = 0 : i32", "jax.buffer_donor = true"])
def accumulate(request: pytest.FixtureRequest, backend: PjrtBackend) -> Executable:
    return compile_loaded(
        backend.client,
        artifact(TWO.replace("DONATED", request.param)),
        Signature([backend.devices()[0]], vector(65536) * 2, vector(65536), donate=(0,)),
    )


def test_a_donated_argument_is_overwritten(accumulate: Executable, device: Device) -> None:
    ones = np.ones(65536, np.float32)
    total, step = put(ones, device, copy=True), put(ones, device)
    assert total.to_numpy()[0] == 1  # read once, by an object that is gone
    api, start = device.client.api, total.memory
    address = api.call("Buffer_UnsafePointer", buffer=start.handle).pointer
    (result,) = accumulate.run([total, step])
    assert total.is_deleted() and not step.is_deleted()
    with pytest.raises(BufferDeletedError, match="donated to a call"):
        total.to_numpy()
    assert result.to_numpy()[-1] == 2
    assert result.to_numpy().ctypes.data == address


def test_values_with_other_readers_are_not_overwritten(
    accumulate: Executable, device: Device
) -> None:
    ones = np.ones(65536, np.float32)
    step = put(ones, device)
    seen = put(ones, device, copy=True)
    view = seen.to_numpy()
    (result,) = accumulate.run([seen, step])
    assert result.to_numpy()[0] == 2 and view[0] == 1
    # The same buffer twice: once to be overwritten, once to be read.
    twice = put(ones, device, copy=True)
    (result,) = accumulate.run([twice, twice])
    assert result.to_numpy()[0] == 2 and twice.is_deleted()
    # NumPy's own memory.
    borrowed = put(ones, device)
    (result,) = accumulate.run([borrowed, step])
    assert result.to_numpy()[0] == 2 and ones[0] == 1


# --------------------------------------------------------------------------------- several devices


def test_a_collective_over_two_devices(backend: PjrtBackend) -> None:
    text = """
module { func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "stablehlo.all_reduce"(%x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32> })
    {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32> } }
"""
    devices = backend.devices()
    signature = Signature(devices, vector(8), vector(8))
    program = compile_loaded(backend.client, artifact(text), signature)
    given = np.arange(16, dtype=np.float32).reshape(2, 8)
    arguments = [[put(x, device)] for x, device in zip(given, devices, strict=True)]
    for _ in range(3):
        results = program.run_on_all(arguments)
        assert [r.device for (r,) in results] == list(devices)
        for (result,) in results:
            np.testing.assert_array_equal(result.to_numpy(), given.sum(0))
    with pytest.raises(TypeError, match="runs on 2 devices, got arguments for 1"):
        program.run_on_all(arguments[:1])


def test_partitions_of_one_program(backend: PjrtBackend) -> None:
    """The compiler splits a program whose arguments have shardings."""
    sharding = 'mhlo.sharding = "{devices=[2]<=[2]}"'
    text = f"""
module attributes {{mhlo.num_partitions = 2 : i32}} {{
  func.func public @main(%x: tensor<8xf32> {{{sharding}}}) -> (tensor<8xf32> {{{sharding}}}) {{
    %0 = stablehlo.reverse %x, dims = [0] : tensor<8xf32>
    return %0 : tensor<8xf32> }} }}
"""
    program = compile_loaded(
        backend.client,
        artifact(text),
        Signature(backend.devices(), vector(4), vector(4)),
        partitions=2,
    )
    given = np.arange(8, dtype=np.float32)
    halves = [
        [put(x, device)] for x, device in zip(given.reshape(2, 4), backend.devices(), strict=True)
    ]
    results = [result.to_numpy() for (result,) in program.run_on_all(halves)]
    np.testing.assert_array_equal(np.concatenate(results), given[::-1])


# ----------------------------------------------------------------------------------------- errors


def test_programs_that_need_too_much_memory(backend: PjrtBackend, doubled: Executable) -> None:
    size = 1 << 46
    text = f"""
module {{ func.func public @main(%a: tensor<4xf32>) -> tensor<{size}x4xf32> {{
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<4xf32>) -> tensor<{size}x4xf32>
  return %0 : tensor<{size}x4xf32> }} }}
"""
    device = backend.devices()[0]
    signature = Signature([device], vector(4), [TensorType((size, 4), F32)])
    buffer = put(np.ones(4, np.float32), device)
    # If the program has started, the error is raised when the value is read.
    with pytest.raises(OutOfMemory, match="RESOURCE_EXHAUSTED"):
        program = compile_loaded(backend.client, artifact(text), signature)
        program.run([buffer])[0].wait()
    assert doubled([buffer])[0].to_numpy().tolist() == [2, 2, 2, 2]


def test_programs_that_the_compiler_refuses(backend: PjrtBackend) -> None:
    signature = Signature([backend.devices()[0]], vector(4), vector(4))
    call = """
module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @nobody.knows(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32> } }
"""
    for code in (artifact(call), b"no program"):
        with pytest.raises((CompilationFailed, ExecutionError), match=r"'xla_cpu'|nobody.knows"):
            program = compile_loaded(backend.client, code, signature)
            program([np.zeros(4, np.float32)])[0].wait()


# -------------------------------------------------------------------------------------- inspection


def test_analyses_of_a_program(doubled: Executable) -> None:
    memory = doubled.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 16
    assert doubled.cost_analysis()["bytes accessed"] > 0
    text = doubled.as_text()
    assert text.startswith("HloModule") and "ENTRY" in text
    assert "f32[4]{0} parameter(0)" in text and "add(" in text


def test_serialized_programs_run_again(doubled: Executable, device: Device) -> None:
    signature = Signature([device], vector(4), vector(4))
    data = doubled.serialize()
    loaded = load_serialized(doubled.client, data, signature)
    assert loaded([np.ones(4, np.float32)])[0].to_numpy().tolist() == [2, 2, 2, 2]
    with pytest.raises(CompilationFailed):
        load_serialized(doubled.client, data[: len(data) // 2], signature)


def test_a_recording_has_calls_programs_waits_and_transfers(
    doubled: Executable, backend: PjrtBackend, device: Device
) -> None:
    recorder = profiling.start()
    try:
        (result,) = doubled([backend.put(np.ones(4, np.float32), device)])
        backend.put(np.ones(1 << 22, np.float32), device).wait()
        result.delete()
    finally:
        profiling.stop()
    tracks = {(span.track, span.name) for span in recorder.spans}
    assert {("python", "call main"), ("device", "main"), ("transfers", "put")} <= tracks
    (program,) = [span for span in recorder.spans if span.track == "device"]
    assert program.thread == device.id


# ---------------------------------------------------------------------------------- ends and forks

PREAMBLE = f"""
import os, sys
os.environ["GNOMON_PJRT_PLUGIN"] = "xla_cpu:{cpu_plugin()}?cpu_device_count=2"
import numpy as np
import gnomon as gn, gnomon.numpy as gnp
device = gn.devices("xla_cpu")[1]
x = gn.device_put(np.arange(1 << 16, dtype=np.float32), device)
f = gn.jit(lambda x: gnp.sin(x) + 1)
y = f(x)
"""


def _run(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GNOMON_CACHE_DIR": str(tmp_path)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PREAMBLE + textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rows", [700, 2500])
def test_a_process_ends_silently_with_everything_alive(rows: int, tmp_path: Path) -> None:
    """A product of 2500 rows is usually still in progress."""
    code = f"""
    view = np.asarray(y)
    gn.jit(lambda x: x @ x.T)(gn.device_put(np.ones(({rows}, {rows}), np.float32), device))
    class Last:
        def __del__(self):
            print("end", float(view[0]), flush=True)
    last = Last()
    """
    done = _run(code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "end 1.0\n"
    # The second time the program comes from the cache on disk.
    assert any(tmp_path.rglob("*.bin"))
    again = _run("print(float(y[0]), y.devices())", tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == "1.0 {Xla_cpuDevice(id=1)}\n"


def test_a_forked_child_raises_a_named_error(tmp_path: Path) -> None:
    code = """
    import warnings
    warnings.simplefilter("ignore")  # Python warns of forks in processes with threads
    read = np.asarray(y)
    pid = os.fork()
    if pid == 0:
        print(float(read[0]))
        for use in (lambda: f(x), lambda: np.asarray(x), lambda: gn.device_put(1.0, device)):
            try:
                use()
            except RuntimeError as error:
                print(type(error).__name__, "spawn" in str(error))
        print(gn.jit(lambda x: x + 1)(gnp.ones(2)).tolist())
        sys.exit()
    print(os.waitpid(pid, 0)[1], float(f(x)[0]))
    """
    done = _run(code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    child = ["1.0", *["ExecutionError True"] * 3, "[2.0, 2.0]"]
    assert done.stdout.splitlines() == [*child, "0 1.0"]


def test_a_closed_client(spec: PluginSpec) -> None:
    backend = PjrtBackend("xla_cpu", spec)
    (device, _) = backend.devices()
    buffer = backend.put(np.ones(1 << 16, np.float32))
    read = backend.put(np.ones(4, np.float32))
    program = compile_loaded(backend.client, double(4), Signature([device], vector(4), vector(4)))
    client = backend.client
    backend.close()
    assert not client.owned and not client.usable and "closed" in repr(client)
    backend.close()
    for use in (buffer.to_numpy, lambda: put(np.ones(1), device), lambda: program.run([read])):
        with pytest.raises(ExecutionError, match="was closed"):
            use()
    assert backend.put(np.ones(2, np.float32)).to_numpy().tolist() == [1, 1]
    assert backend.client is not client
    backend.close()


def test_arrays_that_look_into_a_closed_clients_memory(spec: PluginSpec) -> None:
    backend = PjrtBackend("xla_cpu", spec)
    view = backend.put(np.full(1 << 16, 7, np.float32), copy=True).to_numpy()
    backend.close()
    assert view[0] == view[-1] == 7
