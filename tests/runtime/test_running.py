"""Artifacts that run: in this process, in one without a compiler, and on other machines."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon_runtime as gr
from gnomon import export
from gnomon._export.serialization import WeightNames, add_function, new_writer
from gnomon_runtime import machine
from gnomon_runtime.artifact import Module
from gnomon_runtime.devices import device_of
from tests.conftest import cpu_plugin
from tests.tolerance import assert_each_near

# Packages that a process that runs artifacts must not import.
BLOCKED = ("gnomon", "torch_mlir", "iree.compiler", "jax", "jaxlib", "optree")
BLOCK = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in {BLOCKED!r}:
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Blocker())
"""

SIZE = 96
WEIGHTS = {
    "layer": [
        np.linspace(-1, 1, SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE),
        np.linspace(0, 1, SIZE, dtype=np.float32),
    ]
}
X = np.linspace(-2, 2, SIZE, dtype=np.float32)


def save_training(path: Path, **options) -> None:
    """`init`, `step` and `predict`; the last two close over the same weights."""
    weights = gn.tree.map(gnp.asarray, WEIGHTS)
    matrix, bias = weights["layer"]

    def init(seed):
        return {"w": gnp.zeros(SIZE) + seed, "steps": gnp.int32(0)}

    def step(state, x):
        w = state["w"] - 0.1 * (matrix @ x)
        return {"w": w, "steps": state["steps"] + 1}, gnp.sum(w * w)

    def predict(state, x):
        return gnp.tanh(matrix @ (state["w"] * x) + bias)

    state = {
        "w": gn.ShapeDtypeStruct((SIZE,), np.float32),
        "steps": gn.ShapeDtypeStruct((), np.int32),
    }
    x = gn.ShapeDtypeStruct((SIZE,), np.float32)
    functions = {
        "init": (gn.jit(init), (gn.ShapeDtypeStruct((), np.float32),)),
        "step": (gn.jit(step, donate_argnums=0), (state, x)),
        "predict": (gn.jit(predict), (state, x)),
    }
    export.save(path, functions, weights=weights, **options)


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("artifacts") / "training.gnm"
    save_training(path)
    return path


