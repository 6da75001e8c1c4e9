"""Reading functions that JAX exported, without JAX: a sealed one, damaged ones, foreign ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import export
from gnomon._export import jax_schema as schema
from gnomon._export.flatbuffers import Bytes, FlatBufferError, Numbers, root, to_bytes
from gnomon_runtime import ArtifactDamagedError, ArtifactError, ArtifactIncompatibleError

# Written by JAX 0.10.2:
#     def curve(x, scale):
#         return {"y": jnp.sin(x) * scale}
#     types = jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct((), np.float32)
#     data = jax.export.export(jax.jit(curve))(*types).serialize(vjp_order=1)
SEALED = (Path(__file__).parents[1] / "data" / "jax_0_10_export.bin").read_bytes()


def test_a_sealed_function_of_jax() -> None:
    exported = export.deserialize(SEALED)
    assert (exported.fun_name, exported.platforms) == ("curve", ("cpu",))
    x = np.array([0.5, -1, 2], np.float32)
    np.testing.assert_allclose(exported.call(x, np.float32(3))["y"], 3 * np.sin(x), 1e-6)
    gradient = gn.grad(lambda x: gnp.sum(exported.call(x, np.float32(3))["y"]))(x)
    np.testing.assert_allclose(gradient, 3 * np.cos(x), 1e-6)


def changed(**fields: Any) -> bytes:
    """A function with one argument and one result of float32, with other fields."""
    leaf = {schema.NODE_KIND: Numbers("b", schema.LEAF)}
    aval = {
        schema.AVAL_SHAPE: ["3"],
        schema.AVAL_DTYPE: Numbers("b", schema.DTYPES.index("float32")),
    }
    table: dict[int, Any] = {
        schema.NAME: "f",
        schema.IN_TREE: leaf,
        schema.IN_AVALS: [aval],
        schema.OUT_TREE: leaf,
        schema.OUT_AVALS: [aval],
        schema.PLATFORMS: ["cpu"],
        schema.MODULE: Bytes(root(SEALED).data(schema.MODULE)),
        schema.CONVENTION: Numbers("H", 9),
        schema.KEPT: Numbers("H", [0]),
        schema.DEVICES: Numbers("I", 1),
    }
    return to_bytes({**table, **{getattr(schema, name): value for name, value in fields.items()}})


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"DEVICES": Numbers("I", 4)}, ArtifactIncompatibleError, "'f', .* is for 4 devices"),
        ({"CONVENTION": Numbers("H", 8)}, ArtifactIncompatibleError, "convention 8; .* 9 and 10"),
        ({"ORDERED_EFFECTS": [{0: "Print"}]}, ArtifactIncompatibleError, r"effects \(Print\)"),
        ({"IN_AVALS": [{2: Numbers("b", 99)}]}, ArtifactIncompatibleError, "dtype .* 99"),
        ({"IN_AVALS": [{1: ["("], 2: Numbers("b", 3)}]}, ArtifactDamagedError, r"the shape \(\(\)"),
        ({"IN_AVALS": []}, ArtifactDamagedError, "takes arguments that it does not have"),
        ({"OUT_AVALS": []}, ArtifactDamagedError, "1 leaves instead of 0"),
        ({"IN_TREE": {0: Numbers("b", 9)}}, ArtifactDamagedError, "unknown kind 9"),
        ({"IN_TREE": {0: Numbers("b", 5), 3: "Unknown"}}, ValueError, "serialized as 'Unknown'"),
        ({"IN_AVAL_INDICES": Numbers("I", [7])}, ArtifactDamagedError, "a type that is not there"),
        ({}, ArtifactDamagedError, "is damaged: "),  # The program takes two arguments.
    ],
)
def test_what_cannot_be_read_is_named(
    fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        export.deserialize(changed(**fields))


def test_damaged_bytes_end_in_an_error() -> None:
    drawn = random.Random(0)
    for _ in range(60):
        data = bytearray(SEALED)
        # The tables lie at the ends, the programs between them; their reader has tests of its own.
        for _ in range(drawn.choice((1, 3))):
            at = drawn.choice((drawn.randrange(200), -drawn.randrange(1, 900)))
            data[at] = drawn.randrange(256)
        try:
            exported = export.deserialize(
                data[: drawn.choice((len(data), drawn.randrange(len(data))))]
            )
            if exported.has_vjp():
                exported.vjp()
        except (ArtifactError, ValueError) as error:
            assert not isinstance(error, FlatBufferError)


def test_flatbuffers_are_read_as_written() -> None:
    table = {
        0: Numbers("b", -3),
        2: ["a", "β"],
        3: Numbers("H", [1, 65535]),
        5: {1: Bytes(b"\0\1")},
    }
    read = root(to_bytes(table))
    assert (read.number(0, "b"), read.number(1, "I"), read.number(9, "I")) == (-3, 0, 0)
    assert (read.texts(2), read.numbers(3, "H"), read.texts(4)) == (["a", "β"], [1, 65535], [])
    inner = read.table(5)
    assert inner is not None
    assert (inner.data(1), read.table(6)) == (b"\0\1", None)
    for damaged in (b"", b"\xff\xff\xff\xff", to_bytes(table)[:30]):
        with pytest.raises(FlatBufferError):
            root(damaged).texts(2)
