"""The StableHLO of exported functions with symbolic dimensions, run by JAX's shape refinement."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.export as jax_export
import numpy as np
import pytest

import gnomon as gn
import gnomon.backends.compilation as lowering
from gnomon import export
from gnomon.dialects.mlir import context, ensure_context, stablehlo
from gnomon.passes.lower import LoweringError
from tests.frontend.test_export_symbolic import OURS, PROGRAMS, THEIRS, shape_of, specs
from tests.tolerance import assert_near

F32 = np.dtype(np.float32)

# Programs with an op that StableHLO cannot express for symbolic dimensions, and the op's name.
WITHOUT_FORM = {
    "a linear system": "gnomon.solve",
    "a window of a whole dimension": "gnomon.reduce_window_sum",
}


def run_by_jax(exported: Any, texts: Any, make: Any, arrays: Any) -> list[Any]:
    """The results of a module: JAX refines it for the arguments, and runs it.

    JAX exports the same function for the metadata of the call.
    """
    ensure_context()
    module = stablehlo.deserialize_portable_artifact(context(), exported.mlir_module_serialized)
    closed_over = [np.asarray(x) for x in exported.closed_over]
    constraints = ("a >= 2",) if any("a" in text for text in texts) else ()
    types = [
        *specs(jax_export, jax.ShapeDtypeStruct, texts, constraints),
        *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in closed_over),
    ]
    count = len(texts)
    theirs = jax_export.export(jax.jit(lambda *xs: make(THEIRS)(*xs[:count])))(*types)
    ours = dataclasses.replace(
        theirs,
        mlir_module_serialized=lowering.serialize(module, "1.13.0"),
        module_kept_var_idx=tuple(range(len(types))),
    )
    return jax.tree.leaves(ours.call(*arrays, *closed_over))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_lowered(name: str) -> None:
    make, texts = PROGRAMS[name]
    exported = export.export(gn.jit(make(OURS)))(*specs(export, gn.ShapeDtypeStruct, texts))
    if name in WITHOUT_FORM:
        message = rf"{WITHOUT_FORM[name]} cannot be lowered with symbolic dimensions.*\(loc\("
        with pytest.raises(LoweringError, match=message):
            exported.mlir_module()
    else:
        assert "?" in exported.mlir_module()


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in WITHOUT_FORM])
def test_programs(name: str) -> None:
    make, texts = PROGRAMS[name]
    exported = export.export(gn.jit(make(OURS)))(*specs(export, gn.ShapeDtypeStruct, texts))
    rng = np.random.default_rng(0)
    for values in {"a": 5, "b": 3}, {"a": 2, "b": 1}:
        arrays = [rng.normal(size=shape_of(text, values)).astype(F32) for text in texts]
        results = run_by_jax(exported, texts, make, arrays)
        expected = gn.tree.leaves(make(OURS)(*map(gn.numpy.asarray, arrays)))
        for result, wanted in zip(results, expected, strict=True):
            assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
            scale = np.max(np.abs(np.asarray(wanted)), initial=1.0)
            assert_near(np.asarray(result), np.asarray(wanted), 64, scale=float(scale))


def test_sizes_are_checked_as_by_jax() -> None:
    """The module checks the specification and the constraints when its sizes are refined."""
    texts = ("a,2*b", "a+b")
    make = PROGRAMS["ravel"][0]

    def fun(m):
        return lambda x, y: make(m)(x)

    types = specs(export, gn.ShapeDtypeStruct, texts)
    exported = export.export(gn.jit(fun(OURS)))(*types)
    right = [np.ones((3, 4), F32), np.ones(5, F32)]
    assert run_by_jax(exported, texts, fun, right)[0].shape == (12,)
    text = exported.mlir_module()
    for check in "is not a multiple of 2 in the value of 'b'", "constraint a >= 2":
        assert check in text
    assert "the specification 'b + a'" in text or "the specification 'a + b'" in text
    assert text.count("@shape_assertion") == 5


def test_constraints_that_hold_and_do_not() -> None:
    exported = export.export(gn.jit(lambda x: x * 2))(
        *specs(export, gn.ShapeDtypeStruct, ("a",), ("mod(a, 3) == 2", "a >= 5"))
    )
    jitted = jax.jit(lambda x: x * 2)
    theirs = jax_export.export(jitted)(*specs(jax_export, jax.ShapeDtypeStruct, ("a",), ()))
    ensure_context()
    module = stablehlo.deserialize_portable_artifact(context(), exported.mlir_module_serialized)
    ours = dataclasses.replace(theirs, mlir_module_serialized=lowering.serialize(module, "1.13.0"))
    np.testing.assert_array_equal(ours.call(np.ones(8, F32)), 2 * np.ones(8, F32))
    for size, constraint in (2, "a >= 5. The left side is 2"), (9, "mod(a, 3) == 2. The left"):
        with pytest.raises(ValueError, match="refining shapes") as caught:
            ours.call(np.ones(size, F32))
        assert f"symbolic shape constraint {constraint}" in str(caught.value.__cause__)


def test_a_negative_index_wraps_at_a_symbolic_size() -> None:
    def fun(m):
        return lambda x: m.lax.dynamic_slice(x, (-1,), (1,))

    exported = export.export(gn.jit(fun(OURS)))(*specs(export, gn.ShapeDtypeStruct, ("a",)))
    x = np.arange(5, dtype=F32)
    np.testing.assert_array_equal(run_by_jax(exported, ("a",), fun, [x])[0], x[-1:])
    np.testing.assert_array_equal(exported.call(x), x[-1:])