def in_child(program: str, *arguments: object, prepare: str = BLOCK) -> list[str]:
    # Python 3.12 and later warn of a fork where there are threads.
    quiet = "-Wignore:This process:DeprecationWarning"
    command = [sys.executable, quiet, "-c", prepare + program, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout.splitlines()


def expected_state(steps: int) -> np.ndarray:
    w = np.zeros(SIZE, np.float32) + 3
    for _ in range(steps):
        w = w - np.float32(0.1) * (WEIGHTS["layer"][0] @ X)
    return w


@pytest.mark.smoke
def test_several_functions_with_a_state_on_the_device(training) -> None:
    model = gr.load(training)
    assert list(model) == ["init", "step", "predict"]
    first = state = model["init"](3.0)
    for _ in range(3):
        state, loss = model["step"](state, X)
    assert first["w"].is_deleted()
    assert not state["w"].is_deleted()
    with pytest.raises(gr.DeletedArrayError, match="donated"):
        np.asarray(first["w"])
    assert int(state["steps"]) == 3
    assert_each_near(np.asarray(state["w"]), expected_state(3), 64, scale=1.0)
    assert_each_near(np.asarray(loss), np.sum(expected_state(3) ** 2), 256)
    predicted = np.asarray(model["predict"](state, X))
    matrix, bias = WEIGHTS["layer"]
    assert_each_near(predicted, np.tanh(matrix @ (expected_state(3) * X) + bias), 256, scale=1.0)


def test_weights_have_names_and_are_mapped_once(training) -> None:
    artifact = gr.read(training)
    assert {name: str(w.type) for name, w in artifact.weights.items()} == {
        "layer/0": f"float32[{SIZE},{SIZE}]",
        "layer/1": f"float32[{SIZE}]",
    }
    assert artifact.entry("step").weights == ("layer/0",)
    np.testing.assert_array_equal(artifact.weight("layer/0"), WEIGHTS["layer"][0])
    model = gr.load(training)
    model["step"](model["init"](1.0), X)
    device = device_of("local-sync")
    view, kept = model.weight_on("layer/0", device)
    assert kept.ctypes.data == model.artifact.weight("layer/0").ctypes.data
    assert model.weight_on("layer/0", device)[0] is view


@pytest.mark.smoke
def test_a_process_without_a_compiler(training) -> None:
    """It computes the same bits as this process, and imports only NumPy and IREE's runtime."""
    program = """
import numpy as np, gnomon_runtime
model = gnomon_runtime.load(sys.argv[1])
x = np.frombuffer(bytes.fromhex(sys.argv[2]), np.float32)
state = model["init"](3.0)
for _ in range(3):
    state, loss = model["step"](state, x)
print(np.asarray(state["w"]).tobytes().hex())
print(np.asarray(model["predict"](state, x)).tobytes().hex())
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"gnomon", "optree", "jax"}))
"""
    w, predicted, modules = in_child(program, training, X.tobytes().hex())
    model = gn.load(training)
    state = model["init"](3.0)
    for _ in range(3):
        state, _ = model["step"](state, X)
    assert w == np.asarray(state["w"]).tobytes().hex()
    assert predicted == np.asarray(model["predict"](state, X)).tobytes().hex()
    assert modules == ""


def test_results_stay_valid_when_arguments_change_and_the_model_is_gone(tmp_path) -> None:
    size = 20_000  # large enough that programs read the argument in place
    spec = gn.ShapeDtypeStruct((size,), np.float32)
    functions = {"f": (gn.jit(lambda x: (x, x.reshape(2, -1), x + 1)), (spec,))}
    export.save(tmp_path / "f.gnm", functions)
    x = np.arange(size, dtype=np.float32)
    same, shaped, more = gr.load(tmp_path / "f.gnm")(x)
    x[:] = -1
    np.testing.assert_array_equal(np.asarray(same), np.arange(size))
    np.testing.assert_array_equal(np.asarray(shaped).ravel(), np.arange(size))
    np.testing.assert_array_equal(np.asarray(more), np.arange(size) + 1)


def test_arguments_of_every_kind(tmp_path) -> None:
    spec = gn.ShapeDtypeStruct((3, 2), np.float32)
    number = gn.ShapeDtypeStruct((), np.int32)
    flag = gn.ShapeDtypeStruct((), np.bool_)
    functions = {"f": (gn.jit(lambda x, n, b: gnp.where(b, x * n, -x)), (spec, number, flag))}
    export.save(tmp_path / "f.gnm", functions)
    f = gr.load(tmp_path / "f.gnm")
    x = np.arange(6, dtype=np.float32).reshape(2, 3).T
    for given in (x, x.astype(">f4"), np.ascontiguousarray(x), gnp.asarray(x)):
        np.testing.assert_array_equal(np.asarray(f(given, 2, True)), 2 * x)
    np.testing.assert_array_equal(np.asarray(f(f(x, 2, True), np.int32(3), np.True_)), 6 * x)
    other_byte = np.full((), 254, np.uint8).view(np.bool_)
    np.testing.assert_array_equal(np.asarray(f(x, 2, other_byte)), 2 * x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(2, np.float32),), r"argument 'x' of f must be float32\[3\], got float32\[2\]"),
        ((np.zeros(3),), r"must be float32\[3\], got float64\[3\]; .*nothing is converted"),
        ((gnp.zeros(3, gnp.int32),), r"must be float32\[3\], got int32\[3\]"),
        ((1.0,), r"must be float32\[3\], got 1\.0 of type float"),
        (("abc",), r"must be float32\[3\], got 'abc' of type str"),
        ((), r"the arguments of f\[0\] must have 1 parts, got 0"),
        (([np.zeros(3, np.float32)],), r"must be float32\[3\], got \["),
    ],
)
def test_other_arguments_are_refused(tmp_path_factory, arguments, message) -> None:
    path = tmp_path_factory.getbasetemp() / "refusals.gnm"
    if not path.exists():
        spec = gn.ShapeDtypeStruct((3,), np.float32)
        export.save(path, {"f": (gn.jit(lambda x: x + 1), (spec,))})
    with pytest.raises(TypeError, match=message):
        gr.load(path)(*arguments)


def test_a_donated_array_cannot_be_another_argument(tmp_path) -> None:
    spec = gn.ShapeDtypeStruct((3,), np.float32)
    functions = {"f": (gn.jit(lambda x, y: x + y, donate_argnums=0), (spec, spec))}
    export.save(tmp_path / "f.gnm", functions)
    f = gr.load(tmp_path / "f.gnm")
    x = f(np.ones(3, np.float32), np.ones(3, np.float32))
    with pytest.raises(ValueError, match="donated"):
        f(x, x)
    assert not x.is_deleted()
    np.testing.assert_array_equal(np.asarray(f(x, np.zeros(3, np.float32))), [2, 2, 2])
    assert x.is_deleted()


