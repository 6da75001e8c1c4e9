"""The file: reading returns what was written, and any other file is refused."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import gnomon_runtime as gr
from gnomon_runtime.container import MAGIC
from gnomon_runtime.writing import pack, write_file
from tests.runtime.samples import F32, artifact_bytes, writer

GOLDEN = Path(__file__).parent / "golden"


def with_metadata(change) -> bytes:
    """The sample with changed metadata and right checksums."""
    artifact = gr.from_bytes(artifact_bytes())
    metadata = json.loads(json.dumps(dict(artifact.metadata)))
    change(metadata)
    container = artifact._container
    rest = [(s.kind, container.copy(i)) for i, s in enumerate(artifact.sections) if i]
    return b"".join(pack([("metadata", json.dumps(metadata).encode()), *rest]))


def test_written_files_are_read_back(tmp_path) -> None:
    path = tmp_path / "f.gnm"
    writer().write(path)
    artifact = gr.read(path)
    assert artifact.version == 1
    assert artifact.producer == {"gnomon": "0.1.0"}
    assert list(artifact.entries) == ["f", "f.vjp"]
    entry = artifact.entry("f")
    assert entry.inputs == (F32, gr.TensorType((), "int32", True))
    assert (entry.donated, entry.weights, entry.vjp) == ((0,), ("w",), "f.vjp")
    assert entry.platforms == ("cpu", "tpu")
    assert entry.in_tree.paths() == ["[0][0]", "[0][1]['a']"]
    assert entry.modules["x86-64-v2"].features == ("ssse3",)
    assert artifact.module("f", "vulkan") == b"spirv"
    assert artifact.portable("f") == b"portable program"
    assert artifact.portable("f", "tpu") == b"another"
    assert artifact.program("f") == b"func @main"
    np.testing.assert_array_equal(artifact.weight("w"), np.arange(6.0).reshape(2, 3))
    assert artifact.weight("flag")[()]
    artifact.verify()
    assert gr.from_bytes(path.read_bytes()).digest == artifact.digest


def test_sections_are_aligned_and_equal_ones_are_kept_once() -> None:
    artifact = gr.from_bytes(artifact_bytes())
    assert all(section.offset % 64 == 0 for section in artifact.sections)
    kinds = [section.kind for section in artifact.sections]
    assert kinds.count("portable") == 2  # of three programs two are equal


def test_a_weight_is_the_files_memory_and_read_only(tmp_path) -> None:
    path = tmp_path / "f.gnm"
    writer().write(path)
    artifact = gr.read(path)
    first, second = artifact.weight("w"), artifact.weight("w")
    assert first.__array_interface__["data"] == second.__array_interface__["data"]
    assert first.ctypes.data % 64 == 0
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 0), bool),
        np.array(1 + 2j),
        np.arange(4, dtype=">i4"),
        np.arange(8, dtype=np.float16)[::2],
        np.ones(3, ml_dtypes.bfloat16),
        np.arange(-3, 3).astype(ml_dtypes.int4),
        np.ones(5, ml_dtypes.float8_e5m2),
    ],
    ids=lambda array: f"{array.dtype.name}{array.shape}",
)
def test_weights_of_every_kind(array: np.ndarray) -> None:
    made = gr.Writer({})
    made.add_weight("w", array)
    found = gr.from_bytes(made.to_bytes()).weight("w")
    assert found.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found.astype(complex), array.astype(complex))


def test_writing_twice_gives_the_same_bytes() -> None:
    assert artifact_bytes() == artifact_bytes()


def test_pipes_are_written_in_place_and_links_stay(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", [b"a", b"b"])
    assert os.read(reader, 9) == b"ab"
    os.close(reader)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_file(tmp_path / "link", [b"a"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"a"
    for path in (tmp_path, tmp_path / "absent" / "file"):
        with pytest.raises(OSError, match=str(path)):
            write_file(path, [b"a"])


def test_a_file_is_replaced_at_once_and_keeps_the_usual_permissions(tmp_path) -> None:
    path = tmp_path / "f.gnm"
    path.write_bytes(b"old")
    writer().write(path)
    assert os.listdir(tmp_path) == ["f.gnm"]
    (tmp_path / "plain").write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "f.gnm"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        writer().write(path)
    assert os.listdir(tmp_path) == ["f.gnm"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("data", [b"", b"\x89", b"PK\x03\x04" + bytes(200), b"module {}" * 30])
def test_other_files_are_not_artifacts(data: bytes, tmp_path) -> None:
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(gr.NotAnArtifactError, match="not a gnomon artifact"):
        gr.read(path)


def test_a_file_of_a_newer_format_is_refused_by_its_version() -> None:
    data = bytearray(artifact_bytes())
    struct.pack_into("<I", data, 8, 2)
    with pytest.raises(gr.ArtifactVersionError, match=r"format 2.*update"):
        gr.from_bytes(data)


def test_every_truncation_is_noticed() -> None:
    data = artifact_bytes()
    for end in range(len(MAGIC), len(data), 7):
        with pytest.raises(gr.ArtifactDamagedError):
            gr.from_bytes(data[:end])
    with pytest.raises(gr.ArtifactDamagedError, match="should have"):
        gr.from_bytes(data + b"\0")


def test_every_changed_byte_is_noticed() -> None:
    data = bytearray(artifact_bytes())
    for i in range(len(data)):
        data[i] ^= 0x10
        with pytest.raises(gr.ArtifactError):
            gr.from_bytes(data).verify()
        data[i] ^= 0x10


def test_a_module_is_compared_with_its_checksum_whenever_it_is_read() -> None:
    data = bytearray(artifact_bytes())
    artifact = gr.from_bytes(data)
    assert artifact.module("f", "x86-64-v2") == b"elf"
    place = data.index(b"elf", artifact.sections[0].offset + artifact.sections[0].length)
    data[place] ^= 1
    with pytest.raises(gr.ArtifactDamagedError, match="checksum of section"):
        artifact.module("f", "x86-64-v2")


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.clear(),
        lambda m: m.pop("entries"),
        lambda m: m.update(weights=3),
        lambda m: m["producer"].update(gnomon=1),
        lambda m: m["entries"]["f"].update(donated=[2]),
        lambda m: m["entries"]["f"].update(donated=[0, 0]),
        lambda m: m["entries"]["f"].update(weights=["v"]),
        lambda m: m["entries"]["f"].update(vjp="g"),
        lambda m: m["entries"]["f"].update(in_tree="*"),
        lambda m: m["entries"]["f"].update(in_tree={"tuple": {"a": 1}}),
        lambda m: m["entries"]["f"].update(out_tree=7),
        lambda m: m["entries"]["f"]["inputs"][0].update(shape=[-1]),
        lambda m: m["entries"]["f"]["inputs"][0].update(shape=[True]),
        lambda m: m["entries"]["f"]["inputs"][0].update(dtype="object"),
        lambda m: m["entries"]["f"]["outputs"][0].update(shape=[1 << 70]),
        lambda m: m["entries"]["f"]["outputs"][0].update(shape=[0, 1 << 70]),
        lambda m: m["entries"]["f"]["modules"]["vulkan"].update(section=0),
        lambda m: m["entries"]["f"]["modules"]["vulkan"].update(section=99),
        lambda m: m["entries"]["f"]["modules"]["vulkan"].update(section=-1),
        lambda m: m["entries"]["f"]["modules"]["vulkan"].update(execution=None),
        lambda m: m["entries"]["f"]["portable"].update(cpu="0"),
        lambda m: m["weights"]["w"].update(shape=[2, 4]),
        lambda m: m["weights"]["w"].update(shape=[1 << 70, 3]),
        lambda m: m["weights"]["w"].update(section=0),
    ],
)
def test_metadata_that_is_wrong_is_named(change) -> None:
    with pytest.raises(gr.ArtifactDamagedError, match="metadata"):
        gr.from_bytes(with_metadata(change))


def test_metadata_that_is_not_json_is_refused() -> None:
    for text in (b"", b"{", b"[" * 100_000, b'{"entries": NaN}', b"\xff", b"3", b"9" * 10_000):
        with pytest.raises(gr.ArtifactDamagedError, match="metadata"):
            gr.from_bytes(b"".join(pack([("metadata", text)])))


def test_entries_that_are_not_there_are_named() -> None:
    artifact = gr.from_bytes(artifact_bytes())
    with pytest.raises(KeyError, match=r"no entry 'g'.*'f'"):
        artifact.entry("g")
    with pytest.raises(KeyError, match=r"no module for 'cuda'.*'x86-64-v2'"):
        artifact.module("f", "cuda")


def test_names_are_taken_once() -> None:
    made = writer()
    with pytest.raises(ValueError, match="weight named 'w'"):
        made.add_weight("w", np.zeros(1))
    with pytest.raises(ValueError, match="entry named 'f'"):
        made.add_entry(gr.Entry("f", "f", (), (), gr.Tree(None), gr.Tree(None)))
    with pytest.raises(ValueError, match="dtype"):
        made.add_weight("o", np.array([object()]))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.gnm")), ids=lambda path: path.stem)
def test_golden_files_stay_readable(path: Path) -> None:
    """Written by the first version of each format; `digests.json` has what was written then."""
    artifact = gr.read(path)
    artifact.verify()
    expected = json.loads((GOLDEN / "digests.json").read_text())[path.name]
    found = {
        "digest": artifact.digest,
        "entries": {
            name: [str(entry.in_tree), str(entry.out_tree), list(map(str, entry.inputs))]
            for name, entry in artifact.entries.items()
        },
        "weights": {
            name: hashlib.sha256(artifact.weight(name).tobytes()).hexdigest()
            for name in artifact.weights
        },
    }
    assert found == expected


def test_there_are_golden_files() -> None:
    assert (GOLDEN / "format_1.gnm").exists()
