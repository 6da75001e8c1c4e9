"""Functions with symbolic dimensions that are compiled once for all sizes.

Every op that `OPS` declares is run at nine sizes, and compared with the evaluator.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon_runtime
from gnomon import export, lax, nn
from gnomon.backends.iree.dynamic import lowering
from gnomon.backends.iree.pipeline import Pipeline
from gnomon.backends.iree.targets import find_target, incompatibility
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon_runtime.sizes import check_sizes
from tests.tolerance import assert_near

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
SIZES = 1, 2, 3, 5, 8, 17, 33, 64, 100

rng = np.random.default_rng(0)
W = rng.normal(size=(4, 6)).astype(F32)
TABLE = rng.normal(size=(10, 4)).astype(F32)
KERNEL = rng.normal(size=(3, 3, 2, 3)).astype(F32)


def perceptron(x):
    return nn.softmax(nn.relu(x @ W) @ W.T)


def image_classifier(x):
    y = lax.conv_general_dilated(
        x, KERNEL, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    y = lax.reduce_window(nn.relu(y), -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return nn.log_softmax(y.reshape(y.shape[0], -1))


def transformer(tokens):
    """Attention over embedded tokens, with residuals and normalization."""
    x = gnp.asarray(TABLE)[tokens]
    b, t, d = x.shape
    q = x.reshape(b, t, 2, d // 2).transpose(0, 2, 1, 3)
    scores = nn.softmax(q @ q.swapaxes(-1, -2) / 2)
    y = x + (scores @ q).transpose(0, 2, 1, 3).reshape(b, t, d)
    mean = y.mean(-1, keepdims=True)
    y = (y - mean) / gnp.sqrt(y.var(-1, keepdims=True) + 1e-5)
    return nn.log_softmax(nn.gelu(y @ W) @ W.T).max(axis=1)


def arithmetic(x):
    y = gnp.abs(x) + 0.5
    rounded = lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)
    return (
        x + y, x - y, x * y, x / y, -x, gnp.exp(x), gnp.log(y), gnp.sqrt(y), lax.rsqrt(y),
        gnp.tanh(x), nn.sigmoid(x), gnp.ceil(x), gnp.floor(x), gnp.round(x), rounded, gnp.sign(x),
        gnp.clip(x, -1, 1), gnp.maximum(x, 0.5), gnp.minimum(x, y), gnp.where(x > 0, x, y),
        x**3, gnp.isfinite(x), x != y, x.astype(I32), lax.clamp(np.float32(0), x, np.float32(1)),
    )  # fmt: skip


def integers(x):
    y = gnp.abs(x) + 1
    return (
        x & y, x | y, x ^ y, ~x, x << 2, x >> 1, lax.shift_right_logical(x, 1), x // y, x % y,
        x.astype(F32) / 2, (x > 0) & (y < 3), lax.bitcast_convert_type(x, F32), lax.rem(x, y),
        (lax.bitcast_convert_type(x, np.uint32) >> 3) * np.uint32(5) + gnp.uint32(7),
    )  # fmt: skip


def moves(x):
    return (
        x.T, x[::-1], x[:, ::-1], x[:, 1:3], x[:, ::2], gnp.concatenate([x, x, x[:1]]),
        gnp.concatenate([x, x], 1), x.reshape(-1), x.reshape(x.shape[0], 2, 2), x[:, :, None],
        gnp.tile(x, (2, 3)), gnp.repeat(x, 3, axis=0), gnp.broadcast_to(x, (3, *x.shape)),
        lax.dynamic_slice(x, (0, 1), (x.shape[0], 2)), gnp.pad(x, ((1, 2), (2, 1))),
        lax.pad(x, np.float32(2), ((1, 0, 0), (0, 1, 1))), x[0], x[-1], lax.optimization_barrier(x),
    )  # fmt: skip


def sizes_as_numbers(x):
    n = x.shape[0]
    return gnp.arange(n), x * n, gnp.ones((n, 3)) * gnp.arange(n)[:, None] + n // 2, gnp.eye(n)


def reductions(x):
    last = x.sum(-1), x.max(-1), x.min(-1), x.mean(-1), x.prod(-1), (x > 0).all(-1), x.argmax(-1)
    return (*last, x.max(0), x.argmax(0), x.argmin(0), (x > 0).any(0), x.var(1), x.std(1))


def products(x):
    return (
        x @ W, x @ x.T, gnp.einsum("bi,bj->bij", x, x), gnp.einsum("bi,bi->b", x, x),
        gnp.outer(x[:, 0], x[:, 1]), gn.vmap(lambda r: r @ W)(x),
    )  # fmt: skip


def windows(x):
    sums = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")
    flat = x.reshape(x.shape[0], -1)
    taken = gnp.take(flat, gnp.array([3, 0, 1]), axis=1)
    return sums, taken


PROGRAMS: dict[str, tuple[Any, tuple[str, ...], np.dtype]] = {
    "a perceptron": (perceptron, ("b,4",), F32),
    "an image classifier": (image_classifier, ("b,8,8,2",), F32),
    "a transformer": (transformer, ("b,5",), I32),
    "a gradient": (gn.grad(lambda x: gnp.sum(perceptron(x) ** 2)), ("b,4",), F32),
    "arithmetic": (arithmetic, ("b,4",), F32),
    "integers": (integers, ("b,4",), I32),
    "moves": (moves, ("b,4",), F32),
    "sizes as numbers": (sizes_as_numbers, ("b",), F32),
    "reductions": (reductions, ("b,4",), F32),
    "products": (products, ("b,4",), F32),
    "windows": (windows, ("b,6,6,2",), F32),
}


def exported_of(fun: Any, texts: Any, dtype: Any, constraints: Any = ()) -> export.Exported:
    scope = export.SymbolicScope(constraints)
    types = [gn.ShapeDtypeStruct(export.symbolic_shape(t, scope=scope), dtype) for t in texts]
    return export.export(gn.jit(fun))(*types)


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, tmp_path, target="cpu") -> None:
    fun, texts, dtype = PROGRAMS[name]
    export.save(tmp_path / "f.gnm", {"f": exported_of(fun, texts, dtype)}, targets=[target])
    loaded = gnomon_runtime.load(tmp_path / "f.gnm")["f"]
    for size in SIZES:
        shapes = [tuple(size if n == "b" else int(n) for n in t.split(",")) for t in texts]
        arrays = [np.asarray(3 * rng.normal(size=shape), dtype) for shape in shapes]
        results = gn.tree.leaves(loaded(*arrays))
        expected = gn.tree.leaves(fun(*map(gnp.asarray, arrays)))
        for result, wanted in zip(results, expected, strict=True):
            found, wanted = np.asarray(result), np.asarray(wanted)
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            if wanted.dtype == F32 and np.isfinite(wanted).all():
                scale = float(np.max(np.abs(wanted), initial=1.0))
                assert_near(found, wanted, 64, scale=scale)
            else:
                np.testing.assert_array_equal(found, wanted)


def test_every_declared_op_is_tested(monkeypatch) -> None:
    seen: set[str] = set()
    elements: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        seen.add(op.name)
        elements.update(lowering._dynamic_elements(op))
        return ir.WalkResult.ADVANCE

    monkeypatch.setattr(lowering, "_check_ops", lambda module: module.operation.walk(visit))
    pipeline = Pipeline(find_target("x86-64-v3"))
    for fun, texts, dtype in PROGRAMS.values():
        text = exported_of(fun, texts, dtype).programs["cpu"]
        lowering.lower_for_all_sizes(pipeline, Program(ir.Module.parse(text, context())))
    assert " ".join(sorted(lowering.OPS - seen)) == ""
    assert elements >= lowering.DTYPES


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v4"])
def test_programs_for_other_levels(name, target, tmp_path) -> None:
    if incompatibility(find_target(target)):
        pytest.skip(f"this machine does not run {target}")
    test_programs(name, tmp_path, target)


@pytest.mark.parametrize("target", ["aarch64-linux", "vulkan", "wasm32"])
def test_targets_on_which_dynamic_shapes_did_not_run(target, tmp_path) -> None:
    platforms = [target if target == "vulkan" else "cpu"]
    scope = export.SymbolicScope()
    type_ = gn.ShapeDtypeStruct(export.symbolic_shape("b", scope=scope), F32)
    exported = export.export(gn.jit(nn.relu), platforms=platforms)(type_)
    with pytest.raises(NotImplementedError, match=f"dynamic shapes were not run on {target}"):
        export.save(tmp_path / "f.gnm", {"f": exported}, targets=[target])


@pytest.fixture(scope="module")
def two_arrays(tmp_path_factory):
    """A file with a function of arrays with constraints on their sizes."""

    def scaled(x, y):
        return nn.relu(x) * y[:, None], x.reshape(-1)

    path = tmp_path_factory.mktemp("sizes") / "f.gnm"
    texts, constraints = ("b, 2*n", "b"), ("b >= 2", "n <= 4")
    export.save(path, {"scaled": exported_of(scaled, texts, F32, constraints)})
    return path


def test_one_module_runs_all_sizes(two_arrays) -> None:
    for load in gnomon_runtime.load, gn.load:
        scaled = load(two_arrays)["scaled"]
        for b, n in (2, 1), (7, 4), (100, 2):
            x, y = rng.normal(size=(b, 2 * n)).astype(F32), np.arange(b, dtype=F32)
            product, flat = scaled(x, y)
            assert product.shape == (b, 2 * n)
            np.testing.assert_array_equal(np.asarray(product), np.maximum(x, 0) * y[:, None])
            np.testing.assert_array_equal(np.asarray(flat), x.reshape(-1))
            # Results stay on the device, and are arguments of further calls.
            again, _ = scaled(product, y)
            np.testing.assert_array_equal(again, np.asarray(product) * y[:, None])


@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        (((3, 3), (3,)), ValueError, r"dimension 1 of .*x.* \(= 3\) leaves a remainder in 'n'"),
        (((1, 2), (1,)), ValueError, "constraint b >= 2: 1 >= 2 is false"),
        (((3, 10), (3,)), ValueError, "constraint n <= 4: 5 <= 4 is false"),
        (((3, 4), (4,)), ValueError, "specification 'b' of dimension 0 of argument 1: 4 == 3"),
        (((0, 4), (0,)), ValueError, "makes 'b' 0"),
        (((3,), (3,)), TypeError, r"must be f.*32\[b,2\*n\]"),
    ],
)
def test_sizes_that_do_not_fit(two_arrays, shapes, error, message) -> None:
    scaled = gnomon_runtime.load(two_arrays)["scaled"]
    with pytest.raises(error, match=message):
        scaled(*(np.ones(shape, F32) for shape in shapes))


@pytest.mark.parametrize(
    "notes",
    [
        None,
        {},
        {"steps": [["b", 0, 0, 0, 0]], "checks": []},
        {"steps": [["b", 9, 0, 1, 0]], "checks": []},
        {"steps": [["b", -1, 0, 1, 0]], "checks": []},
        {"steps": [], "checks": [["==", "b", 1, ""]]},
        {"steps": [], "checks": [["!=", 1, 1, ""]]},
        {"steps": [], "checks": [["==", ["floordiv", 1, 0], 1, ""]]},
        {"steps": [], "checks": [["==", json.loads('["+",1,' * 300 + "1" + "]" * 300), 1, ""]]},
    ],
)
def test_damaged_notes(notes) -> None:
    with pytest.raises(gnomon_runtime.ArtifactDamagedError, match="note on sizes is invalid"):
        check_sizes(notes, [(3,)], str, "f.gnm")


@pytest.mark.parametrize(
    ("fun", "reason"),
    [
        (lambda x: x.sum(), "is inconclusive"),
        (lambda x: x[1:], "the dimension b - 1, which may be 0"),
        (lambda x: lax.while_loop(lambda s: s[0, 0] < 9, lambda s: s + 1, x), "stablehlo.while"),
        (lambda x: gnp.cumsum(x, 0), "stablehlo.dynamic_pad is not known to be right"),
        (lambda x: x.astype(np.float16) + 1, "f16 is not known to be right"),
    ],
)
def test_programs_that_are_not_compiled_for_all_sizes_say_why(fun, reason, tmp_path) -> None:
    exported = exported_of(fun, ("b,4",), F32)
    with pytest.raises(NotImplementedError, match=f"compiled for all sizes.*{reason}"):
        export.save(tmp_path / "f.gnm", {"f": exported})
    x = np.ones((3, 4), F32)
    np.testing.assert_array_equal(exported.call(x), fun(gnp.asarray(x)))


# ------------------------------------------------------------------------------ Exported.call


def test_calls_share_one_program_from_the_second_size_on() -> None:
    exported = exported_of(lambda x: (nn.relu(x), x.T), ("b,4",), F32)
    for size in 3, 5, 3, 8, 1, 17:
        x = rng.normal(size=(size, 4)).astype(F32)
        positive, transposed = exported.call(gnp.asarray(x) if size == 8 else x)
        np.testing.assert_array_equal(positive, np.maximum(x, 0))
        np.testing.assert_array_equal(transposed, x.T)
        assert (positive.shape, positive.dtype) == (x.shape, F32)
    assert exported._for_all_sizes._compiled is not None
    assert len(exported._parsed_programs) == 1  # that of the first size


def test_results_of_calls_own_their_memory() -> None:
    exported = exported_of(lambda x: x, ("b",), F32)
    exported.call(np.ones(2, F32))
    x = np.ones(3, F32)
    result = exported.call(x)
    x[:] = 0
    np.testing.assert_array_equal(result, np.ones(3, F32))


def test_calls_that_are_refined_log_why(caplog) -> None:
    exported = exported_of(lambda x: gnp.cumsum(x, 0), ("b,4",), F32)
    with caplog.at_level("INFO", "gnomon.export"):
        for size in 2, 3, 4:
            x = np.ones((size, 4), F32)
            np.testing.assert_array_equal(exported.call(x), np.cumsum(x, 0))
    (message,) = [r.getMessage() for r in caplog.records if r.name == "gnomon.export"]
    assert "compiled for the sizes of each call: stablehlo.dynamic_pad" in message


def test_calls_in_transformations_are_refined() -> None:
    exported = exported_of(lambda x: nn.relu(x) * 2, ("b",), F32)
    for size in 2, 3, 4:
        x = np.ones(size, F32)
        np.testing.assert_array_equal(gn.grad(lambda x: exported.call(x).sum())(x), 2 * x)
        np.testing.assert_array_equal(gn.jit(exported.call)(x), 2 * x)
    assert exported._for_all_sizes._compiled is None