def test_threads_share_a_function(training) -> None:
    model = gr.load(training)
    state = model["init"](1.0)
    expected = np.asarray(model["predict"](state, X)).tobytes()
    found: list[bytes] = []

    def run() -> None:
        for _ in range(20):
            found.append(np.asarray(model["predict"](state, X)).tobytes())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 80


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_loads_the_program_again(training) -> None:
    program = """
import os, numpy as np, gnomon_runtime
model = gnomon_runtime.load(sys.argv[1])
x = np.ones(96, np.float32)
before = np.asarray(model["predict"](model["init"](1.0), x)).tobytes()
child = os.fork()
if not child:
    after = np.asarray(model["predict"](model["init"](1.0), x)).tobytes()
    os._exit(0 if after == before else 7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert in_child(program, training) == ["0"]


# ----------------------------------------------------------------------------- machines and modules


def rewritten(path: Path, change) -> None:
    """Change the metadata of a file, with right checksums."""
    from gnomon_runtime.writing import pack, write_file

    artifact = gr.read(path)
    metadata = json.loads(json.dumps(dict(artifact.metadata)))
    change(metadata)
    container = artifact._container
    rest = [(s.kind, container.copy(i)) for i, s in enumerate(artifact.sections) if i]
    write_file(path, pack([("metadata", json.dumps(metadata).encode()), *rest]))


def saved(path: Path, targets=("cpu",)) -> Path:
    spec = gn.ShapeDtypeStruct((3,), np.float32)
    export.save(path / "f.gnm", {"f": (gn.jit(lambda x: x + 1), (spec,))}, targets=targets)
    return path / "f.gnm"


def test_the_module_lists_its_requirements(tmp_path) -> None:
    module = gr.load(saved(tmp_path))["f"].module
    assert (module.backend, module.platform, module.execution) == ("iree", "cpu", "sync")
    assert module.machine == platform.machine()
    assert module.versions["iree-base-compiler"]
    assert machine.reason_against(module) == ""


def test_code_for_another_processor_never_runs(tmp_path) -> None:
    path = saved(tmp_path)

    def change(metadata) -> None:
        (module,) = metadata["entries"]["f"]["modules"].values()
        module["features"].append("flux_capacitor")

    rewritten(path, change)
    with pytest.raises(gr.MissingModuleError, match="this processor lacks flux_capacitor"):
        gr.load(path)(np.zeros(3, np.float32))
    # If the compiler is installed, the portable program is compiled for this machine.
    np.testing.assert_array_equal(np.asarray(gn.load(path)(np.zeros(3, np.float32))), [1, 1, 1])


def test_an_artifact_for_others_only(tmp_path) -> None:
    other = "aarch64-linux" if platform.machine() == "x86_64" else "x86-64-v2"
    path = saved(tmp_path, [other])
    with pytest.raises(gr.MissingModuleError, match=rf"{other}: it is for \w+, and this machine"):
        gr.load(path)(np.zeros(3, np.float32))
    np.testing.assert_array_equal(np.asarray(gn.load(path)(np.zeros(3, np.float32))), [1, 1, 1])
    with pytest.raises(gr.MissingModuleError, match=r"it is for 'cpu'"):
        gr.load(path, platform="vulkan")(np.zeros(3, np.float32))


def test_of_several_modules_the_one_with_most_instructions_runs(tmp_path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("levels are x86-64's")
    path = saved(tmp_path, ["x86-64-v2", "aarch64-linux", "cpu"])
    modules = gr.read(path).entry("f").modules
    chosen = gr.load(path)["f"].module
    assert list(modules)[:2] == ["x86-64-v2", "aarch64-linux"]
    usable = [m for m in modules.values() if not machine.reason_against(m)]
    assert len(chosen.features) == max(len(m.features) for m in usable)


def test_a_program_alone_is_compiled_when_it_is_loaded(tmp_path) -> None:
    path = saved(tmp_path, [])
    with pytest.raises(gr.MissingModuleError, match="portable program alone"):
        gr.load(path)(np.zeros(3, np.float32))
    np.testing.assert_array_equal(np.asarray(gn.load(path)(np.zeros(3, np.float32))), [1, 1, 1])


def test_the_portable_form_of_a_program_of_another_dialect_is_raised(tmp_path) -> None:
    path = tmp_path / "power.gnm"
    cube = gn.jit(lambda x: x ** gn.numpy.full(3, 3, np.float32))
    export.save(path, {"f": (cube, (gn.ShapeDtypeStruct((3,), np.float32),))}, targets=[])
    rewritten(path, lambda m: m["entries"]["f"]["notes"].update(dialect="0"))
    # Without legalizations, IREE's powers of negative numbers are nan.
    found = gn.load(path)(np.full(3, -2, np.float32))
    np.testing.assert_array_equal(np.asarray(found), [-8, -8, -8])
    rewritten(path, lambda m: m["entries"]["f"].update(portable={}))
    with pytest.raises(gr.MissingModuleError):
        gn.load(path)(np.zeros(3, np.float32))


def test_modules_of_a_program_of_another_dialect_run(tmp_path) -> None:
    path = saved(tmp_path)
    rewritten(path, lambda m: m["entries"]["f"]["notes"].update(dialect="0"))
    np.testing.assert_array_equal(np.asarray(gn.load(path)(np.zeros(3, np.float32))), [1, 1, 1])
    exported = export.load_exported(path)["f"]
    np.testing.assert_array_equal(np.asarray(exported.call(np.zeros(3, np.float32))), [1, 1, 1])


def test_an_invalid_module_is_named_in_the_error(tmp_path) -> None:
    path = tmp_path / "f.gnm"
    type_ = gr.TensorType((3,), "float32")
    made = gr.Writer({})
    tree = gr.Tree({"tuple": [{"tuple": ["*"]}, {"dict": []}]})
    made.add_entry(
        gr.Entry("f", "f", (type_,), (type_,), tree, gr.Tree("*")),
        modules=[(gr.Module("x", "iree", "cpu", versions={"iree-base-compiler": "1.0"}), b"abc")],
    )
    made.write(path)
    with pytest.raises(gr.ProgramError, match=r"cannot be loaded(.|\n)*compiled by IREE 1.0"):
        gr.load(path)(np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e["outputs"][0].update(shape=[4]), "a result of 12 bytes, not 16"),
        (lambda e: e["outputs"][0].update(shape=[1 << 40]), "a result of 12 bytes"),
        (lambda e: e["outputs"].clear() or e.update(out_tree=None), "1 results, not 0"),
        (lambda e: e["inputs"][0].update(shape=[0]), "failed"),
        (lambda e: e["inputs"][0].update(shape=[2]), "failed"),
        (lambda e: e["inputs"][0].update(dtype="float64"), "failed"),
        (
            lambda e: (
                e["inputs"].append({"shape": [3], "dtype": "float32"}),
                e.update(in_tree={"tuple": [{"tuple": ["*", "*"]}, {"dict": []}]}),
            ),
            "failed",
        ),
    ],
)
def test_a_signature_that_is_not_the_modules_is_noticed(tmp_path, change, message) -> None:
    path = saved(tmp_path)
    rewritten(path, lambda m: change(m["entries"]["f"]))
    f = gr.load(path)["f"]
    arguments = [np.zeros(t.shape, t.dtype) for t in f.entry.inputs]
    with pytest.raises(gr.ProgramError, match=message):
        f(*arguments)


def test_the_digest_can_be_required(training) -> None:
    digest = gr.read(training).digest
    for load in (gr.load, gn.load):
        assert load(training, digest=digest.upper())
        with pytest.raises(gr.ArtifactDamagedError, match="is expected"):
            load(training, digest="0" * 64)


def test_a_file_loads_as_exported_functions(tmp_path) -> None:
    path = tmp_path / "f.gnm"
    exported = export.export(gn.jit(lambda x: gnp.sum(x**3)))(X)
    export.save(path, {"f": exported}, vjp_order=1)
    (again,) = export.load_exported(path).values()
    assert_each_near(gn.grad(again.call)(X), 3 * X**2, 8, scale=1.0)
    derivative = gr.read(path).entry("f.vjp")
    assert derivative.notes["vjp_of"] == "f"


def test_errors_of_saving(tmp_path) -> None:
    spec = gn.ShapeDtypeStruct((3, 3), np.float32)
    path = tmp_path / "f.gnm"
    with pytest.raises(ValueError, match="unknown target 'cup'"):
        export.save(path, {"f": (gn.jit(gnp.sin), (spec,))}, targets=["cup"])
    with pytest.raises(TypeError, match="a pair of a jitted function"):
        export.save(path, {"f": gn.jit(gnp.sin)})
    with pytest.raises(ValueError, match="the name of a function"):
        export.save(path, {"f.g": (gn.jit(gnp.sin), (spec,))})
    exported = export.export(gn.jit(gnp.sin), platforms=["tpu"])(spec)
    with pytest.raises(ValueError, match=r"exported for tpu.*compiled for 'cpu'"):
        export.save(path, {"f": exported})
    assert not path.exists()


def test_a_factorization_in_a_portable_program_is_compiled_when_it_is_loaded(tmp_path) -> None:
    path, spec = tmp_path / "f.gnm", gn.ShapeDtypeStruct((3, 3), np.float32)
    export.save(path, {"f": (gn.jit(gnp.linalg.cholesky), (spec,))}, targets=[])
    matrix = np.diag([1.0, 4.0, 9.0]).astype(np.float32)
    (again,) = export.load_exported(path).values()
    for function in (again.call, gn.load(path)):
        found = np.asarray(function(matrix))
        assert_each_near(found, np.diag([1.0, 2.0, 3.0]).astype(np.float32), 4, scale=1.0)


@pytest.mark.vulkan
def test_a_module_for_vulkan_runs_there(tmp_path) -> None:
    weights = gnp.linspace(0, 1, 33)
    spec = gn.ShapeDtypeStruct((33,), np.float32)
    functions = {"f": (gn.jit(lambda x: gnp.tanh(x) * weights), (spec,))}
    export.save(tmp_path / "f.gnm", functions, targets=["vulkan", "cpu"])
    x = np.linspace(-1, 1, 33, dtype=np.float32)
    model = gr.load(tmp_path / "f.gnm", platform="vulkan")
    once = model(x)
    assert once.device.driver == "vulkan"
    expected = np.tanh(x) * np.linspace(0, 1, 33, dtype=np.float32)
    assert_each_near(np.asarray(once), expected, 8, scale=1.0)
    twice = np.asarray(model(once))  # the result stays on the device
    assert_each_near(twice, np.tanh(expected) * np.asarray(weights), 8, scale=1.0)
    assert gr.load(tmp_path / "f.gnm")["f"].module.platform == "cpu"
    program = """
