"""``gnomon run``: inputs, outputs, expectations, statistics."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from gnomon.dialects.types import TensorType
from gnomon.tools.driver import main
from gnomon.tools.driver.arrays import compare, read_inputs
from gnomon.tools.driver.benchmark import measure
from gnomon.tools.driver.errors import DriverError, UsageError
from gnomon.tools.driver.programs import Leaf
from gnomon.tools.driver.safetensors import read_safetensors, write_safetensors

Capture = pytest.CaptureFixture[str]

LEAVES = [
    Leaf("x", TensorType((2, 2), np.dtype(np.float32))),
    Leaf("params.w", TensorType((), np.dtype(np.int32))),
    Leaf("h", TensorType((2,), np.dtype(ml_dtypes.bfloat16))),
]


def test_inputs_are_values_files_and_names(tmp_path: Path) -> None:
    x, h = np.eye(2, dtype=np.float32), np.array([1, 2], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "h.npy", h)
    np.savez(tmp_path / "all.npz", h=h.view(np.uint16).view("V2"), x=x, **{"params.w": np.int32(7)})
    for texts in (
        [f"{tmp_path}/x.npy", "7", "bf16[2]=1,2"],
        ["params.w=7", f"h={tmp_path}/h.npy", "f32[2,2]=1,0,0,1"],
        ["h=1,2", f"x={tmp_path}/x.npy", "params.w=i32=7"],
        [f"{tmp_path}/all.npz"],
    ):
        found = read_inputs(texts, LEAVES)
        assert [found[i].dtype for i in range(3)] == [leaf.type.dtype for leaf in LEAVES]
        assert [found[i].tolist() for i in range(3)] == [x.tolist(), 7, h.tolist()]
    assert read_inputs(["x=3"], LEAVES)[0].tolist() == [[3, 3], [3, 3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3", "3 values for x"),
        ("f32[4]=1", r"takes f32\[2,2\] as x"),
        ("z=1", "neither a dtype nor an argument"),
        ("one", "neither a file"),
        ("x=absent.npy", "no file 'absent.npy'"),
        ("x=one", "--input x=one: neither a file"),
        ("params.w=3000000000", "which holds other numbers"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(DriverError, match=message):
        read_inputs([text], LEAVES)
    with pytest.raises(UsageError, match="only 3 arguments"):
        read_inputs(["1", "1", "1", "1"], LEAVES)


def test_safetensors_are_read_and_written(tmp_path: Path) -> None:
    path = str(tmp_path / "a.safetensors")
    dtypes = (np.float32, np.int8, np.bool_, np.uint64, np.complex64, ml_dtypes.bfloat16)
    arrays = {f"a.{i}": np.arange(6).reshape(2, 3).astype(d) for i, d in enumerate(dtypes)}
    arrays["scalar"] = np.array(1.5)
    arrays["empty"] = np.zeros((0, 3), np.int16)
    write_safetensors(path, arrays)
    found = read_safetensors(path)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tolist() == array.tolist()


def test_a_safetensors_file_follows_the_format(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    entry = {"dtype": "I16", "shape": [2], "data_offsets": [0, 4]}
    text = json.dumps({"__metadata__": {"a": "b"}, "x": entry}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\x01\x00\xff\xff")
    assert read_safetensors(str(path))["x"].tolist() == [1, -1]


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "I16", "shape": [3], "data_offsets": [0, 4]},
        {"dtype": "I16", "shape": [2], "data_offsets": [2, 6]},
        {"dtype": "I16", "shape": [-2], "data_offsets": [4, 0]},
        {"dtype": "I12", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "I16", "shape": 2, "data_offsets": [0, 4]},
        {"dtype": "I16", "data_offsets": [0, 4]},
        3,
    ],
)
def test_a_damaged_safetensors_file_is_refused(tmp_path: Path, entry: object) -> None:
    path = tmp_path / "a.safetensors"
    text = json.dumps({"x": entry}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\x01\x00\xff\xff")
    with pytest.raises(DriverError, match=r"a\.safetensors"):
        read_safetensors(str(path))
    for data in (b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x02\0\0\0\0\0\0\0{x"):
        path.write_bytes(data)
        with pytest.raises(DriverError, match=r"a\.safetensors"):
            read_safetensors(str(path))


def test_differences_are_reported(tmp_path: Path) -> None:
    path = str(tmp_path / "e.npz")
    x = np.array([1, np.nan, np.inf, 4], np.float32)
    n = np.array([2**63 - 1, 3])
    np.savez(path, x=x, n=n)
    assert compare({"x": x, "n": n}, path) == []
    assert compare({"x": x * np.float32(1 + 1e-6), "n": n}, path) == []
    (one,) = compare({"x": np.array([1, np.nan, np.inf, 5], np.float32), "n": n}, path)
    assert (one.name, one.count, one.index, one.largest) == ("x", 1, (3,), 1.0)
    assert compare({"x": np.zeros(4, np.float32), "n": n}, path)[0].count == 4
    # An unexpected nan is the largest difference, and integers are compared as integers.
    (one,) = compare({"x": np.array([np.nan, np.nan, np.inf, 9], np.float32), "n": n}, path)
    assert (one.index, one.largest) == ((0,), np.inf)
    (one,) = compare({"x": x, "n": n - [1, 0]}, path)
    assert (one.name, one.largest) == ("n", 1.0)
    assert compare({"x": x, "n": n - [1, 0]}, path, atol=1.0) == []
    assert "it is f32[3]" in compare({"x": x[:3], "n": n}, path)[0].reason


@pytest.mark.smoke
def test_results_are_written_and_compared(model: Path, capsys: Capture) -> None:
    run = ["run", f"{model}:loss", "--grad"]
    for suffix in ("npz", "safetensors"):
        assert main([*run, f"--output=o.{suffix}"]) == 0
        capsys.readouterr()
        assert main([*run, f"--expect=o.{suffix}"]) == 0
        assert f"as expected by o.{suffix}" in capsys.readouterr().out
        x = ["--input", "x=0.5"]
        assert main([*run, *x, f"--expect=o.{suffix}"]) == 3
        assert "elements differ" in capsys.readouterr().err
        assert main([*run, *x, f"--expect=o.{suffix}", "--atol=10"]) == 0
    assert main([*run, "--output=o.npy"]) == 2
    assert "write .npz" in capsys.readouterr().err
    assert main([*run, "--output=o.txt"]) == 2


def test_files_that_cannot_be_read_or_written_are_named(model: Path, capsys: Capture) -> None:
    Path("cut.npz").write_bytes(b"PK")
    run = ["run", f"{model}:scaled"]
    assert main([*run, "--input=cut.npz"]) == 1
    assert "gnomon: cut.npz: " in capsys.readouterr().err
    for output in ("absent/o.npy", "absent/o.npz", "absent/o.safetensors"):
        assert main([*run, f"--output={output}"]) == 1
        assert f"gnomon: {output}: No such file or directory" in capsys.readouterr().err
    compile_ = ["compile", f"{model}:scaled", "-o"]
    for output in ("absent/o.c", "absent/o.s"):
        assert main([*compile_, output]) == 1
        assert f"gnomon: {output}: No such file or directory" in capsys.readouterr().err


def test_arguments_that_are_not_given(model: Path, capsys: Capture) -> None:
    power = ["run", f"{model}:power", "--args=f32[2] 3", "--static=1"]
    assert main(power) == 2
    assert "there is no --input for x" in capsys.readouterr().err
    assert main([*power, "--input=2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["results"]["result"] == {"dtype": "float32", "shape": [2], "value": [8.0, 8.0]}
    for seed, status in (("1", 0), ("2", 3)):
        assert main([*power, "--random=1", "--output=o.npy"]) == 0
        assert main([*power, f"--random={seed}", "--expect=o.npy"]) == status


def test_json_holds_what_json_has_no_numbers_for(model: Path, capsys: Capture) -> None:
    run = ["run", "gnomon.numpy:log", "--args=f32[3]", "--input=-1,0,1", "--json"]
    assert main(run) == 0
    assert json.loads(capsys.readouterr().out)["results"]["result"]["value"] == ["nan", "-inf", 0.0]


def test_a_benchmark_has_statistics(model: Path, capsys: Capture) -> None:
    run = ["run", f"{model}:scaled", "--benchmark=0.01"]
    assert main([*run, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["benchmark"]
    assert figures["calls"] >= 5
    assert 0 < figures["minimum"] <= figures["median"] <= figures["p90"] <= figures["maximum"]
    assert main(run) == 0
    assert "median" in capsys.readouterr().out
    calls: list[int] = []
    assert measure(lambda: calls.append(1), 0.0).calls == 5 and len(calls) == 6


def test_a_device_that_is_not_here(model: Path, capsys: Capture) -> None:
    assert main(["run", f"{model}:scaled", "--device=metal"]) == 4
    assert "metal driver cannot be used" in capsys.readouterr().err


@pytest.mark.vulkan
def test_a_program_runs_on_another_device(model: Path) -> None:
    run = ["run", f"{model}:scaled", "--grad"]
    assert main([*run, "--output=o.npy"]) == 0
    assert main([*run, "--device=vulkan", "--expect=o.npy"]) == 0
