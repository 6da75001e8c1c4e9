"""Damaged and hostile files are refused by an error, or run without a crash.

A file with a wrong checksum raises an error of the package, or has the intact contents.
"""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import gnomon as gn
import gnomon_runtime as gr
from gnomon import export
from gnomon_runtime.container import ENTRY, HEADER, HEADER_SIZE, digest_of
from gnomon_runtime.running import LoadedArtifact
from gnomon_runtime.writing import pack

X = np.linspace(-1, 1, 64, dtype=np.float32)


@pytest.fixture(scope="module")
def intact(tmp_path_factory) -> bytes:
    weights = gn.numpy.linspace(0, 1, 64)
    path = tmp_path_factory.mktemp("artifacts") / "f.gnm"
    spec = gn.ShapeDtypeStruct((64,), np.float32)
    functions = {
        "f": (gn.jit(lambda x: {"y": x * weights}), (spec,)),
        "g": (gn.jit(lambda x: x + weights[0], donate_argnums=0), (spec,)),
    }
    export.save(path, functions, vjp_order=1)
    return path.read_bytes()


# -------------------------------------------------------------------------- changes without repair


def flip_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    fill = rng.choice([b"\0", b"\xff", bytes([rng.randrange(256)])])
    length = min(rng.randrange(1, 200), len(data) - start)
    data[start : start + length] = fill * length


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def extend(data: bytearray, rng: random.Random) -> None:
    data += bytes(rng.randrange(256) for _ in range(rng.randrange(1, 100)))


def move(data: bytearray, rng: random.Random) -> None:
    a, b = sorted(rng.randrange(len(data)) for _ in range(2))
    cut = data[a:b]
    del data[a:b]
    where = rng.randrange(len(data) + 1)
    data[where:where] = cut


def change_header_number(data: bytearray, rng: random.Random) -> None:
    offset = rng.choice([8, 12, 16, 24])
    value = rng.choice([0, 1, 2**31, 2**32 - 1, rng.randrange(2**32)])
    data[offset : offset + 4] = value.to_bytes(4, "little")


RAW = (flip_bit, overwrite, truncate, extend, move, change_header_number)

# ----------------------------------------------------------------- changes with checksums repaired


def repair_header(data: bytearray) -> None:
    """Make the checksums of the table and of the header right again."""
    magic, version, count, length, table_length, _ = HEADER.unpack(data[: HEADER.size])
    table = bytes(data[HEADER_SIZE : HEADER_SIZE + table_length])
    header = HEADER.pack(magic, version, count, length, table_length, digest_of(table))
    data[: HEADER.size] = header
    data[HEADER.size : HEADER.size + 32] = digest_of(header)


def change_table(data: bytearray, rng: random.Random) -> None:
    artifact = gr.from_bytes(bytes(data))
    number = rng.randrange(len(artifact.sections))
    place = HEADER_SIZE + ENTRY.size * number + rng.choice([0, 8])
    old = int.from_bytes(data[place : place + 8], "little")
    new = rng.choice([0, 1, old + 1, old - 1, old + 64, 2**63, 2**64 - 1, rng.randrange(2**64)])
    data[place : place + 8] = (new % 2**64).to_bytes(8, "little")
    repair_header(data)


def swap_sections(data: bytearray, rng: random.Random) -> None:
    artifact = gr.from_bytes(bytes(data))
    container = artifact._container
    parts = [(s.kind, container.copy(i)) for i, s in enumerate(artifact.sections)]
    a, b = rng.sample(range(len(parts)), 2)
    parts[a], parts[b] = parts[b], parts[a]
    data[:] = b"".join(pack(parts))


VALUES = (None, True, -1, 0, 3, 2**70, "", "float64", "*", [], {}, [0], {"tuple": []}, 1.5)


def change_metadata(data: bytearray, rng: random.Random) -> None:
    """Replace, remove, copy or add something anywhere in the metadata."""
    artifact = gr.from_bytes(bytes(data))
    metadata = json.loads(json.dumps(dict(artifact.metadata)))
    places = []

    def visit(node) -> None:
        keys = node if isinstance(node, dict) else range(len(node))
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                visit(node[key])

    visit(metadata)
    node, key = rng.choice(places)
    match rng.randrange(4):
        case 0:
            node[key] = rng.choice(VALUES)
        case 1:
            del node[key]
        case 2:
            other, place = rng.choice(places)
            node[key] = json.loads(json.dumps(other[place]))
        case 3 if isinstance(node, list):
            node.insert(key, rng.choice(VALUES))
        case _:
            node[key] = [node[key]]
    container = artifact._container
    rest = [(s.kind, container.copy(i)) for i, s in enumerate(artifact.sections) if i]
    data[:] = b"".join(pack([("metadata", json.dumps(metadata).encode()), *rest]))


REPAIRED = (change_table, swap_sections, change_metadata)


def use(data: bytes) -> dict[str, bytes]:
    """The bytes of the results of both functions, after which all sections are verified."""
    artifact = gr.from_bytes(data)
    model, found = LoadedArtifact(artifact), {}
    for name in ("f", "g"):
        out = model[name](X)
        found[name] = np.asarray(out["y"] if name == "f" else out).tobytes()
    artifact.verify()
    return found


def check(intact: bytes, seed: int, kinds) -> None:
    rng = random.Random(seed)
    data = bytearray(intact)
    for _ in range(rng.choice([1, 1, 1, 3])):
        try:
            rng.choice(kinds)(data, rng)
        except (gr.ArtifactError, ValueError, IndexError):
            break  # changed before, so that this change has nothing to work on
    expected = use(intact)
    try:
        found = use(bytes(data))
    except (gr.ArtifactError, KeyError, TypeError, ValueError) as error:
        # A file without repaired checksums must raise an error of the package.
        assert kinds is REPAIRED or isinstance(error, gr.ArtifactError), (seed, error)
        return
    if kinds is RAW:
        assert found == expected, seed


@pytest.mark.parametrize("kinds", [RAW, REPAIRED], ids=["raw", "repaired"])
def test_some_changed_files(intact, kinds) -> None:
    for seed in range(250):
        check(intact, seed, kinds)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [RAW, REPAIRED], ids=["raw", "repaired"])
def test_ten_thousand_changed_files(intact, kinds) -> None:
    for seed in range(1000, 6000):
        check(intact, seed, kinds)
