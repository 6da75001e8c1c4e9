"""Artifacts of each released version of the format: they open for ever, with their values.

A new version of the format gets a file of its own from this program, and no file is written again:

    def sealed(x, options):
        return {"powers": (x**3 + BIAS, None), "chosen": x[0][options["rows"]]}

    types = gn.ShapeDtypeStruct((2, 3), np.float32), {"rows": gn.ShapeDtypeStruct((2,), np.int32)}
    exported = export.export(gn.jit(sealed))(*types)
    export.save("sealed_1.gnm", {"sealed": exported}, targets=[], vjp_order=1)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gnomon as gn
import gnomon_runtime
from gnomon import export
from gnomon._export import serialization
from tests.tolerance import assert_each_near

SEALED = sorted((Path(__file__).parents[1] / "data").glob("sealed_*.gnm"))
X = np.array([[-2, 0.5, 3], [1, -1, 0]], np.float32)
BIAS = np.array([0.25, -0.5, 1], np.float32)


def test_every_version_of_the_format_has_a_file() -> None:
    assert [path.name for path in SEALED] == ["sealed_1.gnm"]


@pytest.mark.parametrize("path", SEALED, ids=lambda path: path.stem)
@pytest.mark.parametrize("is_older", [False, True], ids=["as it is", "dialect is older"])
def test_sealed_artifacts_have_their_values(
    path: Path, is_older: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of an older version of the dialect is raised from its portable form."""
    if is_older:
        monkeypatch.setattr(serialization, "dialect_fingerprint", lambda: "another")
    rows = np.array([2, 0], np.int32)
    expected = {
        "powers": (X**3 + BIAS, None),
        "chosen": X[0][rows],
    }
    exported = export.load_exported(path)["sealed"]
    stored = gnomon_runtime.read(path).program("sealed", "cpu").decode()
    assert not is_older or exported.programs["cpu"] != stored
    result = exported.call(X, {"rows": rows})
    assert gn.tree.structure(result) == gn.tree.structure(expected)
    assert_each_near(gn.tree.leaves(result), gn.tree.leaves(expected), 4)
    gradient = gn.grad(lambda x: exported.call(x, {"rows": rows})["powers"][0].sum())(X)
    assert_each_near(np.asarray(gradient), 3 * X**2, 4)
    compiled = gn.load(path)(X, {"rows": rows})
    assert_each_near([np.asarray(v) for v in gn.tree.leaves(compiled)], gn.tree.leaves(expected), 4)