import numpy as np, gnomon_runtime
model = gnomon_runtime.load(sys.argv[1], platform="vulkan")
print(np.asarray(model(np.linspace(-1, 1, 33, dtype=np.float32))).tobytes().hex())
"""
    assert in_child(program, tmp_path / "f.gnm") == [np.asarray(once).tobytes().hex()]


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a PJRT plugin for the CPU."""
    monkeypatch.setenv("GNOMON_PJRT_PLUGIN", f"xla_cpu:{cpu_plugin()}")
    return "xla_cpu"


@pytest.mark.pjrt
def test_a_module_for_a_plugin_runs_from_the_file(tmp_path, plugin, caplog) -> None:
    spec = gn.ShapeDtypeStruct((3,), np.float32)
    step = gn.jit(lambda s, x: {"s": s + x, "w": gnp.arange(3.0) * x}, donate_argnums=0)
    path = tmp_path / "f.gnm"
    export.save(path, {"f": (step, (spec, spec))}, targets=[plugin])
    x = np.ones(3, np.float32)
    model = gn.load(path)
    first = model(x, x)
    second = model(first["s"], x)
    # Results stay on the device, and a donated one is consumed.
    assert second["s"].device.platform == plugin
    assert first["s"].is_deleted()
    assert np.asarray(second["s"]).tolist() == [3, 3, 3]
    assert np.asarray(second["w"]).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match=r"argument 'x' of f must be float32\[3\]"):
        model(x, np.ones(4, np.float32))
    assert not caplog.records
    with pytest.raises(gr.MissingModuleError, match="an executable of pjrt"):
        gr.load(path)(x, x)


@pytest.mark.pjrt
def test_an_executable_that_a_plugin_does_not_take_is_compiled_again(
    tmp_path, plugin, caplog
) -> None:
    spec = gn.ShapeDtypeStruct((3,), np.float32)
    exported = export.export(gn.jit(gnp.negative), platforms=["xla_cpu", "cpu"])(spec)
    x = np.ones(3, np.float32)
    writer = new_writer()
    other = Module(plugin, "pjrt", plugin, fingerprint="other")
    add_function(writer, "f", exported, WeightNames(writer, {}), modules=[(other, b"x")])
    writer.write(tmp_path / "f.gnm")
    assert np.asarray(gn.load(tmp_path / "f.gnm")(x)).tolist() == [-1, -1, -1]
    (record,) = caplog.records
    assert (
        "compiled again, because its executable for xla_cpu cannot be loaded: it is of another"
        in (record.getMessage())
    )
    # A file without any module for the plugin.
    export.save(tmp_path / "g.gnm", {"f": exported}, targets=["cpu"])
    assert np.asarray(gn.load(tmp_path / "g.gnm", platform=plugin)(x)).tolist() == [-1, -1, -1]
