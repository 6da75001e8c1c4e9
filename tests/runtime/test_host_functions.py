"""Artifacts whose programs leave factorizations to NumPy."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon.scipy.linalg as gsl
import gnomon_runtime as gr
from gnomon import export, lax
from gnomon.backends.iree.legalize.host_ops import HOST_OPS
from gnomon.dialects.contract import REGISTRY
from gnomon_runtime.linear_algebra.functions import FUNCTIONS
from gnomon_runtime.running import LoadedArtifact
from gnomon_runtime.writing import pack
from tests.runtime.test_running import BLOCK

MATRIX = np.random.default_rng(0).standard_normal((2, 5, 5)).astype(np.float32)
SPEC = gn.ShapeDtypeStruct(MATRIX.shape, MATRIX.dtype)


def factorizations(a):
    """Every host function, some through functions of `gnomon.numpy` and `gnomon.scipy`."""
    positive = a @ a.mT + 4 * gnp.eye(a.shape[-1])
    half = gnp.linalg.cholesky(positive)
    factors, pivots, permutation = lax.linalg.lu(a)
    return {
        "cholesky": half,
        "triangular": gsl.solve_triangular(half, a, lower=True),
        "solve": gnp.linalg.solve(positive, a),
        "lu": (factors, pivots, permutation, lax.linalg.lu_pivots_to_permutation(pivots, 6)),
        "det": gnp.linalg.det(a),
        "cofactors": gn.grad(lambda x: gnp.sum(gnp.linalg.det(x)))(a),
        "slogdet": tuple(gnp.linalg.slogdet(a)),
        "qr": (*gnp.linalg.qr(a), *lax.linalg.qr(a, pivoting=True)),
        "svd": tuple(gnp.linalg.svd(a)),
        "pinv": gnp.linalg.pinv(a),
        "eigh": tuple(gnp.linalg.eigh(positive)),
        "eigvalsh": gnp.linalg.eigvalsh(positive),
        "eig": tuple(lax.linalg.eig(a)),
        "schur": lax.linalg.schur(a),
        "hessenberg": lax.linalg.hessenberg(a),
        "tridiagonal": lax.linalg.tridiagonal(positive),
        "tridiagonal_solve": lax.linalg.tridiagonal_solve(a[:, 0], a[:, 1] + 4, a[:, 2], a),
        "geqrf": tuple(gnp.linalg.qr(a, mode="raw")),
        "householder": lax.linalg.householder_product(a, a[:, 0] / 8),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("artifacts") / "factorizations.gnm"
    export.save(path, {"f": (gn.jit(factorizations), (SPEC,))})
    return path


def with_host_function(path, change) -> bytes:
    """The artifact with its first host function changed, and right checksums."""
    artifact = gr.read(path)
    metadata = json.loads(json.dumps(dict(artifact.metadata)))
    (module,) = metadata["entries"]["f"]["modules"].values()
    change(module["host"][0])
    container = artifact._container
    rest = [(s.kind, container.copy(i)) for i, s in enumerate(artifact.sections) if i]
    return b"".join(pack([("metadata", json.dumps(metadata).encode()), *rest]))


def test_the_functions_are_those_by_which_the_dialect_evaluates() -> None:
    left_to_python = {
        name.removeprefix("gnomon.") for name in HOST_OPS if not name.endswith("callback")
    }
    assert set(FUNCTIONS) == left_to_python
    for name, function in FUNCTIONS.items():
        assert REGISTRY[f"gnomon.{name}"].evaluate is function, name


def test_host_functions_agree_with_jit(path) -> None:
    found = gr.load(path)(MATRIX)
    expected = gn.jit(factorizations)(MATRIX)
    (module,) = gr.read(path).entry("f").modules.values()
    assert {function.op for function in module.host} == set(FUNCTIONS)
    leaves, structure = gn.tree.flatten(found)
    others, same = gn.tree.flatten(expected)
    assert structure == same
    for one, other in zip(leaves, others, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-4)


def test_they_run_without_the_compiler(path) -> None:
    program = BLOCK + (
        "import numpy as np, gnomon_runtime\n"
        "out = gnomon_runtime.load(sys.argv[1])(np.eye(5, dtype='f4')[None].repeat(2, 0) * 2)\n"
        "print(np.asarray(out['det']).tolist(), np.asarray(out['svd'][1]).tolist())"
    )
    command = [sys.executable, "-c", program, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == f"{[32.0] * 2} {[[2.0] * 5] * 2}"


def test_a_derivative_and_a_loop(tmp_path) -> None:
    def value(a):
        def body(carry, x):
            return carry + gnp.sum(gnp.linalg.cholesky(x @ x.T + gnp.eye(9)) ** 2), ()

        return lax.scan(body, 0.0, a)[0]

    gradient = gn.jit(gn.grad(value))
    matrices = np.random.default_rng(0).standard_normal((2, 9, 9)).astype(np.float32)
    spec = gn.ShapeDtypeStruct(matrices.shape, matrices.dtype)
    export.save(tmp_path / "f.gnm", {"f": (gradient, (spec,))})
    found = np.asarray(gr.load(tmp_path / "f.gnm")(matrices))
    np.testing.assert_allclose(found, np.asarray(gradient(matrices)), rtol=1e-4, atol=1e-4)


def test_a_matrix_that_has_no_factors_gives_nan(path) -> None:
    matrices = MATRIX.copy()
    matrices[1, 0, 0] = np.inf
    out = gr.load(path)(matrices)
    singular = np.asarray(out["svd"][1])
    assert np.isfinite(singular[0]).all() and np.isnan(singular[1]).all()


def test_large_arrays_are_read_in_place_and_results_do_not_share_memory(tmp_path) -> None:
    spec = gn.ShapeDtypeStruct((96, 96), np.float32)
    export.save(tmp_path / "f.gnm", {"f": (gn.jit(gnp.linalg.cholesky), (spec,))})
    function = gr.load(tmp_path / "f.gnm")
    matrix = np.eye(96, dtype=np.float32) * 4
    first, second = function(matrix), function(matrix)
    matrix[:] = 0
    for one in (first, second):
        np.testing.assert_array_equal(np.asarray(one), np.eye(96, dtype=np.float32) * 2)


def test_a_module_that_calls_an_unknown_function_is_passed_over_by_name(path) -> None:
    data = with_host_function(path, lambda function: function.update(op="from_the_future"))
    with pytest.raises(gr.MissingModuleError, match="calls from_the_future, which this version"):
        LoadedArtifact(gr.from_bytes(data))["f"](MATRIX)


@pytest.mark.parametrize(
    "change",
    [
        {"params": {"lower": "yes"}},
        {"params": []},
        {"op": 3},
        {"operands": [{"shape": [2, -1], "dtype": "float32"}]},
        {"results": None},
    ],
    ids=str,
)
def test_an_invalid_table_is_refused_when_it_is_read(path, change) -> None:
    with pytest.raises(gr.ArtifactDamagedError, match="metadata"):
        gr.from_bytes(with_host_function(path, lambda function: function.update(change)))


@pytest.mark.parametrize(
    "change",
    [
        {"params": {"unknown": 1}},
        {"op": "svd", "params": {"full_matrices": True, "compute_uv": True}},
        {"operands": [{"shape": [200, 4, 4], "dtype": "float32"}]},
        {"results": [{"shape": [1, 4, 4], "dtype": "float32"}]},
        {"operands": []},
        {"name": "f99"},
    ],
    ids=str,
)
def test_a_table_that_contradicts_its_module_is_an_error(path, change) -> None:
    data = with_host_function(path, lambda function: function.update(change))
    with pytest.raises(gr.ProgramError, match=r"the module of f for"):
        LoadedArtifact(gr.from_bytes(data))["f"](MATRIX)


def test_a_target_without_numpy_is_refused_when_it_is_exported(tmp_path) -> None:
    functions = {"f": (gn.jit(gnp.linalg.qr), (SPEC,))}
    with pytest.raises(gn.errors.UnsupportedOnTarget, match=r"gnomon\.qr.*wasm32"):
        export.save(tmp_path / "f.gnm", functions, targets=["cpu", "wasm32"])
    assert not (tmp_path / "f.gnm").exists()


@pytest.mark.vulkan
def test_they_run_together_with_vulkan(tmp_path) -> None:
    functions = {"f": (gn.jit(lambda a: gnp.linalg.solve(a @ a.mT + gnp.eye(5), a)), (SPEC,))}
    export.save(tmp_path / "f.gnm", functions, targets=["vulkan", "cpu"])
    ours, others = (gr.load(tmp_path / "f.gnm", platform=p)(MATRIX) for p in ("vulkan", "cpu"))
    assert ours.device.driver == "vulkan"
    np.testing.assert_allclose(np.asarray(ours), np.asarray(others), rtol=1e-4, atol=1e-5)
